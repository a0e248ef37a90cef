//! `jitopt validate`: runs a graph before and after a pipeline and compares the results.

use crate::arguments::ValidateArgs;
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::optimise::{Refusal, refuse};
use crate::paired_gradients::{self, KeepDifferentiated};
use crate::reproducers::{self, Reproducer, quoted};
use crate::{World, cmd_profile, exit, panics, processor, several};
use jitopt_core::interpreter::{Backend, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Observer, PassRun, Pipeline, RunError, Session};
use jitopt_judge::rewrites::{EachRewrite, Finding, Reference, Tally, off_by_value};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

pub(crate) fn run(args: &ValidateArgs, world: &mut World<'_>) -> i32 {
    if args.files.len() < 2 || is_pair(args) {
        let result = panics::guard(|| validate(args, world));
        return judging::ended(result, world);
    }
    several::each(&args.files, args.jobs, world, |file, world| {
        let alone = ValidateArgs { files: vec![file.to_owned()], ..args.clone() };
        judging::ended(panics::guard(|| validate(&alone, world)), world)
    })
}

/// Whether two graphs are compared with each other.
fn is_pair(args: &ValidateArgs) -> bool {
    args.files.len() == 2 && args.passes.is_none()
}

/// Compares after each pass.
pub(crate) struct EachPass(pub(crate) Rc<Reference>);

impl Observer for EachPass {
    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        match self.0.check(graph) {
            Ok(_) => Ok(()),
            Err(finding) => Err(RunError::Stopped(format!("{} is wrong\n{finding}", run.stage.pass.name))),
        }
    }
}

fn validate(args: &ValidateArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    if is_pair(args) && (args.each != "end" || !reproducers::gates(&args.gates).is_empty()) {
        return refuse("two graphs are compared with each other: no passes run in between");
    }
    let backend = processor::backend(&args.backend, world).map(Rc::new);
    if args.files.len() == 1 && args.passes.is_none() && backend.is_none() {
        return refuse("nothing to compare with: give --passes, a second graph, or --backend=cpu");
    }
    processor::refuse_idle(&args.backend)?;
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), world)?;
    let nothing = Pipeline::default();
    let passes = pipeline.as_ref().unwrap_or(&nothing);
    let profile = cmd_profile::asked_for(&args.judge.seen, &[passes], true, world)?.map(Rc::new);
    let gates = &args.gates;
    let gate = judging::gate(&gates.disable, &gates.debug_counter, passes)?;
    if args.repro_dir.is_some() && pipeline.is_none() {
        return refuse("--repro-dir: a reproducer shows a wrong pipeline; give --passes");
    }
    let mut trial = Trial::read(&args.judge, &args.files[0], world)?;
    let two = args.files.len() == 2;
    trial.settings.by_origin = two;
    if two && args.judge.fill_unknown.is_none() {
        // Contents that only the second graph has must not be generated differently from those of
        // the first.
        trial.settings.invent = None;
    }
    trial.settings.backend = backend.clone().map(|backend| backend as Rc<dyn Backend>);
    let reference = Reference::new(&trial.graph, trial.settings.clone(), trial.policy, trial.samples.clone());
    let reference = Rc::new(if args.each == "end" { reference } else { reference.recalling() });
    if args.judge.fill_unknown.is_none() {
        note_of_calls(&reference, world);
    }
    if let Some(text) = reference.samples().find_map(|(_, outcome)| outcome.ambiguity.as_ref()) {
        world.say(&format!("note: {text}"));
    }
    let mut after = trial.graph.clone();
    let mut differentiated = KeepDifferentiated::default();
    match &pipeline {
        None if two => after = judging::read_another(&args.judge, &args.files[1], world)?,
        None => {}
        Some(pipeline) => {
            let callees = (*trial.settings.callees).clone();
            let deadline = judging::deadline(&trial.settings);
            let mut session = Session { gate, callees, profile, deadline, ..Session::default() };
            if let Err(error) = transform(args, &mut after, pipeline, (&mut session, &mut differentiated), &reference) {
                return Ok(failed_pipeline(args, &reference, &error, world));
            }
            judging::refuse_idle(&session)?;
        }
    }
    let code = match reference.check(&after) {
        Ok(tally) => {
            let before = if paired_gradients::any(&trial.graph) { None } else { differentiated.0.as_ref() };
            let gradients = |world: &mut World<'_>| {
                paired_gradients::compare(&reference, (before.unwrap_or(&trial.graph), &after), world)
            };
            match tell(&tally, world) {
                exit::YES => gradients(world)?,
                code => code,
            }
        }
        Err(finding) => wrong(args, &reference, &finding, &after, world),
    };
    if args.per_node {
        table(&reference, &after, world);
    }
    if let Some(backend) = backend {
        processor::note_of_launches(&backend, world);
    }
    Ok(code)
}

/// Notes calls whose results are generated.
fn note_of_calls(reference: &Reference, world: &mut World<'_>) {
    let names: BTreeSet<&String> = reference.samples().flat_map(|(_, outcome)| &outcome.generated_calls).collect();
    for name in names {
        world.say(&format!("note: the graph of `{name}` is not given, so its results are generated"));
    }
}

fn transform(
    args: &ValidateArgs,
    graph: &mut Graph,
    pipeline: &Pipeline,
    (session, differentiated): (&mut Session, &mut KeepDifferentiated),
    reference: &Rc<Reference>,
) -> Result<(), RunError> {
    let (mut verifier, mut each) = (VerifyEach, EachPass(reference.clone()));
    let mut observers: Vec<&mut dyn Observer> = vec![differentiated];
    if !args.judge.no_verify {
        observers.push(&mut verifier);
    }
    match args.each.as_str() {
        "pass" => observers.push(&mut each),
        "rewrite" => session.watch = Some(Box::new(EachRewrite(reference.clone()))),
        _ => {}
    }
    pass::run(graph, pipeline, session, &mut observers)
}

fn failed_pipeline(args: &ValidateArgs, reference: &Reference, error: &RunError, world: &mut World<'_>) -> i32 {
    world.say(&format!("error: {}: {error}", args.files[0].display()));
    if matches!(error, RunError::Stopped(_)) {
        reproduce(args, reference, error.to_string().lines().next().unwrap_or_default(), world);
    }
    exit::of(error)
}

/// The meaning of a tally: the message, an optional note, and whether anything was compared.
pub(crate) fn told(tally: &Tally) -> (String, Option<String>, bool) {
    let why = |stop: &Stop| stop.to_string().replace('\n', "\n  ");
    let none = |why: &str| (format!("error: nothing could be compared: {why}"), None, false);
    match (&tally.same, &tally.unjudged) {
        (0, Some((n, stop))) => none(&format!("none of {n} samples ran to completion\n  {}", why(stop))),
        (0, None) => none("there are no samples; give inputs or --samples"),
        (same, None) => (format!("the same on {}", samples(*same)), None, true),
        (same, Some((n, stop))) => {
            let note = format!("note: {} could not be compared: {}", samples(*n), why(stop));
            (format!("the same on {}", samples(*same)), Some(note), true)
        }
    }
}

/// The exit code where nothing was compared.
pub(crate) fn uncompared(tally: &Tally) -> i32 {
    match &tally.unjudged {
        Some((_, stop)) if matches!(stop.reason, Reason::Budget(_)) => exit::BUDGET,
        _ => exit::NO,
    }
}

/// Prints the meaning of a tally.
pub(crate) fn tell(tally: &Tally, world: &mut World<'_>) -> i32 {
    let (text, note, compared) = told(tally);
    note.iter().for_each(|note| world.say(note));
    if compared {
        world.print(format!("{text}\n").as_bytes());
        return exit::YES;
    }
    world.say(&text);
    if tally.unjudged.as_ref().is_some_and(|(_, stop)| matches!(stop.reason, Reason::Raised(_))) {
        world.say("note: generated inputs may not fit; give inputs, or try another --seed or --shape");
    }
    uncompared(tally)
}

fn samples(n: usize) -> String {
    format!("{n} sample{}", if n == 1 { "" } else { "s" })
}

fn wrong(args: &ValidateArgs, reference: &Reference, finding: &Finding, after: &Graph, world: &mut World<'_>) -> i32 {
    let (what, passes) = match (&args.passes, args.files.get(1)) {
        (Some(passes), _) => (format!("is wrong after {passes}"), format!(" --passes='{passes}'")),
        (None, Some(other)) => (format!("and {} differ", other.display()), String::new()),
        (None, None) => ("differs when its groups run as kernels".to_owned(), String::new()),
    };
    let first = args.files[0].display();
    world.say(&format!("error: {first} {what}\n{finding}"));
    if after.num_shown_nodes() > 0 && args.passes.is_some() {
        let flags = reproducers::of_backend(&args.backend) + &reproducers::all_flags(&args.judge);
        world.say(&format!("  to find the rewrite: jitopt bisect {}{passes}{flags}", quoted(&first.to_string())));
        reproduce(args, reference, &finding.to_string(), world);
    }
    exit::MISMATCH
}

/// Writes a lit file that reproduces the failure.
fn reproduce(args: &ValidateArgs, reference: &Reference, note: &str, world: &mut World<'_>) {
    let (Some(dir), Some(passes)) = (&args.repro_dir, &args.passes) else { return };
    let Some(sample) = reference.failed() else { return };
    let stem = args.files[0].file_stem().unwrap_or(Path::new("graph").as_os_str()).to_string_lossy().into_owned();
    let reproducer = Reproducer {
        command: format!(
            "jitopt validate %s --passes='{passes}'{}{} --samples 0",
            reproducers::gates(&args.gates),
            reproducers::of_backend(&args.backend)
        ),
        profile: args.judge.seen.profile.as_deref(),
        piped: reproducers::SAME.to_owned(),
        note,
        graph: reference.graph(),
        inputs: &sample.inputs,
        contents: &reference.settings().bindings,
        names: &reference.settings().content_names,
        judge: &args.judge,
    };
    match reproducer.write_into(&world.path(dir), &stem, &world.cwd) {
        Ok(path) => world.say(&format!("  a reproducer is in `{}`", path.display())),
        Err(error) => world.say(&format!("warning: cannot write to `{}`: {error}", dir.display())),
    }
}

fn table(reference: &Reference, after: &Graph, world: &mut World<'_>) {
    let Some((sample, _)) = reference.samples().next() else { return };
    let mut text = format!("with {}:\n{:>12}  node\n", sample.name, "error");
    for (off, line) in off_by_value(reference.graph(), after, reference.settings(), &sample.inputs) {
        text += &format!("{off:>12.3e}  {line}\n");
    }
    world.say(&text);
}
