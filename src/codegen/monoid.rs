//! Reductions and scans as data: the state, how an element goes into it, how two states become one,
//! and what comes of it at the end.
//!
//! The loops over a row, the blocks of a loop, the parts of a row that threads share and the rows
//! that memory interleaves all keep the state that a `Monoid` lists, and merge it by the one list
//! of updates that it has. Updates are written as expressions over the letters of the `Slot`s:
//! small ones are the state, capitals that of the other side, `x` is the element.
//!
//! ```text
//! sum        a = 0            a = a + x                            a = a + A
//! maximum    a = -inf, n = 0  a = x > a ? x : a, n = n | (x != x)  a = A > a ? A : a, n = n | N
//! variance   a = q = k = 0    (a block at a time)                  k = k + K, s = K / k,
//!                                                                  d = A - a, a = a + d * s, q = …
//! ```
//!
//! Variances are merged as T. F. Chan, G. H. Golub and R. J. LeVeque do it (Updating Formulae and a
//! Pairwise Algorithm for Computing Sample Variances, 1979).

use super::expression::{Binary, Expr, Expression};
use super::kernel::{Reduction, Step};
use super::number_type::NumberType;
use crate::ops::recipes::ReduceOp;
use crate::tensor::{DType, Kind, Scalar};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The sum, product, mean, or the element that was picked.
    Total,
    /// The squares of the differences from the mean.
    Squares,
    /// The number of elements.
    Count,
    /// The index of the element that was picked.
    Index,
    /// Whether there was a NaN.
    Nan,
}

impl Role {
    /// Its letter in updates, and in the names of variables.
    pub(crate) fn letter(self) -> char {
        match self {
            Role::Total => 'a',
            Role::Squares => 'q',
            Role::Count => 'k',
            Role::Index => 'j',
            Role::Nan => 'n',
        }
    }
}

/// A part of the state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    /// The content of the slot.
    pub role: Role,
    /// Its type.
    pub ty: NumberType,
    /// Its initial value.
    pub initial: Scalar,
}

/// An update: a slot or a local name, by its letter, becomes the value of an expression.
pub type Update = (char, &'static Expression);

/// The precision that another order of combinations loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reordering {
    /// Nothing: integers wrap, and the largest element is the largest in any order.
    Exact,
    /// Digits that the result does not keep: floats that are accumulated in doubles.
    Unseen,
    /// The last digits of the result, or more where products overflow on the way.
    Seen,
}

/// A reduction or scan.
#[derive(Clone, Debug)]
pub(crate) struct Monoid {
    /// The state.
    pub slots: Vec<Slot>,
    /// How an element `x` goes into it; empty where whole blocks do.
    pub step: &'static [Update],
    /// The condition under which another state changes this one, if there is one.
    pub when: Option<&'static Expression>,
    /// How another state goes into it.
    pub merge: &'static [Update],
    /// The result of the state of `c` elements; `v` is the correction of a variance and `z` NaN.
    pub finish: &'static Expression,
    /// Whether the order matters.
    pub reordering: Reordering,
}

/// A row of the table, as text.
struct Row {
    kind: Rule,
    step: &'static str,
    when: &'static str,
    merge: &'static str,
    finish: &'static str,
}

/// The rules of reductions. An extremum of floats either notes NaN in a slot of its own, so that
/// the loop is one of the vector reductions that compilers know, or keeps it in the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    Sum,
    Product,
    Mean,
    Largest,
    Smallest,
    LargestFlagged,
    SmallestFlagged,
    LargestKeptNan,
    SmallestKeptNan,
    Variance,
    Deviation,
    ArgLargest,
    ArgSmallest,
    ArgLargestFlagged,
    ArgSmallestFlagged,
}

const fn row(kind: Rule, step: &'static str, merge: &'static str, finish: &'static str) -> Row {
    Row { kind, step, when: "", merge, finish }
}

/// Updates are separated by semicolons.
const ROWS: &[Row] = &[
    row(Rule::Sum, "a = a + x", "a = a + A", "a"),
    row(Rule::Product, "a = a * x", "a = a * A", "a"),
    row(Rule::Mean, "a = a + x", "a = a + A", "a / c"),
    row(Rule::Largest, "a = x > a ? x : a", "a = A > a ? A : a", "a"),
    row(Rule::Smallest, "a = x < a ? x : a", "a = A < a ? A : a", "a"),
    row(Rule::LargestFlagged, "a = x > a ? x : a; n = n | (x != x)", "a = A > a ? A : a; n = n | N", "n ? z : a"),
    row(Rule::SmallestFlagged, "a = x < a ? x : a; n = n | (x != x)", "a = A < a ? A : a; n = n | N", "n ? z : a"),
    row(Rule::LargestKeptNan, "a = larger(a, x)", "a = larger(a, A)", "a"),
    row(Rule::SmallestKeptNan, "a = smaller(a, x)", "a = smaller(a, A)", "a"),
    Row { when: "K > 0", ..row(Rule::Variance, "", CHAN, "q / (c > v ? c - v : 0)") },
    Row { when: "K > 0", ..row(Rule::Deviation, "", CHAN, "sqrt(q / (c > v ? c - v : 0))") },
    // Of equal elements the first is found. Parts may be pieces of many blocks, so that a later
    // part has earlier elements.
    Row { when: "A > a || (A == a && J < j)", ..row(Rule::ArgLargest, "", "a = A; j = J", "j") },
    Row { when: "A < a || (A == a && J < j)", ..row(Rule::ArgSmallest, "", "a = A; j = J", "j") },
    Row {
        when: "N ? !n || J < j : !n && (A > a || (A == a && J < j))",
        ..row(Rule::ArgLargestFlagged, "", "a = A; j = J; n = N", "j")
    },
    Row {
        when: "N ? !n || J < j : !n && (A < a || (A == a && J < j))",
        ..row(Rule::ArgSmallestFlagged, "", "a = A; j = J; n = N", "j")
    },
];

/// The mean moves by the share that the other side has in all elements.
const CHAN: &str = "k = k + K; s = K / k; d = A - a; a = a + d * s; q = q + (Q + d * d * s * (k - K))";

/// A row of the table, parsed.
#[derive(Debug)]
struct Parsed {
    step: Vec<Update>,
    when: Option<&'static Expression>,
    merge: Vec<Update>,
    finish: &'static Expression,
}

/// The table, parsed when it is first needed. A mistake in it is found by a test.
static RULES: LazyLock<FxHashMap<Rule, Result<Parsed, String>>> =
    LazyLock::new(|| ROWS.iter().map(|row| (row.kind, parsed(row))).collect());

fn parsed(row: &Row) -> Result<Parsed, String> {
    // The table lives as long as the program does.
    let expr = |text: &'static str| Expression::new(text).map(|expression| &*Box::leak(Box::new(expression)));
    let update = |text: &'static str| {
        let (name, value) = text.split_once(" = ").ok_or_else(|| format!("`{text}` sets nothing"))?;
        let letter = name.trim().chars().next().unwrap_or(' ');
        expr(value.trim()).map(|value| (letter, value))
    };
    let all = |text: &'static str| -> Result<Vec<Update>, String> {
        text.split(';').filter(|text| !text.is_empty()).map(update).collect()
    };
    let when = (!row.when.is_empty()).then(|| expr(row.when)).transpose()?;
    Ok(Parsed { step: all(row.step)?, when, merge: all(row.merge)?, finish: expr(row.finish)? })
}

impl Monoid {
    /// That of a reduction. `flags_nan` chooses between the two forms of extrema of floats.
    pub(crate) fn of(reduction: &Reduction, flags_nan: bool) -> Monoid {
        let is_real = reduction.is_real();
        let is_flagged = is_real && flags_nan;
        let rule = match reduction.op {
            ReduceOp::Sum => Rule::Sum,
            ReduceOp::Product => Rule::Product,
            ReduceOp::Mean => Rule::Mean,
            ReduceOp::Variance => Rule::Variance,
            ReduceOp::Deviation => Rule::Deviation,
            ReduceOp::Largest if is_flagged => Rule::LargestFlagged,
            ReduceOp::Largest if is_real => Rule::LargestKeptNan,
            ReduceOp::Largest => Rule::Largest,
            ReduceOp::Smallest if is_flagged => Rule::SmallestFlagged,
            ReduceOp::Smallest if is_real => Rule::SmallestKeptNan,
            ReduceOp::Smallest => Rule::Smallest,
            ReduceOp::PlaceOfLargest if is_flagged => Rule::ArgLargestFlagged,
            ReduceOp::PlaceOfLargest => Rule::ArgLargest,
            ReduceOp::PlaceOfSmallest if is_flagged => Rule::ArgSmallestFlagged,
            ReduceOp::PlaceOfSmallest => Rule::ArgSmallest,
        };
        let slot = |role, ty, initial| Slot { role, ty, initial };
        let zero = Scalar::Int(0);
        let mut slots = vec![slot(Role::Total, reduction.total(), reduction.nothing())];
        if reduction.op.varies() {
            slots = [Role::Total, Role::Squares, Role::Count].map(|role| slot(role, NumberType::Double, zero)).to_vec();
        }
        if reduction.op.is_arg_reduction() {
            slots.push(slot(Role::Index, NumberType::I64, zero));
        }
        if is_flagged && reduction.op.picks() {
            slots.push(slot(Role::Nan, NumberType::Int, zero));
        }
        let accumulates = !reduction.op.picks();
        let reordering = match () {
            () if !accumulates || !is_real => Reordering::Exact,
            () if reduction.op != ReduceOp::Product
                && NumberType::of_values(reduction.input.to) == NumberType::Float =>
            {
                Reordering::Unseen
            }
            () => Reordering::Seen,
        };
        Monoid::with(rule, slots, reordering)
    }

    /// That of a block: argmax finds the extremum of a block first, and then its index.
    pub(crate) fn of_block(reduction: &Reduction, flags_nan: bool) -> Monoid {
        let op = match reduction.op {
            ReduceOp::PlaceOfLargest => ReduceOp::Largest,
            ReduceOp::PlaceOfSmallest => ReduceOp::Smallest,
            other => other,
        };
        Monoid::of(&Reduction { op, ..reduction.clone() }, flags_nan)
    }

    /// That of a scan, which adds or multiplies in doubles or 64-bit integers.
    pub(crate) fn of_scan(op: ReduceOp, step: &Step) -> Monoid {
        let is_real = step.computed.is_float();
        let (rule, initial) = if op == ReduceOp::Product { (Rule::Product, 1) } else { (Rule::Sum, 0) };
        let ty = if is_real { NumberType::Double } else { NumberType::I64 };
        let reordering = match () {
            () if !is_real => Reordering::Exact,
            () if rule == Rule::Sum && NumberType::of_values(step.computed) == NumberType::Float => Reordering::Unseen,
            () => Reordering::Seen,
        };
        Monoid::with(rule, vec![Slot { role: Role::Total, ty, initial: Scalar::Int(initial) }], reordering)
    }

    fn with(rule: Rule, slots: Vec<Slot>, reordering: Reordering) -> Monoid {
        // The table has a row for each rule, see the tests.
        let Some(Ok(Parsed { step, when, merge, finish })) = RULES.get(&rule) else {
            unreachable!("the row {rule:?} of reductions")
        };
        Monoid { slots, step, when: *when, merge, finish, reordering }
    }

    /// The slot with a letter.
    pub(crate) fn slot(&self, letter: char) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.role.letter() == letter)
    }
}

/// The name that OpenMP has for the reduction that an update of a slot is.
pub(crate) fn clause((letter, value): &Update) -> Option<&'static str> {
    let is_own = |expr: &Expr| matches!(expr, Expr::Operand(own) if own == letter);
    match &value.expr {
        Expr::Binary(Binary::Plus, two) if is_own(&two[0]) => Some("+"),
        Expr::Binary(Binary::Times, two) if is_own(&two[0]) => Some("*"),
        Expr::Binary(Binary::Or, two) if is_own(&two[0]) => Some("|"),
        Expr::Choice(three) if is_own(&three[2]) => match &three[0] {
            Expr::Binary(Binary::Greater, _) => Some("max"),
            Expr::Binary(Binary::Less, _) => Some("min"),
            _ => None,
        },
        _ => None,
    }
}

impl Reduction {
    /// Whether elements are floating-point numbers.
    pub(crate) fn is_real(&self) -> bool {
        self.input.to.arithmetic() == Some(Kind::Float)
    }

    /// The type of the total.
    pub(crate) fn total(&self) -> NumberType {
        match !self.op.picks() {
            true if self.is_real() => NumberType::Double,
            true => NumberType::I64,
            false => NumberType::of_values(self.input.to),
        }
    }

    /// The total of no elements.
    pub(crate) fn nothing(&self) -> Scalar {
        let largest = self.op.prefers_larger();
        match self.input.to.range() {
            _ if self.op == ReduceOp::Product => Scalar::Int(1),
            _ if !self.op.picks() => Scalar::Int(0),
            _ if self.is_real() => Scalar::Float(if largest { f64::NEG_INFINITY } else { f64::INFINITY }),
            Some((low, _)) if largest => Scalar::Int(low),
            Some((_, high)) => Scalar::Int(high),
            None => Scalar::Int(0),
        }
    }
}

/// The type in which the initial value of a slot is spelled.
pub(crate) fn type_of_initial(initial: Scalar) -> DType {
    if matches!(initial, Scalar::Int(_)) { DType::Long } else { DType::Double }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_rule_and_no_mistakes() {
        let mistakes: Vec<_> = RULES.iter().filter_map(|(rule, row)| Some((rule, row.as_ref().err()?))).collect();
        assert!(mistakes.is_empty(), "{mistakes:?}");
        assert_eq!(RULES.len(), ROWS.len());
        for row in RULES.values().flatten() {
            assert!(!row.merge.is_empty());
        }
    }

    #[test]
    fn clauses_are_read_off_the_tree() {
        let of = |rule| RULES[&rule].as_ref().unwrap().step.iter().map(clause).collect::<Vec<_>>();
        assert_eq!(of(Rule::Sum), [Some("+")]);
        assert_eq!(of(Rule::Product), [Some("*")]);
        assert_eq!(of(Rule::LargestFlagged), [Some("max"), Some("|")]);
        assert_eq!(of(Rule::SmallestFlagged), [Some("min"), Some("|")]);
        assert_eq!(of(Rule::LargestKeptNan), [None]);
    }
}
