//! Nests of small kernels: what is printed and executed, and faults that the verifier finds.

use super::build::build;
use super::nest_execution::{Memory, Space, run};
use super::verification::verify;
use super::{Axis, Bind, Nest, Place, Stmt};
use crate::codegen::arithmetic::Number;
use crate::codegen::kernel::Inner;
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
    kernels(&graph, None).planned.pop().expect("a kernel")
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

#[test]
fn kernels_with_reductions_have_none() {
    let sum = CHAIN.replace("%z : Float(*) = aten::mul(%e, %t)", "%z : Float() = aten::sum(%e, %none)");
    let sum = sum.replace("%one : int", "%none : None = prim::Constant()\n  %one : int");
    let Planned { kernel, traversal, plan, .. } = planned(&sum);
    let why = build(&kernel, &traversal, &plan).expect_err("a reduction");
    assert_eq!(why, "there are no nests of kernels with reductions or scans yet: its direction is inner");
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
}

#[test]
fn plans_do_not_change_what_is_computed() {
    let Planned { kernel, traversal, plan, .. } = planned(CHAIN);
    let (rows, width) = (3, 700);
    let n = rows * width;
    let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
    let y: Vec<f32> = (0..n).map(|i| (i as f32 * 0.11).cos()).collect();
    let strides = [[width as i64, 1]; 4].concat();
    let space = Space { shape: &[rows as i64, width as i64], strides: &strides, reals: &[], wholes: &[] };
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
