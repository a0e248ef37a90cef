//! Why an archive is not read.

use std::fmt;

/// Why an archive, or a part of it, is refused: the record, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The record of the archive; `None` for the file as a whole.
    pub record: Option<String>,
    /// The line of code, counted from 1.
    pub line: Option<usize>,
    /// The reason: the value found and the one expected.
    pub reason: String,
    /// Advice for the user.
    pub help: Option<String>,
    /// The global of a pickle that is not allowed.
    pub global: Option<String>,
}

/// A value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    /// A refusal of the file as a whole.
    pub fn new(reason: impl Into<String>) -> Refusal {
        Refusal { record: None, line: None, reason: reason.into(), help: None, global: None }
    }

    /// The same with advice.
    pub fn with_help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
        self
    }

    /// The same about a line of code, unless it names one.
    pub(crate) fn at_line(mut self, line: usize) -> Refusal {
        self.line.get_or_insert(line);
        self
    }

    /// The same about a record, unless it names one.
    pub(crate) fn in_record(mut self, record: &str) -> Refusal {
        self.record.get_or_insert_with(|| record.to_owned());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(record) = &self.record {
            write!(f, "record `{}`: ", record.escape_debug())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

/// Refuses for this reason.
pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Refusal::new(reason))
}

/// A name from the archive as it is shown: in quotes, escaped, not longer than a line.
pub(crate) fn shown(name: &str) -> String {
    let short: String = name.chars().take(80).collect();
    let rest = if short.len() < name.len() { "…" } else { "" };
    format!("`{}{rest}`", short.escape_debug())
}
