//! Checks of rows: what is blank, and what contradicts the schemas or another fact.

use super::Fact::{Has, No};
use super::vocabulary::INTEGRAL;
use super::{Computation, Error, Fact, Operands, Rank, Row};
use crate::ops::gradient_table::FUNCTION;
use crate::ops::gradient_table::notation::{self, Role};
use crate::ops::operator;
use crate::ops::rules::{AliasRule, DECLARED};
use crate::ops::schema::Schema;
use crate::ops::shape_rules::Element;
use crate::symbol::Symbol;
use crate::types::era::Era;
use crate::types::{Type, TypeKind};

/// The facts of a row, by the names of their fields.
pub(crate) const FIELDS: [&str; 9] =
    ["shape", "computation", "fusion", "gradient", "guard", "accuracy", "semantics", "python", "operands"];

/// A shorter text is no reason.
const SHORTEST_REASON: usize = 10;

/// The row without one of its facts, for a reason: an empty one, as if its field had not been
/// written.
pub fn without(row: &Row, field: &str, reason: &'static str) -> Row {
    let mut row = *row;
    match field {
        "shape" => row.shape = No(reason),
        "computation" => row.computation = No(reason),
        "fusion" => row.fusion = No(reason),
        "gradient" => row.gradient = No(reason),
        "guard" => row.guard = No(reason),
        "accuracy" => row.accuracy = No(reason),
        "semantics" => row.semantics = No(reason),
        "python" => row.python = No(reason),
        "operands" => row.operands = No(reason),
        _ => {}
    }
    row
}

/// The errors of a row, a line each: `aten::mish: gradient: …`.
pub fn complaints(row: &Row) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |field: &str, what: String| all.push(format!("{}: {field}: {what}", row.kind));
    for (field, reason) in reasons(row) {
        if reason.is_some_and(|reason| reason.len() < SHORTEST_REASON) {
            say(field, "the row has neither the fact nor a reason why there is none".to_owned());
        }
    }
    let schemas = schemas(row.kind);
    if schemas.is_empty() {
        say("kind", "no list of schemas has it".to_owned());
    }
    shape(row, &schemas, &mut say);
    accuracy(row, &mut say);
    fusion(row, &schemas, &mut say);
    gradient(row, &schemas, &mut say);
    semantics(row, &schemas, &mut say);
    operands(row, &schemas, &mut say);
    all
}

/// The reason of each fact that a row lacks.
fn reasons(row: &Row) -> [(&'static str, Option<&'static str>); FIELDS.len()] {
    fn reason<T>(fact: &Fact<T>) -> Option<&'static str> {
        if let No(reason) = fact { Some(reason) } else { None }
    }
    [
        ("shape", reason(&row.shape)),
        ("computation", reason(&row.computation)),
        ("fusion", reason(&row.fusion)),
        ("gradient", reason(&row.gradient)),
        ("guard", reason(&row.guard)),
        ("accuracy", reason(&row.accuracy)),
        ("semantics", reason(&row.semantics)),
        ("python", reason(&row.python)),
        ("operands", reason(&row.operands)),
    ]
}

/// Whether a row has a reason in the place of a fact.
#[cfg(test)]
pub(super) fn lacks(row: &Row, field: &str) -> bool {
    reasons(row).iter().any(|(name, reason)| *name == field && reason.is_some())
}

/// The overloads of a kind in all lists.
fn schemas(kind: &str) -> Vec<&'static Schema> {
    let operator = operator(Era::V2, Symbol::new(kind));
    operator.schemas.iter().chain(operator.elsewhere()).collect()
}

fn is_list_of_tensors(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::List(element) if element.is_tensor())
}

/// Operators that make tensors without a rule, and write to none.
const UNINFERRED: &[&str] =
    &["aten::_dim_arange", "aten::igamma", "aten::igammac", "aten::special_erfcx", "prim::AutogradZero", "prim::Guard"];

/// Each rule is for some overload, and each overload of 2.15 that makes a tensor has a rule.
fn shape(row: &Row, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    let makes = |schema: &&Schema| schema.returns.iter().any(|result| result.ty.is_tensor()) && !schema.is_writing();
    let Has(rules) = row.shape else {
        let makes_list = |schema: &&Schema| schema.returns.iter().any(|result| is_list_of_tensors(result.ty));
        let is_written = row.kind.ends_with('_') && !row.kind.ends_with("__");
        if !is_written
            && schemas.iter().any(|schema| makes(schema) || makes_list(schema))
            && !UNINFERRED.contains(&row.kind)
        {
            say("shape", "it makes a tensor, and nothing infers its type".to_owned());
        }
        return;
    };
    if rules.is_empty() {
        say("shape", "there is no rule".to_owned());
    }
    for formal in rules.iter().flat_map(|rule| rule.own_names().chain(rule.formal())) {
        if schemas.iter().all(|schema| schema.formal(formal).is_none()) {
            say("shape", format!("no overload has the formal `{formal}`"));
        }
    }
    // No graph has dimensions with names, or Python's `einsum` of tensors and lists in turn.
    let is_named = |schema: &&Schema| schema.vararg || schema.overload.contains("Dimname");
    let newest = operator(Era::V2, Symbol::new(row.kind)).schemas.iter();
    for schema in newest.filter(makes).filter(|schema| !is_named(schema)) {
        if !rules.iter().any(|rule| rule.formal().is_none_or(|name| schema.formal(name).is_some())) {
            say("shape", format!("there is no rule for `{}.{}`", schema.kind, schema.overload));
        }
    }
}

/// Each operator errs by something, or by nothing: results that are no floating point numbers are
/// exact.
fn accuracy(row: &Row, say: &mut dyn FnMut(&str, String)) {
    let Has(accuracy) = row.accuracy else {
        return say("accuracy", "error budgets need to know how much it errs".to_owned());
    };
    let is_no_float = |element| matches!(element, Element::Bool | Element::Flag | Element::Long | Element::Places);
    let rules = row.shape.known().unwrap_or_default();
    let is_float = rules.iter().any(|rule| !is_no_float(rule.element)) && !matches!(row.gradient, No(INTEGRAL));
    let is_for_integers = !row.formulas().is_empty() && row.formulas().iter().all(|formula| formula.float.is_empty());
    if (!is_float && !rules.is_empty() || is_for_integers) && accuracy.error != Error::Exact {
        say("accuracy", "its results are no floating point numbers, and so exact".to_owned());
    }
}

/// An operator that fuses has a formula, and an operator with a formula states whether it fuses.
fn fusion(row: &Row, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    for fused in row.fusion.known().unwrap_or_default() {
        for overload in fused.overloads {
            if schemas.iter().all(|schema| schema.overload != *overload) {
                say("fusion", format!("there is no overload `{overload}`"));
            }
        }
        let computed = match (fused.reduces, fused.slides) {
            (true, _) => !row.recipes().is_empty(),
            (_, true) => row.window().is_some(),
            _ => !row.formulas().is_empty(),
        };
        if fused.untaken.is_none() && !computed && row.kind != RANDOM {
            say("computation", "a fuser level takes it, and there is neither formula nor recipe".to_owned());
        }
    }
    let named = |reduces: bool| row.fusion.known().unwrap_or_default().iter().any(|fused| fused.reduces == reduces);
    if !row.recipes().is_empty() && !named(true) {
        say("fusion", "it has a recipe, and no fuser level takes it".to_owned());
    }
    if !row.formulas().is_empty() && !named(false) {
        say("fusion", "it has a formula, and nothing says which fuser level takes it, or why none".to_owned());
    }
    let slides = row.fusion.known().unwrap_or_default().iter().any(|fused| fused.slides);
    if row.window().is_some() && !slides {
        say("fusion", "it has a window, and no fuser level takes it".to_owned());
    }
    if let Has(Computation::Formulas([]) | Computation::Recipes([])) = row.computation {
        say("computation", "there is neither formula nor recipe".to_owned());
    }
}

/// The only operator that kernels compute without a formula.
const RANDOM: &str = "aten::rand_like";

/// Formulas can be read, and are those of operands that an overload has.
fn gradient(row: &Row, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    for (head, text) in row.gradient.known().unwrap_or_default() {
        let body = match notation::body(text) {
            Ok(body) => body,
            Err(why) => {
                say("gradient", format!("{why} in `{text}`"));
                continue;
            }
        };
        if head.starts_with(FUNCTION) {
            continue;
        }
        let names = body.lines.iter().filter(|line| line.role == Role::Grad).flat_map(|line| &line.names);
        for name in names {
            if schemas.iter().all(|schema| schema.formal(name).is_none()) {
                say("gradient", format!("no overload has the operand `{name}`"));
            }
        }
        let is_flat = head.split_whitespace().any(|word| word == "none");
        if is_flat != body.lines.is_empty() {
            say("gradient", format!("`{head}` has no formula, or one that is none"));
        }
    }
}

/// Facts must name operands and overloads that exist, and not repeat their schemas.
fn semantics(row: &Row, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    let Has(rule) = row.semantics else { return };
    if rule == DECLARED {
        say("semantics", "it states nothing".to_owned());
    }
    let has_overload = |name: &&str| schemas.iter().any(|schema| schema.overload == *name);
    let named = rule.linear.map_or(&[][..], |linear| linear.overloads);
    if let Some(name) = named.iter().find(|name| !has_overload(name)) {
        say("semantics", format!("there is no overload `{name}`"));
    }
    if let AliasRule::MayReturn(operand) | AliasRule::PointsTo(operand) = rule.alias
        && schemas.iter().all(|schema| schema.formals.len() <= operand && !schema.vararg)
    {
        say("semantics", format!("no overload has an operand {operand}"));
    }
}

/// An operator that fuses occurs in random groups, with a letter for each operand.
fn operands(row: &Row, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    let Has(operands) = row.operands else {
        return say("operands", "tests need to know how it is called".to_owned());
    };
    hints(&operands, schemas, say);
    let is_fused = row.fusion.known().unwrap_or_default().iter().any(|fused| fused.untaken.is_none());
    if is_fused && operands.drawn.is_empty() && operands.undrawn.len() < SHORTEST_REASON {
        say("operands", "random groups have no operands for it, although it is fused".to_owned());
    }
    for pattern in operands.drawn {
        let fits = |schema: &&Schema| pattern.len() <= schema.formals.len();
        if let Some(letter) = pattern.chars().find(|letter| !LETTERS.contains(*letter)) {
            say("operands", format!("`{letter}` in `{pattern}` stands for no operand"));
        } else if !schemas.iter().any(fits) {
            say("operands", format!("no overload has as many operands as `{pattern}`"));
        }
    }
    for words in operands.called.iter().chain(operands.shaped) {
        let count = words.split_whitespace().count();
        if schemas.iter().all(|schema| schema.formals.len() != count) {
            say("operands", format!("no overload has as many operands as `{words}`"));
        }
    }
}

/// Hints are about operands that an overload has.
fn hints(operands: &Operands, schemas: &[&Schema], say: &mut dyn FnMut(&str, String)) {
    let has = |name: &str| schemas.iter().any(|schema| schema.formal(name).is_some());
    for hint in operands.hints {
        let list = if let Some(Rank::Listed(list, _)) = hint.rank { list } else { hint.formal };
        for name in [hint.formal, list].into_iter().filter(|name| !has(name)) {
            say("operands", format!("no overload has the operand `{name}`"));
        }
        if hint.rank.is_none() && hint.elements.is_none() {
            say("operands", format!("there is no hint about `{}`", hint.formal));
        }
    }
}

/// The letters of [`super::Operands::drawn`].
const LETTERS: &str = "ton1cbdfz=rwp";

#[cfg(test)]
mod tests {
    use super::super::{FAMILIES, row, rows};
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_row_has_its_facts_and_none_contradicts_another() {
        let all: Vec<String> = rows().flat_map(complaints).collect();
        assert!(all.is_empty(), "{}", all.join("\n"));
        assert!(rows().count() > 300 && FAMILIES.iter().all(|family| !family.rows.is_empty()));
    }

    #[test]
    fn a_row_without_any_one_fact_is_reported_by_its_name() {
        for row in rows() {
            for field in FIELDS {
                let found = complaints(&without(row, field, ""));
                let names = |line: &String| line.starts_with(&format!("{}: {field}: ", row.kind));
                assert!(found.iter().any(names), "{} without {field}: {found:?}", row.kind);
            }
        }
    }

    #[test]
    fn contradictions_are_reported() {
        let mish = *row(Symbol::new("aten::mish")).expect("it has a row");
        let report = |row: Row| complaints(&row).join("; ");
        let no = "for a test of this file";
        assert!(report(Row { kind: "aten::mush", ..mish }).contains("no list of schemas"));
        assert!(report(Row { computation: No(no), ..mish }).contains("neither formula nor recipe"));
        assert!(report(Row { gradient: Has(&[("2", "grad other = g")]), ..mish }).contains("`other`"));
        assert!(report(Row { gradient: Has(&[("2", "grad self = g +")]), ..mish }).contains("gradient"));
        assert!(report(Row { gradient: Has(&[("2 none", "grad self = g")]), ..mish }).contains("one that is none"));
        let Has(operands) = mish.operands else { panic!("mish is drawn") };
        let with = |drawn| Row { operands: Has(Operands { drawn, ..operands }), ..mish };
        assert!(report(with(&[])).contains("although it is fused"));
        assert!(report(with(&["x"])).contains("no operand"));
        assert!(report(with(&["ttt"])).contains("as many operands"));
    }

    #[test]
    fn a_kind_has_one_row() {
        let mut seen = BTreeSet::new();
        assert!(rows().all(|row| seen.insert(row.kind)), "a kind has two rows");
    }

    /// A row that takes a field from another row could lack it unnoticed.
    #[test]
    fn rows_write_every_field() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops/rows");
        let mut files = 0;
        for entry in fs::read_dir(folder).expect("the folder of the rows") {
            let path = entry.expect("an entry").path();
            if path.to_string_lossy().ends_with("_rows.rs") {
                files += 1;
                let text = fs::read_to_string(&path).expect("a text");
                assert!(!text.lines().any(|line| line.trim_start().starts_with("..")), "{}", path.display());
            }
        }
        assert_eq!(files, FAMILIES.len());
    }
}
