//! Two files of one model: weights by name and content, and sizes that one of them fixes.

use crate::judging::Trial;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{IValue, Stop};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::types::{Dim, TensorType, Type, TypeKind};
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::verdict::fitting;
use std::collections::{BTreeMap, BTreeSet};

/// Notes of one kind that are listed; others are counted.
const MOST_LISTED: usize = 8;

type Contents = BTreeMap<String, IValue>;

/// The differences between the weights of two files.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeightDifferences {
    /// In words.
    pub(crate) notes: Vec<String>,
    /// Whether they differ in attributes only: numbers and flags of modules.
    pub(crate) in_attributes_only: bool,
    /// The first module flag `training` that differs.
    pub(crate) training: Option<String>,
    /// The first weight whose element type differs, in words.
    pub(crate) dtypes: Option<String>,
}

/// What differs between the weights of two files: those that one of them lacks, and those of
/// another content. Numbers, flags and constants without a name are named only if both files have
/// them: a saved module has many that an exported program has no place for. `stored` names the
/// weights of each file, of which contents are those that its graph reads.
pub(crate) fn weights(first: &Contents, second: &Contents, stored: &[BTreeSet<String>; 2]) -> WeightDifferences {
    let mut all = WeightDifferences::default();
    let (mut found, mut tensors) = (Vec::new(), false);
    for (name, ours) in first {
        let Some(theirs) = second.get(name) else { continue };
        let differ = differences(ours, theirs, Tolerance::of(0.0, 0.0), "");
        let (Some(first), shown) = (differ.first(), shown(name)) else { continue };
        let is_weight = ours.tensor().is_some();
        tensors |= is_weight;
        let what = if is_weight { "weight" } else { "attribute" };
        found.push(format!("the {what} `{shown}` differs{first}"));
        all.dtypes = all.dtypes.or_else(|| other_dtype(shown, ours, theirs));
        let is_flag = !is_weight && shown.rsplit('.').next() == Some("training");
        all.training = all.training.or_else(|| is_flag.then(|| shown.to_owned()));
    }
    let in_both = found.len();
    let is_nowhere = |one: &Contents, name: &str, other: &Contents| {
        let weight = one.get(name);
        let is_same = |theirs: &IValue| weight.is_some_and(|ours| are_same(ours, theirs));
        !other.values().any(is_same)
    };
    let is_only_in =
        |which: usize, name: &str| stored[which].contains(shown(name)) && !stored[1 - which].contains(shown(name));
    // A frozen module has its weights as constants, under other names.
    let ours = only_in(first, second).filter(|name| is_only_in(0, name) && is_nowhere(first, name, second));
    found.extend(ours.map(|name| format!("only the first file has the weight `{}`", shown(name))));
    let theirs = only_in(second, first).filter(|name| is_only_in(1, name) && is_nowhere(second, name, first));
    found.extend(theirs.map(|name| format!("only the second file has the weight `{}`", shown(name))));
    all.in_attributes_only = !tensors && found.len() == in_both && in_both > 0;
    WeightDifferences { notes: shortened(found), ..all }
}

fn other_dtype(name: &str, ours: &IValue, theirs: &IValue) -> Option<String> {
    let (a, b) = (ours.tensor()?.dtype(), theirs.tensor()?.dtype());
    let (first, second) = (a.python_name(), b.python_name());
    (a != b).then(|| format!("the weight `{name}` is {first} in the first file, {second} in the second"))
}

/// Whether two weights hold the same numbers; one may be the transpose of the other.
fn are_same(ours: &IValue, theirs: &IValue) -> bool {
    let (Some(a), Some(b)) = (ours.tensor(), theirs.tensor()) else { return false };
    let is_equal = |b: &Tensor| {
        a.shape() == b.shape() && a.dtype() == b.dtype() && {
            let (a, b): (Vec<f64>, Vec<f64>) = (a.read(), b.read());
            a.iter().zip(&b).all(|(x, y)| x.to_bits() == y.to_bits())
        }
    };
    is_equal(b) || b.rank() == 2 && is_equal(&b.transpose(0, 1))
}

/// The weights of one file that the other lacks. Constants have numbers for names.
fn only_in<'a>(one: &'a Contents, other: &'a Contents) -> impl Iterator<Item = &'a str> {
    let is_weight = |(name, value): &(&String, &IValue)| {
        value.tensor().is_some() && !name.bytes().all(|byte| byte.is_ascii_digit()) && !other.contains_key(*name)
    };
    one.iter().filter(is_weight).map(|(name, _)| name.as_str())
}

/// A name as `state_dict()` has it.
fn shown(name: &str) -> &str {
    name.strip_prefix("self.").unwrap_or(name)
}

fn shortened(mut notes: Vec<String>) -> Vec<String> {
    if notes.len() > MOST_LISTED {
        let more = notes.len() - MOST_LISTED;
        notes.truncate(MOST_LISTED);
        notes.push(format!("and {more} more"));
    }
    notes
}

/// Sizes of params that one graph fixes and the other leaves open.
pub(crate) fn fixed_sizes(first: &Graph, second: &Graph) -> Vec<String> {
    let pairs = first.params(first.root()).zip(second.params(second.root()));
    let found = pairs.flat_map(|(ours, theirs)| {
        let (a, b) = (sizes(first, ours), sizes(second, theirs));
        let name = first.name(ours);
        let dims = a.into_iter().zip(b).enumerate();
        dims.filter_map(|(i, pair)| match pair {
            (Dim::Known(n), Dim::Unknown) => Some(format!("the first graph fixes dimension {i} of %{name} at {n}")),
            (Dim::Unknown, Dim::Known(n)) => Some(format!("the second graph fixes dimension {i} of %{name} at {n}")),
            _ => None,
        })
        .collect::<Vec<_>>()
    });
    shortened(found.collect())
}

/// Sizes that one file fixes although the program of the other runs with other ones, too: an input
/// is made smaller there, or twice as large. `samples` are inputs that both accept.
pub(crate) fn tried_sizes(trial: &Trial, other: &Graph) -> Vec<String> {
    let graph = &trial.graph;
    let Some(sample) = trial.samples.first() else { return Vec::new() };
    let params = |graph: &Graph| graph.params(graph.root()).collect::<Vec<Value>>();
    let (ours, theirs) = (params(graph), params(other));
    let mut found = Vec::new();
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let (a, b) = (sizes(&trial.as_read, *ours), sizes(other, *theirs));
        for dim in 0..a.len().max(b.len()) {
            let fixes = |sizes: &[Dim]| matches!(sizes.get(dim), Some(Dim::Known(_)));
            let name = graph.name(*ours);
            let (open, settings, which) = match (fixes(&a), fixes(&b)) {
                (false, true) if a.is_empty() => (graph, trial.settings.clone(), "second"),
                (true, false) if b.is_empty() => (other, trial.settings.of_other(), "first"),
                _ => continue,
            };
            if runs_with_other_size(open, &settings, &sample.inputs, (at, dim)) {
                let size = sample.inputs.get(at).and_then(IValue::tensor).map_or(0, |tensor| tensor.size(dim));
                found.push(format!("the {which} graph fixes dimension {dim} of %{name} at {size}"));
            }
        }
    }
    shortened(found)
}

/// Whether a graph runs with another size of a dimension of an input, alone or together with
/// dimensions of other inputs that have the same size.
fn runs_with_other_size(graph: &Graph, settings: &Settings, inputs: &[IValue], (at, dim): (usize, usize)) -> bool {
    let size = |value: &IValue| value.tensor().filter(|tensor| tensor.rank() > dim).map(|tensor| tensor.size(dim));
    let wanted = inputs.get(at).and_then(size);
    let alone = |(i, value): (usize, &IValue)| if i == at { resized(value, dim) } else { value.clone() };
    let all = |value: &IValue| if size(value) == wanted { resized(value, dim) } else { value.clone() };
    let tries = [
        inputs.iter().enumerate().map(alone).collect::<Vec<IValue>>(),
        inputs.iter().map(all).collect::<Vec<IValue>>(),
    ];
    let runs =
        |inputs: &Vec<IValue>| Outcome::of(graph, settings, &fitting(graph, inputs), Precision::Typed).results.is_ok();
    wanted.is_some() && tries.iter().any(runs)
}

/// A tensor with one row less, or two rows for one.
fn resized(value: &IValue, dim: usize) -> IValue {
    let Some(tensor) = value.tensor().filter(|tensor| tensor.rank() > dim) else { return value.clone() };
    let size = tensor.size(dim);
    if size > 1 {
        return tensor.narrow(dim, 0, size - 1, 1).into();
    }
    let mut shape = tensor.shape().to_vec();
    shape[dim] = 2;
    match tensor.broadcast_to(&shape) {
        Ok(twice) => twice.contiguous().into(),
        Err(_) => value.clone(),
    }
}

/// Gives params whose type leaves something open what the other graph says of them, so that inputs
/// made for one graph fit both.
pub(crate) fn adopt_sizes(graph: &mut Graph, other: &Graph) {
    let pairs: Vec<(Value, Value)> = graph.params(graph.root()).zip(other.params(other.root())).collect();
    if graph.params(graph.root()).len() != other.params(other.root()).len() {
        return;
    }
    for (ours, theirs) in pairs {
        let (Some(a), Some(b)) = (graph.ty(ours).as_tensor(), other.ty(theirs).as_tensor()) else { continue };
        let sizes = match (&a.sizes, &b.sizes) {
            (None, sizes) => sizes.clone(),
            (Some(a), Some(b)) if a.len() == b.len() => Some(a.iter().zip(b).map(known).collect()),
            (sizes, _) => sizes.clone(),
        };
        let dtype = a.dtype.or(b.dtype);
        graph.set_type(ours, Type::new(TypeKind::Tensor(TensorType { sizes, dtype, ..a.clone() })));
    }
}

/// Drops generated samples that lie outside what an exported program was exported for: inputs that
/// share memory, which no exporter looks at, and sizes that an assertion about them refuses.
pub(crate) fn keep_within(trial: &mut Trial, other: &Graph) {
    let settings = trial.settings.of_other();
    let is_refused = |graph: &Graph, settings: &Settings, inputs: &[IValue]| {
        let ran = Outcome::of(graph, settings, &fitting(graph, inputs), Precision::Typed);
        let raised = ran.results.as_ref().err().and_then(Stop::exception);
        raised.is_some_and(|raised| ASSERTIONS.iter().any(|start| raised.message.starts_with(start)))
    };
    let (graph, own) = (&trial.graph, &trial.settings);
    let tensors = graph.params(graph.root()).filter(|param| graph.ty(*param).is_tensor()).count();
    trial.samples.retain(|sample| {
        let is_shared = tensors > 1 && sample.name.ends_with("(aliased)");
        let is_outside = || is_refused(graph, own, &sample.inputs) || is_refused(other, &settings, &sample.inputs);
        !sample.is_generated() || !(is_shared || is_outside())
    });
}

/// How messages of assertions about sizes begin.
const ASSERTIONS: [&str; 2] = ["Runtime assertion failed", "Deferred runtime assertion failed"];

fn known((ours, theirs): (&Dim, &Dim)) -> Dim {
    if let Dim::Known(_) = ours { *ours } else { *theirs }
}

/// The sizes of a tensor whose rank is known; a plain tensor says nothing about them.
fn sizes(graph: &Graph, value: Value) -> Vec<Dim> {
    graph.ty(value).as_tensor().and_then(|tensor| tensor.sizes.as_deref()).unwrap_or_default().to_vec()
}
