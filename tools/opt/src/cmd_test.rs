//! `jitopt test DIR`: runs lit tests in-process.

use crate::arguments::TestArgs;
use crate::progress::Progress;
use crate::{Choice, World, exit};
use jitopt_lit::{Commands, Config, Io, Test, discover, run_all};
use std::sync::Mutex;

/// The commands that RUN lines may name, besides those of the runner.
pub struct ToolCommands;

impl Commands for ToolCommands {
    fn run(&self, argv: &[String], io: &mut Io<'_>) -> Option<i32> {
        if argv.first().map(String::as_str) != Some("jitopt") {
            return None;
        }
        let mut world = World {
            stdin: Box::new(io.stdin),
            stdout: &mut *io.stdout,
            stderr: &mut *io.stderr,
            env: io.env.clone(),
            cwd: io.cwd.to_owned(),
            colour: false,
            chosen: Choice::default(),
            failed_write: None,
        };
        Some(crate::run(argv, &mut world))
    }

    fn known(&self) -> Vec<&'static str> {
        vec!["jitopt"]
    }

    fn checks_itself(&self, argv: &[String]) -> bool {
        let says_yes_or_no = argv.get(1).is_some_and(|arg| arg == "filecheck" || arg == "test");
        says_yes_or_no || argv.iter().any(|arg| arg == "--verify-roundtrip")
    }
}

pub(crate) fn run(args: &TestArgs, world: &mut World<'_>) -> i32 {
    let mut tests: Vec<Test> = Vec::new();
    for path in &args.paths {
        match discover(&world.path(path), args.filter.as_deref()) {
            Ok(found) => tests.extend(found),
            Err(message) => {
                world.say(&format!("error: {message}"));
                return exit::USAGE;
            }
        }
    }
    if tests.is_empty() {
        world.say(&match &args.filter {
            Some(filter) => format!("error: no test path matches `{filter}`"),
            None => "error: no test found: a test is a file with a `RUN:` line".to_owned(),
        });
        return exit::USAGE;
    }
    let config = Config { bless: args.bless, jobs: args.jobs, ..Config::default() };
    let progress = Mutex::new((0, Progress::new(world)));
    let finished = || {
        if let Ok(mut progress) = progress.lock() {
            progress.0 += 1;
            let done = progress.0;
            progress.1.show(|| format!("{done} of {} tests", tests.len()));
        }
    };
    let summary = run_all(&tests, &ToolCommands, &config, &finished);
    drop(progress);
    world.print(format!("{summary}\n").as_bytes());
    if summary.passed() { exit::YES } else { exit::NO }
}
