//! Erases everything that types say about tensors.
//!
//! ```text
//! %y : Float(2, 3) = aten::neg(%x)    =>    %y : Tensor = aten::neg(%x)
//! ```
//!
//! This includes tensors inside optionals, lists, dicts, tuples and futures, subgraphs, and tensor
//! constants. Linear in values.

use jitopt_core::graph_dump;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "erase-shape-information",
    aliases: &["erase-shapes"],
    summary: "erase dtypes, sizes, strides, devices: every tensor is a plain Tensor",
    example: "%y : Float(2, 3) = aten::neg(%x)  =>  %y : Tensor = aten::neg(%x)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before erasing shapes", graph);
    erase(graph, cx);
    graph_dump!("After erasing shapes", graph);
    Ok(())
}

fn erase(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let blocks: Vec<Block> = graph.all_blocks().collect();
    let params: Vec<Node> = blocks.iter().map(|&block| graph.param_node(block)).collect();
    let nodes: Vec<Node> = params.into_iter().chain(graph.all_nodes()).collect();
    for node in nodes {
        for i in 0..graph.num_outputs(node) {
            erase_value(graph, cx, node, graph.output(node, i));
        }
        if graph.subgraph(node).is_some() {
            graph.with_subgraph(node, |inner| erase(inner, cx));
        }
    }
}

fn erase_value(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, value: Value) {
    let Some(ty) = graph.written_type(value) else { return };
    let erased = ty.erased();
    if erased != ty {
        cx.rewrite(graph, "types-erased", node, |graph| graph.set_type(value, erased));
    }
}
