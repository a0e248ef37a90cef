//! The types of PTX, and the values of registers: integers and floats as their bits.
//!
//! A register is 64 bits wide; an instruction reads as many as its type has, and bits above those
//! have no meaning. A float (but no double) that is NaN has the one pattern that GPUs give it.

use std::ops::{BitAnd, BitOr, BitXor};

/// The type of an instruction, as it is spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Pred,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

use Type::{B16, B32, B64, Bf16, F16, F32, F64, Pred, S8, S16, S32, S64, U8, U16, U32, U64};

/// Types with their names.
const TYPES: [(&str, Type); 17] = [
    ("pred", Pred),
    ("b8", U8),
    ("b16", B16),
    ("b32", B32),
    ("b64", B64),
    ("u8", U8),
    ("u16", U16),
    ("u32", U32),
    ("u64", U64),
    ("s8", S8),
    ("s16", S16),
    ("s32", S32),
    ("s64", S64),
    ("f16", F16),
    ("bf16", Bf16),
    ("f32", F32),
    ("f64", F64),
];

impl Type {
    pub(super) fn named(name: &str) -> Option<Type> {
        TYPES.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The bytes of a value in memory.
    pub(super) fn size(self) -> usize {
        match self {
            Pred | U8 | S8 => 1,
            B16 | U16 | S16 | F16 | Bf16 => 2,
            B32 | U32 | S32 | F32 => 4,
            B64 | U64 | S64 | F64 => 8,
        }
    }

    /// The bits of a value read from memory, in a register that may be wider.
    pub(super) fn widened(self, bits: u64) -> u64 {
        match self {
            S8 => bits as i8 as u64,
            S16 => bits as i16 as u64,
            S32 => bits as i32 as u64,
            _ => bits,
        }
    }
}

/// A value of a register.
pub(super) trait Word: Copy + PartialOrd {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

/// An integer.
pub(super) trait Integer:
    Word + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    const BITS: u32;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn quotient(self, other: Self) -> Self;
    fn remainder(self, other: Self) -> Self;
    fn left(self, by: u32) -> Self;
    fn right(self, by: u32) -> Self;
    fn wide(self) -> i128;
    fn narrowed(wide: i128) -> Self;
    /// The nearest integer to one that may be out of range.
    fn clamped(x: f64) -> Self;
    fn leading_zeros(self) -> u64;
}

/// A floating-point number.
pub(super) trait Float: Word {
    fn double(self) -> f64;
    fn rounded(x: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn fused(self, times: Self, plus: Self) -> Self;
    fn root(self) -> Self;
}

macro_rules! integer {
    ($ty:ty, $unsigned:ty) => {
        impl Word for $ty {
            fn of(bits: u64) -> Self {
                bits as $ty
            }
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
        impl Integer for $ty {
            const BITS: u32 = <$ty>::BITS;
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            // PTX leaves the results of a division by 0 open.
            fn quotient(self, other: Self) -> Self {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }
            fn remainder(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }
            fn left(self, by: u32) -> Self {
                self.checked_shl(by).unwrap_or(0)
            }
            fn right(self, by: u32) -> Self {
                self.checked_shr(by).unwrap_or(self >> (<$ty>::BITS - 1) >> 1)
            }
            fn wide(self) -> i128 {
                self as i128
            }
            fn narrowed(wide: i128) -> Self {
                wide as $ty
            }
            fn clamped(x: f64) -> Self {
                x as $ty
            }
            fn leading_zeros(self) -> u64 {
                u64::from(self.leading_zeros())
            }
        }
    };
}

integer!(u8, u8);
integer!(u16, u16);
integer!(u32, u32);
integer!(u64, u64);
integer!(i8, u8);
integer!(i16, u16);
integer!(i32, u32);
integer!(i64, u64);

/// The bits that GPUs write for a float that is NaN.
const NAN: u64 = 0x7fff_ffff;

macro_rules! float {
    ($ty:ident, $bits:ty, $nan:expr) => {
        impl Word for $ty {
            fn of(bits: u64) -> Self {
                $ty::from_bits(bits as $bits)
            }
            fn bits(self) -> u64 {
                if self.is_nan() { $nan(self) } else { u64::from(self.to_bits()) }
            }
        }
        impl Float for $ty {
            fn double(self) -> f64 {
                f64::from(self)
            }
            fn rounded(x: f64) -> Self {
                x as $ty
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
            fn fused(self, times: Self, plus: Self) -> Self {
                self.mul_add(times, plus)
            }
            fn root(self) -> Self {
                self.sqrt()
            }
        }
    };
}

float!(f32, u32, |_| NAN);
float!(f64, u64, f64::to_bits);

/// The instance of a function for a type of integers, or of integers and predicates.
macro_rules! of_integer {
    ($ty:expr, $function:ident, $count:ident) => {
        match $ty {
            $crate::runtime::ptx::bits::Type::U8 => $count($function::<u8>),
            $crate::runtime::ptx::bits::Type::U16 | $crate::runtime::ptx::bits::Type::B16 => $count($function::<u16>),
            $crate::runtime::ptx::bits::Type::U32 | $crate::runtime::ptx::bits::Type::B32 => $count($function::<u32>),
            $crate::runtime::ptx::bits::Type::U64 | $crate::runtime::ptx::bits::Type::B64 => $count($function::<u64>),
            $crate::runtime::ptx::bits::Type::S8 => $count($function::<i8>),
            $crate::runtime::ptx::bits::Type::S16 => $count($function::<i16>),
            $crate::runtime::ptx::bits::Type::S32 => $count($function::<i32>),
            $crate::runtime::ptx::bits::Type::S64 => $count($function::<i64>),
            _ => return None,
        }
    };
}

/// The instance of a function for a type of floats.
macro_rules! of_float {
    ($ty:expr, $function:ident, $count:ident) => {
        match $ty {
            $crate::runtime::ptx::bits::Type::F32 => $count($function::<f32>),
            $crate::runtime::ptx::bits::Type::F64 => $count($function::<f64>),
            _ => return None,
        }
    };
}

pub(super) use {of_float, of_integer};
