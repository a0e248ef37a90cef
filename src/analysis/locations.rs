//! Resolution of recorded notes: what every element may be, what contains what, and what is
//! written.
//!
//! An element is the set of the elements that are the leaves of its points-to graph. Such sets grow
//! quadratically where branches are joined repeatedly, so they are bounded: up to [`MAX_SET`]
//! locations are distinct, and a set that would be larger merges its members into one location.
//! This is sound (more may alias, nothing less), and it costs a union-find step per member, once.
//! Memory that becomes reachable from outside is merged with the wildcard of its type in the same
//! way. So all this takes time linear in the notes, except for a sort of the contents of
//! containers.

use super::memory::{Draft, Element, Write};
use super::type_classes::{Breadth, TypeClass};
use crate::entity::{Entity, EntityVec};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

crate::entities! {
    /// A memory location, or several that are not distinguished.
    Location, "m";
    /// A set of locations: one, by its number, or several, by the number of the set plus
    /// [`SEVERAL`].
    LocationSet, "s";
}

/// A set larger than this becomes one location.
pub(super) const MAX_SET: usize = 16;
const SEVERAL: usize = 1 << 31;

type Small = SmallVec<[Location; MAX_SET + 1]>;

/// Facts of a location, as bits.
mod fact {
    /// The location is written to.
    pub(crate) const WRITTEN: u8 = 1;
    /// The location, or something in it, is written to.
    pub(crate) const WRITTEN_IN: u8 = 64;
    /// It is reachable from outside.
    pub(crate) const WILD: u8 = 2;
    /// A graph result may be it or contain it.
    pub(crate) const RETURNED: u8 = 4;
    /// The location is an object with unknown attributes.
    pub(crate) const HOLDS_ANYTHING: u8 = 8;
    /// `contents` has pairs for the location.
    pub(crate) const HOLDS: u8 = 16;
    /// All contents were merged with the location itself.
    pub(crate) const HOLDS_ITSELF: u8 = 32;
}

/// The memory of a graph.
#[derive(Debug)]
pub(super) struct Memory {
    /// The possible memory of each element.
    sets: EntityVec<Element, LocationSet>,
    spans: Vec<(u32, u32)>,
    pool: Vec<Location>,
    /// Locations are elements that point to nothing, merged by union-find.
    parent: Vec<u32>,
    facts: Vec<u8>,
    class: Vec<TypeClass>,
    /// Pairs of container and content, sorted.
    contents: Vec<(Location, Location)>,
    wildcards: Vec<Location>,
    /// The locations of the recorded writes, flat, and where each begins.
    written: Vec<Location>,
    write_starts: Vec<u32>,
    any: TypeClass,
    /// The classes of which a value became reachable from outside.
    escaped: Vec<bool>,
    /// The number of steps, see [`super::AliasDb::work`].
    pub(super) work: u64,
}

impl Location {
    /// The element of this location, or the representative that it was merged with.
    pub(super) fn element(self) -> Element {
        Element::at(self.index())
    }
}

/// A placeholder for the set of an element until it is resolved.
fn unresolved() -> LocationSet {
    LocationSet::at(u32::MAX as usize - 1)
}

fn location(element: Element) -> Location {
    Location::at(element.index())
}

impl Memory {
    /// Resolves the notes.
    pub(super) fn resolve(draft: &Draft, returned: &[Element]) -> Memory {
        let mut memory = Memory::unresolved(draft);
        memory.resolve_sets(draft);
        memory.resolve_escapes(draft);
        memory.merge_broad_wildcards(draft);
        memory.wildcards = memory.find_all(draft.classes.rows.keys().map(|class| draft.wildcard(class)));
        memory.bound_wildcards();
        memory.resolve_contents(draft);
        memory.resolve_writes(draft);
        memory.spread_writes();
        memory.mark_returned(returned);
        memory
    }

    fn unresolved(draft: &Draft) -> Memory {
        let n = draft.elements.len();
        let class: Vec<TypeClass> = draft.elements.keys().map(|e| draft.elements[e].class).collect();
        Memory {
            sets: EntityVec::default(),
            spans: Vec::new(),
            pool: Vec::new(),
            parent: (0..n as u32).collect(),
            facts: vec![0; n],
            class,
            contents: Vec::new(),
            wildcards: Vec::new(),
            written: Vec::new(),
            write_starts: Vec::new(),
            any: draft.any,
            escaped: vec![false; draft.classes.rows.len()],
            work: n as u64,
        }
    }

    // ---- classes of locations

    /// The representative of a location.
    #[inline]
    fn find(&self, location: Location) -> Location {
        let mut at = location.index();
        while self.parent[at] as usize != at {
            at = self.parent[at] as usize;
        }
        Location::at(at)
    }

    fn find_short(&mut self, location: Location) -> Location {
        let mut at = location.index();
        while self.parent[at] as usize != at {
            self.parent[at] = self.parent[self.parent[at] as usize];
            at = self.parent[at] as usize;
        }
        Location::at(at)
    }

    fn find_all(&self, elements: impl Iterator<Item = Element>) -> Vec<Location> {
        let mut found: Vec<Location> = elements.map(|e| self.find(location(e))).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Merges two locations. The earlier one is the representative, so that wildcards of common
    /// types are.
    fn unite(&mut self, a: Location, b: Location) -> Location {
        self.work += 1;
        let (a, b) = (self.find_short(a), self.find_short(b));
        if a == b {
            return a;
        }
        let (root, other) = (a.min(b), a.max(b));
        self.parent[other.index()] = root.index() as u32;
        self.facts[root.index()] |= self.facts[other.index()];
        if self.class[root.index()] != self.class[other.index()] {
            self.class[root.index()] = self.any;
        }
        root
    }

    fn unite_all(&mut self, locations: &[Location]) -> Option<Location> {
        locations.iter().copied().reduce(|a, b| self.unite(a, b))
    }

    fn has(&self, location: Location, facts: u8) -> bool {
        self.facts[location.index()] & facts != 0
    }

    fn mark(&mut self, location: Location, facts: u8) {
        self.facts[location.index()] |= facts;
    }

    // ---- sets

    /// Follows points-to edges. Loop-carried values point backwards, so there are cycles: their
    /// elements have the same set.
    fn resolve_sets(&mut self, draft: &Draft) {
        let mut cycles = false;
        for element in draft.elements.keys() {
            let row = draft.elements[element];
            let set = match (row.first, row.more) {
                (None, _) => LocationSet::at(element.index()),
                (Some(target), None) if target < element => self.sets[target],
                _ => unresolved(),
            };
            self.sets.push(set);
            if row.more.is_some() && draft.targets(element).all(|t| t < element && self.sets[t] != unresolved()) {
                self.sets[element] = self.join(draft, &[element]);
            }
            cycles |= self.sets[element] == unresolved();
        }
        if cycles {
            Cycles::new(draft.elements.len()).resolve(self, draft);
        }
    }

    /// The set of everything that the elements of a cycle point to; elements of the cycle itself
    /// have no set yet. A cycle without edges to the outside, such as a value that a loop only
    /// passes on to itself, is memory of its own.
    fn join(&mut self, draft: &Draft, members: &[Element]) -> LocationSet {
        let mut union = Small::new();
        for target in members.iter().flat_map(|&member| draft.targets(member)) {
            self.work += 1;
            if self.sets[target] != unresolved() {
                self.add_set(&mut union, self.sets[target]);
            }
        }
        if union.is_empty() {
            union.extend(members.first().map(|&member| location(member)));
        }
        self.intern(&union)
    }

    fn add_set(&mut self, union: &mut Small, set: LocationSet) {
        let members: Small = self.members(set).collect();
        for member in members {
            self.work += 1;
            let member = self.find_short(member);
            if union.contains(&member) {
                continue;
            }
            union.push(member);
            if union.len() > MAX_SET {
                let one = self.unite_all(union);
                union.clear();
                union.extend(one);
            }
        }
    }

    fn intern(&mut self, union: &[Location]) -> LocationSet {
        if let [one] = union {
            return LocationSet::at(one.index());
        }
        self.spans.push((self.pool.len() as u32, union.len() as u32));
        self.pool.extend(union);
        LocationSet::at(SEVERAL + self.spans.len() - 1)
    }

    /// The locations of a set, as they are currently merged; one may occur twice.
    #[inline]
    pub(super) fn members(&self, set: LocationSet) -> impl Iterator<Item = Location> + Clone + '_ {
        let (one, several): (Option<Location>, &[Location]) = match set.index().checked_sub(SEVERAL) {
            None => (Some(Location::at(set.index())), &[]),
            Some(index) => {
                let (start, len) = self.spans[index];
                (None, &self.pool[start as usize..][..len as usize])
            }
        };
        one.into_iter().chain(several.iter().copied()).map(|location| self.find(location))
    }

    /// The locations that an element may be.
    pub(super) fn set(&self, element: Element) -> LocationSet {
        self.sets[element]
    }

    // ---- memory that is reachable from outside

    fn resolve_escapes(&mut self, draft: &Draft) {
        let mut inside = Vec::with_capacity(draft.contains.len());
        for &(container, content) in &draft.contains {
            let holders: Small = self.members(self.sets[container]).collect();
            self.work += holders.len() as u64;
            holders.iter().for_each(|&holder| self.mark(holder, fact::HOLDS));
            inside.extend(holders.into_iter().map(|holder| (holder, content)));
        }
        inside.sort_unstable();
        let mut seen = vec![false; draft.elements.len()];
        let mut work: Vec<Location> = Vec::new();
        for class in draft.classes.rows.keys() {
            self.mark(location(draft.wildcard(class)), fact::WILD);
        }
        for &element in &draft.escaped {
            work.extend(self.members(self.sets[element]));
            while let Some(reached) = work.pop() {
                if std::mem::replace(&mut seen[reached.index()], true) {
                    continue;
                }
                if self.has(reached, fact::HOLDS) {
                    let from = inside.partition_point(|(holder, _)| *holder < reached);
                    let held = inside[from..].iter().take_while(|(holder, _)| *holder == reached);
                    held.for_each(|&(_, content)| work.extend(self.members(self.sets[content])));
                }
                self.escape(draft, reached);
            }
        }
    }

    /// Merges a location with the wildcard of its type.
    fn escape(&mut self, draft: &Draft, reached: Location) {
        let class = self.class[reached.index()];
        self.escaped[class.index()] = true;
        self.unite(reached, location(draft.wildcard(class)));
    }

    /// Where values reachable from outside may have a more general type, types do not distinguish
    /// them.
    fn merge_broad_wildcards(&mut self, draft: &Draft) {
        let used = |memory: &Memory, class: TypeClass| draft.classes.rows[class].used || memory.escaped[class.index()];
        for class in draft.classes.rows.keys() {
            if !used(self, class) {
                continue;
            }
            let row = &draft.classes.rows[class];
            let covers = |other: TypeClass| match row.breadth {
                Breadth::Exact => false,
                Breadth::Parts => row.parts.contains(&other),
                Breadth::Objects => draft.classes.rows[other].holds_anything,
                Breadth::Anything => true,
            };
            for other in draft.classes.rows.keys().filter(|&other| row.breadth != Breadth::Exact && covers(other)) {
                self.unite(location(row.wildcard), location(draft.wildcard(other)));
            }
        }
    }

    /// Merges wildcards until they are few enough to list for each node that writes to everything.
    fn bound_wildcards(&mut self) {
        if self.wildcards.len() > MAX_SET {
            let all = std::mem::take(&mut self.wildcards);
            self.wildcards = self.unite_all(&all).into_iter().collect();
        }
    }

    // ---- contents

    fn resolve_contents(&mut self, draft: &Draft) {
        for element in draft.elements.keys() {
            self.work += 1;
            let parent = self.find_short(location(element));
            self.parent[element.index()] = parent.index() as u32;
            if draft.classes.rows[draft.elements[element].class].holds_anything {
                self.mark(parent, fact::HOLDS_ANYTHING);
            }
        }
        let mut contents = Vec::with_capacity(draft.contains.len());
        for &(container, content) in &draft.contains {
            let held: Small = self.members(self.sets[content]).collect();
            for holder in self.members(self.sets[container]) {
                contents.extend(held.iter().filter(|&&content| content != holder).map(|&content| (holder, content)));
            }
        }
        self.work += contents.len() as u64;
        contents.dedup();
        contents.sort_unstable();
        contents.dedup();
        for &(holder, _) in &contents {
            self.mark(holder, fact::HOLDS);
        }
        self.contents = contents;
    }

    /// The direct contents of a location.
    fn contents(&self, holder: Location) -> impl Iterator<Item = Location> + '_ {
        let held: &[(Location, Location)] = match self.has(holder, fact::HOLDS) && !self.has(holder, fact::HOLDS_ITSELF)
        {
            false => &[],
            true => &self.contents[self.contents.partition_point(|(from, _)| *from < holder)..],
        };
        let held = held.iter().take_while(move |(from, _)| *from == holder).map(|&(_, content)| self.find(content));
        let anything: &[Location] = if self.has(holder, fact::HOLDS_ANYTHING) { &self.wildcards } else { &[] };
        held.chain(anything.iter().map(|&wildcard| self.find(wildcard)))
    }

    /// Visits these locations and all their contents. `enter` returns whether a location is new;
    /// the contents of one that is not are skipped.
    pub(super) fn reach(&self, start: impl Iterator<Item = Location>, enter: &mut dyn FnMut(Location) -> bool) {
        let mut work: SmallVec<[Location; 8]> = SmallVec::new();
        work.extend(start.filter(|&location| enter(location)));
        while let Some(holder) = work.pop() {
            work.extend(self.contents(holder).filter(|&content| enter(content)));
        }
    }

    // ---- writes

    fn resolve_writes(&mut self, draft: &Draft) {
        self.write_starts.push(0);
        for &write in &draft.writes {
            let mut targets = match write {
                Write::To(element) => self.members(self.sets[element]).collect(),
                Write::Deep(element) => self.bounded_reach(self.sets[element]),
                Write::Everything => self.wildcards.iter().map(|&wildcard| self.find(wildcard)).collect::<Small>(),
            };
            targets.sort_unstable();
            targets.dedup();
            self.work += targets.len() as u64;
            for &target in &targets {
                self.mark(target, fact::WRITTEN);
            }
            self.written.extend(targets);
            self.write_starts.push(self.written.len() as u32);
        }
    }

    /// Marks locations that contain written memory.
    fn spread_writes(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let mut holders: Vec<(Location, Location)> = Vec::with_capacity(self.contents.len());
        holders.extend(self.contents.iter().map(|&(holder, content)| (self.find(content), self.find(holder))));
        holders.sort_unstable();
        let written = (0..self.facts.len()).map(Location::at).filter(|&location| self.is_written(location));
        let mut work: Vec<Location> = written.collect();
        if self.wildcards.iter().any(|&wildcard| self.is_written(self.find(wildcard))) {
            let objects = (0..self.facts.len()).map(Location::at);
            work.extend(objects.filter(|&location| self.has(location, fact::HOLDS_ANYTHING)));
        }
        while let Some(content) = work.pop() {
            if self.has(content, fact::WRITTEN_IN) {
                continue;
            }
            self.mark(content, fact::WRITTEN_IN);
            let from = holders.partition_point(|(held, _)| *held < content);
            work.extend(holders[from..].iter().take_while(|(held, _)| *held == content).map(|&(_, holder)| holder));
        }
    }

    /// A set and all its contents; when that is too large, it becomes one location that contains
    /// itself.
    fn bounded_reach(&mut self, set: LocationSet) -> Small {
        let mut reached = Small::new();
        self.reach(self.members(set), &mut |location| {
            let new = reached.len() <= MAX_SET && !reached.contains(&location);
            reached.extend(new.then_some(location));
            new
        });
        if reached.len() <= MAX_SET {
            return reached;
        }
        let (mut seen, mut all) = (FxHashSet::default(), Vec::new());
        self.reach(self.members(set), &mut |location| {
            let new = seen.insert(location);
            all.extend(new.then_some(location));
            new
        });
        self.work += all.len() as u64;
        let one = self.unite_all(&all);
        one.inspect(|&one| self.hold_itself(one)).into_iter().collect()
    }

    fn hold_itself(&mut self, one: Location) {
        self.mark(one, fact::HOLDS_ITSELF);
        self.facts[one.index()] &= !fact::HOLDS_ANYTHING;
    }

    /// The locations of the writes recorded as number `from` to `to`.
    pub(super) fn writes(&self, from: u32, to: u32) -> impl Iterator<Item = Location> + '_ {
        let range = self.write_starts[from as usize] as usize..self.write_starts[to as usize] as usize;
        self.written[range].iter().map(|&location| self.find(location))
    }

    fn mark_returned(&mut self, returned: &[Element]) {
        let mut work: Vec<Location> = returned.iter().flat_map(|&element| self.members(self.sets[element])).collect();
        while let Some(reached) = work.pop() {
            if !self.has(reached, fact::RETURNED) {
                self.mark(reached, fact::RETURNED);
                self.work += 1;
                work.extend(self.contents(reached));
            }
        }
    }

    // ---- facts

    pub(super) fn is_written(&self, location: Location) -> bool {
        self.has(location, fact::WRITTEN)
    }

    pub(super) fn is_written_in(&self, location: Location) -> bool {
        self.has(location, fact::WRITTEN_IN)
    }

    pub(super) fn is_wild(&self, location: Location) -> bool {
        self.has(location, fact::WILD)
    }

    pub(super) fn is_returned(&self, location: Location) -> bool {
        self.has(location, fact::RETURNED)
    }

    /// Whether a location may have contents.
    pub(super) fn is_container(&self, location: Location) -> bool {
        self.has(location, fact::HOLDS | fact::HOLDS_ANYTHING) && !self.has(location, fact::HOLDS_ITSELF)
    }
}

/// Tarjan's algorithm with an explicit stack: cycles of elements that point to each other, the last
/// first.
struct Cycles {
    /// The index in order of discovery, plus one.
    number: Vec<u32>,
    low: Vec<u32>,
    open: Vec<Element>,
    count: u32,
}

impl Cycles {
    fn new(elements: usize) -> Cycles {
        Cycles { number: vec![0; elements], low: vec![0; elements], open: Vec::new(), count: 0 }
    }

    fn resolve(&mut self, memory: &mut Memory, draft: &Draft) {
        for element in draft.elements.keys() {
            if memory.sets[element] == unresolved() {
                self.visit(memory, draft, element);
            }
        }
    }

    fn visit(&mut self, memory: &mut Memory, draft: &Draft, start: Element) {
        let mut stack = vec![(start, self.discover(draft, start))];
        while let Some((element, targets)) = stack.last_mut() {
            let element = *element;
            let Some(target) = targets.pop() else {
                stack.pop();
                self.close(memory, draft, element);
                if let Some((below, _)) = stack.last() {
                    self.lower(*below, self.low[element.index()]);
                }
                continue;
            };
            if memory.sets[target] != unresolved() {
                continue;
            }
            match self.number[target.index()] {
                0 => stack.push((target, self.discover(draft, target))),
                number => self.lower(element, number),
            }
        }
    }

    fn discover(&mut self, draft: &Draft, element: Element) -> SmallVec<[Element; 4]> {
        self.count += 1;
        self.number[element.index()] = self.count;
        self.low[element.index()] = self.count;
        self.open.push(element);
        draft.targets(element).collect()
    }

    fn lower(&mut self, element: Element, to: u32) {
        let low = &mut self.low[element.index()];
        *low = (*low).min(to);
    }

    /// When nothing before `element` is reachable from it, the elements discovered since form one
    /// cycle with it.
    fn close(&mut self, memory: &mut Memory, draft: &Draft, element: Element) {
        if self.low[element.index()] != self.number[element.index()] {
            return;
        }
        let start = self.open.iter().rposition(|&open| open == element).unwrap_or(0);
        let members = self.open.split_off(start);
        let set = memory.join(draft, &members);
        for member in members {
            memory.sets[member] = set;
        }
    }
}
