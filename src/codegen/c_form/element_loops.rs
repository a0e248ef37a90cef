//! Loops over the elements of a tile, one for each stage.

use super::row_loops::letter_of_scan;
use super::{Writer, beside};
use crate::codegen::c_spelling::{converted, formula, literal, narrowed, value_type, widened};
use crate::codegen::kernel::{Inner, Input, Source};
use crate::codegen::loop_structure::is_reordered;
use crate::codegen::monoid::Monoid;
use crate::codegen::schedule::{Aim, Stages, source_of};
use crate::tensor::DType;
use std::collections::BTreeSet;

/// One loop nest over elements: what for, and with which steps.
struct Loop<'a> {
    indent: usize,
    phase: usize,
    aims: &'a [Aim],
    steps: BTreeSet<usize>,
    stages: Stages,
    /// Loads of one element, which is read before the loops.
    invariant: BTreeSet<usize>,
}

impl Writer<'_> {
    /// Loops over elements that compute what some aims need. `most` elements are in a tile.
    pub(super) fn elements(&mut self, indent: usize, phase: usize, aims: &[Aim], most: usize) {
        let steps = self.schedule.steps(self.kernel, phase, aims);
        let stages = self.stages(phase, aims);
        let invariant = self.invariant_loads(&steps, aims);
        invariant.iter().for_each(|&k| self.load(indent, k));
        let all = Loop { indent, phase, aims, steps, stages, invariant };
        for &step in &self.between_stages(&all) {
            let step = &self.kernel.steps[step];
            let (ty, name) = (value_type(step.out), beside('t', &step.name));
            self.line(indent, &format!("{ty} {name}[{most}] __attribute__((aligned(64)));"));
        }
        (0..self.stages_with_sums(&all.stages, aims)).for_each(|stage| self.stage(&all, stage));
        self.stream_tile(indent, aims);
    }

    /// What is the same for all elements of a loop. Compilers cannot tell that no result is written
    /// to it, and would spread it over a vector once for each: the overlap of boxes takes 1.7 times
    /// as long that way.
    fn invariant_loads(&self, steps: &BTreeSet<usize>, aims: &[Aim]) -> BTreeSet<usize> {
        let inputs = steps.iter().flat_map(|&i| self.kernel.steps[i].inputs.iter().map(|input| input.source));
        let sources = inputs.chain(aims.iter().map(|&aim| source_of(self.kernel, aim)));
        let is_known = |k: usize| {
            self.traversal.direction.has_inner_loop() && self.schedule.is_of_row(self.traversal, Source::Load(k))
        };
        let invariant = sources.filter_map(|source| match source {
            Source::Load(k) if self.traversal.inner[k] == Inner::Broadcast && !is_known(k) => Some(k),
            _ => None,
        });
        invariant.collect()
    }

    /// The steps whose values are read in a later stage than that in which they are computed.
    fn between_stages(&self, all: &Loop<'_>) -> BTreeSet<usize> {
        let mut between = BTreeSet::new();
        let mut read = |source: Source, stage: usize| {
            if let Source::Step(i) = source
                && all.stages.of_step.get(&i).is_some_and(|&made| made < stage)
            {
                between.insert(i);
            }
        };
        for &i in &all.steps {
            self.kernel.steps[i].inputs.iter().for_each(|input| read(input.source, all.stages.of_step[&i]));
        }
        all.aims.iter().for_each(|&aim| read(source_of(self.kernel, aim), self.stage_of(all, aim)));
        between
    }

    fn stage(&mut self, all: &Loop<'_>, stage: usize) {
        let between = self.between_stages(all);
        let mut declared: BTreeSet<String> = BTreeSet::new();
        let indent = all.indent;
        let aims: Vec<Aim> = all.aims.iter().copied().filter(|aim| self.stage_of(all, *aim) == stage).collect();
        let runs = |i: &&usize| all.stages.of_step[i] == stage && self.kernel.steps[**i].scan.is_some();
        if let Some(&i) = all.steps.iter().find(runs) {
            return self.scan_stage(all, i, &aims, between.contains(&i));
        }
        if aims.is_empty() && !all.stages.of_step.values().any(|&of_step| of_step == stage) {
            return;
        }
        let invariant = self.invariant_sums(&aims);
        for &k in &invariant {
            self.line(indent, &format!("{} {} = 0;", self.column_reduction_type(k), self.column_reduction_part(k)));
        }
        // What hardly ever runs is not worth vectors: they would be a fifth of what a compiler does
        // for a norm.
        if !self.in_doubles || self.is_outer() {
            self.line(indent, &format!("#pragma omp simd{}", self.clauses(&aims)));
        }
        self.line(indent, "for (i64 i = 0; i < m; i++) {");
        self.begin_together(indent + 4);
        for &i in all.steps.iter().filter(|i| all.stages.of_step[i] == stage) {
            let step = &self.kernel.steps[i];
            step.inputs.iter().for_each(|input| self.declare(input.source, all, stage, &mut declared));
            let value = self.value_of_step(i);
            let statement = format!("const {} {} = {value};", value_type(step.out), step.name);
            self.noted(indent + 4, &statement, &step.line);
            declared.insert(step.name.clone());
            if between.contains(&i) {
                self.line(indent + 4, &format!("{}[i] = {};", beside('t', &step.name), step.name));
            }
        }
        // What waits in the memory of a result is read before that is written.
        aims.iter().for_each(|&aim| self.declare(source_of(self.kernel, aim), all, stage, &mut declared));
        aims.iter().for_each(|&aim| self.take(indent + 4, aim));
        self.end_together(indent + 4);
        self.line(indent, "}");
        for k in invariant {
            self.line(indent, &format!("{}[0] += {};", self.store_name(k), self.column_reduction_part(k)));
        }
    }

    pub(super) fn column_reduction_part(&self, k: usize) -> String {
        format!("p_{}", self.store_name(k))
    }

    /// Adds an element to a sum aside.
    fn add_to_column_reduction(&mut self, indent: usize, k: usize, at: usize) {
        let column_reduction = &self.kernel.column_reductions[at];
        let value = self.input(&column_reduction.input);
        let access = self.kernel.loads.len() + k;
        let (total, ty) = match self.traversal.inner[access] {
            Inner::Broadcast => (self.column_reduction_part(k), self.column_reduction_type(k)),
            _ => (format!("{}{}", self.store_name(k), self.index(access)), "double"),
        };
        self.noted(indent, &format!("{total} += ({ty}){value};"), &column_reduction.line);
    }

    /// The loop of a running total, and of what is done with it at once. Sums along a row may be
    /// computed in a vector where that says the same, or differs in digits that are not kept. Sums
    /// of doubles and products stay sequential: in another order they have other last digits, or
    /// are infinite on the way.
    ///
    /// ```c
    /// #pragma omp simd reduction(inscan,+:r_y)
    /// for (i64 i = 0; i < m; i++) {
    ///     { r_y += (double)in0[i]; }
    ///     #pragma omp scan inclusive(r_y)
    ///     { const float v_y = (float)r_y; out0[i] = v_y; }
    /// }
    /// ```
    fn scan_stage(&mut self, all: &Loop<'_>, i: usize, aims: &[Aim], is_read_later: bool) {
        let (indent, step) = (all.indent, &self.kernel.steps[i]);
        let Some(scan) = &step.scan else { return };
        let name = beside(letter_of_scan(all.aims), &step.name);
        let has_inner_loop = self.traversal.direction.has_single_rows();
        let total = if has_inner_loop { name.clone() } else { self.row_of(&name) };
        let in_vectors = is_reordered(scan.op, step);
        match has_inner_loop {
            true if in_vectors => self.line(indent, &format!("#pragma omp simd reduction(inscan,+:{name})")),
            true => {}
            false => self.line(indent, "#pragma omp simd"),
        }
        self.line(indent, "for (i64 i = 0; i < m; i++) {");
        self.line(indent + 4, "{");
        let mut declared = BTreeSet::new();
        let inner = Loop {
            indent: indent + 4,
            steps: all.steps.clone(),
            stages: all.stages.clone(),
            invariant: all.invariant.clone(),
            ..*all
        };
        step.inputs.iter().for_each(|input| self.declare(input.source, &inner, all.stages.of_step[&i], &mut declared));
        self.run_on(indent + 8, i, &total);
        self.line(indent + 4, "}");
        if has_inner_loop && in_vectors {
            self.line(indent + 4, &format!("#pragma omp scan inclusive({name})"));
        }
        self.line(indent + 4, "{");
        let ty = value_type(step.out);
        let value = self.as_in_memory(format!("({ty}){total}"), step.out, Source::Step(i));
        self.line(indent + 8, &format!("const {ty} {} = {value};", step.name));
        if is_read_later {
            self.line(indent + 8, &format!("{}[i] = {};", beside('t', &step.name), step.name));
        }
        aims.iter().for_each(|&aim| self.take(indent + 8, aim));
        self.line(indent + 4, "}");
        self.line(indent, "}");
    }

    /// Takes an element into a running total.
    pub(super) fn run_on(&mut self, indent: usize, i: usize, total: &str) {
        let step = &self.kernel.steps[i];
        let (Some(monoid), value) = (self.monoid_of_scan(i), formula(step, |input| self.input(input))) else { return };
        for (slot, &update) in monoid.slots.iter().zip(monoid.step) {
            let name = |letter| Some(if letter == 'x' { format!("({}){value}", slot.ty) } else { total.to_owned() });
            self.noted(indent, &self.update(&monoid, update, &name), &step.line);
        }
    }

    /// The state of a scan.
    pub(super) fn monoid_of_scan(&self, i: usize) -> Option<Monoid> {
        let step = &self.kernel.steps[i];
        step.scan.as_ref().map(|scan| Monoid::of_scan(scan.op, step))
    }

    fn stage_of(&self, all: &Loop<'_>, aim: Aim) -> usize {
        if self.comes_last(aim) {
            return all.stages.count;
        }
        let source = source_of(self.kernel, aim);
        // A running total is stored at once; folds of it are made behind its loop.
        if matches!(aim, Aim::Store(_)) { all.stages.of(source) } else { all.stages.behind(self.kernel, source) }
    }

    /// Makes a value known in a loop that does not compute it.
    fn declare(&mut self, source: Source, all: &Loop<'_>, stage: usize, declared: &mut BTreeSet<String>) {
        let name = self.name(source, DType::Float);
        let is_of_row = self.schedule.is_of_row(self.traversal, source);
        // A single row has variables of its own.
        if is_of_row && self.traversal.direction.has_inner_loop() {
            return;
        }
        let indent = all.indent + 4;
        match source {
            Source::Load(k) if !all.invariant.contains(&k) && declared.insert(name.clone()) => self.load(indent, k),
            Source::Step(i) => {
                let value = match self.schedule.carried.get(&i).filter(|_| self.schedule.waits(i, all.phase)) {
                    Some(&store) => {
                        let access = self.kernel.loads.len() + store;
                        format!("{}{}", self.store_name(store), self.index(access))
                    }
                    None if is_of_row => self.row_of(&beside('t', &name)),
                    None if all.stages.of_step[&i] != stage => format!("{}[i]", beside('t', &name)),
                    None => return,
                };
                if declared.insert(name.clone()) {
                    self.line(indent, &format!("const {} {name} = {value};", value_type(self.kernel.steps[i].out)));
                }
            }
            Source::Reduced(k) if declared.insert(name.clone()) => {
                let ty = value_type(self.kernel.reductions[k].out);
                let element = self.row_of(&beside('t', &name));
                self.line(indent, &format!("const {ty} {name} = {element};"));
            }
            _ => {}
        }
    }

    pub(super) fn load(&mut self, indent: usize, k: usize) {
        let load = &self.kernel.loads[k];
        let element = format!("in{k}{}", self.index(k));
        let statement = format!("const {} {} = {};", value_type(load.dtype), load.name, widened(&element, load.dtype));
        self.noted(indent, &statement, &load.line);
    }

    /// Does with an element what a loop is for.
    fn take(&mut self, indent: usize, aim: Aim) {
        match aim {
            Aim::Store(k) => self.store(indent, k),
            Aim::Carry(step, store) => {
                let (name, access) = (&self.kernel.steps[step].name, self.kernel.loads.len() + store);
                let statement = format!("{}{} = {name};", self.store_name(store), self.index(access));
                self.noted(indent, &statement, "kept for a later loop");
            }
            Aim::Reduce(k) => self.reduce(indent, k),
            Aim::Square(k) => self.square(indent, k),
            Aim::Differs(k) => self.compare(indent, k),
            Aim::Place(k) => self.look_for(indent, k),
            Aim::Total(step) => self.add_to_scan(indent, step),
            // Rows of points are shared, which nests have.
            Aim::Keep(_) => {}
        }
    }

    pub(super) fn store(&mut self, indent: usize, k: usize) {
        let store = self.kernel.stores[k];
        if let Some(at) = store.column_reduction {
            return self.add_to_column_reduction(indent, k, at);
        }
        let made = &self.kernel.made[store.tensor];
        let value = converted(&self.name(store.source, store.dtype), store.dtype, made.dtype);
        let access = self.kernel.loads.len() + k;
        let statement = format!("{}{} = {};", self.store_name(k), self.index(access), narrowed(value, made.dtype));
        let part = store.part.map_or(String::new(), |part| format!(", part {}", part.index));
        self.noted(indent, &statement, &format!("a result{part}"));
    }

    /// What a step computes.
    pub(super) fn value_of_step(&self, i: usize) -> String {
        let step = &self.kernel.steps[i];
        self.as_in_memory(formula(step, |input| self.input(input)), step.out, Source::Step(i))
    }

    /// A value as it would be read again if it had been written to memory, which rounds those of 16
    /// bits. What is only stored is rounded there.
    pub(super) fn as_in_memory(&self, value: String, dtype: DType, source: Source) -> String {
        let is_value = match source {
            Source::Step(i) => self.kernel.steps[i].is_value,
            Source::Reduced(k) => self.kernel.reductions[k].is_value,
            _ => false,
        };
        let rounds = matches!(dtype, DType::Half | DType::BFloat16) && is_value && self.kernel.reads(source);
        if rounds { converted(&format!("({value})"), DType::Float, dtype) } else { value }
    }

    pub(super) fn input(&self, input: &Input) -> String {
        match input.source {
            Source::Constant(scalar) => literal(scalar, input.to),
            source => converted(&self.name(source, input.dtype), input.dtype, input.to),
        }
    }
}
