//! What holds a graph together: tuples, lists, attributes, checks of types, printing, raising.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
