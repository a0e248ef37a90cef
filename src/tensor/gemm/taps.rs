//! The innermost loops of a convolution channel by channel, with vectors of channels.
#![allow(unsafe_code, reason = "elements are read and written through pointers")]
#![allow(clippy::needless_range_loop, reason = "indices name registers, as loops are unrolled")]

use super::lanes::Lanes;

/// The taps of a position that are inside of the image, by the sum that each is added to: where its
/// element and its weight are, from those of the first tap on.
#[derive(Default)]
pub(super) struct Inside {
    pub of_sums: [Vec<(isize, usize)>; SUMS],
}

/// Positions that are computed at once.
pub(super) const TOGETHER: usize = 2;

/// The sums of an element, which are added up in the end: as many as those of a product of one row,
/// and of the same taps, so that both give the same bits.
pub(super) const SUMS: usize = 4;

/// Some positions next to each other with the same taps, and some channels.
#[derive(Clone, Copy)]
pub(super) struct Taps<'a, T> {
    /// The element under the first tap of the first position; it may be outside of the image.
    pub image: *const T,
    pub weights: *const T,
    pub taps: &'a Inside,
    pub result: *mut T,
    /// The distances between positions in the image and in the result.
    pub position: usize,
    pub result_position: usize,
}

/// `V` vectors of channels at `P` positions.
///
/// # Safety
/// The processor has the vectors, all elements can be read, and those of the result written.
#[inline(always)]
pub(super) unsafe fn taps<L: Lanes, const P: usize, const V: usize>(t: &Taps<'_, L::Element>) {
    // SAFETY: the caller's contract.
    unsafe {
        let zero = L::splat(L::Element::default());
        let mut totals = [[zero; V]; P];
        for (number, taps) in t.taps.of_sums.iter().enumerate() {
            let mut sums = [[zero; V]; P];
            for &(image, weights) in taps {
                let (image, weights) = (t.image.wrapping_offset(image), t.weights.add(weights));
                for v in 0..V {
                    let weight = L::load(weights.add(v * L::WIDTH));
                    for (p, sums) in sums.iter_mut().enumerate() {
                        let x = L::load(image.add(p * t.position + v * L::WIDTH));
                        sums[v] = sums[v].plus_product(x, weight);
                    }
                }
            }
            for (total, sum) in totals.iter_mut().flatten().zip(sums.iter().flatten()) {
                *total = if number == 0 { *sum } else { total.plus(*sum) };
            }
        }
        for (p, totals) in totals.iter().enumerate() {
            for (v, total) in totals.iter().enumerate() {
                total.store(t.result.add(p * t.result_position + v * L::WIDTH));
            }
        }
    }
}
