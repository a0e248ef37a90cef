//! Text file hygiene: no tabs, no trailing blanks, limited length.

use crate::Tree;

/// Maximum size of a file in bytes.
const LARGEST: usize = 1 << 20;
/// Maximum number of lines of a source file; a longer file should be split.
const LONGEST: usize = 900;
/// Extensions of files written by hand.
const WRITTEN: [&str; 6] = ["rs", "md", "toml", "sh", "py", "ir"];

/// Whether a file contains recorded output of PyTorch or of a tool.
fn is_recorded(path: &str) -> bool {
    path.starts_with("testdata/corpus/") || path.contains("/tests/data/")
}

/// Violations of these rules.
pub fn check(tree: &Tree) -> Vec<String> {
    let large = tree.files().filter(|(_, bytes)| bytes.len() > LARGEST);
    let mut wrong: Vec<String> = large.map(|(path, _)| format!("{path}: is larger than 1 MB")).collect();
    for (path, text) in tree.texts() {
        let extension = path.rsplit('.').next().unwrap_or_default();
        if is_recorded(path) || !(WRITTEN.contains(&extension) || path.starts_with(".ci/")) {
            continue;
        }
        wrong.extend(bad_lines(path, text));
        let lines = text.lines().count();
        if lines > LONGEST && matches!(extension, "rs" | "py" | "sh") {
            wrong.push(format!("{path}: has {lines} lines, more than {LONGEST}"));
        }
    }
    wrong
}

fn bad_lines(path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (line, number) in text.split_terminator('\n').zip(1..) {
        if line.contains('\t') {
            wrong.push(format!("{path}:{number}: has a tab"));
        }
        // A snapshot contains the printed output unchanged.
        if line.ends_with([' ', '\t', '\r']) && !line.starts_with("# |") {
            wrong.push(format!("{path}:{number}: ends in a blank"));
        }
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        wrong.push(format!("{path}: does not end in exactly one newline"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_checked() {
        let long = "\n".repeat(LONGEST) + "x\n";
        let tree =
            Tree::of(&[("a.rs", "\tx\ny \nz"), ("b.rs", &long), ("testdata/corpus/c.ir", "\t"), ("d.rs", "x\n")]);
        assert_eq!(
            check(&tree),
            [
                "a.rs:1: has a tab",
                "a.rs:2: ends in a blank",
                "a.rs: does not end in exactly one newline",
                "b.rs: has 901 lines, more than 900"
            ]
        );
    }
}
