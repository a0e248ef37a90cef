//! Kernels of fusion groups, and their C source.
//!
//! - [`kernel`] is the loop nest: what is loaded, computed and stored at each point of an iteration
//!   space
//! - [`lowering`] builds a kernel from a section and the element types of its operands; type
//!   promotion is resolved here
//! - [`schedule`] splits the computation into loops: values computed once per row, values that
//!   depend on a reduction, and one transcendental function per loop
//! - [`expression`] parses formulas and recipes into trees, with what they cost
//! - [`c_form`] emits C, each statement with its IR line as a comment; [`c_spelling`] spells types
//!   and conversions, [`prelude`] is the vector mathematics that kernels call; [`whole_graph`]
//!   emits all kernels of a graph
//!
//! Sizes are unknown here. A kernel is specialised by element types and by its access patterns
//! ([`kernel::Traversal`]), so that a new shape needs no new source. The `runtime` determines
//! those, compiles and launches.

pub mod c_form;
pub mod c_spelling;
pub mod expression;
pub mod kernel;
pub mod loops;
pub mod lowering;
pub mod monoid;
pub mod plan;
pub mod prelude;
pub mod schedule;
pub mod whole_graph;
