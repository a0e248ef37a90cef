//! Rows side by side that are folded several at once.
//!
//! A loop from row to row reads and writes a total for each element that it takes: where little is
//! computed that is most of what it does. With [`TOGETHER`] rows in turn inside of it totals stay
//! in registers between them, and each takes its elements in the same order as before:
//!
//! ```c
//! for (i64 j = 0; ask < 2 && j + 8 <= rows; j += 8) {
//!     const float *restrict in0 = … + (first + j) * strides[…];
//!     const i64 d0 = strides[…];
//!     #pragma omp simd
//!     for (i64 i = 0; i < m; i++) {
//!         #pragma GCC unroll 8
//!         for (i64 u = 0; u < 8; u++) {
//!             const float v_x = in0[u * d0 + i];
//!             p_m[i] += v_x;
//!         }
//!     }
//! }
//! for (i64 j = ask < 2 ? rows / 8 * 8 : 0; j < rows; j++) { … the rest, row by row … }
//! ```
//!
//! Of what no cache holds rows are taken one by one: memory is fastest in its own order.
//!
//! Measured on an EPYC with AVX-512 (Zen 4) with mean and variance of 12544 rows of 256 floats that
//! the third level of cache holds, the shortest of 101 runs: 374 us row by row, 349 with four
//! together, 264 with eight; reading alone takes 163. Of 100352 rows, 103 MB, eight together take
//! 10.4 ms or more, and one by one 7.2 to 8.2.

use super::Writer;
use crate::codegen::kernel::Inner;
use crate::codegen::schedule::Aim;

/// Totals of an element from which on it is worth it: a single sum of rows that memory holds waits
/// for those, not for its totals.
const WORTH_IT: i32 = 2;
/// Rows that are taken at once.
const TOGETHER: usize = 8;
/// Most steps of a loop that is worth it: what computes more does not wait for its totals.
const MOST_STEPS: usize = 3;

impl Writer<'_> {
    /// The loop over as many rows of a block as go together, if they do, and the first row that is
    /// left.
    pub(super) fn block_of_rows_together(&mut self, phase: usize, aims: &[Aim], accesses: &[usize]) -> String {
        if !self.go_together(phase, aims, accesses) {
            return "0".to_owned();
        }
        self.line(20, &format!("for (i64 j = 0; ask < 2 && j + {TOGETHER} <= rows; j += {TOGETHER}) {{"));
        for &k in accesses {
            self.pointer(24, k, &format!(" + o[{k}] + (first + j) * strides[{k} * rank + folded]"));
            self.line(24, &format!("const i64 d{k} = strides[{k} * rank + folded];"));
        }
        self.together = true;
        self.elements(24, phase, aims, super::COLUMNS);
        self.ask_for_next_rows(phase, aims, accesses);
        self.together = false;
        self.line(20, "}");
        format!("ask < 2 ? rows / {TOGETHER} * {TOGETHER} : 0")
    }

    /// Whether a loop does little but fold, and each of its loads is an element of a row.
    fn go_together(&self, phase: usize, aims: &[Aim], accesses: &[usize]) -> bool {
        let reduces = |aim: &Aim| match *aim {
            Aim::Reduce(k) => !self.is_arg_reduction(k) && !self.is_expensive(k),
            Aim::Square(_) => true,
            _ => false,
        };
        let totals = |aim: &Aim| if matches!(*aim, Aim::Reduce(k) if self.is_summed_in_floats(k)) { 2 } else { 1 };
        let is_element = |&k: &usize| k < self.kernel.loads.len() && self.traversal.inner[k] != Inner::Broadcast;
        !self.in_doubles
            && aims.iter().all(reduces)
            && aims.iter().map(totals).sum::<i32>() >= WORTH_IT
            && accesses.iter().all(is_element)
            && self.schedule.steps(self.kernel, phase, aims).len() <= MOST_STEPS
            && self.count_of_stages(phase, aims) == 1
    }

    /// Begins the loop over rows that go together, inside of that over their elements.
    pub(super) fn begin_together(&mut self, indent: usize) {
        if let Some(each) = self.each_together() {
            self.line(indent, &format!("#pragma GCC unroll {TOGETHER}"));
            self.line(indent, &format!("{each}{{"));
            self.deeper += 4;
        }
    }

    /// The head of that loop.
    pub(super) fn each_together(&self) -> Option<String> {
        self.together.then(|| format!("for (i64 u = 0; u < {TOGETHER}; u++) "))
    }

    pub(super) fn end_together(&mut self, indent: usize) {
        if self.together {
            self.deeper -= 4;
            self.line(indent, "}");
        }
    }
}
