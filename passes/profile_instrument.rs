//! Puts a node that looks on in front of what reads a tensor: a run then tells what tensors there are.
//!
//! ```text
//! graph(%x : Tensor, %z : Tensor):               graph(%x : Tensor, %z : Tensor):
//!   %y : Tensor = aten::mul(%x, %z)                %1 : Tensor = prim::profile(%x)
//!   return (%y)                             =>     %2 : Tensor = prim::profile(%z)
//!                                                  %y : Tensor = aten::mul(%1, %2)
//!                                                  %3 : Tensor = prim::profile(%y)
//!                                                   = prim::profile()
//!                                                  return (%3)
//! ```
//!
//! Each operand has one of its own: the same value may be another tensor in another place, after it was written to, or in a branch that
//! others never reach. The last one counts runs. Up to 1.4 every tensor operand is looked at, once for each node, and what the graph returns (as in
//! 1.4; 1.3 left results out). From 1.5 on it is what the compiler of kernels asks about ([`profiled`]), and what any block returns. What was seen stands in the
//! type of the output up to 1.4, in the attribute `profiled_type` from then on.
//!
//! Sections are not looked into: they have executors of their own. Linear in nodes.

use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::guard_rules::{Profiled, profiled};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::types::era::Era;
use jitopt_core::{graph_dump, planted};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "profile-instrument",
    aliases: &["instrument-graph"],
    summary: "look at tensors where they are read, so that a run tells what they are",
    example: "%y : Tensor = aten::neg(%x)  =>  %1 : Tensor = prim::profile(%x), %y : Tensor = aten::neg(%1)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    if let Some(node) = graph.all_nodes().find(|&node| graph.kind(node) == prim::PROFILE) {
        let error = PassError::at(graph, node, "the graph is instrumented already");
        return Err(error.with_help("run it with `jitopt run --record-profile=FILE`, or go on with `insert-guards`"));
    }
    instrument(graph, |graph, about, edit| {
        cx.rewrite(graph, RULE, about, edit);
    });
    graph_dump!("Instrumented Graph:", graph);
    Ok(())
}

/// What puts a node that looks into a graph.
pub(crate) const RULE: &str = "values-profiled";

/// Puts profile nodes into a graph that has none. `each` is given what one is about, and does the edit.
pub(crate) fn instrument(graph: &mut Graph, mut each: impl FnMut(&mut Graph, Node, &dyn Fn(&mut Graph))) {
    for (user, operand) in sites(graph) {
        let anchor = if graph.kind(user) == prim::RETURN { last_of(graph, user) } else { Some(user) };
        // A block that is empty has no node for a rewrite to be about; its owner is near.
        let about = anchor.or_else(|| graph.enclosing(user)).unwrap_or(user);
        each(graph, about, &|graph| look_at(graph, user, operand));
    }
    let count = graph.create(prim::PROFILE);
    graph.append(graph.root(), count);
}

fn last_of(graph: &Graph, end: Node) -> Option<Node> {
    graph.block_of(end).and_then(|block| graph.last(block))
}

/// The operands that are looked at, in printed order; those of an end of a block are what it returns.
fn sites(graph: &Graph) -> Vec<(Node, usize)> {
    let mut sites = Vec::new();
    let mut work = vec![(graph.root(), graph.first(graph.root()))];
    while let Some((block, cursor)) = work.pop() {
        let Some(node) = cursor else {
            results(graph, block, &mut sites);
            continue;
        };
        operands(graph, node, &mut sites);
        work.push((block, graph.next(node)));
        let blocks: Vec<Block> = graph.node_blocks(node).collect();
        work.extend(blocks.into_iter().rev().map(|block| (block, graph.first(block))));
    }
    sites
}

fn operands(graph: &Graph, node: Node, sites: &mut Vec<(Node, usize)>) {
    let asked = around(graph, node).operands;
    for (i, value) in graph.inputs(node).enumerate() {
        if graph.era == Era::V1_3 && graph.inputs(node).take(i).any(|other| other == value) {
            continue;
        }
        let made = || graph.definer(value).is_some_and(|maker| around(graph, maker).outputs);
        if graph.ty(value).is_tensor() && (planted!("profile.operands", asked, "none" => false) || made()) {
            sites.push((node, i));
        }
    }
}

fn results(graph: &Graph, block: Block, sites: &mut Vec<(Node, usize)>) {
    if graph.era == Era::V1_3 && block != graph.root() {
        return;
    }
    let tensors = graph.results(block).enumerate().filter(|(_, value)| graph.ty(*value).is_tensor());
    sites.extend(tensors.map(|(i, _)| (graph.return_node(block), i)));
}

/// What is looked at around a node.
fn around(graph: &Graph, node: Node) -> Profiled {
    let (era, kind) = (graph.era, graph.kind(node));
    let overload = || {
        let operands: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        ops::operator(era, kind).resolve(&operands).schema()
    };
    profiled(era, kind, if era == Era::V1_3 { None } else { overload() })
}

/// Puts a profile node between a value and one of its readers.
fn look_at(graph: &mut Graph, user: Node, operand: usize) {
    let value = graph.input(user, operand);
    let seen = profile_node(graph, value);
    graph.insert_before(user, seen);
    let seen = graph.output(seen, 0);
    graph.set_input(user, operand, seen);
    if graph.era == Era::V1_3 && graph.kind(user) != prim::RETURN {
        let others: Vec<usize> = (0..graph.num_inputs(user)).filter(|&i| graph.input(user, i) == value).collect();
        others.into_iter().for_each(|i| graph.set_input(user, i, seen));
    }
}

fn profile_node(graph: &mut Graph, value: Value) -> Node {
    let node = graph.create_op(prim::PROFILE, &[value], Type::tensor());
    if graph.era == Era::V2 {
        graph.set_attribute(node, attr::PROFILED_TYPE, Attribute::Type(Type::tensor()));
        graph.set_attribute(node, attr::SEEN_NONE, Attribute::Int(0));
    }
    node
}
