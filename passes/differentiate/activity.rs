//! Activity analysis: which values depend on inputs that need gradients, and which writes do not
//! affect them.
//!
//! ```text
//! %tracked : Tensor = prim::GetAttr[name="num_batches_tracked"](%self)
//! %k : Tensor = aten::add_(%tracked, %one, %one)         # no tensor among the params is in it: it has no gradient
//! %y : Tensor = aten::mul(%x, %tracked)                  # `%y` has one
//! ```
//!
//! A value is active when it depends on a param that may have a gradient, through operators that
//! propagate gradients. It receives a gradient when a result also depends on it. It shares when it
//! may share memory with an active value: `aten::detach` has no gradient, but a write to its result
//! changes a value that has one.

use jitopt_core::analysis::gradient_claims::requires_gradient;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::entity::EntitySet;
use jitopt_core::ir::{Attribute, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::gradient_table::any_gradient_row;
use jitopt_core::ops::rules::AliasRule;
use jitopt_core::ops::schema::Schema;
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::types::{Type, TypeKind};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The activity of the values of a graph. Sections are opaque.
pub(super) struct Activity {
    active: EntitySet<Value>,
    shares: EntitySet<Value>,
    /// Values that results depend on, through operators that propagate gradients.
    useful: EntitySet<Value>,
    /// Nodes that set an attribute of an object.
    stores: Vec<Node>,
    memories: RefCell<Option<Memories>>,
    grew: bool,
}

impl Activity {
    /// Propagates activity through a graph, repeating loops until they add nothing; each value is
    /// added once.
    pub(super) fn of(graph: &Graph) -> Activity {
        let mut found = Activity {
            active: EntitySet::new(),
            shares: EntitySet::new(),
            useful: EntitySet::new(),
            stores: graph.all_nodes().filter(|&node| graph.kind(node) == prim::SET_ATTR).collect(),
            memories: RefCell::new(None),
            grew: true,
        };
        for param in graph.params(graph.root()).filter(|&param| requires_gradient(graph.ty(param))) {
            found.active.insert(param);
            found.shares.insert(param);
        }
        while std::mem::take(&mut found.grew) {
            for node in graph.all_nodes() {
                found.pass_through(graph, node);
            }
        }
        for result in graph.results(graph.root()) {
            found.useful.insert(result);
        }
        let mut backwards: Vec<Node> = graph.all_nodes().collect();
        backwards.reverse();
        found.grew = true;
        while std::mem::take(&mut found.grew) {
            for &node in &backwards {
                found.come_back(graph, node);
            }
        }
        found
    }

    /// Whether any result of a node may receive a gradient.
    pub(super) fn reaches(&self, graph: &Graph, node: Node) -> bool {
        graph.outputs(node).any(|value| self.active.contains(value) && self.useful.contains(value))
    }

    /// Whether a write to `target` affects no value that has a gradient.
    fn is_apart(&self, graph: &Graph, node: Node, target: Value) -> bool {
        !self.shares.contains(target) && !graph.inputs(node).any(|value| self.active.contains(value))
    }

    /// The objection to a write of a node, if there is one.
    pub(super) fn is_in_the_way(&self, graph: &Graph, node: Node) -> Option<&'static str> {
        let Some(schema) = schema_of(graph, node) else {
            let may_be_written =
                !ops::operator(graph.era, graph.kind(node)).is_known() && self.is_any_read(graph, node);
            return may_be_written.then_some("may overwrite memory from which a value with a gradient was computed");
        };
        let targets = schema.writes().filter(|&i| i < graph.num_inputs(node)).map(|i| graph.input(node, i));
        let mut targets = targets.filter(|&target| requires_gradient(graph.ty(target)));
        targets.find_map(|target| match self.is_apart(graph, node, target) {
            false => Some("overwrites a value that has a gradient"),
            true => self.is_read_before(graph, node, target).then_some(
                "overwrites memory from which a value with a gradient was computed, which its formula may read",
            ),
        })
    }

    /// Whether a value with a gradient is stored in an object. Other tensors that are stored have
    /// none when they are read again.
    pub(super) fn is_lost(&self, graph: &Graph, node: Node) -> bool {
        match graph.kind(node) {
            prim::SET_ATTR => graph.inputs(node).any(|value| self.active.contains(value)),
            prim::CALL_FUNCTION | prim::CALL_METHOD => {
                graph.inputs(node).any(|value| self.shares.contains(value)) || self.is_any_read(graph, node)
            }
            _ => false,
        }
    }

    /// Whether a formula may capture any operand of a node that may write to all of them.
    fn is_any_read(&self, graph: &Graph, node: Node) -> bool {
        let mut operands = graph.inputs(node).filter(|&value| requires_gradient(graph.ty(value)));
        operands.any(|value| self.is_read_before(graph, node, value))
    }

    // ---- forward

    fn pass_through(&mut self, graph: &Graph, node: Node) {
        match graph.kind(node) {
            prim::IF => {
                for block in graph.node_blocks(node) {
                    self.forward(graph.results(block), graph.outputs(node));
                }
            }
            prim::LOOP => {
                let block = graph.node_block(node, 0);
                self.forward(graph.inputs(node).skip(2), graph.params(block).skip(1));
                self.forward(graph.results(block).skip(1), graph.params(block).skip(1));
                self.forward(graph.inputs(node).skip(2), graph.outputs(node));
                self.forward(graph.results(block).skip(1), graph.outputs(node));
            }
            prim::GET_ATTR => self.read_attribute(graph, node),
            _ => self.compute(graph, node),
        }
    }

    fn forward(&mut self, from: impl Iterator<Item = Value>, to: impl Iterator<Item = Value>) {
        for (from, to) in from.zip(to) {
            self.add(to, self.active.contains(from), self.shares.contains(from));
        }
    }

    fn add(&mut self, value: Value, is_active: bool, shares: bool) {
        if is_active && self.active.insert(value) {
            self.grew = true;
        }
        if (is_active || shares) && self.shares.insert(value) {
            self.grew = true;
        }
    }

    /// A value stored in an object under this name may be the value that is read.
    fn read_attribute(&mut self, graph: &Graph, node: Node) {
        let name = name_of(graph, node);
        let mut stores = self.stores.iter().filter(|&&store| name_of(graph, store) == name);
        let shares = stores.any(|&store| graph.inputs(store).any(|value| self.shares.contains(value)));
        for output in graph.outputs(node).collect::<Vec<_>>() {
            self.add(output, false, shares);
        }
    }

    fn compute(&mut self, graph: &Graph, node: Node) {
        let inner = graph.node_blocks(node).flat_map(|block| graph.results(block).collect::<Vec<_>>());
        let operands: Vec<Value> = graph.inputs(node).chain(inner).collect();
        if !operands.iter().any(|&value| self.shares.contains(value)) {
            return;
        }
        let schema = schema_of(graph, node);
        let shares = operands.iter().any(|&value| self.shares.contains(value));
        for container in containers_written(graph, node, schema) {
            self.add(container, false, shares);
        }
        // Operators that propagate gradients without a formula have a row, too.
        let schema = schema.filter(|_| !is_structural(graph.kind(node)));
        let row = schema.and_then(|schema| any_gradient_row(graph.release(), schema));
        let is_stopped = row.is_some_and(|row| row.formula().lines.is_empty());
        let is_active = !is_stopped && operands.iter().any(|&value| self.active.contains(value));
        let inside = graph.node_blocks(node).flat_map(|block| graph.params(block).collect::<Vec<_>>());
        for (i, output) in graph.outputs(node).chain(inside).collect::<Vec<_>>().into_iter().enumerate() {
            let shares = operands
                .iter()
                .enumerate()
                .any(|(k, &operand)| self.shares.contains(operand) && may_be_operand(graph, node, schema, k, i));
            self.add(output, is_active && requires_gradient(graph.ty(output)), shares);
        }
    }

    // ---- backward

    fn come_back(&mut self, graph: &Graph, node: Node) {
        match graph.kind(node) {
            prim::IF => {
                for block in graph.node_blocks(node) {
                    self.want(graph.outputs(node), graph.results(block));
                }
            }
            prim::LOOP => {
                let block = graph.node_block(node, 0);
                self.want(graph.outputs(node), graph.inputs(node).skip(2));
                self.want(graph.outputs(node), graph.results(block).skip(1));
                self.want(graph.params(block).skip(1), graph.inputs(node).skip(2));
                self.want(graph.params(block).skip(1), graph.results(block).skip(1));
            }
            _ if self.reaches(graph, node) => {
                let inner = graph.node_blocks(node).flat_map(|block| graph.results(block).collect::<Vec<_>>());
                for value in graph.inputs(node).chain(inner).collect::<Vec<_>>() {
                    self.grew |= self.useful.insert(value);
                }
            }
            _ => {}
        }
    }

    fn want(&mut self, made: impl Iterator<Item = Value>, of: impl Iterator<Item = Value>) {
        for (_, value) in made.zip(of).filter(|(made, _)| self.useful.contains(*made)).collect::<Vec<_>>() {
            self.grew |= self.useful.insert(value);
        }
    }

    // ---- writes

    /// Whether a formula may capture the memory that a node writes to: a value with a gradient was
    /// computed from it before, or in another iteration.
    fn is_read_before(&self, graph: &Graph, write: Node, target: Value) -> bool {
        let mut memories = self.memories.borrow_mut();
        let memories = memories.get_or_insert_with(|| Memories::of(graph));
        let written = memories.root(target);
        let may_come_first = |node: Node| node != write && (graph.is_before(node, write) || is_in_loop(graph, write));
        let mut nodes = graph.all_nodes().filter(|&node| may_come_first(node) && self.reaches(graph, node));
        nodes.any(|node| graph.inputs(node).any(|value| memories.root(value) == written))
    }
}

pub(super) fn schema_of(graph: &Graph, node: Node) -> Option<&'static Schema> {
    let types: Vec<Type> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    ops::operator(graph.era, graph.kind(node)).resolve(&types).schema()
}

/// Nodes whose gradient unpacks what they pack, or passes the gradient through.
pub(super) fn is_structural(kind: Symbol) -> bool {
    matches!(
        kind,
        prim::LIST_CONSTRUCT
            | prim::LIST_UNPACK
            | prim::AUTOGRAD_ADD
            | prim::AUTOGRAD_ZERO
            | prim::PROFILE
            | prim::CONSTANT
            | prim::CONSTANT_CHUNK
    )
}

/// Whether a node is a group with a backward graph.
pub(super) fn has_backward(graph: &Graph, node: Node) -> bool {
    graph.kind(node) == prim::DIFFERENTIABLE_GRAPH && Roles::of(graph, node).is_some()
}

/// The name of the attribute that a node reads or sets.
fn name_of(graph: &Graph, node: Node) -> Option<&[u8]> {
    match graph.attribute(node, attr::NAME) {
        Some(Attribute::Str(name)) => Some(name),
        _ => None,
    }
}

fn is_in_loop(graph: &Graph, mut node: Node) -> bool {
    while let Some(owner) = graph.block_of(node).and_then(|block| graph.owner_node(block)) {
        if graph.kind(owner) == prim::LOOP {
            return true;
        }
        node = owner;
    }
    false
}

/// The lists and dictionaries that a node inserts into.
fn containers_written(graph: &Graph, node: Node, schema: Option<&Schema>) -> Vec<Value> {
    let written = schema.into_iter().flat_map(Schema::writes).filter(|&i| i < graph.num_inputs(node));
    written.map(|i| graph.input(node, i)).filter(|&value| !graph.ty(value).is_tensor()).collect()
}

/// Whether the i-th result may share memory with the k-th operand, or contain it.
fn may_be_operand(graph: &Graph, node: Node, schema: Option<&Schema>, k: usize, i: usize) -> bool {
    match ops::operator(graph.era, graph.kind(node)).alias_rule(schema) {
        AliasRule::Fresh | AliasRule::Nothing | AliasRule::BatchNorm { .. } => false,
        AliasRule::MayReturn(only) => k == only,
        AliasRule::Schema => schema.is_none_or(|schema| {
            let Some(result) = schema.returns.get(i) else { return true };
            let holds = |ty: Type| !ty.is_tensor() && requires_gradient(ty);
            let holds = k < graph.num_inputs(node) && holds(graph.ty(graph.input(node, k)));
            let is_annotated = holds || schema.formals.get(k).is_none_or(|formal| formal.is_annotated());
            let is_container = !matches!(result.ty.kind(), TypeKind::Tensor(_));
            if result.is_annotated() { is_annotated } else { is_container }
        }),
        _ => true,
    }
}

/// Sets of values that may share memory, by the operators that derive one from the other. All reads
/// of an attribute name share memory.
///
/// The general alias analysis serves rewrites, and assumes that all params and attributes may share
/// memory. Under that assumption each write to a buffer would forbid the gradients of all weights.
/// This one counts only sharing that the text itself establishes.
#[derive(Default)]
struct Memories {
    above: ValueMap,
    by_name: FxHashMap<Box<[u8]>, Value>,
}

impl Memories {
    fn of(graph: &Graph) -> Memories {
        let mut all = Memories::default();
        for node in graph.all_nodes() {
            match graph.kind(node) {
                prim::GET_ATTR => all.join_named(graph, node, graph.outputs(node).next()),
                prim::SET_ATTR => all.join_named(graph, node, graph.inputs(node).nth(1)),
                _ => all.join_blocks(graph, node),
            }
            let schema = schema_of(graph, node);
            for container in containers_written(graph, node, schema) {
                let held = graph.inputs(node).filter(|&value| requires_gradient(graph.ty(value)));
                held.for_each(|operand| all.join(operand, container));
            }
            for (i, output) in graph.outputs(node).enumerate() {
                for (k, operand) in graph.inputs(node).enumerate() {
                    if graph.kind(node) != prim::GET_ATTR && may_be_operand(graph, node, schema, k, i) {
                        all.join(operand, output);
                    }
                }
            }
        }
        all
    }

    fn root(&mut self, mut value: Value) -> Value {
        while let Some(&above) = self.above.get(&value) {
            if let Some(&next) = self.above.get(&above) {
                self.above.insert(value, next);
            }
            value = above;
        }
        value
    }

    fn join(&mut self, a: Value, b: Value) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.above.insert(a, b);
        }
    }

    fn join_named(&mut self, graph: &Graph, node: Node, held: Option<Value>) {
        let (Some(name), Some(held)) = (name_of(graph, node), held) else { return };
        let first = *self.by_name.entry(name.into()).or_insert(held);
        self.join(first, held);
    }

    /// Joins values that enter and leave blocks.
    fn join_blocks(&mut self, graph: &Graph, node: Node) {
        let skipped = usize::from(graph.kind(node) == prim::LOOP);
        for block in graph.node_blocks(node) {
            let mut pairs: Vec<(Value, Value)> = graph.results(block).skip(skipped).zip(graph.outputs(node)).collect();
            pairs.extend(graph.inputs(node).skip(2).zip(graph.params(block).skip(1)));
            pairs.extend(graph.results(block).skip(1).zip(graph.params(block).skip(1)));
            pairs.into_iter().for_each(|(a, b)| self.join(a, b));
        }
    }
}
