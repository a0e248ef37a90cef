//! Producers of a group that were not visited yet, the one that stands last on top.

use jitopt_core::ir::{Graph, Node};
use rustc_hash::FxHashSet;

/// A heap ordered by position in the block. Moves keep the order of the nodes that stand before
/// their group, so the heap property holds.
#[derive(Default)]
pub(super) struct Candidates {
    heap: Vec<Node>,
    seen: FxHashSet<Node>,
}

impl Candidates {
    /// Adds the nodes of the same block that make operands of `node`, each once.
    pub(super) fn add_producers(&mut self, graph: &Graph, node: Node) {
        let block = graph.block_of(node);
        for producer in graph.inputs(node).filter_map(|value| graph.definer(value)) {
            if graph.block_of(producer) == block && self.seen.insert(producer) {
                self.push(graph, producer);
            }
        }
    }

    fn push(&mut self, graph: &Graph, node: Node) {
        let mut at = self.heap.len();
        self.heap.push(node);
        while at > 0 && graph.is_before(self.heap[(at - 1) / 2], self.heap[at]) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// Removes and returns the one that stands last.
    pub(super) fn pop(&mut self, graph: &Graph) -> Option<Node> {
        let last = self.heap.pop()?;
        let Some(top) = self.heap.first_mut() else { return Some(last) };
        let popped = std::mem::replace(top, last);
        let mut at = 0;
        loop {
            let later = |a: usize, b: usize| if graph.is_before(self.heap[a], self.heap[b]) { b } else { a };
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return Some(popped);
            }
            let child = if right < self.heap.len() { later(left, right) } else { left };
            if later(at, child) == at {
                return Some(popped);
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}
