//! Runs many tests and summarises their results.

use crate::{Commands, Config, Test, TestResult, run_one};
use rayon::prelude::*;
use std::fmt;

/// The results of all tests, in the given order. `Display` renders the report.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Every test with its result.
    pub results: Vec<(Test, TestResult)>,
}

/// Commands under test recurse over types and literals deeper than default thread stacks allow;
/// untouched pages cost nothing.
const STACK: usize = 1 << 28;

/// Runs the tests in parallel; the report does not depend on which ends first. Calls `finished`
/// after each.
pub fn run_all(tests: &[Test], commands: &dyn Commands, config: &Config, finished: &(dyn Fn() + Sync)) -> Summary {
    let one = |test: &Test| {
        let result = run_one(test, commands, config);
        finished();
        (test.clone(), result)
    };
    let run = || tests.par_iter().map(one).collect();
    let results = match rayon::ThreadPoolBuilder::new().num_threads(config.jobs).stack_size(STACK).build() {
        Ok(pool) => pool.install(run),
        // If no thread pool can be created, the global one is used.
        Err(_) => run(),
    };
    // Directories of failed tests are kept; the common one is removed if it is empty.
    let _ = std::fs::remove_dir(&config.temp_dir);
    Summary { results }
}

impl Summary {
    /// Whether every test has the expected result.
    pub fn passed(&self) -> bool {
        self.results.iter().all(|(_, result)| result.is_ok())
    }

    /// Names of the tests whose snapshots were rewritten.
    pub fn blessed(&self) -> impl Iterator<Item = &str> {
        let blessed = self.results.iter().filter(|(_, result)| *result == TestResult::Pass { blessed: true });
        blessed.map(|(test, _)| test.name.as_str())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (test, result) in &self.results {
            match result {
                TestResult::Pass { blessed: false } => {}
                TestResult::Pass { blessed: true } => writeln!(f, "BLESSED {}", test.name)?,
                TestResult::Fail(report) => writeln!(f, "FAIL {}\n{report}", test.name)?,
                TestResult::XFail(reason) => writeln!(f, "XFAIL {}: {reason}", test.name)?,
                TestResult::XPass(reason) => {
                    writeln!(f, "XPASS {}: passes, but should fail: {reason}; remove its XFAIL line", test.name)?;
                }
            }
        }
        let passed = self.results.iter().filter(|(_, result)| result.is_ok()).count();
        writeln!(f, "{passed} passed, {} failed", self.results.len() - passed)
    }
}
