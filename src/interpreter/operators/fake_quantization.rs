//! Fake quantisation: numbers rounded to a quantisation grid.
//!
//! As in eager mode, scales and grid positions are in single precision, for doubles in double
//! precision. A second result is the mask of numbers within bounds: there the gradient is not zero.

use super::elements::{check, like};
use super::picking::coordinates;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::stop::Stop;
use crate::tensor::{DType, Scalar, Tensor, layout};

/// The rows.
pub(crate) const ROWS: &[Row] = &[
    ("aten::fake_quantize_per_tensor_affine", |call| one(per_tensor(call)?.0)),
    ("aten::fake_quantize_per_tensor_affine_cachemask", |call| both(per_tensor(call)?)),
    ("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", |call| both(per_tensor(call)?)),
    ("aten::fake_quantize_per_channel_affine", |call| one(per_channel(call)?.0)),
    ("aten::fake_quantize_per_channel_affine_cachemask", |call| both(per_channel(call)?)),
    ("aten::fake_quantize_per_tensor_affine_cachemask_backward", within),
    ("aten::fake_quantize_per_channel_affine_cachemask_backward", within),
];

fn both((result, mask): (Tensor, Tensor)) -> Answer {
    several([result, mask])
}

fn within(call: &Call) -> Answer {
    one(super::elements::multiply(call, &call.tensor("grad")?, &call.tensor("mask")?)?)
}

/// The quantisation grid.
#[derive(Clone, Copy)]
struct Grid {
    scale: f32,
    zero: f64,
    low: f64,
    high: f64,
    /// Whether numbers are doubles.
    is_wide: bool,
}

impl Grid {
    /// The distance of a number from the zero of the grid in steps, before rounding.
    fn steps(self, x: f64) -> f64 {
        let inverse = 1.0 / self.scale;
        if self.is_wide { x * f64::from(inverse) } else { f64::from(x as f32 * inverse) }
    }

    /// The number at a grid position, and whether it is within bounds.
    fn put(self, place: f64) -> (f64, bool) {
        let kept = if place.is_nan() { self.low } else { place.clamp(self.low, self.high) };
        let single = (kept - self.zero) as f32 * self.scale;
        (f64::from(single), place >= self.low && place <= self.high)
    }
}

/// The bounds of a call, for single or double precision.
fn bounds(call: &Call<'_>, x: &Tensor) -> Result<Grid, Stop> {
    let (low, high) = (call.int("quant_min")?, call.int("quant_max")?);
    check(x.dtype().is_float(), || {
        format!("\"fake_quantize_tensor_cachemask_kernel_type_handling\" not implemented for '{}'", x.dtype().name())
    })?;
    check(low <= high, || "`quant_min` should be less than or         equal to `quant_max`.".to_owned())?;
    let is_wide = x.kept() == DType::Double;
    Ok(Grid { scale: 1.0, zero: 0.0, low: low as f64, high: high as f64, is_wide })
}

fn per_tensor(call: &Call<'_>) -> Result<(Tensor, Tensor), Stop> {
    let x = call.tensor("self")?;
    let bounds = bounds(call, &x)?;
    let (scale, zero) = (call.float("scale")? as f32, call.int("zero_point")? as f64);
    check(
        call.look("scale").is_some_and(|scale| scale.tensor().is_some()) || (bounds.low..=bounds.high).contains(&zero),
        || "`zero_point` must be between `quant_min` and `quant_max`.".to_owned(),
    )?;
    let is_on = call.opt_tensor("fake_quant_enabled")?.is_none_or(|on| on.numel() > 0 && on.item().truth());
    if !is_on {
        return Ok((x.copied(), Tensor::full(Scalar::Int(1), DType::Bool, x.shape(), call.precision())));
    }
    let grid = Grid { scale, zero, ..bounds };
    let put: Vec<(f64, bool)> =
        x.read::<f64>().into_iter().map(|x| grid.put(grid.steps(x).round_ties_even() + zero)).collect();
    Ok(split(call, &x, &put))
}

/// A position out of the range of a long becomes the lower bound, on either side; a non-integer
/// zero point is added before numbers are rounded.
fn per_channel(call: &Call<'_>) -> Result<(Tensor, Tensor), Stop> {
    let (x, scale, zero) = (call.tensor("self")?, call.tensor("scale")?, call.tensor("zero_point")?);
    let (bounds, is_whole) = (bounds(call, &x)?, zero.dtype() == DType::Int);
    check(scale.dtype() == DType::Float, || format!("Scale must be Float, found {}", scale.dtype().name()))?;
    check(is_whole || matches!(zero.dtype(), DType::Float | DType::Half), || {
        format!("Zero-point must be Int32, Float or Half, found {}", zero.dtype().name())
    })?;
    let axis = call.int("axis")?;
    check(axis >= 0, || "`axis` must be between 0 and number of dimensions of input".to_owned())?;
    let axis = layout::wrap(axis, x.rank())?;
    check(axis < x.rank(), || "`axis` must be between 0 and number of dimensions of input".to_owned())?;
    check(scale.numel() as i64 == x.size(axis) && zero.numel() == scale.numel(), || {
        "dimensions of scale and zero-point are not consistent with input tensor".to_owned()
    })?;
    let (scales, zeros) = (scale.read::<f64>(), zero.read::<f64>());
    check(!is_whole || zeros.iter().all(|zero| (bounds.low..=bounds.high).contains(zero)), || {
        "`zero_point` must be between `quant_min` and `quant_max`.".to_owned()
    })?;
    let channels = coordinates(x.shape(), |at| at[axis] as usize);
    let put = |(x, channel): (f64, usize)| {
        let grid = Grid { scale: scales[channel] as f32, zero: zeros[channel], ..bounds };
        let steps = grid.steps(x);
        let place = if is_whole { steps.round_ties_even() + grid.zero } else { (steps + grid.zero).round_ties_even() };
        grid.put(if place.abs() < 9.2e18 { place } else { f64::NEG_INFINITY })
    };
    let put: Vec<(f64, bool)> = x.read::<f64>().into_iter().zip(channels).map(put).collect();
    Ok(split(call, &x, &put))
}

fn split(call: &Call<'_>, x: &Tensor, put: &[(f64, bool)]) -> (Tensor, Tensor) {
    let numbers: Vec<f64> = put.iter().map(|(number, _)| *number).collect();
    let inside: Vec<i64> = put.iter().map(|(_, inside)| i64::from(*inside)).collect();
    (like(call, &numbers, x.dtype(), x.shape(), x), like(call, &inside, DType::Bool, x.shape(), x))
}
