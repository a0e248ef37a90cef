//! Loops of threads that take several contiguous elements at once, by one access of up to 16 bytes.
//!
//! Points: a thread has as many neighbouring rows of one element. Rows by blocks or warps: in each
//! round their threads take neighbouring groups of elements, and a row that fits is kept. What is
//! read from memory is read some rounds ahead, those of a batch:
//!
//! ```text
//! for each row, a warp each
//!   buffer t_s: 16 of Float, for a thread
//!   locate the row in in0, out0
//!   variable a_m = -inf
//!   for each of 2 batches of rounds, unrolled
//!     reserve 2 x 4 elements of in0
//!     for each of 2 rounds of the batch, unrolled
//!       if first < end
//!         locate the element in in0
//!         fetch 4 elements of in0
//!     for each of 2 rounds of the batch, unrolled
//!       if first < end
//!         for each of 4 elements
//!           v_x = in0[i]
//!           v_s = v_x * 0.5
//!           t_s[i] = v_s                           kept for a later phase
//!           a_m = v_s > a_m ? v_s : a_m
//!   …                                              merges of the threads
//!   for each of 4 rounds, unrolled
//!     if first < end
//!       locate the element in out0
//!       for each of 4 elements
//!         v_s = t_s[i]                             reads no memory
//!         v_p = exp(v_s - v_m)
//!         out0[i] = v_p
//!       deliver 4 elements of out0
//! ```
//!
//! A value is computed in the first phase that needs it, and once. Rows of any length are read in
//! spans of some rounds, and computed again in each phase; points in groups of some rounds.

use super::build::{Builder, known, term};
use super::state_rules::IS_IN_ROW;
use super::{Axis, Bind, Compute, For, Known, Operand, Origin, Place, Scope, Stmt, Whole};
use crate::codegen::kernel::{Inner, Source};
use crate::codegen::kernel_plan::Wide;
use crate::codegen::loop_structure::{Aim, source_of};
use crate::tensor::DType;
use std::collections::BTreeSet;

/// Most rounds of a span.
const MOST_ROUNDS: usize = 4;

/// The work of a phase on elements, by the numbers of values: loads, then steps in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct OfPhase {
    /// The values that are read from memory, or computed.
    made: BTreeSet<usize>,
    /// The values that an earlier phase has computed.
    pub(super) read: BTreeSet<usize>,
}

/// A loop of the threads of a row: the number of its phase, and its aims.
pub(super) type Aimed<'a> = (usize, &'a [Aim]);
/// The same with its work.
pub(super) type Work<'a> = (&'a OfPhase, Aimed<'a>);

impl Builder<'_> {
    /// Makes the accesses wide that differ from element to element, and the buffers for what later
    /// phases read again. A row begins with them: with what is left of the row before, where a row
    /// is shorter than what is kept, they would take registers twice.
    pub(super) fn begin_wide(&mut self, wide: Wide, body: &mut Vec<Stmt>) {
        (self.nest.lanes, self.nest.blocks) = (wide.lanes, wide.blocks);
        let has_points = self.has_points();
        for (at, access) in self.nest.accesses.iter_mut().enumerate() {
            let moves = self.loops.traversal.inner[at] == Inner::Unit;
            access.is_wide = moves && !access.is_added_to && (has_points || !access.is_of_row);
        }
        let Some(rounds) = wide.rounds else { return };
        self.nest.is_flat = true;
        for value in self.of_phases().into_iter().flat_map(|phase| phase.read).collect::<BTreeSet<_>>() {
            let buffer = self.buffer(value, self.dtype_of(value), rounds * wide.lanes, Scope::Thread);
            self.kept.insert(value, buffer);
            body.push(Stmt::Alloc(buffer));
        }
    }

    /// The step that computes a value; none of a load.
    fn step_of(&self, value: usize) -> Option<usize> {
        value.checked_sub(self.kernel.loads.len())
    }

    /// The number of a value that elements have of their own.
    fn value_of(&self, source: Source) -> Option<usize> {
        let value = match source {
            Source::Step(i) => Some(self.step(i)),
            Source::Load(k) => Some(k),
            _ => None,
        };
        value.filter(|_| !self.loops.is_of_row(source))
    }

    fn dtype_of(&self, value: usize) -> DType {
        self.step_of(value).map_or_else(|| self.kernel.loads[value].dtype, |i| self.kernel.steps[i].out)
    }

    /// The work of each phase, where rows are kept: it computes the values that no earlier one has
    /// computed.
    fn of_phases(&self) -> Vec<OfPhase> {
        let mut made_before = BTreeSet::new();
        let mut phases = Vec::new();
        for number in 0..self.loops.phases {
            let phase = self.of_phase(number, &made_before);
            made_before.extend(&phase.made);
            phases.push(phase);
        }
        phases
    }

    /// The registers for an element that a thread keeps from one phase to the next, at most.
    pub(super) fn kept_at_once(&self) -> usize {
        let phases = self.of_phases();
        let between = |number: usize| {
            let later: BTreeSet<&usize> = phases[number..].iter().flat_map(|phase| &phase.read).collect();
            let made: BTreeSet<&usize> = phases[..number].iter().flat_map(|phase| &phase.made).collect();
            later.intersection(&made).map(|&&value| self.dtype_of(value).size().div_ceil(4)).sum()
        };
        (1..phases.len()).map(between).max().unwrap_or(0)
    }

    fn of_phase(&self, number: usize, made_before: &BTreeSet<usize>) -> OfPhase {
        self.of_aims(&self.loops.aims(number), made_before)
    }

    /// The work on elements for some aims.
    pub(super) fn of_aims(&self, aims: &[Aim], made_before: &BTreeSet<usize>) -> OfPhase {
        let mut wanted: Vec<usize> =
            aims.iter().filter_map(|&aim| self.value_of(source_of(self.kernel, aim))).collect();
        let mut phase = OfPhase::default();
        while let Some(value) = wanted.pop() {
            if made_before.contains(&value) {
                phase.read.insert(value);
            } else if phase.made.insert(value)
                && let Some(i) = self.step_of(value)
            {
                wanted.extend(self.kernel.steps[i].inputs.iter().filter_map(|input| self.value_of(input.source)));
            }
        }
        phase
    }

    /// The loops over the elements of a row.
    pub(super) fn wide_elements(&mut self, aimed: Aimed<'_>, wide: Wide, body: &mut Vec<Stmt>) {
        let phase = match wide.rounds {
            Some(_) => self.of_phases().swap_remove(aimed.0),
            None => self.of_aims(aimed.1, &BTreeSet::new()),
        };
        self.scans_of(&phase).into_iter().for_each(|i| self.begin_state_of_row(i, aimed.0, body));
        match wide.rounds {
            Some(rounds) => self.batches(rounds, (&phase, aimed), wide, body),
            None => self.spans((&phase, aimed), wide, body),
        }
    }

    /// The scans that a phase computes.
    pub(super) fn scans_of(&self, phase: &OfPhase) -> Vec<usize> {
        let steps = phase.made.iter().filter_map(|&value| self.step_of(value));
        steps.filter(|&i| self.kernel.steps[i].scan.is_some()).collect()
    }

    /// The loop over the elements of a row that is kept.
    fn batches(&mut self, rounds: usize, of: Work<'_>, wide: Wide, body: &mut Vec<Stmt>) {
        let fetched = self.fetched(of.0);
        let batch = self.batch(&fetched, rounds, wide, of.0.read.is_empty());
        match batch < rounds && !fetched.is_empty() {
            true => {
                let loops = self.rounds((batch, Whole::Batch), of, fetched);
                body.push(For::over(Axis::Batches(rounds / batch), Bind::Unroll, loops));
            }
            false => body.extend(self.rounds((rounds, Whole::Row), of, fetched)),
        }
    }

    /// The loop over the elements of a row of any length.
    pub(super) fn spans(&mut self, of: Work<'_>, wide: Wide, body: &mut Vec<Stmt>) {
        let phase = |number: usize| self.of_phase(number, &BTreeSet::new());
        let batch = |number: usize| self.batch(&self.fetched(&phase(number)), MOST_ROUNDS, wide, true);
        // All phases read an access in the same rounds.
        let count = (0..self.loops.phases).map(batch).min().unwrap_or(1);
        let fetched = self.fetched(of.0);
        let loops = self.rounds((count, Whole::Span), of, fetched);
        body.push(For::over(Axis::Spans(count), Bind::Serial, loops));
    }

    /// The accesses of which a phase reads several elements at once.
    fn fetched(&self, phase: &OfPhase) -> Vec<usize> {
        phase.made.iter().copied().filter(|&value| self.is_fetched(value)).collect()
    }

    /// Loops over some rounds, the first of which reads ahead. A scan takes elements twice, and
    /// reads them once.
    fn rounds(&mut self, (count, of): (usize, Whole), (phase, aimed): Work<'_>, fetched: Vec<usize>) -> Vec<Stmt> {
        let mut loops = Vec::new();
        if !fetched.is_empty() && (count > 1 || self.kernel.has_scan()) {
            fetched.iter().for_each(|&at| self.nest.accesses[at].ahead = count);
            loops.extend(fetched.iter().map(|&at| Stmt::Reserve(at)));
            let located = Stmt::Locate { accesses: fetched.clone(), at: Axis::Elements };
            let read = std::iter::once(located).chain(fetched.into_iter().map(Stmt::Fetch));
            loops.push(in_rounds((count, of), read.collect()));
        }
        let mut round = self.scans_of_round(aimed.0, phase);
        round.push(in_row(of, self.wide_group(phase, aimed)));
        loops.push(For::over(Axis::Rounds { count, of }, Bind::Unroll, round));
        loops
    }

    /// Whether a value is that of an access of which a thread reads several elements at once.
    fn is_fetched(&self, value: usize) -> bool {
        self.step_of(value).is_none() && self.nest.accesses[value].is_wide
    }

    /// How many rounds are read ahead: a divisor of all, for which a thread has registers in
    /// addition to those of the elements that it keeps by then.
    fn batch(&self, fetched: &[usize], rounds: usize, wide: Wide, is_first: bool) -> usize {
        let bytes = |&at: &usize| self.nest.accesses[at].dtype.size() * wide.lanes;
        let of_round: usize = fetched.iter().map(bytes).sum();
        let kept = wide.rounds.map_or(0, |_| self.kept_at_once() * wide.lanes);
        let fits = |batch: usize| {
            let before = if is_first { rounds - batch } else { rounds };
            wide.registers().is_none_or(|registers| kept * before + batch * of_round.div_ceil(4) <= registers)
        };
        let most = (wide.ahead / of_round.max(1)).clamp(1, rounds);
        (1..=most).rev().find(|&batch| rounds.is_multiple_of(batch) && fits(batch)).unwrap_or(1)
    }

    /// The points of a thread.
    pub(super) fn wide_points(&mut self, aims: &[Aim], body: &mut Vec<Stmt>) {
        let phase = self.of_phase(0, &BTreeSet::new());
        body.extend(self.wide_group(&phase, (0, aims)));
    }

    /// The points of a thread, of which it reads several groups ahead.
    pub(super) fn groups_of_points(&mut self, wide: Wide) {
        let mut body = Vec::new();
        self.begin_wide(wide, &mut body);
        let (phase, aims) = (self.of_phase(0, &BTreeSet::new()), self.loops.aims(0));
        let fetched = self.fetched(&phase);
        let (count, of) = (wide.groups, Whole::Group);
        fetched.iter().for_each(|&at| self.nest.accesses[at].ahead = count);
        body.extend(fetched.iter().map(|&at| Stmt::Reserve(at)));
        let others: Vec<usize> = (0..self.kernel.accesses()).filter(|at| !fetched.contains(at)).collect();
        let mut group: Vec<Stmt> = located(others).into_iter().collect();
        group.extend(self.wide_group(&phase, (0, &aims)));
        // A group without operands, or whose operands are one element each, reads nothing ahead.
        if let Some(first) = located(fetched.clone()) {
            let read = std::iter::once(first).chain(fetched.into_iter().map(Stmt::Fetch));
            body.push(in_rounds((count, of), read.collect()));
        }
        body.push(in_rounds((count, of), group));
        self.nest.body.push(For::over(Axis::Groups(count), Bind::Grid, body));
    }

    /// The statements of a thread on the elements that it takes at once.
    pub(super) fn wide_group(&mut self, phase: &OfPhase, (number, aims): Aimed<'_>) -> Vec<Stmt> {
        // What a scan adds up is computed again with its results, and writes none.
        let is_total = aims.iter().any(|aim| matches!(aim, Aim::Total(_)));
        let is_read = |at: &usize| *at < self.kernel.loads.len() && phase.made.contains(at);
        let moving = |at: &usize| !self.nest.accesses[*at].is_of_row && self.nest.accesses[*at].ahead == 0;
        let accesses = (0..self.kernel.accesses()).filter(moving);
        let accesses: Vec<usize> = accesses.filter(|at| !is_total || is_read(at)).collect();
        let located = (!accesses.is_empty()).then_some(Stmt::Locate { accesses, at: Axis::Elements });
        let (mut group, mut lane): (Vec<Stmt>, Vec<Stmt>) = (located.into_iter().collect(), Vec::new());
        for &value in &phase.read {
            let buffer = Place::Buffer(self.kept[&value]);
            lane.push(Stmt::Let { value, compute: Compute::Load(buffer), note: String::new() });
        }
        for &value in &phase.made {
            match self.step_of(value) {
                Some(i) if self.kernel.steps[i].scan.is_some() => self.run_along(i, number, &mut group, &mut lane),
                Some(i) => lane.push(self.applied_on_grid(i)),
                None if self.is_fetched(value) => {
                    let is_ahead = self.nest.accesses[value].ahead > 0;
                    group.extend((!is_ahead).then_some(Stmt::Fetch(value)));
                    lane.push(self.load(value));
                }
                // All of the elements that a thread takes at once read the same one.
                None => group.push(self.load(value)),
            }
            lane.extend(self.keep(value).filter(|_| !is_total));
        }
        let stored = aims.iter().filter_map(|aim| if let Aim::Store(k) = aim { Some(*k) } else { None });
        let written: Vec<usize> = stored.map(|k| self.kernel.loads.len() + k).collect();
        for &aim in aims {
            match aim {
                Aim::Store(k) => self.store(k, &mut lane),
                Aim::Reduce(k) => self.take_element(k, &mut lane),
                Aim::Total(i) => self.take_into_scan(i, number, &mut lane),
                // Plans for grids keep nothing, and have no other aims.
                _ => {}
            }
        }
        group.push(For::over(Axis::Lanes(self.nest.lanes), Bind::Unroll, lane));
        let wide = written.into_iter().filter(|&at| self.nest.accesses[at].is_wide);
        group.extend(wide.map(Stmt::Deliver).collect::<Vec<_>>());
        group
    }

    /// Keeps a value, if a later phase reads it.
    fn keep(&self, value: usize) -> Option<Stmt> {
        let (&buffer, dtype) = (self.kept.get(&value)?, self.dtype_of(value));
        let operand = Operand { origin: Origin::Value(value), from: dtype, to: dtype };
        let note = "kept for a later phase".to_owned();
        Some(Stmt::Store { to: Place::Buffer(buffer), operand, waits: true, note })
    }
}

/// The positions of accesses for a point, if there are any.
fn located(accesses: Vec<usize>) -> Option<Stmt> {
    (!accesses.is_empty()).then_some(Stmt::Locate { accesses, at: Axis::Rows })
}

/// The statements of threads in some rounds, if they have elements.
fn in_rounds((count, of): (usize, Whole), body: Vec<Stmt>) -> Stmt {
    For::over(Axis::Rounds { count, of }, Bind::Unroll, vec![in_row(of, body)])
}

/// The statements of threads that have elements in a round.
pub(super) fn in_row(of: Whole, body: Vec<Stmt>) -> Stmt {
    let (at, end) = if of == Whole::Group { (Known::Row, Known::Rows) } else { (Known::First, Known::End) };
    Stmt::If { when: term(IS_IN_ROW, [('j', known(at)), ('c', known(end))]), body }
}
