//! Whether two graphs compute the same, and if not, whose fault it is.
//!
//! - [`sharing`] copies values with their aliasing, so that every run starts from the same memory
//! - [`showing`] is all that a run shows: results or an exception, what became of the inputs, what was printed
//! - `renaming` knows what values were called before passes renamed them
//! - [`budget`] says how far apart two results may be, by disturbing every node a little; [`verdict`] compares
//! - [`differentials`] runs a graph that was differentiated, forward and backward
//! - [`promises`] holds what a run makes against the types of the graph
//! - [`rewrites`] judges after each rewrite; [`bisecting`] finds those at fault, [`reducing`] makes a failing graph small
//! - [`recall`] keeps what was computed, so that after a rewrite only what changes is run
//! - [`shuffling`] puts nodes into another order that computes the same, to find passes that hang on the order
//! - [`unguarding`] tells what a graph with guards computes, without them
//! - [`tracing`] writes down what a run did, as a graph without control flow
//! - [`team`] searches on several cores, and finds what one would find

pub mod bisecting;
pub mod budget;
pub mod differentials;
pub mod promises;
pub mod recall;
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
