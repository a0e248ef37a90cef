//! The edits: creating, linking, moving and erasing nodes, blocks and values.

use super::attribute::Attribute;
use super::graph::{AttributeList, Block, BlockRow, Graph, Node, NodeRow, Value, ValueRow};
use super::journal::{Comment, NameEdit};
use super::list_pool::List;
use super::naming::LabelId;
use super::text_pool::TextId;
use super::usage::Run;
use crate::symbol::{Symbol, attr, prim};
use crate::types::Type;

impl Graph {
    /// Records an edit of the computation.
    pub(super) fn touch(&mut self) {
        self.epoch.edits += 1;
        self.epoch.computation += 1;
    }

    /// Records an edit that leaves the computation unchanged: a name, a position, a comment.
    pub(super) fn touch_text(&mut self) {
        self.epoch.edits += 1;
    }

    // ---- nodes

    /// A new node without operands and outputs, not yet in a block.
    pub fn create(&mut self, kind: Symbol) -> Node {
        self.touch();
        let lineage = self.current_rewrite;
        self.nodes.push(NodeRow {
            kind,
            block: None,
            prev: None,
            next: None,
            order: 0,
            inputs: Run::default(),
            outputs: List::default(),
            blocks: List::default(),
            attributes: 0,
            location: TextId::default(),
            scope: TextId::default(),
            lineage,
        })
    }

    /// A new node with operands and one output of type `ty`, not yet in a block.
    pub fn create_op(&mut self, kind: Symbol, inputs: &[Value], ty: Type) -> Node {
        let node = self.create(kind);
        self.set_inputs(node, inputs.iter().copied());
        self.add_output(node, ty);
        node
    }

    /// Changes the kind of a node.
    pub fn set_kind(&mut self, node: Node, kind: Symbol) {
        self.touch();
        self.nodes[node].kind = kind;
    }

    /// Inserts a detached node at the end of a block.
    pub fn append(&mut self, block: Block, node: Node) {
        let last = self.blocks[block].last;
        self.insert_between(block, last, None, node);
    }

    /// Inserts a detached node at the start of a block.
    pub fn prepend(&mut self, block: Block, node: Node) {
        let first = self.blocks[block].first;
        self.insert_between(block, None, first, node);
    }

    /// Inserts a detached node before `anchor`; before a hidden Return is the end of the block.
    pub fn insert_before(&mut self, anchor: Node, node: Node) {
        let block = self.block_of(anchor).expect("the anchor stands in a block");
        if self.kind(anchor) == prim::RETURN {
            return self.append(block, node);
        }
        self.insert_between(block, self.nodes[anchor].prev, Some(anchor), node);
    }

    /// Inserts a detached node after `anchor`; after a hidden Param is the start of the block.
    pub fn insert_after(&mut self, anchor: Node, node: Node) {
        let block = self.block_of(anchor).expect("the anchor stands in a block");
        if self.kind(anchor) == prim::PARAM {
            return self.prepend(block, node);
        }
        self.insert_between(block, Some(anchor), self.nodes[anchor].next, node);
    }

    fn insert_between(&mut self, block: Block, prev: Option<Node>, next: Option<Node>, node: Node) {
        debug_assert!(self.nodes[node].block.is_none(), "{node:?} stands in a block already");
        self.touch_text();
        let row = &mut self.nodes[node];
        (row.block, row.prev, row.next) = (Some(block), prev, next);
        match prev {
            Some(prev) => self.nodes[prev].next = Some(node),
            None => self.blocks[block].first = Some(node),
        }
        match next {
            Some(next) => self.nodes[next].prev = Some(node),
            None => self.blocks[block].last = Some(node),
        }
        self.assign_order(node);
        self.set_nested_depths(node);
    }

    /// Removes a node from its block; it keeps operands, outputs and blocks.
    pub fn detach(&mut self, node: Node) {
        self.touch_text();
        let NodeRow { block, prev, next, .. } = self.nodes[node];
        let block = block.expect("only a node in a block can be taken out");
        match prev {
            Some(prev) => self.nodes[prev].next = next,
            None => self.blocks[block].first = next,
        }
        match next {
            Some(next) => self.nodes[next].prev = prev,
            None => self.blocks[block].last = prev,
        }
        let row = &mut self.nodes[node];
        (row.block, row.prev, row.next) = (None, None, None);
    }

    /// Moves a node before `anchor`.
    pub fn move_before(&mut self, node: Node, anchor: Node) {
        if node != anchor {
            self.detach(node);
            self.insert_before(anchor, node);
        }
    }

    /// Moves a node after `anchor`.
    pub fn move_after(&mut self, node: Node, anchor: Node) {
        if node != anchor {
            self.detach(node);
            self.insert_after(anchor, node);
        }
    }

    /// O(nodes nested in it): erases a node whose outputs have no uses left.
    pub fn erase(&mut self, node: Node) {
        debug_assert!(self.outputs(node).all(|v| !self.has_uses(v)), "an output of {node:?} is still used");
        self.touch();
        let blocks: Vec<Block> = self.node_blocks(node).collect();
        for block in blocks {
            self.empty_block(block);
        }
        self.remove_inputs(node);
        for i in 0..self.num_outputs(node) {
            let output = self.output(node, i);
            self.release_name(output);
        }
        self.free_attributes(node);
        if self.nodes[node].block.is_some() {
            self.detach(node);
        }
    }

    fn free_attributes(&mut self, node: Node) {
        if let Some(index) = (self.nodes[node].attributes as usize).checked_sub(1) {
            self.attributes[index] = AttributeList::new();
        }
    }

    /// Erases everything in a block, nested blocks too, without recursion.
    fn empty_block(&mut self, block: Block) {
        let mut blocks = vec![block];
        let mut at = 0;
        while let Some(&block) = blocks.get(at) {
            at += 1;
            let (param, ret) = (self.param_node(block), self.return_node(block));
            self.remove_inputs(ret);
            let nodes: Vec<Node> = self.nodes(block).collect();
            for &node in &nodes {
                blocks.extend(self.node_blocks(node));
                self.remove_inputs(node);
                self.free_attributes(node);
            }
            for &node in nodes.iter().chain([&param, &ret]) {
                for i in 0..self.num_outputs(node) {
                    let output = self.output(node, i);
                    self.release_name(output);
                }
                self.nodes[node].block = None;
            }
        }
    }

    /// Sets the source location.
    pub fn set_location(&mut self, node: Node, text: &[u8]) {
        self.touch_text();
        self.nodes[node].location = self.texts.add(text, TextId::default());
    }

    /// Sets the scope.
    pub fn set_scope(&mut self, node: Node, text: &[u8]) {
        self.touch_text();
        self.last_scope = self.texts.add(text, self.last_scope);
        self.nodes[node].scope = self.last_scope;
    }

    /// Copies the source location of `from` to `to`, if it has one.
    pub fn copy_location(&mut self, from: Node, to: Node) {
        self.touch_text();
        self.note_comment(Comment::Location, from, to);
        self.nodes[to].location = self.nodes[from].location.or(self.nodes[to].location);
    }

    /// Copies the scope of `from` to `to`, if it has one.
    pub fn copy_scope(&mut self, from: Node, to: Node) {
        self.touch_text();
        self.note_comment(Comment::Scope, from, to);
        self.nodes[to].scope = self.nodes[from].scope.or(self.nodes[to].scope);
    }

    // ---- attributes

    /// Sets an attribute; a new one comes last.
    pub fn set_attribute(&mut self, node: Node, name: Symbol, value: Attribute) {
        self.touch();
        if matches!(value, Attribute::Graph(_)) {
            self.note_section();
        }
        if self.nodes[node].attributes == 0 {
            self.attributes.push(AttributeList::new());
            self.nodes[node].attributes = self.attributes.len() as u32;
        }
        let list = &mut self.attributes[self.nodes[node].attributes as usize - 1];
        match list.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => list.push((name, value)),
        }
    }

    /// Removes an attribute, if it exists.
    pub fn remove_attribute(&mut self, node: Node, name: Symbol) {
        if let Some(index) = (self.nodes[node].attributes as usize).checked_sub(1) {
            self.touch();
            self.attributes[index].retain(|(known, _)| *known != name);
        }
    }

    /// Marks a node as having attributes although the list is empty: `^f[]()(%x)`.
    pub(crate) fn set_empty_attributes(&mut self, node: Node) {
        if self.nodes[node].attributes != 0 {
            return;
        }
        self.touch();
        self.attributes.push(AttributeList::new());
        self.nodes[node].attributes = self.attributes.len() as u32;
    }

    /// Whether square brackets are printed.
    pub(crate) fn has_attribute_list(&self, node: Node) -> bool {
        self.nodes[node].attributes != 0
    }

    /// Edits the subgraph of a node in place.
    pub fn with_subgraph<R>(&mut self, node: Node, edit: impl FnOnce(&mut Graph) -> R) -> Option<R> {
        self.with_graph(node, attr::SUBGRAPH, edit)
    }

    /// Edits a graph attribute of a node in place.
    pub fn with_graph<R>(&mut self, node: Node, name: Symbol, edit: impl FnOnce(&mut Graph) -> R) -> Option<R> {
        let index = (self.nodes[node].attributes as usize).checked_sub(1)?;
        let (_, value) = self.attributes[index].iter_mut().find(|(known, _)| *known == name)?;
        let Attribute::Graph(graph) = value else { return None };
        let before = graph.epoch;
        let result = edit(graph);
        let after = graph.epoch;
        self.epoch.edits += after.edits - before.edits;
        self.epoch.computation += after.computation - before.computation;
        Some(result)
    }

    /// Takes the subgraph of a node out, so that nodes can be copied between the two;
    /// [`Graph::set_attribute`] puts it back.
    pub fn take_subgraph(&mut self, node: Node) -> Option<Box<Graph>> {
        self.touch();
        let index = (self.nodes[node].attributes as usize).checked_sub(1)?;
        let (_, value) = self.attributes[index].iter_mut().find(|(name, _)| *name == attr::SUBGRAPH)?;
        match std::mem::replace(value, Attribute::None) {
            Attribute::Graph(graph) => Some(graph),
            other => {
                *value = other;
                None
            }
        }
    }

    /// All subgraphs, those of nested blocks included, for changes to a whole file.
    pub fn subgraphs_mut(&mut self) -> impl Iterator<Item = &mut Graph> {
        self.attributes.iter_mut().flatten().filter_map(|(_, value)| match value {
            Attribute::Graph(graph) => Some(&mut **graph),
            _ => None,
        })
    }

    // ---- outputs, params, results

    /// Adds an output.
    pub fn add_output(&mut self, node: Node, ty: Type) -> Value {
        self.touch();
        let value = self.push_output(node, Some(ty), LabelId::number(0));
        self.number_new(value)
    }

    /// Adds an output that may have no type.
    pub(super) fn add_output_if_typed(&mut self, node: Node, ty: Option<Type>) -> Value {
        self.touch();
        let value = self.push_output(node, ty, LabelId::number(0));
        self.number_new(value)
    }

    fn number_new(&mut self, value: Value) -> Value {
        self.values[value].label = LabelId::number(self.fresh_number());
        self.journal(|| NameEdit::Fresh(value));
        value
    }

    /// Adds an output for a name in the text, with or without a type.
    pub(crate) fn add_output_as_read(&mut self, node: Node, ty: Option<Type>) -> Value {
        self.push_output(node, ty, LabelId::number(0))
    }

    fn push_output(&mut self, node: Node, ty: Option<Type>, label: LabelId) -> Value {
        let index = self.num_outputs(node) as u32;
        let value = self.new_value(ty, label, Some(node), index);
        self.nodes[node].outputs.push(&mut self.lists, value);
        value
    }

    fn new_value(&mut self, ty: Option<Type>, label: LabelId, definer: Option<Node>, index: u32) -> Value {
        self.values.push(ValueRow { ty, label, definer, index, first_use: None, last_use: None })
    }

    /// A value that is used but not, or not yet, defined.
    pub(crate) fn undefined_value(&mut self) -> Value {
        self.new_value(None, LabelId::number(0), None, 0)
    }

    /// Makes a value that was already used the next output of `node`.
    pub(crate) fn define_as_read(&mut self, node: Node, value: Value, ty: Option<Type>) {
        let index = self.num_outputs(node) as u32;
        let row = &mut self.values[value];
        (row.definer, row.index, row.ty) = (Some(node), index, ty);
        self.nodes[node].outputs.push(&mut self.lists, value);
    }

    /// O(outputs after it): adds an output as number `i`.
    pub fn insert_output(&mut self, node: Node, i: usize, ty: Type) -> Value {
        self.touch();
        let value = self.new_value(Some(ty), LabelId::number(0), Some(node), i as u32);
        self.number_new(value);
        let mut list = self.nodes[node].outputs;
        list.insert(&mut self.lists, i, value);
        self.nodes[node].outputs = list;
        self.renumber_outputs(node, i + 1);
        value
    }

    /// O(outputs after it): removes output `i`, which must have no uses.
    pub fn remove_output(&mut self, node: Node, i: usize) {
        self.touch();
        let mut list = self.nodes[node].outputs;
        let removed = list.remove(&mut self.lists, i);
        debug_assert!(!self.has_uses(removed), "a removed output is still used");
        self.nodes[node].outputs = list;
        self.release_name(removed);
        self.renumber_outputs(node, i);
    }

    fn renumber_outputs(&mut self, node: Node, from: usize) {
        for i in from..self.num_outputs(node) {
            let value = self.output(node, i);
            self.values[value].index = i as u32;
        }
    }

    /// O(1), regardless of the number of uses: exchanges two outputs. Uses of one read the result
    /// of the other's node, and types and names stay with the nodes. Moving a node after a value
    /// with many uses costs nothing this way.
    pub fn exchange_outputs(&mut self, a: Value, b: Value) {
        self.touch();
        for (value, other) in [(a, b), (b, a)] {
            let (node, i) = (self.values[value].definer.expect("it is an output"), self.values[value].index as usize);
            let mut list = self.nodes[node].outputs;
            list.set(&mut self.lists, i, other);
            self.nodes[node].outputs = list;
        }
        let (old, new) = (self.values[a], self.values[b]);
        for (value, from) in [(a, &new), (b, &old)] {
            let row = &mut self.values[value];
            (row.definer, row.index, row.ty) = (from.definer, from.index, from.ty);
        }
        self.exchange_labels(a, b);
    }

    /// Adds a param to a block.
    pub fn add_param(&mut self, block: Block, ty: Type) -> Value {
        self.add_output(self.param_node(block), ty)
    }

    /// Adds a param that may have no type.
    pub(crate) fn add_param_if_typed(&mut self, block: Block, ty: Option<Type>) -> Value {
        self.add_output_if_typed(self.param_node(block), ty)
    }

    /// Adds a result to a block.
    pub fn add_result(&mut self, block: Block, value: Value) {
        self.add_input(self.return_node(block), value);
    }

    /// Gives a value another type.
    pub fn set_type(&mut self, value: Value, ty: Type) {
        if self.values[value].ty != Some(ty) {
            self.touch();
            self.values[value].ty = Some(ty);
        }
    }

    // ---- blocks

    /// Adds a block to a node.
    pub fn add_block(&mut self, node: Node) -> Block {
        let block = self.new_block(Some(node));
        self.nodes[node].blocks.push(&mut self.lists, block);
        block
    }

    pub(super) fn new_block(&mut self, owner: Option<Node>) -> Block {
        let (param, ret) = (self.create(prim::PARAM), self.create(prim::RETURN));
        self.nodes[param].lineage = None;
        self.nodes[ret].lineage = None;
        let outer = owner.and_then(|node| self.block_of(node));
        let depth = outer.map_or(0, |block| self.blocks[block].depth + 1);
        let block = self.blocks.push(BlockRow { owner, first: None, last: None, param, ret, depth });
        self.nodes[param].block = Some(block);
        self.nodes[ret].block = Some(block);
        self.nodes[ret].order = u64::MAX;
        block
    }

    /// O(nodes in it): removes block `i` of a node, with what is left in it.
    pub fn remove_block(&mut self, node: Node, i: usize) {
        self.touch();
        let mut list = self.nodes[node].blocks;
        let removed = list.remove(&mut self.lists, i);
        self.nodes[node].blocks = list;
        self.empty_block(removed);
    }

    /// Updates the depths of the blocks of a node that moved to another depth.
    fn set_nested_depths(&mut self, node: Node) {
        let mut owners = vec![];
        let mut node = node;
        loop {
            let depth = self.block_of(node).map_or(0, |block| self.blocks[block].depth + 1);
            for i in 0..self.num_blocks(node) {
                let block = self.node_block(node, i);
                if self.blocks[block].depth != depth {
                    self.blocks[block].depth = depth;
                    owners.extend(self.nodes(block).filter(|&n| self.num_blocks(n) > 0));
                }
            }
            match owners.pop() {
                Some(owner) => node = owner,
                None => return,
            }
        }
    }

    /// Reserves space for `n` more nodes with as many values and twice as many operands.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.nodes.reserve(n);
        self.values.reserve(n);
        self.uses.reserve(2 * n);
    }

    /// Frees memory that growth reserved.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.nodes.shrink_to_fit();
        self.values.shrink_to_fit();
        self.uses.shrink_to_fit();
        self.attributes.shrink_to_fit();
        self.texts.shrink_to_fit();
    }
}
