//! Operators that make one element of many.

use super::{Call, Extent, dim_of, is_in_a_row, place};
use crate::ops::shape_rules::{Element, Shape};
use crate::planted;
use crate::types::Dim;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Scalar => Some(Extent::of(Vec::new())),
        Shape::Counted(rank) => Some(Extent::ranked(rank)),
        Shape::Determinant => {
            let sizes = call.sizes()?;
            Some(Extent::of(sizes[..sizes.len().checked_sub(2)?].to_vec()))
        }
        Shape::TopK => top(call),
        _ => reduced(call),
    }
}

fn top(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let k = dim_of(call.int(&["k"]));
    match call.int_or("dim", -1).and_then(|dim| place(dim, sizes.len())) {
        Some(at) if !sizes.is_empty() => sizes[at] = k,
        Some(_) => {}
        None => sizes.fill(Dim::Unknown),
    }
    Some(Extent::of(sizes))
}

/// The dimensions that are reduced.
enum Reduced {
    All,
    These(Vec<usize>),
    /// So many, and which of them is unknown.
    Count(usize),
}

fn reduced(call: &Call<'_>) -> Option<Extent> {
    let keepdim = if call.schema.formal("keepdim").is_some() { call.flag("keepdim") } else { Some(false) };
    let dims = dims(call);
    if let (Some(Reduced::All), Some(false)) = (&dims, keepdim) {
        return Some(Extent::of(Vec::new()));
    }
    let sizes = call.sizes()?;
    let rank = sizes.len();
    let contiguous = is_in_a_row(call.first()?);
    let keepdim = planted!("shapes.keepdim", keepdim?, "never" => false);
    Some(match (dims?, keepdim) {
        // An index into everything has one dimension less of everything: what is kept of none differs by version.
        (Reduced::All, _) if call.row.element == Element::Long => return None,
        (Reduced::All, _) => Extent::fresh(vec![Dim::Known(1); rank], contiguous),
        (Reduced::These(at), true) => {
            let kept = |(i, dim): (usize, &Dim)| if at.contains(&i) { Dim::Known(1) } else { *dim };
            Extent::fresh(sizes.iter().enumerate().map(kept).collect(), contiguous)
        }
        (Reduced::These(at), false) => {
            let left = sizes.iter().enumerate().filter(|(i, _)| !at.contains(i)).map(|(_, dim)| *dim);
            Extent::fresh(left.collect(), contiguous)
        }
        (Reduced::Count(_), true) => Extent::ranked(rank),
        (Reduced::Count(n), false) => Extent::ranked(rank.saturating_sub(n)),
    })
}

fn dims(call: &Call<'_>) -> Option<Reduced> {
    let Some(value) = call.operand("dim") else {
        return call.schema.formal("dim").is_none().then_some(Reduced::All);
    };
    if call.is_none(value) {
        return Some(Reduced::All);
    }
    let is_int = call.known.ty(value).is(crate::types::Simple::Int);
    let dims = if is_int { vec![call.int(&["dim"])] } else { call.ints(&["dim"])? };
    // What an empty list means differs by operator.
    let rank = call.first()?.rank();
    let known: Option<Vec<i64>> = dims.iter().copied().collect();
    match (known, rank) {
        _ if dims.is_empty() => None,
        (Some(all), Some(rank)) => {
            let places: Option<Vec<usize>> = all.into_iter().map(|dim| place(dim, rank)).collect();
            places.map(Reduced::These)
        }
        // Two unknown dimensions may be one only where that raises.
        _ => Some(Reduced::Count(dims.len())),
    }
}
