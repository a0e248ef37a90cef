//! Unknown operators that look like misspellings.

use super::finding::{Complaint, Part};
use crate::ops::{Operator, names_section, nearby};
use std::cell::Cell;

/// The number of unknown kinds looked at: a search through all operators costs a tenth of a
/// millisecond.
const LOOKED_AT: u32 = 200;

/// The search for misspelt operators.
#[derive(Default)]
pub(super) struct Misspellings {
    seen: Cell<u32>,
}

impl Misspellings {
    /// The findings about an operator without schema.
    pub(super) fn check(&self, unknown: &Operator) -> Vec<Complaint> {
        let kind = unknown.kind.as_str();
        if unknown.is_known() || kind.starts_with('^') || self.seen.get() >= LOOKED_AT {
            return Vec::new();
        }
        self.seen.set(self.seen.get() + 1);
        let (message, help) = if is_section(unknown) {
            (format!("there is no section `{kind}`"), format!("expected `with {kind} = graph(…):` after the graph"))
        } else if let Some(close) = nearby::suggestion(unknown.era, unknown.kind) {
            (format!("`{kind}` is not an operator of PyTorch"), format!("did you mean {close}?"))
        } else if nearby::is_pytorchs(unknown.kind) && !nearby::is_known(unknown.kind) {
            (
                format!("`{kind}` is not an operator of PyTorch"),
                "no release up to 2.15 has it: check the name".to_owned(),
            )
        } else {
            return Vec::new();
        };
        vec![Complaint { part: Part::Node, message, note: None, help: Some(help) }]
    }
}

/// `prim::FusionGroup_0` stays the name of an operator if no section has this name.
fn is_section(unknown: &Operator) -> bool {
    names_section(unknown.era, unknown.kind)
}
