//! Consistency of documents with the code.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;
use regex_lite::Regex;
use std::sync::LazyLock;

/// The chapter of the guide that lists the passes.
pub const PASS_CHAPTER: &str = "tools/opt/guide/passes.md";

/// Begins and ends the list of passes there.
pub const MARKER: &str = "<!-- passes -->";

/// The text with `list` between its two markers; `None` if there are not two.
pub fn with_pass_list(text: &str, list: &str) -> Option<String> {
    let (before, rest) = text.split_once(MARKER)?;
    let (_, after) = rest.split_once(MARKER)?;
    Some(format!("{before}{MARKER}\n{}\n{MARKER}{after}", list.trim()))
}

/// The guide lists the passes as `jitopt --list-passes=markdown` does.
pub fn check_pass_list(tree: &Tree, list: &str) -> Vec<String> {
    let text = tree.text(PASS_CHAPTER).unwrap_or_default();
    match with_pass_list(text, list) {
        None => vec![format!("{PASS_CHAPTER}: no list of passes between two lines `{MARKER}`")],
        Some(wanted) if wanted == text => Vec::new(),
        Some(_) => vec![format!("{PASS_CHAPTER}: the list of passes is stale: `cargo xtask bless` writes it")],
    }
}

/// Documents, and the lines that each may have: a newcomer reads them whole.
const LENGTHS: [(&str, usize); 2] = [("README.md", 220), ("src/architecture.md", 250)];

/// Documents that are longer than they may be.
pub fn check_lengths(tree: &Tree) -> Vec<String> {
    let lines = |path: &str| tree.text(path).unwrap_or_default().lines().count();
    let long = LENGTHS.iter().filter(|(path, most)| lines(path) > *most);
    long.map(|(path, most)| format!("{path}: {} lines, at most {most}", lines(path))).collect()
}

/// Paths in the code map that lead nowhere: from the root of the repository or from `src/`.
pub fn check_code_map(tree: &Tree) -> Vec<String> {
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| regex(r"`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*(?:/|\.(?:rs|md|sh|py|ir|toml|txt)))`"));
    let file = "src/architecture.md";
    let Some(text) = tree.text(file) else { return vec![format!("{file}: is missing")] };
    let named: Vec<regex_lite::Match<'_>> = PATH.captures_iter(text).filter_map(|path| path.get(1)).collect();
    if named.is_empty() {
        return vec![format!("{file}: names no file, unlike a code map")];
    }
    let leads_nowhere = |path: &str| !tree.exists(path) && !tree.exists(&format!("src/{path}"));
    let lost = named.into_iter().filter(|path| leads_nowhere(path.as_str()));
    lost.map(|path| format!("{file}:{}: there is no `{}`", line_of(text, path.start()), path.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_compared_and_written() {
        let text = format!("a\n{MARKER}\nold\n{MARKER}\nb\n");
        let new = with_pass_list(&text, "new\n").expect("two markers");
        assert_eq!(new, format!("a\n{MARKER}\nnew\n{MARKER}\nb\n"));
        assert_eq!(check_pass_list(&Tree::of(&[(PASS_CHAPTER, &text)]), "new\n").len(), 1);
        assert!(check_pass_list(&Tree::of(&[(PASS_CHAPTER, &new)]), "new\n").is_empty());
    }

    #[test]
    fn a_long_document_is_found() {
        let tree = Tree::of(&[("README.md", &"x\n".repeat(221)), ("src/architecture.md", &"x\n".repeat(250))]);
        assert_eq!(check_lengths(&tree), ["README.md: 221 lines, at most 220"]);
    }

    #[test]
    fn a_lost_path_is_found() {
        let map = "`ir/graph.rs` `passes/` `text/lexer.rs` `dce` `a/b`\n";
        let tree = Tree::of(&[("src/architecture.md", map), ("src/ir/graph.rs", ""), ("passes/x.rs", "")]);
        assert_eq!(check_code_map(&tree), ["src/architecture.md:1: there is no `text/lexer.rs`"]);
    }
}
