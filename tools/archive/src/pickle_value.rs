//! The values of a pickle: a graph of nodes that refer to each other by number.

use crate::refusal::{Result, refuse};
use crate::stored_tensors::{Dtype, Quantizer, Signs};

/// Nesting of values; a module in a module takes two.
pub(crate) const DEEPEST: usize = 400;

/// A value, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) u32);

/// Globals that PyTorch writes. None of them is called: each has a meaning here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Global {
    RebuildTensor,
    /// A view of bytes, for element types that have no storage class.
    RebuildTensorOfBytes,
    RebuildTensorOfType,
    RebuildQuantized,
    RebuildParameter,
    RebuildParameterWithState,
    /// `torch.Tensor` or `Parameter`: what `_rebuild_from_type_v2` makes of a tensor.
    TensorClass,
    /// A Python set, which only attributes of tensors are.
    Set,
    /// `build_intlist` and the like: a list whose elements are of this kind.
    BuildList(&'static str),
    BuildTensorFromId,
    RestoreTypeTag,
    OrderedDict,
    Complex,
    Device,
    Storage(Dtype),
    Scheme(&'static str),
    Dtype(Dtype),
    /// A class of the archive, or of PyTorch's own C++ classes, by its qualified name.
    Class(String),
}

/// A storage as a pickle names it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedStorage {
    pub(crate) dtype: Dtype,
    pub(crate) key: String,
    pub(crate) elements: u64,
}

/// A tensor as a pickle describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) storage: NamedStorage,
    pub(crate) dtype: Dtype,
    pub(crate) sizes: Vec<u64>,
    pub(crate) strides: Vec<u64>,
    pub(crate) offset: u64,
    pub(crate) requires_grad: bool,
    pub(crate) quantizer: Option<Quantizer<Described>>,
    pub(crate) signs: Signs,
    /// Whether Python wrote it as a parameter.
    pub(crate) parameter: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Complex(f64, f64),
    Device(String),
    Global(Global),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Storage(NamedStorage),
    Tensor(Box<Described>),
    /// A tensor of the table in `model.json`, up to 1.2.
    LegacyTensor(u64),
    /// An object, and its state once there is one.
    Object {
        class: String,
        state: Option<Id>,
    },
    /// An enum, or a named tuple.
    Made {
        class: String,
        from: Id,
    },
}

impl Value {
    /// The kind of the value, in a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an int",
            Value::Float(_) => "a float",
            Value::Text(_) => "a str",
            Value::Complex(..) => "a complex number",
            Value::Device(_) => "a device",
            Value::Global(_) => "a global",
            Value::Tuple(_) => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) => "a dict",
            Value::Storage(_) => "a storage",
            Value::Tensor(_) | Value::LegacyTensor(_) => "a Tensor",
            Value::Object { .. } => "an object",
            Value::Made { .. } => "an enum or a named tuple",
        }
    }
}

/// A pickle that was read.
#[derive(Debug)]
pub(crate) struct Pickle {
    pub(crate) values: Vec<Value>,
    pub(crate) root: Id,
}

impl Pickle {
    pub(crate) fn get(&self, id: Id) -> &Value {
        &self.values[id.0 as usize]
    }

    pub(crate) fn root(&self) -> &Value {
        self.get(self.root)
    }

    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        if let Value::Text(text) = self.get(id) { Some(text) } else { None }
    }

    fn children(&self, id: Id) -> Vec<Id> {
        match self.get(id) {
            Value::Tuple(items) | Value::List(items) => items.clone(),
            Value::Dict(entries) => entries.iter().flat_map(|(key, value)| [*key, *value]).collect(),
            Value::Object { state: Some(state), .. } => vec![*state],
            Value::Made { from, .. } => vec![*from],
            _ => Vec::new(),
        }
    }

    /// Refuses values that contain themselves, or are nested too deep: nothing after this has to
    /// mind its stack. Depths are computed children first, with a stack on the heap.
    pub(crate) fn check_nesting(&self) -> Result<()> {
        const OPEN: usize = usize::MAX;
        let mut depths = vec![0usize; self.values.len()];
        let mut stack = vec![(self.root, false)];
        while let Some((id, done)) = stack.pop() {
            let at = id.0 as usize;
            let children = self.children(id);
            if done {
                let depth = children.iter().map(|child| depths[child.0 as usize]).max().unwrap_or(0) + 1;
                if depth > DEEPEST {
                    return refuse(format!("values are nested too deep, over {DEEPEST} levels"));
                }
                depths[at] = depth;
            } else if depths[at] == OPEN {
                return refuse("a value contains itself");
            } else if depths[at] == 0 {
                depths[at] = OPEN;
                stack.push((id, true));
                stack.extend(children.iter().filter(|child| depths[child.0 as usize] == OPEN).map(|c| (*c, false)));
                stack.extend(children.iter().filter(|child| depths[child.0 as usize] == 0).map(|c| (*c, false)));
            }
        }
        Ok(())
    }
}
