//! Removes operators that read a tuple which was just constructed.
//!
//! ```text
//! %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)   =>
//! %p : Tensor, %q : Tensor = prim::TupleUnpack(%t)
//! %y : Tensor = aten::mul(%p, %q)                             %y : Tensor = aten::mul(%a, %b)
//! ```
//!
//! Local and never fails; tuples that pass through branches, loops or the graph's results stay.
//! `lower-all-tuples` removes those too. Ends with `dce`, as in PyTorch. Linear in nodes.

use crate::dead_code_elimination;
use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "lower-simple-tuples",
    aliases: &[],
    summary: "replace unpacking, indexing and slicing of a tuple construct by its operands",
    example: "%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b), %p : Tensor, %q : Tensor = prim::TupleUnpack(%t)  =>  %a, %b",
    options: &[],
    required: false,
    reads_shapes: false,
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

/// Whether a node unpacks, indexes or slices a tuple.
pub(crate) fn takes_apart(graph: &Graph, node: Node) -> bool {
    matches!(graph.kind(node), prim::TUPLE_UNPACK | prim::TUPLE_INDEX | prim::TUPLE_SLICE)
}

/// Replaces a node that reads a tuple construct by the operands of that construct, if the gate
/// permits it.
fn lower_use(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    if replacement(graph, node).is_some() {
        cx.rewrite(graph, "tuples-lowered", node, |graph| take_apart(graph, node));
    }
}

/// The replacement of the outputs of a node that reads a tuple construct.
enum Replacement {
    Values(Vec<Value>),
    /// A new tuple of these.
    Tuple(Vec<Value>),
}

/// Performs the rewrite that [`lower_use`] gates. Returns whether it did.
pub(crate) fn take_apart(graph: &mut Graph, node: Node) -> bool {
    let Some(replacement) = replacement(graph, node) else { return false };
    graph_update!("Replacing {} of %{}", graph.kind(node), graph.name(graph.input(node, 0)));
    let values = match replacement {
        Replacement::Values(values) => values,
        Replacement::Tuple(picked) => {
            let types: Vec<Type> = picked.iter().map(|&value| graph.ty(value)).collect();
            let tuple = graph.create_op(prim::TUPLE_CONSTRUCT, &picked, Type::tuple(&types));
            graph.insert_before(node, tuple);
            vec![graph.output(tuple, 0)]
        }
    };
    for (i, value) in values.into_iter().enumerate() {
        let output = graph.output(node, i);
        graph.replace_all_uses(output, value);
    }
    true
}

fn replacement(graph: &Graph, node: Node) -> Option<Replacement> {
    let construct = graph.definer(graph.inputs(node).next()?)?;
    if graph.kind(construct) != prim::TUPLE_CONSTRUCT {
        return None;
    }
    let parts: Vec<Value> = graph.inputs(construct).collect();
    let fits = |n: usize| (graph.num_outputs(node) == n).then_some(());
    match graph.kind(node) {
        prim::TUPLE_UNPACK => fits(parts.len()).map(|()| Replacement::Values(parts)),
        prim::TUPLE_INDEX => fits(1).and_then(|()| Some(Replacement::Values(vec![indexed(graph, node, &parts)?]))),
        _ => fits(1).and_then(|()| Some(Replacement::Tuple(sliced(graph, node, &parts)?.to_vec()))),
    }
}

/// The index is an operand, and was an attribute until 1.1.
fn indexed(graph: &Graph, node: Node, parts: &[Value]) -> Option<Value> {
    let operand = || graph.constant_int(graph.inputs(node).nth(1)?);
    let index = graph.attribute(node, attr::INDEX).and_then(Attribute::as_int).or_else(operand)?;
    let len = parts.len() as i64;
    let index = if index < 0 { index + len } else { index };
    parts.get(usize::try_from(index).ok()?).copied()
}

fn sliced<'p>(graph: &Graph, node: Node, parts: &'p [Value]) -> Option<&'p [Value]> {
    let bound = |name| graph.attribute(node, name).and_then(|a| usize::try_from(a.as_int()?).ok());
    let (begin, end) = (bound(attr::BEGIN)?, bound(attr::END)?);
    parts.get(begin..end)
}
