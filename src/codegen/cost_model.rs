//! A model of the time of a kernel under a plan: the bytes and operations of its nest, and the
//! rates of a machine per nanosecond.
//!
//! ```text
//! for each row, by a block of 256 threads                8192 rows
//!   for each element, by the threads                     1024 elements: 4 for each thread
//!     v_x = in0[i]                                       8192 x 1024 loads
//!     v_e = jo_expf(v_d)                                 8192 x 1024 x 24 operations
//! ```
//!
//! [`Counts`] walks a nest once; nothing in it knows a machine. Bytes are exact for given sizes:
//! each distinct element of an operand crosses the bus once, or again where a later loop reads it
//! and no cache holds the row meanwhile. Operations are those that the formulas spell. What is
//! estimated is the rest: how much overlaps, how many lanes idle, loops' heads and barriers.
//!
//! All terms of [`Estimate`] grow with each count. So a plan some of whose sizes are open has a
//! lower bound: the same sum with counts that no choice of these sizes falls below, see [`Open`].

use super::devices::Device;
use super::kernel::{Direction, Inner, Kernel};
use super::kernel_plan::{Plan, RowsBy, WIDEST, Wide};
use super::nest::{Access, Axis, Bind, Compute, For, Nest, Place, Split, Spread, Stmt, Term, Whole};
use crate::tensor::DType;

/// The sizes of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Extents {
    /// Rows, or groups of interleaved rows; of points, all dimensions but the innermost.
    pub rows: f64,
    /// The innermost dimension.
    pub inner: f64,
    /// Elements of a row that is reduced; 1 for points.
    pub count: f64,
    /// Pieces of a row that are not adjacent.
    pub pieces: f64,
    /// Distinct elements of each access.
    pub elements: Vec<f64>,
    /// The dimensions of the collapsed space.
    pub dims: usize,
    /// Elements that a thread may take at once where those of all operands are contiguous and
    /// aligned, a power of two.
    pub at_once: usize,
    /// Squares of points, if a launch takes them; else 0.
    pub squares: f64,
    /// Parts of a row, each of which is a row of a launch; 1 if rows are not split.
    pub parts: f64,
}

/// Sizes that no choice has been made of; the model assumes the best of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Tiles, parts and sides: as if a row had one.
    pub tiles: bool,
    /// Tiles or blocks: as if their buffers fitted into the first level of cache, and stores came
    /// in the best bursts.
    pub buffers: bool,
    /// Rows that are taken at once: as if their totals stayed in registers.
    pub together: bool,
    /// Prefetches: as if they hid what they can, and took no time.
    pub ahead: bool,
    /// Threads of a block: no lane idles, and no more than one warp is merged.
    pub threads: bool,
}

/// The work of a nest in a launch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Operations on floats in vectors, or by threads.
    pub floats: f64,
    /// The same on doubles.
    pub doubles: f64,
    /// Operations outside of vectors.
    pub scalars: f64,
    /// Elements that each access loads or stores.
    pub accesses: Vec<f64>,
    /// Elements that go through buffers.
    pub buffered: f64,
    /// Iterations of loops that are not in vectors.
    pub heads: f64,
    /// Barriers, of all blocks together.
    pub barriers: f64,
    /// Whether a loop prefetches.
    pub prefetches: bool,
}

/// The loops around a statement.
#[derive(Clone, Copy, Debug)]
struct Around {
    /// How often it is executed in a launch, by all threads.
    times: f64,
    /// Points of the innermost loop, lines of a block.
    points: f64,
    lines: f64,
    /// Elements that a piece of a row has.
    width: f64,
    /// Whether it is in a vector.
    is_vector: bool,
    /// Executions that share a variable which stays in a register.
    shared: f64,
    /// Threads that take the elements of a row, and in how many loops of rounds they do.
    of_row: f64,
    loops: f64,
}

/// The least share of a warp that a loop over few elements occupies.
const WARP: f64 = 32.0;
/// How much longer each operation takes in a loop with several expensive steps: their chains fill
/// the window of the processor, see `kernel_plan.rs`. The lower of the two factors measured.
const CROWDED: f64 = 1.2;
/// Bytes that each unit requests before the first arrive, as measured; see `wide_plan.rs`.
const ON_THEIR_WAY: f64 = 40.0 * 1024.0;
/// Operations of an access besides itself, on devices: where it is in memory.
const ADDRESS: f64 = 3.0;
/// Bytes of what a part of a row leaves of a state.
const SLOT: usize = 8;

impl Counts {
    /// Those of a nest.
    pub(crate) fn of(nest: &Nest, extents: &Extents, open: Open) -> Counts {
        let accesses = vec![0.0; nest.accesses.len()];
        let mut counter = Counter { nest, extents, open, counts: Counts { accesses, ..Counts::default() } };
        let around = Around {
            times: 1.0,
            points: 1.0,
            lines: 1.0,
            width: extents.count / extents.pieces.max(1.0),
            is_vector: false,
            shared: 1.0,
            of_row: 1.0,
            loops: 1.0,
        };
        counter.stmts(&nest.body, around);
        counter.counts
    }
}

struct Counter<'n> {
    nest: &'n Nest,
    extents: &'n Extents,
    open: Open,
    counts: Counts,
}

impl Counter<'_> {
    fn stmts(&mut self, stmts: &[Stmt], around: Around) {
        let expensive = |stmt: &&Stmt| matches!(stmt, Stmt::Let { compute: Compute::Apply { formula, .. }, .. } if formula.is_expensive);
        let is_crowded = self.nest.threads.is_none() && stmts.iter().filter(expensive).count() > 1;
        let factor = if is_crowded { CROWDED } else { 1.0 };
        stmts.iter().for_each(|stmt| self.stmt(stmt, around, factor));
    }

    fn stmt(&mut self, stmt: &Stmt, around: Around, factor: f64) {
        match stmt {
            Stmt::For(all) => self.looped(all, around),
            Stmt::Let { compute: Compute::Load(place), .. } => self.access(*place, around),
            Stmt::Let { compute: Compute::Apply { formula, computed, .. }, .. } => {
                let is_double = *computed == DType::Double;
                self.operations(formula.operations.max(1) as f64 * factor, is_double, around);
            }
            Stmt::Let { compute: Compute::Finish { term, .. }, .. } => self.term(term, around),
            Stmt::Store { to, .. } => self.access(*to, around),
            Stmt::Accumulate { term, .. } => {
                self.counts.buffered += 2.0 * around.times;
                self.term(term, around);
            }
            Stmt::Begin(all) => all.iter().filter_map(|(_, term)| term.as_ref()).for_each(|term| {
                self.term(term, around);
            }),
            Stmt::Set { variable, term, .. } => {
                self.term(term, around);
                // How many rows are taken at once, and a variable is in a register for, is open.
                if self.nest.variables[*variable].spread != Spread::One && !self.open.together {
                    self.counts.buffered += 2.0 * around.times / around.shared;
                }
            }
            // A second look at elements, where floats were not exact enough, is rare.
            Stmt::If { when, body } if has_loops(body) && !has_lanes(body) => self.term(when, around),
            Stmt::If { when, body } => {
                self.term(when, around);
                self.stmts(body, around);
            }
            // The second time is rare.
            Stmt::Retry { body, .. } => self.stmts(body, around),
            Stmt::Scope(body) | Stmt::Phase { body, .. } | Stmt::Once { body, .. } => self.stmts(body, around),
            Stmt::Prefetch { accesses, .. } => {
                self.counts.prefetches = true;
                if !self.open.ahead {
                    self.operations(accesses.len() as f64, false, Around { is_vector: true, ..around });
                }
            }
            Stmt::Barrier => self.counts.barriers += around.times / self.threads(),
            Stmt::Fetch(_) | Stmt::Deliver(_) => self.operations(1.0 + ADDRESS, false, around),
            Stmt::FillSquare { access, .. } | Stmt::EmptySquare { access, .. } => {
                self.counts.accesses[*access] += self.extents.rows * self.extents.inner;
                self.operations(2.0 + ADDRESS, false, around);
            }
            _ => {}
        }
    }

    fn looped(&mut self, all: &For, around: Around) {
        let mut inside = self.inside(all, around);
        let is_scalar = !inside.is_vector && all.bind != Bind::Unroll;
        let is_settled = !self.open.together || !matches!(all.axis, Axis::Lines { .. } | Axis::Points);
        if is_scalar && is_settled {
            self.counts.heads += inside.times / self.threads();
        }
        if all.bind == Bind::Vector && !self.open.tiles && self.nest.threads.is_none() {
            // The last iteration of a vector loop is as long as the others.
            inside.times += around.times * 0.5;
        }
        self.stmts(&all.body, inside);
    }

    /// The loops around the body of a loop.
    fn inside(&self, all: &For, around: Around) -> Around {
        let Extents { rows, inner, count, pieces, .. } = *self.extents;
        let mut inside = around;
        let trips = match all.axis {
            Axis::Tiles(n) => rows * self.split(inner, n, &mut inside.points),
            Axis::FirstRow(n) => self.split(inner, n, &mut inside.points),
            Axis::Points => around.points,
            Axis::Rows if self.nest.threads.is_some() => {
                inside.of_row = if all.bind == Bind::Warp { WARP } else { self.threads() };
                self.rows_on_grid(all.bind)
            }
            Axis::Groups(count) => self.rows_on_grid(all.bind) / count as f64,
            Axis::Rounds { count, of: Whole::Group } => count as f64,
            Axis::Rounds { .. } => self.rounds(around) / around.loops,
            Axis::Batches(n) => {
                inside.loops = n as f64;
                inside.loops
            }
            Axis::Spans(n) => {
                inside.loops = (self.rounds(around) / n as f64).ceil().max(1.0);
                inside.loops
            }
            Axis::Lanes(n) => n as f64,
            Axis::Rows => rows,
            Axis::Columns(n) => rows * self.split(inner, n, &mut inside.points),
            Axis::Sides(n) => self.split(rows, n, &mut inside.lines),
            Axis::Side => around.lines,
            Axis::Pieces => pieces,
            Axis::Blocks { size, .. } if self.nest.direction == Direction::Outer => {
                split(around.width, size, &mut inside.lines)
            }
            Axis::Blocks { size, .. } => split(around.width, size, &mut inside.points),
            Axis::Lines { at_once, rest_of } => match (at_once, rest_of) {
                (0 | 1, 0 | 1) => around.lines,
                (0 | 1, taken) => around.lines - (around.lines / taken as f64).floor() * taken as f64,
                (taken, _) => (around.lines / taken as f64).floor(),
            },
            Axis::Together(n) => {
                inside.shared *= n as f64;
                n as f64
            }
            Axis::Parts { columns, .. } => self.split(around.points, columns, &mut inside.points),
            Axis::Elements if all.bind == Bind::Thread => self.elements_of_threads(count),
            Axis::Elements => count,
            Axis::Chunks => (count / self.threads()).ceil(),
            Axis::Squares(_) => self.extents.squares * self.threads(),
            Axis::Strips(strips, _) => strips as f64,
            Axis::Shares => self.shares(self.extents.parts, all.bind, around),
            Axis::SharesBefore => self.shares((self.extents.parts - 1.0) / 2.0, all.bind, around),
            Axis::Halves(lanes) | Axis::Distances(lanes) => (lanes as f64).log2(),
        };
        inside.times *= trips;
        let is_vector = matches!(all.bind, Bind::Vector | Bind::Grid | Bind::Block | Bind::Warp | Bind::Thread);
        let is_line = all.axis == Axis::Points && self.nest.direction == Direction::Outer;
        inside.is_vector |= is_vector || is_line;
        inside
    }

    /// The same as [`split`], if the size is settled.
    fn split(&self, whole: f64, size: usize, piece: &mut f64) -> f64 {
        split(whole, if self.open.tiles { usize::MAX } else { size }, piece)
    }

    /// Threads that execute the body of the loop over rows.
    fn rows_on_grid(&self, bind: Bind) -> f64 {
        let Extents { rows, inner, .. } = *self.extents;
        let rows = match self.nest.direction {
            Direction::Points | Direction::Outer => rows * inner,
            _ => rows,
        };
        match bind {
            Bind::Block => rows * self.threads(),
            Bind::Warp => rows * WARP,
            _ if self.open.threads => rows,
            _ => {
                let threads = self.threads();
                (rows / self.lanes() / threads).ceil() * threads
            }
        }
    }

    /// Elements that a thread takes at once.
    fn lanes(&self) -> f64 {
        self.nest.lanes.max(1) as f64
    }

    /// Rounds in which the threads of a row take several elements each; the last warp has all.
    fn rounds(&self, around: Around) -> f64 {
        let of_warp = WARP * self.lanes();
        (self.extents.count / of_warp).ceil() * of_warp / (around.of_row * self.lanes())
    }

    /// Iterations of each thread of a block over the elements of a row.
    fn elements_of_threads(&self, count: f64) -> f64 {
        let threads = self.threads();
        let occupied = if self.open.threads { count } else { (count / WARP).ceil() * WARP };
        occupied / threads
    }

    /// Iterations over what so many parts of a row have left, on average.
    fn shares(&self, parts: f64, bind: Bind, around: Around) -> f64 {
        match (self.nest.threads, bind) {
            (None, _) => 1.0,
            (_, Bind::Thread) => (parts / WARP).ceil() * WARP / around.of_row,
            _ => parts,
        }
    }

    fn threads(&self) -> f64 {
        self.nest.threads.map_or(1.0, |n| if self.open.threads { WARP } else { n as f64 })
    }

    fn access(&mut self, place: Place, around: Around) {
        match place {
            // The square of an access is in shared memory.
            Place::Access(at) if self.nest.accesses[at].is_crossed => self.operations(2.0, false, around),
            Place::Access(at) => {
                // Squares at the end of a dimension have fewer points than threads.
                let has_squares = self.nest.side > 0;
                let times = if has_squares { self.extents.rows * self.extents.inner } else { around.times };
                self.counts.accesses[at] += times;
                // A wide access is counted where it is, and here what its element takes.
                let is_alone = self.nest.threads.is_some() && !self.nest.accesses[at].is_wide;
                let own = if is_alone { 1.0 + ADDRESS } else { 1.0 };
                self.operations(own, false, around);
            }
            Place::Buffer(_) => self.counts.buffered += around.times,
        }
    }

    fn term(&mut self, term: &Term, around: Around) {
        self.operations(term.formula.operations.max(1) as f64, term.ty.size() == 8, around);
    }

    fn operations(&mut self, n: f64, is_double: bool, around: Around) {
        let n = n * around.times;
        match (around.is_vector, is_double) {
            (false, _) => self.counts.scalars += n,
            (true, true) => self.counts.doubles += n,
            (true, false) => self.counts.floats += n,
        }
    }
}

fn has_loops(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| matches!(stmt, Stmt::For(_)) || stmt.inside().into_iter().any(has_loops))
}

/// Whether a body takes the elements that a thread takes at once.
fn has_lanes(stmts: &[Stmt]) -> bool {
    stmts.iter().any(|stmt| matches!(stmt, Stmt::For(all) if matches!(all.axis, Axis::Lanes(_))))
}

/// Into how many pieces something is split, and how long they are on average.
fn split(whole: f64, size: usize, piece: &mut f64) -> f64 {
    let pieces = (whole / size.max(1) as f64).ceil().max(1.0);
    *piece = whole / pieces;
    pieces
}

/// The resource that bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The bandwidth of memory, or of a cache that holds all operands.
    Memory,
    /// Operations.
    Operations,
    /// Loops' heads, barriers and waves of blocks that are not full.
    Loops,
    /// The launch itself.
    Launch,
}

impl Bound {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Operations => "operations",
            Bound::Loops => "loops",
            Bound::Launch => "launch",
        }
    }
}

/// The time of a kernel by the model, in nanoseconds, and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Bytes of the distinct elements of operands and results: no plan moves fewer.
    pub fewest: f64,
    /// Bytes between memory and the nearest cache.
    pub bytes: f64,
    /// Operations, on floats and doubles.
    pub operations: f64,
    /// The time that moving takes.
    pub memory: f64,
    /// The time that computing takes.
    pub compute: f64,
    /// The time of loops' heads and barriers.
    pub loops: f64,
    /// The time of a launch.
    pub launch: f64,
    /// The share of computation that is hidden behind memory, or the other way round.
    pub hidden: f64,
}

/// Bytes of the first level of cache that buffers have: the rest is for operands.
const FIRST_CACHE: usize = 24 << 10;
/// Memory and computation overlap, but not wholly: so much of the shorter one remains.
const REST: f64 = 0.3;
/// The same where the next elements are prefetched, or threads wait for each other's loads.
const REST_AHEAD: f64 = 0.15;

impl Estimate {
    /// The time.
    pub fn time(&self) -> f64 {
        let rest = (1.0 - self.hidden) * self.memory.min(self.compute);
        self.launch + self.memory.max(self.compute) + rest + self.loops
    }

    /// That of two launches, one after the other, which are about the same operands.
    pub(crate) fn then(&self, next: &Estimate) -> Estimate {
        Estimate {
            fewest: self.fewest,
            bytes: self.bytes + next.bytes,
            operations: self.operations + next.operations,
            memory: self.memory + next.memory,
            compute: self.compute + next.compute,
            loops: self.loops + next.loops,
            launch: self.launch + next.launch,
            hidden: self.hidden.min(next.hidden),
        }
    }

    /// The resource that takes longest.
    pub fn bound(&self) -> Bound {
        let all = [
            (Bound::Memory, self.memory),
            (Bound::Operations, self.compute),
            (Bound::Loops, self.loops),
            (Bound::Launch, self.launch),
        ];
        all.into_iter().fold(all[0], |most, one| if one.1 > most.1 { one } else { most }).0
    }
}

/// A kernel on a machine, with operands of given sizes.
#[derive(Clone, Copy, Debug)]
pub struct Model<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// The direction and the strides of its operands.
    pub traversal: &'k super::kernel::Traversal,
    /// The sizes.
    pub extents: &'k Extents,
    /// The machine.
    pub device: &'k Device,
    /// How the function takes contiguous elements, if it does.
    pub wide: Option<Wide>,
}

impl Model<'_> {
    /// Bytes of the distinct elements of an access.
    fn distinct(&self, access: usize) -> f64 {
        self.extents.elements[access] * self.kernel.dtype_of(access).size() as f64
    }

    /// Bytes of the distinct elements of all accesses.
    pub(crate) fn fewest(&self) -> f64 {
        (0..self.kernel.accesses()).map(|access| self.distinct(access)).sum()
    }

    /// The time of a nest.
    pub(crate) fn estimate(&self, nest: &Nest, plan: &Plan, open: Open) -> Estimate {
        let counts = Counts::of(nest, self.extents, open);
        let device = self.device;
        let full = self.share_of_lanes(nest, plan, open);
        let rate = device.units * device.clock;
        let compute = counts.floats / (device.lanes * rate)
            + counts.doubles / (device.lanes_of_doubles * rate)
            + counts.scalars / (device.scalars * rate)
            + counts.buffered * self.of_buffers(nest, open) / (device.lanes * rate);
        let (bytes, burst) = self.bytes(nest, &counts, plan, open);
        let memory = bytes * burst / self.band() / full.max(0.05) / self.share_of_requests(nest, plan);
        let loops = (counts.heads * device.head + counts.barriers * device.barrier) / self.at_once(nest, plan, open);
        let is_ahead = counts.prefetches || device.has_blocks();
        Estimate {
            fewest: self.fewest(),
            bytes,
            operations: counts.floats + counts.doubles + counts.scalars,
            memory,
            compute: compute / full,
            loops,
            launch: device.launch,
            hidden: 1.0 - if is_ahead || open.ahead { REST_AHEAD } else { REST },
        }
    }

    /// A time that no plan falls below: each distinct element is moved once, and each step computed
    /// once, without loops.
    pub(crate) fn floor(&self) -> f64 {
        let device = self.device;
        let times = |at: usize| {
            let read = self.kernel.steps[at].inputs.iter().filter_map(|input| match input.source {
                super::kernel::Source::Load(k) => Some(self.extents.elements[k]),
                _ => None,
            });
            read.fold(0.0, f64::max)
        };
        let steps = self.kernel.steps.iter().enumerate();
        let operations: f64 = steps.map(|(i, step)| step.formula.operations.max(1) as f64 * times(i)).sum();
        let most = device.lanes.max(device.lanes_of_doubles).max(device.scalars);
        let compute = operations / (most * device.units * device.clock);
        let memory = self.fewest() / device.band.max(self.band());
        device.launch + memory.max(compute)
    }

    /// How much longer elements of buffers take where the first level of cache does not hold them.
    fn of_buffers(&self, nest: &Nest, open: Open) -> f64 {
        let bytes: usize = nest.buffers.iter().map(|buffer| buffer.elements * buffer.dtype.size()).sum();
        if open.buffers || bytes <= FIRST_CACHE { 1.0 } else { 2.0 }
    }

    /// Whether a cache holds all operands and results.
    fn is_cached(&self) -> bool {
        self.fewest() <= 0.6 * self.device.cache
    }

    fn band(&self) -> f64 {
        if self.is_cached() { self.device.cached_band } else { self.device.band }
    }

    /// Bytes that a nest moves, and by how much the worst bursts of stores slow them down.
    fn bytes(&self, nest: &Nest, counts: &Counts, plan: &Plan, open: Open) -> (f64, f64) {
        let (mut bytes, mut burst) = (self.left(nest), 1.0f64);
        for (at, access) in nest.accesses.iter().enumerate() {
            if nest.split.is_some() && counts.accesses[at] == 0.0 {
                continue;
            }
            let (distinct, size) = (self.distinct(at), self.kernel.dtype_of(at).size() as f64);
            let passes = (counts.accesses[at] * size / distinct.max(1.0)).max(1.0);
            // A launch of parts reads each element once.
            let is_once = nest.split.is_some() || self.waits_near(at, plan, open);
            let again = if is_once { 0.0 } else { passes - 1.0 };
            let spread = self.spread(access, plan, size);
            bytes += distinct * (1.0 + again) * spread;
            if !access.is_written || self.device.has_blocks() || self.is_cached() {
                continue;
            }
            match access.streamed {
                // A store to memory that no cache holds reads its line first.
                None => bytes += distinct,
                Some(elements) if !open.tiles && !open.buffers => burst = burst.max(slowed(elements as f64 * size)),
                Some(_) => {}
            }
        }
        (bytes, burst)
    }

    /// Bytes of what parts leave for a later launch, which one of the two writes and the other one
    /// reads.
    fn left(&self, nest: &Nest) -> f64 {
        let rows = match nest.split {
            Some(Split::Parts) => self.rows(),
            Some(Split::Merge) => self.rows() * self.extents.parts,
            _ => return 0.0,
        };
        rows * (nest.slots * SLOT) as f64
    }

    /// Whether what a loop reads again waits in the cache of a unit: a row, or a shared operand.
    fn waits_near(&self, access: usize, plan: &Plan, open: Open) -> bool {
        let rows = match (self.traversal.direction, plan.grid) {
            (Direction::Points, _) => return self.distinct(access) <= self.device.cache,
            (_, Some(grid)) if grid.rows == RowsBy::Thread && open.threads => WARP,
            (_, Some(grid)) if grid.rows == RowsBy::Thread => grid.threads as f64,
            (Direction::Outer | Direction::Strided, _) if open.tiles => 1.0,
            (Direction::Outer, _) => plan.tile as f64,
            (Direction::Strided, _) => plan.side as f64,
            _ => 1.0,
        };
        let row = |at: usize| match self.traversal.invariant[at] {
            true => 0.0,
            false => self.extents.count * self.kernel.dtype_of(at).size() as f64,
        };
        let held: f64 = (0..self.kernel.accesses()).map(row).sum();
        self.is_cached() || rows * held <= self.device.near_cache
    }

    /// How many times the bytes of an element a thread moves: sectors are 32 bytes, and threads
    /// that read other elements of them do so in another cycle.
    fn spread(&self, access: &Access, plan: &Plan, size: f64) -> f64 {
        let Some(grid) = plan.grid.filter(|_| !access.is_crossed) else { return 1.0 };
        let apart = match (grid.rows, self.traversal.direction) {
            (RowsBy::Thread, Direction::Inner | Direction::Split | Direction::Strided) => true,
            (RowsBy::Thread, _) => access.inner == Inner::Strided,
            (_, Direction::Outer) => true,
            _ => access.inner == Inner::Strided,
        };
        let is_small = access.is_of_row && self.traversal.direction != Direction::Points;
        if apart && !is_small && self.extents.count > 1.0 { (32.0 / size).max(1.0) / 2.0 } else { 1.0 }
    }

    /// The share of lanes that have work: blocks of the last wave leave some idle, and a few blocks
    /// do not fill a machine.
    fn share_of_lanes(&self, nest: &Nest, plan: &Plan, open: Open) -> f64 {
        let Some(grid) = plan.grid.filter(|_| !open.threads) else { return 1.0 };
        let held = self.held(grid.threads as f64);
        let blocks = self.blocks(nest, plan);
        if self.wide.is_some() {
            // Threads that have several elements need not be many; units with one block more wait.
            let of_unit = blocks / self.device.units;
            return if of_unit >= 1.0 { of_unit / of_unit.ceil() } else { of_unit };
        }
        let waves = blocks / (held * self.device.units);
        if waves >= 1.0 { waves / waves.ceil() } else { waves.max(1.0 / (held * self.device.units)) }
    }

    /// The share of the rate of memory that units request, where threads take several elements at
    /// once.
    fn share_of_requests(&self, nest: &Nest, plan: &Plan) -> f64 {
        let (Some(grid), Some(wide)) = (plan.grid, self.wide) else { return 1.0 };
        let threads = grid.threads as f64;
        let resident = self.held(threads).min((self.blocks(nest, plan) / self.device.units).ceil()) * threads;
        (resident * wide.ahead.max(wide.groups * WIDEST) as f64 / ON_THEIR_WAY).min(1.0)
    }

    /// Blocks of so many threads that a unit holds.
    fn held(&self, threads: f64) -> f64 {
        (self.device.threads / threads).floor().clamp(1.0, self.device.blocks)
    }

    /// Blocks of a launch.
    fn blocks(&self, nest: &Nest, plan: &Plan) -> f64 {
        let Some(grid) = plan.grid else { return 1.0 };
        if nest.side > 0 {
            return self.extents.squares;
        }
        if nest.split == Some(Split::Merge) {
            // A warp merges a row of threads, a block one of blocks.
            let of_block = if grid.rows == RowsBy::Block { 1.0 } else { grid.threads as f64 / WARP };
            return (self.rows() / of_block).ceil();
        }
        let Extents { rows, inner, .. } = *self.extents;
        let wide = self.wide.unwrap_or(Wide::plain(grid.threads, 1));
        let points = (grid.threads * wide.lanes * wide.groups) as f64;
        match (grid.rows, self.traversal.direction) {
            (RowsBy::Thread, Direction::Points | Direction::Outer) => (rows * inner / points).ceil(),
            (RowsBy::Thread, _) => (rows / grid.threads as f64).ceil(),
            (_, Direction::Outer) => rows * inner,
            _ => (rows / wide.rows as f64).ceil(),
        }
    }

    /// Loops that run at the same time.
    fn at_once(&self, nest: &Nest, plan: &Plan, open: Open) -> f64 {
        let Some(grid) = plan.grid else { return self.device.units };
        if open.threads {
            return (self.device.threads / WARP).max(1.0) * self.device.units;
        }
        (self.held(grid.threads as f64) * self.device.units).min(self.blocks(nest, plan))
    }
}

/// How much longer stores take in bursts of so many bytes: 1.4 times as long with 4 KiB as with 1,
/// and 2.6 times with 16; see [`super::kernel_plan::Tuning::tile`].
fn slowed(burst: f64) -> f64 {
    1.0 + (burst / 1024.0 - 1.0).max(0.0) * 0.12
}
