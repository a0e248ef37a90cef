//! Operators of backward graphs only. A missing gradient is undefined.

use super::elements::{add, check, deviations, like, multiply, same, sum_to};
use super::softmax::from_rows;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::ir::Attribute;
use crate::symbol::attr;
use crate::tensor::blocks::{Rows, Types, map2, map3};
use crate::tensor::buffer::Wide;
use crate::tensor::promotion::result_type;
use crate::tensor::{DType, Dims, Kind, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("prim::AutogradZero", |_| one(IValue::Undefined)),
    // The name in 1.0, which also covers tensors for which later releases give None.
    ("prim::Undefined", |_| one(IValue::Undefined)),
    ("prim::AutogradAdd", autograd_add),
    ("prim::AutogradAnyNonZero", |call| one(call.args.iter().any(is_defined))),
    ("prim::AutogradAllNonZero", |call| one(call.args.iter().all(is_defined))),
    ("prim::AutogradAllZero", |call| one(!call.args.iter().any(is_defined))),
    ("prim::BroadcastSizes", broadcast_sizes),
    ("prim::ChunkSizes", chunk_sizes),
    ("aten::_grad_sum_to_size", grad_sum_to_size),
    ("aten::_size_if_not_equal", size_if_not_equal),
    ("aten::_softmax_backward_data", softmax_backward),
    ("aten::_log_softmax_backward_data", log_softmax_backward),
    ("aten::native_batch_norm_backward", batch_norm_backward),
    ("aten::_batch_norm_impl_index_backward", batch_norm_backward),
    ("aten::native_layer_norm_backward", layer_norm_backward),
    ("aten::native_group_norm_backward", group_norm_backward),
    ("aten::tanh_backward", |call| of_output(call, |g, y| g * (1.0 - y * y))),
    ("aten::sigmoid_backward", |call| of_output(call, |g, y| g * (1.0 - y) * y)),
    ("aten::threshold_backward", threshold_backward),
    ("aten::hardtanh_backward", hardtanh_backward),
    ("aten::leaky_relu_backward", leaky_relu_backward),
    ("aten::elu_backward", elu_backward),
    ("aten::gelu_backward", gelu_backward),
    ("aten::silu_backward", |call| of_input(call, |g, x| g * logistic(x) * (1.0 + x * (1.0 - logistic(x))))),
    ("aten::hardswish_backward", |call| of_input(call, hardswish_backward)),
    ("aten::hardsigmoid_backward", hardsigmoid_backward),
    ("aten::softplus_backward", softplus_backward),
    ("aten::softshrink_backward", shrink_backward),
    ("aten::hardshrink_backward", shrink_backward),
    ("aten::mse_loss_backward", |call| of_loss(call, |x, y| 2.0 * (x - y))),
    ("aten::l1_loss_backward", |call| of_loss(call, |x, y| sign(x - y))),
    ("aten::smooth_l1_loss_backward", smooth_l1_loss_backward),
    ("aten::huber_loss_backward", huber_loss_backward),
    ("aten::kl_div_backward", kl_div_backward),
    ("aten::binary_cross_entropy_backward", binary_cross_entropy_backward),
    ("aten::nll_loss_backward", nll_loss_backward),
    ("aten::nll_loss2d_backward", nll_loss_backward),
    ("aten::embedding_dense_backward", embedding_dense_backward),
    ("aten::embedding_backward", embedding_dense_backward),
    ("aten::_masked_scale", |call| masked_scale(call, "self")),
    ("aten::native_dropout_backward", |call| masked_scale(call, "grad_output")),
];

fn is_defined(value: &IValue) -> bool {
    !matches!(value, IValue::Undefined | IValue::None)
}

/// The sum of the gradients that exist; of lists, element by element.
fn autograd_add(call: &Call) -> Answer {
    match call.args {
        [a, b] => one(sum_of_gradients(call, a, b)?),
        _ => Err(Stop::unsupported("a number of gradients other than two")),
    }
}

fn sum_of_gradients(call: &Call, a: &IValue, b: &IValue) -> Result<IValue, Stop> {
    match (a, b) {
        (a, b) if !is_defined(a) => Ok(b.clone()),
        (a, b) if !is_defined(b) => Ok(a.clone()),
        (IValue::Tensor(a), IValue::Tensor(b)) => Ok(IValue::Tensor(add(call, a, b)?)),
        (IValue::List(a), IValue::List(b)) if a.borrow().len() == b.borrow().len() => {
            let (a, b) = (a.borrow(), b.borrow());
            let sums = a.iter().zip(b.iter()).map(|(a, b)| sum_of_gradients(call, a, b));
            Ok(IValue::list(sums.collect::<Result<Vec<IValue>, Stop>>()?))
        }
        _ => Err(Stop::unsupported("gradients that are not tensors")),
    }
}

fn sizes(value: &IValue) -> Result<Vec<i64>, Stop> {
    let size =
        |value: &IValue| value.scalar().map(|n| n.int()).ok_or_else(|| Stop::unsupported("a size that is not an int"));
    match value {
        IValue::List(list) => list.borrow().iter().map(size).collect(),
        _ => Err(Stop::unsupported("sizes that are not a list")),
    }
}

fn broadcast_sizes(call: &Call) -> Answer {
    let shapes = call.args.iter().map(sizes).collect::<Result<Vec<_>, _>>()?;
    one(IValue::list(layout::broadcast_all(shapes.iter().map(Vec::as_slice))?))
}

/// The shapes of all chunks but the last, and of the last.
fn chunk_sizes(call: &Call) -> Answer {
    let number = |name| match call.graph.attribute(call.node, name) {
        Some(&Attribute::Int(n)) => Ok(n),
        _ => Err(Stop::unsupported("`prim::ChunkSizes` without attributes")),
    };
    let shape = sizes(call.args.first().unwrap_or(&IValue::None))?;
    let (dim, chunks) = (layout::wrap(number(attr::DIM)?, shape.len())?, number(attr::CHUNKS)?);
    check(dim < shape.len() && chunks > 0 && (0..1 << 40).contains(&shape[dim]), || {
        "Dimension out of range for chunk".to_owned()
    })?;
    let size = shape[dim];
    let part = size / chunks + i64::from(size % chunks != 0);
    let count = if part == 0 { 1 } else { (size + part - 1) / part };
    let (mut regular, mut last) = (shape.clone(), shape);
    (regular[dim], last[dim]) = (part, if part == 0 { 0 } else { size - part * (count - 1) });
    several([IValue::list(regular), IValue::list(last)])
}

/// The gradient of broadcasting; without a size nothing was broadcast.
fn grad_sum_to_size(call: &Call) -> Answer {
    match (call.look("self"), call.opt_ints("size")?) {
        (Some(value), None) => one(value.clone()),
        (Some(IValue::Undefined), _) => one(IValue::Undefined),
        (_, Some(size)) => one(sum_to(call, &call.tensor("self")?, &size)?),
        _ => Err(Stop::unsupported("`aten::_grad_sum_to_size` of nothing")),
    }
}

fn size_if_not_equal(call: &Call) -> Answer {
    let (own, other) = (call.ints("self_size")?, call.ints("other_size")?);
    one(if own == other { IValue::None } else { IValue::list(own) })
}

/// The incoming gradient, under any of its names.
fn incoming(call: &Call) -> Result<Tensor, Stop> {
    let names = ["grad_output", "grad_out", "grad"];
    let known = |name: &&str| call.look(name).is_some();
    call.tensor(names.iter().copied().find(|name| known(name)).unwrap_or("grad_output"))
}

/// Rows of an incoming gradient and of a result in one dimension.
fn along_dim(call: &Call, f: impl Fn(&mut [f64], &[f64])) -> Answer {
    let (grad, output) = (incoming(call)?, call.tensor("output")?);
    check(grad.shape() == output.shape(), || {
        format!("the gradient has shape {:?}, the output {:?}", grad.shape(), output.shape())
    })?;
    let dim = layout::wrap(call.int("dim")?, grad.rank())?;
    let (mut rows, outputs) = (Rows::<f64>::along(&grad, &[dim]), Rows::<f64>::along(&output, &[dim]));
    for (row, output) in rows.iter_mut().zip(outputs.iter()) {
        f(row, output);
    }
    check(grad.dtype() == output.dtype(), || {
        format!("expected scalar type {} but found {}", output.dtype().name(), grad.dtype().name())
    })?;
    // A softmax from 16-bit floats to floats has a 16-bit gradient.
    let input = call.opt_dtype("input_dtype")?.or(call.opt_tensor("self")?.map(|x| x.dtype()));
    let narrowed = input == Some(DType::Half) && grad.dtype() == DType::Float;
    let dtype = if narrowed { DType::Half } else { grad.dtype() };
    one(from_rows(call, &rows, dim, dtype, &grad))
}

fn softmax_backward(call: &Call) -> Answer {
    along_dim(call, |row, output| {
        let sum: f64 = row.iter().zip(output).map(|(g, y)| g * y).sum();
        row.iter_mut().zip(output).for_each(|(g, y)| *g = (*g - sum) * y);
    })
}

fn log_softmax_backward(call: &Call) -> Answer {
    along_dim(call, |row, output| {
        let sum: f64 = row.iter().sum();
        row.iter_mut().zip(output).for_each(|(g, y)| *g -= y.exp() * sum);
    })
}

/// The requested ones of three gradients.
fn mask(call: &Call) -> Result<[bool; 3], Stop> {
    let mask = call.elements("output_mask")?;
    Ok(std::array::from_fn(|i| mask.get(i).and_then(IValue::scalar).is_none_or(|mask| mask.truth())))
}

fn masked(call: &Call, gradients: [Tensor; 3]) -> Answer {
    let wanted = mask(call)?;
    let pick = |(gradient, wanted): (Tensor, bool)| if wanted { gradient.into() } else { IValue::Undefined };
    several(gradients.into_iter().zip(wanted).map(pick))
}

/// The numbers of an optional tensor, if there are as many as expected.
fn numbers(call: &Call, name: &str, n: usize) -> Result<Option<Vec<f64>>, Stop> {
    Ok(call.opt_tensor(name)?.filter(|tensor| tensor.numel() == n).map(|tensor| tensor.read()))
}

/// The inputs of the gradient of a normalised row: rows of gradients and inputs, the mean and the
/// reciprocal deviation.
struct Normalized<'a> {
    grads: &'a [f64],
    inputs: &'a [f64],
    mean: f64,
    inverse: f64,
}

impl Normalized<'_> {
    fn standard(&self) -> impl Iterator<Item = f64> {
        self.inputs.iter().map(|x| (x - self.mean) * self.inverse)
    }

    /// The sums of gradients and of gradients times normalised inputs.
    fn sums(&self, weight: impl Fn(usize) -> f64) -> (f64, f64) {
        let pairs = self.grads.iter().zip(self.standard()).enumerate();
        pairs.fold((0.0, 0.0), |(sum, dot), (i, (g, x))| (sum + g * weight(i), dot + g * weight(i) * x))
    }

    /// The gradient of the inputs, if mean and deviation depend on them.
    fn gradient(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let n = self.inputs.len() as f64;
        let (sum, dot) = self.sums(&weight);
        let pairs = self.grads.iter().zip(self.standard()).enumerate();
        pairs.map(|(i, (g, x))| self.inverse * (g * weight(i) - sum / n - x * dot / n)).collect()
    }
}

fn moments(row: &[f64], eps: f64) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let (squares, _) = deviations(row, mean, |x| x * x);
    (mean, 1.0 / (squares / n + eps).sqrt())
}

fn batch_norm_backward(call: &Call) -> Answer {
    let (grad, x) = (incoming(call)?, call.tensor("input")?);
    check(grad.shape() == x.shape() && x.rank() >= 2, || "batch_norm_backward: shapes differ".to_owned())?;
    let (train, eps, channels) = (call.bool("train")?, call.float("eps")?, x.size(1) as usize);
    let dims: Vec<usize> = (0..x.rank()).filter(|&i| i != 1).collect();
    let (grads, inputs) = (Rows::<f64>::along(&grad, &dims), Rows::<f64>::along(&x, &dims));
    let weight = numbers(call, "weight", channels)?.unwrap_or(vec![1.0; channels]);
    let saved_name = if call.look("save_invstd").is_some() { "save_invstd" } else { "save_var_transform" };
    let saved = numbers(call, "save_mean", channels)?.zip(numbers(call, saved_name, channels)?);
    let running = numbers(call, "running_mean", channels)?.zip(numbers(call, "running_var", channels)?);
    let (mut result, mut of_weight, mut of_bias) = (Vec::new(), Vec::new(), Vec::new());
    for (i, (grads, inputs)) in grads.iter().zip(inputs.iter()).enumerate() {
        let (mean, inverse) = match (train, &saved, &running) {
            (true, Some((means, inverses)), _) => (means[i], inverses[i]),
            (false, _, Some((means, variances))) => (means[i], 1.0 / (variances[i] + eps).sqrt()),
            _ => moments(inputs, eps),
        };
        let row = Normalized { grads, inputs, mean, inverse };
        let (sum, dot) = row.sums(|_| 1.0);
        match train {
            true => result.extend(row.gradient(|_| weight[i])),
            false => result.extend(grads.iter().map(|g| g * weight[i] * inverse)),
        }
        of_weight.push(dot);
        of_bias.push(sum);
    }
    let shape: Vec<i64> = [1].iter().chain(&dims).map(|&i| x.size(i)).collect();
    let mut back: Vec<usize> = (1..x.rank()).collect();
    back.insert(1, 0);
    let result = like(call, &result, x.dtype(), &shape, &x).permute(&back).contiguous();
    let vector = |numbers: &[f64]| like(call, numbers, x.dtype(), &[channels as i64], &x);
    masked(call, [result, vector(&of_weight), vector(&of_bias)])
}

/// Gradients of a norm's parameters. The weight of 16-bit inputs may be a float, and so are its
/// gradient and that of the bias; eager mode accumulates them in 16 bits nevertheless.
fn of_parameters(call: &Call, x: &Tensor, numbers: [&[f64]; 2], shape: &[i64]) -> Result<[Tensor; 2], Stop> {
    let dtype = call.opt_tensor("weight")?.map_or(x.dtype(), |weight| weight.dtype());
    Ok(numbers.map(|numbers| {
        let summed = like(call, numbers, x.dtype(), shape, x);
        like(call, &summed.read::<f64>(), dtype, shape, x)
    }))
}

fn layer_norm_backward(call: &Call) -> Answer {
    let (grad, x) = (incoming(call)?, call.tensor("input")?);
    check(grad.shape() == x.shape(), || "layer_norm_backward: shapes differ".to_owned())?;
    let normalized = call.opt_ints("normalized_shape")?;
    let len = match &normalized {
        Some(shape) => layout::checked(shape)?,
        None => call.int("N")?.max(0) as usize,
    };
    let (grads, inputs) = (grad.read::<f64>(), x.read::<f64>());
    check(len > 0 && inputs.len() % len == 0, || "layer_norm_backward: rows of another length".to_owned())?;
    let count = inputs.len() / len;
    let (means, inverses) = (numbers(call, "mean", count)?, numbers(call, "rstd", count)?);
    let weight = numbers(call, "weight", len)?;
    let scale = |i: usize| weight.as_ref().map_or(1.0, |weight| weight[i]);
    let (mut result, mut of_weight, mut of_bias) = (Vec::new(), vec![0.0; len], vec![0.0; len]);
    for (i, (grads, inputs)) in grads.chunks_exact(len).zip(inputs.chunks_exact(len)).enumerate() {
        let known = means.as_ref().zip(inverses.as_ref()).map(|(means, inverses)| (means[i], inverses[i]));
        let (mean, inverse) = known.unwrap_or_else(|| moments(inputs, 1e-5));
        let row = Normalized { grads, inputs, mean, inverse };
        result.extend(row.gradient(scale));
        for (k, (g, x)) in grads.iter().zip(row.standard()).enumerate() {
            of_weight[k] += g * x;
            of_bias[k] += g;
        }
    }
    if let (Some(shape), Some(weight)) = (&normalized, call.opt_tensor("weight")?) {
        check(weight.shape() == &shape[..], || {
            format!("Expected weight to be of the shape {shape:?} of normalized_shape, but got {:?}", weight.shape())
        })?;
    }
    let fitting = call.opt_tensor("weight")?.filter(|weight| weight.numel() == len);
    let plain = normalized.map_or(Dims::from_elem(len as i64, 1), |shape| shape.as_slice().into());
    let shape = fitting.map_or(plain, |weight| weight.shape().into());
    let [weight, bias] = of_parameters(call, &x, [&of_weight, &of_bias], &shape)?;
    let result = like(call, &result, x.dtype(), x.shape(), &x);
    masked(call, [result, weight, bias])
}

fn group_norm_backward(call: &Call) -> Answer {
    let (grad, x) = (incoming(call)?, call.tensor("input")?);
    check(grad.shape() == x.shape() && x.rank() >= 2, || "group_norm_backward: shapes differ".to_owned())?;
    let (groups, channels) = (call.int("group")?, x.size(1));
    check(groups > 0 && channels % groups == 0 && x.numel() > 0, || "group_norm_backward: wrong groups".to_owned())?;
    let (grads, inputs) = (grad.read::<f64>(), x.read::<f64>());
    let rows = (x.size(0) * groups) as usize;
    let (len, image) = (inputs.len() / rows, inputs.len() / (x.size(0) * channels) as usize);
    let (means, inverses) = (numbers(call, "mean", rows)?, numbers(call, "rstd", rows)?);
    let weight = numbers(call, "weight", channels as usize)?;
    let (mut of_weight, mut of_bias) = (vec![0.0; channels as usize], vec![0.0; channels as usize]);
    let mut result = Vec::new();
    for (i, (grads, inputs)) in grads.chunks_exact(len).zip(inputs.chunks_exact(len)).enumerate() {
        let known = means.as_ref().zip(inverses.as_ref()).map(|(means, inverses)| (means[i], inverses[i]));
        let (mean, inverse) = known.unwrap_or_else(|| moments(inputs, 1e-5));
        let row = Normalized { grads, inputs, mean, inverse };
        let channel = |k: usize| i % groups as usize * (channels / groups) as usize + k / image;
        result.extend(row.gradient(|k| weight.as_ref().map_or(1.0, |weight| weight[channel(k)])));
        for (k, (g, x)) in grads.iter().zip(row.standard()).enumerate() {
            of_weight[channel(k)] += g * x;
            of_bias[channel(k)] += g;
        }
    }
    let [weight, bias] = of_parameters(call, &x, [&of_weight, &of_bias], &[channels])?;
    let result = like(call, &result, x.dtype(), x.shape(), &x);
    masked(call, [result, weight, bias])
}

/// A function of gradient and output, element by element.
fn of_output(call: &Call, f: impl Fn(f64, f64) -> f64) -> Answer {
    let (grad, output) = (incoming(call)?, call.tensor("output")?);
    one(map2(&grad, &output, same(call, result_type(&grad, &output)), f)?)
}

/// A function of gradient and input, element by element.
fn of_input(call: &Call, f: impl Fn(f64, f64) -> f64) -> Answer {
    let (grad, x) = (incoming(call)?, call.tensor("self")?);
    one(map2(&grad, &x, same(call, result_type(&grad, &x)), f)?)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 { x } else { x.signum() }
}

/// A bound with which inputs are compared: a number of the element type, or of single precision for
/// 16-bit floats.
fn bound_of_gradients(call: &Call, name: &str) -> Result<f64, Stop> {
    let (bound, dtype) = (call.float(name)?, result_type(&incoming(call)?, &call.tensor("self")?));
    let compared = if dtype.is_short_float() { DType::Float } else { dtype };
    Ok(if dtype.is_float() { bound.through(call.precision().kept(compared)) } else { bound })
}

fn threshold_backward(call: &Call) -> Answer {
    let threshold = bound_of_gradients(call, "threshold")?;
    let (grad, x) = (incoming(call)?, call.tensor("self")?);
    let types = same(call, result_type(&grad, &x));
    one(match types.common.arithmetic() {
        Some(Kind::Int) => {
            let threshold = threshold as i64;
            map2(&grad, &x, types, |g: i64, x: i64| if x <= threshold { 0 } else { g })?
        }
        _ => map2(&grad, &x, types, |g: f64, x: f64| if x <= threshold { 0.0 } else { g })?,
    })
}

/// At NaN eager mode's gradient is 0, except for the last elements of a tensor, which it computes
/// one by one as here.
fn hardtanh_backward(call: &Call) -> Answer {
    let (low, high) = (bound_of_gradients(call, "min_val")?, bound_of_gradients(call, "max_val")?);
    of_input(call, |g, x| if x <= low || x >= high { 0.0 } else { g })
}

/// The factor 1/6 is of single precision, also for doubles.
fn hardsigmoid_backward(call: &Call) -> Answer {
    let sixth = f64::from(1f32 / 6.0);
    of_input(call, |g, x| if x > -3.0 && x < 3.0 { g * sixth } else { 0.0 })
}

fn leaky_relu_backward(call: &Call) -> Answer {
    let slope = call.float("negative_slope")?;
    of_input(call, |g, x| if x > 0.0 { g } else { g * slope })
}

/// Computed from the result in 1.3; later schemas have `is_result`. PyTorch's scalar code, and
/// CUDA's, passes the gradient at NaN; its vector code, which handles all but the last elements,
/// gives NaN there.
fn elu_backward(call: &Call) -> Answer {
    let (alpha, scale, input_scale) = (call.float("alpha")?, call.float("scale")?, call.float("input_scale")?);
    let of_result = call.opt_scalar("is_result")?.is_none_or(|is_result| is_result.truth());
    let is_old = call.look("output").is_some();
    let (grad, x) = (incoming(call)?, call.tensor(if is_old { "output" } else { "self_or_result" })?);
    let f = |g: f64, x: f64| match x <= 0.0 {
        true if of_result => g * input_scale * (x + alpha * scale),
        true => g * input_scale * alpha * scale * (x * input_scale).exp(),
        false => g * scale,
    };
    one(map2(&grad, &x, same(call, result_type(&grad, &x)), f)?)
}

fn gelu_backward(call: &Call) -> Answer {
    if call.opt_str("approximate")?.as_deref() == Some("tanh") {
        let (beta, kappa) = ((2.0 / std::f64::consts::PI).sqrt(), 0.044715);
        return of_input(call, |g, x| {
            let t = (beta * (x + kappa * x * x * x)).tanh();
            g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * beta * (1.0 + 3.0 * kappa * x * x))
        });
    }
    of_input(call, |g, x| {
        let below = 0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
        let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
        g * (below + x * density)
    })
}

fn hardswish_backward(g: f64, x: f64) -> f64 {
    match x {
        _ if x <= -3.0 => 0.0,
        _ if x < 3.0 => g * (x / 3.0 + 0.5),
        _ => g,
    }
}

fn softplus_backward(call: &Call) -> Answer {
    let (beta, threshold) = (call.float("beta")?, call.float("threshold")?);
    let x = call.tensor("self")?;
    if let Some(output) = call.opt_tensor("output")? {
        check(output.shape() == x.shape() && output.dtype() == x.dtype(), || {
            format!("softplus_backward: an output of {:?} for an input of {:?}", output.shape(), x.shape())
        })?;
    }
    of_input(call, |g, x| if x * beta > threshold { g } else { g * logistic(x * beta) })
}

fn shrink_backward(call: &Call) -> Answer {
    let dtype = result_type(&incoming(call)?, &call.tensor("self")?);
    let bound =
        call.float("lambd")?.through(call.precision().kept(if dtype.is_float() { dtype } else { DType::Double }));
    of_input(call, |g, x| if x >= -bound && x <= bound { 0.0 } else { g })
}

/// The gradient of the first operand of a loss of two.
fn of_loss(call: &Call, f: impl Fn(f64, f64) -> f64) -> Answer {
    let (grad, x, y) = (incoming(call)?, call.tensor("self")?, call.tensor("target")?);
    let count = layout::numel(&layout::broadcast(x.shape(), y.shape())?) as f64;
    let share = if call.int("reduction")? == 1 { 1.0 / count } else { 1.0 };
    let types = Types { out: x.dtype(), ..same(call, result_type(&x, &y)) };
    one(map3([&grad, &x, &y], types, |g: f64, x: f64, y: f64| f(x, y) * g * share)?)
}

fn smooth_l1_loss_backward(call: &Call) -> Answer {
    let beta = call.opt_float("beta")?.unwrap_or(1.0);
    of_loss(call, |x, y| match x - y {
        d if d <= -beta => -1.0,
        d if d >= beta => 1.0,
        d => d / beta,
    })
}

fn huber_loss_backward(call: &Call) -> Answer {
    let delta = call.float("delta")?;
    let expected = call.tensor("self")?.dtype();
    let found = [call.tensor("target")?.dtype(), incoming(call)?.dtype()].into_iter().find(|&dtype| dtype != expected);
    if let Some(found) = found {
        return Err(Stop::raised(format!("Found dtype {} but expected {}", found.name(), expected.name())));
    }
    of_loss(call, |x, y| match x - y {
        d if d < -delta => -delta,
        d if d > delta => delta,
        d => d,
    })
}

fn kl_div_backward(call: &Call) -> Answer {
    match call.bool("log_target")? {
        true => of_loss(call, |_, y| -y.exp()),
        false => of_loss(call, |_, y| if y > 0.0 { -y } else { 0.0 }),
    }
}

fn binary_cross_entropy_backward(call: &Call) -> Answer {
    let weight = call.opt_tensor("weight")?;
    let plain = of_loss(call, |x, y| (x - y) / ((1.0 - x) * x).max(1e-12))?;
    match (weight, plain.first().and_then(IValue::tensor)) {
        (Some(weight), Some(gradient)) => one(multiply(call, gradient, &weight)?),
        _ => Ok(plain),
    }
}

fn nll_loss_backward(call: &Call) -> Answer {
    let (grad, x) = (incoming(call)?, call.tensor("self")?);
    let classes = super::losses::classes(call, &x)?;
    let mut rows = Rows::<f64>::along(&x, &[classes.dim]);
    rows.elements.fill(0.0);
    let grads = grad.read::<f64>();
    check(grads.len() == 1 || grads.len() == rows.count, || "nll_loss_backward: wrong gradient".to_owned())?;
    let total: f64 = classes.weights.iter().sum();
    let share = if call.int("reduction")? == 1 { 1.0 / total } else { 1.0 };
    for (i, row) in rows.iter_mut().enumerate() {
        if let Some(right) = classes.right[i] {
            row[right] = -classes.weights[i] * share * grads[if grads.len() == 1 { 0 } else { i }];
        }
    }
    one(from_rows(call, &rows, classes.dim, x.dtype(), &x))
}

/// Gradients are accumulated in the rows that were looked up.
fn embedding_dense_backward(call: &Call) -> Answer {
    let (grad, indices) = (incoming(call)?, call.tensor("indices")?);
    let (count, padding) = (call.int("num_weights")?, call.int("padding_idx")?);
    check(grad.rank() > 0, || "Dimension specified as -1 but tensor has no dimensions".to_owned())?;
    let len = grad.size(grad.rank() - 1);
    let total = layout::checked(&[count, len])?;
    let (indices, grads) = (indices.read::<i64>(), grad.read::<f64>());
    check(indices.len() * len as usize == grads.len(), || "embedding_dense_backward: wrong gradient".to_owned())?;
    let mut result = vec![0.0; total];
    let often = |index: i64| match call.bool("scale_grad_by_freq") {
        Ok(true) => indices.iter().filter(|&&other| other == index).count() as f64,
        _ => 1.0,
    };
    for (&index, row) in indices.iter().zip(grads.chunks_exact((len as usize).max(1))) {
        check((0..count).contains(&index), || "index out of range in self".to_owned())?;
        if index != padding {
            let (at, often) = (index as usize * len as usize, often(index));
            result[at..at + len as usize].iter_mut().zip(row).for_each(|(sum, g)| *sum += g / often);
        }
    }
    one(like(call, &result, grad.dtype(), &[count, len], &grad))
}

fn masked_scale(call: &Call, name: &str) -> Answer {
    let (x, mask, scale) = (call.tensor(name)?, call.tensor("mask")?, call.float("scale")?);
    one(map2(&x, &mask, same(call, x.dtype()), |x: f64, keep: f64| x * keep * scale)?)
}
