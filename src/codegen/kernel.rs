//! The loop nest of a kernel: one iteration space, loads, a DAG of computations, stores.
//!
//! All accesses are at the same point of a space whose sizes are given at launch, each with its own
//! strides. Broadcasting is a stride of 0; a chunk is a load with an offset, and a part of a
//! concatenation is a store with an offset.
//!
//! A kernel may reduce the space over some of its dimensions several times: the largest element of
//! a row, then the sum of a value computed with it. Values that are invariant along those
//! dimensions belong to the *row*, and are computed once for all of its elements.
//!
//! Strides at launch show which accesses do not depend on the position in a row: a bias that is
//! broadcast in either direction needs no mark in the graph. A norm written node by node, with a
//! softmax after it, is one kernel without a pattern for it.

use super::expression::Expression;
use super::kernel_plan::TUNING;
use super::window::{Gives, Guard, Tap};
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::Axes;
use crate::ops::recipes::ReduceOp;
use crate::tensor::{DType, Scalar};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// One of several equal parts of a tensor along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The dimension; negative ones count from the end.
    pub dim: i64,
    /// The number of parts.
    pub count: i64,
    /// The index of the part.
    pub index: i64,
}

/// An element of an operand.
#[derive(Clone, Debug)]
pub struct Load {
    /// The operand of the group.
    pub operand: usize,
    /// Which dimensions of the space those of the operand correspond to.
    pub axis_map: AxisMap,
    /// The part of it that is a tensor of its own.
    pub part: Option<Part>,
    /// The element of a window that slides over it.
    pub tap: Option<Tap>,
    /// Its element type in memory.
    pub dtype: DType,
    /// Whether the operand has dimensions. A tensor without dimensions takes no part in promotion.
    pub dimensioned: bool,
    /// The name of the value in the source.
    pub name: String,
    /// Its IR line.
    pub line: String,
}

impl Load {
    /// The type of its value.
    pub(crate) fn value_dtype(&self) -> DType {
        let is_index = self.tap.as_ref().is_some_and(|tap| tap.gives == Gives::Index);
        if is_index { DType::Long } else { self.dtype }
    }
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// A load.
    Load(usize),
    /// A step.
    Step(usize),
    /// The result of a reduction.
    Reduced(usize),
    /// A constant.
    Constant(Scalar),
    /// A floating-point operand of the group, by its index among those.
    Float(usize),
    /// An integer operand of the group.
    Integer(usize),
}

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Its name in the formula.
    pub letter: char,
    /// Its origin.
    pub source: Source,
    /// Its type at the origin.
    pub dtype: DType,
    /// The type that it is converted to.
    pub to: DType,
}

/// The memory layout of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultLayout {
    /// The order of dimensions that eager kernels derive from their operands.
    AsOperands,
    /// Contiguous, whatever the layout of operands.
    Contiguous,
    /// That of the operand, as a conversion keeps it.
    Kept,
    /// Channels last where the first operand is, by the rule of batch norms.
    WithChannels,
    /// Channels last where the operand of a pool is, which this load reads.
    AsImage(usize),
}

/// One operator, applied to an element.
#[derive(Clone, Debug)]
pub struct Step {
    /// The formula; see [`crate::ops::formulas`].
    pub formula: &'static Expression,
    /// The type that it computes in; 16-bit floats are computed in 32 bits.
    pub computed: DType,
    /// The type of the result.
    pub out: DType,
    /// Its operands.
    pub inputs: Vec<Input>,
    /// The name of the value in the source.
    pub name: String,
    /// The IR line.
    pub line: String,
    /// The memory layout of the result.
    pub layout: ResultLayout,
    /// Whether the result lacks the reduced dimensions, in which its operands have size 1.
    pub drops: bool,
    /// The scan that this is, where it combines all elements of the row up to this one.
    pub scan: Option<Scan>,
    /// Whether it is a value of the graph, not an intermediate one: 16-bit values are rounded,
    /// because eager kernels write them to memory.
    pub is_value: bool,
    /// The loop over a row in which it is known, see `Kernel::phase`.
    pub phase: usize,
}

/// A scan: the cumulative sum or product of the elements so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The operation.
    pub op: ReduceOp,
    /// The dimension of the scan.
    pub axes: Axes,
}

/// A condition on an operand under which no operator raises an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A constant within the range of this floating-point type.
    Holds(DType),
    /// Without zeros, as elements of this type.
    NoZeros(DType),
    /// A number of at least 0.
    Natural,
    /// Indices of elements of an image, which has so many dimensions: that of this operand.
    Places(usize, usize),
}

/// Reduces the elements of a row to one value.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operation.
    pub op: ReduceOp,
    /// For a variance: subtracted from the number of elements that it divides by.
    pub correction: f64,
    /// The operand, converted to the type that is computed in.
    pub input: Input,
    /// The type of the result.
    pub out: DType,
    /// The dimensions that are reduced.
    pub axes: Axes,
    /// The sizes that these must have, where the node gives them.
    pub sizes: Option<Vec<i64>>,
    /// Whether the result keeps the reduced dimensions, with size 1.
    pub keep: bool,
    /// The name of the value in the source.
    pub name: String,
    /// The IR line.
    pub line: String,
    /// Whether it is a value of the graph; see [`Step`].
    pub is_value: bool,
    /// The loop over a row that it is computed in: its result is known in the next one.
    pub phase: usize,
}

/// A floating-point sum over other dimensions than those of rows, which nothing in the kernel
/// reads. Each element is added to an element of the result when it is computed.
///
/// ```text
/// y = x * w,  rows y.sum(1), columns y.sum(0):   out0[i] += y     | for each element of each row
/// ```
///
/// The accumulators are doubles. Each share of a launch has its own, and the launch adds them up at
/// the end. So the sums for weight and bias are in the kernel of a layer norm's gradient.
#[derive(Clone, Debug)]
pub struct ColumnReduction {
    /// The dimensions that are summed.
    pub axes: Axes,
    /// Whether the result keeps them, with size 1.
    pub keep: bool,
    /// The operand, converted to the type that is computed in.
    pub input: Input,
    /// The IR line.
    pub line: String,
}

/// Stores an element of a result.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Which dimensions of the space those of the result correspond to.
    pub axis_map: AxisMap,
    /// The value that is stored.
    pub source: Source,
    /// Its type there.
    pub dtype: DType,
    /// The index of the tensor in `made`.
    pub tensor: usize,
    /// The part of it, where several values are concatenated.
    pub part: Option<Part>,
    /// The column reduction to whose accumulator the element is added instead of being stored.
    pub column_reduction: Option<usize>,
}

/// The element type of a result tensor.
#[derive(Clone, Debug)]
pub struct Made {
    /// The element type.
    pub dtype: DType,
    /// Its name in the source.
    pub name: String,
}

/// The origin of a result of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A tensor that the kernel makes.
    Made(usize),
    /// An operand that is forwarded unchanged: a conversion whose operand has the type already.
    /// Often only a run shows that. Where a node writes to memory that may be the operand's, `fuse`
    /// leaves the conversion outside.
    Operand(usize),
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The name of its group.
    pub group: String,
    /// The loads.
    pub loads: Vec<Load>,
    /// Floating-point operands of the group, and integer ones.
    pub floats: Vec<usize>,
    /// See `floats`.
    pub integers: Vec<usize>,
    /// Conditions on operands that can only be checked at launch; an operator raises an exception
    /// where one does not hold.
    pub limits: Vec<(usize, Limit)>,
    /// The elementwise computations, operands first.
    pub steps: Vec<Step>,
    /// Values that must have exactly this shape; else the operator raises an exception.
    pub exact: Vec<(Source, Vec<i64>)>,
    /// Values that have the shape of the space, though nothing is reduced: vectors of channels lie
    /// in their dimension 1.
    pub of_space: Vec<Source>,
    /// Values that must be images over so many dimensions, with channels and perhaps a batch.
    pub images: Vec<(Source, usize)>,
    /// The reductions, operands first.
    pub reductions: Vec<Reduction>,
    /// The sums over other dimensions than those of rows.
    pub column_reductions: Vec<ColumnReduction>,
    /// The stores.
    pub stores: Vec<Store>,
    /// The tensors that it makes.
    pub made: Vec<Made>,
    /// The results of the group.
    pub results: Vec<Outcome>,
    /// Whether a concatenation is channels last if all of its parts are: since PyTorch 1.5.
    pub keeps_channels: bool,
    /// The approximate number of arithmetic operations for a point, counted as formulas and the
    /// vector mathematics are written.
    pub operations: usize,
    /// Assumptions that were made, as text for people.
    pub assumed: Vec<String>,
}

/// The stride class of an access along the innermost dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inner {
    /// Stride 0.
    Broadcast,
    /// Stride 1: contiguous.
    Unit,
    /// Another stride, given at launch.
    Strided,
}

impl Inner {
    /// The class of a stride.
    pub(crate) fn of(stride: i64) -> Inner {
        match stride {
            0 => Inner::Broadcast,
            1 => Inner::Unit,
            _ => Inner::Strided,
        }
    }
}

/// How a kernel traverses its space. A kernel is specialised by this and the element types only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Traversal {
    /// The kind of its reduction, if it has one.
    pub direction: Direction,
    /// The stride class of each access along the innermost dimension.
    pub inner: SmallVec<[Inner; 16]>,
    /// Whether each access is invariant along the reduced dimensions. Without reductions: along all
    /// dimensions but the innermost, if some value is computed from such operands alone.
    pub invariant: SmallVec<[bool; 16]>,
    /// Whether each access may be outside of its operand.
    pub guards: SmallVec<[Guard; 16]>,
}

/// Values that all rows share: steps that read only row-invariant operands.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// All of these steps.
    pub all: BTreeSet<usize>,
    /// Those that other steps read.
    pub kept: BTreeSet<usize>,
}

/// The position of the reduced dimensions in the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Nothing is reduced: all points are alike.
    Points,
    /// The innermost dimension is reduced: a loop over a row of contiguous elements.
    Inner,
    /// The same, with each row split between threads, since there are fewer rows than threads.
    Split,
    /// An inner reduction with a kept dimension between two reduced ones: memory holds pieces of
    /// several rows alternately, and a loop reduces as many rows as fit at once.
    Strided,
    /// The innermost dimension is kept: rows are interleaved in memory, and a loop reduces as many
    /// as fit at once.
    Outer,
}

/// The directions with their names in plans. `Split` is chosen at launch, for plans it is `Inner`.
const DIRECTIONS: [(Direction, &str); 5] = [
    (Direction::Points, "points"),
    (Direction::Inner, "inner"),
    (Direction::Split, "split"),
    (Direction::Strided, "strided"),
    (Direction::Outer, "outer"),
];

impl Direction {
    /// Its name in plans.
    pub(crate) fn name(self) -> &'static str {
        DIRECTIONS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The direction with a name.
    pub(crate) fn named(name: &str) -> Option<Direction> {
        DIRECTIONS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Whether loops over elements run along a row, one row after the other.
    pub(crate) fn has_single_rows(self) -> bool {
        matches!(self, Direction::Inner | Direction::Split)
    }

    /// Whether loops over elements run along a row.
    pub(crate) fn has_inner_loop(self) -> bool {
        matches!(self, Direction::Inner | Direction::Split | Direction::Strided)
    }
}

impl Traversal {
    /// Whether a store writes one element per row.
    pub(crate) fn writes_rows(&self, kernel: &Kernel, store: usize) -> bool {
        self.direction != Direction::Points && self.invariant[kernel.loads.len() + store]
    }
}

impl Kernel {
    /// The phase in which a value is known: a loop over a row for each reduction that waits for
    /// another.
    pub(crate) fn phase(&self, source: Source) -> usize {
        match source {
            Source::Step(i) => self.steps[i].phase,
            Source::Reduced(k) => self.reductions[k].phase + 1,
            _ => 0,
        }
    }

    /// The phase in which all of some operands are known.
    pub(crate) fn phase_of<'a>(&self, inputs: impl IntoIterator<Item = &'a Input>) -> usize {
        inputs.into_iter().map(|input| self.phase(input.source)).max().unwrap_or(0)
    }

    /// Whether it has values per row and values per element.
    pub(crate) fn has_rows(&self) -> bool {
        !self.reductions.is_empty() || self.has_scan()
    }

    /// Whether it has scans, which depend on the order of elements.
    pub(crate) fn has_scan(&self) -> bool {
        self.steps.iter().any(|step| step.scan.is_some())
    }

    /// Whether it has argmax or argmin, which depend on the order of elements as well.
    pub(crate) fn has_arg_reductions(&self) -> bool {
        self.reductions.iter().any(|reduction| reduction.op.is_arg_reduction())
    }

    /// The dimensions that it reduces or scans, if any.
    pub(crate) fn axes(&self) -> Option<&Axes> {
        let scan = self.steps.iter().filter_map(|step| step.scan.as_ref()).map(|scan| &scan.axes);
        self.reductions.iter().map(|reduction| &reduction.axes).chain(scan).next()
    }

    /// Whether a step or reduction reads a value; stores do not count.
    pub(crate) fn reads(&self, source: Source) -> bool {
        let steps = self.steps.iter().flat_map(|step| &step.inputs);
        let reduced = self.reductions.iter().map(|reduction| &reduction.input);
        steps
            .chain(reduced)
            .chain(self.column_reductions.iter().map(|column_reduction| &column_reduction.input))
            .any(|input| input.source == source)
    }

    /// Values that rows share where some accesses are invariant from one row to the next. None
    /// where reading them again takes as long as computing them.
    pub(crate) fn columns(&self, invariant: &[bool]) -> Columns {
        let columns = self.columns_of(invariant);
        let operations: usize = columns.all.iter().map(|&i| self.steps[i].formula.operations.max(1)).sum();
        let is_worth_it = columns.kept.len() <= TUNING.most_shared && operations > columns.kept.len();
        if is_worth_it { columns } else { Columns::default() }
    }

    /// All values that rows share.
    pub(crate) fn columns_of(&self, invariant: &[bool]) -> Columns {
        let mut columns = Columns::default();
        for (i, step) in self.steps.iter().enumerate() {
            let is_shared = |input: &Input| match input.source {
                Source::Load(k) => invariant[k],
                Source::Step(operand) => columns.all.contains(&operand),
                Source::Reduced(_) => false,
                Source::Constant(_) | Source::Float(_) | Source::Integer(_) => true,
            };
            if step.scan.is_none() && step.inputs.iter().all(is_shared) {
                columns.all.insert(i);
            }
        }
        let others = self.steps.iter().enumerate().filter(|(i, _)| !columns.all.contains(i)).map(|(_, step)| step);
        let read = others.flat_map(|step| &step.inputs).map(|input| input.source);
        let read = read.chain(self.stores.iter().map(|store| store.source));
        let kept = |source| if let Source::Step(i) = source { columns.all.contains(&i).then_some(i) } else { None };
        columns.kept = read.filter_map(kept).collect();
        columns
    }

    /// The number of accesses: loads, then stores.
    pub(crate) fn accesses(&self) -> usize {
        self.loads.len() + self.stores.len()
    }

    /// The element type of an access in memory.
    pub(crate) fn dtype_of(&self, access: usize) -> DType {
        match access.checked_sub(self.loads.len()) {
            None => self.loads[access].dtype,
            Some(store) if self.stores[store].column_reduction.is_some() => DType::Double,
            Some(store) => self.made[self.stores[store].tensor].dtype,
        }
    }

    /// Whether an access is the accumulator of a column reduction.
    pub(crate) fn is_column_reduction(&self, access: usize) -> bool {
        access.checked_sub(self.loads.len()).is_some_and(|store| self.stores[store].column_reduction.is_some())
    }

    /// Whether no operand is converted; then it does not matter which tensors have dimensions.
    pub(crate) fn is_of_one_type(&self) -> bool {
        let is_of_type = |step: &&Step| step.is_value && step.out != DType::Bool;
        let steps = self.steps.iter().filter(is_of_type).map(|step| step.out);
        let all = self.loads.iter().map(|load| load.dtype).chain(steps);
        // An index of argmax or argmin belongs to no element type, as long as no step reads it.
        let is_apart = |k: usize| self.reductions[k].op.is_arg_reduction() && !self.reads(Source::Reduced(k));
        let reduced = self.reductions.iter().enumerate().filter(|(k, reduction)| reduction.is_value && !is_apart(*k));
        let reduced = reduced.map(|(_, reduction)| reduction.out);
        let all: Vec<DType> = all
            .chain(reduced)
            .chain(self.column_reductions.iter().map(|column_reduction| column_reduction.input.to))
            .collect();
        all.windows(2).all(|two| two[0] == two[1])
    }
}
