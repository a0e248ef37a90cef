//! Ranges of the user's source that `.debug_pkl` records name as the origin of code.

use crate::pickle_value::{Id, Pickle, Value};
use crate::unpickler::unpickle;
use std::sync::Arc;

/// The first element of records of 1.11 and later, whose lines of text are in a table.
const WITH_TABLE: &str = "FORMAT_WITH_STRING_TABLE";

/// From this byte of the serialized code on, the source was this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRange {
    /// The byte of the serialized code.
    pub from: usize,
    /// Nothing where code was made by no source.
    pub origin: Option<Origin>,
}

/// A place in the user's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, or `<string>`.
    pub file: Arc<str>,
    /// From 1.
    pub line: i64,
    /// From 0.
    pub column: usize,
    /// The line.
    pub text: Arc<str>,
}

impl Origin {
    /// `model.py:31:12`, as in PyTorch's comments.
    pub fn comment(&self) -> String {
        format!("{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The ranges of a record, in order; nothing if it has another form. It only says where code is
/// from, so that a damaged one makes no difference.
pub(crate) fn read(content: &[u8]) -> Option<Vec<SourceRange>> {
    let pickle = unpickle(content).ok()?;
    let items = items(&pickle, pickle.root)?;
    let (table, entries) = match items {
        [head, table, entries] if pickle.text(*head) == Some(WITH_TABLE) => {
            (self::items(&pickle, *table)?, self::items(&pickle, *entries)?)
        }
        entries => (&[][..], entries),
    };
    let ranges: Option<Vec<SourceRange>> = entries.iter().map(|entry| range(&pickle, table, *entry)).collect();
    ranges.filter(|ranges| ranges.is_sorted_by_key(|range| range.from))
}

fn items(pickle: &Pickle, id: Id) -> Option<&[Id]> {
    match pickle.get(id) {
        Value::Tuple(items) | Value::List(items) => Some(items),
        _ => None,
    }
}

fn number(pickle: &Pickle, id: Id) -> Option<usize> {
    if let Value::Int(value) = pickle.get(id) { usize::try_from(*value).ok() } else { None }
}

/// `(from, ((text, file, first line), start, end), …)`
fn range(pickle: &Pickle, table: &[Id], entry: Id) -> Option<SourceRange> {
    let [from, place, ..] = items(pickle, entry)? else { return None };
    let [source, start, _end] = items(pickle, *place)? else { return None };
    let [text, file, first] = items(pickle, *source)? else { return None };
    let text = whole_text(pickle, table, *text)?;
    let file = match pickle.get(*file) {
        Value::Int(_) => pickle.text(*table.get(number(pickle, *file)?)?)?,
        Value::Text(file) => file,
        _ => "<string>",
    };
    let (from, start, first) = (number(pickle, *from)?, number(pickle, *start)?, number(pickle, *first)?);
    let before = text.get(..start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let is_made = text.is_empty();
    let origin = Origin {
        file: if file.is_empty() { "<string>" } else { file }.into(),
        line: (first + before.matches('\n').count()) as i64 + i64::from(first == 0),
        column: start - line_start,
        text: line.into(),
    };
    Some(SourceRange { from, origin: (!is_made).then_some(origin) })
}

/// A text, or the numbers of its lines in the table.
fn whole_text(pickle: &Pickle, table: &[Id], id: Id) -> Option<String> {
    if let Value::Text(text) = pickle.get(id) {
        return Some(text.clone());
    }
    let lines = items(pickle, id)?.iter().map(|line| pickle.text(*table.get(number(pickle, *line)?)?));
    lines.collect()
}
