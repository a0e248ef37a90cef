//! Rows that are parted between threads, where there are fewer rows than those: sums over
//! everything, or a running total of one row.
//!
//! A launch is done in turns. In each turn every part, on a thread of its own, does one phase for
//! its piece of a row, and leaves what it has found; in the next turn each part puts together what
//! all have found before it goes on:
//!
//! ```c
//! double a_m = 0;
//! if (turn == 0) {
//!     for (i64 from = left; from < right; from += 1024) { … a_m += … }
//!     *(double *)(own + 0) = a_m;
//!     goto next;
//! }
//! for (i64 k = 0; k < parts; k++) { const char *const of = …; a_m += *(const double *)(of + 0); }
//! const float v_m = (float)(a_m / count);
//! ```
//!
//! A running total takes two turns: in the first a part finds the sum of its piece, in the second
//! it begins with what those before it have found. That is how S. Chatterjee, G. E. Blelloch and M.
//! Zagha do it (Scan Primitives for Vector Computers, 1990): elements are read twice, and results
//! written once.

use super::{Writer, beside};
use crate::codegen::loop_structure::Phase;
use crate::codegen::monoid::Slot;
use crate::codegen::schedule::Aim;

/// Lines of a piece, in elements: what one part writes no other does.
const LINE: usize = 64;

/// What a part leaves for others: a slot of its state, and its place.
struct Left {
    slot: Slot,
    place: usize,
}

impl Left {
    /// As it is read from what a part has left.
    fn read(&self) -> String {
        format!("*(const {} *)(of + {})", self.slot.ty, 8 * self.place)
    }
}

impl Writer<'_> {
    /// The piece of each row that is this part's: whole blocks, or a piece of each where there are
    /// fewer of them than parts.
    pub(super) fn own_part(&mut self) {
        self.line(4, "const i64 turn = args->turn, part = args->part, parts = args->parts;");
        self.line(4, "char *const found = args->found;");
        self.line(4, "const i64 whole = blocks >= parts;");
        self.line(4, "const i64 first_block = whole ? blocks * part / parts : 0;");
        self.line(4, "const i64 behind = whole ? blocks * (part + 1) / parts : blocks;");
        self.line(4, &format!("const i64 left = whole ? 0 : width * part / parts / {LINE} * {LINE};"));
        let right = format!("width * (part + 1) / parts / {LINE} * {LINE}");
        self.line(4, &format!("const i64 right = whole || part + 1 == parts ? width : {right};"));
    }

    /// A phase of a part, and what all have found in it.
    pub(super) fn turns(&mut self, phase: &Phase) {
        let (mut turn, mut place) = (self.turn_of(phase.number), self.place_of(phase.number));
        let each = 8 * self.place_of(self.schedule.phases);
        self.line(8, &format!("char *const own_{turn} = found + (item * parts + part) * {each};"));
        if let Some(step) = self.scan_in(phase.number, &phase.aims) {
            self.total_first(phase, step, (turn, place), each);
            (turn, place) = (turn + 1, place + 1);
        }
        self.line(8, &format!("if (turn == {turn}) {{"));
        self.all_blocks(phase, &[]);
        let mut reduces = Vec::new();
        for &k in phase.own.iter().chain(&phase.along) {
            let left = |slot| {
                place += 1;
                Left { slot, place: place - 1 }
            };
            reduces.push((k, self.monoid(k).slots.into_iter().map(left).collect::<Vec<Left>>()));
        }
        for (k, all) in &reduces {
            for left in all {
                let (name, own) = (self.slot_name(left.slot.role, *k), self.turn_of(phase.number));
                self.line(12, &format!("*({} *)(own_{own} + {}) = {name};", left.slot.ty, 8 * left.place));
            }
        }
        self.line(12, "goto next;");
        self.line(8, "}");
        if !reduces.is_empty() {
            self.line(8, "for (i64 k = 0; k < parts; k++) {");
            self.line(12, &format!("const char *const of = found + (item * parts + k) * {each};"));
            reduces.iter().for_each(|(k, all)| self.put_together(*k, all));
            self.line(8, "}");
        }
    }

    /// The turn in which a part finds the sum of its piece, and what a running total begins with in
    /// the next.
    fn total_first(&mut self, phase: &Phase, step: usize, (turn, place): (i64, usize), each: usize) {
        self.scans(8, phase.number, &phase.aims);
        let name = beside('r', &self.kernel.steps[step].name);
        let Some(monoid) = self.monoid_of_scan(step) else { return };
        let ty = monoid.slots.first().map_or("double", |slot| slot.ty);
        self.line(8, &format!("if (turn == {turn}) {{"));
        let aims = [Aim::Total(step)];
        let only = self.planned(phase.number, &aims);
        self.all_blocks(&only, &[]);
        self.line(12, &format!("*({ty} *)(own_{turn} + {}) = {name};", 8 * place));
        self.line(12, "goto next;");
        self.line(8, "}");
        self.line(8, "for (i64 k = 0; k < part; k++) {");
        let found = format!("*(const {ty} *)(found + (item * parts + k) * {each} + {})", 8 * place);
        let named = |letter| Some(if letter == 'A' { found.clone() } else { name.clone() });
        for &update in monoid.merge {
            self.line(12, &self.update(&monoid, update, &named));
        }
        self.line(8, "}");
    }

    /// Merges what a part has found into the state of a reduction.
    fn put_together(&mut self, k: usize, all: &[Left]) {
        let (monoid, own) = (self.monoid(k), &self.kernel.reductions[k].name);
        let found = |letter: char| {
            let slot = |left: &&Left| left.slot.role.letter().to_ascii_uppercase() == letter;
            all.iter().find(slot).map(Left::read)
        };
        let name = |letter: char| found(letter).or_else(|| Some(beside(letter, own)));
        let condition = self.condition(&monoid, &name);
        let indent = if condition.is_some() { 16 } else { 12 };
        if let Some(condition) = &condition {
            self.line(12, &format!("if ({condition}) {{"));
        }
        for &update in monoid.merge {
            self.line(indent, &self.update(&monoid, update, &name));
        }
        if condition.is_some() {
            self.line(12, "}");
        }
    }

    /// Takes an element into the total of a piece.
    pub(super) fn add_to_scan(&mut self, indent: usize, step: usize) {
        let name = beside('r', &self.kernel.steps[step].name);
        self.run_on(indent, step, &name);
    }
}
