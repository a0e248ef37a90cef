//! Random graphs behave the same when a guard fails in the middle of a run.
//!
//! Each graph is profiled on its inputs, guarded, and given bailouts; then it runs repeatedly, and
//! in each run another guard fails, the first and the last time that the run reaches it. Results,
//! printed text, writes to inputs, and exceptions must be bitwise those of the graph without
//! guards. Some bailouts are forced, others are due to inputs with other shapes and element types.
//! The same is repeated after passes that copy, merge and move nodes around bailouts.
//!
//! `JITOPT_SMITH=20000` sets the number of graphs, `JITOPT_SMITH=20000-40000` a range of seeds; the
//! default is a few hundred graphs.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::parallel;

use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::profile::{Profile, Recording};
use jitopt_core::interpreter::{IValue, Machine, Watch};
use jitopt_core::ir::{Attribute, Graph, Node};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::attr;
use jitopt_core::tensor::{DType, Precision, Tensor};
use jitopt_core::text::{PrintOptions, print};
use jitopt_core::verify;
use jitopt_judge::sharing::{Copier, copies};
use jitopt_judge::showing::{Outcome, Settings};
use jitopt_judge::smith::{Forged, Plan, forge};
use jitopt_passes::REGISTRY;
use std::collections::BTreeMap;
use std::rc::Rc;

const GUARDS: &str = "insert-guards,guard-elimination,insert-bailouts";
/// Passes that change the code around bailouts, but no results.
const LATER: [&str; 2] = [
    "constant-pooling,cse,dce,loop-unrolling,cse,dce",
    "inline,lower-simple-tuples,constant-propagation,hoist-loop-invariants,loop-peeling,constant-loop-unrolling,remove-mutation,\
     inline-fork-wait,refine-integer-values,shape-analysis{precise},cse,dce",
];

fn seeds() -> Vec<u64> {
    let text = std::env::var("JITOPT_SMITH").unwrap_or("200".to_owned());
    let (from, to) = text.split_once('-').unwrap_or(("0", &text));
    (from.parse().expect("a seed")..to.parse().expect("a number")).collect()
}

fn text(graph: &Graph) -> String {
    String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned()
}

fn transformed(graph: &Graph, passes: &str, profile: Option<&Profile>, settings: &Settings) -> Result<Graph, String> {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    let mut after = graph.clone();
    let callees = (*settings.callees).clone();
    let mut session = Session { profile: profile.cloned().map(Rc::new), callees, ..Session::default() };
    run(&mut after, &pipeline, &mut session, &mut []).map_err(|error| format!("{passes}: {error}"))?;
    if verify::verify(&after).has_errors() {
        return Err(format!("{passes}: it is broken\n{}", text(&after)));
    }
    Ok(after)
}

/// The observed types of one run; `None` if the run raised.
fn profile(graph: &Graph, settings: &Settings, inputs: &[IValue]) -> Option<Profile> {
    let instrumented = transformed(graph, "profile-instrument", None, settings).expect("it always works");
    let env = settings.environment(Precision::Typed, &mut Copier::new(Precision::Typed));
    env.recording.replace(Recording::of(&instrumented));
    Machine::new(&instrumented, &env).run(copies(inputs, Precision::Typed)).ok()?;
    env.recording.take().map(|recording| recording.profile)
}

/// Forces one bailout at its n-th execution, and counts all.
#[derive(Default)]
struct Breaker {
    taken: Option<(i64, u64)>,
    visits: BTreeMap<i64, u64>,
    left: u64,
}

impl Watch for Breaker {
    fn leaves(&mut self, graph: &Graph, node: Node) -> bool {
        let Some(Attribute::Int(index)) = graph.attribute(node, attr::INDEX) else { return false };
        let visits = self.visits.entry(*index).or_default();
        *visits += 1;
        self.taken == Some((*index, *visits))
    }

    fn left(&mut self, _: &Graph, _: Node, _: &Graph) {
        self.left += 1;
    }
}

fn same(a: &[IValue], b: &[IValue]) -> bool {
    let exact = Tolerance::of(0.0, 0.0);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| differences(a, b, exact, "").is_empty())
}

/// The difference, if any.
fn difference(expected: &Outcome, found: &Outcome) -> Option<String> {
    match (&expected.results, &found.results) {
        (Ok(a), Ok(b)) if !same(a, b) => return Some(format!("results\n{a:?}\n{b:?}")),
        (Ok(_), Err(stop)) => return Some(format!("it stops: {stop}")),
        (Err(stop), Ok(_)) => return Some(format!("it does not stop: {stop}")),
        (Err(a), Err(b)) if a.exception() != b.exception() => return Some(format!("exceptions\n{a}\n{b}")),
        _ => {}
    }
    if !same(&expected.inputs, &found.inputs) {
        return Some("what is written to inputs".to_owned());
    }
    (expected.printed != found.printed).then(|| format!("what is printed\n{}\n{}", expected.printed, found.printed))
}

/// Inputs of which one tensor has another rank or element type.
fn variations(inputs: &[IValue]) -> Vec<Vec<IValue>> {
    let mut all = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let IValue::Tensor(tensor) = input else { continue };
        let wider: Vec<i64> = [1].into_iter().chain(tensor.shape().iter().copied()).collect();
        let other = if tensor.dtype() == DType::Float { DType::Double } else { DType::Float };
        let made = [
            Tensor::zeros(tensor.dtype(), &wider, Precision::Typed),
            Tensor::zeros(other, tensor.shape(), Precision::Typed),
        ];
        for tensor in made {
            let mut varied = inputs.to_vec();
            varied[i] = IValue::Tensor(tensor);
            all.push(varied);
        }
    }
    all
}

struct Trial<'a> {
    seed: u64,
    graph: &'a Graph,
    settings: &'a Settings,
    runs: u64,
    left: u64,
}

impl Trial<'_> {
    /// Runs a guarded graph and compares it with the one without guards.
    fn run(&mut self, guarded: &Graph, inputs: &[IValue], taken: Option<(i64, u64)>) -> Result<Breaker, String> {
        let expected = Outcome::of(self.graph, self.settings, inputs, Precision::Typed);
        self.compared(&expected, guarded, inputs, taken)
    }

    fn compared(
        &mut self,
        expected: &Outcome,
        guarded: &Graph,
        inputs: &[IValue],
        taken: Option<(i64, u64)>,
    ) -> Result<Breaker, String> {
        let mut breaker = Breaker { taken, ..Breaker::default() };
        let found = Outcome::watched(guarded, self.settings, inputs, Precision::Typed, Some(&mut breaker));
        self.runs += 1;
        self.left += breaker.left;
        match difference(expected, &found) {
            None => Ok(breaker),
            Some(why) => {
                let (seed, before, after) = (self.seed, text(self.graph), text(guarded));
                Err(format!("seed {seed}, {taken:?}: other {why}\n{before}\nguarded\n{after}"))
            }
        }
    }

    /// Fails each guard separately, at its first and its last execution.
    fn each_guard(&mut self, guarded: &Graph, inputs: &[IValue]) -> Result<(), String> {
        let expected = Outcome::of(self.graph, self.settings, inputs, Precision::Typed);
        let visits = self.compared(&expected, guarded, inputs, None)?.visits;
        for (index, visits) in visits {
            for visit in [1, visits].into_iter().take(if visits > 1 { 2 } else { 1 }) {
                self.compared(&expected, guarded, inputs, Some((index, visit)))?;
            }
        }
        Ok(())
    }
}

/// The failure of one graph, if any, and the numbers of runs and bailouts.
fn check(seed: u64) -> Result<(u64, u64), String> {
    let forged = forge(Plan { seed, nodes: 10 + seed as usize % 40, ..Plan::default() });
    let settings = Settings { max_steps: Some(100_000), ..forged.settings() };
    let Forged { graph, inputs, .. } = forged;
    let Some(profile) = profile(&graph, &settings, &inputs) else { return Ok((0, 0)) };
    let guarded =
        transformed(&graph, GUARDS, Some(&profile), &settings).map_err(|why| format!("seed {seed}: {why}"))?;
    let mut trial = Trial { seed, graph: &graph, settings: &settings, runs: 0, left: 0 };
    trial.each_guard(&guarded, &inputs)?;
    for varied in variations(&inputs) {
        trial.run(&guarded, &varied, None)?;
    }
    for passes in LATER {
        let later = transformed(&guarded, passes, None, &settings).map_err(|why| format!("seed {seed}: {why}"))?;
        trial.each_guard(&later, &inputs)?;
    }
    Ok((trial.runs, trial.left))
}

#[test]
fn bailouts_print_like_the_original_graph() {
    let seeds = seeds();
    let all = parallel::each(&seeds, |&seed| check(seed));
    let wrong: Vec<&String> = all.iter().filter_map(|found| found.as_ref().err()).collect();
    let heads: Vec<&str> = wrong.iter().filter_map(|why| why.lines().next()).take(40).collect();
    assert!(wrong.is_empty(), "{} graphs are wrong\n{}\n\n{}", wrong.len(), heads.join("\n"), wrong[0]);
    let (runs, left) = all.into_iter().flatten().fold((0, 0), |(a, b), (runs, left)| (a + runs, b + left));
    println!("{} graphs, {runs} runs, {left} bailouts taken", seeds.len());
    assert!(left > seeds.len() as u64, "only {left} bailouts were taken");
}
