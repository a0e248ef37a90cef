//! The observer of a run: prints results of nodes, replays values, records expected ones, and
//! detects NaN.

use crate::Workspace;
use crate::named_values::{Named, Place};
use crate::operator_times::OperatorTimes;
use crate::options::RunOptions;
use crate::verdicts::summary;
use jitopt_core::interpreter::{IValue, Outs, Reason, Stop, Watch};
use jitopt_core::ir::{Block, Graph, Node, Value};
use jitopt_core::tensor::{C128, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The observations that flags request.
pub(crate) struct Onlooker<'a, 's> {
    /// The graph that is run: its parameters are compared after the run.
    graph: u64,
    steps: bool,
    assert_finite: bool,
    /// The deadline of the run.
    pub(crate) deadline: Option<Instant>,
    ran: u64,
    replayed: BTreeMap<Place, IValue>,
    reached: BTreeSet<Place>,
    names: BTreeMap<Place, String>,
    expected: BTreeSet<Place>,
    /// The last computed value of each expected value.
    seen: BTreeMap<Place, IValue>,
    /// Times of operators, if they are requested.
    times: Option<OperatorTimes>,
    workspace: &'a mut Workspace<'s>,
}

/// The observations.
pub(crate) struct End {
    /// The names of replayed values that the run did not reach.
    pub(crate) unreached: Vec<String>,
    /// The recorded values.
    pub(crate) seen: BTreeMap<Place, IValue>,
    /// The times of operators.
    pub(crate) times: Option<OperatorTimes>,
}

impl<'a, 's> Onlooker<'a, 's> {
    pub(crate) fn new(
        args: &RunOptions,
        graph: &Graph,
        replayed: Vec<(Named<'_>, IValue)>,
        expected: BTreeSet<Place>,
        workspace: &'a mut Workspace<'s>,
    ) -> Onlooker<'a, 's> {
        Onlooker {
            graph: graph.id().number(),
            steps: args.checks.steps,
            assert_finite: args.checks.assert_finite,
            deadline: None,
            ran: 0,
            names: replayed.iter().map(|(named, _)| (named.place(), named.graph.name(named.value))).collect(),
            replayed: replayed.into_iter().map(|(named, value)| (named.place(), value)).collect(),
            reached: BTreeSet::new(),
            expected,
            seen: BTreeMap::new(),
            times: args.checks.times.then(OperatorTimes::default),
            workspace,
        }
    }

    /// The names of replayed values that the run did not reach, and what was recorded.
    pub(crate) fn end(self) -> End {
        let unreached = self.names.into_iter().filter(|(value, _)| !self.reached.contains(value));
        End { unreached: unreached.map(|(_, name)| name).collect(), seen: self.seen, times: self.times }
    }

    /// The outputs of a node that are replayed.
    fn replay(&mut self, graph: &Graph, node: Node) -> Option<Vec<Option<IValue>>> {
        if self.replayed.is_empty() {
            return None;
        }
        let number = graph.id().number();
        let outputs: Vec<Option<IValue>> =
            graph.outputs(node).map(|value| self.replayed.get(&(number, value)).map(copied)).collect();
        outputs.iter().any(Option::is_some).then_some(outputs)
    }

    /// Replaces replayed values among those computed or passed on, and records expected ones.
    fn meet(&mut self, graph: &Graph, values: impl Iterator<Item = Value>, found: &mut [IValue]) {
        for (value, found) in values.zip(found) {
            let place = (graph.id().number(), value);
            if let Some(replayed) = self.replayed.get(&place) {
                *found = copied(replayed);
                self.reached.insert(place);
            }
            if self.expected.contains(&place) {
                self.seen.insert(place, copied(found));
            }
        }
    }
}

/// A copy: writes of the program must not affect the next iteration.
fn copied(value: &IValue) -> IValue {
    match value {
        IValue::Tensor(tensor) => IValue::Tensor(tensor.converted(tensor.dtype(), precision(tensor))),
        other => other.clone(),
    }
}

/// The precision that preserves the elements of a tensor.
fn precision(tensor: &Tensor) -> jitopt_core::tensor::Precision {
    use jitopt_core::tensor::Precision;
    if tensor.kept() == tensor.dtype() { Precision::Typed } else { Precision::Double }
}

impl Watch for Onlooker<'_, '_> {
    fn instead(&mut self, graph: &Graph, node: Node) -> Option<Outs> {
        if let Some(times) = &mut self.times {
            times.begin();
        }
        self.replay(graph, node)?.into_iter().collect()
    }

    fn after(&mut self, graph: &Graph, node: Node, operands: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        if let Some(times) = &mut self.times {
            times.end(graph, node, operands, outputs);
        }
        self.ran += 1;
        if self.deadline.is_some_and(|end| Instant::now() > end) {
            return Err(Stop::new(Reason::Budget(format!("the time limit was reached after {} operators", self.ran))));
        }
        if self.steps {
            let operands: Vec<String> = operands.iter().map(summary).collect();
            let line = step(graph, node, &format!("({})", operands.join(", ")), outputs);
            self.workspace.say(line);
        }
        let finite = |values: &[IValue]| values.iter().all(is_finite);
        if self.assert_finite && !finite(outputs) && finite(operands) {
            let operands: Vec<String> = operands.iter().map(summary).collect();
            let made: Vec<String> = outputs.iter().map(summary).collect();
            let (operands, made, what) = (operands.join(", "), made.join(", "), not_finite(outputs));
            let text = format!("{made} contains {what}, but its operands {operands} are finite");
            return Err(Stop::new(Reason::Watcher(text)));
        }
        Ok(())
    }

    fn looks_into_forks(&self) -> bool {
        let names_values = !self.replayed.is_empty() || !self.expected.is_empty();
        names_values || self.steps || self.assert_finite || self.times.is_some()
    }

    fn delivered(&mut self, graph: &Graph, node: Node, outputs: &mut Outs) -> Result<(), Stop> {
        if !self.replayed.is_empty() || !self.expected.is_empty() {
            self.meet(graph, graph.outputs(node), outputs);
        }
        if self.steps && graph.node_blocks(node).len() > 0 && graph.num_outputs(node) > 0 {
            let line = step(graph, node, "", outputs);
            self.workspace.say(line);
        }
        Ok(())
    }

    fn entered(&mut self, graph: &Graph, block: Block, params: &mut [IValue]) {
        let is_outermost = block == graph.root() && graph.id().number() == self.graph;
        if !is_outermost && (!self.replayed.is_empty() || !self.expected.is_empty()) {
            self.meet(graph, graph.params(block), params);
        }
    }
}

fn step(graph: &Graph, node: Node, operands: &str, outputs: &[IValue]) -> String {
    let names: Vec<String> = graph.outputs(node).map(|value| format!("%{}", graph.name(value))).collect();
    let made: Vec<String> = outputs.iter().map(with_range).collect();
    let (made, equals) = (made.join(", "), if names.is_empty() { "" } else { " = " });
    let arrow = if made.is_empty() { "" } else { " -> " };
    format!("{}{equals}{}{operands}{arrow}{made}", names.join(", "), graph.kind(node).as_str())
}

/// A value, with the range of its elements if it is a tensor.
fn with_range(value: &IValue) -> String {
    let IValue::Tensor(tensor) = value else { return summary(value) };
    let (mut low, mut high, mut nans) = (f64::INFINITY, f64::NEG_INFINITY, 0);
    for x in parts(tensor) {
        nans += usize::from(x.is_nan());
        (low, high) = (low.min(x), high.max(x));
    }
    let range = if low <= high { format!(" min={low} max={high}") } else { String::new() };
    format!("{}{range} nan={nans}", summary(value))
}

fn parts(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype().is_complex() {
        true => tensor.read().into_iter().flat_map(|z: C128| [z.re, z.im]).collect(),
        false => tensor.read(),
    }
}

fn is_finite(value: &IValue) -> bool {
    let mut finite = !matches!(value, IValue::Float(x) if !x.is_finite());
    value.each_tensor(&mut |tensor| {
        finite &= tensor.dtype().is_integral() || parts(tensor).iter().all(|x| x.is_finite())
    });
    finite
}

/// `2 NaN and 1 inf`
fn not_finite(values: &[IValue]) -> String {
    let (mut nans, mut infinities) = (0usize, 0usize);
    let mut count = |x: f64| {
        nans += usize::from(x.is_nan());
        infinities += usize::from(x.is_infinite());
    };
    for value in values {
        if let IValue::Float(x) = value {
            count(*x);
        }
        value.each_tensor(&mut |tensor| {
            if !tensor.dtype().is_integral() {
                parts(tensor).into_iter().for_each(&mut count);
            }
        });
    }
    let counted = |n: usize, what: &str| (n > 0).then(|| format!("{n} {what}"));
    [counted(nans, "NaN"), counted(infinities, "inf")].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}
