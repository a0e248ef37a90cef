//! Files of one folder do not use each other in a circle.
//!
//! A circle is a room that is read as a whole or not at all. A folder's own file, `a.rs` of `a/`,
//! is not counted: it declares the files below it.

use crate::Tree;
use crate::layers::first_names;
use crate::rust_text::{code, regex};
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Circles that are not taken apart yet, by folder.
const KNOWN: &[(&str, &[&str])] = &[
    // A graph is an attribute of its nodes, and lists the edits that nodes and values are in.
    ("src/ir", &["attribute", "graph", "journal", "lineage", "naming", "usage"]),
    // The executor of expressions calls arithmetic, which has their operators.
    ("src/codegen", &["arithmetic", "expression"]),
    // Plans name values of kernels, and the constants of a target are in the file of plans.
    ("src/codegen", &["c_spelling", "kernel", "kernel_plan", "loop_structure", "monoid"]),
    // A row of an operator holds facts of all kinds; the table of each kind is made of the rows.
    ("src/ops", &["formulas", "fusion_rules", "guard_rules", "recipes", "rows", "shape_rules"]),
    // A pipeline holds passes, whose functions take a context, which holds options of a pipeline.
    ("src/pass", &["context", "info", "pipeline"]),
];

/// The circles that are not among the known ones.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut folders: BTreeMap<&str, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for (path, text) in tree.sources() {
        if let Some((folder, stem)) = place(path) {
            folders.entry(folder).or_default().insert(stem, used(folder, text));
        }
    }
    let mut wrong = Vec::new();
    for (folder, files) in &folders {
        for stem in files.keys() {
            let circle: Vec<&str> = around(files, stem);
            let is_known =
                |(known, stems): &(&str, &[&str])| known == folder && circle.iter().all(|s| stems.contains(s));
            // Each circle is reported once, at its first file.
            if circle.len() > 1 && circle[0] == *stem && !KNOWN.iter().any(is_known) {
                wrong.push(format!("{folder}/{stem}.rs:1: these files use each other: {}", circle.join(", ")));
            }
        }
    }
    wrong
}

/// Folder and stem of a source of the core or of a pass.
fn place(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/')?;
    let stem = name.strip_suffix(".rs").filter(|stem| !stem.ends_with("_test") && *stem != "lib")?;
    ["src", "passes"].contains(&folder.split('/').next()?).then_some((folder, stem))
}

/// The names that a file uses of its folder, through `super::` or the full path.
fn used(folder: &str, text: &str) -> BTreeSet<String> {
    static TESTS: LazyLock<Regex> = LazyLock::new(|| regex(r"#\[cfg\(test\)\]\s*mod \w+ \{"));
    let code = code(text);
    let code = &code[..TESTS.find(&code).map_or(code.len(), |tests| tests.start())];
    let room = folder.split('/').skip(1).map(|name| format!("{name}::")).collect::<String>();
    let roots = regex(&format!(r"(?:(?:^|[^:\w])super::|\bcrate::{room})"));
    roots.find_iter(code).flat_map(|root| first_names(code, root.end())).collect()
}

/// The files that a file reaches and that reach it, sorted; the file itself is one of them.
fn around<'a>(files: &BTreeMap<&'a str, BTreeSet<String>>, stem: &'a str) -> Vec<&'a str> {
    let own = reached(files, stem);
    let others = own.into_iter().filter(|other| *other != stem && reached(files, other).contains(stem));
    let mut circle: Vec<&str> = others.chain([stem]).collect();
    circle.sort_unstable();
    circle
}

fn reached<'a>(files: &BTreeMap<&'a str, BTreeSet<String>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut work) = (BTreeSet::new(), vec![from]);
    while let Some(at) = work.pop() {
        let next = files.get(at).into_iter().flatten().filter_map(|name| files.get_key_value(&**name));
        work.extend(next.map(|(name, _)| *name).filter(|name| *name != at && found.insert(*name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_trees_are_not() {
        let tree = Tree::of(&[
            ("src/a/x.rs", "use super::{y::Y, shared};\n"),
            ("src/a/y.rs", "use crate::a::z::Z;\n"),
            ("src/a/z.rs", "fn f() { super::x::g() }\n"),
            ("src/a/shared.rs", "// super::x\n#[cfg(test)]\nmod tests { use super::x; }\n"),
            ("src/b/x.rs", "use super::y;\n"),
            ("src/b/y.rs", "use super::super::x;\n"),
        ]);
        assert_eq!(check(&tree), ["src/a/x.rs:1: these files use each other: x, y, z"]);
    }
}
