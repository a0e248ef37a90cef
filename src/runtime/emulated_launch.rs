//! Launches of blocks of threads on a processor that emulates them: rung one and two of a ladder of
//! tests that needs no GPU.
//!
//! A unit is the text that `--emit=cuda` prints, behind `emulation.c`, which gives its words a
//! meaning in C. Blocks run one after the other. In checked mode every access of memory tells what
//! it touches, and what is wrong is reported with the IR line of the statement: an element outside
//! of an operand, one that nothing has written, two threads at one element without a barrier in
//! between, a barrier that some threads do not reach.

use super::device_launch::{Cell, DeviceLaunch, Emulation, MOST_DIMS, RawFinding, Region};
use super::geometry::Geometry;
use super::loading::{EmulatedEntry, Loaded};
use crate::codegen::kernel::{Direction, Kernel};
use crate::codegen::kernel_plan::{Grid, MOST_ACCESSES, MOST_NUMBERS, RowsBy};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Mutex;

/// The text before a unit.
const EMULATION: &str = include_str!("emulation.c");
/// Positions have so many bits: `jo_index` has 32, and loops add the number of threads.
const LARGEST: i64 = 1 << 31;
/// Most blocks of a launch: four for each multiprocessor of the largest devices. Rows beyond are
/// computed by the same blocks in turn.
const MOST_BLOCKS: i64 = 528;
/// The same where accesses are checked: each block computes several rows, one after the other, so
/// that what it leaves in shared memory meets the next row.
const CHECKED_BLOCKS: i64 = 2;
/// Bytes of the stack of a thread: the vector mathematics keeps arrays of some dozen numbers.
const STACK: usize = 32 << 10;
/// Stands for several threads in findings: `JO_MOST_THREADS`.
const SEVERAL: i64 = 1024;
/// Findings that are kept of a launch.
const MOST_FINDINGS: usize = 8;

/// A kernel whose blocks of threads are emulated.
#[derive(Debug)]
pub struct Emulated {
    pub(super) entry: EmulatedEntry,
    pub(super) library: Rc<Loaded>,
    pub(super) grid: Grid,
    pub(super) has_barriers: bool,
    /// The text of its unit, whose lines findings name.
    pub(super) text: Rc<str>,
    /// Whether accesses are checked.
    pub(super) is_checked: bool,
}

/// The arguments of a launch.
#[derive(Debug)]
pub(super) struct Operands<'a> {
    /// The first element of each access, and the elements that its memory has from there on.
    pub(super) data: &'a [(usize, usize)],
    pub(super) floats: &'a [f64],
    pub(super) integers: &'a [i64],
}

/// The source of an emulated unit: the text for GPUs, and an entry for each kernel.
pub(super) fn source(text: &str, names: &[String], is_checked: bool) -> String {
    let checked = if is_checked { "#define JO_CHECKED 1\n" } else { "" };
    let mut source = format!("{checked}{EMULATION}#line 1\n{text}");
    for name in names {
        let _ = writeln!(source, "static void {name}_body(const void *arguments) {{ {name}(arguments); }}");
        let _ = writeln!(source, "void {}(jo_emulation *all, const jo_launch *arguments)", entry_of(name));
        let _ = writeln!(source, "{{\n    jo_run(all, arguments, {name}_body);\n}}");
    }
    source
}

/// The name of the entry of a kernel.
pub(super) fn entry_of(name: &str) -> String {
    format!("{name}_emulated")
}

/// Units have variables of their own, which launches of several threads would share.
static ONE_AT_A_TIME: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Emulated {
    /// Runs a launch, whose threads take turns in one of several orders. Returns what was wrong.
    ///
    /// # Errors
    /// Why a device could not be launched so.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        geometry: &Geometry,
        operands: &Operands<'_>,
        order: i64,
    ) -> Result<Vec<String>, String> {
        let launch = operands.launch(geometry)?;
        let sizes: Vec<usize> = (0..kernel.accesses()).map(|at| kernel.dtype_of(at).size()).collect();
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); sizes.len()];
        if self.is_checked {
            let results = (kernel.loads.len()..sizes.len()).zip(&operands.data[kernel.loads.len()..]);
            results.for_each(|(at, &(_, elements))| cells[at] = vec![Cell::default(); elements]);
        }
        let mut regions = regions(operands, &sizes, &mut cells);
        let mut findings = [RawFinding::default(); MOST_FINDINGS];
        // A panic leaves no state behind that a launch would read.
        let mut stacks = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stacks.resize(STACK * self.grid.threads, 0);
        let mut emulation = Emulation {
            blocks: self.blocks(&launch),
            threads: self.grid.threads as i64,
            order,
            has_barriers: i64::from(self.has_barriers),
            stacks: aligned(&mut stacks),
            // The first stack begins at a multiple of 16 behind the memory's begin.
            stack: (STACK - 16) as i64,
            regions: regions.as_mut_ptr(),
            region_count: regions.len() as i64,
            findings: findings.as_mut_ptr(),
            most_findings: MOST_FINDINGS as i64,
            found: 0,
        };
        self.run(&mut emulation, &launch);
        let found = usize::try_from(emulation.found).unwrap_or(0);
        Ok(findings[..found].iter().map(|finding| self.told(finding)).collect())
    }

    fn blocks(&self, launch: &DeviceLaunch) -> i64 {
        let rows = i64::from(launch.rows);
        let most = if self.is_checked { CHECKED_BLOCKS } else { MOST_BLOCKS };
        match self.grid.rows {
            RowsBy::Block => rows.min(most),
            RowsBy::Thread => ((rows + self.grid.threads as i64 - 1) / self.grid.threads as i64).min(most),
        }
    }

    #[allow(unsafe_code, reason = "the geometry was checked for all accesses of the kernel")]
    fn run(&self, emulation: &mut Emulation, launch: &DeviceLaunch) {
        let _open = &self.library;
        // SAFETY: as for compiled kernels, see `launching.rs`: the text is of the same kernel, and
        // its accesses are within the memory that `geometry` was checked against. The stacks are
        // writable and held by this thread alone, as are the regions and findings.
        unsafe { self.entry.run(emulation, launch) }
    }

    /// A finding as text, with the IR lines of the statements.
    fn told(&self, finding: &RawFinding) -> String {
        let &RawFinding { kind, line, other_line, block, thread, other_thread } = finding;
        let (here, there) = (self.statement(line), self.statement(other_line));
        let other = if other_thread < SEVERAL { format!("thread {other_thread}") } else { "other threads".to_owned() };
        match kind {
            1 => format!("thread {thread} of block {block} is outside of the memory of an operand: {here}"),
            2 => format!("thread {thread} of block {block} reads what nothing has written: {here}"),
            3 => format!(
                "thread {thread} of block {block} and {other} race, without a barrier in between: {here}; and: {there}"
            ),
            4 => format!("thread {thread} of block {block} writes an operand: {here}"),
            _ if other_line < 0 => {
                format!("thread {other_thread} of block {block} ends, and others wait at a barrier: {here}")
            }
            _ => format!("threads of block {block} wait at different barriers: {here}; and: {there}"),
        }
    }

    /// The statement in a line of the text with its IR line, or with that of the last statement
    /// before it that has one.
    fn statement(&self, line: i64) -> String {
        let upto = usize::try_from(line).unwrap_or(0);
        let lines: Vec<&str> = self.text.lines().take(upto).collect();
        let code = lines.last().and_then(|line| line.split(" // ").next()).unwrap_or_default().trim();
        let note = lines.iter().rev().find_map(|line| line.split_once(" // ").map(|parts| parts.1));
        format!("`{code}` ({})", note.unwrap_or_default().trim())
    }
}

/// The first address in memory that is a multiple of 16.
fn aligned(memory: &mut [u8]) -> *mut u8 {
    let first = memory.as_mut_ptr();
    first.wrapping_add(first.align_offset(16))
}

/// The memory of each access.
fn regions(operands: &Operands<'_>, sizes: &[usize], cells: &mut [Vec<Cell>]) -> Vec<Region> {
    let region = |((&(memory, elements), &size), cells): ((&(usize, usize), &usize), &mut Vec<Cell>)| Region {
        memory,
        bytes: (elements * size) as i64,
        size: size as i64,
        cells: if cells.is_empty() { std::ptr::null_mut() } else { cells.as_mut_ptr() },
        is_shared: 0,
    };
    operands.data.iter().zip(sizes).zip(cells).map(region).collect()
}

impl Operands<'_> {
    /// The launch of these self.
    fn launch(&self, geometry: &Geometry) -> Result<DeviceLaunch, String> {
        let (dims, kept) = order(geometry);
        let rank = dims.len();
        if rank > MOST_DIMS {
            return Err(format!("it has {rank} dimensions, and a launch passes {MOST_DIMS}"));
        }
        let size = |dims: &[usize]| dims.iter().map(|&dim| geometry.shape[dim]).product::<i64>();
        let (rows, count) = (size(&dims[..kept]), size(&dims[kept..]));
        let reach = |at: usize| {
            let strides = &geometry.strides[at * rank..][..rank];
            geometry.shape.iter().zip(strides).map(|(&n, &stride)| (n - 1).max(0) * stride).sum::<i64>()
        };
        if rows >= LARGEST || count >= LARGEST || (0..self.data.len()).any(|at| reach(at) >= LARGEST) {
            return Err("its positions need more than 31 bits".to_owned());
        }
        let mut launch = DeviceLaunch {
            data: [0; MOST_ACCESSES],
            floats: [0.0; MOST_NUMBERS],
            integers: [0; MOST_NUMBERS],
            rank: rank as i32,
            kept: kept as i32,
            rows: rows as u32,
            count: count as u32,
            shape: [1; MOST_DIMS],
            strides: [[0; MOST_DIMS]; MOST_ACCESSES],
        };
        for (at, &(address, _)) in self.data.iter().enumerate() {
            launch.data[at] = address;
            for (to, &dim) in dims.iter().enumerate() {
                launch.strides[at][to] = geometry.strides[at * rank + dim] as u32;
            }
        }
        dims.iter().enumerate().for_each(|(to, &dim)| launch.shape[to] = geometry.shape[dim] as u32);
        launch.floats[..self.floats.len()].copy_from_slice(self.floats);
        launch.integers[..self.integers.len()].copy_from_slice(self.integers);
        Ok(launch)
    }
}

/// The dimensions in the order of a device, those of rows first, and how many those are. A point is
/// a row; the innermost dimension of interleaved rows is theirs.
fn order(geometry: &Geometry) -> (Vec<usize>, usize) {
    let (rank, kept) = (geometry.shape.len(), geometry.kept);
    match geometry.traversal.direction {
        Direction::Points => ((0..rank).collect(), rank),
        Direction::Outer => ((0..kept).chain([rank - 1]).chain(kept..rank - 1).collect(), kept + 1),
        _ => ((0..rank).collect(), kept),
    }
}
