//! Alias analysis: which values may share memory, and which nodes write to it.
//!
//! Two values of mutable type may share memory because an operator returns a view, because a branch
//! or a loop returns one or the other, because one is read from a container that the other was
//! stored in, or because both come from outside. The analysis traverses the graph once and is
//! flow-insensitive: a write anywhere is a write.
//!
//! - Every mutable value has an element, which *points to* what it may be and *contains* what it
//!   may hold. The leaves of the points-to relation are the [`Location`]s.
//! - Values from outside are distinguished by type alone: one *wildcard* per type, where all
//!   refinements of tensor types are one. Graph params are wildcards; so are values that are stored
//!   in a container and values that are read from one.
//! - The effect of a node is a column of the operator table
//!   ([`AliasRule`](crate::ops::rules::AliasRule)). Nested blocks and the graphs of sections are
//!   traversed at the position of their node, and their writes are writes of that node too.
//!
//! Sound where PyTorch's analysis is not: a value carried by a loop may also be the one that the
//! previous iteration returned; objects, whose attributes the text does not give, may contain
//! anything; a value of type `Any` or of an interface may alias every type that it can hold; an
//! unknown operator may write to everything that is reachable from outside.
//!
//! Cost: linear in nodes and operands, for any joins and nesting: a value may be up to sixteen
//! distinct locations, beyond which they are merged into one. A query visits the few locations of
//! its values; queries about containers also visit their contents.

use super::locations::{Location, LocationSet, Memory};
use super::memory::{Draft, Element};
use super::transfer::{Transfer, flag};
use crate::entity::{Entity, EntitySet};
use crate::ir::{Graph, Node, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The memory of a graph at one time. Valid until the computation changes; moving nodes does not
/// count.
#[derive(Debug)]
pub struct AliasDb {
    pub(super) draft: Draft,
    pub(super) memory: Memory,
    /// The locations of each value; none for immutable values.
    sets: Vec<Option<LocationSet>>,
    pub(super) elements: Vec<Option<Element>>,
    /// The recorded writes of each node, nested nodes included.
    writes: Vec<(u32, u32)>,
    flags: Vec<u8>,
    /// The writes of nodes that absorbed others since the analysis.
    joined: FxHashMap<Node, Vec<Location>>,
    work: u64,
    computation: u64,
}

impl AliasDb {
    /// Analyses a graph.
    pub fn new(graph: &Graph) -> AliasDb {
        let walk = Transfer::of(graph);
        let returned: Vec<Element> = graph.results(graph.root()).filter_map(|v| walk.elements[v.index()]).collect();
        let memory = Memory::resolve(&walk.draft, &returned);
        let sets = walk.elements.iter().map(|element| element.map(|element| memory.set(element))).collect();
        AliasDb {
            sets,
            work: walk.work + memory.work,
            draft: walk.draft,
            memory,
            elements: walk.elements,
            writes: walk.writes,
            flags: walk.flags,
            joined: FxHashMap::default(),
            computation: graph.epoch().computation,
        }
    }

    /// Whether the graph still computes what was analysed.
    pub fn is_current(&self, graph: &Graph) -> bool {
        self.computation == graph.epoch().computation
    }

    /// The number of steps of the analysis: nodes, operands, locations. Linear in the graph; for
    /// `--stats`.
    pub fn work(&self) -> u64 {
        self.work
    }

    // ---- values

    /// Whether memory can be reached through `value` at all: numbers and other immutable values are
    /// neither shared nor written.
    pub fn is_tracked(&self, value: Value) -> bool {
        self.set(value).is_some()
    }

    /// The memory that a value of mutable type is, or is a part of, according to nodes and not to
    /// types alone; nothing for other values.
    pub(super) fn parts_of(&self, value: Value) -> Option<FxHashSet<Element>> {
        let element = (*self.elements.get(value.index())?)?;
        let (mut found, mut pending) = (FxHashSet::default(), vec![element]);
        while let Some(element) = pending.pop() {
            let is_wildcard = self.draft.wildcard(self.draft.elements[element].class) == element;
            if !is_wildcard && found.insert(element) {
                pending.extend(self.draft.targets(element));
            }
        }
        Some(found)
    }

    fn set(&self, value: Value) -> Option<LocationSet> {
        self.sets.get(value.index()).copied().flatten()
    }

    /// The locations that `value` may be, without its contents. A location may occur twice.
    #[inline]
    pub fn locations(&self, value: Value) -> impl Iterator<Item = Location> + '_ {
        self.set(value).into_iter().flat_map(|set| self.memory.members(set))
    }

    /// Adds the locations that `value` may be, and all that it may contain, to `reached`. Locations
    /// that are in `reached` already are not expanded again, so marking many values costs no more
    /// than the number of locations.
    pub fn mark_reachable(&self, value: Value, reached: &mut EntitySet<Location>) {
        self.memory.reach(self.locations(value), &mut |location| reached.insert(location));
    }

    /// Whether the two may share memory.
    pub fn may_alias(&self, a: Value, b: Value) -> bool {
        self.locations(a).any(|location| self.locations(b).any(|other| other == location))
    }

    /// Whether the two, or any of their contents, may share memory.
    pub fn may_contain_alias(&self, a: Value, b: Value) -> bool {
        if !self.is_container(a) && !self.is_container(b) {
            return self.may_alias(a, b);
        }
        let (mut reached, mut shared) = (FxHashSet::default(), false);
        self.memory.reach(self.locations(a), &mut |location| reached.insert(location));
        let mut seen = FxHashSet::default();
        self.memory.reach(self.locations(b), &mut |location| {
            shared |= reached.contains(&location);
            !shared && seen.insert(location)
        });
        shared
    }

    fn is_container(&self, value: Value) -> bool {
        self.locations(value).any(|location| self.memory.is_container(location))
    }

    /// Whether memory that `value` may be is written to. Of a container this is the container
    /// itself, without its contents.
    #[inline]
    pub fn has_writers(&self, value: Value) -> bool {
        self.locations(value).any(|location| self.memory.is_written(location))
    }

    /// Whether memory that `value` may be, or any of its contents, is written to: whether two reads
    /// of `value` may differ. PyTorch does not check this, and merges two `aten::cat` of a list
    /// across a write to an element.
    #[inline]
    pub fn reaches_writers(&self, value: Value) -> bool {
        let mut locations = self.locations(value);
        locations.any(|location| self.memory.is_written_in(location))
    }

    /// The written locations that `value` may be or contain; sorted.
    pub fn written_through(&self, value: Value) -> Vec<Location> {
        if !self.reaches_writers(value) {
            return Vec::new();
        }
        let mut seen = FxHashSet::default();
        self.memory.reach(self.locations(value), &mut |location| seen.insert(location));
        let mut written: Vec<Location> =
            seen.into_iter().filter(|&location| self.memory.is_written(location)).collect();
        written.sort_unstable_by_key(|location| location.index());
        written
    }

    /// Whether `value` may be reachable from outside.
    pub(crate) fn may_alias_wildcard(&self, value: Value) -> bool {
        self.locations(value).any(|location| self.memory.is_wild(location))
    }

    /// Whether `value`, or any of its contents, may be a result of the graph or be contained in
    /// one.
    pub fn may_alias_graph_output(&self, value: Value) -> bool {
        self.any_reached(value, |location| self.memory.is_returned(location))
    }

    /// Whether `value`, or any of its contents, may be visible outside: as a param, as a result, or
    /// through a wildcard.
    pub fn escapes_scope(&self, value: Value) -> bool {
        self.any_reached(value, |location| self.memory.is_returned(location) || self.memory.is_wild(location))
    }

    fn any_reached(&self, value: Value, is: impl Fn(Location) -> bool) -> bool {
        if self.locations(value).any(&is) {
            return true;
        }
        if !self.is_container(value) {
            return false;
        }
        let (mut seen, mut found) = (FxHashSet::default(), false);
        self.memory.reach(self.locations(value), &mut |location| {
            found |= is(location);
            !found && seen.insert(location)
        });
        found
    }

    /// Whether one of the two may replace the other although that makes them share memory, or no
    /// longer share it: neither is written to, and at most one is visible outside, where it might
    /// be written to.
    pub fn safe_to_change_aliasing(&self, a: Value, b: Value) -> bool {
        let both_escape = || self.escapes_scope(a) && self.escapes_scope(b);
        !self.has_writers(a) && !self.has_writers(b) && !both_escape()
    }

    // ---- locations

    /// Whether it is written to.
    pub(crate) fn is_written(&self, location: Location) -> bool {
        self.memory.is_written(location)
    }

    // ---- nodes

    /// Whether an operand or a result of `node`, or any of their contents, is written to.
    pub fn node_has_writers(&self, graph: &Graph, node: Node) -> bool {
        graph.inputs(node).chain(graph.outputs(node)).any(|value| self.reaches_writers(value))
    }

    /// The locations that `node`, and its nested nodes, write to. A location may occur many times.
    pub fn writes(&self, node: Node) -> impl Iterator<Item = Location> + '_ {
        let (from, to) = self.writes.get(node.index()).copied().unwrap_or_default();
        let joined = if self.joined.is_empty() { None } else { self.joined.get(&node) };
        self.memory.writes(from, to).chain(joined.into_iter().flatten().copied())
    }

    /// Whether `node`, or a nested node, writes to anything.
    #[inline]
    pub fn is_writing(&self, node: Node) -> bool {
        self.flag(node, flag::WRITES) || !self.joined.is_empty() && self.joined.contains_key(&node)
    }

    /// Whether `node`, or a nested node, writes to memory that is reachable from outside.
    pub fn writes_to_wildcard(&self, node: Node) -> bool {
        self.writes(node).any(|location| self.memory.is_wild(location))
    }

    /// Whether `node`, or a nested node, writes to one of these locations; see
    /// [`AliasDb::mark_reachable`].
    pub fn writes_to_any(&self, node: Node, locations: &EntitySet<Location>) -> bool {
        self.writes(node).any(|location| locations.contains(location))
    }

    /// Whether `node`, or a nested node, writes to memory that one of the values may be or contain.
    pub(crate) fn writes_to_alias_of(&self, node: Node, values: &[Value]) -> bool {
        let written: SmallVec<[Location; 8]> = self.writes(node).collect();
        !written.is_empty()
            && values.iter().any(|&value| self.any_reached(value, |location| written.contains(&location)))
    }

    /// Whether `node`, or a node in its blocks or its section, has an effect besides its results
    /// and writes.
    #[inline]
    pub fn has_side_effects(&self, node: Node) -> bool {
        self.flag(node, flag::EFFECT)
    }

    fn flag(&self, node: Node, wanted: u8) -> bool {
        self.flags.get(node.index()).is_some_and(|flags| flags & wanted != 0)
    }

    // ---- updates while a pass edits

    /// Records that `new`, a value created since, has the memory of `old`.
    pub fn copy_value(&mut self, new: Value, old: Value) {
        let (set, element) = (self.set(old), self.elements.get(old.index()).copied().flatten());
        self.note(new, set, element);
    }

    fn note(&mut self, value: Value, set: Option<LocationSet>, element: Option<Element>) {
        let len = self.sets.len().max(value.index() + 1);
        self.sets.resize(len, None);
        self.elements.resize(len, None);
        self.sets[value.index()] = set;
        self.elements[value.index()] = element;
    }

    /// Records that `group`, a node created since, absorbs `node`, which must have no side effects:
    /// the group's writes include those of the node.
    pub fn join_writes(&mut self, group: Node, node: Node) {
        if self.is_writing(node) {
            let written: Vec<Location> = self.writes(node).collect();
            self.joined.entry(group).or_default().extend(written);
        }
    }

    /// Declares that all edits so far are accounted for: by [`AliasDb::copy_value`], or because
    /// they changed no aliasing.
    pub fn assume_current(&mut self, graph: &Graph) {
        self.computation = graph.epoch().computation;
    }
}
