//! Moves a node past others, as far as dependencies and writes allow it.
//!
//! The nodes between the two positions are visited. Those that depend on the moving nodes, because
//! they use a value of them, or because one writes memory that the other reads or writes, must move
//! along or stay on the other side:
//!
//! ```text
//! %a before %p, which is earlier                 %a before %p, which is later
//!   %p                 (what %a needs)             %a                      %a
//!   (what %a needs) -> %a                          (what needs %a)   ->    %p
//!   %a                 %p                          %p                      (what needs %a)
//! ```
//!
//! Nodes with side effects keep their order, and random ones stay on their side of them, as
//! an effect may seed the generator; a node
//! without effects may cross them, but not a point where a speculative graph can be left. A node
//! with side effects does not move by itself, and along with others in 1.3 only. Both nodes stand
//! in one block. Aliasing does not change, so the [`AliasDb`] stays valid. The time is linear in
//! the visited nodes and the nodes nested in them.

use super::alias::AliasDb;
use super::locations::Location;
use crate::ir::{Block, Graph, Node, Value};
use crate::ops;
use crate::ops::rules::{Effect, Nondeterminism};
use crate::symbol::prim;
use crate::types::era::Era;
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// The nodes that have to move, in the order in which they were visited.
struct WorkingSet<'a> {
    db: &'a AliasDb,
    graph: &'a Graph,
    block: Block,
    forward: bool,
    nodes: Vec<Node>,
    /// Nodes of the block that use a value of the set (forward), or define one that the set uses
    /// (backward).
    linked: FxHashSet<Node>,
    reads: FxHashSet<Location>,
    writes: FxHashSet<Location>,
    /// Whether a node of the set must keep its order with side effects.
    ordered: bool,
    /// The number of nodes that the last added one is linked to: adding it took that many steps.
    last_links: usize,
}

impl AliasDb {
    /// Moves `node` before `anchor`, with its dependents in between; returns false, without
    /// changes, when that is not legal.
    pub fn move_before_topologically(&self, graph: &mut Graph, node: Node, anchor: Node) -> bool {
        self.try_move(graph, node, anchor, Side::Before)
    }

    /// Moves `node` after `anchor`, with its dependents in between; returns false, without changes,
    /// when that is not legal.
    pub fn move_after_topologically(&self, graph: &mut Graph, node: Node, anchor: Node) -> bool {
        self.try_move(graph, node, anchor, Side::After)
    }

    /// Whether [`AliasDb::move_before_topologically`] would succeed.
    pub fn could_move_before(&self, graph: &Graph, node: Node, anchor: Node) -> bool {
        self.plan_move(graph, node, anchor, Side::Before).is_some()
    }

    /// Whether [`AliasDb::move_after_topologically`] would succeed.
    pub fn could_move_after(&self, graph: &Graph, node: Node, anchor: Node) -> bool {
        self.plan_move(graph, node, anchor, Side::After).is_some()
    }

    /// As [`AliasDb::could_move_before`], but gives up, without an answer, after `steps`, from
    /// which the used steps are subtracted.
    pub fn could_move_within(&self, graph: &Graph, node: Node, anchor: Node, steps: &mut usize) -> Option<bool> {
        match self.plan(graph, node, anchor, Side::Before, steps) {
            Ok(_) => Some(true),
            Err(Obstacle::Distance) => {
                *steps = 0;
                None
            }
            Err(_) => Some(false),
        }
    }

    /// The node that keeps `node` from standing before `anchor`: one that must not be crossed, or
    /// one that depends on `node` and that `anchor` depends on. Nothing when it is one of the two,
    /// or when the move is legal.
    pub fn obstacle(&self, graph: &Graph, node: Node, anchor: Node) -> Option<Node> {
        match self.plan(graph, node, anchor, Side::Before, &mut { usize::MAX }) {
            Err(Obstacle::Barrier(over)) => Some(over),
            Err(Obstacle::Dependents(dependents)) => {
                let block = graph.block_of(anchor)?;
                dependents.into_iter().find(|&dependent| {
                    let mut alone = WorkingSet::new(self, graph, block, true);
                    alone.add(dependent);
                    alone.depends_on(anchor)
                })
            }
            _ => None,
        }
    }

    /// Whether nothing may cross `node`, or a node nested in it.
    fn is_barrier(&self, graph: &Graph, node: Node) -> bool {
        let is_anchor = |graph: &Graph, node| ops::operator(graph.era, graph.kind(node)).rule.effect == Effect::Anchor;
        self.has_side_effects(node) && any_nested(graph, node, is_anchor)
    }

    fn try_move(&self, graph: &mut Graph, node: Node, anchor: Node, side: Side) -> bool {
        let Some((set, split)) = self.plan_move(graph, node, anchor, side) else {
            return false;
        };
        if node == anchor {
            return true;
        }
        place(graph, node, anchor, side);
        let (mut at, side) = match (split, side) {
            (false, side) => (node, side),
            (true, Side::Before) => (anchor, Side::After),
            (true, Side::After) => (anchor, Side::Before),
        };
        for dependent in set {
            place(graph, dependent, at, side);
            at = dependent;
        }
        true
    }

    /// The nodes that move together with `node`, and whether they end up on the other side of
    /// `anchor`.
    fn plan_move(&self, graph: &Graph, node: Node, anchor: Node, side: Side) -> Option<(Vec<Node>, bool)> {
        self.plan(graph, node, anchor, side, &mut { usize::MAX }).ok()
    }

    fn plan(
        &self,
        graph: &Graph,
        node: Node,
        anchor: Node,
        side: Side,
        steps: &mut usize,
    ) -> Result<(Vec<Node>, bool), Obstacle> {
        if node == anchor {
            return Ok((Vec::new(), false));
        }
        let block = graph.block_of(node).filter(|&block| graph.block_of(anchor) == Some(block));
        let block = block.ok_or(Obstacle::Itself)?;
        if self.has_side_effects(node)
            || [node, anchor].iter().any(|&n| graph.kind(n) == prim::PARAM)
            || is_return(graph, node)
        {
            return Err(Obstacle::Itself);
        }
        let forward = is_return(graph, anchor) || graph.is_before(node, anchor);
        let mut set = WorkingSet::new(self, graph, block, forward);
        set.add_within(node, steps)?;
        let mut at = set.step(node);
        while let Some(over) = at.filter(|&over| over != anchor) {
            *steps = steps.checked_sub(1).ok_or(Obstacle::Distance)?;
            let is_linked = set.depends_on(over);
            // Later versions do not move effects, not even along with other nodes.
            let stays = is_linked && graph.era == Era::V2 && self.has_side_effects(over);
            if stays || self.is_barrier(graph, over) {
                return Err(Obstacle::Barrier(over));
            }
            if is_linked {
                set.add_within(over, steps)?;
            }
            at = set.step(over);
        }
        let split = forward == (side == Side::Before);
        if !set.past(anchor, split) {
            return Err(Obstacle::Dependents(set.nodes.split_off(1)));
        }
        set.nodes.retain(|&n| n != node);
        Ok((set.nodes, split))
    }
}

/// The reason why a node cannot move.
enum Obstacle {
    /// The node itself, or its destination.
    Itself,
    /// A node in between that nothing may cross.
    Barrier(Node),
    /// These depend on it, and one of them, or the node itself, and the anchor depend on each
    /// other.
    Dependents(Vec<Node>),
    /// The distance is too large.
    Distance,
}

fn is_return(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == prim::RETURN
}

/// Whether `node`, or a nested node, draws random numbers, which an effect may seed.
fn draws(graph: &Graph, node: Node) -> bool {
    any_nested(graph, node, |graph, node| {
        let operator = ops::operator(graph.era, graph.kind(node));
        operator.nondeterminism(None) > Nondeterminism::Undefined
    })
}

/// Whether a predicate holds for `node`, or for a node in its blocks or its section.
fn any_nested(graph: &Graph, node: Node, is: fn(&Graph, Node) -> bool) -> bool {
    let mut work: SmallVec<[Node; 8]> = smallvec![node];
    while let Some(node) = work.pop() {
        if is(graph, node)
            || graph.subgraph(node).is_some_and(|section| section.all_nodes().any(|node| is(section, node)))
        {
            return true;
        }
        work.extend(graph.node_blocks(node).flat_map(|block| graph.nodes(block)));
    }
    false
}

fn place(graph: &mut Graph, node: Node, anchor: Node, side: Side) {
    match side {
        Side::Before => graph.move_before(node, anchor),
        Side::After => graph.move_after(node, anchor),
    }
}

impl<'a> WorkingSet<'a> {
    fn new(db: &'a AliasDb, graph: &'a Graph, block: Block, forward: bool) -> WorkingSet<'a> {
        let (nodes, linked, reads, writes, ordered, last_links) = Default::default();
        WorkingSet { db, graph, block, forward, nodes, linked, reads, writes, ordered, last_links }
    }

    fn step(&self, node: Node) -> Option<Node> {
        if self.forward { self.graph.next(node) } else { self.graph.prev(node) }
    }

    /// Adds a node unless it is linked to more nodes than there are steps left.
    fn add_within(&mut self, node: Node, steps: &mut usize) -> Result<(), Obstacle> {
        if self.forward && *steps < usize::MAX {
            let users = self.graph.outputs(node).flat_map(|value| self.graph.users(value));
            if users.take(*steps + 1).count() > *steps {
                return Err(Obstacle::Distance);
            }
        }
        self.add(node);
        *steps = steps.checked_sub(self.last_links).ok_or(Obstacle::Distance)?;
        Ok(())
    }

    fn add(&mut self, node: Node) {
        self.nodes.push(node);
        self.ordered |= self.db.has_side_effects(node) || draws(self.graph, node);
        if self.forward {
            let users = self.graph.outputs(node).flat_map(|value| self.graph.users(value));
            let users: Vec<Node> = users.filter_map(|user| self.in_block(user)).collect();
            self.last_links = users.len();
            self.linked.extend(users);
        } else {
            self.last_links = self.graph.num_inputs(node);
            self.link_producers(node);
        }
        let writes: Vec<Location> = self.db.writes(node).collect();
        self.writes.extend(writes);
        let mut reads = std::mem::take(&mut self.reads);
        self.for_reads(node, &mut |location| {
            reads.insert(location);
        });
        self.reads = reads;
    }

    fn link_producers(&mut self, node: Node) {
        let mut producers = Vec::new();
        for_nested(self.graph, node, true, &mut |operand| producers.extend(self.graph.definer(operand)));
        producers.retain(|&producer| producer != node);
        let found: Vec<Node> = producers.into_iter().filter_map(|producer| self.in_block(producer)).collect();
        self.linked.extend(found);
    }

    /// The node of the block that is `node` or encloses it.
    fn in_block(&self, mut node: Node) -> Option<Node> {
        while self.graph.block_of(node) != Some(self.block) {
            node = self.graph.enclosing(node)?;
        }
        Some(node)
    }

    /// Written locations that `node` reads: others impose no order.
    fn for_reads(&self, node: Node, note: &mut dyn FnMut(Location)) {
        let mut seen = FxHashSet::default();
        for_nested(self.graph, node, false, &mut |operand| {
            self.db.memory.reach(self.db.locations(operand), &mut |location| seen.insert(location));
        });
        seen.into_iter().filter(|&location| self.db.is_written(location)).for_each(note);
    }

    fn depends_on(&self, node: Node) -> bool {
        self.linked.contains(&node) || self.ordered && self.db.has_side_effects(node) || self.shares_memory(node)
    }

    fn shares_memory(&self, node: Node) -> bool {
        if self.db.writes(node).any(|location| self.reads.contains(&location) || self.writes.contains(&location)) {
            return true;
        }
        let mut shared = false;
        if !self.writes.is_empty() {
            self.for_reads(node, &mut |location| shared |= self.writes.contains(&location));
        }
        shared
    }

    /// Whether the set, without the moving node when that is split off, may cross `anchor`.
    fn past(&self, anchor: Node, split: bool) -> bool {
        if !split {
            return !is_return(self.graph, anchor)
                && !self.db.is_barrier(self.graph, anchor)
                && !self.depends_on(anchor);
        }
        let mut rest = WorkingSet::new(self.db, self.graph, self.block, self.forward);
        self.nodes.iter().skip(1).for_each(|&node| rest.add(node));
        rest.nodes.is_empty()
            || !is_return(self.graph, anchor) && !self.db.is_barrier(self.graph, anchor) && !rest.depends_on(anchor)
    }
}

/// Calls `visit` with every operand of `node` and of its nested nodes; with `passed`, also with the
/// results of their blocks, which are passed on but not read.
fn for_nested(graph: &Graph, node: Node, passed: bool, visit: &mut dyn FnMut(Value)) {
    let mut work = vec![node];
    while let Some(node) = work.pop() {
        graph.inputs(node).for_each(&mut *visit);
        for block in graph.node_blocks(node) {
            if passed {
                graph.results(block).for_each(&mut *visit);
            }
            work.extend(graph.nodes(block));
        }
    }
}
