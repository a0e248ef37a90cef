//! Memory accesses of kernels whose blocks of threads are emulated and checked.
//!
//! The threads of a warp that are at one place for the n-th time since a barrier make one request.
//! In the memory of the device it takes as many transactions as sectors of 32 bytes are touched; in
//! shared memory as many wavefronts as there are different words in the bank with the most of them.
//! A request that takes more than the fewest possible costs a GPU time: its accesses are not
//! coalesced, or have bank conflicts:
//!
//! ```text
//! requests  sectors  fewest
//!       16      512      64  loads of `const float v_x = JO_GET(in0, r0);` (%x)
//! ```
//!
//! The first requests of each warp of a block are counted, see `JO_REQUESTS` in `emulation.c`.

use super::device_launch::RawPlace;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A place in the text of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: String,
    line: i64,
    is_shared: bool,
    is_store: bool,
    /// The statement with its IR line.
    statement: String,
}

/// The requests of warps at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Requests {
    count: i64,
    transactions: i64,
    fewest: i64,
}

/// The accesses of launches, by places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile(BTreeMap<Place, Requests>);

impl MemoryProfile {
    /// Adds what a launch counted.
    pub(super) fn add(&mut self, found: &[RawPlace], statement: impl Fn(i64) -> String) {
        for place in found {
            let at = Place {
                group: String::new(),
                line: place.line,
                is_shared: place.kind & 1 != 0,
                is_store: place.kind & 2 != 0,
                statement: statement(place.line),
            };
            let requests = Requests { count: place.requests, transactions: place.transactions, fewest: place.fewest };
            self.0.entry(at).or_default().add(requests);
        }
    }

    /// Adds what launches of a group counted.
    pub(super) fn add_group(&mut self, group: &str, other: MemoryProfile) {
        for (place, requests) in other.0 {
            self.0.entry(Place { group: group.to_owned(), ..place }).or_default().add(requests);
        }
    }

    /// A table, with a line for each place; empty without places.
    pub fn table(&self) -> String {
        let of_device = self.half(false, "  requests     sectors    fewest");
        of_device + &self.half(true, "  requests  wavefronts    fewest")
    }

    fn half(&self, is_shared: bool, head: &str) -> String {
        let mut text = String::new();
        for (place, requests) in self.0.iter().filter(|(place, _)| place.is_shared == is_shared) {
            if text.is_empty() {
                let what = if is_shared { "shared memory of blocks" } else { "memory of the device" };
                let _ = writeln!(text, "{head}  {what}");
            }
            let Requests { count, transactions, fewest } = requests;
            let what = if place.is_store { "stores" } else { "loads" };
            let (group, statement) = (&place.group, &place.statement);
            let _ = writeln!(text, "{count:>10}{transactions:>12}{fewest:>10}  {what} of {group}: {statement}");
        }
        text
    }

    /// The requests, transactions and fewest transactions of all places in one kind of memory.
    pub fn total(&self, is_shared: bool) -> (i64, i64, i64) {
        let places = self.0.iter().filter(|(place, _)| place.is_shared == is_shared);
        places.fold((0, 0, 0), |all, (_, one)| (all.0 + one.count, all.1 + one.transactions, all.2 + one.fewest))
    }
}

impl Requests {
    fn add(&mut self, other: Requests) {
        self.count += other.count;
        self.transactions += other.transactions;
        self.fewest += other.fewest;
    }
}
