//! Comparisons of numbers, identities that hold for some numbers only, and constant conditions.

use super::super::{Known, Smith, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::{Type, TypeKind};

impl Smith {
    /// An int of the program that is not known statically.
    fn unknown(&mut self, value: IValue) -> Known {
        let ty = returned(&value);
        self.given(value, ty)
    }

    /// A float compared with an int is not an int.
    pub(super) fn float_compared(&mut self) -> Option<()> {
        let value = self.pick(&[3.0, 3.0, 2.5]);
        let (real, three) = (self.unknown(IValue::Float(value)), self.constant(IValue::Int(3)));
        let kind = self.pick(&["aten::eq", "aten::ne"]);
        let condition = self.made_of(kind, &[real.clone(), three])?;
        let results = self.either(&condition, &|smith, is_then| {
            let kind = if is_then { "aten::mul" } else { "aten::add" };
            Some(vec![smith.made_of(kind, &[real.clone(), real.clone()])?])
        })?;
        self.see_number(&results[0])
    }

    /// Code after a conditional exception may assume its condition to be false, or nothing.
    pub(super) fn raises_otherwise(&mut self) -> Option<()> {
        let value = self.draws.int(1, 4);
        let (equals, when) = (self.chance(2), self.chance(2));
        let kind = self.pick(&["aten::eq", "aten::ne"]);
        // The exception is not raised.
        let number = if equals { value } else { value + 2 };
        let holds = (kind == "aten::eq") == equals;
        let (n, other) = (self.unknown(IValue::Int(value)), self.constant(IValue::Int(number)));
        let condition = self.made_of(kind, &[n.clone(), other])?;
        let condition = if holds == when { self.of("aten::__not__", &condition)? } else { condition };
        self.raise_if(&condition, when, "told");
        let square = self.made_of("aten::mul", &[n.clone(), n])?;
        self.see_number(&square)
    }

    /// A float minus a zero of either sign.
    pub(super) fn float_less_zero(&mut self) -> Option<()> {
        let values = [self.pick(&[-0.0, -0.0, 0.0, 1.5]), self.pick(&[-0.0, -0.0, 0.0])];
        let (real, zero) = (self.unknown(IValue::Float(values[0])), self.constant(IValue::Float(values[1])));
        let difference = self.made_of("aten::sub", &[real, zero])?;
        self.see_number(&difference)
    }

    /// Consecutive `_grad_sum_to_size` operators, where the last size may be None.
    pub(super) fn summed_to_sizes(&mut self) -> Option<()> {
        let x = self.floats(&[2, 3]);
        let list = |sizes: &[i64]| IValue::list(sizes.iter().map(|&n| IValue::Int(n)));
        let sizes = self.constant(list(&[1, 3]));
        let inner = self.made_of("aten::_grad_sum_to_size", &[x, sizes])?;
        let last = self.pick(&[IValue::None, IValue::None, list(&[3])]);
        let optional = Type::new(TypeKind::Optional(Type::list(Type::int())));
        let last = if self.chance(4) { self.constant(list(&[3])) } else { self.given(last, optional) };
        let outer = self.made_of("aten::_grad_sum_to_size", &[inner, last])?;
        self.see(&outer)
    }

    /// `x / 1`, `x · 1`, `x ¹` of integers.
    pub(super) fn neutral_of_integers(&mut self) -> Option<()> {
        let dtype = self.pick(&[DType::Long, DType::Int, DType::Float]);
        let one = self.pick(&[IValue::Int(1), IValue::Int(1), IValue::Float(1.0)]);
        let (x, one) = (self.typed(&[3], dtype), self.constant(one));
        // Fresh memory that no other value aliases.
        let x = self.rectified(&x)?;
        self.complete_type(&x);
        let kind = self.pick(&["aten::div", "aten::mul", "aten::pow"]);
        let made = self.made_of(kind, &[x, one])?;
        self.graph.set_type(made.0, Type::tensor());
        self.see(&made)
    }

    /// Identities of finite numbers: `x == x`, and `x - x == 0`.
    pub(super) fn infinite_in_identities(&mut self) -> Option<()> {
        let numbers = [f64::INFINITY, f64::NAN, -1.5, f64::NEG_INFINITY];
        let value = IValue::Tensor(Tensor::of(&numbers, DType::Float, &[4], Precision::Typed));
        let x = self.given(value, Type::tensor());
        let (one, zero) = (self.one(), self.constant(IValue::Int(0)));
        let made = match self.draws.below(3) {
            0 => self.made_of("aten::sub", &[x.clone(), x, one]),
            1 => self.made_of("aten::div", &[x.clone(), x]),
            _ => self.made_of("aten::mul", &[x, zero]),
        }?;
        self.see(&made)
    }

    /// Types do not show whether operands of multiplications and additions are bools.
    pub(super) fn neutral_of_bools(&mut self) -> Option<()> {
        let dtype = self.pick(&[DType::Bool, DType::Bool, DType::Float]);
        let (x, one, zero) = (self.untyped(&[3], dtype), self.one(), self.constant(IValue::Int(0)));
        let kind = if dtype == DType::Bool { "aten::logical_not" } else { "aten::abs" };
        let x = self.of(kind, &x)?;
        self.graph.set_type(x.0, Type::tensor());
        let made = match self.draws.below(4) {
            0 => self.made_of("aten::add", &[x, zero, one]),
            1 => self.made_of("aten::div", &[x, one]),
            _ => self.made_of("aten::mul", &[x, one]),
        }?;
        self.graph.set_type(made.0, Type::tensor());
        self.see(&made)
    }

    /// The unknown length of a list, queried again where it is known.
    pub(super) fn list_length_tested(&mut self) -> Option<()> {
        let parts: Vec<IValue> = (0..2).map(|_| self.tensor_of_shape(&[2], DType::Float)).collect();
        let list = self.given(IValue::list(parts), Type::list(Type::tensor()));
        let length = self.of("aten::len", &list)?;
        let other = IValue::Int(self.draws.int(1, 4));
        let other = self.constant(other);
        let kind = self.pick(&["aten::eq", "aten::ne"]);
        let condition = self.made_of(kind, &[length, other])?;
        let results = self.either(&condition, &|smith, is_then| {
            let length = smith.of("aten::len", &list)?;
            Some(vec![if is_then { length } else { smith.of("aten::neg", &length)? }])
        })?;
        self.see_number(&results[0])
    }

    /// Two equal attention operators, with or without dropout.
    pub(super) fn attended_twice(&mut self) -> Option<()> {
        let x = self.floats(&[1, 2, 3, 2]);
        let rate = self.pick(&[0.5, 0.5, 0.25, 0.0]);
        let (rate, none, no) =
            (self.constant(IValue::Float(rate)), self.constant(IValue::None), self.constant(IValue::Bool(false)));
        let operands = [x.clone(), x.clone(), x, none.clone(), rate, no.clone(), none, no];
        let (a, b) = (
            self.made_of("aten::scaled_dot_product_attention", &operands)?,
            self.made_of("aten::scaled_dot_product_attention", &operands)?,
        );
        let one = self.one();
        let difference = self.made_of("aten::sub", &[a, b, one])?;
        self.see(&difference)
    }

    /// Random operators with constant operands are not constant.
    pub(super) fn draws_of_constants(&mut self) -> Option<()> {
        let sizes = self.constant(IValue::list([IValue::Int(8)]));
        let (half, none) = (self.constant(IValue::Float(0.5)), self.constant(IValue::None));
        let dtype = self.constant(IValue::Int(6));
        let more = std::iter::repeat_n(none.clone(), 3);
        let operands: Vec<Known> = [sizes, half, dtype].into_iter().chain(more).collect();
        let rates = self.made_of("aten::full", &operands)?;
        let drawn = self.made_of("aten::bernoulli", &[rates, none])?;
        let x = self.floats(&[8]);
        let sum = self.sum(&x, &drawn)?;
        self.see(&sum)
    }

    /// A norm of zeros: without a bias, their sign is that of the weight.
    pub(super) fn norm_of_zeros(&mut self) -> Option<()> {
        let (x, weight, mean) =
            (self.typed(&[3, 2], DType::Float), self.typed(&[2], DType::Float), self.typed(&[2], DType::Float));
        let zero = self.constant(IValue::Int(0));
        let x = self.made_of("aten::mul", &[x, zero.clone()])?;
        self.complete_type(&x);
        let mean = self.made_of("aten::mul", &[mean, zero])?;
        let variance = self.of("aten::exp", &mean)?;
        [&mean, &variance].into_iter().for_each(|known| self.complete_type(known));
        let (half, no, none) =
            (self.constant(IValue::Float(0.5)), self.constant(IValue::Bool(false)), self.constant(IValue::None));
        let operands = [x, weight, none, mean, variance, no.clone(), half.clone(), half, no];
        let made = self.made_of("aten::batch_norm", &operands)?;
        self.see(&made)
    }

    /// Running statistics that a norm updates, in the memory of its weight, of its bias, or of
    /// their own.
    pub(super) fn norm_that_trains(&mut self) -> Option<()> {
        let x = self.typed(&[3, 2], DType::Float);
        let [weight, bias, mean, variance] = [(); 4].map(|()| self.typed(&[2], DType::Float));
        let rows: Option<Vec<Known>> =
            [weight, bias, mean, variance].iter().map(|row| self.of("aten::abs", row)).collect();
        let rows = rows?;
        let [mean, variance] = [self.pick(&[0, 1, 2, 2]), self.pick(&[0, 1, 3, 3])].map(|i: usize| rows[i].clone());
        let (half, no, yes) =
            (self.constant(IValue::Float(0.5)), self.constant(IValue::Bool(false)), self.constant(IValue::Bool(true)));
        let operands = [x, rows[0].clone(), rows[1].clone(), mean.clone(), variance, yes, half.clone(), half, no];
        let made = self.made_of("aten::batch_norm", &operands)?;
        self.see(&made)?;
        self.see(&mean)
    }

    /// A norm whose element type is too small for its epsilon.
    pub(super) fn norm_of_few_bits(&mut self) -> Option<()> {
        let dtype = self.pick(&[DType::Half, DType::BFloat16, DType::Float]);
        let x = self.typed(&[3, 2], dtype);
        let [weight, bias, mean] = [(); 3].map(|()| self.typed(&[2], dtype));
        let zero = self.constant(IValue::Int(0));
        let variance = self.made_of("aten::mul", &[mean.clone(), zero])?;
        self.complete_type(&variance);
        let (half, epsilon) = (self.constant(IValue::Float(0.5)), self.constant(IValue::Float(1e-8)));
        let no = self.constant(IValue::Bool(false));
        let operands = [x, weight, bias, mean, variance, no.clone(), half, epsilon, no];
        let made = self.made_of("aten::batch_norm", &operands)?;
        self.see(&made)
    }

    /// Sums, differences and products of unknown numbers, integers or floats: rules that apply to
    /// one of them only.
    pub(super) fn integers_in_patterns(&mut self) -> Option<()> {
        let whole = self.chance(2);
        let number = |smith: &mut Smith, n: f64| match whole {
            true => smith.unknown(IValue::Int(n as i64)),
            false => smith.unknown(IValue::Float(n)),
        };
        let (a, b) = (number(self, 3.0), number(self, 1e17));
        let made = match self.draws.below(3) {
            0 => {
                let sum = self.made_of("aten::add", &[a, b.clone()])?;
                self.made_of("aten::sub", &[sum, b])
            }
            1 => {
                let other = if self.chance(2) { a.clone() } else { b };
                self.made_of("aten::sub", &[a, other])
            }
            _ => {
                let factor = IValue::Int(self.draws.int(2, 4));
                let factor = self.constant(factor);
                self.made_of("aten::mul", &[a, factor])
            }
        }?;
        let seen: Value = made.0;
        self.graph.set_type(seen, returned(&made.1));
        self.see_number(&made)
    }
}
