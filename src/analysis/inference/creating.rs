//! Tensors that are made from numbers.

use super::{Call, Extent, dim_of};
use crate::ops::shape_rules::Shape;
use crate::types::Simple;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        // PyTorch reads constant lists only, also where the length is all that it wants.
        Shape::Given if !call.known.sees_into_lists() && call.graph.constant(call.operand("size")?).is_none() => None,
        // A sum of gradients to no size sums nothing.
        Shape::Given if call.operand("size").is_some_and(|size| call.is_none(size)) => Some(Extent::of(call.sizes()?)),
        Shape::Given => Some(Extent::of(call.ints(&["size"])?.into_iter().map(dim_of).collect())),
        Shape::Range => Some(Extent::of(vec![dim_of(range(call))])),
        _ => {
            let rows = call.int(&["n"]);
            let columns = if call.schema.formal("m").is_some() { call.int(&["m"]) } else { rows };
            Some(Extent::of(vec![dim_of(rows), dim_of(columns)]))
        }
    }
}

/// How many whole numbers are between start and end; of reals that is a question of rounding.
fn range(call: &Call<'_>) -> Option<i64> {
    let whole = |name: &str, default: i64| match call.operand(name) {
        Some(value) if call.known.ty(value).is(Simple::Int) => call.int(&[name]),
        Some(_) => None,
        None => Some(default),
    };
    let (start, end, step) = (whole("start", 0)?, whole("end", 0)?, whole("step", 1)?);
    let (span, step) =
        if step > 0 { (end.checked_sub(start)?, step) } else { (start.checked_sub(end)?, step.checked_neg()?) };
    (span >= 0 && step != 0).then(|| span / step + i64::from(span % step != 0))
}
