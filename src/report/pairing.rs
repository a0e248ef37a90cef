//! Finds the nodes of a later graph that correspond to nodes of an earlier one.
//!
//! Nodes that compute the same from the same operands are found by fingerprints, from the most
//! exact to the least. Nodes after a change have other fingerprints and are found by name, or by
//! their position among similar nodes:
//!
//! ```text
//! %a = aten::neg(%x)          %a = aten::exp(%x)        no partner
//! %b = aten::tanh(%a)         %b = aten::tanh(%a)       partners by name
//! %1 = aten::mul(%b, %b)      %7 = aten::mul(%b, %b)    partners by place
//! ```
//!
//! Blocks are paired with their owners. Linear, except for runs of nodes without partners, which
//! are aligned like the lines of a diff.

use super::line_changes::steps;
use crate::analysis::fingerprints::{Fingerprints, Sight};
use crate::ir::{Block, Graph, Node, Value};
use crate::symbol::Symbol;
use rustc_hash::FxHashMap;
use similar::DiffOp;

/// The maximum product of the lengths of two runs that are aligned; longer ones are paired in
/// order.
const ALIGNED: usize = 1 << 26;

/// Partners among the nodes and values of two graphs.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    after: FxHashMap<Node, Node>,
    before: FxHashMap<Node, Node>,
    values: FxHashMap<Value, Value>,
    /// Nodes that compute the same, but in another order among writes and effects.
    pub(super) reordered: Vec<(Node, Node)>,
}

impl Pairing {
    /// Pairs two graphs.
    pub(crate) fn new(before: &Graph, after: &Graph) -> Pairing {
        let mut pairing = Pairing::default();
        pairing.block(before, before.root(), after, after.root());
        for sight in [Sight::EXACT, Sight::COMPUTATION, Sight { types: false, order: false }] {
            pairing.by_fingerprints(before, after, sight);
        }
        pairing.by_names(before, after);
        pairing.by_place(before, after);
        pairing
    }

    /// The partner of a node of the first graph.
    pub(crate) fn after(&self, node: Node) -> Option<Node> {
        self.after.get(&node).copied()
    }

    /// The partner of a node of the second graph.
    pub(crate) fn before(&self, node: Node) -> Option<Node> {
        self.before.get(&node).copied()
    }

    /// The partner of a value of the first graph.
    pub(crate) fn value_after(&self, value: Value) -> Option<Value> {
        self.values.get(&value).copied()
    }

    fn block(&mut self, a: &Graph, block: Block, b: &Graph, other: Block) {
        self.values.extend(a.params(block).zip(b.params(other)));
        let ends = [(a.param_node(block), b.param_node(other)), (a.return_node(block), b.return_node(other))];
        for (node, other) in ends {
            self.after.insert(node, other);
            self.before.insert(other, node);
        }
    }

    fn pair(&mut self, a: &Graph, node: Node, b: &Graph, other: Node) {
        self.after.insert(node, other);
        self.before.insert(other, node);
        self.values.extend(a.outputs(node).zip(b.outputs(other)));
        let blocks: Vec<(Block, Block)> = a.node_blocks(node).zip(b.node_blocks(other)).collect();
        for (block, other) in blocks {
            self.block(a, block, b, other);
        }
    }

    /// Pairs nodes with equal fingerprints: first those with equal names, then those at equal
    /// depth, then any.
    fn by_fingerprints(&mut self, a: &Graph, b: &Graph, sight: Sight) {
        let (prints_a, prints_b) = (Fingerprints::new(a, sight), Fingerprints::new(b, sight));
        for near in [Near::Name, Near::Depth, Near::Anywhere] {
            let mut waiting: FxHashMap<(u64, Clue), Vec<Node>> = FxHashMap::default();
            for node in b.all_nodes().filter(|&node| self.before(node).is_none()) {
                waiting.entry((prints_b.node(node), clue(b, node, near))).or_default().push(node);
            }
            waiting.values_mut().for_each(|nodes| nodes.reverse());
            let open: Vec<Node> = a.all_nodes().filter(|&node| self.after(node).is_none()).collect();
            for node in open {
                let key = (prints_a.node(node), clue(a, node, near));
                let Some(other) = waiting.get_mut(&key).and_then(Vec::pop) else { continue };
                self.pair(a, node, b, other);
                if !sight.order {
                    self.reordered.push((node, other));
                }
            }
        }
    }

    /// Pairs nodes of one kind whose first results have the same name, except numbers.
    fn by_names(&mut self, a: &Graph, b: &Graph) {
        let open: Vec<Node> = a.all_nodes().filter(|&node| self.after(node).is_none()).collect();
        for node in open {
            let first = a.outputs(node).next().filter(|&value| a.is_named(value));
            let found = first.and_then(|value| b.value_named(a.name(value).as_bytes()));
            let Some(other) = found.and_then(|value| b.definer(value)) else { continue };
            if self.before(other).is_none() && a.kind(node) == b.kind(other) {
                self.pair(a, node, b, other);
            }
        }
    }

    /// Aligns the remaining nodes in paired blocks, outer ones first.
    fn by_place(&mut self, a: &Graph, b: &Graph) {
        let mut work = vec![(a.root(), b.root())];
        while let Some((block, other)) = work.pop() {
            self.align(a, block, b, other);
            for node in a.nodes(block) {
                if let Some(partner) = self.after(node) {
                    work.extend(a.node_blocks(node).zip(b.node_blocks(partner)));
                }
            }
        }
    }

    fn align(&mut self, a: &Graph, block: Block, b: &Graph, other: Block) {
        let left: Vec<Node> = a.nodes(block).filter(|&node| self.after(node).is_none()).collect();
        let right: Vec<Node> = b.nodes(other).filter(|&node| self.before(node).is_none()).collect();
        let (signs, others): (Vec<Sign>, Vec<Sign>) =
            (left.iter().map(|&node| sign(a, node)).collect(), right.iter().map(|&node| sign(b, node)).collect());
        for (i, j) in aligned(&signs, &others) {
            self.pair(a, left[i], b, right[j]);
        }
    }
}

/// The preference among nodes of one fingerprint.
#[derive(Clone, Copy)]
enum Near {
    Name,
    Depth,
    Anywhere,
}

type Clue = (Option<u32>, Option<String>);

fn clue(graph: &Graph, node: Node, near: Near) -> Clue {
    let depth = || graph.block_of(node).map(|block| graph.block_depth(block));
    match near {
        Near::Name => (depth(), graph.outputs(node).next().map(|value| graph.name(value))),
        Near::Depth => (depth(), None),
        Near::Anywhere => (None, None),
    }
}

/// A node without its operands; for a node with blocks only the kind, because passes change its
/// carried values.
type Sign = (Symbol, usize, usize, String);

fn sign(graph: &Graph, node: Node) -> Sign {
    if graph.num_blocks(node) > 0 {
        return (graph.kind(node), 0, 0, String::new());
    }
    let attributes: Vec<String> = graph
        .attributes(node)
        .iter()
        .filter(|_| graph.subgraph(node).is_none())
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    (graph.kind(node), graph.num_inputs(node), graph.num_outputs(node), attributes.join(","))
}

/// The pairs of a longest common subsequence; of very long runs only the common ends.
fn aligned(a: &[Sign], b: &[Sign]) -> Vec<(usize, usize)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_a, middle_b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    let ends = (0..start).map(|i| (i, i)).chain((1..=end).map(|i| (a.len() - i, b.len() - i)));
    let mut pairs: Vec<(usize, usize)> = ends.collect();
    if middle_a.len().saturating_mul(middle_b.len()) <= ALIGNED {
        for step in steps(middle_a, middle_b) {
            if let DiffOp::Equal { old_index, new_index, len } = step {
                pairs.extend((0..len).map(|i| (start + old_index + i, start + new_index + i)));
            }
        }
    }
    pairs
}
