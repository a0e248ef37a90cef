//! Every pass is linear: its work per node of 30,000 is at most 1.5 times that per node of 15,000,
//! on the five shapes of the benchmark. `JITOPT_LINEAR=1000000` takes that many nodes in place of
//! 30,000.
//!
//! So are level 2 of `fuse` and `explain` on a chain of operators that become one group.
//!
//! Work is the number of reads and edits of a graph's tables, not time. Without debug assertions
//! nothing is counted, and this file is empty.

#![cfg(debug_assertions)]
#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::programs::shapes;
use crate::programs::torchscript;
use crate::support::each_pass;
use crate::support::parallel;

use jitopt_core::entity::visits;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_engine::FusionReport;
use jitopt_passes::REGISTRY;
use shapes::Shape;
use std::fmt::Write;

/// The sizes of the two programs, in nodes. Work that grows with the square is four times as much
/// per node of the large one. The fuser, which limits its steps per node, reaches that limit
/// in both.
const SMALL: u64 = 15_000;
const LARGE: u64 = 30_000;

fn large() -> u64 {
    let given = std::env::var("JITOPT_LINEAR").ok();
    given.map_or(LARGE, |nodes| nodes.parse().expect("JITOPT_LINEAR is a number of nodes"))
}

/// Maximum ratio of the work per node.
const MOST_GROWTH: f64 = 1.5;

fn program(shape: Shape, nodes: u64) -> Graph {
    let mut text = Vec::new();
    shape.generate(nodes, &mut torchscript::TorchScript::new(&mut text)).expect("memory takes all that is written");
    parse(&text, ParseOptions::default()).expect("a graph").graph
}

/// Reads and edits of one run, per node.
fn work(graph: &Graph, pipeline: &Pipeline) -> f64 {
    let mut graph = graph.clone();
    let (nodes, before) = (graph.num_shown_nodes(), visits::count());
    run(&mut graph, pipeline, &mut Session::default(), &mut []).expect("the shapes are graphs that passes work on");
    (visits::count() - before) as f64 / nodes as f64
}

#[test]
fn every_pass_costs_as_much_per_node_of_a_large_graph() {
    let pipelines = each_pass::pipelines();
    let of_shape = |shape: &Shape| -> Vec<(String, f64, f64)> {
        let (small, large) = (program(*shape, SMALL), program(*shape, large()));
        let figures = |(name, pipeline): &(String, Pipeline)| {
            (format!("{name} on {}", shape.name()), work(&small, pipeline), work(&large, pipeline))
        };
        pipelines.iter().map(figures).collect()
    };
    let all: Vec<(String, f64, f64)> = parallel::each(&Shape::FIVE, of_shape).into_iter().flatten().collect();
    let growth = |small: f64, large: f64| if small == 0.0 { 1.0 } else { large / small };
    let mut sorted: Vec<(f64, String)> = all
        .iter()
        .map(|(name, small, large)| {
            (growth(*small, *large), format!("{name}: {small:.1} a node, {large:.1} in the large one"))
        })
        .collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    sorted.iter().take(10).for_each(|(growth, line)| println!("{growth:.2} {line}"));
    assert!(all.iter().any(|(_, small, _)| *small > 5.0), "nothing is counted");
    let steep: Vec<&String> = sorted.iter().filter(|(growth, _)| *growth > MOST_GROWTH).map(|(_, line)| line).collect();
    assert!(steep.is_empty(), "not linear: {steep:#?}");
}

/// A chain of pointwise operators, all of which become one group.
fn chain(operators: usize) -> Graph {
    let mut text = "graph(%v0 : Tensor):\n  %one : int = prim::Constant[value=1]()\n".to_owned();
    for i in 0..operators {
        writeln!(text, "  %v{} : Tensor = aten::add(%v{i}, %v{i}, %one)", i + 1).expect("a text takes all");
    }
    writeln!(text, "  return (%v{operators})").expect("a text takes all");
    parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph
}

/// A group grows by one node for each pair, so whatever visits the whole group for a pair is
/// quadratic.
#[test]
fn a_long_chain_is_fused_and_explained_in_linear_work() {
    let counted = |graph: &Graph, f: &dyn Fn(&Graph)| {
        let before = visits::count();
        f(graph);
        (visits::count() - before) as f64
    };
    let fuse = Pipeline::parse("fuse{level=2}", &REGISTRY).expect("a pipeline");
    let fused = |graph: &Graph| _ = work(graph, &fuse);
    let explained = |graph: &Graph| _ = FusionReport::of(graph).text("chain.ir".as_ref(), None);
    let (small, large) = (chain(200), chain(800));
    let growth_of = |step: &dyn Fn(&Graph)| counted(&large, step) / counted(&small, step);
    for (name, growth) in [("fuse{level=2}", growth_of(&fused)), ("explain", growth_of(&explained))] {
        println!("{name}: {growth:.2} times the work for four times the operators");
        assert!((2.0..4.0 * MOST_GROWTH).contains(&growth), "{name} takes {growth:.2} times the work");
    }
}
