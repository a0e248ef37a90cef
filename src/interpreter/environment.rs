//! What holds for a run.

use super::content_names::ContentNames;
use super::ivalue::IValue;
use super::profile::Recording;
use super::random::Philox;
use super::stop::Exception;
use crate::ir::{Graph, Turn, Turns};
use crate::tensor::{DType, Precision};
use crate::types::Type;
pub use crate::types::release::Release;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Makes a value up, given the name of the value that wants it and its type.
pub type Invent = fn(&Environment, &str, Type) -> Option<IValue>;

/// What a run may use, and what it leaves behind besides results.
#[derive(Debug, Default)]
pub struct Environment {
    /// How many bits of reals are kept.
    pub precision: Precision,
    /// The release whose semantics hold; that of the graph when none is given.
    pub release: Option<Release>,
    /// Seed of random operators.
    pub seed: u64,
    /// Graphs of functions and methods, by qualified name.
    pub callees: Rc<BTreeMap<String, Graph>>,
    /// Contents of constants and objects that the text does not show, by the name of the value that they define.
    pub bindings: RefCell<BTreeMap<String, IValue>>,
    /// What contents are called that the text does not show, of the graph that they were bound for; without, they go by the names of values.
    pub content_names: Rc<ContentNames>,
    /// Most nodes to run.
    pub max_steps: Option<u64>,
    /// Whether a search for inputs was stopped by the budget of steps or time.
    pub search_is_spent: Cell<bool>,
    /// When to give up.
    pub deadline: Option<std::time::Instant>,
    /// What the program printed.
    pub printed: RefCell<String>,
    /// What forks raised, waited for or not.
    pub held: RefCell<Vec<Exception>>,
    /// What it warned of.
    pub warned: RefCell<String>,
    /// An operator that releases which print such text run differently, and how.
    pub ambiguity: RefCell<Option<String>>,
    /// What comes by at nodes that look, when somebody records that.
    pub recording: RefCell<Option<Recording>>,
    /// Where graphs were left for their templates, and why, when somebody wants to know.
    pub departures: RefCell<Option<Vec<String>>>,
    /// Contents that were invented, with their types.
    pub invented: RefCell<BTreeMap<String, Type>>,
    /// Callees whose results were made up.
    pub made_up_calls: RefCell<BTreeSet<String>>,
    /// Invents what nobody bound, given the name of the value and its type.
    pub invent: Option<Invent>,
    /// Seed of what is invented.
    pub invent_seed: u64,
    /// Random draws go by kind and source location of a node instead of its lineage.
    pub draw_by_origin: bool,
    /// How often a node drew, by its place and the iterations that it ran in.
    draws: RefCell<FxHashMap<(usize, u64), u64>>,
    /// The iterations of loops of the file that the node runs in which draws next.
    turns: RefCell<Turns>,
    /// Where loops ended that others go on for.
    loop_ends: RefCell<FxHashMap<usize, u64>>,
    default_dtype: Cell<Option<DType>>,
    grad_disabled: Cell<bool>,
}

impl Environment {
    /// The type of real numbers where none is asked for.
    pub fn default_dtype(&self) -> DType {
        self.default_dtype.get().unwrap_or(DType::Float)
    }

    /// Changes it.
    pub fn set_default_dtype(&self, dtype: DType) {
        self.default_dtype.set(Some(dtype));
    }

    /// Whether the program may ask for gradients: it may until it says otherwise, as in PyTorch, though a run computes none.
    pub fn grad_enabled(&self) -> bool {
        !self.grad_disabled.get()
    }

    /// Changes it.
    pub fn set_grad_enabled(&self, enabled: bool) {
        self.grad_disabled.set(!enabled);
    }

    /// The random numbers of the next execution of a node in these iterations, told apart by the
    /// root of its
    /// lineage, so that passes that copy, move or erase nodes leave the draws of others as they
    /// are: also
    /// those of other iterations of a loop that was unrolled.
    pub fn draws(&self, root: usize, turns: &[Turn]) -> Philox {
        // The order in which loops nest does not count, and neither does a loop that is in its
        // first iteration: one
        // that runs once may have been dissolved.
        let mixed = turns.iter().filter(|turn| turn.at > 0).map(|turn| {
            let hash = (turn.of as u64).wrapping_mul(0x9e37_79b1_85eb_ca87) ^ turn.at;
            hash.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(31).wrapping_mul(0x9e37_79b1_85eb_ca87)
        });
        let turns = mixed.fold(0, u64::wrapping_add);
        let mut draws = self.draws.borrow_mut();
        let n = draws.entry((root, turns)).or_default();
        *n += 1;
        Philox::new(self.seed, root as u64 ^ turns, *n)
    }

    /// The iterations of loops of the file that the node runs in which draws.
    pub fn turns(&self) -> Turns {
        self.turns.borrow().clone()
    }

    /// Tells in which iterations the node runs that draws next.
    pub fn set_turns(&self, turns: &[Turn]) {
        let ends = self.loop_ends.borrow();
        let mut merged = Turns::new();
        for &Turn { of, at, continues } in turns {
            let at = at.wrapping_add(if continues { ends.get(&of).copied().unwrap_or_default() } else { 0 });
            match merged.iter_mut().find(|turn| turn.of == of) {
                Some(turn) => turn.at = turn.at.wrapping_add(at),
                None => merged.push(Turn { of, at, continues: false }),
            }
        }
        *self.turns.borrow_mut() = merged;
    }

    /// Notes that a loop has ended which another one goes on for. One that ran nothing after a
    /// loop that was peeled off
    /// ends where that did, which may have run fewer iterations than were taken off.
    pub fn end_loop(&self, mut end: Turn, ran: bool) {
        let mut ends = self.loop_ends.borrow_mut();
        if !ran && !end.continues && ends.get(&end.of).is_some_and(|&before| before < end.at) {
            return;
        }
        if end.continues {
            end.at = end.at.wrapping_add(ends.get(&end.of).copied().unwrap_or_default());
        }
        ends.insert(end.of, end.at);
    }

    /// Whether the time is up.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| std::time::Instant::now() > end)
    }

    /// Forgets what a run left behind, so that the next starts as the first.
    pub fn reset(&self) {
        self.draws.borrow_mut().clear();
        self.turns.borrow_mut().clear();
        self.loop_ends.borrow_mut().clear();
        self.printed.borrow_mut().clear();
        self.warned.borrow_mut().clear();
        self.ambiguity.replace(None);
        self.held.borrow_mut().clear();
        self.grad_disabled.set(false);
    }
}
