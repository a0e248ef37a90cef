//! The loop nest: one iteration space, loads, a DAG of computations, stores.
//!
//! All accesses are made at the same point of a space whose sizes are given at launch, each by strides of its own; broadcasting
//! is a stride of 0, a chunk a load that begins further in, a part of a concatenation a store that does. A reduction will be a
//! step whose result lives in the outer part of the space; stores and steps behind it then belong to that part.

use crate::tensor::{DType, Scalar};

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
    /// A constant.
    Constant(Scalar),
    /// A real number that is an operand of the group, by its place among those.
    Real(usize),
    /// A whole number that is an operand of the group.
    Whole(usize),
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
}

/// Writes an element of a result.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// What is written.
    pub source: Source,
    /// Its type there.
    pub dtype: DType,
    /// The tensor that is made.
    pub tensor: usize,
    /// The part of it, where several values are concatenated.
    pub part: Option<Part>,
}

/// The element type of a tensor that is made.
#[derive(Clone, Debug)]
pub struct Made {
    /// The element type.
    pub dtype: DType,
    /// What it is called in the text.
    pub name: String,
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// The group that it is of.
    pub group: String,
    /// What is loaded.
    pub loads: Vec<Load>,
    /// Operands of the group that are real numbers, and whole ones.
    pub reals: Vec<usize>,
    /// See `reals`.
    pub wholes: Vec<usize>,
    /// What is computed, operands first.
    pub steps: Vec<Step>,
    /// What is stored.
    pub stores: Vec<Store>,
    /// The tensors that are made.
    pub made: Vec<Made>,
    /// For each result of the group the tensor that it is.
    pub results: Vec<usize>,
    /// What had to be assumed, for people.
    pub assumed: Vec<String>,
}

/// How an access moves along the innermost dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inner {
    /// Not at all.
    Still,
    /// To the next element.
    Unit,
    /// By a number of elements that is given at launch.
    Strided,
}

impl Inner {
    /// Of a stride.
    pub fn of(stride: i64) -> Inner {
        match stride {
            0 => Inner::Still,
            1 => Inner::Unit,
            _ => Inner::Strided,
        }
    }
}

impl Kernel {
    /// How many accesses there are: loads, then stores.
    pub fn accesses(&self) -> usize {
        self.loads.len() + self.stores.len()
    }

    /// Bytes that are loaded and stored at each point.
    pub fn bytes_per_point(&self) -> usize {
        let stored = self.stores.iter().map(|store| self.made[store.tensor].dtype.size());
        self.loads.iter().map(|load| load.dtype.size()).chain(stored).sum()
    }
}
