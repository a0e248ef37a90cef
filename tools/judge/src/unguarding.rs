//! Removes guards from a graph without changing its results.
//!
//! ```text
//! %1 : Float(2) = prim::Guard(%x)          =>     %y : Tensor = aten::tanh(%x)
//! %y : Float(2) = aten::tanh(%1)
//! ```
//!
//! When a bailout is taken, the run continues in the template: the graph before it was specialised
//! to the tensors of a profile. So the template computes the same whatever the guards decide, and
//! replaces the whole graph. A graph with guards but without a template requires its guards to
//! hold.
//!
//! From 1.5 on, type checks precede groups, with a fallback function for other tensors, which is
//! the group's own graph. So the group's nodes replace both, and also groups without checks:
//!
//! ```text
//! %1 : Float(2), %2 : bool = prim::TypeCheck[types=[Float(2)]](%x)
//! %y : Tensor = prim::If(%2)
//!   block0():
//!     %3 : Float(2) = prim::TensorExprGroup_0(%1)       =>     %y : Tensor = aten::tanh(%x)
//!     -> (%3)
//!   block1():
//!     %f : Function = prim::Constant[name="fallback_function", fallback=1]()
//!     %4 : (Tensor) = prim::CallFunction(%f, %x)
//!     …
//! ```

use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::outlining::dissolve;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::Type;

/// A graph without guards, and whether the removed guards must hold.
pub struct Unguarded {
    /// The graph without guards.
    pub graph: Graph,
    /// Whether it is equivalent only if each guard holds.
    pub must_hold: bool,
}

/// Removes guards and bailouts; `None` if there are none.
pub fn unguarded(graph: &Graph) -> Option<Unguarded> {
    let is_guard = |kind: Symbol| [prim::GUARD, prim::BAILOUT].contains(&kind);
    let has_guards = |graph: &Graph| graph.all_nodes().any(|node| is_guard(graph.kind(node)));
    if !has_guards(graph) {
        return ungrouped(graph).map(|graph| Unguarded { graph, must_hold: false });
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
    let without_owner = |node: &Node| {
        plain.kind(*node) == prim::BAILOUT_TEMPLATE && !plain.outputs(*node).any(|output| plain.has_uses(output))
    };
    let templates: Vec<Node> = plain.all_nodes().filter(without_owner).collect();
    templates.into_iter().for_each(|node| plain.erase(node));
    let plain = ungrouped(&plain).unwrap_or(plain);
    Some(Unguarded { graph: plain, must_hold })
}

/// Checks before groups: the last output states whether the operands have the types that the group
/// was specialised to.
const CHECKS: [Symbol; 5] = [
    prim::TYPE_CHECK,
    prim::REQUIRES_GRAD_CHECK,
    prim::DYNAMIC_GUARD,
    prim::CUDA_FUSION_GUARD,
    prim::ONEDNN_FUSION_GUARD,
];

/// Whether a node computes its section and has no other semantics.
fn is_group(graph: &Graph, node: Node) -> bool {
    let kinds = [
        prim::FUSION_GROUP,
        prim::TENSOR_EXPR_GROUP,
        prim::TENSOR_EXPR_DYNAMIC_GROUP,
        prim::CUDA_FUSION_GROUP,
        prim::ONEDNN_FUSION_GROUP,
        prim::DIFFERENTIABLE_GRAPH,
    ];
    kinds.contains(&graph.kind(node)) && graph.subgraph(node).is_some() && graph.backward(node).is_none()
}

/// Inlines the groups of a graph and removes the checks before them, except groups with backward
/// graphs; `None` if there are no such groups.
pub fn ungrouped(graph: &Graph) -> Option<Graph> {
    let has_groups = graph.all_nodes().any(|node| is_group(graph, node));
    if !has_groups {
        return None;
    }
    let mut plain = graph.clone();
    forget_types(&mut plain);
    let is_check = |node: &Node| CHECKS.contains(&graph.kind(*node));
    for check in graph.all_nodes().filter(is_check) {
        remove_check(&mut plain, check);
    }
    loop {
        let groups: Vec<Node> = plain.all_nodes().filter(|&node| is_group(&plain, node)).collect();
        if groups.is_empty() {
            break;
        }
        for group in groups {
            plain.with_subgraph(group, forget_types);
            dissolve(&mut plain, group, |_, _, _| {});
        }
    }
    let joins: Vec<Node> = plain.all_nodes().filter(|&node| plain.kind(node) == prim::FUSED_CONCAT).collect();
    joins.into_iter().for_each(|join| put_as_cat(&mut plain, join));
    Some(plain)
}

/// Inlines the branch taken if a check succeeds, and replaces the check's outputs by its operands.
fn remove_check(graph: &mut Graph, check: Node) {
    let outputs: Vec<Value> = graph.outputs(check).collect();
    let Some((&answer, checked)) = outputs.split_last() else { return };
    let branches: Vec<Node> = graph.users(answer).filter(|&user| graph.kind(user) == prim::IF).collect();
    for (&output, operand) in checked.iter().zip(graph.inputs(check).collect::<Vec<_>>()) {
        graph.replace_all_uses(output, operand);
    }
    for branch in branches {
        let block = graph.node_block(branch, 0);
        let results: Vec<Value> = graph.results(block).collect();
        for node in graph.nodes(block).collect::<Vec<_>>() {
            graph.move_before(node, branch);
        }
        for (output, result) in graph.outputs(branch).collect::<Vec<_>>().into_iter().zip(results) {
            graph.replace_all_uses(output, result);
        }
        graph.erase(branch);
    }
    if !graph.has_uses(answer) {
        graph.erase(check);
    }
}

/// Replaces `prim::FusedConcat` by `aten::cat`.
fn put_as_cat(graph: &mut Graph, join: Node) {
    let parts: Vec<Value> = graph.inputs(join).collect();
    let list = graph.create_op(prim::LIST_CONSTRUCT, &parts, Type::list(Type::tensor()));
    let number = graph.create_op(prim::CONSTANT, &[], Type::int());
    let dim = graph.attribute(join, attr::DIM).and_then(Attribute::as_int).unwrap_or(0);
    graph.set_attribute(number, attr::VALUE, Attribute::Int(dim));
    let operands = [graph.output(list, 0), graph.output(number, 0)];
    let cat = graph.create_op(Symbol::new("aten::cat"), &operands, Type::tensor());
    [list, number, cat].into_iter().for_each(|node| graph.insert_before(join, node));
    graph.replace_all_uses(graph.output(join, 0), graph.output(cat, 0));
    graph.erase(join);
}

/// Replaces a guard by its operand. Bailouts of a graph take its template as the first operand;
/// those of the template do not.
fn remove(graph: &mut Graph, guard: Node) {
    let is_template =
        |value: &Value| graph.definer(*value).is_some_and(|maker| graph.kind(maker) == prim::BAILOUT_TEMPLATE);
    let tested = graph.inputs(guard).find(|value| !is_template(value));
    if let (Some(output), Some(tested)) = (graph.single_output(guard), tested) {
        graph.replace_all_uses(output, tested);
        graph.erase(guard);
    }
}

/// Erases refined tensor types: in a template they hold only while guards do.
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
