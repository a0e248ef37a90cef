//! Type checks before fusion groups: whether operands have the properties that a group was compiled
//! for.
//!
//! ```text
//! %1 : Float(2), %2 : bool = prim::TypeCheck[types=[Float(2)]](%x)
//! %3 : bool = prim::TensorExprDynamicGuard[types=[Float(SS(-2))],
//! striding_inputs_desc=[["TENSOR_CONT"]]](%x)
//! ```

use super::structure::conforms;
use crate::interpreter::call::{Answer, Call, one, several};
use crate::interpreter::ivalue::IValue;
use crate::interpreter::library::Row;
use crate::interpreter::stop::Stop;
use crate::ir::Attribute;
use crate::symbol::attr;
use crate::tensor::Tensor;
use crate::types::{Dim, Strides, TensorType};

/// The kernel table.
pub const ROWS: &[Row] = &[
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
    let fits = all_fit(call, |_, tensor, ty| conforms(tensor, ty, false))?;
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
}

/// The same for tensors that do not require gradients.
fn onednn_guard(call: &Call<'_>) -> Answer {
    let fits = all_fit(call, |_, tensor, ty| !tensor.requires_grad() && conforms(tensor, ty, false))?;
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
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
        stride if dim > 0 && stride == strides[dim - 1] * shape[dim - 1] => "S_TRAN_CONT",
        _ => "S_AS_ARG",
    };
    layout.len() == shape.len() && (0..shape.len()).all(|dim| layout[dim] == word(dim))
}

/// Whether operands have the element types, ranks, dimensions of size 1, devices and orders of
/// dimensions that a group was compiled for; other sizes may differ.
fn cuda_guard(call: &Call<'_>) -> Answer {
    let fits = all_fit(call, |_, tensor, ty| {
        let sizes = ty.sizes.as_ref().is_none_or(|sizes| {
            let is_one = |dim: &Dim| matches!(dim, Dim::Known(1));
            sizes.len() == tensor.rank()
                && sizes.iter().zip(tensor.shape()).all(|(dim, &size)| !is_one(dim) || size == 1)
        });
        let order = match &ty.strides {
            Strides::Known(strides) => strides.len() == tensor.rank() && has_order(tensor, strides),
            _ => true,
        };
        let grad = ty.requires_grad.is_none_or(|wanted| wanted == (tensor.requires_grad() && call.env.grad_enabled()));
        let rest = TensorType { sizes: None, strides: Strides::Unknown, ..ty.clone() };
        sizes && order && grad && conforms(tensor, &rest, false)
    })?;
    one(fits)
}

/// Whether the dimensions of a tensor are in the memory order of these strides, the contiguous ones
/// without gaps.
fn has_order(tensor: &Tensor, strides: &[i64]) -> bool {
    let dims = || (0..strides.len()).filter(|&dim| tensor.size(dim) != 1);
    let ordered =
        dims().all(|a| dims().all(|b| strides[a] >= strides[b] || tensor.strides()[a] <= tensor.strides()[b]));
    ordered && dims().all(|dim| (strides[dim] == 0) == (tensor.strides()[dim] == 0))
}

fn requires_grad_check(call: &Call<'_>) -> Answer {
    let wanted = |ty: Option<&TensorType>| ty.and_then(|ty| ty.requires_grad);
    let fits = call.args.iter().zip(checked_types(call)?).all(|(value, ty)| match value {
        IValue::Tensor(tensor) => wanted(ty).is_none_or(|wanted| wanted == tensor.requires_grad()),
        _ => true,
    });
    several(call.args.iter().cloned().chain([IValue::Bool(fits)]))
}
