//! Benchmarks of `jitopt` against LLVM's `opt`, MLIR's `mlir-opt` and PyTorch, as whole processes
//! on generated programs.
//!
//! # Reproducing the numbers
//!
//! ```text
//! cargo build --release
//! cargo run --release -p jitopt-bench -- toolkit
//! ```
//!
//! The command writes five shapes of programs (see [`shapes`]) with 20 000 and 1 000 000 nodes to a
//! temporary directory: as TorchScript IR for `jitopt` and PyTorch, and the same programs as LLVM
//! IR and as MLIR for the peers. 60 % of the nodes are unique, 20 % repeat an earlier one, 20 % are
//! dead; a node is about 45 bytes of text. Each program then reads its file, eliminates common
//! subexpressions and dead code, and writes the result to `/dev/null`; runs are interleaved, so
//! that a disturbance of the machine affects all programs.
//!
//! The table on standard output has, for each shape, size and program, the CPU time of the process
//! (user and system), its wall time, nanoseconds of CPU time per node, the ratio to `opt`, the
//! growth of the cost per node relative to the smallest program, startup excluded (1.00 is linear),
//! and the peak resident set per node. Below it is the time from start to exit on a file of three
//! lines. The peak resident set of a process is never below that of its parent at the fork: values
//! under 4 MB are not meaningful.
//!
//! `opt`, `mlir-opt` and `python3` are looked up on the search path; missing ones are skipped with
//! a note. PyTorch is measured without its import, except in the start-to-exit table. The peers do
//! slightly different work: `opt` verifies its input and its output (a quarter of its time) and
//! cannot remove a dead store, `mlir-opt` needs `--canonicalize` to remove dead code.
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
//! In continuous integration, to check that everything remains linear:
//!
//! ```text
//! cargo run --release -p jitopt-bench -- toolkit --no-peers --nodes=20000,200000 --max-growth=2
//! ```
//!
//! `jitopt-bench interpreter` measures the interpreter on an LSTM cell and a small CNN, against
//! PyTorch's eager mode if `--python` has it.
//!
//! `jitopt-bench passes FILES… --python=PATH` measures `@default` against the same passes of
//! PyTorch, on graphs that PyTorch's reader accepts.
//!
//! `jitopt-bench transform-cache FILES… --python=PATH` measures building results from the cache,
//! per node, against running the passes, and against those of PyTorch.
//!
//! `jitopt-bench accuracy [FUNCTION] [--step=129]` measures the accuracy of the kernels' vector
//! mathematics; see [`accuracy`].
//!
//! `jitopt-bench kernels [GROUP] [--threads=1] [--python=python3] [--others=onnxruntime,…]
//! [--roofline=FILE.svg]` measures CPU kernels against a copy of as many bytes, PyTorch and others;
//! see [`kernel_speed`], and [`roofline`] for the plot.
//!
//! `jitopt-bench products [SHAPE] [--python=python3]` measures matrix products; see
//! [`product_speed`].
//!
//! `jitopt-bench convolutions [SHAPE] [--python=python3]` measures convolutions; see
//! [`convolution_speed`].
//!
//! `jitopt-bench models FOLDER [NAME…] [--python=python3] [--ways=eager,frozen] [--threads=1]`
//! measures whole models, the first call and the steady state, and compares their results; see
//! [`model_speed`].
//!
//! `jitopt-bench generate SHAPE NODES DIALECT [-o FILE]` writes one of the programs and prints its
//! number of nodes.
//!
//! Exit codes: 0 measured, 1 `jitopt` failed, grew too much or is less accurate than claimed, 2 any
//! other error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod accuracy;
mod contender;
mod convolution_speed;
mod dialect;
mod eager;
mod kernel_speed;
mod llvm;
mod measured;
mod mlir;
mod model_speed;
mod pass_times;
mod peer;
mod process;
mod product_speed;
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

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use jitopt_core::runtime::Settings;

use crate::contender::Places;
use crate::dialect::Dialect;
use crate::peer::Way;
use crate::shapes::Shape;
use crate::toolkit::Plan;

/// Benchmarks of jitopt against its peers.
#[derive(Parser)]
#[command(name = "jitopt-bench")]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure reading, CSE, DCE and printing of generated programs
    Toolkit(Toolkit),
    /// Measure the interpreter against PyTorch's eager mode
    Interpreter(Interpreter),
    /// Measure a pipeline against the same passes of PyTorch
    Passes(Passes),
    /// Measure building results from the cache against running the passes
    TransformCache(TransformCache),
    /// Measure the accuracy of the kernels' vector mathematics
    Accuracy(Accuracy),
    /// Measure CPU kernels against a copy of as many bytes
    Kernels(Kernels),
    /// Measure matrix products
    Products(Products),
    /// Measure convolutions
    Convolutions(Products),
    /// Measure whole models against PyTorch
    Models(Models),
    /// Write one generated program and print its number of nodes
    Generate(Generate),
}

#[derive(Args)]
struct Toolkit {
    /// Sizes of the programs, in nodes
    #[arg(long, value_delimiter = ',', default_value = "20000,1000000")]
    nodes: Vec<u64>,
    /// Shapes of the programs [default: all but `ifs-same`]
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// Runs of each program on each file
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Print JSON instead of Markdown
    #[arg(long)]
    json: bool,
    /// The jitopt binary [default: the one next to this program]
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
    /// Fail if the growth of jitopt exceeds this for any shape
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
    /// Graphs that PyTorch's reader accepts
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The pipeline
    #[arg(long, default_value = "@default")]
    passes: String,
    /// A Python with PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Number of runs of each
    #[arg(long, default_value_t = 11)]
    runs: usize,
}

#[derive(Args)]
struct TransformCache {
    /// Graphs
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The pipeline, instead of three pipelines of 1, 5 and 20 passes
    #[arg(long)]
    passes: Option<String>,
    /// Number of runs of each
    #[arg(long, default_value_t = 51)]
    runs: usize,
    /// A Python with PyTorch
    #[arg(long, default_value = "python3")]
    python: PathBuf,
}

#[derive(Args)]
struct Accuracy {
    /// Functions whose names contain this text [default: all]
    #[arg(default_value = "")]
    function: String,
    /// Test every STEP-th float, and as many doubles
    #[arg(long, default_value_t = 129)]
    step: u64,
}

#[derive(Args)]
struct Kernels {
    /// Groups whose names contain this text [default: all]
    #[arg(default_value = "")]
    group: String,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of rounds per group
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// A Python with PyTorch to compare with
    #[arg(long)]
    python: Option<PathBuf>,
    /// Other programs to compare with, which Python has
    #[arg(long, value_enum, value_delimiter = ',')]
    others: Vec<Way>,
    /// Whether to use non-temporal stores [default: for large launches]
    #[arg(long)]
    stream: Option<bool>,
    /// File to write the roofline plot to
    #[arg(long)]
    roofline: Option<PathBuf>,
}

#[derive(Args)]
struct Products {
    /// Rows whose names contain this text [default: all]
    #[arg(default_value = "")]
    shape: String,
    /// Number of rounds per row
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// A Python with PyTorch and NumPy to compare with
    #[arg(long)]
    python: Option<PathBuf>,
}

#[derive(Args)]
struct Models {
    /// Folder that `write_models.py` wrote
    folder: PathBuf,
    /// Names of models [default: all]
    names: Vec<String>,
    /// The jitopt binary [default: the one next to this program]
    #[arg(long)]
    jitopt: Option<PathBuf>,
    /// A Python with PyTorch and the packages of the models
    #[arg(long)]
    python: Option<PathBuf>,
    /// How others run the models
    #[arg(long, value_enum, value_delimiter = ',', default_value = "eager,frozen")]
    ways: Vec<Way>,
    /// Number of rounds per model
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Runs of each program in a round
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

#[derive(Args)]
struct Generate {
    /// Its shape
    shape: Shape,
    /// Minimum number of nodes
    nodes: u64,
    /// Its language
    dialect: Dialect,
    /// Output file; the number of nodes goes to standard output
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
        Action::Products(options) => products(&options).map(|()| true),
        Action::Convolutions(options) => convolutions(&options).map(|()| true),
        Action::Models(options) => models(options),
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

/// Runs the measurement and reports; returns whether `jitopt` met its limits.
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

/// Prints the times of models in the interpreter and in PyTorch.
fn interpreter(options: &Interpreter) -> Result<()> {
    let table = eager::measure(&options.python, options.runs)?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the times of a pipeline here and in PyTorch.
fn passes(options: &Passes) -> Result<()> {
    let table = pass_times::measure(&options.files, &options.passes, &options.python, options.runs)?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the cost of building results from the cache.
fn transform_cache(options: &TransformCache) -> Result<()> {
    let table =
        transform_times::measure(&options.files, options.passes.as_deref(), &options.python, options.runs.max(1))?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the errors of functions; returns whether the claims hold.
fn exactness(options: &Accuracy) -> Result<bool> {
    let found = accuracy::measure(&options.function, options.step.max(1), std::env::var("CC").ok())?;
    io::stdout().write_all(accuracy::table(&found).as_bytes())?;
    Ok(found.iter().all(accuracy::Found::holds))
}

/// Prints the speed of kernels.
fn kernels(options: &Kernels) -> Result<()> {
    let settings = Settings {
        cc: std::env::var("CC").ok(),
        threads: Some(options.threads.max(1)),
        stream: options.stream,
        ..Settings::default()
    };
    if let Some(way) = options.others.iter().find(|way| way.is_pytorch()) {
        bail!("--others={}: it is PyTorch, which `--python` measures in any case", way.name());
    }
    let among = kernel_speed::Others { python: options.python.as_deref(), ways: &options.others };
    let measured = kernel_speed::measure(&among, &options.group, settings, options.runs.max(1))?;
    io::stdout().write_all(measured.table.as_bytes())?;
    if let Some(path) = &options.roofline {
        std::fs::write(path, measured.roofline.svg()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Prints the speed of matrix products.
fn products(options: &Products) -> Result<()> {
    let table = product_speed::measure(options.python.as_deref(), &options.shape, options.runs.max(1))?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the speed of convolutions.
fn convolutions(options: &Products) -> Result<()> {
    let table = convolution_speed::measure(options.python.as_deref(), &options.shape, options.runs.max(1))?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(())
}

/// Prints the figures of whole models; returns whether all have the right results.
fn models(options: Models) -> Result<bool> {
    let next_to_this = || -> Result<PathBuf> { Ok(std::env::current_exe()?.with_file_name("jitopt")) };
    let plan = model_speed::Plan {
        folder: options.folder,
        names: options.names,
        jitopt: options.jitopt.map_or_else(next_to_this, Ok)?,
        python: options.python,
        ways: options.ways,
        rounds: options.rounds.max(1),
        runs: options.runs.max(1),
        threads: options.threads.max(1),
    };
    let (table, all_equal) = model_speed::measure(&plan)?;
    io::stdout().write_all(table.as_bytes())?;
    Ok(all_equal)
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
