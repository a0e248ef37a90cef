//! `jitopt validate`: runs a graph before and after a pipeline and compares the results.

use crate::arguments::ValidateArgs;
use crate::engine_options::Releases;
use crate::exit::{self, refuse};
use crate::reproducers::{self, Reproducer, quoted};
use crate::{World, batch, progress, several, validated_pairs};
use jitopt_core::interpreter::{Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, RunError};
use jitopt_engine::move_report::{MoveReport, failed_json};
use jitopt_engine::{
    Against, Comparison, Error, Gradients, Program, Stopped, When, judging, panics, processor, profiles,
};
use jitopt_judge::rewrites::{Finding, Reference, Tally};
use std::path::Path;
use std::rc::Rc;

pub(crate) fn run(args: &ValidateArgs, world: &mut World<'_>) -> i32 {
    if args.pairs {
        let result = panics::caught(|| validated_pairs::run(args, world));
        return exit::ended(result, world);
    }
    if args.files.len() < 2 || is_pair(args) {
        return progress::during(world, |world| one(args, world).0);
    }
    several::each(&args.shard.of(&args.files), args.jobs, world, |file, world| {
        let alone = ValidateArgs { files: vec![file.to_owned()], ..args.clone() };
        one(&alone, world).0
    })
}

/// Compares once, and prints the result; what was found out about two files is returned, too.
pub(crate) fn one(args: &ValidateArgs, world: &mut World<'_>) -> (i32, Option<MoveReport>) {
    if args.json && !is_pair(args) {
        return (passes_for_json(args, world), None);
    }
    let mut report = None;
    let result = panics::caught(|| validate(args, &mut report, world));
    if args.json {
        let names = [0, 1].map(|at| args.files.get(at).unwrap_or(&args.files[0]).display().to_string());
        let names = [names[0].as_str(), names[1].as_str()];
        let json = match (&report, &result) {
            (Some(report), _) => report.as_json(names),
            (None, Err(error)) => failed_json(names, &why(error)),
            (None, Ok(_)) => failed_json(names, "nothing was compared"),
        };
        world.print(format!("{json}\n").as_bytes());
    }
    (exit::ended(result, world), report)
}

/// One line of JSON about a graph and its pipeline; messages are in it.
fn passes_for_json(args: &ValidateArgs, world: &mut World<'_>) -> i32 {
    let plain = ValidateArgs { json: false, ..args.clone() };
    let done = several::captured(world, |inner| one(&plain, inner).0);
    let verdict = match done.code {
        exit::YES => "same",
        exit::MISMATCH => "different",
        exit::NO | exit::BUDGET => "not compared",
        _ => "refused",
    };
    let mut json = done.as_json("validate", &args.files[0], verdict);
    json["passes"] = args.passes.as_deref().into();
    world.print(format!("{json}\n").as_bytes());
    done.code
}

/// The message of what ended a comparison.
fn why(stopped: &Stopped) -> String {
    match stopped {
        Stopped::Misuse(error) => exit::text(error),
        Stopped::Raised(stop) | Stopped::OutOfBudget(stop) => stop.to_string(),
        Stopped::Passes(error) => error.to_string(),
        Stopped::Internal(message) => message.clone(),
    }
}

/// Whether two graphs are compared with each other, or one as two releases run it.
fn is_pair(args: &ValidateArgs) -> bool {
    let are_two = args.judge.torch.is_some_and(Releases::are_two);
    args.passes.is_none() && (args.files.len() == 2 || args.files.len() == 1 && are_two)
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &ValidateArgs) -> Result<(), Error> {
    if args.passes.is_some() && args.judge.torch.is_some_and(Releases::are_two) {
        return refuse("--torch: passes run on a graph of one release");
    }
    if args.shard.divides() && args.files.len() <= 2 && is_pair(args) && !args.pairs {
        return refuse("--shard: one pair is not divided; give --pairs, or files with --passes");
    }
    if is_pair(args) && (args.each != "end" || !reproducers::gates(&args.gates).is_empty()) {
        return refuse("two graphs are compared with each other: no passes run in between");
    }
    Ok(())
}

fn validate(args: &ValidateArgs, report: &mut Option<MoveReport>, world: &mut World<'_>) -> Result<i32, Error> {
    refuse_nonsense(args)?;
    let backend = processor::backend(&args.backend.options(), &world.workspace()).map(Rc::new);
    if args.files.len() == 1 && args.passes.is_none() && !is_pair(args) && backend.is_none() {
        return refuse("nothing to compare with: give --passes, a second graph, or --backend=cpu");
    }
    processor::refuse_idle(&args.backend.options())?;
    let pipeline = judging::optional_pipeline(args.passes.as_deref(), &mut world.workspace())?;
    let nothing = Pipeline::default();
    let passes = pipeline.as_ref().unwrap_or(&nothing);
    let profile = profiles::requested(args.judge.seen.profile.as_deref(), &[passes], true, &world.workspace())?;
    let gate = judging::gate(&args.gates.options(), passes)?;
    if args.repro_dir.is_some() && pipeline.is_none() {
        return refuse("--repro-dir: a reproducer shows a wrong pipeline; give --passes");
    }
    let (options, is_other_graph) = (args.judge.options(), is_pair(args) || args.files.len() == 2);
    let program = batch::program(&args.files[0], world)?;
    let other = args.files.get(1).map(|file| batch::program(file, world)).transpose()?;
    let other = other.or_else(|| is_pair(args).then(|| program.clone()));
    let against = Against { is_other_graph, other: other.as_ref(), backend: backend.as_ref(), when: when(args) };
    let mut comparison = Comparison::new(&options, &program, &against, &mut world.workspace())?;
    match &pipeline {
        None => {
            if let Some(other) = &other {
                comparison.read_other(other, &mut world.workspace())?;
            }
        }
        Some(pipeline) => {
            if let Err(stopped) = comparison.transform(pipeline, gate, profile.map(Rc::new)) {
                let error = stopped.into_run_error()?;
                return Ok(failed_pipeline(args, &comparison.reference, &error, world));
            }
        }
    }
    let result = comparison.check();
    program.refuse_changed()?;
    other.iter().try_for_each(Program::refuse_changed)?;
    *report =
        other.as_ref().filter(|_| is_pair(args)).map(|other| MoveReport::of(&comparison, &result, [&program, other]));
    let code = judged(args, &comparison, (result, report.as_ref()), world)?;
    if args.per_node {
        table(&comparison, world);
    }
    if let Some(backend) = backend {
        processor::note_of_launches(&backend, &mut world.workspace());
        processor::refuse_findings(&backend)?;
    }
    Ok(code)
}

fn when(args: &ValidateArgs) -> When {
    match args.each.as_str() {
        "pass" => When::Pass,
        "rewrite" => When::Rewrite,
        _ => When::End,
    }
}

/// Compares the results, and the gradients if they are equal.
fn judged(
    args: &ValidateArgs,
    comparison: &Comparison<'_>,
    (result, report): (Result<Tally, Finding>, Option<&MoveReport>),
    world: &mut World<'_>,
) -> Result<i32, Error> {
    let code = match (result, report) {
        (Ok(tally), _) if args.json && tally.same > 0 => exit::YES,
        (Ok(tally), _) => print_meaning(&tally, world),
        (Err(_), Some(_)) if args.json => return Ok(exit::MISMATCH),
        (Err(finding), Some(report)) => {
            let finding = Finding { first: None, ..finding };
            let code = wrong(args, &comparison.reference, &finding, &comparison.after, world);
            world.say(report.as_text().trim_end());
            return Ok(code);
        }
        (Err(finding), None) => {
            return Ok(wrong(args, &comparison.reference, &finding, &comparison.after, world));
        }
    };
    if let Some(report) = report.filter(|_| !args.json) {
        world.print(report.as_text().as_bytes());
    }
    if report.is_some_and(MoveReport::is_different) {
        return Ok(exit::MISMATCH);
    }
    if code != exit::YES {
        return Ok(code);
    }
    let gradients = comparison.gradients(&mut world.workspace())?;
    match gradients {
        Gradients::Equal if args.json => {}
        Gradients::Equal => world.print(b"gradients are equal too\n"),
        Gradients::NotCompared => {}
        Gradients::Differ(text) => {
            world.say(&format!("error: {text}"));
            return Ok(exit::MISMATCH);
        }
    }
    Ok(exit::YES)
}

fn failed_pipeline(args: &ValidateArgs, reference: &Reference, error: &RunError, world: &mut World<'_>) -> i32 {
    world.say(&format!("error: {}: {error}", args.files[0].display()));
    if matches!(error, RunError::Stopped(_)) {
        reproduce(args, reference, error.to_string().lines().next().unwrap_or_default(), world);
    }
    exit::of(error)
}

/// The meaning of a tally: the message, an optional note, and whether anything was compared.
pub(crate) fn meaning(tally: &Tally) -> (String, Option<String>, bool) {
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
pub(crate) fn print_meaning(tally: &Tally, world: &mut World<'_>) -> i32 {
    let (text, note, compared) = meaning(tally);
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
        (None, None) if is_pair(args) => ("differs from itself in the other release".to_owned(), String::new()),
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

fn table(comparison: &Comparison<'_>, world: &mut World<'_>) {
    let Some((sample, errors)) = comparison.errors_by_value() else { return };
    let mut text = format!("with {sample}:\n{:>12}  node\n", "error");
    for (off, line) in errors {
        text += &format!("{off:>12.3e}  {line}\n");
    }
    world.say(&text);
}
