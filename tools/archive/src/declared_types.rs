//! Types as code and pickles spell them, as far as values can be checked against them.

use crate::pickle_value::{Id, Value};

/// Deeper annotations are not checked further.
const DEEPEST: usize = 12;
/// Lists that contain one list many times would take forever.
const MOST_COMPARED: u64 = 20_000_000;

/// A declared type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Declared {
    /// Not checked: `Any`, unions, classes by alias, what is unknown here.
    Open,
    Tensor,
    Int,
    Float,
    Bool,
    Text,
    Optional(Box<Declared>),
    List(Box<Declared>),
    Dict(Box<Declared>, Box<Declared>),
    Tuple(Vec<Declared>),
    /// An object of this class.
    Class(String),
}

impl Declared {
    /// Reads the spelling of a type, `Dict[str, Tensor]`.
    pub(crate) fn parse(text: &str) -> Declared {
        Declared::parse_within(text.trim(), DEEPEST)
    }

    fn parse_within(text: &str, left: usize) -> Declared {
        if left == 0 {
            return Declared::Open;
        }
        let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']');
        let one = |inside: &str| Box::new(Declared::parse_within(inside.trim(), left - 1));
        if let Some(inside) = inner("Optional") {
            return Declared::Optional(one(inside));
        }
        if let Some(inside) = inner("List") {
            return Declared::List(one(inside));
        }
        if let Some(inside) = inner("Dict") {
            return match split(inside).as_slice() {
                [key, value] => Declared::Dict(one(key), one(value)),
                _ => Declared::Open,
            };
        }
        if text == "Tuple[()]" {
            return Declared::Tuple(Vec::new());
        }
        if let Some(inside) = inner("Tuple") {
            let parts = split(inside);
            return Declared::Tuple(parts.iter().map(|part| *one(part)).collect());
        }
        match text {
            "Tensor" => Declared::Tensor,
            "int" => Declared::Int,
            "float" => Declared::Float,
            "bool" => Declared::Bool,
            "str" => Declared::Text,
            _ if text.starts_with("__torch__.") => Declared::Class(text.to_owned()),
            _ => Declared::Open,
        }
    }

    /// Whether the value may be of this type. Objects of another class may be of an interface.
    ///
    /// `compared` counts the steps of all calls; beyond a bound nothing is admitted.
    pub(crate) fn admits(&self, values: &[Value], id: Id, compared: &mut u64) -> bool {
        let value = &values[id.0 as usize];
        *compared += 1;
        if *compared > MOST_COMPARED {
            return false;
        }
        match (self, value) {
            (Declared::Open, _) => true,
            (Declared::Optional(_), Value::None) => true,
            (Declared::Optional(inner), _) => inner.admits(values, id, compared),
            // A tensor that was never set is None in an archive of PyTorch.
            (Declared::Tensor, _) => matches!(value, Value::Tensor(_) | Value::LegacyTensor(_) | Value::None),
            (Declared::Int, _) => matches!(value, Value::Int(_)),
            (Declared::Float, _) => matches!(value, Value::Float(_)),
            (Declared::Bool, _) => matches!(value, Value::Bool(_)),
            (Declared::Text, _) => matches!(value, Value::Text(_)),
            (Declared::List(of), Value::List(items)) => items.iter().all(|item| of.admits(values, *item, compared)),
            (Declared::Dict(key, of), Value::Dict(entries)) => {
                entries.iter().all(|(k, v)| key.admits(values, *k, compared) && of.admits(values, *v, compared))
            }
            (Declared::Tuple(of), Value::Tuple(items)) => {
                of.len() == items.len() && of.iter().zip(items).all(|(of, item)| of.admits(values, *item, compared))
            }
            (Declared::Class(_), _) => {
                matches!(value, Value::Object { .. } | Value::Made { .. } | Value::Tuple(_) | Value::None)
            }
            _ => false,
        }
    }
}

/// The parts between commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}
