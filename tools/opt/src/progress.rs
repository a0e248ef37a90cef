//! One line of progress on a terminal, replaced in place.

use crate::World;
use jitopt_judge::rewrites::samples_run;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The shortest time between two lines: a terminal need not show more.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows how far long work is; shows nothing where standard error is no terminal.
pub(crate) struct Progress {
    shown: bool,
    last: Instant,
}

impl Progress {
    /// For work that a command line requested; commands inside lit tests have a folder of their
    /// own.
    pub(crate) fn new(world: &World<'_>) -> Self {
        Progress { shown: std::io::stderr().is_terminal() && world.cwd.as_os_str().is_empty(), last: Instant::now() }
    }

    /// Shows a line, unless one was shown just now.
    pub(crate) fn show(&mut self, line: impl FnOnce() -> String) {
        if self.shown && self.last.elapsed() >= PAUSE {
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line());
            self.last = Instant::now();
        }
    }

    /// Clears the line, before anything else is printed.
    pub(crate) fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Does work, and meanwhile shows how many runs of samples are done. The line ends where it began,
/// so that a message that comes in between replaces it.
pub(crate) fn during<T>(world: &mut World<'_>, work: impl FnOnce(&mut World<'_>) -> T) -> T {
    if !Progress::new(world).shown {
        return work(world);
    }
    let (done, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let start = samples_run();
            // The channel is closed when the work ends, by a panic as well.
            while waits.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let line = match samples_run() - start {
                    0 => "inputs are generated".to_owned(),
                    runs => format!("{runs} runs"),
                };
                let _ = write!(std::io::stderr(), "\x1b[K{line}\r");
            }
            let _ = write!(std::io::stderr(), "\x1b[K");
        });
        let result = work(world);
        drop(done);
        result
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
