//! Sliding windows over the last one, two or three dimensions of a tensor.
//!
//! All computations use three dimensions; missing ones are prepended with one element.

use super::elements::check;
use crate::interpreter::call::Call;
use crate::interpreter::stop::Stop;
use crate::tensor::Tensor;

/// One dimension of a sliding window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// The number of input elements.
    pub input: i64,
    /// The number of positions of the window.
    pub output: i64,
    /// The number of elements in the window.
    pub kernel: i64,
    /// The distance between positions.
    pub stride: i64,
    /// The distance between elements of the window.
    pub dilation: i64,
    /// The number of padding elements before the first.
    pub before: i64,
}

impl Axis {
    /// A dimension with one element.
    pub(crate) fn single() -> Axis {
        Axis { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 }
    }

    /// The index of a window element at a position.
    fn at(&self, position: i64, tap: i64) -> i64 {
        position * self.stride - self.before + tap * self.dilation
    }

    /// The positions at which a window element is inside the input.
    fn valid(&self, tap: i64) -> std::ops::Range<i64> {
        let shift = self.before - tap * self.dilation;
        let first = if shift > 0 { (shift + self.stride - 1) / self.stride } else { 0 };
        let end = (self.input - 1 + shift).div_euclid(self.stride) + 1;
        first..end.min(self.output).max(first)
    }
}

/// A window over three dimensions.
pub(super) type Window = [Axis; 3];

/// A window with these last dimensions.
pub(super) fn window(axes: &[Axis]) -> Window {
    let mut window = [Axis::single(); 3];
    for (slot, axis) in window.iter_mut().rev().zip(axes.iter().rev()) {
        *slot = *axis;
    }
    window
}

/// The product of a property of all axes.
pub(super) fn volume(window: &Window, f: impl Fn(&Axis) -> i64) -> usize {
    window.iter().map(f).product::<i64>().max(0) as usize
}

/// Calls `f(column, element, step, n)` for runs of pairs. Columns are numbered by window element,
/// then by position; the elements of a run are `step` apart.
pub(super) fn runs(window: &Window, mut f: impl FnMut(usize, usize, usize, usize)) {
    let [d, h, w] = window;
    let positions = d.output * h.output * w.output;
    for (tap, (kd, kh, kw)) in (0..).zip(taps(window)) {
        let across = w.valid(kw);
        let n = across.end - across.start;
        if n > 0 {
            for (od, oh) in d.valid(kd).flat_map(|od| h.valid(kh).map(move |oh| (od, oh))) {
                let column = tap * positions + (od * h.output + oh) * w.output + across.start;
                let element = (d.at(od, kd) * h.input + h.at(oh, kh)) * w.input + w.at(across.start, kw);
                f(column as usize, element as usize, w.stride as usize, n as usize);
            }
        }
    }
}

fn taps(window: &Window) -> impl Iterator<Item = (i64, i64, i64)> + use<> {
    let [d, h, w] = window.map(|axis| axis.kernel);
    (0..d).flat_map(move |kd| (0..h).flat_map(move |kh| (0..w).map(move |kw| (kd, kh, kw))))
}

/// The largest accepted parameter, so that sums and products of two of them do not overflow.
pub(super) const LARGEST: i64 = 1 << 30;

/// A parameter with one number per dimension, each at least `least`. An empty list means `missing`.
pub(super) fn parameter(call: &Call, name: &str, n: usize, least: i64, missing: &[i64]) -> Result<Vec<i64>, Stop> {
    let mut list = call.spatial(name, n)?;
    if list.is_empty() {
        list = missing.to_vec();
    }
    check(list.len() == n, || format!("{name} must be a single int, or a tuple of {n} ints, not {list:?}"))?;
    check(list.iter().all(|x| (least..=LARGEST).contains(x)), || {
        format!("{name} should be at least {least}, but got {list:?}")
    })?;
    Ok(list)
}

/// The sizes of the last dimensions.
pub(super) fn sizes(x: &Tensor, n: usize) -> &[i64] {
    &x.shape()[x.rank().saturating_sub(n)..]
}

/// The shape with the last dimensions replaced.
pub(super) fn resized(x: &Tensor, sizes: impl IntoIterator<Item = i64>, n: usize) -> Vec<i64> {
    x.shape()[..x.rank().saturating_sub(n)].iter().copied().chain(sizes).collect()
}

/// Refuses a tensor without one or two dimensions before the last `n`, or with an empty one among
/// the last.
pub(super) fn check_image(what: &str, x: &Tensor, n: usize) -> Result<(), Stop> {
    let fits = (x.rank() == n + 1 || x.rank() == n + 2) && x.shape()[1.min(x.rank())..].iter().all(|&size| size > 0);
    check(fits, || {
        format!(
            "{what}(): Expected {}D or {}D input tensor with optional 0 dim batch size, but got: {:?}",
            n + 1,
            n + 2,
            x.shape()
        )
    })
}
