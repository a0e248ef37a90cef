//! Errors of the compiler and the exporters.

use super::finder::Facts;
use crate::ir::Node;
use crate::ops::resolve;
use crate::ops::rules::AliasRule;
use crate::ops::schema::{Formal, Schema};
use crate::types::{DType, Type};
use crate::verify::{Sink, Spot};

/// `%y : Tensor = aten::add(%negated, %number, %1)`
pub(super) fn unsigned_subtraction(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::add", "aten::rsub"]) {
        let Some([x, number, alpha]) = facts.operands(node) else { continue };
        let negated = match facts.kind(node) {
            "aten::rsub" => Some(x),
            _ => facts.made_by(x, "aten::neg").and_then(|neg| facts.graph.inputs(neg).next()),
        };
        let scalar = !facts.ty(number).is_tensor() && facts.number(alpha) == Some(1.0);
        let Some(x) = negated.filter(|&x| scalar && facts.ty(x).is_tensor()) else { continue };
        // Without a type that says so, elements are hardly ever bytes.
        if facts.ty(x).as_tensor().and_then(|tensor| tensor.dtype) == Some(DType::Byte) {
            let text = format!("`-{}` wraps before `{}` is added", facts.name(x), facts.name(number));
            sink.warning(Spot::Node(node), text);
        }
    }
}

/// `%y : Tensor = aten::fmod_(%x, %m)`
pub(super) fn modulo_in_place(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.of_kinds(&["aten::fmod_"]) {
        let Some(x) = facts.graph.inputs(node).next().map(|x| facts.name(x)) else { continue };
        let finding = sink.warning(Spot::Node(node), format!("the remainder has the sign of `{x}`"));
        finding.note = Some("when the program has `%=`".to_owned());
    }
}

/// `%w : Tensor = aten::copy_(%view, %y, %b)`
pub(super) fn write_through_view_lost(facts: &Facts<'_>, sink: &mut Sink<'_, '_>) {
    for node in facts.graph.all_nodes() {
        let name = facts.kind(node);
        let in_place = name.starts_with("aten::") && name.ends_with('_') && !name.ends_with("__");
        if !in_place || facts.graph.num_inputs(node) == 0 || !facts.alias().is_writing(node) {
            continue;
        }
        let written = facts.graph.input(node, 0);
        let Some(view) = facts.graph.definer(written).filter(|&view| is_view(facts, view)) else { continue };
        let (part, whole) = (facts.name(written), facts.name(facts.graph.input(view, 0)));
        sink.warning(Spot::Node(node), format!("`{part}` is a part of `{whole}`, which keeps its old contents"));
    }
}

/// Whether a node creates a tensor from the memory of its first operand, without writing to it.
fn is_view(facts: &Facts<'_>, node: Node) -> bool {
    let (Some(output), true) = (facts.graph.single_output(node), facts.graph.num_inputs(node) > 0) else {
        return false;
    };
    // The alias analysis does not decide this: a fresh tensor that is stored in a container may be
    // anything there.
    let operator = facts.operator(node);
    let types: Vec<Type> = facts.graph.inputs(node).map(|value| facts.ty(value)).collect();
    let schema = resolve(facts.graph.era, facts.graph.kind(node), &types).schema();
    let shares = |schema: &Schema| schema.returns.iter().any(Formal::is_annotated);
    let is_fresh = match operator.alias_rule(schema) {
        AliasRule::Schema => !schema.is_some_and(shares),
        rule => matches!(rule, AliasRule::Fresh | AliasRule::FreshContainer),
    };
    let whole = facts.graph.input(node, 0);
    !is_fresh
        && facts.ty(whole).is_tensor()
        && facts.alias().may_alias(output, whole)
        && !facts.alias().is_writing(node)
}
