//! Clamping.

use super::operands::{Operand, both, common};
use super::picking::check_fits;
use super::pointwise::{larger, ordered, self_of, smaller};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Types, map1};
use crate::tensor::{DType, Kind, Precision, Scalar, Tensor};

/// The rows.
pub(crate) const ROWS: &[Row] =
    &[("aten::clamp", clamp), ("aten::clip", clamp), ("aten::clamp_min", clamp), ("aten::clamp_max", clamp)];

/// A bound of `clamp`.
fn bound(call: &Call<'_>, name: &str) -> Result<Option<Operand>, Stop> {
    match call.look(name) {
        Some(IValue::Tensor(tensor)) => Ok(Some(Operand::Tensor(tensor.clone()))),
        _ => Ok(call.opt_scalar(name)?.map(Operand::Number)),
    }
}

/// Applies the lower bound, then the upper, which wins if they cross. NaN elements stay; NaN as a
/// bound wins since 1.12.
fn clamp(call: &Call<'_>) -> Answer {
    ordered(call, "clamp is not supported for complex types")?;
    let mut x = Operand::Tensor(self_of(call)?);
    let (mut low, mut high) = (bound(call, "min")?, bound(call, "max")?);
    if low.is_none() && high.is_none() {
        return Err(Stop::raised("torch.clamp: At least one of 'min' or 'max' must not be None"));
    }
    let mut dtype = if let Operand::Tensor(x) = &x { x.dtype() } else { DType::Float };
    if call.release() >= Release(1, 12) {
        let bounds = [low.as_ref(), high.as_ref()];
        for other in bounds.into_iter().flatten() {
            let seen = Operand::Tensor(Tensor::zeros(dtype, if rank(&x) > 0 { &[1] } else { &[] }, Precision::Typed));
            dtype = common(&seen, other);
        }
    }
    if call.release() < Release(1, 12) {
        (low, high) = (low.and_then(|low| number_of(low, dtype)), high.and_then(|high| number_of(high, dtype)));
    }
    let types = Types::same(dtype, call.precision());
    if let (Operand::Tensor(x), Some((low, high))) = (&x, crossed(call, low.as_ref(), high.as_ref())) {
        let cut = |bound: f64| if dtype.arithmetic() == Some(Kind::Float) { bound } else { bound.trunc() };
        let (low, high) = (cut(low), cut(high));
        return one(map1(x, types, |x: f64| {
            if x < low {
                low
            } else if x > high {
                high
            } else {
                x
            }
        })?);
    }
    for (limit, is_low) in [(low, true), (high, false)] {
        let Some(limit) = limit else { continue };
        let limit = within(call, limit, dtype, is_low)?;
        let result = match (dtype.arithmetic(), is_low) {
            (Some(Kind::Float), true) => both(&x, &limit, types, larger)?,
            (Some(Kind::Float), false) => both(&x, &limit, types, smaller)?,
            (_, true) => both(&x, &limit, types, i64::max)?,
            (_, false) => both(&x, &limit, types, i64::min)?,
        };
        x = Operand::Tensor(result);
    }
    match x {
        Operand::Tensor(x) => one(x),
        Operand::Number(_) => Err(Stop::unsupported("clamp of a number")),
    }
}

/// A bound for tensors of the element type. A floating point bound out of the range of its type is
/// refused; an integer bound is converted. If it is out of range on the side where it has no
/// effect, it becomes the last number of the type; on the other side it is refused; before 2.15 it
/// is refused on both sides, but negative numbers wrap in the unsigned type (PyTorch issues 107702,
/// 198071).
fn within(call: &Call<'_>, limit: Operand, dtype: DType, is_low: bool) -> Result<Operand, Stop> {
    if let (Operand::Number(limit), Some(Kind::Float)) = (&limit, dtype.arithmetic()) {
        check_fits(*limit, dtype)?;
    }
    let Operand::Number(Scalar::Int(n)) = limit else { return Ok(limit) };
    Ok(Operand::Number(Scalar::Int(within_range(call, n, dtype, is_low)?)))
}

/// The same for integers.
pub(super) fn within_range(call: &Call<'_>, n: i64, dtype: DType, is_low: bool) -> Result<i64, Stop> {
    let Some((low, high)) = dtype.range().filter(|_| dtype != DType::Bool) else { return Ok(n) };
    if (low..=high).contains(&n) {
        return Ok(n);
    }
    if call.release() < Release(2, 15) {
        return check_fits(Scalar::Int(n), dtype).map(|()| n);
    }
    if is_low == (n < low) {
        return Ok(if is_low { low } else { high });
    }
    let (which, name) = (if is_low { "min" } else { "max" }, dtype.name());
    Err(Stop::raised(format!("Clamp {which} value {n} is outside the representable range of {name}")))
}

/// A bound in the element type, truncated; `None` for NaN, which has no effect.
fn number_of(bound: Operand, dtype: DType) -> Option<Operand> {
    match bound {
        Operand::Number(number) if number.real().is_nan() => None,
        Operand::Number(number @ Scalar::Float(_)) if dtype.is_integral() => {
            Some(Operand::Number(Scalar::Int(number.real() as i64)))
        }
        other => Some(other),
    }
}

fn rank(x: &Operand) -> usize {
    if let Operand::Tensor(x) = x { x.rank() } else { 0 }
}

/// Crossing bounds, for which old versions test the lower one first and stop if it applies.
fn crossed(call: &Call<'_>, low: Option<&Operand>, high: Option<&Operand>) -> Option<(f64, f64)> {
    match (low, high) {
        (Some(Operand::Number(low)), Some(Operand::Number(high))) if call.release() < Release(1, 8) => {
            Some((low.real(), high.real())).filter(|(low, high)| low > high)
        }
        _ => None,
    }
}
