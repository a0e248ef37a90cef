//! The loop nest of a kernel under a plan: what every target prints, and what the executor runs.
//!
//! A [`Nest`] is a list of statements over accesses (elements of operands and results), buffers and
//! values. All decisions have been made: `build` reads them off the plan, printers
//! only visit. Values have the names of the graph, and statements their IR lines:
//!
//! ```text
//! for each tile of 256 points, in parallel
//!   for each point, as a vector
//!     v_x = in0[i]                     # %x
//!     v_y = a < 0 ? 0 : a              # %y : Float(*) = aten::relu(%x)
//!     out0[i] = v_y                    # a result
//! ```
//!
//! Kernels with reductions have loops over rows, over the blocks of a row, and over the elements of
//! a block. The state of a reduction is in [`Variable`]s, which statements set; each row has its
//! own, or there is an array of them where several rows are reduced at once:
//!
//! ```text
//! for each row, in parallel
//!   variable a_s = 0
//!   for each piece of the row
//!     for each block of 1024 elements
//!       variable p_s = 0
//!       for each point i of the tile, as a vector, with a sum of p_s
//!         v_x = in0[i]                 # %x
//!         p_s = p_s + v_x              # %s : Float(*) = aten::sum(%x, …)
//!       a_s = a_s + p_s
//!   v_s = a_s                          # %s : Float(*) = aten::sum(%x, …)
//! ```
//!
//! Targets with blocks of threads have rows by blocks, elements by the threads of a block, and
//! barriers; see `grid_nests.rs`.
//!
//! A transformation of nests changes the plan and not the statements: add the choice to
//! [`super::kernel_plan`], and let `build` read it. `verify` then checks
//! the nest, and the executor runs it.

pub mod build;
mod element_nests;
mod grid_merges;
mod grid_nests;
mod grid_scans;
mod grid_splits;
mod grid_variances;
mod grid_verification;
pub mod identity;
pub mod nest_execution;
#[cfg(test)]
mod nest_test;
mod nest_text;
mod row_nests;
mod split_nests;
mod square_nests;
mod state_rules;
mod thread_conditions;
mod variance_nests;
pub mod verification;
mod wide_nests;

use super::expression::Expression;
use super::kernel::{Direction, Inner};
use super::number_type::NumberType;
use super::window::{Gives, Guard};
use crate::tensor::{DType, Kind, Scalar};

/// How the iterations of a loop run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bind {
    /// Sequentially.
    Serial,
    /// In parallel: ranges of them are shares of a launch.
    Worker,
    /// Several at once, in a vector.
    Vector,
    /// Sequentially, without a loop where a target unrolls it.
    Unroll,
    /// Each by a thread of the launch.
    Grid,
    /// Each by a block of threads, whose threads all run the body.
    Block,
    /// Each by a warp, all of whose lanes run the body.
    Warp,
    /// The threads of a block take turns.
    Thread,
}

/// The range of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// The tiles of all rows: pieces of the innermost dimension, of at most so many points.
    Tiles(usize),
    /// The tiles of the first row.
    FirstRow(usize),
    /// The points of a tile, the elements of a block, or interleaved rows.
    Points,
    /// Rows, one after the other.
    Rows,
    /// Tiles of interleaved rows, of at most so many.
    Columns(usize),
    /// Sides: neighbouring rows of which memory holds pieces alternately, at most so many.
    Sides(usize),
    /// The rows of a side.
    Side,
    /// The pieces of a row that are not adjacent in memory.
    Pieces,
    /// The blocks of a piece.
    Blocks {
        /// Elements of a block.
        size: usize,
        /// Those of the first one, as long as a variable that counts elements is 0.
        first: Option<(usize, usize)>,
    },
    /// The lines of a block: elements at the same position of all interleaved rows.
    Lines {
        /// How many an iteration takes.
        at_once: usize,
        /// How many the loop before takes at once, which leaves the rest to this one.
        rest_of: usize,
    },
    /// The lines that an iteration takes.
    Together(usize),
    /// Parts of a line.
    Parts {
        /// The interleaved rows of a part.
        columns: usize,
        /// Whether lines have parts in all launches; else only where results are streamed.
        always: bool,
    },
    /// The merged states of all parts of a split row.
    Shares,
    /// The merged states of the parts before this one.
    SharesBefore,
    /// The elements of a row, in all its pieces.
    Elements,
    /// The elements of a row, so many at a time as a block has threads: each has one of them, or
    /// none in the last chunk.
    Chunks,
    /// Distances between so many lanes of a warp, each twice the one before: 1, 2, ... 16.
    Distances(usize),
    /// Halves of so many lanes of a warp, each half as large as the one before: 16, 8, ... 1.
    Halves(usize),
    /// So many rounds, in each of which the threads of a row take neighbouring groups of elements.
    Rounds {
        /// How many.
        count: usize,
        /// The loop of which they are all rounds.
        of: Whole,
    },
    /// So many batches of rounds.
    Batches(usize),
    /// The spans of a row, of so many rounds each.
    Spans(usize),
    /// The points that a block takes at once, in so many rounds.
    Groups(usize),
    /// The elements, so many, that a thread takes at once.
    Lanes(usize),
    /// Squares of so many by so many points of the last two dimensions.
    Squares(usize),
    /// The points of a square, in so many strips, of which each thread has one point.
    Strips(usize, Way),
}

/// The direction in which neighbouring threads have neighbouring points of a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Along the innermost dimension.
    Across,
    /// Along the dimension before it.
    Down,
}

/// The loop of which rounds are parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whole {
    /// A row that is kept in registers.
    Row,
    /// A batch of them.
    Batch,
    /// A span of a row of any length.
    Span,
    /// The points that a block takes at once.
    Group,
}

/// A variable that the iterations of a loop combine: OpenMP's name for how, and whether each
/// iteration reads what the ones before have made of it, as scans do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combined {
    /// The variable.
    pub variable: usize,
    /// `+`, `*`, `|`, `min` or `max`.
    pub how: &'static str,
    /// Whether it is read by each iteration.
    pub is_scan: bool,
}

/// A loop.
#[derive(Clone, Debug)]
pub struct For {
    /// The range of the loop.
    pub axis: Axis,
    /// How its iterations run.
    pub bind: Bind,
    /// Variables that iterations which run at once combine.
    pub combined: Vec<Combined>,
    /// The access whose part of a tile it runs over: not over all points.
    pub within: Option<usize>,
    /// The statements of each iteration.
    pub body: Vec<Stmt>,
}

/// A place in memory, at the point of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An element of an operand or result.
    Access(usize),
    /// An element of a buffer.
    Buffer(usize),
}

/// The origin of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// A value.
    Value(usize),
    /// A constant.
    Constant(Scalar),
    /// A floating-point operand of the group.
    Float(usize),
    /// An integer operand of the group.
    Integer(usize),
    /// A variable.
    Variable(usize),
    /// A number that loops know.
    Known(Known),
    /// A slot of the state that a part of a split row has left, of a type.
    Found(usize, NumberType),
    /// A slot in which an earlier launch has left the result of a row, of a type.
    Merged(usize, NumberType),
    /// A variable of the lane of the warp that is a half further in the loop over halves.
    Partner(usize),
    /// A variable of the first lane of the warp.
    OfFirst(usize),
    /// A variable of the warp whose number is that of this lane, of as many warps as have one.
    OfWarp(usize),
    /// A variable of the lane of the warp that is a distance before this one in the loop over
    /// distances; its own where there is none.
    Before(usize),
    /// A variable of the lane of the warp with this number.
    OfLane(usize, usize),
    /// A variable of the lane whose number is that of the warp before this one; of any lane in the
    /// first warp.
    OfWarpBefore(usize),
}

/// A number that loops know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// The elements of a row.
    Count,
    /// The elements of a piece.
    Width,
    /// The points of the innermost loop: of a tile, a block or a part.
    Points,
    /// The lines of a block.
    Lines,
    /// The piece.
    Piece,
    /// The first element of a block.
    First,
    /// The line.
    Line,
    /// The point.
    Point,
    /// The thread in its block.
    Thread,
    /// The lane of its warp that a thread is.
    Lane,
    /// The warp of its block that a thread is in.
    Warp,
    /// The number of an element among those that a thread takes at once.
    InGroup,
    /// The position of an element in its row.
    Element,
    /// The elements of a row, as a position.
    End,
    /// The position of a row, and the number of rows.
    Row,
    /// See [`Known::Row`].
    Rows,
    /// The distance between two lanes.
    Distance,
    /// The position of a point along the last dimension but one, and the size of that.
    Down,
    /// See [`Known::Down`].
    DownEnd,
    /// The position of a point along the innermost dimension, and the size of that.
    Across,
    /// See [`Known::Across`].
    AcrossEnd,
}

/// A value, converted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand {
    /// The origin of the value.
    pub origin: Origin,
    /// Its type there.
    pub from: DType,
    /// The type that it is read in.
    pub to: DType,
}

/// The expression that computes a value.
#[derive(Clone, Debug)]
pub enum Compute {
    /// An element of memory.
    Load(Place),
    /// A formula.
    Apply {
        /// The formula.
        formula: &'static Expression,
        /// The type that it computes in.
        computed: DType,
        /// Its operands by their letters.
        operands: Vec<(char, Operand)>,
        /// The 16-bit type that the result is rounded to, as if it were written to memory.
        rounded: Option<DType>,
    },
    /// The value that a state yields.
    Finish {
        /// The result.
        term: Term,
        /// As above.
        rounded: Option<DType>,
    },
}

/// An expression over variables and values.
#[derive(Clone, Debug)]
pub struct Term {
    /// The expression.
    pub formula: &'static Expression,
    /// The type that functions and numbers in it have.
    pub ty: NumberType,
    /// Its operands by their letters.
    pub operands: Vec<(char, Operand)>,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// A loop.
    For(For),
    /// Makes a buffer, whose elements are not initialised.
    Alloc(usize),
    /// Makes a place accessible in a tile.
    Open(Place),
    /// Computes a value.
    Let {
        /// The value.
        value: usize,
        /// What it is.
        compute: Compute,
        /// Its IR line; empty where it is read from a buffer.
        note: String,
    },
    /// Writes a value.
    Store {
        /// Where.
        to: Place,
        /// What.
        operand: Operand,
        /// Whether it is kept there for later loops, until a result overwrites it.
        waits: bool,
        /// Why.
        note: String,
    },
    /// The end of a tile of a result that may be written with non-temporal stores.
    Flush(usize),
    /// Prefetches the elements that these accesses read later.
    Prefetch {
        /// The accesses.
        accesses: Vec<usize>,
        /// How much later.
        ahead: Distance,
        /// Points that share a line of the caches: one of so many is prefetched.
        step: usize,
    },
    /// Makes variables, with initial values or without.
    Begin(Vec<(usize, Option<Term>)>),
    /// Sets a variable.
    Set {
        /// The variable.
        variable: usize,
        /// Its new value.
        term: Term,
        /// Its IR line, or nothing.
        note: String,
    },
    /// Adds to an element of a result.
    Accumulate {
        /// The access.
        to: usize,
        /// What.
        term: Term,
        /// Its IR line, or nothing.
        note: String,
    },
    /// Statements whose variables end with them.
    Scope(Vec<Stmt>),
    /// Statements that run if a condition holds.
    If {
        /// The condition.
        when: Term,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// Statements that run once more if one of some conditions holds after them.
    Retry {
        /// The statements.
        body: Vec<Stmt>,
        /// The conditions.
        lost: Vec<Term>,
        /// The statements before they run again.
        again: Vec<Stmt>,
    },
    /// In the loop of a scan: what follows reads the variable with this element in it.
    Inclusive(usize),
    /// A phase of a launch with split rows: runs in this phase only, and ends the row.
    Phase {
        /// The phase.
        number: i64,
        /// The statements of each part.
        body: Vec<Stmt>,
    },
    /// The statements of one part of a split row in a phase.
    Once {
        /// The phase.
        number: i64,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// Leaves a variable in a slot for other parts.
    Leave {
        /// The variable.
        variable: usize,
        /// The slot.
        slot: usize,
    },
    /// Finds where accesses are: at a row, or at an element of it.
    Locate {
        /// The accesses.
        accesses: Vec<usize>,
        /// Rows, or elements.
        at: Axis,
    },
    /// Makes room for the elements of an access that a thread reads ahead.
    Reserve(usize),
    /// Reads the elements of an access that a thread takes at once.
    Fetch(usize),
    /// Writes them.
    Deliver(usize),
    /// Makes the square of a crossed access, in shared memory.
    MakeSquare(usize),
    /// Copies an element of an operand into its square.
    FillSquare {
        /// The access.
        access: usize,
        /// Its IR line.
        note: String,
    },
    /// Copies an element of a result out of its square.
    EmptySquare {
        /// The access.
        access: usize,
        /// Why.
        note: String,
    },
    /// All threads of a block wait for each other.
    Barrier,
}

/// How far ahead a loop prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distance {
    /// So many elements of the row.
    Elements(usize),
    /// As many lines as have so many elements.
    Lines(usize),
    /// The next row, if rows have at most so many elements.
    NextRow(usize),
}

/// Parts of a split row begin at multiples of so many elements, so that none writes to a line of
/// the caches that another one writes to.
pub const APART: i64 = 64;

/// A variable: a part of the state of a reduction, or what is computed on the way.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: NumberType,
    /// How many there are.
    pub spread: Spread,
    /// Whether it keeps its initial value.
    pub is_fixed: bool,
}

/// How many variables have one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Spread {
    /// One.
    One,
    /// One for each of so many interleaved rows.
    Columns(usize),
    /// One for each of so many rows of a side.
    Side(usize),
    /// One for each of so many warps of a block, which the others can read.
    Warps(usize),
}

/// An operand or result, as a loop sees it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its name.
    pub name: String,
    /// Its element type in memory.
    pub dtype: DType,
    /// Whether it is written.
    pub is_written: bool,
    /// Its stride along the innermost dimension.
    pub inner: Inner,
    /// Whether it has one element per row.
    pub is_of_row: bool,
    /// Whether elements are added to it: the accumulators of a column reduction.
    pub is_added_to: bool,
    /// The window whose element it reads.
    pub watch: Option<Watch>,
    /// Whether a thread reads or writes several of its elements by one access.
    pub is_wide: bool,
    /// Whether its elements go through shared memory, as they are neighbours along another
    /// dimension than the innermost one.
    pub is_crossed: bool,
    /// The rounds whose elements a thread reads before it uses them; 0 where it uses each at once.
    pub ahead: usize,
    /// The elements of the buffer that it goes through when a launch streams; none where it never
    /// does.
    pub streamed: Option<usize>,
}

/// A load of an element of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    /// The loaded value, and the one outside of the operand.
    pub gives: Gives,
    /// Whether it is outside of it at some positions.
    pub guard: Guard,
}

/// A value of the graph, at a point.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its type.
    pub dtype: DType,
}

/// The purpose of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The points of a tile.
    Tile,
    /// The points of a row.
    Row,
    /// Interleaved rows, or the rows of a side.
    Rows,
    /// The elements of a row that a thread takes.
    Thread,
}

/// A buffer of values.
#[derive(Clone, Debug, Hash)]
pub struct Buffer {
    /// The value that its elements are.
    pub value: usize,
    /// The type in which they are kept.
    pub dtype: DType,
    /// How many elements it has.
    pub elements: usize,
    /// The purpose of the elements.
    pub scope: Scope,
}

/// The launches of a split reduction on blocks of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Reduces parts of rows, and leaves the states of each.
    Parts,
    /// Merges them.
    Merge,
}

/// A kernel as loops.
#[derive(Clone, Debug)]
pub struct Nest {
    /// The name of its group.
    pub group: String,
    /// The kind of its reduction.
    pub direction: Direction,
    /// Assumptions, as text for people.
    pub assumed: Vec<String>,
    /// The operands and results.
    pub accesses: Vec<Access>,
    /// The number of floating-point operands of the group.
    pub floats: usize,
    /// The number of integer operands.
    pub integers: usize,
    /// The values.
    pub values: Vec<Value>,
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// The variables.
    pub variables: Vec<Variable>,
    /// The slots of the state that each part of a split row leaves.
    pub slots: usize,
    /// The threads of a block, on targets that have blocks of threads.
    pub threads: Option<usize>,
    /// The blocks that a multiprocessor is to hold, which limits the registers of a thread; 0 where
    /// the compiler decides.
    pub blocks: usize,
    /// Whether the elements of a row differ in one dimension only, so that an element is found
    /// without divisions.
    pub is_flat: bool,
    /// The elements that a thread takes at once.
    pub lanes: usize,
    /// The points along a side of the squares that blocks take; 0 where they take none.
    pub side: usize,
    /// The launch of a split reduction that it is for.
    pub split: Option<Split>,
    /// The statements.
    pub body: Vec<Stmt>,
}

impl Axis {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Axis::Tiles(_) => "tiles",
            Axis::FirstRow(_) => "tiles of the first row",
            Axis::Points => "points",
            Axis::Rows => "rows",
            Axis::Columns(_) => "tiles of interleaved rows",
            Axis::Sides(_) => "sides",
            Axis::Side => "the rows of a side",
            Axis::Pieces => "pieces",
            Axis::Blocks { .. } => "blocks",
            Axis::Lines { .. } => "lines",
            Axis::Together(_) => "lines that are taken at once",
            Axis::Parts { .. } => "parts of lines",
            Axis::Shares | Axis::SharesBefore => "parts of a row",
            Axis::Elements => "elements",
            Axis::Chunks => "chunks",
            Axis::Distances(_) => "distances",
            Axis::Halves(_) => "halves",
            Axis::Rounds { .. } => "rounds",
            Axis::Batches(_) => "batches",
            Axis::Spans(_) => "spans",
            Axis::Groups(_) => "groups of points",
            Axis::Lanes(_) => "lanes",
            Axis::Squares(_) => "squares",
            Axis::Strips(..) => "strips",
        }
    }

    /// The points of a tile, of loops over tiles.
    pub(crate) fn tile(self) -> Option<usize> {
        match self {
            Axis::Tiles(points) | Axis::FirstRow(points) => Some(points),
            _ => None,
        }
    }

    /// Whether only blocks of threads have such a loop.
    pub(crate) fn needs_threads(self) -> bool {
        match self {
            Axis::Elements
            | Axis::Chunks
            | Axis::Distances(_)
            | Axis::Halves(_)
            | Axis::Rounds { .. }
            | Axis::Batches(_)
            | Axis::Spans(_)
            | Axis::Groups(_)
            | Axis::Lanes(_)
            | Axis::Squares(_)
            | Axis::Strips(..) => true,
            Axis::Tiles(_)
            | Axis::FirstRow(_)
            | Axis::Points
            | Axis::Rows
            | Axis::Columns(_)
            | Axis::Sides(_)
            | Axis::Side
            | Axis::Pieces
            | Axis::Blocks { .. }
            | Axis::Lines { .. }
            | Axis::Together(_)
            | Axis::Parts { .. }
            | Axis::Shares
            | Axis::SharesBefore => false,
        }
    }

    /// Whether it runs over tiles, rows or groups of rows: no loop is around it.
    pub(crate) fn is_outermost(self) -> bool {
        matches!(self, Axis::Tiles(_) | Axis::FirstRow(_) | Axis::Rows | Axis::Columns(_) | Axis::Sides(_))
    }
}

impl For {
    /// A loop whose iterations combine nothing.
    pub(crate) fn over(axis: Axis, bind: Bind, body: Vec<Stmt>) -> Stmt {
        Stmt::For(For { axis, bind, combined: Vec::new(), within: None, body })
    }
}

impl Known {
    /// Whether only threads of a block know it.
    pub(crate) fn needs_threads(self) -> bool {
        match self {
            Known::Thread
            | Known::Lane
            | Known::Warp
            | Known::InGroup
            | Known::Element
            | Known::End
            | Known::Row
            | Known::Rows
            | Known::Distance
            | Known::Down
            | Known::DownEnd
            | Known::Across
            | Known::AcrossEnd => true,
            Known::Count
            | Known::Width
            | Known::Points
            | Known::Lines
            | Known::Piece
            | Known::First
            | Known::Line
            | Known::Point => false,
        }
    }
}

impl Origin {
    /// Whether only threads of a block can read it: a number that they know, or a variable of
    /// another one.
    pub(crate) fn needs_threads(self) -> bool {
        match self {
            Origin::Partner(_) | Origin::OfFirst(_) | Origin::OfWarp(_) | Origin::Before(_) => true,
            Origin::OfLane(..) | Origin::OfWarpBefore(_) => true,
            Origin::Known(known) => known.needs_threads(),
            Origin::Value(_)
            | Origin::Constant(_)
            | Origin::Float(_)
            | Origin::Integer(_)
            | Origin::Variable(_)
            | Origin::Found(..)
            | Origin::Merged(..) => false,
        }
    }
}

impl Operand {
    /// Whether it is a float that becomes an integer.
    fn is_truncated(&self) -> bool {
        let is_real = |dtype: DType| dtype.arithmetic() == Some(Kind::Float);
        is_real(self.from) && !is_real(self.to) && self.to != DType::Bool
    }
}

impl Stmt {
    /// Whether only nests of blocks of threads have it.
    pub(crate) fn needs_threads(&self) -> bool {
        match self {
            Stmt::For(all) => all.axis.needs_threads(),
            Stmt::Locate { .. } | Stmt::Reserve(_) | Stmt::Fetch(_) | Stmt::Deliver(_) | Stmt::Barrier => true,
            Stmt::MakeSquare(_) | Stmt::FillSquare { .. } | Stmt::EmptySquare { .. } => true,
            _ => self.operands().into_iter().any(|operand| operand.origin.needs_threads()),
        }
    }

    /// What it reads itself.
    pub(crate) fn operands(&self) -> Vec<&Operand> {
        fn of(term: &Term) -> impl Iterator<Item = &Operand> {
            term.operands.iter().map(|(_, operand)| operand)
        }
        match self {
            Stmt::Let { compute: Compute::Apply { operands, .. }, .. } => {
                operands.iter().map(|(_, operand)| operand).collect()
            }
            Stmt::Let { compute: Compute::Finish { term, .. }, .. }
            | Stmt::Set { term, .. }
            | Stmt::Accumulate { term, .. }
            | Stmt::If { when: term, .. } => of(term).collect(),
            Stmt::Store { operand, .. } => vec![operand],
            Stmt::Begin(variables) => variables.iter().filter_map(|(_, term)| term.as_ref()).flat_map(of).collect(),
            Stmt::Retry { lost, .. } => lost.iter().flat_map(of).collect(),
            _ => Vec::new(),
        }
    }

    /// The statements in it.
    pub(crate) fn inside(&self) -> Vec<&[Stmt]> {
        match self {
            Stmt::For(all) => vec![&all.body],
            Stmt::Scope(body) | Stmt::If { body, .. } | Stmt::Phase { body, .. } | Stmt::Once { body, .. } => {
                vec![body]
            }
            Stmt::Retry { body, again, .. } => vec![body, again],
            _ => Vec::new(),
        }
    }
}

impl Access {
    /// Whether it is outside of its operand at some positions.
    pub(crate) fn has_guard(&self) -> bool {
        self.watch.is_some_and(|watch| watch.guard != Guard::None)
    }
}

impl Variable {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self.spread {
            Spread::One => 1,
            Spread::Columns(n) | Spread::Side(n) | Spread::Warps(n) => n,
        }
    }
}

impl Nest {
    /// The points of a tile.
    pub(crate) fn tile(&self) -> usize {
        let tiles = self.body.iter().filter_map(|stmt| if let Stmt::For(all) = stmt { all.axis.tile() } else { None });
        tiles.max().unwrap_or(1)
    }

    /// Whether threads wait for each other: at a barrier, or where lanes of a warp exchange values.
    pub(crate) fn has_barriers(&self) -> bool {
        self.has(&|stmt| {
            matches!(stmt, Stmt::Barrier | Stmt::For(For { axis: Axis::Halves(_) | Axis::Distances(_), .. }))
        })
    }

    /// Whether it converts floats to integers.
    pub(crate) fn truncates(&self) -> bool {
        self.has(&|stmt| stmt.operands().into_iter().any(Operand::is_truncated))
    }

    /// Whether something holds of a statement in it.
    pub(crate) fn has(&self, holds: &dyn Fn(&Stmt) -> bool) -> bool {
        fn is_in(stmts: &[Stmt], holds: &dyn Fn(&Stmt) -> bool) -> bool {
            stmts.iter().any(|stmt| holds(stmt) || stmt.inside().into_iter().any(|body| is_in(body, holds)))
        }
        is_in(&self.body, holds)
    }

    /// The name of a place, for people.
    pub(crate) fn place(&self, place: Place) -> String {
        match place {
            Place::Access(access) => self.accesses[access].name.clone(),
            Place::Buffer(buffer) => format!("t{}", &self.values[self.buffers[buffer].value].name[1..]),
        }
    }
}
