//! `jitopt reduce`: a failing graph made small.

use crate::arguments::ReduceArgs;
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::optimise::{Refusal, refuse};
use crate::{World, exit, panics};
use jitopt_core::pass::{self, Gate, Pipeline, RunError, Session};
use jitopt_core::verify;
use jitopt_judge::reducing::{Case, Reducer};
use jitopt_judge::showing::Settings;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::io::IsTerminal;

pub(crate) fn run(args: &ReduceArgs, world: &mut World<'_>) -> i32 {
    let result = panics::guard(|| reduce(args, world));
    judging::ended(result, world)
}

/// How a case fails.
struct Judge<'a> {
    args: &'a ReduceArgs,
    pipeline: Option<Pipeline>,
    gate: Gate,
    settings: &'a Settings,
    policy: Policy,
}

impl Judge<'_> {
    /// In words that stay the same while the case shrinks; `None` when it does not fail, or is no graph.
    fn signature(&self, case: &Case) -> Option<String> {
        if verify::verify(&case.graph).has_errors() {
            return None;
        }
        let mut after = case.graph.clone();
        if let Some(pipeline) = &self.pipeline {
            let mut session =
                Session { gate: self.gate.clone(), callees: (*self.settings.callees).clone(), ..Session::default() };
            let ran = panics::guard(|| pass::run(&mut after, pipeline, &mut session, &mut [&mut VerifyEach]));
            match ran {
                Err(message) => return Some(format!("it panics: {}", message.lines().last().unwrap_or_default())),
                Ok(Err(RunError::Broken { pass, .. })) => return Some(format!("the graph is broken after {pass}")),
                Ok(Err(RunError::Pass { pass, .. })) => return Some(format!("{pass} refuses")),
                Ok(Err(RunError::Stopped(_)) | Ok(())) => {}
            }
        }
        if let Some(command) = &self.args.check {
            return judging::fails_command(command, &after);
        }
        match judge(&case.graph, &after, self.settings, &case.inputs, self.policy) {
            Verdict::Differs(_) => Some("the results differ".to_owned()),
            _ => None,
        }
    }
}

fn reduce(args: &ReduceArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    if args.passes.is_none() && args.check.is_none() {
        return refuse("nothing can fail: give --passes or --check");
    }
    let pipeline = args.passes.as_deref().map(judging::pipeline).transpose()?;
    let trial = Trial::read(&args.judge, &args.file, world)?;
    let judge = Judge {
        args,
        pipeline,
        gate: judging::gate(&args.debug_counter)?,
        settings: &trial.settings,
        policy: trial.policy,
    };
    let case = |inputs: &[_]| Case { graph: trial.graph.clone(), inputs: inputs.to_vec() };
    let failing = trial.samples.iter().map(|sample| case(&sample.inputs)).find(|case| judge.signature(case).is_some());
    let Some(first) = failing else {
        world.say("error: the graph does not fail on any sample");
        return Ok(exit::NO);
    };
    let signature = |case: &Case| judge.signature(case);
    let shown = std::io::stderr().is_terminal() && world.cwd.as_os_str().is_empty();
    let out = args.output.clone().map(|path| world.path(&path));
    let mut progress = |case: &Case, tried: usize| {
        if let Some(path) = &out {
            // Should it be interrupted, the best so far is there; reducing it goes on from there.
            let _ = std::fs::write(path, text(args, case, "not finished"));
        }
        if shown {
            let nodes = case.graph.all_nodes().count();
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("\r{nodes} nodes, {tried} tried ").as_bytes(),
            );
        }
    };
    let mut reducer =
        Reducer { signature: &signature, settings: &trial.settings, progress: &mut progress, most: args.max_tries };
    let Some((best, signature)) = reducer.reduce(first) else {
        world.say("error: the graph fails now and then: it cannot be reduced");
        return Ok(exit::NO);
    };
    finish(args, &best, &signature, world)
}

fn text(args: &ReduceArgs, case: &Case, note: &str) -> String {
    let passes = args.passes.as_ref().map_or(String::new(), |passes| format!(" --passes='{passes}'"));
    let counters: String = args.debug_counter.iter().map(|counter| format!(" --debug-counter='{counter}'")).collect();
    let line = match &args.check {
        Some(check) => format!("jitopt %s{passes}{counters} | {check}"),
        None => format!("jitopt validate %s{passes}{counters}{} --samples 0", judging::flags(&args.judge)),
    };
    judging::lit_file(&line, note, &case.graph, &case.inputs)
}

fn finish(args: &ReduceArgs, best: &Case, signature: &str, world: &mut World<'_>) -> Result<i32, Refusal> {
    let text = text(args, best, signature);
    match &args.output {
        None => world.print(text.as_bytes()),
        Some(path) => std::fs::write(world.path(path), &text)
            .or_else(|error| refuse(format_args!("cannot write `{}`: {error}", path.display())))?,
    }
    world.say(&format!("{} nodes are left: {signature}", best.graph.all_nodes().count()));
    Ok(exit::YES)
}
