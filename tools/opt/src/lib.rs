//! The driver: parses the command line and runs the subcommands.
//!
//! One file per subcommand. All input and output goes through a [`World`], so that lit tests run
//! the tool in-process, in parallel, without a shell.

mod archive_options;
mod arguments;
mod batch;
mod caching;
mod cmd_audit;
mod cmd_bench;
mod cmd_bisect;
mod cmd_completions;
mod cmd_diff;
mod cmd_explain;
mod cmd_export;
mod cmd_extract;
mod cmd_filecheck;
mod cmd_guide;
mod cmd_inspect;
mod cmd_lint;
mod cmd_merge;
mod cmd_probe;
mod cmd_profile;
mod cmd_reduce;
mod cmd_run;
mod cmd_samples;
mod cmd_smith;
mod cmd_test;
mod cmd_tune;
mod cmd_validate;
mod declarations;
mod engine_options;
pub mod exit;
mod help;
mod optimise;
mod progress;
mod reproducers;
mod several;
mod validated_pairs;

pub use cmd_test::ToolCommands;

use arguments::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};
pub use jitopt_engine::archives::Choice;
use jitopt_engine::{Workspace, panics, spell_settings, stack};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The environment of the tool: streams, variables, directories.
pub struct World<'a> {
    /// Standard input, read when `-` or no file is given.
    pub stdin: Box<dyn Read + 'a>,
    /// Receives the IR.
    pub stdout: &'a mut dyn Write,
    /// Receives all other output.
    pub stderr: &'a mut (dyn Write + Send),
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The base of relative paths; empty for the working directory of the process.
    pub cwd: PathBuf,
    /// Whether `--color=auto` enables colours.
    pub colour: bool,
    /// The parts of archives that are read.
    pub chosen: Choice,
    /// The first error of writing to `stdout`; it decides the exit code.
    pub failed_write: Option<std::io::Error>,
}

impl World<'_> {
    /// A path relative to the working directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        if self.cwd.as_os_str().is_empty() { path.to_owned() } else { self.cwd.join(path) }
    }

    /// Prints a message for the user. A closed stderr is ignored.
    pub fn say(&mut self, text: &str) {
        write_line(self.stderr, text);
    }

    /// The files and variables for the engine, whose notes are printed.
    pub(crate) fn workspace(&mut self) -> Workspace<'_> {
        let stderr = &mut *self.stderr;
        let mut workspace = Workspace::new(&self.cwd, &self.env, |note| write_line(stderr, &note.to_string()));
        workspace.coloured = self.colour;
        workspace
    }

    /// Prints a result. A closed pipe (`| head`) ends the output without an error; any other error
    /// is kept, because a lost result must not look like success.
    pub fn print(&mut self, bytes: &[u8]) {
        if self.failed_write.is_some() {
            return;
        }
        let written = self.stdout.write_all(bytes).and_then(|()| self.stdout.flush());
        self.failed_write = written.err().filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe);
    }
}

fn write_line(stderr: &mut (dyn Write + Send), text: &str) {
    let _ = stderr.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = stderr.write_all(b"\n");
    }
}

/// Runs `work` on a thread with the largest stack available; an error if no thread can be started.
pub fn with_room(work: impl FnOnce() -> i32 + Send) -> std::io::Result<i32> {
    stack::with_room(work).map(|code| code.unwrap_or(exit::BUG))
}

/// Runs one command line, `argv[0]` being the name of the tool; returns the exit code.
pub fn run(argv: &[String], world: &mut World<'_>) -> i32 {
    spell_settings(engine_options::option_of_field);
    // Subcommands catch panics where they can report more context; this guard catches all others.
    let code = panics::guard(|| dispatch(argv, world)).unwrap_or_else(|message| {
        world.say(&format!("error: a bug in jitopt: {message}"));
        exit::BUG
    });
    match world.failed_write.take() {
        Some(error) => {
            world.say(&format!("error: cannot write to standard output: {error}"));
            exit::USAGE
        }
        None => code,
    }
}

/// Parses a command line; the exit code of help, or of a mistake, which is printed.
fn parse(argv: &[String], world: &mut World<'_>) -> Result<Cli, i32> {
    let matches = Cli::command().try_get_matches_from(argv).map_err(|error| {
        let topic = if error.use_stderr() { help::of_topic(argv, world) } else { None };
        topic.unwrap_or_else(|| {
            let code = usage(&error, world);
            if let Some(near) = help::near_command(argv, world).filter(|_| error.use_stderr()) {
                world.say(&format!("  help: `{}` is no file; did you mean `jitopt {near}`?", argv[1]));
            }
            code
        })
    })?;
    Cli::from_arg_matches(&matches).map_err(|error| usage(&error, world))
}

fn dispatch(argv: &[String], world: &mut World<'_>) -> i32 {
    let cli = match parse(argv, world) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    world.colour = cli.colours(world);
    world.chosen = cli.choice.choice();
    if let Some(flag) = cli.choice.given().filter(|_| cli.command.as_ref().is_some_and(|c| !c.reads_graphs())) {
        world.say(&format!("error: {flag}: this command reads no graph of an archive"));
        return exit::USAGE;
    }
    if cli.command.is_none() && cli.choice.eval && cli.pipeline.validate.is_none() {
        world.say("error: --eval: nothing runs; add --validate, or use `jitopt run`");
        return exit::USAGE;
    }
    world.chosen.evaluates |= cli.input.archive.freeze;
    let declared = match declarations::read(&cli.declared, world) {
        Ok(declared) => declared,
        Err(error) => return exit::failed(&error, world),
    };
    let _entered = declared.enter();
    match &cli.command {
        Some(Command::Run(args)) => cmd_run::run(args, world),
        Some(Command::Profile(args)) => cmd_profile::run(args, world),
        Some(Command::Validate(args)) => cmd_validate::run(args, world),
        Some(Command::Bisect(args)) => cmd_bisect::run(args, world),
        Some(Command::Reduce(args)) => cmd_reduce::run(args, world),
        Some(Command::Smith(args)) => cmd_smith::run(args, world),
        Some(Command::Diff(args)) => cmd_diff::run(args, world),
        Some(Command::Lint(args)) => cmd_lint::run(args, world),
        Some(Command::Explain(args)) => cmd_explain::run(args, world),
        Some(Command::Bench(args)) => cmd_bench::run(args, world),
        Some(Command::Tune(args)) => cmd_tune::run(args, world),
        Some(Command::Extract(args)) => cmd_extract::run(args, world),
        Some(Command::Audit(args)) => cmd_audit::run(args, world),
        Some(Command::Merge(args)) => cmd_merge::run(args, world),
        Some(Command::Inspect(args)) => cmd_inspect::run(args, world),
        Some(Command::Export(args)) => cmd_export::run(args, world),
        Some(Command::Probe(args)) => cmd_probe::run(args, world),
        Some(Command::Samples(args)) => cmd_samples::run(args, world),
        Some(Command::Guide(args)) => cmd_guide::run(args, world),
        Some(Command::Test(args)) => cmd_test::run(args, world),
        Some(Command::Filecheck(args)) => cmd_filecheck::run(args, world),
        Some(Command::Completions(args)) => cmd_completions::run(args, world),
        None => optimise::run(&cli, world),
    }
}

/// Help and version texts go to stdout and are not errors.
fn usage(error: &clap::Error, world: &mut World<'_>) -> i32 {
    let text = if world.colour { error.render().ansi().to_string() } else { error.render().to_string() };
    if error.use_stderr() {
        world.say(&text);
        exit::USAGE
    } else {
        world.print(text.as_bytes());
        exit::YES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// A stream that refuses all writes.
    struct Refusing(io::ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn run_refused(line: &str, kind: io::ErrorKind) -> (i32, String) {
        let (mut stdout, mut stderr) = (Refusing(kind), Vec::new());
        let mut world = World {
            stdin: Box::new(&b"graph():\n  return ()\n"[..]),
            stdout: &mut stdout,
            stderr: &mut stderr,
            env: BTreeMap::new(),
            cwd: PathBuf::new(),
            colour: false,
            chosen: Choice::default(),
            failed_write: None,
        };
        let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let code = run(&argv, &mut world);
        drop(world);
        (code, String::from_utf8_lossy(&stderr).into_owned())
    }

    #[test]
    fn a_result_that_cannot_be_written_is_an_error() {
        for line in [
            "jitopt",
            "jitopt --help",
            "jitopt --list-passes",
            "jitopt samples",
            "jitopt extract",
            "jitopt completions bash",
            "jitopt filecheck --help",
        ] {
            let (code, message) = run_refused(line, io::ErrorKind::StorageFull);
            assert_eq!(code, exit::USAGE, "{line}: {message}");
            assert!(message.contains("error: cannot write to standard output: "), "{line}: {message}");
            assert_eq!(run_refused(line, io::ErrorKind::BrokenPipe).0, exit::YES, "{line}");
        }
    }
}
