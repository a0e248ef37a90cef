//! The arithmetic of C on numbers of the types that kernels compute in: what the executor of nests
//! runs expressions with.
//!
//! Results have the bits that compiled kernels have: integers wrap (`-fwrapv`), floats are rounded
//! after each operation (`-ffp-contract=off`), and operands of different types are converted first,
//! as C prescribes.

use super::expression::{Binary, Unary};
use super::number_type::NumberType;

/// A number of one of the types that expressions have. Smaller integers are promoted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// `i32`, and `int`
    Int(i32),
    /// `u32`
    Unsigned(u32),
    /// `i64`
    Long(i64),
    /// `u64`
    UnsignedLong(u64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
}

use Number::{Double, Float, Int, Long, Unsigned, UnsignedLong};

impl Number {
    /// Its spelling in C.
    pub(crate) fn spelled(self) -> String {
        match self {
            Int(n) => n.to_string(),
            Unsigned(n) => format!("{n}u"),
            Long(n) => format!("{n}LL"),
            UnsignedLong(n) => format!("{n}ULL"),
            Float(x) => format!("{x:?}f"),
            Double(x) => format!("{x:?}"),
        }
    }

    /// 0 or 1.
    pub(crate) fn truth(is: bool) -> Number {
        Int(i32::from(is))
    }

    /// Whether it is not 0; NaN is not.
    pub(crate) fn is_true(self) -> bool {
        match self {
            Int(n) => n != 0,
            Unsigned(n) => n != 0,
            Long(n) => n != 0,
            UnsignedLong(n) => n != 0,
            Float(x) => x != 0.0,
            Double(x) => x != 0.0,
        }
    }

    /// Whether it is above 0.
    pub(crate) fn is_positive(self) -> bool {
        self.real() > 0.0
    }

    /// Its value as a double; integers are rounded.
    pub(crate) fn real(self) -> f64 {
        match self {
            Int(n) => f64::from(n),
            Unsigned(n) => f64::from(n),
            Long(n) => n as f64,
            UnsignedLong(n) => n as f64,
            Float(x) => f64::from(x),
            Double(x) => x,
        }
    }

    /// Its value as a float, rounded once.
    pub(crate) fn single(self) -> f32 {
        match self {
            Int(n) => n as f32,
            Unsigned(n) => n as f32,
            Long(n) => n as f32,
            UnsignedLong(n) => n as f32,
            Float(x) => x,
            Double(x) => x as f32,
        }
    }

    /// Its value as 64 bits: integers are extended by their sign, floats truncated.
    pub(crate) fn bits(self) -> i64 {
        match self {
            Int(n) => i64::from(n),
            Unsigned(n) => i64::from(n),
            Long(n) => n,
            UnsignedLong(n) => n as i64,
            Float(x) => x as i64,
            Double(x) => x as i64,
        }
    }

    /// Converts it to a type.
    pub(crate) fn cast(self, ty: NumberType) -> Number {
        let bits = || self.bits();
        match ty {
            NumberType::Float => Float(self.single()),
            NumberType::Double => Double(self.real()),
            NumberType::I8 => Int(i32::from(bits() as i8)),
            NumberType::U8 => Int(i32::from(bits() as u8)),
            NumberType::I16 => Int(i32::from(bits() as i16)),
            NumberType::U16 => Int(i32::from(bits() as u16)),
            NumberType::I32 | NumberType::Int => Int(bits() as i32),
            NumberType::U32 => Unsigned(bits() as u32),
            NumberType::I64 => Long(bits()),
            NumberType::U64 => match self {
                // From 2^63 on.
                Float(x) if x >= 0.0 => UnsignedLong(x as u64),
                Double(x) if x >= 0.0 => UnsignedLong(x as u64),
                _ => UnsignedLong(bits() as u64),
            },
        }
    }

    /// Its type.
    fn ty(self) -> NumberType {
        match self {
            Int(_) => NumberType::I32,
            Unsigned(_) => NumberType::U32,
            Long(_) => NumberType::I64,
            UnsignedLong(_) => NumberType::U64,
            Float(_) => NumberType::Float,
            Double(_) => NumberType::Double,
        }
    }

    /// Two numbers in their common type.
    fn common(self, other: Number) -> (Number, Number) {
        use NumberType::{I32, I64, U32, U64};
        const RANKS: [NumberType; 6] = [I32, U32, I64, U64, NumberType::Float, NumberType::Double];
        let rank = |number: Number| RANKS.iter().position(|&ty| ty == number.ty());
        let ty = RANKS[rank(self).max(rank(other)).unwrap_or(0)];
        (self.cast(ty), other.cast(ty))
    }
}

/// Applies an operator with two operands.
pub(crate) fn binary(operator: Binary, a: Number, b: Number) -> Number {
    if matches!(operator, Binary::ShiftLeft | Binary::ShiftRight) {
        return shift(operator, a, b.bits() as u32);
    }
    match a.common(b) {
        (Double(a), Double(b)) => reals(operator, a, b, Double),
        (Float(a), Float(b)) => match operator {
            Binary::Plus => Float(a + b),
            Binary::Minus => Float(a - b),
            Binary::Times => Float(a * b),
            Binary::Over => Float(a / b),
            _ => reals(operator, f64::from(a), f64::from(b), |x| Float(x as f32)),
        },
        (Int(a), Int(b)) => whole(operator, i64::from(a), i64::from(b), |n| Int(n as i32)),
        (Unsigned(a), Unsigned(b)) => whole(operator, i64::from(a), i64::from(b), |n| Unsigned(n as u32)),
        (Long(a), Long(b)) => whole(operator, a, b, Long),
        (UnsignedLong(a), UnsignedLong(b)) => match operator {
            Binary::Over => UnsignedLong(a.checked_div(b).unwrap_or(0)),
            Binary::Rest => UnsignedLong(a.checked_rem(b).unwrap_or(0)),
            Binary::Less => Number::truth(a < b),
            Binary::AtMost => Number::truth(a <= b),
            Binary::Greater => Number::truth(a > b),
            Binary::AtLeast => Number::truth(a >= b),
            _ => match whole(operator, a as i64, b as i64, Long) {
                Long(n) => UnsignedLong(n as u64),
                truth => truth,
            },
        },
        (a, _) => a,
    }
}

fn reals(operator: Binary, a: f64, b: f64, made: impl Fn(f64) -> Number) -> Number {
    match operator {
        Binary::Plus => made(a + b),
        Binary::Minus => made(a - b),
        Binary::Times => made(a * b),
        Binary::Over => made(a / b),
        Binary::Equal => Number::truth(a == b),
        Binary::NotEqual => Number::truth(a != b),
        Binary::Less => Number::truth(a < b),
        Binary::AtMost => Number::truth(a <= b),
        Binary::Greater => Number::truth(a > b),
        Binary::AtLeast => Number::truth(a >= b),
        // No formula has others, which C refuses.
        _ => made(f64::NAN),
    }
}

/// In 64 bits; what `made` cuts off wraps as it would in fewer.
fn whole(operator: Binary, a: i64, b: i64, made: impl Fn(i64) -> Number) -> Number {
    match operator {
        Binary::Plus => made(a.wrapping_add(b)),
        Binary::Minus => made(a.wrapping_sub(b)),
        Binary::Times => made(a.wrapping_mul(b)),
        // Nothing divides by 0, but branches that are not taken.
        Binary::Over => made(if b == 0 { 0 } else { a.wrapping_div(b) }),
        Binary::Rest => made(if b == 0 { 0 } else { a.wrapping_rem(b) }),
        Binary::Or => made(a | b),
        Binary::Xor => made(a ^ b),
        Binary::And => made(a & b),
        Binary::Equal => Number::truth(a == b),
        Binary::NotEqual => Number::truth(a != b),
        Binary::Less => Number::truth(a < b),
        Binary::AtMost => Number::truth(a <= b),
        Binary::Greater => Number::truth(a > b),
        Binary::AtLeast => Number::truth(a >= b),
        Binary::OrElse => Number::truth(a != 0 || b != 0),
        Binary::AndAlso => Number::truth(a != 0 && b != 0),
        Binary::ShiftLeft | Binary::ShiftRight => made(a),
    }
}

/// A shift keeps the type of its first operand.
fn shift(operator: Binary, a: Number, by: u32) -> Number {
    let left = operator == Binary::ShiftLeft;
    match a {
        Int(n) => Int(if left { n.wrapping_shl(by) } else { n.wrapping_shr(by) }),
        Unsigned(n) => Unsigned(if left { n.wrapping_shl(by) } else { n.wrapping_shr(by) }),
        Long(n) => Long(if left { n.wrapping_shl(by) } else { n.wrapping_shr(by) }),
        UnsignedLong(n) => UnsignedLong(if left { n.wrapping_shl(by) } else { n.wrapping_shr(by) }),
        real => real,
    }
}

/// Applies an operator with one operand.
pub(crate) fn unary(operator: Unary, a: Number) -> Number {
    match (operator, a) {
        (Unary::Not, a) => Number::truth(!a.is_true()),
        (Unary::Minus, Int(n)) => Int(n.wrapping_neg()),
        (Unary::Minus, Unsigned(n)) => Unsigned(n.wrapping_neg()),
        (Unary::Minus, Long(n)) => Long(n.wrapping_neg()),
        (Unary::Minus, UnsignedLong(n)) => UnsignedLong(n.wrapping_neg()),
        (Unary::Minus, Float(x)) => Float(-x),
        (Unary::Minus, Double(x)) => Double(-x),
        (Unary::Complement, Int(n)) => Int(!n),
        (Unary::Complement, Unsigned(n)) => Unsigned(!n),
        (Unary::Complement, Long(n)) => Long(!n),
        (Unary::Complement, UnsignedLong(n)) => UnsignedLong(!n),
        (Unary::Complement, real) => real,
    }
}

/// The value of a choice: that of the taken branch, in the common type of both.
pub(crate) fn chosen(taken: Number, other: Number) -> Number {
    taken.common(other).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_converted_as_in_c() {
        assert_eq!(binary(Binary::Plus, Int(1), Float(0.5)), Float(1.5));
        assert_eq!(binary(Binary::Plus, Int(-1), Unsigned(0)), Unsigned(u32::MAX));
        assert_eq!(binary(Binary::Less, Int(-1), Unsigned(0)), Int(0), "-1 is the largest");
        assert_eq!(binary(Binary::Times, Int(i32::MAX), Int(2)), Int(-2));
        assert_eq!(binary(Binary::Times, Long(1 << 40), Int(2)), Long(1 << 41));
        assert_eq!(binary(Binary::Over, Int(7), Int(-2)), Int(-3));
        assert_eq!(binary(Binary::ShiftRight, Int(-8), Int(1)), Int(-4));
        assert_eq!(binary(Binary::ShiftRight, Unsigned(0x8000_0000), Int(31)), Unsigned(1));
        assert_eq!(binary(Binary::Less, UnsignedLong(1 << 63), UnsignedLong(1)), Int(0));
        assert_eq!(binary(Binary::Plus, Float(1e8), Float(1.0)), Float(1e8), "rounded to floats");
        assert_eq!(binary(Binary::Plus, Float(1e8), Double(1.0)), Double(100_000_001.0));
        assert_eq!(chosen(Int(1), Double(0.0)), Double(1.0));
        assert_eq!(Double(300.0).cast(NumberType::U8), Int(44));
    }
}
