//! Errors of peephole, constant propagation and similar passes.

use super::finder::Facts;
use crate::entity::EntitySet;
use crate::ir::{Node, Value};
use crate::ops::resolve;
use crate::ops::rules::{AliasRule, Carries, Nondeterminism, Structure};
use crate::ops::schema::{Alias, Schema};
use crate::symbol::prim;
use crate::types::{Dim, Simple, Type, TypeKind};
use crate::verify::{Sink, Spot};

/// `%y : float = aten::div(%i, %one)`
pub(super) fn true_division_by_one(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::div"]) {
        let Some([x, one]) = facts.operands(node) else { continue };
        let ints = facts.ty(x) == Type::int() && facts.ty(one) == Type::int();
        if ints && facts.number(one) == Some(1.0) {
            let (y, x) = (facts.name(facts.graph.output(node, 0)), facts.name(x));
            sink.warning(Spot::Node(node), format!("`{y}` becomes the int `{x}`"));
        }
    }
}

/// `%b : bool = aten::ne(%x, %x)` of floats
pub(super) fn nan_test_folded(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::eq", "aten::ne"]) {
        let Some([x, y]) = facts.operands(node) else { continue };
        if x == y && [Type::simple(Simple::Float), Type::list(Type::simple(Simple::Float))].contains(&facts.ty(x)) {
            let folded = facts.kind(node) == "aten::eq";
            let text = format!(
                "`{}` becomes {folded}, for any value of `{}`",
                facts.name(facts.graph.output(node, 0)),
                facts.name(x)
            );
            sink.warning(Spot::Node(node), text);
        }
    }
}

/// A tensor computed from constants that leaves the graph.
pub(super) fn shared_constant(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    let mut constant: EntitySet<Value> = EntitySet::default();
    for node in facts.graph.all_nodes() {
        let is_constant = facts.graph.kind(node) == prim::CONSTANT;
        if !is_constant && !is_folded(facts, node, &constant) {
            continue;
        }
        for output in facts.graph.outputs(node) {
            constant.insert(output);
            let may_leave = || facts.alias().may_alias_graph_output(output) && may_be_returned(facts, output);
            if !is_constant && facts.ty(output).is_tensor() && may_leave() {
                let text = format!("`{}` is computed once and returned by every call", facts.name(output));
                sink.warning(Spot::Node(node), text);
            }
        }
    }
}

/// `prim::SetAttr[name="a"](%self, %list)`, where the list is computed from constants
pub(super) fn constant_stored(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    let (mut constant, mut made): (EntitySet<Value>, Vec<(Node, Value)>) = Default::default();
    for node in facts.graph.all_nodes() {
        let is_constant = facts.graph.kind(node) == prim::CONSTANT;
        if !is_constant && !is_folded(facts, node, &constant) {
            continue;
        }
        for output in facts.graph.outputs(node) {
            let ty = facts.ty(output);
            let is_container = matches!(ty.kind(), TypeKind::List(_) | TypeKind::Dict(..) | TypeKind::Tuple(_));
            // Constant propagation skips containers that are returned.
            if !is_constant && is_container && may_be_returned(facts, output) {
                continue;
            }
            constant.insert(output);
            if !is_constant && (is_container || ty.is_tensor()) {
                made.push((node, output));
            }
        }
    }
    for (node, output) in made {
        let Some(keeper) = keeper(facts, output, &constant) else { continue };
        let place = match facts.graph.kind(keeper) {
            prim::SET_ATTR => "the attribute of an object".to_owned(),
            kind => format!("the target of `{kind}`"),
        };
        let text = format!("`{}` is created once, and every call stores the same one in {place}", facts.name(output));
        sink.warning(Spot::Node(node), text);
    }
}

/// The node that stores a value where it outlives the run: in an object, or in a list or dict of
/// one; also inside of new containers.
fn keeper(facts: &Facts<'_>, value: Value, constant: &EntitySet<Value>) -> Option<Node> {
    let graph = facts.graph;
    let (mut seen, mut work): (EntitySet<Value>, Vec<Value>) = (EntitySet::default(), vec![value]);
    while let Some(value) = work.pop() {
        if seen.contains(value) {
            continue;
        }
        seen.insert(value);
        for used in graph.uses(value) {
            let (node, index) = (graph.user(used), graph.operand_index(used));
            match facts.operator(node).rule.alias {
                AliasRule::SetAttr if index == 1 => return Some(node),
                AliasRule::FreshContainer => {
                    // Another constant is reported on its own.
                    work.extend(graph.outputs(node).filter(|output| !constant.contains(*output)));
                }
                AliasRule::Schema if is_kept(facts, node, index) => return Some(node),
                _ => {}
            }
        }
    }
    None
}

/// Whether an operator stores an operand in another that came from outside.
fn is_kept(facts: &Facts<'_>, node: Node, index: usize) -> bool {
    let types: Vec<Type> = facts.graph.inputs(node).map(|value| facts.ty(value)).collect();
    let schema = resolve(facts.graph.era, facts.graph.kind(node), &types).schema();
    let kept = |schema: &Schema| schema.formals.get(index)?.alias.as_ref().map(Alias::is_wildcard);
    let from_outside = |value: Value| facts.alias().may_alias_wildcard(value);
    let mut written = schema.into_iter().flat_map(Schema::writes).map(|i| facts.graph.input(node, i));
    schema.and_then(kept) == Some(true) && written.any(from_outside)
}

/// Whether a tensor, or a value that shares its memory or contains it, reaches a result, followed
/// from reader to reader: for the alias analysis a stored value may be anything that is read from a
/// container.
fn may_be_returned(facts: &Facts<'_>, value: Value) -> bool {
    let graph = facts.graph;
    let (mut seen, mut work): (EntitySet<Value>, Vec<Value>) = (EntitySet::default(), vec![value]);
    while let Some(value) = work.pop() {
        if seen.contains(value) {
            continue;
        }
        seen.insert(value);
        for reader in graph.users(value) {
            let block = graph.block_of(reader).filter(|&block| graph.return_node(block) == reader);
            let owner = block.map(|block| graph.owner_node(block));
            let node = match owner {
                Some(None) => return true,
                Some(Some(owner)) => owner,
                None if may_pass_operand_on(facts, reader) => reader,
                None => continue,
            };
            work.extend(graph.outputs(node).filter(|&output| !matches!(facts.ty(output).kind(), TypeKind::Simple(_))));
            work.extend(graph.node_blocks(node).flat_map(|block| graph.params(block).collect::<Vec<_>>()));
        }
    }
    false
}

/// Whether a result of a node may share memory with an operand, or contain it.
fn may_pass_operand_on(facts: &Facts<'_>, node: Node) -> bool {
    let types: Vec<Type> = facts.graph.inputs(node).map(|value| facts.ty(value)).collect();
    let schema = resolve(facts.graph.era, facts.graph.kind(node), &types).schema();
    match facts.operator(node).alias_rule(schema) {
        AliasRule::Fresh | AliasRule::Nothing | AliasRule::BatchNorm { .. } => false,
        AliasRule::Schema => schema
            .is_none_or(|schema| schema.returns.iter().any(|result| result.is_annotated() || !result.ty.is_tensor())),
        _ => true,
    }
}

/// Whether constant propagation evaluates a node while the graph is compiled.
fn is_folded(facts: &Facts<'_>, node: Node, constant: &EntitySet<Value>) -> bool {
    let (graph, operator) = (facts.graph, facts.operator(node));
    let plain = operator.rule.structure == Structure::None && operator.rule.carries == Carries::Nothing;
    plain
        && operator.is_known()
        && operator.is_folded()
        && !operator.has_side_effects()
        && operator.nondeterminism(None) == Nondeterminism::Deterministic
        && !facts.alias().is_writing(node)
        && graph.inputs(node).all(|value| constant.contains(value))
        && !graph.outputs(node).chain(graph.inputs(node)).any(|value| facts.alias().has_writers(value))
}

/// `%r : Tensor = aten::normal(%mean, %std, %sizes, …)` with constant operands
pub(super) fn random_folded(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::normal"]) {
        let from_constants = |value: Value| {
            let list = facts.made_by(value, "prim::ListConstruct");
            let elements = list.map(|list| facts.graph.inputs(list).collect::<Vec<_>>());
            elements.unwrap_or_else(|| vec![value]).into_iter().all(|v| facts.graph.constant(v).is_some())
        };
        if facts.graph.inputs(node).all(from_constants) {
            let text = format!("`{}` is the same in every call", facts.name(facts.graph.output(node, 0)));
            sink.warning(Spot::Node(node), text);
        }
    }
}

/// `%y : Tensor = aten::add(%product, %c, %1)` where types say that `%c` is larger
pub(super) fn product_broadcast(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::add"]) {
        let Some([x, y, alpha]) = facts.operands(node) else { continue };
        if facts.number(alpha) != Some(1.0) {
            continue;
        }
        for (product, summand) in [(x, y), (y, x)] {
            let Some(mm) = facts.made_by(product, "aten::mm") else { continue };
            if broadcasts(facts, mm, summand) {
                let text = format!("`{}` is larger than the product `{}`", facts.name(summand), facts.name(product));
                sink.warning(Spot::Node(node), text);
            }
        }
    }
}

/// Whether types say that a summand does not broadcast to a product.
fn broadcasts(facts: &Facts<'_>, mm: Node, summand: Value) -> bool {
    let sizes = |value: Value| facts.ty(value).as_tensor().and_then(|tensor| tensor.sizes.clone());
    let Some([a, b]) = facts.operands(mm) else { return false };
    let (Some(a), Some(b), Some(c)) = (sizes(a), sizes(b), sizes(summand)) else { return false };
    let ([rows, _], [_, columns]) = (&a[..], &b[..]) else { return false };
    let larger = |of: Option<&Dim>, than: Dim| than == Dim::Known(1) && matches!(of, Some(Dim::Known(n)) if *n != 1);
    let mut last = c.iter().rev();
    c.len() > 2 || larger(last.next(), *columns) || larger(last.next(), *rows)
}
