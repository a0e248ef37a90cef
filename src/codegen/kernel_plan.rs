//! Plans: how the loops of a kernel run, as data that can be read, edited and searched.
//!
//! A [`Kernel`] says what is computed, a [`Traversal`] the layout of its operands, and a
//! [`Plan`] every free choice: the points of a tile, the values that begin a loop of their own, the
//! values kept in the memory of a result and those computed again. `choose` holds the heuristics,
//! with all constants in one `Tuning`; [`check`] says whether a plan is legal, or which loop and
//! which value forbid it; [`Plan::print`] and [`PlanFile`] are its text:
//!
//! ```text
//! group %y
//!   direction inner                     follows from the layout; not free
//!   alone p                             %p begins a loop of its own
//!   keep p in out0                      and is kept in the memory of the first result
//!   phase 0 block 1024                  elements of a row that are reduced at a time
//!   phase 1 block 256
//!   phase 2 block 1024 ahead next-rows 131072
//! ```
//!
//! To add a freedom: a field here, its default in `choose`, its text in `print` and `set`, its
//! condition in [`check`], and a query in [`super::loop_structure`] that the builder of nests
//! calls.

mod grid_choice;
mod grid_plan;
mod legality;
mod plan_text;
mod split_plan;
mod square_plan;
mod wide_plan;

use super::kernel::{Columns, Direction, Inner, Kernel, Source, Traversal};
use super::loop_structure::{Aim, Loops, source_of};
use super::window::Guard;
use crate::tensor::DType;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use grid_choice::{check_grid, choose_grid};
pub use grid_plan::{Grid, RowsBy, WARP};
pub(crate) use grid_plan::{MOST_ACCESSES, MOST_NUMBERS, fits_grid};
pub use legality::check;
pub use plan_text::{Entry, PlanFile};
pub use split_plan::{Parts, parts};
pub(crate) use split_plan::{split_phases, wide_of_parts};
pub(crate) use square_plan::{SIDE, crossed, line, squares};
pub use wide_plan::Wide;
pub(crate) use wide_plan::wide_functions;
pub use wide_plan::{MOST_KEPT, WIDEST};

/// The constants of a processor that heuristics use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// Points in a tile: the buffers between its loops stay in the first level of cache, and
    /// stores with non-temporal instructions alternate with loads. Measured with variants built for
    /// the purpose: a sum stored so takes 1.4 times as long with bursts of 4 KiB as with 1, and 2.6
    /// times with 16. In the caches a tile of 4096 elements is no faster.
    pub tile: usize,
    /// Interleaved rows that are reduced at once: totals and values of rows stay in the first level
    /// of cache. A launch may ask for fewer, so that each thread has some.
    pub columns: usize,
    /// Rows of a strided reduction that are reduced at once: their pieces are a run of memory that
    /// is long enough for the hardware prefetcher.
    pub side: usize,
    /// Elements of a row that are reduced before they are merged into its total.
    pub block: usize,
    /// The same where the loop over them is split into stages, or sums floats.
    pub short_block: usize,
    /// Elements of each of several interleaved rows.
    pub rows: usize,
    /// The same where only variances are reduced: a second loop runs where floats were not exact
    /// enough.
    pub many_rows: usize,
    /// The same in the first block.
    pub few_rows: usize,
    /// Interleaved rows that an inner loop is unrolled over.
    pub together: usize,
    /// Totals per element from which unrolling pays: a single sum is bound by memory, not by the
    /// latency of its total.
    pub worth_together: usize,
    /// Most steps of a loop for which unrolling pays: longer ones are not bound by that latency.
    pub most_steps_together: usize,
    /// Elements of a row that are kept if all rows share them: 16 KiB of floats.
    pub shared: usize,
    /// The number of such values: together they fit into the second level of cache.
    pub most_shared: usize,
    /// How many elements ahead a loop prefetches: two tiles.
    pub ahead: usize,
    /// The same for rows that are reduced, whose elements take less time.
    pub soon: usize,
    /// Elements of rows that stay in the second level of cache until they are reduced.
    pub next_rows: usize,
    /// Most loads that are prefetched. The hardware prefetcher follows more of them better: an LSTM
    /// cell, which has ten, takes 1.3 times as long with prefetches.
    pub few_loads: usize,
}

/// Processors with AVX-512 and 2 MiB of second-level cache, on which the constants were measured.
pub(crate) const TUNING: Tuning = Tuning {
    tile: 256,
    columns: 1024,
    side: 64,
    block: 1024,
    short_block: 256,
    rows: 16,
    many_rows: 64,
    few_rows: 8,
    together: 8,
    worth_together: 2,
    most_steps_together: 3,
    shared: 4096,
    most_shared: 4,
    ahead: 512,
    soon: 1024,
    next_rows: 1 << 17,
    few_loads: 4,
};

/// The operands that a loop prefetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ahead {
    /// Nothing.
    #[default]
    Nothing,
    /// The elements at this distance, in the same row or in following ones.
    Elements(usize),
    /// The next row, if rows have at most so many elements.
    NextRow(usize),
}

/// The loops of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhasePlan {
    /// Elements of a row that are reduced before they are merged into its total.
    pub block: usize,
    /// The same for the first phase of a scan that is split between threads.
    pub scan_block: usize,
    /// The size of the first block, after which a mean is known.
    pub first: usize,
    /// Interleaved rows that a loop reduces at once.
    pub together: usize,
    /// The same in the second loop over a block.
    pub again: usize,
    /// The operands that are prefetched.
    pub ahead: Ahead,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The direction that it is for.
    pub direction: Direction,
    /// Points of a tile in the innermost dimension, or interleaved rows.
    pub tile: usize,
    /// Interleaved rows of a loop with non-temporal stores, or with sums of floats.
    pub part: usize,
    /// Rows of a strided reduction that are reduced at once.
    pub side: usize,
    /// Steps that begin a loop of their own.
    pub alone: BTreeSet<usize>,
    /// Reductions and column reductions that are summed in a loop after all others: with doubles in
    /// the loop of an expensive step there would be half as many elements in a vector.
    pub apart: Vec<Aim>,
    /// Steps that are kept in the memory of a store for a later phase; others are computed again.
    pub kept: BTreeMap<usize, usize>,
    /// Steps that are computed once for all rows.
    pub shared: BTreeSet<usize>,
    /// Results that large launches write with non-temporal stores.
    pub streamed: BTreeSet<usize>,
    /// The phases.
    pub phases: Vec<PhasePlan>,
    /// How rows are distributed over blocks of threads; none on processors.
    pub grid: Option<Grid>,
}

impl Plan {
    /// The plan without any choice: everything is computed where it is read.
    fn plain(traversal: &Traversal, tuning: &Tuning) -> Plan {
        let tile = if traversal.direction == Direction::Outer { tuning.columns } else { tuning.tile };
        Plan {
            direction: traversal.direction,
            tile,
            part: tuning.tile,
            side: tuning.side,
            alone: BTreeSet::new(),
            apart: Vec::new(),
            kept: BTreeMap::new(),
            shared: BTreeSet::new(),
            streamed: BTreeSet::new(),
            phases: Vec::new(),
            grid: None,
        }
    }

    /// Points of a tile along the innermost dimension; none where a tile is a whole row.
    pub(crate) fn tile(&self) -> Option<usize> {
        let has_tiles = self.grid.is_none() && matches!(self.direction, Direction::Points | Direction::Outer);
        has_tiles.then_some(self.tile)
    }

    /// The values that all rows share: the steps that are kept, and their operands.
    pub(crate) fn columns(&self, kernel: &Kernel) -> Columns {
        let (mut all, mut open) = (BTreeSet::new(), self.shared.iter().copied().collect::<Vec<_>>());
        while let Some(i) = open.pop() {
            if all.insert(i) {
                let read = kernel.steps[i].inputs.iter().map(|input| input.source);
                open.extend(read.filter_map(|source| if let Source::Step(i) = source { Some(i) } else { None }));
            }
        }
        Columns { all, kept: self.shared.clone() }
    }

    /// A phase; one that the plan does not list has no choices.
    pub(crate) fn phase(&self, number: usize) -> PhasePlan {
        self.phases.get(number).cloned().unwrap_or_default()
    }
}

/// The plan that heuristics choose.
///
/// Expensive steps begin a loop of their own. The chain of a single `exp` keeps a processor waiting
/// while the next element could begin, but with five of them in a loop its window holds hardly one
/// element: the loops of an LSTM cell take 1.2 to 1.3 times less when each has one.
pub(crate) fn choose(kernel: &Kernel, traversal: &Traversal, tuning: &Tuning) -> Plan {
    let mut plan = Plan::plain(traversal, tuning);
    plan.alone = (0..kernel.steps.len()).filter(|&i| kernel.steps[i].formula.is_expensive).collect();
    if traversal.direction == Direction::Points {
        plan.shared = kernel.columns(&traversal.invariant).kept;
    }
    keep_expensive(kernel, traversal, &mut plan);
    let loops = Loops::new(kernel, traversal, &plan);
    plan.apart = summed_apart(&loops);
    plan.streamed = (0..kernel.stores.len()).filter(|&store| is_worth_streaming(&loops, store, tuning)).collect();
    let loops = Loops::new(kernel, traversal, &plan);
    plan.phases = (0..loops.phases).map(|number| phase(&loops, number, tuning)).collect();
    plan
}

/// Finds memory for expensive steps that later phases need.
fn keep_expensive(kernel: &Kernel, traversal: &Traversal, plan: &mut Plan) {
    let loops = Loops::new(kernel, traversal, plan);
    let needed: Vec<BTreeSet<usize>> = (0..loops.phases).map(|phase| loops.steps(phase, &loops.aims(phase))).collect();
    for i in plan.alone.clone() {
        let own = kernel.phase(Source::Step(i));
        let Some(last) = (own + 1..loops.phases).rev().find(|&phase| needed[phase].contains(&i)) else { continue };
        for store in 0..kernel.stores.len() {
            let taken = plan.kept.values().any(|&other| other == store);
            if taken || !has_room(kernel, traversal, (i, store), last) {
                continue;
            }
            plan.kept.insert(i, store);
            if kernel.phase(kernel.stores[store].source) > last || reads_once(kernel, traversal, plan, last) {
                break;
            }
            plan.kept.remove(&i);
        }
    }
}

/// Whether the memory of a store can hold a step until a phase: it is of the same type, and not
/// written before.
fn has_room(kernel: &Kernel, traversal: &Traversal, kept: (usize, usize), last: usize) -> bool {
    let (step, store) = (&kernel.steps[kept.0], &kernel.stores[kept.1]);
    store.column_reduction.is_none()
        && kernel.made[store.tensor].dtype == step.out
        && matches!(step.out, DType::Float | DType::Double)
        && kernel.phase(store.source) >= last
        && !traversal.writes_rows(kernel, kept.1)
}

/// Whether a value kept for a phase is read before the phase overwrites it: its only loop reads
/// each element before it writes it.
fn reads_once(kernel: &Kernel, traversal: &Traversal, plan: &Plan, phase: usize) -> bool {
    let loops = Loops::new(kernel, traversal, plan);
    let aims = loops.aims(phase);
    let reduces = |aim: &Aim| matches!(aim, Aim::Reduce(_));
    loops.stages(phase, &aims).count == 1 && !aims.iter().any(reduces)
}

/// Sums of doubles that read something expensive.
fn summed_apart(loops: &Loops<'_>) -> Vec<Aim> {
    let kernel = loops.kernel;
    let is_apart = |&k: &usize| {
        let reduction = &kernel.reductions[k];
        reduction.is_real() && !reduction.op.picks() && !loops.sums_floats(k)
    };
    let reduces = (0..kernel.reductions.len()).filter(is_apart).map(Aim::Reduce);
    let stores = (0..kernel.stores.len()).filter(|&k| kernel.stores[k].column_reduction.is_some()).map(Aim::Store);
    reduces.chain(stores).filter(|&aim| loops.computes_expensive(aim)).collect()
}

/// Whether a kernel is bound by computation.
fn takes_long(kernel: &Kernel) -> bool {
    kernel.steps.iter().any(|step| step.formula.is_expensive)
}

/// Whether tiles of points are prefetched.
fn prefetches_tiles(kernel: &Kernel, traversal: &Traversal, tuning: &Tuning) -> bool {
    traversal.direction == Direction::Points && takes_long(kernel) && kernel.loads.len() <= tuning.few_loads
}

/// Streaming is for kernels that wait for memory, see `c_loops.rs`.
fn is_worth_streaming(loops: &Loops<'_>, store: usize, tuning: &Tuning) -> bool {
    let (kernel, traversal) = (loops.kernel, loops.traversal);
    let has_time = takes_long(kernel) && !prefetches_tiles(kernel, traversal, tuning);
    let runs_along = traversal.direction.has_single_rows() && kernel.has_scan();
    may_be_streamed(kernel, traversal, store) && !has_time && !runs_along
}

/// Whether a store is contiguous, so that a buffer of its elements can be copied.
fn may_be_streamed(kernel: &Kernel, traversal: &Traversal, store: usize) -> bool {
    let contiguous = traversal.inner[kernel.loads.len() + store] == Inner::Unit;
    // Loops over a part of a tile fill a part of its buffer.
    let is_whole = traversal.guards[kernel.loads.len() + store] == Guard::None;
    contiguous && is_whole && kernel.stores[store].column_reduction.is_none() && !traversal.writes_rows(kernel, store)
}

fn phase(loops: &Loops<'_>, number: usize, tuning: &Tuning) -> PhasePlan {
    let aims = loops.aims(number);
    let planned = loops.planned(number, &aims);
    let only_tried = !planned.own.is_empty() && planned.own.iter().all(|&k| loops.is_tried(k));
    let is_outer = loops.is_outer();
    let block_of = |first: &[Aim], second: &[Aim], own: &[usize]| {
        let stages = |aims: &[Aim]| loops.count_of_stages(number, aims);
        let staged = stages(first).max(stages(second)) > 1;
        match staged || loops.streams_any(first) || own.iter().any(|&k| loops.sums_floats(k)) {
            _ if is_outer && only_tried => tuning.many_rows,
            _ if is_outer => tuning.rows,
            true => tuning.short_block,
            false => tuning.block,
        }
    };
    let block = block_of(&planned.aims, &planned.squares, &planned.own);
    let scan = loops.scan_in(number, &aims).map(Aim::Total);
    let scan_block = scan.map_or(block, |total| block_of(&[total], &[], &[]));
    let first = if is_outer && only_tried { tuning.few_rows } else { block };
    let together = |aims: &[Aim]| {
        let totals = aims.iter().map(|aim| if matches!(*aim, Aim::Reduce(k) if loops.is_tried(k)) { 2 } else { 1 });
        let is_worth_it = totals.sum::<usize>() >= tuning.worth_together
            && loops.steps(number, aims).len() <= tuning.most_steps_together;
        let goes = is_outer && is_worth_it && loops.keeps_rows_apart(number, aims).is_none();
        if goes { tuning.together } else { 1 }
    };
    let (together, again) = (together(&planned.aims), together(&planned.squares));
    PhasePlan { block, scan_block, first, together, again, ahead: ahead(loops, number, &planned.aims, tuning) }
}

/// What a phase prefetches: rows that are reduced to a mean and a variance meanwhile, or for a
/// scan; or the next rows, where they come from memory in the first phase and others take long.
fn ahead(loops: &Loops<'_>, number: usize, aims: &[Aim], tuning: &Tuning) -> Ahead {
    let (kernel, traversal) = (loops.kernel, loops.traversal);
    let first = loops.accesses_of(0, &loops.aims(0));
    let is_load = |k: &usize| *k < kernel.loads.len() && first.contains(k);
    let loads = loops.accesses_of(number, aims).into_iter().filter(is_load).count();
    let varies = aims.iter().any(|aim| matches!(aim, Aim::Reduce(k) if loops.is_variance(*k)));
    let asks_soon = number == 0 && varies && loads <= tuning.few_loads;
    let runs = number == 0 && kernel.has_scan() && loads <= tuning.few_loads;
    match traversal.direction {
        Direction::Points if prefetches_tiles(kernel, traversal, tuning) => Ahead::Elements(tuning.ahead),
        Direction::Strided | Direction::Outer if asks_soon => Ahead::Elements(tuning.soon),
        Direction::Inner | Direction::Split if runs => Ahead::Elements(tuning.ahead),
        Direction::Inner if phase_with_time(loops) == Some(number) => Ahead::NextRow(tuning.next_rows),
        _ => Ahead::Nothing,
    }
}

/// The last compute-bound phase after the first one, which loads rows from memory; or else the last
/// one, if there are several.
fn phase_with_time(loops: &Loops<'_>) -> Option<usize> {
    let aims = |phase| loops.aims(phase);
    let takes_long = |phase: &usize| aims(*phase).into_iter().any(|aim| loops.computes_expensive(aim));
    let mut later = (1..loops.phases).rev().filter(|&phase| !aims(phase).is_empty());
    later.clone().find(takes_long).or_else(|| later.next())
}

/// The value that an aim reads, as plans name it.
fn name_of_aim(kernel: &Kernel, aim: Aim) -> String {
    match aim {
        Aim::Reduce(k) => kernel.reductions[k].name.clone(),
        Aim::Store(k) => format!("v_out{k}"),
        other => match source_of(kernel, other) {
            Source::Step(i) => kernel.steps[i].name.clone(),
            _ => String::new(),
        },
    }
}
