//! Scans of rows by blocks of threads.
//!
//! A thread that computes a row has the state in a variable. A block takes a chunk of as many
//! elements as it has threads: each lane of a warp merges its element with the state of the lane
//! before it, then with that of two lanes before, four, and so on. The last lane of each warp
//! leaves in shared memory what its warp adds up to, and each warp scans those in the same way. The
//! state after the chunk is carried to the next one:
//!
//! ```text
//! variable r_y = 0
//! for each chunk of the row, an element a thread
//!   variable p_y = 0
//!   if element < end: p_y = p_y + v_x
//!   for each distance between 32 lanes, unrolled
//!     variable before_p_y = p_y of lane - distance
//!     if lane >= distance: p_y = before_p_y + p_y
//!   if lane == 31: all_p_y[warp] = p_y
//!   barrier
//!   variable warp_p_y = all_p_y[lane]
//!   for each distance between 8 lanes, unrolled
//!     …                                            the same of warp_p_y
//!   variable warps_before_p_y = warp_p_y of lane warp - 1
//!   if warp > 0: p_y = warps_before_p_y + p_y
//!   variable last_p_y = warp_p_y of lane 7
//!   p_y = r_y + p_y
//!   r_y = r_y + last_p_y
//!   barrier                                        the next chunk overwrites all_p_y
//!   if element < end: v_y = p_y, out0[i] = v_y
//! ```
//!
//! Threads that take several elements at once, see `wide_nests.rs`, add up their own ones and
//! exchange what is before those; a row that has a warp alone needs no shared memory:
//!
//! ```text
//! for each of 4 rounds, unrolled
//!   variable p_y = 0
//!   if first < end, for each of 4 elements: p_y = p_y + v_x
//!   …                                                p_y of all lanes up to this one, as above
//!   variable last_p_y = p_y of lane 31
//!   p_y = p_y of the lane before, 0 of the first one
//!   p_y = r_y + p_y
//!   r_y = r_y + last_p_y
//!   if first < end
//!     variable upto_p_y = p_y
//!     for each of 4 elements: upto_p_y = upto_p_y + v_x, v_y = upto_p_y, out0[i] = v_y
//!     deliver 4 elements of out0
//! ```
//!
//! Where rows are few and long, two launches take parts of them: in the first one each block leaves
//! what its part adds up to, in the second one it adds up what the parts before its own have left,
//! and goes on from there.
//!
//! The order of additions depends on the number of threads, on sizes and on alignment only. Sums of
//! doubles near the largest one may overflow in another order than one after the other. Products of
//! real numbers may overflow or vanish much sooner: their rows go to a thread each.

use super::build::{Builder, constant, copy, known, plain, term, with_letter};
use super::state_rules::{HAS_WARP_BEFORE, IS_BEHIND, IS_FIRST_THREAD, IS_IN_ROW, IS_LAST_LANE, LONG_PRODUCT, SUM};
use super::wide_nests::{OfPhase, in_row};
use super::{Axis, Bind, Compute, For, Known, Origin, Split, Spread, Stmt, Term, Whole};
use crate::codegen::kernel::Source;
use crate::codegen::kernel_plan::{Grid, RowsBy, WARP, Wide};
use crate::codegen::loop_structure::Aim;
use crate::codegen::monoid::{Monoid, Slot};
use crate::ops::recipes::ReduceOp;
use std::collections::BTreeSet;

/// The elements whose state a thread has after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upto {
    /// Those up to its own one.
    Own,
    /// Those before its own ones.
    Before,
}

impl Builder<'_> {
    /// The states of the scans of a phase, which begin with a row. A later phase computes a scan
    /// again, with a state of its own.
    pub(super) fn begin_scans(&mut self, phase: usize, aims: &[Aim], body: &mut Vec<Stmt>) -> Vec<usize> {
        let steps = self.loops.steps(phase, aims);
        let scans: Vec<usize> = steps.into_iter().filter(|&i| self.kernel.steps[i].scan.is_some()).collect();
        for &i in &scans {
            self.begin_scan('r', i, phase, body);
        }
        scans
    }

    fn begin_scan(&mut self, letter: char, i: usize, phase: usize, body: &mut Vec<Stmt>) -> Option<usize> {
        let Slot { ty, initial, .. } = self.slot_of_scan(i)?;
        let variable = self.declared_as(self.name_of_scan(letter, i, phase), ty, Spread::One, false);
        body.push(Stmt::Begin(vec![(variable, Some(constant(initial)))]));
        Some(variable)
    }

    fn slot_of_scan(&self, i: usize) -> Option<Slot> {
        let step = &self.kernel.steps[i];
        Monoid::of_scan(step.scan.as_ref()?.op, step).slots.pop()
    }

    fn name_of_scan(&self, letter: char, i: usize, phase: usize) -> String {
        let name = with_letter(letter, &self.kernel.steps[i].name);
        if phase == 0 { name } else { format!("{name}_phase{phase}") }
    }

    /// The value of a scan at an element: a thread that has the row takes the element first.
    pub(super) fn scanned(&mut self, i: usize, phase: usize, body: &mut Vec<Stmt>) {
        let by_block = self.loops.plan.grid.is_some_and(|grid| grid.rows == RowsBy::Block);
        let letter = if by_block { 'p' } else { 'r' };
        // The builder has made it; the verifier refuses a nest that has another one.
        let variable = self.names.get(&self.name_of_scan(letter, i, phase)).copied().unwrap_or_default();
        if !by_block {
            self.run_on(i, variable, body);
        }
        body.push(self.value_of_scan(i, variable));
    }

    fn value_of_scan(&self, i: usize, variable: usize) -> Stmt {
        let step = &self.kernel.steps[i];
        let (term, note) = (copy(plain(Origin::Variable(variable))), step.line.clone());
        let compute = Compute::Finish { term, rounded: self.rounded(step.out, Source::Step(i)) };
        Stmt::Let { value: self.step(i), compute, note }
    }

    /// What the elements before the row add up to, in the first round.
    pub(super) fn begin_state_of_row(&mut self, i: usize, phase: usize, body: &mut Vec<Stmt>) {
        self.begin_scan('r', i, phase, body);
    }

    /// What threads that take several elements exchange before they compute those of a round: what
    /// all elements before their own add up to.
    pub(super) fn scans_of_round(&mut self, number: usize, phase: &OfPhase) -> Vec<Stmt> {
        let (mut round, wide) = (Vec::new(), self.wide);
        for i in self.scans_of(phase) {
            let Some(own) = self.begin_scan('p', i, number, &mut round) else { continue };
            let aims = [Aim::Total(i)];
            let total = self.of_aims(&aims, &phase.read);
            let group = self.wide_group(&total, (number, &aims));
            round.push(in_row(Whole::Row, group));
            let carried = self.names[&self.name_of_scan('r', i, number)];
            let threads = self.nest.threads.unwrap_or(WARP) / wide.map_or(1, |wide| wide.rows);
            self.scan_of_block(i, (own, carried), (threads, Upto::Before), &mut round);
        }
        round
    }

    /// Takes an element into what those of a thread add up to.
    pub(super) fn take_into_scan(&mut self, i: usize, phase: usize, lane: &mut Vec<Stmt>) {
        let own = self.names.get(&self.name_of_scan('p', i, phase)).copied().unwrap_or_default();
        self.run_on(i, own, lane);
    }

    /// The values of a scan at the elements of a thread, which begins with what is before them.
    pub(super) fn run_along(&mut self, i: usize, phase: usize, group: &mut Vec<Stmt>, lane: &mut Vec<Stmt>) {
        let own = self.names.get(&self.name_of_scan('p', i, phase)).copied().unwrap_or_default();
        let upto = self.made_like("upto", own, Origin::Variable(own), group);
        self.run_on(i, upto, lane);
        lane.push(self.value_of_scan(i, upto));
    }

    /// The loop over the chunks of a row.
    pub(super) fn scan_by_block(
        &mut self,
        (phase, aims): (usize, &[Aim]),
        scans: &[usize],
        threads: usize,
        body: &mut Vec<Stmt>,
    ) {
        let mut chunk = Vec::new();
        for &i in scans {
            let Some(own) = self.begin_scan('p', i, phase, &mut chunk) else { continue };
            let mut taken = self.located();
            self.element(phase, &[Aim::Total(i)], &mut taken);
            self.run_on(i, own, &mut taken);
            chunk.push(self.in_row(taken));
            let carried = self.names[&self.name_of_scan('r', i, phase)];
            self.scan_of_block(i, (own, carried), (threads, Upto::Own), &mut chunk);
        }
        let mut last = self.located();
        self.element(phase, aims, &mut last);
        chunk.push(self.in_row(last));
        body.push(For::over(Axis::Chunks, Bind::Serial, chunk));
    }

    /// The statements of threads that have an element.
    fn in_row(&self, body: Vec<Stmt>) -> Stmt {
        Stmt::If { when: term(IS_IN_ROW, [('j', known(Known::Element)), ('c', known(Known::End))]), body }
    }

    /// What takes two states of a scan together, the earlier one first.
    fn both(&self, i: usize, earlier: Origin, later: Origin) -> Term {
        let is_product = self.kernel.steps[i].scan.as_ref().is_some_and(|scan| scan.op == ReduceOp::Product);
        term(if is_product { LONG_PRODUCT } else { SUM }, [('a', plain(earlier)), ('x', plain(later))])
    }

    /// Sets a variable of a scan.
    fn set_of_scan(&self, i: usize, variable: usize, term: Term) -> Stmt {
        Stmt::Set { variable, term, note: self.kernel.steps[i].line.clone() }
    }

    /// Makes another variable of the type of a variable.
    fn made_like(&mut self, word: &str, own: usize, from: Origin, body: &mut Vec<Stmt>) -> usize {
        let (name, ty) = (format!("{word}_{}", self.nest.variables[own].name), self.nest.variables[own].ty);
        let made = self.declared_as(name, ty, Spread::One, false);
        body.push(Stmt::Begin(vec![(made, Some(copy(plain(from))))]));
        made
    }

    /// Makes the state of a lane that of all lanes up to its own.
    fn scan_of_lanes(&mut self, i: usize, own: usize, lanes: usize, body: &mut Vec<Stmt>) {
        let mut distance = Vec::new();
        let before = self.made_like("before", own, Origin::Before(own), &mut distance);
        let when = term(IS_BEHIND, [('t', known(Known::Lane)), ('h', known(Known::Distance))]);
        let taken = self.both(i, Origin::Variable(before), Origin::Variable(own));
        distance.push(Stmt::If { when, body: vec![self.set_of_scan(i, own, taken)] });
        body.push(For::over(Axis::Distances(lanes), Bind::Unroll, distance));
    }

    /// Makes the state of a thread that of all elements up to its own, or of those before: of this
    /// chunk, and of those before.
    fn scan_of_block(
        &mut self,
        i: usize,
        (own, carried): (usize, usize),
        (threads, upto): (usize, Upto),
        body: &mut Vec<Stmt>,
    ) {
        let warps = threads / WARP;
        self.scan_of_lanes(i, own, WARP, body);
        let last_lane = Origin::OfLane(own, WARP - 1);
        let of_warp = (warps == 1).then(|| self.made_like("last", own, last_lane, body));
        let warp = (warps > 1).then(|| self.scan_of_warps(i, own, warps, body));
        if upto == Upto::Before {
            self.step_back(i, own, body);
        }
        let of_block = warp.map(|warp| self.take_warps_before(i, (own, warp), warps, body));
        let last = of_block.or(of_warp).unwrap_or(own);
        let taken = self.both(i, Origin::Variable(carried), Origin::Variable(own));
        body.push(self.set_of_scan(i, own, taken));
        let taken = self.both(i, Origin::Variable(carried), Origin::Variable(last));
        body.push(self.set_of_scan(i, carried, taken));
        body.extend((warps > 1).then_some(Stmt::Barrier));
    }

    /// Scans what the warps of a block add up to, in each of them.
    fn scan_of_warps(&mut self, i: usize, own: usize, warps: usize, body: &mut Vec<Stmt>) -> usize {
        let (name, ty) = (format!("all_{}", self.nest.variables[own].name), self.nest.variables[own].ty);
        let all = self.declared_as(name, ty, Spread::Warps(warps), false);
        let leave = self.set_of_scan(i, all, copy(plain(Origin::Variable(own))));
        body.push(Stmt::Begin(vec![(all, None)]));
        body.push(Stmt::If { when: term(IS_LAST_LANE, [('l', known(Known::Lane))]), body: vec![leave] });
        body.push(Stmt::Barrier);
        let warp = self.made_like("warp", own, Origin::OfWarp(all), body);
        self.scan_of_lanes(i, warp, warps, body);
        warp
    }

    /// Takes the warps before into the state of a thread. The result is what all warps add up to.
    fn take_warps_before(
        &mut self,
        i: usize,
        (own, warp): (usize, usize),
        warps: usize,
        body: &mut Vec<Stmt>,
    ) -> usize {
        let before = self.made_like("warps_before", own, Origin::OfWarpBefore(warp), body);
        let taken = self.both(i, Origin::Variable(before), Origin::Variable(own));
        let when = term(HAS_WARP_BEFORE, [('w', known(Known::Warp))]);
        body.push(Stmt::If { when, body: vec![self.set_of_scan(i, own, taken)] });
        self.made_like("last", own, Origin::OfLane(warp, warps - 1), body)
    }

    /// Makes the state of a lane that of the lane before it, and of the first one that of nothing.
    fn step_back(&mut self, i: usize, own: usize, body: &mut Vec<Stmt>) {
        let Some(slot) = self.slot_of_scan(i) else { return };
        let mut once = Vec::new();
        let before = self.made_like("lane_before", own, Origin::Before(own), &mut once);
        once.push(self.set_of_scan(i, own, constant(slot.initial)));
        let when = term(IS_BEHIND, [('t', known(Known::Lane)), ('h', known(Known::Distance))]);
        let taken = copy(plain(Origin::Variable(before)));
        once.push(Stmt::If { when, body: vec![self.set_of_scan(i, own, taken)] });
        body.push(For::over(Axis::Distances(2), Bind::Unroll, once));
    }

    /// Makes the state of each thread what those of all threads of a block add up to.
    fn whole_of_block(&mut self, i: usize, own: usize, threads: usize, body: &mut Vec<Stmt>) {
        let (warps, slots) = (threads / WARP, [(own, self.kernel.steps[i].line.clone())]);
        self.whole_of_lanes(i, own, WARP, body);
        if warps > 1 {
            self.exchange(&slots, warps, body);
            self.whole_of_lanes(i, own, warps, body);
        }
        body.push(self.set_of_scan(i, own, copy(plain(Origin::OfFirst(own)))));
        body.extend((warps > 1).then_some(Stmt::Barrier));
    }

    fn whole_of_lanes(&mut self, i: usize, own: usize, lanes: usize, body: &mut Vec<Stmt>) {
        let mut half = Vec::new();
        let other = self.made_like("other", own, Origin::Partner(own), &mut half);
        let taken = self.both(i, Origin::Variable(own), Origin::Variable(other));
        half.push(self.set_of_scan(i, own, taken));
        body.push(For::over(Axis::Halves(lanes), Bind::Unroll, half));
    }

    /// The loop over parts of rows of one of two launches.
    pub(super) fn scans_of_parts(&mut self, launch: usize, grid: Grid) {
        (self.nest.threads, self.nest.split) = (Some(grid.threads), Some(Split::Parts));
        let aims = self.loops.aims(0);
        let mut body = self.begin_row();
        self.row_of_phase(0, grid, false, &mut body);
        let scans = match launch {
            0 => self.wholes_of_part(&aims, grid, &mut body),
            _ => {
                let scans = self.begin_scans(0, &aims, &mut body);
                scans.iter().enumerate().for_each(|(slot, &i)| self.go_on(slot, i, grid, &mut body));
                match self.wide {
                    Some(wide) => self.wide_part(&aims, wide, &mut body),
                    None => self.scan_by_block((0, &aims), &scans, grid.threads, &mut body),
                }
                scans
            }
        };
        self.nest.slots = scans.len();
        self.nest.body.push(For::over(Axis::Rows, Bind::Block, body));
    }

    /// Leaves what a part adds up to, in a slot for each scan.
    fn wholes_of_part(&mut self, aims: &[Aim], grid: Grid, body: &mut Vec<Stmt>) -> Vec<usize> {
        let steps = self.loops.steps(0, aims);
        let scans: Vec<usize> = steps.into_iter().filter(|&i| self.kernel.steps[i].scan.is_some()).collect();
        let own: Vec<usize> = scans.iter().filter_map(|&i| self.begin_scan('p', i, 0, body)).collect();
        let totals: Vec<Aim> = scans.iter().map(|&i| Aim::Total(i)).collect();
        match self.wide {
            Some(wide) => self.wide_part(&totals, wide, body),
            None => {
                let mut inner = self.located();
                self.element(0, &totals, &mut inner);
                scans.iter().zip(&own).for_each(|(&i, &own)| self.run_on(i, own, &mut inner));
                body.push(For::over(Axis::Elements, Bind::Thread, inner));
            }
        }
        scans.iter().zip(&own).for_each(|(&i, &own)| self.whole_of_block(i, own, grid.threads, body));
        let left = own.iter().enumerate().map(|(slot, &variable)| Stmt::Leave { variable, slot }).collect();
        body.push(Stmt::If { when: term(IS_FIRST_THREAD, [('t', known(Known::Thread))]), body: left });
        scans
    }

    /// The loop over the elements of a part, several of which a thread takes at once.
    fn wide_part(&mut self, aims: &[Aim], wide: Wide, body: &mut Vec<Stmt>) {
        let phase = self.of_aims(aims, &BTreeSet::new());
        self.spans((&phase, (0, aims)), wide, body);
    }

    /// Makes the carried state of a scan what the parts before this one add up to.
    fn go_on(&mut self, slot: usize, i: usize, grid: Grid, body: &mut Vec<Stmt>) {
        let carried = self.names[&self.name_of_scan('r', i, 0)];
        let found = Origin::Found(slot, self.nest.variables[carried].ty);
        let taken = self.both(i, Origin::Variable(carried), found);
        let inner = vec![self.set_of_scan(i, carried, taken)];
        body.push(For::over(Axis::SharesBefore, Bind::Thread, inner));
        self.whole_of_block(i, carried, grid.threads, body);
    }
}
