//! What the loops of a kernel do under a plan: rows apart from elements, a loop over the elements
//! of a row for each reduction that waits for another (a phase, see `Kernel::phase`), and within
//! those the loops of steps that the plan has alone. Nothing here chooses or prints:
//! [`super::kernel_plan`] and the nests ask the same queries.
//!
//! ```text
//! softmax:  phase 0  m = largest(x)                                      | for each element
//!           phase 1  p = exp(x - m), s = sum(p); p is carried to phase 2 | again
//!           phase 2  r = 1 / s                                           | once for a row
//!                    y = p * r                                           | for each element
//! ```
//!
//! What a later phase needs of an earlier one is computed again from what is loaded, unless the
//! plan keeps it in the memory of a result that is yet to be written.

use super::kernel::{Columns, Direction, Inner, Input, Kernel, Reduction, Source, Traversal};
use super::kernel_plan::{Plan, TUNING};
use super::monoid::{Monoid, Reordering};
use super::number_type::NumberType;
use crate::ops::recipes::ReduceOp;
use std::collections::{BTreeMap, BTreeSet};

/// The purpose of a loop over elements.
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
    /// Takes what a scan reads into it, and does nothing else.
    Total(usize),
    /// Keeps what is the same in all rows.
    Keep(usize),
}

/// The values that an aim reads.
pub(crate) fn source_of(kernel: &Kernel, aim: Aim) -> Source {
    match aim {
        Aim::Reduce(k) | Aim::Square(k) | Aim::Differs(k) | Aim::Place(k) => kernel.reductions[k].input.source,
        Aim::Store(k) => kernel.stores[k].source,
        Aim::Carry(step, _) | Aim::Keep(step) => Source::Step(step),
        Aim::Total(step) => kernel.steps[step].inputs.first().map_or(Source::Step(step), |input| input.source),
    }
}

/// Which loop each step is in, and how many loops there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stages {
    /// The loop of each step.
    pub of_step: BTreeMap<usize, usize>,
    /// How many there are.
    pub count: usize,
}

impl Stages {
    /// The loop that a value is known in.
    pub(crate) fn of(&self, source: Source) -> usize {
        if let Source::Step(i) = source { self.of_step.get(&i).copied().unwrap_or(0) } else { 0 }
    }

    /// The first loop that may read a value: after that of a scan, which holds nothing else.
    pub(crate) fn readable_from(&self, kernel: &Kernel, source: Source) -> usize {
        let runs = |i: usize| self.of_step.contains_key(&i) && kernel.steps[i].scan.is_some();
        self.of(source) + usize::from(matches!(source, Source::Step(i) if runs(i)))
    }
}

/// The aims of the loops of a phase over elements.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// Its number.
    pub number: usize,
    /// Its aims without squares, which have a second loop.
    pub aims: Vec<Aim>,
    /// Squares of differences from means of blocks that are read twice.
    pub squares: Vec<Aim>,
    /// Reductions with totals of their own, which elements are added to.
    pub own: Vec<usize>,
    /// Means computed with a variance; each has a total of its own, of the sums of blocks, as a
    /// mean may be infinite.
    pub along: Vec<usize>,
    /// Reductions whose results another reduction yields when it is finished.
    pub found: Vec<usize>,
}

/// The phases of a launch, and the number of 8-byte slots in which each part leaves its state of a
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchPhases {
    /// The number of phases; each ends when all parts have run.
    pub phases: i64,
    /// The slots of each part of each row.
    pub slots: usize,
}

/// Whether rows of a kernel may be split between threads: not where it adds to column reductions,
/// which have parts of their own, or where a scan depends on the order of its elements.
pub(crate) fn can_be_split(kernel: &Kernel) -> bool {
    let scan: Vec<_> = kernel.steps.iter().filter(|step| step.scan.is_some()).collect();
    let may_run = |i: usize| {
        let step = scan[i];
        let is_exact = step.scan.as_ref().is_some_and(|scan| is_reordered(scan.op, step));
        is_exact && step.inputs.len() == 1 && kernel.reductions.is_empty()
    };
    kernel.column_reductions.is_empty() && scan.len() <= 1 && (0..scan.len()).all(may_run)
}

/// Whether a scan may be computed in another order: integer sums, or sums in a wider type than the
/// result. Intermediate products may overflow or underflow.
pub(crate) fn is_reordered(op: ReduceOp, step: &super::kernel::Step) -> bool {
    op == ReduceOp::Sum && Monoid::of_scan(op, step).reordering != Reordering::Seen
}

/// The loops of a kernel.
#[derive(Clone, Debug)]
pub struct Loops<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// Its traversal.
    pub traversal: &'k Traversal,
    /// Its plan.
    pub plan: Plan,
    /// How many phases there are.
    pub phases: usize,
    /// Steps of which there is one value for a row.
    pub of_row: Vec<bool>,
    /// Steps that all rows of points share.
    pub columns: Columns,
    /// Whether blocks of floats are summed in doubles, as floats were not exact enough.
    pub in_doubles: bool,
}

impl<'k> Loops<'k> {
    /// Those of a kernel under a plan.
    pub(crate) fn new(kernel: &'k Kernel, traversal: &'k Traversal, plan: &Plan) -> Loops<'k> {
        let last = kernel.stores.iter().map(|store| kernel.phase(store.source)).max();
        let (plan, phases, columns) = (plan.clone(), 1 + last.unwrap_or(0), plan.columns(kernel));
        let mut loops = Loops { kernel, traversal, plan, phases, of_row: Vec::new(), columns, in_doubles: false };
        for step in &kernel.steps {
            let is_of_row = |input: &Input| loops.is_of_row(input.source);
            let of_row = loops.has_rows() && step.scan.is_none() && step.inputs.iter().all(is_of_row);
            loops.of_row.push(of_row);
        }
        loops
    }

    fn has_rows(&self) -> bool {
        self.traversal.direction != Direction::Points
    }

    /// Whether there is one value for a row.
    pub(crate) fn is_of_row(&self, source: Source) -> bool {
        self.has_rows()
            && match source {
                Source::Load(k) => self.traversal.invariant[k],
                Source::Step(i) => self.of_row[i],
                _ => true,
            }
    }

    /// The aims of the loops of a phase over elements, except for squares, which come after.
    pub(crate) fn aims(&self, phase: usize) -> Vec<Aim> {
        let (kernel, traversal) = (self.kernel, self.traversal);
        let reduces =
            (0..kernel.reductions.len()).filter(|&k| kernel.reductions[k].phase == phase && phase + 1 < self.phases);
        let carries = self.plan.kept.iter().filter(|(step, _)| kernel.steps[**step].phase == phase);
        let stores = (0..kernel.stores.len())
            .filter(|&k| kernel.phase(kernel.stores[k].source) == phase && !traversal.writes_rows(kernel, k));
        let carries = carries.map(|(&step, &store)| Aim::Carry(step, store));
        reduces.map(Aim::Reduce).chain(carries).chain(stores.map(Aim::Store)).collect()
    }

    /// The steps that are computed for each element in loops with these aims.
    pub(crate) fn steps(&self, phase: usize, aims: &[Aim]) -> BTreeSet<usize> {
        let mut wanted: Vec<Source> = aims.iter().map(|aim| source_of(self.kernel, *aim)).collect();
        let mut steps = BTreeSet::new();
        let keeps = aims.iter().any(|aim| matches!(aim, Aim::Keep(_)));
        while let Some(source) = wanted.pop() {
            let Source::Step(i) = source else { continue };
            let is_kept = !keeps && self.columns.all.contains(&i);
            if self.of_row[i] || is_kept || self.waits(i, phase) || !steps.insert(i) {
                continue;
            }
            wanted.extend(self.kernel.steps[i].inputs.iter().map(|input| input.source));
        }
        steps
    }

    /// Whether the value of a step waits in the memory of a result in a phase.
    pub(crate) fn waits(&self, step: usize, phase: usize) -> bool {
        self.plan.kept.contains_key(&step) && self.kernel.steps[step].phase < phase
    }

    /// The phases and slots of a launch; `None` where no rows are split.
    pub(crate) fn launch_phases(&self) -> Option<LaunchPhases> {
        let phases = self.phases;
        self.is_split().then(|| LaunchPhases { phases: self.launch_phase(phases), slots: self.place_of(phases) })
    }

    /// The loops over elements that some aims need: steps that the plan has alone begin a loop of
    /// their own, others are done as late as possible, in the loop of their first reader. A scan is
    /// alone in its loop, with a loop before and one after for all else, which may be empty.
    pub(crate) fn stages(&self, phase: usize, aims: &[Aim]) -> Stages {
        let steps = self.steps(phase, aims);
        let runs = |i: usize| self.kernel.steps[i].scan.is_some();
        let mut stages = Stages::default();
        let mut begun = 0;
        for &i in &steps {
            let known = |input: &Input| stages.readable_from(self.kernel, input.source);
            let earliest = self.kernel.steps[i].inputs.iter().map(known).max().unwrap_or(0);
            let stage = match () {
                () if runs(i) => begun.max(earliest + 1),
                () if self.plan.alone.contains(&i) => begun.max(earliest),
                () => earliest,
            };
            if runs(i) || self.plan.alone.contains(&i) {
                begun = stage + if runs(i) { 2 } else { 1 };
            }
            stages.of_step.insert(i, stage);
        }
        let mut first_reader: BTreeMap<usize, usize> = BTreeMap::new();
        for &i in steps.iter().rev() {
            let earliest = stages.of_step[&i];
            if let Some(&reader) = first_reader.get(&i).filter(|_| !self.plan.alone.contains(&i) && !runs(i)) {
                stages.of_step.insert(i, reader.max(earliest));
            }
            let read_in = stages.of_step[&i] - usize::from(runs(i));
            for input in &self.kernel.steps[i].inputs {
                if let Source::Step(operand) = input.source {
                    first_reader.entry(operand).and_modify(|first| *first = read_in.min(*first)).or_insert(read_in);
                }
            }
        }
        stages.count = begun.max(1);
        stages
    }

    /// Why several rows cannot be taken at once in a loop, if so: it must only reduce, in one loop,
    /// and each of its loads must be an element of a row.
    pub(crate) fn keeps_rows_apart(&self, phase: usize, aims: &[Aim]) -> Option<&'static str> {
        let reduces = |aim: &Aim| match *aim {
            Aim::Reduce(k) => !self.is_arg_reduction(k) && !self.comes_last(*aim),
            Aim::Square(_) => true,
            _ => false,
        };
        let is_element = |&k: &usize| k < self.kernel.loads.len() && self.traversal.inner[k] != Inner::Broadcast;
        match () {
            () if aims.is_empty() => Some("it has no loop over rows"),
            () if !aims.iter().all(reduces) => Some("its loop does more than reduce"),
            () if !self.accesses_of(phase, aims).iter().all(is_element) => Some("it reads what all rows share"),
            () if self.count_of_stages(phase, aims) != 1 => Some("it takes several loops"),
            () => None,
        }
    }

    /// Whether rows are interleaved in memory.
    pub(crate) fn is_outer(&self) -> bool {
        self.traversal.direction == Direction::Outer
    }

    /// The aims of the loops of a phase with some aims.
    pub(crate) fn planned(&self, number: usize, aims: &[Aim]) -> Phase {
        let reduces: Vec<usize> =
            aims.iter().filter_map(|aim| if let Aim::Reduce(k) = aim { Some(*k) } else { None }).collect();
        // A result that another reduction yields needs no loop of its own.
        let led = |&k: &usize| self.leader(k).is_none_or(|leader| leader == k);
        let (own, others): (Vec<usize>, Vec<usize>) = reduces.into_iter().partition(led);
        let (found, along) = others.into_iter().partition(|&k| self.is_variance(k));
        let squares = own.iter().copied().filter(|&k| self.is_read_twice(k)).map(Aim::Square).collect();
        let aims = aims.iter().copied().filter(|aim| !matches!(aim, Aim::Reduce(k) if !own.contains(k))).collect();
        Phase { number, aims, squares, own, along, found }
    }

    /// Whether a block is summed in floats. Blocks of interleaved rows are: arrays of doubles would
    /// be read and written for each element. And so are values between 0 and 1, such as the
    /// exponentials of a softmax: they do not cancel, and 256 of them lose hardly a digit.
    pub(crate) fn sums_floats(&self, k: usize) -> bool {
        let reduction = &self.kernel.reductions[k];
        let is_float = NumberType::of_values(reduction.input.to) == NumberType::Float && reduction.op == ReduceOp::Sum;
        let is_share = |step: usize| self.kernel.steps[step].formula.is_share;
        is_float && (self.is_outer() || matches!(reduction.input.source, Source::Step(step) if is_share(step)))
    }

    /// Whether an aim reads an expensive value.
    pub(crate) fn computes_expensive(&self, aim: Aim) -> bool {
        let phase = self.kernel.phase(source_of(self.kernel, aim));
        let is_expensive = |i: &usize| self.kernel.steps[*i].formula.is_expensive;
        self.steps(phase, &[aim]).iter().any(is_expensive)
    }

    /// The state of a reduction. Extrema of interleaved rows keep NaN in their total.
    pub(crate) fn monoid(&self, k: usize) -> Monoid {
        Monoid::of(&self.kernel.reductions[k], !self.is_outer())
    }

    /// The same for a block of elements.
    pub(crate) fn monoid_of_block(&self, k: usize) -> Monoid {
        Monoid::of_block(&self.kernel.reductions[k], !self.is_outer())
    }

    /// Whether a reduction is a variance, or its root.
    pub(crate) fn is_variance(&self, k: usize) -> bool {
        self.kernel.reductions[k].op.varies()
    }

    /// Whether blocks are summed in floats first: not where a scan is read, which a second
    /// look at a block would continue.
    pub(crate) fn is_tried(&self, k: usize) -> bool {
        let of_floats =
            self.is_variance(k) && NumberType::of_values(self.kernel.reductions[k].input.to) == NumberType::Float;
        let aim = Aim::Reduce(k);
        let steps = self.steps(self.kernel.phase(source_of(self.kernel, aim)), &[aim]);
        of_floats && steps.iter().all(|&step| self.kernel.steps[step].scan.is_none())
    }

    /// Whether the loop at hand sums it in floats.
    pub(crate) fn is_summed_in_floats(&self, k: usize) -> bool {
        !self.in_doubles && self.is_tried(k)
    }

    /// Whether every block of it is read twice.
    pub(crate) fn is_read_twice(&self, k: usize) -> bool {
        self.is_variance(k) && !self.is_tried(k)
    }

    /// Whether the loop over a block may be run again: it does nothing but sum in floats. With
    /// interleaved rows almost every block would have a row that needs it.
    pub(crate) fn may_run_again(&self, phase: &Phase) -> bool {
        let only_sums = |aim: &Aim| matches!(*aim, Aim::Reduce(k) if self.is_tried(k));
        !self.is_outer() && !phase.aims.is_empty() && phase.aims.iter().all(only_sums)
    }

    /// The variance that also yields a mean or another variance; a variance may yield itself.
    pub(crate) fn leader(&self, k: usize) -> Option<usize> {
        let all = &self.kernel.reductions;
        let same = |other: &Reduction| {
            let (a, b) = (&other.input, &all[k].input);
            other.op.varies() && (a.source, a.dtype, a.to) == (b.source, b.dtype, b.to)
        };
        let leads = all[k].op == ReduceOp::Mean || all[k].op.varies();
        leads.then(|| all.iter().position(same)).flatten()
    }

    /// The means computed with a variance from sums: updated element by element, a mean with an
    /// infinity would be NaN.
    pub(crate) fn means_led_by(&self, k: usize) -> Vec<usize> {
        let all = &self.kernel.reductions;
        (0..all.len()).filter(|&mean| all[mean].op == ReduceOp::Mean && self.leader(mean) == Some(k)).collect()
    }

    /// Whether a reduction gives an index.
    pub(crate) fn is_arg_reduction(&self, k: usize) -> bool {
        self.kernel.reductions[k].op.is_arg_reduction()
    }

    /// How many loops some aims need.
    pub(crate) fn count_of_stages(&self, phase: usize, aims: &[Aim]) -> usize {
        self.stages_with_sums(&self.stages(phase, aims), aims)
    }

    /// Sums of expensive values come after all other aims.
    pub(crate) fn stages_with_sums(&self, stages: &Stages, aims: &[Aim]) -> usize {
        stages.count + usize::from(aims.iter().any(|aim| self.comes_last(*aim)))
    }

    /// Whether an aim has a loop of its own, after all others. A variance that is summed in
    /// floats has none.
    pub(crate) fn comes_last(&self, aim: Aim) -> bool {
        let in_floats = matches!(aim, Aim::Reduce(k) if self.is_summed_in_floats(k));
        !in_floats && self.plan.apart.contains(&aim)
    }

    /// The accesses that loops with these aims make at each element.
    pub(crate) fn accesses_of(&self, phase: usize, aims: &[Aim]) -> Vec<usize> {
        let kernel = self.kernel;
        let stored = kernel.loads.len();
        let mut sources: Vec<Source> = aims.iter().map(|aim| source_of(kernel, *aim)).collect();
        for i in self.steps(phase, aims) {
            sources.extend(kernel.steps[i].inputs.iter().map(|input| input.source));
        }
        let mut accesses: BTreeSet<usize> = BTreeSet::new();
        for source in sources {
            match source {
                Source::Load(k) if !self.traversal.invariant[k] => accesses.insert(k),
                Source::Step(i) if self.waits(i, phase) => accesses.insert(stored + self.plan.kept[&i]),
                _ => false,
            };
        }
        for aim in aims {
            match *aim {
                Aim::Store(k) | Aim::Carry(_, k) => accesses.insert(stored + k),
                Aim::Reduce(_) | Aim::Square(_) | Aim::Differs(_) | Aim::Place(_) | Aim::Total(_) | Aim::Keep(_) => {
                    false
                }
            };
        }
        accesses.into_iter().collect()
    }

    /// Column reductions of which a loop adds to one element: it adds in a variable.
    pub(crate) fn invariant_sums(&self, aims: &[Aim]) -> Vec<usize> {
        let is_invariant = |k: &usize| {
            let access = self.kernel.loads.len() + k;
            self.kernel.is_column_reduction(access) && self.traversal.inner[access] == Inner::Broadcast
        };
        let stores = aims.iter().filter_map(|aim| if let Aim::Store(k) = aim { Some(*k) } else { None });
        stores.filter(is_invariant).collect()
    }

    /// The type of that variable: float for a part of a row, which is sixteen floats per vector
    /// lane, and for sums of interleaved rows. With doubles in the loop the gradient of the overlap
    /// of boxes takes 1.5 times as long.
    pub(crate) fn column_reduction_type(&self, k: usize) -> NumberType {
        let column_reduction = self.kernel.stores[k].column_reduction.map(|at| &self.kernel.column_reductions[at]);
        match column_reduction.map(|column_reduction| NumberType::of_values(column_reduction.input.to)) {
            Some(NumberType::Float) if self.traversal.direction == Direction::Outer => NumberType::Float,
            _ => NumberType::Double,
        }
    }

    /// Whether rows are split between threads.
    pub(crate) fn is_split(&self) -> bool {
        self.traversal.direction == Direction::Split
    }

    /// The first phase of a launch for a phase of the kernel.
    pub(crate) fn launch_phase(&self, phase: usize) -> i64 {
        let launched = |phase: usize| {
            let writes = |k: usize| {
                let of_phase = self.kernel.phase(self.kernel.stores[k].source) == phase;
                of_phase && self.traversal.writes_rows(self.kernel, k)
            };
            let aims = self.aims(phase);
            let is_done = !aims.is_empty() || (0..self.kernel.stores.len()).any(writes);
            i64::from(is_done) + i64::from(self.scan_in(phase, &aims).is_some())
        };
        (0..phase).map(launched).sum()
    }

    /// The first slot of a phase.
    pub(crate) fn place_of(&self, phase: usize) -> usize {
        let places = |phase: usize| {
            let aims = self.aims(phase);
            let planned = self.planned(phase, &aims);
            let reduces = planned.own.iter().chain(&planned.along).map(|&k| self.monoid(k).slots.len());
            reduces.sum::<usize>() + usize::from(self.scan_in(phase, &aims).is_some())
        };
        (0..phase).map(places).sum()
    }

    /// The scan that the loops for these aims compute.
    pub(crate) fn scan_in(&self, phase: usize, aims: &[Aim]) -> Option<usize> {
        self.steps(phase, aims).into_iter().find(|&i| self.kernel.steps[i].scan.is_some())
    }

    /// Whether memory holds pieces of several rows alternately.
    pub(crate) fn is_strided(&self) -> bool {
        self.traversal.direction == Direction::Strided
    }

    /// The number of elements of the buffer of a store with non-temporal stores; `None` where it
    /// has none.
    pub(crate) fn streamed(&self, store: usize) -> Option<usize> {
        let blocks = || self.plan.phases.iter().map(|phase| phase.block).max().unwrap_or(0);
        let size = match self.traversal.direction {
            Direction::Points => self.plan.tile,
            Direction::Inner | Direction::Split | Direction::Strided => blocks().max(TUNING.block),
            Direction::Outer => self.plan.part,
        };
        self.plan.streamed.contains(&store).then_some(size)
    }

    /// The stores among some aims that fill a buffer.
    pub(crate) fn buffered(&self, aims: &[Aim]) -> Vec<usize> {
        let store = |aim: &Aim| if let Aim::Store(store) = *aim { Some(store) } else { None };
        aims.iter().filter_map(store).filter(|&store| self.streamed(store).is_some()).collect()
    }

    /// Whether loops with these aims fill a buffer that is copied from when they are done.
    pub(crate) fn streams_any(&self, aims: &[Aim]) -> bool {
        !self.buffered(aims).is_empty()
    }
}
