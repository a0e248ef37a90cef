//! Norms of vectors, and those of matrices that are sums.

use super::elements::{check, like, reduced};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::Rows;
use crate::tensor::{C128, DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::norm", |call| vector_norm(call, "p", "dim")),
    ("aten::native_norm", |call| vector_norm(call, "p", "dim")),
    ("aten::frobenius_norm", |call| vector_norm(call, "p", "dim")),
    ("aten::linalg_vector_norm", |call| vector_norm(call, "ord", "dim")),
    ("aten::linalg__powsum", powsum),
    ("aten::linalg_norm", linalg_norm),
    ("aten::linalg_matrix_norm", matrix_norm),
    ("aten::norm_except_dim", norm_except_dim),
    ("aten::renorm", renorm),
    ("aten::_weight_norm", weight_norm),
];

fn dims(call: &Call, name: &str, rank: usize) -> Result<Vec<usize>, Stop> {
    let given = call.opt_ints(name)?.unwrap_or_default();
    match given.is_empty() {
        true => Ok((0..rank).collect()),
        false => Ok(layout::wrap_all(&given, rank)?.into_iter().filter(|&i| i < rank).collect()),
    }
}

fn dtype_of(call: &Call, x: &Tensor) -> Result<DType, Stop> {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(x.dtype());
    check(!dtype.is_integral(), || {
        format!("linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}", dtype.name())
    })?;
    Ok(dtype)
}

fn vector_norm(call: &Call, p: &str, dim: &str) -> Answer {
    let x = call.tensor("self")?;
    let dtype = dtype_of(call, &x)?;
    let dims = dims(call, dim, x.rank())?;
    let p = call.opt_float(p)?.unwrap_or(2.0);
    one(norm_over(call, &x, p, &dims, call.bool("keepdim")?, dtype)?)
}

/// The p-norm over some dimensions, of real type also for complex elements.
pub(super) fn norm_over(
    call: &Call,
    x: &Tensor,
    p: f64,
    dims: &[usize],
    keepdim: bool,
    dtype: DType,
) -> Result<Tensor, Stop> {
    let shape = reduced(x, dims, keepdim);
    let rows = magnitudes(x, dims);
    check(rows.len > 0 || p >= 0.0 && p.is_finite() || rows.count == 0, || {
        format!(
            "linalg.vector_norm cannot compute the {p} norm on an empty tensor because the operation does not have an identity"
        )
    })?;
    let norms: Vec<f64> = rows.iter().map(|row| norm(row, p)).collect();
    Ok(like(call, &norms, dtype.to_real(), &shape, x))
}

/// `aten::linalg__powsum`: the sums of powers of absolute values, of real type also for complex
/// elements. Integers are refused.
fn powsum(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(x.dtype());
    if dtype.is_integral() {
        return Err(Stop::raised(format!("\"powsum_cpu\" not implemented for '{}'", dtype.name())));
    }
    let (dims, p) = (dims(call, "dim", x.rank())?, call.opt_float("ord")?.unwrap_or(2.0));
    let shape = reduced(&x, &dims, call.bool("keepdim")?);
    let rows = magnitudes(&x, &dims);
    let sums: Vec<f64> = rows.iter().map(|row| row.iter().map(|x| x.powf(p)).sum()).collect();
    one(like(call, &sums, dtype.to_real(), &shape, &x))
}

/// The absolute values of the elements, with some dimensions innermost.
fn magnitudes(x: &Tensor, dims: &[usize]) -> Rows<f64> {
    if x.dtype().is_complex() {
        let Rows { elements, len, outer, count } = Rows::<C128>::along(x, dims);
        return Rows { elements: elements.into_iter().map(|z| z.norm()).collect(), len, outer, count };
    }
    let mut rows = Rows::<f64>::along(x, dims);
    for x in &mut rows.elements {
        *x = x.abs();
    }
    rows
}

/// The p-norm of non-negative numbers. NaN propagates through the extrema too.
fn norm(row: &[f64], p: f64) -> f64 {
    let extremum = |start: f64, wins: fn(f64, f64) -> bool| {
        row.iter().fold(start, |best, &x| if wins(x, best) || x.is_nan() { x } else { best })
    };
    match p {
        _ if p == f64::INFINITY => extremum(0.0, |x, best| x > best),
        _ if p == f64::NEG_INFINITY => extremum(f64::INFINITY, |x, best| x < best),
        0.0 => row.iter().filter(|&&x| x != 0.0).count() as f64,
        1.0 => row.iter().sum(),
        2.0 => row.iter().map(|x| x * x).sum::<f64>().sqrt(),
        _ => row.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

/// `linalg.norm` is a matrix norm only if an order and two dimensions are given.
fn linalg_norm(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    let given = call.opt_ints("dim")?;
    let named = call.opt_str("ord")?.is_some();
    let ordered = named || call.opt_scalar("ord")?.is_some();
    check(given.is_some() || !ordered || x.rank() == 1 || x.rank() == 2, || {
        format!("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.", x.rank())
    })?;
    match given.as_ref().map_or(x.rank(), Vec::len) == 2 && ordered {
        true => matrix_norm(call),
        false => {
            let dims = dims(call, "dim", x.rank())?;
            let p = if named { 2.0 } else { call.opt_float("ord")?.unwrap_or(2.0) };
            one(norm_over(call, &x, p, &dims, call.bool("keepdim")?, dtype_of(call, &x)?)?)
        }
    }
}

/// The Frobenius norm, and the largest or smallest sum of a row or a column. Norms that require
/// singular values are not implemented.
fn matrix_norm(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    check(x.rank() >= 2, || "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.".to_owned())?;
    let keepdim = call.bool("keepdim")?;
    let dims = layout::wrap_all(&call.opt_ints("dim")?.unwrap_or(vec![-2, -1]), x.rank())?;
    check(dims.len() == 2, || "linalg.matrix_norm: dim must be a 2-tuple".to_owned())?;
    let dtype = dtype_of(call, &x)?;
    if let Some(name) = call.opt_str("ord")? {
        if name != "fro" {
            return Err(Stop::unsupported(format!("the norm `{name}`, which requires singular values")));
        }
        return one(norm_over(call, &x, 2.0, &dims, keepdim, dtype)?);
    }
    let ord = call.float("ord")?;
    if ord.abs() != 1.0 && ord.is_finite() {
        return Err(Stop::unsupported(format!("the norm {ord} of matrices, which requires singular values")));
    }
    let (summed, compared) = if ord.abs() == 1.0 { (dims[0], dims[1]) } else { (dims[1], dims[0]) };
    let sums = norm_over(call, &x, 1.0, &[summed], true, dtype)?;
    let extremum = if ord > 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    let result = norm_over(call, &sums, extremum, &[compared], true, sums.dtype())?;
    one(if keepdim { result } else { result.reshape(&reduced(&x, &dims, false)) })
}

fn all_but(x: &Tensor, dim: i64) -> Result<Vec<usize>, Stop> {
    let dim = if dim == -1 { None } else { Some(layout::wrap(dim, x.rank())?) };
    Ok((0..x.rank()).filter(|&i| Some(i) != dim).collect())
}

fn norm_except_dim(call: &Call) -> Answer {
    let x = call.tensor("v")?;
    let dim = call.int("dim")?;
    one(norm_over(call, &x, call.float("pow")?, &all_but(&x, dim)?, dim != -1, x.dtype())?)
}

/// Shortens slices whose norm exceeds the maximum.
fn renorm(call: &Call) -> Answer {
    let x = call.tensor("self")?;
    check(x.rank() > 1, || format!("renorm: input needs at least 2 dimensions, got {} dimensions", x.rank()))?;
    let dim = layout::wrap(call.int("dim")?, x.rank())?;
    let (p, most) = (call.float("p")?, call.float("maxnorm")?);
    let dims: Vec<usize> = (0..x.rank()).filter(|&i| i != dim).collect();
    let norms = norm_over(call, &x, p, &dims, true, x.dtype())?;
    let factors = super::elements::apply(call, &norms, |norm| if norm > most { most / (norm + 1e-7) } else { 1.0 })?;
    one(super::elements::multiply(call, &x, &factors)?)
}

/// `v g / |v|`
fn weight_norm(call: &Call) -> Answer {
    let (v, g) = (call.tensor("v")?, call.tensor("g")?);
    let norms = norm_over(call, &v, 2.0, &all_but(&v, call.int("dim")?)?, true, v.dtype())?;
    let types = super::elements::same(call, v.dtype());
    one(crate::tensor::blocks::map3([&v, &g, &norms], types, |v: f64, g: f64, norm: f64| v * (g / norm))?)
}
