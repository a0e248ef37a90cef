//! Exported programs that PyTorch saved: each is read, verifies without findings, prints what reads
//! back to the same, and meets its recorded results.
//!
//! Reads `testdata/archives/Inputs/exported`, and the archives of the directory `JITOPT_CORPUS` if
//! it is set.

#![allow(clippy::print_stdout, reason = "figures are for those who ask with --nocapture")]

use crate::support::command_line::jitopt;
use jitopt_driver::exit;
use std::path::{Path, PathBuf};

/// Of the programs with recorded results, the share that must meet them.
const ENOUGH: f64 = 0.95;

/// The programs of a folder.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|ext| ext == "pt2")).collect();
    found.sort();
    found
}

/// Folders of programs, one for each release.
fn folders() -> Vec<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/archives/Inputs/exported");
    let Some(corpus) = std::env::var_os("JITOPT_CORPUS") else {
        println!("JITOPT_CORPUS is not set: only the programs of the repository are read");
        return vec![ours];
    };
    let entries = std::fs::read_dir(Path::new(&corpus).join("archives")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| !path.ends_with("hostile")).collect();
    all.sort();
    all.push(ours);
    all
}

/// How many programs of a release were read, had recorded results, and met them.
#[derive(Default)]
struct Tally {
    all: usize,
    read: usize,
    recorded: usize,
    right: usize,
}

impl Tally {
    fn add(&mut self, program: &Path, causes: &mut Vec<String>) {
        let name = program.display().to_string();
        self.all += 1;
        let (code, messages, _) = jitopt(&[name.as_str(), "--verify-roundtrip"]);
        if code == exit::YES && messages.is_empty() {
            self.read += 1;
        } else {
            causes.push(format!("{name} is not read: {messages}"));
        }
        let expected = program.with_extension("outputs.safetensors");
        if !expected.exists() {
            return;
        }
        self.recorded += 1;
        let (code, messages, _) = jitopt(&["run", name.as_str(), "--expect", &expected.display().to_string()]);
        if code == exit::YES {
            self.right += 1;
        } else {
            causes.push(format!("{name} is not right: {messages}"));
        }
    }
}

#[test]
fn recorded_programs_are_read_and_met() {
    let (mut whole, mut causes) = (Tally::default(), Vec::new());
    for folder in folders() {
        let mut tally = Tally::default();
        programs(&folder).iter().for_each(|program| tally.add(program, &mut causes));
        if tally.all == 0 {
            continue;
        }
        let release = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Tally { all, read, recorded, right } = tally;
        println!("{release}: {read} of {all} read, {right} of {recorded} met their results");
        whole.all += all;
        whole.read += read;
        whole.recorded += recorded;
        whole.right += right;
    }
    let causes = causes.join("\n");
    assert!(whole.all >= 5, "there are {} programs", whole.all);
    assert_eq!(whole.read, whole.all, "{causes}");
    assert!(whole.right as f64 >= ENOUGH * whole.recorded as f64, "{causes}");
}
