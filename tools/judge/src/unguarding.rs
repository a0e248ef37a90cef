//! What a graph with guards computes, without them.
//!
//! ```text
//! %1 : Float(2) = prim::Guard(%x)          =>     %y : Tensor = aten::tanh(%x)
//! %y : Float(2) = aten::tanh(%1)
//! ```
//!
//! Where a bailout is taken the run goes on in the template, which is the graph as it was before it was made for the tensors of a profile. So the template computes the same whatever
//! the guards say, and stands for the whole. Of a graph that has guards and no template they must hold: there is no other.

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::symbol::{Symbol, prim};
use jitopt_core::types::Type;

/// A graph without guards, and whether those must hold that it had.
pub struct Unguarded {
    /// Computes the same.
    pub graph: Graph,
    /// Whether it does so only where each guard holds.
    pub must_hold: bool,
}

/// The graph that computes what one with guards or bailouts does; nothing where there are none.
pub fn unguarded(graph: &Graph) -> Option<Unguarded> {
    let is_guard = |kind: Symbol| [prim::GUARD, prim::BAILOUT].contains(&kind);
    let has_guards = |graph: &Graph| graph.all_nodes().any(|node| is_guard(graph.kind(node)));
    if !has_guards(graph) {
        return None;
    }
    let types = |graph: &Graph| -> Vec<Type> {
        let root = graph.root();
        graph.params(root).chain(graph.results(root)).map(|value| graph.ty(value).erased()).collect()
    };
    let template = graph.all_nodes().filter(|&node| graph.kind(node) == prim::BAILOUT_TEMPLATE);
    let template = template.filter_map(|node| graph.subgraph(node)).find(|template| types(template) == types(graph));
    let mut plain = template.unwrap_or(graph).clone();
    if template.is_some() {
        forget_types(&mut plain);
    }
    let is_bare = |node: Node| plain.kind(node) == prim::GUARD;
    let must_hold = template.is_none() || plain.all_nodes().any(is_bare);
    let guards: Vec<Node> = plain.all_nodes().filter(|&node| is_guard(plain.kind(node))).collect();
    for node in guards {
        remove(&mut plain, node);
    }
    let of_nobody = |node: &Node| {
        plain.kind(*node) == prim::BAILOUT_TEMPLATE && !plain.outputs(*node).any(|output| plain.has_uses(output))
    };
    let templates: Vec<Node> = plain.all_nodes().filter(of_nobody).collect();
    templates.into_iter().for_each(|node| plain.erase(node));
    Some(Unguarded { graph: plain, must_hold })
}

/// Puts what a guard tests in its place. Bailouts of a graph have its template in front, those of the template have not.
fn remove(graph: &mut Graph, guard: Node) {
    let is_template =
        |value: &Value| graph.definer(*value).is_some_and(|maker| graph.kind(maker) == prim::BAILOUT_TEMPLATE);
    let tested = graph.inputs(guard).find(|value| !is_template(value));
    if let (Some(output), Some(tested)) = (graph.single_output(guard), tested) {
        graph.replace_all_uses(output, tested);
        graph.erase(guard);
    }
}

/// Forgets what is told of tensors: in a template that holds only while guards do.
fn forget_types(graph: &mut Graph) {
    let nodes: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) != prim::CONSTANT).collect();
    for node in nodes {
        let blocks: Vec<_> = graph.node_blocks(node).collect();
        let params = blocks.into_iter().flat_map(|block| graph.params(block).collect::<Vec<_>>());
        let values: Vec<Value> = graph.outputs(node).chain(params).collect();
        for value in values.into_iter().filter(|&value| graph.ty(value).is_tensor()).collect::<Vec<_>>() {
            graph.set_type(value, Type::tensor());
        }
    }
}
