//! Constant weights of products and convolutions, packed once: the packed copy is kept with the
//! memory of the tensor until that is written.

use crate::tensor::buffer::Buffer;
use crate::tensor::elsewhere::{Elsewhere, KeptForAll};
use crate::tensor::storage::Storage;
use std::any::Any;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The packed weights of a memory, each with what was packed: a memory may hold several weights, or
/// one is read in two ways. Threads that read the same elements share them.
#[derive(Clone, Debug, Default)]
struct PackedWeights(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries(Mutex<Vec<Entry>>);

/// The weights that were packed, and the result.
type Entry = (Box<dyn Any + Send>, Arc<dyn Any + Send + Sync>);

impl Elsewhere for PackedWeights {
    /// Nothing is newer than main memory.
    fn fetch(&self, _: &mut Buffer, _: usize) {}

    fn for_others(&self) -> Option<Arc<dyn KeptForAll>> {
        Some(self.0.clone())
    }

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

impl KeptForAll for Entries {
    fn here(self: Arc<Self>) -> Rc<dyn Elsewhere> {
        Rc::new(PackedWeights(self))
    }
}

fn kept_with(storage: &Storage) -> Rc<PackedWeights> {
    let kept = storage.elsewhere().and_then(|kept| kept.as_any().downcast::<PackedWeights>().ok());
    kept.unwrap_or_else(|| {
        let empty = Rc::new(PackedWeights::default());
        storage.keep_elsewhere(empty.clone(), false);
        empty
    })
}

/// Prepares a memory without a copy elsewhere for packed weights that threads share.
pub(super) fn prepare(storage: &Storage) {
    if storage.elsewhere().is_none() {
        kept_with(storage);
    }
}

/// A weight of a memory, packed now or before.
pub(super) fn kept<P: Send + Sync + 'static, K: PartialEq + Send + 'static>(
    storage: &Storage,
    key: K,
    pack: impl FnOnce() -> P,
) -> Arc<P> {
    let kept = kept_with(storage);
    let known = |(of, packed): &Entry| {
        let is_same = of.downcast_ref::<K>() == Some(&key);
        is_same.then(|| packed.clone().downcast::<P>().ok()).flatten()
    };
    let entries = &kept.0.0;
    // The lock is held while a weight is packed: another thread waits for it instead of packing it.
    let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = entries.iter().find_map(known) {
        return found;
    }
    let made = Arc::new(pack());
    entries.push((Box::new(key), made.clone()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use crate::tensor::gemm::{Matrix, Packed};

    #[test]
    fn written_weights_are_packed_again() {
        let weight = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]);
        let at = Matrix::in_rows(2, 2);
        let of = |elements: [f32; 4]| kept(weight.storage(), at, || Packed::of(&elements, at));
        let first = of([1.0, 2.0, 3.0, 4.0]);
        assert!(Arc::ptr_eq(&first, &of([0.0; 4])));
        weight.copy_from(&Tensor::zeros(weight.dtype(), &[2, 2], crate::tensor::Precision::Typed)).expect("it fits");
        assert!(!Arc::ptr_eq(&first, &of([0.0; 4])));
    }
}
