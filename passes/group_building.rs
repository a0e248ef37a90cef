//! Moves nodes into the section of a node and out of it, for passes that make differentiable
//! subgraphs or fusion groups.
//!
//! A node is inserted before all nodes that are in the section already, since groups grow backwards
//! from their last consumer. Operands and params correspond, and outputs and results; constants are
//! copied into the section:
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)
//! %z : Tensor = prim::DifferentiableGraph_0(%a)   =>   %z : Tensor = prim::DifferentiableGraph_0(%x, %y)
//! ```
//!
//! PyTorch orders operands differently in both. In [`Groups`] they are sorted when a group is
//! finished, so absorbing a node is linear in its operands, independent of the size of the group:
//! the last param takes the position of a removed one. In [`SortedGroups`] they are sorted at any
//! time, tensors first, then numbers; these groups are small.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::outlining::{copied, dissolve};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::Type;
use jitopt_core::types::release::Release;
use rustc_hash::{FxHashMap, FxHashSet};

/// Growing groups, and the alias analysis of the graph around them.
pub(crate) struct Groups {
    kind: Symbol,
    /// The alias analysis of the graph, kept up to date.
    pub(crate) db: AliasDb,
    /// For each group that grew, the values inside it for its operands and for constants copied
    /// into it.
    inside: FxHashMap<Node, ValueMap>,
}

/// The end of a group at which nodes are added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Groups {
    /// Groups that are nodes of `kind`.
    pub(crate) fn new(graph: &Graph, kind: Symbol) -> Groups {
        Groups { kind, db: AliasDb::new(graph), inside: FxHashMap::default() }
    }

    /// Replaces a node by a group.
    pub(crate) fn wrap(&mut self, graph: &mut Graph, node: Node) -> Node {
        let group = opened(graph, self.kind, node);
        self.take_in(graph, group, node, End::Front);
        group
    }

    /// Merges two adjacent nodes, groups or not, into one group. The smaller one moves, so that no
    /// node moves often.
    pub(crate) fn join(&mut self, graph: &mut Graph, producer: Node, consumer: Node) -> Node {
        let size = |node| match graph.kind(node) == self.kind {
            true => graph.subgraph(node).map_or(0, Graph::num_shown_nodes),
            false => 0,
        };
        match (size(producer), size(consumer)) {
            (0, 0) => {
                let group = self.wrap(graph, consumer);
                self.take_in(graph, group, producer, End::Front);
                group
            }
            (0, _) => {
                self.take_in(graph, consumer, producer, End::Front);
                consumer
            }
            (_, 0) => {
                self.take_in(graph, producer, consumer, End::Back);
                producer
            }
            (a, b) if a <= b => self.merge(graph, consumer, producer, End::Front),
            _ => self.merge(graph, producer, consumer, End::Back),
        }
    }

    /// Moves the contents of the group `other` into `group`.
    fn merge(&mut self, graph: &mut Graph, group: Node, other: Node, end: End) -> Node {
        self.db.join_writes(group, other);
        let (db, inside) = (&mut self.db, &mut self.inside);
        inside.remove(&other);
        known_inside(inside, graph, group);
        let mut nodes = dissolve(graph, other, |graph, new, old| {
            db.copy_value(new, old);
            renamed(inside, graph, old, new);
        });
        if end == End::Front {
            nodes.reverse();
        }
        let (constants, nodes): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|&node| graph.kind(node) == prim::CONSTANT);
        for node in nodes {
            self.take_in(graph, group, node, end);
        }
        for constant in constants {
            if !graph.has_uses(graph.output(constant, 0)) {
                graph.erase(constant);
            }
        }
        group
    }

    /// Moves a node into an adjacent group. Outputs with other readers become outputs of the group.
    fn take_in(&mut self, graph: &mut Graph, group: Node, node: Node, end: End) {
        let inner = self.absorb(graph, group, node, end);
        self.db.join_writes(group, node);
        for (old, inner) in graph.outputs(node).collect::<Vec<_>>().into_iter().zip(inner) {
            if graph.has_uses(old) {
                let new = returned(graph, &mut self.db, group, old, inner);
                renamed(&mut self.inside, graph, old, new);
                graph.replace_all_uses(old, new);
                graph.move_name(old, new);
            }
        }
        let mut operands: Vec<Value> = graph.inputs(node).collect();
        operands.sort_unstable();
        operands.dedup();
        graph.erase(node);
        for operand in operands {
            if graph.definer(operand) == Some(group) && !graph.has_uses(operand) {
                remove_output(graph, group, operand);
            }
        }
    }

    /// Copies a node into a group, at the start or at the end; returns the values that replace its
    /// outputs inside. Its outputs are no longer operands.
    fn absorb(&mut self, graph: &mut Graph, group: Node, node: Node, end: End) -> Vec<Value> {
        let inside = known_inside(&mut self.inside, graph, group);
        let mut section = graph.take_subgraph(group).expect("a group has a section");
        let (root, mut map, mut constants) = (section.root(), ValueMap::default(), Vec::new());
        // 1.0 copies constants for each reading node, and leaves the copies.
        let copies_each = graph.release() < Release(1, 1);
        for operand in graph.inputs(node).collect::<Vec<_>>() {
            if copies_each && map.contains_key(&operand) {
                continue;
            }
            let constant = graph.definer(operand).filter(|&made| graph.kind(made) == prim::CONSTANT);
            // A tensor or a list that is written to, or returned, must remain one object.
            let is_shared = self.db.has_writers(operand) || self.db.may_alias_graph_output(operand);
            let constant = constant.filter(|_| !is_shared);
            let known = inside.get(&operand).filter(|_| !copies_each || constant.is_none());
            let inner = match known {
                Some(&inner) => inner,
                None if graph.definer(operand) == Some(group) => {
                    section.input(section.return_node(root), graph.output_index(operand))
                }
                None => {
                    let inner = enter(graph, &mut section, group, operand, constant);
                    inside.insert(operand, inner);
                    inner
                }
            };
            map.insert(operand, inner);
            constants.extend(constant.and_then(|_| section.definer(inner)));
        }
        let copy = copied(&mut section, graph, node, &mut map);
        match end {
            End::Front => section.prepend(root, copy),
            End::Back => section.append(root, copy),
        }
        for constant in constants.into_iter().filter(|_| end == End::Front) {
            section.detach(constant);
            section.prepend(root, constant);
        }
        let inner: Vec<Value> = section.outputs(copy).collect();
        for (output, &inner) in graph.outputs(node).collect::<Vec<_>>().into_iter().zip(&inner) {
            if let Some(param) = inside.remove(&output) {
                section.replace_all_uses(param, inner);
                remove_operand(graph, &mut section, group, param);
            }
        }
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
        inner
    }

    /// Sorts operands and outputs of a group that grew into PyTorch's order: that in which a
    /// traversal from the last node to the first meets them.
    pub(crate) fn finish(&mut self, graph: &mut Graph, group: Node) {
        if self.inside.remove(&group).is_none() {
            return;
        }
        let mut section = graph.take_subgraph(group).expect("a group has a section");
        let (params, results) = met_backwards(&section);
        let (hidden, end) = (section.param_node(section.root()), section.return_node(section.root()));
        let operands: Vec<Value> =
            params.iter().map(|&param| graph.input(group, section.output_index(param))).collect();
        let outputs: Vec<Value> = results.iter().map(|&(place, _)| graph.output(group, place)).collect();
        for (i, param) in params.into_iter().enumerate() {
            let there = section.output(hidden, i);
            exchange(&mut section, there, param);
        }
        for (i, output) in outputs.into_iter().enumerate() {
            let there = graph.output(group, i);
            exchange(graph, there, output);
        }
        graph.remove_inputs(group);
        graph.set_inputs(group, operands.into_iter());
        section.remove_inputs(end);
        section.set_inputs(end, results.into_iter().map(|(_, result)| result).collect::<Vec<_>>().into_iter());
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
    }
}

/// A group without nodes, before a node.
fn opened(graph: &mut Graph, kind: Symbol, before: Node) -> Node {
    let section = Graph::empty_like(graph);
    let group = graph.create(kind);
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(Box::new(section)));
    graph.insert_before(before, group);
    group
}

/// A new output of a group for a value of its section, which will replace `old`.
fn returned(graph: &mut Graph, db: &mut AliasDb, group: Node, old: Value, inner: Value) -> Value {
    graph.with_subgraph(group, |section| section.add_result(section.root(), inner));
    let new = graph.add_output(group, graph.ty(old));
    db.copy_value(new, old);
    new
}

/// The values inside a group for its operands; for a group that the graph had already, those of its
/// params.
fn known_inside<'a>(all: &'a mut FxHashMap<Node, ValueMap>, graph: &Graph, group: Node) -> &'a mut ValueMap {
    all.entry(group).or_insert_with(|| {
        let section = graph.subgraph(group).expect("a group has a section");
        graph.inputs(group).zip(section.params(section.root())).collect()
    })
}

/// Records that groups which read one value will read another.
fn renamed(all: &mut FxHashMap<Node, ValueMap>, graph: &Graph, old: Value, new: Value) {
    for user in graph.users(old) {
        if let Some(inside) = all.get_mut(&user)
            && let Some(param) = inside.remove(&old)
        {
            inside.insert(new, param);
        }
    }
}

/// Makes a value an operand of a group, or copies the constant that it is; returns the value
/// inside.
fn enter(graph: &mut Graph, section: &mut Graph, group: Node, operand: Value, constant: Option<Node>) -> Value {
    if let Some(constant) = constant {
        let copy = section.copy_node(Some(graph), constant, &mut ValueMap::default());
        section.append(section.root(), copy);
        return section.output(copy, 0);
    }
    graph.add_input(group, operand);
    let param = section.add_param(section.root(), graph.ty(operand));
    if graph.is_named(operand) {
        section.set_name(param, graph.name(operand).as_bytes());
    }
    param
}

/// The params that are read, and the results with their positions, in the order in which a
/// traversal from the last node to the first meets them.
fn met_backwards(section: &Graph) -> (Vec<Value>, Vec<(usize, Value)>) {
    let hidden = section.param_node(section.root());
    let (mut params, mut seen) = (Vec::new(), FxHashSet::default());
    let places: FxHashMap<Value, usize> =
        section.results(section.root()).enumerate().map(|(i, value)| (value, i)).collect();
    let mut results = Vec::new();
    let mut cursor = section.last(section.root());
    while let Some(node) = cursor {
        cursor = section.prev(node);
        let read = section.inputs(node).filter(|&value| section.definer(value) == Some(hidden));
        params.extend(read.filter(|&value| seen.insert(value)));
        results.extend(section.outputs(node).filter_map(|value| Some((*places.get(&value)?, value))));
    }
    // Values that no node of the section defines or reads keep their position after the others.
    params.extend(section.params(section.root()).filter(|value| !seen.contains(value)));
    let direct = section.results(section.root()).enumerate();
    results.extend(direct.filter(|&(i, value)| section.definer(value) == Some(hidden) || places[&value] != i));
    (params, results)
}

/// Removes an unread output, and its result; the last ones take their positions.
fn remove_output(graph: &mut Graph, group: Node, output: Value) {
    let (i, last) = (graph.output_index(output), graph.num_outputs(group) - 1);
    let moved = graph.output(group, last);
    exchange(graph, output, moved);
    graph.remove_output(group, last);
    graph.with_subgraph(group, |section| {
        let end = section.return_node(section.root());
        let result = section.input(end, last);
        section.set_input(end, i, result);
        section.remove_input(end, last);
    });
}

/// Exchanges two params, or two outputs of a node, with their types and names.
fn exchange(section: &mut Graph, a: Value, b: Value) {
    if a == b {
        return;
    }
    let described = |value| (section.ty(value), section.is_named(value).then(|| section.name(value)));
    let (first, second) = (described(a), described(b));
    section.exchange_outputs(a, b);
    for (value, (ty, name)) in [(a, first), (b, second)] {
        section.set_type(value, ty);
        match name {
            Some(name) => section.set_name(value, name.as_bytes()),
            None => section.clear_name(value),
        }
    }
}

/// Removes an unread param, and its operand; the last ones take their positions.
fn remove_operand(graph: &mut Graph, section: &mut Graph, group: Node, param: Value) {
    let params = section.param_node(section.root());
    let (i, last) = (section.output_index(param), section.num_outputs(params) - 1);
    if i != last {
        exchange(section, param, section.output(params, last));
        let operand = graph.input(group, last);
        graph.set_input(group, i, operand);
    }
    graph.remove_input(group, last);
    section.remove_output(params, last);
}

// ---- fusion groups

/// Growing fusion groups, and the alias analysis of the graph around them.
pub(crate) struct SortedGroups {
    /// The alias analysis of the graph, kept up to date.
    pub(crate) db: AliasDb,
    /// The values inside the group that replaced the outputs of the node absorbed last.
    inner: Vec<Value>,
    /// Groups that were created or extended.
    pub(crate) grown: FxHashSet<Node>,
}

/// Inserts a node before all others.
fn prepend(section: &mut Graph, node: Node, first: Option<Node>) {
    match first {
        Some(first) => section.insert_before(first, node),
        None => section.append(section.root(), node),
    }
}

impl SortedGroups {
    /// Groups of a graph.
    pub(crate) fn new(graph: &Graph) -> SortedGroups {
        SortedGroups { db: AliasDb::new(graph), inner: Vec::new(), grown: FxHashSet::default() }
    }

    /// The node itself when it is a group, else a new group around it.
    pub(crate) fn group_of(&mut self, graph: &mut Graph, node: Node) -> Node {
        if graph.kind(node) == prim::FUSION_GROUP { node } else { self.wrap(graph, node) }
    }

    /// Replaces a node by a group. Of several outputs it has those that are read.
    fn wrap(&mut self, graph: &mut Graph, node: Node) -> Node {
        let group = opened(graph, prim::FUSION_GROUP, node);
        self.absorb(graph, group, node);
        let is_read = |&i: &usize| graph.has_uses(graph.output(node, i));
        let mut read: Vec<usize> = (0..graph.num_outputs(node)).filter(is_read).collect();
        if read.is_empty() {
            read.push(0);
        }
        for i in read {
            let old = graph.output(node, i);
            self.export(graph, group, old, self.inner[i]);
        }
        graph.erase(node);
        group
    }

    /// Moves a node into a group that stands directly after it. Outputs with other readers become
    /// outputs of the group.
    pub(crate) fn take_in(&mut self, graph: &mut Graph, group: Node, node: Node) {
        self.absorb(graph, group, node);
        for (i, output) in graph.outputs(node).collect::<Vec<_>>().into_iter().enumerate() {
            if graph.has_uses(output) {
                self.export(graph, group, output, self.inner[i]);
            }
        }
        graph.erase(node);
    }

    /// Merges two groups, of which `group` stands directly after `other`. The smaller one is copied
    /// into the larger one.
    pub(crate) fn merge(&mut self, graph: &mut Graph, group: Node, other: Node) {
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
                self.export(graph, group, old, inner);
            }
        }
        graph.erase(other);
        self.grown.remove(&other);
    }

    /// Makes a value of the section a result of the group, which replaces `old`.
    fn export(&mut self, graph: &mut Graph, group: Node, old: Value, inner: Value) {
        let new = returned(graph, &mut self.db, group, old, inner);
        graph.replace_all_uses(old, new);
        graph.move_name(old, new);
    }

    /// Copies `node` before the nodes of `group`, with the constants that it reads. Its operands
    /// become operands of the group, and its outputs are no longer operands; `inner` records the
    /// values inside that replace them.
    pub fn absorb(&mut self, graph: &mut Graph, group: Node, node: Node) {
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
