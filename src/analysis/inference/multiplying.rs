//! Products of matrices.

use super::elementwise::broadcast_two;
use super::{Call, Extent, is_in_a_row};
use crate::ops::shape_rules::Shape;
use crate::planted;
use crate::types::{Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Product => product(call),
        Shape::Matmul => matmul(call),
        Shape::AddedProduct => added(call),
        Shape::Linear => linear(call),
        Shape::ReducedProduct => Some(Extent::of(vec![dim(call, 1, 1), dim(call, 2, 2)])),
        _ => outer(call),
    }
}

/// Dimension `i` of tensor operand `n`.
fn dim(call: &Call<'_>, n: usize, i: usize) -> Dim {
    let tensor = call.graph.inputs(call.node).nth(n).and_then(|value| call.tensor_of(value));
    tensor.and_then(|tensor| tensor.sizes.as_ref()?.get(i).copied()).unwrap_or(Dim::Unknown)
}

/// `mm` and `bmm` take nothing but matrices, and stacks of them.
fn product(call: &Call<'_>) -> Option<Extent> {
    let contiguous = call.tensors().is_some_and(|all| !all.is_empty());
    Some(match call.schema.kind.as_str() {
        "aten::bmm" => {
            let stack = if dim(call, 0, 0) == Dim::Unknown { dim(call, 1, 0) } else { dim(call, 0, 0) };
            Extent::fresh(vec![stack, dim(call, 0, 1), dim(call, 1, 2)], contiguous)
        }
        _ => Extent::fresh(
            planted!("shapes.mm", vec![dim(call, 0, 0), dim(call, 1, 1)], "inner" => vec![dim(call, 0, 0), dim(call, 1, 0)]),
            contiguous,
        ),
    })
}

/// Vectors count as a row on the left and a column on the right, which go afterwards; what stands before matrices is broadcast.
fn matmul(call: &Call<'_>) -> Option<Extent> {
    let sides: Vec<&[Dim]> = call.tensors()?.iter().map(|tensor| tensor.sizes.as_deref()).collect::<Option<_>>()?;
    let &[left, right] = &sides[..] else { return None };
    let sizes = match (left, right) {
        ([], _) | (_, []) => return None,
        ([_], [_]) => Vec::new(),
        ([_], [stack @ .., _, columns]) => [stack, &[*columns]].concat(),
        ([stack @ .., rows, _], [_]) => [stack, &[*rows]].concat(),
        ([stack @ .., rows, _], [other @ .., _, columns]) => {
            [&broadcast_two(stack, other)[..], &[*rows, *columns]].concat()
        }
    };
    let plain = left.len() == 2 && right.len() == 2;
    Some(Extent::fresh(sizes, plain))
}

fn added(call: &Call<'_>) -> Option<Extent> {
    Some(Extent::of(match call.schema.kind.as_str() {
        "aten::addmm" => vec![dim(call, 1, 0), dim(call, 2, 1)],
        "aten::addmv" => vec![dim(call, 1, 0)],
        _ => vec![
            if dim(call, 1, 0) == Dim::Unknown { dim(call, 2, 0) } else { dim(call, 1, 0) },
            dim(call, 1, 1),
            dim(call, 2, 2),
        ],
    }))
}

/// The last dimension becomes the rows of the weight; a weight that is a vector takes it away.
fn linear(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    sizes.pop()?;
    match call.tensor("weight")?.sizes.as_deref()? {
        [rows, _] => sizes.push(*rows),
        [_] => {}
        _ => return None,
    }
    let contiguous = call.tensors()?.iter().all(|tensor: &&TensorType| is_in_a_row(tensor));
    Some(Extent::fresh(sizes, contiguous))
}

fn outer(call: &Call<'_>) -> Option<Extent> {
    let first = usize::from(call.schema.formal("vec1").is_some());
    Some(Extent::of(vec![dim(call, first, 0), dim(call, first + 1, 0)]))
}
