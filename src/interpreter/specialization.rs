//! Types of params from the arguments of one call: the key of the plans of PyTorch's executors.
//!
//! For a tensor the key has the element type, the rank, the device, `requires_grad`, and whether it
//! is defined at all. A plan for these runs for every size. With [`Detail::Sizes`] the key includes
//! sizes and strides, and the plan is for these only.

use super::description::{Described, TensorNote};
use crate::symbol::Symbol;
use crate::tensor::layout;
use crate::types::{Dim, Strides, TensorType, Type, TypeKind};

/// The detail of tensor types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Its rank.
    Rank,
    /// Its sizes and strides.
    Sizes,
}

/// The type of a param for this argument, or a message if the two do not match.
pub fn specialized(ty: Type, argument: &Described, detail: Detail) -> Result<Type, String> {
    let fits = |found: Type| match ty.join(found) {
        // Declared properties of a tensor are kept in addition to observed ones.
        Some(joined) if joined == ty || ty.is_tensor() && is_consistent(ty, found) => Ok(met(ty, found)),
        _ => Err(format!("`{found}` does not match `{ty}`")),
    };
    match (ty.kind(), argument) {
        (TypeKind::Tensor(_), Described::Tensor(note)) => fits(tensor(note, detail)),
        (TypeKind::Tensor(known), Described::Undefined) => {
            Ok(Type::new(TypeKind::Tensor(TensorType { undefined: Some(true), ..known.clone() })))
        }
        (TypeKind::Tensor(_), Described::None) => Err(format!("None does not match `{ty}`")),
        (TypeKind::Optional(_), Described::None) => Ok(Type::none()),
        (TypeKind::Optional(inner), argument) => specialized(*inner, argument, detail),
        (TypeKind::Tuple(parts), Described::Tuple(arguments)) if parts.len() == arguments.len() => {
            let parts = parts.iter().zip(arguments).map(|(part, argument)| specialized(*part, argument, detail));
            Ok(Type::tuple(&parts.collect::<Result<Vec<Type>, String>>()?))
        }
        _ => Ok(ty),
    }
}

fn tensor(note: &TensorNote, detail: Detail) -> Type {
    let contiguous = || layout::contiguous(&note.shape);
    let (sizes, strides) = match detail {
        Detail::Rank => (note.shape.iter().map(|_| Dim::Unknown).collect(), Strides::Unknown),
        Detail::Sizes => {
            let strides = note.strides.clone().unwrap_or_else(contiguous);
            let known = Strides::Known(strides.to_vec().into());
            let sizes = note.shape.iter().copied().map(Dim::Known).collect();
            (sizes, if strides.is_empty() { Strides::Unknown } else { known })
        }
    };
    Type::new(TypeKind::Tensor(TensorType {
        dtype: Some(note.dtype),
        sizes: Some(sizes),
        strides,
        requires_grad: Some(note.requires_grad == Some(true)),
        device: Some(Symbol::new(note.device.as_deref().unwrap_or("cpu"))),
        undefined: None,
        profiled: false,
    }))
}

/// Whether a tensor can be of both types.
fn is_consistent(a: Type, b: Type) -> bool {
    let (Some(a), Some(b)) = (a.as_tensor(), b.as_tensor()) else { return false };
    let size = |(a, b): (&Dim, &Dim)| !matches!((a, b), (Dim::Known(a), Dim::Known(b)) if a != b);
    let sizes = match (&a.sizes, &b.sizes) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(size),
        _ => true,
    };
    sizes && (a.dtype.is_none() || b.dtype.is_none() || a.dtype == b.dtype)
}

/// The known properties of a tensor of both types; the second one is the observed one.
fn met(a: Type, b: Type) -> Type {
    let (Some(written), Some(seen)) = (a.as_tensor(), b.as_tensor()) else { return b };
    let size = |(a, b): (&Dim, &Dim)| if *b == Dim::Unknown { *a } else { *b };
    let sizes = match (&written.sizes, &seen.sizes) {
        (Some(a), Some(b)) => Some(a.iter().zip(b).map(size).collect()),
        (a, b) => b.clone().or_else(|| a.clone()),
    };
    let strides = if seen.strides == Strides::Unknown { written.strides.clone() } else { seen.strides.clone() };
    Type::new(TypeKind::Tensor(TensorType {
        dtype: seen.dtype.or(written.dtype),
        sizes,
        strides,
        requires_grad: seen.requires_grad.or(written.requires_grad),
        device: seen.device.or(written.device),
        undefined: None,
        profiled: false,
    }))
}

/// A tensor type with these sizes, for a param of this type; the element type is that of the text.
pub fn shaped(ty: Type, sizes: &[i64]) -> Result<Type, String> {
    let inner = if let TypeKind::Optional(inner) = ty.kind() { *inner } else { ty };
    if !inner.is_tensor() {
        return Err(format!("its type is `{ty}`, not a tensor"));
    }
    let found = TensorType { sizes: Some(sizes.iter().copied().map(Dim::Known).collect()), ..TensorType::default() };
    let found = Type::new(TypeKind::Tensor(found));
    if is_consistent(inner, found) { Ok(met(inner, found)) } else { Err(format!("these sizes do not match `{inner}`")) }
}
