//! Differentiates a whole graph and runs the forward and backward graphs.

use crate::error::{Error, Stopped, refuse};
use crate::given_texts::Expected;
use crate::given_values::{Given, file_next_to, read_tensors};
use crate::onlooker::Onlooker;
use crate::operator_times::OperatorTimes;
use crate::options::RunOptions;
use crate::running::{inputs, report_side_effects, transform};
use crate::settings::GRAD_OUTPUTS;
use crate::verdicts::{self, Compared, Expectations};
use crate::{Workspace, judging, processor};
use jitopt_core::analysis::grad_mode::is_about_grad_mode;
use jitopt_core::analysis::gradient_claims::forget_claims;
use jitopt_core::interpreter::comparison::Tolerance;
use jitopt_core::interpreter::description::{Described, Description};
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::{Environment, IValue, Machine, Stop};
use jitopt_core::ir::{Attribute, Graph, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::pass::{PassError, Pipeline};
use jitopt_core::runtime::CpuBackend;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::{DType, Precision, Scalar, Tensor};
use jitopt_core::types::{Type, TypeKind};
use jitopt_judge::differentials::{Differentials, INFERENCE, PREPARATION, Reached, forgo_gradients, give_types};
use jitopt_judge::sharing::{Copier, copies};
use jitopt_judge::tracing::{Traced, has_control_flow, holds_tensors, is_real, trace_wanting, with_leaves};
use jitopt_judge::unguarding::{ungrouped, unguarded};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The configuration of a run.
struct Run<'a> {
    args: &'a RunOptions,
    path: &'a Path,
    pipeline: Option<Pipeline>,
    backend: Option<CpuBackend>,
    env: Environment,
    /// The contents of attributes and constants before the first run, which may write to them.
    bound: BTreeMap<String, IValue>,
    /// The counters of the passes.
    stats: BTreeMap<String, u64>,
    /// The times of operators of all runs.
    times: RefCell<OperatorTimes>,
    /// Whether the passes differentiated the graph themselves and have transformed both results.
    is_whole: bool,
    /// Whether both graphs were derived.
    is_derived: bool,
}

/// A leaf of the inputs or outputs, under the key of its tensor.
struct Leaf<'d> {
    key: String,
    value: IValue,
    described: Option<&'d Described>,
    /// Whether its gradient is requested.
    is_wanted: bool,
}

/// The forward and the backward graph.
struct Derived {
    both: Differentials,
    /// The trace that they were derived from, if the graph was traced.
    traced: Option<Traced>,
    /// Both as a single graph, if the pipeline joins them.
    joint: Option<Graph>,
    /// The graph before passes that join both graphs: afterwards the dependencies of each gradient
    /// are mixed.
    before: Option<Graph>,
}

impl Derived {
    /// All results as the graph returns them, from those that the forward graph computes.
    fn whole(&self, types: &[Type], computed: &[IValue]) -> IValue {
        let mut next = computed.iter().cloned();
        let Some(traced) = &self.traced else { return nested(types, &mut next) };
        let mut at = 0..;
        let mut leaf = |found: &IValue| match at.next().is_some_and(|i| traced.places.contains(&i)) {
            true => next.next().unwrap_or(IValue::None),
            false => found.clone(),
        };
        let mut values: Vec<IValue> = traced.results.iter().map(|value| with_leaves(value, &mut leaf)).collect();
        if values.len() == 1 { values.remove(0) } else { IValue::tuple(values) }
    }

    /// The gradients of the results that the forward graph computes, from those of all results.
    fn of_computed(&self, gradients: Vec<IValue>) -> Vec<IValue> {
        match &self.traced {
            Some(traced) => traced.places.iter().map(|&i| gradients[i].clone()).collect(),
            None => gradients,
        }
    }

    /// Additional operands of the forward graph, after the inputs.
    fn held(&self) -> &[IValue] {
        self.traced.as_ref().map_or(&[], |traced| &traced.held)
    }
}

/// The files of expected outputs and gradients.
struct ExpectedFiles {
    outputs: Expectations,
    gradients: Expectations,
}

impl ExpectedFiles {
    fn read(args: &RunOptions, workspace: &Workspace<'_>) -> Result<ExpectedFiles, Error> {
        let (outputs, gradients) =
            (args.checks.expect.iter().filter_map(Expected::outputs), args.checks.expect_grads.iter());
        Ok(ExpectedFiles {
            outputs: Expectations::of_files("output", outputs, workspace)?,
            gradients: Expectations::of_files("gradient", gradients.map(PathBuf::as_path), workspace)?,
        })
    }
}

/// A finished run of the forward and the backward graph.
pub struct GradientRun<'o> {
    /// The value that the graph returns, or why a run stopped.
    pub whole: Result<IValue, Stop>,
    /// Whether no input was generated.
    pub all_given: bool,
    /// Whether the forward and the backward graph were derived; if not, deriving them stopped.
    pub is_derived: bool,
    /// The counters of the passes.
    pub stats: BTreeMap<String, u64>,
    /// The times of operators, if they were requested.
    pub times: OperatorTimes,
    /// The backend of fusion groups, with its counters.
    pub backend: Option<CpuBackend>,
    args: &'o RunOptions,
    /// The key and the value of each leaf whose gradient is requested, and its gradient.
    found: Vec<(String, IValue, IValue)>,
    tolerance: Option<Tolerance>,
    outputs: Option<Described>,
    expected: ExpectedFiles,
}

impl GradientRun<'_> {
    /// The gradient of each floating-point input that requires one, by the key of the input.
    /// Inputs that no gradient reaches are noted.
    pub fn gradients(&self, workspace: &mut Workspace<'_>) -> Vec<(String, IValue)> {
        let mut gradients = Vec::new();
        for (key, value, gradient) in &self.found {
            match gradient.tensor() {
                Some(_) => gradients.push((key.clone(), of_its_type(gradient.clone(), value))),
                None => workspace.note(format!("{key} has no gradient: no gradient flows back to it")),
            }
        }
        gradients
    }

    /// Compares the outputs, by key, with the expected ones; `None` if none are expected.
    ///
    /// # Errors
    /// A file of expected values does not fit.
    pub fn compare_outputs(&self, whole: &IValue, outputs: &Tensors) -> Result<Option<Compared>, Error> {
        if self.args.checks.expect.is_empty() {
            return Ok(None);
        }
        let (described, tolerance) = (self.outputs.clone(), self.tolerance);
        let description = Description { outputs: described, tolerance, ..Description::default() };
        self.expected.outputs.judge(self.args, &description, whole, outputs).map(Some)
    }

    /// Compares the gradients, by key, with the expected ones; `None` if none are expected.
    ///
    /// # Errors
    /// A file of expected values does not fit.
    pub fn compare_gradients(&self, whole: &IValue, gradients: &Tensors) -> Result<Option<Compared>, Error> {
        if self.args.checks.expect_grads.is_empty() {
            return Ok(None);
        }
        let description = Description { tolerance: self.tolerance, ..Description::default() };
        self.expected.gradients.judge(self.args, &description, whole, gradients).map(Some)
    }
}

/// Runs a graph forward and backward.
pub(crate) fn run<'o>(
    args: &'o RunOptions,
    path: &Path,
    graph: Graph,
    given: Given,
    env: Environment,
    pipeline: Option<Pipeline>,
    workspace: &mut Workspace<'_>,
) -> Result<GradientRun<'o>, Error> {
    let expected = ExpectedFiles::read(args, workspace)?;
    let (inputs, all_given) = inputs(args, &graph, &given, &env, workspace)?;
    let keys = given.keys(&graph, &env)?;
    let all_described = given.described(&graph);
    let described = |i: usize| all_described.get(i).map(|(_, value)| value);
    let mut leaves = Vec::new();
    for (value, (key, place)) in inputs.iter().zip(keys) {
        put_leaves(place.and_then(described), value.clone(), &key, &mut leaves);
    }
    want_gradients(&graph, &inputs, &mut leaves)?;
    let backend = processor::backend(&args.semantics.backend, workspace);
    let bound = copied(&env.bindings.borrow(), env.precision);
    let (stats, times) = Default::default();
    let mut run = Run { args, path, pipeline, backend, env, bound, stats, times, is_whole: false, is_derived: false };
    let wanted = |leaf: &Leaf<'_>| leaf.value.tensor().is_some_and(is_real) && leaf.is_wanted;
    let (whole, gradients) = match run.all(graph, &inputs, &leaves, &given, workspace) {
        Ok((whole, gradients)) => (Ok(whole), gradients),
        Err(stopped) => (Err(stopped.into_stop()?), Vec::new()),
    };
    let found = leaves.iter().zip(gradients).filter(|(leaf, _)| wanted(leaf));
    let found = found.map(|(leaf, gradient)| (leaf.key.clone(), leaf.value.clone(), gradient)).collect();
    let Description { tolerance, outputs, .. } = given.description;
    let Run { stats, times, backend, is_derived, .. } = run;
    let times = times.into_inner();
    Ok(GradientRun { whole, all_given, is_derived, stats, times, backend, args, found, tolerance, outputs, expected })
}

/// Copies of bound contents; those that share memory still share it.
fn copied(bound: &BTreeMap<String, IValue>, precision: Precision) -> BTreeMap<String, IValue> {
    let mut copier = Copier::new(precision);
    bound.iter().map(|(name, value)| (name.clone(), copier.copy(value))).collect()
}

impl Run<'_> {
    /// Derives both graphs and runs them; reports side effects.
    fn all(
        &mut self,
        graph: Graph,
        inputs: &[IValue],
        leaves: &[Leaf<'_>],
        given: &Given,
        workspace: &mut Workspace<'_>,
    ) -> Result<(IValue, Vec<IValue>), Stopped> {
        let types: Vec<Type> = graph.results(graph.root()).map(|result| graph.ty(result)).collect();
        let graph = self.without_guards(graph, inputs)?;
        let mut derived = self.differentiated(&graph, inputs, leaves, workspace)?;
        self.is_derived = true;
        let ran = self.forward_and_backward(&mut derived, &types, leaves, given, workspace);
        if !matches!(ran, Err(Stopped::Misuse(_))) {
            report_side_effects(&self.env, workspace);
            processor::refuse_plans(self.backend.as_ref(), workspace)?;
            processor::report_groups(self.backend.as_ref(), workspace);
        }
        ran
    }

    /// Resets the environment, so that the next run starts like the first even if that wrote to
    /// attributes. Generated contents are generated again.
    fn begin_anew(&self) {
        self.env.reset();
        let (invented, mut bindings) = (self.env.invented.borrow(), self.env.bindings.borrow_mut());
        bindings.retain(|name, _| self.bound.contains_key(name) || !invented.contains_key(name));
        bindings.extend(copied(&self.bound, self.env.precision));
    }

    /// The same graph without guards, which have no gradient. Where the graph has no fallback for a
    /// failing guard, all guards are required to hold.
    fn without_guards(&self, graph: Graph, inputs: &[IValue]) -> Result<Graph, Stop> {
        let Some(plain) = unguarded(&graph) else { return Ok(graph) };
        if plain.must_hold {
            Machine::new(&graph, &self.env).run(copies(inputs, self.env.precision))?;
            self.begin_anew();
        }
        Ok(plain.graph)
    }

    /// The forward and the backward graph. If inputs decide the control flow or the contents of
    /// containers, the graph is first specialised to these inputs by tracing.
    fn differentiated(
        &mut self,
        graph: &Graph,
        inputs: &[IValue],
        leaves: &[Leaf<'_>],
        workspace: &mut Workspace<'_>,
    ) -> Result<Derived, Stopped> {
        let values: Vec<IValue> = leaves.iter().map(|leaf| leaf.value.clone()).collect();
        let before = self.stats.clone();
        let (mut is_decided, mut refused) = (has_control_flow(graph), None);
        if !hangs_on_run(graph, inputs) {
            let mut prepared = graph.clone();
            let is_prepared = self.apply(&mut prepared, &judging::pipeline(PREPARATION, workspace)?).is_ok();
            is_decided = if is_prepared { has_control_flow(&prepared) } else { is_decided };
            if is_prepared && !is_decided && !hangs_on_run(&prepared, &[]) {
                match self.split(prepared, &values, leaves, false, workspace) {
                    Ok((both, joint, before)) => return Ok(Derived { both, traced: None, joint, before }),
                    Err(why) => refused = Some(why),
                }
            }
        }
        self.stats = before;
        let mut inlined = graph.clone();
        self.apply(&mut inlined, &judging::pipeline("inline", workspace)?)?;
        let mut traced = match (trace_wanting(&inlined, &self.env, inputs, &|i| leaves[i].is_wanted), refused) {
            (Ok(traced), _) => traced,
            (Err(_), Some(why)) => return Err(why.into()),
            (Err(stop), None) => return Err(stop.into()),
        };
        self.begin_anew();
        if is_decided {
            workspace.note("control flow depends on values; gradients are those of the branches and iterations that these inputs take");
        }
        if traced.places.is_empty() {
            return Ok(refuse(format_args!(
                "`{}` returns no floating-point tensor, so there are no gradients",
                self.path.display()
            ))?);
        }
        let mut written = std::mem::replace(&mut traced.graph, Graph::new());
        self.apply(&mut written, &judging::pipeline(PREPARATION, workspace)?)?;
        let values: Vec<IValue> = values.into_iter().chain(traced.held.iter().cloned()).collect();
        let (both, joint, before) = self.split(written, &values, leaves, true, workspace)?;
        Ok(Derived { both, traced: Some(traced), joint, before })
    }

    /// Splits a graph without control flow into the forward and the backward graph, joined where
    /// the pipeline joins them; also returns the graph before passes that differentiate. Gradients
    /// are not requested for parameters after those of `leaves`: tracing added them for contents
    /// that the text does not show.
    fn split(
        &mut self,
        mut graph: Graph,
        values: &[IValue],
        leaves: &[Leaf<'_>],
        is_traced: bool,
        workspace: &mut Workspace<'_>,
    ) -> Result<(Differentials, Option<Graph>, Option<Graph>), Error> {
        give_types(&mut graph, values);
        forgo_gradients(&mut graph, |i| leaves.get(i).is_some_and(|leaf| leaf.is_wanted));
        forget_claims(&mut graph);
        // Pipelines that differentiate themselves, such as `@training`, get the whole graph;
        // nothing remains to be done afterwards.
        let whole = self.pipeline.clone().filter(differentiates);
        self.apply(&mut graph, &judging::pipeline(INFERENCE, workspace)?)?;
        if let Some(pipeline) = whole.as_ref().filter(|pipeline| joins(pipeline)) {
            let mut joint = graph.clone();
            self.apply(&mut joint, pipeline)?;
            self.apply(&mut graph, &judging::pipeline("differentiate{eager}", workspace)?)?;
            (self.is_whole, self.pipeline) = (true, None);
            let both = Differentials::of(&graph).map_or_else(|| self.not_one_group(), Ok)?;
            return Ok((both, Some(joint), None));
        }
        if whole.is_none() {
            self.apply(&mut graph, &judging::pipeline(AROUND_GROUPS, workspace)?)?;
        }
        let is_real = |value: &Value| graph.ty(*value).as_tensor().and_then(|ty| ty.dtype).is_some_and(DType::is_float);
        let unreal = graph.results(graph.root()).find(|value| !is_real(value));
        if let Some(result) = unreal.filter(|_| whole.is_some() && !is_traced) {
            // Reports operators without a gradient formula first.
            self.apply(&mut graph.clone(), &judging::pipeline("differentiate{eager}", workspace)?)?;
            return refuse(not_known_to_be_float(&graph, result));
        }
        let before = whole.as_ref().map(|_| graph.clone());
        if let Some(pipeline) = &whole {
            self.apply(&mut graph, pipeline)?;
            if Differentials::of(&graph).is_none()
                && let Some(plain) = ungrouped(&graph)
            {
                graph = plain;
            }
            self.apply(&mut graph, &judging::pipeline(AROUND_GROUPS, workspace)?)?;
        }
        if graph.first(graph.root()).is_none() {
            return Ok((Differentials::of_nothing(graph), None, None));
        }
        let both = Differentials::of(&graph).map_or_else(|| self.not_one_group(), Ok)?;
        self.is_whole = whole.is_some();
        if self.is_whole {
            self.pipeline = None;
        }
        Ok((both, None, before))
    }

    fn not_one_group(&self) -> Result<Differentials, Error> {
        refuse(format_args!(
            "`{}` has differentiable groups next to other nodes, so it has no single backward graph; inline the groups with `inline-autodiff-subgraphs`",
            self.path.display()
        ))
    }

    fn apply(&mut self, graph: &mut Graph, pipeline: &Pipeline) -> Result<(), Error> {
        for (name, n) in transform(self.path, graph, pipeline, &self.env, None, self.args.semantics.no_verify)? {
            *self.stats.entry(name).or_default() += n;
        }
        Ok(())
    }

    /// Runs the pipeline on one of the graphs.
    fn transform(&mut self, graph: &mut Graph) -> Result<(), Error> {
        let Some(pipeline) = self.pipeline.take() else { return Ok(()) };
        let applied = self.apply(graph, &pipeline);
        self.pipeline = Some(pipeline);
        applied
    }

    fn execute(&self, graph: &Graph, inputs: Vec<IValue>, workspace: &mut Workspace<'_>) -> Result<Vec<IValue>, Stop> {
        let mut onlooker = Onlooker::new(self.args, graph, Vec::new(), BTreeSet::new(), workspace);
        onlooker.deadline = self.env.deadline;
        let mut machine = Machine::new(graph, &self.env).watched(&mut onlooker);
        if let Some(backend) = &self.backend {
            machine = machine.backed_by(backend);
        }
        let ran = machine.run(inputs);
        let times = onlooker.end().times.unwrap_or_default();
        self.times.borrow_mut().add(&times);
        ran
    }

    /// The results as the graph returns them, and a gradient for each leaf of the inputs.
    fn forward_and_backward(
        &mut self,
        derived: &mut Derived,
        types: &[Type],
        leaves: &[Leaf<'_>],
        given: &Given,
        workspace: &mut Workspace<'_>,
    ) -> Result<(IValue, Vec<IValue>), Stopped> {
        self.transform(&mut derived.both.forward)?;
        let inputs: Vec<IValue> =
            leaves.iter().map(|leaf| leaf.value.clone()).chain(derived.held().iter().cloned()).collect();
        // A joined graph needs the gradients of its results as inputs, so a run of the forward
        // graph determines their types first.
        let before = derived.joint.as_ref().map(|_| copies(&inputs, self.env.precision));
        let forward = derived.both.forward(&mut |graph, inputs| self.execute(graph, inputs, workspace), inputs)?;
        if forward.has_undeclared_complex_numbers() {
            return Ok(refuse(format_args!(
                "`{}` computes with complex tensors that its types do not declare; gradients of complex tensors are not supported",
                self.path.display()
            ))?);
        }
        let whole = derived.whole(types, &forward.results);
        let mut gradients = derived.of_computed(self.gradients_of_results(&whole, given, workspace)?);
        let missing = if self.is_whole { Vec::new() } else { derived.both.missing(&gradients) };
        if !missing.is_empty() {
            let all = missing.join(", ");
            workspace.note(format!(
                "the backward graph requires gradients of {all}, which are not given; they are taken as 0"
            ));
        }
        let reached = self.reached(derived, &gradients, workspace)?;
        if self.is_whole || !missing.is_empty() || reached.lacks_parts {
            self.set_missing_to_zero(&mut gradients, &forward.results);
        }
        if let (Some(joint), Some(inputs)) = (&derived.joint, before) {
            self.begin_anew();
            let operands = inputs.into_iter().chain(derived.both.of_results(&gradients)).collect();
            let results = self.execute(joint, operands, workspace)?;
            let (computed, gradients) = derived.both.split(results);
            return Ok((derived.whole(types, &computed), reached.of(gradients)));
        }
        let both = &mut derived.both;
        let operands = both.operands(forward, &gradients);
        if !self.is_whole {
            both.specialize(&operands);
            self.transform(&mut both.backward)?;
        }
        let gradients = both.backward(&mut |graph, inputs| self.execute(graph, inputs, workspace), operands)?;
        Ok((whole, reached.of(gradients)))
    }

    /// A backward graph may assume that all gradients are given (`differentiate{defined}`): missing
    /// ones are 0.
    fn set_missing_to_zero(&self, gradients: &mut [IValue], results: &[IValue]) {
        let zeros = |result: &Tensor| Tensor::zeros(result.dtype(), result.shape(), self.env.precision);
        for (gradient, result) in gradients.iter_mut().zip(results) {
            if let (IValue::Undefined, Some(result)) = (&gradient, result.tensor()) {
                *gradient = IValue::Tensor(zeros(result));
            }
        }
    }

    /// The inputs that the given gradients reach.
    fn reached(
        &mut self,
        derived: &Derived,
        given: &[IValue],
        workspace: &mut Workspace<'_>,
    ) -> Result<Reached, Error> {
        let Some(before) = derived.before.as_ref().filter(|_| !derived.both.all_given(given)) else {
            return Ok(derived.both.reached(given));
        };
        let mut plain = before.clone();
        let counted = self.stats.clone();
        self.apply(&mut plain, &judging::pipeline("differentiate", workspace)?)?;
        self.stats = counted;
        Ok(Differentials::of(&plain).as_ref().unwrap_or(&derived.both).reached(given))
    }

    /// The gradients of the results: those of the file, of the file next to the graph, or 1 for a
    /// single number.
    fn gradients_of_results(
        &self,
        whole: &IValue,
        given: &Given,
        workspace: &mut Workspace<'_>,
    ) -> Result<Vec<IValue>, Error> {
        let mut results = Vec::new();
        put_leaves(given.description.outputs.as_ref(), whole.clone(), "out", &mut results);
        let adjacent = file_next_to(self.path, ".grad_outputs.safetensors", workspace);
        let adjacent = adjacent.filter(|_| self.args.values.seed.is_none());
        if let Some(at_hand) = &self.args.values.at_hand {
            return self.assigned("the gradients at hand", at_hand.gradients.clone(), &results, workspace);
        }
        match self.args.values.grad_outputs.clone().or(adjacent) {
            Some(ones) if ones.as_os_str() == "ones" => Ok(self.ones(&results)),
            Some(file) => {
                let tensors = read_tensors(&file, workspace)?;
                self.assigned(&file.display().to_string(), tensors, &results, workspace)
            }
            None => self.implicit(&results, workspace),
        }
    }

    /// The gradient of each result by its key, from a file.
    fn assigned(
        &self,
        file: &str,
        mut tensors: Tensors,
        results: &[Leaf<'_>],
        workspace: &mut Workspace<'_>,
    ) -> Result<Vec<IValue>, Error> {
        if let ([only], Some(tensor)) = (results, tensors.remove("")) {
            tensors.insert(only.key.clone(), tensor);
        }
        if let Some(lost) = tensors.keys().find(|key| !results.iter().any(|leaf| leaf.key == **key)) {
            let near = did_you_mean(lost, results.iter().map(|leaf| leaf.key.as_str()));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format_args!("`{file}`: `{lost}` is not an output of the graph{near}"));
        }
        let mut gradients = Vec::new();
        for leaf in results {
            let gradient = tensors.get(&leaf.key).map(|gradient| self.fitting(gradient, leaf)).transpose();
            let gradient = gradient.or_else(|why| refuse(format_args!("`{file}`: {why}")))?;
            if gradient.is_none() && leaf.value.tensor().is_some_and(is_real) {
                workspace.note(format!("`{file}` has no gradient of {}; it does not contribute", leaf.key));
            }
            gradients.push(gradient.unwrap_or(IValue::Undefined));
        }
        Ok(gradients)
    }

    /// The gradient of a result, or why the given one does not fit.
    fn fitting(&self, gradient: &Tensor, leaf: &Leaf<'_>) -> Result<IValue, String> {
        let key = &leaf.key;
        let Some(result) = leaf.value.tensor().filter(|result| is_real(result)) else {
            return Err(format!("`{key}` is {}, which has no gradient", verdicts::summary(&leaf.value)));
        };
        if gradient.shape() != result.shape() || gradient.dtype() != result.dtype() {
            let (found, wanted) = (verdicts::summary(&gradient.clone().into()), verdicts::summary(&leaf.value));
            return Err(format!("the gradient of `{key}` is {found}, but the output is {wanted}"));
        }
        Ok(IValue::Tensor(gradient.converted(gradient.dtype(), self.env.precision)))
    }

    /// Gradient 1 for a result that is a single number; for other results only if inputs are
    /// generated too.
    fn implicit(&self, results: &[Leaf<'_>], workspace: &mut Workspace<'_>) -> Result<Vec<IValue>, Error> {
        let reals: Vec<&Leaf<'_>> = results.iter().filter(|leaf| leaf.value.tensor().is_some_and(is_real)).collect();
        let is_number = reals.len() == 1 && reals[0].value.tensor().is_some_and(|tensor| tensor.numel() == 1);
        if !is_number && self.args.values.seed.is_none() {
            let keys: Vec<&str> = reals.iter().map(|leaf| leaf.key.as_str()).collect();
            return refuse(format_args!(
                "gradients of {} must be given with {GRAD_OUTPUTS} FILE or {GRAD_OUTPUTS}=ones; only the gradient of a single number is 1 by default",
                if keys.is_empty() { "the outputs".to_owned() } else { keys.join(", ") }
            ));
        }
        if !is_number {
            workspace.note("the gradient of each output is generated: 1 in each element");
        }
        Ok(self.ones(results))
    }

    /// A gradient of 1 in each element of each result that can have one.
    fn ones(&self, results: &[Leaf<'_>]) -> Vec<IValue> {
        let ones = |leaf: &Leaf<'_>| match leaf.value.tensor().filter(|tensor| is_real(tensor)) {
            Some(result) => {
                IValue::Tensor(Tensor::full(Scalar::Float(1.0), result.dtype(), result.shape(), self.env.precision))
            }
            None => IValue::Undefined,
        };
        results.iter().map(ones).collect()
    }
}

/// The reason why a result is not known to be floating point: the first node on the way to it whose
/// element type cannot be inferred although those of its operands are known.
fn not_known_to_be_float(graph: &Graph, result: Value) -> String {
    let is_known = |value: &Value| graph.ty(*value).as_tensor().is_none_or(|ty| ty.dtype.is_some());
    let mut value = result;
    while let Some(node) = graph.definer(value).filter(|_| !is_known(&value)) {
        match graph.inputs(node).find(|operand| !is_known(operand)) {
            Some(operand) => value = operand,
            None => {
                let (result, kind) = (graph.name(result), graph.kind(node));
                let error = PassError::at(graph, node, "").at.unwrap_or_default();
                return format!(
                    "the element type of the result `%{result}` is not known statically: it cannot be inferred for `{kind}`\n  {error}"
                );
            }
        }
    }
    format!("the result `%{}` is not floating point and has no gradient", graph.name(result))
}

/// Whether a pipeline differentiates the graph itself.
fn differentiates(pipeline: &Pipeline) -> bool {
    pipeline.stages().iter().any(|stage| stage.pass.name == "differentiate")
}

/// The pass that differentiates a graph whose groups are differentiated already.
const AROUND_GROUPS: &str = "differentiate{eager whole}";

/// Whether a pipeline joins the forward and the backward graph.
fn joins(pipeline: &Pipeline) -> bool {
    let is_joint = |(name, value): &(&str, String)| *name == "joint" && value == "true";
    pipeline.stages().iter().any(|stage| stage.pass.name == "differentiate" && stage.options.iter().any(is_joint))
}

/// Whether the computation depends on run-time values: lists or dictionaries among inputs or
/// results, hidden constants, or code with gradients disabled.
fn hangs_on_run(graph: &Graph, inputs: &[IValue]) -> bool {
    let is_list = |value: &IValue| matches!(value, IValue::List(_) | IValue::Dict(_)) && holds_tensors(value);
    let returns_list = |value: Value| matches!(graph.ty(value).kind(), TypeKind::List(_) | TypeKind::Dict(..));
    let is_hidden = |node| graph.attribute(node, attr::VALUE).is_some_and(Attribute::is_opaque);
    let deep = |value: &IValue| match value {
        IValue::Tuple(values) => values.iter().any(is_list),
        other => is_list(other),
    };
    graph.all_nodes().any(|node| is_about_grad_mode(graph, node))
        || inputs.iter().any(deep)
        || graph.results(graph.root()).any(returns_list)
        || graph.all_nodes().any(|node| graph.kind(node) == prim::CONSTANT && is_hidden(node))
}

/// Flattens tuples, and lists that contain tensors, as `lower-all-tuples` and tracing do with
/// parameters and results.
fn put_leaves<'d>(described: Option<&'d Described>, value: IValue, key: &str, all: &mut Vec<Leaf<'d>>) {
    let part = |i: usize| match described {
        Some(Described::Tuple(parts) | Described::List(parts)) => parts.get(i),
        _ => None,
    };
    match (&value, described) {
        (IValue::Tuple(values), _) => {
            for (i, value) in values.iter().enumerate() {
                put_leaves(part(i), value.clone(), &format!("{key}.{i}"), all);
            }
        }
        (IValue::List(values), _) if holds_tensors(&value) => {
            for (i, value) in values.borrow().iter().enumerate() {
                put_leaves(part(i), value.clone(), &format!("{key}.{i}"), all);
            }
        }
        (IValue::Dict(items), _) if holds_tensors(&value) => {
            let part = |i: usize| match described {
                Some(Described::Dict(items)) => items.get(i).map(|item| &item.1),
                _ => None,
            };
            for (i, value) in items.borrow().values().enumerate() {
                put_leaves(part(i), value.clone(), &format!("{key}.v{i}"), all);
            }
        }
        // Descriptions of several graphs contain a list of outputs even for a single output.
        (_, Some(Described::Tuple(parts))) if parts.len() == 1 => put_leaves(parts.first(), value, key, all),
        (_, described) => {
            let named = match described {
                Some(Described::Tensor(note)) => note.key.clone(),
                _ => None,
            };
            all.push(Leaf { key: named.unwrap_or_else(|| key.to_owned()), value, described, is_wanted: true });
        }
    }
}

/// Determines the requested gradients by `requires_grad`: of descriptions, which may say no as well
/// as yes, and of parameter types. If nothing says yes and only types say no, the types are those
/// of the printed run, as tracers leave them, and gradients are requested regardless.
fn want_gradients(graph: &Graph, inputs: &[IValue], leaves: &mut [Leaf<'_>]) -> Result<(), Error> {
    let described = |leaf: &Leaf<'_>| match leaf.described {
        Some(Described::Tensor(note)) => note.requires_grad,
        _ => None,
    };
    let mut by_types = Vec::new();
    for (param, input) in graph.params(graph.root()).zip(inputs) {
        put_claims(graph.ty(param), input, &mut by_types);
    }
    let some_say_yes = leaves.iter().any(|leaf| described(leaf) == Some(true));
    for (leaf, by_type) in leaves.iter_mut().zip(by_types) {
        leaf.is_wanted = described(leaf).unwrap_or(!some_say_yes && by_type != Some(false));
    }
    let mut reals = leaves.iter().filter(|leaf| leaf.value.tensor().is_some_and(is_real)).peekable();
    if reals.peek().is_none() || reals.any(|leaf| leaf.is_wanted) {
        return Ok(());
    }
    if leaves.iter().any(|leaf| described(leaf) == Some(false)) {
        return refuse("no input requires a gradient; set `\"requires_grad\": true` for the inputs to differentiate");
    }
    leaves.iter_mut().for_each(|leaf| leaf.is_wanted = true);
    Ok(())
}

/// `requires_grad` of the type, for each leaf of a value.
fn put_claims(ty: Type, value: &IValue, all: &mut Vec<Option<bool>>) {
    let parts = ty.parts();
    let part = |i: usize| parts.get(i).copied().unwrap_or(Type::tensor());
    match value {
        IValue::Tuple(values) => values.iter().enumerate().for_each(|(i, value)| put_claims(part(i), value, all)),
        IValue::List(values) if holds_tensors(value) => {
            values.borrow().iter().for_each(|value| put_claims(part(0), value, all));
        }
        IValue::Dict(items) if holds_tensors(value) => {
            items.borrow().values().for_each(|value| put_claims(part(1), value, all));
        }
        _ => all.push(ty.as_tensor().and_then(|tensor| tensor.requires_grad)),
    }
}

/// Rebuilds the tuples that the graph returns.
fn nested(types: &[Type], flat: &mut dyn Iterator<Item = IValue>) -> IValue {
    let mut values: Vec<IValue> = types.iter().map(|&ty| nested_in(ty, flat)).collect();
    if values.len() == 1 { values.remove(0) } else { IValue::tuple(values) }
}

/// Takes the next values and nests them in the tuples of a type.
pub(crate) fn nested_in(ty: Type, flat: &mut dyn Iterator<Item = IValue>) -> IValue {
    match ty.kind() {
        TypeKind::Tuple(parts) => IValue::tuple(parts.iter().map(|&part| nested_in(part, flat)).collect::<Vec<_>>()),
        TypeKind::NamedTuple(fields) => {
            IValue::tuple(fields.iter().map(|field| nested_in(field.ty, flat)).collect::<Vec<_>>())
        }
        _ => flat.next().unwrap_or(IValue::None),
    }
}

/// The number of leaves in the tuples of a type.
pub(crate) fn num_leaves(ty: Type) -> usize {
    match ty.kind() {
        TypeKind::Tuple(parts) => parts.iter().map(|&part| num_leaves(part)).sum(),
        TypeKind::NamedTuple(fields) => fields.iter().map(|field| num_leaves(field.ty)).sum(),
        _ => 1,
    }
}

/// Converts a gradient to the element type of its value: formulas of promoting operators leave it
/// in the type of the result.
fn of_its_type(gradient: IValue, value: &IValue) -> IValue {
    match (&gradient, value) {
        (IValue::Tensor(found), IValue::Tensor(of)) if found.dtype() != of.dtype() => {
            let precision = if of.kept() == of.dtype() { Precision::Typed } else { Precision::Double };
            IValue::Tensor(found.converted(of.dtype(), precision))
        }
        _ => gradient,
    }
}
