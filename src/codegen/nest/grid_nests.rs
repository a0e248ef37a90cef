//! Nests of blocks of threads: rows by threads or by blocks, as the plan says.
//!
//! A point of a kernel without reductions is a row without elements, which a thread computes.
//! Interleaved rows go to a thread each as well: neighbouring threads read neighbouring elements.
//! Rows along memory go to a block each. Its threads take elements in turn, each into a state of
//! its own; the states are merged, see `grid_merges.rs`, and all threads have the one that is left:
//!
//! ```text
//! for each row, a block of threads each
//!   locate the row in in0, out0
//!   variable a_s = 0
//!   for each element of the row, the threads of the block in turn
//!     locate the element in in0
//!     a_s = a_s + v_x                              # %s : Float(*) = aten::sum(%x, …)
//!   …                                              merges of a_s
//!   if thread == 0: out0[0] = v_s
//! ```
//!
//! The order in which elements are combined follows from the number of threads and the sizes, so
//! that results are the same on every device. Variances of doubles and indices of extrema have no
//! step of their own: an element goes in as the state of a row of one element. Those of floats have
//! sums, see `grid_variances.rs`.

use super::build::{Builder, constant, known, plain, term, with_letter, zero};
use super::grid_variances::{SUMS, number};
use super::row_nests::over_state;
use super::state_rules::{IS_FIRST_LANE, IS_FIRST_THREAD, IS_NAN, SQUARES_OF_INFINITE};
use super::{Axis, Bind, Compute, For, Known, Operand, Origin, Split, Spread, Stmt, Term};
use crate::codegen::kernel::{Direction, Source};
use crate::codegen::kernel_plan::{Grid, RowsBy};
use crate::codegen::loop_structure::{Aim, source_of};
use crate::codegen::monoid::Monoid;
use crate::codegen::number_type::NumberType;
use crate::tensor::Scalar;
use std::collections::BTreeSet;

impl Builder<'_> {
    /// The loop over rows.
    pub(super) fn rows_on_grid(&mut self, grid: Grid) {
        self.nest.threads = Some(grid.threads);
        if self.has_points() {
            self.nest.accesses.iter_mut().for_each(|access| access.is_of_row = true);
        }
        if let Some(wide) = self.wide.filter(|wide| wide.groups > 1) {
            return self.groups_of_points(wide);
        }
        let mut body = self.begin_row();
        for phase in 0..self.loops.phases {
            self.row_of_phase(phase, grid, true, &mut body);
            let aims = self.loops.aims(phase);
            match aims.is_empty() {
                true => {}
                false if self.has_points() && self.wide.is_some() => self.wide_points(&aims, &mut body),
                false if self.has_points() => self.element(phase, &aims, &mut body),
                false => self.elements_on_grid((phase, &aims), grid, &mut body),
            }
        }
        let bind = match grid.rows {
            RowsBy::Block if self.takes_rows_by_warp() => Bind::Warp,
            RowsBy::Block => Bind::Block,
            RowsBy::Thread => Bind::Grid,
        };
        self.nest.body.push(For::over(Axis::Rows, bind, body));
    }

    /// Whether a block computes several rows at the same time, a warp each.
    pub(super) fn takes_rows_by_warp(&self) -> bool {
        let is_merge = self.nest.split == Some(Split::Merge);
        let merges = is_merge && self.loops.plan.grid.is_some_and(|grid| grid.rows == RowsBy::Thread);
        merges || self.wide.is_some_and(|wide| wide.rows > 1)
    }

    /// Whether a thread is the one that writes the results that a row has one of.
    pub(super) fn is_first(&self) -> Term {
        match self.takes_rows_by_warp() {
            true => term(IS_FIRST_LANE, [('l', known(Known::Lane))]),
            false => term(IS_FIRST_THREAD, [('t', known(Known::Thread))]),
        }
    }

    /// Finds where accesses are at a row, and loads what is of rows.
    pub(super) fn begin_row(&mut self) -> Vec<Stmt> {
        let mut body = Vec::new();
        if let Some(wide) = self.wide {
            self.begin_wide(wide, &mut body);
        }
        let accesses: Vec<usize> = (0..self.kernel.accesses()).collect();
        let loads = (0..self.kernel.loads.len()).filter(|&k| self.is_of_row(Source::Load(k)));
        let located = Stmt::Locate { accesses, at: Axis::Rows };
        body.extend(std::iter::once(located).chain(loads.map(|k| self.load(k))));
        body
    }

    /// Whether rows are single points.
    pub(super) fn has_points(&self) -> bool {
        self.loops.traversal.direction == Direction::Points
    }

    fn is_of_row(&self, source: Source) -> bool {
        self.loops.is_of_row(source)
    }

    /// Steps of rows in a phase, and their stores. All threads of a block compute them, one stores.
    pub(super) fn row_of_phase(&mut self, phase: usize, grid: Grid, stores: bool, body: &mut Vec<Stmt>) {
        let kernel = self.kernel;
        let is_here = |source: Source| self.kernel.phase(source) == phase;
        let steps = (0..kernel.steps.len()).filter(|&i| self.loops.of_row[i] && is_here(Source::Step(i)));
        body.extend(steps.map(|i| self.applied_on_grid(i)).collect::<Vec<_>>());
        let writes = |&k: &usize| self.loops.traversal.writes_rows(kernel, k) && is_here(kernel.stores[k].source);
        let mut stored = Vec::new();
        (0..kernel.stores.len()).filter(|_| stores).filter(writes).for_each(|k| self.store(k, &mut stored));
        match grid.rows {
            RowsBy::Block if !stored.is_empty() => body.push(Stmt::If { when: self.is_first(), body: stored }),
            _ => body.extend(stored),
        }
    }

    pub(super) fn applied_on_grid(&self, i: usize) -> Stmt {
        Stmt::Let { value: self.step(i), compute: self.applied(i), note: self.kernel.steps[i].line.clone() }
    }

    /// The loop over the elements of a row, with the states of its reductions.
    fn elements_on_grid(&mut self, (phase, aims): (usize, &[Aim]), grid: Grid, body: &mut Vec<Stmt>) {
        let reduced = self.reduced_in(phase);
        for &k in &reduced {
            self.begin_state(k, body);
        }
        match self.wide {
            Some(wide) => self.wide_elements((phase, aims), wide, body),
            None => self.single_elements((phase, aims), grid, body),
        }
        if grid.rows == RowsBy::Block && !reduced.is_empty() {
            let threads = grid.threads / self.wide.map_or(1, |wide| wide.rows);
            self.merge_threads(&reduced, threads, body);
        }
        self.settle_shifted(&reduced, body);
        for k in reduced {
            self.finish_on_grid(k, body);
        }
    }

    /// The loop of threads that take an element at a time.
    fn single_elements(&mut self, (phase, aims): (usize, &[Aim]), grid: Grid, body: &mut Vec<Stmt>) {
        let scans = self.begin_scans(phase, aims, body);
        if grid.rows == RowsBy::Block && !scans.is_empty() {
            return self.scan_by_block((phase, aims), &scans, grid.threads, body);
        }
        let mut inner = self.located();
        self.element(phase, aims, &mut inner);
        let bind = if grid.rows == RowsBy::Block { Bind::Thread } else { Bind::Serial };
        body.push(For::over(Axis::Elements, bind, inner));
    }

    /// The reductions of a phase.
    pub(super) fn reduced_in(&self, phase: usize) -> Vec<usize> {
        let reduced = |aim: Aim| if let Aim::Reduce(k) = aim { Some(k) } else { None };
        self.loops.aims(phase).into_iter().filter_map(reduced).collect()
    }

    /// Finds where accesses are at an element; none moves along a row of one element.
    pub(super) fn located(&self) -> Vec<Stmt> {
        let moving: Vec<usize> = (0..self.kernel.accesses()).filter(|&at| !self.nest.accesses[at].is_of_row).collect();
        let located = (!moving.is_empty()).then_some(Stmt::Locate { accesses: moving, at: Axis::Elements });
        located.into_iter().collect()
    }

    /// The steps that some aims compute at one element.
    pub(super) fn element(&mut self, phase: usize, aims: &[Aim], body: &mut Vec<Stmt>) {
        let kernel = self.kernel;
        let mut loaded = BTreeSet::new();
        for i in self.loops.steps(phase, aims) {
            for input in &kernel.steps[i].inputs {
                self.load_once(input.source, &mut loaded, body);
            }
            match kernel.steps[i].scan {
                Some(_) => self.scanned(i, phase, body),
                None => body.push(self.applied_on_grid(i)),
            }
        }
        for &aim in aims {
            self.load_once(source_of(kernel, aim), &mut loaded, body);
            match aim {
                Aim::Store(k) => self.store(k, body),
                Aim::Reduce(k) => self.take_element(k, body),
                // Plans for grids keep nothing, and have no other aims.
                _ => {}
            }
        }
    }

    fn load_once(&self, source: Source, loaded: &mut BTreeSet<usize>, body: &mut Vec<Stmt>) {
        if let Source::Load(k) = source
            && !self.is_of_row(source)
            && loaded.insert(k)
        {
            body.push(self.load(k));
        }
    }

    /// The state of a reduction, of no elements.
    pub(super) fn begin_state(&mut self, k: usize, body: &mut Vec<Stmt>) {
        for slot in self.monoid_on_grid(k).slots {
            let name = with_letter(slot.role.letter(), &self.kernel.reductions[k].name);
            let variable = self.declared_as(name, slot.ty, Spread::One, false);
            body.push(Stmt::Begin(vec![(variable, Some(constant(slot.initial)))]));
        }
        if self.is_shifted(k) {
            for (letter, ty) in SUMS {
                let name = with_letter(letter, &self.kernel.reductions[k].name);
                let variable = self.declared_as(name, ty, Spread::One, false);
                body.push(Stmt::Begin(vec![(variable, Some(zero()))]));
            }
        }
    }

    /// Extrema note NaN in a slot of their own, as they do along rows of processors.
    pub(super) fn monoid_on_grid(&self, k: usize) -> Monoid {
        Monoid::of(&self.kernel.reductions[k], true)
    }

    /// Takes an element into the state: by the step of the monoid, or as the state of a row of one
    /// element.
    pub(super) fn take_element(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let (mut monoid, reduction) = (self.monoid_on_grid(k), &self.kernel.reductions[k]);
        if reduction.op.varies() {
            // Other states may be empty, an element is not.
            monoid.when = None;
        }
        let (name, element) = (reduction.name.clone(), self.input(&reduction.input));
        match () {
            () if self.is_led(k) => return,
            () if self.is_shifted(k) => return self.take_shifted(k, element, body),
            () => {}
        }
        let mut is_nan = None;
        if monoid.step.is_empty() && monoid.slot('n').is_some() {
            let variable = self.declared_as(with_letter('o', &name), NumberType::Int, Spread::One, true);
            body.push(Stmt::Begin(vec![(variable, Some(term(IS_NAN, [('x', element)])))]));
            is_nan = Some(plain(Origin::Variable(variable)));
        }
        let operand = |builder: &Builder<'_>, letter: char| match letter {
            'x' | 'A' => Some(element),
            'K' => Some(number(Scalar::Int(1))),
            'Q' => Some(number(Scalar::Int(0))),
            'J' => Some(known(Known::Element)),
            'N' => is_nan,
            other => Some(builder.of(other, &name)),
        };
        let first = body.len();
        self.combine((&monoid, k), &operand, body);
        body[first..].iter_mut().for_each(|stmt| note(stmt, &self.kernel.reductions[k].line));
    }

    /// The statements that change a state by an element or by another state.
    pub(super) fn combine(
        &mut self,
        (monoid, k): (&Monoid, usize),
        operand: &dyn Fn(&Builder<'_>, char) -> Option<Operand>,
        body: &mut Vec<Stmt>,
    ) {
        let is_step = !monoid.step.is_empty() && operand(self, 'x').is_some();
        let updates = if is_step { monoid.step } else { monoid.merge };
        let statements = updates.iter().map(|&update| self.update((monoid, k), update, operand)).collect();
        match monoid.when.filter(|_| !is_step) {
            Some(when) => {
                let ty = monoid.slots.first().map_or(NumberType::Double, |slot| slot.ty);
                let when = over_state(when, ty, &|letter| operand(self, letter));
                body.push(Stmt::If { when, body: statements });
            }
            None => body.extend(statements),
        }
    }

    /// The result of a reduction, as a value of the row.
    pub(super) fn finish_on_grid(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let (monoid, reduction) = (self.monoid_on_grid(k), &self.kernel.reductions[k]);
        if reduction.op.varies() {
            // An infinite element that came last has only made the squares infinite.
            let operands = [('q', self.of('q', &reduction.name)), ('a', self.of('a', &reduction.name))];
            let variable = self.variable('q', &reduction.name);
            let note = reduction.line.clone();
            body.push(Stmt::Set { variable, term: term(SQUARES_OF_INFINITE, operands), note });
        }
        let operand = |letter: char| match letter {
            'c' => Some(known(Known::Count)),
            'v' => Some(number(Scalar::Float(reduction.correction))),
            'z' => Some(number(Scalar::Float(f64::NAN))),
            other => Some(self.of(other, &reduction.name)),
        };
        let ty = monoid.slots.first().map_or(NumberType::Double, |slot| slot.ty);
        let term = over_state(monoid.finish, ty, &operand);
        let compute = Compute::Finish { term, rounded: self.rounded(reduction.out, Source::Reduced(k)) };
        body.push(Stmt::Let { value: self.reduced(k), compute, note: reduction.line.clone() });
    }
}

/// Notes the IR line at the statements that set variables.
pub(super) fn note(stmt: &mut Stmt, line: &str) {
    match stmt {
        Stmt::Set { note, .. } => line.clone_into(note),
        Stmt::If { body, .. } => body.iter_mut().for_each(|stmt| note(stmt, line)),
        _ => {}
    }
}
