//! Puts nodes that have gradient formulas into subgraphs, each of which is differentiated as one.
//!
//! ```text
//! %a : Tensor = aten::mul(%x, %y)         %z : Tensor = prim::DifferentiableGraph_0(%x, %y)
//! %z : Tensor = aten::tanh(%a)       =>   return (%z)
//! return (%z)                             with prim::DifferentiableGraph_0 = graph(%x : Tensor, %y : Tensor):
//!                                           %a : Tensor = aten::mul(%x, %y)
//!                                           %z : Tensor = aten::tanh(%a)
//!                                           return (%z)
//! ```
//!
//! The subgraphs are those of PyTorch, found in its order. A column of the operator table gives the
//! formulas (`ops/rows/`). Each block is traversed from its end: a node with a formula
//! absorbs those of its producers that have one and can be moved before it, the last one first,
//! then the producers of absorbed nodes, until nothing changes. Constants are copied into the
//! subgraph. Groups of fewer than `threshold` nodes are inlined back.
//!
//! Nodes that run under `torch.no_grad()` are left alone, and no node moves in or out of that
//! region. From 2 on nodes with side effects are never crossed, dtype views (`aten::view`) stay
//! outside, and so does a node whose result shares memory with an operand or another result:
//! gradients that are computed separately would not meet in the shared memory. Such a node leaves
//! its group, with all its readers inside, see `create_autodiff_subgraphs/shared_results.rs`. Ends
//! with `cse`, as in PyTorch.
//!
//! Joining a pair costs the number of nodes between the two; the budget for that is linear in the
//! graph. Not idempotent: a node that `cse` merged may have kept a pair apart.

mod candidates;
mod shared_results;

use crate::common_subexpression_elimination;
use crate::group_building::Groups;
use candidates::Candidates;
use jitopt_core::analysis::differentiability::formula_row;
use jitopt_core::analysis::grad_mode::{is_about_grad_mode, switched_off};
use jitopt_core::entity::{EntitySet, SecondaryMap};
use jitopt_core::ir::{Block, Graph, Node};
use jitopt_core::ops;
use jitopt_core::outlining::dissolve;
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::prim;
use jitopt_core::types::era::Era;
use jitopt_core::{graph_dump, graph_update};
use rustc_hash::FxHashMap;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "create-autodiff-subgraphs",
    aliases: &[],
    summary: "put nodes with gradient formulas into subgraphs, each of which is differentiated as one",
    example: "%a : Tensor = aten::mul(%x, %y), %z : Tensor = aten::tanh(%a)  =>  %z : Tensor = prim::DifferentiableGraph_0(%x, %y)",
    options: &[PassOption { name: "threshold", default: "2", summary: "the minimum number of nodes in a subgraph" }],
    required: false,
    reads_shapes: true,
    run,
    file: file!(),
};

/// The budget for joining pairs, in nodes walked over per node of the graph.
const PATIENCE: usize = 64;
/// The number of nodes that may be walked over for one pair in any case.
const SMALL_PATIENCE: usize = 64;

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let threshold: usize = cx.option("threshold")?;
    if threshold == 0 {
        return Err(PassError::misuse("`threshold` must be at least 1: no group has fewer than 1 node"));
    }
    graph_dump!("Before making differentiable subgraphs", graph);
    let mut slicer = Slicer::new(graph, threshold);
    let blocks: Vec<Block> = graph.all_blocks().collect();
    for &block in &blocks {
        slicer.number_segments(graph, block);
        while slicer.round(graph, cx, block) && slicer.patience > 0 {}
        slicer.wrap_single_nodes(graph, cx, block);
    }
    for &block in &blocks {
        slicer.clean_up(graph, cx, block);
    }
    common_subexpression_elimination::merge(graph, cx);
    graph_dump!("After making differentiable subgraphs", graph);
    Ok(())
}

/// The state of making groups.
struct Slicer {
    groups: Groups,
    threshold: usize,
    /// Whether a node has a formula, by node that was checked.
    formulas: FxHashMap<Node, bool>,
    /// Nodes that may run with gradients disabled.
    off: EntitySet<Node>,
    /// The segment of each node: between which two nodes with side effects it stands, counted from
    /// 1 from the end of its block; 0 where groups would be too small, and where gradients are
    /// disabled.
    segments: SecondaryMap<Node, u32>,
    /// The number of nodes that may still be walked over.
    patience: usize,
}

impl Slicer {
    fn new(graph: &Graph, threshold: usize) -> Slicer {
        Slicer {
            groups: Groups::new(graph, prim::DIFFERENTIABLE_GRAPH),
            threshold,
            formulas: FxHashMap::default(),
            off: switched_off(graph),
            segments: SecondaryMap::new(),
            patience: PATIENCE * graph.num_shown_nodes() + SMALL_PATIENCE * SMALL_PATIENCE,
        }
    }

    /// Whether a node can be part of a group, or is one.
    fn is_wanted(&mut self, graph: &Graph, node: Node) -> bool {
        if graph.kind(node) == prim::DIFFERENTIABLE_GRAPH {
            return is_open(graph, node);
        }
        *self.formulas.entry(node).or_insert_with(|| {
            let row = formula_row(graph, node).filter(|_| graph.kind(node) != prim::CONSTANT);
            row.is_some_and(|row| graph.era == Era::V1_3 || !row.is_view)
        })
    }

    /// Numbers the segments of a block. In 1.3 a block is one segment, except for nodes that switch
    /// gradients off and on.
    fn number_segments(&mut self, graph: &Graph, block: Block) {
        let (mut number, mut segment, mut wanted) = (1, Vec::new(), 0);
        let nodes: Vec<Node> = graph.nodes(block).collect();
        for node in nodes.into_iter().rev() {
            let has_effect = graph.era == Era::V2 && self.groups.db.has_side_effects(node);
            if has_effect || is_about_grad_mode(graph, node) {
                self.close(&mut segment, number, wanted);
                (number, wanted) = (number + 1, 0);
                continue;
            }
            if self.off.contains(node) {
                continue;
            }
            wanted += usize::from(self.is_wanted(graph, node));
            segment.push(node);
        }
        self.close(&mut segment, number, if graph.era == Era::V1_3 { usize::MAX } else { wanted });
    }

    fn close(&mut self, segment: &mut Vec<Node>, number: u32, wanted: usize) {
        for node in segment.drain(..).filter(|_| wanted >= self.threshold) {
            self.segments.set(node, number);
        }
    }

    /// One traversal of a block, from its end; returns whether anything changed.
    fn round(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) -> bool {
        let (mut cursor, mut changed) = (graph.last(block), false);
        while let Some(node) = cursor {
            self.patience = self.patience.saturating_sub(1);
            let group = self.grow(graph, cx, node);
            changed |= group.is_some();
            cursor = graph.prev(group.unwrap_or(node));
        }
        changed
    }

    /// Absorbs producers into `consumer`; returns the group when there were any.
    fn grow(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, consumer: Node) -> Option<Node> {
        if self.segments[consumer] == 0 || !self.is_wanted(graph, consumer) {
            return None;
        }
        let (mut candidates, mut group) = (Candidates::default(), None);
        candidates.add_producers(graph, consumer);
        while let Some(producer) = candidates.pop(graph) {
            let at = group.unwrap_or(consumer);
            // Where rewrites are skipped, the producer may have been absorbed already.
            if producer == at || graph.block_of(producer).is_none() {
                continue;
            }
            if self.segments[producer] != self.segments[at]
                || !self.is_wanted(graph, producer)
                || !self.can_move(graph, producer, at)
            {
                continue;
            }
            candidates.add_producers(graph, producer);
            let grown = cx.rewrite(graph, "producers-grouped", producer, |graph| self.join(graph, producer, at));
            group = grown.or(group);
        }
        group
    }

    /// Makes one group of a consumer and a producer that can stand directly before it.
    fn join(&mut self, graph: &mut Graph, producer: Node, consumer: Node) -> Node {
        graph_update!("Taking in {}", graph.kind(producer));
        let segment = self.segments[consumer];
        self.groups.db.move_before_topologically(graph, producer, consumer);
        let group = self.groups.join(graph, producer, consumer);
        self.segments.set(group, segment);
        group
    }

    fn group_of(&mut self, graph: &mut Graph, node: Node) -> Node {
        if graph.kind(node) == prim::DIFFERENTIABLE_GRAPH {
            return node;
        }
        let segment = self.segments[node];
        let group = self.groups.wrap(graph, node);
        self.segments.set(group, segment);
        group
    }

    /// Whether `node` can stand directly before `anchor`.
    fn can_move(&mut self, graph: &Graph, node: Node, anchor: Node) -> bool {
        if graph.prev(anchor) == Some(node) {
            return true;
        }
        let allowed = self.patience.max(SMALL_PATIENCE);
        let mut steps = allowed;
        let could = self.groups.db.could_move_within(graph, node, anchor, &mut steps);
        self.patience = self.patience.saturating_sub(allowed - steps);
        could == Some(true)
    }

    /// Makes single-node groups of nodes that absorbed nothing.
    fn wrap_single_nodes(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let nodes: Vec<Node> = graph.nodes(block).collect();
        for node in nodes {
            let is_bare = self.segments[node] > 0 && graph.kind(node) != prim::DIFFERENTIABLE_GRAPH;
            if is_bare && self.is_wanted(graph, node) && size_alone(graph, node) >= self.threshold {
                cx.rewrite(graph, "loners-grouped", node, |graph| self.group_of(graph, node));
            }
        }
    }

    /// Moves out nodes that share memory, merges equal nodes inside, and inlines small groups.
    fn clean_up(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) {
        let groups = |graph: &Graph| -> Vec<Node> {
            graph
                .nodes(block)
                .filter(|&node| graph.kind(node) == prim::DIFFERENTIABLE_GRAPH && is_open(graph, node))
                .collect()
        };
        for group in groups(graph) {
            self.groups.finish(graph, group);
            while graph.era == Era::V2 && shared_results::put_out(graph, cx, group) {}
            graph.with_subgraph(group, |section| common_subexpression_elimination::merge(section, cx));
        }
        for group in groups(graph) {
            if graph.subgraph(group).is_some_and(|section| size(section) < self.threshold) {
                cx.rewrite(graph, "groups-dissolved", group, |graph| dissolve(graph, group, |_, _, _| {}));
            }
        }
    }
}

/// Whether a group has no gradient yet. A group that has one keeps its section unchanged, because
/// its gradient reads values of it. It is recognised by a section with more results than the node
/// has outputs, as printed by a version of PyTorch that prints nothing else of gradients.
fn is_open(graph: &Graph, group: Node) -> bool {
    let all_shown = |section: &Graph| section.results(section.root()).len() == graph.num_outputs(group);
    graph.subgraph(group).is_some_and(all_shown) && graph.attributes(group).len() == 1
}

/// The size of a section: in 1.3 all nodes count, later those that are executed.
fn size(section: &Graph) -> usize {
    section.nodes(section.root()).filter(|&node| section.era == Era::V1_3 || is_executed(section, node)).count()
}

/// The [`size`] of a group that would hold only this node.
fn size_alone(graph: &Graph, node: Node) -> usize {
    if graph.era == Era::V2 {
        return usize::from(is_executed(graph, node));
    }
    let made = |value| graph.definer(value).filter(|&made| graph.kind(made) == prim::CONSTANT);
    let mut constants: Vec<Node> = graph.inputs(node).filter_map(made).collect();
    constants.sort_unstable();
    constants.dedup();
    1 + constants.len()
}

/// Whether a node computes something when the graph runs.
fn is_executed(graph: &Graph, node: Node) -> bool {
    let rule = ops::operator(graph.era, graph.kind(node)).rule;
    graph.kind(node) != prim::CONSTANT && rule.basis != ops::rules::Basis::Profiled
}
