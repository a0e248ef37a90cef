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

pub use assembly::{Blueprint, NodeSource, Sources, TypeSource, ValueSource};
pub use attribute::{Attribute, Float, FloatStyle};
pub use copy::ValueMap;
pub use graph::{Block, Dialect, Epoch, Graph, GraphId, Layout, Node, Releases, Use, Value};
pub use journal::{Comment, Journal, NameEdit};
pub use lineage::{DrawPlace, Iteration, Iterations, Lineage, LoopIterations};
pub use naming::Label;
pub(crate) use naming::as_number;
pub use survey::Survey;
pub use token_stream::{Detail, GraphWords, Unrepeatable, hash_of_bytes};

#[cfg(test)]
mod model_test;
