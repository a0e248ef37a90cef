//! Lists and dicts, with Python's semantics.

use super::structure::wrapped;
use super::value_order::{equal, order};
use crate::interpreter::call::{Answer, Call, Outs, Row, one};
use crate::interpreter::environment::Release;
use crate::interpreter::ivalue::{Dict, IValue, Key, List};
use crate::interpreter::shown_values::to_str;
use crate::interpreter::stop::Stop;
use std::rc::Rc;

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("aten::len", len),
    ("aten::__getitem__", get_item),
    ("prim::StringIndex", get_item),
    ("aten::_set_item", set_item),
    ("aten::Delete", delete),
    ("aten::slice", slice),
    ("aten::append", append),
    ("aten::extend", extend),
    ("aten::insert", insert),
    ("aten::pop", pop),
    ("aten::popitem", pop_item),
    ("aten::remove", remove),
    ("aten::clear", clear),
    ("aten::reverse", |call| {
        list(call, 0)?.borrow_mut().reverse();
        Ok(Outs::new())
    }),
    ("aten::copy", copy),
    ("aten::list", copy),
    ("aten::list_with_default", list_with_default),
    ("aten::dict", dict_of),
    ("aten::Size", copy),
    ("aten::count", count),
    ("aten::index", index_of),
    ("aten::__contains__", contains),
    ("aten::sort", sort),
    ("aten::sorted", |call| {
        let sorted = list(call, 0)?.borrow().clone();
        one(IValue::list(in_order(sorted, false)))
    }),
    ("aten::add_", extend_in_place),
    ("aten::mul_", repeat_in_place),
    ("aten::any", |call| one(list(call, 0)?.borrow().iter().any(truth))),
    ("aten::all", |call| one(list(call, 0)?.borrow().iter().all(truth))),
    ("aten::sum", sum),
    ("aten::keys", |call| one(IValue::list(dict(call)?.borrow().keys().map(|key| key.0.clone())))),
    ("aten::values", |call| one(IValue::list(dict(call)?.borrow().values().cloned()))),
    ("aten::items", |call| {
        one(IValue::list(dict(call)?.borrow().iter().map(|(key, value)| IValue::tuple([key.0.clone(), value.clone()]))))
    }),
    ("aten::get", get),
    ("aten::setdefault", set_default),
    ("aten::update", update),
    ("prim::rangelist", |call| match call.arg(0)?.scalar() {
        Some(n) if n.int() <= 1 << 24 => one(IValue::list(0..n.int().max(0))),
        _ => Err(Stop::unsupported("a list of this many numbers")),
    }),
    ("aten::broadcast_shapes", infer_size),
    ("aten::_infer_size", infer_size),
    ("aten::device", |call| match (call.arg(0)?, call.args.get(1).and_then(IValue::scalar)) {
        (IValue::Str(name), Some(n)) => one_device(&format!("{name}:{}", n.int())),
        (IValue::Str(name), None) => one_device(name),
        (other, _) => Err(Stop::unsupported(format!("a device from a {}", other.kind_name()))),
    }),
    ("prim::type", |call| match call.arg(0)? {
        IValue::Device(device) => one(device.kind()),
        other => Err(Stop::unsupported(format!("the type of a {}", other.kind_name()))),
    }),
    ("prim::index", |call| match call.arg(0)? {
        IValue::Device(device) => one(device.index()),
        other => Err(Stop::unsupported(format!("the index of a {}", other.kind_name()))),
    }),
];

fn one_device(name: &str) -> Answer {
    Ok(smallvec::smallvec![IValue::Device(crate::tensor::Device::new(name))])
}

fn truth(value: &IValue) -> bool {
    match value {
        IValue::Str(text) => !text.is_empty(),
        other => other.scalar().is_some_and(|scalar| scalar.truth()),
    }
}

fn wrong(call: &Call<'_>, i: usize) -> Stop {
    let found = call.args.get(i).map_or("nothing", IValue::kind_name);
    Stop::unsupported(format!("`{}` of a {found}", call.kind()))
}

fn list(call: &Call<'_>, i: usize) -> Result<List, Stop> {
    match call.arg(i)? {
        IValue::List(list) => Ok(list.clone()),
        _ => Err(wrong(call, i)),
    }
}

fn dict(call: &Call<'_>) -> Result<Dict, Stop> {
    match call.arg(0)? {
        IValue::Dict(dict) => Ok(dict.clone()),
        _ => Err(wrong(call, 0)),
    }
}

fn int(call: &Call<'_>, i: usize) -> Result<i64, Stop> {
    call.arg(i)?.scalar().map(|scalar| scalar.int()).ok_or_else(|| wrong(call, i))
}

fn opt_int(call: &Call<'_>, i: usize) -> Option<i64> {
    call.args.get(i).and_then(IValue::scalar).map(|scalar| scalar.int())
}

fn out_of_range() -> Stop {
    Stop::raised_as("IndexError", "list index out of range")
}

/// A value as a key; unhashable values are refused.
fn key_of(value: &IValue) -> Result<Key, Stop> {
    let is_key = matches!(value, IValue::Tensor(_) | IValue::Str(_) | IValue::Device(_)) || value.scalar().is_some();
    match is_key {
        true => Ok(Key(value.clone())),
        false => Err(Stop::unsupported(format!("a {} as the key of a dict", value.kind_name()))),
    }
}

/// The error of a missing key. The elements of a tensor, which may be many, are not shown.
fn no_key(key: &IValue) -> Stop {
    let shown = match key.tensor() {
        Some(tensor) => format!("a tensor of shape {:?}", tensor.shape()),
        None => to_str(key, Release::NEWEST),
    };
    Stop::raised_as("KeyError", shown)
}

fn len(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => one(list.borrow().len()),
        IValue::Dict(dict) => one(dict.borrow().len()),
        IValue::Tuple(values) => one(values.len()),
        // PyTorch counts bytes.
        IValue::Str(text) => one(text.len()),
        _ => Err(wrong(call, 0)),
    }
}

fn get_item(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::Dict(dict) => {
            let key = call.arg(1)?;
            dict.borrow().get(&key_of(key)?).map_or_else(|| Err(no_key(key)), |value| one(value.clone()))
        }
        IValue::Str(text) => super::strings::character(text, int(call, 1)?),
        IValue::List(list) => {
            let list = list.borrow();
            let found = wrapped(int(call, 1)?, list.len()).map(|i| list[i].clone());
            found.map_or_else(|| Err(out_of_range()), one)
        }
        _ => Err(wrong(call, 0)),
    }
}

fn set_item(call: &Call<'_>) -> Answer {
    let (at, value) = (call.arg(1)?.clone(), call.arg(2)?.clone());
    match call.arg(0)? {
        IValue::Dict(dict) => {
            dict.borrow_mut().insert(key_of(&at)?, value);
            Ok(Outs::new())
        }
        IValue::List(list) => {
            let i = wrapped(int(call, 1)?, list.borrow().len()).ok_or_else(out_of_range)?;
            list.borrow_mut()[i] = value;
            maybe_self(call)
        }
        _ => Err(wrong(call, 0)),
    }
}

/// Some overloads return the container that they wrote to.
fn maybe_self(call: &Call<'_>) -> Answer {
    match call.graph.num_outputs(call.node) {
        0 => Ok(Outs::new()),
        _ => one(call.arg(0)?.clone()),
    }
}

fn delete(call: &Call<'_>) -> Answer {
    let key = call.arg(1)?;
    match call.arg(0)? {
        IValue::Dict(dict) => match dict.borrow_mut().shift_remove(&key_of(key)?) {
            Some(_) => Ok(Outs::new()),
            None => Err(no_key(key)),
        },
        IValue::List(list) => {
            let i = wrapped(int(call, 1)?, list.borrow().len()).ok_or_else(out_of_range)?;
            list.borrow_mut().remove(i);
            Ok(Outs::new())
        }
        _ => Err(wrong(call, 0)),
    }
}

/// The indices of `[start:end:step]`, as in Python: a negative step runs backwards.
pub(crate) fn picked(len: usize, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Vec<usize>, Stop> {
    if step == 0 {
        return Err(Stop::raised("List slice should have non-zero step"));
    }
    let (n, back) = (len as i64, step < 0);
    let (least, most) = if back { (-1, n - 1) } else { (0, n) };
    let bound = |at: i64| if at < 0 { at.saturating_add(n) } else { at }.clamp(least, most);
    let from = start.map_or(if back { most } else { least }, bound);
    let to = end.map_or(if back { least } else { most }, bound);
    let far = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match back {
        true => (to + 1..from + 1).rev().step_by(far).map(|i| i as usize).collect(),
        false => (from..to).step_by(far).map(|i| i as usize).collect(),
    })
}

fn slice(call: &Call<'_>) -> Answer {
    let step = opt_int(call, 3).unwrap_or(1);
    let pick = |len| picked(len, opt_int(call, 1), opt_int(call, 2), step);
    match call.arg(0)? {
        IValue::List(list) => {
            let list = list.borrow();
            one(IValue::list(pick(list.len())?.into_iter().map(|i| list[i].clone())))
        }
        IValue::Str(text) => {
            let bytes = text.as_bytes();
            let picked: Vec<u8> = pick(bytes.len())?.into_iter().map(|i| bytes[i]).collect();
            one(String::from_utf8_lossy(&picked).into_owned())
        }
        _ => Err(wrong(call, 0)),
    }
}

fn append(call: &Call<'_>) -> Answer {
    list(call, 0)?.borrow_mut().push(call.arg(1)?.clone());
    maybe_self(call)
}

fn extend(call: &Call<'_>) -> Answer {
    let more = list(call, 1)?.borrow().clone();
    list(call, 0)?.borrow_mut().extend(more);
    maybe_self(call)
}

fn extend_in_place(call: &Call<'_>) -> Answer {
    let more = list(call, 1)?.borrow().clone();
    list(call, 0)?.borrow_mut().extend(more);
    one(call.arg(0)?.clone())
}

fn insert(call: &Call<'_>) -> Answer {
    let (list, at) = (list(call, 0)?, int(call, 1)?);
    let n = list.borrow().len() as i64;
    let at = if at < 0 { at.saturating_add(n) } else { at }.clamp(0, n);
    list.borrow_mut().insert(at as usize, call.arg(2)?.clone());
    Ok(Outs::new())
}

fn pop(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => {
            let n = list.borrow().len();
            if n == 0 {
                return Err(Stop::raised_as("IndexError", "pop from empty list"));
            }
            let i = wrapped(opt_int(call, 1).unwrap_or(-1), n).ok_or_else(out_of_range)?;
            one(list.borrow_mut().remove(i))
        }
        IValue::Dict(dict) => {
            let key = call.arg(1)?;
            let found = dict.borrow_mut().shift_remove(&key_of(key)?).or_else(|| call.args.get(2).cloned());
            found.map_or_else(|| Err(no_key(key)), one)
        }
        _ => Err(wrong(call, 0)),
    }
}

fn pop_item(call: &Call<'_>) -> Answer {
    match dict(call)?.borrow_mut().pop() {
        Some((key, value)) => one(IValue::tuple([key.0, value])),
        None => Err(Stop::raised_as("KeyError", "popitem(): dictionary is empty")),
    }
}

fn remove(call: &Call<'_>) -> Answer {
    let list = list(call, 0)?;
    let wanted = call.arg(1)?;
    let found = list.borrow().iter().position(|value| equal(value, wanted));
    match found {
        Some(i) => {
            list.borrow_mut().remove(i);
            Ok(Outs::new())
        }
        None => Err(Stop::raised("list.remove(x): x not in list")),
    }
}

fn clear(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => list.borrow_mut().clear(),
        IValue::Dict(dict) => dict.borrow_mut().clear(),
        _ => return Err(wrong(call, 0)),
    }
    Ok(Outs::new())
}

fn copy(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => one(IValue::list(list.borrow().clone())),
        IValue::Dict(dict) => one(copied(dict)),
        IValue::Str(text) => one(IValue::list(text.chars().map(|c| c.to_string()))),
        _ => Err(wrong(call, 0)),
    }
}

fn copied(dict: &Dict) -> IValue {
    IValue::Dict(Rc::new(std::cell::RefCell::new(dict.borrow().clone())))
}

fn dict_of(call: &Call<'_>) -> Answer {
    match call.args.first() {
        None => one(IValue::dict([])),
        Some(IValue::Dict(dict)) => one(copied(dict)),
        Some(IValue::List(items)) => {
            let pair = |item: &IValue| match item {
                IValue::Tuple(pair) if pair.len() == 2 => Ok((pair[0].clone(), pair[1].clone())),
                _ => Err(wrong(call, 0)),
            };
            one(IValue::dict(items.borrow().iter().map(pair).collect::<Result<Vec<_>, _>>()?))
        }
        Some(_) => Err(wrong(call, 0)),
    }
}

/// PyTorch 1.3 fills nothing in, because numbers in such a list cannot be `None`.
fn list_with_default(call: &Call<'_>) -> Answer {
    if list(call, 1)?.borrow().len() <= list(call, 0)?.borrow().len() {
        return Err(Stop::raised("list_with_default: expected more defaults than numbers"));
    }
    copy(call)
}

fn count(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => {
            let wanted = call.arg(1)?;
            one(list.borrow().iter().filter(|value| equal(value, wanted)).count())
        }
        _ => super::strings::count(call),
    }
}

fn index_of(call: &Call<'_>) -> Answer {
    match call.arg(0)? {
        IValue::List(list) => {
            let wanted = call.arg(1)?;
            let found = list.borrow().iter().position(|value| equal(value, wanted));
            found.map_or_else(
                || {
                    let wanted = to_str(wanted, call.release());
                    Err(Stop::raised_as("ValueError", format!("'{wanted}' is not in list")))
                },
                one,
            )
        }
        _ => super::strings::index(call),
    }
}

fn contains(call: &Call<'_>) -> Answer {
    let wanted = call.arg(1)?;
    match call.arg(0)? {
        IValue::List(list) => one(list.borrow().iter().any(|value| equal(value, wanted))),
        IValue::Dict(dict) => one(dict.borrow().contains_key(&key_of(wanted)?)),
        IValue::Str(text) => match wanted {
            IValue::Str(part) => one(text.contains(&**part)),
            _ => Err(wrong(call, 1)),
        },
        _ => Err(wrong(call, 0)),
    }
}

fn in_order(mut values: Vec<IValue>, reverse: bool) -> Vec<IValue> {
    let single = |value: &IValue| value.tensor().filter(|tensor| tensor.numel() == 1).map(|tensor| tensor.item());
    let key = |value: &IValue| single(value).map_or_else(|| value.clone(), IValue::from);
    // Incomparable elements are NaN or not numbers: they are placed last, so that the order is
    // total.
    let real = |value: &IValue| value.scalar().map_or(f64::NAN, |number| number.real());
    values.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        let compared = order(&a, &b).unwrap_or_else(|| real(&a).is_nan().cmp(&real(&b).is_nan()));
        if reverse { compared.reverse() } else { compared }
    });
    values
}

fn sort(call: &Call<'_>) -> Answer {
    let list = list(call, 0)?;
    let reverse = call.args.get(1).is_some_and(truth);
    let sorted = in_order(list.borrow().clone(), reverse);
    *list.borrow_mut() = sorted;
    Ok(Outs::new())
}

fn sum(call: &Call<'_>) -> Answer {
    let list = list(call, 0)?;
    let list = list.borrow();
    if list.iter().any(|value| matches!(value, IValue::Float(_))) {
        return one(list.iter().filter_map(IValue::scalar).map(|scalar| scalar.real()).sum::<f64>());
    }
    one(list.iter().filter_map(IValue::scalar).fold(0i64, |total, scalar| total.wrapping_add(scalar.int())))
}

fn get(call: &Call<'_>) -> Answer {
    let found = dict(call)?.borrow().get(&key_of(call.arg(1)?)?).cloned();
    one(found.or_else(|| call.args.get(2).cloned()).unwrap_or(IValue::None))
}

fn set_default(call: &Call<'_>) -> Answer {
    let (key, default) = (key_of(call.arg(1)?)?, call.arg(2)?.clone());
    one(dict(call)?.borrow_mut().entry(key).or_insert(default).clone())
}

fn update(call: &Call<'_>) -> Answer {
    let IValue::Dict(more) = call.arg(1)? else { return Err(wrong(call, 1)) };
    let more = more.borrow().clone();
    dict(call)?.borrow_mut().extend(more);
    Ok(Outs::new())
}

/// Concatenation of lists or strings.
pub(crate) fn add(call: &Call<'_>) -> Answer {
    match (call.arg(0)?, call.arg(1)?) {
        (IValue::List(a), IValue::List(b)) => {
            let joined: Vec<IValue> = a.borrow().iter().chain(b.borrow().iter()).cloned().collect();
            one(IValue::list(joined))
        }
        (IValue::Str(a), IValue::Str(b)) => one(format!("{a}{b}")),
        _ => Err(wrong(call, 1)),
    }
}

/// The maximal number of elements of a repeated list.
const MOST: usize = 1 << 24;

fn times(list: &List, n: i64) -> Result<Vec<IValue>, Stop> {
    let list = list.borrow();
    let n = if list.is_empty() { 0 } else { n.max(0) as usize };
    if list.len().saturating_mul(n) > MOST {
        return Err(Stop::unsupported("a list of this many elements"));
    }
    Ok(std::iter::repeat_n(&*list, n).flatten().cloned().collect())
}

/// Repetition of lists or strings.
pub(crate) fn repeat(call: &Call<'_>) -> Answer {
    match (call.arg(0)?, call.arg(1)?) {
        (IValue::List(list), other) | (other, IValue::List(list)) => {
            let n = other.scalar().ok_or_else(|| wrong(call, 1))?.int();
            one(IValue::list(times(list, n)?))
        }
        (IValue::Str(text), n) => {
            let n = n.scalar().ok_or_else(|| wrong(call, 1))?.int().clamp(0, 1 << 20) as usize;
            one(text.repeat(n))
        }
        _ => Err(wrong(call, 0)),
    }
}

fn repeat_in_place(call: &Call<'_>) -> Answer {
    let target = list(call, 0)?;
    let repeated = times(&target, int(call, 1)?)?;
    *target.borrow_mut() = repeated;
    one(call.arg(0)?.clone())
}

/// The lesser or greater of two lists, in lexicographic order.
pub(crate) fn extreme_list(a: &IValue, b: &IValue, wins: fn(std::cmp::Ordering) -> bool) -> Answer {
    let (IValue::List(x), IValue::List(y)) = (a, b) else {
        return Err(Stop::unsupported("the minimum or maximum of these values"));
    };
    let (x, y) = (x.borrow(), y.borrow());
    let first = x.iter().zip(y.iter()).filter_map(|(x, y)| order(x, y)).find(|order| order.is_ne());
    let compared = first.unwrap_or(x.len().cmp(&y.len()));
    one(if wins(compared.reverse()) { b.clone() } else { a.clone() })
}

fn infer_size(call: &Call<'_>) -> Answer {
    let shape = |i| -> Result<Vec<i64>, Stop> {
        Ok(list(call, i)?.borrow().iter().filter_map(IValue::scalar).map(|scalar| scalar.int()).collect())
    };
    one(IValue::list(crate::tensor::layout::broadcast(&shape(0)?, &shape(1)?)?))
}
