//! Copies of values that preserve their aliasing.

use jitopt_core::interpreter::ivalue::{EnumMember, Key, Object};
use jitopt_core::interpreter::{Future, IValue};
use jitopt_core::tensor::storage::Storage;
use jitopt_core::tensor::{Precision, Tensor};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// One round of copying; it knows the values copied so far.
#[derive(Default)]
pub struct Copier {
    precision: Precision,
    storages: FxHashMap<usize, Storage>,
    containers: FxHashMap<usize, IValue>,
}

impl Copier {
    /// Floating-point elements are copied in this precision.
    pub fn new(precision: Precision) -> Copier {
        Copier { precision, ..Copier::default() }
    }

    /// A copy; a value that this round copied before yields the same copy.
    pub fn copy(&mut self, value: &IValue) -> IValue {
        let address = match value {
            IValue::Tensor(tensor) => return IValue::Tensor(self.tensor(tensor)),
            IValue::List(list) => Rc::as_ptr(list).addr(),
            IValue::Dict(dict) => Rc::as_ptr(dict).addr(),
            IValue::Object(object) => Rc::as_ptr(object).addr(),
            IValue::Tuple(values) => return IValue::Tuple(values.iter().map(|value| self.copy(value)).collect()),
            IValue::Future(value) => {
                let copy = value.result().as_ref().map(|value| self.copy(value));
                return IValue::Future(Rc::new(Future::known(copy.map_err(Clone::clone))));
            }
            IValue::Enum(member) => return self.member(member),
            other => return other.clone(),
        };
        if let Some(copy) = self.containers.get(&address) {
            return copy.clone();
        }
        self.container(value, address)
    }

    /// The empty copy is registered before it is filled: objects may contain themselves.
    fn container(&mut self, value: &IValue, address: usize) -> IValue {
        match value {
            IValue::List(list) => {
                let copy = Rc::new(RefCell::new(Vec::new()));
                self.containers.insert(address, IValue::List(copy.clone()));
                let elements: Vec<IValue> = list.borrow().iter().map(|value| self.copy(value)).collect();
                *copy.borrow_mut() = elements;
                IValue::List(copy)
            }
            IValue::Dict(dict) => {
                let copy = Rc::new(RefCell::new(indexmap_of(Vec::new())));
                self.containers.insert(address, IValue::Dict(copy.clone()));
                let items = dict.borrow().iter().map(|(k, v)| (Key(self.copy(&k.0)), self.copy(v))).collect();
                *copy.borrow_mut() = indexmap_of(items);
                IValue::Dict(copy)
            }
            IValue::Object(object) => {
                let copy = Rc::new(Object { class: object.class, attributes: RefCell::default() });
                self.containers.insert(address, IValue::Object(copy.clone()));
                let attributes = object.attributes.borrow().iter().map(|(k, v)| (k.clone(), self.copy(v))).collect();
                *copy.attributes.borrow_mut() = attributes;
                IValue::Object(copy)
            }
            other => other.clone(),
        }
    }

    fn member(&mut self, member: &EnumMember) -> IValue {
        let value = member.value.as_ref().map(|value| self.copy(value));
        IValue::Enum(Rc::new(EnumMember { class: member.class, name: member.name.clone(), value }))
    }

    fn tensor(&mut self, tensor: &Tensor) -> Tensor {
        let precision = self.precision;
        let copy = || {
            let whole = tensor.storage().read();
            let shape = [whole.len() as i64];
            let elements = Tensor::new(whole.clone(), tensor.dtype(), &shape);
            match precision.kept(tensor.dtype()) == whole.dtype() {
                true => elements.storage().clone(),
                false => elements.converted(tensor.dtype(), precision).storage().clone(),
            }
        };
        let storage = self.storages.entry(tensor.storage().address()).or_insert_with(copy).clone();
        tensor.over(storage)
    }
}

fn indexmap_of<M: FromIterator<(Key, IValue)>>(items: Vec<(Key, IValue)>) -> M {
    items.into_iter().collect()
}

/// Copies of several values, in one round.
pub fn copies(values: &[IValue], precision: Precision) -> Vec<IValue> {
    let mut copier = Copier::new(precision);
    values.iter().map(|value| copier.copy(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitopt_core::tensor::Scalar;

    #[test]
    fn copies_keep_sharing() {
        let base = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[4]);
        let view = base.narrow(0, 1, 2, 1);
        let list = IValue::list([view.clone()]);
        let copied = copies(&[base.clone().into(), view.into(), list.clone(), list], Precision::Double);
        let (a, b) = (copied[0].tensor().expect("a tensor"), copied[1].tensor().expect("a tensor"));
        assert!(a.shares_storage(b) && !a.shares_storage(&base));
        b.fill(Scalar::Float(9.0));
        assert_eq!(a.read::<f64>(), [1.0, 9.0, 9.0, 4.0]);
        assert_eq!(base.read::<f64>(), [1.0, 2.0, 3.0, 4.0]);
        let (IValue::List(c), IValue::List(d)) = (&copied[2], &copied[3]) else { panic!("lists stay lists") };
        assert!(Rc::ptr_eq(c, d) && c.borrow()[0].tensor().is_some_and(|t| t.shares_storage(a)));
    }
}
