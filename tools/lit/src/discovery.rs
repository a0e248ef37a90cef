//! Finds the test files.

use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// A test file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The path relative to the searched directory, with `/` as separator; reports use it.
    pub name: String,
    /// The path; absolute, because commands run in another directory.
    pub path: PathBuf,
}

/// Directories that contain data of tests.
const SKIPPED: [&str; 2] = ["Inputs", "corpus"];

/// All tests in a directory, sorted by name: `*.ir` and `*.test`, except in directories called
/// `Inputs` or `corpus`. If `root` is a file, it is a test whatever its name. The filter is a
/// regular expression that a name must contain.
pub fn discover(root: &Path, filter: Option<&str>) -> Result<Vec<Test>, String> {
    let filter = match filter {
        Some(filter) => Some(Regex::new(filter).map_err(|error| format!("bad filter: {error}"))?),
        None => None,
    };
    let root = fs::canonicalize(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut tests = Vec::new();
    if root.is_dir() {
        collect(&root, &mut tests)?;
    } else {
        tests.push(root.clone());
    }
    let base = if root.is_dir() { root.as_path() } else { root.parent().unwrap_or(&root) };
    let named = tests.into_iter().map(|path| Test { name: name(base, &path), path });
    let mut tests: Vec<Test> =
        named.filter(|test| filter.as_ref().is_none_or(|filter| filter.is_match(&test.name))).collect();
    tests.sort();
    Ok(tests)
}

fn name(base: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(base).unwrap_or(path);
    let parts = relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.collect::<Vec<_>>().join("/")
}

/// Iterative, because directories may be nested deeply.
fn collect(root: &Path, tests: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let hidden = name.starts_with('.');
            if path.is_dir() {
                if !hidden && !SKIPPED.contains(&name.as_ref()) {
                    directories.push(path);
                }
            } else if !hidden && path.extension().is_some_and(|extension| extension == "ir" || extension == "test") {
                tests.push(path);
            }
        }
    }
    Ok(())
}
