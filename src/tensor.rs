//! Tensors: strided views of shared storage.
//!
//! A [`Tensor`] is a shape, strides and an offset into a [`Storage`](storage::Storage) that other tensors may look into as well: a write
//! through one is seen by all. Strides may be 0 (one element stands for many) and are counted in elements. Device and
//! `requires_grad` are notes that programs can ask for; everything is in main memory.
//!
//! - [`dtype`] the element types, [`buffer`] rows of elements and the three types that computing is done in
//! - [`storage`] memory and where it is, [`strided`] the tensor itself and its views, [`layout`] shapes and strides
//! - [`blocks`] walks over one or several tensors in blocks of wide numbers, [`gemm`] products of matrices, [`promotion`] the type of a result
//! - [`quantizer`] what the integers of quantised tensors stand for

pub mod blocks;
pub mod buffer;
pub mod dtype;
pub mod gemm;
pub mod layout;
pub mod promotion;
pub mod quantizer;
pub mod storage;
pub mod strided;

pub use buffer::{C128, Precision};
pub use dtype::{DType, Kind};
pub use layout::Dims;
pub use quantizer::Quantizer;
pub use storage::Device;
pub use strided::{Scalar, Tensor};
