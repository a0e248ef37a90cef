//! Kernels of fusion groups, and their C source.
//!
//! - [`kernel`] is the loop nest: what is loaded, computed and stored at each point of an iteration
//!   space
//! - [`lowering`] builds a kernel from a section and the element types of its operands; type
//!   promotion is resolved here
//! - [`expression`] parses formulas and recipes into trees, with what they cost; [`monoid`] has
//!   each reduction and scan as data: state, step, merge, finish
//! - [`kernel_plan`] chooses how the loops of a kernel run, as data that people edit, and says
//!   which choices are legal; [`loop_structure`] answers what the loops then compute
//! - [`geometry`] maps operands into one iteration space and collapses its dimensions; [`window`]
//!   has the elements under a sliding window as loads, with the positions that are in the padding
//! - [`nest`] is a kernel under a plan as a list of statements, with a verifier, an executor and an
//!   identity; [`number_type`] has the types that it computes in, [`arithmetic`] and
//!   [`mathematics`] compute as compiled C does
//! - [`c`] prints nests as C, each statement with its IR line as a comment, and [`c_units`] units
//!   of them; [`c_spelling`] spells types and conversions, [`prelude`] is the vector mathematics
//!   that kernels call
//! - [`cuda`] prints nests of blocks of threads as CUDA C; `c_expressions`
//!   and `source_lines` are what both printers share; [`column_totals`] has the second launch
//!   of column reductions
//! - [`target`] is the table of what kernels can be made for: `cpu` and `cuda`
//! - [`cost_model`] predicts how long a kernel takes on a machine of the table in [`devices`], and
//!   [`search`] looks for the plan that takes least
//! - [`whole_graph`] is about all kernels of a graph: its unit of source, its nests, its plans
//!
//! Sizes are unknown here. A kernel is specialised by element types and by its access patterns
//! ([`kernel::Traversal`]), so that a new shape needs no new source. The `runtime` determines
//! those, compiles and launches.

pub mod arithmetic;
pub mod c;
mod c_expressions;
mod c_loops;
pub mod c_spelling;
pub mod c_units;
pub mod column_totals;
pub mod cost_model;
pub mod cuda;
pub mod devices;
pub mod expression;
pub mod geometry;
pub mod kernel;
pub mod kernel_plan;
pub mod launched_functions;
pub mod loop_structure;
pub mod lowering;
pub mod mathematics;
pub mod monoid;
pub mod nest;
pub mod number_type;
pub mod prelude;
pub mod search;
mod source_lines;
pub mod target;
pub mod text_lines;
pub mod whole_graph;
pub mod window;
