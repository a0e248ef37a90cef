//! In-place shape changes: a guard before one proves nothing after it.
//!
//! ```text
//! %1 : Float(2, 3) = prim::Guard(%x)
//! %u : Tensor = aten::t_(%x)
//! %v : Tensor = aten::neg(%1)             <- %1 is Float(3, 2) by now
//! ```
//!
//! Nodes are numbered in printed order. All nodes printed between a definition and a reader count;
//! where the reader is in a loop and the definition is not, the whole loop counts, as earlier
//! iterations may have run. Nodes of the other branch count too. Linear in nodes, and a binary
//! search per query.

use crate::shape_analysis::reshapes;
use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Structure;
use rustc_hash::FxHashMap;
use std::rc::Rc;

pub(super) struct Reshapings {
    db: Rc<AliasDb>,
    /// Positions of nodes, from 1.
    places: FxHashMap<Node, u32>,
    /// The last position inside a node with blocks.
    ends: FxHashMap<Node, u32>,
    /// The positions at which memory is given another shape, ascending.
    reshaped: FxHashMap<Location, Vec<u32>>,
}

impl Reshapings {
    pub(super) fn of(graph: &Graph, db: Rc<AliasDb>) -> Reshapings {
        let (places, ends, reshaped) = Default::default();
        let mut all = Reshapings { db, places, ends, reshaped };
        let mut place = 0;
        let mut work = vec![(graph.root(), graph.first(graph.root()))];
        while let Some((block, cursor)) = work.pop() {
            let Some(node) = cursor else {
                if let Some(owner) = graph.owner_node(block) {
                    all.ends.insert(owner, place);
                }
                continue;
            };
            place += 1;
            all.note(graph, node, place);
            work.push((block, graph.next(node)));
            let blocks: Vec<Block> = graph.node_blocks(node).collect();
            work.extend(blocks.into_iter().rev().map(|block| (block, graph.first(block))));
        }
        all
    }

    fn note(&mut self, graph: &Graph, node: Node, place: u32) {
        self.places.insert(node, place);
        if graph.num_blocks(node) == 0 && (reshapes(graph, node) || graph.subgraph(node).is_some()) {
            for location in self.db.writes(node) {
                self.reshaped.entry(location).or_default().push(place);
            }
        }
    }

    /// Whether the shape of `value` may have changed between its definition and `reader`.
    pub(super) fn between(&self, graph: &Graph, value: Value, reader: Node) -> bool {
        if self.reshaped.is_empty() {
            return false;
        }
        let maker = graph.definer(value);
        let home = maker.and_then(|maker| graph.block_of(maker));
        let from = maker.map_or(0, |maker| self.place(graph, maker));
        let mut until = self.place(graph, reader);
        let mut at = graph.block_of(reader).filter(|&block| Some(block) != home);
        while let Some(owner) = at.and_then(|block| graph.owner_node(block)) {
            if ops::operator(graph.era, graph.kind(owner)).rule.structure == Structure::Loop {
                until = self.ends.get(&owner).map_or(until, |end| end + 1);
            }
            at = graph.block_of(owner).filter(|&block| Some(block) != home);
        }
        let is_between = |places: &Vec<u32>| {
            let next = places.partition_point(|&place| place <= from);
            places.get(next).is_some_and(|&place| place < until)
        };
        self.db.written_through(value).iter().filter_map(|location| self.reshaped.get(location)).any(is_between)
    }

    /// The position of a param is the start of its block.
    fn place(&self, graph: &Graph, node: Node) -> u32 {
        let place = |node: Node| self.places.get(&node).copied();
        place(node).or_else(|| graph.enclosing(node).and_then(place)).unwrap_or(0)
    }
}
