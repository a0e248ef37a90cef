//! The operators of attention that a library call computes: two products, and what may stand
//! between the first one and the softmax, and between the softmax and the second one.
//!
//! ```text
//! %s : Tensor = aten::matmul(%q, %keys)
//! %t : Tensor = aten::mul(%s, %scale)               scores: scaled, masked
//! %u : Tensor = aten::add(%t, %mask, %one)
//! %w : Tensor = aten::softmax(%u, %last, %none)     weights
//! %y : Tensor = aten::matmul(%w, %values)
//! ```

use crate::ir::{Graph, Node, Value};
use crate::tensor::{DType, Dims, Tensor, layout};
use crate::types::Simple;

/// Attention as one operator.
pub const ATTENTION: &str = "aten::scaled_dot_product_attention";
/// Products, with the rank that their factors must have, if that is fixed.
const PRODUCTS: [(&str, Option<usize>); 2] = [("aten::matmul", None), ("aten::bmm", Some(3))];

/// The operation on scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnScores {
    /// They are multiplied by a number.
    Times(Value),
    /// They are divided by a number.
    Over(Value),
    /// A tensor is added.
    Plus(Value),
    /// They are a number where a mask is true.
    FilledWhere(Value, Value),
    /// They are a number where a mask is false.
    KeptWhere(Value, Value),
}

/// The step of an operator with some operands, given the scores.
type Made = fn(&Graph, &[Value], Value) -> Option<OnScores>;

/// Operators on scores.
const STEPS: [(&str, Made); 5] = [
    ("aten::mul", |graph, of, scores| match *of {
        [x, by] if x == scores && is_number(graph, by) => Some(OnScores::Times(by)),
        _ => None,
    }),
    ("aten::div", |graph, of, scores| match *of {
        [x, by] if x == scores && is_number(graph, by) => Some(OnScores::Over(by)),
        _ => None,
    }),
    ("aten::add", |graph, of, scores| match *of {
        [a, b, alpha] if a != b && graph.constant_int(alpha) == Some(1) => {
            let other = if a == scores { b } else { a };
            (!is_number(graph, other)).then_some(OnScores::Plus(other))
        }
        _ => None,
    }),
    ("aten::masked_fill", |graph, of, scores| match *of {
        [x, mask, with] if x == scores && is_number(graph, with) => Some(OnScores::FilledWhere(mask, with)),
        _ => None,
    }),
    ("aten::where", |graph, of, scores| match *of {
        [mask, x, with] if x == scores && is_number(graph, with) => Some(OnScores::KeptWhere(mask, with)),
        [mask, with, x] if x == scores && is_number(graph, with) => Some(OnScores::FilledWhere(mask, with)),
        _ => None,
    }),
];

/// Whether a node is a product of two tensors; if so, the rank that its factors must have.
pub fn product(graph: &Graph, node: Node) -> Option<Option<usize>> {
    let kind = graph.kind(node).as_str();
    let &(_, rank) = PRODUCTS.iter().find(|row| row.0 == kind)?;
    (graph.num_inputs(node) == 2).then_some(rank)
}

/// The operation of a node on scores.
pub fn on_scores(graph: &Graph, node: Node, scores: Value) -> Option<OnScores> {
    let kind = graph.kind(node).as_str();
    let (_, made) = STEPS.iter().find(|row| row.0 == kind)?;
    let operands: Vec<Value> = graph.inputs(node).collect();
    // Scores that are their own mask are none.
    let is_once = operands.iter().filter(|&&value| value == scores).count() == 1;
    is_once.then(|| made(graph, &operands, scores)).flatten()
}

/// The dimension of a softmax and the element type of its result, if that is given.
pub fn softmax(graph: &Graph, node: Node) -> Option<(i64, Option<DType>)> {
    if graph.kind(node).as_str() != "aten::softmax" || graph.num_inputs(node) != 3 {
        return None;
    }
    let (dim, dtype) = (graph.constant_int(graph.input(node, 1))?, graph.input(node, 2));
    match graph.constant(dtype)? {
        None => Some((dim, None)),
        Some(code) => Some((dim, Some(DType::from_code(code.as_int()?)?))),
    }
}

/// The element type that weights have after a node that does nothing else to them; none if it is
/// the same.
pub fn on_weights(graph: &Graph, node: Node, weights: Value) -> Option<Option<DType>> {
    let operands: Vec<Value> = graph.inputs(node).collect();
    let constant = |value: Value| graph.constant_int(value);
    let is_none = |value: Value| matches!(graph.constant(value), Some(None));
    match (graph.kind(node).as_str(), &operands[..]) {
        ("aten::to", &[x, dtype, _, _, format]) if x == weights && is_none(format) => {
            Some(Some(DType::from_code(constant(dtype)?)?))
        }
        ("aten::dropout", &[x, _, train]) if x == weights && constant(train) == Some(0) => Some(None),
        _ => None,
    }
}

/// The strides of the result of [`ATTENTION`] for query, key and value, if it has the shape of the
/// query; none where it is contiguous. PyTorch's kernel for processors takes operands of four
/// dimensions with a contiguous last one, and gives the result the order of dimensions of the
/// query: programs view it without the heads.
///
/// ```text
/// %q = aten::transpose(%x, 1, 2)                        Float(2, 4, 7, 8), strides 224, 8, 32, 1
/// %y = aten::scaled_dot_product_attention(%q, …)        the same
/// %z = aten::transpose(%y, 1, 2)
/// %r = aten::view(%z, [2, 7, 32])
/// ```
pub(crate) fn result_strides(operands: [&Tensor; 3]) -> Option<Dims> {
    let [query, ..] = operands;
    let is_taken = |tensor: &Tensor| tensor.rank() == 4 && tensor.strides()[3] == 1;
    if !operands.into_iter().all(is_taken) || query.is_contiguous() {
        return None;
    }
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by_key(|dim| std::cmp::Reverse(query.strides()[*dim]));
    Some(layout::strides_in_order(query.shape(), &order))
}

/// Whether a value is a number, or a tensor without dimensions.
fn is_number(graph: &Graph, value: Value) -> bool {
    let ty = graph.ty(value);
    match ty.as_tensor() {
        Some(tensor) => tensor.sizes.as_ref().is_some_and(|sizes| sizes.is_empty()),
        None => [Simple::Int, Simple::Float, Simple::Number, Simple::Scalar].iter().any(|&number| ty.is(number)),
    }
}
