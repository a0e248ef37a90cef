//! Decides which nests are one kernel: those that differ only in names and in the IR lines of
//! statements, such as those of the unrolled iterations of a loop, have the same `Identity`.
//!
//! ```text
//! %y : Float(*) = aten::relu(%x)       in a nest:  v_y = "a < 0 ? 0 : a" of v_x      %y : …
//! %9 : Float(3) = aten::relu(%8)                   v_9 = "a < 0 ? 0 : a" of v_8      %9 : …
//! ```
//!
//! Both are the value 1, computed by the same formula from the value 0. An identity is for the maps
//! of a process: what is kept on disk is found by its source.

use super::{Access, Compute, Nest, Operand, Origin, Stmt, Term};
use crate::tensor::Scalar;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

/// A hash of 128 bits of nests without names, and of the target that they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u64; 2]);

impl Identity {
    /// That of a nest, or of several.
    pub(crate) fn of(nests: &impl Hash, target: &str) -> Identity {
        let half = |salt: u64| {
            let mut state = DefaultHasher::new();
            (salt, target).hash(&mut state);
            nests.hash(&mut state);
            state.finish()
        };
        Identity([half(0), half(1)])
    }
}

impl Hash for Nest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All but `group`, `assumed` and the names.
        let Nest { direction, floats, integers, slots, threads, lanes, side, split, blocks, is_flat, .. } = self;
        (direction, floats, integers, slots, threads, lanes, side, split, blocks, is_flat).hash(state);
        self.accesses.len().hash(state);
        for access in &self.accesses {
            let Access { name: _, dtype, is_written, inner, is_of_row, is_added_to, .. } = access;
            let Access { watch, is_wide, is_crossed, ahead, streamed, .. } = access;
            (dtype, is_written, inner, is_of_row, is_added_to).hash(state);
            (watch, is_wide, is_crossed, ahead, streamed).hash(state);
        }
        self.values.len().hash(state);
        self.values.iter().for_each(|value| value.dtype.hash(state));
        self.buffers.hash(state);
        self.variables.len().hash(state);
        for variable in &self.variables {
            (variable.ty, variable.spread, variable.is_fixed).hash(state);
        }
        self.body.hash(state);
    }
}

impl Hash for Stmt {
    fn hash<H: Hasher>(&self, state: &mut H) {
        discriminant(self).hash(state);
        match self {
            Stmt::For(all) => (all.axis, all.bind, &all.combined, all.within).hash(state),
            Stmt::Open(place) => place.hash(state),
            Stmt::Let { value, compute, note: _ } => (value, compute).hash(state),
            Stmt::Store { to, operand, waits, note: _ } => (to, operand, waits).hash(state),
            Stmt::Prefetch { accesses, ahead, step } => (accesses, ahead, step).hash(state),
            Stmt::Begin(variables) => variables.hash(state),
            Stmt::Set { variable, term, note: _ } => (variable, term).hash(state),
            Stmt::Accumulate { to, term, note: _ } => (to, term).hash(state),
            Stmt::If { when, .. } => when.hash(state),
            Stmt::Retry { lost, .. } => lost.hash(state),
            Stmt::Alloc(number)
            | Stmt::Flush(number)
            | Stmt::Inclusive(number)
            | Stmt::Reserve(number)
            | Stmt::Fetch(number)
            | Stmt::Deliver(number)
            | Stmt::MakeSquare(number)
            | Stmt::FillSquare { access: number, note: _ }
            | Stmt::EmptySquare { access: number, note: _ } => number.hash(state),
            Stmt::Phase { number, .. } | Stmt::Once { number, .. } => number.hash(state),
            Stmt::Leave { variable, slot } => (variable, slot).hash(state),
            Stmt::Locate { accesses, at } => (accesses, at).hash(state),
            Stmt::Scope(_) | Stmt::Barrier => {}
        }
        self.inside().hash(state);
    }
}

impl Hash for Compute {
    fn hash<H: Hasher>(&self, state: &mut H) {
        discriminant(self).hash(state);
        match self {
            Compute::Load(place) => place.hash(state),
            Compute::Apply { formula, computed, operands, rounded } => {
                (formula.text, computed, operands, rounded).hash(state);
            }
            Compute::Finish { term, rounded } => (term, rounded).hash(state),
        }
    }
}

impl Hash for Term {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.formula.text, self.ty, &self.operands).hash(state);
    }
}

impl Hash for Operand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.from, self.to).hash(state);
        discriminant(&self.origin).hash(state);
        match &self.origin {
            Origin::Constant(scalar) => bits(*scalar).hash(state),
            Origin::Found(slot, ty) | Origin::Merged(slot, ty) => (slot, ty).hash(state),
            Origin::Known(known) => known.hash(state),
            Origin::Value(number)
            | Origin::Float(number)
            | Origin::Integer(number)
            | Origin::Variable(number)
            | Origin::Partner(number)
            | Origin::OfFirst(number)
            | Origin::OfWarp(number)
            | Origin::Before(number)
            | Origin::OfWarpBefore(number) => number.hash(state),
            Origin::OfLane(number, lane) => (number, lane).hash(state),
        }
    }
}

/// The bits of a number, with its kind: -0.0 is another constant than 0.0.
fn bits(scalar: Scalar) -> (u8, u64, u64) {
    match scalar {
        Scalar::Bool(is_set) => (0, u64::from(is_set), 0),
        Scalar::Int(number) => (1, number.cast_unsigned(), 0),
        Scalar::Float(number) => (2, number.to_bits(), 0),
        Scalar::Complex(number) => (3, number.re.to_bits(), number.im.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::target::CPU;
    use crate::codegen::whole_graph::kernels;
    use crate::text::{ParseOptions, parse};

    /// The identities of the kernels of one group, for each of two targets' names.
    fn identity(body: &str, target: &str) -> Identity {
        let text = format!(
            "graph(%x : Float(*)):\n  %y : Float(*) = prim::FusionGroup_0(%x)\n  return (%y)\nwith prim::FusionGroup_0 = graph({body}"
        );
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("it is a graph").graph;
        let found = kernels(&graph, None, &CPU);
        let one = &found.planned[0];
        let nest = CPU.nest(&one.kernel, &one.traversal, &one.plan).expect("it has a nest");
        Identity::of(&nest, target)
    }

    const RELU: &str = "%a : Float(*)):\n  %b : Float(*) = aten::relu(%a)\n  return (%b)\n";

    #[test]
    fn names_do_not_matter() {
        assert_eq!(identity(RELU, "cpu"), identity(&RELU.replace("%a", "%first").replace("%b", "%2"), "cpu"));
    }

    #[test]
    fn targets_formulas_constants_and_types_do() {
        let of = |body: &str| identity(body, "cpu");
        let added = |number: &str| {
            of(&format!(
                "%a : Float(*)):\n  %c : float = prim::Constant[value={number}]()\n  %one : int = prim::Constant[value=1]()\n  %b : Float(*) = aten::add(%a, %c, %one)\n  return (%b)\n"
            ))
        };
        let all = [
            of(RELU),
            identity(RELU, "cuda"),
            of(&RELU.replace("relu", "exp")),
            of(&RELU.replace("Float(*)", "Double(*)")),
            added("0."),
            added("-0."),
            added("0.5"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
