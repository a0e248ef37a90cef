//! Forward and backward graph as one, which can be fused and differentiated like any other.
//!
//! ```text
//! graph(%x : Tensor):                                graph(%x : Tensor, %grad.y : Tensor):
//!   %y : Tensor = prim::DifferentiableGraph_0[…](%x)   %y : Tensor = aten::tanh(%x)
//!   return (%y)                                   =>   %grad_self : Tensor = prim::GradOf[name="aten::tanh"](%grad.y)
//!                                                        (…)
//!                                                      return (%y, %grad_self)
//! ```

use super::gradient_types::gradient_type;
use jitopt_core::analysis::gradient_claims::requires_gradient;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::ir::{Graph, Node, Value, ValueMap};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;
use rustc_hash::FxHashSet;

/// The group that makes up the whole graph: its operands are the params, its outputs are the
/// results.
pub(super) fn whole(graph: &Graph) -> Option<(Node, Roles)> {
    let group = graph.first(graph.root()).filter(|&node| graph.next(node).is_none())?;
    let is_all = graph.inputs(group).eq(graph.params(graph.root()))
        && graph.outputs(group).eq(graph.results(graph.root()))
        && graph.kind(group) == prim::DIFFERENTIABLE_GRAPH;
    Some((group, Roles::of(graph, group).filter(|_| is_all)?))
}

/// A result whose gradient would not be a tensor.
pub(super) fn result_without_gradient(graph: &Graph, group: Node, roles: &Roles) -> Option<Value> {
    let mut wanted = graph.outputs(group).enumerate().filter(|(i, _)| roles.input_vjps.contains(i));
    wanted.find(|(_, output)| !graph.ty(*output).is_tensor()).map(|(_, output)| output)
}

/// Replaces a group by both of its graphs. Gradients of results become params, after the others,
/// and gradients of params become results, which are named after them.
pub(super) fn join(graph: &mut Graph, group: Node, roles: &Roles) {
    let (Some(section), Some(backward)) = (graph.subgraph(group).cloned(), graph.backward(group).cloned()) else {
        return;
    };
    let root = graph.root();
    let params: Vec<Value> = graph.inputs(group).collect();
    let mut map: ValueMap = section.params(section.root()).zip(params.iter().copied()).collect();
    let kept = graph.copy_block_into(Some(&section), section.root(), root, &mut map);
    let outputs: Vec<Value> = graph.outputs(group).collect();
    let mut operands: Vec<Value> = Vec::new();
    for &i in &roles.input_vjps {
        operands.push(match outputs.get(i) {
            Some(&output) => gradient_param(graph, output),
            None => undefined(graph),
        });
    }
    for (&output, &result) in outputs.iter().zip(&kept) {
        graph.replace_all_uses(output, result);
        graph.move_name_to_nameless(output, result);
    }
    let given: Vec<Value> = operands.iter().copied().filter(|&operand| graph.is_param(operand)).collect();
    operands.extend(roles.captured_inputs.iter().map(|&i| params[i]));
    operands.extend(roles.captured_outputs.iter().map(|&i| kept[i]));
    graph.erase(group);
    let mut map: ValueMap = backward.params(backward.root()).zip(operands).collect();
    let found = graph.copy_block_into(Some(&backward), backward.root(), root, &mut map);
    let found: Vec<Value> = found.into_iter().flat_map(|result| unpacked(graph, result)).collect();
    let (promotes, defined) = (may_promote(&section), reached(graph, &given));
    for (&of, mut gradient) in roles.output_vjps.iter().zip(found) {
        if promotes && defined.contains(&gradient) {
            gradient = of_type(graph, gradient, params[of]);
        }
        if !graph.is_param(gradient) {
            let name = format!("grad.{}", graph.name(params[of]));
            graph.set_name(gradient, name.as_bytes());
        }
        graph.add_result(root, gradient);
    }
}

/// Whether operators may have tensors of several element types: formulas leave gradients in the
/// type of the result.
fn may_promote(section: &Graph) -> bool {
    let takes_gradient = |value: &Value| requires_gradient(section.ty(*value));
    let params: Vec<Value> = section.params(section.root()).filter(|param| section.ty(*param).is_tensor()).collect();
    let dtype = |value: Value| section.ty(value).as_tensor().and_then(|ty| ty.dtype);
    let outputs = section.nodes(section.root()).flat_map(|node| section.outputs(node));
    let known: Vec<DType> = params.iter().copied().chain(outputs).filter(takes_gradient).filter_map(dtype).collect();
    let all_known = params.len() < 2 || params.iter().all(|&param| dtype(param).is_some());
    !all_known || known.iter().any(|dtype| *dtype != known[0])
}

/// Casts the gradient to the element type of the value it belongs to. A gradient that is itself a
/// param belongs to a param that the graph returns, and needs no cast.
fn of_type(graph: &mut Graph, gradient: Value, of: Value) -> Value {
    if graph.is_param(gradient) {
        return gradient;
    }
    let cast = graph.create_op(Symbol::new("aten::type_as"), &[gradient, of], Type::tensor());
    graph.append(graph.root(), cast);
    let made = graph.output(cast, 0);
    graph.move_name(gradient, made);
    made
}

/// Values that depend on given gradients: these are defined.
fn reached(graph: &Graph, given: &[Value]) -> FxHashSet<Value> {
    let mut found: FxHashSet<Value> = given.iter().copied().collect();
    for node in graph.nodes(graph.root()) {
        if graph.inputs(node).any(|value| found.contains(&value)) {
            found.extend(graph.outputs(node));
        }
    }
    found
}

/// A param for the gradient of a value.
fn gradient_param(graph: &mut Graph, of: Value) -> Value {
    let name = format!("grad.{}", graph.name(of));
    let param = graph.add_param(graph.root(), gradient_type(graph.ty(of), true));
    graph.set_name(param, name.as_bytes());
    param
}

/// The gradient of a value that is only captured: the caller has none for it.
fn undefined(graph: &mut Graph) -> Value {
    let zero = graph.create_op(prim::AUTOGRAD_ZERO, &[], gradient_type(Type::tensor(), false));
    graph.append(graph.root(), zero);
    graph.output(zero, 0)
}

/// The elements of the tuple that a backward graph returns.
fn unpacked(graph: &mut Graph, value: Value) -> Vec<Value> {
    match graph.definer(value).filter(|&node| graph.kind(node) == prim::TUPLE_CONSTRUCT) {
        Some(tuple) => {
            let parts = graph.inputs(tuple).collect();
            graph.erase(tuple);
            parts
        }
        None => vec![value],
    }
}
