//! Random operators. Every execution of a node has a stream of its own, see
//! [`random`](crate::interpreter::random): the numbers are not PyTorch's, but they have the same
//! distributions.

use super::elements::{check, floats, like, placed, same};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::random::Philox;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Rows, map1, map2, map3};
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::rand", |call| fresh(call, Philox::uniform)),
    ("aten::randn", |call| fresh(call, Philox::normal)),
    ("aten::rand_like", |call| alike(call, Philox::uniform)),
    ("aten::randn_like", |call| alike(call, Philox::normal)),
    ("aten::randint", randint),
    ("aten::randint_like", randint),
    ("aten::randperm", randperm),
    ("aten::normal", normal),
    ("aten::normal_functional", normal),
    ("aten::_no_grad_normal_", |call| refilled(call, "tensor", spread_normal(call)?)),
    ("aten::_no_grad_uniform_", |call| {
        let (low, high) = (call.float("a")?, call.float("b")?);
        refilled(call, "tensor", move |draws: &mut Philox| low + (high - low) * draws.uniform())
    }),
    ("aten::uniform", uniform),
    ("aten::random", random),
    ("aten::exponential", exponential),
    ("aten::geometric", geometric),
    ("aten::cauchy", cauchy),
    ("aten::log_normal", log_normal),
    ("aten::bernoulli", bernoulli),
    ("aten::poisson", poisson),
    ("aten::multinomial", multinomial),
    ("aten::dropout", |call| dropout(call, false)),
    ("aten::feature_dropout", |call| dropout(call, true)),
    ("aten::alpha_dropout", |call| alpha_dropout(call, false)),
    ("aten::feature_alpha_dropout", |call| alpha_dropout(call, true)),
    ("aten::_fused_dropout", fused_dropout),
    ("aten::native_dropout", native_dropout),
    ("aten::rrelu", rrelu),
];

/// The main tensor of a call, under any of its names.
fn operand(call: &Call) -> Result<Tensor, Stop> {
    call.tensor(if call.look("self").is_some() { "self" } else { "input" })
}

fn drawn(call: &Call, n: usize, f: impl Fn(&mut Philox) -> f64) -> Vec<f64> {
    let mut draws = call.draws();
    (0..n).map(|_| f(&mut draws)).collect()
}

fn on_device(call: &Call, tensor: Tensor) -> Tensor {
    match call.opt_device("device") {
        Some(device) => tensor.on(device),
        None => tensor,
    }
}

fn fresh(call: &Call, f: impl Fn(&mut Philox) -> f64) -> Answer {
    let shape = call.ints("size")?;
    let n = layout::checked(&shape)?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
    check(!dtype.is_integral(), || format!("\"check_uniform_bounds\" not implemented for '{}'", dtype.name()))?;
    one(on_device(call, call.made(&drawn(call, n, f), dtype, &shape)))
}

fn alike(call: &Call, f: impl Fn(&mut Philox) -> f64) -> Answer {
    let x = operand(call)?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(x.dtype());
    let tensor = like(call, &drawn(call, x.numel(), f), dtype, x.shape(), &x);
    one(on_device(call, tensor))
}

/// Draws new numbers for all elements; an in-place operator overwrites the old ones.
fn redrawn(call: &Call, f: impl Fn(&mut Philox) -> f64) -> Answer {
    let x = operand(call)?;
    one(like(call, &drawn(call, x.numel(), f), x.dtype(), x.shape(), &x))
}

fn refilled(call: &Call, name: &str, f: impl Fn(&mut Philox) -> f64) -> Answer {
    let x = call.tensor(name)?;
    x.write(&drawn(call, x.numel(), f));
    one(x)
}

fn randint(call: &Call) -> Answer {
    let (low, high) = (call.opt_int("low")?.unwrap_or(0), call.int("high")?);
    check(low < high, || format!("random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"))?;
    let like_what = call.look("self").is_some().then(|| call.tensor("self")).transpose()?;
    let shape = match &like_what {
        Some(x) => x.shape().to_vec(),
        None => call.ints("size")?,
    };
    let n = layout::checked(&shape)?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(like_what.as_ref().map_or(DType::Long, Tensor::dtype));
    let mut draws = call.draws();
    let numbers: Vec<i64> = (0..n).map(|_| draws.int(low, high)).collect();
    let tensor = call.made(&numbers, dtype, &shape);
    let tensor = like_what.map_or(tensor.clone(), |x| placed(tensor, &x));
    one(on_device(call, tensor))
}

/// Exchanges each element with a later one (Fisher-Yates).
fn randperm(call: &Call) -> Answer {
    let n = call.int("n")?;
    check(n >= 0, || format!("n must be non-negative, got{n}"))?;
    let count = layout::checked(&[n])?;
    let mut draws = call.draws();
    let mut numbers: Vec<i64> = (0..n).collect();
    for i in 0..count {
        let other = i + draws.below(count - i);
        numbers.swap(i, other);
    }
    one(on_device(call, call.made(&numbers, call.opt_dtype("dtype")?.unwrap_or(DType::Long), &[n])))
}

fn spread_normal(call: &Call) -> Result<impl Fn(&mut Philox) -> f64 + use<>, Stop> {
    let (mean, deviation) = (call.float("mean")?, call.float("std")?);
    check(deviation >= 0.0, || format!("normal expects std >= 0.0, but found std {deviation}"))?;
    Ok(move |draws: &mut Philox| mean + deviation * draws.normal())
}

/// Mean and deviation are numbers or tensors; the shape is that of the tensors, of the operand, or
/// given.
fn normal(call: &Call) -> Answer {
    let tensor = |name: &str| call.look(name).and_then(IValue::tensor).cloned();
    let (mean, deviation) = (tensor("mean"), tensor("std"));
    let Some(first) = mean.clone().or(deviation.clone()) else {
        return if call.look("size").is_some() {
            fresh(call, spread_normal(call)?)
        } else {
            redrawn(call, spread_normal(call)?)
        };
    };
    let shape = layout::broadcast_all([&mean, &deviation].into_iter().flatten().map(Tensor::shape))?;
    let noise = like(call, &drawn(call, layout::checked(&shape)?, Philox::normal), first.dtype(), &shape, &first);
    let whole = |tensor: Option<Tensor>, name: &str| -> Result<Tensor, Stop> {
        tensor.map_or_else(|| Ok(like(call, &[call.float(name)?], first.dtype(), &[], &first)), Ok)
    };
    let (mean, deviation) = (whole(mean, "mean")?, whole(deviation, "std")?);
    let types = same(call, first.dtype());
    one(map3([&noise, &mean, &deviation], types, |noise: f64, mean, deviation| mean + deviation * noise)?)
}

fn uniform(call: &Call) -> Answer {
    let (low, high) = (call.float("from")?, call.float("to")?);
    check(low <= high, || format!("uniform_ expects to return a [from, to) range, but found from={low} > to={high}"))?;
    redrawn(call, move |draws| low + (high - low) * draws.uniform())
}

/// Integers from a range, by default all that the element type represents exactly.
fn random(call: &Call) -> Answer {
    let x = operand(call)?;
    let default = match x.dtype() {
        DType::Half => 2049,
        DType::BFloat16 => 257,
        DType::Float => (1 << 24) + 1,
        DType::Double => (1 << 53) + 1,
        dtype => dtype.range().map_or(i64::MAX, |(_, most)| most.saturating_add(1)),
    };
    let (low, high) = (call.opt_int("from")?.unwrap_or(0), call.opt_int("to")?.unwrap_or(default));
    check(low < high, || format!("random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"))?;
    let mut draws = call.draws();
    let numbers: Vec<i64> = (0..x.numel()).map(|_| draws.int(low, high)).collect();
    one(like(call, &numbers, x.dtype(), x.shape(), &x))
}

fn exponential(call: &Call) -> Answer {
    let rate = call.float("lambd")?;
    check(rate > 0.0, || format!("exponential_ expects lambda > 0.0, but found lambda={rate}"))?;
    redrawn(call, move |draws| -(1.0 - draws.uniform()).ln() / rate)
}

fn geometric(call: &Call) -> Answer {
    let p = call.float("p")?;
    check(0.0 < p && p < 1.0, || format!("geometric_ expects p to be in (0, 1), but got p={p}"))?;
    redrawn(call, move |draws| ((1.0 - draws.uniform()).ln() / (1.0 - p).ln()).ceil().max(1.0))
}

fn cauchy(call: &Call) -> Answer {
    let (median, sigma) = (call.float("median")?, call.float("sigma")?);
    redrawn(call, move |draws| median + sigma * (std::f64::consts::PI * (draws.uniform() - 0.5)).tan())
}

fn log_normal(call: &Call) -> Answer {
    let draw = spread_normal(call)?;
    redrawn(call, move |draws| draw(draws).exp())
}

/// Probabilities are a number, a tensor, or the operand itself.
fn bernoulli(call: &Call) -> Answer {
    let x = operand(call)?;
    let has_p = call.schema.is_some_and(|schema| schema.formal("p").is_some());
    let p = match call.look("p").and_then(IValue::tensor) {
        Some(p) => p.broadcast_to(x.shape())?.read(),
        None if has_p => vec![call.float("p")?; x.numel()],
        None => x.read::<f64>(),
    };
    check(p.iter().all(|p| (0.0..=1.0).contains(p)), || {
        let wrong = p.iter().find(|p| !(0.0..=1.0).contains(*p)).copied().unwrap_or(f64::NAN);
        format!("bernoulli_ expects p to be in [0, 1], but got p={wrong}")
    })?;
    let mut draws = call.draws();
    let hits: Vec<f64> = p.iter().map(|&p| f64::from(u8::from(draws.uniform() < p))).collect();
    one(like(call, &hits, x.dtype(), x.shape(), &x))
}

/// By multiplying uniform numbers (Knuth); for large rates a rounded normal number.
fn poisson(call: &Call) -> Answer {
    let x = operand(call)?;
    floats("poisson_cpu", &x)?;
    let mut draws = call.draws();
    let draw = |rate: f64| {
        if rate > 500.0 {
            return (rate + rate.sqrt() * draws.normal()).round().max(0.0);
        }
        let (bound, mut product, mut count) = ((-rate).exp(), draws.uniform(), 0.0);
        while product > bound {
            product *= draws.uniform();
            count += 1.0;
        }
        count
    };
    let counts: Vec<f64> = x.read::<f64>().into_iter().map(draw).collect();
    one(like(call, &counts, x.dtype(), x.shape(), &x))
}

fn multinomial(call: &Call) -> Answer {
    let (x, count, again) = (operand(call)?, call.int("num_samples")?, call.bool("replacement")?);
    floats("multinomial", &x)?;
    check(x.rank() == 1 || x.rank() == 2, || "prob_dist must be 1 or 2 dim".to_owned())?;
    check(count > 0, || "cannot sample n_sample <= 0 samples".to_owned())?;
    let mut rows = Rows::<f64>::along(&x, &[x.rank() - 1]);
    check(again || count as usize <= rows.len, || {
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement".to_owned()
    })?;
    check(rows.elements.iter().all(|p| p.is_finite() && *p >= 0.0), || {
        "probability tensor contains either `inf`, `nan` or element < 0".to_owned()
    })?;
    let mut shape = rows.outer.clone();
    shape.push(count);
    layout::checked(&shape)?;
    let (mut draws, mut chosen) = (call.draws(), Vec::new());
    for row in rows.iter_mut() {
        for _ in 0..count {
            let picked = pick(row, draws.uniform());
            check(row.get(picked).is_some_and(|&p| p > 0.0) || !again, || {
                "invalid multinomial distribution (sum of probabilities <= 0)".to_owned()
            })?;
            chosen.push(picked as i64);
            if let Some(p) = row.get_mut(picked).filter(|_| !again) {
                *p = 0.0;
            }
        }
    }
    one(like(call, &chosen, DType::Long, &shape, &x))
}

/// The index of a uniform number among cumulative weights.
fn pick(weights: &[f64], uniform: f64) -> usize {
    let mut left = uniform * weights.iter().sum::<f64>();
    for (i, &weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return i;
        }
    }
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}

/// Zeros and ones, one with a probability: for each element, or for each channel of each example.
fn noise(call: &Call, x: &Tensor, keep: f64, channels: bool) -> Tensor {
    let shape: Vec<i64> = match channels {
        true => (0..x.rank()).map(|i| if i < 2 { x.size(i) } else { 1 }).collect(),
        false => x.shape().to_vec(),
    };
    let hit = |draws: &mut Philox| f64::from(u8::from(draws.uniform() < keep));
    like(call, &drawn(call, layout::numel(&shape), hit), x.dtype(), &shape, x)
}

fn rate(call: &Call) -> Result<f64, Stop> {
    let p = call.float("p")?;
    check((0.0..=1.0).contains(&p), || format!("dropout probability has to be between 0 and 1, but got {p}"))?;
    Ok(p)
}

/// Dropout; outside of training the tensor itself.
fn dropout(call: &Call, channels: bool) -> Answer {
    let (x, p) = (operand(call)?, rate(call)?);
    if p == 0.0 || !call.bool("train")? || x.numel() == 0 {
        return one(x);
    }
    check(!channels || x.rank() >= 2, || "Feature dropout requires at least 2 dimensions in the input".to_owned())?;
    let scale = if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) };
    let noise = noise(call, &x, 1.0 - p, channels);
    one(map2(&x, &noise, same(call, x.dtype()), |x: f64, keep: f64| x * (keep * scale))?)
}

/// Dropped elements become the limit of SELU, and the result is scaled to keep mean and variance
/// (Klambauer et al. 2017).
fn alpha_dropout(call: &Call, channels: bool) -> Answer {
    let (x, p) = (operand(call)?, rate(call)?);
    if p == 0.0 || !call.bool("train")? || x.numel() == 0 {
        return one(x);
    }
    let alpha = 1.758_099_340_847_376_6;
    let a = if p == 1.0 { 0.0 } else { 1.0 / ((alpha * alpha * p + 1.0) * (1.0 - p)).sqrt() };
    let noise = noise(call, &x, 1.0 - p, channels);
    let f = |x: f64, keep: f64| x * keep * a + (keep - 1.0) * alpha * a + alpha * a * p;
    one(map2(&x, &noise, same(call, x.dtype()), f)?)
}

/// The probability is that of keeping an element.
fn fused_dropout(call: &Call) -> Answer {
    let (x, keep) = (operand(call)?, rate(call)?);
    let noise = noise(call, &x, keep, false);
    let out = map2(&x, &noise, same(call, x.dtype()), |x: f64, hit: f64| x * hit / keep)?;
    several([out, noise.converted(DType::Byte, call.precision())])
}

fn native_dropout(call: &Call) -> Answer {
    let (x, p) = (operand(call)?, rate(call)?);
    let train = call.opt_scalar("train")?.is_none_or(|train| train.truth());
    let keep = if train { 1.0 - p } else { 1.0 };
    let noise = noise(call, &x, keep, false);
    let scale = if keep == 0.0 { 0.0 } else { 1.0 / keep };
    let out = match train {
        true => map2(&x, &noise, same(call, x.dtype()), |x: f64, hit: f64| x * hit * scale)?,
        false => x.clone(),
    };
    let mask = noise.converted(DType::Bool, call.precision());
    several([out, mask.laid(layout::kept_strides(x.shape(), x.strides()))])
}

/// A leaky ReLU whose slope is drawn in training, else the mean of the bounds.
fn rrelu(call: &Call) -> Answer {
    let x = operand(call)?;
    floats("leaky_relu_cpu", &x)?;
    let (low, high) = (call.float("lower")?, call.float("upper")?);
    if !call.bool("training")? {
        let slope = (low + high) / 2.0;
        return one(map1(&x, same(call, x.dtype()), |x: f64| if x > 0.0 { x } else { x * slope })?);
    }
    let slopes = drawn(call, x.numel(), |draws| low + (high - low) * draws.uniform());
    let slopes = like(call, &slopes, x.dtype(), x.shape(), &x);
    one(map2(&x, &slopes, same(call, x.dtype()), |x: f64, slope: f64| if x > 0.0 { x } else { x * slope })?)
}
