//! `jitopt-mutate`: runs mutation tests within given limits.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

use jitopt_mutation::archive_damage;
use jitopt_mutation::case::Sources;
use jitopt_mutation::in_process::processor_time;
use jitopt_mutation::pipeline_texts::Passes;
use jitopt_mutation::saved_case;
use jitopt_mutation::seeds::Seeds;
use jitopt_mutation::supervisor::Campaign;
use jitopt_mutation::worker::{Run, Tally};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const HELP: &str = "\
jitopt-mutate [--count N] [--hours H] [--jobs N] [--seed S] [--first N] [--failures DIR] [SEEDS...]
    Tries mutants of the files of `testdata`, and of SEEDS; the first of --count and --hours ends it.
    Exit code 1 when something failed; each kind of failure is saved once, as a folder with a lit file.
jitopt-mutate --archives [--count N] [--jobs N] [--seed S] [SEEDS...]
    The same with mutants of archives only; states the part of the file that each was made in.
jitopt-mutate --replay FOLDER...
    Runs saved mutants again.
";

/// The command line.
struct Options {
    seed: u64,
    first: u64,
    count: Option<u64>,
    hours: Option<f64>,
    jobs: u64,
    failures: PathBuf,
    /// For a worker: the directory of its cases.
    folder: Option<PathBuf>,
    is_worker: bool,
    replays: bool,
    archives: bool,
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprint!("{message}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    // A large stack, as in the tool itself: nesting is recursive.
    let code = jitopt_driver::with_room(move || options.run());
    ExitCode::from(code.unwrap_or(1) as u8)
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            seed: 1,
            first: 0,
            count: None,
            hours: None,
            jobs: 1,
            failures: PathBuf::from("target/mutants"),
            folder: None,
            is_worker: false,
            replays: false,
            archives: false,
            paths: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seed" => options.seed = value(&word, words.next())?,
                "--first" => options.first = value(&word, words.next())?,
                "--count" => options.count = Some(value(&word, words.next())?),
                "--hours" => options.hours = Some(value(&word, words.next())?),
                "--jobs" => options.jobs = value(&word, words.next())?,
                "--failures" => options.failures = value(&word, words.next())?,
                "--folder" => options.folder = Some(value(&word, words.next())?),
                "--worker" => options.is_worker = true,
                "--archives" => options.archives = true,
                "--replay" => options.replays = true,
                _ if word.starts_with('-') => return Err(format!("error: unknown flag `{word}`")),
                _ => options.paths.push(PathBuf::from(word)),
            }
        }
        Ok(options)
    }

    fn run(self) -> i32 {
        if self.replays {
            return self.replay();
        }
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
        let folders: Vec<PathBuf> = [testdata].into_iter().chain(self.paths.clone()).collect();
        let seeds = Seeds::find(&folders);
        let archives = if self.archives { archive_damage::seeds(&seeds) } else { Vec::new() };
        let sources = Sources { seeds, passes: Passes::listed(), archives };
        if self.is_worker { self.work(&sources) } else { self.supervise(&sources) }
    }

    fn time(&self) -> Option<Duration> {
        self.hours.and_then(|hours| Duration::try_from_secs_f64(hours * 3600.0).ok())
    }

    fn work(&self, sources: &Sources) -> i32 {
        let run = Run {
            sources,
            seed: self.seed,
            first: self.first,
            count: self.count.unwrap_or(1),
            until: self.time().and_then(|time| Instant::now().checked_add(time)),
            failures: &self.failures,
            folder: self.folder.clone().unwrap_or_else(|| std::env::temp_dir().join("jitopt-mutant")),
            shrinks: true,
        };
        let tally = run.try_all(&mut std::io::stdout());
        println!("{}", tally.line());
        0
    }

    fn supervise(&self, sources: &Sources) -> i32 {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("jitopt-mutate"));
        let count = self.count.unwrap_or(if self.hours.is_some() { u64::MAX } else { 20_000 });
        let campaign = Campaign {
            program,
            seed: self.seed,
            first: self.first,
            count,
            time: self.time(),
            jobs: self.jobs.max(1),
            failures: self.failures.clone(),
            folders: self.paths.clone(),
            archives: self.archives,
            scratch: scratch(),
        };
        let (seeds, start) = (&sources.seeds, Instant::now());
        println!(
            "seed {}: {} archives, {} graphs, {} commands, {} descriptions, {} files of tensors, {} profiles, {} logs",
            self.seed,
            seeds.archives.len(),
            seeds.graphs.len(),
            seeds.commands.len(),
            seeds.documents.len(),
            seeds.tensors.len(),
            seeds.profiles.len(),
            seeds.logs.len()
        );
        let tally = campaign.run(sources, &Mutex::new(std::io::stdout()));
        summary(&tally, start.elapsed());
        i32::from(!tally.failures.is_empty())
    }

    /// Runs saved cases; returns 1 if one still fails.
    fn replay(&self) -> i32 {
        let folder = scratch().join(format!("replay-{}", std::process::id()));
        let _ = std::fs::create_dir_all(&folder);
        let mut failed = 0;
        for place in &self.paths {
            let (before, case) = (processor_time(), saved_case::load(place));
            let outcome = match case.map(|case| case.run(&folder)) {
                Ok(ended) => {
                    let verdict = ended.failure();
                    failed |= i32::from(verdict.is_some());
                    let said: String = ended.said.chars().take(1000).collect();
                    verdict.unwrap_or_else(|| format!("well, with {:?}\n{said}", ended.code))
                }
                Err(error) => format!("cannot be read: {error}"),
            };
            println!("{} ({:.2} s): {outcome}", place.display(), (processor_time() - before).as_secs_f64());
        }
        let _ = std::fs::remove_dir_all(&folder);
        failed
    }
}

/// A file system in memory if there is one, else the temporary directory.
fn scratch() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

fn value<T: FromStr>(flag: &str, word: Option<String>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("error: {flag} needs a value"))?;
    word.parse().map_err(|_| format!("error: invalid value `{word}` for {flag}"))
}

fn summary(tally: &Tally, time: Duration) {
    let codes: Vec<String> = tally.codes.iter().map(|(code, n)| format!("{n} with {code}")).collect();
    println!("{} mutants in {:.0} s: {}", tally.tried, time.as_secs_f64(), codes.join(", "));
    for (stage, n) in &tally.stages {
        println!("  {n} in {stage}, {:.1} %", *n as f64 * 100.0 / tally.tried.max(1) as f64);
    }
    println!("  {} graphs refused by a pass for what the verifier warns of", tally.refused);
    for (family, n) in &tally.failures {
        println!("  {n} times {family}");
    }
}
