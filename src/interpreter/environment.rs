//! The settings and side effects of a run.

use super::content_names::ContentNames;
use super::ivalue::IValue;
use super::profile::Recording;
use super::random::Philox;
use super::stop::Exception;
use crate::ir::{Graph, Iteration, Iterations};
use crate::tensor::{DType, Precision};
use crate::types::Type;
pub use crate::types::release::Release;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Generates a value, given the name and type of the value that requires it.
pub type Invent = fn(&Environment, &str, Type) -> Option<IValue>;

/// The resources of a run, and its effects other than results.
#[derive(Debug, Default)]
pub struct Environment {
    /// The precision of stored floating point numbers.
    pub precision: Precision,
    /// The release whose semantics apply; `None` for the release of the graph.
    pub release: Option<Release>,
    /// The seed of random operators.
    pub seed: u64,
    /// Graphs of functions and methods, by qualified name.
    pub callees: Rc<BTreeMap<String, Graph>>,
    /// Contents of constants and objects that the text does not show, by the name of the value that
    /// they define.
    pub bindings: RefCell<BTreeMap<String, IValue>>,
    /// Names of contents that the text does not show, of the graph that they were bound for;
    /// without them, contents have the names of values.
    pub content_names: Arc<ContentNames>,
    /// The maximal number of nodes to run.
    pub max_steps: Option<u64>,
    /// Whether a search for inputs was stopped by the budget of steps or time.
    pub search_is_spent: Cell<bool>,
    /// The time at which the run gives up.
    pub deadline: Option<std::time::Instant>,
    /// The output of the program.
    pub printed: RefCell<String>,
    /// Exceptions raised in forks, waited for or not.
    pub held: RefCell<Vec<Exception>>,
    /// The warnings of the program.
    pub warned: RefCell<String>,
    /// An operator that runs differently in the releases that print such text, with the
    /// differences.
    pub ambiguity: RefCell<Option<String>>,
    /// The types observed at profiling nodes, if they are recorded.
    pub recording: RefCell<Option<Recording>>,
    /// The bailouts, with their nodes and reasons, if they are recorded.
    pub departures: RefCell<Option<Vec<String>>>,
    /// Contents that were generated, with their types.
    pub invented: RefCell<BTreeMap<String, Type>>,
    /// Callees whose results were generated.
    pub generated_calls: RefCell<BTreeSet<String>>,
    /// Generates unbound contents, given the name of the value and its type.
    pub invent: Option<Invent>,
    /// The seed of generated contents.
    pub invent_seed: u64,
    /// Whether random draws are keyed by the kind and source location of a node instead of its
    /// lineage.
    pub draw_by_origin: bool,
    /// The number of draws of a node, by its lineage and the iterations that it ran in.
    draws: RefCell<FxHashMap<(usize, u64), u64>>,
    /// The iterations of loops of the file that the next drawing node runs in.
    iterations: RefCell<Iterations>,
    /// The ends of loops that other loops continue.
    loop_ends: RefCell<FxHashMap<usize, u64>>,
    grad_disabled: Cell<bool>,
}

impl Environment {
    /// The floating point type used when none is given. No operator of a graph changes it.
    pub(crate) fn default_dtype(&self) -> DType {
        DType::Float
    }

    /// Whether the program has gradients enabled: initially true, as in PyTorch, though a run
    /// computes none.
    pub fn grad_enabled(&self) -> bool {
        !self.grad_disabled.get()
    }

    /// Sets it.
    pub(crate) fn set_grad_enabled(&self, enabled: bool) {
        self.grad_disabled.set(!enabled);
    }

    /// The random numbers of the next execution of a node in these iterations. The key is the root
    /// of its lineage, so that passes that copy, move or erase nodes leave the draws of others
    /// unchanged, including those of other iterations of an unrolled loop.
    pub(crate) fn draws(&self, root: usize, iterations: &[Iteration]) -> Philox {
        // The order in which loops nest does not count, and neither does a loop in its first
        // iteration: a loop that runs once may have been replaced by its body.
        let mixed = iterations.iter().filter(|iteration| iteration.at > 0).map(|iteration| {
            let hash = (iteration.of as u64).wrapping_mul(0x9e37_79b1_85eb_ca87) ^ iteration.at;
            hash.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31).wrapping_mul(0x9e37_79b1_85eb_ca87)
        });
        let iterations = mixed.fold(0, u64::wrapping_add);
        let mut draws = self.draws.borrow_mut();
        let n = draws.entry((root, iterations)).or_default();
        *n += 1;
        Philox::new(self.seed, root as u64 ^ iterations, *n)
    }

    /// The iterations of loops of the file that the drawing node runs in.
    pub fn iterations(&self) -> Iterations {
        self.iterations.borrow().clone()
    }

    /// Sets the iterations that the next drawing node runs in.
    pub(crate) fn set_iterations(&self, iterations: &[Iteration]) {
        let ends = self.loop_ends.borrow();
        let mut merged = Iterations::new();
        for &Iteration { of, at, continues } in iterations {
            let at = at.wrapping_add(if continues { ends.get(&of).copied().unwrap_or_default() } else { 0 });
            match merged.iter_mut().find(|iteration| iteration.of == of) {
                Some(iteration) => iteration.at = iteration.at.wrapping_add(at),
                None => merged.push(Iteration { of, at, continues: false }),
            }
        }
        *self.iterations.borrow_mut() = merged;
    }

    /// Records the end of a loop that another one continues. A loop that ran no iteration after a
    /// loop that was peeled off it ends where that did, which may have run fewer iterations than
    /// were peeled.
    pub(crate) fn end_loop(&self, mut end: Iteration, ran: bool) {
        let mut ends = self.loop_ends.borrow_mut();
        if !ran && !end.continues && ends.get(&end.of).is_some_and(|&before| before < end.at) {
            return;
        }
        if end.continues {
            end.at = end.at.wrapping_add(ends.get(&end.of).copied().unwrap_or_default());
        }
        ends.insert(end.of, end.at);
    }

    /// Whether the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| std::time::Instant::now() > end)
    }

    /// Clears the effects of a run, so that the next starts like the first.
    pub fn reset(&self) {
        self.draws.borrow_mut().clear();
        self.iterations.borrow_mut().clear();
        self.loop_ends.borrow_mut().clear();
        self.printed.borrow_mut().clear();
        self.warned.borrow_mut().clear();
        self.ambiguity.replace(None);
        self.held.borrow_mut().clear();
        self.grad_disabled.set(false);
    }
}
