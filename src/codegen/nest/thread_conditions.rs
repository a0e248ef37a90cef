//! Which threads a condition selects, by its tree and its operands.
//!
//! ```text
//! t == 0   t: the thread              the first thread of a block
//! l == 31  l: the lane                the last lane of each warp
//! j < c    j: the element,            threads whose element is in the row
//!          c: the end of the row
//! i < h && j < w                      threads whose point of a square is in the space
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
    /// The last lane of each warp.
    LastLane,
    /// Those whose element is in its row, or whose row is one of the launch.
    InRow,
    /// Those whose point of a square is in the space along the last dimension but one, or along the
    /// last one.
    AboveEnd,
    /// See [`Selected::AboveEnd`].
    BeforeEnd,
    /// Those whose point of a square is in the space.
    InSpace,
    /// Nothing that the verifier relies on.
    Other,
}

/// The number of the last lane of a warp.
const LAST_LANE: i32 = 31;

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Is(Known),
    Zero,
    /// The number of the last lane.
    Last,
}

/// The threads that a condition selects.
pub(super) fn selected(when: &Term) -> Selected {
    selected_by(&when.formula.expr, when)
}

fn selected_by(condition: &Expr, when: &Term) -> Selected {
    let Expr::Binary(how, sides) = condition else { return Selected::Other };
    if *how == Binary::AndAlso {
        let both = [&sides[0], &sides[1]].map(|one| selected_by(one, when));
        return if both == [Selected::AboveEnd, Selected::BeforeEnd] { Selected::InSpace } else { Selected::Other };
    }
    let [Some(left), Some(right)] = [&sides[0], &sides[1]].map(|expr| side(expr, when)) else {
        return Selected::Other;
    };
    match (how, left, right) {
        (Binary::Equal, Side::Is(Known::Thread), Side::Zero) => Selected::FirstThread,
        (Binary::Equal, Side::Is(Known::Lane), Side::Zero) => Selected::FirstLane,
        (Binary::Equal, Side::Is(Known::Lane), Side::Last) => Selected::LastLane,
        (Binary::Less, Side::Is(Known::Element | Known::First), Side::Is(Known::End))
        | (Binary::Less, Side::Is(Known::Row), Side::Is(Known::Rows)) => Selected::InRow,
        (Binary::Less, Side::Is(Known::Down), Side::Is(Known::DownEnd)) => Selected::AboveEnd,
        (Binary::Less, Side::Is(Known::Across), Side::Is(Known::AcrossEnd)) => Selected::BeforeEnd,
        _ => Selected::Other,
    }
}

fn side(expr: &Expr, when: &Term) -> Option<Side> {
    match expr {
        Expr::Typed(Number::Int(0)) => return Some(Side::Zero),
        Expr::Typed(Number::Int(LAST_LANE)) => return Some(Side::Last),
        _ => {}
    }
    let letter = expr.letter()?;
    let operand = when.operands.iter().find(|operand| operand.0 == letter)?.1;
    if let Origin::Known(known) = operand.origin { Some(Side::Is(known)) } else { None }
}
