//! Structural operators: tuples, lists, attributes, type checks, printing, raising.

use crate::interpreter::call::{Answer, Call, Outs, Row, one, several};
use crate::interpreter::ivalue::{Future, IValue, Object};
use crate::interpreter::literal_values;
use crate::interpreter::shown_values::to_str;
use crate::interpreter::stop::{Exception, Reason, Stop};
use crate::ir::Attribute;
use crate::symbol::{Symbol, attr};
use crate::tensor::{DType, Tensor};
use crate::types::{Dim, Strides, TensorType, Type, TypeKind};
use indexmap::IndexMap;
use std::cell::RefCell;
use std::rc::Rc;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("prim::TupleConstruct", |call| one(IValue::tuple(call.args.iter().cloned()))),
    ("prim::TupleUnpack", |call| several(parts(call.arg(0)?)?)),
    ("prim::TupleIndex", tuple_index),
    ("prim::TupleSlice", tuple_slice),
    ("prim::ListConstruct", |call| one(IValue::list(call.args.iter().cloned()))),
    ("prim::ListUnpack", list_unpack),
    ("prim::DictConstruct", dict_construct),
    ("prim::CreateObject", create_object),
    ("prim::GetAttr", get_attr),
    ("prim::SetAttr", set_attr),
    ("prim::HasAttr", has_attr),
    // `lower-all-tuples` makes one node of several.
    ("prim::Uninitialized", |call| several(call.graph.outputs(call.node).map(|_| IValue::Uninitialized))),
    ("prim::unchecked_cast", first),
    ("prim::unchecked_unwrap_optional", first),
    ("aten::_unwrap_optional", unwrap_optional),
    ("prim::profile", profile),
    ("prim::profile_optional", first),
    ("prim::profile_ivalue", first),
    ("prim::isinstance", is_instance),
    ("aten::__is__", |call| one(is_same(call.arg(0)?, call.arg(1)?))),
    ("aten::__isnot__", |call| one(!is_same(call.arg(0)?, call.arg(1)?))),
    ("prim::IfThenElse", |call| {
        let yes = call.arg(0)?.scalar().is_some_and(|scalar| scalar.truth());
        one(call.arg(if yes { 1 } else { 2 })?.clone())
    }),
    ("prim::Print", print),
    ("aten::_print", print),
    ("aten::warn", warn),
    ("prim::RaiseException", raise),
    ("aten::wait", wait),
    ("prim::awaitable_nowait", |call| one(IValue::Future(Rc::new(Future::known(Ok(call.arg(0)?.clone())))))),
    ("prim::awaitable_wait", wait),
    ("prim::EnumName", enum_name),
    ("prim::EnumValue", enum_value),
    ("prim::Guard", guard),
    ("prim::TimePoint", |_| one(0i64)),
    ("prim::AddStatValue", |_| Ok(Outs::new())),
    ("prim::Drop", |_| Ok(Outs::new())),
    ("prim::ModuleContainerIndex", |_| Err(Stop::unsupported("containers of modules that are indexed by a value"))),
    ("aten::set_grad_enabled", set_grad_enabled),
    ("aten::is_grad_enabled", |call| one(call.env.grad_enabled())),
    ("aten::is_autocast_enabled", |_| one(false)),
    ("aten::is_autocast_cpu_enabled", |_| one(false)),
    ("aten::get_autocast_dtype", autocast_dtype),
    ("aten::_get_tracing_state", |_| one(false)),
    ("aten::is_scripting", |_| one(true)),
    ("aten::manual_seed", |_| Ok(Outs::new())),
];

/// The element type of `torch.autocast` if none is given.
fn autocast_dtype(call: &Call<'_>) -> Answer {
    match call.str("device_type")?.as_str() {
        "cpu" => one(DType::BFloat16.code().map_or(IValue::None, IValue::Int)),
        device => Err(Stop::unsupported(format!("`torch.autocast` on `{device}`: graphs run on the processor"))),
    }
}

fn first(call: &Call<'_>) -> Answer {
    call.args.first().map_or_else(|| Err(Stop::unsupported("a node without operand")), |value| one(value.clone()))
}

fn parts(value: &IValue) -> Result<Vec<IValue>, Stop> {
    match value {
        IValue::Tuple(values) => Ok(values.to_vec()),
        IValue::List(values) => Ok(values.borrow().clone()),
        other => Err(Stop::unsupported(format!("unpacking a {}", other.kind_name()))),
    }
}

fn int_attribute(call: &Call<'_>, name: Symbol) -> Option<i64> {
    call.graph.attribute(call.node, name).and_then(Attribute::as_int)
}

/// The index is an operand since 1.0, an attribute before.
fn tuple_index(call: &Call<'_>) -> Answer {
    let values = parts(call.arg(0)?)?;
    let given = call.args.get(1).and_then(IValue::scalar).map(|scalar| scalar.int());
    let index = given.or(int_attribute(call, attr::INDEX)).unwrap_or(0);
    let found = wrapped(index, values.len()).and_then(|i| values.get(i));
    found.map_or_else(|| Err(Stop::raised("Tuple index out of range")), |value| one(value.clone()))
}

/// An index counted from the end when it is negative.
pub(crate) fn wrapped(index: i64, len: usize) -> Option<usize> {
    let at = if index < 0 { index + len as i64 } else { index };
    (0..len as i64).contains(&at).then_some(at as usize)
}

fn tuple_slice(call: &Call<'_>) -> Answer {
    let values = parts(call.arg(0)?)?;
    let n = values.len() as i64;
    let bound = |name, default| {
        let at = int_attribute(call, name).unwrap_or(default);
        (if at < 0 { at + n } else { at }).clamp(0, n) as usize
    };
    let (from, to) = (bound(attr::BEGIN, 0), bound(attr::END, n));
    one(IValue::tuple(values[from..to.max(from)].iter().cloned()))
}

fn list_unpack(call: &Call<'_>) -> Answer {
    let (values, wanted) = (parts(call.arg(0)?)?, call.graph.num_outputs(call.node));
    if values.len() != wanted {
        return Err(Stop::raised(format!("Expected {wanted} elements in a list but found {}", values.len())));
    }
    several(values)
}

fn dict_construct(call: &Call<'_>) -> Answer {
    one(IValue::dict(call.args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()))))
}

fn create_object(call: &Call<'_>) -> Answer {
    let ty = call.graph.single_output(call.node).map(|value| call.graph.ty(value));
    match ty.map(|ty| ty.kind()) {
        Some(TypeKind::Class(class)) => one_object(Object { class: *class, attributes: RefCell::new(IndexMap::new()) }),
        _ => Err(Stop::unsupported("an object of an unknown class")),
    }
}

fn one_object(object: Object) -> Answer {
    Ok(smallvec::smallvec![IValue::Object(Rc::new(object))])
}

fn attribute_name(call: &Call<'_>) -> String {
    match call.graph.attribute(call.node, attr::NAME) {
        Some(Attribute::Str(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}

/// An attribute that was never set is looked up under the path of the object, `self.conv1.weight`.
fn get_attr(call: &Call<'_>) -> Answer {
    let name = attribute_name(call);
    let IValue::Object(object) = call.arg(0)? else {
        return named_field(call, &name);
    };
    if let Some(value) = object.attributes.borrow().get(&name) {
        return one(value.clone());
    }
    let path = match object.attributes.borrow().get(literal_values::PATH) {
        Some(IValue::Str(path)) => format!("{path}.{name}"),
        // The attribute would have been set by a callee with generated results.
        _ if call.env.invent.is_some() => format!("{}.{name}", object.class.as_str()),
        _ => return Err(Stop::raised(format!("the object has no attribute `{name}`"))),
    };
    let ty = call.graph.single_output(call.node).map_or(Type::tensor(), |value| call.graph.ty(value));
    let value = literal_values::unbound(call.env, &path, ty)?;
    // Objects are made here, and must be the same ones on the next read; all other values are kept
    // by the bindings.
    if matches!(value, IValue::Object(_)) {
        object.attributes.borrow_mut().insert(name, value.clone());
    }
    one(value)
}

/// A field of a named tuple.
fn named_field(call: &Call<'_>, name: &str) -> Answer {
    let ty = call.graph.inputs(call.node).next().map(|value| call.graph.ty(value));
    if let (IValue::Tuple(values), Some(TypeKind::NamedTuple(fields))) = (call.arg(0)?, ty.map(|ty| ty.kind()))
        && let Some(value) = fields.iter().position(|field| field.name.as_str() == name).and_then(|i| values.get(i))
    {
        return one(value.clone());
    }
    Err(Stop::unsupported(format!("an attribute of a {}", call.arg(0)?.kind_name())))
}

fn set_attr(call: &Call<'_>) -> Answer {
    let IValue::Object(object) = call.arg(0)? else {
        return Err(Stop::unsupported(format!("setting an attribute of a {}", call.arg(0)?.kind_name())));
    };
    object.attributes.borrow_mut().insert(attribute_name(call), call.arg(1)?.clone());
    Ok(Outs::new())
}

fn has_attr(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::Object(object) => one(object.attributes.borrow().contains_key(&attribute_name(call))),
        _ => one(false),
    }
}

fn unwrap_optional(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::None => Err(Stop::raised("Unwrapping null optional")),
        value => one(value.clone()),
    }
}

fn is_instance(call: &Call<'_>) -> Answer {
    let types = match call.graph.attribute(call.node, attr::TYPES) {
        Some(Attribute::List(types)) => types,
        _ => return Err(Stop::unsupported("`prim::isinstance` without types")),
    };
    let value = call.arg(0)?;
    let is = |ty: &Attribute| matches!(ty, Attribute::Type(ty) if value.is_a(*ty));
    one(types.iter().any(is))
}

/// Python's `is`.
fn is_same(a: &IValue, b: &IValue) -> bool {
    match (a, b) {
        (IValue::None, IValue::None) | (IValue::Undefined, IValue::Undefined) => true,
        // An undefined tensor is the conversion of `None` to a tensor.
        (IValue::None, IValue::Undefined) | (IValue::Undefined, IValue::None) => true,
        (IValue::Bool(a), IValue::Bool(b)) => a == b,
        (IValue::Int(a), IValue::Int(b)) => a == b,
        (IValue::Float(a), IValue::Float(b)) => a == b,
        (IValue::Str(a), IValue::Str(b)) => a == b,
        (IValue::Tensor(a), IValue::Tensor(b)) => a.is_same_view(b),
        (IValue::List(a), IValue::List(b)) => Rc::ptr_eq(a, b),
        (IValue::Dict(a), IValue::Dict(b)) => Rc::ptr_eq(a, b),
        (IValue::Tuple(a), IValue::Tuple(b)) => Rc::ptr_eq(a, b),
        (IValue::Object(a), IValue::Object(b)) => Rc::ptr_eq(a, b),
        (IValue::Enum(a), IValue::Enum(b)) => (a.class, &a.name) == (b.class, &b.name),
        (IValue::Device(a), IValue::Device(b)) => a == b,
        _ => false,
    }
}

/// The maximal output of a run, in bytes.
const MOST_PRINTED: usize = 256 << 20;

fn print(call: &Call<'_>) -> Answer {
    let words: Vec<String> = call.args.iter().map(|value| to_str(value, call.release())).collect();
    let mut printed = call.env.printed.borrow_mut();
    if printed.len() > MOST_PRINTED {
        return Err(Stop::new(Reason::Budget(format!("the program prints more than {} MiB", MOST_PRINTED >> 20))));
    }
    *printed += &words.join(" ");
    printed.push('\n');
    Ok(Outs::new())
}

fn set_grad_enabled(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::Bool(enabled) => call.env.set_grad_enabled(*enabled),
        other => return Err(Stop::unsupported(format!("gradients enabled by a {}", other.kind_name()))),
    }
    Ok(Outs::new())
}

fn warn(call: &Call<'_>) -> Answer {
    let mut warned = call.env.warned.borrow_mut();
    *warned += &call.args.first().map(|value| to_str(value, call.release())).unwrap_or_default();
    warned.push('\n');
    Ok(Outs::new())
}

fn raise(call: &Call<'_>) -> Answer {
    let message = call.args.first().map(|value| to_str(value, call.release())).unwrap_or_default();
    let class = match call.args.get(1) {
        Some(IValue::Str(class)) => class.to_string(),
        _ => "torch.jit.Error".to_owned(),
    };
    Err(Stop::new(Reason::Raised(Exception { class, message })))
}

fn wait(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::Future(value) => match value.result() {
            Ok(value) => one(value.clone()),
            Err(stop) if stop.exception().is_none() => Err(stop.clone()),
            Err(stop) => Err(stop.clone().waited_for(call.graph, call.node)),
        },
        other => Err(Stop::unsupported(format!("waiting for a {}", other.kind_name()))),
    }
}

fn enum_name(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::Enum(member) => one(member.name.as_str()),
        other => Err(Stop::unsupported(format!("the name of a {}", other.kind_name()))),
    }
}

/// The value of an enum member; the text of a constant does not show it.
fn enum_value(call: &Call<'_>) -> Answer {
    let IValue::Enum(member) = call.arg(0)? else {
        return Err(Stop::unsupported(format!("the value of a {}", call.arg(0)?.kind_name())));
    };
    match &member.value {
        Some(value) => one(value.clone()),
        None => {
            let ty = call.graph.single_output(call.node).map_or(Type::int(), |value| call.graph.ty(value));
            one(literal_values::unbound(call.env, &format!("{}.{}", member.class.as_str(), member.name), ty)?)
        }
    }
}

/// Whether a tensor has the properties of a type.
pub(crate) fn conforms(tensor: &Tensor, ty: &TensorType, with_grad: bool) -> bool {
    let sizes = ty.sizes.as_ref().is_none_or(|sizes| {
        let fits = |(dim, &size): (&Dim, &i64)| !matches!(dim, Dim::Known(known) if *known != size);
        sizes.len() == tensor.rank() && sizes.iter().zip(tensor.shape()).all(fits)
    });
    let strides = match &ty.strides {
        Strides::Known(strides) => {
            let moot = |i: usize| tensor.size(i) == 1;
            strides.len() == tensor.rank()
                && strides.iter().zip(tensor.strides()).enumerate().all(|(i, (a, b))| a == b || moot(i))
        }
        _ => true,
    };
    let device = ty.device.is_none_or(|device| crate::tensor::Device::new(device.as_str()).placed() == tensor.device());
    let grad = !with_grad || ty.requires_grad.is_none_or(|wanted| wanted == tensor.requires_grad());
    ty.dtype.is_none_or(|dtype| dtype == tensor.dtype()) && sizes && strides && device && grad
}

/// Returns its operand, and records the observation if a profile is recorded.
fn profile(call: &Call<'_>) -> Answer {
    if let Some(recording) = call.env.recording.borrow_mut().as_mut() {
        recording.see(call.graph, call.node, call.args);
    }
    Ok(call.args.iter().take(call.graph.num_outputs(call.node)).cloned().collect())
}

/// Returns its operand if it has the type of the output. A guard that fails has no continuation:
/// bailouts serve that purpose.
fn guard(call: &Call<'_>) -> Answer {
    let ty = call.graph.single_output(call.node).map_or(Type::tensor(), |value| call.graph.ty(value));
    let value = call.arg(0)?;
    match holds(value, ty) {
        true => one(value.clone()),
        false => Err(Stop::unsupported("a guard that fails: `insert-bailouts` provides a graph to continue in")),
    }
}

/// Whether a value satisfies a guard.
pub(crate) fn holds(value: &IValue, ty: Type) -> bool {
    match (value, ty.as_tensor()) {
        (IValue::Tensor(tensor), Some(ty)) => ty.undefined != Some(true) && conforms(tensor, ty, true),
        (IValue::Undefined, Some(guarded)) => guarded.undefined == Some(true) || ty == Type::tensor(),
        (_, guarded) => guarded.is_none(),
    }
}
