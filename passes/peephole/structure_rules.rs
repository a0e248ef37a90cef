//! Rules about branches, optionals and casts.

use super::{Edit, Facts, Known, New, Rule, forward, result};
use jitopt_core::ir::{Node, Value};
use jitopt_core::symbol::prim;
use jitopt_core::types::{Simple, Type, TypeKind};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule::new("if-true-false", &["prim::If"], "(true if c else false) = c", |facts, node| {
        flag_of_branches(facts, node, true).map(|(i, condition)| Edit::Output(i, New::Value(condition)))
    }),
    Rule::new("if-false-true", &["prim::If"], "(false if c else true) = not c", |facts, node| {
        let (i, condition) = flag_of_branches(facts, node, false)?;
        Some(Edit::Output(i, New::Op("aten::__not__", vec![New::Value(condition)], Type::bool())))
    })
    .known(Known::Nowhere),
    Rule::new("if-optional", &["prim::If"], "(a : T if c else b : T) : T, not T?", refined_optional)
        .known(Known::Since(1, 11)),
    Rule::new(
        "is-none",
        &["aten::__is__", "aten::__isnot__"],
        "(x is None) = false, when the type of x does not include None",
        none_check,
    ),
    Rule::new(
        "unwrap",
        &["aten::_unwrap_optional", "prim::unchecked_unwrap_optional"],
        "unwrap(x) = x, when the type of x does not include None",
        |facts, node| {
            let [x] = facts.operands(node)?;
            facts.is_never_none(x).then(|| forward(x))?
        },
    ),
    Rule::new(
        "cast-to-supertype",
        &["prim::unchecked_cast"],
        "cast(x : S, T) = x, when S is a subtype of T",
        |facts, node| {
            let [x] = facts.operands(node)?;
            facts.ty(x).is_subtype_of(facts.output_type(node)?).then(|| forward(x))?
        },
    ),
    Rule::new("none-value", &[], "a value of type NoneType is None", none_value).known(Known::Since(1, 6)),
    Rule::new("not-not", &["aten::__not__"], "not not b = b", |facts, node| {
        let [negated] = facts.operands(node)?;
        let [b] = facts.operands(facts.made_by(negated, "aten::__not__")?)?;
        facts.is(b, Simple::Bool).then(|| forward(b))?
    })
    .known(Known::Nowhere),
];

/// An output of an If that is `first` when the condition is true and the opposite when it is false.
fn flag_of_branches(facts: &Facts<'_>, node: Node, first: bool) -> Option<(usize, Value)> {
    let (graph, [condition]) = (facts.graph, facts.operands(node)?);
    if graph.num_blocks(node) != 2 || !facts.is(condition, Simple::Bool) {
        return None;
    }
    let mut results = graph.results(graph.node_block(node, 0)).zip(graph.results(graph.node_block(node, 1)));
    let found = results.position(|(a, b)| facts.bool(a) == Some(first) && facts.bool(b) == Some(!first))?;
    // A value without uses would match again endlessly.
    let outputs: Vec<Value> = graph.outputs(node).collect();
    let output = outputs.get(found).copied()?;
    if graph.has_uses(output) {
        return Some((found, condition));
    }
    let later = (found + 1..outputs.len()).find(|&i| {
        let result = |block| graph.results(graph.node_block(node, block)).nth(i).and_then(|value| facts.bool(value));
        result(0) == Some(first) && result(1) == Some(!first) && graph.has_uses(outputs[i])
    });
    later.map(|i| (i, condition))
}

fn refined_optional(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let graph = facts.graph;
    if graph.num_blocks(node) != 2 {
        return None;
    }
    let results = graph.results(graph.node_block(node, 0)).zip(graph.results(graph.node_block(node, 1)));
    graph.outputs(node).zip(results).enumerate().find_map(|(i, (output, (a, b)))| {
        let TypeKind::Optional(inner) = facts.ty(output).kind() else { return None };
        let joined = (facts.is_never_none(a) && facts.is_never_none(b)).then(|| facts.ty(a).join(facts.ty(b)))??;
        let better = joined.is_subtype_of(*inner) && !matches!(joined.kind(), TypeKind::Optional(_));
        better.then_some(Edit::Retype(i, joined))
    })
}

/// None is None is left to constant propagation, as in PyTorch.
fn none_check(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let [a, b] = facts.operands(node)?;
    let decided = facts.is_none(a) && facts.is_never_none(b) || facts.is_none(b) && facts.is_never_none(a);
    let differs = facts.graph.kind(node).as_str() == "aten::__isnot__";
    decided.then(|| result(New::bool(differs)))?
}

fn none_value(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let graph = facts.graph;
    if graph.kind(node) == prim::CONSTANT {
        return None;
    }
    let found = graph.outputs(node).position(|output| facts.is(output, Simple::None) && graph.has_uses(output))?;
    Some(Edit::Output(found, New::Constant(None, Type::none())))
}
