//! The values live at each guard: those that were defined before, and that the rest of the graph
//! reads.
//!
//! One traversal from the end to the start, with one set of values. A block begins with the values
//! that are live after its node and those that it returns; values that are live only because of one
//! branch are removed from the set while the other is traversed, so that each value is inserted and
//! removed once for each block around a reader of it.

use jitopt_core::analysis::AliasDb;
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::ops::rules::Structure;
use jitopt_core::symbol::prim;
use jitopt_core::types::era::Era;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Guards in printed order, each with the values that must be forwarded besides the tested one.
pub(super) fn at_guards(graph: &Graph, db: &AliasDb) -> Vec<(Node, Vec<Value>)> {
    let mut walk = Walk {
        graph,
        db,
        repeated: repeated(graph),
        live: BTreeSet::new(),
        added: Vec::new(),
        saved: Vec::new(),
        found: Vec::new(),
    };
    graph.results(graph.root()).for_each(|value| walk.add(value));
    let mut work = vec![Task::Nodes(graph.last(graph.root()))];
    while let Some(task) = work.pop() {
        walk.step(task, &mut work);
    }
    walk.found.reverse();
    walk.found
}

/// For each body of a loop, the values from outside that it reads, in every iteration.
fn repeated(graph: &Graph) -> FxHashMap<Block, BTreeSet<Value>> {
    let mut bodies: FxHashMap<Block, BTreeSet<Value>> = FxHashMap::default();
    for block in graph.all_blocks() {
        for node in graph.nodes(block).chain([graph.return_node(block)]) {
            for value in graph.inputs(node) {
                let home = graph.definer(value).and_then(|definer| graph.block_of(definer));
                let mut at = block;
                while Some(at) != home {
                    let Some(owner) = graph.owner_node(at) else { break };
                    if is_loop(graph, owner) && !bodies.entry(at).or_default().insert(value) {
                        break;
                    }
                    let Some(around) = graph.block_of(owner) else { break };
                    at = around;
                }
            }
        }
    }
    bodies
}

fn is_loop(graph: &Graph, node: Node) -> bool {
    ops::operator(graph.era, graph.kind(node)).rule.structure == Structure::Loop
}

/// Pending work, last first.
enum Task {
    /// This node and those before it.
    Nodes(Option<Node>),
    /// A block of a node.
    Begin(Node, Block),
    /// The start of a block is reached; the number of values that were live before it.
    End(Block, usize),
    /// All blocks of a node are done; the number of values that were saved before.
    Join(Node, usize),
}

struct Walk<'a> {
    graph: &'a Graph,
    db: &'a AliasDb,
    repeated: FxHashMap<Block, BTreeSet<Value>>,
    live: BTreeSet<Value>,
    /// The values inserted into the set, in order.
    added: Vec<Value>,
    /// The values that finished blocks need.
    saved: Vec<Value>,
    found: Vec<(Node, Vec<Value>)>,
}

impl Walk<'_> {
    fn step(&mut self, task: Task, work: &mut Vec<Task>) {
        match task {
            Task::Nodes(None) => {}
            Task::Nodes(Some(node)) => {
                work.push(Task::Nodes(self.graph.prev(node)));
                for output in self.graph.outputs(node) {
                    self.live.remove(&output);
                }
                if self.graph.num_blocks(node) == 0 {
                    return self.read(node);
                }
                work.push(Task::Join(node, self.saved.len()));
                work.extend(self.graph.node_blocks(node).map(|block| Task::Begin(node, block)));
            }
            Task::Begin(node, block) => {
                let mark = self.added.len();
                self.graph.results(block).for_each(|value| self.add(value));
                if is_loop(self.graph, node) && self.graph.era == Era::V2 {
                    self.add_next_iteration(node, block);
                }
                work.push(Task::End(block, mark));
                work.push(Task::Nodes(self.graph.last(block)));
            }
            Task::End(block, mark) => {
                for param in self.graph.params(block) {
                    self.live.remove(&param);
                }
                for value in self.added.split_off(mark) {
                    if self.live.remove(&value) {
                        self.saved.push(value);
                    }
                }
            }
            Task::Join(node, mark) => {
                self.saved.split_off(mark).into_iter().for_each(|value| self.add(value));
                self.graph.inputs(node).for_each(|value| self.add(value));
            }
        }
    }

    fn add(&mut self, value: Value) {
        if !self.is_constant(value) && self.live.insert(value) {
            self.added.push(value);
        }
    }

    /// Whether the template has the value: a constant, unless its memory is written to, as each
    /// graph has an object of its own for it.
    fn is_constant(&self, value: Value) -> bool {
        let is_constant = self.graph.definer(value).is_some_and(|node| self.graph.kind(node) == prim::CONSTANT);
        is_constant && !self.db.reaches_writers(value)
    }

    /// Adds the values that the next iteration of a loop needs: values from outside, the counters;
    /// and in PyTorch its own params too.
    fn add_next_iteration(&mut self, node: Node, body: Block) {
        let graph = self.graph;
        let outside: Vec<Value> = self.repeated.get(&body).into_iter().flatten().copied().collect();
        let carried = graph.params(body).filter(|&param| graph.has_uses(param));
        outside.into_iter().chain(carried).chain(counters(graph, node)).for_each(|value| self.add(value));
    }

    fn read(&mut self, node: Node) {
        self.graph.inputs(node).for_each(|value| self.add(value));
        if self.graph.kind(node) != prim::GUARD {
            return;
        }
        let tested = self.graph.input(node, 0);
        let live = match self.graph.era {
            Era::V2 => self.live.iter().copied().filter(|&value| value != tested).collect(),
            Era::V1_3 => self.old_order(node, tested),
        };
        self.found.push((node, live));
    }

    /// Up to 1.4: counters of the enclosing loops first; then the live values; then those that
    /// PyTorch omitted.
    fn old_order(&self, node: Node, tested: Value) -> Vec<Value> {
        let (graph, mut bodies) = (self.graph, Vec::new());
        let mut at = graph.enclosing(node);
        while let Some(owner) = at {
            bodies.extend(is_loop(graph, owner).then_some(owner));
            at = graph.enclosing(owner);
        }
        let is_constant = |value: &Value| self.is_constant(*value);
        let mut order: Vec<Value> = Vec::new();
        let iterations = bodies.iter().flat_map(|&owner| counters(graph, owner)).filter(|value| !is_constant(value));
        let live = self.live.iter().copied();
        let mut seen = FxHashSet::from_iter([tested]);
        order.extend(iterations.chain(live).filter(|&value| seen.insert(value)));
        let supplied = self.supplied(&order, tested);
        let repeated = bodies.iter().rev().filter_map(|&owner| self.repeated.get(&graph.node_block(owner, 0)));
        let missing = repeated
            .flatten()
            .copied()
            .filter(|&value| !supplied.contains(&value) && !self.is_supplied(&supplied, value));
        let missing: Vec<Value> = missing.filter(|value| !is_constant(value) && seen.insert(*value)).collect();
        order.extend(missing);
        order
    }

    /// The forwarded values, and the values that forwarded guards supply: a guard's output is its
    /// operand.
    fn supplied(&self, order: &[Value], tested: Value) -> FxHashSet<Value> {
        let mut supplied: FxHashSet<Value> = FxHashSet::default();
        for &value in order.iter().chain([&tested]) {
            let mut value = Some(value);
            while let Some(known) = value.filter(|&known| supplied.insert(known)) {
                value = self.guarded_by(known);
            }
        }
        supplied
    }

    fn is_supplied(&self, supplied: &FxHashSet<Value>, mut value: Value) -> bool {
        while let Some(tested) = self.guarded_by(value) {
            if supplied.contains(&tested) {
                return true;
            }
            value = tested;
        }
        false
    }

    /// The guarded value, when a guard defines the value.
    fn guarded_by(&self, value: Value) -> Option<Value> {
        let guard = self.graph.definer(value).filter(|&node| self.graph.kind(node) == prim::GUARD)?;
        Some(self.graph.input(guard, 0))
    }
}

/// The trip count of a loop, and the index of its iteration.
fn counters(graph: &Graph, node: Node) -> impl Iterator<Item = Value> + '_ {
    [graph.input(node, 0)].into_iter().chain(graph.params(graph.node_block(node, 0)).next())
}
