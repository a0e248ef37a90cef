//! Operators that treat all elements alike.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
