//! Runs graphs: the oracle that passes and kernels are judged by.
//!
//! Eager semantics of PyTorch, computed the plainest way that is right: views share memory, writes are seen through all of
//! them, types promote, integers wrap, NaN goes where it goes. Nothing here is shared with the rewrite rules and kernels
//! that are judged.
//!
//! - [`ivalue`] what flows along the edges, [`literal_values`] how literals become it, [`exact_literals`] the way back
//! - [`machine`] steps through blocks with a stack of its own, and asks a [`Backend`] first where there is one; [`plan`] is made once per graph: which kernel a node runs, and
//!   which values nobody reads after it
//! - [`call`] is what a kernel gets; [`library`] finds the kernel of a kind; `operators/` has one file per family
//! - [`stop`] why a run ended early; [`random`] the draws of random operators; [`environment`] what holds for a run
//! - [`content_names`] what contents are called that the text does not show, wherever passes put them
//! - [`shown_values`] values as `print` shows them, `tensor_format` tensors among them
//! - [`files`] tensors in files, [`description`] values in JSON, [`comparison`] whether two are near enough
//! - [`resumption`] where a run goes on that leaves its graph
//! - [`profile`] what tensors came by where a graph looks at them
//! - [`generator`] makes up inputs that a graph runs on; [`sketch`] what they are but for their numbers, [`tailoring`] what layers
//!   want of their weights, [`usage_hints`] what uses say of a value; [`effort`] how much work a run is
//!
//! `interpreter/coverage.md` has a table of operators and element types: met, run, refused.
//!
//! ```
//! use jitopt_core::interpreter::{Environment, IValue, Machine};
//! use jitopt_core::text::{ParseOptions, parse};
//!
//! let text = b"graph(%n : int):\n  %m : int = aten::add(%n, %n)\n  return (%m)\n";
//! let parsed = parse(text, ParseOptions::default()).expect("it is a graph");
//! let environment = Environment::default();
//! let results = Machine::new(&parsed.graph, &environment).run(vec![IValue::Int(21)]).expect("it runs");
//! assert!(matches!(results[..], [IValue::Int(42)]));
//! ```

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
pub mod plan;
pub mod profile;
pub mod random;
pub mod release_semantics;
pub mod resumption;
pub mod shown_values;
pub mod sketch;
pub mod specialization;
pub mod stop;
pub mod tailoring;
mod tensor_format;
#[cfg(test)]
mod tensor_format_test;
pub mod usage_hints;

pub use call::{Answer, Call, Outs};
pub use environment::{Environment, Release};
pub use ivalue::IValue;
pub use machine::{Backend, Machine, Watch};
pub use stop::{Exception, Reason, Stop};
