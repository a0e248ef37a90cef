//! Convolutions, pooling, padding: operators on the last dimensions of an image.

use super::{Call, Extent, dim_of, number};
use crate::ops::shape_rules::Shape;
use crate::types::{Dim, Simple};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Convolved => convolved(call),
        Shape::Pooled => pooled(call),
        Shape::Resized => resized(call),
        _ => padded(call),
    }
}

/// An integer for each of `n` dimensions; a single one applies to all.
fn each(call: &Call<'_>, name: &str, n: usize) -> Vec<Option<i64>> {
    match call.ints(&[name]) {
        Some(all) if all.len() == n => all,
        Some(all) if all.len() == 1 => vec![all[0]; n],
        _ => vec![None; n],
    }
}

/// The same, with a default for all dimensions where the list is empty or absent.
pub(super) fn each_or(call: &Call<'_>, name: &str, n: usize, default: i64) -> Vec<Option<i64>> {
    let given = call.schema.formal(name).is_some() && call.ints(&[name]).is_none_or(|all| !all.is_empty());
    if given { each(call, name, n) } else { vec![Some(default); n] }
}

/// The number of windows, for a total padding at both ends.
pub(super) fn windows(
    size: Option<i64>,
    kernel: Option<i64>,
    stride: Option<i64>,
    around: Option<i64>,
    dilation: Option<i64>,
) -> Option<i64> {
    let span = dilation?.checked_mul(kernel? - 1)?.checked_add(1)?;
    let room = size?.checked_add(around?)?.checked_sub(span)?;
    (room >= 0).then(|| Some(room.checked_div(stride?)? + 1))?
}

/// The number of dimensions that windows slide over: the one in the operator's name, or that of the
/// weight.
fn spatial(call: &Call<'_>) -> Option<usize> {
    let name = call.schema.kind.short();
    let named = (1..=3).find(|n| name.contains(&format!("{n}d")));
    named.or_else(|| call.tensor("weight")?.rank()?.checked_sub(2))
}

fn convolved(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let rank = Extent::ranked(sizes.len());
    let weight = call.tensor("weight").and_then(|weight| weight.sizes.as_deref());
    let transposed = match call.schema.formal("transposed") {
        Some(_) => call.flag("transposed"),
        None => Some(call.schema.kind.short().contains("transpose")),
    };
    let (Some(n), Some(weight), Some(transposed)) = (spatial(call), weight, transposed) else { return Some(rank) };
    if weight.len() != n + 2 || sizes.len() < n + 1 {
        return Some(rank);
    }
    let first = sizes.len() - n;
    let mut result = sizes[..first].to_vec();
    result[first - 1] = if transposed { grouped(call, weight[1]) } else { weight[0] };
    let image: Vec<Option<i64>> = sizes[first..].iter().map(|dim| number(*dim)).collect();
    let kernel: Vec<Option<i64>> = weight[2..].iter().map(|dim| number(*dim)).collect();
    let made = if transposed { spread(call, &image, &kernel) } else { slid(call, &image, &kernel) };
    result.extend(made.into_iter().map(dim_of));
    Some(Extent::of(result))
}

/// The channels of all groups.
fn grouped(call: &Call<'_>, channels: Dim) -> Dim {
    dim_of(number(channels).zip(call.int(&["groups"])).and_then(|(channels, groups)| channels.checked_mul(groups)))
}

/// The number of kernel positions in an image, whose padding may be a string.
pub(super) fn slid(call: &Call<'_>, image: &[Option<i64>], kernel: &[Option<i64>]) -> Vec<Option<i64>> {
    let n = image.len();
    let (stride, dilation) = (each_or(call, "stride", n, 1), each_or(call, "dilation", n, 1));
    let is_word = call.operand("padding").is_some_and(|value| call.known.ty(value).is(Simple::Str));
    let word = is_word.then(|| call.text("padding"));
    let padding = if is_word { vec![None; n] } else { each_or(call, "padding", n, 0) };
    let count = |i: usize| match word.as_ref().map(Option::as_deref) {
        Some(Some("same")) => image[i],
        Some(Some("valid")) => windows(image[i], kernel[i], stride[i], Some(0), dilation[i]),
        Some(_) => None,
        None => windows(image[i], kernel[i], stride[i], padding[i].and_then(|n| n.checked_mul(2)), dilation[i]),
    };
    (0..n).map(count).collect()
}

/// The size of the output of a transposed convolution: the extent covered by a kernel at each
/// element.
fn spread(call: &Call<'_>, image: &[Option<i64>], kernel: &[Option<i64>]) -> Vec<Option<i64>> {
    let n = image.len();
    let (stride, dilation) = (each_or(call, "stride", n, 1), each_or(call, "dilation", n, 1));
    let (padding, more) = (each_or(call, "padding", n, 0), each_or(call, "output_padding", n, 0));
    let covered = |i: usize| {
        let steps = (image[i]? - 1).checked_mul(stride[i]?)?;
        let reach = dilation[i]?.checked_mul(kernel[i]? - 1)?;
        let size = steps.checked_add(reach)?.checked_add(more[i]? + 1)?.checked_sub(padding[i]?.checked_mul(2)?)?;
        (size >= 0).then_some(size)
    };
    (0..n).map(covered).collect()
}

fn pooled(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let n = spatial(call)?;
    let Some(ceil) = call.flag("ceil_mode").filter(|_| sizes.len() >= n) else {
        return Some(Extent::ranked(sizes.len()));
    };
    let kernel = each(call, "kernel_size", n);
    // The default stride is the size of the window.
    let stride =
        if call.ints(&["stride"]).is_some_and(|all| all.is_empty()) { kernel.clone() } else { each(call, "stride", n) };
    let (padding, dilation) = (each_or(call, "padding", n, 0), each_or(call, "dilation", n, 1));
    let first = sizes.len() - n;
    let mut result = sizes[..first].to_vec();
    let count = |i: usize| {
        let (size, around) = (number(sizes[first + i]), padding[i].and_then(|n| n.checked_mul(2)));
        if ceil {
            rounded_up(size?, kernel[i]?, stride[i]?, padding[i]?, dilation[i]?)
        } else {
            windows(size, kernel[i], stride[i], around, dilation[i])
        }
    };
    result.extend((0..n).map(|i| dim_of(count(i))));
    Some(Extent::of(result))
}

/// The number of windows that begin in an image; the last one may exceed its end, but does not
/// begin after it.
fn rounded_up(size: i64, kernel: i64, stride: i64, padding: i64, dilation: i64) -> Option<i64> {
    let span = dilation.checked_mul(kernel - 1)?.checked_add(1)?;
    let room = size.checked_add(padding.checked_mul(2)?)?.checked_sub(span)?;
    if stride <= 0 {
        return None;
    }
    let count = (room + stride - 1).div_euclid(stride) + 1;
    let outside = (count - 1).checked_mul(stride)? >= size + padding;
    Some(count - i64::from(outside)).filter(|count| *count >= 1)
}

fn resized(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let n = spatial(call)?;
    let first = sizes.len().checked_sub(n)?;
    let size = |n: Option<i64>| dim_of(n.filter(|n| *n >= 0));
    let given = each(call, "output_size", n).into_iter().map(size);
    Some(Extent::of(sizes[..first].iter().copied().chain(given).collect()))
}

/// Two integers for each dimension, from the last one on.
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
