//! Moves guards to the definitions of the tested values.
//!
//! ```text
//! %a : Tensor = aten::neg(%x)                %1 : Float(2, 3) = prim::Guard(%x)
//! %b : Tensor = aten::mul(%a, %y)       =>   %a : Tensor = aten::neg(%x)
//! %2 : Float(2, 3) = prim::Guard(%a)         %2 : Float(2, 3) = prim::Guard(%a)
//! %1 : Float(2, 3) = prim::Guard(%x)         %b : Tensor = aten::mul(%a, %y)
//! ```
//!
//! A guard reads the tensor that it tests: it does not cross a write to it, or a point where the
//! graph can be left. A sweep keeps the last write to each memory location, so that a guard need
//! not search backwards for its definition. A value that is defined outside of the block is tested
//! after the first node of the block, as in PyTorch.

use super::is_guard;
use jitopt_core::analysis::{AliasDb, Location};
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Effect;
use jitopt_core::pass::PassContext;
use jitopt_core::symbol::prim;
use rustc_hash::{FxHashMap, FxHashSet};

/// The maximum number of rounds, as in PyTorch: guards leave one branch per round.
const ROUNDS: usize = 5;

pub(super) fn run(graph: &mut Graph, cx: &mut PassContext<'_>) {
    let db = cx.alias(graph);
    for round in 0..ROUNDS {
        let mut moved = false;
        // Inner blocks first: guards that leave them are visited again outside.
        let blocks: Vec<Block> = graph.all_blocks().collect();
        for &block in blocks.iter().rev() {
            moved |= Sweep::new(graph, block, round > 0).run(graph, cx, &db);
            moved |= leave(graph, cx, block);
        }
        if !moved {
            return;
        }
    }
}

/// One sweep through one block. Positions are counted from 1; 0 is the start.
struct Sweep {
    block: Block,
    /// Whether this is a later round. Guards that are in place stay then, and others go after them:
    /// this gives PyTorch's order, which exchanges neighbours in each of five rounds.
    again: bool,
    /// The last of the guards after a definition, in a later round.
    ends: FxHashMap<Node, Node>,
    place: u32,
    places: FxHashMap<Node, u32>,
    written: FxHashMap<Location, u32>,
    /// The last position that no guard may cross.
    barrier: u32,
    /// The node that the block began with.
    began_with: Option<Node>,
    /// The last node that is not a guard.
    previous: Node,
    /// Guards that this sweep has moved. One that moved forward is visited again, and would be
    /// exchanged with its neighbour endlessly.
    moved: FxHashSet<Node>,
}

impl Sweep {
    fn new(graph: &Graph, block: Block, again: bool) -> Sweep {
        let (places, written, ends, moved) = Default::default();
        Sweep {
            block,
            again,
            ends,
            place: 0,
            places,
            written,
            barrier: 0,
            began_with: graph.first(block),
            previous: graph.param_node(block),
            moved,
        }
    }

    fn run(mut self, graph: &mut Graph, cx: &mut PassContext<'_>, db: &AliasDb) -> bool {
        let (mut cursor, mut moved) = (graph.first(self.block), false);
        while let Some(node) = cursor {
            cursor = graph.next(node);
            self.place += 1;
            self.places.insert(node, self.place);
            if is_guard(graph, node) {
                moved |= self.guard(graph, cx, db, node);
            } else {
                let place = self.place;
                self.previous = node;
                self.written.extend(db.writes(node).map(|location| (location, place)));
                if db.has_side_effects(node) && holds_anchor(graph, node) {
                    self.barrier = place;
                }
            }
        }
        moved
    }

    fn guard(&mut self, graph: &mut Graph, cx: &mut PassContext<'_>, db: &AliasDb, node: Node) -> bool {
        let value = graph.input(node, 0);
        let (anchor, since) = self.target(graph, value);
        let outside = self.again && is_guard(graph, anchor) && graph.prev(anchor).is_none();
        let is_home = anchor == self.previous || outside && self.previous == graph.param_node(self.block);
        if anchor == node || self.again && is_home || self.moved.contains(&node) {
            return false;
        }
        let crossed = db.written_through(value).iter().any(|at| self.written.get(at).is_some_and(|&at| at > since));
        if crossed || self.barrier > since {
            return false;
        }
        let previous = if self.again { self.end_of_guards(graph, anchor) } else { anchor };
        let moved = cx.rewrite(graph, "guards-moved", node, |graph| {
            graph.move_after(node, previous);
            self.ends.insert(anchor, node);
            self.places.insert(node, since);
            self.moved.insert(node);
        });
        moved.is_some()
    }

    /// The last of the guards that stand after a node already.
    fn end_of_guards(&self, graph: &Graph, anchor: Node) -> Node {
        let mut end = self.ends.get(&anchor).copied().unwrap_or(anchor);
        let next =
            |node: Node| if graph.kind(node) == prim::PARAM { graph.first(self.block) } else { graph.next(node) };
        while let Some(guard) = next(end).filter(|&node| is_guard(graph, node)) {
            end = guard;
        }
        end
    }

    /// The node after which a guard of `value` belongs, and its position.
    fn target(&self, graph: &Graph, value: Value) -> (Node, u32) {
        let definer = graph.definer(value).filter(|&definer| graph.block_of(definer) == Some(self.block));
        let first = || graph.first(self.block).expect("the block of a guard is not empty");
        match definer {
            Some(definer) => (definer, self.places.get(&definer).copied().unwrap_or(0)),
            // A guard that moved to the start is before all original nodes.
            None if self.began_with == Some(first()) => (first(), 1),
            None => (first(), 0),
        }
    }
}

/// Whether a node contains a point where the graph can be left.
fn holds_anchor(graph: &Graph, node: Node) -> bool {
    let mut work = vec![node];
    while let Some(node) = work.pop() {
        if ops::operator(graph.era, graph.kind(node)).rule.effect == Effect::Anchor {
            return true;
        }
        work.extend(graph.node_blocks(node).flat_map(|block| graph.nodes(block)));
    }
    false
}

/// Moves the guards at the start of a branch on whether gradients are defined before the branch:
/// they test values from outside.
fn leave(graph: &mut Graph, cx: &mut PassContext<'_>, block: Block) -> bool {
    let Some(branch) = graph.owner_node(block).filter(|&owner| tests_gradients(graph, owner)) else { return false };
    let mut left = false;
    while let Some(node) = graph.first(block).filter(|&node| is_guard(graph, node)) {
        if cx.rewrite(graph, "guards-hoisted", node, |graph| graph.move_before(node, branch)).is_none() {
            break;
        }
        left = true;
    }
    left
}

/// Whether the branch is one that `lower-gradof` makes of a formula.
fn tests_gradients(graph: &Graph, node: Node) -> bool {
    let made_by = |value: Value, kind| graph.definer(value).is_some_and(|definer| graph.kind(definer) == kind);
    graph.kind(node) == prim::IF
        && graph.num_blocks(node) == 2
        && made_by(graph.input(node, 0), prim::AUTOGRAD_ANY_NON_ZERO)
        && graph.results(graph.node_block(node, 1)).all(|value| made_by(value, prim::AUTOGRAD_ZERO))
}
