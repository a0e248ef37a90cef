//! Resized images, and images as columns of windows.

use super::convolving::{each_or, windows};
use super::{Call, Extent, dim_of, number, product};
use crate::ir::{Attribute, Value};
use crate::ops::shape_rules::Shape;
use crate::symbol::prim;
use crate::types::{Dim, Simple};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        Shape::Upsampled => upsampled(call),
        Shape::Downsampled => {
            let (grad, sizes) = (call.sizes()?, call.ints(&["input_size"])?);
            let known = sizes.into_iter().map(|n| dim_of(n.filter(|n| *n >= 0)));
            Some(Extent::of(grad.iter().copied().take(2).chain(known.skip(2)).collect()))
        }
        Shape::Columns => columns(call),
        Shape::FromColumns => from_columns(call),
        Shape::Grid => grid(call),
        _ => {
            let (input, grid) = (call.sizes_of("input")?, call.sizes_of("grid")?);
            let ([stack, channels, ..], [_, pixels @ .., _]) = (&input[..], &grid[..]) else { return None };
            Some(Extent::of([&[*stack, *channels], pixels].concat()))
        }
    }
}

/// Element `i` of a list, or its only element.
fn nth<T>(all: Vec<T>, i: usize) -> Option<T> {
    let at = if all.len() == 1 { 0 } else { i };
    all.into_iter().nth(at)
}

/// The elements of an unchanged list, or the value itself.
fn values(call: &Call<'_>, value: Value) -> Option<Vec<Value>> {
    let list = call.graph.definer(value).filter(|&node| call.graph.kind(node) == prim::LIST_CONSTRUCT);
    match list {
        Some(list) => call.known.is_list_kept(value).then(|| call.graph.inputs(list).collect()),
        None => Some(vec![value]),
    }
}

/// The factors of a constant, or of a list of them.
fn factors(call: &Call<'_>, value: Value) -> Option<Vec<Option<f64>>> {
    if let Some(Some(Attribute::List(all))) = call.graph.constant(value) {
        let number = |one: &Attribute| match one {
            Attribute::Float(x) => Some(x.value),
            other => other.as_int().map(|n| n as f64),
        };
        return Some(all.iter().map(number).collect());
    }
    Some(values(call, value)?.into_iter().map(|value| call.float(value)).collect())
}

/// The given sizes, otherwise sizes times factors, rounded down.
fn upsampled(call: &Call<'_>) -> Option<Extent> {
    let mut sizes = call.sizes()?;
    let rank = sizes.len();
    let given = call.any_operand(&["output_size", "size"]).filter(|&value| !call.is_none(value));
    let scales = call.any_operand(&["scale_factors", "scale_factor"]).filter(|&value| !call.is_none(value));
    let is_int = given.is_some_and(|value| call.known.ty(value).is(Simple::Int));
    let wanted = match given {
        Some(_) if is_int => vec![call.int(&["output_size", "size"])],
        Some(_) => call.ints(&["output_size", "size"]).unwrap_or(vec![None]),
        None => Vec::new(),
    };
    let factors = scales.map(|value| factors(call, value).unwrap_or(vec![None])).unwrap_or_default();
    for i in 0..rank.checked_sub(2)? {
        let scaled = || {
            let factor = nth(factors.clone(), i)??;
            Some((number(sizes[i + 2])? as f64 * factor).floor() as i64)
        };
        sizes[i + 2] = match nth(wanted.clone(), i) {
            Some(size) => dim_of(size.filter(|n| *n >= 0)),
            None => dim_of(scaled().filter(|n| *n >= 0)),
        };
    }
    Some(Extent::of(sizes))
}

/// The number of windows, from the four lists that determine their positions.
fn window_counts(call: &Call<'_>, image: &[Option<i64>]) -> Option<i64> {
    let list = |name: &str, default: i64| each_or(call, name, image.len(), default);
    let (kernel, stride) = (list("kernel_size", 1), list("stride", 1));
    let (padding, dilation) = (list("padding", 0), list("dilation", 1));
    product(image.iter().enumerate().map(|(i, size)| {
        let around = padding[i].and_then(|n| n.checked_mul(2));
        windows(*size, kernel[i], stride[i], around, dilation[i])
    }))
}

/// For each window, its elements of all channels.
fn columns(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let at = sizes.len().checked_sub(3)?;
    let image: Vec<Option<i64>> = sizes[at + 1..].iter().map(|dim| number(*dim)).collect();
    let area = product(each_or(call, "kernel_size", 2, 1).into_iter());
    let elements = number(sizes[at]).zip(area).and_then(|(channels, area)| channels.checked_mul(area));
    let column = [dim_of(elements), dim_of(window_counts(call, &image))];
    Some(Extent::of([&sizes[..at], &column].concat()))
}

/// The channels of images, from columns that hold a window of all channels.
fn from_columns(call: &Call<'_>) -> Option<Extent> {
    let sizes = call.sizes()?;
    let at = sizes.len().checked_sub(2)?;
    let area = product(each_or(call, "kernel_size", 2, 1).into_iter());
    let channels = number(sizes[at]).zip(area).and_then(|(elements, area)| elements.checked_div(area));
    let name = if call.schema.formal("output_size").is_some() { "output_size" } else { "input_size" };
    let image = each_or(call, name, 2, 1).into_iter().map(dim_of);
    Some(Extent::of(sizes[..at].iter().copied().chain([dim_of(channels)]).chain(image).collect()))
}

/// A position, with a coordinate per dimension, for each pixel of an image of this size.
fn grid(call: &Call<'_>) -> Option<Extent> {
    let size = call.ints(&["size"])?;
    let dims = size.len().checked_sub(2)?;
    let pixels = size.iter().skip(2).map(|n| dim_of(*n));
    Some(Extent::of([dim_of(size[0])].into_iter().chain(pixels).chain([Dim::Known(dims as i64)]).collect()))
}
