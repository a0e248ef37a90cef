//! The addresses of image elements under a sliding window.
//!
//! A convolution is a product of weights and a matrix with a row for each element of the window and
//! a column for each position. That matrix is never built. Positions are numbered along the padded
//! image, so that the element under each tap of the window is at a constant distance from its
//! position: a step of the product reads contiguous elements at an offset. Each line of the image
//! ends with a few surplus positions, whose sums are discarded.
//!
//! ```text
//! image 4 x 4, padding 1, window 3 x 3: lines of 6 elements, 4 positions and 2 surplus ones
//! position 0 1 2 3 . . | 6 7 8 9 . . | 12 …      tap (1, 2): 8 elements after any position
//! ```
//!
//! Strides divide the padded image into phases, each of which has stride 1: the elements whose
//! indices have the same remainder are contiguous. An image without padding and strides is read in
//! place.

use smallvec::SmallVec;

/// One dimension of a sliding window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The number of elements of the image.
    pub input: usize,
    /// The number of positions.
    pub output: usize,
    /// The number of elements of the window.
    pub kernel: usize,
    /// The distance between positions.
    pub stride: usize,
    /// The distance between elements of the window.
    pub dilation: usize,
    /// The number of padding elements before the first.
    pub before: usize,
}

impl Axis {
    /// A dimension with one element.
    pub const SINGLE: Axis = Axis { input: 1, output: 1, kernel: 1, stride: 1, dilation: 1, before: 0 };

    /// The remainders that taps have, which are the phases of the image.
    fn phases(&self) -> SmallVec<[usize; 4]> {
        let mut all: SmallVec<[usize; 4]> = (0..self.kernel).map(|tap| tap * self.dilation % self.stride).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The length of a phase.
    fn length(&self) -> usize {
        self.output + self.kernel.saturating_sub(1) * self.dilation / self.stride
    }

    /// Whether the padded image is the image.
    fn is_plain(&self) -> bool {
        self.stride == 1 && self.before == 0 && self.length() == self.input
    }

    /// The range of a phase that holds image elements, the rest being padding, and the image
    /// element at its start.
    fn inside(&self, phase: usize) -> (std::ops::Range<usize>, usize) {
        let first = self.before.saturating_sub(phase).div_ceil(self.stride);
        let end = (self.input + self.before).saturating_sub(phase).div_ceil(self.stride);
        let end = end.min(self.length());
        (first.min(end)..end, (first * self.stride + phase).saturating_sub(self.before))
    }
}

/// The window of a convolution over images of up to three dimensions; missing ones are
/// [`Axis::SINGLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The dimensions, outermost first.
    pub axes: [Axis; 3],
}

/// The strides of an image, in elements, by dimension.
pub type Distances = [usize; 3];

impl Window {
    /// The number of elements of the window.
    pub fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.kernel).product()
    }

    /// The number of positions.
    pub fn positions(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// The number of elements of a channel of an image.
    pub fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// Whether an image with these strides is read in place.
    pub fn reads_in_place(&self, distances: Distances) -> bool {
        let [_, height, width] = self.axes;
        let contiguous = [height.input * width.input, width.input, 1];
        let is_contiguous = |i: usize| distances[i] == contiguous[i] || self.axes[i].input == 1;
        self.axes.iter().all(Axis::is_plain) && (0..3).all(is_contiguous)
    }

    /// The lengths of the lines of a padded image.
    pub(super) fn lengths(&self) -> [usize; 3] {
        self.axes.map(|axis| axis.length())
    }

    /// The elements of a phase of a channel.
    fn phase(&self) -> usize {
        self.lengths().iter().product()
    }

    /// The elements of a padded channel.
    pub fn padded(&self) -> usize {
        self.axes.iter().map(|axis| axis.phases().len()).product::<usize>() * self.phase()
    }

    /// The number of positions up to the last one, surplus ones included.
    pub(super) fn along(&self) -> usize {
        let [_, height, width] = self.lengths();
        let [depth, rows, columns] = self.axes.map(|axis| axis.output);
        if self.positions() == 0 { 0 } else { ((depth - 1) * height + rows - 1) * width + columns }
    }

    /// Whether there are no surplus positions.
    pub(super) fn has_no_gaps(&self) -> bool {
        self.along() == self.positions()
    }

    /// The offsets of all taps in a channel, in the order of weights.
    pub(super) fn offsets(&self) -> Vec<usize> {
        let [_, height, width] = self.lengths();
        let phases = self.axes.map(|axis| axis.phases());
        let place = |i: usize, tap: usize| {
            let (axis, at) = (self.axes[i], tap * self.axes[i].dilation);
            let phase = phases[i].iter().position(|&phase| phase == at % axis.stride).unwrap_or_default();
            (phase, at / axis.stride)
        };
        let mut all = Vec::with_capacity(self.taps());
        for d in 0..self.axes[0].kernel {
            for h in 0..self.axes[1].kernel {
                for w in 0..self.axes[2].kernel {
                    let [(pd, d), (ph, h), (pw, w)] = [place(0, d), place(1, h), place(2, w)];
                    let phase = (pd * phases[1].len() + ph) * phases[2].len() + pw;
                    all.push(phase * self.phase() + (d * height + h) * width + w);
                }
            }
        }
        all
    }

    /// Writes a padded channel.
    pub(super) fn pad<T: Copy + Default>(&self, image: &[T], distances: Distances, to: &mut [T]) {
        let [depth, height, width] = self.axes;
        let mut lines = to.chunks_exact_mut(width.length().max(1));
        let mut line = |source: Option<usize>, phase: usize| {
            let Some(line) = lines.next() else { return };
            match source {
                Some(from) => pad_line(&width, phase, &image[from.min(image.len())..], distances[2], line),
                None => line.fill(T::default()),
            }
        };
        for pd in depth.phases() {
            for ph in height.phases() {
                for pw in width.phases() {
                    for d in 0..depth.length() {
                        let slice = element(&depth, pd, d).map(|at| at * distances[0]);
                        for h in 0..height.length() {
                            let row = element(&height, ph, h).map(|at| at * distances[1]);
                            line(slice.and_then(|slice| Some(slice + row?)), pw);
                        }
                    }
                }
            }
        }
    }

    /// Calls `run` for each contiguous run of kept positions among `count` positions from `from`:
    /// with its first position, surplus ones counted, the same without them, and its length.
    #[inline(always)]
    pub(super) fn runs(&self, from: usize, count: usize, mut run: impl FnMut(usize, usize, usize)) {
        let [_, height, width] = self.lengths();
        let [_, rows, columns] = self.axes.map(|axis| axis.output);
        let mut at = from;
        while at < from + count {
            let (line, column) = (at / width, at % width);
            let (slice, row) = (line / height, line % height);
            let n = (width - column).min(from + count - at);
            if column < columns && row < rows {
                run(at, (slice * rows + row) * columns + column, n.min(columns - column));
            }
            at += n;
        }
    }
}

/// The image element at an index of a phase; `None` in the padding.
fn element(axis: &Axis, phase: usize, place: usize) -> Option<usize> {
    (place * axis.stride + phase).checked_sub(axis.before).filter(|&at| at < axis.input)
}

/// Writes a line of a phase.
fn pad_line<T: Copy + Default>(axis: &Axis, phase: usize, image: &[T], distance: usize, line: &mut [T]) {
    let (inside, first) = axis.inside(phase);
    line[..inside.start].fill(T::default());
    line[inside.end..].fill(T::default());
    let middle = &mut line[inside];
    if middle.is_empty() {
        return;
    }
    let step = distance * axis.stride;
    let from = &image[first * distance..];
    match step {
        0 => middle.fill(from[0]),
        1 => middle.copy_from_slice(&from[..middle.len()]),
        2 => {
            let last = middle.len() - 1;
            middle[last] = from[2 * last];
            for (slot, pair) in middle[..last].iter_mut().zip(from.chunks_exact(2)) {
                *slot = pair[0];
            }
        }
        _ => {
            for (slot, &x) in middle.iter_mut().zip(from.iter().step_by(step)) {
                *slot = x;
            }
        }
    }
}
