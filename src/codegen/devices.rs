//! The constants of a machine that predictions use, one row for each machine.
//!
//! Rows of GPUs are from NVIDIA's data sheets and architecture papers: multiprocessors, boost
//! clock, memory bandwidth, second-level cache, threads and blocks of a multiprocessor. A kernel
//! reaches 90 % of the bandwidth that a data sheet gives: what copies reach on such machines. The
//! row `cpu` is the Xeon that `tools/bench/results.md` describes, with one thread.

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Its name on the command line.
    pub name: &'static str,
    /// The name of the target whose kernels it runs.
    pub target: &'static str,
    /// Multiprocessors, or cores.
    pub units: f64,
    /// Billions of cycles per second.
    pub clock: f64,
    /// Operations on floats that a unit begins in a cycle, in all lanes together.
    pub lanes: f64,
    /// The same for doubles.
    pub lanes_of_doubles: f64,
    /// Operations outside of vectors.
    pub scalars: f64,
    /// Bytes per nanosecond of a copy, both ways together.
    pub band: f64,
    /// The same where a cache holds all operands.
    pub cached_band: f64,
    /// Bytes of that cache.
    pub cache: f64,
    /// Bytes of the cache of a unit, in which rows wait for their next phase.
    pub near_cache: f64,
    /// Nanoseconds of a launch.
    pub launch: f64,
    /// Nanoseconds of a barrier of a block of threads, with what waits for it.
    pub barrier: f64,
    /// Nanoseconds of the head of a loop that is not in vectors.
    pub head: f64,
    /// Threads that a unit holds; 1 for cores.
    pub threads: f64,
    /// Blocks of threads that a unit holds.
    pub blocks: f64,
    /// The architecture that NVRTC compiles for; none for processors.
    pub architecture: Option<&'static str>,
}

/// A GPU: what differs between them, and estimates that do not. A launch after another takes 2.5
/// us, a barrier with the loads from shared memory after it 40 cycles; a second-level cache has
/// 1.8 times the bandwidth of memory.
const fn gpu(
    (name, architecture): (&'static str, &'static str),
    (units, clock): (f64, f64),
    (lanes, lanes_of_doubles): (f64, f64),
    sheet: f64,
    cache: f64,
    (threads, blocks): (f64, f64),
) -> Device {
    Device {
        name,
        target: "cuda",
        units,
        clock,
        lanes,
        lanes_of_doubles,
        scalars: lanes,
        band: sheet * 0.9,
        cached_band: sheet * 0.9 * 1.8,
        cache: cache * MIB,
        near_cache: 128.0 * 1024.0,
        launch: 2500.0,
        barrier: 40.0 / clock,
        head: 4.0 / clock,
        threads,
        blocks,
        architecture: Some(architecture),
    }
}

const MIB: f64 = 1024.0 * 1024.0;

/// The machines.
pub const DEVICES: [Device; 5] = [
    // 28.7 bytes per nanosecond: 2x+1 of 4M floats takes 1.17 ms. 110: add+relu of 64x1024, 7 us.
    Device {
        name: "cpu",
        target: "cpu",
        units: 1.0,
        clock: 3.0,
        lanes: 32.0,
        lanes_of_doubles: 16.0,
        scalars: 3.0,
        band: 28.7,
        cached_band: 110.0,
        cache: 16.0 * MIB,
        near_cache: 1.5 * MIB,
        launch: 300.0,
        barrier: 0.0,
        head: 2.0,
        threads: 1.0,
        blocks: 1.0,
        architecture: None,
    },
    // Turing: 64 lanes of floats, 2 of doubles; 1024 threads and 16 blocks a multiprocessor.
    gpu(("t4", "sm_75"), (40.0, 1.59), (64.0, 2.0), 320.0, 4.0, (1024.0, 16.0)),
    // 80 GB, SXM.
    gpu(("a100", "sm_80"), (108.0, 1.41), (64.0, 32.0), 2039.0, 40.0, (2048.0, 32.0)),
    // SXM.
    gpu(("h100", "sm_90"), (132.0, 1.755), (128.0, 64.0), 3350.0, 50.0, (2048.0, 32.0)),
    // An addition of 256 MiB operands moves 4217 bytes per nanosecond there, 0.88 of this.
    gpu(("h200", "sm_90"), (132.0, 1.755), (128.0, 64.0), 4800.0, 50.0, (2048.0, 32.0)),
];

impl Device {
    /// The machine with a name.
    pub fn named(name: &str) -> Option<&'static Device> {
        DEVICES.iter().find(|device| device.name == name)
    }

    /// Whether it runs blocks of threads.
    pub fn has_blocks(&self) -> bool {
        self.threads > 1.0
    }
}
