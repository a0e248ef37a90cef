//! Rules about scalars that are not tensors. Ints wrap around; floats have NaN and two zeros.

use super::facts::Number;
use super::{Edit, Facts, Known, New, Rule, forward, result};
use jitopt_core::ir::{Node, Value};
use jitopt_core::types::{Simple, Type, TypeKind};

/// The rules.
pub const RULES: &[Rule] = &[
    number("constant-right", &["aten::add", "aten::mul"], "2 + i = i + 2, 2 · i = i · 2", |facts, node| {
        let [a, b] = ints(facts, node)?;
        let only_left = facts.int(a).is_some() && facts.int(b).is_none();
        only_left.then(|| Edit::Operands(vec![(0, New::Value(b)), (1, New::Value(a))]))
    }),
    number("int-neutral", &["aten::add", "aten::sub"], "i + 0 = i - 0 = i", |facts, node| {
        let [i, zero] = ints(facts, node)?;
        (facts.int(zero)? == 0).then(|| forward(i))?
    })
    .known(Known::Since(1, 11)),
    // `i / 1` is not among them: its result is a float.
    number("int-unit", &["aten::mul", "aten::floordiv"], "i · 1 = i // 1 = i", |facts, node| {
        let [i, one] = ints(facts, node)?;
        (facts.int(one)? == 1).then(|| forward(i))?
    }),
    number("int-chain", &["aten::add", "aten::sub"], "(i ± a) ± b = i ± (a ± b), in integers that wrap around", chain),
    number(
        "equal-to-itself",
        &["aten::eq", "aten::ne"],
        "(x == x) = true for ints, bools and lists of them: a float may be NaN",
        |facts, node| {
            let [a, b] = facts.operands(node)?;
            let decided = a == b && facts.output_type(node)?.is(Simple::Bool) && is_reflexive(facts.ty(a), false);
            let equal = facts.graph.kind(node).as_str() == "aten::eq";
            decided.then(|| result(New::bool(equal)))?
        },
    ),
    number("equal-text", &["aten::eq", "aten::ne"], "(s == s) = true for strings and lists of them", |facts, node| {
        let [a, b] = facts.operands(node)?;
        let decided = a == b && facts.output_type(node)?.is(Simple::Bool) && is_reflexive(facts.ty(a), true);
        let equal = facts.graph.kind(node).as_str() == "aten::eq";
        decided.then(|| result(New::bool(equal)))?
    })
    .known(Known::Nowhere),
    number("int-less-itself", &["aten::sub"], "i - i = 0", |facts, node| {
        let [a, b] = ints(facts, node)?;
        (a == b).then(|| result(New::int(0)))?
    })
    .known(Known::Nowhere),
    number("int-times-zero", &["aten::mul"], "i · 0 = 0", |facts, node| {
        let [_, zero] = ints(facts, node)?;
        (facts.int(zero)? == 0).then(|| forward(zero))?
    })
    .known(Known::Nowhere),
    number("float-unit", &["aten::mul", "aten::div"], "f · 1.0 = f / 1.0 = f", |facts, node| {
        let [f, one] = floats(facts, node)?;
        facts.number(one).is_some_and(Number::is_one).then(|| forward(f))?
    })
    .known(Known::Nowhere),
    number("float-less-zero", &["aten::sub"], "f - 0.0 = f, for a zero that is not -0.0", |facts, node| {
        let [f, zero] = floats(facts, node)?;
        let zero = facts.number(zero).filter(|zero| zero.is_zero())?;
        (!zero.is_negative_zero()).then(|| forward(f))?
    })
    .known(Known::Nowhere),
];

const fn number(
    name: &'static str,
    kinds: &'static [&'static str],
    law: &'static str,
    find: fn(&Facts<'_>, Node) -> Option<Edit>,
) -> Rule {
    Rule::new(name, kinds, law, find).group("numbers").known(Known::Since(1, 10))
}

/// The operands of an operator on two ints that returns one.
fn ints(facts: &Facts<'_>, node: Node) -> Option<[Value; 2]> {
    let all: [Value; 2] = facts.operands(node)?;
    let fits = all.iter().all(|&value| facts.is(value, Simple::Int)) && facts.output_type(node)?.is(Simple::Int);
    fits.then_some(all)
}

fn floats(facts: &Facts<'_>, node: Node) -> Option<[Value; 2]> {
    let all: [Value; 2] = facts.operands(node)?;
    let fits = all.iter().all(|&value| facts.is(value, Simple::Float)) && facts.output_type(node)?.is(Simple::Float);
    fits.then_some(all)
}

/// ```text
/// %a : int = aten::add(%i, %5)    =>    %b : int = aten::sub(%i, %-4)
/// %b : int = aten::sub(%a, %1)
/// ```
fn chain(facts: &Facts<'_>, node: Node) -> Option<Edit> {
    let [inner, b] = ints(facts, node)?;
    let made = facts.made_by(inner, "aten::add").or_else(|| facts.made_by(inner, "aten::sub"))?;
    let ([i, a], b) = (ints(facts, made)?, facts.int(b)?);
    let a = facts.int(a)?;
    let same = facts.graph.kind(made) == facts.graph.kind(node);
    // With two signs: i + a - b = i - (b - a), and i - a + b = i + (b - a).
    let both = if same { b.wrapping_add(a) } else { b.wrapping_sub(a) };
    Some(Edit::Operands(vec![(0, New::Value(i)), (1, New::int(both))]))
}

/// Whether every value of this type equals itself.
fn is_reflexive(ty: Type, texts: bool) -> bool {
    match ty.kind() {
        TypeKind::Simple(Simple::Int | Simple::Bool) => !texts,
        TypeKind::Simple(Simple::Str) => texts,
        TypeKind::Simple(Simple::Float) => false,
        TypeKind::List(element) => matches!(element.kind(), TypeKind::Simple(_)) && is_reflexive(*element, texts),
        _ => false,
    }
}
