//! Gradients that are parameters, some of them undefined.

use super::super::{Known, Smith};
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;
use jitopt_core::types::era::Era;
use jitopt_core::types::spelling::parse_all;

impl Smith {
    /// Gradient formulas and sums of gradients: parameters, zeros, and values that forward either
    /// of them.
    pub(super) fn gradients_given(&mut self) -> Option<()> {
        let x = self.untyped(&[2, 2], DType::Float);
        let zero = self.unrun("prim::AutogradZero", &[], Type::tensor());
        let mut gradients = vec![(zero, IValue::Undefined), self.undefined()];
        gradients.push(self.untyped(&[2, 2], DType::Float));
        gradients.push(self.of("aten::neg", &x)?);
        for _ in 0..3 + self.draws.below(3) {
            let (a, b) = (self.pick(&gradients), self.pick(&gradients));
            let made = match self.draws.below(4) {
                0 => self.gradient_sum(a, b),
                1 => self.one_of(a, b),
                _ => self.formula(a, b, &x),
            };
            // An undefined gradient is observable in a sum with a defined one.
            let seen = self.gradient_sum(made.clone(), x.clone());
            self.see(&seen)?;
            gradients.push(made);
        }
        Some(())
    }

    /// Up to 1.4 the type of a parameter states that it is undefined.
    fn undefined(&mut self) -> Known {
        let says = self.graph.era == Era::V1_3 || self.chance(3);
        let ty = if says { parse_all(b"Tensor[Undefined]").unwrap_or(Type::tensor()) } else { Type::tensor() };
        self.given(IValue::Undefined, ty)
    }

    /// A branch that returns one of two gradients.
    fn one_of(&mut self, a: Known, b: Known) -> Known {
        let flag = self.flag();
        let output = self.selected_by(&flag, [a.0, b.0], Type::tensor());
        let taken = if matches!(flag.1, IValue::Bool(true)) { a } else { b };
        (output, taken.1)
    }
}
