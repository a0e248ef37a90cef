//! Compares a graph with its original: at the end, after each pass, or after each rewrite.

use crate::renaming::old_names;
use crate::sharing::copies;
use crate::showing::{Outcome, Settings};
use crate::verdict::{Expected, Policy, Rounding, Verdict, judge_against, rounding};
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{IValue, Reason, Stop, Watch};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::pass::{Rewrite, RewriteWatch};
use jitopt_core::tensor::Precision;
use jitopt_core::text::{PrintOptions, Printer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The inputs of a run, and their name in messages.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `the given inputs`, `seed 3, adversarial`
    pub name: String,
    /// The inputs.
    pub inputs: Vec<IValue>,
}

impl Sample {
    /// Whether its inputs were generated.
    pub fn is_generated(&self) -> bool {
        self.name.starts_with("seed ")
    }
}

/// A graph, and its observed behaviour on some samples.
pub struct Reference {
    graph: Graph,
    settings: Settings,
    policy: Policy,
    samples: Vec<(Sample, Expected)>,
    /// The text of the graph that was last found correct.
    last: RefCell<Option<Vec<u8>>>,
    /// The sample that differed last.
    failed: Cell<usize>,
}

/// A difference between two graphs.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The sample that shows it.
    pub sample: usize,
    /// Its name.
    pub name: String,
    /// The differences.
    pub lines: Vec<String>,
    /// The first node whose value differs from the value of the same name in the original.
    pub first: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "with {}:", self.name)?;
        self.lines.iter().try_for_each(|line| write!(f, "\n  {}", line.replace('\n', "\n  ")))?;
        self.first.as_ref().map_or(Ok(()), |first| write!(f, "\n  the first node that differs: {first}"))
    }
}

/// The number of samples that could be compared.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Samples with equal behaviour.
    pub same: usize,
    /// Samples that could not be compared, with the last reason.
    pub unjudged: Option<(usize, Stop)>,
}

/// Maximum number of samples that may exhaust their step or time limit; later samples are skipped
/// then.
const MOST_SPENT: usize = 2;

static RUN: AtomicU64 = AtomicU64::new(0);

/// The number of runs of a graph on a sample in this process so far, for the display of progress.
pub fn samples_run() -> u64 {
    RUN.load(Ordering::Relaxed)
}

impl Reference {
    /// Runs the graph on every sample; each run counts in [`samples_run`].
    pub fn new(graph: &Graph, settings: Settings, policy: Policy, samples: Vec<Sample>) -> Reference {
        let mut spent = 0;
        let run = |sample: Sample| {
            if spent == MOST_SPENT {
                return None;
            }
            RUN.fetch_add(1, Ordering::Relaxed);
            let expected = Expected::of(graph, &settings, &sample.inputs);
            let ended = &expected.outcome.results;
            spent += usize::from(ended.as_ref().is_err_and(|stop| matches!(stop.reason, Reason::Budget(_))));
            Some((sample, expected))
        };
        // A graph that exceeds the limits on some samples probably does so on the next.
        let samples = samples.into_iter().map_while(run).collect();
        Reference { graph: graph.clone(), samples, settings, policy, last: RefCell::default(), failed: Cell::default() }
    }

    /// Enables the cache, for comparisons after each of many rewrites: only affected nodes run.
    pub fn recalling(mut self) -> Reference {
        self.samples = self.samples.into_iter().map(|(sample, expected)| (sample, expected.recalling())).collect();
        self
    }

    /// The number of kernels that comparisons computed, and of results from the cache.
    pub fn computed(&self) -> (u64, u64) {
        let all = self.samples.iter().map(|(_, expected)| expected.computed());
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// The original graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The samples and the behaviour of the original graph.
    pub fn samples(&self) -> impl Iterator<Item = (&Sample, &Outcome)> {
        self.samples.iter().map(|(sample, expected)| (sample, &expected.outcome))
    }

    /// The sample that differed in the last failed check.
    pub fn failed(&self) -> Option<&Sample> {
        self.samples.get(self.failed.get()).map(|(sample, _)| sample)
    }

    /// The settings of the runs.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The policy of comparisons.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// By how much the results of a graph that was judged to be the same differ on any sample;
    /// nothing if all bits are the same.
    pub fn rounding(&self, graph: &Graph) -> Option<Rounding> {
        let of = |(sample, expected): &(Sample, Expected)| {
            rounding(&self.graph, expected, graph, &self.settings, &sample.inputs)
        };
        let part = |rounding: &Rounding| rounding.off / rounding.explained.max(f64::MIN_POSITIVE);
        self.samples.iter().filter_map(of).max_by(|a, b| part(a).total_cmp(&part(b)))
    }

    /// Compares a graph with this one on every sample; stops at the first difference.
    pub fn check(&self, graph: &Graph) -> Result<Tally, Finding> {
        let mut tally = Tally::default();
        for (i, (sample, expected)) in self.samples.iter().enumerate() {
            RUN.fetch_add(1, Ordering::Relaxed);
            match judge_against(&self.graph, expected, graph, &self.settings, &sample.inputs, self.policy) {
                Verdict::Same => tally.same += 1,
                Verdict::Unjudged(stop) => {
                    let before = tally.unjudged.take().map_or(0, |(n, _)| n);
                    tally.unjudged = Some((before + 1, stop));
                }
                Verdict::Differs(lines) => {
                    let first = first_off(&self.graph, graph, &self.settings, &sample.inputs);
                    self.failed.set(i);
                    return Err(Finding { sample: i, name: sample.name.clone(), lines, first });
                }
            }
        }
        Ok(tally)
    }
}

/// Records each value when it is computed.
#[derive(Default)]
struct Recorder {
    values: HashMap<String, IValue>,
    order: Vec<(String, String)>,
    /// The names of values before passes renamed them; without it, current names are used.
    old_names: Option<HashMap<Value, String>>,
    /// The number of the graph that is run: values of callees and sections may have the same names.
    graph: u64,
}

impl Recorder {
    fn name(&self, graph: &Graph, value: Value) -> Option<String> {
        self.old_names.as_ref().map_or_else(|| Some(graph.name(value)), |names| names.get(&value).cloned())
    }
}

impl Watch for Recorder {
    fn after(&mut self, graph: &Graph, node: Node, _: &[IValue], outputs: &[IValue]) -> Result<(), Stop> {
        if graph.id().number() != self.graph {
            return Ok(());
        }
        let mut line = None;
        for (value, made) in graph.outputs(node).zip(copies(outputs, Precision::Typed)) {
            let Some(name) = self.name(graph, value) else { continue };
            if !self.values.contains_key(&name) {
                let line = line.get_or_insert_with(|| printed(graph, node)).clone();
                self.order.push((name.clone(), line));
                self.values.insert(name, made);
            }
        }
        Ok(())
    }
}

fn printed(graph: &Graph, node: Node) -> String {
    let mut printer = Printer::new(PrintOptions::default());
    printer.node_line(graph, node);
    String::from_utf8_lossy(&printer.out).trim().to_owned()
}

/// The values of both graphs, by the names of the first.
fn recorded(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue]) -> (Recorder, Recorder) {
    let record = |graph: &Graph, settings: &Settings, old_names| {
        let mut recorder = Recorder { old_names, graph: graph.id().number(), ..Recorder::default() };
        Outcome::watched(graph, settings, inputs, Precision::Typed, Some(&mut recorder));
        recorder
    };
    let same_names = Settings { content_names: settings.names_of(before), ..settings.of_other() };
    let names = (!settings.by_origin).then(|| old_names(before, after));
    (record(before, settings, None), record(after, &same_names, names))
}

/// The first node of the second graph whose value differs from that of the same name in the first.
fn first_off(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue]) -> Option<String> {
    let (a, b) = recorded(before, after, settings, inputs);
    let off = |(name, _): &&(String, String)| match (a.values.get(name), b.values.get(name)) {
        (Some(x), Some(y)) => !differences(x, y, Tolerance::of(1e-4, 1e-5), "").is_empty(),
        _ => false,
    };
    b.order.iter().find(off).map(|(_, line)| line.clone())
}

/// The error of every value that both graphs name, with its node in the second.
pub fn off_by_value(before: &Graph, after: &Graph, settings: &Settings, inputs: &[IValue]) -> Vec<(f64, String)> {
    let (a, b) = recorded(before, after, settings, inputs);
    let off = |(name, line): &(String, String)| {
        let found = differences(a.values.get(name)?, b.values.get(name)?, Tolerance::of(0.0, 0.0), "");
        let most = found.iter().map(|difference| difference.distance.as_ref().map_or(f64::INFINITY, |d| d.most));
        Some((most.fold(0.0, f64::max), line.clone()))
    };
    b.order.iter().filter_map(off).collect()
}

/// Compares after each rewrite.
pub struct EachRewrite(pub Rc<Reference>);

impl RewriteWatch for EachRewrite {
    fn rewritten(&mut self, graph: &Graph, rewrite: &Rewrite) -> Result<(), String> {
        let reference = &self.0;
        // A rewrite inside a section is checked with the next rewrite of the enclosing graph.
        if rewrite.is_inside {
            return Ok(());
        }
        let before = reference.last.borrow_mut().take();
        let text = jitopt_core::text::print(graph, PrintOptions::default());
        match reference.check(graph) {
            Ok(_) => {
                *reference.last.borrow_mut() = Some(text);
                Ok(())
            }
            Err(finding) => {
                let before =
                    before.unwrap_or_else(|| jitopt_core::text::print(&reference.graph, PrintOptions::default()));
                Err(blame(rewrite, &finding, &before, &text))
            }
        }
    }
}

fn blame(rewrite: &Rewrite, finding: &Finding, before: &[u8], after: &[u8]) -> String {
    let Rewrite { pass, rule, number, node, location, .. } = rewrite;
    let from = location.as_ref().map_or(String::new(), |location| format!("\n  from {location}"));
    let lines = |text: &[u8]| -> Vec<String> { String::from_utf8_lossy(text).lines().map(str::to_owned).collect() };
    let (before, after) = (lines(before), lines(after));
    let gone: String = before.iter().filter(|line| !after.contains(line)).map(|line| format!("\n- {line}")).collect();
    let new: String = after.iter().filter(|line| !before.contains(line)).map(|line| format!("\n+ {line}")).collect();
    format!("rewrite {number} of {pass}.{rule} is wrong\n  at {node}{from}{gone}{new}\n{finding}")
}
