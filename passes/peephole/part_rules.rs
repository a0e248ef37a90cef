//! Rules about lists of the parts of a tensor: a read of one part becomes a slice of the tensor.

use super::tensor_rules::wrapped;
use super::{Edit, Facts, Known, New, Rule, result};
use jitopt_core::ir::{Node, Value};

/// The rules.
pub const RULES: &[Rule] = &[
    part("item-of-unbind", "x.unbind(d)[1] = x.select(d, 1)", |facts, node| {
        let ([_, index], made) = taken(facts, node, &["aten::unbind"])?;
        let [x, dim] = facts.operands(made)?;
        let place = New::int(facts.int(index)?);
        result(New::Op("aten::select", vec![New::Value(x), New::Value(dim), place], facts.output_type(node)?))
    }),
    part("item-of-chunk", "x.chunk(2)[1] = x[2:4], where the size of x is 4", |facts, node| {
        let ([_, index], made) = taken(facts, node, &["aten::chunk", "aten::unsafe_chunk"])?;
        let [_, chunks, _] = facts.operands(made)?;
        let (chunks, size) = (facts.int(chunks).filter(|&chunks| chunks > 0)?, size(facts, made)?);
        slice(facts, node, made, index, (size + chunks - 1) / chunks)
    }),
    part("item-of-split", "x.split(2)[1] = x[2:4], where the size of x is 4", |facts, node| {
        let ([_, index], made) = taken(facts, node, &["aten::split", "aten::unsafe_split"])?;
        let [_, each, _] = facts.operands(made)?;
        slice(facts, node, made, index, facts.int(each)?)
    }),
];

const fn part(name: &'static str, law: &'static str, find: fn(&Facts<'_>, Node) -> Option<Edit>) -> Rule {
    Rule::new(name, &["aten::__getitem__"], law, find).group("lists").known(Known::Nowhere)
}

/// The operands of a node that reads an element of a list, and the node that created the list,
/// which did not change since.
fn taken(facts: &Facts<'_>, node: Node, kinds: &[&str]) -> Option<([Value; 2], Node)> {
    let operands: [Value; 2] = facts.operands(node)?;
    let made = kinds.iter().find_map(|kind| facts.made_by(operands[0], kind))?;
    (!facts.is_written(operands[0])).then_some((operands, made))
}

/// The number of elements in the dimension that a tensor is divided in; at least one, because the
/// parts of an empty dimension follow no rule.
fn size(facts: &Facts<'_>, made: Node) -> Option<i64> {
    let [x, _, dim] = facts.operands(made)?;
    let sizes = facts.sizes(x)?;
    let size = sizes[wrapped(facts.int(dim)?, sizes.len())?];
    (size > 0).then_some(size)
}

/// A part of a given number of elements, or of the remainder.
fn slice(facts: &Facts<'_>, node: Node, made: Node, index: Value, each: i64) -> Option<Edit> {
    let [x, _, dim] = facts.operands(made)?;
    let size = size(facts, made).filter(|_| each > 0)?;
    let count = usize::try_from((size + each - 1) / each).ok()?;
    let begin = wrapped(facts.int(index)?, count)? as i64 * each;
    let bounds = [begin, (begin + each).min(size), 1].map(New::int);
    let operands = [New::Value(x), New::Value(dim)].into_iter().chain(bounds).collect();
    result(New::Op("aten::slice", operands, facts.output_type(node)?))
}
