//! Values of constants, and of what the text does not show.

use super::environment::Environment;
use super::ivalue::{EnumMember, IValue, Object};
use super::stop::{Reason, Stop};
use crate::ir::{Attribute, Graph, Node};
use crate::symbol::{Symbol, attr};
use crate::tensor::layout::numel;
use crate::tensor::{C128, DType, Device, Tensor};
use crate::types::{Dim, Simple, TensorType, Type, TypeKind};
use indexmap::IndexMap;
use std::cell::RefCell;
use std::rc::Rc;

/// The value of a `prim::Constant`.
pub fn constant(graph: &Graph, env: &Environment, node: Node) -> Result<IValue, Stop> {
    let Some(output) = graph.single_output(node) else {
        return Err(Stop::unsupported("a constant without output"));
    };
    let (name, ty) = (graph.name(output), graph.ty(output));
    if let Some(Attribute::Str(function)) = graph.attribute(node, attr::NAME) {
        return Ok(IValue::Function(Symbol::new(&String::from_utf8_lossy(function))));
    }
    match graph.attribute(node, attr::VALUE) {
        None => Ok(IValue::None),
        Some(value) => of(env, value, ty, env.renamed.get(&name).unwrap_or(&name)),
    }
}

/// The value of a literal of a constant of this type; `name` is what the value is called, for what the text does not show.
pub fn of(env: &Environment, value: &Attribute, ty: Type, name: &str) -> Result<IValue, Stop> {
    let ty = if let TypeKind::Optional(inner) = ty.kind() { *inner } else { ty };
    Ok(match (value, ty.kind()) {
        (Attribute::Int(n), TypeKind::Simple(Simple::Bool)) => IValue::Bool(*n != 0),
        (Attribute::Int(n), TypeKind::Simple(Simple::Float)) => IValue::Float(*n as f64),
        (Attribute::Int(n), TypeKind::Tensor(_)) => erased(env, crate::tensor::Scalar::Int(*n)),
        (Attribute::Float(x), TypeKind::Tensor(_)) => erased(env, crate::tensor::Scalar::Float(x.value)),
        (Attribute::Int(n), _) => IValue::Int(*n),
        (Attribute::Float(x), _) => IValue::Float(x.value),
        (Attribute::Complex(z), _) => IValue::Complex(C128::new(z.0.value, z.1.value)),
        (Attribute::Bool(b), _) => IValue::Bool(*b),
        (Attribute::None, _) => IValue::None,
        (Attribute::Str(text), TypeKind::Simple(Simple::Device | Simple::DeviceObj)) | (Attribute::Device(text), _) => {
            IValue::Device(Device::new(&String::from_utf8_lossy(text)))
        }
        (Attribute::Str(text), _) => IValue::from(String::from_utf8_lossy(text).into_owned()),
        (Attribute::List(parts), _) => IValue::list(of_parts(env, parts, &element_types(ty, parts.len()), name)?),
        (Attribute::EmptyList(_), _) => IValue::list(Vec::<IValue>::new()),
        (Attribute::Tuple(parts), _) => IValue::tuple(of_parts(env, parts, &element_types(ty, parts.len()), name)?),
        (Attribute::Dict(items), kind) => {
            let (key, item) = if let TypeKind::Dict(k, v) = kind { (*k, *v) } else { (any(), any()) };
            let pairs = items.iter().map(|(k, v)| Ok((of(env, k, key, name)?, of(env, v, item, name)?)));
            IValue::dict(pairs.collect::<Result<Vec<_>, Stop>>()?)
        }
        (Attribute::Enum(member), _) => member_of(*member),
        (Attribute::Tensor(text), kind) => match printed_tensor(text, kind, env) {
            // What is bound has the digits that the text lacks.
            Some(tensor) if !env.bindings.borrow().contains_key(name) => tensor,
            _ => unbound(env, name, ty)?,
        },
        // Lists of tensors become constants when they are empty: others hold what is computed.
        (Attribute::Opaque(text), TypeKind::List(_))
            if &**text == "[<Tensors>]" && env.invent.is_some() && !env.bindings.borrow().contains_key(name) =>
        {
            env.invented.borrow_mut().insert(name.to_owned(), "an empty list".to_owned());
            IValue::list(Vec::<IValue>::new())
        }
        (Attribute::Opaque(_), _) => unbound(env, name, ty)?,
        (Attribute::Type(_) | Attribute::Graph(_), _) => {
            return Err(Stop::unsupported("a constant that is a type or a graph"));
        }
    })
}

fn any() -> Type {
    Type::new(TypeKind::Simple(Simple::Any))
}

/// A number whose type was erased.
fn erased(env: &Environment, scalar: crate::tensor::Scalar) -> IValue {
    let dtype = crate::tensor::promotion::of_scalar(scalar, env.default_dtype());
    IValue::Tensor(Tensor::scalar(scalar, dtype, env.precision))
}

fn element_types(ty: Type, n: usize) -> Vec<Type> {
    match ty.kind() {
        TypeKind::List(element) => vec![*element; n],
        _ => ty.tuple_elements().filter(|types| types.len() == n).unwrap_or_else(|| vec![any(); n]),
    }
}

fn of_parts(env: &Environment, parts: &[Attribute], types: &[Type], name: &str) -> Result<Vec<IValue>, Stop> {
    parts.iter().zip(types).map(|(part, &ty)| of(env, part, ty, name)).collect()
}

fn member_of(member: Symbol) -> IValue {
    let text = member.as_str();
    let (class, name) = text.rsplit_once('.').unwrap_or(("", text));
    IValue::Enum(Rc::new(EnumMember { class: Symbol::new(class), name: name.to_owned(), value: None }))
}

/// What stands for a value that is not in the text: bound by the user, or invented when that was asked for.
pub fn unbound(env: &Environment, name: &str, ty: Type) -> Result<IValue, Stop> {
    if let Some(value) = env.bindings.borrow().get(name) {
        return Ok(value.clone());
    }
    if let TypeKind::Class(class) = ty.kind() {
        return Ok(object(*class, name));
    }
    match env.invent.and_then(|invent| invent(env, name, ty)) {
        Some(value) => {
            env.bindings.borrow_mut().insert(name.to_owned(), value.clone());
            env.invented.borrow_mut().insert(name.to_owned(), ty.to_string());
            Ok(value)
        }
        None => {
            let (what, called) = match ty.kind() {
                TypeKind::List(_) => ("FILE'", ", whose tensors are called `0`, `1`, …"),
                TypeKind::Simple(Simple::Int | Simple::Float | Simple::Bool) => ("VALUE'", ""),
                TypeKind::Optional(_) => ("FILE'", ", or =None"),
                _ => ("FILE'", ""),
            };
            Err(Stop::new(Reason::Unbound(format!(
                "the text does not show what `%{name}` holds (a {ty}); bind it with --bind '%{name}={what}{called}, or invent it with --fill-unknown=random"
            ))))
        }
    }
}

/// An object whose attributes are looked up when they are read, under `path` and a dot.
pub fn object(class: Symbol, path: &str) -> IValue {
    let attributes = RefCell::new(IndexMap::from([(PATH.to_owned(), IValue::from(path))]));
    IValue::Object(Rc::new(Object { class, attributes }))
}

/// The attribute under which an object keeps where it was found; no program can name it.
pub const PATH: &str = "(path)";

/// The elements of a tensor that PyTorch printed. Whole numbers are exact. Reals were rounded when they were printed; what is
/// printed is taken for them.
fn printed_tensor(text: &str, kind: &TypeKind, env: &Environment) -> Option<IValue> {
    let declared = if let TypeKind::Tensor(tensor) = kind { tensor.dtype } else { None };
    let (body, dtype, shape) = match text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(number) => {
            let guess = if number.contains(['.', 'e', 'n']) { DType::Float } else { DType::Long };
            // One element is printed without its dimensions.
            (number, declared.unwrap_or(guess), vec![1; declared_rank(kind)])
        }
        None => {
            // `[ CPULongType{2} ]`, and `[ Variable[CPULongType]{2} ]` up to 1.4.
            let (body, tail) = text.trim_end().strip_suffix(" ]")?.rsplit_once("[ ")?;
            let (name, sizes) = tail.trim().strip_suffix('}')?.split_once('{')?;
            let name = name.strip_prefix("Variable[").and_then(|name| name.strip_suffix(']')).unwrap_or(name);
            let sizes: Option<Vec<i64>> = sizes.split(',').map(|size| size.trim().parse().ok()).collect();
            (body, declared.or_else(|| printed_dtype(name))?, sizes?)
        }
    };
    let numbers = printed_numbers(body)?;
    (numbers.len() == numel(&shape)).then(|| {
        let tensor = Tensor::of(&numbers, dtype, &shape, env.precision);
        IValue::Tensor(if crate::tensor::promotion::stands_for_number(dtype) { tensor.as_number() } else { tensor })
    })
}

/// How many dimensions the declared type tells, where all its sizes are 1.
fn declared_rank(kind: &TypeKind) -> usize {
    let TypeKind::Tensor(TensorType { sizes: Some(sizes), .. }) = kind else { return 0 };
    if sizes.iter().all(|&size| size == Dim::Known(1)) { sizes.len() } else { 0 }
}

/// `CPULongType`, `CUDAFloatType`
fn printed_dtype(name: &str) -> Option<DType> {
    let name = name.trim().trim_start_matches("CPU").trim_start_matches("CUDA").strip_suffix("Type")?;
    DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
}

/// The numbers of a tensor in order, as PyTorch prints them with lines put together: `0.001 *  1.5410 -0.2934`, where the factor holds for a slice, and slices of what has more than two
/// dimensions have their places before them, `(1,.,.) =`. Nothing of what is printed in blocks of columns.
fn printed_numbers(body: &str) -> Option<Vec<f64>> {
    let (mut scale, mut numbers) = (1.0, Vec::new());
    let mut words = body.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word.starts_with('(') && words.next_if_eq(&"=").is_some() {
            scale = 1.0;
        } else if words.next_if_eq(&"*").is_some() {
            scale = word.parse().ok()?;
        } else {
            numbers.push(word.parse::<f64>().ok()? * scale);
        }
    }
    Some(numbers)
}
