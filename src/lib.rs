//! Core.
pub mod entity;
pub mod ir;
pub mod log;
pub mod ops;
pub mod symbol;
pub mod text;
pub mod types;
