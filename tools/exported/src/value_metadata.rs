//! Types of values, from the metadata that every tensor has.

use crate::export_arguments::{device, dtype_code};
use crate::{Result, refuse, shown};
use jitopt_archive::Json;
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::DType;
use jitopt_core::types::{Dim, Strides, TensorType, Type, TypeKind};
use std::collections::HashMap;

/// The metadata of the tensors of one graph, by name.
pub(crate) struct Metadata<'j> {
    tensors: HashMap<&'j str, &'j Json>,
}

impl<'j> Metadata<'j> {
    pub(crate) fn of(graph: &'j Json) -> Metadata<'j> {
        let fields = graph.get("tensor_values").fields().iter();
        Metadata { tensors: fields.map(|(name, meta)| (name.as_str(), meta)).collect() }
    }

    /// The type of a tensor. Results that nothing uses have no metadata.
    pub(crate) fn tensor(&self, name: &str) -> Result<Type> {
        match self.tensors.get(name) {
            Some(meta) => type_of(meta, name),
            None => Ok(Type::tensor()),
        }
    }

    /// Whether it is a tensor that the graph describes.
    pub(crate) fn is_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }
}

/// `Float(2, *, requires_grad=0, device=cpu)`; symbolic sizes are open.
fn type_of(meta: &Json, name: &str) -> Result<Type> {
    let number = meta.get("dtype").int();
    // Types that nothing computes with are left open.
    let Some(dtype) = number.and_then(dtype_code).map(DType::from_code) else {
        let number = number.map_or("none".to_owned(), |number| number.to_string());
        return refuse(format!("tensor {} has the unknown element type {number}", shown(name)));
    };
    let sizes = dims(meta.get("sizes"), name)?;
    let strides: Option<Box<[i64]>> = dims(meta.get("strides"), name)?.iter().map(|dim| known(*dim)).collect();
    Ok(Type::new(TypeKind::Tensor(TensorType {
        dtype,
        sizes: Some(sizes),
        strides: strides.map_or(Strides::Unknown, Strides::Known),
        requires_grad: Some(meta.get("requires_grad").is_true()),
        device: device(meta.get("device")).map(|device| Symbol::new(&device)),
        ..TensorType::default()
    })))
}

fn known(dim: Dim) -> Option<i64> {
    if let Dim::Known(size) = dim { Some(size) } else { None }
}

/// `[{"as_int": 3}, {"as_expr": {"expr_str": "s0"}}]` as `3, *`.
fn dims(sizes: &Json, name: &str) -> Result<Box<[Dim]>> {
    let dim = |size: &Json| match size.int().or_else(|| size.get("as_int").int()) {
        Some(size) if size >= 0 => Ok(Dim::Known(size)),
        Some(size) => refuse(format!("tensor {} has a size or stride of {size}", shown(name))),
        None if size.get("as_expr").is_null() => {
            refuse(format!("tensor {} has a size that is neither a number nor an expression", shown(name)))
        }
        None => Ok(Dim::Unknown),
    };
    sizes.items().iter().map(dim).collect()
}
