//! Decides whether two graphs compute the same, and finds the rewrite that is at fault if not.
//!
//! - [`sharing`] copies values with their aliasing, so that every run starts from the same memory
//! - [`showing`] is the observable behaviour of a run: results or an exception, inputs after the
//!   run, printed text
//! - [`aligning`] finds where two unrelated graphs part, by the values that they compute
//! - `renaming` maps values to their names before passes renamed them
//! - [`budget`] computes how far apart two results may be, by perturbing every node a little;
//!   [`verdict`] compares
//! - [`differentials`] runs the forward and backward graphs of a differentiated graph
//! - [`promises`] checks the values of a run against the types of the graph
//! - [`rewrites`] compares after each rewrite; [`bisecting`] finds those at fault, [`reducing`]
//!   shrinks a failing graph
//! - `recall` caches computed values, so that after a rewrite only the affected nodes run
//! - [`shuffling`] reorders nodes legally, to find passes that depend on the order
//! - [`unguarding`] removes guards from a graph without changing its results
//! - [`tracing`] records a run as a graph without control flow
//! - [`team`] runs a search on several cores with the result of a sequential search

pub mod aligning;
pub mod bisecting;
pub mod budget;
pub mod differentials;
mod file_forms;
pub mod promises;
mod recall;
pub mod reducing;
mod renaming;
pub mod rewrites;
pub mod sharing;
pub mod showing;
pub mod shuffling;
pub mod smith;

pub mod team;
pub mod tracing;
pub mod unguarding;
pub mod verdict;

pub use showing::{Outcome, Settings};
pub use verdict::{Verdict, judge};
