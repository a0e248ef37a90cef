//! Runs forked graphs immediately, without futures.
//!
//! ```text
//! %f : Future[Tensor] = prim::fork_0(%x)              %1 : Tensor = aten::neg(%x)
//! %y : Tensor = aten::wait(%f)                  =>
//! with prim::fork_0 = graph(%x : Tensor):
//!   %1 : Tensor = aten::neg(%x)
//!   return (%1)
//! ```
//!
//! A wait for a future that no fork of this graph created stays, and so does a fork whose future
//! has other uses than waits (in a list, as a result of the graph): its body must not run twice. So
//! does a fork that may fail where a wait is not certain: an exception of a fork is raised at the
//! wait. PyTorch 1.3 and 1.4 leave fork and wait in place in addition to the body; with
//! `--torch=1.3` that is imitated where running the body twice changes nothing, and only there.
//!
//! Linear in the nodes of the result.

use crate::inliner::may_be_left;
use jitopt_core::ir::{Graph, Node, ValueMap};
use jitopt_core::ops;
use jitopt_core::outlining::copied;
use jitopt_core::pass::{PassContext, PassError, PassInfo};
use jitopt_core::symbol::{aten, prim};
use jitopt_core::types::Type;
use jitopt_core::types::era::Era;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "inline-fork-wait",
    aliases: &[],
    summary: "run forked graphs in place, without futures",
    example: "%f : Future[Tensor] = prim::fork_0(%x), %y : Tensor = aten::wait(%f)  =>  the body of prim::fork_0",
    options: &[],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    graph_dump!("Before inlining forks", graph);
    let is_fork = |graph: &Graph, node: Node| graph.kind(node) == prim::FORK && graph.subgraph(node).is_some();
    let mut forks: Vec<Node> = graph.all_nodes().filter(|&node| is_fork(graph, node)).collect();
    // A body may contain forks: those are appended to the list.
    let mut at = 0;
    while let Some(&fork) = forks.get(at) {
        at += 1;
        if !only_waited_for(graph, fork) {
            cx.missed(graph, "forks-inlined", fork, || "its future has other uses than waits".to_owned());
            continue;
        }
        if !is_waited_for(graph, fork) {
            cx.missed(graph, "forks-inlined", fork, || {
                "it may raise, and a wait that would observe that is not certain".to_owned()
            });
            continue;
        }
        let copies = cx.rewrite(graph, "forks-inlined", fork, |graph| inline(graph, fork)).unwrap_or_default();
        forks.extend(with_nested(graph, copies).into_iter().filter(|&node| is_fork(graph, node)));
    }
    graph_dump!("After inlining forks", graph);
    Ok(())
}

fn only_waited_for(graph: &Graph, fork: Node) -> bool {
    let matches = graph.single_output(fork).is_some()
        && graph.subgraph(fork).is_some_and(|body| {
            !may_be_left(body)
                && body.results(body.root()).len() == 1
                && body.params(body.root()).len() == graph.num_inputs(fork)
        });
    let waits = |user| graph.kind(user) == aten::WAIT && graph.num_outputs(user) == 1;
    matches && graph.users(graph.output(fork, 0)).all(waits)
}

/// Whether an exception of the body is certainly observed: a wait follows wherever the fork is run,
/// or nothing in the body can fail.
fn is_waited_for(graph: &Graph, fork: Node) -> bool {
    let home = graph.block_of(fork);
    if graph.users(graph.output(fork, 0)).any(|wait| graph.block_of(wait) == home) {
        return true;
    }
    let is_total = |body: &Graph, node: Node| {
        let operands: Vec<Type> = body.inputs(node).map(|value| body.ty(value)).collect();
        ops::operator(body.era, body.kind(node)).is_total(&operands)
    };
    graph.subgraph(fork).is_some_and(|body| body.all_nodes().all(|node| is_total(body, node)))
}

/// Nodes and all nodes nested in their blocks.
fn with_nested(graph: &Graph, mut nodes: Vec<Node>) -> Vec<Node> {
    let mut at = 0;
    while let Some(&node) = nodes.get(at) {
        at += 1;
        nodes.extend(graph.node_blocks(node).flat_map(|block| graph.nodes(block)));
    }
    nodes
}

/// Replaces the fork by the body; returns its nodes.
fn inline(graph: &mut Graph, fork: Node) -> Vec<Node> {
    let future = graph.output(fork, 0);
    graph_update!("Inlining fork of %{}", graph.name(future));
    let Some(body) = graph.subgraph(fork).cloned() else { return Vec::new() };
    let mut copies = Vec::new();
    let operands: Vec<_> = graph.inputs(fork).collect();
    let mut map: ValueMap = body.params(body.root()).zip(operands).collect();
    let mut cursor = body.first(body.root());
    while let Some(node) = cursor {
        cursor = body.next(node);
        let copy = copied(graph, &body, node, &mut map);
        graph.insert_before(fork, copy);
        copies.push(copy);
    }
    let result = body.results(body.root()).next().expect("the body has one result, as checked above");
    let result = graph.mapped(Some(&body), result, &mut map);
    let leave = graph.era == Era::V1_3 && runs_twice_unnoticed(&body);
    let waits: Vec<Node> = graph.users(future).collect();
    for wait in waits {
        let waited = graph.output(wait, 0);
        graph.replace_all_uses(waited, result);
        if !leave {
            graph.erase(wait);
        }
    }
    if !leave {
        graph.erase(fork);
    }
    copies
}

fn runs_twice_unnoticed(body: &Graph) -> bool {
    body.all_nodes().all(|node| {
        let types: Vec<_> = body.inputs(node).map(|value| body.ty(value)).collect();
        let operator = ops::operator(body.era, body.kind(node));
        operator.is_pure(operator.resolve(&types).schema())
    })
}
