//! File stems are unique: `JIT_LOG_LEVEL` and messages identify files by them.

use crate::Tree;
use std::collections::BTreeMap;

/// Uninformative stems, which no pass has.
const ORDINARY: [&str; 3] = ["main", "lib", "build"];

/// Stems that two files share, and files called `mod.rs`.
pub fn check(tree: &Tree) -> Vec<String> {
    let mut by_stem: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (path, _) in tree.sources() {
        let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs");
        if stem == "mod" {
            wrong.push(format!("{path}:1: call the module's file `{}.rs`", path.trim_end_matches("/mod.rs")));
        } else if !ORDINARY.contains(&stem) && !path.contains("/tests/") {
            by_stem.entry(stem).or_default().push(path);
        }
    }
    let shared = by_stem.into_iter().filter(|(_, paths)| paths.len() > 1);
    wrong.extend(shared.map(|(stem, paths)| format!("{}: the stem `{stem}` is used twice", paths.join(", "))));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_unique_but_for_the_ordinary() {
        let tree = Tree::of(&[("src/a/b.rs", ""), ("passes/b.rs", ""), ("src/lib.rs", ""), ("passes/lib.rs", "")]);
        assert_eq!(check(&tree), ["passes/b.rs, src/a/b.rs: the stem `b` is used twice"]);
        assert_eq!(check(&Tree::of(&[("src/a/mod.rs", "")])).len(), 1);
    }
}
