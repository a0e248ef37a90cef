//! `--emit=python` against the code that PyTorch prints for the same graphs: `NAME.ir` and
//! `NAME.py` of `testdata/corpus/code`, and of the directory `JITOPT_CODE`, which
//! `tools/pytorch/record_code.py` fills.
//!
//! Texts are compared byte for byte. Differences are listed in
//! `testdata/corpus/code/differences.txt` with their reasons; an outdated line there is a failure
//! too. In the other directory at least 95 % must be equal, and differences are printed.

#![allow(clippy::print_stdout, reason = "a test tells its figures")]

use jitopt_core::report::python_form;
use jitopt_core::text::{ParseOptions, parse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The result of one pair.
enum Outcome {
    Equal,
    /// The first line that differs, ours and theirs.
    Other(String),
    /// Why there is no code.
    Refused(String),
}

fn pairs(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ir") && path.with_extension("py").exists()
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn compare(path: &Path) -> Outcome {
    let text = std::fs::read(path).expect("a readable file");
    let theirs = std::fs::read_to_string(path.with_extension("py")).expect("a readable file");
    let graph = match parse(&text, ParseOptions::default()) {
        Ok(parsed) => parsed.graph,
        Err(diagnostics) => return Outcome::Refused(format!("is no graph: {diagnostics:?}")),
    };
    let code = python_form::code(&graph);
    if let Some(finding) = code.report.errors().next() {
        return Outcome::Refused(finding.message.clone());
    }
    if code.text == theirs {
        return Outcome::Equal;
    }
    let mut lines = code.text.lines().zip(theirs.lines()).filter(|(a, b)| a != b);
    Outcome::Other(lines.next().map_or("length".to_owned(), |(a, b)| format!("\n  {a}\n  {b}")))
}

/// The reasons by name of the pair.
fn differences(folder: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder.join("differences.txt")).expect("a list of differences");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let row = |line: &str| line.split_once(": ").map(|(name, why)| (name.to_owned(), why.to_owned()));
    lines.map(|line| row(line).unwrap_or_else(|| panic!("`{line}` is not `name: reason`"))).collect()
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

#[test]
fn recorded_code_comes_out_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus/code");
    let mut known = differences(&folder);
    let (mut equal, mut wrong, files) = (0, Vec::new(), pairs(&folder));
    for path in &files {
        let reason = known.remove(&name_of(path));
        match (compare(path), reason) {
            (Outcome::Equal, None) => equal += 1,
            (Outcome::Equal, Some(_)) => wrong.push(format!("{}: is listed as different and is not", path.display())),
            (Outcome::Other(_) | Outcome::Refused(_), Some(_)) => {}
            (Outcome::Other(why) | Outcome::Refused(why), None) => wrong.push(format!("{}: {why}", path.display())),
        }
    }
    wrong.extend(known.into_keys().map(|name| format!("{name}: is listed as different and does not exist")));
    println!("{equal} of {} equal", files.len());
    assert!(!files.is_empty() && wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn other_folders_come_out_mostly() {
    let Some(folder) = std::env::var_os("JITOPT_CODE") else { return };
    let files = pairs(Path::new(&folder));
    let (mut equal, mut refused) = (0, 0);
    for path in &files {
        match compare(path) {
            Outcome::Equal => equal += 1,
            Outcome::Other(why) => println!("{}: {why}", name_of(path)),
            Outcome::Refused(why) => {
                refused += 1;
                println!("{}: refused: {why}", name_of(path));
            }
        }
    }
    println!("{equal} of {} equal, {refused} refused", files.len());
    assert!(equal * 100 >= files.len() * 95, "{equal} of {} are equal", files.len());
}
