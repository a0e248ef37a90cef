//! Removes guards behind operators of which the operands settle what comes out.
//!
//! ```text
//! %1 : Float(2, 3) = prim::Guard(%x)              %1 : Float(2, 3) = prim::Guard(%x)
//! %a : Tensor = aten::mul(%1, %1)           =>    %a : Float(2, 3) = aten::mul(%1, %1)
//! %2 : Float(2, 3) = prim::Guard(%a)
//! ```
//!
//! From the end to the start: what an operator is given is still guarded then. Only guards and constants may stand between the operator and the
//! guard: what writes in between could make it another tensor.

use super::{is_guard, replace};
use jitopt_core::analysis::inference::{contradicts, is_complete};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops::guard_rules::{Settled, settled};
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::{aten, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{Simple, Type, TypeKind};
use jitopt_core::{graph_update, planted};

pub(super) fn run(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let mut guards = Vec::new();
    for block in graph.all_blocks() {
        // The last node that was neither a guard nor a constant.
        let mut behind = graph.param_node(block);
        for node in graph.nodes(block) {
            if is_guard(graph, node) {
                guards.push((node, behind));
            } else if graph.kind(node) != prim::CONSTANT {
                behind = node;
            }
        }
    }
    // Guards in blocks come behind those in front of the block, and before those behind it: the order of all blocks may be
    // another, but what settles a guard is never inside of what it stands behind.
    for (guard, behind) in guards.into_iter().rev() {
        if let Err(why) = eliminate(graph, cx, guard, behind) {
            cx.missed(graph, "guards-eliminated", guard, || why);
        }
    }
}

fn eliminate(graph: &mut Graph, cx: &mut PassContext<'_>, guard: Node, behind: Node) -> Result<(), String> {
    let (value, output) = (graph.input(guard, 0), graph.output(guard, 0));
    let maker = graph.definer(value).filter(|&maker| maker == behind || is_guard(graph, maker));
    let maker = maker.ok_or_else(|| "other nodes stand between it and the definition of what it tests".to_owned())?;
    if graph.kind(maker) == prim::PARAM {
        return Err("what it tests comes from outside".to_owned());
    }
    is_settled(graph, maker, value)?;
    let (written, tested) = (graph.ty(value), graph.ty(output));
    let exact = match (tested.is_subtype_of(written), written.is_subtype_of(tested)) {
        (true, _) => tested,
        (_, true) => written,
        _ => return Err(format!("{written}, which is written of it, is something else")),
    };
    if contradicts(graph, maker, value, exact) {
        return Err(format!("operands of these types do not make {exact}"));
    }
    cx.rewrite(graph, "guards-eliminated", guard, |graph| {
        graph_update!("%{} is {exact} without a test", graph.name(value));
        replace(graph, guard, value);
        graph.set_type(value, exact);
    });
    Ok(())
}

/// Nothing, when what is known of the operands settles what `node` makes; else why not.
fn is_settled(graph: &Graph, node: Node, value: Value) -> Result<(), String> {
    let kind = graph.kind(node);
    let unsettled =
        |i: usize| Err(format!("operand {i} of `{kind}`, %{}, is not settled", graph.name(graph.input(node, i))));
    let first_that = |wrong: &dyn Fn(usize) -> bool| (0..graph.num_inputs(node)).find(|&i| wrong(i));
    let found = match settled(graph.era, kind) {
        None => return Err(format!("what `{kind}` makes may differ")),
        Some(Settled::ByOperands { numbers, free, free_for_reals }) => {
            let reals = graph.num_inputs(node) > 0 && holds_reals(graph.ty(graph.input(node, 0)));
            let is_free = |i: usize| {
                free.contains(&i)
                    || free_for_reals.contains(&i) && reals && !may_be_tensor(graph.ty(graph.input(node, i)))
            };
            let is_free = |i: usize| planted!("guards.free", is_free(i), "second" => is_free(i) || i == 1);
            first_that(&|i| !is_free(i) && !is_checked(graph, graph.input(node, i), numbers))
        }
        Some(Settled::ByFirst) => first_that(&|i| match i {
            0 => !is_known(graph.era, graph.ty(graph.input(node, 0))),
            _ => !is_constant(graph, graph.input(node, i)),
        }),
        Some(Settled::ByList) => return is_list_settled(graph, node),
        Some(Settled::ByChunks) => return are_chunks_settled(graph, node),
        Some(Settled::BySizes) => match is_checked(graph, graph.input(node, 0), false) {
            true => (!are_sizes_settled(graph, graph.input(node, 1))).then_some(1),
            false => Some(0),
        },
        Some(Settled::ByBlock) => {
            let returned = graph.results(graph.node_block(node, 0)).nth(graph.output_index(value));
            let known = returned.is_some_and(|returned| is_known(graph.era, graph.ty(returned)));
            return if known { Ok(()) } else { Err("what the formula returns is not settled".to_owned()) };
        }
        Some(Settled::Itself) => None,
    };
    found.map_or(Ok(()), unsettled)
}

/// A constant, a guard that says everything, or a number.
fn is_checked(graph: &Graph, value: Value, numbers: bool) -> bool {
    let ty = graph.ty(value);
    let guarded = || graph.definer(value).is_some_and(|node| is_guard(graph, node)) && is_known(graph.era, ty);
    let number = [Simple::Int, Simple::Float, Simple::Bool].into_iter().any(|simple| ty.is(simple));
    is_constant(graph, value) || numbers && number || guarded()
}

fn is_constant(graph: &Graph, value: Value) -> bool {
    graph.definer(value).is_some_and(|node| graph.kind(node) == prim::CONSTANT)
}

/// Whether everything is known of a tensor that the text of its era can say.
fn is_known(era: Era, ty: Type) -> bool {
    let Some(tensor) = ty.as_tensor() else { return false };
    let complete = planted!("guards.complete", is_complete(tensor, era), "rank" => tensor.sizes.is_some());
    complete && (era == Era::V1_3 || tensor.requires_grad.is_some())
}

fn holds_reals(ty: Type) -> bool {
    ty.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(|dtype| dtype.is_float())
}

fn may_be_tensor(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Optional(inner) => inner.is_tensor(),
        _ => ty.is_tensor(),
    }
}

/// `aten::cat` of a list that is made directly in front of it.
fn is_list_settled(graph: &Graph, node: Node) -> Result<(), String> {
    let list = graph.prev(node).filter(|&list| graph.kind(list) == prim::LIST_CONSTRUCT);
    let list = list.filter(|&list| graph.definer(graph.input(node, 0)) == Some(list));
    let list = list.ok_or_else(|| "its list is not made directly in front of it".to_owned())?;
    if !graph.inputs(node).skip(1).all(|value| is_constant(graph, value)) {
        return Err("its dimension is not constant".to_owned());
    }
    match graph.inputs(list).find(|&value| !is_checked(graph, value, false)) {
        Some(value) => Err(format!("%{} of its list is not settled", graph.name(value))),
        None => Ok(()),
    }
}

/// `prim::ListUnpack` of `aten::chunk`, whose list nobody else sees.
fn are_chunks_settled(graph: &Graph, node: Node) -> Result<(), String> {
    let list = graph.input(node, 0);
    let chunk = graph.definer(list).filter(|&chunk| graph.kind(chunk) == aten::CHUNK);
    let chunk = chunk.ok_or_else(|| "what is unpacked is no list of chunks".to_owned())?;
    if graph.single_use(list).is_none() {
        return Err("others see the list of chunks".to_owned());
    }
    match graph.inputs(chunk).find(|&value| !is_checked(graph, value, false)) {
        Some(value) => Err(format!("%{} is not settled", graph.name(value))),
        None => Ok(()),
    }
}

/// A constant, or `aten::size` of a tensor of which all sizes are known.
fn are_sizes_settled(graph: &Graph, value: Value) -> bool {
    let size = graph.definer(value).filter(|&node| graph.kind(node).as_str() == "aten::size");
    let of_known = |node: Node| graph.num_inputs(node) == 1 && is_known(graph.era, graph.ty(graph.input(node, 0)));
    is_constant(graph, value) || size.is_some_and(of_known)
}
