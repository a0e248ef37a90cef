//! The graph: blocks of nodes over values, edited in place.
//!
//! ```text
//! graph(%x : Tensor):                      Block  the root; its params are outputs of a hidden prim::Param
//!   %1 : int = prim::Constant[value=1]()   Node   kind, attributes, inputs, outputs, blocks
//!   %y : Tensor = aten::add(%x, %x, %1)    Value  type, name, definer, uses;  Use  one operand of one node
//!   return (%y)                            the results are inputs of a hidden prim::Return
//! ```
//!
//! Rows live in dense tables of the [`Graph`]; passes hold four-byte ids. Every edit goes through a
//! method of `Graph`, is O(1) or states its cost in its first line, bumps the [`Epoch`], and is
//! journaled in the lineage of the nodes it makes. A graph knows no schemas: unknown operators make
//! a legal graph.

mod assembly;
mod attribute;
mod copy;
mod edit;
mod graph;
mod journal;
mod label_plan;
mod lineage;
mod list_pool;
mod naming;
mod order;
mod survey;
mod text_pool;
mod token_stream;
mod usage;

pub use assembly::Sources;

pub(crate) use assembly::Blueprint;
pub use assembly::{NodeSource, TypeSource, ValueSource};
pub use attribute::{Attribute, Float, FloatStyle};
pub use copy::ValueMap;
pub use graph::{Block, Dialect, Graph, Layout, Node, Releases, Use, Value};
pub use graph::{Epoch, GraphId};
pub use journal::NameEdit;
pub(crate) use journal::{Comment, Journal};
pub(crate) use lineage::Iterations;
pub use lineage::{DrawPlace, Iteration, Lineage, LoopIterations};
pub use naming::Label;
pub(crate) use naming::as_number;
pub use survey::Survey;
pub(crate) use token_stream::hash_of_bytes;
pub use token_stream::{Detail, GraphWords, Unrepeatable};

#[cfg(test)]
mod model_test;
