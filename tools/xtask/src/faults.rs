//! `cargo xtask mutants`: which injected faults do tests and validation find?
//!
//! The tree is copied to `target/mutants-tree` with the faults of all `.mutants` files inserted
//! (`tools/tidy/src/replacements.rs`), and built once. A mutant is found if
//!
//! 1. one of the lit files that reach its site fails while it is active (`covering.rs`);
//! 2. or else one of the tests that its file names in `tests: …`. `TEST=FILTER` is a test binary of
//!    `tools/opt/tests` with a filter;
//! 3. or else `tools/opt/tests/detection.rs` finds it on random and recorded graphs.
//!
//! A test that takes ten times as long as without the mutant fails.
//!
//! The rest survives. `tools/mutation/survivors.md` has those whose reason is known; another one is
//! an error.

use crate::covering::{Coverage, in_parallel};
use anyhow::{Context, Result, bail, ensure};
use jitopt_tidy::replacements::{self, Sheet};
use jitopt_tidy::{Tree, replacements::SURVIVORS};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a test may take at least, before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a waiting process is looked at.
const PAUSE: Duration = Duration::from_millis(20);
/// The test that runs mutants on random and recorded graphs, and its case.
const DETECTION: &str = "detection";
const CASE: &str = "mutants_are_caught_and_named";
/// The part of the names of all wrong rules, which the detection test has itself.
const RULES: &str = ":planted";

/// What became of a mutant.
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

/// Which mutants are judged.
pub struct Asked {
    /// A part of their names or of the paths of their sources.
    pub filter: String,
    /// When to stop, in hours after the start.
    pub hours: Option<f64>,
    /// Validation judges every so many of those that no test finds.
    pub every: usize,
}

/// Runs mutants, and prints what becomes of them.
///
/// # Errors
/// If the copy does not build, a test fails without mutants, or a mutant survives for no known
/// reason.
pub fn run(root: &Path, asked: &Asked) -> Result<()> {
    let begin = Instant::now();
    let deadline = asked.hours.map(|hours| begin + Duration::from_secs_f64(hours * 3600.0));
    let tree = Tree::read(root);
    let copy = root.join("target/mutants-tree");
    let sources = write_copy(&tree, &copy, &asked.filter)?;
    println!("{} mutants in {} files", sources.iter().map(|s| s.names.len()).sum::<usize>(), sources.len());
    let target = root.join("target/mutants-build");
    let binaries = build(&target, &copy, &sources)?;
    println!("built after {:.0} s", begin.elapsed().as_secs_f64());
    let mut fates = BTreeMap::new();
    let mut judge = Judge { folder: copy.join("tools/opt"), binaries: &binaries, usual: BTreeMap::new(), deadline };
    judge.by_lit_files(&sources, &target, &copy, &mut fates)?;
    for source in &sources {
        for name in &source.names {
            if fates.get(name) == Some(&Fate::Survived) {
                let fate = judge.by_tests(name, &source.tests)?;
                fates.insert(name.clone(), fate);
            }
        }
    }
    judge.by_validation(&mut fates, asked)?;
    report(&sources, &fates);
    let survivors = replacements::survivors(tree.text(SURVIVORS).unwrap_or_default());
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
        let chosen = |name: &String| path.contains(filter) || name.contains(filter);
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

/// Builds the tests that judge; returns their binaries. The inserted expressions are no code that
/// lints have to like.
fn build(target: &Path, copy: &Path, sources: &[Source]) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--locked", "--package", "jitopt", "--features", "mutants"]);
    command.args(["--test", DETECTION]);
    let mut tests: Vec<&str> = sources.iter().flat_map(|source| &source.tests).map(|test| split(test).0).collect();
    tests.sort_unstable();
    tests.dedup();
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
    /// How long each test takes without mutants.
    usual: BTreeMap<String, Duration>,
    deadline: Option<Instant>,
}

impl Judge<'_> {
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

    /// Runs all mutants in the lit files that reach them.
    fn by_lit_files<'s>(
        &self,
        sources: &'s [Source],
        target: &Path,
        copy: &Path,
        fates: &mut BTreeMap<String, Fate>,
    ) -> Result<()> {
        let begin = Instant::now();
        let scratch = target.join("reached");
        let coverage = Coverage::measure(target.join("debug/jitopt"), &copy.join("testdata"), &scratch)?;
        println!("{} lit files take {:.0} s", coverage.len(), begin.elapsed().as_secs_f64());
        let of_source = |source: &'s Source| source.names.iter().map(move |name| (name, &*source.path));
        let all: Vec<(&String, &str)> = sources.iter().flat_map(of_source).collect();
        let fate = |_, (name, path): &(&String, &str)| -> Result<Fate> {
            if self.is_late() {
                return Ok(Fate::NotTried);
            }
            Ok(coverage.failing(name, path)?.map_or(Fate::Survived, |file| {
                println!("{name}: found by {file}");
                Fate::ByTest(file)
            }))
        };
        for ((name, _), fate) in all.iter().zip(in_parallel(&all, fate)) {
            fates.insert((*name).clone(), fate?);
        }
        Ok(())
    }

    /// Runs a mutant in the tests that its file names.
    fn by_tests(&mut self, name: &str, tests: &[String]) -> Result<Fate> {
        for test in tests {
            if self.is_late() {
                return Ok(Fate::NotTried);
            }
            let limit = PATIENCE + 10 * self.usual(test)?;
            let mut command = self.command(test)?;
            command.env("JITOPT_MUTANT", name).stdout(Stdio::null()).stderr(Stdio::null());
            if !passes(&mut command.spawn()?, limit)? {
                println!("{name}: found by {test}");
                return Ok(Fate::ByTest(test.clone()));
            }
        }
        Ok(Fate::Survived)
    }

    /// How long a test takes without a mutant.
    fn usual(&mut self, test: &str) -> Result<Duration> {
        if let Some(time) = self.usual.get(test) {
            return Ok(*time);
        }
        let begin = Instant::now();
        let output = self.command(test)?.output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "`{test}` fails without a mutant:\n{said}");
        ensure!(!said.contains("running 0 tests"), "`{test}` runs nothing");
        println!("{test} takes {:.1} s", begin.elapsed().as_secs_f64());
        self.usual.insert(test.to_owned(), begin.elapsed());
        Ok(begin.elapsed())
    }

    /// Runs the survivors, and the wrong rules, on random and recorded graphs.
    fn by_validation(&self, fates: &mut BTreeMap<String, Fate>, asked: &Asked) -> Result<()> {
        let mut parts: Vec<String> =
            fates.iter().filter(|(_, fate)| **fate == Fate::Survived).map(|(name, _)| name.clone()).collect();
        for name in &parts {
            fates.insert(name.clone(), Fate::NotTried);
        }
        parts = parts.into_iter().step_by(asked.every.max(1)).collect();
        if asked.filter.is_empty() {
            parts.push(RULES.to_owned());
        }
        if parts.is_empty() || self.is_late() {
            return Ok(());
        }
        let mut command = self.command(DETECTION)?;
        command
            .args([CASE, "--exact", "--nocapture"])
            .env("JITOPT_DETECTION", parts.join(","))
            .env("JITOPT_FIND_ONLY", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        loop {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => note(&line, fates),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !self.is_late() => {}
                Err(_) => break,
            }
        }
        // It fails where something survives; the list of survivors decides about that.
        child.kill().ok();
        child.wait()?;
        Ok(())
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
fn note(line: &str, fates: &mut BTreeMap<String, Fate>) {
    let Some((name, rest)) = line.split_once(": ") else { return };
    let fate = match rest {
        "None" => Fate::Survived,
        _ if rest.starts_with("Some((") => Fate::ByValidation,
        _ => return,
    };
    if fates.contains_key(name) || name.ends_with(RULES) {
        println!("{name}: {}", if fate == Fate::Survived { "survives" } else { "found by validation" });
        fates.insert(name.to_owned(), fate);
    }
}

/// Prints a line for each source, and one for all.
fn report(sources: &[Source], fates: &BTreeMap<String, Fate>) {
    println!("\n{:>6} {:>6} {:>10} {:>8} {:>9}  file", "all", "tests", "validation", "survived", "not tried");
    let rules: Vec<String> = fates.keys().filter(|name| name.ends_with(RULES)).cloned().collect();
    let rules = Source { path: "passes/planted_rules.rs".to_owned(), tests: Vec::new(), names: rules };
    let line = |names: &[String], path: &str| {
        let count = |wanted: &dyn Fn(&Fate) -> bool| names.iter().filter(|name| wanted(&fates[*name])).count();
        let tests = count(&|fate| matches!(fate, Fate::ByTest(_)));
        let [validation, survived, rest] =
            [Fate::ByValidation, Fate::Survived, Fate::NotTried].map(|wanted| count(&|fate| *fate == wanted));
        println!("{:>6} {tests:>6} {validation:>10} {survived:>8} {rest:>9}  {path}", names.len());
    };
    for source in sources.iter().chain([&rules]).filter(|source| !source.names.is_empty()) {
        line(&source.names, &source.path);
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
    fn fates_are_read_and_judged() {
        let mut fates: BTreeMap<String, Fate> =
            ["a.b:c", "a.b:d"].iter().map(|name| ((*name).to_owned(), Fate::NotTried)).collect();
        for line in
            ["a.b:c: Some((3, \"seed 3\"", "a.b:c: bisected None", "a.b:d: None", "x-gone:planted: None", "x: y"]
        {
            note(line, &mut fates);
        }
        assert_eq!(fates["a.b:c"], Fate::ByValidation);
        assert_eq!(fates["a.b:d"], Fate::Survived);
        assert_eq!(fates.len(), 3);
        let known = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect::<Vec<_>>();
        assert!(verdict(&fates, &known(&["a.b:d", "x-gone:planted"])).is_ok());
        assert!(verdict(&fates, &known(&["a.b:d"])).is_err());
        assert!(verdict(&fates, &known(&["a.b:c", "a.b:d", "x-gone:planted"])).is_err());
    }
}
