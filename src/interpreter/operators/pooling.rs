//! Pooling.

use super::elements::{check, like, placed};
use super::spatial::{Axis, Window, check_image, parameter, resized, sizes, volume, window};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::stop::Stop;
use crate::tensor::buffer::{Typed, Wide};
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::max_pool1d", |call| max_values(call, 1)),
    ("aten::max_pool2d", |call| max_values(call, 2)),
    ("aten::max_pool3d", |call| max_values(call, 3)),
    ("aten::max_pool1d_with_indices", |call| both(max_pool(call, 1)?)),
    ("aten::max_pool2d_with_indices", |call| both(max_pool(call, 2)?)),
    ("aten::max_pool3d_with_indices", |call| both(max_pool(call, 3)?)),
    ("aten::avg_pool1d", |call| avg_pool(call, 1)),
    ("aten::avg_pool2d", |call| avg_pool(call, 2)),
    ("aten::avg_pool3d", |call| avg_pool(call, 3)),
    ("aten::adaptive_avg_pool1d", |call| adaptive_avg_pool(call, 1)),
    ("aten::adaptive_avg_pool2d", |call| adaptive_avg_pool(call, 2)),
    ("aten::adaptive_avg_pool3d", |call| adaptive_avg_pool(call, 3)),
    ("aten::_adaptive_avg_pool2d", |call| adaptive_avg_pool(call, 2)),
    ("aten::_adaptive_avg_pool3d", |call| adaptive_avg_pool(call, 3)),
    ("aten::adaptive_max_pool1d", |call| both(adaptive_max_pool(call, 1)?)),
    ("aten::adaptive_max_pool2d", |call| both(adaptive_max_pool(call, 2)?)),
    ("aten::adaptive_max_pool3d", |call| both(adaptive_max_pool(call, 3)?)),
    ("aten::max_unpool2d", max_unpool2d),
    ("aten::max_pool2d_with_indices_backward", max_pool_backward),
    ("aten::max_pool3d_with_indices_backward", max_pool_backward),
    ("aten::adaptive_max_pool2d_backward", max_pool_backward),
    ("aten::adaptive_max_pool3d_backward", max_pool_backward),
    ("aten::avg_pool2d_backward", |call| avg_pool_backward(call, 2)),
    ("aten::avg_pool3d_backward", |call| avg_pool_backward(call, 3)),
    ("aten::_adaptive_avg_pool2d_backward", |call| adaptive_avg_pool_backward(call, 2)),
    ("aten::_adaptive_avg_pool3d_backward", |call| adaptive_avg_pool_backward(call, 3)),
    ("aten::adaptive_avg_pool3d_backward", |call| adaptive_avg_pool_backward(call, 3)),
];

fn both((values, indices): (Tensor, Tensor)) -> Answer {
    several([values, indices])
}

/// The elements under one position of a window in one dimension: the first, the end, and their
/// number with padding.
#[derive(Clone, Copy)]
struct Span {
    first: i64,
    end: i64,
    step: i64,
    padded: i64,
}

impl Span {
    /// The elements of the image.
    fn elements(&self) -> impl Iterator<Item = usize> + use<> {
        (self.first as usize..self.end.max(self.first) as usize).step_by(self.step.max(1) as usize)
    }
}

/// The spans of all positions in all dimensions.
type Spans = [Vec<Span>; 3];

/// The number of positions of a window. With `ceil_mode` the last may exceed the input, unless it
/// is entirely in the padding.
fn positions(axis: &Axis, ceil: bool) -> i64 {
    let room = axis.input + 2 * axis.before - axis.dilation * (axis.kernel - 1) - 1;
    let count = (room + if ceil { axis.stride - 1 } else { 0 }).div_euclid(axis.stride) + 1;
    let outside = ceil && (count - 1) * axis.stride >= axis.input + axis.before;
    count - i64::from(outside)
}

/// The window of a pooling operator, from its operands.
fn geometry(call: &Call, x: &Tensor, n: usize) -> Result<Window, Stop> {
    let kernel = parameter(call, "kernel_size", n, 1, &[])?;
    let stride = parameter(call, "stride", n, 1, &kernel)?;
    let padding = parameter(call, "padding", n, 0, &vec![0; n])?;
    let dilated = call.schema.is_some_and(|schema| schema.formal("dilation").is_some());
    let dilation = if dilated { parameter(call, "dilation", n, 1, &vec![1; n])? } else { vec![1; n] };
    let ceil = call.bool("ceil_mode")?;
    let mut axes = Vec::new();
    for i in 0..n {
        let (kernel, stride, before, dilation) = (kernel[i], stride[i], padding[i], dilation[i]);
        check(before <= ((kernel - 1) * dilation + 1) / 2, || {
            format!(
                "pad should be at most half of effective kernel size, but got pad={before}, kernel_size={kernel} and dilation={dilation}"
            )
        })?;
        let mut axis = Axis { input: sizes(x, n)[i], output: 0, kernel, stride, dilation, before };
        axis.output = positions(&axis, ceil);
        check(axis.output >= 1, || format!("Given input size: {:?}. Calculated output size is too small", x.shape()))?;
        axes.push(axis);
    }
    Ok(window(&axes))
}

fn spans(window: &Window) -> Spans {
    window.map(|axis| {
        let span = |position: i64| {
            let (start, reach) = (position * axis.stride - axis.before, (axis.kernel - 1) * axis.dilation + 1);
            let padded = (start + reach).min(axis.input + axis.before) - start;
            let first =
                if start < 0 { start + (-start + axis.dilation - 1) / axis.dilation * axis.dilation } else { start };
            Span { first, end: (start + reach).min(axis.input), step: axis.dilation, padded }
        };
        (0..axis.output).map(span).collect()
    })
}

/// The spans of each position.
fn places(spans: &Spans) -> impl Iterator<Item = (&Span, &Span, &Span)> {
    let [depth, height, width] = spans;
    depth.iter().flat_map(move |d| height.iter().flat_map(move |h| width.iter().map(move |w| (d, h, w))))
}

/// Calls `f(position, elements under it, their number with padding)` for all positions in one
/// image.
fn each_position(spans: &Spans, input: [i64; 3], mut f: impl FnMut(usize, &[usize], f64)) {
    let mut under = Vec::new();
    let mut position = 0;
    for d in &spans[0] {
        for h in &spans[1] {
            for w in &spans[2] {
                under.clear();
                let steps = |span: &Span| (span.first..span.end).step_by(span.step.max(1) as usize);
                for (z, y) in steps(d).flat_map(|z| steps(h).map(move |y| (z, y))) {
                    under.extend(steps(w).map(|x| ((z * input[1] + y) * input[2] + x) as usize));
                }
                f(position, &under, (d.padded * h.padded * w.padded) as f64);
                position += 1;
            }
        }
    }
}

/// The largest element under each position, and its index in the image. Where dilation leaves all
/// of a window in the padding, the lowest number, and an index that is outside, as in PyTorch.
fn largest<W: Wide + PartialOrd>(x: &Tensor, spans: &Spans, input: [i64; 3], lowest: W) -> (Vec<W>, Vec<i64>) {
    let elements = x.read::<W>();
    let size = input.iter().product::<i64>() as usize;
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for image in elements.chunks_exact(size.max(1)) {
        each_position(spans, input, |position, under, _| {
            let Some(mut best) = under.first().copied() else {
                let outside = |(d, h, w): (&Span, &Span, &Span)| (d.first * input[1] + h.first) * input[2] + w.first;
                values.push(lowest);
                indices.push(places(spans).nth(position).map_or(0, outside));
                return;
            };
            for &i in under {
                // NaN wins; among several, the last.
                let nan = image[i].partial_cmp(&image[i]).is_none();
                if image[i] > image[best] && image[best].partial_cmp(&image[best]).is_some() || nan {
                    best = i;
                }
            }
            values.push(image[best]);
            indices.push(best as i64);
        });
    }
    (values, indices)
}

fn pooled(call: &Call, x: &Tensor, spans: &Spans, n: usize) -> Result<(Tensor, Tensor), Stop> {
    let input = image_size(x, n);
    let shape = resized(x, spans[3 - n..].iter().map(|spans| spans.len() as i64), n);
    layout::checked(&shape)?;
    let (values, indices) = match x.dtype().is_float() {
        true => {
            let (values, indices) = largest::<f64>(x, spans, input, f64::NEG_INFINITY);
            (like(call, &values, x.dtype(), &shape, x), indices)
        }
        false => {
            let lowest = x.dtype().range().map_or(0, |(lowest, _)| lowest);
            let (values, indices) = largest::<i64>(x, spans, input, lowest);
            (like(call, &values, x.dtype(), &shape, x), indices)
        }
    };
    Ok((values, like(call, &indices, DType::Long, &shape, x)))
}

fn image_size(x: &Tensor, n: usize) -> [i64; 3] {
    let mut input = [1; 3];
    input[3 - n..].copy_from_slice(sizes(x, n));
    input
}

fn max_pool(call: &Call, n: usize) -> Result<(Tensor, Tensor), Stop> {
    let x = call.tensor("self")?;
    check_image("max_pool", &x, n)?;
    pooled(call, &x, &spans(&geometry(call, &x, n)?), n)
}

/// The largest elements alone.
fn max_values(call: &Call, n: usize) -> Answer {
    let x = call.tensor("self")?;
    let whole = x.contiguous();
    let memory = whole.storage().read();
    let Some(all) = f32::slice(&memory).filter(|_| x.dtype() == DType::Float) else {
        return one(max_pool(call, n)?.0);
    };
    check_image("max_pool", &x, n)?;
    let (spans, input) = (spans(&geometry(call, &x, n)?), image_size(&x, n));
    let shape = resized(&x, spans[3 - n..].iter().map(|spans| spans.len() as i64), n);
    layout::checked(&shape)?;
    // A view without elements may begin after the end of its memory.
    let elements = all.get(whole.offset()..whole.offset() + whole.numel()).unwrap_or_default();
    let mut values = Vec::with_capacity(layout::numel(&shape));
    for image in elements.chunks_exact(volume_of(&x, n).max(1)) {
        largest_singles(image, &spans, input, &mut values);
    }
    one(placed(Tensor::from_elements(values, &shape), &x))
}

/// The larger one; NaN wins, and the first of two equal ones.
fn larger(best: f32, x: f32) -> f32 {
    if x > best || x.is_nan() { x } else { best }
}

/// The largest element under each position of an image: first of all lines under a line of
/// positions, then along the line.
fn largest_singles(image: &[f32], spans: &Spans, input: [i64; 3], values: &mut Vec<f32>) {
    let width = input[2] as usize;
    let mut line = vec![f32::NEG_INFINITY; width];
    for (d, h) in spans[0].iter().flat_map(|d| spans[1].iter().map(move |h| (d, h))) {
        line.fill(f32::NEG_INFINITY);
        let lines = d.elements().flat_map(|z| h.elements().map(move |y| (z * input[1] as usize + y) * width));
        for (i, from) in lines.enumerate() {
            let other = &image[from..from + width];
            match i {
                0 => line.copy_from_slice(other),
                _ => line.iter_mut().zip(other).for_each(|(best, &x)| *best = larger(*best, x)),
            }
        }
        for w in &spans[2] {
            let under = w.elements().map(|x| line[x]);
            values.push(under.reduce(larger).unwrap_or(f32::NEG_INFINITY));
        }
    }
}

/// The divisor of the sum under a position.
fn divisor(call: &Call) -> Result<impl Fn(usize, f64) -> f64 + use<>, Stop> {
    let (padding, given) = (call.bool("count_include_pad")?, call.opt_int("divisor_override")?);
    check(given != Some(0), || "divisor must be not zero".to_owned())?;
    Ok(move |under: usize, padded: f64| match given {
        Some(given) => given as f64,
        None if padding => padded,
        None => under as f64,
    })
}

fn averaged(call: &Call, x: &Tensor, spans: &Spans, n: usize, by: impl Fn(usize, f64) -> f64) -> Answer {
    let shape = resized(x, spans[3 - n..].iter().map(|spans| spans.len() as i64), n);
    layout::checked(&shape)?;
    let (elements, input) = (x.read::<f64>(), image_size(x, n));
    let size = input.iter().product::<i64>() as usize;
    let mut means = Vec::new();
    for image in elements.chunks_exact(size.max(1)) {
        for (d, h, w) in places(spans) {
            let (mut sum, mut count) = (-0.0, 0);
            for from in d.elements().flat_map(|z| h.elements().map(move |y| z * input[1] as usize + y)) {
                for x in w.elements() {
                    sum += image[from * input[2] as usize + x];
                    count += 1;
                }
            }
            means.push(sum / by(count, (d.padded * h.padded * w.padded) as f64));
        }
    }
    one(like(call, &means, x.dtype(), &shape, x))
}

fn avg_pool(call: &Call, n: usize) -> Answer {
    let x = call.tensor("self")?;
    check_image("avg_pool", &x, n)?;
    averaged(call, &x, &spans(&geometry(call, &x, n)?), n, divisor(call)?)
}

/// Windows that divide the elements evenly: they overlap if the size is not divisible.
fn adaptive(call: &Call, x: &Tensor, n: usize) -> Result<Spans, Stop> {
    let mut wanted = call.opt_ints("output_size")?.unwrap_or_default();
    if wanted.len() == 1 {
        wanted = vec![wanted[0]; n];
    }
    check(wanted.len() == n && wanted.iter().all(|&size| (0..1 << 24).contains(&size)), || {
        format!("adaptive pooling: internal error: output_size.size() must be {n} and not negative, but got {wanted:?}")
    })?;
    Ok(shared(image_size(x, n), &wanted))
}

fn shared(input: [i64; 3], wanted: &[i64]) -> Spans {
    let mut output = [1; 3];
    output[3 - wanted.len()..].copy_from_slice(wanted);
    std::array::from_fn(|dim| {
        let (size, n) = (input[dim], output[dim]);
        let span = |i: i64| {
            let (first, end) = (i * size / n, ((i + 1) * size + n - 1) / n);
            Span { first, end, step: 1, padded: end - first }
        };
        (0..n).map(span).collect()
    })
}

fn adaptive_avg_pool(call: &Call, n: usize) -> Answer {
    let x = call.tensor("self")?;
    check_image("adaptive_avg_pool", &x, n)?;
    averaged(call, &x, &adaptive(call, &x, n)?, n, |under, _| under as f64)
}

/// Averages over windows that divide the elements evenly.
pub(super) fn area(call: &Call, x: &Tensor, wanted: &[i64]) -> Answer {
    averaged(call, x, &shared(image_size(x, wanted.len()), wanted), wanted.len(), |under, _| under as f64)
}

fn adaptive_max_pool(call: &Call, n: usize) -> Result<(Tensor, Tensor), Stop> {
    let x = call.tensor("self")?;
    check_image("adaptive_max_pool", &x, n)?;
    pooled(call, &x, &adaptive(call, &x, n)?, n)
}

/// Adds gradients at the indices of the largest elements.
fn max_pool_backward(call: &Call) -> Answer {
    let (grad, x, indices) = (call.tensor("grad_output")?, call.tensor("self")?, call.tensor("indices")?);
    let n = if call.kind().as_str().contains("3d") { 3 } else { 2 };
    check_image("max_pool_backward", &x, n)?;
    check(grad.shape() == indices.shape() && grad.rank() == x.rank(), || {
        "indices and gradients differ in shape".to_owned()
    })?;
    let (from, to) = (volume_of(&grad, n), volume_of(&x, n));
    let mut result = vec![0.0; x.numel()];
    let pairs = grad.read::<f64>().into_iter().zip(indices.read::<i64>()).enumerate();
    for (i, (g, index)) in pairs {
        let image = i / from.max(1);
        let slot = usize::try_from(index).ok().filter(|&index| index < to).map(|index| image * to + index);
        match slot.and_then(|slot| result.get_mut(slot)) {
            Some(slot) => *slot += g,
            None => return Err(Stop::raised(format!("Found an invalid max index: {index}"))),
        }
    }
    one(like(call, &result, x.dtype(), x.shape(), &x))
}

fn volume_of(x: &Tensor, n: usize) -> usize {
    sizes(x, n).iter().product::<i64>() as usize
}

/// Distributes gradients evenly over the averaged elements.
fn spread(call: &Call, x: &Tensor, spans: &Spans, n: usize, by: impl Fn(usize, f64) -> f64) -> Answer {
    let grad = call.tensor("grad_output")?;
    let count: usize = spans.iter().map(Vec::len).product();
    let (size, images) = (volume_of(x, n), x.numel() / volume_of(x, n).max(1));
    check(grad.numel() == images * count, || {
        format!("Expected a gradient for {count} positions, but got {:?}", grad.shape())
    })?;
    let (grads, mut result) = (grad.read::<f64>(), vec![0.0; x.numel()]);
    for (i, image) in result.chunks_exact_mut(size.max(1)).enumerate() {
        each_position(spans, image_size(x, n), |position, under, padded| {
            let share = grads[i * count + position] / by(under.len(), padded);
            under.iter().for_each(|&at| image[at] += share);
        });
    }
    one(like(call, &result, x.dtype(), x.shape(), x))
}

fn avg_pool_backward(call: &Call, n: usize) -> Answer {
    let x = call.tensor("self")?;
    check_image("avg_pool_backward", &x, n)?;
    let window = geometry(call, &x, n)?;
    debug_assert!(volume(&window, |axis| axis.output) > 0);
    spread(call, &x, &spans(&window), n, divisor(call)?)
}

fn adaptive_avg_pool_backward(call: &Call, n: usize) -> Answer {
    let (x, grad) = (call.tensor("self")?, call.tensor("grad_output")?);
    check_image("adaptive_avg_pool_backward", &x, n)?;
    check_image("adaptive_avg_pool_backward", &grad, n)?;
    spread(call, &x, &shared(image_size(&x, n), sizes(&grad, n)), n, |under, _| under as f64)
}

/// Writes the largest elements back to their indices, with zeros elsewhere.
fn max_unpool2d(call: &Call) -> Answer {
    let (x, indices) = (call.tensor("self")?, call.tensor("indices")?);
    let size = call.ints("output_size")?;
    if indices.dtype() != DType::Long {
        let found = indices.dtype().name();
        return Err(Stop::raised(format!("elements in indices should be type int64 but got: {found}")));
    }
    let [height, width] = size[..] else {
        let n = size.len();
        return Err(Stop::raised(format!(
            "There should be exactly two elements (height, width) in output_size, but got {n} elements."
        )));
    };
    if ![3, 4].contains(&x.rank()) || x.shape() != indices.shape() {
        return Err(Stop::raised(format!(
            "Input to max_unpooling2d should be a 3d or 4d Tensor of the shape of indices, but got {:?} and {:?}",
            x.shape(),
            indices.shape()
        )));
    }
    check(x.dtype().is_float(), || format!("\"max_unpool2d\" not implemented for '{}'", x.dtype().name()))?;
    let planes = x.rank() - 2;
    let mut shape: layout::Dims = x.shape()[..planes].into();
    shape.extend([height, width]);
    let total = layout::checked(&shape)?;
    let room = height * width;
    let each = (x.size(planes) * x.size(planes + 1)) as usize;
    let (places, elements) = (indices.read::<i64>(), x.read::<f64>());
    let mut found = vec![0.0; total];
    for (i, (&place, &element)) in places.iter().zip(elements.iter()).enumerate() {
        if !(0..room).contains(&place) {
            return Err(Stop::raised(format!(
                "Found an invalid max index: {place} (output volumes are of size {height}x{width})"
            )));
        }
        found[i / each * room as usize + place as usize] = element;
    }
    one(like(call, &found, x.dtype(), &shape, &x))
}
