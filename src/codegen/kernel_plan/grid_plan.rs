//! Plans for blocks of threads: how many threads a block has, and whether a row is computed by one
//! thread or by all of a block.
//!
//! ```text
//! group %y
//!   direction inner
//!   grid block 256                      a row by a block of 256 threads
//! ```
//!
//! Nothing is kept from phase to phase: what a later phase needs it computes again. Rows that fit
//! into registers have functions of their own, see `wide_plan.rs`.

use crate::codegen::kernel::Kernel;

/// Threads of a warp, on every device.
pub const WARP: usize = 32;
/// Threads of a block. Eight warps hide the latency of each other's loads.
pub(super) const THREADS: usize = 256;
/// The fewest and most threads of a block: a warp, and what devices allow.
pub(super) const LIMITS: std::ops::RangeInclusive<usize> = WARP..=1024;
/// Operands and results, and numbers of a kind, that a launch passes: with more, its arguments
/// would exceed the 4 KiB that devices take. See `jo_launch` in `cuda_head.c`.
pub(crate) const MOST_ACCESSES: usize = 32;
/// See [`MOST_ACCESSES`].
pub(crate) const MOST_NUMBERS: usize = 8;
/// Bytes of shared memory that every device gives a block.
pub(super) const SHARED: usize = 48 << 10;
/// Bytes of the largest state of a reduction: four doubles, which each warp leaves.
const STATE: usize = 32;
/// Bytes of the state of a scan, which each warp leaves.
const SCAN: usize = 8;

/// How rows are distributed over blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The threads of a block, a power of two.
    pub threads: usize,
    /// The threads that compute a row.
    pub rows: RowsBy,
    /// Whether there are additional functions for contiguous elements, see `wide_plan.rs`.
    pub wide: bool,
    /// Whether there are functions for parts of rows, see `split_plan.rs`.
    pub split: bool,
    /// Whether there is a function for squares of points, see `square_plan.rs`.
    pub squares: bool,
}

/// The threads that compute a row.
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
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The value with this name.
    pub(crate) fn named(name: &str) -> Option<RowsBy> {
        NAMES.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

/// Bytes of shared memory of a block whose threads compute a row together.
pub(super) fn shared(kernel: &Kernel, threads: usize) -> usize {
    let scans = kernel.steps.iter().filter(|step| step.scan.is_some()).count();
    // A scan may be computed in each phase.
    let states = kernel.reductions.len() * STATE * threads / WARP;
    states + scans * (1 + kernel.reductions.len()) * SCAN * threads / WARP
}

/// Whether blocks of threads can run a kernel.
///
/// # Errors
/// What it has that they do not support.
pub(crate) fn fits_grid(kernel: &Kernel) -> Result<(), String> {
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
