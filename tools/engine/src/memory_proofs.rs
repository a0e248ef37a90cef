//! Whether views of memory by numbers stay inside it.
//!
//! ```text
//! %w : Tensor = prim::GetAttr[name="w"](%self)           12 are stored, the first is number 0
//! %v : Tensor = aten::as_strided(%w, [3, 4], [4, 1], 0)  0 + 2 * 4 + 3 * 1 = 11: proved
//! ```

use jitopt_core::ir::{Attribute, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Dim, Strides, TensorType};
use std::collections::HashMap;

/// The size of a storage in elements of its tensor's type, and the offset of the tensor's first
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) elements: u64,
    pub(crate) offset: Option<u64>,
}

/// The known facts about a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// It stays inside: the last element that it reaches, and the elements that there are.
    Within {
        /// The last element, counted from 0.
        last: u64,
        /// Elements of the storage.
        of: u64,
    },
    /// It leaves the storage.
    Leaves {
        /// The element that is not there; none for numbers that are negative or overflow.
        index: Option<u64>,
        /// Elements of the storage, if they are known.
        of: Option<u64>,
    },
    /// The storage, or the numbers, are known only when it runs.
    Open {
        /// The last element that it reaches, if the numbers are constants.
        last: Option<u64>,
    },
}

/// An operator that views memory by numbers: which operands say where.
struct Row {
    kind: &'static str,
    sizes: usize,
    strides: usize,
    offset: usize,
    /// Whether the offset is counted from that of the tensor.
    is_relative: bool,
}

const ROWS: [Row; 5] = [
    Row { kind: "aten::as_strided", sizes: 1, strides: 2, offset: 3, is_relative: false },
    Row { kind: "aten::as_strided_", sizes: 1, strides: 2, offset: 3, is_relative: false },
    Row { kind: "aten::as_strided_copy", sizes: 1, strides: 2, offset: 3, is_relative: false },
    Row { kind: "aten::as_strided_scatter", sizes: 2, strides: 3, offset: 4, is_relative: false },
    Row { kind: "inductor::_reinterpret_tensor", sizes: 1, strides: 2, offset: 3, is_relative: true },
];

/// The bounds of a node that views memory by numbers; nothing for others. `stored` are extents of
/// tensors that an archive stores.
pub(crate) fn bounds(graph: &Graph, node: Node, stored: &HashMap<Value, Extent>) -> Option<Bounds> {
    let kind = graph.kind(node);
    let row = ROWS.iter().find(|row| kind.as_str() == row.kind)?;
    let extent = extent(graph, graph.inputs(node).next()?, stored);
    let operand = |at: usize| graph.inputs(node).nth(at);
    let numbers = |at: usize| operand(at).and_then(|value| constant_list(graph, value));
    let (Some(sizes), Some(strides)) = (numbers(row.sizes), numbers(row.strides)) else {
        return Some(Bounds::Open { last: None });
    };
    let given = operand(row.offset).map_or(Some(None), |value| constant_offset(graph, value));
    let Some(given) = given else { return Some(Bounds::Open { last: None }) };
    let own = extent.and_then(|extent| extent.offset);
    let offset = match (given, row.is_relative) {
        (Some(given), false) => Some(i128::from(given)),
        (given, _) => own.map(|own| i128::from(own) + i128::from(given.unwrap_or(0))),
    };
    let Some(reach) = reach(&sizes, &strides) else {
        return Some(Bounds::Leaves { index: None, of: extent.map(|extent| extent.elements) });
    };
    Some(judged(reach, offset, extent))
}

/// The end of a view, counted from its first element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Nothing,
    To(u64),
}

/// Nothing if a number is negative, or too large for 64 bits.
fn reach(sizes: &[i64], strides: &[i64]) -> Option<Reach> {
    if sizes.len() != strides.len() || sizes.iter().chain(strides).any(|number| *number < 0) {
        return None;
    }
    if sizes.contains(&0) {
        return Some(Reach::Nothing);
    }
    let step = |last: u64, (size, stride): (&i64, &i64)| {
        (size.unsigned_abs() - 1).checked_mul(stride.unsigned_abs())?.checked_add(last)
    };
    sizes.iter().zip(strides).try_fold(0u64, step).map(Reach::To)
}

fn judged(reach: Reach, offset: Option<i128>, extent: Option<Extent>) -> Bounds {
    let of = extent.map(|extent| extent.elements);
    let last = match (reach, offset) {
        (_, Some(offset)) if offset < 0 => return Bounds::Leaves { index: None, of },
        (Reach::Nothing, _) => return Bounds::Within { last: 0, of: of.unwrap_or(0) },
        (Reach::To(_), None) => return Bounds::Open { last: None },
        (Reach::To(last), Some(offset)) => match u64::try_from(i128::from(last) + offset) {
            Ok(last) => last,
            Err(_) => return Bounds::Leaves { index: None, of },
        },
    };
    match of {
        Some(of) if last < of => Bounds::Within { last, of },
        Some(_) => Bounds::Leaves { index: Some(last), of },
        None => Bounds::Open { last: Some(last) },
    }
}

/// Operators whose result is always a view of their first operand, and whether it begins with the
/// same element.
const VIEWS: [(&str, bool); 14] = [
    ("aten::view", true),
    ("aten::detach", true),
    ("aten::alias", true),
    ("aten::t", true),
    ("aten::transpose", true),
    ("aten::permute", true),
    ("aten::unsqueeze", true),
    ("aten::squeeze", true),
    ("aten::expand", true),
    ("aten::select", false),
    ("aten::slice", false),
    ("aten::narrow", false),
    ("aten::diagonal", false),
    ("aten::as_strided", false),
];

/// The storage of a value: stored, that of what it is a view of, or fresh and as large as its type
/// says.
fn extent(graph: &Graph, mut value: Value, stored: &HashMap<Value, Extent>) -> Option<Extent> {
    let mut begins_alike = true;
    loop {
        let whole = match (stored.get(&value), graph.definer(value)) {
            (Some(extent), _) => Some(*extent),
            (None, Some(node)) if !is_fresh(graph, node) => None,
            _ => Some(Extent { elements: elements(graph.ty(value).as_tensor()?)?, offset: Some(0) }),
        };
        if let Some(whole) = whole {
            return Some(Extent { offset: whole.offset.filter(|_| begins_alike), ..whole });
        }
        let node = graph.definer(value)?;
        let (_, alike) = VIEWS.iter().find(|(kind, _)| *kind == graph.kind(node).as_str())?;
        begins_alike &= alike;
        value = graph.inputs(node).next()?;
    }
}

/// Whether the results of a node are new memory.
fn is_fresh(graph: &Graph, node: Node) -> bool {
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::resolve(graph.era, graph.kind(node), &types).schema();
    schema.is_some_and(|schema| !schema.returns.iter().any(|result| result.is_annotated()))
}

/// Elements that a tensor of this type occupies.
fn elements(ty: &TensorType) -> Option<u64> {
    let known = |dim: &Dim| if let Dim::Known(size) = dim { u64::try_from(*size).ok() } else { None };
    let sizes: Vec<u64> = ty.sizes.as_deref()?.iter().map(known).collect::<Option<_>>()?;
    if sizes.contains(&0) {
        return Some(0);
    }
    match &ty.strides {
        Strides::Known(strides) => {
            let step = |last: u64, (size, stride): (&u64, &i64)| {
                (size - 1).checked_mul(u64::try_from(*stride).ok()?)?.checked_add(last)
            };
            sizes.iter().zip(strides).try_fold(0, step).and_then(|last| last.checked_add(1))
        }
        _ => sizes.iter().try_fold(1u64, |all, size| all.checked_mul(*size)),
    }
}

/// `[3, 4]` as a constant, or made of constants.
fn constant_list(graph: &Graph, value: Value) -> Option<Vec<i64>> {
    let node = graph.definer(value)?;
    match graph.kind(node) {
        prim::CONSTANT => match graph.attribute(node, attr::VALUE)? {
            Attribute::List(items) => items.iter().map(int).collect(),
            Attribute::EmptyList(_) => Some(Vec::new()),
            _ => None,
        },
        prim::LIST_CONSTRUCT => graph.inputs(node).map(|item| constant_int(graph, item)).collect(),
        _ => None,
    }
}

fn int(attribute: &Attribute) -> Option<i64> {
    if let Attribute::Int(number) = attribute { Some(*number) } else { None }
}

fn constant_int(graph: &Graph, value: Value) -> Option<i64> {
    let node = graph.definer(value).filter(|node| graph.kind(*node) == prim::CONSTANT)?;
    int(graph.attribute(node, attr::VALUE)?)
}

/// A constant offset, or the constant None.
fn constant_offset(graph: &Graph, value: Value) -> Option<Option<i64>> {
    let node = graph.definer(value).filter(|node| graph.kind(*node) == prim::CONSTANT)?;
    match graph.attribute(node, attr::VALUE) {
        None => Some(None),
        Some(attribute) => int(attribute).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(elements: u64, offset: u64) -> Option<Extent> {
        Some(Extent { elements, offset: Some(offset) })
    }

    #[test]
    fn views_end_where_their_numbers_say() {
        assert_eq!(reach(&[3, 4], &[4, 1]), Some(Reach::To(11)));
        assert_eq!(reach(&[], &[]), Some(Reach::To(0)));
        assert_eq!(reach(&[3, 0], &[i64::MAX, i64::MAX]), Some(Reach::Nothing));
        assert_eq!(reach(&[3], &[i64::MAX]), Some(Reach::To(2 * i64::MAX as u64)));
        assert_eq!(reach(&[4], &[i64::MAX]), None);
        assert_eq!(reach(&[2], &[-1]), None);
    }

    #[test]
    fn the_first_element_outside_is_named() {
        assert_eq!(judged(Reach::To(11), Some(0), of(12, 0)), Bounds::Within { last: 11, of: 12 });
        assert_eq!(judged(Reach::To(11), Some(1), of(12, 0)), Bounds::Leaves { index: Some(12), of: Some(12) });
        assert_eq!(judged(Reach::To(11), Some(-1), of(12, 0)), Bounds::Leaves { index: None, of: Some(12) });
        assert_eq!(judged(Reach::To(11), Some(0), None), Bounds::Open { last: Some(11) });
    }
}
