//! Scans: cumulative sums, products and extrema.

use super::elements::{by_kind, like, placed};
use super::picking::Number;
use super::pointwise::not_implemented;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::Rows;
use crate::tensor::buffer::Wide;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{Dims, wrap};
use crate::tensor::promotion::to_float_arithmetic;
use crate::tensor::{DType, Tensor};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::cummax", cummax),
    ("aten::cummin", cummin),
    ("aten::cumprod", cumprod),
    ("aten::cumsum", cumsum),
    ("aten::diff", diff),
    ("aten::logcumsumexp", logcumsumexp),
];

/// A tensor from elements that have one of its dimensions innermost.
pub(super) fn with_dim_at<W: Wide>(
    call: &Call<'_>,
    x: &Tensor,
    dim: usize,
    (elements, len): (&[W], usize),
    dtype: DType,
) -> Tensor {
    if x.rank() == 0 {
        return like(call, elements, dtype, &[], x);
    }
    let mut shape: Dims = (0..x.rank()).filter(|&i| i != dim).map(|i| x.size(i)).collect();
    shape.push(len as i64);
    placed(call.made(elements, dtype, &shape).with_last_at(dim).contiguous(), x)
}

/// Applies `f` to each row of a dimension, in place.
fn scanned<W: Wide>(call: &Call<'_>, x: &Tensor, dim: usize, dtype: DType, f: impl Fn(&mut [W])) -> Tensor {
    let mut rows = Rows::<W>::along(x, &[dim]);
    rows.iter_mut().for_each(f);
    with_dim_at(call, x, dim, (&rows.elements, rows.len), dtype)
}

fn running(call: &Call<'_>) -> Result<(Tensor, usize), Stop> {
    let x = call.tensor("self")?;
    let usual = if x.dtype().is_integral() { DType::Long } else { x.dtype() };
    let dtype = call.opt_dtype("dtype")?.unwrap_or(usual);
    if dtype == DType::Bool {
        return Err(not_implemented(&format!("{}_out_cpu", call.kind().short()), dtype));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    Ok((if dtype == x.dtype() { x } else { x.converted(dtype, call.precision()) }, dim))
}

fn cumsum(call: &Call<'_>) -> Answer {
    let (x, dim) = running(call)?;
    // Starting at 0, to which -0.0 adds nothing.
    by_kind!(x.dtype(), W => one(scanned(call, &x, dim, x.dtype(), |row: &mut [W]| {
        row.iter_mut().fold(W::load(0i64), |total, x| {
            *x = total.plus(*x);
            *x
        });
    })))
}

fn cumprod(call: &Call<'_>) -> Answer {
    let (x, dim) = running(call)?;
    by_kind!(x.dtype(), W => one(scanned(call, &x, dim, x.dtype(), |row: &mut [W]| {
        for i in 1..row.len() {
            row[i] = row[i - 1].times(row[i]);
        }
    })))
}

fn logcumsumexp(call: &Call<'_>) -> Answer {
    let x = call.tensor("self")?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    if x.dtype().is_complex() {
        return Err(Stop::unsupported("`aten::logcumsumexp` of complex numbers"));
    }
    one(scanned(call, &x, dim, to_float_arithmetic(x.dtype()), |row: &mut [f64]| {
        for i in 1..row.len() {
            let (a, b) = (row[i - 1], row[i]);
            let (low, high) = (a.min(b), a.max(b));
            row[i] = match () {
                () if a.is_nan() || b.is_nan() => f64::NAN,
                () if low == high && low.is_infinite() => low,
                () => high + (low - high).exp().ln_1p(),
            };
        }
    }))
}

/// The running extremum and its index: the last among equals, the last NaN once there is one.
fn best_so_far<W: Number>(row: &[W], largest: bool) -> (Vec<W>, Vec<i64>) {
    let mut at = 0;
    let places: Vec<usize> = (0..row.len())
        .map(|i| {
            let (x, best) = (row[i], row[at]);
            let worse = if largest { x.is_below(best) } else { best.is_below(x) };
            if x.is_nan() || (!best.is_nan() && !worse) {
                at = i;
            }
            at
        })
        .collect();
    (places.iter().map(|&at| row[at]).collect(), places.iter().map(|&at| at as i64).collect())
}

fn cumulative_best(call: &Call<'_>, largest: bool) -> Answer {
    let x = call.tensor("self")?;
    let dim = wrap(call.int("dim")?, x.rank())?;
    by_kind!(x.dtype(), W => {
        let rows = Rows::<W>::along(&x, &[dim]);
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for row in rows.iter() {
            let (best, places) = best_so_far(row, largest);
            values.extend(best);
            indices.extend(places);
        }
        several([
            with_dim_at(call, &x, dim, (&values, rows.len), x.dtype()),
            with_dim_at(call, &x, dim, (&indices, rows.len), DType::Long),
        ])
    })
}

fn cummax(call: &Call<'_>) -> Answer {
    cumulative_best(call, true)
}

fn cummin(call: &Call<'_>) -> Answer {
    cumulative_best(call, false)
}

fn diff(call: &Call<'_>) -> Answer {
    let (x, n) = (call.tensor("self")?, call.int("n")?);
    if x.rank() == 0 {
        return Err(Stop::raised("diff expects input to be at least one-dimensional"));
    }
    if n < 0 {
        return Err(Stop::raised(format!("order must be non-negative but got {n}")));
    }
    let dim = wrap(call.int("dim")?, x.rank())?;
    if n == 0 {
        // Elements joined at both ends are not differenced.
        return one(x.copied_with_strides()?);
    }
    let mut parts = vec![x];
    if let Some(before) = call.opt_tensor("prepend")? {
        parts.insert(0, before);
    }
    parts.extend(call.opt_tensor("append")?);
    let x = super::joining::joined(call, &parts, dim as i64)?;
    let times = n.min(x.size(dim)) as usize;
    by_kind!(x.dtype(), W => {
        let rows = Rows::<W>::along(&x, &[dim]);
        let is_bool = x.dtype() == DType::Bool;
        let step = |a: W, b: W| if is_bool { W::load(a != b) } else { b.plus(a.times(W::load(-1i64))) };
        let mut differences = Vec::new();
        for row in rows.iter() {
            let mut row = row.to_vec();
            for _ in 0..times {
                row = row.windows(2).map(|pair| step(pair[0], pair[1])).collect();
            }
            differences.extend(row);
        }
        one(with_dim_at(call, &x, dim, (&differences, rows.len - times), x.dtype()))
    })
}
