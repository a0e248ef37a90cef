//! Every gradient formula against finite differences, in double precision.
//!
//! Each overload with a formula becomes graphs of one node, with random operands: small tensors of
//! all kinds of shapes, integers and bools, and constants. Those that run are differentiated. Along
//! a random direction, the change of the results, weighted by random gradients, must match the
//! gradient of the operands to six digits. An overload for which no random operands run needs
//! them in its row.
//!
//! `JITOPT_UNIVERSE=N` checks N draws of each overload instead of a few. `JITOPT_DRAWS=FILE` writes
//! the draws of the newer era to a file, from which `tools/pytorch/half_gradients.py` creates its
//! cases.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::dice;
use crate::support::gradient_operands;
use crate::support::parallel;

use dice::Dice;
use gradient_operands::called;
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::ops::gradient_table::{any_gradient_row, kinds};
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::ops::schema::{Formal, Schema};
use jitopt_core::ops::{self};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::TypeKind;
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_engine::{AtHand, Error, Run, RunOptions, Semantics, Values, Workspace, judging};
use jitopt_judge::differentials::PREPARATION;
use jitopt_passes::REGISTRY;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Number of draws checked per overload.
const FEW: usize = 6;
/// Number of draws tried for that.
const PATIENCE: usize = 4000;
/// The step of the finite difference.
const STEP: f64 = 1e-5;
/// Tolerance of the comparison, relative to the magnitude of the summands.
const NEAR: f64 = 1e-6;

/// Operands without a gradient in eager mode, by kind, or for all kinds.
const CONSTANT_OPERANDS: &[(&str, &str)] = &[
    ("", "running_mean"),
    ("", "running_var"),
    ("aten::nll_loss", "weight"),
    ("aten::nll_loss2d", "weight"),
    ("aten::nll_loss_nd", "weight"),
    ("aten::nll_loss_forward", "weight"),
    ("aten::nll_loss_backward", "weight"),
    ("aten::nll_loss_backward", "total_weight"),
    ("aten::cross_entropy_loss", "weight"),
    ("aten::multi_margin_loss", "weight"),
    ("aten::hinge_embedding_loss", "target"),
    ("aten::cosine_embedding_loss", "target"),
    ("aten::binary_cross_entropy", "weight"),
    ("aten::binary_cross_entropy_with_logits", "weight"),
    ("aten::binary_cross_entropy_with_logits", "pos_weight"),
];
/// Number of results with a gradient, if not all have one.
const RESULTS: &[(&str, usize)] = &[
    ("aten::native_batch_norm", 1),
    ("aten::_batch_norm_impl_index", 1),
    ("aten::native_layer_norm", 1),
    ("aten::nll_loss_forward", 1),
];

/// Gradients that treat given statistics as computed from their input, as eager mode does: second
/// derivatives are correct only if they are.
const OF_STATISTICS: &[&str] = &[
    "aten::native_layer_norm_backward",
    "aten::native_group_norm_backward",
    "aten::native_batch_norm_backward",
    "aten::_batch_norm_impl_index_backward",
];

/// Gradients that treat their input as the result of `log_softmax`, as eager mode does.
const OF_LOG_SOFTMAX: &[&str] = &["aten::_ctc_loss", "aten::ctc_loss"];

/// Gradients of both halves of a symmetric matrix, of which only one was read, as in eager mode.
const OF_SYMMETRIC: &[&str] = &["aten::cholesky", "aten::linalg_cholesky", "aten::cholesky_solve"];

/// Gradients that treat indices as distinct, although the last of equal ones wins, as in eager
/// mode.
const PLACED: &[&str] = &["aten::max_unpool2d"];

/// Straight-through gradients of rounded values.
const ROUNDED: &[&str] = &[
    "aten::fake_quantize_per_tensor_affine",
    "aten::fake_quantize_per_channel_affine",
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::fake_quantize_per_channel_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
];

/// Gradients of 1.3 that are NaN where the result is 0, as for rows of one element. Recorded
/// gradients cover them (`--test suite gradient_releases`).
const OF_ROOTS: &[&str] = &["aten::std", "aten::std_mean"];

/// Operators whose gradients have no gradient, in eager mode or here.
const ONCE: &[&str] = &["aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d"];

/// Reduces a joint graph to the case in which all gradients are given.
const JOINED: &str = "specialize-autogradzero,lower-all-tuples,dce";

/// A random operand.
#[derive(Clone, Debug)]
enum Operand {
    Tensor(Tensor),
    /// A list of tensors, some of which may be None.
    List(Vec<Option<Tensor>>),
    /// The text after `prim::Constant`, and its type.
    Constant(&'static str, String),
}

const SHAPES: &[&[i64]] = &[
    &[],
    &[3],
    &[2, 3],
    &[3, 2],
    &[2, 2],
    &[1, 3],
    &[2, 1],
    &[2, 3, 2],
    &[1, 2, 4, 4],
    &[2, 2, 3, 3],
    &[1, 1, 3, 3, 3],
];

fn tensor(dice: &mut Dice, dtype: DType, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    // Where roots and logarithms are, and where everything is.
    let positive = dice.below(2) == 0;
    let mut element = || match dtype {
        DType::Double if positive => 0.15 + 0.7 * dice.unit(),
        DType::Double => 3.0 * dice.unit() - 1.5,
        DType::Char => [-1.0, 1.0][dice.below(2)],
        _ => (dice.next() % 2) as f64,
    };
    let elements: Vec<f64> = (0..n).map(|_| element()).collect();
    Tensor::of(&elements, dtype, shape, Precision::Typed)
}

/// The probable element type of a formal parameter, by its name.
fn dtype(dice: &mut Dice, name: &str) -> DType {
    let usual = match name {
        "index" | "indices" | "target" => DType::Long,
        "mask" | "condition" => DType::Bool,
        // Eager mode subtracts 1 from exponents, and refuses that for bools.
        "exponent" => return DType::Double,
        _ => DType::Double,
    };
    if dice.below(8) > 0 { usual } else { dice.pick(&[DType::Double, DType::Long]) }
}

/// A shape that fits another: the same, a broadcastable one, its transpose, its first or last size,
/// or any.
fn shape(dice: &mut Dice, base: &[i64]) -> Vec<i64> {
    match dice.below(8) {
        0..3 => base.to_vec(),
        3 => base[dice.below(base.len() + 1)..].to_vec(),
        4 => base.iter().map(|&n| if dice.below(2) == 0 { n } else { 1 }).collect(),
        5 => base.iter().rev().copied().collect(),
        6 => base.get(dice.below(base.len().max(1))).into_iter().copied().collect(),
        _ => dice.pick(SHAPES).to_vec(),
    }
}

fn operand(dice: &mut Dice, formal: &Formal, base: &[i64]) -> Option<Operand> {
    let constant = |ty: &'static str, text: &str| Some(Operand::Constant(ty, text.to_owned()));
    let (mut ty, mut is_optional) = (formal.ty, false);
    if let TypeKind::Optional(inner) = formal.ty.kind() {
        (ty, is_optional) = (*inner, true);
    }
    if is_optional && dice.below(2) == 0 {
        return constant("NoneType", "");
    }
    match ty.to_string().replace("SymInt", "int").as_str() {
        "Tensor" => {
            let (dtype, shape) = (dtype(dice, formal.name), shape(dice, base));
            Some(Operand::Tensor(tensor(dice, dtype, &shape)))
        }
        "Tensor[]" | "Tensor?[]" => {
            let n = 1 + dice.below(3);
            let shape = shape(dice, base);
            let dtype = dtype(dice, formal.name);
            Some(Operand::List((0..n).map(|_| Some(tensor(dice, dtype, &shape))).collect()))
        }
        "bool" => constant("bool", dice.pick::<&str>(&["0", "1"])),
        "int" if formal.name == "dtype" => constant("int", "7"),
        "int" if formal.name == "reduction" => constant("int", dice.pick::<&str>(&["0", "1", "2"])),
        "ScalarType" => constant("int", "7"),
        "MemoryFormat" => constant("int", "0"),
        "int" => constant("int", dice.pick::<&str>(&["0", "1", "-1", "2", "-2", "3"])),
        "float" => constant("float", dice.pick::<&str>(&["0.5", "1.5", "0.1", "2."])),
        "Scalar" | "number" => match dice.below(2) {
            0 => constant("int", dice.pick::<&str>(&["0", "1", "2", "-1", "3"])),
            _ => constant("float", dice.pick::<&str>(&["0.5", "1.5", "-0.3", "2."])),
        },
        "int[]" => {
            let n = if formal.size.is_some() { formal.size? as usize } else { dice.below(4) };
            let number = |dice: &mut Dice| dice.pick(&[0, 1, 2, -1, 3]);
            let list = match dice.below(3) {
                0 => base.to_vec(),
                1 => vec![number(dice); n],
                _ => (0..n).map(|_| number(dice)).collect(),
            };
            Some(Operand::Constant("int[]", format!("{list:?}")))
        }
        "str" => constant("str", formal.default.map_or("\"none\"", |_| "\"tanh\"")),
        "Device" => constant("Device", "\"cpu\""),
        _ => None,
    }
}

/// The operands of a line of [`called`].
fn written(dice: &mut Dice, line: &str) -> Vec<Operand> {
    let one = |word: &str| {
        let (dtype, shape) = match word {
            "none" | "yes" | "no" | "scalar" | "mask" => (word, ""),
            _ => word.split_once(':').unwrap_or(("double", word)),
        };
        let sizes: Result<Vec<i64>, _> = shape.split('x').filter(|size| !size.is_empty()).map(str::parse).collect();
        match (dtype, sizes) {
            ("long", Ok(sizes)) => Operand::Tensor(tensor(dice, DType::Long, &sizes)),
            ("bool", Ok(sizes)) => Operand::Tensor(tensor(dice, DType::Bool, &sizes)),
            ("double", Ok(sizes)) => Operand::Tensor(tensor(dice, DType::Double, &sizes)),
            ("sign", Ok(sizes)) => Operand::Tensor(tensor(dice, DType::Char, &sizes)),
            ("zeros", Ok(sizes)) => Operand::Tensor(Tensor::of(
                &vec![0.0; sizes.iter().product::<i64>() as usize],
                DType::Long,
                &sizes,
                Precision::Typed,
            )),
            ("scalar", _) => Operand::Tensor(tensor(dice, DType::Double, &[])),
            ("text", _) => Operand::Constant("str", shape.to_owned()),
            ("list", _) => Operand::List(shape.split(',').map(|part| element(dice, part)).collect()),
            ("none", _) => Operand::Constant("NoneType", String::new()),
            ("int", _) => Operand::Constant("int", shape.to_owned()),
            ("float", _) => Operand::Constant("float", shape.to_owned()),
            ("yes", _) => Operand::Constant("bool", "1".to_owned()),
            ("no", _) => Operand::Constant("bool", "0".to_owned()),
            ("mask", _) => Operand::Constant("bool[]", "[1, 1, 0]".to_owned()),
            ("longs", _) => Operand::Tensor(integers(shape)),
            ("doubles", _) => Operand::Tensor(floats(shape)),
            ("floats", _) => Operand::Constant("float[]", shape.to_owned()),
            ("ints", _) => Operand::Constant("int[]", shape.to_owned()),
            _ => panic!("`{word}` is no operand"),
        }
    };
    line.split_whitespace().map(one).collect()
}

/// A vector of these, after `longs:`.
fn integers(list: &str) -> Tensor {
    let numbers: Vec<i64> = list.split(',').map(|number| number.parse().expect("a number")).collect();
    Tensor::of(&numbers, DType::Long, &[numbers.len() as i64], Precision::Typed)
}

/// A vector of these, after `doubles:`.
fn floats(list: &str) -> Tensor {
    let numbers: Vec<f64> = list.split(',').map(|number| number.parse().expect("a number")).collect();
    Tensor::of(&numbers, DType::Double, &[numbers.len() as i64], Precision::Typed)
}

/// An element of a list, after `list:`: a tensor of a shape, or `none`.
fn element(dice: &mut Dice, part: &str) -> Option<Tensor> {
    let (dtype, shape) = part.split_once(':')?;
    let dtypes = [("bool", DType::Bool), ("double", DType::Double), ("long", DType::Long)];
    let dtype = dtypes.iter().find(|(name, _)| *name == dtype).expect("an element type").1;
    let sizes = shape.split('x').filter(|size| !size.is_empty());
    let sizes: Vec<i64> = sizes.map(|size| size.parse().expect("a size")).collect();
    Some(tensor(dice, dtype, &sizes))
}

/// A graph of one node, and its inputs.
struct Trial {
    text: String,
    graph: Graph,
    release: Release,
    inputs: Vec<Tensor>,
    /// Which of them have a gradient.
    varying: Vec<bool>,
    /// The results that have none.
    idle: Range<usize>,
}

impl Trial {
    fn new(era: Era, schema: &Schema, operands: &[Operand], unpacked: usize) -> Option<Trial> {
        let (mut params, mut lines, mut inputs, mut names) = (Vec::new(), String::new(), Vec::new(), Vec::new());
        let mut varying = Vec::new();
        let constant = |name: &str| {
            CONSTANT_OPERANDS
                .iter()
                .any(|(kind, operand)| *operand == name && ["", schema.kind.as_str()].contains(kind))
        };
        let mut param = |tensor: &Tensor, name: &str| {
            inputs.push(tensor.clone());
            varying.push(tensor.dtype() == DType::Double && !constant(name));
            params.push(format!("%x{} : Tensor", inputs.len()));
            format!("%x{}", inputs.len())
        };
        for (i, operand) in operands.iter().enumerate() {
            names.push(match operand {
                Operand::Tensor(tensor) => param(tensor, schema.formals[i].name),
                Operand::List(tensors) => {
                    let mut part = |tensor: &Option<Tensor>| match tensor {
                        Some(tensor) => param(tensor, ""),
                        None => "%none".to_owned(),
                    };
                    let parts: Vec<String> = tensors.iter().map(&mut part).collect();
                    let ty = schema.formals[i].ty;
                    if tensors.iter().any(Option::is_none) {
                        lines += "  %none : NoneType = prim::Constant()\n";
                    }
                    lines += &format!("  %l{i} : {ty} = prim::ListConstruct({})\n", parts.join(", "));
                    format!("%l{i}")
                }
                Operand::Constant(ty, text) => {
                    let value = if text.is_empty() { String::new() } else { format!("[value={text}]") };
                    lines += &format!("  %c{i} : {ty} = prim::Constant{value}()\n");
                    format!("%c{i}")
                }
            });
        }
        let mut returned: Vec<String> = Vec::new();
        let mut heads: Vec<String> = Vec::new();
        for (i, formal) in schema.returns.iter().enumerate() {
            heads.push(format!("%r{i} : {}", formal.ty));
            returned.push(format!("%r{i}"));
        }
        let kind = schema.kind.as_str();
        let counted = RESULTS.iter().find(|(of, _)| *of == kind).map_or(usize::MAX, |(_, n)| *n);
        let idle = counted..usize::MAX;
        let mut text = format!("graph({}):\n{lines}", params.join(",\n      "));
        text += &format!("  {} = {kind}({})\n", heads.join(", "), names.join(", "));
        if unpacked > 0 {
            let parts: Vec<String> = (0..unpacked).map(|i| format!("%p{i} : Tensor")).collect();
            text += &format!("  {} = prim::ListUnpack(%r0)\n", parts.join(", "));
            returned = (0..unpacked).map(|i| format!("%p{i}")).collect();
        }
        text += &format!("  return ({})\n", returned.join(", "));
        let options = ParseOptions::of(Release::of(era));
        let graph = parse(text.as_bytes(), options).ok()?.graph;
        let node = graph.nodes(graph.root()).filter(|&node| graph.kind(node) == schema.kind).last()?;
        let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let found = ops::resolve(era, schema.kind, &types);
        let row = |schema| any_gradient_row(Release::of(era), schema).map(std::ptr::from_ref);
        let is_it = found.schema().is_some_and(|found| row(found) == row(schema));
        let trial = is_it.then_some(Trial { text, graph, release: Release::of(era), inputs, varying, idle })?;
        // Lists that come out are taken apart.
        match trial.run(&Environment::default(), &trial.inputs)?.first()? {
            IValue::List(list) if !list.borrow().is_empty() => Trial::new(era, schema, operands, list.borrow().len()),
            IValue::List(_) => None,
            _ => Some(trial),
        }
    }

    /// The trial as a line of JSON: what another program needs to run it.
    fn written(&self, schema: &Schema) -> String {
        let input = |(tensor, varies): (&Tensor, &bool)| {
            let name = tensor.dtype().name();
            json!({"dtype": name, "shape": tensor.shape(), "values": tensor.read::<f64>(), "varies": varies})
        };
        let inputs: Vec<Value> = self.inputs.iter().zip(&self.varying).map(input).collect();
        let overload = format!("{}.{}", schema.kind.as_str(), schema.overload);
        json!({"overload": overload, "graph": self.text, "inputs": inputs, "idle": self.idle.start}).to_string()
    }

    fn run(&self, env: &Environment, inputs: &[Tensor]) -> Option<Vec<IValue>> {
        let inputs = inputs.iter().cloned().map(IValue::Tensor).collect();
        Machine::new(&self.graph, env).run(inputs).ok()
    }
}

/// The sum of elementwise products.
fn dot(a: &Tensor, b: &[f64]) -> f64 {
    a.read::<f64>().iter().zip(b).map(|(a, b)| a * b).sum()
}

fn has_elements(value: &IValue) -> bool {
    value.tensor().is_none_or(|tensor| tensor.numel() > 0)
}

fn is_real(value: &IValue) -> bool {
    value.tensor().is_some_and(|tensor| tensor.dtype() == DType::Double)
}

/// Whether the gradient matches; `None` if the draw does not run, or has no gradient.
fn check(trial: &Trial, dice: &mut Dice, env: &Environment) -> Option<Result<(), String>> {
    let results = trial.run(env, &trial.inputs)?;
    let finite =
        |value: &IValue| value.tensor().is_none_or(|tensor| tensor.read::<f64>().iter().all(|x| x.is_finite()));
    if !results.iter().any(is_real)
        || !results.iter().all(finite)
        || !trial.inputs.iter().zip(&trial.varying).any(|(x, &varies)| varies && x.numel() > 0)
        || !results.iter().enumerate().all(|(i, result)| trial.idle.contains(&i) || has_elements(result))
    {
        return None;
    }
    let weights: Vec<Vec<f64>> = results
        .iter()
        .map(|result| {
            let n = result.tensor().map_or(0, Tensor::numel);
            (0..n).map(|_| dice.unit() + 0.25).collect()
        })
        .collect();
    let direction: Vec<Vec<f64>> =
        trial.inputs.iter().map(|x| (0..x.numel()).map(|_| dice.unit() + 0.25).collect()).collect();
    let moved = |by: f64| -> Option<f64> {
        let inputs: Vec<Tensor> = trial
            .inputs
            .iter()
            .zip(&direction)
            .zip(&trial.varying)
            .map(|((x, d), varies)| match varies {
                true => {
                    let elements: Vec<f64> = x.read::<f64>().iter().zip(d).map(|(x, d)| x + by * d).collect();
                    Tensor::of(&elements, DType::Double, x.shape(), Precision::Typed)
                }
                false => x.clone(),
            })
            .collect();
        let results = trial.run(env, &inputs)?;
        let all = results
            .iter()
            .zip(&weights)
            .enumerate()
            .filter(|(i, (result, _))| is_real(result) && !trial.idle.contains(i));
        Some(all.filter_map(|(_, (result, weights))| Some(dot(result.tensor()?, weights))).sum())
    };
    let change = (moved(STEP)? - moved(-STEP)?) / (2.0 * STEP);
    // A kink in between, or steepness: another draw.
    let half = (moved(STEP / 2.0)? - moved(-STEP / 2.0)?) / STEP;
    if !change.is_finite() || (change - half).abs() > NEAR * (1.0 + change.abs()) {
        return None;
    }
    Some(FORMULAS.iter().try_for_each(|formulas| {
        let found = gradient(trial, (&results, &weights, &direction), formulas)?;
        let near = (found - change).abs() <= 4.0 * NEAR * (1.0 + change.abs());
        let wrong = || format!("{formulas}: the gradient says {found}, the results changed by {change}");
        if near { Ok(()) } else { Err(wrong()) }
    }))
}

/// Some operators have two formulas.
const FORMULAS: [&str; 2] = ["differentiate", "differentiate{eager}"];

/// The directional derivative of the results according to the gradient.
fn gradient(
    trial: &Trial,
    (results, weights, direction): (&[IValue], &[Vec<f64>], &[Vec<f64>]),
    formulas: &str,
) -> Result<f64, String> {
    let given = results.iter().zip(weights).enumerate().filter_map(|(i, (result, weights))| {
        let tensor = result.tensor().filter(|tensor| tensor.dtype() == DType::Double && !trial.idle.contains(&i))?;
        let key = if results.len() == 1 { "out".to_owned() } else { format!("out.{i}") };
        Some((key, Tensor::of(weights, DType::Double, tensor.shape(), Precision::Typed)))
    });
    let inputs = trial.inputs.iter().cloned().zip(trial.varying.iter().copied()).collect();
    let at_hand = Some(AtHand { inputs, gradients: given.collect() });
    let options = RunOptions {
        values: Values { at_hand, ..Values::default() },
        semantics: Semantics { torch: Some(trial.release), ..Semantics::default() },
        ..RunOptions::default()
    };
    let env = BTreeMap::new();
    let mut workspace = Workspace::new(Path::new(""), &env, |_| {});
    let mut run = || {
        let pipeline = judging::pipeline(formulas, &mut workspace)?;
        Run::of_graph(&options, trial.graph.clone(), &mut workspace)?.gradients(Some(pipeline), &mut workspace)
    };
    let ran = run().map_err(|error: Error| error.to_string())?;
    if let Err(stop) = &ran.whole {
        return Err(stop.to_string());
    }
    let found: BTreeMap<String, IValue> = ran.gradients(&mut workspace).into_iter().collect();
    let mut sum = 0.0;
    for (i, (x, direction)) in trial.inputs.iter().zip(direction).enumerate() {
        let Some(gradient) = found.get(&format!("in{i}")).and_then(IValue::tensor) else { continue };
        if gradient.shape() != x.shape() {
            return Err(format!("the gradient of {:?} is {:?}", x.shape(), gradient.shape()));
        }
        sum += dot(gradient, direction);
    }
    Ok(sum)
}

fn passed(graph: &mut Graph, passes: &str) -> Result<(), String> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    run(graph, &pipeline, &mut Session::default(), &mut []).map(|_| ()).map_err(|error| error.to_string())
}

/// The graph joined with that of its gradient; the given gradients are random like the operands.
fn with_gradient(trial: &Trial, dice: &mut Dice, env: &Environment) -> Option<Trial> {
    let results = trial.run(env, &trial.inputs)?;
    let mut graph = trial.graph.clone();
    passed(&mut graph, &format!("{PREPARATION},differentiate{{joint}},{JOINED}")).ok()?;
    let (mut inputs, mut varying) = (trial.inputs.clone(), trial.varying.clone());
    let names: Vec<String> = graph.params(graph.root()).skip(inputs.len()).map(|param| graph.name(param)).collect();
    let reals: Vec<&Tensor> = results.iter().filter_map(IValue::tensor).collect();
    for (i, result) in reals.iter().enumerate().take(names.len()) {
        let counts = result.dtype() == DType::Double && !trial.idle.contains(&i);
        let elements = (0..result.numel()).map(|_| if counts { dice.unit() + 0.25 } else { 0.0 }).collect::<Vec<_>>();
        inputs.push(Tensor::of(&elements, DType::Double, result.shape(), Precision::Typed));
        varying.push(counts);
    }
    let text = format!("the gradient of {}", trial.text);
    let idle = trial.idle.start.min(results.len())..results.len();
    (names.len() == reals.len()).then_some(Trial { text, graph, release: trial.release, inputs, varying, idle })
}

/// The result of an overload.
#[derive(Default)]
struct Examined {
    /// Draws whose gradient is right.
    right: usize,
    /// Draws of which the gradient of the gradient is, too.
    twice: usize,
    /// The former as lines of JSON.
    drawn: Vec<String>,
    wrong: Vec<String>,
}

fn examine(era: Era, schema: &'static Schema, name: &str, wanted: usize) -> Examined {
    let (kind, env) = (schema.kind.as_str(), Environment::default());
    let mut dice = Dice(name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(31) ^ u64::from(byte)));
    let lines = called(kind).iter().copied();
    let lines: Vec<&str> = lines.filter(|line| line.split_whitespace().count() == schema.formals.len()).collect();
    let reported = |why: String, trial: &Trial| {
        let shapes: Vec<&[i64]> = trial.inputs.iter().map(Tensor::shape).collect();
        format!("{name}: {why}, of {shapes:?}:\n{}", trial.text)
    };
    let mut found = Examined::default();
    for i in 0..PATIENCE {
        let base = dice.pick(SHAPES).to_vec();
        let operands: Option<Vec<Operand>> = match lines.is_empty() {
            true => schema.formals.iter().map(|formal| operand(&mut dice, formal, &base)).collect(),
            false => Some(written(&mut dice, lines[i % lines.len()])),
        };
        let Some(trial) = operands.and_then(|operands| Trial::new(era, schema, &operands, 0)) else { continue };
        match check(&trial, &mut dice, &env) {
            None => continue,
            Some(Ok(())) => {
                found.right += 1;
                found.drawn.push(trial.written(schema));
            }
            Some(Err(why)) => found.wrong.push(reported(why, &trial)),
        }
        let again = if ONCE.contains(&kind) { None } else { with_gradient(&trial, &mut dice, &env) };
        if let Some(again) = again {
            match check(&again, &mut dice, &env) {
                None => {}
                Some(Ok(())) => found.twice += 1,
                Some(Err(why)) => found.wrong.push(reported(format!("twice, {why}"), &again)),
            }
        }
        if found.right == wanted || !found.wrong.is_empty() {
            return found;
        }
    }
    if found.right == 0 {
        found.wrong.push(format!("{name}: nothing that was drawn runs"));
    }
    found
}

/// Whether a row is tested: it has gradients of tensors, and is deterministic. Complex operands or
/// results are excluded, since finite differences of real numbers do not cover them: gradients
/// recorded from PyTorch do, in `testdata/cli/gradients_of_complex_numbers.ir`.
const COMPLEX: &[&str] = &["aten::complex", "aten::polar", "aten::view_as_complex", "aten::view_as_real"];

fn is_tried(era: Era, schema: &Schema) -> bool {
    let Some(row) = any_gradient_row(Release::of(era), schema) else { return false };
    let has_tensor = schema.formals.iter().any(|formal| formal.ty.to_string().contains("Tensor"));
    let random = ops::operator(era, schema.kind).nondeterminism(Some(schema));
    // A probability that is given is 0 in these lines.
    let is_same = matches!(random, Nondeterminism::Deterministic | Nondeterminism::UnlessZero(_));
    let dependent = OF_STATISTICS.iter().chain(OF_LOG_SOFTMAX).chain(OF_SYMMETRIC).chain(PLACED).chain(ROUNDED);
    let is_independent = !dependent.copied().any(|kind| kind == schema.kind.as_str());
    let is_independent = is_independent && !(era == Era::V1_3 && OF_ROOTS.contains(&schema.kind.as_str()));
    let is_independent = is_independent && !COMPLEX.contains(&schema.kind.as_str());
    !row.is_flat && !schema.is_writing() && has_tensor && is_independent && is_same
}

#[test]
fn formulas_match_measured_gradients() {
    let wanted: usize = std::env::var("JITOPT_UNIVERSE").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW);
    let only = std::env::var("JITOPT_KIND").ok();
    let mut subjects: Vec<(Era, &'static Schema)> = Vec::new();
    for era in [Era::V1_3, Era::V2] {
        for kind in kinds().into_iter().filter(|kind| only.as_ref().is_none_or(|only| kind.as_str() == only)) {
            let schemas = ops::operator(era, kind).schemas.iter();
            subjects.extend(schemas.filter(|schema| is_tried(era, schema)).map(|schema| (era, schema)));
        }
    }
    let examined = parallel::each(&subjects, |&(era, schema)| {
        examine(era, schema, &format!("{}.{} of {era:?}", schema.kind.as_str(), schema.overload), wanted)
    });
    let sum = |f: fn(&Examined) -> usize| examined.iter().map(f).sum::<usize>();
    println!(
        "{} draws of {} overloads; of {} draws of {} the gradient has one in turn",
        sum(|found| found.right),
        subjects.len(),
        sum(|found| found.twice),
        sum(|found| usize::from(found.twice > 0))
    );
    if let Some(file) = std::env::var_os("JITOPT_DRAWS") {
        let newer = subjects.iter().zip(&examined).filter(|((era, _), _)| *era == Era::V2);
        let lines: Vec<&str> = newer.flat_map(|(_, found)| &found.drawn).map(String::as_str).collect();
        std::fs::write(file, lines.join("\n") + "\n").expect("the file can be written");
    }
    let wrong: Vec<&str> = examined.iter().flat_map(|found| &found.wrong).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), subjects.len(), wrong.join("\n"));
}
