//! Memory of results that nothing reads any more, for later results.
//!
//! A program that runs again makes results of the same sizes in the same order. Their memory then
//! comes from here: it is neither allocated nor filled with zeros, and still in the caches. A
//! backend opens it around a run; a result that is kept keeps its memory. The first run for
//! arguments of a specification is recorded, and later ones follow the plan that is made of it.

use super::buffer::Buffer;
use super::dtype::DType;
use super::memory_plan::{MemoryPlan, NEVER, Request};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Elements from which on memory is worth keeping.
const WORTH_KEEPING: usize = 64;
/// Requests of a run from which on it is not planned: its loops are too long.
const MOST_REQUESTS: usize = 1 << 16;

/// New memory for elements: spare memory, where it is open.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) buffer: Buffer,
    /// The elements in the buffer.
    pub(crate) known: Range<usize>,
    lender: Option<Rc<SpareMemory>>,
}

impl Fresh {
    /// Zeros that no spare memory takes back.
    pub(crate) fn new(dtype: DType, elements: usize) -> Fresh {
        Fresh { buffer: Buffer::zeros(dtype, elements), known: 0..elements, lender: None }
    }

    /// Elements that are all written before they are read: until then they are any.
    pub(crate) fn any(dtype: DType, elements: usize) -> Fresh {
        match SpareMemory::current().filter(|_| elements >= WORTH_KEEPING) {
            Some(lender) => Fresh { buffer: lender.take(dtype, elements), known: 0..elements, lender: Some(lender) },
            None => Fresh::new(dtype, elements),
        }
    }

    /// Zeros.
    pub(crate) fn zeros(dtype: DType, elements: usize) -> Fresh {
        let mut fresh = Fresh::any(dtype, elements);
        if fresh.lender.is_some() {
            fresh.buffer.clear(fresh.known.clone());
        }
        fresh
    }

    /// As [`Fresh::any`], from a cache line on; see [`Buffer::placed_in`].
    pub(crate) fn placed(dtype: DType, elements: usize) -> Fresh {
        let lender = SpareMemory::current().filter(|_| elements >= WORTH_KEEPING);
        let make = |n| lender.as_ref().map_or_else(|| Buffer::zeros(dtype, n), |lender| lender.take(dtype, n));
        let (buffer, known) = Buffer::placed_in(dtype, elements, make);
        Fresh { buffer, known, lender }
    }

    /// The memory that takes the buffer back.
    pub(crate) fn lender(&self) -> Option<&Rc<SpareMemory>> {
        self.lender.as_ref()
    }
}

/// A run that is recorded, or follows a plan.
#[derive(Debug)]
enum Run {
    Recorded(Recording),
    Planned {
        plan: Rc<MemoryPlan>,
        next: usize,
    },
    /// It made other requests than its plan has, or too many for one.
    Unplanned,
}

/// The requests of a run.
#[derive(Debug, Default)]
struct Recording {
    requests: Vec<Request>,
    /// Requests whose memory is in use, by its address.
    lent: FxHashMap<usize, usize>,
    clock: u32,
}

impl Recording {
    fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was recorded: a plan for the next one.
    Recorded(MemoryPlan),
    /// As it was planned.
    Planned,
    /// It made other requests than its plan has, or too many for one.
    Unplanned,
}

/// Memory for results.
#[derive(Debug, Default)]
pub(crate) struct SpareMemory {
    kept: RefCell<FxHashMap<(DType, usize), Vec<Buffer>>>,
    /// Bytes that are kept, that results have, and the most that results have had at once, or that
    /// a plan has.
    kept_bytes: Cell<usize>,
    lent_bytes: Cell<usize>,
    most_bytes: Cell<usize>,
    /// The number of allocations.
    allocated: Cell<u64>,
    /// The run that is going on.
    run: RefCell<Option<Run>>,
}

thread_local! {
    static OPEN: RefCell<Option<Rc<SpareMemory>>> = const { RefCell::new(None) };
}

/// Closes the memory that was opened, and opens that before it.
#[derive(Debug)]
pub(crate) struct Opened(Option<Rc<SpareMemory>>);

impl Drop for Opened {
    fn drop(&mut self) {
        OPEN.replace(self.0.take());
    }
}

impl SpareMemory {
    /// The memory that is open in this thread.
    pub(crate) fn current() -> Option<Rc<SpareMemory>> {
        OPEN.with_borrow(Clone::clone)
    }

    /// Opens it for this thread until the guard is dropped.
    pub(crate) fn open(self: &Rc<Self>) -> Opened {
        Opened(OPEN.replace(Some(self.clone())))
    }

    /// The number of allocations where no spare memory was left.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// Begins a run, which follows a plan or is recorded for one. Whether it is the outermost one:
    /// runs within it are parts of it.
    pub(crate) fn begin(&self, plan: Option<Rc<MemoryPlan>>) -> bool {
        let mut run = self.run.borrow_mut();
        let is_outermost = run.is_none();
        if is_outermost {
            *run = Some(match plan {
                Some(plan) => {
                    self.most_bytes.set(self.most_bytes.get().max(plan.bytes()));
                    Run::Planned { plan, next: 0 }
                }
                None => Run::Recorded(Recording::default()),
            });
        }
        is_outermost
    }

    /// Ends the outermost run. Of a recorded one the memory is kept that its plan has.
    pub(crate) fn end(&self) -> Ended {
        match self.run.take() {
            Some(Run::Recorded(recording)) => {
                let plan = MemoryPlan::of(&recording.requests);
                self.keep_only(plan.buffers());
                Ended::Recorded(plan)
            }
            Some(Run::Planned { .. }) => Ended::Planned,
            Some(Run::Unplanned) | None => Ended::Unplanned,
        }
    }

    /// Drops memory of other sizes, or more than there are.
    fn keep_only(&self, buffers: &[(DType, usize)]) {
        let mut wanted: FxHashMap<(DType, usize), usize> = FxHashMap::default();
        buffers.iter().for_each(|&class| *wanted.entry(class).or_default() += 1);
        let mut kept = self.kept.borrow_mut();
        kept.retain(|class, spare| {
            spare.truncate(wanted.get(class).copied().unwrap_or_default());
            !spare.is_empty()
        });
        let bytes = kept.iter().map(|(&(dtype, class), spare)| dtype.size() * class * spare.len());
        self.kept_bytes.set(bytes.sum());
    }

    /// A buffer of at least so many elements. Those of memory that was used before are any.
    fn take(&self, dtype: DType, elements: usize) -> Buffer {
        let class = self.class(dtype, elements);
        let bytes = class * dtype.size();
        self.lent_bytes.set(self.lent_bytes.get() + bytes);
        self.most_bytes.set(self.most_bytes.get().max(self.lent_bytes.get()));
        let known = self.kept.borrow_mut().get_mut(&(dtype, class)).and_then(Vec::pop);
        let buffer = match known {
            Some(mut buffer) => {
                self.kept_bytes.set(self.kept_bytes.get().saturating_sub(bytes));
                if cfg!(debug_assertions) {
                    buffer.poison();
                }
                buffer
            }
            None => {
                self.allocated.set(self.allocated.get() + 1);
                Buffer::zeros(dtype, class)
            }
        };
        self.note_taken(dtype, class, &buffer);
        buffer
    }

    /// The size of the buffer for a request: the planned one, if there is a plan.
    fn class(&self, dtype: DType, elements: usize) -> usize {
        let mut run = self.run.borrow_mut();
        let Some(Run::Planned { plan, next }) = run.as_mut() else { return rounded(elements) };
        match plan.buffer_of(*next) {
            Some((planned, size)) if planned == dtype && size >= elements => {
                *next += 1;
                size
            }
            _ => {
                *run = Some(Run::Unplanned);
                rounded(elements)
            }
        }
    }

    fn note_taken(&self, dtype: DType, elements: usize, buffer: &Buffer) {
        let mut run = self.run.borrow_mut();
        let Some(Run::Recorded(recording)) = run.as_mut() else { return };
        if recording.requests.len() == MOST_REQUESTS {
            *run = Some(Run::Unplanned);
            return;
        }
        let taken = recording.tick();
        recording.lent.insert(buffer.address(), recording.requests.len());
        recording.requests.push(Request { dtype, elements, taken, returned: NEVER });
    }

    fn note_returned(&self, buffer: &Buffer) {
        if let Some(Run::Recorded(recording)) = self.run.borrow_mut().as_mut()
            && let Some(request) = recording.lent.remove(&buffer.address())
        {
            let now = recording.tick();
            recording.requests[request].returned = now;
        }
    }

    /// Another thread has what a result had.
    pub(super) fn give_up(&self, buffer: &Buffer) {
        let bytes = buffer.len() * buffer.element_size();
        self.lent_bytes.set(self.lent_bytes.get().saturating_sub(bytes));
    }

    /// Takes back what a result had. No more is kept than results have had at once.
    pub(super) fn give_back(&self, buffer: Buffer) {
        self.note_returned(&buffer);
        self.give_up(&buffer);
        let (dtype, class) = (buffer.dtype(), buffer.len());
        let bytes = class * dtype.size();
        let mut kept = self.kept.borrow_mut();
        if self.kept_bytes.get() + bytes > self.most_bytes.get() {
            // Results have other sizes now.
            kept.clear();
            self.kept_bytes.set(0);
        }
        self.kept_bytes.set(self.kept_bytes.get() + bytes);
        kept.entry((dtype, class)).or_default().push(buffer);
    }
}

/// The next of eight sizes between powers of two: results of similar sizes have the same memory.
fn rounded(elements: usize) -> usize {
    let step = (elements.max(8).next_power_of_two() / 16).max(1);
    elements.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_by_an_eighth_at_most() {
        for n in (0..5000).chain([1 << 20, (1 << 20) + 1, 3_211_264]) {
            let size = rounded(n);
            assert!(size >= n && size - n <= n / 8 + 1, "{n}: {size}");
            assert_eq!(rounded(size), size);
        }
    }

    #[test]
    fn returned_memory_is_reused_and_no_more_is_kept_than_was_lent() {
        let spare = SpareMemory::default();
        let buffers: Vec<Buffer> = (0..3).map(|_| spare.take(DType::Float, 1000)).collect();
        buffers.into_iter().for_each(|buffer| spare.give_back(buffer));
        assert_eq!(spare.kept_bytes.get(), 3 * 4 * rounded(1000));
        let again: Vec<Buffer> = (0..3).map(|_| spare.take(DType::Float, 990)).collect();
        assert_eq!((spare.allocated(), spare.kept_bytes.get()), (3, 0));
        let other = spare.take(DType::Double, 1000);
        again.into_iter().chain([other]).for_each(|buffer| spare.give_back(buffer));
        assert_eq!(spare.allocated(), 4);
        let (most, large) = (spare.most_bytes.get(), spare.take(DType::Float, 100_000));
        spare.give_back(large);
        assert!(spare.kept_bytes.get() <= most + 4 * rounded(100_000));
    }

    /// Requests of these sizes, of which each is given back when the next but one is made.
    fn run(spare: &SpareMemory, plan: Option<Rc<MemoryPlan>>, sizes: &[usize]) -> (Ended, u64) {
        let before = spare.allocated();
        assert!(spare.begin(plan));
        let mut alive = std::collections::VecDeque::new();
        for &size in sizes {
            assert!(!spare.begin(None), "a run within a run is a part of it");
            alive.push_back(spare.take(DType::Float, size));
            if alive.len() > 2 {
                spare.give_back(alive.pop_front().expect("it is not empty"));
            }
        }
        alive.into_iter().for_each(|buffer| spare.give_back(buffer));
        (spare.end(), spare.allocated() - before)
    }

    #[test]
    fn runs_after_a_recorded_one_follow_its_plan_without_allocation() {
        let (spare, sizes) = (SpareMemory::default(), [1000, 300, 2000, 900, 64, 100, 1900, 70]);
        let (Ended::Recorded(plan), _) = run(&spare, None, &sizes) else { panic!("the first run is recorded") };
        let plan = Rc::new(plan);
        assert!(plan.requests() == 8 && (3..6).contains(&plan.buffers().len()), "{plan:?}");
        run(&spare, Some(plan.clone()), &sizes);
        for _ in 0..3 {
            let (ended, allocated) = run(&spare, Some(plan.clone()), &sizes);
            assert!(matches!(ended, Ended::Planned) && allocated == 0, "{ended:?}, {allocated}");
        }
        let (ended, _) = run(&spare, Some(plan.clone()), &[1000, 300, 5000, 900]);
        assert!(matches!(ended, Ended::Unplanned), "{ended:?}");
        let (ended, _) = run(&spare, Some(plan), &sizes[..3]);
        assert!(matches!(ended, Ended::Planned), "fewer requests leave no plan: {ended:?}");
    }
}
