//! Packed copies of constant weights of products and convolutions, which are kept with the memory
//! of the tensor until that is written.
//!
//! Only a weight that is used again is worth a copy: the first use packs it into memory that the
//! next weight gets, so that a program that runs once has no second copy of its weights.

use crate::tensor::buffer::Buffer;
use crate::tensor::elsewhere::{Elsewhere, KeptForAll};
use crate::tensor::gemm::{PanelMemory, Panels};
use crate::tensor::storage::Storage;
use std::any::Any;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The packed weights of a memory, each with what was packed: a memory may hold several weights, or
/// one is read in two ways. Threads that read the same elements share them.
#[derive(Clone, Debug, Default)]
struct PackedWeights(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries(Mutex<Vec<Entry>>);

/// A weight that was used, and what was packed if that is kept.
type Entry = (Box<dyn Any + Send>, Option<Arc<dyn Any + Send + Sync>>);

/// A packed weight.
#[derive(Debug)]
pub(super) enum Weight<P: Panels> {
    Kept(Arc<P>),
    /// Packed for one use.
    Once(P),
}

impl<P: Panels> Deref for Weight<P> {
    type Target = P;

    fn deref(&self) -> &P {
        match self {
            Weight::Kept(packed) => packed,
            Weight::Once(packed) => packed,
        }
    }
}

impl<P: Panels> Drop for Weight<P> {
    fn drop(&mut self) {
        if let Weight::Once(packed) = self {
            packed.give_back();
        }
    }
}

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

/// A weight of a memory, packed now or before; kept from its second use on. `with` is what else it
/// is made of: one is kept for each `key`, the last.
pub(super) fn kept<P, K, W>(storage: &Storage, (key, with): (K, W), pack: impl FnOnce(PanelMemory) -> P) -> Weight<P>
where
    P: Panels + Send + Sync + 'static,
    K: PartialEq + Send + 'static,
    W: PartialEq + Send + 'static,
{
    let kept = kept_with(storage);
    let entries = &kept.0.0;
    // The lock is held while a weight is packed: another thread waits for it instead of packing it.
    let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
    let own = |of: &Box<dyn Any + Send>| of.downcast_ref::<(K, W)>().filter(|of| of.0 == key).map(|of| of.1 == with);
    let known = entries.iter_mut().find_map(|entry| Some((own(&entry.0)?, entry)));
    let packed = match known {
        Some((true, (_, packed))) => packed,
        other => {
            let new: Entry = (Box::new((key, with)), None);
            match other {
                Some((_, entry)) => *entry = new,
                None => entries.push(new),
            }
            drop(entries);
            return Weight::Once(pack(PanelMemory::Lent));
        }
    };
    let found = packed.clone().and_then(|packed| packed.downcast::<P>().ok());
    Weight::Kept(found.unwrap_or_else(|| {
        let made = Arc::new(pack(PanelMemory::Own));
        *packed = Some(made.clone());
        made
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use crate::tensor::gemm::{Matrix, Packed};

    #[test]
    fn weights_are_kept_from_their_second_use_on_until_they_are_written() {
        let weight = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]);
        let at = Matrix::in_rows(2, 2);
        let mut packings = 0;
        let mut used = || {
            let pack = |memory| {
                packings += 1;
                Packed::of(&[1.0, 2.0, 3.0, 4.0], at, memory)
            };
            let is_kept = matches!(kept(weight.storage(), (at, ()), pack), Weight::Kept(_));
            (packings, is_kept)
        };
        assert_eq!([used(), used(), used()], [(1, false), (2, true), (2, true)]);
        weight.copy_from(&Tensor::zeros(weight.dtype(), &[2, 2], crate::tensor::Precision::Typed)).expect("it fits");
        assert_eq!([used(), used(), used()], [(3, false), (4, true), (4, true)]);
    }

    #[test]
    fn one_weight_is_kept_whatever_else_it_is_made_of() {
        let weight = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]);
        let at = Matrix::in_rows(2, 2);
        let used = |factor: u32| {
            let pack = |memory| Packed::of(&[1.0f32, 2.0, 3.0, 4.0], at, memory);
            matches!(kept(weight.storage(), (at, factor), pack), Weight::Kept(_))
        };
        assert_eq!([1, 1, 2, 2, 1, 3, 3].map(used), [false, true, false, true, false, false, true]);
        assert_eq!(kept_with(weight.storage()).0.0.lock().expect("no thread panics").len(), 1);
    }
}
