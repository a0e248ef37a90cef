//! Creates groups, and moves nodes into them.
//!
//! Operands and params of a group correspond, tensors first, then floats; outputs correspond to
//! results. A node is inserted before all nodes that are in the group already, since groups grow
//! backwards from their last consumer:
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)
//! %z : Tensor = prim::FusionGroup_0(%a)   =>   %z : Tensor = prim::FusionGroup_0(%x, %y)
//! ```

use super::Fuser;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::outlining::copied;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::Type;

/// Whether the last operation of a group is a concatenation: its result has another shape than the
/// computed values.
pub(super) fn ends_in_concat(graph: &Graph, group: Node) -> bool {
    let section = graph.subgraph(group);
    let joins =
        |section: &Graph, value| section.definer(value).is_some_and(|node| section.kind(node) == prim::FUSED_CONCAT);
    section.is_some_and(|section| section.results(section.root()).any(|result| joins(section, result)))
}

/// Whether `group` divides its operand `value` into chunks: only params are divided.
pub(super) fn feeds_chunk(graph: &Graph, group: Node, value: Value) -> bool {
    let (Some(section), Some(i)) = (graph.subgraph(group), graph.inputs(group).position(|input| input == value)) else {
        return false;
    };
    let param = section.params(section.root()).nth(i);
    param.is_some_and(|param| section.users(param).any(|user| section.kind(user) == prim::CONSTANT_CHUNK))
}

/// Inserts a node before all others.
fn prepend(section: &mut Graph, node: Node, first: Option<Node>) {
    match first {
        Some(first) => section.insert_before(first, node),
        None => section.append(section.root(), node),
    }
}

impl Fuser {
    /// The node itself when it is a group, else a new group around it.
    pub(super) fn group_of(&mut self, graph: &mut Graph, node: Node) -> Node {
        if graph.kind(node) == prim::FUSION_GROUP { node } else { self.wrap(graph, node) }
    }

    /// Replaces a node by a group. Of several outputs it has those that are read.
    fn wrap(&mut self, graph: &mut Graph, node: Node) -> Node {
        let section = Graph::empty_like(graph);
        let group = graph.create(prim::FUSION_GROUP);
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(Box::new(section)));
        graph.insert_before(node, group);
        self.absorb(graph, group, node);
        let is_read = |&i: &usize| graph.has_uses(graph.output(node, i));
        let mut read: Vec<usize> = (0..graph.num_outputs(node)).filter(is_read).collect();
        if read.is_empty() {
            read.push(0);
        }
        read.into_iter().for_each(|i| self.export(graph, group, node, i));
        graph.erase(node);
        group
    }

    /// Moves a node into a group that stands directly after it. Outputs with other readers become
    /// outputs of the group.
    pub(super) fn take_in(&mut self, graph: &mut Graph, group: Node, node: Node) {
        self.absorb(graph, group, node);
        for (i, output) in graph.outputs(node).collect::<Vec<_>>().into_iter().enumerate() {
            if graph.has_uses(output) {
                self.export(graph, group, node, i);
            }
        }
        graph.erase(node);
    }

    /// Merges two groups, of which `group` stands directly after `other`. The smaller one is copied
    /// into the larger one.
    pub(super) fn merge(&mut self, graph: &mut Graph, group: Node, other: Node) {
        let take = |graph: &mut Graph, node| graph.take_subgraph(node).expect("a group has a section");
        let (producer, consumer) = (take(graph, other), take(graph, group));
        let joint = if producer.num_shown_nodes() <= consumer.num_shown_nodes() {
            prepended(graph, consumer, group, &producer, other)
        } else {
            appended(graph, producer, other, &consumer, group)
        };
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(joint.section));
        graph.remove_inputs(group);
        graph.set_inputs(group, joint.operands.into_iter());
        for (old, inner) in graph.outputs(other).collect::<Vec<_>>().into_iter().zip(joint.made).rev() {
            if graph.has_uses(old) {
                graph.with_subgraph(group, |section| section.add_result(section.root(), inner));
                self.hand_on(graph, group, old);
            }
        }
        graph.erase(other);
        self.grown.remove(&other);
    }

    /// Adds an output that replaces `old`.
    fn hand_on(&mut self, graph: &mut Graph, group: Node, old: Value) {
        let new = graph.add_output(group, graph.ty(old));
        self.db.copy_value(new, old);
        graph.replace_all_uses(old, new);
        graph.move_name(old, new);
    }

    /// Makes output `i` of the node that was absorbed last a result of the group, which replaces
    /// the old value.
    fn export(&mut self, graph: &mut Graph, group: Node, node: Node, i: usize) {
        let (old, inner) = (graph.output(node, i), self.inner[i]);
        graph.with_subgraph(group, |section| section.add_result(section.root(), inner));
        self.hand_on(graph, group, old);
    }

    /// Copies `node` before the nodes of `group`, with the constants that it reads. Its operands
    /// become operands of the group, and its outputs are no longer operands; `inner` records the
    /// values inside that replace them.
    pub(super) fn absorb(&mut self, graph: &mut Graph, group: Node, node: Node) {
        let mut section = graph.take_subgraph(group).expect("a group has a section");
        let root = section.root();
        let first = section.first(root);
        let mut map: ValueMap = graph.inputs(group).zip(section.params(root)).collect();
        for operand in graph.inputs(node).collect::<Vec<_>>() {
            if !map.contains_key(&operand) {
                let inner = take_operand(graph, &mut section, group, operand, first, &mut map);
                map.insert(operand, inner);
            }
        }
        let copy = copied(&mut section, graph, node, &mut map);
        prepend(&mut section, copy, first);
        for (output, inner) in graph.outputs(node).zip(section.outputs(copy)).collect::<Vec<_>>() {
            let Some(i) = graph.inputs(group).position(|input| input == output) else { continue };
            graph.remove_input(group, i);
            let param = section.output(section.param_node(root), i);
            section.replace_all_uses(param, inner);
            section.remove_output(section.param_node(root), i);
        }
        self.inner = section.outputs(copy).collect();
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
    }
}

/// Two groups merged into one.
struct Joint {
    section: Box<Graph>,
    /// The operands that its params correspond to.
    operands: Vec<Value>,
    /// The values inside that replace the outputs of the producer.
    made: Vec<Value>,
}

/// Copies the section of the producer before the nodes of `section`, that of the consumer.
fn prepended(graph: &Graph, mut section: Box<Graph>, group: Node, producer: &Graph, other: Node) -> Joint {
    let root = section.root();
    let first = section.first(root);
    let mut operands: Vec<Value> = graph.inputs(group).collect();
    let mut map = ValueMap::default();
    for (param, operand) in producer.params(producer.root()).zip(graph.inputs(other)) {
        map.insert(param, param_for(graph, &mut section, &mut operands, operand));
    }
    for node in producer.nodes(producer.root()) {
        let copy = copied(&mut section, producer, node, &mut map);
        prepend(&mut section, copy, first);
    }
    let made: Vec<Value> = producer.results(producer.root()).map(|result| map[&result]).collect();
    for (output, &inner) in graph.outputs(other).zip(&made) {
        let Some(i) = operands.iter().position(|&operand| operand == output) else { continue };
        operands.remove(i);
        let params = section.param_node(root);
        section.replace_all_uses(section.output(params, i), inner);
        section.remove_output(params, i);
    }
    Joint { section, operands, made }
}

/// Copies the section of the consumer after the nodes of `section`, that of the producer.
fn appended(graph: &Graph, mut section: Box<Graph>, other: Node, consumer: &Graph, group: Node) -> Joint {
    let root = section.root();
    let made: Vec<Value> = section.results(root).collect();
    let mut operands: Vec<Value> = graph.inputs(other).collect();
    let mut map = ValueMap::default();
    for (param, operand) in consumer.params(consumer.root()).zip(graph.inputs(group)) {
        let inner = match graph.outputs(other).position(|output| output == operand) {
            Some(i) => made[i],
            None => param_for(graph, &mut section, &mut operands, operand),
        };
        map.insert(param, inner);
    }
    for node in consumer.nodes(consumer.root()) {
        let copy = copied(&mut section, consumer, node, &mut map);
        section.append(root, copy);
    }
    let end = section.return_node(root);
    section.remove_inputs(end);
    for result in consumer.results(consumer.root()) {
        section.add_result(root, map[&result]);
    }
    Joint { section, operands, made }
}

/// The param for an operand, a new one if there is none: after the last tensor, or after all.
fn param_for(graph: &Graph, section: &mut Graph, operands: &mut Vec<Value>, operand: Value) -> Value {
    let params = section.param_node(section.root());
    if let Some(i) = operands.iter().position(|&known| known == operand) {
        return section.output(params, i);
    }
    let ty = graph.ty(operand);
    let tensors = || operands.iter().rposition(|&value| graph.ty(value).is_tensor()).map_or(0, |last| last + 1);
    let i = if ty.is_tensor() { tensors() } else { operands.len() };
    operands.insert(i, operand);
    section.insert_output(params, i, ty)
}

/// Makes `operand` an operand of `group`, or copies the constant, or list of constants, that it is;
/// returns the value inside.
fn take_operand(
    graph: &mut Graph,
    section: &mut Graph,
    group: Node,
    operand: Value,
    first: Option<Node>,
    map: &mut ValueMap,
) -> Value {
    let ty = graph.ty(operand);
    let params = section.param_node(section.root());
    let constant = graph.definer(operand).filter(|&node| graph.kind(node) == prim::CONSTANT && !ty.is_tensor());
    if let Some(constant) = constant {
        let copy = copied(section, graph, constant, map);
        prepend(section, copy, first);
        return section.output(copy, 0);
    }
    let list = graph.definer(operand).filter(|&node| graph.kind(node) == prim::LIST_CONSTRUCT);
    if let Some(list) = list {
        for element in graph.inputs(list).collect::<Vec<_>>() {
            if !map.contains_key(&element) {
                let inner = take_operand(graph, section, group, element, first, map);
                map.insert(element, inner);
            }
        }
        let copy = copied(section, graph, list, map);
        prepend(section, copy, first);
        return section.output(copy, 0);
    }
    let i = if ty.is_tensor() { tensors(graph, group) } else { graph.num_inputs(group) };
    graph.insert_input(group, i, operand);
    section.insert_output(params, i, ty)
}

/// The number of operands up to the last tensor.
fn tensors(graph: &Graph, group: Node) -> usize {
    let types: Vec<Type> = graph.inputs(group).map(|value| graph.ty(value)).collect();
    types.iter().rposition(|ty| ty.is_tensor()).map_or(0, |last| last + 1)
}
