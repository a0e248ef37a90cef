//! Lines that printers write, of source and for people: their indent, and notes at their end.
//! Printers have no indents of their own.
//!
//! A [`SourceText`] knows which of its characters are notes, so that nothing has to find them in
//! the text: the disk cache compares code, and findings of the emulation name the statement of a
//! line with its IR line.

use std::fmt::Write;

/// How lines look.
#[derive(Debug)]
struct Style {
    /// Columns that a block is indented by.
    step: usize,
    /// Column that comments begin in, after a mark.
    margin: usize,
    comment: &'static str,
}

/// A printed text, and where its notes are.
#[derive(Clone, Debug, Default)]
pub struct SourceText {
    text: String,
    /// The lines with notes, in their order.
    notes: Vec<Note>,
}

/// What only people read: an IR line after a statement, or a comment that has its line alone.
#[derive(Clone, Debug)]
struct Note {
    /// The number of its line, from 0.
    line: usize,
    /// The bytes of the text that are the code of that line.
    code: std::ops::Range<usize>,
    /// The end of the line.
    end: usize,
    /// The note, if it is one of the code.
    note: Option<String>,
}

impl SourceText {
    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The text without notes, in as many lines.
    pub(crate) fn code(&self) -> String {
        let (mut all, mut from) = (String::with_capacity(self.text.len()), 0);
        for note in &self.notes {
            all += &self.text[from..note.code.end];
            from = note.end;
        }
        all + &self.text[from..]
    }

    /// The code of a line, the first of which is 1, and the note of the last statement up to there
    /// that has one.
    pub(crate) fn statement(&self, line: usize) -> (&str, &str) {
        let (at, before) = (line.saturating_sub(1), self.notes.partition_point(|note| note.line < line));
        let own = self.notes[..before].last().filter(|note| note.line == at);
        let code = match own {
            Some(own) => &self.text[own.code.clone()],
            None => self.text.lines().nth(at).unwrap_or_default(),
        };
        let note = self.notes[..before].iter().rev().find_map(|note| note.note.as_deref());
        (code.trim(), note.unwrap_or_default())
    }

    /// A text that a test has changed: notes are what follows `//` after a statement.
    #[cfg(test)]
    pub(crate) fn of_changed(text: &str) -> SourceText {
        let mut lines = Lines::of_source();
        text.lines().for_each(|line| match line.split_once(" // ") {
            Some((code, note)) => lines.noted(code.trim_end(), note),
            None => lines.line(line),
        });
        lines.finish()
    }

    /// Adds text without notes.
    pub(crate) fn push(&mut self, text: &str) {
        self.text += text;
    }

    /// Adds another text, from the begin of a line on.
    pub(crate) fn append(&mut self, other: &SourceText) {
        let (bytes, lines) = (self.text.len(), self.text.bytes().filter(|&byte| byte == b'\n').count());
        self.text += &other.text;
        self.notes.extend(other.notes.iter().map(|note| Note {
            line: lines + note.line,
            code: bytes + note.code.start..bytes + note.code.end,
            end: bytes + note.end,
            note: note.note.clone(),
        }));
    }
}

impl From<String> for SourceText {
    fn from(text: String) -> SourceText {
        SourceText { text, notes: Vec::new() }
    }
}

/// Source.
const SOURCE: Style = Style { step: 4, margin: 68, comment: "//" };
/// Text for people.
const PLAIN: Style = Style { step: 2, margin: 60, comment: "#" };

/// Lines so far.
#[derive(Debug)]
pub(super) struct Lines {
    style: Style,
    source: SourceText,
    /// How many there are.
    count: usize,
    indent: usize,
}

impl Lines {
    /// Those of source.
    pub(super) fn of_source() -> Lines {
        Lines { style: SOURCE, source: SourceText::default(), count: 0, indent: 0 }
    }

    /// Those of text for people, in which blocks have no braces.
    pub(super) fn of_text() -> Lines {
        Lines { style: PLAIN, source: SourceText::default(), count: 0, indent: 0 }
    }

    /// Adds a line.
    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.source.text, "{:indent$}{text}", "", indent = self.indent);
        self.count += 1 + text.bytes().filter(|&byte| byte == b'\n').count();
    }

    /// Adds a line that only people read.
    pub(super) fn comment(&mut self, text: &str) {
        let begin = self.source.text.len();
        let _ = write!(self.source.text, "{:indent$}{} {text}", "", self.style.comment, indent = self.indent);
        self.end_note(begin..begin, None);
    }

    /// Ends a line whose characters after its code are a note.
    fn end_note(&mut self, code: std::ops::Range<usize>, note: Option<String>) {
        let end = self.source.text.len();
        self.source.notes.push(Note { line: self.count, code, end, note });
        self.source.text.push('\n');
        self.count += 1;
    }

    /// Adds a statement with its IR line, if it has one.
    pub(super) fn noted(&mut self, text: &str, note: &str) {
        if note.is_empty() {
            return self.line(text);
        }
        // A comment of C that ends in a backslash goes on in the next line.
        let note = note.replace('\\', "/");
        let (indent, comment, width) = (self.indent, self.style.comment, self.style.margin.saturating_sub(self.indent));
        let begin = self.source.text.len();
        let _ = write!(self.source.text, "{:indent$}{text}", "");
        let code = begin..self.source.text.len();
        let _ =
            write!(self.source.text, "{:pad$} {comment} {note}", "", pad = width.saturating_sub(text.chars().count()));
        self.end_note(code, Some(note));
    }

    /// Indents what follows.
    pub(super) fn deeper(&mut self) {
        self.indent += self.style.step;
    }

    /// Ends that.
    pub(super) fn back(&mut self) {
        self.indent -= self.style.step;
    }

    /// Adds the head of a block, whose lines are indented.
    pub(super) fn open(&mut self, head: &str) {
        self.line(head);
        self.deeper();
    }

    /// Ends a block.
    pub(super) fn close(&mut self) {
        self.back();
        self.line("}");
    }

    /// The whole text.
    pub(super) fn finish(self) -> SourceText {
        self.source
    }
}
