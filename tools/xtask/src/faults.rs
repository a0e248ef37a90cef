//! `cargo xtask mutants`: which injected faults do tests and validation find?
//!
//! The tree is copied to `target/mutants-tree` with the faults of all `.mutants` files inserted
//! (`tools/tidy/src/replacements.rs`), and built once. A mutant is found if
//!
//! 1. one of the lit files that reach its site fails while it is active (`covering.rs`);
//! 2. or else one of the tests that its file names in `tests: …`. `TEST=FILTER` is a test binary of
//!    `tools/opt/tests` with a filter; `lit=PART` names lit files that run first in the first step;
//! 3. or else `tools/opt/tests/detection.rs` finds it on random and recorded graphs.
//!
//! A test that takes ten times as long as without the mutant fails. Each result goes to
//! `target/mutants-results` (`ledger.rs`): a run that was cut goes on where it stopped.
//!
//! The rest survives. `tools/mutation/survivors.md` has those whose reason is known, which come
//! last in each step; another one is an error.

use crate::covering::{Coverage, in_parallel};
use crate::ledger::{Ledger, Stage};
use anyhow::{Context, Result, bail, ensure};
use jitopt_tidy::replacements::{self, Sheet};
use jitopt_tidy::{Tree, replacements::SURVIVORS};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The least time limit of a test.
const PATIENCE: Duration = Duration::from_secs(20);
/// The polling interval of a waiting process.
const PAUSE: Duration = Duration::from_millis(20);
/// The test that runs mutants on random and recorded graphs, and its case.
const DETECTION: &str = "detection";
const CASE: &str = "mutants_are_caught_and_named";
/// The part of the names of all wrong rules.
const RULES: &str = ":planted";

/// The verdict on a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    ByTest(String),
    ByValidation,
    Survived,
    NotTried,
}

/// The mutants of one source.
struct Source {
    path: String,
    tests: Vec<String>,
    names: Vec<String>,
}

impl Source {
    fn mutants(&self) -> impl Iterator<Item = Mutant<'_>> {
        self.names.iter().map(|name| Mutant { name, source: self })
    }

    /// Parts of the paths of the lit files that run first.
    fn lit_files(&self) -> Vec<&str> {
        self.tests.iter().filter_map(|test| test.strip_prefix("lit=")).collect()
    }

    /// The tests that run after the lit files.
    fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(String::as_str).filter(|test| split(test).0 != "lit")
    }
}

/// A mutant, and where it is.
#[derive(Clone, Copy)]
struct Mutant<'a> {
    name: &'a str,
    source: &'a Source,
}

impl Ledger {
    /// The verdict on a mutant.
    fn fate(&self, name: &str) -> Fate {
        match self.found(name) {
            Some((Stage::Validation, _)) => Fate::ByValidation,
            Some((_, test)) => Fate::ByTest(test),
            None if self.is_done(name, Stage::Validation) => Fate::Survived,
            None => Fate::NotTried,
        }
    }
}

/// Prints how far a step is, and what it found.
struct Progress {
    stage: &'static str,
    begin: Instant,
    done: AtomicUsize,
    all: usize,
}

impl Progress {
    fn new(stage: &'static str, all: usize) -> Progress {
        Progress { stage, begin: Instant::now(), done: AtomicUsize::new(0), all }
    }

    fn step(&self, name: &str, by: Option<&str>) {
        let (done, seconds) = (self.done.fetch_add(1, Ordering::Relaxed) + 1, self.begin.elapsed().as_secs());
        let found = by.map_or_else(|| "not found".to_owned(), |by| format!("found by {by}"));
        println!("{} {done} of {}, {seconds} s: {name}: {found}", self.stage, self.all);
    }
}

/// The selection of mutants that are judged.
pub struct Selection {
    /// Parts of their names or of the paths of their sources, separated by commas.
    pub filter: String,
    /// When to stop, in hours after the start.
    pub hours: Option<f64>,
    /// Validation judges every so many of those that no test finds.
    pub every: usize,
    /// On how many random graphs.
    pub graphs: usize,
    /// Whether the results of an earlier run are forgotten.
    pub anew: bool,
}

/// Runs mutants, and prints what becomes of them.
///
/// # Errors
/// If the copy does not build, a test fails without mutants, or a mutant survives for no known
/// reason.
pub fn run(root: &Path, selection: &Selection) -> Result<()> {
    let begin = Instant::now();
    let deadline = selection.hours.map(|hours| begin + Duration::from_secs_f64(hours * 3600.0));
    let tree = Tree::read(root);
    let survivors = replacements::survivors(tree.text(SURVIVORS).unwrap_or_default());
    let [copy, target, results] = ["tree", "build", "results"].map(|part| root.join(format!("target/mutants-{part}")));
    let sources = write_copy(&tree, &copy, &selection.filter)?;
    let mut all: Vec<Mutant<'_>> = sources.iter().flat_map(Source::mutants).collect();
    all.sort_by_key(|mutant| survivors.iter().any(|(known, _)| known == mutant.name));
    println!("{} mutants in {} files", all.len(), sources.len());
    let mut binaries = build(&target, &copy, [DETECTION].into())?;
    println!("built after {:.0} s", begin.elapsed().as_secs_f64());
    if selection.anew {
        std::fs::remove_file(&results).ok();
    }
    let ledger = Ledger::open(&results, &tree)?;
    let lit = Judge::new(&copy, &binaries, deadline, &ledger);
    lit.by_lit_files(&all, &target, &copy)?;
    // Programs of tests are built only if they are needed.
    let left = lit.left(&all, Stage::Tests);
    let tests: BTreeSet<&str> =
        left.iter().flat_map(|mutant| mutant.source.tests()).map(|test| split(test).0).collect();
    if !tests.is_empty() {
        binaries.extend(build(&target, &copy, tests)?);
    }
    let mut judge = Judge::new(&copy, &binaries, deadline, &ledger);
    judge.by_tests(&all)?;
    let rules = judge.by_validation(&all, selection)?;
    let names = all.iter().map(|mutant| mutant.name.to_owned()).chain(rules.clone());
    let fates = names.map(|name| (name.clone(), ledger.fate(&name))).collect();
    report(&sources, &rules, &fates);
    println!("{:.0} s", begin.elapsed().as_secs_f64());
    verdict(&fates, &survivors)
}

/// Writes the copy with the mutants inserted; files that are as before are left alone, so that a
/// second build is short. Returns the sources whose mutants are wanted.
fn write_copy(tree: &Tree, copy: &Path, filter: &str) -> Result<Vec<Source>> {
    let mut texts: BTreeMap<&str, Vec<u8>> = tree.files().map(|(path, bytes)| (path, bytes.to_vec())).collect();
    let mut sources = Vec::new();
    for (path, sheet) in replacements::sheets(tree) {
        let wrong = |(line, why)| anyhow::anyhow!("{path}: line {line} of its mutants: {why}");
        let sheet: Sheet = sheet.map_err(wrong)?;
        let (name, source) =
            tree.texts().find(|(name, _)| *name == path).with_context(|| format!("there is no {path}"))?;
        let inserted = replacements::insert(source, &sheet, replacements::module(&path));
        texts.insert(name, inserted.map_err(|all| wrong(all[0].clone()))?.into_bytes());
        let chosen = |name: &String| filter.split(',').any(|part| path.contains(part) || name.contains(part));
        let names: Vec<String> = sheet.names().into_iter().filter(chosen).collect();
        if !names.is_empty() {
            sources.push(Source { path: path.clone(), tests: sheet.tests, names });
        }
    }
    let switch = texts.get_mut("src/mutants.rs").context("there is no src/mutants.rs")?;
    *switch = String::from_utf8(switch.clone())?.replace("INSERTED: bool = false", "INSERTED: bool = true").into();
    for (path, _) in Tree::read(copy).files().filter(|(path, _)| !texts.contains_key(path)) {
        std::fs::remove_file(copy.join(path))?;
    }
    for (path, text) in texts {
        let path = copy.join(path);
        if std::fs::read(&path).ok().as_ref() != Some(&text) {
            std::fs::create_dir_all(path.parent().unwrap_or(copy))?;
            std::fs::write(path, text)?;
        }
    }
    Ok(sources)
}

/// Builds tests, and `jitopt` with them; returns their binaries. The inserted expressions are no
/// code that lints have to like.
fn build(target: &Path, copy: &Path, tests: BTreeSet<&str>) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--locked", "--package", "jitopt", "--features", "mutants"]);
    for test in tests {
        command.args(["--test", test]);
    }
    command.arg("--target-dir").arg(target).env("RUSTFLAGS", "-Awarnings").current_dir(copy).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut binaries = BTreeMap::new();
    for line in BufReader::new(child.stderr.take().context("no output")?).lines() {
        let line = line?;
        eprintln!("{line}");
        // `Executable tests/lit.rs (DIRECTORY/lit-0123456789abcdef)`
        let path = line.trim_start().strip_prefix("Executable ").and_then(|rest| rest.split_once(" ("));
        if let Some(path) = path.and_then(|(_, path)| path.strip_suffix(')')).map(Path::new) {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let test = name.rsplit_once('-').map_or(&*name, |(test, _)| test);
            binaries.insert(test.to_owned(), copy.join(path));
        }
    }
    ensure!(child.wait()?.success(), "the copy with the mutants does not build");
    Ok(binaries)
}

/// Test and filter.
fn split(test: &str) -> (&str, Option<&str>) {
    test.split_once('=').map_or((test, None), |(test, filter)| (test, Some(filter)))
}

struct Judge<'a> {
    folder: PathBuf,
    binaries: &'a BTreeMap<String, PathBuf>,
    /// The time of each test without mutants.
    usual: BTreeMap<String, Duration>,
    deadline: Option<Instant>,
    ledger: &'a Ledger,
}

impl<'a> Judge<'a> {
    fn new(
        copy: &Path,
        binaries: &'a BTreeMap<String, PathBuf>,
        deadline: Option<Instant>,
        ledger: &'a Ledger,
    ) -> Judge<'a> {
        Judge { folder: copy.join("tools/opt"), binaries, usual: BTreeMap::new(), deadline, ledger }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn command(&self, test: &str) -> Result<Command> {
        let (name, filter) = split(test);
        let binary = self.binaries.get(name).with_context(|| format!("there is no test `{name}`"))?;
        let mut command = Command::new(binary);
        command.args(filter).current_dir(&self.folder);
        Ok(command)
    }

    /// The mutants that a step has to judge.
    fn left<'m>(&self, all: &[Mutant<'m>], stage: Stage) -> Vec<Mutant<'m>> {
        all.iter().copied().filter(|mutant| !self.ledger.is_done(mutant.name, stage)).collect()
    }

    /// Runs mutants in the lit files that reach them.
    fn by_lit_files(&self, all: &[Mutant<'_>], target: &Path, copy: &Path) -> Result<()> {
        let left = self.left(all, Stage::Lit);
        if left.is_empty() {
            return Ok(());
        }
        let begin = Instant::now();
        let coverage = Coverage::measure(target.join("debug/jitopt"), &copy.join("testdata"), &target.join("reached"))?;
        println!("{} lit files take {:.0} s", coverage.len(), begin.elapsed().as_secs_f64());
        let progress = Progress::new("lit files", left.len());
        let judge = |_, mutant: &Mutant<'_>| -> Result<()> {
            if self.is_late() {
                return Ok(());
            }
            let by = coverage.failing(mutant.name, &mutant.source.path, &mutant.source.lit_files())?;
            progress.step(mutant.name, by.as_deref());
            self.ledger.note(mutant.name, Stage::Lit, by)
        };
        in_parallel(&left, judge).into_iter().collect()
    }

    /// Runs mutants in the tests that their files name.
    fn by_tests(&mut self, all: &[Mutant<'_>]) -> Result<()> {
        let left = self.left(all, Stage::Tests);
        let progress = Progress::new("tests", left.len());
        for mutant in left {
            if self.is_late() {
                return Ok(());
            }
            let by = self.failing(mutant)?;
            progress.step(mutant.name, by.as_deref());
            self.ledger.note(mutant.name, Stage::Tests, by)?;
        }
        Ok(())
    }

    /// The test that fails with a mutant.
    fn failing(&mut self, mutant: Mutant<'_>) -> Result<Option<String>> {
        for test in mutant.source.tests() {
            let limit = PATIENCE + 10 * self.usual(test)?;
            let mut command = self.command(test)?;
            command.env("JITOPT_MUTANT", mutant.name).stdout(Stdio::null()).stderr(Stdio::null());
            if !passes(&mut command.spawn()?, limit)? {
                return Ok(Some(test.to_owned()));
            }
        }
        Ok(None)
    }

    /// The time of a test without a mutant.
    fn usual(&mut self, test: &str) -> Result<Duration> {
        if let Some(time) = self.usual.get(test) {
            return Ok(*time);
        }
        let begin = Instant::now();
        let output = self.command(test)?.output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "`{test}` fails without a mutant:\n{printed}");
        ensure!(!printed.contains("running 0 tests"), "`{test}` runs nothing");
        println!("{test} takes {:.1} s", begin.elapsed().as_secs_f64());
        self.usual.insert(test.to_owned(), begin.elapsed());
        Ok(begin.elapsed())
    }

    /// The names of the wrong rules, which the detection test has itself.
    fn rules(&self) -> Result<Vec<String>> {
        let mut command = self.command(DETECTION)?;
        command.args([CASE, "--exact", "--nocapture"]).env("JITOPT_DETECTION", RULES).env("JITOPT_LIST_ONLY", "1");
        let output = String::from_utf8(command.output()?.stdout)?;
        let rules: Vec<String> = output.lines().filter(|line| line.ends_with(RULES)).map(str::to_owned).collect();
        ensure!(!rules.is_empty(), "the detection test has no rules");
        Ok(rules)
    }

    /// Runs what is left, and the wrong rules, on random and recorded graphs. Returns the names of
    /// the rules.
    fn by_validation(&self, all: &[Mutant<'_>], selection: &Selection) -> Result<Vec<String>> {
        let rules = if selection.filter.is_empty() { self.rules()? } else { Vec::new() };
        let left: Vec<&str> = self.left(all, Stage::Validation).iter().map(|mutant| mutant.name).collect();
        let left = left.into_iter().step_by(selection.every.max(1)).chain(rules.iter().map(String::as_str));
        let left: Vec<&str> = left.filter(|name| !self.ledger.is_done(name, Stage::Validation)).collect();
        if left.is_empty() || self.is_late() {
            return Ok(rules);
        }
        let mut command = self.command(DETECTION)?;
        command
            .args([CASE, "--exact", "--nocapture"])
            .env("JITOPT_DETECTION", left.join(","))
            .env("JITOPT_SMITH", selection.graphs.to_string())
            .env("JITOPT_FIND_ONLY", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let progress = Progress::new("validation", left.len());
        loop {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => {
                    if let Some((name, by)) = judged(&line).filter(|(name, _)| left.contains(name)) {
                        progress.step(name, by.as_deref());
                        self.ledger.note(name, Stage::Validation, by)?;
                    }
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !self.is_late() => {}
                Err(_) => break,
            }
        }
        // It fails where something survives; the list of survivors decides about that.
        child.kill().ok();
        child.wait()?;
        Ok(rules)
    }
}

/// Waits for a process; it is ended at the limit.
pub(crate) fn passes(child: &mut Child, limit: Duration) -> Result<bool> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begin.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reads a line of the detection test: `SITE:KIND: Some(…)` or `SITE:KIND: None`.
fn judged(line: &str) -> Option<(&str, Option<String>)> {
    let (name, rest) = line.split_once(": ")?;
    match rest {
        "None" => Some((name, None)),
        _ if rest.starts_with("Some((") => Some((name, Some("validation".to_owned()))),
        _ => None,
    }
}

/// Prints a line for each source, and one for all.
fn report(sources: &[Source], rules: &[String], fates: &BTreeMap<String, Fate>) {
    println!("\n{:>6} {:>6} {:>10} {:>8} {:>9}  file", "all", "tests", "validation", "survived", "not tried");
    let line = |names: &[String], path: &str| {
        let count = |wanted: &dyn Fn(&Fate) -> bool| names.iter().filter(|name| wanted(&fates[*name])).count();
        let tests = count(&|fate| matches!(fate, Fate::ByTest(_)));
        let [validation, survived, rest] =
            [Fate::ByValidation, Fate::Survived, Fate::NotTried].map(|wanted| count(&|fate| *fate == wanted));
        println!("{:>6} {tests:>6} {validation:>10} {survived:>8} {rest:>9}  {path}", names.len());
    };
    sources.iter().for_each(|source| line(&source.names, &source.path));
    if !rules.is_empty() {
        line(rules, "passes/planted_rules.rs");
    }
    line(&fates.keys().cloned().collect::<Vec<_>>(), "all");
}

/// Whether the survivors are the known ones.
fn verdict(fates: &BTreeMap<String, Fate>, survivors: &[(String, String)]) -> Result<()> {
    let listed = |name: &str| survivors.iter().any(|(known, _)| known == name);
    let mut wrong = Vec::new();
    for (name, fate) in fates {
        match fate {
            Fate::Survived if !listed(name) => wrong.push(format!("{name} survives")),
            Fate::ByTest(_) | Fate::ByValidation if listed(name) => {
                wrong.push(format!("{name} is in {SURVIVORS}, and is found"));
            }
            _ => {}
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_fates_judged() {
        let found = |name| Some((name, Some("validation".to_owned())));
        assert_eq!(judged("a.b:c: Some((3, \"seed 3\""), found("a.b:c"));
        assert_eq!(judged("a.b:d: None"), Some(("a.b:d", None)));
        assert!(["a.b:c: bisected None", "x: y", "z"].iter().all(|line| judged(line).is_none()));
        let all = [("a.b:c", Fate::ByValidation), ("a.b:d", Fate::Survived), ("x-gone:planted", Fate::Survived)];
        let fates = all.map(|(name, fate)| (name.to_owned(), fate)).into();
        let known = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect::<Vec<_>>();
        assert!(verdict(&fates, &known(&["a.b:d", "x-gone:planted"])).is_ok());
        assert!(verdict(&fates, &known(&["a.b:d"])).is_err());
        assert!(verdict(&fates, &known(&["a.b:c", "a.b:d", "x-gone:planted"])).is_err());
    }
}
