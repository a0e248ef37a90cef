//! Elementwise arithmetic and functions.

use super::elements::{check, floats};
use super::operands::{Operand, alpha, arithmetic, as_element, both, common, factor, operand, scaling};
use super::picking::check_fits;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map1, map2};
use crate::tensor::buffer::Wide;
use crate::tensor::promotion::to_float_arithmetic;
use crate::tensor::{C128, DType, Kind, Scalar, Tensor};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::add", |call| scaled(call, i64::wrapping_add, |a, b| a + b, |a, b| a + b)),
    ("aten::_add_relu", |call| scaled(call, |a, b| a.wrapping_add(b).max(0), |a, b| positive(a + b), |a, b| a + b)),
    ("aten::sub", sub),
    ("aten::subtract", sub),
    ("aten::rsub", |call| {
        refuse_bools(call)?;
        let alpha = alpha(call)?.unwrap_or(Scalar::Int(1));
        let (int, real, complex) = (alpha.int(), alpha.real(), alpha.wide::<C128>());
        arithmetic(
            call,
            move |a, b| b.wrapping_sub(a.wrapping_mul(int)),
            move |a, b| b - a * real,
            move |a, b| b - a * complex,
        )
    }),
    ("aten::mul", |call| scaling(call, i64::wrapping_mul, |a, b| a * b, |a, b| a * b)),
    ("aten::multiply", |call| scaling(call, i64::wrapping_mul, |a, b| a * b, |a, b| a * b)),
    ("aten::div", div),
    ("aten::divide", div),
    ("aten::true_divide", |call| true_div(call)),
    ("aten::floor_divide", floor_divide),
    ("aten::remainder", remainder),
    ("aten::fmod", fmod),
    ("aten::pow", pow),
    ("aten::float_power", |call| {
        let (x, y) = (call.tensor("self")?, call.tensor("exponent")?);
        if x.dtype().is_complex() || y.dtype().is_complex() {
            let types = Types::same(DType::ComplexDouble, call.precision());
            return one(map2(
                &x,
                &y,
                types,
                |a: C128, b: C128| {
                    if b == C128::default() { C128::from(1.0) } else { a.powc(b) }
                },
            )?);
        }
        let power = powers(call.look("exponent").and_then(IValue::scalar), DType::Double);
        one(map2(&x, &y, Types::same(DType::Double, call.precision()), power)?)
    }),
    ("aten::hypot", |call| of_two_floats(call, "hypot_cpu", f64::hypot)),
    ("aten::atan2", |call| float_binary(call, f64::atan2)),
    ("aten::arctan2", |call| float_binary(call, f64::atan2)),
    ("aten::copysign", |call| float_binary(call, f64::copysign)),
    ("aten::logaddexp", |call| of_two_floats(call, "logaddexp_cpu", log_add_exp)),
    ("aten::logaddexp2", |call| of_two_floats(call, "logaddexp2_cpu", |a, b| log_add_exp(a * LN_2, b * LN_2) / LN_2)),
    ("aten::xlogy", |call| {
        float_binary(call, |x, y| {
            if y.is_nan() {
                y
            } else if x == 0.0 {
                0.0
            } else {
                x * y.ln()
            }
        })
    }),
    ("aten::nextafter", |call| {
        let dtype = common(&operand(call, 0)?, &operand(call, 1)?);
        match dtype {
            DType::Float => float_binary(call, |a, b| f64::from(libm::nextafterf(a as f32, b as f32))),
            _ => of_two_floats(call, "nextafter_cpu", libm::nextafter),
        }
    }),
    ("aten::ldexp", ldexp),
    ("aten::heaviside", |call| {
        let (x, y) = (call.tensor("self")?, call.tensor("values")?);
        if x.dtype() != y.dtype() {
            return Err(Stop::raised("heaviside is not yet implemented for tensors with different dtypes."));
        }
        let f = |x: f64, y: f64| {
            // NaN is not above 0.
            if x == 0.0 { y } else { f64::from(u8::from(x > 0.0)) }
        };
        one(map2(&x, &y, Types::same(x.dtype(), call.precision()), f)?)
    }),
    ("aten::maximum", |call| {
        ordered(call, "maximum not implemented for complex tensors.")?;
        arithmetic(call, i64::max, larger, |a, _| a)
    }),
    ("aten::minimum", |call| {
        ordered(call, "minimum not implemented for complex tensors.")?;
        arithmetic(call, i64::min, smaller, |a, _| a)
    }),
    ("aten::fmax", |call| arithmetic(call, i64::max, f64::max, |a, _| a)),
    ("aten::fmin", |call| arithmetic(call, i64::min, f64::min, |a, _| a)),
    ("aten::gcd", |call| of_integers(call, "gcd_cpu", gcd)),
    ("aten::lcm", |call| of_integers(call, "lcm_cpu", lcm)),
    ("aten::complex", |call| {
        let (re, im) = (call.tensor("real")?, call.tensor("imag")?);
        if re.dtype() == DType::Half && im.dtype() == DType::Half {
            return Err(Stop::unsupported("complex numbers of 16-bit floats do not exist here"));
        }
        check(re.dtype().is_float() && re.dtype() == im.dtype() && re.dtype() != DType::BFloat16, || {
            let names = (re.dtype().name(), im.dtype().name());
            format!("Expected both inputs to be Half, Float or Double tensors but got {} and {}", names.0, names.1)
        })?;
        one(map2(&re, &im, Types::same(re.dtype().to_complex(), call.precision()), |re: C128, im| {
            C128::new(re.re, im.re)
        })?)
    }),
    ("aten::polar", |call| {
        let (length, angle) = (call.tensor("abs")?, call.tensor("angle")?);
        let types = (length.dtype(), angle.dtype());
        check(types.0.is_float() && types.1.is_float(), || {
            let (length, angle) = (types.0.name(), types.1.name());
            format!("Expected both inputs to be Half, Float or Double tensors but got {length} and {angle}")
        })?;
        check(types.0 == types.1, || {
            let (length, angle) = (types.0.name(), types.1.name());
            format!("Expected object of scalar type {length} but got scalar type {angle} for second argument")
        })?;
        if !matches!(types.0, DType::Float | DType::Double) {
            return Err(not_implemented("polar_cpu", types.0));
        }
        let types = Types::same(types.0.to_complex(), call.precision());
        one(map2(&length, &angle, types, |length: C128, angle| C128::from_polar(length.re, angle.re))?)
    }),
    // ---- the kind of the operand is kept
    ("aten::neg", negative),
    ("aten::negative", negative),
    ("aten::positive", |call| match self_of(call)?.dtype() {
        DType::Bool => Err(Stop::raised("The `+` operator, on a bool tensor is not supported.")),
        _ => one(self_of(call)?),
    }),
    ("aten::abs", abs),
    ("aten::absolute", abs),
    ("aten::sign", |call| {
        ordered(
            call,
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
        )?;
        keeping(call, i64::signum, sign, sgn)
    }),
    ("aten::sgn", |call| keeping(call, i64::signum, sign, sgn)),
    ("aten::ceil", |call| rounded(call, "ceil_vml_cpu", f64::ceil)),
    ("aten::floor", |call| rounded(call, "floor_vml_cpu", f64::floor)),
    ("aten::trunc", |call| rounded(call, "trunc_vml_cpu", f64::trunc)),
    ("aten::fix", |call| rounded(call, "trunc_vml_cpu", f64::trunc)),
    ("aten::round", round),
    ("aten::frac", |call| {
        floats("frac_cpu", &self_of(call)?)?;
        keeping(call, |n| n, |x| x - x.trunc(), |z| z)
    }),
    ("aten::square", |call| match call.tensor("self")?.dtype() {
        // A power with an integer exponent: of bools it is an integer.
        DType::Bool => one(call.tensor("self")?.converted(DType::Long, call.precision())),
        _ => keeping(call, |n| n.wrapping_mul(n), |x| x * x, |z| z * z),
    }),
    ("aten::nan_to_num", nan_to_num),
    ("aten::bitwise_not", bitwise_not),
    ("aten::__invert__", bitwise_not),
    ("aten::__and__", |call| bitwise(call, |a, b| a & b)),
    ("aten::__or__", |call| bitwise(call, |a, b| a | b)),
    ("aten::__xor__", |call| bitwise(call, |a, b| a ^ b)),
    ("aten::bitwise_and", |call| bitwise(call, |a, b| a & b)),
    ("aten::bitwise_or", |call| bitwise(call, |a, b| a | b)),
    ("aten::bitwise_xor", |call| bitwise(call, |a, b| a ^ b)),
    ("aten::__iand__", |call| bitwise_in_place(call, |a, b| a & b)),
    ("aten::__ior__", |call| bitwise_in_place(call, |a, b| a | b)),
    ("aten::__ixor__", |call| bitwise_in_place(call, |a, b| a ^ b)),
    ("aten::__lshift__", |call| shift(call, true)),
    ("aten::__rshift__", |call| shift(call, false)),
    ("aten::bitwise_left_shift", |call| shift(call, true)),
    ("aten::bitwise_right_shift", |call| shift(call, false)),
    // ---- integers become floats
    ("aten::exp", |call| of_singles(call, f32::exp).unwrap_or_else(|| real(call, f64::exp, C128::exp))),
    ("aten::exp2", |call| real(call, f64::exp2, |z| z.expf(2.0))),
    ("aten::expm1", |call| real(call, f64::exp_m1, |z| z.exp() - 1.0)),
    ("aten::log", |call| real(call, f64::ln, C128::ln)),
    ("aten::log2", |call| real(call, f64::log2, |z| z.log(2.0))),
    ("aten::log10", |call| real(call, f64::log10, |z| z.log(10.0))),
    ("aten::log1p", |call| real(call, f64::ln_1p, |z| (z + 1.0).ln())),
    ("aten::sqrt", |call| real(call, f64::sqrt, C128::sqrt)),
    ("aten::rsqrt", |call| real(call, |x| 1.0 / x.sqrt(), |z| 1.0 / z.sqrt())),
    ("aten::reciprocal", |call| real(call, |x| 1.0 / x, |z| 1.0 / z)),
    ("aten::sin", |call| real(call, f64::sin, C128::sin)),
    ("aten::cos", |call| real(call, f64::cos, C128::cos)),
    ("aten::tan", |call| real(call, f64::tan, C128::tan)),
    ("aten::asin", |call| real(call, f64::asin, C128::asin)),
    ("aten::acos", |call| real(call, f64::acos, C128::acos)),
    ("aten::atan", |call| real(call, f64::atan, C128::atan)),
    ("aten::arcsin", |call| real(call, f64::asin, C128::asin)),
    ("aten::arccos", |call| real(call, f64::acos, C128::acos)),
    ("aten::arctan", |call| real(call, f64::atan, C128::atan)),
    ("aten::sinh", |call| real(call, f64::sinh, C128::sinh)),
    ("aten::cosh", |call| real(call, f64::cosh, C128::cosh)),
    ("aten::tanh", |call| of_singles(call, f32::tanh).unwrap_or_else(|| real(call, f64::tanh, C128::tanh))),
    // `std`'s functions are infinite from half of the largest number on; those of `libm` give NaN
    // for some arguments below 1.
    ("aten::asinh", |call| real(call, libm::asinh, C128::asinh)),
    ("aten::acosh", |call| real(call, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, C128::acosh)),
    ("aten::atanh", |call| real(call, atanh, C128::atanh)),
    ("aten::sigmoid", |call| {
        let single = of_singles(call, |x| 1.0 / (1.0 + (-x).exp()));
        single.unwrap_or_else(|| real(call, sigmoid, |z| 1.0 / (1.0 + (-z).exp())))
    }),
    ("aten::special_expit", |call| real(call, sigmoid, |z| 1.0 / (1.0 + (-z).exp()))),
    ("aten::logit", logit),
    ("aten::erf", |call| of_floats(call, "erf_vml_cpu", libm::erf)),
    ("aten::erfc", |call| of_floats(call, "erfc_vml_cpu", libm::erfc)),
    ("aten::special_erf", |call| of_floats(call, "erf_vml_cpu", libm::erf)),
    ("aten::erfinv", |call| of_floats(call, "erfinv_vml_cpu", erfinv)),
    ("aten::lgamma", |call| of_floats(call, "lgamma_vml_cpu", libm::lgamma)),
    ("aten::sinc", sinc),
    ("aten::special_entr", |call| of_floats(call, "entr_cpu", entropy)),
    ("aten::deg2rad", |call| {
        ordered(call, "deg2rad is not supported for complex tensors.")?;
        real(call, f64::to_radians, |z| z)
    }),
    ("aten::rad2deg", |call| {
        ordered(call, "rad2deg is not supported for complex tensors.")?;
        real(call, f64::to_degrees, |z| z)
    }),
    ("aten::angle", angle),
    ("prims::shift_right_arithmetic", shift_right_arithmetic),
];

fn negative(call: &Call<'_>) -> Answer {
    if self_of(call)?.dtype() == DType::Bool {
        return Err(Stop::raised(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        ));
    }
    keeping(call, i64::wrapping_neg, |x| -x, |z| -z)
}

/// The angle of a complex number, as a float; that of a real number is 0 or pi.
fn angle(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    if x.dtype().is_complex() {
        return one(map1(&x, of_parts(call, &x), |z: C128| C128::from(z.arg()))?);
    }
    let of_floats = |x: f64| match x {
        x if x.is_nan() => x,
        x if x < 0.0 => PI,
        _ => 0.0,
    };
    real(call, of_floats, |z| z)
}

/// From complex numbers to floats.
fn of_parts(call: &Call<'_>, x: &Tensor) -> Types {
    Types { common: x.dtype(), out: x.dtype().to_real(), precision: call.precision() }
}

/// The larger, NaN if one of them is, and the first of two zeros.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if b.is_nan() || a < b { b } else { a }
}

/// The smaller, NaN if one of them is, and the first of two zeros.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if b.is_nan() || a > b { b } else { a }
}

/// The positive part of a number; NaN stays.
pub(crate) fn positive(x: f64) -> f64 {
    if x <= 0.0 { 0.0 } else { x }
}

/// The logistic function.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The entropy of a probability, minus infinity for a negative argument.
fn entropy(x: f64) -> f64 {
    match x {
        _ if x > 0.0 || x.is_nan() => -x * x.ln(),
        0.0 => 0.0,
        _ => f64::NEG_INFINITY,
    }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        // PyTorch gives 0 for NaN.
        0.0
    }
}

fn sgn(z: C128) -> C128 {
    if z == C128::default() { z } else { z / z.norm() }
}

/// The first operand: `self`, or its name in old schemas.
pub(crate) fn self_of(call: &Call<'_>) -> Result<Tensor, Stop> {
    match call.arg(0)? {
        IValue::Tensor(tensor) => Ok(tensor.clone()),
        _ => match call.schema.and_then(|schema| schema.formals.first()) {
            Some(formal) => call.tensor(formal.name),
            None => Err(Stop::unsupported(format!("`{}` of a {}", call.kind(), call.arg(0)?.kind_name()))),
        },
    }
}

/// Computes with the second operand multiplied by `alpha`.
fn scaled(
    call: &Call<'_>,
    of_ints: impl Fn(i64, i64) -> i64,
    of_floats: impl Fn(f64, f64) -> f64,
    of_complex: impl Fn(C128, C128) -> C128,
) -> Answer {
    match alpha(call)? {
        None | Some(Scalar::Int(1)) => arithmetic(call, of_ints, of_floats, of_complex),
        Some(alpha) => {
            let (n, x, z) = (alpha.int(), alpha.real(), alpha.wide::<C128>());
            arithmetic(
                call,
                move |a, b| of_ints(a, b.wrapping_mul(n)),
                move |a, b| of_floats(a, b * x),
                move |a, b| of_complex(a, b * z),
            )
        }
    }
}

fn sub(call: &Call<'_>) -> Answer {
    refuse_bools(call)?;
    scaled(call, i64::wrapping_sub, |a, b| a - b, |a, b| a - b)
}

/// Computes with both operands as floats.
fn float_binary(call: &Call<'_>, f: impl Fn(f64, f64) -> f64) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    one(both(&a, &b, Types::same(to_float_arithmetic(common(&a, &b)), call.precision()), f)?)
}

/// The operand times a power of two, which is rounded to a type of its own: that of a floating
/// point exponent, or float if both operands are integers, so that `ldexp(0., 200.)` is 0 times
/// infinity. An integer exponent of a floating point operand is exact (since 2.9; before, its power
/// was a float, too).
fn ldexp(call: &Call<'_>) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let [x, n] = [call.tensor("self")?, call.tensor("other")?].map(|operand| operand.dtype());
    let power = match n.is_float() {
        true => n,
        false if x.is_float() && call.release() >= Release(2, 9) => DType::Double,
        false => DType::Float,
    };
    let power = call.precision().kept(power);
    let types = Types::same(to_float_arithmetic(common(&a, &b)), call.precision());
    one(both(&a, &b, types, |x: f64, n: f64| x * n.exp2().through(power))?)
}

/// The same for floating point types only.
fn of_two_floats(call: &Call<'_>, kernel: &str, f: impl Fn(f64, f64) -> f64) -> Answer {
    let dtype = common(&operand(call, 0)?, &operand(call, 1)?);
    if dtype.is_float() { float_binary(call, f) } else { Err(not_implemented(kernel, dtype)) }
}

/// Computes with integers, bools excluded.
fn of_integers(call: &Call<'_>, kernel: &str, f: impl Fn(i64, i64) -> i64) -> Answer {
    let dtype = common(&operand(call, 0)?, &operand(call, 1)?);
    match dtype.is_integral() && dtype != DType::Bool {
        true => arithmetic(call, f, |a, _| a, |a, _| a),
        false => Err(not_implemented(kernel, dtype)),
    }
}

/// The remainder of two bools is not defined.
fn refuse_bool(call: &Call<'_>, kernel: &str) -> Result<(), Stop> {
    match common(&operand(call, 0)?, &operand(call, 1)?) {
        DType::Bool => Err(not_implemented(kernel, DType::Bool)),
        _ => Ok(()),
    }
}

fn true_div(call: &Call<'_>) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let types = Types::same(to_float_arithmetic(common(&a, &b)), call.precision());
    if let (Operand::Tensor(a), Some(b)) = (&a, factor(&a, &b, types)) {
        return one(map1(a, types, |a: f64| a / b.real())?);
    }
    one(match types.common.is_complex() {
        true => both(&a, &b, types, |a: C128, b| a / b)?,
        false => both(&a, &b, types, |a: f64, b| a / b)?,
    })
}

/// Integer division by zero raises.
fn refuse_zero(call: &Call<'_>) -> Result<(), Stop> {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let dtype = common(&a, &b);
    if dtype.arithmetic() > Some(Kind::Int) {
        return Ok(());
    }
    // A divisor may become zero in the type of the division.
    let is_zero = |n: i64| n.through(dtype) == 0;
    let zero = match &b {
        Operand::Tensor(tensor) => {
            let empty = if let Operand::Tensor(a) = &a { a.numel() == 0 } else { false };
            !empty && tensor.read::<i64>().into_iter().any(is_zero)
        }
        Operand::Number(scalar) => is_zero(scalar.int()),
    };
    if zero { Err(Stop::raised("ZeroDivisionError")) } else { Ok(()) }
}

/// Before 1.6 integers are divided as in C; the operator table has the calls that 1.6 refuses.
fn div(call: &Call<'_>) -> Answer {
    let whole = call.release() < Release(1, 6);
    match call.opt_str("rounding_mode")?.as_deref() {
        Some("floor") => floor_divide(call),
        Some("trunc") => truncated(call),
        Some(other) => Err(Stop::raised(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
        _ if whole && common(&operand(call, 0)?, &operand(call, 1)?).is_integral() => truncated(call),
        _ => true_div(call),
    }
}

fn truncated(call: &Call<'_>) -> Answer {
    refuse_zero(call)?;
    // The quotient is rounded first: 4 / 0.1 is 40 in single precision, where 0.1 is a little
    // larger.
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let is_factor = if let Operand::Tensor(b) = &b { b.numel() == 1 } else { true };
    let common = common(&a, &b);
    let computed = call.precision().kept(if common.is_short_float() && is_factor { DType::Float } else { common });
    scaling(call, i64::wrapping_div, |a, b| (a / b).through(computed).trunc(), |a, b| a / b)
}

/// Rounded down; towards zero before 1.13.
fn floor_divide(call: &Call<'_>) -> Answer {
    if call.kind().short().starts_with("floor_divide") && call.release() < Release(1, 13) {
        return truncated(call);
    }
    refuse_zero(call)?;
    scaling(call, floor_div, floor_float, |a, b| a / b)
}

fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

/// Computed from the remainder, so that the result is exact where the quotient rounds.
fn floor_float(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0f64.copysign(a / b);
    }
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}

/// With the sign of the divisor.
fn remainder(call: &Call<'_>) -> Answer {
    let complex = call.args.iter().filter_map(IValue::tensor).find(|tensor| tensor.dtype().is_complex());
    if let Some(tensor) = complex {
        return Err(not_implemented("remainder_cpu", tensor.dtype()));
    }
    refuse_bool(call, "remainder_cpu")?;
    refuse_zero(call)?;
    let of_ints = |a: i64, b: i64| {
        let rest = a.wrapping_rem(b);
        if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
    };
    let of_floats = |a: f64, b: f64| {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    if let Some(truncated) = with_truncated_divisor(call, of_ints)? {
        return one(truncated);
    }
    match call.release() < Release(1, 6) {
        true => arithmetic(call, of_ints, |a, b| of_floats(a, b) + 0.0, |a, _| a),
        false => arithmetic(call, of_ints, of_floats, |a, _| a),
    }
}

fn fmod(call: &Call<'_>) -> Answer {
    refuse_bool(call, "fmod_cpu")?;
    refuse_zero(call)?;
    match with_truncated_divisor(call, i64::wrapping_rem)? {
        Some(truncated) => one(truncated),
        None => arithmetic(call, i64::wrapping_rem, |a, b| a % b, |a, _| a),
    }
}

/// Before 1.8 a tensor of integers keeps its element type if the divisor is a floating point
/// number.
fn with_truncated_divisor(call: &Call<'_>, f: impl Fn(i64, i64) -> i64) -> Result<Option<Tensor>, Stop> {
    let (Operand::Tensor(x), Operand::Number(divisor @ Scalar::Float(_))) = (operand(call, 0)?, operand(call, 1)?)
    else {
        return Ok(None);
    };
    if call.release() >= Release(1, 8) || !x.dtype().is_integral() {
        return Ok(None);
    }
    let divisor = Scalar::Int(divisor.real() as i64);
    if divisor.int() == 0 {
        return Err(Stop::raised("ZeroDivisionError"));
    }
    let types = Types::same(x.dtype(), call.precision());
    both(&Operand::Tensor(x), &Operand::Number(divisor), types, f).map(Some)
}

/// Before 1.6 an integer power of integers is that of floating point numbers, truncated.
fn truncated_power(call: &Call<'_>, a: &Operand, b: &Operand) -> Result<Option<Tensor>, Stop> {
    if call.release() >= Release(1, 6) {
        return Ok(None);
    }
    match (a, b) {
        (Operand::Tensor(x), Operand::Number(power @ Scalar::Float(_))) if x.dtype().is_integral() => {
            let (power, types) = (power.real(), Types::same(x.dtype(), call.precision()));
            let f = |n: i64| {
                let exact = (n as f64).powf(power);
                if exact.is_nan() { i64::MIN } else { exact as i64 }
            };
            Ok(Some(map1(x, types, f)?))
        }
        (Operand::Number(Scalar::Float(_)), Operand::Tensor(x)) if x.dtype().is_integral() => {
            Err(Stop::raised("result type Float can't be cast to the desired output type Long"))
        }
        _ => Ok(None),
    }
}

fn pow(call: &Call<'_>) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    if let Some(truncated) = truncated_power(call, &a, &b)? {
        return one(truncated);
    }
    let common = common(&a, &b);
    let negative = |n: &Operand| matches!(n, Operand::Number(n) if n.int() < 0);
    if common == DType::Bool && matches!(b, Operand::Tensor(_)) {
        return Err(not_implemented("pow", common));
    }
    if common.is_integral() && negative(&b) {
        return Err(Stop::raised("Integers to negative integer powers are not allowed."));
    }
    if let Operand::Number(n) = &b
        && (common.is_integral() || common.is_short_float())
    {
        check_fits(*n, common)?;
    }
    let power = match (&a, &b) {
        (Operand::Tensor(a), Operand::Number(n)) => powers(Some(*n), a.dtype()),
        _ => f64::powf,
    };
    arithmetic(call, super::integer_arithmetic::int_power, power, |a, b| {
        if b == C128::default() { C128::from(1.0) } else { a.powc(b) }
    })
}

/// The power of a tensor with the number 0.5 or -0.5 as exponent is the square root or its
/// reciprocal, with the sign of -0.0; `Half` uses `pow`.
fn powers(exponent: Option<Scalar>, computed: DType) -> fn(f64, f64) -> f64 {
    match exponent.is_some_and(|n| computed != DType::Half && n.real().abs() == 0.5) {
        true => |a: f64, b: f64| if b > 0.0 { a.sqrt() } else { 1.0 / a.sqrt() },
        false => f64::powf,
    }
}

/// Symmetric around 0: the library loses precision for negative arguments, where it takes the
/// logarithm of a number close to 0.
pub(crate) fn atanh(x: f64) -> f64 {
    x.abs().atanh().copysign(x)
}

/// The sine of a rounded product: it is not 0 for integers, and NaN for very large arguments.
fn sinc(call: &Call<'_>) -> Answer {
    let dtype = to_float_arithmetic(self_of(call)?.dtype());
    let computed = call.precision().kept(if dtype.is_short_float() { DType::Float } else { dtype });
    let pi = PI.through(computed);
    let f = |x: f64| {
        let product = (pi * x).through(computed);
        if x == 0.0 { 1.0 } else { product.sin() / product }
    };
    let of_complex = |z: C128| if z == C128::default() { C128::from(1.0) } else { (z * PI).sin() / (z * PI) };
    real(call, f, of_complex)
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    if a.is_infinite() && a == b {
        return a;
    }
    let (high, low) = (larger(a, b), smaller(a, b));
    high + (low - high).exp().ln_1p()
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

fn lcm(a: i64, b: i64) -> i64 {
    match gcd(a, b) {
        0 => 0,
        g => (a / g).wrapping_mul(b).wrapping_abs(),
    }
}

/// PyTorch's names of element types, in C.
pub(crate) fn c_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Byte => "unsigned char",
        DType::Char => "signed char",
        DType::Short => "short",
        DType::Int => "int",
        DType::Long => "long",
        DType::Half => "c10::Half",
        DType::BFloat16 => "c10::BFloat16",
        DType::Float => "float",
        DType::Double => "double",
        DType::ComplexFloat => "c10::complex<float>",
        DType::ComplexDouble => "c10::complex<double>",
        _ => "bool",
    }
}

/// PyTorch's message for a kernel that lacks a type.
pub(crate) fn not_implemented(kernel: &str, dtype: DType) -> Stop {
    Stop::raised(format!("\"{kernel}\" not implemented for '{}'", dtype.name()))
}

/// Refuses complex operands, for operators that order them.
pub(super) fn ordered(call: &Call<'_>, message: &str) -> Result<(), Stop> {
    let complex = call.args.iter().filter_map(IValue::tensor).any(|tensor| tensor.dtype().is_complex());
    if complex { Err(Stop::raised(message)) } else { Ok(()) }
}

/// Rounds; integers are unchanged, and bools and complex numbers have no kernel.
fn rounded(call: &Call<'_>, kernel: &str, f: impl Fn(f64) -> f64) -> Answer {
    let (dtype, name) = (self_of(call)?.dtype(), kernel.split('_').next().unwrap_or(kernel));
    if dtype == DType::Bool || name == "round" && dtype.is_complex() {
        return Err(not_implemented(kernel, dtype));
    }
    ordered(call, &format!("{name} is not supported for complex inputs"))?;
    keeping(call, |n| n, f, |z| z)
}

/// Bools cannot be subtracted.
fn refuse_bools(call: &Call<'_>) -> Result<(), Stop> {
    let is_bool = |value: &&IValue| match value {
        IValue::Tensor(tensor) => tensor.dtype() == DType::Bool,
        other => matches!(other, IValue::Bool(_)),
    };
    match call.args.iter().take(2).filter(is_bool).count() {
        0 => Ok(()),
        1 => Err(Stop::raised(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        )),
        _ => Err(Stop::raised(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
        )),
    }
}

/// Computes with one operand, whose type is kept.
pub(crate) fn keeping(
    call: &Call<'_>,
    of_ints: impl Fn(i64) -> i64,
    of_floats: impl Fn(f64) -> f64,
    of_complex: impl Fn(C128) -> C128,
) -> Answer {
    let x = self_of(call)?;
    let types = Types::same(x.dtype(), call.precision());
    one(match x.dtype().arithmetic() {
        Some(Kind::Float) => map1(&x, types, of_floats)?,
        Some(Kind::Complex) => map1(&x, types, of_complex)?,
        _ => map1(&x, types, of_ints)?,
    })
}

/// Computes with one operand; integers become floats.
pub(crate) fn real(call: &Call<'_>, of_floats: impl Fn(f64) -> f64, of_complex: impl Fn(C128) -> C128) -> Answer {
    let x = self_of(call)?;
    let types = Types::same(to_float_arithmetic(x.dtype()), call.precision());
    one(match types.common.is_complex() {
        true => map1(&x, types, of_complex)?,
        false => map1(&x, types, of_floats)?,
    })
}

/// The single-precision path for tensors in single precision: the functions that dominate recurrent
/// networks.
fn of_singles(call: &Call<'_>, f: impl Fn(f32) -> f32) -> Option<Answer> {
    let x = self_of(call).ok().filter(|x| x.kept() == DType::Float)?;
    Some(map1(&x, Types::same(DType::Float, call.precision()), f).map_err(Stop::from).and_then(one))
}

/// Computes with floating point operands only.
fn of_floats(call: &Call<'_>, kernel: &str, f: impl Fn(f64) -> f64) -> Answer {
    floats_of(call, &self_of(call)?, kernel, f)
}

/// The same for a tensor that need not be the first operand.
pub(super) fn floats_of(call: &Call<'_>, x: &Tensor, kernel: &str, f: impl Fn(f64) -> f64) -> Answer {
    if x.dtype().is_complex() {
        return Err(not_implemented(kernel, x.dtype()));
    }
    one(map1(x, Types::same(to_float_arithmetic(x.dtype()), call.precision()), f)?)
}

fn abs(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    match x.dtype().is_complex() {
        true => one(map1(&x, of_parts(call, &x), |z: C128| C128::from(z.norm()))?),
        false if x.dtype() == DType::Bool => Err(not_implemented("abs_cpu", DType::Bool)),
        false => keeping(call, i64::wrapping_abs, f64::abs, |z| z),
    }
}

/// Rounds to the nearest even, at a number of decimals. Each step is rounded to the type of the
/// computation: 124.855 is slightly less as a float, and its hundredfold is not.
fn round(call: &Call<'_>) -> Answer {
    let decimals = call.opt_int("decimals")?.unwrap_or(0).clamp(-400, 400) as i32;
    let scale = 10f64.powi(decimals.abs());
    if call.look("decimals").is_some() {
        floats(if decimals == 0 { "round_vml_cpu" } else { "round_cpu" }, &self_of(call)?)?;
    }
    if decimals == 0 {
        return rounded(call, "round_vml_cpu", f64::round_ties_even);
    }
    let dtype = self_of(call)?.dtype();
    let computed = call.precision().kept(if dtype.is_short_float() { DType::Float } else { dtype });
    let scale = scale.through(computed);
    let shifted = move |x: f64| if decimals > 0 { x * scale } else { x / scale };
    let back = move |x: f64| if decimals > 0 { x / scale } else { x * scale };
    keeping(call, |n| n, |x| back(shifted(x).through(computed).round_ties_even()), |z| z)
}

fn nan_to_num(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    let largest = match x.dtype() {
        DType::Half => 65504.0,
        DType::BFloat16 => 3.389_531_389_251_535_5e38,
        DType::Float => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    let nan = call.opt_float("nan")?.unwrap_or(0.0);
    let (high, low) = (call.opt_float("posinf")?.unwrap_or(largest), call.opt_float("neginf")?.unwrap_or(-largest));
    let f = |x: f64| match x {
        x if x.is_nan() => nan,
        f64::INFINITY => high,
        f64::NEG_INFINITY => low,
        x => x,
    };
    keeping(call, |n| n, f, |z| z)
}

fn bitwise_not(call: &Call<'_>) -> Answer {
    let x = self_of(call)?;
    match x.dtype() {
        DType::Bool => keeping(call, |n| i64::from(n == 0), |x| x, |z| z),
        dtype if dtype.is_integral() => keeping(call, |n| !n, |x| x, |z| z),
        dtype => Err(Stop::raised(format!("\"bitwise_not_cpu\" not implemented for '{}'", dtype.name()))),
    }
}

fn integer_operands(call: &Call<'_>) -> Result<(), Stop> {
    let dtype = common(&operand(call, 0)?, &operand(call, 1)?);
    match dtype.is_integral() {
        true => Ok(()),
        false => Err(Stop::raised(format!("\"{}_cpu\" not implemented for '{}'", call.kind().short(), dtype.name()))),
    }
}

fn bitwise(call: &Call<'_>, f: impl Fn(i64, i64) -> i64) -> Answer {
    integer_operands(call)?;
    arithmetic(call, f, |a, _| a, |a, _| a)
}

fn bitwise_in_place(call: &Call<'_>, f: impl Fn(i64, i64) -> i64) -> Answer {
    let target = self_of(call)?;
    let results = bitwise(call, f)?;
    if let Some(result) = results.first().and_then(IValue::tensor) {
        crate::interpreter::library::write_into(&target, result)?;
    }
    one(target)
}

/// Shifts by less than the width of the type. Before 1.12 floats are multiplied by a power of two.
fn shift(call: &Call<'_>, left: bool) -> Answer {
    let dtype = common(&operand(call, 0)?, &operand(call, 1)?);
    let since = if dtype == DType::Bool { Release(1, 5) } else { Release(1, 12) };
    if call.release() >= since && (dtype == DType::Bool || !dtype.is_integral()) {
        return Err(not_implemented(if left { "lshift_cpu" } else { "rshift_cpu" }, dtype));
    }
    let bits = 8 * dtype.size() as i64;
    let power = move |n: f64| if left { n.exp2() } else { (-n).exp2() };
    arithmetic(
        call,
        move |a, b| match (0..bits).contains(&b) {
            true => super::integer_arithmetic::shifted(a, b, left),
            false if left || a >= 0 => 0,
            false => -1,
        },
        move |a, b| a * power(b),
        |a, _| a,
    )
}

fn logit(call: &Call<'_>) -> Answer {
    // Negative numbers have no bound.
    let bound = call.opt_float("eps")?.filter(|&eps| eps >= 0.0);
    let (dtype, precision) = (to_float_arithmetic(self_of(call)?.dtype()), call.precision());
    if dtype.is_complex() {
        return Err(not_implemented("logit_cpu", dtype));
    }
    if let Some(eps) = call.opt_float("eps")? {
        check_fits(Scalar::Float(eps), dtype)?;
    }
    // Each step is rounded to the element type: with 16-bit floats this differs from one rounding.
    let step = |x: f64| as_element(Scalar::Float(x), dtype, precision).real();
    let bounds = bound.map(step).map(|low| (low, step(1.0 - low)));
    let f = |x: f64| {
        let x = match bounds {
            Some((low, _)) if x < low => low,
            Some((_, high)) if x > high => high,
            _ => x,
        };
        step(x / step(1.0 - x)).ln()
    };
    real(call, f, |z| z)
}

/// The inverse of `erf`: a rational start (Giles, "Approximating the erfinv function", 2010), then
/// Newton's method.
pub(crate) fn erfinv(y: f64) -> f64 {
    if y.abs() >= 1.0 || y.is_nan() {
        return if y.abs() == 1.0 { y * f64::INFINITY } else { f64::NAN };
    }
    let w = -((1.0 - y) * (1.0 + y)).ln();
    let a = 0.147;
    let t = 2.0 / (PI * a) - w / 2.0;
    let mut x = ((t * t + w / a).sqrt() - t).sqrt().copysign(y);
    for _ in 0..4 {
        let error = if x.abs() < 1.0 { libm::erf(x) - y } else { x.signum() * (1.0 - y.abs() - libm::erfc(x.abs())) };
        let slope = FRAC_2_SQRT_PI * (-x * x).exp();
        if slope == 0.0 {
            break;
        }
        // Halley's method: the second derivative is -2x times the first.
        let step = error / slope;
        x -= step / (1.0 + x * step);
    }
    x
}

/// `prims::shift_right_arithmetic` of two tensors of one element type. They have one shape, unless
/// one of them has no dimensions.
fn shift_right_arithmetic(call: &Call<'_>) -> Answer {
    let (a, b) = (call.tensor("self")?, call.tensor("other")?);
    let (of_a, of_b) = (a.dtype().python_name(), b.dtype().python_name());
    if of_a != of_b {
        return Err(Stop::raised(format!("Tensor with dtype {of_b} is not the expected dtype of {of_a}!")));
    }
    let (sizes, others) = (a.shape(), b.shape());
    if sizes != others && a.rank() > 0 && b.rank() > 0 {
        return Err(Stop::raised(format!("Shape torch.Size({others:?}) is not the expected shape {sizes:?}!")));
    }
    shift(call, false)
}
