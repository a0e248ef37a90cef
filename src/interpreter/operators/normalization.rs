//! Normalisation by statistics: batch, layer, group, instance.
//!
//! Each of them normalises rows of elements: all of a channel, of an example, of a group of
//! channels. Variances are the mean of squared differences; running variances, as in PyTorch, are
//! divided by one less.

use super::elements::{check, deviations, floats, like};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::Rows;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::batch_norm", |call| one(batch_norm(call, call.bool("training")?)?.out)),
    ("aten::native_batch_norm", |call| native_batch_norm(call, call.bool("training")?)),
    ("aten::_native_batch_norm_legit", |call| native_batch_norm(call, call.bool("training")?)),
    ("aten::_native_batch_norm_legit_no_training", |call| native_batch_norm(call, false)),
    ("aten::_native_batch_norm_legit_functional", |_| Err(Stop::unsupported("functional batch norm"))),
    ("aten::_batch_norm_impl_index", batch_norm_impl_index),
    ("aten::instance_norm", instance_norm),
    ("aten::layer_norm", |call| one(layer_norm(call)?.0)),
    ("aten::native_layer_norm", native_layer_norm),
    ("aten::group_norm", group_norm),
    ("aten::native_group_norm", native_group_norm),
    ("aten::rms_norm", rms_norm),
];

/// Mean and reciprocal standard deviation of a row.
#[derive(Clone, Copy, Debug)]
struct Stats {
    mean: f64,
    variance: f64,
}

impl Stats {
    fn of(row: &[f64]) -> Stats {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let (squares, sum) = deviations(row, mean, |x| x * x);
        Stats { mean: if sum.is_finite() { mean + sum / n } else { mean }, variance: squares / n }
    }

    fn inverse(self, eps: f64) -> f64 {
        1.0 / (self.variance + eps).sqrt()
    }

    fn normalize(self, row: &mut [f64], eps: f64, weight: f64, bias: f64) {
        let inverse = self.inverse(eps);
        for x in row {
            *x = (*x - self.mean) * inverse * weight + bias;
        }
    }
}

/// One number per channel; `default` for all without a tensor.
fn per_channel(call: &Call, name: &str, channels: usize, default: f64) -> Result<Vec<f64>, Stop> {
    let Some(tensor) = call.opt_tensor(name)? else { return Ok(vec![default; channels]) };
    check(tensor.numel() == channels, || format!("{name} should contain {channels} elements not {}", tensor.numel()))?;
    Ok(tensor.read())
}

/// Weight and bias have the type of the input, or are floats for 16-bit floats.
fn check_parameters(call: &Call, x: &Tensor) -> Result<(), Stop> {
    let parameters = [call.opt_tensor("weight")?, call.opt_tensor("bias")?];
    let mut types = parameters.iter().flatten().map(Tensor::dtype);
    let Some(first) = types.next() else { return Ok(()) };
    if first == x.dtype() {
        return check(types.all(|other| other == first), || {
            let found = parameters[1].as_ref().map_or("", |bias| bias.dtype().name());
            format!("expected scalar type {} but found {found}", first.name())
        });
    }
    check(first == DType::Float && types.all(|other| other == first), || {
        "mixed dtype (CPU): expect parameter to have scalar type of Float".to_owned()
    })?;
    check(x.dtype().is_short_float(), || "mixed dtype (CPU): all inputs must share same datatype.".to_owned())
}

/// The result of batch normalisation.
struct Batch {
    out: Tensor,
    /// Mean and reciprocal deviation of each channel; only in training.
    saved: Option<(Vec<f64>, Vec<f64>)>,
    dtype: DType,
}

/// Channels are dimension 1. Running statistics are written in training.
fn batch_norm(call: &Call, training: bool) -> Result<Batch, Stop> {
    let x = call.tensor("input")?;
    floats("batch_norm", &x)?;
    check_parameters(call, &x)?;
    check(x.rank() >= 2, || {
        format!("Expected more than 1 value per channel when training, got input size {:?}", x.shape())
    })?;
    let (eps, channels) = (call.float("eps")?, x.size(1) as usize);
    let dims: Vec<usize> = (0..x.rank()).filter(|&i| i != 1).collect();
    let mut rows = Rows::<f64>::along(&x, &dims);
    let (weight, bias) = (per_channel(call, "weight", channels, 1.0)?, per_channel(call, "bias", channels, 0.0)?);
    let running = |name, default| per_channel(call, name, channels, default);
    let stats: Vec<Stats> = match training {
        true => rows.iter().map(Stats::of).collect(),
        false => {
            let known = call.opt_tensor("running_mean")?.is_some() && call.opt_tensor("running_var")?.is_some();
            check(known, || "running_mean and running_var must be defined in evaluation mode".to_owned())?;
            let (means, variances) = (running("running_mean", 0.0)?, running("running_var", 1.0)?);
            means.into_iter().zip(variances).map(|(mean, variance)| Stats { mean, variance }).collect()
        }
    };
    if training {
        update_running(call, &stats, rows.len, 1)?;
    }
    for (i, row) in rows.iter_mut().enumerate() {
        stats[i].normalize(row, eps, weight[i], bias[i]);
    }
    let mut shape = vec![x.size(1)];
    shape.extend(dims.iter().map(|&i| x.size(i)));
    let mut back: Vec<usize> = (1..x.rank()).collect();
    back.insert(1, 0);
    let out = like(call, &rows.elements, x.dtype(), &shape, &x).permute(&back).contiguous();
    let saved = training.then(|| {
        (stats.iter().map(|stats| stats.mean).collect(), stats.iter().map(|stats| stats.inverse(eps)).collect())
    });
    Ok(Batch { out, saved, dtype: x.dtype() })
}

/// Moves running statistics towards those of the batch, which has `repeats` times as many rows as
/// there are channels.
fn update_running(call: &Call, stats: &[Stats], len: usize, repeats: usize) -> Result<(), Stop> {
    let momentum = call.float("momentum")?;
    let channels = stats.len() / repeats.max(1);
    let unbiased = len as f64 / (len as f64 - 1.0);
    let average = |channel: usize, f: &dyn Fn(&Stats) -> f64| {
        (0..repeats).map(|i| f(&stats[i * channels + channel])).sum::<f64>() / repeats as f64
    };
    let mean = |stats: &Stats| stats.mean;
    let variance = |stats: &Stats| stats.variance * unbiased;
    for (name, f) in [("running_mean", &mean as &dyn Fn(&Stats) -> f64), ("running_var", &variance)] {
        let Some(running) = call.opt_tensor(name)? else { continue };
        let old = per_channel(call, name, channels, 0.0)?;
        let new: Vec<f64> =
            old.iter().enumerate().map(|(i, x)| (1.0 - momentum) * x + momentum * average(i, f)).collect();
        running.write(&new);
    }
    Ok(())
}

/// Result and saved statistics. In evaluation the latter are empty; up to 1.4 undefined.
fn saved(call: &Call, batch: &Batch) -> Vec<IValue> {
    let stats =
        |numbers: &[f64]| -> IValue { like(call, numbers, batch.dtype, &[numbers.len() as i64], &batch.out).into() };
    match &batch.saved {
        Some((mean, inverse)) => vec![stats(mean), stats(inverse)],
        None if call.release() < Release(1, 5) => vec![IValue::Undefined, IValue::Undefined],
        None => vec![stats(&[]), stats(&[])],
    }
}

fn native_batch_norm(call: &Call, training: bool) -> Answer {
    let batch = batch_norm(call, training)?;
    let saved = saved(call, &batch);
    several([vec![IValue::from(batch.out)], saved].concat())
}

/// The same with a reserve that only other devices use, and the number of the implementation: the
/// native one.
fn batch_norm_impl_index(call: &Call) -> Answer {
    let batch = batch_norm(call, call.bool("training")?)?;
    let mut results = saved(call, &batch);
    results.insert(0, batch.out.into());
    if call.schema.is_none_or(|schema| schema.returns.len() == 5) {
        results.push(call.made::<i64>(&[], DType::Byte, &[0]).into());
    }
    results.push(IValue::Int(0));
    several(results)
}

/// Normalises every channel of every example separately.
fn instance_norm(call: &Call) -> Answer {
    let x = call.tensor("input")?;
    floats("instance_norm", &x)?;
    check_parameters(call, &x)?;
    check(x.rank() >= 2, || "instance_norm expects at least two dimensions".to_owned())?;
    let (eps, channels) = (call.float("eps")?, x.size(1) as usize);
    let dims: Vec<usize> = (2..x.rank()).collect();
    let mut rows = Rows::<f64>::along(&x, &dims);
    let (weight, bias) = (per_channel(call, "weight", channels, 1.0)?, per_channel(call, "bias", channels, 0.0)?);
    let stats: Vec<Stats> = if call.bool("use_input_stats")? {
        let stats: Vec<Stats> = rows.iter().map(Stats::of).collect();
        update_running(call, &stats, rows.len, x.size(0) as usize)?;
        stats
    } else {
        let (mean, variance) =
            (per_channel(call, "running_mean", channels, 0.0)?, per_channel(call, "running_var", channels, 1.0)?);
        (0..rows.count).map(|i| Stats { mean: mean[i % channels], variance: variance[i % channels] }).collect()
    };
    for (i, row) in rows.iter_mut().enumerate() {
        stats[i].normalize(row, eps, weight[i % channels], bias[i % channels]);
    }
    one(like(call, &rows.elements, x.dtype(), x.shape(), &x))
}

/// The number of normalised dimensions: the last ones.
fn normalized_rank(call: &Call, x: &Tensor) -> Result<usize, Stop> {
    let Some(shape) = call.opt_ints("normalized_shape")? else {
        // 1.3 passes the number of rows and their length.
        let len = call.int("N")?;
        let rank = (0..=x.rank()).find(|&n| x.shape()[x.rank() - n..].iter().product::<i64>() == len);
        return rank.ok_or_else(|| Stop::raised(format!("Given N={len}, got input of size {:?}", x.shape())));
    };
    check(x.shape().ends_with(&shape) && !shape.is_empty(), || {
        format!(
            "Given normalized_shape={shape:?}, expected input with shape [*, {shape:?}], but got input of size{:?}",
            x.shape()
        )
    })?;
    Ok(shape.len())
}

/// Result, means and reciprocal deviations.
fn layer_norm(call: &Call) -> Result<(Tensor, Vec<f64>, Vec<f64>, usize), Stop> {
    let x = call.tensor("input")?;
    floats("LayerNormKernelImpl", &x)?;
    check_parameters(call, &x)?;
    let rank = normalized_rank(call, &x)?;
    let dims: Vec<usize> = (x.rank() - rank..x.rank()).collect();
    let mut rows = Rows::<f64>::along(&x, &dims);
    let (weight, bias) = (per_channel(call, "weight", rows.len, 1.0)?, per_channel(call, "bias", rows.len, 0.0)?);
    let eps = call.float("eps")?;
    let (mut means, mut inverses) = (Vec::new(), Vec::new());
    for row in rows.iter_mut() {
        let stats = Stats::of(row);
        stats.normalize(row, eps, 1.0, 0.0);
        for ((x, w), b) in row.iter_mut().zip(&weight).zip(&bias) {
            *x = *x * w + b;
        }
        means.push(stats.mean);
        inverses.push(stats.inverse(eps));
    }
    Ok((like(call, &rows.elements, x.dtype(), x.shape(), &x), means, inverses, rank))
}

/// Normalises rows of the last dimension, then scales and shifts element by element.
pub(super) fn layer_norm_over(
    call: &Call,
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
) -> Result<Tensor, Stop> {
    let mut rows = Rows::<f64>::along(x, &[x.rank() - 1]);
    let (weight, bias) = (weight.read::<f64>(), bias.read::<f64>());
    check(weight.len() == rows.len && bias.len() == rows.len, || {
        format!("expected the weight and bias of a layer norm to have {} elements", rows.len)
    })?;
    for row in rows.iter_mut() {
        Stats::of(row).normalize(row, eps, 1.0, 0.0);
        for ((x, w), b) in row.iter_mut().zip(&weight).zip(&bias) {
            *x = *x * w + b;
        }
    }
    Ok(like(call, &rows.elements, x.dtype(), x.shape(), x))
}

fn native_layer_norm(call: &Call) -> Answer {
    let (out, means, inverses, rank) = layer_norm(call)?;
    // 1.3 has one dimension of rows, later releases keep the dimensions, the normalised ones with
    // size 1.
    let mut shape: Vec<i64> = vec![means.len() as i64];
    if call.opt_ints("normalized_shape")?.is_some() {
        shape = out.shape()[..out.rank() - rank].to_vec();
        shape.extend(vec![1; rank]);
    }
    let dtype = type_of_statistics(call, &out)?;
    let stats = |numbers: &[f64]| like(call, numbers, dtype, &shape, &out);
    let (mean, inverse) = (stats(&means), stats(&inverses));
    several([out, mean, inverse])
}

/// Statistics of 16-bit floats have the type of the parameters, the weight's first: floats stay
/// floats.
fn type_of_statistics(call: &Call, x: &Tensor) -> Result<DType, Stop> {
    let parameter = call.opt_tensor("weight")?.or(call.opt_tensor("bias")?);
    Ok(parameter.map_or(x.dtype(), |parameter| parameter.dtype()))
}

/// Result, means and reciprocal deviations.
fn grouped(call: &Call, groups: i64) -> Result<(Tensor, Vec<f64>, Vec<f64>), Stop> {
    let x = call.tensor("input")?;
    floats("GroupNormKernelImpl", &x)?;
    check_parameters(call, &x)?;
    check(x.rank() >= 2, || format!("Expected at least 2 dimensions for input tensor but received {}", x.rank()))?;
    let (n, channels, eps) = (x.size(0), x.size(1), call.float("eps")?);
    check(groups > 0 && channels % groups == 0, || {
        format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
            x.shape()
        )
    })?;
    let weight = per_channel(call, "weight", channels as usize, 1.0)?;
    let bias = per_channel(call, "bias", channels as usize, 0.0)?;
    let mut elements = x.read::<f64>();
    let rows = layout::checked(&[n, groups])?;
    let (len, per_group) = (elements.len() / rows.max(1), (channels / groups) as usize);
    let inner = (len / per_group.max(1)).max(1);
    let (mut means, mut inverses) = (Vec::new(), Vec::new());
    for (i, row) in elements.chunks_exact_mut(len.max(1)).enumerate().take(rows) {
        let stats = Stats::of(row);
        let first = i % groups as usize * per_group;
        for (c, part) in row.chunks_mut(inner).enumerate() {
            stats.normalize(part, eps, weight[first + c], bias[first + c]);
        }
        means.push(stats.mean);
        inverses.push(stats.inverse(eps));
    }
    Ok((like(call, &elements, x.dtype(), x.shape(), &x), means, inverses))
}

fn group_norm(call: &Call) -> Answer {
    one(grouped(call, call.int("num_groups")?)?.0)
}

fn native_group_norm(call: &Call) -> Answer {
    let groups = call.int("group")?;
    let (out, means, inverses) = grouped(call, groups)?;
    let counts = [call.int("N")?, call.int("C")?, call.int("HxW")?];
    let product = |factors: &[i64]| factors.iter().try_fold(1i64, |product, &n| product.checked_mul(n));
    let is_whole = product(&counts) == Some(out.numel() as i64);
    check(is_whole && product(&[counts[0], groups]) == Some(means.len() as i64), || {
        format!(
            "native_group_norm: an input of {:?} is not of {} x {} x {}",
            out.shape(),
            counts[0],
            counts[1],
            counts[2]
        )
    })?;
    let dtype = type_of_statistics(call, &out)?;
    let stats = |numbers: &[f64]| like(call, numbers, dtype, &[numbers.len() as i64 / groups, groups], &out);
    let (mean, inverse) = (stats(&means), stats(&inverses));
    several([out, mean, inverse])
}

/// Scales to a mean square of 1.
fn rms_norm(call: &Call) -> Answer {
    let x = call.tensor("input")?;
    floats("rms_norm", &x)?;
    let rank = normalized_rank(call, &x)?;
    let mut rows = Rows::<f64>::along(&x, &(x.rank() - rank..x.rank()).collect::<Vec<_>>());
    let weight = per_channel(call, "weight", rows.len, 1.0)?;
    let eps = call.opt_float("eps")?.unwrap_or(x.dtype().epsilon());
    for row in rows.iter_mut() {
        let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let factor = 1.0 / (square + eps).sqrt();
        for (x, w) in row.iter_mut().zip(&weight) {
            *x = *x * factor * w;
        }
    }
    one(like(call, &rows.elements, x.dtype(), x.shape(), &x))
}
