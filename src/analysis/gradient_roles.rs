//! The correspondence of values between a differentiable subgraph and its backward graph.
//!
//! Both are graphs of their own, so no edge leads from one to the other; a value of one is
//! identified in the other by its index alone. These indices are what PyTorch calls
//! `f_real_outputs`, `df_input_vjps` and so on, and does not print; here they are attributes, and
//! text.

use crate::ir::{Attribute, Graph, Node};
use crate::symbol::{Symbol, attr};

/// The attributes of a node that describe its backward graph, which only our text has.
pub const HIDDEN: [Symbol; 6] = [
    attr::REVERSE_SUBGRAPH,
    attr::F_REAL_OUTPUTS,
    attr::DF_INPUT_VJPS,
    attr::DF_INPUT_CAPTURED_INPUTS,
    attr::DF_INPUT_CAPTURED_OUTPUTS,
    attr::DF_OUTPUT_VJPS,
];

/// The indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The original number of results of the forward graph: values captured for the backward graph
    /// come after them.
    pub real_outputs: usize,
    /// The results of the forward graph whose gradients are the first params of the backward graph.
    pub input_vjps: Vec<usize>,
    /// The params of the forward graph that are the next params of the backward graph.
    pub captured_inputs: Vec<usize>,
    /// The results of the forward graph that are the last params of the backward graph.
    pub captured_outputs: Vec<usize>,
    /// The params of the forward graph whose gradients the backward graph returns, in a tuple.
    pub output_vjps: Vec<usize>,
}

impl Roles {
    /// The indices of a node; nothing where it has no backward graph, or no attributes.
    pub fn of(graph: &Graph, node: Node) -> Option<Roles> {
        graph.backward(node)?;
        let list = |name| numbers(graph, node, name);
        Some(Roles {
            real_outputs: graph.attribute(node, attr::F_REAL_OUTPUTS)?.as_int()? as usize,
            input_vjps: list(attr::DF_INPUT_VJPS)?,
            captured_inputs: list(attr::DF_INPUT_CAPTURED_INPUTS)?,
            captured_outputs: list(attr::DF_INPUT_CAPTURED_OUTPUTS)?,
            output_vjps: list(attr::DF_OUTPUT_VJPS)?,
        })
    }

    /// Writes the indices as attributes.
    pub fn note(&self, graph: &mut Graph, node: Node) {
        let list = |all: &[usize]| Attribute::List(all.iter().map(|&i| Attribute::Int(i as i64)).collect());
        graph.set_attribute(node, attr::F_REAL_OUTPUTS, Attribute::Int(self.real_outputs as i64));
        graph.set_attribute(node, attr::DF_INPUT_VJPS, list(&self.input_vjps));
        graph.set_attribute(node, attr::DF_INPUT_CAPTURED_INPUTS, list(&self.captured_inputs));
        graph.set_attribute(node, attr::DF_INPUT_CAPTURED_OUTPUTS, list(&self.captured_outputs));
        graph.set_attribute(node, attr::DF_OUTPUT_VJPS, list(&self.output_vjps));
    }
}

fn numbers(graph: &Graph, node: Node, name: Symbol) -> Option<Vec<usize>> {
    match graph.attribute(node, name)? {
        Attribute::List(all) => all.iter().map(|part| part.as_int().map(|n| n as usize)).collect(),
        Attribute::EmptyList(_) => Some(Vec::new()),
        _ => None,
    }
}
