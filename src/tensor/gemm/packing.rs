//! Factors of a matrix product in the order in which tiles read them.
//!
//! A panel holds as many rows of the left factor, or columns of the right one, as a tile has; its
//! elements are those of the first step along the depth, then those of the next. A panel with fewer
//! lines ends each step with zeros.
#![allow(unsafe_code, reason = "panels are read and written through pointers")]

/// An element that panels hold.
pub(super) trait Packable: Copy + Default {
    /// Writes four lines of contiguous elements as panels of a width have them, and returns how
    /// many steps it wrote.
    ///
    /// # Safety
    /// `depth` elements can be read in each of four lines, and as many steps written.
    unsafe fn transpose_four(from: *const Self, line: usize, depth: usize, to: *mut Self, width: usize) -> usize;
}

impl Packable for f64 {
    unsafe fn transpose_four(_: *const f64, _: usize, _: usize, _: *mut f64, _: usize) -> usize {
        0
    }
}

impl Packable for f32 {
    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn transpose_four(_: *const f32, _: usize, _: usize, _: *mut f32, _: usize) -> usize {
        0
    }

    /// Squares of four by four elements in registers, where packing would take as long as half of
    /// the product of 64 rows.
    #[cfg(target_arch = "x86_64")]
    unsafe fn transpose_four(from: *const f32, line: usize, depth: usize, to: *mut f32, width: usize) -> usize {
        use core::arch::x86_64::{
            _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
        };
        let whole = depth / 4 * 4;
        for at in (0..whole).step_by(4) {
            // SAFETY: SSE is a part of x86-64; four elements from `at` are within the depth.
            unsafe {
                let row = |i: usize| _mm_loadu_ps(from.add(i * line + at));
                let (a, b, c, d) = (row(0), row(1), row(2), row(3));
                let (low, high) =
                    ((_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d)), (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d)));
                let step = |i: usize| to.add((at + i) * width);
                _mm_storeu_ps(step(0), _mm_movelh_ps(low.0, low.1));
                _mm_storeu_ps(step(1), _mm_movehl_ps(low.1, low.0));
                _mm_storeu_ps(step(2), _mm_movelh_ps(high.0, high.1));
                _mm_storeu_ps(step(3), _mm_movehl_ps(high.1, high.0));
            }
        }
        whole
    }
}

/// Some lines of a factor: where they are, and the distances between lines and steps.
#[derive(Clone, Copy)]
pub(super) struct Lines<T> {
    pub first: *const T,
    pub line: usize,
    pub step: usize,
    pub count: usize,
    pub depth: usize,
}

/// Packs a panel of some width.
///
/// # Safety
/// All elements of the lines can be read, and `depth * width` elements written; there are at most
/// `width` lines.
pub(super) unsafe fn pack<T: Packable>(lines: Lines<T>, width: usize, to: *mut T) {
    let Lines { first, line, step, count, depth } = lines;
    // SAFETY: the caller's contract: the loops go over lines below `count`, steps below `depth` and
    // places below `width`.
    unsafe {
        match (line, count == width) {
            (1, true) if width == 16 => return copy_steps::<T, 16>(first, step, depth, to),
            (1, true) if width == 8 => return copy_steps::<T, 8>(first, step, depth, to),
            (1, true) if width == 32 => return copy_steps::<T, 32>(first, step, depth, to),
            _ => {}
        }
        for at in 0..depth {
            for place in count..width {
                *to.add(at * width + place) = T::default();
            }
        }
        let mut done = 0;
        while step == 1 && done + 4 <= count {
            let (from, to) = (first.add(done * line), to.add(done));
            for at in T::transpose_four(from, line, depth, to, width)..depth {
                for i in 0..4 {
                    *to.add(at * width + i) = *from.add(i * line + at);
                }
            }
            done += 4;
        }
        for at in 0..depth {
            for i in done..count {
                *to.add(at * width + i) = *first.add(i * line + at * step);
            }
        }
    }
}

/// Copies whole steps of contiguous elements.
///
/// # Safety
/// See `pack`.
unsafe fn copy_steps<T: Copy, const N: usize>(from: *const T, step: usize, depth: usize, to: *mut T) {
    for at in 0..depth {
        // SAFETY: the caller's contract.
        unsafe { to.add(at * N).copy_from_nonoverlapping(from.add(at * step), N) };
    }
}
