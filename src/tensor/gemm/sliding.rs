//! Convolutions of planar images: each channel is contiguous, as in NCHW.
//!
//! A unit of work is a block of positions by a block of channels of the result, with the whole
//! depth: channels of the image by elements of the window. Sums are added up in blocks along the
//! depth, as those of products are, so that results depend neither on units nor on threads. A
//! convolution with one channel in each group pads and computes channel by channel.
#![allow(unsafe_code, reason = "images are read and results are written through pointers")]

use super::cache_blocks::{Scratch, depth_of_block};
use super::epilogue::{Placed, Step, Steps, Sums};
use super::packing::{Lines, pack};
use super::tiles::{Tile, Tiles};
use super::window_phases::{Distances, Window};
use super::{PanelMemory, Panels, Real, give_back, panels};
use std::ops::Range;
use std::sync::Arc;

/// Positions and channels of a unit, whose sums stay in a second-level cache.
const MOST_POSITIONS: usize = 512;
const MOST_CHANNELS: usize = 192;
/// Windows with at most `FEW_TAPS` taps read from a page of memory of its own for each channel, if
/// channels are at least `FAR` bytes apart: more pages than the address cache (TLB) holds.
const FEW_TAPS: usize = 2;
const FAR: usize = 2048;
/// Channels of a unit of a depthwise convolution.
const CHANNELS: usize = 4;

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The window.
    pub window: Window,
    /// The number of groups.
    pub groups: usize,
    /// The channels of the image in each group.
    pub inputs: usize,
    /// The channels of the result in each group.
    pub outputs: usize,
}

impl Sizes {
    /// The number of products that are added up for an element of the result.
    pub fn depth(&self) -> usize {
        self.inputs * self.window.taps()
    }

    /// Whether each channel is computed from one channel.
    pub fn is_by_channel(&self) -> bool {
        self.inputs == 1 && self.outputs == 1
    }

    /// The elements of the result of an example.
    pub fn result(&self) -> usize {
        self.groups * self.outputs * self.window.positions()
    }
}

/// The weights of a convolution in the order in which tiles read them.
#[derive(Clone, Debug)]
pub struct Filters<T> {
    sizes: Sizes,
    /// Each group begins at a multiple of this.
    group: usize,
    /// For each group the blocks of its depth, and for each block the panels of all channels.
    panels: Vec<T>,
}

impl<T: Real> Panels for Filters<T> {
    fn give_back(&mut self) {
        give_back(&mut self.panels);
    }
}

impl<T: Real> Filters<T> {
    /// Packs contiguous weights of shape (outputs, inputs per group, window), each multiplied by
    /// the factor of its channel, if there are factors.
    ///
    /// # Panics
    /// When there are too few.
    pub fn of(weights: &[T], factors: &[T], sizes: Sizes, memory: PanelMemory) -> Filters<T> {
        let (depth, outputs) = (sizes.depth(), sizes.outputs);
        assert!(weights.len() >= sizes.groups * outputs * depth, "the slice has all weights");
        assert!(factors.is_empty() || factors.len() >= sizes.groups * outputs, "there is a factor for each channel");
        if sizes.is_by_channel() {
            let mut panels = weights[..sizes.groups * depth].to_vec();
            scale_channels(&mut panels, factors, depth);
            return Filters { sizes, group: depth, panels };
        }
        let height = T::with_tiles(|tiles, _| tiles.rows);
        let group = outputs.next_multiple_of(height) * depth;
        let mut panels = panels(sizes.groups * group, memory);
        let (each, rows) = (depth_of_block(depth), outputs.next_multiple_of(height));
        let groups = weights.chunks_exact((outputs * depth).max(1)).zip(panels.chunks_exact_mut(group.max(1)));
        for (number, (own, to)) in groups.take(sizes.groups).enumerate() {
            let first_channel = number * outputs;
            for (from, row) in
                (0..depth).step_by(each).flat_map(|from| (0..outputs).step_by(height).map(move |row| (from, row)))
            {
                let (first, deep) = (own[row * depth + from..].as_ptr(), each.min(depth - from));
                let lines = Lines { first, line: depth, step: 1, count: height.min(outputs - row), depth: deep };
                let panel = &mut to[from * rows + row * deep..][..deep * height];
                // SAFETY: these rows of weights are in the slice, and the panel has as many steps.
                unsafe { pack(lines, height, panel.as_mut_ptr()) };
                if let Some(factors) = factors.get(first_channel + row..first_channel + row + lines.count) {
                    panel.chunks_exact_mut(height).for_each(|step| scale_step(step, factors));
                }
            }
        }
        Filters { sizes, group, panels }
    }
}

/// Multiplies elements, as many of each channel, by its factor, if there are factors.
pub fn scale_channels<T: Real>(elements: &mut [T], factors: &[T], each: usize) {
    for (own, &factor) in elements.chunks_exact_mut(each.max(1)).zip(factors) {
        own.iter_mut().for_each(|x| *x = *x * factor);
    }
}

/// Multiplies an element of each channel by its factor.
fn scale_step<T: Real>(elements: &mut [T], factors: &[T]) {
    elements.iter_mut().zip(factors).for_each(|(x, &factor)| *x = *x * factor);
}

/// The image of an example.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a, T> {
    /// Memory, from the first element of the example on.
    pub elements: &'a [T],
    /// The distance between channels.
    pub channel: usize,
    /// The distances between elements of a channel.
    pub distances: Distances,
}

/// The offsets of image elements from the first channel of a group, one for each step of the depth.
#[derive(Debug)]
struct Steplist {
    offsets: Vec<u32>,
    reach: usize,
}

impl Steplist {
    fn new(sizes: &Sizes, channel: usize) -> Option<Steplist> {
        let taps = sizes.window.offsets();
        let mut offsets = Vec::with_capacity(sizes.depth());
        for input in 0..sizes.inputs {
            for tap in &taps {
                offsets.push(u32::try_from(input.checked_mul(channel)?.checked_add(*tap)?).ok()?);
            }
        }
        Some(Steplist { reach: offsets.iter().max().map_or(0, |&at| at as usize), offsets })
    }
}

/// A convolution of an example, in parts that several threads may compute.
#[derive(Clone, Debug)]
pub struct Sliding<T> {
    sizes: Sizes,
    steps: Arc<Steplist>,
    epilogue: Steps<T>,
    image: *const T,
    /// The elements of the image that can be read.
    len: usize,
    channel: usize,
    distances: Distances,
    panels: *const T,
    group: usize,
    result: *mut T,
    /// Blocks of positions and of channels of the result, in each group.
    blocks: (usize, usize),
}

// SAFETY: addresses and numbers, which `compute` alone reads or writes through, under its contract.
unsafe impl<T: Send> Send for Sliding<T> {}
// SAFETY: see above.
unsafe impl<T: Sync> Sync for Sliding<T> {}

/// Copies a padded image, channel after channel.
pub fn pad<T: Real>(window: &Window, image: &Image<'_, T>, channels: Range<usize>, to: &mut [T]) {
    for (channel, to) in channels.zip(to.chunks_exact_mut(window.padded().max(1))) {
        window.pad(&image.elements[channel * image.channel..], image.distances, to);
    }
}

/// Calls `work` with memory of this thread that is kept between calls, for padded images. Its
/// contents are unspecified.
pub fn with_memory<T: Real, R>(elements: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let mut memory = T::with_tiles(|_, scratch| std::mem::take(&mut scratch.other));
    if memory.len() < elements {
        memory.resize(elements, T::default());
    }
    let result = work(&mut memory[..elements]);
    T::with_tiles(|_, scratch| scratch.other = memory);
    result
}

/// The elements after the end of a padded image that tiles may read.
pub const SLACK: usize = 128;

impl<T: Real> Sliding<T> {
    /// A convolution, which writes the result of one example. Except where the convolution is by
    /// channel, the image is padded, or one that is read where it is.
    ///
    /// Nothing, where offsets would not fit four bytes.
    ///
    /// # Panics
    /// When an operand exceeds its slice, or sizes do not match.
    pub fn new(
        sizes: Sizes,
        image: Image<'_, T>,
        filters: &Filters<T>,
        steps: &[Step<'_, T>],
        result: &mut [T],
        threads: usize,
    ) -> Option<Sliding<T>> {
        assert!(result.len() == sizes.result() && filters.sizes == sizes, "sizes fit together");
        let channels = sizes.groups * sizes.outputs;
        let list = Steplist::new(&sizes, image.channel)?;
        let is_by_channel = sizes.is_by_channel();
        let (input, [depth, height, width]) = (sizes.window.axes.map(|axis| axis.input), image.distances);
        let last = match is_by_channel {
            true => (input[0] - 1) * depth + (input[1] - 1) * height + (input[2] - 1) * width,
            false => list.reach + sizes.window.along().saturating_sub(1),
        };
        let inputs = if is_by_channel { 1 } else { sizes.inputs };
        let groups = (sizes.groups - 1) * inputs * image.channel;
        assert!(groups + last < image.elements.len(), "the slice has the whole image");
        Some(Sliding {
            sizes,
            steps: Arc::new(list),
            epilogue: Steps::of(steps, channels, sizes.window.positions()),
            image: image.elements.as_ptr(),
            len: image.elements.len(),
            channel: image.channel,
            distances: image.distances,
            panels: filters.panels.as_ptr(),
            group: filters.group,
            result: result.as_mut_ptr(),
            blocks: blocks::<T>(&sizes, threads),
        })
    }

    /// Computes a convolution on this thread.
    ///
    /// # Panics
    /// See [`Sliding::new`]; when offsets would not fit four bytes.
    pub fn compute_all(
        sizes: Sizes,
        image: Image<'_, T>,
        filters: &Filters<T>,
        steps: &[Step<'_, T>],
        result: &mut [T],
    ) {
        let whole = Sliding::new(sizes, image, filters, steps, result, 1).expect("offsets fit four bytes");
        // SAFETY: the operands are borrowed here, and each part is computed once.
        (0..whole.parts()).for_each(|part| unsafe { whole.compute(part) });
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        match self.sizes.is_by_channel() {
            true => self.sizes.groups.div_ceil(CHANNELS),
            false => self.sizes.groups * self.blocks.0 * self.blocks.1,
        }
    }

    /// Computes one part.
    ///
    /// # Safety
    /// The operands of [`Sliding::new`] are still borrowed, and no other thread computes this part.
    pub unsafe fn compute(&self, part: usize) {
        T::with_tiles(|tiles, scratch| {
            // SAFETY: `new` asserted that operands are inside their slices; parts are disjoint, and
            // the tiles are those of this processor.
            unsafe {
                if self.sizes.is_by_channel() {
                    let channels = part * CHANNELS..((part + 1) * CHANNELS).min(self.sizes.groups);
                    return channels.for_each(|channel| self.channel(channel, tiles, scratch));
                }
                let (group, block) = (part / (self.blocks.0 * self.blocks.1), part % (self.blocks.0 * self.blocks.1));
                let rows = cut(self.sizes.outputs, tiles.rows, block % self.blocks.1, self.blocks.1);
                let positions = cut(self.sizes.window.along(), tiles.columns, block / self.blocks.1, self.blocks.0);
                self.block(group, rows, positions, tiles, scratch);
            }
        });
    }
}

/// One of some ranges of about the same size, which begin at multiples of `tile`.
fn cut(size: usize, tile: usize, index: usize, parts: usize) -> Range<usize> {
    let at = |i: usize| (size.div_ceil(tile) * i / parts * tile).min(size);
    at(index)..at(index + 1)
}

/// The blocks of positions and of channels: as many as keep sums in a cache, and some for each
/// thread.
fn blocks<T: Real>(sizes: &Sizes, threads: usize) -> (usize, usize) {
    let along = sizes.window.along();
    let columns = T::with_tiles(|tiles, _| tiles.columns);
    let (positions, channels) = (along.div_ceil(MOST_POSITIONS), sizes.outputs.div_ceil(MOST_CHANNELS));
    let wanted = if threads < 2 { 1 } else { (threads * 2).div_ceil(sizes.groups * channels) };
    (positions.max(wanted).min(along.div_ceil(columns)).max(1), channels.max(1))
}

impl<T: Real> Sliding<T> {
    /// Computes some channels of the result at some positions.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn block(
        &self,
        group: usize,
        rows: Range<usize>,
        positions: Range<usize>,
        tiles: &Tiles<T>,
        scratch: &mut Scratch<T>,
    ) {
        let (depth, width) = (self.sizes.depth(), tiles.columns);
        let in_place = self.sizes.window.has_no_gaps();
        let panels = positions.len().div_ceil(width);
        let (sums, packed) = scratch.both(if in_place { 0 } else { panels * rows.len() * width }, depth * width);
        let each = depth_of_block(depth);
        for from in (0..depth).step_by(each) {
            let deep = each.min(depth - from);
            for (panel, first) in positions.clone().step_by(width).enumerate() {
                let count = width.min(positions.end - first);
                // SAFETY: the contract; sums have room for all panels of these rows.
                unsafe {
                    let at = match in_place {
                        true => self.place(group, rows.start, first, rows.len(), count),
                        false => Sums {
                            first: sums.add(panel * rows.len() * width),
                            pitch: width,
                            rows: rows.len(),
                            columns: width,
                            ..self.place(group, rows.start, first, rows.len(), width)
                        },
                    };
                    if from == 0 {
                        self.begin(&at, tiles);
                    }
                    self.panel(group, (from, deep), (first, count), &at, packed, tiles);
                    if from + deep == depth {
                        self.finish(group, first, count, in_place, &at, tiles);
                    }
                }
            }
        }
    }

    /// A view of the result in which a tile is accumulated.
    ///
    /// # Safety
    /// The rows and columns are some of the result.
    unsafe fn place(&self, group: usize, row: usize, column: usize, rows: usize, columns: usize) -> Sums<T> {
        let (row, positions) = (group * self.sizes.outputs + row, self.sizes.window.positions());
        let first = self.result.wrapping_add(row * positions + column);
        Sums { first, pitch: positions, rows, columns, row, column, result_row: positions }
    }

    /// Sets sums to 0 and adds the bias, if that is the first step of the epilogue: in the order of
    /// sums that are accumulated elsewhere, so that both give the same bits.
    ///
    /// # Safety
    /// The sums can be written.
    unsafe fn begin(&self, at: &Sums<T>, tiles: &Tiles<T>) {
        if let Some(step) = self.bias() {
            // SAFETY: the caller's contract; all bits of zeros are 0.
            unsafe {
                (0..at.rows).for_each(|r| at.first.add(r * at.pitch).write_bytes(0, at.columns));
                (tiles.finish)(step, at);
            }
        }
    }

    /// The first step, if it is a bias.
    fn bias(&self) -> Option<&Placed<T>> {
        self.epilogue.iter().next().filter(|step| matches!(step, Placed::Rows(_)))
    }

    /// Adds some steps to the sums of a panel.
    ///
    /// # Safety
    /// See `compute`; `packed` has room for a panel.
    unsafe fn panel(
        &self,
        group: usize,
        (from, deep): (usize, usize),
        (first, count): (usize, usize),
        at: &Sums<T>,
        packed: *mut T,
        tiles: &Tiles<T>,
    ) {
        let (width, row) = (tiles.columns, at.row - group * self.sizes.outputs);
        let begin = group * self.sizes.inputs * self.channel + first;
        let is_far = self.sizes.window.taps() <= FEW_TAPS && self.channel * size_of::<T>() >= FAR;
        let pays_off = is_far && at.rows > 2 * tiles.rows;
        let is_inside = !pays_off && begin + self.steps.reach + width <= self.len;
        // SAFETY: the contract. A panel that would exceed the image is copied, and one whose steps
        // are in as many pages of memory.
        unsafe {
            let right = self.image.add(begin);
            let offsets = self.steps.offsets.as_ptr().add(from);
            if !is_inside {
                copy_panel(right, &self.steps.offsets[from..from + deep], count, width, packed);
            }
            let one = T::of(1.0);
            let channels = self.sizes.outputs.next_multiple_of(tiles.rows);
            let weights = self.panels.add(group * self.group + from * channels);
            for r in (0..at.rows).step_by(tiles.rows) {
                let tile = Tile {
                    depth: deep,
                    left: weights.add((row + r) * deep),
                    left_row: 1,
                    left_step: tiles.rows,
                    right: if is_inside { right } else { packed.cast_const() },
                    right_step: width,
                    offsets,
                    result: at.first.add(r * at.pitch),
                    result_row: at.pitch,
                    columns: at.columns.min(if count <= width / 2 { width / 2 } else { width }),
                    alpha: one,
                    beta: if from == 0 && self.bias().is_none() { T::default() } else { one },
                    one,
                };
                let some = tiles.rows.min(at.rows - r);
                if is_inside { (tiles.compute_at)(some, &tile) } else { (tiles.compute)(some, &tile) }
            }
        }
    }

    /// Applies the epilogue, and copies sums that were accumulated outside of the result to it.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn finish(&self, group: usize, first: usize, count: usize, in_place: bool, at: &Sums<T>, tiles: &Tiles<T>) {
        // SAFETY: the contract; runs are positions of the result.
        unsafe {
            for step in self.epilogue.iter().skip(usize::from(self.bias().is_some())) {
                if in_place || !matches!(step, Placed::Elements(_)) {
                    (tiles.finish)(step, at);
                    continue;
                }
                self.sizes.window.runs(first, count, |from, position, n| {
                    let sums = at.first.add(from - first);
                    (tiles.finish)(step, &Sums { first: sums, columns: n, column: position, ..*at });
                });
            }
            if in_place {
                return;
            }
            let _ = group;
            let positions = at.result_row;
            self.sizes.window.runs(first, count, |from, position, n| {
                let (mut sums, mut to) = (at.first.add(from - first), self.result.add(at.row * positions + position));
                for _ in 0..at.rows {
                    copy_run(sums, to, n);
                    (sums, to) = (sums.wrapping_add(at.pitch), to.wrapping_add(positions));
                }
            });
        }
    }

    /// Computes a channel from one channel.
    ///
    /// # Safety
    /// See `compute`.
    unsafe fn channel(&self, channel: usize, tiles: &Tiles<T>, scratch: &mut Scratch<T>) {
        let (window, depth) = (&self.sizes.window, self.sizes.depth());
        let (along, padded, wide) = (window.along(), window.padded(), tiles.wide * tiles.columns / 2);
        let (sums, image) = scratch.both(wide, padded + wide);
        // SAFETY: the contract; the padded channel has room for what a tile reads after it.
        unsafe {
            let from = channel * self.channel;
            let own = std::slice::from_raw_parts(self.image.add(from), self.len - from);
            let to = std::slice::from_raw_parts_mut(image, padded + wide);
            window.pad(own, self.distances, &mut to[..padded]);
            let one = T::of(1.0);
            for first in (0..along).step_by(wide) {
                let count = wide.min(along - first);
                let vectors = if count > wide / 2 { tiles.wide } else { tiles.wide / 2 };
                let tile = Tile {
                    depth,
                    left: self.panels.add(channel * depth),
                    left_row: 0,
                    left_step: 1,
                    right: image.cast_const().add(first),
                    right_step: 0,
                    offsets: self.steps.offsets.as_ptr(),
                    result: sums,
                    result_row: wide,
                    columns: vectors * (wide / tiles.wide),
                    alpha: one,
                    beta: if self.bias().is_some() { one } else { T::default() },
                    one,
                };
                let at = Sums { first: sums, pitch: wide, ..self.place(channel, 0, 0, 1, tile.columns) };
                self.begin(&at, tiles);
                (tiles.row_at)(vectors, &tile);
                self.finish(channel, first, count, false, &at, tiles);
            }
        }
    }
}

/// Copies elements that do not overlap: vectors, the last of which repeats some of the one before.
///
/// # Safety
/// So many elements can be read and written.
#[inline(always)]
unsafe fn copy_run<T: Copy>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: the caller's contract; the last vector begins at 0 or later.
    unsafe {
        match n {
            16.. => vectors::<T, 16>(from, to, n),
            8.. => vectors::<T, 8>(from, to, n),
            4.. => vectors::<T, 4>(from, to, n),
            _ => (0..n).for_each(|i| *to.add(i) = *from.add(i)),
        }
    }
}

/// # Safety
/// See [`copy_run`]; there are at least `N` elements.
#[inline(always)]
unsafe fn vectors<T: Copy, const N: usize>(from: *const T, to: *mut T, n: usize) {
    let mut at = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while at + N <= n {
            to.add(at).copy_from_nonoverlapping(from.add(at), N);
            at += N;
        }
        to.add(n - N).copy_from_nonoverlapping(from.add(n - N), N);
    }
}

/// Copies some columns of a panel by offsets; the others are 0.
///
/// # Safety
/// These columns of all steps can be read, and a whole panel written.
unsafe fn copy_panel<T: Copy + Default>(right: *const T, offsets: &[u32], count: usize, width: usize, to: *mut T) {
    // SAFETY: the same contract.
    unsafe {
        match (count == width, width) {
            (true, 8) => return copy_whole::<T, 8>(right, offsets, to),
            (true, 16) => return copy_whole::<T, 16>(right, offsets, to),
            (true, 32) => return copy_whole::<T, 32>(right, offsets, to),
            _ => {}
        }
    }
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe {
            let line = to.add(step * width);
            line.copy_from_nonoverlapping(right.add(offset as usize), count);
            for place in count..width {
                *line.add(place) = T::default();
            }
        }
    }
}

/// Copies all columns of a panel.
///
/// # Safety
/// See [`copy_panel`].
unsafe fn copy_whole<T: Copy, const N: usize>(right: *const T, offsets: &[u32], to: *mut T) {
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller's contract.
        unsafe { to.add(step * N).copy_from_nonoverlapping(right.add(offset as usize), N) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::window_phases::Axis;
    use super::super::{Function, Step};
    use super::*;

    /// The convolution by its definition. The numbers are such that sums are exact.
    fn expected(sizes: &Sizes, image: &[f32], weights: &[f32]) -> Vec<f32> {
        let [d, h, w] = sizes.window.axes;
        let mut all = Vec::new();
        for output in 0..sizes.groups * sizes.outputs {
            for at in 0..sizes.window.positions() {
                let at = [at / (h.output * w.output), at / w.output % h.output, at % w.output];
                let mut sum = 0.0;
                for step in 0..sizes.depth() {
                    let (input, tap) = (step / sizes.window.taps(), step % sizes.window.taps());
                    let tap = [tap / (h.kernel * w.kernel), tap / w.kernel % h.kernel, tap % w.kernel];
                    let place = |i: usize, axis: &Axis| {
                        let place = (at[i] * axis.stride + tap[i] * axis.dilation).checked_sub(axis.before)?;
                        (place < axis.input).then_some(place)
                    };
                    if let (Some(z), Some(y), Some(x)) = (place(0, &d), place(1, &h), place(2, &w)) {
                        let channel = output / sizes.outputs * sizes.inputs + input;
                        let place = ((channel * d.input + z) * h.input + y) * w.input + x;
                        sum += image[place] * weights[output * sizes.depth() + step];
                    }
                }
                all.push(sum);
            }
        }
        all
    }

    fn axis((input, kernel, stride, dilation): (usize, usize, usize, usize), before: usize, after: usize) -> Axis {
        let room = input + before + after - dilation * (kernel - 1) - 1;
        Axis { input, output: room / stride + 1, kernel, stride, dilation, before }
    }

    /// All parts, with the number that other threads would have.
    fn computed(sizes: Sizes, image: &[f32], weights: &[f32], steps: &[Step<'_, f32>], threads: usize) -> Vec<f32> {
        let [_, h, w] = sizes.window.axes;
        let channel = sizes.window.elements();
        let own = Image { elements: image, channel, distances: [h.input * w.input, w.input, 1] };
        let (each, channels) = (sizes.window.padded(), sizes.groups * sizes.inputs);
        let mut padded = vec![0.0; each * channels];
        pad(&sizes.window, &own, 0..channels, &mut padded);
        let in_place = sizes.is_by_channel() || sizes.window.reads_in_place(own.distances);
        let read = if in_place { own } else { Image { elements: &padded, channel: each, ..own } };
        let mut result = vec![f32::NAN; sizes.result()];
        let filters = Filters::of(weights, &[], sizes, PanelMemory::Lent);
        let sliding = Sliding::new(sizes, read, &filters, steps, &mut result, threads).expect("it is small");
        // SAFETY: the operands are borrowed here, and each part is computed once.
        (0..sliding.parts()).for_each(|part| unsafe { sliding.compute(part) });
        result
    }

    fn numbers(n: usize, period: usize) -> Vec<f32> {
        (0..n).map(|i| (i * 7 % period) as f32 - 3.0).collect()
    }

    fn cases() -> Vec<Sizes> {
        let plain = |n, kernel| axis((n, kernel, 1, 1), 0, 0);
        let windows = [
            [Axis::SINGLE, plain(9, 1), plain(7, 1)],
            [Axis::SINGLE, plain(9, 3), plain(37, 2)],
            [Axis::SINGLE, axis((9, 3, 1, 1), 1, 1), axis((35, 3, 1, 1), 1, 1)],
            [Axis::SINGLE, axis((11, 3, 2, 1), 1, 1), axis((10, 5, 3, 1), 2, 0)],
            [Axis::SINGLE, axis((9, 2, 1, 3), 0, 2), axis((8, 3, 2, 2), 3, 1)],
            [axis((3, 2, 2, 1), 1, 0), axis((4, 3, 1, 2), 2, 2), axis((5, 3, 3, 2), 1, 4)],
            [Axis::SINGLE, Axis::SINGLE, axis((1, 1, 2, 1), 1, 1)],
        ];
        let channels = [(1, 3, 5), (2, 1, 1), (13, 1, 1), (1, 40, 30), (2, 2, 13), (3, 1, 2)];
        let each =
            |axes| channels.map(|(groups, inputs, outputs)| Sizes { window: Window { axes }, groups, inputs, outputs });
        windows.into_iter().flat_map(each).collect()
    }

    #[test]
    fn windows_of_all_kinds_agree_with_the_definition() {
        for sizes in cases() {
            let image = numbers(sizes.groups * sizes.inputs * sizes.window.elements(), 11);
            let weights = numbers(sizes.groups * sizes.outputs * sizes.depth(), 5);
            let expected = expected(&sizes, &image, &weights);
            for threads in [1, 2, 5] {
                assert_eq!(computed(sizes, &image, &weights, &[], threads), expected, "{sizes:?}");
            }
        }
    }

    #[test]
    fn steps_follow_in_their_order() {
        for sizes in cases() {
            let image = numbers(sizes.groups * sizes.inputs * sizes.window.elements(), 11);
            let weights = numbers(sizes.groups * sizes.outputs * sizes.depth(), 5);
            let (bias, other) = (numbers(sizes.groups * sizes.outputs, 6), numbers(sizes.result(), 9));
            let steps = [
                Step::Rows(&bias),
                Step::Map(Function::Clamp(-2.0, 30.0)),
                Step::Elements(&other),
                Step::Map(Function::Relu),
            ];
            let mut expected = expected(&sizes, &image, &weights);
            for (at, sum) in expected.iter_mut().enumerate() {
                let biased = *sum + bias[at / sizes.window.positions()];
                *sum = (biased.clamp(-2.0, 30.0) + other[at]).max(0.0);
            }
            assert_eq!(computed(sizes, &image, &weights, &steps, 2), expected, "{sizes:?}");
        }
    }

    /// A depth of several blocks: the bits do not depend on the number of threads.
    #[test]
    fn sums_do_not_depend_on_parts() {
        let window = Window { axes: [Axis::SINGLE, axis((30, 3, 1, 1), 1, 1), axis((31, 3, 1, 1), 1, 1)] };
        let sizes = Sizes { window, groups: 1, inputs: 70, outputs: 130 };
        let image: Vec<f32> = numbers(70 * 930, 101).iter().map(|x| x / 7.0).collect();
        let weights: Vec<f32> = numbers(130 * 630, 103).iter().map(|x| x / 3.0).collect();
        let one = computed(sizes, &image, &weights, &[], 1);
        assert!([2, 3, 16].into_iter().all(|threads| computed(sizes, &image, &weights, &[], threads) == one));
    }
}
