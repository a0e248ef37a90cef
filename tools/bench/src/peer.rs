//! A Python process that runs models in PyTorch or another program on command, so that measurements
//! alternate.

use anyhow::{Context, Result};
use clap::ValueEnum;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The folder of the scripts.
pub const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pytorch");

/// How another program runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// PyTorch, as a module.
    Eager,
    /// PyTorch, as a frozen archive.
    Frozen,
    /// `torch.compile`.
    Compile,
    /// ONNX Runtime.
    Onnxruntime,
    /// OpenVINO.
    Openvino,
    /// XLA.
    Xla,
}

impl Way {
    /// Its name in tables, and for the script.
    pub fn name(self) -> &'static str {
        match self {
            Way::Eager => "eager",
            Way::Frozen => "frozen",
            Way::Compile => "compile",
            Way::Onnxruntime => "onnxruntime",
            Way::Openvino => "openvino",
            Way::Xla => "xla",
        }
    }

    /// Whether it is PyTorch itself.
    pub fn is_pytorch(self) -> bool {
        matches!(self, Way::Eager | Way::Frozen | Way::Compile)
    }
}

/// The process. It prints its version first, then answers each line with a number of seconds.
pub struct Peer {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The version of the program.
    pub version: String,
}

impl Peer {
    /// Starts a program; `None` if it is not installed, or cannot run what it is to run.
    pub fn start(python: &Path, program: &str, arguments: &[&str]) -> Option<Peer> {
        let mut child = Command::new(python)
            .args(["-c", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (commands, mut answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut version = String::new();
        answers.read_line(&mut version).ok().filter(|n| *n > 0)?;
        Some(Peer { child, commands, answers, version: version.trim().to_owned() })
    }

    /// Sends a command; returns the answer in seconds.
    pub fn time(&mut self, command: &str) -> Result<f64> {
        writeln!(self.commands, "{command}")?;
        self.commands.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.trim().parse().with_context(|| format!("unexpected output of the program: {line:?}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
