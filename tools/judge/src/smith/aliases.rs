//! Aliased memory, and writes to it.

use super::{Known, O, Smith};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::symbol::prim;
use jitopt_core::tensor::{Precision, Scalar, Tensor};
use jitopt_core::types::Type;
use jitopt_core::types::spelling::parse_all;

impl Smith {
    /// A view of a view, a write through one of them, and a read of another.
    pub(super) fn write_through(&mut self) {
        if self.pure {
            return;
        }
        let fresh = match self.draws.below(4) {
            0 => self.tensor_constant(),
            1 => None,
            _ => self.earlier(O::Tensor).and_then(|base| {
                let none = self.constant(IValue::None);
                self.made_of("aten::clone", &[base, none])
            }),
        };
        let Some(base) = fresh.or_else(|| self.earlier(O::Tensor)) else { return };
        let mut chain = vec![base];
        for _ in 0..1 + self.draws.below(3) {
            let from = self.pick(&chain);
            chain.extend(self.view(from));
        }
        if self.chance(2) {
            let before = self.pick(&chain);
            self.made_of("aten::neg", &[before]);
        }
        let written = self.pick(&chain);
        let other = self.earlier(O::Tensor).unwrap_or(written.clone());
        let one = self.constant(IValue::Int(1));
        match self.draws.below(4) {
            0 => self.made_of("aten::zero_", &[written]),
            1 => self.made_of("aten::add_", &[written, other, one]),
            2 => {
                let value = self.constant(IValue::Float(0.5));
                self.made_of("aten::fill_", &[written, value])
            }
            _ => self.made_of("aten::mul_", &[written, one]).or_else(|| None),
        };
        let read = self.pick(&chain);
        if self.chance(2) {
            self.made_of("aten::neg", &[read]);
        }
    }

    /// Two equal nodes that are random or have several results, and the difference of their
    /// results.
    pub(super) fn equal_nodes(&mut self) {
        let Some(x) = self.earlier(O::Tensor) else { return };
        let (none, no) = (self.constant(IValue::None), self.constant(IValue::Bool(false)));
        let (half, zero) = (self.constant(IValue::Float(0.5)), self.constant(IValue::Int(0)));
        let Some(flag) = self.operand(O::Bool) else { return };
        let (kind, operands) = match self.draws.below(7) {
            0 => ("aten::rand_like", vec![x, none.clone(), none.clone(), none.clone(), none.clone(), none]),
            1 | 2 => ("aten::dropout", vec![x, half, flag]),
            3 | 5 => (
                "aten::scaled_dot_product_attention",
                vec![x.clone(), x.clone(), x, none.clone(), half, no.clone(), none, no],
            ),
            4 => ("aten::max", vec![x, zero, no]),
            _ => ("aten::sort", vec![x, zero, no]),
        };
        let at = self.known.len();
        let (first, last) = (self.graph.last(self.block), self.known.len());
        if !self.run(kind, &operands) || !self.run(kind, &operands) {
            return self.take_back(first, last);
        }
        let made: Vec<Known> = self.known[at..].to_vec();
        let (a, b) = (self.pick(&made), self.pick(&made));
        let one = self.constant(IValue::Int(1));
        self.made_of("aten::sub", &[a, b, one]);
    }

    /// Equal constants that may be written.
    pub(super) fn equal_constants(&mut self) {
        let mut made: Vec<Known> = Vec::new();
        if self.chance(4) {
            return self.zeros_of_both_signs();
        }
        let (list, number) = (self.chance(2), self.draws.int(0, 2));
        for _ in 0..2 + self.draws.below(2) {
            let known = if list {
                let known = self.constant(IValue::list([IValue::Int(1), IValue::Int(2)]));
                self.known.push(known.clone());
                Some(known)
            } else {
                self.tensor_of(number)
            };
            made.extend(known);
        }
        if self.chance(2) {
            made.iter().skip(usize::from(self.chance(2))).for_each(|known| self.shown(known.0));
        }
        let written = self.pick(&made);
        if self.pure || self.chance(3) {
            return;
        }
        if list {
            let number = self.constant(IValue::Int(7));
            self.made_of("aten::append", &[written, number]);
        } else {
            let number = self.constant(IValue::Int(3));
            self.made_of("aten::fill_", &[written, number]);
        }
    }

    fn zeros_of_both_signs(&mut self) {
        let Some(x) = self.earlier(O::Tensor) else { return };
        let sums = [1, 2].map(|alpha| {
            let alpha = self.constant(IValue::Int(alpha));
            self.made_of("aten::add", &[x.clone(), x.clone(), alpha])
        });
        if let [Some(one), Some(two)] = sums {
            self.difference(one, two);
        }
        let none = self.constant(IValue::None);
        for zero in [0.0, -0.0] {
            let zero = self.constant(IValue::Float(zero));
            let rest = [none.clone(), none.clone(), none.clone(), none.clone(), none.clone()];
            let operands: Vec<Known> = [x.clone(), zero].into_iter().chain(rest).collect();
            let made = self.made_of("aten::full_like", &operands);
            made.into_iter().for_each(|known| self.shown(known.0));
        }
    }

    pub(super) fn view(&mut self, from: Known) -> Option<Known> {
        let zero = |smith: &mut Smith| smith.constant(IValue::Int(0));
        match self.draws.below(7) {
            0 => {
                let (dim, index) = (zero(self), zero(self));
                self.made_of("aten::select", &[from, dim, index])
            }
            1 => self.made_of("aten::t", &[from]),
            2 => {
                let dim = zero(self);
                self.made_of("aten::unsqueeze", &[from, dim])
            }
            3 => {
                let (dim, start, length) = (zero(self), zero(self), self.constant(IValue::Int(1)));
                self.made_of("aten::narrow", &[from, dim, start, length])
            }
            4 => self.made_of("aten::detach", &[from]),
            5 => {
                let format = zero(self);
                self.made_of("aten::contiguous", &[from, format])
            }
            _ => self.made_of("aten::expand_as", &[from.clone(), from]),
        }
    }

    /// Creates a node and returns its first result.
    pub(super) fn made_of(&mut self, kind: &str, operands: &[Known]) -> Option<Known> {
        let at = self.known.len();
        if self.run(kind, operands) { self.known.get(at).cloned() } else { None }
    }

    /// A tensor constant with its element in the text, `{1}`.
    pub(super) fn tensor_constant(&mut self) -> Option<Known> {
        let number = self.draws.int(0, 2);
        self.tensor_of(number)
    }

    fn tensor_of(&mut self, number: i64) -> Option<Known> {
        let (dtype, ty) = self.pick(&[
            (jitopt_core::tensor::DType::Long, "Long()"),
            (jitopt_core::tensor::DType::Float, "Float()"),
            (jitopt_core::tensor::DType::Long, "Long()"),
        ]);
        // With a decimal point, because the text alone determines the element type.
        let scalar = if ty == "Float()" { Scalar::Float(number as f64 + 0.5) } else { Scalar::Int(number) };
        let value = IValue::Tensor(Tensor::scalar(scalar, dtype, Precision::Typed));
        let node = self.graph.create(prim::CONSTANT);
        let attribute = super::written(&value)?;
        self.graph.set_attribute(node, jitopt_core::symbol::attr::VALUE, attribute);
        let known = self.constant_node(node, value, parse_all(ty.as_bytes()).unwrap_or(Type::tensor()));
        self.known.push(known.clone());
        Some(known)
    }

    /// An expansion like those that tracing inserts before a broadcasting operator, which is its
    /// only user.
    pub(super) fn expand(&mut self) {
        // An expansion that fits one shape does not fit another.
        if !self.is_certain() {
            return;
        }
        let (Some(large), Some(small)) = (self.earlier(O::Tensor), self.earlier(O::Tensor)) else { return };
        let IValue::Tensor(wanted) = &large.1 else { return };
        let sizes = IValue::list(wanted.shape().iter().map(|&n| IValue::Int(n)).collect::<Vec<_>>());
        // A zero-dimensional tensor does not take part in type promotion, but would after the
        // expansion.
        if wanted.rank() == 0 || small.1.tensor().is_none_or(|small| small.rank() == 0) {
            return;
        }
        let (first, last) = (self.graph.last(self.block), self.known.len());
        let (sizes, implicit) = (self.constant(sizes), self.constant(IValue::Bool(true)));
        let expanded = self.made_of("aten::expand", &[small, sizes, implicit]);
        let Some(expanded) = expanded else { return self.take_back(first, last) };
        self.known.truncate(last);
        self.made.pop();
        let one = self.constant(IValue::Int(1));
        let pair = if self.chance(2) { [large, expanded] } else { [expanded, large] };
        let done = match self.draws.below(3) {
            0 => self.run("aten::mul", &pair),
            kind => {
                let [a, b] = pair;
                self.run(["aten::sub", "aten::add"][kind - 1], &[a, b, one])
            }
        };
        // Repeating the operator would use the expanded value again.
        self.made.truncate(self.made.len() - usize::from(done));
        if !done {
            self.take_back(first, last);
        }
    }

    /// A batch norm whose running statistics are updated, or not.
    pub(super) fn batch_norm(&mut self) {
        let Some((x, IValue::Tensor(input))) = self.earlier(O::Tensor) else { return };
        if input.rank() < 2 || !input.dtype().is_float() {
            return;
        }
        let (first, last) = (self.graph.last(self.block), self.known.len());
        let channels = input.size(1);
        let mean = self.statistics(x, &input, channels, "aten::zeros_like");
        let var = self.statistics(x, &input, channels, "aten::ones_like");
        let (Some(mean), Some(var)) = (mean, var) else { return self.take_back(first, last) };
        // Passes skip norms whose operands may have different element types.
        [&mean, &var].into_iter().for_each(|known| self.declare(known));
        let none = self.constant(IValue::None);
        let training = self.operand(O::Bool);
        let numbers = [self.constant(IValue::Float(0.5)), self.constant(IValue::Float(0.001))];
        let enabled = self.constant(IValue::Bool(false));
        let Some(training) = training else { return self.take_back(first, last) };
        let [momentum, epsilon] = numbers;
        let x = (x, IValue::Tensor(input));
        let operands = [x, none.clone(), none, mean, var, training, momentum, epsilon, enabled];
        let statistics = [operands[3].clone(), operands[4].clone()];
        let which = self.draws.below(2);
        let before = self.made_of("aten::mul", &[statistics[which].clone(), statistics[which].clone()]);
        if !self.run("aten::batch_norm", &operands) {
            return self.take_back(first, last);
        }
        let after = self.made_of("aten::mul", &[statistics[which].clone(), statistics[which].clone()]);
        if let (Some(before), Some(after)) = (before, after) {
            self.difference(before, after);
        }
    }

    fn statistics(&mut self, x: Value, input: &Tensor, channels: i64, kind: &str) -> Option<Known> {
        let mut row = (x, IValue::Tensor(input.clone()));
        while let IValue::Tensor(tensor) = &row.1 {
            let rank = tensor.rank();
            if rank == 1 && tensor.size(0) == channels {
                break;
            }
            let dim = self.constant(IValue::Int(if rank == input.rank() { 0 } else { 1 }));
            let at = self.constant(IValue::Int(0));
            row = self.made_of("aten::select", &[row, dim, at])?;
        }
        let none = self.constant(IValue::None);
        self.made_of(kind, &[row, none.clone(), none.clone(), none.clone(), none.clone(), none])
    }
}
