//! Runs nests without a compiler: statement by statement, in the arithmetic of C.
//!
//! It is a second way to compute what compiled kernels compute, which shares with them the nest and
//! the text of the vector mathematics only. Loops run sequentially, so that both give the same
//! bits, but for the payload of NaN, wherever the order of operations is fixed: everywhere but in
//! sums and products of floats along a row, which a compiler may split into lanes of a vector. A
//! launch has the shares of a compiled one, since each of them has its own sums of columns.

use super::build::is_real;
use super::{APART, Axis, Compute, For, Known, Nest, Operand, Origin, Place, Scope, Spread, Stmt, Term, Watch};
use crate::codegen::arithmetic::Number;
use crate::codegen::expression::Expr;
use crate::codegen::geometry::Geometry;
use crate::codegen::kernel::{Direction, Inner};
use crate::codegen::mathematics::{call, evaluate};
use crate::codegen::number_type::NumberType;
use crate::codegen::window::Gives;
use crate::tensor::{DType, Scalar};
use std::ops::Range;

/// The memory of a launch.
pub trait Memory {
    /// An element of an access: its bits, extended to 64, or the number if it is a float.
    fn load(&self, access: usize, at: i64) -> Number;

    /// Writes an element.
    fn store(&mut self, access: usize, at: i64, value: Number);

    /// Adds to an element of the accumulators that a share has for a column reduction.
    fn add(&mut self, access: usize, share: usize, at: i64, value: f64);
}

/// The iteration space of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Space<'a> {
    /// Sizes, outermost first; at least one.
    pub shape: &'a [i64],
    /// The dimensions of rows, before those that are reduced.
    pub kept: usize,
    /// Interleaved rows of a tile.
    pub columns: usize,
    /// The parts of a split row.
    pub parts: usize,
    /// The shares of a launch that splits no rows.
    pub shares: usize,
    /// Strides in elements, a row for each access.
    pub strides: &'a [i64],
    /// Where loads are inside of their operands, a row for each access; empty where all are.
    pub bounds: &'a [i64],
    /// Floating-point operands of the group.
    pub floats: &'a [f64],
    /// Integer operands.
    pub integers: &'a [i64],
}

/// Runs a nest.
///
/// # Errors
/// If a statement cannot be executed.
pub(crate) fn run(nest: &Nest, space: &Space<'_>, memory: &mut dyn Memory) -> Result<(), String> {
    if nest.has(&Stmt::needs_threads) {
        return Err(THREADS.to_owned());
    }
    let buffers = nest.buffers.iter().map(|buffer| vec![Number::Int(0); buffer.elements]).collect();
    let variables = nest.variables.iter().map(|one| vec![Number::Int(0).cast(one.ty); one.count()]).collect();
    let values = vec![Number::Int(0); nest.values.len()];
    let none = vec![0; nest.accesses.len()];
    let at = Point::default();
    let rows: i64 = space.shape[..space.kept.min(space.shape.len())].iter().product();
    let left = vec![Number::Int(0); nest.slots * space.parts * usize::try_from(rows).unwrap_or(0)];
    let mut machine = Machine {
        nest,
        space,
        memory,
        buffers,
        variables,
        values,
        places: none.clone(),
        offsets: none,
        at,
        shares: 1,
        left,
        is_ended: false,
    };
    let (parts, shares) = match nest.direction {
        Direction::Split => (space.parts, 1),
        _ => (1, space.shares.max(1)),
    };
    machine.shares = shares;
    for turn in 0..=last_turn(&nest.body) {
        for (part, share) in (0..parts).flat_map(|part| (0..shares).map(move |share| (part, share))) {
            (machine.at.turn, machine.at.part, machine.at.share) = (turn, part, share);
            machine.stmts(&nest.body)?;
        }
    }
    Ok(())
}

/// Why nests of blocks of threads are not executed: those are emulated.
const THREADS: &str = "threads of blocks are not executed statement by statement";

/// The last phase of a launch.
fn last_turn(stmts: &[Stmt]) -> i64 {
    let own = |stmt: &Stmt| match stmt {
        Stmt::Phase { number, .. } | Stmt::Once { number, .. } => *number,
        other => other.inside().into_iter().map(last_turn).max().unwrap_or(0),
    };
    stmts.iter().map(own).max().unwrap_or(0)
}

/// The position of each loop.
#[derive(Clone, Debug, Default)]
struct Point {
    /// The phase of the launch, the part, and the part whose state is read.
    turn: i64,
    part: usize,
    other: usize,
    /// The share of a launch that splits no rows.
    share: usize,
    /// The row, and how many are in its side.
    item: usize,
    side: i64,
    /// The row of the side.
    r: i64,
    /// The piece of the row.
    piece: i64,
    /// The first element of the tile or block, and how many points it has.
    from: i64,
    count: i64,
    /// The first line of the block, and how many it has.
    first: i64,
    lines: i64,
    /// The line, the one of those that are taken at once, the first point of the part, the point.
    line: i64,
    u: i64,
    c: i64,
    i: i64,
}

struct Machine<'a> {
    nest: &'a Nest,
    space: &'a Space<'a>,
    memory: &'a mut dyn Memory,
    buffers: Vec<Vec<Number>>,
    variables: Vec<Vec<Number>>,
    values: Vec<Number>,
    /// The first element of each access in the row, and the offset from it at which the piece
    /// begins.
    places: Vec<i64>,
    offsets: Vec<i64>,
    at: Point,
    shares: usize,
    /// The states that parts of split rows have left.
    left: Vec<Number>,
    /// Whether the row ends here.
    is_ended: bool,
}

impl Machine<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        for stmt in stmts {
            self.stmt(stmt)?;
            if self.is_ended {
                break;
            }
        }
        Ok(())
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
            Stmt::Alloc(_) | Stmt::Open(_) | Stmt::Flush(_) | Stmt::Prefetch { .. } | Stmt::Inclusive(_) => Ok(()),
            Stmt::Begin(variables) => self.begin(variables),
            Stmt::Set { variable, term, .. } => self.set(*variable, term),
            Stmt::Accumulate { to, term, .. } => {
                let (value, at) = (self.term(term)?.real(), self.position(*to));
                self.memory.add(*to, self.at.share, at, value);
                Ok(())
            }
            Stmt::Scope(body) => self.stmts(body),
            Stmt::If { when, body } => match self.term(when)?.is_true() {
                true => self.stmts(body),
                false => Ok(()),
            },
            Stmt::Retry { body, lost, again } => {
                self.stmts(body)?;
                let lost = lost.iter().map(|term| self.term(term)).collect::<Result<Vec<Number>, String>>()?;
                if lost.into_iter().any(Number::is_true) {
                    self.stmts(again)?;
                    self.stmts(body)?;
                }
                Ok(())
            }
            Stmt::Phase { number, body } => {
                if self.at.turn == *number {
                    self.stmts(body)?;
                    self.is_ended = true;
                }
                Ok(())
            }
            Stmt::Once { number, body } => match self.at.turn == *number && self.at.part == 0 {
                true => self.stmts(body),
                false => Ok(()),
            },
            Stmt::Leave { variable, slot } => {
                let at = self.slot(self.at.part, *slot);
                self.left[at] = self.variables[*variable][0];
                Ok(())
            }
            _ => Err(THREADS.to_owned()),
        }
    }

    fn slot(&self, part: usize, slot: usize) -> usize {
        (self.at.item * self.space.parts + part) * self.nest.slots + slot
    }

    fn repeat(&mut self, all: &For) -> Result<(), String> {
        match all.axis {
            Axis::Tiles(points) => self.tiles(self.share_of(self.rows() * self.in_row(points)), points, all),
            Axis::FirstRow(points) => self.tiles(0..self.in_row(points), points, all),
            Axis::Columns(_) => {
                let columns = self.space.columns;
                self.tiles(self.share_of(self.rows() * self.in_row(columns)), columns, all)
            }
            Axis::Rows => self.share_of(self.rows()).try_for_each(|row| {
                self.enter(row);
                self.stmts(&all.body)?;
                self.is_ended = false;
                Ok(())
            }),
            Axis::Sides(most) => self.sides(most as i64, all),
            Axis::Pieces => self.pieces(all),
            Axis::Blocks { size, first } => self.blocks(size as i64, first, all),
            Axis::Parts { columns, always } => self.parts(always.then_some(columns as i64), all),
            Axis::Lines { at_once, rest_of } => {
                let (at_once, rest_of) = (at_once as i64, rest_of as i64);
                let whole = |lines: i64| self.at.lines / lines * lines;
                let (begin, end) = if at_once > 1 { (0, whole(at_once)) } else { (whole(rest_of), self.at.lines) };
                // Where no lines are taken at once, no loop leaves a rest.
                let begin = if rest_of > 1 { begin } else { 0 };
                self.count_up((begin..end).step_by(at_once as usize), all, |at| &mut at.line)
            }
            Axis::Points => self.count_up(self.points_of(all.within), all, |at| &mut at.i),
            Axis::Together(lines) => self.count_up(0..lines as i64, all, |at| &mut at.u),
            Axis::Side => self.count_up(0..self.at.side, all, |at| &mut at.r),
            Axis::Shares => self.others(self.space.parts, all),
            Axis::SharesBefore => self.others(self.at.part, all),
            _ => Err(THREADS.to_owned()),
        }
    }

    /// A loop with a counter, which is 0 outside of it.
    fn count_up(
        &mut self,
        steps: impl Iterator<Item = i64>,
        all: &For,
        counter: fn(&mut Point) -> &mut i64,
    ) -> Result<(), String> {
        for step in steps {
            *counter(&mut self.at) = step;
            self.stmts(&all.body)?;
        }
        *counter(&mut self.at) = 0;
        Ok(())
    }

    /// The points of a tile that are in the part of an access.
    fn points_of(&self, within: Option<usize>) -> Range<i64> {
        let bounds = within.and_then(|access| self.bounds_of(access));
        let Some([_, ranges @ ..]) = bounds else { return 0..self.at.count };
        let (coordinates, last) = (self.coordinates(), self.space.shape.len() - 1);
        let is_in = |(dim, at): (usize, &i64)| (ranges[2 * dim]..ranges[2 * dim + 1]).contains(at);
        if !coordinates[..last].iter().enumerate().all(is_in) {
            return 0..0;
        }
        let begin = (ranges[2 * last] - self.at.from).max(0);
        begin..(ranges[2 * last + 1] - self.at.from).min(self.at.count).max(begin)
    }

    fn others(&mut self, parts: usize, all: &For) -> Result<(), String> {
        for part in 0..parts {
            self.at.other = part;
            self.stmts(&all.body)?;
        }
        Ok(())
    }

    /// The number of rows, or of rows of tiles.
    fn rows(&self) -> i64 {
        let rank = self.space.shape.len();
        let kept = if self.nest.direction == Direction::Points { rank - 1 } else { self.space.kept };
        self.space.shape[..kept].iter().product()
    }

    /// Begins a row.
    fn enter(&mut self, row: i64) {
        let dims = if self.nest.direction == Direction::Points { self.space.shape.len() - 1 } else { self.space.kept };
        self.at.item = row as usize;
        self.places = (0..self.nest.accesses.len()).map(|access| self.offset(access, 0..dims, row)).collect();
    }

    /// The work of a share of so many tiles or rows.
    fn share_of(&self, items: i64) -> Range<i64> {
        let (share, shares) = (self.at.share as i64, self.shares as i64);
        items * share / shares..items * (share + 1) / shares
    }

    /// The number of tiles in a row.
    fn in_row(&self, points: usize) -> i64 {
        (self.space.shape.last().copied().unwrap_or(1) + points as i64 - 1) / points as i64
    }

    /// Some tiles, counted row by row.
    fn tiles(&mut self, items: Range<i64>, points: usize, all: &For) -> Result<(), String> {
        let (n, each, mut entered) = (self.space.shape.last().copied().unwrap_or(1), self.in_row(points), None);
        for item in items {
            let (row, from) = (item / each, item % each * points as i64);
            if entered != Some(row) {
                self.enter(row);
                entered = Some(row);
            }
            (self.at.from, self.at.count) = (from, (n - from).min(points as i64));
            self.at.i = 0;
            self.stmts(&all.body)?;
        }
        self.at.from = 0;
        Ok(())
    }

    /// Neighbouring rows along the innermost dimension of rows.
    fn sides(&mut self, most: i64, all: &For) -> Result<(), String> {
        let neighbours = self.space.shape[..self.space.kept].last().copied().unwrap_or(1);
        let Range { start: mut row, end } = self.share_of(self.rows());
        while row < end {
            self.at.side = (neighbours - row % neighbours).min(most).min(end - row);
            self.enter(row);
            self.stmts(&all.body)?;
            row += self.at.side;
        }
        Ok(())
    }

    /// The innermost reduced dimension.
    fn last_dimension(&self) -> usize {
        self.space.shape.len() - if self.nest.direction == Direction::Outer { 2 } else { 1 }
    }

    fn width(&self) -> i64 {
        self.space.shape[self.last_dimension()]
    }

    /// The number of pieces of a row.
    fn pieces_of_row(&self) -> i64 {
        self.space.shape[self.space.kept.min(self.last_dimension())..self.last_dimension()].iter().product()
    }

    /// Whether parts of a split row have whole pieces.
    fn has_whole_pieces(&self) -> bool {
        self.nest.direction == Direction::Split && self.pieces_of_row() >= self.space.parts as i64
    }

    fn pieces(&mut self, all: &For) -> Result<(), String> {
        let (pieces, parts, part) = (self.pieces_of_row(), self.space.parts as i64, self.at.part as i64);
        let range = match self.has_whole_pieces() {
            true => pieces * part / parts..pieces * (part + 1) / parts,
            false => 0..pieces,
        };
        let dims = self.space.kept..self.last_dimension();
        for piece in range {
            self.at.piece = piece;
            self.offsets =
                (0..self.nest.accesses.len()).map(|access| self.offset(access, dims.clone(), piece)).collect();
            self.stmts(&all.body)?;
        }
        self.at.piece = 0;
        self.offsets.fill(0);
        Ok(())
    }

    fn blocks(&mut self, size: i64, first: Option<(usize, usize)>, all: &For) -> Result<(), String> {
        let (mut at, end) = match self.nest.direction == Direction::Split && !self.has_whole_pieces() {
            true => self.own_elements(),
            false => (0, self.width()),
        };
        while at < end {
            let step = match first {
                Some((counter, first)) if !self.variables[counter][0].is_positive() => first as i64,
                _ => size,
            };
            let many = (end - at).min(step);
            match self.nest.direction {
                Direction::Outer => (self.at.first, self.at.lines) = (at, many),
                _ => (self.at.from, self.at.count) = (at, many),
            }
            self.stmts(&all.body)?;
            at += step;
        }
        match self.nest.direction {
            Direction::Outer => self.at.first = 0,
            _ => self.at.from = 0,
        }
        Ok(())
    }

    /// The elements of each piece that are this part's, in whole lines of the caches.
    fn own_elements(&self) -> (i64, i64) {
        let (width, parts, part) = (self.width(), self.space.parts as i64, self.at.part as i64);
        let begin = |part: i64| width * part / parts / APART * APART;
        (begin(part), if part + 1 == parts { width } else { begin(part + 1) })
    }

    fn parts(&mut self, columns: Option<i64>, all: &For) -> Result<(), String> {
        let whole = self.at.count;
        let part = columns.unwrap_or(whole).max(1);
        for c in (0..whole).step_by(part as usize) {
            (self.at.c, self.at.count) = (c, (whole - c).min(part));
            self.stmts(&all.body)?;
        }
        (self.at.c, self.at.count) = (0, whole);
        Ok(())
    }

    /// How far an access moves along some dimensions, for a position that is counted in the order
    /// of the space.
    fn offset(&self, access: usize, dims: Range<usize>, mut position: i64) -> i64 {
        let (rank, mut offset) = (self.space.shape.len(), 0);
        for dim in dims.rev() {
            offset += position % self.space.shape[dim] * self.space.strides[access * rank + dim];
            position /= self.space.shape[dim];
        }
        offset
    }

    /// The position of an access at the point of the loops.
    fn position(&self, access: usize) -> i64 {
        let (rank, at) = (self.space.shape.len(), &self.at);
        let stride = |dim: usize| self.space.strides[access * rank + dim];
        let inner = match self.nest.accesses[access].inner {
            Inner::Broadcast => 0,
            Inner::Unit => 1,
            Inner::Strided => stride(rank - 1),
        };
        let rows = match self.nest.direction {
            Direction::Strided => at.r * stride(self.space.kept - 1),
            Direction::Outer => (at.first + at.line + at.u) * stride(self.last_dimension()),
            _ => 0,
        };
        let shift = self.bounds_of(access).map_or(0, |bounds| bounds[0] + self.under(access).unwrap_or(0));
        shift + self.places[access] + self.offsets[access] + rows + (at.from + at.c + at.i) * inner
    }

    /// An element of an access; of a window, what it is outside of the operand.
    fn loaded(&self, access: usize) -> Result<Number, String> {
        let dtype = self.nest.accesses[access].dtype;
        match self.nest.accesses[access].watch {
            Some(Watch { gives: Gives::Presence { .. }, .. }) => {
                Ok(literal(Scalar::Int(i64::from(self.is_inside(access))), dtype))
            }
            Some(Watch { gives: Gives::Index, .. }) => {
                Ok(Number::Long(if self.is_inside(access) { self.position(access) } else { -1 }))
            }
            Some(Watch { gives, .. }) if gives != Gives::Part && !self.is_inside(access) => {
                Ok(literal(gives.outside(dtype), dtype))
            }
            _ => widened(self.memory.load(access, self.position(access)), dtype),
        }
    }

    /// The row of an access in the bounds, if the launch has any.
    fn bounds_of(&self, access: usize) -> Option<&[i64]> {
        let each = Geometry::row_of_bounds(self.space.shape.len());
        self.space.bounds.get(access * each..(access + 1) * each)
    }

    /// Whether the point of the loops is inside of the operand of an access.
    fn is_inside(&self, access: usize) -> bool {
        let Some([_, ranges @ ..]) = self.bounds_of(access) else { return true };
        let is_in_range = |(dim, at): (usize, i64)| (ranges[2 * dim]..ranges[2 * dim + 1]).contains(&at);
        self.coordinates().into_iter().enumerate().all(is_in_range) && self.under(access).is_some()
    }

    /// The point of the loops in each dimension of the space.
    fn coordinates(&self) -> Vec<i64> {
        let (outer, mut row) = (self.space.shape.len() - 1, self.at.item as i64);
        let mut coordinates = vec![self.at.from + self.at.i];
        for dim in (0..outer).rev() {
            coordinates.push(row % self.space.shape[dim]);
            row /= self.space.shape[dim];
        }
        coordinates.reverse();
        coordinates
    }

    /// How far an element is from the first one by divided coordinates; none where a remainder is
    /// too large.
    fn under(&self, access: usize) -> Option<i64> {
        let rank = self.space.shape.len();
        let Some(bounds) = self.bounds_of(access) else { return Some(0) };
        let mut far = 0;
        for (at, by) in self.coordinates().into_iter().zip(bounds[1 + 2 * rank..].chunks_exact(4)) {
            let &[offset, divisor, limit, stride] = by else { return None };
            if divisor != 0 {
                let number = at + offset;
                far += if number % divisor < limit { number / divisor * stride } else { return None };
            }
        }
        Some(far)
    }

    fn index(&self, buffer: usize) -> usize {
        let index = match self.nest.buffers[buffer].scope {
            Scope::Row => self.at.from + self.at.i,
            Scope::Tile | Scope::Thread => self.at.i,
            Scope::Rows if self.nest.direction == Direction::Strided => self.at.r,
            Scope::Rows => self.at.c + self.at.i,
        };
        index as usize
    }

    fn index_of(&self, variable: usize) -> usize {
        match self.nest.variables[variable].spread {
            Spread::Columns(_) => (self.at.c + self.at.i) as usize,
            Spread::Side(_) => self.at.r as usize,
            _ => 0,
        }
    }

    /// Makes variables: each element of an array.
    fn begin(&mut self, variables: &[(usize, Option<Term>)]) -> Result<(), String> {
        for (variable, term) in variables {
            let Some(term) = term else { continue };
            match self.nest.variables[*variable].spread {
                Spread::Columns(_) => {
                    for i in 0..self.at.count {
                        self.at.i = i;
                        self.set(*variable, term)?;
                    }
                    self.at.i = 0;
                }
                Spread::Side(_) => {
                    for r in 0..self.at.side {
                        self.at.r = r;
                        self.set(*variable, term)?;
                    }
                    self.at.r = 0;
                }
                _ => self.set(*variable, term)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, variable: usize, term: &Term) -> Result<(), String> {
        let (value, at) = (self.term(term)?, self.index_of(variable));
        self.variables[variable][at] = value.cast(self.nest.variables[variable].ty);
        Ok(())
    }

    fn term(&self, term: &Term) -> Result<Number, String> {
        let suffix = term.ty.suffix();
        self.evaluated(&term.formula.expr, &term.operands, DType::Double, suffix)
    }

    fn evaluated(
        &self,
        expr: &Expr,
        operands: &[(char, Operand)],
        computed: DType,
        suffix: &str,
    ) -> Result<Number, String> {
        let leaf = |leaf: &Expr| match leaf {
            Expr::Integer(n) => Ok(literal(Scalar::Int(*n), DType::Int)),
            Expr::Float(x) => Ok(literal(Scalar::Float(*x), computed)),
            other => {
                let letter = other.letter().ok_or("a formula has no such part")?;
                let found = operands.iter().find(|(own, _)| *own == letter);
                let (_, operand) = found.ok_or_else(|| format!("there is no operand {letter}"))?;
                self.operand(operand)
            }
        };
        evaluate(expr, &leaf, &|name| format!("jo_{name}{suffix}"))
    }

    fn computed(&self, value: usize, compute: &Compute) -> Result<Number, String> {
        let dtype = self.nest.values[value].dtype;
        let number = match compute {
            Compute::Load(Place::Access(access)) => self.loaded(*access)?,
            Compute::Load(Place::Buffer(buffer)) => self.buffers[*buffer][self.index(*buffer)],
            Compute::Apply { formula, computed, operands, rounded } => {
                let number =
                    self.evaluated(&formula.expr, operands, *computed, NumberType::of_values(*computed).suffix())?;
                let is_truth = dtype == DType::Bool && *computed == DType::Bool;
                let number = if is_truth { Number::truth(number.is_true()) } else { number };
                as_in_memory(number, *rounded)?
            }
            Compute::Finish { term, rounded } => {
                as_in_memory(self.term(term)?.cast(NumberType::of_values(dtype)), *rounded)?
            }
        };
        Ok(number.cast(NumberType::of_values(dtype)))
    }

    fn origin(&self, origin: Origin, dtype: DType) -> Number {
        match origin {
            Origin::Value(value) => self.values[value],
            Origin::Constant(scalar) => literal(scalar, dtype),
            Origin::Float(k) => Number::Double(self.space.floats[k]),
            Origin::Integer(k) => Number::Long(self.space.integers[k]),
            Origin::Variable(variable) => self.variables[variable][self.index_of(variable)],
            Origin::Known(known) => self.known(known),
            Origin::Found(slot, ty) => self.left[self.slot(self.at.other, slot)].cast(ty),
            // Nests with threads are refused.
            _ => Number::Int(0),
        }
    }

    fn known(&self, known: Known) -> Number {
        let at = &self.at;
        Number::Long(match known {
            Known::Count => return Number::Double((self.pieces_of_row() * self.width()) as f64),
            Known::Width => self.width(),
            Known::Points => at.count,
            Known::Lines => at.lines,
            Known::Piece => at.piece,
            Known::First if self.nest.direction == Direction::Outer => at.first,
            Known::First => at.from,
            Known::Line => at.line + at.u,
            Known::Point => at.i,
            // Nests with threads are refused.
            _ => 0,
        })
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
                self.buffers[buffer][index] = value.cast(NumberType::of_values(operand.to));
            }
            Place::Access(access) => {
                let value = narrowed(value, self.nest.accesses[access].dtype)?;
                let at = self.position(access);
                self.memory.store(access, at, value);
            }
        }
        Ok(())
    }
}

/// A value, rounded as if it were written to memory.
fn as_in_memory(number: Number, rounded: Option<DType>) -> Result<Number, String> {
    match rounded {
        Some(short) => converted(number.cast(NumberType::Float), DType::Float, short),
        None => Ok(number),
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
        DType::Half => call("jo_to_half", &[value.cast(NumberType::Float)]),
        DType::BFloat16 => call("jo_to_bfloat16", &[value.cast(NumberType::Float)]),
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
            let suffix = NumberType::of_values(from).suffix();
            let cut = if to == DType::Long { format!("jo_cut{suffix}") } else { format!("jo_cut32{suffix}") };
            call(&cut, &[value]).map(|number| number.cast(NumberType::of_values(to)))
        }
        _ => Ok(value.cast(NumberType::of_values(to))),
    }
}
