//! Runs the commands that the README and the guide show, and compares what they print.
//!
//! A fence of the language `console` is a transcript: lines that begin with `$ ` are commands of
//! `sh` (a backslash continues one), and what follows is what they print on both streams. A line
//! `…` stands for any number of lines; a last command may print less than all. The fences of one
//! document share a temporary folder. `BLESS=1` writes what the commands print into the documents,
//! but for fences with `…`.
//!
//! A fence of the language `sh` holds commands that build, need the network or another machine.
//! They are not run, but each names a program, a task, a test target and options that exist.

#![cfg(unix)]
#![allow(clippy::print_stderr, reason = "a test runner talks to its user")]

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs, io};

/// Stands for any number of lines of output.
const ELLIPSIS: &str = "…";

/// Languages of fences that hold no commands.
const SHOWN: [&str; 8] = ["text", "ir", "c", "rust", "python", "json", "diff", "toml"];

/// Programs that are not ours, as the commands of `sh` fences begin.
const OTHERS: [&str; 6] = ["export", "git", "pip", "sbatch", "seq", "python"];

fn main() -> ExitCode {
    let documents = documents().expect("the documents can be read");
    let trials = documents.into_iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Trial::test(name, move || check(&path).map_err(Failed::from))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and the chapters of the guide.
fn documents() -> io::Result<Vec<PathBuf>> {
    let guide = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("guide"))?;
    let mut found: Vec<PathBuf> = guide.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.push(root().join("README.md"));
    found.sort();
    Ok(found)
}

/// A fence: its language, the number of its first line, and its lines.
struct Fence<'a> {
    language: &'a str,
    start: usize,
    lines: Vec<&'a str>,
}

/// The fences of a document, in order.
fn fences(text: &str) -> Vec<Fence<'_>> {
    let (mut found, mut open) = (Vec::new(), None::<Fence<'_>>);
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(_), Some(fence)) => found.push(fence),
            (Some(language), None) => open = Some(Fence { language, start: number + 1, lines: Vec::new() }),
            (None, Some(mut fence)) => {
                fence.lines.push(line);
                open = Some(fence);
            }
            (None, None) => {}
        }
    }
    found
}

/// A command and what the document says that it prints.
struct Step {
    command: String,
    printed: Vec<String>,
}

/// The commands of a transcript.
fn steps(lines: &[&str]) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continues = false;
    for line in lines {
        match (steps.last_mut(), line.strip_prefix("$ ")) {
            (Some(step), _) if continues => step.command = format!("{}\n{line}", step.command),
            (_, Some(command)) => steps.push(Step { command: command.to_owned(), printed: Vec::new() }),
            (Some(step), None) => {
                step.printed.push((*line).to_owned());
                continue;
            }
            (None, None) => return Err(format!("a transcript begins with `$ `, not with `{line}`")),
        }
        continues = line.ends_with('\\');
    }
    Ok(steps)
}

/// Whether `printed` is what `expected` shows, where `…` stands for any number of lines.
fn fits(expected: &[String], printed: &[&str]) -> bool {
    match expected {
        [] => printed.is_empty(),
        [first, rest @ ..] if first.trim() == ELLIPSIS => (0..=printed.len()).any(|skip| fits(rest, &printed[skip..])),
        [first, rest @ ..] => printed.first() == Some(&first.as_str()) && fits(rest, &printed[1..]),
    }
}

/// The output of a command of `sh` on both streams, in `folder`.
fn output(command: &str, folder: &Path) -> Result<String, String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_jitopt")).parent().ok_or("the binary lies in no folder")?;
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("exec 2>&1\n{command}")).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", path).env("JITOPT_CACHE", folder.join(".cache")).env("COLUMNS", "100");
    let ran = shell.output().map_err(|error| format!("{command}: {error}"))?;
    String::from_utf8(ran.stdout).map_err(|error| format!("{command}: {error}"))
}

/// Runs all transcripts of a document.
fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = env::temp_dir().join(format!("jitopt-documents-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let repository = root().canonicalize().map_err(|error| error.to_string())?;
    for shown in ["testdata", "src"] {
        std::os::unix::fs::symlink(repository.join(shown), folder.join(shown)).map_err(|error| error.to_string())?;
    }
    let result = check_in(&text, &name, &folder);
    let _ = fs::remove_dir_all(&folder);
    let written = result?;
    if env::var_os("BLESS").is_some() && written != text {
        fs::write(path, written).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The document with what its commands print.
fn check_in(text: &str, name: &str, folder: &Path) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut edits = Vec::new();
    for fence in fences(text) {
        if SHOWN.contains(&fence.language) {
            continue;
        }
        if fence.language == "sh" {
            let mut lines = fence.lines.iter().filter(|line| !line.starts_with('#'));
            lines.try_for_each(|line| exists(line)).map_err(|why| format!("{name}: {why}"))?;
            continue;
        }
        if fence.language != "console" {
            return Err(format!("{name}:{}: a fence of the language `{}` is not known", fence.start, fence.language));
        }
        let written = run_fence(&fence, name, folder)?;
        edits.push((fence.start, fence.lines.len(), written));
    }
    for (start, length, written) in edits.into_iter().rev() {
        lines.splice(start..start + length, written);
    }
    Ok(lines.join("\n") + "\n")
}

/// Whether what a line of `sh` names exists.
fn exists(line: &str) -> Result<(), String> {
    // Variables may be set before a program: `NAME=value cargo test`.
    let is_set = |word: &&str| {
        word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c == '_' || c.is_ascii_uppercase()))
    };
    let words: Vec<&str> = line.split_whitespace().skip_while(is_set).collect();
    match words.as_slice() {
        ["jitopt", ..] => Err(format!("`{line}` belongs in a fence `console`, which is run")),
        ["cargo", "xtask", task, ..] => {
            let tasks =
                fs::read_to_string(root().join("tools/xtask/src/main.rs")).map_err(|error| error.to_string())?;
            let is_task = tasks.contains(&format!("\ncargo xtask {task} "));
            if is_task { Ok(()) } else { Err(format!("`{line}`: there is no such task")) }
        }
        ["cargo", "test", rest @ ..] => tests_exist(rest),
        ["cargo", "run", rest @ ..] if rest.contains(&"jitopt-mutation") => {
            let options = "tools/mutation/src/main.rs";
            let known = fs::read_to_string(root().join(options)).map_err(|error| error.to_string())?;
            options_exist(rest.rsplit(|word| *word == "--").next().unwrap_or_default(), &known)
        }
        ["cargo", "run", rest @ ..] => ours_exist(rest.splitn(2, |word| *word == "--").nth(1).unwrap_or_default()),
        [first, rest @ ..] if OTHERS.contains(first) => {
            let is_ours = |word: &&str| word.trim_start_matches(|c: char| !c.is_alphanumeric()).ends_with("jitopt");
            rest.iter().position(is_ours).map_or(Ok(()), |at| ours_exist(&rest[at + 1..]))
        }
        _ => Err(format!("`{line}`: the program is not known")),
    }
}

/// Whether the packages and test targets of `cargo test` exist.
fn tests_exist(words: &[&str]) -> Result<(), String> {
    for pair in words.windows(2) {
        let path = match pair {
            ["--test", target] => format!("tools/opt/tests/{target}/main.rs"),
            ["-p", "jitopt-core"] => "src/lib.rs".to_owned(),
            ["-p", "jitopt"] => "tools/opt/Cargo.toml".to_owned(),
            ["-p", package] => format!("tools/{}/Cargo.toml", package.trim_start_matches("jitopt-")),
            _ => continue,
        };
        if !root().join(&path).is_file() {
            return Err(format!("`{}`: there is no {path}", words.join(" ")));
        }
    }
    Ok(())
}

/// Whether `jitopt` has this subcommand and these options.
fn ours_exist(words: &[&str]) -> Result<(), String> {
    let subcommand = words.first().filter(|word| word.chars().all(char::is_alphanumeric)).unwrap_or(&"");
    let mut help = Command::new(env!("CARGO_BIN_EXE_jitopt"));
    help.args([subcommand, "--help"].iter().filter(|word| !word.is_empty()));
    let help = help.output().map_err(|error| error.to_string())?;
    if !help.status.success() {
        return Err(format!("there is no `jitopt {subcommand}`"));
    }
    options_exist(words, &String::from_utf8_lossy(&help.stdout))
}

/// Whether each option is among the known ones.
fn options_exist(words: &[&str], known: &str) -> Result<(), String> {
    let options = words.iter().filter_map(|word| word.strip_prefix("--")).map(|word| word.split('=').next());
    let missing = options.flatten().find(|option| !known.contains(&format!("--{option}")));
    missing.map_or(Ok(()), |option| Err(format!("there is no option `--{option}`")))
}

/// The lines of a transcript as its commands print them; an error where they differ and nothing is
/// blessed.
fn run_fence(fence: &Fence<'_>, name: &str, folder: &Path) -> Result<Vec<String>, String> {
    let mut written = Vec::new();
    for step in steps(&fence.lines).map_err(|error| format!("{name}:{}: {error}", fence.start))? {
        let printed = output(&step.command, folder)?;
        let printed: Vec<&str> = printed.lines().collect();
        written.extend(format!("$ {}", step.command).lines().map(str::to_owned));
        let elided = step.printed.iter().any(|line| line.trim() == ELLIPSIS);
        let same = fits(&step.printed, &printed);
        if !same && (elided || env::var_os("BLESS").is_none()) {
            let (expected, printed) = (step.printed.join("\n"), printed.join("\n"));
            return Err(format!(
                "{name}:{}: `{}` prints\n{printed}\n--- and not\n{expected}",
                fence.start, step.command
            ));
        }
        let lines = if same { step.printed } else { printed.into_iter().map(str::to_owned).collect() };
        written.extend(lines);
    }
    Ok(written)
}
