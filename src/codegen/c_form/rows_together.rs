//! Rows side by side that are folded several at once.
//!
//! A loop from row to row reads and writes a total for each element that it takes: where little is
//! computed that is most of what it does. With some rows in turn inside of it totals stay
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
use crate::codegen::schedule::Aim;

impl Writer<'_> {
    /// The loop over as many rows of a block as go together, if they do, and the first row that is
    /// left.
    pub(super) fn block_of_rows_together(&mut self, phase: usize, aims: &[Aim], accesses: &[usize]) -> String {
        let together = self.rows_at_once(phase, aims);
        if together == 1 {
            return "0".to_owned();
        }
        self.line(20, &format!("for (i64 j = 0; ask < 2 && j + {together} <= rows; j += {together}) {{"));
        for &k in accesses {
            self.pointer(24, k, &format!(" + o[{k}] + (first + j) * strides[{k} * rank + folded]"));
            self.line(24, &format!("const i64 d{k} = strides[{k} * rank + folded];"));
        }
        self.together = Some(together);
        self.elements(24, phase, aims, self.plan.tile);
        self.prefetch_rows(phase, aims, accesses);
        self.together = None;
        self.line(20, "}");
        format!("ask < 2 ? rows / {together} * {together} : 0")
    }

    /// How many rows a loop takes at once: in doubles one, and as many as the plan says in the
    /// first and in the second loop over a block.
    fn rows_at_once(&self, phase: usize, aims: &[Aim]) -> usize {
        let plan = self.plan.phase(phase);
        match aims.first() {
            _ if self.in_doubles => 1,
            Some(Aim::Square(_)) => plan.again,
            Some(Aim::Reduce(_)) => plan.together,
            _ => 1,
        }
    }

    /// Begins the loop over rows that go together, inside of that over their elements.
    pub(super) fn begin_together(&mut self, indent: usize) {
        if let Some(each) = self.each_together() {
            self.line(indent, &format!("#pragma GCC unroll {}", self.together.unwrap_or(1)));
            self.line(indent, &format!("{each}{{"));
            self.deeper += 4;
        }
    }

    /// The head of that loop.
    pub(super) fn each_together(&self) -> Option<String> {
        self.together.map(|rows| format!("for (i64 u = 0; u < {rows}; u++) "))
    }

    pub(super) fn end_together(&mut self, indent: usize) {
        if self.together.is_some() {
            self.deeper -= 4;
            self.line(indent, "}");
        }
    }
}
