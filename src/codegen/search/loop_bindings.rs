//! Plans for blocks of threads: which loop is bound to blocks, which to threads, and how many
//! threads a block has.
//!
//! Data are consistent if
//!
//! - nested loops are not bound to the same resource: the inner one would run only the iterations
//!   of the block, or thread, that runs the outer one. Points are an exception: nothing is between
//!   the loops, so both together are one loop over blocks and threads;
//! - no loop over elements that reduces is bound to blocks: what it reduces is read in a later
//!   phase, by all blocks, and blocks do not wait for each other;
//! - no loop over elements whose order matters, that of a scan, is bound to anything.
//!
//! How many elements a thread takes at once comes last: one, or several where operands are
//! contiguous, by the function that the launch takes.
//!
//! Not all consistent bindings have loops that the nest can be built with: all phases of a row are
//! by one thread or by the threads of a block, so far.

use super::{Space, Variable, estimate};
use crate::codegen::cost_model::{Model, Open};
use crate::codegen::kernel::Direction;
use crate::codegen::kernel_plan::{Grid, Plan, RowsBy};
use crate::codegen::loop_structure::{Aim, Loops};
use crate::codegen::target::Target;
use std::cell::RefCell;

/// The binding of the iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binding {
    Blocks,
    Threads,
    Both,
    Sequential,
}

/// Each with its name.
const BINDINGS: [(Binding, &str); 4] = [
    (Binding::Blocks, "blocks"),
    (Binding::Threads, "threads"),
    (Binding::Both, "blocks and threads"),
    (Binding::Sequential, "sequential"),
];
/// Threads of a block: powers of two from a warp to what devices allow.
const THREADS: [usize; 6] = [32, 64, 128, 256, 512, 1024];
/// How rows are computed: what rows and elements are bound to.
const FORMS: [(RowsBy, Binding, Binding); 2] =
    [(RowsBy::Thread, Binding::Both, Binding::Sequential), (RowsBy::Block, Binding::Blocks, Binding::Threads)];

/// A loop of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loop {
    /// Whether it is in the loop over rows.
    is_nested: bool,
    /// Whether something is reduced in it that a later phase reads.
    reduces: bool,
    /// Whether the order of its iterations matters.
    is_ordered: bool,
}

/// The space of bindings.
pub(super) struct Bindings<'k> {
    model: Model<'k>,
    target: &'k Target,
    base: Plan,
    grid: Grid,
    loops: Vec<Loop>,
    variables: Vec<Variable>,
    /// The bound of each form with threads open.
    bounds: RefCell<Vec<(RowsBy, f64)>>,
}

impl<'k> Bindings<'k> {
    pub(super) fn new(model: Model<'k>, target: &'k Target, chosen: &Plan, grid: Grid) -> Bindings<'k> {
        let (mut loops, mut names) = (Vec::new(), Vec::new());
        let is_points = model.traversal.direction == Direction::Points;
        let row = Loop { is_nested: false, reduces: false, is_ordered: false };
        let mut add = |name: String, one: Loop| {
            names.push(name);
            loops.push(one);
        };
        for dim in 0..if is_points { model.extents.dims } else { 1 } {
            add(
                if is_points { format!("dimension {dim}") } else { "rows".to_owned() },
                Loop { is_nested: dim > 0, ..row },
            );
        }
        let structure = Loops::new(model.kernel, model.traversal, chosen);
        for phase in 0..if is_points { 0 } else { structure.phases } {
            let aims = structure.aims(phase);
            let reduces = aims.iter().any(|aim| matches!(aim, Aim::Reduce(_)));
            let steps = structure.steps(phase, &aims);
            let is_ordered = steps.iter().any(|&i| model.kernel.steps[i].scan.is_some());
            if !aims.is_empty() {
                add(format!("elements of phase {phase}"), Loop { is_nested: true, reduces, is_ordered });
            }
        }
        let bindings: Vec<String> = BINDINGS.iter().map(|row| row.1.to_owned()).collect();
        let mut variables: Vec<Variable> =
            names.into_iter().map(|name| Variable { name, options: bindings.clone() }).collect();
        let threads = THREADS.iter().map(usize::to_string).collect();
        variables.push(Variable { name: "threads of a block".to_owned(), options: threads });
        if grid.with_others(model.kernel, model.traversal).wide {
            let options = ["one", "several"].map(str::to_owned).to_vec();
            variables.push(Variable { name: "elements at once".to_owned(), options });
        }
        Bindings { model, target, base: chosen.clone(), grid, loops, variables, bounds: RefCell::default() }
    }

    fn is_points(&self) -> bool {
        self.model.traversal.direction == Direction::Points
    }

    /// The forms that these options are the beginning of.
    fn forms(&self, options: &[usize]) -> Vec<RowsBy> {
        let has_form = |&&(_, rows, elements): &&(RowsBy, Binding, Binding)| {
            options.iter().take(self.loops.len()).enumerate().all(|(at, &option)| {
                let wanted = if self.loops[at].is_nested && !self.is_points() { elements } else { rows };
                BINDINGS[option].0 == wanted
            })
        };
        let fits = |&&(form, ..): &&(RowsBy, Binding, Binding)| form == RowsBy::Thread || !self.is_points();
        FORMS.iter().filter(fits).filter(has_form).map(|row| row.0).collect()
    }

    fn of_form(&self, rows: RowsBy, threads: usize, is_wide: bool) -> Plan {
        let grid = Grid { rows, threads, ..self.grid };
        let grid = grid.with_others(self.model.kernel, self.model.traversal);
        Plan { grid: Some(Grid { wide: grid.wide && is_wide, ..grid }), ..self.base.clone() }
    }

    /// The least time of the functions for contiguous elements, which have their own threads.
    fn least_of_wide(&self, rows: RowsBy) -> f64 {
        let time = |threads| self.time(&self.of_form(rows, threads, true));
        THREADS.into_iter().filter_map(time).fold(f64::INFINITY, f64::min)
    }

    /// The time of a form that no number of threads falls below.
    fn bound_of(&self, rows: RowsBy) -> f64 {
        if let Some(known) = self.bounds.borrow().iter().find(|known| known.0 == rows) {
            return known.1;
        }
        let open = Open { threads: true, ..Open::default() };
        // More threads merge more states.
        let plan = self.of_form(rows, THREADS[0], false);
        let bound = estimate(&self.model, &plan, open).map_or(f64::INFINITY, |one| one.time());
        let bound = bound.min(self.least_of_wide(rows));
        self.bounds.borrow_mut().push((rows, bound));
        bound
    }
}

/// Nested loops may not be bound to the same resource, unless they are fused to one loop.
fn share_a_resource(outer: Binding, inner: Binding, are_points: bool) -> bool {
    match (outer, inner) {
        (Binding::Sequential, _) | (_, Binding::Sequential) => false,
        (Binding::Both, Binding::Both) => !are_points,
        (Binding::Blocks, Binding::Threads) | (Binding::Threads, Binding::Blocks) => false,
        _ => true,
    }
}

/// The result that a loop over blocks reduces is read across blocks.
fn is_read_across_blocks(one: Loop, binding: Binding) -> bool {
    one.reduces && matches!(binding, Binding::Blocks | Binding::Both)
}

/// Iterations whose order matters run one after the other.
fn is_out_of_order(one: Loop, binding: Binding) -> bool {
    one.is_ordered && binding != Binding::Sequential
}

impl Space for Bindings<'_> {
    fn variables(&self) -> &[Variable] {
        &self.variables
    }

    fn consistent(&self, options: &[usize]) -> Result<(), String> {
        let Some(last) = options.len().checked_sub(1).filter(|&last| last < self.loops.len()) else { return Ok(()) };
        let (one, binding) = (self.loops[last], BINDINGS[options[last]].0);
        let around = |at: &usize| one.is_nested && (self.is_points() || *at == 0);
        let outer: Vec<Binding> = (0..last).filter(around).map(|at| BINDINGS[options[at]].0).collect();
        if outer.iter().any(|&outer| share_a_resource(outer, binding, self.is_points())) {
            return Err("nested loops are bound to the same resource".to_owned());
        }
        if is_read_across_blocks(one, binding) {
            return Err("what it reduces is read across blocks".to_owned());
        }
        match is_out_of_order(one, binding) {
            true => Err("its iterations are used out of order".to_owned()),
            false => Ok(()),
        }
    }

    fn plan(&self, options: &[usize]) -> Option<Plan> {
        let form = self.forms(options).first().copied()?;
        let threads = THREADS[*options.get(self.loops.len())?];
        let plan = self.of_form(form, threads, options.get(self.loops.len() + 1) == Some(&1));
        (self.target.check)(self.model.kernel, self.model.traversal, &plan).ok().map(|()| plan)
    }

    fn bound(&self, options: &[usize]) -> f64 {
        let forms = self.forms(options);
        forms.into_iter().map(|form| self.bound_of(form)).fold(f64::INFINITY, f64::min)
    }

    fn time(&self, plan: &Plan) -> Option<f64> {
        estimate(&self.model, plan, Open::default()).map(|one| one.time())
    }
}
