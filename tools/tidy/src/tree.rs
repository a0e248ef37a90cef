//! The files of the repository, read once.

use std::collections::BTreeMap;
use std::path::Path;

/// Directories of generated files.
const SKIPPED: [&str; 4] = ["target", "proptest-regressions", "artifacts", "node_modules"];
/// Hidden files and directories that belong to the repository.
const SHOWN: [&str; 4] = [".cargo", ".ci", ".github", ".gitignore"];

/// File contents by path, with `/` as separator.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Vec<u8>>,
}

impl Tree {
    /// Reads all files below `root`; unreadable files are skipped.
    pub fn read(root: &Path) -> Tree {
        let mut files = BTreeMap::new();
        let mut folders = vec![(root.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
                let skipped = SKIPPED.contains(&&*name) || name.starts_with('.') && !SHOWN.contains(&&*name);
                if skipped || path.join("CACHEDIR.TAG").exists() {
                    continue;
                }
                if path.is_dir() {
                    folders.push((path, format!("{prefix}{name}/")));
                } else if let Ok(bytes) = std::fs::read(&path) {
                    files.insert(format!("{prefix}{name}"), bytes);
                }
            }
        }
        Tree { files }
    }

    /// A tree for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect() }
    }

    /// All files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// The text files.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, bytes)| Some((path, std::str::from_utf8(bytes).ok()?)))
    }

    /// The Rust files.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// The README and the chapters of the guide.
    pub fn documents(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| *path == "README.md" || path.starts_with("tools/opt/guide/"))
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(self.files.get(path)?).ok()
    }

    /// Whether there is such a file, or a directory with files in it.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self.files.range(folder.clone()..).next().is_some_and(|(p, _)| p.starts_with(&folder))
    }
}

/// The line, counted from 1, of byte `at`.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}
