//! Operands of `shape_coverage.rs` that neither the generator nor `gradient_operands.rs` has; the
//! words are the same.

/// Kinds, and a word for each operand.
pub const OPERANDS: &[(&str, &str)] = &[];
