//! Quantised tensors as values: their numbers, their scale and zero point, and tensors of integers.

use super::elements::{check, placed};
use crate::interpreter::stop::Stop;
use crate::tensor::quantizer::chosen;
use crate::tensor::{DType, Precision, Quantizer, Tensor, layout};

/// Dequantises a tensor.
pub(super) fn dequantized(tensor: &Tensor) -> Tensor {
    let Some(quantizer) = tensor.quantizer() else { return tensor.clone() };
    let numbers = quantizer.dequantize(&tensor.integers().read::<i64>(), tensor.shape());
    let made = Tensor::of(&numbers, DType::Float, tensor.shape(), Precision::Typed);
    placed(made, tensor).laid(layout::kept_strides(tensor.shape(), tensor.strides()))
}

/// A quantised tensor of integers in logical order.
pub(super) fn of_integers(integers: &[i64], dtype: DType, shape: &[i64], quantizer: Quantizer) -> Tensor {
    Tensor::of(integers, dtype.memory(), shape, Precision::Typed).quantized(dtype, quantizer)
}

/// Scale and zero point of a tensor that is quantised per tensor.
pub(super) fn of_tensor(tensor: &Tensor) -> Result<(f64, i64), Stop> {
    tensor
        .quantizer()
        .and_then(|quantizer| quantizer.of_tensor())
        .ok_or_else(|| Stop::raised("Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false."))
}

/// Scale and zero point for the elements of a tensor.
pub(super) fn chosen_for(x: &Tensor, range: (i64, i64)) -> Result<(f64, i64), Stop> {
    let numbers = x.read::<f64>();
    check(!numbers.is_empty(), || {
        "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.".to_owned()
    })?;
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(chosen(low as f32, high as f32, range))
}

/// A result with integers in the memory order of the first operand.
pub(super) fn like_first(first: &Tensor, integers: &[i64], shape: &[i64], to: Quantizer) -> Tensor {
    let made = Tensor::of(integers, first.dtype().memory(), shape, Precision::Typed);
    let made = match shape == first.shape() {
        true => made.laid(layout::kept_strides(shape, first.strides())),
        false => made,
    };
    made.quantized(first.dtype(), to)
}
