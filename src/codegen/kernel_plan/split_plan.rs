//! Split reductions on blocks of threads: where there are few rows, several threads or blocks
//! reduce a part of a row each, and a second launch merges what they have left. A softmax over rows
//! that interleave takes five launches: two that reduce parts, each with one that merges, and one
//! that writes the elements of parts. A scan takes two: the second one adds up what the parts
//! before its own have left.
//!
//! ```text
//! sums over dim 0 of 65536 x 1024       1024 rows, 65536 elements each: 256 parts, a thread each
//! the sum of all of it                  one row of 67108864 elements: 1056 parts, a block each
//! ```
//!
//! How many parts there are depends on sizes only, and they are merged in an order that depends on
//! their number only, so that results are the same on every device.

use super::grid_plan::{Grid, RowsBy};
use super::wide_plan::{AHEAD, Wide, wide_functions};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::codegen::loop_structure::{Aim, Loops};

/// Threads of a split launch whose rows are computed by a thread each: those of 128 processors with
/// 2048 each.
const THREADS: i64 = 1 << 18;
/// Blocks of one whose rows are computed by a block each: eight for each of 132 processors.
const BLOCKS: i64 = 1056;
/// The fewest elements of a part, for each thread that reduces it: fewer take less time than a
/// second launch.
const LEAST: i64 = 32;
/// The same of scans, whose threads wait for each other twice at each.
const LEAST_SCANNED: i64 = 8;

/// The parts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Their number, two at least.
    pub count: i64,
    /// The elements of each; the last one may have fewer, but has some.
    pub elements: i64,
}

/// Whether a kernel has launches of its own for parts of rows. Interleaved rows have one for each
/// phase, whose parts may also write elements. Rows of blocks are split where a kernel reduces once
/// and all else is of rows: other long rows have more threads already.
pub(crate) fn can_split(kernel: &Kernel, traversal: &Traversal, grid: Grid) -> bool {
    let loops = Loops::new(kernel, traversal, &super::Plan::plain(traversal, &super::TUNING));
    let only_reduces = || loops.aims(0).iter().all(|aim| matches!(aim, Aim::Reduce(_)));
    let follows = match traversal.direction {
        Direction::Outer => grid.rows == RowsBy::Thread && loops.phases > 1,
        Direction::Inner | Direction::Split | Direction::Strided => {
            grid.rows == RowsBy::Block && loops.phases == 2 && loops.aims(1).is_empty() && only_reduces()
        }
        Direction::Points => false,
    };
    let is_split = if kernel.has_scan() { can_split_scans(&loops, grid) } else { follows };
    is_split && kernel.column_reductions.is_empty()
}

/// The same of scans along memory: where nothing is reduced besides, no result has one element per
/// row, and no scan reads another one.
fn can_split_scans(loops: &Loops<'_>, grid: Grid) -> bool {
    let (kernel, traversal) = (loops.kernel, loops.traversal);
    let is_scan = |i: &usize| kernel.steps[*i].scan.is_some();
    let is_alone = |i: usize| !is_scan(&i) || !loops.steps(0, &[Aim::Total(i)]).iter().any(is_scan);
    grid.rows == RowsBy::Block
        && traversal.direction.has_single_rows()
        && kernel.reductions.is_empty()
        && (0..kernel.stores.len()).all(|store| !traversal.writes_rows(kernel, store))
        && (0..kernel.steps.len()).all(is_alone)
}

/// Whether each phase of a kernel with split rows reduces: the last one writes elements, if there
/// are any to be written then.
pub(crate) fn split_phases(kernel: &Kernel, traversal: &Traversal) -> Vec<bool> {
    if kernel.has_scan() {
        return vec![false; 2];
    }
    let loops = Loops::new(kernel, traversal, &super::Plan::plain(traversal, &super::TUNING));
    let last = (0..loops.phases).rposition(|phase| !loops.aims(phase).is_empty());
    let reduces = |phase: usize| loops.aims(phase).iter().any(|aim| matches!(aim, Aim::Reduce(_)));
    (0..last.map_or(0, |last| last + 1)).map(reduces).collect()
}

/// How the threads of parts take contiguous elements, if they do: those of any number.
pub(crate) fn wide_of_parts(kernel: &Kernel, traversal: &Traversal, grid: Grid) -> Option<Wide> {
    let wide = wide_functions(kernel, traversal, grid).into_iter().find(|wide| wide.rounds.is_none());
    let blocks = |wide: Wide| if kernel.has_scan() { wide.blocks } else { 0 };
    wide.map(|wide| Wide { threads: grid.threads, ahead: AHEAD, blocks: blocks(wide), ..wide })
}

/// The parts of rows of so many elements, if it is worth it to split them.
pub fn parts(kernel: &Kernel, (rows, elements): (i64, i64), by: RowsBy, wide: Wide) -> Option<Parts> {
    let least = if kernel.has_scan() { LEAST_SCANNED } else { LEAST };
    parts_of((rows, elements), by, wide, least)
}

fn parts_of((rows, elements): (i64, i64), by: RowsBy, wide: Wide, least: i64) -> Option<Parts> {
    let (wanted, together) = match by {
        RowsBy::Thread => (THREADS / rows.max(1), 1),
        RowsBy::Block => (BLOCKS / rows.max(1), (wide.threads * wide.lanes) as i64),
    };
    let count = wanted.min(elements / (least * together));
    let each = (elements + count - 1).checked_div(count)?;
    let elements_of_part = (each + together - 1) / together * together;
    let count = (elements + elements_of_part - 1) / elements_of_part;
    (count > 1).then_some(Parts { count, elements: elements_of_part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_rows() {
        let by = [(RowsBy::Thread, 1), (RowsBy::Block, 1), (RowsBy::Block, 8)];
        for (rows, lanes) in by {
            let wide = Wide::plain(256, lanes);
            for n in [0, 1, 31, 64, 1000, 4096, 65_536, 1_000_003, 1 << 30] {
                for (k, least) in [1, 3, 1024, 1 << 20].into_iter().flat_map(|k| [(k, LEAST), (k, LEAST_SCANNED)]) {
                    let Some(parts) = parts_of((k, n), rows, wide, least) else { continue };
                    assert!(parts.count > 1 && parts.elements * parts.count >= n, "{k} {n} {parts:?}");
                    assert!(parts.elements * (parts.count - 1) < n, "{k} {n} {parts:?}: the last part is empty");
                    assert_eq!(parts.elements % lanes as i64, 0);
                }
            }
        }
        let of_threads = parts_of((1024, 65_536), RowsBy::Thread, Wide::plain(256, 1), LEAST);
        assert_eq!(of_threads.map(|p| p.count), Some(256));
    }
}
