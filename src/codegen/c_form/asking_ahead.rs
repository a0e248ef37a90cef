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

use super::Writer;
use crate::codegen::c::LINE;
use crate::codegen::kernel::Inner;
use crate::codegen::kernel_plan::Ahead;
use crate::codegen::schedule::Aim;

impl Writer<'_> {
    /// Behind a block of rows: only what the first phase reads comes from memory. Of rows that are
    /// side by side, or take turns, only the loop that finds a mean and a variance has time.
    pub(super) fn prefetch_rows(&mut self, phase: usize, aims: &[Aim], accesses: &[usize]) {
        let first = self.accesses_of(0, &self.schedule.aims(self.kernel, self.traversal, 0));
        let is_load = |k: &usize| *k < self.kernel.loads.len() && first.contains(k);
        let loads: Vec<usize> = accesses.iter().copied().filter(is_load).collect();
        let varies = aims.iter().any(|aim| matches!(aim, Aim::Reduce(k) if self.is_variance(*k)));
        let has_time = varies || self.traversal.direction.has_single_rows();
        match self.plan.phase(phase).ahead {
            Ahead::Elements(n) if has_time && self.is_outer() => {
                let rows = format!("({n} + m - 1) / m");
                self.ask(24, "ask", &loads, |k| format!("{rows} * strides[{k} * rank + folded]"));
            }
            Ahead::Elements(n) if has_time => self.ask(24, "ask", &loads, |_| n.to_string()),
            Ahead::NextRow(most) => {
                let when = format!("ask && kept > 0 && blocks * width <= {most}");
                self.ask(24, &when, &loads, |k| format!("strides[{k} * rank + kept - 1]"));
            }
            Ahead::Elements(_) | Ahead::Nothing => {}
        }
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
