//! `--transform-cache`: reuses results of structurally equal graphs.

use crate::World;
use crate::arguments::Cli;
use crate::exit::refuse;
use crate::optimise::{Outcome, Plan};
use jitopt_core::ir::Graph;
use jitopt_core::log;
use jitopt_core::pass::{Pipeline, RunError, Session};
use jitopt_engine::{Caching, Callees, Circumstances, Error};

/// The cache that the flags request.
pub(crate) fn requested(
    cli: &Cli,
    pipeline: &Pipeline,
    log: &log::Spec,
    callees: &Callees,
    world: &mut World<'_>,
) -> Result<Option<Caching>, Error> {
    let Some(place) = &cli.pipeline.transform_cache else { return Ok(None) };
    if pipeline.stages().is_empty() {
        return refuse("--transform-cache: no pass runs, so there is nothing to cache; add --passes");
    }
    if let Some((flag, why)) = contradiction(cli, log) {
        return refuse(format_args!("--transform-cache: {flag} {why}"));
    }
    if pipeline.goes_inside() {
        world.say("note: --transform-cache: pipelines with `forward(…)` or `backward(…)` are not cached");
        return Ok(None);
    }
    let is_checked = !cli.pipeline.no_verify_each && !cli.input.no_verify;
    let circumstances = Circumstances { disabled: &cli.pipeline.disable, callees, is_checked };
    let verify = cli.pipeline.transform_cache_verify;
    let caching = Caching::open(place, pipeline, &circumstances, verify, &world.workspace())?;
    if place == "memory" && cli.files.len() < 2 && !cli.input.split_input_file {
        world.say("warning: --transform-cache=memory: only one graph is read, so no result can be reused");
    }
    Ok(Some(caching))
}

/// Transforms a graph. The returned session contains the counters.
pub(crate) fn transform(
    caching: &Caching,
    cli: &Cli,
    plan: &Plan,
    name: &str,
    graph: &mut Graph,
    outcome: &mut Outcome,
) -> (Session, Result<(), RunError>) {
    let (session, why, result) = caching.transform(&|| plan.session(cli), graph);
    if let Some(why) = why {
        outcome.say(&format!("warning: --transform-cache: the result of {name} is not cached: {why}"));
    }
    (session, result)
}

/// A flag that observes passes or individual rewrites: none of them run on a cache hit.
fn contradiction(cli: &Cli, log: &log::Spec) -> Option<(&'static str, &'static str)> {
    let (watch, sees) = (&cli.watch, "observes passes, and none run on a cache hit");
    let looking = [
        ("--print-before", !watch.print_before.is_empty()),
        ("--print-after", !watch.print_after.is_empty()),
        ("--print-after-all", watch.print_after_all),
        ("--print-changed", watch.print_changed.is_some()),
        ("--print-tree-dir", watch.print_tree_dir.is_some()),
        ("--report", watch.report.is_some()),
        ("--time-passes", watch.time_passes.is_some()),
        ("--remarks", watch.remarks.is_some()),
        ("--validate", cli.pipeline.validate.is_some()),
        ("--debug-counter", !cli.pipeline.debug_counter.is_empty()),
        ("a log level", !log.is_empty()),
    ];
    let found = looking.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| (flag, sees));
    let lineage = ("--print-as", "requires the origin of new nodes, which is not cached");
    let racing = ("--stats with --jobs", "would depend on which of two equal graphs comes first");
    found
        .or_else(|| cli.output.print_as.map(|_| lineage))
        .or_else(|| (watch.stats.is_some() && cli.output.jobs > 1).then_some(racing))
}
