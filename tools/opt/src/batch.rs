//! Batch processing: files are read, processed in parallel and written in the order in which they
//! were given.

use crate::arguments::{Cli, JudgeArgs};
use crate::exit::refuse;
use crate::optimise::Outcome;
use crate::{World, exit, help};
use jitopt_archive::FileBytes;
use jitopt_core::log::did_you_mean;
use jitopt_core::ops::declared::Declared;
use jitopt_core::pass::never_came_up;
use jitopt_engine::{Calls, Error, Kind, Program, Workspace, stack};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name of a file with its text, or with the error message.
pub(crate) type Named = (String, Result<Vec<u8>, String>);

/// Reads every file, calls `work` on it and prints the results. Adds the calls of the files to
/// `calls`.
pub(crate) fn run(
    cli: &Cli,
    world: &mut World<'_>,
    calls: &mut Option<Calls>,
    work: impl Fn(&str, &[u8]) -> Outcome + Sync,
) -> i32 {
    if let Err(message) = targets(cli) {
        world.say(&message);
        return exit::USAGE;
    }
    let files = if cli.files.is_empty() { vec![PathBuf::from("-")] } else { cli.files.clone() };
    let declared = Declared::current();
    let job = |(name, text): &Named| match text {
        Ok(text) => {
            // Declared operators are thread-local, so each worker enters the declarations.
            let _entered = declared.enter();
            work(name, text)
        }
        Err(message) => {
            Outcome { stderr: format!("error: {message}\n").into_bytes(), code: exit::USAGE, ..Outcome::default() }
        }
    };
    let inputs: Vec<Named> = files
        .iter()
        .map(|path| if cli.input.archive.list { read_start(path, world) } else { read(path, world) })
        .collect();
    let outcomes: Vec<Outcome> = if cli.output.jobs > 1 && inputs.len() > 1 {
        match pool(cli.output.jobs) {
            Some(pool) => pool.install(|| inputs.par_iter().map(job).collect()),
            None => inputs.iter().map(job).collect(),
        }
    } else {
        inputs.iter().map(job).collect()
    };
    for found in outcomes.iter().filter_map(|outcome| outcome.calls.as_ref()) {
        calls.get_or_insert_default().extend(found);
    }
    write(cli, world, outcomes)
}

/// A pool of workers with the largest stack that can be allocated; `None` where not even small
/// stacks can.
pub(crate) fn pool(jobs: usize) -> Option<rayon::ThreadPool> {
    let build = |size: &usize| rayon::ThreadPoolBuilder::new().num_threads(jobs).stack_size(*size).build().ok();
    stack::SIZES.iter().find_map(build)
}

/// The name of standard input.
pub(crate) const STDIN: &str = "<stdin>";

/// The first bytes of a file. To list an archive, only some of its records are read, later.
fn read_start(path: &Path, world: &mut World<'_>) -> Named {
    if path.as_os_str() == "-" {
        return read(path, world);
    }
    let mut start = Vec::new();
    let read = std::fs::File::open(world.path(path)).and_then(|file| file.take(4).read_to_end(&mut start));
    (path.display().to_string(), read.map(|_| start).map_err(|error| unreadable(path, &error, world)))
}

pub(crate) fn read(path: &Path, world: &mut World<'_>) -> Named {
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        let result = world.stdin.read_to_end(&mut text).map(|_| text);
        let result = result.map_err(|error| format!("cannot read standard input: {error}"));
        return (STDIN.to_owned(), result);
    }
    (path.display().to_string(), std::fs::read(world.path(path)).map_err(|error| unreadable(path, &error, world)))
}

/// The error message of an unreadable file.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error, world: &World<'_>) -> String {
    let near = Workspace::new(&world.cwd, &world.env, |_| {})
        .similar_file(path)
        .filter(|_| error.kind() == std::io::ErrorKind::NotFound);
    let word = path.to_str().filter(|_| error.kind() == std::io::ErrorKind::NotFound);
    let commands = help::subcommands();
    let command = word.and_then(|word| did_you_mean(word, commands.iter().map(String::as_str)));
    let near = near.map(|near| near.display().to_string()).or(command.map(|name| format!("jitopt {name}")));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    format!("cannot read `{}`: {error}{near}", path.display())
}

/// Reads the text of a graph, for the engine.
pub(crate) fn program(path: &Path, world: &mut World<'_>) -> Result<Program, Error> {
    let bytes = match path.as_os_str() == "-" {
        true => read(path, world).1.map(FileBytes::from),
        // Weights of an archive are read once, to where they are used.
        false => FileBytes::read(&world.path(path)).map_err(|error| unreadable(path, &error, world)),
    };
    Ok(Program::new(path, bytes.map_err(|message| Error::new(Kind::Misuse, message))?, world.chosen.clone()))
}

/// Refuses input that cannot be read twice, and results that depend on time: workers of a search
/// must read the same graph and get the same results.
pub(crate) fn refuse_jobs(jobs: usize, file: &Path, judge: &JudgeArgs) -> Result<(), Error> {
    if jobs > 1 && (file.as_os_str() == "-" || judge.timeout.is_some()) {
        return refuse(
            "--jobs: every worker must read the same graph and get the same results; give a file, and remove --timeout",
        );
    }
    Ok(())
}

/// Checks that every result has a place of its own.
fn targets(cli: &Cli) -> Result<(), String> {
    let output = cli.output.output.as_ref().filter(|path| path.as_os_str() != "-");
    if let Some(path) = output.filter(|_| cli.files.len() > 1) {
        return Err(format!(
            "error: {} files are given, and one output `{}`\n  help: `--output-dir DIR` writes a file for each",
            cli.files.len(),
            path.display()
        ));
    }
    if cli.output.output_dir.is_none() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    match cli.files.iter().find(|path| path.file_name().is_none_or(|name| name == "-" || !names.insert(name))) {
        Some(path) => Err(format!(
            "error: --output-dir: another file has the name of `{}`, and both would be written to one place",
            path.display()
        )),
        None if cli.files.is_empty() => Err("error: --output-dir: give the graphs as files".to_owned()),
        None => Ok(()),
    }
}

/// Writes each result into the folder, under the name of its file; a failed one is not written.
fn write_into(folder: &Path, cli: &Cli, world: &mut World<'_>, outcomes: Vec<Outcome>) -> i32 {
    let mut code = unused_gates(&outcomes, world);
    if let Err(error) = std::fs::create_dir_all(world.path(folder)) {
        world.say(&format!("error: cannot make the folder `{}`: {error}", folder.display()));
        return exit::USAGE;
    }
    let (mut written, all) = (0, outcomes.len());
    for (file, outcome) in cli.files.iter().zip(outcomes) {
        if !outcome.stderr.is_empty() {
            world.say(&String::from_utf8_lossy(&outcome.stderr));
        }
        let ended = match outcome.code {
            exit::YES => {
                write_file(&world.path(&folder.join(file.file_name().unwrap_or_default())), &outcome.stdout, world)
            }
            failed => failed,
        };
        written += usize::from(ended == exit::YES);
        code = if code == exit::YES { ended } else { code };
    }
    world.say(&format!("{written} of {all} files written to `{}`", folder.display()));
    code
}

fn write(cli: &Cli, world: &mut World<'_>, outcomes: Vec<Outcome>) -> i32 {
    if let Some(folder) = &cli.output.output_dir {
        return write_into(folder, cli, world, outcomes);
    }
    let mut code = unused_gates(&outcomes, world);
    let mut file = Vec::new();
    let target = cli.output.output.as_deref().filter(|path| path.as_os_str() != "-");
    for outcome in outcomes {
        if !outcome.stderr.is_empty() {
            world.say(&String::from_utf8_lossy(&outcome.stderr));
        }
        match target {
            Some(_) => file.extend(outcome.stdout),
            None => world.print(&outcome.stdout),
        }
        if code == exit::YES {
            code = outcome.code;
        }
    }
    match target {
        // The output file is overwritten only if every input succeeded.
        Some(path) if code == exit::YES => write_file(&world.path(path), &file, world),
        _ => code,
    }
}

/// Reports debug counters that no graph of any file queried: such a counter is a mistake in the
/// command line.
fn unused_gates(outcomes: &[Outcome], world: &mut World<'_>) -> i32 {
    let ran = outcomes.iter().filter_map(|outcome| outcome.unused_gates.clone());
    let unused = ran.reduce(|a, b| a.intersection(&b).cloned().collect()).unwrap_or_default();
    for rule in &unused {
        let queried = outcomes.iter().flat_map(|outcome| outcome.queried.iter().map(String::as_str));
        world.say(&format!("error: --debug-counter: {}", never_came_up(rule, queried)));
    }
    if unused.is_empty() { exit::YES } else { exit::USAGE }
}

fn write_file(path: &Path, bytes: &[u8], world: &mut World<'_>) -> i32 {
    match std::fs::write(path, bytes) {
        Ok(()) => exit::YES,
        Err(error) => {
            world.say(&format!("error: cannot write `{}`: {error}", path.display()));
            exit::USAGE
        }
    }
}
