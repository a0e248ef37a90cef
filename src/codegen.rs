//! Kernels of fusion groups, and their C source.
//!
//! - [`kernel`] is the loop nest: what is loaded, computed and stored at each point of an iteration
//!   space
//! - [`lowering`] builds a kernel from a section and the element types of its operands; type
//!   promotion is resolved here
//! - [`schedule`] splits the computation into loops: values computed once per row, values that
//!   depend on a reduction, and one transcendental function per loop
//! - [`c_form`] emits C, each statement with its IR line as a comment; [`expressions`] holds the
//!   expressions, [`prelude`] the vector mathematics that they call; [`whole_graph`] emits all
//!   kernels of a graph
//!
//! Sizes are unknown here. A kernel is specialised by element types and by its access patterns
//! ([`kernel::Traversal`]), so that a new shape needs no new source. The `runtime` determines
//! those, compiles and launches.

pub mod c_form;
pub mod expressions;
pub mod kernel;
pub mod lowering;
pub mod prelude;
pub mod schedule;
pub mod whole_graph;
