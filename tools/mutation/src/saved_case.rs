//! Failing cases on disk: a directory with the files of the case and `repro.ir`, a lit file that
//! shows the failure.

use crate::case::Case;
use crate::chance::Chance;
use std::io;
use std::path::{Path, PathBuf};

/// The words of the command, one per line; it remains after a worker crashes.
const COMMAND: &str = "command.words";

/// Saves a case below `folder`; returns its path.
///
/// # Errors
/// If the directory cannot be written.
pub fn save(folder: &Path, case: &Case, failure: &str) -> io::Result<PathBuf> {
    let hash = |hash: u64, byte: u8| Chance(hash ^ u64::from(byte)).draw();
    let name = case.files.values().flatten().copied().chain(case.argv.concat().bytes()).fold(0, hash);
    let place = folder.join(format!("mutant-{name:016x}"));
    std::fs::create_dir_all(&place)?;
    for (name, bytes) in &case.files {
        std::fs::write(place.join(if name == "-" { "stdin" } else { name }), bytes)?;
    }
    std::fs::write(place.join("repro.ir"), lit_file(case, failure))?;
    std::fs::write(place.join(COMMAND), case.argv.join("\n"))?;
    Ok(place)
}

/// A lit file that fails as long as the command fails.
fn lit_file(case: &Case, failure: &str) -> String {
    let words = case.argv.iter().map(|word| quoted(&named(word, case)));
    let line = words.collect::<Vec<_>>().join(" ");
    let stdin = if case.files.contains_key("-") { " < %S/stdin" } else { "" };
    let said: String = failure.lines().map(|line| format!("# {line}\n")).collect();
    format!("{said}# RUN: {line}{stdin}\n")
}

/// A word with file names replaced by their paths in the lit file.
fn named(word: &str, case: &Case) -> String {
    let word = word.replace('%', "%%");
    let file = case.files.keys().find(|name| word.ends_with(name.as_str()) && name.as_str() != "-");
    match file {
        Some(name) => format!("{}%S/{name}", &word[..word.len() - name.len()]),
        None => word,
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Reads a saved case.
///
/// # Errors
/// If it cannot be read.
pub fn load(place: &Path) -> io::Result<Case> {
    let words = std::fs::read_to_string(place.join(COMMAND))?;
    let mut case = Case { argv: words.split('\n').map(str::to_owned).collect(), ..Case::default() };
    for entry in std::fs::read_dir(place)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name == COMMAND || name == "repro.ir" || !place.join(&name).is_file() {
            continue;
        }
        let bytes = std::fs::read(place.join(&name))?;
        case.files.insert(if name == "stdin" { "-".to_owned() } else { name }, bytes);
    }
    Ok(case)
}
