//! Keeps one node per distinct constant, at the start of the graph.
//!
//! ```text
//! %1 : int = prim::Constant[value=1]()            %4 : float = prim::Constant[value=2.]()
//! %2 : Tensor = aten::add(%x, %x, %1)             %1 : int = prim::Constant[value=1]()
//! %3 : int = prim::Constant[value=1]()      =>    %2 : Tensor = aten::add(%x, %x, %1)
//! %4 : float = prim::Constant[value=2.]()         %5 : Tensor = aten::add(%2, %4, %1)
//! %5 : Tensor = aten::add(%2, %4, %3)
//! ```
//!
//! Every first occurrence moves to the very front, so that the last one met comes first, as in
//! PyTorch. The type is part of a constant: int 1 and float 1. are two. A constant of mutable type
//! (a tensor, a list) is only merged when no write can tell the copies apart; an unknown one never.
//! Constants in blocks are pooled too; those of subgraphs belong to the subgraph.
//!
//! One traversal and one hash table, linear in nodes.
//!
//! A second run reverses the constants again, as in PyTorch, so that texts compare. Pipelines
//! therefore keep the pass out of `fixpoint`.

use crate::common_subexpression_elimination::{StandIns, hash, same};
use hashbrown::HashTable;
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "constant-pooling",
    aliases: &[],
    summary: "merge equal constants and move them to the start of the graph",
    example: "%1 : int = prim::Constant[value=1](), …, %3 : int = prim::Constant[value=1]()  =>  %1 : int = prim::Constant[value=1]()",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before constant pooling", graph);
    pool(graph, cx);
    graph_dump!("After constant pooling", graph);
    Ok(())
}

/// Pools constants; `inline` does it to callees.
pub(crate) fn pool(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let db = cx.alias(graph);
    let constants: Vec<Node> = graph.all_nodes().filter(|&node| is_constant(graph, node)).collect();
    let mut stand_ins = StandIns::default();
    let mut table: HashTable<(u64, Node)> = HashTable::with_capacity(constants.len());
    for node in constants {
        let hash = hash(graph, node);
        let equal = |other| same(graph, node, other);
        let found = table.find(hash, |&(h, other)| h == hash && equal(other)).map(|&(_, other)| other);
        let Some(existing) = found else {
            // A constant that a gate keeps in place may be out of scope where its duplicates stand.
            if move_to_front(graph, cx, node) {
                table.insert_unique(hash, (hash, node), |&(h, _)| h);
            }
            continue;
        };
        let (old, new) = (graph.output(node, 0), graph.output(existing, 0));
        let safe = is_none(graph, node) || stand_ins.safe(&db, old, new);
        if !safe {
            cx.missed(graph, "constants-merged", node, || "a write to one of the two could tell them apart".to_owned());
        } else if cx.may("constants-merged") {
            graph_update!("Pooling %{} into %{}", graph.name(old), graph.name(new));
            cx.did(graph, "constants-merged", node);
            stand_ins.note(&db, old, new);
            graph.replace_all_uses(old, new);
            graph.erase(node);
        }
    }
}

fn is_constant(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == prim::CONSTANT && graph.num_outputs(node) == 1 && graph.num_inputs(node) == 0
}

/// Whether a constant is None, whatever else its type allows: None cannot be written to.
fn is_none(graph: &Graph, node: Node) -> bool {
    graph.attributes(node).is_empty()
}

/// Returns true when the node stands at the front now.
fn move_to_front(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> bool {
    let first = graph.first(graph.root()).expect("a graph with a constant has a first node");
    if node == first {
        return true;
    }
    let allowed = cx.may("constants-moved");
    if allowed {
        cx.did(graph, "constants-moved", node);
        graph.move_before(node, first);
    }
    allowed
}
