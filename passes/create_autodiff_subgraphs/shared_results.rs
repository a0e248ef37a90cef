//! Moves nodes out of a group when their result shares memory with an operand or another result.
//!
//! ```text
//! %z : Tensor = prim::DifferentiableGraph_0(%x)        %a : Tensor = prim::DifferentiableGraph_0(%x)
//! with … = graph(%x : Tensor):                    =>   %z : Tensor = aten::t(%a)
//!   %a : Tensor = aten::tanh(%x)                       with … = graph(%x : Tensor):
//!   %z : Tensor = aten::t(%a)                            %a : Tensor = aten::tanh(%x)
//!   return (%a, %z)                                      return (%a)
//! ```
//!
//! The readers of such a node in the group leave with it. Operands of leaving nodes become results,
//! which may share memory in turn.

use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::outlining::copied;
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{attr, prim};
use rustc_hash::FxHashSet;

/// Moves out the nodes that must leave now; returns whether there were any.
pub(super) fn put_out(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) -> bool {
    let leaving = graph.subgraph(group).map_or(Vec::new(), leaving);
    !leaving.is_empty() && cx.rewrite(graph, "nodes-put-out", group, |graph| leave(graph, group, &leaving)).is_some()
}

/// The nodes that must leave, in order.
fn leaving(section: &Graph) -> Vec<Node> {
    let db = AliasDb::new(section);
    let mut shared: EntitySet<Location> = EntitySet::new();
    section.params(section.root()).for_each(|param| db.mark_reachable(param, &mut shared));
    let mut results: Vec<Value> = section.results(section.root()).collect();
    results.sort_by(|&a, &b| match (section.definer(a), section.definer(b)) {
        (Some(a), Some(b)) if section.is_before(a, b) => std::cmp::Ordering::Less,
        (Some(a), Some(b)) if section.is_before(b, a) => std::cmp::Ordering::Greater,
        _ => section.output_index(a).cmp(&section.output_index(b)),
    });
    let mut going: FxHashSet<Node> = FxHashSet::default();
    let mut work = Vec::new();
    for result in results {
        let mut own: EntitySet<Location> = EntitySet::new();
        db.mark_reachable(result, &mut own);
        if own.iter().any(|location| shared.contains(location)) {
            work.extend(section.definer(result));
        } else {
            db.mark_reachable(result, &mut shared);
        }
    }
    while let Some(node) = work.pop() {
        if ![prim::RETURN, prim::PARAM].contains(&section.kind(node)) && going.insert(node) {
            work.extend(section.outputs(node).flat_map(|value| section.users(value)));
        }
    }
    section.nodes(section.root()).filter(|node| going.contains(node)).collect()
}

/// Moves nodes of a group after it, with copies of the constants that they read.
fn leave(graph: &mut Graph, group: Node, leaving: &[Node]) {
    let mut section = graph.take_subgraph(group).expect("a group has a section");
    let root = section.root();
    let going: FxHashSet<Value> = leaving.iter().flat_map(|&node| section.outputs(node)).collect();
    let mut outside: ValueMap = section.params(root).zip(graph.inputs(group)).collect();
    outside.extend(section.results(root).zip(graph.outputs(group)));
    let replaced = |(inner, _): &(Value, Value)| going.contains(inner);
    let old: Vec<(Value, Value)> = section.results(root).zip(graph.outputs(group)).filter(replaced).collect();
    let mut at = group;
    for &node in leaving {
        for operand in section.inputs(node).collect::<Vec<_>>() {
            if going.contains(&operand) || outside.contains_key(&operand) {
                continue;
            }
            let constant = section.definer(operand).filter(|&made| section.kind(made) == prim::CONSTANT);
            let new = match constant {
                Some(constant) => {
                    let copy = graph.copy_node(Some(&section), constant, &mut ValueMap::default());
                    graph.insert_after(at, copy);
                    at = copy;
                    graph.output(copy, 0)
                }
                None => {
                    section.add_result(root, operand);
                    graph.add_output(group, section.ty(operand))
                }
            };
            outside.insert(operand, new);
        }
        let copy = copied(graph, &section, node, &mut outside);
        graph.insert_after(at, copy);
        at = copy;
    }
    for (inner, output) in old {
        let new = outside[&inner];
        graph.replace_all_uses(output, new);
        graph.move_name_to_nameless(output, new);
    }
    drop_results(graph, &mut section, group, &going);
    for &node in leaving.iter().rev() {
        section.erase(node);
    }
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
}

/// Removes results of a section, and the corresponding outputs of its node.
fn drop_results(graph: &mut Graph, section: &mut Graph, group: Node, going: &FxHashSet<Value>) {
    let end = section.return_node(section.root());
    for i in (0..section.num_inputs(end)).rev() {
        if going.contains(&section.input(end, i)) {
            section.remove_input(end, i);
            graph.remove_output(group, i);
        }
    }
}
