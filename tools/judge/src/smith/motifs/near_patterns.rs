//! Operator chains that match patterns of passes, with perturbations.

use super::super::Smith;

impl Smith {
    /// A rectified and transposed matrix, with a write before the transposition, or another use of
    /// the matrix.
    pub(super) fn rectified_and_turned(&mut self) -> Option<()> {
        let x = self.floats(&[2, 3]);
        let x = self.of("aten::tanh", &x)?;
        let positive = self.rectified(&x)?;
        if self.chance(2) {
            self.grow(&x)?;
        }
        let turned = self.of("aten::t", &positive)?;
        if self.chance(3) {
            self.see(&positive)?;
        }
        self.see(&turned)
    }

    /// Several rectifications: matches of two patterns overlap.
    pub(super) fn rectified_often(&mut self) -> Option<()> {
        let x = self.floats(&[2, 3]);
        let mut last = self.of("aten::tanh", &x)?;
        for _ in 0..2 + self.draws.below(3) {
            last = self.rectified(&last)?;
            if self.chance(6) {
                self.see(&last)?;
            }
        }
        self.see(&last)
    }

    /// A double negation has an equal value but different memory.
    pub(super) fn negated_twice(&mut self) -> Option<()> {
        let x = self.floats(&[2, 3]);
        let x = self.of("aten::tanh", &x)?;
        let negated = self.of("aten::neg", &x)?;
        if self.chance(3) {
            self.grow(&x)?;
        }
        let again = self.of("aten::neg", &negated)?;
        if self.chance(2) {
            self.grow(&again)?;
        }
        if !self.chance(3) {
            self.see(&x)?;
        }
        self.see(&again)
    }
}
