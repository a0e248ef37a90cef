//! Checks that imports follow the layers.
//!
//! A module of the core uses only modules before it in [`LAYERS`]; passes use none after `pass`.
//! Comments may mention anything: a link in the documentation is not a dependency.

use crate::Tree;
use crate::rust_text::{closing, code, regex};
use crate::tree::line_of;
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The modules of the core, lowest first.
pub const LAYERS: [&str; 19] = [
    "log",
    "mutants",
    "entity",
    "symbol",
    "tensor",
    "types",
    "ir",
    "ops",
    "outlining",
    "text",
    "verify",
    "analysis",
    "interpreter",
    "codegen",
    "pass",
    "runtime",
    "report",
    "lint",
    "translation",
];

/// Uses of a higher layer, or of a module that is not in the list.
pub fn check(tree: &Tree) -> Vec<String> {
    let macros = macros(tree);
    let mut wrong = Vec::new();
    for (path, text) in tree.sources() {
        let Some(limit) = limit(path) else { continue };
        if limit == usize::MAX {
            wrong.push(format!("{path}:1: `{}` is missing from the list of layers", top(path)));
            continue;
        }
        let code = code(text);
        let named = paths(path, &code).into_iter().chain(macro_uses(&code, &macros));
        for (at, name) in named {
            let name = macros.get(&name).cloned().unwrap_or(name);
            if height(&name).is_some_and(|height| height > limit) {
                let line = line_of(text, at);
                wrong.push(format!("{path}:{line}: `{}` uses `{name}`, which is in a higher layer", top(path)));
            }
        }
    }
    wrong.dedup();
    wrong
}

fn height(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

/// The top-level module that a file belongs to.
fn top(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

/// The highest layer that a file may use: `None` for unrestricted files, the maximum for a file of
/// no known layer.
fn limit(path: &str) -> Option<usize> {
    match path.split('/').next()? {
        "src" if path != "src/lib.rs" => Some(height(top(path)).unwrap_or(usize::MAX)),
        "passes" => height("pass"),
        _ => None,
    }
}

/// The layer of each exported macro: macros are accessed through the crate root.
fn macros(tree: &Tree) -> BTreeMap<String, String> {
    static EXPORTED: LazyLock<Regex> =
        LazyLock::new(|| regex(r"#\[macro_export\]\s*(?:#\[[^\]]*\]\s*)*macro_rules!\s*(\w+)"));
    static SHARED: LazyLock<Regex> = LazyLock::new(|| regex(r"pub\(crate\) use (\w+);"));
    let mut found = BTreeMap::new();
    for (path, text) in tree.sources().filter(|(path, _)| path.starts_with("src/")) {
        let code = code(text);
        for name in EXPORTED.captures_iter(&code).chain(SHARED.captures_iter(&code)).filter_map(|c| c.get(1)) {
            found.insert(name.as_str().to_owned(), top(path).to_owned());
        }
    }
    found
}

fn macro_uses(code: &str, macros: &BTreeMap<String, String>) -> Vec<(usize, String)> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(\w+)!\s*[\(\[\{]"));
    let calls = CALL.captures_iter(code).filter_map(|call| call.get(1));
    calls
        .filter(|name| macros.contains_key(name.as_str()))
        .map(|name| (name.start(), name.as_str().to_owned()))
        .collect()
}

/// The top-level modules of the core that a file uses, and where: through `crate::`,
/// `jitopt_core::`, or enough `super::`.
fn paths(path: &str, code: &str) -> Vec<(usize, String)> {
    static ROOT: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(crate|jitopt_core|(?:super::)*super)::"));
    let modules = inline_modules(code);
    let mut found = Vec::new();
    for root in ROOT.find_iter(code) {
        let supers = root.as_str().matches("super").count();
        let inside = modules.iter().filter(|module| module.contains(&root.start())).count();
        let reaches_root = match root.as_str() {
            "jitopt_core::" => true,
            "crate::" => path.starts_with("src/"),
            _ => path.starts_with("src/") && supers >= path.matches('/').count() + inside,
        };
        if reaches_root {
            found.extend(first_names(code, root.end()).into_iter().map(|name| (root.start(), name)));
        }
    }
    found
}

/// The ranges of `mod name { … }`.
fn inline_modules(code: &str) -> Vec<std::ops::Range<usize>> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| regex(r"\bmod\s+\w+\s*\{"));
    HEAD.find_iter(code).map(|head| head.start()..closing(code, head.end() - 1)).collect()
}

/// The name at `at`, or the first names of a group `{a::b, c}`.
pub(crate) fn first_names(code: &str, at: usize) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    if !code[at..].starts_with('{') {
        return vec![word(&code[at..])];
    }
    let group = &code[at + 1..closing(code, at) - 1];
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (i, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                names.push(word(group[start..i].trim_start()));
                start = i + 1;
            }
            _ => {}
        }
    }
    names.push(word(group[start..].trim_start()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> usize {
        let log = ("src/log.rs", "#[macro_export]\nmacro_rules! shout { () => {} }\n");
        let pass = ("src/pass.rs", "#[macro_export]\nmacro_rules! row { () => {} }\n");
        check(&Tree::of(&[log, pass, (path, text)])).len()
    }

    #[test]
    fn pointing_down_is_allowed() {
        assert_eq!(wrong("src/ir/graph.rs", "use crate::types::Type;\nuse super::order;\n/// [x](crate::text)\n"), 0);
        assert_eq!(wrong("src/ir/graph.rs", "crate::shout!();"), 0);
        assert_eq!(wrong("passes/x.rs", "use jitopt_core::{graph_dump, pass::PassInfo};"), 0);
        assert_eq!(wrong("src/ir/graph.rs", "mod tests { use super::super::text; }"), 0);
    }

    #[test]
    fn pointing_up_is_not() {
        for text in [
            "use crate::text::parse;",
            "use crate::{symbol, text::{a, b}};",
            "use super::super::text;",
            "crate::row!();",
        ] {
            assert_eq!(wrong("src/ir/graph.rs", text), 1, "{text}");
        }
        assert_eq!(wrong("src/ir.rs", "mod tests { fn f() { super::super::verify::verify() } }"), 1);
        assert_eq!(wrong("passes/x.rs", "use jitopt_core::{ir, runtime};"), 1);
        assert_eq!(wrong("src/gadget.rs", ""), 1);
    }
}
