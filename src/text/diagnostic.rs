//! Diagnostics: the problem, its place in the text, and the remedy.

use std::ops::Range;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The text cannot be used.
    Error,
    /// PyTorch would accept the text; it is probably a mistake.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The bytes of the file that the finding is about.
    pub span: Range<usize>,
    /// The problem, without a full stop.
    pub message: String,
    /// The label at the caret: the expected token or construct.
    pub label: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, span, message: message.into(), label: label.into(), help: None }
    }

    /// A warning.
    pub(crate) fn warning(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message, label) }
    }

    /// The same diagnostic with advice.
    pub(crate) fn with_help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }
}
