//! Construction and unpacking of tuples, lists and dicts.

use super::{Known, O, Smith, returned};
use jitopt_core::interpreter::IValue;
use jitopt_core::ir::{Attribute, Value};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Simple, Type, TypeKind};

impl Smith {
    /// A tuple of a few values, which may be tuples.
    pub(super) fn tuple(&mut self) {
        let n = 1 + self.draws.below(3);
        let parts: Option<Vec<Known>> = (0..n).map(|_| self.part()).collect();
        let Some(parts) = parts else { return };
        let types: Vec<Type> = parts.iter().map(|part| self.graph.ty(part.0)).collect();
        let inputs: Vec<Value> = parts.iter().map(|part| part.0).collect();
        let node = self.graph.create_op(prim::TUPLE_CONSTRUCT, &inputs, Type::tuple(&types));
        self.graph.append(self.block, node);
        let value = IValue::tuple(parts.into_iter().map(|part| part.1));
        self.known.push((self.graph.output(node, 0), value));
        if self.chance(2) {
            self.untuple();
        }
    }

    fn part(&mut self) -> Option<Known> {
        match self.draws.below(8) {
            2 => self.earlier_future(),
            0 => self.earlier(O::Int),
            1 => self.earlier_tuple(),
            _ => self.earlier(O::Tensor),
        }
    }

    pub(super) fn earlier_tuple(&mut self) -> Option<Known> {
        let all: Vec<Known> =
            self.known.iter().filter(|(_, value)| matches!(value, IValue::Tuple(_))).cloned().collect();
        if all.is_empty() { None } else { Some(self.pick(&all)) }
    }

    /// Unpacks a tuple: all elements, one element, or a slice.
    pub(super) fn untuple(&mut self) {
        let Some((tuple, IValue::Tuple(parts))) = self.earlier_tuple() else { return };
        let types = self.graph.ty(tuple).tuple_elements().unwrap_or_default();
        if types.len() != parts.len() || parts.is_empty() {
            return;
        }
        match self.draws.below(5) {
            0 | 1 => {
                let node = self.graph.create(prim::TUPLE_UNPACK);
                self.graph.add_input(node, tuple);
                self.graph.append(self.block, node);
                self.made.push((prim::TUPLE_UNPACK, vec![tuple]));
                for (part, ty) in parts.iter().zip(types) {
                    let output = self.graph.add_output(node, ty);
                    self.known.push((output, part.clone()));
                }
            }
            2 | 3 => self.tuple_index(tuple, &parts, &types),
            _ => self.tuple_slice(tuple, &parts, &types),
        }
    }

    fn tuple_index(&mut self, tuple: Value, parts: &[IValue], types: &[Type]) {
        let at = self.draws.below(parts.len());
        let index = if self.chance(2) { at as i64 - parts.len() as i64 } else { at as i64 };
        let (index, _) = self.constant(IValue::Int(index));
        let node = self.graph.create_op(prim::TUPLE_INDEX, &[tuple, index], types[at]);
        self.graph.append(self.block, node);
        self.known.push((self.graph.output(node, 0), parts[at].clone()));
    }

    fn tuple_slice(&mut self, tuple: Value, parts: &[IValue], types: &[Type]) {
        let from = self.draws.below(parts.len());
        let to = from + 1 + self.draws.below(parts.len() - from);
        let node = self.graph.create_op(prim::TUPLE_SLICE, &[tuple], Type::tuple(&types[from..to]));
        self.graph.set_attribute(node, attr::BEGIN, Attribute::Int(from as i64));
        self.graph.set_attribute(node, attr::END, Attribute::Int(to as i64));
        self.graph.append(self.block, node);
        let value = IValue::tuple(parts[from..to].iter().cloned());
        self.known.push((self.graph.output(node, 0), value));
    }

    /// A dict of tensors.
    pub(super) fn dict(&mut self) {
        let (Some(a), Some(b)) = (self.earlier(O::Tensor), self.earlier(O::Tensor)) else { return };
        let keys = [self.constant(IValue::from("a")), self.constant(IValue::from("b"))];
        let ty = Type::new(TypeKind::Dict(Type::simple(Simple::Str), Type::tensor()));
        let node = self.graph.create_op(prim::DICT_CONSTRUCT, &[keys[0].0, a.0, keys[1].0, b.0], ty);
        self.graph.append(self.block, node);
        let [key_a, key_b] = keys;
        self.known.push((self.graph.output(node, 0), IValue::dict([(key_a.1, a.1), (key_b.1, b.1)])));
    }

    /// All elements of a list.
    pub(super) fn unpack_list(&mut self) {
        let Some((list, IValue::List(parts))) = self.earlier(O::Tensors) else { return };
        let parts = parts.borrow().clone();
        if self.depth == 0 || parts.len() > 4 || !self.graph.ty(list).parts().first().is_some_and(|ty| ty.is_tensor()) {
            return;
        }
        let node = self.graph.create(prim::LIST_UNPACK);
        self.graph.add_input(node, list);
        self.graph.append(self.block, node);
        for part in parts {
            let output = self.graph.add_output(node, returned(&part));
            self.known.push((output, part));
        }
    }
}
