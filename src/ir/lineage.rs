//! Where nodes come from: which rewrite made them, out of which nodes, at which source line.

use super::graph::{Graph, Node};
use crate::entity::Entity;
use crate::symbol::Symbol;
use smallvec::SmallVec;

crate::entities! {
    /// One rewrite that made nodes.
    Lineage, "rewrite";
}

/// What one rewrite did.
#[derive(Clone, Debug)]
pub(super) struct LineageRow {
    pub(super) rule: Symbol,
    pub(super) sources: SmallVec<[Node; 2]>,
}

impl Graph {
    /// Nodes made from here to [`Graph::end_rewrite`] are recorded as made by `rule` out of `sources`.
    pub fn begin_rewrite(&mut self, rule: Symbol, sources: &[Node]) -> Option<Lineage> {
        let outer = self.current_rewrite;
        let row = LineageRow { rule, sources: sources.into() };
        self.current_rewrite = Some(self.lineages.push(row));
        outer
    }

    /// Ends the current rewrite; `outer` is what [`Graph::begin_rewrite`] returned.
    pub fn end_rewrite(&mut self, outer: Option<Lineage>) {
        self.current_rewrite = outer;
    }

    /// Notes that `copy`, made by the current rewrite, is another `node`: its draws and its place in the source are those.
    pub(super) fn descend(&mut self, copy: Node, node: Node) {
        if let Some(current) = self.current_rewrite {
            let row = LineageRow { rule: self.lineages[current].rule, sources: SmallVec::from_slice(&[node]) };
            self.nodes[copy].lineage = Some(self.lineages.push(row));
        }
    }

    /// The rule and the nodes that made `node`; `None` for a node that was read.
    pub fn origin(&self, node: Node) -> Option<(Symbol, &[Node])> {
        let row = &self.lineages[self.nodes[node].lineage?];
        Some((row.rule, &row.sources))
    }

    /// The node of the file that `node` descends from, through first sources.
    pub fn lineage_root(&self, mut node: Node) -> Node {
        while let Some((_, [first, ..])) = self.origin(node) {
            if *first == node {
                break;
            }
            node = *first;
        }
        node
    }

    /// What tells the draws of `node` from those of other nodes: the number of the node of the file that it descends from, also
    /// when it was copied into another graph since, see [`Graph::keep_draws`].
    pub fn draw_root(&self, mut node: Node) -> usize {
        loop {
            match (self.foreign_roots.get(&node), self.origin(node)) {
                (Some(&root), _) => return root,
                (None, Some((_, [first, ..]))) if *first != node => node = *first,
                _ => return node.index(),
            }
        }
    }

    /// Notes that `copy` is a node of another graph, and draws what that would have drawn: its [`Graph::draw_root`].
    pub fn keep_draws(&mut self, copy: Node, root: usize) {
        self.foreign_roots.insert(copy, root);
    }

    /// The source location of `node` or of the nearest ancestor that has one.
    pub fn origin_location(&self, mut node: Node) -> Option<&[u8]> {
        loop {
            if let Some(location) = self.location(node) {
                return Some(location);
            }
            match self.origin(node) {
                Some((_, [first, ..])) if *first != node => node = *first,
                _ => return None,
            }
        }
    }
}
