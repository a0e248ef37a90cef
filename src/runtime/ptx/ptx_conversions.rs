//! Conversions between types: `cvt`.
//!
//! ```text
//! cvt.s64.s8        integers are extended as the operand's type says
//! cvt.rn.f32.s64    an integer is rounded to a float
//! cvt.rzi.s32.f32   a float is rounded to an integer, and clamped to its type's range
//! cvt.rmi.f32.f32   a float is rounded to an integer, which is a float
//! cvt.rn.f16.f32    a float is rounded to a half
//! ```

use super::bits::Type::{self, Bf16, F16, F32, F64, S64, U64};
use super::bits::{Float, Integer, Word, of_integer};
use half::{bf16, f16};

/// A conversion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conversion {
    /// Of an integer.
    OfInteger(fn(u64) -> u64),
    /// Of a float, all of which are doubles in between: how it is read, rounded to an integer where
    /// it is, and written, where it is rounded to the type of the result.
    OfFloat(fn(u64) -> f64, fn(f64) -> f64, fn(f64) -> u64),
}

impl Conversion {
    pub(super) fn of(self, bits: u64) -> u64 {
        match self {
            Conversion::OfInteger(function) => function(bits),
            Conversion::OfFloat(read, round, write) => write(round(read(bits))),
        }
    }
}

/// The conversion with some modifiers, the type of its result, and that of its operand.
pub(super) fn conversion(modifiers: &[&str], to: Type, from: Type) -> Option<Conversion> {
    match (float_reader(from), float_writer(to)) {
        (None, None) if modifiers.is_empty() => of_integer!(from, extended, integer),
        (None, Some(_)) if modifiers == ["rn"] && to == F32 => of_integer!(from, as_float, integer),
        (None, Some(_)) if modifiers == ["rn"] && to == F64 => of_integer!(from, as_double, integer),
        (Some(read), None) => {
            let write = match from == F64 || to == S64 || to == U64 {
                true => of_integer!(to, or_lowest, writer),
                false => of_integer!(to, or_zero, writer),
            };
            Some(Conversion::OfFloat(read, rounding(modifiers)?, write?))
        }
        (Some(read), Some(write)) => {
            let is_exact = to.size() > from.size();
            let round = match modifiers {
                [] if is_exact => |x| x,
                ["rn"] if !is_exact => |x| x,
                ["sat"] => |x: f64| if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) },
                _ if to == from => rounding(modifiers)?,
                _ => return None,
            };
            Some(Conversion::OfFloat(read, round, write))
        }
        _ => None,
    }
}

/// How to round to an integer.
fn rounding(modifiers: &[&str]) -> Option<fn(f64) -> f64> {
    Some(match modifiers {
        ["rni"] => f64::round_ties_even,
        ["rzi"] => f64::trunc,
        ["rmi"] => f64::floor,
        ["rpi"] => f64::ceil,
        _ => return None,
    })
}

fn float_reader(ty: Type) -> Option<fn(u64) -> f64> {
    Some(match ty {
        F16 => |bits| f16::from_bits(bits as u16).to_f64(),
        Bf16 => |bits| bf16::from_bits(bits as u16).to_f64(),
        F32 => |bits| f32::of(bits).double(),
        F64 => f64::of,
        _ => return None,
    })
}

/// A half that is NaN has the pattern that GPUs give it.
fn float_writer(ty: Type) -> Option<fn(f64) -> u64> {
    Some(match ty {
        F16 => |x| u64::from(if x.is_nan() { 0x7fff } else { f16::from_f64(x).to_bits() }),
        Bf16 => |x| u64::from(if x.is_nan() { 0x7fff } else { bf16::from_f64(x).to_bits() }),
        F32 => |x| f32::rounded(x).bits(),
        F64 => f64::bits,
        _ => return None,
    })
}

fn integer(function: fn(u64) -> u64) -> Option<Conversion> {
    Some(Conversion::OfInteger(function))
}

fn writer(function: fn(f64) -> u64) -> Option<fn(f64) -> u64> {
    Some(function)
}

fn extended<T: Integer>(bits: u64) -> u64 {
    T::of(bits).wide() as u64
}

fn as_float<T: Integer>(bits: u64) -> u64 {
    (T::of(bits).wide() as f32).bits()
}

fn as_double<T: Integer>(bits: u64) -> u64 {
    (T::of(bits).wide() as f64).bits()
}

fn or_zero<T: Integer>(x: f64) -> u64 {
    T::clamped(x).bits()
}

/// NaN is the number whose only bit is the highest one.
fn or_lowest<T: Integer>(x: f64) -> u64 {
    if x.is_nan() { T::narrowed(1 << (T::BITS - 1)).bits() } else { T::clamped(x).bits() }
}
