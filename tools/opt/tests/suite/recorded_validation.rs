//! Validation of PyTorch's passes: `jitopt validate IN OUT` on the graphs recorded before and after
//! them.
//!
//! For some recorded passes it is known whether the result of a run changed. Changes must be
//! detected, and unchanged results must not be reported. Without `JITOPT_CORPUS` the entries in
//! `testdata/corpus/passes/verdicts.txt` are checked, and each must be right; with it, those that
//! its `manifest.json` marks with `same_result_when_run`.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use crate::support::command_line::jitopt;
use crate::support::parallel;
use crate::support::recorded;

use jitopt_driver::exit;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Callees by release and name: `passes/VERSION/CASE.callee.NAME.ir`.
type Callees = BTreeMap<(String, String), PathBuf>;

/// A recorded pass.
struct Entry {
    name: String,
    before: PathBuf,
    after: PathBuf,
    same: bool,
}

/// Entries and their directory.
fn entries() -> (Vec<Entry>, bool) {
    match std::env::var_os("JITOPT_CORPUS").map(PathBuf::from) {
        Some(folder) => (marked(&folder), true),
        None => (listed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus")), false),
    }
}

fn entry(folder: &Path, before: &str, after: &str, same: bool) -> Entry {
    Entry { name: after.to_owned(), before: folder.join(before), after: folder.join(after), same }
}

fn marked(folder: &Path) -> Vec<Entry> {
    let text = std::fs::read(folder.join("manifest.json")).expect("a corpus has a manifest");
    let all: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("the manifest is a list");
    let of = |row: &serde_json::Value| {
        let same = row["same_result_when_run"].as_bool().filter(|_| row["category"] == "passes")?;
        Some(entry(folder, row["files"]["in"].as_str()?, row["files"]["out"].as_str()?, same))
    };
    all.iter().filter_map(of).collect()
}

fn listed(folder: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(folder.join("passes/verdicts.txt")).expect("the verdicts are there");
    let of = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [verdict, before, after] => entry(folder, before, after, verdict == "same"),
        _ => panic!("a verdict and two files: {line}"),
    };
    text.lines().filter(|line| !line.starts_with('#')).map(of).collect()
}

fn version(path: &Path) -> String {
    path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

fn callees() -> Callees {
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".ir")?.split_once(".callee.")?.1.to_owned();
        Some(((version(&path), name), path))
    };
    recorded::files().into_iter().filter_map(named).collect()
}

/// The callee that a message asks for.
fn wanted(said: &str) -> Option<&str> {
    said.split_once("the graph of `").and_then(|(_, rest)| rest.split_once("` is not given")).map(|(name, _)| name)
}

/// Validates an entry; callees are added as messages ask for them.
fn judge(entry: &Entry, callees: &Callees) -> (i32, String) {
    let version = version(&entry.before);
    let torch = if version.starts_with("1.") { "--torch=1.3" } else { "--torch=2.15" };
    let files = [&entry.before, &entry.after].map(|path| path.to_string_lossy().into_owned());
    let flags = ["--samples", "6", "--fill-unknown=random:1", torch, "--timeout", "20", "--no-verify"];
    let mut argv: Vec<String> = std::iter::once("validate".to_owned()).chain(files).collect();
    argv.extend(flags.map(str::to_owned));
    loop {
        let (code, messages, output) = jitopt(&argv);
        let name = wanted(&messages).unwrap_or_default();
        let short = name.rsplit('.').next().unwrap_or_default();
        let found = [name, short].into_iter().find_map(|name| callees.get(&(version.clone(), name.to_owned())));
        let given = found.map(|path| format!("{name}={}", path.display()));
        match given.filter(|given| !argv.contains(given)) {
            Some(given) => argv.extend(["--callee".to_owned(), given]),
            None => return (code, messages + &output),
        }
    }
}

/// The number of entries of one mark with the expected verdict, and the messages of the others.
fn tally(judged: &[(&Entry, (i32, String))], same: bool) -> (usize, usize, String) {
    let wanted = if same { exit::YES } else { exit::MISMATCH };
    let all: Vec<_> = judged.iter().filter(|(entry, _)| entry.same == same).collect();
    let wrong = all.iter().filter(|(_, (code, _))| *code != wanted);
    let shown: String =
        wrong.map(|(entry, (code, said))| format!("\n{} ends with {code}\n{said:.800}", entry.name)).collect();
    let right = all.iter().filter(|(_, (code, _))| *code == wanted).count();
    (right, all.len(), shown)
}

#[test]
fn recorded_passes_are_judged_as_their_runs_were() {
    let ((entries, whole), callees) = (entries(), callees());
    let verdicts = parallel::each(&entries, |entry| judge(entry, &callees));
    let judged: Vec<_> = entries.iter().zip(verdicts).collect();
    // Of the whole: a shape that broadcasts shows that erasing an expand is not always right, and
    // not every callee was recorded.
    let (least_other, least_same) = if whole { (95, 98) } else { (100, 100) };
    for (same, least) in [(false, least_other), (true, least_same)] {
        let (right, all, wrong) = tally(&judged, same);
        println!("marked {same}: {right} of {all}{wrong}");
        assert!(all >= 15 && right * 100 >= least * all, "marked {same}: {right} of {all}{wrong}");
    }
}
