//! Matrix products on slices.
//!
//! `naive` is three loops in wide numbers. For `f32` and `f64` [`Real::multiply`] computes the
//! same with vectors: [`Product`] describes a product, whose right factor may be [`Packed`] once
//! for many products, and whose parts may be computed by several threads. `tools/bench/results.md`
//! compares it with OpenBLAS and PyTorch, and says why no crate computes products here.

#![allow(unsafe_code, reason = "vectors are read and written through pointers; see the contracts")]

mod cache_blocks;
mod channels_last;
mod element_functions;
mod epilogue;
mod lanes;
mod online_softmax;
mod packing;
mod sliding;
mod taps;
mod tiles;
mod window_phases;

use super::buffer::{C128, Typed, Wide};
use cache_blocks::Scratch;
use element_functions::Activated;
use std::cell::RefCell;
use std::marker::PhantomData;
use tiles::Tiles;

pub use channels_last::{ChannelsLast, taps_first};
pub use element_functions::Function;
use epilogue::Steps;
pub use epilogue::{MOST_STEPS, Step};
pub use online_softmax::{Rows, Running, are_at_most, weigh};
pub use sliding::{Filters, Image, SLACK, Sizes, Sliding, pad, scale_channels, with_memory};
pub use window_phases::{Axis, Distances, Window};

/// The layout of a matrix in a slice, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The offset of its first element.
    pub offset: usize,
    /// The distance between rows; 0 if one row is broadcast.
    pub row_stride: usize,
    /// The distance between columns.
    pub col_stride: usize,
}

impl Matrix {
    /// A row-major matrix at the start of the slice.
    pub fn in_rows(rows: usize, cols: usize) -> Matrix {
        Matrix { rows, cols, offset: 0, row_stride: cols, col_stride: 1 }
    }

    /// Rows and columns swapped.
    pub fn transposed(self) -> Matrix {
        let Matrix { rows, cols, offset, row_stride, col_stride } = self;
        Matrix { rows: cols, cols: rows, offset, row_stride: col_stride, col_stride: row_stride }
    }

    /// Whether all elements are inside a slice of this length, and the strides fit pointer
    /// arithmetic.
    fn fits(&self, len: usize) -> bool {
        let small = |n: usize| isize::try_from(n).is_ok();
        let reach = |n: usize, stride: usize| (n - 1).checked_mul(stride);
        let last = || {
            let (down, right) = (reach(self.rows, self.row_stride)?, reach(self.cols, self.col_stride)?);
            self.offset.checked_add(down)?.checked_add(right)
        };
        let empty = self.rows == 0 || self.cols == 0;
        small(self.row_stride) && small(self.col_stride) && (empty || last().is_some_and(|last| last < len))
    }

    /// Its range in a slice; an empty one is nowhere.
    fn place<T>(&self, slice: &[T]) -> cache_blocks::Place<T> {
        let is_empty = self.rows == 0 || self.cols == 0;
        if is_empty {
            return cache_blocks::Place { first: slice.as_ptr(), row: 0, column: 0 };
        }
        cache_blocks::Place { first: slice[self.offset..].as_ptr(), row: self.row_stride, column: self.col_stride }
    }

    fn at(&self, row: usize, col: usize) -> usize {
        self.offset + row * self.row_stride + col * self.col_stride
    }
}

/// A wide number with sums of products. Integers wrap.
pub trait Ring: Wide {
    /// `self + a b`
    fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self other`
    fn times(self, other: Self) -> Self {
        Self::default().plus_product(self, other)
    }
}

impl Ring for i64 {
    #[inline]
    fn plus_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
    #[inline]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}

macro_rules! ring {
    ($($t:ty)*) => {$(impl Ring for $t {
        #[inline]
        fn plus_product(self, a: $t, b: $t) -> $t { self + a * b }
        #[inline]
        fn plus(self, other: $t) -> $t { self + other }
        #[inline]
        fn times(self, other: $t) -> $t { self * other }
    })*};
}
ring!(f64 C128);

/// Adds a product to `c`, whose rows are contiguous.
pub(crate) fn naive<W: Ring>(a: &[W], a_at: Matrix, b: &[W], b_at: Matrix, c: &mut [W]) {
    for (i, row) in c.chunks_exact_mut(b_at.cols.max(1)).enumerate().take(a_at.rows) {
        for k in 0..a_at.cols {
            let factor = a[a_at.at(i, k)];
            match b_at.col_stride {
                1 => {
                    let from = b_at.at(k, 0);
                    for (sum, &x) in row.iter_mut().zip(&b[from..from + b_at.cols]) {
                        *sum = sum.plus_product(factor, x);
                    }
                }
                _ => {
                    for (j, sum) in row.iter_mut().enumerate() {
                        *sum = sum.plus_product(factor, b[b_at.at(k, j)]);
                    }
                }
            }
        }
    }
}

/// An element type with a fast matrix product.
#[allow(private_bounds, reason = "what elements need for it is a matter of this module")]
pub trait Real: Typed + Default + PartialEq + Send + Sync + Tiled + std::ops::Mul<Output = Self> {
    /// From a wide number.
    fn of(x: f64) -> Self;

    /// As a wide number.
    fn wide(self) -> f64;

    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;

    /// The sum with another number.
    fn added(self, other: Self) -> Self;

    /// The product with another number.
    fn multiplied(self, by: Self) -> Self;

    /// The quotient by another number.
    fn divided(self, by: Self) -> Self;

    /// `c = alpha a b + beta c`, where the rows of `c` are contiguous. `c` is not read when beta is
    /// 0.
    ///
    /// # Panics
    /// When an operand exceeds its slice, or sizes do not match.
    fn multiply(alpha: Self, (a, a_at): (&[Self], Matrix), (b, b_at): (&[Self], Matrix), beta: Self, c: &mut [Self]) {
        Product::new(alpha, (a, a_at), Right::Matrix(b, b_at), beta, c).compute();
    }
}

/// The kernels of this processor for an element type.
trait Tiled: packing::Packable + PartialEq + Activated + online_softmax::Weighted {
    /// Calls with the tiles of this processor, and memory of this thread for packed blocks.
    fn with_tiles<R>(work: impl FnOnce(&Tiles<Self>, &mut Scratch<Self>) -> R) -> R;
}

macro_rules! real {
    ($($element:ty: $tiles:ident;)*) => {$(
        impl Real for $element {
            fn of(x: f64) -> $element {
                x as $element
            }
            fn wide(self) -> f64 {
                self.into()
            }
            fn added(self, other: $element) -> $element {
                self + other
            }
            fn multiplied(self, by: $element) -> $element {
                self * by
            }
            fn divided(self, by: $element) -> $element {
                self / by
            }
            fn is_finite(self) -> bool {
                <$element>::is_finite(self)
            }
        }
        impl Tiled for $element {
            fn with_tiles<R>(work: impl FnOnce(&Tiles<$element>, &mut Scratch<$element>) -> R) -> R {
                thread_local! { static SCRATCH: RefCell<Scratch<$element>> = RefCell::default(); }
                SCRATCH.with_borrow_mut(|scratch| work(tiles::$tiles(), scratch))
            }
        }
    )*};
}
real! { f32: singles; f64: doubles; }

/// Where packed elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelMemory {
    /// In memory of their own.
    Own,
    /// In memory of this thread, which gets it back for the next ones.
    Lent,
}

/// Packed elements.
pub trait Panels {
    /// Gives lent memory back to this thread.
    fn give_back(&mut self);
}

/// The most bytes that a thread keeps for packed elements.
const MOST_LENT: usize = 64 << 20;

/// Memory for at least so many packed elements. Its contents are unspecified.
fn panels<T: Real>(elements: usize, memory: PanelMemory) -> Vec<T> {
    let mut panels = match memory {
        PanelMemory::Own => return vec![T::default(); elements],
        PanelMemory::Lent => T::with_tiles(|_, scratch| std::mem::take(&mut scratch.panels)),
    };
    if panels.len() < elements {
        panels.resize(elements, T::default());
    }
    panels
}

/// Gives lent memory back, unless this thread has more.
fn give_back<T: Real>(memory: &mut Vec<T>) {
    let memory = std::mem::take(memory);
    if memory.len() * size_of::<T>() <= MOST_LENT {
        T::with_tiles(|_, scratch| {
            if memory.len() > scratch.panels.len() {
                scratch.panels = memory;
            }
        });
    }
}

/// A right factor in the order in which products read it.
#[derive(Clone, Debug)]
pub struct Packed<T> {
    depth: usize,
    columns: usize,
    panels: Vec<T>,
}

impl<T: Real> Panels for Packed<T> {
    fn give_back(&mut self) {
        give_back(&mut self.panels);
    }
}

impl<T: Real> Packed<T> {
    /// Packs a matrix.
    ///
    /// # Panics
    /// When it exceeds the slice.
    pub fn of(b: &[T], at: Matrix, memory: PanelMemory) -> Packed<T> {
        assert!(at.fits(b.len()), "operands lie in their slices");
        let (depth, columns) = (at.rows, at.cols);
        let tile = T::with_tiles(|tiles, _| tiles.columns);
        let mut panels = panels(cache_blocks::packed_len(depth, columns, tile), memory);
        // SAFETY: the elements are in the slice, as asserted, and the vector is as long as needed.
        unsafe { cache_blocks::pack_right(at.place(b), (depth, columns), tile, panels.as_mut_ptr()) };
        Packed { depth, columns, panels }
    }
}

/// The right factor of a product.
#[derive(Clone, Copy, Debug)]
pub enum Right<'a, T> {
    /// A matrix in a slice.
    Matrix(&'a [T], Matrix),
    /// A packed one.
    Packed(&'a Packed<T>),
}

/// A product to be computed.
#[derive(Debug)]
pub struct Product<'a, T> {
    placed: cache_blocks::Product<T>,
    operands: PhantomData<(&'a [T], &'a mut [T])>,
}

impl<'a, T: Real> Product<'a, T> {
    /// `c = alpha a b + beta c`, where the rows of `c` are contiguous. `c` is not read when beta is
    /// 0.
    ///
    /// # Panics
    /// When an operand exceeds its slice, or sizes do not match.
    pub fn new(alpha: T, (a, a_at): (&'a [T], Matrix), b: Right<'a, T>, beta: T, c: &'a mut [T]) -> Product<'a, T> {
        let (right, depth, columns) = match b {
            Right::Matrix(b, at) => {
                assert!(at.fits(b.len()), "operands lie in their slices");
                (cache_blocks::Right::Strided(at.place(b)), at.rows, at.cols)
            }
            Right::Packed(b) => (cache_blocks::Right::Packed(b.panels.as_ptr()), b.depth, b.columns),
        };
        assert!(a_at.fits(a.len()), "operands lie in their slices");
        assert!(a_at.cols == depth && a_at.rows.checked_mul(columns) == Some(c.len()), "sizes fit together");
        let placed = cache_blocks::Product {
            rows: a_at.rows,
            depth,
            columns,
            alpha,
            beta,
            one: T::of(1.0),
            left: a_at.place(a),
            right,
            result: c.as_mut_ptr(),
            result_row: columns,
            epilogue: Steps::of(&[], a_at.rows, columns),
        };
        Product { placed: placed.turned(), operands: PhantomData }
    }

    /// The same with steps on the sums.
    ///
    /// # Panics
    /// When there are too many, or an operand has another size.
    pub fn then(mut self, steps: &[Step<'a, T>]) -> Product<'a, T> {
        self.placed.epilogue = Steps::of(steps, self.placed.rows, self.placed.columns);
        self
    }

    /// Computes it on this thread.
    pub fn compute(self) {
        // SAFETY: the whole product, whose operands are borrowed.
        unsafe { self.shared().compute(0, 1) }
    }

    /// The product for other threads, which borrows nothing.
    pub(crate) fn shared(&self) -> Shared<T> {
        Shared(self.placed)
    }
}

/// A product whose parts several threads compute.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T>(cache_blocks::Product<T>);

// SAFETY: addresses and numbers, which `compute` alone reads or writes through, under its contract.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: see above.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T: Real> Shared<T> {
    /// Computes one of some parts.
    ///
    /// # Safety
    /// The operands of the product are still borrowed, and no other thread computes this part.
    pub(crate) unsafe fn compute(&self, part: usize, parts: usize) {
        T::with_tiles(|tiles, scratch| {
            let (rows, columns) = self.0.part(part, parts, tiles);
            // SAFETY: `Product::new` asserted that factors and result are inside their slices, and
            // the result is borrowed mutably, so that it is apart from them. Parts are disjoint.
            // The tiles are those of this processor.
            unsafe { self.0.compute(rows, columns, tiles, scratch) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + 13) % 101) as f64 / 8.0 - 6.0).collect()
    }

    /// All layouts, and the sizes around those of the inner kernels, agree with three loops. The
    /// numbers are such that every sum is exact.
    #[test]
    fn strides_and_edges() {
        let (a, b) = (numbers(4000), numbers(4000));
        let (a32, b32): (Vec<f32>, Vec<f32>) =
            (a.iter().map(|&x| x as f32).collect(), b.iter().map(|&x| x as f32).collect());
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (8, 8, 8), (17, 9, 33), (1, 30, 40), (31, 1, 7), (5, 0, 4), (0, 3, 2)] {
            let rows = |rows, cols| Matrix { offset: 11, row_stride: 2 * cols + 1, col_stride: 2, rows, cols };
            let columns = |rows: usize, cols| Matrix { offset: 3, row_stride: 1, col_stride: rows + 2, rows, cols };
            let same = |rows, cols| Matrix { offset: 5, row_stride: 0, col_stride: 1, rows, cols };
            for a_at in [Matrix::in_rows(m, k), rows(m, k), columns(m, k), same(m, k)] {
                for b_at in [Matrix::in_rows(k, n), rows(k, n), columns(k, n), same(n, k).transposed()] {
                    let mut expected = vec![0.0; m * n];
                    naive(&a, a_at, &b, b_at, &mut expected);
                    let (mut c, mut c32) = (vec![f64::NAN; m * n], vec![1f32; m * n]);
                    f64::multiply(1.0, (&a, a_at), (&b, b_at), 0.0, &mut c);
                    f32::multiply(2.0, (&a32, a_at), (&b32, b_at), 3.0, &mut c32);
                    assert_eq!(c, expected);
                    assert!(c32.iter().zip(&expected).all(|(&x, &y)| f64::from(x) == 2.0 * y + 3.0));
                }
            }
        }
    }

    /// Sizes beyond those of blocks, whole and in parts, with a factor where it is or packed: the
    /// same numbers, which are exact, on every path, and the same bits in parts.
    #[test]
    fn blocks_parts_and_packed_factors() {
        let whole = |n: usize, period: usize| (0..n).map(|i| (i % period) as f32 - 3.0).collect::<Vec<f32>>();
        for (m, k, n) in [(1, 700, 37), (3, 300, 100), (125, 260, 40), (9, 20, 2100), (64, 513, 1)] {
            let (a, b) = (whole(m * k, 7), whole(k * n, 11));
            let wide = |x: &[f32]| x.iter().copied().map(f64::from).collect::<Vec<f64>>();
            for b_at in [Matrix::in_rows(k, n), Matrix::in_rows(n, k).transposed()] {
                let a_at = Matrix::in_rows(m, k);
                let mut expected = vec![0.0; m * n];
                naive(&wide(&a), a_at, &wide(&b), b_at, &mut expected);
                let packed = Packed::of(&b, b_at, PanelMemory::Lent);
                for right in [Right::Matrix(&b, b_at), Right::Packed(&packed)] {
                    let mut c = vec![f32::NAN; m * n];
                    Product::new(1.0, (&a, a_at), right, 0.0, &mut c).compute();
                    assert_eq!(wide(&c), expected, "{m} {k} {n}");
                    let mut in_parts = vec![f32::NAN; m * n];
                    let shared = Product::new(0.3, (&a, a_at), right, 0.0, &mut in_parts).shared();
                    // SAFETY: the operands are borrowed here, and each part is computed once.
                    (0..3).for_each(|part| unsafe { shared.compute(part, 3) });
                    Product::new(0.3, (&a, a_at), right, 0.0, &mut c).compute();
                    assert_eq!(in_parts, c);
                }
            }
        }
    }

    /// NaN and infinities reach their row and column and no other element.
    #[test]
    fn non_finite_values_stay_in_their_row_and_column() {
        let (m, k, n) = (7, 300, 19);
        let (mut a, mut b) = (vec![1f32; m * k], vec![1f32; k * n]);
        (a[3 * k + 5], b[7 * n + 18]) = (f32::NAN, f32::INFINITY);
        let mut c = vec![0f32; m * n];
        f32::multiply(1.0, (&a, Matrix::in_rows(m, k)), (&b, Matrix::in_rows(k, n)), 0.0, &mut c);
        for (i, row) in c.chunks(n).enumerate() {
            assert!(row.iter().enumerate().all(|(j, &x)| match (i, j) {
                (3, _) => x.is_nan(),
                (_, 18) => x == f32::INFINITY,
                _ => x == k as f32,
            }));
        }
    }

    /// The tiles of all processors that this one is, with equal steps and with offsets.
    #[test]
    fn all_kinds_of_tiles_agree() {
        for tiles in tiles::all_singles() {
            for (rows, columns) in
                (1..=tiles.rows).flat_map(|rows| [(rows, tiles.columns), (rows, tiles.columns - 3), (rows, 1)])
            {
                let depth = 9;
                let left: Vec<f32> = (0..rows * depth).map(|i| (i % 5) as f32).collect();
                let right: Vec<f32> = (0..depth * tiles.columns).map(|i| (i % 3) as f32).collect();
                let offsets: Vec<u32> = (0..depth).map(|i| ((i + 4) % depth * tiles.columns) as u32).collect();
                for has_offsets in [false, true] {
                    let mut result = vec![1f32; rows * columns];
                    let tile = tiles::Tile {
                        depth,
                        left: left.as_ptr(),
                        left_row: depth,
                        left_step: 1,
                        right: right.as_ptr(),
                        right_step: tiles.columns,
                        offsets: offsets.as_ptr(),
                        result: result.as_mut_ptr(),
                        result_row: columns,
                        columns,
                        alpha: 2.0,
                        beta: 3.0,
                        one: 1.0,
                    };
                    // SAFETY: the vectors are as long as the tile says, and the processor has the
                    // tiles.
                    unsafe { if has_offsets { (tiles.compute_at)(rows, &tile) } else { (tiles.compute)(rows, &tile) } };
                    for (at, &x) in result.iter().enumerate() {
                        let step = |i| if has_offsets { offsets[i] as usize } else { i * tiles.columns };
                        let sum: f32 =
                            (0..depth).map(|i| left[at / columns * depth + i] * right[step(i) + at % columns]).sum();
                        assert_eq!(x, 2.0 * sum + 3.0);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "operands lie in their slices")]
    fn out_of_bounds_is_refused() {
        let at = Matrix { rows: 2, cols: 2, offset: 1, row_stride: 2, col_stride: 1 };
        f64::multiply(1.0, (&[0.0; 4], at), (&[0.0; 4], Matrix::in_rows(2, 2)), 0.0, &mut [0.0; 4]);
    }
}
