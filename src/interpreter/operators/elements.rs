//! Helpers of several kernel families: results on the device of an operand, sums over dimensions,
//! checks of element types.

use crate::interpreter::call::Call;
use crate::interpreter::stop::Stop;
use crate::tensor::blocks::{self, Rows, Types};
use crate::tensor::buffer::Wide;
use crate::tensor::gemm::Ring;
use crate::tensor::{DType, Dims, Tensor, layout};
use std::iter::Sum;
use std::ops::Sub;

/// Runs a block with the wide type for an element type.
macro_rules! by_kind {
    ($dtype:expr, $wide:ident => $body:expr) => {
        match $dtype.arithmetic() {
            Some($crate::tensor::Kind::Float) => {
                type $wide = f64;
                $body
            }
            Some($crate::tensor::Kind::Complex) => {
                type $wide = $crate::tensor::C128;
                $body
            }
            _ => {
                type $wide = i64;
                $body
            }
        }
    };
}
pub(super) use by_kind;

/// A tensor with elements in logical order, on the device of an operand.
pub(super) fn like<W: Wide>(call: &Call, elements: &[W], dtype: DType, shape: &[i64], operand: &Tensor) -> Tensor {
    placed(call.made(elements, dtype, shape), operand)
}

/// The same tensor on the device of an operand.
pub(super) fn placed(tensor: Tensor, operand: &Tensor) -> Tensor {
    if operand.device() == tensor.device() { tensor } else { tensor.on(operand.device()) }
}

/// The types of an elementwise computation that keeps the element type.
pub(super) fn same(call: &Call, dtype: DType) -> Types {
    Types::same(dtype, call.precision())
}

/// Refuses tensors that are not floating point, with PyTorch's message for a missing kernel.
pub(super) fn floats(what: &str, tensor: &Tensor) -> Result<(), Stop> {
    if tensor.dtype().is_float() {
        return Ok(());
    }
    Err(Stop::raised(format!("\"{what}\" not implemented for '{}'", tensor.dtype().name())))
}

/// Raises unless a condition holds.
pub(super) fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::raised(message())) }
}

/// The sum over some dimensions, with the same element type.
pub(super) fn sum_over(call: &Call, tensor: &Tensor, dims: &[usize], keepdim: bool) -> Tensor {
    by_kind!(tensor.dtype(), W => {
        let rows = Rows::<W>::along(tensor, dims);
        let sums: Vec<W> = rows.iter().map(|row| row.iter().fold(W::default(), |sum, &x| sum.plus(x))).collect();
        like(call, &sums, tensor.dtype(), &reduced(tensor, dims, keepdim), tensor)
    })
}

/// The shape after some dimensions are reduced.
pub(super) fn reduced(tensor: &Tensor, dims: &[usize], keepdim: bool) -> Dims {
    let left = |i: usize| match dims.contains(&i) {
        true => keepdim.then_some(1),
        false => Some(tensor.size(i)),
    };
    (0..tensor.rank()).filter_map(left).collect()
}

/// The sum over the dimensions in which a shape is broadcast to the shape of a tensor.
pub(super) fn sum_to(call: &Call, tensor: &Tensor, shape: &[i64]) -> Result<Tensor, Stop> {
    check(shape.len() <= tensor.rank() && layout::broadcast(shape, tensor.shape())?[..] == *tensor.shape(), || {
        format!("size {shape:?} is not expandable to size {:?}", tensor.shape())
    })?;
    let extra = tensor.rank() - shape.len();
    let broadcast = |i: &usize| *i < extra || (shape[*i - extra] == 1 && tensor.size(*i) != 1);
    let dims: Vec<usize> = (0..tensor.rank()).filter(broadcast).collect();
    if dims.is_empty() {
        return Ok(tensor.clone());
    }
    Ok(sum_over(call, tensor, &dims, false).reshape(shape))
}

/// `a + b`, broadcast to a common shape, of one element type.
pub(super) fn add(call: &Call, a: &Tensor, b: &Tensor) -> Result<Tensor, Stop> {
    combine(call, a, b, 1.0)
}

/// `a - b`, broadcast to a common shape, of one element type.
pub(super) fn subtract(call: &Call, a: &Tensor, b: &Tensor) -> Result<Tensor, Stop> {
    combine(call, a, b, -1.0)
}

fn combine(call: &Call, a: &Tensor, b: &Tensor, sign: f64) -> Result<Tensor, Stop> {
    let dtype = crate::tensor::promotion::result_type(a, b);
    Ok(by_kind!(dtype, W => {
        let sign = W::load(sign);
        blocks::map2(a, b, same(call, dtype), move |x: W, y: W| x.plus_product(sign, y))?
    }))
}

/// `a b`, element by element, broadcast to a common shape, of one element type.
pub(super) fn multiply(call: &Call, a: &Tensor, b: &Tensor) -> Result<Tensor, Stop> {
    let dtype = crate::tensor::promotion::result_type(a, b);
    Ok(by_kind!(dtype, W => blocks::map2(a, b, same(call, dtype), |x: W, y: W| x.times(y))?))
}

/// An elementwise function of a floating point tensor.
pub(super) fn apply(call: &Call, x: &Tensor, f: impl Fn(f64) -> f64) -> Result<Tensor, Stop> {
    Ok(blocks::map1(x, same(call, x.dtype()), f)?)
}

/// The sum of the squared sizes of deviations from a mean, and their sum, from which follows how
/// far the mean is off: it is rounded. The squares are those around the mean that is not, so that
/// equal elements have no variance, as in PyTorch, whose reductions of some dimensions update the
/// mean with each element.
pub(super) fn deviations<T: Copy + Sub<Output = T> + Sum>(row: &[T], mean: T, square: fn(T) -> f64) -> (f64, T) {
    let squares: f64 = row.iter().map(|&x| square(x - mean)).sum();
    let sum: T = row.iter().map(|&x| x - mean).sum();
    let off = square(sum) / row.len() as f64;
    (if off.is_finite() { (squares - off).max(0.0) } else { squares }, sum)
}
