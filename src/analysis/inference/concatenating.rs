//! Concatenation and stacking, and parts selected by index.

use super::{Call, Extent, dim_of, is_contiguous, number, place};
use crate::ops::shape_rules::Shape;
use crate::types::{Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Concatenated => concatenated(call),
        Shape::Stacked => stacked(call),
        Shape::SizedBy(operands) => sized_by(call, operands),
        _ => embedded(call),
    }
}

/// The size known from two that must be equal.
pub(super) fn either(a: Dim, b: Dim) -> Dim {
    match (a, b) {
        (Dim::Known(_), _) | (_, Dim::Unknown) => a,
        (_, Dim::Known(_)) | (Dim::Unknown, _) => b,
        _ => a,
    }
}

/// All sizes but one are equal, and that one is summed. A vector of no elements is compatible with
/// everything and adds nothing, so a tensor of unknown rank, or of rank 1 among others, determines
/// little.
fn concatenated(call: &Call<'_>) -> Option<Extent> {
    let tensors = call.tensors()?;
    let ranks: Vec<Option<usize>> = tensors.iter().map(|tensor| tensor.rank()).collect();
    let rank = ranks.iter().flatten().copied().max()?;
    if ranks.contains(&Some(0)) || rank == 1 && ranks.contains(&None) {
        return None;
    }
    if ranks.contains(&None) {
        return Some(Extent::ranked(rank));
    }
    let tensors: Vec<&TensorType> = tensors.into_iter().filter(|tensor| tensor.rank() == Some(rank)).collect();
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, rank)) else { return Some(Extent::ranked(rank)) };
    let sizes = |tensor: &TensorType, i: usize| tensor.sizes.as_ref().map_or(Dim::Unknown, |sizes| sizes[i]);
    let sum = || tensors.iter().try_fold(0i64, |sum, tensor| sum.checked_add(number(sizes(tensor, at))?));
    let size = |i: usize| match i == at {
        true => dim_of(sum()),
        false => tensors.iter().map(|tensor| sizes(tensor, i)).reduce(either).unwrap_or(Dim::Unknown),
    };
    let whole = ranks.len() == tensors.len();
    Some(Extent::fresh((0..rank).map(size).collect(), whole && tensors.iter().all(|tensor| is_contiguous(tensor))))
}

fn stacked(call: &Call<'_>) -> Option<Extent> {
    let tensors = call.tensors()?;
    let all: Option<Vec<&[Dim]>> = tensors.iter().map(|tensor| tensor.sizes.as_deref()).collect();
    let all = all?;
    let mut sizes: Vec<Dim> = all.first()?.to_vec();
    for other in &all {
        sizes = sizes.iter().zip(*other).map(|(a, b)| either(*a, *b)).collect();
    }
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len() + 1)) else {
        return Some(Extent::ranked(sizes.len() + 1));
    };
    sizes.insert(at, Dim::Known(tensors.len() as i64));
    Some(Extent::fresh(sizes, tensors.iter().all(|tensor| is_contiguous(tensor))))
}

fn sized_by(call: &Call<'_>, operands: &[(&str, i64)]) -> Option<Extent> {
    let mut sizes = call.sizes().filter(|sizes| !sizes.is_empty())?;
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len())) else {
        return Some(Extent::ranked(sizes.len()));
    };
    sizes[at] = operands.iter().find_map(|&(name, less)| last_size(call, name, less)).unwrap_or(Dim::Unknown);
    Some(Extent::fresh(sizes, is_contiguous(call.first()?)))
}

/// The last size of a tensor operand, less so many, where it may be given: a number counts as one.
fn last_size(call: &Call<'_>, name: &str, less: i64) -> Option<Dim> {
    let operand = call.operand(name).filter(|&operand| !call.is_none(operand))?;
    let sizes = call.tensor_of(operand).and_then(|tensor| tensor.sizes.as_deref());
    Some(match sizes.map(|sizes| sizes.last().copied().unwrap_or(Dim::Known(1))) {
        Some(size) if less == 0 => size,
        size => dim_of(size.and_then(number).and_then(|size| size.checked_sub(less))),
    })
}

fn embedded(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.tensor("indices")?.sizes.as_deref()?.to_vec();
    let row = call.tensor("weight").and_then(|weight| weight.sizes.as_deref()?.get(1).copied());
    sizes.push(row.unwrap_or(Dim::Unknown));
    Some(Extent::of(sizes))
}
