//! Kernels of fusion groups, and their text in C.
//!
//! - [`kernel`] the loop nest: what is loaded, computed and stored at each point of an iteration
//!   space
//! - [`lowering`] makes one of a section and the element types of its operands: promotion is
//!   settled here
//! - [`schedule`] cuts the computation into loops: what is of a row, what waits for a fold, one
//!   transcendental function to a loop
//! - [`c_form`] writes it as C, each statement beside its IR line; [`expressions`] are the
//!   expressions in it, [`prelude`] the vector mathematics that it calls; [`whole_graph`] writes
//!   all kernels of a graph
//!
//! Nothing here knows sizes. A kernel is specialised by element types and by how it walks over its
//! space ([`kernel::Traversal`]), so that a new shape needs no new text. The `runtime` finds those,
//! compiles and launches.

pub mod c_form;
pub mod expressions;
pub mod kernel;
pub mod lowering;
pub mod prelude;
pub mod schedule;
pub mod whole_graph;
