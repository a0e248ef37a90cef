//! How an operator that makes one element of many is computed: a column of the operator table.
//!
//! A [`Recipe`] is a few lines. Each folds an expression over the elements of a row into one value, or computes a value for each
//! element from those before it; expressions are written as [`super::formulas`] are. The last line is the result:
//!
//! ```text
//! softmax:  m = largest(x)    e = exp(x - m)    s = sum(e)    r = 1 / s    y = e * r
//! ```
//!
//! Sums, means and variances are folded in doubles; a variance is that of blocks, put together by the
//! formula of Chan, Golub and LeVeque (1979), which cancels nothing. NaN is kept by `largest` and `smallest`.

use super::schema::Schema;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// How a row of elements becomes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// Their sum. Whole numbers wrap.
    Sum,
    /// Their mean.
    Mean,
    /// The mean square of what they differ from their mean, with a correction of the divisor.
    Variance,
    /// The root of the variance, taken before that is rounded: the variance may be too large for the type of the elements.
    Deviation,
    /// The largest, NaN if there is one.
    Largest,
    /// The smallest, NaN if there is one.
    Smallest,
}

impl Fold {
    /// Whether it is one of squares of differences from the mean.
    pub fn varies(self) -> bool {
        matches!(self, Variance | Deviation)
    }
}

/// Which dimensions are folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Those of the operand `dim`, or all where there is none. They go, unless `keepdim` says that they stay with size 1.
    Dims,
    /// That of the operand `dim`; the result has an element for each element.
    Row,
    /// As many of the last ones as `normalized_shape` has; the result has an element for each element.
    Last,
}

/// Which element types a recipe takes, and which comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Reals; the same come out. An operand `dtype` converts before.
    Real,
    /// All; whole numbers and truth values come out as 64 bits. An operand `dtype` converts before.
    Summed,
    /// All but truth values; the same come out.
    Ordered,
}

/// A line: the letter of what it makes, how it is folded, and the expression.
#[derive(Clone, Copy, Debug)]
pub struct Line(pub char, pub Option<Fold>, pub &'static str);

/// How an operator is computed.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The operator.
    pub kind: &'static str,
    /// The optional tensors that must be given; the others must not.
    pub given: &'static [&'static str],
    /// What is folded.
    pub over: Over,
    /// The element types.
    pub elements: Elements,
    /// The letters of what is kept in doubles: squares of floats are too large for floats from 1e19 on, and a sum that is hardly more than 1 has its
    /// logarithm in the digits that floats lack.
    pub wide: &'static str,
    /// What is done.
    pub lines: &'static [Line],
}

/// What operands are called in expressions.
pub const LETTERS: &[(char, &str)] = &[('x', "self"), ('x', "input"), ('w', "weight"), ('b', "bias"), ('e', "eps")];

/// Tensors that a recipe may do without.
pub const OPTIONAL: &[&str] = &["weight", "bias"];

impl Recipe {
    const fn wide(self, wide: &'static str) -> Recipe {
        Recipe { wide, ..self }
    }
}

const fn folded(kind: &'static str, elements: Elements, lines: &'static [Line]) -> Recipe {
    Recipe { kind, given: &[], over: Over::Dims, elements, wide: "", lines }
}

const fn rows(kind: &'static str, lines: &'static [Line]) -> Recipe {
    Recipe { kind, given: &[], over: Over::Row, elements: Elements::Real, wide: "", lines }
}

const fn layer_norm(given: &'static [&'static str], lines: &'static [Line]) -> Recipe {
    Recipe { kind: "aten::layer_norm", given, over: Over::Last, elements: Elements::Real, wide: "vr", lines }
}

use Fold::*;

const MEAN: Line = Line('m', Some(Mean), "x");
const SPREAD: Line = Line('v', Some(Variance), "x");
const SCALE: Line = Line('r', None, "rsqrt(v + e)");
const LOG: Line = Line('l', None, "log(s)");
const TOP: Line = Line('m', Some(Largest), "x");

/// The rows. Of several for a kind the first that holds is taken.
const ROWS: &[Recipe] = &[
    folded("aten::sum", Elements::Summed, &[Line('y', Some(Sum), "x")]),
    folded("aten::mean", Elements::Real, &[Line('y', Some(Mean), "x")]),
    folded("aten::amax", Elements::Ordered, &[Line('y', Some(Largest), "x")]),
    folded("aten::amin", Elements::Ordered, &[Line('y', Some(Smallest), "x")]),
    folded("aten::max", Elements::Ordered, &[Line('y', Some(Largest), "x")]),
    folded("aten::min", Elements::Ordered, &[Line('y', Some(Smallest), "x")]),
    folded("aten::var", Elements::Real, &[Line('y', Some(Variance), "x")]),
    folded("aten::std", Elements::Real, &[Line('y', Some(Deviation), "x")]),
    // A row of nothing but infinities has no finite element to be scaled by.
    folded(
        "aten::logsumexp",
        Elements::Real,
        &[
            TOP,
            Line('t', None, "m - m == 0 ? m : 0"),
            Line('s', Some(Sum), "exp(x - t)"),
            LOG,
            Line('y', None, "l + t"),
        ],
    )
    .wide("sl"),
    // One quotient for a row: a quotient for each element takes half as long as its exponential.
    rows(
        "aten::softmax",
        &[
            TOP,
            Line('p', None, "exp(x - m)"),
            Line('s', Some(Sum), "p"),
            Line('r', None, "1.0 / s"),
            Line('y', None, "p * r"),
        ],
    )
    .wide("sr"),
    rows("aten::log_softmax", &[TOP, Line('s', Some(Sum), "exp(x - m)"), LOG, Line('y', None, "x - m - l")]).wide("sl"),
    layer_norm(&["weight", "bias"], &[MEAN, SPREAD, SCALE, Line('y', None, "(x - m) * r * w + b")]),
    layer_norm(&["weight"], &[MEAN, SPREAD, SCALE, Line('y', None, "(x - m) * r * w")]),
    layer_norm(&["bias"], &[MEAN, SPREAD, SCALE, Line('y', None, "(x - m) * r + b")]),
    layer_norm(&[], &[MEAN, SPREAD, SCALE, Line('y', None, "(x - m) * r")]),
];

static BY_KIND: LazyLock<FxHashMap<&'static str, Vec<&'static Recipe>>> = LazyLock::new(|| {
    let mut rows: FxHashMap<&'static str, Vec<&'static Recipe>> = FxHashMap::default();
    for row in ROWS {
        rows.entry(row.kind).or_default().push(row);
    }
    rows
});

/// The recipes of an overload, to be tried in turn. None where it gives places of elements too, or folds two tensors.
pub fn recipes(schema: &Schema) -> &'static [&'static Recipe] {
    let folds_one = schema.returns.len() == 1
        && schema.returns[0].ty.is_tensor()
        && schema.formal("other").is_none()
        && schema.formals.first().is_some_and(|formal| formal.ty.is_tensor());
    match folds_one {
        true => BY_KIND.get(schema.kind.as_str()).map_or(&[], Vec::as_slice),
        false => &[],
    }
}
