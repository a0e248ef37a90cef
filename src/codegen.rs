//! Kernels of fusion groups, and their text in C.
//!
//! - [`kernel`] the loop nest: what is loaded, computed and stored at each point of an iteration space
//! - [`lowering`] makes one of a section and the element types of its operands: promotion is settled here
//! - [`staging`] cuts the computation into loops with one transcendental function each
//! - [`c_form`] writes it as C, each statement beside its IR line; [`prelude`] has the vector mathematics that it calls;
//!   [`whole_graph`] writes all kernels of a graph
//!
//! Nothing here knows sizes. A kernel is specialised by element types and by how each access moves along the innermost
//! dimension ([`kernel::Inner`]), so that a new shape needs no new text. The `runtime` finds those, compiles and launches.

pub mod c_form;
pub mod kernel;
pub mod lowering;
pub mod prelude;
pub mod staging;
pub mod whole_graph;
