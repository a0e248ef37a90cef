//! Checks nests of blocks of threads: what [`super::verification`] checks of those of processors,
//! and that threads agree.
//!
//! - Barriers are where all threads of a block come: not in loops whose iterations are shared out
//!   to threads, nor under conditions. The same holds where lanes of a warp exchange values, all of
//!   which then take part.
//! - Between a thread's write of shared memory and another thread's read of it is a barrier, and
//!   between that read and the next write another one. Bodies of loops are checked twice, so that
//!   this holds from one iteration to the next as well.
//! - The same holds between what is copied into squares, or out of them, and what is computed of
//!   them: lanes run down a square in one loop and across it in the other, so that threads exchange
//!   elements.
//! - An element of a result is written by one thread: in a loop over its elements that threads
//!   share out, or under a condition that one thread fulfils.

use super::thread_conditions::{Selected, selected};
use super::{Axis, Bind, Compute, For, Nest, Operand, Origin, Place, Split, Spread, Stmt, Term, Way, Whole};
use crate::codegen::kernel_plan::WARP;
use std::collections::BTreeSet;

/// Whether a nest of blocks of threads is right.
///
/// # Errors
/// The loop, and the statement in it that is wrong.
pub(super) fn verify(nest: &Nest) -> Result<(), String> {
    let mut verifier = Verifier { nest, loops: Vec::new(), conditions: Vec::new(), known: Known::default() };
    verifier.stmts(&nest.body)
}

/// The facts that hold before a statement.
#[derive(Clone, Debug, Default)]
struct Known {
    values: BTreeSet<usize>,
    begun: BTreeSet<usize>,
    set: BTreeSet<usize>,
    /// Accesses that are located, at a row and at an element of it.
    at_row: BTreeSet<usize>,
    at_element: BTreeSet<usize>,
    /// Accesses of which a thread has read several elements, or has set them.
    fetched: BTreeSet<usize>,
    ready: BTreeSet<usize>,
    /// The same of some rounds that are read ahead: what a thread has room for, and what it has
    /// read.
    reserved: BTreeSet<usize>,
    read_ahead: BTreeSet<usize>,
    /// Buffers that a thread has, and those that it has filled.
    made: BTreeSet<usize>,
    filled: BTreeSet<usize>,
    /// Shared variables that were written, and those that other threads have read, since the last
    /// barrier.
    unsettled: BTreeSet<usize>,
    awaited: BTreeSet<usize>,
    /// Squares that are there, and those that have been filled.
    squares: BTreeSet<usize>,
    filled_squares: BTreeSet<usize>,
    /// The same as of shared variables.
    unsettled_squares: BTreeSet<usize>,
    awaited_squares: BTreeSet<usize>,
}

struct Verifier<'n> {
    nest: &'n Nest,
    /// The loops around a statement.
    loops: Vec<(Axis, Bind)>,
    /// What the conditions around a statement select.
    conditions: Vec<Selected>,
    known: Known,
}

impl Verifier<'_> {
    fn stmts(&mut self, stmts: &[Stmt]) -> Result<(), String> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// A refusal that names the loop.
    fn refuse(&self, why: &str) -> Result<(), String> {
        match self.loops.last() {
            Some((axis, bind)) => Err(format!("the loop over {} ({bind:?}): {why}", axis.name())),
            None => Err(format!("outside of loops: {why}")),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            Stmt::For(all) => self.enter(all),
            Stmt::If { when, body } => self.under(when, body),
            Stmt::Scope(body) => self.scope(body),
            Stmt::Barrier => self.barrier(),
            Stmt::Locate { accesses, at } => self.locate(accesses, *at),
            Stmt::Let { value, compute, .. } => {
                match compute {
                    Compute::Load(place) => self.loads(*place)?,
                    Compute::Apply { operands, .. } => self.uses_all(operands)?,
                    Compute::Finish { term, .. } => self.reads(term)?,
                }
                self.known.values.insert(*value);
                Ok(())
            }
            Stmt::Store { to: Place::Access(at), operand, .. } => {
                self.uses(operand)?;
                self.stores(*at)
            }
            Stmt::Store { to: Place::Buffer(buffer), operand, .. } => {
                self.uses(operand)?;
                self.keeps(*buffer)
            }
            Stmt::Alloc(buffer) => {
                self.known.made.insert(*buffer);
                Ok(())
            }
            Stmt::Leave { variable, slot } => {
                self.uses_variable(*variable)?;
                self.leaves(*slot)
            }
            Stmt::MakeSquare(at) => self.makes_square(*at),
            Stmt::FillSquare { access, .. } => self.fills_square(*access),
            Stmt::EmptySquare { access, .. } => self.empties_square(*access),
            Stmt::Reserve(at) => self.reserves(*at),
            Stmt::Fetch(at) => self.fetches(*at),
            Stmt::Deliver(at) => self.delivers(*at),
            Stmt::Accumulate { to, term, .. } => {
                self.reads(term)?;
                self.adds(*to)
            }
            Stmt::Begin(variables) => variables.iter().try_for_each(|(variable, term)| {
                term.iter().try_for_each(|term| self.reads(term))?;
                self.known.begun.insert(*variable);
                let _ = match term {
                    Some(_) => self.known.set.insert(*variable),
                    None => self.known.set.remove(variable),
                };
                Ok(())
            }),
            Stmt::Set { variable, term, .. } => {
                self.reads(term)?;
                self.sets(*variable)
            }
            _ => self.refuse("a statement that blocks of threads do not have"),
        }
    }

    fn enter(&mut self, all: &For) -> Result<(), String> {
        let outside = self.loops.is_empty();
        let is_right = match (all.axis, all.bind) {
            (Axis::Rows, Bind::Grid | Bind::Block) | (Axis::Groups(_), Bind::Grid) => outside,
            (Axis::Rows, Bind::Warp) => outside && self.has_whole_warps(),
            (Axis::Elements, Bind::Thread) => self.is_in(Axis::Rows, Bind::Block),
            (Axis::Elements, Bind::Serial) => self.is_in(Axis::Rows, Bind::Grid),
            (Axis::Chunks, Bind::Serial) => self.is_in(Axis::Rows, Bind::Block),
            (Axis::Distances(lanes), Bind::Unroll) => lanes.is_power_of_two() && lanes <= WARP && self.has_all_lanes(),
            (Axis::Squares(side), Bind::Block) => outside && side > 0 && side == self.nest.side,
            (Axis::Strips(strips, _), Bind::Unroll) => self.has_whole_square(strips),
            (Axis::Halves(lanes), Bind::Unroll) => lanes.is_power_of_two() && lanes <= WARP && self.has_all_lanes(),
            // Nothing is left in the launch that reads what an earlier one has left.
            (Axis::SharesBefore, Bind::Thread) => {
                let leaves = self.nest.has(&|stmt| matches!(stmt, Stmt::Leave { .. }));
                self.has_team() && self.nest.split == Some(Split::Parts) && !leaves
            }
            (Axis::Shares, Bind::Thread) => self.has_team() && self.nest.split == Some(Split::Merge),
            (Axis::Shares, Bind::Serial) => self.is_in(Axis::Rows, Bind::Grid) && self.nest.split == Some(Split::Merge),
            (Axis::Batches(_), Bind::Unroll) => self.has_team(),
            (Axis::Spans(rounds), Bind::Serial) => rounds > 0 && self.has_team(),
            (Axis::Rounds { count, of }, Bind::Unroll) => {
                (self.has_team() || of == Whole::Group) && self.has_whole(count, of)
            }
            (Axis::Lanes(n), Bind::Unroll) => {
                n == self.nest.lanes && (self.is_in(Axis::Rows, Bind::Grid) || self.has_element())
            }
            _ => false,
        };
        self.loops.push((all.axis, all.bind));
        if !is_right || self.loops[..self.loops.len() - 1].iter().any(|outer| outer.0 == all.axis) {
            return self.refuse("it is not bound to threads as the loops around it are");
        }
        self.scope(&all.body)?;
        self.scope(&all.body)?;
        self.loops.pop();
        Ok(())
    }

    fn is_in(&self, axis: Axis, bind: Bind) -> bool {
        self.loops.contains(&(axis, bind))
    }

    fn scope(&mut self, body: &[Stmt]) -> Result<(), String> {
        let (values, begun) = (self.known.values.clone(), self.known.begun.clone());
        let located = (self.known.at_row.clone(), self.known.at_element.clone(), self.known.fetched.clone());
        let room = (self.known.made.clone(), self.known.reserved.clone());
        self.stmts(body)?;
        (self.known.values, self.known.begun) = (values, begun);
        (self.known.at_row, self.known.at_element, self.known.fetched) = located;
        (self.known.made, self.known.reserved) = room;
        Ok(())
    }

    /// Statements of the threads that fulfil a condition.
    fn under(&mut self, when: &Term, body: &[Stmt]) -> Result<(), String> {
        self.reads(when)?;
        self.conditions.push(selected(when));
        self.scope(body)?;
        self.conditions.pop();
        Ok(())
    }

    /// Whether all threads of a block come here together.
    fn has_all_threads(&self) -> bool {
        let is_shared_out = |bind: Bind| matches!(bind, Bind::Grid | Bind::Warp | Bind::Thread);
        !self.loops.iter().any(|around| is_shared_out(around.1)) && self.conditions.is_empty()
    }

    /// Whether all lanes of a warp do: a block is made of whole warps, each of which may have rows
    /// of its own.
    fn has_all_lanes(&self) -> bool {
        let is_shared_out = self.loops.iter().any(|around| matches!(around.1, Bind::Grid | Bind::Thread));
        self.has_whole_warps() && !is_shared_out && self.conditions.is_empty() && self.has_team()
    }

    fn has_whole_warps(&self) -> bool {
        self.nest.threads.is_some_and(|threads| threads.is_multiple_of(WARP))
    }

    /// Whether a thread takes several points.
    fn has_group(&self) -> bool {
        self.loops.first().is_some_and(|outer| matches!(outer.0, Axis::Groups(_)))
    }

    /// Whether a thread has a row alone.
    fn is_alone(&self) -> bool {
        self.is_in(Axis::Rows, Bind::Grid) || self.has_group() && self.has_round()
    }

    /// Whether several threads compute a row together.
    fn has_team(&self) -> bool {
        self.is_in(Axis::Rows, Bind::Block) || self.is_in(Axis::Rows, Bind::Warp)
    }

    /// Whether a thread is the only one of those of a row.
    fn is_first(&self) -> bool {
        self.conditions.contains(&Selected::FirstThread)
            || self.is_in(Axis::Rows, Bind::Warp) && self.conditions.contains(&Selected::FirstLane)
    }

    /// Whether the loop around rounds is over what they are parts of.
    fn has_whole(&self, count: usize, of: Whole) -> bool {
        let around = self.loops.last().map(|around| around.0);
        match of {
            Whole::Row => matches!(around, Some(Axis::Rows)),
            Whole::Batch => matches!(around, Some(Axis::Batches(_))),
            Whole::Span => around == Some(Axis::Spans(count)),
            Whole::Group => around == Some(Axis::Groups(count)),
        }
    }

    fn barrier(&mut self) -> Result<(), String> {
        if !self.has_all_threads() {
            return self.refuse("a barrier that not all threads of a block reach");
        }
        self.known.unsettled.clear();
        self.known.awaited.clear();
        self.known.unsettled_squares.clear();
        self.known.awaited_squares.clear();
        Ok(())
    }

    fn locate(&mut self, accesses: &[usize], at: Axis) -> Result<(), String> {
        let is_chunk = at == Axis::Elements && (self.has_chunk() || self.has_round());
        let is_group = at == Axis::Rows && self.has_group() && self.has_round();
        let is_point = at == Axis::Points && self.strips().is_some();
        let is_there = is_chunk || is_group || is_point || self.loops.iter().any(|around| around.0 == at);
        let is_inner = matches!(at, Axis::Elements | Axis::Points);
        let known = if is_inner { &mut self.known.at_element } else { &mut self.known.at_row };
        known.extend(accesses);
        let is_placed = !is_inner || accesses.iter().all(|access| self.known.at_row.contains(access));
        if is_there && is_placed { Ok(()) } else { self.refuse("an access is located outside of its loop") }
    }

    /// Whether a thread has an element of its own.
    fn has_element(&self) -> bool {
        self.is_in(Axis::Elements, Bind::Thread) || self.has_chunk() || self.has_round()
    }

    /// Whether a thread has elements of its own in a round.
    fn has_round(&self) -> bool {
        self.rounds().is_some() && self.conditions.contains(&Selected::InRow)
    }

    /// The rounds of the loop over them.
    fn rounds(&self) -> Option<usize> {
        let count = |around: &(Axis, Bind)| if let Axis::Rounds { count, .. } = around.0 { Some(count) } else { None };
        self.loops.iter().find_map(count)
    }

    /// Whether a thread has read several elements of an access: in this round, or in those that are
    /// read ahead.
    fn has_read(&self, at: usize) -> bool {
        match self.nest.accesses[at].ahead {
            0 => self.known.fetched.contains(&at),
            rounds => self.known.read_ahead.contains(&at) && self.rounds() == Some(rounds) && self.has_round(),
        }
    }

    /// Whether a thread takes one of several elements.
    fn has_lane(&self) -> bool {
        self.loops.iter().any(|around| matches!(around.0, Axis::Lanes(_)))
    }

    /// Whether several elements of an access are where the thread can take them: it is located, and
    /// outside of the loop over them.
    fn takes_several(&self, at: usize) -> bool {
        self.nest.accesses[at].is_wide && self.is_located(at) && !self.has_lane()
    }

    /// The state of a part, or the result of a row in the slot of the first part: one thread leaves
    /// it, outside of the loop over elements or parts. That of a result is the only one that reads
    /// the slot in this launch.
    fn leaves(&self, slot: usize) -> Result<(), String> {
        let by_one = self.is_in(Axis::Rows, Bind::Grid) || self.is_first();
        let is_whole = self.loops.iter().all(|around| around.0 == Axis::Rows);
        match () {
            () if self.nest.split.is_none() || !is_whole => self.refuse("a state is left of no part"),
            () if slot >= self.nest.slots => self.refuse(&format!("there is no slot {slot}")),
            () if !by_one => self.refuse("all threads of a row leave the state of a part"),
            () => Ok(()),
        }
    }

    /// Whether strips are all of a square, each thread with one point of each.
    fn has_whole_square(&self, strips: usize) -> bool {
        let is_inside = matches!(self.loops.last(), Some((Axis::Squares(_), Bind::Block)));
        let (side, threads) = (self.nest.side, self.nest.threads.unwrap_or(0));
        is_inside && side == WARP && self.has_whole_warps() && strips * threads == side * side
    }

    /// How threads share out a square in the loop over its strips.
    fn strips(&self) -> Option<Way> {
        let way = |around: &(Axis, Bind)| if let Axis::Strips(_, way) = around.0 { Some(way) } else { None };
        self.loops.iter().find_map(way)
    }

    /// Whether a thread has a point of its own of a square.
    fn has_point(&self, way: Way) -> bool {
        self.strips() == Some(way) && self.conditions.contains(&Selected::InSpace)
    }

    fn makes_square(&mut self, at: usize) -> Result<(), String> {
        self.known.squares.insert(at);
        match self.nest.accesses[at].is_crossed && self.loops.is_empty() {
            true => Ok(()),
            false => self.refuse(&format!("{} has no square", self.nest.accesses[at].name)),
        }
    }

    /// An element of an operand that is copied into its square.
    fn fills_square(&mut self, at: usize) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        match access.is_written || !self.has_point(Way::Down) || !self.is_located(at) {
            true => self.refuse(&format!("{} is copied where it is not", access.name)),
            false => self.puts_into_square(at),
        }
    }

    /// An element of a result that is copied out of its square.
    fn empties_square(&mut self, at: usize) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        match !access.is_written || !self.has_point(Way::Down) || !self.is_located(at) {
            true => self.refuse(&format!("{} is copied where it is not", access.name)),
            false => self.takes_from_square(at),
        }
    }

    fn puts_into_square(&mut self, at: usize) -> Result<(), String> {
        let name = &self.nest.accesses[at].name;
        match () {
            () if !self.known.squares.contains(&at) => self.refuse(&format!("the square of {name} is not made")),
            () if self.known.awaited_squares.contains(&at) => {
                self.refuse(&format!("no barrier is between a read of the square of {name} and this write"))
            }
            () => {
                self.known.filled_squares.insert(at);
                self.known.unsettled_squares.insert(at);
                Ok(())
            }
        }
    }

    fn takes_from_square(&mut self, at: usize) -> Result<(), String> {
        let name = &self.nest.accesses[at].name;
        match () {
            () if !self.known.filled_squares.contains(&at) => {
                self.refuse(&format!("the square of {name} is read before it is filled"))
            }
            () if self.known.unsettled_squares.contains(&at) => {
                self.refuse(&format!("no barrier is between a write of the square of {name} and its read"))
            }
            () => {
                self.known.awaited_squares.insert(at);
                Ok(())
            }
        }
    }

    fn reserves(&mut self, at: usize) -> Result<(), String> {
        self.known.read_ahead.remove(&at);
        self.known.reserved.insert(at);
        match self.nest.accesses[at].ahead > 0 && (self.has_team() || self.has_group()) && self.rounds().is_none() {
            true => Ok(()),
            false => {
                self.refuse(&format!("there are no rounds of {} that are read ahead", self.nest.accesses[at].name))
            }
        }
    }

    fn fetches(&mut self, at: usize) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        if access.is_written || !self.takes_several(at) {
            return self.refuse(&format!("several elements of {} are read where they are not", access.name));
        }
        match access.ahead {
            0 => self.known.fetched.insert(at),
            _ if !self.known.reserved.contains(&at) => {
                return self.refuse(&format!("{} is read ahead, and has no room", access.name));
            }
            rounds if self.has_round() && self.rounds() == Some(rounds) => self.known.read_ahead.insert(at),
            _ => return self.refuse(&format!("elements of {} are read ahead in other rounds", access.name)),
        };
        Ok(())
    }

    fn delivers(&mut self, at: usize) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        if !access.is_written || !self.takes_several(at) || !self.known.ready.remove(&at) {
            return self.refuse(&format!("several elements of {} are written that are not known", access.name));
        }
        Ok(())
    }

    /// A value that a thread keeps for a later phase, one of each element that it takes.
    fn keeps(&mut self, buffer: usize) -> Result<(), String> {
        let name = self.nest.place(Place::Buffer(buffer));
        match () {
            () if !self.known.made.contains(&buffer) => self.refuse(&format!("{name} is filled, not made")),
            () if !self.has_round() || !self.has_lane() => self.refuse(&format!("{name} is filled outside of a round")),
            () => {
                self.known.filled.insert(buffer);
                Ok(())
            }
        }
    }

    fn has_chunk(&self) -> bool {
        self.is_in(Axis::Chunks, Bind::Serial) && self.conditions.contains(&Selected::InRow)
    }

    fn is_located(&self, at: usize) -> bool {
        let known = if self.nest.accesses[at].is_of_row { &self.known.at_row } else { &self.known.at_element };
        known.contains(&at)
    }

    fn loads(&mut self, place: Place) -> Result<(), String> {
        match place {
            Place::Access(at) if self.nest.accesses[at].is_written => {
                self.refuse(&format!("{} is read, a result", self.nest.place(place)))
            }
            Place::Access(at) if self.nest.accesses[at].is_wide => match self.has_lane() && self.has_read(at) {
                true => Ok(()),
                false => self.refuse(&format!("{} is read before it is fetched", self.nest.place(place))),
            },
            Place::Access(at) if self.nest.accesses[at].is_crossed => match self.has_point(Way::Across) {
                true => self.takes_from_square(at),
                false => self.refuse(&format!("{} is read outside of its square", self.nest.place(place))),
            },
            Place::Access(at) if self.is_located(at) => Ok(()),
            Place::Buffer(buffer) if self.known.filled.contains(&buffer) && self.has_round() && self.has_lane() => {
                Ok(())
            }
            _ => self.refuse(&format!("{} is read, not located", self.nest.place(place))),
        }
    }

    fn stores(&mut self, at: usize) -> Result<(), String> {
        if self.nest.accesses[at].is_wide && self.has_lane() {
            self.known.ready.insert(at);
        }
        if self.nest.accesses[at].is_crossed && self.nest.accesses[at].is_written {
            return match self.has_point(Way::Across) {
                true => self.puts_into_square(at),
                false => self.refuse(&format!("{} is written outside of its square", self.nest.accesses[at].name)),
            };
        }
        let has_point = self.has_point(Way::Across);
        let (access, by_threads) = (&self.nest.accesses[at], self.is_alone() || has_point);
        let by_one = match access.is_of_row {
            true => by_threads || self.is_first(),
            false => by_threads || self.has_element(),
        };
        match () {
            () if access.is_added_to => self.refuse(&format!("{} is written, a sum", access.name)),
            () if self.nest.split == Some(Split::Parts) && access.is_of_row => {
                self.refuse(&format!("{} is written by a part of a row", access.name))
            }
            () if !access.is_written => self.refuse(&format!("{} is written, an operand", access.name)),
            () if !self.is_located(at) => self.refuse(&format!("{} is written, not located", access.name)),
            () if access.is_wide && !self.has_lane() => {
                self.refuse(&format!("{} is written outside of the loop over several elements", access.name))
            }
            () if !by_one => self.refuse(&format!("all threads of a block write one element of {}", access.name)),
            () => Ok(()),
        }
    }

    /// Partial sums: a launch places them so that no two threads meet at one, see
    /// `runtime/partial_sums.rs`, where the threads of a block share out the elements of a row.
    fn adds(&self, at: usize) -> Result<(), String> {
        let access = &self.nest.accesses[at];
        let by_threads = self.is_alone() || self.has_element();
        match () {
            () if !access.is_added_to => self.refuse(&format!("{} is added to, no sum", access.name)),
            () if !self.is_located(at) => self.refuse(&format!("{} is added to, not located", access.name)),
            () if !by_threads => self.refuse(&format!("all threads of a block add to one element of {}", access.name)),
            () => Ok(()),
        }
    }

    fn sets(&mut self, variable: usize) -> Result<(), String> {
        let one = &self.nest.variables[variable];
        let is_shared = matches!(one.spread, Spread::Warps(_));
        let by_one = [Selected::FirstLane, Selected::LastLane].iter().any(|lane| self.conditions.contains(lane));
        match () {
            () if !self.known.begun.contains(&variable) => self.refuse(&format!("{} is set, not made", one.name)),
            () if one.is_fixed => self.refuse(&format!("{} keeps its initial value", one.name)),
            () if is_shared && !by_one => self.refuse(&format!("all lanes of a warp set {}", one.name)),
            () if is_shared && self.known.awaited.contains(&variable) => {
                self.refuse(&format!("no barrier is between a read of {} by other threads and this write", one.name))
            }
            () => {
                self.known.set.insert(variable);
                if is_shared {
                    self.known.unsettled.insert(variable);
                }
                Ok(())
            }
        }
    }

    fn reads(&mut self, term: &Term) -> Result<(), String> {
        let unbound = term.formula.operands.iter().find(|letter| !term.operands.iter().any(|(own, _)| own == *letter));
        match unbound {
            Some(letter) => self.refuse(&format!("`{}` has no {letter}", term.formula.text)),
            None => self.uses_all(&term.operands),
        }
    }

    fn uses_all(&mut self, operands: &[(char, Operand)]) -> Result<(), String> {
        operands.iter().try_for_each(|(_, operand)| self.uses(operand))
    }

    fn uses(&mut self, operand: &Operand) -> Result<(), String> {
        match operand.origin {
            Origin::Value(value) if !self.known.values.contains(&value) => {
                self.refuse(&format!("{} is read before it is known", self.nest.values[value].name))
            }
            Origin::Variable(variable) => self.uses_variable(variable),
            Origin::Partner(variable) => match self.is_halved() {
                true => self.exchanges(variable),
                false => self.refuse("the state of another half is read outside of a half"),
            },
            Origin::OfFirst(variable) | Origin::OfWarpBefore(variable) => self.exchanges(variable),
            Origin::OfLane(variable, lane) if lane < WARP => self.exchanges(variable),
            Origin::OfLane(..) => self.refuse("a warp has no such lane"),
            Origin::OfWarp(variable) => self.uses_other(variable),
            Origin::Before(variable) => match self.loops.iter().any(|around| matches!(around.0, Axis::Distances(_))) {
                true => self.exchanges(variable),
                false => self.refuse("the state of a lane before is read outside of a distance"),
            },
            Origin::Found(slot, _) => {
                let is_over = |axis: Axis| self.loops.iter().any(|around| around.0 == axis);
                match (is_over(Axis::Shares) || is_over(Axis::SharesBefore)) && slot < self.nest.slots {
                    true => Ok(()),
                    false => self.refuse("the state of a part is read outside of the loop over parts"),
                }
            }
            Origin::Merged(slot, _) if slot >= self.nest.slots || self.nest.split.is_none() => {
                self.refuse("a result is read that no launch has left")
            }
            Origin::Float(k) if k >= self.nest.floats => self.refuse("a number is read that the group does not have"),
            Origin::Integer(k) if k >= self.nest.integers => {
                self.refuse("a number is read that the group does not have")
            }
            _ => Ok(()),
        }
    }

    fn is_halved(&self) -> bool {
        self.loops.iter().any(|around| matches!(around.0, Axis::Halves(_)))
    }

    /// Reads a variable that another lane of the warp has in a register.
    fn exchanges(&self, variable: usize) -> Result<(), String> {
        let one = &self.nest.variables[variable];
        match self.has_all_lanes() && one.spread == Spread::One {
            true => self.uses_variable(variable),
            false => self.refuse(&format!("lanes exchange {}, which not all of a warp do", one.name)),
        }
    }

    fn uses_variable(&self, variable: usize) -> Result<(), String> {
        let name = &self.nest.variables[variable].name;
        match (self.known.begun.contains(&variable), self.known.set.contains(&variable)) {
            (true, true) => Ok(()),
            (false, _) => self.refuse(&format!("{name} is not made")),
            (_, false) => self.refuse(&format!("{name} is read before it has a value")),
        }
    }

    /// Reads a shared variable of another thread.
    fn uses_other(&mut self, variable: usize) -> Result<(), String> {
        self.uses_variable(variable)?;
        if self.known.unsettled.contains(&variable) {
            let name = &self.nest.variables[variable].name;
            return self.refuse(&format!("no barrier is between a write of {name} and its read by other threads"));
        }
        self.known.awaited.insert(variable);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::nest::Known as Number;
    use crate::codegen::nest::build::known;
    use crate::codegen::nest::state_rules::{self, IS_FIRST_LANE, IS_FIRST_THREAD};
    use crate::codegen::number_type::NumberType;
    use crate::codegen::target::CUDA;
    use crate::codegen::whole_graph::kernels;
    use crate::text::{ParseOptions, parse};

    /// The sums of rows, a block of threads for each.
    fn sums() -> Nest {
        let text = "graph(%a : Float(*, *)):
  %r : Tensor = prim::FusionGroup_0(%a)
  return (%r)
with prim::FusionGroup_0 = graph(%x : Float(*, *)):
  %none : None = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %dims : int[] = prim::Constant[value=[1]]()
  %y : Tensor = aten::sum(%x, %dims, %no, %none)
  return (%y)
";
        let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let planned = kernels(&graph, None, &CUDA).planned.remove(0);
        CUDA.nest(&planned.kernel, &planned.traversal, &planned.plan).expect("a nest")
    }

    /// Changes the statements of all bodies, the innermost last.
    fn change(stmts: &mut Vec<Stmt>, how: &mut dyn FnMut(&mut Vec<Stmt>)) {
        how(stmts);
        for stmt in stmts {
            match stmt {
                Stmt::For(For { body, .. }) | Stmt::If { body, .. } | Stmt::Scope(body) => change(body, how),
                _ => {}
            }
        }
    }

    fn refused(how: &mut dyn FnMut(&mut Vec<Stmt>)) -> String {
        let mut nest = sums();
        change(&mut nest.body, how);
        verify(&nest).expect_err("the nest is wrong")
    }

    #[test]
    fn each_removed_barrier_is_refused() {
        verify(&sums()).expect("the nest is right");
        for n in 0..2 {
            let mut seen = 0;
            let why = refused(&mut |stmts| {
                stmts.retain(|stmt| {
                    seen += usize::from(matches!(stmt, Stmt::Barrier));
                    !matches!(stmt, Stmt::Barrier) || seen != n + 1
                });
            });
            assert!(why.starts_with("the loop over "), "{n}: {why}");
            assert!(why.contains("no barrier is between") && why.contains("all_a_y"), "{n}: {why}");
        }
    }

    #[test]
    fn nested_loops_that_share_out_the_same_threads_or_blocks_are_refused() {
        for (axis, bind, why) in [
            (
                Axis::Rows,
                Bind::Block,
                "the loop over rows (Block): it is not bound to threads as the loops around it are",
            ),
            (
                Axis::Rows,
                Bind::Grid,
                "the loop over rows (Grid): it is not bound to threads as the loops around it are",
            ),
            (
                Axis::Elements,
                Bind::Thread,
                "the loop over elements (Thread): it is not bound to threads as the loops around it are",
            ),
        ] {
            let mut is_done = false;
            let found = refused(&mut |stmts| {
                let inner = |stmt: &Stmt| matches!(stmt, Stmt::For(all) if all.bind == Bind::Thread);
                if let Some(Stmt::For(all)) = stmts.iter_mut().find(|stmt| inner(stmt))
                    && !std::mem::replace(&mut is_done, true)
                {
                    let body = std::mem::take(&mut all.body);
                    all.body.push(For::over(axis, bind, body));
                }
            });
            assert_eq!(found, why);
        }
    }

    #[test]
    fn values_of_other_blocks_are_not_read() {
        let by_block = |place: Place| {
            let mut is_done = false;
            refused(&mut |stmts| {
                for stmt in stmts {
                    if let Stmt::Let { compute: Compute::Load(from), .. } = stmt
                        && !std::mem::replace(&mut is_done, true)
                    {
                        *from = place;
                    }
                }
            })
        };
        // A result, of which other blocks write other rows.
        assert_eq!(by_block(Place::Access(1)), "the loop over elements (Thread): out0 is read, a result");
        // The states that the block of another part of the row has left: the second launch reads
        // them.
        let mut is_done = false;
        let why = refused(&mut |stmts| {
            for stmt in stmts {
                if let Stmt::Set { term, .. } = stmt
                    && !std::mem::replace(&mut is_done, true)
                {
                    term.operands[0].1 = Operand { origin: Origin::Found(0, NumberType::Double), ..term.operands[0].1 };
                }
            }
        });
        assert!(why.starts_with("the loop over "), "{why}");
        assert!(why.contains("the state of a part is read outside of the loop over parts"), "{why}");
    }

    #[test]
    fn barriers_that_some_threads_do_not_reach_are_refused() {
        let mut is_done = false;
        let why = refused(&mut |stmts| {
            for stmt in stmts {
                if matches!(stmt, Stmt::Barrier) && !std::mem::replace(&mut is_done, true) {
                    let formula = state_rules::rule(IS_FIRST_THREAD);
                    let when = Term { formula, ty: NumberType::Double, operands: vec![('t', known(Number::Thread))] };
                    *stmt = Stmt::If { when, body: vec![Stmt::Barrier] };
                }
            }
        });
        assert!(why.contains("a barrier that not all threads of a block reach"), "{why}");
    }

    #[test]
    fn exchanges_in_which_not_all_lanes_take_part_are_refused() {
        let under = |formula: &'static str, letter: char, known_number: Number| {
            let mut is_done = false;
            refused(&mut |stmts| {
                for stmt in stmts {
                    let exchanges = matches!(stmt, Stmt::For(For { axis: Axis::Halves(_), .. }));
                    if exchanges && !std::mem::replace(&mut is_done, true) {
                        let formula = state_rules::rule(formula);
                        let when =
                            Term { formula, ty: NumberType::Double, operands: vec![(letter, known(known_number))] };
                        let inner = std::mem::replace(stmt, Stmt::Barrier);
                        *stmt = Stmt::If { when, body: vec![inner] };
                    }
                }
            })
        };
        let why = "the loop over halves (Unroll): it is not bound to threads as the loops around it are";
        assert_eq!(under(IS_FIRST_THREAD, 't', Number::Thread), why);
        assert_eq!(under(IS_FIRST_LANE, 'l', Number::Lane), why);
        // A state that differs between the lanes: each thread has elements of its own number.
        let mut is_done = false;
        let why = refused(&mut |stmts| {
            let first = stmts.iter().find_map(|stmt| match stmt {
                Stmt::Set { variable, term, .. } if matches!(term.operands[0].1.origin, Origin::OfFirst(_)) => {
                    Some(Stmt::Set { variable: *variable, term: term.clone(), note: String::new() })
                }
                _ => None,
            });
            let elements = stmts.iter_mut().find_map(|stmt| match stmt {
                Stmt::For(all) if all.bind == Bind::Thread => Some(&mut all.body),
                _ => None,
            });
            if let (Some(first), Some(elements)) = (first, elements)
                && !std::mem::replace(&mut is_done, true)
            {
                elements.push(first);
            }
        });
        assert_eq!(why, "the loop over elements (Thread): lanes exchange a_y, which not all of a warp do");
    }

    #[test]
    fn states_that_all_lanes_of_a_warp_leave_are_refused() {
        let why = refused(&mut |stmts| {
            for stmt in stmts {
                if let Stmt::If { when, body } = stmt
                    && selected(when) == Selected::FirstLane
                {
                    *stmt = Stmt::Scope(std::mem::take(body));
                }
            }
        });
        assert_eq!(why, "the loop over rows (Block): all lanes of a warp set all_a_y");
    }

    #[test]
    fn results_that_all_threads_write_are_refused() {
        let why = refused(&mut |stmts| {
            for stmt in stmts {
                if let Stmt::If { when, body } = stmt
                    && selected(when) == Selected::FirstThread
                {
                    *stmt = Stmt::Scope(std::mem::take(body));
                }
            }
        });
        assert!(why.contains("all threads of a block write one element of out0"), "{why}");
    }
}
