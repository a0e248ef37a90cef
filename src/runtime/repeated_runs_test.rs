//! Runs after the first one on operands of the same specification find what they need: launch plans
//! and memory for results.

use super::backend::Counts;
use super::{CpuBackend, Settings};
use crate::interpreter::{Environment, IValue, Machine};
use crate::ir::Graph;
use crate::tensor::{DType, Precision, Tensor};
use crate::text::{ParseOptions, parse};

/// A recurrent layer: a product of each row and of the state, and a group, in a loop.
const LAYER: &str = "graph(%x : Tensor, %h : Tensor, %w : Tensor, %u : Tensor, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %all : Tensor[] = prim::ListConstruct()
  %last : Tensor = prim::Loop(%n, %yes, %h)
    block0(%i : int, %state : Tensor):
      %row : Tensor = aten::select(%x, %zero, %i)
      %a : Tensor = library::Product_0(%row, %w)
      %b : Tensor = library::Product_1(%state, %u, %a)
      %next : Tensor = prim::FusionGroup_2(%b, %state)
      %more : Tensor[] = aten::append(%all, %next)
      -> (%yes, %next)
  return (%last, %all)
with library::Product_0 = graph(%row : Tensor, %w : Tensor):
  %a : Tensor = aten::mm(%row, %w)
  return (%a)
with library::Product_1 = graph(%state : Tensor, %u : Tensor, %a : Tensor):
  %one : int = prim::Constant[value=1]()
  %p : Tensor = aten::mm(%state, %u)
  %b : Tensor = aten::add(%a, %p, %one)
  return (%b)
with prim::FusionGroup_2 = graph(%b : Tensor, %state : Tensor):
  %t : Tensor = aten::tanh(%b)
  %next : Tensor = aten::mul(%t, %state)
  return (%next)
";

fn layer() -> Graph {
    parse(LAYER.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{why:?}")).graph
}

fn matrix(shape: &[i64]) -> IValue {
    let n: i64 = shape.iter().product();
    let numbers: Vec<f64> = (0..n).map(|i| ((i * 7 + 3) % 23) as f64 / 23.0 - 0.4).collect();
    IValue::Tensor(Tensor::of(&numbers, DType::Float, shape, Precision::Typed))
}

fn inputs(rows: i64, steps: i64) -> Vec<IValue> {
    let sizes: [&[i64]; 4] = [&[steps, rows, 32], &[rows, 48], &[32, 48], &[48, 48]];
    sizes.iter().map(|shape| matrix(shape)).chain([IValue::Int(steps)]).collect()
}

fn elements(results: &[IValue]) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    results.iter().for_each(|value| value.each_tensor(&mut |tensor| all.push(tensor.read::<f64>())));
    all.into_iter().map(|numbers| numbers.into_iter().map(|x| x as f32).collect()).collect()
}

/// Runs a graph, and returns what was counted meanwhile.
fn run(graph: &Graph, inputs: Vec<IValue>, backend: &CpuBackend) -> (Vec<IValue>, Counts) {
    let (before, env) = (backend.counts(), Environment::default());
    let results = Machine::new(graph, &env).backed_by(backend).run(inputs).expect("it runs");
    (results, backend.counts().since(&before))
}

#[test]
fn later_runs_plan_nothing_and_allocate_no_results() {
    let (graph, backend) = (layer(), CpuBackend::new(Settings { threads: Some(1), ..Settings::default() }));
    let (first, counts) = run(&graph, inputs(4, 9), &backend);
    let expected = elements(&first);
    assert!(counts.planned == 1 && counts.products == 18 && counts.launched == 9, "{counts:?}");
    assert!((9..15).contains(&counts.allocated), "results of products come back within a run: {counts:?}");
    drop(first);
    for _ in 0..3 {
        let (results, counts) = run(&graph, inputs(4, 9), &backend);
        assert_eq!(elements(&results), expected);
        assert_eq!((counts.planned, counts.allocated), (0, 0));
    }
}

/// Products, operators of the interpreter (a comparison of integers, a sort, a mean that is not
/// fused), a group, views, and a write in place.
const MIXED: &str = "graph(%x : Tensor, %w : Tensor, %n : int):
  %no : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %dims : int[] = prim::Constant[value=[0]]()
  %none : None = prim::Constant()
  %a : Tensor = library::Product_0(%x, %w)
  %t : Tensor = aten::t(%a)
  %c : Tensor = aten::contiguous(%t, %n)
  %d : Tensor = aten::exp(%c)
  %e : Tensor = prim::FusionGroup_1(%d, %c)
  %m : Tensor = aten::mean(%e, %dims, %no, %none)
  %s : Tensor, %i : Tensor = aten::sort(%e, %one, %no)
  %z : Tensor = aten::zeros_like(%s, %none, %none, %none, %none, %none)
  %f : Tensor = aten::add_(%z, %m, %one)
  %g : Tensor = aten::mul(%f, %s)
  %gone : Tensor = aten::neg(%i)
  return (%g, %t)
with library::Product_0 = graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::mm(%x, %w)
  return (%a)
with prim::FusionGroup_1 = graph(%d : Tensor, %c : Tensor):
  %t : Tensor = aten::tanh(%d)
  %e : Tensor = aten::mul(%t, %c)
  return (%e)
";

#[test]
fn results_of_all_operators_share_memory_by_a_plan() {
    let graph = parse(MIXED.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{why:?}")).graph;
    let backend = CpuBackend::new(Settings { threads: Some(1), ..Settings::default() });
    let inputs = |rows: i64| vec![matrix(&[rows, 24]), matrix(&[24, 40]), IValue::Int(0)];
    let alone = |rows| {
        let env = Environment::default();
        elements(&Machine::new(&graph, &env).run(inputs(rows)).expect("it runs"))
    };
    let near = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        a.iter().zip(b).all(|(a, b)| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4))
    };
    for rows in [16, 33, 16] {
        for turn in 0..5 {
            let (results, counts) = run(&graph, inputs(rows), &backend);
            assert!(near(&elements(&results), &alone(rows)), "{rows} rows, turn {turn}");
            assert!(turn < 2 || counts.allocated == 0, "{rows} rows, turn {turn}: {counts:?}");
        }
        let memory = backend.planned_memory().expect("the runs were planned");
        assert!(memory.results > 6 && memory.buffers < memory.results, "{memory:?}");
        assert!(memory.most_alive <= memory.bytes && memory.bytes < 2 * memory.most_alive, "{memory:?}");
    }
}

#[test]
fn runs_that_make_other_results_than_planned_are_recorded_anew() {
    let (graph, backend) = (layer(), CpuBackend::new(Settings { threads: Some(1), ..Settings::default() }));
    // The number of steps is no part of the specification.
    let given = |steps: i64| {
        let mut all = inputs(4, 12);
        all[4] = IValue::Int(steps);
        all
    };
    let alone = |steps| elements(&run(&graph, given(steps), &CpuBackend::new(Settings::default())).0);
    let expected: Vec<_> = (0..13).map(alone).collect();
    for steps in [3, 3, 9, 9, 2, 12, 1, 0, 11, 12, 12, 5] {
        let (results, _) = run(&graph, given(steps), &backend);
        assert_eq!(elements(&results), expected[steps as usize], "{steps} steps");
    }
}

#[test]
fn runs_that_raise_leave_later_ones_as_they_are() {
    let text = MIXED.replace("aten::mul(%f, %s)", "aten::mm(%f, %s)");
    let graph = parse(text.as_bytes(), ParseOptions::default()).unwrap_or_else(|why| panic!("{why:?}")).graph;
    let backend = CpuBackend::new(Settings { threads: Some(1), ..Settings::default() });
    let (env, inputs) = (Environment::default(), |rows| vec![matrix(&[rows, 24]), matrix(&[24, 40]), IValue::Int(0)]);
    let ran = |rows| Machine::new(&graph, &env).backed_by(&backend).run(inputs(rows));
    let expected = elements(&Machine::new(&graph, &env).run(inputs(40)).expect("a square"));
    for _ in 0..4 {
        assert!(ran(16).is_err(), "the sizes do not match");
        let results = elements(&ran(40).expect("a square"));
        let are_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        assert!(results.iter().zip(&expected).all(|(a, b)| a.iter().zip(b).all(are_near)));
    }
}

#[test]
fn results_that_are_kept_keep_their_memory() {
    let (graph, backend) = (layer(), CpuBackend::new(Settings { threads: Some(1), ..Settings::default() }));
    let kept: Vec<Vec<IValue>> = (0..4).map(|_| run(&graph, inputs(4, 5), &backend).0).collect();
    let expected = elements(&kept[0]);
    assert!(kept.iter().all(|results| elements(results) == expected));
    let env = Environment::default();
    let alone = Machine::new(&graph, &env).run(inputs(4, 5)).expect("it runs");
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(elements(&alone).iter().zip(&expected).all(|(a, b)| near(a, b)));
}

#[test]
fn other_specifications_in_between_change_nothing() {
    let (graph, backend) = (layer(), CpuBackend::new(Settings { threads: Some(1), ..Settings::default() }));
    let alone = |rows, steps| {
        let own = CpuBackend::new(Settings { threads: Some(1), ..Settings::default() });
        elements(&run(&graph, inputs(rows, steps), &own).0)
    };
    let cases = [(4, 3), (0, 3), (1, 7), (33, 2), (4, 0)].map(|(rows, steps)| ((rows, steps), alone(rows, steps)));
    for turn in 0..15 {
        let ((rows, steps), expected) = &cases[(turn * 7) % cases.len()];
        assert_eq!(elements(&run(&graph, inputs(*rows, *steps), &backend).0), *expected, "{rows} rows, {steps} steps");
    }
}
