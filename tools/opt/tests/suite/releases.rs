//! Compares the operator table's column about behaviour in earlier releases with recorded calls.
//!
//! `testdata/releases/calls.json` was recorded by `tools/pytorch/release_probe.py` in 14 releases.
//! The interpreter gives the same result in each release, and a result changes with a release if
//! and only if a row of the column covers it.

use crate::support::recorded_calls;

use jitopt_core::interpreter::{Environment, IValue, Machine, Reason};
use jitopt_core::ops::release_rules::RELEASE_ROWS;
use jitopt_core::tensor::Tensor;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::release::Release;
use recorded_calls::{copied, in_release, operand, release, releases, tensor};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

fn recorded() -> Json {
    recorded_calls::read("calls.json")
}

/// The operands in a schema after those of a call in Python.
fn rest(kind: &str, operands: usize) -> Option<&'static [&'static str]> {
    const NONE: &str = "NoneType = prim::Constant";
    const FALSE: &str = "bool = prim::Constant[value=0]";
    const ONE: &str = "int = prim::Constant[value=1]";
    const MEAN: &str = "int = prim::Constant[value=1]";
    Some(match (kind, operands) {
        ("aten::max" | "aten::min", 2) => &[],
        ("aten::argmax" | "aten::argmin", 1) => &[NONE, FALSE],
        ("aten::argmax" | "aten::argmin" | "aten::logsumexp", 2) => &[FALSE],
        ("aten::full", 2) => &[NONE, NONE, NONE, NONE],
        ("aten::sum" | "aten::prod" | "aten::mean", 1)
        | ("aten::cumsum" | "aten::cumprod" | "aten::softmax" | "aten::log_softmax", 2) => &[NONE],
        ("aten::addcdiv", 3) => &[ONE],
        ("aten::mse_loss" | "aten::l1_loss", 2) => &[MEAN],
        ("aten::add_", 2) => &[ONE],
        ("aten::threshold" | "aten::hardtanh" | "aten::clamp", 3) => &[],
        // Called from a graph, 1.3 and 1.4 return floats for integers.
        ("aten::arange", _) => return None,
        // Python chooses other operators, other operands or its own sizes.
        (
            "aten::linspace" | "aten::logspace" | "aten::full_like" | "aten::index" | "aten::nonzero" | "aten::tensor"
            | "aten::sort" | "aten::topk" | "aten::bincount" | "aten::histc" | "aten::norm" | "aten::dist"
            | "aten::cross" | "aten::isclose" | "aten::isfinite" | "aten::eye" | "aten::zeros" | "aten::zeros_like"
            | "aten::tril" | "aten::diag" | "aten::nll_loss" | "aten::clone" | "aten::std" | "aten::var" | "aten::elu"
            | "aten::softplus" | "aten::gelu" | "aten::ger" | "aten::all" | "aten::any",
            _,
        ) if !matches!(kind, "aten::all" | "aten::any") => return None,
        _ => &[],
    })
}

/// A graph of the call, and its inputs.
fn graph_of(call: &Json) -> Option<(String, Vec<IValue>)> {
    let kind = call["kind"].as_str()?;
    let given: Vec<(String, IValue)> = call["operands"].as_array()?.iter().map(operand).collect();
    let params: Vec<String> = given.iter().enumerate().map(|(i, (ty, _))| format!("%p{i} : {ty}")).collect();
    let mut names: Vec<String> = (0..given.len()).map(|i| format!("%p{i}")).collect();
    let mut lines = String::new();
    let is_dim = given.len() == 2 && given[1].0 == "int";
    let extreme = matches!(kind, "aten::max" | "aten::min") && is_dim;
    let more: &[&str] = if extreme { &["bool = prim::Constant[value=0]"] } else { rest(kind, given.len())? };
    for (i, constant) in more.iter().enumerate() {
        lines += &format!("  %c{i} : {constant}()\n");
        names.push(format!("%c{i}"));
    }
    let (results, back) = if extreme { ("%r : Tensor, %s : Tensor", "%r, %s") } else { ("%r : Tensor", "%r") };
    let (params, names) = (params.join(", "), names.join(", "));
    let text = format!("graph({params}):\n{lines}  {results} = {kind}({names})\n  return ({back})\n");
    Some((text, given.into_iter().map(|(_, value)| value).collect()))
}

fn shown(tensor: &Tensor) -> String {
    let values: Vec<String> = match tensor.dtype().is_float() {
        true => tensor.read::<f64>().iter().map(|x| format!("{x:?}")).collect(),
        false => tensor.read::<i64>().iter().map(|x| x.to_string()).collect(),
    };
    format!("{} {:?} {}", tensor.dtype().name(), tensor.shape(), values.join(" "))
}

/// Whether two results have the same words, and numbers that are equal to five digits and have the
/// same sign.
fn agree(a: &str, b: &str) -> bool {
    let close =
        |a: f64, b: f64| a == b && a.is_sign_negative() == b.is_sign_negative() || (a - b).abs() < 1e-5 * b.abs();
    let same = |(a, b): (&str, &str)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => close(a, b) || a.is_nan() && b.is_nan(),
        _ => a == b,
    };
    a.split(' ').count() == b.split(' ').count() && a.split(' ').zip(b.split(' ')).all(same)
}

fn expected(json: &Json) -> String {
    if json == "raises" {
        return "raises".into();
    }
    let results = json.get("results").and_then(Json::as_array).cloned().unwrap_or_else(|| vec![json.clone()]);
    let all: Option<Vec<String>> = results.iter().map(|result| tensor(result).map(|x| shown(&x))).collect();
    all.map_or_else(|| json.to_string(), |all| all.join("; "))
}

fn ours(text: &str, inputs: &[IValue], release: Release) -> String {
    let graph = parse(text.as_bytes(), ParseOptions::of(release)).unwrap_or_else(|why| panic!("{why:?}\n{text}")).graph;
    let inputs = inputs.iter().map(copied).collect();
    match Machine::new(&graph, &Environment::default()).run(inputs) {
        Err(stop) if matches!(stop.reason, Reason::Raised(_)) => "raises".into(),
        Err(stop) => format!("stops: {stop}"),
        Ok(results) => {
            let all: Vec<String> = results.iter().filter_map(IValue::tensor).map(shown).collect();
            all.join("; ")
        }
    }
}

#[test]
fn the_interpreter_matches_each_release() {
    let recorded = recorded();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for call in recorded["calls"].as_array().expect("calls") {
        let Some((text, inputs)) = graph_of(call) else { continue };
        for wanted in releases(&recorded) {
            let known = in_release(call, wanted);
            if known == "no operator" || known == "no operands" {
                continue;
            }
            let (found, known) = (ours(&text, &inputs, wanted), expected(&known));
            compared += 1;
            if !agree(&found, &known) {
                wrong.push(format!("{wanted} {} {}: {found}, PyTorch: {known}", call["call"], call["operands"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1500, "only {compared} calls were compared");
}

/// Releases with which the result of a recorded call changed, by kind.
fn changes(recorded: &Json) -> BTreeMap<String, BTreeSet<Release>> {
    let mut changes: BTreeMap<String, BTreeSet<Release>> = BTreeMap::new();
    for call in recorded["calls"].as_array().expect("calls") {
        let pairs = call["results"].as_array().expect("pairs");
        let is_known = |pair: &&Json| pair[1] != "no operator" && pair[1] != "no operands";
        let firsts = pairs.iter().filter(is_known).skip(1).map(|pair| release(&pair[0]));
        changes.entry(call["kind"].as_str().expect("a kind").to_owned()).or_default().extend(firsts);
    }
    changes
}

/// Changes for calls from graphs only; the recorded calls are from Python. Lit files have their
/// values, from scripts that the releases ran: `passes/shape_analysis/element_types_by_release.ir`,
/// `interpreter/quantized_linear_of_batches.ir` and `interpreter/quantized_lstm.ir`.
const CALLED_FROM_GRAPHS: &[&str] = &[
    "aten::arange",
    "quantized::linear_dynamic",
    "quantized::linear_relu_dynamic",
    "_quantized::linear_dynamic",
    "aten::quantized_lstm",
    "aten::quantized_gru",
    "quantized::quantized_lstm_cell_dynamic",
    "quantized::quantized_gru_cell_dynamic",
    "quantized::quantized_rnn_tanh_cell_dynamic",
    "quantized::quantized_rnn_relu_cell_dynamic",
];

#[test]
fn rows_and_recorded_changes_are_the_same() {
    let recorded = recorded();
    let ran = releases(&recorded);
    let seen_at = |boundary: Release| ran.iter().copied().find(|&release| release >= boundary);
    let mut reported: BTreeMap<String, BTreeSet<Release>> = BTreeMap::new();
    for row in RELEASE_ROWS {
        for kind in row.kinds.split_whitespace() {
            reported.entry(kind.to_owned()).or_default().extend(row.boundaries().filter_map(seen_at));
        }
    }
    for kind in CALLED_FROM_GRAPHS {
        assert!(reported.remove(*kind).is_some(), "{kind} has no row");
    }
    let mut found = changes(&recorded);
    found.retain(|_, releases| !releases.is_empty());
    assert_eq!(reported, found);
}
