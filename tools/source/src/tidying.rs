//! The passes that PyTorch runs on a graph after it was emitted.

use crate::source_error::{Result, SourceError};
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::{self, Pipeline, Session};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::release::Release;
use jitopt_passes::REGISTRY;
use std::cmp::Ordering;

/// The passes of `runCleanupPasses` in `ir_emitter.cpp`, by the first release that runs them. 1.5
/// and 1.6 do not pool the constants that they propagate.
const CLEANUPS: [(Release, &str); 3] = [
    (Release(1, 7), "lower-simple-tuples,constant-propagation{immutable-only},constant-pooling"),
    (Release(1, 5), "lower-simple-tuples,constant-pooling,constant-propagation{immutable-only}"),
    (Release(0, 0), "lower-simple-tuples,constant-pooling"),
];

/// The text of a tensor whose elements are not shown.
const HIDDEN: &str = "<Tensor>";
/// The pass that makes values of variables.
const SSA: &str = "convert-to-ssa,exit-transforms";

/// Makes values of the variables of an emitted graph.
pub(crate) fn make_ssa(graph: &mut Graph) -> Result<()> {
    run(graph, SSA)
}

/// Makes of an emitted graph what PyTorch prints.
pub(crate) fn tidy(mut graph: Graph) -> Result<Graph> {
    each_constant(&mut graph, |value| match value {
        // Elements that the text does not show are known here: copies share their text.
        Attribute::Opaque(text) if &**text == HIDDEN => Some(Attribute::Tensor(text.clone())),
        _ => None,
    });
    let passes = cleanup(graph.release());
    run(&mut graph, passes)?;
    each_constant(&mut graph, |value| match value {
        Attribute::Tensor(text) if &**text == HIDDEN => Some(Attribute::Opaque(text.clone())),
        _ => None,
    });
    order_results(&mut graph);
    Ok(graph)
}

/// The passes that a release runs.
fn cleanup(release: Release) -> &'static str {
    CLEANUPS.iter().find(|(since, _)| release >= *since).map_or("", |(_, passes)| passes)
}

/// Changes values of constants.
fn each_constant(graph: &mut Graph, change: impl Fn(&Attribute) -> Option<Attribute>) {
    let constants: Vec<Node> = graph.all_nodes().filter(|node| graph.kind(*node) == prim::CONSTANT).collect();
    for node in constants {
        if let Some(value) = graph.attribute(node, attr::VALUE).and_then(&change) {
            graph.set_attribute(node, attr::VALUE, value);
        }
    }
}

fn run(graph: &mut Graph, passes: &str) -> Result<()> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).map_err(|error| SourceError::new(error.render(passes)))?;
    pass::run(graph, &pipeline, &mut Session::default(), &mut [])
        .map_err(|error| SourceError::new(format!("the graph of this function is broken: {error}")))
}

/// Work on results, last first.
enum Step {
    Block(Block),
    Node(Node),
}

/// Orders the results of Ifs and Loops by their first uses, as `CanonicalizeOutputs` does: later
/// nodes and what is within them first, because their order decides what is used first.
fn order_results(graph: &mut Graph) {
    let mut steps = vec![Step::Block(graph.root())];
    while let Some(step) = steps.pop() {
        match step {
            Step::Block(block) => {
                let nodes = graph.nodes(block).filter(|node| graph.num_blocks(*node) > 0);
                steps.extend(nodes.map(Step::Node));
            }
            Step::Node(node) => {
                let order = order_of_uses(graph, node);
                if !order.is_sorted() {
                    permute(graph, node, &order);
                }
                steps.extend(graph.node_blocks(node).rev().map(Step::Block));
            }
        }
    }
}

/// The numbers of the outputs in the order of their first uses; unused ones last.
fn order_of_uses(graph: &Graph, node: Node) -> Vec<usize> {
    let first: Vec<Option<(Node, usize)>> = graph.outputs(node).map(|output| first_use(graph, output)).collect();
    let mut order: Vec<usize> = (0..first.len()).collect();
    order.sort_by(|a, b| match (first[*a], first[*b]) {
        (Some(a), Some(b)) if a.0 == b.0 => a.1.cmp(&b.1),
        (Some(a), Some(b)) if before(graph, a.0, b.0) => Ordering::Less,
        (Some(_), Some(_)) => Ordering::Greater,
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    order
}

fn first_use(graph: &Graph, value: Value) -> Option<(Node, usize)> {
    let uses = graph.uses(value).map(|one| (graph.user(one), graph.operand_index(one)));
    uses.reduce(|a, b| match a.0 == b.0 {
        true if a.1 <= b.1 => a,
        true => b,
        false if before(graph, a.0, b.0) => a,
        false => b,
    })
}

/// Whether a node is printed before another.
fn before(graph: &Graph, a: Node, b: Node) -> bool {
    let (outer_a, outer_b) = graph.in_common_block(a, b);
    if outer_a != outer_b {
        return graph.is_before(outer_a, outer_b);
    }
    // A node comes before what is within it, and its blocks are printed in their order.
    let (block_a, block_b) = (block_within(graph, outer_a, a), block_within(graph, outer_a, b));
    outer_a == a || (outer_b != b && block_a < block_b)
}

/// The number of the block of a node that holds another one.
fn block_within(graph: &Graph, outer: Node, mut node: Node) -> Option<usize> {
    while let Some(block) = graph.block_of(node) {
        if let Some(number) = graph.node_blocks(outer).position(|within| within == block) {
            return Some(number);
        }
        node = graph.enclosing(node)?;
    }
    None
}

fn permute(graph: &mut Graph, node: Node, order: &[usize]) {
    let is_loop = graph.kind(node) == prim::LOOP;
    reorder_outputs(graph, node, 0, order);
    for i in 0..graph.num_blocks(node) {
        let block = graph.node_block(node, i);
        let (results, params) = (graph.return_node(block), graph.param_node(block));
        reorder_inputs(graph, results, usize::from(is_loop), order);
        if is_loop {
            reorder_outputs(graph, params, 1, order);
        }
    }
    if is_loop {
        reorder_inputs(graph, node, 2, order);
    }
}

/// Operands from `skip` on in another order.
fn reorder_inputs(graph: &mut Graph, node: Node, skip: usize, order: &[usize]) {
    let old: Vec<Value> = graph.inputs(node).collect();
    for (place, from) in order.iter().enumerate() {
        graph.set_input(node, place + skip, old[from + skip]);
    }
}

/// Outputs from `skip` on in another order: new ones take over names and uses.
fn reorder_outputs(graph: &mut Graph, node: Node, skip: usize, order: &[usize]) {
    let old: Vec<Value> = graph.outputs(node).skip(skip).collect();
    for at in order {
        let ty = graph.ty(old[*at]);
        let new = graph.add_output(node, ty);
        graph.replace_all_uses(old[*at], new);
        graph.move_name(old[*at], new);
    }
    for _ in &old {
        graph.remove_output(node, skip);
    }
}
