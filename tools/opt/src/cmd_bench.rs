//! `jitopt bench`: measures a graph after one pipeline against the same graph after another one.

use crate::arguments::BenchArgs;
use crate::exit::{self, refuse};
use crate::{World, batch};
use jitopt_core::codegen::devices::Device;
use jitopt_core::pass::Pipeline;
use jitopt_engine::{Bench, Error, Measured, Predicted, Question, judging, panics, processor, profiles};
use serde_json::Value;
use std::io::{IsTerminal, Write};

pub(crate) fn run(args: &BenchArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| bench(args, world));
    exit::ended(result, world)
}

/// Predicts the times of kernels.
fn predict(args: &BenchArgs, device: &'static Device, world: &mut World<'_>) -> Result<i32, Error> {
    let pipeline = judging::pipeline(&args.passes, &mut world.workspace())?;
    let question = Question { pipeline: &pipeline, shape: &args.shape, release: args.torch, device };
    let mut reports = Vec::new();
    for path in &args.files {
        let program = batch::program(path, world)?;
        let predicted = Predicted::of(question, &program, &mut world.workspace())?;
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
    let pipeline = judging::pipeline(&args.passes, &mut world.workspace())?;
    let against = match &args.against {
        Some(text) => judging::pipeline(text, &mut world.workspace())?,
        None => unfused(&pipeline)?,
    };
    let is_one = args.files.len() == 1;
    let profile =
        profiles::asked_for(args.seen.profile.as_deref(), &[&against, &pipeline], is_one, &world.workspace())?;
    let (pipelines, run) = ([&against, &pipeline], args.options());
    let bench = Bench { run: &run, pipelines, profile: profile.as_ref(), rounds: args.runs };
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
    let against =
        args.against.as_ref().map_or("the same pipeline without `fuse`".to_owned(), |text| format!("`{text}`"));
    format!("passes '{}' against {against}", args.passes)
}

/// The pipeline without its fusion passes.
fn unfused(pipeline: &Pipeline) -> Result<Pipeline, Error> {
    if pipeline.stages().iter().all(|stage| stage.pass.name != "fuse") {
        return refuse("--passes: the pipeline has no `fuse` to remove; give the baseline with --against");
    }
    Ok(pipeline.without("fuse"))
}
