//! Pointwise operators, interrupted by chunks, concatenations, random operators, size queries, and
//! writes to their operands.

use super::super::{Known, Smith, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Attribute;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;

impl Smith {
    /// Two halves of a matrix.
    fn two_parts(&mut self, x: &Known, dim: i64) -> Option<[Known; 2]> {
        let tensor = x.1.tensor()?.clone();
        let length = tensor.size(usize::try_from(dim).ok()?) / 2;
        let node = self.graph.create(prim::CONSTANT_CHUNK);
        self.graph.add_input(node, x.0);
        self.graph.set_attribute(node, attr::CHUNKS, Attribute::Int(2));
        self.graph.set_attribute(node, attr::DIM, Attribute::Int(dim));
        self.graph.append(self.block, node);
        let part = |i: i64| IValue::Tensor(tensor.narrow(dim as usize, i * length, length, 1));
        Some([part(0), part(1)].map(|value| (self.graph.add_output(node, returned(&value)), value)))
    }

    /// The halves of a computed value, with broadcasting, without it, or random. Its operands may
    /// be written.
    pub(super) fn computed_and_divided(&mut self) -> Option<()> {
        let (x, shape) = (self.floats(&[2, 4]), self.pick(&[&[2, 4][..], &[4], &[3, 2, 4]]));
        let dtype = self.pick(&[DType::Float, DType::Double]);
        let y = self.untyped(shape, dtype);
        let x = self.of("aten::abs", &x)?;
        let computed = match self.draws.below(4) {
            0 => self.made_of("aten::type_as", &[x.clone(), y]),
            1 => self.drawn_like(&x),
            2 if shape.len() < 3 => self.made_of("aten::mul", &[x.clone(), y]),
            _ => self.made_of("aten::mul", &[x.clone(), x.clone()]),
        }?;
        let [early, late] = [self.chance(3), self.chance(3)];
        if early {
            self.grow(&x)?;
        }
        let [a, b] = self.two_parts(&computed, 1)?;
        if late {
            self.grow(&x)?;
        }
        let product = self.made_of("aten::mul", &[a, b])?;
        self.see(&product)
    }

    fn drawn_like(&mut self, x: &Known) -> Option<Known> {
        let none = self.constant(IValue::None);
        let more = std::iter::repeat_n(none, 5);
        self.made_of("aten::rand_like", &std::iter::once(x.clone()).chain(more).collect::<Vec<_>>())
    }

    /// Chunks of one matrix by rows and by columns.
    pub(super) fn divided_both_ways(&mut self) -> Option<()> {
        let x = self.floats(&[2, 2]);
        let other = if self.chance(3) { 0 } else { 1 };
        let ([a, b], [c, d]) = (self.two_parts(&x, 0)?, self.two_parts(&x, other)?);
        let (rows, columns) = (self.sum(&a, &b)?, self.sum(&c, &d)?);
        let product = self.made_of("aten::mul", &[rows, columns])?;
        self.see(&product)
    }

    /// A size query on an intermediate value.
    pub(super) fn size_on_the_way(&mut self) -> Option<()> {
        let (x, shape) = (self.floats(&[2, 4]), self.pick(&[&[4][..], &[3, 2, 4], &[3, 2, 4]]));
        let y = self.untyped(shape, DType::Double);
        let kind = self.pick(&["aten::type_as", "aten::type_as", "aten::mul"]);
        let between = self.made_of(kind, &[x, y])?;
        let last = self.of("aten::neg", &between)?;
        let size = self.of("aten::size", &between)?;
        self.see(&last)?;
        self.see(&size)
    }

    /// An element of a list is written before the list is concatenated.
    pub(super) fn joined_after_a_write(&mut self) -> Option<()> {
        let (x, y) = (self.floats(&[2, 4]), self.floats(&[2, 4]));
        let (a, b) = (self.made_of("aten::mul", &[x.clone(), y.clone()])?, self.made_of("aten::mul", &[y, x])?);
        let list = self.list(&[a.clone(), b], Type::tensor())?;
        if !self.chance(3) {
            self.grow(&a)?;
        }
        let dim = self.constant(IValue::Int(1));
        let joined = self.made_of("aten::cat", &[list, dim])?;
        self.see(&joined)
    }

    /// Random operators among pointwise ones.
    pub(super) fn drawn_on_the_way(&mut self) -> Option<()> {
        let x = self.floats(&[2, 4]);
        let like = self.of("aten::abs", &x)?;
        let drawn = self.drawn_like(&like)?;
        let product = self.made_of("aten::mul", &[drawn, x])?;
        let last = self.of("aten::tanh", &product)?;
        self.see(&last)
    }
}
