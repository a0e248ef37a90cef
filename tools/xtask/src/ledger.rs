//! The results of `cargo xtask mutants`, kept in a file, so that a cut run goes on.
//!
//! ```text
//! sources 9f3a6c0d2b1e4f57 lit 0c44e1a7b9d2f683
//! cse.kind:ignored<TAB>lit<TAB>testdata/passes/common_subexpression_elimination/kinds.ir
//! cse.writers:ignored<TAB>lit<TAB>
//! cse.writers:ignored<TAB>validation<TAB>random and recorded graphs
//! ```
//!
//! A line says that a stage found a mutant, and by what, or that it found nothing. Other sources
//! make all lines void, other lit files those that say that lit files found nothing.

use anyhow::{Context, Result};
use jitopt_tidy::Tree;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The stages in which a mutant is judged, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The lit files that reach its site.
    Lit,
    /// The tests that its file names.
    Tests,
    /// Random and recorded graphs.
    Validation,
}

impl Stage {
    pub(crate) const ALL: [Stage; 3] = [Stage::Lit, Stage::Tests, Stage::Validation];

    fn name(self) -> &'static str {
        match self {
            Stage::Lit => "lit",
            Stage::Tests => "tests",
            Stage::Validation => "validation",
        }
    }
}

/// By what each stage found a mutant; `None` if by nothing.
type Known = BTreeMap<(String, Stage), Option<String>>;

/// The known results, and the file that keeps them.
pub(crate) struct Ledger {
    known: Mutex<(Known, File)>,
}

impl Ledger {
    /// Reads what an earlier run left, as far as it holds for a tree.
    pub(crate) fn open(path: &Path, tree: &Tree) -> Result<Ledger> {
        let head = head(tree);
        let known = still_true(&std::fs::read_to_string(path).unwrap_or_default(), &head);
        std::fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        let mut file = File::create(path).with_context(|| path.display().to_string())?;
        writeln!(file, "{head}")?;
        for ((name, stage), by) in &known {
            file.write_all(line(name, *stage, by.as_deref()).as_bytes())?;
        }
        Ok(Ledger { known: Mutex::new((known, file)) })
    }

    /// Keeps what a stage found; a mutant that it found already is left alone.
    pub(crate) fn note(&self, name: &str, stage: Stage, by: Option<String>) -> Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.1.write_all(line(name, stage, by.as_deref()).as_bytes())?;
        known.0.insert((name.to_owned(), stage), by);
        Ok(())
    }

    /// The result of a stage: nothing known, nothing found, or the test that found it.
    pub(crate) fn at(&self, name: &str, stage: Stage) -> Option<Option<String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0.get(&(name.to_owned(), stage)).cloned()
    }

    /// The first stage that found a mutant, and by what.
    pub(crate) fn found(&self, name: &str) -> Option<(Stage, String)> {
        Stage::ALL.into_iter().find_map(|stage| Some((stage, self.at(name, stage)??)))
    }

    /// Whether a stage has nothing left to do for a mutant.
    pub(crate) fn is_done(&self, name: &str, stage: Stage) -> bool {
        self.found(name).is_some() || self.at(name, stage).is_some()
    }
}

fn line(name: &str, stage: Stage, by: Option<&str>) -> String {
    format!("{name}\t{}\t{}\n", stage.name(), by.unwrap_or_default())
}

/// The lines of a file that hold under a head.
fn still_true(text: &str, head: &str) -> Known {
    let sources = |head: &str| head.split(" lit ").next().map(str::to_owned);
    let (before, lines) = text.split_once('\n').unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split('\t');
        let (name, stage, by) = (parts.next()?, parts.next()?, parts.next()?);
        let stage = Stage::ALL.into_iter().find(|known| known.name() == stage)?;
        let by = Some(by.to_owned()).filter(|by| !by.is_empty());
        let holds = before == head || stage != Stage::Lit || by.is_some();
        holds.then(|| ((name.to_owned(), stage), by))
    };
    let same = sources(before) == sources(head);
    lines.lines().filter(|_| same).filter_map(entry).collect()
}

/// Hashes of the sources that are judged, and of the lit files.
fn head(tree: &Tree) -> String {
    let hash = |wanted: &dyn Fn(&str) -> bool| {
        let mut hasher = DefaultHasher::new();
        tree.files().filter(|(path, _)| wanted(path)).for_each(|file| file.hash(&mut hasher));
        hasher.finish()
    };
    let is_data = |path: &str| path.starts_with("testdata/");
    let judges = |path: &str| path.starts_with("tools/xtask/") || path.starts_with("tools/tidy/");
    let sources = hash(&|path| !is_data(path) && !judges(path) && !path.ends_with(".md"));
    format!("sources {sources:016x} lit {:016x}", hash(&is_data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_results_are_kept() {
        let text = "sources 1 lit 2\na.b:c\tlit\tx.ir\na.b:d\tlit\t\na.b:d\tvalidation\t\nbroken\n";
        let kept =
            |head| still_true(text, head).into_keys().map(|(name, stage)| (name, stage.name())).collect::<Vec<_>>();
        let all =
            [("a.b:c", "lit"), ("a.b:d", "lit"), ("a.b:d", "validation")].map(|(name, stage)| (name.to_owned(), stage));
        assert_eq!(kept("sources 1 lit 2"), all);
        assert_eq!(kept("sources 1 lit 3"), [all[0].clone(), all[2].clone()]);
        assert!(kept("sources 2 lit 2").is_empty());
    }

    #[test]
    fn a_cut_run_continues() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("jitopt-ledger-{}", std::process::id()));
        let (path, tree) = (folder.join("results"), Tree::of(&[("src/a.rs", "fn f() {}\n")]));
        let ledger = Ledger::open(&path, &tree)?;
        ledger.note("a.b:c", Stage::Lit, None)?;
        ledger.note("a.b:c", Stage::Tests, Some("suite=x".to_owned()))?;
        drop(ledger);
        let ledger = Ledger::open(&path, &tree)?;
        assert_eq!(ledger.found("a.b:c"), Some((Stage::Tests, "suite=x".to_owned())));
        assert!(ledger.is_done("a.b:c", Stage::Validation) && !ledger.is_done("a.b:d", Stage::Lit));
        let other = Ledger::open(&path, &Tree::of(&[("src/a.rs", "fn g() {}\n")]))?;
        assert_eq!(other.found("a.b:c"), None);
        Ok(std::fs::remove_dir_all(folder)?)
    }
}
