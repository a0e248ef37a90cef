//! `jitopt smith`: random graphs that run.

use crate::arguments::SmithArgs;
use crate::judging;
use crate::observing::VerifyEach;
use crate::optimise::Refusal;
use crate::reproducers::lit_file;
use crate::{World, exit, panics};
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_judge::showing::Settings;
use jitopt_judge::smith::{Forged, Plan, forge};
use jitopt_judge::verdict::{Policy, Verdict, judge};

pub(crate) fn run(args: &SmithArgs, world: &mut World<'_>) -> i32 {
    let result = smith(args, world);
    judging::ended(Ok(result), world)
}

fn smith(args: &SmithArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), world)?;
    let (mut judged, mut wrong) = (0u64, 0u64);
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let forged = forge(Plan { seed, nodes: args.nodes, depth: args.depth });
        let Some(pipeline) = &pipeline else {
            let note = format!("jitopt smith --seed {seed} --nodes {} --depth {}", args.nodes, args.depth);
            world.print(lit_file("jitopt run %s", &note, &forged.graph, &forged.inputs).as_bytes());
            continue;
        };
        match fails(&forged, pipeline) {
            Ok(true) => judged += 1,
            Ok(false) => {}
            Err(why) => {
                wrong += 1;
                world.say(&format!("error: seed {seed}: {why}"));
            }
        }
    }
    if pipeline.is_some() {
        world.print(format!("{} graphs, {judged} compared, {wrong} wrong\n", args.count).as_bytes());
    }
    Ok(if wrong > 0 { exit::MISMATCH } else { exit::YES })
}

/// Whether a graph was compared with what a pipeline made of it; how it fails.
fn fails(forged: &Forged, pipeline: &Pipeline) -> Result<bool, String> {
    let mut after = forged.graph.clone();
    let ran = panics::guard(|| pass::run(&mut after, pipeline, &mut Session::default(), &mut [&mut VerifyEach]))?;
    ran.map_err(|error| error.to_string())?;
    match judge(&forged.graph, &after, &Settings::default(), &forged.inputs, Policy::default()) {
        Verdict::Same => Ok(true),
        Verdict::Unjudged(_) => Ok(false),
        Verdict::Differs(lines) => Err(lines.join("\n")),
    }
}
