//! Variances of floats on blocks of threads, and the means that are found on their way.
//!
//! A thread sums in doubles how its elements differ from the first of them, and the squares of
//! that, without a division for each element. Before threads merge, all move their sums to what the
//! first lane has subtracted, so that two states are merged by additions alone. The mean and the
//! squares without it are found once, from the sums of all, with one division: each takes a
//! function of some twenty registers:
//!
//! ```text
//! h_v = m_v > 0 ? h_v : finitef(v_x), m_v = m_v + 4    once for each 4 elements
//! d_v = v_x - h_v;  p_v = p_v + d_v;  e_v = fma(d_v, d_v, e_v)
//! …
//! b_v = h_v of lane 0;  g_v = h_v - b_v
//! e_v = e_v + g_v * (p_v + p_v + m_v * g_v);  p_v = p_v + m_v * g_v;  h_v = b_v
//! for each half of 32 lanes: p_v, e_v and m_v = their sums
//! …
//! w_v = 1 / m_v;  a_v = h_v + p_v * w_v;  q_v = e_v - p_v * (p_v * w_v)
//! ```
//!
//! What is subtracted is one of the elements that vary, so the squares lose at most a factor of
//! their number, of which floats have no digits. An infinite or NaN element is not subtracted: it
//! makes the squares infinite or NaN, and leaves the mean what it is.

use super::build::{Builder, known, plain, term, with_letter};
use super::state_rules::{
    COPY, DIFFERENCE_IN_DOUBLES, DISTANCE, DOUBLE, FIRST_OF_THREAD, HAS_ELEMENTS, IS_FIRST_OF_GROUP, MEAN_BY_SHARE,
    SHARE, SQUARES_BY_SHARE, SQUARES_IN_DOUBLES, SQUARES_MOVED, SUM, SUM_MOVED, SUM_OF_THREAD,
};
use super::{Known, Operand, Origin, Split, Spread, Stmt, Term};
use crate::codegen::number_type::NumberType;
use crate::ops::recipes::ReduceOp;
use crate::tensor::{DType, Scalar};

/// The sums of a thread, by their letters, and their types: what it subtracts, the sum of the
/// differences, that of their squares, and the number of elements.
pub(super) const SUMS: [(char, NumberType); 4] =
    [('h', NumberType::Float), ('p', NumberType::Double), ('e', NumberType::Double), ('m', NumberType::Int)];

/// A number of a state.
pub(super) fn number(scalar: Scalar) -> Operand {
    let dtype = if matches!(scalar, Scalar::Int(_)) { DType::Long } else { DType::Double };
    Operand { origin: Origin::Constant(scalar), from: dtype, to: dtype }
}

impl Builder<'_> {
    /// Whether a reduction is a variance of which threads have the sums above. What merges the
    /// parts of a row has means and squares.
    pub(super) fn is_shifted(&self, k: usize) -> bool {
        let reduction = &self.kernel.reductions[k];
        let is_merge = self.nest.split == Some(Split::Merge);
        !is_merge && reduction.op.varies() && NumberType::of_values(reduction.input.to) == NumberType::Float
    }

    /// Whether a reduction is a mean that a variance finds on its way.
    pub(super) fn is_led(&self, k: usize) -> bool {
        let is_mean = self.kernel.reductions[k].op == ReduceOp::Mean;
        is_mean && self.loops.leader(k).is_some_and(|leader| self.is_shifted(leader))
    }

    /// The parts of the state of a reduction that threads exchange, with their types.
    pub(super) fn exchanged(&self, k: usize) -> Vec<(char, NumberType)> {
        match () {
            () if self.is_led(k) => Vec::new(),
            () if self.is_shifted(k) => SUMS.to_vec(),
            () => self.monoid_on_grid(k).slots.iter().map(|slot| (slot.role.letter(), slot.ty)).collect(),
        }
    }

    /// Sets a part of the state of a reduction.
    fn part_of(&self, k: usize, letter: char, term: Term) -> Stmt {
        let reduction = &self.kernel.reductions[k];
        Stmt::Set { variable: self.variable(letter, &reduction.name), term, note: reduction.line.clone() }
    }

    /// What terms call the sums of a thread.
    fn sums_of(&self, k: usize) -> [(char, Operand); 4] {
        SUMS.map(|(letter, _)| (letter, self.of(letter, &self.kernel.reductions[k].name)))
    }

    /// Takes an element into the sums of a thread.
    pub(super) fn take_shifted(&mut self, k: usize, element: Operand, body: &mut Vec<Stmt>) {
        let [first, sum, squares, count] = self.sums_of(k);
        let lanes = number(Scalar::Int(self.nest.lanes as i64));
        let begun = vec![
            self.part_of(k, 'h', term(FIRST_OF_THREAD, [count, first, ('x', element)])),
            self.part_of(k, 'm', term(SUM, [('a', count.1), ('x', lanes)])),
        ];
        match self.nest.lanes {
            1 => body.extend(begun),
            _ => {
                body.push(Stmt::If { when: term(IS_FIRST_OF_GROUP, [('g', known(Known::InGroup))]), body: begun });
            }
        }
        let name = with_letter('d', &self.kernel.reductions[k].name);
        let moved = self.declared_as(name, NumberType::Double, Spread::One, true);
        body.push(Stmt::Begin(vec![(moved, Some(term(DIFFERENCE_IN_DOUBLES, [('x', element), first])))]));
        let moved = plain(Origin::Variable(moved));
        body.push(self.part_of(k, 'p', term(SUM, [('a', sum.1), ('x', moved)])));
        body.push(self.part_of(k, 'e', term(SQUARES_IN_DOUBLES, [('d', moved), squares])));
    }

    /// Moves the sums of threads to what the first lane has subtracted.
    pub(super) fn move_to_first(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let name = self.kernel.reductions[k].name.clone();
        let [first, sum, squares, count] = self.sums_of(k);
        let other = self.declared_as(with_letter('b', &name), NumberType::Float, Spread::One, true);
        let of_first = plain(Origin::OfFirst(self.variable('h', &name)));
        let other_first = ('b', plain(Origin::Variable(other)));
        let distance = self.declared_as(with_letter('g', &name), NumberType::Double, Spread::One, true);
        let by = ('g', plain(Origin::Variable(distance)));
        body.push(Stmt::Scope(vec![
            Stmt::Begin(vec![(other, Some(term(COPY, [('x', of_first)])))]),
            Stmt::Begin(vec![(distance, Some(term(DISTANCE, [first, other_first])))]),
            self.part_of(k, 'e', term(SQUARES_MOVED, [squares, by, sum, count])),
            self.part_of(k, 'p', term(SUM_MOVED, [sum, count, by])),
            self.part_of(k, 'h', term(COPY, [('x', other_first.1)])),
        ]));
    }

    /// Adds the sums of another thread, which has subtracted the same.
    pub(super) fn add_shifted(&self, k: usize, taken: &dyn Fn(char) -> Option<Operand>, body: &mut Vec<Stmt>) {
        let own = self.sums_of(k).into_iter().skip(1);
        let added = own.filter_map(|(letter, own)| Some((letter, term(SUM, [('a', own), ('x', taken(letter)?)]))));
        body.extend(added.map(|(letter, term)| self.part_of(k, letter, term)));
    }

    /// Makes states of the sums of a thread, or of those of all threads of a row.
    pub(super) fn settle_shifted(&mut self, reduced: &[usize], body: &mut Vec<Stmt>) {
        let shifted: Vec<usize> = reduced.iter().copied().filter(|&k| self.is_shifted(k)).collect();
        for k in shifted {
            let [first, sum, squares, count] = self.sums_of(k);
            let name = with_letter('w', &self.kernel.reductions[k].name);
            let share = self.declared_as(name, NumberType::Double, Spread::One, true);
            let by = ('w', plain(Origin::Variable(share)));
            let mut states = vec![
                Stmt::Begin(vec![(share, Some(term(SHARE, [count])))]),
                self.part_of(k, 'k', term(DOUBLE, [('x', count.1)])),
                self.part_of(k, 'a', term(MEAN_BY_SHARE, [first, sum, by])),
                self.part_of(k, 'q', term(SQUARES_BY_SHARE, [squares, sum, by])),
            ];
            let led = self.loops.means_led_by(k).into_iter();
            states.extend(led.map(|mean| self.part_of(mean, 'a', term(SUM_OF_THREAD, [first, count, sum]))));
            body.push(Stmt::If { when: term(HAS_ELEMENTS, [count]), body: states });
        }
    }
}
