//! How a group is launched on operands of some specification: found once, and kept for the next
//! operands of their kind.
//!
//! A specification is what a launch depends on beside contents: what each operand is, and the sizes
//! and strides of tensors, but not where they begin in their memory. To settle a group takes
//! microseconds; to see that it is settled, a comparison of those.

use super::caches::largest_cache;
use super::division::Known;
use super::geometry::{Geometry, View};
use super::loading::{Away, Function, Loaded};
use crate::codegen::c_form::Turns;
use crate::codegen::kernel::{Direction, Kernel};
use crate::codegen::lowering::Argument;
use crate::interpreter::IValue;
use crate::outlining::Excerpt;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Picoseconds of work for which it is worth it to ask another thread. One that looks out for work
/// has begun in less than half of that.
const WORTH_A_THREAD: usize = 5_000_000;
/// Picoseconds that a byte takes, of what the second level of cache holds, and an operation, in
/// vectors of sixteen: `jitopt-bench kernels` on a Xeon with AVX-512, by a copy of 768 KiB and by
/// `sigmoid`. Where both take longer it is worth it all the more.
const OF_A_BYTE: usize = 10;
const OF_AN_OPERATION: usize = 8;
/// Rows side by side that threads are not parted in.
const LINE_OF_COLUMNS: usize = 64;
/// Bytes of a row below which too much of it are the lines that it shares with the next.
const WORTH_STREAMING: usize = 1 << 10;
/// Bytes of a launch from which on what it loads is no longer in the second level of cache.
const WORTH_ASKING: usize = 4 << 20;
/// Shares of a launch for each thread, so that one that is held up is not waited for by all.
const SHARES: i64 = 4;
/// Most specifications of a group that are remembered; what has not been asked for longest goes
/// first.
const MOST_PLANS: usize = 64;

/// A kernel that can be called. The library stays open as long.
#[derive(Debug)]
pub struct Compiled {
    /// What is called.
    pub function: Function,
    /// Points of a tile along the innermost dimension.
    pub tile: Option<usize>,
    /// Where rows are parted.
    pub turns: Option<Turns>,
    /// What the function is in.
    pub library: Rc<Loaded>,
}

/// How a kernel is launched.
#[derive(Debug)]
pub struct Plan {
    /// What is computed.
    pub kernel: Rc<Kernel>,
    /// The space, and where accesses are in it.
    pub geometry: Geometry,
    /// What is called.
    pub compiled: Rc<Compiled>,
    /// Points in a tile of it along the innermost dimension.
    pub tile: Option<usize>,
    /// How many threads a launch has. Where rows are parted each has one part.
    pub threads: usize,
    /// How many parts it is done in.
    pub shares: usize,
    /// Whether results go past the caches.
    pub streams: bool,
    /// How far what it loads is away.
    pub away: Away,
}

impl Plan {
    /// Of a launch that has so many threads. Whether it streams follows from its size where that is
    /// not said.
    pub fn new(
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

/// How groups, known by the number of their section, are run on operands that have come by.
#[derive(Debug, Default)]
pub struct Plans(FxHashMap<u64, Vec<(Vec<Known>, Way)>>);

impl Plans {
    /// What was kept for operands like these.
    pub fn find(&mut self, section: u64, operands: &[IValue]) -> Option<Way> {
        let known_ways = self.0.get_mut(&section)?;
        let at = known_ways.iter().rposition(|(specification, _)| meets(specification, operands))?;
        known_ways[at..].rotate_left(1);
        known_ways.last().map(|(_, way)| way.clone())
    }

    /// Keeps what was found for operands.
    pub fn keep(&mut self, section: u64, operands: &[IValue], way: Way) {
        let known_ways = self.0.entry(section).or_default();
        if known_ways.len() == MOST_PLANS {
            known_ways.remove(0);
        }
        known_ways.push((operands.iter().map(known).collect(), way));
    }
}

/// What is known of an operand before anything runs.
pub fn known(value: &IValue) -> Known {
    (argument(value), value.tensor().map(View::of))
}

/// Whether operands are of a specification.
fn meets(specification: &[Known], operands: &[IValue]) -> bool {
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

/// Bytes that a launch has to load and store, each once, however often a stretched operand or a row
/// is read.
pub fn touched(kernel: &Kernel, geometry: &Geometry) -> usize {
    (0..kernel.accesses()).map(|access| geometry.elements(access) * kernel.dtype_of(access).size()).sum()
}

/// How many threads a launch is worth, of at most so many.
pub fn threads_worth(kernel: &Kernel, geometry: &Geometry, most: usize) -> usize {
    let work = touched(kernel, geometry) * OF_A_BYTE + geometry.points * kernel.operations * OF_AN_OPERATION;
    (work / WORTH_A_THREAD).max(1).min(most)
}

/// Whether results would be driven out of the caches by what else a launch touches, and lie in rows
/// that are worth it.
fn is_worth_streaming(geometry: &Geometry, bytes: usize) -> bool {
    let row = geometry.shape.last().map_or(0, |&n| n as usize) * size_of::<f32>();
    row >= WORTH_STREAMING && is_beyond_caches(bytes)
}

/// Whether the largest cache does not keep what a launch touches until the next one.
fn is_beyond_caches(bytes: usize) -> bool {
    bytes >= largest_cache() / 2
}

/// How many rows that stand side by side are a tile: as many as are written for, or fewer if
/// threads would have none.
fn narrowed(tile: usize, geometry: &Geometry, threads: usize) -> usize {
    let columns = *geometry.shape.last().unwrap_or(&1) as usize;
    let is_outer = geometry.traversal.direction == Direction::Outer;
    match is_outer && (1..threads as i64).contains(&geometry.tiles(Some(tile))) {
        true => columns.div_ceil(threads).next_multiple_of(LINE_OF_COLUMNS).min(tile),
        false => tile,
    }
}

/// In how many parts a launch is done: more than there are threads, but where each part has totals
/// of its own.
fn shares(threads: usize, tiles: i64, kernel: &Kernel) -> usize {
    let each = if kernel.column_reductions.is_empty() { SHARES } else { 1 };
    if threads > 1 { (threads as i64 * each).min(tiles).max(1) as usize } else { 1 }
}
