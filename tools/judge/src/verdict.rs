//! Whether two runs showed the same.
//!
//! Results, inputs afterwards and printed text are compared, or the exceptions of both. Equal bits are equal; where reals
//! differ, the [budget](crate::budget) of the graph before decides. An exception of an operator is no effect: passes may
//! erase a division by zero that nobody reads, and they may let another operator fail first. One that the program raises
//! itself must stay.

use crate::budget::{Budget, Excess};
use crate::outcome::{Outcome, Settings};
use jitopt_core::interpreter::comparison::{Difference, Tolerance, differences};
use jitopt_core::interpreter::{IValue, Reason, Stop};
use jitopt_core::ir::Graph;
use jitopt_core::tensor::Precision;
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

/// The policies of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// Whether 0 and -0 are two.
    pub signed_zero: bool,
    /// Judge by a tolerance, not by the budget.
    pub tolerance: Option<Tolerance>,
    /// Whether results and inputs must share memory afterwards as they did: whoever gets them may write to one.
    pub sharing: bool,
    /// Whether the elements of a tuple that is a result may be results themselves.
    pub flat: bool,
}

/// Compares what two graphs show on the same inputs.
pub fn judge(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue], policy: Policy) -> Verdict {
    let expected = Outcome::of(before, settings, inputs, Precision::Typed);
    judge_against(before, &expected, after, settings, inputs, policy)
}

/// The same, when the first graph ran already.
pub fn judge_against(
    before: &Graph,
    expected: &Outcome,
    after: &Graph,
    settings: &Settings,
    inputs: &[IValue],
    policy: Policy,
) -> Verdict {
    if let Some(stop) = unjudged(expected) {
        return Verdict::Unjudged(stop.clone());
    }
    let found = Outcome::of(after, settings, inputs, Precision::Typed);
    let values = match (&expected.results, &found.results) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(a), b) => return compare_exceptions(a, b),
        (Ok(_), Err(stop)) => return ended_early(stop),
    };
    let shown = |results: &[IValue], inputs: &[IValue]| {
        let results: Vec<IValue> = if policy.flat { flattened(results) } else { results.to_vec() };
        IValue::tuple([IValue::tuple(results), IValue::tuple(inputs.iter().cloned())])
    };
    let (a, b) = (shown(values.0, &expected.inputs), shown(values.1, &found.inputs));
    let mut wrong = match policy.tolerance {
        Some(tolerance) => lines(&named(differences(&a, &b, tolerance, ""))),
        None => beyond_budget(before, settings, inputs, &a, &b),
    };
    if policy.signed_zero && wrong.is_empty() {
        wrong.extend(zeros_differ(&a, &b));
    }
    if policy.sharing && wrong.is_empty() {
        wrong.extend(sharing_differs(&a, &b));
    }
    if expected.printed != found.printed {
        wrong.push(format!("it prints {:?}, not {:?}", found.printed, expected.printed));
    }
    if wrong.is_empty() { Verdict::Same } else { Verdict::Differs(wrong) }
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

/// Whether the program raised it, not an operator.
fn is_raised_by_program(stop: &Stop) -> bool {
    stop.node.as_ref().is_some_and(|node| node.contains("prim::RaiseException"))
}

fn compare_exceptions(expected: &Stop, found: &Result<Vec<IValue>, Stop>) -> Verdict {
    if !is_raised_by_program(expected) {
        return match found {
            Err(stop) if stop.exception().is_some() && !is_raised_by_program(stop) => Verdict::Same,
            _ => Verdict::Unjudged(expected.clone()),
        };
    }
    let message = |stop: &Stop| stop.exception().map(|exception| (exception.class.clone(), exception.message.clone()));
    match found {
        Err(stop) if message(stop) == message(expected) => Verdict::Same,
        Err(stop) if stop.exception().is_none() => Verdict::Unjudged(stop.clone()),
        Err(stop) => Verdict::Differs(vec![format!("it raises {stop}\nbefore, it raised {expected}")]),
        Ok(_) => Verdict::Differs(vec![format!("it has results; before, it raised {expected}")]),
    }
}

fn beyond_budget(graph: &Graph, settings: &Settings, inputs: &[IValue], a: &IValue, b: &IValue) -> Vec<String> {
    let exact = differences(a, b, Tolerance::of(0.0, 0.0), "");
    if exact.is_empty() {
        return Vec::new();
    }
    if exact.iter().any(|difference| difference.distance.is_none()) {
        return lines(&named(exact));
    }
    let budget = Budget::of(graph, settings, inputs);
    budget.excess(a, b).iter().map(Excess::to_string).collect()
}

/// Paths by what they are of: `out.0`, `in1`.
pub fn place(path: &str) -> String {
    let path = path.trim_start_matches('.');
    match path.split_once('.').unwrap_or((path, "")) {
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

/// What is in tuples, in order.
fn flattened(values: &[IValue]) -> Vec<IValue> {
    let mut all = Vec::new();
    for value in values {
        match value {
            IValue::Tuple(parts) => all.extend(flattened(parts)),
            other => all.push(other.clone()),
        }
    }
    all
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

fn zeros_differ(a: &IValue, b: &IValue) -> Option<String> {
    let signs = |value: &IValue| {
        let mut signs: Vec<bool> = Vec::new();
        value.each_tensor(&mut |tensor| {
            let zeros = tensor.read::<f64>().into_iter().filter(|x| *x == 0.0).map(f64::is_sign_negative);
            signs.extend(zeros);
        });
        signs
    };
    (signs(a) != signs(b)).then(|| "zeros differ in sign".to_owned())
}
