//! The observable behaviour of a run.

use crate::sharing::Copier;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::content_names::ContentNames;
use jitopt_core::interpreter::environment::Invent;
use jitopt_core::interpreter::{Backend, Environment, Exception, IValue, Machine, Release, Stop, Watch};
use jitopt_core::ir::Graph;
use jitopt_core::tensor::Precision;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Settings shared by all runs of a comparison.
#[derive(Clone, Default)]
pub struct Settings {
    /// The release whose semantics apply; by default that of the graph's era.
    pub release: Option<Release>,
    /// The release for the graph under test, if it is another one.
    pub other_release: Option<Release>,
    /// Seed of random operators.
    pub seed: u64,
    /// Graphs that calls run.
    pub callees: Rc<BTreeMap<String, Graph>>,
    /// Contents that the text omits, by name.
    pub bindings: BTreeMap<String, IValue>,
    /// Contents of the graph under test, where its file has some of its own.
    pub other_bindings: Option<Rc<BTreeMap<String, IValue>>>,
    /// Names of the contents of the reference graph, wherever passes moved them; computed if not
    /// set.
    pub content_names: Arc<ContentNames>,
    /// Generates unbound contents.
    pub invent: Option<Invent>,
    /// Seed of generated contents.
    pub invent_seed: u64,
    /// Random numbers are keyed by the origin of nodes instead of their lineage: for two graphs
    /// that were not derived from each other here.
    pub by_origin: bool,
    /// Maximum number of nodes of a run.
    pub max_steps: Option<u64>,
    /// Time limit of a run.
    pub timeout: Option<Duration>,
    /// Runs the sections of the graph under test; the reference graph runs on the interpreter
    /// alone.
    pub backend: Option<Rc<dyn Backend>>,
}

impl Settings {
    /// The settings of runs of the graph under test.
    pub fn of_other(&self) -> Settings {
        let bindings = self.other_bindings.as_ref().map_or_else(|| self.bindings.clone(), |other| (**other).clone());
        Settings { bindings, release: self.other_release.or(self.release), ..self.clone() }
    }

    /// The names of a graph's contents: those of the graph that it was derived from; unrelated
    /// graphs must use the same names.
    pub fn names_of(&self, graph: &Graph) -> Arc<ContentNames> {
        let known = !self.content_names.is_empty() && !self.by_origin;
        match known || (self.bindings.is_empty() && self.invent.is_none()) {
            true => self.content_names.clone(),
            false => Arc::new((*self.content_names).clone().and_of(graph, &self.callees)),
        }
    }

    /// A fresh environment for one run. Bindings are copied: a run may write to them.
    pub fn environment(&self, precision: Precision, copier: &mut Copier) -> Environment {
        let mut env = Environment::default();
        env.precision = precision;
        env.release = self.release;
        env.seed = self.seed;
        env.content_names = self.content_names.clone();
        env.callees = self.callees.clone();
        env.max_steps = self.max_steps;
        env.deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        env.invent = self.invent;
        env.invent_seed = self.invent_seed;
        env.draw_by_origin = self.by_origin;
        *env.bindings.borrow_mut() = self.bindings.iter().map(|(k, v)| (k.clone(), copier.copy(v))).collect();
        env
    }
}

/// The observed behaviour of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Results, or why there are none.
    pub results: Result<Vec<IValue>, Stop>,
    /// The inputs after the run.
    pub inputs: Vec<IValue>,
    /// The text that the program printed.
    pub printed: String,
    /// Exceptions that forks raised, waited for or not.
    pub held: Vec<Exception>,
    /// The number of nodes that ran.
    pub steps: u64,
    /// Callees whose results were generated.
    pub generated_calls: BTreeSet<String>,
    /// An operator whose semantics differ between releases that print such text.
    pub ambiguity: Option<String>,
    /// Contents outside the text, such as buffers of modules, that the run wrote.
    pub written: BTreeMap<String, IValue>,
}

impl Outcome {
    /// Runs a graph on copies of the inputs.
    pub fn of(graph: &Graph, settings: &Settings, inputs: &[IValue], precision: Precision) -> Outcome {
        Outcome::watched(graph, settings, inputs, precision, None)
    }

    /// The same, with an observer.
    pub fn watched(
        graph: &Graph,
        settings: &Settings,
        inputs: &[IValue],
        precision: Precision,
        watch: Option<&mut dyn Watch>,
    ) -> Outcome {
        Outcome::of_run(graph, settings, inputs, precision, (watch, None))
    }

    /// Runs a graph under test: the backend, if there is one, runs its sections.
    pub fn judged(graph: &Graph, settings: &Settings, inputs: &[IValue], watch: Option<&mut dyn Watch>) -> Outcome {
        Outcome::of_run(graph, settings, inputs, Precision::Typed, (watch, settings.backend.as_deref()))
    }

    fn of_run(
        graph: &Graph,
        settings: &Settings,
        inputs: &[IValue],
        precision: Precision,
        (watch, backend): (Option<&mut dyn Watch>, Option<&dyn Backend>),
    ) -> Outcome {
        let mut copier = Copier::new(precision);
        let mut env = settings.environment(precision, &mut copier);
        env.content_names = settings.names_of(graph);
        let inputs: Vec<IValue> = inputs.iter().map(|value| copier.copy(value)).collect();
        let mut machine = Machine::new(graph, &env);
        if let Some(watch) = watch {
            machine = machine.watched(watch);
        }
        if let Some(backend) = backend {
            machine = machine.backed_by(backend);
        }
        let (results, steps) = run(machine, &inputs);
        let printed = env.printed.borrow().clone();
        let generated_calls = env.generated_calls.borrow().clone();
        let written = written(settings, &env.bindings.borrow());
        let held = env.held.borrow().clone();
        let ambiguity = env.ambiguity.borrow().clone();
        Outcome { results, inputs, printed, held, steps, generated_calls, ambiguity, written }
    }
}

/// Bindings that the run changed.
fn written(settings: &Settings, after: &BTreeMap<String, IValue>) -> BTreeMap<String, IValue> {
    let same = |before: &IValue, now: &IValue| differences(before, now, Tolerance::of(0.0, 0.0), "").is_empty();
    let changed = |(name, before): (&String, &IValue)| {
        after.get(name).filter(|now| !same(before, now)).map(|now| (name.clone(), now.clone()))
    };
    settings.bindings.iter().filter_map(changed).collect()
}

fn run(mut machine: Machine<'_>, inputs: &[IValue]) -> (Result<Vec<IValue>, Stop>, u64) {
    let results = machine.run(inputs.to_vec());
    (results, machine.steps())
}
