//! The traversal of one graph, and the visibility of values.
//!
//! A value is visible to the nodes after its definer in the same block, and to everything in the
//! blocks of those. It is therefore enough to record the block of each definition when the
//! traversal reaches it, and the set of open blocks: a value is visible when its block is recorded
//! and still open.

use super::arity;
use super::finding::{Report, Sink, Spot};
use super::typing::{Sort, TypeTable};
use crate::entity::{Entity, EntitySet};
use crate::ir::{Block, Graph, Label, Node, Value};
use crate::log::did_you_mean;
use crate::ops::operator;
use rustc_hash::{FxHashMap, FxHashSet};

/// A block that the traversal is in.
struct Open {
    block: Block,
    next: Option<Node>,
    /// The node whose blocks are being traversed; `done` counts those finished.
    owner: Option<Node>,
    done: usize,
}

/// The recorded facts about a value.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The block of its definition, once the traversal has passed it.
    home: Option<Block>,
    sort: Sort,
}

/// The traversal of one graph.
pub(super) struct Walk<'g, 'r> {
    graph: &'g Graph,
    sink: Sink<'g, 'r>,
    types: Option<&'r mut TypeTable>,
    values: Vec<Known>,
    /// The sorts of the operands and outputs of the current node.
    key: Vec<Sort>,
    open: EntitySet<Block>,
    numbers: Numbers,
    /// Values whose name denotes a later value, in printed order.
    shadowed: Vec<Value>,
    carriers: Vec<Node>,
}

impl<'g, 'r> Walk<'g, 'r> {
    pub(super) fn new(
        graph: &'g Graph,
        section: usize,
        report: &'r mut Report,
        types: Option<&'r mut TypeTable>,
    ) -> Walk<'g, 'r> {
        Walk {
            graph,
            sink: report.sink(graph, section),
            types,
            values: vec![Known::default(); graph.num_values()],
            key: Vec::new(),
            open: EntitySet::new(),
            numbers: Numbers::new(graph),
            shadowed: Vec::new(),
            carriers: Vec::new(),
        }
    }

    /// Checks the graph; returns the nodes with sections in printed order.
    pub(super) fn run(mut self) -> Vec<Node> {
        let mut stack = vec![self.enter(self.graph.root())];
        while let Some(top) = stack.last_mut() {
            if let Some(owner) = top.owner {
                if top.done < self.graph.num_blocks(owner) {
                    top.done += 1;
                    let block = self.graph.node_block(owner, top.done - 1);
                    stack.push(self.enter(block));
                    continue;
                }
                top.owner = None;
                self.define_outputs(owner, top.block);
            }
            match top.next {
                Some(node) => {
                    (top.next, top.done) = (self.graph.next(node), 0);
                    self.node(node);
                    match self.graph.num_blocks(node) {
                        0 => self.define_outputs(node, top.block),
                        _ => top.owner = Some(node),
                    }
                }
                None => {
                    self.leave(top.block);
                    stack.pop();
                }
            }
        }
        self.redefinitions();
        self.carriers
    }

    fn enter(&mut self, block: Block) -> Open {
        self.open.insert(block);
        let params = self.graph.param_node(block);
        self.note_types(params);
        self.define_outputs(params, block);
        Open { block, next: self.graph.first(block), owner: None, done: 0 }
    }

    fn leave(&mut self, block: Block) {
        self.operands(self.graph.return_node(block));
        self.open.remove(block);
    }

    fn node(&mut self, node: Node) {
        self.operands(node);
        let operator = operator(self.graph.era, self.graph.kind(node));
        arity::check(&mut self.sink, node, operator);
        self.note_types(node);
        if let Some(types) = &mut self.types {
            types.check(&mut self.sink, node, operator, &self.key);
        }
        if !self.graph.attributes(node).is_empty() && self.carries(node) {
            self.carriers.push(node);
        }
    }

    #[inline]
    fn note_types(&mut self, node: Node) {
        let Some(types) = &mut self.types else { return };
        for value in self.graph.outputs(node) {
            let sort = types.sort(self.graph.written_type(value));
            self.values[value.index()].sort = sort;
            self.key.push(sort);
        }
    }

    /// Whether the printer prints a section for the node.
    fn carries(&self, node: Node) -> bool {
        self.graph.subgraph(node).is_some() && !self.graph.kind(node).as_str().starts_with('^')
    }

    #[inline]
    fn define_outputs(&mut self, node: Node, block: Block) {
        for (i, value) in self.graph.outputs(node).enumerate() {
            let home = &mut self.values[value.index()].home;
            if home.replace(block).is_some() || self.graph.definer(value) != Some(node) {
                let name = self.sink.name(value);
                self.sink.error(Spot::Output(node, i), format!("{name} is an output of several nodes"));
            }
            match self.graph.label(value) {
                Label::Number(n) if self.numbers.insert(n) => {}
                Label::Number(_) => self.redefined(value),
                Label::Text(_) if self.graph.owns_name(value) => {}
                Label::Text(_) => self.shadowed.push(value),
            }
        }
    }

    // ---- operands

    #[inline]
    fn operands(&mut self, node: Node) {
        self.key.clear();
        for (i, value) in self.graph.inputs(node).enumerate() {
            let known = self.values[value.index()];
            self.key.push(known.sort);
            if !known.home.is_some_and(|block| self.open.contains(block)) {
                self.invisible(node, i, value);
            }
        }
    }

    #[cold]
    fn invisible(&mut self, node: Node, i: usize, value: Value) {
        let spot = Spot::Operand(node, i);
        let name = self.sink.name(value);
        let Some(definer) = self.graph.definer(value) else { return self.undefined(spot, &name) };
        let kind = self.graph.kind(definer);
        if self.graph.block_of(definer).is_none() {
            self.sink.error(spot, format!("{name} belongs to a `{kind}` that is no longer in the graph"));
        } else if let Some(block) = self.values[value.index()].home {
            self.out_of_scope(spot, &name, block);
        } else if definer == node {
            self.sink.error(spot, format!("{name} is an operand of the node that defines it"));
        } else {
            let finding = self.sink.error(spot, format!("{name} is used before it is defined"));
            finding.note(format!("`{kind}` defines it further down"));
        }
    }

    fn out_of_scope(&mut self, spot: Spot, name: &str, block: Block) {
        let finding = self.sink.error(spot, format!("{name} is used outside of the block that defines it"));
        if let Some(owner) = self.graph.owner_node(block) {
            let kind = self.graph.kind(owner);
            finding
                .help(format!("return the value from the block, `-> ({name})`, and read the output of its `{kind}`"));
        }
    }

    fn undefined(&mut self, spot: Spot, name: &str) {
        /// The number of suggestions: each costs a search through all names.
        const SUGGESTIONS: usize = 20;
        let known = if self.sink.count() < SUGGESTIONS { self.visible_names() } else { Vec::new() };
        let close = did_you_mean(&name[1..], known.iter().map(String::as_str));
        let finding = self.sink.error(spot, format!("{name} is not defined"));
        if let Some(close) = close {
            finding.help(format!("did you mean %{close}?"));
        }
    }

    fn visible_names(&self) -> Vec<String> {
        /// The number of names compared at most.
        const COMPARED: usize = 10_000;
        let values = (0..self.values.len()).rev().map(Value::at);
        let visible =
            values.filter(|value| self.values[value.index()].home.is_some_and(|block| self.open.contains(block)));
        visible.filter(|&value| self.graph.is_named(value)).take(COMPARED).map(|value| self.graph.name(value)).collect()
    }

    // ---- names

    fn redefined(&mut self, value: Value) {
        let Some(node) = self.graph.definer(value) else { return };
        let name = self.sink.name(value);
        let spot = Spot::Output(node, self.graph.output_index(value));
        let finding = self.sink.warning(spot, format!("{name} is defined again"));
        finding.is_about_name = true;
        finding.note("later uses refer to this definition, as in PyTorch");
    }

    /// Reports all definitions of a name but the first.
    fn redefinitions(&mut self) {
        let mut first = FxHashSet::default();
        let mut last = FxHashMap::default();
        for value in std::mem::take(&mut self.shadowed) {
            let Label::Text(name) = self.graph.label(value) else { continue };
            if !first.insert(name) {
                self.redefined(value);
            }
            last.insert(name, self.graph.owner(name));
        }
        let mut last: Vec<Value> = last.into_values().flatten().collect();
        last.sort_unstable();
        for value in last {
            self.redefined(value);
        }
    }
}

/// The numbers of printed values: a dense set, unless a file uses `%400000000`.
struct Numbers {
    dense: Vec<u64>,
    sparse: FxHashSet<u32>,
}

impl Numbers {
    fn new(graph: &Graph) -> Numbers {
        Numbers { dense: vec![0; graph.num_values() / 16 + 64], sparse: FxHashSet::default() }
    }

    /// Inserts a number; returns whether it is new.
    #[inline]
    fn insert(&mut self, n: u32) -> bool {
        let Some(word) = self.dense.get_mut(n as usize / 64) else { return self.sparse.insert(n) };
        let bit = 1 << (n % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh
    }
}
