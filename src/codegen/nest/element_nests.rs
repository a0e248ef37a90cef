//! The loops over the elements of a tile or block, one for each stage.

use super::build::{Builder, combined, copy, plain, term, with_letter, zero};
use super::state_rules::{DOUBLE, DOUBLE_PRODUCT, DOUBLE_SUM, FLOAT_SUM, LONG_PRODUCT, LONG_SUM};
use super::{Axis, Bind, Combined, Compute, For, Operand, Origin, Place, Scope, Spread, Stmt, Watch};
use crate::codegen::kernel::{Direction, Inner, Source};
use crate::codegen::loop_structure::is_reordered;
use crate::codegen::loop_structure::{Aim, Stages, source_of};
use crate::codegen::monoid::clause;
use crate::codegen::number_type::NumberType;
use crate::codegen::window::Gives;
use crate::ops::recipes::ReduceOp;
use std::collections::BTreeSet;

/// The loops over elements with some aims.
struct Tile<'a> {
    phase: usize,
    aims: &'a [Aim],
    steps: BTreeSet<usize>,
    stages: Stages,
    /// Loads of one element, which is read before the loops.
    invariant: BTreeSet<usize>,
    /// Steps that a later loop reads, with their buffers.
    between: Vec<(usize, usize)>,
}

/// The letter of the state of scans in loops with these aims: squares are summed in a second loop
/// over the block, which has its own.
pub(super) fn letter_of_scan(aims: &[Aim]) -> char {
    if aims.iter().any(|aim| matches!(aim, Aim::Square(_))) { 'u' } else { 'r' }
}

impl Builder<'_> {
    /// The loops over elements that compute what some aims need: one for each stage. `most`
    /// elements are in a tile.
    pub(super) fn elements(&mut self, phase: usize, aims: &[Aim], most: usize, body: &mut Vec<Stmt>) {
        let steps = self.loops.steps(phase, aims);
        let stages = self.loops.stages(phase, aims);
        let invariant = self.invariant_loads(&steps, aims);
        body.extend(invariant.iter().map(|&k| self.load(k)));
        let mut tile = Tile { phase, aims, steps, stages, invariant, between: Vec::new() };
        for step in self.between(&tile) {
            let (value, dtype) = (self.step(step), self.kernel.steps[step].out);
            let buffer = self.buffer(value, dtype, most, Scope::Tile);
            tile.between.push((step, buffer));
            body.push(Stmt::Alloc(buffer));
        }
        for stage in 0..self.loops.stages_with_sums(&tile.stages, aims) {
            self.stage(&tile, stage, body);
        }
        let loads = self.kernel.loads.len();
        body.extend(self.loops.buffered(aims).into_iter().map(|store| Stmt::Flush(loads + store)));
    }

    /// What is the same for all points of a loop. Compilers cannot tell that no result is written
    /// to it, and would spread it over a vector once for each: the overlap of boxes takes 1.7 times
    /// as long that way.
    fn invariant_loads(&self, steps: &BTreeSet<usize>, aims: &[Aim]) -> BTreeSet<usize> {
        let inputs = steps.iter().flat_map(|&i| self.kernel.steps[i].inputs.iter().map(|input| input.source));
        let sources = inputs.chain(aims.iter().map(|&aim| source_of(self.kernel, aim)));
        let traversal = self.loops.traversal;
        let is_known = |k: usize| traversal.direction.has_inner_loop() && self.loops.is_of_row(Source::Load(k));
        // An element that is not read at all points may not exist at others.
        let is_read = |k: usize| match self.nest.accesses[k].watch {
            Some(Watch { gives: Gives::Part, .. }) => false,
            watch => watch.is_none_or(|watch| !watch.guard.is_of_point()),
        };
        let is_same = |k: usize| traversal.inner[k] == Inner::Broadcast && is_read(k) && !is_known(k);
        sources.filter_map(|source| if let Source::Load(k) = source { is_same(k).then_some(k) } else { None }).collect()
    }

    /// The steps whose values are read in a later stage than that in which they are computed.
    fn between(&self, tile: &Tile<'_>) -> BTreeSet<usize> {
        let mut between = BTreeSet::new();
        let mut read = |source: Source, stage: usize| match source {
            Source::Step(i) if tile.stages.of_step.get(&i).is_some_and(|&made| made < stage) => {
                between.insert(i);
            }
            _ => {}
        };
        for &i in &tile.steps {
            let inputs = &self.kernel.steps[i].inputs;
            inputs.iter().for_each(|input| read(input.source, tile.stages.of_step[&i]));
        }
        tile.aims.iter().for_each(|&aim| read(source_of(self.kernel, aim), self.stage_of(tile, aim)));
        between
    }

    fn stage_of(&self, tile: &Tile<'_>, aim: Aim) -> usize {
        if self.loops.comes_last(aim) {
            return tile.stages.count;
        }
        let source = source_of(self.kernel, aim);
        // A scan is stored at once; reductions of it come after its loop.
        match aim {
            Aim::Store(_) => tile.stages.of(source),
            _ => tile.stages.readable_from(self.kernel, source),
        }
    }

    /// The loop of a stage, if it does anything.
    fn stage(&mut self, tile: &Tile<'_>, stage: usize, body: &mut Vec<Stmt>) {
        let aims: Vec<Aim> = tile.aims.iter().copied().filter(|&aim| self.stage_of(tile, aim) == stage).collect();
        let steps: Vec<usize> = tile.steps.iter().copied().filter(|i| tile.stages.of_step[i] == stage).collect();
        if let Some(&i) = steps.iter().find(|&&i| self.kernel.steps[i].scan.is_some()) {
            return self.scan_stage(tile, i, &aims, body);
        }
        if aims.is_empty() && steps.is_empty() {
            return;
        }
        let invariant = self.loops.invariant_sums(&aims);
        for &k in &invariant {
            let ty = self.loops.column_reduction_type(k);
            let variable = self.declared_as(column_name(k), ty, Spread::One, false);
            body.push(Stmt::Begin(vec![(variable, Some(zero()))]));
        }
        let (mut inner, mut known) = (Vec::new(), BTreeSet::new());
        for i in steps {
            let step = &self.kernel.steps[i];
            for input in &step.inputs {
                inner.extend(self.read(input.source, tile, stage, &mut known));
            }
            inner.push(Stmt::Let { value: self.step(i), compute: self.applied(i), note: step.line.clone() });
            known.insert(self.step(i));
            inner.extend(self.kept_between(tile, i));
        }
        // A value kept in the memory of a result is read before the result is written.
        for &aim in &aims {
            inner.extend(self.read(source_of(self.kernel, aim), tile, stage, &mut known));
        }
        aims.iter().for_each(|&aim| self.take(aim, &mut inner));
        if let Some(lines) = self.together {
            inner = vec![For::over(Axis::Together(lines), Bind::Unroll, inner)];
        }
        // Rare code is not worth vectors: they would be a fifth of the compile time of a norm.
        let is_seldom = self.loops.in_doubles && !self.loops.is_outer();
        let bind = if is_seldom || self.writes_one(&aims) { Bind::Serial } else { Bind::Vector };
        let combined = self.combined(&aims);
        let within = self.within;
        body.push(Stmt::For(For { axis: Axis::Points, bind, combined, within, body: inner }));
        for k in invariant {
            let sum = plain(Origin::Variable(self.names[&column_name(k)]));
            body.push(Stmt::Accumulate { to: self.kernel.loads.len() + k, term: copy(sum), note: String::new() });
        }
    }

    /// The loop of a scan, and of what is done with it at once. Sums along a row may be computed in
    /// a vector where that gives the same, or differs in digits that are not kept. Sums of doubles
    /// and products stay sequential: in another order they have other last digits, or are infinite
    /// on the way.
    ///
    /// ```c
    /// #pragma omp simd reduction(inscan,+:r_y)
    /// for (i64 i = 0; i < m; i++) {
    ///     { r_y += (double)in0[i]; }
    ///     #pragma omp scan inclusive(r_y)
    ///     { const float v_y = (float)(r_y); out0[i] = v_y; }
    /// }
    /// ```
    fn scan_stage(&mut self, tile: &Tile<'_>, i: usize, aims: &[Aim], body: &mut Vec<Stmt>) {
        let step = &self.kernel.steps[i];
        let Some(scan) = &step.scan else { return };
        let variable = self.variable(letter_of_scan(tile.aims), &step.name);
        let is_single = self.loops.traversal.direction.has_single_rows();
        let in_vectors = is_single && is_reordered(scan.op, step) && !self.writes_one(aims);
        let (mut first, mut known) = (Vec::new(), BTreeSet::new());
        for input in &step.inputs {
            first.extend(self.read(input.source, tile, tile.stages.of_step[&i], &mut known));
        }
        self.run_on(i, variable, &mut first);
        let mut then = Vec::new();
        let term = copy(plain(Origin::Variable(variable)));
        let compute = Compute::Finish { term, rounded: self.rounded(step.out, Source::Step(i)) };
        then.push(Stmt::Let { value: self.step(i), compute, note: String::new() });
        then.extend(self.kept_between(tile, i));
        aims.iter().for_each(|&aim| self.take(aim, &mut then));
        // OpenMP takes two blocks of statements.
        let mut inner = vec![Stmt::Scope(first)];
        inner.extend(in_vectors.then_some(Stmt::Inclusive(variable)));
        inner.push(Stmt::Scope(then));
        let bind = if is_single && !in_vectors || self.writes_one(aims) { Bind::Serial } else { Bind::Vector };
        let combined = if in_vectors { vec![Combined { variable, how: "+", is_scan: true }] } else { Vec::new() };
        let within = self.within;
        body.push(Stmt::For(For { axis: Axis::Points, bind, combined, within, body: inner }));
    }

    /// Whether a loop over elements writes one element of a result, as rows of one element have: it
    /// has one iteration.
    fn writes_one(&self, aims: &[Aim]) -> bool {
        let is_one = |store: usize| {
            let access = self.kernel.loads.len() + store;
            !self.kernel.is_column_reduction(access) && self.loops.traversal.inner[access] == Inner::Broadcast
        };
        let has_rows = self.loops.traversal.direction != Direction::Points;
        has_rows && aims.iter().any(|aim| matches!(*aim, Aim::Store(k) | Aim::Carry(_, k) if is_one(k)))
    }

    /// Takes an element into the state of a scan, whose type it is converted to.
    pub(super) fn run_on(&mut self, i: usize, variable: usize, body: &mut Vec<Stmt>) {
        let step = &self.kernel.steps[i];
        let (Some(scan), Some(input)) = (&step.scan, step.inputs.first()) else { return };
        let text = match (scan.op, self.nest.variables[variable].ty) {
            (ReduceOp::Product, NumberType::Double) => DOUBLE_PRODUCT,
            (ReduceOp::Product, _) => LONG_PRODUCT,
            (_, NumberType::Double) => DOUBLE_SUM,
            _ => LONG_SUM,
        };
        let operands = [('a', plain(Origin::Variable(variable))), ('x', self.input(input))];
        body.push(Stmt::Set { variable, term: term(text, operands), note: step.line.clone() });
    }

    /// Stores a step for later stages.
    fn kept_between(&self, tile: &Tile<'_>, i: usize) -> Option<Stmt> {
        let &(_, buffer) = tile.between.iter().find(|row| row.0 == i)?;
        Some(self.kept(i, buffer, ""))
    }

    /// Reads a value that the loop of a stage does not compute.
    fn read(&self, source: Source, tile: &Tile<'_>, stage: usize, known: &mut BTreeSet<usize>) -> Option<Stmt> {
        let traversal = self.loops.traversal;
        let is_of_row = self.loops.is_of_row(source);
        // A single row has values of its own.
        if is_of_row && traversal.direction.has_inner_loop() {
            return None;
        }
        let (value, place) = match source {
            Source::Load(k) if !tile.invariant.contains(&k) => return known.insert(k).then(|| self.load(k)),
            Source::Step(i) => {
                let waiting = self.loops.plan.kept.get(&i);
                let place = match waiting.filter(|_| self.loops.waits(i, tile.phase)) {
                    Some(&store) => Place::Access(self.kernel.loads.len() + store),
                    None if is_of_row => Place::Buffer(*self.rows.get(&self.step(i))?),
                    None if !tile.steps.contains(&i) => Place::Buffer(self.shared(i)?),
                    None if tile.stages.of_step[&i] != stage => {
                        Place::Buffer(tile.between.iter().find(|row| row.0 == i)?.1)
                    }
                    None => return None,
                };
                (self.step(i), place)
            }
            Source::Reduced(k) => (self.reduced(k), Place::Buffer(*self.rows.get(&self.reduced(k))?)),
            _ => return None,
        };
        known.insert(value).then(|| Stmt::Let { value, compute: Compute::Load(place), note: String::new() })
    }

    pub(super) fn load(&self, k: usize) -> Stmt {
        Stmt::Let { value: k, compute: Compute::Load(Place::Access(k)), note: self.kernel.loads[k].line.clone() }
    }

    /// The computation of a step.
    pub(super) fn applied(&self, i: usize) -> Compute {
        let step = &self.kernel.steps[i];
        let operands = step.inputs.iter().map(|input| (input.letter, self.input(input))).collect();
        let rounded = self.rounded(step.out, Source::Step(i));
        Compute::Apply { formula: step.formula, computed: step.computed, operands, rounded }
    }

    fn kept(&self, step: usize, buffer: usize, note: &str) -> Stmt {
        let dtype = self.kernel.steps[step].out;
        let operand = Operand { origin: Origin::Value(self.step(step)), from: dtype, to: dtype };
        Stmt::Store { to: Place::Buffer(buffer), operand, waits: true, note: note.to_owned() }
    }

    /// Does with a value what a loop is for.
    fn take(&mut self, aim: Aim, body: &mut Vec<Stmt>) {
        match aim {
            Aim::Store(k) => self.store(k, body),
            Aim::Keep(step) => {
                body.extend(self.shared(step).map(|buffer| self.kept(step, buffer, "kept for all rows")));
            }
            Aim::Carry(step, store) => {
                let dtype = self.kernel.steps[step].out;
                let operand = Operand { origin: Origin::Value(self.step(step)), from: dtype, to: dtype };
                let to = Place::Access(self.kernel.loads.len() + store);
                body.push(Stmt::Store { to, operand, waits: true, note: "kept for a later loop".to_owned() });
            }
            Aim::Reduce(k) => self.reduce(k, body),
            Aim::Square(k) => self.square(k, body),
            Aim::Differs(k) => self.compare(k, body),
            Aim::Place(k) => self.look_for(k, body),
            Aim::Total(step) => {
                let variable = self.variable('r', &self.kernel.steps[step].name);
                self.run_on(step, variable, body);
            }
        }
    }

    /// Writes an element of a result, or adds it to a column reduction.
    pub(super) fn store(&self, k: usize, body: &mut Vec<Stmt>) {
        let (store, access) = (self.kernel.stores[k], self.kernel.loads.len() + k);
        if let Some(at) = store.column_reduction {
            return self.add_to_column_reduction(k, at, body);
        }
        let made = self.kernel.made[store.tensor].dtype;
        let operand = Operand { origin: self.origin(store.source), from: store.dtype, to: made };
        let part = store.part.map_or(String::new(), |part| format!(", part {}", part.index));
        let note = format!("a result{part}");
        body.push(Stmt::Store { to: Place::Access(access), operand, waits: false, note });
    }

    fn add_to_column_reduction(&self, k: usize, at: usize, body: &mut Vec<Stmt>) {
        let column_reduction = &self.kernel.column_reductions[at];
        let (to, value) = (self.kernel.loads.len() + k, self.input(&column_reduction.input));
        let note = column_reduction.line.clone();
        // Threads of a block have partial sums in memory; a launch says where.
        if self.nest.threads.is_some() || self.loops.traversal.inner[to] != Inner::Broadcast {
            return body.push(Stmt::Accumulate { to, term: term(DOUBLE, [('x', value)]), note });
        }
        let variable = self.names[&column_name(k)];
        let text = if self.loops.column_reduction_type(k) == NumberType::Float { FLOAT_SUM } else { DOUBLE_SUM };
        let term = term(text, [('a', plain(Origin::Variable(variable))), ('x', value)]);
        body.push(Stmt::Set { variable, term, note });
    }

    /// The variables that the iterations of a loop with these aims combine.
    fn combined(&self, aims: &[Aim]) -> Vec<Combined> {
        let columns = self.loops.invariant_sums(aims).into_iter();
        let columns = columns.map(|k| combined(self.names[&column_name(k)], "+"));
        if !self.loops.traversal.direction.has_inner_loop() {
            return columns.collect();
        }
        aims.iter().flat_map(|&aim| self.combined_by(aim)).chain(columns).collect()
    }

    fn combined_by(&self, aim: Aim) -> Vec<Combined> {
        let of = |letter: char, k: usize, how| combined(self.variable(letter, &self.kernel.reductions[k].name), how);
        match aim {
            Aim::Reduce(k) if self.loops.is_summed_in_floats(k) => vec![of('p', k, "+"), of('e', k, "+")],
            Aim::Reduce(k) if self.loops.is_variance(k) => vec![of('y', k, "+")],
            Aim::Square(k) if self.loops.is_variance(k) => vec![of('z', k, "+")],
            Aim::Differs(k) => vec![of('o', k, "|")],
            Aim::Place(k) => vec![of('w', k, "min")],
            Aim::Reduce(k) => {
                let steps = self.loops.monoid_of_block(k).step.iter();
                let of_step = |update| clause(update).map(|how| of(self.letter_in_block(update.0, k), k, how));
                steps.filter_map(of_step).collect()
            }
            Aim::Total(step) => vec![combined(self.variable('r', &self.kernel.steps[step].name), "+")],
            Aim::Square(_) | Aim::Store(_) | Aim::Carry(..) | Aim::Keep(_) => Vec::new(),
        }
    }
}

/// The name of the variable in which a loop adds to one element of a column reduction.
fn column_name(store: usize) -> String {
    with_letter('p', &format!("v_out{store}"))
}
