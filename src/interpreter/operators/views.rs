//! Other views of the same memory.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
