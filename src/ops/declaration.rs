//! The parser of schemas.
//!
//! The grammar is that of `torch._C.parse_schema`, restricted to PyTorch's output. Types are parsed
//! by [`crate::types::spelling`], which graphs use too; only constructs specific to schemas,
//! annotations, sizes and type variables between the suffixes, are parsed here.

use super::schema::{Alias, Formal, Schema};
use crate::log::did_you_mean;
use crate::symbol::Symbol;
use crate::types::spelling::parse_base;
use crate::types::{Type, TypeKind};

/// The reason why a text is not a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// The offset into the text.
    pub at: usize,
    /// The error and the expected construct.
    pub message: String,
}

impl SchemaError {
    /// The message, and the text with a caret.
    pub fn render(&self, text: &str) -> String {
        let (before, shown) = (text.get(..self.at).unwrap_or(text), text.trim_start());
        let column = before.chars().count().saturating_sub(text.chars().count() - shown.chars().count());
        format!("{}\n  {}\n  {}^", self.message, shown.replace(['\n', '\t'], " "), " ".repeat(column))
    }
}

type Result<T> = std::result::Result<T, SchemaError>;

/// Parses a schema. The text lives as long as the process because names and defaults are slices of
/// it.
pub(crate) fn parse(text: &'static str) -> Result<Schema> {
    let mut reader = Reader { text, at: 0 };
    let name = reader.until(|c| c == '(');
    let cut = name.find("::").map_or(0, |n| n + 2);
    let (kind, overload) = match name[cut..].find('.') {
        Some(dot) => (&name[..cut + dot], &name[cut + dot + 1..]),
        None => (name, ""),
    };
    reader.expect("(")?;
    let formals = reader.list()?;
    reader.expect("->")?;
    let returns = reader.returns()?;
    if !reader.rest().is_empty() {
        return reader.error("expected the end of the schema here");
    }
    Ok(Schema {
        kind: Symbol::new(kind),
        overload,
        positional: formals.positional.unwrap_or(formals.items.len()),
        formals: formals.items.into(),
        vararg: formals.open,
        returns: returns.items.into(),
        varret: returns.open,
    })
}

#[derive(Default)]
struct List {
    items: Vec<Formal>,
    /// The position of `*`.
    positional: Option<usize>,
    /// Whether the list ends in `...`.
    open: bool,
}

struct Reader {
    text: &'static str,
    at: usize,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Reader {
    fn rest(&self) -> &'static str {
        &self.text[self.at..]
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(SchemaError { at: self.at, message: message.into() })
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { self.error(format!("expected `{token}`")) }
    }

    fn until(&mut self, stop: impl FnMut(char) -> bool) -> &'static str {
        let rest = self.rest();
        let text = &rest[..rest.find(stop).unwrap_or(rest.len())];
        self.at += text.len();
        text
    }

    /// A list up to and including its closing bracket.
    fn list(&mut self) -> Result<List> {
        let mut list = List::default();
        while !self.eat(")") {
            if self.eat("...") {
                list.open = true;
            } else if self.eat("*") {
                list.positional = Some(list.items.len());
            } else {
                list.items.push(self.formal()?);
            }
            if !self.eat(",") && !self.rest().starts_with(')') {
                return self.error("expected `,` or `)`");
            }
        }
        Ok(list)
    }

    /// `Tensor`, `(Tensor, Tensor)`, `...`, and `(str, t)[]`, where the brackets are a tuple type.
    fn returns(&mut self) -> Result<List> {
        self.blanks();
        let start = self.at;
        if self.eat("(") {
            if let Ok(list) = self.list()
                && self.rest().is_empty()
            {
                return Ok(list);
            }
            self.at = start;
        }
        if self.eat("...") {
            return Ok(List { open: true, ..List::default() });
        }
        Ok(List { items: vec![self.formal()?], ..List::default() })
    }

    fn formal(&mut self) -> Result<Formal> {
        self.blanks();
        let (mut ty, used) = match parse_base(self.rest().as_bytes()) {
            // The brackets after it are an alias annotation: `Tensor(*)` has no sizes.
            Ok(_) if self.rest().starts_with("Tensor(") => (Type::tensor(), "Tensor".len()),
            Ok((ty, used)) => (known_base(ty), used),
            Err(error) => {
                return Err(SchemaError { at: self.at + error.at, message: error.message });
            }
        };
        if let Some(meant) = mistaken(ty) {
            return self.error(format!("unknown type `{ty}`; did you mean `{meant}`?"));
        }
        self.at += used;
        let (mut alias, mut elements, mut size) = (self.alias()?, None, None);
        loop {
            if self.rest().starts_with('?') {
                self.at += 1;
                ty = Type::optional(ty);
            } else if self.rest().starts_with('[') {
                self.at += 1;
                size = self.until(|c| !c.is_ascii_digit()).parse().ok();
                self.expect("]")?;
                ty = Type::list(ty);
                elements = alias.take().or(elements);
                alias = self.alias()?;
            } else {
                break;
            }
        }
        self.blanks();
        let name = self.until(|c| !is_word(c));
        let default = if self.eat("=") { Some(self.default()?) } else { None };
        Ok(Formal { name, ty, size, default, alias, elements })
    }

    /// `(a!)`, `(a -> *)`, `(b|a)`.
    fn alias(&mut self) -> Result<Option<Alias>> {
        if !self.rest().starts_with('(') {
            return Ok(None);
        }
        self.at += 1;
        let before = self.sets()?;
        let write = self.eat("!");
        let after = if self.eat("->") { Some(self.sets()?) } else { None };
        self.expect(")")?;
        Ok(Some(Alias { before, after, write }))
    }

    fn sets(&mut self) -> Result<Box<[&'static str]>> {
        let mut sets = Vec::new();
        loop {
            self.blanks();
            let set = self.until(|c| !is_word(c) && c != '*');
            if set.is_empty() {
                return self.error("expected the name of an alias set or `*`");
            }
            sets.push(set);
            if !self.eat("|") {
                return Ok(sets.into());
            }
        }
    }

    /// A default extends to the next `,` or `)` outside of strings and brackets.
    fn default(&mut self) -> Result<&'static str> {
        let (start, mut depth, mut quote, mut escaped) = (self.at, 0, None, false);
        for (i, c) in self.rest().char_indices() {
            match (quote, c) {
                (Some(_), _) if escaped => escaped = false,
                (Some(_), '\\') => escaped = true,
                (Some(q), _) => quote = if q == c { None } else { quote },
                (None, '"' | '\'') => quote = Some(c),
                (None, '[') => depth += 1,
                (None, ']') => depth -= 1,
                (None, ',' | ')') if depth == 0 => {
                    self.at += i;
                    return Ok(&self.text[start..self.at]);
                }
                _ => {}
            }
        }
        self.error("expected `,` or `)` after this default")
    }
}

/// Three operators of `cuda` have the type `int64_t`, which would read as a type variable.
fn known_base(ty: Type) -> Type {
    match ty.kind() {
        TypeKind::Var(name) if name.as_str() == "int64_t" => Type::int(),
        _ => ty,
    }
}

/// The probable intention of a type that reads as a type variable, `tensor` or `string`.
fn mistaken(ty: Type) -> Option<&'static str> {
    /// Shorter names are those of type variables, `t` and `key`.
    const SHORTEST: usize = 4;
    const MEANT: &[(&str, &str)] =
        &[("string", "str"), ("integer", "int"), ("double", "float"), ("boolean", "bool"), ("complex64", "complex")];
    const TYPES: &[&str] =
        &["Tensor", "int", "float", "bool", "str", "Scalar", "number", "Device", "Generator", "SymInt", "ScalarType"];
    let TypeKind::Var(name) = ty.kind() else { return None };
    let name = name.as_str();
    let synonym = MEANT.iter().find(|(wrong, _)| *wrong == name).map(|(_, meant)| *meant);
    let in_other_case = || TYPES.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
    let near = || did_you_mean(name, TYPES.iter().copied()).filter(|_| name.len() >= SHORTEST);
    synonym.or_else(in_other_case).or_else(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::era::Era;

    #[test]
    fn the_parts_of_a_schema() {
        let text =
            "aten::f.over(Tensor(a!)[] self, t(b -> *)? x=None, *, int[2] n=[1, 2], str s=\"a,)\\\"\") -> Tensor(b|a)";
        let schema = parse(text).expect("a schema");
        assert_eq!((schema.kind.as_str(), schema.overload, schema.positional), ("aten::f", "over", 2));
        assert_eq!(schema.writes().collect::<Vec<_>>(), [0]);
        assert_eq!(schema.formals[2].size, Some(2));
        assert_eq!(schema.formals[3].default, Some("\"a,)\\\"\""));
        assert!(schema.formals[1].alias.as_ref().is_some_and(Alias::is_wildcard));
        assert_eq!(schema.text(Era::V2), text);
    }

    #[test]
    fn a_star_after_a_tensor_is_an_alias_set() {
        for text in ["a::b(Tensor[](a!) x) -> Tensor(*)", "a::b(Tensor[](a!) x) -> (Tensor(*))"] {
            let schema = parse(text).expect(text);
            assert_eq!(schema.returns[0].ty, Type::tensor());
            assert!(schema.returns[0].alias.as_ref().is_some_and(Alias::is_wildcard), "{text}");
        }
    }

    #[test]
    fn brackets_around_returns() {
        for (text, returns) in [("a::b() -> ((str, t)[])", 1), ("a::b() -> (str, t)", 2), ("a::b() -> ()", 0)] {
            let schema = parse(text).expect(text);
            assert_eq!((schema.returns.len(), schema.text(Era::V2)), (returns, text.to_owned()));
        }
        let bare = parse("a::b() -> (str, t)[]").expect("a schema");
        assert_eq!(bare, parse("a::b() -> ((str, t)[])").expect("a schema"));
        let old = parse("a::b(...) -> ((str, t)[])").expect("a schema");
        assert_eq!(
            (old.returns.len(), old.vararg, old.text(Era::V1_3).as_str()),
            (1, true, "a::b(...) -> ((str, t)[])")
        );
    }

    #[test]
    fn none_is_refused_with_its_position() {
        for (text, at, says) in [
            ("a::b(Tensor x", 13, "expected `,` or `)`"),
            ("a::b() Tensor", 7, "`->`"),
            ("a::b(Tensor(a|) x) -> ()", 14, "alias set"),
            ("a::b(int x=[1) -> ()", 11, "after this default"),
            ("a::b() -> Tensor x y", 19, "the end"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.at == at && error.message.contains(says), "{text}: {error:?}");
        }
    }
}
