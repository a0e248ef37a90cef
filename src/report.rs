//! Reports about a graph, for people and tools.
//!
//! - [`pairing`] finds the corresponding nodes of two graphs
//! - [`listing`] prints a graph as the code of a register machine, [`dot_form`] as a drawing,
//!   [`python_form`] as TorchScript source, [`type_origins`] with the origins of its types
//! - [`line_changes`] compares texts by lines and words
//! - [`changes`] reports differences between corresponding nodes, and nodes without a partner

pub mod changes;
pub mod dot_form;
pub mod line_changes;
pub mod listing;
pub mod pairing;
pub mod python_form;
pub mod type_origins;

pub use changes::{Change, compare};
