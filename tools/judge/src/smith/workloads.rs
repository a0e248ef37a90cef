//! Typical code of programs that random choice does not generate: norms, gradients, int
//! comparisons, chunks.

use super::{Known, O, Smith, refined, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Attribute;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::tensor::{DType, Precision, Scalar, Tensor};
use jitopt_core::types::Type;

impl Smith {
    /// One workload on existing values.
    pub(super) fn workload(&mut self) {
        match self.draws.below(5) {
            0 => self.norm(),
            1 => self.gradients(),
            2 => self.compared_ints(),
            3 => self.addmm(),
            _ => self.numbers_and_chunks(),
        }
    }

    /// Some square floating-point matrices.
    fn squares(&mut self) -> Option<Vec<Known>> {
        let is_matrix = |(_, value): &&Known| match value {
            IValue::Tensor(tensor) => tensor.rank() == 2 && tensor.dtype().is_float() && tensor.numel() > 0,
            _ => false,
        };
        let x = self.known.iter().rev().find(is_matrix).cloned();
        let x = x.or_else(|| self.matrix())?;
        let transposed = self.made_of("aten::t", std::slice::from_ref(&x))?;
        let a = self.made_of("aten::mm", &[x, transposed])?;
        let b = self.made_of("aten::neg", std::slice::from_ref(&a))?;
        let c = self.made_of("aten::sigmoid", std::slice::from_ref(&a))?;
        Some(vec![a, b, c])
    }

    /// A matrix of ones, of one of two sizes.
    fn matrix(&mut self) -> Option<Known> {
        let parts = [IValue::Int(2), IValue::Int(3)].map(|size| self.constant(size));
        let shape = self.list(&parts, Type::int())?;
        let dtype = self.constant(IValue::Int(6));
        let [layout, device, pin] = [(); 3].map(|()| self.constant(IValue::None));
        self.made_of("aten::ones", &[shape, dtype, layout, device, pin])
    }

    fn show(&mut self, known: Option<Known>) -> Option<Known> {
        let known = known?;
        self.shown(known.0);
        Some(known)
    }

    fn addmm(&mut self) {
        let Some(matrices) = self.squares() else { return };
        let [summand, a, b] = [0, 1, 2].map(|i: usize| matrices[i].clone());
        let [beta, alpha] = [(); 2].map(|()| if self.chance(4) { 2 } else { 1 });
        let [beta, alpha] = [beta, alpha].map(|n| self.constant(IValue::Int(n)));
        let made = self.made_of("aten::addmm", &[summand, a, b, beta, alpha]);
        self.show(made);
    }

    fn norm(&mut self) {
        let Some(matrices) = self.squares() else { return };
        let zero = self.constant(IValue::Int(0));
        let row =
            |smith: &mut Smith, of: &Known| smith.made_of("aten::select", &[of.clone(), zero.clone(), zero.clone()]);
        let (Some(weight), Some(bias)) = (row(self, &matrices[1]), row(self, &matrices[2])) else { return };
        let how = self.draws.below(4);
        let (x, weight, bias) = match how {
            // Half-precision input with single-precision weights: the norm's result is half
            // precision.
            0 => (self.halves(&matrices[0]), weight, bias),
            1 => (matrices[0].clone(), self.constant(IValue::None), bias),
            // Near the largest value of half precision, where a decomposed norm would overflow
            // before it is scaled.
            2 => (self.scaled(&matrices[2], 65000.0), self.scaled(&bias, 0.5), self.halves(&bias)),
            _ => (matrices[0].clone(), weight, bias),
        };
        let IValue::Tensor(tensor) = &x.1 else { return };
        // Passes skip norms whose operands may have different element types.
        [&x, &weight, &bias].into_iter().for_each(|known| self.declare(known));
        let (eps, no) = (self.constant(IValue::Float(0.5)), self.constant(IValue::Bool(false)));
        let made = if self.chance(2) && how != 2 {
            let size = self.constant(IValue::Int(tensor.size(1)));
            let Some(shape) = self.list(&[size], Type::int()) else { return };
            self.made_of("aten::layer_norm", &[x, shape, weight, bias, eps, no])
        } else {
            let trains = self.chance(3) && how != 2;
            let trains = self.constant(IValue::Bool(trains));
            let shared = if self.chance(2) { bias.clone() } else { weight.clone() };
            let (mean, var) = match row(self, &matrices[2]) {
                Some(mean) if !self.chance(3) => (mean.clone(), self.made_of("aten::mul", &[mean.clone(), mean])),
                _ => (shared, row(self, &matrices[2])),
            };
            let Some(var) = var else { return };
            let (mean, var) = if how == 2 { (self.halves(&mean), self.scaled(&var, 0.125)) } else { (mean, var) };
            [&mean, &var].into_iter().for_each(|known| self.declare(known));
            let half = self.constant(IValue::Float(0.5));
            let operands = [x, weight, bias, mean, var, trains, half, eps, no];
            self.made_of("aten::batch_norm", &operands)
        };
        self.show(made);
    }

    /// A tensor in half precision.
    fn halves(&mut self, of: &Known) -> Known {
        let half = self.constant(IValue::Int(5));
        let [no, copy, format] = [IValue::Bool(false), IValue::Bool(false), IValue::None].map(|v| self.constant(v));
        self.made_of("aten::to", &[of.clone(), half, no, copy, format]).unwrap_or_else(|| of.clone())
    }

    /// A multiple of a tensor, in half precision.
    fn scaled(&mut self, of: &Known, times: f64) -> Known {
        let times = self.constant(IValue::Float(times));
        let scaled = self.made_of("aten::mul", &[of.clone(), times]);
        self.halves(&scaled.unwrap_or_else(|| of.clone()))
    }

    fn gradients(&mut self) {
        let Some(matrices) = self.squares() else { return };
        let zero = self.graph.create_op(prim::AUTOGRAD_ZERO, &[], Type::tensor());
        self.graph.append(self.block, zero);
        let mut gradients = vec![(self.graph.output(zero, 0), IValue::Undefined)];
        gradients.extend(matrices.iter().take(2).cloned());
        for _ in 0..4 {
            let (a, b) = (self.pick(&gradients), self.pick(&gradients));
            let made = if self.chance(2) { self.gradient_sum(a, b) } else { self.formula(a, b, &matrices[2]) };
            if let IValue::Tensor(_) = &made.1 {
                self.known.push(made.clone());
                self.shown(made.0);
            }
            gradients.push(made);
        }
    }

    pub(super) fn gradient_sum(&mut self, a: Known, b: Known) -> Known {
        let node = self.graph.create_op(prim::AUTOGRAD_ADD, &[a.0, b.0], Type::tensor());
        self.graph.append(self.block, node);
        let value = match (&a.1, &b.1) {
            (IValue::Undefined, _) => b.1.clone(),
            (_, IValue::Undefined) => a.1.clone(),
            (IValue::Tensor(a), _) => IValue::Tensor(a.copied()),
            (other, _) => other.clone(),
        };
        (self.graph.output(node, 0), value)
    }

    /// A gradient formula with two gradients and a tensor.
    pub(super) fn formula(&mut self, a: Known, b: Known, of: &Known) -> Known {
        let node = self.graph.create(prim::GRAD_OF);
        [a.0, b.0].into_iter().for_each(|value| self.graph.add_input(node, value));
        self.graph.set_attribute(node, attr::NAME, Attribute::Str((*b"aten::mul").into()));
        self.graph.append(self.block, node);
        let body = self.graph.add_block(node);
        let (outer, seen) = (std::mem::replace(&mut self.block, body), self.known.len());
        let made = self.made_of("aten::neg", std::slice::from_ref(of));
        self.known.truncate(seen);
        self.block = outer;
        let (value, known) = made.unwrap_or(of.clone());
        self.graph.add_result(body, value);
        let output = self.graph.add_output(node, Type::tensor());
        let defined = [&a.1, &b.1].into_iter().any(|value| !matches!(value, IValue::Undefined));
        let copied = if let IValue::Tensor(tensor) = &known { IValue::Tensor(tensor.copied()) } else { known };
        (output, if defined { copied } else { IValue::Undefined })
    }

    fn compared_ints(&mut self) {
        let is_int = |(value, known): &&Known| matches!(known, IValue::Int(_)) && self.graph.constant(*value).is_none();
        let Some((n, IValue::Int(number))) = self.known.iter().rev().find(is_int).cloned() else {
            let length = self.earlier(O::Tensor).and_then(|x| self.made_of("aten::dim", &[x]));
            return if length.is_some() {
                self.compared_ints()
            };
        };
        let x = (n, IValue::Int(number));
        let guess = if self.chance(3) { number + 1 } else { number };
        let guess = self.constant(IValue::Int(guess));
        let kind = self.pick(&["aten::eq", "aten::eq", "aten::ne"]);
        let operands = if self.chance(2) { [x.clone(), guess] } else { [guess, x.clone()] };
        let Some(mut condition) = self.made_of(kind, &operands) else { return };
        if self.chance(3) {
            let Some(not) = self.made_of("aten::__not__", &[condition]) else { return };
            condition = not;
        }
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let mut results = Vec::new();
        for kind in ["aten::add", "aten::sub"] {
            let block = self.graph.add_block(node);
            let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
            let result = self.made_of(kind, &[x.clone(), x.clone()]).unwrap_or(x.clone());
            self.known.truncate(seen);
            self.block = outer;
            self.graph.add_result(block, result.0);
            results.push(result.1);
        }
        let taken = usize::from(matches!(condition.1, IValue::Bool(false)));
        let output = self.graph.add_output(node, Type::int());
        self.known.push((output, results[taken].clone()));
        self.shown(output);
        let square = self.made_of("aten::mul", &[x.clone(), x]);
        self.show(square);
    }

    /// A constant zero-dimensional tensor in arithmetic, and an unpacked chunk.
    fn numbers_and_chunks(&mut self) {
        let Some(x) = self.earlier(O::Tensor) else { return };
        let IValue::Tensor(_) = &x.1 else { return };
        self.declare(&x);
        let n = self.pick(&[1, 2, 3, 300]);
        let value = Tensor::scalar(Scalar::Int(n), DType::Long, Precision::Typed);
        let node = self.graph.create(prim::CONSTANT);
        self.graph.set_attribute(node, attr::VALUE, Attribute::Tensor(format!("{{{n}}}").into()));
        let constant = self.constant_node(node, IValue::Tensor(value.clone()), refined(&value));
        let kind = self.pick(&["aten::mul", "aten::div", "aten::add", "aten::sub"]);
        let mut operands = vec![x.clone(), constant];
        if matches!(kind, "aten::add" | "aten::sub") {
            operands.push(self.constant(IValue::Int(1)));
        }
        let made = self.made_of(kind, &operands);
        self.show(made);
        let [chunks, dim] = [2, -1].map(|n| self.constant(IValue::Int(n)));
        let Some((list, IValue::List(parts))) = self.made_of("aten::chunk", &[x, chunks, dim]) else { return };
        let unpack = self.graph.create(Symbol::new("prim::ListUnpack"));
        self.graph.add_input(unpack, list);
        self.graph.append(self.block, unpack);
        for part in parts.borrow().iter() {
            let output = self.graph.add_output(unpack, returned(part));
            self.known.push((output, part.clone()));
            self.shown(output);
        }
    }
}
