//! Memory of results that nothing reads any more, for later results.
//!
//! A program that runs again makes results of the same sizes in the same order. Their memory then
//! comes from here: it is neither allocated nor filled with zeros, and still in the caches. The
//! runtime opens it around what it computes; a result that is kept keeps its memory.

use super::buffer::Buffer;
use super::dtype::DType;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Elements from which on memory is worth keeping.
const WORTH_KEEPING: usize = 64;

/// Memory for results.
#[derive(Debug, Default)]
pub(crate) struct SpareMemory {
    kept: RefCell<FxHashMap<(DType, usize), Vec<Buffer>>>,
    /// Bytes that are kept, that results have, and the most that results have had at once.
    kept_bytes: Cell<usize>,
    lent_bytes: Cell<usize>,
    most_bytes: Cell<usize>,
    /// The number of allocations.
    allocated: Cell<u64>,
}

thread_local! {
    static OPEN: RefCell<Option<Rc<SpareMemory>>> = const { RefCell::new(None) };
}

/// Closes the memory that was opened, and opens that before it.
pub(crate) struct Opened(Option<Rc<SpareMemory>>);

impl Drop for Opened {
    fn drop(&mut self) {
        OPEN.replace(self.0.take());
    }
}

impl SpareMemory {
    /// The memory that is open in this thread.
    pub(crate) fn current() -> Option<Rc<SpareMemory>> {
        OPEN.with_borrow(Clone::clone)
    }

    /// Opens it for this thread until the guard is dropped.
    pub(crate) fn open(self: &Rc<Self>) -> Opened {
        Opened(OPEN.replace(Some(self.clone())))
    }

    /// The number of allocations where no spare memory was left.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// A buffer of at least so many elements. Those of memory that was used before are any.
    pub(crate) fn take(&self, dtype: DType, elements: usize) -> Buffer {
        let class = rounded(elements);
        let bytes = class * dtype.size();
        self.lent_bytes.set(self.lent_bytes.get() + bytes);
        self.most_bytes.set(self.most_bytes.get().max(self.lent_bytes.get()));
        let known = self.kept.borrow_mut().get_mut(&(dtype, class)).and_then(Vec::pop);
        match known {
            Some(mut buffer) => {
                self.kept_bytes.set(self.kept_bytes.get().saturating_sub(bytes));
                if cfg!(debug_assertions) {
                    buffer.poison();
                }
                buffer
            }
            None => {
                self.allocated.set(self.allocated.get() + 1);
                Buffer::zeros(dtype, class)
            }
        }
    }

    /// Another thread has what a result had.
    pub(super) fn give_up(&self, buffer: &Buffer) {
        let bytes = buffer.len() * buffer.element_size();
        self.lent_bytes.set(self.lent_bytes.get().saturating_sub(bytes));
    }

    /// Takes back what a result had. No more is kept than results have had at once.
    pub(super) fn give_back(&self, buffer: Buffer) {
        self.give_up(&buffer);
        let (dtype, class) = (buffer.dtype(), buffer.len());
        let bytes = class * dtype.size();
        if class < WORTH_KEEPING {
            return;
        }
        let mut kept = self.kept.borrow_mut();
        if self.kept_bytes.get() + bytes > self.most_bytes.get() {
            // Results have other sizes now.
            kept.clear();
            self.kept_bytes.set(0);
        }
        self.kept_bytes.set(self.kept_bytes.get() + bytes);
        kept.entry((dtype, class)).or_default().push(buffer);
    }
}

/// The next of eight sizes between powers of two: results of similar sizes have the same memory.
fn rounded(elements: usize) -> usize {
    let step = (elements.max(8).next_power_of_two() / 16).max(1);
    elements.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_by_an_eighth_at_most() {
        for n in (0..5000).chain([1 << 20, (1 << 20) + 1, 3_211_264]) {
            let size = rounded(n);
            assert!(size >= n && size - n <= n / 8 + 1, "{n}: {size}");
            assert_eq!(rounded(size), size);
        }
    }

    #[test]
    fn returned_memory_is_reused_and_no_more_is_kept_than_was_lent() {
        let spare = SpareMemory::default();
        let buffers: Vec<Buffer> = (0..3).map(|_| spare.take(DType::Float, 1000)).collect();
        buffers.into_iter().for_each(|buffer| spare.give_back(buffer));
        assert_eq!(spare.kept_bytes.get(), 3 * 4 * rounded(1000));
        let again: Vec<Buffer> = (0..3).map(|_| spare.take(DType::Float, 990)).collect();
        assert_eq!((spare.allocated(), spare.kept_bytes.get()), (3, 0));
        let other = spare.take(DType::Double, 1000);
        again.into_iter().chain([other]).for_each(|buffer| spare.give_back(buffer));
        assert_eq!(spare.allocated(), 4);
        let (most, large) = (spare.most_bytes.get(), spare.take(DType::Float, 100_000));
        spare.give_back(large);
        assert!(spare.kept_bytes.get() <= most + 4 * rounded(100_000));
    }
}
