//! Inlines small differentiable subgraphs: eager mode differentiates a few operators as well.
//!
//! ```text
//! %z : Tensor = prim::DifferentiableGraph_0(%x)
//! with prim::DifferentiableGraph_0 = graph(%x : Tensor):   =>   %z : Tensor = aten::tanh(%x)
//!   %z : Tensor = aten::tanh(%x)
//!   return (%z)
//! ```
//!
//! A subgraph is small when it has fewer than `threshold` nodes, constants included; it is left
//! alone when it contains a node that only a compiler creates, such as a fusion group. Captured
//! values for its gradients are dropped. Ends with `dce`, as in PyTorch. Linear in nodes;
//! idempotent.

use crate::dead_code_elimination;
use jitopt_core::ir::{Graph, Node};
use jitopt_core::ops::{self, rules::Carries};
use jitopt_core::outlining::dissolve;
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::prim;
use jitopt_core::{graph_dump, graph_update};

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "inline-autodiff-subgraphs",
    aliases: &[],
    summary: "inline small differentiable subgraphs",
    example: "%z : Tensor = prim::DifferentiableGraph_0(%x)  =>  %z : Tensor = aten::tanh(%x)",
    options: &[PassOption {
        name: "threshold",
        default: "5",
        summary: "the minimum number of nodes of a subgraph that stays",
    }],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let threshold: usize = cx.option("threshold")?;
    graph_dump!("Before inlining differentiable subgraphs", graph);
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::DIFFERENTIABLE_GRAPH).collect();
    for group in groups {
        let Some(section) = graph.subgraph(group) else { continue };
        let small = section.nodes(section.root()).count() < threshold;
        if small && !holds_groups(section) {
            cx.rewrite(graph, "groups-dissolved", group, |graph| {
                graph_update!("Inlining a group of {} operands", graph.num_inputs(group));
                dissolve(graph, group, |_, _, _| {});
            });
        }
    }
    dead_code_elimination::eliminate(graph, cx, true);
    graph_dump!("After inlining differentiable subgraphs", graph);
    Ok(())
}

/// Whether a section has a node with a section of its own, or one that eager mode does not have.
fn holds_groups(section: &Graph) -> bool {
    section.all_nodes().any(|node| {
        let operator = ops::operator(section.era, section.kind(node));
        operator.rule.carries != Carries::Nothing || !operator.is_known()
    })
}
