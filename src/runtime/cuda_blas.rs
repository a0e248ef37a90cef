//! Products of matrices on a GPU, by cuBLAS.
//!
//! cuBLAS matrices are column-major, contiguous tensors are row-major: a contiguous tensor is the
//! transpose of what cuBLAS reads. So it computes `right^T @ left^T`, the transpose of the result.

#![allow(unsafe_code, reason = "calls of cuBLAS; each block says why it is sound")]

use super::cuda_device::{Device, DeviceMemory};
use super::cuda_launch::on_device;
use super::cuda_work::{Factor, Multiplication, Number, Work};
use super::library_calls::{Matrix, Product};
use crate::tensor::{DType, Precision, Scalar, Tensor};
use cudarc::cublas::result::{CublasError, create_handle, destroy_handle, set_stream};
use cudarc::cublas::sys::{cublasComputeType_t, cublasHandle_t, cudaDataType_t};
use std::cell::RefCell;
use std::rc::Rc;

/// cuBLAS on a device.
#[derive(Debug)]
pub(super) struct Blas {
    device: Rc<Device>,
    handle: cublasHandle_t,
    /// A column of ones of each element type: times a row it is a matrix of equal rows.
    ones: RefCell<Vec<Tensor>>,
}

/// Sizes and factors of a call.
struct Call {
    sizes: (i64, i64, i64, i64),
    left: Factor,
    right: Factor,
    to: usize,
    alpha: f64,
    beta: f64,
}

impl Blas {
    /// Begins to use it; the library is open, and has all functions.
    ///
    /// # Errors
    /// The error of cuBLAS or of the device.
    pub(super) fn open(device: &Rc<Device>) -> Result<Blas, String> {
        device.ready()?;
        let handle = create_handle().map_err(|error| failed("cuBLAS does not start", error))?;
        let blas = Blas { device: device.clone(), handle, ones: RefCell::default() };
        // SAFETY: the handle is cuBLAS's, the stream lives as long as the device.
        let set = unsafe { set_stream(handle, device.stream().cast()) };
        set.map_err(|error| failed("cuBLAS takes no stream", error))?;
        Ok(blas)
    }

    /// The memory of the result of a product, which has elements.
    ///
    /// # Errors
    /// The device has no memory left or has failed, or sizes are beyond 32 bits.
    pub(super) fn run(&self, product: &Product) -> Result<Rc<DeviceMemory>, String> {
        let elements = product.batches * product.rows * product.columns;
        let bytes = elements as usize * product.dtype.size();
        let memory = Rc::new(self.device.allocate(bytes)?);
        let beta = match &product.summand {
            Some(summand) => self.fill(&memory, summand, product).map(|()| product.beta)?,
            None => 0.0,
        };
        // Without terms a product is 0; what cuBLAS does then differs between versions.
        if product.depth == 0 {
            return match beta {
                0.0 => memory.clear().map(|()| memory),
                _ => Err("a product has no terms and a summand".to_owned()),
            };
        }
        let (left, _left) = self.factor(&product.left)?;
        let (right, _right) = self.factor(&product.right)?;
        let sizes = (product.batches, product.rows, product.columns, product.depth);
        let call = Call { sizes, left, right, to: memory.address(), alpha: product.alpha, beta };
        self.call(&call, product.dtype)?;
        self.device.clock.count(0, product.bytes());
        Ok(memory)
    }

    /// A factor on the device, and its memory, which has to live until the call.
    fn factor(&self, matrix: &Matrix) -> Result<(Factor, Rc<DeviceMemory>), String> {
        let tensor = &matrix.tensor;
        if tensor.storage().dtype() != tensor.dtype() {
            return Err(format!("the memory of a factor does not match its type {}", tensor.dtype().name()));
        }
        let memory = on_device(tensor, &self.device)?;
        let begin = tensor.offset().saturating_sub(tensor.storage().known().start) * tensor.dtype().size();
        let &Matrix { is_transposed, leading, step, .. } = matrix;
        Ok((Factor { address: memory.address() + begin, is_transposed, leading: small(leading)?, step }, memory))
    }

    /// Writes the summand to the memory of a result.
    fn fill(&self, memory: &DeviceMemory, summand: &Tensor, product: &Product) -> Result<(), String> {
        if summand.strides()[..2] == [0, 0] && summand.strides()[2] == 1 {
            let (ones, rows) = (self.ones(product)?, product.batches * product.rows);
            let row = Matrix {
                tensor: summand.narrow(0, 0, 1, 1).narrow(1, 0, 1, 1),
                is_transposed: false,
                leading: product.columns,
                step: 0,
            };
            let (right, _row) = self.factor(&row)?;
            let (left, _ones) = self.factor(&Matrix { tensor: ones, is_transposed: false, leading: 1, step: 0 })?;
            let sizes = (1, rows, product.columns, 1);
            let call = Call { sizes, left, right, to: memory.address(), alpha: 1.0, beta: 0.0 };
            return self.call(&call, product.dtype);
        }
        let whole = summand.contiguous();
        let (from, _memory) = self.factor(&Matrix { tensor: whole, is_transposed: false, leading: 0, step: 0 })?;
        // SAFETY: the summand is contiguous and as large as the result. Its memory goes to the pool
        // at the earliest, whose next user comes later on the stream.
        unsafe { memory.copy(from.address) }
    }

    /// A column of at least as many ones as a product has rows in all.
    fn ones(&self, product: &Product) -> Result<Tensor, String> {
        let (rows, dtype) = (product.batches * product.rows, product.dtype);
        let mut known = self.ones.borrow_mut();
        if let Some(found) = known.iter().find(|ones| ones.dtype() == dtype && ones.numel() >= rows as usize) {
            return Ok(found.clone());
        }
        known.retain(|ones| ones.dtype() != dtype);
        known.push(Tensor::full(Scalar::Int(1), dtype, &[rows], Precision::Typed));
        known.last().cloned().ok_or_else(|| "no memory".to_owned())
    }

    fn call(&self, call: &Call, dtype: DType) -> Result<(), String> {
        let (batches, rows, columns, depth) = call.sizes;
        let (elements, computed) = types(dtype);
        let multiplication = Multiplication {
            handle: self.handle,
            left: call.right,
            right: call.left,
            to: call.to,
            sizes: [small(columns)?, small(rows)?, small(depth)?, small(batches)?],
            alpha: number(call.alpha, dtype),
            beta: number(call.beta, dtype),
            elements,
            computed,
        };
        // SAFETY: the handle is cuBLAS's until `drop`; the factors were checked to lie within their
        // tensors when these were made, the result has `batches` matrices of that many rows and
        // columns. All memory is on the device, and goes to the pool at the earliest, whose next
        // user comes later on the stream.
        unsafe { self.device.queue(Work::Multiply(Box::new(multiplication))) }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.device.forget();
        let _ = self.device.ready();
        // SAFETY: the handle came from cuBLAS, and is used no more.
        let _ = unsafe { destroy_handle(self.handle) };
    }
}

/// A number of the type of a computation.
fn number(value: f64, dtype: DType) -> Number {
    if dtype == DType::Double { Number::Double(value) } else { Number::Float(value as f32) }
}

/// A size as cuBLAS takes it.
fn small(n: i64) -> Result<i32, String> {
    i32::try_from(n).map_err(|_| format!("a matrix has {n} rows or columns"))
}

/// The element type, and what is computed in: halves in floats, floats without shorter formats.
fn types(dtype: DType) -> (cudaDataType_t, cublasComputeType_t) {
    match dtype {
        DType::Double => (cudaDataType_t::CUDA_R_64F, cublasComputeType_t::CUBLAS_COMPUTE_64F),
        DType::Half => (cudaDataType_t::CUDA_R_16F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
        DType::BFloat16 => (cudaDataType_t::CUDA_R_16BF, cublasComputeType_t::CUBLAS_COMPUTE_32F),
        _ => (cudaDataType_t::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
    }
}

fn failed(what: &str, error: CublasError) -> String {
    format!("{what}: {error}")
}
