//! `--transform-cache`: reuses results of structurally equal graphs.

use crate::World;
use crate::arguments::Cli;
use crate::cache_folder::{CacheFolder, Troubles};
use crate::callees::Callees;
use crate::observing::VerifyEach;
use crate::optimise::{Outcome, Plan, Refusal, refuse};
use jitopt_core::ir::{Graph, GraphWords, Unrepeatable};
use jitopt_core::log::{self, did_you_mean};
use jitopt_core::ops::declared::Declared;
use jitopt_core::pass::{self, Lookup, Observer, Pipeline, RunError, Session, TransformCache, Why};
use jitopt_core::text::{PrintOptions, print};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The cache of one invocation.
pub(crate) struct Caching {
    cache: TransformCache,
    verify: bool,
    troubles: Troubles,
}

thread_local! {
    /// Scratch memory for the encodings of this thread's graphs.
    static WORDS: RefCell<GraphWords> = RefCell::default();
}

impl Caching {
    /// The cache that the flags request.
    pub(crate) fn of(
        cli: &Cli,
        pipeline: &Pipeline,
        log: &log::Spec,
        callees: &Callees,
        world: &mut World<'_>,
    ) -> Result<Option<Caching>, Refusal> {
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
        let troubles = Troubles::default();
        let cache = match place.as_str() {
            "memory" => TransformCache::new(pipeline),
            _ => {
                let folder = folder(place, world, &troubles)?;
                TransformCache::with_store(pipeline, Box::new(folder), &preamble(cli, pipeline, callees))
            }
        };
        if place == "memory" && cli.files.len() < 2 && !cli.input.split_input_file {
            world.say("warning: --transform-cache=memory: only one graph is read, so no result can be reused");
        }
        Ok(Some(Caching { cache, verify: cli.pipeline.transform_cache_verify, troubles }))
    }

    /// Warnings to print after all files are processed.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.troubles.told()
    }

    /// Transforms a graph; false if it must not be printed. The returned session contains the
    /// counters.
    pub(crate) fn transform(
        &self,
        cli: &Cli,
        plan: &Plan,
        name: &str,
        graph: &mut Graph,
        outcome: &mut Outcome,
    ) -> (Session, Result<(), RunError>) {
        let mut session = plan.session(cli);
        let before = self.verify.then(|| graph.clone());
        let result = WORDS.with_borrow_mut(|words| {
            let mut run = |graph: &mut Graph| {
                session = plan.session(cli);
                run_passes(cli, plan, graph, &mut session)
            };
            self.cache.transform(graph, words, &mut run)
        });
        let lookup = match result {
            Ok(lookup) => lookup,
            Err(error) => return (session, Err(error)),
        };
        count(&mut session, lookup);
        if let Lookup::NotCached(why) = lookup {
            outcome.say(&format!("warning: --transform-cache: the result of {name} is not cached: {}", reason(why)));
        }
        let compared = before.map_or(Ok(()), |before| compare(cli, plan, before, graph));
        (session, compared)
    }
}

fn folder(place: &str, world: &World<'_>, troubles: &Troubles) -> Result<CacheFolder, Refusal> {
    if place.is_empty() {
        return refuse("--transform-cache: expected `memory` or a directory");
    }
    // Without this check, the typo `memroy` would create a directory.
    if let Some(near) = did_you_mean(place, ["memory"]).filter(|_| !place.contains('/')) {
        return refuse(format_args!(
            "--transform-cache: did you mean `{near}`? To use a directory of this name, write `./{place}`"
        ));
    }
    CacheFolder::open(&world.path(Path::new(place)), troubles.clone())
        .or_else(|error| refuse(format_args!("--transform-cache: cannot create the directory `{place}`: {error}")))
}

/// Everything that passes may read besides the graph and their options, and the build: another
/// build may have other passes.
fn preamble(cli: &Cli, pipeline: &Pipeline, callees: &Callees) -> String {
    let mut text = format!("program: {} {}\n", env!("CARGO_PKG_VERSION"), build());
    let mut disabled = cli.pipeline.disable.clone();
    disabled.sort();
    let checked = !cli.pipeline.no_verify_each && !cli.input.no_verify;
    let _ = writeln!(text, "disabled: {}\nchecked: {checked}", disabled.join(" "));
    let _ = writeln!(text, "schemas: {}", Declared::current().texts().join(" "));
    for stage in pipeline.stages() {
        for (option, file) in &stage.files {
            let _ = writeln!(text, "file {option} of {}: {}", stage.pass.name, file.escape_ascii());
        }
    }
    for (name, callee) in callees {
        let _ = writeln!(text, "callee {name}: {}", print(callee, PrintOptions::default()).escape_ascii());
    }
    text
}

/// Distinguishes this binary from other builds of its version.
fn build() -> String {
    let about = std::env::current_exe().and_then(std::fs::metadata);
    let time = about.as_ref().ok().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let size = about.map_or(0, |about| about.len());
    format!("{size} {}", time.map_or(0, |time| time.as_nanos()))
}

fn run_passes(cli: &Cli, plan: &Plan, graph: &mut Graph, session: &mut Session) -> Result<(), RunError> {
    let mut verifier = VerifyEach;
    let mut observers: Vec<&mut dyn Observer> = Vec::new();
    if !cli.pipeline.no_verify_each && !cli.input.no_verify {
        observers.push(&mut verifier);
    }
    pass::run(graph, &plan.pipeline, session, &mut observers)
}

fn count(session: &mut Session, lookup: Lookup) {
    let name = match lookup {
        Lookup::Hit => "transform-cache.hits",
        Lookup::Miss => "transform-cache.misses",
        Lookup::NotCached(_) => "transform-cache.not-kept",
    };
    *session.stats.entry(name.to_owned()).or_default() += 1;
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Input(Unrepeatable::Scoping) => "it uses values that are not in scope",
        Why::Input(Unrepeatable::Names) => "two of its values have the same name, or a numeric name is out of range",
        Why::Input(Unrepeatable::Edited) => "it was edited after it was read",
        Why::Result => "the origin of parts of the result is unknown",
        Why::Section => "a pass moved nodes into a section whose value names are those of this graph",
        Why::ReadsShapes => "a pass fails without shape information",
    }
}

/// `--transform-cache-verify`: checks that the passes and the cache produce the same graph.
fn compare(cli: &Cli, plan: &Plan, mut graph: Graph, cached: &Graph) -> Result<(), RunError> {
    run_passes(cli, plan, &mut graph, &mut plan.session(cli))?;
    let [wanted, found] = [&graph, cached].map(|graph| print(graph, PrintOptions::default()));
    if wanted == found {
        return Ok(());
    }
    let (wanted, found) = (String::from_utf8_lossy(&wanted).into_owned(), String::from_utf8_lossy(&found).into_owned());
    let (a, b) = wanted.lines().zip(found.lines()).find(|(a, b)| a != b).unwrap_or(("its end", "more"));
    let report = format!("--transform-cache-verify: the passes produce\n  {a}\nbut the cache produces\n  {b}");
    Err(RunError::Broken { pass: "transform-cache", report })
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
