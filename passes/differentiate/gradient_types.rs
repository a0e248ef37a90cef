//! The types of gradients.

use jitopt_core::types::{Strides, TensorType, Type, TypeKind};

/// The type of a gradient of a value, defined or undefined. Strides are not part of it: the caller
/// chooses them.
pub(crate) fn gradient_type(of: Type, is_given: bool) -> Type {
    let known = of.as_tensor().filter(|_| is_given).cloned().unwrap_or_default();
    let strides = Strides::Unknown;
    Type::new(TypeKind::Tensor(TensorType { undefined: Some(!is_given), requires_grad: None, strides, ..known }))
}
