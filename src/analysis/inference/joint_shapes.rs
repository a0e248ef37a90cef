//! Operators on several tensors: concatenation, stacking, products of sets, differences.

use super::concatenating::either;
use super::elementwise::{broadcast, broadcast_two};
use super::operand_sizes::with_rank;
use super::{Call, Extent, dim_of, number, place, product};
use crate::ops::shape_rules::Shape;
use crate::types::{Dim, TensorType};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Joined(rank) => joined(call, rank),
        Shape::Columnar => columnar(call),
        Shape::BlockDiagonal => block_diagonal(call),
        Shape::Combined => combined(call),
        Shape::CartesianProduct => cartesian(call),
        Shape::Differences => differences(call),
        _ => integrated(call),
    }
}

/// The sizes of each tensor of a list that becomes a list of the same length.
pub(super) fn of_each(call: &Call<'_>, tensors: &[&'static TensorType]) -> Option<Vec<Extent>> {
    let own = |tensor: &&'static TensorType| tensor.sizes.as_deref().map(<[Dim]>::to_vec);
    let each = |f: &dyn Fn(Vec<Dim>) -> Vec<Dim>| {
        let extent = |tensor| own(tensor).map_or_else(Extent::unknown, |sizes| Extent::of(f(sizes)));
        Some(tensors.iter().map(extent).collect())
    };
    match call.row.shape {
        Shape::EachAtLeast(rank) => each(&|sizes| with_rank(sizes, rank)),
        Shape::EachLike => each(&|sizes| sizes),
        Shape::EachBroadcast => {
            let sizes = broadcast(tensors)?;
            Some(vec![Extent::of(sizes); tensors.len()])
        }
        Shape::Meshed => {
            let count = |sizes: Vec<Dim>| dim_of(product(sizes.into_iter().map(number)));
            let mut sizes: Vec<Dim> = tensors.iter().map(|tensor| own(tensor).map(count)).collect::<Option<_>>()?;
            let swapped = call.schema.formal("indexing").is_some() && call.text("indexing")? == "xy";
            if swapped && sizes.len() > 1 {
                sizes.swap(0, 1);
            }
            Some(vec![Extent::of(sizes); tensors.len()])
        }
        _ => None,
    }
}

/// The sizes of the tensors of a list.
fn all_sizes(call: &Call<'_>) -> Option<Vec<Vec<Dim>>> {
    call.tensors()?.iter().map(|tensor| tensor.sizes.as_deref().map(<[Dim]>::to_vec)).collect()
}

/// The sizes in one dimension are summed, the others are equal.
fn concatenated(all: &[Vec<Dim>], at: usize) -> Option<Extent> {
    let rank = all.iter().map(Vec::len).max()?;
    // A vector of no elements is compatible with everything.
    let all: Vec<&Vec<Dim>> = all.iter().filter(|sizes| sizes.len() == rank).collect();
    let sum = || all.iter().map(|sizes| number(sizes[at])).sum::<Option<i64>>();
    let size = |i: usize| match i == at {
        true => dim_of(sum()),
        false => all.iter().map(|sizes| sizes[i]).reduce(either).unwrap_or(Dim::Unknown),
    };
    (at < rank).then(|| Extent::of((0..rank).map(size).collect()))
}

/// `hstack`, `vstack`, `dstack`: all have at least 1, 2, 3 dimensions, and are concatenated in the
/// second, the first, the third. Vectors have no second one.
fn joined(call: &Call<'_>, rank: usize) -> Option<Extent> {
    let all: Vec<Vec<Dim>> = all_sizes(call)?.into_iter().map(|sizes| with_rank(sizes, rank)).collect();
    let at = match rank {
        1 => usize::from(all.first()?.len() > 1),
        2 => 0,
        _ => 2,
    };
    concatenated(&all, at)
}

/// Vectors are columns, scalars are columns of one element.
fn columnar(call: &Call<'_>) -> Option<Extent> {
    let column = |sizes: Vec<Dim>| match sizes[..] {
        [] => vec![Dim::Known(1); 2],
        [n] => vec![n, Dim::Known(1)],
        _ => sizes,
    };
    let all: Vec<Vec<Dim>> = all_sizes(call)?.into_iter().map(column).collect();
    concatenated(&all, 1)
}

/// Rows and columns are summed; vectors are rows.
fn block_diagonal(call: &Call<'_>) -> Option<Extent> {
    let all: Vec<Vec<Dim>> = all_sizes(call)?.into_iter().map(|sizes| with_rank(sizes, 2)).collect();
    if all.is_empty() {
        return Some(Extent::of(vec![Dim::Known(1), Dim::Known(0)]));
    }
    let sum = |at: usize| all.iter().map(|sizes| number(*sizes.get(at)?)).sum::<Option<i64>>();
    Some(Extent::of(vec![dim_of(sum(0)), dim_of(sum(1))]))
}

/// A row for each choice of `r` elements.
fn combined(call: &Call<'_>) -> Option<Extent> {
    let (size, r) = (number(*call.sizes()?.first()?), call.int(&["r"])?);
    if r == 0 {
        return Some(Extent::of(vec![Dim::Known(0)]));
    }
    let repeats = call.flag("with_replacement");
    let count = || {
        let (n, r) = (i128::from(size?), i128::from(r));
        let n = if repeats? && n > 0 { n + r - 1 } else { n };
        // Each quotient is a binomial coefficient.
        let step = |product: i128, i: i128| Some(product.checked_mul(n - i)? / (i + 1));
        i64::try_from((0..r.min(n + 1)).try_fold(1, step)?).ok()
    };
    Some(Extent::of(vec![dim_of(count()), Dim::Known(r)]))
}

/// A row for each choice of one element of each; for a single vector, a vector.
fn cartesian(call: &Call<'_>) -> Option<Extent> {
    let all = all_sizes(call)?;
    let count = product(all.iter().map(|sizes| product(sizes.iter().map(|dim| number(*dim)))));
    Some(Extent::of(match all.len() {
        1 => vec![dim_of(count)],
        n => vec![dim_of(count), Dim::Known(n as i64)],
    }))
}

/// Each difference removes one element, after the values added at both ends.
fn differences(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let at = place(call.int(&["dim"])?, sizes.len()).filter(|at| *at < sizes.len())?;
    match call.int(&["n"]) {
        Some(0) => return Some(Extent::of(sizes)),
        Some(_) => {}
        None => return Some(Extent::ranked(sizes.len())),
    }
    let given = |name: &str| match call.operand(name) {
        Some(value) if !call.is_none(value) => number(*call.tensor_of(value)?.sizes.as_deref()?.get(at)?),
        _ => Some(0),
    };
    let size = || Some((number(sizes[at])? + given("prepend")? + given("append")? - call.int(&["n"])?).max(0));
    sizes[at] = dim_of(size());
    Some(Extent::of(sizes))
}

/// The trapezoidal rule: a sum in one dimension, unless partial sums are kept.
fn integrated(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let at = place(call.int(&["dim"])?, sizes.len()).filter(|at| *at < sizes.len())?;
    let less = |dim: Dim| dim_of(number(dim).map(|n| (n - 1).max(0)));
    let is_empty = number(sizes[at])? == 0;
    let Shape::Integrated(cumulative) = call.row.shape else { return None };
    if is_empty && !cumulative {
        sizes.remove(at);
        return Some(Extent::of(sizes));
    }
    let rank = sizes.len();
    sizes[at] = less(sizes[at]);
    if call.schema.formal("x").is_some() {
        let mut positions = call.sizes_of("x")?;
        if positions.len() == 1 {
            let mut along = vec![Dim::Known(1); rank];
            along[at] = positions[0];
            positions = along;
        }
        while positions.len() < rank {
            positions.insert(0, Dim::Known(1));
        }
        positions[at] = less(positions[at]);
        sizes = broadcast_two(&sizes, &positions);
    }
    if !cumulative {
        sizes.remove(at);
    }
    Some(Extent::of(sizes))
}
