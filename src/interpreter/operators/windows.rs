//! Window functions for signals.

use crate::interpreter::call::{Answer, Call, Row, one};
use crate::interpreter::stop::Stop;
use crate::tensor::layout;
use std::f64::consts::TAU;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::hann_window", |call| window(call, |x| 0.5 - 0.5 * (TAU * x).cos())),
    ("aten::hamming_window", hamming),
    ("aten::blackman_window", |call| window(call, |x| 0.42 - 0.5 * (TAU * x).cos() + 0.08 * (2.0 * TAU * x).cos())),
    ("aten::bartlett_window", |call| window(call, |x| 1.0 - (2.0 * x - 1.0).abs())),
    ("aten::kaiser_window", kaiser),
];

/// `f` at equally spaced positions from 0 to 1; a periodic window omits the last.
fn window(call: &Call, f: impl Fn(f64) -> f64) -> Answer {
    let (n, short) = (call.int("window_length")?, call.kind().as_str().trim_start_matches("aten::"));
    if n < 0 {
        return Err(Stop::raised(format!("{short} requires non-negative window_length, got window_length={n}")));
    }
    layout::checked(&[n])?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(call.env.default_dtype());
    if !dtype.is_float() && !dtype.is_complex() {
        return Err(Stop::raised(format!("{short} expects floating point dtypes, got: {}", dtype.name())));
    }
    let is_periodic = call.look("periodic").is_none() || call.bool("periodic")?;
    let steps = if is_periodic { n } else { n - 1 } as f64;
    let numbers: Vec<f64> = if n == 1 { vec![1.0] } else { (0..n).map(|i| f(i as f64 / steps)).collect() };
    let made = call.made(&numbers, dtype, &[n]);
    one(match call.opt_device("device") {
        Some(device) => made.on(device),
        None => made,
    })
}

fn hamming(call: &Call) -> Answer {
    let alpha = if call.look("alpha").is_some() { call.float("alpha")? } else { 0.54 };
    let beta = if call.look("beta").is_some() { call.float("beta")? } else { 0.46 };
    window(call, |x| alpha - beta * (TAU * x).cos())
}

fn kaiser(call: &Call) -> Answer {
    let beta = if call.look("beta").is_some() { call.float("beta")? } else { 12.0 };
    window(call, |x| bessel(beta * (1.0 - (2.0 * x - 1.0) * (2.0 * x - 1.0)).max(0.0).sqrt()) / bessel(beta))
}

/// The modified Bessel function of order 0, by its power series: all terms have the same sign.
fn bessel(x: f64) -> f64 {
    let (quarter, mut term, mut sum) = (x * x / 4.0, 1.0, 1.0);
    for k in 1..1000 {
        term *= quarter / f64::from(k * k);
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}
