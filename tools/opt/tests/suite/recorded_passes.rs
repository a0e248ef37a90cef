//! Passes against those of PyTorch on the same graphs: `NAME.in.ir`, `NAME.PASS.out.ir` of
//! `testdata/corpus/passes`, and of the directory `JITOPT_CORPUS`.
//!
//! Two graphs are equal if only names and legal order differ, see
//! [`jitopt_core::analysis::fingerprints`]; for passes on types, types are compared too.
//! Differences are listed in `testdata/corpus/passes/differences.txt` with the reason; an outdated
//! line there is a failure too. Entries that PyTorch's own pass breaks are in `verdicts.txt`, and
//! are not compared.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::recorded;
use crate::support::release_table;

use jitopt_core::analysis::fingerprints::{Sight, equivalent};
use jitopt_core::interpreter::description;
use jitopt_core::interpreter::specialization::{Detail, specialized};
use jitopt_core::ir::{Graph, Value};
use jitopt_core::pass::{Pipeline, Session, run};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_passes::REGISTRY;
use recorded::{files, numbers, release};
use release_table::ReleaseTable;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The compared properties.
#[derive(Clone, Copy, PartialEq)]
enum Alike {
    /// The text, when both sides are renumbered: names and order are what the pass is about, or
    /// come out as PyTorch's.
    Text,
    /// All but names and legal order.
    Exactly,
    /// All but those and types.
    // For passes after which PyTorch infers types anew.
    Computation,
}
use Alike::{Computation, Exactly, Text};

/// PyTorch's binding, the equivalent pass here, and the compared properties.
const PAIRS: &[(&str, &str, Alike)] = &[
    ("batch_mm", "batch-mm", Exactly),
    ("canonicalize", "canonicalize", Text),
    // PyTorch asks for no element types.
    ("canonicalize_graph_fuser_ops", "canonicalize-ops{trusting}", Exactly),
    ("canonicalize_ops", "canonicalize-ops{trusting}", Exactly),
    ("canonicalize_renumber", "canonicalize", Text),
    ("constant_loop_unrolling", "constant-loop-unrolling", Exactly),
    ("constant_pooling", "constant-pooling", Text),
    // PyTorch also makes constants of what callers may write to, and gives them types that say
    // more.
    ("constant_propagation", "constant-propagation{escaping}", Exactly),
    ("constant_propagation_immutable_types", "constant-propagation{immutable-only}", Exactly),
    // Types of 1.3 print less than they hold.
    ("complete_shape_analysis", "shape-analysis", Exactly),
    ("create_autodiff_subgraphs", "create-autodiff-subgraphs", Exactly),
    ("create_autodiff_subgraphs_t1", "create-autodiff-subgraphs{threshold=1}", Exactly),
    ("cse", "cse", Text),
    ("dce", "dce{alias=false}", Text),
    ("dce_graph", "dce", Text),
    ("erase_number_types", "erase-number-types", Exactly),
    // PyTorch infers types afterwards.
    ("decompose_ops", "decompose-ops", Computation),
    ("erase_shape_information", "erase-shape-information", Text),
    ("fuse", "fuse", Exactly),
    ("fuse_addmm", "fuse-addmm{trusting}", Exactly),
    // PyTorch forgets what is known of the type of a result.
    ("fuse_linear", "fuse-linear", Computation),
    ("inline", "inline", Exactly),
    ("inline_fork_wait", "inline-fork-wait", Text),
    ("integer_value_refinement", "refine-integer-values", Exactly),
    ("loop_unrolling", "loop-unrolling", Exactly),
    ("lower_all_tuples", "lower-all-tuples", Text),
    ("pipeline_cleanup", "@torch-cleanup", Exactly),
    // PyTorch takes for granted what the texts do not say.
    ("peephole", "peephole{trusting}", Exactly),
    ("peephole_addmm", "peephole{trusting,addmm}", Exactly),
    ("peephole_list_idioms", "peephole{only=lists}", Exactly),
    ("peephole_list_idioms_refine", "peephole{only=lists,refine-list-len}", Exactly),
    ("refine_integer_values", "refine-integer-values", Exactly),
    ("refine_tuple_types", "refine-tuple-types", Exactly),
    ("remove_expands", "remove-expands", Text),
    // PyTorch does not ask for element types.
    ("remove_mutation", "remove-mutation{trusting}", Exactly),
    (
        "subgraph_rewrite",
        "subgraph-rewrite{pattern=STEM.pattern.ir replacement=STEM.replacement.ir exclusive}",
        Computation,
    ),
    // No operator of the recorded graphs has a decomposition; what is cleaned up afterwards is.
    ("run_decompositions", DECOMPOSED, Exactly),
    ("specialize_autogradzero", "specialize-autogradzero", Exactly),
];

const DECOMPOSED: &str = "peephole{trusting,disable-shape},constant-propagation{escaping},\
    peephole{trusting,disable-shape},constant-propagation{escaping}";

/// The percentages that must be equal: of the entries that PyTorch's pass changed, and of the
/// others. A group of fewer than twenty may miss one.
const ENOUGH: [(&str, f64); 2] = [("changed", 0.95), ("unchanged", 0.99)];

/// The beginning of a reason where PyTorch's result is a bug that must not be reproduced.
const WRONG: &str = "wrong in PyTorch";

/// One output file.
struct Entry {
    /// `2.15.0/NAME.PASS`
    name: String,
    version: String,
    input: PathBuf,
    output: PathBuf,
    pair: &'static (&'static str, &'static str, Alike),
}

impl Entry {
    fn of(output: &Path) -> Option<Entry> {
        let text = output.to_str()?;
        let version = release(output)?;
        let name = output.file_name()?.to_str()?.strip_suffix(".out.ir")?;
        let pair = PAIRS.iter().find(|(theirs, ..)| name.ends_with(&format!(".{theirs}")))?;
        let stem = text.strip_suffix(&format!("{}.out.ir", pair.0))?;
        let input = PathBuf::from(format!("{stem}in.ir"));
        Some(Entry { name: format!("{version}/{name}"), version, input, output: output.to_owned(), pair })
    }
}

/// Small graphs do not identify their release; their directory does.
fn graph(path: &Path) -> Option<Graph> {
    let release = release(path).as_deref().and_then(numbers);
    let options = ParseOptions { release };
    parse(&std::fs::read(path).ok()?, options).ok().map(|parsed| parsed.graph)
}

/// The callees of an `inline` entry, by name: `NAME.callee.F.ir`.
fn callees(input: &Path) -> Session {
    let stem = input.to_string_lossy().replace(".in.ir", ".callee.");
    let mut session = Session::default();
    let folder = std::fs::read_dir(input.parent().unwrap_or(Path::new(""))).into_iter().flatten().flatten();
    for path in folder.map(|entry| entry.path()) {
        if let Some(name) = path.to_string_lossy().strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".ir")) {
            session.callees.insert(name.to_owned(), graph(&path).expect("a recorded graph"));
        }
    }
    session
}

/// Assigns the types of the recorded arguments to the parameters, with all sizes, as PyTorch's
/// binding of the pass does.
fn specialize(graph: &mut Graph, input: &Path) {
    let path = input.to_string_lossy().replace(".in.ir", ".args.json");
    let arguments = std::fs::read(path).map(|text| description::parse(&text).expect("a description"));
    let params: Vec<Value> = graph.params(graph.root()).collect();
    for (param, argument) in params.into_iter().zip(arguments.into_iter().flat_map(|all| all.inputs)) {
        let ty = specialized(graph.ty(param), &argument.value, Detail::Sizes).expect("arguments fit");
        graph.set_type(param, ty);
    }
}

fn calls_what_is_not_recorded(graph: &Graph, session: &Session) -> bool {
    let calls = graph.all_nodes().any(|node| graph.kind(node).as_str().starts_with("prim::Call"));
    calls && session.callees.is_empty()
}

/// The recorded differences, by name of the entry, and their reasons.
fn differences() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/passes/differences.txt");
    let text = std::fs::read_to_string(path).expect("it stands in the tree");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(": ").expect("NAME: reason")).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

/// Outputs that do not compute the same as the input of the pass.
fn broken() -> BTreeSet<String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/passes/verdicts.txt");
    let text = std::fs::read_to_string(own).expect("it stands in the tree");
    let mut files: BTreeSet<String> =
        text.lines().filter_map(|line| line.strip_prefix("other ")?.split(' ').nth(1)).map(str::to_owned).collect();
    if let Some(folder) = std::env::var_os("JITOPT_CORPUS") {
        let text = std::fs::read(Path::new(&folder).join("manifest.json")).expect("the corpus has a manifest");
        let entries: serde_json::Value = serde_json::from_slice(&text).expect("the manifest is JSON");
        let unsound = entries.as_array().into_iter().flatten().filter(|e| e["same_result_when_run"] == false);
        files.extend(unsound.filter_map(|entry| entry["files"]["out"].as_str().map(str::to_owned)));
    }
    let name = |file: &String| Some(file.strip_prefix("passes/")?.strip_suffix(".out.ir")?.to_owned());
    files.iter().filter_map(name).collect()
}

fn shown(graph: &Graph) -> String {
    let mut copy = graph.clone();
    let renumber = Pipeline::parse("canonicalize", &REGISTRY).expect("a pipeline");
    run(&mut copy, &renumber, &mut Session::default(), &mut []).expect("it always works");
    String::from_utf8_lossy(&print(&copy, PrintOptions { no_comments: true, ..PrintOptions::default() })).into_owned()
}

fn is_alike(ours: &Graph, theirs: &Graph, alike: Alike) -> bool {
    match alike {
        Text => shown(ours) == shown(theirs),
        // Floating-point tensors equal nothing, not even those of the same text.
        Exactly => equivalent(ours, theirs, Sight::EXACT) || shown(ours) == shown(theirs),
        Computation => equivalent(ours, theirs, Sight::COMPUTATION),
    }
}

/// `None` if our result equals PyTorch's; both otherwise.
fn difference(entry: &Entry, expected: &Graph, mut before: Graph, session: &mut Session) -> Option<String> {
    let (_, passes, alike) = *entry.pair;
    let stem = entry.input.to_string_lossy().replace(".in.ir", "");
    let mut pipeline = Pipeline::parse(&passes.replace("STEM", &stem), &REGISTRY).expect("a pipeline");
    pipeline.read_files(&mut |path, _| std::fs::read(path)).expect("files of the entry");
    let found = match run(&mut before, &pipeline, session, &mut []) {
        Ok(()) if is_alike(&before, expected, alike) => return None,
        Ok(()) => shown(&before),
        Err(error) => error.to_string(),
    };
    Some(format!("{}\n--- PyTorch\n{}\n--- ours\n{found}", entry.name, shown(expected)))
}

#[derive(Default)]
struct Tally {
    equal: usize,
    all: usize,
}

impl Tally {
    fn is_enough(&self, part: f64) -> bool {
        let missed = self.all - self.equal;
        missed == 0 || self.all < 20 && missed == 1 || self.equal as f64 >= part * self.all as f64
    }
}

/// Whether a file is in the directory `versions` of the whole corpus.
fn is_of_corpus(path: &Path) -> bool {
    let whole = std::env::var_os("JITOPT_CORPUS").is_some_and(|folder| path.starts_with(folder));
    whole && ReleaseTable::holds(path)
}

/// Differences between the table in the repository and the results; `None` without the whole
/// corpus.
fn table_problem(table: &ReleaseTable) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/releases/table.md");
    std::env::var_os("JITOPT_CORPUS")?;
    let text = table.text();
    if std::env::var_os("JITOPT_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the table can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    (written != text).then(|| format!("{} says something else; this is right:\n{text}", path.display()))
}

/// One line per release.
fn print_releases(tallies: &BTreeMap<(&str, String, &str), Tally>) {
    let mut releases: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for ((_, version, _), tally) in tallies {
        let row = releases.entry(version).or_default();
        *row = (row.0 + tally.equal, row.1 + tally.all);
    }
    for (release, (equal, all)) in releases {
        println!("release {release:18} {equal:5} of {all:5} results of passes");
    }
}

#[test]
fn passes_match_pytorch() {
    let (differences, broken) = (differences(), broken());
    let mut tallies: BTreeMap<(&str, String, &str), Tally> = BTreeMap::new();
    let (mut seen, mut compared, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    let mut table = ReleaseTable::default();
    files().iter().filter(|path| is_of_corpus(path)).for_each(|path| table.check(path));
    for entry in files().iter().filter_map(|path| Entry::of(path)) {
        let Some(mut before) = graph(&entry.input) else { continue };
        let mut session = callees(&entry.input);
        let inlines = entry.pair.0 == "inline" && calls_what_is_not_recorded(&before, &session);
        let listed = is_of_corpus(&entry.output) && !seen.contains(&entry.name);
        if inlines && listed {
            table.incomparable(&entry.output);
        }
        if inlines || broken.contains(&entry.name) || !seen.insert(entry.name.clone()) {
            continue;
        }
        let expected = graph(&entry.output).expect("a recorded graph");
        let kind = if shown(&before) == shown(&expected) { "unchanged" } else { "changed" };
        let tally = tallies.entry((entry.pair.0, entry.version.clone(), kind)).or_default();
        compared += 1;
        tally.all += 1;
        if entry.pair.0 == "complete_shape_analysis" {
            specialize(&mut before, &entry.input);
        }
        let found = difference(&entry, &expected, before, &mut session);
        if listed {
            table.compared(&entry.output, entry.pair.0, found.is_none());
            if let (Some(_), Some(reason)) = (&found, differences.get(&entry.name)) {
                table.differs(&entry.name, reason);
            }
        }
        tally.equal += usize::from(found.is_none());
        // Differences with a good reason count for neither.
        let excused = differences.get(&entry.name).is_some_and(|reason| reason.starts_with(WRONG));
        tally.all -= usize::from(excused && found.is_some());
        match (found, differences.get(&entry.name)) {
            (Some(found), None) => wrong.push(found),
            (None, Some(_)) => wrong.push(format!("{} is equal, and listed as different", entry.name)),
            _ => {}
        }
    }
    print_releases(&tallies);
    wrong.extend(table_problem(&table));
    for ((pass, version, kind), tally) in &tallies {
        println!("{pass:42} {version:8} {kind:10} {:4} of {:4}", tally.equal, tally.all);
        let (_, part) = ENOUGH.iter().find(|(name, _)| name == kind).expect("one of two");
        // A chosen part of what is recorded holds all differences and few of the others.
        if std::env::var_os("JITOPT_CORPUS").is_some() && !tally.is_enough(*part) {
            wrong.push(format!("{pass} of {version}: only {} of {} {kind} entries", tally.equal, tally.all));
        }
    }
    assert!(compared > 100, "only {compared} entries");
    let names: Vec<&str> = wrong.iter().filter_map(|text| text.lines().next()).collect();
    let shown = wrong[..wrong.len().min(3)].join("\n\n");
    assert!(wrong.is_empty(), "{} of {compared} differ: {names:#?}\n{shown}", wrong.len());
}
