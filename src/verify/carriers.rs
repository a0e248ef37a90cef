//! Nodes and their sections.

use super::finding::{Sink, Spot, counted};
use crate::ir::{Attribute, Graph, Node};
use crate::ops::rules::Carries;
use crate::symbol::{Symbol, attr};
use crate::types::{Type, TypeKind};

/// Checks the arity of a section against its node.
pub(super) fn check(sink: &mut Sink<'_, '_>, node: Node, carries: Carries) {
    match (carries, sink.graph.subgraph(node)) {
        (_, None) => {
            let kind = sink.graph.kind(node);
            let finding = sink.warning(Spot::Node(node), format!("`{kind}` has no section"));
            finding.help(format!("expected `with {kind}_0 = graph(…):` after the graph"));
        }
        (_, Some(inner)) => {
            params(sink, node, carries, inner);
            outputs(sink, node, carries, inner);
            if carries == Carries::Differentiable {
                gradient(sink, node, inner);
            }
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
        // Further results are kept for the backward graph.
        Carries::Differentiable if outputs > results => {
            format!("`{kind}` has {found} and its section returns only {}", counted(results, "value"))
        }
        Carries::Future | Carries::Template if outputs != 1 => format!("`{kind}` has {found}, expected 1"),
        _ => return,
    };
    sink.error(Spot::Node(node), message);
}

/// Checks the correspondence of values between a subgraph and its backward graph. A subgraph
/// without any of the roles has no gradient yet, or was printed by PyTorch, which hides it.
fn gradient(sink: &mut Sink<'_, '_>, node: Node, forward: &Graph) {
    let (graph, backward) = (sink.graph, sink.graph.backward(node));
    if backward.is_none() && ROLES.iter().all(|(name, _)| graph.attribute(node, *name).is_none()) {
        return;
    }
    let Some(backward) = backward else {
        sink.error(Spot::Node(node), "it has attributes that describe a backward graph, but no backward graph");
        return;
    };
    let (mut given, params, results) = (0, forward.params(forward.root()).len(), forward.results(forward.root()).len());
    for (name, of) in ROLES {
        let Some(numbers) = graph.attribute(node, *name).and_then(numbers) else {
            sink.error(
                Spot::Node(node),
                format!("its backward graph requires the attribute `{name}`, a list of integers"),
            );
            continue;
        };
        let (what, count) = if *of == Of::Params { ("params", params) } else { ("results", results) };
        if let Some(wrong) = numbers.iter().find(|&&i| i < 0 || i as usize >= count) {
            sink.error(Spot::Node(node), format!("`{name}` names {wrong}, of {count} {what} counted from 0"));
        }
        given += if *name == attr::DF_OUTPUT_VJPS { 0 } else { numbers.len() };
    }
    let taken = backward.params(backward.root()).len();
    if taken != given {
        let given = counted(given, "value");
        sink.error(
            Spot::Node(node),
            format!("its backward graph takes {}, and is given {given}", counted(taken, "value")),
        );
    }
    let named = graph.attribute(node, attr::DF_OUTPUT_VJPS).and_then(numbers);
    if let Some(named) = named.map(|numbers| numbers.len()).filter(|&named| named != returned(backward)) {
        let found = counted(returned(backward), "value");
        sink.error(Spot::Node(node), format!("its backward graph returns {found}, and `df_output_vjps` names {named}"));
    }
    let real = graph.attribute(node, attr::F_REAL_OUTPUTS).and_then(Attribute::as_int);
    if real != Some(graph.num_outputs(node) as i64) {
        let outputs = counted(graph.num_outputs(node), "output");
        sink.error(Spot::Node(node), format!("it has {outputs}, which `f_real_outputs` contradicts"));
    }
}

/// The number of gradients that a backward graph returns: the elements of a tuple.
fn returned(backward: &Graph) -> usize {
    let results: Vec<Type> = backward.results(backward.root()).map(|result| backward.ty(result)).collect();
    match results[..] {
        [only] if matches!(only.kind(), TypeKind::Tuple(_)) => only.parts().len(),
        _ => results.len(),
    }
}

/// The values that a role numbers.
#[derive(PartialEq, Eq)]
enum Of {
    Params,
    Results,
}

/// The lists of corresponding values, and the values of the subgraph that each numbers.
const ROLES: &[(Symbol, Of)] = &[
    (attr::DF_INPUT_VJPS, Of::Results),
    (attr::DF_INPUT_CAPTURED_INPUTS, Of::Params),
    (attr::DF_INPUT_CAPTURED_OUTPUTS, Of::Results),
    (attr::DF_OUTPUT_VJPS, Of::Params),
];

fn numbers(attribute: &Attribute) -> Option<Vec<i64>> {
    match attribute {
        Attribute::List(all) => all.iter().map(Attribute::as_int).collect(),
        Attribute::EmptyList(_) => Some(Vec::new()),
        _ => None,
    }
}
