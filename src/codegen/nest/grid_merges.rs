//! Merges of the states of threads: lanes of a warp give theirs to each other, and warps leave one
//! each in shared memory.
//!
//! ```text
//! for each half of 32 lanes, unrolled
//!   variable other_a_s = a_s of lane + half
//!   a_s = a_s + other_a_s                          # %s : Float(*) = aten::sum(%x, …)
//! if lane == 0
//!   all_a_s[warp] = a_s
//! barrier
//! a_s = all_a_s[lane % warps]                      where there are fewer warps than lanes
//! for each half of 8 lanes, unrolled
//!   …
//! a_s = a_s of lane 0
//! barrier                                          the next row writes all_a_s again
//! ```
//!
//! So a row that a warp computes needs no shared memory and no barrier, and others two barriers,
//! or one where a row has several merges: each is between the reads of the one before and the next
//! write. In each half lane 0 merges what lane `half` has merged; what the last lanes merge, which
//! have none that far from them, is not read. Which pairs are merged, and in which order, follows
//! from the number of threads alone, so that results are the same on every device.

use super::build::{Builder, copy, known, plain, term, with_letter};
use super::grid_nests::note;
use super::state_rules::IS_FIRST_LANE;
use super::{Axis, Bind, For, Known, Operand, Origin, Spread, Stmt};
use crate::codegen::kernel_plan::WARP;
use crate::codegen::number_type::NumberType;

impl Builder<'_> {
    /// Merges the states of the threads of a row; all of them then have what the row has.
    pub(super) fn merge_threads(&mut self, reduced: &[usize], threads: usize, body: &mut Vec<Stmt>) {
        let warps = threads / WARP;
        let slots = self.slots_of(reduced);
        self.merge_lanes(reduced, WARP, body);
        if warps > 1 {
            self.exchange(&slots, warps, body);
            self.merge_lanes(reduced, warps, body);
        }
        body.extend(slots.iter().map(|(own, line)| set(*own, Origin::OfFirst(*own), line)));
        if warps > 1 && self.merging_phases() < 2 {
            body.push(Stmt::Barrier);
        }
    }

    /// How many phases of a row merge states.
    fn merging_phases(&self) -> usize {
        (0..self.loops.phases).filter(|&phase| !self.reduced_in(phase).is_empty()).count()
    }

    /// The variables of some states, each with an IR line.
    fn slots_of(&self, reduced: &[usize]) -> Vec<(usize, String)> {
        let of = |&k: &usize| {
            let reduction = &self.kernel.reductions[k];
            let slots = self.exchanged(k).into_iter();
            slots.map(|(letter, _)| (self.variable(letter, &reduction.name), reduction.line.clone()))
        };
        reduced.iter().flat_map(of).collect()
    }

    /// Merges the states of so many lanes into that of the first one.
    fn merge_lanes(&mut self, reduced: &[usize], lanes: usize, body: &mut Vec<Stmt>) {
        let (mut taken, mut merged) = (Vec::new(), Vec::new());
        for &k in reduced {
            let is_shifted = self.is_shifted(k);
            if is_shifted {
                self.move_to_first(k, body);
            }
            // All of a state is taken before a part of it changes. Sums that have moved have the
            // same first element.
            for (letter, ty) in self.exchanged(k).into_iter().skip(usize::from(is_shifted)) {
                taken.push(self.take_from_partner(k, letter, ty));
            }
            self.merge_taken(k, &mut merged);
        }
        taken.extend(merged);
        body.push(For::over(Axis::Halves(lanes), Bind::Unroll, taken));
    }

    /// Takes a part of the state of another lane.
    fn take_from_partner(&mut self, k: usize, letter: char, ty: NumberType) -> Stmt {
        let name = self.kernel.reductions[k].name.clone();
        let own = self.variable(letter, &name);
        let other = self.declared_as(format!("other_{}", with_letter(letter, &name)), ty, Spread::One, true);
        Stmt::Begin(vec![(other, Some(copy(plain(Origin::Partner(own)))))])
    }

    /// Merges what has been taken into the own state.
    fn merge_taken(&mut self, k: usize, merged: &mut Vec<Stmt>) {
        let name = self.kernel.reductions[k].name.clone();
        match () {
            () if self.is_led(k) => {}
            () if self.is_shifted(k) => self.add_shifted(k, &|letter| self.taken(letter, &name), merged),
            () => {
                let operand = |builder: &Builder<'_>, letter: char| match letter {
                    'x' => None,
                    letter if letter.is_uppercase() => builder.taken(letter, &name),
                    letter => Some(builder.of(letter, &name)),
                };
                let (monoid, first) = (self.monoid_on_grid(k), merged.len());
                self.combine((&monoid, k), &operand, merged);
                merged[first..].iter_mut().for_each(|stmt| note(stmt, &self.kernel.reductions[k].line));
            }
        }
    }

    /// A part of the state of another lane.
    fn taken(&self, letter: char, name: &str) -> Option<Operand> {
        let other = self.names.get(&format!("other_{}", with_letter(letter.to_ascii_lowercase(), name)))?;
        Some(plain(Origin::Variable(*other)))
    }

    /// Gives each lane the state of a warp.
    pub(super) fn exchange(&mut self, slots: &[(usize, String)], warps: usize, body: &mut Vec<Stmt>) {
        let (mut left, mut found) = (Vec::new(), Vec::new());
        for (own, line) in slots {
            let (name, ty) = (format!("all_{}", self.nest.variables[*own].name), self.nest.variables[*own].ty);
            let all = self.declared_as(name, ty, Spread::Warps(warps), false);
            body.push(Stmt::Begin(vec![(all, None)]));
            left.push(set(all, Origin::Variable(*own), line));
            found.push(set(*own, Origin::OfWarp(all), line));
        }
        body.push(Stmt::If { when: term(IS_FIRST_LANE, [('l', known(Known::Lane))]), body: left });
        body.push(Stmt::Barrier);
        body.extend(found);
    }
}

fn set(variable: usize, from: Origin, line: &str) -> Stmt {
    Stmt::Set { variable, term: copy(plain(from)), note: line.to_owned() }
}
