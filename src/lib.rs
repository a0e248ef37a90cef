//! Core.
pub mod entity;
pub mod log;
pub mod ops;
pub mod symbol;
pub mod types;
pub mod ir;
pub mod text;
pub mod analysis;
