//! Tuples that a graph packs its results into. They compute nothing, and have no gradient: when a
//! graph is differentiated as a whole they stay outside of the group.
//!
//! ```text
//! graph(%x : Tensor):                       graph(%x : Tensor):
//!   %y : Tensor = aten::tanh(%x)              %y : Tensor = prim::DifferentiableGraph_0(%x)
//!   %t : (Tensor) = prim::TupleConstruct(%y)  %t : (Tensor) = prim::TupleConstruct(%y)
//!   return (%t)                               return (%t)
//! ```

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::symbol::prim;
use rustc_hash::FxHashSet;

/// The packing of a graph's results in tuples.
pub(super) struct Packing {
    /// The tuple constructs, in the order of the graph.
    pub(super) nodes: Vec<Node>,
    /// Packed or returned values, in the order of the results: reader, operand, value.
    pub(super) leaves: Vec<(Node, usize, Value)>,
}

impl Packing {
    /// Of a graph as it is; without tuples the leaves are its results.
    pub(super) fn of(graph: &Graph, keeps_tuples: bool) -> Packing {
        let end = graph.return_node(graph.root());
        let mut readers = FxHashSet::from_iter([end]);
        let mut nodes = Vec::new();
        let all: Vec<Node> = graph.nodes(graph.root()).collect();
        for &node in all.iter().rev().filter(|&&node| keeps_tuples && graph.kind(node) == prim::TUPLE_CONSTRUCT) {
            let mut uses = graph.uses(graph.output(node, 0)).peekable();
            if uses.peek().is_some() && uses.all(|one| readers.contains(&graph.user(one))) {
                readers.insert(node);
                nodes.push(node);
            }
        }
        nodes.reverse();
        Packing { leaves: leaves(graph, end, &readers), nodes }
    }
}

/// The operands of the return node, tuples in the places of what they pack.
fn leaves(graph: &Graph, end: Node, packing: &FxHashSet<Node>) -> Vec<(Node, usize, Value)> {
    let operands = |node: Node| {
        let values: Vec<Value> = graph.inputs(node).collect();
        values.into_iter().enumerate().rev().map(move |(i, value)| (node, i, value))
    };
    let mut leaves = Vec::new();
    let mut seen = FxHashSet::default();
    let mut open: Vec<(Node, usize, Value)> = operands(end).collect();
    while let Some((node, i, value)) = open.pop() {
        match graph.definer(value).filter(|definer| packing.contains(definer)) {
            // A tuple that is returned twice is packed once.
            Some(tuple) => open.extend(seen.insert(tuple).then(|| operands(tuple)).into_iter().flatten()),
            None => leaves.push((node, i, value)),
        }
    }
    leaves
}
