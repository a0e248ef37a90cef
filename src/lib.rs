//! Core.
pub mod entity;
pub mod log;
pub mod ops;
pub mod symbol;
pub mod types;
