//! Inserts a profile node before each reader of a tensor: a run then records the types that it
//! observes.
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
//! Each operand has a profile node of its own: the same value may be another tensor at another
//! position, after it was written to, or in a branch that others never reach. The last one counts
//! runs. Up to 1.4 every tensor operand is profiled, once for each node, and the results of the
//! graph (as in 1.4; 1.3 omitted results). From 1.5 on it is those that the kernel compiler needs
//! ([`profiled`]), and the results of every block. Observed types are stored in the type of the
//! output up to 1.4, in the attribute `profiled_type` from then on.
//!
//! Sections are skipped: they have executors of their own. Linear in nodes.

use jitopt_core::graph_dump;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::guard_rules::{Profiled, profiled};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::types::era::Era;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "profile-instrument",
    aliases: &["instrument-graph"],
    summary: "insert profile nodes before the readers of tensors, so that a run records observed types",
    example: "%y : Tensor = aten::neg(%x)  =>  %1 : Tensor = prim::profile(%x), %y : Tensor = aten::neg(%1)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    if let Some(node) = graph.all_nodes().find(|&node| graph.kind(node) == prim::PROFILE) {
        let error = PassError::at(graph, node, "the graph is already instrumented");
        return Err(error.with_help("run it with `jitopt run --record-profile=FILE`, or continue with `insert-guards`"));
    }
    instrument(graph, |graph, about, edit| {
        cx.rewrite(graph, RULE, about, edit);
    });
    graph_dump!("Instrumented Graph:", graph);
    Ok(())
}

/// The counter of inserted profile nodes.
pub(crate) const RULE: &str = "values-profiled";

/// Inserts profile nodes into a graph that has none. `each` receives the node that one is for, and
/// performs the edit.
pub(crate) fn instrument(graph: &mut Graph, mut each: impl FnMut(&mut Graph, Node, &dyn Fn(&mut Graph))) {
    for (user, operand) in sites(graph) {
        let anchor = if graph.kind(user) == prim::RETURN { last_of(graph, user) } else { Some(user) };
        // An empty block has no node for a rewrite to refer to; its owner is near.
        let about = anchor.or_else(|| graph.enclosing(user)).unwrap_or(user);
        each(graph, about, &|graph| look_at(graph, user, operand));
    }
    let count = graph.create(prim::PROFILE);
    graph.append(graph.root(), count);
}

fn last_of(graph: &Graph, end: Node) -> Option<Node> {
    graph.block_of(end).and_then(|block| graph.last(block))
}

/// The profiled operands, in printed order; those of the end of a block are its results.
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
    let is_profiled = around(graph, node).operands;
    for (i, value) in graph.inputs(node).enumerate() {
        if graph.era == Era::V1_3 && graph.inputs(node).take(i).any(|other| other == value) {
            continue;
        }
        let made = || graph.definer(value).is_some_and(|maker| around(graph, maker).outputs);
        if graph.ty(value).is_tensor() && (is_profiled || made()) {
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

/// The operands of a node that are profiled.
fn around(graph: &Graph, node: Node) -> Profiled {
    let (era, kind) = (graph.era, graph.kind(node));
    let overload = || {
        let operands: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        ops::operator(era, kind).resolve(&operands).schema()
    };
    profiled(era, kind, if era == Era::V1_3 { None } else { overload() })
}

/// Inserts a profile node between a value and one of its readers.
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
