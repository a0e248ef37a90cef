//! Rules that combine two operators into a larger one.

use super::container_rules::elements;
use super::{Edit, Facts, Known, New, Rule, result};
use crate::fuse_addmm;
use jitopt_core::ir::{Node, Value};
use jitopt_core::symbol::prim;
use jitopt_core::types::era::Era;
use jitopt_core::types::{DType, Type};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule::new(
        "cat-of-cat",
        &["aten::cat"],
        "cat([a, cat([b, c], d)], d) = cat([a, b, c], d), when all have one element type and are not written to",
        cat_of_cat,
    )
    .group("cats")
    .known(Known::Since(1, 11)),
    Rule::new(
        "add-of-mm",
        &["aten::add"],
        "c + a·b = addmm(c, a, b), when the sum has the shape of the product and one element type",
        |facts, node| {
            let side = |side| Some((side, fuse_addmm::product(facts.graph, facts.db, node, side, false)?));
            let (side, mm) = (facts.graph.num_inputs(node) == 3).then(|| side(0).or_else(|| side(1)))??;
            let factors = facts.graph.inputs(mm).map(New::Value);
            let summand = New::Value(facts.operand(node, 1 - side)?);
            let operands = [summand].into_iter().chain(factors).chain([New::int(1), New::int(1)]).collect();
            result(New::Op("aten::addmm", operands, facts.output_type(node)?))
        },
    )
    .shapes()
    .known(Known::Option("addmm")),
];

fn cat_of_cat(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let [list, dim] = facts.operands(node)?;
    let (outer, dim) = (elements(facts, list)?, facts.int(dim)?);
    let mut all = Vec::new();
    let mut inner = 0;
    for &part in &outer {
        match flattened(facts, part, dim) {
            Some(parts) => {
                inner += 1;
                all.extend(parts);
            }
            None => all.push(part),
        }
    }
    // Repeated parts may grow exponentially.
    let grows = all.len() > MOST_PARTS;
    let joined = inner > 0 && !grows && has_one_dtype(facts, &all);
    let list = New::Op("prim::ListConstruct", all.into_iter().map(New::Value).collect(), facts.ty(list));
    joined.then(|| Edit::Operands(vec![(0, list)]))
}

const MOST_PARTS: usize = 4096;

/// The parts of a nested concatenation, when it is along this dimension, has no other reader, and
/// nothing of it is written to.
fn flattened(facts: &Facts<'_>, part: Value, dim: i64) -> Option<Vec<Value>> {
    let cat = facts.made_by(part, "aten::cat").filter(|_| facts.graph.single_use(part).is_some())?;
    let [list, along] = facts.operands(cat)?;
    let along = facts.int(along)? == dim;
    let parts = elements(facts, list).filter(|_| along && facts.graph.kind(cat) != prim::CONSTANT)?;
    let quiet = !facts.is_written(part) && !parts.iter().any(|&value| facts.is_written(value));
    quiet.then_some(parts)
}

/// In 1.3 `aten::cat` accepts tensors of one element type only; in later versions the inner
/// concatenation could round a part.
fn has_one_dtype(facts: &Facts<'_>, parts: &[Value]) -> bool {
    let first = parts.first().and_then(|&value| facts.dtype(value));
    let known = first.is_some_and(|dtype: DType| parts.iter().all(|&value| facts.dtype(value) == Some(dtype)));
    let trusted = facts.trusting || facts.graph.era == Era::V1_3;
    (known || trusted) && parts.iter().all(|&value| facts.ty(value) != Type::none())
}
