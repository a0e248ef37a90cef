//! Products of matrices in sums, with common factors, and with summands.

use super::super::{Known, Smith};
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;

impl Smith {
    /// `AB + (CD)ᵀ + …`, where one operand may be scaled, or written before it is added.
    pub(super) fn sum_of_matrices(&mut self) -> Option<()> {
        // Square, so that wrongly transposed products still run.
        let n = self.draws.int(2, 5);
        let mut parts = Vec::new();
        for _ in 0..4 + self.draws.below(3) {
            parts.push(self.perhaps_turned(n)?);
        }
        let (trouble, at) = (self.draws.below(3), self.draws.below(parts.len() - 1));
        for i in 0.. {
            let (Some(b), Some(a)) = (parts.pop(), parts.pop()) else { break };
            let alpha = IValue::Int(if trouble == 0 && i == at { 2 } else { 1 });
            let alpha = self.constant(alpha);
            let sum = self.made_of("aten::add", &[a, b, alpha])?;
            if trouble == 1 && i == at {
                self.grow(&sum)?;
            }
            if parts.is_empty() {
                return self.see(&sum);
            }
            parts.insert(if self.chance(2) { 0 } else { parts.len() }, sum);
        }
        None
    }

    fn perhaps_turned(&mut self, n: i64) -> Option<Known> {
        let (a, b) = (self.floats(&[n, n]), self.floats(&[n, n]));
        let product = self.made_of("aten::mm", &[a, b])?;
        if self.chance(3) { self.of("aten::t", &product) } else { Some(product) }
    }

    fn product_with(&mut self, common: &Known, other: &Known, left: bool) -> Option<Known> {
        let (a, b) = if left { (common, other) } else { (other, common) };
        self.made_of("aten::mm", &[a.clone(), b.clone()])
    }

    /// Many products with a common factor; the other factor of one depends on a write after the
    /// first product.
    pub(super) fn factors_between_writes(&mut self) -> Option<()> {
        let (common, left) = (self.floats(&[2, 3]), self.chance(2));
        let (first, second) = (self.floats(&[3, 2]), self.floats(&[3, 2]));
        let memory = self.rectified(&second)?;
        let (at, writes) = (1 + self.draws.below(7), !self.chance(4));
        for i in 0..8 + self.draws.below(2) {
            let other = if i == at {
                if writes {
                    self.grow(&memory)?;
                }
                self.of("aten::neg", &memory)?
            } else {
                let kind = self.pick(&["aten::neg", "aten::tanh", "aten::abs"]);
                self.of(kind, &first)?
            };
            let product = self.product_with(&common, &other, left)?;
            self.see(&product)?;
        }
        Some(())
    }

    /// An exception of the program between products with a common factor, followed by a product
    /// that fails.
    pub(super) fn products_around_a_raise(&mut self) -> Option<()> {
        let (common, other, misfit) = (self.floats(&[2, 3]), self.floats(&[3, 2]), self.untyped(&[4, 2], DType::Float));
        let always = self.given(IValue::Bool(true), Type::bool());
        for _ in 0..4 {
            let product = self.product_with(&common, &other, true)?;
            self.see(&product)?;
        }
        self.raise_if(&always, true, "told");
        for _ in 0..4 {
            let product = self.unrun("aten::mm", &[common.0, misfit.0], Type::tensor());
            self.shown(product);
        }
        Some(())
    }

    /// A product and a summand with complete types, one of which is scaled.
    pub(super) fn scaled_summand(&mut self) -> Option<()> {
        let (a, b) = (self.typed(&[2, 3], DType::Float), self.typed(&[3, 4], DType::Float));
        let shape: &[i64] = self.pick(&[&[2, 4][..], &[4], &[1, 4]]);
        let summand = self.typed(shape, DType::Float);
        let a = self.rectified(&a)?;
        self.complete_type(&a);
        let product = self.made_of("aten::mm", &[a.clone(), b])?;
        self.complete_type(&product);
        if self.chance(3) {
            self.grow(&a)?;
        }
        let alpha = IValue::Int(if self.chance(2) { 1 } else { 2 });
        let alpha = self.constant(alpha);
        let sum = match self.chance(2) {
            true => self.made_of("aten::add", &[product, summand, alpha]),
            false => self.made_of("aten::add", &[summand, product, alpha]),
        }?;
        self.see(&sum)
    }

    /// A product and a summand that may be larger than it: types contain no sizes.
    pub(super) fn sizes_not_reported(&mut self) -> Option<()> {
        let rows = self.draws.int(1, 3);
        let (a, b, other) = (self.partly_typed(&[1, 3]), self.partly_typed(&[3, 4]), self.partly_typed(&[rows, 4]));
        let product = self.made_of("aten::mm", &[a.clone(), b.clone()])?;
        // Of equal sizes, for symbolic shapes.
        let like_it = self.made_of("aten::mm", &[a, b])?;
        let positive = self.rectified(&like_it)?;
        let summand = self.sum(&positive, &other)?;
        let sum = self.sum(&product, &summand)?;
        [&product, &like_it, &positive, &summand]
            .into_iter()
            .for_each(|known| self.graph.set_type(known.0, Type::tensor()));
        self.see(&sum)
    }

    /// Sliding windows over an image.
    pub(super) fn windows(&mut self) -> Option<()> {
        let (image, weight) = (self.typed(&[1, 2, 5, 5], DType::Float), self.typed(&[3, 2, 2, 2], DType::Float));
        let stride = self.draws.int(1, 3);
        let [stride, padding, one] = [stride, 0, 1].map(|n| IValue::list([IValue::Int(n), IValue::Int(n)]));
        let [stride, padding, dilation] = [stride, padding, one].map(|list| self.constant(list));
        let (none, groups) = (self.constant(IValue::None), self.one());
        let operands = [image, weight, none, stride, padding, dilation, groups];
        let made = self.made_of("aten::conv2d", &operands)?;
        self.graph.set_type(made.0, Type::tensor());
        self.see(&made)
    }

    /// A linear layer or a near miss: with scale factors, a write in between, a product with other
    /// users.
    pub(super) fn nearly_linear(&mut self) -> Option<()> {
        let (x, weight, bias) = (self.floats(&[2, 3]), self.floats(&[4, 3]), self.floats(&[4]));
        let x = self.rectified(&x)?;
        let turned = self.of("aten::t", &weight)?;
        let [beta, alpha] = [self.draws.int(1, 3), self.draws.int(1, 3)].map(IValue::Int);
        let (beta, alpha) = (self.constant(beta), self.constant(alpha));
        if self.chance(3) {
            let made = self.made_of("aten::addmm", &[bias, x, turned, beta, alpha])?;
            return self.see(&made);
        }
        let product = self.made_of("aten::matmul", &[x.clone(), turned])?;
        if self.chance(3) {
            self.grow(&x)?;
        }
        let alpha = if self.chance(2) { self.one() } else { alpha };
        let made = self.made_of("aten::add_", &[product.clone(), bias, alpha])?;
        if self.chance(2) {
            let negated = self.of("aten::neg", &product)?;
            self.see(&negated)?;
        }
        self.see(&made)
    }
}
