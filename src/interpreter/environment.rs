//! What holds for a run.

use super::content_names::ContentNames;
use super::ivalue::IValue;
use super::profile::Recording;
use super::random::Philox;
use super::stop::Exception;
use crate::ir::Graph;
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
    draws: RefCell<FxHashMap<usize, u64>>,
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

    /// The random numbers of the next execution of a node, told apart by the root of its lineage, so that passes that copy, move or
    /// erase nodes leave the draws of others as they are.
    pub fn draws(&self, root: usize) -> Philox {
        let mut draws = self.draws.borrow_mut();
        let n = draws.entry(root).or_default();
        *n += 1;
        Philox::new(self.seed, root as u64, *n)
    }

    /// Whether the time is up.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|end| std::time::Instant::now() > end)
    }

    /// Forgets what a run left behind, so that the next starts as the first.
    pub fn reset(&self) {
        self.draws.borrow_mut().clear();
        self.printed.borrow_mut().clear();
        self.warned.borrow_mut().clear();
        self.ambiguity.replace(None);
        self.held.borrow_mut().clear();
        self.grad_disabled.set(false);
    }
}
