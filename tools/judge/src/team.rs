//! Parallel search with the result of a sequential one.
//!
//! Graphs and values are not shared between threads. So every member of a team holds the whole
//! state and runs the whole search; only the evaluation of candidates is shared. Each member
//! evaluates every n-th candidate, all learn the results, and all take the first candidate that
//! holds. The result is that of a single member.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier};

/// The result of a candidate.
const NO: u8 = 0;
const YES: u8 = 1;
const PANICKED: u8 = 2;

/// The shared state of a round.
#[derive(Debug)]
struct Round {
    found: Vec<AtomicU8>,
    all_are_there: Barrier,
}

/// A member's seat in its team.
#[derive(Debug)]
pub struct Seat {
    number: usize,
    round: Arc<Round>,
}

impl Seat {
    /// The seats of a team of this size.
    pub fn team(members: usize) -> Vec<Seat> {
        let members = members.max(1);
        let found = (0..members).map(|_| AtomicU8::new(NO)).collect();
        let round = Arc::new(Round { found, all_are_there: Barrier::new(members) });
        (0..members).map(|number| Seat { number, round: round.clone() }).collect()
    }

    /// The seat of a single-threaded search.
    pub fn alone() -> Seat {
        Seat::team(1).remove(0)
    }

    /// The first of these candidates that holds. All members must call this with the same
    /// candidates; each evaluates every n-th one.
    pub fn first(&self, candidates: std::ops::Range<usize>, mut holds: impl FnMut(usize) -> bool) -> Option<usize> {
        let members = self.round.found.len();
        for start in candidates.clone().step_by(members) {
            let mine = start + self.number;
            let mut judged = || u8::from(mine < candidates.end && holds(mine));
            // The others would wait for a member that unwinds.
            let verdict = catch_unwind(AssertUnwindSafe(&mut judged)).unwrap_or(PANICKED);
            self.round.found[self.number].store(verdict, Ordering::SeqCst);
            self.round.all_are_there.wait();
            let verdicts: Vec<u8> = self.round.found.iter().map(|found| found.load(Ordering::SeqCst)).collect();
            self.round.all_are_there.wait();
            match verdicts.iter().position(|verdict| *verdict != NO) {
                Some(i) if verdicts[i] == YES => return Some(start + i),
                Some(i) => panic!("the evaluation of candidate {} panicked", start + i),
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_by(members: usize, holds: fn(usize) -> bool) -> Vec<Option<usize>> {
        std::thread::scope(|scope| {
            let start = |seat: Seat| scope.spawn(move || [seat.first(0..10, holds), seat.first(3..4, holds)]);
            let threads: Vec<_> = Seat::team(members).into_iter().map(start).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
        })
    }

    #[test]
    fn all_workers_find_the_failures_of_one() {
        for members in 1..5 {
            for found in found_by(members, |i| i % 4 == 3).chunks(2) {
                assert_eq!(found, [Some(3), Some(3)]);
            }
            assert!(found_by(members, |_| false).iter().all(Option::is_none));
        }
    }
}
