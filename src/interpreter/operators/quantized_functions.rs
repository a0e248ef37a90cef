//! Operators of `quantized::` with their own scale: sums and products with a number, activations,
//! norms and embeddings.
//!
//! Adding or multiplying by a number changes the scale and the zero point instead of the integers
//! where that is exact. Norms compute their statistics from the integers.

use super::elements::check;
use super::quantized_layers::{object, quantized_operand};
use super::quantized_values::{dequantized, like_first, of_integers, of_tensor};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::quantizer::clamped;
use crate::tensor::{DType, Precision, Quantizer, Tensor, layout};

/// The rows.
pub(crate) const ROWS: &[Row] = &[
    ("quantized::add_scalar", |call| plus(call, false)),
    ("quantized::add_scalar_relu", |call| plus(call, true)),
    ("quantized::mul_scalar", |call| times(call, false)),
    ("quantized::mul_scalar_relu", |call| times(call, true)),
    ("quantized::elu", |call| {
        elu(call, [number(call, "alpha")?, number(call, "scale")?, number(call, "input_scale")?])
    }),
    ("quantized::celu", |call| {
        let alpha = number(call, "alpha")?;
        elu(call, [alpha, 1.0, 1.0 / alpha])
    }),
    ("quantized::prelu", prelu),
    ("quantized::layer_norm", |call| {
        let x = quantized_operand(call)?;
        let inner: i64 = call.ints("normalized_shape")?.iter().product();
        norm(call, &x, inner, 1)
    }),
    ("quantized::group_norm", |call| {
        let x = quantized_operand(call)?;
        let groups = call.int("num_groups")?.max(1);
        norm(call, &x, x.numel() as i64 / (x.size(0) * groups).max(1), groups)
    }),
    ("quantized::instance_norm", |call| {
        let x = quantized_operand(call)?;
        check(x.rank() > 1, || format!("`{}` expects a batch with channels", call.kind()))?;
        norm(call, &x, x.shape()[2..].iter().product(), x.size(1))
    }),
    ("quantized::embedding_bag_prepack", |call| {
        let class = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase";
        one(object(class, [("weight", IValue::from(call.tensor("weight")?))]))
    }),
    ("quantized::embedding_bag_unpack", |call| one(embedding_weight(call)?)),
    ("quantized::embedding_byte", embedding),
    ("quantized::embedding_bag_byte", embedding_bag),
];

fn number(call: &Call<'_>, name: &str) -> Result<f32, Stop> {
    Ok(call.opt_scalar(name)?.map_or(1.0, |number| number.real()) as f32)
}

/// The scale and the zero point among the operands.
fn given(call: &Call<'_>) -> Result<(f64, i64), Stop> {
    Ok((call.float("output_scale")?, call.int("output_zero_point")?))
}

/// The number that a tensor is added to or multiplied by.
fn other(call: &Call<'_>) -> Result<f64, Stop> {
    call.opt_scalar("b")?
        .map(|number| number.real())
        .ok_or_else(|| Stop::unsupported(format!("`{}` without a number", call.kind())))
}

// ---- with a number

/// A sum moves the zero point; if that leaves the range of the integers, they are quantised again.
pub(super) fn plus(call: &Call<'_>, with_relu: bool) -> Answer {
    let (x, b) = (quantized_operand(call)?, other(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let (least, most) = x.dtype().memory().range().unwrap_or_default();
    let steps = (b / scale).round_ties_even() as i64;
    let moved = zero.saturating_sub(steps);
    let range = most as f64 - least as f64;
    let (to_scale, to_zero) = match moved {
        _ if moved < least => ((most as f64 - moved as f64) / range * scale, least),
        _ if moved > most => ((moved as f64 - least as f64) / range * scale, most),
        _ => (scale, moved),
    };
    let multiplier = scale as f32 * (1.0 / to_scale as f32);
    let floor = if with_relu { to_zero } else { i64::MIN };
    let put = |&q: &i64| {
        let q = match to_zero == moved {
            true => q,
            false => {
                let sum = (q - zero).saturating_add(steps) as f32 * multiplier;
                clamped(f64::from(sum).round_ties_even() + to_zero as f64, x.dtype())
            }
        };
        q.max(floor)
    };
    let integers: Vec<i64> = x.integers().read::<i64>().iter().map(put).collect();
    one(like_first(&x, &integers, x.shape(), Quantizer::Tensor { scale: to_scale, zero: to_zero }))
}

/// A product changes the scale; one with a negative number mirrors the integers, too.
pub(super) fn times(call: &Call<'_>, with_relu: bool) -> Answer {
    let (x, b) = (quantized_operand(call)?, other(call)?);
    let (scale, zero) = of_tensor(&x)?;
    let (least, most) = x.dtype().memory().range().unwrap_or_default();
    let (to_scale, to_zero) = match b {
        0.0 => (1.0, 0),
        _ if b > 0.0 => (b * scale, zero),
        _ => (b.abs() * scale, most - (zero - least)),
    };
    let floor = if with_relu { to_zero } else { i64::MIN };
    let put = |&q: &i64| {
        let q = match b {
            0.0 => 0,
            _ if b > 0.0 => q,
            _ => most + least - q,
        };
        q.max(floor)
    };
    let integers: Vec<i64> = x.integers().read::<i64>().iter().map(put).collect();
    one(like_first(&x, &integers, x.shape(), Quantizer::Tensor { scale: to_scale, zero: to_zero }))
}

// ---- activations

/// Quantises numbers with the scale among the operands, in the memory order of the first operand.
fn put(call: &Call<'_>, x: &Tensor, numbers: &[f64]) -> Answer {
    let (scale, zero) = given(call)?;
    let to = Quantizer::Tensor { scale, zero };
    let integers = to.quantize(numbers, x.shape(), x.dtype());
    one(like_first(x, &integers, x.shape(), to))
}

fn elu(call: &Call<'_>, [alpha, scale, input_scale]: [f32; 3]) -> Answer {
    let x = quantized_operand(call)?;
    let f = |&x: &f64| {
        let x = x as f32;
        f64::from(if x >= 0.0 { x * scale } else { ((x * input_scale).exp() - 1.0) * (alpha * scale) })
    };
    let numbers: Vec<f64> = dequantized(&x).read::<f64>().iter().map(f).collect();
    put(call, &x, &numbers)
}

/// The weight is one number, or one for each channel.
fn prelu(call: &Call<'_>) -> Answer {
    let (x, weight) = (quantized_operand(call)?, call.tensor("weight")?);
    let weight = dequantized(&weight).read::<f64>();
    let channels = if x.rank() > 1 { x.size(1) } else { 1 };
    check(weight.len() == 1 || weight.len() as i64 == channels, || {
        format!("Mismatch of parameter numbers and input channel size: {} and {channels}", weight.len())
    })?;
    let inner = x.shape().iter().skip(2).product::<i64>().max(1) as usize;
    let f = |(i, &x): (usize, &f64)| {
        let slope = weight[i / inner % weight.len()] as f32;
        f64::from(if x > 0.0 { x as f32 } else { x as f32 * slope })
    };
    let numbers: Vec<f64> = dequantized(&x).read::<f64>().iter().enumerate().map(f).collect();
    put(call, &x, &numbers)
}

// ---- norms

/// A norm over blocks of `inner` contiguous elements, with weights per element, or per channel if
/// there are groups.
fn norm(call: &Call<'_>, x: &Tensor, inner: i64, groups: i64) -> Answer {
    let (scale, _) = of_tensor(x)?;
    let inner = inner.max(1) as usize;
    let of = |name: &str| -> Result<Option<Vec<f64>>, Stop> {
        Ok(call.opt_tensor(name)?.map(|tensor| dequantized(&tensor).read::<f64>()))
    };
    let (weight, bias) = (of("weight")?, of("bias")?);
    let eps = call.float("eps")?;
    let is_by_channel = !call.kind().as_str().ends_with("layer_norm");
    let area = x.shape().iter().skip(2).product::<i64>().max(1) as usize;
    let channels = x.shape().get(1).copied().unwrap_or(1).max(1) as usize;
    let many = if is_by_channel { channels } else { inner };
    let fits = x.numel().is_multiple_of(inner) && (!is_by_channel || (channels as i64) % groups == 0);
    check(fits && [&weight, &bias].into_iter().flatten().all(|all| all.len() == many), || {
        format!("weights of `{}` do not fit an operand of shape {:?}", call.kind(), x.shape())
    })?;
    let steps = x.integers().read::<i64>();
    let mut numbers = Vec::with_capacity(steps.len());
    for row in steps.chunks(inner) {
        let n = row.len() as f64;
        let mean = row.iter().sum::<i64>() as f64 / n;
        let variance = (row.iter().map(|q| (q * q) as f64).sum::<f64>() / n - mean * mean).max(0.0) * scale * scale;
        let by = (scale / (variance + eps).sqrt()) as f32;
        for &q in row {
            let i = numbers.len();
            let at = if is_by_channel { i / area % channels } else { i % inner };
            let of = |all: &Option<Vec<f64>>, otherwise| all.as_ref().map_or(otherwise, |all| all[at] as f32);
            numbers.push(f64::from((q as f32 - mean as f32) * by * of(&weight, 1.0) + of(&bias, 0.0)));
        }
    }
    let (scale, zero) = given(call)?;
    let to = Quantizer::Tensor { scale, zero };
    one(of_integers(&to.quantize(&numbers, x.shape(), x.dtype()), x.dtype(), x.shape(), to))
}

// ---- embeddings

/// The weight of packed embeddings.
fn embedding_weight(call: &Call<'_>) -> Result<Tensor, Stop> {
    let found = call.args.iter().find_map(|value| match value {
        IValue::Object(object) => object.attributes.borrow().get("weight").and_then(IValue::tensor).cloned(),
        _ => None,
    });
    let weight = found.ok_or_else(|| Stop::unsupported(format!("`{}` without packed weights", call.kind())))?;
    check(weight.dtype() == DType::QUInt8 && weight.rank() == 2, || {
        format!("`{}` expects a matrix of quint8, got {}", call.kind(), weight.dtype().name())
    })?;
    Ok(weight)
}

/// Rows of a weight as floats: an integer times the scale, minus the scale times the zero point.
fn rows(call: &Call<'_>) -> Result<(Vec<f64>, Tensor), Stop> {
    if call.bool("pruned_weights")? {
        return Err(Stop::unsupported(format!("`{}` of pruned weights", call.kind())));
    }
    let weight = embedding_weight(call)?;
    Ok((dequantized(&weight).read::<f64>(), weight))
}

fn row_of<'a>(all: &'a [f64], weight: &Tensor, index: i64) -> Result<&'a [f64], Stop> {
    let width = weight.size(1).max(0) as usize;
    check((0..weight.size(0)).contains(&index), || {
        format!("index {index} is out of range for an embedding of {} rows", weight.size(0))
    })?;
    Ok(&all[index as usize * width..][..width])
}

fn embedding(call: &Call<'_>) -> Answer {
    let ((all, weight), indices) = (rows(call)?, call.tensor("indices")?);
    let mut numbers = Vec::new();
    for index in indices.read::<i64>() {
        numbers.extend_from_slice(row_of(&all, &weight, index)?);
    }
    let mut shape: layout::Dims = indices.shape().into();
    shape.push(weight.size(1));
    one(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}

/// Sums of rows: for each row of a matrix of indices, or between offsets.
fn embedding_bag(call: &Call<'_>) -> Answer {
    let ((all, weight), indices) = (rows(call)?, call.tensor("indices")?);
    let is_compressed = call.look("compressed_indices_mapping").is_some_and(|value| !value.is_none());
    if is_compressed {
        return Err(Stop::unsupported(format!("`{}` with compressed indices", call.kind())));
    }
    let offsets: Vec<i64> = match (call.opt_tensor("offsets")?, indices.rank()) {
        (None, 2) => (0..=indices.size(0)).map(|i| i * indices.size(1)).collect(),
        (Some(offsets), 1) => {
            let mut offsets = offsets.read::<i64>();
            if !call.bool("include_last_offset")? {
                offsets.push(indices.numel() as i64);
            }
            offsets
        }
        _ => return Err(Stop::raised("embedding_bag_byte operator supports 1D indices with offsets, or 2D without")),
    };
    let factors = call.opt_tensor("per_sample_weights")?.map(|weights| weights.read::<f64>());
    let (indices, width) = (indices.read::<i64>(), weight.size(1).max(0) as usize);
    let mut numbers = Vec::new();
    for bag in offsets.windows(2) {
        check(0 <= bag[0] && bag[0] <= bag[1] && bag[1] as usize <= indices.len(), || {
            format!("offsets {bag:?} of {} indices", indices.len())
        })?;
        let mut sums = vec![0.0; width];
        let range = bag[0] as usize..bag[1] as usize;
        for (i, &index) in range.clone().zip(&indices[range]) {
            let factor = factors.as_ref().map_or(1.0, |all| all.get(i).copied().unwrap_or(1.0));
            let row = row_of(&all, &weight, index)?;
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * x);
        }
        numbers.extend(sums);
    }
    let shape = [offsets.len().saturating_sub(1) as i64, width as i64];
    one(Tensor::of(&numbers, DType::Float, &shape, Precision::Typed))
}
