//! Gradients of random graphs with broadcasting, with `_grad_sum_to_size` in place and moved: no
//! gradient may change.
//!
//! Each graph is random in its operators, in the shapes of its inputs (missing dimensions, sizes of
//! 1 and 0), in how complete types are, and in how often a value is used. It is differentiated; the
//! forward and backward graphs are joined, and optional sizes are computed from available tensors,
//! or are constants if types contain them. Gradients of one result fit together by themselves, so
//! every other graph is not a gradient: it has random sums, products and sums of sums. The results
//! of a graph in double precision are compared with those after `commute-sum-to-size`, alone and
//! within groups of both levels.
//!
//! `JITOPT_SMITH=100000` sets the number of graphs, `JITOPT_SMITH=500-600` a range of seeds; the
//! default is 300.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::dice;
use crate::support::parallel;

use dice::Dice;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::tensor::{DType, Precision, Tensor, layout};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::verify::verify;
use jitopt_passes::REGISTRY;
use std::collections::BTreeMap;

/// Inlines formulas, and adds known types and sizes.
const SETTLED: &str =
    "lower-simple-tuples,shape-analysis{precise},specialize-autogradzero,shape-analysis{precise},peephole,cse,dce";

/// The pipeline under test; the baseline lacks it.
const MOVED: &[&str] = &[
    "commute-sum-to-size",
    "commute-sum-to-size,cse,dce,fuse",
    "commute-sum-to-size,cse,dce,fuse{level=2}",
    "fuse{level=2}",
];

/// A number around 0.
fn number(draws: &mut Dice) -> f64 {
    draws.unit() * 8.0 / 3.0 - 4.0 / 3.0
}

/// A shape that broadcasts to `whole`.
fn broadcasting(draws: &mut Dice, whole: &[i64]) -> Vec<i64> {
    let skip = if draws.one_in(3) { draws.below(whole.len() + 1) } else { 0 };
    whole[skip..].iter().map(|&n| if draws.one_in(3) { 1 } else { n }).collect()
}

/// Completeness of a type: 0 nothing, 1 the element type, 2 the rank, 3 the sizes.
fn reported(shape: &[i64], reported: usize) -> String {
    let sizes = |size: &dyn Fn(&i64) -> String| shape.iter().map(size).collect::<Vec<_>>().join(", ");
    match reported {
        0 => "Tensor".to_owned(),
        2 if !shape.is_empty() => format!("Double({})", sizes(&|_| "*".to_owned())),
        2 | 3 => format!("Double({})", sizes(&|n| n.to_string())),
        _ => "Tensor".to_owned(),
    }
}

struct Forward {
    text: String,
    inputs: Vec<IValue>,
    era: Era,
}

/// A forward graph under construction.
struct Writer {
    lines: String,
    values: Vec<String>,
    made: usize,
}

impl Writer {
    /// A value; the last ones are drawn more often.
    fn value(&self, draws: &mut Dice) -> String {
        let near = self.values.len().min(4);
        let i =
            if draws.one_in(2) { draws.below(self.values.len()) } else { self.values.len() - 1 - draws.below(near) };
        self.values[i].clone()
    }

    fn line(&mut self, kind: &str, operands: &str) -> String {
        self.made += 1;
        let name = format!("%t{}", self.made);
        self.lines += &format!("  {name} : Tensor = aten::{kind}({operands})\n");
        name
    }

    /// One operator, or a few that belong together.
    fn operator(&mut self, draws: &mut Dice) {
        let (a, b) = (self.value(draws), self.value(draws));
        let unary = ["neg", "tanh", "sigmoid", "relu", "neg", "sin"];
        let new = match draws.below(14) {
            0 | 1 => self.line(draws.pick(&unary), &a),
            2 | 3 => self.line(draws.pick(&["add", "sub"]), &format!("{a}, {b}, {}", draws.pick(&["%one", "%two"]))),
            4..=7 => self.line("mul", &format!("{a}, {b}")),
            8 => {
                let square = self.line("mul", &format!("{b}, {b}"));
                let below = self.line("add", &format!("{square}, %one, %one"));
                self.line("div", &format!("{a}, {below}"))
            }
            9 => self.line(draws.pick(&["max", "min"]), &format!("{a}, {b}")),
            10 => {
                let (c, d) = (self.value(draws), self.value(draws));
                let condition = self.line("gt", &format!("{c}, {d}"));
                self.line("where", &format!("{condition}, {a}, {b}"))
            }
            11 => self.line("type_as", &format!("{a}, {b}")),
            12 => self.line("mul", &format!("{a}, %half")),
            _ => self.line("div", &format!("{a}, %two")),
        };
        self.values.push(new);
    }
}

fn forward(seed: u64) -> Forward {
    let mut draws = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let draws = &mut draws;
    let mut whole: Vec<i64> = (0..1 + draws.below(3)).map(|_| draws.pick(&[1, 2, 3, 4])).collect();
    if draws.one_in(20) {
        let dim = draws.below(whole.len());
        whole[dim] = 0;
    }
    let tells = draws.pick(&[0, 2, 2, 3, 3]);
    let (mut head, mut inputs, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..2 + draws.below(4) {
        let shape = broadcasting(draws, &whole);
        let numbers: Vec<f64> = (0..shape.iter().product::<i64>()).map(|_| number(draws)).collect();
        inputs.push(IValue::Tensor(Tensor::of(&numbers, DType::Double, &shape, Precision::Double)));
        head.push(format!("%p{i} : {}", reported(&shape, tells)));
        values.push(format!("%p{i}"));
    }
    let mut writer = Writer { lines: String::new(), values, made: 0 };
    (0..2 + draws.below(9)).for_each(|_| writer.operator(draws));
    let last = writer.values.last().cloned().unwrap_or_default();
    let mut results = vec![last];
    if draws.one_in(3) {
        let made = writer.values.len() - inputs.len();
        let other = writer.values[inputs.len() + draws.below(made)].clone();
        results.extend(Some(other).filter(|other| !results.contains(other)));
    }
    let text = format!(
        "graph({}):\n  %one : int = prim::Constant[value=1]()\n  %two : int = prim::Constant[value=2]()\n  %half : float = prim::Constant[value=0.5]()\n{}  return ({})\n",
        head.join(", "),
        writer.lines,
        results.join(", ")
    );
    Forward { text, inputs, era: if draws.one_in(2) { Era::V2 } else { Era::V1_3 } }
}

/// A value of a backward graph, and its shape.
type Shaped = (String, Vec<i64>);

/// A graph under construction that contains sums from the start, unlike a gradient.
struct Direct {
    lines: String,
    values: Vec<Shaped>,
    made: usize,
}

/// The broadcast shape of two shapes.
fn broadcast_dims(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    layout::broadcast(a, b).ok().map(|dims| dims.to_vec())
}

impl Direct {
    fn value(&self, draws: &mut Dice) -> Shaped {
        let near = self.values.len().min(5);
        let i =
            if draws.one_in(2) { draws.below(self.values.len()) } else { self.values.len() - 1 - draws.below(near) };
        self.values[i].clone()
    }

    /// A value whose shape broadcasts to a shape, if there is one.
    fn small(&self, draws: &mut Dice, shape: &[i64]) -> Option<Shaped> {
        let fits = |(_, own): &Shaped| broadcast_dims(own, shape).as_deref() == Some(shape);
        (0..6).map(|_| self.value(draws)).find(fits)
    }

    fn node(&mut self, ty: &str, kind: &str, operands: &str) -> String {
        self.made += 1;
        let name = format!("%t{}", self.made);
        self.lines += &format!("  {name} : {ty} = {kind}({operands})\n");
        name
    }

    fn push(&mut self, kind: &str, operands: &str, shape: Vec<i64>) {
        let name = self.node("Tensor", kind, operands);
        self.values.push((name, shape));
    }

    /// A sum to the size of something, in one of the ways to say it.
    fn sum(&mut self, draws: &mut Dice) {
        let (x, shape) = self.value(draws);
        let Some((t, own)) = self.small(draws, &shape) else { return };
        let (u, whole) = self.small(draws, &shape).unwrap_or((x.clone(), shape.clone()));
        match draws.below(4) {
            0 => {
                let list: Vec<String> = own.iter().map(i64::to_string).collect();
                let empty = "annotate(List[int], [])".to_owned();
                let list = if own.is_empty() { empty } else { format!("[{}]", list.join(", ")) };
                self.made += 1;
                self.lines += &format!("  %s{} : int[] = prim::Constant[value={list}]()\n", self.made);
                let size = format!("%s{}", self.made);
                self.push("aten::_grad_sum_to_size", &format!("{x}, {size}"), own);
            }
            1 => {
                let size = self.node("int[]", "aten::size", &t);
                self.push("aten::_grad_sum_to_size", &format!("{x}, {size}"), own);
            }
            _ => {
                let [a, b] = [t, u].map(|tensor| self.node("int[]", "aten::size", &tensor));
                let size = self.node("int[]?", "aten::_size_if_not_equal", &format!("{a}, {b}"));
                let shape = if own == whole { shape } else { own };
                self.push("aten::_grad_sum_to_size", &format!("{x}, {size}"), shape);
            }
        }
    }

    /// Joins a value and others that fit, perhaps sums of them.
    fn join(&mut self, draws: &mut Dice, a: &str, mut shape: Vec<i64>) {
        let dim = draws.below(shape.len().max(1));
        let without = |shape: &[i64]| shape.iter().enumerate().filter(|(i, _)| *i != dim).map(|(_, n)| *n).collect();
        let rest: Vec<i64> = without(&shape);
        let fits = |(_, own): &Shaped| own.len() == shape.len() && without(own) == rest;
        let others: Vec<Shaped> = (0..4).map(|_| self.value(draws)).filter(fits).take(2).collect();
        if shape.is_empty() {
            return;
        }
        let mut names = vec![a.to_owned()];
        for (name, own) in others {
            shape[dim] += own[dim];
            names.push(name);
        }
        let list = self.node("Tensor[]", "prim::ListConstruct", &names.join(", "));
        let dim = if draws.one_in(2) { dim as i64 } else { dim as i64 - shape.len() as i64 };
        self.made += 1;
        let at = format!("%d{}", self.made);
        self.lines += &format!("  {at} : int = prim::Constant[value={dim}]()\n");
        self.push("aten::cat", &format!("{list}, {at}"), shape);
    }

    /// A join of sums, each of which is read there only.
    fn joined_sums(&mut self, draws: &mut Dice) {
        let (x, shape) = self.value(draws);
        let Some((_, own)) = self.small(draws, &shape).filter(|(_, own)| !own.is_empty()) else { return };
        let (dim, mut whole) = (draws.below(own.len()), own.clone());
        let mut names = Vec::new();
        whole[dim] = 0;
        for _ in 0..1 + draws.below(3) {
            let x = self.node("Tensor", draws.pick(&["aten::neg", "aten::tanh"]), &x);
            let mut size = own.clone();
            size[dim] = if draws.one_in(4) { 1 } else { size[dim] };
            whole[dim] += size[dim];
            let list: Vec<String> = size.iter().map(i64::to_string).collect();
            self.made += 1;
            let size = format!("%s{}", self.made);
            self.lines += &format!("  {size} : int[] = prim::Constant[value=[{}]]()\n", list.join(", "));
            names.push(self.node("Tensor", "aten::_grad_sum_to_size", &format!("{x}, {size}")));
        }
        let list = self.node("Tensor[]", "prim::ListConstruct", &names.join(", "));
        self.made += 1;
        let at = format!("%d{}", self.made);
        self.lines += &format!("  {at} : int = prim::Constant[value={dim}]()\n");
        self.push("aten::cat", &format!("{list}, {at}"), whole);
    }

    fn operator(&mut self, draws: &mut Dice) {
        if draws.one_in(8) {
            return self.joined_sums(draws);
        }
        let (a, of_a) = self.value(draws);
        let (b, of_b) = if draws.one_in(2) { self.value(draws) } else { self.small(draws, &of_a).unwrap_or_default() };
        let Some(shape) = broadcast_dims(&of_a, &of_b).filter(|_| !b.is_empty()) else { return };
        match draws.below(14) {
            12 | 13 => self.join(draws, &a, of_a),
            0..=2 => self.push("aten::mul", &format!("{a}, {b}"), shape),
            3 => self.push("aten::neg", &a, of_a),
            4 => self.push("aten::mul", &format!("{a}, %half"), of_a),
            5 => {
                let square = self.node("Tensor", "aten::mul", &format!("{b}, {b}"));
                let below = self.node("Tensor", "aten::add", &format!("{square}, %one, %one"));
                self.push("aten::div", &format!("{a}, {below}"), shape);
            }
            6 | 7 => self.push("prim::AutogradAdd", &format!("{a}, {b}"), shape),
            8 => self.push(draws.pick(&["aten::add", "aten::sub"]), &format!("{a}, {b}, %two"), shape),
            9 => {
                let (c, of_c) = self.value(draws);
                let Some(shape) = broadcast_dims(&shape, &of_c) else { return };
                let condition = self.node("Tensor", "aten::gt", &format!("{c}, %one"));
                let other = if draws.one_in(2) { b } else { self.node("Tensor", "aten::zeros_like", &like(&b)) };
                self.push("aten::where", &format!("{condition}, {a}, {other}"), shape);
            }
            10 => self.push("aten::type_as", &format!("{a}, {b}"), of_a),
            _ => self.push("aten::tanh", &a, of_a),
        }
    }
}

fn like(value: &str) -> String {
    format!("{value}, %none, %none, %none, %none, %none")
}

/// A graph with sums anywhere.
fn direct(seed: u64) -> Forward {
    let mut draws = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5bd1_e995);
    let draws = &mut draws;
    let mut whole: Vec<i64> = (0..1 + draws.below(3)).map(|_| draws.pick(&[1, 2, 3])).collect();
    if draws.one_in(30) {
        let dim = draws.below(whole.len());
        whole[dim] = 0;
    }
    let (tells, mixed) = (draws.pick(&[0, 2, 3, 3]), draws.one_in(4));
    let (mut head, mut inputs, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..3 + draws.below(4) {
        let shape = if draws.one_in(3) { whole.clone() } else { broadcasting(draws, &whole) };
        let dtype = if mixed && draws.one_in(2) { DType::Float } else { DType::Double };
        let numbers: Vec<f64> = (0..shape.iter().product::<i64>()).map(|_| number(draws)).collect();
        inputs.push(IValue::Tensor(Tensor::of(&numbers, dtype, &shape, Precision::Double)));
        head.push(format!("%p{i} : {}", reported(&shape, tells).replace("Double", dtype.name())));
        values.push((format!("%p{i}"), shape));
    }
    let mut writer = Direct { lines: String::new(), values, made: 0 };
    for _ in 0..6 + draws.below(14) {
        if draws.one_in(3) { writer.sum(draws) } else { writer.operator(draws) }
    }
    let results: Vec<String> =
        writer.values.iter().rev().take(1 + draws.below(3)).map(|(name, _)| name.clone()).collect();
    let text = format!(
        "graph({}):\n  %one : int = prim::Constant[value=1]()\n  %two : int = prim::Constant[value=2]()\n  %half : float = prim::Constant[value=0.5]()\n  %none : NoneType = prim::Constant()\n{}  return ({})\n",
        head.join(", "),
        writer.lines,
        results.join(", ")
    );
    Forward { text, inputs, era: Era::V2 }
}

fn passed(graph: &mut Graph, pipeline: &str) -> Result<BTreeMap<String, u64>, String> {
    let pipeline = Pipeline::parse(pipeline, &REGISTRY).expect("a pipeline");
    let mut session = Session::default();
    run(graph, &pipeline, &mut session, &mut []).map_err(|error| error.to_string())?;
    Ok(session.stats.into_iter().collect())
}

/// An initial gradient: of the shape of the result, with random values.
fn given(result: &IValue) -> Option<IValue> {
    let result = result.tensor()?;
    let numbers: Vec<f64> = result.read::<f64>().into_iter().map(|x| x.cos() * x.cos()).collect();
    Some(IValue::Tensor(Tensor::of(&numbers, result.dtype(), result.shape(), Precision::Double)))
}

fn read(forward: &Forward) -> Result<Graph, String> {
    let options = ParseOptions::of(Release::of(forward.era));
    Ok(parse(forward.text.as_bytes(), options).map_err(|_| "it is not read".to_owned())?.graph)
}

/// A graph with sums, and its inputs.
fn summing(forward: &Forward, is_direct: bool) -> Result<(Graph, Vec<IValue>), String> {
    let (mut graph, mut inputs) = (read(forward)?, forward.inputs.clone());
    if is_direct {
        passed(&mut graph, "shape-analysis{precise}")?;
    } else {
        // Forward and backward graph as one.
        inputs.extend(computed(&graph, &forward.inputs)?.iter().filter_map(given));
        passed(&mut graph, &format!("shape-analysis,differentiate{{joint}},{SETTLED}"))?;
    }
    Ok((graph, inputs))
}

fn computed(graph: &Graph, inputs: &[IValue]) -> Result<Vec<IValue>, String> {
    let mut env = Environment::default();
    env.precision = Precision::Double;
    Machine::new(graph, &env).run(inputs.to_vec()).map_err(|stop| stop.to_string())
}

/// The largest magnitude of the results, at least 1.
fn largest(values: &[IValue]) -> f64 {
    let of = |value: &IValue| match value {
        IValue::Tensor(tensor) => tensor.read::<f64>().iter().fold(1.0, |most: f64, x| most.max(x.abs())),
        IValue::Tuple(parts) => parts
            .iter()
            .filter_map(IValue::tensor)
            .map(|t| t.read::<f64>().iter().fold(1.0, |most: f64, x| most.max(x.abs())))
            .fold(1.0, f64::max),
        _ => 1.0,
    };
    values.iter().map(of).fold(1.0, f64::max)
}

/// The result of one graph.
#[derive(Default)]
struct Outcome {
    rewrites: BTreeMap<String, u64>,
    sums: usize,
}

fn check(seed: u64) -> Result<Outcome, String> {
    let is_direct = seed % 2 == 1;
    let forward = if is_direct { direct(seed) } else { forward(seed) };
    let text = |graph: &Graph| String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned();
    let (before, inputs) =
        summing(&forward, is_direct).map_err(|why| format!("seed {seed}: {why}\n{}", forward.text))?;
    let expected = computed(&before, &inputs).map_err(|why| format!("seed {seed}: {why}\n{}", text(&before)))?;
    let tolerance = Tolerance::of(1e-7, 1e-10 * largest(&expected));
    let sums = before.all_nodes().filter(|&node| before.kind(node).as_str() == "aten::_grad_sum_to_size").count();
    let mut outcome = Outcome { sums, ..Outcome::default() };
    for (i, pipeline) in MOVED.iter().enumerate() {
        let mut after = before.clone();
        let stats = passed(&mut after, pipeline)?;
        let wrong =
            |why: String| format!("seed {seed}, {pipeline}: {why}\n{}\nbecame\n{}", text(&before), text(&after));
        if verify(&after).has_errors() {
            return Err(wrong("it is broken".to_owned()));
        }
        let found = computed(&after, &inputs).map_err(&wrong)?;
        let differing: Vec<_> = expected
            .iter()
            .zip(&found)
            .enumerate()
            .flat_map(|(i, (a, b))| differences(a, b, tolerance, &format!("out.{i}")))
            .collect();
        if let Some(first) = differing.first() {
            return Err(wrong(first.to_string()));
        }
        if i == 0 {
            outcome.rewrites = stats;
            let once = text(&after);
            let mut again = after.clone();
            passed(&mut again, pipeline)?;
            if text(&again) != once {
                return Err(wrong(format!("twice is not once:\n{}", text(&again))));
            }
        }
    }
    Ok(outcome)
}

fn seeds() -> std::ops::Range<u64> {
    let text = std::env::var("JITOPT_SMITH").unwrap_or("300".to_owned());
    let (from, to) = text.split_once('-').unwrap_or(("0", &text));
    from.parse().expect("a seed")..to.parse().expect("a number")
}

#[test]
fn moved_sums_leave_gradients_as_they_are() {
    let all: Vec<u64> = seeds().collect();
    let found = parallel::each(&all, |&seed| check(seed));
    let (mut rewrites, mut sums, mut wrong) = (BTreeMap::<String, u64>::new(), 0, Vec::new());
    for outcome in found {
        match outcome {
            Ok(outcome) => {
                sums += outcome.sums;
                outcome.rewrites.into_iter().for_each(|(rule, n)| *rewrites.entry(rule).or_default() += n);
            }
            Err(why) => wrong.push(why),
        }
    }
    println!("{} graphs with {sums} sums, {} wrong; {rewrites:?}", all.len(), wrong.len());
    assert!(wrong.is_empty(), "{} graphs are wrong\n{}", wrong.len(), wrong[..wrong.len().min(3)].join("\n\n"));
    let moved: u64 = rewrites.values().sum();
    assert!(moved as usize * 4 > all.len(), "only {moved} rewrites in {} graphs", all.len());
}
