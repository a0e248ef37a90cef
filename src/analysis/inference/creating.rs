//! Factories: tensors that are created from numbers.

use super::{Call, Extent, dim_of};
use crate::ir::{Attribute, Value};
use crate::ops::shape_rules::Shape;
use crate::tensor::DType;
use crate::types::release::Release;
use crate::types::{Dim, Simple, Type, TypeKind};

pub(super) fn extent(call: &Call<'_>) -> Option<Extent> {
    match call.row.shape {
        // PyTorch reads constant lists only, even where only the length is needed.
        Shape::Given if !call.known.sees_into_lists() && call.graph.constant(call.operand("size")?).is_none() => None,
        // A gradient sum to no size reduces nothing.
        Shape::Given if call.operand("size").is_some_and(|size| call.is_none(size)) => Some(Extent::of(call.sizes()?)),
        Shape::Given => Some(Extent::of(call.ints(&["size"])?.into_iter().map(dim_of).collect())),
        Shape::Range => Some(Extent::of(vec![dim_of(range(call).or_else(|| float_range(call, false)))])),
        Shape::ClosedRange => Some(Extent::of(vec![dim_of(float_range(call, true))])),
        Shape::Data => data(call),
        _ => {
            let rows = call.int(&["n"]);
            let columns = if call.schema.formal("m").is_some() { call.int(&["m"]) } else { rows };
            Some(Extent::of(vec![dim_of(rows), dim_of(columns)]))
        }
    }
}

/// The number of integers between start and end; of floating point bounds rounding would decide.
fn range(call: &Call<'_>) -> Option<i64> {
    let whole = |name: &str, default: i64| match call.operand(name) {
        Some(value) if call.known.ty(value).is(Simple::Int) => call.int(&[name]),
        Some(_) => None,
        None => Some(default),
    };
    let (start, end, step) = (whole("start", 0)?, whole("end", 0)?, whole("step", 1)?);
    let (span, step) =
        if step > 0 { (end.checked_sub(start)?, step) } else { (start.checked_sub(end)?, step.checked_neg()?) };
    (span >= 0 && step != 0).then(|| span / step + i64::from(span % step != 0))
}

/// The number of steps between floating point bounds, computed in doubles as PyTorch does. A closed
/// range includes its end, and one of integers has integers as bounds; so has an open range of Long
/// until 2.0.
fn float_range(call: &Call<'_>, closed: bool) -> Option<i64> {
    let dtype = call.int(&["dtype"]).and_then(DType::from_code);
    let is_long = dtype == Some(DType::Long) && call.graph.release() < Release(2, 0);
    let truncates = is_long || closed && dtype.is_some_and(|dtype| dtype.is_integral());
    // A type that only a run knows may be one of integers.
    let is_open = dtype.is_none() && call.operand("dtype").is_some_and(|value| !call.is_none(value));
    let number = |name: &str, default: f64| match call.operand(name) {
        Some(value) => {
            call.float(value).map(|x| if truncates { x.trunc() } else { x }).filter(|x| !is_open || x.fract() == 0.0)
        }
        None => Some(default),
    };
    let steps = (number("end", 0.0)? - number("start", 0.0)?) / number("step", 1.0)?;
    let count = if closed { steps.floor() + 1.0 } else { steps.ceil() };
    (0.0..1e15).contains(&count).then_some(count as i64)
}

/// The lengths of nested lists, or the sizes of a tensor.
pub(super) fn data(call: &Call<'_>) -> Option<Extent> {
    let mut value = call.operand("data")?;
    if call.known.ty(value).is_tensor() {
        return Some(Extent::of(call.tensor_of(value)?.sizes.as_deref()?.to_vec()));
    }
    let mut sizes = Vec::new();
    loop {
        if let Some(constant) = call.graph.constant(value) {
            sizes.extend(lengths(constant?)?);
            return Some(Extent::of(sizes));
        }
        if !matches!(call.known.ty(value).kind(), TypeKind::List(_)) {
            return Some(Extent::of(sizes));
        }
        let list = call.graph.definer(value).filter(|_| call.known.is_list_kept(value))?;
        let elements: Vec<Value> = call.graph.inputs(list).collect();
        sizes.push(Dim::Known(elements.len() as i64));
        // An inner list of an empty list has no length; inner lists have equal lengths, or an
        // exception is raised.
        value = match elements.first() {
            Some(first) => *first,
            None => return is_flat(call.known.ty(value)).then(|| Extent::of(sizes)),
        };
    }
}

/// Whether a list has no nested lists.
fn is_flat(list: Type) -> bool {
    matches!(list.kind(), TypeKind::List(inner) if !matches!(inner.kind(), TypeKind::List(_)))
}

fn lengths(constant: &Attribute) -> Option<Vec<Dim>> {
    match constant {
        Attribute::List(all) => {
            let inner = all.first().map_or(Some(Vec::new()), lengths)?;
            Some([&[Dim::Known(all.len() as i64)], &inner[..]].concat())
        }
        Attribute::Int(_) | Attribute::Float(_) | Attribute::Bool(_) | Attribute::Complex(_) => Some(Vec::new()),
        _ => None,
    }
}
