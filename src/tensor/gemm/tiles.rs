//! The innermost loops of a matrix product: a tile of the result, whose sums stay in registers.
//!
//! A tile has few rows and two vectors of columns. In each step along the depth it loads two
//! vectors of the right factor and multiplies them by one element of each row of the left one: with
//! AVX2, 12 fused multiplications and additions for 8 loads, with AVX-512 24 for 14. The number of
//! rows is about the largest for which sums, vectors and one element fit the 16 or 32 registers. A
//! tile of few rows has too few sums to hide the latency of an addition (4 cycles, 2 in each), so
//! the depth is divided between several sums of the same element.
//!
//! The steps of the right factor are either equally far apart or where a list of offsets says: the
//! elements under a sliding window need not be copied.
#![allow(unsafe_code, reason = "tiles are read and written through pointers")]
#![allow(clippy::needless_range_loop, reason = "indices name registers, as loops are unrolled")]

use super::epilogue::{self, Placed, Sums};
use super::lanes::Lanes;
use super::online_softmax::{self, Rows};
use super::taps::{self, TOGETHER as POSITIONS, Taps};
use std::sync::OnceLock;

/// The memory of the operands of a tile.
#[derive(Clone, Copy)]
pub(super) struct Tile<T> {
    pub depth: usize,
    /// The first row of the left factor; distances between rows, and between steps of the depth.
    pub left: *const T,
    pub left_row: usize,
    pub left_step: usize,
    /// As many columns of the right factor as tiles have, next to each other; the distance between
    /// steps of the depth.
    pub right: *const T,
    pub right_step: usize,
    /// The offsets of all steps from `right`, for tiles that read them, which ignore `right_step`.
    pub offsets: *const u32,
    pub result: *mut T,
    pub result_row: usize,
    /// The columns of the result, at most as many as tiles have.
    pub columns: usize,
    pub alpha: T,
    /// Factor of what the result holds; 0 if that is not read.
    pub beta: T,
    pub one: T,
}

/// The memory of the operands of dot products: a row by columns that are contiguous.
#[derive(Clone, Copy)]
pub(super) struct Dots<T> {
    pub depth: usize,
    pub left: *const T,
    pub right: *const T,
    pub right_column: usize,
    pub result: *mut T,
    pub columns: usize,
    pub alpha: T,
    pub beta: T,
}

/// The tiles of a kind of processor.
#[derive(Clone, Copy)]
pub(super) struct Tiles<T> {
    /// The rows of a tile.
    pub rows: usize,
    /// The columns of a tile.
    pub columns: usize,
    /// Computes some rows of a tile.
    ///
    /// Contract: the processor is of the kind; rows are from 1 to `rows`; all elements that the
    /// tile describes can be read, those of the result written, and the latter are no part of
    /// factors.
    pub compute: unsafe fn(usize, &Tile<T>),
    /// The same with the steps of the right factor where offsets say.
    pub compute_at: unsafe fn(usize, &Tile<T>),
    /// One row of `wide` vectors, or of a half of these, by offsets.
    pub row_at: unsafe fn(usize, &Tile<T>),
    /// The vectors of a tile of one row: four sums of each fit the registers.
    pub wide: usize,
    /// Computes dot products, under the same contract.
    pub dots: unsafe fn(&Dots<T>),
    /// [`taps::taps`] at several positions or one, of some vectors, or of one element if
    /// there are none.
    pub taps: unsafe fn(bool, usize, &Taps<'_, T>),
    /// [`epilogue::finish`] with the vectors of the processor.
    pub finish: unsafe fn(&Placed<T>, &Sums<T>),
    /// [`online_softmax::weigh_rows`] with these vectors. Contract: the processor is of the kind.
    pub weigh: unsafe fn(Rows<'_, T>),
}

/// `R` rows of `V` vectors, with `S` sums for each element; `AT` if offsets say where steps are.
#[inline(always)]
unsafe fn tile<L: Lanes, const R: usize, const V: usize, const S: usize, const AT: bool>(t: &Tile<L::Element>) {
    // SAFETY: the contract of `Tiles::compute`; steps go no further than the depth.
    unsafe {
        let zero = L::splat(L::Element::default());
        let mut sums = [[[zero; V]; R]; S];
        let (mut left, mut step) = (t.left, 0);
        let right = |step: usize| match AT {
            true => t.right.wrapping_add(*t.offsets.add(step) as usize),
            false => t.right.wrapping_add(step * t.right_step),
        };
        while step + S <= t.depth {
            for s in 0..S {
                add_step::<L, R, V>(&mut sums[s], left, t.left_row, right(step + s));
                left = left.wrapping_add(t.left_step);
            }
            step += S;
        }
        while step < t.depth {
            add_step::<L, R, V>(&mut sums[0], left, t.left_row, right(step));
            left = left.wrapping_add(t.left_step);
            step += 1;
        }
        let mut total = sums[0];
        for sum in &sums[1..] {
            for r in 0..R {
                for v in 0..V {
                    total[r][v] = total[r][v].plus(sum[r][v]);
                }
            }
        }
        finish::<L, R, V>(&mut total, t);
    }
}

/// Adds the products of one step along the depth.
#[inline(always)]
unsafe fn add_step<L: Lanes, const R: usize, const V: usize>(
    sums: &mut [[L; V]; R],
    left: *const L::Element,
    left_row: usize,
    right: *const L::Element,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut row = [L::splat(L::Element::default()); V];
        for v in 0..V {
            row[v] = L::load(right.add(v * L::WIDTH));
        }
        for r in 0..R {
            let x = L::splat(*left.add(r * left_row));
            for v in 0..V {
                sums[r][v] = sums[r][v].plus_product(x, row[v]);
            }
        }
    }
}

/// Writes sums to the result, by way of a whole tile if it has fewer columns.
#[inline(always)]
unsafe fn finish<L: Lanes, const R: usize, const V: usize>(total: &mut [[L; V]; R], t: &Tile<L::Element>) {
    let zero = L::Element::default();
    // SAFETY: the contract of `Tiles::compute`; `whole` has R rows of V vectors.
    unsafe {
        if t.alpha != t.one {
            let alpha = L::splat(t.alpha);
            for r in 0..R {
                for v in 0..V {
                    total[r][v] = total[r][v].times(alpha);
                }
            }
        }
        if t.columns == V * L::WIDTH {
            return put(total, t.result, t.result_row, t.beta);
        }
        let mut whole = [[L::splat(zero); V]; R];
        let (place, width) = (whole.as_mut_ptr().cast::<L::Element>(), V * L::WIDTH);
        if t.beta != zero {
            for r in 0..R {
                place.add(r * width).copy_from_nonoverlapping(t.result.add(r * t.result_row), t.columns);
            }
        }
        put(total, place, width, t.beta);
        for r in 0..R {
            place.add(r * width).copy_to_nonoverlapping(t.result.add(r * t.result_row), t.columns);
        }
    }
}

/// `to = total + beta to`
#[inline(always)]
unsafe fn put<L: Lanes, const R: usize, const V: usize>(
    total: &[[L; V]; R],
    to: *mut L::Element,
    row: usize,
    beta: L::Element,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let factor = L::splat(beta);
        let is_read = beta != L::Element::default();
        for r in 0..R {
            for v in 0..V {
                let place = to.add(r * row + v * L::WIDTH);
                let sum = if is_read { total[r][v].plus_product(factor, L::load(place)) } else { total[r][v] };
                sum.store(place);
            }
        }
    }
}

/// The columns whose dot products are computed at once.
const TOGETHER: usize = 4;

/// Dot products. Each is the sum of a vector of partial sums and of what is left, in this order.
#[inline(always)]
unsafe fn dots<L: Lanes<Element: Arithmetic>>(d: &Dots<L::Element>) {
    // SAFETY: the contract of `Tiles::dots`.
    unsafe {
        let mut column = 0;
        while column + TOGETHER <= d.columns {
            some_dots::<L, TOGETHER>(d, column);
            column += TOGETHER;
        }
        while column < d.columns {
            some_dots::<L, 1>(d, column);
            column += 1;
        }
    }
}

/// An element type with arithmetic.
pub(super) trait Arithmetic:
    Copy + Default + PartialEq + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self>
{
}
impl Arithmetic for f32 {}
impl Arithmetic for f64 {}

/// Dot products of `N` columns from one on.
#[inline(always)]
unsafe fn some_dots<L: Lanes<Element: Arithmetic>, const N: usize>(d: &Dots<L::Element>, first: usize) {
    let zero = L::Element::default();
    // SAFETY: the caller's contract; vectors end within the depth.
    unsafe {
        let columns = d.right.add(first * d.right_column);
        let mut sums = [[L::splat(zero); 2]; N];
        let mut at = 0;
        while at + 2 * L::WIDTH <= d.depth {
            for half in 0..2 {
                let from = at + half * L::WIDTH;
                let x = L::load(d.left.add(from));
                for n in 0..N {
                    sums[n][half] = sums[n][half].plus_product(x, L::load(columns.add(n * d.right_column + from)));
                }
            }
            at += 2 * L::WIDTH;
        }
        for n in 0..N {
            let parts = [sums[n][0].plus(sums[n][1])];
            let parts = std::slice::from_raw_parts(parts.as_ptr().cast::<L::Element>(), L::WIDTH);
            let mut sum = parts.iter().fold(zero, |sum, &part| sum + part);
            for i in at..d.depth {
                sum = sum + *d.left.add(i) * *columns.add(n * d.right_column + i);
            }
            let place = d.result.add(first + n);
            *place = if d.beta == zero { d.alpha * sum } else { d.alpha * sum + d.beta * *place };
        }
    }
}

/// Functions for a kind of processor: the features that it has, and the rows of a tile, each with
/// its number of sums. Columns that fit one vector take one.
macro_rules! kinds {
    ($($(#[$cfg:meta])? $name:ident $([$features:literal])?: $lanes:ty, $wide:literal wide, $most:literal rows $(, $rows:literal by $sums:literal)*;)*) => {$(
        $(#[$cfg])?
        pub(super) fn $name() -> Tiles<<$lanes as Lanes>::Element> {
            $(#[target_feature(enable = $features)])?
            unsafe fn compute(rows: usize, t: &Tile<<$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `Tiles::compute`.
                unsafe {
                    match (rows, t.columns <= <$lanes as Lanes>::WIDTH) {
                        $(($rows, false) => tile::<$lanes, $rows, 2, $sums, false>(t),)*
                        (_, false) => tile::<$lanes, $most, 2, 1, false>(t),
                        $(($rows, true) => tile::<$lanes, $rows, 1, $sums, false>(t),)*
                        (_, true) => tile::<$lanes, $most, 1, 1, false>(t),
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn compute_at(rows: usize, t: &Tile<<$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `Tiles::compute`.
                unsafe {
                    match (rows, t.columns <= <$lanes as Lanes>::WIDTH) {
                        $(($rows, false) => tile::<$lanes, $rows, 2, $sums, true>(t),)*
                        (_, false) => tile::<$lanes, $most, 2, 1, true>(t),
                        $(($rows, true) => tile::<$lanes, $rows, 1, $sums, true>(t),)*
                        (_, true) => tile::<$lanes, $most, 1, 1, true>(t),
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn row_at(vectors: usize, t: &Tile<<$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `Tiles::compute`.
                unsafe {
                    match vectors {
                        $wide => tile::<$lanes, 1, $wide, 4, true>(t),
                        _ => tile::<$lanes, 1, { $wide / 2 }, 4, true>(t),
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn every(d: &Dots<<$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `Tiles::dots`.
                unsafe { dots::<$lanes>(d) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn taps(together: bool, vectors: usize, t: &Taps<'_, <$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `taps::taps`.
                unsafe {
                    match (together, vectors) {
                        (true, 2) => taps::taps::<$lanes, POSITIONS, 2>(t),
                        (true, 1) => taps::taps::<$lanes, POSITIONS, 1>(t),
                        (true, _) => taps::taps::<[<$lanes as Lanes>::Element; 1], POSITIONS, 1>(t),
                        (false, 2) => taps::taps::<$lanes, 1, 2>(t),
                        (false, 1) => taps::taps::<$lanes, 1, 1>(t),
                        (false, _) => taps::taps::<[<$lanes as Lanes>::Element; 1], 1, 1>(t),
                    }
                }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn end(step: &Placed<<$lanes as Lanes>::Element>, at: &Sums<<$lanes as Lanes>::Element>) {
                // SAFETY: the contract of `finish`.
                unsafe { epilogue::finish::<$lanes, [<$lanes as Lanes>::Element; 1]>(step, at) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn weigh(rows: Rows<'_, <$lanes as Lanes>::Element>) {
                online_softmax::weigh_rows(rows);
            }
            let (rows, columns) = ($most, 2 * <$lanes as Lanes>::WIDTH);
            Tiles { rows, columns, compute, compute_at, row_at, wide: $wide, dots: every, taps, finish: end, weigh }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{__m256, __m256d, __m512, __m512d};
kinds! {
    plain_f32: [f32; 4], 2 wide, 4 rows, 1 by 4, 2 by 2, 3 by 1;
    plain_f64: [f64; 2], 2 wide, 4 rows, 1 by 4, 2 by 2, 3 by 1;
    #[cfg(target_arch = "x86_64")]
    avx2_f32 ["avx2,fma"]: __m256, 2 wide, 6 rows, 1 by 4, 2 by 2, 3 by 1, 4 by 1, 5 by 1;
    #[cfg(target_arch = "x86_64")]
    avx2_f64 ["avx2,fma"]: __m256d, 2 wide, 6 rows, 1 by 4, 2 by 2, 3 by 1, 4 by 1, 5 by 1;
    #[cfg(target_arch = "x86_64")]
    avx512_f32 ["avx512f,avx2,fma"]: __m512, 4 wide, 12 rows, 1 by 4, 2 by 2, 3 by 2, 4 by 1, 5 by 1, 6 by 1, 7 by 1, 8 by 1, 9 by 1, 10 by 1, 11 by 1;
    #[cfg(target_arch = "x86_64")]
    avx512_f64 ["avx512f,avx2,fma"]: __m512d, 4 wide, 12 rows, 1 by 4, 2 by 2, 3 by 2, 4 by 1, 5 by 1, 6 by 1, 7 by 1, 8 by 1, 9 by 1, 10 by 1, 11 by 1;
}

/// The tiles of this processor for an element type.
macro_rules! of_this_processor {
    ($name:ident $element:ty: $plain:ident $avx2:ident $avx512:ident) => {
        /// The tiles of this processor.
        pub(super) fn $name() -> &'static Tiles<$element> {
            static KNOWN: OnceLock<Tiles<$element>> = OnceLock::new();
            KNOWN.get_or_init(|| {
                #[cfg(target_arch = "x86_64")]
                {
                    let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                    if has_avx2 && is_x86_feature_detected!("avx512f") {
                        return $avx512();
                    }
                    if has_avx2 {
                        return $avx2();
                    }
                }
                $plain()
            })
        }
    };
}
of_this_processor! { singles f32: plain_f32 avx2_f32 avx512_f32 }
of_this_processor! { doubles f64: plain_f64 avx2_f64 avx512_f64 }

/// All tiles for floats that this processor can compute.
#[cfg(test)]
pub(super) fn all_singles() -> Vec<Tiles<f32>> {
    let mut all = vec![plain_f32()];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            all.push(avx2_f32());
            if is_x86_feature_detected!("avx512f") {
                all.push(avx512_f32());
            }
        }
    }
    all
}
