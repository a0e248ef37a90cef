//! The first nodes at which two graphs part, found by values: their names, and how operators are
//! divided, may be others.
//!
//! ```text
//! linear ─> gelu(none) ─> linear            t ─> addmm ─> gelu(tanh) ─> t ─> addmm
//!    └───────── equal values ──────────────────────┘         │
//!              └─ no equal value on the other side ──────────┘     the first on each side
//! ```
//!
//! Both graphs run once, and the result of every node is recorded. A node has a partner if the
//! other graph computed the same numbers somewhere, within rounding. A node without one from which
//! only nodes without one lead to a result that differs is at fault, or follows one that is; the
//! first of them, whose operands all have partners, is named. Nodes that only rearrange or convert
//! count as their operands do: one graph may transpose a weight that the other does not. A constant
//! number belongs to the node that reads it. Nodes that rearrange are named where nothing else
//! explains the difference: both graphs move elements by other distances, or one converts a result
//! to another element type.

use crate::budget::accuracy;
use crate::showing::{Outcome, Settings};
use crate::verdict::fitting;
use jitopt_core::interpreter::{IValue, Outs, Stop, Watch, shown_values};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::ops;
use jitopt_core::symbol::prim;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{PrintOptions, Printer};
use std::collections::HashMap;

/// Numbers of all recorded results of a graph; later nodes have none.
const MOST_RECORDED: usize = 1 << 26;
/// Numbers of operands that are shown.
const MOST_SHOWN: usize = 8;

/// The node of a graph at which it parts from another.
#[derive(Clone, Debug)]
pub struct Parting {
    /// `aten::gelu`
    pub kind: String,
    /// As printed, without its comment.
    pub line: String,
    /// Its comment: `code/__torch__.py:7:4`, `model.py:31:12`.
    pub location: Option<String>,
    /// Its operands that are no tensors, by the names of its schema: `eps`, `1e-05`.
    pub numbers: Vec<(String, String)>,
    /// Whether it draws random numbers, or trains, with these operands.
    pub trains: bool,
    /// The element type of its first result.
    pub dtype: Option<DType>,
}

impl Parting {
    fn does_the_same(&self, other: &Parting) -> bool {
        self.kind == other.kind && self.numbers == other.numbers
    }
}

/// The first difference of two graphs.
#[derive(Clone, Debug, Default)]
pub struct Alignment {
    /// In the first graph.
    pub first: Option<Parting>,
    /// In the second.
    pub second: Option<Parting>,
}

/// Runs two graphs and finds where they part.
pub fn align(first: &Graph, second: &Graph, settings: &Settings, inputs: &[IValue]) -> Alignment {
    let others = Settings { content_names: settings.names_of(first), ..settings.of_other() };
    let a = Trace::of(first, settings, inputs);
    let b = Trace::of(second, &others, &fitting(second, inputs));
    let (of_a, of_b) = (Contents::of(&a), Contents::of(&b));
    // A small difference may be within what rounding could be.
    for part in PARTS {
        let found = Alignment { first: a.parting(first, &of_b, part), second: b.parting(second, &of_a, part) };
        if found.first.is_some() || found.second.is_some() {
            let moved = || moved_apart(&a.movers(first, &of_b, part), &b.movers(second, &of_a, part));
            return if is_unexplained(&found) { moved().unwrap_or(found) } else { found };
        }
    }
    Alignment { first: a.converted(first, &of_b), second: b.converted(second, &of_a) }
}

/// Whether the same operator, with the same numbers, is at fault on both sides.
fn is_unexplained(found: &Alignment) -> bool {
    matches!((&found.first, &found.second), (Some(a), Some(b)) if a.does_the_same(b))
}

/// The first pair of nodes that move elements by the same operator with other numbers.
fn moved_apart(ours: &[Parting], theirs: &[Parting]) -> Option<Alignment> {
    let is_alone = |one: &&Parting, others: &[Parting]| !others.iter().any(|other| one.does_the_same(other));
    let mut pairs = ours.iter().filter(|one| is_alone(one, theirs)).filter_map(|one| {
        let other = theirs.iter().find(|other| other.kind == one.kind && is_alone(other, ours))?;
        Some(Alignment { first: Some(one.clone()), second: Some(other.clone()) })
    });
    pairs.next()
}

/// Parts of the tolerance that are tried, until graphs part.
const PARTS: [f64; 3] = [1.0, 0.02, 0.0];

/// One execution of one node.
struct Execution {
    node: Node,
    /// The executions that made its operands.
    makers: Vec<usize>,
    results: Vec<Numbers>,
    operands: Vec<IValue>,
}

/// A tensor as numbers in logical order.
struct Numbers {
    dtype: DType,
    elements: Vec<f64>,
    /// The largest magnitude.
    most: f64,
}

impl Numbers {
    fn of(tensor: &Tensor) -> Numbers {
        let elements: Vec<f64> = tensor.read();
        let finite = elements.iter().filter(|x| x.is_finite());
        let most = finite.fold(0.0, |most: f64, x| most.max(x.abs()));
        Numbers { dtype: tensor.dtype(), elements, most }
    }

    /// Equal within what rounding does in a few operators.
    fn is_near(&self, other: &Numbers, part: f64) -> bool {
        let bound = part * tolerance(self.dtype) * self.most.max(other.most);
        let near = |(x, y): (&f64, &f64)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= bound;
        self.elements.iter().zip(&other.elements).all(near)
    }
}

/// Relative to the largest element.
fn tolerance(dtype: DType) -> f64 {
    match dtype.to_real() {
        DType::Half => 4e-3,
        DType::BFloat16 => 3e-2,
        DType::Double => 1e-12,
        DType::Float => 5e-6,
        _ => 0.0,
    }
}

/// The results that a graph computed, by size and element type.
struct Contents<'t>(HashMap<(usize, DType), Vec<&'t Numbers>>);

impl<'t> Contents<'t> {
    fn of(trace: &'t Trace) -> Contents<'t> {
        let mut all: HashMap<(usize, DType), Vec<&Numbers>> = HashMap::new();
        for numbers in trace.inputs.iter().chain(trace.executions.iter().flat_map(|one| &one.results)) {
            all.entry((numbers.elements.len(), numbers.dtype)).or_default().push(numbers);
        }
        Contents(all)
    }

    fn has(&self, numbers: &Numbers, part: f64) -> bool {
        let same = self.0.get(&(numbers.elements.len(), numbers.dtype));
        same.is_some_and(|same| same.iter().any(|other| numbers.is_near(other, part)))
    }
}

/// The run of a graph.
#[derive(Default)]
struct Trace {
    executions: Vec<Execution>,
    inputs: Vec<Numbers>,
    /// The execution that made a value last.
    makers: HashMap<(u64, Value), usize>,
    /// The start positions of the running nodes with blocks.
    begun: HashMap<(u64, Node), usize>,
    recorded: usize,
    /// The number of the graph: sections and callees have values of their own.
    graph: u64,
    /// Operands of the node that ran last.
    operands: Vec<IValue>,
    /// The executions that made the results of the graph.
    results: Vec<usize>,
}

impl Trace {
    fn of(graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Trace {
        let mut trace = Trace { graph: graph.id().number(), ..Trace::default() };
        for input in inputs {
            input.each_tensor(&mut |tensor| trace.inputs.push(Numbers::of(tensor)));
        }
        Outcome::watched(graph, settings, inputs, Precision::Typed, Some(&mut trace));
        let results = graph.results(graph.root());
        trace.results = results.filter_map(|value| trace.makers.get(&(graph.id().number(), value)).copied()).collect();
        if trace.results.is_empty() {
            // It raised: the node that ran last is where it ended.
            trace.results.extend(trace.executions.len().checked_sub(1));
        }
        trace
    }

    /// The first node without a partner that explains a result without one.
    fn parting(&self, graph: &Graph, others: &Contents<'_>, part: f64) -> Option<Parting> {
        let mut has_partner = vec![false; self.executions.len()];
        for (at, one) in self.executions.iter().enumerate() {
            let is_number =
                graph.kind(one.node) == prim::CONSTANT && one.results.iter().all(|is| is.elements.len() == 1);
            let computed = !one.results.is_empty() && !is_number;
            let moves = accuracy(graph.kind(one.node)).moves;
            has_partner[at] = !computed
                || one.results.iter().all(|numbers| others.has(numbers, part))
                || moves && !one.makers.is_empty() && one.makers.iter().all(|maker| has_partner[*maker]);
        }
        let mut reached = vec![false; self.executions.len()];
        let mut work: Vec<usize> = self.results.iter().copied().filter(|at| !has_partner[*at]).collect();
        while let Some(at) = work.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                work.extend(self.executions[at].makers.iter().filter(|maker| !has_partner[**maker]));
            }
        }
        let begins = |at: &usize| reached[*at] && self.executions[*at].makers.iter().all(|maker| has_partner[*maker]);
        let first = (0..self.executions.len()).find(begins)?;
        Some(self.executions[first].parting(graph))
    }

    /// The nodes that move elements the other graph has to places it does not have them in.
    fn movers(&self, graph: &Graph, others: &Contents<'_>, part: f64) -> Vec<Parting> {
        let is_known = |one: &Execution| one.results.iter().all(|numbers| others.has(numbers, part));
        let movers = self.executions.iter().filter(|one| {
            let moves = accuracy(graph.kind(one.node)).moves && !is_known(one);
            moves && one.makers.iter().all(|maker| is_known(&self.executions[*maker]))
        });
        movers.map(|one| one.parting(graph)).collect()
    }

    /// The node that makes a result of an element type in which the other graph has no such result.
    fn converted(&self, graph: &Graph, others: &Contents<'_>) -> Option<Parting> {
        let mut makers = self.results.iter().map(|at| &self.executions[*at]);
        let one = makers.find(|one| !one.results.iter().all(|numbers| others.has(numbers, PARTS[0])))?;
        Some(one.parting(graph))
    }
}

impl Watch for Trace {
    fn instead(&mut self, graph: &Graph, node: Node) -> Option<Outs> {
        self.operands.clear();
        if graph.num_blocks(node) > 0 || graph.subgraph(node).is_some() {
            self.begun.insert((graph.id().number(), node), self.executions.len());
        }
        None
    }

    fn after(&mut self, graph: &Graph, _: Node, operands: &[IValue], _: &[IValue]) -> Result<(), Stop> {
        if graph.id().number() == self.graph {
            self.operands = operands.to_vec();
        }
        Ok(())
    }

    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut Outs) -> Result<(), Stop> {
        let number = graph.id().number();
        if number != self.graph {
            return Ok(());
        }
        let mut makers: Vec<usize> =
            graph.inputs(node).filter_map(|value| self.makers.get(&(number, value)).copied()).collect();
        let at = self.executions.len();
        makers.extend(self.begun.remove(&(number, node)).into_iter().flat_map(|begun| begun..at));
        let mut results = Vec::new();
        for output in outputs.iter() {
            output.each_tensor(&mut |tensor| {
                self.recorded += tensor.numel();
                if self.recorded <= MOST_RECORDED {
                    results.push(Numbers::of(tensor));
                }
            });
        }
        let operands = std::mem::take(&mut self.operands);
        let operands = operands.into_iter().map(as_number);
        self.executions.push(Execution { node, makers, results, operands: operands.collect() });
        self.makers.extend(graph.outputs(node).map(|value| ((number, value), at)));
        Ok(())
    }
}

impl Execution {
    fn parting(&self, graph: &Graph) -> Parting {
        let node = self.node;
        let types: Vec<_> = graph.inputs(node).map(|value| graph.ty(value)).collect();
        let operator = ops::operator(graph.era, graph.kind(node));
        let schema = operator.resolve(&types).schema();
        let name = |at: usize| schema.and_then(|schema| schema.formals.get(at)).map_or("", |formal| formal.name);
        let is_shown = |value: &IValue| {
            matches!(value, IValue::Int(_) | IValue::Float(_) | IValue::Bool(_) | IValue::Str(_) | IValue::List(_))
        };
        let shown = self.operands.iter().enumerate().filter(|(_, value)| is_shown(value));
        let numbers = shown.take(MOST_SHOWN).map(|(at, value)| (name(at).to_owned(), shown_values::to_repr(value)));
        Parting {
            kind: graph.kind(node).as_str().to_owned(),
            line: line(graph, node),
            location: graph.origin_location(node).map(|at| String::from_utf8_lossy(at).into_owned()),
            numbers: numbers.collect(),
            trains: self.trains(graph, &|wanted: &str| (0..types.len()).find(|at| name(*at) == wanted)),
            dtype: self.results.first().map(|numbers| numbers.dtype),
        }
    }

    /// Whether a flag among the operands says so, or the operator exists for training alone.
    fn trains(&self, graph: &Graph, place: &dyn Fn(&str) -> Option<usize>) -> bool {
        const FLAGS: [&str; 3] = ["train", "training", "dropout_p"];
        const RANDOM: [&str; 4] = ["aten::native_dropout", "aten::bernoulli", "aten::rand_like", "aten::bernoulli_"];
        let kind = graph.kind(self.node);
        let flag = FLAGS.iter().find_map(|flag| place(flag)).and_then(|at| self.operands.get(at));
        match flag {
            Some(IValue::Bool(on)) => *on,
            Some(IValue::Float(rate)) => *rate > 0.0,
            _ => RANDOM.contains(&kind.as_str()) || kind.as_str() == "aten::_native_batch_norm_legit",
        }
    }
}

/// An operand that is no tensor, or a tensor without dimensions, which is what tracing makes of a
/// number; None for other tensors, which would stay alive.
fn as_number(operand: IValue) -> IValue {
    match operand.tensor() {
        Some(tensor) if tensor.rank() == 0 && tensor.numel() == 1 => tensor.item().into(),
        Some(_) => IValue::None,
        None => operand,
    }
}

fn line(graph: &Graph, node: Node) -> String {
    let mut printer = Printer::new(PrintOptions { no_comments: true, ..PrintOptions::default() });
    printer.node_line(graph, node);
    let text = String::from_utf8_lossy(&printer.out).trim().to_owned();
    match graph.kind(node) {
        // Blocks are printed with the node.
        prim::IF | prim::LOOP => text.lines().next().unwrap_or_default().to_owned(),
        _ => text,
    }
}
