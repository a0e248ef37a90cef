//! Reductions.

use super::elementwise::broadcast_two;
use super::{Call, Extent, dim_of, is_contiguous, number, place};
use crate::ops::shape_rules::{Element, Shape};
use crate::types::Dim;
use crate::types::era::Era;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Scalar => Some(Extent::of(Vec::new())),
        Shape::Counted(rank) => Some(Extent::ranked(rank)),
        Shape::Determinant => {
            let sizes = call.sizes()?;
            Some(Extent::of(sizes[..sizes.len().checked_sub(2)?].to_vec()))
        }
        Shape::TopK => top(call),
        Shape::Sampled => sampled(call),
        Shape::Quantiles => quantiles(call),
        Shape::Pairs => pairs(call),
        Shape::PairwiseReduced => pairwise(call),
        Shape::ReducedExcept => reduced_except(call),
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
    /// This many, but which ones is unknown.
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
    let contiguous = is_contiguous(call.first()?);
    let keepdim = keepdim?;
    Some(match (dims?, keepdim) {
        // The dimensions kept by argmax over all elements differ by version.
        (Reduced::All, _) if call.row.element == Element::Long && call.graph.era == Era::V1_3 => return None,
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
    let rank = call.first()?.rank();
    let known: Option<Vec<i64>> = dims.iter().copied().collect();
    match (known, rank) {
        // An empty list means all dimensions; PyTorch's own analysis infers nothing for it.
        _ if dims.is_empty() && call.row.shape == Shape::ReduceListed => {
            call.known.sees_into_lists().then_some(Reduced::These(Vec::new()))
        }
        _ if dims.is_empty() => call.known.sees_into_lists().then_some(Reduced::All),
        (Some(all), Some(rank)) => {
            let places: Option<Vec<usize>> = all.into_iter().map(|dim| place(dim, rank)).collect();
            places.map(Reduced::These)
        }
        // Two unknown dimensions are equal only where that raises an exception.
        _ => Some(Reduced::Count(dims.len())),
    }
}

/// A number of draws for each row.
fn sampled(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    *sizes.last_mut()? = dim_of(call.int(&["num_samples"]));
    Some(Extent::of(sizes))
}

/// The shape after the reduction, for each element of `q`.
fn quantiles(call: &Call<'_>) -> Option<Extent> {
    let rest = reduced(call)?.sizes?;
    let mut sizes = match call.operand("q") {
        Some(q) if call.known.ty(q).is_tensor() => call.tensor_of(q)?.sizes.as_deref()?.to_vec(),
        _ => Vec::new(),
    };
    sizes.extend(rest);
    Some(Extent::of(sizes))
}

/// An element for each pair of rows of a matrix.
fn pairs(call: &Call<'_>) -> Option<Extent> {
    let rows = number(*call.sizes()?.first()?);
    let count = rows.and_then(|n| Some(n.checked_mul((n - 1).max(0))? / 2));
    Some(Extent::of(vec![dim_of(count)]))
}

/// Two tensors broadcast together, of which the last dimension or `dim` is reduced.
fn pairwise(call: &Call<'_>) -> Option<Extent> {
    let mut tensors = call.schema.formals.iter().filter(|formal| formal.ty.is_tensor());
    let [first, second] = [tensors.next()?.name, tensors.next()?.name];
    let mut sizes = broadcast_two(&call.sizes_of(first)?, &call.sizes_of(second)?);
    if sizes.is_empty() {
        return Some(Extent::of(sizes));
    }
    let dim = match call.schema.formal("dim") {
        Some(_) => call.int(&["dim"])?,
        // Up to 1.4 distances reduce the second dimension.
        None if call.graph.era == Era::V1_3 => 1,
        None => -1,
    };
    let at = place(dim, sizes.len()).filter(|at| *at < sizes.len())?;
    let keepdim = if call.schema.formal("keepdim").is_some() { call.flag("keepdim")? } else { false };
    if keepdim {
        sizes[at] = Dim::Known(1);
    } else {
        sizes.remove(at);
    }
    Some(Extent::of(sizes))
}

/// All dimensions but one become 1; a zero-dimensional tensor where that one is -1.
fn reduced_except(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let kept = call.int(&["dim"])?;
    if kept == -1 {
        return Some(Extent::of(Vec::new()));
    }
    let kept = place(kept, sizes.len())?;
    sizes.iter_mut().enumerate().filter(|(i, _)| *i != kept).for_each(|(_, dim)| *dim = Dim::Known(1));
    Some(Extent::of(sizes))
}
