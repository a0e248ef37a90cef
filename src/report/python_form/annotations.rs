//! Types as Python annotates them: `List[Optional[int]]`.

use crate::types::{Simple, Type, TypeKind};

/// The annotation of a type. What is known of a tensor is left out.
///
/// IR has no names of named tuples, and no modules of interfaces: the former are all called `NamedTuple`, the latter stand in
/// `__torch__` itself.
pub(super) fn annotation(ty: Type) -> String {
    use TypeKind::*;
    match ty.kind() {
        Tensor(_) => "Tensor".to_owned(),
        Simple(simple) => simple_name(*simple).to_owned(),
        Optional(inner) => format!("Optional[{}]", annotation(*inner)),
        List(inner) => format!("List[{}]", annotation(*inner)),
        Future(inner) => format!("Future[{}]", annotation(*inner)),
        RRef(inner) => format!("RRef[{}]", annotation(*inner)),
        Await(inner) => format!("Await[{}]", annotation(*inner)),
        Dict(key, value) => format!("Dict[{}, {}]", annotation(*key), annotation(*value)),
        Tuple(parts) if parts.is_empty() => "Tuple[()]".to_owned(),
        Tuple(parts) => format!("Tuple[{}]", all(parts)),
        Union(parts) => format!("Union[{}]", all(parts)),
        NamedTuple(_) => "NamedTuple".to_owned(),
        Class(name) | Enum(name) => name.as_str().to_owned(),
        Interface(name) if name.as_str().contains('.') => name.as_str().to_owned(),
        Interface(name) => format!("__torch__.{name}"),
        Var(name) => name.as_str().to_owned(),
    }
}

fn all(parts: &[Type]) -> String {
    parts.iter().map(|&part| annotation(part)).collect::<Vec<_>>().join(", ")
}

fn simple_name(simple: Simple) -> &'static str {
    match simple {
        Simple::Scalar => "number",
        Simple::AnyList => "list",
        Simple::AnyTuple => "tuple",
        Simple::DeviceObj => "Device",
        Simple::StreamObj => "Stream",
        _ => simple.name(),
    }
}

/// Whether a type has a named tuple in it.
pub(super) fn has_named_tuple(ty: Type) -> bool {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        if matches!(ty.kind(), TypeKind::NamedTuple(_)) {
            return true;
        }
        pending.extend(ty.parts());
    }
    false
}

/// Whether the members of a list or dict tell the type of its elements, so that it needs no annotation.
pub(super) fn is_told_by_members(element: Type) -> bool {
    use TypeKind::*;
    !matches!(
        element.kind(),
        Optional(_) | Union(_) | Interface(_) | Simple(self::Simple::Number | self::Simple::Scalar | self::Simple::Any)
    )
}
