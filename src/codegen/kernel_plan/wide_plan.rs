//! Additional functions of a kernel, for contiguous operands: a thread takes several neighbouring
//! elements at once, by accesses of up to 16 bytes.
//!
//! ```text
//! group %y
//!   direction inner
//!   grid block 256 wide                 and functions for rows of contiguous elements:
//!                                       of 4 x 32 x 4 at most, kept in registers
//!                                       of 8 x 128 x 4 at most, kept in registers
//!                                       of 8 x 512 x 4 at most, kept in registers
//!                                       of any length
//! ```
//!
//! A row that fits is kept: later phases read from registers what earlier ones have computed. The
//! launch takes the first function that fits its sizes; see [`Wide::fits`]. So which elements a
//! thread combines follows from sizes, strides and offsets alone, and so do the digits of results.

use super::Grid;
use super::grid_plan::{RowsBy, SHARED, shared};
use crate::codegen::kernel::{Direction, Inner, Kernel, Traversal};

/// Bytes of the widest access of a device.
pub const WIDEST: usize = 16;
/// Elements that a thread takes at once, at most: with more, those of operands of four bytes take
/// several accesses each, whose addresses are 32 bytes apart.
const MOST_LANES: usize = 8;
/// Threads of a block for rows that are kept, with the elements that each takes. Merging the states
/// of threads costs each warp the same, so that short rows have few; but a softmax over 1024
/// elements takes 0.24 ms with 128 threads, and 0.27 ms with 32 (65,536 rows, H200).
const KEPT: [(usize, usize); 3] = [(32, 16), (128, 32), (512, 32)];
/// Values of four bytes that a thread keeps at most, of 255 registers.
pub const MOST_KEPT: usize = 96;
/// Threads of a block for rows of any length.
const ANY_LENGTH: usize = 512;

/// How the threads of a grid take contiguous elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wide {
    /// The threads of a block.
    pub threads: usize,
    /// The elements that a thread takes at once, a power of two.
    pub lanes: usize,
    /// The rounds in which a row is taken that is kept in registers; none where rows have any
    /// length.
    pub rounds: Option<usize>,
}

impl Wide {
    /// Whether rows of so many elements can be computed so.
    pub(crate) fn fits(self, count: i64) -> bool {
        self.rounds.is_none_or(|rounds| count <= (rounds * self.threads * self.lanes) as i64)
    }
}

/// The functions for contiguous elements, in the order in which a launch tries them.
pub(crate) fn wide_functions(kernel: &Kernel, traversal: &Traversal, grid: Grid) -> Vec<Wide> {
    let has_scan = kernel.steps.iter().any(|step| step.scan.is_some());
    if has_scan || traversal.inner.contains(&Inner::Strided) || !traversal.inner.contains(&Inner::Unit) {
        return Vec::new();
    }
    let lanes = lanes(kernel, traversal);
    match (grid.rows, traversal.direction) {
        (RowsBy::Thread, Direction::Points) => vec![Wide { threads: grid.threads, lanes, rounds: None }],
        (RowsBy::Block, Direction::Inner | Direction::Split) => of_rows(kernel, lanes),
        _ => Vec::new(),
    }
}

/// The elements of the narrowest operand or result that fill an access.
fn lanes(kernel: &Kernel, traversal: &Traversal) -> usize {
    let moving = (0..kernel.accesses()).filter(|&at| traversal.inner[at] == Inner::Unit);
    let narrowest = moving.map(|at| kernel.dtype_of(at).size()).min().unwrap_or(WIDEST);
    (WIDEST / narrowest.max(1)).clamp(2, MOST_LANES)
}

fn of_rows(kernel: &Kernel, lanes: usize) -> Vec<Wide> {
    let kept = KEPT.map(|(threads, elements)| (threads, Some(elements / lanes)));
    let fits = |&(threads, rounds): &(usize, Option<usize>)| rounds != Some(0) && shared(kernel, threads) <= SHARED;
    let all = kept.into_iter().chain([(ANY_LENGTH, None)]).filter(fits);
    all.map(|(threads, rounds)| Wide { threads, lanes, rounds }).collect()
}
