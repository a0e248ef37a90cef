//! Lineage: the rewrite that made a node, its source nodes and source line, and the iterations of
//! loops of the file that it belongs to, see [`DrawPlace`].

use super::graph::{Graph, Node};
use crate::entity::Entity;
use crate::symbol::Symbol;
use smallvec::SmallVec;

crate::entities! {
    /// One rewrite that made nodes.
    Lineage, "rewrite";
}

/// The record of one rewrite.
#[derive(Clone, Debug)]
pub(super) struct LineageRow {
    pub(super) rule: Symbol,
    pub(super) sources: SmallVec<[Node; 2]>,
    /// The iteration that the node is a copy for, if a loop was unrolled.
    pub(super) iteration: Option<Iteration>,
}

/// One iteration of a loop of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// The [`Graph::draw_root`] of the loop.
    pub of: usize,
    /// The iteration, from 0 on.
    pub at: u64,
    /// Whether it is counted from the end of the preceding loop with the same root.
    pub continues: bool,
}

/// Iterations of different loops.
pub(crate) type Iterations = SmallVec<[Iteration; 2]>;

/// The key of the draws of a random node: the node of the file that it descends from, and the
/// iterations of the loops of the file that it was copied for. Together with the iterations of the
/// loops around it now, these are the iterations in which the node of the file would run, whichever
/// loops passes have unrolled or peeled, and whichever of the copies are dead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrawPlace {
    /// The node of the file, see [`Graph::draw_root`].
    pub root: usize,
    /// Iterations.
    pub iterations: Iterations,
}

/// The numbering of the iterations of a loop relative to the loop of the file that it descends
/// from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopIterations {
    /// The number of the first iteration.
    pub start: u64,
    /// The number of original iterations per iteration.
    pub stride: u64,
    /// Whether they are counted from the end of the preceding loop with the same root.
    pub continues: bool,
}

impl Default for LoopIterations {
    fn default() -> LoopIterations {
        LoopIterations { start: 0, stride: 1, continues: false }
    }
}

impl Graph {
    /// Records nodes made from here to [`Graph::end_rewrite`] as made by `rule` out of `sources`.
    pub(crate) fn begin_rewrite(&mut self, rule: Symbol, sources: &[Node]) -> Option<Lineage> {
        let outer = self.current_rewrite;
        let row = LineageRow { rule, sources: sources.into(), iteration: None };
        self.current_rewrite = Some(self.lineages.push(row));
        outer
    }

    /// Ends the current rewrite; `outer` is the result of `Graph::begin_rewrite`.
    pub fn end_rewrite(&mut self, outer: Option<Lineage>) {
        self.current_rewrite = outer;
    }

    /// Records that `copy`, made by the current rewrite, is another `node`: it inherits its draws
    /// and its source location.
    pub(super) fn descend(&mut self, copy: Node, node: Node) {
        if let Some(current) = self.current_rewrite {
            let sources = SmallVec::from_slice(&[node]);
            let row = LineageRow { rule: self.lineages[current].rule, sources, iteration: self.copied_iteration };
            self.nodes[copy].lineage = Some(self.lineages.push(row));
        }
    }

    /// Copies made from here on represent the nodes in this iteration of a loop of the file.
    pub fn copy_for_iteration(&mut self, iteration: Option<Iteration>) {
        self.copied_iteration = iteration;
    }

    /// The rule and the nodes that made `node`; `None` for a node of the file.
    pub(crate) fn origin(&self, node: Node) -> Option<(Symbol, &[Node])> {
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

    /// The number of the node of the file that `node` descends from, also if it was copied into
    /// another graph since, see [`Graph::keep_draws`].
    pub fn draw_root(&self, node: Node) -> usize {
        self.ancestry(node, |_| ()).0
    }

    /// The key that distinguishes the draws of `node` from those of other nodes.
    pub fn draw_place(&self, node: Node) -> DrawPlace {
        let mut iterations = Iterations::new();
        let (root, foreign) = self.ancestry(node, |iteration| iterations.push(iteration));
        iterations.extend(foreign.into_iter().flat_map(|place| place.iterations.iter().copied()));
        DrawPlace { root, iterations }
    }

    /// Follows the ancestry to the node of the file; reports the iterations that copies on the way
    /// were made for.
    fn ancestry(&self, mut node: Node, mut met: impl FnMut(Iteration)) -> (usize, Option<&DrawPlace>) {
        loop {
            if let Some(place) = self.foreign_places.get(&node) {
                return (place.root, Some(place));
            }
            let row = self.nodes[node].lineage.map(|lineage| &self.lineages[lineage]);
            let Some((row, &first)) = row.and_then(|row| row.sources.first().map(|first| (row, first))) else {
                return (node.index(), None);
            };
            if first == node {
                return (node.index(), None);
            }
            row.iteration.into_iter().for_each(&mut met);
            node = first;
        }
    }

    /// Records that `copy` is a node of another graph and draws the same numbers: its
    /// [`Graph::draw_place`].
    pub fn keep_draws(&mut self, copy: Node, place: DrawPlace) {
        self.foreign_places.insert(copy, place);
    }

    /// The numbering of the iterations of a loop.
    pub fn loop_iterations(&self, node: Node) -> LoopIterations {
        self.loop_iterations.get(&node).copied().unwrap_or_default()
    }

    /// Whether the iterations of a loop are numbered other than 0, 1, 2 and so on.
    pub fn is_part_of_loop(&self, node: Node) -> bool {
        self.loop_iterations.contains_key(&node)
    }

    /// Changes the numbering of the iterations of a loop.
    pub fn set_loop_iterations(&mut self, node: Node, iterations: LoopIterations) {
        self.loop_iterations.insert(node, iterations);
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
