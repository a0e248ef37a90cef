//! Runs the first iterations of a loop in a loop of their own, so that later passes can specialise
//! them.
//!
//! ```text
//!                                                %1 : int = prim::Constant[value=1]()
//!                                                %k : int = prim::min(%n, %1)
//! %y : Tensor = prim::Loop(%n, %c, %x)           %a : Tensor, %d : bool = prim::Loop(%k, %c, %x, %c)
//!   block0(%i : int, %p : Tensor):         =>      (the body; its condition is carried out)
//!     %q : Tensor = aten::add(%p, %i)            %r : int = aten::sub(%n, %k)
//!     -> (%e, %q)                                %y : Tensor = prim::Loop(%r, %d, %a)
//!                                                  block0(%i : int, %p : Tensor):
//!                                                    %j : int = aten::add(%k, %i)
//!                                                    %q : Tensor = aten::add(%p, %j)
//!                                                    -> (%e, %q)
//! ```
//!
//! The second loop continues where the first ended: with its state, its condition, and the counter
//! offset by the maximum number of trips of the first. With a negative number of trips neither
//! runs. Only loops that contain no loop, so that a graph at most doubles.
//!
//! Not idempotent: the resulting loops can be peeled again. Linear in nodes.

use crate::dead_code_elimination::fits;
use crate::loop_unrolling::{number, operation, share_constants};
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Graph, LoopIterations, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "loop-peeling",
    aliases: &["peel-loops"],
    summary: "run the first iterations of innermost loops in a loop of their own",
    example: "%y : Tensor = prim::Loop(%n, %c, %x)  =>  a loop of min(n, 1) trips, and one for the rest",
    options: &[PassOption { name: "iterations", default: "1", summary: "how many iterations to peel" }],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let iterations: u32 = cx.option("iterations")?;
    if iterations == 0 {
        return Err(PassError::misuse("`iterations` must be at least 1"));
    }
    graph_dump!("Before loop peeling", graph);
    let loops: Vec<Node> =
        graph.all_nodes().filter(|&node| graph.kind(node) == prim::LOOP && fits(graph, node)).collect();
    let mut around: EntitySet<Node> = EntitySet::new();
    for &node in &loops {
        let outside = std::iter::successors(graph.enclosing(node), |&node| graph.enclosing(node));
        for outer in outside {
            if !around.insert(outer) {
                break;
            }
        }
    }
    for node in loops {
        if !around.contains(node) {
            cx.rewrite(graph, "loops-peeled", node, |graph| peel(graph, node, i64::from(iterations)));
        }
    }
    graph_dump!("After loop peeling", graph);
    Ok(())
}

/// Inserts a loop of the first iterations before a loop.
fn peel(graph: &mut Graph, node: Node, iterations: i64) {
    graph_update!("Peeling {iterations} iterations of a loop");
    share_constants(graph, node);
    let (trips, condition) = (graph.input(node, 0), graph.input(node, 1));
    let most = number(graph, iterations, node);
    let first = graph.copy_node(None, node, &mut ValueMap::default());
    let taken = operation(graph, "prim::min", &[trips, most], node);
    graph.insert_before(node, first);
    graph.set_input(first, 0, taken);

    // The condition is the last carried value of the first loop.
    let body = graph.node_block(first, 0);
    graph.add_input(first, condition);
    graph.add_param(body, Type::bool());
    let goes_on = graph.input(graph.return_node(body), 0);
    graph.add_result(body, goes_on);
    let ended = graph.add_output(first, Type::bool());

    let left = operation(graph, "aten::sub", &[trips, taken], node);
    graph.set_input(node, 0, left);
    graph.set_input(node, 1, ended);
    for i in 0..graph.num_outputs(node) {
        let state = graph.output(first, i);
        graph.set_input(node, i + 2, state);
    }
    move_counter(graph, node, taken);
    // Where the first loop ran fewer iterations, the second runs none.
    let numbering = graph.loop_iterations(node);
    let taken = numbering.start + numbering.stride * iterations as u64;
    graph.set_loop_iterations(node, LoopIterations { start: if numbering.continues { 0 } else { taken }, ..numbering });
}

/// Offsets the counter to where the first loop ended.
fn move_counter(graph: &mut Graph, node: Node, taken: Value) {
    let body = graph.node_block(node, 0);
    let counter = graph.output(graph.param_node(body), 0);
    if !graph.has_uses(counter) {
        return;
    }
    let moved = graph.create_op(Symbol::new("aten::add"), &[taken, taken], Type::int());
    graph.prepend(body, moved);
    graph.replace_all_uses(counter, graph.output(moved, 0));
    graph.set_input(moved, 1, counter);
}
