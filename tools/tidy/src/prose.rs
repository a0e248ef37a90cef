//! Comments and documents: lines of at most 100 columns.

use crate::Tree;

/// Columns of a line of prose. Code may be wider, see `rustfmt.toml`.
const WIDTH: usize = 100;

/// Recorded output, and documents that tests write from tables.
const GENERATED: [&str; 3] = ["testdata/corpus/", "testdata/releases/table.md", "src/interpreter/coverage.md"];

/// Lines of prose that are too wide: comments of Rust that stand alone, and paragraphs of Markdown.
pub fn check_width(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !GENERATED.iter().any(|file| path.starts_with(file))) {
        // Templates of sources end in `.rs.txt`.
        let wide: Vec<usize> = match path.strip_suffix(".txt").unwrap_or(path).rsplit('.').next() {
            Some("rs") => wide_comments(text),
            Some("md") => wide_paragraphs(text),
            _ => continue,
        };
        wrong.extend(wide.into_iter().map(|line| format!("{path}:{line}: prose of more than {WIDTH} columns")));
    }
    wrong
}

/// Whether a line is too wide and could be broken: the address of a link cannot.
fn is_wide(line: &str) -> bool {
    line.chars().count() > WIDTH && line.trim_start_matches(['/', '!', ' ']).contains(' ') && !line.contains("](")
}

/// Numbers of the lines that hold nothing but a comment and are too wide; code and tables in it are
/// no prose.
fn wide_comments(text: &str) -> Vec<usize> {
    let comments = text.lines().enumerate().filter_map(|(number, line)| {
        let body = line.trim_start();
        let body = ["//!", "///", "//"].iter().find_map(|mark| body.strip_prefix(mark))?;
        Some((number + 1, line, body))
    });
    let mut fenced = false;
    let mut wide = Vec::new();
    for (number, line, body) in comments {
        fenced ^= body.trim_start().starts_with("```");
        let shown = fenced || body.starts_with(" |") || body.starts_with("   ");
        if !shown && is_wide(line) {
            wide.push(number);
        }
    }
    wide
}

/// Numbers of the lines of paragraphs that are too wide; fences, tables and indented code are no
/// prose.
fn wide_paragraphs(text: &str) -> Vec<usize> {
    let mut fenced = false;
    let mut wide = Vec::new();
    for (number, line) in text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if !fenced && !line.starts_with('|') && !line.starts_with("    ") && is_wide(line) {
            wide.push(number + 1);
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_prose_is_found_and_code_is_not() {
        let long = "word ".repeat(25);
        let rust = format!("let x = 1; // {long}\n/// {long}\n/// ```\n/// {long}\n/// ```\n/// | {long}\n// short\n");
        let markdown = format!("{long}\n| {long}\n```text\n{long}\n```\n    {long}\n[a](b) {long}\n");
        let tree = Tree::of(&[("a.rs", &rust), ("b.md", &markdown)]);
        assert_eq!(
            check_width(&tree),
            ["a.rs:2: prose of more than 100 columns", "b.md:1: prose of more than 100 columns"]
        );
    }
}
