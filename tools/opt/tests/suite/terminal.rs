//! Long work shows how far it is on a terminal, and nowhere else.

#![allow(clippy::print_stdout, reason = "a test says that it was skipped")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WORK: &str = "validate tools/opt/samples/lstm_cell.ir --passes=@default --samples=2000";

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `jitopt` prints on a terminal, which `script` of util-linux makes; nothing where that is
/// not installed.
fn on_a_terminal(work: &str) -> Option<String> {
    let line = format!("{} {work}", env!("CARGO_BIN_EXE_jitopt"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(root()).stdin(Stdio::null());
    let output = script.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn validation_shows_samples_on_a_terminal_only() {
    let mut piped = Command::new(env!("CARGO_BIN_EXE_jitopt"));
    let piped = piped.args(WORK.split(' ')).current_dir(root()).output().expect("it runs");
    let (verdict, notes) = (String::from_utf8_lossy(&piped.stdout), String::from_utf8_lossy(&piped.stderr));
    assert!(!verdict.contains(" runs") && !notes.contains(" runs"), "{verdict}{notes}");
    let Some(shown) = on_a_terminal(WORK) else {
        println!("skipped: `script` is not installed");
        return;
    };
    assert!(shown.contains("inputs are generated\r") && shown.contains(" runs\r"), "{shown:?}");
    // Each line as it stays on the terminal: what follows the last return to its begin.
    let shown = shown.replace("\r\n", "\n");
    let lines = shown.split('\n').map(|line| line.rsplit('\r').next().unwrap_or_default().replace("\u{1b}[K", ""));
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), verdict);
}
