//! Memory that tensors look into, and the devices that programs talk about.

use super::buffer::Buffer;
use crate::symbol::Symbol;
use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

/// Where memory is. Kernels that run elsewhere add their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Main memory.
    Host,
}

/// Memory, shared by all tensors that look into it.
#[derive(Clone, Debug)]
pub struct Storage(Rc<(Place, RefCell<Buffer>)>);

impl Storage {
    /// Main memory that holds these elements.
    pub fn new(buffer: Buffer) -> Storage {
        Storage(Rc::new((Place::Host, RefCell::new(buffer))))
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.0.0
    }

    /// Its elements, to be read. Nobody holds on to this while somebody writes: every operator reads its operands before
    /// it writes to any.
    pub fn read(&self) -> Ref<'_, Buffer> {
        self.0.1.borrow()
    }

    /// Its elements, to be written.
    pub fn write(&self) -> RefMut<'_, Buffer> {
        self.0.1.borrow_mut()
    }

    /// Whether two are the same memory.
    pub fn is(&self, other: &Storage) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// A number that differs between memories alive at the same time.
    pub fn address(&self) -> usize {
        Rc::as_ptr(&self.0).addr()
    }

    /// How many tensors look into it.
    pub fn sharers(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}

/// A device, `cpu` or `cuda:0`: a note on a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(Symbol);

impl Device {
    /// A device of this name. `cuda` without a number is the current one, 0.
    pub fn new(name: &str) -> Device {
        Device(Symbol::new(name))
    }

    /// The processor.
    pub fn cpu() -> Device {
        Device::new("cpu")
    }

    /// `cpu`, `cuda:0`
    pub fn name(self) -> &'static str {
        self.0.as_str()
    }

    /// `cpu`, `cuda`
    pub fn kind(self) -> &'static str {
        self.name().split(':').next().unwrap_or_default()
    }

    /// The number behind the colon.
    pub fn index(self) -> Option<i64> {
        self.name().split_once(':').and_then(|(_, n)| n.parse().ok())
    }

    /// Where a tensor ends up that is made on this device: the current one of its kind.
    pub fn placed(self) -> Device {
        match (self.kind(), self.index()) {
            ("cpu", _) => Device::cpu(),
            (kind, None) => Device::new(&format!("{kind}:0")),
            _ => self,
        }
    }
}

impl Default for Device {
    fn default() -> Self {
        Device::cpu()
    }
}
