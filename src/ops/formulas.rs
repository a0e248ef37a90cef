//! Formulas of elementwise operators: the computation of one element, a column of the operator
//! table, see [`super::rows`].
//!
//! A [`Formula`] is a C expression over the operands `a` to `f` of the node, converted to the type
//! of the computation. Functions are those of the vector mathematics in `codegen/prelude.c`; their
//! names, and literals with a point, get the suffix of the type. CUDA compiles the same
//! expressions.
//!
//! The semantics are those of PyTorch's eager kernels, as in the interpreter, not those of its old
//! fuser, which rounds halves away from zero, drops NaN in `min` and `max`, and takes remainders in
//! single precision. Operands that may raise an exception for some element (integers divided by
//! zero) are checked before a launch ([`When::Divides`]), and an element type that an operator
//! refuses has no formula: the group then runs on the interpreter, which reports it in PyTorch's
//! words.
//!
//! `codegen/expression.rs` parses them, once. Written as trees the same formulas would take more
//! words.

use super::rows::{Row, rows};
use crate::symbol::Symbol;
use crate::tensor::DType;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The type of the computation of a formula, and the type of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// The common type of the first `n` operands.
    Promoted(usize),
    /// The same, but at least a floating point type.
    FloatPromoted(usize),
    /// The common type of the first two operands; the result is a bool.
    Compared,
    /// The type of the first operand.
    Kept,
    /// The type of the first operand, but at least a floating point type.
    Real,
    /// The type of the first operand; the result is a bool.
    Predicate,
    /// The common type of the second and third operand; the first is a bool.
    Chosen,
    /// Always this one.
    Cast(DType),
    /// The one that this constant operand names.
    Named(usize),
    /// The type of the second operand, which is not read otherwise.
    Like,
}

/// The condition of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Before a release of PyTorch.
    Before(u32, u32),
    /// From a release on.
    Since(u32, u32),
    /// This operand is `None`, or missing.
    Missing(usize),
    /// This operand is a number.
    IsNumber(usize),
    /// This operand is a constant number.
    Is(usize, f64),
    /// This operand is a constant number other than this one, or missing: others raise exceptions.
    IsNot(usize, f64),
    /// This operand is a constant and finite number not less than this one, or missing: others
    /// raise exceptions.
    From(usize, f64),
    /// This operand is a constant that names a floating point, integer or bool type.
    Names(usize),
    /// This operand is a tensor.
    Tensor(usize),
    /// This operand is a constant string.
    Says(usize, &'static str),
    /// If this operand is an integer, it is known to be in the range of the element type of the
    /// first; and if that type is floating point, no constant exceeds its range. Others raise
    /// exceptions, which kernels cannot: the usual case is -1e9 with `Half`.
    Fits(usize),
    /// If this operand is a number, it is in the range of the type of the computation, which is
    /// `f32` for 16-bit floats. Others raise exceptions.
    FitsWide(usize),
    /// If this operand is a number, it is a valid factor in the type of the computation, before an
    /// addition: an integer for integers, a bool for bools alone, and in the range of the type.
    /// Others raise exceptions.
    Scales(usize),
    /// This operand is known to be a number in the range of the element type of the first, if that
    /// is an integer type. Others raise exceptions, which kernels cannot.
    Held(usize),
    /// In integer computations, this operand is a non-zero number, or an operand of the kernel,
    /// which is checked for zeros before a launch: they raise exceptions.
    Divides(usize),
    /// In integer computations, this operand, if it is a number, is not negative: negative ones
    /// raise exceptions.
    Natural(usize),
    /// The tensors among the operands so far have one element type: others raise exceptions.
    OfOneType(usize),
    /// The first operand is of another element type.
    IsNotOf(DType),
    /// The first operand has at least 32 bits.
    Wide,
    /// The first operand is a floating point tensor.
    OfFloats,
}

/// The computation of one element. An empty text means that the operator has none for that kind of
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    /// The operator, which [`formulas`] fills in.
    pub kind: &'static str,
    /// The conditions, all of which must hold.
    pub when: &'static [When],
    /// The types.
    pub typing: Typing,
    /// For floating point numbers.
    pub float: &'static str,
    /// For integers.
    pub integer: &'static str,
    /// For bools: a non-zero value is true.
    pub boolean: &'static str,
    /// The values of operands that are missing or `None`. An infinity is the largest, or the
    /// lowest, number of the element type.
    pub defaults: &'static [(usize, f64)],
    /// From this operand on, numbers and zero-dimensional tensors keep single precision in
    /// computations with 16-bit floats; earlier ones are rounded to 16 bits first (PyTorch 2.15).
    pub factors: usize,
    /// Whether the result is contiguous, regardless of its operands.
    pub contiguous: bool,
}

/// Parameters next to one operand are factors by default, operands of a common type are not.
const fn factors(typing: Typing) -> usize {
    match typing {
        Kept | Real => 1,
        _ => usize::MAX,
    }
}

/// For floating point numbers only; integers are refused unless the typing makes floats of them.
pub(super) const fn floats(typing: Typing, float: &'static str) -> Formula {
    Formula {
        kind: "",
        when: &[],
        typing,
        float,
        integer: "",
        boolean: "",
        defaults: &[],
        factors: factors(typing),
        contiguous: false,
    }
}

/// For integers only.
pub(super) const fn integers(typing: Typing, integer: &'static str) -> Formula {
    Formula { float: "", integer, ..floats(typing, "") }
}

/// For numbers, not for bools.
pub(super) const fn numbers(typing: Typing, text: &'static str) -> Formula {
    Formula { integer: text, ..floats(typing, text) }
}

/// For all types.
pub(super) const fn all(typing: Typing, text: &'static str) -> Formula {
    Formula { boolean: text, ..numbers(typing, text) }
}

impl Formula {
    /// Whether it returns its operand unchanged if that already has the right type.
    pub fn only_converts(&self) -> bool {
        matches!(self.typing, Cast(_) | Named(_) | Like) && self.float == "a"
    }

    pub(super) const fn contiguous(self) -> Formula {
        Formula { contiguous: true, ..self }
    }

    pub(super) const fn when(self, when: &'static [When]) -> Formula {
        Formula { when, ..self }
    }

    pub(super) const fn float(self, float: &'static str) -> Formula {
        Formula { float, ..self }
    }

    pub(super) const fn integer(self, integer: &'static str) -> Formula {
        Formula { integer, ..self }
    }

    pub(super) const fn boolean(self, boolean: &'static str) -> Formula {
        Formula { boolean, ..self }
    }

    pub(super) const fn factors(self, factors: usize) -> Formula {
        Formula { factors, ..self }
    }

    pub(super) const fn or(self, defaults: &'static [(usize, f64)]) -> Formula {
        Formula { defaults, ..self }
    }
}

use Typing::*;

static BY_KIND: LazyLock<FxHashMap<Symbol, Vec<&'static Formula>>> = LazyLock::new(|| {
    let named = |row: &'static Row| {
        let all = row.formulas().iter().map(|formula| Formula { kind: row.kind, ..*formula });
        all.collect::<Vec<_>>().leak().iter().collect()
    };
    let rows = rows().filter(|row| !row.formulas().is_empty());
    rows.map(|row| (Symbol::new(row.kind), named(row))).collect()
});

/// The formulas of a kind, to be tried in order; none if it is not elementwise, or has no formula
/// yet.
pub fn formulas(kind: Symbol) -> &'static [&'static Formula] {
    BY_KIND.get(&kind).map_or(&[], Vec::as_slice)
}

/// The texts of all formulas.
pub(crate) fn texts() -> impl Iterator<Item = &'static str> {
    let all = rows().flat_map(|row| row.formulas()).flat_map(|row| [row.float, row.integer, row.boolean]);
    all.filter(|text| !text.is_empty())
}
