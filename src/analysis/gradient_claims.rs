//! `requires_grad` facts in types, and which of them are reliable.
//!
//! A graph is differentiated by its caller, independent of the state when its text was printed:
//! tracers and profiles print `requires_grad=0` for all values of a run without gradients,
//! PyTorch's tracer for the result of each convolution, and for values computed under `no_grad`. A
//! value computed from operands that may have a gradient may have one. The types of params are
//! trusted, because they determine whether a gradient is requested.

use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::prim;
use crate::types::{TensorType, Type, TypeKind};

/// Whether a value may have a gradient; unknown values may.
pub fn requires_gradient(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Tensor(tensor) => {
            tensor.requires_grad.unwrap_or(true)
                && tensor.dtype.is_none_or(|dtype| dtype.is_float() || dtype.is_complex())
        }
        TypeKind::List(inner)
        | TypeKind::Optional(inner)
        | TypeKind::Dict(_, inner)
        | TypeKind::Future(inner)
        | TypeKind::RRef(inner) => requires_gradient(*inner),
        TypeKind::Tuple(_) | TypeKind::NamedTuple(_) => ty.parts().into_iter().any(requires_gradient),
        _ => false,
    }
}

/// Removes `requires_grad=0` from types of computed values, where an operand may have a gradient.
pub fn forget_claims(graph: &mut Graph) {
    forget_in(graph, graph.root());
}

/// Returns whether anything was removed.
fn forget_in(graph: &mut Graph, block: Block) -> bool {
    let nodes: Vec<Node> = graph.nodes(block).collect();
    let mut any = false;
    for node in nodes {
        any |= if graph.num_blocks(node) > 0 { forget_of_blocks(graph, node) } else { forget_of_outputs(graph, node) };
    }
    any
}

fn forget_of_outputs(graph: &mut Graph, node: Node) -> bool {
    if !graph.inputs(node).any(|value| requires_gradient(graph.ty(value))) {
        return false;
    }
    let outputs: Vec<Value> = graph.outputs(node).collect();
    outputs.into_iter().fold(false, |any, output| forget(graph, output) | any)
}

/// For branches and loops: propagates from the results of their blocks, and through loop-carried
/// values until nothing changes.
fn forget_of_blocks(graph: &mut Graph, node: Node) -> bool {
    let blocks: Vec<Block> = graph.node_blocks(node).collect();
    let is_loop = graph.kind(node) == prim::LOOP;
    let mut any = false;
    loop {
        let mut again = false;
        for &block in &blocks {
            again |= forget_in(graph, block);
            let results: Vec<Value> = graph.results(block).skip(usize::from(is_loop)).collect();
            let carried: Vec<Value> = if is_loop { graph.params(block).skip(1).collect() } else { Vec::new() };
            let begins: Vec<Value> =
                graph.inputs(node).skip(if is_loop { 2 } else { graph.num_inputs(node) }).collect();
            let outputs: Vec<Value> = graph.outputs(node).collect();
            for (i, &result) in results.iter().enumerate() {
                let flows = [Some(&result), begins.get(i)].into_iter().flatten();
                if flows.clone().any(|&value| requires_gradient(graph.ty(value))) {
                    let reached = [outputs.get(i), carried.get(i)].into_iter().flatten();
                    again |= reached.fold(false, |any, &value| forget(graph, value) | any);
                }
            }
        }
        any |= again;
        if !again {
            return any;
        }
    }
}

fn forget(graph: &mut Graph, value: Value) -> bool {
    let before = graph.ty(value);
    let after = before.map_tensors(&mut |tensor| {
        let requires_grad = tensor.requires_grad.filter(|&claim| claim);
        Type::new(TypeKind::Tensor(TensorType { requires_grad, ..tensor.clone() }))
    });
    if after != before {
        graph.set_type(value, after);
    }
    after != before
}
