//! Reuses results of pipelines for structurally equal graphs.

use crate::Workspace;
use crate::cache_folder::{CacheFolder, Troubles};
use crate::callees::Callees;
use crate::error::{Error, refuse};
use crate::observing::VerifyEach;
use crate::settings::{TRANSFORM_CACHE, TRANSFORM_CACHE_VERIFY};
use jitopt_core::ir::{Graph, GraphWords, Unrepeatable};
use jitopt_core::log::did_you_mean;
use jitopt_core::ops::declared::Declared;
use jitopt_core::pass::{self, Lookup, Observer, Pipeline, RunError, Session, TransformCache, Why};
use jitopt_core::text::{PrintOptions, print};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A cache of the results of one pipeline.
pub struct Caching {
    cache: TransformCache,
    pipeline: Pipeline,
    /// Whether the graph is verified after each pass.
    is_checked: bool,
    /// Whether the passes run even on a hit, and both results are compared.
    verify: bool,
    troubles: Troubles,
}

/// The inputs of the results of a pipeline besides the graph.
pub struct Circumstances<'a> {
    /// Passes that are skipped.
    pub disabled: &'a [String],
    /// Graphs of called functions and methods.
    pub callees: &'a Callees,
    /// Whether the graph is verified after each pass.
    pub is_checked: bool,
}

thread_local! {
    /// Scratch memory for the encodings of this thread's graphs.
    static WORDS: RefCell<GraphWords> = RefCell::default();
}

impl Caching {
    /// Opens a cache in a place: `memory`, or a directory. With `verify`, the passes run even on a
    /// hit, and both results are compared.
    ///
    /// # Errors
    /// The directory cannot be created, or its name is probably a misspelt `memory`.
    pub fn open(
        place: &str,
        pipeline: &Pipeline,
        circumstances: &Circumstances<'_>,
        verify: bool,
        workspace: &Workspace<'_>,
    ) -> Result<Caching, Error> {
        let troubles = Troubles::default();
        let cache = match place {
            "memory" => TransformCache::new(pipeline),
            _ => {
                let folder = folder(place, workspace, &troubles)?;
                TransformCache::with_store(pipeline, Box::new(folder), &preamble(pipeline, circumstances))
            }
        };
        Ok(Caching { cache, pipeline: pipeline.clone(), is_checked: circumstances.is_checked, verify, troubles })
    }

    /// Problems of the directory so far, the first of each kind.
    pub fn warnings(&self) -> Vec<String> {
        self.troubles.warnings()
    }

    /// Transforms a graph in sessions that `begin` makes. Returns the session of the last run, with
    /// the counters of the cache, and why the result is not cached.
    pub fn transform(
        &self,
        begin: &dyn Fn() -> Session,
        graph: &mut Graph,
    ) -> (Session, Option<&'static str>, Result<(), RunError>) {
        let mut session = begin();
        let before = self.verify.then(|| graph.clone());
        let result = WORDS.with_borrow_mut(|words| {
            let mut run = |graph: &mut Graph| {
                session = begin();
                self.run_passes(graph, &mut session)
            };
            self.cache.transform(graph, words, &mut run)
        });
        let lookup = match result {
            Ok(lookup) => lookup,
            Err(error) => return (session, None, Err(error)),
        };
        count(&mut session, lookup);
        let why = match lookup {
            Lookup::NotCached(why) => Some(reason(why)),
            _ => None,
        };
        let compared = before.map_or(Ok(()), |before| self.compare(begin, before, graph));
        (session, why, compared)
    }

    fn run_passes(&self, graph: &mut Graph, session: &mut Session) -> Result<(), RunError> {
        let mut verifier = VerifyEach;
        let mut observers: Vec<&mut dyn Observer> = Vec::new();
        if self.is_checked {
            observers.push(&mut verifier);
        }
        pass::run(graph, &self.pipeline, session, &mut observers)
    }

    /// Checks that the passes and the cache produce the same graph.
    fn compare(&self, begin: &dyn Fn() -> Session, mut graph: Graph, cached: &Graph) -> Result<(), RunError> {
        self.run_passes(&mut graph, &mut begin())?;
        let [wanted, found] = [&graph, cached].map(|graph| print(graph, PrintOptions::default()));
        if wanted == found {
            return Ok(());
        }
        let (wanted, found) =
            (String::from_utf8_lossy(&wanted).into_owned(), String::from_utf8_lossy(&found).into_owned());
        let (a, b) = wanted.lines().zip(found.lines()).find(|(a, b)| a != b).unwrap_or(("its end", "more"));
        let report = format!("{TRANSFORM_CACHE_VERIFY}: the passes produce\n  {a}\nbut the cache produces\n  {b}");
        Err(RunError::Broken { pass: "transform-cache", report })
    }
}

fn folder(place: &str, workspace: &Workspace<'_>, troubles: &Troubles) -> Result<CacheFolder, Error> {
    if place.is_empty() {
        return refuse(format_args!("{TRANSFORM_CACHE}: expected `memory` or a directory"));
    }
    // Without this check, the typo `memroy` would create a directory.
    if let Some(near) = did_you_mean(place, ["memory"]).filter(|_| !place.contains('/')) {
        return refuse(format_args!(
            "{TRANSFORM_CACHE}: did you mean `{near}`? To use a directory of this name, write `./{place}`"
        ));
    }
    CacheFolder::open(&workspace.path(Path::new(place)), troubles.clone())
        .or_else(|error| refuse(format_args!("{TRANSFORM_CACHE}: cannot create the directory `{place}`: {error}")))
}

/// Everything that passes may read besides the graph and their options, and the build: another
/// build may have other passes.
fn preamble(pipeline: &Pipeline, circumstances: &Circumstances<'_>) -> String {
    let mut text = format!("program: {} {}\n", env!("CARGO_PKG_VERSION"), build());
    let mut disabled = circumstances.disabled.to_vec();
    disabled.sort();
    let checked = circumstances.is_checked;
    let _ = writeln!(text, "disabled: {}\nchecked: {checked}", disabled.join(" "));
    let _ = writeln!(text, "schemas: {}", Declared::current().texts().join(" "));
    for stage in pipeline.stages() {
        for (option, file) in &stage.files {
            let _ = writeln!(text, "file {option} of {}: {}", stage.pass.name, file.escape_ascii());
        }
    }
    for (name, callee) in circumstances.callees {
        let _ = writeln!(text, "callee {name}: {}", print(callee, PrintOptions::default()).escape_ascii());
    }
    text
}

/// Distinguishes this binary from other builds of its version.
pub(crate) fn build() -> String {
    let about = std::env::current_exe().and_then(std::fs::metadata);
    let time = about.as_ref().ok().and_then(|about| about.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let size = about.map_or(0, |about| about.len());
    format!("{size} {}", time.map_or(0, |time| time.as_nanos()))
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
