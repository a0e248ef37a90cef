//! The recorded graphs: `testdata/corpus`, and the folder that `JITOPT_CORPUS` names when it is set.

use jitopt_core::types::release::Release;
use std::path::{Path, PathBuf};

/// Which release printed a file: the folder that is called by a version, `1.12.1-profiling` and
/// `logs-1.12` among them.
#[allow(dead_code, reason = "not every test asks")]
pub fn release(path: &Path) -> Option<String> {
    let named = |name: &str| name.trim_start_matches("logs-").starts_with(|c: char| c.is_ascii_digit());
    let mut names = path.parent()?.components().rev().filter_map(|part| part.as_os_str().to_str());
    names.find(|name| named(name)).map(str::to_owned)
}

/// The release that such a name stands for.
#[allow(dead_code, reason = "not every test asks")]
pub fn numbers(release: &str) -> Option<Release> {
    release.trim_start_matches("logs-").split('-').next()?.parse().ok()
}

/// All of them, sorted; patterns of rewrites are no graphs of their own.
pub fn files() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corpus");
    let other = std::env::var_os("JITOPT_CORPUS").map(PathBuf::from);
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = other.into_iter().chain([own]).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() && !name.ends_with("filecheck") {
                folders.push(path);
            } else if name.ends_with(".ir") && !name.ends_with(".pattern.ir") && !name.ends_with(".replacement.ir") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
