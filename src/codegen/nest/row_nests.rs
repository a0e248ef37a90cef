//! Rows that are reduced: their state, what is computed from it, and the loops between.
//!
//! Where a row is contiguous the loop over elements runs along it, in blocks of 1024, and a row has
//! one variable for each part of a state. Where rows are interleaved it runs from line to line, for
//! 16 elements of each row at a time, and variables are arrays. Sums are doubles, those of a block,
//! of a scan, and of the row; but a block of floats is summed in floats for interleaved rows, and
//! of what is between 0 and 1. Variances are in `variance_nests.rs`.
//!
//! Doubles keep sums right that cancel, and rows may have any length. Outer reductions add sixteen
//! floats at a time as floats, because arrays of doubles would not stay in the first level of
//! cache. The exponentials of a softmax are between 0 and 1, so that nothing cancels, and are
//! summed as floats in blocks of 256.
//!
//! In a strided reduction, such as that of the channels of images, `x.mean((0, 2, 3))`, a row is
//! many pieces, and pieces of all rows alternate in memory. Row by row, each piece would be read
//! from pages that the processor has not prefetched. So memory is read in its own order, and
//! several rows are reduced at once; their state is kept in arrays between their pieces. Measured
//! for 16 images of 256 channels of 28 x 28 floats: mean and variance take 0.8 ms so, and
//! 1.7 one row after the other.
//!
//! A loop over interleaved rows reads and writes a total for each element that it takes: where
//! little is computed that is most of its work. With an inner loop over some lines, totals stay in
//! registers between them, and each adds its elements in the same order as before. Where no cache
//! holds the data, lines are taken one by one: memory is fastest in its own order. Measured on an
//! EPYC with AVX-512 (Zen 4) with mean and variance of 12544 rows of 256 floats that the third
//! level of cache holds, the shortest of 101 runs: 374 us line by line, 349 with four together, 264
//! with eight; reading alone takes 163. Of 100352 rows, 103 MB, eight together take 10.4 ms or
//! more, and one by one 7.2 to 8.2.

use super::build::{Builder, constant, copy, known, plain, term, with_letter};
use super::element_nests::letter_of_scan;
use super::state_rules::{
    CHOSEN, CHOSEN_LINE, FIRST_EQUAL, FIRST_OR_NAN, INDEX, LARGER, LARGER_BLOCK, LARGER_OR_NAN, SMALLER, SMALLER_BLOCK,
    SMALLER_OR_NAN,
};
use super::{Axis, Bind, Compute, Distance, For, Known, Operand, Origin, Place, Scope, Spread, Stmt, Term};
use crate::codegen::kernel::{Direction, Source};
use crate::codegen::kernel_plan::Ahead;
use crate::codegen::loop_structure::Phase;
use crate::codegen::loop_structure::{Aim, source_of};
use crate::codegen::monoid::{Monoid, Role, Slot, Update};
use crate::codegen::number_type::NumberType;
use crate::tensor::{DType, Scalar};
use std::collections::BTreeSet;

/// A part of the state of a reduction, with its variable.
pub(super) type State = (Slot, String);

/// A term over state. What a formula names and the state does not have is left out, which the
/// verifier refuses.
pub(super) fn over_state(
    formula: &'static crate::codegen::expression::Expression,
    ty: NumberType,
    name: &dyn Fn(char) -> Option<Operand>,
) -> Term {
    let operands = formula.operands.iter().filter_map(|&letter| Some((letter, name(letter)?)));
    Term { formula, ty, operands: operands.collect() }
}

impl Builder<'_> {
    /// The loop over rows, or over those that are reduced at once.
    pub(super) fn all_rows(&mut self) {
        let mut body = Vec::new();
        if self.loops.is_split() {
            self.nest.slots = self.loops.place_of(self.loops.phases);
        }
        self.row(&mut body);
        let axis = match self.loops.traversal.direction {
            Direction::Outer => Axis::Columns(self.loops.plan.tile),
            Direction::Strided => Axis::Sides(self.loops.plan.side),
            _ => Axis::Rows,
        };
        self.nest.body.push(For::over(axis, Bind::Worker, body));
    }

    /// Whether several rows are reduced at once: how many at most, and the loop over them.
    pub(super) fn several(&self) -> Option<(usize, Axis)> {
        match self.loops.traversal.direction {
            Direction::Outer => Some((self.loops.plan.tile, Axis::Points)),
            Direction::Strided => Some((self.loops.plan.side, Axis::Side)),
            _ => None,
        }
    }

    /// How many variables a part of the state of a block is.
    pub(super) fn spread(&self) -> Spread {
        if self.loops.is_outer() { Spread::Columns(self.loops.plan.tile) } else { Spread::One }
    }

    /// A loop over interleaved rows, or the statements for a single one.
    pub(super) fn each_row(&self, inner: Vec<Stmt>, body: &mut Vec<Stmt>) {
        match self.loops.is_outer() {
            true => body.push(For::over(Axis::Points, Bind::Serial, inner)),
            false => body.extend(inner),
        }
    }

    fn row(&mut self, body: &mut Vec<Stmt>) {
        let (kernel, traversal) = (self.kernel, self.loops.traversal);
        let of_rows = (0..kernel.accesses()).filter(|&access| traversal.invariant[access]);
        if !self.loops.is_strided() {
            body.extend(of_rows.map(|access| Stmt::Open(Place::Access(access))));
        }
        if self.several().is_none() {
            body.extend((0..kernel.loads.len()).filter(|&k| traversal.invariant[k]).map(|k| self.load(k)));
        }
        for phase in 0..self.loops.phases {
            self.values_of_row(phase, body);
            let aims = self.loops.aims(phase);
            if !aims.is_empty() {
                self.phase(phase, &aims, body);
            }
        }
    }

    /// Steps and stores of rows in a phase.
    fn values_of_row(&mut self, phase: usize, body: &mut Vec<Stmt>) {
        let kernel = self.kernel;
        let of_phase = |source| self.kernel.phase(source) == phase;
        let steps: Vec<usize> =
            (0..kernel.steps.len()).filter(|&i| self.loops.of_row[i] && of_phase(Source::Step(i))).collect();
        let writes = |&k: &usize| self.loops.traversal.writes_rows(kernel, k) && of_phase(kernel.stores[k].source);
        let stores: Vec<usize> = (0..kernel.stores.len()).filter(writes).collect();
        if steps.is_empty() && stores.is_empty() {
            return;
        }
        let mut inner = Vec::new();
        if let Some((most, _)) = self.several() {
            for &i in &steps {
                let buffer = self.buffer(self.step(i), self.kept_type(i), most, Scope::Rows);
                self.rows.insert(self.step(i), buffer);
                body.push(Stmt::Alloc(buffer));
            }
            let read = steps.iter().flat_map(|&i| kernel.steps[i].inputs.iter().map(|input| input.source));
            let read = read.chain(stores.iter().map(|&k| kernel.stores[k].source));
            let here = |source: &Source| matches!(source, Source::Step(i) if steps.contains(i));
            let sources = self.of_rows(read.filter(|source| !here(source)));
            self.known_of_rows(&sources, &mut inner);
        }
        for i in steps {
            let step = &kernel.steps[i];
            inner.push(Stmt::Let { value: self.step(i), compute: self.applied(i), note: step.line.clone() });
            if let Some(&buffer) = self.rows.get(&self.step(i)) {
                let to = self.nest.buffers[buffer].dtype;
                let operand = Operand { origin: Origin::Value(self.step(i)), from: step.out, to };
                inner.push(Stmt::Store { to: Place::Buffer(buffer), operand, waits: true, note: String::new() });
            }
        }
        let is_once = self.loops.is_split() && !stores.is_empty();
        let mut written = Vec::new();
        for k in stores {
            if self.loops.is_strided() {
                written.push(Stmt::Open(Place::Access(kernel.loads.len() + k)));
            }
            self.store(k, &mut written);
        }
        match is_once {
            true => inner.push(Stmt::Once { number: self.loops.launch_phase(phase), body: written }),
            false => inner.extend(written),
        }
        match self.several() {
            Some((_, axis)) => {
                let bind = if self.loops.is_outer() { Bind::Vector } else { Bind::Serial };
                body.push(For::over(axis, bind, inner));
            }
            None => body.extend(inner),
        }
    }

    /// The type in which a step of several rows is kept for the loops that read it: floats where it
    /// is a double that all of them round, as vectors of rows would be rounded anew for each
    /// element.
    fn kept_type(&self, step: usize) -> DType {
        let (kernel, own) = (self.kernel, Source::Step(step));
        let is_with_it = |i: usize| self.loops.of_row[i] && kernel.phase(Source::Step(i)) == kernel.phase(own);
        let elsewhere = kernel.steps.iter().enumerate().filter(|(i, _)| !is_with_it(*i));
        let read =
            elsewhere.flat_map(|(_, other)| &other.inputs).chain(kernel.reductions.iter().map(|reduce| &reduce.input));
        let mut read = read.filter(|input| input.source == own).peekable();
        let is_stored = kernel.stores.iter().any(|store| store.source == own);
        let out = kernel.steps[step].out;
        let is_rounded = !is_stored
            && read.peek().is_some()
            && read.all(|input| NumberType::of_values(input.to) == NumberType::Float);
        if is_rounded && out == DType::Double { DType::Float } else { out }
    }

    /// Reads values of rows that earlier loops have made, or that are loaded.
    fn known_of_rows(&self, sources: &[Source], body: &mut Vec<Stmt>) {
        for &source in sources {
            let value = match source {
                Source::Load(k) => {
                    if self.loops.is_strided() {
                        body.push(Stmt::Open(Place::Access(k)));
                    }
                    body.push(self.load(k));
                    continue;
                }
                Source::Step(i) => self.step(i),
                Source::Reduced(k) => self.reduced(k),
                _ => continue,
            };
            let Some(&buffer) = self.rows.get(&value) else { continue };
            let compute = Compute::Load(Place::Buffer(buffer));
            body.push(Stmt::Let { value, compute, note: String::new() });
        }
    }

    /// Values of rows among some, each once.
    fn of_rows(&self, sources: impl Iterator<Item = Source>) -> Vec<Source> {
        let mut seen: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        for source in sources {
            let Origin::Value(value) = self.origin(source) else { continue };
            let name = self.nest.values[value].name.as_str();
            if self.loops.is_of_row(source) && !seen.contains(&name) {
                seen.push(name);
                all.push(source);
            }
        }
        all
    }

    /// Values of rows that the loops of a phase read.
    fn read_of_rows(&self, phase: &Phase) -> Vec<Source> {
        let aims = [&phase.aims[..], &phase.squares].concat();
        let steps = self.loops.steps(phase.number, &aims);
        let read = steps.iter().flat_map(|&i| self.kernel.steps[i].inputs.iter().map(|input| input.source));
        self.of_rows(read.chain(aims.iter().map(|aim| source_of(self.kernel, *aim))))
    }

    /// The loops of a phase over the elements of rows.
    fn phase(&mut self, number: usize, aims: &[Aim], body: &mut Vec<Stmt>) {
        let phase = self.loops.planned(number, aims);
        let totals = self.totals(&phase, body);
        if self.loops.is_split() {
            self.split_phase(&phase, body);
        } else {
            let mut inner = Vec::new();
            for aims in [&phase.aims, &phase.squares] {
                self.scans(number, aims, &mut inner);
            }
            self.all_blocks(&phase, &totals, &mut inner);
            body.push(Stmt::Scope(inner));
        }
        phase.own.iter().chain(&phase.along).chain(&phase.found).for_each(|&k| self.finish(k, body));
    }

    /// Makes the state of rows.
    fn totals(&mut self, phase: &Phase, body: &mut Vec<Stmt>) -> Vec<State> {
        let all = phase.own.iter().chain(&phase.along);
        let named = |&k: &usize| {
            let name = &self.kernel.reductions[k].name;
            self.loops.monoid(k).slots.into_iter().map(move |slot| (with_letter(slot.role.letter(), name), slot))
        };
        let all: Vec<State> = all.flat_map(named).map(|(name, slot)| (slot, name)).collect();
        if let Direction::Strided = self.loops.traversal.direction {
            let spread = Spread::Side(self.loops.plan.side);
            let begun = |(slot, name): &State| {
                (self.declared_as(format!("all_{name}"), slot.ty, spread, false), Some(constant(slot.initial)))
            };
            let begun: Vec<(usize, Option<Term>)> = all.iter().map(begun).collect();
            if !begun.is_empty() {
                body.push(Stmt::Begin(begun));
            }
            return all;
        }
        // Interleaved rows are as far as each other.
        let counts = |(slot, _): &State| self.loops.is_outer() && slot.role == Role::Count;
        let (counts, of_rows): (Vec<State>, Vec<State>) = all.iter().cloned().partition(counts);
        self.begin_all(of_rows.into_iter().map(|(slot, name)| (slot.ty, name, constant(slot.initial))).collect(), body);
        for (slot, name) in counts {
            let variable = self.declared_as(name, slot.ty, Spread::One, false);
            body.push(Stmt::Begin(vec![(variable, Some(constant(slot.initial)))]));
        }
        all
    }

    /// Makes variables of a row, or arrays of them, those of a type together.
    pub(super) fn begin_all(&mut self, all: Vec<(NumberType, String, Term)>, body: &mut Vec<Stmt>) {
        let types: BTreeSet<NumberType> = all.iter().map(|(ty, ..)| *ty).collect();
        let spread = self.spread();
        for ty in types {
            let same = all.iter().filter(|(other, ..)| *other == ty);
            let begun =
                same.map(|(_, name, value)| (self.declared_as(name.clone(), ty, spread, false), Some(value.clone())));
            body.push(Stmt::Begin(begun.collect()));
        }
    }

    /// The state of scans begins with a row.
    pub(super) fn scans(&mut self, phase: usize, aims: &[Aim], body: &mut Vec<Stmt>) {
        for i in self.loops.steps(phase, aims) {
            let step = &self.kernel.steps[i];
            let Some(scan) = &step.scan else { continue };
            let name = with_letter(letter_of_scan(aims), &step.name);
            for slot in Monoid::of_scan(scan.op, step).slots {
                self.begin_all(vec![(slot.ty, name.clone(), constant(slot.initial))], body);
            }
        }
    }

    /// The loops over the blocks of a row, of all its pieces that are not adjacent in memory.
    pub(super) fn all_blocks(&mut self, phase: &Phase, totals: &[State], body: &mut Vec<Stmt>) {
        let mut pieces = Vec::new();
        if self.loops.is_strided() {
            let mut turn = Vec::new();
            let known = self.read_of_rows(phase);
            self.known_of_rows(&known, &mut turn);
            for (slot, name) in totals {
                let waiting = plain(Origin::Variable(self.names[&format!("all_{name}")]));
                let variable = self.declared_as(name.clone(), slot.ty, Spread::One, false);
                turn.push(Stmt::Begin(vec![(variable, Some(copy(waiting)))]));
            }
            self.blocks(phase, &mut turn);
            for (_, name) in totals {
                let (variable, own) = (self.names[&format!("all_{name}")], self.names[name]);
                let term = copy(plain(Origin::Variable(own)));
                turn.push(Stmt::Set { variable, term, note: String::new() });
            }
            pieces.push(For::over(Axis::Side, Bind::Serial, turn));
        } else {
            self.blocks(phase, &mut pieces);
        }
        body.push(For::over(Axis::Pieces, Bind::Serial, pieces));
    }

    /// The loop over the blocks of a row, or of interleaved rows.
    fn blocks(&mut self, phase: &Phase, body: &mut Vec<Stmt>) {
        let only_tried = !phase.own.is_empty() && phase.own.iter().all(|&k| self.loops.is_summed_in_floats(k));
        let plan = self.loops.plan.phase(phase.number);
        let is_first_turn = phase.aims.iter().any(|aim| matches!(aim, Aim::Total(_)));
        let size = if is_first_turn { plan.scan_block } else { plan.block };
        // The value subtracted from the elements of the first block is a guess.
        let has_first = self.loops.is_outer() && only_tried && plan.first != size;
        let number = phase.own.first().filter(|_| has_first);
        let first = number.map(|&k| (self.variable('k', &self.kernel.reductions[k].name), plan.first));
        let mut inner = Vec::new();
        self.parts(&phase.own, &mut inner);
        self.summed_block(phase, size, &mut inner);
        if !phase.squares.is_empty() {
            let twice: Vec<usize> = phase.own.iter().copied().filter(|&k| self.loops.is_read_twice(k)).collect();
            twice.into_iter().for_each(|k| self.centre(k, &mut inner));
            self.block(phase.number, &phase.squares, size, &mut inner);
        }
        for &k in phase.own.iter().chain(&phase.along) {
            match () {
                () if self.loops.is_variance(k) => self.end_of_block(phase, k, size, &mut inner),
                () if self.loops.is_arg_reduction(k) => self.place_of_block(phase, k, size, &mut inner),
                () => self.merge(k, &mut inner),
            }
        }
        body.push(For::over(Axis::Blocks { size, first }, Bind::Serial, inner));
    }

    /// The state of a block.
    fn parts(&mut self, reduces: &[usize], body: &mut Vec<Stmt>) {
        let parts = |&k: &usize| {
            let reduction = &self.kernel.reductions[k];
            let total = if self.loops.sums_floats(k) { NumberType::Float } else { reduction.total() };
            let letters = match () {
                () if self.loops.is_summed_in_floats(k) => Vec::new(),
                () if self.loops.is_variance(k) => vec![(NumberType::Double, 'y')],
                () if self.loops.is_arg_reduction(k) && self.loops.is_outer() => Vec::new(),
                () if self.loops.is_arg_reduction(k) => vec![(reduction.total(), 'p')],
                () if !reduction.op.picks() => vec![(total, 'p')],
                () => Vec::new(),
            };
            let nothing = constant(reduction.nothing());
            letters.into_iter().map(move |(ty, letter)| (ty, with_letter(letter, &reduction.name), nothing.clone()))
        };
        let all: Vec<_> = reduces.iter().flat_map(parts).collect();
        self.begin_all(all, body);
        for &k in reduces {
            let reduction = &self.kernel.reductions[k];
            if self.loops.is_arg_reduction(k) && reduction.is_real() && !self.loops.is_outer() {
                self.begin_all(vec![(NumberType::Int, with_letter('o', &reduction.name), super::build::zero())], body);
            }
        }
    }

    /// The loops over a block.
    pub(super) fn block(&mut self, phase: usize, aims: &[Aim], size: usize, body: &mut Vec<Stmt>) {
        let accesses = self.loops.accesses_of(phase, aims);
        let opened: Vec<Stmt> = accesses.iter().map(|&access| Stmt::Open(Place::Access(access))).collect();
        if !self.loops.is_outer() {
            let mut inner = opened;
            self.elements(phase, aims, size, &mut inner);
            inner.extend(self.prefetched_rows(phase, aims, &accesses));
            return body.push(Stmt::Scope(inner));
        }
        let tile = self.loops.plan.tile;
        let at_once = self.lines_at_once(phase, aims);
        if at_once > 1 {
            let mut inner = opened.clone();
            self.together = Some(at_once);
            self.elements(phase, aims, tile, &mut inner);
            self.together = None;
            inner.extend(self.prefetched_rows(phase, aims, &accesses));
            body.push(For::over(Axis::Lines { at_once, rest_of: 1 }, Bind::Serial, inner));
        }
        let mut inner = opened;
        self.elements(phase, aims, tile, &mut inner);
        inner.extend(self.prefetched_rows(phase, aims, &accesses));
        let sums = self.loops.invariant_sums(aims);
        let always = sums.into_iter().any(|k| self.loops.column_reduction_type(k) == NumberType::Float);
        if always || self.loops.streams_any(aims) {
            let axis = Axis::Parts { columns: self.loops.plan.part, always };
            inner = vec![For::over(axis, Bind::Serial, inner)];
        }
        body.push(For::over(Axis::Lines { at_once: 1, rest_of: at_once }, Bind::Serial, inner));
    }

    /// How many lines a loop takes at once: in doubles one, and as many as the plan says in the
    /// first and in the second loop over a block.
    fn lines_at_once(&self, phase: usize, aims: &[Aim]) -> usize {
        let plan = self.loops.plan.phase(phase);
        match aims.first() {
            _ if self.loops.in_doubles => 1,
            Some(Aim::Square(_)) => plan.again,
            Some(Aim::Reduce(_)) => plan.together,
            _ => 1,
        }
    }

    /// What is prefetched after a block: only what the first phase reads comes from memory. Of
    /// interleaved rows, or rows that alternate, only the loop of a mean and a variance has time.
    fn prefetched_rows(&self, phase: usize, aims: &[Aim], accesses: &[usize]) -> Option<Stmt> {
        let first = self.loops.accesses_of(0, &self.loops.aims(0));
        let is_load = |k: &usize| *k < self.kernel.loads.len() && first.contains(k);
        let loads = accesses.iter().copied().filter(is_load);
        let varies = aims.iter().any(|aim| matches!(aim, Aim::Reduce(k) if self.loops.is_variance(*k)));
        let has_time = varies || self.loops.traversal.direction.has_single_rows();
        let ahead = match self.loops.plan.phase(phase).ahead {
            Ahead::Elements(n) if has_time && self.loops.is_outer() => Distance::Lines(n),
            Ahead::Elements(n) if has_time => Distance::Elements(n),
            Ahead::NextRow(most) => Distance::NextRow(most),
            Ahead::Elements(_) | Ahead::Nothing => return None,
        };
        self.prefetched(loads, ahead)
    }

    /// The letter of a slot in the loop over a block: sums are those of the block, and so is the
    /// extremum whose index is looked for; other extrema are those of the row.
    pub(super) fn letter_in_block(&self, letter: char, k: usize) -> char {
        match letter {
            'a' if !self.kernel.reductions[k].op.picks() => 'p',
            'a' if self.loops.is_arg_reduction(k) => 'p',
            'n' if self.loops.is_arg_reduction(k) => 'o',
            other => other,
        }
    }

    /// An update of a state, with operands for its letters: a slot is set, and what is no slot is
    /// made.
    pub(super) fn update(
        &mut self,
        (monoid, k): (&Monoid, usize),
        (letter, formula): Update,
        operand: &dyn Fn(&Builder<'_>, char) -> Option<Operand>,
    ) -> Stmt {
        let ty = monoid.slots.first().map_or(NumberType::Double, |slot| slot.ty);
        let term = over_state(formula, ty, &|letter| operand(self, letter));
        match operand(self, letter) {
            Some(Operand { origin: Origin::Variable(variable), .. }) if monoid.slot(letter).is_some() => {
                Stmt::Set { variable, term, note: String::new() }
            }
            _ => {
                let name = with_letter(letter, &self.kernel.reductions[k].name);
                let variable = self.declared_as(name, ty, Spread::One, true);
                Stmt::Begin(vec![(variable, Some(term))])
            }
        }
    }

    /// Takes an element into the state of its block.
    pub(super) fn reduce(&mut self, k: usize, body: &mut Vec<Stmt>) {
        if self.loops.is_variance(k) {
            return self.reduce_into_variance(k, body);
        }
        if self.loops.is_arg_reduction(k) && self.loops.is_outer() {
            return self.reduce_into_index(k, body);
        }
        let reduction = &self.kernel.reductions[k];
        let monoid = self.loops.monoid_of_block(k);
        let operand = |builder: &Builder<'_>, letter: char| match letter {
            'x' => Some(builder.input(&reduction.input)),
            _ => Some(builder.of(builder.letter_in_block(letter, k), &reduction.name)),
        };
        for (i, &update) in monoid.step.iter().enumerate() {
            let mut statement = self.update((&monoid, k), update, &operand);
            if let (0, Stmt::Set { note, .. }) = (i, &mut statement) {
                *note = reduction.line.clone();
            }
            body.push(statement);
        }
    }

    /// Merges the sum of a block.
    fn merge(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        if reduction.op.picks() || self.loops.leader(k).is_some() {
            return;
        }
        let operand = |builder: &Builder<'_>, letter: char| match letter {
            'A' => Some(builder.of('p', &reduction.name)),
            other => Some(builder.of(other, &reduction.name)),
        };
        let monoid = self.loops.monoid(k);
        let merged = monoid.merge.iter().map(|&update| self.update((&monoid, k), update, &operand)).collect();
        self.each_row(merged, body);
    }

    /// The result of a reduction, as a value of the row.
    fn finish(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        let leader = self.loops.leader(k).filter(|_| self.loops.is_variance(k)).unwrap_or(k);
        let (name, is_strided) = (&self.kernel.reductions[leader].name, self.loops.is_strided());
        let number = |x: f64| {
            let origin = Origin::Constant(Scalar::Float(x));
            Some(Operand { origin, from: DType::Double, to: DType::Double })
        };
        let operand = |letter: char| match letter {
            'c' => Some(known(Known::Count)),
            'v' => number(reduction.correction),
            'z' => number(f64::NAN),
            other if is_strided => {
                let name = format!("all_{}", with_letter(other, name));
                self.names.get(&name).map(|&variable| plain(Origin::Variable(variable)))
            }
            other => Some(self.of(other, name)),
        };
        let term = over_state(self.loops.monoid(k).finish, NumberType::Double, &operand);
        let (value, note) = (self.reduced(k), reduction.line.clone());
        let compute = Compute::Finish { term, rounded: self.rounded(reduction.out, Source::Reduced(k)) };
        let made = Stmt::Let { value, compute, note };
        let Some((most, axis)) = self.several() else { return body.push(made) };
        let buffer = self.buffer(value, reduction.out, most, Scope::Rows);
        self.rows.insert(value, buffer);
        body.push(Stmt::Alloc(buffer));
        let operand = Operand { origin: Origin::Value(value), from: reduction.out, to: reduction.out };
        let kept = Stmt::Store { to: Place::Buffer(buffer), operand, waits: true, note: String::new() };
        body.push(For::over(axis, Bind::Serial, vec![made, kept]));
    }

    // ---- the index of an element, `argmax`
    //
    // Along a row a block is reduced as for its largest element, in vectors. Only a block that has
    // a larger one than all before it is looked at again, for the first element that is it, or is
    // NaN; of a row of noise those are few, of one that rises all are read twice, the second time
    // in the first level of cache. Of interleaved rows each element is compared with the largest so
    // far in its row. Nothing is found where all elements are the least there is: then the first
    // one is it, which is what indices begin with.

    /// Takes an element of interleaved rows into the state of its row.
    fn reduce_into_index(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        let name = reduction.name.as_str();
        let (value, total) = (self.input(&reduction.input), self.of('a', name));
        let text = match (reduction.is_real(), reduction.op.prefers_larger()) {
            (true, true) => LARGER_OR_NAN,
            (true, false) => SMALLER_OR_NAN,
            (false, true) => LARGER,
            (false, false) => SMALLER,
        };
        let better = self.declared_as(with_letter('w', name), NumberType::Int, Spread::One, true);
        body.push(Stmt::Begin(vec![(better, Some(term(text, [('x', value), ('a', total)])))]));
        let better = plain(Origin::Variable(better));
        let at = [('b', known(Known::Piece)), ('n', known(Known::Width)), ('f', known(Known::First))];
        let [piece, width, first] = at;
        let index = self.variable('j', name);
        let own = plain(Origin::Variable(index));
        let operands = [('w', better), piece, width, first, ('j', known(Known::Line)), ('a', own)];
        body.push(Stmt::Set { variable: index, term: term(CHOSEN_LINE, operands), note: reduction.line.clone() });
        let chosen = term(CHOSEN, [('w', better), ('x', value), ('a', total)]);
        body.push(Stmt::Set { variable: self.variable('a', name), term: chosen, note: String::new() });
    }

    /// Looks for the index of the extremum of a block, where that is better than all before.
    fn place_of_block(&mut self, phase: &Phase, k: usize, size: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        if self.loops.is_outer() {
            return;
        }
        let name = reduction.name.as_str();
        let operands = [('p', self.of('p', name)), ('a', self.of('a', name))];
        let [part, total] = operands;
        let is_larger = reduction.op.prefers_larger();
        let when = match reduction.is_real() {
            true => {
                let text = if is_larger { LARGER_BLOCK } else { SMALLER_BLOCK };
                term(text, [('n', self.of('n', name)), ('o', self.of('o', name)), part, total])
            }
            false => term(if is_larger { LARGER } else { SMALLER }, [('x', part.1), total]),
        };
        let found = self.declared_as(with_letter('w', name), NumberType::I64, Spread::One, false);
        let mut inner = vec![Stmt::Begin(vec![(found, Some(copy(known(Known::Points))))])];
        self.block(phase.number, &[Aim::Place(k)], size, &mut inner);
        let mut set = |letter: char, term: Term| {
            inner.push(Stmt::Set { variable: self.variable(letter, name), term, note: String::new() });
        };
        set('a', copy(part.1));
        let at = [('b', known(Known::Piece)), ('n', known(Known::Width)), ('f', known(Known::First))];
        let [piece, width, first] = at;
        set('j', term(INDEX, [piece, width, first, ('w', plain(Origin::Variable(found)))]));
        if reduction.is_real() {
            set('n', copy(self.of('o', name)));
        }
        body.push(Stmt::If { when, body: inner });
    }

    /// Notes that an element is the extremum of its block, if no other was before.
    pub(super) fn look_for(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        let name = reduction.name.as_str();
        let variable = self.variable('w', name);
        let own = plain(Origin::Variable(variable));
        let (value, part) = (('x', self.input(&reduction.input)), ('p', self.of('p', name)));
        let point = ('i', known(Known::Point));
        let found = match reduction.is_real() {
            true => term(FIRST_OR_NAN, [('o', self.of('o', name)), value, part, point, ('w', own)]),
            false => term(FIRST_EQUAL, [value, part, point, ('w', own)]),
        };
        body.push(Stmt::Set { variable, term: found, note: reduction.line.clone() });
    }

    /// Whether a load is an element of a single row: of an access that is not the same for all.
    pub(super) fn is_element_of_single_row(&self, load: usize) -> bool {
        !self.loops.traversal.invariant[load] && !self.loops.is_outer()
    }
}
