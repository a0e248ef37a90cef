//! Tensors in the list that `chunk`, `split` or `unbind` returns.

use super::{Call, Extent, number, place};
use crate::types::Dim;

/// The parts; none where their number is unknown.
pub(super) fn extents(call: &Call<'_>) -> Option<Vec<Extent>> {
    let sizes = call.sizes()?;
    let dim = match call.schema.kind.short() {
        "hsplit" if sizes.len() == 1 => 0,
        "hsplit" => 1,
        "vsplit" => 0,
        "dsplit" => 2,
        _ => call.int(&["dim"])?,
    };
    let at = place(dim, sizes.len()).filter(|at| *at < sizes.len())?;
    let size = number(sizes[at]).filter(|n| *n >= 0)?;
    let part = |n: Option<i64>| {
        let mut part = sizes.clone();
        match n {
            Some(n) => part[at] = Dim::Known(n),
            None => drop(part.remove(at)),
        }
        Extent::of(part)
    };
    if call.schema.kind.short() == "unbind" {
        return (size <= MOST).then(|| vec![part(None); size as usize]);
    }
    Some(lengths(call, size)?.into_iter().map(|n| part(Some(n))).collect())
}

/// The maximum number of parts with types of their own.
const MOST: i64 = 4096;

/// The sizes of the parts of a dimension.
fn lengths(call: &Call<'_>, size: i64) -> Option<Vec<i64>> {
    match call.schema.kind.short() {
        "chunk" | "unsafe_chunk" => {
            let chunks = call.int(&["chunks"]).filter(|n| *n > 0)?;
            let each = (size.div_euclid(chunks) + i64::from(size % chunks != 0)).max(0);
            // An empty dimension is divided into the requested number of parts.
            if each == 0 { Some(vec![0; usize::try_from(chunks.min(MOST)).ok()?]) } else { equal(size, each) }
        }
        _ if call.operand("sections").is_some() => {
            let n = call.int(&["sections"]).filter(|n| (1..=MOST).contains(n))?;
            Some((0..n).map(|i| size / n + i64::from(i < size % n)).collect())
        }
        _ if call.operand("indices").is_some() => {
            cut(size, &call.ints(&["indices"])?.into_iter().collect::<Option<Vec<i64>>>()?)
        }
        _ => match call.any_operand(&["split_size", "split_sizes"]) {
            Some(value) if call.known.ty(value).is(crate::types::Simple::Int) => {
                equal(size, call.int(&["split_size"])?)
            }
            _ => call.ints(&["split_sizes", "split_size"])?.into_iter().collect(),
        },
    }
}

/// Parts of equal size, except for the last.
fn equal(size: i64, each: i64) -> Option<Vec<i64>> {
    if each <= 0 {
        return (each == 0 && size == 0).then(|| vec![0]);
    }
    let n = (size / each + i64::from(size % each != 0)).max(1);
    (n <= MOST).then(|| (0..n).map(|i| (size - i * each).min(each)).collect())
}

/// Parts between positions, as slices count them.
fn cut(size: i64, places: &[i64]) -> Option<Vec<i64>> {
    let clamped = |n: i64| if n < 0 { n.saturating_add(size) } else { n }.clamp(0, size);
    let ends = places.iter().copied().chain([i64::MAX]);
    let starts = [0].into_iter().chain(places.iter().copied());
    Some(starts.zip(ends).map(|(start, end)| (clamped(end) - clamped(start)).max(0)).collect())
}
