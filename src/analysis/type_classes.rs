//! Types that share a wildcard: memory reachable from outside is distinguished by type only.

use crate::entity::{Entity, EntityVec};
use crate::types::{Simple, Type, TypeKind};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

crate::entities! {
    /// A mutable type without the parts that do not distinguish memory: refinements of tensors,
    /// optionals, names of fields.
    TypeClass, "t";
    /// Memory that a value may be.
    Element, "e";
}

/// The values that a wildcard may be besides those of its own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breadth {
    /// Nothing.
    Exact,
    /// Its parts: a union.
    Parts,
    /// Objects of any class: an interface.
    Objects,
    /// Anything.
    Anything,
}

#[derive(Clone, Debug)]
pub(super) struct ClassRow {
    pub(super) ty: Type,
    /// The mutable parts: the contents of a container.
    pub(super) parts: SmallVec<[TypeClass; 2]>,
    pub(super) breadth: Breadth,
    /// Objects: the text does not give their attributes.
    pub(super) holds_anything: bool,
    /// The element that represents all values of the class that come from outside.
    pub(super) wildcard: Element,
    /// Whether any value is that wildcard.
    pub(super) used: bool,
}

/// The classes found so far.
#[derive(Debug)]
pub(super) struct TypeClasses {
    pub(super) rows: EntityVec<TypeClass, ClassRow>,
    known: FxHashMap<Type, Option<TypeClass>>,
    pub(super) tensor: Option<TypeClass>,
}

/// Types that nest deeper count as `Any`, so that no traversal of a type can exhaust the stack.
const MAX_DEPTH: u32 = 64;

impl TypeClasses {
    pub(super) fn new() -> TypeClasses {
        TypeClasses { rows: EntityVec::default(), known: FxHashMap::default(), tensor: None }
    }

    /// The class of a type, none when it is immutable. `make` creates the wildcard of a new one.
    pub(super) fn of(&mut self, ty: Type, make: &mut dyn FnMut(TypeClass) -> Element) -> Option<TypeClass> {
        if ty.is_tensor() && self.tensor.is_some() {
            return self.tensor;
        }
        if let Some(&known) = self.known.get(&ty) {
            return known;
        }
        let class = normal(ty, 0).map(|ty| self.of_normal(ty, make));
        self.known.insert(ty, class);
        class
    }

    fn of_normal(&mut self, ty: Type, make: &mut dyn FnMut(TypeClass) -> Element) -> TypeClass {
        if let Some(&Some(known)) = self.known.get(&ty) {
            return known;
        }
        let parts = ty.parts().into_iter().filter_map(|part| self.of(part, make)).collect();
        let (breadth, holds_anything) = match ty.kind() {
            TypeKind::Union(_) => (Breadth::Parts, false),
            TypeKind::Interface(_) => (Breadth::Objects, true),
            TypeKind::Class(_) => (Breadth::Exact, true),
            TypeKind::Simple(Simple::Any) => (Breadth::Anything, true),
            TypeKind::Simple(_) => (Breadth::Exact, true),
            _ => (Breadth::Exact, false),
        };
        let wildcard = make(TypeClass::at(self.rows.len()));
        let class = self.rows.push(ClassRow { ty, parts, breadth, holds_anything, wildcard, used: false });
        self.known.insert(ty, Some(class));
        if ty.is_tensor() {
            self.tensor = Some(class);
        }
        class
    }
}

/// The type without the parts that do not distinguish memory; none when nothing can be written
/// through it.
fn normal(ty: Type, depth: u32) -> Option<Type> {
    use TypeKind::*;
    if depth > MAX_DEPTH {
        return Some(Type::simple(self::Simple::Any));
    }
    let inner = |t: Type| normal(t, depth + 1);
    let kept = |t: Type| inner(t).unwrap_or(t);
    let tuple = |parts: Vec<Type>| {
        let inner: Vec<Option<Type>> = parts.iter().map(|t| inner(*t)).collect();
        let mutable = inner.iter().any(Option::is_some);
        mutable.then(|| inner.into_iter().zip(parts).map(|(inner, part)| inner.unwrap_or(part)).collect())
    };
    match ty.kind() {
        Tensor(_) => Some(Type::tensor()),
        Simple(simple) => normal_simple(ty, *simple),
        Var(_) => Some(Type::simple(self::Simple::Any)),
        Optional(t) => inner(*t),
        List(t) => Some(Type::list(kept(*t))),
        Dict(k, v) => Some(Type::new(Dict(kept(*k), kept(*v)))),
        Tuple(_) | NamedTuple(_) => tuple(ty.parts()).map(|parts| Type::new(Tuple(parts))),
        Union(_) => tuple(ty.parts()).map(|parts| Type::new(Union(parts))),
        Future(t) => inner(*t).map(|t| Type::new(Future(t))),
        RRef(t) => inner(*t).map(|t| Type::new(RRef(t))),
        Await(t) => inner(*t).map(|t| Type::new(Await(t))),
        Class(_) | Interface(_) => Some(ty),
        Enum(_) => None,
    }
}

fn normal_simple(ty: Type, simple: Simple) -> Option<Type> {
    match simple {
        Simple::AnyList | Simple::AnyTuple | Simple::AnyClass => Some(Type::simple(Simple::Any)),
        _ => ty.is_mutable().then_some(ty),
    }
}
