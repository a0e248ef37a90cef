//! Outputs of groups whose only use is their size.
//!
//! ```text
//! %a : Tensor, %z : Tensor = prim::FusionGroup_0(%x, %y)        %z : Tensor = prim::FusionGroup_0(%x, %y)
//! %s : int[] = aten::size(%a)                              =>   %n : int[] = aten::size(%x)
//!                                                               %m : int[] = aten::size(%y)
//!                                                               %s : int[] = prim::BroadcastSizes(%n, %m)
//! ```
//!
//! A kernel that writes less is faster. Gradients read many such sizes.

use super::Fuser;
use jitopt_core::graph_update;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops::fusion_rules::fusion_row;
use jitopt_core::ops::{self};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::Type;
use rustc_hash::FxHashMap;

/// Whether a node is `aten::size(Tensor) -> int[]`.
pub(super) fn is_size(graph: &Graph, node: Node) -> bool {
    graph.kind(node).as_str() == "aten::size" && graph.num_inputs(node) == 1 && graph.num_outputs(node) == 1
}

fn is_read_for_size_only(graph: &Graph, value: Value) -> bool {
    graph.users(value).all(|user| is_size(graph, user))
}

fn sizes_type() -> Type {
    Type::list(Type::int())
}

/// Inserts nodes one after the other.
struct Writer<'a> {
    graph: &'a mut Graph,
    at: Node,
}

impl Writer<'_> {
    fn op(&mut self, kind: Symbol, operands: &[Value]) -> Value {
        let node = self.graph.create_op(kind, operands, sizes_type());
        self.graph.insert_after(self.at, node);
        self.at = node;
        self.graph.output(node, 0)
    }

    fn size(&mut self, value: Value) -> Value {
        self.op(Symbol::new("aten::size"), &[value])
    }

    fn broadcast(&mut self, sizes: &[Value]) -> Value {
        if let [one] = sizes { *one } else { self.op(prim::BROADCAST_SIZES, sizes) }
    }

    /// The sizes of all chunks but the last one, and of the last one.
    fn chunk(&mut self, section: &Graph, node: Node, size: Value) -> [Value; 2] {
        let sizes = self.op(prim::CHUNK_SIZES, &[size]);
        for name in [attr::DIM, attr::CHUNKS] {
            if let Some(value) = section.attribute(node, name).cloned() {
                self.graph.set_attribute(self.at, name, value);
            }
        }
        [sizes, self.graph.add_output(self.at, sizes_type())]
    }
}

/// The operands that determine a node's sizes; none where it reduces dimensions.
fn shaping(graph: &Graph, node: Node) -> Vec<Value> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let resolved = ops::resolve(graph.era, graph.kind(node), &types);
    let row = resolved.schema().and_then(fusion_row);
    let like_first = row.is_some_and(|row| row.like_first);
    if row.is_some_and(|row| !row.is_pointwise()) && !like_first {
        return Vec::new();
    }
    let tensors = graph.inputs(node).filter(|value| graph.ty(*value).is_tensor());
    tensors.take(if like_first { 1 } else { usize::MAX }).collect()
}

/// Replaces reads of the size of the output of `node` by the broadcast size of its operands,
/// computed before it.
pub(super) fn replace_of(graph: &mut Graph, node: Node) {
    let output = graph.output(node, 0);
    let users: Vec<Node> = graph.users(output).collect();
    let Some(&first) = users.first() else { return };
    let operands = shaping(graph, node);
    // After the node, which is erased next; a position after it always exists.
    let mut writer = Writer { graph, at: node };
    let sizes: Vec<Value> = operands.into_iter().map(|operand| writer.size(operand)).collect();
    let size = writer.broadcast(&sizes);
    debug_assert!(is_size(graph, first));
    for user in users {
        graph.replace_all_uses(graph.output(user, 0), size);
        graph.erase(user);
    }
}

impl Fuser {
    /// Removes outputs of the groups of a block whose only use is their size.
    pub(super) fn replace_sizes(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let groups: Vec<Node> = graph.nodes(block).filter(|node| self.groups.grown.contains(node)).collect();
        for group in groups {
            if graph.outputs(group).any(|output| is_read_for_size_only(graph, output)) {
                cx.rewrite(graph, "sizes-replaced", group, |graph| drop_outputs(graph, group));
            }
        }
    }
}

/// Removes the outputs of a group that are unread, or read only for their size, which is computed
/// after the group instead.
fn drop_outputs(graph: &mut Graph, group: Node) {
    let wanted = graph.outputs(group).any(|output| graph.has_uses(output) && is_read_for_size_only(graph, output));
    let known = if wanted { shapes(graph, group) } else { FxHashMap::default() };
    for i in (0..graph.num_outputs(group)).rev() {
        let output = graph.output(group, i);
        let result = graph.subgraph(group).and_then(|section| section.results(section.root()).nth(i));
        let size = result.and_then(|result| known.get(&result).copied());
        if !is_read_for_size_only(graph, output) || size.is_none() && graph.has_uses(output) {
            continue;
        }
        graph_update!("Computing the size of %{} without it", graph.name(output));
        for user in graph.users(output).collect::<Vec<_>>() {
            graph.replace_all_uses(graph.output(user, 0), size.expect("checked"));
            graph.erase(user);
        }
        graph.remove_output(group, i);
        graph.with_subgraph(group, |section| section.remove_input(section.return_node(section.root()), i));
    }
}

/// Computes, after a group, the sizes of the values inside it; those of concatenations are unknown.
fn shapes(graph: &mut Graph, group: Node) -> FxHashMap<Value, Value> {
    let section = graph.take_subgraph(group).expect("a group has a section");
    let root = section.root();
    let mut shapes = FxHashMap::default();
    let mut writer = Writer { at: group, graph };
    let tensors = section.params(root).zip(writer.graph.inputs(group).collect::<Vec<_>>());
    for (param, operand) in tensors.filter(|(param, _)| section.ty(*param).is_tensor()) {
        shapes.insert(param, writer.size(operand));
    }
    // An output that stays has a size, which need not be computed from operands.
    for (result, output) in section.results(root).zip(writer.graph.outputs(group).collect::<Vec<_>>()) {
        if !is_read_for_size_only(writer.graph, output) {
            shapes.insert(result, writer.size(output));
        }
    }
    for node in section.nodes(root) {
        if section.kind(node) == prim::CONSTANT_CHUNK {
            if let Some(&size) = shapes.get(&section.input(node, 0)) {
                let [regular, last] = writer.chunk(&section, node, size);
                let count = section.num_outputs(node);
                for (n, output) in section.outputs(node).enumerate() {
                    shapes.entry(output).or_insert(if n + 1 < count { regular } else { last });
                }
            }
        } else if section.kind(node) != prim::FUSED_CONCAT && section.kind(node) != prim::CONSTANT {
            let sizes: Option<Vec<Value>> =
                shaping(&section, node).iter().map(|value| shapes.get(value).copied()).collect();
            let output = section.output(node, 0);
            if let Some(sizes) = sizes.filter(|sizes| !sizes.is_empty())
                && !shapes.contains_key(&output)
            {
                shapes.insert(output, writer.broadcast(&sizes));
            }
        }
    }
    graph.set_attribute(group, attr::SUBGRAPH, jitopt_core::ir::Attribute::Graph(section));
    shapes
}

/// Simplifies broadcast sizes: a single operand is returned, equal operands are merged, and chains
/// are flattened.
pub(super) fn simplify(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let nodes: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::BROADCAST_SIZES).collect();
    for node in nodes {
        let mut operands: Vec<Value> = Vec::new();
        for operand in graph.inputs(node) {
            if !operands.contains(&operand) {
                operands.push(operand);
            }
        }
        let output = graph.output(node, 0);
        if operands.len() < graph.num_inputs(node) && operands.len() > 1 {
            cx.rewrite(graph, "sizes-simplified", node, |graph| {
                graph.remove_inputs(node);
                graph.set_inputs(node, operands.iter().copied());
            });
        }
        if let [one] = operands[..] {
            cx.rewrite(graph, "sizes-simplified", node, |graph| {
                graph.replace_all_uses(output, one);
                graph.erase(node);
            });
            continue;
        }
        let user = graph.single_use(output).map(|u| (graph.user(u), graph.operand_index(u)));
        if let Some((user, i)) = user.filter(|&(user, _)| graph.kind(user) == prim::BROADCAST_SIZES) {
            cx.rewrite(graph, "sizes-simplified", node, |graph| {
                graph.remove_input(user, i);
                for operand in operands {
                    graph.add_input(user, operand);
                }
                graph.erase(node);
            });
        }
    }
}
