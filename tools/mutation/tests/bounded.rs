//! 20,000 mutants over all subcommands, in processes with limits: none panics, hangs, or exhausts
//! memory.
//!
//! `JITOPT_MUTANTS=N` changes the number of mutants, `JITOPT_MUTANTS_SEED=S` the seed.

use std::path::Path;
use std::process::Command;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_owned())
}

#[test]
fn no_mutant_breaks_the_tool() {
    let failures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let tried = Command::new(env!("CARGO_BIN_EXE_jitopt-mutate"))
        .args(["--count", &setting("JITOPT_MUTANTS", "20000"), "--seed", &setting("JITOPT_MUTANTS_SEED", "1")])
        .args(["--jobs", &jobs.to_string(), "--failures"])
        .arg(&failures)
        .output()
        .expect("the program was built with this test");
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success(), "{said}\nfailing mutants are in {}", failures.display());
    assert!(said.contains(" mutants in ") && said.contains(" with 0"), "{said}");
}
