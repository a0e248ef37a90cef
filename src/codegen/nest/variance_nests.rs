//! Variances, and the means that are found on their way.
//!
//! A block of floats is read once: something near its mean is subtracted from all elements, and the
//! differences and their squares are summed in floats. That is the mean of the blocks before it, or
//! the first element. Where it was too far off, it is moved to where the block says that its mean
//! is; and where floats are not enough at all, as squares leave their range, the block is summed in
//! doubles, and then the squares of the differences from its own mean:
//!
//! ```text
//! variable h_v = finitef(a_v)
//! if k_v == 0: h_v = finitef(in0[i])
//! try
//!   for each point i of the tile, as a vector, + p_v, + e_v
//!     d_v = in0[i] - h_v;  p_v = p_v + d_v;  e_v = fmaf(d_v, d_v, e_v)
//!   again, once, if loses(p_v, e_v, points):
//!     h_v = finitef(h_v + p_v / points);  p_v = 0;  e_v = 0
//! b_v = h_v + p_v / points;  z_v = e_v - p_v * p_v / points
//! if loses(p_v, e_v, points)
//!   …                              are all elements h_v? else b_v and z_v in doubles, in two loops
//! ```
//!
//! Squares only add up, so that sixteen lanes of 64 of them have lost some 2 bits of 24, and
//! `loses` lets 2 more go when the mean is taken out. Of rows of noise one in twelve begins so far
//! out that its first block is read again; it is in the first level of cache by then. Where a loop
//! does more than that it is not run again, nor is one over interleaved rows: there the first block
//! is short, and most often summed in doubles.
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

use super::build::{Builder, known, plain, term, with_letter, zero};
use super::state_rules::{
    ANY, BY_MEAN, COPY, DIFFERENCE, DIFFERENCE_IN_DOUBLES, FINITE, IS_FIRST, LOSES, LOSES_TOO, MEAN, MEAN_BY_SHARE,
    MEAN_OF_FLOATS, MOVED, NEAR, OTHER, SHARE, SQUARES, SQUARES_BY_SHARE, SQUARES_IN_DOUBLES, SQUARES_OF_FLOATS, SUM,
};
use super::{Axis, Bind, For, Known, Operand, Origin, Place, Spread, Stmt, Term};
use crate::codegen::kernel::Source;
use crate::codegen::loop_structure::Aim;
use crate::codegen::loop_structure::Phase;
use crate::codegen::monoid::Update;
use crate::codegen::number_type::NumberType;

/// A statement that sets a variable.
fn set(variable: usize, term: Term) -> Stmt {
    Stmt::Set { variable, term, note: String::new() }
}

impl Builder<'_> {
    fn name_of(&self, k: usize) -> &str {
        &self.kernel.reductions[k].name
    }

    fn part(&self, letter: char, k: usize) -> Operand {
        self.of(letter, self.name_of(k))
    }

    fn slot(&self, letter: char, k: usize) -> usize {
        self.variable(letter, self.name_of(k))
    }

    /// How many elements of a row are in a block.
    fn in_block(&self) -> Operand {
        known(if self.loops.is_outer() { Known::Lines } else { Known::Points })
    }

    /// The number that is subtracted from a block, the mean of those before it, and the sums of the
    /// differences. Of a single row it may be the first element, unless that is infinite or NaN.
    fn begin_near_mean(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        let name = |letter| with_letter(letter, &reduction.name);
        let near = term(NEAR, [('a', self.part('a', k))]);
        self.begin_all(
            vec![
                (NumberType::Float, name('h'), near),
                (NumberType::Float, name('p'), zero()),
                (NumberType::Float, name('e'), zero()),
            ],
            body,
        );
        let load = match reduction.input.source {
            Source::Load(load) if self.is_element_of_single_row(load) => load,
            _ => return,
        };
        let mut first = vec![Stmt::Open(Place::Access(load))];
        first.push(self.load_first(load));
        first.push(set(self.slot('h', k), term(FINITE, [('x', plain(Origin::Value(load)))])));
        body.push(Stmt::If { when: term(IS_FIRST, [('k', self.part('k', k))]), body: first });
    }

    /// Reads the first element of a block.
    fn load_first(&self, load: usize) -> Stmt {
        match self.load(load) {
            Stmt::Let { value, compute, .. } => Stmt::Let { value, compute, note: String::new() },
            other => other,
        }
    }

    /// The loop over a block that sums variances, among others, and does so again if what was
    /// subtracted was not near enough to the mean.
    pub(super) fn summed_block(&mut self, phase: &Phase, size: usize, body: &mut Vec<Stmt>) {
        let tried: Vec<usize> = phase.own.iter().copied().filter(|&k| self.loops.is_tried(k)).collect();
        tried.iter().for_each(|&k| self.begin_near_mean(k, body));
        if !self.loops.may_run_again(phase) {
            return self.block(phase.number, &phase.aims, size, body);
        }
        let mut inner = Vec::new();
        self.block(phase.number, &phase.aims, size, &mut inner);
        let lost = tried.iter().map(|&k| self.loses(k)).collect();
        let mut again = Vec::new();
        for k in tried {
            // The value subtracted from infinities is finite, or an infinite mean would be lost.
            let near = [('h', self.part('h', k)), ('p', self.part('p', k)), ('m', self.in_block())];
            again.push(set(self.slot('h', k), term(MOVED, near)));
            again.extend(['p', 'e'].map(|letter| set(self.slot(letter, k), zero())));
        }
        body.push(Stmt::Retry { body: inner, lost, again });
    }

    /// Whether floats were not enough.
    fn loses(&self, k: usize) -> Term {
        term(LOSES, [('p', self.part('p', k)), ('e', self.part('e', k)), ('m', self.in_block())])
    }

    /// Takes an element into the sums of a block.
    pub(super) fn reduce_into_variance(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let reduction = &self.kernel.reductions[k];
        let value = self.input(&reduction.input);
        if !self.loops.is_summed_in_floats(k) {
            let sum = term(SUM, [('a', self.part('y', k)), ('x', value)]);
            let note = reduction.line.clone();
            return body.push(Stmt::Set { variable: self.slot('y', k), term: sum, note });
        }
        let difference = term(DIFFERENCE, [('x', value), ('h', self.part('h', k))]);
        let differs = self.declared_as(with_letter('d', &reduction.name), NumberType::Float, Spread::One, true);
        body.push(Stmt::Begin(vec![(differs, Some(difference))]));
        let differs = plain(Origin::Variable(differs));
        let sum = term(SUM, [('a', self.part('p', k)), ('x', differs)]);
        body.push(Stmt::Set { variable: self.slot('p', k), term: sum, note: reduction.line.clone() });
        body.push(set(self.slot('e', k), term(SQUARES, [('d', differs), ('e', self.part('e', k))])));
    }

    /// Ends a block: looks at it again, in doubles, where floats were not enough, and merges it
    /// into what is known of the row.
    pub(super) fn end_of_block(&mut self, phase: &Phase, k: usize, size: usize, body: &mut Vec<Stmt>) {
        if self.loops.is_summed_in_floats(k) {
            let lost = self.mean_of_floats(k, body);
            let mut inner = Vec::new();
            let differs = self.looks_for_differences(phase, k, size, &mut inner);
            let mut again = Vec::new();
            self.loops.in_doubles = true;
            self.sum_in_doubles(phase, k, size, &mut again);
            self.loops.in_doubles = false;
            inner.push(Stmt::If { when: differs, body: again });
            body.push(Stmt::If { when: lost, body: inner });
        }
        self.merge_variance(k, body);
    }

    /// Whether elements of a block are not all what was subtracted from them: channels in which
    /// nothing is alive are, and have no variance. Squares tell it only of what floats can hold.
    fn looks_for_differences(&mut self, phase: &Phase, k: usize, size: usize, body: &mut Vec<Stmt>) -> Term {
        let name = self.name_of(k).to_owned();
        self.begin_all(vec![(NumberType::Int, with_letter('o', &name), zero())], body);
        self.block(phase.number, &[Aim::Differs(k)], size, body);
        if !self.loops.is_outer() {
            return term(COPY, [('x', self.part('o', k))]);
        }
        let any = self.declared_as(with_letter('g', &name), NumberType::Int, Spread::One, false);
        body.push(Stmt::Begin(vec![(any, Some(zero()))]));
        let own = plain(Origin::Variable(any));
        let noted = set(any, term(ANY, [('g', own), ('o', self.part('o', k))]));
        body.push(For::over(Axis::Points, Bind::Serial, vec![noted]));
        term(COPY, [('x', own)])
    }

    /// Notes whether an element is not what was subtracted from it.
    pub(super) fn compare(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let value = self.input(&self.kernel.reductions[k].input);
        let other = term(OTHER, [('o', self.part('o', k)), ('x', value), ('h', self.part('h', k))]);
        body.push(set(self.slot('o', k), other));
    }

    /// A block in doubles, from the beginning.
    fn sum_in_doubles(&mut self, phase: &Phase, k: usize, size: usize, body: &mut Vec<Stmt>) {
        let sum = with_letter('y', self.name_of(k));
        self.begin_all(vec![(NumberType::Double, sum, zero())], body);
        self.block(phase.number, &[Aim::Reduce(k)], size, body);
        let mean = term(MEAN, [('y', self.part('y', k)), ('m', self.in_block())]);
        self.each_row(vec![set(self.slot('b', k), mean), set(self.slot('z', k), zero())], body);
        self.block(phase.number, &[Aim::Square(k)], size, body);
    }

    /// The mean of a block, and the squares of the differences of its elements from it, as floats
    /// tell them; and whether they are not enough, for any of interleaved rows.
    fn mean_of_floats(&mut self, k: usize, body: &mut Vec<Stmt>) -> Term {
        let name = self.name_of(k).to_owned();
        let (near, sum, squares) = (('h', self.part('h', k)), ('p', self.part('p', k)), ('e', self.part('e', k)));
        let among = ('m', self.in_block());
        let spread = self.spread();
        let mut made = |letter: char, ty: NumberType, spread: Spread, is_fixed: bool| {
            self.declared_as(with_letter(letter, &name), ty, spread, is_fixed)
        };
        let (mean, rest) = (made('b', NumberType::Double, spread, false), made('z', NumberType::Double, spread, false));
        if !self.loops.is_outer() {
            let mean_term = term(MEAN_OF_FLOATS, [near, sum, among]);
            let rest_term = term(SQUARES_OF_FLOATS, [squares, sum, among]);
            body.push(Stmt::Begin(vec![(mean, Some(mean_term)), (rest, Some(rest_term))]));
            return self.loses(k);
        }
        let mut made = |letter: char, ty: NumberType, is_fixed: bool| {
            self.declared_as(with_letter(letter, &name), ty, Spread::One, is_fixed)
        };
        let (share, lost) = (made('w', NumberType::Double, true), made('l', NumberType::Int, false));
        body.push(Stmt::Begin(vec![(share, Some(term(SHARE, [among])))]));
        body.push(Stmt::Begin(vec![(mean, None), (rest, None)]));
        body.push(Stmt::Begin(vec![(lost, Some(zero()))]));
        let (share, own) = (('w', plain(Origin::Variable(share))), plain(Origin::Variable(lost)));
        let all = vec![
            set(mean, term(MEAN_BY_SHARE, [near, sum, share])),
            set(rest, term(SQUARES_BY_SHARE, [squares, sum, share])),
            set(lost, term(LOSES_TOO, [('l', own), sum, squares, among])),
        ];
        body.push(For::over(Axis::Points, Bind::Serial, all));
        term(COPY, [('x', own)])
    }

    /// The mean of a block that is read twice.
    pub(super) fn centre(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let name = self.name_of(k).to_owned();
        let mean = term(MEAN, [('y', self.part('y', k)), ('m', self.in_block())]);
        self.begin_all(
            vec![
                (NumberType::Double, with_letter('b', &name), mean),
                (NumberType::Double, with_letter('z', &name), zero()),
            ],
            body,
        );
    }

    /// Takes the square of the difference of an element from the mean of its block.
    pub(super) fn square(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let value = self.input(&self.kernel.reductions[k].input);
        let difference = term(DIFFERENCE_IN_DOUBLES, [('x', value), ('h', self.part('b', k))]);
        let differs = self.declared_as(with_letter('d', self.name_of(k)), NumberType::Double, Spread::One, true);
        body.push(Stmt::Begin(vec![(differs, Some(difference))]));
        let operands = [('d', plain(Origin::Variable(differs))), ('e', self.part('z', k))];
        body.push(set(self.slot('z', k), term(SQUARES_IN_DOUBLES, operands)));
    }

    /// Merges a block into what is known of the row so far. The number of elements is the same for
    /// interleaved rows, and is updated before the loop over those.
    fn merge_variance(&mut self, k: usize, body: &mut Vec<Stmt>) {
        let (monoid, among) = (self.loops.monoid(k), self.in_block());
        let operand = |builder: &Builder<'_>, letter: char| match letter {
            'K' => Some(among),
            'A' => Some(builder.part('b', k)),
            'Q' => Some(builder.part('z', k)),
            other => Some(builder.part(other, k)),
        };
        let is_common = |update: &&Update| update.1.operands.iter().all(|letter| "kK".contains(*letter));
        let (common, of_rows): (Vec<&Update>, Vec<&Update>) = monoid.merge.iter().partition(is_common);
        for &update in common {
            let statement = self.update((&monoid, k), update, &operand);
            body.push(statement);
        }
        let mut inner: Vec<Stmt> =
            of_rows.into_iter().map(|&update| self.update((&monoid, k), update, &operand)).collect();
        // One loop over interleaved rows is enough for all of them.
        for mean in self.loops.means_led_by(k) {
            let sum = term(BY_MEAN, [('a', self.part('a', mean)), ('b', self.part('b', k)), ('m', among)]);
            inner.push(set(self.slot('a', mean), sum));
        }
        match self.loops.is_outer() {
            true => body.push(For::over(Axis::Points, Bind::Serial, inner)),
            false => body.push(Stmt::Scope(inner)),
        }
    }
}
