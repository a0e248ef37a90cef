//! Special functions: Bessel functions, the normal distribution, and the zeta function.

use super::gamma::tail_sum;
use super::operands::{both, common, operand};
use super::pointwise::{erfinv, floats_of, not_implemented, self_of};
use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::DType;
use crate::tensor::blocks::Types;
use crate::tensor::promotion::to_float_arithmetic;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::i0", |call| floats_of(call, &self_of(call)?, "i0_vml_cpu", |x| bessel(0, x, false))),
    ("aten::special_i0", |call| floats_of(call, &self_of(call)?, "i0_vml_cpu", |x| bessel(0, x, false))),
    ("aten::special_i0e", |call| floats_of(call, &self_of(call)?, "i0e_cpu", |x| bessel(0, x, true))),
    ("aten::special_i1", |call| floats_of(call, &self_of(call)?, "i1_cpu", |x| bessel(1, x, false))),
    ("aten::special_i1e", |call| floats_of(call, &self_of(call)?, "i1e_cpu", |x| bessel(1, x, true))),
    ("aten::special_ndtri", |call| no_halves(call, "ndtri_cpu", ndtri)),
    ("aten::special_log_ndtr", |call| no_halves(call, "log_ndtr_cpu", log_ndtr)),
    ("aten::special_zeta", zeta),
    ("aten::special_xlog1py", special_xlog1py),
    ("aten::special_chebyshev_polynomial_t", special_chebyshev_polynomial_t),
];

/// The modified Bessel function of the first kind of an order, optionally multiplied by
/// `exp(-|x|)`: the power series, or for large arguments the asymptotic series (Abramowitz and
/// Stegun 9.6.10 and 9.7.1).
fn bessel(order: i32, x: f64, is_scaled: bool) -> f64 {
    let far = x.abs();
    let sign = if order == 1 && x < 0.0 { -1.0 } else { 1.0 };
    if far < 30.0 {
        let quarter = far * far / 4.0;
        let mut term = (far / 2.0).powi(order);
        let mut sum = term;
        for k in 1..200 {
            term *= quarter / (f64::from(k) * f64::from(k + order));
            sum += term;
            if term <= sum * f64::EPSILON / 4.0 {
                break;
            }
        }
        return sign * if is_scaled { sum * (-far).exp() } else { sum };
    }
    let mu = 4.0 * f64::from(order * order);
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..40 {
        let odd = f64::from(2 * k - 1);
        let next = -term * (mu - odd * odd) / (f64::from(k) * 8.0 * far);
        if next.abs() >= f64::abs(term) {
            break;
        }
        term = next;
        sum += term;
    }
    let root = sum / (2.0 * PI * far).sqrt();
    match is_scaled {
        true if far.is_infinite() => sign * 0.0,
        true => sign * root,
        // In two steps: the power alone overflows before the product does.
        // Eager mode multiplies 0 with an infinite power.
        false if far.is_infinite() => f64::NAN,
        false => sign * (far / 2.0).exp() * root * (far / 2.0).exp(),
    }
}

/// A function without a 16-bit kernel in eager mode, even for empty tensors.
pub(super) fn no_halves(call: &Call, kernel: &str, f: impl Fn(f64) -> f64) -> Answer {
    let x = self_of(call)?;
    widely_known(kernel, x.dtype())?;
    floats_of(call, &x, kernel, f)
}

fn widely_known(kernel: &str, dtype: DType) -> Result<(), Stop> {
    if matches!(dtype, DType::Half | DType::BFloat16) { Err(not_implemented(kernel, dtype)) } else { Ok(()) }
}

/// The logarithm of the normal distribution: for very negative arguments the asymptotic series
/// (Abramowitz and Stegun 26.2.12).
fn log_ndtr(x: f64) -> f64 {
    if x >= 1.0 {
        return (-0.5 * libm::erfc(x * FRAC_1_SQRT_2)).ln_1p();
    }
    if x > -20.0 || x.is_nan() {
        return libm::erfc(-x * FRAC_1_SQRT_2).ln() - LN_2;
    }
    let square = x * x;
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..12 {
        term *= -f64::from(2 * k - 1) / square;
        sum += term;
    }
    -0.5 * square - (-x).ln() - 0.5 * (2.0 * PI).ln() + sum.ln()
}

/// The inverse of the normal distribution. In its tails by Newton's method on the logarithm.
fn ndtri(p: f64) -> f64 {
    match p {
        0.0 => return f64::NEG_INFINITY,
        1.0 => return f64::INFINITY,
        _ if !(0.0..=1.0).contains(&p) => return f64::NAN,
        _ if p > 0.9 => return -ndtri_below(1.0 - p),
        _ if p >= 0.1 => {}
        _ => return ndtri_below(p),
    }
    SQRT_2 * erfinv(2.0 * p - 1.0)
}

fn ndtri_below(p: f64) -> f64 {
    let wanted = p.ln();
    let mut x = -(-2.0 * wanted).sqrt();
    for _ in 0..60 {
        let found = log_ndtr(x);
        let slope = (-0.5 * x * x - 0.5 * (2.0 * PI).ln() - found).exp();
        let step = (found - wanted) / slope;
        x -= step;
        if step.abs() <= f64::EPSILON * x.abs() {
            break;
        }
    }
    x
}

/// The Hurwitz zeta function: the sum of `(q + k)^-x` over all k >= 0.
fn zeta(call: &Call) -> Answer {
    let (x, q) = (operand(call, 0)?, operand(call, 1)?);
    let types = Types::same(to_float_arithmetic(common(&x, &q)), call.precision());
    widely_known("zeta_cpu", types.common)?;
    let of = |x: f64, q: f64| match () {
        () if x == 1.0 => f64::INFINITY,
        () if x < 1.0 || x.is_nan() || q.is_nan() || q == f64::INFINITY => f64::NAN,
        () if q <= 0.0 && q == q.floor() => f64::INFINITY,
        () if q < 0.0 && x != x.floor() => f64::NAN,
        // Terms further below 0 are negligible.
        () if q < -1e6 => tail_sum(x, q - q.floor() - 1e6),
        () => tail_sum(x, q),
    };
    one(both(&x, &q, types, of)?)
}

/// `aten::special_xlog1py`: the first operand times the logarithm of one more than the second, and
/// 0 where the first is 0. Integers and bools become floats; complex numbers are refused.
fn special_xlog1py(call: &Call<'_>) -> Answer {
    let (a, b) = (operand(call, 0)?, operand(call, 1)?);
    let dtype = to_float_arithmetic(common(&a, &b));
    if dtype.is_complex() {
        return Err(not_implemented("xlog1py_cpu", dtype));
    }
    let product = |x: f64, y: f64| match () {
        () if y.is_nan() => y,
        () if x == 0.0 => 0.0,
        () => x * y.ln_1p(),
    };
    one(both(&a, &b, Types::same(dtype, call.precision()), product)?)
}

/// `aten::special_chebyshev_polynomial_t`: the polynomial of a degree, which is truncated; 0 for
/// negative degrees. Integers and bools become floats; halves and complex numbers are refused.
fn special_chebyshev_polynomial_t(call: &Call<'_>) -> Answer {
    let (x, degree) = (operand(call, 0)?, operand(call, 1)?);
    let dtype = to_float_arithmetic(common(&x, &degree));
    if !matches!(dtype, DType::Float | DType::Double) {
        return Err(not_implemented("chebyshev_polynomial_t_cpu", dtype));
    }
    let rounded = |y: f64| if dtype == DType::Float { f64::from(y as f32) } else { y };
    let value = |x: f64, degree: f64| chebyshev(x, degree, rounded);
    one(both(&x, &degree, Types::same(dtype, call.precision()), value)?)
}

/// The least degree for which no steps are taken, which are as many as the degree.
const MANY: i64 = 1_000_000;

/// Like eager mode, by cosines within the unit interval and by steps outside of it; NaN as a degree
/// is the least integer there. Steps overflow where those of the element type do: to
/// infinity, and to NaN in the next.
fn chebyshev(x: f64, degree: f64, rounded: impl Fn(f64) -> f64) -> f64 {
    let n = degree as i64;
    let sign = if x > 0.0 || n % 2 == 0 { 1.0 } else { -1.0 };
    match n {
        _ if n < 0 || degree.is_nan() => 0.0,
        _ if x.abs() == 1.0 => sign,
        0 => 1.0,
        1 => x,
        7.. if x.abs() < 1.0 => (degree.trunc() * x.acos()).cos(),
        MANY.. => match rounded(sign * (degree.trunc() * x.abs().acosh()).cosh()) {
            y if y.is_infinite() => f64::NAN,
            y => y,
        },
        _ => {
            let (mut last, mut now) = (1.0, x);
            for _ in 1..n {
                (last, now) = (now, rounded(2.0 * x * now - last));
                if now.is_nan() {
                    break;
                }
            }
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 4e-15 * expected.abs(), "{found}, not {expected}");
    }

    /// Values of PyTorch 2.15 in double precision.
    #[test]
    fn they_agree_with_eager_mode() {
        for (x, plain, scaled) in [
            (-0.5, 1.0634833707413236, 0.6450352704491501),
            (3.0, 4.880792585865024, 0.24300035416182536),
            (40.0, 1.48947747934199e+16, 0.06327827987523532),
            (100.0, 1.0737517071310738e+42, 0.03994437929909668),
        ] {
            near(bessel(0, x, false), plain);
            near(bessel(0, x, true), scaled);
        }
        near(bessel(1, -0.5, false), -0.25789430539089636);
        near(bessel(1, -700.0, false), -1.5285003902339006e+302);
        for (p, x) in [
            (1e-300, -37.0470962993612),
            (1e-5, -4.264890793922825),
            (0.3, -0.5244005127080409),
            (0.99, 2.3263478740408408),
        ] {
            near(ndtri(p), x);
        }
        for (x, logarithm) in [
            (-1e10, -5.000000000000001e+19),
            (-21.0, -224.4657158314145),
            (-19.0, -184.36612866916096),
            (0.5, -0.36894641528865635),
            (9.0, -1.1285884059538295e-19),
        ] {
            near(log_ndtr(x), logarithm);
        }
    }

    #[test]
    fn ends_are_as_in_eager_mode() {
        assert_eq!((ndtri(0.0), ndtri(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(ndtri(1.1).is_nan() && ndtri(f64::NAN).is_nan() && log_ndtr(f64::NAN).is_nan());
        assert!(bessel(0, f64::INFINITY, false).is_nan());
        assert_eq!(bessel(0, f64::INFINITY, true), 0.0);
    }
}
