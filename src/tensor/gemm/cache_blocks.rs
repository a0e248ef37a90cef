//! A matrix product as loops over blocks that fit the caches, around its tiles.
//!
//! A block of the right factor, packed, is reused by all rows, a block of the left one, in the
//! second-level cache, by all columns of the former, and a panel of the right one, in the
//! first-level cache, by all tiles of the latter. The depth of a block depends on nothing but the
//! depth of the product, and tiles begin at multiples of their size, so that each element is the
//! same sum whoever computes it: results do not depend on the number of threads.
#![allow(unsafe_code, reason = "factors are read and the result is written through pointers")]

use super::epilogue::{self, Sums};
use super::packing::{Lines, Packable, pack};
use super::tiles::{Dots, Tile, Tiles};
use std::ops::Range;

/// Elements of a block along the depth: a panel of 16 columns takes half of a first-level cache of
/// 32 KiB.
const DEEPEST: usize = 256;
/// Rows of a block of the left factor, a multiple of the rows of any tile.
pub(super) const MOST_ROWS: usize = 120;
/// Columns of a block of the right factor, a multiple of the columns of any tile.
const MOST_COLUMNS: usize = 2048;
/// The number of rows up to which rows of the right factor are read where they are: packing them
/// would take as long as the product.
const FEW_ROWS: usize = 18;
/// The number of elements from which the left factor is packed: it exceeds the second-level cache,
/// where rows may compete for the same place.
const LARGE_LEFT: usize = 1 << 16;
/// The number of columns from which packing the left factor takes little of the time.
const MANY_COLUMNS: usize = 128;
/// The number of rows up to which a product by contiguous columns is computed by dot products.
const ROWS_OF_DOTS: usize = 4;

/// A matrix in memory: its first element, and the distances between rows and between columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<T> {
    pub first: *const T,
    pub row: usize,
    pub column: usize,
}

/// The right factor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Right<T> {
    Strided(Place<T>),
    /// Blocks along the depth, and in each block the panels of all columns.
    Packed(*const T),
}

/// A matrix product: `result = alpha left right + beta result`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<T> {
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    pub alpha: T,
    pub beta: T,
    pub one: T,
    pub left: Place<T>,
    pub right: Right<T>,
    pub result: *mut T,
    /// The distance between rows of the result; its columns are contiguous.
    pub result_row: usize,
    /// The operations on sums.
    pub epilogue: epilogue::Steps<T>,
}

/// Memory for packed blocks.
#[derive(Debug, Default)]
pub(super) struct Scratch<T> {
    left: Vec<T>,
    right: Vec<T>,
    /// For callers; taken while one uses it.
    pub other: Vec<T>,
    /// For a factor that is packed for one use; taken meanwhile.
    pub panels: Vec<T>,
}

impl<T: Packable> Scratch<T> {
    /// Memory for at least so many elements, twice.
    pub(super) fn both(&mut self, left: usize, right: usize) -> (*mut T, *mut T) {
        (at_least(&mut self.left, left), at_least(&mut self.right, right))
    }
}

/// Memory for at least some elements. Its contents are whatever was there.
fn at_least<T: Packable>(memory: &mut Vec<T>, elements: usize) -> *mut T {
    if memory.len() < elements {
        memory.resize(elements, T::default());
    }
    memory.as_mut_ptr()
}

/// The depth of blocks, equal for all but the last.
pub(super) fn depth_of_block(depth: usize) -> usize {
    depth.div_ceil(depth.div_ceil(DEEPEST).max(1)).max(1)
}

/// The number of elements of a packed right factor.
pub(super) fn packed_len(depth: usize, columns: usize, tile: usize) -> usize {
    depth * columns.next_multiple_of(tile)
}

/// Packs a right factor as [`Right::Packed`] has it.
///
/// # Safety
/// All elements of the factor can be read, and [`packed_len`] elements written.
pub(super) unsafe fn pack_right<T: Packable>(at: Place<T>, (depth, columns): (usize, usize), tile: usize, to: *mut T) {
    let (each, whole) = (depth_of_block(depth), columns.next_multiple_of(tile));
    for from in (0..depth).step_by(each) {
        let deep = each.min(depth - from);
        for column in (0..columns).step_by(tile) {
            // SAFETY: the caller's contract; panels follow each other and end with the last one.
            unsafe {
                let first = at.first.add(from * at.row + column * at.column);
                let count = tile.min(columns - column);
                let lines = Lines { first, line: at.column, step: at.row, count, depth: deep };
                pack(lines, tile, to.add(from * whole + column * deep));
            }
        }
    }
}

impl<T: Packable + PartialEq> Product<T> {
    /// A product of one column as one of one row, which reads contiguous elements at once.
    pub(super) fn turned(self) -> Product<T> {
        match self.right {
            Right::Strided(right) if self.columns == 1 && self.rows > 1 => Product {
                rows: 1,
                columns: self.rows,
                left: Place { first: right.first, row: right.column, column: right.row },
                right: Right::Strided(Place { first: self.left.first, row: self.left.column, column: self.left.row }),
                result_row: self.rows,
                epilogue: self.epilogue.turned(),
                ..self
            },
            _ => self,
        }
    }

    /// The parts that are computed apart: rows, or columns where these are many more or each part
    /// has to pack its columns. Parts begin at multiples of the size of a tile.
    pub(super) fn part(&self, index: usize, parts: usize, tiles: &Tiles<T>) -> (Range<usize>, Range<usize>) {
        let cut = |size: usize, tile: usize| {
            let count = size.div_ceil(tile);
            let at = |i: usize| (count * i / parts * tile).min(size);
            at(index)..at(index + 1)
        };
        let is_packed = matches!(self.right, Right::Packed(_));
        match is_packed && self.rows >= self.columns {
            true => (cut(self.rows, tiles.rows), 0..self.columns),
            false => (0..self.rows, cut(self.columns, tiles.columns)),
        }
    }

    /// Computes some rows and columns.
    ///
    /// # Safety
    /// All elements of the factors can be read, and those rows and columns of the result written;
    /// nothing else reads or writes them meanwhile. The processor has the tiles.
    pub(super) unsafe fn compute(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        tiles: &Tiles<T>,
        scratch: &mut Scratch<T>,
    ) {
        // SAFETY: the same contract.
        unsafe {
            match self.right {
                Right::Strided(right) if right.row == 1 && self.left.column == 1 && self.rows <= ROWS_OF_DOTS => {
                    self.dots(right, rows.clone(), columns.clone(), tiles);
                    self.finish(rows, columns, tiles);
                }
                _ => Blocks::new(self, tiles, scratch).compute(rows, columns),
            }
        }
    }

    /// Does the steps of the epilogue.
    ///
    /// # Safety
    /// See `compute`; the sums of these rows and columns are complete.
    unsafe fn finish(&self, rows: Range<usize>, columns: Range<usize>, tiles: &Tiles<T>) {
        let at = Sums {
            first: self.result.wrapping_add(rows.start * self.result_row + columns.start),
            pitch: self.result_row,
            rows: rows.len(),
            columns: columns.len(),
            row: rows.start,
            column: columns.start,
            result_row: self.result_row,
        };
        // SAFETY: the caller's contract; operands of steps have the size of the result.
        self.epilogue.iter().for_each(|step| unsafe { (tiles.finish)(step, &at) });
    }

    /// Row by row, as dot products with contiguous columns.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn dots(&self, right: Place<T>, rows: Range<usize>, columns: Range<usize>, tiles: &Tiles<T>) {
        for row in rows {
            // SAFETY: the caller's contract.
            unsafe {
                (tiles.dots)(&Dots {
                    depth: self.depth,
                    left: self.left.first.add(row * self.left.row),
                    right: right.first.add(columns.start * right.column),
                    right_column: right.column,
                    result: self.result.add(row * self.result_row + columns.start),
                    columns: columns.len(),
                    alpha: self.alpha,
                    beta: self.beta,
                });
            }
        }
    }
}

/// Some steps along the depth.
#[derive(Clone, Copy)]
struct Steps {
    from: usize,
    deep: usize,
}

/// A product that is computed in blocks.
struct Blocks<'a, T> {
    of: &'a Product<T>,
    tiles: &'a Tiles<T>,
    scratch: &'a mut Scratch<T>,
    /// Whether the left factor is packed.
    packs_left: bool,
    /// Whether whole panels of the right factor are read where they are.
    reads_right: bool,
}

impl<'a, T: Packable + PartialEq> Blocks<'a, T> {
    fn new(of: &'a Product<T>, tiles: &'a Tiles<T>, scratch: &'a mut Scratch<T>) -> Blocks<'a, T> {
        let is_large = of.columns >= MANY_COLUMNS && of.rows * of.depth >= LARGE_LEFT;
        let packs_left = is_large || (of.left.row != 1 && of.left.column != 1);
        let reads_right = matches!(of.right, Right::Strided(right) if right.column == 1 && of.rows <= FEW_ROWS);
        Blocks { of, tiles, scratch, packs_left, reads_right }
    }

    /// # Safety
    /// See [`Product::compute`].
    unsafe fn compute(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let (depth, each) = (self.of.depth, depth_of_block(self.of.depth));
        for first in columns.clone().step_by(MOST_COLUMNS) {
            let columns = first..(first + MOST_COLUMNS).min(columns.end);
            // Without terms there is one block without steps: the result is scaled.
            for from in (0..depth.max(1)).step_by(each) {
                let steps = Steps { from, deep: each.min(depth - from) };
                // SAFETY: the same contract.
                unsafe {
                    self.pack_right(steps, columns.clone());
                    for first in rows.clone().step_by(MOST_ROWS) {
                        self.block(steps, first..(first + MOST_ROWS).min(rows.end), columns.clone());
                    }
                }
            }
        }
    }

    /// Packs columns of the right factor that are not read where they are.
    ///
    /// # Safety
    /// See [`Product::compute`].
    unsafe fn pack_right(&mut self, steps: Steps, columns: Range<usize>) {
        let Right::Strided(right) = self.of.right else { return };
        let width = self.tiles.columns;
        let to = at_least(&mut self.scratch.right, steps.deep * columns.len().next_multiple_of(width));
        for column in columns.clone().step_by(width) {
            let count = width.min(columns.end - column);
            if self.reads_right && count == width {
                continue;
            }
            // SAFETY: the caller's contract, and panels follow each other.
            unsafe {
                let first = right.first.add(steps.from * right.row + column * right.column);
                let lines = Lines { first, line: right.column, step: right.row, count, depth: steps.deep };
                pack(lines, width, to.add((column - columns.start) * steps.deep));
            }
        }
    }

    /// Computes a block of the left factor by a block of the right one.
    ///
    /// # Safety
    /// See [`Product::compute`]; the right factor has been packed.
    unsafe fn block(&mut self, steps: Steps, rows: Range<usize>, columns: Range<usize>) {
        let (of, tiles) = (self.of, self.tiles);
        // SAFETY: the caller's contract.
        let left = unsafe { self.left(steps, rows.clone()) };
        let beta = if steps.from == 0 { of.beta } else { of.one };
        let alpha = if of.depth == 0 { of.one } else { of.alpha };
        for column in columns.clone().step_by(tiles.columns) {
            let count = tiles.columns.min(columns.end - column);
            // SAFETY: the caller's contract; tiles are within these rows and columns.
            unsafe {
                let (right, right_step) = self.panel(steps, column, &columns);
                for row in rows.clone().step_by(tiles.rows) {
                    let tile = Tile {
                        depth: steps.deep,
                        left: left.first.add((row - rows.start) * left.row),
                        left_row: if self.packs_left { 1 } else { left.row },
                        left_step: left.column,
                        right,
                        right_step,
                        offsets: std::ptr::null(),
                        result: of.result.add(row * of.result_row + column),
                        result_row: of.result_row,
                        columns: count,
                        alpha,
                        beta,
                        one: of.one,
                    };
                    (tiles.compute)(tiles.rows.min(rows.end - row), &tile);
                }
                if steps.from + steps.deep == of.depth {
                    of.finish(rows.clone(), column..column + count, tiles);
                }
            }
        }
    }

    /// Rows of the left factor, packed or where they are. Packed, a panel of rows takes `row`
    /// elements for each of its rows.
    ///
    /// # Safety
    /// See [`Product::compute`].
    unsafe fn left(&mut self, steps: Steps, rows: Range<usize>) -> Place<T> {
        let (from, height) = (self.of.left, self.tiles.rows);
        // SAFETY: the caller's contract, and panels follow each other.
        unsafe {
            let at = |row: usize| from.first.add(row * from.row + steps.from * from.column);
            if !self.packs_left {
                return Place { first: at(rows.start), ..from };
            }
            let to = at_least(&mut self.scratch.left, steps.deep * rows.len().next_multiple_of(height));
            for row in rows.clone().step_by(height) {
                let count = height.min(rows.end - row);
                let lines = Lines { first: at(row), line: from.row, step: from.column, count, depth: steps.deep };
                pack(lines, height, to.add((row - rows.start) * steps.deep));
            }
            Place { first: to, row: steps.deep, column: height }
        }
    }

    /// The panel of the right factor from a column on, and the distance between its steps.
    ///
    /// # Safety
    /// See [`Product::compute`]; the right factor has been packed.
    unsafe fn panel(&self, steps: Steps, column: usize, columns: &Range<usize>) -> (*const T, usize) {
        let width = self.tiles.columns;
        // SAFETY: the caller's contract.
        unsafe {
            match self.of.right {
                Right::Packed(first) => {
                    let whole = self.of.columns.next_multiple_of(width);
                    (first.add(steps.from * whole + column * steps.deep), width)
                }
                Right::Strided(right) if self.reads_right && columns.end - column >= width => {
                    (right.first.add(steps.from * right.row + column), right.row)
                }
                Right::Strided(_) => (self.scratch.right.as_ptr().add((column - columns.start) * steps.deep), width),
            }
        }
    }
}
