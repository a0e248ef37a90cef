//! Constant weights of products and convolutions, packed once: the packed copy is kept with the
//! memory of the tensor until that is written.

use crate::tensor::buffer::Buffer;
use crate::tensor::elsewhere::Elsewhere;
use crate::tensor::storage::Storage;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;

/// The packed weights of a memory, each with what was packed: a memory may hold several weights, or
/// one is read in two ways.
#[derive(Debug, Default)]
struct PackedWeights(RefCell<Vec<Entry>>);

/// What was packed, and the result.
type Entry = (Box<dyn Any>, Rc<dyn Any>);

impl Elsewhere for PackedWeights {
    /// Nothing is newer than main memory.
    fn fetch(&self, _: &mut Buffer, _: usize) {}

    fn as_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }
}

/// A weight of a memory, packed now or before.
pub(super) fn kept<P: 'static, K: PartialEq + 'static>(storage: &Storage, key: K, pack: impl FnOnce() -> P) -> Rc<P> {
    let kept = storage.elsewhere().and_then(|kept| kept.as_any().downcast::<PackedWeights>().ok());
    let kept = kept.unwrap_or_else(|| {
        let empty = Rc::new(PackedWeights::default());
        storage.keep_elsewhere(empty.clone(), false);
        empty
    });
    let known = |(of, packed): &Entry| {
        let is_same = of.downcast_ref::<K>() == Some(&key);
        is_same.then(|| packed.clone().downcast::<P>().ok()).flatten()
    };
    if let Some(found) = kept.0.borrow().iter().find_map(known) {
        return found;
    }
    let made = Rc::new(pack());
    kept.0.borrow_mut().push((Box::new(key), made.clone()));
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use crate::tensor::gemm::{Matrix, Packed};

    #[test]
    fn what_is_written_is_packed_again() {
        let weight = Tensor::from_elements(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]);
        let at = Matrix::in_rows(2, 2);
        let of = |elements: [f32; 4]| kept(weight.storage(), at, || Packed::of(&elements, at));
        let first = of([1.0, 2.0, 3.0, 4.0]);
        assert!(Rc::ptr_eq(&first, &of([0.0; 4])));
        weight.copy_from(&Tensor::zeros(weight.dtype(), &[2, 2], crate::tensor::Precision::Typed)).expect("it fits");
        assert!(!Rc::ptr_eq(&first, &of([0.0; 4])));
    }
}
