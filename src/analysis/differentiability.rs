//! Which nodes can be part of a differentiable subgraph.

use crate::ir::{Graph, Node, Value};
use crate::ops;
use crate::ops::gradient_table::{GradientRow, gradient_row};
use crate::symbol::prim;
use crate::types::Type;

/// The row of a node that PyTorch would differentiate by a formula.
pub fn formula_row(graph: &Graph, node: Node) -> Option<&'static GradientRow> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::operator(graph.era, graph.kind(node)).resolve(&types).schema()?;
    let row = gradient_row(graph.era, schema)?;
    let operand = |name: &str| Some(graph.input(node, schema.formal(name)?));
    let is_constant = |value: Value| graph.definer(value).is_some_and(|made| graph.kind(made) == prim::CONSTANT);
    let fixed = row.fixed.iter().all(|name| operand(name).is_some_and(is_constant));
    let trained = row.trained.is_none_or(|name| operand(name).and_then(|flag| graph.constant_int(flag)) != Some(0));
    (fixed && trained).then_some(row)
}
