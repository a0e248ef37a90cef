//! Rows against what PyTorch says of its operators: `ops/observed.txt`, which
//! `tools/pytorch/observe_operators.py` writes. Its header explains the words.
//!
//! A fact that is taken out of a row, for whatever reason, contradicts what was observed, or
//! another fact. The test here takes out each fact of each row in turn.

use super::Fact::{Has, No};
use super::{Error, Row};
use crate::ops::gradient_table::notation::{self, Role};
use crate::ops::guard_rules::Settled;
use crate::ops::operator;
use crate::ops::rules::AliasRule;
use crate::ops::schema::Schema;
use crate::symbol::Symbol;
use crate::types::era::Era;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The observed facts of an overload.
struct Observed {
    overload: &'static str,
    words: Vec<&'static str>,
}

impl Observed {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The list after `word=`.
    fn list(&self, word: &str) -> Vec<&'static str> {
        let found = self.words.iter().find_map(|text| text.strip_prefix(word)?.strip_prefix('='));
        found.map_or_else(Vec::new, |list| list.split(',').collect())
    }
}

/// The overloads of each kind.
static OBSERVED: LazyLock<BTreeMap<&'static str, Vec<Observed>>> = LazyLock::new(|| {
    let mut all: BTreeMap<&str, Vec<Observed>> = BTreeMap::new();
    for line in include_str!("../observed.txt").lines() {
        let mut words = line.split(' ');
        if let Some((kind, overload)) = words.next().and_then(|name| name.split_once('.')) {
            all.entry(kind).or_default().push(Observed { overload, words: words.collect() });
        }
    }
    all
});

/// The observed facts of a kind.
fn observed(kind: &str) -> &'static [Observed] {
    OBSERVED.get(kind).map_or(&[], Vec::as_slice)
}

/// The differences between a row and PyTorch, a line each: `aten::mish: python: …`.
fn contradictions(row: &Row) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |field: &str, what: String| all.push(format!("{}: {field}: {what}", row.kind));
    let is_written = row.kind.ends_with('_') && !row.kind.ends_with("__");
    if is_written || observed(row.kind).is_empty() {
        return all;
    }
    if row.kind.starts_with("aten::") {
        python(row, &mut say);
    }
    accuracy(row, &mut say);
    for seen in observed(row.kind) {
        let mut newest = operator(Era::V2, Symbol::new(row.kind)).schemas.iter();
        let Some(schema) = newest.find(|schema| schema.overload == seen.overload) else { continue };
        if !schema.is_writing() {
            fusion(row, seen, schema, &mut say);
            gradient(row, seen, &mut say);
            guard(row, seen, schema, &mut say);
            semantics(row, seen, schema, &mut say);
        }
    }
    all
}

/// The module of the compiled function.
fn python(row: &Row, say: &mut dyn FnMut(&str, String)) {
    let found = observed(row.kind).iter().find_map(|seen| seen.list("python").first().copied());
    if row.python.known() != found {
        say("python", format!("its function stands in {found:?}"));
    }
}

/// Pointwise overloads are fused, or a row gives the reason.
fn fusion(row: &Row, seen: &Observed, schema: &Schema, say: &mut dyn FnMut(&str, String)) {
    let makes_one = schema.returns.len() == 1 && schema.returns[0].ty.is_tensor();
    let takes_tensor = schema.formals.iter().any(|formal| formal.ty.is_tensor());
    let named = row.fusion.known().unwrap_or_default().iter().any(|fused| fused.overloads.contains(&seen.overload));
    if seen.has("pointwise") && makes_one && takes_tensor && !named {
        say("fusion", format!("`{}` is pointwise, and nothing says which level takes it, or why none", seen.overload));
    }
}

/// Operands that eager mode differentiates without a formula here, which are known: a line for each
/// overload, and the operands.
const MISSING: &str = include_str!("../gradients_missing.txt");

/// The operands that eager mode differentiates and the row does not.
fn undifferentiated(row: &Row, seen: &Observed) -> Vec<&'static str> {
    let formulas = row.gradient.known().unwrap_or_default();
    let of_overload = |head: &str| {
        let names: Vec<&str> = head.split_whitespace().filter_map(|word| word.strip_prefix('.')).collect();
        let is_meant = |name: &&str| name.split(':').next() == Some(seen.overload);
        if names.is_empty() { seen.overload.is_empty() } else { names.iter().any(is_meant) }
    };
    let mut covered = Vec::new();
    for (head, text) in formulas.iter().filter(|(head, _)| of_overload(head)) {
        let lines = notation::body(text).map(|body| body.lines).unwrap_or_default();
        covered.extend(lines.into_iter().filter(|line| line.role == Role::Grad).flat_map(|line| line.names));
        if head.split_whitespace().any(|word| word == "none") {
            covered.clear();
        }
    }
    seen.list("gradient").into_iter().filter(|operand| !covered.contains(operand)).collect()
}

/// An operator that eager mode differentiates has a formula, and one that it does not is marked,
/// too.
fn gradient(row: &Row, seen: &Observed, say: &mut dyn FnMut(&str, String)) {
    let missing = undifferentiated(row, seen);
    let line = format!("{}.{} {}", row.kind, seen.overload, missing.join(","));
    if !missing.is_empty() && !MISSING.lines().any(|known| known == line) {
        say("gradient", format!("eager mode has a gradient for `{}` of `{}`", missing.join("`, `"), seen.overload));
    }
    if let No(reason) = row.gradient
        && !seen.list("ran").is_empty()
        && seen.list("gradient").is_empty()
        && reason == UNSTATED
    {
        say("gradient", format!("there is nothing to differentiate in `{}`: say `none`, or why", seen.overload));
    }
}

/// Guards and profiles.
fn guard(row: &Row, seen: &Observed, schema: &'static Schema, say: &mut dyn FnMut(&str, String)) {
    // Whether dropout is recorded depends on its constant `train`.
    if !seen.has("judged") || row.kind == "aten::dropout" {
        return;
    }
    let known = row.guard.known();
    let rule = known.and_then(|guard| guard.settled());
    if seen.has("settled") && rule.is_none() {
        say("guard", format!("PyTorch takes the guard after `{}` away", seen.overload));
    }
    if matches!(rule, Some(Settled::ByOperands { .. })) && !seen.has("settled") {
        say("guard", format!("PyTorch keeps the guard after `{}`", seen.overload));
    }
    let recorded = known.map(|guard| guard.profiled(schema.overload)).unwrap_or_default();
    if (recorded.operands, recorded.outputs) != (seen.has("operands"), seen.has("outputs")) {
        say("guard", format!("profiled runs record other tensors around `{}`", seen.overload));
    }
}

/// Operators that only moved elements in the observed calls, and round or compute in others.
const COMPUTING: &[&str] = &[
    // Smaller element types.
    "aten::to",
    "aten::_autocast_to_reduced_precision",
    // Other modes than `nearest`.
    "aten::__interpolate",
    "aten::__upsample",
    // Sums, where sizes differ.
    "aten::_grad_sum_to_size",
    // Numbers that are no multiples of the scale.
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
];

/// Overloads that round, of operators that are exact otherwise.
const ROUNDING: &[(&str, &str)] = &[("aten::round", "decimals")];

/// An operator that only moves elements is marked, and one that rounds is not exact.
fn accuracy(row: &Row, say: &mut dyn FnMut(&str, String)) {
    let mut ran = observed(row.kind).iter().filter(|seen| !seen.list("ran").is_empty()).peekable();
    let moves = ran.peek().is_some() && ran.all(|seen| seen.has("moves"));
    let Has(accuracy) = row.accuracy else { return };
    if moves && !accuracy.moves && !COMPUTING.contains(&row.kind) {
        say("accuracy", "it moves elements".to_owned());
    }
    let rounds =
        |seen: &&Observed| seen.has("inexact") && !seen.has("random") && !ROUNDING.contains(&(row.kind, seen.overload));
    if let Some(seen) = observed(row.kind).iter().find(rounds).filter(|_| accuracy.error == Error::Exact) {
        say("accuracy", format!("`{}` rounds", seen.overload));
    }
}

/// Operators whose results share memory with an operand, although PyTorch's alias analysis says
/// that they do not, as their names announce.
const UNSAFE: &[&str] =
    &["aten::_unsafe_view", "aten::unsafe_chunk", "aten::unsafe_split", "aten::unsafe_split_with_sizes"];

/// Results that share memory with an operand are not fresh.
fn semantics(row: &Row, seen: &Observed, schema: &Schema, say: &mut dyn FnMut(&str, String)) {
    for operand in seen.list("shares") {
        let at = schema.formal(operand);
        let is_stated = match row.semantics.known().map(|rule| rule.alias) {
            Some(AliasRule::MayReturn(index) | AliasRule::PointsTo(index)) => Some(index) == at,
            Some(AliasRule::Schema) | None => UNSAFE.contains(&row.kind),
            Some(_) => true,
        };
        if !is_stated {
            say("semantics", format!("the result of `{}` may be `{operand}`", seen.overload));
        }
    }
}

/// Facts that nothing here observes, with the tests that need them.
#[cfg(test)]
const UNOBSERVED: &str = include_str!("../unobserved.txt");

/// The reason in the place of a fact that the test takes out.
const UNSTATED: &str = "no row states this fact";

#[cfg(test)]
mod tests {
    use super::super::checking::FIELDS;
    use super::super::checking::lacks;
    use super::super::{complaints, rows, without};
    use super::*;

    #[test]
    fn rows_match_pytorch() {
        let all: Vec<String> = rows().flat_map(contradictions).collect();
        assert!(all.is_empty(), "{}", all.join("\n"));
    }

    /// The list of known gaps has no line that is not one.
    #[test]
    fn missing_gradients_are_listed() {
        let mut found = Vec::new();
        for row in rows() {
            for seen in observed(row.kind) {
                let missing = undifferentiated(row, seen);
                if !missing.is_empty() {
                    found.push(format!("{}.{} {}", row.kind, seen.overload, missing.join(",")));
                }
            }
        }
        found.sort();
        let listed: Vec<&str> = MISSING.lines().collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn a_fact_that_is_taken_out_is_missed() {
        let mut unnoticed = Vec::new();
        for row in rows() {
            for field in FIELDS.into_iter().filter(|field| !lacks(row, field)) {
                let poorer = without(row, field, UNSTATED);
                if complaints(&poorer).is_empty() && contradictions(&poorer).is_empty() {
                    unnoticed.push(format!("{} {field}", row.kind));
                }
            }
        }
        let listed: Vec<&str> = UNOBSERVED.lines().filter(|line| !line.starts_with('#')).collect();
        let new = unnoticed.iter().filter(|line| !listed.contains(&line.as_str())).map(|line| {
            format!("{line}: nothing notices that it is missing: observe the operator, or list it in unobserved.txt")
        });
        let known = listed
            .iter()
            .filter(|line| !unnoticed.iter().any(|found| found == *line))
            .map(|line| format!("{line}: it is noticed, and listed in unobserved.txt"));
        let wrong: Vec<String> = new.chain(known).collect();
        assert!(wrong.is_empty() && unnoticed == listed, "{}", wrong.join("\n"));
    }
}
