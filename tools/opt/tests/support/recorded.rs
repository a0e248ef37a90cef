//! The recorded graphs: `testdata/corpus`, and the folder that `JITOPT_CORPUS` names when it is set.

use std::path::{Path, PathBuf};

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
