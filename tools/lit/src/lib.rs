//! Runs lit tests in this process: no shell, no child processes, all cores.
//!
//! A lit test is a file that says how to test itself. Its `RUN:` lines are commands, and the checks stand in the same
//! file:
//!
//! ```text
//! # RUN: jitopt %s --passes=dce | filecheck %s
//! # CHECK-NOT: aten::neg
//! ```
//!
//! - `RUN:` must succeed, `FAIL:` must not, `FAIL[3]:` must exit with 3. `XFAIL: reason` expects the whole test to fail.
//! - `%s` is the file, `%S` its directory, `%T` a directory of the test's own (also where its commands run), `%t` a path
//!   in it, `%%` a percent sign.
//! - `a | b`, `> f`, `>> f`, `2> f`, `2>&1`, `< f`, `NAME=value a`, `'…'`, `"…"`, and `\` at the end of a line work as in a
//!   shell. Anything else a shell would treat specially must be quoted, so that a line can be pasted into one.
//! - `not`, `cat`, `cp`, `diff`, `echo`, `printf`, `rm`, `test`, `filecheck` and `snapshot` are built in; the embedder
//!   brings the rest as [`Commands`].
//!
//! A test that tests nothing is worse than none. So a file without `RUN:` lines, a misspelt `RUN:`, a line whose output
//! nobody looks at, and directives whose prefix no `filecheck` reads are failures, not silence.

mod audit;
mod builtins;
mod checker;
mod command_line;
mod discovery;
mod execution;
mod line_diff;
mod snapshots;
mod summary;
mod test_file;

pub use checker::filecheck_command;
pub use discovery::{Test, discover};
pub use execution::{TestResult, run_one};
pub use summary::{Summary, run_all};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a command may touch besides the files it names. Relative paths are meant from `cwd`.
pub struct Io<'a> {
    /// All of the standard input.
    pub stdin: &'a [u8],
    /// Receives the standard output.
    pub stdout: &'a mut Vec<u8>,
    /// Receives the standard error.
    pub stderr: &'a mut Vec<u8>,
    /// The environment; nothing is inherited from the process unless [`Config::env`] says so.
    pub env: &'a BTreeMap<String, String>,
    /// The directory in which the command runs.
    pub cwd: &'a Path,
}

/// The commands under test.
pub trait Commands: Sync {
    /// Runs a command and returns its exit status, or `None` for a command it does not know.
    fn run(&self, argv: &[String], io: &mut Io<'_>) -> Option<i32>;

    /// The names of all commands, to check files before they run and to suggest the right one.
    fn known(&self) -> Vec<&'static str>;

    /// Whether the exit status alone is a check, as it is for a command that compares or validates.
    fn checks_itself(&self, _argv: &[String]) -> bool {
        false
    }
}

/// How to run tests.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rewrite snapshots with what the commands print instead of comparing.
    pub bless: bool,
    /// Threads; 0 for one per core.
    pub jobs: usize,
    /// Where tests get their directories.
    pub temp_dir: PathBuf,
    /// The environment every command sees.
    pub env: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Config {
        let temp_dir = std::env::temp_dir().join(format!("jitopt-lit-{}", std::process::id()));
        Config { bless: false, jobs: 0, temp_dir, env: BTreeMap::new() }
    }
}
