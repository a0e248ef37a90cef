//! What is asked of memory before it is needed.
//!
//! A processor sees what is read one behind the other and fetches what comes next, but it looks no further than a page, and begins anew in the next one. A loop that computes for
//! long has time to ask for what its vectors will want:
//!
//! ```c
//! if (stream) for (i64 i = 0; i < m; i += 16) __builtin_prefetch(in0 + i + 512);
//! ```
//!
//! Launches that stream do so, as theirs is the memory that nobody has in a cache. With variants built for the purpose, 16.8 MB that no cache holds: `swish` takes 3.1 ms without, 2.7 so, and
//! 2.2 where what it stores goes past the caches, too, which alone makes 3.0; a softmax along rows 2.5 and not 2.9. A norm, which computes little, takes as long as without.

use super::{TILE, Writer};
use crate::codegen::kernel::{Direction, Inner};
use crate::ops::formulas;

/// How many elements ahead: two tiles.
const AHEAD: usize = 2 * TILE;
/// So many loads are asked for. More are followed better by the processor itself: the cell of an LSTM, which has ten, takes 1.3 times as long if they are.
const FEW: usize = 4;
/// Bytes of a line of the caches.
const LINE: usize = 64;

impl Writer<'_> {
    /// Whether a kernel computes for long.
    pub(super) fn takes_long(&self) -> bool {
        self.kernel.steps.iter().any(|step| formulas::is_heavy(step.text))
    }

    /// Whether tiles of points are asked for.
    pub(super) fn asks_for_tiles(&self) -> bool {
        self.walk.direction == Direction::Points && self.takes_long() && self.kernel.loads.len() <= FEW
    }

    /// Behind a tile of points: asks for the tile after the next one.
    pub(super) fn ask_for_next_tiles(&mut self) {
        if self.asks_for_tiles() {
            let loads: Vec<usize> = (0..self.kernel.loads.len()).collect();
            self.ask(8, "stream", &loads, |_| AHEAD.to_string());
        }
    }

    /// Behind a block of a row: asks for that of the next row.
    pub(super) fn ask_for_next_row(&mut self, phase: usize, accesses: &[usize]) {
        if self.walk.direction != Direction::Along || self.phase_with_time() != Some(phase) {
            return;
        }
        let first = self.accesses_of(0, &self.schedule.aims(self.kernel, self.walk, 0));
        let is_load = |k: &usize| *k < self.kernel.loads.len() && first.contains(k);
        let loads: Vec<usize> = accesses.iter().copied().filter(is_load).collect();
        self.ask(24, "stream && kept > 0", &loads, |k| format!("strides[{k} * rank + kept - 1]"));
    }

    /// The last phase that computes for long behind the first one, in which rows come from memory.
    fn phase_with_time(&self) -> Option<usize> {
        let aims = |phase| self.schedule.aims(self.kernel, self.walk, phase);
        let takes_long = |phase: &usize| aims(*phase).into_iter().any(|aim| self.computes_heavy(aim));
        (1..self.schedule.phases).rev().find(takes_long)
    }

    /// One loop that asks for what lies so far behind the elements of some loads.
    fn ask(&mut self, indent: usize, when: &str, loads: &[usize], ahead: impl Fn(usize) -> String) {
        let in_a_row: Vec<usize> = loads.iter().copied().filter(|&k| self.walk.inner[k] == Inner::Unit).collect();
        let Some(widest) = in_a_row.iter().map(|&k| self.kernel.dtype_of(k).size()).max() else { return };
        let ask = |k: &usize| format!("__builtin_prefetch(in{k} + i + {})", ahead(*k));
        let asked: Vec<String> = in_a_row.iter().map(ask).collect();
        self.line(indent, &format!("if ({when}) for (i64 i = 0; i < m; i += {}) {{", LINE / widest));
        asked.iter().for_each(|asked| self.line(indent + 4, &format!("{asked};")));
        self.line(indent, "}");
    }
}
