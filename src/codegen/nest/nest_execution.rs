//! Runs nests without a compiler: statement by statement, in the arithmetic of C.
//!
//! It is a second way to compute what compiled kernels compute, which shares with them the nest and
//! the text of the vector mathematics only. Where the order of operations is fixed, as it is in
//! kernels without reductions, both give the same bits, but for the payload of NaN.

use super::build::is_real;
use super::{Axis, Compute, For, Nest, Operand, Origin, Place, Scope, Stmt};
use crate::codegen::arithmetic::Number;
use crate::codegen::c_spelling::{suffix, value_type};
use crate::codegen::expression::Expr;
use crate::codegen::kernel::Inner;
use crate::codegen::mathematics::{call, evaluate};
use crate::tensor::{DType, Scalar};

/// The memory of a launch.
pub trait Memory {
    /// An element of an access: its bits, extended to 64, or the number if it is a float.
    fn load(&self, access: usize, at: i64) -> Number;

    /// Writes an element.
    fn store(&mut self, access: usize, at: i64, value: Number);
}

/// The iteration space of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Space<'a> {
    /// Sizes, outermost first; at least one.
    pub shape: &'a [i64],
    /// Strides in elements, a row for each access.
    pub strides: &'a [i64],
    /// Floating-point operands of the group.
    pub reals: &'a [f64],
    /// Integer operands.
    pub wholes: &'a [i64],
}

/// Runs a nest.
///
/// # Errors
/// If a statement cannot be executed.
pub fn run(nest: &Nest, space: &Space<'_>, memory: &mut dyn Memory) -> Result<(), String> {
    let buffers = nest.buffers.iter().map(|buffer| vec![Number::Int(0); buffer.elements]).collect();
    let values = vec![Number::Int(0); nest.values.len()];
    let mut machine = Machine { nest, space, memory, buffers, values, places: Vec::new(), from: 0, count: 0, i: 0 };
    machine.stmts(&nest.body)
}

struct Machine<'a> {
    nest: &'a Nest,
    space: &'a Space<'a>,
    memory: &'a mut dyn Memory,
    buffers: Vec<Vec<Number>>,
    values: Vec<Number>,
    /// The first element of each access in the row.
    places: Vec<i64>,
    /// The first point of the tile, how many it has, and the point of the loop.
    from: i64,
    count: i64,
    i: i64,
}

impl Machine<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            Stmt::For(all) => self.repeat(all),
            Stmt::Let { value, compute, .. } => {
                self.values[*value] = self.computed(*value, compute)?;
                Ok(())
            }
            Stmt::Store { to, operand, .. } => self.stored(*to, operand),
            // Memory is there, and nothing is in a cache.
            Stmt::Alloc(_) | Stmt::Open(_) | Stmt::Flush(_) | Stmt::Prefetch { .. } => Ok(()),
        }
    }

    fn repeat(&mut self, all: &For) -> Result<(), String> {
        match all.axis {
            Axis::Tiles(points) => {
                let rows: i64 = self.space.shape[..self.space.shape.len() - 1].iter().product();
                (0..rows).try_for_each(|row| self.tiles(row, points, all))
            }
            Axis::FirstRow(points) => self.tiles(0, points, all),
            Axis::Points => (0..self.count).try_for_each(|i| {
                self.i = i;
                self.stmts(&all.body)
            }),
        }
    }

    /// The tiles of a row.
    fn tiles(&mut self, row: i64, points: usize, all: &For) -> Result<(), String> {
        self.places = (0..self.nest.accesses.len()).map(|access| self.first_of_row(access, row)).collect();
        let n = self.space.shape.last().copied().unwrap_or(1);
        for from in (0..n).step_by(points) {
            (self.from, self.count) = (from, (n - from).min(points as i64));
            self.i = 0;
            self.stmts(&all.body)?;
        }
        Ok(())
    }

    fn first_of_row(&self, access: usize, mut row: i64) -> i64 {
        let (rank, mut place) = (self.space.shape.len(), 0);
        for dim in (0..rank - 1).rev() {
            place += row % self.space.shape[dim] * self.space.strides[access * rank + dim];
            row /= self.space.shape[dim];
        }
        place
    }

    /// The position of an access at the point of the loop.
    fn at(&self, access: usize) -> i64 {
        let rank = self.space.shape.len();
        let stride = match self.nest.accesses[access].inner {
            Inner::Broadcast => 0,
            Inner::Unit => 1,
            Inner::Strided => self.space.strides[access * rank + rank - 1],
        };
        self.places[access] + (self.from + self.i) * stride
    }

    fn index(&self, buffer: usize) -> usize {
        match self.nest.buffers[buffer].scope {
            Scope::Row => (self.from + self.i) as usize,
            Scope::Tile => self.i as usize,
        }
    }

    fn computed(&self, value: usize, compute: &Compute) -> Result<Number, String> {
        let dtype = self.nest.values[value].dtype;
        let number = match compute {
            Compute::Load(Place::Access(access)) => {
                widened(self.memory.load(*access, self.at(*access)), self.nest.accesses[*access].dtype)?
            }
            Compute::Load(Place::Buffer(buffer)) => self.buffers[*buffer][self.index(*buffer)],
            Compute::Apply { formula, computed, operands, rounded } => {
                let leaf = |leaf: &Expr| match *leaf {
                    Expr::Operand(letter) => {
                        let found = operands.iter().find(|(own, _)| *own == letter);
                        let (_, operand) = found.ok_or_else(|| format!("there is no operand {letter}"))?;
                        self.operand(operand)
                    }
                    Expr::Integer(n) => Ok(literal(Scalar::Int(n), DType::Int)),
                    Expr::Float(x) => Ok(literal(Scalar::Float(x), *computed)),
                    _ => Err("a formula has no such part".to_owned()),
                };
                let suffix = suffix(*computed);
                let number = evaluate(&formula.expr, &leaf, &|name| format!("jo_{name}{suffix}"))?;
                let is_truth = dtype == DType::Bool && *computed == DType::Bool;
                let number = if is_truth { Number::truth(number.is_true()) } else { number };
                match rounded {
                    Some(short) => converted(number.cast("float"), DType::Float, *short)?,
                    None => number,
                }
            }
        };
        Ok(number.cast(value_type(dtype)))
    }

    fn origin(&self, origin: Origin, dtype: DType) -> Number {
        match origin {
            Origin::Value(value) => self.values[value],
            Origin::Constant(scalar) => literal(scalar, dtype),
            Origin::Float(k) => Number::Double(self.space.reals[k]),
            Origin::Integer(k) => Number::Long(self.space.wholes[k]),
        }
    }

    fn operand(&self, operand: &Operand) -> Result<Number, String> {
        match operand.origin {
            Origin::Constant(scalar) => Ok(literal(scalar, operand.to)),
            origin => converted(self.origin(origin, operand.from), operand.from, operand.to),
        }
    }

    fn stored(&mut self, to: Place, operand: &Operand) -> Result<(), String> {
        let value = converted(self.origin(operand.origin, operand.from), operand.from, operand.to)?;
        match to {
            Place::Buffer(buffer) => {
                let index = self.index(buffer);
                self.buffers[buffer][index] = value.cast(value_type(operand.to));
            }
            Place::Access(access) => {
                let value = narrowed(value, self.nest.accesses[access].dtype)?;
                let at = self.at(access);
                self.memory.store(access, at, value);
            }
        }
        Ok(())
    }
}

/// A number of a type, as `c_spelling::literal` spells it.
fn literal(scalar: Scalar, dtype: DType) -> Number {
    match is_real(dtype) {
        true if dtype == DType::Double => Number::Double(scalar.real()),
        true => Number::Float(scalar.real() as f32),
        false => {
            let n = scalar.int();
            i32::try_from(n).map_or(Number::Long(n), Number::Int)
        }
    }
}

/// An element in memory as a value.
fn widened(element: Number, dtype: DType) -> Result<Number, String> {
    match dtype {
        DType::Half => call("jo_from_half", &[element]),
        DType::BFloat16 => call("jo_from_bfloat16", &[element]),
        _ => Ok(element),
    }
}

/// A value as an element in memory.
fn narrowed(value: Number, dtype: DType) -> Result<Number, String> {
    match dtype {
        DType::Half => call("jo_to_half", &[value.cast("float")]),
        DType::BFloat16 => call("jo_to_bfloat16", &[value.cast("float")]),
        _ => Ok(value),
    }
}

/// Converts a value as `c_spelling::converted` does.
fn converted(value: Number, from: DType, to: DType) -> Result<Number, String> {
    match to {
        _ if from == to => Ok(value),
        DType::Bool => Ok(Number::truth(value.is_true())),
        DType::Half | DType::BFloat16 => widened(narrowed(value, to)?, to),
        _ if is_real(from) && !is_real(to) => {
            let suffix = if value_type(from) == "float" { "f" } else { "" };
            let cut = if to == DType::Long { format!("jo_cut{suffix}") } else { format!("jo_cut32{suffix}") };
            call(&cut, &[value]).map(|number| number.cast(value_type(to)))
        }
        _ => Ok(value.cast(value_type(to))),
    }
}
