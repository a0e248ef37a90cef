//! The weights of attention, for blocks of keys: rows of scores become exponentials, and
//! the largest score and the sum of exponentials so far are kept for each row.
//!
//! A larger score makes earlier exponentials smaller by a factor, and with them the sums of values
//! that they weighted. A row is divided by its sum at the end.
#![allow(unsafe_code, reason = "intrinsics need a processor that has them")]

use super::Real;
use super::element_functions::Activated;

/// The state of a row.
#[derive(Clone, Copy, Debug)]
pub struct Running<T> {
    largest: T,
    sum: T,
}

/// A block of rows: scores, and the sums of values that they weight.
#[derive(Debug)]
pub struct Rows<'a, T> {
    /// Scores of some keys, row by row.
    pub scores: &'a mut [T],
    /// Weighted sums of the values of earlier keys, row by row.
    pub sums: &'a mut [T],
    /// Each row.
    pub running: &'a mut [Running<T>],
}

/// An element type with exponentials.
pub(super) trait Weighted: Activated + PartialOrd + Default {
    const LOWEST: Self;
    const NAN: Self;
    fn plus(self, other: Self) -> Self;
    fn less(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn inverse(self) -> Self;
}

macro_rules! weighted {
    ($($t:ty)*) => {$(impl Weighted for $t {
        const LOWEST: $t = <$t>::NEG_INFINITY;
        const NAN: $t = <$t>::NAN;
        #[inline(always)]
        fn plus(self, other: $t) -> $t { self + other }
        #[inline(always)]
        fn less(self, other: $t) -> $t { self - other }
        #[inline(always)]
        fn times(self, other: $t) -> $t { self * other }
        #[inline(always)]
        fn inverse(self) -> $t { 1.0 / self }
    })*};
}
weighted!(f32 f64);

/// Independent accumulators of a reduction, so that the compiler vectorises it.
const LANES: usize = 16;

impl<T: Real> Running<T> {
    /// Of no keys.
    pub fn new() -> Running<T> {
        Running { largest: T::LOWEST, sum: T::default() }
    }

    /// Divides the sums of a row by the sum of its exponentials. Where all scores are minus
    /// infinity, the result is NaN, or zero if `or_zero`.
    pub fn divide(&self, row: &mut [T], or_zero: bool) {
        if self.sum == T::default() {
            return row.fill(if or_zero { T::default() } else { T::NAN });
        }
        let factor = self.sum.inverse();
        row.iter_mut().for_each(|x| *x = x.times(factor));
    }
}

impl<T: Real> Default for Running<T> {
    fn default() -> Running<T> {
        Running::new()
    }
}

/// Makes exponentials of scores, and sums of values smaller where there are larger scores now.
///
/// # Panics
/// When rows do not divide the scores or the sums.
pub fn weigh<T: Real>(rows: Rows<'_, T>) {
    // SAFETY: the tiles are those of this processor.
    T::with_tiles(|tiles, _| unsafe { (tiles.weigh)(rows) });
}

/// Whether all elements are at most so large; NaN is not.
pub fn are_at_most<T: Real>(all: &[T], limit: T) -> bool {
    let lowest = T::default().less(limit);
    all.iter().fold(true, |so_far, &x| so_far & (x <= limit) & (x >= lowest))
}

/// [`weigh`], compiled for each kind of processor.
#[inline(always)]
pub(super) fn weigh_rows<T: Weighted>(rows: Rows<'_, T>) {
    let Rows { scores, sums, running } = rows;
    let count = running.len().max(1);
    let (columns, width) = (scores.len() / count, sums.len() / count);
    assert!(scores.len() == columns * running.len() && sums.len() == width * running.len(), "rows are equally long");
    for (row, running) in running.iter_mut().enumerate() {
        let factor = weigh_row(&mut scores[row * columns..][..columns], running);
        if factor != T::default().exp_below() {
            sums[row * width..][..width].iter_mut().for_each(|x| *x = x.times(factor));
        }
    }
}

/// One row; returns the factor of what was summed up before.
#[inline(always)]
fn weigh_row<T: Weighted>(scores: &mut [T], running: &mut Running<T>) -> T {
    let largest = reduce(scores, running.largest, |a, b| if b > a { b } else { a });
    // Without a score above minus infinity all exponentials are zero, and none is NaN.
    let shift = if largest == T::LOWEST { T::default() } else { largest };
    scores.iter_mut().for_each(|x| *x = x.less(shift).exp_below());
    let sum = reduce(scores, T::default(), T::plus);
    let factor = running.largest.less(shift).exp_below();
    *running = Running { largest, sum: running.sum.times(factor).plus(sum) };
    factor
}

/// Reduces elements. The first value combined with itself is itself, as each lane starts with it.
#[inline(always)]
fn reduce<T: Weighted>(all: &[T], first: T, combine: impl Fn(T, T) -> T) -> T {
    let mut lanes = [first; LANES];
    let (whole, rest) = all.as_chunks::<LANES>();
    for chunk in whole {
        for lane in 0..LANES {
            lanes[lane] = combine(lanes[lane], chunk[lane]);
        }
    }
    let whole = lanes.into_iter().fold(first, &combine);
    rest.iter().fold(whole, |a, &b| combine(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: usize) -> Vec<f64> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f64 / 40.0 - 12.0).collect()
    }

    /// The weighted sums of some keys after others, and in doubles of all at once.
    fn both(scores: &[f64], values: &[f64], step: usize) -> (f32, f64) {
        let mut running = [Running::<f32>::new()];
        let mut sum = [0f32];
        for (scores, values) in scores.chunks(step).zip(values.chunks(step)) {
            let mut scores: Vec<f32> = scores.iter().map(|&x| x as f32).collect();
            weigh(Rows { scores: &mut scores, sums: &mut sum, running: &mut running });
            sum[0] += scores.iter().zip(values).map(|(&weight, &x)| weight * x as f32).sum::<f32>();
        }
        running[0].divide(&mut sum, false);
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|x| (x - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        (sum[0], weights.iter().zip(values).map(|(w, x)| w * x).sum::<f64>() / total)
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        for n in [1, 2, 15, 16, 17, 100, 333] {
            for step in [1, 7, 16, 400] {
                let (found, expected) = both(&numbers(n, 1), &numbers(n, 2), step);
                assert!((f64::from(found) - expected).abs() < 2e-5, "{n} {step} {found} {expected}");
            }
        }
    }

    #[test]
    fn hidden_keys_weigh_nothing_and_rows_of_them_are_nan_or_zero() {
        let mut scores = numbers(40, 3);
        scores[..20].fill(f64::NEG_INFINITY);
        let (found, expected) = both(&scores, &numbers(40, 4), 10);
        assert!((f64::from(found) - expected).abs() < 2e-5);
        let mut hidden = [f32::NEG_INFINITY; 20];
        let (mut running, mut sums) = ([Running::new()], [0f32]);
        weigh(Rows { scores: &mut hidden, sums: &mut sums, running: &mut running });
        assert_eq!(hidden, [0.0; 20]);
        running[0].divide(&mut sums, true);
        assert_eq!(sums, [0.0]);
        running[0].divide(&mut sums, false);
        assert!(sums[0].is_nan());
    }

    #[test]
    fn nan_and_infinity_make_a_row_nan() {
        for odd in [f64::NAN, f64::INFINITY] {
            for at in [0, 11, 39] {
                let mut scores = numbers(40, 3);
                scores[at] = odd;
                assert!(both(&scores, &numbers(40, 4), 10).0.is_nan(), "{odd} at {at}");
            }
        }
        let mut scores = [f64::NAN, f64::NEG_INFINITY];
        assert!(both(&scores, &[1.0, 2.0], 1).0.is_nan());
        scores.reverse();
        assert!(both(&scores, &[1.0, 2.0], 1).0.is_nan());
    }

    #[test]
    fn bounds_of_elements() {
        assert!(are_at_most(&[1.0f32, -2.0], 2.0) && are_at_most::<f32>(&[], 0.0));
        assert!(!are_at_most(&[1.0f32, -3.0], 2.0) && !are_at_most(&[f64::NAN], 2.0));
        assert!(!are_at_most(&[f64::INFINITY], f64::MAX));
    }
}
