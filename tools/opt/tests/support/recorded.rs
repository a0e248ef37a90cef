//! The recorded graphs: `testdata/corpus`, and the directory `JITOPT_CORPUS` if it is set.

use jitopt_core::types::release::Release;
use std::path::{Path, PathBuf};

/// The release that printed a file: the directory named by a version, such as `1.12.1-profiling` or
/// `logs-1.12`.
#[allow(dead_code, reason = "not every test asks")]
pub fn release(path: &Path) -> Option<String> {
    let named = |name: &str| name.trim_start_matches("logs-").starts_with(|c: char| c.is_ascii_digit());
    let mut names = path.parent()?.components().rev().filter_map(|part| part.as_os_str().to_str());
    names.find(|name| named(name)).map(str::to_owned)
}

/// The release of such a name.
#[allow(dead_code, reason = "not every test asks")]
pub fn numbers(release: &str) -> Option<Release> {
    release.trim_start_matches("logs-").split('-').next()?.parse().ok()
}

/// All recorded graphs, sorted; patterns of rewrites are not graphs of their own.
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
