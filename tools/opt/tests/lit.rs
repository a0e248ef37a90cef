//! Every lit file under `testdata` is one case: `cargo test --test lit cse` runs those with `cse` in their path.

use jitopt_driver::ToolCommands;
use jitopt_lit::{Config, discover, run_one};
use libtest_mimic::{Arguments, Trial};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let tests = match discover(&root, None) {
        Ok(tests) => tests,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::FAILURE;
        }
    };
    let case = |test: jitopt_lit::Test| {
        let name = test.name.clone();
        Trial::test(name, move || {
            let result = run_one(&test, &ToolCommands, &Config::default());
            if result.passed() { Ok(()) } else { Err(result.to_string().into()) }
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(case).collect()).exit_code()
}
