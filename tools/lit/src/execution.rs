//! Runs one test.

use crate::command_line::{Command, Pipeline, Redirect, Substitutions, parse, show};
use crate::script_audit::{Step, audit, inner, is_checker, unknown_command};
use crate::test_file::{Expect, RunLine, Script, read};
use crate::{Commands, Config, Io, Test, builtins, line_diff, snapshots};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestResult {
    /// The test passed.
    Pass {
        /// Whether `bless` changed the file.
        blessed: bool,
    },
    /// The test failed, with a report.
    Fail(String),
    /// The test failed as its `XFAIL:` line expects, with the reason given there.
    XFail(String),
    /// The test passed although its `XFAIL:` line expects a failure, with the reason given there.
    XPass(String),
}

impl TestResult {
    /// Whether the result is the expected one.
    pub fn is_ok(&self) -> bool {
        matches!(self, TestResult::Pass { .. } | TestResult::XFail(_))
    }
}

/// The exit status of a command with an internal bug; only `FAIL[70]:` and `not --code=70` expect
/// it.
const OUR_BUG: i32 = 70;

/// Runs a test. Its directory under [`Config::temp_dir`] is removed unless it fails.
pub fn run_one(test: &Test, commands: &dyn Commands, config: &Config) -> TestResult {
    let file = match fs::read(&test.path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return TestResult::Fail(format!("{}: {error}\n", test.name)),
    };
    let script = read(&file);
    let mut running = Running::new(test, commands, config, &file);
    let steps = match running.prepare(&script) {
        Ok(steps) => steps,
        Err(report) => return TestResult::Fail(report),
    };
    let result = running.run(&steps);
    if result.is_ok() {
        // A directory that cannot be removed is emptied by the next run.
        let _ = fs::remove_dir_all(&running.temp);
    }
    match (result, script.xfail) {
        (Ok(blessed), None) => TestResult::Pass { blessed },
        (Err(report), None) => TestResult::Fail(report),
        (Ok(_), Some(reason)) => TestResult::XPass(reason),
        (Err(_), Some(reason)) => TestResult::XFail(reason),
    }
}

/// The result of one command of a pipeline.
struct Ended {
    argv: Vec<String>,
    status: i32,
    stderr: Vec<u8>,
    /// Its output, if not redirected to a file.
    stdout: Vec<u8>,
}

struct Running<'a> {
    test: &'a Test,
    commands: &'a dyn Commands,
    config: &'a Config,
    file: &'a str,
    temp: PathBuf,
    blocks: Vec<snapshots::Block>,
    /// The inputs of the snapshot commands.
    taken: Vec<String>,
}

impl<'a> Running<'a> {
    fn new(test: &'a Test, commands: &'a dyn Commands, config: &'a Config, file: &'a str) -> Running<'a> {
        let temp = std::path::absolute(config.temp_dir.join(directory_name(test))).unwrap_or_default();
        Running { test, commands, config, file, temp, blocks: Vec::new(), taken: Vec::new() }
    }

    /// Parses all command lines and checks them statically.
    fn prepare(&mut self, script: &Script) -> Result<Vec<Step>, String> {
        let substitutions = self.substitutions();
        let mut mistakes = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        for run in &script.runs {
            match parse(&run.text, &substitutions) {
                Ok(pipeline) => steps.push((run.clone(), pipeline)),
                Err(message) => mistakes.push((run.line, message)),
            }
        }
        match snapshots::blocks(self.file) {
            Ok(blocks) => self.blocks = blocks,
            Err(mistake) => mistakes.push(mistake),
        }
        // If a line cannot be parsed, the files of other lines may seem unused.
        if mistakes.is_empty() {
            let path = &substitutions.values[0].1;
            mistakes.extend(audit(script, &steps, self.file, path, self.commands));
            mistakes.extend(self.superfluous_block(&steps));
        }
        if mistakes.is_empty() { Ok(steps) } else { Err(self.show_mistakes(mistakes)) }
    }

    fn substitutions(&self) -> Substitutions {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let stem = self.test.path.file_stem().unwrap_or_default().to_string_lossy();
        // Commands run in a directory of the test, so relative paths must be resolved here.
        let file = std::path::absolute(&self.test.path).unwrap_or_else(|_| self.test.path.clone());
        let directory = file.parent().unwrap_or(Path::new("/"));
        let temporary = self.temp.join(format!("{stem}.tmp"));
        let values = [('s', text(&file)), ('S', text(directory)), ('t', text(&temporary)), ('T', text(&self.temp))];
        Substitutions { values }
    }

    /// A block without a `snapshot` command.
    fn superfluous_block(&self, steps: &[Step]) -> Option<(usize, String)> {
        let commands = steps.iter().flat_map(|(_, pipeline)| &pipeline.commands);
        let count =
            commands.filter(|command| inner(&command.argv).first().is_some_and(|name| name == "snapshot")).count();
        let block = self.blocks.get(count)?;
        Some((block.lines.start, format!("this SNAPSHOT is not used: the RUN lines have {count} `snapshot` commands")))
    }

    fn show_mistakes(&self, mut mistakes: Vec<(usize, String)>) -> String {
        mistakes.sort();
        let name = &self.test.name;
        let show = |(line, message): &(usize, String)| match line {
            0 => format!("{name}: error: {message}\n"),
            _ => format!(
                "{name}:{line}: error: {message}\n  {line} | {}\n",
                self.file.lines().nth(line - 1).unwrap_or("")
            ),
        };
        mistakes.iter().map(show).collect()
    }

    /// Runs all lines until one fails; returns whether the file was changed.
    fn run(&mut self, steps: &[Step]) -> Result<bool, String> {
        let fresh = || {
            // It may not exist.
            let _ = fs::remove_dir_all(&self.temp);
            fs::create_dir_all(&self.temp)
        };
        fresh().map_err(|error| format!("{}: {}: {error}\n", self.test.name, self.temp.display()))?;
        for (run, pipeline) in steps {
            let ended = self.pipeline(pipeline).map_err(|message| self.failure(run, &message, &[]))?;
            if let Some(message) = verdict(run.expect, &ended) {
                return Err(self.failure(run, &message, &ended));
            }
        }
        self.bless()
    }

    fn bless(&self) -> Result<bool, String> {
        if !self.config.bless {
            return Ok(false);
        }
        let new = snapshots::rewrite(self.file, &self.blocks, &self.taken);
        if new == self.file {
            return Ok(false);
        }
        fs::write(&self.test.path, new).map_err(|error| format!("{}: {error}\n", self.test.name))?;
        Ok(true)
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<Vec<Ended>, String> {
        let mut ended: Vec<Ended> = Vec::new();
        for command in &pipeline.commands {
            let stdin = ended.last().map_or(&[][..], |last| &last.stdout).to_vec();
            ended.push(self.command(command, stdin)?);
        }
        Ok(ended)
    }

    /// Runs one command with its redirects.
    fn command(&mut self, command: &Command, mut stdin: Vec<u8>) -> Result<Ended, String> {
        for redirect in &command.redirects {
            if let Redirect::Input(path) = redirect {
                stdin = fs::read(self.temp.join(path)).map_err(|error| format!("{path}: {error}"))?;
            }
        }
        let mut env = self.config.env.clone();
        env.extend(command.env.iter().cloned());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = self.dispatch(&command.argv, &stdin, (&mut stdout, &mut stderr), &env)?;
        let [stdout, stderr] = self.redirect(&command.redirects, stdout, stderr)?;
        Ok(Ended { argv: command.argv.clone(), status, stderr, stdout })
    }

    /// Applies the redirects; returns the input of the pipe and the shown error output. `2>&1` puts
    /// errors after the output, because the two are collected separately.
    fn redirect(&self, redirects: &[Redirect], stdout: Vec<u8>, stderr: Vec<u8>) -> Result<[Vec<u8>; 2], String> {
        let (mut out, mut error) = (Sink::Pipe, Sink::Shown);
        for redirect in redirects {
            match redirect {
                Redirect::Input(_) => {}
                Redirect::Output { path, append } => out = self.open(path, *append)?,
                Redirect::Error { path, append } => error = self.open(path, *append)?,
                Redirect::ErrorToOutput => error = out.clone(),
            }
        }
        let mut left = [Vec::new(), Vec::new()];
        for (sink, bytes) in [(out, stdout), (error, stderr)] {
            match sink {
                Sink::Pipe => left[0].extend(bytes),
                Sink::Shown => left[1].extend(bytes),
                Sink::File(path) => append(&path, &bytes)?,
            }
        }
        Ok(left)
    }

    /// Opens a file, and truncates it unless `append` is set.
    fn open(&self, path: &str, append: bool) -> Result<Sink, String> {
        let full = self.temp.join(path);
        if path != "/dev/null" && !append {
            fs::write(&full, b"").map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(Sink::File(full))
    }

    /// Runs a built-in command or one of the embedder.
    fn dispatch(
        &mut self,
        argv: &[String],
        stdin: &[u8],
        (stdout, stderr): (&mut Vec<u8>, &mut Vec<u8>),
        env: &BTreeMap<String, String>,
    ) -> Result<i32, String> {
        match argv[0].as_str() {
            "not" => self.not(argv, stdin, (stdout, stderr), env),
            "snapshot" => self.snapshot(stdin, stderr),
            _ => {
                let cwd = self.temp.clone();
                let mut io = Io { stdin, stdout, stderr, env, cwd: &cwd };
                let status = builtins::run(argv, &mut io).or_else(|| self.external(argv, &mut io));
                status.ok_or_else(|| unknown_command(&argv[0], &self.commands.known()))
            }
        }
    }

    /// Runs a command of the embedder. A panic fails this command, not the whole run.
    fn external(&self, argv: &[String], io: &mut Io<'_>) -> Option<i32> {
        let result = catch_unwind(AssertUnwindSafe(|| self.commands.run(argv, io)));
        result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            io.stderr.extend(format!("{}: panic: {text}\n", argv[0]).bytes());
            Some(OUR_BUG)
        })
    }

    /// `not [--code=N] COMMAND`: 0 if the command fails, and with status N if given.
    fn not(
        &mut self,
        argv: &[String],
        stdin: &[u8],
        (stdout, stderr): (&mut Vec<u8>, &mut Vec<u8>),
        env: &BTreeMap<String, String>,
    ) -> Result<i32, String> {
        let mut rest = &argv[1..];
        let mut expect = Expect::Failure;
        if let Some(flag) = rest.first().filter(|word| word.starts_with("--")) {
            let code = flag.strip_prefix("--code=").and_then(|code| code.parse().ok());
            expect = Expect::Status(code.ok_or_else(|| format!("not: unknown flag {flag}; expected --code=N"))?);
            rest = &rest[1..];
        }
        if rest.is_empty() {
            return Err("`not` needs a command".to_owned());
        }
        let status = self.dispatch(rest, stdin, (stdout, stderr), env)?;
        let Some(reason) = unexpected(expect, status) else {
            return Ok(0);
        };
        stderr.extend(format!("not: {} {reason}\n", rest[0]).bytes());
        Ok(1)
    }

    /// Compares the input with the next block, or records it for blessing.
    fn snapshot(&mut self, stdin: &[u8], stderr: &mut Vec<u8>) -> Result<i32, String> {
        let actual = self.without_paths(&String::from_utf8_lossy(stdin));
        let block = self.blocks.get(self.taken.len());
        let message = match block {
            _ if self.config.bless => None,
            Some(block) if block.text == actual => None,
            Some(block) => {
                let line = block.lines.start;
                let difference = line_diff::line_diff(&block.text, &actual);
                Some(format!(
                    "the SNAPSHOT of line {line} differs (- expected, + actual; --bless updates it):\n{difference}"
                ))
            }
            None => Some(format!("there is no SNAPSHOT block yet (--bless adds it); the text is:\n{actual}")),
        };
        self.taken.push(actual);
        stderr.extend(message.iter().flat_map(|message| message.bytes()));
        Ok(i32::from(message.is_some()))
    }

    /// Replaces paths by `%s`, `%t`, `%T` and `%S`, so that snapshots do not depend on the machine.
    fn without_paths(&self, text: &str) -> String {
        let [file, directory, temporary, temp] = self.substitutions().values;
        let replace = |text: String, (name, value): (char, String)| match value.len() {
            0 | 1 => text,
            _ => text.replace(&value, &format!("%{name}")),
        };
        [file, temporary, temp, directory].into_iter().fold(text.to_owned(), replace)
    }

    /// The report of a failed line.
    fn failure(&self, run: &RunLine, message: &str, ended: &[Ended]) -> String {
        let mut out = format!("{}:{}: error: {message}\n  {}\n", self.test.name, run.line, run.text);
        let commands: Vec<String> = ended.iter().map(|one| show(&one.argv)).collect();
        if !commands.is_empty() {
            let _ = writeln!(out, "as run: {}", commands.join(" | "));
        }
        for one in ended.iter().filter(|one| !one.stderr.is_empty()) {
            section(&mut out, &format!("{} (exit status {}), stderr", one.argv[0], one.status), &one.stderr);
        }
        let silent = ended.iter().find(|one| one.status != 0 && one.stderr.is_empty() && !one.stdout.is_empty());
        let last = ended.last().filter(|one| one.status == 0 && !one.stdout.is_empty());
        if let Some(one) = silent.or(last) {
            section(&mut out, &format!("{} (exit status {}), stdout", one.argv[0], one.status), &one.stdout);
        }
        out
    }
}

/// Contains a hash of the path, because tests from different directories may have the same name.
fn directory_name(test: &Test) -> String {
    let mut hasher = DefaultHasher::new();
    test.path.hash(&mut hasher);
    format!("{}-{:08x}", test.name.replace('/', "--"), hasher.finish() as u32)
}

/// The destination of a stream.
#[derive(Clone)]
enum Sink {
    Pipe,
    Shown,
    File(PathBuf),
}

fn append(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if path == Path::new("/dev/null") {
        return Ok(());
    }
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Maximum number of lines of a stream in a report.
const SHOWN: usize = 200;

fn section(out: &mut String, title: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = writeln!(out, "{title}:");
    for line in text.lines().take(SHOWN) {
        let _ = writeln!(out, "  {line}");
    }
    if let Some(more) = text.lines().count().checked_sub(SHOWN + 1) {
        let _ = writeln!(out, "  … and {} more lines", more + 1);
    }
}

/// The reason why the exit status is not the expected one.
fn unexpected(expect: Expect, status: i32) -> Option<String> {
    match expect {
        Expect::Success if status != 0 => Some(format!("exits with status {status}")),
        Expect::Failure if status == 0 => Some("exits with status 0, but should fail".to_owned()),
        Expect::Failure if status == OUR_BUG => {
            Some(format!("fails with an internal bug (status {OUR_BUG}), not with an error"))
        }
        Expect::Status(wanted) if status != wanted => Some(format!("exits with status {status}, not {wanted}")),
        _ => None,
    }
}

/// The reason why the result of a pipeline is not the expected one. Its status is that of the last
/// command that failed. A checker at the end of a pipe must pass in any case: `FAIL:` applies to
/// the command under test, not to the check.
fn verdict(expect: Expect, ended: &[Ended]) -> Option<String> {
    let checks = |at: usize| at > 0 && is_checker(&Command { argv: ended[at].argv.clone(), ..Command::default() });
    let failed = |at: &usize| ended[*at].status != 0;
    if let Some(at) = (0..ended.len()).find(|at| checks(*at) && failed(at)) {
        return Some(format!("{} failed (exit status {})", ended[at].argv[0], ended[at].status));
    }
    let last = (0..ended.len()).rev().find(failed).unwrap_or(0);
    unexpected(expect, ended[last].status).map(|reason| format!("{} {reason}", ended[last].argv[0]))
}
