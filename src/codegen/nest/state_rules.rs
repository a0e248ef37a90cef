//! The expressions of nests that are neither formulas of operators nor rules of monoids: how a
//! block of a variance is tried in floats, where the extremum of a block is, how state is copied.
//!
//! Letters stand for variables and numbers of loops, as the builder binds them.

use crate::codegen::expression::Expression;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A copy.
pub(super) const COPY: &str = "x";
/// A copy in doubles.
pub(super) const DOUBLE: &str = "(double)x";
/// A sum and a product of values that are converted first.
pub(super) const DOUBLE_SUM: &str = "a + (double)x";
/// See [`DOUBLE_SUM`].
pub(super) const FLOAT_SUM: &str = "a + (float)x";
/// See [`DOUBLE_SUM`].
pub(super) const LONG_SUM: &str = "a + (i64)x";
/// See [`DOUBLE_SUM`].
pub(super) const DOUBLE_PRODUCT: &str = "a * (double)x";
/// See [`DOUBLE_SUM`].
pub(super) const LONG_PRODUCT: &str = "a * (i64)x";
/// A number near the mean of a block: that of the blocks before.
pub(super) const NEAR: &str = "jo_finitef((float)a)";
/// The first element, unless it is infinite or NaN.
pub(super) const FINITE: &str = "jo_finitef(x)";
/// Moves that number to where a block says that its mean is.
pub(super) const MOVED: &str = "jo_finitef(h + p / m)";
/// Whether floats were not enough for a block.
pub(super) const LOSES: &str = "jo_loses(p, e, m)";
/// The same, for one of several rows.
pub(super) const LOSES_TOO: &str = "l | jo_loses(p, e, m)";
/// A difference in floats, and in doubles.
pub(super) const DIFFERENCE: &str = "x - h";
/// See [`DIFFERENCE`].
pub(super) const DIFFERENCE_IN_DOUBLES: &str = "(double)x - h";
/// A sum.
pub(super) const SUM: &str = "a + x";
/// A sum of squares in floats, and in doubles.
pub(super) const SQUARES: &str = "jo_fmaf(d, d, e)";
/// See [`SQUARES`].
pub(super) const SQUARES_IN_DOUBLES: &str = "jo_fma(d, d, e)";
/// The mean of a block.
pub(super) const MEAN: &str = "y / m";
/// The mean of a block that was summed in floats, and the squares without it.
pub(super) const MEAN_OF_FLOATS: &str = "h + (double)p / m";
/// See [`MEAN_OF_FLOATS`].
pub(super) const SQUARES_OF_FLOATS: &str = "e - (double)p * p / m";
/// The same with a factor, of all interleaved rows and for blocks of threads: a division of doubles
/// takes longer than reading a dozen lines.
pub(super) const SHARE: &str = "1.0 / m";
/// See [`SHARE`].
pub(super) const MEAN_BY_SHARE: &str = "h + p * w";
/// See [`SHARE`].
pub(super) const SQUARES_BY_SHARE: &str = "e - p * (p * w)";
/// What a thread subtracts from all of its elements: the first of them, unless it is infinite or
/// NaN.
pub(super) const FIRST_OF_THREAD: &str = "m > 0 ? h : jo_finitef(x)";
/// Whether an element is the first of those that a thread takes at once.
pub(super) const IS_FIRST_OF_GROUP: &str = "g == 0";
/// How far what a thread has subtracted is from another such number.
pub(super) const DISTANCE: &str = "(double)h - b";
/// The sum of the differences from that other number, and of their squares.
pub(super) const SUM_MOVED: &str = "p + m * g";
/// See [`SUM_MOVED`].
pub(super) const SQUARES_MOVED: &str = "e + g * (p + p + m * g)";
/// Whether a thread has had elements.
pub(super) const HAS_ELEMENTS: &str = "m > 0";
/// The sum of them.
pub(super) const SUM_OF_THREAD: &str = "(double)h * m + p";
/// Whether an element is not what was subtracted from it.
pub(super) const OTHER: &str = "o | (x != h)";
/// Squares of differences from a mean that is infinite or NaN are NaN.
pub(super) const SQUARES_OF_INFINITE: &str = "q + (a - a)";
/// Whether an element is NaN.
pub(super) const IS_NAN: &str = "x != x";
/// Whether a thread is the first lane of its warp.
pub(super) const IS_FIRST_LANE: &str = "l == 0";
/// Whether a lane is the last one of its warp.
pub(super) const IS_LAST_LANE: &str = "l == 31";
/// Whether a warp has another one before it.
pub(super) const HAS_WARP_BEFORE: &str = "w > 0";
/// Whether a lane has one that is a distance before it.
pub(super) const IS_BEHIND: &str = "t >= h";
/// Whether the element of a thread is in its row.
pub(super) const IS_IN_ROW: &str = "j < c";
/// Whether a point of a square is in the space.
pub(super) const IS_IN_SPACE: &str = "i < h && j < w";
/// Whether a thread is the first of its block.
pub(super) const IS_FIRST_THREAD: &str = "t == 0";
/// Whether one of several rows has such an element.
pub(super) const ANY: &str = "g | o";
/// A sum of blocks by their means.
pub(super) const BY_MEAN: &str = "a + b * m";
/// Whether a block is the first one.
pub(super) const IS_FIRST: &str = "k == 0";
/// Whether an element replaces the one that was picked: NaN always does, but another NaN.
pub(super) const LARGER: &str = "x > a";
/// See [`LARGER`].
pub(super) const SMALLER: &str = "x < a";
/// See [`LARGER`].
pub(super) const LARGER_OR_NAN: &str = "(x > a) | (x != x) & (a == a)";
/// See [`LARGER`].
pub(super) const SMALLER_OR_NAN: &str = "(x < a) | (x != x) & (a == a)";
/// The value of a choice.
pub(super) const CHOSEN: &str = "w ? x : a";
/// The index of an element of an interleaved row, where it was chosen.
pub(super) const CHOSEN_LINE: &str = "w ? b * n + f + j : a";
/// Whether a block has a better element than those before.
pub(super) const LARGER_BLOCK: &str = "!n && (o | (p > a))";
/// See [`LARGER_BLOCK`].
pub(super) const SMALLER_BLOCK: &str = "!n && (o | (p < a))";
/// The first element of a block that is its extremum, or NaN where there is one.
pub(super) const FIRST_OR_NAN: &str = "(o ? x != x : x == p) & (i < w) ? i : w";
/// The same of integers.
pub(super) const FIRST_EQUAL: &str = "(x == p) & (i < w) ? i : w";
/// The index of an element of a row.
pub(super) const INDEX: &str = "b * n + f + w";

const ALL: &[&str] = &[
    COPY,
    DOUBLE,
    DOUBLE_SUM,
    FLOAT_SUM,
    LONG_SUM,
    DOUBLE_PRODUCT,
    LONG_PRODUCT,
    NEAR,
    FINITE,
    MOVED,
    LOSES,
    LOSES_TOO,
    DIFFERENCE,
    DIFFERENCE_IN_DOUBLES,
    SUM,
    SQUARES,
    SQUARES_IN_DOUBLES,
    MEAN,
    MEAN_OF_FLOATS,
    SQUARES_OF_FLOATS,
    SHARE,
    MEAN_BY_SHARE,
    SQUARES_BY_SHARE,
    FIRST_OF_THREAD,
    IS_FIRST_OF_GROUP,
    DISTANCE,
    SUM_MOVED,
    SQUARES_MOVED,
    HAS_ELEMENTS,
    SUM_OF_THREAD,
    OTHER,
    SQUARES_OF_INFINITE,
    IS_NAN,
    IS_FIRST_LANE,
    IS_LAST_LANE,
    HAS_WARP_BEFORE,
    IS_BEHIND,
    IS_IN_ROW,
    IS_IN_SPACE,
    IS_FIRST_THREAD,
    ANY,
    BY_MEAN,
    IS_FIRST,
    LARGER,
    SMALLER,
    LARGER_OR_NAN,
    SMALLER_OR_NAN,
    CHOSEN,
    CHOSEN_LINE,
    LARGER_BLOCK,
    SMALLER_BLOCK,
    FIRST_OR_NAN,
    FIRST_EQUAL,
    INDEX,
];

/// The texts, parsed when one is first needed.
static RULES: LazyLock<FxHashMap<&'static str, Result<Expression, String>>> =
    LazyLock::new(|| ALL.iter().map(|&text| (text, Expression::full(text))).collect());

/// The expression of a text.
pub(super) fn rule(text: &'static str) -> &'static Expression {
    // All texts are in the table and are expressions, see the test.
    let Some(Ok(expression)) = RULES.get(text) else { unreachable!("the rule `{text}`") };
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_are_expressions() {
        for text in ALL {
            assert_eq!(rule(text).text, *text);
            assert!(rule(text).operands.len() <= 6);
        }
    }
}
