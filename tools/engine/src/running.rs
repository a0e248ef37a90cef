//! Runs a graph on given or generated values.

use crate::bindings::bindings;
use crate::callees::{self, Calls, warn_of_uncalled};
use crate::error::{Error, Kind, Stopped, refuse};
use crate::given_values::{self, Given};
use crate::gradient_run::{self, GradientRun, nested_in, num_leaves};
use crate::known_values;
use crate::named_values::Except;
use crate::observing::VerifyEach;
use crate::onlooker::{End, Onlooker};
use crate::operator_times::OperatorTimes;
use crate::options::RunOptions;
use crate::program::Program;
use crate::settings::{REPLAY, SEED, TIMEOUT};
use crate::verdicts::{self, Compared, Expectations};
use crate::{Workspace, judging, processor, profiles};
use jitopt_core::interpreter::content_names::ContentNames;
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::generator::Generator;
use jitopt_core::interpreter::literal_values::spelled;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::interpreter::{Environment, IValue, Machine, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::tensor::Precision;
use jitopt_core::text::ParseOptions;
use jitopt_core::types::{Type, TypeKind};
use jitopt_judge::tracing::leaves;
use jitopt_passes::differentiate::function_graph;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A graph with the values that files give, ready to run once.
pub struct Run<'o> {
    options: &'o RunOptions,
    path: PathBuf,
    graph: Graph,
    given: Given,
    env: Environment,
    is_archive: bool,
}

/// A finished run.
pub struct Ran<'o> {
    /// The results as the graph returns them, or why it stopped.
    pub results: Result<Vec<IValue>, Stop>,
    /// Whether no input was generated.
    pub all_given: bool,
    /// The counters of the passes.
    pub stats: BTreeMap<String, u64>,
    /// The times of operators, if they were requested.
    pub times: Option<OperatorTimes>,
    /// The backend of fusion groups, with its counters.
    pub backend: Option<CpuBackend>,
    options: &'o RunOptions,
    given: Given,
    env: Environment,
    expectations: Expectations,
}

impl<'o> Run<'o> {
    /// Reads a graph, and the files that options name or that are next to the graph.
    ///
    /// # Errors
    /// The text is not a valid graph, a file cannot be read, or options do not fit the graph.
    pub fn read(options: &'o RunOptions, program: &Program, workspace: &mut Workspace<'_>) -> Result<Run<'o>, Error> {
        let graph = program.graph_to_run(options.semantics.torch, workspace)?;
        Run::of(options, program, graph, workspace)
    }

    /// A graph that is in no file; options have its values.
    ///
    /// # Errors
    /// Options do not fit the graph, or a file that they name cannot be read.
    pub fn of_graph(options: &'o RunOptions, graph: Graph, workspace: &mut Workspace<'_>) -> Result<Run<'o>, Error> {
        Run::of(options, &Program::of_text(""), graph, workspace)
    }

    fn of(
        options: &'o RunOptions,
        program: &Program,
        graph: Graph,
        workspace: &mut Workspace<'_>,
    ) -> Result<Run<'o>, Error> {
        let given = Given::read(options, program, workspace)?.bound_for(&graph);
        let recorded = || program.samples(options.semantics.torch);
        let given = given.or_recorded(options, &graph, recorded, workspace)?;
        let mut env = environment(options, &graph, workspace)?;
        env.bindings = bindings(options, &graph, &env, program.contents(options.semantics.torch)?, workspace)?.into();
        let time = options.checks.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        env.deadline = time.and_then(|left| Instant::now().checked_add(left));
        Ok(Run { options, path: program.path.clone(), graph, given, env, is_archive: program.is_archive() })
    }

    /// Runs passes, then the graph.
    ///
    /// # Errors
    /// A pass fails, an input has no value, or an option does not fit the graph. A run that stops
    /// is no error, but a result.
    pub fn run(
        mut self,
        pipeline: Option<&Pipeline>,
        profile: Option<&Profile>,
        workspace: &mut Workspace<'_>,
    ) -> Result<Ran<'o>, Error> {
        let (args, no_verify) = (self.options, self.options.semantics.no_verify);
        let (graph, env) = (&mut self.graph, self.env);
        let mut stats = BTreeMap::new();
        let types: Vec<Type> = graph.results(graph.root()).map(|result| graph.ty(result)).collect();
        if pipeline.is_some() && self.is_archive {
            let known = given_values::inputs(args, graph, &self.given, &env)?;
            let known: Vec<Vec<&IValue>> = known.iter().map(|input| input.iter().collect()).collect();
            known_values::settle(graph, &env.bindings.borrow(), &known);
        }
        let generates = args.values.seed.is_some() || env.invent.is_some();
        let before = generates.then(|| graph.clone());
        if let Some(pipeline) = pipeline {
            stats = transform(&self.path, graph, pipeline, &env, profile, no_verify)?;
        }
        if let Some(passes) = profiles::instrumenting(args, graph) {
            let pipeline = judging::pipeline(passes, workspace)?;
            transform(&self.path, graph, &pipeline, &env, None, no_verify)?;
        }
        // A seed gives the same inputs whatever passes do, but for those that change params.
        let before = before.as_ref().filter(|before| has_params_of(graph, before));
        let (inputs, all_given) = inputs(args, before.unwrap_or(graph), &self.given, &env, workspace)?;
        let mut expectations = Expectations::read(args, graph, workspace)?;
        let backend = processor::backend(&args.semantics.backend, workspace);
        let held = inputs.clone();
        // Recording starts only now: generating inputs runs the graph.
        profiles::begin(args, graph, &env)?;
        env.departures.replace(args.checks.trace_bailouts.then(Vec::new));
        let mut times = None;
        let watched = (&mut expectations, &mut times);
        let ran = watched_run(args, graph, &env, inputs, watched, backend.as_ref(), workspace);
        let ran = ran.map(Ok).or_else(|stopped| stopped.into_stop().map(Err))?;
        expectations.note_params(graph, held);
        for departure in env.departures.take().into_iter().flatten() {
            workspace.say(format!("bailout: {departure}"));
        }
        report_side_effects(&env, workspace);
        bring_back(&ran);
        processor::refuse_plans(backend.as_ref(), workspace)?;
        processor::report_groups(backend.as_ref(), workspace);
        let results = ran.map(|results| in_tuples(&types, results));
        Ok(Ran { results, all_given, stats, times, backend, options: args, given: self.given, env, expectations })
    }

    /// Differentiates the graph, and runs its forward and its backward graph.
    ///
    /// # Errors
    /// The graph has no gradients, a file does not fit, or a pass fails. A run that stops is no
    /// error, but a result.
    pub fn gradients(
        self,
        pipeline: Option<Pipeline>,
        workspace: &mut Workspace<'_>,
    ) -> Result<GradientRun<'o>, Error> {
        gradient_run::run(self.options, &self.path, self.graph, self.given, self.env, pipeline, workspace)
    }
}

impl Ran<'_> {
    /// The recorded profile, merged with earlier ones; `None` if none was recorded.
    ///
    /// # Errors
    /// An earlier profile cannot be read, or belongs to another graph.
    pub fn profile(&self, workspace: &Workspace<'_>) -> Result<Option<Profile>, Error> {
        profiles::end(self.options, &self.env, workspace)
    }

    /// Compares the results with the expected ones: `whole` is the value that the graph returns,
    /// `tensors` are its tensors by key.
    ///
    /// # Errors
    /// A file of expected values does not fit the results.
    pub fn compare(&self, whole: &IValue, tensors: &Tensors) -> Result<Compared, Error> {
        self.expectations.judge(self.options, &self.given.description, whole, tensors)
    }
}

/// Whether passes left the params of a graph as they were, but for what types say of tensors.
fn has_params_of(graph: &Graph, before: &Graph) -> bool {
    let params = |graph: &Graph| -> Vec<(String, Type)> {
        let own = graph.params(graph.root());
        own.map(|param| (graph.name(param), graph.ty(param)))
            .map(|(name, ty)| (name, if ty.is_tensor() { Type::tensor() } else { ty }))
            .collect()
    };
    params(graph) == params(before)
}

/// Restores the tuples that the graph returned before passes flattened them.
fn in_tuples(types: &[Type], results: Vec<IValue>) -> Vec<IValue> {
    let number: usize = types.iter().map(|&ty| num_leaves(ty)).sum();
    let are_apart = results.len() != types.len() && results.len() == number;
    if !are_apart {
        return results;
    }
    let mut flat = results.into_iter();
    types.iter().map(|&ty| nested_in(ty, &mut flat)).collect()
}

/// The inputs, and whether none of them is generated.
pub(crate) fn inputs(
    args: &RunOptions,
    graph: &Graph,
    given: &Given,
    env: &Environment,
    workspace: &mut Workspace<'_>,
) -> Result<(Vec<IValue>, bool), Error> {
    let mut inputs = given_values::inputs(args, graph, given, env)?;
    let all_given = inputs.iter().all(Option::is_some);
    make_up(args, graph, env, given, &mut inputs, workspace)?;
    let inputs = given_values::complete(graph, inputs, given)?;
    given_values::warn_of_contradictions(graph, inputs.iter(), workspace);
    Ok((inputs, all_given))
}

pub(crate) fn environment(
    args: &RunOptions,
    graph: &Graph,
    workspace: &mut Workspace<'_>,
) -> Result<Environment, Error> {
    let mut env = Environment::default();
    let semantics = &args.semantics;
    env.precision = if semantics.f64 { Precision::Double } else { Precision::Typed };
    env.release = semantics.torch;
    env.seed = args.values.seed.unwrap_or(0);
    if let Some(filling) = &args.values.fill_unknown {
        (env.invent, env.invent_seed) = (Some(filling.invent), filling.seed);
    }
    env.max_steps = args.checks.max_steps;
    let mut graphs = callees::load_all(
        &semantics.callee,
        semantics.no_verify,
        ParseOptions { release: args.semantics.torch },
        workspace,
    )?;
    let mut calls = Calls::default();
    calls.add(graph);
    if !graphs.is_empty() {
        warn_of_uncalled(&graphs, calls.clone(), workspace);
    }
    graphs.values().for_each(|callee| calls.add(callee));
    // The interpreter looks up qualified names; users may give short ones, as for `inline`.
    for names in calls.each() {
        let given = names.iter().find_map(|name| graphs.get(name)).cloned();
        let known = || names.first().and_then(|name| function_graph(graph.release(), name));
        if let (Some(callee), Some(whole)) = (given.or_else(known), names.first()) {
            graphs.entry(whole.clone()).or_insert(callee);
        }
    }
    env.content_names = ContentNames::of(graph, &graphs).into();
    env.callees = graphs.into();
    Ok(env)
}

pub(crate) fn transform(
    path: &Path,
    graph: &mut Graph,
    pipeline: &Pipeline,
    env: &Environment,
    profile: Option<&Profile>,
    no_verify: bool,
) -> Result<BTreeMap<String, u64>, Error> {
    let (callees, profile) = ((*env.callees).clone(), profile.cloned().map(Rc::new));
    let mut session = Session { callees, profile, deadline: env.deadline, ..Session::default() };
    let mut verifier = VerifyEach;
    let mut observers: Vec<&mut dyn pass::Observer> = Vec::new();
    if !no_verify {
        observers.push(&mut verifier);
    }
    let ran = pass::run(graph, pipeline, &mut session, &mut observers);
    ran.map_err(|error| Error::of_passes(path, &error))?;
    Ok(session.stats.into_iter().collect())
}

/// Generates missing inputs and unbound contents, and notes them.
pub(crate) fn make_up(
    args: &RunOptions,
    graph: &Graph,
    env: &Environment,
    given: &Given,
    inputs: &mut Vec<Option<IValue>>,
    workspace: &mut Workspace<'_>,
) -> Result<(), Error> {
    let shapes = given_values::shapes(args, graph, &env.callees, inputs)?;
    let unknown = env.invent.is_some();
    let Some(seed) = args.values.seed.or(unknown.then_some(env.invent_seed)) else { return Ok(()) };
    if args.values.seed.is_none() && inputs.iter().any(Option::is_none) {
        return Ok(());
    }
    let missing: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].is_none()).collect();
    // Without parameters the seed is only used by random operators.
    if missing.is_empty() && !unknown && inputs.is_empty() {
        return Ok(());
    }
    if missing.is_empty() && !unknown {
        return refuse(format_args!("{SEED}: all inputs are given, so none is generated"));
    }
    let generator = Generator { seed, style: args.values.style, shapes, hints: given.hints(graph) };
    let made = generator.complete(graph, env, std::mem::take(inputs));
    if env.is_late() {
        return Err(Error::new(
            Kind::Budget,
            format!("the time limit was reached while inputs were generated; give inputs, or raise {TIMEOUT}"),
        ));
    }
    for i in missing {
        if let (Some(param), Some(Some(value))) = (graph.params(graph.root()).nth(i), made.get(i)) {
            workspace.note(format!("%{} is generated: {}", graph.name(param), verdicts::summary(value)));
        }
    }
    *inputs = made;
    Ok(())
}

/// Runs the graph with an observer.
fn watched_run(
    args: &RunOptions,
    graph: &Graph,
    env: &Environment,
    inputs: Vec<IValue>,
    (expectations, times): (&mut Expectations, &mut Option<OperatorTimes>),
    backend: Option<&CpuBackend>,
    workspace: &mut Workspace<'_>,
) -> Result<Vec<IValue>, Stopped> {
    let replayed = given_values::replayed(args, graph, env, workspace)?;
    let mut sections = expectations.sections().clone();
    sections.extend(replayed.iter().flat_map(|(named, _)| &named.way));
    let except = backend.map(|backend| Except { backend, sections });
    let mut onlooker = Onlooker::new(args, graph, replayed, expectations.values(), workspace);
    onlooker.deadline = env.deadline;
    let mut machine = Machine::new(graph, env).watched(&mut onlooker);
    if let Some(backend) = &except {
        machine = machine.backed_by(backend);
    }
    let ran = machine.run(inputs);
    let End { unreached, seen, times: measured } = onlooker.end();
    expectations.found = seen;
    *times = measured;
    if ran.is_ok() {
        unreached.iter().for_each(|name| workspace.warn(format!("{REPLAY} %{name}: the run did not reach it")));
    }
    Ok(ran?)
}

/// Prints the program's output and warnings, and notes the generated contents.
pub(crate) fn report_side_effects(env: &Environment, workspace: &mut Workspace<'_>) {
    for text in [env.warned.borrow(), env.printed.borrow()] {
        if !text.is_empty() {
            workspace.say(text.as_str());
        }
    }
    if let Some(text) = &*env.ambiguity.borrow() {
        workspace.note(text.as_str());
    }
    let bindings = env.bindings.borrow();
    for (name, ty) in env.invented.borrow().iter() {
        // An unbound list without elements in the text is an empty list.
        let otherwise =
            if matches!(ty.kind(), TypeKind::List(_)) { "an empty list".to_owned() } else { ty.to_string() };
        let value = bindings.get(name).map_or(otherwise, verdicts::summary);
        workspace.note(format!("{} is generated: {value}", spelled(name)));
    }
}

/// Copies what a device still has to main memory: a failure must not come after results are
/// written.
fn bring_back(ran: &Result<Vec<IValue>, Stop>) {
    for value in ran.iter().flatten().flat_map(leaves) {
        value.tensor().into_iter().for_each(|tensor| drop(tensor.storage().read()));
    }
}
