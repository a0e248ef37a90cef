//! Selects the nodes that can be part of a differentiable subgraph.

use crate::ir::{Graph, Node, Value};
use crate::ops;
use crate::ops::gradient_table::{GradientRow, gradient_row};
use crate::symbol::prim;
use crate::types::{DType, Type};

/// Whether types show that a node reads or computes complex numbers. PyTorch's formulas multiply by
/// factors where the gradients are products with conjugates.
pub fn is_of_complex_numbers(graph: &Graph, node: Node) -> bool {
    let is_complex = |value: Value| graph.ty(value).as_tensor().and_then(|ty| ty.dtype).is_some_and(DType::is_complex);
    graph.inputs(node).chain(graph.outputs(node)).any(is_complex)
}

/// The row of a node that PyTorch would differentiate by a formula, and correctly.
pub fn formula_row(graph: &Graph, node: Node) -> Option<&'static GradientRow> {
    if is_of_complex_numbers(graph, node) {
        return None;
    }
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::operator(graph.era, graph.kind(node)).resolve(&types).schema()?;
    let row = gradient_row(graph.release(), schema)?;
    let operand = |name: &str| Some(graph.input(node, schema.formal(name)?));
    let is_constant = |value: Value| graph.definer(value).is_some_and(|made| graph.kind(made) == prim::CONSTANT);
    let fixed = row.fixed.iter().all(|name| operand(name).is_some_and(is_constant));
    // With an unknown flag the operator may return its operand itself; formulas create a new
    // tensor.
    let is_set = |flag: Value| graph.constant_int(flag).is_some_and(|flag| flag != 0);
    let trained = row.trained.is_none_or(|name| operand(name).is_some_and(is_set));
    (fixed && trained).then_some(row)
}
