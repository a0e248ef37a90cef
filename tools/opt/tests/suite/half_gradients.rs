//! Gradients of halves against what eager mode of PyTorch 2.15 computed:
//! `corpus/half_gradients.jsonl`, which
//! `tools/pytorch/half_gradients.py` recorded.
//!
//! Each line is a graph of one operator with operands in halves; its cases scale the operands to
//! either end of the range of float16 and of bfloat16, with incoming gradients of 1, 1024 and
//! 65504. Gradients are computed in four ways: by the interpreter from `differentiate{eager}`, as
//! `run --grads` does, by `@training` and its kernels, and from `differentiate{joint}` with types
//! and without. Infinities and NaN must be where eager mode has them, and finite numbers within a
//! few units in the last place.
//!
//! `JITOPT_HALF_CASES=FILE` takes another recording, `JITOPT_KIND` one overload, `JITOPT_WAY` one
//! way; then all differences are printed. `JITOPT_HALF_ALL=1` prints known ones, too.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::parallel;

use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::{Graph, Value as GraphValue};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::runtime::{CpuBackend, Settings};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::release::Release;
use jitopt_judge::differentials::{Differentials, INFERENCE, PREPARATION, give_types};
use jitopt_judge::tracing::{has_control_flow, trace};
use jitopt_passes::REGISTRY;
use serde_json::Value;
use std::collections::BTreeMap;

/// The ways to compute gradients.
const WAYS: [&str; 4] = ["eager", "training", "joint", "untyped joint"];
/// The tolerance in units in the last place, and relative to the largest gradient.
const UNITS: f64 = 4.0;
/// The factors of the incoming gradient, cyclically.
const PATTERN: [f64; 3] = [1.0, -0.5, 0.75];
/// A product of matrices is summed in float, which overflows for large bfloat16 numbers; the
/// interpreter sums in double.
const FLOAT_SUMS: &str = "sums of floats overflow inside eager mode's product of matrices";
/// Statistics of eager mode's kernel are floats that are updated element by element: the difference
/// of two large numbers is infinite.
const FLOAT_STATISTICS: &str = "statistics of floats overflow between large elements";
/// `trigamma` of a negative number divides by the square of a sine of floats, which is 0 or a
/// rounding error at multiples of pi.
const FLOAT_SINE: &str = "eager mode's sine of a multiple of pi is rounded to float";
/// oneDNN computes convolutions of bfloat16: it flushes subnormal numbers to 0, and its order of
/// sums decides where infinities meet.
const LIBRARY: &str = "oneDNN flushes subnormal numbers, and orders sums by the processor";
/// The formula in eager mode's order has eager mode's gradient if it is given eager mode's own
/// forward values (computed with PyTorch 2.15); the interpreter's values differ by a unit.
const FORWARD_UNIT: &str = "a unit of a forward value, which the gradient scales or cancels";
/// Eager mode multiplies into a result in halves, rounding after each factor, so that products
/// underflow that the interpreter represents.
const RUNNING_PRODUCT: &str = "a product that eager mode rounds after each factor";
/// The incoming gradient has the name of the operand `g`, which the formula recovers from the
/// result: 0 / 0 where squares underflow in float.
const RECOVERED: &str = "an operand is recovered from the rounded result";
/// Joint graphs without types request a gradient of the class weights, which have none.
const UNTYPED: &str = "a joint graph without types wants a gradient that no mode has";
/// Eager mode's kernel computes coordinates and weights in the half itself: the same steps in
/// float16 and bfloat16 have 22 of the 24 digits of its first gradient in PyTorch 2.15, those in
/// double 18 and 16. A coordinate of 0.996 between two elements then has a third of its digits.
const HALF_COORDINATES: &str = "eager mode rounds coordinates and weights to halves";
/// Overloads some of whose gradients differ from eager mode's, and why.
const KNOWN: &[(&str, &str)] = &[
    ("aten::special_i1e.", FORWARD_UNIT),
    ("aten::special_i0.", FORWARD_UNIT),
    ("aten::gru_cell.", FORWARD_UNIT),
    ("aten::log_softmax.int", FORWARD_UNIT),
    ("aten::_weight_norm.", RECOVERED),
    ("aten::cross_entropy_loss.", UNTYPED),
    ("aten::layer_norm.", FLOAT_STATISTICS),
    ("aten::group_norm.", FLOAT_STATISTICS),
    ("aten::digamma.", FLOAT_SINE),
    ("aten::rnn_tanh_cell.", FLOAT_SUMS),
    ("aten::rnn_relu_cell.", FLOAT_SUMS),
    ("aten::_convolution_mode.", LIBRARY),
    ("aten::conv1d.", LIBRARY),
    ("aten::conv1d.padding", LIBRARY),
    ("aten::conv3d.padding", LIBRARY),
    ("aten::conv_transpose1d.", LIBRARY),
    ("aten::conv_transpose3d.input", LIBRARY),
    ("aten::index_reduce.", RUNNING_PRODUCT),
    ("aten::grid_sampler_2d.", HALF_COORDINATES),
];

/// The exponents of two by which elements are scaled, cyclically.
fn exponents(scale: &str, dtype: DType) -> &'static [i32] {
    match (scale, dtype) {
        ("ordinary", _) => &[0],
        ("tiny", DType::Half) => &[-13],
        ("tiny", _) => &[-125],
        ("subnormal", DType::Half) => &[-19],
        ("subnormal", _) => &[-131],
        ("large", DType::Half) => &[15],
        ("large", _) => &[127],
        ("mixed", DType::Half) => &[0, -13, 15, -19, 0, 8, -8],
        _ => &[0, -125, 127, -131, 0, 8, -8],
    }
}

/// The number with these bits of a half.
fn number(bits: u16, dtype: DType) -> f64 {
    let (exponent_bits, fraction_bits) = if dtype == DType::Half { (5, 10) } else { (8, 7) };
    let exponent = i32::from(bits >> fraction_bits & ((1 << exponent_bits) - 1));
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let (least, most) = (2 - (1 << (exponent_bits - 1)), (1 << exponent_bits) - 1);
    let size = match exponent {
        0 => fraction * 2f64.powi(least),
        all if all == most => {
            if fraction == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        some => (1.0 + fraction) * 2f64.powi(some - 1 + least),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn numbers(hex: &str, dtype: DType) -> Vec<f64> {
    let digits = hex.as_bytes().chunks(4).map(|four| std::str::from_utf8(four).expect("digits"));
    digits.map(|four| number(u16::from_str_radix(four, 16).expect("digits"), dtype)).collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// One case of a line.
struct Case<'a> {
    line: &'a Value,
    dtype: DType,
    scale: &'a str,
    size: f64,
    wanted: Vec<Option<Vec<f64>>>,
}

impl<'a> Case<'a> {
    fn new(line: &'a Value, name: &'a str, wanted: &Value) -> Case<'a> {
        let words: Vec<&str> = name.split(' ').collect();
        let dtype = if words[0] == "half" { DType::Half } else { DType::BFloat16 };
        let wanted = list(wanted).iter().map(|one| one.as_str().map(|hex| numbers(hex, dtype))).collect();
        Case { line, dtype, scale: words[1], size: words[2].parse().expect("a number"), wanted }
    }

    fn inputs(&self) -> Vec<IValue> {
        let one = |(i, input): (usize, &Value)| {
            let shape: Vec<i64> = list(&input["shape"]).iter().filter_map(Value::as_i64).collect();
            let plain = |dtype| {
                let all: Vec<f64> = list(&input["values"]).iter().filter_map(Value::as_f64).collect();
                Tensor::of(&all, dtype, &shape, Precision::Typed).into()
            };
            match input["dtype"].as_str() {
                Some("Long") => return plain(DType::Long),
                Some("Bool") => return plain(DType::Bool),
                Some("Char") => return plain(DType::Char),
                _ => {}
            }
            let base = numbers(input["values"].as_str().unwrap_or_default(), DType::Half);
            let powers = exponents(self.scale, self.dtype);
            let scaled = base.iter().enumerate().map(|(k, x)| x * 2f64.powi(powers[(k + 3 * i) % powers.len()]));
            Tensor::of(&scaled.collect::<Vec<_>>(), self.dtype, &shape, Precision::Typed).into()
        };
        list(&self.line["inputs"]).iter().enumerate().map(one).collect()
    }

    /// The incoming gradients of differentiable results.
    fn given(&self, results: &[IValue]) -> Vec<IValue> {
        let idle = self.line["idle"].as_u64().unwrap_or(99) as usize;
        let one = |(i, result): (usize, &IValue)| match result.tensor() {
            Some(tensor) if tensor.dtype().is_float() && i < idle => {
                let all: Vec<f64> = (0..tensor.numel()).map(|k| PATTERN[k % 3] * self.size).collect();
                Tensor::of(&all, tensor.dtype(), tensor.shape(), Precision::Typed).into()
            }
            _ => IValue::Undefined,
        };
        results.iter().enumerate().map(one).collect()
    }

    /// The graph before differentiation; none where lists depend on a run.
    fn prepared(&self, is_typed: bool) -> Option<Graph> {
        let options = ParseOptions::of(Release::NEWEST);
        let mut graph = parse(self.line["graph"].as_str()?.as_bytes(), options).ok()?.graph;
        passed(&mut graph, PREPARATION).ok()?;
        let inputs = self.inputs();
        if has_control_flow(&graph) {
            graph = trace(&graph, &Environment::default(), &inputs).ok()?.graph;
            passed(&mut graph, PREPARATION).ok()?;
        }
        if is_typed {
            give_types(&mut graph, &inputs);
            passed(&mut graph, INFERENCE).ok()?;
        }
        Some(graph)
    }

    /// The gradients of varying operands; none if this way does not apply to the graph.
    fn gradients(&self, way: &str, kernels: &CpuBackend) -> Result<Option<Vec<IValue>>, String> {
        let Some(mut graph) = self.prepared(way != "untyped joint") else { return Ok(None) };
        let env = Environment::default();
        let Ok(results) = Machine::new(&graph, &env).run(self.inputs()) else { return Ok(None) };
        let given = self.given(&results);
        let found = match way {
            "eager" | "training" => {
                let has_all = !given.iter().any(|given| matches!(given, IValue::Undefined));
                if way == "training" && !has_all || graph.first(graph.root()).is_none() {
                    return Ok(None);
                }
                passed(&mut graph, if way == "eager" { "differentiate{eager}" } else { "@training" })?;
                let Some(both) = Differentials::of(&graph) else { return Ok(None) };
                let mut run = |graph: &Graph, inputs| match way {
                    "eager" => Machine::new(graph, &env).run(inputs),
                    _ => Machine::new(graph, &env).backed_by(kernels).run(inputs),
                };
                let forward = both.forward(&mut run, self.inputs()).map_err(|stop| format!("forward: {stop}"))?;
                both.backward(&mut run, both.operands(forward, &given)).map_err(|stop| format!("backward: {stop}"))?
            }
            _ => {
                if passed(&mut graph, "differentiate{joint}").is_err() {
                    return Ok(None);
                }
                let extra = graph.params(graph.root()).count() - self.inputs().len();
                let mut given: Vec<IValue> = given;
                if extra < given.len() {
                    given.retain(|given| !matches!(given, IValue::Undefined));
                }
                if extra != given.len() {
                    return Ok(None);
                }
                let inputs = self.inputs().into_iter().chain(given).collect();
                let all = Machine::new(&graph, &env).run(inputs).map_err(|stop| format!("joint: {stop}"))?;
                return Ok(Some(self.of_joint(&graph, results.len(), all)));
            }
        };
        let varies: Vec<bool> = list(&self.line["inputs"]).iter().map(|input| input["varies"] == true).collect();
        Ok(Some(found.into_iter().zip(varies).filter(|(_, varies)| *varies).map(|(found, _)| found).collect()))
    }

    /// The gradients of varying operands from a joint graph, if all have one.
    fn of_joint(&self, graph: &Graph, results: usize, all: Vec<IValue>) -> Vec<IValue> {
        let inputs = list(&self.line["inputs"]);
        let params: Vec<GraphValue> = graph.params(graph.root()).take(inputs.len()).collect();
        let reals = params.iter().zip(&inputs).filter(|(param, input)| {
            let known = graph.ty(**param).as_tensor().and_then(|ty| ty.dtype);
            known.is_none_or(DType::is_float) || input["dtype"] == "Double"
        });
        let all: Vec<IValue> = all.into_iter().skip(results).collect();
        let of: Vec<&Value> = reals.map(|(_, input)| input).collect();
        if of.len() != all.len() {
            return Vec::new();
        }
        all.into_iter().zip(of).filter(|(_, input)| input["varies"] == true).map(|(one, _)| one).collect()
    }

    fn compare(&self, found: &[IValue]) -> Result<(), String> {
        for (i, (wanted, found)) in self.wanted.iter().zip(found).enumerate() {
            let (Some(wanted), Some(found)) = (wanted, found.tensor()) else { continue };
            let found: Vec<f64> = found.read();
            let unit = if self.dtype == DType::Half { 2f64.powi(-11) } else { 2f64.powi(-8) };
            let least = if self.dtype == DType::Half { 2f64.powi(-24) } else { 2f64.powi(-133) };
            for (k, (a, b)) in found.iter().zip(wanted).enumerate() {
                let near = (a - b).abs() <= 2.0 * UNITS * unit * b.abs() + 2.0 * least;
                if !(near || a == b || a.is_nan() && b.is_nan()) {
                    return Err(format!("gradient {i}, element {k} is {a:e}, in eager mode {b:e}"));
                }
            }
        }
        Ok(())
    }
}

fn passed(graph: &mut Graph, passes: &str) -> Result<(), String> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    run(graph, &pipeline, &mut Session::default(), &mut []).map(|_| ()).map_err(|error| error.to_string())
}

/// The number of gradients compared for one line, and the differences.
fn examine(text: &str) -> (usize, Vec<String>) {
    let line: Value = serde_json::from_str(text).expect("a line of JSON");
    let name = line["overload"].as_str().unwrap_or_default().to_owned();
    let settings = Settings { cc: std::env::var("CC").ok(), threads: Some(1), ..Settings::default() };
    let kernels = CpuBackend::new(settings);
    let only = std::env::var("JITOPT_WAY").ok();
    let (mut right, mut wrong) = (0, Vec::new());
    for (case, wanted) in line["cases"].as_object().expect("cases") {
        let of = Case::new(&line, case, wanted);
        // Kernels take a compiler: one case of every eighth overload is tested, unless they are
        // requested.
        let is_picked = only.is_some() || name.len().is_multiple_of(8);
        let has_kernels = case.contains("half mixed") && is_picked;
        for way in WAYS
            .iter()
            .filter(|way| has_kernels || **way != "training")
            .filter(|way| only.as_ref().is_none_or(|only| only == *way))
        {
            let compared = of.gradients(way, &kernels).and_then(|found| match found {
                Some(found) => of.compare(&found).map(|()| right += 1),
                None => Ok(()),
            });
            if let Err(why) = compared {
                wrong.push(format!("{name} | {way} | {case} | {why}"));
            }
        }
    }
    (right, wrong)
}

#[test]
fn gradients_of_halves_are_those_of_eager_mode() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/corpus/half_gradients.jsonl");
    let file = std::env::var("JITOPT_HALF_CASES").unwrap_or_else(|_| recorded.to_owned());
    let text = std::fs::read_to_string(file).expect("it stands in the tree");
    let only = std::env::var("JITOPT_KIND").ok();
    let is_wanted = |line: &&str| only.as_ref().is_none_or(|only| line.contains(&format!("\"{only}")));
    let lines: Vec<&str> = text.lines().filter(is_wanted).collect();
    let examined = parallel::each(&lines, |line| examine(line));
    let right: usize = examined.iter().map(|(right, _)| right).sum();
    let all = examined.iter().flat_map(|(_, wrong)| wrong);
    if std::env::var_os("JITOPT_HALF_ALL").is_some() {
        examined.iter().flat_map(|(_, wrong)| wrong).for_each(|why| println!("{why}"));
    }
    let is_known = |why: &&String| KNOWN.iter().any(|(known, _)| why.starts_with(&format!("{known} | ")));
    let (known, wrong): (Vec<&String>, Vec<&String>) = all.partition(is_known);
    let mut overloads: BTreeMap<&str, usize> = BTreeMap::new();
    for why in &wrong {
        *overloads.entry(why.split(" | ").next().unwrap_or_default()).or_default() += 1;
    }
    println!("{right} gradients of {} overloads; {} differences are known", lines.len(), known.len());
    let differs = |name: &str| known.iter().any(|why| why.starts_with(&format!("{name} | ")));
    let stale: Vec<&str> = KNOWN.iter().map(|(name, _)| *name).filter(|name| !differs(name)).collect();
    // Other recordings or a single overload do not cover all known differences.
    let is_whole = only.is_none() && std::env::var_os("JITOPT_HALF_CASES").is_none();
    assert!(!is_whole || stale.is_empty(), "differ no more: {stale:?}");
    let shown: Vec<&str> = wrong.iter().map(|why| why.as_str()).collect();
    assert!(wrong.is_empty(), "{} differ, of {overloads:?}:\n{}", wrong.len(), shown.join("\n"));
}
