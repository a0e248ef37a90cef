//! Consistency of documents with the code.

use crate::Tree;
use crate::rust_text::regex;
use crate::tree::line_of;
use regex::Regex;
use std::sync::LazyLock;

/// Delimits the list of passes in the README.
pub const MARKER: &str = "<!-- passes -->";

/// The text with `list` between its two markers; `None` if there are not two.
pub fn with_pass_list(text: &str, list: &str) -> Option<String> {
    let (before, rest) = text.split_once(MARKER)?;
    let (_, after) = rest.split_once(MARKER)?;
    Some(format!("{before}{MARKER}\n{}\n{MARKER}{after}", list.trim()))
}

/// Checks that the README lists the passes as `jitopt --list-passes=markdown` does.
pub fn check_pass_list(tree: &Tree, list: &str) -> Vec<String> {
    let text = tree.text("README.md").unwrap_or_default();
    match with_pass_list(text, list) {
        None => vec![format!("README.md: has no list of passes between two lines `{MARKER}`")],
        Some(wanted) if wanted == text => Vec::new(),
        Some(_) => vec!["README.md: its list of passes is out of date: run `cargo xtask bless`".to_owned()],
    }
}

/// Paths in the code map that do not exist, relative to the root of the repository or to `src/`.
pub fn check_code_map(tree: &Tree) -> Vec<String> {
    static PATH: LazyLock<Regex> =
        LazyLock::new(|| regex(r"`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*(?:/|\.(?:rs|md|sh|py|ir|toml|txt)))`"));
    let file = "src/architecture.md";
    let Some(text) = tree.text(file) else { return vec![format!("{file}: is missing")] };
    let named: Vec<regex::Match<'_>> = PATH.captures_iter(text).filter_map(|path| path.get(1)).collect();
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
        assert_eq!(check_pass_list(&Tree::of(&[("README.md", &text)]), "new\n").len(), 1);
        assert!(check_pass_list(&Tree::of(&[("README.md", &new)]), "new\n").is_empty());
    }

    #[test]
    fn a_lost_path_is_found() {
        let map = "`ir/graph.rs` `passes/` `text/lexer.rs` `dce` `a/b`\n";
        let tree = Tree::of(&[("src/architecture.md", map), ("src/ir/graph.rs", ""), ("passes/x.rs", "")]);
        assert_eq!(check_code_map(&tree), ["src/architecture.md:1: there is no `text/lexer.rs`"]);
    }
}
