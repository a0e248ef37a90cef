//! Launches of blocks of threads on a processor that emulates them: rung one and two of a ladder of
//! tests that needs no GPU.
//!
//! A unit is the text that `--emit=cuda` prints, after `emulation.c`, which gives its words a
//! meaning in C. Blocks run one after the other. In checked mode every access of memory tells what
//! it touches, and what is wrong is reported with the IR line of the statement: an element outside
//! of an operand, one that nothing has written, two threads at one element without a barrier in
//! between, a barrier that some threads do not reach, an address that is no multiple of the size.
//! The transactions of memory that accesses take are counted, see `memory_profile.rs`.
//!
//! The same launches run what NVRTC makes of the text, which `ptx` interprets.

use super::device_launch::{Cell, DeviceLaunch, Emulation, MOST_DIMS, RawFinding, RawPlace, Region, device_order};
use super::loading::{EmulatedEntry, Loaded};
use super::memory_profile::MemoryProfile;
use super::partial_sums::PartialSums;
use super::ptx::{Bytes, Fault, Launch, PtxModule, Region as PtxRegion};
use super::wide_launch::{Functions, SplitFunctions, rows_of_merge};
use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel_plan::Grid;
use crate::codegen::text_lines::SourceText;
use std::cell::Cell as Shared;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// The text before a unit.
const EMULATION: &str = include_str!("emulation.c");
/// Positions have so many bits: `jo_index` has 32, and loops add the number of threads.
const LARGEST: i64 = 1 << 31;
/// Most blocks of a launch that is emulated, or that has partial sums for each: four for each
/// multiprocessor of the largest devices. Each block then computes several rows.
pub(super) const MOST_BLOCKS: i64 = 528;
/// The same where accesses are checked: each block computes several rows, one after the other, so
/// that what it leaves in shared memory meets the next row.
const CHECKED_BLOCKS: i64 = 2;
/// Bytes of the stack of a thread: the vector mathematics keeps arrays of some dozen numbers.
const STACK: usize = 32 << 10;
/// Stands for several threads in findings: `JO_MOST_THREADS`.
const SEVERAL: i64 = 1024;
/// Bytes of a slot of the state that a part of a row leaves.
pub(super) const SLOT: usize = 8;
/// Findings that are kept of a launch.
const MOST_FINDINGS: usize = 8;
/// Places of a kernel whose accesses are counted: `JO_WATCHED`.
const MOST_PLACES: usize = 256;

/// The findings of the checks of launches.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// The errors.
    pub(super) findings: Vec<String>,
    /// How memory was accessed.
    pub(super) profile: MemoryProfile,
}

/// A kernel whose blocks of threads are emulated.
#[derive(Debug)]
pub struct Emulated {
    pub(super) functions: Functions<Entry>,
    /// Those of a split reduction.
    pub(super) split: Option<SplitFunctions<Entry>>,
    /// Those that add up the partial sums of column reductions, by their stores.
    pub(super) totals: Vec<(usize, Entry)>,
    pub(super) image: Image,
    pub(super) grid: Grid,
    pub(super) has_barriers: bool,
    /// The text of its unit, whose lines findings name.
    pub(super) text: Rc<SourceText>,
    /// Whether accesses are checked.
    pub(super) is_checked: bool,
}

/// The image with the functions of an emulated kernel.
#[derive(Debug)]
pub(super) enum Image {
    /// The text, compiled for the processor.
    Compiled(Arc<Loaded>),
    /// PTX that is interpreted.
    Ptx(Rc<PtxModule>),
}

/// A function of an image.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Compiled(EmulatedEntry),
    /// The number of an entry.
    Ptx(usize),
}

impl Image {
    /// The function of a kernel.
    pub(super) fn entry(&self, name: &str) -> Result<Entry, String> {
        match self {
            Image::Compiled(library) => library.emulated(&entry_of(name)).map(Entry::Compiled),
            Image::Ptx(module) => module.entry(name).map(Entry::Ptx),
        }
    }
}

/// The arguments of a launch.
#[derive(Debug)]
pub(super) struct Operands<'a> {
    /// The first element of each access, and the elements that its memory has from there on.
    pub(super) data: &'a [(usize, usize)],
    /// The bytes at which they begin in memory that is aligned.
    pub(super) starts: &'a [usize],
    pub(super) floats: &'a [f64],
    pub(super) integers: &'a [i64],
}

/// The source of an emulated unit: the text for GPUs, and an entry for each kernel.
pub(super) fn source(unit: &SourceText, names: &[String], is_checked: bool) -> SourceText {
    let checked = if is_checked { "#define JO_CHECKED 1\n" } else { "" };
    let mut source = SourceText::from(format!("{checked}{EMULATION}#line 1\n"));
    source.append(unit);
    names.iter().for_each(|name| source.push(&format!("JO_ENTRY({name})\n")));
    source
}

/// The name that `JO_ENTRY` gives the entry of a kernel.
fn entry_of(name: &str) -> String {
    format!("{name}_emulated")
}

/// Units have variables of their own, which launches of several threads would share.
static ONE_AT_A_TIME: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Emulated {
    /// Runs a launch, whose blocks and threads are scheduled as a seed determines.
    ///
    /// # Errors
    /// Why a device could not be launched so.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        geometry: &Geometry,
        operands: &Operands<'_>,
        seed: u32,
    ) -> Result<Observed, String> {
        let mut launch = operands.launch(geometry)?;
        if let Some(seen) = self.launch_split((kernel, geometry), operands, &mut launch, seed) {
            return Ok(seen);
        }
        let chosen = self.functions.chosen(self.grid, (kernel, geometry), &mut launch, operands.starts);
        let mut sums = PartialSums::of(kernel, geometry, chosen.grid)?;
        let blocks = blocks_of(&launch, chosen.rows);
        let blocks = sums.iter().map(PartialSums::most_blocks).fold(blocks.min(self.most_blocks()), i64::min);
        let mut memory: Vec<Memory> = (0..kernel.accesses()).map(|at| self.memory(kernel, operands, at)).collect();
        for sums in &mut sums {
            sums.begin(blocks);
            let at = (sums.memory.as_ptr().expose_provenance(), sums.memory.len());
            place(sums, at, &mut launch)?;
            memory[sums.access] = self.partial(sums);
        }
        let mut seen = Observed::default();
        let entry = (chosen.function, chosen.grid.threads, self.has_barriers || chosen.has_squares);
        self.run(entry, &launch, blocks, &mut memory, (seed, &mut seen));
        for sums in &sums {
            let to = operands.data[sums.access];
            let mut memory = [Memory { cells: Vec::new(), ..self.partial(sums) }, self.result(kernel, sums, to)];
            let at = (sums.memory.as_ptr().expose_provenance(), sums.memory.len());
            let launch = total_launch(sums, at, to.0);
            let entry = self.totals.iter().find(|total| total.0 == sums.store).ok_or("a sum has no second launch")?;
            let blocks = blocks_of(&launch, self.grid.threads).min(self.most_blocks());
            self.run((entry.1, self.grid.threads, false), &launch, blocks, &mut memory, (seed, &mut seen));
        }
        Ok(seen)
    }

    /// Runs parts of rows and what merges them, if rows are worth it to be split.
    fn launch_split(
        &self,
        (kernel, geometry): (&Kernel, &Geometry),
        operands: &Operands<'_>,
        launch: &mut DeviceLaunch,
        seed: u32,
    ) -> Option<Observed> {
        let split = self.split.as_ref()?.chosen(self.grid, (kernel, geometry), launch, operands.starts)?;
        // NaN where nothing is left.
        let left = vec![u64::MAX; split.slots];
        launch.left = left.as_ptr().expose_provenance();
        let mut memory: Vec<Memory> = (0..kernel.accesses()).map(|at| self.memory(kernel, operands, at)).collect();
        let cells = cells(self.is_checked, left.len());
        let size = SLOT;
        memory.push(Memory {
            address: launch.left,
            elements: left.len(),
            size,
            is_set: false,
            is_written: true,
            cells,
        });
        let mut seen = Observed::default();
        let blocks = blocks_of(launch, rows_of_merge(self.grid)).min(self.most_blocks());
        let mut written = vec![false; if self.is_checked { split.slots } else { 0 }];
        for (parts, merge) in split.phases {
            let entry = (parts.function, parts.grid.threads, self.has_barriers);
            self.run(entry, launch, split.blocks.min(self.most_blocks()), &mut memory, (seed, &mut seen));
            forget(&mut memory, &mut written);
            // Threads that merge exchange what they have found.
            if let Some(merge) = merge {
                self.run((merge, self.grid.threads, true), launch, blocks, &mut memory, (seed, &mut seen));
                forget(&mut memory, &mut written);
            }
        }
        if written.contains(&false) {
            seen.findings.push("a part of a row leaves no state".to_owned());
        }
        Some(seen)
    }

    /// The memory of an access, with what is known of its elements.
    fn memory(&self, kernel: &Kernel, operands: &Operands<'_>, at: usize) -> Memory {
        let ((address, elements), size) = (operands.data[at], kernel.dtype_of(at).size());
        let is_written = at >= kernel.loads.len();
        let cells = cells(self.is_checked && is_written, elements);
        Memory { address, elements, size, is_set: false, is_written, cells }
    }

    fn partial(&self, sums: &PartialSums) -> Memory {
        let (address, elements) = (sums.memory.as_ptr().expose_provenance(), sums.memory.len());
        let cells = cells(self.is_checked, elements);
        Memory { address, elements, size: size_of::<f64>(), is_set: true, is_written: true, cells }
    }

    fn result(&self, kernel: &Kernel, sums: &PartialSums, (address, elements): (usize, usize)) -> Memory {
        let size = kernel.made[kernel.stores[sums.store].tensor].dtype.size();
        let cells = cells(self.is_checked, elements);
        Memory { address, elements, size, is_set: false, is_written: true, cells }
    }

    /// Runs the blocks of one kernel.
    fn run(
        &self,
        (entry, threads, has_barriers): (Entry, usize, bool),
        launch: &DeviceLaunch,
        blocks: i64,
        memory: &mut [Memory],
        (seed, seen): (u32, &mut Observed),
    ) {
        let entry = match entry {
            Entry::Compiled(entry) => entry,
            Entry::Ptx(entry) => {
                let found = self.interpret(entry, launch, (blocks, threads, seed), memory);
                seen.findings.extend(found.err());
                return;
            }
        };
        let mut regions: Vec<Region> = memory.iter_mut().map(Memory::region).collect();
        let mut findings = [RawFinding::default(); MOST_FINDINGS];
        let mut places = vec![RawPlace::default(); if self.is_checked { MOST_PLACES } else { 0 }];
        // A panic leaves no state that a launch would read.
        let mut stacks = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stacks.resize(STACK * threads, 0);
        let mut emulation = Emulation {
            blocks,
            threads: threads as i64,
            seed: i64::from(seed),
            has_barriers: i64::from(has_barriers),
            stacks: aligned(&mut stacks),
            // The first stack begins at a multiple of 16 after the beginning of the memory.
            stack: (STACK - 16) as i64,
            regions: regions.as_mut_ptr(),
            region_count: regions.len() as i64,
            findings: findings.as_mut_ptr(),
            most_findings: MOST_FINDINGS as i64,
            found: 0,
            places: places.as_mut_ptr(),
            most_places: places.len() as i64,
            place_count: 0,
        };
        self.enter(entry, &mut emulation, launch);
        let found = usize::try_from(emulation.found).unwrap_or(0);
        let counted = usize::try_from(emulation.place_count).unwrap_or(0);
        seen.findings.extend(findings[..found].iter().map(|finding| self.described(finding)));
        seen.profile.add(&places[..counted], |line| self.statement(line));
    }

    /// Interprets the blocks of one kernel.
    fn interpret(
        &self,
        entry: usize,
        launch: &DeviceLaunch,
        (blocks, threads, seed): (i64, usize, u32),
        memory: &[Memory],
    ) -> Result<(), String> {
        let Image::Ptx(module) = &self.image else { return Ok(()) };
        let regions: Vec<PtxRegion<'_>> = memory.iter().map(Memory::bytes).collect();
        let mut launch = launch.clone();
        for (at, region) in regions.iter().enumerate() {
            // The states of parts of rows follow the accesses.
            let to = if launch.left == memory[at].address { &mut launch.left } else { &mut launch.data[at] };
            *to = region.address(at) as usize;
        }
        let (parameters, blocks, threads) = (launch.bytes(), blocks as u32, threads as u32);
        let launch = Launch { parameters: &parameters, blocks, threads, seed };
        module.run(entry, launch, &regions).map(drop).map_err(|fault| self.described_fault(&fault))
    }

    /// The error in a launch of PTX, with the IR line.
    fn described_fault(&self, fault: &Fault) -> String {
        let Fault { line, origin, block, thread, why } = fault;
        let statement = if *origin > 0 { format!(": {}", self.statement(i64::from(*origin))) } else { String::new() };
        format!("thread {thread} of block {block} {why}, PTX line {line}{statement}")
    }

    fn most_blocks(&self) -> i64 {
        if self.is_checked { CHECKED_BLOCKS } else { MOST_BLOCKS }
    }

    #[allow(unsafe_code, reason = "the geometry was checked for all accesses of the kernel")]
    fn enter(&self, entry: EmulatedEntry, emulation: &mut Emulation, launch: &DeviceLaunch) {
        let _open = &self.image;
        // SAFETY: as for compiled kernels, see `launching.rs`: the text is of the same kernel, and
        // its accesses are within the memory that `geometry` was checked against. The stacks are
        // writable and held by this thread alone, as are the regions and findings.
        unsafe { entry.run(emulation, launch) }
    }

    /// A finding as text, with the IR lines of the statements.
    fn described(&self, finding: &RawFinding) -> String {
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
            6 => format!("thread {thread} of block {block} is at an address that its size does not divide: {here}"),
            7 if other_line < 0 => {
                format!("thread {other_thread} of block {block} ends, and others of its warp give it values: {here}")
            }
            7 => format!(
                "thread {thread} of block {block} gives others of its warp a value, and {other} is elsewhere: {here}; and: {there}"
            ),
            _ if other_line < 0 => {
                format!("thread {other_thread} of block {block} ends, and others wait at a barrier: {here}")
            }
            _ => format!("threads of block {block} wait at different barriers: {here}; and: {there}"),
        }
    }

    /// The statement in a line of the text with its IR line, or with that of the last statement
    /// before it that has one.
    fn statement(&self, line: i64) -> String {
        let (code, note) = self.text.statement(usize::try_from(line).unwrap_or(0));
        format!("`{code}` ({note})")
    }
}

/// The blocks of a launch, each of which takes so many rows at once.
pub(super) fn blocks_of(launch: &DeviceLaunch, taken: usize) -> i64 {
    (i64::from(launch.rows) + taken as i64 - 1) / taken as i64
}

/// The first address in memory that is a multiple of 16.
fn aligned(memory: &mut [u8]) -> *mut u8 {
    let first = memory.as_mut_ptr();
    first.wrapping_add(first.align_offset(16))
}

/// The memory of an access.
struct Memory {
    address: usize,
    elements: usize,
    size: usize,
    /// Whether all of it has been written to before the launch.
    is_set: bool,
    /// Whether it is not that of an operand.
    is_written: bool,
    /// The state of its elements; nothing of operands.
    cells: Vec<Cell>,
}

impl Memory {
    /// Its bytes.
    #[allow(unsafe_code, reason = "the geometry was checked for all accesses of the kernel")]
    fn bytes(&self) -> PtxRegion<'_> {
        let (address, bytes) = (self.address, self.elements * self.size);
        let first = std::ptr::with_exposed_provenance_mut::<Shared<u8>>(address);
        // SAFETY: as for compiled kernels, see `launching.rs`: there are as many elements from the
        // first one on, which the operands and results of the launch hold. Nothing else accesses
        // those of results meanwhile, and nothing writes those of operands.
        let bytes = match (bytes, self.is_written) {
            (0, _) => Bytes::Fixed(&[]),
            (_, true) => Bytes::Written(unsafe { std::slice::from_raw_parts(first, bytes) }),
            (_, false) => Bytes::Fixed(unsafe { std::slice::from_raw_parts(first.cast::<u8>().cast_const(), bytes) }),
        };
        PtxRegion { bytes, address }
    }

    fn region(&mut self) -> Region {
        Region {
            memory: self.address,
            bytes: (self.elements * self.size) as i64,
            size: self.size as i64,
            cells: if self.cells.is_empty() { std::ptr::null_mut() } else { self.cells.as_mut_ptr() },
            is_set: i64::from(self.is_set),
        }
    }
}

/// Between two launches: no access of the second one races with those of the first. Notes which
/// slots have been written.
fn forget(memory: &mut [Memory], written: &mut [bool]) {
    if let Some(left) = memory.last_mut() {
        left.cells.iter().zip(written).for_each(|(cell, written)| *written |= cell.is_written());
        left.is_set = true;
    }
    memory.iter_mut().for_each(|memory| memory.cells.fill(Cell::default()));
}

fn cells(are_checked: bool, elements: usize) -> Vec<Cell> {
    if are_checked { vec![Cell::default(); elements] } else { Vec::new() }
}

/// Tells a launch where partial sums are.
pub(super) fn place(
    sums: &PartialSums,
    (address, elements): (usize, usize),
    launch: &mut DeviceLaunch,
) -> Result<(), String> {
    let positions = |n: i64| u32::try_from(n).ok().filter(|&n| i64::from(n) < LARGEST);
    positions(elements as i64).ok_or("the positions of its partial sums need more than 31 bits")?;
    launch.data[sums.access] = address;
    launch.of_block[sums.access] = positions(sums.elements * sums.copies).unwrap_or(0);
    launch.of_thread[sums.access] = if sums.copies > 1 { positions(sums.elements).unwrap_or(0) } else { 0 };
    Ok(())
}

/// The launch that adds up partial sums: a row for each element, whose elements are its copies.
pub(super) fn total_launch(sums: &PartialSums, (address, all): (usize, usize), result: usize) -> DeviceLaunch {
    let (elements, all) = (sums.elements as u32, all as u32);
    let mut launch =
        DeviceLaunch { rank: 2, kept: 1, rows: elements, count: all / elements.max(1), ..DeviceLaunch::EMPTY };
    (launch.data[0], launch.data[1]) = (address, result);
    (launch.shape[0], launch.shape[1]) = (elements, launch.count);
    (launch.strides[0][0], launch.strides[0][1], launch.strides[1][0]) = (1, elements, 1);
    launch
}

impl Operands<'_> {
    /// The launch of these self.
    pub(super) fn launch(&self, geometry: &Geometry) -> Result<DeviceLaunch, String> {
        let (dims, kept) = device_order(geometry);
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
            rank: rank as i32,
            kept: kept as i32,
            rows: rows as u32,
            count: count as u32,
            ..DeviceLaunch::EMPTY
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
