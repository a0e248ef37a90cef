//! Matrix products.

use super::elementwise::broadcast_two;
use super::{Call, Extent, dim_of, is_contiguous, number};
use crate::ops::shape_rules::Shape;
use crate::types::{Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Product(rank) => Some(product(call, rank)),
        Shape::Matmul => matmul(call),
        Shape::AddedProduct(rank) => Some(Extent::of(multiplied(call, 1, rank))),
        Shape::Linear => linear(call),
        Shape::Attended => attended(call, false),
        Shape::AttentionWeights => attended(call, true),
        Shape::HeadWeights => head_weights(call),
        Shape::Inner => inner(call),
        Shape::Kronecker => kronecker(call),
        Shape::Distances => distances(call),
        Shape::ReducedProduct => Some(Extent::of(vec![dim(call, 1, 1), dim(call, 2, 2)])),
        _ => outer(call),
    }
}

/// Dimension `i` of tensor operand `n`.
fn dim(call: &Call<'_>, n: usize, i: usize) -> Dim {
    let tensor = call.graph.inputs(call.node).nth(n).and_then(|value| call.tensor_of(value));
    tensor.and_then(|tensor| tensor.sizes.as_ref()?.get(i).copied()).unwrap_or(Dim::Unknown)
}

/// A product of matrices, or of batches of them: `mm` and `bmm` accept nothing else.
fn product(call: &Call<'_>, rank: usize) -> Extent {
    let contiguous = call.tensors().is_some_and(|all| !all.is_empty());
    Extent::fresh(multiplied(call, 0, rank), contiguous)
}

/// The sizes of the product of a tensor operand and the next one, which has one dimension where the
/// product has one.
fn multiplied(call: &Call<'_>, at: usize, rank: usize) -> Vec<Dim> {
    match rank {
        1 => vec![dim(call, at, 0)],
        2 => vec![dim(call, at, 0), dim(call, at + 1, 1)],
        _ => {
            let batches = [dim(call, at, 0), dim(call, at + 1, 0)];
            let known = batches.into_iter().find(|&size| size != Dim::Unknown);
            vec![known.unwrap_or(Dim::Unknown), dim(call, at, 1), dim(call, at + 1, 2)]
        }
    }
}

/// Vectors count as a row on the left and a column on the right, which are removed afterwards;
/// batch dimensions are broadcast.
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

/// The last dimension becomes the rows of the weight; a weight that is a vector removes it.
fn linear(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    sizes.pop()?;
    match call.tensor("weight")?.sizes.as_deref()? {
        [rows, _] => sizes.push(*rows),
        [_] => {}
        _ => return None,
    }
    let contiguous = call.tensors()?.iter().all(|tensor: &&TensorType| is_contiguous(tensor));
    Some(Extent::fresh(sizes, contiguous))
}

fn outer(call: &Call<'_>) -> Option<Extent> {
    let first = usize::from(call.schema.formal("vec1").is_some());
    Some(Extent::of(vec![dim(call, first, 0), dim(call, first + 1, 0)]))
}

/// A row of the values for each query, or a weight for each query and key.
fn attended(call: &Call<'_>, weights: bool) -> Option<Extent> {
    let sizes = |name: &str| call.tensor(name)?.sizes.as_deref();
    let ([stack @ .., rows, _], [others @ .., keys, _], [values @ .., _, columns]) =
        (sizes("query")?, sizes("key")?, sizes("value")?)
    else {
        return None;
    };
    let same_rank = stack.len() == others.len() && stack.len() == values.len();
    // Heads of keys and values are repeated; the other sizes are equal.
    let grouped = call.flag("enable_gqa")? && !stack.is_empty() && same_rank;
    let heads = if grouped { stack.to_vec() } else { broadcast_two(stack, others) };
    let mut scores = [&heads[..], &[*rows, *keys]].concat();
    if let Some(mask) = call.operand("attn_mask").filter(|&mask| !call.is_none(mask)) {
        scores = broadcast_two(&scores, call.tensor_of(mask)?.sizes.as_deref()?);
    }
    if weights {
        return Some(Extent::of(scores));
    }
    let [heads @ .., rows, _] = &scores[..] else { return None };
    let heads = if grouped { heads.to_vec() } else { broadcast_two(heads, values) };
    Some(Extent::of([&heads[..], &[*rows, *columns]].concat()))
}

/// A weight for each query and key, of each head unless they are averaged.
fn head_weights(call: &Call<'_>) -> Option<Extent> {
    let (query, key) = (call.sizes_of("query")?, call.sizes_of("key")?);
    let ([batch, rows, _], [_, keys, _]) = (&query[..], &key[..]) else { return None };
    let heads = dim_of(call.int(&["num_head"]));
    match (call.flag("need_weights")?, call.flag("average_attn_weights")?) {
        (false, _) => None,
        (true, true) => Some(Extent::of(vec![*batch, *rows, *keys])),
        (true, false) => Some(Extent::of(vec![*batch, heads, *rows, *keys])),
    }
}

fn inner(call: &Call<'_>) -> Option<Extent> {
    match (call.tensor("self")?.sizes.as_deref()?, call.tensor("other")?.sizes.as_deref()?) {
        ([], one) | (one, []) => Some(Extent::of(one.to_vec())),
        ([left @ .., _], [right @ .., _]) => Some(Extent::of([left, right].concat())),
    }
}

/// Sizes are multiplied from the last one on.
fn kronecker(call: &Call<'_>) -> Option<Extent> {
    let (left, right) = (call.tensor("self")?.sizes.as_deref()?, call.tensor("other")?.sizes.as_deref()?);
    let rank = left.len().max(right.len());
    let size = |sizes: &[Dim], i: usize| sizes.len().checked_sub(rank - i).map_or(Some(1), |at| number(sizes[at]));
    let product = |i: usize| size(left, i)?.checked_mul(size(right, i)?);
    Some(Extent::of((0..rank).map(|i| dim_of(product(i))).collect()))
}

fn distances(call: &Call<'_>) -> Option<Extent> {
    let (left, right) = (call.tensor("x1")?.sizes.as_deref()?, call.tensor("x2")?.sizes.as_deref()?);
    let ([stack @ .., rows, _], [other @ .., columns, _]) = (left, right) else { return None };
    Some(Extent::of([&broadcast_two(stack, other)[..], &[*rows, *columns]].concat()))
}
