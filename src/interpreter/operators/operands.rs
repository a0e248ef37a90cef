//! Operands in their common type.
//!
//! Operands are converted to the common type and computed with in a wide type, and the result is
//! rounded once. A plain number used with 16-bit floats is also rounded to 16 bits, except factors,
//! divisors and parameters, which keep the 24 bits that PyTorch computes with.

use super::picking::check_fits;
use crate::interpreter::call::{Answer, Call, one};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map1, map2};
use crate::tensor::buffer::Wide;
use crate::tensor::promotion::Promotion;
use crate::tensor::{C128, DType, Kind, Precision, Scalar, Tensor};

/// A plain number as a parameter of a computation: with 16-bit floats it keeps single precision.
pub(super) fn operand_scalar(scalar: Scalar, common: DType, precision: Precision) -> Scalar {
    as_element(scalar, if common.is_short_float() { DType::Float } else { common }, precision)
}

/// A plain number as an element of a type.
pub(super) fn as_element(scalar: Scalar, dtype: DType, precision: Precision) -> Scalar {
    match dtype.arithmetic() {
        Some(Kind::Float) => Scalar::Float(scalar.real().through(precision.kept(dtype))),
        Some(Kind::Complex) => Scalar::Complex(scalar.wide::<C128>().through(precision.kept(dtype))),
        _ => Scalar::Int(scalar.int().through(dtype)),
    }
}

/// One of two operands: a tensor, or a number used with one.
pub(super) enum Operand {
    Tensor(Tensor),
    Number(Scalar),
}

pub(super) fn operand(call: &Call<'_>, i: usize) -> Result<Operand, Stop> {
    let value = call.arg(i)?;
    match (value, value.scalar()) {
        (IValue::Tensor(tensor), _) => Ok(Operand::Tensor(tensor.clone())),
        (_, Some(scalar)) => Ok(Operand::Number(scalar)),
        _ => Err(Stop::raised(format!("unsupported operand type for {}: {}", call.kind(), value.kind_name()))),
    }
}

pub(super) fn common(a: &Operand, b: &Operand) -> DType {
    let count = |promotion: Promotion, operand: &Operand| match operand {
        Operand::Tensor(tensor) => promotion.tensor(tensor),
        Operand::Number(scalar) => promotion.scalar(*scalar),
    };
    count(count(Promotion::default(), a), b).result()
}

/// Computes with both operands as elements of their common type.
pub(super) fn both<W: Wide>(a: &Operand, b: &Operand, types: Types, f: impl Fn(W, W) -> W) -> Result<Tensor, Stop> {
    let number = |scalar: &Scalar| as_element(*scalar, types.common, types.precision).wide::<W>();
    Ok(match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => map2(a, b, types, f)?,
        (Operand::Tensor(a), Operand::Number(b)) => {
            let b = number(b);
            map1(a, types, |a| f(a, b))?
        }
        (Operand::Number(a), Operand::Tensor(b)) => {
            let a = number(a);
            map1(b, types, |b| f(a, b))?
        }
        (Operand::Number(a), Operand::Number(b)) => {
            let a = Tensor::scalar(*a, types.common, types.precision);
            let b = number(b);
            map1(&a, types, |a| f(a, b))?
        }
    })
}

/// Computes with the first two operands in their common type.
pub(super) fn arithmetic(
    call: &Call<'_>,
    of_ints: impl Fn(i64, i64) -> i64,
    of_floats: impl Fn(f64, f64) -> f64,
    of_complex: impl Fn(C128, C128) -> C128,
) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let types = Types::same(common(&a, &b), call.precision());
    one(match types.common.arithmetic() {
        Some(Kind::Float) => both(&a, &b, types, of_floats)?,
        Some(Kind::Complex) => both(&a, &b, types, of_complex)?,
        _ => both(&a, &b, types, of_ints)?,
    })
}

/// The second operand as a factor or divisor of 16-bit floats: a number, or the only element of a
/// tensor, keeps single precision, as in eager mode on the CPU, and is not rounded to their type
/// first, unlike in additions (PyTorch 2.15).
pub(super) fn factor(a: &Operand, b: &Operand, types: Types) -> Option<Scalar> {
    let number = match (a, b) {
        (Operand::Tensor(_), Operand::Number(number)) => Some(*number),
        (Operand::Tensor(a), Operand::Tensor(b)) => (b.numel() == 1 && b.rank() <= a.rank()).then(|| b.item()),
        _ => None,
    };
    number.filter(|_| types.common.is_short_float()).map(|number| operand_scalar(number, types.common, types.precision))
}

/// Multiplies or divides the first two operands in their common type.
pub(super) fn scaling(
    call: &Call<'_>,
    of_ints: impl Fn(i64, i64) -> i64,
    of_floats: impl Fn(f64, f64) -> f64,
    of_complex: impl Fn(C128, C128) -> C128,
) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let types = Types::same(common(&a, &b), call.precision());
    match (factor(&a, &b, types), a) {
        (Some(b), Operand::Tensor(a)) => one(map1(&a, types, |a: f64| of_floats(a, b.real()))?),
        _ => arithmetic(call, of_ints, of_floats, of_complex),
    }
}

/// Compares the first two operands in their common type.
pub(super) fn comparison(
    call: &Call<'_>,
    of_ints: impl Fn(i64, i64) -> bool,
    of_floats: impl Fn(f64, f64) -> bool,
    of_complex: impl Fn(C128, C128) -> bool,
) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let common = common(&a, &b);
    let types = Types { common, out: DType::Bool, precision: call.precision() };
    one(match common.arithmetic() {
        Some(Kind::Float) => both(&a, &b, types, |a, b| f64::from(u8::from(of_floats(a, b))))?,
        Some(Kind::Complex) => both(&a, &b, types, |a, b| C128::from(f64::from(u8::from(of_complex(a, b)))))?,
        _ => both(&a, &b, types, |a, b| i64::from(of_ints(a, b)))?,
    })
}

/// Refuses an invalid factor for a type: a bool for numbers, a float for integers, and a number out
/// of the range of the type.
fn check_alpha(alpha: Scalar, common: DType) -> Result<(), Stop> {
    if alpha.kind() == Kind::Bool && common != DType::Bool {
        return Err(Stop::raised("Boolean alpha only supported for Boolean results."));
    }
    if common.is_integral() && alpha.kind() > Kind::Int {
        return Err(Stop::raised("For integral input tensors, argument alpha must not be a floating point number."));
    }
    check_fits(alpha, common)
}

/// A number in the type of the computation, which is `f32` for 16-bit floats. Refuses a number out
/// of its range.
pub(super) fn computed_with(scalar: Scalar, common: DType, precision: Precision) -> Result<Scalar, Stop> {
    check_fits(scalar, if common.is_short_float() { DType::Float } else { common })?;
    Ok(operand_scalar(scalar, common, precision))
}

/// The factor of an operand, as a float of the type of the computation.
pub(super) fn alpha(call: &Call<'_>) -> Result<Option<Scalar>, Stop> {
    let Some(alpha) = call.opt_scalar("alpha")? else { return Ok(None) };
    let common = common(&operand(call, 0)?, &operand(call, 1)?);
    check_alpha(alpha, common)?;
    Ok(Some(if common.is_float() { as_element(alpha, common, call.precision()) } else { alpha }))
}

/// An operand that is a string.
pub(super) fn text<'a>(call: &Call<'a>, i: usize) -> Result<&'a str, Stop> {
    match call.arg(i)? {
        IValue::Str(text) => Ok(text),
        other => Err(Stop::unsupported(format!("`{}` of a {}", call.kind(), other.kind_name()))),
    }
}
