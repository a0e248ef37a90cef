//! Products of matrices: sums of them, several with a common factor, sums with other values.

use super::{Known, O, Smith};
use jitopt_core::interpreter::IValue;

/// Maximum numbers of products in a sum, and with a common factor. Passes start at four and at
/// eight.
const MOST_OF_SUM: usize = 6;
const MOST_OF_FACTOR: usize = 9;

impl Smith {
    /// Many products that passes may merge.
    pub(super) fn products(&mut self) {
        let Some((x, transposed)) = self.matrices() else { return };
        let seen = self.known.len();
        match self.draws.below(3) {
            0 => self.sum_of_products(&x, &transposed),
            1 => self.common_factor(&x, &transposed),
            _ => self.product_and_sum(&x, &transposed),
        }
        // Passes require that intermediate values have no other users.
        if let Some(last) = self.known.last().cloned().filter(|_| self.known.len() > seen && !self.chance(4)) {
            self.known.truncate(seen);
            self.known.push(last.clone());
            self.shown(last.0);
        }
    }

    /// A floating-point matrix, and one that it can be multiplied with on either side.
    fn matrices(&mut self) -> Option<(Known, Known)> {
        let is_matrix = |(_, value): &&Known| match value {
            IValue::Tensor(tensor) => tensor.rank() == 2 && tensor.dtype().is_float() && tensor.numel() <= 64,
            _ => false,
        };
        let all: Vec<Known> = self.known.iter().filter(is_matrix).cloned().collect();
        if all.is_empty() {
            return None;
        }
        let x = self.pick(&all);
        let transposed = self.made_of("aten::t", std::slice::from_ref(&x))?;
        Some((x, transposed))
    }

    /// Another matrix of the same shape.
    fn like(&mut self, x: &Known) -> Option<Known> {
        let kind = self.pick(&["aten::neg", "aten::relu", "aten::tanh", "aten::sigmoid"]);
        if self.chance(3) { Some(x.clone()) } else { self.made_of(kind, std::slice::from_ref(x)) }
    }

    fn product(&mut self, x: &Known, y: &Known) -> Option<Known> {
        let (mut a, mut b) = (self.like(x)?, self.like(y)?);
        if self.chance(8) {
            (a, b) = (self.cast(a)?, self.cast(b)?);
        }
        let known = self.chance(2);
        if known {
            self.declare(&a);
            self.declare(&b);
        }
        if self.chance(5) {
            // The transposed product: `(ab)ᵀ = bᵀaᵀ`.
            let (ta, tb) = (self.made_of("aten::t", &[a])?, self.made_of("aten::t", &[b])?);
            let turned = self.made_of("aten::mm", &[tb, ta])?;
            return self.made_of("aten::t", &[turned]);
        }
        let product = self.made_of("aten::mm", &[a.clone(), b])?;
        if known {
            self.declare(&product);
        }
        if !self.pure && self.chance(8) {
            // An operand of a product is written before the sum.
            let one = self.constant(IValue::Int(1));
            self.made_of("aten::add_", &[a, one.clone(), one]);
        }
        Some(product)
    }

    fn plus(&mut self, a: Known, b: Known) -> Option<Known> {
        let alpha = IValue::Int(if self.chance(8) { 2 } else { 1 });
        let alpha = self.constant(alpha);
        let kind = if self.chance(12) { "aten::sub" } else { "aten::add" };
        let pair = if self.chance(3) { [b, a] } else { [a, b] };
        let [a, b] = pair;
        self.made_of(kind, &[a, b, alpha])
    }

    fn sum_of_products(&mut self, x: &Known, y: &Known) {
        let n = 2 + self.draws.below(MOST_OF_SUM - 1);
        let mut parts: Vec<Known> = Vec::new();
        for _ in 0..n {
            parts.extend(self.product(x, y));
        }
        // Trees of any shape: the last two parts are joined, or the first and the last.
        while parts.len() > 1 {
            let at = if self.chance(2) { 0 } else { parts.len() - 2 };
            let (b, a) = (parts.pop(), parts.get(at).cloned());
            let Some(sum) = a.zip(b).and_then(|(a, b)| self.plus(a, b)) else { return };
            let at = at.min(parts.len() - 1);
            parts[at] = sum;
        }
        if self.chance(4) {
            let kind = self.pick(&["aten::neg", "aten::abs"]);
            parts.pop().and_then(|sum| self.made_of(kind, &[sum]));
        }
    }

    fn common_factor(&mut self, x: &Known, y: &Known) {
        let n = MOST_OF_FACTOR - self.draws.below(3);
        let left = self.chance(2);
        let mut last: Option<Known> = None;
        for _ in 0..n {
            let Some(other) = self.like(if left { y } else { x }) else { return };
            let made = match left {
                true => self.made_of("aten::mm", &[x.clone(), other]),
                false => self.made_of("aten::mm", &[other, y.clone()]),
            };
            if self.chance(2)
                && let (Some(a), Some(b)) = (last.clone(), made.clone())
            {
                self.plus(a, b);
            }
            last = made;
        }
    }

    /// `add(mm(a, b), c)` in either operand order, with sums that broadcast or do not.
    fn product_and_sum(&mut self, x: &Known, y: &Known) {
        let (Some(product), Some(other)) = (self.product(x, y), self.earlier(O::Tensor)) else { return };
        // The summand must not cancel the product: only rounding errors would remain, and they may
        // differ between the two graphs.
        let kind = self.pick(&["aten::relu", "aten::tanh", "aten::sigmoid"]);
        let other = if self.chance(2) { self.made_of(kind, std::slice::from_ref(&product)) } else { Some(other) };
        if let Some(other) = other {
            if self.chance(2) {
                self.declare(&other);
            }
            self.plus(product, other);
        }
    }
}
