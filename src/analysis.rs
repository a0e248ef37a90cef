//! Analyses of a graph: which values may share memory, which nodes write to it, and which nodes may
//! be reordered.
//!
#![doc = "```ignore"]
#![doc = include_str!("analysis/aliasing_example.rs")]
#![doc = "```"]
//!
//! An analysis is computed once and kept as long as the computation does not change, never per
//! rewrite: [`AliasDb::is_current`] decides. Nothing here edits a graph, except that [`moves`]
//! moves nodes.

pub mod alias;
mod alias_dump;
#[cfg(test)]
mod aliasing_example;
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
