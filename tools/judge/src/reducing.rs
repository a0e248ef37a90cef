//! Reduces a failing graph to a smaller one with the same failure.
//!
//! A failing graph shrinks step by step; a step is kept if the failure keeps its signature. Since
//! all values are known from a run, any part of the graph can be cut off: a value that others read
//! becomes a parameter, and its content an input. The steps, largest first, repeat until none
//! helps:
//!
//! - remove results, and erase dead nodes
//! - cut off runs of nodes: half of the graph at first, single nodes at last
//! - replace a `prim::If` by a branch, a `prim::Loop` by its body
//! - replace a value by an earlier one of the same type
//! - shrink inputs: first sizes, then simple elements, then `float32`

use crate::promises::contradiction;
use crate::sharing::copies;
use crate::showing::{Outcome, Settings};
use crate::team::Seat;
use jitopt_core::interpreter::call::Outs;
use jitopt_core::interpreter::{IValue, Stop, Watch};
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::symbol::prim;
use jitopt_core::tensor::{DType, Precision, Scalar, Tensor};
use jitopt_core::types::Type;
use std::collections::HashMap;
use std::rc::Rc;

/// A graph and inputs on which it fails.
#[derive(Clone)]
pub struct Case {
    /// The graph.
    pub graph: Graph,
    /// One value per parameter.
    pub inputs: Vec<IValue>,
}

/// Shrinks cases.
pub struct Reducer<'a> {
    /// The failure in a few stable words; `None` if the case does not fail.
    pub signature: &'a dyn Fn(&Case) -> Option<String>,
    /// The settings of runs that record values.
    pub settings: &'a Settings,
    /// Progress callback: each smaller case, and the number of cases tried.
    pub progress: &'a mut dyn FnMut(&Case, usize),
    /// Maximum number of cases to try.
    pub most: usize,
    /// This thread's seat in the parallel search.
    pub seat: Seat,
}

/// Edits a case into the candidate with this number; false if that does not apply.
type Edit<'e> = &'e dyn Fn(&mut Case, usize) -> bool;

/// The state of a search.
struct Search<'a, 'b> {
    reducer: &'b mut Reducer<'a>,
    wanted: String,
    best: Case,
    tried: usize,
}

impl Reducer<'_> {
    /// Reduces a case; `None` if it does not fail.
    pub fn reduce(&mut self, case: Case) -> Option<(Case, String)> {
        let wanted = (self.signature)(&case)?;
        let mut search = Search { reducer: self, wanted, best: case, tried: 0 };
        search.run();
        Some((search.best, search.wanted))
    }
}

/// The size of a case: nodes first, then parameters, then elements.
fn size(case: &Case) -> (usize, usize, usize) {
    let mut elements = 0;
    case.inputs.iter().for_each(|value| value.each_tensor(&mut |tensor| elements += tensor.numel() + 1));
    let nodes = case.graph.all_nodes().count();
    (nodes, case.inputs.len() + case.graph.results(case.graph.root()).len(), elements)
}

impl Search<'_, '_> {
    fn run(&mut self) {
        loop {
            let before = size(&self.best);
            self.drop_results();
            self.erase_dead();
            self.cut();
            self.flatten();
            self.forward();
            self.drop_params();
            if size(&self.best) == before || self.is_spent() {
                break;
            }
        }
        self.shrink_inputs();
        self.drop_params();
    }

    fn is_spent(&self) -> bool {
        self.tried >= self.reducer.most
    }

    /// Keeps the first candidate from `from` on that fails in the same way, and returns its number.
    /// `edit` turns the best case so far into a candidate; false if it does not apply.
    fn first(&mut self, from: usize, count: usize, edit: Edit<'_>) -> Option<usize> {
        let end = count.min(from.saturating_add(self.reducer.most.saturating_sub(self.tried)));
        let edited = |best: &Case, i: usize| {
            let mut case = best.clone();
            edit(&mut case, i).then_some(case)
        };
        let fails = |case: &Case| (self.reducer.signature)(case).is_some_and(|signature| signature == self.wanted);
        let found = self.reducer.seat.first(from..end, |i| edited(&self.best, i).is_some_and(|case| fails(&case)));
        self.tried += found.map_or(end.saturating_sub(from), |i| i + 1 - from);
        if let Some(case) = found.and_then(|i| edited(&self.best, i)) {
            self.best = case;
            (self.reducer.progress)(&self.best, self.tried);
        }
        found
    }

    /// Tries all candidates; after one is kept, continues with `next` of its number.
    fn each(&mut self, count: usize, next: &dyn Fn(usize) -> usize, edit: Edit<'_>) {
        let mut at = 0;
        while let Some(kept) = self.first(at, count, edit) {
            at = next(kept);
        }
    }

    fn drop_results(&mut self) {
        let mut at = 0;
        let drop = |case: &mut Case, i: usize| {
            let end = case.graph.return_node(case.graph.root());
            case.graph.remove_input(end, i);
            true
        };
        // After a result is removed, the next one has its number.
        loop {
            let count = self.best.graph.results(self.best.graph.root()).len();
            let Some(kept) = self.first(at, count, &drop) else { break };
            at = kept;
        }
    }

    /// Erases all dead nodes, or as many as possible.
    fn erase_dead(&mut self) {
        if self.first(0, 1, &|case, _| erase_unread(&mut case.graph, &|_, _| true) > 0).is_some() {
            return;
        }
        let unread: Vec<Node> = unread(&self.best.graph);
        self.each(unread.len(), &|kept| kept + 1, &|case, i| {
            case.graph.erase(unread[i]);
            true
        });
    }

    /// Cuts off runs of nodes of the outermost block, long ones first.
    fn cut(&mut self) {
        let mut len = self.best.graph.nodes(self.best.graph.root()).count().div_ceil(2);
        while len > 0 && !self.is_spent() {
            let mut from = 0;
            loop {
                let nodes: Vec<Node> = self.best.graph.nodes(self.best.graph.root()).collect();
                let values = recorded(&self.best, self.reducer.settings);
                let rest = nodes.get(from..).unwrap_or_default();
                let cut = |case: &mut Case, i: usize| {
                    rest.chunks(len).nth(i).is_some_and(|part| cut_off(case, part, &values))
                };
                match self.first(0, rest.len().div_ceil(len), &cut) {
                    Some(kept) => from += kept * len,
                    None => break,
                }
            }
            len /= 2;
        }
    }

    /// Replaces branches and loops by the contents of their blocks.
    fn flatten(&mut self) {
        let graph = &self.best.graph;
        let owners = graph.all_nodes().filter(|&n| graph.num_blocks(n) > 0);
        let blocks: Vec<(Node, usize)> =
            owners.flat_map(|node| (0..graph.num_blocks(node)).map(move |i| (node, i))).collect();
        self.each(blocks.len(), &|kept| kept + 1, &|case, i| {
            let (node, block) = blocks[i];
            case.graph.block_of(node).is_some() && unwrap_block(&mut case.graph, node, block)
        });
    }

    /// Replaces a node's result by one of its operands.
    fn forward(&mut self) {
        let graph = &self.best.graph;
        let nodes: Vec<Node> = graph.all_nodes().filter(|&node| graph.num_outputs(node) == 1).collect();
        let operands = |&node: &Node| (0..graph.num_inputs(node)).map(move |i| (node, i));
        let pairs: Vec<(Node, usize)> = nodes.iter().rev().flat_map(operands).collect();
        self.each(pairs.len(), &|kept| kept + 1, &|case, i| {
            let (node, operand) = pairs[i];
            if case.graph.block_of(node).is_none() {
                return false;
            }
            let (output, operand) = (case.graph.output(node, 0), case.graph.input(node, operand));
            let fits = case.graph.ty(output) == case.graph.ty(operand) && case.graph.has_uses(output);
            if fits {
                case.graph.replace_all_uses(output, operand);
                erase_unread(&mut case.graph, &|_, n| n == node);
            }
            fits
        });
    }

    fn drop_params(&mut self) {
        let count = self.best.inputs.len();
        self.each(count, &|kept| kept + 1, &|case, i| {
            let (root, i) = (case.graph.root(), count - 1 - i);
            let param = case.graph.params(root).nth(i).expect("one param per input");
            let unread = !case.graph.has_uses(param);
            if unread {
                case.graph.remove_output(case.graph.param_node(root), i);
                case.inputs.remove(i);
            }
            unread
        });
    }

    fn shrink_inputs(&mut self) {
        let settings = self.reducer.settings;
        let mut sizes: Vec<i64> = Vec::new();
        for input in &self.best.inputs {
            input.each_tensor(&mut |tensor| sizes.extend(tensor.shape().iter().filter(|&&n| n > 1)));
        }
        sizes.sort_unstable();
        sizes.dedup();
        let smaller: Vec<(i64, i64)> = sizes.into_iter().rev().flat_map(|size| [(size, 1), (size, 2)]).collect();
        // After a size becomes 1, it is not tried as 2.
        self.each(smaller.len(), &|kept| (kept / 2 + 1) * 2, &|case, i| {
            let (size, smaller) = smaller[i];
            smaller < size && each_input(case, settings, &|tensor| resized(tensor, size, smaller))
        });
        self.each(self.best.inputs.len() * PLAINER.len(), &|kept| kept + 1, &|case, i| {
            let (input, plainer) = (i / PLAINER.len(), PLAINER[i % PLAINER.len()]);
            case.inputs[input] = mapped(&case.inputs[input], &plainer);
            loosen(case, settings);
            true
        });
    }
}

/// Simplifications of inputs, tried in order.
const PLAINER: [fn(&Tensor) -> Tensor; 4] = [zeros, ones, counted, single];

fn single(tensor: &Tensor) -> Tensor {
    if tensor.dtype().is_float() { tensor.converted(DType::Float, Precision::Typed) } else { tensor.clone() }
}

fn unread(graph: &Graph) -> Vec<Node> {
    let nodes: Vec<Node> = graph.all_nodes().collect();
    nodes.into_iter().rev().filter(|&node| !graph.outputs(node).any(|value| graph.has_uses(value))).collect()
}

/// Erases nodes without uses, from the last to the first; returns their number.
fn erase_unread(graph: &mut Graph, may: &dyn Fn(&Graph, Node) -> bool) -> usize {
    let nodes: Vec<Node> = graph.all_nodes().collect();
    let mut erased = 0;
    for node in nodes.into_iter().rev() {
        let gone = graph.block_of(node).is_none();
        if !gone && !graph.outputs(node).any(|value| graph.has_uses(value)) && may(graph, node) {
            graph.erase(node);
            erased += 1;
        }
    }
    erased
}

/// Records the first value of each node output.
#[derive(Default)]
struct Recorder {
    values: HashMap<Value, IValue>,
    graph: Option<u64>,
}

impl Watch for Recorder {
    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut Outs) -> Result<(), Stop> {
        if self.graph == Some(graph.id().number()) {
            for (value, made) in graph.outputs(node).zip(copies(outputs, Precision::Typed)) {
                self.values.entry(value).or_insert(made);
            }
        }
        Ok(())
    }
}

fn recorded(case: &Case, settings: &Settings) -> Rc<HashMap<Value, IValue>> {
    let mut recorder = Recorder { graph: Some(case.graph.id().number()), ..Recorder::default() };
    Outcome::watched(&case.graph, settings, &case.inputs, Precision::Typed, Some(&mut recorder));
    Rc::new(recorder.values)
}

/// Whether a parameter can hold the value, so that it can be given as an input.
fn is_plain(value: &IValue) -> bool {
    match value {
        IValue::Tensor(_) | IValue::Int(_) | IValue::Float(_) | IValue::Bool(_) | IValue::Str(_) => true,
        IValue::List(list) => list.borrow().iter().all(is_plain),
        IValue::Tuple(values) => values.iter().all(is_plain),
        _ => false,
    }
}

/// Replaces the used outputs of some nodes by parameters, and erases the nodes.
fn cut_off(case: &mut Case, part: &[Node], values: &HashMap<Value, IValue>) -> bool {
    let graph = &mut case.graph;
    let inside = |graph: &Graph, mut node: Node| loop {
        if part.contains(&node) {
            return true;
        }
        match graph.enclosing(node) {
            Some(around) => node = around,
            None => return false,
        }
    };
    for &node in part {
        for value in graph.outputs(node).collect::<Vec<_>>() {
            if graph.users(value).all(|user| inside(graph, user)) {
                continue;
            }
            let Some(known) = values.get(&value).filter(|value| is_plain(value)) else { return false };
            let param = graph.add_param(graph.root(), graph.ty(value));
            case.inputs.push(known.clone());
            graph.replace_all_uses(value, param);
        }
    }
    for &node in part.iter().rev() {
        if graph.outputs(node).any(|value| graph.has_uses(value)) {
            return false;
        }
        graph.erase(node);
    }
    true
}

/// Moves the nodes of a block before its node, and replaces the node's outputs by the block's
/// results.
fn unwrap_block(graph: &mut Graph, node: Node, i: usize) -> bool {
    let block: Block = graph.node_block(node, i);
    let skip = usize::from(graph.kind(node) == prim::LOOP);
    let results: Vec<Value> = graph.results(block).skip(skip).collect();
    if results.len() != graph.num_outputs(node) {
        return false;
    }
    let params: Vec<Value> = graph.params(block).collect();
    let state: Vec<Value> = graph.inputs(node).skip(2 * skip).collect();
    if skip == 1 {
        // The iteration counter is replaced by the trip count: it is an int in scope.
        let counter = graph.input(node, 0);
        for (param, value) in params.iter().zip(std::iter::once(counter).chain(state)) {
            graph.replace_all_uses(*param, value);
        }
    } else if !params.is_empty() {
        return false;
    }
    let results: Vec<Value> = graph.results(block).skip(skip).take(results.len()).collect();
    for inner in graph.nodes(block).collect::<Vec<_>>() {
        graph.move_before(inner, node);
    }
    for (output, result) in graph.outputs(node).collect::<Vec<_>>().into_iter().zip(results) {
        graph.replace_all_uses(output, result);
    }
    graph.erase(node);
    true
}

fn mapped(value: &IValue, f: &dyn Fn(&Tensor) -> Tensor) -> IValue {
    match value {
        IValue::Tensor(tensor) => IValue::Tensor(f(tensor)),
        IValue::List(list) => IValue::list(list.borrow().iter().map(|value| mapped(value, f))),
        IValue::Tuple(values) => IValue::tuple(values.iter().map(|value| mapped(value, f))),
        other => other.clone(),
    }
}

fn each_input(case: &mut Case, settings: &Settings, f: &dyn Fn(&Tensor) -> Tensor) -> bool {
    case.inputs = case.inputs.iter().map(|value| mapped(value, f)).collect();
    loosen(case, settings);
    true
}

/// Records values that contradict their types.
struct Contradicted {
    graph: u64,
    values: Vec<Value>,
}

impl Contradicted {
    fn look(&mut self, graph: &Graph, values: impl Iterator<Item = Value>, made: &[IValue]) {
        if graph.id().number() == self.graph {
            let wrong = values.zip(made).filter(|&(value, made)| contradiction(graph.ty(value), made).is_some());
            self.values.extend(wrong.map(|(value, _)| value));
        }
    }
}

impl Watch for Contradicted {
    fn entered(&mut self, graph: &Graph, block: Block, params: &mut [IValue]) {
        self.look(graph, graph.params(block), params);
    }

    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut Outs) -> Result<(), Stop> {
        self.look(graph, graph.outputs(node), outputs);
        Ok(())
    }
}

/// Weakens types that the changed inputs contradict: a description that contradicts the types would
/// be refused.
fn loosen(case: &mut Case, settings: &Settings) {
    let mut found = Contradicted { graph: case.graph.id().number(), values: Vec::new() };
    Outcome::watched(&case.graph, settings, &case.inputs, Precision::Typed, Some(&mut found));
    for value in found.values {
        let known = case.graph.ty(value).map_tensors(&mut |_| Type::tensor());
        case.graph.set_type(value, known);
    }
}

fn resized(tensor: &Tensor, from: i64, to: i64) -> Tensor {
    let mut smaller = tensor.clone();
    for dim in 0..tensor.rank() {
        if smaller.size(dim) == from {
            smaller = smaller.narrow(dim, 0, to, 1);
        }
    }
    smaller.copied()
}

fn filled(tensor: &Tensor, value: i64) -> Tensor {
    Tensor::full(Scalar::Int(value), tensor.dtype(), tensor.shape(), Precision::Typed)
}

fn zeros(tensor: &Tensor) -> Tensor {
    filled(tensor, 0)
}

fn ones(tensor: &Tensor) -> Tensor {
    filled(tensor, 1)
}

fn counted(tensor: &Tensor) -> Tensor {
    let elements: Vec<i64> = (1..=tensor.numel() as i64).collect();
    Tensor::of(&elements, tensor.dtype(), tensor.shape(), Precision::Typed)
}
