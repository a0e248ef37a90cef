//! Values of constants, and of contents that the text does not show.

use super::content_names::{has_text, part_name};
use super::environment::Environment;
use super::ivalue::{EnumMember, IValue, Object};
use super::stop::{Reason, Stop};
use crate::ir::{Attribute, Graph, Node};
use crate::symbol::{Symbol, attr};
use crate::tensor::layout::numel;
use crate::tensor::{C128, DType, Device, Tensor};
use crate::text::printed_list;
use crate::types::{Dim, Simple, TensorType, Type, TypeKind};
use indexmap::IndexMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

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
        Some(value) => of(env, value, ty, &name),
    }
}

/// The value of a literal of a constant of this type; `name` is the name of the value, used for
/// hidden contents without a known name.
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
            let pairs = items.iter().enumerate();
            let pairs = pairs.map(|(i, (k, v))| Ok((of(env, k, key, name)?, of_part(env, v, item, (name, i))?)));
            IValue::dict(pairs.collect::<Result<Vec<_>, Stop>>()?)
        }
        (Attribute::Enum(member), _) => member_of(*member),
        (Attribute::Tensor(text), kind) => match printed_tensor(text, kind, env) {
            // A bound value has the digits that the text lacks.
            Some(tensor) if !is_bound(env, text, name) => tensor,
            _ => unbound(env, name_of(env, text, name), ty)?,
        },
        (Attribute::Opaque(text), TypeKind::Simple(Simple::Int)) if is_integer(text) => {
            return Err(Stop::unsupported(format!("{text} exceeds the range of integers, which have 64 bits")));
        }
        (Attribute::Opaque(text), _) => {
            let name = name_of(env, text, name);
            match printed_list::parts(text) {
                Some(parts) => {
                    let types = element_types(ty, parts.len()).into_iter().zip(&parts);
                    let types: Vec<Type> =
                        types.map(|(ty, part)| if is_unshaped(part) { one_element() } else { ty }).collect();
                    IValue::list(of_parts(env, &parts, &types, name)?)
                }
                None => hidden(env, text, ty, name).map_or_else(|| unbound(env, name, ty), Ok)?,
            }
        }
        (Attribute::Type(_) | Attribute::Graph(_), _) => {
            return Err(Stop::unsupported("a constant that is a type or a graph"));
        }
    })
}

/// Whether a text is that of an integer.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
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
    parts.iter().zip(types).enumerate().map(|(i, (part, &ty))| of_part(env, part, ty, (name, i))).collect()
}

/// An element of the constant `name`. Few elements have contents that need a name.
fn of_part(env: &Environment, part: &Attribute, ty: Type, (name, i): (&str, usize)) -> Result<IValue, Stop> {
    if has_text(part) { of(env, part, ty, &part_name(name, i)) } else { of(env, part, ty, name) }
}

/// Whether the text of a list element shows no dimensions: one element, `{1}`. Types of lists show
/// none either.
pub fn is_unshaped(part: &Attribute) -> bool {
    matches!(part, Attribute::Tensor(text) if text.starts_with('{'))
}

/// The type assumed for such an element: `x[:, [-1]]` has one dimension.
fn one_element() -> Type {
    Type::new(TypeKind::Tensor(TensorType { sizes: Some([Dim::Known(1)].into()), ..TensorType::default() }))
}

/// The name of the content that a text represents.
fn name_of<'a>(env: &'a Environment, text: &Arc<str>, name: &'a str) -> &'a str {
    env.content_names.get(text).unwrap_or(name)
}

/// Whether the content of a tensor that the text shows is bound. Values made by passes do not
/// count, whatever their names.
fn is_bound(env: &Environment, text: &Arc<str>, name: &str) -> bool {
    let known = env.content_names.get(text);
    let name = if env.content_names.is_empty() || name.ends_with(']') { known.or(Some(name)) } else { known };
    name.is_some_and(|name| env.bindings.borrow().contains_key(name))
}

/// The generated value of a list whose text shows no elements: lists of tensors become constants
/// when they are empty, others hold computed values.
fn hidden(env: &Environment, text: &str, ty: Type, name: &str) -> Option<IValue> {
    let is_list = matches!(ty.kind(), TypeKind::List(_)) && text == "[<Tensors>]";
    if !is_list || env.invent.is_none() || env.bindings.borrow().contains_key(name) {
        return None;
    }
    env.invented.borrow_mut().insert(name.to_owned(), ty);
    Some(IValue::list(Vec::<IValue>::new()))
}

fn member_of(member: Symbol) -> IValue {
    let text = member.as_str();
    let (class, name) = text.rsplit_once('.').unwrap_or(("", text));
    IValue::Enum(Rc::new(EnumMember { class: Symbol::new(class), name: name.to_owned(), value: None }))
}

/// A value that is not in the text: bound by the user, or generated if that was requested.
pub(crate) fn unbound(env: &Environment, name: &str, ty: Type) -> Result<IValue, Stop> {
    if let Some(value) = env.bindings.borrow().get(name) {
        return Ok(value.clone());
    }
    if let TypeKind::Class(class) = ty.kind() {
        return Ok(object(*class, name));
    }
    match env.invent.and_then(|invent| invent(env, name, ty)) {
        Some(value) => {
            env.bindings.borrow_mut().insert(name.to_owned(), value.clone());
            env.invented.borrow_mut().insert(name.to_owned(), ty);
            Ok(value)
        }
        None => {
            let what = how_to_bind(ty);
            let spelled = spelled(name);
            Err(Stop::new(Reason::Unbound(format!(
                "the text does not show the value of `{spelled}` (a {ty}); bind it with --bind '{spelled}={what}, or generate it with --fill-unknown=random"
            ))))
        }
    }
}

/// The name of a content in options: `%w`, `prim::fork_0/%w`.
pub fn spelled(name: &str) -> String {
    if name.contains("/%") { name.to_owned() } else { format!("%{name}") }
}

/// The text after `=` in `--bind`.
fn how_to_bind(ty: Type) -> String {
    match (ty.kind(), example(ty)) {
        (TypeKind::Simple(Simple::Int | Simple::Float | Simple::Bool), _) => "VALUE'".to_owned(),
        (TypeKind::Optional(_), Some(example)) => format!("VALUE', such as {example}, or =None"),
        (_, Some(example)) => format!("VALUE', such as {example}"),
        (TypeKind::List(_), None) => "FILE', with tensors named `0`, `1`, …".to_owned(),
        (TypeKind::Optional(_), None) => "FILE', or =None".to_owned(),
        _ => "FILE'".to_owned(),
    }
}

/// An example literal of a type without tensors.
pub fn example(ty: Type) -> Option<String> {
    Some(match ty.kind() {
        TypeKind::Simple(Simple::Int) => "1".to_owned(),
        TypeKind::Simple(Simple::Float) => "0.5".to_owned(),
        TypeKind::Simple(Simple::Bool) => "True".to_owned(),
        TypeKind::Simple(Simple::Str) => "\"a\"".to_owned(),
        TypeKind::Optional(inner) => example(*inner)?,
        TypeKind::List(element) => format!("[{0}, {0}]", example(*element)?),
        TypeKind::Dict(key, value) => format!("{{{}: {}}}", example(*key)?, example(*value)?),
        TypeKind::Tuple(parts) if parts.len() == 1 => format!("({},)", example(parts[0])?),
        TypeKind::Tuple(parts) => {
            format!("({})", parts.iter().map(|&part| example(part)).collect::<Option<Vec<_>>>()?.join(", "))
        }
        _ => return None,
    })
}

/// An object whose attributes are looked up when they are read, under `path` and a dot.
pub fn object(class: Symbol, path: &str) -> IValue {
    let attributes = RefCell::new(IndexMap::from([(PATH.to_owned(), IValue::from(path))]));
    IValue::Object(Rc::new(Object { class, attributes }))
}

/// The attribute in which an object records its path; no program can name it.
pub const PATH: &str = "(path)";

/// The elements of a tensor that PyTorch printed. Integers are exact. Floating point numbers were
/// rounded when they were printed; the printed numbers are used.
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
        IValue::Tensor(if crate::tensor::promotion::stands_for_number(dtype) { tensor.into_number() } else { tensor })
    })
}

/// The rank that the declared type implies, if all its sizes are 1.
fn declared_rank(kind: &TypeKind) -> usize {
    let TypeKind::Tensor(TensorType { sizes: Some(sizes), .. }) = kind else { return 0 };
    if sizes.iter().all(|&size| size == Dim::Known(1)) { sizes.len() } else { 0 }
}

/// `CPULongType`, `CUDAFloatType`
fn printed_dtype(name: &str) -> Option<DType> {
    let name = name.trim().trim_start_matches("CPU").trim_start_matches("CUDA").strip_suffix("Type")?;
    DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
}

/// The numbers of a tensor in order, as PyTorch prints them with lines joined: `0.001 *  1.5410
/// -0.2934`, where the factor applies to a slice, and slices of tensors with more than two
/// dimensions have their indices before them, `(1,.,.) =`. `None` for text printed in blocks of
/// columns.
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
