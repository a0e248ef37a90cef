//! Copies with reordered elements: triangles, flips, rolls, repeats, shuffled images.

use super::elements::{by_kind, like};
use super::picking::{mapped, place};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::layout::{self, Dims, wrap, wrap_all};
use crate::tensor::{DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::channel_shuffle", channel_shuffle),
    ("aten::flip", flip),
    ("aten::fliplr", flip),
    ("aten::flipud", flip),
    ("aten::pixel_shuffle", pixel_shuffle),
    ("aten::pixel_unshuffle", pixel_unshuffle),
    ("aten::repeat", repeat),
    ("aten::repeat_interleave", repeat_interleave),
    ("aten::roll", roll),
    ("aten::rot90", rot90),
    ("aten::tile", tile),
    ("aten::tril", tril),
    ("aten::triu", triu),
];

// ---- reordered copies

fn triangle(call: &Call<'_>, stays: fn(i64, i64) -> bool) -> Answer {
    let (x, diagonal) = (call.tensor("self")?, call.int("diagonal")?);
    let [.., rows, columns] = *x.shape() else {
        return Err(Stop::raised(format!(
            "{}: input tensor must have at least 2 dimensions",
            call.kind().as_str().trim_start_matches("aten::")
        )));
    };
    by_kind!(x.dtype(), W => {
        let mut elements = x.read::<W>();
        for (i, element) in elements.iter_mut().enumerate() {
            let (row, column) = (i as i64 / columns % rows, i as i64 % columns);
            if !stays(column - row, diagonal) {
                *element = W::default();
            }
        }
        one(like(call, &elements, x.dtype(), x.shape(), &x))
    })
}

fn tril(call: &Call<'_>) -> Answer {
    triangle(call, |at, diagonal| at <= diagonal)
}

fn triu(call: &Call<'_>) -> Answer {
    triangle(call, |at, diagonal| at >= diagonal)
}

fn flip(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let dims = match call.kind().as_str() {
        "aten::fliplr" => vec![1],
        "aten::flipud" => vec![0],
        _ => call.ints("dims")?,
    };
    one(flipped(call, &x, &wrap_all(&dims, x.rank())?)?)
}

fn flipped(call: &Call<'_>, x: &Tensor, dims: &[usize]) -> Result<Tensor, Stop> {
    if dims.iter().any(|&dim| dim >= x.rank().max(1)) {
        return Err(Stop::raised("Input must be >= 2-d."));
    }
    let strides = layout::contiguous(x.shape());
    let flipped = mapped(call, x, x.shape(), |at| {
        let there = |(i, &at): (usize, &i64)| if dims.contains(&i) { x.size(i) - 1 - at } else { at };
        place(&at.iter().enumerate().map(there).collect::<Dims>(), &strides)
    })?;
    Ok(flipped.laid(layout::kept_strides(x.shape(), x.strides())))
}

fn roll(call: &Call<'_>) -> Answer {
    let (x, shifts, dims) = (call.tensor("self")?, call.ints("shifts")?, call.ints("dims")?);
    if dims.is_empty() && shifts.len() == 1 {
        let n = x.numel() as i64;
        let rolled = |at: &[i64]| (at[0] - shifts[0].rem_euclid(n.max(1))).rem_euclid(n) as usize;
        return one(mapped(call, &x, &[n], rolled)?.reshape(x.shape()));
    }
    if shifts.len() != dims.len() || shifts.is_empty() {
        return Err(Stop::raised(format!(
            "shifts and dimensions must align. shifts: {}, dims:{}",
            shifts.len(),
            dims.len()
        )));
    }
    let mut total: Dims = Dims::from_elem(0, x.rank());
    for (&shift, &dim) in shifts.iter().zip(&dims) {
        let dim = wrap(dim, x.rank())?;
        if let Some(total) = total.get_mut(dim) {
            *total = (*total + shift.rem_euclid(x.size(dim).max(1))) % x.size(dim).max(1);
        }
    }
    let strides = layout::contiguous(x.shape());
    one(mapped(call, &x, x.shape(), |at| {
        let there = |i: usize| (at[i] - total[i]).rem_euclid(x.size(i));
        place(&(0..at.len()).map(there).collect::<Dims>(), &strides)
    })?)
}

fn rot90(call: &Call<'_>) -> Answer {
    let (x, k) = (call.tensor("self")?, call.int("k")?);
    let dims = wrap_all(&call.ints("dims")?, x.rank())?;
    let [a, b] = dims[..] else {
        return Err(Stop::raised(format!("expected total rotation dims == 2, but got dims = {}", dims.len())));
    };
    one(match k.rem_euclid(4) {
        1 => flipped(call, &x, &[b])?.transpose(a, b),
        2 => flipped(call, &x, &[a, b])?,
        3 => flipped(call, &x, &[a])?.transpose(a, b),
        _ => x.copied(),
    })
}

fn repeat(call: &Call<'_>) -> Answer {
    let (x, repeats) = (call.tensor("self")?, call.ints("repeats")?);
    if repeats.len() < x.rank() {
        return Err(Stop::raised(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ));
    }
    one(repeated(call, &x, &repeats)?)
}

fn tile(call: &Call<'_>) -> Answer {
    let (x, mut repeats) = (call.tensor("self")?, call.ints("dims")?);
    while repeats.len() < x.rank() {
        repeats.insert(0, 1);
    }
    one(repeated(call, &x, &repeats)?)
}

fn repeated(call: &Call<'_>, x: &Tensor, repeats: &[i64]) -> Result<Tensor, Stop> {
    let missing = repeats.len() - x.rank();
    let old = |i: usize| i.checked_sub(missing).map_or(1, |k| x.size(k));
    if let Some(negative) = repeats.iter().find(|&&n| n < 0) {
        return Err(Stop::raised(format!("Trying to create tensor with negative dimension {negative}: {repeats:?}")));
    }
    let shape: Dims = repeats.iter().enumerate().map(|(i, &n)| n.saturating_mul(old(i))).collect();
    let strides = layout::contiguous(x.shape());
    mapped(call, x, &shape, |at| {
        let there: Dims = (missing..at.len()).map(|i| at[i] % old(i)).collect();
        place(&there, &strides)
    })
}

fn repeat_interleave(call: &Call<'_>) -> Answer {
    let Some(x) = call.opt_tensor("self")? else {
        let repeats = call.tensor("repeats")?;
        check_repeats(&repeats)?;
        let places = repeated_places(&repeats.read::<i64>())?;
        check_size(call, places.len())?;
        return one(like(call, &places, repeats.dtype(), &[places.len() as i64], &repeats));
    };
    let (x, dim) = match call.opt_int("dim")? {
        Some(dim) => (x.clone(), wrap(dim, x.rank())?),
        None => (x.reshape(&[x.numel() as i64]), 0),
    };
    let x = if x.rank() == 0 { x.reshape(&[1]) } else { x };
    let n = x.size(dim) as usize;
    let repeats = match call.look("repeats") {
        Some(IValue::Tensor(repeats)) => {
            check_repeats(repeats)?;
            repeats.read::<i64>()
        }
        _ => vec![call.int("repeats")?],
    };
    let repeats = if repeats.len() == 1 { vec![repeats[0]; n] } else { repeats };
    if repeats.len() != n {
        return Err(Stop::raised("repeats must have the same size as input along dim"));
    }
    let places = repeated_places(&repeats)?;
    if matches!(call.look("repeats"), Some(IValue::Tensor(_))) {
        check_size(call, places.len())?;
    }
    let mut shape: Dims = x.shape().into();
    shape[dim] = places.len() as i64;
    let strides = layout::contiguous(x.shape());
    one(mapped(call, &x, &shape, |at| {
        let mut there: Dims = at.into();
        there[dim] = places[at[dim] as usize];
        place(&there, &strides)
    })?)
}

/// Repeat counts are a number or a vector of integers.
fn check_repeats(repeats: &Tensor) -> Result<(), Stop> {
    match (repeats.rank(), repeats.dtype()) {
        (0 | 1, DType::Int | DType::Long) => Ok(()),
        (0 | 1, _) => Err(Stop::raised("repeats has to be Long or Int tensor")),
        _ => Err(Stop::raised("repeats must be 0-dim or 1-dim tensor")),
    }
}

/// The size declared by a program must equal the resulting one.
fn check_size(call: &Call<'_>, found: usize) -> Result<(), Stop> {
    let announced = if call.look("output_size").is_some() { call.opt_int("output_size")? } else { None };
    match announced.filter(|&size| size != found as i64) {
        Some(_) => Err(Stop::raised("allocated size does not match required size")),
        None => Ok(()),
    }
}

/// Each index as often as it is repeated.
fn repeated_places(repeats: &[i64]) -> Result<Vec<i64>, Stop> {
    if repeats.iter().any(|&n| n < 0) {
        return Err(Stop::raised("repeats can not be negative"));
    }
    let total = repeats.iter().fold(0i64, |total, &n| total.saturating_add(n));
    layout::checked(&[total])?;
    Ok(repeats.iter().enumerate().flat_map(|(i, &n)| std::iter::repeat_n(i as i64, n as usize)).collect())
}

/// The last three dimensions, and the dimensions before them.
fn image(call: &Call<'_>, x: &Tensor) -> Result<(Dims, [i64; 3]), Stop> {
    match *x.shape() {
        [ref batch @ .., c, h, w] => Ok((batch.into(), [c, h, w])),
        _ => Err(Stop::raised(format!(
            "{} expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            call.kind().as_str().trim_start_matches("aten::"),
            x.rank()
        ))),
    }
}

/// Views the tensor as `inner`, permutes the dimensions after the batch, and copies into `outer`.
fn shuffled(x: &Tensor, batch: &Dims, inner: &[i64], order: &[usize], outer: &[i64]) -> Answer {
    let with = |tail: &[i64]| batch.iter().chain(tail).copied().collect::<Dims>();
    let order: Vec<usize> = (0..batch.len()).chain(order.iter().map(|i| i + batch.len())).collect();
    one(x.reshape(&with(inner)).permute(&order).copied().reshape(&with(outer)))
}

fn pixel_shuffle(call: &Call<'_>) -> Answer {
    let (x, r) = (call.tensor("self")?, call.int("upscale_factor")?);
    let (batch, [c, h, w]) = image(call, &x)?;
    if r <= 0 || r.checked_mul(r).is_none_or(|square| c % square != 0) {
        return Err(Stop::raised(format!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {}",
            r.saturating_mul(r)
        )));
    }
    let deep = c / (r * r);
    shuffled(&x, &batch, &[deep, r, r, h, w], &[0, 3, 1, 4, 2], &[deep, h * r, w * r])
}

fn pixel_unshuffle(call: &Call<'_>) -> Answer {
    let (x, r) = (call.tensor("self")?, call.int("downscale_factor")?);
    let (batch, [c, h, w]) = image(call, &x)?;
    if r <= 0 || h % r != 0 || w % r != 0 {
        return Err(Stop::raised(format!(
            "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)={h} is not divisible by {r}"
        )));
    }
    layout::checked(&[c, h / r, r, w / r, r])?;
    let deep = c.saturating_mul(r).saturating_mul(r);
    shuffled(&x, &batch, &[c, h / r, r, w / r, r], &[0, 2, 4, 1, 3], &[deep, h / r, w / r])
}

fn channel_shuffle(call: &Call<'_>) -> Answer {
    let (x, groups) = (call.tensor("self")?, call.int("groups")?);
    if x.rank() < 3 || groups <= 0 || x.size(1) % groups != 0 {
        return Err(Stop::raised(
            "channel_shuffle expects input with at least 3 dimensions whose channels are divisible by groups",
        ));
    }
    let rest: i64 = x.shape()[2..].iter().product();
    layout::checked(&[x.size(0), groups, x.size(1) / groups, rest])?;
    let grouped = x.reshape(&[x.size(0), groups, x.size(1) / groups, rest]).transpose(1, 2).copied();
    one(grouped.reshape(x.shape()))
}
