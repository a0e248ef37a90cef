//! Runs a graph before and after a pipeline, or two graphs, and compares their observable
//! behaviour.

use crate::agreed_inputs::{Agreed, Side, agree, plain_types, unread};
use crate::error::{Error, Stopped};
use crate::judging::{self, Trial};
use crate::moved_weights::{self, WeightDifferences};
use crate::observing::VerifyEach;
use crate::options::JudgeOptions;
use crate::paired_gradients::{self, Gradients, KeepDifferentiated};
use crate::program::Program;
use crate::{Workspace, known_values};
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Backend, IValue};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Gate, Observer, PassRun, Pipeline, RunError, Session};
use jitopt_core::runtime::CpuBackend;
use jitopt_judge::rewrites::{EachRewrite, Finding, Reference, Tally, off_by_value};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Compares after each pass.
pub struct EachPass(pub Rc<Reference>);

impl Observer for EachPass {
    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        match self.0.check(graph) {
            Ok(_) => Ok(()),
            Err(finding) => Err(RunError::Stopped(format!("{} is wrong\n{finding}", run.stage.pass.name))),
        }
    }
}

/// When results are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// After all passes.
    #[default]
    End,
    /// After each pass.
    Pass,
    /// After each rewrite.
    Rewrite,
}

/// The other side of a comparison.
#[derive(Clone, Copy, Default)]
pub struct Against<'a> {
    /// Whether it is another graph, with other names: values are matched by their origin, and
    /// contents that only one graph has are not generated unless the options say how.
    pub is_other_graph: bool,
    /// That other graph. Weights that only one of two files has are those of both.
    pub other: Option<&'a Program>,
    /// The kernels that run fusion groups.
    pub backend: Option<&'a Rc<CpuBackend>>,
    /// When results are compared.
    pub when: When,
}

/// A graph, its results on samples, and the graph that it is compared with: itself, until passes
/// run or another graph is read.
pub struct Comparison<'o> {
    /// The original graph, and its results.
    pub reference: Rc<Reference>,
    /// The graph that it is compared with.
    pub after: Graph,
    options: &'o JudgeOptions,
    trial: Trial,
    when: When,
    differentiated: KeepDifferentiated,
    /// The graph of the other file, with the params of this one.
    other: Option<Graph>,
    /// What is known of the files of the two graphs before they run.
    pub(crate) files: ComparedFiles,
}

/// What differs between two files before their graphs run.
#[derive(Clone, Debug, Default)]
pub(crate) struct ComparedFiles {
    /// Weights.
    pub(crate) weights: WeightDifferences,
    /// Sizes and numbers that one of them fixes, in words.
    pub(crate) sizes: Vec<String>,
    /// Inputs that one of them does not read, as they were another input when it was exported.
    pub(crate) unread: Vec<String>,
    /// Inputs that one of them does not have, in words.
    pub(crate) left_out: Vec<String>,
    /// Whether it is one file, which two releases run.
    pub(crate) is_one_program: bool,
    /// Whether the first file is an archive, with weights.
    pub(crate) is_archive: bool,
}

impl ComparedFiles {
    /// What there is to say before graphs run.
    fn notes(&self) -> impl Iterator<Item = &String> {
        self.left_out.iter().chain(&self.sizes).chain(&self.unread).chain(&self.weights.notes)
    }
}

/// One or two files as they are read, whose params agree.
struct Pair {
    graph: Graph,
    /// The first graph before the second one changed its params.
    as_read: Graph,
    other: Option<Graph>,
    agreed: Agreed,
    /// Contents of each.
    contents: [BTreeMap<String, IValue>; 2],
    files: ComparedFiles,
}

impl Pair {
    fn read(
        options: &JudgeOptions,
        program: &Program,
        against: &Against<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Pair, Error> {
        let own = program.contents(options.torch)?;
        let theirs = against.other.map_or(Ok(BTreeMap::new()), |other| other.contents(options.second_torch()))?;
        let mut graph = program.graph_to_run(options.torch, workspace)?;
        let is_one_program =
            options.other_torch.is_some() && against.other.is_some_and(|o| o.bytes.is_same(&program.bytes));
        let mut files = ComparedFiles { is_one_program, is_archive: program.is_archive(), ..ComparedFiles::default() };
        let second = against.other.filter(|other| other.is_archive() || program.is_archive());
        let mut other = second.map(|other| other.graph(options.second_torch(), workspace)).transpose()?;
        let mut agreed = Agreed::default();
        if let (Some(other), Some(second)) = (&mut other, second) {
            let sides = [Side::of(program, &graph, &own, "first")?, Side::of(second, other, &theirs, "second")?];
            agreed = agree([&sides[0], &sides[1]], [&graph, other])?;
            agreed.apply([&mut graph, other])?;
            files.left_out = agreed.left_out.clone();
        }
        let as_read = graph.clone();
        if let Some(other) = &other {
            // Samples must fit both graphs: what one leaves open the other may fix.
            files.sizes = agreed.fixed.clone();
            files.sizes.extend(moved_weights::fixed_sizes(&graph, other));
            moved_weights::adopt_sizes(&mut graph, other);
        }
        Ok(Pair { graph, as_read, other, agreed, contents: [own, theirs], files })
    }

    /// The first graph with samples that fit both.
    fn trial(
        &mut self,
        options: &JudgeOptions,
        program: &Program,
        against: &Against<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Trial, Error> {
        let Pair { graph, as_read, other, agreed, contents: [own, theirs], files } = self;
        let mut contents = theirs.clone();
        contents.extend(own.clone());
        let types = plain_types(graph);
        let arranged = |which: usize, found: Vec<IValue>| agreed.arranged(&types, which, found);
        let recorded = || match (program.samples(options.torch)?, against.other) {
            (None, Some(other)) => Ok(other.samples(options.second_torch())?.and_then(|found| arranged(1, found))),
            (own, _) => Ok(own.and_then(|found| arranged(0, found))),
        };
        let mut trial = Trial::with(graph.clone(), options, (program, contents), recorded, workspace)?;
        for sample in trial.samples.iter_mut().filter(|sample| sample.is_generated()) {
            agreed.hold(&trial.graph, &mut sample.inputs);
        }
        if !own.is_empty() && !theirs.is_empty() {
            let others = against.other.map_or(Ok(BTreeSet::new()), Program::stored_names)?;
            files.weights = moved_weights::weights(own, theirs, &[program.stored_names()?, others]);
            let mut bindings = trial.settings.bindings.clone();
            bindings.extend(theirs.clone());
            trial.settings.other_bindings = Some(Rc::new(bindings));
        }
        if let Some(other) = other {
            moved_weights::keep_within(&mut trial, other);
            trial.as_read = as_read.clone();
            files.sizes.extend(moved_weights::tried_sizes(&trial, other));
            let recorded = trial.samples.iter().find(|sample| !sample.is_generated());
            files.unread = recorded.map(|sample| unread([&trial.graph, other], &sample.inputs)).unwrap_or_default();
        }
        Ok(trial)
    }
}

impl<'o> Comparison<'o> {
    /// Reads a graph, prepares samples, and runs it on them.
    ///
    /// # Errors
    /// The text is not a valid graph, a file cannot be read, or options do not fit the graph.
    pub fn new(
        options: &'o JudgeOptions,
        program: &Program,
        against: &Against<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Comparison<'o>, Error> {
        let mut pair = Pair::read(options, program, against, workspace)?;
        let mut trial = pair.trial(options, program, against, workspace)?;
        let Pair { other, files, .. } = pair;
        files.notes().for_each(|note| workspace.note(note));
        trial.settings.by_origin = against.is_other_graph;
        if against.is_other_graph && options.fill_unknown.is_none() {
            // Contents that only the second graph has must not be generated differently from those
            // of the first.
            trial.settings.invent = None;
        }
        trial.settings.backend = against.backend.cloned().map(|backend| backend as Rc<dyn Backend>);
        let reference = Reference::new(&trial.graph, trial.settings.clone(), trial.policy, trial.samples.clone());
        let reference = Rc::new(if against.when == When::End { reference } else { reference.recalling() });
        if options.fill_unknown.is_none() {
            note_of_calls(&reference, workspace);
        }
        if let Some(text) = reference.samples().find_map(|(_, outcome)| outcome.ambiguity.as_ref()) {
            workspace.note(text);
        }
        let (after, differentiated) = (trial.graph.clone(), KeepDifferentiated::default());
        Ok(Comparison { reference, after, options, trial, when: against.when, differentiated, other, files })
    }

    /// Compares with another graph.
    ///
    /// # Errors
    /// Its text is not a valid graph.
    pub fn read_other(&mut self, program: &Program, workspace: &mut Workspace<'_>) -> Result<(), Error> {
        self.after = match self.other.take() {
            Some(other) => other,
            None => program.graph(self.options.second_torch(), workspace)?,
        };
        Ok(())
    }

    /// Compares with the result of passes.
    ///
    /// # Errors
    /// Why the pipeline stopped, a difference included; or the gate has a counter that no rewrite
    /// queried.
    pub fn transform(&mut self, pipeline: &Pipeline, gate: Gate, profile: Option<Rc<Profile>>) -> Result<(), Stopped> {
        if self.files.is_archive && !pipeline.steps.is_empty() {
            self.settle();
        }
        let callees = (*self.trial.settings.callees).clone();
        let deadline = judging::deadline(&self.trial.settings);
        let mut session = Session { gate, callees, profile, deadline, ..Session::default() };
        let (mut verifier, mut each) = (VerifyEach, EachPass(self.reference.clone()));
        let mut observers: Vec<&mut dyn Observer> = vec![&mut self.differentiated];
        if !self.options.no_verify {
            observers.push(&mut verifier);
        }
        match self.when {
            When::Pass => observers.push(&mut each),
            When::Rewrite => session.watch = Some(Box::new(EachRewrite(self.reference.clone()))),
            When::End => {}
        }
        pass::run(&mut self.after, pipeline, &mut session, &mut observers)?;
        Ok(judging::refuse_idle(&session)?)
    }

    /// Writes known contents, and what all samples have in common, into the types of the graph.
    fn settle(&mut self) {
        let number = self.after.params(self.after.root()).len();
        let of_param = |i: usize| self.trial.samples.iter().filter_map(|sample| sample.inputs.get(i)).collect();
        let inputs: Vec<Vec<&IValue>> = (0..number).map(of_param).collect();
        known_values::settle(&mut self.after, &self.trial.settings.bindings, &inputs);
    }

    /// Compares the results: on how many samples they are equal, or the first difference.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self) -> Result<Tally, Finding> {
        self.reference.check(&self.after)
    }

    /// Compares the gradients of differentiable groups; with those that `differentiate` made, if
    /// the original graph has none.
    ///
    /// # Errors
    /// The passes that join two graphs cannot be parsed.
    pub fn gradients(&self, workspace: &mut Workspace<'_>) -> Result<Gradients, Error> {
        let graph = &self.trial.graph;
        let before = if paired_gradients::any(graph) { None } else { self.differentiated.0.as_ref() };
        paired_gradients::compare(&self.reference, (before.unwrap_or(graph), &self.after), workspace)
    }

    /// The error of each value that both graphs name on the first sample, and the line of its node;
    /// with the name of the sample.
    pub fn errors_by_value(&self) -> Option<(String, Vec<(f64, String)>)> {
        let (sample, _) = self.reference.samples().next()?;
        let settings = self.reference.settings();
        Some((
            sample.name.clone(),
            off_by_value(self.reference.graph(), &self.after, settings, &sample.inputs).into_iter().collect(),
        ))
    }
}

/// Notes calls whose results are generated.
fn note_of_calls(reference: &Reference, workspace: &mut Workspace<'_>) {
    let names: BTreeSet<&String> = reference.samples().flat_map(|(_, outcome)| &outcome.generated_calls).collect();
    for name in names {
        workspace.note(format!("the graph of `{name}` is not given, so its results are generated"));
    }
}
