//! Where in its row an element is: `argmax`, and the places that `max` along a dimension gives.
//!
//! Along a row a block is folded as for its largest element, in vectors. Only a block that has a
//! larger one than all before it is looked at again, for the first element that is it, or is no
//! number; of a row of noise those are few, of one that rises all are read twice, the second time
//! in the first level of cache:
//!
//! ```c
//! float p_y = -inf;
//! int o_y = 0;
//! for (i64 i = 0; i < m; i++) { p_y = in0[i] > p_y ? in0[i] : p_y; o_y |= in0[i] != in0[i]; }
//! if (!n_y && (o_y | (p_y > a_y))) {
//!     i64 w_y = m;
//!     for (i64 i = 0; i < m; i++) w_y = (o_y ? in0[i] != in0[i] : in0[i] == p_y) && i < w_y ? i : w_y;
//!     a_y = p_y, j_y = b * width + from + w_y, n_y = o_y;
//! }
//! ```
//!
//! Of rows that stand side by side each element is compared with what is the largest so far in its
//! row. Nothing is found where all elements are the least there is: then the first one is it, which
//! is what places begin with.

use super::{Writer, beside};
use crate::codegen::loop_structure::Phase;
use crate::codegen::schedule::Aim;

impl Writer<'_> {
    /// The total of a block that its loop takes elements into, and its type. Rows that stand side
    /// by side have none.
    pub(super) fn parts_of_place(&self, k: usize) -> (&'static str, Vec<char>) {
        if self.is_outer() { ("", Vec::new()) } else { (self.kernel.reductions[k].total(), vec!['p']) }
    }

    /// Takes an element of rows that stand side by side into the totals of its row.
    pub(super) fn reduce_into_index(&mut self, indent: usize, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let (value, beats) = (self.input(&reduction.input), reduction.beats());
        let (total, place, better) = (self.of_row('a', k), self.of_row('j', k), beside('w', &reduction.name));
        let nan = if reduction.is_real() {
            format!(" | (({value} != {value}) & ({total} == {total}))")
        } else {
            String::new()
        };
        // What is no number is never beaten.
        self.noted(indent, &format!("const int {better} = ({value} {beats} {total}){nan};"), &reduction.line);
        self.line(indent, &format!("{place} = {better} ? b * width + first + j : {place};"));
        self.line(indent, &format!("{total} = {better} ? {value} : {total};"));
    }

    /// Whether elements of a block are no numbers, noted in a variable.
    pub(super) fn begin_place(&mut self, k: usize) {
        let reduction = &self.kernel.reductions[k];
        if reduction.is_real() && !self.is_outer() {
            self.line(20, &format!("int {} = 0;", beside('o', &reduction.name)));
        }
    }

    /// Looks for the place of what a block was folded into, where that is more than all before.
    pub(super) fn place_of_block(&mut self, phase: &Phase, k: usize, block: usize) {
        let reduction = &self.kernel.reductions[k];
        if self.is_outer() {
            return;
        }
        let name = |letter| beside(letter, &reduction.name);
        let (total, part, found) = (name('a'), name('p'), name('w'));
        let is_more = match reduction.is_real() {
            true => format!("!{} && ({} | ({part} {} {total}))", name('n'), name('o'), reduction.beats()),
            false => format!("{part} {} {total}", reduction.beats()),
        };
        self.line(20, &format!("if ({is_more}) {{"));
        self.deeper += 4;
        self.line(20, &format!("i64 {found} = m;"));
        self.block(phase.number, &[Aim::Place(k)], block);
        self.line(20, &format!("{total} = {part}, {} = b * width + from + {found};", name('j')));
        if reduction.is_real() {
            self.line(20, &format!("{} = {};", name('n'), name('o')));
        }
        self.deeper -= 4;
        self.line(20, "}");
    }

    /// Notes that an element is what its block was folded into, if no other was before.
    pub(super) fn look_for(&mut self, indent: usize, k: usize) {
        let reduction = &self.kernel.reductions[k];
        let (value, name) = (self.input(&reduction.input), |letter| beside(letter, &reduction.name));
        let (part, found) = (name('p'), name('w'));
        let is_it = match reduction.is_real() {
            true => format!("({} ? {value} != {value} : {value} == {part})", name('o')),
            false => format!("({value} == {part})"),
        };
        self.noted(indent, &format!("{found} = {is_it} & (i < {found}) ? i : {found};"), &reduction.line);
    }
}
