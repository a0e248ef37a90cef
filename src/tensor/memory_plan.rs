//! Memory plans: which results of a run share a buffer.
//!
//! A run is recorded as requests for memory, each with the times at which it was made and at which
//! its memory came back. Requests that are not in use at the same time share a buffer:
//!
//! ```text
//! request   elements   in use       buffer
//! 0         1000       0 to 4       1, of 1000 elements
//! 1          500       1 to 2       0, of 1200 elements
//! 2         1200       3 to 6       0
//! 3          900       5 to 7       1
//! ```
//!
//! A later run for arguments of the same specification makes the same requests in the same order.

use super::dtype::DType;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A time after the end of a run.
pub(super) const NEVER: u32 = u32::MAX;

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) dtype: DType,
    pub(super) elements: usize,
    /// When it was made. Requests and returns have times of their own, in their order.
    pub(super) taken: u32,
    /// When its memory came back; [`NEVER`] for what outlives the run.
    pub(super) returned: u32,
}

/// The buffer of each request of a run.
#[derive(Debug, Default)]
pub(crate) struct MemoryPlan {
    of_requests: Vec<u32>,
    buffers: Vec<(DType, usize)>,
    most_alive: usize,
}

/// Buffers that are tried for a request, those of nearest size first.
const MOST_TRIED: usize = 64;

impl MemoryPlan {
    /// Plans a run, in `n log n` steps: the largest requests get buffers first, so that every
    /// buffer is large enough for those that come later; each gets the smallest one that is free
    /// while it is in use, or a new one.
    pub(super) fn of(requests: &[Request]) -> MemoryPlan {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(requests[i].elements));
        let mut plan = MemoryPlan { of_requests: vec![0; requests.len()], ..MemoryPlan::default() };
        let mut by_type: FxHashMap<DType, Vec<(u32, Uses)>> = FxHashMap::default();
        for i in order {
            let request = requests[i];
            let known = by_type.entry(request.dtype).or_default();
            let place = known.iter().rev().take(MOST_TRIED).position(|(_, uses)| uses.is_free(request));
            let at = match place {
                Some(place) => known.len() - 1 - place,
                None => {
                    known.push((plan.buffers.len() as u32, Uses::default()));
                    plan.buffers.push((request.dtype, request.elements));
                    known.len() - 1
                }
            };
            known[at].1.add(request);
            plan.of_requests[i] = known[at].0;
        }
        plan.most_alive = most_alive(requests);
        plan
    }

    /// The element type and the size of the buffer of a request.
    pub(super) fn buffer_of(&self, request: usize) -> Option<(DType, usize)> {
        self.of_requests.get(request).map(|&buffer| self.buffers[buffer as usize])
    }

    /// The element types and sizes of all buffers.
    pub(crate) fn buffers(&self) -> &[(DType, usize)] {
        &self.buffers
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.of_requests.len()
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.buffers.iter().map(|(dtype, elements)| dtype.size() * elements).sum()
    }

    /// The most bytes of requests that are alive at once: no plan has fewer.
    pub(crate) fn most_alive(&self) -> usize {
        self.most_alive
    }
}

/// When a buffer is in use: where each use ends, by where it begins. They do not overlap.
#[derive(Debug, Default)]
struct Uses(BTreeMap<u32, u32>);

impl Uses {
    fn is_free(&self, during: Request) -> bool {
        let before = self.0.range(..during.returned).next_back();
        before.is_none_or(|(_, &end)| end < during.taken)
    }

    fn add(&mut self, request: Request) {
        self.0.insert(request.taken, request.returned);
    }
}

/// The most bytes in use at once.
fn most_alive(requests: &[Request]) -> usize {
    let of = |request: &Request| request.bytes() as isize;
    let taken = requests.iter().map(|request| (request.taken, of(request)));
    let returned = requests.iter().filter(|request| request.returned != NEVER);
    let mut changes: Vec<(u32, isize)> =
        taken.chain(returned.map(|request| (request.returned, -of(request)))).collect();
    changes.sort_unstable();
    let alive = changes.into_iter().scan(0, |alive, (_, change)| {
        *alive += change;
        Some(*alive)
    });
    alive.max().unwrap_or(0) as usize
}

impl Request {
    fn bytes(&self) -> usize {
        self.dtype.size() * self.elements
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(elements: usize, taken: u32, returned: u32) -> Request {
        Request { dtype: DType::Float, elements, taken, returned }
    }

    #[test]
    fn requests_share_a_buffer_unless_they_are_alive_together() {
        let plan = MemoryPlan::of(&[request(1000, 0, 4), request(500, 1, 2), request(1200, 3, 6), request(900, 5, 7)]);
        assert_eq!(plan.of_requests, [1, 0, 0, 1]);
        assert_eq!(plan.buffers, [(DType::Float, 1200), (DType::Float, 1000)]);
        assert_eq!((plan.bytes(), plan.most_alive()), (8800, 8800));
    }

    #[test]
    fn element_types_have_buffers_of_their_own_and_results_are_not_shared() {
        let double = Request { dtype: DType::Double, ..request(10, 2, 3) };
        let plan = MemoryPlan::of(&[request(10, 0, 1), double, request(10, 4, NEVER), request(10, 5, NEVER)]);
        assert!(plan.buffers.len() == 3 && plan.of_requests[2] != plan.of_requests[3]);
        assert_eq!(plan.buffer_of(1), Some((DType::Double, 10)));
    }

    #[test]
    fn random_requests_never_overlap() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut requests, mut alive, mut clock) = (Vec::new(), Vec::new(), 0);
            for _ in 0..random(60) {
                if alive.is_empty() || random(2) == 0 {
                    alive.push(requests.len());
                    let dtype = [DType::Float, DType::Half][random(2) as usize];
                    requests.push(Request { dtype, elements: random(1000) as usize, taken: clock, returned: NEVER });
                } else {
                    let ended: usize = alive.swap_remove(random(alive.len() as u64) as usize);
                    requests[ended].returned = clock;
                }
                clock += 1;
            }
            let plan = MemoryPlan::of(&requests);
            assert!(plan.bytes() >= plan.most_alive());
            for (i, a) in requests.iter().enumerate() {
                let (dtype, size) = plan.buffer_of(i).expect("every request has one");
                assert!(dtype == a.dtype && size >= a.elements);
                for (j, b) in requests.iter().enumerate().skip(i + 1) {
                    let together = a.taken < b.returned && b.taken < a.returned;
                    assert!(!together || plan.of_requests[i] != plan.of_requests[j], "{a:?} {b:?}");
                }
            }
        }
    }
}
