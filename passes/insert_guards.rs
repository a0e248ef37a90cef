//! Turns observed types into guards: a graph may then be specialised for these tensors, and be left
//! when another comes.
//!
//! ```text
//! %1 : Tensor = prim::profile[profiled_type=Float(2, 3), seen_none=0](%x)
//! %y : Tensor = aten::relu(%1)
//!   =>
//! %1 : Float(2, 3) = prim::Guard(%x)
//! %y : Tensor = aten::relu(%1)
//! ```
//!
//! The observed types are those of the profile that `--profile` names; without it, those of the
//! profile nodes. When there is a profile, a graph without profile nodes is instrumented first.
//! Where nothing was observed, in a branch that never ran, up to 1.4 there is no guard; later
//! versions insert one that every tensor satisfies. Guards test the facts that the text of their
//! era can express: up to 1.4 that is element type and sizes. Nodes that count runs are erased.
//! Linear in nodes.

use crate::profile_instrument::{RULE, instrument};
use jitopt_core::ir::{Attribute, Graph, Node};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::era::Era;
use jitopt_core::types::{TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "insert-guards",
    aliases: &[],
    summary: "insert guards for the tensor types that a profiled run observed",
    example: "%1 : Tensor = prim::profile[profiled_type=Float(2, 3)](%x)  =>  %1 : Float(2, 3) = prim::Guard(%x)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let is_profile = |graph: &Graph, node: &Node| graph.kind(*node) == prim::PROFILE;
    if let Some(profile) = cx.profile() {
        if !graph.all_nodes().any(|node| is_profile(graph, &node)) {
            // A profile covers all positions: the gate applies to guards only.
            instrument(graph, |graph, about, edit| cx.prepare(graph, RULE, about, edit));
        }
        profile.apply(graph).map_err(|why| PassError::new(why).with_help(how_to_record(cx.changed_by())))?;
    }
    let nodes: Vec<Node> = graph.all_nodes().filter(|node| is_profile(graph, node)).collect();
    if nodes.is_empty() {
        let help =
            "give a profile with --profile=FILE, which `jitopt profile` writes, or a graph that a profiled run printed";
        return Err(PassError::new("there are no profile nodes to convert to guards").with_help(help));
    }
    for node in nodes {
        let is_of_one = graph.num_inputs(node) == 1 && graph.single_output(node).is_some();
        match (is_of_one, guarded_type(graph, node)) {
            (true, Some(ty)) => cx.rewrite(graph, "guards-inserted", node, |graph| guard(graph, node, ty)),
            _ => cx.rewrite(graph, "profiles-dropped", node, |graph| drop(graph, node)),
        };
    }
    graph_dump!("After InsertGuards:", graph);
    Ok(())
}

/// Instructions to record a profile that belongs to this graph.
fn how_to_record(changed_by: Option<String>) -> String {
    match changed_by {
        Some(passes) => {
            format!(
                "a profile belongs to the graph that this pass receives: record it after the same passes, `jitopt profile --passes='{passes}'`"
            )
        }
        None => {
            "record it for this graph, with `jitopt profile`; passes that were given there must also run before this one"
                .to_owned()
        }
    }
}

/// The type that is tested for the operand of a profile node, if any.
fn guarded_type(graph: &Graph, node: Node) -> Option<Type> {
    let written = match graph.attribute(node, attr::PROFILED_TYPE) {
        Some(Attribute::Type(ty)) => *ty,
        _ => graph.ty(graph.outputs(node).next()?),
    };
    let seen_none = matches!(graph.attribute(node, attr::SEEN_NONE), Some(Attribute::Int(n)) if *n != 0);
    let ty = expressible(graph.era, written.as_tensor()?);
    let nothing = graph.era == Era::V1_3 && ty == Type::tensor();
    (!nothing && !seen_none).then_some(ty)
}

/// The part of a type that the text of an era can express.
fn expressible(era: Era, seen: &TensorType) -> Type {
    let expressible = match era {
        Era::V1_3 => TensorType {
            dtype: seen.dtype,
            sizes: seen.sizes.clone(),
            undefined: seen.undefined,
            ..TensorType::default()
        },
        Era::V2 => seen.clone(),
    };
    Type::new(TypeKind::Tensor(expressible))
}

fn guard(graph: &mut Graph, node: Node, ty: Type) {
    let (seen, value) = (graph.output(node, 0), graph.input(node, 0));
    graph_update!("%{} must be {ty}", graph.name(value));
    let guard = graph.create_op(prim::GUARD, &[value], ty);
    graph.insert_before(node, guard);
    let guarded = graph.output(guard, 0);
    graph.replace_all_uses(seen, guarded);
    graph.erase(node);
}

fn drop(graph: &mut Graph, node: Node) {
    match (graph.single_output(node), graph.num_inputs(node) == 1) {
        (Some(seen), true) => {
            let value = graph.input(node, 0);
            graph.replace_all_uses(seen, value);
        }
        // A result that is read cannot be replaced.
        _ if graph.outputs(node).any(|output| graph.has_uses(output)) => return,
        _ => {}
    }
    graph.erase(node);
}
