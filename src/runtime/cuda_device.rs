//! A GPU: its memory, copies, modules and launches, on one stream.
//!
//! What was allocated goes back when its value is dropped; memory goes to a pool and is used again,
//! which is sound as all work is on one stream. Work may be held back, see `cuda_graphs.rs`: it is
//! queued before anything else is done. Copies go through two pieces of pinned memory in
//! turn, since the driver copies from others only after it has copied them itself.
//!
//! A kernel that faults is noticed by a later call, after which the driver refuses every call of
//! this process. The first such failure is kept and is what all later calls return.

#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use super::cuda_clock::{Clock, DeviceWork};
use super::cuda_graphs::{self, GraphPolicy, Graphs, Step};
use super::cuda_libraries::{DeviceFacts, devices, shown};
use super::cuda_work::{Failure, Function, Work};
use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUevent_flags, CUgraphExec, CUmodule, CUresult, CUstream};
use cudarc::driver::{DriverError, result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Sequences of launches that were captured as a graph.
    pub graphs: u64,
    /// Launches of graphs, and of kernels and products by them.
    pub graph_launches: u64,
    /// See `graph_launches`.
    pub launched_by_graphs: u64,
}

/// A GPU that is in use.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) facts: DeviceFacts,
    pub(super) clock: Clock,
    number: i32,
    context: CUcontext,
    stream: Cell<CUstream>,
    /// Memory that is not in use, by its size. The lowest address is used first, so that a program
    /// that allocates the same again gets the same memory.
    pool: RefCell<BTreeMap<usize, BTreeSet<CUdeviceptr>>>,
    graphs: RefCell<Graphs>,
    /// Why a sequence of work is not launched as a graph; the first reason.
    graph_trouble: RefCell<Option<String>>,
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
    pub(super) fn open(number: u32, policy: GraphPolicy) -> Result<Rc<Device>, String> {
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
            graphs: RefCell::new(Graphs::new(policy)),
            graph_trouble: RefCell::default(),
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

    /// Why a sequence of work is not launched as a graph.
    pub(super) fn graph_trouble(&self) -> Option<String> {
        self.graph_trouble.borrow().clone()
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

    /// The same of work.
    fn queued(&self, result: Result<(), Failure>) -> Result<(), String> {
        result.or_else(|why| match why {
            Failure::Driver(what, error) => self.checked(what, Err(error)),
            Failure::Library(why) => Err(why),
        })
    }

    /// Queues work, now or together with what follows.
    ///
    /// # Errors
    /// It cannot be queued, or what was held back cannot.
    ///
    /// # Safety
    /// As for [`Work::enter`]. Who drops a module or a handle calls [`Device::forget`] before.
    pub(super) unsafe fn queue(&self, work: Work) -> Result<(), String> {
        self.enter()?;
        let step = self.graphs.borrow_mut().take(work);
        let queued = match step {
            Step::Hold => return Ok(()),
            Step::Queue(from) => self.queue_from(from),
            Step::Launch => return self.launch_graph(),
        };
        match &queued {
            Ok(()) if self.graphs.borrow().is_full() => self.end(false),
            Ok(()) => {}
            // What was held back besides this piece has results already.
            Err(why) => self.abandon(why, step == Step::Queue(0) && self.graphs.borrow().current().len() > 1),
        }
        queued
    }

    /// Queues pieces of the sequence at hand.
    fn queue_from(&self, from: usize) -> Result<(), String> {
        let graphs = self.graphs.borrow();
        graphs.current()[from..].iter().try_for_each(|work| {
            // SAFETY: whoever called `queue` guarantees it until the work is done.
            self.timed(work.launches(), || self.queued(unsafe { work.enter(self.stream.get()) }))
        })
    }

    /// Forgets the sequence at hand, part of which could not be queued. If its results are
    /// expected, the device has failed.
    fn abandon(&self, why: &str, is_expected: bool) {
        self.graphs.borrow_mut().abandon();
        if is_expected {
            self.fail(why.to_owned());
        }
    }

    /// Ends the sequence at hand, all of which is queued.
    fn end(&self, has_failed: bool) {
        let dropped = self.graphs.borrow_mut().end(has_failed);
        self.give_back(dropped);
    }

    /// Destroys graphs, when their work is done.
    fn give_back(&self, graphs: Vec<CUgraphExec>) {
        if !graphs.is_empty() {
            // SAFETY: the stream lives until `drop`, and so do these graphs, which no sequence has.
            unsafe {
                let _ = result::stream::synchronize(self.stream.get());
                graphs.into_iter().for_each(|graph| cuda_graphs::destroy(graph));
            }
        }
    }

    /// Launches the sequence at hand, which is held back, as a graph; piece by piece if that fails.
    fn launch_graph(&self) -> Result<(), String> {
        let launches = self.graphs.borrow().current().iter().map(Work::launches).sum();
        let launched = self.graph().and_then(|graph| {
            // SAFETY: the graph is of the sequence at hand, see `queue`.
            self.timed(launches, || self.queued(unsafe { cuda_graphs::launch(self.stream.get(), graph) }))
        });
        let has_failed = launched.is_err();
        match launched {
            Ok(()) => self.count(|traffic| {
                traffic.graph_launches += 1;
                traffic.launched_by_graphs += launches;
            }),
            Err(why) => {
                self.graph_trouble.borrow_mut().get_or_insert(why);
                if let Err(why) = self.queue_from(0) {
                    self.abandon(&why, true);
                    return Err(why);
                }
            }
        }
        self.end(has_failed);
        Ok(())
    }

    /// The graph of the sequence at hand.
    fn graph(&self) -> Result<CUgraphExec, String> {
        if let Some(graph) = self.graphs.borrow().graph() {
            return Ok(graph);
        }
        // SAFETY: see `queue`.
        let captured = unsafe { cuda_graphs::captured(self.stream.get(), self.graphs.borrow().current()) };
        let graph = captured.or_else(|why| match why {
            Failure::Driver(what, error) => self.checked(what, Err(error)),
            Failure::Library(why) => Err(why),
        })?;
        self.graphs.borrow_mut().keep(graph);
        self.count(|traffic| traffic.graphs += 1);
        Ok(graph)
    }

    /// Queues what is held back, before the processor waits, copies or allocates.
    pub(super) fn settle(&self) -> Result<(), String> {
        let (holds, is_graph) = {
            let graphs = self.graphs.borrow();
            (graphs.holds(), graphs.is_graph_at_end() && graphs.may_capture())
        };
        if holds {
            self.enter()?;
            if is_graph {
                return self.launch_graph();
            }
            if let Err(why) = self.queue_from(0) {
                self.abandon(&why, true);
                return Err(why);
            }
        }
        self.end(false);
        Ok(())
    }

    /// Forgets all sequences, before something that they need is given back.
    pub(super) fn forget(&self) {
        // A failure is kept.
        let _ = self.settle();
        let graphs = self.graphs.borrow_mut().forget();
        // SAFETY: the context is retained until `drop`.
        let _ = unsafe { select(self.context) };
        self.give_back(graphs);
    }

    /// Memory with any contents.
    ///
    /// # Errors
    /// There is none, or the device has failed.
    pub(super) fn allocate(self: &Rc<Device>, bytes: usize) -> Result<DeviceMemory, String> {
        let size = if bytes <= COARSE { bytes.next_power_of_two().max(LEAST) } else { bytes.next_multiple_of(COARSE) };
        self.enter()?;
        let kept = self.pool.borrow_mut().get_mut(&size).and_then(BTreeSet::pop_first);
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
        self.settle()?;
        // SAFETY: the stream lives until `drop`.
        self.checked("its work is awaited", unsafe { result::stream::synchronize(self.stream.get()) })
    }

    /// Does work, with events around it while the clock runs. `launches` is how many kernels.
    fn timed<T>(&self, launches: u64, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
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
            let graphs = self.graphs.borrow_mut().forget();
            self.give_back(graphs);
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
        device.settle()?;
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
        device.settle()?;
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
        // SAFETY: the caller guarantees the source; this memory has that many bytes.
        unsafe { self.device.queue(Work::Copy(self.address, from as CUdeviceptr, self.bytes)) }
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
        // The driver refuses to set no bytes.
        if self.bytes == 0 {
            return self.device.enter();
        }
        // SAFETY: it has that many bytes.
        unsafe { self.device.queue(Work::Clear(self.address, self.bytes)) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        self.device.pool.borrow_mut().entry(self.size).or_default().insert(self.address);
    }
}

/// The kernels of a unit.
#[derive(Debug)]
pub(super) struct Module {
    device: Rc<Device>,
    module: CUmodule,
}

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
        self.device.forget();
        // SAFETY: it is loaded. The driver waits for its kernels.
        unsafe {
            let _ = select(self.device.context);
            let _ = result::module::unload(self.module);
        }
    }
}
