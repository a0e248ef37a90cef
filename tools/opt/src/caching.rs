//! `--transform-cache`: graphs whose twins were transformed before are not transformed again.

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

/// The cache of one call of the program.
pub(crate) struct Caching {
    cache: TransformCache,
    verify: bool,
    troubles: Troubles,
}

thread_local! {
    /// Memory for the streams of the graphs of this thread.
    static WORDS: RefCell<GraphWords> = RefCell::default();
}

impl Caching {
    /// What the flags ask for.
    pub(crate) fn of(
        cli: &Cli,
        pipeline: &Pipeline,
        log: &log::Spec,
        callees: &Callees,
        world: &mut World<'_>,
    ) -> Result<Option<Caching>, Refusal> {
        let Some(place) = &cli.pipeline.transform_cache else { return Ok(None) };
        if pipeline.stages().is_empty() {
            return refuse("--transform-cache: no pass is to run, so there is nothing to keep; add --passes");
        }
        if let Some((flag, why)) = contradiction(cli, log) {
            return refuse(format_args!("--transform-cache: {flag} {why}"));
        }
        if pipeline.goes_inside() {
            world.say("note: --transform-cache: nothing is kept of pipelines with `forward(…)` or `backward(…)`");
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
            world.say("warning: --transform-cache=memory: only one graph is read, which nothing can be kept for");
        }
        Ok(Some(Caching { cache, verify: cli.pipeline.transform_cache_verify, troubles }))
    }

    /// What is to be said when all files are done.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.troubles.told()
    }

    /// Transforms a graph; false when it is not to be printed. What was counted is in the session that comes back.
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
            outcome.say(&format!("warning: --transform-cache: {name} is not kept: {}", reason(why)));
        }
        let compared = before.map_or(Ok(()), |before| compare(cli, plan, before, graph));
        (session, compared)
    }
}

fn folder(place: &str, world: &World<'_>, troubles: &Troubles) -> Result<CacheFolder, Refusal> {
    if place.is_empty() {
        return refuse("--transform-cache: where to? write `memory`, or a folder");
    }
    // `memroy` would become a folder.
    if let Some(near) = did_you_mean(place, ["memory"]).filter(|_| !place.contains('/')) {
        return refuse(format_args!("--transform-cache: did you mean `{near}`? A folder of this name is `./{place}`"));
    }
    CacheFolder::open(&world.path(Path::new(place)), troubles.clone())
        .or_else(|error| refuse(format_args!("--transform-cache: cannot make the folder `{place}`: {error}")))
}

/// All that passes may read beside the graph and their options, and which program they are of: another build may have other passes.
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

/// Tells this binary from others of its version.
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
        Why::Input(Unrepeatable::Scoping) => "it reads values that are not defined there",
        Why::Input(Unrepeatable::Names) => "it has two values of one name, or a name of digits that is no number",
        Why::Input(Unrepeatable::Edited) => "it was edited after it was read",
        Why::Result => "where parts of the result come from cannot be told",
        Why::Section => "a pass moved nodes into a section, and the names in it are those of this graph",
        Why::ReadsShapes => "a pass fails unless it sees shapes",
    }
}

/// `--transform-cache-verify`: what the passes make of the graph must be what the cache made.
fn compare(cli: &Cli, plan: &Plan, mut graph: Graph, cached: &Graph) -> Result<(), RunError> {
    run_passes(cli, plan, &mut graph, &mut plan.session(cli))?;
    let [wanted, found] = [&graph, cached].map(|graph| print(graph, PrintOptions::default()));
    if wanted == found {
        return Ok(());
    }
    let (wanted, found) = (String::from_utf8_lossy(&wanted).into_owned(), String::from_utf8_lossy(&found).into_owned());
    let (a, b) = wanted.lines().zip(found.lines()).find(|(a, b)| a != b).unwrap_or(("its end", "more"));
    let report = format!("--transform-cache-verify: the passes make\n  {a}\nwhere the cache makes\n  {b}");
    Err(RunError::Broken { pass: "transform-cache", report })
}

/// A flag that looks at passes, or at one by one of their rewrites, while on a hit none runs.
fn contradiction(cli: &Cli, log: &log::Spec) -> Option<(&'static str, &'static str)> {
    let (watch, sees) = (&cli.watch, "looks at passes, and on a hit none runs");
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
    let lineage = ("--print-as", "tells where new nodes come from, which is not kept");
    let racing = ("--stats with --jobs", "would count by chance which of two twins was first");
    found
        .or_else(|| cli.output.print_as.map(|_| lineage))
        .or_else(|| (watch.stats.is_some() && cli.output.jobs > 1).then_some(racing))
}
