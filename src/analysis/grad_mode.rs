//! Regions in which gradients are disabled, as inside `torch.no_grad()`.

use crate::entity::EntitySet;
use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::{Symbol, prim};
use crate::types::TypeKind;

/// The module of the context classes that switch gradients on and off.
pub(crate) const GRAD_MODES: &str = "__torch__.torch.autograd.grad_mode.";

/// The context that enables gradients. The effect of others is not always visible in the text.
const ENABLE: &str = "enable_grad";

/// Whether a node only enables or disables gradients from here on.
pub fn is_about_grad_mode(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == Symbol::new("aten::set_grad_enabled")
        || graph.inputs(node).chain(graph.outputs(node)).any(|value| context(graph, value).is_some())
}

/// The name of a context class, without its module.
fn context(graph: &Graph, value: Value) -> Option<&'static str> {
    match graph.ty(value).kind() {
        TypeKind::Class(class) => class.as_str().strip_prefix(GRAD_MODES),
        _ => None,
    }
}

/// The nodes that may run with gradients disabled, if a graph runs with gradients enabled. Unknown
/// states count as disabled. Linear.
pub fn switched_off(graph: &Graph) -> EntitySet<Node> {
    let mut off = EntitySet::new();
    if !graph.all_nodes().any(|node| is_about_grad_mode(graph, node)) {
        return off;
    }
    // Blocks come after the nodes that own them.
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

/// The effect of a node on whether gradients are disabled: the last of `contexts`, one for each
/// context that was entered.
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

/// Whether gradients are disabled after a node that sets this.
fn sets(graph: &Graph, node: Node) -> Option<bool> {
    (graph.kind(node) == Symbol::new("aten::set_grad_enabled"))
        .then(|| graph.inputs(node).next().and_then(|flag| graph.constant_int(flag)) != Some(1))
}

/// Whether a branch or a loop may change whether gradients are enabled.
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
