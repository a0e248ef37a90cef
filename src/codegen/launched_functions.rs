//! The functions that a launch takes by the model, and their time: on a GPU a kernel has several,
//! and some launches take more than one after the other.
//!
//! ```text
//! x: Float(1, 67108864)
//! sum(x)          wide_parts, merge     1041 parts of the row, then what they have left
//! cumsum(x)       wide_parts, …1        the sums of parts, then each part with what is before it
//! x + y.t()       squares               elements of y go through shared memory
//! ```
//!
//! The order in which functions are tried is that of `runtime/wide_launch.rs`, and so are the
//! conditions: `runtime/sized_kernels.rs` asks the same functions about alignment and squares.
//! Operands are taken to begin at aligned addresses.

use super::cost_model::{Estimate, Extents, Model, Open};
use super::kernel::Direction;
use super::kernel_plan::{Grid, Plan, Wide, parts, split_phases, wide_functions, wide_of_parts};
use super::nest::build::{build, build_split, build_squares, build_wide};
use super::nest::{Nest, Split};
use super::target::{split_names, squares_name, wide_name};

/// The functions that a launch takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Launched {
    /// What their names end with, in their order; nothing for that of the plan itself.
    pub functions: Vec<String>,
    /// The time of all of them.
    pub estimate: Estimate,
}

impl Launched {
    fn of_one(name: String, estimate: Estimate) -> Launched {
        Launched { functions: vec![name], estimate }
    }

    /// The same, and then another function.
    fn then(self, name: String, next: Estimate) -> Launched {
        let functions = self.functions.into_iter().chain([name]).collect();
        Launched { functions, estimate: self.estimate.then(&next) }
    }
}

impl Model<'_> {
    /// The functions of a plan that a launch takes; none where there are no loops.
    pub fn launched(&self, plan: &Plan, open: Open) -> Option<Launched> {
        let of_split = plan.grid.filter(|grid| grid.split && !open.threads);
        if let Some(split) = of_split.and_then(|grid| self.launched_parts(plan, grid)) {
            return Some(split);
        }
        let takes_squares = plan.grid.is_some_and(|grid| grid.squares) && self.extents.squares > 0.0;
        if takes_squares {
            let nest = build_squares(self.kernel, self.traversal, plan).ok()?;
            return Some(Launched::of_one(squares_name(""), self.estimate(&nest, plan, open)));
        }
        if let Some(wide) = plan.grid.filter(|grid| grid.wide).and_then(|grid| self.launched_wide(plan, grid, open)) {
            return Some(wide);
        }
        let nest = build(self.kernel, self.traversal, plan).ok()?;
        Some(Launched::of_one(String::new(), self.estimate(&nest, plan, open)))
    }

    /// The first of the functions for contiguous elements that fits.
    fn launched_wide(&self, plan: &Plan, grid: Grid, open: Open) -> Option<Launched> {
        let functions = wide_functions(self.kernel, self.traversal, grid).into_iter();
        let built = functions.filter_map(|wide| build_wide(self.kernel, self.traversal, plan, wide).ok().flatten());
        let (number, (wide, nest)) = built.enumerate().find(|(_, (wide, _))| self.fits(*wide))?;
        let plan = Plan { grid: Some(Grid { threads: wide.threads, ..grid }), ..plan.clone() };
        let estimate = Model { wide: Some(wide), ..*self }.estimate(&nest, &plan, open);
        Some(Launched::of_one(wide_name("", number), estimate))
    }

    /// The launches of parts of rows and of what merges them, if rows are worth it to be split.
    fn launched_parts(&self, plan: &Plan, grid: Grid) -> Option<Launched> {
        let wide = wide_of_parts(self.kernel, self.traversal, grid).filter(|wide| self.fits(*wide));
        let lanes = wide.map_or(1, |wide| wide.lanes);
        let (rows, elements) = (self.rows() as i64, self.extents.count as i64);
        let wide_threads = Wide::plain(grid.threads, lanes);
        let parts = parts(self.kernel, (rows, elements), grid.rows, wide_threads)?;
        let merged = Extents { parts: parts.count as f64, ..self.extents.clone() };
        let part = Extents {
            rows: merged.rows * merged.parts,
            count: parts.elements as f64,
            pieces: (merged.pieces / merged.parts).max(1.0),
            ..merged.clone()
        };
        let mut launched: Option<Launched> = None;
        let mut add = |name: String, estimate: Estimate| {
            launched = Some(match launched.take() {
                Some(earlier) => earlier.then(name, estimate),
                None => Launched::of_one(name, estimate),
            });
        };
        for (phase, reduces) in split_phases(self.kernel, self.traversal).into_iter().enumerate() {
            let nest = |split: Split, wide: Option<Wide>| -> Option<Nest> {
                build_split(self.kernel, self.traversal, plan, (split, phase, wide)).ok()
            };
            let [own_name, wide_name, merge_name] = split_names("", phase);
            let (parts, name) = (nest(Split::Parts, wide)?, if wide.is_some() { wide_name } else { own_name });
            add(name, Model { extents: &part, wide, ..*self }.estimate(&parts, plan, Open::default()));
            if reduces {
                let merge = nest(Split::Merge, None)?;
                add(merge_name, Model { extents: &merged, ..*self }.estimate(&merge, plan, Open::default()));
            }
        }
        launched
    }

    /// Rows, of which a thread or a block takes one at a time.
    pub(crate) fn rows(&self) -> f64 {
        let Extents { rows, inner, .. } = *self.extents;
        match self.traversal.direction {
            Direction::Points | Direction::Outer => rows * inner,
            _ => rows,
        }
    }

    /// Whether threads take several elements of rows of this length at once.
    fn fits(&self, wide: Wide) -> bool {
        let Extents { count, pieces, at_once, .. } = *self.extents;
        let has_points = self.traversal.direction == Direction::Points;
        wide.lanes <= at_once && (has_points || wide.fits(count as i64, if pieces > 1.0 { 2 } else { 1 }))
    }
}
