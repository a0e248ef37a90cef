//! `jitopt tune`: searches plans under which the kernels of a graph take less time.

use crate::exit::{self, refuse};
use crate::{World, batch};
use clap::Args;
use clap::builder::PossibleValuesParser;
use jitopt_core::codegen::devices::DEVICES;
use jitopt_core::codegen::devices::Device;
use jitopt_core::interpreter::Release;
use jitopt_engine::{Error, Measurement, PredictionSubject, SizesOf, Tuned, TuningOptions, judging, panics};
use std::path::PathBuf;

/// `jitopt tune`
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The graph
    pub(crate) file: PathBuf,
    /// The pipeline that makes the groups
    #[arg(long, value_name = "PIPELINE")]
    pub(crate) passes: String,
    /// The machine that plans are for: `cpu`, or one that runs kernels in CUDA
    #[arg(long, value_name = "MACHINE", default_value = "cpu", require_equals = true, value_parser = machines())]
    pub(crate) target: String,
    /// Write the plans that were found, for `run --plan`
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Sizes of a parameter; may be repeated
    #[arg(long, value_name = "%X=SIZES")]
    pub(crate) shape: Vec<SizesOf>,
    /// Compile and time the best plans by the model on this processor, and keep the fastest one.
    /// Each is compared with the interpreter first
    #[arg(long)]
    pub(crate) measure: bool,
    /// How many plans of each kernel are timed, besides the usual one
    #[arg(long, value_name = "N", default_value_t = 8, requires = "measure")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) candidates: u32,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 21, requires = "measure")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Threads per kernel [default: 1, as the model assumes]
    #[arg(long, value_name = "N", requires = "measure", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// Seed of the inputs that plans are timed with
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Neither read nor keep measurements, which are in the directory of compiled kernels
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// PyTorch release whose semantics apply, such as 1.3, 1.8.1 or 2.15 [default: the newest
    /// release that prints such text]
    #[arg(long, value_name = "VERSION", require_equals = true)]
    pub(crate) torch: Option<Release>,
}

/// The machines that there are predictions for.
pub(crate) fn machines() -> PossibleValuesParser {
    PossibleValuesParser::new(DEVICES.iter().map(|device| device.name))
}

pub(crate) fn run(args: &TuneArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| tune(args, world));
    exit::ended(result, world)
}

fn tune(args: &TuneArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let Some(device) = Device::named(&args.target) else { return refuse("--target: there is no such machine") };
    if args.measure && device.has_blocks() {
        return refuse(format_args!("--measure: kernels for {} cannot be timed on this processor", device.name));
    }
    let pipeline = judging::pipeline(&args.passes, &mut world.workspace())?;
    let given = PredictionSubject { pipeline: &pipeline, shape: &args.shape, release: args.torch, device };
    let measurement = args.measure.then_some(Measurement {
        candidates: args.candidates,
        rounds: args.runs,
        threads: args.threads,
        seed: args.seed,
    });
    let program = batch::program(&args.file, world)?;
    let options = TuningOptions { measurement, no_cache: args.no_cache };
    let tuned = Tuned::of(given, options, &program, &mut world.workspace())?;
    program.refuse_changed()?;
    world.print(tuned.table().as_bytes());
    if let Some(path) = &args.plan {
        let written = std::fs::write(world.path(path), tuned.plans());
        written.or_else(|error| refuse(format_args!("--plan: `{}`: {error}", path.display())))?;
    }
    Ok(exit::YES)
}
