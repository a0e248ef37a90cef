//! Sequences of work that repeat, which a GPU gets as one graph: a launch takes the processor some
//! microseconds, and one of a graph about as long, however many kernels it has.
//!
//! A sequence is what is queued between two points at which the processor waits or copies, at most
//! [`LONGEST`] pieces of it. One that was queued twice is expected again: when its first piece
//! comes, this and what follows is held back as long as it is the same, down to the addresses,
//! which repeat as memory that is free is used again in the order of its addresses.
//!
//! ```text
//! k0 k1 wait   k0 k1 wait      queued piece by piece, as they come
//! k0 k1 wait                   held back, captured in a graph, which is launched
//! k0 k1 wait   …               held back; the graph is launched
//! k0 k2 wait                   k0 is held back until k2 comes, which is not expected
//! ```
//!
//! What is held back is queued before the processor waits or copies, so that the order of all work
//! is that of the calls.

#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use super::cuda_work::{Failure, Work};
use cudarc::driver::result::{graph, stream as streams};
use cudarc::driver::sys::{CUgraphExec, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode};

/// Most pieces of a sequence. Divisible by many small numbers: a loop whose iterations have as many
/// pieces comes to the same sequence again.
pub(super) const LONGEST: usize = 120;
/// Pieces of all sequences that are kept.
const MOST_KEPT: usize = 2048;
/// How often a sequence is queued piece by piece before it is expected again.
const USUAL_TIMES: u32 = 2;
/// A capture may fail once, as libraries and drivers allocate memory for a first call.
const MOST_FAILURES: u32 = 2;

/// Which sequences become graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphPolicy {
    /// Those that repeat.
    #[default]
    Auto,
    /// All, when they end.
    Always,
    /// None.
    Never,
}

impl GraphPolicy {
    /// The names of the command line.
    pub const NAMES: [&'static str; 3] = ["auto", "always", "never"];

    /// The policy with a name.
    pub fn named(name: &str) -> Option<GraphPolicy> {
        let all = [GraphPolicy::Auto, GraphPolicy::Always, GraphPolicy::Never];
        GraphPolicy::NAMES.iter().position(|known| *known == name).map(|at| all[at])
    }
}

/// What happens to a piece of work that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is held back.
    Hold,
    /// The pieces of the sequence at hand are queued, from one on.
    Queue(usize),
    /// The sequence is complete, and is launched as a graph.
    Launch,
}

/// A sequence.
#[derive(Debug)]
struct Sequence {
    work: Vec<Work>,
    /// How often it was queued.
    times: u32,
    failures: u32,
    graph: Option<CUgraphExec>,
}

/// The sequences of a stream.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    policy: GraphPolicy,
    /// The least recently used first.
    known: Vec<Sequence>,
    /// The sequence at hand, and whether it is held back.
    current: Vec<Work>,
    holds: bool,
}

impl Graphs {
    pub(super) fn new(policy: GraphPolicy) -> Graphs {
        Graphs { policy, ..Graphs::default() }
    }

    /// Takes a piece of work; the caller does what is returned, and then says what became of it.
    pub(super) fn take(&mut self, work: Work) -> Step {
        let at = self.current.len();
        self.current.push(work);
        let is_full = at + 1 == LONGEST;
        match self.policy {
            GraphPolicy::Never => return Step::Queue(at),
            GraphPolicy::Always => {
                self.holds = true;
                return if is_full { Step::Launch } else { Step::Hold };
            }
            GraphPolicy::Auto if at == 0 => self.holds = self.expected().is_some(),
            GraphPolicy::Auto => {}
        }
        match self.expected() {
            _ if !self.holds => Step::Queue(at),
            Some(known) if self.known[known].work.len() == at + 1 => Step::Launch,
            Some(_) => Step::Hold,
            None => {
                self.holds = false;
                Step::Queue(0)
            }
        }
    }

    /// A sequence that is expected, and begins with the one at hand; the latest.
    fn expected(&self) -> Option<usize> {
        let is_expected = |known: &Sequence| {
            known.times >= USUAL_TIMES && known.failures < MOST_FAILURES && known.work.starts_with(&self.current)
        };
        self.known.iter().rposition(is_expected)
    }

    /// The pieces of the sequence at hand.
    pub(super) fn current(&self) -> &[Work] {
        &self.current
    }

    /// Whether they are held back.
    pub(super) fn holds(&self) -> bool {
        self.holds
    }

    /// Whether the sequence at hand is one that becomes a graph wherever it ends.
    pub(super) fn is_graph_at_end(&self) -> bool {
        self.policy == GraphPolicy::Always && self.current.len() > 1
    }

    /// Whether the sequence at hand ends because it is as long as one may be.
    pub(super) fn is_full(&self) -> bool {
        self.current.len() >= LONGEST || self.policy == GraphPolicy::Never
    }

    /// Forgets the sequence at hand, part of which could not be queued.
    pub(super) fn abandon(&mut self) {
        self.current.clear();
        self.holds = false;
    }

    /// Ends the sequence at hand, which was queued piece by piece; `has_failed` as a graph. Returns
    /// graphs that are not kept any more.
    pub(super) fn end(&mut self, has_failed: bool) -> Vec<CUgraphExec> {
        let work = std::mem::take(&mut self.current);
        self.holds = false;
        if work.len() < 2 || self.policy == GraphPolicy::Never {
            return Vec::new();
        }
        let known = self.known.iter().position(|known| known.work == work);
        let new = Sequence { work, times: 0, failures: 0, graph: None };
        let mut sequence = known.map_or(new, |at| self.known.remove(at));
        sequence.times += 1;
        sequence.failures += u32::from(has_failed);
        self.known.push(sequence);
        self.trimmed()
    }

    /// The least recently used graphs, of which there are too many.
    fn trimmed(&mut self) -> Vec<CUgraphExec> {
        let mut pieces: usize = self.known.iter().map(|known| known.work.len()).sum();
        let mut dropped = Vec::new();
        while pieces > MOST_KEPT {
            let known = self.known.remove(0);
            pieces -= known.work.len();
            dropped.extend(known.graph);
        }
        dropped
    }

    /// The graph of the sequence at hand, if there is one.
    pub(super) fn graph(&self) -> Option<CUgraphExec> {
        self.known.iter().find(|known| known.work == self.current)?.graph
    }

    /// Whether a graph of the sequence at hand is worth a try.
    pub(super) fn may_capture(&self) -> bool {
        let known = self.known.iter().find(|known| known.work == self.current);
        known.is_none_or(|known| known.failures < MOST_FAILURES)
    }

    /// Keeps the graph of the sequence at hand.
    pub(super) fn keep(&mut self, graph: CUgraphExec) {
        match self.known.iter_mut().find(|known| known.work == self.current) {
            Some(known) => known.graph = Some(graph),
            None => {
                let (work, graph) = (self.current.clone(), Some(graph));
                self.known.push(Sequence { work, times: 0, failures: 0, graph });
            }
        }
    }

    /// Forgets all sequences. Returns their graphs.
    pub(super) fn forget(&mut self) -> Vec<CUgraphExec> {
        self.abandon();
        self.known.drain(..).filter_map(|known| known.graph).collect()
    }
}

/// Captures work as a graph.
///
/// # Safety
/// As for [`Work::enter`], until the graph is destroyed.
pub(super) unsafe fn captured(stream: CUstream, all: &[Work]) -> Result<CUgraphExec, Failure> {
    let failed = |what| move |error| Failure::Driver(what, error);
    // Other threads may call the driver meanwhile.
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    // SAFETY: the stream is the caller's, and is not being captured.
    unsafe { streams::begin_capture(stream, mode) }.map_err(failed("a capture begins"))?;
    // SAFETY: the caller guarantees it for each piece.
    let entered = all.iter().try_for_each(|work| unsafe { work.enter(stream) });
    // SAFETY: the stream is being captured, which has to end whatever failed.
    let made = unsafe { streams::end_capture(stream) };
    if let (Err(_), Ok(graph)) = (&entered, made) {
        // SAFETY: the driver made it just now.
        let _ = unsafe { graph::destroy(graph) };
    }
    let graph = entered.and(made.map_err(failed("a capture ends")))?;
    let flags = CUgraphInstantiate_flags(0);
    // SAFETY: the driver made the graph just now; what it instantiates lives on its own.
    let exec = unsafe {
        let exec = graph::instantiate(graph, flags);
        let _ = graph::destroy(graph);
        exec
    };
    exec.map_err(failed("a graph is instantiated"))
}

/// Queues a graph.
///
/// # Safety
/// The driver instantiated it, and what [`captured`] requires still holds.
pub(super) unsafe fn launch(stream: CUstream, exec: CUgraphExec) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { graph::launch(exec, stream) }.map_err(|error| Failure::Driver("a graph is launched", error))
}

/// Gives a graph back.
///
/// # Safety
/// The driver instantiated it, nothing launches it any more, and its work is done.
pub(super) unsafe fn destroy(exec: CUgraphExec) {
    // SAFETY: the caller guarantees it. Nothing is left to do where it fails.
    let _ = unsafe { graph::exec_destroy(exec) };
}
