//! Finds the lit files that reach each mutant, and which of them fail with it.
//!
//! Only a test that evaluates the site of a mutant can find it. Each lit file runs once without
//! mutants, in a process that writes the sites it reaches to the file that `JITOPT_REACHED` names.
//! A mutant then runs only in the files that reach its site: first those in the folder of its pass
//! and in the folders that its sheet names, then the fastest.

use crate::faults::passes;
use anyhow::{Error, Result, ensure};
use jitopt_lit::discover;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time limit of lit files for one mutant: hundreds of files compile kernels, and reach each
/// site of the code generator.
const BUDGET: Duration = Duration::from_secs(120);
/// The least time limit of a few files.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of files that run first; then twice as many, and so on.
const FIRST: usize = 4;

/// A lit file that passes without mutants.
struct Case {
    path: PathBuf,
    time: Duration,
    sites: BTreeSet<String>,
}

/// The lit files of a folder, the fastest first.
pub(crate) struct Coverage {
    jitopt: PathBuf,
    cases: Vec<Case>,
}

impl Coverage {
    /// Runs each lit file of a folder without mutants.
    pub(crate) fn measure(jitopt: PathBuf, testdata: &Path, scratch: &Path) -> Result<Coverage> {
        let files = discover(testdata, None).map_err(Error::msg)?;
        std::fs::create_dir_all(scratch)?;
        let mut coverage = Coverage { jitopt, cases: Vec::new() };
        let cases = in_parallel(&files, |i, file| coverage.case(&file.path, &scratch.join(i.to_string())));
        coverage.cases = cases.into_iter().collect::<Result<_>>()?;
        coverage.cases.sort_by_key(|case| case.time);
        Ok(coverage)
    }

    fn test(&self, files: &[&Path]) -> Command {
        let mut command = Command::new(&self.jitopt);
        command.args(["test", "--jobs=1"]).args(files).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn case(&self, file: &Path, report: &Path) -> Result<Case> {
        // An earlier run may have left one.
        std::fs::remove_file(report).ok();
        let begin = Instant::now();
        let status = self.test(&[file]).env("JITOPT_REACHED", report).status()?;
        ensure!(status.success(), "{} fails without a mutant", file.display());
        let reached = std::fs::read_to_string(report).unwrap_or_default();
        Ok(Case { path: file.to_owned(), time: begin.elapsed(), sites: reached.lines().map(str::to_owned).collect() })
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.cases.len()
    }

    /// The lit file that fails with a mutant of a source. Files with one of `named` in their paths
    /// are among the first.
    pub(crate) fn failing(&self, mutant: &str, source: &str, named: &[&str]) -> Result<Option<String>> {
        let site = mutant.split(':').next().unwrap_or(mutant);
        let mut rest: Vec<&Case> = self.cases.iter().filter(|case| case.sites.contains(site)).collect();
        let is_named = |file: &Path| named.iter().any(|part| file.to_string_lossy().contains(part));
        rest.sort_by_key(|case| !is_about(&case.path, source) && !is_named(&case.path));
        let (begin, mut count) = (Instant::now(), FIRST);
        while !rest.is_empty() && begin.elapsed() < BUDGET {
            let later = rest.split_off(count.min(rest.len()));
            let usual: Duration = rest.iter().map(|case| case.time).sum();
            let files: Vec<&Path> = rest.iter().map(|case| &*case.path).collect();
            if !passes(&mut self.test(&files).env("JITOPT_MUTANT", mutant).spawn()?, PATIENCE + 10 * usual)? {
                return Ok(Some(self.one_of(&files, mutant)?));
            }
            (rest, count) = (later, 2 * count);
        }
        Ok(None)
    }

    /// The first of some files that fails.
    fn one_of(&self, files: &[&Path], mutant: &str) -> Result<String> {
        for file in files {
            if !passes(&mut self.test(&[file]).env("JITOPT_MUTANT", mutant).spawn()?, PATIENCE)? {
                return Ok(file.display().to_string());
            }
        }
        Ok(format!("{} files together", files.len()))
    }
}

/// Whether a lit file stands in the folder of a source, or of the source that it is a part of:
/// `testdata/passes/fuser` is that of `passes/fuser.rs` and of `passes/fuser/chunks.rs`.
fn is_about(file: &Path, source: &str) -> bool {
    let (source, folder) = (Path::new(source), file.parent().and_then(Path::file_name));
    folder.is_some() && [source.file_stem(), source.parent().and_then(Path::file_name)].contains(&folder)
}

/// The results of a function for each item, computed on all processors.
pub(crate) fn in_parallel<T: Sync, R: Send>(items: &[T], run: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((i, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?))) {
            let result = run(i, item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_their_items() {
        assert_eq!(in_parallel(&[3, 1, 2], |i, n| 10 * n + i), [30, 11, 22]);
    }

    #[test]
    fn lit_files_of_a_pass_are_about_its_parts() {
        let file = Path::new("testdata/passes/fuser/chunks.ir");
        assert!(is_about(file, "passes/fuser.rs") && is_about(file, "passes/fuser/concats.rs"));
        assert!(!is_about(file, "passes/peephole.rs"));
    }
}
