//! Loops whose iterations do the same, or nearly the same.

use super::super::Smith;
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::tensor::DType;
use jitopt_core::types::Type;

impl Smith {
    /// Each iteration uses random numbers of its own.
    pub(super) fn draws_each_iteration(&mut self) -> Option<()> {
        let (x, start, trips) = (self.floats(&[3, 2]), self.floats(&[3, 2]), self.few_iterations());
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            let drawn = match smith.chance(2) {
                true => {
                    let none = smith.constant(IValue::None);
                    let more = std::iter::repeat_n(none, 5);
                    smith.made_of("aten::rand_like", &std::iter::once(x.clone()).chain(more).collect::<Vec<_>>())
                }
                false => {
                    let (half, yes) = (smith.constant(IValue::Float(0.5)), smith.constant(IValue::Bool(true)));
                    smith.made_of("aten::dropout", &[x.clone(), half, yes])
                }
            }?;
            smith.sum(state, &drawn)
        })?;
        self.see(&end)
    }

    /// Each iteration creates a tensor, and all of them are in a list after the loop.
    pub(super) fn made_each_iteration(&mut self) -> Option<()> {
        let (x, start, trips) = (self.floats(&[3]), self.floats(&[3]), self.few_iterations());
        let list = self.list(std::slice::from_ref(&start), Type::tensor())?;
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            let made = smith.of("aten::neg", &x)?;
            smith.run("aten::append", &[list.clone(), made]).then_some(())?;
            smith.of("aten::tanh", state)
        })?;
        self.see(&list)?;
        self.see(&end)
    }

    /// A sum with a product of matrices whose sizes do not fit.
    fn plus_product(&mut self, state: Value, x: Value, misfit: Value) -> Value {
        let one = self.one();
        let product = self.unrun("aten::mm", &[x, misfit], Type::tensor());
        self.unrun("aten::add", &[state, product, one.0], Type::tensor())
    }

    /// An operator that would fail is in a loop without iterations.
    pub(super) fn fails_in_no_iteration(&mut self) -> Option<()> {
        let (x, misfit, start) = (self.floats(&[2, 3]), self.untyped(&[2, 3], DType::Float), self.floats(&[2]));
        let none = IValue::Int(self.draws.int(-1, 1));
        let trips = if self.chance(2) { self.given(none, Type::int()) } else { self.constant(none) };
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            Some((smith.plus_product(state.0, x.0, misfit.0), state.1.clone()))
        })?;
        self.see(&end)
    }

    /// The program raises an exception before an operator of the same iteration would.
    pub(super) fn raises_each_iteration(&mut self) -> Option<()> {
        let (x, misfit, start) = (self.floats(&[2, 3]), self.untyped(&[2, 3], DType::Float), self.floats(&[2]));
        let (trips, always) = (self.few_iterations(), self.given(IValue::Bool(true), Type::bool()));
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            smith.raise_if(&always, true, "told");
            Some((smith.plus_product(state.0, x.0, misfit.0), state.1.clone()))
        })?;
        self.see(&end)
    }

    /// The number of iterations is not known statically; it may be negative.
    pub(super) fn counted_by_a_param(&mut self) -> Option<()> {
        let (start, trips) = (self.floats(&[2]), IValue::Int(self.draws.int(-12, 20)));
        let trips = self.given(trips, Type::int());
        let end = self.iterations(&trips, &start, &|smith, counter, state| {
            let half = smith.constant(IValue::Float(0.5));
            let less = smith.made_of("aten::mul", &[state.clone(), half])?;
            smith.sum(&less, counter)
        })?;
        self.see(&end)
    }

    /// A constant of the body is the same object in all iterations.
    pub(super) fn constant_written_each_iteration(&mut self) -> Option<()> {
        let (start, trips) = (self.floats(&[2]), self.few_iterations());
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            let constant = smith.tensor_constant()?;
            let grown = smith.grow(&constant)?;
            smith.sum(state, &grown)
        })?;
        self.see(&end)
    }

    /// A branch in the body returns a value from before the loop, and each iteration writes to it.
    pub(super) fn made_before_the_loop(&mut self) -> Option<()> {
        let (x, start, trips, flag) = (self.floats(&[2]), self.floats(&[2]), self.few_iterations(), self.flag());
        let memory = self.rectified(&x)?;
        let outside = self.chance(2);
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            let side = |smith: &mut Smith, is_then: bool| {
                let made = if is_then == outside { Some(memory.clone()) } else { smith.of("aten::neg", &x) };
                made.map(|made| vec![made])
            };
            let joined = smith.either(&flag, &side)?.remove(0);
            let grown = smith.grow(&joined)?;
            smith.sum(state, &grown)
        })?;
        self.see(&end)
    }

    /// Some nodes of a pattern are before the loop, the others in it.
    pub(super) fn view_each_iteration(&mut self) -> Option<()> {
        let (x, start, trips) = (self.typed(&[2, 3], DType::Float), self.floats(&[2, 3]), self.few_iterations());
        if self.chance(2) {
            let negated = self.of("aten::neg", &x)?;
            let end = self.iterations(&trips, &start, &|smith, _, state| smith.sum(state, &negated))?;
            return self.see(&end);
        }
        let memory = self.rectified(&x)?;
        let list = self.list(std::slice::from_ref(&start), Type::tensor())?;
        let end = self.iterations(&trips, &start, &|smith, _, state| {
            let view = smith.of("aten::t", &memory)?;
            smith.run("aten::append", &[list.clone(), view]).then_some(())?;
            smith.of("aten::tanh", state)
        })?;
        self.see(&list)?;
        self.see(&end)
    }
}
