//! Numbers outside of tensors, with the rules of Python or of C, whichever PyTorch follows.
//!
//! Integers have 64 bits and wrap. The overload determines the type of the result: `aten::floor` of
//! a float is an int, `aten::pow` of two ints is a float unless the overload declares otherwise.

use super::integer_arithmetic::{int_power, shifted};
use super::value_order::{equal, order};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{C128, Kind, Scalar};
use crate::types::{Simple, TypeKind};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::add", |call| match (call.arg(0)?, call.arg(1)?) {
        (IValue::List(_) | IValue::Str(_), _) => super::containers::add(call),
        _ => binary(call, i64::wrapping_add, |a, b| a + b, |a, b| a + b),
    }),
    ("aten::sub", |call| binary(call, i64::wrapping_sub, |a, b| a - b, |a, b| a - b)),
    ("aten::mul", |call| match (call.arg(0)?, call.arg(1)?) {
        (IValue::List(_) | IValue::Str(_), _) | (_, IValue::List(_)) => super::containers::repeat(call),
        _ => binary(call, i64::wrapping_mul, |a, b| a * b, |a, b| a * b),
    }),
    ("aten::div", |call| match numbers(call)? {
        (Scalar::Complex(_), _) | (_, Scalar::Complex(_)) => binary(call, |a, _| a, |a, _| a, |a, b| a / b),
        (a, b) => back(call, Scalar::Float(a.real() / b.real())),
    }),
    ("aten::floordiv", floordiv),
    ("aten::__round_to_zero_floordiv", |call| integer_division(call, i64::wrapping_div)),
    ("aten::remainder", remainder),
    ("aten::fmod", |call| floats(call, |a, b| a % b)),
    ("aten::mathremainder", |call| floats(call, libm::remainder)),
    ("aten::divmod", divmod),
    ("aten::pow", pow),
    ("aten::copysign", |call| floats(call, f64::copysign)),
    ("aten::atan2", |call| floats(call, f64::atan2)),
    ("aten::polar", |call| {
        let (r, phi) = numbers(call)?;
        one(IValue::Complex(C128::from_polar(r.real(), phi.real())))
    }),
    ("aten::Complex", complex),
    ("aten::neg", |call| match number(call)? {
        Scalar::Complex(z) => one(IValue::Complex(-z)),
        Scalar::Float(x) => one(-x),
        other => one(other.int().wrapping_neg()),
    }),
    ("prim::abs", |call| match number(call)? {
        Scalar::Complex(z) => one(z.norm()),
        Scalar::Float(x) => one(x.abs()),
        other => one(other.int().wrapping_abs()),
    }),
    ("aten::ceil", |call| rounded(call, f64::ceil)),
    ("aten::floor", |call| rounded(call, f64::floor)),
    ("aten::round", |call| rounded(call, f64::round_ties_even)),
    ("aten::trunc", |call| rounded(call, f64::trunc)),
    ("aten::sqrt", |call| real(call, f64::sqrt, C128::sqrt)),
    ("aten::exp", |call| real(call, f64::exp, C128::exp)),
    ("aten::log", log),
    ("aten::log2", |call| real(call, f64::log2, |z| z.log(2.0))),
    ("aten::log10", |call| real(call, f64::log10, |z| z.log(10.0))),
    ("aten::log1p", |call| real(call, f64::ln_1p, |z| (z + 1.0).ln())),
    ("aten::expm1", |call| real(call, f64::exp_m1, |z| z.exp() - 1.0)),
    ("aten::sin", |call| real(call, f64::sin, C128::sin)),
    ("aten::cos", |call| real(call, f64::cos, C128::cos)),
    ("aten::tan", |call| real(call, f64::tan, C128::tan)),
    ("aten::asin", |call| real(call, f64::asin, C128::asin)),
    ("aten::acos", |call| real(call, f64::acos, C128::acos)),
    ("aten::atan", |call| real(call, f64::atan, C128::atan)),
    ("aten::sinh", |call| real(call, f64::sinh, C128::sinh)),
    ("aten::cosh", |call| real(call, f64::cosh, C128::cosh)),
    ("aten::tanh", |call| real(call, f64::tanh, C128::tanh)),
    ("aten::asinh", |call| real(call, f64::asinh, C128::asinh)),
    ("aten::acosh", |call| real(call, f64::acosh, C128::acosh)),
    ("aten::atanh", |call| real(call, super::pointwise::atanh, C128::atanh)),
    ("aten::erf", |call| real(call, libm::erf, |z| z)),
    ("aten::erfc", |call| real(call, libm::erfc, |z| z)),
    ("aten::gamma", |call| real(call, libm::tgamma, |z| z)),
    ("aten::lgamma", |call| real(call, libm::lgamma, |z| z)),
    ("aten::fabs", |call| real(call, f64::abs, |z| z)),
    ("aten::degrees", |call| real(call, f64::to_degrees, |z| z)),
    ("aten::radians", |call| real(call, f64::to_radians, |z| z)),
    ("aten::angle", |call| match number(call)? {
        Scalar::Complex(z) => one(z.arg()),
        other => one(if other.real().is_sign_negative() { std::f64::consts::PI } else { 0.0 }),
    }),
    ("aten::isnan", |call| one(number(call)?.real().is_nan())),
    ("aten::isinf", |call| one(number(call)?.real().is_infinite())),
    ("aten::isfinite", |call| one(number(call)?.real().is_finite())),
    ("aten::factorial", factorial),
    ("aten::gcd", |call| {
        let (a, b) = numbers(call)?;
        one(gcd(a.int(), b.int()))
    }),
    ("aten::modf", |call| {
        let x = number(call)?.real();
        crate::interpreter::call::several([x - x.trunc(), x.trunc()])
    }),
    ("aten::ldexp", |call| {
        let (x, n) = numbers(call)?;
        one(libm::ldexp(x.real(), n.int().clamp(-5000, 5000) as i32))
    }),
    ("aten::eq", |call| compared(call, |a, b| a == b)),
    ("aten::ne", |call| compared(call, |a, b| a != b)),
    ("aten::lt", |call| ordered(call, |o| o.is_lt())),
    ("aten::le", |call| ordered(call, |o| o.is_le())),
    ("aten::gt", |call| ordered(call, |o| o.is_gt())),
    ("aten::ge", |call| ordered(call, |o| o.is_ge())),
    ("aten::__and__", |call| bits(call, |a, b| a & b)),
    ("aten::__or__", |call| bits(call, |a, b| a | b)),
    ("aten::__xor__", |call| bits(call, |a, b| a ^ b)),
    ("aten::__lshift__", |call| bits(call, |a, b| shifted(a, b, true))),
    ("aten::__rshift__", |call| bits(call, |a, b| shifted(a, b, false))),
    ("aten::__not__", |call| one(!number(call)?.truth())),
    ("aten::Bool", |call| one(converted(call)?.truth())),
    ("aten::Int", |call| match call.arg(0)? {
        IValue::Str(text) => match text.trim().parse::<i64>() {
            Ok(n) => one(n),
            Err(_) => Err(Stop::raised("stoi")),
        },
        _ => one(converted(call)?.int()),
    }),
    ("aten::Float", |call| match call.arg(0)? {
        // Up to 1.5 these two strings are accepted and no others.
        IValue::Str(text) if call.release() < Release(1, 6) && !matches!(&**text, "inf" | "-inf") => {
            Err(Stop::raised(format!("Only 'inf' or '-inf' can be cast to a float, but got '{text}'")))
        }
        IValue::Str(text) => match text.trim().parse::<f64>() {
            Ok(x) => one(x),
            Err(_) => Err(Stop::raised("could not convert string to float")),
        },
        _ => one(converted(call)?.real()),
    }),
    ("aten::IntImplicit", |call| one(converted(call)?.int())),
    ("aten::FloatImplicit", |call| one(converted(call)?.real())),
    ("aten::ComplexImplicit", |call| one(IValue::Complex(converted(call)?.wide()))),
    ("aten::ScalarImplicit", |call| one(converted(call)?)),
    ("prim::min", |call| extreme(call, |o| o.is_lt())),
    ("prim::max", |call| extreme(call, |o| o.is_gt())),
    ("aten::__range_length", range_length),
    ("aten::__derive_index", |call| {
        let (i, start, step) = (int(call, 0)?, int(call, 1)?, int(call, 2)?);
        one(start.wrapping_add(i.wrapping_mul(step)))
    }),
];

/// The operand as a number; a one-element tensor is converted.
fn converted(call: &Call<'_>) -> Result<Scalar, Stop> {
    match call.arg(0)? {
        IValue::Tensor(tensor) if tensor.numel() == 1 => Ok(tensor.item()),
        IValue::Tensor(tensor) if tensor.numel() == 0 => {
            Err(Stop::raised("Boolean value of Tensor with no values is ambiguous"))
        }
        IValue::Tensor(tensor) => {
            Err(Stop::raised(format!("a Tensor with {} elements cannot be converted to Scalar", tensor.numel())))
        }
        _ => number(call),
    }
}

fn at(call: &Call<'_>, i: usize) -> Result<Scalar, Stop> {
    let found = call.args.get(i).map_or("nothing", IValue::kind_name);
    let wrong = || Stop::unsupported(format!("`{}` of a {found}", call.kind()));
    call.args.get(i).and_then(IValue::scalar).ok_or_else(wrong)
}

fn number(call: &Call<'_>) -> Result<Scalar, Stop> {
    at(call, 0)
}

fn numbers(call: &Call<'_>) -> Result<(Scalar, Scalar), Stop> {
    Ok((at(call, 0)?, at(call, 1)?))
}

fn int(call: &Call<'_>, i: usize) -> Result<i64, Stop> {
    Ok(at(call, i)?.int())
}

/// A result in the return type of the overload.
fn back(call: &Call<'_>, result: Scalar) -> Answer {
    let ty = call.schema.and_then(|schema| schema.returns.first()).map(|formal| formal.ty.kind());
    one(match ty {
        Some(TypeKind::Simple(Simple::Int)) => Scalar::Int(result.int()),
        Some(TypeKind::Simple(Simple::Float)) => Scalar::Float(result.real()),
        Some(TypeKind::Simple(Simple::Bool)) => Scalar::Bool(result.truth()),
        _ => result,
    })
}

fn binary(
    call: &Call<'_>,
    of_ints: fn(i64, i64) -> i64,
    of_floats: fn(f64, f64) -> f64,
    of_complex: fn(C128, C128) -> C128,
) -> Answer {
    let (a, b) = numbers(call)?;
    let result = match a.kind().max(b.kind()) {
        Kind::Complex => Scalar::Complex(of_complex(a.wide(), b.wide())),
        Kind::Float => Scalar::Float(of_floats(a.real(), b.real())),
        _ => Scalar::Int(of_ints(a.int(), b.int())),
    };
    back(call, result)
}

fn floats(call: &Call<'_>, f: fn(f64, f64) -> f64) -> Answer {
    let (a, b) = numbers(call)?;
    back(call, Scalar::Float(f(a.real(), b.real())))
}

fn real(call: &Call<'_>, f: fn(f64) -> f64, of_complex: fn(C128) -> C128) -> Answer {
    match number(call)? {
        Scalar::Complex(z) => back(call, Scalar::Complex(of_complex(z))),
        other => back(call, Scalar::Float(f(other.real()))),
    }
}

fn rounded(call: &Call<'_>, f: fn(f64) -> f64) -> Answer {
    match number(call)? {
        Scalar::Float(x) => back(call, Scalar::Float(f(x))),
        other => back(call, other),
    }
}

fn log(call: &Call<'_>) -> Answer {
    if call.args.len() < 2 {
        return real(call, f64::ln, C128::ln);
    }
    let (a, b) = numbers(call)?;
    match a.kind().max(b.kind()) {
        Kind::Complex => back(call, Scalar::Complex(a.wide::<C128>().ln() / b.wide::<C128>().ln())),
        _ => back(call, Scalar::Float(a.real().ln() / b.real().ln())),
    }
}

fn integer_division(call: &Call<'_>, f: fn(i64, i64) -> i64) -> Answer {
    let (a, b) = numbers(call)?;
    match b.int() {
        0 => Err(Stop::raised_as("RuntimeError", "ZeroDivisionError: integer division or modulo by zero")),
        b => back(call, Scalar::Int(f(a.int(), b))),
    }
}

/// Rounded down, as Python does.
fn floor_div(a: i64, b: i64) -> i64 {
    let quotient = a.wrapping_div(b);
    if (a.wrapping_rem(b) != 0) && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient }
}

fn floordiv(call: &Call<'_>) -> Answer {
    let (a, b) = numbers(call)?;
    if a.kind().max(b.kind()) <= Kind::Int {
        return integer_division(call, floor_div);
    }
    if b.real() == 0.0 {
        return Err(Stop::raised("ZeroDivisionError: float division by zero"));
    }
    back(call, Scalar::Float((a.real() / b.real()).floor()))
}

/// Python's remainder, with the sign of the divisor.
fn remainder(call: &Call<'_>) -> Answer {
    let (a, b) = numbers(call)?;
    if a.kind().max(b.kind()) <= Kind::Int {
        return integer_division(call, |a, b| {
            let rest = a.wrapping_rem(b);
            if rest != 0 && ((rest < 0) != (b < 0)) { rest.wrapping_add(b) } else { rest }
        });
    }
    let b = b.real();
    back(call, Scalar::Float((a.real() % b + b) % b))
}

fn divmod(call: &Call<'_>) -> Answer {
    let (a, b) = numbers(call)?;
    if b.real() == 0.0 {
        return Err(Stop::raised("ZeroDivisionError: division by zero"));
    }
    if a.kind().max(b.kind()) <= Kind::Int {
        let (a, b) = (a.int(), b.int());
        let quotient = floor_div(a, b);
        return crate::interpreter::call::several([quotient, a.wrapping_sub(quotient.wrapping_mul(b))]);
    }
    let (a, b) = (a.real(), b.real());
    let quotient = (a / b).floor();
    crate::interpreter::call::several([quotient, a - quotient * b])
}

fn pow(call: &Call<'_>) -> Answer {
    let (a, b) = numbers(call)?;
    match a.kind().max(b.kind()) {
        Kind::Complex => back(call, Scalar::Complex(a.wide::<C128>().powc(b.wide()))),
        kind if kind <= Kind::Int && call.overload() == "int_to_int" => {
            back(call, Scalar::Int(int_power(a.int(), b.int())))
        }
        _ => back(call, Scalar::Float(a.real().powf(b.real()))),
    }
}

fn complex(call: &Call<'_>) -> Answer {
    let re = converted(call)?;
    match call.args.get(1).and_then(IValue::scalar) {
        Some(im) => one(IValue::Complex(C128::new(re.real(), im.real()))),
        None => one(IValue::Complex(re.wide())),
    }
}

fn factorial(call: &Call<'_>) -> Answer {
    match int(call, 0)? {
        n if n < 0 => Err(Stop::raised("factorial() not defined for negative values")),
        n => one((1..=n.min(100)).fold(1i64, i64::wrapping_mul)),
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

fn compared(call: &Call<'_>, wanted: fn(bool, bool) -> bool) -> Answer {
    one(wanted(equal(call.arg(0)?, call.arg(1)?), true))
}

fn ordered(call: &Call<'_>, wanted: fn(std::cmp::Ordering) -> bool) -> Answer {
    one(order(call.arg(0)?, call.arg(1)?).is_some_and(wanted))
}

fn bits(call: &Call<'_>, f: fn(i64, i64) -> i64) -> Answer {
    let (a, b) = numbers(call)?;
    match (a, b) {
        (Scalar::Bool(_), Scalar::Bool(_)) => back(call, Scalar::Bool(f(a.int(), b.int()) != 0)),
        _ => back(call, Scalar::Int(f(a.int(), b.int()))),
    }
}

/// The smaller or larger of two numbers or lists, or of the elements of one list.
fn extreme(call: &Call<'_>, wins: fn(std::cmp::Ordering) -> bool) -> Answer {
    match call.args {
        [IValue::List(list)] => {
            let list = list.borrow();
            let best = list
                .iter()
                .cloned()
                .reduce(|best, next| if order(&next, &best).is_some_and(wins) { next } else { best });
            best.map_or_else(|| Err(Stop::raised("arg is an empty sequence")), one)
        }
        [a, b] => match (a.scalar(), b.scalar()) {
            (Some(x), Some(y)) => {
                let chosen = if order(b, a).is_some_and(wins) { y } else { x };
                back(call, chosen)
            }
            _ => super::containers::extreme_list(a, b, wins),
        },
        _ => Err(Stop::unsupported("the minimum or maximum of no values")),
    }
}

/// The number of elements of `range(lo, hi, step)`.
fn range_length(call: &Call<'_>) -> Answer {
    let (lo, hi, step) = (int(call, 0)?, int(call, 1)?, int(call, 2)?);
    if step == 0 {
        return Err(Stop::raised("range() arg 3 must not be zero"));
    }
    let span = if step > 0 { i128::from(hi) - i128::from(lo) } else { i128::from(lo) - i128::from(hi) };
    let step = i128::from(step).abs();
    one(if span <= 0 { 0 } else { i64::try_from(1 + (span - 1) / step).unwrap_or(i64::MAX) })
}
