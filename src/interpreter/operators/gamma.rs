//! The derivatives of the logarithm of the gamma function.

use super::elements::check;
use super::pointwise::floats_of;
use crate::interpreter::call::{Answer, Call, Row};
use std::f64::consts::PI;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::digamma", |call| floats_of(call, &call.tensor("self")?, "digamma", digamma)),
    ("aten::polygamma", polygamma),
];

/// The derivative of the logarithm of the gamma function: recurrence up to 10, then the asymptotic
/// series (Abramowitz and Stegun 6.3.18). At a zero it is minus infinity for +0 and infinity for
/// -0, as in PyTorch; NaN at negative integers.
fn digamma(mut x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    let mut result = 0.0;
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        // The fractional part keeps its precision near 0.
        result = -PI / (PI * x.fract()).tan();
        x = 1.0 - x;
    }
    while x < 10.0 {
        result -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = z
        * (1.0 / 12.0
            - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (5.0 / 660.0 - z * 691.0 / 32760.0)))));
    result + x.ln() - 0.5 / x - series
}

fn polygamma(call: &Call) -> Answer {
    let n = call.int("n")?;
    check(n >= 0, || "polygamma(n, x) does not support negative n.".to_owned())?;
    let x = call.tensor("self")?;
    match n {
        0 => floats_of(call, &x, "digamma", digamma),
        1 => floats_of(call, &x, "trigamma", trigamma),
        _ => floats_of(call, &x, "polygamma", |x| higher(n as f64, x)),
    }
}

/// By reflection below 1/2, where PyTorch rounds in the same way: at negative integers the result
/// is large, not infinite.
fn trigamma(x: f64) -> f64 {
    if x < 0.5 {
        let sine = (PI * x).sin();
        return PI * PI / (sine * sine) - tail_sum(2.0, 1.0 - x);
    }
    tail_sum(2.0, x)
}

/// The derivatives of higher order than the second: the sum of `(x + k)^-(n + 1)`, which is
/// infinite if a term is, times `(-1)^(n + 1) n!`. PyTorch sums past 0 if x is negative, and gives
/// NaN at infinity.
fn higher(n: f64, x: f64) -> f64 {
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    let sum = match x {
        _ if x <= 0.0 && x == x.floor() => f64::INFINITY,
        _ if x.is_infinite() => f64::NAN,
        // Terms further below 0 are negligible.
        _ if x < -1e6 => tail_sum(n + 1.0, x - x.floor() - 1e6),
        _ => tail_sum(n + 1.0, x),
    };
    sign * libm::tgamma(n + 1.0) * sum
}

/// The sum of `(x + k)^-s` over all k >= 0: the first terms, and the Euler-Maclaurin formula for
/// the rest.
pub(super) fn tail_sum(s: f64, mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 12.0 {
        sum += x.powf(-s);
        x += 1.0;
    }
    if !x.is_finite() {
        return if x.is_nan() { x } else { sum };
    }
    // Bernoulli numbers over factorials, of 2, 4, ….
    const PARTS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3_617.0 / 10_670_622_842_880_000.0,
    ];
    let last = x.powf(-s);
    sum += last * (x / (s - 1.0) + 0.5);
    let mut term = last * s / x;
    for (j, part) in PARTS.iter().enumerate() {
        sum += part * term;
        let next = 2.0 * j as f64 + s;
        term *= (next + 1.0) * (next + 2.0) / (x * x);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of PyTorch 2.15, whose `trigamma` is accurate to nine digits.
    #[test]
    fn derivatives_agree_with_eager_mode() {
        let known: &[(f64, f64, f64)] = &[
            (1.0, -0.5, 8.934802200117687),
            (1.0, 0.25, 17.19732915341456),
            (1.0, 30.0, 0.03389506035774027),
            (1.0, -1.0, 6.580790147320947e+32),
            (2.0, -1.5, -0.23620405164172825),
            (2.0, 2.5, -0.23620405164172736),
            (3.0, -0.25, 1555.7633125348507),
            (4.0, 1.0, -24.886266123440894),
            (4.0, 30.0, -7.914941340181023e-06),
        ];
        for &(n, x, expected) in known {
            let (found, near) = if n == 1.0 { (trigamma(x), 1e-9) } else { (higher(n, x), 1e-12) };
            assert!((found - expected).abs() <= near * expected.abs(), "{n} at {x}: {found}, not {expected}");
        }
        assert!((trigamma(1.5) - (PI * PI / 2.0 - 4.0)).abs() < 1e-15);
        assert_eq!((trigamma(0.0), trigamma(f64::INFINITY)), (f64::INFINITY, 0.0));
        assert_eq!((higher(2.0, 0.0), higher(3.0, -1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(
            [trigamma(f64::NEG_INFINITY), trigamma(f64::NAN), higher(2.0, f64::INFINITY)].iter().all(|x| x.is_nan())
        );
    }
}
