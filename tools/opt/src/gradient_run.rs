//! `jitopt run --grad-outputs … --grads …`: the graph is differentiated as a whole, and both graphs are run.

use crate::arguments::RunArgs;
use crate::cmd_run::{self, inputs, stopped, tell_side_effects, transform, write_tensors};
use crate::given_values::{Given, beside, read_tensors};
use crate::onlooker::Onlooker;
use crate::optimise::{Refusal, refuse};
use crate::verdicts::{self, Expectations};
use crate::{World, exit, judging, processor};
use jitopt_core::interpreter::description::{Described, Description, describe};
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::{Environment, IValue, Machine, Stop};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::log::did_you_mean;
use jitopt_core::pass::Pipeline;
use jitopt_core::runtime::CpuBackend;
use jitopt_core::tensor::{Precision, Scalar, Tensor};
use jitopt_core::types::{Type, TypeKind};
use jitopt_judge::differentials::{Differentials, INFERENCE, PREPARATION, give_types};
use jitopt_judge::tracing::{has_control_flow, trace};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Whether gradients are wanted.
pub(crate) fn is_asked_for(args: &RunArgs) -> bool {
    args.values.grads.is_some() || args.values.grad_outputs.is_some() || !args.checks.expect_grads.is_empty()
}

/// Flags that speak of values of the graph as it is written: what is run are two others.
fn refuse_nonsense(args: &RunArgs) -> Result<(), Refusal> {
    let checks = &args.checks;
    let asked = [
        ("--replay", !args.values.replay.is_empty()),
        ("--expect '%V=FILE'", checks.expect.iter().any(|text| text.starts_with('%') || text.contains("/%"))),
        ("--record-profile", checks.record_profile.is_some()),
        ("--merge-profile", !checks.merge_profile.is_empty()),
        ("--profile", args.semantics.seen.profile.is_some()),
        ("--trace-bailouts", checks.trace_bailouts),
        ("--coverage", checks.coverage),
    ];
    match asked.iter().find(|(_, is_asked)| *is_asked) {
        Some((flag, _)) => refuse(format_args!(
            "{flag} is of the graph as it is written, and gradients come of two others: `jitopt --passes='differentiate'` shows them"
        )),
        None => Ok(()),
    }
}

/// What is run, and how.
struct Run<'a> {
    args: &'a RunArgs,
    path: &'a Path,
    pipeline: Option<Pipeline>,
    backend: Option<CpuBackend>,
    env: Environment,
    /// What passes counted.
    stats: BTreeMap<String, u64>,
    /// Whether the passes have differentiated the graph, and done what they do on both.
    is_whole: bool,
}

/// A leaf of the inputs or outputs, under the key of its tensor.
struct Leaf<'d> {
    key: String,
    value: IValue,
    described: Option<&'d Described>,
}

/// What `--expect` and `--expect-grads` name.
struct Expected {
    outputs: Expectations,
    gradients: Expectations,
}

impl Expected {
    fn read(args: &RunArgs, world: &World<'_>) -> Result<Expected, Refusal> {
        let (outputs, gradients) = (args.checks.expect.iter().map(Path::new), args.checks.expect_grads.iter());
        Ok(Expected {
            outputs: Expectations::of_files("output", outputs, world)?,
            gradients: Expectations::of_files("gradient", gradients.map(PathBuf::as_path), world)?,
        })
    }
}

/// Runs a graph forward and backward, and writes, compares and prints what comes of it.
pub(crate) fn run(
    args: &RunArgs,
    path: &Path,
    graph: Graph,
    given: &Given,
    mut env: Environment,
    world: &mut World<'_>,
) -> Result<i32, Refusal> {
    refuse_nonsense(args)?;
    let pipeline = judging::optional_pipeline(args.semantics.passes.as_deref(), world)?;
    let expected = Expected::read(args, world)?;
    let (inputs, all_given) = inputs(args, &graph, given, &mut env, world)?;
    let keys = given.keys(&graph)?;
    let described = |i: usize| given.description.inputs.get(i).map(|input| &input.value);
    let mut leaves = Vec::new();
    for (value, (key, place)) in inputs.into_iter().zip(keys) {
        put_leaves(place.and_then(described), value, &key, &mut leaves);
    }
    let types: Vec<Type> = graph.results(graph.root()).map(|result| graph.ty(result)).collect();
    let backend = processor::backend(&args.semantics.backend, world);
    let mut run = Run { args, path, pipeline, backend, env, stats: BTreeMap::new(), is_whole: false };
    let mut both = match run.differentiated(graph, &leaves, world)? {
        Ok(both) => both,
        Err(stop) => return Ok(stopped(path, &stop, all_given, world)),
    };
    let ran = run.forward_and_backward(&mut both, &types, &leaves, given, world)?;
    tell_side_effects(&run.env, world);
    processor::tell(run.backend.as_ref(), args.semantics.stats.as_deref(), run.stats, world);
    match ran {
        Ok((whole, gradients)) => finish(args, given, &whole, &leaves, gradients, &expected, world),
        Err(stop) => Ok(stopped(path, &stop, all_given, world)),
    }
}

impl Run<'_> {
    /// The graph and that of its gradients. Where inputs decide what is run, it is what these make it do.
    #[allow(clippy::type_complexity, reason = "a refusal is a mistake of the user, a stop a result")]
    fn differentiated(
        &mut self,
        mut graph: Graph,
        leaves: &[Leaf<'_>],
        world: &mut World<'_>,
    ) -> Result<Result<Differentials, Stop>, Refusal> {
        let preparation = judging::pipeline(PREPARATION, world)?;
        self.apply(&mut graph, &preparation)?;
        if has_control_flow(&graph) {
            let inputs: Vec<IValue> = leaves.iter().map(|leaf| leaf.value.clone()).collect();
            graph = match trace(&graph, &self.env, &inputs) {
                Ok(graph) => graph,
                Err(stop) => return Ok(Err(stop)),
            };
            self.env.reset();
            self.apply(&mut graph, &preparation)?;
            world
                .say("note: values decide what is run: gradients are of the branches and turns that these inputs take");
        }
        self.refuse_lists(&graph)?;
        let inputs: Vec<IValue> = leaves.iter().map(|leaf| leaf.value.clone()).collect();
        give_types(&mut graph, &inputs);
        // Passes that differentiate themselves, as `@training`, have the whole graph, and nothing is left for them to do behind.
        let whole = self.pipeline.take_if(|pipeline| differentiates(pipeline));
        let steps = if whole.is_some() { INFERENCE.to_owned() } else { format!("{INFERENCE},differentiate") };
        self.apply(&mut graph, &judging::pipeline(&steps, world)?)?;
        if let Some(pipeline) = &whole {
            self.apply(&mut graph, pipeline)?;
        }
        self.is_whole = whole.is_some();
        if graph.first(graph.root()).is_none() {
            return Ok(Ok(Differentials::of_nothing(graph)));
        }
        match Differentials::of(&graph) {
            Some(both) => Ok(Ok(both)),
            None => refuse(format_args!(
                "`{}` does not become one graph with one of its gradients: there are groups beside other nodes; `inline-autodiff-subgraphs` puts them back",
                self.path.display()
            )),
        }
    }

    /// Lists of tensors have no gradients: where nothing else is returned, nothing would come back.
    fn refuse_lists(&self, graph: &Graph) -> Result<(), Refusal> {
        let results: Vec<Value> = graph.results(graph.root()).collect();
        let is_list = |value: &&Value| matches!(graph.ty(**value).kind(), TypeKind::List(_) | TypeKind::Dict(..));
        match results.iter().find(is_list).filter(|_| !results.iter().any(|value| graph.ty(*value).is_tensor())) {
            Some(&list) => refuse(format_args!(
                "`{}` returns `%{}`, which is {}: gradients are of tensors; let the graph return the tensors themselves",
                self.path.display(),
                graph.name(list),
                graph.ty(list)
            )),
            None => Ok(()),
        }
    }

    fn apply(&mut self, graph: &mut Graph, pipeline: &Pipeline) -> Result<(), Refusal> {
        for (name, n) in transform(self.path, graph, pipeline, &self.env, None, self.args.semantics.no_verify)? {
            *self.stats.entry(name).or_default() += n;
        }
        Ok(())
    }

    /// Runs the pipeline over one of the graphs.
    fn transform(&mut self, graph: &mut Graph) -> Result<(), Refusal> {
        let Some(pipeline) = self.pipeline.take() else { return Ok(()) };
        let applied = self.apply(graph, &pipeline);
        self.pipeline = Some(pipeline);
        applied
    }

    fn execute(&self, graph: &Graph, inputs: Vec<IValue>, world: &mut World<'_>) -> Result<Vec<IValue>, Stop> {
        let mut onlooker = Onlooker::new(self.args, graph, Vec::new(), BTreeSet::new(), world.stderr);
        onlooker.deadline = self.env.deadline;
        let mut machine = Machine::new(graph, &self.env).watched(&mut onlooker);
        if let Some(backend) = &self.backend {
            machine = machine.backed_by(backend);
        }
        machine.run(inputs)
    }

    /// The results as the graph returns them, and a gradient for each leaf of the inputs.
    #[allow(clippy::type_complexity, reason = "a refusal is a mistake of the user, a stop a result")]
    fn forward_and_backward(
        &mut self,
        both: &mut Differentials,
        types: &[Type],
        leaves: &[Leaf<'_>],
        given: &Given,
        world: &mut World<'_>,
    ) -> Result<Result<(IValue, Vec<IValue>), Stop>, Refusal> {
        self.transform(&mut both.forward)?;
        let inputs = leaves.iter().map(|leaf| leaf.value.clone()).collect();
        let forward = both.forward(&mut |graph, inputs| self.execute(graph, inputs, world), inputs);
        let forward = match forward {
            Ok(forward) => forward,
            Err(stop) => return Ok(Err(stop)),
        };
        let whole = nested(types, &mut forward.results.iter().cloned());
        let gradients = self.gradients_of_results(&whole, given, world)?;
        let operands = both.operands(forward, &gradients);
        if self.is_whole {
            self.refuse_undefined(both, &operands)?;
        } else {
            both.specialize(&operands);
            self.transform(&mut both.backward)?;
        }
        let gradients = both.backward(&mut |graph, inputs| self.execute(graph, inputs, world), operands);
        Ok(gradients.map(|gradients| (whole, gradients)))
    }

    /// A backward graph may say that gradients are given (`differentiate{defined}`).
    fn refuse_undefined(&self, both: &Differentials, operands: &[IValue]) -> Result<(), Refusal> {
        let params = both.backward.params(both.backward.root()).zip(operands);
        let is_defined = |param| both.backward.ty(param).as_tensor().is_some_and(|ty| ty.undefined == Some(false));
        match params.into_iter().find(|(param, operand)| is_defined(*param) && matches!(operand, IValue::Undefined)) {
            Some((param, _)) => refuse(format_args!(
                "`{}`: the passes take the gradients of all outputs for given, and that of %{} is not: give it with --grad-outputs, or use `differentiate` in the place of `differentiate{{defined}}`",
                self.path.display(),
                both.backward.name(param)
            )),
            None => Ok(()),
        }
    }

    /// The gradients of results: those of the file, of the file beside the graph, or 1 of a single number.
    fn gradients_of_results(
        &self,
        whole: &IValue,
        given: &Given,
        world: &mut World<'_>,
    ) -> Result<Vec<IValue>, Refusal> {
        let mut results = Vec::new();
        put_leaves(given.description.outputs.as_ref(), whole.clone(), "out", &mut results);
        let beside = beside(self.path, ".grad_outputs.safetensors", world);
        let beside = beside.filter(|_| self.args.values.seed.is_none());
        match self.args.values.grad_outputs.clone().or(beside) {
            Some(file) => self.read_gradients(&file, &results, world),
            None => self.implicit(&results, world),
        }
    }

    fn read_gradients(&self, path: &Path, results: &[Leaf<'_>], world: &mut World<'_>) -> Result<Vec<IValue>, Refusal> {
        let (mut tensors, file) = (read_tensors(path, world)?, path.display());
        if let ([only], Some(tensor)) = (results, tensors.remove("")) {
            tensors.insert(only.key.clone(), tensor);
        }
        if let Some(lost) = tensors.keys().find(|key| !results.iter().any(|leaf| leaf.key == **key)) {
            let near = did_you_mean(lost, results.iter().map(|leaf| leaf.key.as_str()));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format_args!("`{file}`: `{lost}` is no output of the graph{near}"));
        }
        let mut gradients = Vec::new();
        for leaf in results {
            let gradient = tensors.get(&leaf.key).map(|gradient| self.fitting(gradient, leaf)).transpose();
            let gradient = gradient.or_else(|why| refuse(format_args!("`{file}`: {why}")))?;
            if gradient.is_none() && leaf.value.tensor().is_some_and(is_real) {
                world.say(&format!("note: `{file}` has no gradient of {}: it does not count", leaf.key));
            }
            gradients.push(gradient.unwrap_or(IValue::Undefined));
        }
        Ok(gradients)
    }

    /// A gradient for a result, or what is wrong with it.
    fn fitting(&self, gradient: &Tensor, leaf: &Leaf<'_>) -> Result<IValue, String> {
        let key = &leaf.key;
        let Some(result) = leaf.value.tensor().filter(|result| is_real(result)) else {
            return Err(format!("`{key}` is {}, which has no gradient", verdicts::summary(&leaf.value)));
        };
        if gradient.shape() != result.shape() || gradient.dtype() != result.dtype() {
            let (found, wanted) = (verdicts::summary(&gradient.clone().into()), verdicts::summary(&leaf.value));
            return Err(format!("the gradient of `{key}` is {found}, and the output {wanted}"));
        }
        Ok(IValue::Tensor(gradient.converted(gradient.dtype(), self.env.precision)))
    }

    /// 1, of a result that is one number; of others only where inputs are made up too.
    fn implicit(&self, results: &[Leaf<'_>], world: &mut World<'_>) -> Result<Vec<IValue>, Refusal> {
        let reals: Vec<&Leaf<'_>> = results.iter().filter(|leaf| leaf.value.tensor().is_some_and(is_real)).collect();
        let is_number = reals.len() == 1 && reals[0].value.tensor().is_some_and(|tensor| tensor.numel() == 1);
        if !is_number && self.args.values.seed.is_none() {
            let keys: Vec<&str> = reals.iter().map(|leaf| leaf.key.as_str()).collect();
            return refuse(format_args!(
                "gradients of {} are to be given, with --grad-outputs FILE; only of a single number it is 1 unsaid",
                if keys.is_empty() { "the outputs".to_owned() } else { keys.join(", ") }
            ));
        }
        if !is_number {
            world.say("note: the gradient of each output is made up: 1 everywhere");
        }
        let ones = |leaf: &Leaf<'_>| match leaf.value.tensor().filter(|tensor| is_real(tensor)) {
            Some(result) => {
                IValue::Tensor(Tensor::full(Scalar::Float(1.0), result.dtype(), result.shape(), self.env.precision))
            }
            None => IValue::Undefined,
        };
        Ok(results.iter().map(ones).collect())
    }
}

/// Whether a pipeline makes gradients itself.
fn differentiates(pipeline: &Pipeline) -> bool {
    pipeline.stages().iter().any(|stage| stage.pass.name == "differentiate")
}

/// Whether a tensor can have a gradient.
fn is_real(tensor: &Tensor) -> bool {
    tensor.dtype().is_float() || tensor.dtype().is_complex()
}

/// Puts the parts of tuples one behind the other, as `lower-all-tuples` does with params and results.
fn put_leaves<'d>(described: Option<&'d Described>, value: IValue, key: &str, all: &mut Vec<Leaf<'d>>) {
    let parts = |described: &'d Described| match described {
        Described::Tuple(parts) | Described::List(parts) => &parts[..],
        _ => &[],
    };
    match (value, described) {
        (IValue::Tuple(values), _) => {
            for (i, value) in values.iter().enumerate() {
                let part = described.and_then(|described| parts(described).get(i));
                put_leaves(part, value.clone(), &format!("{key}.{i}"), all);
            }
        }
        // Descriptions of several graphs have a list of outputs, also of one.
        (value, Some(Described::Tuple(parts))) if parts.len() == 1 => put_leaves(parts.first(), value, key, all),
        (value, described) => {
            let named = match described {
                Some(Described::Tensor(note)) => note.key.clone(),
                _ => None,
            };
            all.push(Leaf { key: named.unwrap_or_else(|| key.to_owned()), value, described });
        }
    }
}

/// Results in the tuples that the graph returns.
fn nested(types: &[Type], flat: &mut dyn Iterator<Item = IValue>) -> IValue {
    let mut values: Vec<IValue> = types.iter().map(|&ty| nested_in(ty, flat)).collect();
    if values.len() == 1 { values.remove(0) } else { IValue::tuple(values) }
}

fn nested_in(ty: Type, flat: &mut dyn Iterator<Item = IValue>) -> IValue {
    match ty.kind() {
        TypeKind::Tuple(parts) => IValue::tuple(parts.iter().map(|&part| nested_in(part, flat)).collect::<Vec<_>>()),
        TypeKind::NamedTuple(fields) => {
            IValue::tuple(fields.iter().map(|field| nested_in(field.ty, flat)).collect::<Vec<_>>())
        }
        _ => flat.next().unwrap_or(IValue::None),
    }
}

/// A gradient in the element type of what it is the gradient of: formulas of operators that promote leave it in that of the result.
fn of_its_type(gradient: IValue, value: &IValue) -> IValue {
    match (&gradient, value) {
        (IValue::Tensor(found), IValue::Tensor(of)) if found.dtype() != of.dtype() => {
            let precision = if of.kept() == of.dtype() { Precision::Typed } else { Precision::Double };
            IValue::Tensor(found.converted(of.dtype(), precision))
        }
        _ => gradient,
    }
}

/// Compares, writes and prints results and gradients.
fn finish(
    args: &RunArgs,
    given: &Given,
    whole: &IValue,
    leaves: &[Leaf<'_>],
    gradients: Vec<IValue>,
    expected: &Expected,
    world: &mut World<'_>,
) -> Result<i32, Refusal> {
    let mut tensors = Tensors::new();
    let mut outputs = describe(whole, "out", &mut tensors);
    let (mut found, mut described) = (Tensors::new(), Map::new());
    let file = args.values.grads.as_ref().filter(|path| path.as_os_str() != "-");
    let said = |leaf: &Leaf<'_>| matches!(leaf.described, Some(Described::Tensor(note)) if note.requires_grad);
    let some_said = leaves.iter().any(said);
    for (leaf, gradient) in leaves.iter().zip(gradients) {
        if !leaf.value.tensor().is_some_and(is_real) || some_said && !said(leaf) {
            continue;
        }
        if gradient.tensor().is_none() {
            world.say(&format!("note: {} has no gradient: none comes back to it", leaf.key));
            continue;
        }
        let mut gradient = describe(&of_its_type(gradient, &leaf.value), &leaf.key, &mut found);
        if file.is_some() {
            cmd_run::without_elements(&mut gradient);
        }
        described.insert(leaf.key.clone(), gradient.json());
    }
    if let Some(path) = &args.values.outputs {
        write_tensors(path, &tensors, world)?;
        cmd_run::without_elements(&mut outputs);
    }
    if let Some(path) = file {
        write_tensors(path, &found, world)?;
    }
    if args.checks.expect.is_empty() && args.checks.expect_grads.is_empty() {
        let all = json!({"outputs": outputs.json(), "gradients": Json::Object(described)});
        world.print(format!("{}\n", cmd_run::laid_out(&all, 0)).as_bytes());
        return Ok(exit::YES);
    }
    let mut code = exit::YES;
    if !args.checks.expect.is_empty() {
        code = code.max(expected.outputs.judge(args, &given.description, whole, &tensors, world)?);
    }
    if !args.checks.expect_grads.is_empty() {
        let description = Description { tolerance: given.description.tolerance, ..Description::default() };
        code = code.max(expected.gradients.judge(args, &description, whole, &found, world)?);
    }
    Ok(code)
}
