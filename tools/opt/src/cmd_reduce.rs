//! `jitopt reduce`: reduces a failing graph to a minimal one.

use crate::arguments::ReduceArgs;
use crate::exit::{self, refuse};
use crate::reproducers::{self, Reproducer};
use crate::{World, batch};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::pass::Pipeline;
use jitopt_engine::{Error, Reduction, Trial, judging, panics, processor, profiles};
use jitopt_judge::reducing::Case;
use std::io::{IsTerminal, Write};

pub(crate) fn run(args: &ReduceArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| reduce(args, world));
    exit::ended(result, world)
}

fn reduce(args: &ReduceArgs, world: &mut World<'_>) -> Result<i32, Error> {
    refuse_nonsense(args)?;
    batch::refuse_jobs(args.jobs, &args.file, &args.judge)?;
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), &mut world.workspace())?;
    let profile = profile(args, pipeline.as_ref(), world)?;
    let (judge, backend, gates) = (args.judge.options(), args.backend.options(), args.gates.options());
    let reduction = Reduction {
        pipeline: pipeline.as_ref(),
        profile: profile.as_ref(),
        check: args.check.as_deref(),
        gates: &gates,
        backend: &backend,
        judge: &judge,
        max_tries: args.max_tries,
        jobs: args.jobs,
    };
    let cwd = world.cwd.clone();
    let shown = std::io::stderr().is_terminal() && cwd.as_os_str().is_empty();
    let mut progress = |trial: &Trial, case: &Case, tried: usize| {
        if let Some(path) = &args.output {
            // If the search is interrupted, the best case so far is in the file, and a reduction
            // can continue from it.
            let _ = reproducer(args, trial, case, "not finished").write(&cwd.join(path), &cwd);
        }
        if shown {
            let nodes = case.graph.all_nodes().count();
            let _ = write!(std::io::stderr(), "\r{nodes} nodes, {tried} tried ");
        }
    };
    let program = batch::program(&args.file, world)?;
    let reduced = reduction.run(&program, &mut progress, &mut world.workspace())?;
    program.refuse_changed()?;
    match reduced.found {
        Ok((best, signature)) => finish(args, &reduced.trial, &best, &signature, world),
        Err(why) => {
            world.say(&format!("error: {why}"));
            Ok(exit::NO)
        }
    }
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &ReduceArgs) -> Result<(), Error> {
    let by_kernels = args.backend.has_kernels();
    if args.passes.is_none() && args.check.is_none() && !by_kernels {
        return refuse("no failure is defined: give --passes, --check or --backend=cpu");
    }
    if by_kernels && args.check.is_some() {
        return refuse("--backend=cpu: no kernel runs when --check decides; remove --check or --backend");
    }
    processor::refuse_idle(&args.backend.options())
}

/// The profile of the graph. It is stored in the graph, because it would not fit a graph from which
/// nodes were removed.
fn profile(args: &ReduceArgs, pipeline: Option<&Pipeline>, world: &mut World<'_>) -> Result<Option<Profile>, Error> {
    let passes: Vec<&Pipeline> = pipeline.into_iter().collect();
    let profile = profiles::requested(args.judge.seen.profile.as_deref(), &passes, true, &world.workspace())?;
    let first = pipeline.and_then(|pipeline| pipeline.stages().first().map(|stage| stage.pass.name));
    if profile.is_some() && first != Some(profiles::ASKS) {
        return refuse(
            "--profile: the profile is stored in the graph that is reduced, so `insert-guards` must be the first pass",
        );
    }
    Ok(profile)
}

fn reproducer<'a>(args: &'a ReduceArgs, trial: &'a Trial, case: &'a Case, note: &'a str) -> Reproducer<'a> {
    let passes = args.passes.as_ref().map_or(String::new(), |passes| format!(" --passes='{passes}'"));
    let flags = format!("{passes}{}{}", reproducers::gates(&args.gates), reproducers::of_backend(&args.backend));
    let (command, piped) = match &args.check {
        Some(check) => (format!("jitopt %s{flags}"), format!(" | {}", check.replace('%', "%%"))),
        None => (format!("jitopt validate %s{flags} --samples 0"), reproducers::SAME.to_owned()),
    };
    let (graph, inputs, contents, judge) = (&case.graph, &case.inputs[..], &trial.settings.bindings, &args.judge);
    let names = &*trial.settings.content_names;
    Reproducer { command, profile: None, piped, note, graph, inputs, contents, names, judge }
}

fn finish(args: &ReduceArgs, trial: &Trial, best: &Case, signature: &str, world: &mut World<'_>) -> Result<i32, Error> {
    let reproducer = reproducer(args, trial, best, signature);
    match &args.output {
        None => world.print(reproducer.printed(&world.cwd).as_bytes()),
        Some(path) => reproducer
            .write(&world.path(path), &world.cwd)
            .or_else(|error| refuse(format_args!("cannot write `{}`: {error}", path.display())))?,
    }
    world.say(&format!("reduced to {} nodes: {signature}", best.graph.all_nodes().count()));
    Ok(exit::YES)
}
