//! Activations, element by element.

use super::operands::as_element;
use super::picking::check_fits;
use super::pointwise::{keeping, positive, real, self_of, sigmoid};
use crate::interpreter::Release;
use crate::interpreter::call::{Answer, Call, one};
use crate::interpreter::library::Row;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map2};
use crate::tensor::{DType, Kind, Scalar, layout};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The rows.
pub const ROWS: &[Row] = &[
    ("aten::relu", |call| match self_of(call)?.dtype() {
        DType::Bool => Err(Stop::raised("Boolean inputs not supported for relu")),
        // Since 1.9 it is a bound, and leaves -0.0 as it is.
        _ if call.release() >= Release(1, 9) => keeping(call, |n| n.max(0), |x| if x < 0.0 { 0.0 } else { x }, |z| z),
        _ => keeping(call, |n| n.max(0), positive, |z| z),
    }),
    ("aten::relu6", |call| keeping(call, |n| n.clamp(0, 6), |x| clamped(x, 0.0, 6.0), |z| z)),
    ("aten::hardtanh", |call| {
        let (low, high) = (call.opt_float("min_val")?.unwrap_or(-1.0), call.opt_float("max_val")?.unwrap_or(1.0));
        let dtype = self_of(call)?.dtype();
        for bound in [low, high].into_iter().filter(|_| dtype.is_float()) {
            check_fits(Scalar::Float(bound), dtype)?;
        }
        keeping(call, |n| n.max(low as i64).min(high as i64), |x| clamped(x, low, high), |z| z)
    }),
    ("aten::hardsigmoid", |call| real(call, |x| clamped(x + 3.0, 0.0, 6.0) / 6.0, |z| z)),
    ("aten::hardswish", |call| real(call, |x| x * clamped(x + 3.0, 0.0, 6.0) / 6.0, |z| z)),
    ("aten::silu", |call| real(call, |x| x * sigmoid(x), |z| z / (1.0 + (-z).exp()))),
    ("aten::mish", |call| real(call, |x| x * x.exp().ln_1p().tanh_of_large(), |z| z)),
    ("aten::gelu", gelu),
    ("aten::elu", elu),
    ("aten::celu", |call| {
        let alpha = call.opt_float("alpha")?.unwrap_or(1.0);
        real(call, |x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() }, |z| z)
    }),
    ("aten::selu", |call| real(call, |x| SELU_SCALE * if x > 0.0 { x } else { SELU_ALPHA * x.exp_m1() }, |z| z)),
    ("aten::leaky_relu", |call| {
        let slope = call.opt_float("negative_slope")?.unwrap_or(0.01);
        real(call, |x| if x > 0.0 { x } else { x * slope }, |z| z)
    }),
    ("aten::softplus", |call| {
        let (beta, threshold) = (call.opt_float("beta")?.unwrap_or(1.0), call.opt_float("threshold")?.unwrap_or(20.0));
        real(call, |x| if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta }, |z| z)
    }),
    ("aten::log_sigmoid", |call| real(call, log_sigmoid, |z| z)),
    ("aten::hardshrink", |call| {
        let bound = bound_of_shrinking(call)?;
        real(call, |x| if (-bound..=bound).contains(&x) { 0.0 } else { x }, |z| z)
    }),
    ("aten::softshrink", |call| {
        let bound = bound_of_shrinking(call)?;
        real(
            call,
            |x| {
                if x > bound {
                    x - bound
                } else if x < -bound {
                    x + bound
                } else if x.is_nan() {
                    x
                } else {
                    0.0
                }
            },
            |z| z,
        )
    }),
    ("aten::threshold", |call| {
        let (threshold, value) = (call.scalar("threshold")?, call.scalar("value")?);
        let dtype = self_of(call)?.dtype();
        [threshold, value].into_iter().try_for_each(|bound| check_fits(bound, dtype))?;
        let wrapped = |bound: Scalar| if dtype == DType::Byte { bound.int().rem_euclid(256) } else { bound.int() };
        let (int_t, int_v) = (wrapped(threshold), wrapped(value));
        // Both are numbers of the element type.
        let own = |bound: Scalar| {
            if dtype.is_float() { as_element(bound, dtype, call.precision()).real() } else { bound.real() }
        };
        let (t, v) = (own(threshold), own(value));
        keeping(call, |n| if n <= int_t { int_v } else { n }, |x| if x <= t { v } else { x }, |z| z)
    }),
    ("aten::prelu", prelu),
    ("aten::_prelu_kernel", prelu),
    ("aten::glu", glu),
];

/// Klambauer and others, "Self-normalizing neural networks" (2017).
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// The width of what becomes 0, as an element.
fn bound_of_shrinking(call: &Call<'_>) -> Result<f64, Stop> {
    let (bound, dtype) = (call.opt_float("lambd")?.unwrap_or(0.5), self_of(call)?.dtype());
    Ok(if dtype.is_float() { as_element(Scalar::Float(bound), dtype, call.precision()).real() } else { bound })
}

fn clamped(x: f64, low: f64, high: f64) -> f64 {
    if x < low {
        low
    } else if x > high {
        high
    } else {
        x
    }
}

/// `tanh` that stays 1 where its argument overflowed.
trait TanhOfLarge {
    fn tanh_of_large(self) -> Self;
}

impl TanhOfLarge for f64 {
    fn tanh_of_large(self) -> f64 {
        if self == f64::INFINITY { 1.0 } else { self.tanh() }
    }
}

fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

fn gelu(call: &Call<'_>) -> Answer {
    match call.opt_str("approximate")?.as_deref() {
        Some("tanh") => {
            real(call, |x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()), |z| z)
        }
        None | Some("none") => real(call, |x| x * 0.5 * (1.0 + libm::erf(x * FRAC_1_SQRT_2)), |z| z),
        Some(other) => Err(Stop::raised(format!("approximate argument must be either none or tanh, not {other}"))),
    }
}

fn elu(call: &Call<'_>) -> Answer {
    let alpha = call.opt_float("alpha")?.unwrap_or(1.0);
    let (scale, input_scale) = (call.opt_float("scale")?.unwrap_or(1.0), call.opt_float("input_scale")?.unwrap_or(1.0));
    real(call, |x| scale * if x > 0.0 { x } else { alpha * (x * input_scale).exp_m1() }, |z| z)
}

/// One slope for all, or one for each slice of dimension 1.
fn prelu(call: &Call<'_>) -> Answer {
    let (x, weight) = (self_of(call)?, call.tensor("weight")?);
    let types = Types::same(x.dtype(), call.precision());
    if x.dtype().arithmetic() != Some(Kind::Float) {
        return Err(Stop::raised("prelu: Type promoting not supported"));
    }
    if weight.dtype() != x.dtype() {
        let (x, weight) = (x.dtype().name(), weight.dtype().name());
        return Err(Stop::raised(format!("prelu: Type promoting not supported. Got {x} and {weight}")));
    }
    let channels = if x.rank() > 1 { x.size(1) } else { 1 };
    if call.kind().short() == "prelu" && (weight.rank() > 1 || ![1, channels].contains(&(weight.numel() as i64))) {
        return Err(Stop::raised(format!(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
            weight.numel()
        )));
    }
    let slopes = match weight.numel() {
        1 => weight.reshape(&[]),
        n if x.rank() > 1 && weight.rank() <= 1 && n as i64 == x.size(1) => {
            let mut shape: layout::Dims = smallvec::smallvec![1; x.rank()];
            shape[1] = n as i64;
            weight.reshape(&shape)
        }
        _ => weight,
    };
    one(map2(&x, &slopes, types, |x: f64, slope| if x > 0.0 { x } else { x * slope })?)
}

/// The first half times the logistic function of the second.
fn glu(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    let dim = layout::wrap(call.opt_int("dim")?.unwrap_or(-1), x.rank())?;
    if x.rank() == 0 {
        return Err(Stop::raised("glu does not support 0-dimensional tensors"));
    }
    let n = x.size(dim);
    if n % 2 != 0 {
        return Err(Stop::raised(format!("Halving dimension must be even, but dimension {dim} is size {n}")));
    }
    let types = Types::same(x.dtype(), call.precision());
    let (values, gates) = (x.narrow(dim, 0, n / 2, 1), x.narrow(dim, n / 2, n / 2, 1));
    one(map2(&values, &gates, types, |a: f64, b| a * sigmoid(b))?)
}
