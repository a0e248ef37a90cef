//! Resampling of images.
//!
//! Every element of a result is a weighted sum of elements of the image, and the weights are
//! products of one factor per dimension. A dimension is therefore a table of elements and weights
//! for every position, and the dimensions are resampled one after another.

use super::elements::{check, like};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::{Scalar, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::upsample_nearest1d", |call| upsample(call, 1, Mode::Nearest)),
    ("aten::upsample_nearest2d", |call| upsample(call, 2, Mode::Nearest)),
    ("aten::upsample_nearest3d", |call| upsample(call, 3, Mode::Nearest)),
    ("aten::_upsample_nearest_exact1d", |call| upsample(call, 1, Mode::NearestExact)),
    ("aten::_upsample_nearest_exact2d", |call| upsample(call, 2, Mode::NearestExact)),
    ("aten::_upsample_nearest_exact3d", |call| upsample(call, 3, Mode::NearestExact)),
    ("aten::upsample_linear1d", |call| upsample(call, 1, Mode::Linear)),
    ("aten::upsample_bilinear2d", |call| upsample(call, 2, Mode::Linear)),
    ("aten::upsample_trilinear3d", |call| upsample(call, 3, Mode::Linear)),
    ("aten::upsample_bicubic2d", |call| upsample(call, 2, Mode::Cubic)),
    ("aten::_upsample_bilinear2d_aa", |call| upsample(call, 2, Mode::Smooth(Filter::Triangle))),
    ("aten::_upsample_bicubic2d_aa", |call| upsample(call, 2, Mode::Smooth(Filter::Cubic))),
    ("aten::_upsample_lanczos2d_aa", |call| upsample(call, 2, Mode::Smooth(Filter::Lanczos))),
    ("aten::_upsample_nearest_exact1d_backward", |call| backward(call, 1, Mode::NearestExact)),
    ("aten::_upsample_nearest_exact2d_backward", |call| backward(call, 2, Mode::NearestExact)),
    ("aten::_upsample_nearest_exact3d_backward", |call| backward(call, 3, Mode::NearestExact)),
    ("aten::upsample_nearest1d_backward", |call| backward(call, 1, Mode::Nearest)),
    ("aten::upsample_nearest2d_backward", |call| backward(call, 2, Mode::Nearest)),
    ("aten::upsample_nearest3d_backward", |call| backward(call, 3, Mode::Nearest)),
    ("aten::upsample_linear1d_backward", |call| backward(call, 1, Mode::Linear)),
    ("aten::upsample_bilinear2d_backward", |call| backward(call, 2, Mode::Linear)),
    ("aten::upsample_trilinear3d_backward", |call| backward(call, 3, Mode::Linear)),
    ("aten::upsample_bicubic2d_backward", |call| backward(call, 2, Mode::Cubic)),
    ("aten::__interpolate", |call| interpolate(call, None)),
    ("aten::__upsample", |call| interpolate(call, None)),
    ("aten::__upsample_nearest", |call| interpolate(call, Some("nearest"))),
    ("aten::__upsample_bilinear", |call| interpolate(call, Some("bilinear"))),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    /// Averages over all elements that map to one element of the result.
    Smooth(Filter),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Filter {
    Triangle,
    Cubic,
    Lanczos,
}

impl Filter {
    /// The radius of the filter.
    fn radius(self) -> f64 {
        match self {
            Filter::Triangle => 1.0,
            Filter::Cubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let x = x.abs();
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
        match self {
            Filter::Triangle => (1.0 - x).max(0.0),
            Filter::Cubic => cubic(x, -0.5),
            Filter::Lanczos if x < 3.0 => sinc(x) * sinc(x / 3.0),
            Filter::Lanczos => 0.0,
        }
    }
}

/// The cubic convolution kernel (Keys 1981) at a distance.
fn cubic(x: f64, a: f64) -> f64 {
    match x {
        _ if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        _ if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
        _ => 0.0,
    }
}

/// For every position of the result: elements and their weights.
type Table = Vec<Vec<(usize, f64)>>;

/// One dimension.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: i64,
    output: i64,
    /// The scale factor of the result, if the program gives it.
    scale: Option<f64>,
    /// Whether the outermost elements keep their positions.
    corners: bool,
}

impl Axis {
    /// The number of input elements per element of the result.
    fn ratio(&self) -> f64 {
        match self.scale.filter(|&scale| scale > 0.0) {
            _ if self.corners && self.output > 1 => (self.input - 1) as f64 / (self.output - 1) as f64,
            _ if self.corners => 0.0,
            Some(scale) => 1.0 / scale,
            None => self.input as f64 / self.output as f64,
        }
    }

    fn table(&self, mode: Mode) -> Table {
        (0..self.output).map(|i| self.taps(mode, i)).collect()
    }

    fn taps(&self, mode: Mode, i: i64) -> Vec<(usize, f64)> {
        let inside = |at: f64| at.clamp(0.0, (self.input - 1) as f64) as usize;
        let ratio = self.ratio();
        match mode {
            Mode::Nearest if self.output == self.input => vec![(i as usize, 1.0)],
            Mode::Nearest if self.output == 2 * self.input => vec![(i as usize / 2, 1.0)],
            // In single precision, as in PyTorch: the last bit determines which element is
            // selected.
            Mode::Nearest => vec![(inside(f64::from((i as f32 * self.single_ratio()).floor())), 1.0)],
            Mode::NearestExact => vec![(inside(f64::from(((i as f32 + 0.5) * self.single_ratio()).floor())), 1.0)],
            Mode::Linear => {
                let at = if self.corners { ratio * i as f64 } else { (ratio * (i as f64 + 0.5) - 0.5).max(0.0) };
                let low = at.floor().min((self.input - 1) as f64);
                let part = at - low;
                vec![(inside(low), 1.0 - part), (inside(low + 1.0), part)]
            }
            Mode::Cubic => {
                let at = if self.corners { ratio * i as f64 } else { ratio * (i as f64 + 0.5) - 0.5 };
                let low = at.floor();
                let tap = |k: i32| (inside(low + f64::from(k)), cubic((at - low - f64::from(k)).abs(), -0.75));
                (-1..3).map(tap).collect()
            }
            Mode::Smooth(filter) => self.smooth(filter, i),
        }
    }

    fn single_ratio(&self) -> f32 {
        match self.scale.filter(|&scale| scale > 0.0) {
            Some(scale) => (1.0 / scale) as f32,
            None => self.input as f32 / self.output as f32,
        }
    }

    fn smooth(&self, filter: Filter, i: i64) -> Vec<(usize, f64)> {
        let ratio = self.ratio();
        let support = ratio.max(1.0);
        let (center, reach) = (ratio * (i as f64 + 0.5), filter.radius() * support);
        let first = (center - reach + 0.5).max(0.0) as i64;
        let end = ((center + reach + 0.5) as i64).min(self.input);
        let weight = |j: i64| filter.weight((j as f64 - center + 0.5) / support);
        let total: f64 = (first..end).map(weight).sum();
        (first..end).map(|j| (j as usize, if total == 0.0 { weight(j) } else { weight(j) / total })).collect()
    }
}

/// Resamples a dimension of a contiguous image; `outer` and `inner` are the numbers of elements
/// before and after it.
fn resample(image: &[f64], outer: usize, size: usize, inner: usize, table: &Table) -> Vec<f64> {
    let mut result = vec![0.0; outer * table.len() * inner];
    for o in 0..outer {
        let from = &image[o * size * inner..(o + 1) * size * inner];
        for (i, taps) in table.iter().enumerate() {
            let row = &mut result[(o * table.len() + i) * inner..][..inner];
            match taps[..] {
                [(at, 1.0)] => row.copy_from_slice(&from[at * inner..(at + 1) * inner]),
                _ => taps.iter().for_each(|&(at, weight)| {
                    row.iter_mut().zip(&from[at * inner..]).for_each(|(sum, x)| *sum += weight * x);
                }),
            }
        }
    }
    result
}

/// The table of the gradient.
fn transposed(table: &Table, size: usize) -> Table {
    let mut back = vec![Vec::new(); size];
    for (i, taps) in table.iter().enumerate() {
        taps.iter().for_each(|&(at, weight)| back[at].push((i, weight)));
    }
    back
}

/// Resamples the last dimensions.
fn resampled(call: &Call, x: &Tensor, tables: &[Table]) -> Result<Tensor, Stop> {
    let n = tables.len();
    let mut shape = x.shape().to_vec();
    let first = shape.len() - n;
    let mut image = x.read::<f64>();
    for (i, table) in tables.iter().enumerate().rev() {
        let dim = first + i;
        let (outer, inner) = (layout::numel(&shape[..dim]), layout::numel(&shape[dim + 1..]));
        let size = shape[dim] as usize;
        shape[dim] = table.len() as i64;
        layout::checked(&shape)?;
        image = resample(&image, outer, size, inner, table);
    }
    Ok(like(call, &image, x.dtype(), &shape, x))
}

fn floats(call: &Call, name: &str) -> Result<Option<Vec<f64>>, Stop> {
    match call.get(name) {
        Some(value) if value.scalar().is_some() => Ok(value.scalar().map(|scalar| vec![scalar.real()])),
        _ => call.opt_floats(name),
    }
}

/// The axes of a resampling from image sizes and either sizes of the result or factors.
fn axes(sizes: &[i64], wanted: Option<Vec<i64>>, scales: Option<Vec<f64>>, corners: bool) -> Result<Vec<Axis>, Stop> {
    let n = sizes.len();
    let each = |i: usize| -> Result<Axis, Stop> {
        let scale = scales.as_ref().and_then(|scales| scales.get(if scales.len() == 1 { 0 } else { i }).copied());
        let given = wanted.as_ref().and_then(|wanted| wanted.get(if wanted.len() == 1 { 0 } else { i }).copied());
        let Some(output) = given.or(scale.map(|scale| (sizes[i] as f64 * scale).floor() as i64)) else {
            return Err(Stop::raised("either size or scale_factor should be defined"));
        };
        check((1..1 << 24).contains(&sizes[i]) && (1..1 << 24).contains(&output), || {
            format!(
                "Input and output sizes should be greater than 0, but got input (size: {sizes:?}) output (size: {output})"
            )
        })?;
        Ok(Axis { input: sizes[i], output, scale, corners })
    };
    (0..n).map(each).collect()
}

/// The scale factors of a call, in a list or one by one.
fn scales(call: &Call, n: usize) -> Result<Option<Vec<f64>>, Stop> {
    if let Some(list) = floats(call, "scale_factors")? {
        return Ok(Some(list));
    }
    let names: &[&str] = if n == 1 { &["scales"] } else { &["scales_d", "scales_h", "scales_w"][3 - n..] };
    let mut all = Vec::new();
    for name in names {
        all.push(call.opt_float(name)?.unwrap_or(0.0));
    }
    Ok(all.iter().any(|&scale| scale > 0.0).then_some(all))
}

fn check_rank(x: &Tensor, n: usize) -> Result<(), Stop> {
    check(x.rank() == n + 2, || format!("It is expected input_size equals to {}, but got size {}", n + 2, x.rank()))
}

/// The overload with a list of factors, since 1.7, takes either that or a size.
fn check_one_of_both(call: &Call, n: usize) -> Result<(), Stop> {
    let size = call.opt_ints("output_size")?.map(|size| size.len());
    if call.get("scale_factors").is_none() {
        return check_output_size(call, n);
    }
    let factors = floats(call, "scale_factors")?.map(|factors| factors.len());
    check(size.is_some() != factors.is_some(), || {
        "Must specify exactly one of output_size and scale_factors".to_owned()
    })?;
    let name = if size.is_some() { "output_size" } else { "scale_factors" };
    check(size.or(factors) == Some(n), || {
        format!(
            "Expected static_cast<int64_t>({name}->size()) == spatial_dimensions to be true, but got false.  \
             (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    })
}

fn check_output_size(call: &Call, n: usize) -> Result<(), Stop> {
    let given = call.opt_ints("output_size")?;
    check(given.as_ref().is_none_or(|given| given.len() == n), || {
        format!("It is expected output_size equals to {n}, but got size {}", given.map_or(0, |given| given.len()))
    })
}

fn upsample(call: &Call, n: usize, mode: Mode) -> Answer {
    let x = call.tensor("self").or_else(|_| call.tensor("input"))?;
    check_one_of_both(call, n)?;
    check_rank(&x, n)?;
    let axes = axes(&x.shape()[2..], call.opt_ints("output_size")?, scales(call, n)?, call.bool("align_corners")?)?;
    let tables: Vec<Table> = axes.iter().map(|axis| axis.table(mode)).collect();
    one(resampled(call, &x, &tables)?)
}

fn backward(call: &Call, n: usize, mode: Mode) -> Answer {
    let grad = call.tensor("grad_output")?;
    check_rank(&grad, n)?;
    let sizes = call.ints("input_size")?;
    check(sizes.len() == n + 2, || {
        format!("It is expected input_size equals to {}, but got size {}", n + 2, sizes.len())
    })?;
    layout::checked(&sizes)?;
    check_output_size(call, n)?;
    let wanted = [&sizes[..2], &call.ints("output_size")?].concat();
    check(grad.shape() == wanted, || {
        format!("Expected grad_output to have the sizes {wanted:?} of the output, but got {:?}", grad.shape())
    })?;
    let axes = axes(&sizes[2..], Some(grad.shape()[2..].to_vec()), scales(call, n)?, call.bool("align_corners")?)?;
    let tables: Vec<Table> = axes.iter().map(|axis| transposed(&axis.table(mode), axis.input as usize)).collect();
    one(resampled(call, &grad, &tables)?)
}

/// `torch.nn.functional.interpolate` as one operator. Up to 1.4 factors only determine the size of
/// the result.
fn interpolate(call: &Call, mode: Option<&str>) -> Answer {
    let x = call.tensor("input")?;
    let n = x.rank().saturating_sub(2);
    check((1..=3).contains(&n), || {
        format!("Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D)", x.rank())
    })?;
    let mode = match mode {
        Some(mode) => mode.to_owned(),
        None => call.str("mode")?,
    };
    let old = call.release() < Release(1, 5) || call.opt_scalar("recompute_scale_factor")?.is_some_and(Scalar::truth);
    let bilinear = call.kind().as_str().ends_with("upsample_bilinear");
    let corners = bilinear || call.opt_scalar("align_corners")?.is_some_and(Scalar::truth);
    let wanted = match call.get("size") {
        Some(IValue::None) | None => None,
        _ => Some(call.ints("size")?),
    };
    let mut axes = axes(&x.shape()[2..], wanted, floats(call, "scale_factor")?, corners)?;
    if old {
        axes.iter_mut().for_each(|axis| axis.scale = None);
    }
    let mode = match (mode.as_str(), n) {
        ("nearest", _) => Mode::Nearest,
        ("nearest-exact", _) => Mode::NearestExact,
        ("linear", 1) | ("bilinear", 2) | ("trilinear", 3) => Mode::Linear,
        ("bicubic", 2) => Mode::Cubic,
        ("area", _) => {
            let sizes: Vec<i64> = axes.iter().map(|axis| axis.output).collect();
            return super::pooling::area(call, &x, &sizes);
        }
        (mode, _) => return Err(Stop::raised(format!("Got {}D input, but {mode} mode requires another", n + 2))),
    };
    one(resampled(call, &x, &axes.iter().map(|axis| axis.table(mode)).collect::<Vec<_>>())?)
}
