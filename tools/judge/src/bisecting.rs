//! Finds the rewrites that make a pipeline produce wrong results.
//!
//! Rewrites are numbered across rules and passes as they come up, and a gate enables some of them.
//! First, bisection finds the shortest failing prefix; then delta debugging removes the rewrites
//! that the failure does not need, in ever smaller pieces (Zeller and Hildebrandt, "Simplifying and
//! isolating failure-inducing input", 2002). The state is the text of a gate, `*=3:17`; nothing is
//! stored on disk. The candidates of each step are tried in parallel, and the result does not
//! depend on the number of threads.

use crate::team::Seat;
use jitopt_core::interpreter::profile::Profile;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Gate, Observer, PassRun, Pipeline, Rewrite, RewriteWatch, RunError, Session, Step, run};
use jitopt_core::verify;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The subject of a search: a graph, a pipeline, and a check of its result.
pub struct Suspect<'a> {
    /// The input graph.
    pub graph: &'a Graph,
    /// The pipeline under test.
    pub pipeline: &'a Pipeline,
    /// Graphs that `inline` substitutes for calls.
    pub callees: &'a BTreeMap<String, Graph>,
    /// Time limit of each run of the pipeline.
    pub timeout: Option<Duration>,
    /// The profile of the graph, for the passes that read it.
    pub profile: Option<&'a Profile>,
    /// The failure of a transformed graph, or `None`.
    pub check: &'a dyn Fn(&Graph) -> Option<String>,
    /// This thread's seat in the parallel search.
    pub seat: Seat,
    /// Progress callback: how many rewrites may still be at fault, and how many sets were tried.
    pub progress: &'a dyn Fn(u64, usize),
    /// Whether the pipeline exceeded its time limit; no further run is started.
    pub late: Cell<bool>,
}

/// The result of a search.
#[derive(Debug)]
pub enum Culprit {
    /// The pipeline exceeded its time limit.
    Late,
    /// The pipeline does not fail.
    Innocent,
    /// It fails without any rewrite: the first pass after which it does, and the failure.
    Pass(String, String),
    /// A 1-minimal set of rewrites that makes it fail.
    Rewrites {
        /// Their numbers, in the form of `--debug-counter='*=…'`.
        numbers: Vec<u64>,
        /// The rewrites.
        rewrites: Vec<Rewrite>,
        /// The failure.
        failure: String,
    },
}

/// Maximum number of pipeline runs while the set of rewrites is minimised.
const MOST_RUNS: usize = 2000;

/// Number of parts into which a failing range is cut. Fewer would leave threads idle; more would
/// cost a single thread: it tries 2.25 prefixes for what bisection learns from 2.
const PARTS: u64 = 4;

/// Verifies the graph after each pass.
struct Valid;

impl Observer for Valid {
    fn goes_inside(&self) -> bool {
        true
    }

    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        let report = verify::verify(graph);
        match report.errors().next() {
            Some(error) => Err(RunError::Broken { pass: run.stage.pass.name, report: error.message.clone() }),
            None => Ok(()),
        }
    }
}

/// Records rewrites.
struct Collector(Rc<RefCell<Vec<Rewrite>>>);

impl RewriteWatch for Collector {
    fn rewritten(&mut self, _: &Graph, rewrite: &Rewrite) -> Result<(), String> {
        self.0.borrow_mut().push(rewrite.clone());
        Ok(())
    }
}

/// The text of a gate that enables these rewrites: `3-5:9`, and `0` for none.
pub fn ranges(numbers: &[u64]) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    if parts.is_empty() {
        return "0".to_owned();
    }
    let text = |&(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(text).collect::<Vec<_>>().join(":")
}

impl Suspect<'_> {
    /// Runs the pipeline with only these rewrites; returns the failure and the number of rewrites
    /// that came up.
    fn attempt(
        &self,
        pipeline: &Pipeline,
        allowed: &str,
        seen: Option<&Rc<RefCell<Vec<Rewrite>>>>,
    ) -> (Option<String>, u64) {
        if self.late.get() {
            return (None, 0);
        }
        let mut gate = Gate::default();
        gate.add_counter(&format!("*={allowed}")).expect("the ranges are made here");
        let profile = self.profile.cloned().map(Rc::new);
        let deadline = self.timeout.and_then(|time| Instant::now().checked_add(time));
        let mut session = Session { gate, callees: self.callees.clone(), profile, deadline, ..Session::default() };
        session.watch = seen.map(|seen| Box::new(Collector(seen.clone())) as Box<dyn RewriteWatch>);
        let mut graph = self.graph.clone();
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut graph, pipeline, &mut session, &mut [&mut Valid])));
        let failure = match ran {
            Err(_) => Some("the pipeline panics".to_owned()),
            Ok(Err(RunError::Late)) => {
                self.late.set(true);
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(())) => (self.check)(&graph),
        };
        (failure, session.gate.came_up())
    }

    fn fails(&self, numbers: &[u64]) -> Option<String> {
        self.attempt(self.pipeline, &ranges(numbers), None).0
    }

    /// Runs the search.
    pub fn find(&self) -> Culprit {
        let found = self.search();
        if self.late.get() { Culprit::Late } else { found }
    }

    fn search(&self) -> Culprit {
        let (failure, total) = self.attempt(self.pipeline, &format!("1-{}", u64::MAX), None);
        if failure.is_none() {
            return Culprit::Innocent;
        }
        if let Some(failure) = self.fails(&[]) {
            return self.pass_at_fault("0", failure);
        }
        let numbers = self.fewest((1..=self.failing_prefix(total)).collect());
        let seen = Rc::default();
        let (failure, _) = self.attempt(self.pipeline, &ranges(&numbers), Some(&seen));
        let rewrites = seen.borrow().clone();
        if rewrites.is_empty() {
            // It failed before the first of these rewrites was done.
            return self.pass_at_fault(&ranges(&numbers), failure.unwrap_or_default());
        }
        Culprit::Rewrites { numbers, rewrites, failure: failure.unwrap_or_default() }
    }

    /// The length of a failing prefix of all rewrites whose next shorter prefix does not fail.
    fn failing_prefix(&self, total: u64) -> u64 {
        let (mut right, mut wrong, mut tried) = (0, total, 0);
        while wrong - right > 1 {
            (self.progress)(wrong - right, tried);
            let cuts = cuts(right, wrong);
            let fails = |i: usize| self.fails(&(1..=cuts[i]).collect::<Vec<u64>>()).is_some();
            let first = self.seat.first(0..cuts.len(), fails);
            tried += first.map_or(cuts.len(), |i| i + 1);
            let last_right = first.unwrap_or(cuts.len()).checked_sub(1);
            right = last_right.map_or(right, |i| cuts[i]);
            wrong = first.map_or(wrong, |i| cuts[i]);
        }
        wrong
    }

    /// The first pass after which the graph is wrong, if no rewrite is at fault.
    fn pass_at_fault(&self, allowed: &str, failure: String) -> Culprit {
        for n in 0..=self.pipeline.steps.len() {
            let mut prefix = self.pipeline.clone();
            prefix.steps.truncate(n);
            if let (Some(failure), _) = self.attempt(&prefix, allowed, None) {
                let name = n.checked_sub(1).map_or("the input".to_owned(), |i| step_name(&self.pipeline.steps[i]));
                return Culprit::Pass(name, failure);
            }
        }
        Culprit::Pass("the pipeline".to_owned(), failure)
    }

    /// Removes rewrites that the failure does not need, in halves first and one by one at last.
    fn fewest(&self, mut numbers: Vec<u64>) -> Vec<u64> {
        let (mut size, mut runs) = (numbers.len().div_ceil(2), 0);
        while size > 0 && numbers.len() > 1 {
            let (mut at, mut shrunk) = (0, false);
            while at < numbers.len() && runs < MOST_RUNS {
                (self.progress)(numbers.len() as u64, runs);
                let after = |i: usize| numbers.get(at + (i + 1) * size..).unwrap_or_default();
                let without = |i: usize| [&numbers[..at + i * size], after(i)].concat();
                let fails = |rest: &[u64]| !rest.is_empty() && self.fails(rest).is_some();
                let pieces = (numbers.len() - at).div_ceil(size).min(MOST_RUNS - runs);
                let found = self.seat.first(0..pieces, |i| fails(&without(i)));
                runs += found.map_or(pieces, |i| i + 1);
                let Some(piece) = found else { break };
                let rest = without(piece);
                (numbers, shrunk) = (rest, true);
                at += piece * size;
            }
            size = if shrunk && size == 1 { 1 } else { size / 2 };
            if runs >= MOST_RUNS {
                break;
            }
        }
        numbers
    }
}

/// The interior points that cut a range, without duplicates.
fn cuts(right: u64, wrong: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (1..PARTS).map(|i| right + (wrong - right) * i / PARTS).collect();
    cuts.dedup();
    cuts.retain(|cut| *cut > right);
    cuts
}

fn step_name(step: &Step) -> String {
    match step {
        Step::Pass(stage) => stage.pass.name.to_owned(),
        Step::Named(named, _) => format!("@{}", named.name.trim_start_matches('@')),
        Step::Fixpoint(..) => "a fixpoint".to_owned(),
        Step::Inside(side, _) => format!("{}(…)", side.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_inside() {
        for wrong in 2..200 {
            let cuts = cuts(0, wrong);
            assert!(!cuts.is_empty() && cuts.iter().all(|cut| (1..wrong).contains(cut)), "{wrong}: {cuts:?}");
            assert!(cuts.is_sorted_by(|a, b| a < b), "{wrong}: {cuts:?}");
        }
    }

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3:7:9-10");
        assert_eq!(ranges(&[]), "0");
    }
}
