//! Python names for values: PyTorch's names, converted to identifiers that are unique in a
//! function.

use crate::ir::{Graph, Label, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Names that no value may have: keywords of Python, and words that have a special meaning for
/// PyTorch's reader (observed in 2.15).
const RESERVED: &[&str] = &[
    // Names that the code itself uses; `_` alone would not refer to anything.
    "_",
    "CONSTANTS",
    "__torch__",
    "aten",
    "attribute",
    "fork",
    "getattr",
    "inf",
    "infj",
    "nan",
    "nanj",
    "ops",
    "unchecked_cast",
    "uninitialized", //
    "False",
    "None",
    "True",
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "except",
    "finally",
    "for",
    "from",
    "global",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "nonlocal",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "try",
    "while",
    "with",
    "yield",
];

/// The names that are in use in a function.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    taken: FxHashSet<String>,
    /// For each used name, the next number to append.
    next: FxHashMap<String, usize>,
}

impl Identifiers {
    /// `wanted`, or `wanted` with a number appended.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        while self.taken.contains(&name) || RESERVED.contains(&name.as_str()) {
            // The number belongs to the colliding name, not to the wanted one: PyTorch counts in
            // this way.
            let number = self.next.entry(name).or_default();
            name = format!("{wanted}{number}");
            *number += 1;
        }
        self.taken.insert(name.clone());
        name
    }

    /// A name for a value: its own without the version number, `_0`, `_1`, … where it has none.
    pub(super) fn fresh_for(&mut self, graph: &Graph, value: Value) -> String {
        match graph.label(value) {
            Label::Number(_) => self.fresh("_"),
            Label::Text(text) => self.fresh(&as_identifier(base(text))),
        }
    }
}

/// A name without its version number: `x` of `x.1`.
pub(super) fn base(name: &[u8]) -> &[u8] {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match name[..name.len() - digits].strip_suffix(b".") {
        Some(base) if digits > 0 => base,
        _ => name,
    }
}

/// A name with underscores for all characters that an identifier cannot have; bytes count, not
/// characters.
fn as_identifier(name: &[u8]) -> String {
    let first = if name.first().is_none_or(u8::is_ascii_digit) { "_" } else { "" };
    let legal = |&byte: &u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' };
    first.chars().chain(name.iter().map(legal)).collect()
}

/// Whether a text is an identifier.
pub(super) fn is_identifier(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(legal) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_collide_as_in_pytorch() {
        let mut names = Identifiers::default();
        let given: Vec<String> = ["x", "x", "x", "_", "_", "x0", "in"].iter().map(|name| names.fresh(name)).collect();
        assert_eq!(given, ["x", "x0", "x1", "_0", "_1", "x00", "in0"]);
    }

    #[test]
    fn names_become_identifiers() {
        for (name, identifier) in
            [("x.1", "x"), ("self.fc.bias", "self_fc_bias"), ("a-b?", "a_b_"), ("1x", "_1x"), ("x.", "x_"), ("é", "__")]
        {
            assert_eq!(as_identifier(base(name.as_bytes())), identifier);
            assert!(is_identifier(identifier));
        }
    }
}
