//! Why serialized code is not read.

use jitopt_archive::{Origin, SourceRange};
use std::fmt;
use std::sync::Arc;

/// A record of code, with its text.
#[derive(Debug)]
pub(crate) struct Record {
    /// `code/__torch__/a.py`
    pub(crate) name: String,
    pub(crate) text: String,
    /// The starts of its lines.
    starts: Vec<usize>,
    /// What its bytes were made of.
    ranges: Vec<SourceRange>,
}

impl Record {
    pub(crate) fn new(name: String, text: String, ranges: Vec<SourceRange>) -> Record {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Record { name, text, starts, ranges }
    }
}

/// A place in a record.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) record: Arc<Record>,
    /// Bytes before it.
    pub(crate) at: usize,
}

impl Place {
    /// The numbers of the line and the column, the first from 1 and the second from 0 as in
    /// PyTorch's comments, and the line.
    pub(crate) fn position(&self) -> (usize, usize, &str) {
        let starts = &self.record.starts;
        let number = starts.partition_point(|start| *start <= self.at);
        let start = starts[number.saturating_sub(1)];
        let line = self.record.text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
        (number, self.at - start, line)
    }

    /// `model.py:31:12`, the place in the user's source, as PyTorch prints it; nothing for code
    /// that was made by no source. Without a record of the source it is the place in the archive.
    pub(crate) fn comment(&self) -> Option<String> {
        let ranges = &self.record.ranges;
        let at = ranges.partition_point(|range| range.from <= self.at).checked_sub(1);
        match at.and_then(|at| ranges.get(at)) {
            Some(range) => range.origin.as_ref().map(Origin::comment),
            None => Some(self.place_in_archive()),
        }
    }

    /// `code/__torch__.py:7:4`
    pub(crate) fn place_in_archive(&self) -> String {
        let (line, column, _) = self.position();
        format!("{}:{line}:{column}", self.record.name)
    }
}

/// Why code is not read, and where.
#[derive(Clone, Debug)]
pub struct SourceError {
    /// The error, and the text that was expected.
    pub reason: String,
    pub(crate) place: Option<Place>,
    /// Whether the graph of the code is too large to be made.
    pub is_too_large: bool,
}

/// A value, or why there is none.
pub(crate) type Result<T> = std::result::Result<T, SourceError>;

impl SourceError {
    pub(crate) fn new(reason: impl Into<String>) -> SourceError {
        SourceError { reason: reason.into(), place: None, is_too_large: false }
    }

    /// The same about a place, unless it has one.
    pub(crate) fn at(mut self, place: &Place) -> SourceError {
        self.place.get_or_insert_with(|| place.clone());
        self
    }
}

/// Fails for this reason; the caller adds the place.
pub(crate) fn fail<T>(reason: impl Into<String>) -> Result<T> {
    Err(SourceError::new(reason))
}

/// Columns of a line that are shown.
const WIDTH: usize = 100;

impl fmt::Display for SourceError {
    /// The reason, the record, and the line with a caret below the place:
    ///
    /// ```text
    /// expected a type, found `3`
    ///   --> record `code/__torch__.py`, line 2
    ///    |  def forward(self, x: 3) -> Tensor:
    ///    |                       ^
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        let Some(place) = &self.place else { return Ok(()) };
        let (number, column, line) = place.position();
        let column = line.get(..column).map_or(0, |before| before.chars().count());
        let from = column.saturating_sub(WIDTH / 2).min(line.chars().count().saturating_sub(WIDTH));
        let shown: String = line.chars().skip(from).take(WIDTH).map(|c| if c.is_control() { '?' } else { c }).collect();
        write!(f, "\n  --> record `{}`, line {number}\n   |  {shown}\n   |  ", place.record.name.escape_debug())?;
        write!(f, "{}^", " ".repeat(column - from))
    }
}

impl std::error::Error for SourceError {}
