#![doc = include_str!("architecture.md")]

pub mod log;
pub mod entity;
pub mod symbol;
pub mod types;
pub mod ir;
pub mod ops;
pub mod text;
pub mod verify;
pub mod analysis;
pub mod pass;
