//! Memory shared by tensors, and the devices that programs name.

use super::buffer::Buffer;
use super::dtype::DType;
use super::elsewhere::{DeviceCopy, Elsewhere, KeptForAll};
use super::spare_memory::SpareMemory;
use crate::symbol::Symbol;
use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// The number of bytes of this thread's live tensors.
pub fn bytes() -> usize {
    BYTES.get()
}

/// The result of `work`, and the peak of the bytes of this thread's tensors meanwhile, relative to
/// the start.
pub fn with_peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = bytes();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get().saturating_sub(before))
}

/// Memory, shared by all tensors that are views of it.
#[derive(Clone, Debug)]
pub struct Storage(Rc<Memory>);

#[derive(Debug)]
struct Memory {
    buffer: RefCell<Elements>,
    /// The range of the memory that programs see.
    known: Range<usize>,
    bytes: usize,
    /// The same memory as elements of other types.
    readings: OnceCell<Rc<Readings>>,
    /// A copy on a device.
    device_copy: RefCell<Option<DeviceCopy>>,
    /// The origin of its buffer.
    lender: OnceCell<Weak<SpareMemory>>,
}

/// The elements of a memory: its own, or shared with other threads, which only read them.
#[derive(Debug)]
enum Elements {
    Own(Buffer),
    Shared(Arc<Buffer>),
}

impl Elements {
    fn get(&self) -> &Buffer {
        match self {
            Elements::Own(buffer) => buffer,
            Elements::Shared(buffer) => buffer,
        }
    }

    /// For writing: what other threads still read is copied first.
    fn get_mut(&mut self) -> &mut Buffer {
        match self {
            Elements::Own(buffer) => buffer,
            Elements::Shared(buffer) => Arc::make_mut(buffer),
        }
    }
}

/// One memory that is read as several element types: a buffer for each, of which the one written
/// last is up to date.
#[derive(Debug)]
struct Readings {
    all: RefCell<Vec<Weak<Memory>>>,
    /// The index of the reading written last.
    latest: Cell<usize>,
    /// Its bytes when it was dropped.
    left: RefCell<Vec<u8>>,
}

/// Elements that threads share for reading.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    buffer: Arc<Buffer>,
    known: Range<usize>,
    /// The contents that are kept with the memory and serve other threads.
    pub(crate) kept: Option<Arc<dyn KeptForAll>>,
}

impl Given {
    /// Whether both are the same elements.
    pub(crate) fn is(&self, other: &Given) -> bool {
        Arc::ptr_eq(&self.buffer, &other.buffer)
    }
}

/// The index of a memory among several readings.
fn place_among(readings: &Readings, memory: *const Memory) -> Option<usize> {
    readings.all.borrow().iter().position(|other| other.as_ptr() == memory)
}

impl Drop for Memory {
    fn drop(&mut self) {
        // At the end of a thread the counter may be dropped before the last tensor.
        let _ = BYTES.try_with(|all| all.set(all.get().saturating_sub(self.bytes)));
        if let Some(readings) = self.readings.get()
            && place_among(readings, self) == Some(readings.latest.get())
        {
            *readings.left.borrow_mut() = self.buffer.borrow().get().bytes(self.known.clone());
        }
        if let Some(lender) = self.lender.get().and_then(Weak::upgrade) {
            let elements = std::mem::replace(self.buffer.get_mut(), Elements::Own(Buffer::zeros(DType::Byte, 0)));
            match elements {
                Elements::Own(buffer) => lender.give_back(buffer),
                Elements::Shared(buffer) => match Arc::try_unwrap(buffer) {
                    Ok(buffer) => lender.give_back(buffer),
                    Err(shared) => lender.give_up(&shared),
                },
            }
        }
    }
}

impl Storage {
    /// Main memory with these elements.
    pub(crate) fn new(buffer: Buffer) -> Storage {
        let known = 0..buffer.len();
        Storage::placed(buffer, known)
    }

    /// Main memory of which programs see only a range: the padding around it aligns that range.
    pub(crate) fn placed(buffer: Buffer, known: Range<usize>) -> Storage {
        Storage::with(Elements::Own(buffer), known)
    }

    fn with(elements: Elements, known: Range<usize>) -> Storage {
        let bytes = known.len() * elements.get().element_size();
        BYTES.set(BYTES.get().saturating_add(bytes));
        PEAK.set(PEAK.get().max(BYTES.get()));
        Storage(Rc::new(Memory {
            buffer: RefCell::new(elements),
            known,
            bytes,
            readings: OnceCell::new(),
            device_copy: RefCell::default(),
            lender: OnceCell::new(),
        }))
    }

    /// Gives the buffer back when the memory is dropped.
    pub(crate) fn lent_by(&self, lender: &Rc<SpareMemory>) {
        let _ = self.0.lender.set(Rc::downgrade(lender));
    }

    /// The elements for other threads, which do not see what this thread writes from now on. None
    /// for memory that is read as several types.
    pub(crate) fn given(&self) -> Option<Given> {
        self.fetch();
        if self.0.readings.get().is_some() {
            return None;
        }
        let mut elements = self.0.buffer.try_borrow_mut().ok()?;
        if let Elements::Own(buffer) = &mut *elements {
            let buffer = std::mem::replace(buffer, Buffer::zeros(DType::Byte, 0));
            *elements = Elements::Shared(Arc::new(buffer));
        }
        let Elements::Shared(buffer) = &*elements else { return None };
        let kept = self.0.device_copy.borrow().as_ref().and_then(|copy| copy.memory.for_others());
        Some(Given { buffer: buffer.clone(), known: self.known(), kept })
    }

    /// Memory with elements that another thread has, too.
    pub(crate) fn of_given(given: &Given) -> Storage {
        Storage::with(Elements::Shared(given.buffer.clone()), given.known.clone())
    }

    /// The elements that programs see: their indices start at the first of these.
    pub(crate) fn known(&self) -> Range<usize> {
        self.0.known.clone()
    }

    /// The elements, readable. The borrow never overlaps a write: every operator reads its operands
    /// before it writes to any.
    pub fn read(&self) -> Ref<'_, Buffer> {
        self.fetch();
        self.refresh();
        Ref::map(self.0.buffer.borrow(), Elements::get)
    }

    /// The elements, writable.
    pub(crate) fn write(&self) -> RefMut<'_, Buffer> {
        self.fetch();
        *self.0.device_copy.borrow_mut() = None;
        self.refresh();
        if let Some(readings) = self.0.readings.get() {
            readings.latest.set(place_among(readings, Rc::as_ptr(&self.0)).unwrap_or(usize::MAX));
        }
        RefMut::map(self.0.buffer.borrow_mut(), Elements::get_mut)
    }

    /// The same memory as elements of another type: a write to one is visible through the other.
    /// Programs see all of its elements.
    pub(crate) fn read_as(&self, dtype: DType) -> Storage {
        let bytes = self.read().bytes(self.known());
        *self.0.device_copy.borrow_mut() = None;
        let mut buffer = Buffer::zeros(dtype, bytes.len() / dtype.size());
        buffer.set_bytes(0, &bytes);
        let other = Storage::new(buffer);
        let readings = self.0.readings.get_or_init(|| {
            let all = RefCell::new(vec![Rc::downgrade(&self.0)]);
            Rc::new(Readings { all, latest: Cell::new(0), left: RefCell::default() })
        });
        readings.all.borrow_mut().push(Rc::downgrade(&other.0));
        let _ = other.0.readings.set(readings.clone());
        other
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.0.buffer.borrow().get().dtype()
    }

    /// Its copy on a device.
    pub(crate) fn elsewhere(&self) -> Option<Rc<dyn Elsewhere>> {
        self.0.device_copy.borrow().as_ref().map(|device_copy| device_copy.memory.clone())
    }

    /// Keeps a copy on a device, which is newer or equal. Memory that is read as several types has
    /// none.
    pub(crate) fn keep_elsewhere(&self, memory: Rc<dyn Elsewhere>, is_newer: bool) {
        if self.0.readings.get().is_none() {
            *self.0.device_copy.borrow_mut() = Some(DeviceCopy { memory, is_newer });
        }
    }

    /// Copies what is newer on a device to main memory.
    fn fetch(&self) {
        let mut device_copy = self.0.device_copy.borrow_mut();
        if let Some(device_copy) = device_copy.as_mut().filter(|device_copy| device_copy.is_newer)
            && let Ok(mut buffer) = self.0.buffer.try_borrow_mut()
        {
            device_copy.memory.fetch(buffer.get_mut(), self.0.known.start);
            device_copy.is_newer = false;
        }
    }

    /// Applies writes to the same memory through another element type.
    fn refresh(&self) {
        let Some(readings) = self.0.readings.get() else { return };
        let latest = readings.latest.get();
        let own = place_among(readings, Rc::as_ptr(&self.0));
        if own == Some(latest) {
            return;
        }
        let memory = readings.all.borrow().get(latest).and_then(Weak::upgrade);
        let bytes = match memory {
            Some(memory) => memory.buffer.borrow().get().bytes(memory.known.clone()),
            None => readings.left.borrow().clone(),
        };
        // A buffer with readers is already up to date.
        if let Ok(mut buffer) = self.0.buffer.try_borrow_mut() {
            buffer.get_mut().set_bytes(self.0.known.start, &bytes);
        }
    }

    /// Whether both are the same memory.
    pub(crate) fn is(&self, other: &Storage) -> bool {
        let readings = (self.0.readings.get(), other.0.readings.get());
        Rc::ptr_eq(&self.0, &other.0) || matches!(readings, (Some(a), Some(b)) if Rc::ptr_eq(a, b))
    }

    /// A number that differs between memories that are alive at the same time.
    pub fn address(&self) -> usize {
        self.0.readings.get().map_or_else(|| Rc::as_ptr(&self.0).addr(), |readings| Rc::as_ptr(readings).addr())
    }
}

/// A device, `cpu` or `cuda:0`: a property of a tensor without further effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device(Symbol);

impl Device {
    /// The device with this name. `cuda` without a number is the current one, 0.
    pub fn new(name: &str) -> Device {
        Device(Symbol::new(name))
    }

    /// The processor.
    pub(crate) fn cpu() -> Device {
        Device::new("cpu")
    }

    /// `cpu`, `cuda:0`
    pub fn name(self) -> &'static str {
        self.0.as_str()
    }

    /// `cpu`, `cuda`
    pub(crate) fn kind(self) -> &'static str {
        self.name().split(':').next().unwrap_or_default()
    }

    /// The number after the colon.
    pub(crate) fn index(self) -> Option<i64> {
        self.name().split_once(':').and_then(|(_, n)| n.parse().ok())
    }

    /// The device of a tensor that is created on this device: the current one of its kind.
    pub(crate) fn placed(self) -> Device {
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

#[cfg(test)]
mod tests {
    use crate::tensor::layout::{MAX_ELEMENTS, checked};
    use crate::tensor::{DType, Precision, Tensor};

    #[test]
    fn tensors_together_have_a_limit() {
        let small = || checked(&[MAX_ELEMENTS]);
        let before = super::bytes();
        // Zeros that are never touched take no memory.
        let many: Vec<Tensor> = (0..4).map(|_| Tensor::zeros(DType::Long, &[MAX_ELEMENTS], Precision::Typed)).collect();
        assert_eq!(super::bytes() - before, 4 << 30);
        assert!(small().is_err_and(|error| error.0.contains("all tensors together")));
        drop(many);
        assert_eq!((super::bytes(), small()), (before, Ok(MAX_ELEMENTS as usize)));
        assert!(checked(&[MAX_ELEMENTS, 2]).is_err());
    }
}
