//! Values for another thread: memory is shared for reading, everything else is copied.
//!
//! Values that share memory, or are one list, do so on the other side, too. Later writes of one
//! side are not visible to the other one: memory that another thread reads is copied before it is
//! written.

use super::ivalue::{EnumMember, IValue, Key, Object};
use crate::symbol::Symbol;
use crate::tensor::storage::{Given, Storage};
use crate::tensor::strided::Carried;
use crate::tensor::{C128, Device};
use indexmap::IndexMap;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The nesting of containers from which on a value is not carried: it may contain itself.
const DEEPEST: usize = 50;

/// Values, with the memory of their tensors.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    memories: Vec<Given>,
    values: Vec<Portable>,
}

/// A value without references of the thread that had it. Containers have numbers, those of memories
/// are places in the parcel.
#[derive(Debug)]
enum Portable {
    None,
    Undefined,
    Uninitialized,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(C128),
    Str(String),
    Device(Device),
    Function(Symbol),
    Tensor(Carried, usize),
    Tuple(Vec<Portable>),
    List(usize, Vec<Portable>),
    Dict(usize, Vec<(Portable, Portable)>),
    Object(usize, Symbol, Vec<(String, Portable)>),
    Enum(Symbol, String, Option<Box<Portable>>),
}

/// Puts values into a parcel.
#[derive(Default)]
struct Packing {
    parcel: Parcel,
    /// The places of memories by their addresses.
    places: HashMap<usize, usize>,
    /// The memories, which keeps the addresses theirs.
    own: Vec<Storage>,
}

impl Parcel {
    /// The values in a parcel, and the memories in it; nothing if one of them cannot be carried.
    pub(crate) fn of(values: &[IValue]) -> Option<(Parcel, Vec<Storage>)> {
        let mut packing = Packing::default();
        let packed: Option<Vec<Portable>> = values.iter().map(|value| packing.value(value, 0)).collect();
        packing.parcel.values = packed?;
        Some((packing.parcel, packing.own))
    }

    /// The memories, as they were given.
    pub(crate) fn memories(&self) -> &[Given] {
        &self.memories
    }

    /// The values, with memories that `memory` finds or makes.
    pub(crate) fn opened(&self, memory: impl FnMut(&Given) -> Storage) -> Vec<IValue> {
        let memories = self.memories.iter().map(memory).collect();
        let mut opening = Opening { memories, containers: HashMap::new() };
        self.values.iter().map(|value| opening.value(value)).collect()
    }
}

impl Packing {
    fn value(&mut self, value: &IValue, depth: usize) -> Option<Portable> {
        if depth > DEEPEST {
            return None;
        }
        Some(match value {
            IValue::None => Portable::None,
            IValue::Undefined => Portable::Undefined,
            IValue::Uninitialized => Portable::Uninitialized,
            IValue::Bool(b) => Portable::Bool(*b),
            IValue::Int(n) => Portable::Int(*n),
            IValue::Float(x) => Portable::Float(*x),
            IValue::Complex(z) => Portable::Complex(*z),
            IValue::Str(text) => Portable::Str(text.to_string()),
            IValue::Device(device) => Portable::Device(*device),
            IValue::Function(name) => Portable::Function(*name),
            IValue::Tensor(tensor) => {
                let memory = self.memory(tensor.storage())?;
                Portable::Tensor(tensor.carried(), memory)
            }
            IValue::Tuple(values) => Portable::Tuple(self.values(values, depth)?),
            IValue::List(list) => Portable::List(Rc::as_ptr(list).addr(), self.values(&list.borrow(), depth)?),
            IValue::Dict(dict) => {
                let items = dict.borrow();
                let item = |(k, v): (&Key, &IValue)| Some((self.value(&k.0, depth + 1)?, self.value(v, depth + 1)?));
                Portable::Dict(Rc::as_ptr(dict).addr(), items.iter().map(item).collect::<Option<_>>()?)
            }
            IValue::Object(object) => {
                let attributes = object.attributes.borrow();
                let attribute = |(k, v): (&String, &IValue)| Some((k.clone(), self.value(v, depth + 1)?));
                let attributes = attributes.iter().map(attribute).collect::<Option<_>>()?;
                Portable::Object(Rc::as_ptr(object).addr(), object.class, attributes)
            }
            IValue::Enum(member) => {
                let value = member.value.as_ref().map(|value| self.value(value, depth + 1));
                Portable::Enum(member.class, member.name.clone(), value.map_or(Some(None), |v| Some(v.map(Box::new)))?)
            }
            IValue::Future(_) => return None,
        })
    }

    fn values(&mut self, values: &[IValue], depth: usize) -> Option<Vec<Portable>> {
        values.iter().map(|value| self.value(value, depth + 1)).collect()
    }

    fn memory(&mut self, storage: &Storage) -> Option<usize> {
        if let Some(known) = self.places.get(&storage.address()) {
            return Some(*known);
        }
        self.parcel.memories.push(storage.given()?);
        self.own.push(storage.clone());
        self.places.insert(storage.address(), self.own.len() - 1);
        Some(self.own.len() - 1)
    }
}

/// Makes values of a parcel.
struct Opening {
    memories: Vec<Storage>,
    containers: HashMap<usize, IValue>,
}

impl Opening {
    fn value(&mut self, value: &Portable) -> IValue {
        match value {
            Portable::None => IValue::None,
            Portable::Undefined => IValue::Undefined,
            Portable::Uninitialized => IValue::Uninitialized,
            Portable::Bool(b) => IValue::Bool(*b),
            Portable::Int(n) => IValue::Int(*n),
            Portable::Float(x) => IValue::Float(*x),
            Portable::Complex(z) => IValue::Complex(*z),
            Portable::Str(text) => IValue::Str(text.as_str().into()),
            Portable::Device(device) => IValue::Device(*device),
            Portable::Function(name) => IValue::Function(*name),
            Portable::Tensor(carried, memory) => IValue::Tensor(carried.over(self.memories[*memory].clone())),
            Portable::Tuple(values) => IValue::Tuple(values.iter().map(|value| self.value(value)).collect()),
            Portable::Enum(class, name, value) => {
                let value = value.as_ref().map(|value| self.value(value));
                IValue::Enum(Rc::new(EnumMember { class: *class, name: name.clone(), value }))
            }
            Portable::List(number, _) | Portable::Dict(number, _) | Portable::Object(number, ..) => {
                self.container(*number, value)
            }
        }
    }

    fn container(&mut self, number: usize, value: &Portable) -> IValue {
        if let Some(known) = self.containers.get(&number) {
            return known.clone();
        }
        let made = match value {
            Portable::List(_, values) => IValue::list(values.iter().map(|value| self.value(value)).collect::<Vec<_>>()),
            Portable::Dict(_, items) => {
                let items = items.iter().map(|(key, value)| (self.value(key), self.value(value)));
                IValue::dict(items.collect::<Vec<_>>())
            }
            Portable::Object(_, class, attributes) => {
                let attributes = attributes.iter().map(|(name, value)| (name.clone(), self.value(value)));
                let attributes: IndexMap<String, IValue> = attributes.collect();
                IValue::Object(Rc::new(Object { class: *class, attributes: RefCell::new(attributes) }))
            }
            other => self.value(other),
        };
        self.containers.insert(number, made.clone());
        made
    }
}
