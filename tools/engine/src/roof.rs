//! The roofline: the rate of a copy, measured as runs are.

use jitopt_core::interpreter::IValue;
use jitopt_core::runtime::backend::Request;
use jitopt_core::runtime::{CpuBackend, DeviceCopy, Prepared};
use jitopt_core::tensor::Tensor;
use jitopt_core::text::{ParseOptions, parse};
use std::time::Instant;

/// The copy kernel: one element read, one written.
const COPY: &str = "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)\n";
/// Maximum number of bytes copied per round; beyond the caches the rate is constant.
const MOST_COPIED: u64 = 256 << 20;
/// The size of a copy as a multiple of the GPU's last-level cache: large enough to measure memory.
const BEYOND_CACHE: u64 = 3;

/// A copy of as many bytes as a run moves, read and written together.
pub(crate) struct Roof<'a> {
    copying: Copying,
    on_device: Option<(&'a CpuBackend, DeviceCopy)>,
}

enum Copying {
    /// By a kernel, as groups are run.
    Kernel(Box<Prepared>),
    /// By the system's memory copy, where there is no compiler.
    System(Vec<u8>, Vec<u8>),
}

/// Bytes per second of a copy.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    /// By the clock of runs.
    pub(crate) run: f64,
    /// By the clock of the GPU.
    pub(crate) device: Option<f64>,
}

impl<'a> Roof<'a> {
    /// With the clock of a GPU if it is `timed`.
    ///
    /// # Errors
    /// The GPU has no memory for it.
    pub(crate) fn new(bytes: u64, backend: Option<&'a CpuBackend>, timed: bool) -> Result<Roof<'a>, String> {
        let last_cache = backend.and_then(CpuBackend::device_name).map_or(0, |(_, bytes)| bytes as u64);
        let half = (bytes.min(MOST_COPIED.max(BEYOND_CACHE * last_cache)) / 8).max(1) as usize;
        let copy = parse(COPY.as_bytes(), ParseOptions::default()).map_err(|_| "the copy is no graph")?.graph;
        let operands = [IValue::Tensor(Tensor::from_elements(vec![1f32; half], &[half as i64]))];
        let request = Request { section: &copy, name: "a copy", operands: &operands, release: (2, 15) };
        let copying = match backend.and_then(|backend| backend.prepared(request).ok()) {
            Some(prepared) => Copying::Kernel(Box::new(prepared)),
            None => Copying::System(vec![1; half * 4], vec![0; half * 4]),
        };
        let on_device = match backend.filter(|_| timed) {
            Some(backend) => Some((backend, backend.device_copy(half * 4)?)),
            None => None,
        };
        Ok(Roof { copying, on_device })
    }

    /// Copies.
    ///
    /// # Errors
    /// The GPU has failed.
    pub(crate) fn rates(&mut self) -> Result<Rates, String> {
        let begin = Instant::now();
        let bytes = self.copying.copy()?;
        let run = bytes as f64 / begin.elapsed().as_secs_f64();
        Ok(Rates { run, device: self.on_device()? })
    }

    /// The better rate of the kernel and of the driver's own copy: neither is always faster.
    fn on_device(&mut self) -> Result<Option<f64>, String> {
        let Some((backend, copy)) = &self.on_device else { return Ok(None) };
        let rate = |work: jitopt_core::runtime::DeviceWork| work.bytes as f64 / work.seconds;
        backend.start_clock()?;
        copy.run()?;
        let driver = rate(backend.stop_clock()?);
        backend.start_clock()?;
        let Copying::Kernel(prepared) = &mut self.copying else { return Ok(Some(driver)) };
        prepared.launch()?;
        Ok(Some(driver.max(rate(backend.stop_clock()?))))
    }
}

impl Copying {
    fn copy(&mut self) -> Result<usize, String> {
        match self {
            Copying::Kernel(prepared) => {
                prepared.launch()?;
                prepared.wait()?;
                Ok(prepared.bytes())
            }
            Copying::System(from, to) => {
                to.copy_from_slice(from);
                Ok(2 * std::hint::black_box(&*to).len())
            }
        }
    }
}
