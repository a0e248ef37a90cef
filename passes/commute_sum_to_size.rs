//! Moves gradient sums (`sum_to_size`) after the operators that they separate, so that those
//! operators can be one kernel.
//!
//! ```text
//! %a : Tensor = aten::mul(%g, %y)                          %a : Tensor = aten::mul(%g, %y)
//! %s : Tensor = aten::_grad_sum_to_size(%a, %size)         %1 : Tensor = aten::mul(%a, %z)
//! %b : Tensor = aten::mul(%s, %z)                     =>   %2 : Tensor = aten::neg(%1)
//! %c : Tensor = aten::neg(%b)                              %c : Tensor = aten::_grad_sum_to_size(%2, %size)
//! return (%c)                                              return (%c)
//! ```
//!
//! A tensor that was broadcast in the forward run is summed in the backward run, between any two
//! formulas. The formulas are linear, so that the sum can be delayed until they are done (T.
//! Viehmann, 2019, who also describes how that goes wrong). A sum is moved where that is proven
//! right:
//!
//! - After a product, the numerator of a quotient, a negation: `sum(x) * y = sum(x * y)`, when `%y`
//!   is the same for all elements that are summed together, which holds when it broadcasts to the
//!   size that is summed to. Types prove that, or `%y` being computed of tensors that `%size` is
//!   the size of. An optional size that is None sums nothing, so only the other case counts.
//! - After an addition of two gradients, when both are sums to the same size *of tensors of the
//!   same shape*. Where one side is a sum and the other is not, adding first counts the other one
//!   several times, which is what PyTorch 1.1 did; the same happens where the sides are summed from
//!   different shapes.
//! - After a `where`, when the condition is the same for all elements that are summed together and
//!   both branches are such sums, or one branch is zero.
//! - After a lossless cast.
//! - A sum to the size that its operand already has is that operand, and so is one to a size that
//!   is None.
//! - A sum of a sum is the last of them, see `joined` in `commute_sum_to_size/carrying.rs` for
//!   sizes that may be None. Equal sums become one.
//! - A concatenation of sums is a sum of the concatenation, where sizes are known, see
//!   `commute_sum_to_size/joined_sums.rs`.
//!
//! A sum with several readers is moved when all of them are linear in it, and stays when one is
//! not: it would be computed twice. Results of the block do not count, because they receive the sum
//! at the end. A sum of a value that no kernel computes stays as well: summing first is less work.
//!
//! Results differ by rounding, and where values are not finite: with `%y` infinite, or a zero
//! denominator, `x y` may be NaN where `sum(x) y` is infinite, and an empty sum is 0 where 0 times
//! infinity is not; products may overflow or underflow where the sum would not. Integers and bools
//! are left alone: they are no gradients. Unknown element types are taken to be floating point, as
//! those of gradients are. A zero-dimensional tensor does not widen the type of a tensor with
//! dimensions, so where the sum may be zero-dimensional the other operand must not be wider.
//!
//! Sections are processed too, backward graphs among them. The plan is recomputed each time that a
//! sum turns out to stay, otherwise linear; idempotent.
//!
//! PyTorch 1.1 assumed of all graphs that gradients are linear and that both sides of a sum of
//! gradients are alike. Here each operator that a sum is moved past is one rewrite with its own
//! proof; the plan only says what is worth moving.

mod broadcasting;
mod carrying;
mod joined_sums;

use broadcasting::{Extent, Extents, Size};
use carrying::{Carrier, Passable, Pending, Sums, joined};
use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Resizes;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::{FxHashMap, FxHashSet};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "commute-sum-to-size",
    aliases: &[],
    summary: "move gradient sums after the operators that they separate",
    example: "%s : Tensor = aten::_grad_sum_to_size(%a, %size), %b : Tensor = aten::mul(%s, %z)  =>  %b : Tensor = aten::mul(%a, %z), %s : Tensor = aten::_grad_sum_to_size(%b, %size)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before moving sums", graph);
    all(graph, cx);
    graph_dump!("After moving sums", graph);
    Ok(())
}

/// Processes a graph and its sections, except the fallback copies of speculation.
fn all(graph: &mut Graph, cx: &mut PassContext<'_>) {
    while has_work(graph) {
        let before = graph.epoch();
        let db = AliasDb::new(graph);
        let extents = Extents::of(graph, &db);
        let mut mover = Mover { extents, db, sums: Sums::default(), staying: FxHashSet::default() };
        let blocks: Vec<Block> = graph.all_blocks().collect();
        blocks.into_iter().for_each(|block| mover.block(graph, cx, block));
        // A change in place may reveal more.
        if graph.epoch() == before {
            break;
        }
    }
    let nodes: Vec<Node> = graph.all_nodes().collect();
    for node in nodes {
        report_formulas(graph, cx, node);
        if graph.kind(node) != prim::BAILOUT_TEMPLATE {
            graph.with_graph(node, attr::SUBGRAPH, |section| all(section, cx));
            graph.with_graph(node, attr::REVERSE_SUBGRAPH, |section| all(section, cx));
        }
    }
}

/// Reports why a sum at the end of a formula stays.
fn report_formulas(graph: &Graph, cx: &mut PassContext<'_>, node: Node) {
    if !cx.collects_remarks() || graph.kind(node) != prim::GRAD_OF {
        return;
    }
    let ends = graph.node_blocks(node).flat_map(|block| graph.results(block)).filter_map(|value| graph.definer(value));
    for sum in ends.filter(|&end| is_sum(graph, end)).collect::<Vec<_>>() {
        cx.missed(graph, "sums-moved", sum, || {
            "it ends a formula that may not run: `specialize-autogradzero` or `lower-gradof` decides that".to_owned()
        });
    }
}

/// Whether there are sums, and no tensor is resized in place.
fn has_work(graph: &Graph) -> bool {
    let resizes = |node: Node| ops::operator(graph.era, graph.kind(node)).rule.resizes == Resizes::Yes;
    graph.all_nodes().any(|node| is_sum(graph, node)) && !graph.all_nodes().any(resizes)
}

fn is_sum(graph: &Graph, node: Node) -> bool {
    graph.kind(node).as_str() == "aten::_grad_sum_to_size"
        && graph.num_inputs(node) == 2
        && graph.num_outputs(node) == 1
}

/// Whether a node passes its operand out of a block.
fn goes_out(graph: &Graph, block: Block, user: Node) -> bool {
    user == graph.return_node(block) || graph.kind(user) == prim::TUPLE_CONSTRUCT && graph.block_of(user) == Some(block)
}

/// The state of moving the sums of a graph.
struct Mover {
    db: AliasDb,
    extents: Extents,
    /// The sums that exist now and may be moved. A sum with several sizes is a chain of that many
    /// nodes.
    sums: Sums,
    /// The sums that stay.
    staying: FxHashSet<Value>,
}

impl Mover {
    fn carrier<'a>(&'a self, graph: &'a Graph) -> Carrier<'a> {
        Carrier { graph, db: &self.db, extents: &self.extents }
    }

    fn block(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        self.sums.clear();
        self.drop_idle(graph, cx, block);
        let (passed, staying) = self.carrier(graph).plan(block);
        self.staying = staying;
        let nodes: Vec<Node> = graph.nodes(block).collect();
        for node in nodes {
            match is_sum(graph, node) {
                true => self.sum(graph, cx, node),
                false if passed.contains(&node) => self.pass(graph, cx, node),
                false => self.report_obstacle(graph, cx, node),
            }
        }
        self.joins(graph, cx, block);
        self.share(graph, cx, block);
    }

    /// Removes sums that reduce nothing.
    fn drop_idle(&self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let sums: Vec<Node> = graph.nodes(block).filter(|&node| is_sum(graph, node)).collect();
        for node in sums {
            let ([operand, size], output) = ([0, 1].map(|i| graph.input(node, i)), graph.output(node, 0));
            let idle = match self.extents.size(graph, &self.db, size) {
                Size::Nothing => true,
                Size::Of(own) => own.is(&self.extents.extent(graph, operand)),
                _ => false,
            };
            if idle && self.carrier(graph).is_left_alone(node) {
                cx.rewrite(graph, "sums-dropped", node, |graph| {
                    graph_update!("%{} reduces nothing", graph.name(output));
                    graph.replace_all_uses(output, operand);
                    graph.erase(node);
                });
            }
        }
    }

    /// Reports why a node keeps a sum before it.
    fn report_obstacle(&self, graph: &Graph, cx: &mut PassContext<'_>, node: Node) {
        let joins = [prim::TUPLE_CONSTRUCT, prim::LIST_CONSTRUCT, prim::FUSED_CONCAT].contains(&graph.kind(node));
        if cx.collects_remarks() && graph.num_outputs(node) > 0 && !joins {
            match self.carrier(graph).passable(node, &self.sums) {
                Err(why) => cx.missed(graph, "sums-moved", node, || why.to_owned()),
                _ if graph.inputs(node).any(|operand| self.staying.contains(&operand)) => {
                    let is_linear = carrying::is_linear(graph, node);
                    let why = if is_linear { "the sum has another reader" } else { "its reader is not linear" };
                    cx.missed(graph, "sums-moved", node, || why.to_owned());
                }
                Ok(_) => {}
            }
        }
    }

    /// Records a sum. A sum of a sum that has no other reader is merged with it.
    fn sum(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let [operand, list] = [0, 1].map(|i| graph.input(node, i));
        let alone = match self.carrier(graph).summed(node, &Sums::default()) {
            Ok(pending) if self.carrier(graph).is_worth_it(node) => pending,
            Ok(_) => {
                return cx
                    .missed(graph, "sums-moved", node, || "the summed value is not computed by a kernel".to_owned());
            }
            Err(why) => return cx.missed(graph, "sums-moved", node, || why.to_owned()),
        };
        let output = graph.output(node, 0);
        let Some(before) = self.sums.get(&operand).cloned() else { return self.keep(output, output, alone) };
        let is_given = graph.ty(list) == Type::list(Type::int());
        let last = alone.sizes[0].clone();
        let one = joined(&before, &last, is_given);
        let mut pending = before;
        match one.filter(|_| !self.carrier(graph).is_result(operand)) {
            Some(one) if self.merge(graph, cx, node, &pending, &last).is_some() => {
                pending.sizes.pop();
                pending.sizes.push(one);
            }
            _ => pending.sizes.push(last),
        }
        self.keep(output, output, pending);
    }

    /// Records a sum that may move on; `planned` is the value that represented it in the plan.
    fn keep(&mut self, planned: Value, sum: Value, pending: Pending) {
        match self.staying.contains(&planned) {
            true => drop(self.staying.insert(sum)),
            false => drop(self.sums.insert(sum, pending)),
        }
    }

    /// Merges a sum with the sum before it.
    fn merge(
        &self,
        graph: &mut Graph,
        cx: &mut PassContext<'_>,
        node: Node,
        before: &Pending,
        last: &Size,
    ) -> Option<()> {
        let inner = graph.definer(graph.input(node, 0))?;
        let first = before.sizes.last()?;
        cx.rewrite(graph, "sums-merged", node, |graph| {
            graph_update!("%{} is summed once", graph.name(graph.output(node, 0)));
            let size = merged_size(graph, inner, node, first, last);
            let operand = graph.input(inner, 0);
            graph.set_input(node, 0, operand);
            graph.set_input(node, 1, size);
            erase_unread(graph, vec![inner]);
        })
    }

    /// Moves the sums among the operands of a node after the node.
    fn pass(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
        let Ok(Some(found)) = self.carrier(graph).passable(node, &self.sums) else { return };
        let Passable { rule, operands, pending } = found;
        let output = graph.output(node, 0);
        let small = self.extents.extent(graph, output);
        let Some(sum) = cx.rewrite(graph, rule, node, |graph| {
            graph_update!(
                "Moving the sum %{} past %{}",
                graph.name(graph.input(node, operands[0])),
                graph.name(output)
            );
            exchange(graph, node, &operands, &pending)
        }) else {
            return;
        };
        // The value before the sum has no other reader.
        self.extents.learn(sum, small);
        self.keep(output, sum, pending);
    }

    /// Merges equal sums.
    fn share(&self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let mut seen: FxHashMap<(Value, Value), Value> = FxHashMap::default();
        let known = |node: &Node| is_sum(graph, *node) && self.sums.contains_key(&graph.output(*node, 0));
        let nodes: Vec<Node> = graph.nodes(block).filter(known).collect();
        for node in nodes {
            let output = graph.output(node, 0);
            let first = *seen.entry((graph.input(node, 0), graph.input(node, 1))).or_insert(output);
            if first != output {
                cx.rewrite(graph, "sums-shared", node, |graph| {
                    graph_update!("%{} is %{}", graph.name(output), graph.name(first));
                    graph.replace_all_uses(output, first);
                    graph.erase(node);
                });
            }
        }
    }
}

/// The size that two consecutive sums have in one.
fn merged_size(graph: &mut Graph, inner: Node, node: Node, first: &Size, last: &Size) -> Value {
    let [before, size] = [inner, node].map(|node| graph.input(node, 1));
    let list = |graph: &Graph, value: Value, i| graph.definer(value).map(|node| graph.input(node, i));
    match (first, last) {
        (_, Size::Nothing) => before,
        _ if first.is(last) => before,
        (Size::Of(_), Size::Unless(..)) => list(graph, size, 0).unwrap_or(size),
        (Size::Unless(..), Size::Unless(..)) => {
            let lists = [list(graph, size, 0), list(graph, before, 1)].map(|list| list.unwrap_or(size));
            let ty = graph.ty(size);
            let compared = graph.create_op(Symbol::new("aten::_size_if_not_equal"), &lists, ty);
            graph.insert_before(node, compared);
            graph.output(compared, 0)
        }
        _ => size,
    }
}

/// Moves the sums before a node after it; returns the last of them.
fn exchange(graph: &mut Graph, node: Node, operands: &[usize], pending: &Pending) -> Value {
    let output = graph.output(node, 0);
    let mut made: Vec<Node> = Vec::new();
    for &i in operands {
        let mut value = graph.input(node, i);
        for _ in &pending.sizes {
            let sum = graph.definer(value).expect("a chain of sums has one node per size");
            made.push(sum);
            value = graph.input(sum, 0);
        }
        graph.set_input(node, i, value);
    }
    let ty = graph.ty(output);
    graph.set_type(output, whole_type(ty, &pending.whole));
    let (mut last, mut value) = (node, output);
    for &sum in made[..pending.sizes.len()].iter().rev() {
        let size = graph.input(sum, 1);
        let copy = graph.create_op(graph.kind(sum), &[value, size], ty.erased());
        graph.insert_after(last, copy);
        graph.copy_location(sum, copy);
        (last, value) = (copy, graph.output(copy, 0));
    }
    graph.set_type(value, ty);
    let first = graph.next(node);
    graph.replace_uses_if(output, value, |graph, u| Some(graph.user(u)) != first);
    graph.move_name(output, value);
    erase_unread(graph, made);
    value
}

/// The type before the sum, where the type of the sum is known.
fn whole_type(ty: Type, whole: &Extent) -> Type {
    let Some(tensor) = ty.as_tensor() else { return ty };
    let sizes = whole.dims.as_deref().map(Box::from);
    Type::new(TypeKind::Tensor(TensorType { sizes, strides: Strides::Unknown, ..tensor.clone() }))
}

/// Erases sums without readers, the last ones first.
fn erase_unread(graph: &mut Graph, sums: Vec<Node>) {
    let mut gone: FxHashSet<Node> = FxHashSet::default();
    for sum in sums {
        if !gone.contains(&sum) && !graph.has_uses(graph.output(sum, 0)) {
            graph.erase(sum);
            gone.insert(sum);
        }
    }
}
