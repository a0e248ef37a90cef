//! Tensors out of nothing: zeros, ranges, identity, tensors from lists.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
