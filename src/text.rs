//! The textual form of graphs.
pub mod extract;
