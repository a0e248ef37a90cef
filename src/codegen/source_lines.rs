//! What printers of source have in common: blocks in braces, the IR line of a statement as a
//! comment at its end, and the comment before a function.

use super::nest::{Nest, Stmt};
use super::text_lines::Lines;

/// Adds the comment before a function: its group, the assumptions, operands and results, each with
/// its element type.
pub(super) fn head(lines: &mut Lines, nest: &Nest) {
    let named = |is_written: bool| -> String {
        let accesses = nest.accesses.iter().filter(|access| access.is_written == is_written);
        accesses.map(|access| format!("{} {}", access.name, access.dtype.name())).collect::<Vec<_>>().join(", ")
    };
    lines.comment(&nest.group);
    nest.assumed.iter().for_each(|assumed| lines.comment(assumed));
    lines.comment(&format!("data: {}", named(false)));
    lines.comment(&format!("and then, written: {}", named(true)));
}

/// A printer of statements.
pub(super) trait Printing {
    /// Its lines so far.
    fn lines(&mut self) -> &mut Lines;

    /// Prints a statement.
    fn stmt(&mut self, stmt: &Stmt);

    /// Prints statements.
    fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// Prints a line.
    fn line(&mut self, text: &str) {
        self.lines().line(text);
    }

    /// Prints a statement with its IR line, if it has one.
    fn noted(&mut self, text: &str, note: &str) {
        self.lines().noted(text, note);
    }

    /// Begins a block with its head.
    fn open(&mut self, head: &str) {
        self.lines().open(head);
    }

    /// Ends a block.
    fn close(&mut self) {
        self.lines().close();
    }

    /// Prints statements in braces, after a head.
    fn block(&mut self, head: &str, body: &[Stmt]) {
        self.open(head);
        self.stmts(body);
        self.close();
    }
}
