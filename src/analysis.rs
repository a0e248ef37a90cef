//! Analyses of a graph: which values may share memory, which nodes write to it, and which nodes may
//! be reordered.
//!
//! ```
//! use jitopt_core::{analysis::AliasDb, text};
//!
//! let text = b"graph(%x : Tensor):\n  %1 : int = prim::Constant[value=1]()\n  %y : Tensor = aten::neg(%x)\n  \
//!     %z : Tensor = aten::add_(%y, %1, %1)\n  return (%z)\n";
//! let graph = text::parse(text, text::ParseOptions::default()).expect("a graph").graph;
//! let db = AliasDb::new(&graph);
//! let value = |name: &[u8]| graph.value_named(name).expect("a name of the graph");
//! assert!(db.may_alias(value(b"y"), value(b"z")) && !db.may_alias(value(b"x"), value(b"z")));
//! assert!(db.has_writers(value(b"y")) && !db.has_writers(value(b"x")));
//! ```
//!
//! An analysis is computed once and kept as long as the computation does not change, never per
//! rewrite: [`AliasDb::is_current`] decides. Nothing here edits a graph, except that [`moves`]
//! moves nodes.

pub mod alias;
mod alias_dump;
pub mod axis_maps;
pub mod differentiability;
pub mod fingerprints;
pub mod grad_mode;
pub mod gradient_claims;
pub mod gradient_roles;
pub mod inference;
mod locations;
pub mod matching;
mod memory;
pub mod moves;
pub mod mutations;
pub mod reduced_dims;
mod transfer;
mod transfer_plan;
mod type_classes;

pub use alias::AliasDb;
pub use locations::Location;

#[cfg(test)]
mod alias_model_test;
#[cfg(test)]
mod alias_test;
