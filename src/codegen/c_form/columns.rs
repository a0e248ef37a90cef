//! What depends on the innermost dimension only, such as the areas of boxes that are compared with
//! many others: one row of it is computed in front of all others, and kept.
//!
//! ```c
//! float c_b[4096];
//! for (i64 tile = 0; tile < tiles; tile++) {
//!     float *restrict u_b = c_b + from;
//!     for (i64 i = 0; i < m; i++) { …; u_b[i] = v_b; }   // %b : Tensor = aten::mul(%bw, %bh)
//! }
//! for (item = begin; …) {
//!     float *restrict u_b = c_b + from;
//!     for (i64 i = 0; i < m; i++) { const float v_b = u_b[i]; … }
//! }
//! ```
//!
//! Each share of a launch does so for itself. Rows that are longer than what is kept are another
//! pattern, in which all is computed for each row. The overlap of 1000 boxes with 1000 takes 262 us
//! so, and 279 without (Xeon with AVX-512, both in one process).

use super::{Writer, beside};
use crate::codegen::c_spelling::value_type;
use crate::codegen::kernel::Source;
use crate::codegen::plan::TARGET;
use crate::codegen::schedule::Aim;
use std::collections::BTreeSet;

impl Writer<'_> {
    /// Computes them, tile by tile.
    pub(super) fn columns(&mut self) {
        let kept = self.schedule.columns.kept.clone();
        let (Some(width), false) = (self.width_of_tile(), kept.is_empty()) else { return };
        for &i in &kept {
            let step = &self.kernel.steps[i];
            let (ty, name) = (value_type(step.out), beside('c', &step.name));
            self.line(4, &format!("{ty} {name}[{}] __attribute__((aligned(64)));", TARGET.shared));
        }
        self.line(4, "for (i64 tile = 0; tile < tiles; tile++) {");
        self.line(8, &format!("const i64 from = tile * {width}, m = n - from < {width} ? n - from : {width};"));
        let read = self.schedule.columns.all.iter().flat_map(|&i| &self.kernel.steps[i].inputs);
        let loads: BTreeSet<usize> =
            read.filter_map(|input| if let Source::Load(k) = input.source { Some(k) } else { None }).collect();
        loads.into_iter().for_each(|load| self.pointer(8, load, ""));
        self.kept_columns();
        let aims: Vec<Aim> = kept.into_iter().map(Aim::Keep).collect();
        self.elements(8, 0, &aims, self.plan.tile);
        self.line(4, "}");
    }

    /// Where those of a tile begin.
    pub(super) fn kept_columns(&mut self) {
        for i in self.schedule.columns.kept.clone() {
            let step = &self.kernel.steps[i];
            let (ty, all, own) = (value_type(step.out), beside('c', &step.name), beside('u', &step.name));
            self.line(8, &format!("{ty} *restrict {own} = {all} + from;"));
        }
    }

    /// One of them, where it is kept or read.
    pub(super) fn column(&self, step: usize) -> String {
        format!("{}[i]", beside('u', &self.kernel.steps[step].name))
    }
}
