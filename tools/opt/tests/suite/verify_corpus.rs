//! Graphs that PyTorch printed pass the verifier, except those that one of its passes broke.
//!
//! Reads `testdata/corpus`, and the directory `JITOPT_CORPUS` if it is set. With
//! `JITOPT_VERIFY_WARNINGS` the warnings are listed by message.

use crate::support::recorded;

use jitopt_core::ir::Graph;
use jitopt_core::text::{ParseOptions, parse};
use jitopt_core::verify::{Report, positions, render, verify};
use recorded::graphs;
use std::collections::BTreeMap;
use std::path::Path;

/// The message for graphs of PyTorch 2.15's `_jit_pass_remove_inplace_ops` if the value is read in
/// a place that it does not rewrite.
const BROKEN_BY_PYTORCH: &str = ".remove_inplace_ops.out.ir";

/// The message without quoted text and names.
fn class(message: &str) -> String {
    let outside = message.split('`').step_by(2).collect::<Vec<_>>().join("`..`");
    let words = outside.split(' ').map(|word| if word.starts_with('%') { "%" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Every finding has a location in the text.
fn check_positions(path: &Path, graph: &Graph, report: &Report) {
    let places = positions(graph, report);
    assert_eq!(places.len(), report.findings.len());
    let drawn = render(graph, report);
    assert!(
        report.findings.iter().take(3).all(|finding| drawn.contains(&finding.message)),
        "{}\n{drawn}",
        path.display()
    );
}

#[test]
fn graphs_printed_by_pytorch_verify() {
    let (mut wrong, mut broken) = (Vec::new(), Vec::new());
    let mut classes: BTreeMap<String, (usize, usize, String)> = BTreeMap::new();
    let graphs = graphs();
    for (path, text) in &graphs {
        let parsed = parse(text, ParseOptions::default()).expect("a file that can be read");
        let is_emitted = path.to_string_lossy().ends_with(".emitted.ir");
        let report = verify(&parsed.graph);
        let report = if is_emitted { report.before_ssa() } else { report };
        if !report.is_clean() {
            check_positions(path, &parsed.graph, &report);
        }
        let known = path.to_string_lossy().ends_with(BROKEN_BY_PYTORCH);
        if report.has_errors() {
            let list = if known { &mut broken } else { &mut wrong };
            list.push(format!("{}\n{}", path.display(), render(&parsed.graph, &report)));
        }
        let mut seen = Vec::new();
        for warning in report.warnings() {
            let class = class(&warning.message);
            let entry = classes.entry(class.clone()).or_insert((0, 0, String::new()));
            entry.0 += 1;
            if !seen.contains(&class) {
                entry.1 += 1;
                seen.push(class);
            }
            if entry.2.is_empty() {
                entry.2 = format!("{}: {} ({:?})", path.display(), warning.message, warning.note);
            }
        }
    }
    if std::env::var_os("JITOPT_VERIFY_WARNINGS").is_some() {
        let lines: Vec<String> =
            classes.iter().map(|(c, (n, f, e))| format!("{n} in {f} files: {c}\n    {e}")).collect();
        panic!("{} broken by PyTorch\n{}\n{}", broken.len(), broken.join("\n"), lines.join("\n"));
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), graphs.len(), wrong[..wrong.len().min(8)].join("\n"));
    if std::env::var_os("JITOPT_CORPUS").is_some() {
        assert_eq!(broken.len(), 5, "{}", broken.join("\n"));
    }
}
