//! FileCheck in two dialects: LLVM's (regular expressions, variables, labels) and PyTorch's (plain
//! substrings).
//!
//! A check file is any text with directives in it, such as `# CHECK-NEXT: aten::add`. The library
//! reads the directives, runs them on an input and explains a failure with one row per directive.
//! It does not print: it returns strings.
//!
//! Two rules prevent checks that silently check nothing: a misspelt directive is an error, and so
//! is a prefix that was requested but never occurs.
//!
//! Intended differences from LLVM: regular expressions are those of `regex-lite` (so `\d` and
//! `\b` work, and a backslash escapes inside brackets), matching is leftmost-longest as in LLVM,
//! and numeric substitution (`[[#…]]`, `[[@LINE]]`) is refused with an explanation.

mod blanks;
mod check_file;
mod directive_typos;
mod llvm_match;
mod needle;
mod outcome;
mod pieces;
mod problem;
mod pytorch_match;
mod translate;

pub use check_file::CheckFile;
pub use directive_typos::{did_you_mean, edit_distance};
pub use outcome::{Outcome, Row, Verdict};
pub use problem::Problem;

/// The dialect of a check file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// LLVM's FileCheck, for tests of this repository.
    #[default]
    Llvm,
    /// `torch._C.FileCheck`, for tests from PyTorch.
    PyTorch,
}

/// The options of FileCheck's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Words that start a directive; the PyTorch dialect knows only `CHECK`.
    pub prefixes: Vec<String>,
    /// The dialect.
    pub dialect: Dialect,
    /// Match blanks exactly, instead of any run of blanks matching any other.
    pub strict_whitespace: bool,
    /// Every positive check must match a whole line.
    pub match_full_lines: bool,
    /// An empty input is not an error in itself.
    pub allow_empty: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            prefixes: vec!["CHECK".to_owned()],
            dialect: Dialect::Llvm,
            strict_whitespace: false,
            match_full_lines: false,
            allow_empty: false,
        }
    }
}

/// Reads the checks, runs them, and returns a description of the errors: the whole tool in one
/// call.
pub fn filecheck(
    check_name: &str,
    check_text: &str,
    input_name: &str,
    input: &str,
    options: &Options,
) -> Result<(), String> {
    let checks = CheckFile::parse(check_name, check_text, options).map_err(|problems| problem::join(&problems))?;
    let outcome = checks.run(input_name, input);
    if outcome.passed() { Ok(()) } else { Err(outcome.to_string()) }
}
