//! The counters of a backend.

/// Counters of the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels that were launched.
    pub launched: u64,
    /// Products that a library computed.
    pub products: u64,
    /// Convolutions that a library computed.
    pub convolutions: u64,
    /// Attentions that were computed without keeping all scores.
    pub attentions: u64,
    /// Products and convolutions that were computed with what follows them.
    pub epilogues: u64,
    /// Groups and library calls that the interpreter ran.
    pub fallen_back: u64,
    /// Groups that ran as several kernels, because one kernel cannot compute them.
    pub divided: u64,
    /// Kernels that were compiled.
    pub compiled: u64,
    /// Kernels that were found on disk.
    pub cached: u64,
    /// Runs of the compiler, which compiles the kernels of a graph together.
    pub units: u64,
    /// Launch plans that were made: one for operands of the same types, sizes and strides, unless
    /// it was evicted in between.
    pub planned: u64,
    /// Bodies of forks that were handed to other threads.
    pub forked: u64,
    /// Memories of results of kernels and library calls that were allocated, and not those of
    /// earlier results.
    pub allocated: u64,
}

impl Counts {
    /// Both together.
    pub(super) fn and(&self, other: &Counts) -> Counts {
        combined(self, other, u64::saturating_add)
    }

    /// The counts since then.
    pub fn since(&self, before: &Counts) -> Counts {
        combined(self, before, u64::saturating_sub)
    }
}

/// A change of each counter.
fn combined(a: &Counts, b: &Counts, of: fn(u64, u64) -> u64) -> Counts {
    Counts {
        launched: of(a.launched, b.launched),
        products: of(a.products, b.products),
        convolutions: of(a.convolutions, b.convolutions),
        attentions: of(a.attentions, b.attentions),
        epilogues: of(a.epilogues, b.epilogues),
        fallen_back: of(a.fallen_back, b.fallen_back),
        divided: of(a.divided, b.divided),
        compiled: of(a.compiled, b.compiled),
        cached: of(a.cached, b.cached),
        units: of(a.units, b.units),
        planned: of(a.planned, b.planned),
        forked: of(a.forked, b.forked),
        allocated: of(a.allocated, b.allocated),
    }
}
