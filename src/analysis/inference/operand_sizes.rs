//! Sizes of an operand, or given by an integer or a list of integers among the operands.

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
        Shape::Nothing => Some(Extent::of(vec![Dim::Known(0)])),
        Shape::RankVector => Some(Extent::of(vec![Dim::Known(call.first()?.rank()? as i64)])),
        Shape::Channels(name) => Some(Extent::of(vec![*call.tensor(name)?.sizes.as_deref()?.get(1)?])),
        Shape::NormalizedShape => normalized_shape(call),
        Shape::OfOrNumber(name) => of_or_number(call, name),
        Shape::Triangle(lower) => triangle(call, lower),
        Shape::Places => Some(Extent::of(vec![dim_of(call.int(&["size"])), Dim::Known(call.first()?.rank()? as i64)])),
        Shape::RowStatistics => row_statistics(call),
        Shape::ChannelStatistics => channel_statistics(call),
        _ => {
            let number = |name: &str| dim_of(call.int(&[name]).filter(|n| *n >= 0));
            Some(Extent::of(vec![number("N"), number("group")]))
        }
    }
}

/// A list of sizes, none of which is -1.
fn listed(call: &Call<'_>, name: &str) -> Option<Extent> {
    let sizes = call.ints(&[name])?;
    Some(Extent::of(sizes.into_iter().map(|n| dim_of(n.filter(|n| *n >= 0))).collect()))
}

fn at_least(call: &Call<'_>, rank: usize) -> Option<Extent> {
    Some(Extent::of(with_rank(call.sizes()?, rank)))
}

/// At least this many sizes. New dimensions of size 1 stand first, but the third one stands last.
pub(super) fn with_rank(mut sizes: Vec<Dim>, rank: usize) -> Vec<Dim> {
    let one = Dim::Known(1);
    if rank == 3 && sizes.len() == 2 {
        sizes.push(one);
    } else if rank == 3 && sizes.len() == 1 {
        sizes = vec![one, sizes[0], one];
    }
    while sizes.len() < rank {
        sizes.insert(0, one);
    }
    sizes
}

/// The sizes of the weight, or of a list.
fn normalized_shape(call: &Call<'_>) -> Option<Extent> {
    call.schema.formal("normalized_shape")?;
    match call.operand("weight").filter(|&value| !call.is_none(value)) {
        Some(weight) => Some(Extent::of(call.tensor_of(weight)?.sizes.as_deref()?.to_vec())),
        None => listed(call, "normalized_shape"),
    }
}

fn of_or_number(call: &Call<'_>, name: &str) -> Option<Extent> {
    match call.operand(name) {
        Some(value) if call.known.ty(value).is_tensor() => {
            Some(Extent::of(call.tensor_of(value)?.sizes.as_deref()?.to_vec()))
        }
        _ => Some(Extent::of(Vec::new())),
    }
}

/// Rows and columns of all elements of a matrix on one side of a diagonal.
fn triangle(call: &Call<'_>, lower: bool) -> Option<Extent> {
    let count = || {
        let number = |name: &str| call.int(&[name]).map(i128::from);
        let (rows, columns, offset) = (number("row")?, number("col")?, number("offset")?);
        // Row `i` has the columns below `i + offset + 1` on the lower side.
        let (first, last) = match lower {
            true => (offset + 1, offset + rows),
            false => (offset, offset + rows - 1),
        };
        let below = |first: i128, last: i128| ramp(last, columns) - ramp(first - 1, columns);
        let all = below(first, last);
        i64::try_from(if lower { all } else { rows * columns - all }).ok()
    };
    Some(Extent::of(vec![Dim::Known(2), dim_of(count())]))
}

/// The sum of all integers up to `last`, each clamped to 0 and `most`.
fn ramp(last: i128, most: i128) -> i128 {
    let rising = last.clamp(0, most);
    rising * (rising + 1) / 2 + (last - most).max(0) * most
}

fn row_statistics(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let normalised = call.ints(&["normalized_shape"])?.len();
    let rows = sizes.len().checked_sub(normalised)?;
    sizes[rows..].fill(Dim::Known(1));
    Some(Extent::of(sizes))
}

fn channel_statistics(call: &Call<'_>) -> Option<Extent> {
    let training = if call.schema.formal("training").is_some() { call.flag("training") } else { Some(false) };
    Some(match training {
        Some(true) => Extent::of(vec![*call.sizes()?.get(1)?]),
        Some(false) => Extent::of(vec![Dim::Known(0)]),
        None => Extent::ranked(1),
    })
}
