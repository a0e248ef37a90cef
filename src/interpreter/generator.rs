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
use super::machine::{Machine, Watch};
use super::random::Philox;
use super::sketch::{FIRST_SIZE, Maker, Sketch, TensorSketch};
use super::stop::{Reason, Stop};
use super::tailoring;
use super::usage_hints::{hint, hinted};
use crate::ir::{Graph, Node, Value};
use crate::tensor::layout::Dims;
use crate::tensor::{DType, Scalar};
use crate::types::{Type, TypeKind};
use std::collections::{BTreeMap, BTreeSet};

pub use super::sketch::Style;
use sketch_changes::{add_key, take};
use sources::{sizes_in, sources_of, unbound_places, unwritten};

mod sketch_changes;
mod sources;

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
/// Tries for each sketch that a failing node depends on.
const TRIES_FOR_EACH: usize = 100;
/// Sizes that all free dimensions are given in turn, before those that the graph mentions; and how
/// many.
const EVEN_SIZES: &[i64] = &[8, 4, 12, 16];
const MOST_EVEN_SIZES: usize = 8;
const MOST_EVEN: i64 = 64;
/// How much work it is to draw a number, counted in numbers that are read.
const DEAR: u64 = 8;
/// Most runs in which layers get the weights they want after something else was changed.
const FOLLOW_UPS: usize = 6;
/// What is said of indices that are too large, or too far below 0.
const OUT_OF_RANGE: &[&str] = &["out of range", "out of bounds"];
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
            // A graph that spends its budget on some inputs hardly ends on others.
            if search.fit() || env.search_is_spent.get() {
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
    /// The tensors that were made last, and what they were made of.
    made: BTreeMap<Source, (TensorSketch, IValue)>,
    /// What no node writes to, not even through something that shares its memory.
    unwritten: BTreeSet<Source>,
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
            unwritten: unwritten(graph, &direct),
            direct,
            made: BTreeMap::new(),
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

    /// Values to begin with, in memory of their own; contents that are not bound are bound.
    fn start(&mut self) -> Vec<IValue> {
        self.values(&|_| false)
    }

    /// Values for a run of the search: memory that no node writes to is shared by all runs.
    fn start_try(&mut self) -> Vec<IValue> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let inputs = self.values(&|source| unwritten.contains(source));
        self.unwritten = unwritten;
        inputs
    }

    fn values(&mut self, is_shared: &dyn Fn(&Source) -> bool) -> Vec<IValue> {
        let mut maker = Maker::new(self.generator.seed, self.generator.style, self.env);
        let (mut inputs, mut made) = (Vec::new(), std::mem::take(&mut self.made));
        let mut bindings = BTreeMap::new();
        for (name, value) in &self.bound {
            let shared = is_shared(&Source::Unbound(name.clone()));
            bindings.insert(name.clone(), if shared { value.clone() } else { maker.copy(value) });
        }
        for (source, sketch) in &self.sketches {
            match source {
                Source::Param(i) => {
                    maker.stream(self.generator.seed, *i as u64);
                    inputs.push(self.value(source, sketch, is_shared(source), &mut maker, &mut made));
                }
                Source::Unbound(name) => {
                    maker.stream(self.env.invent_seed, place_of(name));
                    let value = self.value(source, sketch, is_shared(source), &mut maker, &mut made);
                    bindings.insert(name.clone(), value);
                }
            }
        }
        self.made = made;
        self.spent = self.spent.saturating_add(DEAR * maker.drawn());
        *self.env.bindings.borrow_mut() = bindings;
        inputs
    }

    /// What a sketch stands for; a tensor as it was made for a run before, where its sketch is the
    /// same.
    fn value(
        &self,
        source: &Source,
        sketch: &Sketch,
        shared: bool,
        maker: &mut Maker<'_>,
        made: &mut BTreeMap<Source, (TensorSketch, IValue)>,
    ) -> IValue {
        let tensor = match sketch {
            Sketch::Fixed(value) if shared => return value.clone(),
            // Values of a style that shares memory depend on those before them.
            Sketch::Tensor(tensor) if self.generator.style != Style::Aliased => tensor,
            _ => return self.content(source, sketch.realise(maker)),
        };
        let known = made.get(source).filter(|(known, _)| known == tensor).map(|(_, value)| value.clone());
        let value = known.unwrap_or_else(|| {
            let value = self.content(source, sketch.realise(maker));
            made.insert(source.clone(), (tensor.clone(), value.clone()));
            value
        });
        if shared { value } else { maker.copy(&value) }
    }

    /// The shape comes from the sketch; what is in what nobody bound, from the environment's way to
    /// invent.
    fn content(&self, source: &Source, value: IValue) -> IValue {
        let same = |invent: Invent| self.env.invent.is_some_and(|ours| std::ptr::fn_addr_eq(ours, invent));
        let filled = match source {
            Source::Unbound(_) if same(invent_zeros) => filled(value.clone(), 0),
            Source::Unbound(_) if same(invent_ones) => filled(value.clone(), 1),
            _ => None,
        };
        filled.unwrap_or(value)
    }

    fn run(&mut self) -> Run {
        let inputs = self.start_try();
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
        if matches!(reason, Some(Reason::Budget(_))) {
            self.env.search_is_spent.set(true);
        }
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
        let mut best = self.fit_evenly();
        let most = MOST_TRIES.min(TRIES_FOR_EACH * self.free_sources(&best).len().max(1));
        // Where the run first came so far: changes that bring nothing are not piled up for ever.
        let mut anchor = self.sketches.clone();
        for _ in 0..most {
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
            let run = self.followed_up();
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

    /// Gives layers the weights that they want while all other sizes are the same, for one size
    /// after another: what is split into heads, say, needs a multiple of their number.
    fn fit_evenly(&mut self) -> Run {
        let first = self.sketches.clone();
        let mut best = self.tailored();
        let others =
            EVEN_SIZES.iter().copied().chain(self.sizes.iter().copied().filter(|&n| n > FIRST_SIZE && n <= MOST_EVEN));
        for size in others.take(MOST_EVEN_SIZES).collect::<Vec<_>>() {
            let ended = best.fits() || best.hopeless || self.spent > MOST_WORK || self.env.is_late();
            if ended || self.free_sources(&best).is_empty() {
                break;
            }
            let before = std::mem::replace(&mut self.sketches, first.clone());
            self.each_free_size(&|_| true, &mut |n| *n = if *n == FIRST_SIZE { size } else { *n });
            let run = self.tailored();
            match run.fits() {
                true => best = run,
                // A size with which only more nodes run may be one with which the others never do.
                false => self.sketches.extend(before),
            }
        }
        best
    }

    /// Gives layers the weights that they want, round by round.
    fn tailored(&mut self) -> Run {
        let mut best = self.run();
        for _ in 0..ROUNDS {
            let ended = best.fits() || best.hopeless || self.spent > MOST_TAILORED;
            if ended || !self.tailor_all(&best) {
                break;
            }
            best = self.run();
        }
        best
    }

    /// The sketches that the failing node depends on, and that may be changed.
    fn free_sources(&self, run: &Run) -> Vec<Source> {
        let Some(node) = run.failed else { return Vec::new() };
        let operands = self.operands_around(node);
        let mut sources: Vec<Source> = sources_of(self.graph, self.env, &operands).into_iter().collect();
        sources.retain(|source| self.sketches.get(source).is_some_and(is_free));
        sources
    }

    /// A run after a change: layers after it get the weights that they want now.
    fn followed_up(&mut self) -> Run {
        let mut run = self.run();
        for _ in 0..FOLLOW_UPS {
            let Some(node) = run.failed.filter(|_| !run.hopeless && self.spent <= MOST_WORK) else { break };
            if !self.tailor(node, &run, MOST_ELEMENTS) {
                break;
            }
            run = self.run();
        }
        run
    }

    /// What an exception is raised for stands in the conditions around it.
    fn operands_around(&self, node: Node) -> Vec<Value> {
        let around = std::iter::successors(Some(node), |&node| self.graph.enclosing(node));
        around.flat_map(|node| self.graph.inputs(node)).collect()
    }

    /// Changes something that the failing node depends on; false when there is nothing.
    fn change(&mut self, run: &Run) -> bool {
        let Some(node) = run.failed else { return false };
        let (operands, sources) = (self.operands_around(node), self.free_sources(run));
        if sources.is_empty() {
            return false;
        }
        let mut seen: Vec<Dims> = operands.iter().filter_map(|value| run.shapes.get(value).cloned()).collect();
        seen.extend(sizes_said(&run.message));
        if !self.draws.one_in(3) && self.tailor(node, run, MOST_ELEMENTS) {
            return true;
        }
        if OUT_OF_RANGE.iter().any(|text| run.message.contains(text)) && self.draws.one_in(2) {
            let range = [(1, 3), (0, 1), (1, 2), (0, 2)][self.draws.below(4)];
            self.change_ranges(&sources, range);
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
        let is_too_small = TOO_SMALL.iter().any(|text| run.message.contains(text));
        changed |= is_too_small && run.failed.is_some_and(|node| self.enlarge_images(node));
        for node in graph.all_nodes() {
            let made = graph.outputs(node).next();
            let declared = made.and_then(|value| tailoring::declared_shape(graph, value));
            let found = made.and_then(|value| run.shapes.get(&value));
            let wrong = declared.is_some() && declared.as_ref() != found;
            if wrong || run.failed == Some(node) {
                changed |= self.tailor(node, run, MOST_WANTED);
            }
        }
        changed
    }

    /// Gives operands of a layer the shapes that it wants of them, of so many elements at most;
    /// false where that changes nothing.
    fn tailor(&mut self, node: Node, run: &Run, most: i64) -> bool {
        let mut changed = false;
        let is_free = |value: Value| {
            let sketch = self.direct.get(&value).and_then(|source| self.sketches.get(source));
            sketch.is_some_and(has_free_shape)
        };
        let message = if run.failed == Some(node) { &*run.message } else { "" };
        for (value, wanted) in tailoring::proposals(self.graph, node, &run.shapes, &is_free, message) {
            let (origin, swapped) = tailoring::origin(self.graph, value);
            let source = self.direct.get(&origin);
            if let Some(sketch) = source.and_then(|source| self.sketches.get_mut(source)) {
                changed |= take(sketch, wanted, swapped, most);
            }
        }
        changed
    }

    /// The param that a layer's images are computed of, past the layers before it.
    fn source_of_images(&self, node: Node) -> Option<Source> {
        let (mut work, mut seen) = (vec![self.graph.inputs(node).next()?], BTreeSet::new());
        while let Some(value) = work.pop().filter(|_| seen.len() < MOST_TRIES) {
            if let Some(source @ Source::Param(_)) = self.direct.get(&value) {
                return Some(source.clone());
            }
            let Some(node) = self.graph.definer(value).filter(|_| seen.insert(value)) else { continue };
            match self.graph.node_blocks(node).count() {
                0 => work.extend(self.graph.inputs(node).next()),
                _ => work.extend(self.graph.node_blocks(node).flat_map(|block| self.graph.results(block))),
            }
        }
        None
    }

    /// Doubles the free sizes of the images of a layer, or of all among the params where it is not
    /// plain which those are; false when there are none, or they are large.
    fn enlarge_images(&mut self, node: Node) -> bool {
        let mut enlarged = false;
        let images = self.source_of_images(node);
        let is_image = |source: &Source| images.as_ref().map_or(matches!(source, Source::Param(_)), |of| of == source);
        for (_, sketch) in self.sketches.iter_mut().filter(|(source, _)| is_image(source)) {
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

    /// Gives integers another range.
    fn change_ranges(&mut self, sources: &[Source], range: (i64, i64)) {
        for source in sources {
            let Some(sketch) = self.sketches.get_mut(source) else { continue };
            sketch.each(&mut |part| match part {
                Sketch::Tensor(tensor) if tensor.dtype.is_integral() => tensor.range = range,
                _ => {}
            });
        }
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

/// Whether the shape of a tensor in it may be changed.
fn has_free_shape(sketch: &Sketch) -> bool {
    match sketch {
        Sketch::Tensor(tensor) => tensor.free_rank || tensor.dims.iter().any(|(_, free)| *free),
        Sketch::Optional(inner, _) => has_free_shape(inner),
        Sketch::List(_) => true,
        Sketch::Tuple(parts) => parts.iter().any(has_free_shape),
        Sketch::Dict(items) => items.iter().any(|(_, value)| has_free_shape(value)),
        Sketch::Int(_) | Sketch::Float | Sketch::Probability | Sketch::Fixed(_) => false,
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
