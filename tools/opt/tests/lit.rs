//! Every lit file under `testdata` is one case: `cargo test --test lit cse` runs those with `cse`
//! in their path.

#![allow(clippy::print_stderr, reason = "a test runner talks to its user")]

use jitopt_driver::ToolCommands;
use jitopt_lit::{Config, Test, TestResult, discover, run_one};
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    match discover(&root, None) {
        Ok(tests) => libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code(),
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn trial(test: Test) -> Trial {
    Trial::test(test.name.clone(), move || run(&test))
}

fn run(test: &Test) -> Result<(), Failed> {
    match run_one(test, &ToolCommands, &Config::default()) {
        TestResult::Pass { .. } | TestResult::XFail(_) => Ok(()),
        TestResult::Fail(report) => Err(report.into()),
        TestResult::XPass(reason) => Err(format!("it passes, and should not: {reason}").into()),
    }
}
