//! A GPU: its memory, copies, modules and launches, on one stream.
//!
//! What was allocated goes back when its value is dropped; memory goes to a pool and is used again,
//! which is sound as all work is on one stream. Copies go through two pieces of pinned memory in
//! turn, since the driver copies from others only after it has copied them itself.
//!
//! A kernel that faults is noticed by a later call, after which the driver refuses every call of
//! this process. The first such failure is kept and is what all later calls return.

#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use super::cuda_clock::{Clock, DeviceWork};
use super::cuda_libraries::{DeviceFacts, devices, shown};
use super::device_launch::DeviceLaunch;
use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUevent_flags, CUfunction, CUmodule, CUresult, CUstream};
use cudarc::driver::{DriverError, result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::rc::Rc;

/// Bytes of a piece of pinned memory: large enough that the bus is busy, see `cudaMemcpy`'s own.
const PIECE: usize = 4 << 20;
/// Sizes of memory are powers of two up to this one, and its multiples above.
const COARSE: usize = 2 << 20;
/// The smallest size.
const LEAST: usize = 512;

/// Errors after which the driver refuses every call.
const FATAL: [CUresult; 9] = [
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ASSERT,
];

thread_local! {
    /// The context that is selected on this thread, so that a launch is one call of the driver.
    /// None after a device was dropped: another one may get the same address.
    static SELECTED: Cell<CUcontext> = const { Cell::new(std::ptr::null_mut()) };
}

/// Selects a context on this thread.
///
/// # Safety
/// The context is retained, and dropping its device on this thread forgets it.
unsafe fn select(context: CUcontext) -> Result<(), DriverError> {
    // A thread that ends has no variables any more.
    if SELECTED.try_with(Cell::get).unwrap_or(std::ptr::null_mut()) != context {
        // SAFETY: the caller guarantees that it is a context.
        unsafe { result::ctx::set_current(context)? };
        let _ = SELECTED.try_with(|selected| selected.set(context));
    }
    Ok(())
}

/// Copies to and from a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Copies of tensors to the device, and their bytes.
    pub copied_to: u64,
    /// Bytes of them.
    pub bytes_to: u64,
    /// Copies of tensors from the device.
    pub copied_from: u64,
    /// Bytes of them.
    pub bytes_from: u64,
}

/// A GPU that is in use.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) facts: DeviceFacts,
    pub(super) clock: Clock,
    number: i32,
    context: CUcontext,
    stream: Cell<CUstream>,
    /// Memory that is not in use, by its size.
    pool: RefCell<BTreeMap<usize, Vec<CUdeviceptr>>>,
    pieces: RefCell<Vec<Piece>>,
    next: Cell<usize>,
    traffic: Cell<Traffic>,
    failure: RefCell<Option<String>>,
}

/// Pinned memory, and when the copy through it is done.
#[derive(Debug)]
struct Piece {
    memory: *mut c_void,
    done: CUevent,
}

impl Device {
    /// Begins to use a device of a driver that has started.
    ///
    /// # Errors
    /// There is no such device, or what the driver says.
    pub(super) fn open(number: u32) -> Result<Rc<Device>, String> {
        let mut all = devices()?;
        let at = number as usize;
        if at >= all.len() {
            let last = all.len().checked_sub(1);
            return Err(last.map_or("there is no GPU".to_owned(), |last| {
                format!("--device={number}: there is no such GPU, they are 0 to {last}")
            }));
        }
        let facts = all.swap_remove(at);
        let number = number as i32;
        let device = result::device::get(number).map_err(|error| format!("GPU {number}: {}", shown(error)))?;
        // SAFETY: the device is one of the driver's. `drop` gives the context back.
        let context = unsafe { result::primary_ctx::retain(device) };
        let device = Device {
            facts,
            clock: Clock::default(),
            number,
            context: context.map_err(|error| format!("GPU {number} cannot be used: {}", shown(error)))?,
            stream: Cell::new(std::ptr::null_mut()),
            pool: RefCell::default(),
            pieces: RefCell::default(),
            next: Cell::default(),
            traffic: Cell::default(),
            failure: RefCell::default(),
        };
        device.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        device.stream.set(device.checked("a stream is created", stream)?);
        Ok(Rc::new(device))
    }

    /// Why the device cannot be used any more.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// Keeps a failure that no caller has seen yet.
    pub(super) fn fail(&self, why: String) {
        self.failure.borrow_mut().get_or_insert(why);
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Makes the device that of this thread.
    fn enter(&self) -> Result<(), String> {
        if let Some(why) = self.failure() {
            return Err(why);
        }
        // SAFETY: the context is retained until `drop`, which forgets it.
        self.checked("its context is selected", unsafe { select(self.context) })
    }

    /// Makes the device that of this thread, for a library that uses its stream.
    ///
    /// # Errors
    /// The device has failed.
    pub(super) fn ready(&self) -> Result<(), String> {
        self.enter()
    }

    pub(super) fn stream(&self) -> CUstream {
        self.stream.get()
    }

    /// A result of the driver, with what was to be done.
    fn checked<T>(&self, what: &str, result: Result<T, DriverError>) -> Result<T, String> {
        result.map_err(|error| {
            let why = format!("GPU {} fails as {what}: {}", self.number, shown(error));
            if FATAL.contains(&error.0) {
                let why = format!("{why}; a kernel before it may be at fault, and the GPU is not used any more");
                return self.failure.borrow_mut().get_or_insert(why).clone();
            }
            why
        })
    }

    /// Memory with any contents.
    ///
    /// # Errors
    /// There is none, or the device has failed.
    pub(super) fn allocate(self: &Rc<Device>, bytes: usize) -> Result<DeviceMemory, String> {
        let size = if bytes <= COARSE { bytes.next_power_of_two().max(LEAST) } else { bytes.next_multiple_of(COARSE) };
        self.enter()?;
        let kept = self.pool.borrow_mut().get_mut(&size).and_then(Vec::pop);
        let address = match kept {
            Some(address) => address,
            None => self.new_memory(size)?,
        };
        Ok(DeviceMemory { device: self.clone(), address, size, bytes })
    }

    fn new_memory(&self, size: usize) -> Result<CUdeviceptr, String> {
        // SAFETY: the device is that of this thread; `DeviceMemory` gives it back to the pool, and
        // the pool to the driver.
        let ask = || unsafe { result::malloc_sync(size) };
        let mut answer = ask();
        if answer.is_err_and(|error| error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
            self.trim()?;
            answer = ask();
        }
        let what = format!("{} MiB of {} are allocated", size.div_ceil(1 << 20), self.facts.memory >> 20);
        self.checked(&what, answer)
    }

    /// Gives memory that is not in use back to the driver.
    fn trim(&self) -> Result<(), String> {
        self.wait()?;
        for address in std::mem::take(&mut *self.pool.borrow_mut()).into_values().flatten() {
            // SAFETY: the driver gave it, nothing uses it, and it is in the pool no more.
            self.checked("memory is freed", unsafe { result::free_sync(address) })?;
        }
        Ok(())
    }

    /// Waits until all work is done.
    pub(super) fn wait(&self) -> Result<(), String> {
        self.enter()?;
        // SAFETY: the stream lives until `drop`.
        self.checked("its work is awaited", unsafe { result::stream::synchronize(self.stream.get()) })
    }

    /// Does work, with events around it while the clock runs. `launches` is how many kernels.
    pub(super) fn timed<T>(&self, launches: u64, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        if !self.clock.is_on() {
            return work();
        }
        let record = || self.checked("an event is recorded", self.clock.record(self.stream.get()));
        let done = record().and_then(|()| work()).and_then(|done| record().map(|()| done));
        match &done {
            Ok(_) => self.clock.count(launches, 0),
            Err(_) => self.clock.forget(),
        }
        done
    }

    /// Waits, and returns what was done since the clock was started.
    pub(super) fn stop_clock(&self) -> Result<DeviceWork, String> {
        self.wait()?;
        self.checked("its time is read", self.clock.stop())
    }

    /// A piece of pinned memory whose last copy is done.
    fn piece(&self) -> Result<(*mut c_void, CUevent), String> {
        let mut pieces = self.pieces.borrow_mut();
        let at = self.next.get() % 2;
        if at == pieces.len() {
            // SAFETY: the device is that of this thread. `drop` gives it back.
            let memory = self.checked("pinned memory is allocated", unsafe { result::malloc_host(PIECE, 0) })?;
            pieces.push(Piece { memory, done: std::ptr::null_mut() });
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
            match self.checked("an event is created", result::event::create(flags)) {
                Ok(done) => pieces[at].done = done,
                Err(why) => {
                    pieces.pop();
                    // SAFETY: the driver gave it just now.
                    let _ = unsafe { result::free_host(memory) };
                    return Err(why);
                }
            }
        } else {
            // SAFETY: the event lives until `drop`.
            self.checked("a copy is awaited", unsafe { result::event::synchronize(pieces[at].done) })?;
        }
        self.next.set(at + 1);
        Ok((pieces[at].memory, pieces[at].done))
    }

    fn record(&self, done: CUevent) -> Result<(), String> {
        // SAFETY: event and stream live until `drop`.
        self.checked("a copy is recorded", unsafe { result::event::record(done, self.stream.get()) })
    }

    /// The module of a CUBIN.
    ///
    /// # Errors
    /// It is not for this device, or the device has failed.
    pub(super) fn module(self: &Rc<Device>, image: &[u8]) -> Result<Module, String> {
        self.enter()?;
        // SAFETY: the image is a CUBIN that NVRTC made, of this process or from the cache, which
        // accepts only files that this user wrote and whose hash matches. It says its own size.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
        Ok(Module { device: self.clone(), module: self.checked("a kernel is loaded", module)? })
    }

    /// Queues a launch.
    ///
    /// # Safety
    /// The function is a kernel of a module that is loaded until the work is done, and takes a
    /// launch; for each point each access is within device memory that is allocated until then, as
    /// for [`super::loading::Function::run`].
    pub(super) unsafe fn launch(
        &self,
        Function(function): Function,
        (blocks, threads): (i64, usize),
        launch: &DeviceLaunch,
    ) -> Result<(), String> {
        self.enter()?;
        let mut parameters = [std::ptr::from_ref(launch).cast_mut().cast::<c_void>()];
        let (grid, block) = ((blocks as u32, 1, 1), (threads as u32, 1, 1));
        // SAFETY: the kernel has one parameter, which the driver copies; the caller guarantees the
        // rest.
        let mut enter =
            || unsafe { result::launch_kernel(function, grid, block, 0, self.stream.get(), &mut parameters) };
        self.timed(1, || self.checked("a kernel is launched", enter()))
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Whatever fails here, the rest is given back, too.
        // SAFETY: all of it came from the driver, nothing has been given back yet, and no memory,
        // module or launch is left, since each of them holds this device.
        unsafe {
            let _ = select(self.context);
            if !self.stream.get().is_null() {
                let _ = result::stream::synchronize(self.stream.get());
            }
            for address in std::mem::take(&mut *self.pool.borrow_mut()).into_values().flatten() {
                let _ = result::free_sync(address);
            }
            self.clock.close();
            for piece in self.pieces.borrow_mut().drain(..) {
                let _ = result::event::destroy(piece.done);
                let _ = result::free_host(piece.memory);
            }
            if !self.stream.get().is_null() {
                let _ = result::stream::destroy(self.stream.get());
            }
            let _ = result::primary_ctx::release(self.number);
        }
        // At the end of a thread nothing is left to select.
        let _ = SELECTED.try_with(|selected| selected.set(std::ptr::null_mut()));
    }
}

/// Memory of a device.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    device: Rc<Device>,
    address: CUdeviceptr,
    /// The size that the driver gave, and the one that was requested.
    size: usize,
    bytes: usize,
}

impl DeviceMemory {
    pub(super) fn address(&self) -> usize {
        self.address as usize
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn is_on(&self, device: &Rc<Device>) -> bool {
        Rc::ptr_eq(&self.device, device)
    }

    /// Copies from main memory.
    ///
    /// # Safety
    /// As many initialised bytes as this memory has begin at the address.
    pub(super) unsafe fn upload(&self, from: *const u8) -> Result<(), String> {
        let device = &self.device;
        device.enter()?;
        for begin in (0..self.bytes).step_by(PIECE) {
            let (n, (memory, done)) = ((self.bytes - begin).min(PIECE), device.piece()?);
            // SAFETY: both have that many bytes, the copy before from the piece is done, and no
            // other code has its address. The slice ends before the next use of the piece.
            let slice = unsafe {
                std::ptr::copy_nonoverlapping(from.add(begin), memory.cast(), n);
                std::slice::from_raw_parts(memory.cast::<u8>(), n)
            };
            let to = self.address + begin as CUdeviceptr;
            // SAFETY: the piece is written again when the event is done only, and this memory goes
            // to the pool at the earliest, whose next user comes later on the stream.
            let copied = unsafe { result::memcpy_htod_async(to, slice, device.stream.get()) };
            device.checked("memory is copied to it", copied)?;
            device.record(done)?;
        }
        device.count(|traffic| {
            traffic.copied_to += 1;
            traffic.bytes_to += self.bytes as u64;
        });
        Ok(())
    }

    /// Copies to main memory, when all work before is done.
    ///
    /// # Safety
    /// As many bytes as this memory has begin at the address, no other code has access to them, and
    /// what is copied is a value of their type.
    pub(super) unsafe fn download(&self, to: *mut u8) -> Result<(), String> {
        let device = &self.device;
        device.enter()?;
        for begin in (0..self.bytes).step_by(PIECE) {
            let (n, (memory, done)) = ((self.bytes - begin).min(PIECE), device.piece()?);
            // SAFETY: the piece has that many bytes, and are not used otherwise until the wait.
            let slice = unsafe { std::slice::from_raw_parts_mut(memory.cast::<u8>(), n) };
            let from = self.address + begin as CUdeviceptr;
            // SAFETY: as above.
            let copied = unsafe { result::memcpy_dtoh_async(slice, from, device.stream.get()) };
            device.checked("memory is copied from it", copied)?;
            device.record(done)?;
            // SAFETY: the event lives as long as the device.
            device.checked("a copy is awaited", unsafe { result::event::synchronize(done) })?;
            // SAFETY: the copy is done; both have that many bytes.
            unsafe { std::ptr::copy_nonoverlapping(memory.cast(), to.add(begin), n) };
        }
        device.count(|traffic| {
            traffic.copied_from += 1;
            traffic.bytes_from += self.bytes as u64;
        });
        Ok(())
    }

    /// Copies from other memory of the device.
    ///
    /// # Safety
    /// As many bytes as this memory has begin at the address, and are allocated until the work is
    /// done.
    pub(super) unsafe fn copy(&self, from: usize) -> Result<(), String> {
        let device = &self.device;
        device.enter()?;
        // SAFETY: the caller guarantees the source; this memory has that many bytes.
        let copy =
            || unsafe { result::memcpy_dtod_async(self.address, from as CUdeviceptr, self.bytes, device.stream.get()) };
        device.timed(0, || device.checked("memory is copied", copy()))
    }

    /// Copies from other memory of the device that is as large.
    pub(super) fn copy_from(&self, other: &DeviceMemory) -> Result<(), String> {
        if other.bytes < self.bytes {
            return Err(format!("{} bytes are not copied from {}", self.bytes, other.bytes));
        }
        // SAFETY: as many bytes begin there. What is dropped goes to the pool at the earliest,
        // whose next user comes later on the stream.
        unsafe { self.copy(other.address()) }
    }

    /// Sets all bytes to zero.
    pub(super) fn clear(&self) -> Result<(), String> {
        self.device.enter()?;
        // The driver refuses to set no bytes.
        if self.bytes == 0 {
            return Ok(());
        }
        // SAFETY: it has that many bytes.
        let clear = || unsafe { result::memset_d8_async(self.address, 0, self.bytes, self.device.stream.get()) };
        self.device.timed(0, || self.device.checked("memory is cleared", clear()))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.device.pool.borrow_mut().entry(self.size).or_default().push(self.address);
    }
}

/// The kernels of a unit.
#[derive(Debug)]
pub(super) struct Module {
    device: Rc<Device>,
    module: CUmodule,
}

/// A kernel of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(CUfunction);

impl Module {
    pub(super) fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// A kernel by its name.
    pub(super) fn function(&self, name: &str) -> Result<Function, String> {
        self.device.enter()?;
        let name = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, name) };
        self.device.checked("a kernel is looked up", function).map(Function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it is loaded. The driver waits for its kernels.
        unsafe {
            let _ = select(self.device.context);
            let _ = result::module::unload(self.module);
        }
    }
}
