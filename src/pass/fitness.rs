//! Checks whether passes can run over a graph.
//!
//! Passes rely on the absence of errors that the verifier reports: blocks, sections and operands
//! exist where their nodes need them. So every pipeline checks the graphs that it is given,
//! independent of checks in the driver, and no pass has to. Warnings are legal, because most passes
//! never visit the nodes concerned. Where a pass panics over a graph with such nodes, the graph is
//! rejected, too; where it panics over any other graph, that is a bug of the pass.

use super::pipeline::Pipeline;
use super::run_error::RunError;
use crate::ir::Graph;
use crate::ops::operator;
use crate::ops::rules::Carries;
use crate::ops::schema::Schema;
use crate::types::{Simple, Type, TypeKind};
use crate::verify;
use std::collections::BTreeMap;

/// The maximum number of warnings that are kept: they explain a refusal, they are not a complete
/// list.
const KEPT: usize = 3;

/// Warnings about a graph that may make a pass fail.
///
/// # Errors
/// Broken graphs, which no pass can run over.
pub(super) fn doubts(
    graph: &Graph,
    pipeline: &Pipeline,
    callees: &BTreeMap<String, Graph>,
) -> Result<Vec<String>, RunError> {
    let report = verify::verify(graph);
    let report = if pipeline.begins_with_ssa() { report.before_ssa() } else { report };
    if report.has_errors() {
        return Err(RunError::Unfit { pass: None, report: verify::render(graph, &report) });
    }
    if has_surplus_outputs(graph) {
        return Err(RunError::Unfit { pass: None, report: verify::render(graph, &report) });
    }
    for (name, callee) in callees {
        let found = verify::verify_structure_only(callee);
        if found.has_errors() {
            let report = format!("the graph of `{name}`:\n{}", verify::render(callee, &found));
            return Err(RunError::Unfit { pass: None, report });
        }
    }
    let kept = report.warnings().filter(|finding| !finding.is_about_name).take(KEPT);
    let lines = kept.map(|finding| match &finding.note {
        Some(note) => format!("  {}\n    note: {note}\n", finding.message),
        None => format!("  {}\n", finding.message),
    });
    Ok(lines.collect())
}

/// Whether a node has more outputs than any overload of its operator returns. The verifier warns of
/// that: passes replace results one by one, and would not end.
fn has_surplus_outputs(graph: &Graph) -> bool {
    let mut pending = vec![graph];
    while let Some(graph) = pending.pop() {
        for node in graph.all_nodes() {
            let operator = operator(graph.era, graph.kind(node));
            let (outputs, plain) = (graph.num_outputs(node), operator.rule.carries == Carries::Nothing);
            let returns = |schema: &Schema| schema.varret || schema.returns.len() >= outputs || may_be_tuple(schema);
            let mut overloads = operator.schemas.iter();
            if plain
                && !operator.schemas.is_empty()
                && !overloads.any(returns)
                && !operator.elsewhere().iter().any(returns)
            {
                return true;
            }
            pending.extend(graph.subgraph(node));
            pending.extend(graph.backward(node));
        }
    }
    false
}

/// Whether a result may be a tuple: PyTorch's `lower_all_tuples` makes an output of each element.
fn may_be_tuple(schema: &Schema) -> bool {
    let is_open = |ty: Type| matches!(ty.kind(), TypeKind::Var(_) | TypeKind::Tuple(_)) || ty.is(Simple::Any);
    schema.returns.iter().any(|result| is_open(result.ty))
}

/// The growth that a graph may have between the passes of a round of `fixpoint`, relative to the
/// bound after a round.
pub(super) const WITHIN_A_ROUND: usize = 5;

/// The maximal number of nodes after a round of `fixpoint`: repeated passes need not terminate.
pub(super) fn most_nodes(at_first: usize) -> usize {
    /// The number of nodes that any graph may reach.
    const SMALL: usize = 20_000;
    /// The maximum growth factor of a large graph.
    const GROWTH: usize = 50;
    SMALL.max(at_first.saturating_mul(GROWTH))
}

/// The nodes of a graph and its sections.
pub(super) fn size(graph: &Graph) -> usize {
    let (mut pending, mut total) = (vec![graph], 0);
    while let Some(graph) = pending.pop() {
        for node in graph.all_nodes() {
            total += 1;
            pending.extend(graph.subgraph(node));
            pending.extend(graph.backward(node));
        }
    }
    total
}
