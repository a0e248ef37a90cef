//! Rows that are folded: totals, what is computed of them, and the loops between.
//!
//! Along a row that lies in memory as neighbours the loop over elements runs along it, in blocks of
//! [`BLOCK`], and a row has one variable for each value. Across rows that stand side by side it
//! runs from row to row, for [`ROWS`] elements of each at a time, and values are arrays. Sums are
//! doubles, those of a block, those that run along it, and the total; but a block of floats is
//! summed in floats for rows side by side, and of what is between 0 and 1. Variances are in
//! `variances.rs`, places of elements in `places.rs`.
//!
//! Doubles keep sums right that cancel, and rows may have any length. Outer reductions add sixteen
//! floats at a time as floats, because arrays of doubles would not stay in the first level of
//! cache. The exponentials of a softmax are between 0 and 1, so that nothing cancels, and are
//! summed as floats in blocks of 256.

use super::{Writer, beside};
use crate::codegen::c_spelling::{literal, value_type};
use crate::codegen::expression::{Binary, Expr};
use crate::codegen::kernel::{Direction, Inner, Reduction, Source};
use crate::codegen::loop_structure::Phase;
use crate::codegen::monoid::{Monoid, Role, Slot, Update, clause};
use crate::codegen::schedule::{Aim, source_of};
use crate::tensor::{DType, Scalar};
use std::collections::BTreeSet;

impl Reduction {
    /// How a value compares with another one that it takes the place of.
    pub(super) fn beats(&self) -> &'static str {
        if self.op.prefers_larger() { ">" } else { "<" }
    }
}

/// The name of running totals in loops with these aims: squares are taken in a second loop over the
/// block, which has its own.
pub(super) fn letter_of_scan(aims: &[Aim]) -> char {
    if aims.iter().any(|aim| matches!(aim, Aim::Square(_))) { 'u' } else { 'r' }
}

impl Writer<'_> {
    /// How the folded part of the space is walked: its innermost dimension in blocks, `blocks`
    /// times.
    pub(super) fn reduction_space(&mut self) {
        let innermost = if self.is_outer() { 2 } else { 1 };
        self.line(4, &format!("const i64 folded = rank - {innermost}, width = shape[folded];"));
        self.line(4, "i64 blocks = 1;");
        self.line(4, "for (i64 d = kept; d < folded; d++) blocks *= shape[d];");
        self.line(4, "const double count = (double)(blocks * width);");
        self.line(4, "(void)count;");
    }

    /// Where several rows are dealt with at once: what tells one from the other, how many there
    /// are, and the most there may be.
    fn several(&self) -> Option<(&'static str, &'static str, usize)> {
        match self.traversal.direction {
            Direction::Outer => Some(("i", "m", self.plan.tile)),
            Direction::Strided => Some(("r", "side", self.plan.side)),
            Direction::Points | Direction::Inner | Direction::Split => None,
        }
    }

    /// Computes a row, or as many as stand side by side in a tile, or take turns.
    pub(super) fn tile_of_rows(&mut self) {
        let invariant: Vec<usize> =
            (0..self.kernel.accesses()).filter(|&access| self.traversal.invariant[access]).collect();
        if !self.is_strided() {
            invariant.into_iter().for_each(|access| self.pointer(8, access, ""));
        }
        if self.several().is_none() {
            let loads: Vec<usize> = (0..self.kernel.loads.len()).filter(|&k| self.traversal.invariant[k]).collect();
            loads.into_iter().for_each(|k| self.load(8, k));
        }
        for phase in 0..self.schedule.phases {
            self.values_of_row(phase);
            let aims = self.schedule.aims(self.kernel, self.traversal, phase);
            if !aims.is_empty() {
                self.phase(phase, &aims);
            }
        }
    }

    /// Steps and stores of rows in a phase.
    fn values_of_row(&mut self, phase: usize) {
        let kernel = self.kernel;
        let of_phase = |source| self.schedule.phase(source) == phase;
        let steps: Vec<usize> =
            (0..kernel.steps.len()).filter(|&i| self.schedule.of_row[i] && of_phase(Source::Step(i))).collect();
        let stores: Vec<usize> = (0..kernel.stores.len())
            .filter(|&k| self.traversal.writes_rows(kernel, k) && of_phase(kernel.stores[k].source))
            .collect();
        if steps.is_empty() && stores.is_empty() {
            return;
        }
        let indent = if self.several().is_some() { 12 } else { 8 };
        if let Some((row, rows, most)) = self.several() {
            for &i in &steps {
                let step = &kernel.steps[i];
                self.line(8, &format!("{} {}[{most}];", self.kept_type(i), beside('t', &step.name)));
            }
            if self.is_outer() {
                self.line(8, "#pragma omp simd");
            }
            self.line(8, &format!("for (i64 {row} = 0; {row} < {rows}; {row}++) {{"));
            let read = steps.iter().flat_map(|&i| kernel.steps[i].inputs.iter().map(|input| input.source));
            let read = read.chain(stores.iter().map(|&k| kernel.stores[k].source));
            let here = |source: &Source| matches!(source, Source::Step(i) if steps.contains(i));
            let known = self.of_rows(read.filter(|source| !here(source)));
            self.known_of_rows(12, &known);
        }
        for i in steps {
            let step = &kernel.steps[i];
            let value = self.value_of_step(i);
            self.noted(indent, &format!("const {} {} = {value};", value_type(step.out), step.name), &step.line);
            if let Some((row, ..)) = self.several() {
                let value = match self.kept_type(i) {
                    "float" if value_type(step.out) == "double" => format!("(float){}", step.name),
                    _ => step.name.clone(),
                };
                self.line(indent, &format!("{}[{row}] = {value};", beside('t', &step.name)));
            }
        }
        let is_once = self.is_split() && !stores.is_empty();
        if is_once {
            self.line(indent, &format!("if (turn == {} && part == 0) {{", self.turn_of(phase)));
        }
        for k in stores {
            let access = kernel.loads.len() + k;
            if self.is_strided() {
                self.pointer(indent, access, &self.in_turn(access));
            }
            self.store(indent + if is_once { 4 } else { 0 }, k);
        }
        if is_once {
            self.line(indent, "}");
        }
        if self.several().is_some() {
            self.line(8, "}");
        }
    }

    /// The type in which a step of several rows waits for the loops that read it: floats where it
    /// is a double that all of them round, as vectors of rows would be rounded anew for each
    /// element.
    fn kept_type(&self, step: usize) -> &'static str {
        let (kernel, schedule, own) = (self.kernel, &self.schedule, Source::Step(step));
        let is_with_it = |i: usize| schedule.of_row[i] && schedule.phase(Source::Step(i)) == schedule.phase(own);
        let elsewhere = kernel.steps.iter().enumerate().filter(|(i, _)| !is_with_it(*i));
        let read =
            elsewhere.flat_map(|(_, other)| &other.inputs).chain(kernel.reductions.iter().map(|reduce| &reduce.input));
        let mut read = read.filter(|input| input.source == own).peekable();
        let is_stored = kernel.stores.iter().any(|store| store.source == own);
        let out = value_type(kernel.steps[step].out);
        let is_rounded = !is_stored && read.peek().is_some() && read.all(|input| value_type(input.to) == "float");
        if is_rounded && out == "double" { "float" } else { out }
    }

    /// Declares values of rows that earlier loops have made, or that are loaded.
    pub(super) fn known_of_rows(&mut self, indent: usize, sources: &[Source]) {
        let kernel = self.kernel;
        let row = self.several().map_or("0", |(row, ..)| row);
        for &source in sources {
            let name = self.name(source, DType::Float);
            let out = match source {
                Source::Load(k) => {
                    if self.is_strided() {
                        self.pointer(indent, k, &self.in_turn(k));
                    }
                    self.load(indent, k);
                    continue;
                }
                Source::Step(i) => kernel.steps[i].out,
                Source::Reduced(k) => kernel.reductions[k].out,
                _ => continue,
            };
            self.line(indent, &format!("const {} {name} = {}[{row}];", value_type(out), beside('t', &name)));
        }
    }

    /// The loops of a phase over the elements of rows.
    fn phase(&mut self, number: usize, aims: &[Aim]) {
        let phase = self.planned(number, aims);
        let totals = self.totals(&phase);
        if self.is_split() {
            self.turns(&phase);
        } else {
            self.line(8, "{");
            [&phase.aims, &phase.squares].into_iter().for_each(|aims| self.scans(12, number, aims));
            self.all_blocks(&phase, &totals);
            self.line(8, "}");
        }
        phase.own.iter().chain(&phase.along).chain(&phase.found).for_each(|&k| self.finish(k));
    }

    /// The loops over the blocks of a row, of all its pieces that lie apart in memory.
    pub(super) fn all_blocks(&mut self, phase: &Phase, totals: &[(Slot, String)]) {
        let accesses = self.kernel.accesses();
        self.line(12, &format!("i64 along[64] = {{0}}, o[{accesses}] = {{0}};"));
        let (first, behind) = if self.is_split() { ("first_block", "behind") } else { ("0", "blocks") };
        if self.is_split() {
            let start = format!(
                "if (blocks > 0) jo_first(shape + kept, rank, folded - kept, first_block, strides + kept, {accesses}, along + kept, o);"
            );
            self.line(12, &start);
        }
        self.line(12, &format!("for (i64 b = {first}; b < {behind}; b++) {{"));
        if self.is_strided() {
            let known = self.read_of_rows(phase);
            self.begin_turn(&known, totals);
        }
        self.blocks(phase);
        if self.is_strided() {
            self.end_turn(totals);
        }
        let next = format!("if (b + 1 < {behind}) jo_next(shape, rank, kept, folded, strides, {accesses}, along, o);");
        self.line(16, &next);
        self.line(12, "}");
    }

    /// Values of rows that the loops of a phase read.
    fn read_of_rows(&self, phase: &Phase) -> Vec<Source> {
        let aims = [&phase.aims[..], &phase.squares].concat();
        let steps = self.schedule.steps(self.kernel, phase.number, &aims);
        let read = steps.iter().flat_map(|&i| self.kernel.steps[i].inputs.iter().map(|input| input.source));
        self.of_rows(read.chain(aims.iter().map(|aim| source_of(self.kernel, *aim))))
    }

    /// The loop over the blocks of a row, or of rows that stand side by side.
    fn blocks(&mut self, phase: &Phase) {
        let only_tried = !phase.own.is_empty() && phase.own.iter().all(|&k| self.is_summed_in_floats(k));
        let plan = self.plan.phase(phase.number);
        let is_first_turn = phase.aims.iter().any(|aim| matches!(aim, Aim::Total(_)));
        let (at, many) = if self.is_outer() { ("first", "rows") } else { ("from", "m") };
        let block = if is_first_turn { plan.scan_block } else { plan.block };
        let (left, right) = if self.is_split() { ("left", "right") } else { ("0", "width") };
        let number = phase.own.first().map(|&k| beside('k', &self.kernel.reductions[k].name));
        let (most, length) = match number.filter(|_| self.is_outer() && only_tried && plan.first != block) {
            // What is taken from the elements of the first block is a guess.
            Some(number) => (", most", format!("most = {number} > 0 ? {block} : {}", plan.first)),
            None => ("", block.to_string()),
        };
        let step = if most.is_empty() { length.as_str() } else { "most" };
        self.line(16, &format!("for (i64 {at} = {left}{most}; {at} < {right}; {at} += {step}) {{"));
        if !most.is_empty() {
            self.line(20, &format!("{length};"));
        }
        self.line(20, &format!("const i64 {many} = {right} - {at} < {step} ? {right} - {at} : {step};"));
        self.parts(&phase.own);
        phase
            .own
            .iter()
            .filter(|&&k| self.is_arg_reduction(k))
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|k| self.begin_place(k));
        self.summed_block(phase, block);
        if !phase.squares.is_empty() {
            let twice: Vec<usize> = phase.own.iter().copied().filter(|&k| self.is_read_twice(k)).collect();
            twice.into_iter().for_each(|k| self.centre(k));
            self.block(phase.number, &phase.squares, block);
        }
        for &k in phase.own.iter().chain(&phase.along) {
            match () {
                () if self.is_variance(k) => self.end_of_block(phase, k, block),
                () if self.is_arg_reduction(k) => self.place_of_block(phase, k, block),
                () => self.merge(k),
            }
        }
        self.line(16, "}");
    }

    /// The loops over a block.
    pub(super) fn block(&mut self, phase: usize, aims: &[Aim], block: usize) {
        let accesses = self.accesses_of(phase, aims);
        if self.is_outer() {
            let begin = self.block_of_rows_together(phase, aims, &accesses);
            self.line(20, &format!("for (i64 j = {begin}; j < rows; j++) {{"));
            let sums_floats = self.invariant_sums(aims).into_iter().any(|k| self.column_reduction_type(k) == "float");
            self.in_parts = sums_floats || self.streams_any(aims);
            if self.in_parts {
                let part = self.plan.part;
                let part = if sums_floats { part.to_string() } else { format!("stream ? {part} : m") };
                self.line(20, &format!("for (i64 c = 0, all = m, part = {part}; c < all; c += part) {{"));
                self.line(24, "const i64 m = all - c < part ? all - c : part;");
            }
            for &k in &accesses {
                let along = match self.traversal.inner[k] {
                    Inner::Unit if self.in_parts => " + c".to_owned(),
                    Inner::Strided if self.in_parts => format!(" + c * s{k}"),
                    _ => String::new(),
                };
                self.pointer(24, k, &format!(" + o[{k}] + (first + j) * strides[{k} * rank + folded]{along}"));
            }
            self.elements(24, phase, aims, self.plan.tile);
            self.prefetch_rows(phase, aims, &accesses);
            if std::mem::take(&mut self.in_parts) {
                self.line(20, "}");
            }
            self.line(20, "}");
        } else {
            self.line(20, "{");
            for &k in &accesses {
                let turn = self.in_turn(k);
                self.pointer(24, k, &format!(" + o[{k}]{turn}"));
            }
            self.elements(24, phase, aims, block);
            self.prefetch_rows(phase, aims, &accesses);
            self.line(20, "}");
        }
    }

    /// Variables of a row, or arrays of them, that begin as nothing.
    pub(super) fn begin(&mut self, indent: usize, ty: &str, names: &[(String, String)]) {
        if !self.is_outer() {
            let all: Vec<String> = names.iter().map(|(name, nothing)| format!("{name} = {nothing}")).collect();
            return self.line(indent, &format!("{ty} {};", all.join(", ")));
        }
        let all: Vec<String> = names.iter().map(|(name, _)| format!("{name}[{}]", self.plan.tile)).collect();
        self.line(indent, &format!("{ty} {};", all.join(", ")));
        let set: Vec<String> = names.iter().map(|(name, nothing)| format!("{name}[i] = {nothing}")).collect();
        self.line(indent, &format!("for (i64 i = 0; i < m; i++) {};", set.join(", ")));
    }

    /// A variable of a row, as an element of its array where there are several.
    pub(super) fn of_row(&self, letter: char, k: usize) -> String {
        let name = beside(letter, &self.kernel.reductions[k].name);
        if self.is_outer() { self.row_of(&name) } else { name }
    }

    /// The name of the variable of a slot, or of the array that has one for each row.
    pub(super) fn slot_name(&self, role: Role, k: usize) -> String {
        beside(role.letter(), &self.kernel.reductions[k].name)
    }

    /// Begins the totals of a phase.
    fn totals(&mut self, phase: &Phase) -> Vec<(Slot, String)> {
        let all = phase.own.iter().chain(&phase.along);
        let named = |&k: &usize| self.monoid(k).slots.into_iter().map(move |slot| (k, slot));
        let all: Vec<_> = all.flat_map(named).map(|(k, slot)| (slot.clone(), self.slot_name(slot.role, k))).collect();
        if self.is_strided() {
            self.begin_waiting(&all);
        } else {
            // Rows that stand side by side are as far as each other.
            let counts = |(slot, _): &(Slot, String)| self.is_outer() && slot.role == Role::Count;
            let (counts, of_rows): (Vec<_>, Vec<_>) = all.iter().cloned().partition(counts);
            let begun = |(slot, name): (Slot, String)| (slot.ty, name, slot.initial);
            self.begin_all(8, &of_rows.into_iter().map(begun).collect::<Vec<_>>());
            for (slot, name) in counts {
                self.line(8, &format!("{} {name} = {};", slot.ty, slot.initial));
            }
        }
        all
    }

    /// Variables of a row, or arrays of them, that begin as nothing, those of a type together.
    fn begin_all(&mut self, indent: usize, all: &[(&'static str, String, String)]) {
        let types: BTreeSet<&str> = all.iter().map(|(ty, ..)| *ty).collect();
        for ty in types {
            let same = all.iter().filter(|(other, ..)| *other == ty);
            let names: Vec<_> = same.map(|(_, name, nothing)| (name.clone(), nothing.clone())).collect();
            self.begin(indent, ty, &names);
        }
    }

    /// What runs along a row begins with it.
    pub(super) fn scans(&mut self, indent: usize, phase: usize, aims: &[Aim]) {
        for i in self.schedule.steps(self.kernel, phase, aims) {
            let step = &self.kernel.steps[i];
            let Some(scan) = &step.scan else { continue };
            let name = beside(letter_of_scan(aims), &step.name);
            let monoid = Monoid::of_scan(scan.op, step);
            for slot in monoid.slots {
                self.begin(indent, slot.ty, &[(name.clone(), slot.initial)]);
            }
        }
    }

    /// The type of the total of a block.
    fn part(&self, k: usize) -> &'static str {
        if self.sums_floats(k) { "float" } else { self.kernel.reductions[k].total() }
    }

    /// Totals of a block.
    fn parts(&mut self, reduces: &[usize]) {
        let parts = |&k: &usize| {
            let reduction = &self.kernel.reductions[k];
            let (ty, letters) = match () {
                () if self.is_summed_in_floats(k) => ("", Vec::new()),
                () if self.is_variance(k) => self.parts_of_variance(k),
                () if self.is_arg_reduction(k) => self.parts_of_place(k),
                () if !reduction.op.picks() => (self.part(k), vec!['p']),
                () => ("", Vec::new()),
            };
            letters.into_iter().map(move |letter| (ty, beside(letter, &reduction.name), reduction.nothing()))
        };
        let all: Vec<_> = reduces.iter().flat_map(parts).collect();
        self.begin_all(20, &all);
    }

    /// What makes a vector of a loop that adds to variables.
    pub(super) fn clauses(&self, aims: &[Aim]) -> String {
        let column_reduction = |k| format!(" reduction(+:{})", self.column_reduction_part(k));
        let column_reduction: String = self.invariant_sums(aims).into_iter().map(column_reduction).collect();
        if !self.traversal.direction.has_inner_loop() {
            return column_reduction;
        }
        let clause = |aim: &Aim| {
            let reduction = |k: usize| &self.kernel.reductions[k];
            match *aim {
                Aim::Reduce(k) | Aim::Square(k) if self.is_variance(k) => {
                    format!(" reduction(+:{})", self.sums_of(*aim).join(", "))
                }
                Aim::Differs(k) => format!(" reduction(|:{})", beside('o', &reduction(k).name)),
                Aim::Square(_) => String::new(),
                Aim::Place(k) => format!(" reduction(min:{})", beside('w', &reduction(k).name)),
                Aim::Reduce(k) => {
                    let clause = |update: &Update| {
                        let name = beside(self.letter_in_block(update.0, k), &reduction(k).name);
                        clause(update).map(|how| format!(" reduction({how}:{name})"))
                    };
                    self.monoid_of_block(k).step.iter().filter_map(clause).collect()
                }
                Aim::Total(step) => format!(" reduction(+:{})", beside('r', &self.kernel.steps[step].name)),
                Aim::Store(_) | Aim::Carry(..) | Aim::Keep(_) => String::new(),
            }
        };
        aims.iter().map(clause).chain([column_reduction]).collect()
    }

    /// The letter of a slot in the loop over a block: sums are those of the block, and so is the
    /// extremum whose index is looked for; other extrema are those of the row.
    fn letter_in_block(&self, letter: char, k: usize) -> char {
        match letter {
            'a' if !self.kernel.reductions[k].op.picks() => 'p',
            'a' if self.is_arg_reduction(k) => 'p',
            'n' if self.is_arg_reduction(k) => 'o',
            other => other,
        }
    }

    /// An update as a statement, with names for its letters: a slot is set, `+=` where it is added
    /// to, and what is no slot is declared.
    pub(super) fn update(
        &self,
        monoid: &Monoid,
        (letter, value): Update,
        name: &dyn Fn(char) -> Option<String>,
    ) -> String {
        let ty = monoid.slots.first().map_or("double", |slot| slot.ty);
        let print = |expr: &Expr| self.expression(expr, ty, name);
        let own = name(letter).unwrap_or_default();
        let compound = match &value.expr {
            Expr::Binary(operator @ (Binary::Plus | Binary::Times | Binary::Or), two)
                if two[0] == Expr::Operand(letter) =>
            {
                Some((operator.spelling(), &two[1]))
            }
            _ => None,
        };
        match compound {
            _ if monoid.slot(letter).is_none() => format!("const {ty} {own} = {};", print(&value.expr)),
            Some((operator, rest)) => format!("{own} {operator}= {};", print(rest)),
            None => format!("{own} = {};", print(&value.expr)),
        }
    }

    /// An expression over state, in variables of a type.
    fn expression(&self, expr: &Expr, ty: &str, name: &dyn Fn(char) -> Option<String>) -> String {
        let leaf = |leaf: &Expr| match *leaf {
            Expr::Operand(letter) => name(letter).unwrap_or_default(),
            Expr::Integer(n) => n.to_string(),
            Expr::Float(x) => literal(Scalar::Float(x), DType::Double),
            _ => String::new(),
        };
        let suffix = if ty == "float" { "f" } else { "" };
        expr.print(&leaf, &|function| format!("jo_{}{suffix}", function.name))
    }

    /// Whether another state changes this one.
    pub(super) fn condition(&self, monoid: &Monoid, name: &dyn Fn(char) -> Option<String>) -> Option<String> {
        monoid.when.map(|when| self.expression(&when.expr, "double", name))
    }

    /// Takes an element into the state of its block.
    pub(super) fn reduce(&mut self, indent: usize, k: usize) {
        if self.is_variance(k) {
            return self.reduce_into_variance(indent, k);
        }
        if self.is_arg_reduction(k) && self.is_outer() {
            return self.reduce_into_index(indent, k);
        }
        let reduction = &self.kernel.reductions[k];
        let value = self.input(&reduction.input);
        let name = |letter| match letter {
            'x' => Some(value.clone()),
            _ => Some(self.of_row(self.letter_in_block(letter, k), k)),
        };
        let monoid = self.monoid_of_block(k);
        let statements: Vec<String> = monoid.step.iter().map(|&update| self.update(&monoid, update, &name)).collect();
        for (i, statement) in statements.iter().enumerate() {
            match i {
                0 => self.noted(indent, statement, &reduction.line),
                _ => self.line(indent, statement),
            }
        }
    }

    /// Merges the sum of a block.
    fn merge(&mut self, k: usize) {
        let reduction = &self.kernel.reductions[k];
        if reduction.op.picks() || self.leader(k).is_some() {
            return;
        }
        let name = |letter| match letter {
            'A' => Some(self.of_row('p', k)),
            other => Some(self.of_row(other, k)),
        };
        let monoid = self.monoid(k);
        let statements: Vec<String> = monoid.merge.iter().map(|&update| self.update(&monoid, update, &name)).collect();
        statements.iter().for_each(|statement| self.line(20, &format!("{}{statement}", self.each_row())));
    }

    /// A total, as an element of its array where there are several.
    pub(super) fn total(&self, letter: char, k: usize) -> String {
        let name = beside(letter, &self.kernel.reductions[k].name);
        if self.is_strided() { format!("all_{name}[r]") } else { self.of_row(letter, k) }
    }

    /// What has been folded, as a value of the row.
    fn finish(&mut self, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let leader = self.leader(k).filter(|_| self.is_variance(k)).unwrap_or(k);
        let name = |letter| match letter {
            'c' => Some("count".to_owned()),
            'v' => Some(literal(Scalar::Float(reduction.correction), DType::Double)),
            'z' => Some("__builtin_nan(\"\")".to_owned()),
            other => Some(self.total(other, leader)),
        };
        let value = self.expression(&self.monoid(k).finish.expr, "double", &name);
        let ty = value_type(reduction.out);
        let value = self.as_in_memory(format!("({ty})({value})"), reduction.out, Source::Reduced(k));
        if let Some((row, rows, most)) = self.several() {
            let name = beside('t', &reduction.name);
            self.line(8, &format!("{ty} {name}[{most}];"));
            let each = format!("for (i64 {row} = 0; {row} < {rows}; {row}++)");
            self.noted(8, &format!("{each} {name}[{row}] = {value};"), &reduction.line);
        } else {
            self.noted(8, &format!("const {ty} {} = {value};", reduction.name), &reduction.line);
        }
    }
}
