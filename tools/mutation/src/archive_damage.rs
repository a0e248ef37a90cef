//! Mutants of archives: bytes changed anywhere, entries of the container changed, and contents
//! changed inside records that are zipped again with right checksums, so that the inner readers see
//! them. Each mutant has a stage, the part of the reader that it is made for.

use crate::case::Case;
use crate::chance::Chance;
use crate::seeds::{Seeds, read};
use crate::{byte_damage, json_damage};
use jitopt_archive::{Container, stored_zip};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file in a case.
const FILE: &str = "m.pt";

/// A record: its name and its content.
type Record = (String, Vec<u8>);

/// An archive that mutants are made of.
pub struct ArchiveSeed {
    bytes: Vec<u8>,
    /// Its records, unless the container is refused.
    records: Vec<Record>,
    is_exported: bool,
    /// Whether reading it spends a budget, which takes as long as a thousand other archives.
    spends_budget: bool,
}

/// The archives among the seeds.
pub fn seeds(seeds: &Seeds) -> Vec<ArchiveSeed> {
    seeds.archives.iter().map(|path| of_file(path)).collect()
}

fn of_file(path: &Path) -> ArchiveSeed {
    let bytes = read(path);
    let records = Container::open(Box::new(bytes.clone())).ok().and_then(|container| {
        let entries = container.entries().iter();
        entries.map(|entry| Some((entry.name.clone(), container.content(entry).ok()?))).collect()
    });
    let is_exported = path.extension().is_some_and(|extension| extension == "pt2");
    let name = path.to_string_lossy();
    let spends_budget = name.contains("/budgets/") || name.contains("/c_setstate_");
    ArchiveSeed { bytes, records: records.unwrap_or_default(), is_exported, spends_budget }
}

/// A seed. Archives that spend a budget are drawn sixteen times more rarely.
fn drawn<'a>(seeds: &'a [ArchiveSeed], chance: &mut Chance) -> Option<&'a ArchiveSeed> {
    let seed = seeds.get(chance.below(seeds.len()))?;
    if seed.spends_budget && chance.below(16) > 0 { drawn(seeds, chance) } else { Some(seed) }
}

/// The part of the reader that a record is for.
fn stage_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    match name.rsplit('.').next().unwrap_or_default() {
        _ if name.contains("constants") => "constants",
        "pkl" | "debug_pkl" | "pt" => "pickle",
        "py" => "code",
        "json" => "json",
        _ if name.contains("data/") || name.contains("tensors/") => "weights",
        _ => "other",
    }
}

/// A mutant of an archive, with a command that reads it.
pub fn make(seeds: &[ArchiveSeed], chance: &mut Chance) -> Case {
    let Some(seed) = drawn(seeds, chance) else { return Case::default() };
    let other = &seeds[chance.below(seeds.len())];
    let (stage, bytes) = match chance.below(8) {
        0 => ("bytes", damaged_bytes(seed, other, chance)),
        1 if !seed.records.is_empty() => ("container", damaged_entries(seed, other, chance)),
        _ if seed.records.is_empty() => ("bytes", damaged_bytes(seed, other, chance)),
        _ => damaged_record(seed, other, chance),
    };
    let argv = command(seed.is_exported, chance).iter().map(|word| (*word).to_owned()).collect();
    Case { argv, files: BTreeMap::from([(FILE.to_owned(), bytes)]), stage }
}

/// Reading, in the ways that commands do it; a run for a few, which may be one without end.
fn command(is_exported: bool, chance: &mut Chance) -> &'static [&'static str] {
    match chance.below(20) {
        0..5 => &["jitopt", "inspect", FILE],
        5 => &["jitopt", "inspect", FILE, "--json"],
        6 => &["jitopt", "export", FILE, "--to=safetensors", "-o", "w.safetensors"],
        7..10 => &["jitopt", "audit", FILE],
        10..12 if !is_exported => &["jitopt", FILE, "--inline"],
        12 if !is_exported => &["jitopt", FILE, "--freeze"],
        13 if !is_exported => &["jitopt", FILE, "--list"],
        14 => &["jitopt", "run", FILE, "--seed=1", "--max-steps=1000000"],
        _ => &["jitopt", FILE],
    }
}

fn damaged_bytes(seed: &ArchiveSeed, other: &ArchiveSeed, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.bytes.clone();
    for _ in 0..1 + chance.below(3) {
        damage_binary(&mut bytes, &other.bytes, chance);
    }
    bytes
}

/// Records that are renamed, repeated, dropped, swapped, or taken from another archive.
fn damaged_entries(seed: &ArchiveSeed, other: &ArchiveSeed, chance: &mut Chance) -> Vec<u8> {
    let mut records = seed.records.clone();
    let at = chance.below(records.len());
    match chance.below(6) {
        0 => drop(records.remove(at)),
        1 => records.push(records[at].clone()),
        2 => {
            let to = chance.below(records.len());
            let content = records[to].1.clone();
            records[at].1 = content;
        }
        3 => records.extend(other.records.get(chance.below(other.records.len())).cloned()),
        4 => {
            let mut name = std::mem::take(&mut records[at].0).into_bytes();
            byte_damage::damage(&mut name, b"../data.pkl", chance);
            name.truncate(usize::from(u16::MAX));
            records[at].0 = String::from_utf8_lossy(&name).into_owned();
        }
        _ => {
            let to = chance.below(records.len());
            records.swap(at, to);
        }
    }
    stored_zip(&records)
}

fn damaged_record(seed: &ArchiveSeed, other: &ArchiveSeed, chance: &mut Chance) -> (&'static str, Vec<u8>) {
    // Weights and small records are many, and few mutants of them are of interest.
    let drawn = chance.pick(&["pickle", "pickle", "code", "code", "json", "json", "constants", "other"]);
    let of_stage = |stage: &str| -> Vec<usize> {
        let all = seed.records.iter().enumerate();
        all.filter(|(_, (name, content))| stage_of(name) == stage && !content.is_empty()).map(|(i, _)| i).collect()
    };
    let found = of_stage(drawn);
    let at = match found.as_slice() {
        [] => chance.below(seed.records.len()),
        some => some[chance.below(some.len())],
    };
    let stage = stage_of(&seed.records[at].0);
    let mut records = seed.records.clone();
    let source = other.records.iter().find(|(name, _)| stage_of(name) == stage);
    let foreign = source.map_or(&[][..], |(_, content)| content);
    for _ in 0..1 + chance.below(3) {
        damage_content(stage, &mut records[at].1, foreign, chance);
    }
    (stage, stored_zip(&records))
}

fn damage_content(stage: &str, content: &mut Vec<u8>, foreign: &[u8], chance: &mut Chance) {
    match stage {
        "json" => json_damage::damage(content, foreign, chance),
        "code" => match chance.below(3) {
            0 => damage_binary(content, foreign, chance),
            1 => replace_token(content, chance),
            _ => byte_damage::damage(content, foreign, chance),
        },
        _ => damage_binary(content, foreign, chance),
    }
}

/// Opcodes of pickles and numbers at the limits of their fields.
const OPCODES: &[u8] = b"(NJKMGXc)]}tld.aesuqrhjQbR\x80\x81\x85\x86\x87\x88\x89\x8a\x00\xff\x7f";

fn damage_binary(bytes: &mut Vec<u8>, foreign: &[u8], chance: &mut Chance) {
    let at = chance.below(bytes.len());
    if bytes.is_empty() {
        return;
    }
    match chance.below(7) {
        0 => bytes[at] ^= 1 << chance.below(8),
        1 => bytes[at] = OPCODES[chance.below(OPCODES.len())],
        2 => bytes.insert(at, OPCODES[chance.below(OPCODES.len())]),
        3 => {
            let number = [u32::MAX, i32::MAX as u32, 1 << 31, 0, 1, 255, 65536, chance.draw() as u32][chance.below(8)];
            bytes[at..].iter_mut().zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        }
        4 => drop(bytes.drain(at..(at + 1 + chance.below(20)).min(bytes.len()))),
        5 => {
            let piece = bytes[at..(at + 1 + chance.below(40)).min(bytes.len())].to_vec();
            let times = [1, 1, 2, 50, 500][chance.below(5)];
            bytes.splice(at..at, piece.repeat(times));
        }
        _ => {
            let start = chance.below(foreign.len());
            let piece = foreign[start..(start + chance.below(200)).min(foreign.len())].to_vec();
            bytes.splice(at..at, piece);
        }
    }
}

/// Tokens of printed code.
const TOKENS: &[&str] = &[
    "self",
    "torch",
    "ops",
    "prim",
    "annotate",
    "List",
    "Tensor",
    "Dict",
    "Optional",
    "Tuple",
    "int",
    "None",
    "True",
    "CONSTANTS",
    "c0",
    "for",
    "while",
    "range",
    "if",
    "else",
    "pass",
    "return",
    "class",
    "def",
    "forward",
    "fork",
    "__setstate__",
    "__new__",
    "getattr",
    "uninitialized",
    "unchecked_cast",
    "isinstance",
    "9223372036854775807",
    "-1",
    "1e400",
    "nan",
    "aten",
    "add",
    "as_strided",
    "inf",
    "_0",
    "__torch__",
    "Module",
    "with",
    "\"\\x00\"",
];

/// Replaces a run of letters and digits by a token of printed code.
fn replace_token(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let from = chance.below(bytes.len());
    let Some(start) = bytes[from..].iter().position(is_word).map(|found| from + found) else { return };
    let length = bytes[start..].iter().take_while(|byte| is_word(byte)).count();
    bytes.splice(start..start + length, chance.pick(TOKENS).bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ArchiveSeed> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/archives/Inputs");
        seeds(&Seeds::find(&[folder]))
    }

    /// Zipping again what was read changes nothing, so that mutants reach the inner readers.
    #[test]
    fn records_zipped_again_are_read() {
        let sound = |bytes: &[u8]| jitopt_archive::open(Box::new(bytes.to_vec())).is_ok();
        let seeds = all();
        let read = seeds.iter().filter(|seed| sound(&seed.bytes)).count();
        let again = seeds.iter().filter(|seed| sound(&seed.bytes) && sound(&stored_zip(&seed.records))).count();
        assert!(again >= 30 && read - again < 3, "{again} of {read}");
    }

    #[test]
    fn most_mutants_are_made_inside_records() {
        let seeds = all();
        let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
        for index in 0..2000 {
            *stages.entry(make(&seeds, &mut Chance::of_case(1, index)).stage).or_default() += 1;
        }
        let inner: usize = ["pickle", "code", "constants", "json"].iter().filter_map(|stage| stages.get(stage)).sum();
        assert!(inner > 1000 && stages.len() == 8, "{stages:?}");
    }
}
