//! Elements picked, written and scattered by index or by mask.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
