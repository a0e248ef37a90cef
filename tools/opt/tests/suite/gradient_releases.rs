//! Compares gradients by release with gradients that the releases computed.
//!
//! `testdata/releases/gradients.json` was recorded by `tools/pytorch/gradient_probe.py`: small
//! calls at ties, bounds, zeros, infinities and NaN. In each release the gradients of
//! `differentiate{eager}` must equal the recorded ones.

use crate::support::recorded_calls;

use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::release::Release;
use jitopt_judge::differentials::Differentials;
use jitopt_passes::REGISTRY;
use recorded_calls::{copied, elements, in_release, number, operand, releases};
use serde_json::Value as Json;

/// The incoming gradients, cyclically.
const PATTERN: [f64; 3] = [1.0, -0.5, 0.75];

/// Calls whose gradients differ from those of some releases, by kind and a part of the operands,
/// with the reason.
const KNOWN: &[(&str, &str, &str)] = &[
    ("aten::det", "[2.0,4.0]", "the gradient of a singular matrix is refused, in all releases"),
    ("aten::kthvalue", "", "of equal elements 1.3 to 1.5 pick another one: the forward index differs"),
    ("aten::median", "1,false", "of equal elements releases up to 1.7 pick another one: the forward index differs"),
    ("aten::lgamma", "", "up to 1.7 `digamma` is infinite at all poles"),
    ("aten::logcumsumexp", "", "1.6 to 1.8 compute a wrong gradient"),
    ("aten::var", "3.0", "of one element 1.13 has infinity, earlier and later releases NaN"),
];

/// The operands in a schema after those of a call in Python.
fn rest(kind: &str, operands: usize) -> &'static [&'static str] {
    const NONE: &str = "NoneType = prim::Constant";
    const FALSE: &str = "bool = prim::Constant[value=0]";
    const ONE: &str = "int = prim::Constant[value=1]";
    const ZERO: &str = "int = prim::Constant[value=0]";
    const EMPTY: &str = "int[] = prim::Constant[value=[0, 0]]";
    const ONES: &str = "int[] = prim::Constant[value=[1, 1]]";
    match (kind, operands) {
        ("aten::prod" | "aten::mean", 1) | ("aten::logit", 1) => &[NONE],
        ("aten::prod", 3) | ("aten::cumprod" | "aten::softmax" | "aten::log_softmax", 2) => &[NONE],
        ("aten::nansum", 1) => &[NONE, FALSE, NONE],
        ("aten::nan_to_num", 1) => &[NONE, NONE, NONE],
        ("aten::cdist", 3) | ("aten::avg_pool2d", 6) => &[NONE],
        ("aten::multi_margin_loss", 4) => &[NONE, ONE],
        // Called from Python these have no reduction operand.
        ("aten::binary_cross_entropy", 2) => &[NONE, ZERO],
        ("aten::binary_cross_entropy_with_logits", 2) => &[NONE, NONE, ZERO],
        ("aten::addcdiv", 3) => &[ONE],
        ("aten::kl_div", 3) | ("aten::gather", 3) => &[FALSE],
        ("aten::max_pool2d", 3) => &[EMPTY, ONES, FALSE],
        _ => &[],
    }
}

/// A graph of the call, and its inputs; none in releases whose schema has other operands.
fn graph_of(call: &Json, release: Release) -> Option<(Graph, Vec<IValue>)> {
    let kind = call["kind"].as_str()?;
    let given: Vec<(String, IValue)> = call["operands"].as_array()?.iter().map(operand).collect();
    let params: Vec<String> = given.iter().enumerate().map(|(i, (ty, _))| format!("%p{i} : {ty}")).collect();
    let mut names: Vec<String> = (0..given.len()).map(|i| format!("%p{i}")).collect();
    let mut lines = String::new();
    let more: &[&str] = match kind {
        // Later releases have a last operand, `log_target`.
        "aten::kl_div" if release < Release(1, 6) => &[],
        "aten::cdist" if release < Release(1, 4) => &[],
        "aten::nansum" if release < Release(1, 12) => &["NoneType = prim::Constant"],
        _ => rest(kind, given.len()),
    };
    for (i, constant) in more.iter().enumerate() {
        lines += &format!("  %c{i} : {constant}()\n");
        names.push(format!("%c{i}"));
    }
    let has_two = matches!(kind, "aten::max" | "aten::min" | "aten::median") && given.len() == 3
        || matches!(kind, "aten::mode" | "aten::kthvalue" | "aten::sort" | "aten::topk")
        || matches!(kind, "aten::cummax" | "aten::cummin" | "aten::std_mean" | "aten::adaptive_max_pool2d");
    let (results, back) = if has_two { ("%r : Tensor, %s : Tensor", "%r, %s") } else { ("%r : Tensor", "%r") };
    let (params, names) = (params.join(", "), names.join(", "));
    let text = format!("graph({params}):\n{lines}  {results} = {kind}({names})\n  return ({back})\n");
    let graph = parse(text.as_bytes(), ParseOptions::of(release)).ok()?.graph;
    Some((graph, given.into_iter().map(|(_, value)| value).collect()))
}

/// The gradients of the operands in a release; none if the release lacks the operator.
fn ours(call: &Json, release: Release) -> Result<Option<Vec<IValue>>, String> {
    let Some((mut graph, inputs)) = graph_of(call, release) else { return Ok(None) };
    let env = Environment::default();
    let Ok(results) = Machine::new(&graph, &env).run(inputs.iter().map(copied).collect()) else { return Ok(None) };
    let given: Vec<IValue> = results.iter().map(given_for).collect();
    let pipeline = Pipeline::parse("differentiate{eager}", &REGISTRY).expect("a pipeline");
    match run(&mut graph, &pipeline, &mut Session::default(), &mut []).map_err(|why| why.to_string()) {
        Err(why) if why.contains("has no gradient formula") => return Ok(None),
        other => other?,
    };
    let Some(both) = Differentials::of(&graph) else { return Err("nothing is differentiated".to_owned()) };
    let mut run = |graph: &Graph, inputs| Machine::new(graph, &env).run(inputs);
    let forward = both.forward(&mut run, inputs).map_err(|stop| format!("forward: {stop}"))?;
    let found = both.backward(&mut run, both.operands(forward, &given));
    found.map(Some).map_err(|stop| format!("backward: {stop}"))
}

fn given_for(result: &IValue) -> IValue {
    match result.tensor() {
        Some(tensor) if tensor.dtype().is_float() => {
            let all: Vec<f64> = (0..tensor.numel()).map(|k| PATTERN[k % 3]).collect();
            Tensor::of(&all, tensor.dtype(), tensor.shape(), Precision::Typed).into()
        }
        _ => IValue::Undefined,
    }
}

/// Numbers that are equal to five digits; recorded zeros have no sign.
fn agree(found: &[f64], known: &[f64]) -> bool {
    let same = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-5 * b.abs() || a.is_nan() && b.is_nan();
    found.len() == known.len() && found.iter().zip(known).all(same)
}

/// The differences between ours and the recorded gradients of a release, and the number of
/// gradients compared.
fn compare(call: &Json, release: Release) -> Result<usize, String> {
    let known = in_release(call, release);
    let Some(known) = known.as_array() else { return Ok(0) };
    let Some(found) = ours(call, release)? else { return Ok(0) };
    let is_varying = |operand: &&(Json, IValue)| operand.1.tensor().is_some_and(|x| x.dtype() == DType::Double);
    let operands = call["operands"].as_array().expect("operands").iter();
    let operands: Vec<(Json, IValue)> = operands.map(|json| (json.clone(), operand(json).1)).collect();
    let places: Vec<usize> = operands.iter().enumerate().filter(|(_, one)| is_varying(one)).map(|(i, _)| i).collect();
    let mut compared = 0;
    for (&place, known) in places.iter().zip(known).filter(|(_, known)| !known.is_null()) {
        let mut flat = Vec::new();
        elements(known, &mut flat);
        let known: Vec<f64> = flat.iter().map(number).collect();
        let found = found[place].tensor().map_or(vec![0.0; known.len()], Tensor::read::<f64>);
        if !agree(&found, &known) {
            return Err(format!("operand {place} has {found:?}, in PyTorch {known:?}"));
        }
        compared += 1;
    }
    Ok(compared)
}

#[test]
fn gradients_are_those_of_each_release() {
    let recorded = recorded_calls::read("gradients.json");
    let (mut wrong, mut compared, mut differs) = (Vec::new(), 0, vec![false; KNOWN.len()]);
    for call in recorded["calls"].as_array().expect("calls") {
        let (kind, operands) = (call["kind"].as_str().expect("a kind"), call["operands"].to_string());
        for release in releases(&recorded) {
            match compare(call, release) {
                Ok(count) => compared += count,
                Err(why) => {
                    let known = KNOWN.iter().position(|(known, part, _)| *known == kind && operands.contains(part));
                    match known {
                        Some(at) => differs[at] = true,
                        None => wrong.push(format!("{release} {kind} {} {operands}: {why}", call["call"])),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 2000, "only {compared} gradients were compared");
    let stale: Vec<&str> =
        KNOWN.iter().zip(&differs).filter(|(_, differs)| !**differs).map(|(known, _)| known.0).collect();
    assert!(stale.is_empty(), "these differ no more: {stale:?}");
}
