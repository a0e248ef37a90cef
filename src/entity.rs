//! Typed indices and the tables that are indexed by them.
//!
//! A `Node` or a `Value` is a four-byte number that only makes sense together with the
//! [`Graph`](crate::ir::Graph) that created it; `Option<Node>` is four bytes as well. Rows are
//! never reused while a graph lives, so a stale index can refer to an erased row but never to an
//! unrelated one.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The operations of every index type.
pub trait Entity: Copy + Eq {
    /// The position of the row.
    fn index(self) -> usize;
    /// The entity of a position.
    fn at(index: usize) -> Self;
}

/// Declares four-byte index types.
#[macro_export]
macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::num::NonZeroU32);

        impl $crate::entity::Entity for $name {
            #[inline]
            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
            #[inline]
            fn at(index: usize) -> Self {
                let id = u32::try_from(index + 1).ok().and_then(std::num::NonZeroU32::new);
                $name(id.expect("fewer than 2^32 rows"))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), $crate::entity::Entity::index(*self))
            }
        }
    )*};
}

/// The number of accesses to rows of dense tables: the work of a traversal, where a clock would
/// measure the machine. Counted per thread, and only in builds with assertions: tests check with it
/// that passes are linear.
pub mod visits {
    #[cfg(debug_assertions)]
    thread_local! {
        static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    /// Counts one access.
    #[inline]
    pub(super) fn note() {
        #[cfg(debug_assertions)]
        COUNT.with(|count| count.set(count.get() + 1));
    }

    /// The number of accesses so far in this thread.
    #[cfg(debug_assertions)]
    pub fn count() -> u64 {
        COUNT.with(std::cell::Cell::get)
    }
}

/// A dense table that owns the rows of one entity type.
#[derive(Clone, Debug)]
pub(crate) struct EntityVec<E, T> {
    rows: Vec<T>,
    entity: PhantomData<E>,
}

impl<E, T> Default for EntityVec<E, T> {
    fn default() -> Self {
        EntityVec { rows: Vec::new(), entity: PhantomData }
    }
}

impl<E: Entity, T> EntityVec<E, T> {
    /// Adds a row and returns its entity.
    #[inline]
    pub(crate) fn push(&mut self, row: T) -> E {
        self.rows.push(row);
        E::at(self.rows.len() - 1)
    }

    /// The number of rows ever created, erased ones included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All entities in the order of creation.
    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = E> + use<E, T> {
        (0..self.rows.len()).map(E::at)
    }

    /// Reserves memory for `more` rows at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
    }

    /// All rows in order, to fill a table that was copied as a whole.
    #[inline]
    pub(crate) fn rows_mut(&mut self) -> &mut [T] {
        &mut self.rows
    }

    /// All rows in order.
    #[inline]
    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
    }

    /// Bytes held, for `--stats` and the bench.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<T>()
    }

    /// Releases memory that growth reserved.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.rows.shrink_to_fit();
    }
}

impl<E: Entity, T> Index<E> for EntityVec<E, T> {
    type Output = T;
    #[inline]
    fn index(&self, entity: E) -> &T {
        visits::note();
        &self.rows[entity.index()]
    }
}

impl<E: Entity, T> IndexMut<E> for EntityVec<E, T> {
    #[inline]
    fn index_mut(&mut self, entity: E) -> &mut T {
        visits::note();
        &mut self.rows[entity.index()]
    }
}

/// A side table: every entity has a value, the default one until it is set.
#[derive(Clone, Debug)]
pub struct SecondaryMap<E, T> {
    rows: Vec<T>,
    default: T,
    entity: PhantomData<E>,
}

impl<E: Entity, T: Clone + Default> Default for SecondaryMap<E, T> {
    fn default() -> Self {
        SecondaryMap { rows: Vec::new(), default: T::default(), entity: PhantomData }
    }
}

impl<E: Entity, T: Clone + Default> SecondaryMap<E, T> {
    /// An empty side table.
    pub fn new() -> Self {
        SecondaryMap::default()
    }

    /// Sets the value of one entity.
    #[inline]
    pub fn set(&mut self, entity: E, value: T) {
        self[entity] = value;
    }
}

impl<E: Entity, T> Index<E> for SecondaryMap<E, T> {
    type Output = T;
    #[inline]
    fn index(&self, entity: E) -> &T {
        self.rows.get(entity.index()).unwrap_or(&self.default)
    }
}

impl<E: Entity, T: Clone + Default> IndexMut<E> for SecondaryMap<E, T> {
    #[inline]
    fn index_mut(&mut self, entity: E) -> &mut T {
        let index = entity.index();
        if index >= self.rows.len() {
            // Doubling, so that a pass which visits rows in order does not grow the table a
            // thousand times.
            let len = (index + 1).max(self.rows.len() * 2);
            self.rows.resize(len, self.default.clone());
        }
        &mut self.rows[index]
    }
}

/// A set of entities, one bit each.
#[derive(Clone, Debug)]
pub struct EntitySet<E> {
    words: Vec<u64>,
    entity: PhantomData<E>,
}

impl<E> Default for EntitySet<E> {
    fn default() -> Self {
        EntitySet { words: Vec::new(), entity: PhantomData }
    }
}

impl<E: Entity> EntitySet<E> {
    /// An empty set.
    pub fn new() -> Self {
        EntitySet::default()
    }

    /// Adds `entity`; returns true when it was not a member.
    #[inline]
    pub fn insert(&mut self, entity: E) -> bool {
        let (word, bit) = (entity.index() / 64, 1 << (entity.index() % 64));
        if word >= self.words.len() {
            self.words.resize((word + 1).max(self.words.len() * 2), 0);
        }
        let fresh = self.words[word] & bit == 0;
        self.words[word] |= bit;
        fresh
    }

    /// Removes `entity`; returns true when it was a member.
    pub(crate) fn remove(&mut self, entity: E) -> bool {
        let present = self.contains(entity);
        if present {
            self.words[entity.index() / 64] &= !(1 << (entity.index() % 64));
        }
        present
    }

    /// Whether `entity` is in the set.
    #[inline]
    pub fn contains(&self, entity: E) -> bool {
        self.words.get(entity.index() / 64).is_some_and(|word| word & (1 << (entity.index() % 64)) != 0)
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = E> + '_ {
        let bits = |(i, &word): (usize, &u64)| (0..64).filter(move |b| word & (1 << b) != 0).map(move |b| i * 64 + b);
        self.words.iter().enumerate().flat_map(bits).map(E::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    crate::entities! {
        /// An index type for the tests.
        Thing, "t";
    }

    proptest! {
        #[test]
        fn a_set_is_a_btree_set(ops in prop::collection::vec((any::<bool>(), 0usize..300), 0..200)) {
            let (mut set, mut model) = (EntitySet::<Thing>::new(), BTreeSet::new());
            for (add, i) in ops {
                let changed = if add { set.insert(Thing::at(i)) } else { set.remove(Thing::at(i)) };
                prop_assert_eq!(changed, if add { model.insert(i) } else { model.remove(&i) });
            }
            prop_assert_eq!(set.iter().map(|t| t.index()).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_option_costs_nothing_and_unset_rows_are_the_default() {
        assert_eq!(size_of::<Option<Thing>>(), 4);
        let mut map = SecondaryMap::<Thing, u8>::new();
        map.set(Thing::at(5), 7);
        assert_eq!((map[Thing::at(5)], map[Thing::at(4)], map[Thing::at(500)]), (7, 0, 0));
    }
}
