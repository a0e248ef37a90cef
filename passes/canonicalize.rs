//! Numbers values in printed order and drops names, so that texts compare.
//!
//! ```text
//! graph(%x : Tensor):                       graph(%0 : Tensor):
//!   %y.3 : Tensor = aten::neg(%x)             %1 : Tensor = aten::neg(%0)
//!   return (%y.3)                             return (%1)
//! ```
//!
//! PyTorch's `Canonicalize` copies the graph, which numbers values in the order of creation:
//! params, then the outputs of each node, then the contents of its blocks. With `keep-names`, named
//! values keep their names and still consume a number. Each subgraph is numbered on its own.
//!
//! Linear in nodes.

use jitopt_core::graph_dump;
use jitopt_core::ir::{Block, Graph, Label, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "canonicalize",
    aliases: &["canonicalize-renumber"],
    summary: "number values in printed order, drop names",
    example: "%y.3 : Tensor = aten::neg(%x)  =>  %1 : Tensor = aten::neg(%0)",
    options: &[PassOption { name: "keep-names", default: "false", summary: "values that have a name keep it" }],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before canonicalization", graph);
    let keep_names = cx.flag("keep-names")?;
    if cx.may("values-renumbered") {
        let renamed = renumber(graph, keep_names);
        cx.count("values-renumbered", renamed);
    }
    graph_dump!("After canonicalization", graph);
    Ok(())
}

/// Renumbers a graph and its subgraphs; returns how many values have a new name.
fn renumber(graph: &mut Graph, keep_names: bool) -> u64 {
    let order = in_printed_order(graph);
    let mut renamed = 0;
    for (number, &value) in order.iter().enumerate() {
        let number = number as u32;
        let is_other = graph.label(value) != Label::Number(number);
        let numbered = match keep_names {
            true => graph.set_number_if_nameless(value, number),
            false => {
                graph.set_number(value, number);
                true
            }
        };
        renamed += u64::from(numbered && is_other);
    }
    graph.set_next_number(order.len() as u32);
    let carriers: Vec<Node> = graph.all_nodes().filter(|&node| graph.subgraph(node).is_some()).collect();
    for node in carriers {
        renamed += graph.with_subgraph(node, |inner| renumber(inner, keep_names)).unwrap_or(0);
    }
    renamed
}

/// All values in the order in which copying the graph would create them. No recursion.
fn in_printed_order(graph: &Graph) -> Vec<Value> {
    let mut order: Vec<Value> = graph.params(graph.root()).collect();
    let mut work: Vec<(Option<Node>, Vec<Block>)> = vec![(graph.first(graph.root()), Vec::new())];
    while let Some((cursor, blocks)) = work.last_mut() {
        if let Some(block) = blocks.pop() {
            order.extend(graph.params(block));
            let first = graph.first(block);
            work.push((first, Vec::new()));
        } else if let Some(node) = *cursor {
            *cursor = graph.next(node);
            order.extend(graph.outputs(node));
            blocks.extend(graph.node_blocks(node).rev());
        } else {
            work.pop();
        }
    }
    order
}
