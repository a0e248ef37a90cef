//! What the verifier would report of a file that cannot be read: an error of the syntax does not
//! hide misspelt operators and values that are not defined.

use super::Parser;
use crate::ops::nearby;
use crate::symbol::Symbol;
use crate::text::diagnostic::Diagnostic;
use crate::types::era::Era;
use std::ops::Range;

/// What was met while reading, with its place.
#[derive(Default)]
pub(super) struct Mentions {
    /// Each kind where it stands first.
    pub(super) kinds: Vec<(Symbol, Range<usize>)>,
    /// Where values that their graph does not define are used first.
    pub(super) undefined: Vec<Range<usize>>,
    /// Whether a statement was skipped that may define values.
    pub(super) lost_definitions: bool,
}

impl Parser<'_> {
    /// Adds to the errors of a file what else is wrong with it, in the order of the text.
    pub(super) fn audit(&mut self) {
        let operators = std::mem::take(&mut self.mentions.kinds);
        for (kind, span) in operators {
            self.audit_operator(kind, span);
        }
        if !self.mentions.lost_definitions {
            self.audit_values();
        }
        self.diagnostics.sort_by_key(|d| d.span.start);
    }

    fn audit_operator(&mut self, kind: Symbol, span: Range<usize>) {
        if nearby::is_known(kind) || !nearby::is_pytorchs(kind) {
            return;
        }
        let message = format!("`{kind}` is not an operator of PyTorch");
        let found = Diagnostic::warning(span, message, "no release up to 2.15 has it");
        self.report(match nearby::suggestion(Era::V2, kind) {
            Some(close) => found.with_help(format!("did you mean {close}?")),
            None => found.with_help("check the name"),
        });
    }

    fn audit_values(&mut self) {
        for span in std::mem::take(&mut self.mentions.undefined) {
            let name = String::from_utf8_lossy(&self.cursor.text[span.clone()]).into_owned();
            let found = Diagnostic::error(span, format!("`{name}` is not defined"), "used here first");
            self.report(found.with_help("expected a param or an output of this name in the graph"));
        }
    }

    /// At the end of a graph: the values that it uses and nothing defines.
    pub(super) fn note_undefined(&mut self) {
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        let early = std::mem::take(&mut frame.early);
        let undefined = early.into_iter().filter(|(value, _)| frame.graph.definer(*value).is_none());
        self.mentions.undefined.extend(undefined.map(|(_, span)| span));
    }

    /// Defines the outputs of a node that could not be read, so that their uses are no further
    /// mistakes. The graph is not used.
    pub(super) fn define_unread_outputs(&mut self) {
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        let node = frame.graph.create(Symbol::new("jitopt::unread"));
        for &(name, ty) in &self.outputs {
            frame.define(node, name, ty);
        }
        let open = frame.blocks.last_mut().expect("the root block stays open until `return`");
        frame.graph.append(open.block, node);
        open.last = Some(node);
        self.outputs.clear();
    }
}
