//! `differentiate` on recorded graphs against PyTorch's `_jit_differentiate`: `CASE.diff.in.ir`,
//! `CASE.diff.f.ir`, `CASE.diff.df.ir` and `CASE.diff.roles.json` of `testdata/corpus/pipelines`,
//! and of the directory `JITOPT_CORPUS`.
//!
//! Two graphs are equal if only names, types and legal order differ. Functions that a recorded
//! graph of 2.x calls are inlined first, and the block of a constant is not compared then. Up to
//! 1.4 the text shows six digits of floats; 1.4 has tuples and constants where 2.x has them, and
//! operators with more operands than 1.3.1. Differences are listed in
//! `testdata/corpus/pipelines/gradient_differences.txt` with the reason; an outdated line there is
//! a failure too.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::ir::{Attribute, Float, Graph, Node};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::symbol::{Symbol, attr};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::era::Era;
use jitopt_core::types::release::Release;
use jitopt_passes::REGISTRY;
use jitopt_passes::differentiate::function_graph;
use recorded::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The fraction of the cases of each release that must be equal, not counting those in which
/// PyTorch is wrong.
const ENOUGH: f64 = 0.9;

/// The beginning of a reason where PyTorch's result is a bug that must not be reproduced.
const WRONG: &str = "wrong in PyTorch";

/// The functions that recorded graphs call.
const FUNCTIONS: &[&str] = &["AD_mm_backward_self", "AD_mm_backward_mat2", "AD_mat_transpose", "AD_matmul_bw_size"];

fn era_of(version: &str) -> Era {
    if version.starts_with("1.3") || version.starts_with("1.4") { Era::V1_3 } else { Era::V2 }
}

fn graph(path: &Path, era: Era) -> Graph {
    let text = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    parse(&text, ParseOptions::of(Release::of(era))).expect("a recorded graph").graph
}

fn passed(graph: &mut Graph, pipeline: &str) -> Result<(), String> {
    let mut session = Session::default();
    let callee = |name: &&str| Some(((*name).to_owned(), function_graph(graph.release(), name)?));
    session.callees = FUNCTIONS.iter().filter_map(callee).collect();
    let pipeline = Pipeline::parse(pipeline, &REGISTRY).expect("a pipeline");
    run(graph, &pipeline, &mut session, &mut []).map_err(|error| error.to_string())
}

/// The precision of an old release's text: six digits of a float, and in 1.4 the later name of a
/// cast.
fn as_shown(graph: &mut Graph, version: &str) {
    let nodes: Vec<Node> = graph.all_nodes().collect();
    for node in nodes {
        if version.starts_with("1.4") && graph.kind(node).as_str() == "prim::unchecked_unwrap_optional" {
            graph.set_kind(node, Symbol::new("prim::unchecked_cast"));
        }
        // These had more operands in 1.4 than in 1.3.1, all of them defaults.
        for (kind, operands) in [("aten::to", 4), ("aten::zeros_like", 1)] {
            while version.starts_with("1.4") && graph.kind(node).as_str() == kind && graph.num_inputs(node) > operands {
                graph.remove_input(node, graph.num_inputs(node) - 1);
            }
        }
        if graph.era == Era::V1_3
            && let Some(Attribute::Float(float)) = graph.attribute(node, attr::VALUE)
        {
            let value = format!("{:.5e}", float.value).parse().expect("a number");
            let style = float.style;
            graph.set_attribute(node, attr::VALUE, Attribute::Float(Float { value, style }));
        }
    }
}

fn same(ours: &Graph, theirs: &Graph, version: &str) -> bool {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    as_shown(&mut ours, version);
    as_shown(&mut theirs, version);
    let calls = theirs.all_nodes().any(|node| theirs.kind(node).as_str() == "prim::CallFunction");
    let passes = match (calls, version.starts_with("1.4")) {
        (false, false) => return equivalent(&ours, &theirs, Sight::COMPUTATION),
        (true, _) => "inline,cse,constant-pooling,dce",
        (_, true) => "lower-simple-tuples,constant-pooling,dce",
    };
    passed(&mut ours, passes).and_then(|()| passed(&mut theirs, passes)).is_ok()
        && equivalent(&ours, &theirs, Sight::COMPUTATION)
}

/// The list in an attribute of the group.
fn role(graph: &Graph, group: Node, name: Symbol) -> serde_json::Value {
    match graph.attribute(group, name) {
        Some(Attribute::Int(n)) => (*n).into(),
        Some(Attribute::List(all)) => all.iter().filter_map(Attribute::as_int).collect::<Vec<i64>>().into(),
        _ => serde_json::Value::Null,
    }
}

const ROLES: [Symbol; 5] = [
    attr::F_REAL_OUTPUTS,
    attr::DF_INPUT_VJPS,
    attr::DF_INPUT_CAPTURED_INPUTS,
    attr::DF_INPUT_CAPTURED_OUTPUTS,
    attr::DF_OUTPUT_VJPS,
];

/// The differences: `f`, `df`, names of roles; or why there is no result.
fn differences(stem: &str, version: &str) -> Vec<String> {
    let path = |end: &str| PathBuf::from(format!("{stem}.diff.{end}"));
    let era = era_of(version);
    let mut found = graph(&path("in.ir"), era);
    if let Err(why) = passed(&mut found, "differentiate") {
        return vec![why];
    }
    let group = found.first(found.root()).expect("all nodes are one group");
    let (forward, backward) =
        (found.subgraph(group).expect("the forward graph"), found.backward(group).expect("the backward graph"));
    let mut wrong = Vec::new();
    if !same(forward, &graph(&path("f.ir"), era), version) {
        wrong.push("f".to_owned());
    }
    if !same(backward, &graph(&path("df.ir"), era), version) {
        wrong.push("df".to_owned());
    }
    let text = std::fs::read(path("roles.json")).expect("roles are recorded");
    let roles: serde_json::Value = serde_json::from_slice(&text).expect("roles are JSON");
    wrong.extend(
        ROLES
            .iter()
            .filter(|name| role(&found, group, **name) != roles[name.as_str()])
            .map(|name| name.as_str().to_owned()),
    );
    wrong
}

#[test]
fn gradients_are_those_of_pytorch() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/pipelines/gradient_differences.txt");
    let list = std::fs::read_to_string(list).expect("it stands in the tree");
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let listed: BTreeMap<&str, &str> = lines.map(|line| line.split_once(": ").expect("NAME: reason")).collect();
    let (mut seen, mut tallies, mut wrong) = (BTreeSet::new(), BTreeMap::new(), Vec::new());
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        let Some(stem) = text.strip_suffix(".diff.in.ir") else { continue };
        let version = path.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().into_owned();
        let case = stem.rsplit('/').next().expect("a name");
        let name = format!("{version}/{case}");
        if !Path::new(&format!("{stem}.diff.roles.json")).is_file() || !seen.insert(name.clone()) {
            continue;
        }
        let found = differences(stem, &version);
        let reason = listed.get(name.as_str());
        let (equal, all): &mut (usize, usize) = tallies.entry(version).or_default();
        *equal += usize::from(found.is_empty());
        *all += usize::from(found.is_empty() || !reason.is_some_and(|reason| reason.starts_with(WRONG)));
        match (found.is_empty(), reason) {
            (false, None) => wrong.push(format!("{name}: {}", found.join(" "))),
            (true, Some(_)) => wrong.push(format!("{name} is equal, and listed as different")),
            _ => {}
        }
    }
    for (version, (equal, all)) in &tallies {
        println!("{version:8} {equal:3} of {all:3}");
        if std::env::var_os("JITOPT_CORPUS").is_some() && (*equal as f64) < ENOUGH * *all as f64 {
            wrong.push(format!("{version}: only {equal} of {all}"));
        }
    }
    assert!(seen.len() > 5, "only {} cases", seen.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
}
