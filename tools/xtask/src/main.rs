//! `cargo xtask`: maintenance tasks of the repository.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod covering;
mod emitted_mutants;
mod faults;
mod ledger;
mod new_operator;
mod new_pass;
mod sizes;

use anyhow::{Context, Result, bail, ensure};
use jitopt_tidy::documents;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
cargo xtask check                     run all checks of ci/check.sh
cargo xtask fmt                       format the code, including passes and fuzz targets
cargo xtask bless [FILTER]            update snapshots of lit tests and generated text
cargo xtask new-pass NAME [SUMMARY]   create a pass: its file, its registry row, its lit file
cargo xtask mutants [FILTER] [--hours H] [--every N] [--graphs N] [--anew]
                                      insert the faults of the .mutants files in a copy of the tree, and see
                                      which ones tests and validation find, on N random graphs (1000);
                                      FILTER has parts of their names or files, separated by commas;
                                      validation judges every Nth; a run goes on where the last one stopped
cargo xtask emitted-mutants JITOPT [N] [CASE]
                                      insert N (200) errors into the CUDA C of kernels, or of one
                                      CASE such as scan, and see whether --backend=cuda-checked of
                                      a built jitopt finds them
cargo xtask new-operator KIND         create an operator: its row, its kernel, its lit file; KIND may be a schema
cargo xtask mutate HOURS [SEEDS...]   run mutation tests for HOURS on all but one core; see tools/mutation
cargo xtask sizes [BASE]              print line counts and function lengths, with the change since a Git revision
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match chore(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Reported>() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore(arguments: &[&str]) -> Result<()> {
    let root = root();
    match arguments {
        ["check"] => run(Command::new("bash").arg(root.join("ci/check.sh"))),
        ["fmt"] => format(&root),
        ["bless", rest @ ..] if rest.len() < 2 => bless(&root, rest.first().copied()),
        ["mutants", rest @ ..] => mutants(&root, rest),
        ["emitted-mutants", jitopt] => emitted_mutants::run(&root, jitopt, 200, None),
        ["emitted-mutants", jitopt, wanted] => emitted_mutants::run(&root, jitopt, wanted.parse()?, None),
        ["emitted-mutants", jitopt, wanted, case] => emitted_mutants::run(&root, jitopt, wanted.parse()?, Some(case)),
        ["mutate", hours, seeds @ ..] => mutate(&root, hours, seeds),
        ["new-operator", operator] => new_operator::begin(&root, operator),
        ["new-pass", name] => new_pass::begin(&root, name, "say in one line what it does"),
        ["new-pass", name, summary] => new_pass::begin(&root, name, summary),
        ["sizes"] => sizes::print(&root, None),
        ["sizes", base] => sizes::print(&root, Some(base)),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => bail!("there is no task `{}`\n{HELP}", arguments.join(" ")),
    }
}

/// A failure that the failed command already reported.
#[derive(Debug)]
struct Reported;

impl std::fmt::Display for Reported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("see above")
    }
}

impl std::error::Error for Reported {}

/// The root directory of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Runs a command to completion.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => bail!("{command:?}: {status}"),
    }
}

/// Reads the arguments of `mutants`.
fn mutants(root: &Path, arguments: &[&str]) -> Result<()> {
    let mut selection = faults::Selection { filter: String::new(), hours: None, every: 1, graphs: 1000, anew: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || rest.next().with_context(|| format!("{argument} has no number\n{HELP}"));
        match *argument {
            "--hours" => selection.hours = Some(number()?.parse().with_context(|| format!("{argument} takes hours"))?),
            "--every" => selection.every = number()?.parse().with_context(|| format!("{argument} takes a number"))?,
            "--graphs" => selection.graphs = number()?.parse().with_context(|| format!("{argument} takes a number"))?,
            "--anew" => selection.anew = true,
            filter if selection.filter.is_empty() && !filter.starts_with('-') => selection.filter = filter.to_owned(),
            other => bail!("unexpected argument `{other}`\n{HELP}"),
        }
    }
    faults::run(root, &selection)
}

/// Runs mutation tests for hours; failing mutants are saved in `target/mutants`.
fn mutate(root: &Path, hours: &str, seeds: &[&str]) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, |n| n.get().saturating_sub(1).max(1)).to_string();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs().to_string();
    let mut command = Command::new("cargo");
    command.args(["run", "--release", "-p", "jitopt-mutation", "--", "--hours", hours, "--jobs", &jobs]);
    // The seed is the time, so that each run tries other mutants.
    command.args(["--seed", &since, "--failures"]).arg(root.join("target/mutants")).args(seeds);
    run(command.current_dir(root))
}

/// `cargo fmt` only follows `mod`: passes are declared by a macro, and the fuzz targets are not
/// workspace members.
fn format(root: &Path) -> Result<()> {
    run(Command::new("cargo").args(["fmt", "--all"]).current_dir(root))?;
    let mut files = Vec::new();
    for folder in ["passes", "tools/fuzz/src", "tools/fuzz/fuzz_targets"] {
        let entries = std::fs::read_dir(root.join(folder))?.filter_map(|entry| Some(entry.ok()?.path()));
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")));
    }
    run(Command::new("rustfmt").args(["--edition", "2024"]).args(files).current_dir(root))
}

fn bless(root: &Path, filter: Option<&str>) -> Result<()> {
    let jitopt = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(["run", "--package", "jitopt", "--"]).args(arguments).current_dir(root);
        command
    };
    let mut tests = jitopt(&["test", "testdata", "--bless"]);
    let status = tests.args(filter.map(|filter| format!("--filter={filter}"))).status()?;
    ensure!(status.success(), Reported);
    let listed = jitopt(&["--list-passes=markdown"]).stderr(Stdio::null()).output()?;
    let path = root.join(documents::PASS_CHAPTER);
    let text = std::fs::read_to_string(&path)?;
    let new = documents::with_pass_list(&text, &String::from_utf8(listed.stdout)?);
    let new = new.with_context(|| format!("{} has no two markers", path.display()))?;
    if new != text {
        std::fs::write(&path, new)?;
    }
    // The other generated texts take minutes, and no single test concerns them.
    if filter.is_none() {
        for target in [&["--test=suite", "coverage_matrix"][..], &["--test=documents"]] {
            let mut tests = Command::new("cargo");
            tests.args(["test", "--package", "jitopt"]).args(target);
            run(tests.env("BLESS", "1").current_dir(root))?;
        }
    }
    Ok(())
}
