//! Graphs of archives that were kept are those that are read, with the same contents.

use jitopt_archive::FileBytes;
use jitopt_core::interpreter::comparison::{Tolerance, differences};
use jitopt_core::interpreter::{IValue, Release};
use jitopt_core::ir::Graph;
use jitopt_core::text::{PrintOptions, print};
use jitopt_engine::archives::Choice;
use jitopt_engine::{Program, Workspace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder of this test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("jitopt-kept-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("there is a folder for what is temporary");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The graph and its contents, or why there are none; and whether the graph was kept.
type Found = (Result<(String, BTreeMap<String, IValue>), String>, bool);

fn read(path: &Path, bytes: impl Into<FileBytes>, folder: Option<&Path>) -> Found {
    let env = BTreeMap::new();
    let mut workspace = Workspace::new(Path::new("."), &env, |_| {});
    let program = Program::new(path, bytes, Choice::default()).kept_in(folder);
    let release = Some(Release::NEWEST);
    let shown = |graph: &Graph| String::from_utf8_lossy(&print(graph, PrintOptions::default())).into_owned();
    let graph = program.graph(release, &mut workspace).map_err(|error| error.message);
    let found = graph.and_then(|graph| {
        let contents = program.contents(release).map_err(|error| error.message)?;
        let mut copy = graph.clone();
        // Places of nodes in callees are those of messages.
        copy.all_nodes().collect::<Vec<_>>().into_iter().for_each(|node| copy.set_location(node, b""));
        Ok((shown(&copy), contents))
    });
    (found, program.was_kept())
}

fn are_same(a: &BTreeMap<String, IValue>, b: &BTreeMap<String, IValue>) -> bool {
    let is_same = |(a, b): (&IValue, &IValue)| differences(a, b, Tolerance::of(0.0, 0.0), "").is_empty();
    a.keys().eq(b.keys()) && a.values().zip(b.values()).all(is_same)
}

fn archives() -> Vec<PathBuf> {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/archives/Inputs");
    let all = std::fs::read_dir(inputs).expect("there are archives").flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|ending| ending == "pt")).collect();
    all.sort();
    all
}

#[test]
fn kept_graphs_are_those_that_are_read() {
    let folder = Folder::new("all");
    let mut kept = 0;
    for path in archives() {
        let bytes = std::fs::read(&path).expect("it can be read");
        let in_file = FileBytes::read(&path).expect("it can be read");
        let (alone, _) = read(&path, bytes.clone(), None);
        let (first, _) = read(&path, bytes, Some(&folder.0));
        let (second, was_kept) = read(&path, in_file.clone(), Some(&folder.0));
        kept += usize::from(was_kept);
        for found in [first, second, read(&path, in_file, None).0] {
            match (&alone, &found) {
                (Ok((graph, contents)), Ok((other, others))) => {
                    assert_eq!(graph, other, "{}", path.display());
                    assert!(are_same(contents, others), "{}", path.display());
                }
                (a, b) => assert_eq!(a.as_ref().err(), b.as_ref().err(), "{}", path.display()),
            }
        }
    }
    assert!(kept >= 5, "{kept} graphs were kept");
}

#[test]
fn damaged_entries_are_read_again() {
    let folder = Folder::new("damaged");
    for path in archives() {
        let bytes = std::fs::read(&path).expect("it can be read");
        let (expected, _) = read(&path, bytes.clone(), Some(&folder.0));
        for file in std::fs::read_dir(&folder.0).expect("there is a folder").flatten() {
            let text = std::fs::read(file.path()).expect("it can be read");
            std::fs::write(file.path(), &text[..text.len() - 2]).expect("it can be written");
        }
        let (found, was_kept) = read(&path, bytes, Some(&folder.0));
        assert!(!was_kept && found.is_ok() == expected.is_ok(), "{}", path.display());
    }
}

#[test]
fn damaged_weights_are_refused_wherever_they_are() {
    let folder = Folder::new("weights");
    let path = folder.0.join("damaged.pt");
    let mut refused = 0;
    for archive in archives() {
        let mut bytes = std::fs::read(&archive).expect("it can be read");
        let records = bytes.windows(7).filter(|name| *name == b"/data/0").count();
        let Some(name) = bytes.windows(7).position(|name| name == b"/data/0").filter(|_| records > 1) else { continue };
        // The elements follow the name and the padding that places them at a multiple of 64.
        let elements = (name + 7 + 4).next_multiple_of(64);
        bytes[elements] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        let (in_memory, _) = read(&path, bytes, None);
        let (in_file, _) = read(&path, FileBytes::read(&path).expect("it can be read"), None);
        assert_eq!(in_memory.as_ref().err(), in_file.as_ref().err(), "{}", archive.display());
        refused += usize::from(in_file.is_err_and(|why| why.contains("checksum")));
    }
    assert!(refused >= 5, "{refused} archives were refused");
}
