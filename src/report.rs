//! What became of a graph, told to people and tools.
//!
//! - [`pairing`] finds out which node of one graph is which of another
//! - [`changes`] says what happened to those that are not the same, and to those that have no partner

pub mod changes;
pub mod pairing;

pub use changes::{Change, compare};
pub use pairing::Pairing;
