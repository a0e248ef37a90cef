//! `jitopt smith`: generates random executable graphs.

use crate::World;
use crate::arguments::SmithArgs;
use crate::exit::{self, refuse};
use crate::progress::Progress;
use crate::reproducers::lit_file;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_engine::observing::VerifyEach;
use jitopt_engine::{Error, judging, panics};
use jitopt_judge::smith::{Forged, Plan, forge};
use jitopt_judge::verdict::{Policy, Verdict, judge};
use jitopt_passes::REGISTRY;

pub(crate) fn run(args: &SmithArgs, world: &mut World<'_>) -> i32 {
    let result = smith(args, world);
    exit::ended(result.map_err(Into::into), world)
}

fn smith(args: &SmithArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), &mut world.workspace())?;
    let (mut judged, mut wrong) = (0u64, 0u64);
    let mut progress = Progress::new(world);
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let forged = forge(Plan { seed, nodes: args.nodes, depth: args.depth });
        let Some(pipeline) = &pipeline else {
            let mut note = format!("jitopt smith --seed {seed} --nodes {} --depth {}", args.nodes, args.depth);
            note += if forged.callees.is_empty() { "" } else { ", calls inlined: a file holds one graph" };
            world.print(lit_file("jitopt run %s", &note, &whole(&forged)?, &forged.inputs).as_bytes());
            continue;
        };
        progress.show(|| format!("{} of {} graphs, {wrong} wrong", seed - args.seed, args.count));
        match fails(&forged, pipeline) {
            Ok(true) => judged += 1,
            Ok(false) => {}
            Err(why) => {
                wrong += 1;
                progress.clear();
                world.say(&format!("error: seed {seed}: {why}"));
            }
        }
    }
    drop(progress);
    if pipeline.is_some() {
        world.print(format!("{} graphs, {judged} compared, {wrong} wrong\n", args.count).as_bytes());
    }
    Ok(match (&pipeline, wrong, judged) {
        (Some(_), 1.., _) => exit::MISMATCH,
        (Some(_), 0, 0) => exit::NO,
        _ => exit::YES,
    })
}

/// The graph with all calls inlined.
fn whole(forged: &Forged) -> Result<Graph, Error> {
    let mut graph = forged.graph.clone();
    let mut session = Session { callees: forged.callees.clone(), ..Session::default() };
    let inline = Pipeline::parse("inline-fork-wait,inline", &REGISTRY).or_else(|error| refuse(error.to_string()))?;
    pass::run(&mut graph, &inline, &mut session, &mut []).or_else(|error| refuse(error.to_string()))?;
    Ok(graph)
}

/// Whether a graph could be compared with the result of a pipeline; `Err` is a failure.
fn fails(forged: &Forged, pipeline: &Pipeline) -> Result<bool, String> {
    let mut after = forged.graph.clone();
    let mut session = Session { callees: forged.callees.clone(), ..Session::default() };
    let ran = panics::guard(|| pass::run(&mut after, pipeline, &mut session, &mut [&mut VerifyEach]))?;
    ran.map_err(|error| error.to_string())?;
    match judge(&forged.graph, &after, &forged.settings(), &forged.inputs, Policy::default()) {
        Verdict::Same => Ok(true),
        Verdict::Unjudged(_) => Ok(false),
        Verdict::Differs(lines) => Err(lines.join("\n")),
    }
}
