//! Removes asserts and branches that certainly raise.
//!
//! ```text
//! %ok : bool = aten::gt(%n, %zero)
//! %y : Tensor = prim::If(%ok)
//!   block0():
//!     %r : Tensor = aten::relu(%x)          %ok : bool = aten::gt(%n, %zero)
//!     -> (%r)                          =>   %r : Tensor = aten::relu(%x)
//!   block1():
//!     prim::RaiseException(%msg, %none)
//!     -> (%u)
//! ```
//!
//! The result equals that of the input on every run that does not raise; on others it is
//! unspecified, and effects before the exception are lost, so no named pipeline has this pass. A
//! block certainly raises when it holds `prim::RaiseException`, or a `prim::If` of which both
//! branches do. Where both raise, the branch stays and the enclosing block raises. `dce` erases the
//! conditions that become unread.
//!
//! Linear in nodes: each node moves at most once per removed enclosing branch. Idempotent.

use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Block, Graph, Node};
use jitopt_core::ops;
use jitopt_core::ops::rules::Effect;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "eliminate-exceptions",
    aliases: &["EliminateExceptions"],
    summary: "remove asserts and branches that raise; results are those of runs that do not raise",
    example: "%y : Tensor = prim::If(%ok) block0(): -> (%r) block1(): prim::RaiseException(%msg) -> (%u)  =>  %r",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before eliminating exceptions", graph);
    let nodes: Vec<Node> = graph.all_nodes().collect();
    let mut raising = EntitySet::new();
    // Nodes come before the nodes of their blocks, so in reverse inner branches are decided first.
    for &node in nodes.iter().rev() {
        if graph.kind(node) == prim::RAISE_EXCEPTION {
            mark(&mut raising, graph, node);
        } else if graph.kind(node) == prim::IF && graph.num_blocks(node) == 2 {
            let blocks = [graph.node_block(node, 0), graph.node_block(node, 1)];
            match blocks.map(|block| raising.contains(block)) {
                [true, true] => mark(&mut raising, graph, node),
                [false, false] => {}
                [first, _] => keep_branch(graph, cx, node, blocks[usize::from(first)]),
            }
        } else if is_assert(graph, node) {
            cx.rewrite(graph, "asserts-erased", node, |graph| graph.erase(node));
        }
    }
    graph_dump!("After eliminating exceptions", graph);
    Ok(())
}

/// Records that the block of a node raises.
fn mark(raising: &mut EntitySet<Block>, graph: &Graph, node: Node) {
    if let Some(block) = graph.block_of(node) {
        raising.insert(block);
    }
}

/// Whether a node either raises or does nothing: `aten::_assert_async` and similar operators.
fn is_assert(graph: &Graph, node: Node) -> bool {
    let effect = ops::operator(graph.era, graph.kind(node)).rule.effect;
    effect == Effect::Raise && graph.num_outputs(node) == 0
}

/// Replaces a `prim::If` by the nodes of one of its blocks.
fn keep_branch(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, block: Block) {
    cx.rewrite(graph, "branches-removed", node, |graph| {
        graph_update!("Removing the branch of the If on %{} that raises", graph.name(graph.input(node, 0)));
        let body: Vec<Node> = graph.nodes(block).collect();
        for moved in body {
            graph.move_before(moved, node);
        }
        for i in 0..graph.num_outputs(node) {
            let result = graph.input(graph.return_node(block), i);
            graph.replace_all_uses(graph.output(node, i), result);
        }
        graph.erase(node);
    });
}
