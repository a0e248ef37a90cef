//! Borders around tensors.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
