//! Types as Python annotates them: `List[Optional[int]]`.

use crate::ops::catalog;
use crate::types::{Field, Simple, Type, TypeKind};
use rustc_hash::FxHashSet;
use std::sync::LazyLock;

/// The annotation of a type. Facts about tensors are omitted.
///
/// IR has no names of named tuples, and no modules of interfaces: the former are all called
/// `NamedTuple`, the latter are in `__torch__` itself.
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
        NamedTuple(fields) if is_result_of_operator(fields) => {
            format!("Tuple[{}]", all(&fields.iter().map(|field| field.ty).collect::<Vec<_>>()))
        }
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

/// Whether a named tuple is the result of an operator, `values` and `indices`: such tuples have no
/// class in PyTorch.
fn is_result_of_operator(fields: &[Field]) -> bool {
    static RETURNED: LazyLock<FxHashSet<String>> = LazyLock::new(|| {
        let lines = [catalog::LIST_2, catalog::LIST_1_3].into_iter().flat_map(str::lines);
        let returns = lines.filter_map(|line| line.rsplit_once("-> (")?.1.strip_suffix(')'));
        let name = |part: &str| part.rsplit_once(' ').map(|(_, name)| name.to_owned());
        returns.filter_map(|list| Some(list.split(", ").map(name).collect::<Option<Vec<_>>>()?.join(","))).collect()
    });
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    RETURNED.contains(&names.join(","))
}

/// Whether a type is a named tuple with a class.
pub(super) fn has_class(ty: Type) -> bool {
    matches!(ty.kind(), TypeKind::NamedTuple(fields) if !is_result_of_operator(fields))
}

/// Whether a type contains such a named tuple.
pub(super) fn has_named_tuple(ty: Type) -> bool {
    let mut pending = vec![ty];
    while let Some(ty) = pending.pop() {
        if has_class(ty) {
            return true;
        }
        pending.extend(ty.parts());
    }
    false
}

/// Whether the elements of a list or dict determine the type of its elements, so that it needs no
/// annotation.
pub(super) fn is_inferred_from_members(element: Type) -> bool {
    use TypeKind::*;
    !matches!(
        element.kind(),
        Optional(_) | Union(_) | Interface(_) | Simple(self::Simple::Number | self::Simple::Scalar | self::Simple::Any)
    )
}
