//! Brings operators into the form that groups of pointwise operators accept.
//!
//! ```text
//! %two : Long() = prim::Constant[value={2}]()
//! %y : Float(4, 6) = aten::mul(%x, %two)             %2 : int = prim::Constant[value=2]()
//! %l : Tensor[] = aten::chunk(%y, %n, %1)       =>   %y : Float(4, 6) = aten::mul(%x, %2)
//! %a : Tensor, %b : Tensor = prim::ListUnpack(%l)    %a : Tensor, %b : Tensor = prim::ConstantChunk[chunks=2, dim=1](%y)
//! ```
//!
//! - The second operand of add, sub, mul or div that is a constant zero-dimensional tensor becomes
//!   a scalar, which is part of a kernel where the tensor is one more operand. A tensor that is not
//!   a traced scalar takes part in type promotion differently: the element type of the first
//!   operand must be known, the result must keep its own, the scalar must be exact in it, and the
//!   tensor must not be written to. A bool stays a tensor: no arithmetic schema takes a bool
//!   scalar. PyTorch checks none of this, changes element types, and fails on bools; it reads a
//!   floating point tensor from memory, while the graph has only its rounded text. `{trusting}`
//!   does as PyTorch does, except for bools and written tensors.
//! - `aten::chunk` into a constant number of pieces, whose list is only unpacked into that many
//!   values, becomes one node without the list.
//!
//! Ends with `dce`, as in PyTorch. Linear in nodes; not idempotent: `dce` may have removed a writer
//! to a constant.

use crate::dead_code_elimination;
use jitopt_core::analysis::AliasDb;
use jitopt_core::interpreter::exact_literals::prints_all_elements;
use jitopt_core::interpreter::{Environment, literal_values};
use jitopt_core::ir::{Attribute, Float, FloatStyle, Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::tensor::promotion::{join, stands_for_number};
use jitopt_core::tensor::{Kind, Scalar};
use jitopt_core::types::release::Release;
use jitopt_core::types::{DType, Simple, TensorType, Type};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "canonicalize-ops",
    aliases: &["canonicalize-graph-fuser-ops"],
    summary: "convert one-element constant tensors to scalars, and unpacked chunk lists to constant chunks",
    example: "%l : Tensor[] = aten::chunk(%x, %2, %1), %a : Tensor, %b : Tensor = prim::ListUnpack(%l)  =>  %a : Tensor, %b : Tensor = prim::ConstantChunk[chunks=2, dim=1](%x)",
    options: &[PassOption {
        name: "trusting",
        default: "false",
        summary: "also convert where the element type may change, and take floating point values from their text",
    }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before canonicalizing operators", graph);
    let trusting = cx.flag("trusting")?;
    numbers_for_tensors(graph, cx, trusting);
    let chunks: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node).as_str() == "aten::chunk").collect();
    for node in chunks {
        let Some(chunk) = Chunk::of(graph, node) else { continue };
        cx.rewrite(graph, "chunks-unpacked", node, |graph| chunk.make(graph));
    }
    dead_code_elimination::eliminate(graph, cx, true);
    graph_dump!("After canonicalizing operators", graph);
    Ok(())
}

/// The number of operands of an overload whose second operand is a summand or a factor. An overload
/// of div with more operands has a rounding mode.
const ARITHMETIC: &[(&str, usize)] = &[("aten::add", 3), ("aten::sub", 3), ("aten::mul", 2), ("aten::div", 2)];

fn numbers_for_tensors(graph: &mut Graph, cx: &mut PassContext<'_>, trusting: bool) {
    let arithmetic = |graph: &Graph, node: Node| {
        ARITHMETIC.contains(&(graph.kind(node).as_str(), graph.num_inputs(node)))
            && graph.constant(graph.input(node, 1)).is_some()
    };
    let nodes: Vec<Node> = graph.all_nodes().filter(|&node| arithmetic(graph, node)).collect();
    if nodes.is_empty() {
        return;
    }
    let db = cx.alias(graph);
    for node in nodes {
        let Some((number, ty)) = number(graph, &db, node, trusting) else { continue };
        cx.rewrite(graph, "numbers-for-tensors", node, |graph| {
            graph_update!("%{} takes a number", graph.name(graph.output(node, 0)));
            let constant = graph.create_op(prim::CONSTANT, &[], ty);
            graph.set_attribute(constant, attr::VALUE, number);
            graph.insert_before(node, constant);
            graph.set_input(node, 1, graph.output(constant, 0));
        });
    }
}

/// The scalar that may replace the second operand.
fn number(graph: &Graph, db: &AliasDb, node: Node, trusting: bool) -> Option<(Attribute, Type)> {
    let [x, constant] = [0, 1].map(|i| graph.input(node, i));
    let (x, ty) = (graph.ty(x).as_tensor()?, graph.ty(constant).as_tensor()?);
    let dtype = ty.dtype.filter(|&dtype| dtype != DType::Bool)?;
    let Some(Some(Attribute::Tensor(text))) = graph.constant(constant) else { return None };
    let exact = trusting || prints_all_elements(text, Some(dtype));
    let quiet = !db.has_writers(constant);
    if ty.rank() != Some(0) || !exact || !quiet {
        return None;
    }
    let value = literal_values::constant(graph, &Environment::default(), graph.definer(constant)?).ok()?;
    let number = value.tensor()?.item();
    let keeps = keeps_dtype(x, dtype, number);
    (trusting || keeps).then(|| literal(number, graph.release()))?
}

fn literal(number: Scalar, release: Release) -> Option<(Attribute, Type)> {
    let style = FloatStyle::of(release);
    match number.kind() {
        Kind::Int => Some((Attribute::Int(number.int()), Type::int())),
        Kind::Float => Some((Attribute::Float(Float { value: number.real(), style }), Type::simple(Simple::Float))),
        _ => None,
    }
}

/// Whether an integer takes part in type promotion as a zero-dimensional tensor of this element
/// type does, and converts alike: a scalar out of range raises an exception, while an element wraps
/// around.
fn keeps_dtype(x: &TensorType, constant: DType, number: Scalar) -> bool {
    let Some(dtype) = x.dtype.filter(|_| number.kind() == Kind::Int) else { return false };
    let dimensioned = x.rank().is_some_and(|rank| rank > 0);
    let n = number.int();
    match dtype.arithmetic() {
        Some(Kind::Bool) => constant == DType::Long,
        Some(Kind::Int) => {
            let fits = dtype.range().is_some_and(|(least, most)| (least..=most).contains(&n));
            fits && (dimensioned || stands_for_number(constant) || join(dtype, constant) == dtype)
        }
        // Exact in the element type, so it is never rounded.
        Some(Kind::Float | Kind::Complex) => n as f64 * dtype.to_real().epsilon() <= 1.0 && n > i64::MIN,
        None => false,
    }
}

/// A chunk whose pieces are all unpacked by one node.
struct Chunk {
    node: Node,
    unpack: Node,
    chunks: i64,
    dim: i64,
}

impl Chunk {
    fn of(graph: &Graph, node: Node) -> Option<Chunk> {
        let unpack = graph.user(graph.single_use(graph.single_output(node)?)?);
        let [_, chunks, dim] = graph.inputs(node).collect::<Vec<Value>>()[..] else { return None };
        let (chunks, dim) = (graph.constant_int(chunks)?, graph.constant_int(dim)?);
        let whole = graph.num_outputs(unpack) as i64 == chunks;
        (graph.kind(unpack) == prim::LIST_UNPACK && whole && chunks > 0).then_some(Chunk { node, unpack, chunks, dim })
    }

    fn make(self, graph: &mut Graph) {
        graph_update!("Unpacking %{} at once", graph.name(graph.output(self.node, 0)));
        let chunk = graph.create(prim::CONSTANT_CHUNK);
        graph.add_input(chunk, graph.input(self.node, 0));
        graph.set_attribute(chunk, attr::CHUNKS, Attribute::Int(self.chunks));
        graph.set_attribute(chunk, attr::DIM, Attribute::Int(self.dim));
        graph.insert_before(self.node, chunk);
        let pieces: Vec<Value> = graph.outputs(self.unpack).collect();
        for old in pieces {
            let new = graph.add_output(chunk, graph.ty(old));
            graph.replace_all_uses(old, new);
        }
        graph.erase(self.unpack);
        graph.erase(self.node);
    }
}
