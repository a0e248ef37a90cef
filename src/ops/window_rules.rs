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

/// The operation that combines the elements under a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooled {
    /// The largest, or the last NaN.
    Largest,
    /// The same, and its index in the image.
    LargestAndIndex,
    /// Their sum in doubles, divided by their number.
    Mean,
    /// The gradient of the largest: each element of the image has the sum of the gradients of the
    /// positions whose largest element it is.
    GradientOfLargest,
    /// The gradient of the mean.
    GradientOfMean,
}

/// A window over the last dimensions of the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRule {
    /// The number of dimensions.
    pub dims: usize,
    /// The operation on windows.
    pub pooled: Pooled,
}

impl Pooled {
    /// Whether it is a gradient: the result is an image, whose elements are under positions.
    pub fn is_gradient(self) -> bool {
        matches!(self, Pooled::GradientOfLargest | Pooled::GradientOfMean)
    }
}

pub(super) const fn over(dims: usize, pooled: Pooled) -> WindowRule {
    WindowRule { dims, pooled }
}

/// The larger of the largest so far and another element.
pub(crate) const LARGER: &str = "larger(a, b)";
/// The same of integers.
pub(crate) const LARGER_INTEGER: &str = "b > a ? b : a";
/// The index of the larger of two elements; below 0 there is no element.
pub(crate) const INDEX: &str = "(b > a) | (b != b) | (c < 0) ? d : c";
/// A sum of gradients so far, and one more where the index is that of the element.
pub(crate) const TAKEN: &str = "c == d ? a + b : a";
/// A sum of gradients so far, and a share of one more.
pub(crate) const SHARE: &str = "a + b / c";
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
    [LARGER, LARGER_INTEGER, INDEX, TAKEN, SHARE, SUM, QUOTIENT, PRODUCT, SAME].into_iter()
}
