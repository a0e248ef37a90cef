//! Rows that are folded: totals, what is computed of them, and the loops between.
//!
//! Along a row that lies in memory as neighbours the loop over elements runs along it, in blocks of [`BLOCK`], and a row has one variable for
//! each value. Across rows that stand side by side it runs from row to row, for [`ROWS`] elements of each at a time, and values are
//! arrays. Sums are doubles, those of a block, those that run along it, and the total; but for rows side by side a block of floats is summed in floats. The squares of a variance are summed in a second loop over the block, which is in
//! the first level of cache by then.

use super::{TILE, Writer, beside};
use crate::codegen::expressions::{formula, literal, value_type};
use crate::codegen::kernel::{Direction, Folding, Inner, Source, Step};
use crate::codegen::schedule::{Aim, source_of};
use crate::ops::formulas;
use crate::ops::recipes::Fold;
use crate::tensor::{DType, Kind, Scalar};

/// Elements of a row that are folded before they are added to its total.
pub(super) const BLOCK: usize = 1024;
/// The same where a loop over them is in stages.
const STAGED_BLOCK: usize = 256;
/// Elements of each of several rows.
const ROWS: usize = 16;

impl Folding {
    fn is_real(&self) -> bool {
        self.input.to.arithmetic() == Some(Kind::Float)
    }

    /// The type of the total.
    fn total(&self) -> &'static str {
        match self.accumulates() {
            true if self.is_real() => "double",
            true => "i64",
            false => value_type(self.input.to),
        }
    }

    fn accumulates(&self) -> bool {
        !matches!(self.fold, Fold::Largest | Fold::Smallest)
    }

    /// How a value goes into a total that accumulates.
    fn operator(&self) -> &'static str {
        operator(self.fold)
    }

    /// What nothing is folded into.
    fn nothing(&self) -> String {
        let largest = self.fold == Fold::Largest;
        match self.input.to.range() {
            _ if self.accumulates() => neutral(self.fold).to_owned(),
            _ if self.is_real() => format!("{}__builtin_inf()", if largest { "-" } else { "" }),
            // The absolute value of the smallest of 64 bits is no number.
            Some((low, _)) if largest => format!("({}LL - 1)", low + 1),
            Some((_, high)) => format!("{high}LL"),
            None => "0".to_owned(),
        }
    }

    fn function(&self) -> String {
        let suffix = if self.total() == "float" { "f" } else { "" };
        format!("jo_{}{suffix}", if self.fold == Fold::Largest { "larger" } else { "smaller" })
    }
}

/// The type of a running total.
pub(super) fn running_type(step: &Step) -> &'static str {
    if step.computed.is_float() { "double" } else { "i64" }
}

/// The name of running totals in loops with these aims: squares are taken in a second loop over the block, which has its own.
pub(super) fn letter_of_running(aims: &[Aim]) -> char {
    if aims.iter().any(|aim| matches!(aim, Aim::Square(_))) { 'u' } else { 'r' }
}

/// How a value goes into a total.
pub(super) fn operator(fold: Fold) -> &'static str {
    if fold == Fold::Product { "*" } else { "+" }
}

/// What such a total begins as.
fn neutral(fold: Fold) -> &'static str {
    if fold == Fold::Product { "1" } else { "0" }
}

impl Writer<'_> {
    fn is_across(&self) -> bool {
        self.walk.direction == Direction::Across
    }

    /// How the folded part of the space is walked: its innermost dimension in blocks, `blocks` times.
    pub(super) fn folded_space(&mut self) {
        let innermost = if self.is_across() { 2 } else { 1 };
        self.line(4, &format!("const i64 folded = rank - {innermost}, width = shape[folded];"));
        self.line(4, "i64 blocks = 1;");
        self.line(4, "for (i64 d = kept; d < folded; d++) blocks *= shape[d];");
        self.line(4, "const double count = (double)(blocks * width);");
        self.line(4, "(void)count;");
    }

    /// Computes a row, or as many as stand side by side in a tile.
    pub(super) fn tile_of_rows(&mut self) {
        let still: Vec<usize> = (0..self.kernel.accesses()).filter(|&access| self.walk.still[access]).collect();
        still.into_iter().for_each(|access| self.pointer(8, access, ""));
        if !self.is_across() {
            let loads: Vec<usize> = (0..self.kernel.loads.len()).filter(|&k| self.walk.still[k]).collect();
            loads.into_iter().for_each(|k| self.load(8, k));
        }
        for phase in 0..self.schedule.phases {
            self.values_of_row(phase);
            let aims = self.schedule.aims(self.kernel, self.walk, phase);
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
            .filter(|&k| self.walk.writes_rows(kernel, k) && of_phase(kernel.stores[k].source))
            .collect();
        if steps.is_empty() && stores.is_empty() {
            return;
        }
        let indent = if self.is_across() { 12 } else { 8 };
        if self.is_across() {
            for &i in &steps {
                let step = &kernel.steps[i];
                self.line(8, &format!("{} {}[{}];", value_type(step.out), beside('t', &step.name), super::COLUMNS));
            }
            self.line(8, "#pragma omp simd");
            self.line(8, "for (i64 i = 0; i < m; i++) {");
            self.known_of_rows(phase, &steps, &stores);
        }
        for i in steps {
            let step = &kernel.steps[i];
            let value = formula(step, |input| self.input(input));
            self.noted(indent, &format!("const {} {} = {value};", value_type(step.out), step.name), &step.line);
            if self.is_across() {
                self.line(indent, &format!("{}[i] = {};", beside('t', &step.name), step.name));
            }
        }
        stores.into_iter().for_each(|k| self.store(indent, k));
        if self.is_across() {
            self.line(8, "}");
        }
    }

    /// Declares what steps and stores of rows read that earlier loops have made.
    fn known_of_rows(&mut self, phase: usize, steps: &[usize], stores: &[usize]) {
        let kernel = self.kernel;
        let mut sources: Vec<Source> =
            steps.iter().flat_map(|&i| kernel.steps[i].inputs.iter().map(|input| input.source)).collect();
        sources.extend(stores.iter().map(|&k| kernel.stores[k].source));
        let mut seen: Vec<String> = Vec::new();
        for source in sources {
            let name = self.name(source, DType::Float);
            let out = match source {
                Source::Load(k) if !seen.contains(&name) => {
                    self.load(12, k);
                    None
                }
                Source::Step(i) if self.schedule.phase(source) < phase => Some(kernel.steps[i].out),
                Source::Folded(k) => Some(kernel.foldings[k].out),
                _ => None,
            };
            if let Some(out) = out.filter(|_| !seen.contains(&name)) {
                self.line(12, &format!("const {} {name} = {}[i];", value_type(out), beside('t', &name)));
            }
            seen.push(name);
        }
    }

    /// The loops of a phase over the elements of rows.
    fn phase(&mut self, phase: usize, aims: &[Aim]) {
        let folds: Vec<usize> =
            aims.iter().filter_map(|aim| if let Aim::Fold(k) = aim { Some(*k) } else { None }).collect();
        // What another fold finds on its way needs no loop of its own.
        let led = |&k: &usize| self.leader(k).is_none_or(|leader| leader == k);
        let own: Vec<usize> = folds.iter().copied().filter(led).collect();
        let squares: Vec<Aim> = own.iter().copied().filter(|&k| self.is_variance(k)).map(Aim::Square).collect();
        let aims: Vec<Aim> =
            aims.iter().copied().filter(|aim| !matches!(aim, Aim::Fold(k) if !own.contains(k))).collect();
        // Those that go along with a variance have a total of their own, of the sums of its blocks: a mean may be infinite.
        let along: Vec<usize> = folds.iter().copied().filter(|k| !own.contains(k) && !self.is_variance(*k)).collect();
        own.iter().chain(&along).for_each(|&k| self.totals(k));
        let accesses = self.accesses_of(phase, &aims);
        self.line(8, "{");
        [&aims, &squares].into_iter().for_each(|aims| self.running_totals(phase, aims));
        let offsets: Vec<String> = accesses.iter().map(|k| format!(", o{k} = 0")).collect();
        self.line(12, &format!("i64 o[64] = {{0}}{};", offsets.concat()));
        self.line(12, "for (i64 b = 0; b < blocks; b++) {");
        let staged = self.count_of_stages(phase, &aims).max(self.count_of_stages(phase, &squares)) > 1;
        let block = match self.is_across() {
            true => ROWS,
            false if staged || self.streams_any(&aims) => STAGED_BLOCK,
            false => BLOCK,
        };
        match self.is_across() {
            true => {
                self.line(16, &format!("for (i64 first = 0; first < width; first += {block}) {{"));
                self.line(20, &format!("const i64 rows = width - first < {block} ? width - first : {block};"));
            }
            false => {
                self.line(16, &format!("for (i64 from = 0; from < width; from += {block}) {{"));
                self.line(20, &format!("const i64 m = width - from < {block} ? width - from : {block};"));
            }
        }
        own.iter().for_each(|&k| self.parts(k));
        self.block(phase, &aims, block);
        if !squares.is_empty() {
            own.iter()
                .filter(|&&k| self.is_variance(k))
                .copied()
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|k| self.centre(k));
            self.block(phase, &squares, block);
        }
        own.iter().chain(&along).for_each(|&k| self.merge(k));
        self.line(16, "}");
        self.odometer(16, "folded - 1", "kept", "o", &accesses);
        self.line(12, "}");
        self.line(8, "}");
        folds.iter().for_each(|&k| self.finish(k));
    }

    /// The loops over a block.
    fn block(&mut self, phase: usize, aims: &[Aim], block: usize) {
        let accesses = self.accesses_of(phase, aims);
        if self.is_across() {
            self.line(20, "for (i64 j = 0; j < rows; j++) {");
            let sums_floats = self.still_sums(aims).into_iter().any(|k| self.type_aside(k) == "float");
            self.in_parts = sums_floats || self.streams_any(aims);
            if self.in_parts {
                let part = if sums_floats { TILE.to_string() } else { format!("stream ? {TILE} : m") };
                self.line(20, &format!("for (i64 c = 0, all = m, part = {part}; c < all; c += part) {{"));
                self.line(24, "const i64 m = all - c < part ? all - c : part;");
            }
            for k in accesses {
                let along = match self.walk.inner[k] {
                    Inner::Unit if self.in_parts => " + c".to_owned(),
                    Inner::Strided if self.in_parts => format!(" + c * s{k}"),
                    _ => String::new(),
                };
                self.pointer(24, k, &format!(" + o{k} + (first + j) * strides[{k} * rank + folded]{along}"));
            }
            self.elements(24, phase, aims, super::COLUMNS);
            if std::mem::take(&mut self.in_parts) {
                self.line(20, "}");
            }
            self.line(20, "}");
        } else {
            self.line(20, "{");
            accesses.into_iter().for_each(|k| self.pointer(24, k, &format!(" + o{k}")));
            self.elements(24, phase, aims, block);
            self.line(20, "}");
        }
    }

    fn is_variance(&self, k: usize) -> bool {
        self.kernel.foldings[k].fold.varies()
    }

    /// Whether what is summed takes long to compute. Then it is summed in a loop of its own: with doubles in the same one there would be half as
    /// many elements in a vector.
    pub(super) fn is_heavy(&self, k: usize) -> bool {
        let folding = &self.kernel.foldings[k];
        folding.is_real() && folding.accumulates() && self.computes_heavy(Aim::Fold(k))
    }

    /// Whether what an aim reads takes long to compute.
    pub(super) fn computes_heavy(&self, aim: Aim) -> bool {
        let phase = self.schedule.phase(source_of(self.kernel, aim));
        let is_heavy = |i: &usize| formulas::is_heavy(self.kernel.steps[*i].text);
        self.schedule.steps(self.kernel, phase, &[aim]).iter().any(is_heavy)
    }

    /// The variance that finds a mean, or another variance, on its way.
    fn leader(&self, k: usize) -> Option<usize> {
        let all = &self.kernel.foldings;
        let same = |other: &Folding| {
            let (a, b) = (&other.input, &all[k].input);
            other.fold.varies() && (a.source, a.dtype, a.to) == (b.source, b.dtype, b.to)
        };
        let leads = all[k].fold == Fold::Mean || all[k].fold.varies();
        leads.then(|| all.iter().position(same)).flatten()
    }

    /// Variables of a row, or arrays of them, that begin as nothing.
    fn begin(&mut self, indent: usize, ty: &str, names: &[(String, String)]) {
        if !self.is_across() {
            let all: Vec<String> = names.iter().map(|(name, nothing)| format!("{name} = {nothing}")).collect();
            return self.line(indent, &format!("{ty} {};", all.join(", ")));
        }
        let all: Vec<String> = names.iter().map(|(name, _)| format!("{name}[{}]", super::COLUMNS)).collect();
        self.line(indent, &format!("{ty} {};", all.join(", ")));
        let set: Vec<String> = names.iter().map(|(name, nothing)| format!("{name}[i] = {nothing}")).collect();
        self.line(indent, &format!("for (i64 i = 0; i < m; i++) {};", set.join(", ")));
    }

    /// A variable of a row, as an element of its array where there are several.
    fn of_row(&self, letter: char, k: usize) -> String {
        let name = beside(letter, &self.kernel.foldings[k].name);
        if self.is_across() { self.row_of(&name) } else { name }
    }

    /// Totals of a fold: `a` of elements, or their mean, with `q` the squares and `k` the number so far; `n` whether there was a NaN.
    fn totals(&mut self, k: usize) {
        let folding = &self.kernel.foldings[k];
        let (name, zero) = (|letter| beside(letter, &folding.name), "0".to_owned());
        if self.is_variance(k) {
            self.begin(8, "double", &[(name('a'), zero.clone()), (name('q'), zero)]);
            self.line(8, &format!("double {} = 0;", name('k')));
            return;
        }
        self.begin(8, folding.total(), &[(name('a'), folding.nothing())]);
        if !folding.accumulates() && folding.is_real() && !self.is_across() {
            self.line(8, &format!("int {} = 0;", name('n')));
        }
    }

    /// What runs along a row begins with it.
    fn running_totals(&mut self, phase: usize, aims: &[Aim]) {
        for i in self.schedule.steps(self.kernel, phase, aims) {
            let step = &self.kernel.steps[i];
            let Some(running) = &step.running else { continue };
            let name = beside(letter_of_running(aims), &step.name);
            self.begin(12, running_type(step), &[(name, neutral(running.fold).to_owned())]);
        }
    }

    /// The type of the total of a block. Of rows side by side a few floats are added as floats: arrays of doubles would be read and written for each.
    fn part(&self, k: usize) -> &'static str {
        let folding = &self.kernel.foldings[k];
        match value_type(folding.input.to) {
            "float" if self.is_across() && folding.fold == Fold::Sum => "float",
            _ => folding.total(),
        }
    }

    /// Totals of a block.
    fn parts(&mut self, k: usize) {
        let folding = &self.kernel.foldings[k];
        if folding.accumulates() {
            let ty = self.part(k);
            self.begin(20, ty, &[(beside('p', &folding.name), folding.nothing())]);
        }
    }

    /// What makes a vector of a loop that adds to variables.
    pub(super) fn clauses(&self, aims: &[Aim]) -> String {
        let aside = |k| format!(" reduction(+:{})", self.part_aside(k));
        let aside: String = self.still_sums(aims).into_iter().map(aside).collect();
        if self.walk.direction != Direction::Along {
            return aside;
        }
        let clause = |aim: &Aim| {
            let folding = |k: usize| &self.kernel.foldings[k];
            match *aim {
                Aim::Square(k) => format!(" reduction(+:{})", beside('e', &folding(k).name)),
                Aim::Fold(k) if folding(k).accumulates() => {
                    format!(" reduction({}:{})", folding(k).operator(), beside('p', &folding(k).name))
                }
                Aim::Fold(k) => {
                    let (how, name) = (if folding(k).fold == Fold::Largest { "max" } else { "min" }, &folding(k).name);
                    let nan = format!(" reduction(|:{})", beside('n', name));
                    let nan = if folding(k).is_real() { nan } else { String::new() };
                    format!(" reduction({how}:{}){nan}", beside('a', name))
                }
                Aim::Store(_) | Aim::Carry(..) => String::new(),
            }
        };
        aims.iter().map(clause).chain([aside]).collect()
    }

    /// Takes an element into the total of its block.
    pub(super) fn fold(&mut self, indent: usize, k: usize) {
        let folding = &self.kernel.foldings[k];
        let value = self.input(&folding.input);
        let total = self.of_row('a', k);
        let compared = if folding.fold == Fold::Largest { ">" } else { "<" };
        let statement = match folding.accumulates() {
            true => format!("{} {}= {value};", self.of_row('p', k), folding.operator()),
            false if folding.is_real() && self.is_across() => {
                format!("{total} = {}({total}, {value});", folding.function())
            }
            false => format!("{total} = {value} {compared} {total} ? {value} : {total};"),
        };
        self.noted(indent, &statement, &folding.line);
        if !folding.accumulates() && folding.is_real() && !self.is_across() {
            self.line(indent, &format!("{} |= {value} != {value};", beside('n', &folding.name)));
        }
    }

    /// Takes the square of what an element differs from the mean of its block.
    pub(super) fn square(&mut self, indent: usize, k: usize) {
        let folding = &self.kernel.foldings[k];
        let (value, mean, squares) = (self.input(&folding.input), self.of_row('b', k), self.of_row('e', k));
        let differs = beside('d', &folding.name);
        self.line(indent, &format!("const double {differs} = (double)({value}) - {mean};"));
        self.line(indent, &format!("{squares} += {differs} * {differs};"));
    }

    /// The mean of a block.
    fn centre(&mut self, k: usize) {
        let name = |letter| beside(letter, &self.kernel.foldings[k].name);
        let among = if self.is_across() { "rows" } else { "m" };
        let mean = format!("{} / {among}", self.of_row('p', k));
        self.begin(20, "double", &[(name('b'), mean), (name('e'), "0".to_owned())]);
    }

    /// Adds a block to the totals.
    fn merge(&mut self, k: usize) {
        let folding = &self.kernel.foldings[k];
        let value = |letter| self.of_row(letter, k);
        let head = if self.is_across() { "for (i64 i = 0; i < m; i++) " } else { "" };
        if !self.is_variance(k) {
            if folding.accumulates() {
                let part = self.of_row('p', self.leader(k).unwrap_or(k));
                self.line(20, &format!("{head}{} {}= {part};", value('a'), folding.operator()));
            }
            return;
        }
        let (number, among) = (beside('k', &folding.name), if self.is_across() { "rows" } else { "m" });
        let (mean, squares, block, part) = (value('a'), value('q'), value('b'), value('e'));
        // The share of the block in all so far; what is before it has the rest.
        let share = beside('s', &folding.name);
        self.line(20, &format!("{number} += {among};"));
        self.line(20, &format!("const double {share} = {among} / {number};"));
        self.line(20, &format!("{head}{{"));
        self.line(24, &format!("const double d = {block} - {mean};"));
        self.line(24, &format!("{mean} += d * {share};"));
        self.line(24, &format!("{squares} += {part} + d * d * {share} * ({number} - {among});"));
        self.line(20, "}");
    }

    /// What has been folded, as a value of the row.
    fn finish(&mut self, k: usize) {
        let folding = &self.kernel.foldings[k];
        let leader = self.leader(k).unwrap_or(k);
        let total = self.of_row('a', k);
        let value = match folding.fold {
            Fold::Sum | Fold::Product => total,
            Fold::Mean => format!("{total} / count"),
            Fold::Variance | Fold::Deviation => {
                let correction = literal(Scalar::Float(folding.correction), DType::Double);
                let squares = self.of_row('q', leader);
                let variance = format!("{squares} / (count > {correction} ? count - {correction} : 0)");
                if folding.fold == Fold::Deviation { format!("jo_sqrt({variance})") } else { variance }
            }
            Fold::Largest | Fold::Smallest if folding.is_real() && !self.is_across() => {
                format!("{} ? __builtin_nan(\"\") : {total}", beside('n', &folding.name))
            }
            Fold::Largest | Fold::Smallest => total,
        };
        let ty = value_type(folding.out);
        if self.is_across() {
            let name = beside('t', &folding.name);
            self.line(8, &format!("{ty} {name}[{}];", super::COLUMNS));
            self.noted(8, &format!("for (i64 i = 0; i < m; i++) {name}[i] = ({ty})({value});"), &folding.line);
        } else {
            self.noted(8, &format!("const {ty} {} = ({ty})({value});", folding.name), &folding.line);
        }
    }
}
