//! Covariances, correlations, pairwise distances of rows, and Vandermonde matrices.

use super::elements::{by_kind, check, floats, like};
use super::pointwise::not_implemented;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::buffer::Wide;
use crate::tensor::gemm::Ring;
use crate::tensor::promotion::to_float_arithmetic;
use crate::tensor::{DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::cov", |call| {
        let found = covariance(call, "cov")?;
        one(like(call, &found.elements, found.dtype, &found.shape(), &call.tensor("self")?))
    }),
    ("aten::corrcoef", corrcoef),
    ("aten::pdist", pdist),
    ("aten::_pdist_forward", pdist),
    ("aten::vander", |call| {
        let x = call.tensor("x")?;
        check(x.rank() == 1, || "x must be a one-dimensional tensor.".to_owned())?;
        let n = call.opt_int("N")?.unwrap_or(x.size(0));
        check(n >= 0, || "N must be non-negative.".to_owned())?;
        powers(call, &x, n, call.bool("increasing")?)
    }),
    ("aten::linalg_vander", |call| {
        let x = call.tensor("x")?;
        check(x.rank() > 0, || "linalg.vander: tensor must have at least one dimension".to_owned())?;
        let n = call.opt_int("N")?;
        check(n.is_none_or(|n| n > 1), || "N must be greater than 1.".to_owned())?;
        powers(call, &x, n.unwrap_or(x.size(x.rank() - 1)), true)
    }),
];

/// A square matrix, or its only element if the input is one row.
struct Covariance {
    elements: Vec<f64>,
    rows: usize,
    is_number: bool,
    dtype: DType,
}

impl Covariance {
    fn shape(&self) -> Vec<i64> {
        if self.is_number { Vec::new() } else { vec![self.rows as i64; 2] }
    }
}

/// Checked weights of observations.
fn weights(call: &Call<'_>, name: &str, observations: usize) -> Result<Option<Vec<f64>>, Stop> {
    let Some(weights) = call.opt_tensor(name)? else { return Ok(None) };
    let (is_whole, kind) = if name == "fweights" { (true, "integral") } else { (false, "floating point") };
    check(weights.rank() <= 1, || format!("cov(): expected {name} to have one or fewer dimensions"))?;
    check(weights.dtype().is_integral() == is_whole, || {
        format!("cov(): expected {name} to have {kind} dtype but got {name} with {} dtype", weights.dtype().name())
    })?;
    let found = weights.read::<f64>();
    check(found.len() == observations, || {
        format!(
            "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {observations}",
            found.len()
        )
    })?;
    check(found.iter().all(|&weight| weight >= 0.0), || format!("cov(): {name} cannot be negative"))?;
    Ok(Some(found))
}

/// Each row is a variable; frequencies repeat observations, other weights give their importance.
fn covariance(call: &Call<'_>, name: &str) -> Result<Covariance, Stop> {
    let x = call.tensor("self")?;
    check(x.rank() <= 2, || {
        format!(
            "{name}(): expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.rank()
        )
    })?;
    check(x.dtype() != DType::Bool, || format!("{name}(): bool dtype is not supported for input"))?;
    if x.dtype().is_complex() {
        return Err(Stop::unsupported(format!("`aten::{name}` of complex numbers")));
    }
    let (rows, len) = if x.rank() < 2 { (1, x.numel()) } else { (x.size(0) as usize, x.size(1) as usize) };
    let (frequencies, shares) = (weights(call, "fweights", len)?, weights(call, "aweights", len)?);
    let each = |i: usize| {
        let factor = |all: &Option<Vec<f64>>| all.as_ref().map_or(1.0, |all| all[i]);
        factor(&frequencies) * factor(&shares)
    };
    let sum: f64 = (0..len).map(each).sum();
    check(frequencies.is_none() && shares.is_none() || len == 0 || sum != 0.0, || {
        format!("{name}(): weights sum to zero, can't be normalized")
    })?;
    let correction = call.opt_int("correction")?.unwrap_or(1) as f64;
    let lost = match &shares {
        Some(shares) if correction != 0.0 => correction * (0..len).map(|i| each(i) * shares[i]).sum::<f64>() / sum,
        _ => correction,
    };
    let mut numbers = x.read::<f64>();
    for row in numbers.chunks_mut(len.max(1)) {
        let mean = row.iter().enumerate().map(|(i, x)| x * each(i)).sum::<f64>() / sum;
        row.iter_mut().for_each(|x| *x -= mean);
    }
    let norm = (sum - lost).max(0.0);
    let pair = |a: usize, b: usize| {
        (0..len).map(|i| numbers[a * len + i] * each(i) * numbers[b * len + i]).sum::<f64>() / norm
    };
    let elements = (0..rows * rows).map(|at| pair(at / rows, at % rows)).collect();
    Ok(Covariance { elements, rows, is_number: x.rank() < 2 || rows == 1, dtype: to_float_arithmetic(x.dtype()) })
}

/// Covariances divided by the square roots of variances, clamped to -1 and 1.
fn corrcoef(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    let mut found = covariance(call, "corrcoef")?;
    let rows = found.rows;
    let roots: Vec<f64> = (0..rows).map(|i| found.elements[i * rows + i].sqrt()).collect();
    for (at, element) in found.elements.iter_mut().enumerate() {
        *element = match found.is_number {
            // A constant variable has no correlation, not even with itself.
            true if *element == 0.0 || !element.is_finite() => f64::NAN,
            true => 1.0,
            false => (*element / roots[at / rows] / roots[at % rows]).clamp(-1.0, 1.0),
        };
    }
    one(like(call, &found.elements, found.dtype, &found.shape(), &x))
}

/// Distances of each row from the rows after it.
fn pdist(call: &Call) -> Answer {
    let (x, p) = (call.tensor("self")?, call.opt_float("p")?.unwrap_or(2.0));
    check(x.rank() == 2, || format!("pdist only supports 2D tensors, got: {}D", x.rank()))?;
    check(x.dtype().is_float(), || "pdist only supports floating-point dtypes".to_owned())?;
    check(p >= 0.0, || "pdist only supports non-negative p values".to_owned())?;
    floats("pdist", &x)?;
    let (rows, len, all) = (x.size(0) as usize, x.size(1) as usize, x.read::<f64>());
    if rows > 1 && len > 0 && matches!(x.dtype(), DType::Half | DType::BFloat16) {
        return Err(not_implemented("pdist", x.dtype()));
    }
    let mut found = Vec::new();
    for a in 0..rows {
        for b in a + 1..rows {
            found.push(length((0..len).map(|i| all[a * len + i] - all[b * len + i]), p));
        }
    }
    one(like(call, &found, x.dtype(), &[found.len() as i64], &x))
}

/// The norm of differences. It is NaN if an element is.
fn length(differences: impl Iterator<Item = f64>, p: f64) -> f64 {
    let far = differences.map(f64::abs);
    match p {
        0.0 => far.map(|x| if x == 0.0 { 0.0 } else { 1.0 }).sum(),
        1.0 => far.sum(),
        2.0 => far.map(|x| x * x).sum::<f64>().sqrt(),
        f64::INFINITY => far.fold(0.0, |most: f64, x| if x > most || x.is_nan() { x } else { most }),
        _ => far.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

/// Powers of each number, from exponent 0 up or down.
fn powers(call: &Call<'_>, x: &Tensor, n: i64, increasing: bool) -> Answer {
    let dtype = if x.dtype().is_integral() { DType::Long } else { x.dtype() };
    let mut shape = x.shape().to_vec();
    shape.push(n);
    crate::tensor::layout::checked(&shape)?;
    one(by_kind!(dtype, W => {
        let mut all: Vec<W> = Vec::new();
        for x in x.read::<W>() {
            let first = all.len();
            let mut power = W::load(1i64);
            for _ in 0..n {
                all.push(power);
                power = power.times(x);
            }
            if !increasing {
                all[first..].reverse();
            }
        }
        like(call, &all, dtype, &shape, x)
    }))
}
