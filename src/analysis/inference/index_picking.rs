//! Elements selected by index tensors.

use super::elementwise::{broadcast, together};
use super::{Call, Extent, dim_of, number, place, product};
use crate::ops::shape_rules::Shape;
use crate::types::{DType, Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Interleaved => interleaved(call),
        Shape::TableGradient => {
            let row = *call.sizes()?.last()?;
            Some(Extent::of(vec![dim_of(call.int(&["num_weights"])), row]))
        }
        Shape::Bags => bags(call),
        Shape::TakenAlong => taken_along(call),
        Shape::OneHot => {
            let mut sizes = call.sizes()?;
            sizes.push(dim_of(call.int(&["num_classes"]).filter(|n| *n >= 0)));
            Some(Extent::of(sizes))
        }
        _ => indexed(call),
    }
}

/// The indices of `x[i, :, j]`, one for each dimension from the first on; none for a dimension that
/// is not indexed.
fn indices(call: &Call<'_>) -> Option<Vec<Option<&'static TensorType>>> {
    let value = call.operand("indices")?;
    let list = call.graph.definer(value).filter(|_| call.known.is_list_kept(value))?;
    let index = |value| if call.is_none(value) { Some(None) } else { call.tensor_of(value).map(Some) };
    call.graph.inputs(list).map(index).collect()
}

/// Indexed dimensions are replaced by the dimensions that all indices broadcast to. Those stand at
/// the position of the first index, or first when an unindexed dimension stands between two
/// indices.
fn indexed(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let indices = indices(call)?;
    let given: Vec<&'static TensorType> = indices.iter().flatten().copied().collect();
    // A mask indexes as many dimensions as it has, and selects as many elements as are true.
    let is_mask = |index: &TensorType| index.dtype.is_none_or(|dtype| matches!(dtype, DType::Bool | DType::Byte));
    if given.iter().any(|index| is_mask(index)) || indices.len() > sizes.len() {
        return None;
    }
    if given.is_empty() {
        return Some(Extent::of(sizes));
    }
    let picked = broadcast(&given)?;
    let at: Vec<usize> = (0..indices.len()).filter(|&i| indices[i].is_some()).collect();
    let (first, last) = (at[0], at[at.len() - 1]);
    let adjacent = last - first + 1 == at.len();
    let mut result: Vec<Dim> = (0..sizes.len()).filter(|i| !at.contains(i)).map(|i| sizes[i]).collect();
    let from = if adjacent { first } else { 0 };
    result.splice(from..from, picked);
    Some(Extent::of(result))
}

/// Each element repeated consecutively; without a dimension, all elements flattened.
fn interleaved(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let dim = call.operand("dim")?;
    if call.is_none(dim) {
        sizes = vec![dim_of(product(sizes.into_iter().map(number)))];
    }
    if sizes.is_empty() {
        sizes.push(Dim::Known(1));
    }
    let at = if call.is_none(dim) { 0 } else { place(call.int(&["dim"])?, sizes.len())? };
    let size = number(*sizes.get(at)?);
    let times = call.operand("repeats")?;
    let grown = match call.tensor_of(times) {
        None => size.zip(call.int(&["repeats"])).and_then(|(size, times)| size.checked_mul(times)),
        Some(_) => call.operand("output_size").and_then(|_| call.int(&["output_size"])),
    };
    sizes[at] = dim_of(grown);
    Some(Extent::of(sizes))
}

/// A row of the table for each bag; where the last offset is the end, there is one bag less.
fn bags(call: &Call<'_>) -> Option<Extent> {
    let row = call.sizes_of("weight")?.get(1).copied()?;
    let offsets = call.sizes_of("offsets")?;
    let &[offsets] = &offsets[..] else { return None };
    let fewer = i64::from(call.schema.formal("include_last_offset").is_some() && call.flag("include_last_offset")?);
    Some(Extent::of(vec![dim_of(number(offsets).map(|n| (n - fewer).max(0))), row]))
}

/// The sizes of the indices in `dim`, elsewhere those of both; without a dimension all indices.
fn taken_along(call: &Call<'_>) -> Option<Extent> {
    let (sizes, indices) = (call.sizes()?, call.sizes_of("indices")?);
    if call.is_none(call.operand("dim")?) {
        return Some(Extent::of(vec![dim_of(product(indices.into_iter().map(number)))]));
    }
    let at = place(call.int(&["dim"])?, sizes.len())?;
    if sizes.len() != indices.len() {
        return None;
    }
    let dim = |i: usize| if i == at { indices[i] } else { together(sizes[i], indices[i]) };
    Some(Extent::of((0..sizes.len()).map(dim).collect()))
}
