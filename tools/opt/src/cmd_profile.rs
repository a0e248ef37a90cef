//! `jitopt profile`: instruments a graph, runs it and writes the observed tensor types.

use crate::arguments::{ProfileArg, ProfileArgs, RunArgs};
use crate::optimise::{Refusal, refuse};
use crate::{World, cmd_run};
use jitopt_core::interpreter::Environment;
use jitopt_core::interpreter::profile::{Profile, Recording};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::symbol::prim;
use jitopt_passes::REGISTRY;
use std::path::Path;

/// The pass that reads a profile.
pub(crate) const ASKS: &str = "insert-guards";

pub(crate) fn run(args: &ProfileArgs, world: &mut World<'_>) -> i32 {
    let mut run = args.run.clone();
    run.checks.only_profile = true;
    let chosen = args.output.clone().or(run.checks.record_profile.take());
    let beside = || run.files.first().filter(|path| path.as_os_str() != "-").map(|path| path.with_extension("prof"));
    let Some(output) = chosen.or_else(beside) else {
        world.say("error: a graph from standard input has no default output path; give one with -o FILE");
        return crate::exit::USAGE;
    };
    if let Some(path) = run.files.iter().find(|path| is_same_file(path, &output, world)) {
        world.say(&format!(
            "error: the profile would overwrite the graph `{}`; give another path with -o FILE",
            path.display()
        ));
        return crate::exit::USAGE;
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

/// The profile of `--profile`; it requires that a pass of these pipelines reads it, and that there
/// is a single graph.
pub(crate) fn asked_for(
    args: &ProfileArg,
    pipelines: &[&Pipeline],
    is_one: bool,
    world: &World<'_>,
) -> Result<Option<Profile>, Refusal> {
    let Some(path) = &args.profile else { return Ok(None) };
    if !pipelines.iter().any(|pipeline| pipeline.stages().iter().any(|stage| stage.pass.name == ASKS)) {
        return refuse("--profile: no pass reads the profile; add `insert-guards` to --passes");
    }
    if !is_one {
        return refuse("--profile: a profile belongs to one graph, but several are given");
    }
    read(path, world).map(Some)
}

/// Reads a profile from a file.
fn read(path: &Path, world: &World<'_>) -> Result<Profile, Refusal> {
    let name = path.display();
    let text =
        std::fs::read(world.path(path)).or_else(|error| refuse(format_args!("cannot read `{name}`: {error}")))?;
    Profile::from_json(&text)
        .or_else(|why| refuse(format_args!("`{name}`: {why}; profiles are written by `jitopt profile`")))
}

/// The pass that inserts profile nodes, if only a profile is requested and the graph has none.
pub(crate) fn instrumenting(args: &RunArgs, graph: &Graph) -> Option<&'static str> {
    (args.checks.only_profile && !looks(graph)).then_some(INSTRUMENTS)
}

/// The pass that inserts profile nodes.
const INSTRUMENTS: &str = "profile-instrument";

fn looks(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| graph.kind(node) == prim::PROFILE)
}

/// Stores the profile in the types of a graph, as a profiled run prints it: then the graph may
/// change, and carries the types to guard itself.
pub(crate) fn write_into(graph: &mut Graph, profile: &Profile) -> Result<(), String> {
    if !looks(graph) {
        let pipeline = Pipeline::parse(INSTRUMENTS, &REGISTRY).expect("it is a pass");
        let ran = pass::run(graph, &pipeline, &mut Session::default(), &mut []);
        ran.map_err(|error| error.to_string())?;
    }
    profile.apply(graph)
}

/// Starts recording, if requested.
pub(crate) fn begin(args: &RunArgs, graph: &Graph, env: &Environment) -> Result<(), Refusal> {
    if args.checks.record_profile.is_none() {
        return match args.checks.merge_profile.is_empty() {
            true => Ok(()),
            false => refuse("--merge-profile: no profile is recorded; add --record-profile"),
        };
    }
    let Some(recording) = Recording::of(graph) else {
        return refuse(
            "--record-profile: the graph has no `prim::profile` nodes; insert them with `--passes=profile-instrument` or use `jitopt profile`",
        );
    };
    env.recording.replace(Some(recording));
    Ok(())
}

/// Writes the recorded profile.
pub(crate) fn end(args: &RunArgs, env: &Environment, world: &mut World<'_>) -> Result<(), Refusal> {
    let (Some(path), Some(recording)) = (&args.checks.record_profile, env.recording.take()) else { return Ok(()) };
    let mut profile = recording.profile;
    for earlier in &args.checks.merge_profile {
        let other = read(earlier, world)?;
        profile.merge(&other).or_else(|why| refuse(format_args!("--merge-profile {}: {why}", earlier.display())))?;
    }
    write(path, &profile, world)?;
    if args.checks.only_profile {
        let seen = profile.places.iter().filter(|place| place.times > 0).count();
        let (all, runs) = (profile.places.len(), profile.runs);
        let plural = if runs == 1 { "" } else { "s" };
        let name = if is_stdout(path) { "<stdout>".to_owned() } else { path.display().to_string() };
        world.say(&format!("{name}: {runs} run{plural}, tensors observed at {seen} of {all} profile nodes"));
    }
    Ok(())
}

fn write(path: &Path, profile: &Profile, world: &mut World<'_>) -> Result<(), Refusal> {
    if is_stdout(path) {
        world.print(profile.to_json().as_bytes());
        return Ok(());
    }
    let written = std::fs::write(world.path(path), profile.to_json());
    written.or_else(|error| refuse(format_args!("cannot write `{}`: {error}", path.display())))
}
