//! Compilers that make PTX of kernels for GPUs: NVRTC, or clang, which needs no CUDA installation.
//!
//! ```text
//! JITOPT_CLANG=clang-16     this clang, also if NVRTC is there
//! JITOPT_NVRTC=…            this library
//! neither                   NVRTC if the loader finds it, else the first clang on the path
//! ```

use super::cuda_compiler;
use super::cuda_libraries;
use super::disk_cache::DiskCache;
use super::toolchain::{finished, located};
use std::process::Command;
use std::time::Instant;

/// Names the clang that makes PTX.
pub const CLANG_VARIABLE: &str = "JITOPT_CLANG";

/// Declarations of the CUDA words that kernels use, for clang.
const HEAD: &str = include_str!("ptx_clang.c");
/// Names of clang on the path, in the order in which they are tried.
const USUAL: [&str; 6] = ["clang", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16"];
/// Multiplications and additions are contracted where the text says so, and nowhere else.
const FLAGS: [&str; 13] = [
    "-x",
    "cuda",
    "--cuda-device-only",
    "-nocudainc",
    "-nocudalib",
    "--cuda-gpu-arch=sm_75",
    "-Xclang",
    "-target-feature",
    "-Xclang",
    "+ptx63",
    "-ffp-contract=off",
    "-O2",
    "-gline-tables-only",
];

/// A compiler that makes PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PtxCompiler {
    /// NVRTC, which is open.
    Nvrtc(cuda_libraries::Found),
    /// The program, and the first line of its `--version`.
    Clang(String, String),
}

impl PtxCompiler {
    /// The one that is named, or that is found.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub fn find(nvrtc: Option<&str>, clang: Option<&str>, cache: &DiskCache) -> Result<PtxCompiler, String> {
        if let Some(program) = clang {
            return clang_of(program, cache).map_err(|why| format!("JITOPT_CLANG names `{program}`: {why}"));
        }
        match cuda_libraries::compiler(nvrtc) {
            Ok(found) => Ok(PtxCompiler::Nvrtc(found)),
            Err(why) if nvrtc.is_some() => Err(why),
            Err(why) => {
                let usual = USUAL.iter().find_map(|program| clang_of(program, cache).ok());
                usual.ok_or_else(|| format!("{why}; clang 16 makes PTX, too, and JITOPT_CLANG names it"))
            }
        }
    }

    /// As text for people.
    pub fn name(&self) -> String {
        match self {
            PtxCompiler::Nvrtc(found) => format!("NVRTC {}.{}", found.version.0, found.version.1),
            PtxCompiler::Clang(program, version) => format!("{program} ({version})"),
        }
    }

    /// Distinguishes its output from that of others.
    pub(super) fn identity(&self) -> String {
        match self {
            PtxCompiler::Nvrtc(found) => cuda_compiler::ptx_identity(found),
            PtxCompiler::Clang(_, version) => format!("{version} {FLAGS:?}\n{HEAD}"),
        }
    }

    /// The PTX of a text.
    ///
    /// # Errors
    /// What the compiler says.
    pub(crate) fn compile(&self, text: &str, cache: &DiskCache, deadline: Option<Instant>) -> Result<String, String> {
        match self {
            PtxCompiler::Nvrtc(_) => cuda_compiler::ptx(text),
            PtxCompiler::Clang(program, _) => by_clang(program, text, cache, deadline),
        }
    }
}

/// The clang of a name, if it runs and prints its version.
fn clang_of(program: &str, cache: &DiskCache) -> Result<PtxCompiler, String> {
    located(program)?;
    let folder = cache.private_folder().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("--version");
    let (status, said) = finished(command, &folder.0, None)?;
    let version = said.lines().next().unwrap_or_default().to_owned();
    match status.success() && version.contains("clang") {
        true => Ok(PtxCompiler::Clang(program.to_owned(), version)),
        false => Err(format!("it is no clang: {version}")),
    }
}

fn by_clang(program: &str, text: &str, cache: &DiskCache, deadline: Option<Instant>) -> Result<String, String> {
    let folder = cache.private_folder().map_err(|error| format!("cannot create a folder to compile in: {error}"))?;
    let (unit, made) = (folder.0.join("unit.cu"), folder.0.join("unit.ptx"));
    let written = std::fs::write(&unit, format!("{HEAD}#line 1 \"kernels.cu\"\n{text}"));
    written.map_err(|error| format!("cannot write a unit: {error}"))?;
    let mut command = Command::new(program);
    command.args(FLAGS).args(["-S", "-o"]).arg(&made).arg(&unit);
    let (status, said) = finished(command, &folder.0, deadline)?;
    if !status.success() {
        let said: Vec<&str> = said.lines().take(12).collect();
        return Err(format!("{program} ended with {status}:\n  {}", said.join("\n  ")));
    }
    std::fs::read_to_string(&made).map_err(|error| format!("{program} made no PTX: {error}"))
}
