//! Measures the accuracy of the kernels' vector mathematics against double-precision references.
//!
//! Each operator is compiled as a group of its own and run on every n-th bit pattern. The error is
//! counted in units in the last place of the result (ULP); errors of subnormal results are counted
//! in units of the smallest positive number. The reference is the `libm` crate in double precision:
//! its error is below half a unit of a double, which adds to the errors shown for doubles.

use anyhow::{Result, anyhow, bail};
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::Tensor;
use jitopt_core::tensor::buffer::Typed;
use jitopt_core::text::{ParseOptions, parse};

/// A function of one or two numbers, and its claimed error bound.
struct Row {
    operator: &'static str,
    exact: Exact,
    /// In ULP, for floats and for doubles.
    bounds: (f64, f64),
}

#[derive(Clone, Copy)]
enum Exact {
    One(fn(f64) -> f64),
    Two(fn(f64, f64) -> f64),
}

const fn one(operator: &'static str, exact: fn(f64) -> f64, float: f64, double: f64) -> Row {
    Row { operator, exact: Exact::One(exact), bounds: (float, double) }
}

const fn two(operator: &'static str, exact: fn(f64, f64) -> f64, float: f64, double: f64) -> Row {
    Row { operator, exact: Exact::Two(exact), bounds: (float, double) }
}

/// The claimed bounds.
const ROWS: &[Row] = &[
    one("exp", libm::exp, 1.1, 1.5),
    one("expm1", libm::expm1, 1.8, 2.5),
    one("log", libm::log, 1.5, 2.0),
    one("log1p", libm::log1p, 0.51, 2.5),
    one("log2", libm::log2, 0.51, 3.0),
    one("log10", libm::log10, 0.51, 3.0),
    one(
        "sigmoid",
        |x| if x < 0.0 { libm::exp(x) / (1.0 + libm::exp(x)) } else { 1.0 / (1.0 + libm::exp(-x)) },
        3.0,
        4.0,
    ),
    one(
        "silu",
        |x| if x < 0.0 { x * (libm::exp(x) / (1.0 + libm::exp(x))) } else { x / (1.0 + libm::exp(-x)) },
        3.0,
        f64::INFINITY,
    ),
    one("tanh", libm::tanh, 3.0, 4.0),
    one("sinh", libm::sinh, 0.51, 4.0),
    one("cosh", libm::cosh, 0.51, 4.0),
    one("sin", libm::sin, 0.51, 3.0),
    one("cos", libm::cos, 0.51, 3.0),
    one("tan", libm::tan, 0.51, 5.0),
    one("asin", libm::asin, 0.51, 3.0),
    one("acos", libm::acos, 0.51, 3.0),
    one("atan", libm::atan, 0.51, 3.0),
    one("asinh", libm::asinh, 0.51, 3.0),
    // The `libm` crate returns numbers for many arguments below 0.
    one("acosh", |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 0.51, 3.0),
    one("atanh", libm::atanh, 0.51, 3.0),
    one("erf", libm::erf, 3.0, 3.0),
    one("erfc", libm::erfc, 0.51, 8.0),
    one("lgamma", libm::lgamma, 3.0, f64::INFINITY),
    one("sqrt", f64::sqrt, 0.51, 0.51),
    one("rsqrt", |x| 1.0 / x.sqrt(), 1.5, 2.0),
    one("reciprocal", |x| 1.0 / x, 0.51, 0.51),
    one("floor", f64::floor, 0.0, 0.0),
    one("ceil", f64::ceil, 0.0, 0.0),
    one("trunc", f64::trunc, 0.0, 0.0),
    one("round", f64::round_ties_even, 0.0, 0.0),
    // The `libm` crate returns 0 for subnormal results.
    two("pow", f64::powf, 0.51, 4.0),
    two("atan2", libm::atan2, 0.51, 3.0),
    two("hypot", libm::hypot, 0.51, 1.5),
    two("fmod", |x, y| x % y, 0.0, 0.0),
    two("remainder", remainder, 0.51, 0.51),
];

fn remainder(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

/// The measured errors of one function.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The operator.
    pub operator: &'static str,
    /// `float` or `double`.
    pub dtype: &'static str,
    /// The largest error of normal results, in ULP, and its arguments.
    pub worst: (f64, f64, f64),
    /// The mean error.
    pub mean: f64,
    /// Number of results with an error of at most 0.5, 1, 2 and 3 ULP, and of more, each counted
    /// once.
    pub spread: [u64; 5],
    /// The largest error of subnormal results, in units of the smallest positive number.
    pub small: f64,
    /// Number of wrong NaNs, infinities and signs of zero, and the arguments of the first one.
    pub special: (u64, f64, f64),
    /// The claimed bound of `worst`.
    pub bound: f64,
    count: u64,
    total: f64,
}

impl Found {
    /// Whether the claim holds: normal results within the bound, subnormal ones within the bound
    /// plus one unit, special values correct.
    pub fn holds(&self) -> bool {
        self.worst.0 <= self.bound && self.small <= self.bound.max(1.0) + 0.5 && self.special.0 == 0
    }
}

/// An element type.
trait Number: Typed {
    const NAME: &'static str;
    const DIGITS: i32;
    const LEAST_EXPONENT: i32;
    const MAX: f64;
    fn of_double(x: f64) -> Self;
    fn double(self) -> f64;
    fn of_seed(n: u64) -> Self;
}

impl Number for f32 {
    const NAME: &'static str = "float";
    const DIGITS: i32 = 23;
    const LEAST_EXPONENT: i32 = -126;
    const MAX: f64 = f32::MAX as f64;
    fn of_double(x: f64) -> f32 {
        x as f32
    }
    fn double(self) -> f64 {
        f64::from(self)
    }
    fn of_seed(n: u64) -> f32 {
        f32::from_bits(n as u32)
    }
}

impl Number for f64 {
    const NAME: &'static str = "double";
    const DIGITS: i32 = 52;
    const LEAST_EXPONENT: i32 = -1022;
    const MAX: f64 = f64::MAX;
    fn of_double(x: f64) -> f64 {
        x
    }
    fn double(self) -> f64 {
        self
    }
    /// Half of the numbers have exponents near 0, where most functions are not constant.
    fn of_seed(n: u64) -> f64 {
        let n = scrambled(n);
        match n & 1 {
            0 => f64::from_bits(n),
            _ => f64::from_bits((n & 0x800f_ffff_ffff_ffff) | (1023 - 24 + scrambled(n) % 36) << 52),
        }
    }
}

/// A hash that depends on all bits of its argument (Steele and others, "Fast splittable
/// pseudorandom number generators", 2014).
fn scrambled(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Arguments that each function is always tested on.
const SPECIAL: [f64; 28] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.0,
    2.5,
    3.0,
    -2.0,
    -3.0,
    1e-40,
    -1e-40,
    1e-45,
    88.7,
    -87.5,
    -103.9,
    89.5,
    -104.5,
    1e30,
    -1e30,
    8388609.0,
    // 10^308.3 is just beyond the range of doubles.
    10.0,
    308.3,
];

/// Measures functions whose names contain a text, on every `step`-th float, and on as many doubles.
/// `cc` is the compiler to try first.
pub fn measure(wanted: &str, step: u64, cc: Option<String>) -> Result<Vec<Found>> {
    let backend = CpuBackend::new(Settings { cc, ..Settings::default() });
    let mut all = Vec::new();
    for row in ROWS.iter().filter(|row| row.operator.contains(wanted)) {
        all.push(found::<f32>(row, row.bounds.0, step, &backend)?);
        all.push(found::<f64>(row, row.bounds.1, step, &backend)?);
    }
    if all.is_empty() {
        bail!("no function is called {wanted}");
    }
    Ok(all)
}

/// Elements per launch.
const BATCH: usize = 1 << 20;

fn found<T: Number>(row: &Row, bound: f64, step: u64, backend: &CpuBackend) -> Result<Found> {
    let mut found = Found { operator: row.operator, dtype: T::NAME, bound, ..Found::default() };
    let total = (1u64 << 32).div_ceil(step);
    let special: Vec<(f64, f64)> = SPECIAL.iter().flat_map(|&x| SPECIAL.map(|y| (x, y))).collect();
    batch::<T>(row, &special, &mut found, backend)?;
    let mut at = 0;
    while at < total {
        let n = (total - at).min(BATCH as u64);
        let pair = |i: u64| {
            let seed = (at + i).wrapping_mul(step);
            (T::of_seed(seed).double(), T::of_seed(scrambled(seed)).double())
        };
        let points: Vec<(f64, f64)> = (0..n).map(pair).collect();
        batch::<T>(row, &points, &mut found, backend)?;
        at += n;
    }
    found.mean = found.total / found.count.max(1) as f64;
    Ok(found)
}

fn batch<T: Number>(row: &Row, points: &[(f64, f64)], found: &mut Found, backend: &CpuBackend) -> Result<()> {
    let column = |f: fn(&(f64, f64)) -> f64| -> Vec<T> { points.iter().map(|point| T::of_double(f(point))).collect() };
    let (xs, ys) = (column(|point| point.0), column(|point| point.1));
    let results = run(row, &xs, &ys, backend)?;
    for ((x, y), result) in xs.iter().zip(&ys).zip(results) {
        let (x, y) = (x.double(), y.double());
        let exact = match row.exact {
            Exact::One(f) => f(x),
            Exact::Two(f) => f(x, y),
        };
        judge::<T>(found, (x, y), exact, result.double());
    }
    Ok(())
}

fn judge<T: Number>(found: &mut Found, (x, y): (f64, f64), exact: f64, result: f64) {
    let rounded = T::of_double(exact).double();
    let wrong_zero = exact == 0.0 && (result != 0.0 || result.is_sign_negative() != exact.is_sign_negative());
    // At the end of the range one step decides between a finite number and infinity.
    let edge = exact.is_finite() && exact.abs() > T::MAX * (1.0 - 4.0 * 0.5f64.powi(T::DIGITS));
    let wrong_kind = rounded.is_nan() != result.is_nan() || (!edge && rounded.is_infinite() && result != rounded);
    if wrong_zero || wrong_kind || (!edge && result.is_infinite() && !rounded.is_infinite()) {
        if found.special.0 == 0 {
            (found.special.1, found.special.2) = (x, y);
        }
        found.special.0 += 1;
        return;
    }
    if !rounded.is_finite() || !result.is_finite() || exact == 0.0 {
        return;
    }
    let exponent = libm::ilogb(exact).max(T::LEAST_EXPONENT);
    let error = libm::scalbn((result - exact).abs(), T::DIGITS - exponent);
    if libm::ilogb(exact) < T::LEAST_EXPONENT {
        found.small = found.small.max(error);
        return;
    }
    found.count += 1;
    found.total += error;
    // The double-precision reference is itself rounded: an error of half a unit is counted as
    // exact.
    found.spread[[0.501, 1.0, 2.0, 3.0].iter().position(|&most| error <= most).unwrap_or(4)] += 1;
    if error > found.worst.0 {
        found.worst = (error, x, y);
    }
}

/// Runs an operator as a group of its own.
fn run<T: Number>(row: &Row, xs: &[T], ys: &[T], backend: &CpuBackend) -> Result<Vec<T>> {
    let (params, outer, operands) = match row.exact {
        Exact::One(_) => ("%a : Tensor", "%x : Tensor", "%x"),
        Exact::Two(_) => ("%a : Tensor, %b : Tensor", "%x : Tensor, %y : Tensor", "%x, %y"),
    };
    let inner = operands.replace('x', "a").replace('y', "b");
    let text = format!(
        "graph({outer}):\n  %r : Tensor = prim::FusionGroup_0({operands})\n  return (%r)\nwith prim::FusionGroup_0 = graph({params}):\n  %s : Tensor = aten::{}({inner})\n  return (%s)\n",
        row.operator
    );
    let parsed = parse(text.as_bytes(), ParseOptions::default())
        .map_err(|_| anyhow!("cannot parse the graph of {}:\n{text}", row.operator))?;
    let tensor = |numbers: &[T]| IValue::Tensor(Tensor::from_elements(numbers.to_vec(), &[numbers.len() as i64]));
    let inputs = match row.exact {
        Exact::One(_) => vec![tensor(xs)],
        Exact::Two(_) => vec![tensor(xs), tensor(ys)],
    };
    let env = Environment::default();
    let before = backend.counts().launched;
    let results = Machine::new(&parsed.graph, &env).backed_by(backend).run(inputs);
    let results = results.map_err(|stop| anyhow!("{}: {stop}", row.operator))?;
    if backend.counts().launched == before {
        bail!("{}: {}", row.operator, backend.remarks().join("; "));
    }
    let tensor =
        results.first().and_then(IValue::tensor).ok_or_else(|| anyhow!("{} does not return a tensor", row.operator))?;
    let storage = tensor.storage().read();
    let elements = T::slice(&storage).ok_or_else(|| anyhow!("{} returns another element type", row.operator))?;
    Ok(elements[tensor.offset()..][..tensor.numel()].to_vec())
}

/// A percentage, with enough digits to distinguish few from none.
fn percent(n: u64, of: u64) -> String {
    match n {
        0 => String::new(),
        _ if n == of => "100".to_owned(),
        _ => format!("{:.4}", n as f64 * 100.0 / of as f64),
    }
}

/// The table.
pub fn table(all: &[Found]) -> String {
    let mut text = String::from(
        "| function | type | max ULP | at | mean ULP | bound | to 0.5 | to 1 | to 2 | to 3 | beyond | below the normal range | special values wrong |\n\
         | --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for found in all {
        let (worst, x, y) = found.worst;
        let is_two = ROWS.iter().any(|row| row.operator == found.operator && matches!(row.exact, Exact::Two(_)));
        let place = |x: f64, y: f64| if is_two { format!("{x:e}, {y:e}") } else { format!("{x:e}") };
        let special = match found.special {
            (0, ..) => "none".to_owned(),
            (n, x, y) => format!("{n}, first at {}", place(x, y)),
        };
        text += &format!(
            "| {} | {} | {worst:.2} | {} | {:.3} | {} | {} | {:.2} | {special} |\n",
            found.operator,
            found.dtype,
            if worst > 0.0 { place(x, y) } else { String::new() },
            found.mean,
            found.bound,
            found.spread.map(|n| percent(n, found.count)).join(" | "),
            found.small
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Additional compiler flags: none, for AVX2 vectors only, and for baseline processors.
    const PROCESSORS: &[&str] =
        if cfg!(target_arch = "x86_64") { &["", "-mno-avx512f", "-march=x86-64"] } else { &[""] };

    /// A few thousand arguments per function; the `accuracy` command measures more.
    #[test]
    fn functions_are_as_exact_as_is_claimed() {
        let cc = std::env::var("CC").unwrap_or("cc".to_owned());
        for options in PROCESSORS {
            let all = measure("", 100_003, Some(format!("{cc} {options}"))).expect("there is a C compiler");
            let wrong: Vec<Found> = all.into_iter().filter(|found| !found.holds()).collect();
            assert!(wrong.is_empty(), "{options}\n{}", table(&wrong));
        }
    }
}
