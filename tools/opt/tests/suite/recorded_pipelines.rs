//! The graphs of PyTorch's executors for given arguments, `CASE.nograd.optimized.ir`, against the
//! pipelines of the same names.
//!
//! The graphs are in `testdata/corpus/pipelines`, and in the directory `JITOPT_CORPUS`. Parameters
//! get the types of the recorded arguments, as in the executor's specialisation: element type,
//! rank, device. Only names, legal order and types of values may differ: later executors know of
//! more values that they require no gradient. Graphs in which the profiling executor inserted
//! bailouts are in `pipelines/1.4.0/profiling`. Differences are listed in `differences.txt` with
//! the reason; an outdated line there is a failure.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::interpreter::description;
use jitopt_core::interpreter::specialization::{Detail, specialized};
use jitopt_core::ir::{Graph, Node, Value};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::{Symbol, attr, prim};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_core::types::{Type, TypeKind};
use jitopt_passes::REGISTRY;
use recorded::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The pipeline of 1.4's profiling executor for `.dumpNN.….ir`, the graph that its log shows with
/// bailouts.
const PROFILED: &str = "/profiling/";

/// The fraction of the entries that must be equal.
const ENOUGH: f64 = 0.95;

fn graph(path: &Path, era: Era) -> Graph {
    let text = std::fs::read(path).expect("it is recorded");
    let options = ParseOptions::of(Release::of(era));
    parse(&text, options).unwrap_or_else(|found| panic!("{}: {}", path.display(), found[0].message)).graph
}

fn specialize(graph: &mut Graph, arguments: &Path) {
    let text = std::fs::read(arguments).expect("it is recorded");
    let described = description::parse(&text).expect("a description");
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (param, argument) in params.into_iter().zip(described.inputs) {
        let ty = specialized(graph.ty(param), &argument.value, Detail::Rank).expect("arguments fit");
        graph.set_type(param, ty);
    }
}

/// The graphs of called functions were not recorded.
fn calls(graph: &Graph) -> bool {
    graph.all_nodes().any(|node| graph.kind(node).as_str() == "prim::CallFunction")
}

fn differences() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/pipelines/differences.txt");
    let text = std::fs::read_to_string(path).expect("it stands in the tree");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").expect("NAME: reason")).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// Runs the pipelines of executors on recorded inputs for recorded arguments, and compares;
/// `wanted` selects by release.
fn compare_executions(suffix: &str, wanted: impl Fn(&str) -> (Era, &'static str)) {
    let (known, mut seen, mut equal, mut wrong) = (differences(), BTreeSet::new(), 0, Vec::new());
    let mut not_wanted = 0;
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        let Some(stem) = text.strip_suffix(".optimized.ir").filter(|stem| stem.ends_with(suffix)) else { continue };
        let input = Path::new(&format!("{stem}.in.ir")).to_owned();
        let mut parts = stem.rsplit('/');
        let (case, version) = (parts.next().expect("a name"), parts.next().expect("a folder"));
        let name = format!("{version}/{case}");
        let (era, passes) = wanted(version);
        let arguments = PathBuf::from(format!("{stem}.args.json"));
        if !input.exists() || !arguments.exists() || calls(&graph(&input, era)) || !seen.insert(name.clone()) {
            continue;
        }
        let mut ours = graph(&input, era);
        specialize(&mut ours, &arguments);
        let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
        let ran = run(&mut ours, &pipeline, &mut Session::default(), &mut []);
        // PyTorch prints no backward graphs, and of the forward graphs all results.
        hide_gradients(&mut ours);
        let is_equal = ran.is_ok() && equivalent(&ours, &graph(&path, era), Sight::COMPUTATION);
        equal += usize::from(is_equal);
        match (is_equal, known.get(&name)) {
            (false, None) => wrong.push(format!("{name}: {passes} makes something else")),
            (true, Some(_)) => wrong.push(format!("{name} is equal, and listed as different")),
            (false, Some(why)) => not_wanted += usize::from(why.starts_with("wrong in PyTorch")),
            (true, None) => {}
        }
    }
    println!("{equal} of {} recorded executions are equal, of {not_wanted} others PyTorch is wrong", seen.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A chosen part of what is recorded holds all differences and few of the others.
    let enough = equal as f64 >= ENOUGH * (seen.len() - not_wanted) as f64;
    assert!(seen.len() > 15 && (enough || std::env::var_os("JITOPT_CORPUS").is_none()), "{equal} of {}", seen.len());
}

/// Reduces differentiable subgraphs to what PyTorch prints.
fn hide_gradients(graph: &mut Graph) {
    let groups: Vec<Node> = graph.all_nodes().filter(|&node| graph.kind(node) == prim::DIFFERENTIABLE_GRAPH).collect();
    for group in groups {
        let names: Vec<Symbol> = graph.attributes(group).iter().map(|(name, _)| *name).collect();
        for name in names.into_iter().filter(|&name| name != attr::SUBGRAPH) {
            graph.remove_attribute(group, name);
        }
    }
}

#[test]
fn pipelines_match_executors() {
    compare_executions(".nograd", executor);
}

#[test]
fn pipelines_match_executors_for_gradients() {
    compare_executions(".grad", |version| match executor(version).0 {
        Era::V1_3 => (Era::V1_3, "@torch-1.3-training"),
        Era::V2 => (Era::V2, "@torch-2-legacy-training"),
    });
}

/// Assigns the parameter types of a plan. Up to 2.15 an optional size that was not None in the
/// recorded call has lost its question mark.
fn specialize_as(graph: &mut Graph, plan: &Graph) {
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (param, planned) in params.into_iter().zip(plan.params(plan.root())) {
        let ty = plan.ty(planned);
        graph.set_type(param, if matches!(ty.kind(), TypeKind::Optional(_)) { Type::none() } else { ty });
    }
}

#[test]
fn backward_graphs_match_executors() {
    let (known, mut seen, mut equal, mut wrong) = (differences(), BTreeSet::new(), 0, Vec::new());
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        let Some(stem) = text.strip_suffix(".plan0.ir").filter(|stem| stem.contains(".grad.backward")) else {
            continue;
        };
        let mut parts = stem.rsplit('/');
        let (case, version) = (parts.next().expect("a name"), parts.next().expect("a folder"));
        let (name, input) = (format!("{version}/{case}"), PathBuf::from(format!("{stem}.ir")));
        let (era, passes) = executor(version);
        if !input.exists() || !seen.insert(name.clone()) {
            continue;
        }
        let (mut ours, plan) = (graph(&input, era), graph(&path, era));
        specialize_as(&mut ours, &plan);
        let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
        let ran = run(&mut ours, &pipeline, &mut Session::default(), &mut []);
        let is_equal = ran.is_ok() && equivalent(&ours, &plan, Sight::COMPUTATION);
        equal += usize::from(is_equal);
        match (is_equal, known.get(&name)) {
            (false, None) => wrong.push(format!("{name}: {passes} makes something else")),
            (true, Some(_)) => wrong.push(format!("{name} is equal, and listed as different")),
            _ => {}
        }
    }
    println!("{equal} of {} recorded plans of backward graphs are equal", seen.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let enough = std::env::var_os("JITOPT_CORPUS").is_none() || equal as f64 >= ENOUGH * seen.len() as f64;
    assert!(seen.len() > 5 && enough, "{equal} of {}", seen.len());
}

/// The era of a release, and its executor's pipeline for arguments that require no gradient.
fn executor(version: &str) -> (Era, &'static str) {
    let old = ["1.3.1", "1.4.0"].contains(&version);
    if old { (Era::V1_3, "@torch-1.3-inference") } else { (Era::V2, "@torch-2-legacy") }
}

/// The graph after this title in the log.
fn dumped(stem: &str, title: &str) -> Option<PathBuf> {
    let index = std::fs::read(format!("{stem}.dumps.json")).ok()?;
    let index: serde_json::Value = serde_json::from_slice(&index).expect("an index");
    let entry =
        index.as_array()?.iter().find(|entry| entry["title"].as_str().is_some_and(|text| text.starts_with(title)))?;
    let file = entry["file"].as_str()?.trim_end_matches(".cpp");
    Some(PathBuf::from(format!("{stem}.dump{:02}.{file}.ir", entry["n"].as_u64()?)))
}

#[test]
fn guarded_graphs_match_the_profiling_executor() {
    let pipeline = Pipeline::parse("@torch-1.3-guarded", &REGISTRY).expect("a pipeline");
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        let Some(stem) = text.strip_suffix(".nograd.run1.ir").filter(|stem| stem.contains(PROFILED)) else { continue };
        let before = dumped(&format!("{stem}.nograd"), "After InsertBailOuts");
        let Some(before) = before.filter(|path| path.exists() && stem.contains("/1.4.0/")) else { continue };
        if seen.insert(stem.rsplit('/').next().map(str::to_owned)) {
            let mut ours = graph(&before, Era::V1_3);
            let ran = run(&mut ours, &pipeline, &mut Session::default(), &mut []);
            if ran.is_err() || !equivalent(&ours, &graph(&path, Era::V1_3), Sight::COMPUTATION) {
                wrong.push(stem.to_owned());
            }
        }
    }
    println!("{} graphs with bailouts", seen.len());
    assert!(wrong.is_empty() && seen.len() >= 5, "of {}: {}", seen.len(), wrong.join("\n"));
}
