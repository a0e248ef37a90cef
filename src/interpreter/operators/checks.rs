//! Type checks before fusion groups: whether operands have the properties that a group was compiled
//! for.
//!
//! ```text
//! %1 : Float(2), %2 : bool = prim::TypeCheck[types=[Float(2)]](%x)
//! %3 : bool = prim::TensorExprDynamicGuard[types=[Float(SS(-2))],
//! striding_inputs_desc=[["TENSOR_CONT"]]](%x)
//! ```

use super::structure::conforms;
use crate::interpreter::call::{Answer, Call, Row, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::stop::Stop;
use crate::ir::Attribute;
use crate::symbol::attr;
use crate::tensor::Tensor;
use crate::types::{Dim, Strides, TensorType};

/// The kernel table.
pub(crate) const ROWS: &[Row] = &[
    ("prim::TypeCheck", type_check),
    ("prim::RequiresGradCheck", requires_grad_check),
    ("prim::oneDNNFusionGuard", onednn_guard),
    ("prim::TensorExprDynamicGuard", dynamic_guard),
    ("prim::CudaFusionGuard", cuda_guard),
];

/// The types in the attribute of a check.
fn checked_types<'a>(call: &Call<'a>) -> Result<Vec<Option<&'a TensorType>>, Stop> {
    let Some(Attribute::List(types)) = call.graph.attribute(call.node, attr::TYPES) else {
        return Err(Stop::unsupported(format!("`{}` without types", call.kind())));
    };
    Ok(types.iter().map(|ty| if let Attribute::Type(ty) = ty { ty.as_tensor() } else { None }).collect())
}

/// Whether all operands are tensors for which `fits` holds, with the types to compare with.
fn all_fit(call: &Call<'_>, mut fits: impl FnMut(usize, &Tensor, &TensorType) -> bool) -> Result<bool, Stop> {
    let types = checked_types(call)?;
    Ok(call.args.iter().zip(types).enumerate().all(|(i, (value, ty))| match (value, ty) {
        (IValue::Tensor(tensor), Some(ty)) => fits(i, tensor, ty),
        _ => false,
    }))
}

/// Returns the operands, and whether they have the types observed before.
fn type_check(call: &Call<'_>) -> Answer {
    let fits = all_fit(call, |_, tensor, ty| has_strides(ty) && conforms(tensor, ty, false))?;
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
}

/// The same. Strides of dimensions of size 1 are compared too, and whether gradients are computed.
fn onednn_guard(call: &Call<'_>) -> Answer {
    let fits = all_fit(call, |_, tensor, ty| {
        let strides = match &ty.strides {
            Strides::Known(strides) => strides[..] == *tensor.strides(),
            _ => true,
        };
        has_strides(ty) && strides && same_grad(call, tensor, ty) && conforms(tensor, ty, false)
    })?;
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
}

/// Whether a type with sizes has strides: without, PyTorch (`TensorType::matchTensor`) accepts no
/// tensor.
fn has_strides(ty: &TensorType) -> bool {
    ty.strides != Strides::Unknown || ty.sizes.as_ref().is_none_or(|sizes| sizes.is_empty())
}

/// Whether a tensor requires a gradient exactly if the type states that.
fn same_grad(call: &Call<'_>, tensor: &Tensor, ty: &TensorType) -> bool {
    ty.requires_grad.is_none_or(|wanted| wanted == (tensor.requires_grad() && call.env.grad_enabled()))
}

/// Whether operands have the types that a group was compiled for, where each symbol denotes one
/// size, and whether their layout is the expected one. Checked by running the guards of PyTorch
/// 1.12 to 2.15.
fn dynamic_guard(call: &Call<'_>) -> Answer {
    let layouts = match call.graph.attribute(call.node, attr::STRIDING_INPUTS_DESC) {
        Some(Attribute::List(layouts)) => Some(layouts),
        _ => None,
    };
    let mut sizes: Vec<(i64, i64)> = Vec::new();
    let fits = all_fit(call, |i, tensor, ty| {
        let differentiates = tensor.requires_grad() && call.env.grad_enabled();
        let mut is_consistent = |(dim, &size): (&Dim, &i64)| match dim {
            Dim::Symbolic(symbol) => match sizes.iter().find(|(known, _)| known == symbol) {
                Some(&(_, known)) => known == size,
                None => {
                    sizes.push((*symbol, size));
                    true
                }
            },
            _ => true,
        };
        let lies = match layouts.map(|layouts| layouts.get(i)) {
            None => tensor.is_contiguous(),
            Some(Some(Attribute::List(names))) => lies_as(tensor, &strings(names)),
            Some(_) => false,
        };
        !differentiates
            && lies
            && conforms(tensor, &TensorType { strides: Strides::Unknown, ..ty.clone() }, false)
            && ty.sizes.iter().flatten().zip(tensor.shape()).all(&mut is_consistent)
    })?;
    one(fits)
}

fn strings(names: &[Attribute]) -> Vec<&str> {
    names
        .iter()
        .map(|name| match name {
            Attribute::Str(text) => std::str::from_utf8(text).unwrap_or_default(),
            _ => "",
        })
        .collect()
}

/// Whether the layout of a tensor matches a description of the tensor expression compiler: one word
/// for the whole tensor, or one for each dimension, where the first that holds describes it.
fn lies_as(tensor: &Tensor, layout: &[&str]) -> bool {
    let (shape, strides) = (tensor.shape(), tensor.strides());
    match layout {
        ["TENSOR_CONT"] => return tensor.is_contiguous(),
        ["TENSOR_CONT_CHANNELS_LAST"] => return tensor.rank() == 4 && tensor.permute(&[0, 2, 3, 1]).is_contiguous(),
        _ => {}
    }
    let word = |dim: usize| match strides[dim] {
        1 => "S_ONE",
        stride if dim + 1 < shape.len() && stride == strides[dim + 1] * shape[dim + 1] => "S_CONT",
        // Where the dimension before is described by this one, this one is not described by it.
        stride if dim > 0 && stride == strides[dim - 1] * shape[dim - 1] && layout[dim - 1] != "S_CONT" => {
            "S_TRAN_CONT"
        }
        _ => "S_AS_ARG",
    };
    layout.len() == shape.len() && (0..shape.len()).all(|dim| layout[dim] == word(dim))
}

/// Whether operands have the element types, ranks, devices, dimensions of sizes 0 and 1, and the
/// order and contiguity of dimensions that a group was compiled for; other sizes may differ
/// (`complyWith` of PyTorch 1.13).
fn cuda_guard(call: &Call<'_>) -> Answer {
    let fits = all_fit(call, |_, tensor, ty| {
        let rest = TensorType { sizes: None, strides: Strides::Unknown, ..ty.clone() };
        let sizes = ty.sizes.as_ref().is_some_and(|sizes| {
            let is = |dim: &Dim, n: i64| matches!(dim, Dim::Known(known) if *known == n);
            let fits = |(dim, &size): (&Dim, &i64)| is(dim, 1) == (size == 1) && is(dim, 0) == (size == 0);
            sizes.len() == tensor.rank() && sizes.iter().zip(tensor.shape()).all(fits)
        });
        sizes && keeps_order(tensor, ty) && same_grad(call, tensor, ty) && conforms(tensor, &rest, false)
    })?;
    one(fits)
}

/// Whether the dimensions of a tensor are in the memory order of the strides of a type, the
/// contiguous ones without gaps.
fn keeps_order(tensor: &Tensor, ty: &TensorType) -> bool {
    // An unknown size is contiguous with nothing.
    let size = |dim: &Dim| if let Dim::Known(size) = dim { *size } else { -1 };
    let (Some(sizes), Strides::Known(strides)) = (&ty.sizes, &ty.strides) else { return true };
    let sizes: Vec<i64> = sizes.iter().map(size).collect();
    if sizes.len() != strides.len() {
        return true;
    }
    let (shape, found) = (tensor.shape(), tensor.strides());
    let mut inner: Option<usize> = None;
    for (dim, is_contiguous) in by_stride(&sizes, strides) {
        if let Some(inner) = inner {
            // A stride of 0 is not ordered.
            if found[dim] != 0 && found[inner] != 0 && found[dim] < found[inner] {
                return false;
            }
            let is_moot = shape[dim] == 1 || found[dim] == 1;
            if is_contiguous && !is_moot && found[dim] != found[inner] * shape[inner] {
                return false;
            }
        } else if is_contiguous && found[dim] != 1 {
            return false;
        }
        if inner.is_none() || shape[dim] != 1 {
            inner = Some(dim);
        }
    }
    true
}

/// Dimensions from the smallest stride to the largest, and whether each follows the previous one
/// without a gap (`TensorType::computeStrideProps`).
fn by_stride(sizes: &[i64], strides: &[i64]) -> Vec<(usize, bool)> {
    let rank = sizes.len();
    let mut order: Vec<usize> = (0..rank).rev().collect();
    let is_after = |a: usize, b: usize| {
        let both = strides[a] != 0 && strides[b] != 0;
        both && (strides[a] > strides[b] || strides[a] == strides[b] && sizes[a] > sizes[b])
    };
    let is_before = |a: usize, b: usize| strides[a] != 0 && strides[b] != 0 && strides[a] < strides[b];
    for i in 1..rank {
        let mut at = i;
        for j in (0..i).rev() {
            if is_after(order[j], order[at]) {
                order.swap(j, at);
                at = j;
            } else if is_before(order[j], order[at]) {
                break;
            }
        }
    }
    let overlaps = (0..rank).any(|i| {
        let covers = |j: usize| sizes[j] != 1 && strides[order[i]] < sizes[j] * strides[j];
        sizes[order[i]] != 1 && order[..i].iter().any(|&j| covers(j))
    });
    let follows = |i: usize| {
        let stride = strides[order[i]];
        let before = i.checked_sub(1).map(|k| order[k]);
        stride == 1 || stride != 0 && before.is_some_and(|before| stride == strides[before] * sizes[before])
    };
    (0..rank).map(|i| (order[i], !overlaps && follows(i))).collect()
}

fn requires_grad_check(call: &Call<'_>) -> Answer {
    let wanted = |ty: Option<&TensorType>| ty.and_then(|ty| ty.requires_grad);
    let fits = call.args.iter().zip(checked_types(call)?).all(|(value, ty)| match value {
        IValue::Tensor(tensor) => wanted(ty).is_none_or(|wanted| wanted == tensor.requires_grad()),
        _ => true,
    });
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
}
