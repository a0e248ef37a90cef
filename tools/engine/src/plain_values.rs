//! Values without tensors, written inline in options: `8`, `None`, `[1, 2]`, `{"a": 1}`, in the
//! syntax of IR constants.

use crate::Workspace;
use crate::error::{Error, refuse};
use crate::given_values::tensors_of;
use jitopt_core::interpreter::description::fitted;
use jitopt_core::interpreter::exact_literals;
use jitopt_core::interpreter::literal_values::{self, example};
use jitopt_core::interpreter::{Environment, IValue};
use jitopt_core::ir::Attribute;
use jitopt_core::symbol::attr;
use jitopt_core::text::literal::{self, Evidence};
use jitopt_core::types::release::Release;
use jitopt_core::types::spelling::Spelling;
use jitopt_core::types::{Simple, Type, TypeKind};
use std::path::Path;

/// Whether values of a type contain no tensors and have an inline syntax.
pub(crate) fn is_plain(ty: Type) -> bool {
    example(ty).is_some()
}

/// Parses a value of this type.
pub(crate) fn parse(text: &str, ty: Type) -> Option<IValue> {
    let is_optional = matches!(ty.kind(), TypeKind::Optional(_));
    match (text, number_kind(ty)) {
        ("None", _) => return is_optional.then_some(IValue::None),
        ("true", Some(Simple::Bool)) => return Some(IValue::Bool(true)),
        ("false", Some(Simple::Bool)) => return Some(IValue::Bool(false)),
        ("True" | "False", _) => {}
        (_, Some(Simple::Bool)) => return None,
        (_, Some(Simple::Int)) => return text.parse().ok().map(IValue::Int),
        (_, Some(Simple::Float)) => return text.parse().ok().map(IValue::Float),
        _ => {}
    }
    if !is_plain(ty) {
        return None;
    }
    // Attributes are terminated by a bracket.
    let input = format!("{text}]");
    let read = literal::parse(input.as_bytes(), attr::VALUE, Some(ty), &mut Evidence::default()).ok()?;
    let value = literal_values::of(&Environment::default(), &read.value, ty, "");
    let value = value.ok().filter(|_| read.used == text.len() && read.doubt.is_none())?;
    fitted(value, ty).ok()
}

/// The inline text of a value without tensors, with all digits.
pub fn spelling(value: &IValue) -> Option<String> {
    if let IValue::Bool(yes) = value {
        return Some(if *yes { "True" } else { "False" }.to_owned());
    }
    if !is_plain(value.ty()) && !matches!(value, IValue::None) {
        return None;
    }
    let (attribute, _) = exact_literals::of(value, value.ty(), Release::NEWEST).ok()?;
    let mut text = Vec::new();
    literal::print(&mut text, &attribute.unwrap_or(Attribute::None), &Spelling::default());
    String::from_utf8(text).ok()
}

/// A number, or a list of numbers, from a file.
pub(crate) fn from_file(option: &str, text: &str, ty: Type, workspace: &Workspace<'_>) -> Result<IValue, Error> {
    let example = example(ty).unwrap_or_default();
    let wrong = |found: &str| refuse(format_args!("{option}: {found}; a {ty} is written as {example}"));
    let file = text.rsplit_once(':').map_or(text, |(file, _)| file);
    if ![text, file].iter().any(|file| workspace.path(Path::new(file)).is_file()) {
        return wrong(&format!("`{text}` is neither a {ty} nor a file"));
    }
    let mut tensors = tensors_of(text, workspace)?;
    let tensor = match tensors.len() {
        1 => tensors.pop_first().map(|(_, tensor)| tensor).expect("there is one"),
        n => return wrong(&format!("the file has {n} tensors")),
    };
    let is_list = matches!(ty.kind(), TypeKind::List(_));
    let value = match tensor.rank() {
        1 if is_list => {
            let item = |i| IValue::from(tensor.narrow(0, i, 1, 1).item());
            IValue::list((0..tensor.shape()[0]).map(item).collect::<Vec<_>>())
        }
        _ if !is_list && tensor.numel() == 1 => IValue::from(tensor.item()),
        _ => return wrong("the tensor of the file does not fit"),
    };
    fitted(value, ty).or_else(|error| wrong(&error.to_string()))
}

/// The scalar kind of a number type, also if it is optional.
fn number_kind(ty: Type) -> Option<Simple> {
    match ty.kind() {
        TypeKind::Optional(inner) => number_kind(*inner),
        TypeKind::Simple(kind @ (Simple::Int | Simple::Float | Simple::Bool)) => Some(*kind),
        _ => None,
    }
}
