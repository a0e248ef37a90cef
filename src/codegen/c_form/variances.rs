//! Variances, and the means that are found on their way.
//!
//! A block of floats is read once: something near its mean is taken from all elements, and what
//! they differ by, and the squares of that, are summed in floats. That is the mean of the blocks
//! before it, or the first element. Where that was too far off, it is moved to where the block says
//! that its mean is; and where floats are not enough at all, as squares leave their range, the
//! block is summed in doubles, and then the squares of what it differs from its own mean:
//!
//! ```c
//! float h_v = jo_finitef(k_v > 0 ? a_v : in0[0]), p_v = 0, e_v = 0;
//! for (int more = 1;; more--) {
//!     for (i64 i = 0; i < m; i++) {
//!         const float d_v = in0[i] - h_v;
//!         p_v += d_v, e_v = jo_fmaf(d_v, d_v, e_v);
//!     }
//!     if (!more || !jo_loses(p_v, e_v, m)) break;
//!     h_v = jo_finitef(h_v + p_v / m), p_v = 0, e_v = 0;
//! }
//! double b_v = h_v + (double)p_v / m, z_v = e_v - (double)p_v * p_v / m;
//! if (jo_loses(p_v, e_v, m)) { … are all elements h_v? else b_v and z_v in doubles, in two loops without vectors … }
//! ```
//!
//! Squares only add up, so that sixteen lanes of 64 of them have lost some 2 bits of 24, and
//! `jo_loses` lets 2 more go when the mean is taken out. Of rows of noise one in twelve begins so
//! far out that its first block is read again; it is in the first level of cache by then. Where a
//! loop does more than that it is not run again, nor is one over rows side by side: there the first
//! block is short, and most often summed in doubles.
//!
//! Measured by the benchmark of kernels on a Xeon with AVX-512, over a copy of the bytes that have
//! to be moved: mean and variance of 16 images of 256 channels of 28 x 28 floats 1.02 to 1.06 along
//! rows and 1.08 to 1.21 across them, where doubles took 1.28 to 1.33 and 1.19 to 1.30 in the same
//! minutes; 64 rows of `layer_norm` in the second level of cache 2.1 to 2.2, 2.4 with doubles.
//! Reading alone takes 1.0. A kernel of both loops takes the compiler longer: 113 and 165 ms, 88
//! and 90 with doubles only.
//!
//! Operands that are doubles have no wider type, and are read twice. Blocks are merged as
//! `codegen/monoid.rs` says.

use super::{Writer, beside};
use crate::codegen::c_spelling::widened;
use crate::codegen::kernel::Source;
use crate::codegen::loop_structure::Phase;
use crate::codegen::monoid::Update;
use crate::codegen::schedule::Aim;

impl Writer<'_> {
    /// The totals of a block that its loop adds to, and their type: `p` the differences and `e`
    /// their squares, or `y` the elements.
    pub(super) fn parts_of_variance(&self, k: usize) -> (&'static str, Vec<char>) {
        if self.is_summed_in_floats(k) { ("float", vec!['p', 'e']) } else { ("double", vec!['y']) }
    }

    /// The variables that a loop with this aim adds to.
    pub(super) fn sums_of(&self, aim: Aim) -> Vec<String> {
        let named = |k: usize, letter| beside(letter, &self.kernel.reductions[k].name);
        match aim {
            Aim::Reduce(k) => self.parts_of_variance(k).1.into_iter().map(|letter| named(k, letter)).collect(),
            Aim::Square(k) => vec![named(k, 'z')],
            Aim::Differs(_) | Aim::Place(_) | Aim::Store(_) | Aim::Carry(..) | Aim::Total(_) | Aim::Keep(_) => {
                Vec::new()
            }
        }
    }

    /// What is near the mean of a block, the mean of those before it, and the sums of what elements
    /// differ from that. Of a single row it may be the first element, unless that is infinite or no
    /// number.
    fn begin_near_mean(&mut self, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let name = |letter| beside(letter, &reduction.name);
        let mean = format!("jo_finitef((float){})", self.of_row('a', k));
        self.begin(20, "float", &[(name('h'), mean), (name('p'), "0".to_owned()), (name('e'), "0".to_owned())]);
        let load = match reduction.input.source {
            Source::Load(load) if !self.traversal.invariant[load] && !self.is_outer() => load,
            _ => return,
        };
        self.line(20, &format!("if ({} == 0) {{", name('k')));
        let row = self.in_turn(load);
        self.pointer(24, load, &format!(" + o[{load}]{row}"));
        let element = widened(&format!("in{load}[0]"), self.kernel.loads[load].dtype);
        self.line(24, &format!("{} = jo_finitef({element});", name('h')));
        self.line(20, "}");
    }

    /// The loop over a block that sums variances, among others, and does so again if what was taken
    /// for the means was not near enough.
    pub(super) fn summed_block(&mut self, phase: &Phase, block: usize) {
        let tried: Vec<usize> = phase.own.iter().copied().filter(|&k| self.is_tried(k)).collect();
        tried.iter().for_each(|&k| self.begin_near_mean(k));
        if !self.may_run_again(phase) {
            return self.block(phase.number, &phase.aims, block);
        }
        self.line(20, "for (int more = 1;; more--) {");
        self.deeper += 4;
        self.block(phase.number, &phase.aims, block);
        let lost = tried.iter().map(|&k| self.loses(k)).collect::<Vec<_>>().join(" | ");
        self.line(20, &format!("if (!more || !({lost})) break;"));
        for k in tried {
            let (near, sum, squares) = (self.of_row('h', k), self.of_row('p', k), self.of_row('e', k));
            // What is taken from infinities is no infinity, or nothing would be left of a mean that
            // is one.
            self.line(20, &format!("{near} = jo_finitef({near} + {sum} / m), {sum} = 0, {squares} = 0;"));
        }
        self.deeper -= 4;
        self.line(20, "}");
    }

    /// Whether floats were not enough.
    fn loses(&self, k: usize) -> String {
        format!("jo_loses({}, {}, {})", self.of_row('p', k), self.of_row('e', k), self.in_block())
    }

    /// Takes an element into the sums of a block.
    pub(super) fn reduce_into_variance(&mut self, indent: usize, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let value = self.input(&reduction.input);
        if !self.is_summed_in_floats(k) {
            return self.noted(indent, &format!("{} += {value};", self.of_row('y', k)), &reduction.line);
        }
        let differs = beside('d', &reduction.name);
        self.noted(indent, &format!("const float {differs} = {value} - {};", self.of_row('h', k)), &reduction.line);
        self.line(indent, &format!("{} += {differs};", self.of_row('p', k)));
        let squares = self.of_row('e', k);
        self.line(indent, &format!("{squares} = jo_fmaf({differs}, {differs}, {squares});"));
    }

    /// Ends a block: looks at it again, in doubles, where floats were not enough, and adds it to
    /// what is known of the row.
    pub(super) fn end_of_block(&mut self, phase: &Phase, k: usize, block: usize) {
        if self.is_summed_in_floats(k) {
            let lost = self.mean_of_floats(k);
            self.line(20, &format!("if ({lost}) {{"));
            self.deeper += 4;
            let differs = self.looks_for_differences(phase, k, block);
            self.line(20, &format!("if ({differs}) {{"));
            self.deeper += 4;
            self.loops.in_doubles = true;
            self.sum_in_doubles(phase, k, block);
            self.loops.in_doubles = false;
            self.deeper -= 4;
            self.line(20, "}");
            self.deeper -= 4;
            self.line(20, "}");
        }
        self.merge_variance(k);
    }

    /// Whether elements of a block are not all what was taken from them: channels in which nothing
    /// is alive are, and have no variance. Squares tell it only of what floats can hold.
    fn looks_for_differences(&mut self, phase: &Phase, k: usize, block: usize) -> String {
        let name = |letter| beside(letter, &self.kernel.reductions[k].name);
        let (noted, any) = (name('o'), name('g'));
        self.begin(20, "int", &[(noted.clone(), "0".to_owned())]);
        self.block(phase.number, &[Aim::Differs(k)], block);
        if !self.is_outer() {
            return noted;
        }
        self.line(20, &format!("int {any} = 0;"));
        self.line(20, &format!("for (i64 i = 0; i < m; i++) {any} |= {noted}[i];"));
        any
    }

    /// Notes whether an element is not what was taken from it.
    pub(super) fn compare(&mut self, indent: usize, k: usize) {
        let value = self.input(&self.kernel.reductions[k].input);
        let (noted, near) = (self.of_row('o', k), self.of_row('h', k));
        self.line(indent, &format!("{noted} |= {value} != {near};"));
    }

    /// A block in doubles, from the beginning.
    fn sum_in_doubles(&mut self, phase: &Phase, k: usize, block: usize) {
        let sum = beside('y', &self.kernel.reductions[k].name);
        self.begin(20, "double", &[(sum, "0".to_owned())]);
        self.block(phase.number, &[Aim::Reduce(k)], block);
        let (mean, squares) = (self.of_row('b', k), self.of_row('z', k));
        let again = format!("{mean} = {} / {}, {squares} = 0;", self.of_row('y', k), self.in_block());
        self.line(20, &format!("{}{again}", self.each_row()));
        self.block(phase.number, &[Aim::Square(k)], block);
    }

    /// The mean of a block, and the squares of what its elements differ from it, as floats tell
    /// them; and whether they are not enough, for any of rows side by side.
    fn mean_of_floats(&mut self, k: usize) -> String {
        let name = |letter| beside(letter, &self.kernel.reductions[k].name);
        let (near, sum, squares, loses) =
            (self.of_row('h', k), self.of_row('p', k), self.of_row('e', k), self.loses(k));
        let among = self.in_block();
        if !self.is_outer() {
            let mean = format!("{near} + (double){sum} / {among}");
            let squares = format!("{squares} - (double){sum} * {sum} / {among}");
            self.line(20, &format!("double {} = {mean}, {} = {squares};", name('b'), name('z')));
            return loses;
        }
        // Of doubles side by side a division takes longer than reading a dozen rows.
        let (lost, part, columns) = (name('l'), name('w'), self.plan.tile);
        let mean = format!("{near} + {sum} * {part}");
        let squares = format!("{squares} - {sum} * ({sum} * {part})");
        self.line(20, &format!("const double {part} = 1.0 / {among};"));
        self.line(20, &format!("double {}[{columns}], {}[{columns}];", name('b'), name('z')));
        self.line(20, &format!("int {lost} = 0;"));
        let (block, rest) = (self.of_row('b', k), self.of_row('z', k));
        self.line(20, &format!("for (i64 i = 0; i < m; i++) {block} = {mean}, {rest} = {squares}, {lost} |= {loses};"));
        lost
    }

    /// The mean of a block that is read twice.
    pub(super) fn centre(&mut self, k: usize) {
        let name = |letter| beside(letter, &self.kernel.reductions[k].name);
        let mean = format!("{} / {}", self.of_row('y', k), self.in_block());
        self.begin(20, "double", &[(name('b'), mean), (name('z'), "0".to_owned())]);
    }

    /// Takes the square of what an element differs from the mean of its block.
    pub(super) fn square(&mut self, indent: usize, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let (value, mean, squares) = (self.input(&reduction.input), self.of_row('b', k), self.of_row('z', k));
        let differs = beside('d', &reduction.name);
        self.line(indent, &format!("const double {differs} = (double)({value}) - {mean};"));
        self.line(indent, &format!("{squares} = jo_fma({differs}, {differs}, {squares});"));
    }

    /// Merges a block into what is known of the row so far. What tells how many elements there are
    /// is the same for rows side by side, and stands before the loop over those.
    fn merge_variance(&mut self, k: usize) {
        let (monoid, among) = (self.monoid(k), self.in_block());
        let name = |letter| {
            Some(match letter {
                'K' => among.to_owned(),
                'A' => self.of_row('b', k),
                'Q' => self.of_row('z', k),
                'k' | 's' => beside(letter, &self.kernel.reductions[k].name),
                'd' => "d".to_owned(),
                other => self.of_row(other, k),
            })
        };
        let is_common = |update: &&Update| update.1.operands.iter().all(|letter| "kK".contains(*letter));
        let (common, of_rows): (Vec<&Update>, Vec<&Update>) = monoid.merge.iter().partition(is_common);
        let print = |update: &Update| self.update(&monoid, *update, &name);
        let (common, of_rows): (Vec<String>, Vec<String>) =
            (common.into_iter().map(print).collect(), of_rows.into_iter().map(print).collect());
        common.iter().for_each(|statement| self.line(20, statement));
        self.line(20, &format!("{}{{", self.each_row()));
        of_rows.iter().for_each(|statement| self.line(24, statement));
        // One loop over rows side by side is enough for all of them.
        for mean in self.means_led_by(k) {
            self.line(24, &format!("{} += {} * {among};", self.of_row('a', mean), self.of_row('b', k)));
        }
        self.line(20, "}");
    }

    /// How many elements of a row are in a block.
    pub(super) fn in_block(&self) -> &'static str {
        if self.is_outer() { "rows" } else { "m" }
    }

    /// The loop over rows that stand side by side, where there are any.
    pub(super) fn each_row(&self) -> &'static str {
        if self.is_outer() { "for (i64 i = 0; i < m; i++) " } else { "" }
    }
}
