//! `convert-to-ssa` and `exit-transforms` against PyTorch on the graphs that its emitter wrote for
//! functions with `break`, `continue` and early `return`: `testdata/corpus/ssa`, recorded by
//! `tools/pytorch/record_ssa.py`. Names, legal order and dead code are not compared.

use crate::support::recorded;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::types::release::Release;
use jitopt_passes::REGISTRY;
use recorded::files;
use std::path::Path;

fn graph(path: &Path) -> Graph {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let options = ParseOptions { release: Some(Release::NEWEST) };
    parse(&text, options).unwrap_or_else(|found| panic!("{}: {}", path.display(), found[0].message)).graph
}

fn after(path: &Path, passes: &str) -> Graph {
    let mut graph = graph(path);
    let pipeline = Pipeline::parse(passes, &REGISTRY).expect("a pipeline");
    run(&mut graph, &pipeline, &mut Session::default(), &mut [])
        .unwrap_or_else(|error| panic!("{}: {passes}: {error}", path.display()));
    graph
}

#[test]
fn emitted_graphs_become_those_of_pytorch() {
    let emitted: Vec<_> = files().into_iter().filter(|path| path.to_string_lossy().ends_with(".emitted.ir")).collect();
    assert!(emitted.len() >= 25, "{} graphs", emitted.len());
    let mut wrong = Vec::new();
    for path in emitted {
        for (step, passes) in [("ssa", "convert-to-ssa,dce"), ("exits", "convert-to-ssa,exit-transforms,dce")] {
            let theirs = path.to_string_lossy().replace(".emitted.ir", &format!(".{step}.ir"));
            let (ours, theirs) = (after(&path, passes), after(Path::new(&theirs), "dce"));
            if !equivalent(&ours, &theirs, Sight::EXACT) {
                wrong.push(format!("{}: {step}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
