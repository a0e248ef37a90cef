//! Launch plans: how a group is launched on operands of a specification, determined once and kept
//! for later operands with the same one.
//!
//! A specification has all that a launch depends on besides contents: the type of each operand, and
//! the sizes and strides of tensors, but not their offsets in memory. Making a plan takes
//! microseconds; finding it again takes a comparison of specifications.

use super::caches::largest_cache;
use super::cuda_launch::DeviceKernel;
use super::division::Known;
use super::emulated_launch::Emulated;
use super::loading::{Away, Function, Loaded};
use crate::codegen::geometry::{Geometry, View};
use crate::codegen::kernel::{Direction, Kernel};
use crate::codegen::loop_structure::LaunchPhases;
use crate::codegen::lowering::Argument;
use crate::codegen::nest::Nest;
use crate::interpreter::IValue;
use crate::outlining::Excerpt;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Picoseconds of work for which another thread is worth it. A spinning thread begins in less than
/// half of that.
const WORTH_A_THREAD: usize = 5_000_000;
/// Picoseconds per byte, from the second level of cache, and per operation, in vectors of sixteen:
/// `jitopt-bench kernels` on a Xeon with AVX-512, by a copy of 768 KiB and by `sigmoid`. Where both
/// take longer another thread pays off even more.
const OF_A_BYTE: usize = 10;
const OF_AN_OPERATION: usize = 8;
/// Interleaved rows that are not split between threads.
const LINE_OF_COLUMNS: usize = 64;
/// The number of bytes per row below which non-temporal stores do not pay off: too many cache lines
/// are shared with the next row.
const WORTH_STREAMING: usize = 1 << 10;
/// The number of bytes of a launch from which on its operands exceed the second level of cache.
const WORTH_ASKING: usize = 4 << 20;
/// Shares of a launch for each thread, so that a delayed thread does not hold up all others.
const SHARES: i64 = 4;
/// The number of specifications kept per group; the least recently used one is evicted.
const MOST_PLANS: usize = 64;

/// A kernel that can be launched.
#[derive(Debug)]
pub struct Compiled {
    /// The code that a launch runs.
    pub code: Code,
    /// Points of a tile along the innermost dimension.
    pub tile: Option<usize>,
    /// The phases of a split reduction.
    pub phases: Option<LaunchPhases>,
}

/// The code that a launch runs.
#[derive(Debug)]
pub enum Code {
    /// A compiled function, with the library that it is in.
    Function(Function, Arc<Loaded>),
    /// A nest that is executed.
    Nest(Nest),
    /// Blocks of threads, emulated.
    Emulated(Emulated),
    /// Blocks of threads of a GPU.
    Device(DeviceKernel),
}

/// How a kernel is launched.
#[derive(Debug)]
pub struct Plan {
    /// The kernel.
    pub kernel: Rc<Kernel>,
    /// The space and the accesses.
    pub geometry: Geometry,
    /// The compiled kernel.
    pub compiled: Rc<Compiled>,
    /// Points of a tile of this launch along the innermost dimension.
    pub tile: Option<usize>,
    /// The number of threads. In a split reduction each has one part.
    pub threads: usize,
    /// The number of shares.
    pub shares: usize,
    /// Whether results are written with non-temporal stores.
    pub streams: bool,
    /// The cache level of its operands.
    pub away: Away,
}

impl Plan {
    /// A plan for a number of threads. Whether it streams follows from its size if that is not
    /// given.
    pub(crate) fn new(
        kernel: Rc<Kernel>,
        geometry: Geometry,
        compiled: Rc<Compiled>,
        threads: usize,
        streams: Option<bool>,
    ) -> Plan {
        let tile = compiled.tile.map(|tile| narrowed(tile, &geometry, threads));
        let shares = shares(threads, geometry.tiles(tile), &kernel);
        let bytes = touched(&kernel, &geometry);
        let streams = streams.unwrap_or_else(|| is_worth_streaming(&geometry, bytes));
        let away = match bytes {
            _ if streams || is_beyond_caches(bytes) => Away::InMemory,
            WORTH_ASKING.. => Away::InThirdLevel,
            _ => Away::InSecondLevel,
        };
        Plan { kernel, geometry, compiled, tile, threads, shares, streams, away }
    }
}

/// How a group is run.
#[derive(Clone, Debug)]
pub enum Way {
    /// As one kernel.
    Launch(Rc<Plan>),
    /// As several: the pieces of its section.
    Pieces(Rc<Vec<Excerpt>>),
}

/// How groups, identified by the number of their section, run per operand specification.
#[derive(Debug, Default)]
pub struct Plans(FxHashMap<u64, Vec<(Vec<Known>, Way)>>);

impl Plans {
    /// The kept plan for such operands.
    pub(crate) fn find(&mut self, section: u64, operands: &[IValue]) -> Option<Way> {
        let known_ways = self.0.get_mut(&section)?;
        let at = known_ways.iter().rposition(|(specification, _)| meets(specification, operands))?;
        known_ways[at..].rotate_left(1);
        known_ways.last().map(|(_, way)| way.clone())
    }

    /// Keeps a plan for such operands.
    pub(crate) fn keep(&mut self, section: u64, operands: &[IValue], way: Way) {
        let known_ways = self.0.entry(section).or_default();
        if known_ways.len() == MOST_PLANS {
            known_ways.remove(0);
        }
        known_ways.push((operands.iter().map(known).collect(), way));
    }
}

/// The known properties of an operand before a run.
pub(crate) fn known(value: &IValue) -> Known {
    (argument(value), value.tensor().map(View::of))
}

/// Whether operands match a specification.
pub(super) fn meets(specification: &[Known], operands: &[IValue]) -> bool {
    let meets = |((asked, view), value): (&Known, &IValue)| {
        *asked == argument(value)
            && match (view, value.tensor()) {
                (Some(view), Some(tensor)) => {
                    view.shape[..] == *tensor.shape() && view.strides[..] == *tensor.strides()
                }
                (view, tensor) => view.is_none() && tensor.is_none(),
            }
    };
    specification.len() == operands.len() && specification.iter().zip(operands).all(meets)
}

fn argument(value: &IValue) -> Argument {
    match (value, value.scalar()) {
        (IValue::Tensor(tensor), _) => Argument::Tensor { dtype: tensor.dtype(), dimensioned: tensor.rank() > 0 },
        (_, Some(scalar)) => Argument::Number(scalar.kind()),
        _ => Argument::Other,
    }
}

/// Bytes that a launch has to load and store; each is counted once, however often a broadcast
/// operand or a row is read.
pub(crate) fn touched(kernel: &Kernel, geometry: &Geometry) -> usize {
    let elements = |access: usize| match kernel.loads.get(access).and_then(|load| load.tap.as_ref()) {
        // The elements under a window are those of its operand, whatever the number of loads.
        Some(tap) if tap.is_first() => geometry.reaches[kernel.loads[access].operand],
        Some(_) => 0,
        None => geometry.elements(access),
    };
    (0..kernel.accesses()).map(|access| elements(access) * kernel.dtype_of(access).size()).sum()
}

/// The number of threads that a launch is worth, up to a maximum.
pub(crate) fn threads_worth(kernel: &Kernel, geometry: &Geometry, most: usize) -> usize {
    let work = touched(kernel, geometry) * OF_A_BYTE + geometry.points * kernel.operations * OF_AN_OPERATION;
    (work / WORTH_A_THREAD).max(1).min(most)
}

/// Whether the other accesses of a launch would evict its results from the caches, and rows are
/// long enough for non-temporal stores.
fn is_worth_streaming(geometry: &Geometry, bytes: usize) -> bool {
    let row = geometry.shape.last().map_or(0, |&n| n as usize) * size_of::<f32>();
    row >= WORTH_STREAMING && is_beyond_caches(bytes)
}

/// Whether the largest cache cannot hold the data of a launch until the next one.
fn is_beyond_caches(bytes: usize) -> bool {
    bytes >= largest_cache() / 2
}

/// The number of interleaved rows in a tile: as many as the kernel is written for, or fewer so that
/// each thread has a tile.
fn narrowed(tile: usize, geometry: &Geometry, threads: usize) -> usize {
    let columns = *geometry.shape.last().unwrap_or(&1) as usize;
    let is_outer = geometry.traversal.direction == Direction::Outer;
    match is_outer && (1..threads as i64).contains(&geometry.tiles(Some(tile))) {
        true => columns.div_ceil(threads).next_multiple_of(LINE_OF_COLUMNS).min(tile),
        false => tile,
    }
}

/// The number of shares of a launch: more than threads, except where each share has accumulators of
/// its own.
fn shares(threads: usize, tiles: i64, kernel: &Kernel) -> usize {
    let each = if kernel.column_reductions.is_empty() { SHARES } else { 1 };
    if threads > 1 { (threads as i64 * each).min(tiles).max(1) as usize } else { 1 }
}
