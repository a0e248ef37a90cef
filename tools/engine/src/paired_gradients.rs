//! `jitopt validate` also compares the gradients of differentiable groups with backward graphs,
//! before and after.
//!
//! Each group is joined with its backward graph, and runs on the operands that it receives when the
//! whole graph runs; the gradients of its results are generated.

use crate::Workspace;
use crate::error::Error;
use crate::judging;
use jitopt_core::analysis::gradient_roles::Roles;
use jitopt_core::interpreter::{IValue, Watch};
use jitopt_core::ir::{Block, Graph, Node, Value, ValueMap};
use jitopt_core::ops;
use jitopt_core::ops::rules::Nondeterminism;
use jitopt_core::pass::{self, Observer, PassRun, Pipeline, RunError, Session};
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_judge::rewrites::{Finding, Reference, Sample, Tally};
use jitopt_judge::sharing::copies;
use jitopt_judge::showing::{Outcome, Settings};
use std::collections::HashMap;

/// Keeps the graph that `differentiate` produces: the gradients after later passes are compared
/// with it.
#[derive(Default)]
pub(crate) struct KeepDifferentiated(pub(crate) Option<Graph>);

impl Observer for KeepDifferentiated {
    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        if run.stage.pass.name == "differentiate" && self.0.is_none() {
            self.0 = Some(graph.clone());
        }
        Ok(())
    }
}

/// Groups with backward graphs.
fn groups(graph: &Graph) -> Vec<Node> {
    graph.all_nodes().filter(|&node| graph.backward(node).is_some()).collect()
}

/// Whether a graph has such groups.
pub(crate) fn any(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| graph.backward(node).is_some())
}

/// The result of comparing gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// They are equal.
    Equal,
    /// They were not compared; a note says why, unless there are none.
    NotCompared,
    /// They differ; the text says where.
    Differ(String),
}

/// Compares the gradients of groups.
pub(crate) fn compare(
    reference: &Reference,
    (before, after): (&Graph, &Graph),
    workspace: &mut Workspace<'_>,
) -> Result<Gradients, Error> {
    let (old, new) = (groups(before), groups(after));
    if old.is_empty() && new.is_empty() {
        return Ok(Gradients::NotCompared);
    }
    let joined = match pairs((before, &old), (after, &new), workspace)? {
        Pairs::Joined(joined) => joined,
        Pairs::Apart(why) => {
            workspace.note(format!("gradients were not compared: {why}"));
            return Ok(Gradients::NotCompared);
        }
    };
    let samples = operands_of_groups(reference, before, &old);
    let mut all = Tally::default();
    for ((&group, (first, second)), inputs) in old.iter().zip(&joined).zip(samples) {
        let samples = inputs.into_iter().map(|sample| with_gradients(sample, before, group, reference.settings()));
        let settings = Settings { by_origin: true, ..reference.settings().clone() };
        let each = Reference::new(first, settings, reference.policy(), samples.collect());
        match each.check(second) {
            Ok(tally) => {
                all.same += tally.same;
                all.unjudged = all.unjudged.or(tally.unjudged);
            }
            Err(finding) => {
                return Ok(Gradients::Differ(wrong(before, group, &finding)));
            }
        }
    }
    match (all.same, all.unjudged) {
        (0, Some((_, stop))) => workspace.note(format!("gradients were not compared: {stop}")),
        (0, None) => workspace.note("gradients were not compared: no sample ran a differentiable group"),
        _ => return Ok(Gradients::Equal),
    }
    Ok(Gradients::NotCompared)
}

fn wrong(graph: &Graph, group: Node, finding: &Finding) -> String {
    let (results, params) = (graph.num_outputs(group), graph.num_inputs(group));
    let outputs: Vec<String> = graph.outputs(group).map(|output| format!("%{}", graph.name(output))).collect();
    format!(
        "gradients of the group that computes {} differ; the list has its {results} results, the gradients of its {params} operands, and the generated gradients of the results\n{finding}",
        outputs.join(", ")
    )
}

/// Groups before and after passes.
enum Pairs {
    /// Each group before and after, joined with its backward graph.
    Joined(Vec<(Graph, Graph)>),
    /// They do not correspond; the text says why.
    Apart(String),
}

fn pairs(
    (before, old): (&Graph, &[Node]),
    (after, new): (&Graph, &[Node]),
    workspace: &mut Workspace<'_>,
) -> Result<Pairs, Error> {
    if old.len() != new.len() {
        return Ok(Pairs::Apart(format!(
            "{} groups have backward graphs before the passes, but {} after them",
            old.len(),
            new.len()
        )));
    }
    let pipeline = judging::pipeline("differentiate{joint}", workspace)?;
    let mut found = Vec::new();
    for (&a, &b) in old.iter().zip(new) {
        let (first, second) = (Roles::of(before, a), Roles::of(after, b));
        let (Some(first), Some(second)) = (first, second) else {
            return Ok(Pairs::Apart(
                "a group does not declare which values it shares with its backward graph".to_owned(),
            ));
        };
        let same = before.num_inputs(a) == after.num_inputs(b)
            && before.num_outputs(a) == after.num_outputs(b)
            && first.output_vjps == second.output_vjps
            && real(&first) == real(&second);
        if !same {
            return Ok(Pairs::Apart(
                "the groups differ in their operands, results, or differentiated values".to_owned(),
            ));
        }
        if draws(before, a) || draws(after, b) {
            return Ok(Pairs::Apart("a group uses random numbers".to_owned()));
        }
        match (joined(before, a, &pipeline), joined(after, b, &pipeline)) {
            (Ok(first), Ok(second)) => found.push((first, second)),
            (Err(why), _) | (_, Err(why)) => return Ok(Pairs::Apart(why.to_string())),
        }
    }
    Ok(Pairs::Joined(found))
}

/// The results that receive gradients.
fn real(roles: &Roles) -> Vec<usize> {
    roles.input_vjps.iter().copied().filter(|&i| i < roles.real_outputs).collect()
}

fn draws(graph: &Graph, group: Node) -> bool {
    let is_random = |section: &Graph| {
        let deterministic =
            |node| ops::operator(section.era, section.kind(node)).nondeterminism(None) == Nondeterminism::Deterministic;
        !section.all_nodes().all(deterministic)
    };
    graph.subgraph(group).is_some_and(is_random) || graph.backward(group).is_some_and(is_random)
}

/// A graph that consists of one group, joined with its backward graph.
fn joined(graph: &Graph, group: Node, pipeline: &Pipeline) -> Result<Graph, RunError> {
    let mut whole = Graph::empty_like(graph);
    let root = whole.root();
    let mut map = ValueMap::default();
    for operand in graph.inputs(group) {
        map.insert(operand, whole.add_param(root, graph.ty(operand)));
    }
    let copy = whole.copy_node(Some(graph), group, &mut map);
    // A repeated operand has two parameters.
    let params: Vec<Value> = whole.params(root).collect();
    whole.remove_inputs(copy);
    whole.set_inputs(copy, params.into_iter());
    whole.append(root, copy);
    let outputs: Vec<Value> = whole.outputs(copy).collect();
    outputs.into_iter().for_each(|output| whole.add_result(root, output));
    pass::run(&mut whole, pipeline, &mut Session::default(), &mut [])?;
    Ok(whole)
}

/// Records the operands of each group at its first run.
struct Looker<'a> {
    sections: Vec<&'a Graph>,
    operands: HashMap<u64, Vec<IValue>>,
}

impl Watch for Looker<'_> {
    fn entered(&mut self, graph: &Graph, block: Block, params: &mut [IValue]) {
        let is_group = |section: &&Graph| section.id() == graph.id();
        if block == graph.root() && self.sections.iter().any(is_group) {
            let copied = || copies(params, Precision::Typed);
            self.operands.entry(graph.id().number()).or_insert_with(copied);
        }
    }
}

/// The operands of each group, for each sample that reaches it.
fn operands_of_groups(reference: &Reference, graph: &Graph, groups: &[Node]) -> Vec<Vec<Sample>> {
    let sections: Vec<&Graph> = groups.iter().filter_map(|&group| graph.subgraph(group)).collect();
    let mut all: Vec<Vec<Sample>> = vec![Vec::new(); groups.len()];
    for (sample, _) in reference.samples() {
        let mut looker = Looker { sections: sections.clone(), operands: HashMap::new() };
        let inputs = jitopt_judge::verdict::fitting(graph, &sample.inputs);
        Outcome::watched(graph, reference.settings(), &inputs, Precision::Typed, Some(&mut looker));
        for (section, found) in sections.iter().zip(&mut all) {
            if let Some(inputs) = looker.operands.remove(&section.id().number()) {
                found.push(Sample { name: sample.name.clone(), inputs });
            }
        }
    }
    all
}

/// Appends gradients of the floating-point results to the operands of a joined graph.
fn with_gradients(mut sample: Sample, graph: &Graph, group: Node, settings: &Settings) -> Sample {
    let (Some(section), Some(roles)) = (graph.subgraph(group), Roles::of(graph, group)) else { return sample };
    let results = Outcome::of(section, settings, &sample.inputs, Precision::Typed).results.unwrap_or_default();
    let gradient = |i: usize| match results.get(i).and_then(IValue::tensor) {
        Some(result) if result.dtype().is_float() => IValue::Tensor(generated(result)),
        _ => IValue::Undefined,
    };
    sample.inputs.extend(real(&roles).into_iter().map(gradient));
    sample
}

/// Values between -1 and 1, mostly distinct.
fn generated(result: &Tensor) -> Tensor {
    const STEP: usize = 37;
    const PERIOD: usize = 101;
    let number = |i: usize| ((i * STEP + STEP) % PERIOD) as f64 / (PERIOD / 2) as f64 - 1.0;
    let numbers: Vec<f64> = (0..result.numel()).map(number).collect();
    Tensor::of(&numbers, result.dtype(), result.shape(), Precision::Typed)
}
