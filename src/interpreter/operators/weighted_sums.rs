//! Sums with one weight: `addcmul`, `addcdiv` and `lerp`.

use super::operands::{common, computed_with, operand, operand_scalar};
use super::pointwise::{c_name, not_implemented, self_of};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map2, map3};
use crate::tensor::buffer::Wide;
use crate::tensor::promotion::Promotion;
use crate::tensor::{C128, DType, Kind, Scalar, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[("aten::addcmul", addcmul), ("aten::addcdiv", addcdiv), ("aten::lerp", lerp)];

/// `self + value * tensor1 * tensor2`
fn addcmul(call: &Call<'_>) -> Answer {
    let value = call.opt_scalar("value")?.unwrap_or(Scalar::Int(1));
    ternary(call, value, |a, scaled, c| scaled.mul_add(c, a), |a, scaled, c| a.wrapping_add(scaled.wrapping_mul(c)))
}

/// `self + value * tensor1 / tensor2`
fn addcdiv(call: &Call<'_>) -> Answer {
    let value = call.opt_scalar("value")?.unwrap_or(Scalar::Int(1));
    if call.release() >= Release(1, 6) && common(&operand(call, 1)?, &operand(call, 2)?).is_integral() {
        return Err(Stop::raised(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2.",
        ));
    }
    ternary(
        call,
        value,
        |a, scaled, c| a + scaled / c,
        |a, scaled, c| a.wrapping_add(if c == 0 { 0 } else { scaled.wrapping_div(c) }),
    )
}

/// Combines the first operand, the second times `value`, and the third. The scaled product may
/// overflow or underflow where the result does not.
fn ternary(
    call: &Call<'_>,
    value: Scalar,
    of_floats: impl Fn(f64, f64, f64) -> f64,
    of_ints: impl Fn(i64, i64, i64) -> i64,
) -> Answer {
    let (a, b, c) = (self_of(call)?, call.tensor("tensor1")?, call.tensor("tensor2")?);
    let dtype = Promotion::default().tensor(&a).tensor(&b).tensor(&c).result();
    let types = Types::same(dtype, call.precision());
    let value = computed_with(value, dtype, call.precision())?;
    let computed = call.precision().kept(if dtype.is_short_float() { DType::Float } else { dtype });
    let scaled = |b: f64| (b * value.real()).through(computed);
    one(match dtype.arithmetic() {
        Some(Kind::Float) => map3([&a, &b, &c], types, |a, b, c| of_floats(a, scaled(b), c))?,
        Some(Kind::Complex) => return Err(Stop::unsupported(format!("`{}` of complex tensors", call.kind()))),
        Some(Kind::Bool) => return Err(not_implemented(&format!("{}_cpu_out", call.kind().short()), dtype)),
        _ => map3([&a, &b, &c], types, |a, b: i64, c| of_ints(a, b.wrapping_mul(value.int()), c))?,
    })
}

/// `self + weight * (end - self)`, computed from the nearer end.
fn lerp(call: &Call<'_>) -> Answer {
    let (start, end) = (self_of(call)?, call.tensor("end")?);
    if end.dtype() != start.dtype() {
        let (wanted, found) = (c_name(start.dtype()), c_name(end.dtype()));
        return Err(Stop::raised(format!("expected dtype {wanted} for `end` but got dtype {found}")));
    }
    let dtype = type_of_lerp(call, &start)?;
    let types = Types::same(dtype, call.precision());
    let computed = call.precision().kept(if dtype.is_short_float() { DType::Float } else { dtype });
    let f = |a: f64, b: f64, w: f64| {
        let apart = (b - a).through(computed);
        if w.abs() < 0.5 { a + w * apart } else { b - apart * (1.0 - w) }
    };
    let of_complex = |a: C128, b: C128, w: C128| if w.norm() < 0.5 { a + w * (b - a) } else { b - (b - a) * (1.0 - w) };
    let number = match call.look("weight") {
        Some(IValue::Tensor(_)) => None,
        _ => Some(lerp_weight(call, start.dtype())?),
    };
    let weight = || call.tensor("weight");
    one(match (dtype.arithmetic(), number) {
        (Some(Kind::Float), None) => map3([&start, &end, &weight()?], types, f)?,
        (Some(Kind::Float), Some(w)) => map2(&start, &end, types, |a, b| f(a, b, w.real()))?,
        (Some(Kind::Complex), None) => map3([&start, &end, &weight()?], types, of_complex)?,
        (Some(Kind::Complex), Some(w)) => map2(&start, &end, types, |a, b| of_complex(a, b, w.wide()))?,
        (_, None) => return Err(not_implemented("lerp_kernel_tensor", dtype)),
        (_, Some(_)) => return Err(not_implemented("lerp_kernel_scalar", dtype)),
    })
}

/// A zero-dimensional weight may make floats of integers; one with dimensions must have the type of
/// the operands.
fn type_of_lerp(call: &Call<'_>, start: &Tensor) -> Result<DType, Stop> {
    match call.look("weight") {
        Some(IValue::Tensor(weight)) if weight.shape().is_empty() => {
            Ok(Promotion::default().tensor(start).tensor(weight).result())
        }
        Some(IValue::Tensor(weight)) if weight.dtype() != start.dtype() => {
            let (wanted, found) = (c_name(start.dtype()), c_name(weight.dtype()));
            Err(Stop::raised(format!("expected dtype {wanted} for `weight` but got dtype {found}")))
        }
        _ => Ok(start.dtype()),
    }
}

/// A weight that is a number. For integer operands it is ignored: there is no kernel.
fn lerp_weight(call: &Call<'_>, dtype: DType) -> Result<Scalar, Stop> {
    let weight = call.scalar("weight")?;
    match dtype.is_integral() {
        true => Ok(operand_scalar(weight, dtype, call.precision())),
        false => computed_with(weight, dtype, call.precision()),
    }
}
