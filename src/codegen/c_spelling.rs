//! The C spelling of types, formulas, conversions between element types and exact literals.

use super::expression::{Expr, Expression};
use super::number_type::NumberType;
use crate::tensor::{DType, Kind, Scalar};

/// The C type of an element type in memory.
pub(crate) fn memory_type(dtype: DType) -> NumberType {
    NumberType::in_memory(dtype)
}

/// The C type in which values of an element type are computed.
pub(crate) fn value_type(dtype: DType) -> NumberType {
    NumberType::of_values(dtype)
}

/// A formula, computed in one type for a result of another one, with operands by their letters.
pub(crate) fn applied(
    formula: &Expression,
    (computed, out): (DType, DType),
    operand: &dyn Fn(char) -> String,
) -> String {
    let suffix = value_type(computed).suffix();
    let leaf = |expr: &Expr| match *expr {
        Expr::Operand(letter) => operand(letter),
        Expr::Integer(n) => n.to_string(),
        Expr::Float(x) => literal(Scalar::Float(x), computed),
        _ => String::new(),
    };
    let text = formula.expr.print(&leaf, &|callee| callee.in_c(suffix));
    match out == DType::Bool && computed == DType::Bool {
        true => format!("({text}) != 0"),
        false => text,
    }
}

/// Converts an element in memory to a value.
pub(crate) fn widened(element: &str, dtype: DType) -> String {
    match dtype {
        DType::Half => format!("jo_from_half({element})"),
        DType::BFloat16 => format!("jo_from_bfloat16({element})"),
        _ => element.to_owned(),
    }
}

/// Converts a value to an element in memory.
pub(crate) fn narrowed(value: String, dtype: DType) -> String {
    match dtype {
        DType::Half => format!("jo_to_half({value})"),
        DType::BFloat16 => format!("jo_to_bfloat16({value})"),
        _ => value,
    }
}

/// Converts a value from one type to another: integers wrap, floats are truncated (to 32 bits at
/// least), and everything but 0 is true.
pub(crate) fn converted(value: &str, from: DType, to: DType) -> String {
    let is_real = |dtype: DType| dtype.arithmetic() == Some(Kind::Float);
    match to {
        _ if from == to => value.to_owned(),
        DType::Bool => format!("({value} != 0)"),
        DType::Half => format!("jo_from_half(jo_to_half((float){value}))"),
        DType::BFloat16 => format!("jo_from_bfloat16(jo_to_bfloat16((float){value}))"),
        _ if is_real(to) && value_type(from) == value_type(to) => value.to_owned(),
        _ if is_real(from) && !is_real(to) => {
            let suffix = value_type(from).suffix();
            match to {
                DType::Long => format!("jo_cut{suffix}({value})"),
                DType::Int => format!("jo_cut32{suffix}({value})"),
                _ => format!("({})jo_cut32{suffix}({value})", value_type(to)),
            }
        }
        _ => format!("({}){value}", value_type(to)),
    }
}

/// A number as an exact literal of a type.
pub(crate) fn literal(scalar: Scalar, dtype: DType) -> String {
    let text = match dtype.arithmetic() {
        Some(Kind::Float) if dtype == DType::Double => float_literal(scalar.real(), scalar.real().to_string(), ""),
        Some(Kind::Float) => {
            let x = scalar.real() as f32;
            float_literal(f64::from(x), x.to_string(), "f")
        }
        _ => match scalar.int() {
            // Its absolute value is out of range for the type.
            i64::MIN => "(-9223372036854775807LL - 1)".to_owned(),
            n if i32::try_from(n).is_err() => format!("{n}LL"),
            n => n.to_string(),
        },
    };
    if text.starts_with('-') { format!("({text})") } else { text }
}

fn float_literal(x: f64, shortest: String, suffix: &str) -> String {
    if x.is_nan() {
        return format!("__builtin_nan{suffix}(\"\")");
    }
    if x.is_infinite() {
        return format!("{}__builtin_inf{suffix}()", if x < 0.0 { "-" } else { "" });
    }
    // Numbers far from 1 would otherwise be written with all their zeros.
    let text = if x != 0.0 && !(1e-4..1e15).contains(&x.abs()) {
        match suffix {
            "f" => format!("{:e}", x as f32),
            _ => format!("{x:e}"),
        }
    } else {
        shortest
    };
    let point = if text.contains(['.', 'e']) { "" } else { ".0" };
    format!("{text}{point}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_exact_and_c() {
        let real = |x: f64, dtype| literal(Scalar::Float(x), dtype);
        assert_eq!(real(0.1, DType::Float), "0.1f");
        assert_eq!(real(0.1, DType::Half), "0.1f");
        assert_eq!(real(1.0, DType::Double), "1.0");
        assert_eq!(real(-2.5, DType::Double), "(-2.5)");
        // Six digits do not distinguish these two: two different kernels were once merged.
        assert_eq!(real(1.2345671, DType::Float), "1.234567f");
        assert_eq!(real(1.2345679, DType::Float), "1.2345679f");
        assert_eq!(real(1e-30, DType::Float), "1e-30f");
        assert_eq!(real(1e300, DType::Double), "1e300");
        assert_eq!(real(f64::NEG_INFINITY, DType::Float), "(-__builtin_inff())");
        assert_eq!(real(-0.0, DType::Float), "(-0.0f)");
        assert_eq!(literal(Scalar::Int(i64::MIN), DType::Long), "(-9223372036854775807LL - 1)");
        assert_eq!(literal(Scalar::Int(1 << 40), DType::Long), "1099511627776LL");
        assert_eq!(literal(Scalar::Int(3), DType::Float), "3.0f");
        // As in PyTorch, a plain number is converted to the type of the tensor.
        assert_eq!(literal(Scalar::Float(2.7), DType::Int), "2");
    }
}
