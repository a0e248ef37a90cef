//! Our passes against what PyTorch's made of the same graphs: `NAME.in.ir`, `NAME.PASS.out.ir` of `testdata/corpus/passes`.
//!
//! Both sides are renumbered and compared as text without comments: same nodes, same order, same types.

#[path = "support/recorded.rs"]
mod recorded;

use jitopt_core::ir::Graph;
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::era::Era;
use jitopt_passes::REGISTRY;
use recorded::files;
use std::path::Path;

/// PyTorch's binding, and the pass of ours that does the same.
const PAIRS: &[(&str, &str)] = &[
    ("dce", "dce{alias=false}"),
    ("dce_graph", "dce"),
    ("cse", "cse"),
    ("constant_pooling", "constant-pooling"),
    ("canonicalize", "canonicalize"),
    ("canonicalize_renumber", "canonicalize"),
    ("erase_shape_information", "erase-shape-information"),
    ("remove_expands", "remove-expands"),
    ("lower_all_tuples", "lower-all-tuples"),
    ("inline", "inline"),
    ("inline_fork_wait", "inline-fork-wait"),
    // PyTorch takes for granted what the texts do not say.
    ("peephole", "peephole{trusting}"),
    ("peephole_addmm", "peephole{trusting,addmm}"),
    ("peephole_list_idioms", "peephole{only=lists}"),
    ("peephole_list_idioms_refine", "peephole{only=lists,refine-list-len}"),
    ("fuse_addmm", "fuse-addmm{trusting}"),
    ("refine_tuple_types", "refine-tuple-types"),
];

/// Recorded entries that end otherwise, and why.
const OTHERWISE: &[(&str, &str)] = &[(
    "dict_comprehension.script.lower_all_tuples",
    "PyTorch gives __getitem__ two outputs, which its interpreter cannot run",
)];

/// Small graphs do not show their era; the folder they are in does.
fn graph(path: &Path) -> Option<Graph> {
    let old = path.components().any(|part| part.as_os_str() == "1.3.1" || part.as_os_str() == "1.4.0");
    let era = Some(if old { Era::V1_3 } else { Era::V2 });
    let options = ParseOptions { era, ..ParseOptions::default() };
    parse(&std::fs::read(path).ok()?, options).ok().map(|parsed| parsed.graph)
}

/// Inlined constants stand in another order: PyTorch ran more passes over the callee. Without names, lines may be sorted.
fn without_order(text: &str) -> Vec<String> {
    let nameless = |line: &str| {
        let parts = line.split('%').map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
        parts.collect::<Vec<_>>().join("%")
    };
    let mut lines: Vec<String> = text.lines().map(nameless).collect();
    lines.sort();
    lines
}

fn transformed(mut graph: Graph, passes: &str, session: &mut Session) -> Result<String, String> {
    let pipeline = Pipeline::parse(&format!("{passes},canonicalize"), &REGISTRY).map_err(|e| e.to_string())?;
    run(&mut graph, &pipeline, session, &mut []).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&print(&graph, PrintOptions { no_comments: true, ..PrintOptions::default() }))
        .into_owned())
}

/// The graphs that an `inline` entry was given, by name: `NAME.callee.F.ir`.
fn callees(input: &Path) -> Session {
    let stem = input.to_string_lossy().replace(".in.ir", ".callee.");
    let mut session = Session::default();
    for path in files() {
        if let Some(name) = path.to_string_lossy().strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".ir")) {
            session.callees.insert(name.to_owned(), graph(&path).expect("a recorded graph"));
        }
    }
    session
}

/// The input of an output file, and the pass between them.
fn pair(output: &str) -> Option<(String, &'static str)> {
    let name = output.strip_suffix(".out.ir")?;
    let (theirs, ours) = PAIRS.iter().find(|(theirs, _)| name.ends_with(&format!(".{theirs}")))?;
    Some((format!("{}in.ir", name.strip_suffix(theirs)?), ours))
}

#[test]
fn passes_make_what_pytorch_made() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for path in files() {
        let text = path.to_string_lossy().into_owned();
        if OTHERWISE.iter().any(|(name, _)| text.contains(name)) {
            continue;
        }
        let Some((input, passes)) = pair(&text) else { continue };
        let Some(before) = graph(Path::new(&input)) else { continue };
        let expected = transformed(graph(&path).expect("a recorded graph"), "canonicalize", &mut Session::default());
        let mut session = if passes == "inline" { callees(Path::new(&input)) } else { Session::default() };
        if passes == "inline" && session.callees.is_empty() {
            continue;
        }
        let found = transformed(before, passes, &mut session);
        compared += 1;
        let same = match (&found, &expected) {
            (Ok(found), Ok(expected)) if passes == "inline" => without_order(found) == without_order(expected),
            _ => found == expected,
        };
        if !same {
            wrong.push(format!(
                "{text}\n--- PyTorch\n{}\n--- ours\n{}",
                expected.unwrap_or_default(),
                found.unwrap_or_else(|e| e)
            ));
        }
    }
    assert!(compared > 100, "only {compared} entries");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong[..wrong.len().min(3)].join("\n\n"));
}
