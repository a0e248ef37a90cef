//! Values described in JSON: inputs of a graph, its outputs, and tolerances.
//!
//! Tensors are named by a `key` and stored in a file next to the description; all other values are
//! written out. `inf`, `-inf` and `nan` are strings. Two tensors with one key are the same tensor;
//! `storage` names a tensor that this one is a view of, from `offset` on. A description may be an
//! object with `inputs`, `outputs` and tolerances, or only the list of inputs.
//!
//! For a quantised tensor, `"dtype": "qint8"`, the file and `values` have the integers; `scale` and
//! `zero_point` map them to numbers: one number each, or lists of them with the `axis` that they
//! apply to.

use super::comparison::Tolerance;
use super::files::{FormatError, Result, Tensors, refuse};
use super::ivalue::{IValue, Object};
use crate::log::did_you_mean;
use crate::symbol::Symbol;
use crate::tensor::layout::{self, Dims};
use crate::tensor::{C128, DType, Device, Precision, Quantizer, Tensor};
use crate::types::{Simple, Type, TypeKind};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A value without the elements of its tensors.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants are the kinds")]
pub enum Described {
    None,
    /// An undefined tensor, such as a gradient that does not exist.
    Undefined,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(C128),
    Str(String),
    Device(String),
    Tensor(Box<TensorNote>),
    List(Vec<Described>),
    Tuple(Vec<Described>),
    Dict(Vec<(Described, Described)>),
    Object {
        class: String,
        attributes: Vec<(String, Described)>,
    },
}

/// The description of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorNote {
    /// Its name in the file; if absent, its path in the value.
    pub key: Option<String>,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub shape: Dims,
    /// Its strides, if it is not contiguous.
    pub strides: Option<Dims>,
    /// The device that programs see.
    pub device: Option<String>,
    /// The `requires_grad` that programs see; `None`, if it is not given, counts as false.
    pub requires_grad: Option<bool>,
    /// The tensor of the file that is its memory, and the offset of the first element in it.
    pub storage: Option<(String, i64)>,
    /// Its elements in logical order, if they are written out.
    pub values: Option<Vec<Described>>,
    /// The mapping of its integers to numbers, if it is quantised.
    pub quantizer: Option<Quantizer>,
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The name of its parameter, if given.
    pub name: Option<String>,
    /// The value.
    pub value: Described,
}

/// A whole description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The inputs in order.
    pub inputs: Vec<Input>,
    /// The value of the outputs.
    pub outputs: Option<Described>,
    /// The tolerance of the outputs.
    pub tolerance: Option<Tolerance>,
    /// Other methods of the module that are described, in the field `methods`: the names of their
    /// tensors begin with theirs, `encode.in0`.
    pub methods: Vec<String>,
}

/// Parses JSON, and Python's spellings of values that JSON lacks: `NaN`, `Infinity`, `-Infinity`.
fn json_of(bytes: &[u8]) -> Result<Value> {
    let plain = serde_json::from_slice(bytes);
    plain.or_else(|error| {
        let quoted = quoted_words(bytes);
        serde_json::from_slice(&quoted).map_err(|_| FormatError(format!("invalid JSON: {error}")))
    })
}

/// The same text with those words in quotes, outside of strings.
fn quoted_words(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let (mut quoted, mut at, mut within) = (Vec::with_capacity(bytes.len()), 0, false);
    while let Some(&byte) = bytes.get(at) {
        let word = WORDS.into_iter().find(|word| !within && bytes[at..].starts_with(word));
        let taken = word.map_or(if within && byte == b'\\' { 2 } else { 1 }, <[u8]>::len).min(bytes.len() - at);
        let quote: &[u8] = if word.is_some() { b"\"" } else { b"" };
        quoted.extend([quote, &bytes[at..at + taken], quote].concat());
        within ^= byte == b'"';
        at += taken;
    }
    quoted
}

/// The values of a field that holds a list, such as gradients.
pub fn parse_list(bytes: &[u8], field: &str) -> Result<Vec<Described>> {
    let json = json_of(bytes)?;
    match json.get(field) {
        Some(list) => list_of(list, field),
        None => refuse(format!("missing field `{field}`")),
    }
}

/// The graph that a description of several graphs describes: `f`, in the fields `f_inputs` and
/// `f_outputs`.
pub fn part_in<'p>(bytes: &[u8], parts: &[&'p str]) -> Option<&'p str> {
    let json = json_of(bytes).ok()?;
    parts.iter().copied().find(|part| json.get("inputs").is_none() && json.get(format!("{part}_inputs")).is_some())
}

/// Parses the description of one of several graphs. Outputs are a tuple, also a single one.
pub fn parse_part(bytes: &[u8], part: &str) -> Result<Description> {
    let list = |what: &str| parse_list(bytes, &format!("{part}_{what}"));
    let inputs = list("inputs")?.into_iter().map(|value| Input { name: None, value }).collect();
    let outputs = Some(Described::Tuple(list("outputs")?));
    Ok(Description { inputs, outputs, ..parse(bytes)? })
}

/// Parses the description of one method of a module, in the field `methods`; nothing if there is
/// none.
pub fn parse_method(bytes: &[u8], method: &str) -> Result<Option<Description>> {
    let json = json_of(bytes)?;
    let Some(described) = json.get("methods").and_then(|methods| methods.get(method)) else { return Ok(None) };
    let whole = parse(bytes)?;
    let mut methods = whole.methods;
    methods.retain(|other| other != method);
    // Tensors of `forward` have no prefix.
    methods.extend(["in", "out"].map(str::to_owned));
    Ok(Some(Description { tolerance: whole.tolerance, methods, ..parse(described.to_string().as_bytes())? }))
}

/// Parses a description.
pub fn parse(bytes: &[u8]) -> Result<Description> {
    let json = json_of(bytes)?;
    match &json {
        Value::Array(list) => Ok(Description { inputs: inputs_of(list)?, ..Description::default() }),
        Value::Object(fields) => {
            let inputs = match fields.get("inputs") {
                Some(Value::Array(list)) => inputs_of(list)?,
                Some(_) => return refuse("`inputs` is not a list"),
                None => Vec::new(),
            };
            let outputs = fields.get("outputs").map(|value| read(value, "outputs")).transpose()?;
            let methods = fields.get("methods").and_then(Value::as_object);
            let methods = methods.map(|methods| methods.keys().cloned().collect()).unwrap_or_default();
            Ok(Description { inputs, outputs, tolerance: tolerance_of(fields)?, methods })
        }
        _ => refuse("expected an object with `inputs` or a list of inputs"),
    }
}

fn tolerance_of(fields: &Map<String, Value>) -> Result<Option<Tolerance>> {
    let one = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|x| *x >= 0.0) {
            Some(x) => Ok(Some(x)),
            None => refuse(format!("`{name}` is not a non-negative number")),
        },
    };
    Ok(match (one("rtol")?, one("atol")?) {
        (None, None) => None,
        (rtol, atol) => Some(Tolerance::of(rtol.unwrap_or(0.0), atol.unwrap_or(0.0))),
    })
}

fn inputs_of(list: &[Value]) -> Result<Vec<Input>> {
    let input = |(i, value): (usize, &Value)| {
        let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
        Ok(Input { name, value: read(value, &format!("inputs[{i}]"))? })
    };
    list.iter().enumerate().map(input).collect()
}

// ---- reading

const KINDS: &[&str] = &[
    "None",
    "undefined",
    "bool",
    "int",
    "float",
    "complex",
    "str",
    "device",
    "dtype",
    "Tensor",
    "list",
    "tuple",
    "dict",
    "object",
];

fn read(json: &Value, path: &str) -> Result<Described> {
    let Some(kind) = json.get("kind").and_then(Value::as_str) else {
        return refuse(format!("{path} has no `kind`"));
    };
    let value = json.get("value").unwrap_or(&Value::Null);
    let wrong = || FormatError(format!("{path}: `value` is not of kind {kind}"));
    Ok(match kind {
        "None" => Described::None,
        "undefined" => Described::Undefined,
        "bool" => Described::Bool(value.as_bool().ok_or_else(wrong)?),
        "int" => Described::Int(value.as_i64().ok_or_else(wrong)?),
        "float" => Described::Float(real(value).ok_or_else(wrong)?),
        "complex" => Described::Complex(complex(value).ok_or_else(wrong)?),
        "str" => Described::Str(value.as_str().ok_or_else(wrong)?.to_owned()),
        "device" => Described::Device(value.as_str().ok_or_else(wrong)?.to_owned()),
        "dtype" => {
            let dtype = value.as_str().and_then(DType::from_python).and_then(DType::code);
            Described::Int(dtype.ok_or_else(wrong)?)
        }
        "Tensor" => Described::Tensor(Box::new(tensor_note(json, path)?)),
        "list" | "List" => Described::List(list_of(json.get("elements").unwrap_or(value), path)?),
        "tuple" | "Tuple" => Described::Tuple(list_of(json.get("elements").unwrap_or(value), path)?),
        "dict" | "Dict" => Described::Dict(items_of(json, path)?),
        "object" => object_of(json, path)?,
        _ => {
            let near = did_you_mean(kind, KINDS.iter().copied());
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format!("{path}: unknown kind of value `{kind}`{hint}"));
        }
    })
}

fn real(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("inf" | "Infinity") => Some(f64::INFINITY),
        Some("-inf" | "-Infinity") => Some(f64::NEG_INFINITY),
        Some("nan" | "NaN") => Some(f64::NAN),
        _ => json.as_f64(),
    }
}

fn complex(json: &Value) -> Option<C128> {
    match json.as_array().map(Vec::as_slice) {
        Some([re, im]) => Some(C128::new(real(re)?, real(im)?)),
        Some(_) => None,
        None => real(json).map(|re| C128::new(re, 0.0)),
    }
}

fn list_of(json: &Value, path: &str) -> Result<Vec<Described>> {
    let Some(list) = json.as_array() else { return refuse(format!("{path} has no list of `elements`")) };
    list.iter().enumerate().map(|(i, value)| read(value, &format!("{path}[{i}]"))).collect()
}

fn items_of(json: &Value, path: &str) -> Result<Vec<(Described, Described)>> {
    let Some(items) = json.get("items").and_then(Value::as_array) else {
        return refuse(format!("{path} has no list of `items`"));
    };
    let item = |(i, item): (usize, &Value)| match item.as_array().map(Vec::as_slice) {
        Some([key, value]) => {
            Ok((read(key, &format!("{path}: key {i}"))?, read(value, &format!("{path}: value {i}"))?))
        }
        _ => refuse(format!("{path}: item {i} is not a pair")),
    };
    items.iter().enumerate().map(item).collect()
}

fn object_of(json: &Value, path: &str) -> Result<Described> {
    let class = json.get("class").and_then(Value::as_str);
    let attributes = json.get("attributes").and_then(Value::as_object);
    let (Some(class), Some(attributes)) = (class, attributes) else {
        return refuse(format!("{path} lacks `class` or `attributes`"));
    };
    let attributes = attributes.iter().map(|(name, value)| Ok((name.clone(), read(value, &format!("{path}.{name}"))?)));
    Ok(Described::Object { class: class.to_owned(), attributes: attributes.collect::<Result<_>>()? })
}

/// The fields of a tensor; recorded descriptions also have the name and the type of its parameter.
const OF_TENSORS: &[&str] = &[
    "kind",
    "key",
    "dtype",
    "shape",
    "strides",
    "device",
    "requires_grad",
    "storage",
    "offset",
    "values",
    "scale",
    "zero_point",
    "axis",
    "name",
    "type",
];

/// Whether a gradient is required, if given.
fn parse_requires_grad(json: &Value, dtype: DType, path: &str) -> Result<Option<bool>> {
    match json.get("requires_grad") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(false)) => Ok(Some(false)),
        Some(Value::Bool(true)) if dtype.is_float() || dtype.is_complex() => Ok(Some(true)),
        Some(Value::Bool(true)) => refuse(format!(
            "{path}: `requires_grad` of {}: only floating point and complex tensors have gradients",
            dtype.python_name()
        )),
        Some(_) => refuse(format!("{path}: `requires_grad` is neither true nor false")),
    }
}

/// `"scale": 0.1, "zero_point": 3` of a quantised tensor; lists of them and an `axis` if they
/// differ by slice.
fn quantizer_of(json: &Value, dtype: DType, rank: usize, path: &str) -> Result<Option<Quantizer>> {
    let (scale, zero, axis) = (json.get("scale"), json.get("zero_point"), json.get("axis"));
    if !dtype.is_quantized() {
        return match [scale, zero, axis].iter().all(|field| field.is_none_or(Value::is_null)) {
            true => Ok(None),
            false => refuse(format!("{path}: {} has no `scale`, `zero_point` or `axis`", dtype.python_name())),
        };
    }
    let numbers = |value: Option<&Value>| value?.as_array()?.iter().map(real).collect::<Option<Vec<f64>>>();
    if let (Some(scale), Some(zero)) = (scale.and_then(real), zero.and_then(Value::as_i64)) {
        return Ok(Some(Quantizer::Tensor { scale, zero }));
    }
    let axis = axis.and_then(Value::as_u64).map(|axis| axis as usize).filter(|&axis| axis < rank);
    match (numbers(scale), numbers(zero), axis) {
        (Some(scales), Some(zeros), Some(axis)) if scales.len() == zeros.len() => {
            let floats = json["zero_point"].as_array().is_some_and(|all| all.iter().any(|n| n.as_i64().is_none()));
            Ok(Some(Quantizer::Channels { scales, zeros, axis, floats }))
        }
        _ => refuse(format!(
            "{path}: {} requires `scale` and `zero_point`, or equally long lists of both with their `axis`",
            dtype.python_name()
        )),
    }
}

fn tensor_note(json: &Value, path: &str) -> Result<TensorNote> {
    let mut names = json.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
    if let Some(lost) = names.find(|name| !OF_TENSORS.contains(name)) {
        let near = did_you_mean(lost, OF_TENSORS.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return refuse(format!("{path}: unknown field `{lost}` of a tensor{near}"));
    }
    let text = |name: &str| match json.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => refuse(format!("{path}: `{name}` is not a string")),
    };
    let dims = |name: &str| match json.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(list) => match list.as_array().and_then(|list| list.iter().map(Value::as_i64).collect::<Option<Dims>>()) {
            Some(dims) if dims.iter().all(|&n| n >= 0) => Ok(Some(dims)),
            _ => refuse(format!("{path}: `{name}` is not a list of non-negative integers")),
        },
    };
    let name = text("dtype")?.unwrap_or_else(|| "float32".to_owned());
    let Some(dtype) = DType::from_python(&name).filter(|dtype| dtype.memory().arithmetic().is_some()) else {
        return refuse(format!("{path}: unsupported element type `{name}`"));
    };
    let Some(shape) = dims("shape")? else { return refuse(format!("{path} has no `shape`")) };
    let strides = dims("strides")?;
    if strides.as_ref().is_some_and(|strides| strides.len() != shape.len()) {
        return refuse(format!("{path}: `strides` and `shape` differ in length"));
    }
    let offset = json.get("offset").map_or(Some(0), Value::as_i64);
    let offset = offset
        .filter(|&n| n >= 0)
        .ok_or_else(|| FormatError(format!("{path}: `offset` is not a non-negative integer")))?;
    let values = json.get("values").map(|values| elements_of(values, dtype.memory(), path)).transpose()?;
    let quantizer = quantizer_of(json, dtype, shape.len(), path)?;
    let requires_grad = parse_requires_grad(json, dtype, path)?;
    let storage = text("storage")?.map(|storage| (storage, offset));
    Ok(TensorNote {
        key: text("key")?,
        dtype,
        shape,
        strides,
        device: text("device")?,
        requires_grad,
        storage,
        values,
        quantizer,
    })
}

/// Elements in nested lists, in order. The nesting adds nothing to the shape.
fn elements_of(json: &Value, dtype: DType, path: &str) -> Result<Vec<Described>> {
    let mut work = vec![json];
    let mut elements = Vec::new();
    while let Some(value) = work.pop() {
        let element = match value {
            Value::Array(parts) if !(dtype.is_complex() && complex(value).is_some()) => {
                work.extend(parts.iter().rev());
                continue;
            }
            Value::Bool(b) => Some(Described::Bool(*b)),
            value if dtype.is_integral() => value.as_i64().map(Described::Int),
            value if dtype.is_complex() => complex(value).map(Described::Complex),
            value => real(value).map(Described::Float),
        };
        elements.push(
            element.ok_or_else(|| FormatError(format!("{path}: {value} is not of type {}", dtype.python_name())))?,
        );
    }
    Ok(elements)
}

// ---- values

/// Makes values from descriptions, with the tensors of a file.
#[derive(Debug)]
pub struct Source<'a> {
    tensors: &'a Tensors,
    precision: Precision,
    trusting: bool,
    made: RefCell<BTreeMap<String, Tensor>>,
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Source<'a> {
    /// A source with these tensors, and floating point numbers of a precision.
    pub fn new(tensors: &'a Tensors, precision: Precision) -> Source<'a> {
        Source { tensors, precision, trusting: false, made: RefCell::default(), used: RefCell::default() }
    }

    /// Accepts tensors of the file that differ from the description.
    pub fn trusting(self) -> Source<'a> {
        Source { trusting: true, ..self }
    }

    /// The tensors that no description used.
    pub fn unused(&self) -> Vec<&'a str> {
        self.tensors.keys().map(String::as_str).filter(|name| !self.used.borrow().contains(*name)).collect()
    }

    /// The value. `key` is the name of a tensor without one, and the prefix of the names of those
    /// in containers.
    pub fn value(&self, described: &Described, key: &str) -> Result<IValue> {
        let elements = |list: &[Described]| {
            list.iter()
                .enumerate()
                .map(|(i, value)| self.value(value, &format!("{key}.{i}")))
                .collect::<Result<Vec<_>>>()
        };
        Ok(match described {
            Described::None => IValue::None,
            Described::Undefined => IValue::Undefined,
            Described::Bool(b) => IValue::Bool(*b),
            Described::Int(n) => IValue::Int(*n),
            Described::Float(x) => IValue::Float(*x),
            Described::Complex(z) => IValue::Complex(*z),
            Described::Str(text) => IValue::from(text.as_str()),
            Described::Device(name) => IValue::Device(Device::new(name)),
            Described::Tensor(note) => IValue::Tensor(self.tensor(note, key)?),
            Described::List(list) => IValue::list(elements(list)?),
            Described::Tuple(list) => IValue::tuple(elements(list)?),
            Described::Dict(items) => {
                let item = |(i, (k, v)): (usize, &(Described, Described))| {
                    Ok((self.value(k, &format!("{key}.k{i}"))?, self.value(v, &format!("{key}.v{i}"))?))
                };
                IValue::dict(items.iter().enumerate().map(item).collect::<Result<Vec<_>>>()?)
            }
            Described::Object { class, attributes } => {
                let attribute = |(name, value): &(String, Described)| {
                    Ok((name.clone(), self.value(value, &format!("{key}.{name}"))?))
                };
                let attributes = RefCell::new(attributes.iter().map(attribute).collect::<Result<_>>()?);
                IValue::Object(Rc::new(Object { class: Symbol::new(class), attributes }))
            }
        })
    }

    fn tensor(&self, note: &TensorNote, key: &str) -> Result<Tensor> {
        let key = note.key.as_deref().unwrap_or(key);
        if let Some(quantizer) = &note.quantizer {
            let integers = TensorNote { dtype: note.dtype.memory(), quantizer: None, ..note.clone() };
            return Ok(self.tensor(&integers, key)?.quantized(note.dtype, quantizer.clone()));
        }
        let tensor = match (&note.storage, &note.values) {
            (Some((storage, offset)), _) => self.look_into(note, storage, *offset, key)?,
            (None, Some(values)) => placed(&written_out(note, values, key)?, note, self.precision, key)?,
            (None, None) => match self.made.borrow().get(key) {
                Some(same) if same.shape() == &note.shape[..] => return Ok(same.clone()),
                _ if self.trusting => self.stored(key, note)?,
                _ => placed(&self.stored(key, note)?, note, self.precision, key)?,
            },
        };
        let tensor = note.device.as_deref().map_or(tensor.clone(), |device| tensor.on(Device::new(device)));
        tensor.set_requires_grad(note.requires_grad == Some(true));
        self.made.borrow_mut().insert(key.to_owned(), tensor.clone());
        Ok(tensor)
    }

    /// The tensor of the file, if it matches the description.
    fn stored(&self, key: &str, note: &TensorNote) -> Result<Tensor> {
        let Some(tensor) = self.tensors.get(key) else {
            let near = did_you_mean(key, self.tensors.keys().map(String::as_str));
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refuse(format!("the file has no tensor `{key}`{hint}"));
        };
        self.used.borrow_mut().insert(key.to_owned());
        let shadow = tensor.dtype() == DType::Double && note.dtype.is_float() && self.precision == Precision::Double;
        if self.trusting {
            return Ok(tensor.clone());
        }
        if tensor.shape() != &note.shape[..] || (tensor.dtype() != note.dtype && !shadow) {
            let (found, wanted) = (tensor.dtype().python_name(), note.dtype.python_name());
            return refuse(format!(
                "tensor `{key}` is {found}{:?} in the file, and {wanted}{:?} in the description",
                tensor.shape(),
                &note.shape[..]
            ));
        }
        Ok(tensor.clone())
    }

    /// A view of a tensor of the file, which other tensors may share.
    fn look_into(&self, note: &TensorNote, storage: &str, offset: i64, key: &str) -> Result<Tensor> {
        let known = self.made.borrow().get(storage).cloned();
        let memory = match (known, self.tensors.get(storage)) {
            (Some(memory), _) => memory,
            (None, Some(memory)) => memory.copied().converted(note.dtype, self.precision),
            (None, None) => {
                return refuse(format!("the file has no tensor `{storage}`, the memory of `{key}`"));
            }
        };
        self.used.borrow_mut().insert(storage.to_owned());
        self.made.borrow_mut().insert(storage.to_owned(), memory.clone());
        let strides = note.strides.clone().unwrap_or_else(|| layout::contiguous(&note.shape));
        let fits = extent(&note.shape, &strides).is_some_and(|n| n.checked_add(offset).is_some());
        if memory.dtype() != note.dtype || !fits {
            return refuse(format!("`{key}` exceeds the memory of `{storage}`"));
        }
        memory.as_strided(&note.shape, &strides, offset).map_err(|error| FormatError(format!("`{key}`: {error}")))
    }
}

/// The number of elements from the first to the end of the last.
fn extent(shape: &[i64], strides: &[i64]) -> Option<i64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let steps = shape.iter().zip(strides).map(|(&n, &stride)| (n - 1).checked_mul(stride));
    steps.chain([Some(1)]).try_fold(0i64, |total, step| total.checked_add(step?))
}

/// The tensor in memory of its own, with the strides of the description.
fn placed(tensor: &Tensor, note: &TensorNote, precision: Precision, key: &str) -> Result<Tensor> {
    let contiguous = layout::contiguous(&note.shape);
    let strides = note.strides.as_ref().unwrap_or(&contiguous);
    let Some(n) = extent(&note.shape, strides).filter(|&n| n <= layout::MAX_ELEMENTS) else {
        return refuse(format!(
            "tensor `{key}` with strides {:?} exceeds the interpreter's limit on elements",
            &strides[..]
        ));
    };
    let view = Tensor::zeros(note.dtype, &[n], precision).as_strided(&note.shape, strides, 0);
    let view = view.map_err(|error| FormatError(format!("tensor `{key}`: {error}")))?;
    view.copy_from(tensor).map_err(|error| FormatError(format!("tensor `{key}`: {error}")))?;
    Ok(view)
}

fn written_out(note: &TensorNote, values: &[Described], key: &str) -> Result<Tensor> {
    let n = layout::checked(&note.shape).map_err(|error| FormatError(format!("tensor `{key}`: {error}")))?;
    if n != values.len() {
        return refuse(format!("tensor `{key}` has {n} elements, and {} `values`", values.len()));
    }
    let shape = &note.shape;
    let (typed, dtype) = (Precision::Typed, note.dtype);
    if dtype.is_integral() {
        let ints = values.iter().map(|value| match value {
            Described::Int(n) => *n,
            other => i64::from(*other == Described::Bool(true)),
        });
        return Ok(Tensor::of(&ints.collect::<Vec<i64>>(), dtype, shape, typed));
    }
    let complex = values.iter().map(|value| match value {
        Described::Complex(z) => *z,
        Described::Float(x) => C128::new(*x, 0.0),
        other => C128::new(f64::from(u8::from(*other == Described::Bool(true))), 0.0),
    });
    Ok(match dtype.is_complex() {
        true => Tensor::of(&complex.collect::<Vec<C128>>(), dtype, shape, typed),
        // In doubles, so that a reference run gets the exact values.
        false => Tensor::of(&complex.map(|z| z.re).collect::<Vec<f64>>(), DType::Double, shape, typed),
    })
}

/// The value converted to the type of a parameter: integers become floats, and `None` for a tensor
/// becomes an undefined one.
pub fn fitted(value: IValue, ty: Type) -> Result<IValue> {
    let fits = match (&value, ty.kind()) {
        (_, TypeKind::Optional(inner)) if !value.is_none() => return fitted(value, *inner),
        (IValue::Int(n), TypeKind::Simple(Simple::Float)) => return Ok(IValue::Float(*n as f64)),
        // Files of tensors have no plain numbers, only tensors without dimensions.
        (IValue::Tensor(tensor), TypeKind::Simple(Simple::Int | Simple::Float | Simple::Bool))
            if tensor.rank() == 0 =>
        {
            return fitted(IValue::from(tensor.item()), ty);
        }
        (IValue::None, TypeKind::Tensor(_)) => return Ok(IValue::Undefined),
        (IValue::List(list), TypeKind::List(element)) => {
            let parts: Vec<IValue> =
                list.borrow().iter().map(|v| fitted(v.clone(), *element)).collect::<Result<_>>()?;
            *list.borrow_mut() = parts;
            true
        }
        (IValue::Tuple(parts), TypeKind::Tuple(types)) if parts.len() == types.len() => {
            let parts = parts.iter().zip(types.iter()).map(|(v, &ty)| fitted(v.clone(), ty));
            return Ok(IValue::Tuple(parts.collect::<Result<_>>()?));
        }
        (IValue::Tensor(_) | IValue::Undefined, TypeKind::Tensor(_)) => true,
        (IValue::Object(_), TypeKind::Class(_) | TypeKind::Interface(_)) => true,
        _ => value.is_a(ty),
    };
    if fits { Ok(value) } else { refuse(format!("expected {ty}, found {}", value.kind_name())) }
}

// ---- writing

/// The maximal number of elements of a tensor that are written out.
pub const MOST_WRITTEN: usize = 64;

/// Describes a value; its tensors are added to the others under their keys.
pub fn describe(value: &IValue, key: &str, tensors: &mut Tensors) -> Described {
    let all = |list: &[IValue], tensors: &mut Tensors| {
        list.iter().enumerate().map(|(i, value)| describe(value, &format!("{key}.{i}"), tensors)).collect()
    };
    match value {
        IValue::None | IValue::Uninitialized => Described::None,
        IValue::Undefined => Described::Undefined,
        IValue::Bool(b) => Described::Bool(*b),
        IValue::Int(n) => Described::Int(*n),
        IValue::Float(x) => Described::Float(*x),
        IValue::Complex(z) => Described::Complex(*z),
        IValue::Str(text) => Described::Str(text.to_string()),
        IValue::Device(device) => Described::Device(device.name().to_owned()),
        IValue::Function(name) => Described::Str(name.as_str().to_owned()),
        IValue::Enum(member) => Described::Str(format!("{}.{}", member.class.as_str(), member.name)),
        IValue::Future(value) => match value.result() {
            Ok(value) => describe(value, key, tensors),
            Err(stop) => Described::Str(format!("raises {}", stop.reason)),
        },
        IValue::Tensor(tensor) => {
            tensors.insert(key.to_owned(), tensor.clone());
            Described::Tensor(Box::new(note_of(tensor, key)))
        }
        IValue::List(list) => Described::List(all(&list.borrow(), tensors)),
        IValue::Tuple(list) => Described::Tuple(all(list, tensors)),
        IValue::Dict(dict) => {
            let dict = dict.borrow();
            let mut item = |(i, (k, v)): (usize, (&super::ivalue::Key, &IValue))| {
                (describe(&k.0, &format!("{key}.k{i}"), tensors), describe(v, &format!("{key}.v{i}"), tensors))
            };
            Described::Dict(dict.iter().enumerate().map(&mut item).collect())
        }
        // Objects may refer to each other in cycles.
        IValue::Object(object) => Described::Object { class: object.class.as_str().to_owned(), attributes: Vec::new() },
    }
}

fn note_of(tensor: &Tensor, key: &str) -> TensorNote {
    let strides = (!tensor.is_contiguous()).then(|| tensor.strides().into());
    let device = (tensor.device() != Device::cpu()).then(|| tensor.device().name().to_owned());
    TensorNote {
        key: Some(key.to_owned()),
        dtype: tensor.dtype(),
        shape: tensor.shape().into(),
        strides,
        device,
        requires_grad: tensor.requires_grad().then_some(true),
        storage: None,
        values: (tensor.numel() <= MOST_WRITTEN).then(|| elements_in(tensor)),
        quantizer: tensor.quantizer().map(|quantizer| quantizer.as_ref().clone()),
    }
}

fn elements_in(tensor: &Tensor) -> Vec<Described> {
    match tensor.dtype() {
        DType::Bool => tensor.read().into_iter().map(|n: i64| Described::Bool(n != 0)).collect(),
        dtype if dtype.is_complex() => tensor.read().into_iter().map(Described::Complex).collect(),
        // The shortest text that distinguishes it from its neighbours.
        DType::Float if tensor.kept() == DType::Float => tensor.read().into_iter().map(short_single).collect(),
        dtype if dtype.is_float() => tensor.read().into_iter().map(Described::Float).collect(),
        _ => tensor.read().into_iter().map(Described::Int).collect(),
    }
}

fn short_single(x: f64) -> Described {
    Described::Float((x as f32).to_string().parse().unwrap_or(x))
}

impl Described {
    /// As JSON.
    pub fn json(&self) -> Value {
        let all = |list: &[Described]| list.iter().map(Described::json).collect::<Vec<_>>();
        match self {
            Described::None => json!({"kind": "None"}),
            Described::Undefined => json!({"kind": "undefined"}),
            Described::Bool(b) => json!({"kind": "bool", "value": b}),
            Described::Int(n) => json!({"kind": "int", "value": n}),
            Described::Float(x) => json!({"kind": "float", "value": float_json(*x)}),
            Described::Complex(z) => json!({"kind": "complex", "value": [float_json(z.re), float_json(z.im)]}),
            Described::Str(text) => json!({"kind": "str", "value": text}),
            Described::Device(name) => json!({"kind": "device", "value": name}),
            Described::Tensor(note) => note.json(),
            Described::List(list) => json!({"kind": "list", "elements": all(list)}),
            Described::Tuple(list) => json!({"kind": "tuple", "elements": all(list)}),
            Described::Dict(items) => {
                let items: Vec<Value> = items.iter().map(|(k, v)| json!([k.json(), v.json()])).collect();
                json!({"kind": "dict", "items": items})
            }
            Described::Object { class, attributes } => {
                let attributes: Map<String, Value> =
                    attributes.iter().map(|(name, value)| (name.clone(), value.json())).collect();
                json!({"kind": "object", "class": class, "attributes": attributes})
            }
        }
    }

    /// An element of a tensor, without its kind.
    fn element(&self) -> Value {
        match self {
            Described::Bool(b) => json!(b),
            Described::Int(n) => json!(n),
            Described::Float(x) => float_json(*x),
            Described::Complex(z) => json!([float_json(z.re), float_json(z.im)]),
            _ => Value::Null,
        }
    }
}

fn float_json(x: f64) -> Value {
    match x {
        _ if x.is_nan() => json!("nan"),
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        _ => json!(x),
    }
}

impl TensorNote {
    fn json(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        put("kind", json!("Tensor"));
        put("dtype", json!(self.dtype.python_name()));
        put("shape", json!(&self.shape[..]));
        self.key.iter().for_each(|key| put("key", json!(key)));
        self.strides.iter().for_each(|strides| put("strides", json!(&strides[..])));
        self.device.iter().for_each(|device| put("device", json!(device)));
        self.storage.iter().for_each(|(storage, offset)| {
            put("storage", json!(storage));
            put("offset", json!(offset));
        });
        self.requires_grad.iter().for_each(|required| put("requires_grad", json!(required)));
        match &self.quantizer {
            Some(Quantizer::Tensor { scale, zero }) => {
                put("scale", json!(scale));
                put("zero_point", json!(zero));
            }
            Some(Quantizer::Channels { scales, zeros, axis, floats }) => {
                let ints = || zeros.iter().map(|&zero| zero as i64).collect::<Vec<i64>>();
                put("scale", json!(scales));
                put("zero_point", if *floats { json!(zeros) } else { json!(ints()) });
                put("axis", json!(axis));
            }
            None => {}
        }
        if let Some(values) = &self.values {
            put("values", nested(&values.iter().map(Described::element).collect::<Vec<_>>(), &self.shape));
        }
        Value::Object(fields)
    }
}

/// Elements in nested lists, one level per dimension.
fn nested(elements: &[Value], shape: &[i64]) -> Value {
    match shape {
        [] => elements.first().cloned().unwrap_or(Value::Null),
        [n, rest @ ..] => {
            let step = layout::numel(rest);
            (0..*n as usize).map(|i| nested(elements.get(i * step..(i + 1) * step).unwrap_or(&[]), rest)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let text = r#"[{"kind": "Tensor", "dtype": "float32", "shape": [2, 2], "key": "x", "strides": [1, 2],
            "values": [[1.5, "inf"], ["nan", -0.0]]},
            {"kind": "dict", "items": [[{"kind": "str", "value": "a"}, {"kind": "int", "value": 3}]]},
            {"kind": "tuple", "elements": [{"kind": "None"}, {"kind": "bool", "value": true}]}]"#;
        let description = parse(text.as_bytes()).expect("it is right");
        let none = Tensors::new();
        for input in &description.inputs {
            let value = Source::new(&none, Precision::Typed).value(&input.value, "in").expect("all is written out");
            let mut tensors = Tensors::new();
            let json = describe(&value, "x", &mut tensors).json();
            assert_eq!(read(&json, "").map(|back| format!("{back:?}")), Ok(format!("{:?}", input.value)));
        }
    }

    #[test]
    fn one_key_is_one_tensor_and_storage_is_shared() {
        let text = r#"[{"kind": "Tensor", "shape": [2], "key": "x"}, {"kind": "Tensor", "shape": [2], "key": "x"},
            {"kind": "Tensor", "shape": [2], "key": "y", "storage": "m", "offset": 1},
            {"kind": "Tensor", "shape": [3], "key": "z", "storage": "m"}]"#;
        let row = |n: i64| Tensor::of(&vec![1.0; n as usize], DType::Float, &[n], Precision::Typed);
        let tensors = Tensors::from([("x".to_owned(), row(2)), ("m".to_owned(), row(3)), ("w".to_owned(), row(1))]);
        let source = Source::new(&tensors, Precision::Typed);
        let description = parse(text.as_bytes()).expect("it is right");
        let made: Vec<Tensor> = (description.inputs.iter())
            .map(|input| source.value(&input.value, "in").expect("it is there").tensor().expect("a tensor").clone())
            .collect();
        assert!(made[0].shares_storage(&made[1]) && made[2].shares_storage(&made[3]));
        assert_eq!((made[2].offset(), source.unused()), (1, vec!["w"]));
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, message) in [
            ("{", "JSON"),
            ("3", "expected an object with `inputs`"),
            (r#"[{"kind": "flot", "value": 1}]"#, "did you mean `float`?"),
            (r#"[{"kind": "int", "value": 1.5}]"#, "inputs[0]: `value` is not of kind int"),
            (r#"[{"kind": "list", "elements": [{}]}]"#, "inputs[0][0] has no `kind`"),
            (r#"[{"kind": "Tensor", "dtype": "float31", "shape": []}]"#, "`float31`"),
            (r#"[{"kind": "Tensor", "shape": [-1]}]"#, "`shape`"),
            (r#"[{"kind": "Tensor", "shape": [1], "strides": []}]"#, "`strides`"),
            (r#"{"inputs": [], "rtol": "x"}"#, "`rtol`"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.0.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn mismatched_descriptions_are_refused() {
        let tensors = Tensors::from([("m".to_owned(), Tensor::zeros(DType::Float, &[3], Precision::Typed))]);
        for text in [
            r#"[{"kind": "Tensor", "shape": [4], "storage": "m"}]"#,
            r#"[{"kind": "Tensor", "shape": [4], "key": "m"}]"#,
            r#"[{"kind": "Tensor", "shape": [3], "key": "n"}]"#,
            r#"[{"kind": "Tensor", "shape": [3], "dtype": "int64", "key": "m"}]"#,
            r#"[{"kind": "Tensor", "shape": [3, 3], "strides": [9223372036854775807, 2], "values": [1,1,1,1,1,1,1,1,1]}]"#,
            r#"[{"kind": "Tensor", "shape": [2], "offset": 9223372036854775807, "storage": "m"}]"#,
            r#"[{"kind": "Tensor", "shape": [9223372036854775807, 9223372036854775807], "values": []}]"#,
        ] {
            let description = parse(text.as_bytes()).expect("it can be read");
            let source = Source::new(&tensors, Precision::Typed);
            assert!(source.value(&description.inputs[0].value, "in").is_err(), "{text}");
        }
    }
}
