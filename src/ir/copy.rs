//! Copying nodes, within a graph or from another one.

use super::attribute::Attribute;
use super::graph::{Block, Graph, Node, Value};
use super::naming::Label;
use crate::symbol::Symbol;
use crate::types::Type;
use rustc_hash::FxHashMap;

/// The new value for each old one.
pub type ValueMap = FxHashMap<Value, Value>;

/// An output to copy: the old value, its type and its name.
type Output = (Value, Option<Type>, Option<Vec<u8>>);

/// One node, detached from its graph so that the target can be edited.
struct Taken {
    kind: Symbol,
    inputs: Vec<Value>,
    outputs: Vec<Output>,
    attributes: Vec<(Symbol, Attribute)>,
    brackets: bool,
    blocks: Vec<Block>,
}

fn name_of(graph: &Graph, value: Value) -> Option<Vec<u8>> {
    match graph.label(value) {
        Label::Text(text) => Some(text.to_vec()),
        Label::Number(_) => None,
    }
}

fn outputs_of(graph: &Graph, node: Node) -> Vec<Output> {
    graph.outputs(node).map(|v| (v, graph.written_type(v), name_of(graph, v))).collect()
}

impl Taken {
    fn of(graph: &Graph, node: Node) -> Taken {
        Taken {
            kind: graph.kind(node),
            inputs: graph.inputs(node).collect(),
            outputs: outputs_of(graph, node),
            attributes: graph.attributes(node).to_vec(),
            brackets: graph.has_attribute_list(node),
            blocks: graph.node_blocks(node).collect(),
        }
    }
}

impl Graph {
    /// O(nodes nested in it): a detached copy of `node` of `source` (or of this graph if `source`
    /// is `None`). Operands are looked up in `map` and used unchanged if they are not in it;
    /// outputs and params are added to it. Names are copied and rename their owners, as in PyTorch.
    pub fn copy_node(&mut self, source: Option<&Graph>, node: Node, map: &mut ValueMap) -> Node {
        let (copy, mut work) = self.copy_shell(source, node, map);
        // Blocks still to fill. Depth first in printed order, so that name clashes occur in the
        // order in which PyTorch copies.
        while let Some((from, to, cursor)) = work.pop() {
            let Some(node) = cursor else {
                self.copy_results(source, from, to, map);
                continue;
            };
            let next = source.unwrap_or(self).next(node);
            let (inner, nested) = self.copy_shell(source, node, map);
            self.append(to, inner);
            work.push((from, to, next));
            work.extend(nested);
        }
        copy
    }

    /// Copies the nodes of a block to the end of another and returns the copies of its results.
    pub fn copy_block_into(
        &mut self,
        source: Option<&Graph>,
        from: Block,
        to: Block,
        map: &mut ValueMap,
    ) -> Vec<Value> {
        let mut cursor = source.unwrap_or(self).first(from);
        while let Some(node) = cursor {
            cursor = source.unwrap_or(self).next(node);
            let copy = self.copy_node(source, node, map);
            self.append(to, copy);
        }
        let results: Vec<Value> = source.unwrap_or(self).results(from).collect();
        results.into_iter().map(|v| self.mapped(source, v, map)).collect()
    }

    /// The copy of a value of the source. Within a graph an unmapped value is used unchanged; an
    /// unmapped value of another graph is undefined here, and becomes an undefined value of the
    /// same name.
    pub fn mapped(&mut self, source: Option<&Graph>, value: Value, map: &mut ValueMap) -> Value {
        if let Some(&new) = map.get(&value) {
            return new;
        }
        let Some(source) = source else { return value };
        let new = self.undefined_value();
        match name_of(source, value) {
            Some(name) => self.set_name(new, &name),
            None => self.number_afresh(new),
        }
        map.insert(value, new);
        new
    }

    fn copy_shell(
        &mut self,
        source: Option<&Graph>,
        node: Node,
        map: &mut ValueMap,
    ) -> (Node, Vec<(Block, Block, Option<Node>)>) {
        let taken = Taken::of(source.unwrap_or(self), node);
        let copy = self.create(taken.kind);
        if source.is_none() {
            self.descend(copy, node);
        }
        if let Some(&iterations) = source.unwrap_or(self).loop_iterations.get(&node) {
            self.set_loop_iterations(copy, iterations);
        }
        let inputs: Vec<Value> = taken.inputs.iter().map(|v| self.mapped(source, *v, map)).collect();
        self.set_inputs(copy, inputs.into_iter());
        self.copy_outputs(source, copy, &taken.outputs, map);
        if taken.brackets {
            self.set_empty_attributes(copy);
        }
        for (name, value) in taken.attributes {
            self.set_attribute(copy, name, value);
        }
        self.copy_comments(source, node, copy);
        let mut work = Vec::new();
        for from in taken.blocks {
            let to = self.add_block(copy);
            let params = outputs_of(source.unwrap_or(self), source.unwrap_or(self).param_node(from));
            let param_node = self.param_node(to);
            self.copy_outputs(source, param_node, &params, map);
            let first = source.unwrap_or(self).first(from);
            work.push((from, to, first));
        }
        work.reverse();
        (copy, work)
    }

    fn copy_comments(&mut self, source: Option<&Graph>, node: Node, copy: Node) {
        let Some(source) = source else {
            self.copy_location(node, copy);
            return self.copy_scope(node, copy);
        };
        if let Some(text) = source.location(node) {
            self.set_location(copy, text);
        }
        if let Some(text) = source.scope(node) {
            self.set_scope(copy, text);
        }
    }

    fn copy_outputs(&mut self, source: Option<&Graph>, node: Node, outputs: &[Output], map: &mut ValueMap) {
        for (old, ty, name) in outputs {
            let new = self.add_output_if_typed(node, *ty);
            match (source, name) {
                (None, name) => self.copy_name(*old, name.as_deref(), new),
                (Some(_), Some(name)) => self.set_name(new, name),
                (Some(_), None) => {}
            }
            map.insert(*old, new);
        }
    }

    fn copy_results(&mut self, source: Option<&Graph>, from: Block, to: Block, map: &mut ValueMap) {
        let results: Vec<Value> = source.unwrap_or(self).results(from).collect();
        for value in results {
            let value = self.mapped(source, value, map);
            self.add_result(to, value);
        }
    }
}
