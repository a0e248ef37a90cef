//! `jitopt` beside LLVM's `opt`, MLIR's `mlir-opt` and PyTorch, as whole processes on generated programs.
//!
//! # Reproducing the numbers
//!
//! ```text
//! cargo build --release
//! cargo run --release -p jitopt-bench -- toolkit
//! ```
//!
//! The command writes five shapes of programs (see [`shapes`]) with 20 000 and 1 000 000 nodes to a temporary folder:
//! as TorchScript IR for `jitopt` and PyTorch, the same programs as LLVM IR and as MLIR for the peers. 60 % of the
//! nodes are unique, 20 % repeat an earlier one, 20 % are dead; a node is about 45 bytes of text. Each program then
//! reads its file, eliminates common subexpressions and dead code, and writes the result to `/dev/null`; the programs
//! take turns, so that a busy moment of the machine hits them all.
//!
//! The table on standard output has, for each shape, size and program, the CPU time of the process (user and system),
//! its wall time, nanoseconds of CPU time per node, the ratio to `opt`, how much more a node costs than in the
//! smallest program when starting up is left aside (1.00 is linear), and the peak resident set per node. Below it
//! stands the time from start to exit on a file of three lines. The peak resident set of a process is never below
//! that of its parent when it was born: values under 4 MB say nothing.
//!
//! `opt`, `mlir-opt` and `python3` are looked for on the search path; what is missing is left out with a note.
//! PyTorch is measured without its import, except in the start-to-exit table. The peers do not do quite the same
//! work: `opt` verifies its input and its output (a quarter of its time) and cannot remove a dead store, `mlir-opt`
//! needs `--canonicalize` to remove dead code.
//!
//! | flag | meaning |
//! | --- | --- |
//! | `--nodes=20000,1000000` | the sizes |
//! | `--shapes=ifs,in-place` | some of `straight-low`, `straight-high`, `ifs`, `ifs-same`, `constants`, `in-place` |
//! | `--runs=5` | runs of each program on each file |
//! | `--json` | JSON in place of Markdown |
//! | `--jitopt=PATH` `--opt=PATH` `--mlir-opt=PATH` `--python=PATH` | where the programs are |
//! | `--no-peers` | `jitopt` alone |
//! | `--timeout=SECONDS` | when a process is killed |
//! | `--max-growth=RATIO` | exit with 1 when the growth of `jitopt` is above this anywhere |
//!
//! In continuous integration, to check that everything stays linear:
//!
//! ```text
//! cargo run --release -p jitopt-bench -- toolkit --no-peers --nodes=20000,200000 --max-growth=2
//! ```
//!
//! `jitopt-bench interpreter` times the interpreter on an LSTM cell and a small CNN, beside PyTorch's eager mode where `--python`
//! has it.
//!
//! `jitopt-bench passes FILES… --python=PATH` times `@default` beside the same passes of PyTorch, on graphs that its reader takes.
//!
//! `jitopt-bench transform-cache FILES… --python=PATH` times building results from kept ones, per node, beside running the passes, and beside
//! those of PyTorch.
//!
//! `jitopt-bench accuracy [FUNCTION] [--step=129]` says how exact the vector mathematics of kernels is; see [`accuracy`].
//!
//! `jitopt-bench kernels [GROUP] [--threads=1] [--python=python3] [--roofline=FILE.svg]` times kernels of the processor beside a copy of as many bytes and PyTorch; see
//! [`kernel_speed`], and [`roofline`] for the picture.
//!
//! `jitopt-bench generate SHAPE NODES DIALECT [-o FILE]` writes one of the programs and prints how many nodes it has.
//!
//! Exit codes: 0 measured, 1 `jitopt` failed, grew too much or is less exact than is claimed, 2 anything else went wrong.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod accuracy;
mod contender;
mod dialect;
mod eager;
mod kernel_speed;
mod llvm;
mod measured;
mod mlir;
mod pass_times;
mod peer;
mod process;
mod roofline;
mod shapes;
mod toolkit;
mod torchscript;
mod transform_times;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use jitopt_core::runtime::Settings;

use crate::contender::Places;
use crate::dialect::Dialect;
use crate::shapes::Shape;
use crate::toolkit::Plan;

/// Benchmarks of jitopt beside its peers.
#[derive(Parser)]
#[command(name = "jitopt-bench")]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Time reading, CSE, DCE and printing of generated programs
    Toolkit(Toolkit),
    /// Time the interpreter beside PyTorch's eager mode
    Interpreter(Interpreter),
    /// Time a pipeline beside the same passes of PyTorch
    Passes(Passes),
    /// Time building results from kept ones beside running the passes
    TransformCache(TransformCache),
    /// Measure how exact the vector mathematics of kernels is
    Accuracy(Accuracy),
    /// Time kernels of the processor beside a copy of as many bytes
    Kernels(Kernels),
    /// Write one generated program and print how many nodes it has
    Generate(Generate),
}

#[derive(Args)]
struct Toolkit {
    /// Sizes of the programs, in nodes
    #[arg(long, value_delimiter = ',', default_value = "20000,1000000")]
    nodes: Vec<u64>,
    /// Shapes of the programs; all but `ifs-same` when not given
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// Runs of each program on each file
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// JSON in place of Markdown
    #[arg(long)]
    json: bool,
    /// The jitopt binary; the one beside this program when not given
    #[arg(long)]
    jitopt: Option<PathBuf>,
    /// LLVM's opt
    #[arg(long, default_value = "opt")]
    opt: PathBuf,
    /// MLIR's mlir-opt
    #[arg(long, default_value = "mlir-opt")]
    mlir_opt: PathBuf,
    /// A Python with PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Measure jitopt alone
    #[arg(long)]
    no_peers: bool,
    /// Seconds after which a process is killed
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Fail when the growth of jitopt is above this for any shape
    #[arg(long)]
    max_growth: Option<f64>,
}

#[derive(Args)]
struct Interpreter {
    /// A Python with PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Runs of each model
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

#[derive(Args)]
struct Passes {
    /// Graphs that PyTorch's reader takes
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The pipeline
    #[arg(long, default_value = "@default")]
    passes: String,
    /// A Python with PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Runs of each
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

#[derive(Args)]
struct TransformCache {
    /// Graphs
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The pipeline, in place of three of 1, 5 and 20 passes
    #[arg(long)]
    passes: Option<String>,
    /// Runs of each
    #[arg(long, default_value_t = 51)]
    runs: usize,
    /// A Python that has PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
}

#[derive(Args)]
struct Accuracy {
    /// Functions whose names hold this; all when not given
    #[arg(default_value = "")]
    function: String,
    /// Every so many of all floats, and as many doubles
    #[arg(long, default_value_t = 129)]
    step: u64,
}

#[derive(Args)]
struct Kernels {
    /// Groups whose names hold this; all when not given
    #[arg(default_value = "")]
    group: String,
    /// How many threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Rounds of each group
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// A Python with PyTorch, to take turns with
    #[arg(long)]
    python: Option<PathBuf>,
    /// Whether results go past the caches; those of large launches do when it is not said
    #[arg(long)]
    stream: Option<bool>,
    /// Where to draw how far each group is below what memory and the processor can do
    #[arg(long)]
    roofline: Option<PathBuf>,
}

#[derive(Args)]
struct Generate {
    /// Its shape
    shape: Shape,
    /// How many nodes it has at least
    nodes: u64,
    /// Its language
    dialect: Dialect,
    /// Where to write it; standard output gets the number of nodes
    #[arg(short, default_value = "/dev/stdout")]
    output: PathBuf,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Action::Toolkit(options) => toolkit(options),
        Action::Interpreter(options) => interpreter(&options).map(|()| true),
        Action::Passes(options) => passes(&options).map(|()| true),
        Action::TransformCache(options) => transform_cache(&options).map(|()| true),
        Action::Accuracy(options) => exactness(&options),
        Action::Kernels(options) => kernels(&options).map(|()| true),
        Action::Generate(options) => generate(&options).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("jitopt-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Measures and reports; says whether `jitopt` did well.
fn toolkit(options: Toolkit) -> Result<bool> {
    let mut plan = Plan {
        nodes: options.nodes,
        shapes: options.shapes,
        runs: options.runs,
        limit: Duration::from_secs(options.timeout),
    };
    plan.nodes.sort_unstable();
    if plan.shapes.is_empty() {
        plan.shapes = Shape::FIVE.to_vec();
    }
    let places = Places {
        jitopt: options.jitopt,
        opt: options.opt,
        mlir_opt: options.mlir_opt,
        python: options.python,
        peers: !options.no_peers,
    };
    let measurement = toolkit::measure(&plan, &places)?;
    let text = if options.json { format!("{:#}\n", measurement.json()) } else { measurement.markdown() };
    io::stdout().write_all(text.as_bytes())?;
    if measurement.failed("jitopt") {
        eprintln!("jitopt-bench: jitopt failed");
        return Ok(false);
    }
    match (options.max_growth, measurement.worst_growth("jitopt")) {
        (Some(limit), Some((growth, shape))) if growth > limit => {
            eprintln!("jitopt-bench: a node of {shape} costs {growth:.2} times what it costs in the smallest file");
            Ok(false)
        }
        _ => Ok(true),
    }
}

/// Prints how long models take in the interpreter and in PyTorch.
fn interpreter(options: &Interpreter) -> Result<()> {
    let table = eager::measure(&options.python, options.runs)?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints how long a pipeline takes here and in PyTorch.
fn passes(options: &Passes) -> Result<()> {
    let table = pass_times::measure(&options.files, &options.passes, &options.python, options.runs)?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints what it costs to build results from kept ones.
fn transform_cache(options: &TransformCache) -> Result<()> {
    let table =
        transform_times::measure(&options.files, options.passes.as_deref(), &options.python, options.runs.max(1))?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the errors of functions; says whether what is claimed of them holds.
fn exactness(options: &Accuracy) -> Result<bool> {
    let found = accuracy::measure(&options.function, options.step.max(1), std::env::var("CC").ok())?;
    io::stdout().write_all(accuracy::table(&found).as_bytes())?;
    Ok(found.iter().all(accuracy::Found::holds))
}

/// Prints how fast kernels are.
fn kernels(options: &Kernels) -> Result<()> {
    let settings = Settings {
        cc: std::env::var("CC").ok(),
        threads: Some(options.threads.max(1)),
        stream: options.stream,
        ..Settings::default()
    };
    let measured = kernel_speed::measure(options.python.as_deref(), &options.group, settings, options.runs.max(1))?;
    io::stdout().write_all(measured.table.as_bytes())?;
    if let Some(path) = &options.roofline {
        std::fs::write(path, measured.roofline.svg()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes a program to a file, and its number of nodes to standard output.
fn generate(options: &Generate) -> Result<()> {
    let file = File::create(&options.output).with_context(|| format!("cannot write {}", options.output.display()))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let nodes = options.shape.generate(options.nodes, options.dialect.writer(&mut out).as_mut())?;
    out.flush()?;
    if options.output != Path::new("/dev/stdout") {
        println!("{nodes}");
    }
    Ok(())
}
