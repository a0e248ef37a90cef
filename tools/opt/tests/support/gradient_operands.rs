//! Operands for operators that random generation does not find, from their rows.
//!
//! A line has a word for each formal parameter in order: a shape (`2x3`; `long:`, `bool:` and
//! `zeros:` before it), a list of shapes (`list:long:3,none`) or a constant (`int:1`, `none`).
//! `made:KIND(A|B)` is the result of a node on operands.

use jitopt_core::ops::rows::{self, Operands};
use jitopt_core::symbol::Symbol;

/// The operands of calls of a kind.
pub fn called(kind: &str) -> &'static [&'static str] {
    lines(kind, |operands| operands.called)
}

/// More operands of a kind, for shapes only.
pub fn shaped(kind: &str) -> &'static [&'static str] {
    lines(kind, |operands| operands.shaped)
}

fn lines(kind: &str, of: impl Fn(Operands) -> &'static [&'static str]) -> &'static [&'static str] {
    rows::row(Symbol::new(kind)).and_then(|row| row.operands.known()).map_or(&[], of)
}
