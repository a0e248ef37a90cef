//! The interpreter loop, with a stack of its own.
//!
//! A [`Machine`] holds one activation for each running graph (the graph itself, sections, callees)
//! and one frame for each block. The end of a block passes its results to the frame that entered
//! it. Values are dropped after their last use.

use super::call::{Call, Outs};
use super::environment::Environment;
use super::ivalue::{Future, IValue};
use super::library::{self, Found};
use super::literal_values;
use super::operators::structure::holds;
use super::plan::{Action, Plan};
use super::profile::type_of;
use super::resumption::Resumption;
use super::stop::{Reason, Stop};
use crate::analysis::grad_mode::GRAD_MODES;
use crate::entity::Entity;
use crate::ir::{Attribute, Block, Graph, Iteration, Iterations, LoopIterations, Node, Value};
use crate::ops::rules::{Carries, Structure};
use crate::ops::schema::Schema;
use crate::ops::{self};
use crate::symbol::{attr, prim};
use crate::text::{PrintOptions, Printer};
use crate::types::{Type, TypeKind};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;

/// An observer of a run, which may interfere.
pub trait Watch {
    /// Before a node runs: outputs that replace running it.
    fn instead(&mut self, _graph: &Graph, _node: Node) -> Option<Outs> {
        None
    }
    /// At the start of a graph, a taken branch or an iteration of a loop, with the values of its
    /// params, which may be replaced.
    fn entered(&mut self, _graph: &Graph, _block: Block, _params: &mut [IValue]) {}
    /// Before a kernel runs: whether it may. Results of a kernel can be much larger than its
    /// operands.
    fn before(&mut self, _call: &Call) -> Result<(), Stop> {
        Ok(())
    }
    /// Before a kernel runs: known results that replace running it.
    fn recalled(&mut self, _call: &Call) -> Option<Outs> {
        None
    }
    /// After a node ran, here or, as a section, in a backend; not if its outputs were replaced.
    fn after(&mut self, _graph: &Graph, _node: Node, _operands: &[IValue], _outputs: &[IValue]) -> Result<(), Stop> {
        Ok(())
    }
    /// Whether a bailout is taken although its guard holds.
    fn leaves(&mut self, _graph: &Graph, _node: Node) -> bool {
        false
    }
    /// When a bailout is taken, and the rest of the template runs instead of the rest of the graph.
    /// Types in the template may be wrong.
    fn left(&mut self, _graph: &Graph, _node: Node, _template: &Graph) {}
    /// Whether it observes nodes in bodies of forks: then these run in their order, on one thread.
    fn looks_into_forks(&self) -> bool {
        true
    }
    /// When the outputs of a node are known, those of blocks and sections included: they may be
    /// replaced.
    fn delivered(&mut self, _graph: &Graph, _node: Node, _outputs: &mut Outs) -> Result<(), Stop> {
        Ok(())
    }
}

/// An alternative executor of sections, whose results equal those of running the section here.
pub trait Backend: std::fmt::Debug {
    /// Before a graph runs, perhaps within the run of another one.
    fn begins(&self, _graph: &Graph, _arguments: &[IValue], _env: &Environment) {}

    /// After it ran, its results still in use; or after it stopped.
    fn ends(&self, _env: &Environment, _is_complete: bool) {}

    /// Before a section runs: the outputs of its node, or `None` to run it here.
    fn section(
        &self,
        graph: &Graph,
        node: Node,
        section: &Graph,
        operands: &[IValue],
        env: &Environment,
    ) -> Option<Outs>;

    /// Before the body of a fork runs: its result, which another thread computes from the operands
    /// as they are now, or `None` to run it here.
    fn fork(&self, _graph: &Graph, _node: Node, _body: &Graph, _: &[IValue], _: &Environment) -> Option<Future> {
        None
    }
}

/// A running graph.
struct Activation<'g> {
    graph: &'g Graph,
    plan: Rc<Plan>,
    values: Vec<IValue>,
}

/// The use of the results of a block.
#[derive(Clone, Copy)]
enum Then {
    /// They are the results of the run.
    Finish,
    /// They are the outputs of a node around the block.
    Outputs(Node),
    /// They are the next state of a loop: iteration `at` of at most `most`.
    Again { node: Node, at: i64, most: i64 },
    /// They are the outputs of a node of the activation below.
    Return(Node, Carries),
    /// They are the results of a call of the activation below, in a tuple: as many as the replaced
    /// section has.
    Fallback { call: Node, section: Node },
}

impl Then {
    /// Whether an activation ends with the block.
    fn ends_activation(self) -> bool {
        matches!(self, Then::Finish | Then::Return(..) | Then::Fallback { .. })
    }
}

struct Frame {
    block: Block,
    cursor: Option<Node>,
    then: Then,
}

/// A run of a graph.
pub struct Machine<'g> {
    env: &'g Environment,
    watch: Option<&'g mut dyn Watch>,
    backend: Option<&'g dyn Backend>,
    plans: FxHashMap<u64, Rc<Plan>>,
    /// The points where runs continue after a bailout, by template and index.
    resumptions: FxHashMap<(u64, i64), Rc<Resumption>>,
    graph: &'g Graph,
    activations: Vec<Activation<'g>>,
    frames: Vec<Frame>,
    steps: u64,
    /// Bodies of forks on other threads, in their order; effects of those before are in the
    /// environment.
    forks: VecDeque<Rc<Future>>,
    /// The reason why the run ended in one of those.
    ended: Option<Stop>,
}

/// The maximal nesting of calls: a recursive callee is reported before it fills the memory.
const MAX_ACTIVATIONS: usize = 10_000;

impl<'g> Machine<'g> {
    /// Prepares the run of a graph.
    pub fn new(graph: &'g Graph, env: &'g Environment) -> Machine<'g> {
        let (plans, resumptions) = Default::default();
        let (activations, frames, forks) = (Vec::new(), Vec::new(), VecDeque::new());
        let (watch, backend, steps, ended) = (None, None, 0, None);
        Machine { env, watch, backend, plans, resumptions, graph, activations, frames, steps, forks, ended }
    }

    /// Sets the observer.
    pub fn watched(mut self, watch: &'g mut dyn Watch) -> Machine<'g> {
        self.watch = Some(watch);
        self
    }

    /// Sets the backend for sections.
    pub fn backed_by(mut self, backend: &'g dyn Backend) -> Machine<'g> {
        self.backend = Some(backend);
        self
    }

    /// The number of nodes run so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs the graph. May be called again; plans are kept.
    pub fn run(&mut self, inputs: Vec<IValue>) -> Result<Vec<IValue>, Stop> {
        let (backend, env) = (self.backend, self.env);
        backend.iter().for_each(|backend| backend.begins(self.graph, &inputs, env));
        let ran = self.run_to_end(inputs);
        self.settle(|_| true);
        // What is still in use after an exception is not kept until the next run.
        self.activations.clear();
        self.frames.clear();
        backend.iter().for_each(|backend| backend.ends(env, ran.is_ok()));
        self.ended.take().map_or(ran, Err)
    }

    fn run_to_end(&mut self, inputs: Vec<IValue>) -> Result<Vec<IValue>, Stop> {
        if let Some(recording) = self.env.recording.borrow_mut().as_mut() {
            recording.begin(&inputs);
        }
        self.activate(self.graph, inputs, Then::Finish)?;
        loop {
            let frame = self.frames.last_mut().expect("the root block ends the run");
            let Some(node) = frame.cursor else {
                match self.end_block() {
                    Ok(Some(results)) => {
                        if let Some(recording) = self.env.recording.borrow_mut().as_mut() {
                            recording.finish();
                        }
                        return Ok(results);
                    }
                    Ok(None) => {}
                    Err(stop) => self.hold(stop)?,
                }
                continue;
            };
            let graph = self.activations.last().expect("a frame belongs to an activation").graph;
            frame.cursor = graph.next(node);
            if let Err(stop) = self.execute(graph, node) {
                self.hold(stop.at(graph, node))?;
            }
        }
    }

    /// Leaves the innermost fork if the program raised an exception in it: the future holds it. Any
    /// other stop ends the run.
    fn hold(&mut self, stop: Stop) -> Result<(), Stop> {
        let is_fork = |frame: &Frame| matches!(frame.then, Then::Return(_, Carries::Future));
        let (Some(exception), Some(fork)) = (stop.exception(), self.frames.iter().rposition(is_fork)) else {
            return Err(stop);
        };
        self.settle(|_| true);
        self.env.held.borrow_mut().push(exception.clone());
        let Then::Return(node, _) = self.frames[fork].then else { return Err(stop) };
        let left = self.frames.drain(fork..).filter(|frame| frame.then.ends_activation()).count();
        self.activations.truncate(self.activations.len() - left);
        let graph = self.activations.last().expect("a graph forked").graph;
        self.deliver(graph, node, smallvec::smallvec![IValue::Future(Rc::new(Future::known(Err(stop))))])
    }

    fn activate(&mut self, graph: &'g Graph, mut inputs: Vec<IValue>, then: Then) -> Result<(), Stop> {
        if self.activations.len() >= MAX_ACTIVATIONS {
            return Err(Stop::new(Reason::Budget(format!("calls nest deeper than {MAX_ACTIVATIONS}"))));
        }
        let plan = self.plan(graph);
        let params = graph.params(graph.root());
        if params.len() != inputs.len() {
            return Err(Stop::raised(format!("the graph takes inputs: {}; given: {}", params.len(), inputs.len())));
        }
        if let Some(watch) = self.watch.as_mut() {
            watch.entered(graph, graph.root(), &mut inputs);
        }
        let mut values = vec![IValue::Uninitialized; graph.num_values()];
        for (param, input) in params.zip(inputs) {
            values[param.index()] = input;
        }
        self.activations.push(Activation { graph, plan, values });
        self.enter(graph, graph.root(), then);
        Ok(())
    }

    fn plan(&mut self, graph: &Graph) -> Rc<Plan> {
        let env = self.env;
        self.plans.entry(graph.id().number()).or_insert_with(|| Rc::new(Plan::of(graph, env))).clone()
    }

    fn enter(&mut self, graph: &Graph, block: Block, then: Then) {
        self.frames.push(Frame { block, cursor: graph.first(block), then });
        self.drop_after(graph.param_node(block));
    }

    fn values(&mut self) -> &mut Vec<IValue> {
        &mut self.activations.last_mut().expect("something is running").values
    }

    fn get(&self, value: Value) -> IValue {
        self.activations.last().expect("something is running").values[value.index()].clone()
    }

    fn set(&mut self, value: Value, to: IValue) {
        self.values()[value.index()] = to;
    }

    fn drop_after(&mut self, node: Node) {
        let top = self.activations.last_mut().expect("something is running");
        for value in &top.plan.row(node).drops {
            top.values[value.index()] = IValue::Uninitialized;
        }
    }

    /// Leaves a block at its end; returns the results of the run if it was the last.
    fn end_block(&mut self) -> Result<Option<Vec<IValue>>, Stop> {
        let graph = self.activations.last().expect("something is running").graph;
        let frame = self.frames.pop().expect("a block is being left");
        let results: Vec<IValue> = graph.results(frame.block).map(|value| self.get(value)).collect();
        self.drop_after(graph.return_node(frame.block));
        match frame.then {
            Then::Finish => return Ok(Some(results)),
            Then::Outputs(node) => self.deliver(graph, node, results.into())?,
            Then::Again { node, at, most } => self.iterate(graph, node, at + 1, most, results)?,
            Then::Return(node, carries) => {
                self.activations.pop();
                let graph = self.activations.last().expect("a graph called").graph;
                self.deliver(graph, node, returned(graph, node, carries, results))?;
            }
            Then::Fallback { call, section } => {
                self.activations.pop();
                let graph = self.activations.last().expect("a graph called").graph;
                let results: Vec<IValue> = results.into_iter().take(graph.num_outputs(section)).collect();
                self.deliver(graph, call, smallvec::smallvec![IValue::tuple(results)])?;
            }
        }
        Ok(None)
    }

    /// Sets the outputs of a node, and drops values without further uses.
    fn deliver(&mut self, graph: &Graph, node: Node, mut outputs: Outs) -> Result<(), Stop> {
        if let Some(watch) = self.watch.as_mut() {
            watch.delivered(graph, node, &mut outputs)?;
        }
        if outputs.len() != graph.num_outputs(node) {
            let (made, wanted) = (outputs.len(), graph.num_outputs(node));
            return Err(Stop::raised(format!("{made} results for {wanted} outputs")).at(graph, node));
        }
        for (i, value) in outputs.into_iter().enumerate() {
            self.set(graph.output(node, i), value);
        }
        self.drop_after(node);
        Ok(())
    }

    fn execute(&mut self, graph: &'g Graph, node: Node) -> Result<(), Stop> {
        self.count_step()?;
        if let Some(outputs) = self.watch.as_mut().and_then(|watch| watch.instead(graph, node)) {
            return self.deliver(graph, node, outputs);
        }
        let plan = self.activations.last().expect("something is running").plan.clone();
        match &plan.row(node).action {
            Action::Kernel(found, schema) => self.run_kernel(graph, node, *found, *schema),
            Action::Constant(value) => self.deliver(graph, node, smallvec::smallvec![value.clone()]),
            Action::If => self.take_branch(graph, node),
            Action::Loop => {
                let most = match self.get(graph.input(node, 0)) {
                    IValue::Int(n) => n,
                    other => return Err(Stop::unsupported(format!("a loop of {} iterations", other.kind_name()))),
                };
                let state = graph.inputs(node).skip(1).map(|value| self.get(value)).collect();
                self.iterate(graph, node, 0, most, state)
            }
            Action::GradOf => {
                let defined = graph.inputs(node).any(|value| !matches!(self.get(value), IValue::Undefined));
                match defined {
                    true => self.enter(graph, graph.node_block(node, 0), Then::Outputs(node)),
                    false => self.deliver(graph, node, graph.outputs(node).map(|_| IValue::Undefined).collect())?,
                }
                Ok(())
            }
            Action::Section(carries) => self.run_section(graph, node, *carries),
            Action::CallFunction | Action::CallMethod => self.call(graph, node),
            Action::BailOut => self.bail_out(graph, node),
            Action::Skip => self.deliver(graph, node, graph.outputs(node).map(|_| IValue::None).collect()),
            Action::Refused(stop) => Err((**stop).clone()),
        }
    }

    fn take_branch(&mut self, graph: &'g Graph, node: Node) -> Result<(), Stop> {
        let branch = usize::from(!self.truth(graph.input(node, 0))?);
        if branch >= graph.num_blocks(node) {
            return self.skip_branch(graph, node);
        }
        let taken = graph.node_block(node, branch);
        if let Some(watch) = self.watch.as_mut() {
            watch.entered(graph, taken, &mut []);
        }
        self.enter(graph, taken, Then::Outputs(node));
        Ok(())
    }

    /// Runs a section in another thread, in the backend, or here.
    fn run_section(&mut self, graph: &'g Graph, node: Node, carries: Carries) -> Result<(), Stop> {
        let body = graph.subgraph(node).expect("the plan saw it");
        let inputs: Vec<IValue> = graph.inputs(node).map(|value| self.get(value)).collect();
        if carries == Carries::Future
            && let Some(future) = self.forked(graph, node, body, &inputs)
        {
            return self.deliver(graph, node, smallvec::smallvec![IValue::Future(future)]);
        }
        let elsewhere = |backend: &dyn Backend| backend.section(graph, node, body, &inputs, self.env);
        match self.backend.and_then(elsewhere) {
            Some(outputs) => {
                if let Some(watch) = self.watch.as_mut() {
                    watch.after(graph, node, &inputs, &outputs)?;
                }
                self.deliver(graph, node, outputs)
            }
            None => self.activate(body, inputs, Then::Return(node, carries)),
        }
    }

    /// The result of a fork that another thread computes.
    fn forked(&mut self, graph: &Graph, node: Node, body: &Graph, operands: &[IValue]) -> Option<Rc<Future>> {
        if self.watch.as_ref().is_some_and(|watch| watch.looks_into_forks()) {
            return None;
        }
        let future = Rc::new(self.backend?.fork(graph, node, body, operands, self.env)?);
        self.settle(Future::is_known);
        self.forks.push_back(future.clone());
        Some(future)
    }

    /// Adds the effects of the first forks on other threads to the environment, in the order of
    /// forks.
    fn settle(&mut self, is_next: impl Fn(&Future) -> bool) {
        while self.forks.front().is_some_and(|future| is_next(future)) {
            let Some(future) = self.forks.pop_front() else { return };
            let effects = future.take_effects();
            self.env.held.borrow_mut().extend(effects.raised);
            self.env.warned.borrow_mut().push_str(&effects.warned);
            let mut ambiguity = self.env.ambiguity.borrow_mut();
            *ambiguity = ambiguity.take().or(effects.ambiguity);
            if let Err(stop) = future.result()
                && stop.exception().is_none()
            {
                self.ended.get_or_insert_with(|| stop.clone());
            }
        }
    }

    fn count_step(&mut self) -> Result<(), Stop> {
        self.steps += 1;
        if self.env.max_steps.is_some_and(|most| self.steps > most) {
            return Err(Stop::new(Reason::Budget(format!("more than {} nodes ran", self.steps - 1))));
        }
        if self.steps.is_multiple_of(64) && self.env.is_late() {
            return Err(Stop::new(Reason::Budget(format!("time is up after {} nodes", self.steps))));
        }
        Ok(())
    }

    /// Skips a `prim::If` with one block whose condition is false: its outputs are undefined.
    fn skip_branch(&mut self, graph: &Graph, node: Node) -> Result<(), Stop> {
        match graph.num_outputs(node) {
            0 => self.deliver(graph, node, smallvec::smallvec![]),
            _ => Err(Stop::unsupported("a `prim::If` with results, one block and a false condition")),
        }
    }

    fn truth(&self, value: Value) -> Result<bool, Stop> {
        match self.get(value) {
            IValue::Tensor(tensor) if tensor.numel() == 1 => Ok(tensor.item().truth()),
            other => {
                let wrong = || Stop::unsupported(format!("a condition that is a {}", other.kind_name()));
                other.scalar().map(|scalar| scalar.truth()).ok_or_else(wrong)
            }
        }
    }

    /// Starts an iteration of a loop, or ends the loop. `state` is the condition and the carried
    /// values.
    fn iterate(&mut self, graph: &Graph, node: Node, at: i64, most: i64, mut state: Vec<IValue>) -> Result<(), Stop> {
        let carried = state.split_off(1);
        let goes_on = match &state[0] {
            IValue::Tensor(tensor) if tensor.numel() == 1 => tensor.item().truth(),
            other => other.scalar().is_some_and(|scalar| scalar.truth()),
        };
        if at >= most || !goes_on {
            if graph.is_part_of_loop(node) {
                self.env.end_loop(iteration(graph, node, at), at > 0);
            }
            return self.deliver(graph, node, carried.into());
        }
        self.count_step()?;
        let body = graph.node_block(node, 0);
        let mut given: SmallVec<[IValue; 8]> = std::iter::once(IValue::Int(at)).chain(carried).collect();
        if let Some(watch) = self.watch.as_mut() {
            watch.entered(graph, body, &mut given);
        }
        for (param, value) in graph.params(body).zip(given) {
            self.set(param, value);
        }
        self.enter(graph, body, Then::Again { node, at, most });
        Ok(())
    }

    fn run_kernel(
        &mut self,
        graph: &Graph,
        node: Node,
        found: Found,
        schema: Option<&'static Schema>,
    ) -> Result<(), Stop> {
        let args: SmallVec<[IValue; 8]> = graph.inputs(node).map(|value| self.get(value)).collect();
        let schema = schema.or_else(|| resolve_by_values(graph, node, &args));
        if self.activations.last().is_some_and(|top| top.plan.row(node).draws) {
            self.env.set_iterations(&self.iterations(graph, node));
        }
        let call = Call { graph, node, schema, args: &args, env: self.env };
        if let Some(watch) = self.watch.as_mut() {
            watch.before(&call)?;
            if let Some(outputs) = watch.recalled(&call) {
                return self.deliver(graph, node, outputs);
            }
        }
        let outputs = found.run(&call)?;
        if let Some(watch) = self.watch.as_mut() {
            watch.after(graph, node, &args, &outputs)?;
        }
        drop(args);
        self.deliver(graph, node, outputs)
    }

    /// The iterations of loops of the file that a node runs in: those on the stack, and those that
    /// it was copied for.
    fn iterations(&self, graph: &Graph, node: Node) -> Iterations {
        let mut iterations = graph.draw_place(node).iterations;
        let mut activations = self.activations.iter().rev().map(|activation| activation.graph);
        let mut around = activations.next();
        for frame in self.frames.iter().rev() {
            if let (Then::Again { node, at, .. }, Some(graph)) = (frame.then, around) {
                iterations.push(iteration(graph, node, at));
            }
            if frame.then.ends_activation() {
                around = activations.next();
            }
        }
        iterations
    }

    /// Passes a value on if the guard holds; otherwise continues in the template, as if that had
    /// run from the start. A bailout of a template has no guard: any tensor is accepted.
    fn bail_out(&mut self, graph: &'g Graph, node: Node) -> Result<(), Stop> {
        let template = graph.inputs(node).next().and_then(|value| graph.definer(value));
        let template = template.filter(|&node| graph.kind(node) == prim::BAILOUT_TEMPLATE);
        let operands: Vec<IValue> = graph.inputs(node).map(|value| self.get(value)).collect();
        let Some(tested) = operands.get(usize::from(template.is_some())).cloned() else {
            return Err(Stop::unsupported("a bailout without a guard"));
        };
        if let Some(template) = template {
            let expected = graph.ty(graph.output(node, 0));
            let holds = holds(&tested, expected);
            if !holds || self.watch.as_mut().is_some_and(|watch| watch.leaves(graph, node)) {
                let template =
                    graph.subgraph(template).ok_or_else(|| Stop::unsupported("a template without a graph"))?;
                return self.leave(graph, node, template, &operands[1..]);
            }
        }
        let outputs: Outs = smallvec::smallvec![tested];
        if let Some(watch) = self.watch.as_mut().filter(|_| template.is_some()) {
            watch.after(graph, node, &operands, &outputs)?;
        }
        self.deliver(graph, node, outputs)
    }

    /// Builds the stack for the middle of a template, replacing all activations of `graph`.
    fn leave(&mut self, graph: &Graph, node: Node, template: &'g Graph, operands: &[IValue]) -> Result<(), Stop> {
        let types =
            |graph: &Graph| graph.results(graph.root()).map(|value| graph.ty(value).erased()).collect::<Vec<_>>();
        // Passes may have refined or weakened the types of the results of the graph, compared with
        // its template.
        let fits = |(here, there): (&Type, &Type)| here.is_subtype_of(*there) || there.is_subtype_of(*here);
        let (here, there) = (types(graph), types(template));
        if here.len() != there.len() || !here.iter().zip(&there).all(fits) {
            return Err(Stop::unsupported(
                "a bailout whose template has other results than the graph that contains it",
            ));
        }
        let index = match graph.attribute(node, attr::INDEX) {
            Some(Attribute::Int(index)) => *index,
            _ => return Err(Stop::unsupported("a bailout without an index")),
        };
        let key = (template.id().number(), index);
        let place = match self.resumptions.get(&key) {
            Some(place) => place.clone(),
            None => Rc::new(Resumption::of(template, index)?),
        };
        self.resumptions.insert(key, place.clone());
        let plan = self.plan(template);
        let values = place.values(template, &plan, operands)?;
        let mut frames = Vec::new();
        for around in &place.around {
            let then = match around.owner {
                None => Then::Finish,
                Some(owner) if graph_is_loop(template, owner) => {
                    let (at, most) = place.iteration(template, around, &values)?;
                    Then::Again { node: owner, at, most }
                }
                Some(owner) => Then::Outputs(owner),
            };
            frames.push(Frame { block: around.block, cursor: around.cursor, then });
        }
        let outermost = self.frames.iter().rposition(|frame| frame.then.ends_activation()).expect("a run has a root");
        frames[0].then = self.frames[outermost].then;
        self.frames.truncate(outermost);
        self.activations.pop();
        note_departure(self.env, (graph, node), &operands[0], &frames);
        if let Some(watch) = self.watch.as_mut() {
            watch.left(graph, node, template);
        }
        self.activations.push(Activation { graph: template, plan, values });
        self.frames.extend(frames);
        Ok(())
    }

    /// Generates the result of a callee, the same in every call with the same type: enough to
    /// compare graphs that both call it.
    fn invent_call(&mut self, graph: &Graph, node: Node, name: &str) -> Result<(), Stop> {
        let invented: Result<Outs, Stop> = (graph.outputs(node).enumerate())
            .map(|(i, value)| literal_values::unbound(self.env, &result_of(name, i, graph.ty(value)), graph.ty(value)))
            .collect();
        self.env.generated_calls.borrow_mut().insert(name.to_owned());
        self.deliver(graph, node, invented?)
    }

    /// Calls a graph of the environment.
    fn call(&mut self, graph: &'g Graph, node: Node) -> Result<(), Stop> {
        let mut inputs: Vec<IValue> = graph.inputs(node).map(|value| self.get(value)).collect();
        let name = callee_name(graph, node, &mut inputs);
        match self.env.callees.get(&name) {
            Some(callee) => self.activate(callee, inputs, Then::Return(node, Carries::Body)),
            None if fallback_of(graph, node).is_some() => {
                let section = fallback_of(graph, node).expect("it was requested");
                let body = graph.subgraph(section).expect("it is a section");
                self.activate(body, inputs, Then::Fallback { call: node, section })
            }
            None if changes_grad_mode(&name, &inputs, self.env) => {
                self.deliver(graph, node, graph.outputs(node).map(|_| IValue::None).collect())
            }
            None if is_about_autocast(&name) => {
                refuse_autocast(&inputs)?;
                self.deliver(graph, node, graph.outputs(node).map(|_| IValue::None).collect())
            }
            None if self.env.invent.is_some() => self.invent_call(graph, node, &name),
            None => Err(Stop::new(Reason::Unbound(format!(
                "the graph of `{name}` is not given; give it with --callee '{name}=FILE', or generate its results with --fill-unknown=random"
            )))),
        }
    }
}

/// The iteration of the loop of the file that iteration `at` of a loop represents.
fn iteration(graph: &Graph, node: Node, at: i64) -> Iteration {
    let LoopIterations { start, stride, continues } = graph.loop_iterations(node);
    let done = stride.wrapping_mul(u64::try_from(at).unwrap_or_default());
    Iteration { of: graph.draw_root(node), at: start.wrapping_add(done), continues }
}

/// Whether a method enters or exits `torch.autocast`.
fn is_about_autocast(method: &str) -> bool {
    let is_context = method.starts_with("__torch__.torch.") && method.contains("amp.autocast_mode.");
    is_context && (method.ends_with(".__enter__") || method.ends_with(".__exit__"))
}

/// Disabled autocast has no effect; enabled autocast needs kernels of reduced precision, which do
/// not exist here.
fn refuse_autocast(inputs: &[IValue]) -> Result<(), Stop> {
    match inputs.first() {
        Some(IValue::Object(object))
            if matches!(object.attributes.borrow().get("_enabled"), Some(IValue::Bool(false))) =>
        {
            Ok(())
        }
        _ => Err(Stop::unsupported(
            "`torch.autocast` that is enabled: the interpreter does not choose element types for operators; build the module with `enabled=False`",
        )),
    }
}

/// Enters or exits a context of PyTorch's own, `torch.no_grad()` or `torch.enable_grad()`, whose
/// methods are not printed.
fn changes_grad_mode(method: &str, inputs: &[IValue], env: &Environment) -> bool {
    let found = method.strip_prefix(GRAD_MODES).and_then(|rest| rest.split_once('.'));
    let (Some((class, method)), Some(IValue::Object(object))) = (found, inputs.first()) else { return false };
    let enables = match class {
        "no_grad" => false,
        "enable_grad" => true,
        _ => return false,
    };
    let mut attributes = object.attributes.borrow_mut();
    match method {
        "__enter__" => {
            attributes.insert("prev".to_owned(), IValue::Bool(env.grad_enabled()));
            env.set_grad_enabled(enables);
        }
        "__exit__" => env.set_grad_enabled(!matches!(attributes.get("prev"), Some(IValue::Bool(false)))),
        _ => return false,
    }
    true
}

/// The section that a fallback function replaces. Its graph is not printed; it is the compiled
/// graph for tensors of any type, which is the section in the other branch.
///
/// ```text
/// %r : Tensor = prim::If(%types_are_right)
///   block0():
///     %1 : Tensor = prim::TensorExprGroup_0(%x, %y)
///     -> (%1)
///   block1():
///     %f : Function = prim::Constant[name="fallback_function", fallback=1]()
///     %2 : (Tensor) = prim::CallFunction(%f, %x, %y)
/// ```
fn fallback_of(graph: &Graph, call: Node) -> Option<Node> {
    let function = graph.definer(graph.inputs(call).next()?)?;
    if !matches!(graph.attribute(function, attr::FALLBACK), Some(Attribute::Int(n)) if *n != 0) {
        return None;
    }
    let branch = graph.enclosing(call).filter(|&node| graph.kind(node) == prim::IF)?;
    let other = graph.node_blocks(branch).find(|&block| graph.block_of(call) != Some(block))?;
    let mut sections = graph.nodes(other).filter(|&node| graph.subgraph(node).is_some());
    let section = sections.next().filter(|_| sections.next().is_none())?;
    (graph.num_inputs(section) + 1 == graph.num_inputs(call)).then_some(section)
}

/// The name of the result of a callee that was not given, among the bindings. It ignores properties
/// of tensor types, which passes may refine.
pub(crate) fn result_of(name: &str, i: usize, ty: Type) -> String {
    let part = if i == 0 { String::new() } else { format!(".{i}") };
    format!("{name}(){part} -> {}", ty.map_tensors(&mut |_| Type::tensor()))
}

fn graph_is_loop(graph: &Graph, node: Node) -> bool {
    ops::operator(graph.era, graph.kind(node)).rule.structure == Structure::Loop
}

/// Records where and why a graph is left.
fn note_departure(env: &Environment, (graph, node): (&Graph, Node), value: &IValue, frames: &[Frame]) {
    let mut departures = env.departures.borrow_mut();
    let Some(departures) = departures.as_mut() else { return };
    let found = match value {
        IValue::Tensor(tensor) => type_of(tensor).to_string(),
        other => other.kind_name().to_owned(),
    };
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    printer.node_line(graph, node);
    let line = String::from_utf8_lossy(&printer.out).trim().to_owned();
    let tested = graph.name(graph.input(node, 1));
    let iterations = frames.iter().filter_map(|frame| match frame.then {
        Then::Again { at, most: i64::MAX, .. } => Some(format!(", in iteration {at} of a loop")),
        Then::Again { at, most, .. } => Some(format!(", in iteration {at} of {most}")),
        _ => None,
    });
    departures.push(format!(
        "%{tested} is {found}; the run continues in the template{}, after\n  {line}",
        iterations.collect::<String>()
    ));
}

/// The outputs of a node from the results of its graph.
fn returned(graph: &Graph, node: Node, carries: Carries, mut results: Vec<IValue>) -> Outs {
    match carries {
        Carries::Differentiable => results.truncate(graph.num_outputs(node)),
        Carries::Body if graph.kind(node) == prim::EXIT => results.clear(),
        Carries::Future => {
            let value = if results.len() == 1 { results.remove(0) } else { IValue::tuple(results) };
            return smallvec::smallvec![IValue::Future(Rc::new(Future::known(Ok(value))))];
        }
        _ => {}
    }
    results.into()
}

/// Runs one node, which has no blocks and no subgraph, with these operands.
pub fn run_node(graph: &Graph, node: Node, args: &[IValue], env: &Environment) -> Result<Outs, Stop> {
    let kind = graph.kind(node);
    let found = library::find(kind).ok_or_else(|| Stop::unsupported(format!("`{}` has no kernel", kind.as_str())))?;
    let types: SmallVec<[Type; 8]> = graph.inputs(node).map(|value| graph.ty(value)).collect();
    let schema = ops::operator(graph.era, kind).resolve(&types).schema();
    let schema = schema.or_else(|| resolve_by_values(graph, node, args));
    found.run(&Call { graph, node, schema, args, env })
}

/// The overload that matches these values, for graphs whose types do not determine it.
fn resolve_by_values(graph: &Graph, node: Node, args: &[IValue]) -> Option<&'static Schema> {
    let operator = ops::operator(graph.era, graph.kind(node));
    if operator.schemas.is_empty() {
        return None;
    }
    let types: Vec<_> = args.iter().map(IValue::ty).collect();
    let found = operator.resolve(&types).schema().or_else(|| operator.resolve_erased(&types).schema());
    let fits = |schema: &&Schema| schema.formals.len() >= args.len();
    found
        .or_else(|| operator.schemas.iter().find(|s| s.formals.len() == args.len()))
        .or_else(|| operator.schemas.iter().find(fits))
}

/// The qualified name of the callee of a node. Operands that only name it are removed; `with` adds
/// those of a block that ended normally.
pub(crate) fn callee_name(graph: &Graph, node: Node, inputs: &mut Vec<IValue>) -> String {
    if let Some(IValue::Function(function)) = inputs.first() {
        let name = function.as_str().to_owned();
        inputs.remove(0);
        return name;
    }
    let method = match (graph.attribute(node, attr::NAME), graph.kind(node)) {
        (Some(Attribute::Str(name)), _) => String::from_utf8_lossy(name).into_owned(),
        (_, prim::ENTER) => "__enter__".to_owned(),
        (_, prim::EXIT) => {
            inputs.extend([IValue::None, IValue::None, IValue::None]);
            "__exit__".to_owned()
        }
        _ => String::new(),
    };
    match graph.inputs(node).next().map(|value| graph.ty(value).kind()) {
        Some(TypeKind::Class(class) | TypeKind::Interface(class)) => format!("{}.{method}", class.as_str()),
        _ => method,
    }
}
