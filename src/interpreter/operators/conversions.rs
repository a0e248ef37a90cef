//! Element type, device and layout of tensors, and what programs ask about them.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
