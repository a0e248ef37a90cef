//! Squares of points: what blocks of threads take where operands or results disagree about the
//! innermost dimension, so that a warp reads and writes neighbouring elements of all of them; see
//! `nest/square_nests.rs`.
//!
//! ```text
//! x: Float(512, 256), strides 1, 512    transposed: its elements go through shared memory
//! y: Float(512, 256), strides 256, 1
//! x + y                                 grid thread 256 squares
//! ```
//!
//! A kernel is compiled for stride classes and not for strides, and so has this function in
//! addition to its own one. A launch takes it where a warp then touches at most half as many bytes,
//! see [`crossing`].

use super::grid_plan::{Grid, RowsBy, SHARED, WARP};
use crate::codegen::kernel::{Direction, Inner, Kernel, Traversal};

/// The points along a side of a square: a warp reads and writes a line of it at once.
pub(crate) const SIDE: usize = WARP;
/// The fewest positions along the dimensions of squares: with fewer, most threads have no point.
const LEAST: u32 = 16;
/// Bytes that a device reads or writes at least.
const SECTOR: usize = 32;

/// The elements of so many bytes from a line of a square in shared memory to the next one: a side
/// and four bytes, or an element that has more. The elements of a column then are an odd number of
/// words of four bytes apart, or of elements of eight, so that they are in different banks.
pub(crate) fn line(side: usize, size: usize) -> usize {
    side + (4 / size.max(1)).max(1)
}

/// The accesses that go through shared memory: those that are not contiguous along the innermost
/// dimension, and have several elements there.
pub(crate) fn crossed(traversal: &Traversal) -> Vec<usize> {
    (0..traversal.inner.len()).filter(|&at| traversal.inner[at] == Inner::Strided).collect()
}

/// Whether a kernel has a function whose blocks take squares.
pub(super) fn can_cross(kernel: &Kernel, traversal: &Traversal, grid: Grid) -> bool {
    let through = crossed(traversal);
    let sizes = through.iter().map(|&at| kernel.dtype_of(at).size());
    let bytes: usize = sizes.map(|size| size * SIDE * line(SIDE, size)).sum();
    let has_points = traversal.direction == Direction::Points && grid.rows == RowsBy::Thread;
    has_points && !through.is_empty() && bytes <= SHARED && grid.threads <= SIDE * SIDE
}

/// The dimension that squares have besides the innermost one, if a launch is worth them: that along
/// which crossed accesses are closest. `shape` and the strides of each access have the innermost
/// dimension last.
fn crossing<'s>(
    kernel: &Kernel,
    traversal: &Traversal,
    shape: &[u32],
    strides: &dyn Fn(usize) -> &'s [u32],
) -> Option<usize> {
    let last = shape.len().checked_sub(1).filter(|&last| shape[last] >= LEAST)?;
    let through = crossed(traversal);
    // Bytes that a device reads for each lane, where lanes are neighbours along a dimension.
    let touched = |dim: usize| {
        let of_lane = |&at: &usize| (strides(at)[dim] as usize).saturating_mul(kernel.dtype_of(at).size());
        through.iter().map(|at| of_lane(at).clamp(1, SECTOR)).sum::<usize>()
    };
    let best = (0..last).rev().filter(|&dim| shape[dim] >= LEAST).min_by_key(|&dim| touched(dim))?;
    (2 * touched(best) <= touched(last)).then_some(best)
}

/// The dimension that squares have besides the innermost one, see [`crossing`], and the number of
/// squares, if a launch is worth them.
pub(crate) fn squares<'s>(
    kernel: &Kernel,
    traversal: &Traversal,
    shape: &[u32],
    strides: &dyn Fn(usize) -> &'s [u32],
) -> Option<(usize, u32)> {
    let dim = crossing(kernel, traversal, shape, strides)?;
    let is_side = |at: usize| at == dim || at + 1 == shape.len();
    let along = |(at, &size): (usize, &u32)| if is_side(at) { size.div_ceil(SIDE as u32) } else { size };
    // Fewer than points, whose number a launch has checked.
    Some((dim, shape.iter().enumerate().map(along).product()))
}
