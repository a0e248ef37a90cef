//! Structural hashes of each node and of the graph, equal for graphs that differ only in names and
//! in legal order.
//!
//! ```text
//! %a = aten::neg(%x)         %1 = aten::exp(%x)
//! %b = aten::exp(%x)    ~    %2 = aten::neg(%x)        the same fingerprint
//! return (%a, %b)            return (%2, %1)
//! ```
//!
//! The fingerprint of a node is a hash of its kind, attributes and the fingerprints of its
//! operands, so it represents the whole computation of the node. Ordering constraints are part of
//! it: a node that reads memory which is written somewhere hashes the preceding writes, and
//! effects, random draws and writes hash the preceding ones. Blocks are multisets of nodes, and a
//! section is represented by its computation: its number and the order of its operands and results
//! do not count.
//!
//! Two graphs with one fingerprint are the same except for a collision of 64 bits. Linear in nodes
//! and operands, and in the written memory that each node reaches.
//!
//! Recorded results are compared by fingerprints, because their texts differ in too much and an
//! isomorphism search costs too much.

use super::alias::AliasDb;
use super::locations::Location;
use crate::entity::Entity;
use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::ops::{self, rules::Nondeterminism};
use crate::symbol::prim;
use crate::types::{Type, TypeKind};
use rustc_hash::FxHashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The properties that the fingerprint distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Whether types of values count. Types that determine the value of a constant or an empty list
    /// always do.
    pub types: bool,
    /// Whether the order of writes, of reads between them, and of effects counts.
    pub order: bool,
}

impl Sight {
    /// Everything but types.
    pub const COMPUTATION: Sight = Sight { types: false, order: true };
    /// Everything.
    pub const EXACT: Sight = Sight { types: true, order: true };
}

/// The fingerprints of one graph.
#[derive(Debug)]
pub(crate) struct Fingerprints {
    /// Of the whole graph.
    pub graph: u64,
    /// Of the nodes, by index.
    nodes: Vec<u64>,
}

impl Fingerprints {
    /// Computes them. Builds an alias analysis of the graph and of each section.
    pub(crate) fn new(graph: &Graph, sight: Sight) -> Fingerprints {
        let params: Vec<u64> = graph
            .params(graph.root())
            .enumerate()
            .map(|(i, param)| hash(&("input", i, sight.types.then(|| graph.ty(param)))))
            .collect();
        let mut walk = Walk::new(graph, sight);
        let (bag, results) = walk.run(&params);
        let graph = hash(&(bag, results, params.len()));
        Fingerprints { graph, nodes: walk.nodes }
    }

    /// Of a node.
    pub(crate) fn node(&self, node: Node) -> u64 {
        self.nodes.get(node.index()).copied().unwrap_or(0)
    }
}

/// Whether two graphs are the same except for names and legal order.
pub fn equivalent(a: &Graph, b: &Graph, sight: Sight) -> bool {
    Fingerprints::new(a, sight).graph == Fingerprints::new(b, sight).graph
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// One open block.
struct Frame {
    owner: Option<Node>,
    block: Block,
    cursor: Option<Node>,
    bag: Vec<u64>,
    /// The fingerprints of the owner's blocks that are done.
    done: Vec<u64>,
}

struct Walk<'a> {
    graph: &'a Graph,
    sight: Sight,
    db: AliasDb,
    values: Vec<u64>,
    nodes: Vec<u64>,
    /// The writes to each location so far.
    written: FxHashMap<Location, u64>,
    /// The effects so far.
    effects: u64,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, sight: Sight) -> Walk<'a> {
        Walk {
            graph,
            sight,
            db: AliasDb::new(graph),
            values: vec![0; graph.num_values() + 1],
            nodes: vec![0; graph.num_node_rows() + 1],
            written: FxHashMap::default(),
            effects: 0,
        }
    }

    /// Computes the fingerprints of all nodes; returns the sorted multiset of the root block, and
    /// the results.
    fn run(&mut self, params: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let graph = self.graph;
        for (param, &number) in graph.params(graph.root()).zip(params) {
            self.set(param, number);
        }
        let mut frames = vec![self.frame(None, graph.root(), Vec::new())];
        loop {
            let frame = frames.last_mut().expect("the root block closes last");
            let Some(node) = frame.cursor else {
                let mut closed = frames.pop().expect("a frame is open");
                closed.bag.sort_unstable();
                let results: Vec<u64> = graph.results(closed.block).map(|value| self.values[value.index()]).collect();
                let Some(owner) = closed.owner else { return (closed.bag, results) };
                closed.done.push(hash(&(closed.bag, results, graph.params(closed.block).len())));
                self.next_block(owner, closed.done, &mut frames);
                continue;
            };
            frame.cursor = graph.next(node);
            if graph.num_blocks(node) > 0 {
                self.next_block(node, Vec::new(), &mut frames);
            } else {
                let number = self.leaf(node);
                frame.bag.push(number);
            }
        }
    }

    /// Opens the next block of a node, or computes the node's fingerprint when all are done.
    fn next_block(&mut self, owner: Node, done: Vec<u64>, frames: &mut Vec<Frame>) {
        if done.len() < self.graph.num_blocks(owner) {
            let block = self.graph.node_block(owner, done.len());
            let frame = self.frame(Some(owner), block, done);
            return frames.push(frame);
        }
        let number = hash(&(self.own(owner), self.operands(owner), done));
        self.number(owner, number);
        frames.last_mut().expect("the owner stands in a block").bag.push(number);
    }

    fn frame(&mut self, owner: Option<Node>, block: Block, done: Vec<u64>) -> Frame {
        if owner.is_some() {
            let depth = self.graph.block_depth(block);
            for (i, param) in self.graph.params(block).enumerate() {
                let ty = self.sight.types.then(|| self.graph.ty(param));
                self.set(param, hash(&("param", depth, i, ty)));
            }
        }
        Frame { owner, block, cursor: self.graph.first(block), bag: Vec::new(), done }
    }

    fn leaf(&mut self, node: Node) -> u64 {
        let operands = self.operands(node);
        let section = self.graph.subgraph(node).map(|section| {
            let mut walk = Walk::new(section, self.sight);
            walk.effects = self.effects;
            walk.run(&operands)
        });
        let mut number = match &section {
            Some((bag, results)) => {
                let sorted = |mut numbers: Vec<u64>| {
                    numbers.sort_unstable();
                    numbers
                };
                hash(&(self.own(node), bag, sorted(operands), sorted(results.clone())))
            }
            None => hash(&(self.own(node), operands)),
        };
        if let Some(backward) = self.graph.backward(node) {
            let params: Vec<u64> = (0..backward.params(backward.root()).len()).map(|i| hash(&("handed", i))).collect();
            let (bag, results) = Walk::new(backward, self.sight).run(&params);
            number = hash(&(number, bag, results));
        }
        if self.sight.order {
            number = self.in_order(node, number);
        }
        self.number(node, number);
        for (output, &result) in self.graph.outputs(node).zip(section.iter().flat_map(|(_, results)| results)) {
            self.set(output, hash(&("result", result)));
        }
        number
    }

    /// The fingerprint combined with the preceding writes and effects, which it then joins.
    fn in_order(&mut self, node: Node, number: u64) -> u64 {
        let mut before: Vec<(Location, u64)> = Vec::new();
        for operand in self.graph.inputs(node) {
            let seen = |location| (location, self.written.get(&location).copied().unwrap_or(0));
            before.extend(self.db.written_through(operand).into_iter().map(seen));
        }
        before.sort_unstable_by_key(|&(location, _)| location.index());
        before.dedup();
        let mut states: Vec<u64> = before.into_iter().map(|(_, state)| state).collect();
        states.sort_unstable();
        let ordered = self.is_ordered(node);
        let number = match (states.is_empty(), ordered) {
            (true, false) => number,
            (_, false) => hash(&(number, states)),
            (_, true) => hash(&(number, states, "effect", self.effects)),
        };
        if ordered {
            self.effects = number;
        }
        for location in self.db.writes(node).collect::<Vec<_>>() {
            self.written.insert(location, number);
        }
        number
    }

    /// Whether its order among similar nodes counts.
    fn is_ordered(&self, node: Node) -> bool {
        let operator = ops::operator(self.graph.era, self.graph.kind(node));
        self.db.has_side_effects(node)
            || operator.nondeterminism(None) == Nondeterminism::Always && self.graph.kind(node) != prim::UNINITIALIZED
    }

    /// The hash of a node without its operands.
    fn own(&self, node: Node) -> u64 {
        let graph = self.graph;
        let mut attributes: Vec<u64> =
            graph.attributes(node).iter().map(|(name, value)| hash(&(name, attribute(value)))).collect();
        attributes.sort_unstable();
        let types: Vec<Type> = match self.sight.types {
            true => graph.outputs(node).map(|value| graph.ty(value)).collect(),
            false => graph.outputs(node).filter_map(|value| informative_type(graph, node, value)).collect(),
        };
        hash(&(graph.kind(node), attributes, types, graph.num_outputs(node)))
    }

    fn operands(&self, node: Node) -> Vec<u64> {
        self.graph.inputs(node).map(|value| self.values[value.index()]).collect()
    }

    fn number(&mut self, node: Node, number: u64) {
        self.nodes[node.index()] = number;
        for i in 0..self.graph.num_outputs(node) {
            self.set(self.graph.output(node, i), hash(&(number, i)));
        }
    }

    fn set(&mut self, value: Value, number: u64) {
        self.values[value.index()] = number;
    }
}

/// The type that determines the value: `1` may be an int, a float or a bool, and an empty list may
/// hold anything.
pub(crate) fn informative_type(graph: &Graph, node: Node, value: Value) -> Option<Type> {
    let kind = graph.kind(node);
    let ty = graph.ty(value);
    let empty = (kind == prim::LIST_CONSTRUCT || kind == prim::DICT_CONSTRUCT) && graph.num_inputs(node) == 0;
    let number =
        kind == prim::CONSTANT && matches!(ty.kind(), TypeKind::Simple(_)) && !graph.attributes(node).is_empty();
    (empty || number).then_some(ty)
}

/// The hash of an attribute. Equal texts of unknown contents have equal hashes here: the text is
/// compared.
fn attribute(value: &Attribute) -> u64 {
    use Attribute::*;
    let all = |parts: &[Attribute]| parts.iter().map(attribute).collect::<Vec<u64>>();
    let bits = |float: crate::ir::Float| if float.value.is_nan() { f64::NAN.to_bits() } else { float.value.to_bits() };
    match value {
        Int(n) => hash(&(0, n)),
        Float(float) => hash(&(1, bits(*float))),
        Complex(parts) => hash(&(2, bits(parts.0), bits(parts.1))),
        Bool(b) => hash(&(3, b)),
        None => hash(&4),
        Str(text) => hash(&(5, text)),
        List(parts) => hash(&(6, all(parts))),
        EmptyList(text) => hash(&(7, text)),
        Tuple(parts) => hash(&(8, all(parts))),
        Dict(pairs) => hash(&(9, pairs.iter().map(|(k, v)| (attribute(k), attribute(v))).collect::<Vec<_>>())),
        Device(text) => hash(&(10, text)),
        Type(ty) => hash(&(11, ty)),
        Enum(name) => hash(&(12, name)),
        Tensor(text) | Opaque(text) => hash(&(13, text)),
        // Its computation is counted with the node that owns it.
        Graph(_) => 14,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{ParseOptions, parse};

    fn graph(body: &str) -> Graph {
        let text =
            format!("graph(%x : Tensor, %y : Tensor, %b : bool):\n  %1 : int = prim::Constant[value=1]()\n{body}");
        parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph
    }

    fn same(a: &str, b: &str) -> bool {
        equivalent(&graph(a), &graph(b), Sight::EXACT)
    }

    #[test]
    fn names_and_legal_order_do_not_count() {
        assert!(same(
            "  %a : Tensor = aten::neg(%x)\n  %c : Tensor = aten::exp(%x)\n  return (%a, %c)\n",
            "  %p : Tensor = aten::exp(%x)\n  %q : Tensor = aten::neg(%x)\n  return (%q, %p)\n",
        ));
        assert!(!same(
            "  %a : Tensor = aten::sub(%x, %y, %1)\n  return (%a)\n",
            "  %a : Tensor = aten::sub(%y, %x, %1)\n  return (%a)\n"
        ));
        assert!(!same(
            "  %a : Tensor = aten::neg(%x)\n  return (%a)\n",
            "  %a : Float(*) = aten::neg(%x)\n  return (%a)\n"
        ));
    }

    #[test]
    fn writes_keep_their_place_among_readers() {
        let read = "  %r : Tensor = aten::neg(%a)\n";
        let write = "  %w : Tensor = aten::add_(%a, %y, %1)\n";
        let other = "  %o : Tensor = aten::exp(%y)\n";
        let body = |lines: [&str; 3]| {
            format!("  %a : Tensor = aten::clone(%x, %n)\n{}  return (%r, %o)\n", lines.concat()).replace(", %n", "")
        };
        assert!(same(&body([read, write, other]), &body([other, read, write])));
        assert!(!same(&body([read, write, other]), &body([write, read, other])));
    }

    #[test]
    fn effects_keep_their_order() {
        let body = |a: &str, b: &str| format!("   = prim::Print({a})\n   = prim::Print({b})\n  return ()\n");
        assert!(!same(&body("%x", "%y"), &body("%y", "%x")));
    }

    #[test]
    fn blocks_are_bags_and_their_results_are_not() {
        let branch = |first: &str, second: &str, results: &str| {
            format!(
                "  %p : Tensor, %q : Tensor = prim::If(%b)\n    block0():\n{first}{second}      -> ({results})\n    \
                 block1():\n      -> (%x, %x)\n  return (%p, %q)\n"
            )
        };
        let (neg, exp) = ("      %n : Tensor = aten::neg(%x)\n", "      %e : Tensor = aten::exp(%x)\n");
        assert!(same(&branch(neg, exp, "%n, %e"), &branch(exp, neg, "%n, %e")));
        assert!(!same(&branch(neg, exp, "%n, %e"), &branch(neg, exp, "%e, %n")));
    }

    #[test]
    fn fingerprints_of_sections_follow_their_params() {
        let text = |head: &str, operands: &str, params: &str| {
            format!(
                "graph(%x : Tensor, %y : Tensor):\n  %r : Tensor = prim::{head}({operands})\n  return (%r)\nwith prim::{head} = \
                 graph({params}):\n  %t : Tensor = aten::div(%a, %b)\n  return (%t)\n"
            )
        };
        let parsed = |text: String| parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
        let one = parsed(text("FusionGroup_0", "%x, %y", "%a : Tensor, %b : Tensor"));
        let turned = parsed(text("FusionGroup_0", "%y, %x", "%b : Tensor, %a : Tensor"));
        let other = parsed(text("FusionGroup_0", "%y, %x", "%a : Tensor, %b : Tensor"));
        assert!(equivalent(&one, &turned, Sight::EXACT));
        assert!(!equivalent(&one, &other, Sight::EXACT));
    }
}
