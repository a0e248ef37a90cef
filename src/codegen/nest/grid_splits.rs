//! Split reductions of blocks of threads: the nest of parts of rows, and that which merges what
//! parts have left.
//!
//! ```text
//! for each part of each row, a thread each         for each row, a warp each
//!   locate the row in in0                            locate the row in out0
//!   variable a_s = 0                                 variable a_s = 0
//!   for each element of the part                     for each part of the row, the lanes in turn
//!     locate the element in in0                        a_s = a_s + slot 0
//!     a_s = a_s + v_x                                …                           merges of a_s
//!   leave a_s in slot 0                              if lane == 0: out0[0] = v_s
//! ```
//!
//! Later phases have the same two nests each, where a softmax over interleaved rows has three:
//!
//! ```text
//! for each part of each row                        the second: v_m = slot 0, merged; a_s = 0
//!   v_m = slot 0, merged                           the third: v_m = slot 0, merged
//!   v_s = slot 1, merged                                      v_s = slot 1, merged
//!   for each element of the part
//!     out0[…] = …
//! ```
//!
//! Rows by blocks have a block for a part, and the threads of a block for the parts of a row.
//! Rows by threads have a warp for what they leave: there may be 256 parts of each of 1,024 rows,
//! and threads that each add up as many leave most of a device idle.

use super::build::{Builder, copy, known, plain, term, with_letter};
use super::state_rules::IS_FIRST_THREAD;
use super::{Axis, Bind, Compute, For, Known, Origin, Split, Spread, Stmt};
use crate::codegen::kernel_plan::{Grid, RowsBy, WARP};
use crate::codegen::number_type::NumberType;

impl Builder<'_> {
    /// The loop of a phase over rows, or over parts of them.
    pub(super) fn split_on_grid(&mut self, (split, phase): (Split, usize), grid: Grid) {
        (self.nest.threads, self.nest.split) = (Some(grid.threads), Some(split));
        self.nest.slots = self.slots_before(self.loops.phases);
        let mut body = self.begin_row();
        let by_warp = self.takes_rows_by_warp();
        // All threads of a warp, or of a block, compute what is of the row.
        let grid = if by_warp { Grid { rows: RowsBy::Block, ..grid } } else { grid };
        self.row_of_phase(0, grid, split == Split::Merge && phase == 0, &mut body);
        (0..phase).for_each(|earlier| self.recall(earlier, grid, &mut body));
        let aims = self.loops.aims(phase);
        let reduced = self.reduced_in(phase);
        reduced.iter().for_each(|&k| self.begin_state(k, &mut body));
        let bind = if grid.rows == RowsBy::Block { Bind::Thread } else { Bind::Serial };
        match (split, self.wide) {
            (Split::Parts, Some(wide)) => self.wide_elements((phase, &aims), wide, &mut body),
            (Split::Parts, None) => {
                let mut inner = self.located();
                self.element(phase, &aims, &mut inner);
                body.push(For::over(Axis::Elements, bind, inner));
            }
            (Split::Merge, _) => {
                let mut inner = Vec::new();
                self.each_slot(phase, &mut |builder, k, first| builder.merge_slots(k, first, &mut inner));
                body.push(For::over(Axis::Shares, bind, inner));
            }
        }
        if grid.rows == RowsBy::Block && !reduced.is_empty() {
            let threads = if by_warp { WARP } else { grid.threads };
            self.merge_threads(&reduced, threads, &mut body);
        }
        self.settle_shifted(&reduced, &mut body);
        match split {
            Split::Parts => self.leave(phase, grid, &mut body),
            Split::Merge => {
                reduced.iter().for_each(|&k| self.finish_on_grid(k, &mut body));
                self.leave_merged(phase, &mut body);
                self.row_of_phase(phase + 1, grid, true, &mut body);
            }
        }
        let bind = match grid.rows {
            RowsBy::Block if by_warp => Bind::Warp,
            RowsBy::Block => Bind::Block,
            RowsBy::Thread => Bind::Grid,
        };
        self.nest.body.push(For::over(Axis::Rows, bind, body));
    }

    /// The slots of the reductions of all phases before one.
    fn slots_before(&self, phase: usize) -> usize {
        let reduced = (0..phase).flat_map(|earlier| self.reduced_in(earlier));
        reduced.map(|k| self.monoid_on_grid(k).slots.len()).sum()
    }

    /// Visits the reductions of a phase with the number of their first slot.
    fn each_slot(&mut self, phase: usize, visit: &mut dyn FnMut(&mut Self, usize, usize)) {
        let mut first = self.slots_before(phase);
        for k in self.reduced_in(phase) {
            visit(self, k, first);
            first += self.monoid_on_grid(k).slots.len();
        }
    }

    /// Leaves the results of a phase for later launches, in the slots that it has merged: the first
    /// lane has read those of the first part, and is the only one that did.
    fn leave_merged(&mut self, phase: usize, body: &mut Vec<Stmt>) {
        if (phase + 1..self.loops.phases).all(|later| self.loops.aims(later).is_empty()) {
            return;
        }
        let mut left = Vec::new();
        self.each_slot(phase, &mut |builder, k, first| {
            let ty = builder.type_of_result(k);
            let name = format!("left{}", &builder.kernel.reductions[k].name[1..]);
            let variable = builder.declared_as(name, ty, Spread::One, true);
            left.push(Stmt::Begin(vec![(variable, Some(copy(plain(Origin::Value(builder.reduced(k))))))]));
            left.push(Stmt::Leave { variable, slot: first });
        });
        body.push(Stmt::If { when: self.is_first(), body: left });
    }

    /// Reads the results of an earlier phase, and computes what follows from them.
    fn recall(&mut self, phase: usize, grid: Grid, body: &mut Vec<Stmt>) {
        self.each_slot(phase, &mut |builder, k, first| {
            let term = copy(plain(Origin::Merged(first, builder.type_of_result(k))));
            let (value, note) = (builder.reduced(k), builder.kernel.reductions[k].line.clone());
            body.push(Stmt::Let { value, compute: Compute::Finish { term, rounded: None }, note });
        });
        self.row_of_phase(phase + 1, grid, false, body);
    }

    fn type_of_result(&self, k: usize) -> NumberType {
        NumberType::of_values(self.kernel.reductions[k].out)
    }

    /// Leaves the states of a part, if the phase reduces.
    fn leave(&mut self, phase: usize, grid: Grid, body: &mut Vec<Stmt>) {
        let mut left = Vec::new();
        self.each_slot(phase, &mut |builder, k, first| {
            let name = &builder.kernel.reductions[k].name;
            for (at, slot) in builder.monoid_on_grid(k).slots.iter().enumerate() {
                let variable = builder.variable(slot.role.letter(), name);
                left.push(Stmt::Leave { variable, slot: first + at });
            }
        });
        match grid.rows {
            RowsBy::Block if left.is_empty() => {}
            RowsBy::Thread => body.extend(left),
            RowsBy::Block => {
                body.push(Stmt::If { when: term(IS_FIRST_THREAD, [('t', known(Known::Thread))]), body: left });
            }
        }
    }

    /// Merges what a part has left into the state of a reduction.
    fn merge_slots(&mut self, k: usize, first: usize, body: &mut Vec<Stmt>) {
        let (monoid, name) = (self.monoid_on_grid(k), self.kernel.reductions[k].name.clone());
        let found = |letter: char| {
            let at = monoid.slots.iter().position(|slot| slot.role.letter().to_ascii_uppercase() == letter)?;
            Some(plain(Origin::Found(first + at, monoid.slots[at].ty)))
        };
        let operand = |builder: &Builder<'_>, letter: char| match letter {
            'x' => None,
            letter if letter.is_uppercase() => found(letter),
            letter => builder.names.get(&with_letter(letter, &name)).map(|_| builder.of(letter, &name)),
        };
        let begin = body.len();
        self.combine((&monoid, k), &operand, body);
        body[begin..].iter_mut().for_each(|stmt| super::grid_nests::note(stmt, &self.kernel.reductions[k].line));
    }
}
