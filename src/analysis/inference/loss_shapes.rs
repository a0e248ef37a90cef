//! Losses: zero-dimensional, or a loss for each example where nothing is reduced.

use super::elementwise::{broadcast, broadcast_two};
use super::{Call, Extent};
use crate::ops::shape_rules::Shape;
use crate::types::Dim;
use crate::types::era::Era;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    if call.int(&["reduction"])? != 0 {
        return Some(Extent::of(Vec::new()));
    }
    let sizes = match call.row.shape {
        Shape::Loss(n) => broadcast(&call.tensors()?.into_iter().take(n).collect::<Vec<_>>())?,
        Shape::ClassLoss => of_classes(call)?,
        // A single sequence has no batch dimension.
        Shape::SequenceLoss => match call.sizes()?[..] {
            [_, batch, _] => vec![batch],
            _ => Vec::new(),
        },
        Shape::RowLoss => {
            let mut sizes = call.sizes()?;
            sizes.pop();
            sizes
        }
        Shape::DistanceLoss => {
            // Up to 1.4 distances reduce the second dimension.
            let dim = if call.era() == Era::V1_3 { 1 } else { -1 };
            let anchor = call.sizes_of("anchor")?;
            let rows = |name: &str| without(broadcast_two(&anchor, &call.sizes_of(name)?), dim);
            broadcast_two(&rows("positive")?, &rows("negative")?)
        }
        _ => cosine(call)?,
    };
    Some(Extent::of(sizes))
}

fn without(mut sizes: Vec<Dim>, dim: i64) -> Option<Vec<Dim>> {
    let at = super::place(dim, sizes.len()).filter(|at| *at < sizes.len())?;
    sizes.remove(at);
    Some(sizes)
}

/// The sizes of the target; a target of probabilities has as many dimensions as the input, and
/// loses that of the classes.
fn of_classes(call: &Call<'_>) -> Option<Vec<Dim>> {
    let target = call.sizes_of("target")?;
    let takes_probabilities = call.schema.formal("label_smoothing").is_some();
    match call.sizes()?.len() {
        rank if takes_probabilities && rank == target.len() => without(target, if rank > 1 { 1 } else { 0 }),
        _ => Some(target),
    }
}

/// A cosine for each row, broadcast with the targets. With a zero-dimensional target there is one
/// row.
fn cosine(call: &Call<'_>) -> Option<Vec<Dim>> {
    let target = call.sizes_of("target")?;
    let rows = broadcast_two(&call.sizes_of("input1")?, &call.sizes_of("input2")?);
    Some(broadcast_two(&without(rows, if target.is_empty() { 0 } else { 1 })?, &target))
}
