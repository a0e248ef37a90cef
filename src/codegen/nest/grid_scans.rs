//! Scans of rows by blocks of threads.
//!
//! A thread that computes a row has the state in a variable. A block takes a
//! chunk of as many elements as it has threads: each thread merges its element into a state of its
//! own, then the state of the thread before it, then that of two threads before, four, and so on.
//! The state after the chunk is carried to the next one:
//!
//! ```text
//! variable r_y = 0
//! for each chunk of the row, an element a thread
//!   variable p_y = 0
//!   if element < end: p_y = p_y + v_x
//!   all_p_y[thread] = p_y
//!   barrier
//!   for each distance 1, 2, … between threads
//!     if thread >= distance: p_y = all_p_y[thread - distance] + p_y
//!     barrier
//!     all_p_y[thread] = p_y
//!     barrier
//!   p_y = r_y + p_y
//!   r_y = r_y + all_p_y[last]
//!   barrier                                        the next chunk overwrites all_p_y
//!   if element < end: v_y = p_y, out0[i] = v_y
//! ```
//!
//! The order of additions depends on the number of threads only. Sums of doubles and products have
//! other last digits in another order than one after the other: their rows go to a thread each.

use super::build::{Builder, beside, constant, copy, known, plain, term};
use super::state_rules::{IS_BEHIND, IS_IN_ROW, SUM};
use super::{Axis, Bind, Compute, For, Known, Origin, Spread, Stmt};
use crate::codegen::kernel::Source;
use crate::codegen::kernel_plan::RowsBy;
use crate::codegen::loop_structure::Aim;
use crate::codegen::monoid::{Monoid, Slot};

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
        let name = beside(letter, &self.kernel.steps[i].name);
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
        let step = &self.kernel.steps[i];
        let (term, note) = (copy(plain(Origin::Variable(variable))), step.line.clone());
        let compute = Compute::Finish { term, rounded: self.rounded(step.out, Source::Step(i)) };
        body.push(Stmt::Let { value: self.step(i), compute, note });
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
            let ty = self.nest.variables[own].ty;
            let name = format!("all_{}", self.name_of_scan('p', i, phase));
            let all = self.declared_as(name, ty, Spread::Threads(threads), false);
            body.push(Stmt::Begin(vec![(all, None)]));
            let carried = self.names[&self.name_of_scan('r', i, phase)];
            scan_of_block((own, all, carried), &self.kernel.steps[i].line, &mut chunk);
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
}

/// Makes the state of a thread that of all elements up to its own: of this chunk, in shared memory,
/// and of those before.
fn scan_of_block((own, all, carried): (usize, usize, usize), line: &str, body: &mut Vec<Stmt>) {
    let set = |variable: usize, term| Stmt::Set { variable, term, note: line.to_owned() };
    let leave = || set(all, copy(plain(Origin::Variable(own))));
    let sum = |a: Origin, x: Origin| term(SUM, [('a', plain(a)), ('x', plain(x))]);
    let when = term(IS_BEHIND, [('t', known(Known::Thread)), ('h', known(Known::Distance))]);
    let step = vec![set(own, sum(Origin::Before(all), Origin::Variable(own)))];
    let distance = vec![Stmt::If { when, body: step }, Stmt::Barrier, leave(), Stmt::Barrier];
    body.extend([leave(), Stmt::Barrier, For::over(Axis::Distances, Bind::Serial, distance)]);
    body.push(set(own, sum(Origin::Variable(carried), Origin::Variable(own))));
    body.push(set(carried, sum(Origin::Variable(carried), Origin::OfLast(all))));
    body.push(Stmt::Barrier);
}
