//! Takes apart tuples that were just put together.
//!
//! ```text
//! %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)   =>
//! %p : Tensor, %q : Tensor = prim::TupleUnpack(%t)
//! %y : Tensor = aten::mul(%p, %q)                             %y : Tensor = aten::mul(%a, %b)
//! ```
//!
//! Local and never fails; tuples that pass through branches, loops or the graph's results stay. `lower-all-tuples` removes
//! those too. Ends with `dce`, as in PyTorch. Linear in nodes.

use crate::dead_code_elimination;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "lower-simple-tuples",
    aliases: &[],
    summary: "replace unpacking, indexing and slicing of a tuple construct by its operands",
    example: "%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b), %p : Tensor, %q : Tensor = prim::TupleUnpack(%t)  =>  %a, %b",
    options: &[],
    required: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before lowering simple tuples", graph);
    let nodes: Vec<Node> = graph.all_nodes().filter(|&node| takes_apart(graph, node)).collect();
    for node in nodes {
        lower_use(graph, cx, node);
    }
    dead_code_elimination::eliminate(graph, cx, true);
    graph_dump!("After lowering simple tuples", graph);
    Ok(())
}

/// Whether a node looks into a tuple.
pub(crate) fn takes_apart(graph: &Graph, node: Node) -> bool {
    matches!(graph.kind(node), prim::TUPLE_UNPACK | prim::TUPLE_INDEX | prim::TUPLE_SLICE)
}

/// Replaces a node that looks into a tuple construct by the operands of that construct. True when it did.
pub(crate) fn lower_use(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> bool {
    let Some(parts) = constructed_parts(graph, node) else { return false };
    let values: Option<Vec<Value>> = match graph.kind(node) {
        prim::TUPLE_UNPACK => (parts.len() == graph.num_outputs(node)).then(|| parts.clone()),
        prim::TUPLE_INDEX => indexed(graph, node, &parts).map(|value| vec![value]),
        _ => return slice(graph, cx, node, &parts),
    };
    let Some(values) = values else { return false };
    let done = cx.rewrite(graph, "tuples-lowered", node, |graph| {
        graph_update!("Replacing {} of %{}", graph.kind(node), graph.name(graph.input(node, 0)));
        for (i, value) in values.into_iter().enumerate() {
            let output = graph.output(node, i);
            graph.replace_all_uses(output, value);
        }
    });
    done.is_some()
}

/// The operands of the tuple construct that a node looks into.
fn constructed_parts(graph: &Graph, node: Node) -> Option<Vec<Value>> {
    let construct = graph.definer(graph.inputs(node).next()?)?;
    (graph.kind(construct) == prim::TUPLE_CONSTRUCT).then(|| graph.inputs(construct).collect())
}

fn indexed(graph: &Graph, node: Node, parts: &[Value]) -> Option<Value> {
    let index = graph.constant_int(graph.inputs(node).nth(1)?)?;
    let index = if index < 0 { index + parts.len() as i64 } else { index };
    parts.get(usize::try_from(index).ok()?).copied()
}

fn slice(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, parts: &[Value]) -> bool {
    let bound = |name| graph.attribute(node, Symbol::new(name)).and_then(|a| usize::try_from(a.as_int()?).ok());
    let (Some(begin), Some(end)) = (bound("beg"), bound("end")) else { return false };
    let Some(picked) = parts.get(begin..end).map(<[Value]>::to_vec) else { return false };
    let done = cx.rewrite(graph, "tuples-lowered", node, |graph| {
        let types: Vec<Type> = picked.iter().map(|&value| graph.ty(value)).collect();
        let tuple = graph.create_op(prim::TUPLE_CONSTRUCT, &picked, Type::tuple(&types));
        graph.insert_before(node, tuple);
        let (old, new) = (graph.output(node, 0), graph.output(tuple, 0));
        graph.replace_all_uses(old, new);
    });
    done.is_some()
}
