//! The traversal of a graph that records, node by node, shared memory, contents, and writes.
//!
//! Each node is visited once, in printed order, nested blocks and the graphs of sections at the
//! position of their node. Open blocks are kept on an explicit stack, so that depth costs no call
//! stack.

use super::memory::{Draft, Element, Write};
use super::transfer_plan::{Operands, Out, Plan, Plans};
use super::type_classes::TypeClass;
use crate::entity::Entity;
use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::ops::rules::{AliasRule, Carries, Effect};
use crate::ops::{Operator, operator};
use crate::symbol::{attr, prim};
use crate::types::era::Era;
use smallvec::SmallVec;

/// Facts recorded of a node besides its memory, as bits.
pub(super) mod flag {
    /// The node, or a nested node, has a side effect.
    pub(crate) const EFFECT: u8 = 1;
    /// The node, or a nested node, writes to memory.
    pub(crate) const WRITES: u8 = 2;
}

/// The transfer of values into and out of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    /// The root of a graph.
    Root,
    /// No params; results are results of the node.
    Results,
    /// See [`AliasRule::Loop`].
    Loop,
    /// Operands are params, results are results: the graph of a section.
    Section,
    /// Params and results may be anything.
    Opaque,
}

/// A graph and the offset of its values.
#[derive(Clone, Copy)]
struct Scope<'g> {
    graph: &'g Graph,
    base: usize,
}

/// A block that is being traversed.
struct Frame<'g> {
    scope: Scope<'g>,
    /// The next node of the block.
    next: Option<Node>,
    block: Block,
    passage: Passage,
    /// The node that owns the block, or the section, and the index of the block.
    owner: Option<(Node, usize)>,
    /// The number of recorded writes before the owner.
    writes: usize,
    flags: u8,
}

/// The traversal and its notes.
pub(super) struct Transfer<'g> {
    pub(super) draft: Draft,
    /// The element of each mutable value, those of sections after those of the graph.
    pub(super) elements: Vec<Option<Element>>,
    /// The recorded writes that belong to each node of the graph, nested nodes included.
    pub(super) writes: Vec<(u32, u32)>,
    pub(super) flags: Vec<u8>,
    pub(super) work: u64,
    plans: Plans,
    frames: Vec<Frame<'g>>,
}

impl<'g> Transfer<'g> {
    /// Traverses a graph.
    pub(super) fn of(graph: &'g Graph) -> Transfer<'g> {
        let mut walk = Transfer {
            draft: Draft::new(),
            elements: Vec::new(),
            writes: vec![(0, 0); graph.num_node_rows()],
            flags: vec![0; graph.num_node_rows()],
            work: 0,
            plans: Plans::default(),
            frames: Vec::new(),
        };
        let scope = walk.open(graph);
        for param in graph.params(graph.root()) {
            walk.set_wild(scope, param);
        }
        walk.enter(scope, graph.root(), Passage::Root, None);
        while let Some(frame) = walk.frames.last_mut() {
            let scope = frame.scope;
            match frame.next {
                Some(node) => {
                    frame.next = scope.graph.next(node);
                    walk.visit(scope, node);
                }
                None => walk.leave(),
            }
        }
        walk.work += walk.plans.misses;
        walk
    }

    /// Reserves entries for the values of a graph. Names that are read but not defined may be
    /// anything.
    fn open(&mut self, graph: &'g Graph) -> Scope<'g> {
        let scope = Scope { graph, base: self.elements.len() };
        // At least one, so that only the outermost graph begins at 0.
        self.elements.resize(scope.base + graph.num_values().max(1), None);
        for value in (0..graph.num_values()).map(Value::at) {
            if graph.definer(value).is_none() {
                self.set_wild(scope, value);
            }
        }
        scope
    }

    fn enter(&mut self, scope: Scope<'g>, block: Block, passage: Passage, owner: Option<(Node, usize)>) {
        let next = scope.graph.first(block);
        let writes = self.draft.writes.len();
        self.frames.push(Frame { scope, next, block, passage, owner, writes, flags: 0 });
    }

    // ---- values

    #[inline]
    fn element(&self, scope: Scope<'_>, value: Value) -> Option<Element> {
        self.elements[scope.base + value.index()]
    }

    #[inline]
    fn set(&mut self, scope: Scope<'_>, value: Value, element: Option<Element>) {
        self.elements[scope.base + value.index()] = element;
    }

    #[inline]
    fn class(&mut self, scope: Scope<'_>, value: Value) -> Option<TypeClass> {
        self.draft.class(scope.graph.ty(value))
    }

    #[inline]
    fn set_fresh(&mut self, scope: Scope<'_>, value: Value) {
        if let Some(class) = self.class(scope, value) {
            let element = self.draft.fresh(class);
            self.set(scope, value, Some(element));
        }
    }

    fn set_wild(&mut self, scope: Scope<'_>, value: Value) {
        if let Some(class) = self.class(scope, value) {
            let element = self.draft.outside(class);
            self.set(scope, value, Some(element));
        }
    }

    /// The value may be any of these; new memory when none of them is mutable.
    fn set_points(&mut self, scope: Scope<'_>, value: Value, targets: impl Iterator<Item = Option<Element>>) {
        let Some(class) = self.class(scope, value) else { return };
        let element = self.draft.empty(class);
        let mut any = false;
        for target in targets.flatten() {
            self.draft.point(element, target);
            any = true;
        }
        let element = if any { element } else { self.draft.fresh(class) };
        self.set(scope, value, Some(element));
    }

    fn escape(&mut self, scope: Scope<'_>, value: Value) {
        self.draft.escaped.extend(self.element(scope, value));
    }

    fn write(&mut self, scope: Scope<'_>, node: Node, operand: usize, note: impl Fn(Element) -> Write) {
        if operand < scope.graph.num_inputs(node) {
            let element = self.element(scope, scope.graph.input(node, operand));
            self.draft.writes.extend(element.map(note));
        }
    }

    fn operand(&self, scope: Scope<'_>, node: Node, operand: usize) -> Option<Element> {
        (operand < scope.graph.num_inputs(node)).then(|| self.element(scope, scope.graph.input(node, operand)))?
    }

    // ---- nodes

    fn visit(&mut self, scope: Scope<'g>, node: Node) {
        let op = operator(scope.graph.era, scope.graph.kind(node));
        let before = self.draft.writes.len();
        self.work += 1 + scope.graph.num_inputs(node) as u64 + scope.graph.num_outputs(node) as u64;
        match op.rule.alias {
            AliasRule::Schema | AliasRule::MayReturn(_) | AliasRule::BatchNorm { .. } => {
                self.by_schema(scope, node, op)
            }
            rule => self.by_rule(scope, node, op, rule),
        }
        let effect = if op.has_side_effects() { flag::EFFECT } else { 0 };
        if !self.enter_nested(scope, node, op, before, effect) {
            self.close(scope, node, before, effect);
        }
    }

    /// Records the writes of a node, and all its nested nodes, for itself and for its block.
    fn close(&mut self, scope: Scope<'g>, node: Node, before: usize, flags: u8) {
        let after = self.draft.writes.len();
        let flags = flags | if after > before { flag::WRITES } else { 0 };
        if flags == 0 {
            return;
        }
        if scope.base == 0 {
            self.writes[node.index()] = (before as u32, after as u32);
            self.flags[node.index()] = flags;
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.flags |= flags;
        }
    }

    fn by_schema(&mut self, scope: Scope<'g>, node: Node, op: &'static Operator) {
        let graph = scope.graph;
        let touched = graph.inputs(node).any(|value| self.element(scope, value).is_some());
        if !touched && graph.outputs(node).all(|value| self.class(scope, value).is_none()) {
            return;
        }
        let index = self.plans.of(op, graph, node);
        if self.plans.is_quiet(index) {
            return graph.outputs(node).for_each(|value| self.set_fresh(scope, value));
        }
        let plan = self.plans.get(index);
        if plan.conservative {
            self.conservative(scope, node, op);
        } else {
            self.apply(scope, node, &plan);
        }
    }

    fn apply(&mut self, scope: Scope<'g>, node: Node, plan: &Plan) {
        let graph = scope.graph;
        let (writes, deep, escapes) = (&plan.writes[..], &plan.deep_writes[..], &plan.escapes[..]);
        writes.iter().for_each(|&i| self.write(scope, node, i as usize, Write::To));
        deep.iter().for_each(|&i| self.write(scope, node, i as usize, Write::Deep));
        for &i in escapes.iter().filter(|&&i| (i as usize) < graph.num_inputs(node)) {
            self.escape(scope, graph.input(node, i as usize));
        }
        let training = plan.training.filter(|&i| (i as usize) < graph.num_inputs(node));
        let trains = training.is_some_and(|i| graph.constant_int(graph.input(node, i as usize)) != Some(0));
        if trains {
            self.write(scope, node, 3, Write::To);
            self.write(scope, node, 4, Write::To);
        }
        for (i, value) in graph.outputs(node).enumerate() {
            match plan.outputs.get(i) {
                Some(Out::Fresh) => self.set_fresh(scope, value),
                Some(Out::Points(operands)) => self.set_operands(scope, node, value, operands),
                Some(Out::MayReturn(operand)) => self.may_return(scope, node, value, *operand as usize),
                Some(Out::Wild) | None => self.set_wild(scope, value),
            }
        }
    }

    fn set_operands(&mut self, scope: Scope<'g>, node: Node, value: Value, operands: &Operands) {
        let targets: SmallVec<[_; 2]> = operands.iter().map(|&i| self.operand(scope, node, i as usize)).collect();
        self.set_points(scope, value, targets.into_iter());
    }

    fn may_return(&mut self, scope: Scope<'g>, node: Node, value: Value, operand: usize) {
        let Some(element) = self.operand(scope, node, operand) else {
            return self.set_fresh(scope, value);
        };
        let of_tensor = self.draft.classes.tensor == Some(self.draft.elements[element].class);
        let to_tensor = scope.graph.ty(value).is_tensor();
        if !(of_tensor && to_tensor) {
            self.draft.escaped.push(element);
        }
        match (of_tensor, to_tensor) {
            (true, false) => self.set_fresh(scope, value),
            (false, true) => self.set_wild(scope, value),
            _ => self.set_points(scope, value, std::iter::once(Some(element))),
        }
    }

    fn by_rule(&mut self, scope: Scope<'g>, node: Node, op: &'static Operator, rule: AliasRule) {
        let graph = scope.graph;
        match rule {
            AliasRule::Fresh => graph.outputs(node).for_each(|value| self.set_fresh(scope, value)),
            AliasRule::FreshContainer => self.container(scope, node),
            AliasRule::Wildcard | AliasRule::Nothing => {
                graph.outputs(node).for_each(|value| self.set_wild(scope, value))
            }
            AliasRule::PointsTo(i) => self.point_outputs(scope, node, |_| i),
            AliasRule::ChunkPointsTo => self.point_outputs(scope, node, |_| 0),
            AliasRule::Pairwise => self.point_outputs(scope, node, |output| output),
            AliasRule::BroadcastingChunk => {
                let chunks = graph.attribute(node, attr::CHUNKS).and_then(Attribute::as_int);
                let chunks = chunks.and_then(|n| usize::try_from(n).ok()).filter(|&n| n > 0).unwrap_or(1);
                self.point_outputs(scope, node, |output| output / chunks);
            }
            AliasRule::Conservative => self.conservative(scope, node, op),
            AliasRule::Wait => {
                self.draft.writes.push(Write::Everything);
                graph.outputs(node).for_each(|value| self.set_wild(scope, value));
            }
            AliasRule::Fork => {
                graph.inputs(node).for_each(|value| self.escape(scope, value));
                graph.outputs(node).for_each(|value| self.set_fresh(scope, value));
            }
            AliasRule::SetAttr => {
                self.write(scope, node, 0, Write::To);
                graph.inputs(node).skip(1).for_each(|value| self.escape(scope, value));
                graph.outputs(node).for_each(|value| self.set_wild(scope, value));
            }
            // Results are known when the blocks are done; until then, and permanently when there
            // are none, they may be anything.
            AliasRule::If | AliasRule::Loop | AliasRule::Block | AliasRule::Subgraph => {
                graph.outputs(node).for_each(|value| self.set_wild(scope, value));
            }
            AliasRule::Schema | AliasRule::MayReturn(_) | AliasRule::BatchNorm { .. } => {}
        }
    }

    /// Each result is the operand that `operand` selects for it, or new memory when there is no
    /// such operand.
    fn point_outputs(&mut self, scope: Scope<'g>, node: Node, operand: impl Fn(usize) -> usize) {
        for (i, value) in scope.graph.outputs(node).enumerate() {
            let target = self.operand(scope, node, operand(i));
            self.set_points(scope, value, std::iter::once(target));
        }
    }

    /// An unknown operator may write to everything it can reach and keep it. An operator of which
    /// nothing at all is known may reach more than its operands.
    fn conservative(&mut self, scope: Scope<'g>, node: Node, op: &Operator) {
        let graph = scope.graph;
        for i in 0..graph.num_inputs(node) {
            self.write(scope, node, i, Write::Deep);
            self.escape(scope, graph.input(node, i));
        }
        if op.rule.effect == Effect::Unknown {
            self.draft.writes.push(Write::Everything);
        }
        graph.outputs(node).for_each(|value| self.set_wild(scope, value));
    }

    /// A container keeps its operands, and a later read could return any of them: so they are
    /// reachable from outside. This does not apply to a list that is constructed for one operator
    /// which only reads the elements.
    fn container(&mut self, scope: Scope<'g>, node: Node) {
        let graph = scope.graph;
        let looked_at = graph.single_output(node).filter(|_| is_only_looked_at(scope, node));
        let held: Option<Element> = match (looked_at, graph.single_output(node)) {
            (Some(value), _) => self.class(scope, value).map(|class| self.draft.empty(class)),
            (None, Some(value)) => self.class(scope, value).map(|class| self.draft.fresh(class)),
            _ => None,
        };
        if let Some(value) = graph.single_output(node) {
            self.set(scope, value, held);
        }
        for element in graph.inputs(node).filter_map(|value| self.elements[scope.base + value.index()]) {
            if looked_at.is_none() {
                self.draft.escaped.push(element);
            }
            let class = self.draft.elements[element].class;
            let covered = |list| self.draft.classes.rows[self.draft.elements[list].class].parts.contains(&class);
            let noted = held.filter(|&list| looked_at.is_some() || !covered(list));
            if let Some(list) = noted {
                self.draft.contains.push((list, element));
            }
        }
    }

    // ---- blocks and sections

    /// Enters the blocks of a node, or else its section; false when there is nothing to enter.
    fn enter_nested(&mut self, scope: Scope<'g>, node: Node, op: &Operator, before: usize, flags: u8) -> bool {
        let depth = self.frames.len();
        if scope.graph.num_blocks(node) > 0 {
            self.enter_block(scope, node, 0);
        } else if let Some(graph) = scope.graph.subgraph(node) {
            match (op.rule.carries, op.rule.alias) {
                (Carries::Template, _) | (Carries::Body, AliasRule::Fresh) => {}
                (_, AliasRule::Subgraph) => self.enter_section(scope, node, graph, Passage::Section),
                _ => self.enter_section(scope, node, graph, Passage::Opaque),
            }
        }
        if let Some(frame) = self.frames.get_mut(depth) {
            (frame.writes, frame.flags) = (before, flags);
            return true;
        }
        false
    }

    fn enter_block(&mut self, scope: Scope<'g>, node: Node, index: usize) {
        let (graph, block) = (scope.graph, scope.graph.node_block(node, index));
        let passage = match operator(graph.era, graph.kind(node)).rule.alias {
            AliasRule::If | AliasRule::Block => Passage::Results,
            AliasRule::Loop => Passage::Loop,
            _ => Passage::Opaque,
        };
        for (i, param) in graph.params(block).enumerate() {
            match passage {
                Passage::Loop if i > 0 => {
                    let target = self.operand(scope, node, i + 1);
                    self.set_points(scope, param, std::iter::once(target));
                }
                _ => self.set_wild(scope, param),
            }
        }
        self.enter(scope, block, passage, Some((node, index)));
    }

    fn enter_section(&mut self, outer: Scope<'g>, node: Node, graph: &'g Graph, passage: Passage) {
        let scope = self.open(graph);
        for (i, param) in graph.params(graph.root()).enumerate() {
            match passage {
                Passage::Section => {
                    let target = self.operand(outer, node, i);
                    self.set_points(scope, param, std::iter::once(target));
                }
                _ => self.set_wild(scope, param),
            }
        }
        self.enter(scope, graph.root(), passage, Some((node, 0)));
    }

    /// Ends the block on top of the stack and continues with the next block of its owner, or after
    /// the owner.
    fn leave(&mut self) {
        let Some(frame) = self.frames.pop() else { return };
        let Some((node, index)) = frame.owner else { return };
        // The section of a node is a graph of its own; its node belongs to the graph of the frame
        // below.
        let outer = self.frames.last().map_or(frame.scope, |below| below.scope);
        let graph = frame.scope.graph;
        match frame.passage {
            Passage::Root => {}
            Passage::Opaque => graph.results(frame.block).for_each(|value| self.escape(frame.scope, value)),
            Passage::Results | Passage::Section => self.pass_results(&frame, outer, node, index),
            Passage::Loop => self.pass_carried(&frame, node),
        }
        if frame.scope.base != outer.base {
            self.elements.truncate(frame.scope.base);
        }
        if index + 1 < outer.graph.num_blocks(node) {
            self.enter_block(outer, node, index + 1);
            if let Some(next) = self.frames.last_mut() {
                (next.writes, next.flags) = (frame.writes, frame.flags);
            }
        } else {
            self.close(outer, node, frame.writes, frame.flags);
        }
    }

    /// Results of the block are results of the node.
    fn pass_results(&mut self, frame: &Frame<'g>, outer: Scope<'g>, node: Node, index: usize) {
        let results = frame.scope.graph.results(frame.block);
        for (value, result) in outer.graph.outputs(node).zip(results) {
            let target = self.element(frame.scope, result);
            if index == 0 {
                self.set_points(outer, value, std::iter::once(target));
            } else if let (Some(element), Some(target)) = (self.element(outer, value), target) {
                self.draft.point(element, target);
            }
        }
    }

    /// A param is the initial value or the one that the previous iteration returned, and so is the
    /// result of the node: there may be no iteration.
    fn pass_carried(&mut self, frame: &Frame<'g>, node: Node) {
        let (scope, graph) = (frame.scope, frame.scope.graph);
        let params: Vec<Value> = graph.params(frame.block).skip(1).collect();
        for (&param, result) in params.iter().zip(graph.results(frame.block).skip(1)) {
            if let (Some(element), Some(target)) = (self.element(scope, param), self.element(scope, result)) {
                self.draft.point(element, target);
            }
        }
        for (value, param) in graph.outputs(node).zip(params) {
            let target = self.element(scope, param);
            self.set_points(scope, value, std::iter::once(target));
        }
    }
}

/// Whether a list is constructed for one operator that reads its elements and keeps none, or a
/// tuple for the caller of the graph: nothing in the graph reads its elements again. PyTorch has
/// this rule since 1.4.
fn is_only_looked_at(scope: Scope<'_>, node: Node) -> bool {
    let graph = scope.graph;
    let usage = graph.single_output(node).filter(|_| graph.era != Era::V1_3).and_then(|value| graph.single_use(value));
    let user = usage.map(|usage| graph.user(usage));
    match graph.kind(node) {
        prim::LIST_CONSTRUCT => user.is_some_and(|user| operator(graph.era, graph.kind(user)).rule.reads_list_only),
        prim::TUPLE_CONSTRUCT => scope.base == 0 && user == Some(graph.return_node(graph.root())),
        _ => false,
    }
}
