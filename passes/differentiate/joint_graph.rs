//! Forward and backward graph as one, which can be fused, and differentiated, as any other.
//!
//! ```text
//! graph(%x : Tensor):                                graph(%x : Tensor, %grad.y : Tensor):
//!   %y : Tensor = prim::DifferentiableGraph_0[…](%x)   %y : Tensor = aten::tanh(%x)
//!   return (%y)                                   =>   %grad_self : Tensor = prim::GradOf[name="aten::tanh"](%grad.y)
//!                                                        (…)
//!                                                      return (%y, %grad_self)
//! ```

use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{TensorType, Type, TypeKind};

/// The one group that a graph consists of, if it has its backward graph.
pub(super) fn whole(graph: &Graph) -> Option<Node> {
    let group = graph.first(graph.root()).filter(|&node| graph.next(node).is_none())?;
    (graph.kind(group) == prim::DIFFERENTIABLE_GRAPH && graph.backward(group).is_some()).then_some(group)
}

/// The type of the gradient of a value, which is given or not.
pub(super) fn gradient_type(of: Type, is_given: bool) -> Type {
    let known = of.as_tensor().filter(|_| is_given).cloned().unwrap_or_default();
    Type::new(TypeKind::Tensor(TensorType { undefined: Some(!is_given), requires_grad: None, ..known }))
}

/// Puts both graphs of a group in its place. Gradients of results become params, behind the others, and those of params results.
pub(super) fn join(graph: &mut Graph, group: Node) {
    let (section, backward) = match (graph.subgraph(group), graph.backward(group)) {
        (Some(section), Some(backward)) => (section.clone(), backward.clone()),
        _ => return,
    };
    let root = graph.root();
    let real_outputs = graph.num_outputs(group);
    let [vjps, captured_inputs, captured_outputs] =
        [attr::DF_INPUT_VJPS, attr::DF_INPUT_CAPTURED_INPUTS, attr::DF_INPUT_CAPTURED_OUTPUTS]
            .map(|name| numbers(graph, group, name));
    let params: Vec<Value> = graph.inputs(group).collect();
    let mut map: ValueMap = section.params(section.root()).zip(params.iter().copied()).collect();
    let kept = graph.copy_block_into(Some(&section), section.root(), root, &mut map);
    let outputs: Vec<Value> = graph.outputs(group).collect();
    let mut operands: Vec<Value> = Vec::new();
    for i in vjps {
        operands.push(match outputs.get(i).filter(|_| i < real_outputs) {
            Some(&output) => gradient_param(graph, output),
            None => undefined(graph),
        });
    }
    for (&output, &result) in outputs.iter().zip(&kept) {
        graph.replace_all_uses(output, result);
        graph.move_name_to_nameless(output, result);
    }
    operands.extend(captured_inputs.iter().map(|&i| params[i]));
    operands.extend(captured_outputs.iter().map(|&i| kept[i]));
    graph.erase(group);
    let mut map: ValueMap = backward.params(backward.root()).zip(operands).collect();
    for result in graph.copy_block_into(Some(&backward), backward.root(), root, &mut map) {
        unpacked(graph, result).into_iter().for_each(|gradient| graph.add_result(root, gradient));
    }
}

/// A param for the gradient of a value.
fn gradient_param(graph: &mut Graph, of: Value) -> Value {
    let name = format!("grad.{}", graph.name(of));
    let param = graph.add_param(graph.root(), gradient_type(graph.ty(of), true));
    graph.set_name(param, name.as_bytes());
    param
}

/// The gradient of what is only kept: nobody has one for it.
fn undefined(graph: &mut Graph) -> Value {
    let zero = graph.create_op(prim::AUTOGRAD_ZERO, &[], gradient_type(Type::tensor(), false));
    graph.append(graph.root(), zero);
    graph.output(zero, 0)
}

/// What the tuple that a backward graph returns is made of.
fn unpacked(graph: &mut Graph, value: Value) -> Vec<Value> {
    match graph.definer(value).filter(|&node| graph.kind(node) == prim::TUPLE_CONSTRUCT) {
        Some(tuple) => {
            let parts = graph.inputs(tuple).collect();
            graph.erase(tuple);
            parts
        }
        None => vec![value],
    }
}

fn numbers(graph: &Graph, node: Node, name: Symbol) -> Vec<usize> {
    match graph.attribute(node, name) {
        Some(Attribute::List(all)) => all.iter().filter_map(|part| part.as_int().map(|n| n as usize)).collect(),
        _ => Vec::new(),
    }
}
