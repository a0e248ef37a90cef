//! The words that rows are written in.

pub(super) use super::Computation::{Both, Formulas, Recipes, Windows};
pub(super) use super::Fact::{Has, No};
use super::{Accuracy, AsResult, Error, OperandHint, Operands, Rank};
use crate::ir::Attribute;
pub(super) use crate::ops::formulas::Typing::{
    Cast, Chosen, Compared, FloatPromoted, Kept, Like, Named, Predicate, Promoted, Real,
};
pub(super) use crate::ops::formulas::When::*;
pub(super) use crate::ops::formulas::{all, floats, integers, numbers};
pub(super) use crate::ops::fusion_rules::{fused, unfused};
pub(super) use crate::ops::guard_rules::{Settled, WITH_NUMBERS, but_for, kept, redundant};
pub(super) use crate::ops::linear_rules::Linear;
pub(super) use crate::ops::rules::Nondeterminism::{Deterministic, Undefined};
pub(super) use crate::ops::rules::{AliasRule as A, Basis, DECLARED, Resizes, Structure};
pub(super) use crate::ops::shape_rules::{Element as E, FRESH, ONLY_SIZES, RANK, RANKS, RUN, SIZES, Shape as S, sized};
pub(super) use crate::ops::touches::Touch;
pub(super) use crate::ops::window_rules::{Pooled, over};
use crate::tensor::DType;
pub(super) use crate::tensor::gemm::Function;

/// Overloads without a name.
pub(super) const PLAIN: &[&str] = &[""];
/// A tensor with a tensor, a tensor with a number.
pub(super) const BOTH: &[&str] = &["Tensor", "Scalar"];

// ---- reasons

/// No guard becomes redundant, and nothing is recorded.
pub(super) const STAYS: &str = "PyTorch keeps guards after it, and records nothing around it";
/// There is nothing to differentiate.
pub(super) const INTEGRAL: &str = "its results are not floating point";
/// It is left outside of differentiable subgraphs.
pub(super) const NO_FORMULA: &str = "there is no formula for its gradient yet";
/// There is a formula, but none with accurate last digits in vector code.
pub(super) const UNKNOWN: &str = "it has no formula that is both accurate and branch-free";
/// Integers alone.
pub(super) const NO_INTEGERS: &str = "it has no formula for integers";
/// Effects, randomness and memory.
pub(super) const AS_DECLARED: &str = "its schema and its name say what it does";
/// No computation.
pub(super) const A_VIEW: &str = "a view computes no element";
/// Kernels of reductions are made from recipes.
pub(super) const NO_RECIPE: &str = "no recipe describes it, so the interpreter runs it";
/// Elementwise, and in no kernel.
pub(super) const UNFUSED: &str = "no fuser level takes it, so the interpreter runs it";

/// It returns the tensor that it writes to.
pub(super) const WRITES: &str = "it returns the tensor that it writes to";
/// No tensors.
pub(super) const NO_TENSOR: &str = "its results are not tensors";
/// No inference.
pub(super) const NO_RULE: &str = "no rule infers the sizes of its results yet";
/// Operators outside of `aten` are no functions of a module.
pub(super) const NAMESPACE: &str = "programs spell it with its namespace, or as syntax";
/// No function of `torch` or `torch.nn.functional`.
pub(super) const UNNAMED: &str = "neither `torch` nor `torch.nn.functional` has a function of this name";
/// Spelled `x.add_(y)`.
pub(super) const METHOD: &str = "programs spell it as a method of a tensor";

// ---- accuracy

/// It moves, selects or compares.
pub(super) const fn exact() -> Accuracy {
    Accuracy { error: Error::Exact, addend: None, subtracts: false, in_any_order: false, squares: false, moves: false }
}

/// It moves elements.
pub(super) const fn moved() -> Accuracy {
    exact().moving()
}

/// It errs by so many units in the last place.
pub(super) const fn units(units: f64) -> Accuracy {
    Accuracy { error: Error::Units(units), ..exact() }
}

/// It sums.
pub(super) const fn sums() -> Accuracy {
    Accuracy { error: Error::Sum, ..exact() }
}

impl Accuracy {
    /// It adds this operand last, or sums its elements.
    pub(super) const fn adding(self, operand: usize) -> Accuracy {
        Accuracy { addend: Some(operand), ..self }
    }

    /// It subtracts within its computation.
    pub(super) const fn subtracting(self) -> Accuracy {
        Accuracy { subtracts: true, ..self }
    }

    /// It sums in an unspecified order.
    pub(super) const fn in_any_order(self) -> Accuracy {
        Accuracy { in_any_order: true, ..self }
    }

    /// It moves elements, and may round them to another type.
    pub(super) const fn moving(self) -> Accuracy {
        Accuracy { moves: true, ..self }
    }

    /// It sums squares.
    pub(super) const fn squaring(self) -> Accuracy {
        Accuracy { squares: true, ..self }
    }
}

// ---- modules

/// Spelled as a function of `torch`.
pub(super) const TORCH: &str = "torch";
/// Spelled as a function of `torch.nn.functional`, which is itself compiled.
pub(super) const FUNCTIONAL: &str = "torch.nn.functional";
/// Spelled as a function of `torch.functional`.
pub(super) const PLAIN_FUNCTIONAL: &str = "torch.functional";

// ---- operands

/// Operands that the tests generate from the schema.
pub(super) const GENERATED: Operands = Operands {
    drawn: &[],
    undrawn: "",
    called: &[],
    shaped: &[],
    hints: &[],
    as_result: AsResult { rank: false, elements: false },
};

/// Operands of nodes in random groups, a letter each.
pub(super) const fn drawn(drawn: &'static [&'static str]) -> Operands {
    Operands { drawn, ..GENERATED }
}

impl Operands {
    /// Random groups draw none, for this reason.
    pub(super) const fn undrawn(self, undrawn: &'static str) -> Operands {
        Operands { undrawn, ..self }
    }

    /// Calls with these operands, a word each.
    pub(super) const fn called(self, called: &'static [&'static str]) -> Operands {
        Operands { called, ..self }
    }

    /// Calls with these operands, for shapes only.
    pub(super) const fn shaped(self, shaped: &'static [&'static str]) -> Operands {
        Operands { shaped, ..self }
    }

    /// Ranks and elements of operands, for inputs of untyped graphs.
    pub(super) const fn hinted(self, hints: &'static [OperandHint]) -> Operands {
        Operands { hints, ..self }
    }

    /// The first operand has the rank of the result, or the same kind of elements.
    pub(super) const fn forwarding(self, rank: bool, elements: bool) -> Operands {
        Operands { as_result: AsResult { rank, elements }, ..self }
    }
}

/// A hint about an operand, to be completed.
pub(super) const fn of(formal: &'static str) -> OperandHint {
    OperandHint { formal, rank: None, elements: None }
}

impl OperandHint {
    /// It has this rank.
    pub(super) const fn rank(self, rank: usize) -> OperandHint {
        OperandHint { rank: Some(Rank::Is(rank)), ..self }
    }

    /// Its rank is the length of this list, and so many more.
    pub(super) const fn rank_of_list(self, list: &'static str, more: usize) -> OperandHint {
        OperandHint { rank: Some(Rank::Listed(list, more)), ..self }
    }

    /// It has elements of type long.
    pub(super) const fn integers(self) -> OperandHint {
        OperandHint { elements: Some(DType::Long), ..self }
    }

    /// It has elements of type bool.
    pub(super) const fn bools(self) -> OperandHint {
        OperandHint { elements: Some(DType::Bool), ..self }
    }
}

// ---- formulas

/// The maximum of integers and of bools.
pub(super) const MAX: &str = "a > b ? a : b";
/// The minimum of integers and of bools.
pub(super) const MIN: &str = "a < b ? a : b";

/// The epilogue of an operator that takes two bounds.
pub(super) fn clamped(of: &[&Attribute]) -> Option<Function> {
    match of {
        [low, high] => Some(Function::Clamp(constant(low)?, constant(high)?)),
        _ => None,
    }
}

/// The epilogue of an operator that takes a slope.
pub(super) fn sloped(of: &[&Attribute]) -> Option<Function> {
    match of {
        [slope] => constant(slope).map(Function::LeakyRelu),
        _ => None,
    }
}

/// The epilogue of `gelu`, which releases before 1.12 have without an approximation.
pub(super) fn approximated(of: &[&Attribute]) -> Option<Function> {
    match of {
        [] => Some(Function::Gelu),
        [Attribute::Str(how)] if **how == *b"none" => Some(Function::Gelu),
        [Attribute::Str(how)] if **how == *b"tanh" => Some(Function::GeluTanh),
        _ => None,
    }
}

fn constant(value: &Attribute) -> Option<f64> {
    match value {
        Attribute::Int(n) => Some(*n as f64),
        Attribute::Float(x) => Some(x.value),
        _ => None,
    }
}
