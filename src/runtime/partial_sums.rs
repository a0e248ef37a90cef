//! Memory for the partial sums of column reductions in launches of blocks of threads.
//!
//! Each block has a copy of the result, in doubles. Its threads share the copy where each adds to
//! elements of its own: they take the elements of a row in turn, so that one thread meets an
//! element in every row. Where several would meet at one, each thread has a copy:
//!
//! ```text
//! x: 64 x 1000, rows along dim 1
//!   sums over dim 0, 1000 of them     a copy for each block
//!   the sum of all, one number        a copy for each thread
//! ```
//!
//! The number of copies depends on sizes only, and so do the digits of results.

use super::device_launch::device_order;
use crate::codegen::column_totals::summed_stores;
use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel_plan::{Grid, RowsBy};
use crate::tensor::layout;

/// Doubles of all copies of a result, from which on fewer blocks are launched: 32 MiB.
const MANY: i64 = 1 << 22;
/// Doubles of the copies of one block, from which on a launch is refused: 256 MiB.
const TOO_MANY: i64 = 1 << 25;

/// The partial sums of a column reduction.
#[derive(Clone, Debug)]
pub(super) struct PartialSums {
    /// The store, and its access.
    pub(super) store: usize,
    pub(super) access: usize,
    /// The elements of the result.
    pub(super) elements: i64,
    /// The copies of a block: one, or one for each thread.
    pub(super) copies: i64,
    /// The partial sums of all copies.
    pub(super) memory: Vec<f64>,
}

impl PartialSums {
    /// Those of a kernel, without memory.
    ///
    /// # Errors
    /// If they take too much memory.
    pub(super) fn of(kernel: &Kernel, geometry: &Geometry, grid: Grid) -> Result<Vec<PartialSums>, String> {
        let one = |store: usize| {
            let access = kernel.loads.len() + store;
            let elements = layout::numel(&geometry.made[kernel.stores[store].tensor].0) as i64;
            let copies = if threads_meet(geometry, access, grid.rows) { grid.threads as i64 } else { 1 };
            match elements * copies <= TOO_MANY {
                true => Ok(PartialSums { store, access, elements, copies, memory: Vec::new() }),
                false => Err(format!("a block has {} partial sums, and memory for {TOO_MANY}", elements * copies)),
            }
        };
        summed_stores(kernel).map(one).collect()
    }

    /// Most blocks of a launch.
    pub(super) fn most_blocks(&self) -> i64 {
        (MANY / (self.elements * self.copies).max(1)).max(1)
    }

    /// Makes memory for a number of blocks.
    pub(super) fn begin(&mut self, blocks: i64) {
        self.memory = vec![0.0; usize::try_from(self.elements * self.copies * blocks).unwrap_or(0)];
    }
}

/// Whether several threads of a block meet at one element of an access.
fn threads_meet(geometry: &Geometry, access: usize, rows: RowsBy) -> bool {
    let (dims, kept) = device_order(geometry);
    let shared_out = if rows == RowsBy::Thread { &dims[..kept] } else { &dims[kept..] };
    let strides = &geometry.strides[access * dims.len()..][..dims.len()];
    shared_out.iter().any(|&dim| geometry.shape[dim] > 1 && strides[dim] == 0)
}
