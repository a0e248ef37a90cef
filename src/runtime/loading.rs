//! Opens compiled units and calls their kernels. All unsafe calls of compiled code are here.

#![allow(unsafe_code, reason = "compiled code is loaded and called; each block gives the reason why that is sound")]

use super::device_launch::{DeviceLaunch, Emulation};
use libloading::Library;
use std::path::Path;

/// The arguments of a kernel as C reads them: `jo_args` in `codegen/prelude.c`.
#[repr(C)]
#[derive(Debug)]
struct KernelArgs {
    /// See [`Arguments`].
    shape: *const i64,
    rank: i64,
    kept: i64,
    /// The tiles that the call computes.
    begin: i64,
    end: i64,
    data: *const *mut u8,
    strides: *const i64,
    floats: *const f64,
    integers: *const i64,
    stream: i64,
    prefetch: i64,
    columns: i64,
    /// See [`Part`].
    phase: i64,
    part: i64,
    parts: i64,
    found: *mut u8,
    bounds: *const i64,
}

/// A kernel, see [`crate::codegen::c_units`].
type Entry = unsafe extern "C" fn(*const KernelArgs);

/// The part of a call in a split reduction.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The phase of the launch.
    pub phase: i64,
    /// The index of the part.
    pub part: i64,
    /// The number of parts.
    pub parts: i64,
    /// The address of the states that all parts leave for the next phase.
    pub found: usize,
}

/// A loaded unit.
#[derive(Debug)]
pub(crate) struct Loaded {
    library: Library,
}

/// A kernel of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Function(Entry);

/// The entry of a kernel whose blocks of threads are emulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct EmulatedEntry(DeviceEntry);

/// See [`EmulatedEntry`].
type DeviceEntry = unsafe extern "C" fn(*mut Emulation, *const DeviceLaunch);

impl EmulatedEntry {
    /// Runs a launch.
    ///
    /// # Safety
    /// The library must be open, and no other thread may run a kernel of it. The emulation must
    /// point to as many stacks, regions and findings as it says, and each access of the launch must
    /// be within memory, as for [`Function::run`].
    pub(super) unsafe fn run(self, emulation: &mut Emulation, launch: &DeviceLaunch) {
        // SAFETY: the entry takes these two structures, and the caller guarantees the rest.
        unsafe { (self.0)(emulation, launch) }
    }
}

/// The arguments of a kernel. `Function::run` lists the requirements.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// Sizes of the iteration space, outermost first; at least one.
    pub shape: &'a [i64],
    /// The number of them that are traversed from tile to tile. The dimensions after them are those
    /// that a tile reduces, and its innermost dimension.
    pub kept: usize,
    /// Strides in elements, a row of `shape.len()` for each access.
    pub strides: &'a [i64],
    /// The first element of each access.
    pub data: &'a [usize],
    /// Floating-point operands.
    pub floats: &'a [f64],
    /// Integer operands.
    pub integers: &'a [i64],
    /// Whether results are written with non-temporal stores.
    pub stream: bool,
    /// The cache level of the operands: `prefetch` in the source.
    pub away: Away,
    /// The number of interleaved rows in a tile, at most
    /// `crate::codegen::kernel_plan::Plan::tile`.
    pub columns: usize,
    /// Where loads are inside of their operands, see `Geometry::bounds`; empty where all are.
    pub bounds: &'a [i64],
    /// The part of a split reduction.
    pub part: Option<Part>,
}

/// The cache level of a launch's operands. Kernels prefetch unless it is the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// In the second level of cache.
    InSecondLevel = 0,
    /// In a third one.
    InThirdLevel = 1,
    /// No cache holds them from one launch to the next.
    InMemory = 2,
}

impl Loaded {
    /// Opens a library that this program had compiled.
    ///
    /// # Errors
    /// The message of the loader.
    pub(crate) fn open(path: &Path) -> Result<Loaded, String> {
        // SAFETY: opening a library runs its initialisers. This one was compiled from our source,
        // which has none, or comes from the cache, which accepts only files that this user wrote.
        let library = unsafe { Library::new(path) };
        library.map(|library| Loaded { library }).map_err(|error| format!("cannot load a kernel: {error}"))
    }

    /// A kernel by its name. It must not be called after the library is closed.
    ///
    /// # Errors
    /// The message of the loader.
    pub(crate) fn kernel(&self, name: &str) -> Result<Function, String> {
        // SAFETY: the source of the library defines the name as a function with exactly these
        // parameters.
        let entry = unsafe { self.library.get::<Entry>(name.as_bytes()) };
        entry.map(|entry| Function(*entry)).map_err(|error| format!("a kernel is not in its library: {error}"))
    }

    /// An emulated kernel by the name of its entry.
    ///
    /// # Errors
    /// The message of the loader.
    pub(super) fn emulated(&self, name: &str) -> Result<EmulatedEntry, String> {
        // SAFETY: the source of the library defines the name as a function with exactly these
        // parameters.
        let entry = unsafe { self.library.get::<DeviceEntry>(name.as_bytes()) };
        entry.map(|entry| EmulatedEntry(*entry)).map_err(|error| format!("a kernel is not in its library: {error}"))
    }

    /// Checks the result of the unit that compilers are tested with.
    ///
    /// # Errors
    /// The wrong result.
    pub(crate) fn answers(&self) -> Result<(), String> {
        // SAFETY: the unit is `toolchain::PROBE`, a function without parameters that returns an
        // int.
        let answer = unsafe { self.library.get::<unsafe extern "C" fn() -> i32>(b"jo_probe").map(|probe| probe()) };
        match answer {
            Ok(42) => Ok(()),
            Ok(other) => Err(format!("a function that returns 42 returned {other}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Function {
    /// Runs the tiles from `begin` to `end` of the iteration space.
    ///
    /// # Safety
    /// The library must be open. The access patterns that the kernel was written for must be those
    /// of the innermost strides. For each point of the space, each access must be within memory,
    /// unless the bounds say that it is outside,
    /// that holds elements of its type, initialised where it is loaded from. Nothing else may read
    /// or write stored memory meanwhile, and no two points may store to the same element, except
    /// for accumulators of column reductions, which are only added to. In a split reduction `found`
    /// must be the address of as many places for each part of each row as
    /// [`crate::codegen::loop_structure::LaunchPhases`] gives, and no two calls of a phase may be
    /// for the same part.
    pub(crate) unsafe fn run(self, arguments: &Arguments<'_>, begin: i64, end: i64) {
        let rank = arguments.shape.len();
        debug_assert!(arguments.strides.len() <= rank * arguments.data.len());
        let data: smallvec::SmallVec<[*mut u8; 16]> =
            arguments.data.iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect();
        let Part { phase, part, parts, found } =
            arguments.part.unwrap_or(Part { phase: 0, part: 0, parts: 1, found: 0 });
        let args = KernelArgs {
            shape: arguments.shape.as_ptr(),
            rank: rank as i64,
            kept: arguments.kept as i64,
            begin,
            end,
            data: data.as_ptr(),
            strides: arguments.strides.as_ptr(),
            floats: arguments.floats.as_ptr(),
            integers: arguments.integers.as_ptr(),
            stream: i64::from(arguments.stream),
            prefetch: arguments.away as i64,
            columns: arguments.columns as i64,
            phase,
            part,
            parts,
            found: std::ptr::with_exposed_provenance_mut(found),
            bounds: arguments.bounds.as_ptr(),
        };
        // SAFETY: the function takes a pointer to `jo_args`, which has these fields. It reads
        // `rank` sizes, a row of strides and a pointer for each access, and as many numbers as the
        // kernel has number operands; where loads have guards, a row of bounds for each access. The
        // caller guarantees the rest.
        unsafe { (self.0)(&args) }
    }
}

#[cfg(test)]
mod tests {
    use super::KernelArgs;
    use crate::codegen::prelude;
    use std::mem::{offset_of, size_of};

    #[test]
    fn fields_are_those_of_the_prelude() {
        let (_, text) = prelude::types().split_once("typedef struct {").unwrap();
        let (fields, _) = text.split_once('}').unwrap();
        let words = fields.split(|c: char| !c.is_ascii_alphanumeric());
        let is_type = |word: &&str| !["const", "i64", "char", "double", ""].contains(word);
        let names: Vec<&str> = words.filter(is_type).collect();
        macro_rules! fields {
            ($($name:ident)*) => { [$((stringify!($name), offset_of!(KernelArgs, $name))),*] };
        }
        let own = fields!(
            shape rank kept begin end data strides floats integers stream prefetch columns phase part parts found bounds
        );
        let in_order: Vec<_> = names.iter().enumerate().map(|(i, name)| (*name, 8 * i)).collect();
        assert_eq!(in_order, own);
        assert_eq!(size_of::<KernelArgs>(), 8 * own.len());
    }
}
