//! Removes the tuples of a graph: branches, loops and the graph itself return the elements instead.
//!
//! ```text
//! %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)   =>
//! %r : (Tensor, Tensor) = prim::Loop(%n, %c, %t)              %1 : Tensor, %2 : Tensor = prim::Loop(%n, %c, %a, %b)
//!   block0(%i : int, %s : (Tensor, Tensor)):                    block0(%i : int, %3 : Tensor, %4 : Tensor):
//! return (%t)                                                 return (%a, %b)
//! ```
//!
//! Nested tuples are flattened. A tuple that is an operand of another operator (a list of tuples, a
//! format string, a call) cannot be removed: that is an error, as in PyTorch; `lower-simple-tuples`
//! leaves such tuples. Ends with `dce`.
//!
//! A constant tuple becomes a constant for each element, as in PyTorch. A constant whose text does
//! not show an element, `(<Tensor>, 1)`, stays: contents that are bound to it by name would be
//! lost.
//!
//! Every value of tuple type is replaced by its elements and a construct that packs them again for
//! the uses that are still to be lowered; those constructs are dead at the end. Sections are graphs
//! of their own and stay unchanged. Linear in nodes and elements, except for a node with thousands
//! of tuple operands or results, whose other operands are shifted one by one.

use crate::dead_code_elimination;
use crate::lower_simple_tuples::{take_apart, takes_apart};
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "lower-all-tuples",
    aliases: &[],
    summary: "flatten all tuples, including those of branches, loops, params and results",
    example: "%t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b), return (%t)  =>  return (%a, %b)",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before lowering all tuples", graph);
    // All or nothing: a tuple that is lowered on only one side of a branch would break the graph.
    if !cx.may("tuples-lowered") {
        return Ok(());
    }
    refuse_other_uses(graph)?;
    let mut work = vec![(graph.root(), None)];
    flatten_outputs(graph, cx, graph.param_node(graph.root()), graph.root());
    while let Some((block, cursor)) = work.pop() {
        let node = match cursor {
            None => graph.first(block),
            Some(node) => graph.next(node),
        };
        let Some(node) = node else {
            let end = graph.return_node(block);
            flatten_inputs(graph, cx, end)?;
            continue;
        };
        work.push((block, Some(node)));
        visit(graph, cx, node, block)?;
        let blocks: Vec<Block> = graph.node_blocks(node).collect();
        for &block in blocks.iter().rev() {
            flatten_outputs(graph, cx, graph.param_node(block), block);
            work.push((block, None));
        }
    }
    dead_code_elimination::eliminate(graph, cx, true);
    graph_dump!("After lowering all tuples", graph);
    nothing_left(graph)
}

fn is_tuple(graph: &Graph, value: Value) -> bool {
    graph.ty(value).tuple_elements().is_some()
}

/// Kinds that forward tuples and can forward the elements instead.
fn forwards(graph: &Graph, node: Node) -> bool {
    matches!(graph.kind(node), prim::IF | prim::LOOP | prim::RETURN | prim::PARAM | prim::UNINITIALIZED)
        || graph.kind(node) == prim::TUPLE_CONSTRUCT
        || takes_apart(graph, node)
}

/// Reports obstacles before anything is changed.
fn refuse_other_uses(graph: &Graph) -> Result<(), PassError> {
    for node in graph.all_nodes().filter(|&node| matches!(graph.kind(node), prim::IF | prim::LOOP)) {
        refuse_other_shapes(graph, node)?;
    }
    for node in graph.all_nodes().filter(|&node| !forwards(graph, node)) {
        let tuple = graph.inputs(node).chain(graph.outputs(node)).find(|&value| is_tuple(graph, value));
        let constant = graph.kind(node) == prim::CONSTANT;
        if let Some(value) = tuple.filter(|_| !constant) {
            let message =
                format!("%{} is a tuple, and {} does not forward tuples", graph.name(value), graph.kind(node));
            return Err(PassError::at(graph, node, message)
                .with_help("`lower-simple-tuples` removes only those tuples that can be removed"));
        }
    }
    Ok(())
}

/// Tuples that enter and leave a block must agree: each is replaced by as many values.
fn refuse_other_shapes(graph: &Graph, node: Node) -> Result<(), PassError> {
    let is_loop = graph.kind(node) == prim::LOOP;
    let carried = |values: Vec<Value>, skipped: usize| if is_loop { values[skipped..].to_vec() } else { values };
    let mut sides = vec![];
    for block in graph.node_blocks(node) {
        sides.push(carried(graph.results(block).collect(), 1));
        if is_loop {
            sides.push(carried(graph.params(block).collect(), 1));
            sides.push(carried(graph.inputs(node).collect(), 2));
        }
    }
    for (i, output) in graph.outputs(node).enumerate() {
        for other in sides.iter().filter_map(|side| side.get(i)) {
            if !is_same_shape(graph.ty(output), graph.ty(*other)) {
                let (name, ty) = (graph.name(*other), graph.ty(*other));
                let message = format!("%{} is a `{}`, but %{name} is a `{ty}`", graph.name(output), graph.ty(output));
                return Err(PassError::at(graph, node, message));
            }
        }
    }
    Ok(())
}

/// Whether two types are tuples of the same number of elements, recursively; or neither is a tuple.
fn is_same_shape(a: Type, b: Type) -> bool {
    match (a.tuple_elements(), b.tuple_elements()) {
        (None, None) => true,
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(&a, &b)| is_same_shape(a, b)),
        _ => false,
    }
}

fn visit(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, block: Block) -> Result<(), PassError> {
    if takes_apart(graph, node) {
        if take_apart(graph, node) {
            cx.did(graph, "tuples-lowered", node);
        }
        return Ok(());
    }
    if graph.kind(node) == prim::TUPLE_CONSTRUCT {
        return Ok(());
    }
    if graph.kind(node) == prim::CONSTANT {
        split_constant(graph, cx, node);
        return Ok(());
    }
    let passes_on = matches!(graph.kind(node), prim::IF | prim::LOOP);
    if passes_on {
        flatten_inputs(graph, cx, node)?;
    }
    flatten_outputs(graph, cx, node, block);
    Ok(())
}

/// Inserts a construct of constants after a constant tuple. Elements that are tuples come next:
/// they stand before the construct.
fn split_constant(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let tuple = graph.output(node, 0);
    let (Some(Attribute::Tuple(elements)), Some(types)) =
        (graph.attribute(node, attr::VALUE).cloned(), graph.ty(tuple).tuple_elements())
    else {
        return;
    };
    if elements.len() != types.len() || elements.iter().any(|element| matches!(element, Attribute::Opaque(_))) {
        return;
    }
    cx.did(graph, "tuples-lowered", node);
    let (mut last, mut parts) = (node, Vec::new());
    for (element, &ty) in elements.iter().zip(types.iter()) {
        let value = alone(element);
        let part = graph.create_op(prim::CONSTANT, &[], if value.is_some() { ty } else { Type::none() });
        if let Some(value) = value {
            graph.set_attribute(part, attr::VALUE, value);
        }
        graph.insert_after(last, part);
        last = part;
        parts.push(graph.output(part, 0));
    }
    let pack = graph.create_op(prim::TUPLE_CONSTRUCT, &parts, graph.ty(tuple));
    graph.insert_after(last, pack);
    let packed = graph.output(pack, 0);
    graph.replace_all_uses(tuple, packed);
}

/// An element of a tuple as the value of a constant of its own; None has no value.
fn alone(element: &Attribute) -> Option<Attribute> {
    match element {
        Attribute::None => None,
        Attribute::Bool(yes) => Some(Attribute::Int((*yes).into())),
        Attribute::Device(name) => Some(Attribute::Str(name.clone())),
        other => Some(other.clone()),
    }
}

/// Replaces operands that are tuple constructs by the operands of the constructs.
fn flatten_inputs(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) -> Result<(), PassError> {
    let mut i = 0;
    while i < graph.num_inputs(node) {
        let value = graph.input(node, i);
        if !is_tuple(graph, value) {
            i += 1;
            continue;
        }
        let construct = graph.definer(value).filter(|&definer| graph.kind(definer) == prim::TUPLE_CONSTRUCT);
        let Some(construct) = construct else {
            let message = format!("the construct of the tuple %{} is not known", graph.name(value));
            return Err(PassError::at(graph, graph.definer(value).unwrap_or(node), message));
        };
        cx.did(graph, "tuples-lowered", construct);
        let parts: Vec<Value> = graph.inputs(construct).collect();
        graph.remove_input(node, i);
        for (k, part) in parts.into_iter().enumerate() {
            let place = i + k;
            graph.insert_input(node, place, part);
        }
    }
    Ok(())
}

/// Replaces outputs of tuple type by one output per element, packed again after the node.
fn flatten_outputs(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, block: Block) {
    let mut i = 0;
    while i < graph.num_outputs(node) {
        let value = graph.output(node, i);
        let Some(elements) = graph.ty(value).tuple_elements() else {
            i += 1;
            continue;
        };
        graph_update!("Flattening %{}", graph.name(value));
        cx.count("tuples-lowered", 1);
        let parts: Vec<Value> = elements
            .iter()
            .enumerate()
            .map(|(k, &ty)| {
                let place = i + 1 + k;
                graph.insert_output(node, place, ty)
            })
            .collect();
        let pack = graph.create_op(prim::TUPLE_CONSTRUCT, &parts, Type::tuple(&elements));
        // After packs of earlier outputs the order does not matter: a pack of an inner tuple goes
        // before its user.
        if graph.kind(node) == prim::PARAM {
            graph.prepend(block, pack)
        } else {
            graph.insert_after(node, pack)
        }
        let packed = graph.output(pack, 0);
        graph.set_type(packed, graph.ty(value));
        graph.replace_all_uses(value, packed);
        graph.remove_output(node, i);
    }
}

fn nothing_left(graph: &Graph) -> Result<(), PassError> {
    let left = graph.all_nodes().find(|&node| takes_apart(graph, node));
    match left {
        Some(node) => Err(PassError::at(graph, node, why_left(graph, node))),
        None => Ok(()),
    }
}

/// The reason why a node still reads a tuple.
fn why_left(graph: &Graph, node: Node) -> &'static str {
    let tuple = graph.inputs(node).next().and_then(|value| graph.definer(value));
    match tuple.map(|node| graph.kind(node)) {
        Some(prim::TUPLE_CONSTRUCT) => "this tuple cannot be lowered: the index is not a constant within its range",
        Some(prim::CONSTANT) => "this tuple is a constant whose text does not show all elements",
        _ => "the construct of this tuple is not known",
    }
}
