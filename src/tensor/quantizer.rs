//! The mapping between the integers of a quantised tensor and numbers.
//!
//! An element `q` represents `(q - zero point) * scale`. Scale and zero point are those of the
//! tensor, or of its slice along one dimension. Numbers are quantised as in FBGEMM: multiplied by
//! the reciprocal of the scale in single precision, rounded to nearest even, shifted by the zero
//! point and clamped.
//!
//! FBGEMM is the default engine of 1.13, and the one that `x86` of 2.15 takes most kernels from.
//! Products are summed exactly, in integers. Recorded networks of 1.6.0, 1.13.1 and 2.15.0 are
//! matched bit for bit; QNNPACK and oneDNN may differ by one step.

use super::dtype::DType;
use std::fmt;

/// Scales and zero points of a quantised tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantizer {
    /// `torch.per_tensor_affine`
    Tensor {
        /// The difference between consecutive numbers.
        scale: f64,
        /// The integer that represents 0.
        zero: i64,
    },
    /// `torch.per_channel_affine`
    Channels {
        /// The scale of each slice.
        scales: Vec<f64>,
        /// The zero point of each slice.
        zeros: Vec<f64>,
        /// The dimension of the slices.
        axis: usize,
        /// Whether zero points were given as floats: `torch.per_channel_affine_float_qparams`.
        floats: bool,
    },
}

impl fmt::Display for Quantizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantizer::Tensor { scale, zero } => write!(f, "scale {scale}, zero point {zero}"),
            Quantizer::Channels { scales, zeros, axis, .. } => {
                write!(f, "scales {scales:?}, zero points {zeros:?} along dimension {axis}")
            }
        }
    }
}

impl Quantizer {
    /// Scale and zero point if they are those of the whole tensor.
    pub(crate) fn of_tensor(&self) -> Option<(f64, i64)> {
        if let Quantizer::Tensor { scale, zero } = self { Some((*scale, *zero)) } else { None }
    }

    /// Scale and zero point of each element in logical order.
    fn each<'a>(&'a self, shape: &'a [i64]) -> impl Fn(usize) -> (f64, f64) + 'a {
        let inner = match self {
            Quantizer::Channels { axis, .. } => shape.iter().skip(axis + 1).product::<i64>().max(1) as usize,
            Quantizer::Tensor { .. } => 1,
        };
        move |i| match self {
            Quantizer::Tensor { scale, zero } => (*scale, *zero as f64),
            Quantizer::Channels { scales, zeros, .. } => {
                let channel = i / inner % scales.len().max(1);
                (scales.get(channel).copied().unwrap_or(1.0), zeros.get(channel).copied().unwrap_or(0.0))
            }
        }
    }

    /// Quantises numbers in logical order.
    pub(crate) fn quantize(&self, numbers: &[f64], shape: &[i64], dtype: DType) -> Vec<i64> {
        let each = self.each(shape);
        let one = |(i, &x): (usize, &f64)| {
            let (scale, zero) = each(i);
            match self {
                // Zero points that are floats are added before the sum is rounded.
                Quantizer::Channels { floats: true, .. } => {
                    clamped(f64::from(x as f32 * (1.0 / scale as f32) + zero as f32).round_ties_even(), dtype)
                }
                _ => quantized(x as f32, scale as f32, zero, dtype),
            }
        };
        numbers.iter().enumerate().map(one).collect()
    }

    /// The numbers represented by integers in logical order.
    pub(crate) fn dequantize(&self, integers: &[i64], shape: &[i64]) -> Vec<f64> {
        let each = self.each(shape);
        let one = |(i, &q): (usize, &i64)| {
            let (scale, zero) = each(i);
            f64::from((q as f64 - zero) as f32 * scale as f32)
        };
        integers.iter().enumerate().map(one).collect()
    }
}

/// The integer that represents a number. NaN becomes the largest 8-bit or the smallest 32-bit one.
pub(crate) fn quantized(x: f32, scale: f32, zero: f64, dtype: DType) -> i64 {
    let steps = x * (1.0 / scale);
    clamped(f64::from(steps).round_ties_even() + zero, dtype)
}

/// A number as the nearest element of a quantised type.
pub(crate) fn clamped(n: f64, dtype: DType) -> i64 {
    let (low, high) = dtype.memory().range().unwrap_or((0, 255));
    match n {
        _ if n.is_nan() && dtype == DType::QInt32 => low,
        _ if n.is_nan() => high,
        _ => n.round_ties_even().clamp(low as f64, high as f64) as i64,
    }
}

/// Scale and zero point for numbers between two bounds and integers between two others: PyTorch's
/// `ChooseQuantizationParams`.
pub(crate) fn chosen(low: f32, high: f32, (least, most): (i64, i64)) -> (f64, i64) {
    /// The smallest scale used.
    const SMALLEST: f32 = 6.1e-5;
    let (mut low, mut high) = (low.min(0.0), high.max(0.0));
    let steps = (most - least) as f64;
    let mut scale = (f64::from(high) - f64::from(low)) / steps;
    if scale as f32 == 0.0 || (1.0 / scale as f32).is_infinite() {
        scale = 0.1;
    }
    if scale < f64::from(SMALLEST) {
        let grown = SMALLEST / scale as f32;
        scale = f64::from(SMALLEST);
        (low, high) = match (low == 0.0, high == 0.0) {
            (true, _) => (low, SMALLEST * steps as f32),
            (_, true) => (-SMALLEST * steps as f32, high),
            _ => (low * grown, high * grown),
        };
    }
    let (from_low, from_high) = (f64::from(low) / scale, f64::from(high) / scale);
    let is_low_better = least.abs() as f64 - from_low.abs() < most.abs() as f64 - from_high.abs();
    let zero = if is_low_better { least as f64 - from_low } else { most as f64 - from_high };
    (scale, zero.clamp(least as f64, most as f64).round_ties_even() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: `torch.quantize_per_tensor_dynamic` of PyTorch 2.15.0.
    #[test]
    fn parameters_are_chosen_as_pytorch_does() {
        let of = |low, high, range| {
            let (scale, zero) = chosen(low, high, range);
            ((scale * 1e6).round() / 1e6, zero)
        };
        assert_eq!(of(-3.0, 0.05, (0, 255)), (0.011961, 251));
        assert_eq!(of(-3.0, 0.05, (0, 127)), (0.024016, 125));
        assert_eq!(of(-3.0, 0.05, (-128, 127)), (0.011961, 123));
        assert_eq!(of(-3.0, 0.05, (-64, 63)), (0.024016, 61));
        assert_eq!(of(0.0, 0.0, (0, 255)), (0.1, 0));
        assert_eq!(of(1.0, 3.3, (0, 255)), (0.012941, 0));
        assert_eq!(of(-3.3, -1.0, (0, 255)), (0.012941, 255));
        assert_eq!(of(1e-30, 1e-30, (0, 255)), (0.000061, 0));
    }

    /// Reference: `torch.quantize_per_tensor` of PyTorch 2.15.0.
    #[test]
    fn numbers_are_rounded_before_they_are_moved() {
        let x = [-3.0, -0.15, -0.05, 0.0, 0.05, 0.15, 0.25, 1.0, 30.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let of = |zero, dtype| Quantizer::Tensor { scale: 0.1, zero }.quantize(&x, &[12], dtype);
        assert_eq!(of(10, DType::QUInt8), [0, 8, 10, 10, 10, 12, 12, 20, 255, 255, 255, 0]);
        assert_eq!(of(-5, DType::QInt8), [-35, -7, -5, -5, -5, -3, -3, 5, 127, 127, 127, -128]);
        let (low, high) = (i64::from(i32::MIN), i64::from(i32::MAX));
        assert_eq!(of(7, DType::QInt32), [-23, 5, 7, 7, 7, 9, 9, 17, 307, low, high, low]);
    }
}
