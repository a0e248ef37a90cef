//! Measures a pipeline against the same passes of PyTorch, on graphs that both read.
//!
//! Both read a graph once and then alternately run the passes on a copy of it; copying is not
//! counted. PyTorch runs those passes of the pipeline that it binds under one of their names, once
//! each; `jitopt` runs to a fixpoint where the pipeline requests it. The passes are listed below
//! the table; graphs that PyTorch's reader refuses have no figures for it.

use anyhow::{Context, Result, anyhow, bail};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, Stage, run};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_passes::REGISTRY;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// The Python driver: of each group of names it runs the first that is a pass and takes only a
/// graph, on a copy of the graph, timed once per input line.
const DRIVER: &str = "
import sys, time, torch
C = torch._C
graph = C.parse_ir(open(sys.argv[1]).read())
def works(name):
    try:
        getattr(C, '_jit_pass_' + name)(graph.copy())
        return True
    except (AttributeError, TypeError, RuntimeError):
        return False
bound = lambda names: [name for name in names.split('|') if works(name)][:1]
names = [name for group in sys.argv[2].split() for name in bound(group)]
passes = [getattr(C, '_jit_pass_' + name) for name in names]
print(torch.__version__, ' '.join(names), flush=True)
for _ in sys.stdin:
    copy = graph.copy()
    start = time.perf_counter()
    for run in passes:
        run(copy)
    print(time.perf_counter() - start, flush=True)
";

/// A running PyTorch process that has read one graph.
pub(crate) struct Peer {
    child: Child,
    lines: BufReader<ChildStdout>,
    /// The version, and the passes that it runs.
    pub(crate) version: String,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It exits when its input is closed; the kill covers a peer that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// Starts a Python whose PyTorch reads the graph; `None` if there is none.
    pub(crate) fn start(python: &Path, file: &Path, passes: &str) -> Option<Peer> {
        let arguments = ["-c".as_ref(), DRIVER.as_ref(), file.as_os_str(), passes.as_ref()];
        let mut command = Command::new(python);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let mut lines = BufReader::new(child.stdout.take()?);
        let mut version = String::new();
        let answered = lines.read_line(&mut version).is_ok_and(|n| n > 0);
        let peer = Peer { child, lines, version: version.trim().to_owned() };
        answered.then_some(peer)
    }

    /// Runs the passes on a copy; returns the time in seconds.
    pub(crate) fn time(&mut self) -> Result<f64> {
        writeln!(self.child.stdin.as_mut().context("PyTorch's standard input")?)?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        line.trim().parse().with_context(|| format!("unexpected output of PyTorch: {line:?}"))
    }
}

/// Measures a pipeline on files and prints a table.
pub fn measure(files: &[PathBuf], passes: &str, python: &Path, runs: usize) -> Result<String> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).map_err(|error| anyhow!("{}", error.render(passes)))?;
    let mut text = String::from(
        "| graph | nodes | jitopt, ms | PyTorch, ms | times faster (least, most) |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    let theirs = bindings(&pipeline);
    let mut version = None;
    for file in files {
        let graph = read(file)?;
        let mut peer = Peer::start(python, file, &theirs);
        let mut pairs = Vec::new();
        for _ in 0..runs {
            pairs.push((ours(&graph, &pipeline)?, peer.as_mut().map(Peer::time).transpose()?));
        }
        text += &row(file, &graph, &pairs);
        version = version.or(peer.map(|peer| peer.version.clone()));
    }
    let ran = |answer: &str| answer.split_once(' ').map(|(version, names)| format!("PyTorch {version} ran `{names}`"));
    let compared_with = version.as_deref().and_then(ran).unwrap_or("no PyTorch reads these graphs".to_owned());
    Ok(format!("{text}\n`{passes}`, medians of {runs} interleaved runs on a copy, one thread; {compared_with}.\n"))
}

/// The names of each pass as PyTorch's bindings spell them: `cse|common_subexpression_elimination
/// dce|…`.
pub(crate) fn bindings(pipeline: &Pipeline) -> String {
    let names = |stage: &&Stage| stage.pass.names().map(|name| name.replace('-', "_")).collect::<Vec<_>>().join("|");
    pipeline.stages().iter().map(names).collect::<Vec<_>>().join(" ")
}

fn read(file: &Path) -> Result<Graph> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match parse(&bytes, ParseOptions::default()) {
        Ok(parsed) => Ok(parsed.graph),
        Err(_) => bail!("{}: cannot parse the graph", file.display()),
    }
}

fn ours(graph: &Graph, pipeline: &Pipeline) -> Result<f64> {
    let mut copy = graph.clone();
    let start = Instant::now();
    run(&mut copy, pipeline, &mut Session::default(), &mut [])?;
    Ok(start.elapsed().as_secs_f64())
}

fn row(file: &Path, graph: &Graph, pairs: &[(f64, Option<f64>)]) -> String {
    let name = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let middle = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let ours = middle(pairs.iter().map(|pair| pair.0).collect()).unwrap_or_default();
    let theirs = middle(pairs.iter().filter_map(|pair| pair.1).collect());
    let mut ratios: Vec<f64> = pairs.iter().filter_map(|(ours, theirs)| Some((*theirs)? / ours)).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = match (theirs, ratios.first(), ratios.last()) {
        (Some(theirs), Some(least), Some(most)) => format!("{:.1} ({least:.1}, {most:.1})", theirs / ours),
        _ => String::new(),
    };
    let theirs = theirs.map_or(String::new(), |time| format!("{:.2}", time * 1e3));
    format!("| {name} | {} | {:.3} | {theirs} | {ratio} |\n", graph.all_nodes().count(), ours * 1e3)
}
