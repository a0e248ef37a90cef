//! Loops and accesses of nests in C.
//!
//! **Streaming.** A store to a line that is in no cache reads it first, to write it back later;
//! results as large as the caches are evicted before anything reads them. Then a launch requests
//! *streaming*: tiles of results are computed in a buffer, which stays in the first level of cache,
//! and copied out of it with non-temporal stores:
//!
//! ```c
//! float *const to_out0 = (float *)data[1] + place[1] + from;
//! float *restrict out0 = stream ? l_out0 : to_out0;
//! for (i64 i = 0; i < m; i++) …
//! if (stream) jo_stream(to_out0, out0, m * 4);
//! ```
//!
//! Streaming is for memory-bound kernels. `jitopt-bench kernels --stream BOOL` measures both: a
//! sum and `relu` of 77 MB take 2.6 to 2.9 ms and not 3.8 to 4.0, a norm of batches of 12.8 MB 2.0
//! to 2.2 ms and not 2.8; a norm of rows of 16.8 MB, which the caches all but hold from call to
//! call, 1.9 ms and without 1.7. A kernel that computes exponentials is compute-bound unless it
//! prefetches its loads, and its stores overlap with the computation: variants built for the
//! purpose took 1.2 times as long with streaming for a softmax of 16 MB. A scan of contiguous rows
//! is not memory-bound either: 1.9 ms for 16.8 MB, and 2.4 with streaming. A launch streams when it
//! touches more than half of what the largest cache holds (`runtime/caches.rs`). The buffer is one
//! tile, 1 KiB of floats.
//!
//! **Prefetching.** A processor recognises sequential reads and fetches what comes next, but only
//! up to the end of a page, and begins anew in the next one. A compute-bound loop has time to
//! prefetch what its next vectors load, `if (prefetch)`. Large launches do so, because their data
//! are in no cache. With variants built for the purpose, for 16.8 MB in no cache: `swish` takes
//! 3.1 ms without prefetching, 2.7 with it, and 2.2 with streaming, too, which alone gives 3.0; a
//! softmax of contiguous rows 2.5 and not 2.9; a norm 2.1 and not 2.4; mean and variance of 12.8 MB
//! 1.1 and not 1.3. A cumulative sum of contiguous rows, in which each vector depends on the one
//! before it, goes from 1.38 of a copy to 1.06. Elementwise sums of two tensors and reductions by
//! sum are memory-bound with or without.

use super::c::Printer;
use super::c_expressions::{SLOT, Spelling};
use super::c_spelling::memory_type;
use super::kernel::{Direction, Inner};
use super::nest::{APART, Axis, Bind, Distance, For, Watch};
use super::source_lines::Printing;
use super::window::{Gives, Guard};

impl Printer<'_> {
    /// The pieces of a row: its innermost reduced dimension, `blocks` times. A part of a split row
    /// has whole pieces, or some of each where there are fewer of them than parts.
    pub(super) fn reduced_space(&mut self) {
        let innermost = if self.nest.direction == Direction::Outer { 2 } else { 1 };
        self.line(&format!("const i64 last = rank - {innermost}, width = shape[last];"));
        self.line("i64 blocks = 1;");
        self.line("for (i64 d = kept; d < last; d++) blocks *= shape[d];");
        self.line("const double count = (double)(blocks * width);");
        self.line("(void)count;");
        if self.is_split() {
            self.line("const i64 phase = args->phase, part = args->part, parts = args->parts;");
            self.line("char *const found = args->found;");
            self.line("const i64 whole = blocks >= parts;");
            self.line("const i64 first_block = whole ? blocks * part / parts : 0;");
            self.line("const i64 end_block = whole ? blocks * (part + 1) / parts : blocks;");
            self.line(&format!("const i64 left = whole ? 0 : width * part / parts / {APART} * {APART};"));
            let right = format!("width * (part + 1) / parts / {APART} * {APART}");
            self.line(&format!("const i64 right = whole || part + 1 == parts ? width : {right};"));
        }
    }

    pub(super) fn loop_over(&mut self, all: &For) {
        match all.axis {
            Axis::Tiles(_) | Axis::Rows | Axis::Columns(_) => {
                self.line("i64 tile = begin % tiles;");
                self.open("for (i64 item = begin; item < end; item++) {");
            }
            Axis::FirstRow(_) => self.open("for (i64 tile = 0; tile < tiles; tile++) {"),
            Axis::Points => {
                if all.bind == Bind::Vector {
                    let clause = |one: &super::nest::Combined| {
                        let scan = if one.is_scan { "inscan," } else { "" };
                        format!(" reduction({scan}{}:{})", one.how, self.nest.variables[one.variable].name)
                    };
                    let clauses: String = all.combined.iter().map(clause).collect();
                    self.line(&format!("#pragma omp simd{clauses}"));
                }
                match all.within {
                    Some(at) => self.open(&format!("for (i64 i = l{at}; i < e{at}; i++) {{")),
                    None => self.open("for (i64 i = 0; i < m; i++) {"),
                }
            }
            Axis::Sides(most) => {
                self.open("for (i64 item = begin, side; item < end; item += side) {");
                self.line("side = shape[kept - 1] - at[kept - 1];");
                self.line(&format!("side = side < {most} ? side : {most};"));
                self.line("side = side < end - item ? side : end - item;");
            }
            Axis::Side => self.open("for (i64 r = 0; r < side; r++) {"),
            Axis::Pieces => self.pieces(),
            Axis::Blocks { size, first } => self.blocks(size, first),
            Axis::Lines { at_once: 1, rest_of: 1 } => self.open("for (i64 j = 0; j < rows; j++) {"),
            Axis::Lines { at_once: 1, rest_of } => {
                self.open(&format!("for (i64 j = prefetch < 2 ? rows / {rest_of} * {rest_of} : 0; j < rows; j++) {{"));
            }
            Axis::Lines { at_once, .. } => {
                self.open(&format!("for (i64 j = 0; prefetch < 2 && j + {at_once} <= rows; j += {at_once}) {{"));
            }
            Axis::Together(lines) => {
                self.line(&format!("#pragma GCC unroll {lines}"));
                self.open(&format!("for (i64 u = 0; u < {lines}; u++) {{"));
            }
            Axis::Parts { columns, always } => {
                let part = if always { columns.to_string() } else { format!("stream ? {columns} : m") };
                self.open(&format!("for (i64 c = 0, all = m, part = {part}; c < all; c += part) {{"));
                self.line("const i64 m = all - c < part ? all - c : part;");
            }
            Axis::Shares | Axis::SharesBefore => {
                let end = if all.axis == Axis::Shares { "parts" } else { "part" };
                self.open(&format!("for (i64 k = 0; k < {end}; k++) {{"));
                let each = SLOT * self.nest.slots;
                self.line(&format!("const char *const of = found + (item * parts + k) * {each};"));
            }
            // The verifier refuses loops of threads.
            _ => self.open("#error threads {"),
        }
        self.loops.push(all.axis);
        if let Some(tile) = all.axis.tile() {
            self.line(&format!("const i64 from = tile * {tile}, m = n - from < {tile} ? n - from : {tile};"));
        }
        if let Axis::Columns(_) = all.axis {
            self.line("const i64 from = tile * columns, m = n - from < columns ? n - from : columns;");
        }
        if all.axis == Axis::Rows && self.is_split() {
            let each = SLOT * self.nest.slots;
            self.line(&format!("char *const own = found + (item * parts + part) * {each};"));
        }
        self.stmts(&all.body);
        self.end_of(all.axis);
        self.loops.pop();
        if all.axis == Axis::Pieces {
            self.close();
        }
        self.close();
    }

    /// The pieces of a row, whose offsets are stepped.
    fn pieces(&mut self) {
        let accesses = self.nest.accesses.len();
        self.open("{");
        self.line(&format!("i64 along[64] = {{0}}, o[{accesses}] = {{0}};"));
        let (first, end) = self.range_of_pieces();
        if self.is_split() {
            let first = "jo_first(shape + kept, rank, last - kept, first_block, strides + kept";
            self.line(&format!("if (blocks > 0) {first}, {accesses}, along + kept, o);"));
        }
        self.open(&format!("for (i64 b = {first}; b < {end}; b++) {{"));
    }

    fn is_split(&self) -> bool {
        self.nest.direction == Direction::Split
    }

    fn range_of_pieces(&self) -> (&'static str, &'static str) {
        if self.is_split() { ("first_block", "end_block") } else { ("0", "blocks") }
    }

    fn blocks(&mut self, size: usize, first: Option<(usize, usize)>) {
        let is_outer = self.nest.direction == Direction::Outer;
        let (at, many) = if is_outer { ("first", "rows") } else { ("from", "m") };
        let (left, right) = if self.is_split() { ("left", "right") } else { ("0", "width") };
        let size_text = size.to_string();
        let (most, step) = if first.is_some() { (", most", "most") } else { ("", size_text.as_str()) };
        self.open(&format!("for (i64 {at} = {left}{most}; {at} < {right}; {at} += {step}) {{"));
        if let Some((counter, first)) = first {
            self.line(&format!("most = {} > 0 ? {size} : {first};", self.variable(counter)));
        }
        self.line(&format!("const i64 {many} = {right} - {at} < {step} ? {right} - {at} : {step};"));
    }

    /// From one iteration to the next.
    fn end_of(&mut self, axis: Axis) {
        let accesses = self.nest.accesses.len();
        match axis {
            Axis::Tiles(_) | Axis::Rows | Axis::Columns(_) => {
                if self.is_split() {
                    self.line("next:");
                }
                self.line("if (++tile < tiles) continue;");
                self.line("tile = 0;");
                self.line(&format!("jo_next(shape, rank, 0, kept, strides, {accesses}, at, place);"));
            }
            Axis::Sides(_) => {
                self.line("at[kept - 1] += side - 1;");
                let step = "place[k] += (side - 1) * strides[k * rank + kept - 1];";
                self.line(&format!("for (i64 k = 0; k < {accesses}; k++) {step}"));
                self.line(&format!("jo_next(shape, rank, 0, kept, strides, {accesses}, at, place);"));
            }
            Axis::Pieces => {
                let end = self.range_of_pieces().1;
                let next = "jo_next(shape, rank, kept, last, strides";
                self.line(&format!("if (b + 1 < {end}) {next}, {accesses}, along, o);"));
            }
            _ => {}
        }
    }

    /// The start of an access in a tile, block or part.
    pub(super) fn open_access(&mut self, at: usize) {
        let access = &self.nest.accesses[at];
        let (name, element) = (&access.name, memory_type(access.dtype));
        let constant = if access.is_written { "" } else { "const " };
        let is_known_row = access.is_of_row && self.nest.direction != Direction::Outer;
        let from = match access.inner {
            Inner::Broadcast => String::new(),
            _ if is_known_row => String::new(),
            Inner::Unit => " + from".to_owned(),
            Inner::Strided => format!(" + from * s{at}"),
        };
        if access.inner == Inner::Strided {
            self.line(&format!("const i64 s{at} = strides[{at} * rank + rank - 1];"));
        }
        let shift = self.guard(at);
        match access.watch {
            Some(Watch { gives: Gives::Presence { .. }, .. }) => return,
            Some(Watch { gives: Gives::Index, .. }) => {
                return self.line(&format!("const i64 n{at} = place[{at}]{shift}{from};"));
            }
            _ => {}
        }
        let place = format!("({constant}{element} *)data[{at}] + place[{at}]{shift}{}{from}", self.offset_in_row(at));
        match access.streamed {
            None => self.line(&format!("{constant}{element} *restrict {name} = {place};")),
            Some(_) => {
                self.line(&format!("{element} *const to_{name} = {place};"));
                self.line(&format!("{element} *restrict {name} = stream ? l_{name} : to_{name};"));
            }
        }
        if self.at_once().is_some() {
            self.line(&format!("const i64 d{at} = strides[{at} * rank + last];"));
        }
    }

    /// Finds at which points of a tile a load is inside of its operand, and how far it is shifted.
    fn guard(&mut self, at: usize) -> String {
        let access = &self.nest.accesses[at];
        let guard = access.watch.map_or(Guard::None, |watch| watch.guard);
        if guard == Guard::None && access.watch.is_none_or(|watch| watch.gives != Gives::Index) {
            return String::new();
        }
        self.line(&format!("const i64 *const b{at} = args->bounds + {at} * (1 + 6 * rank);"));
        let is_part = access.watch.is_some_and(|watch| watch.gives == Gives::Part);
        if is_part && !access.is_written {
            return format!(" + b{at}[0]");
        }
        let is_under = matches!(guard, Guard::RowUnder | Guard::PointUnder(..));
        if is_under {
            self.line(&format!("const i64 far{at} = jo_under(b{at} + 1 + 2 * rank, kept, at);"));
        }
        let under = if is_under { format!("far{at} >= 0 && ") } else { String::new() };
        if guard != Guard::None {
            self.line(&format!("const int ok{at} = {under}jo_inside(b{at} + 1, kept, at);"));
        }
        if is_part {
            self.line(&format!("const i64 f{at} = b{at}[2 * rank - 1] - from, g{at} = b{at}[2 * rank] - from;"));
            let end = format!("e{at} = !ok{at} ? l{at} : g{at} < m ? g{at} : m");
            self.line(&format!("const i64 l{at} = f{at} > 0 ? f{at} : 0, {end};"));
        } else if guard.is_of_point() {
            let ends = format!("e{at} = ok{at} ? b{at}[2 * rank] - from : l{at}");
            self.line(&format!("const i64 l{at} = b{at}[2 * rank - 1] - from, {ends};"));
        }
        if let Guard::PointUnder(..) = guard {
            let stride = format!("t{at} = b{at}[6 * rank]");
            self.line(&format!("const i64 q{at} = b{at}[6 * rank - 3] + from, {stride};"));
        }
        if is_under { format!(" + b{at}[0] + far{at}") } else { format!(" + b{at}[0]") }
    }

    /// The offset of an access from the beginning of its row.
    fn offset_in_row(&self, at: usize) -> String {
        let (inner, is_of_row) = (self.nest.accesses[at].inner, self.nest.accesses[at].is_of_row);
        let offset = |axis: &Axis| match axis {
            // An access with one element per row does not advance within it.
            Axis::Pieces if !is_of_row => format!(" + o[{at}]"),
            Axis::Side => format!(" + r * strides[{at} * rank + kept - 1]"),
            Axis::Lines { .. } => format!(" + (first + j) * strides[{at} * rank + last]"),
            Axis::Parts { .. } if inner == Inner::Unit => " + c".to_owned(),
            Axis::Parts { .. } if inner == Inner::Strided => format!(" + c * s{at}"),
            _ => String::new(),
        };
        self.loops.iter().map(offset).collect()
    }

    /// One loop that prefetches a cache line of each access at a time.
    pub(super) fn prefetch(&mut self, accesses: &[usize], ahead: Distance, step: usize) {
        let when = match ahead {
            Distance::NextRow(most) => format!("prefetch && kept > 0 && blocks * width <= {most}"),
            _ => "prefetch".to_owned(),
        };
        self.open(&format!("if ({when}) for (i64 i = 0; i < m; i += {step}) {{"));
        for &at in accesses {
            let far = match ahead {
                Distance::Elements(n) => n.to_string(),
                Distance::Lines(n) => format!("({n} + m - 1) / m * strides[{at} * rank + last]"),
                Distance::NextRow(_) => format!("strides[{at} * rank + kept - 1]"),
            };
            let name = &self.nest.accesses[at].name;
            let (each, row) = match self.at_once() {
                Some(lines) => (format!("for (i64 u = 0; u < {lines}; u++) "), format!(" + u * d{at}")),
                None => (String::new(), String::new()),
            };
            self.line(&format!("{each}__builtin_prefetch({name}{row} + i + {far});"));
        }
        self.close();
    }
}
