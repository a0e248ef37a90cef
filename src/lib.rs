#![doc = include_str!("architecture.md")]

pub mod analysis;
pub mod entity;
pub mod interpreter;
pub mod ir;
pub mod lint;
pub mod log;
pub mod mutants;
pub mod ops;
pub mod pass;
pub mod report;
pub mod symbol;
pub mod tensor;
pub mod text;
pub mod translation;
pub mod types;
pub mod verify;
