//! Traces of random graphs compute the results of the traced run; `run --grads` differentiates such
//! traces.
//!
//! Random graphs have branches, loops, lists, tuples, dictionaries and in-place writes.
//! `JITOPT_SMITH=20000` sets their number; the default is 2000.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::prim;
use jitopt_core::tensor::Precision;
use jitopt_core::types::TypeKind;
use jitopt_core::verify;
use jitopt_judge::sharing::copies;
use jitopt_judge::smith::{Plan, forge};
use jitopt_judge::tracing::{Traced, leaves, trace};
use jitopt_passes::REGISTRY;
use std::rc::Rc;

/// The result of a graph.
enum Found {
    Same,
    /// The run raises an exception, calls something, or has no floating-point tensor as a result.
    Nothing,
    Wrong(String),
}

fn check(seed: u64) -> Found {
    let forged = forge(Plan { seed, nodes: 10 + seed as usize % 40, ..Plan::default() });
    let mut env = Environment::default();
    env.callees = Rc::new(forged.callees);
    let Ok(traced) = trace(&forged.graph, &env, &forged.inputs) else { return Found::Nothing };
    // Calls are inlined before: the effects of a callee on a list operand are not visible.
    if traced.places.is_empty() || calls_with_containers(&traced.graph) {
        return Found::Nothing;
    }
    env.reset();
    match computes_the_same(traced, &env, &forged.inputs) {
        Ok(()) => Found::Same,
        Err(why) => Found::Wrong(format!("seed {seed}: {why}")),
    }
}

fn calls_with_containers(graph: &Graph) -> bool {
    let is_call = |node| [prim::CALL_FUNCTION, prim::CALL_METHOD, prim::FORK].contains(&graph.kind(node));
    let holds = |value| matches!(graph.ty(value).kind(), TypeKind::List(_) | TypeKind::Dict(..) | TypeKind::Class(_));
    graph.all_nodes().any(|node| is_call(node) && graph.inputs(node).chain(graph.outputs(node)).any(holds))
}

fn computes_the_same(mut traced: Traced, env: &Environment, inputs: &[IValue]) -> Result<(), String> {
    let report = verify::verify(&traced.graph);
    if report.has_errors() {
        return Err(format!("the trace is no graph: {}", verify::render(&traced.graph, &report)));
    }
    let operands = copies(inputs, Precision::Typed);
    let operands: Vec<IValue> = operands.iter().flat_map(leaves).chain(traced.held).collect();
    let wanted: Vec<IValue> = traced.results.iter().flat_map(leaves).collect();
    // A graph that is prepared for differentiation still computes the same. Random operators
    // without readers stay: the iterations of a loop draw one after the other.
    for passes in ["", "remove-mutation,shape-analysis{precise},functionalize"] {
        let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
        run(&mut traced.graph, &pipeline, &mut Session::default(), &mut []).map_err(|error| error.to_string())?;
        let operands = copies(&operands, Precision::Typed);
        let found = Machine::new(&traced.graph, env).run(operands).map_err(|stop| format!("{passes}: {stop}"))?;
        env.reset();
        for (found, place) in found.iter().zip(&traced.places) {
            let far = differences(&wanted[*place], found, Tolerance::of(0.0, 0.0), "out");
            if let Some(first) = far.first() {
                return Err(format!("{passes}: {first:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn traces_compute_the_results_of_runs() {
    let count = std::env::var("JITOPT_SMITH").map_or(2000, |text| text.parse().expect("a number"));
    let (mut same, mut wrong) = (0, Vec::new());
    for seed in 0..count {
        match check(seed) {
            Found::Same => same += 1,
            Found::Nothing => {}
            Found::Wrong(why) => wrong.push(why),
        }
    }
    println!("{same} of {count} graphs were written down, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(same * 4 > count, "hardly a graph is written down: {same} of {count}");
}
