//! Order: sort, top-k, medians, unique.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
