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
//! Rows by blocks have a block for a part, and the threads of a block for the parts of a row.
//! Rows by threads have a warp for what they leave: there may be 256 parts of each of 1,024 rows,
//! and threads that each add up as many leave most of a device idle.

use super::build::{Builder, beside, known, plain, term};
use super::state_rules::IS_FIRST_THREAD;
use super::{Axis, Bind, For, Known, Origin, Split, Stmt};
use crate::codegen::kernel_plan::{Grid, RowsBy, WARP};

impl Builder<'_> {
    /// The loop over rows, or over parts of them.
    pub(super) fn split_on_grid(&mut self, split: Split, grid: Grid) {
        (self.nest.threads, self.nest.split) = (Some(grid.threads), Some(split));
        self.nest.slots = (0..self.kernel.reductions.len()).map(|k| self.monoid_on_grid(k).slots.len()).sum();
        let mut body = self.begin_row();
        self.row_of_phase(0, grid, split == Split::Merge, &mut body);
        let aims = self.loops.aims(0);
        let reduced = self.reduced_in(0);
        reduced.iter().for_each(|&k| self.begin_state(k, &mut body));
        let by_warp = self.takes_rows_by_warp();
        // All threads of a warp, or of a block, compute what is of the row.
        let grid = if by_warp { Grid { rows: RowsBy::Block, ..grid } } else { grid };
        let bind = if grid.rows == RowsBy::Block { Bind::Thread } else { Bind::Serial };
        match (split, self.wide) {
            (Split::Parts, Some(wide)) => self.wide_elements((0, &aims), wide, &mut body),
            (Split::Parts, None) => {
                let mut inner = self.located();
                self.element(0, &aims, &mut inner);
                body.push(For::over(Axis::Elements, bind, inner));
            }
            (Split::Merge, _) => {
                let mut inner = Vec::new();
                self.each_slot(&reduced, &mut |builder, k, first| builder.merge_slots(k, first, &mut inner));
                body.push(For::over(Axis::Shares, bind, inner));
            }
        }
        if grid.rows == RowsBy::Block {
            let threads = if by_warp { WARP } else { grid.threads };
            self.merge_threads(&reduced, threads, &mut body);
        }
        self.settle_shifted(&reduced, &mut body);
        match split {
            Split::Parts => self.leave(&reduced, grid, &mut body),
            Split::Merge => {
                reduced.iter().for_each(|&k| self.finish_on_grid(k, &mut body));
                self.row_of_phase(1, grid, true, &mut body);
            }
        }
        let bind = match grid.rows {
            RowsBy::Block if by_warp => Bind::Warp,
            RowsBy::Block => Bind::Block,
            RowsBy::Thread => Bind::Grid,
        };
        self.nest.body.push(For::over(Axis::Rows, bind, body));
    }

    /// Visits reductions with the number of their first slot.
    fn each_slot(&mut self, reduced: &[usize], visit: &mut dyn FnMut(&mut Self, usize, usize)) {
        let mut first = 0;
        for &k in reduced {
            visit(self, k, first);
            first += self.monoid_on_grid(k).slots.len();
        }
    }

    /// Leaves the states of a part.
    fn leave(&mut self, reduced: &[usize], grid: Grid, body: &mut Vec<Stmt>) {
        let mut left = Vec::new();
        self.each_slot(reduced, &mut |builder, k, first| {
            let name = &builder.kernel.reductions[k].name;
            for (at, slot) in builder.monoid_on_grid(k).slots.iter().enumerate() {
                let variable = builder.variable(slot.role.letter(), name);
                left.push(Stmt::Leave { variable, slot: first + at });
            }
        });
        match grid.rows {
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
            letter => builder.names.get(&beside(letter, &name)).map(|_| builder.of(letter, &name)),
        };
        let begin = body.len();
        self.combine((&monoid, k), &operand, body);
        body[begin..].iter_mut().for_each(|stmt| super::grid_nests::note(stmt, &self.kernel.reductions[k].line));
    }
}
