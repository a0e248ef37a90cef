//! Outlining and inlining: copies nodes into another graph, out of a section into the graph around
//! it, or out of a graph into a section of their own.
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)                    | taken out: graph(%x, %y): %a = aten::mul(%x, %y)  return (%a)
//! %z : Tensor = prim::FusionGroup_0(%a)              | dissolved: %z : Tensor = aten::relu(%a)
//! ```

use crate::ir::{Graph, Node, Value, ValueMap};
use crate::ops::{self, rules::Nondeterminism};
use crate::symbol::prim;
use rustc_hash::FxHashSet;

/// Copies a node of one graph into another, where it and the nodes of its blocks draw the random
/// numbers that they would have drawn, in the same iterations. As with [`Graph::copy_node`], the
/// copy is not inserted yet.
pub fn copied(target: &mut Graph, source: &Graph, node: Node, map: &mut ValueMap) -> Node {
    let copy = target.copy_node(Some(source), node, map);
    for (node, copy) in with_inner(source, node).into_iter().zip(with_inner(target, copy)) {
        let kind = source.kind(node);
        let draws = ops::operator(source.era, kind).nondeterminism(None) > Nondeterminism::Undefined;
        if draws || kind == prim::LOOP {
            target.keep_draws(copy, source.draw_place(node));
        }
    }
    copy
}

/// A node and all nodes in its blocks, in an order that copies share.
fn with_inner(graph: &Graph, node: Node) -> Vec<Node> {
    let mut nodes = vec![node];
    let mut at = 0;
    while let Some(&node) = nodes.get(at) {
        at += 1;
        nodes.extend(graph.node_blocks(node).flat_map(|block| graph.nodes(block)));
    }
    nodes
}

/// Replaces `group` by the nodes of its section; returns the nodes. `same` is called with each new
/// value and the old output that it replaces.
///
/// # Panics
///
/// If the node has no section.
pub fn dissolve(graph: &mut Graph, group: Node, mut same: impl FnMut(&Graph, Value, Value)) -> Vec<Node> {
    let section = graph.take_subgraph(group).expect("a group has a section");
    let mut map: ValueMap = section.params(section.root()).zip(graph.inputs(group)).collect();
    let mut nodes = Vec::new();
    for node in section.nodes(section.root()) {
        let copy = copied(graph, &section, node, &mut map);
        graph.insert_before(group, copy);
        nodes.push(copy);
    }
    let results: Vec<Value> = section.results(section.root()).map(|result| map[&result]).collect();
    // A differentiated section returns more values than its node: those captured for the gradients.
    for (old, &new) in graph.outputs(group).collect::<Vec<_>>().into_iter().zip(&results) {
        same(graph, new, old);
        graph.replace_all_uses(old, new);
        graph.move_name_to_nameless(old, new);
    }
    graph.erase(group);
    nodes
}

/// Some nodes of a graph, as a section of their own.
#[derive(Debug)]
pub struct Excerpt {
    /// The nodes.
    pub section: Graph,
    /// The values in the graph that its params represent.
    pub operands: Vec<Value>,
    /// The values in the graph that its results represent: those that other nodes read.
    pub results: Vec<Value>,
}

/// Copies nodes, which stand in this order in one block, into a section of their own. Definers of
/// their operands for which `goes_along` holds are copied, too.
pub fn excerpt(graph: &Graph, nodes: &[Node], goes_along: impl Fn(Node) -> bool) -> Excerpt {
    let mut excerpt = Excerpt { section: Graph::empty_like(graph), operands: Vec::new(), results: Vec::new() };
    let mut map = ValueMap::default();
    for &node in nodes {
        excerpt.take(graph, node, &goes_along, &mut map);
    }
    let inside: FxHashSet<Node> = nodes.iter().copied().collect();
    let root = excerpt.section.root();
    for value in nodes.iter().flat_map(|&node| graph.outputs(node)) {
        if graph.users(value).any(|user| !inside.contains(&user)) {
            excerpt.section.add_result(root, map[&value]);
            excerpt.results.push(value);
        }
    }
    excerpt
}

impl Excerpt {
    /// Copies a node, after the nodes that are copied along with it.
    fn take(&mut self, graph: &Graph, node: Node, goes_along: &impl Fn(Node) -> bool, map: &mut ValueMap) {
        let mut open = vec![node];
        while let Some(&node) = open.last() {
            let missing = graph.inputs(node).filter(|value| !map.contains_key(value));
            let before = missing.filter_map(|value| graph.definer(value)).find(|&definer| goes_along(definer));
            if let Some(before) = before {
                open.push(before);
                continue;
            }
            open.pop();
            let root = self.section.root();
            for value in graph.inputs(node) {
                map.entry(value).or_insert_with(|| {
                    self.operands.push(value);
                    self.section.add_param(root, graph.ty(value))
                });
            }
            let copy = copied(&mut self.section, graph, node, map);
            self.section.append(root, copy);
        }
    }
}
