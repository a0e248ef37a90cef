//! Checks nests: every value is known where it is read, every buffer is made, large enough and
//! filled before it is read, and no two iterations that run at once write the same element.

use super::{Axis, Bind, Compute, For, Nest, Operand, Origin, Place, Scope, Stmt};
use crate::codegen::kernel::Inner;
use std::collections::BTreeSet;

/// Whether a nest is right.
///
/// # Errors
/// The loop, and the statement in it that is wrong.
pub fn verify(nest: &Nest) -> Result<(), String> {
    let mut verifier = Verifier { nest, loops: Vec::new(), known: Known::default() };
    verifier.stmts(&nest.body)
}

/// What has been done before a statement.
#[derive(Clone, Debug, Default)]
struct Known {
    values: BTreeSet<usize>,
    made: BTreeSet<usize>,
    filled: BTreeSet<usize>,
    opened: BTreeSet<usize>,
    written: BTreeSet<usize>,
}

struct Verifier<'n> {
    nest: &'n Nest,
    /// The loops around a statement.
    loops: Vec<(Axis, Bind)>,
    known: Known,
}

impl Verifier<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// A refusal that names the loop.
    fn refuse(&self, why: &str) -> Result<(), String> {
        let name = |(axis, bind): &(Axis, Bind)| {
            let axis = match axis {
                Axis::Tiles(_) => "tiles",
                Axis::FirstRow(_) => "tiles of the first row",
                Axis::Points => "points",
            };
            format!("{axis} ({bind:?})")
        };
        match self.loops.last() {
            Some(innermost) => Err(format!("the loop over {}: {why}", name(innermost))),
            None => Err(format!("outside of loops: {why}")),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            Stmt::For(all) => self.enter(all),
            Stmt::Alloc(buffer) => match self.known.made.insert(*buffer) {
                true => Ok(()),
                false => self.refuse(&format!("{} is made twice", self.name(Place::Buffer(*buffer)))),
            },
            Stmt::Open(Place::Access(access)) => {
                self.known.opened.insert(*access);
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
                }
                self.known.values.insert(*value);
                Ok(())
            }
            Stmt::Store { to, operand, .. } => {
                self.uses(operand)?;
                self.write(*to)
            }
            Stmt::Flush(access) => match self.known.written.contains(access) {
                true => Ok(()),
                false => self.refuse(&format!("{} is flushed and not written", self.name(Place::Access(*access)))),
            },
            Stmt::Prefetch { accesses, .. } => match accesses.iter().find(|at| self.nest.accesses[**at].is_written) {
                None => Ok(()),
                Some(&at) => self.refuse(&format!("{} is prefetched and written", self.name(Place::Access(at)))),
            },
        }
    }

    fn name(&self, place: Place) -> String {
        self.nest.place(place)
    }

    /// Values of a loop are undefined after it; buffers that it fills stay.
    fn enter(&mut self, all: &For) -> Result<(), String> {
        let outside = self.loops.iter().find(|outer| outer.0.tile().is_some() == all.axis.tile().is_some());
        if outside.is_some() {
            return self.refuse("a loop over the same points is inside of it");
        }
        self.loops.push((all.axis, all.bind));
        let values = self.known.values.clone();
        self.stmts(&all.body)?;
        self.known.values = values;
        self.loops.pop();
        Ok(())
    }

    fn inside_of_tiles(&self, what: &str) -> Result<(), String> {
        match self.loops.iter().any(|(axis, _)| axis.tile().is_some()) {
            true => Ok(()),
            false => self.refuse(&format!("{what} outside of tiles")),
        }
    }

    fn uses(&self, operand: &Operand) -> Result<(), String> {
        let nest = self.nest;
        let is_there = match operand.origin {
            Origin::Value(value) => self.known.values.contains(&value),
            Origin::Float(k) => k < nest.reals,
            Origin::Integer(k) => k < nest.wholes,
            Origin::Constant(_) => true,
        };
        match (is_there, operand.origin) {
            (true, _) => Ok(()),
            (false, Origin::Value(value)) => {
                self.refuse(&format!("{} is read before it is known", nest.values[value].name))
            }
            (false, _) => self.refuse("a number is read that the group does not have"),
        }
    }

    fn read(&self, place: Place) -> Result<(), String> {
        let name = self.name(place);
        match place {
            Place::Access(at) if self.nest.accesses[at].is_written => self.refuse(&format!("{name} is read, a result")),
            Place::Access(at) if !self.known.opened.contains(&at) => {
                self.refuse(&format!("{name} is read, not opened"))
            }
            Place::Access(at) => match (self.nest.accesses[at].inner, self.is_at_point()) {
                (Inner::Broadcast, _) | (_, true) => Ok(()),
                _ => self.refuse(&format!("{name} is read outside of a loop over points")),
            },
            Place::Buffer(buffer) if !self.known.filled.contains(&buffer) => {
                self.refuse(&format!("{name} is read before it is filled"))
            }
            Place::Buffer(_) if !self.is_at_point() => {
                self.refuse(&format!("{name} is read outside of a loop over points"))
            }
            Place::Buffer(_) => Ok(()),
        }
    }

    fn is_at_point(&self) -> bool {
        self.loops.iter().any(|(axis, _)| *axis == Axis::Points)
    }

    fn write(&mut self, place: Place) -> Result<(), String> {
        let name = self.name(place);
        if !self.is_at_point() {
            return self.refuse(&format!("{name} is written outside of a loop over points"));
        }
        match place {
            Place::Access(at) => {
                let access = &self.nest.accesses[at];
                let is_first = self.known.written.insert(at);
                match () {
                    () if !access.is_written => self.refuse(&format!("{name} is written, an operand")),
                    () if !self.known.opened.contains(&at) => self.refuse(&format!("{name} is written, not opened")),
                    () if access.inner == Inner::Broadcast && self.runs_at_once() => {
                        self.refuse(&format!("iterations that run at once write one element of {name}"))
                    }
                    () if !is_first => self.refuse(&format!("{name} is written twice")),
                    () => Ok(()),
                }
            }
            Place::Buffer(buffer) => {
                let made = &self.nest.buffers[buffer];
                let is_shared = self.loops.iter().any(|(axis, bind)| axis.tile().is_some() && *bind == Bind::Worker);
                self.known.filled.insert(buffer);
                match made.scope {
                    _ if !self.known.made.contains(&buffer) => self.refuse(&format!("{name} is written, not made")),
                    Scope::Row if is_shared => self.refuse(&format!("rows that run at once write {name}")),
                    Scope::Tile if made.elements < self.tile() => {
                        self.refuse(&format!("{name} has {} elements for {} points", made.elements, self.tile()))
                    }
                    Scope::Row | Scope::Tile => Ok(()),
                }
            }
        }
    }

    /// Whether iterations of a loop around a statement run at once. A result that has one element
    /// for all points of a row, as rows of one point have, is written by a loop of one iteration.
    fn runs_at_once(&self) -> bool {
        self.loops.iter().any(|(axis, bind)| *axis == Axis::Points && *bind != Bind::Serial)
    }

    fn tile(&self) -> usize {
        self.loops.iter().find_map(|(axis, _)| axis.tile()).unwrap_or(0)
    }
}
