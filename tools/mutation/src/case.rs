//! One mutant: a command with the files that it reads.

use crate::archive_damage::{self, ArchiveSeed};
use crate::chance::Chance;
use crate::in_process::{Ended, run};
use crate::pipeline_texts::Passes;
use crate::seeds::{LitCommand, Seeds, read, some};
use crate::{byte_damage, case_commands, graph_damage, json_damage, tensor_files};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A command and its files.
#[derive(Clone, Default)]
pub struct Case {
    /// The command, its name first. Paths are file names of the case.
    pub argv: Vec<String>,
    /// The files, by name; `-` is standard input.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The part of an archive that was mutated; empty for other cases.
    pub stage: &'static str,
}

/// The sources of cases.
pub struct Sources {
    /// Files.
    pub seeds: Seeds,
    /// Passes and pipelines.
    pub passes: Passes,
    /// Archives: where there are some, all mutants are archives.
    pub archives: Vec<ArchiveSeed>,
}

impl Case {
    /// Case `index` of a campaign.
    pub fn make(sources: &Sources, seed: u64, index: u64) -> Case {
        let mut chance = Chance::of_case(seed, index);
        let chance = &mut chance;
        if !sources.archives.is_empty() {
            return archive_damage::make(&sources.archives, chance);
        }
        let commands = &sources.seeds.commands;
        let mut case = match commands.get(chance.below(commands.len())).filter(|_| chance.one_in(4)) {
            Some(command) => case_commands::of_lit(command, chance),
            None => case_commands::new(sources, chance),
        };
        // Without a mutation, the flags are under test.
        if !chance.one_in(20) {
            case.damage(sources, chance);
        }
        case
    }

    fn damage(&mut self, sources: &Sources, chance: &mut Chance) {
        let names: Vec<String> = self.files.keys().cloned().collect();
        let victim = chance.below(names.len());
        for (i, name) in names.iter().enumerate() {
            if i != victim && !chance.one_in(5) {
                continue;
            }
            let Some(bytes) = self.files.get_mut(name) else { continue };
            for _ in 0..1 + chance.below(3) {
                damage_file(name, bytes, sources, chance);
            }
            /// Larger files, which repeated duplication produces, test nothing new.
            const LARGEST: usize = 64 << 10;
            bytes.truncate(LARGEST);
        }
        if self.argv.get(1).is_some_and(|word| word == "test") {
            self.files.values_mut().for_each(disarm);
        }
    }

    /// Writes the files into an empty directory and runs the command.
    pub fn run(&self, folder: &Path) -> Ended {
        empty(folder);
        for (name, bytes) in &self.files {
            // A full disk shows as a missing file.
            let _ = std::fs::write(folder.join(name), bytes);
        }
        run(&self.argv, self.files.get("-").map_or(&[], Vec::as_slice), folder)
    }
}

fn damage_file(name: &str, bytes: &mut Vec<u8>, sources: &Sources, chance: &mut Chance) {
    let seeds = &sources.seeds;
    match name.rsplit('.').next().unwrap_or_default() {
        "json" | "prof" => json_damage::damage(bytes, &some(&seeds.documents, chance), chance),
        "safetensors" | "npz" | "npy" => tensor_files::damage(bytes, &some(&seeds.tensors, chance), chance),
        _ if chance.one_in(4) => byte_damage::damage(bytes, &some(&seeds.graphs, chance), chance),
        _ => graph_damage::damage(bytes, &some(&seeds.graphs, chance), chance),
    }
}

/// Removes lines of a lit file that could access files outside the directory of the case.
fn disarm(bytes: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let harmful = ["rm", "cp", ">", "..", "/", "--check", " -o", "\\"];
    let is_command = |line: &&str| line.contains("RUN") || line.contains("FAIL");
    let kept = text.lines().filter(|line| !is_command(line) || !harmful.iter().any(|word| line.contains(word)));
    *bytes = kept.collect::<Vec<_>>().join("\n").into_bytes();
}

/// Removes the files of an earlier case from a directory.
fn empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let _ = if entry.is_dir() { std::fs::remove_dir_all(&entry) } else { std::fs::remove_file(&entry) };
    }
}

/// The files that a lit command names, under their own names.
pub(crate) fn files_of(command: &LitCommand) -> (Vec<String>, BTreeMap<String, Vec<u8>>) {
    let folder = command.file.parent().unwrap_or(Path::new(""));
    let (mut words, mut files) = (Vec::new(), BTreeMap::new());
    for word in &command.words {
        let mut word = word.replace("%s", "in.ir").replace("%%", "%");
        while let Some(at) = word.find("%S/").or_else(|| word.find("%T/")).or_else(|| word.find("%t")) {
            let end = word[at + 1..].find(['=', ',', ':', '}', ' ', '%']).map_or(word.len(), |found| at + 1 + found);
            let path: PathBuf = folder.join(word[at..end].trim_start_matches("%S/"));
            let name = word[at..end].replace("%S/", "").replace(['/', '%'], "_");
            if path.is_file() {
                files.insert(name.clone(), read(&path));
            }
            word.replace_range(at..end, &name);
        }
        words.push(word);
    }
    files.insert("in.ir".to_owned(), read(&command.file));
    (words, files)
}
