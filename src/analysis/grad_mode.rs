//! Where gradients are switched off, as inside of `torch.no_grad()`.

use crate::entity::EntitySet;
use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::{Symbol, prim};
use crate::types::TypeKind;

/// Where the classes of contexts are that say whether gradients are computed.
pub const GRAD_MODES: &str = "__torch__.torch.autograd.grad_mode.";

/// The context that switches gradients on. What others do is not always in the text.
const ENABLE: &str = "enable_grad";

/// Whether a node only says if gradients are computed from here on.
pub fn is_about_grad_mode(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == Symbol::new("aten::set_grad_enabled")
        || graph.inputs(node).chain(graph.outputs(node)).any(|value| context(graph, value).is_some())
}

/// The class of a context, without the module that it is in.
fn context(graph: &Graph, value: Value) -> Option<&'static str> {
    match graph.ty(value).kind() {
        TypeKind::Class(class) => class.as_str().strip_prefix(GRAD_MODES),
        _ => None,
    }
}

/// The nodes that may run where gradients are off, if a graph runs where they are on. What is not known counts as off. Linear.
pub fn switched_off(graph: &Graph) -> EntitySet<Node> {
    let mut off = EntitySet::new();
    if !graph.all_nodes().any(|node| is_about_grad_mode(graph, node)) {
        return off;
    }
    // Blocks come behind the nodes that they belong to.
    let blocks: Vec<Block> = graph.all_blocks().collect();
    for block in blocks {
        let is_off =
            graph.owner_node(block).is_some_and(|owner| off.contains(owner) || leaves_it_changed(graph, owner));
        let mut contexts = vec![is_off];
        for node in graph.nodes(block) {
            if contexts.last() == Some(&true) {
                off.insert(node);
            }
            step(graph, node, &mut contexts);
        }
    }
    off
}

/// What a node does to whether gradients are off: the last of `contexts`, one for each that was entered.
fn step(graph: &Graph, node: Node, contexts: &mut Vec<bool>) {
    let class = graph.inputs(node).next().and_then(|value| context(graph, value));
    match (graph.kind(node), class) {
        (prim::ENTER, Some(class)) => contexts.push(class != ENABLE),
        (prim::EXIT, Some(_)) if contexts.len() > 1 => _ = contexts.pop(),
        _ => {
            let set = sets(graph, node).or_else(|| leaves_it_changed(graph, node).then_some(true));
            if let (Some(set), Some(last)) = (set, contexts.last_mut()) {
                *last = set;
            }
        }
    }
}

/// Whether gradients are off behind a node that is told so.
fn sets(graph: &Graph, node: Node) -> Option<bool> {
    (graph.kind(node) == Symbol::new("aten::set_grad_enabled"))
        .then(|| graph.inputs(node).next().and_then(|flag| graph.constant_int(flag)) != Some(1))
}

/// Whether a branch or a loop may leave gradients on or off that were not so before.
fn leaves_it_changed(graph: &Graph, node: Node) -> bool {
    let mut open: Vec<Block> = graph.node_blocks(node).collect();
    while let Some(block) = open.pop() {
        for inner in graph.nodes(block) {
            if sets(graph, inner).is_some() {
                return true;
            }
            open.extend(graph.node_blocks(inner));
        }
    }
    false
}
