//! Removes guards after operators whose operands determine the properties of the result.
//!
//! ```text
//! %1 : Float(2, 3) = prim::Guard(%x)              %1 : Float(2, 3) = prim::Guard(%x)
//! %a : Tensor = aten::mul(%1, %1)           =>    %a : Float(2, 3) = aten::mul(%1, %1)
//! %2 : Float(2, 3) = prim::Guard(%a)
//! ```
//!
//! Runs from the end to the start, so that operands are still guarded when a guard is visited. Only
//! guards and constants may stand between the operator and the guard: a write in between could
//! change the tensor. For the same reason no operand may change its shape between its guard and the
//! operator.

use super::reshapings::Reshapings;
use super::{is_guard, replace};
use jitopt_core::analysis::inference::{contradicts, is_complete};
use jitopt_core::graph_update;
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops::guard_rules::{Settled, settled};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{aten, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type, TypeKind};

pub(super) fn run(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let reshapings = Reshapings::of(graph, cx.alias(graph));
    let mut guards = Vec::new();
    for block in graph.all_blocks() {
        // The last node that was neither a guard nor a constant.
        let mut previous = graph.param_node(block);
        for node in graph.nodes(block) {
            if is_guard(graph, node) {
                guards.push((node, previous));
            } else if graph.kind(node) != prim::CONSTANT {
                previous = node;
            }
        }
    }
    // Guards in blocks come after those before the block, and before those after it: the order of
    // all blocks may differ, but the facts that make a guard redundant never come from inside a
    // node that it follows.
    for (guard, previous) in guards.into_iter().rev() {
        if let Err(why) = eliminate(graph, cx, &reshapings, guard, previous) {
            cx.missed(graph, "guards-eliminated", guard, || why);
        }
    }
}

fn eliminate(
    graph: &mut Graph,
    cx: &mut PassContext<'_>,
    reshapings: &Reshapings,
    guard: Node,
    previous: Node,
) -> Result<(), String> {
    let (value, output) = (graph.input(guard, 0), graph.output(guard, 0));
    let maker = graph.definer(value).filter(|&maker| maker == previous || is_guard(graph, maker));
    let maker =
        maker.ok_or_else(|| "other nodes stand between it and the definition of the tested value".to_owned())?;
    if graph.kind(maker) == prim::PARAM {
        return Err("the tested value is defined outside of the block".to_owned());
    }
    let sight = Sight { graph, reshapings };
    sight.is_settled(maker, guard)?;
    let (written, tested) = (graph.ty(value), graph.ty(output));
    let exact = match (tested.is_subtype_of(written), written.is_subtype_of(tested)) {
        (true, _) => tested,
        (_, true) => written,
        _ => return Err(format!("inference gives {written}, which contradicts the guard")),
    };
    if contradicts(graph, maker, value, exact) {
        return Err(format!("operands of these types do not give {exact}"));
    }
    cx.rewrite(graph, "guards-eliminated", guard, |graph| {
        graph_update!("%{} is {exact} without a guard", graph.name(value));
        replace(graph, guard, value);
        graph.set_type(value, exact);
    });
    Ok(())
}

/// The analyses of a graph that guards are checked against.
#[derive(Clone, Copy)]
struct Sight<'a> {
    graph: &'a Graph,
    reshapings: &'a Reshapings,
}

impl Sight<'_> {
    /// Ok when the known types of the operands determine the tested properties of `node`'s result;
    /// otherwise the reason why not.
    fn is_settled(self, node: Node, guard: Node) -> Result<(), String> {
        let graph = self.graph;
        let kind = graph.kind(node);
        let unsettled = |i: usize| {
            Err(format!("operand {i} of `{kind}`, %{}, is not determined", graph.name(graph.input(node, i))))
        };
        let first_that = |wrong: &dyn Fn(usize) -> bool| (0..graph.num_inputs(node)).find(|&i| wrong(i));
        let found = match settled(graph.era, kind) {
            None => return Err(format!("the result of `{kind}` may vary")),
            Some(Settled::ByOperands { numbers, free, free_for_floats }) => {
                let is_free = |i: usize| self.is_free(node, i, free, free_for_floats);
                first_that(&|i| !is_free(i) && !self.is_checked(graph.input(node, i), node, numbers))
            }
            Some(Settled::ByFirst) => first_that(&|i| match i {
                0 => !self.is_known(graph.input(node, 0), node),
                _ => !is_constant(graph, graph.input(node, i)),
            }),
            Some(Settled::ByList) => return self.is_list_settled(node),
            Some(Settled::ByChunks) => return self.are_chunks_settled(node),
            Some(Settled::BySizes) => match self.is_checked(graph.input(node, 0), node, false) {
                true => (!self.are_sizes_settled(graph.input(node, 1))).then_some(1),
                false => Some(0),
            },
            Some(Settled::ByBlock) => return self.is_formula_settled(node, guard),
            Some(Settled::Undefined) => return is_undefined(graph, guard),
            Some(Settled::Itself) => {
                let reshaped = self.reshapings.between(graph, graph.input(guard, 0), guard);
                return if reshaped { Err("it may have changed its shape since".to_owned()) } else { Ok(()) };
            }
        };
        found.map_or(Ok(()), unsettled)
    }

    /// Whether an operand may be anything.
    fn is_free(self, node: Node, i: usize, free: &[usize], free_for_floats: &[usize]) -> bool {
        let graph = self.graph;
        let reals = graph.num_inputs(node) > 0 && holds_floats(graph.ty(graph.input(node, 0)));
        let tensor = may_be_tensor(graph.ty(graph.input(node, i)));
        let is_free = free.contains(&i) && (graph.era == Era::V1_3 || !tensor);
        is_free || free_for_floats.contains(&i) && reals && !tensor
    }

    /// A constant, a guard with a complete type, or a scalar.
    fn is_checked(self, value: Value, reader: Node, numbers: bool) -> bool {
        let ty = self.graph.ty(value);
        let guarded = || {
            let guard = self.graph.definer(value).filter(|&node| is_guard(self.graph, node));
            guard.is_some() && self.is_known(value, reader)
        };
        let number = [Simple::Int, Simple::Float, Simple::Bool].into_iter().any(|simple| ty.is(simple));
        is_constant(self.graph, value) || numbers && number || guarded()
    }

    /// Whether all type facts that the text of the era can express are known of a tensor, and still
    /// hold where it is read.
    fn is_known(self, value: Value, reader: Node) -> bool {
        let reshaped = || self.reshapings.between(self.graph, value, reader);
        is_known(self.graph.era, self.graph.ty(value)) && !reshaped()
    }

    /// `aten::cat` of a list that is constructed directly before it.
    fn is_list_settled(self, node: Node) -> Result<(), String> {
        let graph = self.graph;
        let list = graph.prev(node).filter(|&list| graph.kind(list) == prim::LIST_CONSTRUCT);
        let list = list.filter(|&list| graph.definer(graph.input(node, 0)) == Some(list));
        let list = list.ok_or_else(|| "its list is not constructed directly before it".to_owned())?;
        if !graph.inputs(node).skip(1).all(|value| is_constant(graph, value)) {
            return Err("its dimension is not constant".to_owned());
        }
        match graph.inputs(list).find(|&value| !self.is_checked(value, list, false)) {
            Some(value) => Err(format!("the size of the list element %{} is not known", graph.name(value))),
            None => Ok(()),
        }
    }

    /// `prim::ListUnpack` of `aten::chunk`, whose list has no other reader.
    fn are_chunks_settled(self, node: Node) -> Result<(), String> {
        let graph = self.graph;
        let list = graph.input(node, 0);
        let chunk = graph.definer(list).filter(|&chunk| graph.kind(chunk) == aten::CHUNK);
        let chunk = chunk.ok_or_else(|| "the unpacked value is not a list of chunks".to_owned())?;
        if graph.single_use(list).is_none() {
            return Err("the list of chunks has other readers".to_owned());
        }
        match graph.inputs(chunk).find(|&value| !self.is_checked(value, chunk, false)) {
            Some(value) => Err(format!("%{} is not determined", graph.name(value))),
            None => Ok(()),
        }
    }

    /// A constant, or `aten::size` of a tensor whose sizes are all known.
    fn are_sizes_settled(self, value: Value) -> bool {
        let graph = self.graph;
        let size = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::size");
        let of_known = |node: Node| graph.num_inputs(node) == 1 && self.is_known(graph.input(node, 0), node);
        is_constant(graph, value) || size.is_some_and(of_known)
    }

    /// The results of the block of a gradient formula, when it runs: it does not where no gradient
    /// is defined.
    fn is_formula_settled(self, node: Node, guard: Node) -> Result<(), String> {
        let graph = self.graph;
        let is_defined = |gradient| self.is_checked(gradient, node, false) && !is_constant(graph, gradient);
        if !graph.inputs(node).any(is_defined) {
            return Err("possibly no gradient is defined".to_owned());
        }
        let index = graph.output_index(graph.input(guard, 0));
        let returned = graph.results(graph.node_block(node, 0)).nth(index);
        match returned.is_some_and(|returned| self.is_known(returned, guard)) {
            true => Ok(()),
            false => Err("the result of the formula is not determined".to_owned()),
        }
    }
}

/// Whether an undefined tensor satisfies a guard.
fn is_undefined(graph: &Graph, guard: Node) -> Result<(), String> {
    let tested = graph.ty(graph.output(guard, 0));
    match tested == Type::tensor() || tested.as_tensor().is_some_and(|tensor| tensor.undefined == Some(true)) {
        true => Ok(()),
        false => Err("it is undefined".to_owned()),
    }
}

fn is_constant(graph: &Graph, value: Value) -> bool {
    graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT)
}

/// Whether a type has all facts that the text of the era can express.
fn is_known(era: Era, ty: Type) -> bool {
    let Some(tensor) = ty.as_tensor() else { return false };
    let complete = is_complete(tensor, era);
    complete && (era == Era::V1_3 || tensor.requires_grad.is_some())
}

fn holds_floats(ty: Type) -> bool {
    ty.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(|dtype| dtype.is_float())
}

fn may_be_tensor(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Optional(inner) => inner.is_tensor(),
        _ => ty.is_tensor(),
    }
}
