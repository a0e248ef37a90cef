//! The column of the operator table for gradients.
//!
//! Formulas are text in the rows of [`super::rows`], and so may be functions that they call; those
//! that several operators share stand in `ops/gradients.txt` and the files next to it. Its head
//! defines the format of both, [`notation`] that of formulas.
//!
//! Parsing a formula creates nodes in PyTorch's order, so that recorded backward graphs compare
//! equal.
//!
//! Halves have their own formulas, rows with the word `halves`. Eager mode has one kernel for some
//! gradients, which computes in float and rounds once, and composes others, rounding after each
//! operator. The formulas of PyTorch's executors have the same value but round elsewhere: in
//! float16 `other * other` overflows above 255 where `self / other / other` does not. `AD_float`
//! reads the element type at run time, from a list, so that no branch prevents a second derivative.
//! Graphs of floats keep their text, and so do untyped graphs that are not made for a run, whose
//! text is compared with PyTorch's: on halves they round as PyTorch's own graphs do. Formulas of
//! 1.3 have no such rows: up to 1.4 PyTorch computes nothing in halves on the CPU (21 operators
//! were tried with 1.3.1 and 1.4.0; each raises "not implemented for 'Half'"), so there is no
//! gradient of eager mode to match. `tools/pytorch/half_gradients.py` shows which operators eager
//! mode runs, and records its results at both ends of the range;
//! `tools/opt/tests/suite/half_gradients.rs` compares.
//!
//! Gradients differ by release: a row or a function holds `from` a release on and `until` a
//! release, within its era. `tools/pytorch/gradient_probe.py` computes gradients at ties, bounds,
//! zeros, infinities and NaN in each release. If the releases between two probed ones were not run,
//! the boundary is the first release for which the later gradient was observed. The boundary of
//! `cosine_similarity`, whose norms lose their bound between 1.13 and 2.7, is set to 2.0.

pub mod notation;

use super::rows::rows;
use super::schema::Schema;
use crate::symbol::Symbol;
use crate::types::Type;
use crate::types::era::Era;
use crate::types::release::Release;
use crate::types::spelling::parse_all;
use notation::Body;
use rustc_hash::FxHashMap;
use std::sync::{LazyLock, OnceLock};

/// The first word of the head of a function.
pub(crate) const FUNCTION: &str = "def ";

/// The functions that formulas call.
const TABLE: &str = concat!(
    include_str!("gradients.txt"),
    include_str!("gradients_of_ours.txt"),
    include_str!("gradients_of_losses.txt"),
    include_str!("gradients_of_layers.txt"),
    include_str!("gradients_of_matrices.txt"),
    include_str!("gradients_of_statistics.txt"),
    include_str!("gradients_of_gradients.txt")
);

/// The gradient of some overloads.
#[derive(Debug, Default)]
pub struct GradientRow {
    /// The eras in which PyTorch differentiates them by a formula.
    eras: Vec<Era>,
    /// The eras in which the formula is ours alone.
    ours: Vec<Era>,
    /// The releases of these eras in which the formula holds.
    releases: Span,
    /// Whether only `differentiate{eager}` takes the formula.
    is_eager: bool,
    /// Whether they return views of their operand.
    pub is_view: bool,
    /// Whether the formula rounds as eager mode does in halves, and is taken where operands are
    /// halves or may be.
    is_for_halves: bool,
    /// Whether the formula is for complex numbers, and is taken where types show that there are
    /// some.
    is_for_complex: bool,
    /// Whether the formula holds for complex numbers, too.
    is_linear: bool,
    /// Whether there is no gradient.
    pub is_flat: bool,
    /// The operands that must be constants.
    pub fixed: Vec<&'static str>,
    /// The operand that must not be the constant false.
    pub trained: Option<&'static str>,
    formula: Text,
}

/// A function that formulas call.
#[derive(Debug)]
pub struct Function {
    /// The names of its operands.
    pub formals: Vec<&'static str>,
    /// Their types.
    pub types: Vec<Type>,
    eras: Vec<Era>,
    releases: Span,
    body: Text,
}

/// A range of releases: all of them, where no bound is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    /// The first release.
    from: Option<Release>,
    /// The first release after them.
    until: Option<Release>,
}

impl Span {
    fn covers(self, release: Release) -> bool {
        self.from.is_none_or(|from| from <= release) && self.until.is_none_or(|until| release < until)
    }

    /// Reads `from=1.10` or `until=1.10`; false if the word is neither.
    fn read(&mut self, word: &str) -> bool {
        let bound = |text: &str| Some(text.parse().expect("a release is written as `--torch` reads it"));
        match word.split_once('=') {
            Some(("from", text)) => self.from = bound(text),
            Some(("until", text)) => self.until = bound(text),
            _ => return false,
        }
        true
    }
}

/// A text that is parsed at first use.
#[derive(Debug, Default)]
struct Text {
    text: &'static str,
    body: OnceLock<Body>,
}

impl Text {
    fn body(&self) -> &Body {
        let read = || notation::body(self.text).unwrap_or_else(|why| panic!("{why} in the formula\n{}", self.text));
        self.body.get_or_init(read)
    }
}

impl GradientRow {
    /// Whether the row needs no special condition, such as halves.
    fn is_plain(&self) -> bool {
        !self.is_eager && !self.is_for_halves && !self.is_for_complex
    }

    /// Whether there is a formula, PyTorch's or ours, in a release.
    fn holds_in(&self, release: Release) -> bool {
        let era = release.era();
        (self.eras.contains(&era) || self.ours.contains(&era)) && self.releases.covers(release)
    }

    /// The formula; without lines where there is no gradient.
    pub fn formula(&self) -> &Body {
        self.formula.body()
    }
}

impl Function {
    /// Its lines and results.
    pub fn body(&self) -> &Body {
        self.body.body()
    }
}

/// A kind with an overload name, and the formal that distinguishes two of that name.
#[derive(Debug)]
struct Key {
    overload: &'static str,
    formal: Option<&'static str>,
}

impl Key {
    fn fits(&self, schema: &Schema) -> bool {
        self.overload == schema.overload && self.formal.is_none_or(|formal| schema.formal(formal).is_some())
    }
}

#[derive(Default)]
struct Table {
    rows: FxHashMap<Symbol, Vec<(Key, &'static GradientRow)>>,
    functions: FxHashMap<&'static str, Vec<Function>>,
}

/// The row of an overload, where PyTorch has a formula for it in that release.
pub(crate) fn gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    find(schema, |row| row.eras.contains(&release.era()) && row.releases.covers(release) && row.is_plain())
}

/// The row of an overload that has a formula in that release, PyTorch's or one of ours.
pub fn any_gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    find(schema, |row| row.holds_in(release) && row.is_plain())
}

/// The row of eager mode's gradient, also where it is infinite or NaN; else that of
/// [`any_gradient_row`].
pub fn eager_gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    find(schema, |row| row.is_eager && row.holds_in(release)).or_else(|| any_gradient_row(release, schema))
}

/// The row that rounds as eager mode does in halves; else that of eager mode.
pub fn half_gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    own_half_gradient_row(release, schema).or_else(|| eager_gradient_row(release, schema))
}

/// The row for operands that may be halves, where there is one.
pub fn own_half_gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    find(schema, |row| row.is_for_halves && row.holds_in(release))
}

/// The row for complex operands or results: one of their own, or one that holds for them, too.
pub fn complex_gradient_row(release: Release, schema: &Schema) -> Option<&'static GradientRow> {
    let own = find(schema, |row| row.is_for_complex && row.holds_in(release));
    own.or_else(|| any_gradient_row(release, schema).filter(|row| row.is_linear || row.is_flat))
}

fn find(schema: &Schema, wanted: impl Fn(&GradientRow) -> bool) -> Option<&'static GradientRow> {
    let rows = ALL.rows.get(&schema.kind)?;
    rows.iter().find(|(key, row)| key.fits(schema) && wanted(row)).map(|(_, row)| *row)
}

/// All kinds that have a row, sorted.
pub fn kinds() -> Vec<Symbol> {
    let mut kinds: Vec<Symbol> = ALL.rows.keys().copied().collect();
    kinds.sort_by_key(|kind| kind.as_str());
    kinds
}

/// The function of this name.
pub fn function(release: Release, name: &str) -> Option<&'static Function> {
    let holds = |function: &&Function| function.eras.contains(&release.era()) && function.releases.covers(release);
    ALL.functions.get(name)?.iter().find(holds)
}

static ALL: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::default();
    let mut rest = TABLE;
    while !rest.is_empty() {
        let (head, tail) = rest.split_once('\n').unwrap_or((rest, ""));
        let indented = |line: &&str| line.starts_with(' ') || line.is_empty();
        let body: usize =
            tail.split_inclusive('\n').take_while(|line| indented(&line.trim_end_matches('\n'))).map(str::len).sum();
        if !head.starts_with('#') && !head.is_empty() {
            table.function(head, Text { text: &tail[..body], body: OnceLock::new() });
        }
        rest = &tail[body..];
    }
    for row in rows() {
        for &(head, text) in row.gradient.known().unwrap_or_default() {
            let text = Text { text, body: OnceLock::new() };
            match head.starts_with(FUNCTION) {
                true => table.function(head, text),
                false => table.of_kind(row.kind, head, text),
            }
        }
    }
    table
});

impl Table {
    /// Adds the function of a head and the lines under it. Anything else is an error in the table,
    /// which a test of this file finds.
    fn function(&mut self, head: &'static str, text: Text) {
        let function = head.strip_prefix(FUNCTION).expect("a formula stands in the row of its operator");
        let (name, rest) = function.split_once('(').expect("a function has operands");
        let (formals, words) = rest.split_once(')').expect("the operands end");
        let all = formals.split(',').map(str::trim);
        let (formals, types) =
            all.map(|one| one.split_once(": ").unwrap_or((one, "Tensor"))).unzip::<_, _, Vec<_>, Vec<_>>();
        let types =
            types.into_iter().map(|ty| parse_all(ty.as_bytes()).expect("a type is written as in graphs")).collect();
        let mut releases = Span::default();
        let eras = words.split_whitespace().filter(|word| !releases.read(word)).filter_map(era).collect();
        self.functions.entry(name).or_default().push(Function { formals, types, eras, releases, body: text });
    }

    /// Adds a row of [`super::rows`], whose head has no kind.
    fn of_kind(&mut self, kind: &str, head: &'static str, text: Text) {
        let (keys, row) = read(head, text);
        let keys = if keys.is_empty() { vec![""] } else { keys };
        let rows = self.rows.entry(Symbol::new(kind)).or_default();
        rows.extend(keys.into_iter().map(|word| (overload(word), row)));
    }
}

/// The overloads of a head, and its row.
fn read(head: &'static str, text: Text) -> (Vec<&'static str>, &'static GradientRow) {
    let (mut keys, mut row) = (Vec::new(), GradientRow { formula: text, ..GradientRow::default() });
    for word in head.split_whitespace() {
        match (era(word), word.strip_prefix('+').and_then(era), word.split_once('=')) {
            (Some(era), ..) => row.eras.push(era),
            (_, Some(era), _) => row.ours.push(era),
            _ if row.releases.read(word) => {}
            (_, _, Some(("fixed", operands))) => row.fixed = operands.split(',').collect(),
            (_, _, Some(("trained", operand))) => row.trained = Some(operand),
            _ if word == "view" => row.is_view = true,
            _ if word == "none" => row.is_flat = true,
            _ if word == "eager" => row.is_eager = true,
            _ if word == "complex" => row.is_for_complex = true,
            _ if word == "linear" => row.is_linear = true,
            _ if word == "halves" => row.is_for_halves = true,
            _ => keys.push(word),
        }
    }
    (keys, Box::leak(Box::new(row)))
}

fn era(word: &str) -> Option<Era> {
    match word {
        "1.3" => Some(Era::V1_3),
        "2" => Some(Era::V2),
        _ => None,
    }
}

/// `.other`, `:device`, or nothing for the overload without a name.
fn overload(word: &'static str) -> Key {
    let (named, formal) = word.split_once(':').map_or((word, None), |(named, formal)| (named, Some(formal)));
    Key { overload: named.strip_prefix('.').unwrap_or(named), formal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::ops::rows::Row;
    use std::collections::BTreeSet;

    #[test]
    fn a_function_has_one_body_in_each_release() {
        let releases: Vec<Release> = ["1.3", "1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10", "1.11", "1.12", "1.13"]
            .into_iter()
            .chain(["2.0", "2.7", "2.8", "2.9", "2.10", "2.13", "2.14", "2.15"])
            .map(|text| text.parse().expect("a release"))
            .collect();
        for (name, bodies) in &ALL.functions {
            for &release in &releases {
                let holds = |body: &&Function| body.eras.contains(&release.era()) && body.releases.covers(release);
                assert!(bodies.iter().filter(holds).count() < 2, "{name} has two bodies in {release:?}");
            }
        }
    }

    #[test]
    fn each_key_is_an_overload_of_each_era_that_its_row_names() {
        assert!(ALL.rows.len() > 90, "the table is read");
        for (kind, keys) in &ALL.rows {
            for (key, row) in keys {
                assert!(!row.eras.is_empty() || !row.ours.is_empty(), "{kind}.{} is in no era", key.overload);
                for &era in row.eras.iter().chain(&row.ours) {
                    let holds = |release: &Release| release.era() == era && row.releases.covers(*release);
                    let release = Release::all().find(holds).expect("a row holds in a release");
                    // Releases between the eras have overloads of the other era, which formulas
                    // call: `index_add` without `alpha`.
                    let operator = ops::operator(era, *kind);
                    let mut schemas = operator.schemas.iter().chain(operator.elsewhere());
                    let find = match (row.is_for_halves, row.is_eager) {
                        _ if row.is_for_complex => complex_gradient_row,
                        (true, _) => half_gradient_row,
                        (_, true) => eager_gradient_row,
                        _ => any_gradient_row,
                    };
                    let fits = |schema: &&Schema| {
                        key.fits(schema) && find(release, schema).is_some_and(|found| std::ptr::eq(found, *row))
                    };
                    let schema = schemas.find(fits);
                    let schema = schema.unwrap_or_else(|| panic!("{kind}.{} is not declared", key.overload));
                    let mut operands = row.fixed.iter().chain(&row.trained);
                    assert!(operands.all(|name| schema.formal(name).is_some()), "{kind}");
                }
            }
        }
    }

    #[test]
    fn formulas_can_be_read() {
        for (key, row) in ALL.rows.values().flatten() {
            assert_eq!(row.formula().lines.is_empty(), row.is_flat, "{key:?}");
        }
        for function in ALL.functions.values().flatten() {
            assert!(!function.eras.is_empty() && !function.body().results.is_empty(), "{:?}", function.formals);
        }
    }
    /// The rows whose gradients call a function, directly or through functions of the table.
    fn callers(name: &str, functions: &[&'static str]) -> BTreeSet<&'static str> {
        let mut names = vec![name];
        let mut seen = 0;
        while seen < names.len() {
            let call = format!("{}(", names[seen]);
            let through =
                functions.iter().filter(|text| text.contains(&call)).filter_map(|text| text.split('(').next());
            let new: Vec<&str> = through.filter(|name| !names.contains(name)).collect();
            names.extend(new);
            seen += 1;
        }
        let calls = |text: &str| names.iter().any(|name| text.contains(&format!("{name}(")));
        let gradients = |row: &Row| row.gradient.known().unwrap_or_default();
        rows().filter(|row| gradients(row).iter().any(|(_, text)| calls(text))).map(|row| row.kind).collect()
    }

    #[test]
    fn functions_apart_from_rows_are_called_by_several_gradients() {
        let functions: Vec<&str> = TABLE.split("\ndef ").skip(1).collect();
        for text in &functions {
            let name = text.split('(').next().unwrap_or_default();
            let kinds = callers(name, &functions);
            assert!(kinds.len() > 1, "{name} is called by the gradients of {kinds:?} only: it belongs in a row");
        }
    }
}
