//! Reductions.

use super::elements::{by_kind, deviations, like, reduced as reduced_shape, sum_to};
use super::picking::Number;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::environment::Release;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{Rows, Types, map2};
use crate::tensor::buffer::Wide;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{self, Dims, broadcast, wrap, wrap_all};
use crate::tensor::promotion::{Promotion, result_type, to_float_arithmetic};
use crate::tensor::{C128, DType, Kind, Precision, Scalar, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::_aminmax", aminmax),
    ("aten::all", all),
    ("aten::allclose", allclose),
    ("aten::amax", amax),
    ("aten::amin", amin),
    ("aten::aminmax", aminmax),
    ("aten::any", any),
    ("aten::argmax", argmax),
    ("aten::argmin", argmin),
    ("aten::bincount", bincount),
    ("aten::count_nonzero", count_nonzero),
    ("aten::cumulative_trapezoid", cumulative_trapezoid),
    ("aten::dist", dist),
    ("aten::equal", equal),
    ("aten::histc", histc),
    ("aten::isclose", isclose),
    ("aten::logsumexp", logsumexp),
    ("aten::max", max),
    ("aten::max_values", amax),
    ("aten::mean", mean),
    ("aten::min", min),
    ("aten::min_values", amin),
    ("aten::nanmean", nanmean),
    ("aten::nansum", nansum),
    ("aten::prod", prod),
    ("aten::special_logsumexp", logsumexp),
    ("aten::std", std),
    ("aten::std_mean", std_mean),
    ("aten::sum", sum),
    ("aten::sum_to_size", sum_to_size),
    ("aten::trapezoid", trapezoid),
    ("aten::trapz", trapezoid),
    ("aten::var", var),
    ("aten::var_mean", var_mean),
    ("aten::linalg_vecdot", linalg_vecdot),
    ("aten::segment_reduce", segment_reduce),
];

// ---- dimensions and shapes

/// The reduced dimensions of a call: all of them if it names none.
pub(super) fn reduced_dims(call: &Call<'_>, x: &Tensor) -> Result<Vec<usize>, Stop> {
    match call.opt_ints("dim")? {
        Some(dims) if !dims.is_empty() => Ok(wrap_all(&dims, x.rank())?),
        _ => Ok((0..x.rank()).collect()),
    }
}

/// Reduces each row to one number.
fn reduced<W: Wide, V: Wide>(
    call: &Call<'_>,
    x: &Tensor,
    (dims, keep): (&[usize], bool),
    dtype: DType,
    f: impl FnMut(&[W]) -> V,
) -> Tensor {
    let rows = Rows::<W>::along(x, dims);
    let results: Vec<V> = rows.iter().map(f).collect();
    like(call, &results, dtype, &reduced_shape(x, dims, keep), x)
}

/// The operand of a reduction, its dimensions, and whether they are kept.
struct Reduction {
    x: Tensor,
    dims: Vec<usize>,
    keep: bool,
}

impl Reduction {
    fn of(call: &Call<'_>) -> Result<Reduction, Stop> {
        let x = call.tensor("self")?;
        let dims = reduced_dims(call, &x)?;
        let keep = call.bool("keepdim")?;
        Ok(Reduction { x, dims, keep })
    }

    /// The operand in the type of the sum: the requested one, else 64 bits for integers.
    fn widened(mut self, call: &Call<'_>) -> Result<Reduction, Stop> {
        let usual = if self.x.dtype().is_integral() { DType::Long } else { self.x.dtype() };
        let dtype = call.opt_dtype("dtype")?.unwrap_or(usual);
        if dtype != self.x.dtype() {
            self.x = self.x.converted(dtype, call.precision());
        }
        Ok(self)
    }

    fn run<W: Wide, V: Wide>(&self, call: &Call<'_>, dtype: DType, f: impl FnMut(&[W]) -> V) -> Tensor {
        reduced(call, &self.x, (&self.dims, self.keep), dtype, f)
    }
}

// ---- sums and products

fn total<W: Number>(row: &[W]) -> W {
    row.iter().fold(W::default(), |sum, &x| sum.plus(x))
}

/// The sum over the dimensions that a call names.
fn sum(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?.widened(call)?;
    let dtype = r.x.dtype();
    by_kind!(dtype, W => one(r.run(call, dtype, total::<W>)))
}

fn nansum(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?.widened(call)?;
    if !r.x.dtype().is_float() {
        return sum(call);
    }
    let numbers = |row: &[f64]| row.iter().filter(|x| !x.is_nan()).sum::<f64>() + 0.0;
    one(r.run(call, r.x.dtype(), numbers))
}

fn prod(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?.widened(call)?;
    let dtype = r.x.dtype();
    by_kind!(dtype, W => {
        let one_of = W::load(1i64);
        // With 16-bit floats each product is rounded, as in eager mode: an intermediate overflow
        // stays infinite.
        let is_rounded = dtype.is_short_float() && call.precision() == Precision::Typed;
        let step = |product: W| if is_rounded { product.through(dtype) } else { product };
        one(r.run(call, dtype, |row: &[W]| row.iter().fold(one_of, |product, &x| step(product.times(x)))))
    })
}

/// The element type of a mean; integers have none.
fn mean_dtype(call: &Call<'_>, x: &Tensor) -> Result<DType, Stop> {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(x.dtype());
    if !dtype.is_integral() {
        return Ok(dtype);
    }
    Err(Stop::raised(match call.release() >= Release(1, 8) {
        true => format!(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
            dtype.name()
        ),
        false => format!("Can only calculate the mean of floating types. Got {} instead.", dtype.name()),
    }))
}

fn mean(call: &Call<'_>) -> Answer {
    mean_dtype(call, &call.tensor("self")?)?;
    let r = Reduction::of(call)?.widened(call)?;
    let dtype = r.x.dtype();
    by_kind!(dtype, W => {
        one(r.run(call, dtype, |row: &[W]| total(row).over(W::load(row.len() as i64))))
    })
}

fn nanmean(call: &Call<'_>) -> Answer {
    mean_dtype(call, &call.tensor("self")?)?;
    let r = Reduction::of(call)?.widened(call)?;
    one(r.run(call, r.x.dtype(), |row: &[f64]| {
        let numbers: Vec<f64> = row.iter().copied().filter(|x| !x.is_nan()).collect();
        total(&numbers) / numbers.len() as f64
    }))
}

fn sum_to_size(call: &Call<'_>) -> Answer {
    let (x, size) = (call.tensor("self")?, call.ints("size")?);
    // Sums of integers are Long, as for `sum`.
    let widened = x.dtype().is_integral() && x.shape() != size;
    let x = if widened { x.converted(DType::Long, call.precision()) } else { x };
    one(sum_to(call, &x, &size)?)
}

// ---- maxima and minima

/// The index of the largest or smallest element of a row. NaN is more extreme than all numbers;
/// among equals 1.3 takes the last.
fn extreme<W: Number>(row: &[W], largest: bool, last: bool) -> usize {
    let mut best = 0;
    for (i, &x) in row.iter().enumerate() {
        if row[best].is_nan() {
            break;
        }
        let beats = if largest { row[best].is_below(x) } else { x.is_below(row[best]) };
        let ties = last && i > 0 && !x.is_nan() && !row[best].is_below(x) && !x.is_below(row[best]);
        if x.is_nan() || beats || ties {
            best = i;
        }
    }
    best
}

fn short(call: &Call<'_>) -> &'static str {
    call.kind().as_str().trim_start_matches("aten::")
}

fn refuse_empty(call: &Call<'_>, x: &Tensor, dims: &[usize], named: bool) -> Result<(), Stop> {
    if x.dtype().is_complex() {
        return Err(Stop::raised(format!("\"{}\" not implemented for '{}'", short(call), x.dtype().name())));
    }
    let Some(dim) = dims.iter().find(|&&dim| x.size(dim) == 0) else { return Ok(()) };
    if named {
        return Err(Stop::raised_as(
            "IndexError",
            format!("{}(): Expected reduction dim {dim} to have non-zero size.", short(call)),
        ));
    }
    Err(Stop::raised(format!(
        "{0}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
        short(call)
    )))
}

fn extremes(call: &Call<'_>, largest: bool) -> Answer {
    let r = Reduction::of(call)?;
    refuse_empty(call, &r.x, &r.dims, call.opt_ints("dim")?.is_some_and(|dims| !dims.is_empty()))?;
    one(extreme_values(call, &r, largest))
}

fn extreme_values(call: &Call<'_>, r: &Reduction, largest: bool) -> Tensor {
    by_kind!(r.x.dtype(), W => r.run(call, r.x.dtype(), |row: &[W]| row[extreme(row, largest, false)]))
}

fn amax(call: &Call<'_>) -> Answer {
    extremes(call, true)
}

fn amin(call: &Call<'_>) -> Answer {
    extremes(call, false)
}

fn aminmax(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?;
    refuse_empty(call, &r.x, &r.dims, call.opt_int("dim")?.is_some())?;
    several([extreme_values(call, &r, false), extreme_values(call, &r, true)])
}

fn max(call: &Call<'_>) -> Answer {
    max_or_min(call, true)
}

fn min(call: &Call<'_>) -> Answer {
    max_or_min(call, false)
}

/// Three operators in one: of two tensors, of all elements, and over a dimension with indices.
fn max_or_min(call: &Call<'_>, largest: bool) -> Answer {
    if call.look("other").is_some() {
        return one(larger_of_two(call, largest)?);
    }
    if call.opt_int("dim")?.is_none() {
        return extremes(call, largest);
    }
    let r = Reduction::of(call)?;
    refuse_empty(call, &r.x, &r.dims, true)?;
    let indices = extreme_places(call, &r, largest);
    several([extreme_values(call, &r, largest), indices])
}

fn extreme_places(call: &Call<'_>, r: &Reduction, largest: bool) -> Tensor {
    let first_since = if short(call).starts_with("arg") { Release(1, 7) } else { Release(1, 6) };
    let last = call.release() < first_since;
    by_kind!(r.x.dtype(), W => r.run(call, DType::Long, |row: &[W]| extreme(row, largest, last) as i64))
}

/// Elementwise; NaN propagates, but before 1.5 only that of the second operand.
fn larger_of_two(call: &Call<'_>, largest: bool) -> Result<Tensor, Stop> {
    let (x, y) = (call.tensor("self")?, call.tensor("other")?);
    let dtype = result_type(&x, &y);
    let nan_through = call.release() >= Release(1, 5);
    if dtype.is_complex() {
        return Err(Stop::raised(format!("{} not implemented for complex tensors.", short(call))));
    }
    let types = Types::same(dtype, call.precision());
    if !dtype.is_float() {
        return Ok(map2(&x, &y, types, |a: i64, b: i64| if largest { a.max(b) } else { a.min(b) })?);
    }
    Ok(map2(&x, &y, types, |a: f64, b: f64| match () {
        () if nan_through && a.is_nan() => a,
        () if largest && a > b || !largest && a < b => a,
        () => b,
    })?)
}

fn argmax(call: &Call<'_>) -> Answer {
    arg(call, true)
}

fn argmin(call: &Call<'_>) -> Answer {
    arg(call, false)
}

/// Since 1.5 bools have no index of a maximum; complex numbers have no order.
fn refuse_placeless(call: &Call<'_>, dtype: DType) -> Result<(), Stop> {
    match dtype {
        DType::Bool if call.release() < Release(1, 5) => Ok(()),
        DType::Bool => Err(Stop::raised(format!("{}(): does not support bool input", short(call)))),
        _ if dtype.is_complex() => Err(Stop::raised(format!("{}(): does not support complex input", short(call)))),
        _ => Ok(()),
    }
}

fn arg(call: &Call<'_>, largest: bool) -> Answer {
    let r = Reduction::of(call)?;
    refuse_placeless(call, r.x.dtype())?;
    refuse_empty(call, &r.x, &r.dims, call.opt_int("dim")?.is_some())?;
    one(extreme_places(call, &r, largest))
}

// ---- bools

fn bools(call: &Call<'_>, f: fn(&mut dyn Iterator<Item = bool>) -> bool) -> Answer {
    let is_list = call.schema.is_some_and(|schema| schema.overload == "dims");
    if is_list && call.opt_ints("dim")?.is_some_and(|dims| dims.is_empty()) {
        return each_bool(call, &call.tensor("self")?);
    }
    let r = Reduction::of(call)?;
    let dtype = match r.x.dtype() {
        DType::Byte => DType::Byte,
        _ => DType::Bool,
    };
    by_kind!(r.x.dtype(), W => {
        one(r.run(call, dtype, |row: &[W]| i64::from(f(&mut row.iter().map(|&x| x != W::default())))))
    })
}

/// An empty list of dimensions reduces nothing: each element becomes a bool, and a byte becomes a
/// byte.
fn each_bool(call: &Call<'_>, x: &Tensor) -> Answer {
    let dtype = if x.dtype() == DType::Byte { DType::Byte } else { DType::Bool };
    by_kind!(x.dtype(), W => {
        let all: Vec<i64> = x.read::<W>().into_iter().map(|x| i64::from(x != W::default())).collect();
        one(like(call, &all, dtype, x.shape(), x))
    })
}

/// Whether all elements are true.
fn all(call: &Call<'_>) -> Answer {
    bools(call, |mut row| Iterator::all(&mut row, |x| x))
}

/// Whether any element is true.
fn any(call: &Call<'_>) -> Answer {
    bools(call, |mut row| Iterator::any(&mut row, |x| x))
}

fn count_nonzero(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?;
    by_kind!(r.x.dtype(), W => {
        one(r.run(call, DType::Long, |row: &[W]| row.iter().filter(|&&x| x != W::default()).count() as i64))
    })
}

// ---- variance

/// The number subtracted from the count of elements before the division.
fn correction(call: &Call<'_>) -> Result<f64, Stop> {
    match call.opt_scalar("correction")? {
        Some(correction) => Ok(correction.real()),
        None if call.schema.is_some_and(|schema| schema.formal("unbiased").is_some()) => {
            Ok(if call.bool("unbiased")? { 1.0 } else { 0.0 })
        }
        None => Ok(1.0),
    }
}

fn mean_of(row: &[C128]) -> C128 {
    total(row) / row.len() as f64
}

fn variance(row: &[C128], correction: f64) -> f64 {
    let (squares, _) = deviations(row, mean_of(row), |x| x.norm_sqr());
    squares / (row.len() as f64 - correction).max(0.0)
}

/// The mean and the variance, or its square root.
fn spread(call: &Call<'_>, finish: fn(f64) -> f64) -> Result<[Tensor; 2], Stop> {
    let r = Reduction::of(call)?;
    let dtype = r.x.dtype();
    if dtype.is_integral() {
        return Err(Stop::raised(format!(
            "{} only support floating point and complex dtypes",
            if short(call).ends_with("mean") { short(call).replace('_', " and ") } else { "std and var".to_owned() }
        )));
    }
    let correction = correction(call)?;
    let spread = r.run(call, dtype.to_real(), |row: &[C128]| finish(variance(row, correction)));
    Ok([spread, r.run(call, dtype, mean_of)])
}

fn var(call: &Call<'_>) -> Answer {
    let [var, _] = spread(call, |x| x)?;
    one(var)
}

fn std(call: &Call<'_>) -> Answer {
    let [std, _] = spread(call, f64::sqrt)?;
    one(std)
}

fn var_mean(call: &Call<'_>) -> Answer {
    with_updated_mean(call, |x| x)
}

fn std_mean(call: &Call<'_>) -> Answer {
    with_updated_mean(call, f64::sqrt)
}

/// PyTorch updates the mean element by element (Welford's method): the step after an infinity is
/// infinity minus infinity. PyTorch's mean is infinite if the only infinity is the last element,
/// which depends on the order of elements; here it is NaN in each row with an infinity.
fn with_updated_mean(call: &Call<'_>, finish: fn(f64) -> f64) -> Answer {
    let [spread, _] = spread(call, finish)?;
    let r = Reduction::of(call)?;
    let mean = r.run(call, r.x.dtype(), |row: &[C128]| {
        let is_infinite = row.iter().any(|x| x.re.is_infinite() || x.im.is_infinite());
        if is_infinite { C128::new(f64::NAN, 0.0) } else { mean_of(row) }
    });
    several([spread, mean])
}

fn logsumexp(call: &Call<'_>) -> Answer {
    let r = Reduction::of(call)?;
    if r.x.dtype().is_complex() {
        return Err(Stop::unsupported("`aten::logsumexp` of complex numbers"));
    }
    one(r.run(call, to_float_arithmetic(r.x.dtype()), log_sum))
}

fn log_sum(row: &[f64]) -> f64 {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let shift = if most.is_finite() { most } else { 0.0 };
    row.iter().map(|x| (x - shift).exp()).sum::<f64>().ln() + shift
}

// ---- comparing tensors

fn equal(call: &Call<'_>) -> Answer {
    let (x, y) = (call.tensor("self")?, call.tensor("other")?);
    if x.shape() != y.shape() {
        return one(false);
    }
    by_kind!(result_type(&x, &y), W => one(x.read::<W>() == y.read::<W>()))
}

fn closeness(call: &Call<'_>) -> Result<Tensor, Stop> {
    let (x, y) = (call.tensor("self")?, call.tensor("other")?);
    if x.dtype() != y.dtype() {
        return Err(Stop::raised(format!("{} did not match {}", x.dtype().name(), y.dtype().name())));
    }
    let (rtol, atol, nan) = (call.float("rtol")?, call.float("atol")?, call.bool("equal_nan")?);
    let types = Types { common: x.dtype(), out: DType::Bool, precision: call.precision() };
    let close = move |a: C128, b: C128| {
        let near = (a - b).norm() <= atol + rtol * b.norm() && b.is_finite() && a.is_finite();
        C128::new(f64::from(u8::from(a == b || near || (nan && a.is_nan() && b.is_nan()))), 0.0)
    };
    Ok(map2(&x, &y, types, close)?)
}

fn isclose(call: &Call<'_>) -> Answer {
    one(closeness(call)?)
}

fn allclose(call: &Call<'_>) -> Answer {
    one(closeness(call)?.read::<i64>().iter().all(|&close| close != 0))
}

fn dist(call: &Call<'_>) -> Answer {
    let (x, y, p) = (call.tensor("self")?, call.tensor("other")?, call.float("p")?);
    let dtype = result_type(&x, &y);
    if dtype.is_integral() {
        return Err(Stop::raised(format!(
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
            dtype.name()
        )));
    }
    let difference = map2(&x, &y, Types::same(dtype, call.precision()), |a: C128, b: C128| a - b)?;
    let parts: Vec<f64> = difference.read::<C128>().iter().map(|z| z.norm()).collect();
    one(like(call, &[norm_of(&parts, p)], dtype.to_real(), &[], &x))
}

fn norm_of(parts: &[f64], p: f64) -> f64 {
    let nan = parts.iter().any(|x| x.is_nan());
    match p {
        _ if nan => f64::NAN,
        0.0 => parts.iter().filter(|&&x| x != 0.0).count() as f64,
        f64::INFINITY => parts.iter().copied().fold(0.0, f64::max),
        f64::NEG_INFINITY => parts.iter().copied().fold(f64::INFINITY, f64::min),
        _ => parts.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

// ---- counts and areas

fn bincount(call: &Call<'_>) -> Answer {
    let (x, weights, least) = (call.tensor("self")?, call.opt_tensor("weights")?, call.int("minlength")?);
    let places = x.read::<i64>();
    if x.rank() != 1 || !x.dtype().is_integral() || places.iter().any(|&n| n < 0) {
        return Err(Stop::raised("bincount only supports 1-d non-negative integral inputs."));
    }
    if least < 0 {
        return Err(Stop::raised("minlength should be >= 0"));
    }
    let bins = places.iter().fold(0, |most, &n| n.saturating_add(1).max(most)).max(least);
    layout::checked(&[bins])?;
    let Some(weights) = weights else {
        let mut counts = vec![0i64; bins as usize];
        places.iter().for_each(|&n| counts[n as usize] += 1);
        return one(like(call, &counts, DType::Long, &[bins], &x));
    };
    if weights.shape() != x.shape() {
        return Err(Stop::raised("weights should be 1-d and have the same length as input"));
    }
    let dtype = if weights.dtype() == DType::Float { DType::Float } else { DType::Double };
    let mut sums = vec![0f64; bins as usize];
    places.iter().zip(weights.read::<f64>()).for_each(|(&n, weight)| sums[n as usize] += weight);
    one(like(call, &sums, dtype, &[bins], &x))
}

fn histc(call: &Call<'_>) -> Answer {
    let (x, bins) = (call.tensor("self")?, call.int("bins")?);
    let (mut low, mut high) = (call.float("min")?, call.float("max")?);
    if bins <= 0 {
        return Err(Stop::raised("torch.histc(): bins must be > 0"));
    }
    layout::checked(&[bins])?;
    let elements = x.read::<f64>();
    if low == high && !elements.is_empty() {
        low = elements.iter().copied().fold(f64::INFINITY, f64::min);
        high = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(Stop::raised(format!("torch.histc(): range of [{low}, {high}] is not finite")));
    }
    if low > high {
        return Err(Stop::raised("torch.histc(): max must be larger than min"));
    }
    let mut counts = vec![0f64; bins as usize];
    for x in elements.into_iter().filter(|x| (low..=high).contains(x)) {
        let bin = ((x - low) / (high - low) * bins as f64) as i64;
        counts[bin.clamp(0, bins - 1) as usize] += 1.0;
    }
    one(like(call, &counts, x.dtype(), &[bins], &x))
}

/// Areas between adjacent points of each row, concatenated.
struct Strips {
    areas: Vec<f64>,
    /// The number of areas in a row.
    each: usize,
    outer: Dims,
    dim: usize,
    dtype: DType,
}

impl Strips {
    fn of(call: &Call<'_>) -> Result<Strips, Stop> {
        let (y, x) = (call.tensor("y")?, call.opt_tensor("x")?);
        if y.rank() == 0 {
            return Err(Stop::raised("slice() cannot be applied to a 0-dim tensor."));
        }
        let operands = if x.is_some() { "`x` or `y`" } else { "`y`" };
        let name = call.kind().as_str().trim_start_matches("aten::");
        if y.dtype() == DType::Bool || x.as_ref().is_some_and(|x| x.dtype() == DType::Bool) {
            return Err(Stop::raised(format!(
                "{name}: received a bool input for {operands}, but bool is not supported"
            )));
        }
        let dim = wrap(call.int("dim")?, y.rank())?;
        let dtype = match &x {
            Some(x) => to_float_arithmetic(result_type(&y, x)),
            None => to_float_arithmetic(Promotion::default().tensor(&y).scalar(Scalar::Float(1.0)).result()),
        };
        if dtype.arithmetic() == Some(Kind::Complex) {
            return Err(Stop::unsupported(format!("`{}` of complex numbers", call.kind())));
        }
        let places = Strips::places(call, name, x, &y, dim)?;
        // If either operand has one strip, it applies to all; operands given before strips are made
        // may not be broadcast in this dimension.
        let strips = |x: &Tensor| {
            let mut shape = x.shape().to_vec();
            shape[dim] = (shape[dim] - 1).max(0);
            shape
        };
        broadcast(&strips(&y), &strips(&places))?;
        let heights = Strips::of_pairs(call, &y.with_last(dim), |near, far| near + far);
        let widths = Strips::of_pairs(call, &places.with_last(dim), |near, far| far - near);
        let target = broadcast(heights.shape(), widths.shape())?;
        let (outer, each) = (target[..target.len() - 1].into(), target[target.len() - 1] as usize);
        let (heights, widths) = (heights.broadcast_to(&target)?.read::<f64>(), widths.broadcast_to(&target)?.read());
        let areas = heights.iter().zip::<Vec<f64>>(widths).map(|(height, width)| width * height / 2.0).collect();
        Ok(Strips { areas, each, outer, dim, dtype })
    }

    /// The positions of the heights, with the same number of dimensions.
    fn places(call: &Call<'_>, name: &str, x: Option<Tensor>, y: &Tensor, dim: usize) -> Result<Tensor, Stop> {
        let n = y.size(dim);
        let mut shape = vec![1; y.rank()];
        shape[dim] = n;
        let Some(x) = x else {
            let dx = call.float("dx")?;
            let even: Vec<f64> = (0..n).map(|i| i as f64 * dx).collect();
            return Ok(call.made(&even, DType::Double, &shape));
        };
        if x.rank() > y.rank() {
            return Err(Stop::unsupported(format!("`{}` with more dimensions of `x` than of `y`", call.kind())));
        }
        if x.rank() != 1 {
            let ahead = y.rank() - x.rank();
            shape[..ahead].fill(1);
            shape[ahead..].copy_from_slice(x.shape());
        } else if x.size(0) != n {
            return Err(Stop::raised(format!("{name}: There must be one `x` value for each sample point")));
        }
        Ok(x.reshape(&shape))
    }

    /// One number for each pair of adjacent elements of the last dimension.
    fn of_pairs(call: &Call<'_>, x: &Tensor, of: impl Fn(f64, f64) -> f64) -> Tensor {
        let mut shape = x.shape().to_vec();
        let last = shape.len() - 1;
        let len = shape[last] as usize;
        shape[last] = len.saturating_sub(1) as i64;
        let elements = x.read::<f64>();
        let pairs = elements.chunks(len.max(1)).flat_map(|row| row.windows(2));
        call.made(&pairs.map(|pair| of(pair[0], pair[1])).collect::<Vec<f64>>(), DType::Double, &shape)
    }
}

fn trapezoid(call: &Call<'_>) -> Answer {
    let y = call.tensor("y")?;
    let along = wrap(call.int("dim")?, y.rank())?;
    if y.rank() > 0 && y.size(along) == 0 {
        // Without elements it is 0, in the type of `y`, regardless of the positions.
        let shape: Vec<i64> = (0..y.rank()).filter(|&i| i != along).map(|i| y.size(i)).collect();
        return one(like(call, &vec![0.0; layout::checked(&shape)?], y.dtype(), &shape, &y));
    }
    let strips = Strips::of(call)?;
    let rows = strips.outer.iter().product::<i64>() as usize;
    let sum = |i: usize| strips.areas[i * strips.each..(i + 1) * strips.each].iter().sum::<f64>();
    let areas: Vec<f64> = (0..rows).map(sum).collect();
    one(like(call, &areas, strips.dtype, &strips.outer, &y))
}

fn cumulative_trapezoid(call: &Call<'_>) -> Answer {
    let mut strips = Strips::of(call)?;
    for row in strips.areas.chunks_mut(strips.each.max(1)) {
        let mut total = 0.0;
        for area in row {
            total += *area;
            *area = total;
        }
    }
    let mut shape = strips.outer.clone();
    shape.push(strips.each as i64);
    let last = shape.len() - 1;
    let found = like(call, &strips.areas, strips.dtype, &shape, &call.tensor("y")?);
    let mut order: Vec<usize> = (0..last).collect();
    order.insert(strips.dim, last);
    one(found.permute(&order).contiguous())
}

/// `aten::linalg_vecdot`: the sum over one dimension of the product of the operands, of which the
/// first is conjugated. Both are floating point or complex, and of one type.
fn linalg_vecdot(call: &Call<'_>) -> Answer {
    let (x, y) = (call.tensor("x")?, call.tensor("y")?);
    let names = (x.dtype().python_name(), y.dtype().python_name());
    if !x.dtype().is_float() && !x.dtype().is_complex() {
        let message = "linalg.vecdot: Expected a floating point or complex tensor as input. Got";
        return Err(Stop::raised(format!("{message} {}", names.0)));
    }
    if x.dtype() != y.dtype() {
        let (x, y) = names;
        let message = "linalg.vecdot: Expected x and y to have the same dtype, but found x of type";
        return Err(Stop::raised(format!("{message} {x} and y of type {y} instead")));
    }
    if x.rank() == 1 && y.rank() == 1 && x.size(0) != y.size(0) {
        let (of_x, of_y, n, m) = (x.shape(), y.shape(), x.numel(), y.numel());
        return Err(Stop::raised(format!(
            "inconsistent tensor size, expected tensor {of_x:?} and src {of_y:?} to have the same number of elements, but got {n} and {m} elements respectively"
        )));
    }
    let shape = broadcast(x.shape(), y.shape())?;
    let dims: Vec<usize> = if shape.is_empty() { Vec::new() } else { vec![wrap(call.int("dim")?, shape.len())?] };
    let rows = |tensor: &Tensor| -> Result<_, Stop> { Ok(Rows::<C128>::along(&tensor.broadcast_to(&shape)?, &dims)) };
    let (of_x, of_y) = (rows(&x)?, rows(&y)?);
    let dot = |(u, v): (&[C128], &[C128])| u.iter().zip(v).map(|(u, v)| u.conj() * v).sum::<C128>();
    let sums: Vec<C128> = of_x.iter().zip(of_y.iter()).map(dot).collect();
    let kept = reduced_shape(&x.broadcast_to(&shape)?, &dims, false);
    one(Tensor::of(&sums, x.dtype(), &kept, call.precision()))
}

/// `aten::segment_reduce`: each row is divided into segments, of which each becomes one number.
fn segment_reduce(call: &Call<'_>) -> Answer {
    let (x, reduction) = (call.tensor("data")?, SegmentReduction::named(&call.str("reduce")?)?);
    if call.opt_tensor("indices")?.is_some() {
        return Err(Stop::raised("segment_reduce(): indices based reduction is not supported yet."));
    }
    let axis = wrap(call.int("axis")?, x.rank())?;
    let segments = Segments::of(call, &x, axis)?;
    if !x.dtype().is_float() {
        return Err(Stop::raised(format!("\"_segment_reduce_cpu\" not implemented for '{}'", x.dtype().name())));
    }
    let initial = call.opt_scalar("initial")?.map(Scalar::real);
    let mut shape: Dims = x.shape().into();
    shape[axis] = segments.count as i64;
    let rows = Rows::<f64>::along(&x, &[axis]);
    let inner: usize = layout::numel(&x.shape()[axis + 1..]);
    let mut results = vec![0.0; layout::numel(&shape)];
    for (row, elements) in rows.iter().enumerate() {
        let (outer, column) = (row / inner, row % inner);
        for segment in 0..segments.count {
            let place = (outer * segments.count + segment) * inner + column;
            results[place] = reduction.of(&elements[segments.range(outer, segment)], initial);
        }
    }
    one(like(call, &results, x.dtype(), &shape, &x))
}

/// The start and the end of the segments of each row.
struct Segments {
    count: usize,
    /// For each position before the axis one more number than there are segments.
    bounds: Vec<usize>,
}

impl Segments {
    fn of(call: &Call<'_>, x: &Tensor, axis: usize) -> Result<Segments, Stop> {
        let (lengths, offsets) = (call.opt_tensor("lengths")?, call.opt_tensor("offsets")?);
        let are_lengths = lengths.is_some();
        let Some(given) = lengths.or(offsets) else {
            return Err(Stop::raised("segment_reduce(): Either lengths or offsets must be defined."));
        };
        if given.rank() != axis + 1 {
            let what = if are_lengths { "lengths" } else { "offsets" };
            return Err(Stop::raised(format!(
                "segment_reduce(): Expected axis to be the last dimension of {what} but got {axis}."
            )));
        }
        if !matches!(given.dtype(), DType::Long | DType::Int) || given.shape()[..axis] != x.shape()[..axis] {
            return Err(Stop::raised("segment_reduce(): lengths and offsets are integers, one list for each row"));
        }
        let width = given.size(axis) as usize;
        let lists = Rows::<i64>::along(&given, &[axis]);
        let mut bounds = Vec::new();
        for list in lists.iter() {
            let ends = if are_lengths { ends_of(list, x.size(axis), call.bool("unsafe")?)? } else { list.to_vec() };
            check_bounds(&ends, x.size(axis))?;
            bounds.extend(ends.into_iter().map(|end| end as usize));
        }
        let count = if are_lengths { width } else { width.saturating_sub(1) };
        Ok(Segments { count, bounds })
    }

    fn range(&self, outer: usize, segment: usize) -> std::ops::Range<usize> {
        let at = outer * (self.count + 1) + segment;
        self.bounds[at]..self.bounds[at + 1]
    }
}

/// The bounds of segments of these lengths.
fn ends_of(lengths: &[i64], size: i64, is_unsafe: bool) -> Result<Vec<i64>, Stop> {
    if lengths.iter().any(|&length| length < 0) {
        return Err(Stop::raised("lengths contains negative value!"));
    }
    let mut ends = vec![0i64];
    for length in lengths {
        ends.push(ends[ends.len() - 1].saturating_add(*length));
    }
    if !is_unsafe && ends[ends.len() - 1] != size {
        return Err(Stop::raised(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
        ));
    }
    Ok(ends)
}

/// Eager mode reads beyond the end of a row that is too short.
fn check_bounds(bounds: &[i64], size: i64) -> Result<(), Stop> {
    let is_inside = bounds.is_sorted() && bounds.iter().all(|bound| (0..=size).contains(bound));
    if is_inside { Ok(()) } else { Err(Stop::raised("segment_reduce(): a segment is not inside of its row")) }
}

/// The reduction of a segment to one number.
#[derive(Clone, Copy, PartialEq)]
enum SegmentReduction {
    Sum,
    Mean,
    Product,
    Largest,
    Smallest,
}

impl SegmentReduction {
    fn named(name: &str) -> Result<SegmentReduction, Stop> {
        Ok(match name {
            "sum" => SegmentReduction::Sum,
            "mean" => SegmentReduction::Mean,
            "prod" => SegmentReduction::Product,
            "max" | "amax" => SegmentReduction::Largest,
            "min" | "amin" => SegmentReduction::Smallest,
            other => {
                return Err(Stop::raised(format!(
                    "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
                )));
            }
        })
    }

    /// The result for a segment. A mean counts the elements, not the initial value.
    fn of(self, segment: &[f64], initial: Option<f64>) -> f64 {
        let all = segment.iter().copied();
        let or = |other: f64| initial.unwrap_or(other);
        let worst = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a };
        match self {
            SegmentReduction::Sum => all.fold(or(0.0), |sum, x| sum + x),
            SegmentReduction::Mean if segment.is_empty() => or(f64::NAN),
            SegmentReduction::Mean => all.fold(or(0.0), |sum, x| sum + x) / segment.len() as f64,
            SegmentReduction::Product => all.fold(or(1.0), |product, x| product * x),
            SegmentReduction::Largest => {
                all.fold(or(f64::NEG_INFINITY), |most, x| worst(if most < x { x } else { most }, x))
            }
            SegmentReduction::Smallest => {
                all.fold(or(f64::INFINITY), |least, x| worst(if x < least { x } else { least }, x))
            }
        }
    }
}
