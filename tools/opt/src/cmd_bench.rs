//! `jitopt bench`: measures a graph after one pipeline against the same graph after another one.

use crate::arguments::ProfileArg;
use crate::cmd_tune::machines;
use crate::exit::{self, refuse};
use crate::{World, batch};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitopt_core::codegen::devices::Device;
use jitopt_core::interpreter::Release;
use jitopt_core::pass::Pipeline;
use jitopt_core::runtime::GraphPolicy;
use jitopt_engine::{
    Bench, CalleeOf, ContentOf, Error, Filling, Measured, Predicted, PredictionSubject, SizesOf, judging, panics,
    processor, profiles,
};
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  jitopt bench case.ir --passes='@default,fuse'
  jitopt bench case.ir --passes='@default,fuse{level=2}' --against='@default,fuse' --threads 1 --json
  jitopt bench in.ir --passes='@default,fuse' --seed 1 --shape '%x=512,1024'
  jitopt bench model.pt                                the graph as it is, compared with nothing

Both run alternately on the same inputs, after their results are compared. Bytes are those that operators read and wrote;
a group run by a kernel is one operator. The roofline is a kernel that copies as many bytes, measured in the same rounds.
With --backend=cuda a second table has the times of launches by the clock of the GPU.
Exit codes: 0 measured, 5 results differ, 1 a graph does not run.";

/// `jitopt bench`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// The graphs, each with its inputs in the same folder
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The pipeline to measure [default: none, the graph as it is]
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: Option<String>,
    /// The baseline pipeline [default: that of --passes without `fuse`]
    #[arg(long, value_name = "PIPELINE", requires = "passes")]
    pub(crate) against: Option<String>,
    #[command(flatten)]
    pub(crate) seen: ProfileArg,
    /// Predict the times of kernels on a machine instead of measuring: of kernels in CUDA, or in C
    /// on the processor of the recorded figures. Sizes come from types and --shape; nothing runs
    #[arg(long, value_name = "MACHINE", require_equals = true, conflicts_with_all = ["against", "inputs", "args"])]
    #[arg(value_parser = machines())]
    pub(crate) predict: Option<String>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Threads per kernel [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Backend for fusion groups: kernels compiled from C, kernels of a GPU, or the interpreter
    #[arg(long, value_name = "WHO", default_value = "cpu", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(["interp", "cpu", "cuda"]))]
    pub(crate) backend: String,
    /// Neither read nor write the cache of compiled kernels
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// GPU of --backend=cuda [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Launches of --backend=cuda that are captured as CUDA graphs: those that repeat, all between
    /// two copies, or none [default: auto]
    #[arg(long, value_name = "WHICH", require_equals = true)]
    #[arg(value_parser = PossibleValuesParser::new(GraphPolicy::NAMES))]
    pub(crate) cuda_graphs: Option<String>,
    /// Input tensors: a safetensors, .npz or .npy file
    #[arg(long, value_name = "FILE")]
    pub(crate) inputs: Option<PathBuf>,
    /// JSON description of the inputs
    #[arg(long, value_name = "FILE")]
    pub(crate) args: Option<PathBuf>,
    /// Generate missing inputs, with this seed
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Shape of a generated tensor; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// Content of a constant, attribute or parameter that the text does not show; may be repeated
    #[arg(long, value_name = "%V=FILE")]
    pub(crate) bind: Vec<ContentOf>,
    /// Directory of such contents
    #[arg(long, value_name = "DIR")]
    pub(crate) bind_dir: Option<PathBuf>,
    /// Generate contents that are not bound: zeros, ones, random, or random:SEED
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "random")]
    pub(crate) fill_unknown: Option<Filling>,
    /// PyTorch release whose results are reproduced, such as 1.3, 1.8.1 or 2.15 [default: the
    /// newest release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
    /// Graph of a called function or method; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) callee: Vec<CalleeOf>,
}

pub(crate) fn run(args: &BenchArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| bench(args, world));
    exit::ended(result, world)
}

/// Predicts the times of kernels.
fn predict(args: &BenchArgs, device: &'static Device, world: &mut World<'_>) -> Result<i32, Error> {
    let pipeline = judging::pipeline(args.passes.as_deref().unwrap_or_default(), &mut world.workspace())?;
    let given = PredictionSubject { pipeline: &pipeline, shape: &args.shape, release: args.torch, device };
    let mut reports = Vec::new();
    for path in &args.files {
        let program = batch::program(path, world)?;
        let predicted = Predicted::of(given, &program, &mut world.workspace())?;
        if !args.json {
            world.print(predicted.table().as_bytes());
        }
        reports.push(predicted.json());
    }
    if args.json {
        world.print(format!("{}\n", Value::from(reports)).as_bytes());
    }
    Ok(exit::YES)
}

fn bench(args: &BenchArgs, world: &mut World<'_>) -> Result<i32, Error> {
    if let Some(device) = args.predict.as_deref().and_then(Device::named) {
        return predict(args, device, world);
    }
    processor::refuse_idle(&args.backend())?;
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), &mut world.workspace())?;
    let is_alone = pipeline.is_none();
    let pipeline = pipeline.unwrap_or_default();
    let against = match &args.against {
        Some(text) => judging::pipeline(text, &mut world.workspace())?,
        None if is_alone => Pipeline::default(),
        None => unfused(&pipeline)?,
    };
    let is_one = args.files.len() == 1;
    let profile =
        profiles::requested(args.seen.profile.as_deref(), &[&against, &pipeline], is_one, &world.workspace())?;
    let (pipelines, run) = ([&against, &pipeline], args.options());
    let bench = Bench { run: &run, pipelines, is_alone, profile: profile.as_ref(), rounds: args.runs };
    let shown = std::io::stderr().is_terminal() && world.cwd.as_os_str().is_empty();
    let mut progress = |round: u32| {
        if shown {
            let _ = write!(std::io::stderr(), "\r{round} of {} ", args.runs);
        }
    };
    let mut reports = Vec::new();
    for path in &args.files {
        let program = batch::program(path, world)?;
        let measured = Measured::of(&bench, &program, &mut progress, &mut world.workspace())?;
        program.refuse_changed()?;
        if shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        if !args.json {
            world.print(measured.table(&headline(args)).as_bytes());
        }
        reports.push(measured.json());
    }
    if args.json {
        world.print(format!("{}\n", Value::from(reports)).as_bytes());
    }
    Ok(exit::YES)
}

/// A title that names both pipelines.
fn headline(args: &BenchArgs) -> String {
    let Some(passes) = &args.passes else { return "without passes".to_owned() };
    let against =
        args.against.as_ref().map_or("the same pipeline without `fuse`".to_owned(), |text| format!("`{text}`"));
    format!("passes '{passes}' against {against}")
}

/// The pipeline without its fusion passes.
fn unfused(pipeline: &Pipeline) -> Result<Pipeline, Error> {
    if pipeline.stages().iter().all(|stage| stage.pass.name != "fuse") {
        return refuse("--passes: the pipeline has no `fuse` to remove; give the baseline with --against");
    }
    Ok(pipeline.without("fuse"))
}
