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
    outputs_recorded: &'static [&'static str],
}

/// A guard after it is redundant under this condition.
pub(super) const fn redundant(settled: Settled) -> GuardRow {
    GuardRow { settled: Some(settled), ..kept() }
}

/// Guards after it stay.
pub(super) const fn kept() -> GuardRow {
    GuardRow { settled: None, since: Era::V1_3, recorded: &[], operands_recorded: &[], outputs_recorded: &[] }
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

    /// They record the outputs of these.
    pub(super) const fn outputs_recorded(self, outputs_recorded: &'static [&'static str]) -> GuardRow {
        GuardRow { outputs_recorded, ..self }
    }

    /// The condition under which a guard after it is redundant, from 1.5 on.
    #[cfg(test)]
    pub(super) fn settled(&self) -> Option<Settled> {
        self.settled
    }

    pub(super) fn profiled(&self, overload: &str) -> Profiled {
        let names = |all: &[&str]| all.contains(&overload);
        let both = names(self.recorded);
        Profiled { operands: both || names(self.operands_recorded), outputs: both || names(self.outputs_recorded) }
    }
}

/// Operands that are settled, and any numbers.
pub(super) const WITH_NUMBERS: Settled = Settled::ByOperands { numbers: true, free: &[], free_for_floats: &[] };

/// Operands that are settled, but for these.
pub(super) const fn but_for(free: &'static [usize]) -> Settled {
    Settled::ByOperands { numbers: false, free, free_for_floats: &[] }
}

/// The condition under which a guard after an operator is redundant; `None` if it never is.
pub fn settled(era: Era, kind: Symbol) -> Option<Settled> {
    let row = of(kind)?;
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

/// The tensors recorded by a profiled run around a node of this kind.
pub fn profiled(era: Era, kind: Symbol, overload: Option<&Schema>) -> Profiled {
    if era == Era::V1_3 {
        return Profiled { operands: true, outputs: false };
    }
    of(kind).map_or(Profiled::default(), |row| row.profiled(overload.map_or("", |schema| schema.overload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::ops::rows::rows;

    #[test]
    fn recorded_overloads_are_declared_and_named_once() {
        for (kind, guard) in rows().filter_map(|row| Some((row.kind, row.guard.known()?))) {
            let all = [guard.recorded, guard.operands_recorded, guard.outputs_recorded].concat();
            let declared = ops::operator(Era::V2, Symbol::new(kind)).schemas;
            for name in &all {
                assert!(declared.iter().any(|schema| schema.overload == *name), "{kind}.{name}");
                assert_eq!(all.iter().filter(|other| *other == name).count(), 1, "{kind}.{name} stands twice");
            }
        }
    }

    #[test]
    fn guards_after_roots_stay_in_1_3() {
        assert_eq!(settled(Era::V1_3, Symbol::new("aten::sqrt")), None);
        assert_eq!(settled(Era::V2, Symbol::new("aten::sqrt")), Some(WITH_NUMBERS));
    }
}
