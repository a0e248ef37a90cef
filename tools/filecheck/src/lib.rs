//! FileCheck in two dialects: LLVM's (regular expressions, variables, labels) and PyTorch's (plain substrings).
//!
//! A check file is any text with directives in it, such as `# CHECK-NEXT: aten::add`. The library reads the directives,
//! runs them over an input and explains a failure with one row per directive. It never prints: it hands back strings.
//!
//! Two rules keep checks from dying in silence. What looks like a misspelt directive is an error, and so is a prefix
//! that was asked for but never occurs.
//!
//! Where this differs from LLVM on purpose: regular expressions are those of the `regex` crate (so `\d` and `\b` work, and
//! a backslash escapes inside brackets), matching is leftmost-longest as in LLVM, and numeric substitution (`[[#…]]`,
//! `[[@LINE]]`) is refused with an explanation.

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

/// Whose rules a check file follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// LLVM's FileCheck, for tests written here.
    #[default]
    Llvm,
    /// `torch._C.FileCheck`, for tests that come from PyTorch.
    PyTorch,
}

/// What the command line of FileCheck sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Words that start a directive; the PyTorch dialect knows only `CHECK`.
    pub prefixes: Vec<String>,
    /// Whose rules to follow.
    pub dialect: Dialect,
    /// Blanks count as they stand, instead of any run of them matching any other.
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

/// Reads the checks, runs them, and says in words what went wrong: the whole tool in one call.
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
