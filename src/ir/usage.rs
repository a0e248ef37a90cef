//! Operands and use lists.
//!
//! Every operand of every node is a `Use` row. The rows of one node are adjacent, so the operand
//! number is the distance to the first one; the rows that name one value are linked through each
//! other in the order of their creation. Unlinking, appending and retargeting a use is O(1),
//! regardless of the number of uses of the value.

use super::graph::{Graph, Node, Use, Value};
use crate::entity::Entity;

#[derive(Clone, Copy, Debug)]
pub(super) struct UseRow {
    /// `None` in space that a node has reserved but does not use.
    pub(super) value: Option<Value>,
    pub(super) user: Node,
    pub(super) prev: Option<Use>,
    pub(super) next: Option<Use>,
}

/// The operands of one node: a run of use rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) len: u32,
    pub(super) room: u32,
}

impl Run {
    #[track_caller]
    fn at(self, i: usize) -> Use {
        assert!(i < self.len as usize, "operand {i} of {}", self.len);
        Use::at(self.first as usize + i)
    }
}

impl Graph {
    /// The number of operands of `node`.
    #[inline]
    pub fn num_inputs(&self, node: Node) -> usize {
        self.nodes[node].inputs.len as usize
    }

    /// Operand `i`. An index out of range panics with the location of the caller.
    #[inline]
    #[track_caller]
    pub fn input(&self, node: Node, i: usize) -> Value {
        self.value_of(self.nodes[node].inputs.at(i))
    }

    /// All operands in order.
    #[inline]
    pub fn inputs(&self, node: Node) -> impl DoubleEndedIterator<Item = Value> + ExactSizeIterator + '_ {
        let run = self.nodes[node].inputs;
        (0..run.len as usize).map(move |i| self.value_of(run.at(i)))
    }

    /// The uses of `value` in order of creation. Do not edit while iterating: collect first.
    pub fn uses(&self, value: Value) -> impl Iterator<Item = Use> + '_ {
        std::iter::successors(self.values[value].first_use, |&u| self.uses[u].next)
    }

    /// Whether anything reads `value`.
    #[inline]
    pub fn has_uses(&self, value: Value) -> bool {
        self.values[value].first_use.is_some()
    }

    /// The only use of `value`, if there is exactly one.
    pub fn single_use(&self, value: Value) -> Option<Use> {
        let first = self.values[value].first_use?;
        (self.values[value].last_use == Some(first)).then_some(first)
    }

    /// The nodes that read `value`, once per operand.
    pub fn users(&self, value: Value) -> impl Iterator<Item = Node> + '_ {
        self.uses(value).map(|u| self.user(u))
    }

    /// The node that a use belongs to.
    #[inline]
    pub fn user(&self, u: Use) -> Node {
        self.uses[u].user
    }

    /// The index of a use among the operands of its user.
    pub fn operand_index(&self, u: Use) -> usize {
        u.index() - self.nodes[self.user(u)].inputs.first as usize
    }

    #[inline]
    fn value_of(&self, u: Use) -> Value {
        self.uses[u].value.expect("an operand in use has a value")
    }

    /// Linear in the operands only when their reserved space is full: adds an operand at the end.
    pub fn add_input(&mut self, node: Node, value: Value) {
        self.touch();
        let run = self.nodes[node].inputs;
        if run.len == run.room {
            self.make_room(node);
        }
        let run = &mut self.nodes[node].inputs;
        run.len += 1;
        let u = run.at(run.len as usize - 1);
        self.link(u, value);
    }

    /// Sets the operands of a node that has none yet; the run is exactly as long as needed.
    pub fn set_inputs(&mut self, node: Node, values: impl ExactSizeIterator<Item = Value>) {
        debug_assert_eq!(self.num_inputs(node), 0);
        let (first, len) = (self.uses.len() as u32, values.len() as u32);
        self.touch();
        self.nodes[node].inputs = Run { first, len, room: len };
        for value in values {
            let u = self.uses.push(UseRow { value: None, user: node, prev: None, next: None });
            self.link(u, value);
        }
    }

    /// Linear in the operands after it: inserts an operand so that it becomes operand `i`.
    pub fn insert_input(&mut self, node: Node, i: usize, value: Value) {
        self.touch();
        if self.nodes[node].inputs.len == self.nodes[node].inputs.room {
            self.make_room(node);
        }
        self.nodes[node].inputs.len += 1;
        let run = self.nodes[node].inputs;
        for at in (i + 1..run.len as usize).rev() {
            self.relocate(run.at(at - 1), run.at(at));
        }
        self.link(run.at(i), value);
    }

    /// Linear in the operands after it: removes operand `i`.
    pub fn remove_input(&mut self, node: Node, i: usize) {
        self.touch();
        let run = self.nodes[node].inputs;
        self.unlink(run.at(i));
        for at in i + 1..run.len as usize {
            self.relocate(run.at(at), run.at(at - 1));
        }
        self.nodes[node].inputs.len -= 1;
    }

    /// Removes all operands.
    pub fn remove_inputs(&mut self, node: Node) {
        self.touch();
        let run = self.nodes[node].inputs;
        for i in 0..run.len as usize {
            self.unlink(run.at(i));
        }
        self.nodes[node].inputs.len = 0;
    }

    /// Makes operand `i` read `value`.
    pub fn set_input(&mut self, node: Node, i: usize, value: Value) {
        self.set_use(self.nodes[node].inputs.at(i), value);
    }

    /// Makes one use read `value`.
    pub fn set_use(&mut self, u: Use, value: Value) {
        self.touch();
        self.unlink(u);
        self.link(u, value);
    }

    /// O(1) per use: everything that reads `old` reads `new`, appended to the uses of `new` in the
    /// same order.
    pub fn replace_all_uses(&mut self, old: Value, new: Value) {
        if old == new {
            return;
        }
        while let Some(u) = self.values[old].first_use {
            self.set_use(u, new);
        }
    }

    /// As [`Graph::replace_all_uses`] for the uses for which `wanted` holds.
    pub fn replace_uses_if(&mut self, old: Value, new: Value, mut wanted: impl FnMut(&Graph, Use) -> bool) {
        let mut cursor = self.values[old].first_use;
        while let Some(u) = cursor {
            cursor = self.uses[u].next;
            if old != new && wanted(self, u) {
                self.set_use(u, new);
            }
        }
    }

    fn make_room(&mut self, node: Node) {
        let old = self.nodes[node].inputs;
        let room = (old.len * 2).max(2);
        let first = self.uses.len() as u32;
        for _ in 0..room {
            self.uses.push(UseRow { value: None, user: node, prev: None, next: None });
        }
        self.nodes[node].inputs = Run { first, len: old.len, room };
        for i in 0..old.len as usize {
            self.relocate(old.at(i), Use::at(first as usize + i));
        }
    }

    fn link(&mut self, u: Use, value: Value) {
        let last = self.values[value].last_use.replace(u);
        match last {
            Some(last) => self.uses[last].next = Some(u),
            None => self.values[value].first_use = Some(u),
        }
        let row = &mut self.uses[u];
        (row.value, row.prev, row.next) = (Some(value), last, None);
    }

    fn unlink(&mut self, u: Use) {
        let UseRow { value, prev, next, .. } = self.uses[u];
        let value = value.expect("only uses in use are unlinked");
        match prev {
            Some(prev) => self.uses[prev].next = next,
            None => self.values[value].first_use = next,
        }
        match next {
            Some(next) => self.uses[next].prev = prev,
            None => self.values[value].last_use = prev,
        }
        let row = &mut self.uses[u];
        (row.value, row.prev, row.next) = (None, None, None);
    }

    /// Moves a use to another row; its position among the uses of its value stays.
    fn relocate(&mut self, from: Use, to: Use) {
        let UseRow { value, prev, next, .. } = self.uses[from];
        let value = value.expect("only uses in use are moved");
        match prev {
            Some(prev) => self.uses[prev].next = Some(to),
            None => self.values[value].first_use = Some(to),
        }
        match next {
            Some(next) => self.uses[next].prev = Some(to),
            None => self.values[value].last_use = Some(to),
        }
        let row = &mut self.uses[to];
        (row.value, row.prev, row.next) = (Some(value), prev, next);
        let row = &mut self.uses[from];
        (row.value, row.prev, row.next) = (None, None, None);
    }
}
