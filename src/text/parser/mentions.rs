//! The verifier's findings about a file that cannot be parsed: a syntax error does not hide
//! misspelt operators and undefined values.

use super::Parser;
use crate::ops::nearby;
use crate::symbol::Symbol;
use crate::text::diagnostic::Diagnostic;
use crate::types::era::Era;
use std::ops::Range;

/// Kinds and undefined values met while parsing, with their positions.
#[derive(Default)]
pub(super) struct Mentions {
    /// The first occurrence of each kind.
    pub(super) kinds: Vec<(Symbol, Range<usize>)>,
    /// The first use of each value that its graph does not define.
    pub(super) undefined: Vec<Range<usize>>,
    /// Whether a skipped statement may define values.
    pub(super) lost_definitions: bool,
}

impl Parser<'_> {
    /// Adds the other findings about a file to its errors, in the order of the text.
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

    /// Records, at the end of a graph, the values that it uses without defining them.
    pub(super) fn note_undefined(&mut self) {
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        let early = std::mem::take(&mut frame.early);
        let undefined = early.into_iter().filter(|(value, _)| frame.graph.definer(*value).is_none());
        self.mentions.undefined.extend(undefined.map(|(_, span)| span));
    }

    /// Defines the outputs of a node that could not be parsed, so that their uses cause no further
    /// errors. The graph is not used.
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
