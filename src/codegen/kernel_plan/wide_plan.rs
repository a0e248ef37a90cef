//! Additional functions of a kernel, for contiguous operands: a thread takes several neighbouring
//! elements at once, by accesses of up to 16 bytes.
//!
//! ```text
//! group %y
//!   direction inner
//!   grid block 256 wide                 and functions for rows of contiguous elements:
//!                                       of 4 x 32 x 4 at most, a warp each, kept in registers
//!                                       of 8 x 32 x 4 at most, a warp each, kept in registers
//!                                       of 8 x 128 x 4 at most, kept in registers
//!                                       of 8 x 512 x 4 at most, kept in registers
//!                                       of any length
//! ```
//!
//! Scans have those of a warp and that of any length. A row that fits is kept: later phases read
//! from registers what earlier ones have computed. The launch takes the first function that fits
//! its sizes; see [`Wide::fits`]. So which elements a thread combines follows from sizes, strides
//! and offsets alone, and so do the digits of results.
//!
//! Threads read several groups of elements before they use the first. An H200 takes about a
//! microsecond to answer a load, and 36 bytes a nanosecond for each multiprocessor: with less than
//! 40 KiB on their way to one, it waits.

use super::Grid;
use super::grid_plan::{RowsBy, SHARED, shared};
use crate::codegen::kernel::{Direction, Inner, Kernel, Traversal};

/// Bytes of the widest access of a device.
pub const WIDEST: usize = 16;
/// Elements that a thread takes at once, at most: with more, those of operands of four bytes take
/// several accesses each, whose addresses are 32 bytes apart.
const MOST_LANES: usize = 8;
/// Bytes that a thread reads ahead: 32 registers.
pub(super) const AHEAD: usize = 128;
/// How rows are kept. A thread takes many elements, since all warps merge their states: a warp has
/// a row of up to 1024 elements alone, and needs no barrier. Blocks then have four rows, as a
/// multiprocessor holds more warps than blocks.
///
/// A multiprocessor has 65,536 registers. The blocks that it holds leave a thread 80, 96, 96 and
/// 64: for the row, for what it reads ahead, and for addresses and states in doubles. NVRTC spills
/// none of them for a layer norm or a softmax of a sum (sm_75 to sm_100).
/// The longest rows have two blocks, one of which computes while the other one waits for memory;
/// their threads read all that they keep at once. Half as many threads that keep twice as much
/// took 1.2 times as long for a softmax of 1024 x 16384 on an H200.
const KEPT: [Kept; 4] = [
    Kept { threads: 32, rows: 4, elements: 16, blocks: 6 },
    Kept { threads: 32, rows: 4, elements: 32, blocks: 5 },
    Kept { threads: 128, rows: 1, elements: 32, blocks: 5 },
    Kept { threads: 512, rows: 1, elements: 32, blocks: 2 },
];
/// Registers of a multiprocessor, and those that a thread needs for addresses and states.
const REGISTERS: usize = 1 << 16;
/// See [`REGISTERS`].
const OTHERS: usize = 24;
/// Registers of a thread that scans rows of any length: without a limit NVRTC aims at more blocks,
/// and spills up to 16 bytes of them in 3 of 350 kernels (sm_80, sm_100).
const SCANNING: usize = 80;
/// Values of four bytes that a thread keeps at most, of 255 registers.
pub const MOST_KEPT: usize = 96;
/// Threads of a block for rows of any length, of which a multiprocessor holds two: 64 registers are
/// left for each thread, and it reads less far ahead.
const ANY_LENGTH: usize = 512;

/// A row of the table above: the threads of a row, the rows of a block, the elements of a thread,
/// of at most four bytes, and the blocks of a multiprocessor.
struct Kept {
    threads: usize,
    rows: usize,
    elements: usize,
    blocks: usize,
}

/// How the threads of a grid take contiguous elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wide {
    /// The threads of a block.
    pub threads: usize,
    /// The rows that a block computes at the same time: a warp each where there are several.
    pub rows: usize,
    /// The elements that a thread takes at once, a power of two.
    pub lanes: usize,
    /// Of points, how often a thread does so before it uses the first.
    pub groups: usize,
    /// The rounds in which a row is taken that is kept in registers; none where rows have any
    /// length.
    pub rounds: Option<usize>,
    /// The bytes that a thread reads before it uses the first.
    pub ahead: usize,
    /// The blocks that a multiprocessor is to hold; 0 where the compiler decides.
    pub blocks: usize,
}

impl Wide {
    /// Where nothing is kept.
    pub(crate) fn plain(threads: usize, lanes: usize) -> Wide {
        Wide { threads, rows: 1, lanes, groups: 1, rounds: None, ahead: 0, blocks: 0 }
    }

    /// The same with so many rounds at most: where a row has a block, with more threads.
    pub(crate) fn within(self, most: usize) -> Option<Wide> {
        let (mut threads, Some(mut rounds), mut blocks) = (self.threads, self.rounds, self.blocks) else {
            return Some(self);
        };
        while rounds > most && self.rows == 1 && threads < ANY_LENGTH {
            (threads, rounds, blocks) = (threads * 2, rounds.div_ceil(2), blocks.div_ceil(2));
        }
        (most > 0).then_some(Wide { threads, rounds: Some(rounds.min(most)), blocks, ..self })
    }

    /// The registers of a thread for elements, where the blocks of a multiprocessor limit them.
    pub(crate) fn registers(self) -> Option<usize> {
        let of_thread = REGISTERS.checked_div(self.threads * self.blocks)?;
        Some(of_thread.saturating_sub(OTHERS))
    }

    /// Whether rows of so many elements, in so many dimensions, can be computed so.
    pub(crate) fn fits(self, count: i64, dims: i32) -> bool {
        let threads = self.threads / self.rows;
        self.rounds.is_none_or(|rounds| dims == 1 && count <= (rounds * threads * self.lanes) as i64)
    }
}

/// The functions for contiguous elements, in the order in which a launch tries them.
pub(crate) fn wide_functions(kernel: &Kernel, traversal: &Traversal, grid: Grid) -> Vec<Wide> {
    if traversal.inner.contains(&Inner::Strided) || !traversal.inner.contains(&Inner::Unit) {
        return Vec::new();
    }
    let lanes = lanes(kernel, traversal);
    match (grid.rows, traversal.direction) {
        (RowsBy::Thread, Direction::Points) => {
            vec![Wide { groups: groups(kernel, traversal, lanes), ..Wide::plain(grid.threads, lanes) }]
        }
        (RowsBy::Block, Direction::Inner) if kernel.has_scan() => of_scanned_rows(kernel, traversal, lanes, grid),
        (RowsBy::Block, _) if kernel.has_scan() => Vec::new(),
        (RowsBy::Block, Direction::Inner | Direction::Split) => of_rows(kernel, traversal, lanes),
        _ => Vec::new(),
    }
}

/// The elements of the narrowest operand or result that fill an access.
fn lanes(kernel: &Kernel, traversal: &Traversal) -> usize {
    let moving = (0..kernel.accesses()).filter(|&at| traversal.inner[at] == Inner::Unit);
    let narrowest = moving.map(|at| kernel.dtype_of(at).size()).min().unwrap_or(WIDEST);
    (WIDEST / narrowest.max(1)).clamp(2, MOST_LANES)
}

/// How many groups of points a thread reads before it uses the first: two, if they take at most
/// four accesses, and one if nothing is read for each point.
fn groups(kernel: &Kernel, traversal: &Traversal, lanes: usize) -> usize {
    let moving = (0..kernel.loads.len()).filter(|&at| traversal.inner[at] == Inner::Unit);
    let bytes: usize = moving.map(|at| kernel.dtype_of(at).size() * lanes).sum();
    if bytes == 0 { 1 } else { (4 * WIDEST / bytes.max(WIDEST)).clamp(1, 2) }
}

fn of_rows(kernel: &Kernel, traversal: &Traversal, lanes: usize) -> Vec<Wide> {
    let any_length = Wide { ahead: AHEAD * 3 / 4, blocks: 2, ..Wide::plain(ANY_LENGTH, lanes) };
    of_lengths((kernel, traversal), lanes, &KEPT, any_length)
}

/// The functions for scans: a warp exchanges states without barriers. Blocks wait at two in each
/// round, so that a multiprocessor is to have several of them, and read less far ahead.
fn of_scanned_rows(kernel: &Kernel, traversal: &Traversal, lanes: usize, grid: Grid) -> Vec<Wide> {
    let any_length = Wide { ahead: 2 * WIDEST, ..scanning(grid, lanes) };
    of_lengths((kernel, traversal), lanes, &KEPT[..2], any_length)
}

/// The threads of a block that scan rows of any length.
fn scanning(grid: Grid, lanes: usize) -> Wide {
    Wide { blocks: REGISTERS / (SCANNING * grid.threads), ..Wide::plain(grid.threads, lanes) }
}

fn of_lengths(
    (kernel, traversal): (&Kernel, &Traversal),
    lanes: usize,
    lengths: &[Kept],
    any_length: Wide,
) -> Vec<Wide> {
    // Partial sums have a copy for each block, in which the warps of several rows would meet.
    let are_alone = !kernel.column_reductions.is_empty();
    let moving = (0..kernel.accesses()).filter(|&at| traversal.inner[at] == Inner::Unit);
    // Those of an element of eight bytes.
    let registers = moving.map(|at| kernel.dtype_of(at).size().div_ceil(4)).max().unwrap_or(1);
    let kept = lengths.iter().map(|kept| {
        let rows = if are_alone { 1 } else { kept.rows };
        let rounds = Some(kept.elements / (lanes * registers));
        Wide { threads: kept.threads * rows, rows, lanes, groups: 1, rounds, ahead: AHEAD, blocks: kept.blocks }
    });
    let fits = |wide: &Wide| wide.rounds != Some(0) && shared(kernel, wide.threads) <= SHARED;
    kept.chain([any_length]).filter(fits).collect()
}
