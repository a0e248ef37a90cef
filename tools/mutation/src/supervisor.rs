//! Worker processes, each with a share of the cases, and the handling of crashed ones.

use crate::case::{Case, Sources};
use crate::worker::{HANGS, note};
use crate::{saved_case, worker::Tally};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limit on the address space of a worker, in kilobytes. It includes a stack of 1 GiB.
const MEMORY: u64 = 6 << 20;

/// A campaign.
pub struct Campaign {
    /// The program to run with `--worker`.
    pub program: PathBuf,
    /// The seed of all cases.
    pub seed: u64,
    /// The first case.
    pub first: u64,
    /// Maximum number of cases.
    pub count: u64,
    /// Maximum duration.
    pub time: Option<Duration>,
    /// Number of processes.
    pub jobs: u64,
    /// The folder in which failing cases are saved.
    pub failures: PathBuf,
    /// Seed files and directories.
    pub folders: Vec<PathBuf>,
    /// Whether mutants are those of archives.
    pub archives: bool,
    /// The directory of the workers' files.
    pub scratch: PathBuf,
}

impl Campaign {
    /// Number of cases per process: interned names and types of mutants accumulate in its memory.
    const SHARE: u64 = 5_000;

    /// Runs the campaign; reports progress on `out`.
    pub fn run(&self, sources: &Sources, out: &Mutex<impl Write + Send>) -> Tally {
        let until = self.time.and_then(|time| Instant::now().checked_add(time));
        let (next, total) = (AtomicU64::new(self.first), Mutex::new(Tally::default()));
        std::thread::scope(|scope| {
            for job in 0..self.jobs {
                let (next, total) = (&next, &total);
                scope.spawn(move || {
                    loop {
                        let first = next.fetch_add(Self::SHARE, Ordering::Relaxed);
                        let end = first.saturating_add(Self::SHARE).min(self.first.saturating_add(self.count));
                        if first >= end || until.is_some_and(|until| Instant::now() >= until) {
                            break;
                        }
                        self.share(job, first..end, until, sources, total, out);
                    }
                });
            }
        });
        total.into_inner().unwrap_or_default()
    }

    /// Runs a share of the cases; after one that ended its process, continues with the next.
    fn share(
        &self,
        job: u64,
        cases: std::ops::Range<u64>,
        until: Option<Instant>,
        sources: &Sources,
        total: &Mutex<Tally>,
        out: &Mutex<impl Write + Send>,
    ) {
        let folder = self.scratch.join(format!("worker-{}-{job}", std::process::id()));
        let mut first = cases.start;
        while first < cases.end {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64());
            if left == Some(0.0) {
                break;
            }
            let code = match self.worker(&folder, first, cases.end - first, left, total, out) {
                Ok(Some(0)) => break,
                Ok(code) => code,
                Err(error) => {
                    say(out, &format!("error: no worker can be started: {error}"));
                    break;
                }
            };
            let at = std::fs::read_to_string(note(&folder)).ok().and_then(|text| text.parse().ok()).unwrap_or(first);
            self.lost(at, code, sources, total, out);
            first = at + 1;
        }
        let _ = (std::fs::remove_dir_all(&folder), std::fs::remove_file(note(&folder)));
    }

    /// Saves a case that ended its process.
    fn lost(
        &self,
        at: u64,
        code: Option<i32>,
        sources: &Sources,
        total: &Mutex<Tally>,
        out: &Mutex<impl Write + Send>,
    ) {
        let why = match code {
            Some(HANGS) => "hangs".to_owned(),
            Some(code) => format!("ends its process with code {code}"),
            None => "kills its process: memory or stack".to_owned(),
        };
        let case = Case::make(sources, self.seed, at);
        let saved = saved_case::save(&self.failures, &case, &why);
        let place = saved.map_or_else(|error| format!("not saved: {error}"), |place| place.display().to_string());
        say(out, &format!("failure of case {at} (seed {}): {why}\n  {place}", self.seed));
        if let Ok(mut total) = total.lock() {
            *total.failures.entry(why).or_default() += 1;
            total.tried += 1;
        }
    }

    /// Runs one worker to completion.
    fn worker(
        &self,
        folder: &Path,
        first: u64,
        count: u64,
        left: Option<f64>,
        total: &Mutex<Tally>,
        out: &Mutex<impl Write + Send>,
    ) -> std::io::Result<Option<i32>> {
        let limited = format!("ulimit -v {MEMORY} 2>/dev/null; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(&self.program).args(["--worker", "--seed", &self.seed.to_string()]);
        command.args(["--first", &first.to_string(), "--count", &count.to_string()]);
        if self.archives {
            command.arg("--archives");
        }
        if let Some(left) = left {
            command.args(["--hours", &(left / 3600.0).to_string()]);
        }
        command.arg("--failures").arg(&self.failures).arg("--folder").arg(folder).args(&self.folders);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        for line in child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok)
        {
            match Tally::read(&line) {
                Some(tally) => total.lock().map(|mut total| total.add(tally)).unwrap_or_default(),
                None => say(out, &line),
            }
        }
        Ok(child.wait()?.code())
    }
}

fn say(out: &Mutex<impl Write>, line: &str) {
    if let Ok(mut out) = out.lock() {
        // Write errors are ignored.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

impl Tally {
    const MARK: &str = "tally: ";

    /// A line that `Tally::read` reads.
    pub fn line(&self) -> String {
        let codes: serde_json::Map<_, _> = self.codes.iter().map(|(code, n)| (code.to_string(), (*n).into())).collect();
        let counts = serde_json::json!({
            "tried": self.tried, "codes": codes, "refused": self.refused, "failures": self.failures,
            "stages": self.stages,
        });
        format!("{}{counts}", Self::MARK)
    }

    fn read(line: &str) -> Option<Tally> {
        let value: serde_json::Value = serde_json::from_str(line.strip_prefix(Self::MARK)?).ok()?;
        let counts = |value: &serde_json::Value| value.as_object().cloned().unwrap_or_default().into_iter();
        let number = |value: serde_json::Value| value.as_u64().unwrap_or_default();
        Some(Tally {
            tried: value["tried"].as_u64()?,
            refused: value["refused"].as_u64()?,
            codes: counts(&value["codes"]).filter_map(|(code, n)| Some((code.parse().ok()?, number(n)))).collect(),
            failures: counts(&value["failures"]).map(|(family, n)| (family, number(n))).collect(),
            stages: counts(&value["stages"]).map(|(stage, n)| (stage, number(n))).collect(),
        })
    }

    fn add(&mut self, other: Tally) {
        self.tried += other.tried;
        self.refused += other.refused;
        other.codes.into_iter().for_each(|(code, n)| *self.codes.entry(code).or_default() += n);
        other.stages.into_iter().for_each(|(stage, n)| *self.stages.entry(stage).or_default() += n);
        other.failures.into_iter().for_each(|(family, n)| *self.failures.entry(family).or_default() += n);
    }
}
