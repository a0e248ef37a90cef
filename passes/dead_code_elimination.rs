//! Dead code elimination.
//!
//! ```text
//! %a : Tensor, %b : Tensor = prim::If(%c)            %a : Tensor = prim::If(%c)
//!   block0():                                          block0():
//!     %1 : Tensor = aten::neg(%x)                        %1 : Tensor = aten::neg(%x)
//!     %2 : Tensor = aten::exp(%x)               =>       -> (%1)
//!     -> (%1, %2)                                      block1():
//!   block1():                                            -> (%x)
//!     -> (%x, %x)                                    return (%a)
//! return (%a)
//! ```
//!
//! Mark and sweep. A node is live when it has an effect, when a live value is its output, or when
//! it writes to memory that a live value may share; a live node keeps its operands and the
//! enclosing nodes alive. Marking runs backwards, so a write after the last reader is dead. A read
//! in a later iteration keeps an earlier write alive: the body of a loop is marked until nothing is
//! added. A write to memory that is not known to be fresh is an effect.
//!
//! With `alias=false` memory is not analysed, and every write stays, as when PyTorch calls the pass
//! on a block without a graph. Randomness and exceptions of operators are no effects: a dead `rand`
//! is erased, and so is a dead division by zero.
//!
//! Linear in nodes, times the rounds that loop bodies take: two, and one more for each write that
//! only a later iteration makes live.

use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops::{self, Operator};
use jitopt_core::pass::{PassContext, PassError, PassInfo, PassOption};
use jitopt_core::symbol::prim;
use jitopt_core::{graph_debug, graph_dump, graph_update};
use std::rc::Rc;

/// The registry entry.
pub const PASS: PassInfo = PassInfo {
    name: "dce",
    aliases: &["dce-graph", "eliminate-dead-code"],
    summary: "erase dead nodes, branch results and loop state",
    example: "%y : Tensor = aten::neg(%x), return (%x)  =>  return (%x)",
    options: &[PassOption {
        name: "alias",
        default: "true",
        summary: "erase writes to memory that is never read; false keeps every write",
    }],
    required: false,
    reads_shapes: false,
    run,
    file: file!(),
};

fn run(graph: &mut Graph, cx: &mut PassContext<'_>) -> Result<(), PassError> {
    let alias = cx.flag("alias")?;
    graph_dump!("Before dead code elimination", graph);
    eliminate(graph, cx, alias);
    graph_dump!("After dead code elimination", graph);
    Ok(())
}

/// Erases dead nodes; other passes end with it.
pub(crate) fn eliminate(graph: &mut Graph, cx: &mut PassContext<'_>, alias: bool) {
    drop_unused_fork_inputs(graph, cx);
    let memory = alias.then(|| cx.alias_of_writes(graph));
    let mut liveness = Liveness::new(graph, memory);
    liveness.mark(graph);
    sweep(graph, cx, &liveness.marked);
}

/// An unread param of a forked graph needs no operand, which may then be dead.
fn drop_unused_fork_inputs(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let forks: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::FORK).collect();
    for fork in forks {
        for i in (0..graph.num_inputs(fork)).rev() {
            let unused = graph.subgraph(fork).is_some_and(|body| {
                let param = body.params(body.root()).nth(i);
                body.params(body.root()).len() == graph.num_inputs(fork) && param.is_some_and(|p| !body.has_uses(p))
            });
            if unused {
                cx.rewrite(graph, "fork-inputs-removed", fork, |graph| {
                    graph.remove_input(fork, i);
                    graph.with_subgraph(fork, |body| body.remove_output(body.param_node(body.root()), i));
                });
            }
        }
    }
}

/// A block that is being marked, from its end.
struct Frame {
    block: Block,
    /// The node to visit next.
    cursor: Option<Node>,
    /// The blocks of the cursor that are still to be marked.
    nested: usize,
    /// Whether anything in the block was marked in this round.
    changed: bool,
}

struct Liveness {
    marked: EntitySet<Node>,
    values: EntitySet<Value>,
    memory: Option<Memory>,
    /// Nodes with effects that cannot be erased, known from the start.
    effects: EntitySet<Node>,
}

/// The live memory.
struct Memory {
    db: Rc<AliasDb>,
    live: EntitySet<Location>,
}

impl Liveness {
    fn new(graph: &Graph, db: Option<Rc<AliasDb>>) -> Liveness {
        let memory = db.map(|db| Memory { db, live: EntitySet::new() });
        let mut liveness =
            Liveness { marked: EntitySet::new(), values: EntitySet::new(), memory, effects: EntitySet::new() };
        for node in graph.all_nodes() {
            if liveness.is_effect(graph, node) {
                // Every node that encloses an effect has it too.
                let around = std::iter::successors(Some(node), |&node| graph.enclosing(node));
                for node in around {
                    if !liveness.effects.insert(node) {
                        break;
                    }
                }
            }
        }
        liveness
    }

    fn is_effect(&self, graph: &Graph, node: Node) -> bool {
        let operator = ops::operator(graph.era, graph.kind(node));
        if operator.has_side_effects()
            || carries(graph, node, |g, n| ops::operator(g.era, g.kind(n)).has_side_effects())
        {
            return true;
        }
        match &self.memory {
            Some(memory) => memory.db.writes_to_wildcard(node),
            None => {
                writes(graph, node, operator)
                    || carries(graph, node, |g, n| writes(g, n, ops::operator(g.era, g.kind(n))))
            }
        }
    }

    /// Marks all blocks, innermost first, without recursion.
    fn mark(&mut self, graph: &Graph) {
        let mut frames = vec![self.enter(graph, graph.root())];
        while let Some(top) = frames.last_mut() {
            let Some(node) = top.cursor else {
                self.leave(graph, &mut frames);
                continue;
            };
            if top.nested < graph.num_blocks(node) {
                let block = graph.node_block(node, top.nested);
                top.nested += 1;
                let frame = self.enter(graph, block);
                frames.push(frame);
                continue;
            }
            (top.cursor, top.nested) = (graph.prev(node), 0);
            top.changed |= self.mark_if_live(graph, node);
        }
    }

    fn enter(&mut self, graph: &Graph, block: Block) -> Frame {
        let mut changed = false;
        for node in graph.nodes(block) {
            changed |= self.effects.contains(node) && self.mark_node(graph, node);
        }
        changed |= self.mark_results(graph, block);
        Frame { block, cursor: graph.last(block), nested: 0, changed }
    }

    /// A loop body in which something was marked is marked again: one iteration reads what another
    /// wrote.
    fn leave(&mut self, graph: &Graph, frames: &mut Vec<Frame>) {
        let frame = frames.pop().expect("the frame on top of the stack");
        let is_loop = graph.owner_node(frame.block).is_some_and(|node| graph.kind(node) == prim::LOOP);
        if let Some(outer) = frames.last_mut() {
            outer.changed |= frame.changed;
        }
        if is_loop && frame.changed {
            let again = self.enter(graph, frame.block);
            frames.push(again);
        }
    }

    /// Marks the results of a block that are read outside, or in the next iteration.
    fn mark_results(&mut self, graph: &Graph, block: Block) -> bool {
        // Repeated in every round of the enclosing loops: an output of the node may have become
        // live since.
        let node = graph.return_node(block);
        let Some(owner) = graph.owner_node(block) else {
            return self.mark_node(graph, node);
        };
        let is_loop = graph.kind(owner) == prim::LOOP;
        let offset = usize::from(is_loop);
        let mut fresh = self.marked.insert(node);
        for (i, result) in graph.results(block).enumerate() {
            let carried = i.checked_sub(offset);
            let read_outside =
                carried.is_some_and(|k| k < graph.num_outputs(owner) && self.values.contains(graph.output(owner, k)));
            let read_inside =
                is_loop && (i == 0 || graph.params(block).nth(i).is_some_and(|param| graph.has_uses(param)));
            if read_outside || read_inside {
                fresh |= self.mark_value(result);
            }
        }
        fresh
    }

    fn mark_if_live(&mut self, graph: &Graph, node: Node) -> bool {
        let read = graph.outputs(node).any(|value| self.values.contains(value));
        let writes_live = || self.memory.as_ref().is_some_and(|m| m.db.writes_to_any(node, &m.live));
        (read || writes_live()) && self.mark_node(graph, node)
    }

    /// Marks a node, its operands, and the enclosing nodes.
    fn mark_node(&mut self, graph: &Graph, node: Node) -> bool {
        let mut fresh = false;
        let mut at = Some(node);
        while let Some(node) = at {
            if !self.marked.insert(node) {
                break;
            }
            graph_debug!("{} is live", graph.kind(node));
            fresh = true;
            let count = graph.num_inputs(node);
            for i in 0..count {
                self.mark_value(graph.input(node, i));
            }
            at = graph.enclosing(node);
        }
        fresh
    }

    fn mark_value(&mut self, value: Value) -> bool {
        let fresh = self.values.insert(value);
        if fresh && let Some(memory) = &mut self.memory {
            memory.db.mark_reachable(value, &mut memory.live);
        }
        fresh
    }
}

/// Whether a node writes to any of its operands, according to its schemas.
fn writes(graph: &Graph, node: Node, operator: &Operator) -> bool {
    if !operator.schemas.iter().any(|schema| operator.may_write(Some(schema)))
        && !operator.may_write(operator.schemas.first())
    {
        return false;
    }
    let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    operator.may_write(operator.resolve_erased(&types).schema())
}

/// Whether the subgraph of a node, or one nested in it, holds such a node.
fn carries(graph: &Graph, node: Node, wanted: impl Fn(&Graph, Node) -> bool) -> bool {
    let mut graphs: Vec<&Graph> = graph.subgraph(node).into_iter().collect();
    while let Some(graph) = graphs.pop() {
        for node in graph.all_nodes() {
            if wanted(graph, node) {
                return true;
            }
            graphs.extend(graph.subgraph(node));
        }
    }
    false
}

/// Erases unmarked nodes, last first: users come after the values that they use, so operands are
/// free in time.
fn sweep(graph: &mut Graph, cx: &mut PassContext<'_>, marked: &EntitySet<Node>) {
    let mut work = vec![(graph.last(graph.root()), 0usize)];
    while let Some((cursor, nested)) = work.pop() {
        let Some(node) = cursor else { continue };
        if nested == 0 {
            remove_dead_results(graph, cx, node);
        }
        if nested < graph.num_blocks(node) {
            work.push((cursor, nested + 1));
            let block = graph.node_block(node, nested);
            work.push((graph.last(block), 0));
            continue;
        }
        work.push((graph.prev(node), 0));
        let unmarked = !marked.contains(node);
        let unread = graph.outputs(node).all(|value| !graph.has_uses(value));
        let unused = unmarked && unread;
        if unused && cx.may("nodes-erased") {
            graph_update!("{} w/ outputs {} will be removed", graph.kind(node), output_names(graph, node));
            cx.did(graph, "nodes-erased", node);
            graph.erase(node);
        }
    }
}

fn output_names(graph: &Graph, node: Node) -> String {
    graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect::<Vec<_>>().join(", ")
}

/// Removes unread branch results, and loop state that is read neither outside nor inside.
fn remove_dead_results(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node) {
    let kind = graph.kind(node);
    if !matches!(kind, prim::IF | prim::GRAD_OF | prim::LOOP) || !fits(graph, node) {
        return;
    }
    for i in (0..graph.num_outputs(node)).rev() {
        if graph.has_uses(graph.output(node, i)) {
            continue;
        }
        if kind == prim::LOOP {
            remove_loop_slot(graph, cx, node, i);
        } else {
            cx.rewrite(graph, "results-removed", node, |graph| {
                graph.remove_output(node, i);
                let blocks: Vec<Block> = graph.node_blocks(node).collect();
                for block in blocks {
                    graph.remove_input(graph.return_node(block), i);
                }
            });
        }
    }
}

/// Whether the counts of blocks, operands and outputs agree; an unverified graph may violate that.
pub(crate) fn fits(graph: &Graph, node: Node) -> bool {
    let outputs = graph.num_outputs(node);
    let extra = usize::from(graph.kind(node) == prim::LOOP);
    let results = graph.node_blocks(node).all(|block| graph.results(block).len() == outputs + extra);
    let state = extra == 0 || graph.node_blocks(node).all(|block| graph.params(block).len() == outputs + 1);
    results && state && (extra == 0 || (graph.num_inputs(node) == outputs + 2 && graph.num_blocks(node) == 1))
}

fn remove_loop_slot(graph: &mut Graph, cx: &mut PassContext<'_>, node: Node, i: usize) {
    let body = graph.node_block(node, 0);
    let read = graph.params(body).nth(i + 1).is_none_or(|param| graph.has_uses(param));
    if read {
        return;
    }
    cx.rewrite(graph, "loop-state-removed", node, |graph| {
        graph.remove_output(node, i);
        graph.remove_input(node, i + 2);
        graph.remove_output(graph.param_node(body), i + 1);
        graph.remove_input(graph.return_node(body), i + 1);
    });
}
