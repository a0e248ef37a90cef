//! Rows that are split between threads, where there are fewer rows than those: sums over
//! everything, or a scan of one row.
//!
//! A launch runs in phases. In each phase every part, on a thread of its own, does one phase of the
//! kernel for its piece of a row, and leaves its state; in the next one each part merges what all
//! have left before it goes on:
//!
//! ```text
//! variable a_m = 0
//! in phase 0 of the launch, and then the next row
//!   …                                   a_m of this part
//!   leave a_m in slot 0
//! for each part of the row
//!   a_m = a_m + slot 0
//! v_m = a_m / count
//! ```
//!
//! A scan takes two phases: in the first a part sums its piece, in the second it begins with what
//! those before it have left. That is how S. Chatterjee, G. E. Blelloch and M. Zagha do it (Scan
//! Primitives for Vector Computers, 1990): elements are read twice, and results written once.

use super::build::{Builder, plain};
use super::row_nests::over_state;
use super::{Axis, Bind, For, Operand, Origin, Stmt};
use crate::codegen::loop_structure::Aim;
use crate::codegen::loop_structure::Phase;
use crate::codegen::monoid::{Monoid, Slot};
use crate::codegen::number_type::NumberType;

/// A part of the state that others read, and its place.
struct Left {
    slot: Slot,
    place: usize,
}

impl Left {
    fn found(&self) -> Operand {
        plain(Origin::Found(self.place, self.slot.ty))
    }
}

impl Builder<'_> {
    /// A phase of a part, and what all have left in it.
    pub(super) fn split_phase(&mut self, phase: &Phase, body: &mut Vec<Stmt>) {
        let (mut number, mut place) = (self.loops.launch_phase(phase.number), self.loops.place_of(phase.number));
        if let Some(step) = self.loops.scan_in(phase.number, &phase.aims) {
            self.total_first(phase, step, (number, place), body);
            (number, place) = (number + 1, place + 1);
        }
        let mut inner = Vec::new();
        self.all_blocks(phase, &[], &mut inner);
        let mut reduces = Vec::new();
        for &k in phase.own.iter().chain(&phase.along) {
            let left = |slot| {
                place += 1;
                Left { slot, place: place - 1 }
            };
            reduces.push((k, self.loops.monoid(k).slots.into_iter().map(left).collect::<Vec<Left>>()));
        }
        for (k, all) in &reduces {
            for left in all {
                let variable = self.variable(left.slot.role.letter(), &self.kernel.reductions[*k].name);
                inner.push(Stmt::Leave { variable, slot: left.place });
            }
        }
        body.push(Stmt::Phase { number, body: inner });
        if !reduces.is_empty() {
            let mut merged = Vec::new();
            reduces.iter().for_each(|(k, all)| self.merge_left(*k, all, &mut merged));
            body.push(For::over(Axis::Shares, Bind::Serial, merged));
        }
    }

    /// The phase in which a part sums its piece, and what a scan begins with in the next.
    fn total_first(&mut self, phase: &Phase, step: usize, (number, place): (i64, usize), body: &mut Vec<Stmt>) {
        self.scans(phase.number, &phase.aims, body);
        let Some(scan) = &self.kernel.steps[step].scan else { return };
        let monoid = Monoid::of_scan(scan.op, &self.kernel.steps[step]);
        let variable = self.variable('r', &self.kernel.steps[step].name);
        let ty = monoid.slots.first().map_or(NumberType::Double, |slot| slot.ty);
        let only = self.loops.planned(phase.number, &[Aim::Total(step)]);
        let mut inner = Vec::new();
        self.all_blocks(&only, &[], &mut inner);
        inner.push(Stmt::Leave { variable, slot: place });
        body.push(Stmt::Phase { number, body: inner });
        let operand =
            |letter| Some(plain(if letter == 'A' { Origin::Found(place, ty) } else { Origin::Variable(variable) }));
        let merged = monoid.merge.iter().map(|&(_, formula)| Stmt::Set {
            variable,
            term: over_state(formula, ty, &operand),
            note: String::new(),
        });
        body.push(For::over(Axis::SharesBefore, Bind::Serial, merged.collect()));
    }

    /// Merges what a part has left into the state of a reduction.
    fn merge_left(&mut self, k: usize, all: &[Left], body: &mut Vec<Stmt>) {
        let (monoid, name) = (self.loops.monoid(k), &self.kernel.reductions[k].name);
        let found = |letter: char| {
            let is_it = |left: &&Left| left.slot.role.letter().to_ascii_uppercase() == letter;
            all.iter().find(is_it).map(Left::found)
        };
        let operand = |builder: &Builder<'_>, letter: char| found(letter).or_else(|| Some(builder.of(letter, name)));
        let when = monoid.when.map(|when| over_state(when, NumberType::Double, &|letter| operand(self, letter)));
        let merged: Vec<Stmt> =
            monoid.merge.iter().map(|&update| self.update((&monoid, k), update, &operand)).collect();
        match when {
            Some(when) => body.push(Stmt::If { when, body: merged }),
            None => body.extend(merged),
        }
    }
}
