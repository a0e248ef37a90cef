//! Random operators in loops, for tests of passes that repeat bodies.

use jitopt_core::ir::Graph;
use jitopt_core::ops;
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::symbol::prim;

/// Whether iterations that become nodes of their own may draw at other times.
pub fn draws_in_loops(graph: &Graph) -> bool {
    let random = |node| ops::operator(graph.era, graph.kind(node)).nondeterminism(None) > Nondeterminism::Undefined;
    let in_loop = |node| {
        let mut around = std::iter::successors(graph.enclosing(node), |&node| graph.enclosing(node));
        around.any(|node| graph.kind(node) == prim::LOOP)
    };
    graph.all_nodes().any(|node| random(node) && in_loop(node))
}
