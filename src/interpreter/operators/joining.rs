//! Tensors put together and taken apart.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
