//! Casts gradients to the type of the value that they belong to, as in eager mode.
//!
//! An operator on operands of different element types computes in a common type, and so does its
//! formula: the gradient is rounded to the type of the operand before anything is added to it or
//! computed from it. A tensor of shape `[0]` may be concatenated with tensors of any rank, whose
//! gradient is then split into parts of that rank. Nodes for this are written only where types
//! prove that they do something, or cannot decide it in a graph of several types: PyTorch's
//! formulas have none.

use super::formula_writer::{Thing, Unfit, Writer};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops::gradient_table::notation::Literal;
use jitopt_core::tensor::dtype::DType;
use jitopt_core::types::{Dim, Type};

/// The adjustments of the gradient of an operand.
#[derive(Clone, Copy, Default)]
pub(super) struct Fitting {
    dtype: Option<DType>,
    /// Whether it is reshaped to `[0]`.
    is_of_nothing: bool,
}

/// Whether a graph is known to compute in several floating point types, so that gradients must be
/// distinguished.
pub(super) fn are_mixed(forward: &Graph) -> bool {
    let params = forward.params(forward.root());
    let made = forward.nodes(forward.root()).flat_map(|node| forward.outputs(node));
    let mut known = params.chain(made).filter_map(|value| real(forward.ty(value)));
    let first = known.next();
    known.any(|dtype| Some(dtype) != first)
}

impl Fitting {
    /// For an operand, whose gradient has the type of the node's result.
    pub(super) fn of_operand(forward: &Graph, node: Node, operand: Value) -> Fitting {
        let own = real(forward.ty(operand));
        let is_other = |dtype| forward.outputs(node).any(|output| may_be_other(forward.ty(output), dtype));
        Fitting { dtype: own.filter(|&dtype| is_other(dtype)), is_of_nothing: false }
    }

    /// For an element of a list, whose gradient has the common type of all elements, in a graph of
    /// mixed types.
    pub(super) fn of_element(forward: &Graph, list: Node, element: Value, is_mixed: bool) -> Fitting {
        let own = real(forward.ty(element)).filter(|_| is_mixed);
        let is_other = |dtype| forward.inputs(list).any(|other| may_be_other(forward.ty(other), dtype));
        let sizes = forward.ty(element).as_tensor().and_then(|tensor| tensor.sizes.clone());
        Fitting {
            dtype: own.filter(|&dtype| is_other(dtype)),
            is_of_nothing: sizes.as_deref() == Some(&[Dim::Known(0)]),
        }
    }

    /// Writes the adjusted gradient.
    pub(super) fn write(self, writer: &mut Writer<'_>, gradient: Value) -> Result<Value, Unfit> {
        let mut thing = Thing::Here(gradient);
        if self.is_of_nothing {
            let shape = writer.list_of(&[Thing::Constant(Literal::Int(0, true))]);
            thing = writer.operator("aten::reshape", &[thing, shape])?;
        }
        if let Some(dtype) = self.dtype {
            let no = Thing::Constant(Literal::Bool(false));
            let code = dtype.code().ok_or_else(|| format!("`{}` has no dtype code", dtype.name()))?;
            thing = writer.operator("aten::to", &[thing, Thing::Constant(Literal::Int(code, true)), no, no])?;
        }
        Ok(writer.value(thing))
    }
}

/// Whether a tensor may have another floating point type than this.
fn may_be_other(ty: Type, own: DType) -> bool {
    ty.as_tensor().is_some_and(|tensor| tensor.dtype.is_none_or(|dtype| dtype.is_float() && dtype != own))
}

fn real(ty: Type) -> Option<DType> {
    ty.as_tensor().and_then(|tensor| tensor.dtype).filter(|dtype| dtype.is_float())
}
