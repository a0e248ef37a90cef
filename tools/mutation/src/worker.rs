//! Runs a range of cases in this process.

use crate::case::{Case, Sources};
use crate::in_process::{Ended, SLOW, family, processor_time};
use crate::saved_case;
use crate::shrinking::shrink;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Exit code after giving up on a case that hangs.
pub const HANGS: i32 = 124;
/// Factor by which a case may exceed the limit of a slow one before it is abandoned.
const PATIENCE: u32 = 2;

/// Cases `first..first + count` of a campaign.
pub struct Run<'a> {
    /// The sources of cases.
    pub sources: &'a Sources,
    /// The seed.
    pub seed: u64,
    /// The first case.
    pub first: u64,
    /// The number of cases.
    pub count: u64,
    /// When to stop regardless.
    pub until: Option<Instant>,
    /// The folder in which failing cases are saved.
    pub failures: &'a Path,
    /// The directory of cases; a file next to it names the current case.
    pub folder: PathBuf,
    /// Whether failing cases are shrunk.
    pub shrinks: bool,
}

/// The result of a run.
#[derive(Default)]
pub struct Tally {
    /// Number of cases tried.
    pub tried: u64,
    /// Number of commands per exit code.
    pub codes: BTreeMap<i32, u64>,
    /// Number of graphs that a pass refused because of a verifier warning.
    pub refused: u64,
    /// Number of mutants of archives per part of the file.
    pub stages: BTreeMap<String, u64>,
    /// Failures by family, with their frequency.
    pub failures: BTreeMap<String, u64>,
}

/// The file that names the current case.
pub fn note(folder: &Path) -> PathBuf {
    folder.with_extension("case")
}

impl Run<'_> {
    /// Runs all cases, saves one per kind of failure, and reports it on `out`.
    pub fn try_all(&self, out: &mut dyn Write) -> Tally {
        // A directory that cannot be written shows as cases without files.
        let _ = std::fs::create_dir_all(&self.folder);
        let (mut tally, since) = (Tally::default(), Arc::new(Mutex::new(Duration::ZERO)));
        watch(since.clone());
        for index in self.first..self.first + self.count {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            let case = Case::make(self.sources, self.seed, index);
            let _ = std::fs::write(note(&self.folder), index.to_string());
            let ended = self.attempt(&case, &since);
            tally.tried += 1;
            *tally.codes.entry(ended.code.unwrap_or(-1)).or_default() += 1;
            tally.refused += u64::from(ended.said.contains("cannot run over this graph"));
            if !case.stage.is_empty() {
                *tally.stages.entry(case.stage.to_owned()).or_default() += 1;
            }
            let Some(failure) = ended.failure() else { continue };
            let times = tally.failures.entry(family(&failure)).or_default();
            *times += 1;
            if *times == 1 {
                self.report(index, &case, &failure, &since, out);
            }
        }
        tally
    }

    fn attempt(&self, case: &Case, since: &Mutex<Duration>) -> Ended {
        if let Ok(mut since) = since.lock() {
            *since = processor_time();
        }
        BEATS.fetch_add(1, Ordering::Relaxed);
        let before = if case.stage.is_empty() { None } else { resident_again() };
        let mut ended = case.run(&self.folder);
        ended.overspent = before.and_then(|before| overspent(case, &ended, before));
        ended
    }

    fn report(&self, index: u64, case: &Case, failure: &str, since: &Mutex<Duration>, out: &mut dyn Write) {
        let small = if self.shrinks && !failure.starts_with("slow") {
            self.smaller(case, failure, since)
        } else {
            case.clone()
        };
        let saved = saved_case::save(self.failures, &small, failure);
        let place = saved.map_or_else(|error| format!("not saved: {error}"), |place| place.display().to_string());
        let _ = writeln!(out, "failure of case {index} (seed {}): {failure}\n  {place}", self.seed);
        let _ = out.flush();
    }

    /// Shrinks the files of a case while it fails in the same way.
    fn smaller(&self, case: &Case, failure: &str, since: &Mutex<Duration>) -> Case {
        /// More tries rarely shrink a case further.
        const TRIES: usize = 400;
        let (mut best, wanted, mut tries) = (case.clone(), family(failure), 0);
        for name in case.files.keys() {
            let with = |bytes: &[u8]| {
                let mut smaller = best.clone();
                smaller.files.insert(name.clone(), bytes.to_vec());
                smaller
            };
            let bytes = shrink(&case.files[name], |bytes| {
                tries += 1;
                let failure = if tries < TRIES { self.attempt(&with(bytes), since).failure() } else { None };
                failure.is_some_and(|failure| family(&failure) == wanted)
            });
            best = with(&bytes);
        }
        best
    }
}

/// What reading an archive took more than it may: two seconds, 64 MiB and four times the file.
/// Commands that inline may take what half a million nodes do, a run has budgets of its own.
fn overspent(case: &Case, ended: &Ended, before: u64) -> Option<String> {
    /// Code without optimisation takes longer.
    const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });
    if case.argv.get(1).is_some_and(|word| word == "run") {
        return None;
    }
    /// The budget of `inline`, 524,288 nodes, in kilobytes.
    const INLINED: u64 = 384 << 10;
    let inlines = case.argv.iter().any(|word| ["audit", "--inline", "--freeze"].contains(&word.as_str()));
    let (time, memory) = if inlines { (LIMIT * 3, INLINED) } else { (LIMIT, 0) };
    let size: u64 = case.files.values().map(|bytes| bytes.len() as u64).sum();
    let grown = status("VmHWM:").unwrap_or(before).saturating_sub(before);
    if ended.time > time {
        return Some(format!("slow: {:.1} s to read an archive", ended.time.as_secs_f64()));
    }
    (grown > memory + (64 << 10) + 4 * size / 1024)
        .then(|| format!("memory: {grown} kB to read an archive of {size} bytes"))
}

/// The resident memory in kilobytes, which its peak is set to; nothing where that is not known.
fn resident_again() -> Option<u64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

/// A number of kilobytes in `/proc/self/status`.
fn status(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Counts cases, so that the watchdog can distinguish them.
static BEATS: AtomicU64 = AtomicU64::new(0);

/// Ends the process if a case uses far too much processor time, or is idle for minutes.
fn watch(since: Arc<Mutex<Duration>>) {
    /// Longer than any load of the machine explains.
    const IDLE: Duration = Duration::from_secs(300);
    std::thread::spawn(move || {
        let (mut beat, mut begun) = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = BEATS.load(Ordering::Relaxed);
            if now != beat {
                (beat, begun) = (now, Instant::now());
            }
            let start = since.lock().map_or(Duration::ZERO, |since| *since);
            let used = processor_time().saturating_sub(start);
            if beat > 0 && (used > SLOW * PATIENCE && begun.elapsed() > SLOW || begun.elapsed() > IDLE) {
                std::process::exit(HANGS);
            }
        }
    });
}
