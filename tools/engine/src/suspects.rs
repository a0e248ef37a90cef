//! Finds the rewrites, or the kernels, that make a pipeline produce wrong results.

use crate::error::{Error, Kind};
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::options::{BackendOptions, JudgeOptions};
use crate::program::Program;
use crate::settings::TIMEOUT;
use crate::teamwork::Work;
use crate::{Workspace, panics, processor};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Backend, Environment, IValue, Outs};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{self, Pipeline, Rewrite, Session};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::symbol::prim;
use jitopt_core::text::{PrintOptions, Printer};
use jitopt_judge::bisecting::{Culprit, Suspect};
use jitopt_judge::rewrites::{Reference, Tally};
use jitopt_judge::showing::Settings;
use jitopt_judge::team::Seat;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A pipeline whose result is wrong on some graph.
pub struct Bisection<'a> {
    /// The pipeline.
    pub pipeline: &'a Pipeline,
    /// The profile that its passes read.
    pub profile: Option<&'a Profile>,
    /// A shell command that reads a graph, and fails if it is wrong; without one, results are
    /// compared.
    pub check: Option<&'a str>,
    /// The backend that runs fusion groups.
    pub backend: &'a BackendOptions,
    /// Samples and tolerances.
    pub judge: &'a JudgeOptions,
    /// Number of sets of rewrites tried in parallel; the result does not depend on it.
    pub jobs: usize,
}

/// The rewrite or kernel at fault.
pub enum Fault {
    /// No rewrite: these groups are computed wrong by their kernels.
    Kernels {
        /// The groups.
        groups: Vec<WrongGroup>,
        /// The difference.
        failure: String,
    },
    /// Nothing: on how many samples the results are equal, if they were compared.
    Nothing(Option<Tally>),
    /// A pass fails even with all rewrites disabled.
    Pass {
        /// The name of the pass.
        pass: String,
        /// The failure.
        failure: String,
    },
    /// Rewrites, which fail only together.
    Rewrites {
        /// Their numbers, in the order in which rewrites are applied.
        numbers: Vec<u64>,
        /// The rewrites.
        rewrites: Vec<Rewrite>,
        /// The difference.
        failure: String,
    },
}

/// A fusion group that its kernel computes wrong.
pub struct WrongGroup {
    /// The line of its node.
    pub line: String,
    /// The kinds of its operators.
    pub kinds: Vec<&'static str>,
    /// The source location of its first operator that has one.
    pub location: Option<String>,
}

impl WrongGroup {
    fn of(graph: &Graph, node: Node) -> WrongGroup {
        let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
        printer.node_line(graph, node);
        let line = String::from_utf8_lossy(&printer.out).trim().to_owned();
        let section = graph.subgraph(node);
        let kinds = section.iter().flat_map(|section| section.all_nodes().map(|inner| section.kind(inner)));
        let mut kinds: Vec<&str> = kinds.filter(|&kind| kind != prim::CONSTANT).map(|kind| kind.as_str()).collect();
        kinds.dedup();
        let location = section.and_then(|section| section.all_nodes().find_map(|inner| section.origin_location(inner)));
        WrongGroup { line, kinds, location: location.map(|at| String::from_utf8_lossy(at).trim().to_owned()) }
    }
}

impl Bisection<'_> {
    /// Finds what is at fault. `progress` receives the number of rewrites that may be at fault, and
    /// the number of sets that were tried.
    ///
    /// # Errors
    /// The text is not a valid graph, options do not fit the graph, or the time limit was reached.
    pub fn run(
        &self,
        program: &Program,
        progress: &dyn Fn(u64, usize),
        workspace: &mut Workspace<'_>,
    ) -> Result<Fault, Error> {
        let subject = Subject { args: self, env: workspace.env() };
        let work = Work { judge: self.judge, program, cwd: workspace.cwd(), jobs: self.jobs };
        let trial = Trial::read(self.judge, program, workspace)?;
        judging::refuse_unstartable(self.check, &trial.graph)?;
        judging::refuse_misuse(self.pipeline, trial.graph.release())?;
        if let Some(fault) = subject.kernels_at_fault(&trial) {
            return Ok(fault);
        }
        let follow = |trial: &Trial, seat: Seat| drop(subject.search(trial, seat, &|_, _| {}));
        let (culprit, judged) = work.share(&follow, |seat| subject.search(&trial, seat, progress));
        Ok(match culprit {
            Culprit::Late => {
                let limit = trial.settings.timeout.unwrap_or_default().as_secs_f64();
                return Err(Error::new(
                    Kind::Budget,
                    format!("the passes did not finish within {limit} s; raise {TIMEOUT}"),
                ));
            }
            Culprit::Innocent => Fault::Nothing(judged),
            Culprit::Pass(pass, failure) => Fault::Pass { pass, failure },
            Culprit::Rewrites { numbers, rewrites, failure } => Fault::Rewrites { numbers, rewrites, failure },
        })
    }
}

/// The search space that all workers share.
struct Subject<'a> {
    args: &'a Bisection<'a>,
    env: &'a BTreeMap<String, String>,
}

impl Subject<'_> {
    /// The groups whose kernels are wrong although the passes are right: the interpreter computes
    /// the transformed graph correctly.
    fn kernels_at_fault(&self, trial: &Trial) -> Option<Fault> {
        let backend = Rc::new(processor::in_environment(self.args.backend, self.env)?);
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
        let groups = guilty.iter().map(|&node| WrongGroup::of(&after, node)).collect();
        Some(Fault::Kernels { groups, failure: failure.to_string() })
    }

    /// The result of the pipeline; `None` if it fails.
    fn transformed(&self, trial: &Trial) -> Option<Graph> {
        let mut after = trial.graph.clone();
        let callees = (*trial.settings.callees).clone();
        let profile = self.args.profile.cloned().map(Rc::new);
        let deadline = judging::deadline(&trial.settings);
        let mut session = Session { callees, profile, deadline, ..Session::default() };
        let ran = panics::guard(|| pass::run(&mut after, self.args.pipeline, &mut session, &mut [&mut VerifyEach]));
        matches!(ran, Ok(Ok(()))).then_some(after)
    }

    /// The culprit, and on how many samples the whole pipeline was found correct.
    fn search(&self, trial: &Trial, seat: Seat, progress: &dyn Fn(u64, usize)) -> (Culprit, Option<Tally>) {
        let judged = RefCell::new(None);
        // Each worker has its own backend.
        let backend = processor::in_environment(self.args.backend, self.env);
        let backend = backend.map(|backend| Rc::new(backend) as Rc<dyn Backend>);
        let settings = Settings { backend, ..trial.settings.clone() };
        let reference = Reference::new(&trial.graph, settings, trial.policy, trial.samples.clone());
        let check = |graph: &Graph| match self.args.check {
            Some(command) => judging::fails_command(command, graph),
            None => match reference.check(graph) {
                Ok(tally) => {
                    judged.borrow_mut().get_or_insert(tally);
                    None
                }
                Err(finding) => Some(finding.to_string()),
            },
        };
        let (graph, callees, pipeline) = (&trial.graph, &*trial.settings.callees, self.args.pipeline);
        let (profile, timeout, late) = (self.args.profile, trial.settings.timeout, Cell::default());
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
