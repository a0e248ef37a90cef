//! Defaults of formals: nodes of an exported program omit what equals them.

use crate::export_arguments::{Argument, Elements};
use jitopt_core::ops::schema::Formal;
use jitopt_core::types::{Simple, Type, TypeKind};

/// The default of a formal as an argument, `1.` of `float p=1.`; nothing if it has none.
pub(crate) fn of(formal: &Formal) -> Option<Argument<'static>> {
    parse(formal.default?, formal.ty)
}

fn parse(text: &'static str, ty: Type) -> Option<Argument<'static>> {
    let inner = if let TypeKind::Optional(inner) = ty.kind() { *inner } else { ty };
    if let Some(parts) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let TypeKind::List(element) = inner.kind() else { return None };
        let parts = parts.split(',').map(str::trim).filter(|part| !part.is_empty());
        let parts: Option<Vec<_>> = parts.map(|part| parse(part, *element)).collect();
        return parts.map(|parts| Argument::List(elements(*element), parts));
    }
    match text {
        "None" => return Some(Argument::None),
        "True" => return Some(Argument::Bool(true)),
        "False" => return Some(Argument::Bool(false)),
        _ => {}
    }
    if let Some(quoted) = text.strip_prefix(['"', '\'']) {
        // Escapes occur in defaults of operators on strings, which no exported program calls.
        return quoted.strip_suffix(['"', '\'']).map(Argument::Text);
    }
    if inner.is(Simple::Float) {
        return text.parse().ok().map(Argument::Float);
    }
    text.parse().ok().map(Argument::Int).or_else(|| text.parse().ok().map(Argument::Float))
}

pub(crate) fn elements(element: Type) -> Elements {
    match element.kind() {
        TypeKind::Tensor(_) => Elements::Tensors,
        TypeKind::Optional(_) => Elements::OptionalTensors,
        TypeKind::List(_) => Elements::Lists,
        TypeKind::Simple(Simple::Float) => Elements::Floats,
        TypeKind::Simple(Simple::Bool) => Elements::Bools,
        TypeKind::Simple(Simple::Str) => Elements::Texts,
        _ => Elements::Ints,
    }
}

#[cfg(test)]
mod tests {
    use jitopt_core::ops::catalog::{LIST_2, key, schemas};
    use jitopt_core::symbol::Symbol;

    /// Every default that PyTorch 2.15 registers for `aten` has a value.
    #[test]
    fn all_defaults_are_read() {
        let mut names: Vec<&str> = LIST_2.lines().map(key).filter(|name| name.starts_with("aten::")).collect();
        names.dedup();
        let mut read = 0;
        for name in names {
            for schema in schemas(LIST_2, Symbol::new(name)) {
                for formal in schema.formals.iter().filter(|formal| formal.default.is_some()) {
                    assert!(super::of(formal).is_some(), "{schema}: {:?}", formal.default);
                    read += 1;
                }
            }
        }
        assert!(read > 2500, "{read} defaults");
    }
}
