//! Numbers outside of tensors, with the rules of Python or of C, whichever PyTorch follows.

use crate::interpreter::library::Row;

/// The rows.
pub const ROWS: &[Row] = &[];
