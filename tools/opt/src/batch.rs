//! Several files: read, worked on side by side, written in the order in which they were given.

use crate::arguments::Cli;
use crate::optimise::{Outcome, similar_file};
use crate::{World, exit};
use jitopt_core::pass::never_came_up;
use rayon::prelude::*;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Workers need the room that the main thread has, see `main.rs`.
const STACK: usize = 1 << 30;

type Named = (String, std::io::Result<Vec<u8>>);

/// Reads every file, calls `work` on it, and prints what came out.
pub(crate) fn run(cli: &Cli, world: &mut World<'_>, work: impl Fn(&str, &[u8]) -> Outcome + Sync) -> i32 {
    let files = if cli.files.is_empty() { vec![PathBuf::from("-")] } else { cli.files.clone() };
    let job = |(name, text): &Named| match text {
        Ok(text) => work(name, text),
        Err(error) => unreadable(name, error),
    };
    let inputs: Vec<Named> = files.iter().map(|path| read(path, world)).collect();
    let outcomes: Vec<Outcome> = if cli.output.jobs > 1 && inputs.len() > 1 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(cli.output.jobs).stack_size(STACK).build();
        match pool {
            Ok(pool) => pool.install(|| inputs.par_iter().map(job).collect()),
            Err(_) => inputs.iter().map(job).collect(),
        }
    } else {
        inputs.iter().map(job).collect()
    };
    write(cli, world, outcomes)
}

fn read(path: &Path, world: &mut World<'_>) -> Named {
    if path.as_os_str() == "-" {
        let mut text = Vec::new();
        let result = world.stdin.read_to_end(&mut text).map(|_| text);
        return ("<stdin>".to_owned(), result);
    }
    (path.display().to_string(), std::fs::read(world.path(path)))
}

fn unreadable(name: &str, error: &std::io::Error) -> Outcome {
    let near = similar_file(Path::new(name)).filter(|_| error.kind() == std::io::ErrorKind::NotFound);
    let near = near.map_or(String::new(), |near| format!("; did you mean `{}`?", near.display()));
    let stderr = format!("error: cannot read `{name}`: {error}{near}\n").into_bytes();
    Outcome { stderr, code: exit::USAGE, ..Outcome::default() }
}

fn write(cli: &Cli, world: &mut World<'_>, outcomes: Vec<Outcome>) -> i32 {
    let mut code = unused_gates(&outcomes, world);
    let mut file = Vec::new();
    for outcome in outcomes {
        if !outcome.stderr.is_empty() {
            world.say(&String::from_utf8_lossy(&outcome.stderr));
        }
        match &cli.output.output {
            Some(_) => file.extend(outcome.stdout),
            None => world.print(&outcome.stdout),
        }
        if code == exit::YES {
            code = outcome.code;
        }
    }
    match &cli.output.output {
        // Nothing is lost: a file is only written over when all went well.
        Some(path) if code == exit::YES => write_file(&world.path(path), &file, world),
        _ => code,
    }
}

/// A debug counter that no graph of any file asked about is a mistake in the command line.
fn unused_gates(outcomes: &[Outcome], world: &mut World<'_>) -> i32 {
    let ran = outcomes.iter().filter_map(|outcome| outcome.unused_gates.clone());
    let unused = ran.reduce(|a, b| a.intersection(&b).cloned().collect()).unwrap_or_default();
    for rule in &unused {
        let asked = outcomes.iter().flat_map(|outcome| outcome.asked.iter().map(String::as_str));
        world.say(&format!("error: --debug-counter: {}", never_came_up(rule, asked)));
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
