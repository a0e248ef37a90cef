//! Runs the tool in this process and classifies the result.

use jitopt_driver::World;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// A slower command is a failure: every expensive part has a budget. That of a run, ten million
/// nodes, is spent in ten seconds on a slow machine.
pub const SLOW: Duration = Duration::from_secs(30);

/// The result of a command.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Its exit code; `None` after an uncaught panic.
    pub code: Option<i32>,
    /// Its error output.
    pub said: String,
    /// Processor time.
    pub time: Duration,
    /// What it took more than it may.
    pub overspent: Option<String>,
}

/// Runs a command; `argv[0]` is the name of the tool.
pub fn run(argv: &[String], stdin: &[u8], folder: &Path) -> Ended {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (start, wall) = (processor_time(), Instant::now());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World {
            stdin: Box::new(stdin),
            stdout: &mut stdout,
            stderr: &mut stderr,
            env: BTreeMap::new(),
            cwd: folder.to_owned(),
            colour: false,
            chosen: jitopt_driver::Choice::default(),
            failed_write: None,
        };
        jitopt_driver::run(argv, &mut world)
    }));
    let time = wall.elapsed().min(processor_time().saturating_sub(start));
    let mut said = String::from_utf8_lossy(&stderr).into_owned();
    let code = outcome.map_err(|payload| said += &format!("\npanicked outside all guards: {}", text(&*payload))).ok();
    Ended { code, said, time, overspent: None }
}

/// The output of a command without files.
pub fn output(words: &[&str]) -> Vec<u8> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut world = World {
        stdin: Box::new(std::io::empty()),
        stdout: &mut stdout,
        stderr: &mut stderr,
        env: BTreeMap::new(),
        cwd: std::path::PathBuf::new(),
        colour: false,
        chosen: jitopt_driver::Choice::default(),
        failed_write: None,
    };
    let argv: Vec<String> = ["jitopt"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    jitopt_driver::run(&argv, &mut world);
    drop(world);
    stdout
}

fn text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

impl Ended {
    /// The failure, if any: a panic, an undocumented exit code, or too much time. Failures with
    /// equal text are of one kind.
    pub fn failure(&self) -> Option<String> {
        match self.code {
            Some(0..=6) if self.time > SLOW => {
                Some(format!("slow: {:.1} s of processor time", self.time.as_secs_f64()))
            }
            Some(0..=6) => self.overspent.clone(),
            Some(code) => Some(format!("exit code {code}: {}", self.site())),
            None => Some(self.site()),
        }
    }

    /// The location of a failure, as far as the message contains it.
    fn site(&self) -> String {
        let at = self.said.find("panicked").unwrap_or_default();
        let broken = self.said.find("the graph is broken after").unwrap_or(at);
        let lines: Vec<&str> = self.said[at.max(broken)..].lines().take(3).collect();
        lines.join(" | ").chars().take(300).collect()
    }
}

/// A common name for all failures with this text.
pub fn family(failure: &str) -> String {
    // A panic is identified by the file and line in its message.
    if let Some((_, place)) = failure.split_once("panicked at ") {
        return place.split(": ").next().unwrap_or(place).trim_end_matches(" |").trim_end_matches(':').to_owned();
    }
    failure.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(60).collect()
}

/// The processor time of this process, with the resolution of kernel ticks.
pub fn processor_time() -> Duration {
    /// Ticks of `/proc/self/stat`, the same on every Linux.
    const TICKS: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = behind_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    match ticks {
        // Other systems use wall time instead.
        0 => since_start(),
        ticks => Duration::from_millis(ticks * 1000 / TICKS),
    }
}

fn since_start() -> Duration {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_distinguished_by_their_place() {
        let a = family("exit code 70: panicked at src/ir/usage.rs:31:9: | operand 2 of 1");
        assert_eq!(a, family("exit code 70: panicked at src/ir/usage.rs:31:9: | operand 0 of 0"));
        assert_ne!(a, family("exit code 70: panicked at src/ir/usage.rs:32:9: | operand 2 of 1"));
    }

    #[test]
    fn outcomes_hold_the_error_output() {
        let argv = ["jitopt".to_owned(), "--no-such-flag".to_owned()];
        let ended = run(&argv, b"", Path::new(""));
        assert_eq!((ended.code, ended.failure()), (Some(2), None), "{}", ended.said);
        let broken =
            Ended { code: Some(70), said: "error: a bug in jitopt: panicked at a.rs:1:2:\nx".to_owned(), ..ended };
        assert_eq!(broken.failure().map(|why| family(&why)), Some("a.rs:1:2".to_owned()));
    }
}
