//! Nests of small kernels: what is printed and executed, and faults that the verifier finds.

use super::build::build;
use super::nest_execution::{Memory, Space, run};
use super::verification::verify;
use super::{Axis, Bind, Nest, Place, Stmt};
use crate::codegen::arithmetic::Number;
use crate::codegen::kernel::Inner;
use crate::codegen::target::CPU;
use crate::codegen::whole_graph::{Planned, kernels};
use crate::text::{ParseOptions, parse};

const CHAIN: &str = "\
graph(%x : Float(*), %y : Float(*)):
  %z : Float(*), %e : Float(*) = prim::FusionGroup_0(%x, %y)
  return (%z, %e)
with prim::FusionGroup_0 = graph(%a : Float(*), %b : Float(*)):
  %one : int = prim::Constant[value=1]()
  %t : Float(*) = aten::tanh(%a)
  %s : Float(*) = aten::add(%t, %b, %one)
  %e : Float(*) = aten::exp(%s)
  %z : Float(*) = aten::mul(%e, %t)
  return (%z, %e)
";

fn planned(text: &str) -> Planned {
    let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
    kernels(&graph, None, &CPU).planned.pop().expect("a kernel")
}

fn nest(text: &str) -> Nest {
    let Planned { kernel, traversal, plan, .. } = planned(text);
    build(&kernel, &traversal, &plan).expect("a nest")
}

/// The statements of the loop over tiles.
fn tiles(nest: &mut Nest) -> &mut Vec<Stmt> {
    match nest.body.last_mut() {
        Some(Stmt::For(all)) => &mut all.body,
        other => panic!("{other:?}"),
    }
}

/// The statements of the first loop over points.
fn points(nest: &mut Nest) -> &mut Vec<Stmt> {
    let loops = tiles(nest).iter_mut().filter_map(|stmt| if let Stmt::For(all) = stmt { Some(all) } else { None });
    &mut loops.into_iter().next().expect("a loop over points").body
}

fn fault(change: impl FnOnce(&mut Nest)) -> String {
    let mut nest = nest(CHAIN);
    assert_eq!(verify(&nest), Ok(()));
    change(&mut nest);
    verify(&nest).expect_err("a fault")
}

#[test]
fn faults_are_found_and_the_loop_is_named() {
    let is_let = |stmt: &Stmt| matches!(stmt, Stmt::Let { .. });
    let without_first_let = fault(|nest| {
        let at = points(nest).iter().position(is_let).expect("a value");
        points(nest).remove(at);
    });
    assert_eq!(without_first_let, "the loop over points (Vector): v_a is read before it is known");
    let without_buffers = fault(|nest| tiles(nest).retain(|stmt| !matches!(stmt, Stmt::Alloc(_))));
    assert_eq!(without_buffers, "the loop over points (Vector): t_t is written, not made");
    let never_filled =
        fault(|nest| points(nest).retain(|stmt| !matches!(stmt, Stmt::Store { to: Place::Buffer(_), .. })));
    assert_eq!(never_filled, "the loop over points (Vector): t_t is read before it is filled");
    let too_small = fault(|nest| nest.buffers[0].elements = 64);
    assert_eq!(too_small, "the loop over points (Vector): t_t has 64 elements for 256 points");
    let one_element = fault(|nest| nest.accesses[2].inner = Inner::Broadcast);
    assert_eq!(one_element, "the loop over points (Vector): iterations that run at once write one element of out0");
    let not_opened = fault(|nest| tiles(nest).retain(|stmt| !matches!(stmt, Stmt::Open(Place::Access(0)))));
    assert_eq!(not_opened, "the loop over points (Vector): in0 is read, not opened");
    let twice = fault(|nest| {
        let again = tiles(nest).clone();
        tiles(nest).extend(again.into_iter().filter(|stmt| matches!(stmt, Stmt::For(_))));
    });
    assert_eq!(twice, "the loop over points (Vector): out0 is written twice");
    let nested = fault(|nest| {
        let inner = tiles(nest).iter().find(|stmt| matches!(stmt, Stmt::For(_))).cloned();
        points(nest).extend(inner);
    });
    assert_eq!(nested, "the loop over points (Vector): a loop over the same points is inside of it");
    let operand = fault(|nest| nest.accesses[2].is_written = false);
    assert_eq!(operand, "the loop over points (Vector): out0 is written, an operand");
}

#[test]
fn each_expensive_value_has_a_loop() {
    let mut nest = nest(CHAIN);
    let loops = |nest: &mut Nest| tiles(nest).iter().filter(|stmt| matches!(stmt, Stmt::For(_))).count();
    assert_eq!(loops(&mut nest), 2);
    let Planned { kernel, traversal, mut plan, .. } = planned(CHAIN);
    plan.alone.clear();
    let mut together = build(&kernel, &traversal, &plan).expect("a nest");
    assert_eq!((loops(&mut together), together.buffers.len()), (1, 0));
    assert!(
        matches!(together.body[..], [Stmt::For(ref all)] if all.bind == Bind::Worker && all.axis == Axis::Tiles(256))
    );
    let text = together.to_string();
    assert!(text.contains("v_e = exp(v_s)") && text.contains("# %e : Float(*) = aten::exp(%s)"), "{text}");
}

/// The kernels of a softmax along rows and across them, of a variance, a scan and an index.
fn reduced(section: &str) -> String {
    let head = "graph(%x : Float(*, *)):\n  %y : Tensor = prim::FusionGroup_0(%x)\n  return (%y)\n";
    let constants = "  %none : None = prim::Constant()\n  %zero : int = prim::Constant[value=0]()\n  %one : int = prim::Constant[value=1]()\n  %no : bool = prim::Constant[value=0]()\n  %dims : int[] = prim::Constant[value=[1]]()";
    format!(
        "{head}with prim::FusionGroup_0 = graph(%x : Float(*, *)):\n{constants}\n  %y : Tensor = {section}\n  return (%y)\n"
    )
}

const SUM: &str = "aten::sum(%x, %dims, %no, %none)";

#[test]
fn kernels_with_reductions_have_right_nests() {
    for section in [
        SUM,
        "aten::softmax(%x, %one, %none)",
        "aten::softmax(%x, %zero, %none)",
        "aten::var(%x, %dims, %no, %no)",
        "aten::cumsum(%x, %one, %none)",
        "aten::argmax(%x, %one, %no)",
        "aten::argmax(%x, %zero, %no)",
    ] {
        let nest = nest(&reduced(section));
        assert_eq!(verify(&nest), Ok(()), "{section}\n{nest}");
    }
}

/// The statements of a nest, and those in them, until a change says that it is done.
fn change_each(stmts: &mut Vec<Stmt>, change: &mut dyn FnMut(&mut Vec<Stmt>) -> bool) -> bool {
    if change(stmts) {
        return true;
    }
    stmts.iter_mut().any(|stmt| match stmt {
        Stmt::For(all) => change_each(&mut all.body, change),
        Stmt::Scope(body) | Stmt::If { body, .. } => change_each(body, change),
        _ => false,
    })
}

fn fault_of_sum(change: &mut dyn FnMut(&mut Vec<Stmt>) -> bool) -> String {
    let mut nest = nest(&reduced(SUM));
    assert!(change_each(&mut nest.body, change), "nothing was changed: {nest}");
    verify(&nest).expect_err("a fault")
}

#[test]
fn faults_of_reductions_are_found() {
    let at_once = fault_of_sum(&mut |stmts| {
        let first = stmts.iter_mut().find_map(|stmt| match stmt {
            Stmt::For(all) if all.axis == Axis::Points => Some(all),
            _ => None,
        });
        first.is_some_and(|all| {
            all.combined.clear();
            true
        })
    });
    assert_eq!(at_once, "the loop over points (Vector): iterations that run at once set p_y");
    let without = |stmts: &mut Vec<Stmt>, is_it: &dyn Fn(&Stmt) -> bool| {
        let at = stmts.iter().position(is_it);
        at.map(|at| stmts.remove(at)).is_some()
    };
    let not_made = fault_of_sum(&mut |stmts| {
        let is_part = stmts.iter().any(|stmt| matches!(stmt, Stmt::Scope(_)));
        let begins = |stmt: &Stmt| matches!(stmt, Stmt::Begin(_));
        is_part && !stmts.iter().any(|stmt| matches!(stmt, Stmt::Open(_))) && without(stmts, &begins)
    });
    assert_eq!(not_made, "the loop over points (Vector): p_y is combined before it has a value");
    let never_finished = fault_of_sum(&mut |stmts| without(stmts, &|stmt| matches!(stmt, Stmt::Let { .. })));
    assert_eq!(never_finished, "the loop over rows (Worker): v_y is read before it is known");
    let in_a_loop = fault_of_sum(&mut |stmts| {
        let Some(Stmt::For(all)) = stmts.iter_mut().find(|stmt| matches!(stmt, Stmt::For(_))) else { return false };
        all.body.push(Stmt::Phase { number: 0, body: Vec::new() });
        true
    });
    assert!(in_a_loop.ends_with("parts of a row would not all be in one phase of the launch"), "{in_a_loop}");
}

/// Floats in rows with strides.
struct Floats {
    loads: Vec<Vec<f32>>,
    stores: Vec<Vec<f32>>,
}

impl Memory for Floats {
    fn load(&self, access: usize, at: i64) -> Number {
        Number::Float(self.loads[access][at as usize])
    }

    fn store(&mut self, access: usize, at: i64, value: Number) {
        self.stores[access - self.loads.len()][at as usize] = value.single();
    }

    fn add(&mut self, access: usize, _share: usize, at: i64, value: f64) {
        self.stores[access - self.loads.len()][at as usize] += value as f32;
    }
}

#[test]
fn plans_do_not_change_results() {
    let Planned { kernel, traversal, plan, .. } = planned(CHAIN);
    let (rows, width) = (3, 700);
    let n = rows * width;
    let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let y: Vec<f32> = (0..n).map(|i| (i as f32 * 0.11).cos()).collect();
    let strides = [[width as i64, 1]; 4].concat();
    let shape = [rows as i64, width as i64];
    let space = Space {
        bounds: &[],
        shape: &shape,
        kept: 1,
        columns: 1024,
        parts: 1,
        shares: 1,
        strides: &strides,
        floats: &[],
        integers: &[],
    };
    let results = |tile: usize, alone: bool| {
        let mut plan = plan.clone();
        plan.tile = tile;
        if !alone {
            plan.alone.clear();
        }
        let nest = build(&kernel, &traversal, &plan).expect("a nest");
        assert_eq!(verify(&nest), Ok(()));
        let mut memory = Floats { loads: vec![x.clone(), y.clone()], stores: vec![vec![0.0; n]; 2] };
        run(&nest, &space, &mut memory).expect("it runs");
        memory.stores
    };
    let usual = results(256, true);
    for (i, z) in usual[0].iter().enumerate() {
        let t = f64::from(x[i]).tanh();
        let wanted = (t + f64::from(y[i])).exp() * t;
        assert!((f64::from(*z) - wanted).abs() <= 1e-6 * wanted.abs() + 1e-7, "{z} is not {wanted}");
    }
    for (tile, alone) in [(64, true), (1024, true), (256, false), (64, false)] {
        assert_eq!(results(tile, alone), usual);
    }
}
