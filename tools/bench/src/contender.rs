//! The programs under test: how each is found, run and identified.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::dialect::Dialect;
use crate::process::{self, Failure, Usage};

/// The script that `torch` runs.
const TORCH_SCRIPT: &str = include_str!("../../pytorch/bench_toolkit.py");

/// A program under test with one set of arguments.
pub struct Contender {
    /// The name in reports.
    pub name: &'static str,
    /// Its reported version.
    pub version: String,
    /// The dialect that it reads.
    pub dialect: Dialect,
    program: PathBuf,
    before_file: Vec<String>,
    after_file: Vec<String>,
    /// Whether it measures itself without its startup, and reports the result as a line of JSON on
    /// standard output.
    pub excludes_startup: bool,
}

impl Contender {
    /// Runs it on `file`, without its startup if it can exclude that.
    pub fn run(&self, file: &Path, scratch: &Path, limit: Duration) -> Result<Usage, Failure> {
        let mut command = Command::new(&self.program);
        command.args(&self.before_file).arg(file).args(&self.after_file);
        if !self.excludes_startup {
            return process::measure(&mut command, Stdio::null(), scratch, limit);
        }
        let report = scratch.join("report.json");
        let stdout = fs::File::create(&report).map_err(|e| Failure::Failed(e.to_string()))?;
        let usage = process::measure(&mut command, stdout.into(), scratch, limit)?;
        without_startup(usage, &report).ok_or_else(|| Failure::Failed("no report on standard output".to_owned()))
    }

    /// Runs it on `file`, startup included.
    pub fn run_whole(&self, file: &Path, scratch: &Path, limit: Duration) -> Result<Usage, Failure> {
        let mut command = Command::new(&self.program);
        command.args(&self.before_file).arg(file).args(&self.after_file);
        process::measure(&mut command, Stdio::null(), scratch, limit)
    }

    /// The command line, for the report.
    pub fn command_line(&self) -> String {
        let program = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut words = vec![program];
        words.extend(self.before_file.iter().map(|a| shorten(a)));
        words.push("FILE".to_owned());
        words.extend(self.after_file.iter().map(|a| shorten(a)));
        words.join(" ")
    }

    fn new(name: &'static str, program: PathBuf, version: String, dialect: Dialect, before: &[&str]) -> Self {
        Contender {
            name,
            version,
            dialect,
            program,
            before_file: before.iter().map(|&s| s.to_owned()).collect(),
            after_file: vec!["-o".to_owned(), "/dev/null".to_owned()],
            excludes_startup: false,
        }
    }
}

/// The file name of a path, anything else as it is.
fn shorten(argument: &str) -> String {
    match Path::new(argument).file_name() {
        Some(name) if argument.ends_with(".py") => name.to_string_lossy().into_owned(),
        _ => argument.to_owned(),
    }
}

/// The usage that the report in `path` contains; the memory use at startup is subtracted.
fn without_startup(usage: Usage, path: &Path) -> Option<Usage> {
    let report: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(Usage {
        cpu_s: report["work_cpu_s"].as_f64()?,
        wall_s: report["work_wall_s"].as_f64()?,
        peak_rss: usage.peak_rss.saturating_sub(report["startup_rss"].as_u64()?),
    })
}

/// The locations of the programs.
pub struct Places {
    /// `jitopt`; by default next to this program.
    pub jitopt: Option<PathBuf>,
    /// LLVM's `opt`.
    pub opt: PathBuf,
    /// MLIR's `mlir-opt`.
    pub mlir_opt: PathBuf,
    /// A Python that may have PyTorch.
    pub python: PathBuf,
    /// Whether to look for other programs than `jitopt`.
    pub peers: bool,
}

/// Finds the programs under test; returns notes on missing ones.
pub fn find(places: &Places, scratch: &Path) -> Result<(Vec<Contender>, Vec<String>)> {
    let mut found = Vec::new();
    let mut notes = Vec::new();
    match jitopt(places)? {
        Some(both) => found.extend(both),
        None => notes.push("`jitopt` not found: build it with `cargo build --release` or give `--jitopt=PATH`".into()),
    }
    if places.peers {
        let peers = [("opt", opt(places)), ("mlir-opt", mlir_opt(places)), ("torch", torch(places, scratch)?)];
        for (name, peer) in peers {
            match peer {
                Some(peer) => found.push(peer),
                None => notes.push(format!("`{name}` not found, skipped")),
            }
        }
    }
    Ok((found, notes))
}

/// `jitopt` twice: optimising, and only reading and printing.
fn jitopt(places: &Places) -> Result<Option<[Contender; 2]>> {
    let program = match &places.jitopt {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name(format!("jitopt{}", std::env::consts::EXE_SUFFIX)),
    };
    if !program.exists() {
        return Ok(None);
    }
    let version = output(&program, &["--version"]).unwrap_or_else(|| "unknown version".to_owned());
    let dialect = Dialect::Torchscript;
    let passes = ["--passes=cse,dce", "--no-verify-each"];
    Ok(Some([
        Contender::new("jitopt", program.clone(), version.clone(), dialect, &passes),
        Contender::new("jitopt (read, print)", program, version, dialect, &[]),
    ]))
}

/// LLVM's `opt`, with the pointer syntax that its version supports.
fn opt(places: &Places) -> Option<Contender> {
    let version = version_line(&output(&places.opt, &["--version"])?);
    let major = major(&version).unwrap_or(u32::MAX);
    let dialect = if major < 15 { Dialect::LlvmTyped } else { Dialect::LlvmOpaque };
    Some(Contender::new("opt", places.opt.clone(), version, dialect, &["-passes=early-cse,dce", "-S"]))
}

/// MLIR's `mlir-opt`.
fn mlir_opt(places: &Places) -> Option<Contender> {
    let version = version_line(&output(&places.mlir_opt, &["--version"])?);
    let passes = ["--cse", "--canonicalize"];
    Some(Contender::new("mlir-opt", places.mlir_opt.clone(), version, Dialect::Mlir, &passes))
}

/// PyTorch through Python.
fn torch(places: &Places, scratch: &Path) -> Result<Option<Contender>> {
    let Some(version) = output(&places.python, &["-c", "import torch; print(torch.__version__)"]) else {
        return Ok(None);
    };
    let script = scratch.join("bench_toolkit.py");
    fs::write(&script, TORCH_SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
    let version = format!("torch {}", version.trim());
    let script = script.to_string_lossy();
    let mut torch = Contender::new("torch", places.python.clone(), version, Dialect::Torchscript, &[script.as_ref()]);
    torch.after_file.clear();
    torch.excludes_startup = true;
    Ok(Some(torch))
}

/// The output of a program, if it runs successfully.
fn output(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The line with the version in the output of an LLVM tool.
fn version_line(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("version ")).unwrap_or(text);
    line.trim().to_owned()
}

/// The number after `version`.
fn major(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("version ")?;
    rest.split('.').next()?.parse().ok()
}
