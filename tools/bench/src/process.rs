//! Runs a process to completion and measures its resource usage.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wait4::{ResUse, Wait4};

/// The resource usage of one process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// From just before the start to just after the exit, in seconds.
    pub wall_s: f64,
    /// Peak resident set, in bytes.
    pub peak_rss: u64,
}

/// The reason why a process has no [`Usage`].
#[derive(Clone, Debug)]
pub enum Failure {
    /// It ran past the limit and was killed.
    TimedOut(Duration),
    /// It could not be started or did not exit with 0; the text has details.
    Failed(String),
}

/// Runs `command`, with its standard output in `stdout` and its standard error in a file of
/// `scratch`.
pub fn measure(command: &mut Command, stdout: Stdio, scratch: &Path, limit: Duration) -> Result<Usage, Failure> {
    let errors = scratch.join("stderr.txt");
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    let stderr = File::create(&errors).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let start = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let (done, watchdog) = watch(child.id(), limit);
    let used = child.wait4().map_err(failed)?;
    let wall_s = start.elapsed().as_secs_f64();
    drop(done);
    if watchdog.join().unwrap_or(false) {
        return Err(Failure::TimedOut(limit));
    }
    if !used.status.success() {
        return Err(Failure::Failed(format!("{}: {}", used.status, first_line(&errors))));
    }
    Ok(usage(&used, wall_s))
}

/// The usage of a finished process.
fn usage(used: &ResUse, wall_s: f64) -> Usage {
    let cpu = used.rusage.utime + used.rusage.stime;
    Usage { cpu_s: cpu.as_secs_f64(), wall_s, peak_rss: used.rusage.maxrss }
}

/// Kills process `id` after `limit` unless the sender is dropped before; the thread returns whether
/// it did.
fn watch(id: u32, limit: Duration) -> (mpsc::Sender<()>, thread::JoinHandle<bool>) {
    let (sender, receiver) = mpsc::channel();
    let handle = thread::spawn(move || {
        let late = receiver.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if late {
            // A child cannot be waited for and killed through one handle, hence the `kill` tool.
            // Where it is missing, the child runs to completion.
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        }
        late
    });
    (sender, handle)
}

/// The first line of a file, or as much as its first kilobyte holds.
fn first_line(path: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(1024).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("no message").to_owned()
}
