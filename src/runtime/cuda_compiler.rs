//! NVRTC: compiles units of kernels to machine code for one architecture.
//!
//! To machine code and not to PTX, which drivers older than NVRTC refuse. PTX is what the
//! interpreter of `ptx` takes.

#![allow(unsafe_code, reason = "NVRTC is called; each block gives the reason why that is sound")]

use super::cuda_libraries::Found;
use cudarc::nvrtc::result::{NvrtcError, compile_program, create_program, destroy_program, get_program_log};
use cudarc::nvrtc::sys::{nvrtcGetCUBIN, nvrtcGetCUBINSize, nvrtcGetPTX, nvrtcGetPTXSize, nvrtcProgram, nvrtcResult};
use std::ffi::CString;

/// Multiplications and additions are contracted where the text says so, and nowhere else; functions
/// without a qualifier are for GPUs.
const OPTIONS: [&str; 2] = ["--fmad=false", "-default-device"];
/// The architecture of PTX: the oldest one that NVRTC still knows in every release since 11.
const PTX_ARCHITECTURE: &str = "compute_75";
/// PTX names the lines of the text.
const PTX_OPTIONS: [&str; 1] = ["-lineinfo"];
/// For texts with integers of 128 bits, which NVRTC knows since 11.5: sines of large doubles.
const WIDE_INTEGERS: (&str, &str) = ("__int128", "--device-int128");
/// Lines of the compiler's messages that are shown.
const MOST_LINES: usize = 12;

/// NVRTC, for an architecture.
#[derive(Debug)]
pub(super) struct CudaCompiler {
    architecture: String,
    version: (i32, i32),
    driver: (i32, i32),
}

/// Gives a program back.
struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: NVRTC made it, and this is its only owner.
        let _ = unsafe { destroy_program(self.0) };
    }
}

impl CudaCompiler {
    pub(super) fn new((found, driver): (&Found, &Found), (major, minor): (i32, i32)) -> CudaCompiler {
        CudaCompiler { architecture: format!("sm_{major}{minor}"), version: found.version, driver: driver.version }
    }

    /// Distinguishes its output from that of other versions, architectures and options.
    pub(super) fn identity(&self) -> String {
        format!("NVRTC {:?} {} {OPTIONS:?}", self.version, self.architecture)
    }

    /// The versions of driver and compiler, for failures: a driver may be too old for the code.
    pub(super) fn versions(&self) -> String {
        let ((major, minor), (for_major, for_minor)) = (self.version, self.driver);
        format!("NVRTC is of CUDA {major}.{minor}, the driver for {for_major}.{for_minor} and older")
    }

    /// The machine code of a unit.
    ///
    /// # Errors
    /// What NVRTC says.
    pub(super) fn compile(&self, text: &str) -> Result<Vec<u8>, String> {
        cubin(text, &self.architecture)
    }
}

/// The machine code of a unit for an architecture; NVRTC must be open.
///
/// # Errors
/// What NVRTC says.
pub(super) fn cubin(text: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let program = compiled(text, architecture, &[])?;
    let failed = |error| failed(architecture, error);
    let mut bytes = 0;
    // SAFETY: the program is compiled; the function writes one number.
    unsafe { nvrtcGetCUBINSize(program.0, &mut bytes) }.result().map_err(failed)?;
    let mut image = vec![0_u8; bytes];
    // SAFETY: as above; it writes as many bytes as it reported.
    unsafe { nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
    Ok(image)
}

/// Distinguishes PTX from that of other versions and options.
pub(super) fn ptx_identity(found: &Found) -> String {
    format!("NVRTC {:?} {PTX_ARCHITECTURE} {OPTIONS:?} {PTX_OPTIONS:?}", found.version)
}

/// The PTX of a unit; NVRTC must be open.
///
/// # Errors
/// What NVRTC says.
pub(super) fn ptx(text: &str) -> Result<String, String> {
    let program = compiled(text, PTX_ARCHITECTURE, &PTX_OPTIONS)?;
    let failed = |error| failed(PTX_ARCHITECTURE, error);
    let mut bytes = 0;
    // SAFETY: the program is compiled; the function writes one number.
    unsafe { nvrtcGetPTXSize(program.0, &mut bytes) }.result().map_err(failed)?;
    let mut image = vec![0_u8; bytes];
    // SAFETY: as above; it writes as many bytes as it reported, the last of which is 0.
    unsafe { nvrtcGetPTX(program.0, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
    let text: Vec<u8> = image.into_iter().take_while(|&c| c != 0).collect();
    String::from_utf8(text).map_err(|error| error.to_string())
}

fn failed(architecture: &str, error: NvrtcError) -> String {
    format!("NVRTC for {architecture}: {error}")
}

/// A text, compiled.
fn compiled(text: &str, architecture: &str, more: &[&str]) -> Result<Program, String> {
    let of_integers = text.contains(WIDE_INTEGERS.0).then_some(WIDE_INTEGERS.1);
    let text = CString::new(text).map_err(|error| error.to_string())?;
    let program = Program(create_program(&text, Some(c"kernels.cu")).map_err(|error| failed(architecture, error))?);
    let options: Vec<String> = [format!("--gpu-architecture={architecture}")]
        .into_iter()
        .chain(OPTIONS.iter().chain(more).chain(&of_integers).map(|&option| option.to_owned()))
        .collect();
    // SAFETY: the program was made above.
    match unsafe { compile_program(program.0, &options) } {
        Ok(()) => Ok(program),
        Err(error) => Err(failed(architecture, error) + &messages(&program, error)),
    }
}

/// The messages of the compiler about a text that it refuses.
fn messages(program: &Program, error: NvrtcError) -> String {
    if error.0 != nvrtcResult::NVRTC_ERROR_COMPILATION {
        return String::new();
    }
    // SAFETY: the program lives.
    let log = unsafe { get_program_log(program.0) }.unwrap_or_default();
    let bytes: Vec<u8> = log.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().take(MOST_LINES).fold(String::new(), |all, line| all + "\n  " + line)
}
