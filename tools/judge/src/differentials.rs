//! Runs a graph that was differentiated as a whole: forward, then backward from the gradients of
//! its results.

use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::interpreter::description::describe;
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::interpreter::specialization::{Detail, specialized};
use jitopt_core::interpreter::{IValue, Stop};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::symbol::prim;
use jitopt_core::types::{TensorType, Type, TypeKind};
use rustc_hash::FxHashSet;

/// Passes that prepare a graph so that `differentiate` accepts it whole: calls inlined, tuples
/// lowered, constants propagated, loops of known length unrolled, writes removed where possible,
/// elements of fresh lists forwarded, chunk counts constant. For remaining control flow, see
/// [`crate::tracing`].
pub const PREPARATION: &str = "inline,lower-all-tuples,constant-propagation,dce,constant-loop-unrolling,constant-propagation,\
    remove-mutation,peephole{only=lists more},peephole{only=dicts more},canonicalize-ops,dce";

/// Passes that determine which values are floating point before a graph with parameter types is
/// differentiated: only those have gradients. Writes to parts of tensors are functionalised where
/// types prove that this is equivalent.
pub const INFERENCE: &str =
    "shape-analysis{precise},peephole{only=lists more},functionalize,shape-analysis{precise},dce";

/// The positions of values in a list; `None` if one is missing or occurs twice.
fn places(all: &[Value], some: impl Iterator<Item = Value>) -> Option<Vec<usize>> {
    let found: Vec<usize> = some.map(|value| all.iter().position(|other| *other == value)).collect::<Option<_>>()?;
    let twice = found.iter().enumerate().any(|(i, place)| found[..i].contains(place));
    (!twice).then_some(found)
}

/// The forward and the backward graph, and which of their values correspond.
pub struct Differentials {
    /// Computes the results and the captured values.
    pub forward: Graph,
    /// Computes the gradients of the parameters, as a tuple.
    pub backward: Graph,
    roles: Roles,
    /// Number of parameters of the original graph.
    num_inputs: usize,
    /// For each parameter of the forward graph, its index in the original graph.
    operands: Vec<usize>,
    /// For each result of the original graph, its index in the forward graph.
    results: Vec<usize>,
}

/// The outputs of the forward graph.
pub struct Forward {
    /// The results.
    pub results: Vec<IValue>,
    /// The operands of the backward graph other than gradients.
    captured: Vec<IValue>,
    /// Their types in the forward graph.
    types: Vec<Type>,
}

impl Forward {
    /// Whether the backward graph receives complex tensors that no type declares: its formulas
    /// assume real numbers then.
    pub fn has_undeclared_complex_numbers(&self) -> bool {
        let is_declared = |ty: &Type| ty.as_tensor().and_then(|tensor| tensor.dtype).is_some();
        let mut captured = self.captured.iter().zip(&self.types).filter(|(_, ty)| !is_declared(ty));
        captured.any(|(value, _)| value.tensor().is_some_and(|tensor| tensor.dtype().is_complex()))
    }
}

/// Assigns the types of values to the parameters of a graph; whether they require gradients stays
/// open. Types must show which values are not floating point, since those have no gradient.
pub fn give_types(graph: &mut Graph, values: &[IValue]) {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (param, value) in params.into_iter().zip(values) {
        let described = describe(value, "", &mut Tensors::new());
        let Ok(ty) = specialized(graph.ty(param), &described, Detail::Sizes) else { continue };
        graph.set_type(
            param,
            match ty.as_tensor() {
                Some(tensor) => Type::new(TypeKind::Tensor(TensorType { requires_grad: None, ..tensor.clone() })),
                None => ty,
            },
        );
    }
}

/// Marks parameters as not requiring gradients: no gradient flows to them, and operators on the way
/// need no formula.
pub fn forgo_gradients(graph: &mut Graph, is_wanted: impl Fn(usize) -> bool) {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (_, param) in params.into_iter().enumerate().filter(|(i, _)| !is_wanted(*i)) {
        if let Some(tensor) = graph.ty(param).as_tensor() {
            let ty = TensorType { requires_grad: Some(false), ..tensor.clone() };
            graph.set_type(param, Type::new(TypeKind::Tensor(ty)));
        }
    }
}

/// The reach of gradients if only some results have one.
pub struct Reached {
    /// Whether each parameter receives a gradient.
    pub params: Vec<bool>,
    /// Whether parts of a joined gradient, such as the gradients of chunks, are missing: they are
    /// taken as 0.
    pub lacks_parts: bool,
}

impl Reached {
    /// The gradients of the parameters that are reached.
    pub fn of(&self, gradients: Vec<IValue>) -> Vec<IValue> {
        let one =
            |(i, gradient)| if self.params.get(i).copied().unwrap_or(true) { gradient } else { IValue::Undefined };
        gradients.into_iter().enumerate().map(one).collect()
    }
}

/// Runs one of the graphs.
pub type Run<'r> = dyn FnMut(&Graph, Vec<IValue>) -> Result<Vec<IValue>, Stop> + 'r;

impl Differentials {
    /// Takes both graphs out of a graph that `differentiate` turned into a single group; `None` if
    /// it did not.
    pub fn of(graph: &Graph) -> Option<Differentials> {
        let group = graph.first(graph.root()).filter(|&node| graph.next(node).is_none())?;
        let roles = Roles::of(graph, group)?;
        let params: Vec<Value> = graph.params(graph.root()).collect();
        let outputs: Vec<Value> = graph.outputs(group).take(roles.real_outputs).collect();
        Some(Differentials {
            forward: graph.subgraph(group).filter(|_| graph.kind(group) == prim::DIFFERENTIABLE_GRAPH)?.clone(),
            backward: graph.backward(group)?.clone(),
            roles,
            num_inputs: params.len(),
            operands: places(&params, graph.inputs(group))?,
            results: places(&outputs, graph.results(graph.root()))?,
        })
    }

    /// For a graph that returns its parameters: the gradients pass through unchanged.
    pub fn of_nothing(forward: Graph) -> Differentials {
        let params: Vec<Value> = forward.params(forward.root()).collect();
        let mut backward = Graph::new();
        backward.set_release(forward.release());
        backward.dialect = forward.dialect;
        let root = backward.root();
        let results: Vec<Value> = forward.results(root).collect();
        let given: Vec<Value> = results.iter().map(|_| backward.add_param(root, Type::tensor())).collect();
        let mut sums: Vec<Option<Value>> = vec![None; params.len()];
        for (result, gradient) in results.iter().zip(given) {
            let Some(i) = params.iter().position(|param| param == result) else { continue };
            sums[i] = Some(match sums[i] {
                None => gradient,
                Some(sum) => {
                    let add = backward.create_op(prim::AUTOGRAD_ADD, &[sum, gradient], Type::tensor());
                    backward.append(root, add);
                    backward.output(add, 0)
                }
            });
        }
        let output_vjps: Vec<usize> = (0..params.len()).filter(|&i| sums[i].is_some()).collect();
        let found: Vec<Value> = sums.into_iter().flatten().collect();
        let types: Vec<Type> = found.iter().map(|_| Type::tensor()).collect();
        let tuple = backward.create_op(prim::TUPLE_CONSTRUCT, &found, Type::tuple(&types));
        backward.append(root, tuple);
        let tuple = backward.output(tuple, 0);
        backward.add_result(root, tuple);
        let (input_vjps, real_outputs) = ((0..results.len()).collect(), results.len());
        Differentials {
            forward,
            backward,
            roles: Roles { real_outputs, input_vjps, output_vjps, ..Roles::default() },
            num_inputs: params.len(),
            operands: (0..params.len()).collect(),
            results: (0..real_outputs).collect(),
        }
    }

    /// Runs the forward graph.
    pub fn forward(&self, run: &mut Run<'_>, inputs: Vec<IValue>) -> Result<Forward, Stop> {
        let inputs: Vec<IValue> = self.operands.iter().map(|&i| inputs[i].clone()).collect();
        let results = run(&self.forward, inputs.clone())?;
        let from_inputs = self.roles.captured_inputs.iter().map(|&i| inputs[i].clone());
        let captured = from_inputs.chain(self.roles.captured_outputs.iter().map(|&i| results[i].clone())).collect();
        let (params, root) = (self.forward.params(self.forward.root()).collect::<Vec<_>>(), self.forward.root());
        let returned: Vec<Value> = self.forward.results(root).collect();
        let captured_values = self.roles.captured_inputs.iter().map(|&i| params[i]);
        let captured_values = captured_values.chain(self.roles.captured_outputs.iter().map(|&i| returned[i]));
        let types = captured_values.map(|value| self.forward.ty(value)).collect();
        Ok(Forward { results: self.results.iter().map(|&i| results[i].clone()).collect(), captured, types })
    }

    /// The operands of the backward graph: gradients of results, and captured values. An undefined
    /// gradient means that the result does not contribute.
    pub fn operands(&self, forward: Forward, given: &[IValue]) -> Vec<IValue> {
        self.roles.input_vjps.iter().map(|&i| self.of_result(i, given)).chain(forward.captured).collect()
    }

    fn of_result(&self, i: usize, given: &[IValue]) -> IValue {
        let at = self.results.iter().position(|&result| result == i);
        at.and_then(|at| given.get(at)).cloned().unwrap_or(IValue::Undefined)
    }

    /// The gradients of results that a joined graph takes after the inputs.
    pub fn of_results(&self, given: &[IValue]) -> Vec<IValue> {
        let real = self.roles.input_vjps.iter().filter(|&&i| i < self.roles.real_outputs);
        real.map(|&i| self.of_result(i, given)).collect()
    }

    /// Splits the results of a joined graph into the results and the gradients of all parameters.
    pub fn split(&self, mut results: Vec<IValue>) -> (Vec<IValue>, Vec<IValue>) {
        let found = results.split_off(self.results.len().min(results.len()));
        let mut gradients = vec![IValue::Undefined; self.num_inputs];
        for (&i, gradient) in self.roles.output_vjps.iter().zip(found) {
            gradients[self.operands[i]] = gradient;
        }
        (results, gradients)
    }

    /// Whether every result that may have a gradient is given one.
    pub fn all_given(&self, given: &[IValue]) -> bool {
        let mut real = self.roles.input_vjps.iter().filter(|&&i| i < self.roles.real_outputs);
        real.all(|&i| !matches!(self.of_result(i, given), IValue::Undefined))
    }

    /// The reach of the given gradients. It is an overestimate if passes have fused the backward
    /// graph.
    pub fn reached(&self, given: &[IValue]) -> Reached {
        if self.all_given(given) {
            return Reached { params: vec![true; self.num_inputs], lacks_parts: false };
        }
        let (graph, root) = (&self.backward, self.backward.root());
        let mut defined = FxHashSet::default();
        let mut gradients = FxHashSet::default();
        for (param, &i) in graph.params(root).zip(&self.roles.input_vjps) {
            gradients.insert(param);
            if !matches!(self.of_result(i, given), IValue::Undefined) {
                defined.insert(param);
            }
        }
        let mut lacks_parts = false;
        for node in graph.nodes(root) {
            if graph.inputs(node).any(|value| defined.contains(&value)) {
                let lists = graph.node_blocks(node).flat_map(|block| graph.nodes(block));
                let mut parts =
                    lists.filter(|&list| graph.kind(list) == prim::LIST_CONSTRUCT).flat_map(|list| graph.inputs(list));
                lacks_parts |= parts.any(|part| gradients.contains(&part) && !defined.contains(&part));
                defined.extend(graph.outputs(node));
            }
            gradients.extend(graph.outputs(node));
        }
        let results = graph.results(root).filter_map(|result| graph.definer(result));
        let found =
            results.filter(|&tuple| graph.kind(tuple) == prim::TUPLE_CONSTRUCT).flat_map(|tuple| graph.inputs(tuple));
        let mut params = vec![false; self.num_inputs];
        for (&i, gradient) in self.roles.output_vjps.iter().zip(found) {
            params[self.operands[i]] = defined.contains(&gradient);
        }
        Reached { params, lacks_parts }
    }

    /// The names of results whose gradients the backward graph requires but that are not given.
    pub fn missing(&self, given: &[IValue]) -> Vec<String> {
        let params = self.backward.params(self.backward.root());
        let is_there = |param: Value| self.backward.ty(param).as_tensor().is_some_and(|ty| ty.undefined == Some(false));
        let lost = params.zip(&self.roles.input_vjps).filter(|(param, i)| {
            is_there(*param) && **i < self.roles.real_outputs && matches!(self.of_result(**i, given), IValue::Undefined)
        });
        let results: Vec<Value> = self.forward.results(self.forward.root()).collect();
        lost.map(|(_, &i)| format!("%{}", self.forward.name(results[i]))).collect()
    }

    /// Assigns the types of the operands to the parameters of the backward graph, as an executor
    /// does: formulas declare none.
    pub fn specialize(&mut self, operands: &[IValue]) {
        give_types(&mut self.backward, operands);
    }

    /// Runs the backward graph; returns the gradients of the forward graph's parameters, undefined
    /// where there is none.
    pub fn backward(&self, run: &mut Run<'_>, operands: Vec<IValue>) -> Result<Vec<IValue>, Stop> {
        let mut gradients = vec![IValue::Undefined; self.num_inputs];
        if let Some(IValue::Tuple(found)) = run(&self.backward, operands)?.pop() {
            for (&i, gradient) in self.roles.output_vjps.iter().zip(found.iter()) {
                gradients[self.operands[i]] = gradient.clone();
            }
        }
        Ok(gradients)
    }
}
