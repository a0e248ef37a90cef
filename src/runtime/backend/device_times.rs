//! Times of launches, and of copies within a GPU's memory, by the clock of the GPU.

use super::CpuBackend;
use crate::runtime::cuda_clock::DeviceWork;
use crate::runtime::cuda_device::DeviceMemory;
use crate::runtime::cuda_libraries;
use crate::runtime::engine::Engine;

/// A copy within the memory of a GPU, by its driver.
#[derive(Debug)]
pub struct DeviceCopy {
    from: DeviceMemory,
    to: DeviceMemory,
    bytes: usize,
}

impl DeviceCopy {
    /// Queues it.
    ///
    /// # Errors
    /// The device has failed.
    pub fn run(&self) -> Result<(), String> {
        self.to.copy_from(&self.from)?;
        self.to.device().clock.count(0, 2 * self.bytes);
        Ok(())
    }
}

impl CpuBackend {
    /// Whether kernels run on a GPU.
    pub fn runs_on_device(&self) -> bool {
        self.settings.engine == Engine::Device
    }

    /// Begins to time what a GPU does for this backend, without what is queued already.
    ///
    /// # Errors
    /// There is no GPU, or its driver measures no times.
    pub fn start_clock(&self) -> Result<(), String> {
        let (device, _) = self.device()?;
        if !cuda_libraries::measures_times() {
            return Err("times of a GPU need a driver for CUDA 12.8 or newer".to_owned());
        }
        device.settle()?;
        device.clock.start();
        Ok(())
    }

    /// Waits, and returns what a GPU did since the clock was started.
    ///
    /// # Errors
    /// The device has failed.
    pub fn stop_clock(&self) -> Result<DeviceWork, String> {
        self.device()?.0.stop_clock()
    }

    /// The GPU's name, and the bytes of its last cache.
    pub fn device_name(&self) -> Option<(&str, usize)> {
        let (device, _) = self.device.get()?.as_ref().ok()?;
        Some((&device.facts.name, device.facts.last_cache))
    }

    /// A copy of a number of bytes within a GPU's memory.
    ///
    /// # Errors
    /// The device has no memory left or has failed.
    pub fn device_copy(&self, bytes: usize) -> Result<DeviceCopy, String> {
        let (device, _) = self.device()?;
        let bytes = bytes.max(1);
        let (from, to) = (device.allocate(bytes)?, device.allocate(bytes)?);
        from.clear()?;
        Ok(DeviceCopy { from, to, bytes })
    }
}
