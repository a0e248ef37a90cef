//! Copies of memory elsewhere, on a device: a tensor that a kernel of a device made is copied to
//! main memory when the interpreter reads it, and not at all if only kernels do.

use super::buffer::Buffer;
use std::any::Any;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

/// Memory of a device with the elements that programs see of a [`super::storage::Storage`].
pub(crate) trait Elsewhere: Debug {
    /// Copies it to main memory, from an element on. A failure leaves the elements as they are; the
    /// device keeps it.
    fn fetch(&self, into: &mut Buffer, from: usize);

    /// Contents that serve other threads that read the same elements.
    fn for_others(&self) -> Option<Arc<dyn KeptForAll>> {
        None
    }

    /// For the device that made it.
    fn as_any(self: Rc<Self>) -> Rc<dyn Any>;
}

/// Contents that are kept with a memory, for all threads that read its elements.
pub(crate) trait KeptForAll: Debug + Send + Sync {
    /// For a memory of this thread.
    fn here(self: Arc<Self>) -> Rc<dyn Elsewhere>;
}

/// The copy of a memory elsewhere.
#[derive(Clone, Debug)]
pub(super) struct DeviceCopy {
    pub(super) memory: Rc<dyn Elsewhere>,
    /// Whether main memory has not been written yet.
    pub(super) is_newer: bool,
}
