//! Operators that only backward graphs call.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
