//! Functions of elements that products and convolutions apply to their sums while these are in the
//! first-level cache.
//!
//! They have no branches, so that the compiler makes vectors of the loops around them. Their
//! polynomials and their bounds are those of the C prelude of kernels.

/// A function of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `min(max(x, low), high)`; NaN stays NaN.
    Clamp(f64, f64),
    /// `x` where it is positive, else `x` times the slope.
    LeakyRelu(f64),
    /// `x * clamp(x + 3, 0, 6) / 6`
    Hardswish,
    /// `clamp(x + 3, 0, 6) / 6`
    Hardsigmoid,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `x / (1 + e^-x)`
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// `x / 2 * (1 + erf(x / sqrt(2)))`
    Gelu,
    /// The approximation of [`Function::Gelu`] by `tanh`.
    GeluTanh,
}

/// An element type whose vectors the functions are written for.
pub(super) trait Activated: Copy {
    /// Applies a function to all elements.
    fn map(function: Function, all: &mut [Self]);
    /// `e^x` for `x` of at most 0.
    fn exp_below(self) -> Self;
}

/// `f64` has the functions without exponentials; callers check [`Function::has_doubles`] first.
impl Activated for f64 {
    #[inline(always)]
    fn map(function: Function, all: &mut [f64]) {
        match function {
            Function::Relu => each(all, |x| if x < 0.0 { 0.0 } else { x }),
            Function::Clamp(low, high) => each(all, |x| clamp(x, low, high)),
            Function::LeakyRelu(slope) => each(all, |x| if x > 0.0 { x } else { x * slope }),
            Function::Hardswish => each(all, |x| x * clamp(x + 3.0, 0.0, 6.0) / 6.0),
            Function::Hardsigmoid => each(all, |x| clamp(x + 3.0, 0.0, 6.0) / 6.0),
            _ => unreachable!("`has_doubles` refuses it"),
        }
    }

    #[inline(always)]
    fn exp_below(self) -> f64 {
        self.exp()
    }
}

impl Activated for f32 {
    #[inline(always)]
    fn map(function: Function, all: &mut [f32]) {
        match function {
            Function::Relu => each(all, |x| if x < 0.0 { 0.0 } else { x }),
            Function::Clamp(low, high) => {
                let (low, high) = (low as f32, high as f32);
                each(all, |x| clamp(x, low, high));
            }
            Function::LeakyRelu(slope) => {
                let slope = slope as f32;
                each(all, |x| if x > 0.0 { x } else { x * slope });
            }
            Function::Hardswish => each(all, |x| x * clamp(x + 3.0, 0.0, 6.0) / 6.0),
            Function::Hardsigmoid => each(all, |x| clamp(x + 3.0, 0.0, 6.0) / 6.0),
            Function::Sigmoid => each(all, sigmoid),
            Function::Silu => each(all, silu),
            Function::Tanh => each(all, tanh),
            Function::Gelu => each(all, gelu),
            Function::GeluTanh => {
                each(all, |x| x * sigmoid(1.595_769_2 * (0.044_715 * x).mul_add(x * x, x)));
            }
        }
    }

    #[inline(always)]
    fn exp_below(self) -> f32 {
        exp_below(self)
    }
}

impl Function {
    /// Whether doubles have it, too.
    pub fn has_doubles(self) -> bool {
        use Function::{Clamp, Hardsigmoid, Hardswish, LeakyRelu, Relu};
        matches!(self, Relu | Clamp(..) | LeakyRelu(_) | Hardswish | Hardsigmoid)
    }
}

#[inline(always)]
fn each<T: Copy>(all: &mut [T], f: impl Fn(T) -> T) {
    for x in all {
        *x = f(*x);
    }
}

#[inline(always)]
fn clamp<T: PartialOrd + Copy>(x: T, low: T, high: T) -> T {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 3 * 2^22: a sum with it rounds to an integer, which its last bits then are.
const SHIFT: f32 = 12_582_912.0;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// `2^(n + more)` for an integer `n`, given `n` + [`SHIFT`].
#[inline(always)]
fn power(shifted: f32, more: i32) -> f32 {
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(((more + 127) as u32) << 23))
}

/// `c - n ln(2)`, where ln(2) has two parts, and the product with the first is exact.
#[inline(always)]
fn rest(c: f32, n: f32) -> f32 {
    n.mul_add(-1.428_606_8e-6, n.mul_add(-0.693_145_75, c))
}

/// A polynomial, whose first coefficient is that of the highest power.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, *coefficient);
    }
    sum
}

/// `e^r - 1` for `r` of at most half of ln(2).
#[inline(always)]
fn exp_less_one(r: f32) -> f32 {
    let tail = polynomial(r, [1.392_625e-3, 8.363_233e-3, 4.166_655_2e-2, 1.666_657_6e-1, 0.5]);
    (r * r).mul_add(tail, r)
}

/// `e^x` for `x` of at most 0.
#[inline(always)]
fn exp_below(x: f32) -> f32 {
    let c = if x < -104.0 { -104.0 } else { x };
    let shifted = c.mul_add(LOG2_E, SHIFT);
    let y = 1.0 + exp_less_one(rest(c, shifted - SHIFT));
    y * power(shifted, 32) * TINY
}

/// 2^-32
const TINY: f32 = 1.0 / 4_294_967_296.0;

/// Numerator and denominator are scaled by 2^-32, so that the denominator is finite wherever the
/// result is not 0.
#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    let c = clamp(x, -105.0, 60.0);
    let shifted = c.mul_add(-LOG2_E, SHIFT);
    let y = 1.0 + exp_less_one(rest(-c, shifted - SHIFT));
    TINY / y.mul_add(power(shifted, -32), TINY)
}

/// A product with the sigmoid would lose digits where that is denormal and the result is not.
#[inline(always)]
fn silu(x: f32) -> f32 {
    let c = clamp(x, -111.0, 60.0);
    let shifted = c.mul_add(-LOG2_E, SHIFT);
    let y = 1.0 + exp_less_one(rest(-c, shifted - SHIFT));
    let (scale, more) = if c < -1.0 { (TINY, -32) } else { (1.0, 0) };
    x * scale / y.mul_add(power(shifted, more), scale)
}

/// `E / (E + 2)` with `E = e^2x - 1` keeps its digits near 0.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let c = 2.0 * if a > 10.0 { 10.0 } else { a };
    let shifted = c.mul_add(LOG2_E, SHIFT);
    let scale = power(shifted, 0);
    let e = scale.mul_add(exp_less_one(rest(c, shifted - SHIFT)), scale - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// `x / 2` by the complement of the error function at `-x / sqrt(2)`, which keeps its digits where
/// it is small.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * erfc(x * -std::f32::consts::FRAC_1_SQRT_2)
}

/// Near 0 by the error function, elsewhere as `e^(-x^2)` by a fraction. The square is two numbers.
#[inline(always)]
fn erfc(x: f32) -> f32 {
    let a = x.abs();
    let c = clamp(a, 0.8, 10.5);
    let square = c * c;
    let lost = c.mul_add(c, -square);
    let t = (c - 4.0) / (c + 4.0);
    let tail = polynomial(
        t,
        [
            0.005_363_06,
            -0.016_466_63,
            0.036_984_716,
            -0.066_304_766,
            0.093_762_964,
            -0.101_038_88,
            0.068_095_23,
            0.015_379_578,
            -0.139_621_08,
            1.232_995_2,
        ],
    );
    let far = exp_below(-square) * (1.0 - lost) * (tail / 2f32.mul_add(c, 1.0));
    let z = x * x;
    let near = polynomial(
        z,
        [
            -1.026_474_6e-5,
            1.144_678_9e-4,
            -8.505_493e-4,
            5.222_283_3e-3,
            -2.686_580_5e-2,
            1.128_378_8e-1,
            -3.761_263_8e-1,
            1.283_791_7e-1,
        ],
    );
    let beyond = if x < 0.0 { 2.0 - far } else { far };
    let value = if a < 0.8 { 1.0 - x.mul_add(near, x) } else { beyond };
    if x.is_nan() { x } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In doubles, independently.
    fn expected(function: Function, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let inner = (x + 3.0).clamp(0.0, 6.0);
        match function {
            Function::Relu => x.max(0.0),
            Function::Clamp(low, high) => x.max(low).min(high),
            Function::LeakyRelu(slope) => x.max(0.0) + slope * x.min(0.0),
            Function::Hardswish => x * inner / 6.0,
            Function::Hardsigmoid => inner / 6.0,
            Function::Sigmoid => sigmoid(x),
            Function::Silu => x * sigmoid(x),
            Function::Tanh => x.tanh(),
            Function::Gelu => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
            Function::GeluTanh => x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)),
        }
    }

    fn all() -> [Function; 10] {
        use Function::*;
        let bounds = [Clamp(-0.5, 2.25), LeakyRelu(0.125)];
        [Relu, bounds[0], bounds[1], Hardswish, Hardsigmoid, Sigmoid, Silu, Tanh, Gelu, GeluTanh]
    }

    /// Within a few units in the last place, and what rounding the operand of an exponential adds.
    #[test]
    fn functions_agree_with_doubles() {
        for function in all() {
            for i in -48_000..48_000 {
                let x = i as f32 / 4000.0;
                let mut found = [x; 3];
                f32::map(function, &mut found);
                let wide = expected(function, f64::from(x));
                // The exponent of an approximation is a cube.
                let operand = f64::from(x).abs();
                let budget = (4.0 + operand.powi(2) + operand.powi(3) / 6.0) * 1.2e-7 * wide.abs() + 1e-37;
                assert!((f64::from(found[2]) - wide).abs() <= budget, "{function:?} {x} {} {wide}", found[2]);
                if function.has_doubles() {
                    let mut found = [f64::from(x)];
                    f64::map(function, &mut found);
                    assert!((found[0] - wide).abs() < 1e-14, "{function:?} {x}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite() {
        for function in all() {
            let mut found = [f32::NAN, f32::INFINITY, 1e30, -1e30];
            f32::map(function, &mut found);
            assert!(found[0].is_nan(), "{function:?}");
            for (&x, large) in found[1..].iter().zip([f64::INFINITY, 1e30, -1e30]) {
                let wide = expected(function, large) as f32;
                assert!(
                    x == wide || (x / wide - 1.0).abs() < 1e-6 || (x.abs() + wide.abs()) < 1e-30,
                    "{function:?} {x} {wide}"
                );
            }
        }
    }
}
