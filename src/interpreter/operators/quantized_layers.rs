//! Convolutions and products with packed weights.
//!
//! Packed weights are objects of PyTorch's classes, here with the attributes `weight`, `bias`,
//! `stride`, `padding`, `dilation` and `groups`. Sums are sums of integers. They are converted to
//! results as FBGEMM does, in single precision: the bias is expressed in steps of the products, the
//! sum multiplied by one number, and rounded to nearest even.

use super::elements::check;
use super::quantized_values::{chosen_for, of_integers, of_tensor};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::{IValue, Object};
use crate::interpreter::stop::Stop;
use crate::symbol::Symbol;
use crate::tensor::quantizer::{clamped, quantized};
use crate::tensor::{DType, Precision, Quantizer, Tensor, layout};
use crate::types::release::Release;
use std::cell::RefCell;
use std::rc::Rc;

/// The rows.
pub(crate) const ROWS: &[Row] = &[
    ("quantized::conv1d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 1)),
    ("quantized::conv2d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 2)),
    ("_quantized::conv2d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 2)),
    ("quantized::linear_prepack", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("_quantized::linear_prepack", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("quantized::linear_prepack_fp16", |call| prepack(call, "LinearPackedParamsBase", 0)),
    ("quantized::conv1d_unpack", unpack),
    ("quantized::conv2d_unpack", unpack),
    ("quantized::linear_unpack", unpack),
    ("quantized::linear_unpack_fp16", unpack),
    ("quantized::conv3d_prepack", |call| prepack(call, "Conv3dPackedParamsBase", 3)),
    ("_quantized::conv3d_prepack", |call| prepack(call, "Conv3dPackedParamsBase", 3)),
    ("quantized::conv_transpose1d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 1)),
    ("quantized::conv_transpose2d_prepack", |call| prepack(call, "Conv2dPackedParamsBase", 2)),
    ("quantized::conv_transpose3d_prepack", |call| prepack(call, "Conv3dPackedParamsBase", 3)),
    ("quantized::conv3d_unpack", unpack),
    ("quantized::conv_transpose1d_unpack", unpack),
    ("quantized::conv_transpose2d_unpack", unpack),
    ("quantized::conv_transpose3d_unpack", unpack),
    ("quantized::conv1d", |call| convolution(call, 1, false)),
    ("quantized::conv1d_relu", |call| convolution(call, 1, true)),
    ("quantized::conv2d", |call| convolution(call, 2, false)),
    ("quantized::conv2d_relu", |call| convolution(call, 2, true)),
    ("_quantized::conv2d", |call| convolution(call, 2, false)),
    ("_quantized::conv2d_relu", |call| convolution(call, 2, true)),
    ("quantized::conv3d", |call| convolution(call, 3, false)),
    ("quantized::conv3d_relu", |call| convolution(call, 3, true)),
    ("_quantized::conv3d", |call| convolution(call, 3, false)),
    ("_quantized::conv3d_relu", |call| convolution(call, 3, true)),
    ("quantized::conv_transpose1d", |call| convolution(call, 1, false)),
    ("quantized::conv_transpose2d", |call| convolution(call, 2, false)),
    ("quantized::conv_transpose3d", |call| convolution(call, 3, false)),
    ("quantized::linear", |call| linear(call, false)),
    ("quantized::linear_relu", |call| linear(call, true)),
    ("_quantized::linear", |call| linear(call, false)),
    ("quantized::linear_dynamic", |call| linear_dynamic(call, false)),
    ("quantized::linear_relu_dynamic", |call| linear_dynamic(call, true)),
    ("_quantized::linear_dynamic", |call| linear_dynamic(call, false)),
    ("quantized::linear_dynamic_fp16", |call| linear_in_halves(call, false)),
    ("quantized::linear_relu_dynamic_fp16", |call| linear_in_halves(call, true)),
];

// ---- packed weights

pub(super) fn object(class: &str, attributes: impl IntoIterator<Item = (&'static str, IValue)>) -> IValue {
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    IValue::Object(Rc::new(Object { class: Symbol::new(class), attributes: RefCell::new(attributes) }))
}

/// An object with a weight, of one of PyTorch's classes.
fn prepack(call: &Call<'_>, class: &str, dims: usize) -> Answer {
    let named = |names: [&'static str; 2]| {
        let schema = call.schema.filter(|schema| schema.formal(names[0]).is_some());
        if schema.is_some() { names[0] } else { names[1] }
    };
    let weight = call.tensor(named(["weight", "W"]))?;
    let bias = call.opt_tensor(named(["bias", "B"]))?;
    let is_fp16 = call.kind().as_str().ends_with("fp16");
    check(weight.dtype().is_quantized() != is_fp16, || {
        format!("`{}` gets a weight of {}", call.kind(), weight.dtype().name())
    })?;
    // Weights in halves are floats that were rounded.
    let weight = match is_fp16 {
        true => weight.converted(DType::Half, Precision::Typed).converted(DType::Float, Precision::Typed),
        false => weight,
    };
    let mut attributes = vec![("weight", IValue::from(weight)), ("bias", IValue::from(bias))];
    if dims > 0 {
        for name in ["stride", "padding", "dilation"] {
            attributes.push((name, IValue::list(call.spatial(name, dims)?)));
        }
        attributes.push(("groups", IValue::Int(call.int("groups")?)));
        if call.kind().as_str().contains("conv_transpose") {
            attributes.push(("output_padding", IValue::list(call.spatial("output_padding", dims)?)));
            attributes.push(("transpose", IValue::Bool(true)));
        }
    }
    one(object(&format!("__torch__.torch.classes.quantized.{class}"), attributes))
}

/// Packed weights among the operands.
pub(super) struct Packed {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Vec<f64>>,
    pub(super) object: Rc<Object>,
}

impl Packed {
    pub(super) fn of(value: &IValue) -> Result<Packed, Stop> {
        let IValue::Object(object) = value else {
            return Err(Stop::unsupported(format!("packed weights that are a {}", value.kind_name())));
        };
        let attributes = object.attributes.borrow();
        let Some(IValue::Tensor(weight)) = attributes.get("weight") else {
            let class = object.class;
            return Err(Stop::unsupported(format!(
                "a `{class}` without `weight`: give it as an object with attributes"
            )));
        };
        let bias = attributes.get("bias").and_then(IValue::tensor).map(|bias| bias.read::<f64>());
        Ok(Packed { weight: weight.clone(), bias, object: object.clone() })
    }

    fn ints(&self, name: &str, otherwise: i64, dims: usize) -> Vec<i64> {
        let ints = |values: &[IValue]| values.iter().filter_map(IValue::scalar).map(|n| n.int()).collect::<Vec<i64>>();
        let given = match self.object.attributes.borrow().get(name) {
            Some(IValue::List(list)) => ints(&list.borrow()),
            Some(IValue::Tuple(parts)) => ints(parts),
            Some(value) => value.scalar().map(|n| vec![n.int()]).unwrap_or_default(),
            None => Vec::new(),
        };
        match given[..] {
            [] => vec![otherwise; dims],
            [n] => vec![n; dims],
            _ => given,
        }
    }

    /// Scale and zero point of the weights of an output channel.
    fn step(&self, channel: usize) -> (f32, i64) {
        match self.weight.quantizer().as_deref() {
            Some(Quantizer::Tensor { scale, zero }) => (*scale as f32, *zero),
            Some(Quantizer::Channels { scales, zeros, .. }) => (
                scales.get(channel).copied().unwrap_or(1.0) as f32,
                zeros.get(channel).copied().unwrap_or_default() as i64,
            ),
            None => (1.0, 0),
        }
    }

    fn bias(&self, channel: usize) -> f32 {
        self.bias.as_ref().and_then(|bias| bias.get(channel)).copied().unwrap_or_default() as f32
    }
}

/// The first operand that is an object.
pub(super) fn packed(call: &Call<'_>) -> Result<Packed, Stop> {
    let object = call.args.iter().find(|value| matches!(value, IValue::Object(_)));
    object.map_or_else(|| Err(Stop::unsupported(format!("`{}` without packed weights", call.kind()))), Packed::of)
}

fn unpack(call: &Call<'_>) -> Answer {
    let packed = packed(call)?;
    let bias = packed.object.attributes.borrow().get("bias").cloned().unwrap_or(IValue::None);
    Ok(smallvec::smallvec![IValue::Tensor(packed.weight), bias])
}

// ---- sums of products

/// The output of a channel to which products add `sum`.
struct Output {
    of_input: f32,
    scale: f32,
    zero: i64,
    dtype: DType,
    floor: i64,
}

impl Output {
    fn of(call: &Call<'_>, of_input: f64, dtype: DType, with_relu: bool) -> Result<Output, Stop> {
        // The last two operands, whatever their names in a version.
        let n = call.args.len();
        let number = |i: usize| {
            let value = call.args.get(i).and_then(IValue::scalar);
            value.ok_or_else(|| Stop::unsupported(format!("`{}` without a scale and a zero point", call.kind())))
        };
        let (scale, zero) = (number(n.wrapping_sub(2))?.real() as f32, number(n.wrapping_sub(1))?.int());
        let floor = if with_relu { zero } else { i64::MIN };
        Ok(Output { of_input: of_input as f32, scale, zero, dtype, floor })
    }

    fn put(&self, packed: &Packed, channel: usize, sum: i64) -> i64 {
        let of_products = self.of_input * packed.step(channel).0;
        let whole = match packed.bias {
            Some(_) => sum as f32 + packed.bias(channel) / of_products,
            None => sum as f32,
        };
        let steps = whole * (of_products / self.scale);
        clamped(f64::from(steps).round_ties_even() + self.zero as f64, self.dtype).max(self.floor)
    }

    fn quantizer(&self, call: &Call<'_>) -> Result<Quantizer, Stop> {
        let scale = call.args.iter().rev().nth(1).and_then(IValue::scalar);
        let scale = scale.ok_or_else(|| Stop::unsupported(format!("`{}` without a scale", call.kind())))?;
        Ok(Quantizer::Tensor { scale: scale.real(), zero: self.zero })
    }
}

pub(super) fn quantized_operand(call: &Call<'_>) -> Result<Tensor, Stop> {
    let x = call.arg(0)?.tensor().cloned().filter(|x| x.dtype().is_quantized());
    x.ok_or_else(|| Stop::raised(format!("`{}` expects a quantised tensor", call.kind())))
}

/// A convolution over `dims` dimensions. It is computed over three: leading ones of size 1 are
/// added.
fn convolution(call: &Call<'_>, dims: usize, with_relu: bool) -> Answer {
    let (x, packed) = (quantized_operand(call)?, packed(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let output = Output::of(call, scale, x.dtype(), with_relu)?;
    check(x.rank() == dims + 2, || format!("`{}` expects {} dimensions, got {}", call.kind(), dims + 2, x.rank()))?;
    check(packed.weight.rank() >= 3, || format!("`{}` expects the weight of a convolution", call.kind()))?;
    let as_volume = |tensor: Tensor| (tensor.rank()..5).fold(tensor, |tensor, _| tensor.unsqueeze(2));
    // Attributes that PyTorch packed have a number for each dimension; those given here may have
    // one for all.
    let triple = |name: &str, otherwise: i64| {
        let given = packed.ints(name, otherwise, dims);
        let mut all = [otherwise; 3];
        for (place, i) in (3 - dims..3).enumerate() {
            // A line is packed as an image with one row: its number is the last one.
            let from = if given.len() > dims { given.len() - dims + place } else { place };
            all[i] = given[from % given.len()];
        }
        all
    };
    let transpose = packed.object.attributes.borrow().get("transpose").and_then(IValue::scalar);
    let window = Window {
        x: as_volume(x.integers()),
        weight: as_volume(packed.weight.integers()),
        zero,
        stride: triple("stride", 1),
        padding: triple("padding", 0),
        dilation: triple("dilation", 1),
        extra: transpose.is_some_and(|yes| yes.truth()).then(|| triple("output_padding", 0)),
        groups: packed.ints("groups", 1, 1)[0].max(1),
    };
    let (sums, shape) = window.sums(&packed)?;
    let inner = shape[2..].iter().product::<i64>().max(1) as usize;
    let channels = shape[1].max(1) as usize;
    let put = |(i, &sum): (usize, &i64)| output.put(&packed, i / inner % channels, sum);
    let integers: Vec<i64> = sums.iter().enumerate().map(put).collect();
    let made = Tensor::of(&integers, x.dtype().memory(), &shape, Precision::Typed);
    let made = made.squeeze(&[2, 3, 4][..3 - dims]);
    let order: Vec<usize> = std::iter::once(0).chain(2..dims + 2).chain([1]).collect();
    let made = made.laid(layout::strides_in_order(made.shape(), &order));
    one(made.quantized(x.dtype(), output.quantizer(call)?))
}

/// The operands of a convolution over three dimensions, as integers.
struct Window {
    x: Tensor,
    weight: Tensor,
    zero: i64,
    stride: [i64; 3],
    padding: [i64; 3],
    dilation: [i64; 3],
    /// The additional output sizes of a transposed convolution.
    extra: Option<[i64; 3]>,
    groups: i64,
}

impl Window {
    /// The sums in logical order, and their shape.
    fn sums(&self, packed: &Packed) -> Result<(Vec<i64>, [i64; 5]), Stop> {
        let (x, w) = (self.x.shape(), self.weight.shape());
        let fits = match self.extra {
            None => w.len() == 5 && x[1] == w[1] * self.groups && w[0] % self.groups == 0,
            Some(_) => w.len() == 5 && x[1] == w[0] && w[0] % self.groups == 0,
        };
        check(fits && self.stride.iter().all(|&n| n > 0), || {
            format!("a weight of {w:?} in {} groups does not fit an image of {x:?}", self.groups)
        })?;
        let size = |k: usize| {
            let reach = self.dilation[k] * (w[2 + k] - 1) + 1;
            match self.extra {
                None => (x[2 + k] + 2 * self.padding[k] - reach).div_euclid(self.stride[k]) + 1,
                Some(extra) => (x[2 + k] - 1) * self.stride[k] - 2 * self.padding[k] + reach + extra[k],
            }
        };
        let channels = if self.extra.is_some() { w[1] * self.groups } else { w[0] };
        let shape = [x[0], channels, size(0), size(1), size(2)];
        check(shape[2..].iter().all(|&n| n > 0), || {
            format!("Kernel size can't be greater than actual input size of {x:?}")
        })?;
        layout::checked(&shape)?;
        let (image, weight) = (self.x.read::<i64>(), self.weight.read::<i64>());
        let mut sums = Vec::with_capacity(layout::numel(&shape));
        for n in 0..shape[0] {
            for channel in 0..shape[1] {
                let of_weight = packed.step(channel as usize).1;
                let each = |at: [i64; 3]| self.sum(&image, &weight, (n, channel, at), of_weight);
                sums.extend(places([shape[2], shape[3], shape[4]]).map(each));
            }
        }
        Ok((sums, shape))
    }

    /// The sum for one element of the result. Elements outside of the image count as 0.
    fn sum(&self, image: &[i64], weight: &[i64], (n, channel, at): (i64, i64, [i64; 3]), of_weight: i64) -> i64 {
        let (x, w) = (self.x.shape(), self.weight.shape());
        let (outputs, inputs) = match self.extra {
            None => (w[0] / self.groups, w[1]),
            Some(_) => (w[1], w[0] / self.groups),
        };
        let first = channel / outputs * inputs;
        let mut sum = 0;
        for c in 0..inputs {
            let (row, column) = match self.extra {
                None => (channel, c),
                Some(_) => (first + c, channel % outputs),
            };
            for tap in places([w[2], w[3], w[4]]) {
                if let Some(from) = self.source(at, tap) {
                    let from = place(&x[2..], from) + (n * x[1] + first + c) * x[2] * x[3] * x[4];
                    let by = place(&w[2..], tap) + (row * w[1] + column) * w[2] * w[3] * w[4];
                    sum += (image[from as usize] - self.zero) * (weight[by as usize] - of_weight);
                }
            }
        }
        sum
    }

    /// The element of the image that a weight element is multiplied by.
    fn source(&self, at: [i64; 3], tap: [i64; 3]) -> Option<[i64; 3]> {
        let mut from = [0; 3];
        for k in 0..3 {
            let moved = tap[k] * self.dilation[k];
            from[k] = match self.extra {
                None => at[k] * self.stride[k] - self.padding[k] + moved,
                Some(_) => {
                    let reached = at[k] + self.padding[k] - moved;
                    if reached % self.stride[k] != 0 {
                        return None;
                    }
                    reached / self.stride[k]
                }
            };
            if !(0..self.x.size(2 + k)).contains(&from[k]) {
                return None;
            }
        }
        Some(from)
    }
}

/// All three-dimensional indices, in logical order.
fn places([a, b, c]: [i64; 3]) -> impl Iterator<Item = [i64; 3]> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k])))
}

fn place(sizes: &[i64], at: [i64; 3]) -> i64 {
    (at[0] * sizes[1] + at[1]) * sizes[2] + at[2]
}

/// Sums of products of rows of integers with rows of the weight, and their shape.
fn row_sums(rows: &[i64], zero: i64, shape: &[i64], packed: &Packed) -> Result<(Vec<i64>, layout::Dims), Stop> {
    let (weight, w) = (packed.weight.integers().read::<i64>(), packed.weight.shape());
    let fits = w.len() == 2 && shape.last() == Some(&w[1]);
    check(fits, || format!("The last dimension of the input, {shape:?}, does not fit a weight of {w:?}"))?;
    let (outputs, inner) = (w[0].max(0) as usize, w[1].max(0) as usize);
    let mut sums = Vec::new();
    let count: i64 = shape[..shape.len() - 1].iter().product();
    for row in 0..count.max(0) as usize {
        for channel in 0..outputs {
            let of_weight = packed.step(channel).1;
            let pairs = rows[row * inner..][..inner].iter().zip(&weight[channel * inner..][..inner]);
            sums.push(pairs.map(|(&x, &w)| (x - zero) * (w - of_weight)).sum());
        }
    }
    let mut of_result: layout::Dims = shape.into();
    if let Some(last) = of_result.last_mut() {
        *last = w[0];
    }
    Ok((sums, of_result))
}

fn linear(call: &Call<'_>, with_relu: bool) -> Answer {
    let (x, packed) = (quantized_operand(call)?, packed(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let output = Output::of(call, scale, x.dtype(), with_relu)?;
    let (sums, shape) = row_sums(&x.integers().read::<i64>(), zero, x.shape(), &packed)?;
    let outputs = packed.weight.size(0).max(1) as usize;
    let put = |(i, &sum): (usize, &i64)| output.put(&packed, i % outputs, sum);
    let integers: Vec<i64> = sums.iter().enumerate().map(put).collect();
    one(of_integers(&integers, x.dtype(), &shape, output.quantizer(call)?))
}

/// The first release that adds the zero point of a product's floats after they are rounded.
const MOVED_AFTER_ROUNDING: Release = Release(2, 14);

/// A product of floats that are quantised dynamically, each tensor by its own smallest and largest
/// element.
pub(super) fn dynamic_product(call: &Call<'_>, x: &Tensor, packed: &Packed, reduced: bool) -> Result<Tensor, Stop> {
    check(x.dtype() == DType::Float, || format!("expected a Float tensor, got {}", x.dtype().name()))?;
    if !packed.weight.dtype().is_quantized() {
        return product_in_halves(x, packed);
    }
    let mut shape: layout::Dims = x.shape().into();
    if x.numel() == 0 {
        if let Some(last) = shape.last_mut() {
            *last = packed.weight.size(0);
        }
        return Ok(Tensor::zeros(DType::Float, &shape, Precision::Typed));
    }
    let (scale, zero) = chosen_for(x, if reduced { (0, 127) } else { (0, 255) })?;
    // FBGEMM quantises the rows while it packs them, and its releases differ in the order of two
    // steps.
    let is_moved_first = call.release() < MOVED_AFTER_ROUNDING;
    let put = |&x: &f64| match is_moved_first {
        true => clamped(f64::from(zero as f32 + x as f32 * (1.0 / scale as f32)), DType::QUInt8),
        false => quantized(x as f32, scale as f32, zero as f64, DType::QUInt8),
    };
    let integers: Vec<i64> = x.read::<f64>().iter().map(put).collect();
    let (sums, shape) = row_sums(&integers, zero, x.shape(), packed)?;
    let outputs = packed.weight.size(0).max(1) as usize;
    let result = |(i, &sum): (usize, &i64)| {
        let channel = i % outputs;
        f64::from(sum as f32 * (scale as f32 * packed.step(channel).0) + packed.bias(channel))
    };
    let numbers: Vec<f64> = sums.iter().enumerate().map(result).collect();
    Ok(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}

/// A product of floats with weights that were rounded to halves.
fn product_in_halves(x: &Tensor, packed: &Packed) -> Result<Tensor, Stop> {
    let (weight, w) = (packed.weight.read::<f64>(), packed.weight.shape());
    check(w.len() == 2 && x.shape().last() == Some(&w[1]), || {
        format!("The last dimension of the input, {:?}, does not fit a weight of {w:?}", x.shape())
    })?;
    let (outputs, inner) = (w[0].max(0) as usize, w[1].max(0) as usize);
    let rows = x.read::<f64>();
    let mut numbers = Vec::new();
    for row in rows.chunks(inner.max(1)) {
        for channel in 0..outputs {
            let sum: f64 = row.iter().zip(&weight[channel * inner..]).map(|(x, w)| x * w).sum();
            numbers.push(sum + f64::from(packed.bias(channel)));
        }
    }
    let mut shape: layout::Dims = x.shape().into();
    if let Some(last) = shape.last_mut() {
        *last = w[0];
    }
    Ok(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}

fn positive(tensor: Tensor) -> Tensor {
    let numbers: Vec<f64> = tensor.read::<f64>().into_iter().map(|x| x.max(0.0)).collect();
    Tensor::of(&numbers, DType::Float, tensor.shape(), Precision::Typed)
}

fn linear_dynamic(call: &Call<'_>, with_relu: bool) -> Answer {
    let result = dynamic_product(call, &call.tensor("X")?, &packed(call)?, call.bool("reduce_range")?)?;
    one(if with_relu { positive(result) } else { result })
}

fn linear_in_halves(call: &Call<'_>, with_relu: bool) -> Answer {
    let result = product_in_halves(&call.tensor("X")?, &packed(call)?)?;
    one(if with_relu { positive(result) } else { result })
}
