//! Lists, dicts, strings: what Python does with them.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
