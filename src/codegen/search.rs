//! Search of the plan that takes least by the model, with A*.
//!
//! A [`Space`] has variables, each with a few options: the loops of a kernel and what their
//! iterations are bound to, sizes of tiles and blocks, what begins a loop of its own and what is
//! kept. A state is a partial plan: options for the first variables. Each move gives the next one
//! an option, and is pruned where constraints forbid it.
//!
//! ```text
//! rows = ?                                  bound 9.2 us      the floor of the kernel
//! rows = blocks                             bound 9.2 us
//! rows = blocks, elements = blocks          pruned: nested loops over one resource
//! rows = blocks, elements = threads         bound 9.4 us      blocks of a yet unknown size
//! … threads = 256                           9.9 us            a plan
//! ```
//!
//! The heuristic is admissible: the bound of a partial plan is the model's time with counts that
//! are as low as for the best choice of each open variable, taken apart. No lane idles, no loop has
//! a head but those of rows, nothing is merged between blocks of a row, and stores come in the best
//! bursts. Where loops are not known yet it is the floor of the kernel: each distinct element moves
//! once, and each step is computed once. The time grows with each count, so no plan below a state
//! takes less than its bound, and the first plan that leaves the queue is the best one.
//!
//! The plan that heuristics choose is the first upper bound: what has no lower bound than it is
//! not looked at.

mod loop_bindings;
mod plan_choices;

use super::cost_model::{Estimate, Model, Open};
use super::kernel_plan::Plan;
use super::target::Target;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A variable of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, as plans spell it.
    pub name: String,
    /// Its options.
    pub options: Vec<String>,
}

/// A space of plans.
pub trait Space {
    /// The variables, in the order in which they are given options.
    fn variables(&self) -> &[Variable];
    /// Whether data are consistent if the first variables have these options.
    ///
    /// # Errors
    /// The constraint that is violated by the last one.
    fn consistent(&self, options: &[usize]) -> Result<(), String>;
    /// The first variable from which on no option depends on another of them.
    fn independent(&self) -> usize {
        self.variables().len()
    }
    /// The plan of these options, if loops can be made of it.
    fn plan(&self, options: &[usize]) -> Option<Plan>;
    /// A time that no plan falls below which has these options for the first variables.
    fn bound(&self, options: &[usize]) -> f64;
    /// The time of a plan.
    fn time(&self, plan: &Plan) -> Option<f64>;
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best plan by the model; the chosen one where no other takes less.
    pub plan: Plan,
    /// Its time in nanoseconds, by the model.
    pub time: f64,
    /// The same of the plan that heuristics choose.
    pub chosen: f64,
    /// Partial and whole plans whose bound or time was computed.
    pub evaluations: usize,
    /// Whole plans that take least, best first, for a measurement.
    pub best: Vec<(f64, Plan)>,
}

/// The size of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Variables.
    pub variables: usize,
    /// Combinations of options.
    pub whole: u64,
    /// Those in which data are consistent.
    pub consistent: u64,
}

/// A partial plan in the queue; the one with the lowest bound leaves first, and of several the one
/// that has more options.
struct State {
    bound: f64,
    options: Vec<usize>,
}

impl Ord for State {
    fn cmp(&self, other: &State) -> Ordering {
        other.bound.total_cmp(&self.bound).then(self.options.len().cmp(&other.options.len()))
    }
}

impl PartialOrd for State {
    fn partial_cmp(&self, other: &State) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for State {}

/// Times that differ by less than this share are equal.
const NOTHING: f64 = 1e-9;

/// Looks for the best plan. `most` is the number of plans that [`Found::best`] has at most; states
/// that cannot be among them are not looked at.
pub fn search(space: &dyn Space, chosen: &Plan, most: usize) -> Option<Found> {
    let chosen_time = space.time(chosen)?;
    let (mut evaluations, mut queue) = (1, BinaryHeap::new());
    let mut best = vec![(chosen_time, chosen.clone())];
    queue.push(State { bound: 0.0, options: Vec::new() });
    while let Some(State { bound, options }) = queue.pop() {
        if is_too_late(&best, most, bound) {
            break;
        }
        let Some(variable) = space.variables().get(options.len()) else { continue };
        for option in 0..variable.options.len() {
            let mut next = options.clone();
            next.push(option);
            if space.consistent(&next).is_err() {
                continue;
            }
            evaluations += 1;
            if next.len() == space.variables().len() {
                let whole = space.plan(&next).and_then(|plan| Some((space.time(&plan)?, plan)));
                keep(&mut best, whole, most);
                continue;
            }
            let bound = space.bound(&next);
            if !is_too_late(&best, most, bound) {
                queue.push(State { bound, options: next });
            }
        }
    }
    let (time, plan) = best[0].clone();
    Some(Found { plan, time, chosen: chosen_time, evaluations, best })
}

/// Whether nothing with this bound is among the best plans.
fn is_too_late(best: &[(f64, Plan)], most: usize, bound: f64) -> bool {
    let last = if best.len() < most { f64::INFINITY } else { best[best.len() - 1].0 };
    bound >= last * (1.0 - NOTHING)
}

/// Puts a plan among the best ones. Of plans that take as long the first one stays first.
fn keep(best: &mut Vec<(f64, Plan)>, whole: Option<(f64, Plan)>, most: usize) {
    let Some((time, plan)) = whole else { return };
    if best.iter().any(|(_, other)| *other == plan) {
        return;
    }
    let at = best.iter().position(|(other, _)| time < other * (1.0 - NOTHING)).unwrap_or(best.len());
    best.insert(at, (time, plan));
    best.truncate(most.max(1));
}

/// The size of a space.
pub fn size(space: &dyn Space) -> Size {
    let (all, first, mut consistent) = (space.variables(), space.independent(), 0);
    let mut count = |options: &[usize]| {
        let mut options = options.to_vec();
        let each = all[first..].iter().map(|variable| {
            options.push(0);
            let at = options.len() - 1;
            let is_consistent = |option: &usize| {
                options[at] = *option;
                space.consistent(&options).is_ok()
            };
            let found = (0..variable.options.len()).filter(is_consistent).count() as u64;
            options[at] = 0;
            found
        });
        consistent += each.product::<u64>();
    };
    each(space, first, &mut Vec::new(), &mut count);
    let whole = all.iter().map(|variable| variable.options.len() as u64).product();
    Size { variables: all.len(), whole, consistent }
}

/// Visits all consistent combinations of options for so many variables.
fn each(space: &dyn Space, until: usize, options: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if options.len() == until {
        return visit(options);
    }
    for option in 0..space.variables()[options.len()].options.len() {
        options.push(option);
        if space.consistent(options).is_ok() {
            each(space, until, options, visit);
        }
        options.pop();
    }
}

/// The space of the plans of a kernel on a target.
pub fn space_of<'k>(model: Model<'k>, target: &'k Target, chosen: &Plan) -> Box<dyn Space + 'k> {
    match chosen.grid {
        Some(grid) => Box::new(loop_bindings::Bindings::new(model, target, chosen, grid)),
        None => Box::new(plan_choices::Choices::new(model, target, chosen)),
    }
}

/// The estimate of a plan, with some of its sizes open; none where it has no loops. On a GPU it is
/// that of the function which a launch takes.
pub fn estimate(model: &Model<'_>, plan: &Plan, open: Open) -> Option<Estimate> {
    model.launched(plan, open).map(|launched| launched.estimate)
}
