//! The nesting of inputs and results, which a program describes as JSON within its JSON.
//!
//! ```text
//! "out_spec": "[1, {\"type\": \"builtins.tuple\", \"children_spec\": [{\"type\": null, …}, …]}]"
//! ```

use crate::graph_writer::Writer;
use jitopt_archive::Json;
use jitopt_core::ir::Value;
use jitopt_core::symbol::prim;
use jitopt_core::types::{Simple, Type, TypeKind};

/// Trees within trees.
const DEEPEST: usize = 64;

/// A tree without its leaves.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// One value.
    Leaf,
    /// A list.
    List(Vec<Tree>),
    /// A tuple, named or not, or an object of a class that only Python knows.
    Tuple(Vec<Tree>),
    /// A dict with these keys.
    Dict(Vec<Key>, Vec<Tree>),
}

/// A key of a dict.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// `"a"`
    Text(String),
    /// `1`
    Int(i64),
}

impl Tree {
    /// Reads a description; nothing if it is not one that is known.
    pub(crate) fn read(text: &str) -> Option<Tree> {
        let json = Json::parse(text.as_bytes()).ok()?;
        tree(json.items().get(1)?, 0)
    }

    /// The parts of a container.
    pub fn parts(&self) -> &[Tree] {
        match self {
            Tree::Leaf => &[],
            Tree::List(parts) | Tree::Tuple(parts) | Tree::Dict(_, parts) => parts,
        }
    }

    /// How many values the tree holds.
    pub fn leaves(&self) -> usize {
        match self {
            Tree::Leaf => 1,
            _ => self.parts().iter().map(Tree::leaves).sum(),
        }
    }

    /// Builds the value of a tree from those of its leaves, in order.
    pub(crate) fn build(&self, writer: &mut Writer<'_>, leaves: &mut impl Iterator<Item = Value>) -> Option<Value> {
        if let Tree::Leaf = self {
            return leaves.next();
        }
        let mut values = Vec::new();
        for part in self.parts() {
            values.push(part.build(writer, leaves)?);
        }
        let types: Vec<Type> = values.iter().map(|value| writer.graph.ty(*value)).collect();
        Some(match self {
            Tree::Dict(keys, _) => dict(writer, keys, &values, &types),
            Tree::List(_) => match common(&types) {
                Some(element) => writer.list(element, &values),
                None => tuple(writer, &values, &types),
            },
            _ => tuple(writer, &values, &types),
        })
    }
}

pub(crate) fn tuple(writer: &mut Writer<'_>, values: &[Value], types: &[Type]) -> Value {
    writer.call(prim::TUPLE_CONSTRUCT, values, Type::tuple(types))
}

fn dict(writer: &mut Writer<'_>, keys: &[Key], values: &[Value], types: &[Type]) -> Value {
    let mut operands = Vec::new();
    for (key, value) in keys.iter().zip(values) {
        operands.push(match key {
            Key::Text(text) => writer.text(text),
            Key::Int(number) => writer.int(*number),
        });
        operands.push(*value);
    }
    let value = common(types).unwrap_or_else(|| Type::simple(Simple::Any));
    let key = if matches!(keys, [Key::Int(_), ..]) { Type::int() } else { Type::simple(Simple::Str) };
    let ty = Type::new(TypeKind::Dict(key, value));
    writer.call(prim::DICT_CONSTRUCT, &operands, ty)
}

/// The type that elements of a list share: tensors need not be of the same sizes.
fn common(types: &[Type]) -> Option<Type> {
    if types.iter().all(|ty| ty.is_tensor()) {
        return Some(Type::tensor());
    }
    types.first().copied().filter(|first| types.iter().all(|ty| ty == first))
}

fn tree(json: &Json, depth: usize) -> Option<Tree> {
    if depth > DEEPEST {
        return None;
    }
    let parts: Option<Vec<Tree>> = json.get("children_spec").items().iter().map(|part| tree(part, depth + 1)).collect();
    let parts = parts?;
    let kind = json.get("type");
    Some(match kind.text() {
        None => Tree::Leaf,
        Some("builtins.list" | "collections.deque") => Tree::List(parts),
        Some("builtins.dict" | "collections.OrderedDict" | "collections.defaultdict") => {
            let keys = keys(json.get("context"))?;
            if keys.len() == parts.len() { Tree::Dict(keys, parts) } else { Tree::Tuple(parts) }
        }
        Some(_) => Tree::Tuple(parts),
    })
}

/// The keys of a dict, if all are strings or all are integers: `"[\"a\", \"b\"]"`.
fn keys(context: &Json) -> Option<Vec<Key>> {
    let parsed = Json::parse(context.text()?.as_bytes()).ok()?;
    // The context of a `defaultdict` is its factory and its keys.
    let items = match parsed.items() {
        [_, keys] if !keys.items().is_empty() => keys.items(),
        items => items,
    };
    let all = |key: fn(&Json) -> Option<Key>| items.iter().map(key).collect::<Option<Vec<Key>>>();
    let texts = all(|key| key.text().map(|text| Key::Text(text.to_owned())));
    // Other keys leave a tuple.
    Some(texts.or_else(|| all(|key| key.int().map(Key::Int))).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read() {
        let leaf = r#"{"type": null, "context": null, "children_spec": []}"#;
        let of = |kind: &str, context: &str, parts: &[&str]| {
            format!(r#"{{"type": "{kind}", "context": {context}, "children_spec": [{}]}}"#, parts.join(", "))
        };
        let list = of("builtins.list", "\"null\"", &[leaf, leaf]);
        let dict = of("builtins.dict", r#""[\"a\", \"b\"]""#, &[leaf, &list]);
        let whole = format!("[1, {}]", of("builtins.tuple", "\"null\"", &[&dict, leaf]));
        let list = Tree::List(vec![Tree::Leaf, Tree::Leaf]);
        let dict = Tree::Dict(["a", "b"].map(|key| Key::Text(key.to_owned())).into(), vec![Tree::Leaf, list]);
        let tree = Tree::read(&whole).expect("a tree");
        assert_eq!(tree, Tree::Tuple(vec![dict, Tree::Leaf]));
        assert_eq!(tree.leaves(), 4);
        assert_eq!(Tree::read("[1]"), None);
    }
}
