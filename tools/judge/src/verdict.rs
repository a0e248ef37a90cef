//! Whether two runs showed the same.
//!
//! Results, inputs afterwards and printed text are compared, or the exceptions of both. Equal bits are equal; where reals
//! differ, the [budget](crate::budget) of the graph before decides. An exception of an operator is no effect: passes may
//! erase a division by zero that nobody reads, and they may let another operator fail first. One that the program raises
//! itself must stay. Where all is the same, types that the run contradicts are what differs.

use crate::budget::Budget;
use crate::promises;
use crate::recall::Recall;
use crate::showing::{Outcome, Settings};
use jitopt_core::interpreter::comparison::{self, Difference, Tolerance, differences};
use jitopt_core::interpreter::{IValue, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::tensor::{Precision, Tensor};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What comes out of a comparison.
#[derive(Debug)]
pub enum Verdict {
    /// Both showed the same, to the bit or within the budget.
    Same,
    /// They did not: what differs, in lines.
    Differs(Vec<String>),
    /// Nothing can be said: the run did not come to an end that can be compared.
    Unjudged(Stop),
}

impl Verdict {
    /// Whether they differ.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Verdict::Differs(_))
    }
}

/// What written contents are judged by, which have no budget.
const OF_CONTENTS: Tolerance = Tolerance { rtol: 1e-4, atol: 1e-5, of_largest: 0.0, dtypes: true };

/// The policies of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// Whether 0 and -0 are two.
    pub signed_zero: bool,
    /// Whether an infinity and a number beyond half of the largest of its type, of the same sign, are one.
    pub overflow_is_large: bool,
    /// Judge by a tolerance, not by the budget.
    pub tolerance: Option<Tolerance>,
    /// Whether results and inputs must share memory afterwards as they did: whoever gets them may write to one.
    pub sharing: bool,
    /// Whether to find out which node matters most to the budget that was not kept: up to a hundred runs.
    pub explain: bool,
}

/// What a graph showed on some inputs, and what rounding can do to that, which is found out when it is asked for first.
#[derive(Debug)]
pub struct Expected {
    /// What it showed.
    pub outcome: Outcome,
    budget: OnceCell<Budget>,
    /// What runs on these inputs computed, where there are many of them.
    recall: Option<RefCell<Recall>>,
}

impl Expected {
    /// Runs the graph.
    pub fn of(graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Expected {
        let outcome = Outcome::of(graph, settings, inputs, Precision::Typed);
        Expected { outcome, budget: OnceCell::new(), recall: None }
    }

    /// For graphs that are compared again and again: what one run computed the next one does not compute again.
    pub fn recalling(self) -> Expected {
        Expected { recall: Some(RefCell::default()), ..self }
    }

    /// How many kernels were run, and how many were not since their results were known.
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

/// Compares what two graphs show on the same inputs.
pub fn judge(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue], policy: Policy) -> Verdict {
    judge_against(before, &Expected::of(before, settings, inputs), after, settings, inputs, policy)
}

/// The same, when the first graph ran already, with these settings and on these inputs.
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
    let same_names = Settings { content_names: settings.names_of(before), ..settings.clone() };
    let found = first.run(after, &same_names, &fitting(after, inputs));
    if let Some(name) = expected.made_up_calls.symmetric_difference(&found.made_up_calls).next() {
        let why = format!("only one of the two graphs calls `{name}`, whose graph is not given");
        return Verdict::Unjudged(Stop::new(Reason::Unbound(why)));
    }
    if raises_earlier(expected, &found) {
        return Verdict::Same;
    }
    let values = match (&expected.results, &found.results) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), b) => return compare_exceptions(a, b),
        (Ok(_), Err(stop)) => return ended_early(stop),
    };
    // Passes may take tuples apart.
    let is_tuple = |value: &IValue| matches!(value, IValue::Tuple(_));
    let apart = values.0.len() != values.1.len()
        || expected.inputs.len() != found.inputs.len()
        || values.0.iter().zip(values.1).any(|(a, b)| is_tuple(a) != is_tuple(b));
    let shown = |results: &[IValue], inputs: &[IValue]| {
        let leaves = |values: &[IValue]| values.iter().flat_map(leaves).collect::<Vec<_>>();
        let results = if apart { leaves(results) } else { results.to_vec() };
        let inputs = if apart { leaves(inputs) } else { inputs.to_vec() };
        // One result is `out`, as in `jitopt run`.
        let results = if let [one] = &results[..] { one.clone() } else { IValue::tuple(results) };
        IValue::tuple([results, IValue::tuple(inputs)])
    };
    let (a, b) = (shown(values.0, &expected.inputs), shown(values.1, &found.inputs));
    let mut wrong = match policy.tolerance {
        Some(tolerance) => lines(&named(differences(&a, &b, tolerance, ""))),
        None => beyond_budget(before, first, settings, inputs, (&a, &b), policy),
    };
    if policy.signed_zero && wrong.is_empty() {
        wrong.extend(zeros_differ(&a, &b, ""));
    }
    wrong.extend(contents_differ(expected, &found, settings, policy));
    if policy.sharing && wrong.is_empty() {
        wrong.extend(sharing_differs(&a, &b));
    }
    if !prints_alike(&expected.printed, &found.printed) {
        wrong.push(format!("it prints {:?}, not {:?}", found.printed, expected.printed));
    }
    if wrong.is_empty() {
        wrong.extend(promises::broken(before, after, (settings, &same_names), inputs, &fitting(after, inputs)));
    }
    if wrong.is_empty() { Verdict::Same } else { Verdict::Differs(wrong) }
}

/// Whether two texts differ in nothing but the last digits of numbers, which rounding decides, and
/// the signs of NaN.
fn prints_alike(a: &str, b: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let alike = || {
        let (a, b) = (words(a), words(b));
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| is_one_number(a, b))
    };
    a == b || a.lines().count() == b.lines().count() && alike()
}

/// Whether two words are equal, or fractions that are a unit of the last printed digit apart.
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

/// What was bound or made up, and written to by one of the two only or otherwise.
fn contents_differ(expected: &Outcome, found: &Outcome, settings: &Settings, policy: Policy) -> Vec<String> {
    let tolerance = policy.tolerance.unwrap_or(OF_CONTENTS);
    let names: BTreeSet<&String> = expected.written.keys().chain(found.written.keys()).collect();
    let differ = |name: &String| {
        let original = settings.bindings.get(name);
        let a = expected.written.get(name).or(original)?;
        let b = found.written.get(name).or(original)?;
        Some(differences(a, b, tolerance, &format!("%{name} afterwards")))
    };
    lines(&names.into_iter().filter_map(differ).flatten().collect::<Vec<_>>())
}

/// What is in a tuple, and in tuples in it; other values are alone.
pub fn leaves(value: &IValue) -> Vec<IValue> {
    match value {
        IValue::Tuple(values) => values.iter().flat_map(leaves).collect(),
        other => vec![other.clone()],
    }
}

/// Inputs for a graph of which passes have taken tuples among the params apart.
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
        Reason::Budget(what) => Verdict::Differs(vec![format!("it did not end: {what}; before, it had results")]),
        _ => Verdict::Unjudged(stop.clone()),
    }
}

/// Whether it raises at once what a fork had raised: where nothing is forked, that comes where the body stands, also if
/// nobody would have waited for it. PyTorch's pass does the same.
fn raises_earlier(expected: &Outcome, found: &Outcome) -> bool {
    let raised = found.results.as_ref().err().filter(|stop| stop.waited.is_none()).and_then(Stop::exception);
    raised.is_some_and(|raised| expected.held.contains(raised))
}

/// Whether the program raised it, not an operator.
fn is_raised_by_program(stop: &Stop) -> bool {
    stop.node.as_ref().is_some_and(|node| node.contains("prim::RaiseException"))
}

fn compare_exceptions(expected: &Stop, found: &Result<Vec<IValue>, Stop>) -> Verdict {
    // What is computed up to there is not seen, so that two such runs show nothing.
    if !is_raised_by_program(expected) {
        return Verdict::Unjudged(expected.clone());
    }
    let message = |stop: &Stop| stop.exception().map(|exception| (exception.class.clone(), exception.message.clone()));
    match found {
        Err(stop) if message(stop) == message(expected) => Verdict::Same,
        Err(stop) if stop.exception().is_none() => Verdict::Unjudged(stop.clone()),
        Err(stop) => Verdict::Differs(vec![format!("it raises {stop}\nbefore, it raised {expected}")]),
        Ok(_) => Verdict::Differs(vec![format!("it has results; before, it raised {expected}")]),
    }
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
    excess.iter().map(|excess| excess.told(&by)).collect()
}

/// Paths by what they are of: `out.0`, `in1`.
pub fn place(path: &str) -> String {
    let path = path.trim_start_matches('.');
    match path.split_once('.').unwrap_or((path, "")) {
        ("0", "") => "out".to_owned(),
        ("0", rest) => format!("out.{rest}"),
        ("1", rest) => format!("in{rest} afterwards"),
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
    // For each tensor and list the first one that is the same memory; empty tensors share nothing.
    let partners = |value: &IValue| {
        let mut places = Vec::new();
        addresses(value, &mut places);
        let first = |i: usize| places.iter().position(|&other| other == places[i] && places[i] != 0);
        (0..places.len()).map(first).collect::<Vec<_>>()
    };
    (partners(a) != partners(b)).then(|| "other results and inputs share memory than before".to_owned())
}

/// The first place where zeros have other signs.
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
        Some(format!("{}: zeros differ in sign; at {index:?} it is {found}, not {expected}", place(path)))
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
