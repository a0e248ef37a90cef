//! `jitopt profile`: instruments a graph, runs it and writes the observed tensor types.

use crate::arguments::{ProfileArgs, RunArgs};
use crate::{World, cmd_run, exit, several};
use std::path::Path;

pub(crate) fn run(args: &ProfileArgs, world: &mut World<'_>) -> i32 {
    let files = &args.run.files;
    if files.len() < 2 {
        return one(args, world);
    }
    if args.output.is_some() || args.run.checks.record_profile.is_some() {
        world.say(&format!(
            "error: one profile is named, and {} graphs are given\n  help: without -o, each profile is written next \
             to its graph",
            files.len()
        ));
        return exit::USAGE;
    }
    several::each(&args.run.shard.of(files), args.run.jobs, world, |file, world| {
        let run = RunArgs { files: vec![file.to_owned()], ..args.run.clone() };
        one(&ProfileArgs { run, ..args.clone() }, world)
    })
}

fn one(args: &ProfileArgs, world: &mut World<'_>) -> i32 {
    let mut run = args.run.clone();
    run.checks.only_profile = true;
    let chosen = args.output.clone().or(run.checks.record_profile.take());
    let default_path =
        || run.files.first().filter(|path| path.as_os_str() != "-").map(|path| path.with_extension("prof"));
    let Some(output) = chosen.or_else(default_path) else {
        world.say("error: a graph from standard input has no default output path; give one with -o FILE");
        return exit::USAGE;
    };
    if let Some(path) = run.files.iter().find(|path| is_same_file(path, &output, world)) {
        world.say(&format!(
            "error: the profile would overwrite the graph `{}`; give another path with -o FILE",
            path.display()
        ));
        return exit::USAGE;
    }
    run.checks.record_profile = Some(output);
    cmd_run::run(&run, world)
}

/// Whether writing to one path would overwrite the other.
fn is_same_file(path: &Path, other: &Path, world: &World<'_>) -> bool {
    let whole = |path: &Path| std::fs::canonicalize(world.path(path)).ok();
    !is_stdout(other) && whole(path).is_some_and(|path| whole(other) == Some(path))
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
