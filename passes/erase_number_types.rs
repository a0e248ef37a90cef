//! Makes tensors without dimensions of numbers, for readers that know nothing but tensors.
//!
//! ```text
//! %1 : int = prim::Constant[value=1]()              %2 : Long(device=cpu) = prim::Constant[value={1}]()
//! %n : int = aten::size(%x, %1)              =>     %n : Long(device=cpu) = aten::size(%x, %2)
//! %t : Tensor = prim::NumToTensor(%n)
//! %y : Tensor = aten::add(%x, %t, %1)               %y : Tensor = aten::add(%x, %n, %2)
//! ```
//!
//! For exporters: operators keep the operands that they have, so what comes out is a graph for reading and none that runs. As in
//! PyTorch what is inside containers and sections stays, and so do params of blocks and constants that nobody reads. Up to 1.4 a
//! bool was no number: constants of it became integers, and params stay.
//!
//! Conversions between numbers and tensors are skipped and left for `dce`, as in PyTorch: `aten::Int` of 2.7 is 2.7 to the reader of
//! such a graph. What comparisons return is a tensor of bools here; PyTorch up to 1.4 says of integers. Floats show six digits, as
//! PyTorch prints the elements of a tensor. Linear in nodes and operands; idempotent.

use jitopt_core::ir::{Attribute, Block, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::text::number::print_float;
use jitopt_core::types::era::Era;
use jitopt_core::types::{DType, Simple, Strides, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update, planted};

/// The row.
pub const PASS: PassInfo = PassInfo {
    name: "erase-number-types",
    aliases: &[],
    summary: "make tensors without dimensions of numbers, for exporters",
    example: "%1 : int = prim::Constant[value=1]()  =>  %1 : Long(device=cpu) = prim::Constant[value={1}]()",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before erasing number types", graph);
    let blocks: Vec<Block> = graph.all_blocks().collect();
    for block in blocks {
        let param = graph.param_node(block);
        for value in graph.params(block).collect::<Vec<_>>() {
            let is_read = graph.has_uses(value) || block == graph.root();
            if let Some(ty) = param_type(graph, value).filter(|_| planted!("numbers.read", is_read, "ignored" => true))
            {
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

/// The element type of a number, none when it may be any.
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

/// The type of a tensor without dimensions, as its era says it.
fn tensor(graph: &Graph, dtype: Option<DType>) -> Type {
    let new = graph.era != Era::V1_3;
    Type::new(TypeKind::Tensor(TensorType {
        dtype,
        sizes: dtype.map(|_| [].into()),
        strides: Strides::Unknown,
        requires_grad: None,
        device: new.then(|| Symbol::new("cpu")),
        undefined: None,
        profiled: false,
    }))
}

/// What a param becomes that is a number.
fn param_type(graph: &Graph, value: Value) -> Option<Type> {
    let dtype = number(graph.written_type(value)?)?;
    match graph.era {
        Era::V1_3 => (dtype != Some(DType::Bool)).then(Type::tensor),
        Era::V2 => Some(tensor(graph, dtype)),
    }
}

fn erase_outputs(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    for i in 0..graph.num_outputs(node) {
        let value = graph.output(node, i);
        let Some(dtype) = graph.written_type(value).and_then(number) else { continue };
        let ty = tensor(graph, planted!("numbers.output", dtype, "integers" => dtype.map(|_| DType::Long)));
        cx.rewrite(graph, "types-erased", node, |graph| graph.set_type(value, ty));
    }
}

// ---- constants

/// Puts a constant that is a tensor in the place of a number.
fn erase_constant(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let Some(value) = graph.single_output(node).filter(|&value| graph.has_uses(value)) else { return };
    let Some(Some(dtype)) = number(graph.ty(value)) else { return };
    let Some(text) = graph.attribute(node, attr::VALUE).and_then(printed) else { return };
    let old = dtype == DType::Bool && graph.era == Era::V1_3;
    let ty = tensor(graph, Some(if old { DType::Long } else { dtype }));
    cx.rewrite(graph, "constants-erased", node, |graph| {
        graph_update!("Making a tensor of %{}", graph.name(value));
        let text = planted!("numbers.text", text, "zero" => "{0}".to_owned());
        graph.set_attribute(node, attr::VALUE, Attribute::Tensor(text.into()));
        graph.set_type(value, ty);
    });
}

/// A number as the element of a tensor: with six digits, as PyTorch prints them.
fn printed(value: &Attribute) -> Option<String> {
    let digits = |value: f64| {
        let mut text = Vec::new();
        print_float(&mut text, Float { value, style: FloatStyle::Six });
        String::from_utf8_lossy(&text).into_owned()
    };
    match value {
        Attribute::Int(n) => Some(format!("{{{n}}}")),
        Attribute::Float(float) => Some(format!("{{{}}}", digits(float.value))),
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

/// Whether a conversion has one operand, and that is a number or a tensor: a text stays one.
fn takes_one_number(graph: &Graph, node: Node) -> bool {
    let (Some(_), 1) = (graph.single_output(node), graph.num_inputs(node)) else { return false };
    let ty = graph.ty(graph.input(node, 0));
    planted!("numbers.same", ty.is_tensor() || number(ty).is_some(), "always" => true)
}

fn skip(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let (operand, output) = (graph.input(node, 0), graph.output(node, 0));
    if graph.has_uses(output) {
        cx.rewrite(graph, "conversions-skipped", node, |graph| {
            graph_update!("Skipping conversion %{}", graph.name(output));
            graph.replace_all_uses(output, operand);
        });
    }
}
