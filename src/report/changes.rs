//! The differences between two graphs, as few changes as explain them.
//!
//! ```text
//! %a = aten::neg(%x)                          replaced   %a = aten::neg(%x)
//! %b = aten::tanh(%a)            =>                   by %a = aten::exp(%x)
//! %c = aten::mul(%b, %b)                      fused      %b = aten::tanh(%a)
//!                                                        %c = aten::mul(%b, %b)
//!                                                   into %7 = prim::FusionGroup_0(%a)
//! ```
//!
//! Names and legal order are no change. A node whose operand was replaced is not changed by that:
//! it uses the partner of its old operand. Sections of partners are compared recursively.

use super::pairing::Pairing;
use crate::analysis::fingerprints::{Fingerprints, Sight, equivalent, informative_type};
use crate::ir::{Block, Graph, Node, Value};
use crate::text::{PrintOptions, Printer};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};
use std::cmp::Ordering;
use std::fmt;

/// One change. Nodes are as they print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The params or results of the graph differ: which, before, after.
    Signature(&'static str, String, String),
    /// A node was removed without a replacement.
    Removed(String),
    /// A node is new.
    Added(String),
    /// Users of the results of a removed node use those of a new one.
    Replaced {
        /// The removed node.
        before: String,
        /// The new node.
        after: String,
    },
    /// Users of the results of removed nodes use a value that was there before.
    Redirected {
        /// The removed nodes.
        nodes: Vec<String>,
        /// The value that is used now: a node, or a param.
        into: String,
    },
    /// Nodes moved into a section.
    Fused {
        /// The removed nodes.
        nodes: Vec<String>,
        /// The node with the section.
        into: String,
    },
    /// A section was dissolved.
    Split {
        /// The node with the section.
        group: String,
        /// The new nodes.
        nodes: Vec<String>,
    },
    /// A node stands in another block, or in another order among writes and effects.
    Moved {
        /// The node.
        node: String,
        /// From where to where.
        how: String,
    },
    /// The types of results differ.
    Retyped {
        /// The node before.
        before: String,
        /// The node after.
        after: String,
        /// Name, type before, type after.
        values: Vec<(String, String, String)>,
    },
    /// Attributes or the number of results differ.
    Altered {
        /// The node before.
        before: String,
        /// The node after.
        after: String,
    },
    /// A node has other operands.
    Rewired {
        /// The node before.
        before: String,
        /// The node after.
        after: String,
        /// The indices of the operands, from 0; all when their number changed.
        operands: Vec<usize>,
    },
    /// Changes in the section of a node.
    Within {
        /// The node.
        node: String,
        /// The changes.
        changes: Vec<Change>,
    },
}

/// The changes from `before` to `after`; none when they differ in names and legal order only.
pub fn compare(before: &Graph, after: &Graph, types: bool) -> Vec<Change> {
    if equivalent(before, after, Sight { types, order: true }) {
        return Vec::new();
    }
    let mut finder = Finder {
        before,
        after,
        types,
        pairing: Pairing::new(before, after),
        explained: FxHashSet::default(),
        explained_after: FxHashSet::default(),
        changes: Vec::new(),
    };
    finder.signature();
    finder.sections();
    finder.replacements();
    finder.partners();
    finder.leftovers();
    finder.reordered();
    finder.changes
}

struct Finder<'a> {
    before: &'a Graph,
    after: &'a Graph,
    types: bool,
    pairing: Pairing,
    /// Nodes of the first graph without a partner that a change accounts for.
    explained: FxHashSet<Node>,
    /// The same of the second graph.
    explained_after: FxHashSet<Node>,
    changes: Vec<Change>,
}

impl Finder<'_> {
    fn gone(&self) -> Vec<Node> {
        let open = |node: &Node| self.pairing.after(*node).is_none() && !self.explained.contains(node);
        self.before.all_nodes().filter(open).collect()
    }

    fn new_nodes(&self) -> Vec<Node> {
        let open = |node: &Node| self.pairing.before(*node).is_none() && !self.explained_after.contains(node);
        self.after.all_nodes().filter(open).collect()
    }

    /// Params and results by number and type.
    fn signature(&mut self) {
        let list = |graph: &Graph, values: &mut dyn Iterator<Item = Value>| {
            values.map(|value| graph.ty(value).to_string()).collect::<Vec<_>>()
        };
        let of = |graph: &Graph| {
            let root = graph.root();
            [("params", list(graph, &mut graph.params(root))), ("results", list(graph, &mut graph.results(root)))]
        };
        for ((what, a), (_, b)) in of(self.before).into_iter().zip(of(self.after)) {
            if a.len() != b.len() || self.types && a != b && what == "params" {
                self.changes.push(Change::Signature(what, a.join(", "), b.join(", ")));
            }
        }
    }

    /// New sections are matched with removed nodes that have equal contents, removed sections with
    /// new nodes.
    fn sections(&mut self) {
        for group in self.new_nodes() {
            let Some(section) = self.after.subgraph(group) else { continue };
            let nodes = taken(self.before, &self.gone(), section);
            if !nodes.is_empty() {
                self.explained.extend(&nodes);
                self.explained_after.insert(group);
                let nodes = nodes.iter().map(|&node| line(self.before, node)).collect();
                self.changes.push(Change::Fused { nodes, into: line(self.after, group) });
            }
        }
        for group in self.gone() {
            let Some(section) = self.before.subgraph(group) else { continue };
            let nodes = taken(self.after, &self.new_nodes(), section);
            if !nodes.is_empty() {
                self.explained_after.extend(&nodes);
                self.explained.insert(group);
                let nodes = nodes.iter().map(|&node| line(self.after, node)).collect();
                self.changes.push(Change::Split { group: line(self.before, group), nodes });
            }
        }
    }

    /// A removed node was replaced by the value that its first user with a partner uses now.
    fn replacements(&mut self) {
        // The index of the change that reports a merge into a value.
        let mut merged: FxHashMap<Value, usize> = FxHashMap::default();
        for node in self.gone() {
            let Some(stand_in) = self.before.outputs(node).find_map(|value| self.stand_in(value)) else { continue };
            let Some(definer) = self.after.definer(stand_in) else { continue };
            self.explained.insert(node);
            let before = line(self.before, node);
            if !self.after.is_param(stand_in) && self.pairing.before(definer).is_none() {
                self.explained_after.insert(definer);
                self.changes.push(Change::Replaced { before, after: line(self.after, definer) });
                continue;
            }
            let at = *merged.entry(stand_in).or_insert(self.changes.len());
            match self.changes.get_mut(at) {
                Some(Change::Redirected { nodes, .. }) => nodes.push(before),
                _ => self.changes.push(Change::Redirected { nodes: vec![before], into: shown(self.after, stand_in) }),
            }
        }
    }

    fn stand_in(&self, value: Value) -> Option<Value> {
        self.before.uses(value).find_map(|u| {
            let partner = self.pairing.after(self.before.user(u))?;
            let i = self.before.operand_index(u);
            let same_shape = self.after.num_inputs(partner) == self.before.num_inputs(self.before.user(u));
            same_shape.then(|| self.after.input(partner, i))
        })
    }

    fn partners(&mut self) {
        let mut standing: FxHashMap<Value, Value> = FxHashMap::default();
        for node in self.before.all_nodes().filter(|&node| self.explained.contains(&node)) {
            standing.extend(self.before.outputs(node).filter_map(|value| Some((value, self.stand_in(value)?))));
        }
        let roots = (self.before.return_node(self.before.root()), self.after.return_node(self.after.root()));
        let all: Vec<(Node, Node)> =
            self.before.all_nodes().filter_map(|node| Some((node, self.pairing.after(node)?))).chain([roots]).collect();
        for (node, partner) in all {
            self.partner(node, partner, &standing);
            let blocks: Vec<_> = self.before.node_blocks(node).zip(self.after.node_blocks(partner)).collect();
            blocks.into_iter().for_each(|(block, other)| self.block(block, other, &standing));
        }
    }

    /// Compares the params and results of blocks of partners.
    fn block(&mut self, block: Block, other: Block, standing: &FxHashMap<Value, Value>) {
        let (a, b) = (self.before, self.after);
        self.retyped(a.param_node(block), b.param_node(other), block_line(b, other));
        let (node, partner) = (a.return_node(block), b.return_node(other));
        let operands = self.rewired(node, partner, standing);
        // Added or removed results are reported with the owner.
        if !operands.is_empty() && !self.some_left_out(node, partner, standing) {
            let (before, after) = (results_line(a, block), results_line(b, other));
            self.changes.push(Change::Rewired { before, after, operands });
        }
    }

    /// Whether one of two nodes has the operands of the other without some of them.
    fn some_left_out(&self, node: Node, partner: Node, standing: &FxHashMap<Value, Value>) -> bool {
        let (mut xs, mut ys) = (self.before.inputs(node), self.after.inputs(partner));
        match xs.len().cmp(&ys.len()) {
            Ordering::Greater => ys.all(|y| xs.any(|x| self.is_same(x, y, standing))),
            Ordering::Less => xs.all(|x| ys.any(|y| self.is_same(x, y, standing))),
            Ordering::Equal => false,
        }
    }

    fn partner(&mut self, node: Node, partner: Node, standing: &FxHashMap<Value, Value>) {
        let (a, b) = (self.before, self.after);
        let both = || (line(a, node), line(b, partner));
        if let Some(how) = self.other_block(node, partner) {
            self.changes.push(Change::Moved { node: line(b, partner), how });
        }
        self.retyped(node, partner, line(b, partner));
        if a.num_outputs(node) != b.num_outputs(partner) || !same_attributes(a, node, b, partner) {
            let (before, after) = both();
            self.changes.push(Change::Altered { before, after });
        }
        let operands = self.rewired(node, partner, standing);
        if !operands.is_empty() {
            let (before, after) = both();
            self.changes.push(Change::Rewired { before, after, operands });
        }
        let whole = line(b, partner);
        self.within(whole.clone(), a.subgraph(node), b.subgraph(partner));
        self.within(format!("the backward graph of {whole}"), a.backward(node), b.backward(partner));
    }

    /// Reports the changes in a section that both nodes have.
    fn within(&mut self, node: String, section: Option<&Graph>, other: Option<&Graph>) {
        let changes = section.zip(other).map_or(Vec::new(), |(section, other)| compare(section, other, self.types));
        if !changes.is_empty() {
            self.changes.push(Change::Within { node, changes });
        }
    }

    /// Reports results whose types differ, where types count or identify a node.
    fn retyped(&mut self, node: Node, partner: Node, after: String) {
        let (a, b) = (self.before, self.after);
        let counts = |x: Value| self.types || informative_type(a, node, x).is_some();
        let values: Vec<_> = a
            .outputs(node)
            .zip(b.outputs(partner))
            .filter(|&(x, y)| a.ty(x) != b.ty(y) && counts(x))
            .map(|(x, y)| (b.name(y), a.ty(x).to_string(), b.ty(y).to_string()))
            .collect();
        if !values.is_empty() {
            self.changes.push(Change::Retyped { before: line(a, node), after, values });
        }
    }

    fn other_block(&self, node: Node, partner: Node) -> Option<String> {
        let owner = |graph: &Graph, node| graph.enclosing(node).map(|owner| (owner, block_index(graph, node, owner)));
        let (from, to) = (owner(self.before, node), owner(self.after, partner));
        let same = match (from, to) {
            (None, None) => true,
            (Some((a, i)), Some((b, j))) => self.pairing.after(a) == Some(b) && i == j,
            _ => false,
        };
        let place = |graph: &Graph, place: Option<(Node, usize)>| match place {
            None => "the graph".to_owned(),
            Some((owner, i)) => format!("block{i} of {}", line(graph, owner)),
        };
        (!same).then(|| format!("from {} to {}", place(self.before, from), place(self.after, to)))
    }

    fn rewired(&self, node: Node, partner: Node, standing: &FxHashMap<Value, Value>) -> Vec<usize> {
        let (a, b) = (self.before, self.after);
        if a.num_inputs(node) != b.num_inputs(partner) {
            return (0..b.num_inputs(partner)).collect();
        }
        let pairs = a.inputs(node).zip(b.inputs(partner)).enumerate();
        pairs.filter(|&(_, (x, y))| !self.is_same(x, y, standing)).map(|(i, _)| i).collect()
    }

    /// Whether a value corresponds to the other, or was removed: then it was reported with its
    /// node.
    fn is_same(&self, x: Value, y: Value, standing: &FxHashMap<Value, Value>) -> bool {
        let lost = || self.before.definer(x).is_some_and(|definer| self.explained.contains(&definer));
        self.pairing.value_after(x) == Some(y) || standing.get(&x) == Some(&y) || lost()
    }

    fn leftovers(&mut self) {
        let (mut gone, mut new) = (self.gone(), self.new_nodes());
        // The contents of a reported node were removed or added with it.
        gone.retain(|&node| self.before.enclosing(node).is_none_or(|owner| !self.explained.contains(&owner)));
        new.retain(|&node| self.after.enclosing(node).is_none_or(|owner| !self.explained_after.contains(&owner)));
        let gone: Vec<Change> = outermost(self.before, &gone).into_iter().map(Change::Removed).collect();
        let new: Vec<Change> = outermost(self.after, &new).into_iter().map(Change::Added).collect();
        self.changes.extend(gone.into_iter().chain(new));
    }

    /// Without other changes, the order among writes and effects differs.
    fn reordered(&mut self) {
        if !self.changes.is_empty() {
            return;
        }
        let moved = |node: Node, how: &str| Change::Moved { node: line(self.after, node), how: how.to_owned() };
        let how = "another order among writes, readers of written memory, or effects";
        self.changes = self.pairing.reordered.iter().map(|&(_, node)| moved(node, how)).collect();
        if self.changes.is_empty() {
            // Without a known reason, graphs that differ must not be reported as equal.
            self.changes.push(moved(self.first_unlike(), "it computes something else"));
        }
    }

    /// The first node whose fingerprint differs from that of its partner; when none does, the
    /// return node.
    fn first_unlike(&self) -> Node {
        let sight = Sight { types: self.types, order: true };
        let (a, b) = (Fingerprints::new(self.before, sight), Fingerprints::new(self.after, sight));
        let unlike = |node: &Node| self.pairing.before(*node).is_none_or(|partner| a.node(partner) != b.node(*node));
        self.after.all_nodes().find(unlike).unwrap_or(self.after.return_node(self.after.root()))
    }
}

/// Nodes of `open` that equal those of a section, each once.
fn taken(graph: &Graph, open: &[Node], section: &Graph) -> Vec<Node> {
    let mut wanted: FxHashMap<String, usize> = FxHashMap::default();
    let sign = |graph: &Graph, node: Node| {
        let attributes: Vec<_> =
            graph.attributes(node).iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        format!("{} {} {}", graph.kind(node), graph.num_inputs(node), attributes.join(","))
    };
    for node in section.all_nodes() {
        *wanted.entry(sign(section, node)).or_default() += 1;
    }
    let mut take = |node: &Node| match wanted.get_mut(&sign(graph, *node)) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    open.iter().copied().filter(|node| take(node)).collect()
}

fn same_attributes(a: &Graph, node: Node, b: &Graph, partner: Node) -> bool {
    let text = |graph: &Graph, node: Node| {
        let shown = graph.attributes(node).iter().filter(|(_, value)| !matches!(value, crate::ir::Attribute::Graph(_)));
        let mut all: Vec<String> = shown.map(|(name, value)| format!("{name}={value:?}")).collect();
        all.sort_unstable();
        all
    };
    text(a, node) == text(b, partner)
}

fn block_index(graph: &Graph, node: Node, owner: Node) -> usize {
    graph.node_blocks(owner).position(|block| graph.block_of(node) == Some(block)).unwrap_or(0)
}

/// The nodes that are not nested in others of the list, with the number of nodes nested in them.
fn outermost(graph: &Graph, nodes: &[Node]) -> Vec<String> {
    let all: FxHashSet<Node> = nodes.iter().copied().collect();
    let owner = |node: Node| graph.enclosing(node).filter(|owner| all.contains(owner));
    let mut inside: FxHashMap<Node, usize> = FxHashMap::default();
    // Owners come before their nested nodes; so in reverse, nested nodes are counted before their
    // owner is visited.
    for &node in nodes.iter().rev() {
        if let Some(owner) = owner(node) {
            *inside.entry(owner).or_default() += 1 + inside.get(&node).copied().unwrap_or(0);
        }
    }
    let shown = |&node: &Node| match inside.get(&node) {
        None => line(graph, node),
        Some(1) => format!("{} with a node in it", line(graph, node)),
        Some(n) => format!("{} with {n} nodes in it", line(graph, node)),
    };
    nodes.iter().filter(|&&node| owner(node).is_none()).map(shown).collect()
}

/// The node that defines a value; for a param the name.
fn shown(graph: &Graph, value: Value) -> String {
    let definer = graph.definer(value).filter(|_| !graph.is_param(value));
    definer.map_or_else(|| format!("%{}", graph.name(value)), |node| line(graph, node))
}

fn line(graph: &Graph, node: Node) -> String {
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    match graph.enclosing(node).is_none() && graph.return_node(graph.root()) == node {
        true => {
            let results: Vec<String> =
                graph.results(graph.root()).map(|value| format!("%{}", graph.name(value))).collect();
            return format!("return ({})", results.join(", "));
        }
        false => printer.node_line(graph, node),
    }
    String::from_utf8_lossy(&printer.out).trim().to_owned()
}

/// The results of a block of a node.
fn results_line(graph: &Graph, block: Block) -> String {
    let results: Vec<String> = graph.results(block).map(|value| format!("%{}", graph.name(value))).collect();
    format!("-> ({}) in {}", results.join(", "), block_line(graph, block))
}

/// `block0 of %y : Tensor = prim::If(%c)`
fn block_line(graph: &Graph, block: Block) -> String {
    let Some(owner) = graph.owner_node(block) else { return "the graph".to_owned() };
    let i = graph.node_blocks(owner).position(|one| one == block).unwrap_or(0);
    format!("block{i} of {}", line(graph, owner))
}

impl Change {
    /// One word.
    pub fn kind(&self) -> &'static str {
        match self {
            Change::Signature(..) => "signature",
            Change::Removed(_) => "removed",
            Change::Added(_) => "added",
            Change::Replaced { .. } => "replaced",
            Change::Redirected { .. } => "redirected",
            Change::Fused { .. } => "fused",
            Change::Split { .. } => "split",
            Change::Moved { .. } => "moved",
            Change::Retyped { .. } => "retyped",
            Change::Altered { .. } => "altered",
            Change::Rewired { .. } => "rewired",
            Change::Within { .. } => "within",
        }
    }

    /// For tools: `change` is the kind, nodes are as they print.
    pub fn json(&self) -> Json {
        let kind = self.kind();
        match self {
            Change::Signature(what, a, b) => json!({"change": kind, "what": what, "before": a, "after": b}),
            Change::Removed(node) | Change::Added(node) => json!({"change": kind, "node": node}),
            Change::Replaced { before, after } | Change::Altered { before, after } => {
                json!({"change": kind, "before": before, "after": after})
            }
            Change::Redirected { nodes, into } | Change::Fused { nodes, into } => {
                json!({"change": kind, "nodes": nodes, "into": into})
            }
            Change::Split { group, nodes } => json!({"change": kind, "group": group, "nodes": nodes}),
            Change::Moved { node, how } => json!({"change": kind, "node": node, "how": how}),
            Change::Retyped { before, after, values } => {
                json!({"change": kind, "before": before, "after": after, "values": values})
            }
            Change::Rewired { before, after, operands } => {
                json!({"change": kind, "before": before, "after": after, "operands": operands})
            }
            Change::Within { node, changes } => {
                json!({"change": kind, "node": node, "changes": changes.iter().map(Change::json).collect::<Vec<_>>()})
            }
        }
    }

    /// The lines after the kind: a mark, `-`, `+` or a blank, and the text.
    fn lines(&self) -> Vec<(char, String)> {
        let marked = |mark: char, texts: &[String]| texts.iter().map(|text| (mark, text.clone())).collect::<Vec<_>>();
        let two = |a: &String, b: &String| vec![('-', a.clone()), ('+', b.clone())];
        match self {
            Change::Signature(what, a, b) => vec![('-', format!("{what} ({a})")), ('+', format!("{what} ({b})"))],
            Change::Removed(node) => vec![('-', node.clone())],
            Change::Added(node) => vec![('+', node.clone())],
            Change::Redirected { nodes, into } => [marked('-', nodes), vec![(' ', into.clone())]].concat(),
            Change::Replaced { before, after } | Change::Altered { before, after } => two(before, after),
            Change::Rewired { before, after, .. } => two(before, after),
            Change::Fused { nodes, into } => [marked('-', nodes), vec![('+', into.clone())]].concat(),
            Change::Split { group, nodes } => [vec![('-', group.clone())], marked('+', nodes)].concat(),
            Change::Moved { node, how } => vec![(' ', node.clone()), (' ', how.clone())],
            Change::Retyped { after, values, .. } => {
                let types = values.iter().map(|(name, a, b)| (' ', format!("%{name} : {a} -> {b}")));
                [(' ', after.clone())].into_iter().chain(types).collect()
            }
            Change::Within { node, changes } => {
                let inner = changes.iter().flat_map(|change| {
                    change.to_string().lines().map(|line| (' ', format!("  {line}"))).collect::<Vec<_>>()
                });
                [(' ', node.clone())].into_iter().chain(inner).collect()
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (mark, text)) in self.lines().iter().enumerate() {
            let kind = if i == 0 { self.kind() } else { "" };
            writeln!(f, "{}", format!("{kind:10} {mark} {text}").trim_end())?;
        }
        Ok(())
    }
}
