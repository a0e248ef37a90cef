//! Tensors: strided views of shared storage.
//!
//! A [`Tensor`] is a shape, strides and an offset into a [`Storage`](storage::Storage) that other
//! tensors may share: a write through one is visible through all. Strides may be 0 (one element is
//! broadcast) and are counted in elements. Device and `requires_grad` are properties that programs
//! can query; all data is in main memory.
//!
//! - [`dtype`] the element types, [`buffer`] contiguous elements and the three types of arithmetic
//! - [`storage`] memory and its location, [`strided`] the tensor itself and its views, [`layout`]
//!   shapes and strides
//! - [`blocks`] traversal of one or several tensors in blocks of wide numbers, [`gemm`] matrix
//!   products, [`promotion`] the type of a result
//! - `memory_plan` plans which results of a run share a buffer
//! - `spare_memory` is the memory of earlier results, for later ones
//! - [`shared_elements`] elements in memory of their own, or in a mapped file
//! - [`quantizer`] the numbers that the integers of quantised tensors represent

pub mod blocks;
pub mod buffer;
pub mod dtype;
pub mod elsewhere;
pub mod gemm;
pub mod layout;
pub(crate) mod memory_plan;
pub mod promotion;
pub mod quantizer;
pub mod shared_elements;
pub(crate) mod spare_memory;
pub mod storage;
pub mod strided;

pub use buffer::{C128, Precision};
pub use dtype::{DType, Kind};
pub use layout::Dims;
pub use quantizer::Quantizer;
pub use storage::Device;
pub use strided::{Scalar, Tensor};
