//! What a stream of a GPU does, as data: launches, products, and memory that is cleared or copied.
//! Equal work does the same to the same memory.

#![allow(unsafe_code, reason = "calls of the driver and of cuBLAS; each block says why it is sound")]

use super::cuda_libraries::shown;
use super::device_launch::DeviceLaunch;
use cudarc::cublas::result::gemm_strided_batched_ex;
use cudarc::cublas::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cudaDataType_t};
use cudarc::driver::sys::{CUdeviceptr, CUfunction, CUstream};
use cudarc::driver::{DriverError, result};
use std::ffi::c_void;
use std::fmt;

/// A kernel of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Function(pub(super) CUfunction);

/// A piece of work.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    /// A kernel, its blocks and threads, and its parameter.
    Launch(Function, (u32, u32), Box<DeviceLaunch>),
    /// A product by cuBLAS.
    Multiply(Box<Multiplication>),
    /// Bytes are set to zero.
    Clear(CUdeviceptr, usize),
    /// Bytes are copied, to the first address.
    Copy(CUdeviceptr, CUdeviceptr, usize),
}

/// A call of cuBLAS: a batch of matrices, whose columns are contiguous.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Multiplication {
    pub(super) handle: cublasHandle_t,
    pub(super) left: Factor,
    pub(super) right: Factor,
    pub(super) to: usize,
    /// Rows and columns of a result, terms of an element, and matrices.
    pub(super) sizes: [i32; 4],
    pub(super) alpha: Number,
    pub(super) beta: Number,
    pub(super) elements: cudaDataType_t,
    pub(super) computed: cublasComputeType_t,
}

/// A factor as cuBLAS reads it: its address and distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factor {
    pub(super) address: usize,
    pub(super) is_transposed: bool,
    pub(super) leading: i32,
    pub(super) step: i64,
}

/// A number of the type of a computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Double(f64),
    Float(f32),
}

/// Why work could not be queued.
#[derive(Debug)]
pub(super) enum Failure {
    /// The driver refuses a step of it.
    Driver(&'static str, DriverError),
    /// A library does.
    Library(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Driver(what, error) => write!(f, "{what}: {}", shown(*error)),
            Failure::Library(why) => write!(f, "{why}"),
        }
    }
}

impl Work {
    /// The kernels that it launches, and products: clearing and copying memory is no launch.
    pub(super) fn launches(&self) -> u64 {
        u64::from(matches!(self, Work::Launch(..) | Work::Multiply(_)))
    }

    /// Queues it.
    ///
    /// # Safety
    /// The stream is of the context that is selected on this thread. Modules and handles are alive
    /// until the work is done, each kernel takes a launch, and all memory is the device's until
    /// then, as large as the work says.
    pub(super) unsafe fn enter(&self, stream: CUstream) -> Result<(), Failure> {
        match self {
            Work::Launch(function, (blocks, threads), launch) => {
                let mut parameters = [std::ptr::from_ref(&**launch).cast_mut().cast::<c_void>()];
                let (grid, block) = ((*blocks, 1, 1), (*threads, 1, 1));
                // SAFETY: the kernel has one parameter, which the driver copies; the caller
                // guarantees the rest.
                let entered = unsafe { result::launch_kernel(function.0, grid, block, 0, stream, &mut parameters) };
                entered.map_err(|error| Failure::Driver("a kernel is launched", error))
            }
            // SAFETY: as for the caller.
            Work::Multiply(call) => unsafe { call.enter() },
            &Work::Clear(memory, bytes) => {
                // SAFETY: the caller guarantees that the memory has as many bytes.
                let entered = unsafe { result::memset_d8_async(memory, 0, bytes, stream) };
                entered.map_err(|error| Failure::Driver("memory is cleared", error))
            }
            &Work::Copy(to, from, bytes) => {
                // SAFETY: the caller guarantees that both have as many bytes.
                let entered = unsafe { result::memcpy_dtod_async(to, from, bytes, stream) };
                entered.map_err(|error| Failure::Driver("memory is copied", error))
            }
        }
    }
}

impl Multiplication {
    /// Queues it on the stream of the handle.
    ///
    /// # Safety
    /// See [`Work::enter`].
    unsafe fn enter(&self) -> Result<(), Failure> {
        let (a, b, [m, n, k, batches]) = (self.left, self.right, self.sizes);
        // SAFETY: the caller guarantees handle and memory. Both numbers have the type of the
        // computation, and are read before the call returns.
        let entered = unsafe {
            gemm_strided_batched_ex(
                self.handle,
                operation(a),
                operation(b),
                m,
                n,
                k,
                self.alpha.address(),
                a.address as *const c_void,
                self.elements,
                a.leading,
                a.step,
                b.address as *const c_void,
                self.elements,
                b.leading,
                b.step,
                self.beta.address(),
                self.to as *mut c_void,
                self.elements,
                m,
                i64::from(m) * i64::from(n),
                batches,
                self.computed,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        entered.map_err(|error| Failure::Library(format!("cuBLAS computes no product: {error}")))
    }
}

impl Number {
    fn address(&self) -> *const c_void {
        match self {
            Number::Double(value) => std::ptr::from_ref(value).cast(),
            Number::Float(value) => std::ptr::from_ref(value).cast(),
        }
    }
}

fn operation(factor: Factor) -> cublasOperation_t {
    if factor.is_transposed { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N }
}
