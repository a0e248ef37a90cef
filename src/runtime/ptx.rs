//! Interprets PTX: what NVRTC, or clang, made of the text for GPUs.
//!
//! The emulation shows what a C compiler makes of the text; this is the output of the compiler that
//! GPUs get their code from. Arithmetic is fixed by the instructions (`mul.rn.f32` and the like),
//! so that results have the bits of a GPU.
//!
//! - `ptx_text` reads the text: declarations, labels, instructions
//! - `instructions` makes functions and slots of it
//! - `functions` and `ptx_conversions` are the arithmetic, on the values of `bits`
//! - `block_execution` runs blocks of threads, in the memory of `address_spaces`
//! - `access_counts` counts what a text has, without running it
//!
//! An instruction that is not known, an access outside of an operand, one whose size does not
//! divide its address, a write to an operand, threads that wait at different barriers: each is an
//! error with the line of PTX, and that of the source where `.loc` names it. Instructions that no
//! kernel is compiled to (atomic ones, calls, textures) are not known.

pub(super) mod access_counts;
mod address_spaces;
mod bits;
mod block_execution;
mod functions;
mod instructions;
mod ptx_conversions;
mod ptx_text;

pub(super) use address_spaces::{Bytes, Region};
pub(super) use block_execution::{Fault, Launch};

/// The entries of a text.
#[derive(Debug)]
pub struct PtxModule {
    entries: Vec<instructions::Entry>,
    /// The bytes of variables outside of entries.
    variables: Vec<u8>,
    /// Instructions of a launch from which on it is taken for one that does not end.
    pub(super) most_steps: u64,
}

/// Minutes: no launch that ends takes so many.
const MOST_STEPS: u64 = 1 << 33;

impl PtxModule {
    /// Reads a text.
    ///
    /// # Errors
    /// The line that is not understood, and why.
    pub(super) fn read(text: &str) -> Result<PtxModule, String> {
        let (entries, variables) = instructions::decoded(&ptx_text::read(text)?)?;
        Ok(PtxModule { entries, variables, most_steps: MOST_STEPS })
    }

    /// The number of an entry.
    ///
    /// # Errors
    /// There is none with this name.
    pub(super) fn entry(&self, name: &str) -> Result<usize, String> {
        let found = self.entries.iter().position(|entry| entry.name == name);
        found.ok_or_else(|| format!("the PTX has no entry `{name}`"))
    }

    /// Runs an entry. Returns how many instructions that took.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(super) fn run(&self, entry: usize, launch: Launch<'_>, regions: &[Region<'_>]) -> Result<u64, Fault> {
        let limits = (&self.variables[..], self.most_steps);
        block_execution::run(&self.entries[entry], limits, launch, regions)
    }
}
