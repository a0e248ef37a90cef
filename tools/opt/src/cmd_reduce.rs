//! `jitopt reduce`: reduces a failing graph to a minimal one.

use crate::arguments::ReduceArgs;
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::optimise::{Refusal, refuse};
use crate::reproducers::{self, Reproducer};
use crate::teamwork::Work;
use crate::{World, cmd_profile, exit, panics, processor};
use jitopt_core::interpreter::Backend;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::pass::{self, Gate, Pipeline, RunError, Session};
use jitopt_core::verify;
use jitopt_judge::reducing::{Case, Reducer};
use jitopt_judge::showing::Settings;
use jitopt_judge::team::Seat;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::io::{IsTerminal, Write};
use std::rc::Rc;

pub(crate) fn run(args: &ReduceArgs, world: &mut World<'_>) -> i32 {
    let result = panics::guard(|| reduce(args, world));
    judging::ended(result, world)
}

/// The failure where the passes are right and a kernel computes a group wrong.
const KERNEL: &str = "a kernel and the interpreter give different results";

/// Classifies the failure of a case.
struct Judge<'a> {
    args: &'a ReduceArgs,
    pipeline: Option<&'a Pipeline>,
    gate: Gate,
    settings: Settings,
    policy: Policy,
}

impl Judge<'_> {
    /// The failure in terms that are stable while the case shrinks; `None` if it does not fail, or
    /// is not a valid graph.
    fn signature(&self, case: &Case) -> Option<String> {
        if verify::verify(&case.graph).has_errors() {
            return None;
        }
        let mut after = case.graph.clone();
        if let Some(pipeline) = self.pipeline {
            let (gate, callees) = (self.gate.clone(), (*self.settings.callees).clone());
            let deadline = judging::deadline(&self.settings);
            let mut session = Session { gate, callees, deadline, ..Session::default() };
            let ran = panics::guard(|| pass::run(&mut after, pipeline, &mut session, &mut [&mut VerifyEach]));
            match ran {
                Err(message) => {
                    return Some(format!("the pipeline panics: {}", message.lines().last().unwrap_or_default()));
                }
                Ok(Err(RunError::Broken { pass, .. })) => return Some(format!("the graph is broken after {pass}")),
                Ok(Err(RunError::Pass { pass, .. })) => return Some(format!("{pass} refuses")),
                // A reduced graph that no pass can process proves nothing.
                Ok(Err(RunError::Unfit { .. } | RunError::Exploded { .. } | RunError::Late)) => return None,
                Ok(Err(RunError::Stopped(_) | RunError::Unwritable(_)) | Ok(())) => {}
            }
        }
        if let Some(command) = &self.args.check {
            return judging::fails_command(command, &after);
        }
        let differs = |settings: &Settings| {
            matches!(judge(&case.graph, &after, settings, &case.inputs, self.policy), Verdict::Differs(_))
        };
        let plain = Settings { backend: None, ..self.settings.clone() };
        match () {
            () if !differs(&self.settings) => None,
            () if self.settings.backend.is_some() && !differs(&plain) => Some(KERNEL.to_owned()),
            () => Some("the results differ".to_owned()),
        }
    }
}

/// The result of a search: the smallest case and its failure, or why there is none.
type Found<'a> = Result<(Case, String), &'a str>;

fn reduce(args: &ReduceArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    let by_kernels = args.backend.backend == "cpu";
    if args.passes.is_none() && args.check.is_none() && !by_kernels {
        return refuse("no failure is defined: give --passes, --check or --backend=cpu");
    }
    if by_kernels && args.check.is_some() {
        return refuse("--backend=cpu: no kernel runs when --check decides; remove --check or --backend");
    }
    processor::refuse_idle(&args.backend)?;
    let env = world.env.clone();
    let cwd = world.cwd.clone();
    let work = Work { judge: &args.judge, file: &args.file, cwd: &cwd, jobs: args.jobs };
    work.check()?;
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), world)?;
    let pipeline = pipeline.as_ref();
    let profile = profile(args, pipeline, world)?;
    let profile = profile.as_ref();
    let trial = Trial::read(&args.judge, &args.file, world)?;
    judging::refuse_unstartable(args.check.as_deref(), &trial.graph)?;
    pipeline.map_or(Ok(()), |pipeline| judging::refuse_misuse(pipeline, trial.graph.release()))?;
    let shown = std::io::stderr().is_terminal() && cwd.as_os_str().is_empty();
    let mut progress = |case: &Case, tried: usize| {
        if let Some(path) = &args.output {
            // If the search is interrupted, the best case so far is in the file, and a reduction
            // can continue from it.
            let _ = reproducer(args, &trial, case, "not finished").write(&cwd.join(path), &cwd);
        }
        if shown {
            let nodes = case.graph.all_nodes().count();
            let _ = write!(std::io::stderr(), "\r{nodes} nodes, {tried} tried ");
        }
    };
    let search = |trial: &Trial, seat: Seat, progress: &mut dyn FnMut(&Case, usize)| {
        // Each worker has its own backend.
        let backend = processor::in_environment(&args.backend, &env).map(|one| Rc::new(one) as Rc<dyn Backend>);
        search(args, pipeline, profile, (trial, backend), seat, progress)
    };
    let follow = |trial: &Trial, seat: Seat| drop(search(trial, seat, &mut |_, _| {}));
    let found = work.share(&follow, |seat| search(&trial, seat, &mut progress))?;
    match found {
        Ok((best, signature)) => finish(args, &trial, &best, &signature, world),
        Err(why) => {
            world.say(&format!("error: {why}"));
            Ok(exit::NO)
        }
    }
}

/// The profile of the graph. It is stored in the graph, because it would not fit a graph from which
/// nodes were removed.
fn profile(args: &ReduceArgs, pipeline: Option<&Pipeline>, world: &World<'_>) -> Result<Option<Profile>, Refusal> {
    let passes: Vec<&Pipeline> = pipeline.into_iter().collect();
    let profile = cmd_profile::asked_for(&args.judge.seen, &passes, true, world)?;
    let first = pipeline.and_then(|pipeline| pipeline.stages().first().map(|stage| stage.pass.name));
    if profile.is_some() && first != Some(cmd_profile::ASKS) {
        return refuse(
            "--profile: the profile is stored in the graph that is reduced, so `insert-guards` must be the first pass",
        );
    }
    Ok(profile)
}

fn search<'a>(
    args: &ReduceArgs,
    pipeline: Option<&Pipeline>,
    profile: Option<&Profile>,
    (trial, backend): (&Trial, Option<Rc<dyn Backend>>),
    seat: Seat,
    progress: &mut dyn FnMut(&Case, usize),
) -> Result<Found<'a>, Refusal> {
    let nothing = Pipeline::default();
    let judge = Judge {
        args,
        pipeline,
        gate: judging::gate(&args.gates.disable, &args.gates.debug_counter, pipeline.unwrap_or(&nothing))?,
        settings: Settings { backend, ..trial.settings.clone() },
        policy: Policy { explain: false, ..trial.policy },
    };
    let mut graph = trial.graph.clone();
    let written = profile.map_or(Ok(()), |profile| cmd_profile::write_into(&mut graph, profile));
    written.map_err(|why| (exit::NO, format!("error: {}: {why}", args.file.display())))?;
    let case = |i: usize| Case { graph: graph.clone(), inputs: trial.samples[i].inputs.clone() };
    let failing = seat.first(0..trial.samples.len(), |i| judge.signature(&case(i)).is_some());
    let Some(first) = failing.map(case) else { return Ok(Err("the graph does not fail on any sample")) };
    let signature = |case: &Case| judge.signature(case);
    let settings = &trial.settings;
    let mut reducer = Reducer { signature: &signature, settings, progress, most: args.max_tries, seat };
    Ok(reducer.reduce(first).ok_or("the failure is not deterministic, so the graph cannot be reduced"))
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

fn finish(
    args: &ReduceArgs,
    trial: &Trial,
    best: &Case,
    signature: &str,
    world: &mut World<'_>,
) -> Result<i32, Refusal> {
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
