//! Losses.
//!
//! `reduction` is 0 for none, 1 for the mean, 2 for the sum.

use super::elements::{apply, check, floats, like, same};
use super::linear_algebra::distance;
use super::softmax::log_softmax_over;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Rows, Types, map, map2};
use crate::tensor::promotion::result_type;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::mse_loss", |call| of_two_floats(call, "mse_cpu", |x, y| (x - y) * (x - y))),
    ("aten::l1_loss", l1_loss),
    ("aten::smooth_l1_loss", smooth_l1_loss),
    ("aten::huber_loss", huber_loss),
    ("aten::soft_margin_loss", |call| like_prediction(call, |x, y| (-x * y).exp().ln_1p())),
    ("aten::kl_div", kl_div),
    ("aten::binary_cross_entropy", binary_cross_entropy),
    ("aten::binary_cross_entropy_with_logits", binary_cross_entropy_with_logits),
    ("aten::poisson_nll_loss", poisson_nll_loss),
    ("aten::hinge_embedding_loss", hinge_embedding_loss),
    ("aten::margin_ranking_loss", margin_ranking_loss),
    ("aten::cosine_embedding_loss", cosine_embedding_loss),
    ("aten::triplet_margin_loss", triplet_margin_loss),
    ("aten::multi_margin_loss", multi_margin_loss),
    ("aten::multilabel_margin_loss", multilabel_margin_loss),
    ("aten::nll_loss", |call| one(nll_loss(call)?.0)),
    ("aten::nll_loss2d", |call| one(nll_loss(call)?.0)),
    ("aten::nll_loss_nd", |call| one(nll_loss(call)?.0)),
    ("aten::nll_loss_forward", nll_loss_forward),
    ("aten::nll_loss2d_forward", nll_loss_forward),
    ("aten::cross_entropy_loss", cross_entropy_loss),
    ("aten::multilabel_margin_loss_forward", multilabel_margin_loss_forward),
];

/// One number, or one per loss.
fn reduce(call: &Call, losses: Tensor) -> Result<Tensor, Stop> {
    let reduction = call.int("reduction")?;
    if reduction == 0 {
        return Ok(losses);
    }
    let sum: f64 = losses.read::<f64>().into_iter().sum();
    let value = if reduction == 1 { sum / losses.numel() as f64 } else { sum };
    Ok(like(call, &[value], losses.dtype(), &[], &losses))
}

/// A loss of each element of prediction and target.
fn of_two(call: &Call, f: impl Fn(f64, f64) -> f64) -> Answer {
    one(reduce(call, pairwise(call, &call.tensor("self")?, &call.tensor("target")?, f)?)?)
}

/// The same for floating point types only.
fn of_two_floats(call: &Call, kernel: &str, f: impl Fn(f64, f64) -> f64) -> Answer {
    refuse_others(call, kernel)?;
    of_two(call, f)
}

fn refuse_others(call: &Call, kernel: &str) -> Result<(), Stop> {
    let dtype = result_type(&call.tensor("self")?, &call.tensor("target")?);
    check(dtype.is_float(), || format!("\"{kernel}\" not implemented for '{}'", dtype.name()))
}

/// A loss of each element, with the element type of the prediction, regardless of that of the
/// target.
fn like_prediction(call: &Call, f: impl Fn(f64, f64) -> f64) -> Answer {
    let (x, y) = (call.tensor("self")?, call.tensor("target")?);
    let types = Types { out: x.dtype(), ..same(call, result_type(&x, &y)) };
    one(reduce(call, map2(&x, &y, types, f)?)?)
}

/// Integers have differences, and their sum, but no mean.
fn l1_loss(call: &Call) -> Answer {
    let dtype = result_type(&call.tensor("self")?, &call.tensor("target")?);
    check(call.int("reduction")? != 1 || !dtype.is_integral(), || {
        let name = dtype.name();
        format!(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {name}"
        )
    })?;
    of_two(call, |x, y| (x - y).abs())
}

fn pairwise(call: &Call, x: &Tensor, y: &Tensor, f: impl Fn(f64, f64) -> f64) -> Result<Tensor, Stop> {
    Ok(map2(x, y, same(call, result_type(x, y)), f)?)
}

/// The same of numbers that a floating-point one is added to: of integers they are of the default
/// element type.
fn pairwise_floats(call: &Call, x: &Tensor, y: &Tensor, f: impl Fn(f64, f64) -> f64) -> Result<Tensor, Stop> {
    Ok(map2(x, y, same(call, floating(call, result_type(x, y))), f)?)
}

/// The element type of a sum with a floating-point number.
fn floating(call: &Call, dtype: DType) -> DType {
    if dtype.is_integral() { call.env.default_dtype() } else { dtype }
}

fn smooth_l1_loss(call: &Call) -> Answer {
    let beta = call.opt_float("beta")?.unwrap_or(1.0);
    of_two_floats(call, "smooth_l1_cpu", |x, y| match (x - y).abs() {
        z if z < beta => 0.5 * z * z / beta,
        z => z - 0.5 * beta,
    })
}

fn huber_loss(call: &Call) -> Answer {
    let delta = call.float("delta")?;
    refuse_others(call, "huber_cpu")?;
    like_prediction(call, |x, y| match (x - y).abs() {
        z if z <= delta => 0.5 * z * z,
        z => delta * (z - 0.5 * delta),
    })
}

/// If the target is 0, the loss is 0; since 1.5 only if the prediction is finite.
fn kl_div(call: &Call) -> Answer {
    if call.bool("log_target")? {
        return of_two(call, |x, y| y.exp() * (y - x));
    }
    match call.release() < Release(1, 5) {
        true => of_two(call, |x, y| if y > 0.0 { y * (y.ln() - x) } else { 0.0 }),
        false => of_two(call, |x, y| if y == 0.0 { 0.0 } else { y * y.ln() } - y * x),
    }
}

/// The losses times an optional weight.
fn weighted(call: &Call, losses: Tensor) -> Result<Tensor, Stop> {
    match call.opt_tensor("weight")? {
        Some(weight) => pairwise(call, &losses, &weight, |x, w| x * w),
        None => Ok(losses),
    }
}

fn binary_cross_entropy(call: &Call) -> Answer {
    let (x, y) = (call.tensor("self")?, call.tensor("target")?);
    floats("binary_cross_entropy", &x)?;
    check(x.shape() == y.shape(), || {
        format!(
            "Using a target size ({:?}) that is different to the input size ({:?}) is deprecated. Please ensure they have the same size.",
            y.shape(),
            x.shape()
        )
    })?;
    check(x.dtype() == y.dtype(), || format!("Found dtype {} but expected {}", y.dtype().name(), x.dtype().name()))?;
    check(x.read::<f64>().iter().all(|x| (0.0..=1.0).contains(x)), || {
        "all elements of input should be between 0 and 1".to_owned()
    })?;
    let loss = |x: f64, y: f64| (y - 1.0) * (-x).ln_1p().max(-100.0) - y * x.ln().max(-100.0);
    one(reduce(call, weighted(call, pairwise(call, &x, &y, loss)?)?)?)
}

/// The logarithm of the logistic function.
fn log_sigmoid(x: f64) -> f64 {
    let least = if x > 0.0 { 0.0 } else { x };
    least - (-x.abs()).exp().ln_1p()
}

fn binary_cross_entropy_with_logits(call: &Call) -> Answer {
    let (x, y) = (call.tensor("self")?, call.tensor("target")?);
    let losses = match call.opt_tensor("pos_weight")? {
        None => pairwise(call, &x, &y, |x, y| (1.0 - y) * x - log_sigmoid(x))?,
        Some(weight) => map(&[&x, &y, &weight], same(call, result_type(&x, &y)), &mut |blocks: &mut [Vec<f64>]| {
            for i in 0..blocks[0].len() {
                let (x, y, weight) = (blocks[0][i], blocks[1][i], blocks[2][i]);
                blocks[0][i] = (1.0 - y) * x - ((weight - 1.0) * y + 1.0) * log_sigmoid(x);
            }
        })?,
    };
    // Eager mode overwrites `1 - target` with the result.
    let losses = weighted(call, losses)?;
    let dtype = if y.dtype().is_float() { y.dtype() } else { losses.dtype() };
    one(reduce(call, losses.converted(dtype, call.precision()))?)
}

fn poisson_nll_loss(call: &Call) -> Answer {
    let (x, y) = (call.tensor("input")?, call.tensor("target")?);
    let (log_input, full, eps) = (call.bool("log_input")?, call.bool("full")?, call.float("eps")?);
    // 1.3 adds the term to a copy of the losses, so `full` has no effect.
    let full = full && call.release() >= Release(1, 4);
    let stirling = |y: f64| match full && y > 1.0 {
        true => y * y.ln() - y + 0.5 * (std::f64::consts::TAU * y).ln(),
        false => 0.0,
    };
    let loss = |x: f64, y: f64| stirling(y) + if log_input { x.exp() - y * x } else { x - y * (x + eps).ln() };
    one(reduce(call, pairwise_floats(call, &x, &y, loss)?)?)
}

fn hinge_embedding_loss(call: &Call) -> Answer {
    let margin = call.float("margin")?;
    of_two(call, |x, y| {
        let apart = if y != 1.0 { clamp_low(margin - x) } else { 0.0 };
        apart + if y != -1.0 { x } else { 0.0 }
    })
}

/// The maximum with 0; NaN stays.
fn clamp_low(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

fn margin_ranking_loss(call: &Call) -> Answer {
    let (a, b) = (call.tensor("input1")?, call.tensor("input2")?);
    let margin = call.float("margin")?;
    let difference = super::elements::subtract(call, &a, &b)?;
    let loss = |d: f64, y: f64| clamp_low(-y * d + margin);
    one(reduce(call, pairwise_floats(call, &difference, &call.tensor("target")?, loss)?)?)
}

/// The cosine of this loss: a small number is added to the squares.
fn cosine_embedding_loss(call: &Call) -> Answer {
    let (a, b, y) = (call.tensor("input1")?, call.tensor("input2")?, call.tensor("target")?);
    check(a.shape() == b.shape() && a.rank() > 0, || {
        format!("cosine_embedding_loss: inputs of sizes {:?} and {:?}", a.shape(), b.shape())
    })?;
    check(!a.dtype().is_complex() && !b.dtype().is_complex(), || {
        "clamp is not supported for complex types".to_owned()
    })?;
    let dim = y.rank().min(a.rank() - 1);
    let (u, v) = (Rows::<f64>::along(&a, &[dim]), Rows::<f64>::along(&b, &[dim]));
    // PyTorch keeps it in a float.
    let eps = f64::from(1e-12_f32);
    let cosine = |(u, v): (&[f64], &[f64])| {
        let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        sum(u, v) / ((sum(u, u) + eps) * (sum(v, v) + eps)).sqrt()
    };
    let cosines: Vec<f64> = u.iter().zip(v.iter()).map(cosine).collect();
    let cosines = like(call, &cosines, floating(call, result_type(&a, &b)), &u.outer, &a);
    let margin = call.float("margin")?;
    let loss = |c: f64, y: f64| match y {
        1.0 => 1.0 - c,
        -1.0 => clamp_low(c - margin),
        _ => 0.0,
    };
    one(reduce(call, pairwise(call, &cosines, &y, loss)?)?)
}

fn triplet_margin_loss(call: &Call) -> Answer {
    let (anchor, near, far) = (call.tensor("anchor")?, call.tensor("positive")?, call.tensor("negative")?);
    let (p, eps, margin) = (call.float("p")?, call.float("eps")?, call.float("margin")?);
    let to_near = distance(call, &anchor, &near, p, eps, false)?;
    let mut to_far = distance(call, &anchor, &far, p, eps, false)?;
    if call.bool("swap")? {
        let between = distance(call, &near, &far, p, eps, false)?;
        to_far = pairwise(call, &to_far, &between, |x, y| if y < x || y.is_nan() { y } else { x })?;
    }
    one(reduce(call, pairwise(call, &to_near, &to_far, |near, far| clamp_low(margin + near - far))?)?)
}

/// Examples by classes, and the target classes.
fn examples(call: &Call) -> Result<(Tensor, Rows<f64>, Vec<i64>), Stop> {
    let (x, target) = (call.tensor("self")?, call.tensor("target")?);
    floats("multi_margin_loss", &x)?;
    let rows = Rows::<f64>::along(&x, &[x.rank().saturating_sub(1)]);
    Ok((x, rows, target.read()))
}

fn multi_margin_loss(call: &Call) -> Answer {
    let (x, rows, targets) = examples(call)?;
    check(call.tensor("target")?.rank() <= 1, || "inconsistent target size".to_owned())?;
    check(targets.len() == rows.count, || format!("inconsistent target size, got: {}", targets.len()))?;
    let (p, margin) = (call.float("p")?, call.float("margin")?);
    let weight = call.opt_tensor("weight")?.map(|weight| weight.read::<f64>());
    let mut losses = Vec::new();
    for (row, &target) in rows.iter().zip(&targets) {
        let right = in_range(target, row.len())?;
        let w = weight.as_ref().map_or(1.0, |weight| weight.get(right).copied().unwrap_or(1.0));
        let loss = |(i, x): (usize, &f64)| match margin - row[right] + x {
            z if i != right && z > 0.0 => w * if p == 1.0 { z } else { z * z },
            _ => 0.0,
        };
        losses.push(row.iter().enumerate().map(loss).sum::<f64>() / row.len() as f64);
    }
    one(reduce(call, like(call, &losses, x.dtype(), &rows.outer, &x))?)
}

fn multilabel_margin_loss(call: &Call) -> Answer {
    let loss = multilabel_margin_loss_forward(call)?;
    Ok(loss.into_iter().take(1).collect())
}

/// `aten::multilabel_margin_loss_forward`: the loss, and which classes are targets.
fn multilabel_margin_loss_forward(call: &Call) -> Answer {
    let (x, rows, targets) = examples(call)?;
    check(targets.len() == rows.elements.len() && rows.len > 0, || "inconsistent target size".to_owned())?;
    let (mut losses, mut are_targets) = (Vec::new(), Vec::new());
    for (row, targets) in rows.iter().zip(targets.chunks(rows.len.max(1))) {
        let mut right = Vec::new();
        for &target in targets.iter().take_while(|&&target| target >= 0) {
            right.push(in_range(target, row.len())?);
        }
        let wrong = |i: &usize| !right.contains(i);
        let pairs = right.iter().flat_map(|&r| (0..row.len()).filter(wrong).map(move |i| (r, i)));
        let loss: f64 = pairs.map(|(r, i)| clamp_low(1.0 - row[r] + row[i])).sum();
        losses.push(loss / row.len() as f64);
        are_targets.extend((0..row.len()).map(|i| f64::from(u8::from(right.contains(&i)))));
    }
    let loss = reduce(call, like(call, &losses, x.dtype(), &rows.outer, &x))?;
    several([loss, like(call, &are_targets, x.dtype(), call.tensor("target")?.shape(), &x)])
}

fn in_range(target: i64, classes: usize) -> Result<usize, Stop> {
    let index = usize::try_from(target).ok().filter(|&index| index < classes);
    index.ok_or_else(|| Stop::raised_as("IndexError", format!("Target {target} is out of bounds.")))
}

/// The target class and the weight of every example.
pub(super) struct Classes {
    /// The class; `None` for ignored examples.
    pub right: Vec<Option<usize>>,
    /// The weight of the class; 0 for ignored examples.
    pub weights: Vec<f64>,
    /// The dimension of the classes.
    pub dim: usize,
    /// The shape of the targets.
    pub shape: Vec<i64>,
}

/// Checks predictions against targets.
pub(super) fn classes(call: &Call, x: &Tensor) -> Result<Classes, Stop> {
    let target = call.tensor("target")?;
    check(x.rank() > 0, || "0D or 1D target tensor expected, multi-target not supported".to_owned())?;
    let dim = usize::from(x.rank() > 1);
    let outer: Vec<i64> = (0..x.rank()).filter(|&i| i != dim).map(|i| x.size(i)).collect();
    check(target.numel() == layout::numel(&outer) && (target.shape() == outer || x.rank() == 1), || {
        format!("Expected input batch_size ({}) to match target batch_size ({}).", x.size(0), target.size(0))
    })?;
    let ignored = call.int("ignore_index")?;
    let count = x.size(dim) as usize;
    let weight = call.opt_tensor("weight")?.map(|weight| weight.read::<f64>());
    if let Some(weight) = &weight {
        check(weight.len() == count, || {
            format!(
                "weight tensor should be defined either for all {count} classes or no classes but got weight tensor of shape: [{}]",
                weight.len()
            )
        })?;
    }
    let (mut right, mut weights) = (Vec::new(), Vec::new());
    for class in target.read::<i64>() {
        let class = if class == ignored { None } else { Some(in_range(class, count)?) };
        right.push(class);
        weights.push(class.map_or(0.0, |class| weight.as_ref().map_or(1.0, |weight| weight[class])));
    }
    Ok(Classes { right, weights, dim, shape: target.shape().to_vec() })
}

/// Loss and total weight. If all examples are ignored, the mean is NaN; up to 1.4 it is 0.
fn nll_loss(call: &Call) -> Result<(Tensor, Tensor), Stop> {
    let x = call.tensor("self")?;
    floats("nll_loss_out_frame", &x)?;
    nll_of(call, &x)
}

fn nll_of(call: &Call, x: &Tensor) -> Result<(Tensor, Tensor), Stop> {
    let classes = classes(call, x)?;
    let rows = Rows::<f64>::along(x, &[classes.dim]);
    let loss = |((row, right), weight): ((&[f64], &Option<usize>), &f64)| right.map_or(0.0, |i| -row[i] * weight);
    let losses: Vec<f64> = rows.iter().zip(&classes.right).zip(&classes.weights).map(loss).collect();
    let total: f64 = classes.weights.iter().sum();
    let scalar = |value: f64| like(call, &[value], x.dtype(), &[], x);
    let sum: f64 = losses.iter().sum();
    Ok(match call.int("reduction")? {
        0 => (like(call, &losses, x.dtype(), &classes.shape, x), scalar(0.0)),
        1 if total == 0.0 && call.release() < Release(1, 5) => (scalar(sum), scalar(total)),
        1 => (scalar(sum / total), scalar(total)),
        _ => (scalar(sum), scalar(total)),
    })
}

fn nll_loss_forward(call: &Call) -> Answer {
    let (loss, total) = nll_loss(call)?;
    several([loss, total])
}

fn cross_entropy_loss(call: &Call) -> Answer {
    let (x, target) = (call.tensor("self")?, call.tensor("target")?);
    check(x.rank() > 0, || "cross_entropy_loss: input needs at least one dimension".to_owned())?;
    let logs = log_softmax_over(call, &x, usize::from(x.rank() > 1))?;
    let smoothing = call.float("label_smoothing")?;
    if x.shape() == target.shape() && target.dtype().is_float() {
        return one(against_probabilities(call, &logs, &target, smoothing)?);
    }
    check(target.dtype() == DType::Long || target.dtype() == DType::Byte, || {
        format!("expected scalar type Long but found {}", target.dtype().name())
    })?;
    let (plain, _) = nll_of(call, &logs)?;
    if smoothing == 0.0 {
        return one(plain);
    }
    let smooth = smoothed(call, &logs)?;
    let share = smoothing / x.size(usize::from(x.rank() > 1)) as f64;
    one(pairwise(call, &plain, &smooth, |plain, smooth| plain * (1.0 - smoothing) + smooth * share)?)
}

/// The losses summed over all classes, for label smoothing.
fn smoothed(call: &Call, logs: &Tensor) -> Result<Tensor, Stop> {
    let classes = classes(call, logs)?;
    let rows = Rows::<f64>::along(logs, &[classes.dim]);
    let weight = call.opt_tensor("weight")?.map(|weight| weight.read::<f64>());
    let of_row = |row: &[f64]| match &weight {
        Some(weight) => -row.iter().zip(weight).map(|(x, w)| x * w).sum::<f64>(),
        None => -row.iter().sum::<f64>(),
    };
    let losses: Vec<f64> =
        rows.iter().zip(&classes.right).map(|(row, right)| right.map_or(0.0, |_| of_row(row))).collect();
    let total: f64 = classes.weights.iter().sum();
    let sum: f64 = losses.iter().sum();
    Ok(match call.int("reduction")? {
        0 => like(call, &losses, logs.dtype(), &classes.shape, logs),
        1 => like(call, &[sum / total], logs.dtype(), &[], logs),
        _ => like(call, &[sum], logs.dtype(), &[], logs),
    })
}

fn against_probabilities(call: &Call, logs: &Tensor, target: &Tensor, smoothing: f64) -> Result<Tensor, Stop> {
    let dim = usize::from(logs.rank() > 1);
    let classes = logs.size(dim);
    let target =
        apply(call, target, |y| if smoothing > 0.0 { y * (1.0 - smoothing) + smoothing / classes as f64 } else { y })?;
    let (x, y) = (Rows::<f64>::along(logs, &[dim]), Rows::<f64>::along(&target, &[dim]));
    let weight = call.opt_tensor("weight")?.map_or(vec![1.0; x.len], |weight| weight.read::<f64>());
    let loss = |(x, y): (&[f64], &[f64])| -x.iter().zip(y).zip(&weight).map(|((x, y), w)| x * y * w).sum::<f64>();
    let losses: Vec<f64> = x.iter().zip(y.iter()).map(loss).collect();
    let losses = like(call, &losses, logs.dtype(), &x.outer, logs);
    reduce(call, losses)
}
