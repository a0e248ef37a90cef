//! Gives tuple constructs the known types of their elements.
//!
//! ```text
//! %t : (Tensor, int?) = prim::TupleConstruct(%x, %i)    =>    %t : (Float(2, 3), int) = prim::TupleConstruct(%x, %i)
//! ```
//!
//! Shapes are inferred after tuples were typed, and a tuple hides them from the nodes that unpack
//! it. Only the construct is retyped, and only with a type that refines the old one: named tuples
//! keep their names. Nodes that unpack it keep their types, as in PyTorch. A type observed by
//! `prim::profile` is not a fact, and is not propagated. A nested tuple is typed before the outer
//! one, because its construct comes first. Linear in nodes.

use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::prim;
use jitopt_core::types::{Field, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "refine-tuple-types",
    aliases: &[],
    summary: "give tuple constructs the types of their operands",
    example: "%t : (Tensor, int?) = prim::TupleConstruct(%x, %i)  =>  %t : (Float(2, 3), int) = prim::TupleConstruct(%x, %i)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before refining tuple types", graph);
    let constructs: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::TUPLE_CONSTRUCT).collect();
    for node in constructs {
        let Some(ty) = refined(graph, node) else { continue };
        cx.rewrite(graph, "tuples-refined", node, |graph| {
            graph_update!("Typing %{} as {ty}", graph.name(graph.output(node, 0)));
            graph.set_type(graph.output(node, 0), ty);
        });
    }
    graph_dump!("After refining tuple types", graph);
    Ok(())
}

/// The type of a value; of a profile node's output, the type of its operand, because an observation
/// of one run is not a fact.
fn fact(graph: &Graph, value: Value) -> Type {
    match graph.definer(value).filter(|&node| graph.kind(node) == prim::PROFILE) {
        Some(profile) if graph.num_inputs(profile) > 0 => graph.ty(graph.input(profile, 0)),
        _ => graph.ty(value),
    }
}

/// The type of a construct by its operands, when it differs from the current type and is a subtype
/// of it.
fn refined(graph: &Graph, node: Node) -> Option<Type> {
    let output = graph.single_output(node)?;
    let (old, parts) = (graph.ty(output), graph.inputs(node).map(|value| fact(graph, value)));
    let parts: Vec<Type> = parts.collect();
    let ty = match old.kind() {
        TypeKind::Tuple(elements) if elements.len() == parts.len() => Type::tuple(&parts),
        TypeKind::NamedTuple(fields) if fields.len() == parts.len() => {
            let named = fields.iter().zip(parts).map(|(field, ty)| Field { ty, ..*field });
            Type::new(TypeKind::NamedTuple(named.collect()))
        }
        _ => return None,
    };
    (ty != old && ty.is_subtype_of(old)).then_some(ty)
}
