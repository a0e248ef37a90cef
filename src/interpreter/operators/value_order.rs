//! Equality and order of values, as `==`, `<` and `sort` have them.

use crate::interpreter::ivalue::IValue;
use crate::tensor::{C128, Kind, Scalar};

/// Equality of any two values; containers are compared element by element.
pub(crate) fn equal(a: &IValue, b: &IValue) -> bool {
    match (a, b) {
        (IValue::Str(a), IValue::Str(b)) => a == b,
        (IValue::Device(a), IValue::Device(b)) => a.placed() == b.placed(),
        (IValue::None, IValue::None) => true,
        (IValue::Enum(a), IValue::Enum(b)) => (a.class, &a.name) == (b.class, &b.name),
        (IValue::List(a), IValue::List(b)) => {
            let (a, b) = (a.borrow(), b.borrow());
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b))
        }
        (IValue::Tuple(a), IValue::Tuple(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b)),
        (IValue::Tensor(a), IValue::Tensor(b)) => a.shape() == b.shape() && a.read::<C128>() == b.read::<C128>(),
        _ => match (a.scalar(), b.scalar()) {
            (Some(Scalar::Complex(_)), Some(_)) | (Some(_), Some(Scalar::Complex(_))) => {
                a.scalar().map(|s| s.wide::<C128>()) == b.scalar().map(|s| s.wide::<C128>())
            }
            (Some(Scalar::Float(_)), Some(_)) | (Some(_), Some(Scalar::Float(_))) => {
                a.scalar().map(Scalar::real) == b.scalar().map(Scalar::real)
            }
            (Some(a), Some(b)) => a.int() == b.int(),
            _ => false,
        },
    }
}

/// The order of two numbers or strings; `None` if one is NaN.
pub(crate) fn order(a: &IValue, b: &IValue) -> Option<std::cmp::Ordering> {
    match (a, b) {
        (IValue::Str(a), IValue::Str(b)) => Some(a.cmp(b)),
        (IValue::Tuple(a), IValue::Tuple(b)) => {
            let first =
                a.iter().zip(b.iter()).map(|(a, b)| order(a, b)).find(|o| *o != Some(std::cmp::Ordering::Equal));
            first.unwrap_or(Some(a.len().cmp(&b.len())))
        }
        _ => match (a.scalar()?, b.scalar()?) {
            (a, b) if a.kind().max(b.kind()) <= Kind::Int => Some(a.int().cmp(&b.int())),
            (a, b) => a.real().partial_cmp(&b.real()),
        },
    }
}
