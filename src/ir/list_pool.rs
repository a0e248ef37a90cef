//! Short lists of entities, in one pool per graph.
//!
//! Nearly every node has exactly one output and no block, so a list of one element is stored in its
//! own handle; longer ones take a power-of-two run of the pool and move when they outgrow it.

use crate::entity::Entity;
use std::marker::PhantomData;

/// A handle of eight bytes.
#[derive(Debug)]
pub(super) struct List<E> {
    len: u32,
    /// The element itself plus one when `len` is one, else the start of the run.
    data: u32,
    entity: PhantomData<E>,
}

impl<E> Clone for List<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for List<E> {}

impl<E> Default for List<E> {
    fn default() -> Self {
        List { len: 0, data: 0, entity: PhantomData }
    }
}

/// The runs of all lists of one graph.
#[derive(Clone, Debug, Default)]
pub(super) struct ListPool {
    runs: Vec<u32>,
}

impl<E: Entity> List<E> {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    #[track_caller]
    pub(super) fn get(&self, pool: &ListPool, i: usize) -> E {
        assert!(i < self.len(), "element {i} of {}", self.len());
        E::at(if self.len == 1 { self.data } else { pool.runs[self.data as usize + i] } as usize)
    }

    pub(super) fn set(&mut self, pool: &mut ListPool, i: usize, entity: E) {
        assert!(i < self.len(), "element {i} of {}", self.len());
        let place = if self.len == 1 { &mut self.data } else { &mut pool.runs[self.data as usize + i] };
        *place = entity.index() as u32;
    }

    pub(super) fn push(&mut self, pool: &mut ListPool, entity: E) {
        let id = entity.index() as u32;
        match self.len {
            0 => self.data = id,
            1 => {
                let start = pool.runs.len() as u32;
                pool.runs.extend([self.data, id]);
                self.data = start;
            }
            n if n.is_power_of_two() => self.grow(pool, id),
            n => pool.runs[(self.data + n) as usize] = id,
        }
        self.len += 1;
    }

    fn grow(&mut self, pool: &mut ListPool, id: u32) {
        let (old, n) = (self.data as usize, self.len as usize);
        self.data = pool.runs.len() as u32;
        pool.runs.extend_from_within(old..old + n);
        pool.runs.push(id);
        pool.runs.resize(self.data as usize + 2 * n, 0);
    }

    pub(super) fn remove(&mut self, pool: &mut ListPool, i: usize) -> E {
        let removed = self.get(pool, i);
        if self.len > 1 {
            let start = self.data as usize;
            pool.runs.copy_within(start + i + 1..start + self.len(), start + i);
            if self.len == 2 {
                self.data = pool.runs[start];
            }
        }
        self.len -= 1;
        removed
    }

    pub(super) fn insert(&mut self, pool: &mut ListPool, i: usize, entity: E) {
        self.push(pool, entity);
        let start = self.data as usize;
        if self.len > 1 {
            pool.runs[start + i..start + self.len as usize].rotate_right(1);
        }
    }
}

impl ListPool {
    pub(super) fn bytes(&self) -> usize {
        self.runs.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    crate::entities! {
        /// Something to list.
        Item, "i";
    }

    proptest! {
        #[test]
        fn a_list_is_a_vec(ops in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), 0usize..1000), 0..100)) {
            let (mut pool, mut list, mut model) = (ListPool::default(), List::<Item>::default(), Vec::new());
            // Edits of one list leave another in the same pool unchanged.
            let mut other = List::<Item>::default();
            for (op, at, id) in ops {
                other.push(&mut pool, Item::at(7));
                match op {
                    0 if !model.is_empty() => {
                        let i = at.index(model.len());
                        prop_assert_eq!(list.remove(&mut pool, i).index(), model.remove(i));
                    }
                    1 => {
                        let i = at.index(model.len() + 1);
                        list.insert(&mut pool, i, Item::at(id));
                        model.insert(i, id);
                    }
                    _ => {
                        list.push(&mut pool, Item::at(id));
                        model.push(id);
                    }
                }
                prop_assert_eq!((0..list.len()).map(|i| list.get(&pool, i).index()).collect::<Vec<_>>(), model.clone());
            }
            prop_assert!((0..other.len()).all(|i| other.get(&pool, i).index() == 7));
        }
    }
}
