//! Compares the observable behaviour of two runs.
//!
//! Results, inputs after the run and printed text are compared, or the exceptions of both. Bitwise
//! equal values are equal; where floating-point values differ, the [budget](crate::budget) of the
//! original graph decides. An exception of an operator is not an effect: passes may erase an unused
//! division by zero, and another operator may fail first. An exception that the program raises
//! itself must remain. If all behaviour is equal, types that the run contradicts are reported as
//! differences.

use crate::budget::Budget;
use crate::file_forms;
use crate::promises;
use crate::recall::Recall;
use crate::showing::{Outcome, Settings};
use jitopt_core::interpreter::comparison::{self, Difference, Tolerance, differences};
use jitopt_core::interpreter::{IValue, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::symbol::Symbol;
use jitopt_core::tensor::{Precision, Tensor};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The result of a comparison.
#[derive(Debug)]
pub enum Verdict {
    /// Equal, bitwise or within the budget.
    Same,
    /// Different: a description, in lines.
    Differs(Vec<String>),
    /// Not comparable: the run did not end in a comparable state.
    Unjudged(Stop),
}

impl Verdict {
    /// Whether the behaviour differs.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Verdict::Differs(_))
    }
}

/// The tolerance of written contents, which have no budget.
const OF_CONTENTS: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5, of_largest: 0.0, dtypes: true };

/// Policies of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// Distinguish 0 from -0.
    pub signed_zero: bool,
    /// Treat infinity as equal to a value of the same sign beyond half of the largest finite value
    /// of its type.
    pub overflow_is_large: bool,
    /// Use this tolerance instead of the budget.
    pub tolerance: Option<Tolerance>,
    /// Require that results and inputs share memory as before: a caller may write to one of them.
    pub sharing: bool,
    /// Find the node that dominates an exceeded budget: up to a hundred runs.
    pub explain: bool,
}

/// The behaviour of a graph on some inputs, and its rounding budget, computed on demand.
#[derive(Debug)]
pub struct Expected {
    /// The observed behaviour.
    pub outcome: Outcome,
    budget: OnceCell<Budget>,
    /// The cache of computed values, for many comparisons on these inputs.
    recall: Option<RefCell<Recall>>,
}

impl Expected {
    /// Runs the graph.
    pub fn of(graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Expected {
        let outcome = Outcome::of(graph, settings, inputs, Precision::Typed);
        Expected { outcome, budget: OnceCell::new(), recall: None }
    }

    /// Enables the cache, for repeated comparisons: results of one run are reused by the next.
    pub fn recalling(self) -> Expected {
        Expected { recall: Some(RefCell::default()), ..self }
    }

    /// The number of computed kernels, and of results from the cache.
    pub fn computed(&self) -> (u64, u64) {
        let recall = self.recall.as_ref().map(RefCell::borrow);
        recall.map_or((0, 0), |recall| (recall.computed, recall.recalled))
    }

    /// Runs a graph on these inputs.
    fn run(&self, graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Outcome {
        let Some(recall) = &self.recall else { return Outcome::judged(graph, settings, inputs, None) };
        let mut recall = recall.borrow_mut();
        recall.begin();
        Outcome::judged(graph, settings, inputs, Some(&mut *recall))
    }
}

/// Compares the behaviour of two graphs on the same inputs.
pub fn judge(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue], policy: Policy) -> Verdict {
    judge_against(before, &Expected::of(before, settings, inputs), after, settings, inputs, policy)
}

/// The same, if the first graph already ran with these settings and inputs.
pub fn judge_against(
    before: &Graph,
    first: &Expected,
    after: &Graph,
    settings: &Settings,
    inputs: &[IValue],
    policy: Policy,
) -> Verdict {
    let expected = &first.outcome;
    if let Some(stop) = unjudged(expected) {
        return Verdict::Unjudged(stop.clone());
    }
    let same_names = Settings { content_names: settings.names_of(before), ..settings.of_other() };
    let found = first.run(after, &same_names, &fitting(after, inputs));
    if let Some(name) = expected.generated_calls.symmetric_difference(&found.generated_calls).next() {
        let why = format!("only one of the two graphs calls `{name}`, whose graph is not given");
        return Verdict::Unjudged(Stop::new(Reason::Unbound(why)));
    }
    if raises_earlier(expected, &found) {
        return Verdict::Same;
    }
    let values = match (&expected.results, &found.results) {
        (Ok(a), Ok(b)) => (&in_form(settings, b, a), &in_form(settings, a, b)),
        (Err(a), b) => return compare_exceptions(a, b, settings.by_origin),
        (Ok(_), Err(stop)) => return ended_early(stop),
    };
    let (a, b) = compared_values((values.0, &expected.inputs), (values.1, &found.inputs), settings.by_origin);
    let mut wrong = match policy.tolerance {
        Some(tolerance) => lines(&named(differences(&a, &b, tolerance, ""))),
        None => beyond_budget(before, first, settings, inputs, (&a, &b), policy),
    };
    if policy.signed_zero && wrong.is_empty() {
        wrong.extend(zeros_differ(&a, &b, ""));
    }
    wrong.extend(contents_differ(expected, &found, (settings, &same_names), policy));
    if policy.sharing && wrong.is_empty() {
        wrong.extend(sharing_differs(&a, &b));
    }
    if !prints_alike(&expected.printed, &found.printed) {
        wrong.push(format!("it prints {:?}, not {:?}", found.printed, expected.printed));
    }
    // Types of a file are those that its writer noted; they may be wrong without any effect.
    if wrong.is_empty() && !settings.by_origin {
        wrong.extend(promises::broken(before, after, (settings, &same_names), inputs, &fitting(after, inputs)));
    }
    if wrong.is_empty() { Verdict::Same } else { Verdict::Differs(wrong) }
}

/// The results and the inputs of each run after it, as one value.
fn compared_values(first: (&[IValue], &[IValue]), second: (&[IValue], &[IValue]), by_origin: bool) -> (IValue, IValue) {
    // Passes may flatten tuples.
    let is_tuple = |value: &IValue| matches!(value, IValue::Tuple(_));
    let is_flattened = first.0.len() != second.0.len()
        || first.1.len() != second.1.len()
        || first.0.iter().zip(second.0).any(|(a, b)| is_tuple(a) != is_tuple(b));
    let one_value = |results: &[IValue], inputs: Vec<IValue>| {
        let leaves = |values: &[IValue]| values.iter().flat_map(leaves).collect::<Vec<_>>();
        let results = if is_flattened { leaves(results) } else { results.to_vec() };
        let inputs = if is_flattened { leaves(&inputs) } else { inputs };
        // A single result is named `out`, as in `jitopt run`.
        let results = if let [one] = &results[..] { one.clone() } else { IValue::tuple(results) };
        IValue::tuple([results, IValue::tuple(inputs)])
    };
    // Modules of two files may be of classes with other names; writes to them are compared by name.
    let without_modules = |inputs: &[IValue], others: &[IValue]| -> Vec<IValue> {
        let is_other = |(i, value): (usize, &IValue)| {
            by_origin && others.get(i).is_some_and(|other| classes(value, 0) != classes(other, 0))
        };
        let each = inputs.iter().enumerate();
        each.map(|(i, value)| if is_other((i, value)) { IValue::None } else { value.clone() }).collect()
    };
    let (ours, theirs) = (without_modules(first.1, second.1), without_modules(second.1, first.1));
    (one_value(first.0, ours), one_value(second.0, theirs))
}

/// The classes of an object and of the objects in it; nothing for other values.
fn classes(value: &IValue, depth: usize) -> Vec<Symbol> {
    let IValue::Object(object) = value else { return Vec::new() };
    let mut found = vec![object.class];
    if depth < DEEPEST_MODULE {
        object.attributes.borrow().values().for_each(|part| found.extend(classes(part, depth + 1)));
    }
    found
}

/// Modules hold modules; objects of classes may hold each other.
const DEEPEST_MODULE: usize = 10;

/// Whether two texts differ only in the last digits of numbers, which rounding decides, and in the
/// signs of NaN.
fn prints_alike(a: &str, b: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let alike = || {
        let (a, b) = (words(a), words(b));
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| is_one_number(a, b))
    };
    a == b || a.lines().count() == b.lines().count() && alike()
}

/// Whether two words are equal, or decimal fractions that differ by one unit of the last printed
/// digit.
fn is_one_number(a: &str, b: &str) -> bool {
    let is_nan = |word: &str| word.trim_start_matches('-') == "nan";
    // Digits after the point, and the exponent: integers are never rounded.
    let form = |word: &str| {
        let (digits, exponent) = word.split_once('e').unwrap_or((word, "0"));
        let places = digits.split_once('.').map(|(_, places)| places.len()).filter(|places| *places > 0)?;
        Some((word.parse::<f64>().ok()?, places as i32, exponent.parse::<i32>().ok()?))
    };
    let near = || {
        let ((x, places, exponent), (y, other_places, other_exponent)) = (form(a)?, form(b)?);
        let unit = 10f64.powi(exponent.max(other_exponent) - places);
        Some(places == other_places && (x - y).abs() <= 1.5 * unit)
    };
    a == b || is_nan(a) && is_nan(b) || near() == Some(true)
}

/// Differences of bound or generated contents that at least one run wrote.
fn contents_differ(expected: &Outcome, found: &Outcome, of: (&Settings, &Settings), policy: Policy) -> Vec<String> {
    let tolerance = policy.tolerance.unwrap_or(OF_CONTENTS);
    let names: BTreeSet<&String> = expected.written.keys().chain(found.written.keys()).collect();
    let differ = |name: &String| {
        let a = expected.written.get(name).or(of.0.bindings.get(name))?;
        let b = found.written.get(name).or(of.1.bindings.get(name))?;
        Some(differences(a, b, tolerance, &format!("%{name} after the run")))
    };
    lines(&names.into_iter().filter_map(differ).flatten().collect::<Vec<_>>())
}

/// The leaves of nested tuples; other values are leaves themselves.
pub fn leaves(value: &IValue) -> Vec<IValue> {
    match value {
        IValue::Tuple(values) => values.iter().flat_map(leaves).collect(),
        other => vec![other.clone()],
    }
}

/// Inputs for a graph whose tuple parameters passes have flattened.
pub fn fitting(graph: &Graph, inputs: &[IValue]) -> Vec<IValue> {
    match graph.params(graph.root()).len() == inputs.len() {
        true => inputs.to_vec(),
        false => inputs.iter().flat_map(leaves).collect(),
    }
}

fn unjudged(outcome: &Outcome) -> Option<&Stop> {
    outcome.results.as_ref().err().filter(|stop| !matches!(stop.reason, Reason::Raised(_)))
}

fn ended_early(stop: &Stop) -> Verdict {
    match &stop.reason {
        Reason::Raised(exception) => Verdict::Differs(vec![format!(
            "it raises {}: {}; before, it had results",
            exception.class, exception.message
        )]),
        Reason::Budget(what) => Verdict::Differs(vec![format!("it did not finish: {what}; before, it had results")]),
        _ => Verdict::Unjudged(stop.clone()),
    }
}

/// Whether the run raises an exception immediately that a fork raised before: without forks it is
/// raised at the position of the body, even if nothing waited for the fork. PyTorch's pass does the
/// same.
fn raises_earlier(expected: &Outcome, found: &Outcome) -> bool {
    let raised = found.results.as_ref().err().filter(|stop| stop.waited.is_none()).and_then(Stop::exception);
    raised.is_some_and(|raised| expected.held.contains(raised))
}

/// Whether the program raised it, not an operator.
fn is_raised_by_program(stop: &Stop) -> bool {
    stop.node.as_ref().is_some_and(|node| node.contains("prim::RaiseException"))
}

/// Results in the form that the others have, if they are those of another file.
fn in_form(settings: &Settings, others: &[IValue], values: &[IValue]) -> Vec<IValue> {
    if settings.by_origin { file_forms::in_form_of(others, values) } else { values.to_vec() }
}

fn compare_exceptions(expected: &Stop, found: &Result<Vec<IValue>, Stop>, by_origin: bool) -> Verdict {
    // The values computed before the exception are not observable, so two such runs are not
    // comparable.
    if !is_raised_by_program(expected) {
        return Verdict::Unjudged(expected.clone());
    }
    let message = |stop: &Stop| stop.exception().map(|exception| (exception.class.clone(), exception.message.clone()));
    let is_same = |stop: &Stop| match by_origin {
        true => file_forms::message(stop).is_some() && file_forms::message(stop) == file_forms::message(expected),
        false => message(stop) == message(expected),
    };
    match found {
        Err(stop) if is_same(stop) => Verdict::Same,
        Err(stop) if stop.exception().is_none() => Verdict::Unjudged(stop.clone()),
        Err(stop) => Verdict::Differs(vec![format!("it raises {stop}\nbefore, it raised {expected}")]),
        Ok(_) => Verdict::Differs(vec![format!("it has results; before, it raised {expected}")]),
    }
}

/// By how much the results of two graphs differ where rounding explains it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// The distance of the element that comes nearest to what is explained.
    pub off: f64,
    /// The error that rounding explains for this element.
    pub explained: f64,
}

/// The differences of results that were judged to be the same; none if all bits are equal.
pub fn rounding(
    before: &Graph,
    first: &Expected,
    after: &Graph,
    settings: &Settings,
    inputs: &[IValue],
) -> Option<Rounding> {
    let same_names = Settings { content_names: settings.names_of(before), ..settings.of_other() };
    let found = first.run(after, &same_names, &fitting(after, inputs));
    let (Ok(a), Ok(b)) = (&first.outcome.results, &found.results) else { return None };
    let (a, b) = (&in_form(settings, b, a), &in_form(settings, a, b));
    let whole = |values: &[IValue]| IValue::tuple(values.iter().flat_map(leaves));
    let (a, b) = (whole(a), whole(b));
    if differences(&a, &b, Tolerance::of(0.0, 0.0), "").is_empty() {
        return None;
    }
    let budget = first.budget.get_or_init(|| Budget::of(before, settings, inputs, &first.outcome));
    budget.share(&a, &b)
}

fn beyond_budget(
    graph: &Graph,
    first: &Expected,
    settings: &Settings,
    inputs: &[IValue],
    (a, b): (&IValue, &IValue),
    policy: Policy,
) -> Vec<String> {
    let exact = differences(a, b, Tolerance::of(0.0, 0.0), "");
    if exact.is_empty() {
        return Vec::new();
    }
    if exact.iter().any(|difference| difference.distance.is_none()) {
        return lines(&named(exact));
    }
    let budget = first.budget.get_or_init(|| Budget::of(graph, settings, inputs, &first.outcome));
    let excess = budget.excess(a, b, policy.overflow_is_large);
    if excess.is_empty() {
        return Vec::new();
    }
    let by = policy.explain.then(|| budget.dominated_by(graph, settings, inputs)).flatten();
    let by = by.map_or(String::new(), |node| format!("; the budget is dominated by {node}"));
    excess.iter().map(|excess| excess.message(&by)).collect()
}

/// Readable names of paths: `out.0`, `in1`.
pub fn place(path: &str) -> String {
    let path = path.trim_start_matches('.');
    match path.split_once('.').unwrap_or((path, "")) {
        ("0", "") => "out".to_owned(),
        ("0", rest) => format!("out.{rest}"),
        ("1", rest) => format!("in{rest} after the run"),
        _ => path.to_owned(),
    }
}

fn named(mut differences: Vec<Difference>) -> Vec<Difference> {
    differences.iter_mut().for_each(|difference| difference.path = place(&difference.path));
    differences
}

fn lines(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

fn addresses(value: &IValue, places: &mut Vec<usize>) {
    match value {
        IValue::Tensor(tensor) => places.push(if tensor.numel() == 0 { 0 } else { tensor.storage().address() }),
        IValue::List(list) => {
            places.push(Rc::as_ptr(list).addr());
            list.borrow().iter().for_each(|value| addresses(value, places));
        }
        IValue::Tuple(parts) => parts.iter().for_each(|value| addresses(value, places)),
        other => other.each_tensor(&mut |tensor| addresses(&tensor.clone().into(), places)),
    }
}

fn sharing_differs(a: &IValue, b: &IValue) -> Option<String> {
    // For each tensor and list, the first one in the same memory; empty tensors share nothing.
    let partners = |value: &IValue| {
        let mut places = Vec::new();
        addresses(value, &mut places);
        let first = |i: usize| places.iter().position(|&other| other == places[i] && places[i] != 0);
        (0..places.len()).map(first).collect::<Vec<_>>()
    };
    (partners(a) != partners(b)).then(|| "the results and inputs share memory differently than before".to_owned())
}

/// The first position where zeros differ in sign.
fn zeros_differ(a: &IValue, b: &IValue, path: &str) -> Option<String> {
    let parts = |value: &IValue| match value {
        IValue::List(list) => Some(list.borrow().to_vec()),
        IValue::Tuple(parts) => Some(parts.to_vec()),
        _ => None,
    };
    if let (Some(a), Some(b)) = (parts(a), parts(b)) {
        return a.iter().zip(&b).enumerate().find_map(|(i, (a, b))| zeros_differ(a, b, &format!("{path}.{i}")));
    }
    let tensors = |value: &IValue| {
        let mut tensors: Vec<Tensor> = Vec::new();
        value.each_tensor(&mut |tensor| tensors.push(tensor.clone()));
        tensors
    };
    tensors(a).iter().zip(tensors(b)).find_map(|(a, b)| {
        let numbers: (Vec<f64>, Vec<f64>) = (a.read(), b.read());
        let other = |(x, y): (&f64, &f64)| *x == 0.0 && *y == 0.0 && x.is_sign_negative() != y.is_sign_negative();
        let at = numbers.0.iter().zip(&numbers.1).position(other)?;
        let (expected, found, index) = (numbers.0[at], numbers.1[at], comparison::place(at, a.shape()));
        Some(format!("{}: zeros differ in sign: at {index:?} found {found}, expected {expected}", place(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::prints_alike;

    #[test]
    fn printed_numbers_may_differ_in_the_last_digit() {
        for (a, b) in [
            (" 1.5000\n-2.2500\n[ CPUFloatType{2} ]", " 1.5001\n-2.2500\n[ CPUFloatType{2} ]"),
            ("-nan\n", " nan\n"),
            ("1.2346e-07 x", "1.2345e-07 x"),
            ("x 1 2.", "x 1 2."),
        ] {
            assert!(prints_alike(a, b), "{a} {b}");
        }
        for (a, b) in [(" 1.5000", " 1.5003"), ("2.", "3."), ("1", "2"), ("a", "b"), ("1.50", "1.5"), ("1 2", "1\n2")] {
            assert!(!prints_alike(a, b), "{a} {b}");
        }
    }
}
