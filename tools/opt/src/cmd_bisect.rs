//! `jitopt bisect`: finds the rewrites that make a pipeline produce wrong results.

use crate::arguments::BisectArgs;
use crate::cmd_validate::{self, told};
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::optimise::{Refusal, refuse};
use crate::reproducers::{self, quoted};
use crate::teamwork::Work;
use crate::{World, cmd_profile, exit, panics, processor};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Backend, Environment, IValue, Outs};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{self, Pipeline, Rewrite, Session};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::symbol::prim;
use jitopt_core::text::{PrintOptions, Printer};
use jitopt_judge::bisecting::{Culprit, Suspect, ranges};
use jitopt_judge::rewrites::{Reference, Tally};
use jitopt_judge::showing::Settings;
use jitopt_judge::team::Seat;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::rc::Rc;

pub(crate) fn run(args: &BisectArgs, world: &mut World<'_>) -> i32 {
    let result = panics::guard(|| bisect(args, world));
    judging::ended(result, world)
}

fn bisect(args: &BisectArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    let pipeline = judging::pipeline(&args.passes, world)?;
    let profile = cmd_profile::asked_for(&args.judge.seen, &[&pipeline], true, world)?;
    refuse_nonsense(args)?;
    let env = world.env.clone();
    let subject = Subject { args, pipeline: &pipeline, profile: profile.as_ref(), env: &env };
    let cwd = world.cwd.clone();
    let work = Work { judge: &args.judge, file: &args.file, cwd: &cwd, jobs: args.jobs };
    work.check()?;
    let trial = Trial::read(&args.judge, &args.file, world)?;
    judging::refuse_unstartable(args.check.as_deref(), &trial.graph)?;
    judging::refuse_misuse(&pipeline, trial.graph.release())?;
    let shown = std::io::stderr().is_terminal() && cwd.as_os_str().is_empty();
    let progress = |left: u64, tried: usize| {
        if shown {
            let _ = write!(std::io::stderr(), "\r{left} rewrites may be at fault, {tried} sets of them tried ");
        }
    };
    if let Some(text) = subject.kernels_at_fault(&trial) {
        world.print(text.as_bytes());
        return Ok(exit::MISMATCH);
    }
    let follow = |trial: &Trial, seat: Seat| drop(subject.search(trial, seat, &|_, _| {}));
    let (culprit, judged) = work.share(&follow, |seat| subject.search(&trial, seat, &progress));
    if shown {
        // The result replaces the progress line.
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    match culprit {
        Culprit::Late => {
            let limit = trial.settings.timeout.unwrap_or_default().as_secs_f64();
            Err((
                exit::BUDGET,
                format!("error: the passes did not finish within {limit} s; raise the limit with --timeout\n"),
            ))
        }
        Culprit::Innocent => match judged {
            Some(tally) if tally.same == 0 => Ok(cmd_validate::tell(&tally, world)),
            judged => {
                judged.and_then(|tally| told(&tally).1).iter().for_each(|note| world.say(note));
                world.print(b"no failure found\n");
                Ok(exit::YES)
            }
        },
        Culprit::Pass(pass, failure) => {
            world.print(format!("{pass} fails even with all rewrites disabled\n{failure}\n").as_bytes());
            Ok(exit::MISMATCH)
        }
        Culprit::Rewrites { numbers, rewrites, failure } => {
            let found = found(args, &numbers, &rewrites, &failure);
            world.print(found.as_bytes());
            Ok(exit::MISMATCH)
        }
    }
}

/// Refuses combinations of flags that have no effect or contradict each other.
fn refuse_nonsense(args: &BisectArgs) -> Result<(), Refusal> {
    let by_kernels = args.backend.backend == "cpu";
    if by_kernels && args.check.is_some() {
        return refuse("--backend=cpu: no kernel runs when --check decides; remove --check or --backend");
    }
    processor::refuse_idle(&args.backend)
}

/// The search space that all workers share.
struct Subject<'a> {
    args: &'a BisectArgs,
    pipeline: &'a Pipeline,
    profile: Option<&'a Profile>,
    env: &'a BTreeMap<String, String>,
}

impl Subject<'_> {
    /// The groups whose kernels are wrong although the passes are right: the interpreter computes
    /// the transformed graph correctly.
    fn kernels_at_fault(&self, trial: &Trial) -> Option<String> {
        let backend = Rc::new(processor::in_environment(&self.args.backend, self.env)?);
        let after = self.transformed(trial)?;
        let check = |backend: Option<Rc<dyn Backend>>| {
            let settings = Settings { backend, ..trial.settings.clone() };
            Reference::new(&trial.graph, settings, trial.policy, trial.samples.clone()).check(&after)
        };
        check(None).ok()?;
        let failure = check(Some(backend.clone())).err()?;
        let groups: Vec<Node> = after.all_nodes().filter(|&node| after.kind(node) == prim::FUSION_GROUP).collect();
        let alone = |&node: &Node| {
            let only = Only { backend: backend.clone(), node, graph: after.id().number() };
            check(Some(Rc::new(only))).is_err()
        };
        let guilty: Vec<Node> = groups.iter().copied().filter(alone).collect();
        let guilty = if guilty.is_empty() { groups } else { guilty };
        Some(told_of_kernels(self.args, &after, &guilty, &failure.to_string()))
    }

    /// The result of the pipeline; `None` if it fails.
    fn transformed(&self, trial: &Trial) -> Option<Graph> {
        let mut after = trial.graph.clone();
        let callees = (*trial.settings.callees).clone();
        let profile = self.profile.cloned().map(Rc::new);
        let deadline = judging::deadline(&trial.settings);
        let mut session = Session { callees, profile, deadline, ..Session::default() };
        let ran = panics::guard(|| pass::run(&mut after, self.pipeline, &mut session, &mut [&mut VerifyEach]));
        matches!(ran, Ok(Ok(()))).then_some(after)
    }

    /// The culprit, and on how many samples the whole pipeline was found correct.
    fn search(&self, trial: &Trial, seat: Seat, progress: &dyn Fn(u64, usize)) -> (Culprit, Option<Tally>) {
        let judged = RefCell::new(None);
        // Each worker has its own backend.
        let backend = processor::in_environment(&self.args.backend, self.env);
        let backend = backend.map(|backend| Rc::new(backend) as Rc<dyn Backend>);
        let settings = Settings { backend, ..trial.settings.clone() };
        let reference = Reference::new(&trial.graph, settings, trial.policy, trial.samples.clone());
        let check = |graph: &Graph| match &self.args.check {
            Some(command) => judging::fails_command(command, graph),
            None => match reference.check(graph) {
                Ok(tally) => {
                    judged.borrow_mut().get_or_insert(tally);
                    None
                }
                Err(finding) => Some(finding.to_string()),
            },
        };
        let (graph, callees, pipeline) = (&trial.graph, &*trial.settings.callees, self.pipeline);
        let (profile, timeout, late) = (self.profile, trial.settings.timeout, Cell::default());
        let suspect = Suspect { graph, pipeline, callees, profile, timeout, check: &check, seat, progress, late };
        (suspect.find(), judged.take())
    }
}

/// A backend that runs one group as a kernel and leaves the others to the interpreter.
#[derive(Debug)]
struct Only {
    backend: Rc<CpuBackend>,
    node: Node,
    graph: u64,
}

impl Backend for Only {
    fn section(
        &self,
        graph: &Graph,
        node: Node,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Option<Outs> {
        let is_meant = node == self.node && graph.id().number() == self.graph;
        is_meant.then(|| self.backend.section(graph, node, section, operands, env)).flatten()
    }
}

/// Describes groups by their nodes and their operators.
fn told_of_kernels(args: &BisectArgs, after: &Graph, guilty: &[Node], failure: &str) -> String {
    let mut text = match guilty.len() {
        1 => "one kernel is at fault, and no rewrite: the interpreter computes the group right\n".to_owned(),
        n => format!("{n} kernels are at fault, and no rewrite: the interpreter computes the groups right\n"),
    };
    for &node in guilty {
        let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
        printer.node_line(after, node);
        text += &format!("  {}\n", String::from_utf8_lossy(&printer.out).trim());
        let section = after.subgraph(node);
        let kinds = section.iter().flat_map(|section| section.all_nodes().map(|inner| section.kind(inner)));
        let mut kinds: Vec<&str> = kinds.filter(|&kind| kind != prim::CONSTANT).map(|kind| kind.as_str()).collect();
        kinds.dedup();
        let location = section.and_then(|section| section.all_nodes().find_map(|inner| section.origin_location(inner)));
        let from = location.map_or(String::new(), |at| format!(", from {}", String::from_utf8_lossy(at).trim()));
        text += &format!("    of {}{from}\n", kinds.join(", "));
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
