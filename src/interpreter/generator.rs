//! Makes up inputs that a graph can run on.
//!
//! Types say little: a plain `Tensor` may have any shape. So shapes are proposed, the graph is run, and where it raises an
//! exception, what the failing node depends on is changed; a change is kept when the run gets as far or farther. All sizes are
//! the same at first, for that is what most operators agree to; when the graph runs, sizes are told apart as far as it still
//! does. Everything is decided by the seed, and ends after a bounded number of tries.

use super::description::Described;
use super::effort::Effort;
use super::environment::{Environment, Invent};
use super::ivalue::IValue;
use super::literal_values;
use super::machine::{Machine, Watch, callee_name, result_of};
use super::random::Philox;
use super::sketch::{FIRST_SIZE, Maker, Sketch, TensorSketch};
use super::stop::{Reason, Stop};
use super::tailoring::{self, Wanted};
use super::usage_hints::{hint, hinted};
use crate::ir::{Attribute, Block, Graph, Node, Value};
use crate::symbol::{Symbol, attr, prim};
use crate::tensor::layout::Dims;
use crate::tensor::{DType, Scalar};
use crate::types::{Type, TypeKind};
use std::collections::{BTreeMap, BTreeSet};

pub use super::sketch::Style;

/// Makes up inputs.
#[derive(Clone, Debug, Default)]
pub struct Generator {
    /// Decides everything.
    pub seed: u64,
    /// What numbers and shapes are like.
    pub style: Style,
    /// Shapes that are wanted, by the name of the param, or the path of what nobody bound.
    pub shapes: BTreeMap<String, Dims>,
    /// What is known of params, by position.
    pub hints: BTreeMap<usize, Described>,
}

/// How often the search starts again, for it may lead into a corner.
const ATTEMPTS: u64 = 4;
/// Most runs to find shapes that fit, and then to tell sizes apart.
const MOST_TRIES: usize = 400;
const MOST_REFINEMENTS: usize = 40;
/// The same while layers get the weights they want, which leads somewhere; and the most elements of such a weight.
const MOST_TAILORED: u64 = 1_000_000_000;
const MOST_WANTED: i64 = 1 << 26;
/// Most rounds in which layers get the weights they want.
const ROUNDS: usize = 200;
/// Most nodes that are run, and numbers that are read, in all tries together.
const MOST_WORK: u64 = 50_000_000;
/// Most elements of a tensor whose shape is searched for.
const MOST_ELEMENTS: i64 = 1 << 20;
/// What convolutions and pools say of images of which nothing would be left.
const TOO_SMALL: &[&str] =
    &["Kernel size can't be greater than actual input size", "Calculated output size is too small"];
/// A run of so many nodes is taken to fit.
const LONG: u64 = 100_000;

impl Generator {
    /// A generator of ordinary values.
    pub fn new(seed: u64) -> Generator {
        Generator { seed, ..Generator::default() }
    }

    /// Inputs for all params. What cannot be made to fit is as near as was found.
    pub fn inputs(&self, graph: &Graph, env: &Environment) -> Vec<IValue> {
        let none = vec![None; graph.params(graph.root()).len()];
        self.complete(graph, env, none).into_iter().map(|value| value.unwrap_or(IValue::None)).collect()
    }

    /// Fills the gaps between given inputs. Contents that the environment may invent are bound in it.
    pub fn complete(&self, graph: &Graph, env: &Environment, given: Vec<Option<IValue>>) -> Vec<Option<IValue>> {
        let mut search = Search::new(self, graph, env, given);
        let (first, invented) = (search.sketches.clone(), env.invented.borrow().clone());
        for attempt in 0..ATTEMPTS {
            search.sketches = first.clone();
            // What an attempt before invented is not known to this one.
            env.invented.borrow_mut().clone_from(&invented);
            search.draws = Philox::new(self.seed, u64::MAX - 1, attempt);
            if search.fit() {
                break;
            }
        }
        search.tell_apart();
        let inputs = search.start();
        env.reset();
        inputs.into_iter().map(Some).collect()
    }
}

// ---- what is invented without a search

/// Random contents.
pub fn invent_random(env: &Environment, name: &str, ty: Type) -> Option<IValue> {
    let mut maker = Maker::new(env.invent_seed, Style::Ordinary, env);
    maker.stream(env.invent_seed, place_of(name));
    Some(Sketch::of_type(ty, name, 2).realise(&mut maker))
}

/// Zeros.
pub fn invent_zeros(env: &Environment, name: &str, ty: Type) -> Option<IValue> {
    filled(invent_random(env, name, ty)?, 0)
}

/// Ones.
pub fn invent_ones(env: &Environment, name: &str, ty: Type) -> Option<IValue> {
    filled(invent_random(env, name, ty)?, 1)
}

fn filled(value: IValue, with: i64) -> Option<IValue> {
    value.each_tensor(&mut |tensor| tensor.fill(Scalar::Int(with)));
    Some(match value {
        IValue::Int(_) => IValue::Int(with),
        IValue::Float(_) => IValue::Float(with as f64),
        IValue::Bool(_) => IValue::Bool(with != 0),
        other => other,
    })
}

/// The stream of a name.
fn place_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

// ---- the search

/// Which sketch: that of a param, or of something that is not bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Param(usize),
    Unbound(String),
}

/// How a run went.
struct Run {
    steps: u64,
    /// The node of the graph itself that was being run, if it failed.
    failed: Option<Node>,
    /// Whether nothing that could be made up helps.
    hopeless: bool,
    /// What it said.
    message: String,
    /// Whether that is a key, which a dict does not have.
    lacks_key: bool,
    shapes: BTreeMap<Value, Dims>,
}

impl Run {
    fn fits(&self) -> bool {
        self.failed.is_none() && !self.hopeless
    }
}

/// Notes where a run is.
struct Tracker<'e> {
    env: &'e Environment,
    graph: u64,
    last: Option<Node>,
    delivered: u64,
    effort: Effort,
    shapes: BTreeMap<Value, Dims>,
}

impl<'e> Tracker<'e> {
    fn new(graph: &Graph, env: &'e Environment) -> Tracker<'e> {
        let graph = graph.id().number();
        Tracker { env, graph, last: None, delivered: 0, effort: Effort::default(), shapes: BTreeMap::new() }
    }
}

impl Watch for Tracker<'_> {
    fn instead(&mut self, graph: &Graph, node: Node) -> Option<super::call::Outs> {
        if graph.id().number() == self.graph {
            self.last = Some(node);
        }
        None
    }

    fn after(&mut self, _: &Graph, _: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        self.effort.add(operands, outputs);
        // A single operator may take long; the machine looks at the clock seldom.
        match self.env.is_late() {
            true => Err(Stop::new(Reason::Budget("time is up".to_owned()))),
            false => Ok(()),
        }
    }

    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut super::call::Outs) -> Result<(), Stop> {
        self.delivered += 1;
        if self.delivered > LONG {
            return Err(Stop::new(Reason::Watcher("long enough".to_owned())));
        }
        if graph.id().number() == self.graph {
            let tensors = graph.outputs(node).zip(outputs.iter()).filter_map(|(v, value)| Some((v, value.tensor()?)));
            self.shapes.extend(tensors.map(|(value, tensor)| (value, Dims::from(tensor.shape()))));
        }
        Ok(())
    }
}

struct Search<'a> {
    generator: &'a Generator,
    graph: &'a Graph,
    env: &'a Environment,
    sketches: BTreeMap<Source, Sketch>,
    /// What was bound before, which runs may write to.
    bound: BTreeMap<String, IValue>,
    draws: Philox,
    /// Sizes that the graph mentions.
    sizes: Vec<i64>,
    spent: u64,
    /// Whether the graph runs on the sketches.
    fits: bool,
    /// The sketches that values are, unchanged.
    direct: BTreeMap<Value, Source>,
    /// Values of params of which nothing is searched for: made once, and copied for each run.
    settled: BTreeMap<usize, IValue>,
}

impl<'a> Search<'a> {
    fn new(generator: &'a Generator, graph: &'a Graph, env: &'a Environment, given: Vec<Option<IValue>>) -> Search<'a> {
        let mut sketches = BTreeMap::new();
        let params = graph.params(graph.root());
        for (i, (param, given)) in params.zip(given.into_iter().chain(std::iter::repeat(None))).enumerate() {
            let name = graph.name(param);
            let hint = generator.hints.get(&i).map(Sketch::of_description);
            let sketch = match given {
                Some(value) => Sketch::Fixed(value),
                None => hint.unwrap_or_else(|| sketch_of_param(graph, param, &name)),
            };
            sketches.insert(Source::Param(i), with_shape(sketch, generator.shapes.get(&name)));
        }
        let bound = env.bindings.borrow().clone();
        let draws = Philox::new(generator.seed, u64::MAX - 1, 0);
        let places = unbound_places(graph, env).into_iter().map(|(path, value)| (value, Source::Unbound(path)));
        let params = graph.params(graph.root()).enumerate().map(|(i, param)| (param, Source::Param(i)));
        let direct = places.chain(params).collect();
        let mut search = Search {
            generator,
            graph,
            env,
            sketches,
            bound,
            draws,
            sizes: sizes_in(graph),
            spent: 0,
            fits: false,
            direct,
            settled: BTreeMap::new(),
        };
        search.style_shapes();
        search
    }

    /// Sizes that the style starts with.
    fn style_shapes(&mut self) {
        if self.generator.style == Style::Tiny {
            self.sketches.values_mut().for_each(|sketch| {
                sketch.each(&mut |part| {
                    if let Sketch::Tensor(tensor) = part {
                        tensor.dims.iter_mut().filter(|(_, free)| *free).for_each(|(n, _)| *n = 1);
                        tensor.range = (0, 1);
                    }
                });
            });
        }
    }

    /// Values for a run, in memory of their own; contents that are not bound are bound.
    fn start(&mut self) -> Vec<IValue> {
        let mut maker = Maker::new(self.generator.seed, self.generator.style, self.env);
        let (mut inputs, mut settled) = (Vec::new(), std::mem::take(&mut self.settled));
        let mut bindings: BTreeMap<String, IValue> =
            self.bound.iter().map(|(name, value)| (name.clone(), maker.copy(value))).collect();
        for (source, sketch) in &self.sketches {
            match source {
                Source::Param(i) => {
                    // Values of a style that shares memory depend on those before them.
                    let is_settled = !is_free(sketch) && self.generator.style != Style::Aliased;
                    let value = match settled.get(i).filter(|_| is_settled) {
                        Some(value) => maker.copy(value),
                        None => {
                            maker.stream(self.generator.seed, *i as u64);
                            sketch.realise(&mut maker)
                        }
                    };
                    if is_settled && !settled.contains_key(i) {
                        settled.insert(*i, maker.copy(&value));
                    }
                    inputs.push(value);
                }
                Source::Unbound(name) => {
                    let value = self.invented(name, sketch, &mut maker);
                    bindings.insert(name.clone(), value);
                }
            }
        }
        *self.env.bindings.borrow_mut() = bindings;
        self.settled = settled;
        inputs
    }

    /// The shape comes from the sketch, what is in it from the environment's way to invent.
    fn invented(&self, name: &str, sketch: &Sketch, maker: &mut Maker<'_>) -> IValue {
        maker.stream(self.env.invent_seed, place_of(name));
        let value = sketch.realise(maker);
        let same = |invent: Invent| self.env.invent.is_some_and(|ours| std::ptr::fn_addr_eq(ours, invent));
        let filled = match () {
            () if same(invent_zeros) => filled(value.clone(), 0),
            () if same(invent_ones) => filled(value.clone(), 1),
            () => None,
        };
        filled.unwrap_or(value)
    }

    fn run(&mut self) -> Run {
        let inputs = self.start();
        let mut tracker = Tracker::new(self.graph, self.env);
        for (param, input) in self.graph.params(self.graph.root()).zip(&inputs) {
            if let IValue::Tensor(tensor) = input {
                tracker.shapes.insert(param, tensor.shape().into());
            }
        }
        let mut machine = Machine::new(self.graph, self.env).watched(&mut tracker);
        let result = machine.run(inputs);
        let steps = machine.steps();
        drop(machine);
        self.env.reset();
        self.spent = self.spent.saturating_add(steps).saturating_add(tracker.effort.0);
        self.note_unbound();
        let reason = result.err().map(|stop| stop.reason);
        let (message, lacks_key) = match &reason {
            Some(Reason::Raised(exception)) => (exception.message.clone(), exception.class == "KeyError"),
            _ => (String::new(), false),
        };
        let failed = tracker.last.filter(|_| matches!(reason, Some(Reason::Raised(_))));
        let hopeless = matches!(reason, Some(Reason::Unsupported(_) | Reason::Unbound(_) | Reason::Budget(_)));
        // An exception that no node raised is about the graph, not about values.
        let hopeless = hopeless || (failed.is_none() && matches!(reason, Some(Reason::Raised(_))));
        Run { steps, failed, hopeless, message, lacks_key, shapes: tracker.shapes }
    }

    /// Sketches for what the environment invented in the last run.
    fn note_unbound(&mut self) {
        let invented = self.env.invented.borrow().keys().cloned().collect::<Vec<_>>();
        for name in invented {
            if self.bound.contains_key(&name) || self.sketches.contains_key(&Source::Unbound(name.clone())) {
                continue;
            }
            let value = self.env.bindings.borrow().get(&name).cloned();
            // What is not bound is a list of tensors that the text does not show: empty, as long as nobody wants more.
            let sketch = value.map_or(Sketch::List(Vec::new()), |value| self.sketch_unbound(&name, &value));
            self.sketches.insert(Source::Unbound(name), sketch);
        }
    }

    /// A sketch of what was invented: its type was seen by whoever invented it.
    fn sketch_unbound(&self, name: &str, value: &IValue) -> Sketch {
        let place =
            unbound_places(self.graph, self.env).into_iter().find(|(path, _)| path == name).map(|(_, value)| value);
        let declared = place.map(|value| (self.graph.ty(value), hint(self.graph, value)));
        let sketch = match declared {
            // Layers have what is optional in few cases: biases of keys, say.
            Some((ty, hint)) => match hinted(Sketch::of_type(ty, name, hint.rank.unwrap_or(2)), hint) {
                Sketch::Optional(sketch, _) => Sketch::Optional(sketch, true),
                sketch => sketch,
            },
            // Of a callee, whose graph no sketch follows. What is there now the run may have written to.
            None => Sketch::Fixed(self.invented_first(name).unwrap_or_else(|| value.clone())),
        };
        with_shape(sketch, self.generator.shapes.get(name))
    }

    /// What was invented under a name, as it was before anything ran.
    fn invented_first(&self, name: &str) -> Option<IValue> {
        let ty = *self.env.invented.borrow().get(name)?;
        self.env.invent.and_then(|invent| invent(self.env, name, ty))
    }

    /// Changes sketches until the graph runs, or for so long. Whether there is nothing left to try.
    fn fit(&mut self) -> bool {
        let mut best = self.run();
        for _ in 0..ROUNDS {
            let ended = best.fits() || best.hopeless || self.spent > MOST_TAILORED;
            if ended || !self.tailor_all(&best) {
                break;
            }
            best = self.run();
        }
        // Where the run first came so far: changes that bring nothing are not piled up for ever.
        let mut anchor = self.sketches.clone();
        for _ in 0..MOST_TRIES {
            self.fits = best.fits();
            if self.fits || best.hopeless || self.spent > MOST_WORK || self.env.is_late() {
                return true;
            }
            if self.draws.one_in(2) {
                self.sketches.extend(anchor.clone());
            }
            let before = self.sketches.clone();
            if !self.change(&best) {
                return true;
            }
            let run = self.run();
            if run.hopeless || (!run.fits() && run.steps < best.steps) {
                // What was invented meanwhile stays known.
                self.sketches.extend(before);
                continue;
            }
            if run.steps > best.steps {
                anchor = self.sketches.clone();
            }
            best = run;
        }
        self.fits = best.fits();
        self.fits
    }

    /// What an exception is raised for stands in the conditions around it.
    fn operands_around(&self, node: Node) -> Vec<Value> {
        let around = std::iter::successors(Some(node), |&node| self.graph.enclosing(node));
        around.flat_map(|node| self.graph.inputs(node)).collect()
    }

    /// Changes something that the failing node depends on; false when there is nothing.
    fn change(&mut self, run: &Run) -> bool {
        let Some(node) = run.failed else { return false };
        let operands = self.operands_around(node);
        let mut sources: Vec<Source> = sources_of(self.graph, self.env, &operands).into_iter().collect();
        sources.retain(|source| self.sketches.get(source).is_some_and(is_free));
        if sources.is_empty() {
            return false;
        }
        let mut seen: Vec<Dims> = operands.iter().filter_map(|value| run.shapes.get(value).cloned()).collect();
        seen.extend(sizes_said(&run.message));
        if !self.draws.one_in(3) && self.tailor(node, &run.shapes) {
            return true;
        }
        if self.draws.one_in(4) {
            let size = self.some_size(&seen);
            self.resize_equal(size, &|source| sources.contains(source));
            return true;
        }
        for _ in 0..1 + self.draws.below(3) {
            let source = sources[self.draws.below(sources.len())].clone();
            let Some(mut sketch) = self.sketches.remove(&source) else { continue };
            self.change_one(&mut sketch, &seen);
            self.sketches.insert(source, sketch);
        }
        true
    }

    /// Gives all layers the weights that they want, but for those that made what their types say, and a dict the key that it lacks.
    fn tailor_all(&mut self, run: &Run) -> bool {
        let graph = self.graph;
        let mut changed = run.failed.is_some_and(|node| run.lacks_key && self.add_key(node, &run.message));
        changed |= TOO_SMALL.iter().any(|text| run.message.contains(text)) && self.enlarge_images();
        for node in graph.all_nodes() {
            let made = graph.outputs(node).next();
            let declared = made.and_then(|value| tailoring::declared_shape(graph, value));
            let found = made.and_then(|value| run.shapes.get(&value));
            let wrong = declared.is_some() && declared.as_ref() != found;
            if wrong || run.failed == Some(node) {
                changed |= self.tailor(node, &run.shapes);
            }
        }
        changed
    }

    /// Gives operands of a layer the shapes that it wants of them; false where that changes nothing.
    fn tailor(&mut self, node: Node, shapes: &BTreeMap<Value, Dims>) -> bool {
        let mut changed = false;
        for (value, wanted) in tailoring::proposals(self.graph, node, shapes) {
            let (origin, swapped) = tailoring::origin(self.graph, value);
            let source = self.direct.get(&origin);
            if let Some(sketch) = source.and_then(|source| self.sketches.get_mut(source)) {
                changed |= take(sketch, wanted, swapped);
            }
        }
        changed
    }

    /// Doubles the free sizes of images among the params; false when there are none, or they are large.
    fn enlarge_images(&mut self) -> bool {
        let mut enlarged = false;
        for (_, sketch) in self.sketches.iter_mut().filter(|(source, _)| matches!(source, Source::Param(_))) {
            sketch.each(&mut |part| {
                let Sketch::Tensor(tensor) = part else { return };
                let before = tensor.clone();
                let images = tensor.dims.iter_mut().skip(2).filter(|(_, free)| *free);
                images.for_each(|(n, _)| *n = (*n).max(1) * 2);
                match is_small(tensor) {
                    true => enlarged |= tensor.dims != before.dims,
                    false => *tensor = before,
                }
            });
        }
        enlarged
    }

    /// Puts the key that a program looks for into a dict.
    fn add_key(&mut self, node: Node, wanted: &str) -> bool {
        let mut added = false;
        for source in sources_of(self.graph, self.env, &self.operands_around(node)) {
            added |= self.sketches.get_mut(&source).is_some_and(|sketch| add_key(sketch, wanted));
        }
        added
    }

    /// Changes a part of a sketch.
    fn change_one(&mut self, sketch: &mut Sketch, seen: &[Dims]) {
        match sketch {
            Sketch::Optional(_, absent) if self.draws.one_in(3) => return *absent = !*absent,
            Sketch::List(parts) if self.draws.one_in(2) => return self.change_length(parts),
            _ => {}
        }
        let mut parts = 0;
        sketch.each(&mut |_| parts += 1);
        let (chosen, mut at) = (self.draws.below(parts.max(1)), 0);
        let mut part_of = None;
        sketch.each(&mut |part| {
            if at == chosen {
                part_of = Some(part.clone());
            }
            at += 1;
        });
        let Some(mut part) = part_of else { return };
        match &mut part {
            Sketch::Tensor(tensor) => {
                let before = tensor.clone();
                self.change_tensor(tensor, seen);
                if !is_small(tensor) {
                    *tensor = before;
                }
            }
            Sketch::Int(n) => *n = [0, 1, 2, 3, -1, 4, 5][self.draws.below(7)],
            Sketch::Fixed(IValue::Bool(b)) => *b = !*b,
            _ => {}
        }
        at = 0;
        sketch.each(&mut |slot| {
            if at == chosen {
                *slot = part.clone();
            }
            at += 1;
        });
    }

    fn change_length(&mut self, parts: &mut Vec<Sketch>) {
        let n = [1, 2, 3, 4, 0][self.draws.below(5)];
        if let Some(first) = parts.first().cloned() {
            parts.resize(n, first);
        } else {
            parts.truncate(n);
        }
    }

    fn change_tensor(&mut self, tensor: &mut TensorSketch, seen: &[Dims]) {
        match self.draws.below(10) {
            0 | 1 if tensor.free_rank => {
                let rank = [2, 1, 3, 4, 0, 5][self.draws.below(6)];
                tensor.dims.resize(rank, (FIRST_SIZE, true));
                tensor.strides = None;
            }
            2 if tensor.free_rank && seen.iter().any(|shape| shape.len() < 6) => {
                let shapes: Vec<&Dims> = seen.iter().filter(|shape| shape.len() < 6).collect();
                let shape = shapes[self.draws.below(shapes.len())].clone();
                tensor.dims = shape.iter().map(|&n| (n, true)).collect();
                tensor.strides = None;
            }
            3 if tensor.free_dtype && self.draws.one_in(2) => {
                let all = [DType::Long, DType::Float, DType::Bool, DType::Double];
                tensor.dtype = all[self.draws.below(all.len())];
            }
            4 => tensor.range = [(0, 2), (1, 3), (0, 1), (0, FIRST_SIZE)][self.draws.below(4)],
            // Images are often square.
            5 if tensor.dims.len() > 2 => {
                let size = self.some_size(seen);
                let images = tensor.dims.iter_mut().skip(2).filter(|(_, free)| *free);
                images.for_each(|(n, _)| *n = size);
            }
            _ => {
                let free: Vec<usize> = (0..tensor.dims.len()).filter(|&i| tensor.dims[i].1).collect();
                if !free.is_empty() {
                    let i = free[self.draws.below(free.len())];
                    tensor.dims[i].0 = self.some_size(seen);
                    tensor.strides = None;
                }
            }
        }
    }

    /// A size that may be the right one: seen at the node, mentioned by the graph, or small.
    fn some_size(&mut self, seen: &[Dims]) -> i64 {
        let near: Vec<i64> = seen.iter().flat_map(|shape| shape.iter().copied()).filter(|&n| n > 0).collect();
        match self.draws.below(4) {
            0 | 1 if !near.is_empty() => near[self.draws.below(near.len())],
            2 if !self.sizes.is_empty() => self.sizes[self.draws.below(self.sizes.len())],
            _ => [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 28, 32][self.draws.below(13)],
        }
    }

    /// Makes sizes differ where the graph still runs: what is square or equal hides mistakes.
    fn tell_apart(&mut self) {
        if !self.fits {
            return;
        }
        for _ in 0..MOST_REFINEMENTS {
            let before = self.sketches.clone();
            if self.spent > MOST_WORK || self.env.is_late() || !self.resize_some() {
                return;
            }
            if !self.run().fits() {
                self.sketches.extend(before);
            }
        }
    }

    /// Gives all free sizes that are the same as one of them another value: operators tie them together.
    fn resize_equal(&mut self, size: i64, wanted: &dyn Fn(&Source) -> bool) {
        let mut all = BTreeSet::new();
        self.each_free_size(wanted, &mut |n| all.extend([*n]));
        let all: Vec<i64> = all.into_iter().collect();
        if !all.is_empty() {
            let old = all[self.draws.below(all.len())];
            let before = self.sketches.clone();
            self.each_free_size(wanted, &mut |n| *n = if *n == old { size } else { *n });
            let mut small = true;
            for sketch in self.sketches.values_mut() {
                sketch.each(&mut |part| small &= !matches!(part, Sketch::Tensor(tensor) if !is_small(tensor)));
            }
            if !small {
                self.sketches = before;
            }
        }
    }

    /// Gives one free size, or two, or all that are the same, another value; false when none is free.
    fn resize_some(&mut self) -> bool {
        let mut free = 0;
        self.each_free_size(&|_| true, &mut |_| free += 1);
        if free == 0 {
            return false;
        }
        let size = match self.generator.style {
            Style::Tiny => self.draws.int(0, 2),
            Style::Broadcasting => 1,
            _ => self.draws.int(1, 7),
        };
        if self.draws.one_in(4) {
            self.resize_equal(size, &|_| true);
            return true;
        }
        let (a, b) = (self.draws.below(free), self.draws.below(free));
        let mut at = 0;
        self.each_free_size(&|_| true, &mut |n| {
            if at == a || at == b {
                *n = size;
            }
            at += 1;
        });
        true
    }

    fn each_free_size(&mut self, wanted: &dyn Fn(&Source) -> bool, f: &mut dyn FnMut(&mut i64)) {
        for (_, sketch) in self.sketches.iter_mut().filter(|(source, _)| wanted(source)) {
            sketch.each(&mut |part| {
                if let Sketch::Tensor(tensor) = part {
                    tensor.dims.iter_mut().filter(|(_, free)| *free).for_each(|(n, _)| f(n));
                }
            });
        }
    }
}

/// Gives all dicts in it a key that they lack.
fn add_key(sketch: &mut Sketch, wanted: &str) -> bool {
    match sketch {
        Sketch::Optional(inner, _) => add_key(inner, wanted),
        Sketch::List(parts) | Sketch::Tuple(parts) => {
            let lacking = parts.iter_mut().map(|part| add_key(part, wanted)).filter(|&added| added);
            lacking.count() > 0
        }
        Sketch::Dict(items) => {
            let has = |(key, _): &(IValue, Sketch)| matches!(key, IValue::Str(text) if **text == *wanted);
            match items.first().cloned() {
                Some((IValue::Str(_), value)) if !items.iter().any(has) => items.push((IValue::from(wanted), value)),
                _ => return false,
            }
            true
        }
        _ => false,
    }
}

/// Takes what a layer wants, as far as that is free; whether it is another than before.
fn take(sketch: &mut Sketch, wanted: Wanted, swapped: bool) -> bool {
    let mut changed = false;
    match wanted {
        Wanted::Shape(mut shape) => {
            if swapped {
                shape.reverse();
            }
            sketch.each(&mut |part| {
                if let Sketch::Tensor(tensor) = part {
                    changed |= take_shape(tensor, &shape);
                }
            });
        }
        Wanted::Shapes(shapes) => {
            let Sketch::List(parts) = sketch else { return false };
            changed = parts.len() != shapes.len();
            let first = parts.first().cloned().unwrap_or(Sketch::Tensor(TensorSketch::free(1)));
            parts.resize(shapes.len(), first);
            for (part, shape) in parts.iter_mut().zip(shapes) {
                changed |= take(part, Wanted::Shape(shape), false);
            }
        }
    }
    changed
}

/// Takes a shape as far as that is free; whether it is another than before.
fn take_shape(tensor: &mut TensorSketch, shape: &[i64]) -> bool {
    let fits = tensor.dims.len() == shape.len();
    let fixed = fits && tensor.dims.iter().zip(shape).any(|(&(n, free), &wanted)| !free && n != wanted);
    if (!fits && !tensor.free_rank) || fixed || tensor.shape()[..] == *shape {
        return false;
    }
    let before = tensor.clone();
    let free = |i: usize| before.dims.get(i).is_none_or(|&(_, free)| free || !fits);
    tensor.dims = shape.iter().enumerate().map(|(i, &n)| (n, free(i))).collect();
    tensor.strides = None;
    let n = shape.iter().try_fold(1i64, |n, &size| n.checked_mul(size.max(1)));
    if n.is_none_or(|n| n > MOST_WANTED) {
        *tensor = before;
        return false;
    }
    true
}

fn is_small(tensor: &TensorSketch) -> bool {
    if tensor.dims.iter().all(|(_, free)| !free) {
        return true;
    }
    let n = tensor.dims.iter().try_fold(1i64, |n, (size, _)| n.checked_mul((*size).max(1)));
    n.is_some_and(|n| n <= MOST_ELEMENTS)
}

fn with_shape(mut sketch: Sketch, shape: Option<&Dims>) -> Sketch {
    if let Some(shape) = shape {
        sketch.each(&mut |part| {
            if let Sketch::Tensor(tensor) = part {
                tensor.fix(shape);
            }
        });
    }
    sketch
}

/// Numbers in a message, and products of those in brackets: one of them may be the size that is wanted.
fn sizes_said(message: &str) -> Option<Dims> {
    let mut sizes = Dims::new();
    for part in message.split(['[', ']', '(', ')']) {
        let numbers: Dims = part.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let product = numbers.iter().try_fold(1i64, |product, &n| product.checked_mul(n));
        sizes.extend(product.filter(|_| numbers.len() > 1));
        sizes.extend(numbers);
    }
    sizes.retain(|n| (1..=4096).contains(n));
    (!sizes.is_empty()).then_some(sizes)
}

/// Whether anything about it may be changed.
fn is_free(sketch: &Sketch) -> bool {
    match sketch {
        Sketch::Tensor(tensor) => {
            tensor.free_rank
                || tensor.free_dtype
                || tensor.dtype.is_integral()
                || tensor.dims.iter().any(|(_, free)| *free)
        }
        Sketch::Int(_) | Sketch::Optional(..) | Sketch::List(_) => true,
        Sketch::Tuple(parts) => parts.iter().any(is_free),
        Sketch::Dict(items) => items.iter().any(|(_, value)| is_free(value)),
        Sketch::Fixed(value) => matches!(value, IValue::Bool(_)),
        Sketch::Float | Sketch::Probability => false,
    }
}

fn sketch_of_param(graph: &Graph, param: Value, name: &str) -> Sketch {
    if let TypeKind::Class(class) | TypeKind::Interface(class) = graph.ty(param).kind() {
        return Sketch::Fixed(literal_values::object(*class, name));
    }
    let hint = hint(graph, param);
    let ty = tailoring::guarded_type(graph, param).unwrap_or(graph.ty(param));
    hinted(Sketch::of_type(ty, name, hint.rank.unwrap_or(2)), hint)
}

/// Whole numbers that the graph mentions and that may be sizes, and sizes in its types.
fn sizes_in(graph: &Graph) -> Vec<i64> {
    let mut sizes = BTreeSet::new();
    for node in graph.all_nodes().filter(|&node| graph.kind(node) == prim::CONSTANT) {
        match graph.attribute(node, attr::VALUE) {
            Some(Attribute::Int(n)) => sizes.extend([*n]),
            Some(Attribute::List(parts)) => sizes.extend(parts.iter().filter_map(Attribute::as_int)),
            _ => {}
        }
    }
    for param in graph.params(graph.root()) {
        if let Some(dims) = graph.ty(param).as_tensor().and_then(|ty| ty.sizes.as_ref()) {
            sizes.extend(
                dims.iter().filter_map(|dim| if let crate::types::Dim::Known(n) = dim { Some(*n) } else { None }),
            );
        }
    }
    sizes.into_iter().filter(|n| (1..=4096).contains(n)).collect()
}

/// The values whose content may be invented, with the path under which that happens.
fn unbound_places(graph: &Graph, env: &Environment) -> Vec<(String, Value)> {
    let mut paths: BTreeMap<Value, String> =
        graph.params(graph.root()).map(|param| (param, graph.name(param))).collect();
    let mut places = Vec::new();
    for node in graph.all_nodes() {
        let Some(output) = graph.single_output(node) else { continue };
        match graph.kind(node) {
            prim::CONSTANT => {
                let name = match graph.attribute(node, attr::VALUE) {
                    Some(Attribute::Opaque(text) | Attribute::Tensor(text)) => env.content_names.get(text),
                    _ => None,
                };
                let name = name.map_or_else(|| graph.name(output), str::to_owned);
                places.push((name.clone(), output));
                paths.insert(output, name);
            }
            prim::GET_ATTR => {
                let object = graph.inputs(node).next().and_then(|value| paths.get(&value));
                if let (Some(object), Some(Attribute::Str(name))) = (object, graph.attribute(node, attr::NAME)) {
                    let path = format!("{object}.{}", String::from_utf8_lossy(name));
                    places.push((path.clone(), output));
                    paths.insert(output, path);
                }
            }
            prim::CALL_FUNCTION | prim::CALL_METHOD | prim::ENTER => {
                let mut operands = Vec::new();
                let function = graph.inputs(node).next().and_then(|value| graph.definer(value));
                let function = function.filter(|&node| graph.kind(node) == prim::CONSTANT);
                if let Some(Attribute::Str(name)) = function.and_then(|node| graph.attribute(node, attr::NAME)) {
                    operands.push(IValue::Function(Symbol::new(&String::from_utf8_lossy(name))));
                }
                let name = callee_name(graph, node, &mut operands);
                places.push((result_of(&name, 0, graph.ty(output)), output));
            }
            _ => {}
        }
    }
    places
}

/// The sketches that these values are computed from.
fn sources_of(graph: &Graph, env: &Environment, values: &[Value]) -> BTreeSet<Source> {
    let places: BTreeMap<Value, String> =
        unbound_places(graph, env).into_iter().map(|(path, value)| (value, path)).collect();
    let params: BTreeMap<Value, usize> = graph.params(graph.root()).enumerate().map(|(i, v)| (v, i)).collect();
    let owners: BTreeMap<Node, Block> = graph.all_blocks().map(|block| (graph.param_node(block), block)).collect();
    let (mut sources, mut seen, mut work) = (BTreeSet::new(), BTreeSet::new(), values.to_vec());
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        if let Some(&i) = params.get(&value) {
            sources.insert(Source::Param(i));
        } else if let Some(path) = places.get(&value) {
            sources.insert(Source::Unbound(path.clone()));
        } else if let Some(node) = graph.definer(value) {
            let owner = owners.get(&node).and_then(|&block| graph.owner_node(block));
            let at = owner.unwrap_or(node);
            work.extend(graph.inputs(at));
            work.extend(graph.node_blocks(at).flat_map(|block| graph.results(block).collect::<Vec<_>>()));
        }
    }
    sources
}
