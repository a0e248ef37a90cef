//! Aliased memory, with writes in between.

use super::super::{Known, Smith};
use jitopt_core::interpreter::IValue;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::types::Type;

impl Smith {
    /// A branch returns the same memory as two results; one of them is written.
    pub(super) fn branch_of_two_names(&mut self) -> Option<()> {
        let (x, flag) = (self.floats(&[2, 3]), self.flag());
        let view = self.pick(&["aten::t", "aten::alias", "aten::neg"]);
        let both = self.either(&flag, &|smith, is_then| {
            let kind = if is_then { "aten::relu" } else { "aten::tanh" };
            let made = smith.of(kind, &x)?;
            let other = smith.of(view, &made)?;
            Some(vec![made, other])
        })?;
        let grown = self.grow(&both[0])?;
        self.see(&grown)?;
        self.see(&both[1])
    }

    /// An in-place operator keeps the element type of its destination, whatever the source is.
    pub(super) fn written_in_wider_elements(&mut self) -> Option<()> {
        let (x, wider) = (self.floats(&[2]), self.typed(&[2], DType::Double));
        let memory = self.rectified(&x)?;
        let one = self.one();
        let written = match self.draws.below(3) {
            0 => self.made_of("aten::add_", &[memory, wider, one]),
            1 => self.made_of("aten::mul_", &[memory, wider]),
            _ => {
                let kind = self.pick(&["aten::lt_", "aten::ge_", "aten::ne_"]);
                self.made_of(kind, &[memory, x])
            }
        }?;
        self.see(&written)
    }

    /// Concatenations of concatenations: along another dimension, of another element type, with a
    /// write in between.
    pub(super) fn joined_of_joined(&mut self) -> Option<()> {
        let (first, second, last) = self.pick(&[
            (DType::Float, DType::Float, DType::Float),
            (DType::Float, DType::Float, DType::Float),
            (DType::Long, DType::Half, DType::Float),
            (DType::Double, DType::Float, DType::Float),
        ]);
        let (a, b) = (self.large(first), self.typed(&[2, 2], second));
        let b = self.rectified(&b)?;
        self.complete_type(&b);
        let dims = self.pick(&[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0], [1, 1]]);
        let parts = self.list(&[a, b.clone()], Type::tensor())?;
        let dim = self.constant(IValue::Int(dims[0]));
        let joined = self.made_of("aten::cat", &[parts, dim])?;
        self.complete_type(&joined);
        if first == last && self.chance(2) {
            self.grow(&b)?;
        }
        // A concatenation along the other dimension fits too.
        let shape = if dims[0] == 0 { [4, 2] } else { [2, 4] };
        let more = self.typed(&shape, last);
        let parts = if self.chance(2) { [joined, more] } else { [more, joined] };
        let parts = self.list(&parts, Type::tensor())?;
        let dim = self.constant(IValue::Int(dims[1]));
        let all = self.made_of("aten::cat", &[parts, dim])?;
        self.see(&all)
    }

    /// Integers beyond the range of half precision, if the element type is an integer type.
    fn large(&mut self, dtype: DType) -> Known {
        if dtype.is_float() {
            return self.typed(&[2, 2], dtype);
        }
        let value = IValue::Tensor(Tensor::of(&[1e6; 4], dtype, &[2, 2], Precision::Typed));
        let known = self.given(value, Type::tensor());
        self.complete_type(&known);
        known
    }

    /// A list grows between its construction and its concatenation.
    pub(super) fn list_grows(&mut self) -> Option<()> {
        let [a, b, c] = [(); 3].map(|()| self.typed(&[2, 3], DType::Float));
        let list = self.list(&[a, b], Type::tensor())?;
        if !self.chance(4) {
            self.run("aten::append", &[list.clone(), c]).then_some(())?;
        }
        let zero = self.constant(IValue::Int(0));
        let kind = self.pick(&["aten::cat", "aten::stack"]);
        let joined = self.made_of(kind, &[list, zero.clone()])?;
        let rows = self.made_of("aten::size", &[joined.clone(), zero])?;
        self.see_number(&rows)?;
        self.see(&joined)
    }

    /// A cast may return its operand itself, which is then written through it.
    pub(super) fn perhaps_itself(&mut self) -> Option<()> {
        let dtype = self.pick(&[DType::Float, DType::Float, DType::Double]);
        let (x, like) = (self.untyped(&[2, 3], DType::Float), self.untyped(&[2, 3], dtype));
        let memory = self.rectified(&x)?;
        let cast = self.made_of("aten::type_as", &[memory.clone(), like])?;
        let read = self.of("aten::neg", &cast)?;
        let last = self.of("aten::tanh", &read)?;
        self.grow(&cast)?;
        self.see(&last)?;
        self.see(&memory)
    }

    /// Two equal nodes in a returned tuple: two tensors that may be written independently.
    pub(super) fn held_by_a_tuple(&mut self) -> Option<()> {
        let x = self.floats(&[2]);
        let twice = [self.of("aten::neg", &x)?, self.of("aten::neg", &x)?];
        let types = [self.graph.ty(twice[0].0), self.graph.ty(twice[1].0)];
        let tuple = self.unrun("prim::TupleConstruct", &[twice[0].0, twice[1].0], Type::tuple(&types));
        self.shown(tuple);
        Some(())
    }

    /// A near copy of an operand is in a list that is returned together with the operand.
    pub(super) fn held_by_a_list(&mut self) -> Option<()> {
        let (x, one) = (self.typed(&[2], DType::Float), self.one());
        let memory = self.rectified(&x)?;
        self.complete_type(&memory);
        let same = self.made_of("aten::mul", &[memory.clone(), one])?;
        let list = self.list(&[same], Type::tensor())?;
        self.see(&list)?;
        let other = if self.chance(2) { self.list(&[memory], Type::tensor())? } else { memory };
        self.see(&other)
    }

    /// A call or a fork returns memory of its argument, and may write to it; so may the caller.
    pub(super) fn passed_back(&mut self) -> Option<()> {
        let (x, forks) = (self.floats(&[2]), self.chance(2));
        let memory = self.rectified(&x)?;
        let same = self.by_call(&memory, forks)?;
        if self.chance(2) {
            self.grow(&same)?;
        } else {
            self.see(&same)?;
        }
        self.see(&memory)
    }
}
