//! Convolutions channel by channel of images whose channels are innermost: vectors of channels are
//! multiplied by vectors of weights, so that neither padding nor copies are needed.
//!
//! Taps of the window outside of the image are left out, so that weights have to be finite.
#![allow(unsafe_code, reason = "images are read and results are written through pointers")]

use super::epilogue::{Step, Steps, Sums};
use super::taps::{Inside, SUMS, TOGETHER, Taps};
use super::tiles::Tiles;
use super::window_phases::{Axis, Distances, Window};
use super::{Panels, Real};
use std::ops::Range;

/// A convolution of an example, in parts that several threads may compute: lines of positions.
#[derive(Clone, Debug)]
pub struct ChannelsLast<T> {
    window: Window,
    channels: usize,
    image: *const T,
    distances: Distances,
    /// Tap after tap, those of all channels.
    weights: *const T,
    epilogue: Steps<T>,
    result: *mut T,
}

// SAFETY: addresses and numbers, which `compute` alone reads or writes through, under its contract.
unsafe impl<T: Send> Send for ChannelsLast<T> {}
// SAFETY: see above.
unsafe impl<T: Sync> Sync for ChannelsLast<T> {}

impl<T: Real> ChannelsLast<T> {
    /// A convolution, which writes the result of one example, with contiguous channels. Rows of the
    /// epilogue are positions, columns are channels. Weights are finite.
    ///
    /// # Panics
    /// When an operand exceeds its slice, or sizes do not match.
    pub fn new(
        (window, channels): (Window, usize),
        (image, distances): (&[T], Distances),
        weights: &[T],
        steps: &[Step<'_, T>],
        result: &mut [T],
    ) -> ChannelsLast<T> {
        let positions = window.positions();
        let reach = |(axis, &distance): (&Axis, &usize)| (axis.input - 1) * distance;
        let last: usize = window.axes.iter().zip(&distances).map(reach).sum();
        assert!(last + channels <= image.len(), "the slice has the whole image");
        assert!(
            weights.len() == window.taps() * channels && result.len() == positions * channels,
            "sizes fit together"
        );
        let epilogue = Steps::of(steps, positions, channels);
        let (image, weights, result) = (image.as_ptr(), weights.as_ptr(), result.as_mut_ptr());
        ChannelsLast { window, channels, image, distances, weights, epilogue, result }
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.window.axes[0].output * self.window.axes[1].output
    }

    /// Computes one part.
    ///
    /// # Safety
    /// The operands of [`ChannelsLast::new`] are still borrowed, and no other thread computes this
    /// part.
    pub unsafe fn compute(&self, part: usize) {
        T::with_tiles(|tiles, _| {
            let width = self.window.axes[2];
            // SAFETY: `new` asserted that operands are inside their slices; lines are disjoint, and
            // the tiles are those of this processor.
            unsafe {
                self.line(part, tiles);
                let first = self.result.add(part * width.output * self.channels);
                let (rows, columns, row) = (width.output, self.channels, part * width.output);
                let at = Sums { first, pitch: columns, rows, columns, row, column: 0, result_row: columns };
                self.epilogue.iter().for_each(|step| (tiles.finish)(step, &at));
            }
        });
    }

    /// Computes a line of positions.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn line(&self, line: usize, tiles: &Tiles<T>) {
        let width = &self.window.axes[2];
        let is_whole = |at: usize| inside(width, at).len() == width.kernel;
        let whole = (0..width.output).find(|&at| is_whole(at)).map(|at| self.inside(line, at));
        let mut position = 0;
        while position < width.output {
            let has_block = position + TOGETHER <= width.output;
            let together = has_block && is_whole(position) && is_whole(position + TOGETHER - 1);
            let own = if is_whole(position) { None } else { Some(self.inside(line, position)) };
            if let Some(taps) = own.as_ref().or(whole.as_ref()) {
                for (channel, vectors) in blocks(self.channels, tiles.columns / 2) {
                    // SAFETY: the contract; all taps of these positions are inside of the image.
                    unsafe { self.some(line, taps, (position, together), (channel, vectors), tiles) };
                }
            }
            position += if together { TOGETHER } else { 1 };
        }
    }

    /// Computes some channels of one position, or of several.
    ///
    /// # Safety
    /// See `line`.
    unsafe fn some(
        &self,
        line: usize,
        taps: &Inside,
        (position, together): (usize, bool),
        (channel, vectors): (usize, usize),
        tiles: &Tiles<T>,
    ) {
        let [depth, height, width] = &self.window.axes;
        let at = [line / height.output * depth.stride, line % height.output * height.stride, position * width.stride];
        let axes = [depth, height, width];
        let from = |i: usize| (at[i] as isize - axes[i].before as isize) * self.distances[i] as isize;
        let result = (line * width.output + position) * self.channels + channel;
        // SAFETY: the contract.
        unsafe {
            let of = Taps {
                image: self.image.add(channel).wrapping_offset((0..3).map(from).sum()),
                weights: self.weights.add(channel),
                taps,
                result: self.result.add(result),
                position: width.stride * self.distances[2],
                result_position: self.channels,
            };
            (tiles.taps)(together, vectors, &of);
        }
    }

    /// The taps of a position.
    fn inside(&self, line: usize, position: usize) -> Inside {
        let [depth, height, width] = &self.window.axes;
        let [d, h, w] =
            [inside(depth, line / height.output), inside(height, line % height.output), inside(width, position)];
        let step = |axis: &Axis, tap: usize, i: usize| (tap * axis.dilation * self.distances[i]) as isize;
        let mut all = Inside::default();
        for (d, h) in d.flat_map(|d| h.clone().map(move |h| (d, h))) {
            for w in w.clone() {
                let tap = (d * height.kernel + h) * width.kernel + w;
                let image = step(depth, d, 0) + step(height, h, 1) + step(width, w, 2);
                let is_divided = tap < self.window.taps() / SUMS * SUMS;
                all.of_sums[if is_divided { tap % SUMS } else { 0 }].push((image, tap * self.channels));
            }
        }
        all
    }
}

/// Weights with the channels innermost, if all are finite.
pub fn taps_first<T: Real>(weights: &[T], taps: usize) -> Option<Vec<T>> {
    let channels = weights.len() / taps.max(1);
    let ordered = (0..taps).flat_map(|tap| (0..channels).map(move |channel| weights[channel * taps + tap]));
    weights.iter().all(|&x| x.is_finite()).then(|| ordered.collect())
}

/// Weights of single channels are small, and have memory of their own.
impl<T: Real> Panels for Option<Vec<T>> {
    fn give_back(&mut self) {}
}

/// The taps of a position inside of the image, in one dimension.
fn inside(axis: &Axis, position: usize) -> Range<usize> {
    let begin = position * axis.stride;
    let first = axis.before.saturating_sub(begin).div_ceil(axis.dilation).min(axis.kernel);
    let end = (axis.input + axis.before).saturating_sub(begin).div_ceil(axis.dilation).min(axis.kernel);
    first..end.max(first)
}

/// Blocks of channels, each with its number of vectors; 0 for a channel alone.
fn blocks(channels: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = channels - at;
        let vectors = (left / width).min(2);
        let block = (left > 0).then_some((at, vectors));
        at += if vectors == 0 { usize::from(left > 0) } else { vectors * width };
        block
    })
}

#[cfg(test)]
mod tests {
    use super::super::Function;
    use super::*;

    /// The convolution by its definition, and bias and bounds. The numbers are such that sums are
    /// exact.
    fn expected(window: &Window, channels: usize, image: &[f32], weights: &[f32], bias: &[f32]) -> Vec<f32> {
        let [d, h, w] = window.axes;
        let mut all = Vec::new();
        for at in 0..window.positions() * channels {
            let (at, channel) = (at / channels, at % channels);
            let at = [at / (h.output * w.output), at / w.output % h.output, at % w.output];
            let mut sum = bias[channel];
            for tap in 0..window.taps() {
                let taps = [tap / (h.kernel * w.kernel), tap / w.kernel % h.kernel, tap % w.kernel];
                let place = |i: usize, axis: &Axis| {
                    let place = (at[i] * axis.stride + taps[i] * axis.dilation).checked_sub(axis.before)?;
                    (place < axis.input).then_some(place)
                };
                if let (Some(z), Some(y), Some(x)) = (place(0, &d), place(1, &h), place(2, &w)) {
                    let element = image[((z * h.input + y) * w.input + x) * channels + channel];
                    sum += element * weights[channel * window.taps() + tap];
                }
            }
            all.push(sum.max(0.0));
        }
        all
    }

    fn axis((input, kernel, stride, dilation): (usize, usize, usize, usize), before: usize, after: usize) -> Axis {
        let room = input + before + after - dilation * (kernel - 1) - 1;
        Axis { input, output: room / stride + 1, kernel, stride, dilation, before }
    }

    fn numbers(n: usize, period: usize) -> Vec<f32> {
        (0..n).map(|i| (i * 7 % period) as f32 - 3.0).collect()
    }

    #[test]
    fn windows_and_channels_agree_with_the_definition() {
        let windows = [
            [Axis::SINGLE, axis((9, 3, 1, 1), 1, 1), axis((13, 3, 1, 1), 1, 1)],
            [Axis::SINGLE, axis((5, 7, 1, 1), 3, 3), axis((21, 7, 1, 1), 3, 3)],
            [Axis::SINGLE, axis((7, 3, 2, 1), 1, 0), axis((10, 5, 3, 1), 2, 4)],
            [axis((3, 2, 1, 2), 1, 2), axis((4, 3, 1, 2), 2, 2), axis((9, 2, 2, 3), 4, 1)],
            [Axis::SINGLE, Axis::SINGLE, axis((1, 1, 1, 1), 2, 2)],
        ];
        for window in windows.map(|axes| Window { axes }) {
            for channels in [1, 3, 8, 17, 32, 70] {
                let [_, h, w] = window.axes;
                let (image, weights) =
                    (numbers(window.elements() * channels, 11), numbers(window.taps() * channels, 5));
                let (bias, packed) = (numbers(channels, 6), taps_first(&weights, window.taps()).expect("finite"));
                let distances = [h.input * w.input * channels, w.input * channels, channels];
                let mut result = vec![f32::NAN; window.positions() * channels];
                let steps = [Step::Columns(&bias[..]), Step::Map(Function::Relu)];
                let last = ChannelsLast::new((window, channels), (&image, distances), &packed, &steps, &mut result);
                // SAFETY: the operands are borrowed here, and each part is computed once.
                (0..last.parts()).for_each(|part| unsafe { last.compute(part) });
                assert_eq!(result, expected(&window, channels, &image, &weights, &bias), "{window:?} {channels}");
            }
        }
    }
}
