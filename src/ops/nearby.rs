//! Operators that PyTorch does not have, and operators with similar names.

use super::declared::Declared;
use super::{catalog, names_section, operator};
use crate::symbol::Symbol;
use crate::types::era::Era;
use std::collections::BTreeSet;

/// Whether any known release has this operator, or it is the name of a section.
pub(crate) fn is_known(kind: Symbol) -> bool {
    Era::ALL.iter().any(|&era| operator(era, kind).is_known() || names_section(era, kind))
}

/// Whether a kind belongs to PyTorch's own namespaces, where no library registers operators.
pub(crate) fn is_pytorchs(kind: Symbol) -> bool {
    ["aten::", "prim::"].iter().any(|space| kind.as_str().starts_with(space))
}

/// The operators with names at edit distance one, `aten::real` or `aten::relu` for `aten::realu`,
/// as a readable list; those of `era` are searched first.
pub(crate) fn suggestion(era: Era, kind: Symbol) -> Option<String> {
    /// The maximal number of suggestions.
    const SUGGESTED: usize = 3;
    let name = kind.as_str();
    let lists = [catalog::list(era), catalog::LIST_PRIM, catalog::LIST_BETWEEN, catalog::list(era.other())];
    let declared = Declared::current().kinds().into_iter().map(|kind| kind.as_str());
    let all = lists.into_iter().flat_map(str::lines).map(catalog::key).chain(declared);
    let found: BTreeSet<&str> = all.filter(|known| is_close(name, known)).collect();
    let found: Vec<String> = found.into_iter().take(SUGGESTED).map(|known| format!("`{known}`")).collect();
    (!found.is_empty()).then(|| found.join(" or "))
}

/// Whether one letter was added, lost or mistaken, or two were swapped, after the namespace.
fn is_close(name: &str, known: &str) -> bool {
    /// Shorter names are similar to too many.
    const SHORTEST: usize = 4;
    let (a, b) = (name.as_bytes(), known.as_bytes());
    let short = |text: &str| text.split_once("::").map_or(0, |(_, short)| short.len());
    if a.len().abs_diff(b.len()) > 1 || short(name) < SHORTEST || short(known) < SHORTEST {
        return false;
    }
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[prefix..], &b[prefix..]);
    let suffix = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let differs = |text: &[u8]| text.len() - prefix - suffix;
    let swapped = differs(a) == 2 && differs(b) == 2 && rest_a[0] == rest_b[1] && rest_a[1] == rest_b[0];
    prefix >= name.find("::").map_or(0, |at| at + 2) && (differs(a).max(differs(b)) <= 1 || swapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_found_and_two_are_not() {
        for (name, found) in [
            ("aten::realu", Some("`aten::real` or `aten::relu`")),
            ("aten::adddd", None),
            ("aten::aaddd", None),
            ("aten::sigmiod", Some("`aten::sigmoid`")),
            ("aten::addmmm", Some("`aten::addbmm` or `aten::addmm` or `aten::addmm_`")),
            ("aten::sofftmaxx", None),
            ("aten::", None),
            ("aten", None),
        ] {
            assert_eq!(suggestion(Era::V2, Symbol::new(name)).as_deref(), found, "{name}");
        }
    }
}
