//! What is computed in which loop: rows apart from elements, a loop over the elements of a row for
//! each fold that waits for another, and within those one transcendental function to a loop.
//!
//! ```text
//! softmax:  phase 0  m = largest(x)                                      | for each row, over its
//! elements
//!           phase 1  p = exp(x - m), s = sum(p); p is carried to phase 2 | again
//!           phase 2  r = 1 / s                                           | once for a row
//!                    y = p * r                                           | again
//! ```
//!
//! What a later phase needs of an earlier one is computed again from what is loaded, unless the
//! plan keeps it in the memory of a result that is yet to be written.
//!
//! The chain of a single `exp` keeps a processor waiting while the next element could begin, but
//! with five of them in a loop its window holds hardly one element: the loops of an LSTM cell take
//! 1.2 to 1.3 times less when each has one. What one loop computes for a later one waits in a
//! buffer that stays in the first level of cache. A running total has a loop of its own: what such
//! a loop may hold is little.

use super::kernel::{Columns, Direction, Input, Kernel, Source, Traversal};
use super::kernel_plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Which loop each step is in, and how many loops there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// The loop of each step.
    pub of_step: BTreeMap<usize, usize>,
    /// How many there are.
    pub count: usize,
}

impl Stages {
    /// The loop that a value is known in.
    pub fn of(&self, source: Source) -> usize {
        if let Source::Step(i) = source { self.of_step.get(&i).copied().unwrap_or(0) } else { 0 }
    }

    /// The first loop that may read a value: behind that of a running total, which holds nothing
    /// else.
    pub fn behind(&self, kernel: &Kernel, source: Source) -> usize {
        let runs = |i: usize| self.of_step.contains_key(&i) && kernel.steps[i].scan.is_some();
        self.of(source) + usize::from(matches!(source, Source::Step(i) if runs(i)))
    }
}

/// Stages some of the steps of a kernel: those that a plan has alone begin a loop of their own,
/// others are done as late as possible, in the loop of their first reader. A scan is alone in its
/// loop, with a loop before and one after for all else, which may be empty.
pub fn stages(kernel: &Kernel, steps: &BTreeSet<usize>, alone: &BTreeSet<usize>) -> Stages {
    let runs = |i: usize| kernel.steps[i].scan.is_some();
    let mut stages = Stages::default();
    let mut begun = 0;
    for &i in steps {
        let known = |input: &Input| stages.behind(kernel, input.source);
        let earliest = kernel.steps[i].inputs.iter().map(known).max().unwrap_or(0);
        let stage = match () {
            () if runs(i) => begun.max(earliest + 1),
            () if alone.contains(&i) => begun.max(earliest),
            () => earliest,
        };
        if runs(i) || alone.contains(&i) {
            begun = stage + if runs(i) { 2 } else { 1 };
        }
        stages.of_step.insert(i, stage);
    }
    let mut first_reader: BTreeMap<usize, usize> = BTreeMap::new();
    for &i in steps.iter().rev() {
        let earliest = stages.of_step[&i];
        if let Some(&reader) = first_reader.get(&i).filter(|_| !alone.contains(&i) && !runs(i)) {
            stages.of_step.insert(i, reader.max(earliest));
        }
        let read_in = stages.of_step[&i] - usize::from(runs(i));
        for input in &kernel.steps[i].inputs {
            if let Source::Step(operand) = input.source {
                first_reader.entry(operand).and_modify(|first| *first = read_in.min(*first)).or_insert(read_in);
            }
        }
    }
    stages.count = begun.max(1);
    stages
}

/// What a loop over elements is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Takes an element into the total of a fold.
    Reduce(usize),
    /// Takes the square of what it differs from the mean of its block into the total of a variance.
    Square(usize),
    /// Notes whether it is another number than what a variance takes from all.
    Differs(usize),
    /// Looks for the first one that is what a block was folded into.
    Place(usize),
    /// Writes an element of a result.
    Store(usize),
    /// Leaves the value of a step in the memory of a result, for a later phase.
    Carry(usize, usize),
    /// Takes what a running total reads into it, and does nothing else.
    Total(usize),
    /// Keeps what is the same in all rows.
    Keep(usize),
}

/// The loops of a kernel.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Steps of which there is one value for a row.
    pub of_row: Vec<bool>,
    /// The phase of each step.
    phase_of_step: Vec<usize>,
    /// The phase of each fold: its result is known in the next one.
    phase_of_reduction: Vec<usize>,
    /// How many phases there are.
    pub phases: usize,
    /// Steps that wait in the memory of a result.
    pub carried: BTreeMap<usize, usize>,
    /// Steps that all rows of points share.
    pub columns: Columns,
}

impl Schedule {
    /// The schedule of a kernel for a traversal and a plan.
    pub fn new(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Schedule {
        let mut schedule = Schedule {
            of_row: Vec::new(),
            phase_of_step: vec![0; kernel.steps.len()],
            phase_of_reduction: vec![0; kernel.reductions.len()],
            phases: 1,
            carried: plan.kept.clone(),
            columns: plan.columns(kernel),
        };
        // A fold may read steps, and steps folds; each stands behind what it reads in its own list
        // only.
        for _ in 0..=kernel.reductions.len() {
            for (i, step) in kernel.steps.iter().enumerate() {
                schedule.phase_of_step[i] =
                    step.inputs.iter().map(|input| schedule.phase(input.source)).max().unwrap_or(0);
            }
            for (k, reduction) in kernel.reductions.iter().enumerate() {
                schedule.phase_of_reduction[k] = schedule.phase(reduction.input.source);
            }
        }
        for step in &kernel.steps {
            let of_row = traversal.direction != Direction::Points
                && step.scan.is_none()
                && step.inputs.iter().all(|input| schedule.is_of_row(traversal, input.source));
            schedule.of_row.push(of_row);
        }
        let last = (0..kernel.stores.len()).map(|k| schedule.phase(kernel.stores[k].source)).max();
        schedule.phases = 1 + last.unwrap_or(0);
        schedule
    }

    /// The phase in which a value is known.
    pub fn phase(&self, source: Source) -> usize {
        match source {
            Source::Step(i) => self.phase_of_step[i],
            Source::Reduced(k) => self.phase_of_reduction[k] + 1,
            _ => 0,
        }
    }

    /// Whether there is one value for a row.
    pub fn is_of_row(&self, traversal: &Traversal, source: Source) -> bool {
        traversal.direction != Direction::Points
            && match source {
                Source::Load(k) => traversal.invariant[k],
                Source::Step(i) => self.of_row[i],
                _ => true,
            }
    }

    /// What the loops of a phase over elements are for, but for squares, which come behind.
    pub fn aims(&self, kernel: &Kernel, traversal: &Traversal, phase: usize) -> Vec<Aim> {
        let reduces =
            (0..kernel.reductions.len()).filter(|&k| self.phase_of_reduction[k] == phase && phase + 1 < self.phases);
        let carries = self.carried.iter().filter(|(step, _)| self.phase_of_step[**step] == phase);
        let stores = (0..kernel.stores.len())
            .filter(|&k| self.phase(kernel.stores[k].source) == phase && !traversal.writes_rows(kernel, k));
        let carries: Vec<Aim> = carries.map(|(&step, &store)| Aim::Carry(step, store)).collect();
        reduces.map(Aim::Reduce).chain(carries).chain(stores.map(Aim::Store)).collect()
    }

    /// The steps that are computed for each element in loops with these aims.
    pub fn steps(&self, kernel: &Kernel, phase: usize, aims: &[Aim]) -> BTreeSet<usize> {
        let mut wanted: Vec<Source> = aims.iter().map(|aim| source_of(kernel, *aim)).collect();
        let mut steps = BTreeSet::new();
        let keeps = aims.iter().any(|aim| matches!(aim, Aim::Keep(_)));
        while let Some(source) = wanted.pop() {
            let Source::Step(i) = source else { continue };
            let is_kept = !keeps && self.columns.all.contains(&i);
            if self.of_row[i] || is_kept || self.waits(i, phase) || !steps.insert(i) {
                continue;
            }
            wanted.extend(kernel.steps[i].inputs.iter().map(|input| input.source));
        }
        steps
    }

    /// Whether the value of a step waits in the memory of a result in a phase.
    pub fn waits(&self, step: usize, phase: usize) -> bool {
        self.carried.contains_key(&step) && self.phase_of_step[step] < phase
    }
}

/// What an aim reads.
pub fn source_of(kernel: &Kernel, aim: Aim) -> Source {
    match aim {
        Aim::Reduce(k) | Aim::Square(k) | Aim::Differs(k) | Aim::Place(k) => kernel.reductions[k].input.source,
        Aim::Store(k) => kernel.stores[k].source,
        Aim::Carry(step, _) | Aim::Keep(step) => Source::Step(step),
        Aim::Total(step) => kernel.steps[step].inputs.first().map_or(Source::Step(step), |input| input.source),
    }
}
