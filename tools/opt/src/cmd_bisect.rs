//! `jitopt bisect`: finds the rewrites that make a pipeline produce wrong results.

use crate::arguments::BisectArgs;
use crate::cmd_validate::{self, meaning};
use crate::exit::{self, refuse};
use crate::reproducers::{self, quoted};
use crate::{World, batch};
use jitopt_core::pass::Rewrite;
use jitopt_engine::{Bisection, Error, Fault, WrongGroup, judging, panics, processor, profiles};
use jitopt_judge::bisecting::ranges;
use jitopt_judge::rewrites::Tally;
use std::io::{IsTerminal, Write};

pub(crate) fn run(args: &BisectArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| bisect(args, world));
    exit::ended(result, world)
}

fn bisect(args: &BisectArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let pipeline = judging::pipeline(&args.passes, &mut world.workspace())?;
    let profile = profiles::requested(args.judge.seen.profile.as_deref(), &[&pipeline], true, &world.workspace())?;
    refuse_nonsense(args)?;
    batch::refuse_jobs(args.jobs, &args.file, &args.judge)?;
    let (judge, backend) = (args.judge.options(), args.backend.options());
    let bisection = Bisection {
        pipeline: &pipeline,
        profile: profile.as_ref(),
        check: args.check.as_deref(),
        backend: &backend,
        judge: &judge,
        jobs: args.jobs,
    };
    let shown = std::io::stderr().is_terminal() && world.cwd.as_os_str().is_empty();
    let progress = |left: u64, tried: usize| {
        if shown {
            let _ = write!(std::io::stderr(), "\r{left} rewrites may be at fault, {tried} sets of them tried ");
        }
    };
    let program = batch::program(&args.file, world)?;
    let fault = bisection.run(&program, &progress, &mut world.workspace());
    if shown {
        // The result replaces the progress line.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    program.refuse_changed()?;
    let text = match fault? {
        Fault::Nothing(judged) => return Ok(nothing(judged, world)),
        Fault::Kernels { groups, failure } => describe_kernels(args, &groups, &failure),
        Fault::Pass { pass, failure } => format!("{pass} fails even with all rewrites disabled\n{failure}\n"),
        Fault::Rewrites { numbers, rewrites, failure } => found(args, &numbers, &rewrites, &failure),
    };
    world.print(text.as_bytes());
    Ok(exit::MISMATCH)
}

/// Reports that the whole pipeline was found correct, or could not be judged.
fn nothing(judged: Option<Tally>, world: &mut World<'_>) -> i32 {
    match judged {
        Some(tally) if tally.same == 0 => cmd_validate::print_meaning(&tally, world),
        judged => {
            judged.and_then(|tally| meaning(&tally).1).iter().for_each(|note| world.say(note));
            world.print(b"no failure found\n");
            exit::YES
        }
    }
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &BisectArgs) -> Result<(), Error> {
    let by_kernels = args.backend.has_kernels();
    if by_kernels && args.check.is_some() {
        return refuse("--backend=cpu: no kernel runs when --check decides; remove --check or --backend");
    }
    processor::refuse_idle(&args.backend.options())
}

/// Describes groups by their nodes and their operators.
fn describe_kernels(args: &BisectArgs, guilty: &[WrongGroup], failure: &str) -> String {
    let mut text = match guilty.len() {
        1 => "one kernel is at fault, and no rewrite: the interpreter computes the group right\n".to_owned(),
        n => format!("{n} kernels are at fault, and no rewrite: the interpreter computes the groups right\n"),
    };
    for WrongGroup { line, kinds, location } in guilty {
        let from = location.as_ref().map_or(String::new(), |at| format!(", from {at}"));
        text += &format!("  {line}\n    of {}{from}\n", kinds.join(", "));
    }
    let (file, passes) = (quoted(&args.file.display().to_string()), &args.passes);
    let (flags, backend) = (reproducers::all_flags(&args.judge), reproducers::of_backend(&args.backend));
    let wrong = format!("jitopt validate {file} --passes='{passes}'{backend}{flags}");
    let reduce = format!("jitopt reduce {file} --passes='{passes}'{backend}{flags}");
    let right = format!("jitopt validate {file} --passes='{passes}'{flags}");
    text + &format!("{failure}\nwrong:  {wrong}\nright:  {right}\nsmaller: {reduce}\n")
}

fn found(args: &BisectArgs, numbers: &[u64], rewrites: &[Rewrite], failure: &str) -> String {
    let mut text = match rewrites.len() {
        1 => "one rewrite is at fault\n".to_owned(),
        n => format!("{n} rewrites are at fault together\n"),
    };
    for Rewrite { pass, rule, node, location, .. } in rewrites {
        let from = location.as_ref().map_or(String::new(), |location| format!("\n    from {location}"));
        text += &format!("  {pass}.{rule} at {node}{from}\n");
    }
    text += &format!("{failure}\n");
    let flags = reproducers::of_backend(&args.backend) + &reproducers::all_flags(&args.judge);
    let command = |numbers: &[u64]| {
        let (file, passes, gate) = (quoted(&args.file.display().to_string()), &args.passes, ranges(numbers));
        match &args.check {
            Some(check) => {
                let given = reproducers::for_passes(&args.judge);
                format!("jitopt {file} --passes='{passes}' --debug-counter='*={gate}'{given} | {check}")
            }
            None => format!("jitopt validate {file} --passes='{passes}' --debug-counter='*={gate}'{flags}"),
        }
    };
    let last = numbers.len().saturating_sub(1);
    text + &format!("wrong:  {}\nright:  {}\n", command(numbers), command(&numbers[..last]))
}
