//! Loop-invariant code motion: hoists nodes that compute the same in every iteration before the
//! loop.
//!
//! ```text
//! %y : Tensor = prim::Loop(%n, %yes, %x)            %e : Tensor = aten::exp(%w)
//!   block0(%i : int, %p : Tensor):                  %y : Tensor = prim::Loop(%n, %yes, %x)
//!     %e : Tensor = aten::exp(%w)             =>      block0(%i : int, %p : Tensor):
//!     %q : Tensor = aten::mul(%p, %e)                   %q : Tensor = aten::mul(%p, %e)
//!     -> (%yes, %q)                                     -> (%yes, %q)
//! ```
//!
//! PyTorch has no such pass. A node is hoisted when it is pure, its operands are defined outside of
//! the loop, and:
//!
//! - Neither its operands nor its results are written to, and its results are not visible outside
//!   the graph: there is one object now where each iteration had its own.
//! - It cannot fail, by a column of the operator table; or the loop certainly runs, with a constant
//!   trip count and a constant condition, and no node with an effect stands before it in the body.
//!   A loop may run no iteration at all, in which case a sum of incompatible tensors must not
//!   raise; and everything that an iteration prints before it raises must be printed.
//!
//! Nodes in branches of the body stay, because the branch may never be taken. Inner loops come
//! first, so that a node can be hoisted out of several loops. Linear in nodes times the depth of
//! loops; idempotent.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "hoist-loop-invariants",
    aliases: &["licm"],
    summary: "hoist nodes that compute the same in every iteration before the loop",
    example: "%y : Tensor = prim::Loop(..) { %e : Tensor = aten::exp(%w) .. }  =>  %e : Tensor = aten::exp(%w), %y : Tensor = prim::Loop(..)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before hoisting", graph);
    let loops: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::LOOP).collect();
    if !loops.is_empty() {
        let db = cx.alias(graph);
        // In printed order an inner loop comes after its outer loop.
        loops.into_iter().rev().for_each(|node| hoist_from(graph, cx, &db, node));
    }
    graph_dump!("After hoisting", graph);
    Ok(())
}

fn hoist_from(graph: &mut Graph, cx: &mut PassContext<'_>, db: &AliasDb, around: Node) {
    if graph.num_blocks(around) != 1 {
        return;
    }
    let mut is_reached = surely_runs(graph, around);
    let mut cursor = graph.first(graph.node_block(around, 0));
    while let Some(node) = cursor {
        cursor = graph.next(node);
        if is_invariant(graph, around, node) && is_pure(graph, node) {
            match objection(graph, db, node, is_reached) {
                None => {
                    cx.rewrite(graph, "nodes-hoisted", node, |graph| {
                        graph_update!("Hoisting {} out of a loop", graph.kind(node));
                        graph.move_before(node, around);
                    });
                }
                Some(why) => cx.missed(graph, "nodes-hoisted", node, || why.to_owned()),
            }
        }
        is_reached &= !db.has_side_effects(node);
    }
}

/// Whether a loop runs at least one iteration, whatever the inputs.
fn surely_runs(graph: &Graph, around: Node) -> bool {
    let constant = |i: usize| graph.constant_int(graph.input(around, i));
    graph.num_inputs(around) >= 2 && constant(0).is_some_and(|trips| trips > 0) && constant(1) == Some(1)
}

/// Whether the operands of a node of the body are defined outside of it.
fn is_invariant(graph: &Graph, around: Node, node: Node) -> bool {
    let body = graph.node_block(around, 0);
    let outside = |value| graph.definer(value).is_some_and(|definer| graph.block_of(definer) != Some(body));
    graph.inputs(node).all(outside)
}

/// Whether it computes the same each time and has no effects.
fn is_pure(graph: &Graph, node: Node) -> bool {
    let operator = ops::operator(graph.era, graph.kind(node));
    let types: Vec<Type> = graph.inputs(node).map(|operand| graph.ty(operand)).collect();
    let schema = operator.resolve(&types).schema();
    let pure = operator.is_pure(schema) && graph.kind(node) != prim::UNINITIALIZED;
    graph.num_blocks(node) == 0 && graph.subgraph(node).is_none() && pure
}

/// The reason why a node must be recomputed in each iteration.
fn objection(graph: &Graph, db: &AliasDb, node: Node, is_reached: bool) -> Option<&'static str> {
    let types: Vec<Type> = graph.inputs(node).map(|operand| graph.ty(operand)).collect();
    let fails = !ops::operator(graph.era, graph.kind(node)).is_total(&types);
    let seen = graph.outputs(node).any(|value| db.is_tracked(value) && db.escapes_scope(value));
    if db.node_has_writers(graph, node) {
        Some("its operands or results are written to")
    } else if seen && graph.kind(node) != prim::CONSTANT {
        Some("each iteration creates an object of its own, which is visible outside")
    } else if fails && !is_reached {
        Some("it may fail, and no iteration may reach it")
    } else {
        None
    }
}
