//! Why an archive is not read.

use std::fmt;

/// Why an archive, or a part of it, is refused: the record, what is wrong with it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The record of the archive; `None` for the file as a whole.
    pub record: Option<String>,
    /// What was found, and what was expected.
    pub reason: String,
    /// What the user can do.
    pub help: Option<String>,
}

/// A value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    /// A refusal of the file as a whole.
    pub(crate) fn new(reason: impl Into<String>) -> Refusal {
        Refusal { record: None, reason: reason.into(), help: None }
    }

    /// The same with advice.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Refusal {
        self.help = Some(help.into());
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
        match &self.record {
            Some(record) => write!(f, "record `{}`: {}", record.escape_debug(), self.reason),
            None => f.write_str(&self.reason),
        }
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
