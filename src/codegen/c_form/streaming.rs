//! Results that go past the caches.
//!
//! A store to a line that is in no cache reads it first, to write it back later; what is as large as the caches is driven out before anybody reads
//! it. Then a launch asks to *stream*: tiles of results are computed in a buffer, which stays in the first level of cache, and copied out of it
//! by stores that ask for nothing:
//!
//! ```c
//! float *const to_out0 = (float *)data[1] + at1 + from;
//! float *restrict out0 = stream ? l_out0 : to_out0;
//! for (i64 i = 0; i < m; i++) …
//! if (stream) jo_stream(to_out0, out0, m * 4);
//! ```
//!
//! What waits in a result for a later loop over the same row is copied when the row is done, if that fits into a buffer.

use super::row_loops::BLOCK;
use super::{COLUMNS, STREAMED_ROW, Writer};
use crate::codegen::expressions::memory_type;
use crate::codegen::kernel::{Direction, Inner};
use crate::codegen::schedule::Aim;

/// Accesses that rows side by side may have when their results are streamed. The tiles of all of them are in the first level of cache at once: the
/// gradient of an LSTM cell, with thirteen, takes 1.1 times as long with buffers as without.
const MOST_ACROSS: usize = 6;

impl Writer<'_> {
    /// Whether anything of a store waits in its result for a later loop.
    pub(super) fn is_carrier(&self, store: usize) -> bool {
        self.schedule.carried.values().any(|&other| other == store)
    }

    /// How many elements the buffer has that a store goes through when it is streamed; none where it never is.
    pub(super) fn streamed(&self, store: usize) -> Option<usize> {
        let in_a_row = self.walk.inner[self.kernel.loads.len() + store] == Inner::Unit;
        if !in_a_row || self.walk.writes_rows(self.kernel, store) {
            return None;
        }
        match self.walk.direction {
            Direction::Points => self.tile,
            Direction::Along if self.is_carrier(store) => Some(STREAMED_ROW),
            Direction::Along => Some(BLOCK),
            Direction::Across if self.is_carrier(store) || self.kernel.accesses() > MOST_ACROSS => None,
            Direction::Across => Some(COLUMNS),
        }
    }

    /// Whether any store may be streamed.
    pub(super) fn streams(&self) -> bool {
        (0..self.kernel.stores.len()).any(|store| self.streamed(store).is_some())
    }

    /// Whether loops with these aims fill a buffer that is copied from when they are done.
    pub(super) fn streams_any(&self, aims: &[Aim]) -> bool {
        let streamed =
            |aim: &Aim| matches!(*aim, Aim::Store(store) if self.streamed(store).is_some() && !self.is_carrier(store));
        aims.iter().any(streamed)
    }

    fn size(&self, store: usize) -> usize {
        self.kernel.dtype_of(self.kernel.loads.len() + store).size()
    }

    fn row_carriers(&self) -> Vec<usize> {
        let all = 0..self.kernel.stores.len();
        all.filter(|&store| self.streamed(store).is_some() && self.is_carrier(store)).collect()
    }

    /// The buffers, and whether rows fit into theirs.
    pub(super) fn lines_of_results(&mut self) {
        for store in 0..self.kernel.stores.len() {
            let Some(elements) = self.streamed(store) else { continue };
            let element = memory_type(self.kernel.dtype_of(self.kernel.loads.len() + store));
            let name = self.store_name(store);
            self.line(4, &format!("{element} l_{name}[{elements}] __attribute__((aligned(64)));"));
        }
        if !self.row_carriers().is_empty() {
            self.line(4, &format!("const int whole = stream && blocks == 1 && width <= {STREAMED_ROW};"));
        }
    }

    /// Behind the loops over a tile: what they have stored leaves its buffer.
    pub(super) fn stream_tile(&mut self, indent: usize, aims: &[Aim]) {
        for aim in aims {
            if let Aim::Store(store) = *aim
                && self.streamed(store).is_some()
                && !self.is_carrier(store)
            {
                let (name, size) = (self.store_name(store), self.size(store));
                self.line(indent, &format!("if (stream) jo_stream(to_{name}, {name}, m * {size});"));
            }
        }
    }

    /// Behind all loops over a row.
    pub(super) fn stream_row(&mut self) {
        for store in self.row_carriers() {
            let access = self.kernel.loads.len() + store;
            let element = memory_type(self.kernel.dtype_of(access));
            let (name, size) = (self.store_name(store), self.size(store));
            let place = format!("({element} *)data[{access}] + at{access}");
            self.line(8, &format!("if (whole) jo_stream({place}, l_{name}, width * {size});"));
        }
    }
}
