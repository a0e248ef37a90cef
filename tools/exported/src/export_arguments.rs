//! Arguments of nodes: a union of 31 tags in schema 8.20.

use crate::{Result, refuse, shown};
use jitopt_archive::Json;

/// Arguments within arguments.
const DEEPEST: usize = 16;

/// An argument of a node, an output, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Argument<'j> {
    None,
    /// A tensor or a number that a node computes, by name.
    Value(&'j str),
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Text(&'j str),
    /// A number of `c10::ScalarType`, `Layout` or `MemoryFormat`, as it stands in graphs.
    Code(i64),
    /// `cpu`, `cuda:1`
    Device(String),
    List(Elements, Vec<Argument<'j>>),
    /// A graph of a higher-order operator.
    Graph(&'j Json),
}

/// The kind of elements of a list, by its tag: the list may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Tensors,
    OptionalTensors,
    Ints,
    Floats,
    Bools,
    Texts,
    Lists,
}

impl<'j> Argument<'j> {
    /// Reads an argument, of which `what` is the name in messages.
    pub(crate) fn read(union: &'j Json, what: &str) -> Result<Argument<'j>> {
        read(union, what, 0)
    }

    /// The name of the value, if it is one.
    pub(crate) fn value(&self) -> Option<&'j str> {
        if let Argument::Value(name) = self { Some(name) } else { None }
    }
}

fn read<'j>(union: &'j Json, what: &str, depth: usize) -> Result<Argument<'j>> {
    if depth > DEEPEST {
        return refuse(format!("{what} is nested too deep"));
    }
    let (tag, value) = union.union(what)?;
    let list = |elements: Elements, element: &dyn Fn(&'j Json) -> Option<Argument<'j>>| {
        let parts: Option<Vec<_>> = value.items().iter().map(element).collect();
        parts.map(|parts| Argument::List(elements, parts))
    };
    let found = match tag {
        "as_none" => Some(Argument::None),
        "as_tensor" | "as_name" | "as_sym_int" | "as_sym_float" | "as_sym_bool" | "as_optional_tensor" => {
            element(value).or_else(|| named(union))
        }
        "as_int" | "as_float" | "as_bool" => plain(value),
        "as_string" => value.text().map(Argument::Text),
        "as_tensors" => list(Elements::Tensors, &element),
        "as_optional_tensors" => list(Elements::OptionalTensors, &element),
        "as_ints" | "as_sym_ints" => list(Elements::Ints, &element),
        "as_floats" | "as_sym_floats" => list(Elements::Floats, &element),
        "as_bools" | "as_sym_bools" => list(Elements::Bools, &element),
        "as_strings" => list(Elements::Texts, &|text| text.text().map(Argument::Text)),
        "as_int_lists" => list(Elements::Lists, &|inner| inner_list(inner, Elements::Ints)),
        "as_float_lists" => list(Elements::Lists, &|inner| inner_list(inner, Elements::Floats)),
        "as_nested_tensors" => list(Elements::Lists, &|inner| inner_list(inner, Elements::Tensors)),
        "as_scalar_type" => value.int().and_then(dtype_code).map(Argument::Code),
        "as_layout" => value.int().and_then(layout_code).map(Argument::Code),
        "as_memory_format" => value.int().and_then(memory_format_code).map(Argument::Code),
        "as_device" => device(value).map(Argument::Device),
        "as_complex" => complex(value),
        "as_graph" => Some(Argument::Graph(value.get("graph"))),
        "as_custom_obj" | "as_operator" | "as_string_to_argument" | "as_token" => {
            return refuse(format!("{what} is {}, which has no form in IR", in_words(tag)));
        }
        _ => return refuse(format!("{what} has the unknown tag {}", shown(tag))),
    };
    match found {
        Some(argument) => Ok(argument),
        None => refuse(format!("{what} has the tag `{tag}` and a value that does not fit it")),
    }
}

fn in_words(tag: &str) -> &'static str {
    match tag {
        "as_custom_obj" => "an object of a class in C++",
        "as_operator" => "an operator",
        "as_token" => "a token of an effect",
        _ => "a dict of arguments",
    }
}

/// `{"name": "x"}`, `{"as_name": "n"}`, `{"as_tensor": {"name": "x"}}`, `{"as_int": 3}`, `3`.
fn element(value: &Json) -> Option<Argument<'_>> {
    named(value).or_else(|| plain(value)).or_else(|| {
        let (tag, inner) = value.union("").ok()?;
        match tag {
            "as_none" => Some(Argument::None),
            "as_tensor" => named(inner),
            "as_int" | "as_float" | "as_bool" => plain(inner),
            _ => None,
        }
    })
}

fn named(value: &Json) -> Option<Argument<'_>> {
    value.get("name").text().or_else(|| value.get("as_name").text()).map(Argument::Value)
}

/// A number or a bool. Schemas since 8.9 write what JSON lacks as strings.
fn plain(value: &Json) -> Option<Argument<'static>> {
    Some(match value {
        Json::Int(number) => Argument::Int(*number),
        Json::Float(number) => Argument::Float(*number),
        Json::Bool(yes) => Argument::Bool(*yes),
        Json::Text(text) => Argument::Float(match text.as_str() {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            "NaN" => f64::NAN,
            _ => return None,
        }),
        _ => return None,
    })
}

fn inner_list(list: &Json, elements: Elements) -> Option<Argument<'_>> {
    let Json::List(parts) = list else { return None };
    let parts: Option<Vec<_>> = parts.iter().map(element).collect();
    parts.map(|parts| Argument::List(elements, parts))
}

fn real(value: &Json) -> Option<f64> {
    match plain(value)? {
        Argument::Int(number) => Some(number as f64),
        Argument::Float(number) => Some(number),
        _ => None,
    }
}

fn complex(value: &Json) -> Option<Argument<'static>> {
    Some(Argument::Complex(real(value.get("real"))?, real(value.get("imag"))?))
}

/// `{"type": "cuda", "index": 1}`
pub(crate) fn device(value: &Json) -> Option<String> {
    let is_plain = |kind: &&str| {
        let mut bytes = kind.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_alphabetic()) && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let kind = value.get("type").text().filter(is_plain)?;
    let index = value.get("index").int().filter(|index| (0..256).contains(index));
    Some(index.map_or_else(|| kind.to_owned(), |index| format!("{kind}:{index}")))
}

/// The number of `c10::ScalarType` for a number of the schema.
pub(crate) fn dtype_code(number: i64) -> Option<i64> {
    Some(match number {
        1..=12 => number - 1,
        13 => 15,
        28 => 27,
        29 => 24,
        30 => 23,
        31 => 26,
        32 => 25,
        33 => 44,
        34 => 28,
        35 => 29,
        _ => return None,
    })
}

/// The number of `c10::Layout`.
pub(crate) fn layout_code(number: i64) -> Option<i64> {
    Some(match number {
        1 => 1,
        2 => 3,
        3 => 4,
        4 => 5,
        5 => 6,
        6 => 2,
        7 => 0,
        _ => return None,
    })
}

/// The number of `c10::MemoryFormat`, where preserving is 1.
fn memory_format_code(number: i64) -> Option<i64> {
    Some(match number {
        1 => 0,
        2 => 2,
        3 => 3,
        4 => 1,
        _ => return None,
    })
}
