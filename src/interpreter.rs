//! The interpreter: runs graphs, as the reference for passes and kernels.
//!
//! It implements PyTorch's eager semantics in the most direct correct way: views share memory,
//! writes are visible through all of them, types promote, integers wrap, NaN propagates. It shares
//! no code with the rewrite rules and kernels that it judges.
//!
//! - [`ivalue`] run-time values, [`literal_values`] values of literals, [`exact_literals`] literals
//!   of values
//! - [`machine`] steps through blocks with a stack of its own, and offers sections to a [`Backend`]
//!   first if there is one; [`plan`] is made once per graph: the kernel of each node, and the
//!   values without later uses
//! - [`call`] is the interface of a kernel; [`library`] finds the kernel of a kind; `operators/`
//!   has one file per family
//! - [`stop`] the reason why a run ended early; [`random`] the draws of random operators;
//!   [`environment`] the settings and side effects of a run
//! - [`content_names`] names of contents that the text does not show, wherever passes move them
//! - [`shown_values`] values as `print` shows them, `tensor_format` tensors among them
//! - [`files`] tensors in files, [`description`] values in JSON, [`comparison`] comparison of
//!   values within tolerances
//! - `parcel` values for another thread
//! - [`resumption`] the point at which a run continues after it leaves its graph
//! - [`profile`] tensor types observed at profiling nodes
//! - [`generator`] generates inputs that a graph runs on; [`sketch`] values without their numbers,
//!   [`tailoring`] constraints of layers on their weights, [`usage_hints`] constraints from the
//!   uses of a value; [`effort`] the amount of work of a run
//!
//! `interpreter/coverage.md` has a table of operators and element types: observed, run, refused.
//!
#![doc = "```ignore"]
#![doc = include_str!("interpreter/running_example.rs")]
#![doc = "```"]

pub mod call;
pub mod comparison;
pub mod content_names;
pub mod description;
pub mod effort;
pub mod environment;
pub mod exact_literals;
pub mod files;
pub mod generator;
pub mod ivalue;
pub mod library;
pub mod literal_values;
pub mod machine;
pub mod operators;
pub(crate) mod parcel;
pub mod plan;
pub mod profile;
pub mod random;
pub mod release_semantics;
pub mod resumption;
#[cfg(test)]
mod running_example;
pub mod shown_values;
pub mod sketch;
pub mod specialization;
pub mod stop;
pub mod tailoring;
pub mod tensor_format;
#[cfg(test)]
mod tensor_format_test;
pub mod usage_hints;

pub use call::{Answer, Call, Outs};
pub use environment::{Environment, Release};
pub use ivalue::{EnumMember, ForkEffects, Future, IValue, Object, Running};
pub use machine::{Backend, Machine, Watch};
pub use stop::{Exception, Reason, Stop};
