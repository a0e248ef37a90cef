//! The loop nest: one iteration space, loads, a DAG of computations, stores.
//!
//! All accesses are made at the same point of a space whose sizes are given at launch, each by
//! strides of its own; broadcasting is a stride of 0, a chunk a load that begins further in, a part
//! of a concatenation a store that does.
//!
//! A kernel may fold the space along some of its dimensions, several times: the largest element of
//! a row, then the sum of what is computed with it. What stands still along those dimensions is of
//! the *row*, and computed once for all of its elements.
//!
//! Which accesses do not depend on the position in a row is found from strides at launch: a bias
//! along rows or across them needs no mark in the graph. A norm that is written node by node, with
//! a softmax after it, is one kernel for which no pattern exists.

use super::prelude;
use crate::analysis::axis_maps::AxisMap;
use crate::analysis::reduced_dims::Axes;
use crate::ops::recipes::ReduceOp;
use crate::tensor::{DType, Scalar};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// One of several equal parts of a tensor along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The dimension; negative ones count from behind.
    pub dim: i64,
    /// How many parts.
    pub count: i64,
    /// Which.
    pub index: i64,
}

/// An element of an operand.
#[derive(Clone, Debug)]
pub struct Load {
    /// The operand of the group.
    pub operand: usize,
    /// How its dimensions lie in the space.
    pub axis_map: AxisMap,
    /// The part of it that counts as a tensor of its own.
    pub part: Option<Part>,
    /// Its element type in memory.
    pub dtype: DType,
    /// Whether the operand has dimensions.
    pub dimensioned: bool,
    /// What the value is called in the text.
    pub name: String,
    /// The IR line that it comes from.
    pub line: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// A load.
    Load(usize),
    /// A step.
    Step(usize),
    /// What elements were folded into.
    Reduced(usize),
    /// A constant.
    Constant(Scalar),
    /// A real number that is an operand of the group, by its place among those.
    Float(usize),
    /// A whole number that is an operand of the group.
    Integer(usize),
}

/// A value as a step reads it.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// The name of it in the formula.
    pub letter: char,
    /// Where it comes from.
    pub source: Source,
    /// The type that it has there.
    pub dtype: DType,
    /// The type that it is converted to.
    pub to: DType,
}

/// How a result lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// As eager kernels order the dimensions of their operands.
    AsOperands,
    /// In a row, whatever operands do.
    InARow,
    /// With its channels last where the first operand has them so and is not in a row.
    WithChannels,
}

/// One operator, applied to one element.
#[derive(Clone, Debug)]
pub struct Step {
    /// The formula; see [`crate::ops::formulas`].
    pub text: &'static str,
    /// The type that it computes in. 16-bit reals are computed with 32 bits.
    pub computed: DType,
    /// The type of the result.
    pub out: DType,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// What the value is called in the text.
    pub name: String,
    /// The IR line.
    pub line: String,
    /// How the result lies in memory.
    pub lies: Lies,
    /// Whether the result lacks the dimensions that are folded, of which its operands have one
    /// element.
    pub drops: bool,
    /// Whether it is of all elements of the row up to this one.
    pub scan: Option<Scan>,
    /// Whether it is a value of the graph, and not one on the way to it: those of 16 bits are
    /// rounded, as eager kernels write them to memory.
    pub is_value: bool,
}

/// A running total: a sum or a product of the elements so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How.
    pub op: ReduceOp,
    /// The dimension along which it runs.
    pub axes: Axes,
}

/// What an operand must be so that no operator raises an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A constant of this floating-point type.
    Holds(DType),
    /// Without zeros, as elements of this type.
    NoZeros(DType),
    /// A number from 0 on.
    Natural,
}

/// Makes one value of all elements of a row.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// How.
    pub op: ReduceOp,
    /// Of a variance: what is taken from the number of elements before it divides.
    pub correction: f64,
    /// What is folded, converted to the type that is computed in.
    pub input: Input,
    /// The type of the result.
    pub out: DType,
    /// The dimensions along which that is done.
    pub axes: Axes,
    /// The sizes that these must have, where the node says them.
    pub sizes: Option<Vec<i64>>,
    /// Whether the result keeps the dimensions that are folded, with size 1.
    pub keep: bool,
    /// What the value is called in the text.
    pub name: String,
    /// The IR line.
    pub line: String,
    /// Whether it is a value of the graph; see [`Step`].
    pub is_value: bool,
}

/// A sum of reals along other dimensions than those of rows, which nothing in the kernel reads:
/// each element is added to one of the result as it comes.
///
/// ```text
/// y = x * w,  rows y.sum(1),  aside y.sum(0):   out0[i] += y     | for each element of each row
/// ```
///
/// What is added to has doubles, and each share of a launch has its own, which are added up behind
/// it. So the sums for weight and bias are in the kernel of a layer norm's gradient.
#[derive(Clone, Debug)]
pub struct ColumnReduction {
    /// The dimensions along which it sums.
    pub axes: Axes,
    /// Whether the result keeps them, with size 1.
    pub keep: bool,
    /// What is summed, converted to the type that is computed in.
    pub input: Input,
    /// The IR line.
    pub line: String,
}

/// Writes an element of a result.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// How the dimensions of the result lie in the space.
    pub axis_map: AxisMap,
    /// What is written.
    pub source: Source,
    /// Its type there.
    pub dtype: DType,
    /// The tensor that is made.
    pub tensor: usize,
    /// The part of it, where several values are concatenated.
    pub part: Option<Part>,
    /// The sum that an element is added to in the place of being written.
    pub column_reduction: Option<usize>,
}

/// The element type of a tensor that is made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The element type.
    pub dtype: DType,
    /// What it is called in the text.
    pub name: String,
}

/// What a result of a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A tensor that is made.
    Made(usize),
    /// An operand, which is handed on as it is: a conversion found that it has the type already.
    /// Often only a run shows that. Where something writes to what may be the operand, `fuse`
    /// leaves the conversion outside.
    Operand(usize),
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The group that it is of.
    pub group: String,
    /// What is loaded.
    pub loads: Vec<Load>,
    /// Operands of the group that are real numbers, and whole ones.
    pub floats: Vec<usize>,
    /// See `floats`.
    pub integers: Vec<usize>,
    /// What operands must be that only a launch tells, else an operator raises an exception.
    pub limits: Vec<(usize, Limit)>,
    /// What is computed, operands first.
    pub steps: Vec<Step>,
    /// Values that must have exactly this shape, else the operator raises an exception.
    pub exact: Vec<(Source, Vec<i64>)>,
    /// What is folded, operands first.
    pub reductions: Vec<Reduction>,
    /// What is summed along other dimensions.
    pub column_reductions: Vec<ColumnReduction>,
    /// What is stored.
    pub stores: Vec<Store>,
    /// The tensors that are made.
    pub made: Vec<Made>,
    /// What the results of the group are.
    pub results: Vec<Outcome>,
    /// Whether what is put together has its channels last where all parts have them so: since
    /// PyTorch 1.5.
    pub keeps_channels: bool,
    /// Operations of arithmetic for a point, about: as formulas and the vector mathematics are
    /// written.
    pub operations: usize,
    /// What had to be assumed, for people.
    pub assumed: Vec<String>,
}

/// How an access moves along the innermost dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inner {
    /// Not at all.
    Broadcast,
    /// To the next element.
    Unit,
    /// By a number of elements that is given at launch.
    Strided,
}

impl Inner {
    /// Of a stride.
    pub fn of(stride: i64) -> Inner {
        match stride {
            0 => Inner::Broadcast,
            1 => Inner::Unit,
            _ => Inner::Strided,
        }
    }
}

/// So many elements of a row are kept that all rows share: 16 KiB of floats.
pub const KEPT: usize = 4096;
/// So many such values: together they stay in the second level of cache.
const MOST_KEPT: usize = 4;

/// How a kernel walks over its space. With the element types it is all that a kernel is specialised
/// by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Traversal {
    /// How it folds, if it does.
    pub direction: Direction,
    /// How each access moves along the innermost dimension.
    pub inner: SmallVec<[Inner; 16]>,
    /// Whether each access stands still along the dimensions that are folded; of points along all
    /// but the innermost, if something is computed of such operands alone.
    pub invariant: SmallVec<[bool; 16]>,
}

/// What the rows of points share: steps that read only what stands still from row to row.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// All of them.
    pub all: BTreeSet<usize>,
    /// Those that something else reads.
    pub kept: BTreeSet<usize>,
}

/// Where the dimensions are along which a kernel folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// There are none: all points are alike.
    Points,
    /// The innermost one is one of them: a loop over a row of neighbours.
    Inner,
    /// The same, and each row is parted between threads, since there are fewer rows than those.
    Split,
    /// As along rows, but one that is kept lies between it and another: memory holds a piece of
    /// each row in turn, and as many rows as fit are folded at once.
    Strided,
    /// The innermost one is none: rows stand side by side, and as many as fit are folded at once.
    Outer,
}

impl Direction {
    /// Whether loops over elements run along a row, and rows come one after the other.
    pub fn has_single_rows(self) -> bool {
        matches!(self, Direction::Inner | Direction::Split)
    }

    /// Whether loops over elements run along a row.
    pub fn has_inner_loop(self) -> bool {
        matches!(self, Direction::Inner | Direction::Split | Direction::Strided)
    }
}

impl Traversal {
    /// Whether a store writes one element for a row.
    pub fn writes_rows(&self, kernel: &Kernel, store: usize) -> bool {
        self.direction != Direction::Points && self.invariant[kernel.loads.len() + store]
    }
}

impl Kernel {
    /// Whether rows differ from elements in it.
    pub fn has_rows(&self) -> bool {
        !self.reductions.is_empty() || self.has_scan()
    }

    /// Whether it has running totals, to which the order of elements matters.
    pub fn has_scan(&self) -> bool {
        self.steps.iter().any(|step| step.scan.is_some())
    }

    /// Whether it tells where elements are, to which their order matters as well.
    pub fn has_arg_reductions(&self) -> bool {
        self.reductions.iter().any(|reduction| reduction.op.is_arg_reduction())
    }

    /// The dimensions along which it folds, or runs; nothing where it does neither.
    pub fn axes(&self) -> Option<&Axes> {
        let scan = self.steps.iter().filter_map(|step| step.scan.as_ref()).map(|scan| &scan.axes);
        self.reductions.iter().map(|reduction| &reduction.axes).chain(scan).next()
    }

    /// Whether something but a store reads a value.
    pub fn reads(&self, source: Source) -> bool {
        let steps = self.steps.iter().flat_map(|step| &step.inputs);
        let reduced = self.reductions.iter().map(|reduction| &reduction.input);
        steps
            .chain(reduced)
            .chain(self.column_reductions.iter().map(|column_reduction| &column_reduction.input))
            .any(|input| input.source == source)
    }

    /// The same with names that say nothing: what differs in names alone is one kernel, such as
    /// what the turns of a loop make.
    pub fn unnamed(&self) -> Kernel {
        let (mut kernel, mut known) = (self.clone(), FxHashMap::default());
        let names = (kernel.loads.iter_mut().map(|load| &mut load.name))
            .chain(kernel.steps.iter_mut().map(|step| &mut step.name))
            .chain(kernel.reductions.iter_mut().map(|reduction| &mut reduction.name));
        for name in names {
            let number = known.len();
            *name = format!("v_{}", known.entry(name.clone()).or_insert(number));
        }
        kernel
    }

    /// What rows share where some accesses stand still from one to the next. Nothing, where reading
    /// it again takes as long as computing it.
    pub fn columns(&self, invariant: &[bool]) -> Columns {
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
        let operations: usize = columns.all.iter().map(|&i| prelude::operations(self.steps[i].text).max(1)).sum();
        let is_worth_it = columns.kept.len() <= MOST_KEPT && operations > columns.kept.len();
        if is_worth_it { columns } else { Columns::default() }
    }

    /// How many accesses there are: loads, then stores.
    pub fn accesses(&self) -> usize {
        self.loads.len() + self.stores.len()
    }

    /// The element type of an access in memory.
    pub fn dtype_of(&self, access: usize) -> DType {
        match access.checked_sub(self.loads.len()) {
            None => self.loads[access].dtype,
            Some(store) if self.stores[store].column_reduction.is_some() => DType::Double,
            Some(store) => self.made[self.stores[store].tensor].dtype,
        }
    }

    /// Whether an access adds to a sum aside.
    pub fn is_column_reduction(&self, access: usize) -> bool {
        access.checked_sub(self.loads.len()).is_some_and(|store| self.stores[store].column_reduction.is_some())
    }

    /// Whether no operand of an operator is converted: then it does not matter which tensors have
    /// dimensions.
    pub fn is_of_one_type(&self) -> bool {
        let is_of_type = |step: &&Step| step.is_value && step.out != DType::Bool;
        let steps = self.steps.iter().filter(is_of_type).map(|step| step.out);
        let all = self.loads.iter().map(|load| load.dtype).chain(steps);
        // Where an element is goes with nothing, as long as nobody computes with it.
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
