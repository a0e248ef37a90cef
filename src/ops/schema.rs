//! The schema of one overload of an operator: formals, returns, and the memory that they share.

use crate::symbol::Symbol;
use crate::types::era::Era;
use crate::types::spelling::{Spelling, print};
use crate::types::{Type, TypeKind};
use std::fmt;

/// One overload, `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
///
/// The text of IR has no overload names; see [`super::overloads`] for how the overload of a node is
/// found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// `aten::add`
    pub kind: Symbol,
    /// `Tensor`; empty for the overload without a name.
    pub overload: &'static str,
    /// The parameters. In IR every formal is an operand: defaults were filled in when the graph was
    /// made.
    pub formals: Box<[Formal]>,
    /// The number of formals before `*`, which Python passes by position.
    pub positional: usize,
    /// Whether any number of operands of any type may follow, `(...)`.
    pub vararg: bool,
    /// The results.
    pub returns: Box<[Formal]>,
    /// Whether any number of results of any type may follow, `-> ...`.
    pub varret: bool,
}

/// One formal or one return of a [`Schema`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// Its name; empty for most returns.
    pub name: &'static str,
    /// Its type, without annotations.
    pub ty: Type,
    /// `2` of `int[2]`: one number is accepted for a list of this length.
    pub size: Option<u32>,
    /// The default in its spelling, `None`, `1.`, `[0, 1]`, `'mean'`.
    pub default: Option<&'static str>,
    /// The alias set of the value, `Tensor(a)`, `Tensor[](a!)`, `t(a)?`.
    pub alias: Option<Alias>,
    /// The alias set of the elements of the list, `Tensor(a)[]`.
    pub elements: Option<Alias>,
}

/// An alias annotation. Formals and returns that name the same set may share memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The sets before the call; `*` is everything reachable from outside.
    pub before: Box<[&'static str]>,
    /// The sets after the call, `a -> *`, if they differ.
    pub after: Option<Box<[&'static str]>>,
    /// Whether the memory is written, `a!`.
    pub write: bool,
}

/// The name of the set of everything reachable from outside.
pub(crate) const WILDCARD: &str = "*";

impl Alias {
    /// Whether it joins everything reachable from outside, before or after.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.before.iter().chain(self.after.iter().flatten()).any(|set| *set == WILDCARD)
    }

    /// The sets after the operator ran.
    pub(crate) fn result(&self) -> &[&'static str] {
        self.after.as_deref().unwrap_or(&self.before)
    }
}

impl Formal {
    /// Whether the operator writes to it. Writing to the elements counts, as it does in PyTorch.
    pub fn is_written(&self) -> bool {
        [&self.alias, &self.elements].into_iter().flatten().any(|alias| alias.write)
    }

    /// Whether its memory is annotated.
    pub fn is_annotated(&self) -> bool {
        self.alias.is_some() || self.elements.is_some()
    }
}

impl Schema {
    /// The indices of the operands that it writes to.
    ///
    /// A name that ends in one underscore is an in-place operator: the few that PyTorch registered
    /// without an annotation (`aten::_no_grad_embedding_renorm_`) also write to their first
    /// operand.
    pub fn writes(&self) -> impl Iterator<Item = usize> + '_ {
        let unannotated = self.is_in_place_by_name() && !self.formals.iter().any(Formal::is_written);
        let written = move |(i, formal): (usize, &Formal)| (formal.is_written() || unannotated && i == 0).then_some(i);
        self.formals.iter().enumerate().filter_map(written)
    }

    fn is_in_place_by_name(&self) -> bool {
        let name = self.kind.short();
        name.ends_with('_') && !name.ends_with("__")
    }

    /// Whether it writes to any operand.
    pub fn is_writing(&self) -> bool {
        self.writes().next().is_some()
    }

    /// The index of the formal of this name.
    pub fn formal(&self, name: &str) -> Option<usize> {
        self.formals.iter().position(|formal| formal.name == name)
    }

    /// The schema as the PyTorch of that era prints it.
    ///
    /// Normalised: `int64_t`, which three operators of `cuda` have instead of `int`.
    pub fn text(&self, era: Era) -> String {
        let mut text = self.kind.as_str().to_owned();
        if !self.overload.is_empty() {
            text += ".";
            text += self.overload;
        }
        let mut formals: Vec<String> = self.formals.iter().map(|formal| formal.text(era)).collect();
        if self.positional < formals.len() {
            formals.insert(self.positional, "*".to_owned());
        }
        formals.extend(self.vararg.then(|| "...".to_owned()));
        format!("{text}({}) -> {}", formals.join(", "), self.returns_text(era))
    }

    fn returns_text(&self, era: Era) -> String {
        let mut returns: Vec<String> = self.returns.iter().map(|formal| formal.text(era)).collect();
        returns.extend(self.varret.then(|| "...".to_owned()));
        let list = returns.join(", ");
        // Since 1.5 a single result has no brackets, unless its type starts with one.
        let bare = era == Era::V2 && returns.len() == 1 && !list.starts_with('(');
        if bare { list } else { format!("({list})") }
    }
}

impl Formal {
    fn text(&self, era: Era) -> String {
        let mut text = self.annotated_type(era);
        if !self.name.is_empty() {
            text += " ";
            text += self.name;
        }
        if let Some(default) = self.default {
            text += "=";
            text += default;
        }
        text
    }

    /// Annotations precede a `?` and, those of elements, the `[]`.
    fn annotated_type(&self, era: Era) -> String {
        let (core, optional) = match self.ty.kind() {
            TypeKind::Optional(inner) => (*inner, "?"),
            _ => (self.ty, ""),
        };
        let mut text = match core.kind() {
            TypeKind::List(element) => {
                let size = self.size.map_or(String::new(), |n| n.to_string());
                format!("{}[{size}]", with_alias(*element, self.elements.as_ref(), era))
            }
            _ => type_text(core, era),
        };
        text += &self.alias.as_ref().map_or(String::new(), Alias::to_string);
        text + optional
    }
}

fn with_alias(ty: Type, alias: Option<&Alias>, era: Era) -> String {
    let (core, optional) = match ty.kind() {
        TypeKind::Optional(inner) if alias.is_some() => (*inner, "?"),
        _ => (ty, ""),
    };
    let alias = alias.map_or(String::new(), Alias::to_string);
    format!("{}{alias}{optional}", type_text(core, era))
}

fn type_text(ty: Type, era: Era) -> String {
    let mut out = Vec::new();
    print(&mut out, ty, &Spelling { old_none: era == Era::V1_3, ..Spelling::default() });
    // Schemas write `Future(t)` where graphs write `Future[T]`.
    let text = String::from_utf8_lossy(&out).into_owned();
    match ty.kind() {
        TypeKind::Future(_) | TypeKind::RRef(_) => text.replace('[', "(").replace(']', ")"),
        _ => text,
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}{}", self.before.join("|"), if self.write { "!" } else { "" })?;
        if let Some(after) = &self.after {
            write!(f, " -> {}", after.join("|"))?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Era::default()))
    }
}
