//! Unknown operators that look like a slip of the pen.

use super::typing::{Complaint, Part};
use crate::ops::declared::Declared;
use crate::ops::{Operator, catalog, names_section};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Looking through all operators costs a tenth of a millisecond: so many unknown kinds are looked at.
const LOOKED_AT: u32 = 200;

/// Finds them.
#[derive(Default)]
pub(super) struct Misspellings {
    seen: Cell<u32>,
}

impl Misspellings {
    /// What is to be said of an operator without schema.
    pub(super) fn check(&self, unknown: &Operator) -> Vec<Complaint> {
        let kind = unknown.kind.as_str();
        if unknown.is_known() || kind.starts_with('^') || self.seen.get() >= LOOKED_AT {
            return Vec::new();
        }
        self.seen.set(self.seen.get() + 1);
        let (message, help) = if is_section(unknown) {
            (format!("there is no section `{kind}`"), format!("expected `with {kind} = graph(…):` behind the graph"))
        } else if let Some(close) = close(unknown) {
            (format!("`{kind}` is not an operator of PyTorch"), format!("did you mean {close}?"))
        } else {
            return Vec::new();
        };
        vec![Complaint { part: Part::Node, message, note: None, help: Some(help) }]
    }
}

/// `prim::FusionGroup_0` stays the name of an operator when no section is called that.
fn is_section(unknown: &Operator) -> bool {
    names_section(unknown.era, unknown.kind)
}

/// The operators whose names are one slip away: `aten::real` or `aten::relu` for `aten::realu`.
fn close(unknown: &Operator) -> Option<String> {
    /// Suggestions made at most.
    const SUGGESTED: usize = 3;
    let name = unknown.kind.as_str();
    let lists = [catalog::list(unknown.era), catalog::LIST_PRIM, catalog::list(unknown.era.other())];
    let declared = Declared::current().kinds().into_iter().map(|kind| kind.as_str());
    let all = lists.into_iter().flat_map(str::lines).map(catalog::key).chain(declared);
    let found: BTreeSet<&str> = all.filter(|known| is_close(name, known)).collect();
    let found: Vec<String> = found.into_iter().take(SUGGESTED).map(|known| format!("`{known}`")).collect();
    (!found.is_empty()).then(|| found.join(" or "))
}

/// Whether one letter was added, lost or mistaken, or two were swapped, behind the namespace.
fn is_close(name: &str, known: &str) -> bool {
    /// Shorter names are close to too many.
    const SHORTEST: usize = 4;
    let (a, b) = (name.as_bytes(), known.as_bytes());
    let short = |text: &str| text.split_once("::").map_or(0, |(_, short)| short.len());
    if a.len().abs_diff(b.len()) > 1 || short(name) < SHORTEST || short(known) < SHORTEST {
        return false;
    }
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let longer = a.len().max(b.len());
    prefix >= name.find("::").map_or(0, |at| at + 2)
        && prefix + suffix + 2 >= longer
        && is_one_edit(a, b, prefix, suffix)
}

fn is_one_edit(a: &[u8], b: &[u8], prefix: usize, suffix: usize) -> bool {
    let is_swapped = || a.get(prefix) == b.get(prefix + 1) && a.get(prefix + 1) == b.get(prefix);
    prefix + suffix + 1 >= a.len().max(b.len()) || a.len() == b.len() && is_swapped()
}
