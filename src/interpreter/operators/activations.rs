//! Elementwise activations.

use super::clamping::within_range;
use super::elements::{check, floats};
use super::operands::{as_element, computed_with};
use super::picking::check_fits;
use super::pointwise::{keeping, larger, not_implemented, ordered, positive, self_of, sigmoid, smaller};
use crate::interpreter::Release;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::exact_literals::general;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map2};
use crate::tensor::buffer::Wide;
use crate::tensor::{DType, Kind, Scalar, layout};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::relu", |call| match self_of(call)?.dtype() {
        DType::Bool => Err(Stop::raised("Boolean inputs not supported for relu")),
        dtype if dtype.is_complex() => Err(Stop::raised(NO_BOUNDS)),
        // Since 1.9 it is a clamp, which keeps -0.0.
        _ if call.release() >= Release(1, 9) => keeping(call, |n| n.max(0), |x| if x < 0.0 { 0.0 } else { x }, |z| z),
        _ => keeping(call, |n| n.max(0), positive, |z| z),
    }),
    ("aten::relu6", |call| {
        refuse_unordered(call)?;
        keeping(call, |n| n.clamp(0, 6), |x| clamped(x, 0.0, 6.0), |z| z)
    }),
    ("aten::hardtanh", hardtanh),
    ("aten::hardsigmoid", |call| of_floats(call, "hardsigmoid_cpu", |x| clamped(x + 3.0, 0.0, 6.0) / 6.0)),
    ("aten::hardswish", |call| {
        // The product may overflow where the quotient does not.
        let computed = computed_in(call)?;
        of_floats(call, "hardswish_cpu", |x| (x * clamped(x + 3.0, 0.0, 6.0)).through(computed) / 6.0)
    }),
    ("aten::silu", |call| match self_of(call)?.dtype().is_integral() {
        true => Err(not_implemented("silu_cpu", self_of(call)?.dtype())),
        false => keeping(call, |n| n, |x| x * sigmoid(x), |z| z / (1.0 + (-z).exp())),
    }),
    ("aten::mish", |call| of_floats(call, "mish_cpu", |x| x * x.exp().ln_1p().tanh_of_large())),
    ("aten::gelu", gelu),
    ("aten::elu", elu),
    ("aten::celu", |call| {
        let alpha = parameter(call, "alpha", 1.0)?;
        if alpha == 0.0 {
            return Err(Stop::raised("ZeroDivisionError: alpha cannot be 0 for CELU"));
        }
        floats("elu_cpu", &self_of(call)?)?;
        check_fits(Scalar::Float(1.0 / alpha), computed_in(call)?)?;
        of_floats(call, "elu_cpu", |x| if x > 0.0 { x } else { alpha * (x / alpha).exp_m1() })
    }),
    ("aten::selu", |call| {
        of_floats(call, "elu_cpu", |x| SELU_SCALE * if x > 0.0 { x } else { SELU_ALPHA * x.exp_m1() })
    }),
    ("aten::leaky_relu", |call| {
        let slope = parameter(call, "negative_slope", 0.01)?;
        of_floats(call, "leaky_relu_cpu", |x| if x > 0.0 { x } else { x * slope })
    }),
    ("aten::softplus", |call| {
        let (beta, threshold) = (parameter(call, "beta", 1.0)?, parameter(call, "threshold", 20.0)?);
        of_floats(call, "softplus_cpu", |x| if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta })
    }),
    ("aten::log_sigmoid", |call| of_floats(call, "log_sigmoid_cpu", log_sigmoid)),
    ("aten::hardshrink", |call| {
        let bound = bound_of_shrinking(call, "hardshrink_cpu")?;
        of_floats(call, "hardshrink_cpu", |x| if (-bound..=bound).contains(&x) { 0.0 } else { x })
    }),
    ("aten::softshrink", softshrink),
    ("aten::threshold", |call| {
        let (threshold, value) = (call.scalar("threshold")?, call.scalar("value")?);
        let dtype = self_of(call)?.dtype();
        if dtype == DType::Bool || dtype.is_complex() {
            return Err(not_implemented("threshold_cpu", dtype));
        }
        // 16-bit floats are compared in single precision, but the replacement value is rounded to
        // 16 bits.
        check_fits(threshold, if dtype.is_short_float() { DType::Float } else { dtype })?;
        check_fits(value, dtype)?;
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

/// PyTorch's message for clamping complex numbers.
const NO_BOUNDS: &str = "clamp is not supported for complex types";

/// Floating point types only; others have no kernel.
fn of_floats(call: &Call<'_>, kernel: &str, f: impl Fn(f64) -> f64) -> Answer {
    floats(kernel, &self_of(call)?)?;
    keeping(call, |n| n, f, |z| z)
}

/// The type of floating point computations, rounded after each step.
fn computed_in(call: &Call<'_>) -> Result<DType, Stop> {
    let dtype = self_of(call)?.dtype();
    Ok(call.precision().kept(if dtype.is_short_float() { DType::Float } else { dtype }))
}

/// A number used with the operand. With integers it is ignored: there is no kernel.
fn parameter(call: &Call<'_>, name: &str, default: f64) -> Result<f64, Stop> {
    let (x, dtype) = (Scalar::Float(call.opt_float(name)?.unwrap_or(default)), self_of(call)?.dtype());
    if dtype.is_float() {
        computed_with(x, dtype, call.precision())?;
    }
    Ok(x.real())
}

/// Refuses bools and complex numbers, which cannot be clamped.
fn refuse_unordered(call: &Call<'_>) -> Result<(), Stop> {
    match self_of(call)?.dtype() {
        DType::Bool => Err(Stop::raised("Bool inputs not supported for hardtanh")),
        _ => ordered(call, NO_BOUNDS),
    }
}

/// Clamps with the lower bound, then the upper, as `clamp`; before 1.5 the lower bound alone if the
/// bounds cross.
fn hardtanh(call: &Call<'_>) -> Answer {
    refuse_unordered(call)?;
    let (low, high) = (call.opt_float("min_val")?.unwrap_or(-1.0), call.opt_float("max_val")?.unwrap_or(1.0));
    let dtype = self_of(call)?.dtype();
    let own = if dtype.is_float() { dtype } else { DType::Long };
    [low, high].into_iter().try_for_each(|bound| check_fits(Scalar::Float(bound), own))?;
    if call.release() < Release(1, 5) {
        return keeping(call, |n| n.max(low as i64).min(high as i64), |x| clamped(x, low, high), |z| z);
    }
    let whole = |bound: f64, is_low| match dtype.is_float() {
        true => Ok(0),
        false => within_range(call, bound as i64, dtype, is_low),
    };
    let (least, most) = (whole(low, true)?, whole(high, false)?);
    keeping(call, |n| n.max(least).min(most), |x| smaller(larger(x, low), high), |z| z)
}

fn softshrink(call: &Call<'_>) -> Answer {
    floats("softshrink_check", &self_of(call)?)?;
    let (dtype, given) = (self_of(call)?.dtype(), call.opt_float("lambd")?.unwrap_or(0.5));
    check((0.0..=dtype.largest()).contains(&given), || {
        let (largest, name) = (general(dtype.largest()), dtype.name());
        format!("lambda must be in range [0, {largest}] for input dtype {name}, but found {}", general(given))
    })?;
    let bound = bound_of_shrinking(call, "softshrink_check")?;
    let f = |x: f64| match () {
        () if x > bound => x - bound,
        () if x < -bound => x + bound,
        () if x.is_nan() => x,
        () => 0.0,
    };
    of_floats(call, "softshrink_cpu", f)
}

/// The bound below which elements become 0, as an element.
fn bound_of_shrinking(call: &Call<'_>, kernel: &str) -> Result<f64, Stop> {
    floats(kernel, &self_of(call)?)?;
    let (bound, dtype) = (Scalar::Float(call.opt_float("lambd")?.unwrap_or(0.5)), self_of(call)?.dtype());
    check_fits(bound, dtype)?;
    Ok(as_element(bound, dtype, call.precision()).real())
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

/// `tanh` that stays 1 if its argument overflowed.
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
    let kernel = "GeluKernelImpl";
    match call.opt_str("approximate")?.as_deref() {
        Some("tanh") => {
            // `(1 + tanh(u)) / 2`, which keeps precision in the form of the logistic function of
            // `2u`.
            of_floats(call, kernel, |x| x * sigmoid((8.0 / PI).sqrt() * (x + 0.044715 * x * x * x)))
        }
        None | Some("none") => of_floats(call, kernel, |x| x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2)),
        Some(other) => Err(Stop::raised(format!("approximate argument must be either none or tanh, not {other}"))),
    }
}

fn elu(call: &Call<'_>) -> Answer {
    let alpha = parameter(call, "alpha", 1.0)?;
    let (scale, input_scale) = (parameter(call, "scale", 1.0)?, parameter(call, "input_scale", 1.0)?);
    of_floats(call, "elu_cpu", |x| scale * if x > 0.0 { x } else { alpha * (x * input_scale).exp_m1() })
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
        // The kernel takes weights that were expanded to the rank of the input.
        _ if call.kind().short() != "prelu" => weight,
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
    floats("glu_cpu", &x)?;
    let n = x.size(dim);
    if n % 2 != 0 {
        return Err(Stop::raised(format!("Halving dimension must be even, but dimension {dim} is size {n}")));
    }
    let types = Types::same(x.dtype(), call.precision());
    let (values, gates) = (x.narrow(dim, 0, n / 2, 1), x.narrow(dim, n / 2, n / 2, 1));
    one(map2(&values, &gates, types, |a: f64, b| a * sigmoid(b))?)
}
