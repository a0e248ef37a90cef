//! Converts scalars to zero-dimensional tensors, for readers that support only tensors.
//!
//! ```text
//! %1 : int = prim::Constant[value=1]()              %2 : Long(device=cpu) = prim::Constant[value={1}]()
//! %n : int = aten::size(%x, %1)              =>     %n : Long(device=cpu) = aten::size(%x, %2)
//! %t : Tensor = prim::NumToTensor(%n)
//! %y : Tensor = aten::add(%x, %t, %1)               %y : Tensor = aten::add(%x, %n, %2)
//! ```
//!
//! For exporters: operators keep their operands, so the result is a graph for reading that does not
//! run. As in PyTorch, scalars inside containers and sections stay, and so do unread params of
//! blocks. Conversions between scalars and tensors are skipped: `aten::Int` of 2.7 is 2.7 to the
//! reader of such a graph. Floats have six digits, as PyTorch prints the elements of a tensor.
//! Linear in nodes and operands; idempotent.
//!
//! The behaviour differs between releases, as observed in all of them from 1.0.1 to 2.15.0:
//!
//! | | up to 1.1 | 1.2 to 1.8 | 1.9 and 1.10 | from 1.11 on |
//! |---|---|---|---|---|
//! | old constants, conversions | stay, unread | go | go | go |
//! | constants that no node reads | stay | become tensors | become tensors | tensors of their old type |
//! | params | `Tensor`, bools stay | `Tensor`, bools stay | their own type | their own type |
//! | results of type float, bool | `Float()`, `Long()` | `Float()`, `Long()` | `Double()`, `Bool()` | `Double()`, `Bool()` |
//! | constants of type bool | `Long()` | `Long()` | `Bool()` | `Bool()` |
//!
//! Types have a device from 1.7 on, constants `requires_grad=0` from 1.7 to 1.10.

use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::text::number::print_float;
use jitopt_core::types::release::Release;
use jitopt_core::types::{DType, Simple, Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "erase-number-types",
    aliases: &[],
    summary: "convert scalars to zero-dimensional tensors, for exporters",
    example: "%1 : int = prim::Constant[value=1]()  =>  %1 : Long(device=cpu) = prim::Constant[value={1}]()",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// Old constants and conversions are erased.
const OLD_NODES_GO: Release = Release(1, 2);
/// Types have a device.
const TYPES_HAVE_DEVICES: Release = Release(1, 7);
/// Bools become bool tensors, floats double tensors, and params have such types.
const BOOLS_ARE_NUMBERS: Release = Release(1, 9);
/// Constants that no node reads keep their type, and types of the others have no `requires_grad=0`.
const CONSTANTS_ARE_PLAIN: Release = Release(1, 11);

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before erasing number types", graph);
    let blocks: Vec<Block> = graph.all_blocks().collect();
    for block in blocks {
        let param = graph.param_node(block);
        for value in graph.params(block).collect::<Vec<_>>() {
            let is_read = graph.has_uses(value) || block == graph.root();
            if let Some(ty) = param_type(graph, value).filter(|_| is_read) {
                cx.rewrite(graph, "types-erased", param, |graph| graph.set_type(value, ty));
            }
        }
    }
    for node in graph.all_nodes().collect::<Vec<_>>() {
        match graph.kind(node) {
            prim::CONSTANT => erase_constant(graph, cx, node),
            kind if converts(kind) && takes_one_number(graph, node) => skip(graph, cx, node),
            _ => erase_outputs(graph, cx, node),
        }
    }
    graph_dump!("After erasing number types", graph);
    Ok(())
}

/// The element type of a scalar, none when it may be any.
fn number(ty: Type) -> Option<Option<DType>> {
    let TypeKind::Simple(simple) = ty.kind() else { return None };
    match simple {
        Simple::Int => Some(Some(DType::Long)),
        Simple::Float => Some(Some(DType::Double)),
        Simple::Bool => Some(Some(DType::Bool)),
        Simple::Complex => Some(Some(DType::ComplexDouble)),
        Simple::Scalar | Simple::Number => Some(None),
        _ => None,
    }
}

/// The type of a zero-dimensional tensor, with the facts that the release gives.
fn tensor(graph: &Graph, dtype: Option<DType>) -> Type {
    Type::new(TypeKind::Tensor(TensorType {
        dtype,
        sizes: dtype.map(|_| [].into()),
        strides: Strides::Unknown,
        requires_grad: None,
        device: (graph.release() >= TYPES_HAVE_DEVICES).then(|| Symbol::new("cpu")),
        undefined: None,
        profiled: false,
    }))
}

/// As `tensor`, for a constant.
fn constant_tensor(graph: &Graph, dtype: DType) -> Type {
    let shows_gradient = (TYPES_HAVE_DEVICES..CONSTANTS_ARE_PLAIN).contains(&graph.release());
    let ty = tensor(graph, Some(dtype));
    match ty.as_tensor() {
        Some(tensor) if shows_gradient => {
            Type::new(TypeKind::Tensor(TensorType { requires_grad: Some(false), ..tensor.clone() }))
        }
        _ => ty,
    }
}

/// The new type of a param that is a scalar.
fn param_type(graph: &Graph, value: Value) -> Option<Type> {
    let dtype = number(graph.written_type(value)?)?;
    match graph.release() < BOOLS_ARE_NUMBERS {
        true => (dtype != Some(DType::Bool)).then(Type::tensor),
        false => Some(tensor(graph, dtype)),
    }
}

/// The element type that a release gives to the result of an operator.
fn result_dtype(release: Release, dtype: DType) -> DType {
    match dtype {
        DType::Bool if release < BOOLS_ARE_NUMBERS => DType::Long,
        DType::Double if release < BOOLS_ARE_NUMBERS => DType::Float,
        _ => dtype,
    }
}

fn erase_outputs(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    for i in 0..graph.num_outputs(node) {
        let value = graph.output(node, i);
        let Some(dtype) = graph.written_type(value).and_then(number) else { continue };
        let dtype = dtype.map(|dtype| result_dtype(graph.release(), dtype));
        let ty = tensor(graph, dtype);
        cx.rewrite(graph, "types-erased", node, |graph| graph.set_type(value, ty));
    }
}

// ---- constants

/// Replaces a scalar constant by a tensor constant.
fn erase_constant(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let Some(value) = graph.single_output(node) else { return };
    let takes_all = graph.release() >= OLD_NODES_GO;
    let Some(Some(dtype)) = number(graph.ty(value)).filter(|_| takes_all || graph.has_uses(value)) else { return };
    // The type changes when a reading node is visited.
    let is_read = graph.users(value).any(|user| graph.kind(user) != prim::RETURN);
    let keeps_type = graph.release() >= CONSTANTS_ARE_PLAIN && !is_read;
    let Some(text) = graph.attribute(node, attr::VALUE).and_then(printed) else { return };
    let long = dtype == DType::Bool && graph.release() < BOOLS_ARE_NUMBERS;
    let ty = constant_tensor(graph, if long { DType::Long } else { dtype });
    cx.rewrite(graph, "constants-erased", node, |graph| {
        graph_update!("Converting %{} to a tensor", graph.name(value));
        if graph.release() < OLD_NODES_GO {
            return insert_tensor(graph, node, text, ty);
        }
        graph.set_attribute(node, attr::VALUE, Attribute::Tensor(text.into()));
        if !keeps_type {
            graph.set_type(value, ty);
        }
    });
}

/// Inserts another constant before the old one, which loses its users.
fn insert_tensor(graph: &mut Graph, old: Node, text: String, ty: Type) {
    let new = graph.create_op(prim::CONSTANT, &[], ty);
    graph.set_attribute(new, attr::VALUE, Attribute::Tensor(text.into()));
    graph.copy_scope(old, new);
    graph.insert_before(old, new);
    graph.replace_all_uses(graph.output(old, 0), graph.output(new, 0));
}

/// A scalar as the element of a tensor: with six digits, as PyTorch prints them.
fn printed(value: &Attribute) -> Option<String> {
    let digits = |value: f64| {
        let mut text = Vec::new();
        print_float(&mut text, Float { value, style: FloatStyle::Six });
        String::from_utf8_lossy(&text).into_owned()
    };
    match value {
        Attribute::Int(n) => Some(format!("{{{n}}}")),
        Attribute::Float(float) => Some(format!("{{{}}}", digits(float.value))),
        Attribute::Complex(parts) => Some(format!("{{({},{})}}", digits(parts.0.value), digits(parts.1.value))),
        _ => None,
    }
}

// ---- conversions

fn converts(kind: Symbol) -> bool {
    let kinds = [
        "prim::NumToTensor",
        "prim::ImplicitTensorToNum",
        "prim::Int",
        "prim::Float",
        "prim::Bool",
        "aten::Int",
        "aten::Float",
        "aten::Bool",
        "aten::IntImplicit",
        "aten::FloatImplicit",
        "aten::ScalarImplicit",
    ];
    kinds.contains(&kind.as_str())
}

/// Whether a conversion has one operand, a scalar or a tensor: a conversion of a string stays.
fn takes_one_number(graph: &Graph, node: Node) -> bool {
    let (Some(_), 1) = (graph.single_output(node), graph.num_inputs(node)) else { return false };
    let ty = graph.ty(graph.input(node, 0));
    ty.is_tensor() || number(ty).is_some()
}

fn skip(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let (operand, output) = (graph.input(node, 0), graph.output(node, 0));
    let goes = graph.release() >= OLD_NODES_GO;
    if goes || graph.has_uses(output) {
        cx.rewrite(graph, "conversions-skipped", node, |graph| {
            graph_update!("Skipping conversion %{}", graph.name(output));
            graph.replace_all_uses(output, operand);
            if goes {
                graph.erase(node);
            }
        });
    }
}
