//! Bodies of forks on other threads, with the results, exceptions and random numbers that they have
//! where they stand.
//!
//! A body runs elsewhere if it is apart from the rest: it writes only to memory of its own, draws
//! no random numbers, prints nothing and calls nothing. It gets its operands, and the contents that
//! it reads, as they are when it is forked: what the program writes meanwhile is written to a copy.
//! A result that is a view of an operand is one afterwards, too. Each thread has a backend of its
//! own; they share compiled kernels and packed weights.

use super::{Counts, CpuBackend, Settings};
use crate::analysis::AliasDb;
use crate::entity::EntitySet;
use crate::interpreter::content_names::{ContentNames, all_graphs, contents};
use crate::interpreter::literal_values::PATH;
use crate::interpreter::parcel::Parcel;
use crate::interpreter::{Environment, ForkEffects, Future, IValue, Machine, Release, Running, Stop};
use crate::ir::{Attribute, Graph, Node, Value};
use crate::ops;
use crate::ops::declared::Declared;
use crate::ops::rules::{Carries, Nondeterminism};
use crate::runtime::engine::Engine;
use crate::runtime::fork_tasks::Task;
use crate::runtime::kept_weights::prepare;
use crate::runtime::shared_kernels::SharedKernels;
use crate::symbol::{aten, attr, prim};
use crate::tensor::Precision;
use crate::tensor::storage::{Given, Storage};
use crate::types::{Simple, Type, TypeKind};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds of a body for which another thread is worth it: several times what handing it over
/// takes.
const WORTH_A_THREAD: u64 = 200_000;
/// Backends that a thread keeps for bodies.
const MOST_BACKENDS: usize = 4;

/// The bodies of a backend.
#[derive(Debug, Default)]
pub(super) struct Forks {
    /// By the numbers of their sections; nothing for those that run where they stand.
    bodies: RefCell<FxHashMap<u64, Option<Arc<Body>>>>,
    /// The counters and remarks of the threads.
    gathered: Rc<RefCell<(Counts, Vec<String>)>>,
}

/// A body that is apart from the rest.
#[derive(Debug)]
struct Body {
    graph: Graph,
    /// The attributes that it reads of objects among its operands: the operand, and the path there.
    attributes: Vec<(usize, String)>,
    /// Whether results may be lists, which must not be those of operands.
    returns_lists: bool,
    /// The time that it took last; 0 before it has run.
    nanoseconds: AtomicU64,
}

/// Context of a body, in addition to its operands.
#[derive(Debug)]
struct Circumstances {
    settings: Settings,
    kernels: Arc<SharedKernels>,
    names: Vec<String>,
    content_names: Arc<ContentNames>,
    release: Option<Release>,
    seed: u64,
    deadline: Option<Instant>,
    is_grad_enabled: bool,
}

/// The results of a body that has run.
struct Done {
    /// The values; nothing where they cannot be handed over.
    result: Result<Option<Parcel>, Stop>,
    effects: ForkEffects,
    counts: Counts,
    remarks: Vec<String>,
}

/// A body that another thread runs, and the memories of its operands.
#[derive(Debug)]
struct Forked {
    task: Arc<Task<Done>>,
    own: Vec<Storage>,
    parcel: Arc<Parcel>,
    gathered: Rc<RefCell<(Counts, Vec<String>)>>,
    /// For results that cannot be handed over.
    again: (Arc<Body>, Arc<Circumstances>),
}

impl Forks {
    /// The counters of the threads so far.
    pub(super) fn counts(&self) -> Counts {
        self.gathered.borrow().0
    }

    /// The remarks of the threads so far.
    pub(super) fn remarks(&self) -> Vec<String> {
        self.gathered.borrow().1.clone()
    }
}

impl CpuBackend {
    /// Starts a body on another thread, if it is apart from the rest and worth it.
    pub(super) fn forked(&self, body: &Graph, operands: &[IValue], env: &Environment) -> Option<Future> {
        let threads = self.most_threads();
        let is_plain = env.precision == Precision::Typed && env.invent.is_none() && env.max_steps.is_none();
        let is_watched = env.recording.borrow().is_some() || env.departures.borrow().is_some();
        let is_usual = self.settings.plans.is_none() && Declared::current().texts().is_empty();
        if self.settings.engine != Engine::Compiled || threads < 2 || !is_plain || is_watched || !is_usual {
            return None;
        }
        let body = self.body(body)?;
        let known = body.nanoseconds.load(Ordering::Relaxed);
        if self.settings.always_threads.is_none() && (1..WORTH_A_THREAD).contains(&known) {
            return None;
        }
        let (names, found): (Vec<String>, Vec<IValue>) = body.contents(operands, env).into_iter().unzip();
        if body.returns_lists && operands.iter().chain(&found).any(has_containers) {
            return None;
        }
        found.iter().filter_map(IValue::tensor).for_each(|tensor| prepare(tensor.storage()));
        let values: Vec<IValue> = operands.iter().cloned().chain(found).collect();
        let (parcel, own) = Parcel::of(&values)?;
        let parcel = Arc::new(parcel);
        let circumstances = Arc::new(Circumstances {
            settings: self.settings.clone(),
            kernels: self.kernels.clone(),
            names,
            content_names: env.content_names.clone(),
            release: env.release,
            seed: env.seed,
            deadline: env.deadline,
            is_grad_enabled: env.grad_enabled(),
        });
        let again = (body.clone(), circumstances.clone());
        let task = {
            let parcel = parcel.clone();
            Task::offer(threads - 1, move || circumstances.done(&body, &parcel))
        };
        self.count(|counts| counts.forked += 1);
        let gathered = self.forks.gathered.clone();
        Some(Future::running(Box::new(Forked { task, own, parcel, gathered, again })))
    }

    fn body(&self, section: &Graph) -> Option<Arc<Body>> {
        let make = || Body::of(section).map(Arc::new);
        self.forks.bodies.borrow_mut().entry(section.id().number()).or_insert_with(make).clone()
    }
}

impl Body {
    /// The body of a section, if it is apart from the rest.
    fn of(section: &Graph) -> Option<Body> {
        let results: Vec<Value> = section.results(section.root()).collect();
        // A result that is an operand must stay the same value.
        let is_param = |value: &Value| section.definer(*value).is_none_or(|node| section.kind(node) == prim::PARAM);
        let mut types = results.iter().map(|&value| section.ty(value));
        if results.iter().any(is_param) || !types.clone().all(can_be_handed_over) || !is_apart(section) {
            return None;
        }
        let mut attributes = Vec::new();
        let objects = section.params(section.root()).enumerate().map(|(i, param)| (param, (i, String::new())));
        collect_attributes(section, objects.collect(), &mut attributes)?;
        let returns_lists = types.any(|ty| !is_plain(ty));
        Some(Body { graph: section.clone(), attributes, returns_lists, nanoseconds: AtomicU64::new(0) })
    }

    /// The bound contents that the body reads.
    fn contents(&self, operands: &[IValue], env: &Environment) -> BTreeMap<String, IValue> {
        let bindings = env.bindings.borrow();
        let no_callees = BTreeMap::new();
        let hidden = all_graphs(&self.graph, &no_callees).into_iter().flat_map(|(_, graph)| contents("", graph));
        let hidden = hidden.map(|content| env.content_names.get(&content.text).unwrap_or(&content.name).to_owned());
        let path = |(operand, path): &(usize, String)| match operands.get(*operand) {
            Some(IValue::Object(object)) => match object.attributes.borrow().get(PATH) {
                Some(IValue::Str(own)) => Some(format!("{own}{path}")),
                _ => None,
            },
            _ => None,
        };
        let names = hidden.chain(self.attributes.iter().filter_map(path));
        names.filter_map(|name| bindings.get(&name).cloned().map(|value| (name, value))).collect()
    }
}

impl Circumstances {
    /// Runs a body with a backend of this thread.
    fn run(&self, body: &Body, parcel: &Parcel) -> (Result<Vec<IValue>, Stop>, Environment, Counts, Vec<String>) {
        let mut operands = parcel.opened(|given| {
            let storage = Storage::of_given(given);
            if let Some(kept) = &given.kept {
                storage.keep_elsewhere(kept.clone().here(), false);
            }
            storage
        });
        let found = operands.split_off(operands.len() - self.names.len());
        let mut env = Environment::default();
        env.bindings = RefCell::new(self.names.iter().cloned().zip(found).collect());
        env.content_names = self.content_names.clone();
        (env.release, env.seed, env.deadline) = (self.release, self.seed, self.deadline);
        env.set_grad_enabled(self.is_grad_enabled);
        let (ran, counts, remarks) = with_backend(self, |backend| {
            let (before, known) = (backend.counts(), backend.remarks().len());
            let ran = Machine::new(&body.graph, &env).backed_by(backend).run(operands);
            (ran, backend.counts().since(&before), backend.remarks().split_off(known))
        });
        (ran, env, counts, remarks)
    }

    fn done(&self, body: &Body, parcel: &Parcel) -> Done {
        let begin = Instant::now();
        let (ran, env, counts, remarks) = self.run(body, parcel);
        let effects =
            ForkEffects { raised: env.held.take(), warned: env.warned.take(), ambiguity: env.ambiguity.take() };
        let result = ran.map(|values| Parcel::of(&values).map(|(parcel, _)| parcel));
        let nanoseconds = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        body.nanoseconds.store(nanoseconds.max(1), Ordering::Relaxed);
        Done { result, effects, counts, remarks }
    }
}

impl Running for Forked {
    fn finish(self: Box<Self>) -> (Result<IValue, Stop>, ForkEffects) {
        let done = self.task.result();
        {
            let mut gathered = self.gathered.borrow_mut();
            gathered.0 = gathered.0.and(&done.counts);
            gathered.1.extend(done.remarks);
        }
        let values = match done.result {
            Ok(Some(results)) => Ok(results.opened(|given| self.memory(given))),
            Ok(None) => self.again.1.run(&self.again.0, &self.parcel).0,
            Err(stop) => Err(stop),
        };
        let one = |mut values: Vec<IValue>| if values.len() == 1 { values.remove(0) } else { IValue::tuple(values) };
        (values.map(one), done.effects)
    }
}

impl Forked {
    /// The memory of a result: that of an operand, or a new one.
    fn memory(&self, given: &Given) -> Storage {
        let place = self.parcel.memories().iter().position(|own| own.is(given));
        place.map_or_else(|| Storage::of_given(given), |place| self.own[place].clone())
    }
}

thread_local! {
    /// Backends of this thread, by the kernels that they share with others.
    static BACKENDS: RefCell<Vec<CpuBackend>> = const { RefCell::new(Vec::new()) };
}

/// Lends a backend of this thread, which no body in it uses meanwhile.
fn with_backend<T>(for_body: &Circumstances, work: impl FnOnce(&CpuBackend) -> T) -> T {
    let is_known = |backend: &CpuBackend| Arc::ptr_eq(&backend.kernels, &for_body.kernels);
    let known = BACKENDS.with_borrow_mut(|all| Some(all.remove(all.iter().position(is_known)?)));
    let backend = known.unwrap_or_else(|| CpuBackend {
        kernels: for_body.kernels.clone(),
        ..CpuBackend::new(for_body.settings.clone())
    });
    let done = work(&backend);
    BACKENDS.with_borrow_mut(|all| {
        all.truncate(MOST_BACKENDS - 1);
        all.insert(0, backend);
    });
    done
}

/// Whether nothing outside sees what a graph does but its results.
fn is_apart(graph: &Graph) -> bool {
    let db = AliasDb::new(graph);
    let mut given = EntitySet::new();
    graph.params(graph.root()).for_each(|param| db.mark_reachable(param, &mut given));
    let allowed = [prim::RAISE_EXCEPTION, aten::WAIT, prim::FORK];
    graph.all_nodes().all(|node| {
        let kind = graph.kind(node);
        let operator = ops::operator(graph.era, kind);
        let is_own = !db.writes_to_wildcard(node) && !db.writes_to_any(node, &given);
        let is_silent = allowed.contains(&kind) || graph.num_blocks(node) > 0 || !db.has_side_effects(node);
        let is_call = [prim::CALL_FUNCTION, prim::CALL_METHOD, prim::ENTER, prim::EXIT].contains(&kind);
        let is_alike = graph.num_blocks(node) > 0
            || operator.rule.carries != Carries::Nothing
            || allowed.contains(&kind)
            || operator.nondeterminism(None) <= Nondeterminism::Undefined;
        let is_known = !operator.schemas.is_empty() || operator.rule.nondeterminism.is_some();
        let inner = graph.subgraph(node).is_none_or(is_apart);
        is_own && is_silent && !is_call && is_alike && is_known && inner && !leaves(graph, node)
    })
}

/// Whether a node may leave its graph for another one.
fn leaves(graph: &Graph, node: Node) -> bool {
    [prim::BAILOUT, prim::BAILOUT_TEMPLATE].contains(&graph.kind(node))
}

/// Collects the attributes that a graph and its sections read from objects, which are operands or
/// in operands; nothing if objects come from elsewhere.
fn collect_attributes(
    graph: &Graph,
    mut objects: FxHashMap<Value, (usize, String)>,
    found: &mut Vec<(usize, String)>,
) -> Option<()> {
    for node in graph.all_nodes() {
        if graph.kind(node) == prim::GET_ATTR {
            let (operand, path) = objects.get(&graph.input(node, 0))?;
            let Some(Attribute::Str(name)) = graph.attribute(node, attr::NAME) else { return None };
            let place = (*operand, format!("{path}.{}", String::from_utf8_lossy(name)));
            found.push(place.clone());
            objects.insert(graph.single_output(node)?, place);
        }
        if let Some(inner) = graph.subgraph(node) {
            let handed = inner.params(inner.root()).zip(graph.inputs(node));
            let handed = handed.filter_map(|(param, value)| Some((param, objects.get(&value)?.clone())));
            collect_attributes(inner, handed.collect(), found)?;
        }
    }
    Some(())
}

/// Whether values of a type can be handed over, and have no identity.
fn is_plain(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::Tensor(_) => true,
        TypeKind::Simple(simple) => {
            matches!(simple, Simple::Int | Simple::Float | Simple::Bool | Simple::Complex | Simple::Str | Simple::None)
        }
        TypeKind::Optional(inner) => is_plain(*inner),
        TypeKind::Tuple(parts) => parts.iter().all(|&part| is_plain(part)),
        _ => false,
    }
}

fn can_be_handed_over(ty: Type) -> bool {
    match ty.kind() {
        TypeKind::List(element) => is_plain(*element),
        TypeKind::Optional(inner) => can_be_handed_over(*inner),
        TypeKind::Tuple(parts) => parts.iter().all(|&part| can_be_handed_over(part)),
        _ => is_plain(ty),
    }
}

/// Whether a value is, or may contain, something with an identity other than its memory.
fn has_containers(value: &IValue) -> bool {
    match value {
        IValue::List(_) | IValue::Dict(_) | IValue::Object(_) | IValue::Future(_) => true,
        IValue::Tuple(parts) => parts.iter().any(has_containers),
        _ => false,
    }
}
