//! Injected faults: `.mutants` files next to the sources, and the copy of a source that has them.
//!
//! ```text
//! site cse.writers: a value that is written to is computed again
//!     && <|!self.db.node_has_writers(graph, node)|>
//! ignored: true
//! of-operands: graph.inputs(node).all(|v| !self.db.reaches_writers(v))
//! ```
//!
//! A site has a name, one line that says what goes wrong, an anchor and mutants. The anchor is text
//! of the source that occurs once, whatever its blanks and line breaks; `<|…|>` marks the
//! expression that is replaced. In a replacement `<||>` is the marked expression. A replacement may
//! go on in lines of four blanks. Where nothing is marked, `<||>`, a statement is inserted, or any
//! text in which `$on` is the condition that the mutant is active:
//!
//! ```text
//! site types.tuple: a tuple of tensors is mutable
//!     <||>Tuple(_) => tuple(ty.parts()),
//! immutable: Tuple(_) if $on => None,
//! ```
//!
//! `helper: …` is followed by functions that replacements call, `setup: …` by an anchor and a line
//! `text: …` that is inserted without a condition. Lines that begin with `#` are comments;
//! `tests: NAME…` says which tests judge the mutants of the file, see `tools/xtask/src/faults.rs`.

use crate::Tree;
use crate::rust_text::regex;
use regex_lite::Regex;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::LazyLock;

/// The extension of the files.
pub const EXTENSION: &str = ".mutants";
/// The list of those that survive.
pub const SURVIVORS: &str = "tools/mutation/survivors.md";
/// The marks of the replaced expression; also, without anything between them, that expression in a
/// replacement.
const MARKS: (&str, &str) = ("<|", "|>");
const MARKED: &str = "<||>";
/// The condition that a mutant is active, in an inserted text.
const ON: &str = "$on";

/// The kind of an entry of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A decision with wrong alternatives.
    Site,
    /// An inserted text.
    Setup,
    /// Functions at the end of the file.
    Helper,
}

/// A paragraph of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The kind of the entry.
    pub role: Role,
    /// The line of the head, counted from 1.
    pub line: usize,
    /// The name of a site; else empty.
    pub name: String,
    /// The error that the mutant causes.
    pub why: String,
    /// The anchor, or the functions of a helper.
    pub text: String,
    /// The mutants: kind and replacement.
    pub mutants: Vec<(String, String)>,
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// The tests that judge the mutants.
    pub tests: Vec<String>,
    /// The entries, in order.
    pub entries: Vec<Entry>,
}

impl Sheet {
    /// The names of all mutants, `SITE:KIND`; a site at several places has its mutants once.
    pub fn names(&self) -> Vec<String> {
        let sites = self.entries.iter().filter(|entry| entry.role == Role::Site);
        let all = sites.flat_map(|site| site.mutants.iter().map(|(kind, _)| format!("{}:{kind}", site.name)));
        let mut names: Vec<String> = Vec::new();
        for name in all {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Reads a file.
///
/// # Errors
/// The number of a line that is none of the above, and what is wrong with it.
pub fn parse(text: &str) -> Result<Sheet, (usize, String)> {
    static KIND: LazyLock<Regex> = LazyLock::new(|| regex(r"^([a-z0-9][a-z0-9.-]*): (.+)$"));
    let mut sheet = Sheet::default();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(tests) = line.strip_prefix("tests: ") {
            sheet.tests.extend(tests.split_whitespace().map(str::to_owned));
        } else if let Some(entry) = head(line, number) {
            sheet.entries.push(entry);
        } else {
            let entry = sheet.entries.last_mut().ok_or((number, "a text before the first head".to_owned()))?;
            if let Some(more) = line.strip_prefix("    ") {
                let text = entry.mutants.last_mut().map_or(&mut entry.text, |(_, replacement)| replacement);
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(more);
                text.push('\n');
            } else if let Some(parts) = KIND.captures(line) {
                entry.mutants.push((parts[1].to_owned(), parts[2].to_owned()));
            } else {
                return Err((number, "neither a head, `KIND: REPLACEMENT`, nor a line of four blanks".to_owned()));
            }
        }
    }
    for entry in &sheet.entries {
        complete(entry).map_err(|wrong| (entry.line, wrong))?;
    }
    Ok(sheet)
}

fn head(line: &str, number: usize) -> Option<Entry> {
    let (start, why) = line.split_once(": ")?;
    let (role, name) = match start {
        "setup" => (Role::Setup, ""),
        "helper" => (Role::Helper, ""),
        _ => (Role::Site, start.strip_prefix("site ")?),
    };
    let (name, why) = (name.to_owned(), why.trim().to_owned());
    Some(Entry { role, line: number, name, why, text: String::new(), mutants: Vec::new() })
}

fn complete(entry: &Entry) -> Result<(), String> {
    let of_kind = |kind: &str| entry.mutants.iter().filter(|(other, _)| other == kind).count();
    if entry.why.len() < 3 || entry.text.is_empty() {
        return Err("it says not what goes wrong, or where".to_owned());
    }
    if let Some((kind, _)) = entry.mutants.iter().find(|(kind, _)| of_kind(kind) > 1) {
        return Err(format!("`{kind}` occurs twice"));
    }
    match entry.role {
        Role::Site if !entry.name.contains('.') => Err("the name of a site is ROOM.DECISION".to_owned()),
        Role::Site if entry.mutants.is_empty() => Err("it has no mutants".to_owned()),
        Role::Setup if of_kind("text") != 1 || entry.mutants.len() != 1 => Err("it has no `text`".to_owned()),
        Role::Helper if !entry.mutants.is_empty() => Err("a helper has no mutants".to_owned()),
        _ => Ok(()),
    }
}

/// A text without its blanks, and where each of its bytes stood.
struct Solid {
    text: Vec<u8>,
    places: Vec<usize>,
}

impl Solid {
    fn of(text: &str) -> Solid {
        let bytes = text.bytes().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace());
        let (places, text) = bytes.unzip();
        Solid { text, places }
    }

    /// The starts of `wanted`, at most the first two.
    fn find(&self, wanted: &[u8]) -> Vec<usize> {
        self.text
            .windows(wanted.len().max(1))
            .enumerate()
            .filter(|(_, w)| *w == wanted)
            .map(|(at, _)| at)
            .take(2)
            .collect()
    }
}

/// The range of the source that the anchor of an entry marks.
fn place(source: &Solid, anchor: &str) -> Result<Range<usize>, String> {
    let parts = anchor.split_once(MARKS.0).and_then(|(before, rest)| {
        let (marked, after) = rest.split_once(MARKS.1)?;
        Some([before, marked, after].map(|part| Solid::of(part).text))
    });
    let Some([before, marked, after]) = parts else { return Err("the anchor marks nothing".to_owned()) };
    let found = source.find(&[&before[..], &marked, &after].concat());
    let [at] = found[..] else {
        return Err(if found.is_empty() { "the anchor is gone" } else { "the anchor is ambiguous" }.to_owned());
    };
    let start = at + before.len();
    let end = start + marked.len();
    match (marked.is_empty(), source.places.get(start)) {
        (true, Some(&from)) if !after.is_empty() => Ok(from..from),
        (false, Some(&from)) => Ok(from..source.places[end - 1] + 1),
        _ => Err("an insertion stands before some text".to_owned()),
    }
}

/// The source with the mutants in it. `module` is the path of the functions `at` and `is`.
///
/// # Errors
/// The lines of the entries whose anchors are gone or ambiguous, or that overlap in part.
pub fn insert(source: &str, sheet: &Sheet, module: &str) -> Result<String, Vec<(usize, String)>> {
    let solid = Solid::of(source);
    let (mut wrong, mut placed) = (Vec::new(), Vec::new());
    for entry in sheet.entries.iter().filter(|entry| entry.role != Role::Helper) {
        match place(&solid, &entry.text) {
            Ok(range) => placed.push((range, entry)),
            Err(why) => wrong.push((entry.line, why)),
        }
    }
    placed.sort_by_key(|(range, entry)| (range.start, Reverse(range.end), entry.line));
    for (i, (range, entry)) in placed.iter().enumerate() {
        let crosses = |other: &Range<usize>| other.start < range.end && range.end < other.end;
        if placed[i + 1..].iter().any(|(other, _)| crosses(other)) {
            wrong.push((entry.line, "it overlaps another site in part".to_owned()));
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut out = with_sites(source, 0..source.len(), &placed, module);
    for helper in sheet.entries.iter().filter(|entry| entry.role == Role::Helper) {
        out.push('\n');
        out.push_str(&helper.text);
    }
    Ok(out)
}

/// A part of the source with the sites in it, the outer ones first.
fn with_sites(source: &str, part: Range<usize>, placed: &[(Range<usize>, &Entry)], module: &str) -> String {
    let (mut out, mut at, mut rest) = (String::new(), part.start, placed);
    while let Some(((range, entry), later)) = rest.split_first() {
        out.push_str(&source[at..range.start]);
        let inner = later.iter().take_while(|(other, _)| other.start < range.end).count();
        out.push_str(&switch(
            entry,
            &source[range.clone()],
            &with_sites(source, range.clone(), &later[..inner], module),
            module,
        ));
        (at, rest) = (range.end, &later[inner..]);
    }
    out.push_str(&source[at..part.end]);
    out
}

/// The text in place of the marked expression. `inner` is that expression with the sites inside it.
fn switch(entry: &Entry, right: &str, inner: &str, module: &str) -> String {
    let site = &entry.name;
    let alternative = |replacement: &str| replacement.trim_end().replace(MARKED, &format!("({right})"));
    if entry.role == Role::Setup {
        return format!("{} ", entry.mutants[0].1.trim_end());
    }
    if right.is_empty() {
        let insertion = |(kind, text): &(String, String)| {
            let on = format!("{module}::is({site:?}, {kind:?})");
            match text.contains(ON) {
                true => format!("{} ", text.trim_end().replace(ON, &on)),
                false => format!("if {on} {{ {} }} ", text.trim_end()),
            }
        };
        return entry.mutants.iter().map(insertion).collect();
    }
    let arms = entry.mutants.iter().map(|(kind, text)| format!("Some({kind:?}) => {},", alternative(text)));
    format!("(match {module}::at({site:?}) {{ {} _ => {inner} }})", arms.collect::<Vec<_>>().join(" "))
}

/// Every file: its source, and its contents.
pub fn sheets(tree: &Tree) -> impl Iterator<Item = (String, Result<Sheet, (usize, String)>)> {
    let files = tree.texts().filter(|(path, _)| path.ends_with(EXTENSION));
    files.map(|(path, text)| (format!("{}.rs", path.trim_end_matches(EXTENSION)), parse(text)))
}

/// The path of the functions that select mutants, as a source names it.
pub fn module(source: &str) -> &'static str {
    if source.starts_with("src/") { "crate::mutants" } else { "jitopt_core::mutants" }
}

/// The mutants that are known to survive: items of a list, name and reason.
pub fn survivors(list: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in list.lines() {
        if let Some((name, why)) = line.strip_prefix("- `").and_then(|item| item.split_once("`: ")) {
            all.push((name.to_owned(), why.trim().to_owned()));
        } else if let (Some(more), Some((_, why))) = (line.strip_prefix("  "), all.last_mut()) {
            *why = format!("{why} {}", more.trim());
        }
    }
    all
}

/// Files that are not read, anchors that are not in their source once, names that two files have,
/// and survivors that are no mutants.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut names: Vec<(String, String)> = Vec::new();
    for (path, sheet) in sheets(tree) {
        let file = format!("{}{EXTENSION}", path.trim_end_matches(".rs"));
        let mut at = |(line, why): (usize, String)| wrong.push(format!("{file}:{line}: {why}"));
        match (tree.text(&path), sheet) {
            (_, Err(error)) => at(error),
            (None, _) => at((1, "there is no source of this name".to_owned())),
            (Some(source), Ok(sheet)) => {
                insert(source, &sheet, module(&path)).err().into_iter().flatten().for_each(&mut at);
                for name in sheet.names() {
                    if let Some((_, other)) = names.iter().find(|(known, _)| *known == name) {
                        at((1, format!("`{name}` is also in {other}")));
                    }
                    names.push((name, path.clone()));
                }
            }
        }
    }
    let listed = survivors(tree.text(SURVIVORS).unwrap_or_default());
    let unknown = listed
        .into_iter()
        .filter(|(survivor, _)| !survivor.ends_with(":planted") && !names.iter().any(|(name, _)| name == survivor));
    wrong.extend(unknown.map(|(survivor, _)| format!("{SURVIVORS}: there is no mutant `{survivor}`")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: bool) -> bool {\n    g();\n    a\n        && h(a)\n}\n";

    fn inserted(sheet: &str) -> Result<String, Vec<(usize, String)>> {
        insert(SOURCE, &parse(sheet).map_err(|wrong| vec![wrong])?, "m")
    }

    #[test]
    fn replacements_nest_and_statements_are_inserted() {
        let sheet = "# a comment\nsite x.both: one is enough\n    <|a && h(a)|>\nor: a || h(a)\n\n\
            site x.right: h is ignored\n    && <|h(a)|>\nnot: !<||>\n\nsite x.call: g is called twice\n    <||>g();\n\
            twice: g();\nmaybe: if $on {\n    return true }\n";
        let call = "if m::is(\"x.call\", \"twice\") { g(); } if m::is(\"x.call\", \"maybe\") {\nreturn true } ";
        let right = "(match m::at(\"x.right\") { Some(\"not\") => !(h(a)), _ => h(a) })";
        let both = format!("(match m::at(\"x.both\") {{ Some(\"or\") => a || h(a), _ => a\n        && {right} }})");
        let wanted = format!("fn f(a: bool) -> bool {{\n    {call}g();\n    {both}\n}}\n");
        assert_eq!(inserted(sheet), Ok(wanted));
        assert_eq!(
            parse(sheet).map(|sheet| sheet.names()),
            Ok(["x.both:or", "x.right:not", "x.call:twice", "x.call:maybe"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn anchors_that_are_gone_or_ambiguous_are_found() {
        let site = |anchor: &str| format!("site x.y: why\n    {anchor}\nwrong: false\n");
        for (anchor, why) in
            [("<|q|>", "gone"), ("<|a|>", "ambiguous"), ("h(a)", "marks nothing"), ("}<||>", "an insertion")]
        {
            let wrong = inserted(&site(anchor)).expect_err(anchor);
            assert!(wrong[0].1.contains(why), "{anchor}: {wrong:?}");
        }
        let crossing = "site x.y: why\n    <|g(); a|>\nb: ()\nsite x.z: why\n    <|a && h(a)|>\nb: true\n";
        assert_eq!(inserted(crossing), Err(vec![(1, "it overlaps another site in part".to_owned())]));
    }

    #[test]
    fn files_are_checked() {
        let tree = Tree::of(&[
            ("src/a.rs", SOURCE),
            ("src/a.mutants", "site x.y: why\n    <|q|>\nc: 1\n"),
            ("src/b.mutants", "site x.y: why\n    <|q|>\nc: 1\n"),
            ("src/c.mutants", "site x: why\n    <|q|>\nc: 1\n"),
            (SURVIVORS, "# Survivors\n\n- `x.y:z`: it is\n  gone\n"),
        ]);
        let wrong = check(&tree);
        assert_eq!(
            wrong,
            [
                "src/a.mutants:1: the anchor is gone",
                "src/b.mutants:1: there is no source of this name",
                "src/c.mutants:1: the name of a site is ROOM.DECISION",
                "tools/mutation/survivors.md: there is no mutant `x.y:z`"
            ]
        );
    }
}
