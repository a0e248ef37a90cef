//! Every shape rule against the interpreter, on small operands.
//!
//! A template is one node. Its tensors take all small shapes and some element types; their types
//! are complete, contain element type and rank, or nothing. The pass runs, the graph runs, and the
//! inferred types must match the results. Rules that infer nothing from complete operand types are
//! counted: they must not be the majority.
//!
//! `JITOPT_UNIVERSE=1` runs all combinations; otherwise every eleventh is run, at a different
//! offset for each node.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Dim, Strides, TensorType, Type, TypeKind};
use jitopt_judge::promises::contradiction;
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_passes::REGISTRY;

/// Nodes of one tensor, of two, of three.
const ONE: &[&str] = &[
    "{neg|abs|sigmoid|tanh|exp|sqrt|relu|floor|sign|clone|detach|isnan|t|logical_not|sum|prod|mean|std}(%x)",
    "{max|min|median|argmax|any|all|nonzero|squeeze}(%x)",
    "{add|sub}(%x, {%i|%h}, %1)",
    "{mul|div|pow|eq|lt|fmod|remainder}(%x, {%i|%h})",
    "pow({%i|%h}, %x)",
    "{clamp_min|clamp_max}(%x, {%i|%h})",
    "{sum|mean}(%x, {%d0|%dm|%d01}, {%f|%t}, {%n|%six})",
    "sum(%x, {%n|%six})",
    "{cumsum|cumprod|softmax|log_softmax}(%x, {%0|%m}, {%n|%six})",
    "{prod|argmax|any|all}(%x, {%0|%m}, {%f|%t})",
    "{transpose|select}(%x, {%0|%m}, {%0|%1})",
    "{select|narrow}(%x, {%0|%m}, %0)",
    "narrow(%x, {%0|%1}, %0, %1)",
    "slice(%x, {%0|%m}, {%0|%1|%m}, {%2|%m|%big}, {%1|%2})",
    "{unsqueeze|squeeze}(%x, {%0|%1|%m})",
    "flatten(%x, {%0|%1}, {%m|%1})",
    "unfold(%x, %0, {%1|%2}, {%1|%2})",
    "{diagonal}(%x, {%0|%1|%m}, %0, {%1|%m})",
    "{view|reshape}(%x, {%s|%sm|%s6})",
    "permute(%x, {%p01|%p10|%p210})",
    "expand(%x, {%s|%sm|%e}, %f)",
    "repeat(%x, {%p01|%s})",
    "{topk}(%x, %1, %m, %t, %t)",
    "{tril|triu}(%x, %0)",
    "{zeros_like|ones_like}(%x, %n, %n, %n, %n, %n)",
    "glu(%x, %m)",
];
const TWO: &[&str] = &[
    "{add|sub}(%x, %y, %1)",
    "{mul|div|max|min|eq|lt|atan2|pow|remainder}(%x, %y)",
    "{__and__|__or__|logical_and}(%x, %y)",
    "{mm|matmul|bmm|mv|dot|ger}(%x, %y)",
    "{type_as|view_as|expand_as}(%x, %y)",
    "linear(%x, %y, %n)",
    "{cat|stack}([%x, %y], {%0|%1|%m})",
    "{cat|stack}([%x, %y, %x], {%0|%m})",
    "{index_select}(%x, %0, %y)",
    "{gather}(%x, %0, %y, %f)",
    "{embedding}(%x, %y, %m, %f, %f)",
    "{where}(%c, %x, %y)",
    "masked_fill(%x, %c, %h)",
    "lerp(%x, %y, %h)",
    "addmm(%x, %y, %y, %1, %1)",
    "addcmul(%x, %y, %y, %1)",
];
const NONE: &[&str] = &[
    "{zeros|ones}({%s|%e|%none}, {%n|%six}, %n, %n, %n)",
    "arange({%2|%i|%0}, {%n|%six}, %n, %n, %n)",
    "arange({%0|%1}, {%2|%i}, {%n|%six}, %n, %n, %n)",
    "full({%s|%e}, {%i|%h}, %n, %n, %n, %n)",
];

const CONSTANTS: &str = "  %n : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %six : int = prim::Constant[value=6]()
  %i : int = prim::Constant[value=3]()
  %m : int = prim::Constant[value=-1]()
  %big : int = prim::Constant[value=9223372036854775807]()
  %h : float = prim::Constant[value=0.5]()
  %d0 : int[] = prim::Constant[value=[0]]()
  %dm : int[] = prim::Constant[value=[-1]]()
  %d01 : int[] = prim::Constant[value=[0, 1]]()
  %p01 : int[] = prim::Constant[value=[0, 1]]()
  %p10 : int[] = prim::Constant[value=[1, 0]]()
  %p210 : int[] = prim::Constant[value=[2, 1, 0]]()
  %s : int[] = prim::Constant[value=[2, 3]]()
  %sm : int[] = prim::Constant[value=[2, -1]]()
  %s6 : int[] = prim::Constant[value=[-1]]()
  %e : int[] = prim::ListConstruct(%2, %i, %1)
  %none : int[] = prim::ListConstruct()
";

/// All expansions of the choices `{a|b}` of a text.
fn filled(text: &str) -> Vec<String> {
    let Some(open) = text.find('{') else { return vec![text.to_owned()] };
    let close = open + text[open..].find('}').expect("a choice that is closed");
    let with = |option: &str| filled(&format!("{}{option}{}", &text[..open], &text[close + 1..]));
    text[open + 1..close].split('|').flat_map(with).collect()
}

/// A graph of one node; `None` if no overload accepts these operands. Nodes with two outputs return
/// both.
fn graph(node: &str, era: Era) -> Option<Graph> {
    let (mut node, mut list) = (node.to_owned(), String::new());
    if let (Some(open), Some(close)) = (node.find('['), node.find(']')) {
        list = format!("  %l : Tensor[] = prim::ListConstruct({})\n", &node[open + 1..close]);
        node.replace_range(open..=close, "%l");
    }
    let params = "graph(%x : Tensor,\n      %y : Tensor,\n      %c : Bool(*, *)):\n";
    let pair = node.starts_with("topk");
    let (results, returned) = if pair { ("%r : Tensor, %q : Tensor", "%r, %q") } else { ("%r : Tensor", "%r") };
    let text = format!("{params}{CONSTANTS}{list}  {results} = aten::{node}\n  return ({returned})\n");
    // The text shows an era, whatever `None` is called.
    let options = ParseOptions::of(Release::of(era));
    let graph = parse(text.as_bytes(), options).expect("a graph of the test").graph;
    (!jitopt_core::verify::verify(&graph).has_errors()).then_some(graph)
}

const SHAPES: &[&[i64]] = &[
    &[],
    &[0],
    &[1],
    &[2],
    &[3],
    &[1, 1],
    &[2, 3],
    &[3, 2],
    &[1, 3],
    &[0, 2],
    &[2, 1, 3],
    &[2, 2, 2],
    &[1, 3, 2],
    &[3, 0, 1],
];
const FEW: &[&[i64]] = &[&[], &[0], &[2], &[3], &[2, 3], &[3, 2], &[1, 3], &[2, 1, 3], &[2, 2, 3]];

fn tensor(dtype: DType, shape: &[i64]) -> IValue {
    let n = shape.iter().product::<i64>();
    let all: Vec<i64> = (0..n).map(|i| i % 2).collect();
    Tensor::of(&all, dtype, shape, Precision::Typed).into()
}

/// The completeness of a type: everything, element type and rank, nothing.
fn types(value: &IValue) -> [Type; 3] {
    let IValue::Tensor(tensor) = value else { panic!("a tensor of the test") };
    let strides = if tensor.rank() == 0 { Strides::Unknown } else { Strides::Known(tensor.strides().into()) };
    let full = TensorType {
        dtype: Some(tensor.dtype()),
        sizes: Some(tensor.shape().iter().copied().map(Dim::Known).collect()),
        strides,
        requires_grad: Some(false),
        device: Some(Symbol::new("cpu")),
        undefined: None,
        profiled: false,
    };
    let ranked = TensorType {
        sizes: full.sizes.as_ref().map(|sizes| vec![Dim::Unknown; sizes.len()].into()),
        strides: Strides::Unknown,
        ..full.clone()
    };
    [Type::new(TypeKind::Tensor(full)), Type::new(TypeKind::Tensor(ranked)), Type::tensor()]
}

#[derive(Default)]
struct Tally {
    ran: usize,
    reported: usize,
    wrong: Vec<String>,
}

/// Runs one graph on operands, with all degrees of type information.
fn check(before: &Graph, node: &str, inputs: &[IValue], pipelines: &[Pipeline], tally: &mut Tally) {
    let mask = tensor(DType::Bool, &[1, 1]);
    let inputs: Vec<IValue> = inputs.iter().cloned().chain([mask]).collect();
    let outcome = Outcome::of(before, &Settings::default(), &inputs, Precision::Typed);
    let Ok(results) = &outcome.results else { return };
    let params: Vec<_> = before.params(before.root()).take(2).collect();
    let (known_x, known_y) = (types(&inputs[0]), types(&inputs[1]));
    for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)] {
        let mut typed = before.clone();
        typed.set_type(params[0], known_x[i]);
        typed.set_type(params[1], known_y[j]);
        for pipeline in pipelines {
            let mut after = typed.clone();
            run(&mut after, pipeline, &mut Session::default(), &mut []).expect("it always works");
            let types: Vec<Type> = after.results(after.root()).map(|result| after.ty(result)).collect();
            let broken = types.iter().zip(results).find_map(|(ty, value)| contradiction(*ty, value));
            tally.ran += 1;
            tally.reported += usize::from((i, j) == (0, 0) && types[0] != Type::tensor());
            if let Some(why) = broken {
                tally.wrong.push(format!("{node} of {:?}, {} and {}: {why}", before.era, known_x[i], known_y[j]));
            }
        }
    }
}

#[test]
fn inferred_facts_match_the_interpreter() {
    let pipelines =
        ["shape-analysis", "shape-analysis{precise}"].map(|text| Pipeline::parse(text, &REGISTRY).expect("a pipeline"));
    let mut tally = Tally::default();
    let every = if std::env::var_os("JITOPT_UNIVERSE").is_some() { 1 } else { 11 };
    let mut turn = 0;
    let dtypes = [DType::Float, DType::Long, DType::Bool, DType::Byte, DType::Half, DType::ComplexFloat];
    for era in Era::ALL {
        for (templates, first, second) in
            [(ONE, SHAPES, &[&[][..]][..]), (TWO, FEW, FEW), (NONE, &[&[][..]][..], &[&[][..]][..])]
        {
            for node in templates.iter().flat_map(|template| filled(template)) {
                let Some(before) = graph(&node, era) else { continue };
                for (x, y) in first.iter().flat_map(|x| second.iter().map(move |y| (x, y))) {
                    let others = if second.len() > 1 { &dtypes[..3] } else { &dtypes[..1] };
                    for (a, b) in dtypes.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
                        turn += 1;
                        if turn % every != 0 {
                            continue;
                        }
                        check(&before, &node, &[tensor(a, x), tensor(b, y)], &pipelines, &mut tally);
                    }
                }
            }
        }
    }
    println!(
        "{} runs of the pass, {} told of what is known in full, {} wrong",
        tally.ran,
        tally.reported,
        tally.wrong.len()
    );
    // One of each node.
    tally.wrong.sort();
    tally.wrong.dedup_by_key(|line| line.split(" of ").next().unwrap_or_default().to_owned());
    let shown = tally.wrong[..tally.wrong.len().min(25)].join("\n");
    assert!(tally.wrong.is_empty(), "facts of {} nodes are wrong:\n{shown}", tally.wrong.len());
    assert!(tally.ran > 10_000 && tally.reported * 10 > tally.ran, "{} of {}", tally.reported, tally.ran);
}
