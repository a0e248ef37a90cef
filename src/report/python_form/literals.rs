//! Constants as expressions, the table of those that are too large for one, and defaults of
//! schemas.

use super::annotations::{annotation, has_class, is_inferred_from_members};
use crate::ir::{Attribute, Float, FloatStyle, Graph, Value};
use crate::ops::schema::Formal;
use crate::text::number::{parse_float, print_float};
use crate::text::quoted;
use crate::types::{Simple, TensorType, Type, TypeKind};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The constants that are stored apart from the code, `CONSTANTS.c0`, `CONSTANTS.c1`, …: tensors,
/// objects, strings beyond ASCII.
#[derive(Debug, Default)]
pub(super) struct Table {
    len: usize,
    /// Tensors whose elements the text shows, by that text and the other facts that their equality
    /// depends on.
    tensors: FxHashMap<(Arc<str>, Type), usize>,
}

impl Table {
    /// The name of a constant. A tensor whose text equals that of an earlier one is the same
    /// constant, as PyTorch compares elements; a constant with unknown contents is distinct.
    fn name(&mut self, value: &Attribute, ty: Type) -> String {
        let next = self.len;
        let i = match value {
            // NaN is not equal to itself.
            Attribute::Tensor(text) if !text.contains("nan") => {
                *self.tensors.entry((text.clone(), what_is_compared(ty))).or_insert(next)
            }
            _ => next,
        };
        self.len += usize::from(i == next);
        format!("CONSTANTS.c{i}")
    }

    /// A constant as an expression; an error gives what its text does not show.
    pub(super) fn literal(&mut self, value: &Attribute, ty: Type) -> Result<String, &'static str> {
        let ty = if let TypeKind::Optional(inner) = ty.kind() { *inner } else { ty };
        if ty.is_tensor() || matches!(ty.kind(), TypeKind::Class(_)) || has_text_beyond_ascii(value) {
            return Ok(self.name(value, ty));
        }
        Ok(match (value, ty.kind()) {
            (Attribute::Int(n), TypeKind::Simple(Simple::Bool)) => python_bool(*n != 0),
            (Attribute::Int(n), TypeKind::Simple(Simple::Float)) => float(*n as f64),
            (Attribute::Int(n), _) => n.to_string(),
            (Attribute::Float(x), _) => float(x.value),
            (Attribute::Complex(z), _) => {
                let plus = if z.1.value.is_sign_negative() { "" } else { "+" };
                format!("{}{plus}{}j", float(z.0.value), float(z.1.value))
            }
            (Attribute::Bool(b), _) => python_bool(*b),
            (Attribute::None, _) => "None".to_owned(),
            (Attribute::Str(name), TypeKind::Simple(Simple::Device | Simple::DeviceObj))
            | (Attribute::Device(name), _) => {
                format!("torch.device({})", quote(name))
            }
            (Attribute::Str(text), _) => quote(text),
            (Attribute::List(parts), _) => self.list(parts, ty)?,
            (Attribute::EmptyList(annotation), _) => format!("annotate({annotation}, [])"),
            (Attribute::Tuple(parts), _) => self.tuple(parts, ty)?,
            (Attribute::Dict(pairs), _) => self.dict(pairs, ty)?,
            (Attribute::Enum(member), _) => member.as_str().to_owned(),
            (Attribute::Tensor(_), _) => self.name(value, ty),
            // A list whose elements do not determine its type has the same text in IR.
            (Attribute::Opaque(text), _) if text.starts_with("annotate(") && !text.contains('<') => text.to_string(),
            (Attribute::Opaque(_) | Attribute::Type(_) | Attribute::Graph(_), _) => {
                return Err("the text of the graph does not show the contents of this constant");
            }
        })
    }

    fn parts(&mut self, parts: &[Attribute], types: &[Type]) -> Result<String, &'static str> {
        let literals = parts.iter().zip(types).map(|(part, &ty)| self.literal(part, ty));
        Ok(literals.collect::<Result<Vec<_>, _>>()?.join(", "))
    }

    fn list(&mut self, parts: &[Attribute], ty: Type) -> Result<String, &'static str> {
        let element = if let TypeKind::List(element) = ty.kind() { *element } else { Type::simple(Simple::Any) };
        let list = format!("[{}]", self.parts(parts, &vec![element; parts.len()])?);
        let plain = !parts.is_empty() && is_inferred_from_members(element) || !matches!(ty.kind(), TypeKind::List(_));
        Ok(if plain { list } else { format!("annotate({}, {list})", annotation(ty)) })
    }

    fn tuple(&mut self, parts: &[Attribute], ty: Type) -> Result<String, &'static str> {
        let types = ty.tuple_elements().filter(|types| types.len() == parts.len());
        let types = types.unwrap_or_else(|| vec![Type::simple(Simple::Any); parts.len()]);
        let name = if has_class(ty) { annotation(ty) } else { String::new() };
        let comma = if parts.len() == 1 { "," } else { "" };
        Ok(format!("{name}({}{comma})", self.parts(parts, &types)?))
    }

    fn dict(&mut self, pairs: &[(Attribute, Attribute)], ty: Type) -> Result<String, &'static str> {
        let any = Type::simple(Simple::Any);
        let (key, item) = if let TypeKind::Dict(key, item) = ty.kind() { (*key, *item) } else { (any, any) };
        let pair = |(k, v): &(Attribute, Attribute)| -> Result<String, &'static str> {
            Ok(format!("{}: {}", self.literal(k, key)?, self.literal(v, item)?))
        };
        let dict = format!("{{{}}}", pairs.iter().map(pair).collect::<Result<Vec<_>, _>>()?.join(", "));
        let plain = !pairs.is_empty() && is_inferred_from_members(key) && is_inferred_from_members(item);
        // No blank after the comma: PyTorch prints constants in this way.
        Ok(if plain { dict } else { format!("annotate({},{dict})", annotation(ty)) })
    }
}

/// A tensor type with the facts that make tensors of the same elements equal: element type, sizes
/// and device.
fn what_is_compared(ty: Type) -> Type {
    let compared = |tensor: &TensorType| TensorType {
        dtype: tensor.dtype,
        sizes: tensor.sizes.clone(),
        device: tensor.device,
        ..TensorType::default()
    };
    ty.as_tensor().map_or(ty, |tensor| Type::new(TypeKind::Tensor(compared(tensor))))
}

fn has_text_beyond_ascii(value: &Attribute) -> bool {
    match value {
        Attribute::Str(text) => !text.is_ascii(),
        Attribute::List(parts) | Attribute::Tuple(parts) => parts.iter().any(has_text_beyond_ascii),
        Attribute::Dict(pairs) => {
            pairs.iter().any(|(key, item)| has_text_beyond_ascii(key) || has_text_beyond_ascii(item))
        }
        _ => false,
    }
}

fn python_bool(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}

fn float(value: f64) -> String {
    let mut out = Vec::new();
    print_float(&mut out, Float { value, style: FloatStyle::Seventeen });
    String::from_utf8_lossy(&out).into_owned()
}

/// A string with PyTorch's escapes.
pub(super) fn quote(text: &[u8]) -> String {
    let mut out = Vec::new();
    quoted::print(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a value is the default constant of a formal parameter.
pub(super) fn is_default(graph: &Graph, value: Value, formal: &Formal) -> bool {
    match (formal.default, graph.constant(value)) {
        (Some(default), Some(constant)) => same(default, formal.ty, formal.size, constant, graph.ty(value)),
        _ => false,
    }
}

/// Whether the text of a default denotes a constant. Integers and floats are different.
fn same(default: &str, formal: Type, size: Option<u32>, constant: Option<&Attribute>, ty: Type) -> bool {
    let formal = if let TypeKind::Optional(inner) = formal.kind() { *inner } else { formal };
    let is_bool = ty.is(Simple::Bool);
    match (default, constant) {
        ("None", constant) => matches!(constant, None | Some(Attribute::None)),
        ("True" | "False", Some(Attribute::Int(n))) => is_bool && (*n != 0) == (default == "True"),
        ("True" | "False", Some(Attribute::Bool(b))) => *b == (default == "True"),
        ("[]", Some(constant)) => match constant {
            Attribute::EmptyList(_) => true,
            Attribute::List(parts) => parts.is_empty(),
            _ => false,
        },
        (_, Some(Attribute::Str(text))) => {
            default.starts_with(['"', '\'']) && quoted::parse(default.as_bytes()).is_ok_and(|(read, _)| *read == **text)
        }
        (_, Some(Attribute::List(parts))) => is_list(default, formal, size, parts),
        (_, Some(Attribute::Float(x))) => is_real(default, formal) && number(default) == Some(x.value),
        (_, Some(Attribute::Int(n))) if ty.is(Simple::Float) => {
            is_real(default, formal) && number(default) == Some(*n as f64)
        }
        (_, Some(Attribute::Int(n))) => !is_bool && !is_real(default, formal) && default.parse() == Ok(*n),
        _ => false,
    }
}

/// Whether the text of a default denotes a list: a single number is repeated as often as the formal
/// parameter requires.
fn is_list(default: &str, formal: Type, size: Option<u32>, parts: &[Attribute]) -> bool {
    let element = if let TypeKind::List(element) = formal.kind() { *element } else { formal };
    let texts: Vec<&str> = match (default.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')), size) {
        (Some(inside), _) => inside.split(", ").collect(),
        (None, Some(size)) => vec![default; size as usize],
        (None, None) => return false,
    };
    texts.len() == parts.len()
        && texts.iter().zip(parts).all(|(text, part)| same(text, element, None, Some(part), element))
}

fn number(text: &str) -> Option<f64> {
    parse_float(text.as_bytes())
}

fn is_real(default: &str, formal: Type) -> bool {
    formal.is(Simple::Float) || default.contains(['.', 'e'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_distinguished_by_their_kind() {
        let int = |n| Some(Attribute::Int(n));
        let real = |value| Some(Attribute::Float(Float { value, style: FloatStyle::Seventeen }));
        let (number, float) = (Type::simple(Simple::Scalar), Type::simple(Simple::Float));
        for (default, formal, constant, ty, is) in [
            ("1", number, int(1), Type::int(), true),
            ("1", number, int(1), Type::bool(), false),
            ("1", number, real(1.0), float, false),
            ("1", float, real(1.0), float, true),
            ("True", Type::bool(), int(1), Type::bool(), true),
            ("False", Type::bool(), int(1), Type::bool(), false),
            ("None", Type::optional(Type::int()), None, Type::none(), true),
            ("None", Type::optional(Type::int()), int(0), Type::int(), false),
        ] {
            assert_eq!(same(default, formal, None, constant.as_ref(), ty), is, "{default} {constant:?}");
        }
    }
}
