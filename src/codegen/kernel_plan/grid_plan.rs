//! Plans for blocks of threads: how many threads a block has, and whether a row is computed by one
//! thread or by all of a block.
//!
//! ```text
//! group %y
//!   direction inner
//!   grid block 256                      a row by a block of 256 threads
//! ```
//!
//! Nothing is kept from phase to phase: threads hide the latency of an exponential behind each
//! other, and have no caches of their own to keep values in. What a later phase needs it computes
//! again.

use super::{Plan, TUNING};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::loop_structure::is_reordered;

/// Threads of a block. Eight warps hide the latency of each other's loads, and states of two
/// doubles for each of them are 4 KiB of shared memory.
const THREADS: usize = 256;
/// The fewest and most threads of a block: a warp, and what devices allow.
const LIMITS: std::ops::RangeInclusive<usize> = 32..=1024;
/// Operands and results, and numbers of a kind, that a launch passes: with more, its arguments
/// would exceed the 4 KiB that devices take. See `jo_launch` in `cuda_head.c`.
pub const MOST_ACCESSES: usize = 32;
/// See [`MOST_ACCESSES`].
pub const MOST_NUMBERS: usize = 8;
/// Bytes of shared memory that every device gives a block.
const SHARED: usize = 48 << 10;
/// Bytes of the largest state of a reduction, for one thread: three doubles.
const STATE: usize = 24;
/// Bytes of the state of a scan.
const SCAN: usize = 8;

/// How rows are distributed over blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The threads of a block, a power of two.
    pub threads: usize,
    /// What computes a row.
    pub rows: RowsBy,
}

/// What computes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsBy {
    /// One thread: points, and rows that are interleaved in memory.
    Thread,
    /// All threads of a block.
    Block,
}

/// Each with its name in plans.
const NAMES: [(RowsBy, &str); 2] = [(RowsBy::Thread, "thread"), (RowsBy::Block, "block")];

impl RowsBy {
    /// Its name in plans.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// What has a name.
    pub fn named(name: &str) -> Option<RowsBy> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

/// The plan that heuristics choose for blocks of threads. Neighbouring threads are to read
/// neighbouring elements.
pub fn choose_grid(kernel: &Kernel, traversal: &Traversal) -> Plan {
    let rows = match traversal.direction {
        _ if has_ordered_scan(kernel) => RowsBy::Thread,
        Direction::Points | Direction::Outer => RowsBy::Thread,
        Direction::Inner | Direction::Split | Direction::Strided => RowsBy::Block,
    };
    Plan { grid: Some(Grid { threads: THREADS, rows }), ..Plan::plain(traversal, &TUNING) }
}

/// Whether a scan has to combine elements one after the other, as one thread does.
fn has_ordered_scan(kernel: &Kernel) -> bool {
    let mut scans = kernel.steps.iter().filter_map(|step| Some((step.scan.as_ref()?, step)));
    scans.any(|(scan, step)| !is_reordered(scan.op, step))
}

/// Bytes of shared memory of a block whose threads compute a row together.
fn shared(kernel: &Kernel, threads: usize) -> usize {
    let scans = kernel.steps.iter().filter(|step| step.scan.is_some()).count();
    // A scan may be computed in each phase.
    (kernel.reductions.len() * STATE + scans * (1 + kernel.reductions.len()) * SCAN) * threads
}

/// Whether blocks of threads can run a kernel.
///
/// # Errors
/// What it has that they do not support.
pub fn fits_grid(kernel: &Kernel) -> Result<(), String> {
    let numbers = kernel.floats.len().max(kernel.integers.len());
    let fits = |what: &str, n: usize, most: usize| match n <= most {
        true => Ok(()),
        false => Err(format!("it has {n} {what}, and a launch passes {most}")),
    };
    if kernel.steps.iter().any(|step| step.scan.is_some() && !step.formula.is_operand()) {
        return Err("a scan of what its formula computes".to_owned());
    }
    if shared(kernel, THREADS) > SHARED {
        return Err(format!("its {} reductions do not fit into shared memory", kernel.reductions.len()));
    }
    fits("operands and results", kernel.accesses(), MOST_ACCESSES)?;
    fits("numbers", numbers, MOST_NUMBERS)
}

/// Whether a plan for blocks of threads is legal.
///
/// # Errors
/// What forbids it.
pub fn check_grid(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<(), String> {
    let Some(Grid { threads, rows }) = plan.grid else { return Err("it has no grid".to_owned()) };
    if !LIMITS.contains(&threads) || !threads.is_power_of_two() {
        let (least, most) = (LIMITS.start(), LIMITS.end());
        return Err(format!("grid {} {threads}: it must be a power of two from {least} to {most}", rows.name()));
    }
    if rows == RowsBy::Block && traversal.direction == Direction::Points {
        return Err("grid block: points are rows of one element, which one thread computes".to_owned());
    }
    if rows == RowsBy::Block && has_ordered_scan(kernel) {
        return Err("grid block: products and sums of doubles are scanned in order, by one thread".to_owned());
    }
    if rows == RowsBy::Block && shared(kernel, threads) > SHARED {
        return Err(format!("grid block {threads}: its reductions do not fit into shared memory"));
    }
    let is_kept = !plan.kept.is_empty() || !plan.alone.is_empty() || !plan.shared.is_empty();
    match is_kept || !plan.apart.is_empty() || !plan.streamed.is_empty() {
        true => Err("alone, apart, keep, share and stream are for processors".to_owned()),
        false => Ok(()),
    }
}
