//! Views: the same elements with other sizes or strides, or copied into another shape.

use super::{Call, Extent, dim_of, is_contiguous, number, place, product};
use crate::ops::shape_rules::Shape;
use crate::types::{DType, Dim};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Transposed => transposed(call),
        Shape::Reshaped => reshaped(call),
        Shape::Expanded => expanded(call),
        Shape::Selected => selected(call),
        Shape::Sliced => sliced(call),
        Shape::Unsqueezed => unsqueezed(call),
        Shape::Squeezed => squeezed(call),
        Shape::Flattened => flattened(call),
        Shape::Unfolded => unfolded(call),
        Shape::Diagonal => diagonal(call),
        Shape::Diag => diag(call),
        Shape::Matrix => Some(Extent::ranked(2)),
        Shape::Shuffled | Shape::Unshuffled => shuffled(call),
        Shape::Halved => halved(call),
        Shape::DiagonalEmbedded => diagonal_embedded(call),
        Shape::Unflattened => unflattened(call),
        Shape::Retyped => retyped(call),
        Shape::PairsJoined => {
            let mut sizes = call.sizes()?;
            sizes.pop()?;
            Some(Extent::of(sizes))
        }
        Shape::PairsSplit => {
            let mut sizes = call.sizes()?;
            sizes.push(Dim::Known(2));
            Some(Extent::of(sizes))
        }
        Shape::Moved => moved(call),
        Shape::Rotated => rotated(call),
        Shape::Raveled => Some(Extent::of(vec![dim_of(elements(call.sizes()?.into_iter().map(number)))])),
        _ => repeated(call),
    }
}

/// The permutation of a `t`, `transpose` or `permute`; none where it is unknown.
fn order(call: &Call<'_>, rank: usize) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..rank).collect();
    let (one, other) = (["dim0", "axis0"], ["dim1", "axis1"]);
    if call.any_operand(&one).is_some() {
        let (a, b) = (place(call.int(&one)?, rank)?, place(call.int(&other)?, rank)?);
        if rank > 0 {
            order.swap(a, b);
        }
        return Some(order);
    }
    if call.operand("dims").is_some() {
        let dims: Option<Vec<i64>> = call.ints(&["dims"])?.into_iter().collect();
        return dims?.into_iter().map(|dim| place(dim, rank)).collect();
    }
    // `mT` and similar operators transpose matrices, in batches too; `t` and `numpy_T` reverse all
    // dimensions.
    if matches!(call.schema.kind.short(), "mT" | "mH" | "adjoint" | "matrix_H") {
        if rank >= 2 {
            order.swap(rank - 1, rank - 2);
        }
        return Some(order);
    }
    order.reverse();
    Some(order)
}

fn transposed(call: &Call<'_>) -> Option<Extent> {
    let Some(sizes) = call.sizes() else {
        return Some(Extent::ranked(call.ints(&["dims"])?.len()));
    };
    let Some(order) = order(call, sizes.len()) else {
        return Some(Extent::ranked(sizes.len()));
    };
    let strides = call.strides().map(|strides| order.iter().map(|&i| strides[i]).collect());
    Some(Extent::looked_at(order.iter().map(|&i| sizes[i]).collect(), strides))
}

/// The product of sizes, where all are known and it does not overflow.
fn elements(mut sizes: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    sizes.try_fold(1i64, |n, size| n.checked_mul(size?))
}

/// A list of sizes; -1 takes the remaining elements.
fn reshaped(call: &Call<'_>) -> Option<Extent> {
    let wanted = call.ints(&["size", "shape"])?;
    if call.operand("stride").is_some() {
        return Some(Extent::of(wanted.into_iter().map(dim_of).collect()));
    }
    let all = || elements(call.sizes()?.into_iter().map(number));
    let others = || elements(wanted.iter().copied().filter(|n| *n != Some(-1)));
    let left = || all()?.checked_div(others()?);
    let size = |n: &Option<i64>| match n {
        Some(-1) => dim_of(left()),
        other => dim_of(*other),
    };
    let contiguous = is_contiguous(call.first()?);
    Some(Extent::fresh(wanted.iter().map(size).collect(), contiguous))
}

/// Sizes to broadcast to; -1 keeps a size.
fn expanded(call: &Call<'_>) -> Option<Extent> {
    let wanted = call.ints(&["size"])?;
    let Some(sizes) = call.sizes() else {
        let size = |n: &Option<i64>| dim_of(n.filter(|n| *n >= 0));
        return Some(Extent::of(wanted.iter().map(size).collect()));
    };
    let new = wanted.len().checked_sub(sizes.len())?;
    let size = |(i, n): (usize, &Option<i64>)| match (n, i.checked_sub(new)) {
        (Some(-1), Some(at)) => sizes[at],
        (Some(-1) | None, _) => Dim::Unknown,
        (Some(n), _) => Dim::Known(*n),
    };
    let result: Vec<Dim> = wanted.iter().enumerate().map(size).collect();
    let strides = call.strides().and_then(|strides| broadcast_dims(&sizes, &strides, &result));
    Some(Extent::looked_at(result, strides))
}

/// Strides of an expanded tensor: 0 where a dimension is broadcast. A new dimension of size 1 has
/// its contiguous stride.
fn broadcast_dims(sizes: &[Dim], strides: &[i64], result: &[Dim]) -> Option<Vec<i64>> {
    let new = result.len() - sizes.len();
    let mut all = vec![0i64; result.len()];
    for i in (0..result.len()).rev() {
        let wanted = number(result[i])?;
        let (size, stride) = match i.checked_sub(new) {
            Some(at) => (number(sizes[at])?, strides[at]),
            None if i + 1 == result.len() => (1, 1),
            None => (1, number(result[i + 1])?.checked_mul(all[i + 1])?),
        };
        all[i] = if size == wanted { stride } else { 0 };
    }
    Some(all)
}

fn without<T: Copy>(all: &[T], at: usize) -> Vec<T> {
    all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, one)| *one).collect()
}

fn selected(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let rank = sizes.len().checked_sub(1)?;
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len())) else {
        return Some(Extent::ranked(rank));
    };
    Some(Extent::looked_at(without(&sizes, at), call.strides().map(|strides| without(&strides, at))))
}

fn sliced(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len())).filter(|at| *at < sizes.len()) else {
        return Some(Extent::ranked(sizes.len()));
    };
    let step = if call.schema.formal("step").is_some() { call.int(&["step"]) } else { Some(1) };
    sizes[at] = match call.schema.formal("length") {
        Some(_) => dim_of(call.int(&["length"])),
        None => dim_of(slice_length(call, number(sizes[at]), step)),
    };
    let scale = |mut strides: Vec<i64>| {
        strides[at] = strides[at].checked_mul(step?)?;
        Some(strides)
    };
    Some(Extent::looked_at(sizes, call.strides().and_then(scale)))
}

/// The number of elements between start and end, both counted from either side and clamped, in
/// steps.
fn slice_length(call: &Call<'_>, size: Option<i64>, step: Option<i64>) -> Option<i64> {
    let (size, step) = (size?, step.filter(|step| *step > 0)?);
    let clamped = |n: i64| if n < 0 { n.saturating_add(size) } else { n }.clamp(0, size);
    let (start, end) = (clamped(call.int_or("start", 0)?), clamped(call.int_or("end", i64::MAX)?));
    let n = (end - start).max(0);
    Some(n / step + i64::from(n % step != 0))
}

fn unsqueezed(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len() + 1)) else {
        return Some(Extent::ranked(sizes.len() + 1));
    };
    let strides = call.strides().or((sizes.is_empty()).then(Vec::new)).and_then(|mut strides| {
        let new = if at < sizes.len() { number(sizes[at])?.checked_mul(strides[at])? } else { 1 };
        strides.insert(at, new);
        Some(strides)
    });
    sizes.insert(at, Dim::Known(1));
    Some(Extent::looked_at(sizes, strides))
}

/// Whether a dimension is removed is only known where its size is.
fn squeezed(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let wanted: Vec<usize> = match call.operand("dim") {
        None => (0..sizes.len()).collect(),
        Some(value) => {
            let is_int = call.known.ty(value).is(crate::types::Simple::Int);
            let dims = if is_int { vec![call.int(&["dim"])] } else { call.ints(&["dim"])? };
            dims.into_iter().map(|dim| place(dim?, sizes.len())).collect::<Option<_>>()?
        }
    };
    let known: Option<Vec<bool>> = sizes
        .iter()
        .enumerate()
        .map(|(i, dim)| if wanted.contains(&i) { number(*dim).map(|n| n == 1) } else { Some(false) })
        .collect();
    let gone = known?;
    let kept = |i: &usize| !gone[*i];
    let strides = call.strides().map(|strides| (0..sizes.len()).filter(kept).map(|i| strides[i]).collect());
    Some(Extent::looked_at((0..sizes.len()).filter(kept).map(|i| sizes[i]).collect(), strides))
}

fn flattened(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    if sizes.is_empty() {
        return Some(Extent::of(vec![Dim::Known(1)]));
    }
    let (start, end) = (place(call.int(&["start_dim"])?, sizes.len())?, place(call.int(&["end_dim"])?, sizes.len())?);
    if start > end {
        return None;
    }
    let contiguous = is_contiguous(call.first()?);
    let one = match &sizes[start..=end] {
        [alone] => *alone,
        several => dim_of(elements(several.iter().map(|dim| number(*dim)))),
    };
    let parts = [&sizes[..start], &[one], &sizes[end + 1..]];
    Some(Extent::fresh(parts.concat(), contiguous))
}

fn unfolded(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    if sizes.is_empty() {
        return Some(Extent::of(vec![dim_of(call.int(&["size"]))]));
    }
    let Some(at) = call.int(&["dimension"]).and_then(|dim| place(dim, sizes.len())) else {
        return Some(Extent::ranked(sizes.len() + 1));
    };
    let (size, step) = (call.int(&["size"]), call.int(&["step"]));
    let windows = || Some((number(sizes[at])? - size?).checked_div(step?)? + 1);
    sizes[at] = dim_of(windows());
    sizes.push(dim_of(size));
    Some(Extent::of(sizes))
}

fn diagonal(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let rank = sizes.len().checked_sub(1).filter(|rank| *rank > 0)?;
    let dims = || Some((place(call.int(&["dim1"])?, sizes.len())?, place(call.int(&["dim2"])?, sizes.len())?));
    let Some((a, b)) = dims() else { return Some(Extent::ranked(rank)) };
    let mut left: Vec<Dim> = (0..sizes.len()).filter(|i| *i != a && *i != b).map(|i| sizes[i]).collect();
    left.push(dim_of(diagonal_length(number(sizes[a]), number(sizes[b]), call.int(&["offset"]))));
    Some(Extent::of(left))
}

fn diagonal_length(rows: Option<i64>, columns: Option<i64>, offset: Option<i64>) -> Option<i64> {
    let (rows, columns, offset) = (rows?, columns?, offset?);
    let length =
        if offset >= 0 { rows.min(columns.saturating_sub(offset)) } else { rows.saturating_add(offset).min(columns) };
    Some(length.max(0))
}

fn diag(call: &Call<'_>) -> Option<Extent> {
    match call.sizes()?[..] {
        [n] => {
            let side = || number(n)?.checked_add(call.int(&["diagonal"])?.checked_abs()?);
            Some(Extent::of(vec![dim_of(side()); 2]))
        }
        [a, b] => {
            let length = diagonal_length(number(a), number(b), call.int(&["diagonal"]));
            Some(Extent::of(vec![dim_of(length)]))
        }
        _ => None,
    }
}

fn repeated(call: &Call<'_>) -> Option<Extent> {
    let mut times = call.ints(&["repeats", "dims"])?;
    let is_tile = call.schema.formal("dims").is_some();
    let Some(sizes) = call.sizes() else { return (!is_tile).then(|| Extent::ranked(times.len())) };
    // `tile` accepts fewer factors than there are dimensions.
    while is_tile && times.len() < sizes.len() {
        times.insert(0, Some(1));
    }
    let new = times.len().checked_sub(sizes.len())?;
    let size = |(i, n): (usize, &Option<i64>)| {
        let one = i.checked_sub(new).map_or(Some(1), |at| number(sizes[at]));
        dim_of(one.zip(*n).and_then(|(size, n)| size.checked_mul(n)))
    };
    Some(Extent::of(times.iter().enumerate().map(size).collect()))
}

/// `pixel_shuffle` and its inverse: a square of pixels for as many channels.
fn shuffled(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let at = sizes.len().checked_sub(3)?;
    let factor = call.int(&["upscale_factor", "downscale_factor"]).filter(|n| *n > 0)?;
    let grown = |dim: Dim, by: i64| dim_of(number(dim).and_then(|n| n.checked_mul(by)));
    let shrunk = |dim: Dim, by: i64| dim_of(number(dim).and_then(|n| n.checked_div(by)));
    let square = factor.checked_mul(factor)?;
    let is_up = call.row.shape == Shape::Shuffled;
    sizes[at] = if is_up { shrunk(sizes[at], square) } else { grown(sizes[at], square) };
    for dim in &mut sizes[at + 1..] {
        *dim = if is_up { grown(*dim, factor) } else { shrunk(*dim, factor) };
    }
    Some(Extent::of(sizes))
}

fn halved(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let Some(at) = call.int(&["dim"]).and_then(|dim| place(dim, sizes.len())).filter(|at| *at < sizes.len()) else {
        return Some(Extent::ranked(sizes.len()));
    };
    sizes[at] = dim_of(number(sizes[at]).map(|n| n / 2));
    Some(Extent::of(sizes))
}

fn diagonal_embedded(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let last = sizes.pop()?;
    let rank = sizes.len() + 2;
    let places = || {
        let (a, b) = (place(call.int(&["dim1"])?, rank)?, place(call.int(&["dim2"])?, rank)?);
        (a != b).then_some((a.min(b), a.max(b)))
    };
    let Some((a, b)) = places() else { return Some(Extent::ranked(rank)) };
    let size = || number(last)?.checked_add(call.int(&["offset"])?.checked_abs()?);
    let side = dim_of(size());
    sizes.insert(a, side);
    sizes.insert(b, side);
    Some(Extent::of(sizes))
}

/// One dimension becomes several; -1 takes the rest of it.
fn unflattened(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let wanted = call.ints(&["sizes"])?;
    let at = place(call.int(&["dim"])?, sizes.len()).filter(|at| *at < sizes.len())?;
    let others = || product(wanted.iter().copied().filter(|n| *n != Some(-1)));
    let left = || number(sizes[at])?.checked_div(others()?);
    let new: Vec<Dim> = wanted.iter().map(|n| if *n == Some(-1) { dim_of(left()) } else { dim_of(*n) }).collect();
    sizes.splice(at..=at, new);
    Some(Extent::of(sizes))
}

/// The same bytes as elements of another size: the last dimension grows or shrinks.
fn retyped(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let (old, new) = (call.first()?.dtype?, DType::from_code(call.int(&["dtype"])?)?);
    if old.size() != new.size() {
        let last = sizes.last_mut()?;
        *last = dim_of(number(*last).and_then(|n| n.checked_mul(old.size() as i64)?.checked_div(new.size() as i64)));
    }
    Some(Extent::of(sizes))
}

/// Some dimensions move to other positions, the others stay in order.
fn moved(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let places = |name: &str| -> Option<Vec<usize>> {
        let value = call.operand(name)?;
        let is_int = call.known.ty(value).is(crate::types::Simple::Int);
        let dims = if is_int { vec![call.int(&[name])] } else { call.ints(&[name])? };
        dims.into_iter().map(|dim| place(dim?, sizes.len())).collect()
    };
    let Some((from, to)) = places("source").zip(places("destination")) else {
        return Some(Extent::ranked(sizes.len()));
    };
    let mut others = (0..sizes.len()).filter(|i| !from.contains(i));
    let dim = |i: usize| match to.iter().position(|&at| at == i) {
        Some(k) => sizes.get(*from.get(k)?).copied(),
        None => others.next().map(|at| sizes[at]),
    };
    Some(Extent::of((0..sizes.len()).map(dim).collect::<Option<_>>()?))
}

/// Two dimensions are exchanged when they are rotated an odd number of times.
fn rotated(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let turned = || {
        let dims = call.ints(&["dims"])?;
        let &[a, b] = &dims[..] else { return None };
        let (a, b) = (place(a?, sizes.len())?, place(b?, sizes.len())?);
        Some((a, b, call.int(&["k"])?))
    };
    let Some((a, b, k)) = turned().filter(|(a, b, _)| *a.max(b) < sizes.len()) else {
        return Some(Extent::ranked(sizes.len()));
    };
    if k % 2 != 0 {
        sizes.swap(a, b);
    }
    Some(Extent::of(sizes))
}
