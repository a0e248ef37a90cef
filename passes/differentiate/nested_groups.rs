//! Groups that have a backward graph, in a graph that is differentiated as a whole: an operator
//! whose formula is that graph.
//!
//! ```text
//! %z : Tensor = prim::DifferentiableGraph_0(%x)              | %z, %kept = prim::DifferentiableGraph_0(%x)
//! with prim::DifferentiableGraph_0.backward = graph(…)    => | and the nodes of its backward graph in the one around
//! ```
//!
//! The pass does so in a graph that is differentiated as a whole (`differentiate{whole}`): the
//! backward graph that was edited or fused is the one that runs.

use super::formula_writer::{Unfit, capture};
use super::reverse_graph::Reverse;
use jitopt_core::analysis::gradient_roles::{HIDDEN, Roles};
use jitopt_core::ir::{Graph, Node, Value, ValueMap};
use jitopt_core::symbol::prim;

impl Reverse {
    /// The gradients of a group's operands. The group returns the values that its backward graph
    /// reads from now on.
    pub(super) fn group(&mut self, forward: &mut Graph, node: Node) -> Result<Vec<(Value, Value)>, Unfit> {
        let (roles, backward) = Roles::of(forward, node)
            .zip(forward.backward(node).cloned())
            .ok_or("a group has no attributes that describe its backward graph")?;
        hand_out_all(forward, node);
        let operands: Vec<Value> = forward.inputs(node).collect();
        let outputs: Vec<Value> = forward.outputs(node).collect();
        let gradients: Vec<Value> = roles.input_vjps.iter().map(|&i| self.get(outputs[i])).collect();
        let read = roles.captured_inputs.iter().map(|&i| operands[i]);
        let read: Vec<Value> = read.chain(roles.captured_outputs.iter().map(|&i| outputs[i])).collect();
        let captured = read.into_iter().map(|value| capture(&mut self.graph, forward, &mut self.captured, value));
        let given: Vec<Value> = gradients.iter().copied().chain(captured).collect();
        let mut map: ValueMap = backward.params(backward.root()).zip(given).collect();
        let root = self.graph.root();
        let results = self.graph.copy_block_into(Some(&backward), backward.root(), root, &mut map);
        let found = match results[..] {
            [result] if !self.graph.ty(result).is_tensor() => self.elements(result)?,
            _ => results,
        };
        for name in HIDDEN {
            forward.remove_attribute(node, name);
        }
        found.iter().for_each(|&gradient| self.follow(gradient, &gradients));
        Ok(roles.output_vjps.iter().map(|&i| operands[i]).zip(found).collect())
    }

    /// The elements of a tuple.
    fn elements(&self, tuple: Value) -> Result<Vec<Value>, Unfit> {
        let maker = self.graph.definer(tuple).filter(|&node| self.graph.kind(node) == prim::TUPLE_CONSTRUCT);
        let maker = maker.ok_or("the backward graph of a group does not return a tuple that it makes")?;
        Ok(self.graph.inputs(maker).collect())
    }
}

/// Adds the results of a section that were only captured for the backward graph as outputs of its
/// node.
fn hand_out_all(forward: &mut Graph, node: Node) {
    let types: Vec<_> = forward
        .subgraph(node)
        .map(|section| section.results(section.root()).map(|result| section.ty(result)).collect())
        .unwrap_or_default();
    for &ty in &types[forward.num_outputs(node).min(types.len())..] {
        forward.add_output(node, ty);
    }
}
