//! Rules about lists and dicts that were just constructed, and are not written to.

use super::tensor_rules::wrapped;
use super::{Edit, Facts, Known, New, Rule, forward, result};
use jitopt_core::ir::{Attribute, Node, Value};
use jitopt_core::symbol::prim;
use jitopt_core::types::TypeKind;

/// The rules.
pub const RULES: &[Rule] = &[
    list("length-of-construct", &["aten::len"], "len([a, b]) = 2", |facts, node| {
        let [list] = facts.operands(node)?;
        result(New::int(elements(facts, list)?.len() as i64))
    }),
    list("item-of-construct", &["aten::__getitem__"], "[a, b][1] = b", |facts, node| {
        let [list, index] = facts.operands(node)?;
        let elements = elements(facts, list)?;
        let index = wrapped(facts.int(index)?, elements.len())?;
        forward(elements[index])
    }),
    list("unpack-of-construct", &["prim::ListUnpack"], "the parts of [a, b] are a and b", |facts, node| {
        let [list] = facts.operands(node)?;
        let parts = elements(facts, list)?;
        let used = facts.graph.outputs(node).any(|output| facts.graph.has_uses(output));
        (used && parts.len() == facts.graph.num_outputs(node)).then_some(Edit::Outputs(parts))
    })
    .known(Known::Since(1, 8)),
    list("sum-of-constructs", &["aten::add"], "[a] + [b] = [a, b]", |facts, node| {
        let [a, b] = facts.operands(node)?;
        let (mut all, rest) = (elements(facts, a)?, elements(facts, b)?);
        all.extend(rest);
        construct(facts, node, all)
    })
    .known(Known::Since(1, 8)),
    list("slice-of-construct", &["aten::slice"], "[a, b, c][::2] = [a, c]", |facts, node| {
        let [list, start, end, step] = facts.operands(node)?;
        let all = elements(facts, list)?;
        let bound = |value, default| if facts.is_none(value) { Some(default) } else { facts.int(value) };
        let (start, end, step) = (bound(start, 0)?, bound(end, i64::MAX)?, facts.int(step).filter(|&step| step > 0)?);
        let (start, end) = (clamped(start, all.len()), clamped(end, all.len()));
        let picked = all.get(start..end.max(start))?.iter().step_by(usize::try_from(step).unwrap_or(usize::MAX));
        construct(facts, node, picked.copied().collect())
    })
    .known(Known::Since(1, 10)),
    Rule::new(
        "length-in-branch",
        &["aten::len"],
        "len(l) = 2 where len(l) == 2 is known to be true, or len(l) != 2 false, and l is not written to",
        length_in_branch,
    )
    .group("lists")
    .known(Known::Option("refine-list-len")),
    dict("item-of-dict", &["aten::__getitem__"], "{1: a, 2: b}[2] = b, for distinct constant keys", |facts, node| {
        let [dict, key] = facts.operands(node)?;
        let (entries, key) = (entries(facts, dict)?, facts.graph.constant(key)??);
        let (_, value) = entries.into_iter().find(|(known, _)| known.same_constant(key, None))?;
        forward(value)
    }),
    dict("length-of-dict", &["aten::len"], "len({1: a, 2: b}) = 2, for distinct constant keys", |facts, node| {
        let [dict] = facts.operands(node)?;
        result(New::int(entries(facts, dict)?.len() as i64))
    }),
];

const fn list(
    name: &'static str,
    kinds: &'static [&'static str],
    law: &'static str,
    find: fn(&Facts<'_>, Node) -> Option<Edit>,
) -> Rule {
    Rule::new(name, kinds, law, find).group("lists").known(Known::Since(1, 6))
}

const fn dict(
    name: &'static str,
    kinds: &'static [&'static str],
    law: &'static str,
    find: fn(&Facts<'_>, Node) -> Option<Edit>,
) -> Rule {
    Rule::new(name, kinds, law, find).group("dicts").known(Known::Since(1, 10))
}

/// The elements of a list that was constructed, and did not change since. The elements themselves
/// may be written to.
pub(super) fn elements(facts: &Facts<'_>, list: Value) -> Option<Vec<Value>> {
    let construct = facts.made_by(list, prim::LIST_CONSTRUCT.as_str())?;
    let is_list = matches!(facts.ty(list).kind(), TypeKind::List(_));
    (is_list && !facts.is_written(list)).then(|| facts.graph.inputs(construct).collect())
}

/// A fresh list replaces a fresh list: writes to it go to the new one.
fn construct(facts: &Facts<'_>, node: Node, elements: Vec<Value>) -> Option<Edit> {
    let ty = facts.output_type(node)?;
    result(New::Op("prim::ListConstruct", elements.into_iter().map(New::Value).collect(), ty))
}

/// A bound of a slice, counted from either end and clamped.
fn clamped(bound: i64, len: usize) -> usize {
    let from_start = if bound < 0 { bound.saturating_add(len as i64).max(0) } else { bound };
    usize::try_from(from_start).unwrap_or(len).min(len)
}

/// Keys and values of a dict that was constructed, and did not change since. A float key may be
/// NaN, which equals nothing, and 0.0 equals -0.0: only integer and string keys are supported.
fn entries<'a>(facts: &Facts<'a>, dict: Value) -> Option<Vec<(&'a Attribute, Value)>> {
    let construct = facts.made_by(dict, prim::DICT_CONSTRUCT.as_str())?;
    if facts.is_written(dict) || !facts.graph.num_inputs(construct).is_multiple_of(2) {
        return None;
    }
    let all: Vec<Value> = facts.graph.inputs(construct).collect();
    let mut entries: Vec<(&Attribute, Value)> = Vec::new();
    // Large dicts are skipped, because each lookup is linear in the dict.
    for pair in all.chunks(2).take(MOST_ENTRIES + 1) {
        let key = facts.graph.constant(pair[0])??;
        let exact = matches!(key, Attribute::Int(_) | Attribute::Str(_));
        let known = || entries.iter().any(|(other, _)| other.same_constant(key, None));
        if !exact || known() {
            return None;
        }
        entries.push((key, pair[1]));
    }
    (entries.len() <= MOST_ENTRIES).then_some(entries)
}

const MOST_ENTRIES: usize = 64;

/// The maximal number of enclosing branches that are searched for a condition.
const MOST_BRANCHES: usize = 16;

fn length_in_branch(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let (graph, [list]) = (facts.graph, facts.operands(node)?);
    if !matches!(facts.ty(list).kind(), TypeKind::List(_)) || facts.is_written(list) {
        return None;
    }
    let outwards = std::iter::successors(graph.block_of(node), |&block| graph.block_of(graph.owner_node(block)?));
    outwards.take(MOST_BRANCHES).find_map(|block| {
        let branch = graph.owner_node(block).filter(|&owner| graph.kind(owner) == prim::IF)?;
        let condition = graph.definer(graph.input(branch, 0))?;
        let holds = match graph.kind(condition).as_str() {
            "aten::eq" => 0,
            "aten::ne" => 1,
            _ => return None,
        };
        let here = graph.node_block(branch, holds) == block;
        let [length, n] = facts.operands(condition)?;
        let [of] = facts.operands(facts.made_by(length, "aten::len")?)?;
        (here && of == list).then(|| result(New::int(facts.int(n)?)))?
    })
}
