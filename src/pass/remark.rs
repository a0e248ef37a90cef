//! Remarks: rewrites that passes performed and missed, for tools and people.

use std::fmt;

/// The kind of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkKind {
    /// A rewrite happened.
    Passed,
    /// A desirable rewrite did not happen.
    Missed,
}

/// One remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The kind.
    pub kind: RemarkKind,
    /// Short name of the pass.
    pub pass: &'static str,
    /// The rule.
    pub rule: &'static str,
    /// The node, as it prints.
    pub node: String,
    /// The source location in the model.
    pub location: Option<String>,
    /// The reason; empty when the rule is self-explanatory.
    pub message: String,
}

impl RemarkKind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RemarkKind::Passed => "passed",
            RemarkKind::Missed => "missed",
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remark { kind, pass, rule, node, .. } = self;
        let at = self.location.as_deref().map_or(String::new(), |at| format!("{at}: "));
        write!(f, "{at}{}: {pass}.{rule}: {node}", kind.name())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}
