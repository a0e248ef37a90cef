//! `cargo xtask test`: all tests of the workspace, with the total at the end.
//!
//! `cargo test` runs one program after the other and reports the figures of each; the lit suite
//! counts files.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The results of test programs.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    programs: u64,
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Adds `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        let count = |what: &str| {
            let at = words.iter().position(|word| *word == what)?;
            words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
        };
        self.programs += 1;
        self.passed += count("passed").unwrap_or(0);
        self.failed += count("failed").unwrap_or(0);
    }
}

/// Runs `cargo test --workspace` with further arguments; ends with the number of tests that passed.
pub fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let begin = Instant::now();
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace"]).args(arguments).current_dir(root).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().context("cargo has no output")?;
    let (mut tally, mut stdout) = (Tally::default(), std::io::stdout());
    for line in BufReader::new(output).lines() {
        let line = line?;
        tally.add(&line);
        writeln!(stdout, "{line}")?;
    }
    let status = child.wait()?;
    let Tally { programs, passed, failed } = tally;
    let seconds = begin.elapsed().as_secs();
    writeln!(stdout, "\n{passed} tests passed, {failed} failed, in {programs} programs and {seconds} s")?;
    if status.success() { Ok(()) } else { bail!("cargo test: {status}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_all_programs() {
        let mut tally = Tally::default();
        tally.add("running 3 tests");
        tally.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        tally.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(tally, Tally { programs: 2, passed: 14, failed: 3 });
    }
}
