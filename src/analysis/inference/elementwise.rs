//! Elementwise operators.

use super::{Call, Extent, is_contiguous, number, strides_of};
use crate::ops::shape_rules::Shape;
use crate::types::{Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Like => Some(Extent::fresh(call.sizes()?, is_contiguous(call.first()?))),
        Shape::Itself => itself(call),
        Shape::AsIndex => Some(Extent::of(call.tensor("index")?.sizes.as_deref()?.to_vec())),
        Shape::AsOther => Some(Extent::of(call.tensor("other")?.sizes.as_deref()?.to_vec())),
        Shape::RankOnly => Some(Extent::ranked(call.first()?.rank()?)),
        Shape::BroadcastFirst(n) => Some(Extent::of(broadcast(call.tensors()?.get(..n)?)?)),
        _ => {
            let tensors = call.tensors()?;
            let sizes = broadcast(&tensors)?;
            Some(Extent::fresh(sizes, tensors.iter().all(|tensor| is_contiguous(tensor))))
        }
    }
}

/// A view of the same elements; `contiguous` makes it contiguous unless a memory format says
/// otherwise.
fn itself(call: &Call<'_>) -> Option<Extent> {
    let first = call.first()?;
    let strides = strides_of(first).filter(|_| call.schema.formal("memory_format").is_none() || is_contiguous(first));
    Some(Extent::looked_at(call.sizes()?, strides))
}

/// The sizes that all of them broadcast to.
pub(super) fn broadcast(tensors: &[&'static TensorType]) -> Option<Vec<Dim>> {
    let all: Option<Vec<&[Dim]>> = tensors.iter().map(|tensor| tensor.sizes.as_deref()).collect();
    all?.into_iter().map(<[Dim]>::to_vec).reduce(|a, b| broadcast_two(&a, &b))
}

/// The sizes that two broadcast to.
pub(super) fn broadcast_two(a: &[Dim], b: &[Dim]) -> Vec<Dim> {
    let rank = a.len().max(b.len());
    let from_the_end = |sizes: &[Dim], i: usize| sizes.len().checked_sub(i).map_or(Dim::Known(1), |at| sizes[at]);
    (0..rank).map(|i| together(from_the_end(a, rank - i), from_the_end(b, rank - i))).collect()
}

/// One size broadcast with another: 1 gives way; any other known size is the result, because the
/// other one is equal or 1.
pub(super) fn together(a: Dim, b: Dim) -> Dim {
    match (number(a), number(b)) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        (Some(_), _) => a,
        (_, Some(_)) => b,
        (None, None) if a == b => a,
        (None, None) => Dim::Unknown,
    }
}
