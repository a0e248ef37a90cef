//! Factories: zeros, ranges, identity, tensors from lists.

use super::picking::check_fits;
use super::pointwise::self_of;
use super::views::formatted;
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::tensor::promotion::{join, of_scalar};
use crate::tensor::spare_memory::Fresh;
use crate::tensor::{DType, Kind, Precision, Scalar, Tensor, layout};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::zeros", |call| filled(call, Scalar::Int(0))),
    ("aten::ones", |call| filled(call, Scalar::Int(1))),
    // Uninitialised memory is 0 here, so that runs can be compared.
    ("aten::empty", |call| filled(call, Scalar::Int(0))),
    ("aten::empty_strided", |call| filled(call, Scalar::Int(0))),
    ("aten::full", full),
    ("aten::zeros_like", |call| filled_like(call, Scalar::Int(0))),
    ("aten::ones_like", |call| filled_like(call, Scalar::Int(1))),
    ("aten::empty_like", |call| filled_like(call, Scalar::Int(0))),
    ("aten::full_like", |call| filled_like(call, call.scalar("fill_value")?)),
    ("aten::new_zeros", |call| filled(call, Scalar::Int(0))),
    ("aten::new_ones", |call| filled(call, Scalar::Int(1))),
    ("aten::new_empty", |call| filled(call, Scalar::Int(0))),
    ("aten::new_empty_strided", |call| filled(call, Scalar::Int(0))),
    ("aten::new_full", |call| filled(call, call.scalar("fill_value")?)),
    ("aten::scalar_tensor", |call| {
        let value = call.scalar("s")?;
        let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
        check_fits_alone(value, dtype)?;
        placed(call, Tensor::scalar(value, dtype, call.precision()))
    }),
    ("prim::NumToTensor", |call| {
        let value =
            call.arg(0)?.scalar().ok_or_else(|| Stop::unsupported("a tensor of a value that is not a number"))?;
        // Not of the default type: a number keeps all its digits.
        let dtype = match number_type(call, value) {
            dtype if dtype.is_float() => DType::Double,
            dtype if dtype.is_complex() => DType::ComplexDouble,
            dtype => dtype,
        };
        one(Tensor::scalar(value, dtype, call.precision()))
    }),
    ("aten::tensor", tensor),
    ("aten::as_tensor", tensor),
    ("aten::arange", arange),
    ("aten::range", arange),
    ("aten::linspace", linspace),
    ("aten::logspace", logspace),
    ("aten::eye", eye),
];

/// Refuses a number out of the range of a zero-dimensional tensor. `Half` overflows to infinity.
pub(super) fn check_fits_alone(value: Scalar, dtype: DType) -> Result<(), Stop> {
    if dtype.is_short_float() { Ok(()) } else { check_fits(value, dtype) }
}

/// The maximal size of a tensor made by a factory, in bytes.
fn checked(shape: &[i64]) -> Result<usize, Stop> {
    Ok(layout::checked(shape)?)
}

fn placed(call: &Call<'_>, tensor: Tensor) -> Answer {
    tensor.set_requires_grad(call.bool("requires_grad")?);
    one(match call.opt_device("device") {
        Some(device) => tensor.on(device),
        None => tensor,
    })
}

fn filled(call: &Call<'_>, value: Scalar) -> Answer {
    let shape = call.ints("size")?;
    checked(&shape)?;
    let like = call.look("self").and_then(IValue::tensor);
    let dtype = call.opt_dtype("dtype")?.or(like.map(Tensor::dtype)).unwrap_or(call.env.default_dtype());
    check_fits(value, dtype)?;
    let made = Tensor::full(value, dtype, &shape, call.precision());
    placed(call, like.map_or(made.clone(), |like| made.on(like.device())))
}

/// Since 1.7 the value determines the element type; 1.6 refuses integers and bools without a dtype.
fn full(call: &Call<'_>) -> Answer {
    let (shape, value) = (call.ints("size")?, call.scalar("fill_value")?);
    checked(&shape)?;
    let by_value = if call.release() < Release(1, 6) { call.env.default_dtype() } else { number_type(call, value) };
    let given = call.opt_dtype("dtype")?;
    if given.is_none() && call.release() == Release(1, 6) && (by_value.is_integral() || by_value == DType::Bool) {
        return Err(Stop::raised(
            "Providing a bool or integral fill value without setting the optional `dtype` or `out` arguments is currently unsupported.",
        ));
    }
    let dtype = given.unwrap_or(by_value);
    check_fits(value, dtype)?;
    placed(call, Tensor::full(value, dtype, &shape, call.precision()))
}

fn number_type(call: &Call<'_>, value: Scalar) -> DType {
    of_scalar(value, call.env.default_dtype())
}

/// The order of dimensions in memory is kept if there are no gaps.
fn filled_like(call: &Call<'_>, value: Scalar) -> Answer {
    let like = self_of(call)?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(like.dtype());
    check_fits(value, dtype)?;
    // 1.5 is the first release that keeps the order of dimensions.
    let strides = match call.release() < Release(1, 5) {
        true => layout::contiguous(like.shape()),
        false => layout::kept_strides(like.shape(), like.strides()),
    };
    let fresh = Fresh::any(call.precision().kept(dtype), like.numel());
    let made = Tensor::in_fresh(fresh, dtype, (like.shape().into(), strides)).on(like.device());
    made.fill(value);
    placed(call, formatted(call, made)?)
}

/// A tensor from a number or nested lists of numbers.
fn tensor(call: &Call<'_>) -> Answer {
    let data = call.arg(0)?;
    if let IValue::Tensor(tensor) = data {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(tensor.dtype());
        let keeps = dtype == tensor.dtype() && call.kind().short() == "as_tensor";
        return placed(call, if keeps { tensor.clone() } else { tensor.converted(dtype, call.precision()) });
    }
    let (mut shape, mut numbers) = (Vec::new(), Vec::new());
    measure(data, &mut shape);
    flatten(data, &shape, &mut numbers)?;
    let inferred = numbers.iter().map(|&n| number_type(call, n)).reduce(join).unwrap_or(call.env.default_dtype());
    // In 1.3 a single float became a double, a list of floats did not.
    let alone = call.release() < Release(1, 5) && matches!(data, IValue::Float(_));
    let dtype = call.opt_dtype("dtype")?.unwrap_or(if alone { DType::Double } else { inferred });
    let made = match dtype.arithmetic() {
        Some(Kind::Complex) => {
            call.made(&numbers.iter().map(|n| n.wide()).collect::<Vec<crate::tensor::C128>>(), dtype, &shape)
        }
        Some(Kind::Float) => call.made(&numbers.iter().map(|n| n.real()).collect::<Vec<_>>(), dtype, &shape),
        Some(Kind::Bool) => call.made(&numbers.iter().map(|n| i64::from(n.truth())).collect::<Vec<_>>(), dtype, &shape),
        _ => call.made(&numbers.iter().map(|n| n.int()).collect::<Vec<_>>(), dtype, &shape),
    };
    placed(call, made)
}

fn measure(data: &IValue, shape: &mut Vec<i64>) {
    let mut at = data.clone();
    while let IValue::List(list) = at {
        let list = list.borrow();
        shape.push(list.len() as i64);
        let Some(first) = list.first().cloned() else { return };
        at = first;
    }
}

fn flatten(data: &IValue, shape: &[i64], numbers: &mut Vec<Scalar>) -> Result<(), Stop> {
    match (data, shape) {
        (IValue::List(list), [n, inner @ ..]) if list.borrow().len() as i64 == *n => {
            list.borrow().iter().try_for_each(|element| flatten(element, inner, numbers))
        }
        (IValue::Tensor(tensor), []) if tensor.numel() == 1 => {
            numbers.push(tensor.item());
            Ok(())
        }
        (number, []) if number.scalar().is_some() => {
            numbers.extend(number.scalar());
            Ok(())
        }
        (IValue::List(list), _) => Err(Stop::raised_as(
            "ValueError",
            format!(
                "expected sequence of length {} at dim (got {})",
                shape.first().copied().unwrap_or(0),
                list.borrow().len()
            ),
        )),
        _ => Err(Stop::raised("tensor() got elements that are not numbers")),
    }
}

/// The end is excluded, except in the deprecated `range`.
fn arange(call: &Call<'_>) -> Answer {
    let start = call.opt_scalar("start")?.unwrap_or(Scalar::Int(0));
    let (end, step) = (call.scalar("end")?, call.opt_scalar("step")?.unwrap_or(Scalar::Int(1)));
    let inclusive = call.kind().short() == "range";
    let integers = [start, end, step].iter().all(|n| n.kind() <= Kind::Int);
    let whole = integers && !inclusive;
    // Called from a graph, 1.3.1 makes floats of integers, and 1.4.0 integers.
    let by_value = whole && call.release() >= Release(1, 4);
    let inferred = if by_value { DType::Long } else { call.env.default_dtype() };
    let dtype = call.opt_dtype("dtype")?.unwrap_or(inferred);
    if step.real() == 0.0 {
        return Err(Stop::raised("step must be nonzero"));
    }
    let span = end.real() - start.real();
    if !span.is_finite() || !step.real().is_finite() {
        return Err(Stop::raised(format!("unsupported range: {} -> {}", start.real(), end.real())));
    }
    if span * step.real() < 0.0 {
        return Err(Stop::raised("upper bound and lower bound inconsistent with step sign"));
    }
    // Elements that are integers start at and step by numbers without their fractions.
    let truncates = dtype.is_integral() && !integers;
    let is_long_before = dtype == DType::Long && call.release() < Release(2, 0);
    let (span, by) = match truncates && (inclusive || is_long_before) {
        true => ((end.int() as f64) - (start.int() as f64), step.int() as f64),
        false => (span, step.real()),
    };
    if by == 0.0 {
        return Err(Stop::raised(format!("a step of {} is 0 as an integer", step.real())));
    }
    let n = if inclusive { (span / by).floor() + 1.0 } else { (span / by).ceil() };
    let shape = [n.min(layout::MAX_ELEMENTS as f64 + 1.0) as i64];
    let n = checked(&shape)? as i64;
    let made = match dtype.is_integral() {
        true => call.made(
            &(0..n).map(|i| start.int().wrapping_add(i.wrapping_mul(step.int()))).collect::<Vec<_>>(),
            dtype,
            &shape,
        ),
        false => call.made(&(0..n).map(|i| start.real() + i as f64 * step.real()).collect::<Vec<_>>(), dtype, &shape),
    };
    placed(call, made)
}

fn steps(call: &Call<'_>) -> Result<(f64, f64, usize), Stop> {
    let n = call.opt_int("steps")?.unwrap_or(100);
    if n < 0 {
        return Err(Stop::raised("number of steps must be non-negative"));
    }
    let n = checked(&[n])?;
    Ok((call.float("start")?, call.float("end")?, n))
}

/// The type of the computation of elements.
fn kept_in(call: &Call<'_>, dtype: DType) -> DType {
    if call.precision() == Precision::Double { DType::Double } else { dtype }
}

/// Computed from both ends, so that both are exact.
fn spaced(start: f64, end: f64, n: usize, dtype: DType) -> Vec<f64> {
    // Steps and their multiples are rounded to the type of the result.
    let kept = |x: f64| if dtype == DType::Float { f64::from(x as f32) } else { x };
    let step = if n > 1 { kept(kept(end - start) / (n - 1) as f64) } else { 0.0 };
    let (start, end) = (kept(start), kept(end));
    let up = |i: usize| kept(start + kept(step * i as f64));
    let down = |i: usize| kept(end - kept(step * (n - 1 - i) as f64));
    (0..n).map(|i| if i < n / 2 || n == 1 { up(i) } else { down(i) }).collect()
}

fn linspace(call: &Call<'_>) -> Answer {
    let (start, end, n) = steps(call)?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
    placed(call, call.made(&spaced(start, end, n, kept_in(call, dtype)), dtype, &[n as i64]))
}

fn logspace(call: &Call<'_>) -> Answer {
    let (start, end, n) = steps(call)?;
    let base = call.opt_float("base")?.unwrap_or(10.0);
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
    let powers: Vec<f64> = spaced(start, end, n, kept_in(call, dtype)).into_iter().map(|x| base.powf(x)).collect();
    placed(call, call.made(&powers, dtype, &[n as i64]))
}

fn eye(call: &Call<'_>) -> Answer {
    let n = call.int("n")?;
    let m = call.opt_int("m")?.unwrap_or(n);
    let total = checked(&[n, m])?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
    let mut elements = vec![0i64; total];
    (0..n.min(m)).for_each(|i| elements[(i * m + i) as usize] = 1);
    placed(call, call.made(&elements, dtype, &[n, m]))
}
