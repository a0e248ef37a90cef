//! `jitopt explain`: which operators of a graph fuse, which do not and why, and which edits would
//! help.

use crate::arguments::ExplainArgs;
use crate::exit::{self, refuse};
use crate::{World, batch};
use jitopt_core::interpreter::release_semantics;
use jitopt_core::pass::{self, Session};
use jitopt_engine::{Error, FusionReport, Specialization, judging, panics};
use std::path::PathBuf;

pub(crate) fn run(args: &ExplainArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| explain_files(args, world));
    exit::ended(result, world)
}

fn explain_files(args: &ExplainArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let before = judging::optional_pipeline(args.passes.as_deref(), &mut world.workspace())?;
    if !judging::fusion_is_on(&world.workspace())? {
        world.say("note: JITOPT_FUSION=0: pipelines omit `fuse`; this report shows its effect if it were enabled");
    }
    let sizes = Specialization::of_shapes(&args.shape);
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    for path in files {
        let program = batch::program(path, world)?;
        let mut graph = match before {
            Some(_) => program.graph_for_passes(args.torch, &mut world.workspace())?,
            None => program.graph(args.torch, &mut world.workspace())?,
        };
        sizes.apply(&mut graph).or_else(refuse)?;
        if let Some(text) = release_semantics::ambiguity(&graph) {
            world.say(&format!("note: {text}"));
        }
        if let Some(pipeline) = &before {
            pass::run(&mut graph, pipeline, &mut Session::default(), &mut [])
                .map_err(|error| Error::of_passes(path, &error))?;
        }
        world.print(FusionReport::of(&graph).text(path, args.passes.as_deref()).as_bytes());
    }
    Ok(exit::YES)
}
