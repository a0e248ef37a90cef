//! Selects the functions of a kernel that a launch of blocks of threads runs.
//!
//! Threads take several elements at once where each operand and result that has several elements
//! per row is contiguous, rows begin at aligned addresses, and their length is a multiple:
//!
//! ```text
//! x: Float(64, 1000)                    4 elements of 4 bytes at once
//! x: Float(64, 1001)                    an element at a time: the second row is not aligned
//! x: Float(64, 1000), one element on    an element at a time
//! ```

use super::device_launch::DeviceLaunch;
use super::square_launch::by_squares;
use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::{Inner, Kernel};
use crate::codegen::kernel_plan::{Grid, RowsBy, WARP, WIDEST, Wide, parts};
use crate::codegen::target::{Nests, SplitNests, split_names, squares_name, wide_name};

/// The functions of a kernel.
#[derive(Debug)]
pub(super) struct Functions<T> {
    /// That of its plan.
    pub(super) own: T,
    /// Those for contiguous elements, in the order in which they are tried.
    pub(super) wide: Vec<(Wide, T)>,
    /// That for squares of points.
    pub(super) squares: Option<T>,
}

/// The function that a launch takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen<T> {
    pub(super) function: T,
    pub(super) grid: Grid,
    /// The elements that a thread takes at once.
    pub(super) lanes: usize,
    /// The rows that a block takes at once.
    pub(super) rows: usize,
    /// Whether rows are squares, whose threads wait for each other.
    pub(super) has_squares: bool,
}

impl<T: Copy> Functions<T> {
    /// The function for a launch, which is changed where its blocks take squares. `starts` are the
    /// bytes at which accesses begin in memory that is aligned.
    pub(super) fn chosen(
        &self,
        grid: Grid,
        (kernel, geometry): (&Kernel, &Geometry),
        launch: &mut DeviceLaunch,
        starts: &[usize],
    ) -> Chosen<T> {
        let squares = self.squares.filter(|_| by_squares(kernel, &geometry.traversal, launch));
        if let Some(function) = squares {
            return Chosen { function, grid, lanes: 1, rows: 1, has_squares: true };
        }
        let fits = |(wide, _): &&(Wide, T)| {
            wide.fits(i64::from(launch.count), launch.rank - launch.kept)
                && can_take((kernel, geometry), launch, starts, wide.lanes)
        };
        match self.wide.iter().find(fits) {
            Some(&(wide, function)) => {
                let points = wide.threads * wide.lanes * wide.groups;
                let rows = if grid.rows == RowsBy::Block { wide.rows } else { points };
                let grid = Grid { threads: wide.threads, ..grid };
                Chosen { function, grid, lanes: wide.lanes, rows, has_squares: false }
            }
            None => Chosen { function: self.own, grid, lanes: 1, rows: rows_of_block(grid), has_squares: false },
        }
    }
}

/// The rows that a block takes at once, by threads that take one element at a time.
pub(super) fn rows_of_block(grid: Grid) -> usize {
    if grid.rows == RowsBy::Block { 1 } else { grid.threads }
}

/// The rows whose parts a block merges: a warp has one, or all of its threads have.
pub(super) fn rows_of_merge(grid: Grid) -> usize {
    if grid.rows == RowsBy::Block { 1 } else { grid.threads / WARP }
}

/// Whether threads can take so many elements at once: all operands and results that have several
/// per row are aligned, and rows have a multiple of them.
pub(super) fn can_take(
    (kernel, geometry): (&Kernel, &Geometry),
    launch: &DeviceLaunch,
    starts: &[usize],
    lanes: usize,
) -> bool {
    let moving = (0..kernel.accesses()).filter(|&at| geometry.traversal.inner[at] == Inner::Unit);
    let mut moving = moving.filter(|&at| !kernel.is_column_reduction(at));
    (launch.shape[(launch.rank - 1).max(0) as usize] as usize).is_multiple_of(lanes)
        && moving.all(|at| is_aligned(launch, at, starts[at], (kernel.dtype_of(at).size(), lanes)))
}

/// Whether several elements of an access are aligned wherever a thread takes them.
fn is_aligned(launch: &DeviceLaunch, at: usize, start: usize, (size, lanes): (usize, usize)) -> bool {
    let (unit, outer) = ((size * lanes).min(WIDEST), (launch.rank - 1).max(0) as usize);
    let is_whole = |&stride: &u32| (stride as usize * size).is_multiple_of(unit);
    start.is_multiple_of(unit) && launch.strides[at][..outer].iter().all(is_whole)
}

/// The functions of split reductions.
#[derive(Debug)]
pub(super) struct SplitFunctions<T> {
    /// Those of each phase.
    pub(super) phases: Vec<(Functions<T>, Option<T>)>,
    /// The slots of 8 bytes that each part of each row leaves.
    pub(super) slots: usize,
}

/// The launches of split reductions.
#[derive(Clone, Debug)]
pub(super) struct SplitLaunch<T> {
    /// The launches of all parts, one for each phase, and what merges what they leave.
    pub(super) phases: Vec<(Chosen<T>, Option<T>)>,
    /// The blocks of a launch of parts.
    pub(super) blocks: i64,
    /// The 8-byte slots that all parts leave.
    pub(super) slots: usize,
}

impl<T: Copy> SplitFunctions<T> {
    /// The launches, if rows are worth it to be split. The parts are noted in the launch.
    pub(super) fn chosen(
        &self,
        grid: Grid,
        of: (&Kernel, &Geometry),
        launch: &mut DeviceLaunch,
        starts: &[usize],
    ) -> Option<SplitLaunch<T>> {
        let mut chosen = |(parts, merge): &(Functions<T>, Option<T>)| (parts.chosen(grid, of, launch, starts), *merge);
        let phases: Vec<(Chosen<T>, Option<T>)> = self.phases.iter().map(&mut chosen).collect();
        // Which elements a thread takes is the same in all phases.
        let chosen = &phases.first()?.0;
        let wide = Wide::plain(chosen.grid.threads, chosen.lanes);
        let (rows, elements) = (i64::from(launch.rows), i64::from(launch.count));
        let parts = parts(of.0, (rows, elements), grid.rows, wide)?;
        (launch.parts, launch.share) = (u32::try_from(parts.count).ok()?, u32::try_from(parts.elements).ok()?);
        let taken = rows_of_block(grid) as i64;
        let blocks = (rows * parts.count + taken - 1) / taken;
        let slots = usize::try_from(rows * parts.count).ok()? * self.slots;
        Some(SplitLaunch { phases, blocks, slots })
    }
}

/// The functions of a kernel by their names.
pub(super) fn functions_of<T>(
    name: &str,
    nests: &Nests,
    find: impl Fn(&str) -> Result<T, String>,
) -> Result<Functions<T>, String> {
    let wide = nests.wide.iter().enumerate();
    let wide = wide.map(|(number, (wide, _))| Ok((*wide, find(&wide_name(name, number))?)));
    let squares = nests.squares.as_ref().map(|_| find(&squares_name(name))).transpose()?;
    Ok(Functions { own: find(name)?, wide: wide.collect::<Result<_, String>>()?, squares })
}

/// The functions of a split reduction by their names.
pub(super) fn split_functions_of<T>(
    name: &str,
    nests: &Nests,
    find: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<SplitFunctions<T>>, String> {
    let of_phase = |(phase, split): (usize, &SplitNests)| {
        let [parts, wide_parts, merge] = split_names(name, phase);
        let wide = split.wide.iter().map(|(wide, _)| Ok((*wide, find(&wide_parts)?)));
        let parts = Functions { own: find(&parts)?, wide: wide.collect::<Result<_, String>>()?, squares: None };
        Ok::<_, String>((parts, split.merge.as_ref().map(|_| find(&merge)).transpose()?))
    };
    let phases = nests.split.iter().enumerate().map(of_phase).collect::<Result<Vec<_>, String>>()?;
    let slots = nests.split.first().map(|split| split.parts.slots);
    Ok(slots.map(|slots| SplitFunctions { phases, slots }))
}
