//! Core.
pub mod log;
pub mod text;
