//! Sums of concatenated parts: the parts are concatenated first, and summed once.
//!
//! ```text
//! %a = _grad_sum_to_size(%x, [3])   %b = _grad_sum_to_size(%y, [2])      %c = cat(%x, %y along 1)
//! %c = cat(%a, %b along 0)                                           =>  %s = _grad_sum_to_size(%c, [5])
//! ```
//!
//! Chunks of a tensor that was broadcast are summed one by one. Their sizes may differ in the
//! concatenated dimension, as chunks of 7 elements in 4 parts do; a part that is also reduced in
//! that dimension is reduced before. Where sums drop dimensions, the concatenated dimension shifts.
//! All sizes must be known, and be equal in the other dimensions.

use super::broadcasting::{Extent, Size};
use super::carrying::Pending;
use super::{Mover, erase_unread, is_sum};
use jitopt_core::graph_update;
use jitopt_core::ir::{Attribute, Block, Graph, Node, Value};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::Type;

/// A node that concatenates sums, and what is known of them.
struct Join {
    node: Node,
    /// The node whose operands are concatenated: the node itself, or the list that it reads.
    holder: Node,
    parts: Vec<Value>,
    /// The concatenated dimension of the sums.
    dim: usize,
    /// The number of dimensions that the sums drop.
    dropped: usize,
    /// The sizes before and after each sum.
    sizes: Vec<(Vec<i64>, Vec<i64>)>,
}

/// The operands of a concatenation, and its dimension.
fn operands(graph: &Graph, node: Node) -> Option<(Node, i64)> {
    if graph.kind(node) == prim::FUSED_CONCAT {
        return Some((node, graph.attribute(node, attr::DIM)?.as_int()?));
    }
    let is_cat = graph.kind(node).as_str() == "aten::cat" && graph.num_inputs(node) == 2;
    let list = is_cat.then(|| graph.definer(graph.input(node, 0)))??;
    let alone = graph.kind(list) == prim::LIST_CONSTRUCT && graph.single_use(graph.output(list, 0)).is_some();
    Some((list, graph.constant_int(graph.input(node, 1)).filter(|_| alone)?))
}

impl Join {
    /// The reason why the sums cannot be moved after it; nothing where it concatenates no sums.
    fn of(mover: &Mover, graph: &Graph, node: Node) -> Option<Result<Join, &'static str>> {
        let (holder, dim) = operands(graph, node)?;
        let parts: Vec<Value> = graph.inputs(holder).collect();
        if !parts.iter().any(|part| mover.sums.contains_key(part)) || graph.block_of(holder) != graph.block_of(node) {
            return None;
        }
        let sizes: Option<Vec<_>> = parts.iter().map(|part| known(graph, mover.sums.get(part)?, *part)).collect();
        let Some(sizes) = sizes else { return Some(Err("not all parts are sums of known sizes")) };
        let written = |value: Value| mover.db.has_writers(value);
        if written(graph.output(holder, 0)) || written(graph.output(node, 0)) {
            return Some(Err("a part is written to"));
        }
        let (rank, whole) = (sizes[0].1.len(), sizes[0].0.len());
        let dim = if dim < 0 { dim + rank as i64 } else { dim };
        let dropped = whole.checked_sub(rank).filter(|_| (0..rank as i64).contains(&dim))?;
        let join = Join { node, holder, parts, dim: dim as usize, dropped, sizes };
        Some(
            join.fits()
                .then_some(join)
                .ok_or("the parts are summed differently, or only in the concatenated dimension"),
        )
    }

    /// Whether all sizes agree outside the concatenated dimension, and another dimension is summed.
    fn fits(&self) -> bool {
        let without = |size: &[i64], dim: usize| {
            let mut size = size.to_vec();
            (dim < size.len()).then(|| size.remove(dim)).map(|_| size)
        };
        let rest = |(whole, own): &(Vec<i64>, Vec<i64>)| {
            Some((without(whole, self.dim + self.dropped)?, without(own, self.dim)?))
        };
        let first = rest(&self.sizes[0]);
        let sums = first.as_ref().is_some_and(|(whole, own)| whole != own);
        sums && self.sizes.iter().all(|sizes| rest(sizes) == first)
    }
}

/// The sizes before and after a sum of known sizes that has no other reader.
fn known(graph: &Graph, pending: &Pending, part: Value) -> Option<(Vec<i64>, Vec<i64>)> {
    let [Size::Of(own)] = &pending.sizes[..] else { return None };
    graph.single_use(part)?;
    Some((pending.whole.numbers()?, own.numbers()?))
}

fn list(graph: &mut Graph, before: Node, numbers: &[i64]) -> Value {
    let node = graph.create_op(prim::CONSTANT, &[], Type::list(Type::int()));
    let numbers = numbers.iter().map(|&n| Attribute::Int(n)).collect();
    graph.set_attribute(node, attr::VALUE, Attribute::List(numbers));
    graph.insert_before(before, node);
    graph.output(node, 0)
}

impl Mover {
    /// Moves sums after the nodes that concatenate them.
    pub(super) fn joins(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let nodes: Vec<Node> = graph.nodes(block).filter(|&node| !is_sum(graph, node)).collect();
        for node in nodes {
            match Join::of(self, graph, node) {
                Some(Ok(join)) => self.join(graph, cx, &join),
                Some(Err(why)) => cx.missed(graph, "past-joins", node, || why.to_owned()),
                None => {}
            }
        }
    }

    fn join(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, join: &Join) {
        let output = graph.output(join.node, 0);
        let (small, mut whole) = (self.extents.extent(graph, output), join.sizes[0].0.clone());
        whole[join.dim + join.dropped] =
            join.sizes.iter().fold(0i64, |sum, (_, own)| sum.saturating_add(own[join.dim]));
        let whole = Extent::of_numbers(&whole);
        let Some(sum) = cx.rewrite(graph, "past-joins", join.node, |graph| {
            graph_update!("Summing the concatenation %{}", graph.name(output));
            exchange(graph, join, &whole)
        }) else {
            return;
        };
        self.extents.learn(sum, small);
    }
}

/// Concatenates the operands of the sums, and sums the result.
fn exchange(graph: &mut Graph, join: &Join, whole: &Extent) -> Value {
    let (node, along) = (join.node, join.dim + join.dropped);
    let (mut gone, mut parts) = (Vec::new(), Vec::new());
    for (&part, (size, own)) in join.parts.iter().zip(&join.sizes) {
        let sum = graph.definer(part).expect("a sum is made by a node");
        gone.push(sum);
        parts.push(if size[along] == own[join.dim] {
            graph.input(sum, 0)
        } else {
            let mut partial = size.clone();
            partial[along] = own[join.dim];
            let partial = list(graph, sum, &partial);
            let copy = graph.create_op(graph.kind(sum), &[graph.input(sum, 0), partial], graph.ty(part).erased());
            graph.insert_before(sum, copy);
            graph.output(copy, 0)
        });
    }
    let kind = graph.kind(gone[0]);
    parts.into_iter().enumerate().for_each(|(i, part)| graph.set_input(join.holder, i, part));
    join_along(graph, join, along as i64);
    let mut size = join.sizes[0].1.clone();
    size[join.dim] = join.sizes.iter().fold(0i64, |sum, (_, own)| sum.saturating_add(own[join.dim]));
    let (output, size) = (graph.output(node, 0), list(graph, node, &size));
    let ty = graph.ty(output);
    let sum = graph.create_op(kind, &[output, size], ty);
    graph.insert_after(node, sum);
    graph.copy_location(gone[0], sum);
    let value = graph.output(sum, 0);
    graph.replace_uses_if(output, value, |graph, u| graph.user(u) != sum);
    graph.set_type(output, super::whole_type(ty, whole));
    graph.move_name(output, value);
    erase_unread(graph, gone);
    value
}

/// Sets the dimension of a concatenation.
fn join_along(graph: &mut Graph, join: &Join, dim: i64) {
    if graph.kind(join.node) == prim::FUSED_CONCAT {
        return graph.set_attribute(join.node, attr::DIM, Attribute::Int(dim));
    }
    if graph.constant_int(graph.input(join.node, 1)) != Some(dim) {
        let constant = graph.create_op(Symbol::new("prim::Constant"), &[], Type::int());
        graph.set_attribute(constant, attr::VALUE, Attribute::Int(dim));
        graph.insert_before(join.node, constant);
        let dim = graph.output(constant, 0);
        graph.set_input(join.node, 1, dim);
    }
}
