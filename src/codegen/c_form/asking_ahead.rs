//! What is asked of memory before it is needed.
//!
//! A processor sees what is read one behind the other and fetches what comes next, but it looks no
//! further than a page, and begins anew in the next one. A loop that computes for long has time to
//! ask for what its vectors will want:
//!
//! ```c
//! if (ask) for (i64 i = 0; i < m; i += 16) __builtin_prefetch(in0 + i + 512);
//! ```
//!
//! Large launches do so, as theirs is the memory that nobody has in a cache. With variants built
//! for the purpose, 16.8 MB that no cache holds: `swish` takes 3.1 ms without, 2.7 so, and 2.2
//! where what it stores goes past the caches, too, which alone makes 3.0; a softmax along rows 2.5
//! and not 2.9; a norm 2.1 and not 2.4; mean and variance of 12.8 MB 1.1 and not 1.3. A running sum
//! along rows, in which a vector waits for the one before it, goes from 1.38 of a copy to 1.06.
//! Sums of two tensors, and sums along one, wait for memory whatever they ask of it.

use super::{TILE, Writer};
use crate::codegen::kernel::{Direction, Inner};
use crate::codegen::schedule::Aim;
use crate::ops::formulas;

/// How many elements ahead: two tiles.
const AHEAD: usize = 2 * TILE;
/// The same for rows that are folded, whose elements take less time.
const SOON: usize = 4 * TILE;
/// So many elements of rows stay in the second level of cache until it is their turn.
const FITS: usize = 1 << 17;
/// So many loads are asked for. More are followed better by the processor itself: the cell of an
/// LSTM, which has ten, takes 1.3 times as long if they are.
const FEW: usize = 4;
/// Bytes of a line of the caches.
const LINE: usize = 64;

impl Writer<'_> {
    /// Whether a kernel computes for long.
    pub(super) fn takes_long(&self) -> bool {
        self.kernel.steps.iter().any(|step| formulas::is_expensive(step.text))
    }

    /// Whether tiles of points are asked for.
    pub(super) fn asks_for_tiles(&self) -> bool {
        self.traversal.direction == Direction::Points && self.takes_long() && self.kernel.loads.len() <= FEW
    }

    /// Behind a tile of points: asks for the tile after the next one.
    pub(super) fn ask_for_next_tiles(&mut self) {
        if self.asks_for_tiles() {
            let loads: Vec<usize> = (0..self.kernel.loads.len()).collect();
            self.ask(8, "ask", &loads, |_| AHEAD.to_string());
        }
    }

    /// Behind a block of rows: asks for that of the next ones, if those fit a cache, or for what
    /// comes soon where there is a mean and a variance to find meanwhile, or a total that runs.
    pub(super) fn ask_for_next_rows(&mut self, phase: usize, aims: &[Aim], accesses: &[usize]) {
        let first = self.accesses_of(0, &self.schedule.aims(self.kernel, self.traversal, 0));
        let is_load = |k: &usize| *k < self.kernel.loads.len() && first.contains(k);
        let loads: Vec<usize> = accesses.iter().copied().filter(is_load).collect();
        let varies = aims.iter().any(|aim| matches!(aim, Aim::Reduce(k) if self.is_variance(*k)));
        let asks_soon = phase == 0 && varies && loads.len() <= FEW;
        let has_time = self.phase_with_time() == Some(phase);
        let runs = phase == 0 && self.kernel.has_scan() && loads.len() <= FEW;
        match self.traversal.direction {
            Direction::Strided if asks_soon => self.ask(24, "ask", &loads, |_| SOON.to_string()),
            Direction::Outer if asks_soon => {
                let rows = format!("({SOON} + m - 1) / m");
                self.ask(24, "ask", &loads, |k| format!("{rows} * strides[{k} * rank + folded]"));
            }
            Direction::Inner | Direction::Split if runs => self.ask(24, "ask", &loads, |_| AHEAD.to_string()),
            Direction::Inner if has_time => {
                let when = format!("ask && kept > 0 && blocks * width <= {FITS}");
                self.ask(24, &when, &loads, |k| format!("strides[{k} * rank + kept - 1]"));
            }
            _ => {}
        }
    }

    /// The last phase that computes for long behind the first one, in which rows come from memory;
    /// or else the last one, if there are several.
    fn phase_with_time(&self) -> Option<usize> {
        let aims = |phase| self.schedule.aims(self.kernel, self.traversal, phase);
        let takes_long = |phase: &usize| aims(*phase).into_iter().any(|aim| self.computes_expensive(aim));
        let mut behind = (1..self.schedule.phases).rev().filter(|&phase| !aims(phase).is_empty());
        behind.clone().find(takes_long).or_else(|| behind.next())
    }

    /// One loop that asks for what lies so far behind the elements of some loads.
    fn ask(&mut self, indent: usize, when: &str, loads: &[usize], ahead: impl Fn(usize) -> String) {
        let in_a_row: Vec<usize> = loads.iter().copied().filter(|&k| self.traversal.inner[k] == Inner::Unit).collect();
        let Some(widest) = in_a_row.iter().map(|&k| self.kernel.dtype_of(k).size()).max() else { return };
        let ask = |k: &usize| match self.each_together() {
            Some(each) => format!("{each}__builtin_prefetch(in{k} + u * d{k} + i + {})", ahead(*k)),
            None => format!("__builtin_prefetch(in{k} + i + {})", ahead(*k)),
        };
        let asked: Vec<String> = in_a_row.iter().map(ask).collect();
        self.line(indent, &format!("if ({when}) for (i64 i = 0; i < m; i += {}) {{", LINE / widest));
        asked.iter().for_each(|asked| self.line(indent + 4, &format!("{asked};")));
        self.line(indent, "}");
    }
}
