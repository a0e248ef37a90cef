//! Reduces a failing graph to a minimal one.

use crate::error::{Error, Kind};
use crate::judging::{self, Trial};
use crate::observing::VerifyEach;
use crate::options::{BackendOptions, GateOptions, JudgeOptions};
use crate::program::Program;
use crate::teamwork::Work;
use crate::{Workspace, panics, processor, profiles};
use jitopt_core::interpreter::Backend;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::pass::{self, Gate, Pipeline, RunError, Session};
use jitopt_core::verify;
use jitopt_judge::reducing::{Case, Reducer};
use jitopt_judge::showing::Settings;
use jitopt_judge::team::Seat;
use jitopt_judge::verdict::{Policy, Verdict, judge};
use std::path::Path;
use std::rc::Rc;

/// A failure, which a smaller graph shall have too.
pub struct Reduction<'a> {
    /// The pipeline that fails.
    pub pipeline: Option<&'a Pipeline>,
    /// The profile that its passes read; it is stored in the graph, because it would not fit a
    /// graph from which nodes were removed.
    pub profile: Option<&'a Profile>,
    /// A shell command that reads a graph, and fails if it is of interest; without one, results are
    /// compared.
    pub check: Option<&'a str>,
    /// Restrictions of rewrites.
    pub gates: &'a GateOptions,
    /// The backend that runs fusion groups.
    pub backend: &'a BackendOptions,
    /// Samples and tolerances.
    pub judge: &'a JudgeOptions,
    /// Maximum number of graphs to try.
    pub max_tries: usize,
    /// Number of graphs tried in parallel; the result does not depend on it.
    pub jobs: usize,
}

/// The result of a reduction.
pub struct Reduced {
    /// The original graph.
    pub trial: Trial,
    /// The smallest graph with its inputs, and its failure; or why there is none.
    pub found: Result<(Case, String), &'static str>,
}

impl Reduction<'_> {
    /// Finds a smaller graph. `progress` receives the original graph, the best case so far and the
    /// number of graphs that were tried.
    ///
    /// # Errors
    /// The text is not a valid graph, or options do not fit the graph.
    pub fn run(
        &self,
        program: &Program,
        progress: &mut dyn FnMut(&Trial, &Case, usize),
        workspace: &mut Workspace<'_>,
    ) -> Result<Reduced, Error> {
        let env = workspace.env();
        let work = Work { judge: self.judge, program, cwd: workspace.cwd(), jobs: self.jobs };
        let trial = Trial::read(self.judge, program, workspace)?;
        judging::refuse_unstartable(self.check, &trial.graph)?;
        self.pipeline.map_or(Ok(()), |pipeline| judging::refuse_misuse(pipeline, trial.graph.release()))?;
        let search = |trial: &Trial, seat: Seat, progress: &mut dyn FnMut(&Case, usize)| {
            // Each worker has its own backend.
            let backend = processor::in_environment(self.backend, env).map(|one| Rc::new(one) as Rc<dyn Backend>);
            search(self, &program.path, (trial, backend), seat, progress)
        };
        let follow = |trial: &Trial, seat: Seat| drop(search(trial, seat, &mut |_, _| {}));
        let mut report = |case: &Case, tried: usize| progress(&trial, case, tried);
        let found = work.share(&follow, |seat| search(&trial, seat, &mut report))?;
        Ok(Reduced { trial, found })
    }
}

/// The failure where the passes are right and a kernel computes a group wrong.
const KERNEL: &str = "a kernel and the interpreter give different results";

/// Classifies the failure of a case.
struct Judge<'a> {
    args: &'a Reduction<'a>,
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
        if let Some(pipeline) = self.args.pipeline {
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
        if let Some(command) = self.args.check {
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

/// The smallest case and its failure, or why there is none.
type Found = Result<(Case, String), &'static str>;

fn search(
    args: &Reduction<'_>,
    path: &Path,
    (trial, backend): (&Trial, Option<Rc<dyn Backend>>),
    seat: Seat,
    progress: &mut dyn FnMut(&Case, usize),
) -> Result<Found, Error> {
    let nothing = Pipeline::default();
    let judge = Judge {
        args,
        gate: judging::gate(args.gates, args.pipeline.unwrap_or(&nothing))?,
        settings: Settings { backend, ..trial.settings.clone() },
        policy: Policy { explain: false, ..trial.policy },
    };
    let mut graph = trial.graph.clone();
    let written = args.profile.map_or(Ok(()), |profile| profiles::write_into(&mut graph, profile));
    written.map_err(|why| Error::new(Kind::Refused, format!("{}: {why}", path.display())))?;
    let case = |i: usize| Case { graph: graph.clone(), inputs: trial.samples[i].inputs.clone() };
    let failing = seat.first(0..trial.samples.len(), |i| judge.signature(&case(i)).is_some());
    let Some(first) = failing.map(case) else { return Ok(Err("the graph does not fail on any sample")) };
    let signature = |case: &Case| judge.signature(case);
    let settings = &trial.settings;
    let mut reducer = Reducer { signature: &signature, settings, progress, most: args.max_tries, seat };
    Ok(reducer.reduce(first).ok_or("the failure is not deterministic, so the graph cannot be reduced"))
}
