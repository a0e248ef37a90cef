//! `jitopt tune`: searches plans under which the kernels of a graph take less time.

use crate::arguments::TuneArgs;
use crate::exit::{self, refuse};
use crate::{World, batch};
use jitopt_core::codegen::devices::Device;
use jitopt_engine::{Error, Measurement, Question, Tuned, TuningOptions, judging, panics};

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
    let question = Question { pipeline: &pipeline, shape: &args.shape, release: args.torch, device };
    let measurement = args.measure.then_some(Measurement {
        candidates: args.candidates,
        rounds: args.runs,
        threads: args.threads,
        seed: args.seed,
    });
    let program = batch::program(&args.file, world)?;
    let tuned = Tuned::of(question, TuningOptions { measurement }, &program, &mut world.workspace())?;
    world.print(tuned.table().as_bytes());
    if let Some(path) = &args.plan {
        let written = std::fs::write(world.path(path), tuned.plans());
        written.or_else(|error| refuse(format_args!("--plan: `{}`: {error}", path.display())))?;
    }
    Ok(exit::YES)
}
