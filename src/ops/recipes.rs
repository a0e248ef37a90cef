//! Recipes of reductions, scans and normalisations: a column of the operator table, see
//! [`super::rows`].
//!
//! A [`Recipe`] is a few lines. Each reduces an expression over the elements of a row to one value,
//! scans it, or computes a value for each element; expressions are written as in
//! [`super::formulas`]. The last line is the result, unless there are several, which the recipe
//! names:
//!
//! ```text
//! softmax:   m = largest(x)    e = exp(x - m)    s = sum(e)    r = 1 / s    y = e * r
//! var_mean:  v = variance(x)   m = mean(x)    u = m + (m - m)    gives v, u
//! ```
//!
//! Sums, products, means and variances are accumulated in doubles (except in reductions of strided
//! rows with sixteen floats at a time); a variance is combined from those of blocks by the formula
//! of Chan, Golub and LeVeque (1979), which avoids cancellation. NaN propagates through `largest`
//! and `smallest`.

use super::schema::Schema;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The reduction of a row of elements to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum. Integers wrap.
    Sum,
    /// Their product. Integers wrap.
    Product,
    /// Their mean.
    Mean,
    /// The mean square of the differences from their mean, with a correction of the divisor.
    Variance,
    /// The square root of the variance, taken before rounding: the variance may overflow the type
    /// of the elements.
    Deviation,
    /// The largest, NaN if there is one.
    Largest,
    /// The smallest, NaN if there is one.
    Smallest,
    /// The index of the largest, the first of several, or the first NaN: a flat index in the
    /// reduced dimensions, the last of which varies fastest.
    PlaceOfLargest,
    /// The index of the smallest.
    PlaceOfSmallest,
}

impl ReduceOp {
    /// Whether it is an argmax or argmin.
    pub(crate) fn is_arg_reduction(self) -> bool {
        matches!(self, PlaceOfLargest | PlaceOfSmallest)
    }

    /// Whether it selects one of the elements, so that there must be at least one.
    pub(crate) fn picks(self) -> bool {
        self.is_arg_reduction() || matches!(self, Largest | Smallest)
    }

    /// Whether it selects the largest.
    pub(crate) fn prefers_larger(self) -> bool {
        matches!(self, Largest | PlaceOfLargest)
    }

    /// Whether it is a mean of squared differences from the mean.
    pub(crate) fn varies(self) -> bool {
        matches!(self, Variance | Deviation)
    }
}

/// The reduced dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The dimensions of the operand `dim`, or all if it is absent. They are removed, unless
    /// `keepdim` keeps them with size 1.
    Dims,
    /// The dimension of the operand `dim`; the result has an element for each element.
    Row,
    /// The last ones, as many as `normalized_shape` has; the first result has an element for each
    /// element, the others keep dimensions of size 1.
    Last,
    /// The last ones, of an image that becomes one element: `output_size` must be 1 in each. They
    /// are kept with size 1.
    Image(usize),
    /// All but dimension 1, the channels; the first result has an element for each element, the
    /// others one for each channel, and so have the operands after the first.
    Channels,
}

/// The element types that a recipe takes, and those of its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Floating point types, which are kept. An operand `dtype` converts first.
    Real,
    /// All; integers and bools give 64-bit results. An operand `dtype` converts first.
    Summed,
    /// All but bools; the type is kept.
    Ordered,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// A value for each element, or for a row if the expression is constant in it.
    Each,
    /// One value of all elements of a row.
    Whole(ReduceOp),
    /// A scan: for each element the sum or product of those up to it.
    Scan(ReduceOp),
    /// A column reduction: the sum of the elements at the same position of all rows, which no other
    /// line reads.
    Columns,
}

/// A line: the letter of its result, its kind, and the expression.
#[derive(Clone, Copy, Debug)]
pub struct Line(pub char, pub Making, pub &'static str);

/// The computation of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The operator, which `recipes` fills in.
    pub kind: &'static str,
    /// The optional tensors that must be given; the others must not be.
    pub given: &'static [&'static str],
    /// Required constant values of operands.
    pub says: &'static [(&'static str, i64)],
    /// The reduced dimensions.
    pub over: Over,
    /// The element types.
    pub elements: Elements,
    /// The letters of intermediate values kept in doubles: squares of floats overflow from 1e19 on,
    /// and the logarithm of a sum close to 1 depends on digits that floats lack.
    pub wide: &'static str,
    /// The lines.
    pub lines: &'static [Line],
    /// The letters of the results, if they are not the last line alone.
    pub gives: &'static str,
}

/// The letters of operands in expressions.
pub(crate) const LETTERS: &[(char, &str)] = &[
    ('x', "self"),
    ('x', "input"),
    ('w', "weight"),
    ('b', "bias"),
    ('e', "eps"),
    ('g', "grad_out"),
    ('m', "mean"),
    ('r', "rstd"),
    ('c', "running_mean"),
    ('v', "running_var"),
];

/// Tensors that may be absent in a recipe.
pub(crate) const OPTIONAL: &[&str] = &["weight", "bias", "running_mean", "running_var"];

impl Recipe {
    pub(super) const fn wide(self, wide: &'static str) -> Recipe {
        Recipe { wide, ..self }
    }

    pub(super) const fn gives(self, gives: &'static str) -> Recipe {
        Recipe { gives, ..self }
    }

    /// The letters of the results, in the order of the schema.
    pub(crate) fn results(&self) -> impl Iterator<Item = char> + '_ {
        let last = self.lines.last().filter(|_| self.gives.is_empty()).map(|line| line.0);
        self.gives.chars().chain(last)
    }

    /// Whether a result is a column reduction.
    pub(crate) fn is_column_reduction(&self, result: usize) -> bool {
        let letter = self.results().nth(result);
        self.lines.iter().any(|line| Some(line.0) == letter && line.1 == Columns)
    }

    /// Whether it computes each element by itself, and reduces nothing.
    pub fn is_elementwise(&self) -> bool {
        self.lines.iter().all(|line| line.1 == Each)
    }

    /// Whether it contains an argmax or argmin.
    pub(crate) fn finds_indices(&self) -> bool {
        self.lines.iter().any(|line| matches!(line.1, Whole(reduce) if reduce.is_arg_reduction()))
    }
}

pub(super) const fn reduced(elements: Elements, lines: &'static [Line]) -> Recipe {
    Recipe { kind: "", given: &[], says: &[], over: Over::Dims, elements, wide: "", lines, gives: "" }
}

/// A mean of images.
pub(super) const fn of_images(dims: usize) -> Recipe {
    Recipe { over: Over::Image(dims), ..reduced(Elements::Real, &[MEAN]) }
}

pub(super) const fn rows(lines: &'static [Line]) -> Recipe {
    Recipe { kind: "", given: &[], says: &[], over: Over::Row, elements: Elements::Real, wide: "", lines, gives: "" }
}

pub(super) const fn scan(lines: &'static [Line]) -> Recipe {
    Recipe { elements: Elements::Summed, ..rows(lines) }
}

const fn layer_norm(given: &'static [&'static str], lines: &'static [Line]) -> Recipe {
    Recipe { kind: "", given, says: &[], over: Over::Last, elements: Elements::Real, wide: "vr", lines, gives: "" }
}

/// The same with the mean and the reciprocal deviation of each row, which its gradient reads.
pub(super) const fn native(norm: Recipe) -> Recipe {
    norm.gives("ymr")
}

/// The same for channels over a batch, in training. Running statistics would be written to, so
/// there must be none.
pub(super) const fn of_batch(norm: Recipe) -> Recipe {
    Recipe { over: Over::Channels, says: &[("training", 1)], ..norm }
}

/// The same with running statistics that are only read: each element by itself.
const fn of_known_batch(given: &'static [&'static str], lines: &'static [Line]) -> Recipe {
    Recipe { over: Over::Channels, says: &[("training", 0)], wide: "r", ..layer_norm(given, lines) }
}

pub(super) const fn native_of_batch(norm: Recipe) -> Recipe {
    of_batch(norm).gives("ymr")
}

/// The gradient of a norm: by the input, its weight and its bias. `h` is the normalised input.
pub(super) const fn of_norm(given: &'static [&'static str], lines: &'static [Line]) -> Recipe {
    let recipe = layer_norm(given, lines);
    Recipe { wide: "", ..recipe }.gives("ypq")
}

use Making::*;
use ReduceOp::*;

pub(super) const MEAN: Line = Line('m', Whole(Mean), "x");
/// A mean that is updated element by element is NaN after an infinity.
pub(super) const UPDATED: Line = Line('u', Each, "m + (m - m)");
const SPREAD: Line = Line('v', Whole(Variance), "x");
const SCALE: Line = Line('r', Each, "rsqrt(v + e)");
pub(super) const LOG: Line = Line('l', Each, "log(s)");
pub(super) const TOP: Line = Line('m', Whole(Largest), "x");
pub(super) const HIGH: Line = Line('h', Whole(Largest), "x");
pub(super) const LOW: Line = Line('l', Whole(Smallest), "x");

pub(super) const NORM: Recipe =
    layer_norm(&["weight", "bias"], &[MEAN, SPREAD, SCALE, Line('y', Each, "fma((x - m) * r, w, b)")]);
pub(super) const NORM_WITHOUT_BIAS: Recipe =
    layer_norm(&["weight"], &[MEAN, SPREAD, SCALE, Line('y', Each, "(x - m) * r * w")]);
pub(super) const NORM_WITHOUT_WEIGHT: Recipe =
    layer_norm(&["bias"], &[MEAN, SPREAD, SCALE, Line('y', Each, "fma(x - m, r, b)")]);
pub(super) const PLAIN_NORM: Recipe = layer_norm(&[], &[MEAN, SPREAD, SCALE, Line('y', Each, "(x - m) * r")]);

const KNOWN_SCALE: Line = Line('r', Each, "rsqrt(v + e)");
pub(super) const KNOWN_NORMS: [Recipe; 4] = [
    of_known_batch(
        &["weight", "bias", "running_mean", "running_var"],
        &[KNOWN_SCALE, Line('y', Each, "fma((x - c) * r, w, b)")],
    ),
    of_known_batch(&["weight", "running_mean", "running_var"], &[KNOWN_SCALE, Line('y', Each, "(x - c) * r * w")]),
    of_known_batch(&["bias", "running_mean", "running_var"], &[KNOWN_SCALE, Line('y', Each, "fma(x - c, r, b)")]),
    of_known_batch(&["running_mean", "running_var"], &[KNOWN_SCALE, Line('y', Each, "(x - c) * r")]),
];

const NORMAL: Line = Line('h', Each, "(x - m) * r");
const CENTRE: Line = Line('c', Whole(Mean), "k");
const SLOPE: Line = Line('s', Whole(Mean), "k * h");
const OF_INPUT: Line = Line('y', Each, "fma(-h, s, k - c) * r");
const OF_WEIGHT: Line = Line('p', Columns, "g * h");
const OF_BIAS: Line = Line('q', Columns, "g");
pub(super) const OF_SCALED: &[Line] = &[NORMAL, Line('k', Each, "g * w"), CENTRE, SLOPE, OF_INPUT, OF_WEIGHT, OF_BIAS];
pub(super) const OF_PLAIN: &[Line] = &[NORMAL, Line('k', Each, "g"), CENTRE, SLOPE, OF_INPUT, OF_WEIGHT, OF_BIAS];

/// The texts of all lines.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    super::rows::rows().flat_map(|row| row.recipes()).flat_map(|recipe| recipe.lines).map(|line| line.2)
}

/// A kind, and the number of results of an overload.
type Results = (&'static str, usize);

static BY_KIND: LazyLock<FxHashMap<Results, Vec<&'static Recipe>>> = LazyLock::new(|| {
    let mut rows: FxHashMap<Results, Vec<&'static Recipe>> = FxHashMap::default();
    for row in super::rows::rows() {
        let named = row.recipes().iter().map(|recipe| Recipe { kind: row.kind, ..*recipe });
        for recipe in named.collect::<Vec<_>>().leak() {
            rows.entry((row.kind, recipe.results().count())).or_default().push(recipe);
        }
    }
    rows
});

/// The recipes of an overload, to be tried in order. Empty if it reduces two tensors, or takes the
/// number of rows instead of their sizes.
pub(crate) fn recipes(schema: &Schema) -> &'static [&'static Recipe] {
    let reduces_one = schema.returns.iter().all(|result| result.ty.is_tensor())
        && schema.formal("other").is_none()
        && schema.formal("N").is_none()
        && schema.formals.first().is_some_and(|formal| formal.ty.is_tensor());
    match reduces_one {
        true => BY_KIND.get(&(schema.kind.as_str(), schema.returns.len())).map_or(&[], Vec::as_slice),
        false => &[],
    }
}
