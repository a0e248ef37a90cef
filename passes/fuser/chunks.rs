//! Chunks between a producer and a consumer.
//!
//! A chunk of an operator's result is the operator's result on chunks, once its operands have the
//! same sizes. The chunk moves before the operator, which is duplicated for each chunk:
//!
//! ```text
//! %s = aten::add(%x, %y, %1)                                   %x0, %x1, %y0, %y1 = prim::BroadcastingChunk[chunks=2, dim=1](%x, %y)
//! %a, %b = prim::ConstantChunk[chunks=2, dim=1](%s)     =>     %a = aten::add(%x0, %y0, %1)
//! %z = aten::mul(%a, %b)                                       %b = aten::add(%x1, %y1, %1)
//!                                                              %z = aten::mul(%a, %b)
//! ```
//!
//! After groups are made, the remaining chunks are written as `aten::broadcast_tensors` and a chunk
//! for each operand, and a group that is the only reader of the chunks absorbs them.
//!
//! PyTorch moves chunks past every operator, also when `aten::type_as` does not broadcast one
//! operand to the other, when random numbers would be drawn anew for each chunk, and when an
//! operand is written to between the operator and the chunk. This pass does not move them there, or
//! moves the write.

use super::{Fuser, group_sizes, is_random, latest_first};
use jitopt_core::analysis::AliasDb;
use jitopt_core::graph_update;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{Symbol, aten, attr, prim};
use jitopt_core::types::Type;

fn is_chunk(graph: &Graph, node: Node) -> bool {
    [prim::CONSTANT_CHUNK, prim::BROADCASTING_CHUNK].contains(&graph.kind(node))
}

fn attribute(graph: &Graph, node: Node, name: Symbol) -> Option<i64> {
    graph.attribute(node, name).and_then(Attribute::as_int)
}

/// Whether `consumer` is the only reader of the outputs of `node`.
fn is_read_only_by(graph: &Graph, node: Node, consumer: Node) -> bool {
    graph.outputs(node).all(|output| graph.users(output).all(|user| user == consumer))
}

/// Whether `group` divides its operand `value` into chunks: only params are divided.
pub(super) fn feeds_chunk(graph: &Graph, group: Node, value: Value) -> bool {
    let (Some(section), Some(i)) = (graph.subgraph(group), graph.inputs(group).position(|input| input == value)) else {
        return false;
    };
    let param = section.params(section.root()).nth(i);
    param.is_some_and(|param| section.users(param).any(|user| section.kind(user) == prim::CONSTANT_CHUNK))
}

impl Fuser {
    /// Moves the chunk that defines `value` before its operand's producer, so that `consumer` can
    /// absorb that; returns whether it did.
    pub(super) fn move_chunk(
        &mut self,
        graph: &mut Graph,
        cx: &mut PassContext<'_>,
        consumer: Node,
        value: Value,
    ) -> bool {
        let Some(chunk) = graph.definer(value).filter(|&node| is_chunk(graph, node)) else { return false };
        if !is_read_only_by(graph, chunk, consumer) {
            return false;
        }
        let operands: Vec<Value> = graph.inputs(chunk).collect();
        let movable = operands.iter().position(|&operand| self.is_divisible(graph, chunk, operand));
        let Some(i) = movable else { return false };
        let operator = graph.definer(operands[i]).expect("the operand is defined by an operator");
        let moved = cx.rewrite(graph, "chunks-moved", operator, |graph| {
            graph_update!("Moving a chunk before %{}", graph.name(operands[i]));
            // An operand of the operator may be written to before the chunk: then the alias
            // analysis must be updated.
            let is_written = graph.inputs(operator).any(|value| self.groups.db.has_writers(value));
            if is_written {
                self.groups.db.move_before_topologically(graph, operator, chunk);
            }
            divide(graph, &mut self.groups.db, chunk, i, operator);
        });
        moved.is_some()
    }

    /// Whether `operand` of a chunk is defined by an operator that can be applied to chunks, and
    /// has no other reader.
    fn is_divisible(&mut self, graph: &Graph, chunk: Node, operand: Value) -> bool {
        let Some(node) = graph.definer(operand) else { return false };
        let Ok(Some(row)) = self.fusible(graph, node) else { return false };
        let is_size = |user| group_sizes::is_size(graph, user);
        graph.block_of(node) == graph.block_of(chunk)
            && graph.users(operand).all(|user| user == chunk || is_size(user))
            && !row.like_first
            && row.is_pointwise()
            && !is_random(graph, node)
            && self.cannot_move(graph, node, chunk).is_none()
    }

    /// Writes out combined broadcasts and chunks, and lets groups absorb chunks.
    pub(super) fn settle_chunks(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let backwards: Vec<Node> = graph.nodes(block).collect();
        for &node in
            backwards.iter().rev().filter(|&&node| graph.kind(node) == prim::BROADCASTING_CHUNK).collect::<Vec<_>>()
        {
            cx.rewrite(graph, "chunks-written-out", node, |graph| write_out(graph, &mut self.groups.db, node));
        }
        let groups: Vec<Node> = graph.nodes(block).filter(|node| self.groups.grown.contains(node)).collect();
        for &group in groups.iter().rev() {
            while self.take_chunk_in(graph, cx, group) {}
        }
    }

    /// Moves a chunk into the group that is its only reader.
    fn take_chunk_in(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) -> bool {
        let producers = latest_first(graph, group);
        let found = producers.iter().map(|(chunk, _)| *chunk).find(|&chunk| takes_in(graph, group, chunk));
        let Some(chunk) = found else { return false };
        let taken = cx.rewrite(graph, "chunks-fused", chunk, |graph| match equal_inside(graph, group, chunk) {
            Some(inside) => reuse(graph, group, chunk, inside),
            None => {
                self.groups.absorb(graph, group, chunk);
                graph.erase(chunk);
            }
        });
        taken.is_some()
    }
}

/// Whether a group can absorb a chunk that it reads.
pub(super) fn takes_in(graph: &Graph, group: Node, chunk: Node) -> bool {
    graph.kind(group) == prim::FUSION_GROUP
        && graph.kind(chunk) == prim::CONSTANT_CHUNK
        && attribute(graph, chunk, attr::CHUNKS) != Some(1)
        && is_read_only_by(graph, chunk, group)
        && reads_operand_in_chunks_only(graph, group, chunk)
}

/// Applies `operator`, which defines operand `i` of `chunk`, to chunks of its operands.
fn divide(graph: &mut Graph, db: &mut AliasDb, chunk: Node, i: usize, operator: Node) {
    let chunk = broadcasting(graph, db, chunk);
    let chunks = graph.num_outputs(chunk) / graph.num_inputs(chunk);
    let old: Vec<Value> = (0..chunks).map(|n| graph.output(chunk, i * chunks + n)).collect();
    let operands: Vec<Value> = graph.inputs(operator).collect();
    // For each operand the offset of its chunks; none for an operand that is not divided.
    let divided: Vec<Option<usize>> = operands
        .iter()
        .map(|&operand| graph.ty(operand).is_tensor().then(|| first_chunk_of(graph, db, chunk, operand, &old)))
        .collect();
    let mut at = chunk;
    for (n, &part) in old.iter().enumerate() {
        let inputs: Vec<Value> = operands
            .iter()
            .zip(&divided)
            .map(|(&operand, first)| first.map_or(operand, |first| graph.output(chunk, first + n)))
            .collect();
        let copy = graph.create_op(graph.kind(operator), &inputs, graph.ty(part));
        graph.insert_after(at, copy);
        copy_notes(graph, operator, copy);
        graph.replace_all_uses(part, graph.output(copy, 0));
        graph.move_name(part, graph.output(copy, 0));
        at = copy;
    }
    graph.remove_input(chunk, i);
    for _ in 0..chunks {
        graph.remove_output(chunk, i * chunks);
    }
    group_sizes::replace_of(graph, operator);
    graph.erase(operator);
}

/// A chunk that first broadcasts its operands to the same sizes, in place of a chunk with a single
/// operand.
fn broadcasting(graph: &mut Graph, db: &mut AliasDb, chunk: Node) -> Node {
    if graph.kind(chunk) == prim::BROADCASTING_CHUNK {
        return chunk;
    }
    let new = graph.create(prim::BROADCASTING_CHUNK);
    graph.add_input(new, graph.input(chunk, 0));
    for (name, value) in graph.attributes(chunk).to_vec() {
        graph.set_attribute(new, name, value);
    }
    for old in graph.outputs(chunk).collect::<Vec<_>>() {
        let output = graph.add_output(new, graph.ty(old));
        db.copy_value(output, old);
        graph.replace_all_uses(old, output);
        graph.move_name(old, output);
    }
    graph.insert_after(chunk, new);
    graph.erase(chunk);
    new
}

/// Copies source location and scope of a node.
fn copy_notes(graph: &mut Graph, from: Node, to: Node) {
    if let Some(location) = graph.location(from).map(<[u8]>::to_vec) {
        graph.set_location(to, &location);
    }
    if let Some(scope) = graph.scope(from).map(<[u8]>::to_vec) {
        graph.set_scope(to, &scope);
    }
}

/// The index of the output that is the first chunk of `operand`, which becomes an operand of the
/// chunk if it is none.
fn first_chunk_of(graph: &mut Graph, db: &mut AliasDb, chunk: Node, operand: Value, like: &[Value]) -> usize {
    if let Some(known) = graph.inputs(chunk).position(|input| input == operand) {
        return known * like.len();
    }
    graph.add_input(chunk, operand);
    let first = graph.num_outputs(chunk);
    for &part in like {
        let output = graph.add_output(chunk, graph.ty(part));
        db.copy_value(output, operand);
    }
    first
}

/// Replaces a node that broadcasts and divides by operators that exist.
fn write_out(graph: &mut Graph, db: &mut AliasDb, node: Node) {
    let operands: Vec<Value> = graph.inputs(node).collect();
    let broadcast = broadcast_to_common_shape(graph, node, &operands);
    let chunks = graph.num_outputs(node) / operands.len();
    let mut at = node;
    for (i, operand) in broadcast.into_iter().enumerate() {
        let chunk = graph.create(prim::CONSTANT_CHUNK);
        graph.set_inputs(chunk, [operand].into_iter());
        for (name, value) in graph.attributes(node).to_vec() {
            graph.set_attribute(chunk, name, value);
        }
        graph.insert_after(at, chunk);
        for n in 0..chunks {
            let old = graph.output(node, i * chunks + n);
            let new = graph.add_output(chunk, graph.ty(old));
            db.copy_value(new, old);
            graph.replace_all_uses(old, new);
            graph.move_name(old, new);
        }
        at = chunk;
    }
    graph.erase(node);
}

/// Tensors of the same sizes: views of `operands`, with stride 0 in broadcast dimensions.
fn broadcast_to_common_shape(graph: &mut Graph, before: Node, operands: &[Value]) -> Vec<Value> {
    let list = Type::list(Type::tensor());
    let made = graph.create_op(prim::LIST_CONSTRUCT, operands, list);
    let broadcast = graph.create_op(aten::BROADCAST_TENSORS, &[graph.output(made, 0)], list);
    let unpacked = graph.create(prim::LIST_UNPACK);
    graph.set_inputs(unpacked, [graph.output(broadcast, 0)].into_iter());
    let values = operands.iter().map(|_| graph.add_output(unpacked, Type::tensor())).collect();
    for node in [made, broadcast, unpacked] {
        graph.insert_before(before, node);
    }
    values
}

/// The param of `group` that corresponds to its operand `value`.
fn param_of(graph: &Graph, group: Node, value: Value) -> Option<Value> {
    let i = graph.inputs(group).position(|input| input == value)?;
    let section = graph.subgraph(group)?;
    section.params(section.root()).nth(i)
}

/// Whether a group reads the operand of `chunk` in no other way: it has other sizes than the
/// kernel's results.
fn reads_operand_in_chunks_only(graph: &Graph, group: Node, chunk: Node) -> bool {
    let Some(param) = param_of(graph, group, graph.input(chunk, 0)) else { return true };
    equal_inside(graph, group, chunk).is_some_and(|inside| {
        graph.subgraph(group).is_some_and(|section| section.users(param).all(|user| user == inside))
    })
}

/// The chunk in `group` that divides the same tensor in the same way.
fn equal_inside(graph: &Graph, group: Node, chunk: Node) -> Option<Node> {
    let (section, param) = (graph.subgraph(group)?, param_of(graph, group, graph.input(chunk, 0))?);
    let same = |name| {
        attribute(section, section.users(param).next()?, name).filter(|&n| Some(n) == attribute(graph, chunk, name))
    };
    let user = section.users(param).next().filter(|&user| section.kind(user) == prim::CONSTANT_CHUNK)?;
    let equal =
        same(attr::CHUNKS).and(same(attr::DIM)).is_some() && section.num_outputs(user) == graph.num_outputs(chunk);
    equal.then_some(user)
}

/// Replaces reads of `chunk` by reads of the chunk `inside`.
fn reuse(graph: &mut Graph, group: Node, chunk: Node, inside: Node) {
    for (n, output) in graph.outputs(chunk).collect::<Vec<_>>().into_iter().enumerate() {
        let Some(i) = graph.inputs(group).position(|input| input == output) else { continue };
        graph.remove_input(group, i);
        graph.with_subgraph(group, |section| {
            let params = section.param_node(section.root());
            section.replace_all_uses(section.output(params, i), section.output(inside, n));
            section.remove_output(params, i);
        });
    }
    graph.erase(chunk);
}
