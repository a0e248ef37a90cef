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

/// Files of several graphs, each below a line `# NAME`: all methods of a module.
const DUMPS: &str = ".methods.ir";

/// All recorded graphs with their files, sorted: those of `files` and each graph of a dump of
/// methods.
#[allow(dead_code, reason = "not every test asks")]
pub fn graphs() -> Vec<(PathBuf, Vec<u8>)> {
    found(|name| name.ends_with(".ir")).into_iter().flat_map(|path| graphs_of(&path)).collect()
}

fn graphs_of(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let bytes = std::fs::read(path).expect("a readable file");
    if !path.to_string_lossy().ends_with(DUMPS) {
        return vec![(path.to_owned(), bytes)];
    }
    let text = String::from_utf8(bytes).expect("text in UTF-8");
    let graphs = text.split("\n# ").map(|part| part.trim_start_matches("# ").split_once('\n').expect("a name"));
    graphs.map(|(name, graph)| (path.join(name), format!("{}\n", graph.trim_end()).into_bytes())).collect()
}

/// All files of one recorded graph, sorted.
pub fn files() -> Vec<PathBuf> {
    found(|name| name.ends_with(".ir") && !name.ends_with(DUMPS))
}

/// Files whose name is wanted; patterns of rewrites are not graphs of their own.
fn found(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
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
            } else if wanted(&name) && !name.ends_with(".pattern.ir") && !name.ends_with(".replacement.ir") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
