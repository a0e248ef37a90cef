//! Opens compiled units and calls their kernels. All unsafe calls of compiled code are here.

#![allow(unsafe_code, reason = "compiled code is loaded and called; each block gives the reason why that is sound")]

use libloading::Library;
use std::path::Path;

/// A kernel: `shape, rank, kept, begin, end, data, strides, floats, integers, stream, ask,
/// columns`, see [`crate::codegen::c_form`]. A split reduction has one more address in `data`, of
/// the partial results, and three more integers: the phase, the part, and the number of parts.
type Entry = unsafe extern "C" fn(
    *const i64,
    i64,
    i64,
    i64,
    i64,
    *const *mut u8,
    *const i64,
    *const f64,
    *const i64,
    i64,
    i64,
    i64,
);

/// A loaded unit.
#[derive(Debug)]
pub struct Loaded {
    library: Library,
}

/// A kernel of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Function(Entry);

/// The arguments of a kernel. [`Function::run`] lists the requirements.
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
    /// The cache level of the operands: `ask` in the source.
    pub away: Away,
    /// The number of interleaved rows in a tile, at most [`crate::codegen::c_form::COLUMNS`].
    pub columns: usize,
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
    pub fn open(path: &Path) -> Result<Loaded, String> {
        // SAFETY: opening a library runs its initialisers. This one was compiled from our source,
        // which has none, or comes from the cache, which accepts only files that this user wrote.
        let library = unsafe { Library::new(path) };
        library.map(|library| Loaded { library }).map_err(|error| format!("cannot load a kernel: {error}"))
    }

    /// A kernel by its name. It must not be called after the library is closed.
    ///
    /// # Errors
    /// The message of the loader.
    pub fn kernel(&self, name: &str) -> Result<Function, String> {
        // SAFETY: the source of the library defines the name as a function with exactly these
        // parameters.
        let entry = unsafe { self.library.get::<Entry>(name.as_bytes()) };
        entry.map(|entry| Function(*entry)).map_err(|error| format!("a kernel is not in its library: {error}"))
    }

    /// Checks the result of the unit that compilers are tested with.
    ///
    /// # Errors
    /// The wrong result.
    pub fn answers(&self) -> Result<(), String> {
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
    /// of the innermost strides. For each point of the space, each access must be within memory
    /// that holds elements of its type, initialised where it is loaded from. Nothing else may read
    /// or write stored memory meanwhile, and no two points may store to the same element, except
    /// for accumulators of column reductions, which are only added to. In a split reduction the
    /// last address must be that of as many places for each part of each row as
    /// [`crate::codegen::c_form::Turns`] gives, and no two calls of a phase may be for the same
    /// part.
    pub unsafe fn run(self, arguments: &Arguments<'_>, begin: i64, end: i64) {
        let rank = arguments.shape.len();
        debug_assert!(arguments.strides.len() <= rank * arguments.data.len());
        let data: smallvec::SmallVec<[*mut u8; 16]> =
            arguments.data.iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect();
        // SAFETY: the function's parameters are those of `Entry`. It reads `rank` sizes, a row of
        // strides and a pointer for each access, and as many numbers as the kernel has number
        // operands; in a split reduction one more address and three more numbers. The caller
        // guarantees the rest.
        unsafe {
            (self.0)(
                arguments.shape.as_ptr(),
                rank as i64,
                arguments.kept as i64,
                begin,
                end,
                data.as_ptr(),
                arguments.strides.as_ptr(),
                arguments.floats.as_ptr(),
                arguments.integers.as_ptr(),
                i64::from(arguments.stream),
                arguments.away as i64,
                arguments.columns as i64,
            );
        }
    }
}
