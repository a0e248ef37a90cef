//! Core.
pub mod entity;
pub mod log;
pub mod symbol;
pub mod types;
