//! Convolutions, pooling, padding: operators on the last dimensions of an image.

use super::{Call, Extent, dim_of, number};
use crate::ops::shape_rules::Shape;
use crate::planted;

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Convolved => convolved(call),
        Shape::Pooled => pooled(call),
        Shape::Resized => resized(call),
        _ => padded(call),
    }
}

/// A list of one number for each of `n` dimensions; one number stands for all.
fn each(call: &Call<'_>, name: &str, n: usize) -> Vec<Option<i64>> {
    match call.ints(&[name]) {
        Some(all) if all.len() == n => all,
        Some(all) if all.len() == 1 => vec![all[0]; n],
        _ => vec![None; n],
    }
}

/// How often a window fits.
fn windows(
    size: Option<i64>,
    kernel: Option<i64>,
    stride: Option<i64>,
    padding: Option<i64>,
    dilation: Option<i64>,
) -> Option<i64> {
    let span = dilation?.checked_mul(kernel? - 1)?.checked_add(1)?;
    let room = size?.checked_add(padding?.checked_mul(2)?)?.checked_sub(span)?;
    (room >= 0).then(|| {
        Some(planted!("shapes.windows", room.checked_div(stride?)? + 1, "one-less" => room.checked_div(stride?)?))
    })?
}

/// The number of dimensions that windows slide over: the one in the name, or that of the weight.
fn spatial(call: &Call<'_>) -> Option<usize> {
    let named = call.schema.kind.short().strip_suffix('d').and_then(|rest| rest.chars().last()?.to_digit(10));
    let weight = || call.tensor("weight")?.rank()?.checked_sub(2);
    named.map(|n| n as usize).or_else(weight)
}

fn convolved(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let rank = Extent::ranked(sizes.len());
    let weight = call.tensor("weight").and_then(|weight| weight.sizes.as_deref());
    let plain = call.schema.formal("transposed").is_none() || call.flag("transposed") == Some(false);
    let (Some(n), Some(weight), true) = (spatial(call), weight, plain) else { return Some(rank) };
    if weight.len() != n + 2 || sizes.len() < n + 1 {
        return Some(rank);
    }
    let (stride, padding) = (each(call, "stride", n), each(call, "padding", n));
    let dilation = each(call, "dilation", n);
    let first = sizes.len() - n;
    let mut result = sizes[..first].to_vec();
    result[first - 1] = weight[0];
    result.extend(
        (0..n).map(|i| {
            dim_of(windows(number(sizes[first + i]), number(weight[2 + i]), stride[i], padding[i], dilation[i]))
        }),
    );
    Some(Extent::of(result))
}

fn pooled(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let n = spatial(call)?;
    if call.flag("ceil_mode") != Some(false) || sizes.len() < n {
        return Some(Extent::ranked(sizes.len()));
    }
    let kernel = each(call, "kernel_size", n);
    // Without a stride it is the size of the window.
    let stride =
        if call.ints(&["stride"]).is_some_and(|all| all.is_empty()) { kernel.clone() } else { each(call, "stride", n) };
    let padding = each(call, "padding", n);
    let dilation = if call.schema.formal("dilation").is_some() { each(call, "dilation", n) } else { vec![Some(1); n] };
    let first = sizes.len() - n;
    let mut result = sizes[..first].to_vec();
    result.extend(
        (0..n).map(|i| dim_of(windows(number(sizes[first + i]), kernel[i], stride[i], padding[i], dilation[i]))),
    );
    Some(Extent::of(result))
}

fn resized(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let n = spatial(call)?;
    let first = sizes.len().checked_sub(n)?;
    let size = |n: Option<i64>| dim_of(n.filter(|n| *n >= 0));
    let given = each(call, "output_size", n).into_iter().map(size);
    Some(Extent::of(sizes[..first].iter().copied().chain(given).collect()))
}

/// Two numbers for each dimension, from the last one on.
fn padded(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let Some(around) = call.ints(&["padding", "pad"]) else { return Some(Extent::ranked(sizes.len())) };
    for (i, pair) in around.chunks(2).enumerate() {
        let at = sizes.len().checked_sub(i + 1)?;
        let grown = || match pair {
            [before, after] => number(sizes[at])?.checked_add((*before)?)?.checked_add((*after)?).filter(|n| *n >= 0),
            _ => None,
        };
        sizes[at] = dim_of(grown());
    }
    Some(Extent::of(sizes))
}
