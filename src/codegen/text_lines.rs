//! Lines that printers write, of source and for people: their indent, and notes at their end.
//! Printers have no indents of their own.

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

/// Source.
const SOURCE: Style = Style { step: 4, margin: 68, comment: "//" };
/// Text for people.
const PLAIN: Style = Style { step: 2, margin: 60, comment: "#" };

/// Lines so far.
#[derive(Debug)]
pub(super) struct Lines {
    style: Style,
    text: String,
    indent: usize,
}

impl Lines {
    /// Those of source.
    pub(super) fn of_source() -> Lines {
        Lines { style: SOURCE, text: String::new(), indent: 0 }
    }

    /// Those of text for people, in which blocks have no braces.
    pub(super) fn of_text() -> Lines {
        Lines { style: PLAIN, text: String::new(), indent: 0 }
    }

    /// Adds a line.
    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = self.indent);
    }

    /// Adds a statement with its IR line, if it has one.
    pub(super) fn noted(&mut self, text: &str, note: &str) {
        if note.is_empty() {
            return self.line(text);
        }
        // A comment of C that ends in a backslash goes on in the next line.
        let note = note.replace('\\', "/");
        let (indent, comment, width) = (self.indent, self.style.comment, self.style.margin.saturating_sub(self.indent));
        let _ = writeln!(self.text, "{:indent$}{text:width$} {comment} {note}", "");
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
    pub(super) fn finish(self) -> String {
        self.text
    }
}
