//! Errors of differentiation.

use super::finder::Facts;
use crate::ir::{Attribute, Node, Value};
use crate::ops::resolve;
use crate::symbol::prim;
use crate::types::Type;
use crate::verify::{Sink, Spot};

/// Operators whose symbolic gradient differs from eager mode's at some points, and the difference.
const TIES: &[(&str, &str)] = &[
    ("aten::threshold", "where x equals the threshold"),
    ("aten::max", "where operands are equal, both get no gradient"),
    ("aten::min", "where operands are equal, both get no gradient"),
    ("aten::pow", "at base 0 the gradient of the exponent is -inf instead of 0"),
    ("aten::hardtanh", "at the bounds, from 1.13 on"),
    ("aten::clamp", "at the bounds, in 2.15"),
];

/// `aten::max` and other operators in a graph that is differentiated
pub(super) fn gradient_at_tie(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    if !is_trained(facts) {
        return;
    }
    for node in facts.graph.all_nodes() {
        let tie = TIES.iter().find(|(kind, _)| *kind == facts.kind(node));
        let of_tensors = || facts.graph.num_inputs(node) > 1 && facts.ty(facts.graph.input(node, 0)).is_tensor();
        if let Some((_, how)) = tie.filter(|_| of_tensors() && !is_reduction(facts, node)) {
            sink.warning(Spot::Node(node), (*how).to_owned());
        }
    }
}

/// `aten::max(x, dim, keepdim)`; two tensors are compared elementwise.
fn is_reduction(facts: &Facts<'_>, node: Node) -> bool {
    let elementwise = facts.ty(facts.graph.input(node, 1)).is_tensor();
    matches!(facts.kind(node), "aten::max" | "aten::min") && !elementwise
}

/// Reductions that may keep their dimensions.
const REDUCTIONS: &[&str] =
    &["aten::mean", "aten::sum", "aten::var", "aten::std", "aten::amax", "aten::amin", "aten::norm"];

/// `%y : Tensor = aten::sub(%x, %mean, %1)`, where `%mean` is that of `%x` with its dimensions kept
pub(super) fn gradient_summed(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    if !is_trained(facts) {
        return;
    }
    for node in facts.of_kinds(&["aten::sub", "aten::add", "aten::mul", "aten::div", "aten::rsub"]) {
        let operands: Vec<Value> = facts.graph.inputs(node).take(2).collect();
        let [x, y] = operands[..] else { continue };
        let Some((whole, reduced)) = [(x, y), (y, x)].into_iter().find(|&(a, b)| is_kept_reduction(facts, a, b)) else {
            continue;
        };
        let (whole, reduced) = (facts.name(whole), facts.name(reduced));
        let text = format!("the gradient of `{whole}` is summed to the size of `{reduced}`, which is computed from it");
        sink.warning(Spot::Node(node), text);
    }
}

/// Whether a tensor is a reduction of another that keeps the dimensions.
fn is_kept_reduction(facts: &Facts<'_>, whole: Value, reduced: Value) -> bool {
    let graph = facts.graph;
    let made = graph.definer(reduced).filter(|&node| REDUCTIONS.contains(&facts.kind(node)));
    let Some(node) = made.filter(|&node| graph.inputs(node).next() == Some(whole)) else { return false };
    let types: Vec<Type> = graph.inputs(node).map(|value| facts.ty(value)).collect();
    let schema = resolve(graph.era, graph.kind(node), &types).schema();
    let keeps = schema.and_then(|schema| schema.formal("keepdim")).map(|at| graph.constant(graph.input(node, at)));
    matches!(keeps, Some(Some(Some(Attribute::Int(1) | Attribute::Bool(true)))))
}

/// Whether the text shows that gradients are required.
fn is_trained(facts: &Facts<'_>) -> bool {
    let wants = |value: Value| facts.ty(value).as_tensor().is_some_and(|tensor| tensor.requires_grad == Some(true));
    let graph = facts.graph;
    let differentiated = [prim::DIFFERENTIABLE_GRAPH, prim::GRAD_OF];
    if facts.carrier == Some(prim::DIFFERENTIABLE_GRAPH) {
        return true;
    }
    graph.params(graph.root()).any(wants) || graph.all_nodes().any(|node| differentiated.contains(&graph.kind(node)))
}

/// `%s : Tensor = aten::add(%reduced, %other, %1)`, where `%reduced` is a sum to a size
pub(super) fn sum_past_add(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::add", "prim::AutogradAdd"]) {
        let reduced = |value: &Value| facts.made_by(*value, "aten::_grad_sum_to_size").is_some();
        let operands: Vec<Value> = facts.graph.inputs(node).take(2).collect();
        if let [x, y] = operands[..]
            && reduced(&x) != reduced(&y)
        {
            let summed = if reduced(&x) { x } else { y };
            sink.warning(Spot::Node(node), format!("`{}` is summed after the addition", facts.name(summed)));
        }
    }
}
