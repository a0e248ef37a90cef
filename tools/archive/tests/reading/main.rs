//! Reads archives that real releases saved, hostile ones, and mutants of both.
#![allow(clippy::print_stdout, reason = "a test reports its figures")]
#![allow(clippy::type_complexity, reason = "records of archives are lists of names and bytes")]

mod fixtures;
mod mutants;
mod recorded;
mod sha256;

use std::path::{Path, PathBuf};

/// The small archives of this repository.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/archives/Inputs")
}

/// The archives below a folder, in order of their paths.
fn archives(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_dir() {
            found.extend(archives(&path));
        } else if matches!(extension, "pt" | "ptl" | "pt2") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The bytes as a source.
#[allow(clippy::box_collection, reason = "a source of bytes is a boxed trait object")]
fn source(bytes: &[u8]) -> Box<Vec<u8>> {
    Box::new(bytes.to_vec())
}
