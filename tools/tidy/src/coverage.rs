//! Test coverage: every pass has lit files, and a lit file uses every flag.

use crate::Tree;
use crate::rust_text::{closing, code, regex};
use regex_lite::Regex;
use std::sync::LazyLock;

/// The rows of `passes! { … }` in `passes/lib.rs`, in order.
pub fn pass_rows(registry: &str) -> Vec<String> {
    let code = code(registry);
    let Some(open) = code.find("\npasses! {").map(|at| at + "\npasses! ".len()) else { return Vec::new() };
    let body = &code[open + 1..closing(&code, open) - 1];
    body.split(',').map(str::trim).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

/// Passes without a directory of lit files, and directories without a pass.
pub fn check_passes(tree: &Tree) -> Vec<String> {
    let rows = pass_rows(tree.text("passes/lib.rs").unwrap_or_default());
    if rows.is_empty() {
        return vec!["passes/lib.rs:1: `passes! { … }` has no rows".to_owned()];
    }
    let is_tested =
        |row: &&String| !lit_files(tree).any(|(path, _)| path.starts_with(&format!("testdata/passes/{row}/")));
    let untested = rows.iter().filter(is_tested);
    let mut wrong: Vec<String> = untested.map(|row| format!("testdata/passes/{row}/: has no lit file")).collect();
    for (path, _) in tree.files() {
        let folder = path.strip_prefix("testdata/passes/").and_then(|rest| rest.split_once('/'));
        if let Some((folder, _)) = folder.filter(|(folder, _)| !rows.iter().any(|row| row == folder)) {
            wrong.push(format!("testdata/passes/{folder}/: no pass has this name"));
        }
    }
    wrong.dedup();
    wrong
}

/// Rows of operators that take facts from another one, `Row { shape, ..OTHER }`: what such a row
/// does not say the compiler does not miss.
pub fn check_operator_rows(tree: &Tree) -> Vec<String> {
    let rows = tree.texts().filter(|(path, _)| path.starts_with("src/ops/rows/"));
    let borrowed = |(path, text): (&str, &str)| {
        let lines: Vec<usize> = (code(text).lines().enumerate())
            .filter(|(_, line)| {
                line.trim_start().strip_prefix("..").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
            })
            .map(|(at, _)| at + 1)
            .collect();
        lines.into_iter().map(|at| format!("{path}:{at}: a row states each fact itself")).collect::<Vec<String>>()
    };
    rows.flat_map(borrowed).collect()
}

/// The files that `jitopt test testdata` runs.
fn lit_files(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, text)| {
        path.starts_with("testdata/") && !path.starts_with("testdata/corpus/") && text.contains("RUN")
    })
}

/// The long flags in a `--help` text.
pub fn flags(help: &str) -> Vec<String> {
    static FLAG: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^\s+(?:-\w, )?(--[a-z][a-z0-9-]*)"));
    FLAG.captures_iter(help).filter_map(|flag| Some(flag.get(1)?.as_str().to_owned())).collect()
}

/// The subcommands in it.
pub fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| line.starts_with("  "));
    let names = list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Flags that neither a lit file nor a document uses.
pub fn check_flags(tree: &Tree, flags: &[String]) -> Vec<String> {
    let used: String = lit_files(tree).chain(tree.documents()).map(|(_, text)| text).collect();
    let is_used = |flag: &str| {
        used.match_indices(flag)
            .any(|(at, _)| !used[at + flag.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '-'))
    };
    let ordinary = |flag: &str| matches!(flag, "--help" | "--version");
    let unused = flags.iter().filter(|flag| !ordinary(flag) && !is_used(flag));
    unused.map(|flag| format!("testdata/: no lit file uses `{flag}`, nor does a document")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_without_lit_files_is_found() {
        let registry = "macro_rules! passes { () => {} }\n\npasses! {\n    a, // first\n    b,\n}\n";
        assert_eq!(pass_rows(registry), ["a", "b"]);
        let tree = Tree::of(&[
            ("passes/lib.rs", registry),
            ("testdata/passes/a/x.ir", "# RUN: jitopt %s"),
            ("testdata/passes/c/x.ir", ""),
        ]);
        assert_eq!(
            check_passes(&tree),
            ["testdata/passes/b/: has no lit file", "testdata/passes/c/: no pass has this name"]
        );
    }

    #[test]
    fn flags_are_read_from_help_and_looked_up_whole() {
        let help = "Commands:\n  run   Runs --x\n  help  Helps\n\nOptions:\n  -o, --output <F>\n      --out[=<W>]\n";
        assert_eq!(
            (flags(help), subcommands(help)),
            (vec!["--output".to_owned(), "--out".to_owned()], vec!["run".to_owned()])
        );
        let tree = Tree::of(&[("README.md", "jitopt --output=x")]);
        assert_eq!(check_flags(&tree, &flags(help)), ["testdata/: no lit file uses `--out`, nor does a document"]);
    }
}
