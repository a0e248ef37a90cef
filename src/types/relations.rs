//! Relations between types: subtyping, the least common type, type variables of schemas, and
//! mutability.

use super::{Dim, Simple, Strides, TensorType, Type, TypeKind};
use crate::symbol::Symbol;
use rustc_hash::FxHashMap;

/// The types bound to the type variables of a schema at one call.
pub type Bindings = FxHashMap<Symbol, Type>;

impl Type {
    /// Whether a value of this type is valid where `other` is required.
    pub fn is_subtype_of(self, other: Type) -> bool {
        use TypeKind::*;
        if self == other {
            return true;
        }
        match (self.kind(), other.kind()) {
            (_, Simple(super::Simple::Any)) => true,
            (Tensor(a), Tensor(b)) => a.refines(b),
            (Simple(a), Simple(b)) => a.is_a(*b),
            (Union(parts), _) => parts.iter().all(|part| part.is_subtype_of(other)),
            (_, Union(parts)) => parts.iter().any(|part| self.is_subtype_of(*part)),
            (Optional(a), Optional(b)) => a.is_subtype_of(*b),
            (Simple(super::Simple::None), Optional(_)) => true,
            (_, Optional(b)) => self.is_subtype_of(*b),
            (Tuple(_) | NamedTuple(_), Tuple(_) | NamedTuple(_)) => self.tuple_is_subtype(other),
            (Tuple(_) | NamedTuple(_), Simple(super::Simple::AnyTuple)) => true,
            (List(_), Simple(super::Simple::AnyList)) => true,
            (Enum(_), Simple(super::Simple::AnyEnum)) => true,
            (Class(_), Simple(super::Simple::AnyClass) | Interface(_)) => true,
            // Containers are invariant in PyTorch, but known properties of the tensors inside them
            // are not part of the contract: a `Float(2)[]` is valid where `Tensor[]` is required.
            (List(a), List(b)) | (Future(a), Future(b)) | (RRef(a), RRef(b)) | (Await(a), Await(b)) => {
                a.same_erased(*b)
            }
            (Dict(ka, va), Dict(kb, vb)) => ka.same_erased(*kb) && va.same_erased(*vb),
            _ => false,
        }
    }

    fn tuple_is_subtype(self, other: Type) -> bool {
        let (a, b) = (self.tuple_elements().unwrap_or_default(), other.tuple_elements().unwrap_or_default());
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.is_subtype_of(*b))
    }

    /// Whether the types are equal when all tensors are taken as plain `Tensor`.
    pub(crate) fn same_erased(self, other: Type) -> bool {
        self == other || self.erased() == other.erased()
    }

    /// The type with every tensor in it replaced by plain `Tensor`.
    pub fn erased(self) -> Type {
        self.map_tensors(&mut |_| Type::tensor())
    }

    /// The least type of which both are subtypes, if there is one that is not a union or `Any`.
    pub fn join(self, other: Type) -> Option<Type> {
        use TypeKind::*;
        if self.is_subtype_of(other) {
            return Some(other);
        }
        if other.is_subtype_of(self) {
            return Some(self);
        }
        match (self.kind(), other.kind()) {
            (Tensor(a), Tensor(b)) => Some(Type::new(Tensor(a.join(b)))),
            (Simple(super::Simple::None), _) => Some(Type::optional(other)),
            (_, Simple(super::Simple::None)) => Some(Type::optional(self)),
            (Optional(a), Optional(b)) => a.join(*b).map(Type::optional),
            (Optional(a), _) => a.join(other).map(Type::optional),
            (_, Optional(b)) => self.join(*b).map(Type::optional),
            (Tuple(a), Tuple(b)) if a.len() == b.len() => {
                let parts: Option<Vec<Type>> = a.iter().zip(b).map(|(a, b)| a.join(*b)).collect();
                parts.map(|parts| Type::tuple(&parts))
            }
            (List(a), List(b)) if a.same_erased(*b) => a.join(*b).map(Type::list),
            _ => None,
        }
    }

    /// Whether a value of this type gives access to memory that can be written to.
    pub fn is_mutable(self) -> bool {
        use TypeKind::*;
        match self.kind() {
            Tensor(_) | List(_) | Dict(..) | Class(_) | Interface(_) | Var(_) => true,
            Simple(simple) => matches!(
                simple,
                super::Simple::Any
                    | super::Simple::AnyList
                    | super::Simple::AnyTuple
                    | super::Simple::AnyClass
                    | super::Simple::PyObject
                    | super::Simple::Storage
                    | super::Simple::Blob
                    | super::Simple::Capsule
            ),
            Optional(t) | Future(t) | RRef(t) | Await(t) => t.is_mutable(),
            Tuple(_) | NamedTuple(_) | Union(_) => self.parts().into_iter().any(Type::is_mutable),
            Enum(_) => false,
        }
    }

    /// Matches an operand of type `actual` against this formal type, binding type variables.
    pub fn accepts(self, actual: Type, bindings: &mut Bindings) -> bool {
        use TypeKind::*;
        match (self.kind(), actual.kind()) {
            (Var(name), _) => bind(*name, actual, bindings),
            (Optional(_), Simple(super::Simple::None)) => true,
            (Optional(f), Optional(a)) => f.accepts(*a, bindings),
            (Optional(f), _) => f.accepts(actual, bindings),
            (List(f), List(a)) | (Future(f), Future(a)) | (RRef(f), RRef(a)) | (Await(f), Await(a)) => {
                f.accepts_exactly(*a, bindings)
            }
            (Dict(fk, fv), Dict(ak, av)) => fk.accepts_exactly(*ak, bindings) && fv.accepts_exactly(*av, bindings),
            (Tuple(f), Tuple(a)) => f.len() == a.len() && f.iter().zip(a).all(|(f, a)| f.accepts(*a, bindings)),
            _ => actual.is_subtype_of(self),
        }
    }

    /// The type with its variables replaced by their bindings; an unbound variable becomes
    /// `Any`.
    pub(crate) fn substituted(self, bindings: &Bindings) -> Type {
        use TypeKind::{Dict, Future, List, Optional, Tuple, Var};
        match self.kind() {
            Var(name) => bindings.get(name).copied().unwrap_or(Type::simple(Simple::Any)),
            List(t) => Type::list(t.substituted(bindings)),
            Optional(t) => Type::optional(t.substituted(bindings)),
            Future(t) => Type::new(Future(t.substituted(bindings))),
            Dict(k, v) => Type::new(Dict(k.substituted(bindings), v.substituted(bindings))),
            Tuple(parts) => Type::new(Tuple(parts.iter().map(|t| t.substituted(bindings)).collect())),
            _ => self,
        }
    }

    /// As [`Type::accepts`] inside an invariant container: an `int[]` is not a `Scalar[]`.
    fn accepts_exactly(self, actual: Type, bindings: &mut Bindings) -> bool {
        let loose = matches!(self.kind(), TypeKind::Var(_) | TypeKind::Optional(_)) || !self.parts().is_empty();
        if loose { self.accepts(actual, bindings) } else { self.same_erased(actual) || self.is_int_like(actual) }
    }

    fn is_int_like(self, actual: Type) -> bool {
        self.is(Simple::SymInt) && actual.is(Simple::Int)
    }
}

fn bind(name: Symbol, actual: Type, bindings: &mut Bindings) -> bool {
    let bound = *bindings.entry(name).or_insert(actual);
    match bound.join(actual) {
        Some(joined) => {
            bindings.insert(name, joined);
            true
        }
        None => false,
    }
}

impl Simple {
    fn is_a(self, other: Simple) -> bool {
        use Simple::*;
        let number = |s| matches!(s, Number | Scalar);
        match (self, other) {
            (a, b) if a == b => true,
            (Int | Float | Complex | Number | Scalar, b) if number(b) => true,
            (Int, SymInt) | (SymInt, Int) | (Float, SymFloat) | (Bool, SymBool) => true,
            // Dtypes, layouts and memory formats are ints at run time and print as ints before 2.x.
            (Int, ScalarType | Layout | MemoryFormat | QScheme)
            | (ScalarType | Layout | MemoryFormat | QScheme, Int) => true,
            (Str, Dimname) | (DeviceObj, Device) | (Device, DeviceObj) | (StreamObj, Stream) => true,
            _ => false,
        }
    }
}

impl TensorType {
    /// Whether every known fact of `other` is also known of `self`.
    pub(crate) fn refines(&self, other: &TensorType) -> bool {
        fn known<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
            b.is_none() || a == b
        }
        let dim = |(a, b): (&Dim, &Dim)| *b == Dim::Unknown || a == b;
        let sizes = match (&self.sizes, &other.sizes) {
            (_, None) => true,
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(dim),
            (None, Some(_)) => false,
        };
        sizes
            && known(&self.dtype, &other.dtype)
            && (other.strides == Strides::Unknown || self.strides == other.strides)
            && known(&self.requires_grad, &other.requires_grad)
            && known(&self.device, &other.device)
            && known(&self.undefined, &other.undefined)
    }

    /// The facts that hold for both.
    pub(crate) fn join(&self, other: &TensorType) -> TensorType {
        fn both<T: PartialEq + Clone>(a: &Option<T>, b: &Option<T>) -> Option<T> {
            if a == b { a.clone() } else { None }
        }
        let dim = |(a, b): (&Dim, &Dim)| if a == b { *a } else { Dim::Unknown };
        let sizes = match (&self.sizes, &other.sizes) {
            (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(dim).collect()),
            _ => None,
        };
        let strides =
            if sizes.is_some() && self.strides == other.strides { self.strides.clone() } else { Strides::Unknown };
        TensorType {
            dtype: both(&self.dtype, &other.dtype),
            strides,
            sizes,
            requires_grad: both(&self.requires_grad, &other.requires_grad),
            device: both(&self.device, &other.device),
            undefined: both(&self.undefined, &other.undefined),
            profiled: self.profiled && other.profiled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::spelling::parse_all;

    fn ty(text: &str) -> Type {
        parse_all(text.as_bytes()).expect("a type of the test")
    }

    #[test]
    fn subtypes() {
        let yes =
            ["Float(2, 3) Tensor", "Float(2, 3) Float(*, 3)", "int Scalar", "NoneType int?", "int int?", "int Any"];
        for pair in
            yes.iter().chain(&["(Float(2), int) (Tensor, Scalar)", "Float(2)[] Tensor[]", "int Union(float, int)"])
        {
            let cut = pair.rfind(if pair.ends_with(')') && pair.contains(") (") { " (" } else { " " }).unwrap_or(0);
            let cut = if pair.contains(" Union") { pair.find(" Union").unwrap_or(0) } else { cut };
            let cut = if pair.contains(" Float(*") { pair.find(" Float(*").unwrap_or(0) } else { cut };
            assert!(ty(&pair[..cut]).is_subtype_of(ty(&pair[cut + 1..])), "{pair}");
        }
        for (a, b) in
            [("Tensor", "Float()"), ("int[]", "Scalar[]"), ("int?", "int"), ("float", "int"), ("bool", "Scalar")]
        {
            assert!(!ty(a).is_subtype_of(ty(b)), "{a} {b}");
        }
    }

    #[test]
    fn joins() {
        for (a, b, joined) in [
            ("Float(2, 3)", "Float(4, 3)", Some("Float(*, 3)")),
            ("Float(2)", "Long(2)", Some("Tensor(2)")),
            ("NoneType", "int", Some("int?")),
            ("int", "str", None),
        ] {
            assert_eq!(ty(a).join(ty(b)), joined.map(ty), "{a} {b}");
            assert_eq!(ty(b).join(ty(a)), joined.map(ty), "{b} {a}");
        }
    }

    #[test]
    fn variables_bind_once() {
        let mut bindings = Bindings::default();
        assert!(ty("t[]").accepts(ty("int[]"), &mut bindings));
        assert!(ty("t").accepts(ty("int"), &mut bindings));
        assert!(!ty("t").accepts(ty("str"), &mut bindings));
    }
}
