//! Which values may share memory, and who writes to it.
//!
//! Two values of mutable type may be the same memory because an operator returns a view, because a branch or a loop
//! returns one or the other, because one is taken out of a container that the other was put in, or because both come from
//! outside. The analysis walks the graph once and knows no order: a write anywhere is a write.
//!
//! - Every mutable value has an element, which *points to* what it may be and *contains* what it may hold. At the ends of
//!   what elements point to are the [`Location`]s.
//! - All that comes from outside is told apart by type alone: one *wildcard* per type, tensors of all refinements being
//!   one. Graph params are wildcards, and so is what is put into a container and what is taken out of one.
//! - What a node does is a column of the operator table ([`AliasRule`](crate::ops::rules::AliasRule)). Nested blocks and
//!   the graphs of sections are walked where their node stands, and their writes are writes of that node too.
//!
//! Sound where PyTorch's analysis is not: a value carried by a loop may also be what the turn before returned; objects,
//! of which the text does not tell the attributes, may contain anything; what hides behind `Any` or an interface is not
//! told apart from what it may be; an operator that nobody knows may write to everything that is reachable from outside.
//!
//! Cost: linear in nodes and operands, whatever is joined or nested: a value is told to be up to sixteen locations, and
//! what would be more of them becomes one. A query looks at the few locations of its values, those about containers at
//! what is in them.

use super::locations::{Location, LocationSet, Memory};
use super::memory::{Draft, Element};
use super::transfer::{Transfer, flag};
use crate::entity::{Entity, EntitySet};
use crate::ir::{Graph, Node, Value};
use crate::planted;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// The memory of a graph at one time. Good until the computation changes; moving nodes does not count.
#[derive(Debug)]
pub struct AliasDb {
    pub(super) draft: Draft,
    pub(super) memory: Memory,
    /// What each value is; none for immutable values.
    sets: Vec<Option<LocationSet>>,
    pub(super) elements: Vec<Option<Element>>,
    /// The notes of writes of each node, nested nodes included.
    writes: Vec<(u32, u32)>,
    flags: Vec<u8>,
    /// What nodes write that took in others since.
    joined: FxHashMap<Node, Vec<Location>>,
    work: u64,
    computation: u64,
}

impl AliasDb {
    /// Analyses a graph.
    pub fn new(graph: &Graph) -> AliasDb {
        let walk = Transfer::of(graph);
        let returned: Vec<Element> = graph.results(graph.root()).filter_map(|v| walk.elements[v.index()]).collect();
        let returned = planted!("alias.returned", returned, "none" => Vec::new(), "first" => returned.into_iter().take(1).collect());
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

    /// How many steps the analysis took: nodes, operands, locations. Linear in the graph; for `--stats`.
    pub fn work(&self) -> u64 {
        self.work
    }

    // ---- values

    /// Whether memory can be reached through `value` at all: numbers and the like are neither shared nor written.
    pub fn is_tracked(&self, value: Value) -> bool {
        self.set(value).is_some()
    }

    /// What a value of mutable type is, or is a part of, by what nodes do, and not by types alone;
    /// nothing for others.
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

    /// What `value` may be, not what is in it. A location may come twice.
    #[inline]
    pub fn locations(&self, value: Value) -> impl Iterator<Item = Location> + '_ {
        self.set(value).into_iter().flat_map(|set| self.memory.members(set))
    }

    /// Adds what `value` may be, and all that may be in it, to `reached`. What is in `reached` already is not looked into
    /// again, so marking many values costs no more than there are locations.
    pub fn mark_reachable(&self, value: Value, reached: &mut EntitySet<Location>) {
        self.memory.reach(self.locations(value), &mut |location| reached.insert(location));
    }

    /// Whether the two may be the same memory.
    pub fn may_alias(&self, a: Value, b: Value) -> bool {
        self.locations(a).any(|location| self.locations(b).any(|other| other == location))
    }

    /// Whether the two, or anything in them, may be the same memory.
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

    /// Whether anybody writes to what `value` may be. Of a container that is the container, not what is in it.
    #[inline]
    pub fn has_writers(&self, value: Value) -> bool {
        planted!("alias.has-writers", self.locations(value).any(|location| self.memory.is_written(location)), "never" => false)
    }

    /// Whether anybody writes to what `value` may be, or to anything in it: whether looking at `value` twice may show two
    /// things. PyTorch does not ask this, and takes two `aten::cat` of a list for one across a write to an element.
    #[inline]
    pub fn reaches_writers(&self, value: Value) -> bool {
        let mut locations = self.locations(value);
        planted!(
            "alias.reaches-writers", locations.any(|location| self.memory.is_written_in(location)),
            "never" => false,
            "first" => locations.next().is_some_and(|location| self.memory.is_written_in(location)),
            "not-inside" => locations.any(|location| self.memory.is_written(location)),
        )
    }

    /// What `value` may be, or may be in it, and somebody writes to; sorted.
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

    /// Whether `value` may be something that is reachable from outside.
    pub fn may_alias_wildcard(&self, value: Value) -> bool {
        self.locations(value).any(|location| self.memory.is_wild(location))
    }

    /// Whether `value`, or anything in it, may be a result of the graph or be in one.
    pub fn may_alias_graph_output(&self, value: Value) -> bool {
        self.any_reached(value, |location| self.memory.is_returned(location))
    }

    /// Whether anybody outside may see `value`, or anything in it: it may be a param, a result, or behind a wildcard.
    pub fn escapes_scope(&self, value: Value) -> bool {
        planted!(
            "alias.escapes-scope",
            self.any_reached(value, |location| self.memory.is_returned(location) || self.memory.is_wild(location)),
            "never" => false,
            "wild-only" => self.any_reached(value, |location| self.memory.is_wild(location)),
        )
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

    /// Whether one of the two may stand for the other although that makes them the same memory, or no longer the same:
    /// nobody writes to either, and not both are seen outside, where somebody might.
    pub fn safe_to_change_aliasing(&self, a: Value, b: Value) -> bool {
        let both_escape = || self.escapes_scope(a) && self.escapes_scope(b);
        !self.has_writers(a) && !self.has_writers(b) && !both_escape()
    }

    // ---- locations

    /// Whether anybody writes to it.
    pub fn is_written(&self, location: Location) -> bool {
        self.memory.is_written(location)
    }

    /// Whether it is reachable from outside.
    pub fn is_wildcard(&self, location: Location) -> bool {
        self.memory.is_wild(location)
    }

    // ---- nodes

    /// Whether anybody writes to an operand or a result of `node`, or to anything in one.
    pub fn node_has_writers(&self, graph: &Graph, node: Node) -> bool {
        graph.inputs(node).chain(graph.outputs(node)).any(|value| self.reaches_writers(value))
    }

    /// What `node`, and the nodes in it, write to. A location may come many times.
    pub fn writes(&self, node: Node) -> impl Iterator<Item = Location> + '_ {
        let (from, to) = self.writes.get(node.index()).copied().unwrap_or_default();
        let joined = if self.joined.is_empty() { None } else { self.joined.get(&node) };
        self.memory.writes(from, to).chain(joined.into_iter().flatten().copied())
    }

    /// Whether `node`, or a node in it, writes to anything.
    #[inline]
    pub fn is_writing(&self, node: Node) -> bool {
        self.flag(node, flag::WRITES) || !self.joined.is_empty() && self.joined.contains_key(&node)
    }

    /// Whether `node`, or a node in it, writes to something that is reachable from outside.
    pub fn writes_to_wildcard(&self, node: Node) -> bool {
        planted!(
            "alias.writes-outside", self.writes(node).any(|location| self.memory.is_wild(location)),
            "all" => self.is_writing(node) && self.writes(node).all(|location| self.memory.is_wild(location)),
            "last" => self.writes(node).last().is_some_and(|location| self.memory.is_wild(location)),
        )
    }

    /// Whether `node`, or a node in it, writes to one of these locations; see [`AliasDb::mark_reachable`].
    pub fn writes_to_any(&self, node: Node, locations: &EntitySet<Location>) -> bool {
        planted!(
            "alias.writes-any", self.writes(node).any(|location| locations.contains(location)),
            "all" => self.is_writing(node) && self.writes(node).all(|location| locations.contains(location)),
            "last" => self.writes(node).last().is_some_and(|location| locations.contains(location)),
        )
    }

    /// Whether `node`, or a node in it, writes to what one of the values may be, or to what may be in it.
    pub fn writes_to_alias_of(&self, node: Node, values: &[Value]) -> bool {
        let written: SmallVec<[Location; 8]> = self.writes(node).collect();
        !written.is_empty()
            && values.iter().any(|&value| self.any_reached(value, |location| written.contains(&location)))
    }

    /// Whether `node`, or a node in its blocks or its section, does something that is seen besides results and writes.
    #[inline]
    pub fn has_side_effects(&self, node: Node) -> bool {
        self.flag(node, flag::EFFECT)
    }

    fn flag(&self, node: Node, wanted: u8) -> bool {
        self.flags.get(node.index()).is_some_and(|flags| flags & wanted != 0)
    }

    // ---- keeping it valid while a pass edits

    /// Notes that `new`, a value made since, is the same memory as `old`.
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

    /// Notes that `group`, a node made since, takes in `node`, which must have no side effects: it writes what that writes.
    pub fn join_writes(&mut self, group: Node, node: Node) {
        if self.is_writing(node) {
            let written: Vec<Location> = self.writes(node).collect();
            self.joined.entry(group).or_default().extend(written);
        }
    }

    /// Says that the edits up to now are accounted for: by [`AliasDb::copy_value`], or because they changed no aliasing.
    pub fn assume_current(&mut self, graph: &Graph) {
        self.computation = graph.epoch().computation;
    }
}
