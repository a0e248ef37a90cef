//! Errors in a check file, with their position and, if known, a remedy.

use std::fmt;

/// One error in a check file. `Display` shows the line with a caret under the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The check file.
    pub file: String,
    /// Line from 1, or 0 for the file as a whole.
    pub line: usize,
    /// Column from 1, counted in characters.
    pub column: usize,
    /// The error.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
    /// The text of the line.
    pub source: String,
}

impl Problem {
    /// A problem of the file as a whole.
    pub(crate) fn whole(file: &str, message: impl Into<String>, help: Option<String>) -> Problem {
        Problem { file: file.to_owned(), line: 0, column: 0, message: message.into(), help, source: String::new() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: error: {}", self.file, self.message)?;
        } else {
            writeln!(f, "{}:{}:{}: error: {}", self.file, self.line, self.column, self.message)?;
            write!(f, "{}", with_caret(self.line, &self.source, self.column))?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// The line with its number, and a caret on the next line; tabs are repeated so that the caret
/// stays below its character.
pub(crate) fn with_caret(line: usize, source: &str, column: usize) -> String {
    let number = line.to_string();
    let lead: String =
        source.chars().take(column.saturating_sub(1)).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    format!("  {number} | {source}\n  {} | {lead}^", " ".repeat(number.len()))
}

/// All problems as one text.
pub(crate) fn join(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
