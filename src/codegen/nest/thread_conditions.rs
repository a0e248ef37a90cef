//! Which threads a condition selects, by its tree and its operands.
//!
//! ```text
//! t == 0   t: the thread              the first thread of a block
//! t >= h   t: the thread, h: the      threads that have another one a distance before them
//!          distance of the loop
//! j < c    j: the element,            threads whose element is in the row
//!          c: the end of the row
//! ```

use super::{Known, Origin, Term};
use crate::codegen::arithmetic::Number;
use crate::codegen::expression::{Binary, Expr};

/// What a condition says of the threads that fulfil it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selected {
    /// The first thread of a block.
    FirstThread,
    /// The first lane of each warp.
    FirstLane,
    /// Those that have one a distance before them.
    HasBefore,
    /// Those whose element is in its row, or whose row is one of the launch.
    InRow,
    /// Nothing that the verifier relies on.
    Other,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Is(Known),
    Zero,
}

/// The threads that a condition selects.
pub(super) fn selected(when: &Term) -> Selected {
    let Expr::Binary(how, sides) = &when.formula.expr else { return Selected::Other };
    let [Some(left), Some(right)] = [&sides[0], &sides[1]].map(|expr| side(expr, when)) else {
        return Selected::Other;
    };
    match (how, left, right) {
        (Binary::Equal, Side::Is(Known::Thread), Side::Zero) => Selected::FirstThread,
        (Binary::Equal, Side::Is(Known::Lane), Side::Zero) => Selected::FirstLane,
        (Binary::AtLeast, Side::Is(Known::Thread), Side::Is(Known::Distance)) => Selected::HasBefore,
        (Binary::Less, Side::Is(Known::Element | Known::First), Side::Is(Known::End))
        | (Binary::Less, Side::Is(Known::Row), Side::Is(Known::Rows)) => Selected::InRow,
        _ => Selected::Other,
    }
}

fn side(expr: &Expr, when: &Term) -> Option<Side> {
    if matches!(expr, Expr::Typed(Number::Int(0))) {
        return Some(Side::Zero);
    }
    let letter = expr.letter()?;
    let operand = when.operands.iter().find(|operand| operand.0 == letter)?.1;
    if let Origin::Known(known) = operand.origin { Some(Side::Is(known)) } else { None }
}
