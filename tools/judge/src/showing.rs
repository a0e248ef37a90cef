//! All that a run shows.

use crate::sharing::Copier;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::environment::Invent;
use jitopt_core::interpreter::ivalue::Object;
use jitopt_core::interpreter::literal_values::PATH;
use jitopt_core::interpreter::{Environment, IValue, Machine, Release, Stop, Watch};
use jitopt_core::ir::Graph;
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::Precision;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What holds for all runs of a judgement.
#[derive(Clone, Default)]
pub struct Settings {
    /// Whose eager semantics hold; by the era of the graph when nothing is said.
    pub release: Option<Release>,
    /// Seed of random operators.
    pub seed: u64,
    /// Graphs that calls run.
    pub callees: Rc<BTreeMap<String, Graph>>,
    /// What the text does not show, by name.
    pub bindings: BTreeMap<String, IValue>,
    /// Names under which constants are bound, by the root of their lineage: passes may rename values.
    pub names: Rc<BTreeMap<usize, String>>,
    /// Makes up what nobody bound.
    pub invent: Option<Invent>,
    /// Seed of what is made up.
    pub invent_seed: u64,
    /// Random draws go by where nodes come from, not by their lineage: for two graphs of which one was not made from the other here.
    pub by_origin: bool,
    /// Most nodes of one run.
    pub max_steps: Option<u64>,
    /// Longest time of one run.
    pub timeout: Option<Duration>,
}

impl Settings {
    /// An environment of its own for one run. Bindings are copied: a run may write to them.
    pub fn environment(&self, precision: Precision, copier: &mut Copier) -> Environment {
        let mut env = Environment::default();
        env.precision = precision;
        env.release = self.release;
        env.seed = self.seed;
        env.callees = self.callees.clone();
        env.max_steps = self.max_steps;
        env.deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        env.names = self.names.clone();
        env.invent = self.invent;
        env.invent_seed = self.invent_seed;
        env.draw_by_origin = self.by_origin;
        *env.bindings.borrow_mut() = self.bindings.iter().map(|(k, v)| (k.clone(), copier.copy(v))).collect();
        env
    }
}

/// What a run showed.
#[derive(Debug)]
pub struct Outcome {
    /// Results, or why there are none.
    pub results: Result<Vec<IValue>, Stop>,
    /// The inputs, as they are afterwards, and then an object that holds all that is bound, as that is afterwards.
    pub inputs: Vec<IValue>,
    /// What the program printed.
    pub printed: String,
    /// How many nodes ran.
    pub steps: u64,
    /// Callees whose results were made up.
    pub made_up_calls: BTreeSet<String>,
}

impl Outcome {
    /// Runs a graph on copies of the inputs.
    pub fn of(graph: &Graph, settings: &Settings, inputs: &[IValue], precision: Precision) -> Outcome {
        Outcome::watched(graph, settings, inputs, precision, None)
    }

    /// The same, while somebody looks on.
    pub fn watched(
        graph: &Graph,
        settings: &Settings,
        inputs: &[IValue],
        precision: Precision,
        watch: Option<&mut dyn Watch>,
    ) -> Outcome {
        let mut copier = Copier::new(precision);
        let env = settings.environment(precision, &mut copier);
        let inputs: Vec<IValue> = inputs.iter().map(|value| copier.copy(value)).collect();
        let (results, steps) = match watch {
            Some(watch) => run(Machine::new(graph, &env).watched(watch), &inputs),
            None => run(Machine::new(graph, &env), &inputs),
        };
        let bindings = env.bindings.borrow();
        results.iter().flatten().chain(&inputs).for_each(|value| forget_loaded(value, &bindings));
        let contents: Vec<(String, IValue)> =
            settings.bindings.keys().filter_map(|name| Some((name.clone(), bindings.get(name)?.clone()))).collect();
        let mut inputs = inputs;
        if !contents.is_empty() {
            inputs.push(one_object(contents));
        }
        let printed = env.printed.borrow().clone();
        let made_up_calls = env.made_up_calls.borrow().clone();
        Outcome { results, inputs, printed, steps, made_up_calls }
    }
}

fn one_object(attributes: Vec<(String, IValue)>) -> IValue {
    let attributes = RefCell::new(attributes.into_iter().collect());
    IValue::Object(Rc::new(Object { class: Symbol::new("bound"), attributes }))
}

/// Takes attributes out of objects that were bound and only read: those are told apart from what the program sets, and
/// whether a program reads them is nothing that it shows.
fn forget_loaded(value: &IValue, bindings: &BTreeMap<String, IValue>) {
    match value {
        IValue::Object(object) => forget_loaded_of(object, bindings),
        IValue::List(list) => list.borrow().iter().for_each(|value| forget_loaded(value, bindings)),
        IValue::Tuple(values) => values.iter().for_each(|value| forget_loaded(value, bindings)),
        IValue::Dict(dict) => dict.borrow().values().for_each(|value| forget_loaded(value, bindings)),
        _ => {}
    }
}

fn path_of(object: &Object) -> Option<Rc<str>> {
    match object.attributes.borrow().get(PATH) {
        Some(IValue::Str(path)) => Some(path.clone()),
        _ => None,
    }
}

fn forget_loaded_of(object: &Object, bindings: &BTreeMap<String, IValue>) {
    let Some(path) = path_of(object) else { return };
    // Taken out meanwhile: an object may hold itself.
    let mut attributes = object.attributes.take();
    attributes.retain(|name, value| {
        let path = format!("{path}.{name}");
        match (value, bindings.get(&path)) {
            (value, Some(bound)) => !is_same(value, bound),
            (IValue::Object(inner), None) if path_of(inner).as_deref() == Some(&path) => {
                forget_loaded_of(inner, bindings);
                inner.attributes.borrow().len() > 1
            }
            _ => true,
        }
    });
    *object.attributes.borrow_mut() = attributes;
}

/// Whether it is the very same memory, or the same number.
fn is_same(a: &IValue, b: &IValue) -> bool {
    match (a, b) {
        (IValue::Tensor(a), IValue::Tensor(b)) => a.is_same_view(b),
        (IValue::List(a), IValue::List(b)) => Rc::ptr_eq(a, b),
        (IValue::Dict(a), IValue::Dict(b)) => Rc::ptr_eq(a, b),
        (a, b) => differences(a, b, Tolerance::of(0.0, 0.0), "").is_empty(),
    }
}

fn run(mut machine: Machine<'_>, inputs: &[IValue]) -> (Result<Vec<IValue>, Stop>, u64) {
    let results = machine.run(inputs.to_vec());
    (results, machine.steps())
}
