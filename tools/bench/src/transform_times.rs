//! Measures cached transformations against running the passes: `jitopt-bench transform-cache
//! FILES`.
//!
//! A graph is read once. Each run takes a copy of it, which is not counted, and either runs the
//! passes on it, or encodes the copy and hashes the encoding (`hash`), or looks up the encoding and
//! builds the result (`apply`, which includes the full comparison). The fastest run of each counts,
//! because other work of the machine only makes runs longer; nanoseconds per node refer to the
//! nodes of the input for `hash`, and of the result for `apply`. Dali, the origin of the idea,
//! reports a ratio of 257 for a training step of its convolutional network, hashing included. If a
//! PyTorch is available and reads the graph, its passes of the same names run too, and the last
//! column is the ratio of their time to `hash` and `apply`.

use crate::pass_times::{Peer, bindings};
use anyhow::{Context, Result, anyhow, bail};
use jitopt_core::ir::{Graph, GraphWords};
use jitopt_core::pass::{Lookup, Pipeline, Session, TransformCache, run};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_passes::REGISTRY;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pipelines of one, five, and twenty passes.
const PIPELINES: [&str; 3] = [
    "cse",
    "inline,lower-simple-tuples,constant-propagation,constant-pooling,cse",
    "inline,lower-simple-tuples,constant-propagation,constant-pooling,peephole,cse,dce,constant-loop-unrolling,\
     shape-analysis{precise},constant-propagation,constant-pooling,peephole,cse,dce,batch-mm,dce,peephole,cse,dce,dce",
];

/// Lookups are so short that many are needed for an undisturbed one.
const LOOKUPS: usize = 501;

/// One row of the table.
struct Row {
    passes: usize,
    nodes: usize,
    results: usize,
    uncached: Duration,
    hash: Duration,
    apply: Duration,
    /// The time of PyTorch, if it reads the graph.
    theirs: Option<Duration>,
}

/// The table for these graphs.
///
/// # Errors
/// If a file cannot be read, or the passes fail.
pub fn measure(files: &[PathBuf], pipeline: Option<&str>, python: &Path, runs: usize) -> Result<String> {
    let mut table = String::from(
        "| graph | passes | nodes, before and after | passes run | hash per node | apply per node | ratio | PyTorch's passes | ratio |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for file in files {
        let graph = read(file)?;
        for text in pipeline.map_or(PIPELINES.to_vec(), |text| vec![text]) {
            let mut row = timed(&graph, text, runs).with_context(|| format!("{}", file.display()))?;
            row.theirs = theirs(python, file, text, runs)?;
            table += &row.markdown(&file.file_stem().unwrap_or_default().to_string_lossy());
        }
    }
    Ok(table)
}

fn read(file: &Path) -> Result<Graph> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let parsed = parse(&text, ParseOptions::default());
    parsed.map(|parsed| parsed.graph).map_err(|_| anyhow!("cannot parse the graph {}", file.display()))
}

fn timed(graph: &Graph, text: &str, runs: usize) -> Result<Row> {
    let pipeline = Pipeline::parse(text, &REGISTRY).map_err(|error| anyhow!("{}", error.render(text)))?;
    let cache = TransformCache::new(&pipeline);
    let mut words = GraphWords::default();
    let mut passes = |graph: &mut Graph| run(graph, &pipeline, &mut Session::default(), &mut []);
    let mut result = graph.clone();
    if !matches!(cache.transform(&mut result, &mut words, &mut passes)?, Lookup::Miss) {
        bail!("the result of {text} is not cached");
    }
    let (mut uncached, mut hash, mut apply) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let mut copy = graph.clone();
        let start = Instant::now();
        passes(&mut copy)?;
        uncached.push(start.elapsed());
    }
    for _ in 0..runs.max(LOOKUPS) {
        let mut copy = graph.clone();
        let start = Instant::now();
        words.read(&copy, cache.detail()).map_err(|why| anyhow!("{why:?}"))?;
        let key = words.hash();
        hash.push(start.elapsed());
        let start = Instant::now();
        let hit = cache.apply(&mut copy, &words, key);
        apply.push(start.elapsed());
        if !hit {
            bail!("a copy of the graph misses the cache");
        }
    }
    let [uncached, hash, apply] = [uncached, hash, apply].map(fastest);
    let passes = pipeline.stages().len();
    Ok(Row {
        passes,
        nodes: graph.all_nodes().count(),
        results: result.all_nodes().count(),
        uncached,
        hash,
        apply,
        theirs: None,
    })
}

/// The fastest of some runs of those passes that PyTorch has too.
fn theirs(python: &Path, file: &Path, text: &str, runs: usize) -> Result<Option<Duration>> {
    let pipeline = Pipeline::parse(text, &REGISTRY).map_err(|error| anyhow!("{}", error.render(text)))?;
    let Some(mut peer) = Peer::start(python, file, &bindings(&pipeline)) else { return Ok(None) };
    let times = (0..runs.min(11)).map(|_| peer.time().map(Duration::from_secs_f64)).collect::<Result<Vec<_>>>()?;
    Ok(times.into_iter().min())
}

fn fastest(times: Vec<Duration>) -> Duration {
    times.into_iter().min().unwrap_or_default()
}

impl Row {
    fn markdown(&self, name: &str) -> String {
        let per = |time: Duration, nodes: usize| time.as_secs_f64() * 1e9 / nodes.max(1) as f64;
        let ratio = |time: Duration| time.as_secs_f64() / (self.hash + self.apply).as_secs_f64();
        let theirs = self
            .theirs
            .map_or(" | ".to_owned(), |time| format!("{:.1} us | {:.0}", time.as_secs_f64() * 1e6, ratio(time)));
        format!(
            "| {name} | {} | {} and {} | {:.1} us | {:.1} ns | {:.1} ns | {:.0} | {theirs} |\n",
            self.passes,
            self.nodes,
            self.results,
            self.uncached.as_secs_f64() * 1e6,
            per(self.hash, self.nodes),
            per(self.apply, self.results),
            ratio(self.uncached),
        )
    }
}
