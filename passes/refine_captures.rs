//! Types the params of backward graphs with facts from the forward graph, and drops params that are
//! not read.
//!
//! ```text
//! with prim::DifferentiableGraph_0 = graph(%x : Float(4, 6), %b : Float(6)):
//!   %r : Float(4, 6) = prim::FusionGroup_0(%x, %b)
//!   %sizes : int[]? = prim::Constant[value=[6]]()
//!   return (%r, %sizes, %r)
//! with prim::DifferentiableGraph_0.backward = graph(%0 : Tensor, %sizes : int[]?, %r : Tensor):
//! =>
//!   return (%r, %r)
//! with prim::DifferentiableGraph_0.backward = graph(%0 : Tensor, %r : Float(4, 6)):
//!   %sizes : int[]? = prim::Constant[value=[6]]()
//! ```
//!
//! A backward graph is made of formulas, which have no sizes; sizes are known in the forward graph,
//! which may be fused by then, so that the nodes that determined them are in a group. The indices
//! in [`Roles`] connect the two graphs: they are not edges, so nothing is executed or counted for
//! them, and they survive edits. A captured value has the type that it has in the forward graph; a
//! constant is copied, and so is the result of a comparison of sizes where types determine both. A
//! gradient that is declared as defined (`differentiate{defined}`) has the type of its result.
//! Values that become unread are no longer captured, nor computed if they have no other reader.
//!
//! Linear in nodes; idempotent.
//!
//! MXNet's fusion has helper nodes for the same purpose.

use crate::dead_code_elimination;
use crate::differentiate::gradient_type;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{attr, prim};
use jitopt_core::types::{Dim, TensorType, Type, TypeKind};
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "refine-captures",
    aliases: &[],
    summary: "type the params of backward graphs with facts from the forward graph, and drop those that are not read",
    example: "with ….backward = graph(%0 : Tensor, %r : Tensor)  =>  graph(%0 : Tensor, %r : Float(4, 6)), where the forward graph returns %r : Float(4, 6)",
    options: &[],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before refining captures", graph);
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| graph.subgraph(node).is_some()).collect();
    for group in groups {
        let Some(roles) = Roles::of(graph, group) else { continue };
        forward_types(graph, cx, group, &roles);
        decide_sizes(graph, cx, group);
        copy_constants(graph, cx, group, &roles);
        drop_unread(graph, cx, group, roles);
    }
    graph_dump!("After refining captures", graph);
    Ok(())
}

/// The value that a param of a backward graph represents.
#[derive(Clone, Copy)]
pub(crate) enum ParamRole {
    /// The gradient of a result of the node, or (none) of a value that is only captured.
    Gradient(Option<Value>),
    /// A value of the forward graph.
    Captured(Value),
}

/// The values that the params of the backward graph represent, in order.
pub(crate) fn param_roles(section: &Graph, roles: &Roles) -> Vec<ParamRole> {
    let params: Vec<Value> = section.params(section.root()).collect();
    let results: Vec<Value> = section.results(section.root()).collect();
    let gradients = roles.input_vjps.iter();
    let gradients = gradients.map(|&i| ParamRole::Gradient((i < roles.real_outputs).then(|| results[i])));
    let inputs = roles.captured_inputs.iter().map(|&i| ParamRole::Captured(params[i]));
    let outputs = roles.captured_outputs.iter().map(|&i| ParamRole::Captured(results[i]));
    gradients.chain(inputs).chain(outputs).collect()
}

fn forward_types(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node, roles: &Roles) {
    let (Some(section), Some(backward)) = (graph.subgraph(group), graph.backward(group)) else { return };
    let mut reported: Vec<(Value, Type)> = Vec::new();
    for (param, role) in backward.params(backward.root()).zip(param_roles(section, roles)) {
        let known = backward.ty(param);
        let is_given = known.as_tensor().is_some_and(|tensor| tensor.undefined == Some(false));
        let ty = match role {
            ParamRole::Captured(value) => without_gradient(section.ty(value)),
            ParamRole::Gradient(Some(result)) if is_given => gradient_type(section.ty(result), true),
            ParamRole::Gradient(_) => continue,
        };
        if ty != known && ty.is_subtype_of(known) {
            reported.push((param, ty));
        }
    }
    if reported.is_empty() {
        return;
    }
    cx.rewrite(graph, "captures-typed", group, |graph| {
        graph_update!("Typing {} params of a backward graph", reported.len());
        graph.with_graph(group, attr::REVERSE_SUBGRAPH, |backward| {
            reported.into_iter().for_each(|(param, ty)| backward.set_type(param, ty));
        });
    });
}

/// Types of a backward graph's params have no `requires_grad=1`.
pub(crate) fn without_gradient(ty: Type) -> Type {
    match ty.as_tensor() {
        Some(tensor) => Type::new(TypeKind::Tensor(TensorType { requires_grad: None, ..tensor.clone() })),
        None => ty,
    }
}

/// The result of `aten::_size_if_not_equal` is a constant where both sizes are known: formulas call
/// it for each operand, to sum gradients only of operands that were broadcast. It is a list, but
/// one that is only passed on.
fn decide_sizes(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node) {
    let Some(section) = graph.subgraph(group) else { return };
    let is_only_returned = |value: Value| section.users(value).all(|user| user == section.return_node(section.root()));
    let decided = |node: Node| {
        let compares_sizes =
            section.kind(node).as_str() == "aten::_size_if_not_equal" && is_only_returned(section.output(node, 0));
        let (own, result) = compares_sizes.then(|| (section.input(node, 0), section.input(node, 1)))?;
        let (own, result) = (known_size(section, own)?, known_size(section, result)?);
        Some((node, (own != result).then_some(own)))
    };
    let found: Vec<(Node, Option<Vec<i64>>)> = section.nodes(section.root()).filter_map(decided).collect();
    if found.is_empty() {
        return;
    }
    cx.rewrite(graph, "sizes-decided", group, |graph| {
        graph_update!("Deciding {} sizes that a backward graph receives", found.len());
        graph.with_subgraph(group, |section| {
            for (node, size) in found {
                let old = section.output(node, 0);
                let constant = section.create_op(prim::CONSTANT, &[], section.ty(old));
                if let Some(size) = size {
                    section.set_attribute(
                        constant,
                        attr::VALUE,
                        Attribute::List(size.into_iter().map(Attribute::Int).collect()),
                    );
                }
                section.insert_before(node, constant);
                let new = section.output(constant, 0);
                section.replace_all_uses(old, new);
                section.move_name(old, new);
                section.erase(node);
            }
        });
    });
}

/// A constant list, or the size of a tensor whose type determines it.
fn known_size(graph: &Graph, value: Value) -> Option<Vec<i64>> {
    let node = graph.definer(value)?;
    if graph.kind(node).as_str() == "aten::size" && graph.num_inputs(node) == 1 {
        let dims = graph.ty(graph.input(node, 0)).as_tensor()?.sizes.as_ref()?.iter();
        return dims.map(|dim| if let Dim::Known(n) = dim { Some(*n) } else { None }).collect();
    }
    graph.constant_ints(value)
}

fn copy_constants(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node, roles: &Roles) {
    let (Some(section), Some(backward)) = (graph.subgraph(group), graph.backward(group)) else { return };
    // A tensor constant in two graphs would be two tensors.
    let constant = |value: Value| {
        let node = section.definer(value).filter(|&node| section.kind(node) == prim::CONSTANT)?;
        (!section.ty(value).is_tensor()).then_some(node)
    };
    let params = backward.params(backward.root()).zip(param_roles(section, roles));
    let read = params.filter(|(param, _)| backward.has_uses(*param));
    let found: Vec<(Value, Node)> = read
        .filter_map(|(param, role)| match role {
            ParamRole::Captured(value) => Some((param, constant(value)?)),
            ParamRole::Gradient(_) => None,
        })
        .collect();
    if found.is_empty() {
        return;
    }
    cx.rewrite(graph, "captures-copied", group, |graph| {
        graph_update!("Copying {} constants into a backward graph", found.len());
        let Some(section) = graph.take_subgraph(group) else { return };
        graph.with_graph(group, attr::REVERSE_SUBGRAPH, |backward| {
            for (param, node) in found {
                let copy = backward.copy_node(Some(&section), node, &mut ValueMap::default());
                backward.prepend(backward.root(), copy);
                backward.replace_all_uses(param, backward.output(copy, 0));
            }
        });
        graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
    });
}

pub(crate) fn drop_unread(graph: &mut Graph, cx: &mut PassContext<'_>, group: Node, roles: Roles) {
    let Some(backward) = graph.backward(group) else { return };
    let read: Vec<bool> = backward.params(backward.root()).map(|param| backward.has_uses(param)).collect();
    // Callers pass the gradients of all results.
    let is_given = |at: usize| roles.input_vjps.get(at).is_some_and(|&i| i < roles.real_outputs);
    let unread: Vec<usize> = (0..read.len()).filter(|&at| !read[at] && !is_given(at)).collect();
    if unread.is_empty() || !cx.may("captures-dropped") {
        return;
    }
    cx.did(graph, "captures-dropped", group);
    graph_update!("Dropping {} params of a backward graph", unread.len());
    graph.with_graph(group, attr::REVERSE_SUBGRAPH, |backward| {
        let params = backward.param_node(backward.root());
        unread.iter().rev().for_each(|&at| backward.remove_output(params, at));
    });
    let mut roles = without(roles, &unread);
    let Some(mut section) = graph.take_subgraph(group) else { return };
    forget_results(&mut section, &mut roles);
    dead_code_elimination::eliminate(&mut section, cx, true);
    graph.set_attribute(group, attr::SUBGRAPH, Attribute::Graph(section));
    roles.note(graph, group);
}

/// The roles without some params of the backward graph.
fn without(mut roles: Roles, unread: &[usize]) -> Roles {
    let mut at = 0;
    for list in [&mut roles.input_vjps, &mut roles.captured_inputs, &mut roles.captured_outputs] {
        list.retain(|_| {
            at += 1;
            unread.binary_search(&(at - 1)).is_err()
        });
    }
    roles
}

/// Returns only values that have a role, after the results.
fn forget_results(section: &mut Graph, roles: &mut Roles) {
    let end = section.return_node(section.root());
    for i in (roles.real_outputs..section.num_inputs(end)).rev() {
        if roles.input_vjps.contains(&i) || roles.captured_outputs.contains(&i) {
            continue;
        }
        section.remove_input(end, i);
        for later in roles.input_vjps.iter_mut().chain(&mut roles.captured_outputs).filter(|later| **later > i) {
            *later -= 1;
        }
    }
}
