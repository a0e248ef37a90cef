//! Results that go past the caches.
//!
//! A store to a line that is in no cache reads it first, to write it back later; what is as large
//! as the caches is driven out before anybody reads it. Then a launch asks to *stream*: tiles of
//! results are computed in a buffer, which stays in the first level of cache, and copied out of it
//! by stores that ask for nothing:
//!
//! ```c
//! float *const to_out0 = (float *)data[1] + at1 + from;
//! float *restrict out0 = stream ? l_out0 : to_out0;
//! for (i64 i = 0; i < m; i++) …
//! if (stream) jo_stream(to_out0, out0, m * 4);
//! ```
//!
//! That is for kernels that wait for memory. `jitopt-bench kernels --stream BOOL` measures both: a
//! sum and `relu` of 77 MB take 2.6 to 2.9 ms and not 3.8 to 4.0, a norm of batches of 12.8 MB 2.0
//! to 2.2 ms and not 2.8; a norm of rows of 16.8 MB, which the caches all but hold from call to
//! call, 1.9 ms and without 1.7. One that computes exponentials does not wait, unless it asks for
//! what it loads (`asking_ahead.rs`), and what it stores is on its way meanwhile: variants built
//! for the purpose took 1.2 times as long with for a softmax of 16 MB. Nor does a running sum along
//! rows: 1.9 ms for 16.8 MB and with it 2.4.
//!
//! A launch streams when it touches more than half of what the largest cache holds
//! (`runtime/caches.rs`). The buffer is one tile, 1 KiB of floats.

use super::Writer;
use crate::codegen::c_spelling::memory_type;
use crate::codegen::schedule::Aim;

impl Writer<'_> {
    /// The buffers.
    pub(super) fn lines_of_results(&mut self) {
        for store in 0..self.kernel.stores.len() {
            let Some(elements) = self.streamed(store) else { continue };
            let element = memory_type(self.kernel.dtype_of(self.kernel.loads.len() + store));
            let name = self.store_name(store);
            self.line(4, &format!("{element} l_{name}[{elements}] __attribute__((aligned(64)));"));
        }
    }

    /// Behind the loops over a tile: what they have stored leaves its buffer.
    pub(super) fn stream_tile(&mut self, indent: usize, aims: &[Aim]) {
        for store in self.buffered(aims) {
            let name = self.store_name(store);
            let size = self.kernel.dtype_of(self.kernel.loads.len() + store).size();
            self.line(indent, &format!("if (stream) jo_stream(to_{name}, {name}, m * {size});"));
        }
    }
}
