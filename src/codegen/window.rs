//! The elements under a sliding window, as loads: one for each element of the window.
//!
//! A load at a position of the space reads the operand at `position * stride + offset`. So its
//! strides are those of the operand, multiplied; what overlaps is read by several loads. Where a
//! window reaches into the padding, a load has a *guard*, the range of positions at which it is
//! inside of the operand, and another value outside of it:
//!
//! ```text
//! a window of 3, 2 apart, padding 1, over 4 elements:    -  0  1  2  3  -
//! the first element of the window is at -1 and 1, inside from position 1 on
//! ```

use crate::tensor::layout::contiguous;
use crate::tensor::{DType, Dims, Scalar};
use smallvec::SmallVec;

/// A window in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slide {
    /// The number of elements.
    pub kernel: i64,
    /// The distance between positions.
    pub stride: i64,
    /// The number of missing elements before the first and after the last, with another value.
    pub padding: i64,
    /// The distance between elements.
    pub dilation: i64,
}

/// A window over the last dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The dimensions, the innermost one last.
    pub slides: SmallVec<[Slide; 2]>,
    /// Whether a last position may reach beyond the padding.
    pub ceil: bool,
}

/// The value of a load of an element of a window outside of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// The lowest number.
    Lowest,
    /// Minus zero, to which each number can be added without a change.
    Nothing,
    /// An index that no element has.
    NoIndex,
}

/// The value of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gives {
    /// The element, or a value outside.
    Element(Outside),
    /// Nothing is read: 1 inside of the operand along a dimension of the window, or of the operand
    /// with its padding, and 0 outside.
    Presence {
        /// The dimension of the window.
        slide: usize,
        /// Whether the padding counts.
        padded: bool,
    },
    /// Nothing is read: the index of the element in its image, and -1 outside.
    Index,
    /// No window: an access in one part of the space, as a concatenation has them. Only loops over
    /// that part access it.
    Part,
}

/// An element of a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tap {
    /// The window.
    pub window: Window,
    /// The element in each of its dimensions.
    pub at: SmallVec<[i64; 2]>,
    /// The loaded element.
    pub gives: Gives,
    /// The operand that is the image, for gradients: the positions of the space are its elements.
    /// An element of the load's operand is then a position of the window over it, and `at` counts
    /// from the last one that has the element under it, backwards.
    pub image: Option<usize>,
}

/// Whether the position of a load decides if it is inside of its operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Guard {
    /// No: the load is inside at all positions.
    #[default]
    None,
    /// The row decides.
    Row,
    /// The row and the point decide.
    Point,
    /// The row decides, and selects the element that is read.
    RowUnder,
    /// The row and the point decide, and select the element that is read: its index is that of the
    /// point divided by the first number. There is one if the remainder is below the second.
    PointUnder(i64, i64),
}

impl Guard {
    /// Whether it depends on the point.
    pub(crate) fn is_of_point(self) -> bool {
        matches!(self, Guard::Point | Guard::PointUnder(..))
    }
}

/// The positions in a dimension at which a load is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The dimension of the space.
    pub dim: usize,
    /// The first of them.
    pub from: i64,
    /// The end.
    pub end: i64,
}

/// Which element is read in a dimension, where windows are followed backwards: of a position, the
/// number `(position + offset) / divisor`, if the remainder is below the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Division {
    /// The dimension of the space.
    pub dim: usize,
    /// Added to the position.
    pub offset: i64,
    /// The distance of windows.
    pub divisor: i64,
    /// The end of the remainders.
    pub limit: i64,
    /// The distance between elements.
    pub stride: i64,
}

/// A load as a view of its operand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placed {
    /// Sizes: the positions of the window.
    pub shape: Dims,
    /// Strides.
    pub strides: Dims,
    /// How far the first position is from the first element; less than 0 in the padding.
    pub shift: i64,
    /// The positions inside of the operand, of dimensions in which not all are.
    pub ranges: SmallVec<[Range; 2]>,
    /// For gradients, the dimensions of the window.
    pub divisions: SmallVec<[Division; 2]>,
}

impl Outside {
    /// The value, for elements of a type.
    pub(crate) fn value(self, dtype: DType) -> Scalar {
        match (self, dtype.range()) {
            (Outside::Lowest, Some((lowest, _))) => Scalar::Int(lowest),
            (Outside::Lowest, None) => Scalar::Float(f64::NEG_INFINITY),
            (Outside::Nothing, _) => Scalar::Float(-0.0),
            (Outside::NoIndex, _) => Scalar::Int(-1),
        }
    }
}

impl Gives {
    /// The value of a load outside of the operand.
    pub(crate) fn outside(self, dtype: DType) -> Scalar {
        match self {
            Gives::Element(outside) => outside.value(dtype),
            Gives::Presence { .. } | Gives::Part => Scalar::Int(0),
            Gives::Index => Scalar::Int(-1),
        }
    }

    /// Whether memory is read.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Gives::Element(_) | Gives::Part)
    }
}

/// Whether a shape is that of images over so many dimensions.
///
/// # Errors
/// Another shape, as text for people.
pub(crate) fn is_image(shape: &[i64], dims: usize) -> Result<(), String> {
    match [dims + 1, dims + 2].contains(&shape.len()) && !shape[1..].contains(&0) {
        true => Ok(()),
        false => Err(format!("images over {dims} dimensions of shape {shape:?}")),
    }
}

impl Slide {
    /// The number of elements from the first to the last.
    fn reach(&self) -> i64 {
        (self.kernel - 1) * self.dilation + 1
    }

    /// The number of positions over so many elements, as PyTorch counts them.
    fn positions(&self, elements: i64, ceil: bool) -> i64 {
        let room = elements + 2 * self.padding - self.reach() + if ceil { self.stride - 1 } else { 0 };
        let count = room.div_euclid(self.stride) + 1;
        // The last one begins inside of the operand or of the padding before it.
        let is_beyond = ceil && (count - 1) * self.stride >= elements + self.padding;
        count - i64::from(is_beyond)
    }

    /// A number of elements with so many positions, the likely one: even sizes are halved.
    fn elements(&self, positions: i64, ceil: bool) -> i64 {
        let slack = if ceil { 0 } else { self.stride - 1 };
        ((positions - 1) * self.stride + self.reach() - 2 * self.padding + slack).max(1)
    }

    /// How many positions have an element under them, at most.
    pub(crate) fn around(&self) -> i64 {
        (self.reach() + self.stride - 1) / self.stride
    }

    /// The positions at which an element of the window is inside of so many elements, with so many
    /// more on either side.
    fn inside(&self, tap: i64, elements: i64, margin: i64) -> (i64, i64) {
        let shift = self.padding - tap * self.dilation;
        let from = (shift - margin + self.stride - 1).div_euclid(self.stride);
        (from.max(0), (elements - 1 + margin + shift).div_euclid(self.stride) + 1)
    }
}

impl Window {
    /// The shape of an operand with so many positions.
    pub(crate) fn operand(&self, positions: &[i64]) -> Dims {
        let outer = positions.len().saturating_sub(self.slides.len());
        let own = positions[outer..].iter().zip(&self.slides).map(|(&n, slide)| slide.elements(n, self.ceil));
        positions[..outer].iter().copied().chain(own).collect()
    }
}

impl Window {
    /// The number of positions over an image.
    pub(crate) fn positions(&self, image: &[i64]) -> Dims {
        let outer = image.len().saturating_sub(self.slides.len());
        let own = image[outer..].iter().zip(&self.slides).map(|(&n, slide)| slide.positions(n, self.ceil).max(1));
        image[..outer].iter().copied().chain(own).collect()
    }
}

impl Tap {
    /// Whether it is the first element of the window.
    pub(crate) fn is_first(&self) -> bool {
        self.gives.reads() && self.at.iter().all(|&at| at == 0)
    }

    /// The load of a gradient as a view, of an operand that has an element for each position of the
    /// window over an image.
    ///
    /// # Errors
    /// Shapes that do not match.
    pub(crate) fn placed_under(&self, (shape, strides): (&[i64], &[i64]), image: &[i64]) -> Result<Placed, String> {
        let (rank, dims) = (image.len(), self.window.slides.len());
        is_image(image, dims)?;
        let mut placed = Placed { shape: image.into(), strides: strides.into(), ..Placed::default() };
        if self.gives == Gives::Index {
            placed.strides = contiguous(image);
            placed.strides[..rank - dims].fill(0);
            return Ok(placed);
        }
        if shape.len() != rank || shape[..rank - dims] != image[..rank - dims] {
            return Err(format!("a gradient of shape {shape:?} for an image of {image:?}"));
        }
        for (i, slide) in self.window.slides.iter().enumerate() {
            let (dim, at) = (rank - dims + i, self.at[i]);
            if slide.positions(image[dim], self.window.ceil) != shape[dim] {
                return Err(format!("a gradient of shape {shape:?} for an image of {image:?}"));
            }
            placed.strides[dim] = 0;
            placed.shift -= at * strides[dim];
            let (from, end) = (at * slide.stride - slide.padding, (shape[dim] + at) * slide.stride - slide.padding);
            placed.ranges.push(Range { dim, from: from.max(0), end: end.min(image[dim]) });
            let (offset, divisor, stride) = (slide.padding, slide.stride, strides[dim]);
            let limit = (slide.reach() - at * slide.stride).min(divisor);
            placed.divisions.push(Division { dim, offset, divisor, limit, stride });
        }
        Ok(placed)
    }

    /// The load as a view.
    ///
    /// # Errors
    /// A shape that is none of images, or has no position.
    pub(crate) fn placed(&self, shape: &[i64], strides: &[i64]) -> Result<Placed, String> {
        let (rank, dims) = (shape.len(), self.window.slides.len());
        is_image(shape, dims)?;
        let mut placed = Placed { shape: shape.into(), strides: strides.into(), ..Placed::default() };
        let contiguous = contiguous(shape);
        let strides = if self.gives == Gives::Index { &contiguous } else { strides };
        if self.gives == Gives::Index {
            placed.strides = strides.into();
            placed.strides[..rank - dims].fill(0);
        }
        for (i, slide) in self.window.slides.iter().enumerate() {
            let dim = rank - dims + i;
            let positions = slide.positions(shape[dim], self.window.ceil);
            if positions < 1 {
                return Err(format!("a window that no position of shape {shape:?} has"));
            }
            placed.shape[dim] = positions;
            placed.strides[dim] = strides[dim] * slide.stride;
            let margin = match self.gives {
                Gives::Presence { slide, .. } if slide != i => continue,
                Gives::Presence { padded: true, .. } => slide.padding,
                _ => 0,
            };
            if !matches!(self.gives, Gives::Presence { .. }) {
                placed.shift += (self.at[i] * slide.dilation - slide.padding) * strides[dim];
            }
            let (from, end) = slide.inside(self.at[i], shape[dim], margin);
            if from > 0 || end < positions {
                placed.ranges.push(Range { dim, from, end });
            }
        }
        Ok(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn tap(slide: Slide, ceil: bool, at: i64, gives: Gives) -> Tap {
        Tap { window: Window { slides: smallvec![slide], ceil }, at: smallvec![at], gives, image: None }
    }

    /// Each position of each element of many windows, compared with the definition.
    #[test]
    fn ranges_and_shifts_are_those_of_the_definition() {
        let mut checked = 0;
        for (kernel, stride, dilation) in (1..4).flat_map(|k| (1..4).flat_map(move |s| (1..3).map(move |d| (k, s, d))))
        {
            for (padding, elements, ceil) in
                (0..=kernel / 2).flat_map(|p| (1..9).flat_map(move |n| [false, true].map(|ceil| (p, n, ceil))))
            {
                let slide = Slide { kernel, stride, padding, dilation };
                for at in 0..kernel {
                    let element = tap(slide, ceil, at, Gives::Element(Outside::Lowest));
                    let Ok(placed) = element.placed(&[1, elements], &contiguous(&[1, elements])) else { continue };
                    for position in 0..placed.shape[1] {
                        let found = placed.ranges.first().is_none_or(|one| (one.from..one.end).contains(&position));
                        let index = position * stride + at * dilation - padding;
                        assert_eq!(found, (0..elements).contains(&index), "{slide:?} over {elements}, {at}");
                        assert_eq!(placed.shift + position * placed.strides[1], index, "{slide:?} over {elements}");
                        checked += 1;
                    }
                }
            }
        }
        assert!(checked > 1000, "{checked}");
    }

    #[test]
    fn likely_operands_have_the_positions() {
        for (kernel, stride, padding) in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (7, 1, 0), (1, 3, 0)] {
            let window = Window { slides: smallvec![Slide { kernel, stride, padding, dilation: 1 }], ceil: false };
            let operand = window.operand(&[5, 4]);
            assert_eq!((operand[0], window.slides[0].positions(operand[1], false)), (5, 4), "{window:?}");
        }
    }
}
