//! The operators that a library call may compute in its epilogue: pointwise functions, and the sum
//! with a tensor of the same size.

use super::fusion_rules::epilogue;
use crate::ir::{Attribute, Graph, Node, Value};
use crate::tensor::DType;
use crate::tensor::gemm::Function;
use crate::types::{Dim, TensorType, Type};

/// The function of its first operand that a node is, if its other operands are constants.
pub fn function(graph: &Graph, node: Node) -> Option<Function> {
    let made = epilogue(graph.kind(node))?;
    let constants: Option<Vec<&Attribute>> = graph.inputs(node).skip(1).map(|value| graph.constant(value)?).collect();
    made(&constants?)
}

/// The other operand of a sum with a value.
pub fn addend(graph: &Graph, node: Node, last: Value) -> Option<Value> {
    let operands: Vec<Value> = graph.inputs(node).collect();
    let &[a, b, alpha] = &operands[..] else { return None };
    let is_sum = graph.kind(node).as_str() == "aten::add" && graph.constant_int(alpha) == Some(1) && a != b;
    is_sum.then_some(if a == last { b } else { a })
}

/// Whether an epilogue may compute a node that reads the last value so far. Sizes that types do not
/// show are compared in a run.
pub fn may_follow(graph: &Graph, node: Node, last: Value) -> bool {
    if function(graph, node).is_some() {
        return graph.input(node, 0) == last;
    }
    let other = addend(graph, node, last).and_then(|other| graph.ty(other).as_tensor());
    other.is_some_and(|other| may_be_as_large(other, graph.ty(last)))
}

/// Whether types allow for the same sizes and elements.
fn may_be_as_large(other: &TensorType, last: Type) -> bool {
    let Some(last) = last.as_tensor() else { return false };
    let is_float = other.dtype.is_none_or(|dtype| dtype == DType::Float);
    let fits = |(a, b): (&Dim, &Dim)| !matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    let sizes = other.sizes.as_ref().zip(last.sizes.as_ref());
    is_float && sizes.is_none_or(|(a, b)| a.len() == b.len() && a.iter().zip(b.iter()).all(fits))
}
