//! Elements by position, whatever their type: what views, joins, indexing and sorting are made of.

use super::elements::{by_kind, like};
use crate::interpreter::call::Call;
use crate::interpreter::stop::Stop;
use crate::tensor::gemm::Ring;
use crate::tensor::layout::{self, Dims};
use crate::tensor::{C128, DType, Kind, Scalar, Tensor};

/// Arithmetic and order that all wide numbers have.
pub trait Number: Ring {
    /// Quotient; of whole numbers the floor, and 0 for a divisor of 0.
    fn over(self, other: Self) -> Self;
    /// Whether it comes before another when sorting; NaN comes last, complex numbers go by their real parts.
    fn is_below(self, other: Self) -> bool;
    /// Whether it is NaN.
    fn is_nan(self) -> bool;
}

impl Number for i64 {
    fn over(self, other: i64) -> i64 {
        if other == 0 { 0 } else { self.wrapping_div_euclid(other) }
    }
    fn is_below(self, other: i64) -> bool {
        self < other
    }
    fn is_nan(self) -> bool {
        false
    }
}

impl Number for f64 {
    fn over(self, other: f64) -> f64 {
        self / other
    }
    fn is_below(self, other: f64) -> bool {
        self < other || (other.is_nan() && !self.is_nan())
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

impl Number for C128 {
    fn over(self, other: C128) -> C128 {
        self / other
    }
    fn is_below(self, other: C128) -> bool {
        self.re.is_below(other.re)
    }
    fn is_nan(self) -> bool {
        C128::is_nan(self)
    }
}

/// How two numbers stand to each other when sorting.
pub fn order<W: Number>(a: W, b: W) -> std::cmp::Ordering {
    b.is_below(a).cmp(&a.is_below(b))
}

/// Elements of a tensor by their place in logical order, as a tensor of its own. All places are in range.
pub fn picked(call: &Call<'_>, x: &Tensor, places: &[usize], shape: &[i64]) -> Tensor {
    by_kind!(x.dtype(), W => {
        let elements = x.read::<W>();
        let chosen: Vec<W> = places.iter().map(|&place| elements[place]).collect();
        like(call, &chosen, x.dtype(), shape, x)
    })
}

/// Elements of a tensor, found for each place of the result by its coordinates.
pub fn mapped(call: &Call<'_>, x: &Tensor, shape: &[i64], place: impl FnMut(&[i64]) -> usize) -> Result<Tensor, Stop> {
    layout::checked(shape)?;
    let places: Vec<usize> = coordinates(shape, place);
    Ok(picked(call, x, &places, shape))
}

/// Calls `f` with the coordinates of all elements of a shape, in logical order.
pub fn coordinates<T>(shape: &[i64], mut f: impl FnMut(&[i64]) -> T) -> Vec<T> {
    let mut at: Dims = Dims::from_elem(0, shape.len());
    let total = layout::numel(shape);
    let mut results = Vec::with_capacity(total);
    for _ in 0..total {
        results.push(f(&at));
        for i in (0..shape.len()).rev() {
            at[i] += 1;
            if at[i] < shape[i] {
                break;
            }
            at[i] = 0;
        }
    }
    results
}

/// The place of coordinates in logical order, given [`layout::contiguous`] strides.
pub fn place(at: &[i64], strides: &[i64]) -> usize {
    at.iter().zip(strides).map(|(at, stride)| at * stride).sum::<i64>() as usize
}

/// A copy of a tensor whose elements lie in a row, with some of them written by `f`.
pub fn changed(x: &Tensor, f: impl FnOnce(&Tensor) -> Result<(), Stop>) -> Result<Tensor, Stop> {
    let copy = x.copied();
    f(&copy)?;
    Ok(copy)
}

/// An index from a program: negative ones count from behind.
pub fn wrapped(index: i64, size: i64) -> Option<i64> {
    (-size..size).contains(&index).then(|| if index < 0 { index + size } else { index })
}

/// An `IndexError`.
pub fn index_error(message: impl Into<String>) -> Stop {
    Stop::raised_as("IndexError", message)
}

/// Refuses a number that an element type cannot hold. Negative numbers wrap in unsigned types, real ones are cut.
pub fn check_fits(value: Scalar, dtype: DType) -> Result<(), Stop> {
    let x = value.real();
    let fits = match (value, dtype.arithmetic(), dtype.range()) {
        (_, Some(Kind::Bool), _) => true,
        (Scalar::Complex(z), _, Some(_)) if z.im != 0.0 => false,
        (Scalar::Int(n), _, Some((low, high))) => (lowest(dtype, low)..=high).contains(&n),
        (_, _, Some((low, high))) => x > lowest(dtype, low) as f64 - 1.0 && x < high as f64 + 1.0,
        (_, Some(Kind::Float), _) => !x.is_finite() || x.abs() <= largest(dtype),
        _ => true,
    };
    if fits {
        return Ok(());
    }
    Err(Stop::raised(format!("value cannot be converted to type {} without overflow", element_name(dtype))))
}

/// Negative numbers wrap in the unsigned type.
fn lowest(dtype: DType, low: i64) -> i64 {
    if dtype == DType::Byte { -255 } else { low }
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::Half => 65504.0,
        DType::BFloat16 => 2f64.powi(127) * (2.0 - 2f64.powi(-7)),
        DType::Float => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

/// The name of an element type in C++, for messages.
fn element_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Byte => "uint8_t",
        DType::Char => "int8_t",
        DType::Short => "int16_t",
        DType::Int => "int",
        DType::Long => "int64_t",
        DType::Half => "at::Half",
        DType::BFloat16 => "at::BFloat16",
        DType::Float => "float",
        _ => "double",
    }
}
