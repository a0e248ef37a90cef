//! Tries a run of cases in this process.

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

/// What a worker ends with when it gave up on a case that hangs.
pub const HANGS: i32 = 124;
/// A case that takes so much longer than a slow one is not waited for.
const PATIENCE: u32 = 2;

/// Cases `first..first + count` of a campaign.
pub struct Run<'a> {
    /// What cases are made from.
    pub sources: &'a Sources,
    /// The seed.
    pub seed: u64,
    /// The first case.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// When to stop all the same.
    pub until: Option<Instant>,
    /// Where failing cases are saved.
    pub failures: &'a Path,
    /// A folder that cases run in; a file beside it names the case at work.
    pub folder: PathBuf,
    /// Whether failing cases are made smaller.
    pub shrinks: bool,
}

/// What came of a run.
#[derive(Default)]
pub struct Tally {
    /// How many cases were tried.
    pub tried: u64,
    /// How many commands ended with each code.
    pub codes: BTreeMap<i32, u64>,
    /// Graphs that a pass gave up on, and that were refused for what the verifier warns of.
    pub refused: u64,
    /// Failures by family, how often each came up.
    pub failures: BTreeMap<String, u64>,
}

/// The file that names the case at work.
pub fn note(folder: &Path) -> PathBuf {
    folder.with_extension("case")
}

impl Run<'_> {
    /// Tries all, saves one case for each kind of failure, and says so on `out`.
    pub fn try_all(&self, out: &mut dyn Write) -> Tally {
        // A place that cannot be written to shows as cases without files.
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
        case.run(&self.folder)
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

    /// The case with less in its files, still failing in the same way.
    fn smaller(&self, case: &Case, failure: &str, since: &Mutex<Duration>) -> Case {
        /// More tries make hardly anything smaller.
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

/// Counts cases, so that the watch knows one from the next.
static BEATS: AtomicU64 = AtomicU64::new(0);

/// Ends the process when one case takes far too much processor time, or does nothing for minutes.
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
