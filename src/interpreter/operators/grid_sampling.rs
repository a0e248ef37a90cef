//! Sampling at positions in `-1..1` that a grid gives for each element of the result, and the grids
//! of affine maps.
//!
//! Dimensions are sampled separately: a position has some taps, elements with weights, in each, and
//! the result is the sum over all products of taps. Taps include the derivatives of weights by the
//! position, for the backward operators.

use super::elements::{check, floats, like};
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{Tensor, layout};
use smallvec::SmallVec;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::grid_sampler", |call| grid_sampler(call, None)),
    ("aten::grid_sampler_2d", |call| grid_sampler(call, Some(2))),
    ("aten::grid_sampler_3d", |call| grid_sampler(call, Some(3))),
    ("aten::grid_sampler_2d_backward", |call| backward(call, 2)),
    ("aten::grid_sampler_3d_backward", |call| backward(call, 3)),
    ("aten::affine_grid_generator", affine_grid),
];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Linear,
    Nearest,
    Cubic,
}

/// The treatment of positions outside of an image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// One dimension of the image.
struct Axis {
    size: i64,
    mode: Mode,
    outside: Outside,
    corners: bool,
}

/// A sampled element, its weight, and the derivative of the weight by the grid position.
#[derive(Clone, Copy)]
struct Tap {
    index: usize,
    weight: f64,
    slope: f64,
}

type Taps = SmallVec<[Tap; 4]>;

impl Axis {
    /// The position inside of the image for any position, and the derivative by it.
    fn inside(&self, at: f64) -> (f64, f64) {
        let last = (self.size - 1) as f64;
        match self.outside {
            Outside::Zeros => (at, 1.0),
            Outside::Border => clipped(at, 1.0, last),
            Outside::Reflection => {
                let (low, high) = if self.corners { (0.0, last) } else { (-0.5, self.size as f64 - 0.5) };
                let (at, slope) = reflected(at, low, high - low);
                clipped(at, slope, last)
            }
        }
    }

    fn taps(&self, position: f64) -> Taps {
        let size = self.size as f64;
        let (scale, at) = match self.corners {
            true => ((size - 1.0) / 2.0, (position + 1.0) * ((size - 1.0) / 2.0)),
            false => (size / 2.0, (position + 1.0) * (size / 2.0) - 0.5),
        };
        if self.mode == Mode::Cubic {
            return self.cubic_taps(at, scale);
        }
        let (at, slope) = self.inside(at);
        match self.mode {
            Mode::Nearest => self.known([(at.round_ties_even(), 1.0, 0.0)]),
            _ => {
                let (low, slope) = (at.floor(), slope * scale);
                self.known([(low, 1.0 - (at - low), -slope), (low + 1.0, at - low, slope)])
            }
        }
    }

    /// Each of the four elements is mapped into the image, not the position between them.
    fn cubic_taps(&self, at: f64, scale: f64) -> Taps {
        let low = at.floor();
        self.known([-1.0, 0.0, 1.0, 2.0].map(|step| {
            let (weight, slope) = cubic(at - low - step);
            (self.inside(low + step).0, weight, slope * scale)
        }))
    }

    /// The taps inside of the image. NaN weights are kept, so that they propagate to the result.
    fn known<const N: usize>(&self, taps: [(f64, f64, f64); N]) -> Taps {
        let is_inside = |at: f64| (0.0..self.size as f64).contains(&at);
        let tap = |(at, weight, slope): (f64, f64, f64)| match is_inside(at) {
            true => Some(Tap { index: at as usize, weight, slope }),
            false => weight.is_nan().then_some(Tap { index: 0, weight, slope }),
        };
        taps.into_iter().filter_map(tap).collect()
    }
}

/// A position beyond the first or last element becomes that element; there, and at these elements,
/// the derivative is 0. NaN becomes the first element.
fn clipped(at: f64, slope: f64, last: f64) -> (f64, f64) {
    match at {
        _ if at > 0.0 && at < last => (at, slope),
        _ if at >= last => (last, 0.0),
        _ => (0.0, 0.0),
    }
}

/// A position reflected at both ends of a span until it is inside.
fn reflected(at: f64, low: f64, span: f64) -> (f64, f64) {
    if span <= 0.0 {
        return (0.0, 0.0);
    }
    let (away, slope) = if at < low { (low - at, -1.0) } else { (at - low, 1.0) };
    let rest = away % span;
    match (away / span).floor() % 2.0 == 0.0 {
        true => (rest + low, slope),
        false => (span - rest + low, -slope),
    }
}

/// The weight at a distance in a cubic convolution with -0.75, and its derivative.
fn cubic(distance: f64) -> (f64, f64) {
    const A: f64 = -0.75;
    let (x, sign) = (distance.abs(), distance.signum());
    match x {
        _ if x <= 1.0 => {
            (((A + 2.0) * x - (A + 3.0)) * x * x + 1.0, sign * (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x)
        }
        _ => (((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A, sign * ((3.0 * A * x - 10.0 * A) * x + 8.0 * A)),
    }
}

/// The operands of a sampling.
struct Sampling {
    image: Vec<f64>,
    grid: Vec<f64>,
    axes: Vec<Axis>,
    batch: usize,
    channels: usize,
    /// The number of elements of the image, and of the result, per channel.
    planes: (usize, usize),
    shape: Vec<i64>,
}

/// Checks the operands of a sampling of `n` dimensions.
fn check_operands(x: &Tensor, grid: &Tensor, n: usize) -> Result<(), Stop> {
    let (known, others) = (x.shape(), grid.shape());
    check(x.dtype() == grid.dtype(), || {
        let names = (x.dtype().python_name(), grid.dtype().python_name());
        format!(
            "grid_sampler(): expected input and grid to have same dtype, but input has {} and grid has {}",
            names.0, names.1
        )
    })?;
    check(x.rank() == grid.rank() && (n == 2 || n == 3) && x.rank() == n + 2, || {
        format!(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {known:?} and grid with sizes {others:?}"
        )
    })?;
    check(known[0] == others[0], || {
        format!(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {known:?} and grid with sizes {others:?}"
        )
    })?;
    check(others[n + 1] == n as i64, || {
        format!("grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes {others:?}")
    })?;
    check(known[2..].iter().all(|&size| size > 0), || {
        format!("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {known:?}")
    })?;
    floats("grid_sampler", x)
}

impl Sampling {
    fn new(call: &Call, x: &Tensor, grid: &Tensor, n: usize) -> Result<Sampling, Stop> {
        check_operands(x, grid, n)?;
        let mode = match call.int("interpolation_mode")? {
            0 => Mode::Linear,
            1 => Mode::Nearest,
            _ if n == 3 => return Err(Stop::raised("grid_sampler(): bicubic interpolation only supports 4D input")),
            _ => Mode::Cubic,
        };
        let outside = match call.int("padding_mode")? {
            0 => Outside::Zeros,
            1 => Outside::Border,
            _ => Outside::Reflection,
        };
        let corners = call.bool("align_corners")?;
        let axis = |&size: &i64| Axis { size, mode, outside, corners };
        let mut shape = x.shape()[..2].to_vec();
        shape.extend_from_slice(&grid.shape()[1..=n]);
        layout::checked(&shape)?;
        Ok(Sampling {
            image: x.read(),
            grid: grid.read(),
            axes: x.shape()[2..].iter().map(axis).collect(),
            batch: x.size(0) as usize,
            channels: x.size(1) as usize,
            planes: (layout::numel(&x.shape()[2..]), layout::numel(&shape[2..])),
            shape,
        })
    }

    /// The taps of a position in all dimensions; a grid lists the last dimension first. NaN in one
    /// dimension makes the result NaN, also if the position is outside of the image in another.
    fn taps(&self, at: usize) -> Vec<Taps> {
        let n = self.axes.len();
        let mut all: Vec<Taps> = (0..n).map(|axis| self.axes[axis].taps(self.grid[at * n + n - 1 - axis])).collect();
        if all.iter().flatten().any(|tap| tap.weight.is_nan()) {
            let nothing = Tap { index: 0, weight: 0.0, slope: 0.0 };
            all.iter_mut().filter(|taps| taps.is_empty()).for_each(|taps| taps.push(nothing));
        }
        all
    }

    /// All products of taps: the element, its weight, and its derivatives by each dimension.
    fn products(&self, taps: &[Taps]) -> Vec<(usize, f64, [f64; 3])> {
        let mut all = vec![(0, 1.0, [1.0; 3])];
        for (i, (axis, taps)) in self.axes.iter().zip(taps).enumerate() {
            let longer = |&(index, weight, slopes): &(usize, f64, [f64; 3]), tap: &Tap| {
                let slope = |k: usize| slopes[k] * if k == i { tap.slope } else { tap.weight };
                (index * axis.size as usize + tap.index, weight * tap.weight, std::array::from_fn(slope))
            };
            all = all.iter().flat_map(|one| taps.iter().map(move |tap| longer(one, tap))).collect();
        }
        all
    }

    /// Calls `f(image plane, result index, grid index, products)` for each element of the result.
    fn each(&self, mut f: impl FnMut(usize, usize, usize, &[(usize, f64, [f64; 3])])) {
        let (image, out) = self.planes;
        for batch in 0..self.batch {
            for at in 0..out {
                let products = self.products(&self.taps(batch * out + at));
                for plane in (0..self.channels).map(|channel| batch * self.channels + channel) {
                    f(plane * image, plane * out + at, batch * out + at, &products);
                }
            }
        }
    }
}

fn grid_sampler(call: &Call, n: Option<usize>) -> Answer {
    let (x, grid) = (call.tensor("input")?, call.tensor("grid")?);
    let sampling = Sampling::new(call, &x, &grid, n.unwrap_or(x.rank().saturating_sub(2)))?;
    let mut result = vec![0.0; layout::numel(&sampling.shape)];
    sampling.each(|plane, to, _, products| {
        result[to] = products.iter().map(|(index, weight, _)| sampling.image[plane + index] * weight).sum();
    });
    one(like(call, &result, x.dtype(), &sampling.shape, &x))
}

/// The gradients of image and grid.
fn backward(call: &Call, n: usize) -> Answer {
    let (x, grid, grad) = (call.tensor("input")?, call.tensor("grid")?, call.tensor("grad_output")?);
    let sampling = Sampling::new(call, &x, &grid, n)?;
    check(grad.shape() == sampling.shape, || {
        format!(
            "grid_sampler_backward(): expected grad_output of shape {:?}, but got {:?}",
            sampling.shape,
            grad.shape()
        )
    })?;
    let given = grad.read::<f64>();
    let (mut of_image, mut of_grid) = (vec![0.0; sampling.image.len()], vec![0.0; sampling.grid.len()]);
    sampling.each(|plane, from, at, products| {
        for (index, weight, slopes) in products {
            of_image[plane + index] += given[from] * weight;
            for (axis, slope) in slopes[..n].iter().enumerate() {
                of_grid[at * n + n - 1 - axis] += given[from] * sampling.image[plane + index] * slope;
            }
        }
    });
    let wanted = match call.get("output_mask") {
        Some(_) => call.elements("output_mask")?,
        None => Vec::new(),
    };
    let is_wanted = |i: usize| wanted.get(i).and_then(IValue::scalar).is_none_or(|mask| mask.truth());
    let made = |i: usize, elements: &[f64], operand: &Tensor| match is_wanted(i) {
        true => IValue::from(like(call, elements, operand.dtype(), operand.shape(), operand)),
        false => IValue::Undefined,
    };
    several([made(0, &of_image, &x), made(1, &of_grid, &grid)])
}

/// Positions of `size` elements in `-1..1`: their centres, or from corner to corner. A single one
/// is in the middle.
fn positions(size: i64, corners: bool) -> Vec<f64> {
    let shrunk = if corners { 1.0 } else { (size - 1) as f64 / size as f64 };
    let step = |i: i64| (2.0 * i as f64 / (size - 1) as f64 - 1.0) * shrunk;
    if size <= 1 { vec![0.0; size.max(0) as usize] } else { (0..size).map(step).collect() }
}

/// The positions of an image under affine maps, one map per batch element.
fn affine_grid(call: &Call) -> Answer {
    let (theta, size) = (call.tensor("theta")?, call.ints("size")?);
    let n = size.len().saturating_sub(2);
    check(n == 2 || n == 3, || "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.".to_owned())?;
    let wanted = [size[0], n as i64, n as i64 + 1];
    check(theta.shape() == wanted, || {
        format!("Expected a batch of affine matrices of shape {wanted:?} for size {size:?}. Got {:?}.", theta.shape())
    })?;
    floats("affine_grid_generator", &theta)?;
    let shape: Vec<i64> = [size[0]].into_iter().chain(size[2..].iter().copied()).chain([n as i64]).collect();
    let total = layout::checked(&shape)?;
    let corners = call.bool("align_corners")?;
    let axes: Vec<Vec<f64>> = size[2..].iter().map(|&size| positions(size, corners)).collect();
    let area = layout::numel(&size[2..]);
    let mut result = Vec::with_capacity(total);
    for map in theta.read::<f64>().chunks_exact(n * (n + 1)) {
        for i in 0..area {
            let mut rest = i;
            let mut at = [1.0; 4];
            for (k, axis) in axes.iter().rev().enumerate() {
                at[k] = axis[rest % axis.len()];
                rest /= axis.len();
            }
            at[n] = 1.0;
            result.extend(map.chunks_exact(n + 1).map(|row| row.iter().zip(at).map(|(a, x)| a * x).sum::<f64>()));
        }
    }
    one(like(call, &result, theta.dtype(), &shape, &theta))
}
