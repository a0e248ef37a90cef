//! What kernels require of the contents of their operands.

use crate::codegen::kernel::{Kernel, Limit};
use crate::interpreter::IValue;
use crate::tensor::DType;
use crate::tensor::buffer::Wide;

/// Whether number operands are in the range of the types that they are used in.
pub(super) fn within_limits(kernel: &Kernel, operands: &[IValue]) -> Result<(), String> {
    for &(operand, limit) in &kernel.limits {
        let value = &operands[operand];
        match limit {
            Limit::Holds(dtype) => {
                if let Some(number) = value.scalar().filter(|&number| !dtype.holds_float(number)) {
                    return Err(format!("{} does not fit in {}", number.real(), dtype.name()));
                }
            }
            Limit::NoZeros(dtype) if has_zeros(value, dtype) => {
                return Err("integers are divided by 0".to_owned());
            }
            Limit::Natural if value.scalar().is_some_and(|number| number.int() < 0) => {
                return Err("integers are raised to a negative power".to_owned());
            }
            Limit::Places(image, dims) => places_are_of(value, &operands[image], dims)?,
            Limit::NoZeros(_) | Limit::Natural => {}
        }
    }
    Ok(())
}

/// Whether indices are those of elements of an image.
fn places_are_of(indices: &IValue, image: &IValue, dims: usize) -> Result<(), String> {
    let (Some(indices), Some(image)) = (indices.tensor(), image.tensor()) else { return Ok(()) };
    let elements: i64 = image.shape().iter().rev().take(dims).product();
    match indices.read::<i64>().into_iter().all(|index| (0..elements).contains(&index)) {
        true => Ok(()),
        false => Err("an index is that of no element".to_owned()),
    }
}

/// Whether a number, or an element of a tensor, is 0 as an element of a type.
fn has_zeros(value: &IValue, dtype: DType) -> bool {
    let is_zero = |n: i64| n.through(dtype) == 0;
    match value.tensor() {
        Some(tensor) => tensor.read::<i64>().into_iter().any(is_zero),
        None => value.scalar().is_some_and(|number| is_zero(number.int())),
    }
}
