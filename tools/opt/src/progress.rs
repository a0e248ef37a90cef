//! One line of progress on a terminal, replaced in place.

use crate::World;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The shortest time between two lines: a terminal need not show more.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows how far long work is; shows nothing where standard error is no terminal.
pub(crate) struct Progress {
    shown: bool,
    last: Instant,
}

impl Progress {
    /// For work that a command line asked for; commands inside lit tests have a folder of their
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
