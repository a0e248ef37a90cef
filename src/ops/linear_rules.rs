//! The column of the operator table for linearity: the operators that a sum of gradients can be
//! moved past.
//!
//! ```text
//! sum(x) * y = sum(x * y)        where y is constant over the summed dimensions
//! ```
//!
//! Gradient formulas apply products, quotients and signs to a gradient; sums of two gradients,
//! selections and casts occur with them. Rounded (`floor` division) or nonlinear operators have no
//! row.

use super::schema::Schema;
use crate::symbol::{Symbol, prim};
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

/// One row.
#[derive(Debug)]
pub struct LinearRow {
    kinds: &'static [&'static str],
    overloads: &'static [&'static str],
    /// The operands in which it is linear.
    pub linear: Linear,
    /// The name of the rewrite that moves a sum past it.
    pub rule: &'static str,
}

const fn row(
    kinds: &'static [&'static str],
    overloads: &'static [&'static str],
    linear: Linear,
    rule: &'static str,
) -> LinearRow {
    LinearRow { kinds, overloads, linear, rule }
}

/// The table.
const ROWS: &[LinearRow] = &[
    row(&["aten::mul"], &["Tensor", "Scalar"], Linear::EachFactor, "past-products"),
    row(&["aten::div", "aten::true_divide"], &["Tensor", "Scalar"], Linear::First, "past-quotients"),
    row(&["aten::neg"], &[""], Linear::First, "past-signs"),
    row(&["aten::add", "aten::sub"], &["Tensor"], Linear::Both, "past-sums"),
    row(&["aten::where"], &["self", "ScalarOther", "ScalarSelf"], Linear::Branches, "past-choices"),
    row(&["aten::masked_fill"], &["Scalar"], Linear::Cleared, "past-choices"),
    row(&["aten::type_as"], &[""], Linear::Cast, "past-casts"),
];

/// A sum of two gradients, one of which may be undefined. It has no overloads.
const OF_GRADIENTS: LinearRow = row(&["prim::AutogradAdd"], &[], Linear::Both, "past-sums");

/// The row of a node of a kind with operands of these types; `None` if it is linear in none of
/// them.
pub fn linear_row(era: Era, kind: Symbol, operands: &[Type]) -> Option<&'static LinearRow> {
    if kind == prim::AUTOGRAD_ADD {
        return Some(&OF_GRADIENTS);
    }
    let named = |row: &&LinearRow| row.kinds.contains(&kind.as_str());
    let row = ROWS.iter().find(named)?;
    let schema: &Schema = super::resolve(era, kind, operands).schema()?;
    row.overloads.contains(&schema.overload).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn each_overload_of_a_row_is_declared() {
        let declared = |kind: &str| ops::operator(Era::V2, Symbol::new(kind)).schemas;
        for row in ROWS {
            for kind in row.kinds {
                for overload in row.overloads {
                    let found = declared(kind).iter().any(|schema| schema.overload == *overload);
                    assert!(found, "{kind}.{overload} is not declared");
                }
            }
        }
    }

    #[test]
    fn what_rounds_or_bends_has_no_row() {
        let (tensor, mode) = (Type::tensor(), Type::simple(crate::types::Simple::Str));
        let rounded = linear_row(Era::V2, Symbol::new("aten::div"), &[tensor, tensor, mode]);
        assert!(rounded.is_none());
        for kind in ["aten::tanh", "aten::pow", "aten::floor_divide", "aten::reciprocal"] {
            assert!(linear_row(Era::V2, Symbol::new(kind), &[tensor, tensor]).is_none(), "{kind}");
        }
    }
}
