//! Compiles kernels and runs them on tensors.
//!
//! - [`backend`] is what the interpreter calls for a fusion group: it runs a kernel, or reports why
//!   the group runs unfused
//! - `division` splits a group that one kernel cannot run into a few kernels
//! - `launch_plan` determines how a group is launched on operands of given types, sizes and
//!   strides, and keeps that; `prepared_launch` runs it; `programs` are graphs whose memory is
//!   planned for arguments of a specification
//! - `destinations` is the memory that kernels write to: results, and accumulators of column
//!   reductions
//! - [`caches`] determines the sizes of the caches: large launches write results with non-temporal
//!   stores
//! - [`toolchain`] finds a C compiler and runs it; [`disk_cache`] keeps compiled units
//! - `executing` is the memory of launches that run without a compiler, as a nest is executed
//! - `engine` is the table of ways to run kernels; `emulated_launch` runs the text for GPUs on a
//!   processor that emulates blocks of threads, which get a `device_launch`
//! - [`ptx_compiler`] finds NVRTC or clang, and `ptx` interprets what that makes of the same text
//! - [`cuda_libraries`] finds the driver of GPUs and NVRTC, `cuda_compiler` compiles with NVRTC,
//!   `cuda_device` is a GPU in use, `cuda_launch` runs launches there, `cuda_clock` times them;
//!   `cuda_work` is what it does, and `cuda_graphs` finds sequences of that which repeat
//! - [`cubin`] reads registers and memory of kernels in machine code
//! - `cpu_products`, `cpu_convolutions` and `cpu_attention` compute library calls on the processor,
//!   with `kept_weights`; `library_calls`, `convolution_calls` and `attention_calls` read what is
//!   called
//! - [`sized_kernels`] are the kernels of a graph whose types have sizes, for predictions
//! - `fork_tasks` are bodies of forks that other threads may run, with `shared_kernels`;
//!   `counters` count
//! - `launching` distributes a launch over the threads of `thread_pool`
//! - [`loading`] opens compiled libraries and calls their functions; `unsafe` is there, in
//!   `cpu_*` and `cuda_*`, each block with its contract
//!
//! A kernel is identified by its source, and the source by element types and access patterns, never
//! by sizes: a new shape compiles nothing. Where anything is missing (a compiler, a formula, a
//! common shape) the interpreter runs the group as it is written.

#[cfg(test)]
mod agreement_test;
mod attention_calls;
pub mod backend;
mod buffer_numbers;
pub mod caches;
mod convolution_calls;
mod counters;
mod cpu_attention;
mod cpu_convolutions;
mod cpu_products;
pub mod cubin;
mod cuda_blas;
mod cuda_clock;
mod cuda_compiler;
mod cuda_device;
mod cuda_graphs;
mod cuda_launch;
pub mod cuda_libraries;
mod cuda_work;
mod destinations;
mod device_launch;
pub mod disk_cache;
mod division;
#[cfg(test)]
mod drawn_plan_test;
mod emulated_launch;
#[cfg(test)]
mod emulated_test;
mod engine;
mod executing;
mod followers;
mod fork_tasks;
#[cfg(test)]
mod forks_test;
mod kept_weights;
mod launch_plan;
mod launching;
mod library_calls;
pub mod loading;
pub mod memory_profile;
mod partial_sums;
#[cfg(test)]
mod plan_test;
mod prepared_launch;
mod programs;
mod ptx;
pub mod ptx_compiler;
#[cfg(test)]
mod ptx_test;
#[cfg(test)]
mod recorded_ptx_test;
#[cfg(test)]
mod repeated_runs_test;
mod section_reader;
mod shared_kernels;
pub mod sized_kernels;
mod square_launch;
#[cfg(test)]
mod square_test;
mod thread_pool;
pub mod toolchain;
mod wide_launch;

pub use backend::device_times::DeviceCopy;
pub use backend::{CpuBackend, PlannedMemory, Settings};
pub use cuda_clock::DeviceWork;
pub use cuda_device::Traffic;
pub use cuda_graphs::GraphPolicy;
pub use engine::Engine;
pub use prepared_launch::Prepared;
pub use ptx::access_counts::FunctionCounts;
pub use ptx_compiler::PtxCompiler;

/// The PTX of a text for GPUs, by NVRTC or clang, the one that is named or that is found.
///
/// # Errors
/// None is found, or what it says.
pub fn ptx_of_text(text: &str, nvrtc: Option<&str>, clang: Option<&str>) -> Result<String, String> {
    let cache = disk_cache::DiskCache::new(None);
    PtxCompiler::find(nvrtc, clang, &cache)?.compile(text, &cache, None)
}

/// The counts of instructions and accesses in the PTX of a text for GPUs, see [`ptx_of_text`].
///
/// # Errors
/// No compiler is found, what it says, or PTX that is not understood.
pub fn counts_of_text(text: &str, nvrtc: Option<&str>, clang: Option<&str>) -> Result<Vec<FunctionCounts>, String> {
    ptx::access_counts::counts(&ptx_of_text(text, nvrtc, clang)?)
}

/// The facts about kernels in the machine code of a text for GPUs.
///
/// # Errors
/// NVRTC is missing, or what it says.
pub fn resources_of_text(
    text: &str,
    architecture: &str,
    nvrtc: Option<&str>,
) -> Result<Vec<cubin::KernelResources>, String> {
    cuda_libraries::compiler(nvrtc)?;
    cubin::resources(&cuda_compiler::cubin(text, architecture)?)
}
