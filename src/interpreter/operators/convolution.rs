//! Convolutions.
//!
//! The elements under the window form a matrix (im2col), with one row for each element of the
//! window and one column for each position, which is multiplied with the weights. A transposed
//! convolution is the reverse: the gradient of a convolution.

use super::elements::{by_kind, check, placed};
use super::spatial::{Axis, LARGEST, Window, parameter, runs, sizes, volume, window};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::buffer::Typed;
use crate::tensor::gemm::{self, Matrix, Real, Ring};
use crate::tensor::{C128, DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::conv1d", |call| convolve(call, 1, Some(false))),
    ("aten::conv2d", |call| convolve(call, 2, Some(false))),
    ("aten::conv3d", |call| convolve(call, 3, Some(false))),
    ("aten::conv_transpose1d", |call| convolve(call, 1, Some(true))),
    ("aten::conv_transpose2d", |call| convolve(call, 2, Some(true))),
    ("aten::conv_transpose3d", |call| convolve(call, 3, Some(true))),
    ("aten::convolution", |call| convolve(call, 0, None)),
    ("aten::_convolution", |call| convolve(call, 0, None)),
    ("aten::_convolution_mode", |call| convolve(call, 0, Some(false))),
    ("aten::convolution_overrideable", |call| convolve(call, 0, None)),
    ("aten::mkldnn_convolution", |call| convolve(call, 0, Some(false))),
    ("aten::thnn_conv2d", |call| convolve(call, 2, Some(false))),
    ("aten::slow_conv3d", |call| convolve(call, 3, Some(false))),
    ("aten::_conv_depthwise2d", |call| convolve(call, 2, Some(false))),
    ("aten::_slow_conv2d_forward", |call| convolve(call, 2, Some(false))),
    ("aten::convolution_backward", convolution_backward),
    ("aten::convolution_backward_overrideable", convolution_backward),
];

/// An element type of convolutions.
trait Element: Copy + Default {
    fn plus(self, other: Self) -> Self;
    /// `c += a b`
    fn add_product(a: (&[Self], Matrix), b: (&[Self], Matrix), c: &mut [Self]);
}

macro_rules! elements {
    ($($t:ty, $product:expr;)*) => {$(impl Element for $t {
        fn plus(self, other: $t) -> $t { <$t>::wrapping_plus(self, other) }
        fn add_product(a: (&[$t], Matrix), b: (&[$t], Matrix), c: &mut [$t]) { $product(a, b, c) }
    })*};
}

/// Sums that wrap instead of trapping.
trait WrappingPlus {
    fn wrapping_plus(self, other: Self) -> Self;
}
impl WrappingPlus for f32 {
    fn wrapping_plus(self, other: f32) -> f32 {
        self + other
    }
}
impl<W: Ring> WrappingPlus for W {
    fn wrapping_plus(self, other: W) -> W {
        self.plus(other)
    }
}

fn fast<T: Real>(a: (&[T], Matrix), b: (&[T], Matrix), c: &mut [T]) {
    T::multiply(T::of(1.0), a, b, T::of(1.0), c);
}

fn slow<W: Ring>((a, a_at): (&[W], Matrix), (b, b_at): (&[W], Matrix), c: &mut [W]) {
    gemm::naive(a, a_at, b, b_at, c);
}

elements! { f32, fast::<f32>; f64, fast::<f64>; i64, slow::<i64>; C128, slow::<C128>; }

/// One convolution; a transposed one is seen from its output: `large` is the image that the window
/// slides over, `small` has one element per position. Weights are `[channels of small, channels of
/// large / groups, window]`.
struct Shape {
    window: Window,
    batches: usize,
    groups: usize,
    /// The channels of one group.
    small: usize,
    /// The channels of one group.
    large: usize,
}

impl Shape {
    fn taps(&self) -> usize {
        volume(&self.window, |axis| axis.kernel)
    }
    fn positions(&self) -> usize {
        volume(&self.window, |axis| axis.output)
    }
    fn image(&self) -> usize {
        volume(&self.window, |axis| axis.input)
    }
    /// Whether the matrix of window elements is the image itself.
    fn is_pointwise(&self) -> bool {
        self.window.iter().all(|a| a.kernel == 1 && a.stride == 1 && a.before == 0 && a.input == a.output)
    }
    /// All groups of all examples.
    fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let (groups, small, large) = (self.groups, self.small * self.positions(), self.large * self.image());
        let weight = self.small * self.large * self.taps();
        (0..self.batches * groups).map(move |i| Part {
            small: i * small..(i + 1) * small,
            large: i * large..(i + 1) * large,
            weight: i % groups * weight..(i % groups + 1) * weight,
        })
    }
    fn weights(&self) -> Matrix {
        Matrix::in_rows(self.small, self.large * self.taps())
    }
    fn columns(&self) -> Matrix {
        Matrix::in_rows(self.large * self.taps(), self.positions())
    }
    fn outputs(&self) -> Matrix {
        Matrix::in_rows(self.small, self.positions())
    }
}

/// The offsets of one group of one example.
struct Part {
    small: std::ops::Range<usize>,
    large: std::ops::Range<usize>,
    weight: std::ops::Range<usize>,
}

/// Copies the elements under the window into columns.
fn unfold<T: Element>(shape: &Shape, image: &[T], columns: &mut [T]) {
    let (rows, size) = (shape.taps() * shape.positions(), shape.image());
    for (columns, image) in columns.chunks_exact_mut(rows.max(1)).zip(image.chunks_exact(size.max(1))) {
        runs(&shape.window, |column, element, step, n| match step {
            1 => columns[column..column + n].copy_from_slice(&image[element..element + n]),
            _ => {
                for (slot, &x) in columns[column..column + n].iter_mut().zip(image[element..].iter().step_by(step)) {
                    *slot = x;
                }
            }
        });
    }
}

/// The inverse, which accumulates.
fn fold<T: Element>(shape: &Shape, columns: &[T], image: &mut [T]) {
    let (rows, size) = (shape.taps() * shape.positions(), shape.image());
    for (columns, image) in columns.chunks_exact(rows.max(1)).zip(image.chunks_exact_mut(size.max(1))) {
        runs(&shape.window, |column, element, step, n| {
            for (&x, slot) in columns[column..column + n].iter().zip(image[element..].iter_mut().step_by(step)) {
                *slot = slot.plus(x);
            }
        });
    }
}

/// `small += weight * large`
fn forward<T: Element>(shape: &Shape, large: &[T], weight: &[T], small: &mut [T]) {
    let pointwise = shape.is_pointwise();
    let mut columns = vec![T::default(); if pointwise { 0 } else { shape.large * shape.taps() * shape.positions() }];
    for part in shape.parts() {
        let image = &large[part.large];
        if !pointwise {
            unfold(shape, image, &mut columns);
        }
        let under = if pointwise { image } else { &columns };
        T::add_product((&weight[part.weight], shape.weights()), (under, shape.columns()), &mut small[part.small]);
    }
}

/// `large += weight' * small`
fn backward<T: Element>(shape: &Shape, small: &[T], weight: &[T], large: &mut [T]) {
    let mut columns = vec![T::default(); shape.large * shape.taps() * shape.positions()];
    for part in shape.parts() {
        columns.fill(T::default());
        let weights = shape.weights().transposed();
        T::add_product((&weight[part.weight], weights), (&small[part.small], shape.outputs()), &mut columns);
        fold(shape, &columns, &mut large[part.large]);
    }
}

/// `weight += small * large'`
fn of_weights<T: Element>(shape: &Shape, small: &[T], large: &[T], weight: &mut [T]) {
    let mut columns = vec![T::default(); shape.large * shape.taps() * shape.positions()];
    for part in shape.parts() {
        unfold(shape, &large[part.large], &mut columns);
        let under = shape.columns().transposed();
        T::add_product((&small[part.small], shape.outputs()), (&columns, under), &mut weight[part.weight]);
    }
}

/// Runs a block with the elements of tensors in an arithmetic type; the block returns elements of
/// this type, which become a tensor.
macro_rules! computed {
    ($call:expr, $dtype:expr, $shape:expr, [$($slice:ident = $tensor:expr),*], $wide:ident => $body:expr) => {{
        let shape: &[i64] = $shape;
        let singles = (|| Some(($(singles($tensor)?,)*)))();
        match singles {
            Some(($($slice,)*)) => {
                type $wide = f32;
                $(let $slice = &$slice[..];)*
                Tensor::from_elements::<f32>($body, shape)
            }
            None => by_kind!($dtype, $wide => {
                $(let $slice = &$tensor.read::<$wide>()[..];)*
                $call.made::<$wide>(&$body, $dtype, shape)
            }),
        }
    }};
}

/// The elements in logical order, if they are `f32`.
fn singles(x: &Tensor) -> Option<Vec<f32>> {
    let row = x.contiguous();
    let memory = row.storage().read();
    let all = f32::slice(&memory)?;
    (x.dtype() == DType::Float).then(|| all[row.offset()..row.offset() + row.numel()].to_vec())
}

/// The parameters of a call other than tensors.
struct Parameters {
    stride: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
    dilation: Vec<i64>,
    extra: Vec<i64>,
    groups: i64,
    transposed: bool,
}

fn parameters(call: &Call, weight: &Tensor, transposed: Option<bool>) -> Result<Parameters, Stop> {
    let n = weight.rank() - 2;
    let has = |name: &str| call.schema.is_some_and(|schema| schema.formal(name).is_some());
    let optional = |name: &str, least: i64, missing: i64| match has(name) {
        true => parameter(call, name, n, least, &vec![missing; n]),
        false => Ok(vec![missing; n]),
    };
    let dilation = optional("dilation", 1, 1)?;
    let stride = parameter(call, "stride", n, 1, &vec![1; n])?;
    let (before, after) = match call.opt_str("padding")?.as_deref() {
        Some("valid") => (vec![0; n], vec![0; n]),
        Some("same") => {
            check(stride.iter().all(|&s| s == 1), || {
                "padding='same' is not supported for strided convolutions".to_owned()
            })?;
            let total = |i: usize| dilation[i] * (weight.size(i + 2) - 1);
            ((0..n).map(|i| total(i) / 2).collect(), (0..n).map(|i| total(i) - total(i) / 2).collect())
        }
        Some(other) => return Err(Stop::raised(format!("Invalid padding string: '{other}'"))),
        None => {
            let padding = optional("padding", 0, 0)?;
            (padding.clone(), padding)
        }
    };
    let groups = if has("groups") { call.int("groups")? } else { 1 };
    // More groups than channels cannot be; a number beyond that would overflow below.
    check(groups > 0, || "non-positive groups is not supported".to_owned())?;
    check(groups <= LARGEST, || format!("groups should be at most {LARGEST}, but got {groups}"))?;
    let transposed = transposed.map_or_else(|| call.bool("transposed"), Ok)?;
    let extra = optional("output_padding", 0, 0)?;
    Ok(Parameters { stride, before, after, dilation, extra, groups, transposed })
}

/// The convolution of a batch, and the shape of its result.
fn shape_of(x: &Tensor, weight: &Tensor, p: &Parameters) -> Result<(Shape, Vec<i64>), Stop> {
    let n = weight.rank() - 2;
    let channels = if p.transposed { weight.size(0) } else { weight.size(1).saturating_mul(p.groups) };
    check(x.size(1) == channels && weight.size(0) % p.groups == 0, || {
        format!(
            "Given groups={}, {}weight of size {:?}, expected input{:?} to have {channels} channels, but got {} channels instead",
            p.groups,
            if p.transposed { "transposed=1, " } else { "" },
            weight.shape(),
            x.shape(),
            x.size(1)
        )
    })?;
    let mut axes = Vec::new();
    for i in 0..n {
        let (size, kernel) = (sizes(x, n)[i], weight.size(i + 2));
        let reach = p.dilation[i] * (kernel - 1);
        let (input, output) = match p.transposed {
            false => (size, (size + p.before[i] + p.after[i] - reach - 1).div_euclid(p.stride[i]) + 1),
            true => ((size - 1) * p.stride[i] - p.before[i] - p.after[i] + reach + p.extra[i] + 1, size),
        };
        check(
            input >= 0 && output > 0 && kernel > 0 && (p.transposed || size + p.before[i] + p.after[i] > reach),
            || {
                format!(
                    "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
                    size + p.before[i] + p.after[i],
                    reach + 1
                )
            },
        )?;
        check(p.extra[i] < p.stride[i].max(p.dilation[i]), || {
            "output padding must be smaller than either stride or dilation".to_owned()
        })?;
        axes.push(Axis { input, output, kernel, stride: p.stride[i], dilation: p.dilation[i], before: p.before[i] });
    }
    let groups = p.groups as usize;
    let shape = Shape {
        window: window(&axes),
        batches: x.size(0) as usize,
        groups,
        small: weight.size(0) as usize / groups,
        large: weight.size(1) as usize,
    };
    let out_channels = if p.transposed { weight.size(1).saturating_mul(p.groups) } else { weight.size(0) };
    let spatial = axes.iter().map(|axis| if p.transposed { axis.input } else { axis.output });
    let out: Vec<i64> = [x.size(0), out_channels].into_iter().chain(spatial).collect();
    layout::checked(&out)?;
    layout::checked(&[shape.large as i64, shape.taps() as i64, shape.positions() as i64])?;
    Ok((shape, out))
}

/// Input, weight and whether the input has no batch dimension.
fn operands(call: &Call, n: usize) -> Result<(Tensor, Tensor, bool), Stop> {
    let x = call.tensor("input").or_else(|_| call.tensor("self"))?;
    let weight = call.tensor("weight")?;
    let n = if n == 0 { weight.rank().saturating_sub(2) } else { n };
    let fits = weight.rank() == n + 2 && (1..=3).contains(&n) && (x.rank() == n + 2 || x.rank() == n + 1);
    check(fits, || {
        format!(
            "Expected {}D (unbatched) or {}D (batched) input to conv{n}d, but got input of size: {:?}",
            n + 1,
            n + 2,
            x.shape()
        )
    })?;
    check(x.dtype() == weight.dtype(), || {
        let names = (x.dtype().name(), weight.dtype().name());
        format!("Input type ({}) and weight type ({}) should be the same", names.0, names.1)
    })?;
    let single = x.rank() == n + 1;
    Ok((if single { x.unsqueeze(0) } else { x }, weight, single))
}

fn convolve(call: &Call, n: usize, transposed: Option<bool>) -> Answer {
    let (x, weight, single) = operands(call, n)?;
    let p = parameters(call, &weight, transposed)?;
    let (shape, out) = shape_of(&x, &weight, &p)?;
    let bias = call.opt_tensor("bias")?;
    check(bias.as_ref().is_none_or(|bias| bias.rank() == 1 && bias.size(0) == out[1]), || {
        format!("Given weight of size {:?}, expected bias to be 1-dimensional with {} elements", weight.shape(), out[1])
    })?;
    let bias = bias.unwrap_or_else(|| Tensor::zeros(x.dtype(), &[out[1]], call.precision()));
    let result = computed!(call, x.dtype(), &out, [x_at = &x, weights = &weight, biases = &bias], T => {
        let mut result: Vec<T> = vec![T::default(); layout::numel(&out)];
        let per_channel = layout::numel(&out[2..]).max(1);
        for (i, channel) in result.chunks_exact_mut(per_channel).enumerate() {
            channel.fill(biases[i % biases.len()]);
        }
        match p.transposed {
            false => forward(&shape, x_at, weights, &mut result),
            true => backward(&shape, x_at, weights, &mut result),
        }
        result
    });
    let result = placed(result, &x);
    one(if single { result.select(0, 0) } else { result })
}

/// The requested gradients of input, weight and bias.
fn convolution_backward(call: &Call) -> Answer {
    let (x, weight, single) = operands(call, 0)?;
    let grad = call.tensor("grad_output")?;
    let grad = if single { grad.unsqueeze(0) } else { grad };
    let p = parameters(call, &weight, None)?;
    let (shape, out) = shape_of(&x, &weight, &p)?;
    check(grad.shape() == out && grad.dtype() == x.dtype(), || {
        format!("Expected grad_output of shape {out:?}, but got {:?}", grad.shape())
    })?;
    let wanted = call.elements("output_mask")?;
    let wanted = |i: usize| wanted.get(i).and_then(IValue::scalar).is_some_and(|mask| mask.truth());
    let mut results = vec![IValue::Undefined, IValue::Undefined, IValue::Undefined];
    if wanted(0) {
        let result = placed(input_gradient(call, &shape, &grad, &weight, x.shape(), p.transposed), &x);
        results[0] = if single { result.select(0, 0) } else { result }.into();
    }
    if wanted(1) {
        results[1] = placed(weight_gradient(call, &shape, &grad, &x, weight.shape(), p.transposed), &x).into();
    }
    if wanted(2) {
        let dims: Vec<usize> = (0..grad.rank()).filter(|&i| i != 1).collect();
        results[2] = super::elements::sum_over(call, &grad, &dims, false).into();
    }
    several(results)
}

fn input_gradient(call: &Call, shape: &Shape, grad: &Tensor, weight: &Tensor, to: &[i64], transposed: bool) -> Tensor {
    computed!(call, grad.dtype(), to, [grads = grad, weights = weight], T => {
        let mut result: Vec<T> = vec![T::default(); layout::numel(to)];
        match transposed {
            false => backward(shape, grads, weights, &mut result),
            true => forward(shape, grads, weights, &mut result),
        }
        result
    })
}

fn weight_gradient(call: &Call, shape: &Shape, grad: &Tensor, x: &Tensor, to: &[i64], transposed: bool) -> Tensor {
    computed!(call, grad.dtype(), to, [grads = grad, inputs = x], T => {
        let mut result: Vec<T> = vec![T::default(); layout::numel(to)];
        match transposed {
            false => of_weights(shape, grads, inputs, &mut result),
            true => of_weights(shape, inputs, grads, &mut result),
        }
        result
    })
}
