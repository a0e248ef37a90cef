//! Patterns that passes must analyse correctly: a write between two reads, identities that hold for
//! most numbers only, equal computations inside and outside of a block.

use super::{Known, O, Smith, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::Value;
use jitopt_core::symbol::prim;
use jitopt_core::tensor::Precision;
use jitopt_core::types::Type;

/// Operator kinds, and the operand after the tensor.
const IDENTITIES: &[(&str, Option<f64>)] = &[
    ("aten::mul", Some(1.0)),
    ("aten::div", Some(1.0)),
    ("aten::add", Some(0.0)),
    ("aten::mul", Some(0.0)),
    ("aten::pow", Some(0.5)),
    ("aten::pow", Some(2.0)),
    ("aten::neg", None),
    ("aten::reciprocal", None),
    ("aten::exp", None),
    ("aten::log", None),
    ("aten::isnan", None),
    ("aten::abs", None),
    ("aten::floor", None),
    ("aten::relu", None),
];

impl Smith {
    /// Returns a value from the graph, if it is in scope there.
    pub(super) fn shown(&mut self, value: Value) {
        if self.block == self.graph.root() && !self.inside {
            self.graph.add_result(self.block, value);
        }
    }

    pub(super) fn difference(&mut self, a: Known, b: Known) {
        let one = self.constant(IValue::Int(1));
        if let Some((difference, _)) = self.made_of("aten::sub", &[a, b, one]) {
            self.shown(difference);
        }
    }

    fn copied(&mut self) -> Option<Known> {
        let base = self.earlier(O::Tensor)?;
        let none = self.constant(IValue::None);
        self.made_of("aten::clone", &[base, none])
    }

    /// Reads memory, writes to it through an alias, and reads it again.
    pub(super) fn look_write_look(&mut self) {
        let Some(base) = self.copied() else { return };
        let other = self.copied();
        let joined = other.clone().filter(|_| self.chance(4)).and_then(|other| self.by_branch(&base, other));
        let (base, other) = if joined.is_some() { (joined.unwrap_or(base.clone()), Some(base)) } else { (base, other) };
        let by_list = self.chance(2).then(|| self.list(std::slice::from_ref(&base), Type::tensor())).flatten();
        let at = self.constant(IValue::Int(0));
        let look = |smith: &mut Smith| match &by_list {
            Some(list) => smith.made_of("aten::cat", &[list.clone(), at.clone()]),
            None => smith.made_of("aten::mul", &[base.clone(), base.clone()]),
        };
        let before = look(self);
        let called = self.env.callees.len();
        let Some(way) = self.another_way(&base, other) else { return };
        if self.env.callees.len() == called && !self.pure {
            let number = self.constant(IValue::Int(3));
            self.made_of("aten::fill_", &[way, number]);
        }
        let after = look(self);
        if let (Some(before), Some(after)) = (before, after) {
            self.difference(before, after);
        }
    }

    /// Another value that is, or may be, the same memory.
    fn another_way(&mut self, base: &Known, other: Option<Known>) -> Option<Known> {
        let zero = self.constant(IValue::Int(0));
        // In graphs without other writes, calls write.
        let way = if self.pure { self.pick(&[10, 10, 11, 14]) } else { self.draws.below(15) };
        match way {
            13 => other,
            14 if self.depth > 0 => {
                let list = self.list(std::slice::from_ref(base), Type::tensor())?;
                self.by_call(&list, false);
                Some(base.clone())
            }
            0 => {
                let list = self.list(std::slice::from_ref(base), Type::tensor())?;
                self.made_of("aten::__getitem__", &[list, zero])
            }
            1 => {
                let list = self.list(&[other?], Type::tensor())?;
                self.made_of("aten::append", &[list.clone(), base.clone()]);
                let one = self.constant(IValue::Int(1));
                let kind = self.pick(&["aten::__getitem__", "aten::pop"]);
                self.made_of(kind, &[list, one])
            }
            2 => {
                let list = self.list(&[other?], Type::tensor())?;
                self.made_of("aten::_set_item", &[list.clone(), zero.clone(), base.clone()]);
                self.made_of("aten::__getitem__", &[list, zero])
            }
            3 => {
                let views = self.made_of("aten::unbind", &[base.clone(), zero.clone()])?;
                self.made_of("aten::__getitem__", &[views, zero])
            }
            4 => {
                let size = self.constant(IValue::Int(1));
                let views = self.made_of("aten::split", &[base.clone(), size, zero.clone()])?;
                self.made_of("aten::__getitem__", &[views, zero])
            }
            5 => self.in_tuple(base),
            6 | 7 => self.by_branch(base, other?),
            8 | 9 => self.by_loop(base, other?),
            10 if self.depth > 0 => self.by_call(base, false),
            11 if self.depth > 0 => self.by_call(base, true),
            12 => {
                let key = self.constant(IValue::from("a"));
                let ty = Type::new(jitopt_core::types::TypeKind::Dict(returned(&key.1), Type::tensor()));
                let node = self.graph.create_op(prim::DICT_CONSTRUCT, &[key.0, base.0], ty);
                self.graph.append(self.block, node);
                let dict = (self.graph.output(node, 0), IValue::dict([(key.1.clone(), base.1.clone())]));
                self.made_of("aten::__getitem__", &[dict, key])
            }
            _ => self.view(base.clone()),
        }
    }

    fn in_tuple(&mut self, base: &Known) -> Option<Known> {
        let node = self.graph.create_op(
            prim::TUPLE_CONSTRUCT,
            &[base.0, base.0],
            Type::tuple(&[Type::tensor(), Type::tensor()]),
        );
        self.graph.append(self.block, node);
        let tuple = (self.graph.output(node, 0), IValue::tuple([base.1.clone(), base.1.clone()]));
        let tuple = if self.chance(2) { self.by_branch(&tuple.clone(), tuple)? } else { tuple };
        let index = self.constant(IValue::Int(-1));
        let node = self.graph.create_op(prim::TUPLE_INDEX, &[tuple.0, index.0], Type::tensor());
        self.graph.append(self.block, node);
        Some((self.graph.output(node, 0), base.1.clone()))
    }

    /// Selects one of two values by a condition that passes do not analyse.
    fn by_branch(&mut self, base: &Known, other: Known) -> Option<Known> {
        let condition = self.operand(O::Bool)?;
        let taken = matches!(condition.1, IValue::Bool(true));
        let (first, second) = if taken == self.chance(3) { (other, base.clone()) } else { (base.clone(), other) };
        let output = self.selected_by(&condition, [first.0, second.0], returned(&base.1));
        Some((output, if taken { first.1 } else { second.1 }))
    }

    /// Loop-carried values: the two swap, or a result is not the value that was passed in.
    fn by_loop(&mut self, base: &Known, other: Known) -> Option<Known> {
        let trips = self.draws.int(0, 4);
        let (most, condition) = (self.constant(IValue::Int(trips)), self.constant(IValue::Bool(true)));
        let node = self.graph.create(prim::LOOP);
        [&most, &condition, base, &other].into_iter().for_each(|value| self.graph.add_input(node, value.0));
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        self.graph.add_param(block, Type::int());
        let params = [self.graph.add_param(block, Type::tensor()), self.graph.add_param(block, Type::tensor())];
        let swapped = self.chance(2);
        let results = if swapped { [params[1], params[0]] } else { [params[0], base.0] };
        self.graph.add_result(block, condition.0);
        results.into_iter().for_each(|result| self.graph.add_result(block, result));
        let outputs = [self.graph.add_output(node, Type::tensor()), self.graph.add_output(node, Type::tensor())];
        let odd = trips % 2 == 1;
        let values = match swapped {
            true if odd => [other.1.clone(), base.1.clone()],
            true => [base.1.clone(), other.1.clone()],
            false if trips > 0 => [base.1.clone(), base.1.clone()],
            false => [base.1.clone(), other.1.clone()],
        };
        let i = self.draws.below(2);
        Some((outputs[i], values[i].clone()))
    }

    /// A loop in which an iteration reads what the previous one wrote; there is no read after the
    /// loop.
    pub(super) fn written_for_the_next_iteration(&mut self) {
        let (Some(memory), Some(sum)) = (self.copied(), self.copied()) else { return };
        let none = self.constant(IValue::None);
        let Some(source) = self.made_of("aten::clone", &[memory.clone(), none]) else { return };
        let trips = self.draws.int(1, 4);
        let (most, condition) = (self.constant(IValue::Int(trips)), self.constant(IValue::Bool(true)));
        let one = self.constant(IValue::Int(1));
        let carried = self.chance(2);
        let node = self.graph.create(prim::LOOP);
        [&most, &condition, &sum].into_iter().for_each(|value| self.graph.add_input(node, value.0));
        carried.then(|| self.graph.add_input(node, memory.0));
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
        self.graph.add_param(block, Type::int());
        let total = (self.graph.add_param(block, Type::tensor()), sum.1.clone());
        let inner =
            if carried { (self.graph.add_param(block, Type::tensor()), memory.1.clone()) } else { memory.clone() };
        let read = self.made_of("aten::add", &[inner.clone(), inner.clone(), one.clone()]).unwrap_or(inner.clone());
        let next = self.made_of("aten::add", &[total.clone(), read, one.clone()]).unwrap_or(total);
        let next_memory = match carried && self.chance(2) {
            true => {
                let none = self.constant(IValue::None);
                self.made_of("aten::clone", &[inner.clone(), none]).unwrap_or(inner.clone())
            }
            false => inner,
        };
        if self.depth > 0 && self.chance(3) {
            let written = if self.chance(2) { source.clone() } else { one.clone() };
            self.nested_write(&next_memory, &written);
            self.made_of("aten::add_", &[source, one.clone(), one.clone()]);
        } else {
            self.made_of("aten::add_", &[next_memory.clone(), one.clone(), one.clone()]);
        }
        let condition = self.loop_condition(&next_memory).unwrap_or(condition);
        let computed =
            carried.then(|| self.made_of("aten::mul", &[next_memory.clone(), next_memory.clone()])).flatten();
        let next_memory = computed.filter(|_| self.chance(2)).unwrap_or(next_memory);
        self.block = outer;
        self.known.truncate(seen);
        self.graph.add_result(block, condition.0);
        self.graph.add_result(block, next.0);
        carried.then(|| self.graph.add_result(block, next_memory.0));
        let output = self.graph.add_output(node, Type::tensor());
        let second = carried.then(|| self.graph.add_output(node, Type::tensor()));
        let shown = if self.chance(3) { second.unwrap_or(output) } else { output };
        self.shown(shown);
    }

    /// A condition that depends on memory which was written before.
    fn loop_condition(&mut self, memory: &Known) -> Option<Known> {
        if !self.chance(3) {
            return None;
        }
        let none = self.constant(IValue::None);
        let sum = self.made_of("aten::sum", &[memory.clone(), none])?;
        let number = self.draws.int(0, 2);
        let number = self.constant(IValue::Int(number));
        self.made_of("aten::fill_", &[sum.clone(), number]);
        self.made_of("aten::Bool", &[sum])
    }

    /// Writes in a branch to memory that may come from outside.
    pub(super) fn write_outside(&mut self) {
        let (Some(fresh), Some(other)) = (self.copied(), self.earlier(O::Tensor)) else { return };
        let Some(joined) = self.by_branch(&fresh, other) else { return };
        let number = self.constant(IValue::Int(4));
        self.made_of("aten::fill_", &[joined, number]);
    }

    fn nested_write(&mut self, memory: &Known, added: &Known) {
        let node = self.graph.create(prim::LOOP);
        let (most, condition) = (self.constant(IValue::Int(2)), self.constant(IValue::Bool(true)));
        [&most, &condition].into_iter().for_each(|value| self.graph.add_input(node, value.0));
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        self.graph.add_param(block, Type::int());
        let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
        let one = self.constant(IValue::Int(1));
        self.made_of("aten::add_", &[memory.clone(), added.clone(), one]);
        self.block = outer;
        self.known.truncate(seen);
        self.graph.add_result(block, condition.0);
    }

    /// Memory created and written in a branch that returns it.
    pub(super) fn made_in_a_branch(&mut self) {
        let (Some(condition), Some(base)) = (self.operand(O::Bool), self.earlier(O::Tensor)) else { return };
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let taken = matches!(condition.1, IValue::Bool(true));
        let mut result = base.1.clone();
        for is_then in [true, false] {
            let block = self.graph.add_block(node);
            let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
            let none = self.constant(IValue::None);
            let made = self.made_of("aten::clone", &[base.clone(), none]).unwrap_or(base.clone());
            let view = self.view(made.clone()).unwrap_or(made.clone());
            let number = self.constant(IValue::Int(if is_then { 2 } else { 3 }));
            self.made_of("aten::fill_", &[view, number]);
            let computed = self.made_of("aten::mul", &[made.clone(), made.clone()]);
            let made = computed.filter(|_| self.chance(2)).unwrap_or(made);
            self.block = outer;
            self.known.truncate(seen);
            self.graph.add_result(block, made.0);
            result = if is_then == taken { made.1 } else { result };
        }
        let output = self.graph.add_output(node, Type::tensor());
        self.known.push((output, result));
        self.shown(output);
    }

    /// An identity that holds for most numbers and element types.
    pub(super) fn identity(&mut self) {
        let (kind, number) = self.pick(IDENTITIES);
        let Some(mut x) = self.earlier(O::Tensor) else { return };
        if self.chance(2) {
            let before = self.pick(&["aten::neg", "aten::log", "aten::exp", "aten::reciprocal"]);
            x = self.made_of(before, &[x.clone()]).unwrap_or(x);
        }
        let mut operands = vec![x.clone()];
        if let Some(number) = number {
            let whole = self.chance(2) && number.fract() == 0.0;
            let value = if whole { IValue::Int(number as i64) } else { IValue::Float(number) };
            operands.push(self.constant(value));
            if kind == "aten::add" {
                operands.push(self.constant(IValue::Int(1)));
            }
        }
        let made = match self.draws.below(12) {
            0 => self.made_of(self.draws_kind(), &[x.clone(), x]),
            1 => {
                let (start, step) = self.pick(&[(1, 1), (0, 2), (1, 2)]);
                let operands = [0, start, 9, step].map(|n| self.constant(IValue::Int(n)));
                let [dim, start, end, step] = operands;
                self.made_of("aten::slice", &[x, dim, start, end, step])
            }
            2 => self.earlier(O::Tensor).and_then(|y| {
                let kind = self.pick(&["aten::type_as", "aten::expand_as", "aten::ne"]);
                self.made_of(kind, &[x, y])
            }),
            4 => {
                let kind = self.pick(&["aten::any", "aten::max"]);
                self.made_of(kind, &[x])
            }
            5 => {
                let (kind, none) = (self.pick(&["aten::mean", "aten::sum"]), self.constant(IValue::None));
                self.made_of(kind, &[x, none])
            }
            6 => {
                let [dim, start, length] = [0, 1, 1].map(|n| self.constant(IValue::Int(n)));
                self.made_of("aten::narrow", &[x, dim, start, length])
            }
            3 => {
                let transposed = self.made_of("aten::t", &[x.clone()]);
                transposed.and_then(|t| self.made_of("aten::mm", &[x, t]))
            }
            _ => self.made_of(kind, &operands),
        };
        if let Some((value, _)) = made
            && self.chance(2)
        {
            self.shown(value);
        }
    }

    fn draws_kind(&self) -> &'static str {
        ["aten::ne", "aten::eq", "aten::maximum"][self.known.len() % 3]
    }

    /// Equal computations in a block and around it, both observable.
    pub(super) fn across(&mut self) {
        let (Some(x), Some(condition)) = (self.earlier(O::Tensor), self.operand(O::Bool)) else { return };
        let (zero, no) = (self.constant(IValue::Int(0)), self.constant(IValue::Bool(false)));
        let (kind, operands) = match self.chance(2) {
            true => ("aten::sort", vec![x.clone(), zero, no]),
            false => ("aten::mul", vec![x.clone(), x.clone()]),
        };
        let at = self.known.len();
        if !self.run(kind, &operands) {
            return;
        }
        let outer_results: Vec<Known> = self.known[at..].to_vec();
        let i = self.draws.below(outer_results.len());
        let node = self.graph.create(prim::IF);
        self.graph.add_input(node, condition.0);
        self.graph.append(self.block, node);
        let block = self.graph.add_block(node);
        let (outer, seen) = (std::mem::replace(&mut self.block, block), self.known.len());
        self.run(kind, &operands);
        let inner = self.known[seen + i].0;
        self.known.truncate(seen);
        self.graph.add_result(block, inner);
        self.block = self.graph.add_block(node);
        let none = self.constant(IValue::None);
        let second = self.made_of("aten::clone", &[outer_results[i].clone(), none]);
        self.known.truncate(seen);
        let result = second.map_or(outer_results[i].0, |known| known.0);
        self.graph.add_result(self.block, result);
        self.block = outer;
        let output = self.graph.add_output(node, Type::tensor());
        let value = super::copies(&[outer_results[i].1.clone()], Precision::Typed).remove(0);
        self.known.push((output, value));
        self.shown(outer_results[i].0);
        self.shown(output);
    }
}
