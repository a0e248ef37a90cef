//! Every pass on every recorded input: the graph stays valid, also if a gate enables a single
//! rewrite of a rule, as in bisection. Repeated runs are tested in `any_order.rs`.

use jitopt_core::ir::Graph;
use jitopt_core::pass::{Gate, PassInfo, Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::verify::{render, verify};
use jitopt_passes::{PASSES, REGISTRY};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn inputs() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "ir") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn graph(path: &Path) -> Option<Graph> {
    let graph = parse(&std::fs::read(path).ok()?, ParseOptions::default()).ok()?.graph;
    (!verify(&graph).has_errors()).then_some(graph)
}

/// The result of the pass under a counter; `None` if it refuses the graph.
fn after(pass: &PassInfo, graph: &Graph, counter: Option<&str>) -> Option<(Graph, BTreeMap<String, u64>)> {
    let mut gate = Gate::default();
    if let Some(text) = counter {
        gate.add_counter(text).expect("a counter");
    }
    let mut session = Session { gate, ..Session::default() };
    let pipeline = Pipeline::parse(pass.name, &REGISTRY).expect("a pass is a pipeline");
    let mut graph = graph.clone();
    run(&mut graph, &pipeline, &mut session, &mut []).ok()?;
    Some((graph, session.stats.into_iter().collect()))
}

fn is_whole(graph: &Graph, path: &Path, what: &str) {
    let report = verify(graph);
    assert!(!report.has_errors(), "{} after {what}:\n{}", path.display(), render(graph, &report));
}

#[test]
fn graphs_stay_whole_whatever_a_gate_lets_through() {
    let mut tried = 0;
    for path in inputs() {
        let Some(before) = graph(&path) else { continue };
        for pass in PASSES {
            let Some((result, stats)) = after(pass, &before, None) else { continue };
            is_whole(&result, &path, pass.name);
            for (rule, count) in stats {
                for only in 1..=count.min(2) {
                    let counter = format!("{rule}={only}");
                    let Some((gated, _)) = after(pass, &before, Some(&counter)) else { continue };
                    is_whole(&gated, &path, &format!("{} with {counter}", pass.name));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "only {tried} gated runs");
}
