//! The column of the operator table for linearity: the operators that a sum of gradients can be
//! moved past.
//!
//! ```text
//! sum(x) * y = sum(x * y)        where y is constant over the summed dimensions
//! ```
//!
//! Gradient formulas apply products, quotients and signs to a gradient; sums of two gradients,
//! selections and casts occur with them. Rounded (`floor` division) or nonlinear operators have
//! none.
//! The facts stand in the rows of the operators, column `semantics`.

use crate::symbol::Symbol;
use crate::types::Type;
use crate::types::era::Era;

/// The way an operator commutes with a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// It is linear in each of its operands, one at a time.
    EachFactor,
    /// In its first operand; the others are constant over the summed dimensions.
    First,
    /// In its first two operands jointly.
    Both,
    /// In its second and third operand jointly, where one may be zero; the first one selects.
    Branches,
    /// In its first operand, where the second one keeps it; the third, which replaces it elsewhere,
    /// is zero.
    Cleared,
    /// In its first operand, as long as the element type loses no precision; the second one is not
    /// read otherwise.
    Cast,
}

/// The overloads of an operator that a sum can be moved past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRow {
    /// The overloads; all, if none is named.
    pub overloads: &'static [&'static str],
    /// The operands in which it is linear.
    pub linear: Linear,
    /// The name of the rewrite that moves a sum past it.
    pub rule: &'static str,
}

/// The row of a node of a kind with operands of these types; `None` if it is linear in none of
/// them.
pub fn linear_row(era: Era, kind: Symbol, operands: &[Type]) -> Option<LinearRow> {
    let operator = super::operator(era, kind);
    let row = operator.rule.linear?;
    let named = || operator.resolve(operands).schema().is_some_and(|schema| row.overloads.contains(&schema.overload));
    (row.overloads.is_empty() || named()).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonlinear_operators_have_no_row() {
        let (tensor, mode) = (Type::tensor(), Type::simple(crate::types::Simple::Str));
        let rounded = linear_row(Era::V2, Symbol::new("aten::div"), &[tensor, tensor, mode]);
        assert!(rounded.is_none());
        for kind in ["aten::tanh", "aten::pow", "aten::floor_divide", "aten::reciprocal"] {
            assert!(linear_row(Era::V2, Symbol::new(kind), &[tensor, tensor]).is_none(), "{kind}");
        }
    }
}
