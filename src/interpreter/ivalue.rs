//! Run-time values.

use super::stop::{Exception, Stop};
use crate::symbol::Symbol;
use crate::tensor::{C128, DType, Device, Scalar, Tensor};
use crate::types::{Simple, Type, TypeKind};
use indexmap::IndexMap;
use std::cell::{OnceCell, RefCell};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// A list, shared by its holders.
pub type List = Rc<RefCell<Vec<IValue>>>;
/// A dict in insertion order, shared by its holders.
pub type Dict = Rc<RefCell<IndexMap<Key, IValue>>>;

/// A value. Cloning shares tensors, containers and objects; nothing is copied.
#[derive(Clone, Debug)]
pub enum IValue {
    /// `None`
    None,
    /// `bool`
    Bool(bool),
    /// `int`; dtypes, layouts and memory formats are ints too.
    Int(i64),
    /// `float`
    Float(f64),
    /// `complex`
    Complex(C128),
    /// `str`
    Str(Rc<str>),
    /// `Device`
    Device(Device),
    /// `Tensor`
    Tensor(Tensor),
    /// The undefined tensor that `prim::AutogradZero` makes.
    Undefined,
    /// `T[]`
    List(List),
    /// `Dict(K, V)`
    Dict(Dict),
    /// `(A, B)`
    Tuple(Rc<[IValue]>),
    /// An instance of a class.
    Object(Rc<Object>),
    /// A member of an enum.
    Enum(Rc<EnumMember>),
    /// A function, by qualified name.
    Function(Symbol),
    /// The result of a fork.
    Future(Rc<Future>),
    /// A value that is never read.
    Uninitialized,
}

/// An instance of a class.
#[derive(Debug)]
pub struct Object {
    /// Its class.
    pub class: Symbol,
    /// Its attributes.
    pub attributes: RefCell<IndexMap<String, IValue>>,
}

/// A member of an enum.
#[derive(Debug)]
pub struct EnumMember {
    /// `__torch__.Color`
    pub class: Symbol,
    /// `RED`
    pub name: String,
    /// Its value; not in the text of constants.
    pub value: Option<IValue>,
}

/// The effects of a fork's body, apart from its result.
#[derive(Clone, Debug, Default)]
pub struct ForkEffects {
    /// Exceptions that were raised in forks of the body.
    pub raised: Vec<Exception>,
    /// Warnings.
    pub warned: String,
    /// An operator that runs differently in some releases.
    pub ambiguity: Option<String>,
}

/// A body of a fork that another thread runs.
pub trait Running: Debug {
    /// Waits until it is done, or runs it here if no thread has begun.
    fn finish(self: Box<Self>) -> (Result<IValue, Stop>, ForkEffects);
}

/// The result of a fork: known, or computed by another thread until it is read. An exception
/// of the body is raised by the node that waits.
#[derive(Debug, Default)]
pub struct Future {
    result: OnceCell<Result<IValue, Stop>>,
    running: RefCell<Option<Box<dyn Running>>>,
    effects: RefCell<ForkEffects>,
}

impl Future {
    /// A known result.
    pub fn known(result: Result<IValue, Stop>) -> Future {
        Future { result: result.into(), ..Future::default() }
    }

    /// The result of a body that another thread runs.
    pub fn running(body: Box<dyn Running>) -> Future {
        Future { running: RefCell::new(Some(body)), ..Future::default() }
    }

    /// The result; waits for it.
    pub fn result(&self) -> &Result<IValue, Stop> {
        self.result.get_or_init(|| match self.running.take() {
            Some(body) => {
                let (result, effects) = body.finish();
                self.effects.replace(effects);
                result
            }
            None => Err(Stop::unsupported("a future that nothing computes")),
        })
    }

    /// Whether it has been read, or was known from the start.
    pub(super) fn is_known(&self) -> bool {
        self.result.get().is_some()
    }

    /// The effects of the body, its exception included. Only the first call returns them.
    pub(super) fn take_effects(&self) -> ForkEffects {
        let own = self.result().as_ref().err().and_then(Stop::exception).cloned();
        let mut effects = self.effects.take();
        effects.raised.extend(own);
        effects
    }
}

/// A value as the key of a dict: numbers and strings by value, tensors by address.
#[derive(Clone, Debug)]
pub struct Key(pub IValue);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        match (&self.0, &other.0) {
            (IValue::Tensor(a), IValue::Tensor(b)) => a.is_same_view(b),
            (IValue::Str(a), IValue::Str(b)) => a == b,
            (IValue::Device(a), IValue::Device(b)) => a == b,
            (a, b) => match (a.scalar(), b.scalar()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            IValue::Tensor(tensor) => tensor.storage().address().hash(state),
            IValue::Str(text) => text.hash(state),
            IValue::Device(device) => device.hash(state),
            other => other.scalar().map(|s| s.real().to_bits()).hash(state),
        }
    }
}

impl IValue {
    /// A list of these.
    pub fn list(elements: impl IntoIterator<Item = impl Into<IValue>>) -> IValue {
        IValue::List(Rc::new(RefCell::new(elements.into_iter().map(Into::into).collect())))
    }

    /// A tuple of these.
    pub fn tuple(elements: impl IntoIterator<Item = impl Into<IValue>>) -> IValue {
        IValue::Tuple(elements.into_iter().map(Into::into).collect())
    }

    /// A dict of these.
    pub fn dict(items: impl IntoIterator<Item = (IValue, IValue)>) -> IValue {
        IValue::Dict(Rc::new(RefCell::new(items.into_iter().map(|(key, value)| (Key(key), value)).collect())))
    }

    /// The number, if it is one.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            IValue::Bool(b) => Some(Scalar::Bool(*b)),
            IValue::Int(n) => Some(Scalar::Int(*n)),
            IValue::Float(x) => Some(Scalar::Float(*x)),
            IValue::Complex(z) => Some(Scalar::Complex(*z)),
            _ => None,
        }
    }

    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        if let IValue::Tensor(tensor) = self { Some(tensor) } else { None }
    }

    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, IValue::None)
    }

    /// The kind of value, for messages.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            IValue::None => "None",
            IValue::Bool(_) => "bool",
            IValue::Int(_) => "int",
            IValue::Float(_) => "float",
            IValue::Complex(_) => "complex",
            IValue::Str(_) => "str",
            IValue::Device(_) => "Device",
            IValue::Tensor(_) => "Tensor",
            IValue::Undefined => "undefined Tensor",
            IValue::List(_) => "list",
            IValue::Dict(_) => "dict",
            IValue::Tuple(_) => "tuple",
            IValue::Object(_) => "object",
            IValue::Enum(_) => "enum",
            IValue::Function(_) => "function",
            IValue::Future(_) => "Future",
            IValue::Uninitialized => "uninitialized value",
        }
    }

    /// The kind of value, in the words of PyTorch's messages.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            IValue::None => "None",
            IValue::Bool(_) => "Bool",
            IValue::Int(_) => "Int",
            IValue::Float(_) => "Double",
            IValue::Complex(_) => "ComplexDouble",
            IValue::Str(_) => "String",
            IValue::Device(_) => "Device",
            IValue::Tensor(_) | IValue::Undefined => "Tensor",
            IValue::List(_) => "GenericList",
            IValue::Dict(_) => "GenericDict",
            IValue::Tuple(_) => "Tuple",
            IValue::Object(_) => "Object",
            IValue::Enum(_) => "Enum",
            IValue::Function(_) => "Capsule",
            IValue::Future(_) => "Future",
            IValue::Uninitialized => "Uninitialized",
        }
    }

    /// The type used for overload resolution. An empty list has an unknown element type.
    pub fn ty(&self) -> Type {
        let simple = |simple| Type::new(TypeKind::Simple(simple));
        match self {
            IValue::None => simple(Simple::None),
            IValue::Bool(_) => simple(Simple::Bool),
            IValue::Int(_) => simple(Simple::Int),
            IValue::Float(_) => simple(Simple::Float),
            IValue::Complex(_) => simple(Simple::Complex),
            IValue::Str(_) => simple(Simple::Str),
            IValue::Device(_) => simple(Simple::Device),
            IValue::Tensor(_) | IValue::Undefined => Type::tensor(),
            IValue::List(list) => Type::list(list.borrow().first().map_or(simple(Simple::Any), IValue::ty)),
            IValue::Dict(dict) => {
                let dict = dict.borrow();
                let (key, value) =
                    dict.first().map_or((simple(Simple::Str), simple(Simple::Any)), |(k, v)| (k.0.ty(), v.ty()));
                Type::new(TypeKind::Dict(key, value))
            }
            IValue::Tuple(elements) => Type::tuple(&elements.iter().map(IValue::ty).collect::<Vec<_>>()),
            IValue::Object(object) => Type::new(TypeKind::Class(object.class)),
            IValue::Enum(member) => Type::new(TypeKind::Enum(member.class)),
            IValue::Function(_) => simple(Simple::Function),
            IValue::Future(value) => {
                let inner = value.result().as_ref().map_or(simple(Simple::Any), IValue::ty);
                Type::new(TypeKind::Future(inner))
            }
            IValue::Uninitialized => simple(Simple::Any),
        }
    }

    /// Whether the value may be of a declared type, as in `prim::isinstance`.
    pub(crate) fn is_a(&self, ty: Type) -> bool {
        match (self, ty.kind()) {
            (_, TypeKind::Optional(inner)) => self.is_none() || self.is_a(*inner),
            (_, TypeKind::Union(members)) => members.iter().any(|&member| self.is_a(member)),
            (IValue::List(list), TypeKind::List(element)) => list.borrow().iter().all(|value| value.is_a(*element)),
            (IValue::Dict(dict), TypeKind::Dict(key, value)) => {
                dict.borrow().iter().all(|(k, v)| k.0.is_a(*key) && v.is_a(*value))
            }
            (IValue::Tuple(values), TypeKind::Tuple(types)) => {
                values.len() == types.len() && values.iter().zip(types.iter()).all(|(value, &ty)| value.is_a(ty))
            }
            (IValue::List(_), TypeKind::Simple(Simple::AnyList))
            | (IValue::Tuple(_), TypeKind::Simple(Simple::AnyTuple))
            | (_, TypeKind::Simple(Simple::Any)) => true,
            _ => self.ty().is_subtype_of(ty),
        }
    }

    /// Calls `f` with every tensor in it, containers and objects included.
    pub fn each_tensor(&self, f: &mut dyn FnMut(&Tensor)) {
        let mut work = vec![self.clone()];
        let mut seen = Vec::new();
        while let Some(value) = work.pop() {
            match value {
                IValue::Tensor(tensor) => f(&tensor),
                IValue::List(list) => work.extend(list.borrow().iter().rev().filter(may_hold_tensors).cloned()),
                IValue::Dict(dict) => work.extend(dict.borrow().values().rev().filter(may_hold_tensors).cloned()),
                IValue::Tuple(elements) => work.extend(elements.iter().rev().cloned()),
                IValue::Future(value) => work.extend(value.result().clone().ok()),
                IValue::Object(object) if !seen.contains(&Rc::as_ptr(&object)) => {
                    seen.push(Rc::as_ptr(&object));
                    work.extend(object.attributes.borrow().values().rev().cloned());
                }
                _ => {}
            }
        }
    }
}

/// Whether a value is a tensor or may have one in it: lists of numbers are long.
fn may_hold_tensors(value: &&IValue) -> bool {
    !matches!(value, IValue::None | IValue::Bool(_) | IValue::Int(_) | IValue::Float(_) | IValue::Str(_))
}

impl From<Tensor> for IValue {
    fn from(tensor: Tensor) -> IValue {
        IValue::Tensor(tensor)
    }
}
impl From<i64> for IValue {
    fn from(n: i64) -> IValue {
        IValue::Int(n)
    }
}
impl From<usize> for IValue {
    fn from(n: usize) -> IValue {
        IValue::Int(n as i64)
    }
}
impl From<f64> for IValue {
    fn from(x: f64) -> IValue {
        IValue::Float(x)
    }
}
impl From<bool> for IValue {
    fn from(b: bool) -> IValue {
        IValue::Bool(b)
    }
}
impl From<&str> for IValue {
    fn from(text: &str) -> IValue {
        IValue::Str(text.into())
    }
}
impl From<String> for IValue {
    fn from(text: String) -> IValue {
        IValue::Str(text.into())
    }
}
impl From<DType> for IValue {
    fn from(dtype: DType) -> IValue {
        IValue::Int(dtype.code().unwrap_or(-1))
    }
}
impl From<Scalar> for IValue {
    fn from(scalar: Scalar) -> IValue {
        match scalar {
            Scalar::Bool(b) => IValue::Bool(b),
            Scalar::Int(n) => IValue::Int(n),
            Scalar::Float(x) => IValue::Float(x),
            Scalar::Complex(z) => IValue::Complex(z),
        }
    }
}
impl<T: Into<IValue>> From<Option<T>> for IValue {
    fn from(value: Option<T>) -> IValue {
        value.map_or(IValue::None, Into::into)
    }
}
