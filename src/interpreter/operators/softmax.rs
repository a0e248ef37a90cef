//! Softmax and variants.

use super::elements::{floats, like};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::Rows;
use crate::tensor::{DType, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::softmax", |call| over_dim(call, softmax)),
    ("aten::_softmax", |call| over_dim(call, softmax)),
    ("aten::special_softmax", |call| over_dim(call, softmax)),
    ("aten::_safe_softmax", |call| over_dim(call, safe_softmax)),
    ("aten::log_softmax", |call| over_dim(call, log_softmax)),
    ("aten::_log_softmax", |call| over_dim(call, log_softmax)),
    ("aten::special_log_softmax", |call| over_dim(call, log_softmax)),
];

fn over_dim(call: &Call, f: fn(&mut [f64])) -> Answer {
    let x = call.tensor("self")?;
    let widened = (call.bool("half_to_float")? && x.dtype() == DType::Half).then_some(DType::Float);
    let x = match call.opt_dtype("dtype")?.or(widened) {
        Some(dtype) if dtype != x.dtype() => x.converted(dtype, call.precision()),
        _ => x,
    };
    let dim = layout::wrap(call.int("dim")?, x.rank())?;
    if x.numel() == 0 {
        return one(x.copied());
    }
    let (log, last) = (call.kind().short().contains("log"), dim + 1 >= x.rank());
    floats(&format!("{}softmax_{}kernel_impl", if log { "log_" } else { "" }, if last { "lastdim_" } else { "" }), &x)?;
    one(rowwise(call, &x, dim, f))
}

/// Changes each row of a dimension.
pub(super) fn rowwise(call: &Call, x: &Tensor, dim: usize, f: impl Fn(&mut [f64])) -> Tensor {
    let mut rows = Rows::<f64>::along(x, &[dim]);
    rows.iter_mut().for_each(f);
    from_rows(call, &rows, dim, x.dtype(), x)
}

/// A tensor of the same shape from changed rows of a dimension.
pub(super) fn from_rows(call: &Call, rows: &Rows<f64>, dim: usize, dtype: DType, operand: &Tensor) -> Tensor {
    if operand.rank() == 0 {
        return like(call, &rows.elements, dtype, &[], operand);
    }
    let mut shape = rows.outer.clone();
    shape.push(rows.len as i64);
    like(call, &rows.elements, dtype, &shape, operand).with_last_at(dim).contiguous()
}

/// The largest element; NaN is left to the following sum.
fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Exponentials, scaled to sum to 1.
pub(super) fn softmax(row: &mut [f64]) {
    let top = largest(row);
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = (*x - top).exp();
        sum += *x;
    }
    for x in row {
        *x /= sum;
    }
}

/// The same, with zeros for rows whose elements are all minus infinity.
pub(super) fn safe_softmax(row: &mut [f64]) {
    match row.iter().all(|&x| x == f64::NEG_INFINITY) {
        true => row.fill(0.0),
        false => softmax(row),
    }
}

/// The logarithm of the softmax.
pub(super) fn log_softmax(row: &mut [f64]) {
    let top = largest(row);
    let sum = row.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    for x in row {
        *x = *x - top - sum;
    }
}

/// The logarithm of the softmax over a dimension.
pub(super) fn log_softmax_over(call: &Call, x: &Tensor, dim: usize) -> Result<Tensor, Stop> {
    floats("log_softmax_lastdim_kernel_impl", x)?;
    Ok(rowwise(call, x, dim, log_softmax))
}
