//! The time that a GPU needs, without that of the program: events before and after each piece of
//! work on a stream, while the clock runs.

#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use cudarc::driver::{DriverError, result};
use std::cell::{Cell, RefCell};

/// Work that a GPU has done while its clock ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceWork {
    /// Kernels and products. Clearing and copying memory takes time and is no launch.
    pub launches: u64,
    /// Bytes that they had to load and store, each once.
    pub bytes: u64,
    /// The sum of the times of all work; not the gaps in between.
    pub seconds: f64,
}

/// The clock of a stream.
#[derive(Debug, Default)]
pub(super) struct Clock {
    is_on: Cell<bool>,
    /// In pairs, a piece of work between them; those from `used` on are free.
    events: RefCell<Vec<CUevent>>,
    used: Cell<usize>,
    counted: Cell<DeviceWork>,
}

impl Clock {
    pub(super) fn start(&self) {
        self.is_on.set(true);
        self.used.set(0);
        self.counted.take();
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    pub(super) fn count(&self, launches: u64, bytes: usize) {
        let DeviceWork { launches: before, bytes: moved, .. } = self.counted.get();
        let (launches, bytes) = (before + launches, moved + bytes as u64);
        self.counted.set(DeviceWork { launches, bytes, seconds: 0.0 });
    }

    /// Records the next event on a stream. The context of the stream is that of this thread.
    pub(super) fn record(&self, stream: CUstream) -> Result<(), DriverError> {
        let (mut events, at) = (self.events.borrow_mut(), self.used.get());
        if at == events.len() {
            events.push(result::event::create(CUevent_flags::CU_EVENT_DEFAULT)?);
        }
        // SAFETY: the event lives until `close`, which is later than the last use of the stream.
        unsafe { result::event::record(events[at], stream)? };
        self.used.set(at + 1);
        Ok(())
    }

    /// Forgets the event before work that failed.
    pub(super) fn forget(&self) {
        self.used.set(self.used.get() / 2 * 2);
    }

    /// Stops, and returns what was done. All work is done.
    pub(super) fn stop(&self) -> Result<DeviceWork, DriverError> {
        self.is_on.set(false);
        let mut work = self.counted.take();
        for pair in self.events.borrow()[..self.used.get()].chunks_exact(2) {
            // SAFETY: both were created for times, were recorded on one stream, and are alive.
            work.seconds += f64::from(unsafe { result::event::elapsed(pair[0], pair[1])? }) / 1e3;
        }
        Ok(work)
    }

    /// Gives the events back.
    ///
    /// # Safety
    /// The context of the events is that of this thread.
    pub(super) unsafe fn close(&self) {
        for event in self.events.borrow_mut().drain(..) {
            // SAFETY: the driver gave it, and it is in the list no more.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}
