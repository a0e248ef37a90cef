//! Nodes and the sections they carry.

use super::finding::{Sink, Spot, counted};
use crate::ir::{Graph, Node};
use crate::ops::rules::Carries;

/// Checks the arity of a section against the node that carries it.
pub(super) fn check(sink: &mut Sink<'_, '_>, node: Node, carries: Carries) {
    match (carries, sink.graph.subgraph(node)) {
        (_, None) => {
            let kind = sink.graph.kind(node);
            let finding = sink.warning(Spot::Node(node), format!("`{kind}` has no section"));
            finding.help(format!("expected `with {kind}_0 = graph(…):` behind the graph"));
        }
        (_, Some(inner)) => {
            params(sink, node, carries, inner);
            outputs(sink, node, carries, inner);
        }
    }
}

fn params(sink: &mut Sink<'_, '_>, node: Node, carries: Carries, inner: &Graph) {
    let operands = sink.graph.num_inputs(node);
    let expected = if carries == Carries::Template { 0 } else { inner.params(inner.root()).len() };
    if operands == expected {
        return;
    }
    let kind = sink.graph.kind(node);
    let found = counted(operands, "operand");
    let message = match carries {
        Carries::Template => format!("`{kind}` takes no operands, this one has {operands}"),
        _ => format!("`{kind}` has {found} and its section takes {}", counted(expected, "value")),
    };
    sink.error(Spot::Node(node), message);
}

fn outputs(sink: &mut Sink<'_, '_>, node: Node, carries: Carries, inner: &Graph) {
    let (outputs, results) = (sink.graph.num_outputs(node), inner.results(inner.root()).len());
    let kind = sink.graph.kind(node);
    let found = counted(outputs, "output");
    let message = match carries {
        Carries::Body if outputs != results => {
            format!("`{kind}` has {found} and its section returns {}", counted(results, "value"))
        }
        // What it returns beyond that is kept for the backward graph.
        Carries::Differentiable if outputs > results => {
            format!("`{kind}` has {found} and its section returns only {}", counted(results, "value"))
        }
        Carries::Future | Carries::Template if outputs != 1 => format!("`{kind}` has {found}, expected 1"),
        _ => return,
    };
    sink.error(Spot::Node(node), message);
}
