//! Profiles: tensor types observed in a run.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::options::RunOptions;
use crate::settings::{MERGE_PROFILE, PASSES, PROFILE, RECORD_PROFILE};
use jitopt_core::interpreter::Environment;
use jitopt_core::interpreter::profile::{Profile, Recording};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::symbol::prim;
use jitopt_passes::REGISTRY;
use std::path::Path;

/// The pass that reads a profile.
pub const ASKS: &str = "insert-guards";

/// The profile of `--profile`; it requires that a pass of these pipelines reads it, and that there
/// is a single graph.
///
/// # Errors
/// The file is not a profile, no pass reads it, or there are several graphs.
pub fn requested(
    path: Option<&Path>,
    pipelines: &[&Pipeline],
    is_one: bool,
    workspace: &Workspace<'_>,
) -> Result<Option<Profile>, Error> {
    let Some(path) = path else { return Ok(None) };
    if !pipelines.iter().any(|pipeline| pipeline.stages().iter().any(|stage| stage.pass.name == ASKS)) {
        return refuse(format_args!("{PROFILE}: no pass reads the profile; add `insert-guards` to {PASSES}"));
    }
    if !is_one {
        return refuse(format_args!("{PROFILE}: a profile belongs to one graph, but several are given"));
    }
    read(path, workspace).map(Some)
}

/// Reads a profile from a file.
fn read(path: &Path, workspace: &Workspace<'_>) -> Result<Profile, Error> {
    let name = path.display();
    let text =
        std::fs::read(workspace.path(path)).or_else(|error| refuse(format_args!("cannot read `{name}`: {error}")))?;
    Profile::from_json(&text)
        .or_else(|why| refuse(format_args!("`{name}`: {why}; profiles are files that a profiling run writes")))
}

/// The pass that inserts profile nodes, if only a profile is requested and the graph has none.
pub(crate) fn instrumenting(args: &RunOptions, graph: &Graph) -> Option<&'static str> {
    (args.checks.only_profile && !looks(graph)).then_some(INSTRUMENTS)
}

/// The pass that inserts profile nodes.
const INSTRUMENTS: &str = "profile-instrument";

fn looks(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| graph.kind(node) == prim::PROFILE)
}

/// Stores the profile in the types of a graph, as a profiled run prints it: then the graph may
/// change, and carries the types to guard itself.
///
/// # Errors
/// The profile is of another graph.
pub(crate) fn write_into(graph: &mut Graph, profile: &Profile) -> Result<(), String> {
    if !looks(graph) {
        let pipeline = Pipeline::parse(INSTRUMENTS, &REGISTRY).expect("it is a pass");
        let ran = pass::run(graph, &pipeline, &mut Session::default(), &mut []);
        ran.map_err(|error| error.to_string())?;
    }
    profile.apply(graph)
}

/// Starts recording, if requested.
pub(crate) fn begin(args: &RunOptions, graph: &Graph, env: &Environment) -> Result<(), Error> {
    if !args.checks.record_profile {
        return match args.checks.merge_profile.is_empty() {
            true => Ok(()),
            false => refuse(format_args!("{MERGE_PROFILE}: no profile is recorded; add {RECORD_PROFILE}")),
        };
    }
    let Some(recording) = Recording::of(graph) else {
        return refuse(format_args!(
            "{RECORD_PROFILE}: the graph has no `prim::profile` nodes; insert them with {PASSES}=profile-instrument"
        ));
    };
    env.recording.replace(Some(recording));
    Ok(())
}

/// The recorded profile, merged with earlier ones.
pub(crate) fn end(args: &RunOptions, env: &Environment, workspace: &Workspace<'_>) -> Result<Option<Profile>, Error> {
    let Some(recording) = env.recording.take() else { return Ok(None) };
    let mut profile = recording.profile;
    for earlier in &args.checks.merge_profile {
        let other = read(earlier, workspace)?;
        profile.merge(&other).or_else(|why| refuse(format_args!("{MERGE_PROFILE} {}: {why}", earlier.display())))?;
    }
    Ok(Some(profile))
}
