//! Refuses numbers that an element type cannot hold, as far as is known before a launch.

use super::{Known, Source, wrapped};
use crate::tensor::{DType, Kind, Scalar};

/// Whether a number is in the range of an element type. Floats known only at launch are checked
/// there. Non-numeric operands always pass.
pub(super) fn fits(known: &Known, dtype: DType) -> bool {
    let Known::Number { source, kind } = known else { return true };
    let constant = if let Source::Constant(number) = source { Some(*number) } else { None };
    match dtype.range().filter(|_| dtype != DType::Bool) {
        None => constant.is_none_or(|number| dtype.holds_float(number)),
        Some((low, high)) => match (constant, kind) {
            (_, Kind::Bool) => true,
            (Some(Scalar::Int(n)), _) => (low..=high).contains(&n),
            (Some(number), _) => (low as f64..=high as f64).contains(&number.real()),
            (None, Kind::Int) => dtype == DType::Long,
            (None, _) => false,
        },
    }
}

/// Whether numbers of an element type are multiplied by a factor before they are added.
pub(super) fn scales(known: &Known, dtype: DType) -> bool {
    let Known::Number { kind, .. } = known else { return true };
    (*kind != Kind::Bool || dtype == DType::Bool) && (!dtype.is_integral() || *kind <= Kind::Int) && fits(known, dtype)
}

/// Whether integers may be divided by an operand, or raised to it, as far as is known before a
/// launch: a divisor that the group itself computes may be 0.
pub(super) fn may_be_used(known: &Known, computed: DType, is_divisor: bool) -> bool {
    match known {
        Known::Number { source: Source::Constant(number), .. } if is_divisor => wrapped(number.int(), computed) != 0,
        Known::Number { source: Source::Constant(number), .. } => number.int() >= 0,
        Known::Tensor { source, .. } => !is_divisor || matches!(source, Source::Load(_)),
        Known::Number { .. } | Known::Operand { .. } => true,
        _ => false,
    }
}
