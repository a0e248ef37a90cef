//! Compiles kernels and runs them on tensors.
//!
//! - [`backend`] answers the interpreter when it comes to a fusion group: it runs a kernel, or says
//!   why the group runs unfused
//! - [`geometry`] maps operands into one iteration space and collapses its dimensions
//! - `division` makes a few kernels of a group that one cannot run
//! - `launch_plan` says how a group is launched on operands of some types, sizes and strides, and
//!   keeps that; `prepared_launch` runs it
//! - `destinations` is the memory that kernels write to: results, and totals of sums aside
//! - [`caches`] tells how large the caches are: results of large launches go past them
//! - [`toolchain`] finds a C compiler and runs it; [`disk_cache`] keeps what it made
//! - `launching` shares a launch out among threads, which `thread_pool` keeps
//! - [`loading`] opens what was compiled and calls it: the only room with `unsafe`, each block with
//!   its contract
//!
//! A kernel is known by its text, and the text by element types and access patterns, never by
//! sizes: a new shape compiles nothing. Whatever is missing on the way, a compiler, a formula, a
//! common shape, the interpreter runs the group as it is written.

pub mod backend;
pub mod caches;
mod destinations;
pub mod disk_cache;
mod division;
pub mod geometry;
mod launch_plan;
mod launching;
pub mod loading;
mod prepared_launch;
mod thread_pool;
pub mod toolchain;

pub use backend::{CpuBackend, Settings};
pub use prepared_launch::Prepared;
