//! Runs lit tests in this process: no shell, no child processes, all cores.
//!
//! A lit test is a file that contains its own commands and checks: its `RUN:` lines are commands,
//! and the checks are in the same file:
//!
//! ```text
//! # RUN: jitopt %s --passes=dce | filecheck %s
//! # CHECK-NOT: aten::neg
//! ```
//!
//! - `RUN:` must succeed, `FAIL:` must fail, `FAIL[3]:` must exit with 3. `XFAIL: reason` expects
//!   the whole test to fail.
//! - `%s` is the file, `%S` its directory, `%T` a directory of the test (the working directory of
//!   its commands), `%t` a path in it, `%%` a percent sign.
//! - `a | b`, `> f`, `>> f`, `2> f`, `2>&1`, `< f`, `NAME=value a`, `'…'`, `"…"`, and `\` at the
//!   end of a line work as in a shell. Other characters special to a shell must be quoted, so that
//!   a line can be pasted into one.
//! - `not`, `cat`, `cp`, `diff`, `echo`, `printf`, `rm`, `test`, `filecheck` and `snapshot` are
//!   built in; the embedder provides the rest as [`Commands`].
//!
//! A test that checks nothing is worse than none. So a file without `RUN:` lines, a misspelt
//! `RUN:`, a line with unchecked output, and directives whose prefix no `filecheck` reads are
//! errors.

mod builtins;
mod checker;
mod command_line;
mod discovery;
mod execution;
mod line_diff;
mod script_audit;
mod snapshots;
mod summary;
mod test_file;

pub use checker::filecheck_command;
pub use discovery::{Test, discover};
pub use execution::{TestResult, run_one};
pub use summary::{Summary, run_all};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The streams and environment of a command. Relative paths are resolved against `cwd`.
pub struct Io<'a> {
    /// The complete standard input.
    pub stdin: &'a [u8],
    /// Receives the standard output.
    pub stdout: &'a mut Vec<u8>,
    /// Receives the standard error.
    pub stderr: &'a mut Vec<u8>,
    /// The environment; nothing is inherited from the process unless [`Config::env`] contains it.
    pub env: &'a BTreeMap<String, String>,
    /// The working directory of the command.
    pub cwd: &'a Path,
}

/// The commands under test.
pub trait Commands: Sync {
    /// Runs a command and returns its exit status, or `None` for an unknown command.
    fn run(&self, argv: &[String], io: &mut Io<'_>) -> Option<i32>;

    /// The names of all commands, for static checks and suggestions.
    fn known(&self) -> Vec<&'static str>;

    /// Whether the exit status alone is a check, as for a command that compares or validates.
    fn checks_itself(&self, _argv: &[String]) -> bool {
        false
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Update snapshots with the printed output instead of comparing.
    pub bless: bool,
    /// Threads; 0 for one per core.
    pub jobs: usize,
    /// The parent of the tests' directories.
    pub temp_dir: PathBuf,
    /// The environment of every command.
    pub env: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Config {
        let temp_dir = std::env::temp_dir().join(format!("jitopt-lit-{}", std::process::id()));
        Config { bless: false, jobs: 0, temp_dir, env: BTreeMap::new() }
    }
}
