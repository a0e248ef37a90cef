//! Removes expands that broadcasting inserted: operators broadcast by themselves.
//!
//! ```text
//! %e : Tensor = aten::expand(%b, %size, %true)   =>
//! %y : Tensor = aten::add(%x, %e, %1)                  %y : Tensor = aten::add(%x, %b, %1)
//! ```
//!
//! Only expands whose `implicit` operand is the constant true: an expand that the user wrote
//! changes a shape that may be read. The mark is trusted, as in PyTorch: a node that reads the size
//! of an implicit expand, or a caller that receives it, sees the smaller tensor afterwards.
//! `@default` omits this pass for that reason. Linear in nodes.

use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::aten;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "remove-expands",
    aliases: &[],
    summary: "remove implicit expands, as operators broadcast by themselves",
    example: "%e : Tensor = aten::expand(%b, %size, %true), %y : Tensor = aten::add(%x, %e, %1)  =>  %y : Tensor = aten::add(%x, %b, %1)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before removing expands", graph);
    let expands: Vec<Node> = graph.all_nodes().filter(|&node| is_implicit_expand(graph, node)).collect();
    for node in expands {
        cx.rewrite(graph, "expands-removed", node, |graph| {
            graph_update!("Removing implicit expand %{}", graph.name(graph.output(node, 0)));
            let (input, output) = (graph.input(node, 0), graph.output(node, 0));
            graph.replace_all_uses(output, input);
            graph.erase(node);
        });
    }
    graph_dump!("After removing expands", graph);
    Ok(())
}

fn is_implicit_expand(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == aten::EXPAND
        && graph.num_inputs(node) == 3
        && graph.num_outputs(node) == 1
        && graph.constant_int(graph.input(node, 2)) == Some(1)
}
