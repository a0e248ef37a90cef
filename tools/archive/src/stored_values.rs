//! The values that an archive stores, as a tree: what the attributes of the module are.

use crate::pickle_value::{Id, Pickle, Value};
use crate::records::Records;
use crate::refusal::{Result, refuse, shown};
use crate::stored_tensors::StoredTensor;

/// Values of a tree: what is shared is there under each of its names.
const MOST_VALUES: usize = 1_000_000;

/// A value of an archive.
#[derive(Clone, Debug, PartialEq)]
pub enum StoredValue {
    /// `None`
    None,
    /// A bool.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A str.
    Text(String),
    /// A device, `cuda:0`.
    Device(String),
    /// A view of a storage.
    Tensor(StoredTensor),
    /// A tuple.
    Tuple(Vec<StoredValue>),
    /// A list.
    List(Vec<StoredValue>),
    /// A dict.
    Dict(Vec<(StoredValue, StoredValue)>),
    /// An object, by its number: objects with equal numbers are one object.
    Object {
        /// Its class.
        class: String,
        /// Its number.
        number: u32,
        /// Its attributes, or what a load hook makes them of.
        state: Box<StoredValue>,
    },
    /// An enum or a named tuple.
    Made {
        /// Its class.
        class: String,
        /// The value of the enum, or the elements.
        from: Box<StoredValue>,
    },
    /// Objects without a value here: a storage, a class.
    Other,
}

impl StoredValue {
    /// The attributes of an object by name, if its state is its attributes.
    pub fn attributes(&self) -> Vec<(&str, &StoredValue)> {
        let StoredValue::Object { state, .. } = self else { return Vec::new() };
        let StoredValue::Dict(entries) = &**state else { return Vec::new() };
        let named = entries.iter().filter_map(|(key, value)| match key {
            StoredValue::Text(name) => Some((name.as_str(), value)),
            _ => None,
        });
        named.collect()
    }
}

/// The tree of a pickle whose tensors are records of this folder.
pub(crate) fn tree(pickle: &Pickle, folder: &str, records: &mut Records) -> Result<StoredValue> {
    let folder = records.inside(folder);
    tree_of(pickle, (0, folder), records)
}

/// The same where tensors are records of a folder of one of several containers.
pub(crate) fn tree_of(pickle: &Pickle, place: (usize, String), records: &mut Records) -> Result<StoredValue> {
    let mut reader = Reader { pickle, tensors: &[], place, records, read: 0 };
    reader.value(pickle.root)
}

/// The tree of a pickle whose tensors are rows of a table.
pub(crate) fn tree_with(pickle: &Pickle, tensors: &[StoredTensor], records: &mut Records) -> Result<StoredValue> {
    let mut reader = Reader { pickle, tensors, place: (0, String::new()), records, read: 0 };
    reader.value(pickle.root)
}

struct Reader<'a> {
    pickle: &'a Pickle,
    tensors: &'a [StoredTensor],
    /// The container and the folder of the records of tensors.
    place: (usize, String),
    records: &'a mut Records,
    read: usize,
}

impl Reader<'_> {
    /// The depth is bounded by that of the pickle.
    fn value(&mut self, id: Id) -> Result<StoredValue> {
        self.read += 1;
        if self.read > MOST_VALUES {
            return refuse("the module has too many values");
        }
        Ok(match self.pickle.get(id) {
            Value::None => StoredValue::None,
            Value::Bool(value) => StoredValue::Bool(*value),
            Value::Int(value) => StoredValue::Int(*value),
            Value::Float(value) => StoredValue::Float(*value),
            Value::Complex(real, imaginary) => StoredValue::Complex(*real, *imaginary),
            Value::Text(text) => StoredValue::Text(text.clone()),
            Value::Device(name) => StoredValue::Device(name.clone()),
            Value::Tensor(described) => {
                StoredValue::Tensor(self.records.tensor_of(self.place.0, &self.place.1, described)?)
            }
            Value::Tuple(items) => StoredValue::Tuple(self.values(items)?),
            Value::List(items) => StoredValue::List(self.values(items)?),
            Value::Dict(entries) => {
                let entry = |(key, value): &(Id, Id)| Ok((self.value(*key)?, self.value(*value)?));
                StoredValue::Dict(entries.iter().map(entry).collect::<Result<_>>()?)
            }
            Value::Object { class, state } => StoredValue::Object {
                class: class.clone(),
                number: id.0,
                state: Box::new(state.map_or(Ok(StoredValue::None), |state| self.value(state))?),
            },
            Value::Made { class, from } => {
                StoredValue::Made { class: class.clone(), from: Box::new(self.value(*from)?) }
            }
            Value::LegacyTensor(number) => {
                let found = usize::try_from(*number).ok().and_then(|number| self.tensors.get(number));
                let Some(tensor) = found else {
                    return refuse(format!("tensor {} is of another layout", shown(&number.to_string())));
                };
                StoredValue::Tensor(tensor.clone())
            }
            Value::Global(_) | Value::Storage(_) => StoredValue::Other,
        })
    }

    fn values(&mut self, items: &[Id]) -> Result<Vec<StoredValue>> {
        items.iter().map(|item| self.value(*item)).collect()
    }
}
