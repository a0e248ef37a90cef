//! Operators that combine the elements under each position of a window: a column of the operator
//! table, see [`super::rows`].
//!
//! ```text
//! max_pool2d, a window of 2x2, one apart:     1 5 2        5 6
//!                                             3 4 6   =>   9 8
//!                                             9 7 8
//! ```
//!
//! Elements are combined in their order in memory of a contiguous image, so that a result has the
//! same bits on every target.

use super::rows::row;
use crate::symbol::Symbol;

/// How the elements under a window are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooled {
    /// The largest, or the last NaN.
    Largest,
    /// Their sum in doubles, divided by their number.
    Mean,
}

/// A window over the last dimensions of the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// How many dimensions it has.
    pub dims: usize,
    /// What it computes.
    pub pooled: Pooled,
}

pub(super) const fn largest(dims: usize) -> WindowRule {
    WindowRule { dims, pooled: Pooled::Largest }
}

pub(super) const fn mean(dims: usize) -> WindowRule {
    WindowRule { dims, pooled: Pooled::Mean }
}

/// The larger of the largest so far and another element.
pub(crate) const LARGER: &str = "b > a || b != b ? b : a";
/// A sum so far and another element.
pub(crate) const SUM: &str = "a + b";
/// A sum, divided by a number of elements.
pub(crate) const QUOTIENT: &str = "a / b";
/// A number of elements in two dimensions.
pub(crate) const PRODUCT: &str = "a * b";
/// The only element.
pub(crate) const SAME: &str = "a";

/// The texts of all formulas.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    [LARGER, SUM, QUOTIENT, PRODUCT, SAME].into_iter()
}

/// The window of an operator.
pub fn window_rule(kind: Symbol) -> Option<WindowRule> {
    row(kind).and_then(|row| row.window())
}
