//! The libraries of CUDA: the driver, NVRTC, which compiles kernels, and cuBLAS.
//!
//! Nothing is linked. A library is the one that a variable names, or the first with a usual name
//! that the loader finds; it stays open. `cudarc` panics where a library or a function is missing,
//! so both are looked up here before any of its functions is called; it finds the same library by
//! its name, as it is open already.

#![allow(unsafe_code, reason = "calls of libraries; each block says why it is sound")]

use cudarc::cublas::sys::libraryPropertyType_t as Property;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{DriverError, result};
use cudarc::{cublas, get_lib_name_candidates, nvrtc};
use libloading::Library;
use std::sync::Mutex;

/// A library of CUDA.
#[derive(Debug)]
struct Wanted {
    /// As text for people.
    what: &'static str,
    /// The variable that names it.
    variable: &'static str,
    /// The names of its files, without `lib` and `.so`.
    names: &'static [&'static str],
    /// The functions that are called.
    functions: &'static [&'static str],
    /// The advice for a library that is missing, and for one that is too old.
    missing: &'static str,
    old: &'static str,
}

const DRIVER: Wanted = Wanted {
    what: "the CUDA driver",
    variable: DRIVER_VARIABLE,
    names: &["cuda", "nvcuda"],
    functions: &DRIVER_FUNCTIONS,
    missing: "install NVIDIA's driver, or name its library in JITOPT_CUDA_DRIVER; \
              --backend=cuda-emulated and --backend=cpu need no GPU",
    old: "install a driver for CUDA 11.4 or newer",
};

const NVRTC: Wanted = Wanted {
    what: "NVRTC",
    variable: NVRTC_VARIABLE,
    names: &["nvrtc"],
    functions: &NVRTC_FUNCTIONS,
    missing: "`pip install nvidia-cuda-nvrtc` has it; name the library in JITOPT_NVRTC",
    old: "install NVRTC of CUDA 11.4 or newer",
};

const CUBLAS: Wanted = Wanted {
    what: "cuBLAS",
    variable: CUBLAS_VARIABLE,
    names: &["cublas"],
    functions: &[
        "cublasCreate_v2",
        "cublasDestroy_v2",
        "cublasSetStream_v2",
        "cublasGetProperty",
        "cublasGemmStridedBatchedEx",
    ],
    missing: "`pip install nvidia-cublas` has it; name the library in JITOPT_CUBLAS",
    old: "install cuBLAS of CUDA 11.4 or newer",
};

/// Names the driver's library.
pub const DRIVER_VARIABLE: &str = "JITOPT_CUDA_DRIVER";
/// Names NVRTC's library.
pub const NVRTC_VARIABLE: &str = "JITOPT_NVRTC";

/// Names cuBLAS's library.
pub const CUBLAS_VARIABLE: &str = "JITOPT_CUBLAS";

/// All of them are in drivers since CUDA 11.4. Errors are looked up by their numbers.
const DRIVER_FUNCTIONS: [&str; 35] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
];

const NVRTC_FUNCTIONS: [&str; 10] = [
    "nvrtcVersion",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcGetPTXSize",
    "nvrtcGetPTX",
    "nvrtcDestroyProgram",
];

/// An open library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, as it was named or as the system tells.
    pub path: String,
    /// `12.9`.
    pub version: (i32, i32),
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Its architecture: 9.0.
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub memory: usize,
    /// Processors, each of which runs several blocks.
    pub multiprocessors: i32,
    /// Bytes of the cache that all of them share.
    pub last_cache: usize,
}

/// The open libraries, by the variable that names them: a process has one of each.
static OPEN: Mutex<Vec<(&'static str, Option<String>, String)>> = Mutex::new(Vec::new());

impl Wanted {
    /// Opens it once per process; the path.
    fn open(&self, named: Option<&str>) -> Result<String, String> {
        // A panic leaves no state that matters here.
        let mut open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, before, path)) = open.iter().find(|row| row.0 == self.variable) {
            return match named.is_none() || before.as_deref() == named {
                true => Ok(path.clone()),
                false => Err(format!("{} is open already, as {path}", self.what)),
            };
        }
        let (library, path) = self.found(named)?;
        if let Some(missing) = self.functions.iter().find(|name| !has(&library, name)) {
            return Err(format!("{} ({path}) is too old: it has no `{missing}`; {}", self.what, self.old));
        }
        // `cudarc` opens it once more, by a name that the system knows it by: its SONAME.
        if !self.candidates().any(|name| opened(&name).is_ok()) {
            let names = self.names.join(" or ");
            return Err(format!("{} ({path}) has a SONAME that does not begin with lib{names}", self.what));
        }
        // It stays open, since `cudarc` keeps addresses of its functions.
        std::mem::forget(library);
        open.push((self.variable, named.map(str::to_owned), path.clone()));
        Ok(path)
    }

    /// The names that it is looked for under.
    fn candidates(&self) -> impl Iterator<Item = String> + '_ {
        self.names.iter().flat_map(|name| get_lib_name_candidates(name))
    }

    fn found(&self, named: Option<&str>) -> Result<(Library, String), String> {
        if let Some(path) = named {
            let why = |error| format!("{}: {} names {path}, which cannot be opened: {error}", self.what, self.variable);
            return opened(path).map(|library| (library, path.to_owned())).map_err(why);
        }
        let found = self.candidates().filter_map(|name| Some((opened(&name).ok()?, in_memory(&name)))).next();
        found.ok_or_else(|| format!("{} is not installed: {}", self.what, self.missing))
    }
}

fn opened(path: &str) -> Result<Library, String> {
    // SAFETY: opening a library runs its initialisers. This one is NVIDIA's, found by its own name,
    // or one that the user names for the purpose.
    unsafe { Library::new(path) }.map_err(|error| error.to_string())
}

fn has(library: &Library, function: &str) -> bool {
    // SAFETY: the address is only looked up, and never called.
    unsafe { library.get::<unsafe extern "C" fn()>(function.as_bytes()) }.is_ok()
}

/// The path of an open library, where the system lists those of a process.
fn in_memory(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let found = paths.into_iter().find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(name)));
    found.unwrap_or(name).to_owned()
}

/// A failure of the driver as text: `out of memory (CUDA_ERROR_OUT_OF_MEMORY)`.
pub(super) fn shown(error: DriverError) -> String {
    let name = format!("{:?}", error.0);
    let words = name.trim_start_matches("CUDA_ERROR_").to_lowercase().replace('_', " ");
    format!("{words} ({name})")
}

/// Opens the driver and starts it.
///
/// # Errors
/// What is missing, and what to do.
pub fn driver(named: Option<&str>) -> Result<Found, String> {
    let path = DRIVER.open(named)?;
    result::init().map_err(|error| format!("the CUDA driver ({path}) does not start: {}", shown(error)))?;
    let mut version = 0;
    // SAFETY: the driver is open and has the function, which writes one number.
    let answer = unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut version) };
    answer.result().map_err(|error| format!("the CUDA driver ({path}) has no version: {}", shown(error)))?;
    // 13020 is 13.2.
    let version = (version / 1000, version % 1000 / 10);
    if version < (11, 4) {
        let (major, minor) = version;
        return Err(format!("the CUDA driver ({path}) is too old: it is for CUDA {major}.{minor}; {}", DRIVER.old));
    }
    Ok(Found { path, version })
}

/// Whether the driver, which is open, gives the times between events: `cudarc` calls a function for
/// that which is younger than the others.
pub(super) fn measures_times() -> bool {
    let open = OPEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let driver = open.iter().find(|row| row.0 == DRIVER.variable);
    driver.and_then(|(_, _, path)| opened(path).ok()).is_some_and(|library| has(&library, "cuEventElapsedTime_v2"))
}

/// Opens NVRTC.
///
/// # Errors
/// What is missing, and what to do.
pub fn compiler(named: Option<&str>) -> Result<Found, String> {
    let path = NVRTC.open(named)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: NVRTC is open and has the function, which writes two numbers.
    let answer = unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) };
    answer.result().map_err(|error| format!("NVRTC ({path}) has no version: {error}"))?;
    Ok(Found { path, version: (major, minor) })
}

/// Opens cuBLAS.
///
/// # Errors
/// What is missing, and what to do.
pub fn blas(named: Option<&str>) -> Result<Found, String> {
    let path = CUBLAS.open(named)?;
    let part = |which| {
        let mut value = 0;
        // SAFETY: cuBLAS is open and has the function, which writes one number.
        let answer = unsafe { cublas::sys::cublasGetProperty(which, &mut value) };
        answer.result().map(|()| value).map_err(|error| format!("cuBLAS ({path}) has no version: {error}"))
    };
    let version = (part(Property::MAJOR_VERSION)?, part(Property::MINOR_VERSION)?);
    Ok(Found { path, version })
}

/// The GPUs that a driver which has started knows.
///
/// # Errors
/// What the driver says.
pub fn devices() -> Result<Vec<DeviceFacts>, String> {
    let count = result::device::get_count().map_err(|error| format!("GPUs cannot be counted: {}", shown(error)))?;
    let described = |number| facts(number).map_err(|error| format!("GPU {number} is not described: {}", shown(error)));
    (0..count).map(described).collect()
}

fn facts(number: i32) -> Result<DeviceFacts, DriverError> {
    let device = result::device::get(number)?;
    // SAFETY: the device is one of the driver's.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    Ok(DeviceFacts {
        name: result::device::get_name(device)?,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        // SAFETY: as above.
        memory: unsafe { result::device::total_mem(device)? },
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        last_cache: usize::try_from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?).unwrap_or(0),
    })
}
