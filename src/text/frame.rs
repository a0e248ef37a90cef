//! The state of one graph while it is read: its open blocks and the values that its names denote.

use crate::ir::{Block, Graph, Node, Value, as_number};
use crate::symbol::Symbol;
use crate::types::Type;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// One open block.
pub(super) struct OpenBlock {
    pub(super) block: Block,
    /// The most recent node, which owns the next `block0(`.
    pub(super) last: Option<Node>,
    pub(super) start: usize,
}

/// One graph that is being read, or whose sections are awaited.
pub(super) struct Frame<'a> {
    pub(super) graph: Graph,
    pub(super) blocks: Vec<OpenBlock>,
    /// Values with numbers for names, dense from 0; far larger numbers are in `sparse`.
    pub(super) numbers: Vec<Option<Value>>,
    pub(super) sparse: FxHashMap<u32, Value>,
    /// Nodes whose kind may name a section that has not been read yet, in printed order.
    pub(super) references: FxHashMap<&'a [u8], VecDeque<Node>>,
    /// Uses of values that are not defined yet.
    pub(super) early: Vec<(Value, Range<usize>)>,
    /// Nodes with their section whose backward graph has not been read yet.
    pub(super) differentiated: Vec<(&'a [u8], Node)>,
    /// The node of the enclosing frame that owns this graph, and the attribute that holds it.
    pub(super) carrier: Option<(Node, Symbol)>,
}

impl Frame<'_> {
    fn find(&self, name: &[u8]) -> Option<Value> {
        match as_number(name) {
            Some(n) => match self.numbers.get(n as usize) {
                Some(value) => *value,
                None => self.sparse.get(&n).copied(),
            },
            None => self.graph.owner(name),
        }
    }

    fn set(&mut self, name: &[u8], value: Value) {
        self.graph.name_as_read(value, name);
        let Some(n) = as_number(name) else { return };
        // Numbers are dense in printed text; a file of three lines may still use `%400000000`.
        let dense = 4 * self.graph.num_values() + (1 << 16);
        if (n as usize) < dense.max(self.numbers.len()) {
            if n as usize >= self.numbers.len() {
                let len = (n as usize + 1).max(self.numbers.len() * 2).min(dense.max(n as usize + 1));
                self.adopt_sparse(len);
            }
            self.numbers[n as usize] = Some(value);
        } else {
            self.sparse.insert(n, value);
        }
    }

    fn adopt_sparse(&mut self, len: usize) {
        self.numbers.resize(len, None);
        let numbers = &mut self.numbers;
        self.sparse.retain(|&n, value| match numbers.get_mut(n as usize) {
            Some(slot) => {
                *slot = Some(*value);
                false
            }
            None => true,
        });
    }

    /// Records a definition. Uses of the name before its definition resolve to it; after a second
    /// definition of a name, later uses mean the second one, as in PyTorch.
    pub(super) fn define(&mut self, node: Node, name: &[u8], ty: Option<Type>) {
        if let Some(value) = self.find(name)
            && self.graph.definer(value).is_none()
        {
            return self.graph.define_as_read(node, value, ty);
        }
        let value = self.graph.add_output_as_read(node, ty);
        self.set(name, value);
    }

    /// Resolves a use. The verifier checks whether it is in scope.
    pub(super) fn resolve(&mut self, name: &[u8], span: Range<usize>) -> Value {
        if let Some(value) = self.find(name) {
            return value;
        }
        let value = self.graph.undefined_value();
        self.set(name, value);
        self.early.push((value, span));
        value
    }

    /// Whether a value of this name was used or defined so far.
    pub(super) fn is_known(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }
}
