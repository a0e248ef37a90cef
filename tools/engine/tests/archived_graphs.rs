//! Graphs and results of TorchScript archives against what PyTorch printed and computed.
//!
//! The archives are in the folder that `JITOPT_CORPUS` names, one folder for each release that
//! saved them; without it nothing is compared, and the test says so. `jitopt test
//! testdata/archives` compares a few of them always.

#![allow(clippy::print_stderr, reason = "figures, and what is skipped, are for those who ask with --nocapture")]

use jitopt_core::interpreter::IValue;
use jitopt_core::interpreter::description::describe;
use jitopt_core::interpreter::files::Tensors;
use jitopt_core::ir::Graph;
use jitopt_core::report::changes::compare;
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::types::release::Release;
use jitopt_engine::archives::{self, Wanted};
use jitopt_engine::{Checks, Expected, Program, Run, RunOptions, Semantics, Workspace, stack};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of graphs that are as recorded, and of all graphs.
#[derive(Clone, Copy, Default)]
struct Count {
    right: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, is_right: bool) {
        self.right += usize::from(is_right);
        self.all += 1;
    }

    /// 97 in a hundred.
    fn is_enough(self) -> bool {
        self.right * 100 >= self.all * 97
    }
}

#[derive(Default)]
struct Tally {
    read: Count,
    graphs: Count,
    /// Graphs that are also equal in the order and the number of all names, and byte for byte.
    in_order: Count,
    bytes: Count,
    inlined: Count,
    results: Count,
    wrong: String,
}

#[test]
fn archives_are_read_as_pytorch_reads_them() {
    let folder = std::env::var_os("JITOPT_CORPUS").map(|folder| Path::new(&folder).join("archives"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: JITOPT_CORPUS names no folder with archives");
        return;
    };
    let mut sums = [Count::default(); 6];
    for (release, folder) in releases(&folder) {
        let tally = stack::with_room(|| of_release(release, &folder)).ok().flatten().unwrap_or_default();
        let counts = [tally.read, tally.graphs, tally.inlined, tally.results, tally.in_order, tally.bytes];
        let shown: Vec<String> = counts.iter().map(|count| format!("{}/{}", count.right, count.all)).collect();
        eprintln!("{release}: read {}, graphs {}, inlined {}, results {}", shown[0], shown[1], shown[2], shown[3]);
        eprintln!("{release}: text but for names and locations {}, byte for byte {}", shown[4], shown[5]);
        eprint!("{}", tally.wrong);
        for (sum, count) in sums.iter_mut().zip(counts) {
            sum.right += count.right;
            sum.all += count.all;
        }
    }
    eprintln!("text but for names and locations {}/{}", sums[4].right, sums[4].all);
    eprintln!("byte for byte {}/{}", sums[5].right, sums[5].all);
    // Inlined graphs, results and texts are counted; the others must hold.
    assert!(sums[0].is_enough() && sums[1].is_enough(), "fewer than 97 % are read, or equal");
}

/// Folders that are named after a release with archives that are read, oldest first.
fn releases(folder: &Path) -> BTreeMap<Release, PathBuf> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.parse::<Release>().ok()?, path));
    folders.filter_map(named).filter(|(release, _)| *release >= Release(1, 2)).collect()
}

fn of_release(release: Release, folder: &Path) -> Tally {
    let mut tally = Tally::default();
    let mut files: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "pt" || e == "ptl")) {
        let described = fs::read_to_string(file.with_extension("json")).unwrap_or_default();
        if described.contains("\"loads\": false") {
            continue;
        }
        one(release, file, &described, &mut tally);
    }
    tally
}

fn one(release: Release, file: &Path, described: &str, tally: &mut Tally) {
    let bytes = fs::read(file).expect("an archive");
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut note = |what: &str| tally.wrong += &format!("  {name}: {what}\n");
    let wanted = Wanted { release: Some(release), ..Wanted::default() };
    let graph = archives::graph(&name, &bytes, &wanted).expect("it is an archive");
    tally.read.add(graph.is_ok());
    match graph {
        Err(error) => note(&error.message),
        Ok(graph) => {
            let is_equal = recorded(file, "graph.ir", release).is_none_or(|other| same(&graph, &other));
            tally.graphs.add(is_equal);
            if let Ok(theirs) = fs::read_to_string(file.with_extension("graph.ir")) {
                let ours = String::from_utf8_lossy(&print(&graph, PrintOptions::default())).into_owned();
                tally.in_order.add(in_order(&ours) == in_order(&theirs));
                tally.bytes.add(without_process(&ours) == without_process(&theirs));
            }
            if !is_equal {
                note("another graph");
            }
        }
    }
    if let Some(other) = recorded(file, "inlined.ir", release) {
        let inlined = archives::graph(&name, &bytes, &Wanted { inline: true, ..wanted });
        let is_equal = matches!(inlined, Some(Ok(graph)) if same(&graph, &other));
        tally.inlined.add(is_equal);
        if !is_equal {
            note("another inlined graph");
        }
    }
    let expected = file.with_extension("outputs.safetensors");
    if expected.is_file() && !described.contains("run_error") {
        let ran = run(file, &expected, release);
        tally.results.add(ran.is_ok());
        if let Err(why) = ran {
            note(&format!("other results: {why}"));
        }
    }
}

fn recorded(file: &Path, extension: &str, release: Release) -> Option<Graph> {
    let text = fs::read(file.with_extension(extension)).ok()?;
    plain(&String::from_utf8_lossy(&text), release)
}

/// Whether a graph is the recorded one, up to names.
fn same(graph: &Graph, other: &Graph) -> bool {
    let text = print(graph, PrintOptions::default());
    plain(&String::from_utf8_lossy(&text), graph.release())
        .is_some_and(|graph| compare(&graph, other, false).is_empty())
}

/// The graph of a text without what depends on the process that printed it: warnings are numbered
/// by all that was compiled before, objects are shown by their addresses.
fn plain(text: &str, release: Release) -> Option<Graph> {
    let text = without_process(text);
    parse(text.as_bytes(), ParseOptions { release: Some(release) }).ok().map(|parsed| parsed.graph)
}

fn without_process(text: &str) -> String {
    let text = without_numbers(text, "warn_id=", |c| c.is_ascii_digit());
    without_numbers(text.trim_end(), "object(0x", |c| c.is_ascii_hexdigit())
}

/// A text without locations, and with numbers for names, in the order in which they occur.
fn in_order(text: &str) -> String {
    let text = without_process(text);
    let mut numbers = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.split(" # ").next().unwrap_or_default().trim_end();
        let mut parts = line.split('%');
        let mut renamed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || "._".contains(c))).unwrap_or(part.len());
            let next = numbers.len();
            renamed += &format!("%{}{}", numbers.entry(part[..end].to_owned()).or_insert(next), &part[end..]);
        }
        lines.push(renamed);
    }
    lines.join("\n")
}

/// Runs an archive on its recorded inputs.
fn run(file: &Path, expected: &Path, release: Release) -> Result<(), String> {
    let options = RunOptions {
        graph: Some(file.to_owned()),
        checks: Checks { expect: vec![Expected::Outputs(expected.to_owned())], ..Checks::default() },
        semantics: Semantics { torch: Some(release), ..Semantics::default() },
        ..RunOptions::default()
    };
    let env = BTreeMap::new();
    let mut workspace = Workspace::new(Path::new(""), &env, |_| {});
    let message = |error: jitopt_engine::Error| error.message;
    let mut program = Program::read(file, &workspace).map_err(message)?;
    // All of them were recorded in evaluation mode, those of 1.2 after they were saved in training.
    program.choice.evaluates = true;
    let run = Run::read(&options, &program, &mut workspace).map_err(message)?;
    let mut ran = run.run(None, None, &mut workspace).map_err(message)?;
    let results = std::mem::replace(&mut ran.results, Ok(Vec::new())).map_err(|stop| stop.to_string())?;
    let whole = match <[IValue; 1]>::try_from(results) {
        Ok([only]) => only,
        Err(several) => IValue::tuple(several),
    };
    let mut tensors = Tensors::new();
    describe(&whole, "out", &mut tensors);
    let compared = ran.compare(&whole, &tensors).map_err(message)?;
    if compared.is_equal() { Ok(()) } else { Err(compared.to_string()) }
}

/// `warn_id=7` as `warn_id=0`.
fn without_numbers(text: &str, mark: &str, is_digit: fn(char) -> bool) -> String {
    let mut parts = text.split(mark);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + mark + "0" + part.trim_start_matches(is_digit))
}
