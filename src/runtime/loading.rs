//! Opens compiled units and calls their kernels. What is unsafe about running foreign code is here,
//! and nowhere else.

#![allow(unsafe_code, reason = "code that a C compiler made is opened and called; each block says why that is sound")]

use libloading::Library;
use std::path::Path;

/// A kernel: `shape, rank, kept, begin, end, data, strides, floats, integers, stream, ask,
/// columns`, see [`crate::codegen::c_form`]. One whose rows are parted has an address more in
/// `data`, of what parts leave for each other, and three whole numbers more: the turn, the part,
/// and how many parts there are.
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

/// A unit that is open.
#[derive(Debug)]
pub struct Loaded {
    library: Library,
}

/// A kernel of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Function(Entry);

/// What a kernel is run on. [`Function::run`] says what must hold.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// Sizes of the iteration space, outermost first; at least one.
    pub shape: &'a [i64],
    /// How many of them are walked from tile to tile: behind them are those that a tile folds, and
    /// that along which it lies.
    pub kept: usize,
    /// Strides in elements, a row of `shape.len()` for each access.
    pub strides: &'a [i64],
    /// The first element of each access.
    pub data: &'a [usize],
    /// Real numbers.
    pub floats: &'a [f64],
    /// Whole numbers.
    pub integers: &'a [i64],
    /// Whether results go past the caches.
    pub stream: bool,
    /// How far what will be loaded is away: the text's `ask`.
    pub away: Away,
    /// How many rows that stand side by side are a tile, at most
    /// [`crate::codegen::c_form::COLUMNS`].
    pub columns: usize,
}

/// How far what a launch loads is away. Kernels ask for it ahead unless it is near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// In the second level of cache.
    InSecondLevel = 0,
    /// In a third one.
    InThirdLevel = 1,
    /// No cache holds it from one launch to the next.
    InMemory = 2,
}

impl Loaded {
    /// Opens a library that this program had compiled.
    ///
    /// # Errors
    /// What the loader said.
    pub fn open(path: &Path) -> Result<Loaded, String> {
        // SAFETY: opening runs the initialisers of a library. This one was compiled from a text of
        // ours, which has none, or comes from the cache, which takes only files that hold what was
        // written by this user.
        let library = unsafe { Library::new(path) };
        library.map(|library| Loaded { library }).map_err(|error| format!("cannot load a kernel: {error}"))
    }

    /// A kernel by its name. It must not be called when the library is gone.
    ///
    /// # Errors
    /// What the loader said.
    pub fn kernel(&self, name: &str) -> Result<Function, String> {
        // SAFETY: the text that the library was compiled from defines the name as a function with
        // exactly these parameters.
        let entry = unsafe { self.library.get::<Entry>(name.as_bytes()) };
        entry.map(|entry| Function(*entry)).map_err(|error| format!("a kernel is not in its library: {error}"))
    }

    /// Whether the unit that compilers are tried on answers as it should.
    ///
    /// # Errors
    /// What is wrong.
    pub fn answers(&self) -> Result<(), String> {
        // SAFETY: the unit is `toolchain::PROBE`, a function without parameters that returns an
        // int.
        let answer = unsafe { self.library.get::<unsafe extern "C" fn() -> i32>(b"jo_probe").map(|probe| probe()) };
        match answer {
            Ok(42) => Ok(()),
            Ok(other) => Err(format!("a program that returns 42 returned {other}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Function {
    /// Runs the tiles from `begin` to `end` of the iteration space.
    ///
    /// # Safety
    /// The library must be open. The access patterns that the kernel was written for are those of
    /// the innermost strides. For each point of the space, each access must be within memory that
    /// holds elements of its type, initialised where it is loaded from; nothing else reads or
    /// writes meanwhile what is stored to, and no two points store to the same element, but for
    /// sums aside, which are only added to. Where rows are parted, the last address is that of as
    /// many places for each part of each row as [`crate::codegen::c_form::Turns`] says, and no two
    /// calls of a turn are of one part.
    pub unsafe fn run(self, arguments: &Arguments<'_>, begin: i64, end: i64) {
        let rank = arguments.shape.len();
        debug_assert!(arguments.strides.len() <= rank * arguments.data.len());
        let data: smallvec::SmallVec<[*mut u8; 16]> =
            arguments.data.iter().map(|&address| std::ptr::with_exposed_provenance_mut(address)).collect();
        // SAFETY: the function's parameters are those of `Entry`; it reads `rank` sizes, a row of
        // strides and a pointer for each access, and as many numbers as the kernel has operands
        // that are numbers; where rows are parted an address and three numbers more. The rest is
        // what the caller promises.
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
