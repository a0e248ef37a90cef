//! Types, interned for the life of the process.
//!
//! A [`Type`] is an address: copying, comparing and hashing it costs one machine word;
//! [`Type::kind`] gives its structure. Refining a tensor type makes another type. The memory of a
//! type is never freed; a graph has few distinct types, and a process that reads many files shares
//! them.
//!
//! [`spelling`] reads and prints the spelling of every PyTorch since 1.0; [`relations`] has
//! subtyping, joins and type variables.

pub mod era;
pub mod gaps;
pub mod relations;
pub mod release;
pub mod spelling;

use crate::symbol::Symbol;
pub use crate::tensor::dtype::DType;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};

/// An interned type.
#[derive(Clone, Copy)]
pub struct Type(&'static TypeKind);

/// The structure of a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// `Tensor` and its refinements, `Float(2, *, requires_grad=0)`.
    Tensor(TensorType),
    /// A type without parts.
    Simple(Simple),
    /// `T?`
    Optional(Type),
    /// `T[]`
    List(Type),
    /// `Dict(K, V)`
    Dict(Type, Type),
    /// `(A, B)`; one element has no trailing comma.
    Tuple(Box<[Type]>),
    /// `NamedTuple(x : Tensor, n : int = 3)`: the name itself is not printed.
    NamedTuple(Box<[Field]>),
    /// `Union(float, int)`, in the order in which PyTorch normalised it.
    Union(Box<[Type]>),
    /// `Future[T]`
    Future(Type),
    /// `RRef[T]`
    RRef(Type),
    /// `Await(T)`
    Await(Type),
    /// `__torch__.a.b.C`, or `ClassType<C>` before 1.4.
    Class(Symbol),
    /// `InterfaceType<I>`
    Interface(Symbol),
    /// `Enum<__torch__.Color>`
    Enum(Symbol),
    /// A type variable of a schema, `t`.
    Var(Symbol),
}

/// One field of a named tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: Symbol,
    /// Its type.
    pub ty: Type,
    /// Its default as printed, where strings have no quotes.
    pub default: Option<Symbol>,
}

macro_rules! simple_types {
    ($($name:ident $text:literal,)*) => {
        /// Types without parts. The names are those of the text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the variants are the names of the text")]
        pub enum Simple { $($name,)* }
        impl Simple {
            /// All of them.
            pub const ALL: &[Simple] = &[$(Simple::$name,)*];
            /// Its spelling (the newest one, for [`Simple::None`]).
            pub fn name(self) -> &'static str {
                match self { $(Simple::$name => $text,)* }
            }
        }
    };
}

simple_types! {
    Int "int", Float "float", Bool "bool", Str "str", Complex "complex", None "NoneType", Number "number",
    Scalar "Scalar", Any "Any", AnyList "AnyListType", AnyTuple "AnyTupleType", AnyClass "AnyClassType",
    AnyEnum "AnyEnumType", Device "Device", Generator "Generator", Stream "Stream", Storage "Storage",
    Capsule "Capsule", QScheme "QScheme", Layout "Layout", ScalarType "ScalarType", MemoryFormat "MemoryFormat",
    Function "Function", PyObject "PyObject", SymInt "SymInt", SymFloat "SymFloat", SymBool "SymBool",
    Quantizer "Quantizer", Dimname "Dimname", DeviceObj "DeviceObjType", StreamObj "StreamObjType",
    World "World", Blob "Blob", Handle "Handle",
}

/// One size of a tensor type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// `*`
    Unknown,
    /// `3`
    Known(i64),
    /// `SS(-2)`: unknown, but the same number is the same size within one graph.
    Symbolic(i64),
}

/// The known strides of a tensor type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strides {
    /// Nothing.
    #[default]
    Unknown,
    /// All of them, in elements.
    Known(Box<[i64]>),
    /// `Float(2048!, 1000)`, PyTorch 0.4 and 1.0: true where the stride is not the contiguous one.
    Marked(Box<[bool]>),
}

/// The known properties of a tensor. If all are `None`, it is plain `Tensor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: Option<DType>,
    /// Sizes; `None` when even the rank is unknown.
    pub sizes: Option<Box<[Dim]>>,
    /// Strides; unknown if the rank is unknown.
    pub strides: Strides,
    /// Whether it takes part in differentiation.
    pub requires_grad: Option<bool>,
    /// `cpu`, `cuda:0`.
    pub device: Option<Symbol>,
    /// Whether it is autograd's undefined tensor.
    pub undefined: Option<bool>,
    /// Whether it is the profiled type of PyTorch 1.2, which has its own spelling.
    pub profiled: bool,
}

impl TensorType {
    /// The rank when it is known.
    pub fn rank(&self) -> Option<usize> {
        self.sizes.as_ref().map(|sizes| sizes.len())
    }
}

/// The maximal nesting of types: the parser refuses deeper ones, so that no traversal of a type can
/// exhaust the stack.
pub(crate) const MAX_DEPTH: usize = 10_000;

struct Table {
    kinds: HashTable<&'static TypeKind>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(|| Mutex::new(Table { kinds: HashTable::new() }));

impl Type {
    /// Interns a type.
    pub fn new(kind: TypeKind) -> Type {
        let hash = |kind: &TypeKind| FxBuildHasher.hash_one(kind);
        let mut table = TABLE.lock().expect("no holder of this lock panics");
        let h = hash(&kind);
        if let Some(&found) = table.kinds.find(h, |k| **k == kind) {
            return Type(found);
        }
        let kept: &'static TypeKind = Box::leak(Box::new(kind));
        table.kinds.insert_unique(h, kept, |k| hash(k));
        Type(kept)
    }

    /// Its structure.
    #[inline]
    pub fn kind(self) -> &'static TypeKind {
        self.0
    }

    /// `Tensor` without known properties.
    pub fn tensor() -> Type {
        static TENSOR: LazyLock<Type> = LazyLock::new(|| Type::new(TypeKind::Tensor(TensorType::default())));
        *TENSOR
    }

    /// A type without parts.
    pub fn simple(simple: Simple) -> Type {
        static ALL: LazyLock<Vec<Type>> =
            LazyLock::new(|| Simple::ALL.iter().map(|&s| Type::new(TypeKind::Simple(s))).collect());
        ALL[simple as usize]
    }

    /// `int`
    pub fn int() -> Type {
        Type::simple(Simple::Int)
    }

    /// `bool`
    pub fn bool() -> Type {
        Type::simple(Simple::Bool)
    }

    /// `NoneType`
    pub fn none() -> Type {
        Type::simple(Simple::None)
    }

    /// `T[]`
    pub fn list(element: Type) -> Type {
        Type::new(TypeKind::List(element))
    }

    /// `T?`
    pub fn optional(inner: Type) -> Type {
        Type::new(TypeKind::Optional(inner))
    }

    /// `(A, B)`
    pub fn tuple(elements: &[Type]) -> Type {
        Type::new(TypeKind::Tuple(elements.into()))
    }

    /// Its properties, if it is a tensor type.
    pub fn as_tensor(self) -> Option<&'static TensorType> {
        if let TypeKind::Tensor(tensor) = self.0 { Some(tensor) } else { None }
    }

    /// Whether it is a tensor type, refined or not.
    pub fn is_tensor(self) -> bool {
        matches!(self.0, TypeKind::Tensor(_))
    }

    /// Whether it is this type without parts.
    pub fn is(self, simple: Simple) -> bool {
        matches!(self.0, TypeKind::Simple(s) if *s == simple)
    }

    /// The element types of a tuple, named or not.
    pub fn tuple_elements(self) -> Option<Vec<Type>> {
        match self.0 {
            TypeKind::Tuple(elements) => Some(elements.to_vec()),
            TypeKind::NamedTuple(fields) => Some(fields.iter().map(|field| field.ty).collect()),
            _ => None,
        }
    }

    /// Its direct parts.
    pub fn parts(self) -> Vec<Type> {
        use TypeKind::*;
        match self.0 {
            Optional(t) | List(t) | Future(t) | RRef(t) | Await(t) => vec![*t],
            Dict(k, v) => vec![*k, *v],
            Tuple(parts) | Union(parts) => parts.to_vec(),
            NamedTuple(fields) => fields.iter().map(|field| field.ty).collect(),
            Tensor(_) | Simple(_) | Class(_) | Interface(_) | Enum(_) | Var(_) => Vec::new(),
        }
    }

    /// The same type with `f` applied to every tensor type in it; only tuples, lists, optionals,
    /// dicts and futures are traversed.
    pub fn map_tensors(self, f: &mut dyn FnMut(&TensorType) -> Type) -> Type {
        use TypeKind::*;
        match self.0 {
            Tensor(tensor) => f(tensor),
            Optional(t) => Type::new(Optional(t.map_tensors(f))),
            List(t) => Type::new(List(t.map_tensors(f))),
            Future(t) => Type::new(Future(t.map_tensors(f))),
            Dict(k, v) => Type::new(Dict(k.map_tensors(f), v.map_tensors(f))),
            Tuple(parts) => Type::new(Tuple(parts.iter().map(|t| t.map_tensors(f)).collect())),
            NamedTuple(fields) => {
                let field = |field: &Field, f: &mut dyn FnMut(&TensorType) -> Type| Field {
                    ty: field.ty.map_tensors(f),
                    ..*field
                };
                Type::new(NamedTuple(fields.iter().map(|old| field(old, f)).collect()))
            }
            _ => self,
        }
    }
}

impl Type {
    /// Tensor type number `i` in the order of [`Type::map_tensors`].
    pub(crate) fn tensor_part(self, i: usize) -> Option<Type> {
        let (mut at, mut found) = (0, None);
        self.map_tensors(&mut |tensor| {
            let ty = Type::new(TypeKind::Tensor(tensor.clone()));
            if at == i {
                found = Some(ty);
            }
            at += 1;
            ty
        });
        found
    }

    /// A number unique to this type in this process.
    #[inline]
    pub(crate) fn number(self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }
}

impl PartialEq for Type {
    #[inline]
    fn eq(&self, other: &Type) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Type {}

impl Hash for Type {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        spelling::print(&mut out, *self, &spelling::Spelling::default());
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
