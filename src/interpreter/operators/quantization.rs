//! Quantised tensors: construction, access, and the operators that run on them.
//!
//! An operator that only moves elements runs on their integers. Others have rows of their own or
//! run on the dequantised numbers; operators with neither are refused, as in PyTorch.

use super::elements::{check, placed};
use super::memory_order::laid;
use super::quantized_functions::{plus, times};
use super::quantized_values::{chosen_for, dequantized, like_first, of_tensor};
use crate::interpreter::call::{Answer, Call, Kernel, Outs, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::quantizer::clamped;
use crate::tensor::{DType, Precision, Quantizer, Tensor, layout};
use std::rc::Rc;

/// The rows.
pub(crate) const ROWS: &[Row] = &[
    ("aten::quantize_per_tensor", quantize_per_tensor),
    ("aten::quantize_per_channel", quantize_per_channel),
    ("aten::quantize_per_tensor_dynamic", quantize_dynamically),
    ("aten::dequantize", dequantize),
    ("aten::int_repr", |call| one(call.tensor("self")?.integers().copied())),
    ("aten::q_scale", |call| one(of_tensor(&call.tensor("self")?)?.0)),
    ("aten::q_zero_point", |call| one(of_tensor(&call.tensor("self")?)?.1)),
    ("aten::q_per_channel_scales", |call| one(channels(call)?.0)),
    ("aten::q_per_channel_zero_points", |call| one(channels(call)?.1)),
    ("aten::q_per_channel_axis", |call| one(channels(call)?.2)),
    ("aten::qscheme", qscheme),
    ("aten::_make_per_tensor_quantized_tensor", make_per_tensor),
    ("aten::_make_per_channel_quantized_tensor", make_per_channel),
    ("quantized::add", |call| sum(call, false)),
    ("quantized::add_relu", |call| sum(call, true)),
    ("quantized::mul", |call| product(call, false)),
    ("quantized::mul_relu", |call| product(call, true)),
    ("quantized::cat", |call| cat(call, false)),
    ("quantized::cat_relu", |call| cat(call, true)),
    ("quantized::relu6", |call| one(between(call, Some(0.0), Some(6.0))?)),
    ("quantized::sigmoid", |call| rescaled(call, |x| 1.0 / (1.0 + (-x).exp()))),
    ("quantized::hardswish", |call| rescaled(call, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0)),
    ("quantized::leaky_relu", |call| {
        let slope = call.float("negative_slope")? as f32;
        rescaled(call, move |x| if x < 0.0 { x * slope } else { x })
    }),
    ("quantized::batch_norm", |call| batch_norm(call, false)),
    ("quantized::batch_norm_relu", |call| batch_norm(call, true)),
    ("quantized::batch_norm1d", |call| batch_norm(call, false)),
    ("quantized::batch_norm1d_relu", |call| batch_norm(call, true)),
    ("quantized::batch_norm2d", |call| batch_norm(call, false)),
    ("quantized::batch_norm2d_relu", |call| batch_norm(call, true)),
    ("quantized::batch_norm3d", |call| batch_norm(call, false)),
    ("quantized::batch_norm3d_relu", |call| batch_norm(call, true)),
];

/// Operators that read properties of a tensor without its elements, or have rows here.
const PLAIN: &[&str] = &[
    "aten::size",
    "aten::dim",
    "aten::numel",
    "aten::stride",
    "aten::storage_offset",
    "aten::is_contiguous",
    "aten::len",
    "aten::is_floating_point",
    "aten::is_complex",
    "aten::element_size",
    "aten::get_device",
    "aten::item",
    "aten::requires_grad_",
    "aten::cpu",
    "aten::dequantize",
    "aten::int_repr",
    "aten::q_scale",
    "aten::q_zero_point",
    "aten::q_per_channel_scales",
    "aten::q_per_channel_zero_points",
    "aten::q_per_channel_axis",
    "aten::qscheme",
];

/// Operators that move elements: they run on integers, and their results have the quantiser of the
/// operand.
const MOVES: &[&str] = &[
    "aten::view",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::flatten",
    "aten::unflatten",
    "aten::permute",
    "aten::t",
    "aten::transpose",
    "aten::unsqueeze",
    "aten::squeeze",
    "aten::select",
    "aten::slice",
    "aten::narrow",
    "aten::expand",
    "aten::expand_as",
    "aten::view_as",
    "aten::as_strided",
    "aten::chunk",
    "aten::split",
    "aten::split_with_sizes",
    "aten::unbind",
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::alias",
    "aten::index",
    "aten::index_select",
    "aten::repeat",
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::channel_shuffle",
    "aten::flip",
    "aten::dropout",
    "aten::max",
    "aten::min",
    "aten::sort",
    "aten::topk",
    "aten::upsample_nearest2d",
    "aten::upsample_nearest1d",
    "aten::upsample_nearest3d",
    "aten::_upsample_nearest_exact1d",
    "aten::_upsample_nearest_exact2d",
    "aten::_upsample_nearest_exact3d",
    "aten::pixel_shuffle",
    "aten::movedim",
    "aten::unfold",
];

/// Operators of which only those that keep the order of slices run on tensors with scales per
/// channel.
const MOVES_CHANNELS: &[&str] =
    &["aten::clone", "aten::contiguous", "aten::detach", "aten::alias", "aten::select", "aten::slice"];

/// Operators that run on the dequantised numbers and return bools.
const COMPARISONS: &[&str] = &["aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"];

/// Operators that run on the dequantised numbers, and whose results have the quantiser of the
/// operand.
const COMPUTED: &[&str] = &["aten::mean", "aten::leaky_relu", "aten::gelu"];

/// Operators that run on the dequantised numbers, with the fixed scale and the zero point, in 256
/// steps, of their results.
const FIXED: &[(&str, f64, i64)] =
    &[("aten::sigmoid", 1.0 / 256.0, 0), ("aten::tanh", 2.0 / 256.0, 128), ("aten::hardsigmoid", 1.0 / 256.0, 0)];

/// Whether a value is a quantised tensor, or a list of such.
pub(crate) fn holds_quantized(value: &IValue) -> bool {
    match value {
        IValue::Tensor(tensor) => tensor.dtype().is_quantized(),
        IValue::List(list) => {
            list.borrow().iter().any(|value| value.tensor().is_some_and(|tensor| tensor.dtype().is_quantized()))
        }
        _ => false,
    }
}

/// Runs an operator on quantised tensors.
pub(crate) fn run(call: &Call<'_>, kernel: Kernel, in_place: bool) -> Answer {
    let kind = call.kind().as_str();
    let base = if in_place { kind.strip_suffix('_').unwrap_or(kind) } else { kind };
    if base.contains("quantized::") || base.starts_with("prim::") || PLAIN.contains(&base) {
        return kernel(call);
    }
    let first = first_of(call)?;
    let results = match base {
        "aten::relu" => one(between(call, Some(0.0), None)?),
        "aten::relu6" => one(between(call, Some(0.0), Some(6.0))?),
        "aten::clamp" => one(between(call, call.opt_float("min")?, call.opt_float("max")?)?),
        "aten::hardtanh" => one(between(call, call.opt_float("min_val")?, call.opt_float("max_val")?)?),
        "aten::adaptive_avg_pool2d"
        | "aten::_adaptive_avg_pool2d"
        | "aten::avg_pool2d"
        | "aten::adaptive_avg_pool3d"
        | "aten::_adaptive_avg_pool3d"
        | "aten::avg_pool3d" => averaged(call, kernel),
        "aten::upsample_bilinear2d" => interpolated(call, kernel, &first),
        "aten::mean" if is_inner(call, &first) => averaged(call, kernel),
        "aten::cat" | "aten::stack" => joined(call, kernel),
        "aten::copy" | "aten::fill" if in_place => return overwritten(call, &first),
        _ if MOVES.contains(&base) => moved(call, kernel, base),
        _ if COMPARISONS.contains(&base) => computed(call, kernel, &numbers(call)?),
        _ if COMPUTED.contains(&base) => requantized(computed(call, kernel, &numbers(call)?)?, &first, None),
        _ => match FIXED.iter().find(|row| row.0 == base) {
            Some(&(_, scale, zero)) => {
                let zero = zero - if first.dtype() == DType::QInt8 { 128 } else { 0 };
                let to = Quantizer::Tensor { scale, zero };
                requantized(computed(call, kernel, &numbers(call)?)?, &first, Some(to))
            }
            None => {
                Err(Stop::raised(format!("Could not run '{kind}' with arguments from the 'QuantizedCPU' backend.")))
            }
        },
    }?;
    if !in_place {
        return Ok(results);
    }
    if let Some(result) = results.first().and_then(IValue::tensor) {
        first.integers().copy_from(&result.integers())?;
    }
    one(first)
}

/// The result of a kernel on other operands, with the strides that PyTorch gives it.
fn computed(call: &Call<'_>, kernel: Kernel, args: &[IValue]) -> Answer {
    let call = call.with(args);
    Ok(laid(&call, kernel(&call)?))
}

/// The first quantised tensor among the operands.
fn first_of(call: &Call<'_>) -> Result<Tensor, Stop> {
    let within = |value: &IValue| match value {
        IValue::Tensor(tensor) => Some(tensor.clone()),
        IValue::List(list) => list.borrow().iter().find_map(|value| value.tensor().cloned()),
        _ => None,
    };
    let quantized = |value: &&IValue| holds_quantized(value);
    let first = call.args.iter().filter(quantized).find_map(within);
    first.ok_or_else(|| Stop::unsupported(format!("`{}` without a quantised tensor", call.kind())))
}

/// Operands with each quantised tensor replaced.
fn with_each(call: &Call<'_>, put: &dyn Fn(&Tensor) -> Result<Tensor, Stop>) -> Result<Vec<IValue>, Stop> {
    let one = |value: &IValue| match value {
        IValue::Tensor(tensor) if tensor.dtype().is_quantized() => put(tensor).map(IValue::Tensor),
        other => Ok(other.clone()),
    };
    let each = |value: &IValue| match value {
        IValue::List(list) => {
            let elements = list.borrow().iter().map(one).collect::<Result<Vec<_>, _>>()?;
            Ok(IValue::list(elements))
        }
        other => one(other),
    };
    call.args.iter().map(each).collect()
}

fn numbers(call: &Call<'_>) -> Result<Vec<IValue>, Stop> {
    with_each(call, &|tensor| Ok(dequantized(tensor)))
}

// ---- construction

fn checked_dtype(call: &Call<'_>) -> Result<DType, Stop> {
    let dtype = DType::from_code(call.int("dtype")?);
    dtype.filter(|dtype| dtype.is_quantized()).ok_or_else(|| {
        let name = dtype.map_or("", DType::name);
        Stop::raised(format!("ScalarType {name} is not supported in new_qtensor."))
    })
}

fn check_zero(zero: f64, dtype: DType, what: &str) -> Result<(), Stop> {
    let (low, high) = dtype.memory().range().unwrap_or_default();
    let side = if zero > high as f64 { "above upper" } else { "below lower" };
    check((low as f64..=high as f64).contains(&zero), || {
        format!("quantize_tensor_{what}_affine zero_point {zero} is {side} bound.")
    })
}

/// Quantises a tensor of floats.
fn quantized_by(x: &Tensor, quantizer: Quantizer, dtype: DType) -> Result<Tensor, Stop> {
    check(x.dtype() == DType::Float, || format!("Quantize only works on Float Tensor, got {}", x.dtype().name()))?;
    let integers = quantizer.quantize(&x.read::<f64>(), x.shape(), dtype);
    let made = Tensor::of(&integers, dtype.memory(), x.shape(), Precision::Typed);
    let made = placed(made, x).laid(layout::kept_strides(x.shape(), x.strides()));
    Ok(made.quantized(dtype, quantizer))
}

fn quantize_per_tensor(call: &Call<'_>) -> Answer {
    let dtype = checked_dtype(call)?;
    let per_tensor = |x: &Tensor, scale: f64, zero: i64| {
        check_zero(zero as f64, dtype, "per_tensor")?;
        quantized_by(x, Quantizer::Tensor { scale, zero }, dtype)
    };
    if call.schema.is_some_and(|schema| schema.formal("tensors").is_some()) {
        let (scales, zeros) = (call.tensor("scales")?.read::<f64>(), call.tensor("zero_points")?.read::<i64>());
        let tensors = call.tensors("tensors")?;
        check(tensors.len() <= scales.len() && tensors.len() <= zeros.len(), || {
            format!("{} tensors, {} scales and {} zero points", tensors.len(), scales.len(), zeros.len())
        })?;
        let made = tensors.iter().zip(scales).zip(zeros).map(|((x, scale), zero)| per_tensor(x, scale, zero));
        return one(IValue::list(made.collect::<Result<Vec<_>, _>>()?));
    }
    one(per_tensor(&call.tensor("self")?, call.float("scale")?, call.int("zero_point")?)?)
}

/// Scales and zero points of slices, from operands.
fn of_channels(call: &Call<'_>, names: (&str, &str), shape: &[i64]) -> Result<Quantizer, Stop> {
    let (scales, zeros, axis) = (call.tensor(names.0)?, call.tensor(names.1)?, call.int("axis")?);
    check(axis >= 0 && (axis as usize) < shape.len(), || {
        "Channel axis out of range in per channel affine quantization.".to_owned()
    })?;
    let (axis, n) = (axis as usize, shape[axis as usize] as usize);
    check(scales.numel() == n && zeros.numel() == n, || {
        "length of scales and zero_points must equal to channel".to_owned()
    })?;
    let floats = zeros.dtype().is_float();
    Ok(Quantizer::Channels { scales: scales.read(), zeros: zeros.read(), axis, floats })
}

fn quantize_per_channel(call: &Call<'_>) -> Answer {
    let (x, dtype) = (call.tensor("self")?, checked_dtype(call)?);
    let quantizer = of_channels(call, ("scales", "zero_points"), x.shape())?;
    if let Quantizer::Channels { zeros, floats: false, .. } = &quantizer {
        zeros.iter().try_for_each(|&zero| check_zero(zero, dtype, "per_channel"))?;
    }
    one(quantized_by(&x, quantizer, dtype)?)
}

fn quantize_dynamically(call: &Call<'_>) -> Answer {
    let (x, dtype) = (call.tensor("self")?, checked_dtype(call)?);
    let reduced = call.bool("reduce_range")?;
    let (least, most) = dtype.memory().range().unwrap_or_default();
    let range = match (reduced, dtype) {
        (true, DType::QUInt8) => (0, 127),
        (true, DType::QInt8) => (-64, 63),
        _ => (least, most),
    };
    let (scale, zero) = chosen_for(&x, range)?;
    one(quantized_by(&x, Quantizer::Tensor { scale, zero }, dtype)?)
}

fn dequantize(call: &Call<'_>) -> Answer {
    let float = |value: &IValue| match value {
        IValue::Tensor(tensor) if tensor.dtype().is_quantized() => Ok(IValue::Tensor(dequantized(tensor))),
        IValue::Tensor(tensor) => Ok(IValue::Tensor(tensor.converted(DType::Float, call.precision()))),
        other => Err(Stop::unsupported(format!("`aten::dequantize` of a {}", other.kind_name()))),
    };
    match call.arg(0)? {
        IValue::List(list) => one(IValue::list(list.borrow().iter().map(float).collect::<Result<Vec<_>, _>>()?)),
        IValue::Tuple(parts) => one(IValue::tuple(parts.iter().map(float).collect::<Result<Vec<_>, _>>()?)),
        value => Ok(smallvec::smallvec![float(value)?]),
    }
}

fn memory_type(x: &Tensor) -> Result<DType, Stop> {
    let types = [DType::QUInt8, DType::QInt8, DType::QInt32];
    let found = types.into_iter().find(|dtype| dtype.memory() == x.dtype());
    found.ok_or_else(|| Stop::raised(format!("no quantised tensor is kept as {}", x.dtype().name())))
}

fn make_per_tensor(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let quantizer = Quantizer::Tensor { scale: call.float("scale")?, zero: call.int("zero_point")? };
    one(x.copied().quantized(memory_type(&x)?, quantizer))
}

fn make_per_channel(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let quantizer = of_channels(call, ("scale", "zero_point"), x.shape())?;
    one(x.copied().quantized(memory_type(&x)?, quantizer))
}

// ---- access

/// Scales, zero points and axis of a tensor that is quantised per channel.
fn channels(call: &Call<'_>) -> Result<(Tensor, Tensor, usize), Stop> {
    let x = call.tensor("self")?;
    match x.quantizer().as_deref() {
        Some(Quantizer::Channels { scales, zeros, axis, floats }) => {
            let shape = [scales.len() as i64];
            let made = |numbers: &[f64], dtype| Tensor::of(numbers, dtype, &shape, Precision::Typed);
            let (of_scales, of_zeros) =
                if *floats { (DType::Float, DType::Float) } else { (DType::Double, DType::Long) };
            Ok((made(scales, of_scales), made(zeros, of_zeros), *axis))
        }
        _ => Err(Stop::raised("Expected quantizer->qscheme() == kPerChannelAffine to be true, but got false.")),
    }
}

/// The number of the scheme, as `c10::QScheme` counts them.
fn qscheme(call: &Call<'_>) -> Answer {
    one(match call.tensor("self")?.quantizer().as_deref() {
        Some(Quantizer::Tensor { .. }) => 0i64,
        Some(Quantizer::Channels { floats: false, .. }) => 1,
        Some(Quantizer::Channels { floats: true, .. }) => 4,
        None => return Err(Stop::raised("qscheme of a tensor that is not quantised")),
    })
}

// ---- operators of other families

/// Runs on integers: each result with the operand's memory type has its quantiser.
fn moved(call: &Call<'_>, kernel: Kernel, base: &str) -> Answer {
    let first = first_of(call)?;
    let quantizer = first.quantizer();
    if base == "aten::view" && call.look("dtype").is_some() {
        return computed(call, kernel, &with_each(call, &|tensor| Ok(tensor.integers()))?);
    }
    if matches!(quantizer.as_deref(), Some(Quantizer::Channels { .. })) && !MOVES_CHANNELS.contains(&base) {
        return Err(Stop::raised("Setting strides is possible only on uniformly quantized tensor"));
    }
    let results = computed(call, kernel, &with_each(call, &|tensor| Ok(tensor.integers()))?)?;
    let part = quantizer.map(|quantizer| part_of(call, &quantizer, base)).transpose()?;
    let attach = |value: IValue| match (value, &part) {
        (IValue::Tensor(tensor), Some(quantizer)) if tensor.dtype() == first.dtype().memory() => {
            IValue::Tensor(tensor.quantized(first.dtype(), quantizer.clone()))
        }
        (value, _) => value,
    };
    let each = |value: IValue| match value {
        IValue::List(list) => IValue::list(list.borrow().iter().cloned().map(attach).collect::<Vec<_>>()),
        value => attach(value),
    };
    Ok(results.into_iter().map(each).collect::<Outs>())
}

/// The quantiser of a part of a tensor: of a slice along the quantised dimension it is that of the
/// slice.
fn part_of(call: &Call<'_>, quantizer: &Rc<Quantizer>, base: &str) -> Result<Rc<Quantizer>, Stop> {
    let Quantizer::Channels { scales, zeros, axis, floats } = quantizer.as_ref() else { return Ok(quantizer.clone()) };
    if !matches!(base, "aten::select" | "aten::slice") {
        return Ok(quantizer.clone());
    }
    let rank = call.tensor("self")?.rank();
    let dim = layout::wrap(call.int("dim")?, rank)?;
    let n = scales.len() as i64;
    Ok(Rc::new(match base {
        "aten::select" if dim == *axis => {
            let index = call.int("index")?;
            let at = if index < 0 { index + n } else { index } as usize;
            Quantizer::Tensor { scale: scales[at], zero: zeros[at] as i64 }
        }
        "aten::select" => {
            let axis = if dim < *axis { axis - 1 } else { *axis };
            Quantizer::Channels { scales: scales.clone(), zeros: zeros.clone(), axis, floats: *floats }
        }
        _ if dim != *axis => return Ok(quantizer.clone()),
        _ => {
            let bound = |name: &str, otherwise: i64| -> Result<usize, Stop> {
                let at = call.opt_int(name)?.unwrap_or(otherwise);
                Ok((if at < 0 { at + n } else { at }).clamp(0, n) as usize)
            };
            let (start, end, step) = (bound("start", 0)?, bound("end", n)?, call.int("step")?.max(1) as usize);
            let pick = |all: &[f64]| all[start.min(end)..end].iter().step_by(step).copied().collect::<Vec<f64>>();
            Quantizer::Channels { scales: pick(scales), zeros: pick(zeros), axis: *axis, floats: *floats }
        }
    }))
}

/// Results in floats, quantised with the quantiser of an operand or another one.
fn requantized(results: Outs, first: &Tensor, to: Option<Quantizer>) -> Answer {
    let (scale, zero) = of_tensor(first)?;
    let to = to.unwrap_or(Quantizer::Tensor { scale, zero });
    let each = |value: IValue| match value {
        IValue::Tensor(tensor) if tensor.dtype() == DType::Float => {
            quantized_by(&tensor, to.clone(), first.dtype()).map(IValue::Tensor)
        }
        value => Ok(value),
    };
    results.into_iter().map(each).collect()
}

/// Integers clamped to the quantised bounds.
fn between(call: &Call<'_>, low: Option<f64>, high: Option<f64>) -> Result<Tensor, Stop> {
    let x = first_of(call)?;
    let (scale, zero) = of_tensor(&x)?;
    let bound = |number: Option<f64>, otherwise: i64| match number {
        Some(number) => crate::tensor::quantizer::quantized(number as f32, scale as f32, zero as f64, x.dtype()),
        None => otherwise,
    };
    let (low, high) = (bound(low, i64::MIN), bound(high, i64::MAX));
    let integers: Vec<i64> = x.integers().read::<i64>().iter().map(|&q| q.max(low).min(high)).collect();
    let made = Tensor::of(&integers, x.dtype().memory(), x.shape(), Precision::Typed);
    let made = made.laid(layout::kept_strides(x.shape(), x.strides()));
    Ok(made.quantized(x.dtype(), Quantizer::Tensor { scale, zero }))
}

/// Whether a mean is over the last dimensions, contiguous in memory: PyTorch adds integers there.
fn is_inner(call: &Call<'_>, x: &Tensor) -> bool {
    let dims = call.opt_ints("dim").ok().flatten().unwrap_or_default();
    let mut dims = layout::wrap_all(&dims, x.rank()).map(|dims| dims.to_vec()).unwrap_or_default();
    dims.sort_unstable();
    !dims.is_empty() && dims.iter().copied().eq(x.rank() - dims.len()..x.rank()) && x.is_contiguous()
}

/// Means of integers without their zero point, rounded to nearest even.
fn averaged(call: &Call<'_>, kernel: Kernel) -> Answer {
    let first = first_of(call)?;
    let (scale, zero) = of_tensor(&first)?;
    let less = |tensor: &Tensor| {
        let steps: Vec<f64> = tensor.integers().read::<i64>().iter().map(|&q| (q - zero) as f64).collect();
        let made = Tensor::of(&steps, DType::Float, tensor.shape(), Precision::Typed);
        Ok(made.laid(layout::kept_strides(tensor.shape(), tensor.strides())))
    };
    let results = computed(call, kernel, &with_each(call, &less)?)?;
    let means = results.first().and_then(IValue::tensor).ok_or_else(|| Stop::unsupported("a mean of no tensor"))?;
    // Ties differ by kernel: for channels-last tensors a mean is rounded before the zero point is
    // added, else after it.
    let are_channels_last = layout::suggested_order(first.shape(), first.strides()).is_some();
    let put = |x: f64| match are_channels_last {
        true => clamped(f64::from(x as f32).round_ties_even() + zero as f64, first.dtype()),
        false => clamped(f64::from(x as f32 + zero as f32), first.dtype()),
    };
    let integers: Vec<i64> = means.read::<f64>().into_iter().map(put).collect();
    let made = Tensor::of(&integers, first.dtype().memory(), means.shape(), Precision::Typed);
    one(made.laid(means.strides().into()).quantized(first.dtype(), Quantizer::Tensor { scale, zero }))
}

/// Weighted sums of integers, minus their zero point before they are rounded: the results have the
/// quantiser of the operand.
fn interpolated(call: &Call<'_>, kernel: Kernel, first: &Tensor) -> Answer {
    let (scale, zero) = of_tensor(first)?;
    let as_floats = |tensor: &Tensor| Ok(tensor.integers().converted(DType::Float, Precision::Typed));
    let results = computed(call, kernel, &with_each(call, &as_floats)?)?;
    let sums = results.first().and_then(IValue::tensor).ok_or_else(|| Stop::unsupported("an image of no tensor"))?;
    let put = |x: f64| clamped(f64::from(x as f32 - zero as f32).round_ties_even() + zero as f64, first.dtype());
    let integers: Vec<i64> = sums.read::<f64>().into_iter().map(put).collect();
    let made = Tensor::of(&integers, first.dtype().memory(), sums.shape(), Precision::Typed);
    one(made.laid(sums.strides().into()).quantized(first.dtype(), Quantizer::Tensor { scale, zero }))
}

/// Overwrites a tensor with numbers or another quantised tensor.
fn overwritten(call: &Call<'_>, first: &Tensor) -> Answer {
    let (scale, zero) = of_tensor(first)?;
    match call.arg(1)? {
        IValue::Tensor(source) if source.dtype().is_quantized() => {
            check(source.quantizer() == first.quantizer(), || {
                "a quantised tensor is copied to one of another scale or zero point".to_owned()
            })
            .map_err(|_| Stop::unsupported("`aten::copy_` between tensors of two scales"))?;
            first.integers().copy_from(&source.integers())?;
        }
        value => {
            let numbers = match value {
                IValue::Tensor(source) => source.converted(DType::Float, Precision::Typed),
                other => {
                    let number = other.scalar().ok_or_else(|| Stop::unsupported("`aten::fill_` with no number"))?;
                    Tensor::scalar(number, DType::Float, Precision::Typed)
                }
            };
            let source = quantized_by(&numbers, Quantizer::Tensor { scale, zero }, first.dtype())?;
            first.integers().copy_from(&source.integers())?;
        }
    }
    one(first.clone())
}

/// `aten::cat` and `aten::stack`: tensors with another quantiser than the first are quantised
/// again.
fn joined(call: &Call<'_>, kernel: Kernel) -> Answer {
    let first = first_of(call)?;
    let (scale, zero) = of_tensor(&first)?;
    let to = Quantizer::Tensor { scale, zero };
    let put = |tensor: &Tensor| {
        check(tensor.dtype() == first.dtype(), || "All tensors must have the same type".to_owned())?;
        match tensor.quantizer().as_deref() == Some(&to) {
            true => Ok(tensor.integers()),
            false => Ok(quantized_by(&dequantized(tensor), to.clone(), first.dtype())?.integers()),
        }
    };
    let joined = computed(call, kernel, &with_each(call, &put)?)?;
    let joined = joined.first().and_then(IValue::tensor).ok_or_else(|| Stop::unsupported("a list without tensors"))?;
    one(joined.quantized(first.dtype(), to))
}

// ---- quantized::

/// The scale and zero point that an operator gives its results; those of an operand by default.
fn wanted(call: &Call<'_>, otherwise: &Tensor) -> Result<Quantizer, Stop> {
    let given =
        |names: [&'static str; 2]| names.into_iter().find(|name| call.look(name).is_some_and(|value| !value.is_none()));
    let (scale, zero) = (given(["scale", "output_scale"]), given(["zero_point", "output_zero_point"]));
    let of_operand = of_tensor(otherwise)?;
    Ok(Quantizer::Tensor {
        scale: scale.map_or(Ok(of_operand.0), |name| call.float(name))?,
        zero: zero.map_or(Ok(of_operand.1), |name| call.int(name))?,
    })
}

/// Two operands of one quantised type, broadcast to a common shape.
fn pair(call: &Call<'_>) -> Result<(Tensor, Tensor), Stop> {
    let (a, b) = (call.tensor("qa")?, call.tensor("qb")?);
    check(a.dtype().is_quantized() && a.dtype() == b.dtype(), || {
        "Add operands should have same data type.".to_owned()
    })?;
    let shape = layout::broadcast(a.shape(), b.shape())?;
    Ok((a.broadcast_to(&shape)?, b.broadcast_to(&shape)?))
}

fn sum(call: &Call<'_>, with_relu: bool) -> Answer {
    if call.look("qb").is_none() {
        return plus(call, with_relu);
    }
    let (a, b) = pair(call)?;
    let to = match call.look("out").and_then(IValue::tensor) {
        Some(out) => Quantizer::Tensor { scale: of_tensor(out)?.0, zero: of_tensor(out)?.1 },
        None => wanted(call, &a)?,
    };
    let (x, y) = (dequantized(&a).read::<f64>(), dequantized(&b).read::<f64>());
    let floor = if with_relu { 0.0 } else { f32::NEG_INFINITY };
    let sums: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| f64::from((x as f32 + y as f32).max(floor))).collect();
    let integers = to.quantize(&sums, a.shape(), a.dtype());
    let made = like_first(&a, &integers, a.shape(), to);
    if let Some(out) = call.look("out").and_then(IValue::tensor) {
        out.integers().copy_from(&made.integers())?;
        return one(out.clone());
    }
    one(made)
}

fn product(call: &Call<'_>, with_relu: bool) -> Answer {
    if call.look("qb").is_none() {
        return times(call, with_relu);
    }
    let (a, b) = pair(call)?;
    let to = wanted(call, &a)?;
    let ((scale_a, zero_a), (scale_b, zero_b)) = (of_tensor(&a)?, of_tensor(&b)?);
    let (scale, zero) = to.of_tensor().unwrap_or((1.0, 0));
    let multiplier = scale_a as f32 * scale_b as f32 * (1.0 / scale as f32);
    let (x, y) = (a.integers().read::<i64>(), b.integers().read::<i64>());
    let floor = if with_relu { zero } else { i64::MIN };
    let put = |(&x, &y): (&i64, &i64)| {
        let product = ((x - zero_a) * (y - zero_b)) as f32 * multiplier;
        clamped(f64::from(product).round_ties_even() + zero as f64, a.dtype()).max(floor)
    };
    let integers: Vec<i64> = x.iter().zip(&y).map(put).collect();
    one(like_first(&a, &integers, a.shape(), to))
}

fn cat(call: &Call<'_>, with_relu: bool) -> Answer {
    let parts = call.tensors("qx")?;
    let first = parts.first().ok_or_else(|| Stop::raised("quantized::cat of no tensors"))?.clone();
    let to = wanted(call, &first)?;
    let dim = layout::wrap(call.int("dim")?, first.rank())?;
    let mut shape: layout::Dims = first.shape().into();
    shape[dim] = parts.iter().map(|part| part.size(dim)).sum();
    let whole = Tensor::zeros(first.dtype().memory(), &shape, Precision::Typed);
    let floor = if with_relu { to.of_tensor().map_or(0, |(_, zero)| zero) } else { i64::MIN };
    let mut start = 0;
    for part in &parts {
        let integers = match part.quantizer().as_deref() == Some(&to) {
            true => part.integers().read::<i64>(),
            false => to.quantize(&dequantized(part).read::<f64>(), part.shape(), first.dtype()),
        };
        let slot = whole.narrow(dim, start, part.size(dim), 1);
        check(slot.shape() == part.shape(), || "Sizes of tensors must match except in one dimension".to_owned())?;
        slot.write(&integers.iter().map(|&q| q.max(floor)).collect::<Vec<i64>>());
        start += part.size(dim);
    }
    one(whole.quantized(first.dtype(), to))
}

/// A function of the dequantised numbers, with its own scale and zero point.
fn rescaled(call: &Call<'_>, f: impl Fn(f32) -> f32) -> Answer {
    let x = first_of(call)?;
    let to = wanted(call, &x)?;
    let numbers: Vec<f64> = dequantized(&x).read::<f64>().iter().map(|&x| f64::from(f(x as f32))).collect();
    let integers = to.quantize(&numbers, x.shape(), x.dtype());
    one(like_first(&x, &integers, x.shape(), to))
}

/// A norm with given statistics is a product and a sum per channel.
fn batch_norm(call: &Call<'_>, with_relu: bool) -> Answer {
    let x = call.tensor("qx")?;
    check(x.rank() > 1, || format!("`{}` expects a batch with channels", call.kind()))?;
    let to = wanted(call, &x)?;
    let of = |name: &str, otherwise: f64| -> Result<Vec<f64>, Stop> {
        let given = call.opt_tensor(name)?.map(|tensor| tensor.read::<f64>());
        Ok(given.unwrap_or_else(|| vec![otherwise; x.size(1).max(0) as usize]))
    };
    let (weight, bias, mean, var) = (of("weight", 1.0)?, of("bias", 0.0)?, of("mean", 0.0)?, of("var", 1.0)?);
    let n = x.size(1).max(0) as usize;
    check([&weight, &bias, &mean, &var].iter().all(|all| all.len() == n), || {
        format!("`{}` expects a batch with channels, and statistics of each channel", call.kind())
    })?;
    let (eps, inner) = (call.float("eps")?, x.shape()[2..].iter().product::<i64>().max(1) as usize);
    let ((scale, zero), (out_scale, out_zero)) = (of_tensor(&x)?, to.of_tensor().unwrap_or((1.0, 0)));
    let floor = if with_relu { out_zero } else { i64::MIN };
    let put = |(i, q): (usize, i64)| {
        let channel = i / inner % n;
        let inverse = 1.0 / (var[channel] + eps).sqrt();
        let alpha = inverse * weight[channel] * (scale / out_scale);
        let beta = (bias[channel] - mean[channel] * inverse * weight[channel]) / out_scale;
        let moved = (alpha as f32 * (q - zero) as f32) + beta as f32;
        clamped(f64::from(moved).round_ties_even() + out_zero as f64, x.dtype()).max(floor)
    };
    let integers: Vec<i64> = x.integers().read::<i64>().into_iter().enumerate().map(put).collect();
    let made = Tensor::of(&integers, x.dtype().memory(), x.shape(), Precision::Typed);
    let order: Vec<usize> = std::iter::once(0).chain(2..x.rank()).chain([1]).collect();
    several([made.laid(layout::strides_in_order(x.shape(), &order)).quantized(x.dtype(), to)])
}
