//! Sizes that an operand has, or that a number or a list of numbers among the operands says.

use super::elementwise::broadcast;
use super::{Call, Extent, dim_of};
use crate::ops::shape_rules::Shape;
use crate::types::Dim;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Of(name) => Some(Extent::of(call.tensor(name)?.sizes.as_deref()?.to_vec())),
        Shape::Nth(n) => Some(Extent::of(call.tensors()?.get(n)?.sizes.as_deref()?.to_vec())),
        Shape::Listed(name) => listed(call, name),
        Shape::Counting(name) => Some(Extent::of(vec![dim_of(call.int(&[name]).filter(|n| *n >= 0))])),
        Shape::AtLeast(rank) => at_least(call, rank),
        Shape::Loss => loss(call),
        Shape::RowStatistics => row_statistics(call),
        Shape::ChannelStatistics => channel_statistics(call),
        _ => Some(Extent::of(vec![*call.sizes()?.first()?, dim_of(call.int(&["group"]).filter(|n| *n >= 0))])),
    }
}

/// A list of sizes, none of which is to be found out.
fn listed(call: &Call<'_>, name: &str) -> Option<Extent> {
    let sizes = call.ints(&[name])?;
    Some(Extent::of(sizes.into_iter().map(|n| dim_of(n.filter(|n| *n >= 0))).collect()))
}

/// New dimensions of size 1 stand in front, but the third one stands behind.
fn at_least(call: &Call<'_>, rank: usize) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let one = Dim::Known(1);
    if rank == 3 && sizes.len() == 2 {
        sizes.push(one);
    } else if rank == 3 && sizes.len() == 1 {
        sizes = vec![one, sizes[0], one];
    }
    while sizes.len() < rank {
        sizes.insert(0, one);
    }
    Some(Extent::of(sizes))
}

/// Of input and target, or nothing where these are reduced.
fn loss(call: &Call<'_>) -> Option<Extent> {
    match call.int(&["reduction"])? {
        0 => Some(Extent::of(broadcast(call.tensors()?.get(..2)?)?)),
        _ => Some(Extent::of(Vec::new())),
    }
}

fn row_statistics(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let normalised = call.ints(&["normalized_shape"])?.len();
    let rows = sizes.len().checked_sub(normalised)?;
    sizes[rows..].fill(Dim::Known(1));
    Some(Extent::of(sizes))
}

fn channel_statistics(call: &Call<'_>) -> Option<Extent> {
    Some(match call.flag("training") {
        Some(true) => Extent::of(vec![*call.sizes()?.get(1)?]),
        Some(false) => Extent::of(vec![Dim::Known(0)]),
        None => Extent::ranked(1),
    })
}
