//! Checks nests: every value and variable is known where it is read, every buffer is made, large
//! enough and filled before it is read, no two iterations that run at once write the same element
//! or set the same variable unless the loop combines it, and phases of a launch are alone.

use super::grid_verification;
use super::{Axis, Bind, Combined, Compute, For, Nest, Operand, Origin, Place, Scope, Spread, Stmt, Term};
use crate::codegen::kernel::{Direction, Inner};
use std::collections::BTreeSet;

/// Whether a nest is right.
///
/// # Errors
/// The loop, and the statement in it that is wrong.
pub(crate) fn verify(nest: &Nest) -> Result<(), String> {
    if nest.threads.is_some() {
        return grid_verification::verify(nest);
    }
    let mut verifier = Verifier { nest, loops: Vec::new(), known: Known::default() };
    verifier.stmts(&nest.body)
}

/// The facts that hold before a statement.
#[derive(Clone, Debug, Default)]
struct Known {
    values: BTreeSet<usize>,
    made: BTreeSet<usize>,
    filled: BTreeSet<usize>,
    opened: BTreeSet<usize>,
    written: BTreeSet<usize>,
    /// Results whose memory holds a value for a later loop.
    waiting: BTreeSet<usize>,
    /// Variables that are made, and those that have a value.
    begun: BTreeSet<usize>,
    set: BTreeSet<usize>,
    /// Variables that were made inside of the innermost loop whose iterations run at once.
    inside: BTreeSet<usize>,
    /// Slots that parts of a split row have left.
    left: BTreeSet<usize>,
}

/// A loop around a statement.
#[derive(Clone, Debug)]
struct Around {
    axis: Axis,
    bind: Bind,
    combined: Vec<Combined>,
    within: Option<usize>,
}

struct Verifier<'n> {
    nest: &'n Nest,
    /// The loops around a statement.
    loops: Vec<Around>,
    known: Known,
}

impl Verifier<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// A refusal that names the loop.
    fn refuse(&self, why: &str) -> Result<(), String> {
        match self.loops.last() {
            Some(Around { axis, bind, .. }) => Err(format!("the loop over {} ({bind:?}): {why}", axis.name())),
            None => Err(format!("outside of loops: {why}")),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            _ if stmt.needs_threads() => self.refuse("it has no blocks of threads"),
            Stmt::For(all) => self.enter(all),
            Stmt::Alloc(buffer) => match self.known.made.insert(*buffer) {
                true => Ok(()),
                false => self.refuse(&format!("{} is made twice", self.name(Place::Buffer(*buffer)))),
            },
            Stmt::Open(Place::Access(access)) => {
                self.known.opened.insert(*access);
                if self.nest.direction != Direction::Points && self.nest.accesses[*access].has_guard() {
                    return self.refuse("an access is outside of its operand at some positions of rows");
                }
                self.inside_of_tiles("an access is opened")
            }
            Stmt::Open(Place::Buffer(buffer)) => match self.known.made.contains(buffer) {
                true => self.inside_of_tiles("a buffer is opened"),
                false => self.refuse(&format!("{} is opened and not made", self.name(Place::Buffer(*buffer)))),
            },
            Stmt::Let { value, compute, .. } => {
                match compute {
                    Compute::Load(place) => self.read(*place)?,
                    Compute::Apply { operands, .. } => {
                        operands.iter().try_for_each(|(_, operand)| self.uses(operand))?
                    }
                    Compute::Finish { term, .. } => self.reads(term)?,
                }
                self.known.values.insert(*value);
                Ok(())
            }
            Stmt::Store { to, operand, waits, .. } => {
                self.uses(operand)?;
                self.write(*to, *waits)
            }
            Stmt::Flush(access) => match self.known.written.contains(access) {
                true => Ok(()),
                false => self.refuse(&format!("{} is flushed and not written", self.name(Place::Access(*access)))),
            },
            Stmt::Prefetch { accesses, .. } => match accesses.iter().find(|at| self.nest.accesses[**at].is_written) {
                None => Ok(()),
                Some(&at) => self.refuse(&format!("{} is prefetched and written", self.name(Place::Access(at)))),
            },
            Stmt::Begin(variables) => variables.iter().try_for_each(|(variable, term)| self.begin(*variable, term)),
            Stmt::Set { variable, term, .. } => {
                self.reads(term)?;
                self.sets(*variable)
            }
            Stmt::Accumulate { to, term, .. } => {
                self.reads(term)?;
                self.accumulates(*to)
            }
            Stmt::Inclusive(variable) => match self.known.set.contains(variable) {
                true => Ok(()),
                false => self.refuse("a scan has no element in it"),
            },
            Stmt::Scope(body) => self.scope(body),
            Stmt::If { when, body } => {
                self.reads(when)?;
                self.scope(body)
            }
            Stmt::Retry { body, lost, again } => {
                self.scope(body)?;
                lost.iter().try_for_each(|term| self.reads(term))?;
                self.stmts(again)
            }
            Stmt::Phase { body, .. } | Stmt::Once { body, .. } => match self.loops.last() {
                Some(Around { axis: Axis::Rows, .. }) if self.nest.direction == Direction::Split => self.scope(body),
                _ => self.refuse("parts of a row would not all be in one phase of the launch"),
            },
            Stmt::Leave { variable, slot } => {
                self.uses_variable(*variable)?;
                match (*slot < self.nest.slots, self.known.left.insert(*slot)) {
                    (true, true) => Ok(()),
                    (false, _) => self.refuse(&format!("there is no slot {slot}")),
                    (_, false) => self.refuse(&format!("slot {slot} is left twice")),
                }
            }
            // Those of blocks of threads, see above.
            _ => self.refuse("a statement of threads has no loop"),
        }
    }

    fn name(&self, place: Place) -> String {
        self.nest.place(place)
    }

    fn variable(&self, variable: usize) -> &str {
        &self.nest.variables[variable].name
    }

    /// Values and variables of a loop are undefined after it; buffers that it fills stay.
    fn enter(&mut self, all: &For) -> Result<(), String> {
        let is_same = |outer: &Around| {
            outer.axis.is_outermost() && all.axis.is_outermost()
                || outer.axis == Axis::Points && all.axis == Axis::Points
        };
        if self.loops.iter().any(is_same) {
            return self.refuse("a loop over the same points is inside of it");
        }
        let Axis::Points = all.axis else { return self.enter_all(all) };
        if all.within.is_some_and(|at| !self.known.opened.contains(&at)) {
            return self.refuse("it runs over the part of an access that is not opened before it");
        }
        self.enter_all(all)
    }

    fn enter_all(&mut self, all: &For) -> Result<(), String> {
        let (axis, bind, combined, within) = (all.axis, all.bind, all.combined.clone(), all.within);
        self.loops.push(Around { axis, bind, combined, within });
        if let Some(one) = all.combined.iter().find(|one| !self.known.set.contains(&one.variable)) {
            return self.refuse(&format!("{} is combined before it has a value", self.variable(one.variable)));
        }
        let inside = std::mem::take(&mut self.known.inside);
        self.scope(&all.body)?;
        self.known.inside = inside;
        self.loops.pop();
        Ok(())
    }

    fn scope(&mut self, body: &[Stmt]) -> Result<(), String> {
        let (values, begun) = (self.known.values.clone(), self.known.begun.clone());
        self.stmts(body)?;
        (self.known.values, self.known.begun) = (values, begun);
        Ok(())
    }

    fn inside_of_tiles(&self, what: &str) -> Result<(), String> {
        match self.loops.iter().any(|around| around.axis.is_outermost()) {
            true => Ok(()),
            false => self.refuse(&format!("{what} outside of tiles")),
        }
    }

    fn reads(&self, term: &Term) -> Result<(), String> {
        let unbound = term.formula.operands.iter().find(|letter| !term.operands.iter().any(|(own, _)| own == *letter));
        match unbound {
            Some(letter) => self.refuse(&format!("`{}` has no {letter}", term.formula.text)),
            None => term.operands.iter().try_for_each(|(_, operand)| self.uses(operand)),
        }
    }

    fn uses_variable(&self, variable: usize) -> Result<(), String> {
        match (self.known.begun.contains(&variable), self.known.set.contains(&variable)) {
            (true, true) => self.in_loop_of(variable),
            (false, _) => self.refuse(&format!("{} is not made", self.variable(variable))),
            (_, false) => self.refuse(&format!("{} is read before it has a value", self.variable(variable))),
        }
    }

    /// Of an array of variables, one is read or set in the loop over rows that have one each.
    fn in_loop_of(&self, variable: usize) -> Result<(), String> {
        let is_there = |axis: Axis| self.loops.iter().any(|around| around.axis == axis);
        match self.nest.variables[variable].spread {
            Spread::Columns(_) if !is_there(Axis::Points) => {
                self.refuse(&format!("{} is an array, and no row is chosen", self.variable(variable)))
            }
            Spread::Side(_) if !is_there(Axis::Side) => {
                self.refuse(&format!("{} is an array, and no row is chosen", self.variable(variable)))
            }
            Spread::Columns(n) if n < self.columns() => self.refuse(&format!(
                "{} has {n} elements for {} interleaved rows",
                self.variable(variable),
                self.columns()
            )),
            _ => Ok(()),
        }
    }

    fn columns(&self) -> usize {
        let columns = |around: &Around| if let Axis::Columns(n) = around.axis { Some(n) } else { None };
        self.loops.iter().find_map(columns).unwrap_or(0)
    }

    fn uses(&self, operand: &Operand) -> Result<(), String> {
        let nest = self.nest;
        let is_there = match operand.origin {
            Origin::Variable(variable) => return self.uses_variable(variable),
            Origin::Value(value) => self.known.values.contains(&value),
            Origin::Float(k) => k < nest.floats,
            Origin::Integer(k) => k < nest.integers,
            Origin::Constant(_) | Origin::Known(_) => true,
            Origin::Found(slot, _) if !self.known.left.contains(&slot) => {
                return self.refuse(&format!("slot {slot} is read before a part has left it"));
            }
            Origin::Found(..) => {
                let shares = [Axis::Shares, Axis::SharesBefore];
                self.loops.iter().any(|around| shares.contains(&around.axis))
            }
            // Statements that read variables of other threads are refused.
            _ => false,
        };
        match (is_there, operand.origin) {
            (true, _) => Ok(()),
            (false, Origin::Value(value)) => {
                self.refuse(&format!("{} is read before it is known", nest.values[value].name))
            }
            (false, Origin::Found(slot, _)) => self.refuse(&format!("slot {slot} is read, and no part is chosen")),
            (false, _) => self.refuse("a number is read that the group does not have"),
        }
    }

    fn begin(&mut self, variable: usize, term: &Option<Term>) -> Result<(), String> {
        let one = &self.nest.variables[variable];
        self.known.begun.insert(variable);
        self.known.inside.insert(variable);
        let Some(term) = term else {
            self.known.set.remove(&variable);
            return Ok(());
        };
        // The initial values of an array are set in a loop over its elements.
        let axis = match one.spread {
            Spread::Columns(_) => Some(Axis::Points),
            Spread::Side(_) => Some(Axis::Side),
            _ => None,
        };
        let added =
            axis.map(|axis| self.loops.push(Around { axis, bind: Bind::Serial, combined: Vec::new(), within: None }));
        let read = self.reads(term);
        if added.is_some() {
            self.loops.pop();
        }
        self.known.set.insert(variable);
        read
    }

    /// A variable is set by iterations one after the other, or each has its own, or they combine
    /// it.
    fn sets(&mut self, variable: usize) -> Result<(), String> {
        let (one, name) = (&self.nest.variables[variable], self.variable(variable).to_owned());
        let is_combined = |around: &Around| around.combined.iter().any(|one| one.variable == variable);
        let at_once = self.loops.iter().rev().find(|around| around.bind == Bind::Vector);
        let is_shared = one.spread == Spread::One && at_once.is_some_and(|around| !is_combined(around));
        match () {
            () if !self.known.begun.contains(&variable) => self.refuse(&format!("{name} is set, not made")),
            () if one.is_fixed => self.refuse(&format!("{name} keeps its initial value")),
            () if is_shared && !self.known.inside.contains(&variable) => {
                self.refuse(&format!("iterations that run at once set {name}"))
            }
            () => {
                self.known.set.insert(variable);
                self.in_loop_of(variable)
            }
        }
    }

    fn accumulates(&mut self, at: usize) -> Result<(), String> {
        let (access, name) = (&self.nest.accesses[at], self.name(Place::Access(at)));
        self.known.written.insert(at);
        match () {
            () if !access.is_written => self.refuse(&format!("{name} is written, an operand")),
            () if !self.known.opened.contains(&at) => self.refuse(&format!("{name} is written, not opened")),
            () if access.inner == Inner::Broadcast && self.runs_at_once() => {
                self.refuse(&format!("iterations that run at once add to one element of {name}"))
            }
            () => Ok(()),
        }
    }

    fn read(&self, place: Place) -> Result<(), String> {
        let name = self.name(place);
        match place {
            Place::Access(at) if self.nest.accesses[at].is_written && !self.known.waiting.contains(&at) => {
                self.refuse(&format!("{name} is read, a result"))
            }
            Place::Access(at) if !self.known.opened.contains(&at) => {
                self.refuse(&format!("{name} is read, not opened"))
            }
            Place::Access(at) => {
                let access = &self.nest.accesses[at];
                let is_one = access.inner == Inner::Broadcast || access.is_of_row || self.is_first_of_block();
                match is_one || self.is_at_point() {
                    true => Ok(()),
                    false => self.refuse(&format!("{name} is read outside of a loop over points")),
                }
            }
            Place::Buffer(buffer) if !self.known.filled.contains(&buffer) => {
                self.refuse(&format!("{name} is read before it is filled"))
            }
            Place::Buffer(buffer) if !self.is_at_element(buffer) => {
                self.refuse(&format!("{name} is read outside of a loop over points"))
            }
            Place::Buffer(_) => Ok(()),
        }
    }

    /// Whether the first element of a block may be read: blocks have one.
    fn is_first_of_block(&self) -> bool {
        self.loops.iter().any(|around| matches!(around.axis, Axis::Blocks { .. }))
    }

    fn is_at_point(&self) -> bool {
        self.loops.iter().any(|around| around.axis == Axis::Points)
    }

    /// Whether one element of a buffer is meant.
    fn is_at_element(&self, buffer: usize) -> bool {
        match (self.nest.buffers[buffer].scope, self.nest.direction) {
            (Scope::Rows, Direction::Strided) => self.loops.iter().any(|around| around.axis == Axis::Side),
            _ => self.is_at_point(),
        }
    }

    fn write(&mut self, place: Place, waits: bool) -> Result<(), String> {
        let name = self.name(place);
        let is_of_row = matches!(place, Place::Access(at) if self.nest.accesses[at].is_of_row);
        let is_placed = match place {
            Place::Buffer(buffer) => self.is_at_element(buffer),
            Place::Access(_) => is_of_row || self.is_at_point(),
        };
        if !is_placed {
            return self.refuse(&format!("{name} is written outside of a loop over points"));
        }
        match place {
            Place::Access(at) => self.write_result(at, &name, waits),
            Place::Buffer(buffer) => {
                let made = &self.nest.buffers[buffer];
                let is_worker = |around: &Around| around.axis.is_outermost() && around.bind == Bind::Worker;
                let is_shared = self.loops.iter().any(is_worker);
                self.known.filled.insert(buffer);
                match made.scope {
                    _ if !self.known.made.contains(&buffer) => self.refuse(&format!("{name} is written, not made")),
                    Scope::Row if is_shared => self.refuse(&format!("rows that run at once write {name}")),
                    Scope::Tile | Scope::Rows if made.elements < self.points(made.scope) => {
                        let points = self.points(made.scope);
                        self.refuse(&format!("{name} has {} elements for {points} points", made.elements))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn write_result(&mut self, at: usize, name: &str, waits: bool) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        // The result overwrites a value kept in its memory, and nothing overwrites the result.
        let is_first = match waits {
            true => self.known.waiting.insert(at) && !self.known.written.contains(&at),
            false => self.known.written.insert(at),
        };
        if !waits {
            self.known.waiting.remove(&at);
        }
        match () {
            () if !access.is_written => self.refuse(&format!("{name} is written, an operand")),
            () if !self.known.opened.contains(&at) => self.refuse(&format!("{name} is written, not opened")),
            () if access.inner == Inner::Broadcast && self.runs_at_once() => {
                self.refuse(&format!("iterations that run at once write one element of {name}"))
            }
            () if access.has_guard() && !self.loops.iter().any(|around| around.within == Some(at)) => {
                self.refuse(&format!("{name} is written outside of its part"))
            }
            () if !is_first => self.refuse(&format!("{name} is written twice")),
            () => Ok(()),
        }
    }

    /// Whether iterations of a loop around a statement run at once. A result that has one element
    /// for all points of a row, as rows of one point have, is written by a loop of one iteration.
    fn runs_at_once(&self) -> bool {
        self.loops.iter().any(|around| around.axis == Axis::Points && around.bind != Bind::Serial)
    }

    /// The most points that the loops around a statement have.
    fn points(&self, scope: Scope) -> usize {
        let own = |around: &Around| match (around.axis, scope) {
            (Axis::Blocks { size, .. }, Scope::Tile) if self.nest.direction != Direction::Outer => Some(size),
            (Axis::Columns(n), _) | (Axis::Sides(n), Scope::Rows) => Some(n),
            (axis, _) => axis.tile(),
        };
        self.loops.iter().find_map(own).unwrap_or(0)
    }
}
