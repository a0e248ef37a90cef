//! One operator, one row: all facts about an operator that its schema lacks.
//!
//! ```text
//! Row {
//!     kind: "aten::mish",
//!     shape: Has(&[sized(S::Like, E::Same)]),
//!     computation: Has(Formulas(&[floats(Kept, "a * tanh(log1p(exp(a)))")])),
//!     …
//! ```
//!
//! A row states every fact. It [`Has`] it, or has [`No`] such fact and says why: a row without a
//! field does not compile, and [`complaints`] finds a row that leaves a field blank or whose facts
//! contradict each other or the schemas. Rows stand in files by family. `FAMILIES` lists them;
//! [`super::shape_rules`], [`super::formulas`], [`super::recipes`], [`super::fusion_rules`],
//! [`super::guard_rules`] and [`super::gradient_table`] look facts up in them, error budgets read
//! [`accuracy`], and the tests draw their operands from [`Operands`].
//!
//! No fact of these kinds stands elsewhere. Functions that several gradients call are in
//! `gradients.txt` and the files next to it, those of one gradient in its row. Constructs without a
//! row have their effects in [`super::rules`] and [`super::touches`]; the behaviour of earlier
//! releases concerns few operators, and is a table of its own, [`super::release_rules`].
//!
//! Facts that PyTorch reports of its operators are in `observed.txt`; a row that contradicts or
//! lacks an observed fact fails a test of this module.
//!
//! A kernel of the interpreter is no fact of a row: it is written independently, so that tests
//! compare two implementations.

mod activation_rows;
mod arithmetic_rows;
mod bit_rows;
mod bound_rows;
mod checking;
mod comparison_rows;
mod construct_rows;
mod contraction_rows;
mod conversion_rows;
mod convolution_rows;
mod factory_rows;
mod function_rows;
mod index_rows;
mod joining_rows;
mod layer_rows;
mod loss_rows;
mod matrix_rows;
mod norm_rows;
#[cfg(test)]
mod observed_facts;
mod ordering_rows;
mod part_rows;
mod pool_rows;
mod product_rows;
mod quantised_rows;
mod random_rows;
mod rearranging_rows;
mod recurrent_rows;
mod reduction_rows;
mod resampling_rows;
mod slope_rows;
mod special_rows;
mod view_rows;
mod vocabulary;

use super::formulas::Formula;
use super::fusion_rules::FusionRow;
use super::guard_rules::GuardRow;
use super::recipes::Recipe;
use super::rules::Rule;
use super::shape_rules::ShapeRow;
use super::window_rules::WindowRule;
use crate::symbol::Symbol;
use crate::tensor::DType;
pub use checking::{complaints, without};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::LazyLock;

/// A fact, or the reason why there is none.
#[derive(Clone, Copy, Debug)]
pub enum Fact<T> {
    /// The fact.
    Has(T),
    /// There is none, for this reason.
    No(&'static str),
}

use Fact::{Has, No};

impl<T: Copy> Fact<T> {
    /// The fact, if there is one.
    pub fn known(&self) -> Option<T> {
        match self {
            Has(fact) => Some(*fact),
            No(_) => None,
        }
    }
}

/// The computation of elements, for kernels.
#[derive(Clone, Copy, Debug)]
pub enum Computation {
    /// Each element of the result is computed from one of each operand.
    Formulas(&'static [Formula]),
    /// It reduces, scans or normalises rows.
    Recipes(&'static [Recipe]),
    /// Overloads of both kinds: `aten::max` of two tensors, and of one.
    Both(&'static [Formula], &'static [Recipe]),
    /// It combines the elements under each position of a window.
    Windows(WindowRule),
}

/// The gradient of some overloads: its head, whose format `gradients.txt` defines, and the formula.
/// Overloads are written `.Tensor`, or `:device` by a formal; none means the one without a name.
pub type Gradient = (&'static str, &'static str);

/// The error of an operator, see `tools/judge/src/budget.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// The size of the error.
    pub error: Error,
    /// The operand that is added last, or whose elements are summed: where a result is small
    /// because of cancellation, its error is relative to it.
    pub addend: Option<usize>,
    /// Whether it subtracts within its computation, as in `x - mean`, so that its operands are
    /// perturbed, too.
    pub subtracts: bool,
    /// Whether it sums in an unspecified order.
    pub in_any_order: bool,
    /// Whether it sums squares of its first operand, which may overflow.
    pub squares: bool,
    /// Whether elements of results are elements of operands, rearranged, picked by position or
    /// converted.
    pub moves: bool,
}

/// The size of an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Error {
    /// None: it moves, selects or compares.
    Exact,
    /// So many units in the last place of the result.
    Units(f64),
    /// It sums: one unit for each doubling of the number of summands.
    Sum,
}

/// The operands that tests call it with.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The operands of nodes in random groups, a letter each: see
    /// `tools/opt/tests/suite/random_groups.rs`.
    pub drawn: &'static [&'static str],
    /// The reason why random groups draw none, if it is fused nevertheless.
    pub undrawn: &'static str,
    /// The operands of calls, a word each, where those generated from the schema do not run: see
    /// `tools/opt/tests/support/gradient_operands.rs`.
    pub called: &'static [&'static str],
    /// More such operands, for shapes only: quantised tensors, lists of any length.
    pub shaped: &'static [&'static str],
    /// Ranks and elements of operands that schemas leave open, which generated inputs of untyped
    /// graphs take.
    pub hints: &'static [OperandHint],
    /// The properties that the first operand shares with the result: facts from uses of the result
    /// hold for that operand, too.
    pub as_result: AsResult,
}

/// The rank and the elements of an operand, or of the tensors of a list.
#[derive(Clone, Copy, Debug)]
pub struct OperandHint {
    /// Its formal.
    pub formal: &'static str,
    /// Its rank.
    pub rank: Option<Rank>,
    /// Its elements.
    pub elements: Option<DType>,
}

/// The rank of an operand.
#[derive(Clone, Copy, Debug)]
pub enum Rank {
    /// This one.
    Is(usize),
    /// The length of the list of this formal, and so many more.
    Listed(&'static str, usize),
}

/// The properties that the first operand of an operator shares with its result.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsResult {
    /// The rank.
    pub rank: bool,
    /// The kind of elements.
    pub elements: bool,
}

/// The facts about one operator. A row without a field does not compile: rows are literals with all
/// fields, and take none from another row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The operator.
    pub kind: &'static str,
    /// Sizes and element types of results, and what PyTorch reports of them; the first rule whose
    /// formal an overload has applies.
    pub shape: Fact<&'static [ShapeRow]>,
    /// The computation of kernels.
    pub computation: Fact<Computation>,
    /// The overloads that fuser levels take, and those that none takes with the reason.
    pub fusion: Fact<&'static [FusionRow]>,
    /// The gradients.
    pub gradient: Fact<&'static [Gradient]>,
    /// When a guard after it is redundant, and what profiled runs record around it.
    pub guard: Fact<GuardRow>,
    /// The error of its result.
    pub accuracy: Fact<Accuracy>,
    /// Its semantics besides the result: effects, randomness, memory, linearity. None, where its
    /// schema states them.
    pub semantics: Fact<Rule>,
    /// The module of the Python function that spells it in programs.
    pub python: Fact<&'static str>,
    /// The operands that tests call it with.
    pub operands: Fact<Operands>,
}

/// Rows that stand in one file.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// Its rows.
    pub rows: &'static [Row],
    /// Whether results are no larger than the operands, broadcast together.
    pub is_bounded: bool,
}

/// A family whose results are no larger than the operands, broadcast together.
const fn bounded(name: &'static str, rows: &'static [Row]) -> Family {
    Family { name, rows, is_bounded: true }
}

/// A family whose results have sizes of their own.
const fn sized(name: &'static str, rows: &'static [Row]) -> Family {
    Family { name, rows, is_bounded: false }
}

/// All rows, by family.
pub(crate) const FAMILIES: &[Family] = &[
    bounded("arithmetic", arithmetic_rows::ROWS),
    bounded("bits and integers", bit_rows::ROWS),
    bounded("bounds", bound_rows::ROWS),
    bounded("functions", function_rows::ROWS),
    bounded("special functions", special_rows::ROWS),
    bounded("activations", activation_rows::ROWS),
    bounded("gradients of activations", slope_rows::ROWS),
    bounded("comparisons", comparison_rows::ROWS),
    bounded("conversions", conversion_rows::ROWS),
    bounded("reductions", reduction_rows::ROWS),
    bounded("scans and norms", norm_rows::ROWS),
    bounded("views", view_rows::ROWS),
    bounded("parts", part_rows::ROWS),
    sized("products", product_rows::ROWS),
    sized("contractions", contraction_rows::ROWS),
    sized("matrices", matrix_rows::ROWS),
    sized("convolutions", convolution_rows::ROWS),
    sized("pools", pool_rows::ROWS),
    sized("resampling", resampling_rows::ROWS),
    sized("layers", layer_rows::ROWS),
    sized("recurrent layers", recurrent_rows::ROWS),
    sized("losses", loss_rows::ROWS),
    sized("indexing", index_rows::ROWS),
    sized("orders and counts", ordering_rows::ROWS),
    sized("joining", joining_rows::ROWS),
    sized("rearranging", rearranging_rows::ROWS),
    sized("factories", factory_rows::ROWS),
    sized("random numbers", random_rows::ROWS),
    sized("quantised tensors", quantised_rows::ROWS),
    sized("constructs", construct_rows::ROWS),
];

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().flat_map(|family| family.rows)
}

/// Whether results of a kind are known to be no larger than its operands, broadcast together.
pub fn is_bounded(kind: Symbol) -> bool {
    static ALL: LazyLock<FxHashSet<Symbol>> = LazyLock::new(|| {
        let all = FAMILIES.iter().filter(|family| family.is_bounded).flat_map(|family| family.rows);
        all.map(|row| Symbol::new(row.kind)).collect()
    });
    ALL.contains(&kind)
}

/// The row of a kind; `None` if nothing is known of it but its schemas.
pub fn row(kind: Symbol) -> Option<&'static Row> {
    static BY_KIND: LazyLock<FxHashMap<Symbol, &'static Row>> =
        LazyLock::new(|| rows().map(|row| (Symbol::new(row.kind), row)).collect());
    BY_KIND.get(&kind).copied()
}

/// The window of an operator, if it has one.
pub fn window_rule(kind: Symbol) -> Option<WindowRule> {
    row(kind).and_then(Row::window)
}

/// The error of an operator, if it has a row.
pub fn accuracy(kind: Symbol) -> Option<Accuracy> {
    row(kind).and_then(|row| row.accuracy.known())
}

impl Row {
    /// Its formulas, to be tried in order.
    pub fn formulas(&self) -> &'static [Formula] {
        match self.computation {
            Has(Computation::Formulas(all) | Computation::Both(all, _)) => all,
            _ => &[],
        }
    }

    /// Its recipes, to be tried in order.
    pub(crate) fn recipes(&self) -> &'static [Recipe] {
        match self.computation {
            Has(Computation::Recipes(all) | Computation::Both(_, all)) => all,
            _ => &[],
        }
    }

    /// Its window.
    pub(crate) fn window(&self) -> Option<WindowRule> {
        match self.computation {
            Has(Computation::Windows(rule)) => Some(rule),
            _ => None,
        }
    }

    /// Whether its operand at this position should be a tensor of integers.
    pub(crate) fn takes_integers(&self, index: usize) -> bool {
        self.drawn().first().is_some_and(|pattern| pattern.chars().nth(index) == Some('w'))
    }

    /// The operands of random groups, a text for each way to call it.
    pub fn drawn(&self) -> &'static [&'static str] {
        self.operands.known().map_or(&[], |operands| operands.drawn)
    }
}
