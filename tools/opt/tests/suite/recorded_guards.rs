//! Guards and bailouts against those that PyTorch's profiling executors created for the same
//! graphs: `testdata/corpus`, and the directory `JITOPT_CORPUS`.
//!
//! `pipelines/{1.3.1,1.4.0}/profiling` contains the graphs that the executor's log shows after each
//! step. 1.3.1 prints the observed types at each profile node. 1.4.0 does not: there the graph is
//! run here, on tensors of the recorded shapes, and our profile is used. `guards/2.15.0` contains
//! the results of the passes of 2.15 on texts, by `tools/pytorch/record_guards.py`. Types are
//! compared, names and legal order are not. Differences are listed in
//! `testdata/corpus/guards/differences.txt` with the reason; an outdated line there is a failure.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::interpreter::description::{self, Described};
use jitopt_core::interpreter::profile::{Profile, Recording};
use jitopt_core::interpreter::{Environment, IValue, Machine};
use jitopt_core::ir::{Graph, Node};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::prim;
use jitopt_core::tensor::{Precision, Tensor};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_passes::REGISTRY;
use recorded::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The fraction of equal comparisons required, for each release and step.
const ENOUGH: f64 = 0.9;

fn graph(path: &Path) -> Graph {
    let old = path.components().any(|part| part.as_os_str() == "1.3.1" || part.as_os_str() == "1.4.0");
    let era = Some(if old { Era::V1_3 } else { Era::V2 });
    let text = std::fs::read(path).expect("it is recorded");
    let options = ParseOptions { release: era.map(Release::of) };
    parse(&text, options).unwrap_or_else(|found| panic!("{}: {}", path.display(), found[0].message)).graph
}

fn shown(graph: &Graph) -> String {
    let mut copy = graph.clone();
    let renumber = Pipeline::parse("canonicalize", &REGISTRY).expect("a pipeline");
    run(&mut copy, &renumber, &mut Session::default(), &mut []).expect("it always works");
    String::from_utf8_lossy(&print(&copy, PrintOptions { no_comments: true, ..PrintOptions::default() })).into_owned()
}

fn differences() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/guards/differences.txt");
    let text = std::fs::read_to_string(path).expect("it stands in the tree");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").expect("NAME: reason")).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// A comparison, and its result.
#[derive(Default)]
struct Comparison {
    /// Of each version and step: equal, all, and equal as texts.
    tallies: BTreeMap<(String, &'static str), [usize; 3]>,
    differ: BTreeMap<String, String>,
}

impl Comparison {
    fn add(&mut self, version: &str, step: &'static str, case: &str, ours: &Graph, theirs: &Graph) -> bool {
        let tally = self.tallies.entry((version.to_owned(), step)).or_default();
        // Behind the other passes of a pipeline types may differ, as in `recorded_pipelines.rs`.
        let sight = if step == "whole" { Sight::COMPUTATION } else { Sight::EXACT };
        let is_equal = equivalent(ours, theirs, sight);
        let is_text = shown(ours) == shown(theirs);
        tally[0] += usize::from(is_equal || is_text);
        tally[1] += 1;
        tally[2] += usize::from(is_text);
        if !is_equal && !is_text {
            let both = format!("--- PyTorch\n{}\n--- ours\n{}", shown(theirs), shown(ours));
            self.differ.insert(format!("{version}/{case}.{step}"), both);
        }
        is_equal || is_text
    }

    fn finish(self) {
        let known = differences();
        for ((version, step), [equal, all, text]) in &self.tallies {
            println!("{version:8} {step:12} {equal:4} of {all:4}, as texts {text:4}");
        }
        self.differ.keys().for_each(|name| println!("differs: {name}"));
        let unknown: Vec<String> = (self.differ.iter().filter(|(name, _)| !known.contains_key(*name)))
            .map(|(name, both)| format!("{name} differs\n{both}"))
            .collect();
        let part = |[equal, all, _]: &[usize; 3]| *equal as f64 / *all as f64;
        assert!(unknown.is_empty(), "{} differ: {}", unknown.len(), unknown[..unknown.len().min(30)].join("\n\n"));
        // The cases kept here hold all differences and a part of the others.
        if std::env::var_os("JITOPT_CORPUS").is_some() {
            let equal: Vec<&String> = known.keys().filter(|name| !self.differ.contains_key(*name)).collect();
            assert!(equal.is_empty(), "listed as different, and equal: {equal:?}");
            assert!(self.tallies.values().all(|tally| part(tally) >= ENOUGH), "too many differ");
        }
        assert!(self.tallies.len() >= 10, "nothing was compared");
    }
}

fn apply(graph: &mut Graph, passes: &str, profile: Option<Rc<Profile>>) {
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    let mut session = Session { profile, ..Session::default() };
    run(graph, &pipeline, &mut session, &mut []).unwrap_or_else(|error| panic!("{passes}: {error}"));
}

/// The graph without profile nodes and without guards.
fn stripped(instrumented: &Graph) -> Graph {
    let mut graph = instrumented.clone();
    let tests = |node: &Node| [prim::PROFILE, prim::GUARD].contains(&graph.kind(*node));
    let nodes: Vec<Node> = graph.all_nodes().filter(tests).collect();
    for node in nodes {
        if let Some(output) = graph.single_output(node) {
            let value = graph.input(node, 0);
            graph.replace_all_uses(output, value);
        }
        graph.erase(node);
    }
    graph
}

/// The graphs in a log, by title, of its first graph: later ones belong to graphs that it calls.
fn dumps(stem: &str) -> BTreeMap<String, PathBuf> {
    let index = std::fs::read(format!("{stem}.dumps.json")).unwrap_or_default();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap_or_default();
    let mut found = BTreeMap::new();
    for entry in index.as_array().into_iter().flatten() {
        let title = entry["title"].as_str().unwrap_or_default().trim_end_matches(':').to_owned();
        let file = entry["file"].as_str().unwrap_or_default().trim_end_matches(".cpp");
        let path = PathBuf::from(format!("{stem}.dump{:02}.{file}.ir", entry["n"].as_u64().unwrap_or_default()));
        found.entry(title).or_insert(path);
    }
    found.retain(|_, path| path.exists());
    found
}

/// The directory of the release, and the name of the case.
fn case_of(stem: &str) -> (&str, &str) {
    let mut parts = stem.rsplit('/');
    let case = parts.next().expect("a name");
    (parts.find(|part| part.starts_with(|c: char| c.is_ascii_digit())).expect("a version"), case)
}

/// Each step after `ours`, which has guards, and the log's graph after it: `None` if the step
/// changed nothing.
fn steps(comparison: &mut Comparison, stem: &str, mut ours: Graph, dumps: &BTreeMap<String, PathBuf>) {
    let (version, case) = case_of(stem);
    let mut theirs = None;
    for (step, title) in [
        ("move", "After moveGuardsToDefs"),
        ("coalesce", "After coalesceGuards"),
        ("eliminate", "After eliminateRedundantGuards"),
        ("bailouts", "After InsertBailOuts"),
    ] {
        theirs = dumps.get(title).map(|path| graph(path)).or(theirs.filter(|_| step != "bailouts"));
        let Some(theirs) = &theirs else { return };
        let passes = if step == "bailouts" { "insert-bailouts" } else { &format!("guard-elimination{{step={step}}}") };
        apply(&mut ours, passes, None);
        // Where they are equal ours goes on: it knows in which order values were made, which the
        // text does not tell.
        if !comparison.add(version, step, case, &ours, theirs) {
            ours = theirs.clone();
        }
    }
}

/// Tensors of the recorded shapes.
fn inputs(arguments: &Path) -> Option<Vec<IValue>> {
    let described = description::parse(&std::fs::read(arguments).ok()?).expect("a description");
    let value = |described: &Described| match described {
        Described::Tensor(note) => Some(IValue::Tensor(Tensor::zeros(note.dtype, &note.shape, Precision::Typed))),
        Described::Int(n) => Some(IValue::Int(*n)),
        Described::Float(x) => Some(IValue::Float(*x)),
        Described::Bool(b) => Some(IValue::Bool(*b)),
        Described::None => Some(IValue::None),
        _ => None,
    };
    described.inputs.iter().map(|input| value(&input.value)).collect()
}

fn profile(graph: &Graph, inputs: Vec<IValue>) -> Profile {
    let env = Environment::default();
    env.recording.replace(Recording::of(graph));
    Machine::new(graph, &env).run(inputs).expect("it runs on what PyTorch ran it on");
    env.recording.take().expect("it was recorded").profile
}

/// 1.3.1: the observed types are in the text.
fn profiled_of_1_3(comparison: &mut Comparison, stem: &str) {
    let dumps = dumps(stem);
    let profiled = PathBuf::from(format!("{stem}.run0.ir"));
    if profiled.exists() && dumps.contains_key("After moveGuardsToDefs") {
        let mut ours = graph(&profiled);
        apply(&mut ours, "insert-guards", None);
        steps(comparison, stem, ours, &dumps);
    }
}

/// 1.4.0: the graph is profiled here.
fn profiled_of_1_4(comparison: &mut Comparison, stem: &str) {
    let (dumps, (version, case)) = (dumps(stem), case_of(stem));
    let Some(theirs) = dumps.get("Profiled Graph").map(|path| graph(path)) else { return };
    let arguments = PathBuf::from(format!("{}.args.json", stem.replace("/profiling/", "/")));
    let mut ours = stripped(&theirs);
    apply(&mut ours, "profile-instrument", None);
    comparison.add(version, "instrument", case, &ours, &theirs);
    // Guards were put into another copy, which in some cases has lists where this one has constant
    // chunks.
    let (Some(guarded), Some(inputs)) = (dumps.get("After moveGuardsToDefs"), inputs(&arguments)) else { return };
    let mut plain = stripped(&graph(guarded));
    let mut ours = plain.clone();
    apply(&mut ours, "profile-instrument", None);
    let seen = Rc::new(profile(&ours, inputs));
    let executed = PathBuf::from(format!("{stem}.run1.ir"));
    if executed.exists() && stem.ends_with(".nograd") {
        let mut ours = plain.clone();
        apply(&mut ours, "@torch-1.3-profiling", Some(seen.clone()));
        comparison.add(version, "whole", case, &ours, &graph(&executed));
    }
    apply(&mut plain, "insert-guards", Some(seen));
    steps(comparison, stem, plain, &dumps);
}

/// 1.13.1 and 2.15.0: the positions of profile nodes.
fn instrumented(comparison: &mut Comparison, stem: &str) {
    let (version, case) = case_of(stem);
    let Some(theirs) = dumps(stem).get("Instrumented Graph").map(|path| graph(path)) else { return };
    let mut ours = stripped(&theirs);
    apply(&mut ours, "profile-instrument", None);
    comparison.add(version, "instrument", case, &ours, &theirs);
}

/// 2.15.0: `CASE.profiled.ir`, and the result of each step.
fn profiled_of_2_15(comparison: &mut Comparison, stem: &str) {
    let (version, case) = case_of(stem);
    let theirs = |step: &str| {
        Some(PathBuf::from(format!("{stem}.{step}.ir"))).filter(|path| path.exists()).map(|path| graph(&path))
    };
    let mut ours = theirs("profiled").expect("it was listed");
    for step in ["insert", "move", "coalesce", "dominated", "eliminate", "bailouts"] {
        let passes = match step {
            "insert" => "insert-guards".to_owned(),
            "bailouts" => "insert-bailouts".to_owned(),
            _ => format!("guard-elimination{{step={step}}}"),
        };
        apply(&mut ours, &passes, None);
        // A step that changed nothing is not recorded again.
        if let Some(theirs) = theirs(step) {
            comparison.add(version, step, case, &ours, &theirs);
        }
    }
}

/// The directory of a kind of recorded cases, the extension of their input files, and their
/// comparison.
type Kind = (&'static str, &'static str, fn(&mut Comparison, &str));

const KINDS: [Kind; 5] = [
    ("/1.13.1/profiling/", ".run0.ir", instrumented),
    ("/2.15.0/profiling/", ".run0.ir", instrumented),
    ("/1.3.1/profiling/", ".run0.ir", profiled_of_1_3),
    ("/1.4.0/profiling/", ".run0.ir", profiled_of_1_4),
    ("/guards/2.15.0/", ".profiled.ir", profiled_of_2_15),
];

#[test]
fn guards_are_those_of_pytorch() {
    let (mut comparison, mut seen) = (Comparison::default(), BTreeSet::new());
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        for (folder, ending, compare) in KINDS {
            let stem = text.strip_suffix(ending).filter(|_| text.contains(folder));
            let name = |stem: &str| format!("{folder}{}", case_of(stem).1);
            if let Some(stem) = stem.filter(|stem| seen.insert(name(stem))) {
                compare(&mut comparison, stem);
            }
        }
    }
    comparison.finish();
}
