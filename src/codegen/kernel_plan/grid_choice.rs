//! Chooses the plan of a kernel for blocks of threads, and decides which plans are legal.
//! Neighbouring threads are to read neighbouring elements.
//!
//! ```text
//! group %y
//!   direction outer
//!   grid thread 256 split               rows interleave: a thread each, or one for a part of a row
//! ```

use super::grid_plan::{Grid, LIMITS, RowsBy, SHARED, THREADS, shared};
use super::split_plan::can_split;
use super::square_plan::can_cross;
use super::wide_plan::wide_functions;
use super::{Plan, TUNING};
use crate::codegen::kernel::{Direction, Kernel, Traversal};
use crate::ops::recipes::ReduceOp;

impl Grid {
    /// The same with functions for contiguous elements, for parts of rows and for squares of
    /// points, where a kernel has any.
    pub(crate) fn with_others(self, kernel: &Kernel, traversal: &Traversal) -> Grid {
        let wide = !wide_functions(kernel, traversal, self).is_empty();
        let (split, squares) = (can_split(kernel, traversal, self), can_cross(kernel, traversal, self));
        Grid { wide, split, squares, ..self }
    }
}

/// The plan that heuristics choose for blocks of threads.
pub(crate) fn choose_grid(kernel: &Kernel, traversal: &Traversal) -> Plan {
    let rows = match traversal.direction {
        _ if has_ordered_scan(kernel) => RowsBy::Thread,
        Direction::Points | Direction::Outer => RowsBy::Thread,
        Direction::Inner | Direction::Split | Direction::Strided => RowsBy::Block,
    };
    let grid = Grid { threads: THREADS, rows, wide: false, split: false, squares: false };
    let grid = grid.with_others(kernel, traversal);
    Plan { grid: Some(grid), ..Plan::plain(traversal, &TUNING) }
}

/// Whether a scan has to combine elements one after the other, as one thread does: a product of
/// floats, a part of which may overflow.
fn has_ordered_scan(kernel: &Kernel) -> bool {
    let mut scans = kernel.steps.iter().filter_map(|step| Some((step.scan.as_ref()?, step)));
    scans.any(|(scan, step)| scan.op == ReduceOp::Product && step.computed.is_float())
}

/// Whether a plan for blocks of threads is legal.
///
/// # Errors
/// What forbids it.
pub(crate) fn check_grid(kernel: &Kernel, traversal: &Traversal, plan: &Plan) -> Result<(), String> {
    let Some(grid) = plan.grid else { return Err("it has no grid".to_owned()) };
    let Grid { threads, rows, wide, split, squares } = grid;
    if !LIMITS.contains(&threads) || !threads.is_power_of_two() {
        let (least, most) = (LIMITS.start(), LIMITS.end());
        return Err(format!("grid {} {threads}: it must be a power of two from {least} to {most}", rows.name()));
    }
    if rows == RowsBy::Block && traversal.direction == Direction::Points {
        return Err("grid block: points are rows of one element, which one thread computes".to_owned());
    }
    if rows == RowsBy::Block && has_ordered_scan(kernel) {
        return Err("grid block: products of floats are scanned in order, by one thread".to_owned());
    }
    if rows == RowsBy::Block && shared(kernel, threads) > SHARED {
        return Err(format!("grid block {threads}: its reductions do not fit into shared memory"));
    }
    if wide && wide_functions(kernel, traversal, grid).is_empty() {
        return Err("wide: its elements are not neighbours in memory, or a scan takes one after the other".to_owned());
    }
    if split && !can_split(kernel, traversal, grid) {
        return Err("split: more follows its reductions than values of rows".to_owned());
    }
    if squares && !can_cross(kernel, traversal, grid) {
        return Err("squares: no point has elements that are neighbours along another dimension".to_owned());
    }
    let is_kept = !plan.kept.is_empty() || !plan.alone.is_empty() || !plan.shared.is_empty();
    match is_kept || !plan.apart.is_empty() || !plan.streamed.is_empty() {
        true => Err("alone, apart, keep, share and stream are for processors".to_owned()),
        false => Ok(()),
    }
}
