//! Seeds of mutants: files of the repository, and of directories named on the command line.

use crate::chance::Chance;
use std::path::{Path, PathBuf};

/// Larger files are skipped: one takes as long as a hundred small ones.
const LARGEST: u64 = 6 << 10;
/// The same for archives, whose records are small.
const LARGEST_ARCHIVE: u64 = 64 << 10;

/// Files by content, each list sorted.
#[derive(Default)]
pub struct Seeds {
    /// Graphs; lit files among them also serve as checks.
    pub graphs: Vec<PathBuf>,
    /// Descriptions of arguments.
    pub documents: Vec<PathBuf>,
    /// Safetensors, `.npz` and `.npy`.
    pub tensors: Vec<PathBuf>,
    /// Profiles written by `jitopt profile`.
    pub profiles: Vec<PathBuf>,
    /// Logs that `jitopt extract` reads.
    pub logs: Vec<PathBuf>,
    /// Archives.
    pub archives: Vec<PathBuf>,
    /// The commands of lit files.
    pub commands: Vec<LitCommand>,
}

/// A command of a lit file.
pub struct LitCommand {
    /// The file.
    pub file: PathBuf,
    /// Its words after the name of the tool, with `%s` and `%S` unexpanded.
    pub words: Vec<String>,
}

impl Seeds {
    /// All seeds below some directories.
    pub fn find(folders: &[PathBuf]) -> Seeds {
        let mut seeds = Seeds::default();
        let mut pending: Vec<PathBuf> = folders.to_vec();
        let mut files = Vec::new();
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()));
            } else if path.metadata().is_ok_and(|data| data.len() <= largest(&path)) {
                files.push(path);
            }
        }
        files.sort();
        files.into_iter().for_each(|file| seeds.add(file));
        seeds
    }

    fn add(&mut self, file: PathBuf) {
        match ending(&file) {
            "ir" => {
                self.commands.extend(commands(&file));
                self.graphs.push(file);
            }
            "json" => self.documents.push(file),
            "safetensors" | "npz" | "npy" => self.tensors.push(file),
            "pt" | "ptl" | "pt2" => self.archives.push(file),
            "prof" => self.profiles.push(file),
            "log" | "txt" => self.logs.push(file),
            _ => {}
        }
    }
}

fn ending(file: &Path) -> &str {
    file.extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

fn largest(file: &Path) -> u64 {
    if matches!(ending(file), "pt" | "ptl" | "pt2") { LARGEST_ARCHIVE } else { LARGEST }
}

/// A random file of a list; empty if there is none.
pub fn some(files: &[PathBuf], chance: &mut Chance) -> Vec<u8> {
    files.get(chance.below(files.len())).map_or(Vec::new(), |file| read(file))
}

/// The contents of a file; empty if it cannot be read.
pub fn read(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_default()
}

/// The `jitopt` commands of a lit file, up to the first pipe.
fn commands(file: &Path) -> Vec<LitCommand> {
    let text = String::from_utf8_lossy(&read(file)).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once("RUN:").map(|(_, command)| command.trim().to_owned()));
    let of_tool = lines.filter_map(|line| line.strip_prefix("jitopt ").map(words));
    let plain = of_tool.filter(|words| !words.iter().any(|word| word.starts_with("--check") || word == "test"));
    plain.map(|words| LitCommand { file: file.to_owned(), words }).collect()
}

/// The words of a command, without quotes.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '|' | '<' | '>' | ';') => break,
            (None, ' ') => all.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_quotes() {
        assert_eq!(words("run %s --passes='a,b{c=1 d}' '' | filecheck %s"), ["run", "%s", "--passes=a,b{c=1 d}", ""]);
    }
}
