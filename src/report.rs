//! What became of a graph, told to people and tools.
//!
//! - [`pairing`] finds out which node of one graph is which of another
//! - [`listing`] prints it as the code of a register machine, [`dot_form`] as a drawing,
//!   [`python_form`] as TorchScript source, [`type_origins`] where its types come from
//! - [`changes`] says what happened to those that are not the same, and to those that have no partner

pub mod changes;
pub mod dot_form;
pub mod listing;
pub mod pairing;
pub mod python_form;
pub mod type_origins;

pub use changes::{Change, compare};
pub use pairing::Pairing;
