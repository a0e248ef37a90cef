//! Rows that are parted between threads, where there are fewer rows than those: sums over
//! everything, or a running total of one row.
//!
//! A launch is done in turns. In each turn every part, on a thread of its own, does one phase for
//! its piece of a row, and leaves what it has found; in the next turn each part puts together what
//! all have found before it goes on:
//!
//! ```c
//! double a_m = 0;
//! if (turn == 0) {
//!     for (i64 from = left; from < right; from += 1024) { … a_m += … }
//!     *(double *)(own + 0) = a_m;
//!     goto next;
//! }
//! for (i64 k = 0; k < parts; k++) { const char *const of = …; a_m += *(const double *)(of + 0); }
//! const float v_m = (float)(a_m / count);
//! ```
//!
//! A running total takes two turns: in the first a part finds the sum of its piece, in the second
//! it begins with what those before it have found. That is how S. Chatterjee, G. E. Blelloch and M.
//! Zagha do it (Scan Primitives for Vector Computers, 1990): elements are read twice, and results
//! written once.

use super::row_loops::{Phase, operator, scan_type};
use super::{Writer, beside};
use crate::codegen::kernel::{Direction, Kernel, Step, Traversal};
use crate::codegen::schedule::Aim;
use crate::ops::recipes::ReduceOp;
use crate::tensor::DType;

/// In how many turns a launch is done, and how many places of eight bytes each part has for what it
/// finds of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Each is over when all parts are done.
    pub turns: i64,
    /// For each part of each row.
    pub places: usize,
}

/// Lines of a piece, in elements: what one part writes no other does.
const LINE: usize = 64;

/// Whether a kernel can be written so that rows are parted: not where it adds to sums aside, which
/// have parts of their own, or where totals run in doubles, of which the last digits tell the
/// order.
pub fn can_be_split(kernel: &Kernel) -> bool {
    let scan: Vec<_> = kernel.steps.iter().filter(|step| step.scan.is_some()).collect();
    let may_run = |step: &&Step| {
        let is_sum = step.scan.as_ref().is_some_and(|scan| scan.op == ReduceOp::Sum);
        is_sum && step.computed != DType::Double && step.inputs.len() == 1 && kernel.reductions.is_empty()
    };
    kernel.column_reductions.is_empty() && scan.len() <= 1 && scan.iter().all(may_run)
}

/// What the launch of a kernel has to know; nothing where no rows are parted.
pub fn turns(kernel: &Kernel, traversal: &Traversal) -> Option<Turns> {
    let writer = Writer::new(kernel, traversal);
    let phases = writer.schedule.phases;
    writer.is_split().then(|| Turns { turns: writer.turn_of(phases), places: writer.place_of(phases) })
}

/// What a part leaves for others: a total, with its letter in the text, its type and its place.
struct Left {
    letter: char,
    ty: &'static str,
    place: usize,
}

impl Left {
    /// As it is read from what a part has left.
    fn read(&self) -> String {
        format!("*(const {} *)(of + {})", self.ty, 8 * self.place)
    }
}

impl Writer<'_> {
    pub(super) fn is_split(&self) -> bool {
        self.traversal.direction == Direction::Split
    }

    /// The piece of each row that is this part's: whole blocks, or a piece of each where there are
    /// fewer of them than parts.
    pub(super) fn own_part(&mut self) {
        let (numbers, found) = (self.kernel.integers.len(), self.kernel.accesses());
        let number = |k: usize| format!("wholes[{}]", numbers + k);
        self.line(4, &format!("const i64 turn = {}, part = {}, parts = {};", number(0), number(1), number(2)));
        self.line(4, &format!("char *const found = data[{found}];"));
        self.line(4, "const i64 whole = blocks >= parts;");
        self.line(4, "const i64 first_block = whole ? blocks * part / parts : 0;");
        self.line(4, "const i64 behind = whole ? blocks * (part + 1) / parts : blocks;");
        self.line(4, &format!("const i64 left = whole ? 0 : width * part / parts / {LINE} * {LINE};"));
        let right = format!("width * (part + 1) / parts / {LINE} * {LINE}");
        self.line(4, &format!("const i64 right = whole || part + 1 == parts ? width : {right};"));
    }

    /// The first turn of a phase.
    pub(super) fn turn_of(&self, phase: usize) -> i64 {
        let turns = |phase: usize| {
            let writes = |k: usize| {
                let of_phase = self.schedule.phase(self.kernel.stores[k].source) == phase;
                of_phase && self.traversal.writes_rows(self.kernel, k)
            };
            let aims = self.schedule.aims(self.kernel, self.traversal, phase);
            let is_done = !aims.is_empty() || (0..self.kernel.stores.len()).any(writes);
            i64::from(is_done) + i64::from(self.scan_in(phase, &aims).is_some())
        };
        (0..phase).map(turns).sum()
    }

    /// The first place that a phase has.
    fn place_of(&self, phase: usize) -> usize {
        let places = |phase: usize| {
            let aims = self.schedule.aims(self.kernel, self.traversal, phase);
            let planned = self.planned(phase, &aims);
            let reduces = planned.own.iter().chain(&planned.along).map(|&k| self.left_names(k).len());
            reduces.sum::<usize>() + usize::from(self.scan_in(phase, &aims).is_some())
        };
        (0..phase).map(places).sum()
    }

    /// The running total that loops with these aims compute.
    fn scan_in(&self, phase: usize, aims: &[Aim]) -> Option<usize> {
        self.schedule.steps(self.kernel, phase, aims).into_iter().find(|&i| self.kernel.steps[i].scan.is_some())
    }

    /// The totals of a fold that others have to know.
    fn left_names(&self, k: usize) -> Vec<(&'static str, char)> {
        let all = self.totals_of(k).into_iter();
        all.filter_map(|(ty, name, _)| name.chars().next().map(|letter| (ty, letter))).collect()
    }

    /// A phase of a part, and what all have found in it.
    pub(super) fn turns(&mut self, phase: &Phase) {
        let (mut turn, mut place) = (self.turn_of(phase.number), self.place_of(phase.number));
        let each = 8 * self.place_of(self.schedule.phases);
        self.line(8, &format!("char *const own_{turn} = found + (item * parts + part) * {each};"));
        if let Some(step) = self.scan_in(phase.number, &phase.aims) {
            self.total_first(phase, step, (turn, place), each);
            (turn, place) = (turn + 1, place + 1);
        }
        self.line(8, &format!("if (turn == {turn}) {{"));
        self.all_blocks(phase, &[]);
        let mut reduces = Vec::new();
        for &k in phase.own.iter().chain(&phase.along) {
            let name = |(ty, letter)| {
                place += 1;
                Left { letter, ty, place: place - 1 }
            };
            reduces.push((k, self.left_names(k).into_iter().map(name).collect::<Vec<Left>>()));
        }
        for (k, all) in &reduces {
            for left in all {
                let name = beside(left.letter, &self.kernel.reductions[*k].name);
                let own = self.turn_of(phase.number);
                self.line(12, &format!("*({} *)(own_{own} + {}) = {name};", left.ty, 8 * left.place));
            }
        }
        self.line(12, "goto next;");
        self.line(8, "}");
        if !reduces.is_empty() {
            self.line(8, "for (i64 k = 0; k < parts; k++) {");
            self.line(12, &format!("const char *const of = found + (item * parts + k) * {each};"));
            reduces.iter().for_each(|(k, all)| self.put_together(*k, all));
            self.line(8, "}");
        }
    }

    /// The turn in which a part finds the sum of its piece, and what a running total begins with in
    /// the next.
    fn total_first(&mut self, phase: &Phase, step: usize, (turn, place): (i64, usize), each: usize) {
        self.scans(8, phase.number, &phase.aims);
        let name = beside('r', &self.kernel.steps[step].name);
        let ty = scan_type(&self.kernel.steps[step]);
        self.line(8, &format!("if (turn == {turn}) {{"));
        let aims = [Aim::Total(step)];
        let only = self.planned(phase.number, &aims);
        self.all_blocks(&only, &[]);
        self.line(12, &format!("*({ty} *)(own_{turn} + {}) = {name};", 8 * place));
        self.line(12, "goto next;");
        self.line(8, "}");
        self.line(8, "for (i64 k = 0; k < part; k++) {");
        self.line(12, &format!("{name} += *(const {ty} *)(found + (item * parts + k) * {each} + {});", 8 * place));
        self.line(8, "}");
    }

    /// Takes what a part has found into the totals of a fold.
    fn put_together(&mut self, k: usize, all: &[Left]) {
        let reduction = &self.kernel.reductions[k];
        let name = |letter: char| beside(letter, &reduction.name);
        let read = |letter: char| all.iter().find(|left| left.letter == letter).map_or(String::new(), Left::read);
        if self.is_variance(k) {
            return self.put_variances_together(&name, &read);
        }
        if self.is_arg_reduction(k) {
            return self.put_places_together(k, &read);
        }
        for left in all {
            let (total, value) = (name(left.letter), left.read());
            let compared = reduction.beats();
            let statement = match (left.letter, reduction.op) {
                ('n', _) => format!("{total} |= {value};"),
                (_, ReduceOp::Largest | ReduceOp::Smallest) => {
                    format!("{total} = {value} {compared} {total} ? {value} : {total};")
                }
                (_, reduce) => {
                    format!("{total} {}= {value};", operator(reduce))
                }
            };
            self.line(12, &statement);
        }
    }

    /// As blocks are put together.
    fn put_variances_together(&mut self, name: &dyn Fn(char) -> String, read: &dyn Fn(char) -> String) {
        let (mean, squares, number) = (name('a'), name('q'), name('k'));
        self.line(12, &format!("const double {} = {};", name('n'), read('k')));
        self.line(12, &format!("if ({} > 0) {{", name('n')));
        self.line(16, &format!("{number} += {};", name('n')));
        self.line(16, &format!("const double d = {} - {mean}, share = {} / {number};", read('a'), name('n')));
        self.line(16, &format!("{mean} += d * share;"));
        self.line(16, &format!("{squares} += {} + d * d * share * ({number} - {});", read('q'), name('n')));
        self.line(12, "}");
    }

    /// Takes an element into the total of a piece.
    pub(super) fn add_to_scan(&mut self, indent: usize, step: usize) {
        let name = beside('r', &self.kernel.steps[step].name);
        self.run_on(indent, step, &name);
    }
}
