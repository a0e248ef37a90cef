//! Every corpus file is printed back byte for byte, also after its layout was changed.
//!
//! Reads `testdata/corpus`, and the directory `JITOPT_CORPUS` if it is set.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;

use jitopt_core::ir::Graph;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use recorded::{graphs, release};
use std::collections::BTreeMap;
use std::path::Path;

fn printed(path: &Path, text: &[u8], options: PrintOptions) -> Vec<u8> {
    match parse(text, ParseOptions::default()) {
        Ok(parsed) => print(&parsed.graph, options),
        Err(diagnostics) => format!("{}: {diagnostics:?}", path.display()).into_bytes(),
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> String {
    let lines = a.split(|b| *b == b'\n').zip(b.split(|b| *b == b'\n'));
    let differs = lines.enumerate().find(|(_, (a, b))| a != b);
    differs.map_or("length".to_owned(), |(i, (a, b))| {
        format!("line {}\n  {}\n  {}", i + 1, String::from_utf8_lossy(a), String::from_utf8_lossy(b))
    })
}

/// Empty lines, trailing blanks, CRLF and another indentation.
fn disturbed(text: &[u8]) -> Vec<u8> {
    let mut out = b"\xef\xbb\xbf\r\n".to_vec();
    for (i, line) in text.split(|b| *b == b'\n').enumerate() {
        out.extend(std::iter::repeat_n(b' ', i * 7 % 5));
        out.extend(line.trim_ascii_start());
        out.extend(if i % 3 == 0 { &b"  \t\r\n\r\n"[..] } else { b"\r\n" });
    }
    out
}

fn check(what: &str, mut wrong: impl FnMut(&Path, &[u8]) -> Option<String>) {
    let graphs = graphs();
    let mut failures = Vec::new();
    let mut releases: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (path, text) in &graphs {
        let found = wrong(path, text);
        let row = releases.entry(release(path).unwrap_or_default()).or_default();
        *row = (row.0 + usize::from(found.is_none()), row.1 + 1);
        failures.extend(found.map(|why| format!("{}: {why}", path.display())));
    }
    for (release, (right, all)) in releases {
        println!("release {release:18} {right:5} of {all:5} ({what}: none of these)");
    }
    assert!(!graphs.is_empty(), "no corpus");
    assert!(
        failures.is_empty(),
        "{} of {} {what}:\n{}",
        failures.len(),
        graphs.len(),
        failures[..failures.len().min(12)].join("\n")
    );
}

#[test]
fn files_come_back_byte_for_byte() {
    check("came back otherwise", |path, text| {
        let out = printed(path, text, PrintOptions::default());
        (out != text).then(|| first_difference(&out, text))
    });
}

#[test]
fn a_disturbed_layout_is_printed_canonically() {
    check("came back otherwise", |path, text| {
        let out = printed(path, &disturbed(text), PrintOptions::default());
        (out != text).then(|| first_difference(&out, text))
    });
}

/// The text that PyTorch prints after its own reader parsed the graph. That reader drops sections:
/// files with sections are skipped.
#[test]
fn canonical_form_is_that_of_pytorch() {
    let mut compared = 0;
    check("differ from PyTorch's reprint", |path, text| {
        let reprint = std::fs::read(path.with_extension("ir.reprint")).ok()?;
        if text.windows(6).any(|w| w == b"\nwith ") {
            return None;
        }
        compared += 1;
        let out = printed(path, text, PrintOptions { canonical: true, ..PrintOptions::default() });
        (out != reprint).then(|| first_difference(&out, &reprint))
    });
    assert!(compared > 0, "no file has a reprint next to it");
}

/// Names that PyTorch accepts but a lexer of identifiers would not.
const NAMES: [&str; 8] = ["w-", "x?", "a b", "1e5.", "in.", "y:z", "é", "self.0.weight_"];

fn rename(graph: &mut Graph) {
    let nodes: Vec<_> = graph.all_nodes().collect();
    let params: Vec<_> = graph.all_blocks().map(|block| graph.param_node(block)).collect();
    let defined: Vec<_> = params.iter().chain(&nodes).flat_map(|&node| graph.outputs(node)).collect();
    for (i, value) in defined.into_iter().enumerate() {
        graph.set_name(value, format!("{}{i}", NAMES[i % NAMES.len()]).as_bytes());
    }
    for node in nodes {
        graph.with_subgraph(node, rename);
    }
}

#[test]
fn renamed_values_come_back_with_their_new_names() {
    check("came back otherwise", |path, text| {
        let mut graph = parse(text, ParseOptions::default()).ok()?.graph;
        rename(&mut graph);
        let renamed = print(&graph, PrintOptions::default());
        let out = printed(path, &renamed, PrintOptions::default());
        (out != renamed).then(|| first_difference(&out, &renamed))
    });
}

/// Memory use of a graph: at most 250 bytes per node, besides the text of names and locations.
#[test]
fn a_graph_takes_few_bytes_a_node() {
    let nodes = 100_000;
    let line = |i: usize| format!("  %{} : Tensor = aten::add(%{i}, %{}, %one) # model.py:{i}:8\n", i + 1, i / 2);
    let body: String = (0..nodes).map(line).collect();
    let text = format!("graph(%0 : Tensor,\n      %one : int):\n{body}  return (%{nodes})\n");
    let graph = parse(text.as_bytes(), ParseOptions::default()).expect("a graph").graph;
    let (tables, _) = graph.bytes();
    assert!(tables / nodes <= 250, "{} bytes a node", tables / nodes);
}
