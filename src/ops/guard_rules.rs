//! The columns of the operator table for speculation: the tensors that a profiled run records, and
//! the operators whose results need no guard.
//!
//! ```text
//! %g : Float(2, 3) = prim::Guard(%x)          the guard of %a is redundant: the negative of a tensor
//! %a : Tensor = aten::neg(%g)                 with all properties known has all properties known
//! %h : Float(2, 3) = prim::Guard(%a)
//! ```
//!
//! Measured: each overload of 2.15 that makes a tensor, with all properties of its operands known
//! and with each operand free in turn; and the nodes that 2.15 instruments. The rules for 1.3 are
//! derived from recorded graphs, where `aten::where`, `aten::softmax`, `aten::sqrt` and
//! `aten::rsqrt` keep their guards. Where PyTorch assumes more than holds, the column has the
//! facts: a bound of `aten::clamp` may be a tensor that is broadcast, or make floats of integers.

use super::rows::row;
use super::schema::Schema;
use crate::symbol::Symbol;
use crate::types::era::Era;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The condition under which all properties of a result are known, because those of the operands
/// are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Each operand is settled: guarded with all properties known, or a constant.
    ByOperands {
        /// Operands of type int, float or bool need not be constants.
        numbers: bool,
        /// These may be anything. A tensor may not if the text shows which tensors require
        /// gradients: if it requires one, so does the result.
        free: &'static [usize],
        /// These may be any number if the first operand is floating point.
        free_for_floats: &'static [usize],
    },
    /// All properties of the first operand are known, guarded or not, and the others are constants.
    ByFirst,
    /// Determined by the tensors of a list that is made directly before it, and a constant
    /// dimension.
    ByList,
    /// It unpacks the chunks of a settled tensor.
    ByChunks,
    /// The first operand is settled, and the second one is a constant, or the known sizes of a
    /// tensor.
    BySizes,
    /// Its block returns it and is known to run (an operand is known to be defined): as much is
    /// known as of the returned value.
    ByBlock,
    /// The result is only known to be undefined.
    Undefined,
    /// Always: it is a guard itself.
    Itself,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct GuardRow {
    settled: Option<Settled>,
    since: Era,
    recorded: &'static [&'static str],
    operands_recorded: &'static [&'static str],
}

/// A guard after it is redundant under this condition.
pub(super) const fn redundant(settled: Settled) -> GuardRow {
    GuardRow { settled: Some(settled), ..kept() }
}

/// Guards after it stay.
pub(super) const fn kept() -> GuardRow {
    GuardRow { settled: None, since: Era::V1_3, recorded: &[], operands_recorded: &[] }
}

impl GuardRow {
    /// From 1.5 on.
    pub(super) const fn since_2(self) -> GuardRow {
        GuardRow { since: Era::V2, ..self }
    }

    /// Profiled runs record operands and outputs of these overloads: those that the compiler of 2.x
    /// could make kernels of.
    pub(super) const fn recorded(self, recorded: &'static [&'static str]) -> GuardRow {
        GuardRow { recorded, ..self }
    }

    /// They record the operands of these.
    pub(super) const fn operands_recorded(self, operands_recorded: &'static [&'static str]) -> GuardRow {
        GuardRow { operands_recorded, ..self }
    }

    fn profiled(&self, overload: &str) -> Profiled {
        let names = |all: &[&str]| all.contains(&overload);
        let both = names(self.recorded);
        Profiled { operands: both || names(self.operands_recorded), outputs: both }
    }
}

/// Operands that are settled, and any numbers.
pub(super) const WITH_NUMBERS: Settled = Settled::ByOperands { numbers: true, free: &[], free_for_floats: &[] };

/// Operands that are settled, but for these.
pub(super) const fn but_for(free: &'static [usize]) -> Settled {
    Settled::ByOperands { numbers: false, free, free_for_floats: &[] }
}

/// Kinds whose families have no rows yet, see [`super::rows`].
#[rustfmt::skip]
const OTHERS: &[(&[&str], GuardRow)] = &[
    (&["aten::add_"], redundant(WITH_NUMBERS)),
    (&["aten::mm"], redundant(but_for(&[]))),
    (&["prim::ConstantChunk", "prim::AutogradAdd"], redundant(WITH_NUMBERS)),
    (&["aten::avg_pool2d"], redundant(but_for(&[]))),
    (&["aten::multinomial"], redundant(but_for(&[2, 3]))),
    (&["aten::conv1d", "aten::conv2d", "aten::conv3d"], redundant(but_for(&[2, 6]))),
    (&["aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"], redundant(Settled::ByFirst)),
    (&["aten::cat"], redundant(Settled::ByList)),
    (&["prim::ListUnpack"], redundant(Settled::ByChunks)),
    (&["aten::_grad_sum_to_size"], redundant(Settled::BySizes)),
    (&["prim::GradOf"], redundant(Settled::ByBlock)),
    (&["prim::AutogradZero"], redundant(Settled::Undefined)),
    (&["prim::Guard"], redundant(Settled::Itself)),
];

/// The condition under which a guard after an operator is redundant; `None` if it never is.
pub fn settled(era: Era, kind: Symbol) -> Option<Settled> {
    static ALL: LazyLock<FxHashMap<Symbol, &'static GuardRow>> = LazyLock::new(|| {
        OTHERS.iter().flat_map(|(kinds, row)| kinds.iter().map(move |kind| (Symbol::new(kind), row))).collect()
    });
    let row = of(kind).or_else(|| ALL.get(&kind).map(|row| **row))?;
    row.settled.filter(|_| row.since <= era)
}

/// The guard row of a kind that has a row.
fn of(kind: Symbol) -> Option<GuardRow> {
    row(kind).and_then(|row| row.guard.known())
}

/// The tensors recorded by a profiled run around an operator, from 1.5 on. Before that it recorded
/// every tensor operand of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profiled {
    /// Its tensor operands.
    pub operands: bool,
    /// Its tensor results, regardless of their uses.
    pub outputs: bool,
}

/// Overloads whose operands and outputs are recorded: those that the compiler of 2.x could make
/// kernels of.
#[rustfmt::skip]
const BOTH: &[&str] = &[
    "aten::_convolution", "aten::_convolution.deprecated", "aten::_dim_arange", "aten::_grad_sum_to_size",
    "aten::_slow_conv2d_forward", "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d", "aten::addmm", "aten::addmm.dtype", "aten::avg_pool2d", "aten::bmm",
    "aten::conv2d", "aten::conv2d.padding", "aten::dot", "aten::dropout", "aten::embedding",
    "aten::index.Tensor_hacked_twin", "aten::linear", "aten::matmul", "aten::max_pool2d",
    "aten::max_pool2d_with_indices", "aten::mv", "aten::nll_loss", "aten::nonzero", "aten::mm", "aten::mm.dtype",
];

/// Overloads whose operands are recorded.
const OPERANDS: &[&str] = &[
    "aten::dim",
    "aten::is_floating_point",
    "aten::size",
    "aten::size.int",
    "prim::device",
    "prim::dtype",
    "prim::is_cuda",
];

/// Overloads whose outputs are recorded.
const OUTPUTS: &[&str] = &["aten::cat", "aten::stack"];

/// Kinds without overloads whose operands and outputs are recorded.
const KINDS: &[&str] = &[
    "prim::ConstantChunk",
    "prim::ListConstruct",
    "prim::AutogradZero",
    "prim::AutogradAdd",
    "prim::AutogradAnyNonZero",
    "prim::AutogradAllNonZero",
    "prim::AutogradAllZero",
];

/// The tensors recorded by a profiled run around a node of this kind.
pub fn profiled(era: Era, kind: Symbol, overload: Option<&Schema>) -> Profiled {
    static ALL: LazyLock<FxHashMap<&'static str, Profiled>> = LazyLock::new(|| {
        let both = BOTH.iter().chain(KINDS).map(|&name| (name, Profiled { operands: true, outputs: true }));
        let operands = OPERANDS.iter().map(|&name| (name, Profiled { operands: true, outputs: false }));
        let outputs = OUTPUTS.iter().map(|&name| (name, Profiled { operands: false, outputs: true }));
        both.chain(operands).chain(outputs).collect()
    });
    if era == Era::V1_3 {
        return Profiled { operands: true, outputs: false };
    }
    let named = overload.map_or("", |schema| schema.overload);
    if let Some(row) = of(kind) {
        return row.profiled(named);
    }
    let name = match overload.map(|schema| schema.overload).filter(|overload| !overload.is_empty()) {
        Some(overload) => ALL.get(format!("{}.{overload}", kind.as_str()).as_str()),
        None => ALL.get(kind.as_str()),
    };
    name.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    #[test]
    fn names_are_declared_and_used_once() {
        let all: Vec<&str> = [BOTH, OPERANDS, OUTPUTS].into_iter().flatten().copied().collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), all.len(), "a name stands twice");
        for name in all {
            let (kind, overload) = name.split_once('.').unwrap_or((name, ""));
            let declared = ops::operator(Era::V2, Symbol::new(kind)).schemas.iter().any(|s| s.overload == overload);
            assert!(declared && row(Symbol::new(kind)).is_none(), "{name}");
        }
    }

    #[test]
    fn each_kind_has_one_row_and_is_known() {
        let kinds: Vec<&str> = OTHERS.iter().flat_map(|(kinds, _)| *kinds).copied().collect();
        for kind in &kinds {
            assert_eq!(kinds.iter().filter(|other| *other == kind).count(), 1, "{kind}");
            assert!(ops::operator(Era::V2, Symbol::new(kind)).is_known() && row(Symbol::new(kind)).is_none(), "{kind}");
        }
        assert_eq!(settled(Era::V1_3, Symbol::new("aten::sqrt")), None);
        assert_eq!(settled(Era::V2, Symbol::new("aten::sqrt")), Some(WITH_NUMBERS));
    }
}
