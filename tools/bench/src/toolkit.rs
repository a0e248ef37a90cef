//! The toolkit measurement: all shapes and sizes, with every program in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::contender::{self, Contender, Places};
use crate::dialect::Dialect;
use crate::process::{Failure, Usage};
use crate::shapes::Shape;

/// Number of runs on the three-line file.
const START_RUNS: usize = 50;

/// The subjects to measure.
pub struct Plan {
    /// The sizes, in nodes, ascending.
    pub nodes: Vec<u64>,
    /// The shapes.
    pub shapes: Vec<Shape>,
    /// Number of runs of each program on each file.
    pub runs: usize,
    /// The time limit of a process.
    pub limit: Duration,
}

/// One program on one file.
pub struct Row {
    /// The file's shape.
    pub shape: Shape,
    /// The requested size.
    pub size: u64,
    /// Index of the program in [`Measurement::contenders`].
    pub contender: usize,
    /// The number of nodes of the file.
    pub nodes: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// One entry per run.
    pub result: Result<Vec<Usage>, Failure>,
}

/// The results of one program on the three-line file.
pub struct Start {
    /// Index of the program in [`Measurement::contenders`].
    pub contender: usize,
    /// One entry per run.
    pub result: Result<Vec<Usage>, Failure>,
}

/// The complete measurement.
pub struct Measurement {
    /// The programs.
    pub contenders: Vec<Contender>,
    /// Skipped programs, and why.
    pub notes: Vec<String>,
    /// The shapes and sizes.
    pub rows: Vec<Row>,
    /// Times from start to exit.
    pub starts: Vec<Start>,
}

/// A directory that is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("jitopt-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the measurement of `plan`; progress goes to standard error.
pub fn measure(plan: &Plan, places: &Places) -> Result<Measurement> {
    let scratch = Scratch::new()?;
    let (contenders, notes) = contender::find(places, &scratch.0)?;
    if contenders.is_empty() {
        bail!("nothing to measure: {}", notes.join("; "));
    }
    let starts = measure_starts(&contenders, &scratch.0, plan.limit)?;
    let mut rows = Vec::new();
    for &shape in &plan.shapes {
        for &size in &plan.nodes {
            eprintln!("{} {size}", shape.name());
            rows.extend(measure_case(plan, &contenders, &scratch.0, shape, size)?);
        }
    }
    Ok(Measurement { contenders, notes, rows, starts })
}

/// Runs every program on the three-line file of its dialect.
fn measure_starts(contenders: &[Contender], scratch: &Path, limit: Duration) -> Result<Vec<Start>> {
    let mut files = Vec::new();
    for contender in contenders {
        let file = scratch.join(format!("three-lines.{}", contender.dialect.name()));
        fs::write(&file, contender.dialect.three_lines())?;
        files.push(file);
    }
    let results = interleave(START_RUNS, contenders.len(), |i| contenders[i].run_whole(&files[i], scratch, limit));
    Ok(results.into_iter().enumerate().map(|(contender, result)| Start { contender, result }).collect())
}

/// Writes one shape at one size in every dialect needed and runs every program on it.
fn measure_case(plan: &Plan, all: &[Contender], scratch: &Path, shape: Shape, size: u64) -> Result<Vec<Row>> {
    let mut files: Vec<(Dialect, PathBuf, u64)> = Vec::new();
    for contender in all {
        if files.iter().all(|(dialect, ..)| *dialect != contender.dialect) {
            let path = scratch.join(format!("{}-{size}.{}", shape.name(), contender.dialect.name()));
            let nodes = generate(shape, size, contender.dialect, &path)?;
            files.push((contender.dialect, path, nodes));
        }
    }
    let file = |i: usize| files.iter().find(|(dialect, ..)| *dialect == all[i].dialect).unwrap_or(&files[0]);
    let results = interleave(plan.runs, all.len(), |i| all[i].run(&file(i).1, scratch, plan.limit));
    let mut rows = Vec::new();
    for (contender, result) in results.into_iter().enumerate() {
        let (_, path, nodes) = file(contender);
        let bytes = fs::metadata(path)?.len();
        rows.push(Row { shape, size, contender, nodes: *nodes, bytes, result });
    }
    for (_, path, _) in &files {
        fs::remove_file(path)?;
    }
    Ok(rows)
}

/// Runs 0, 1, …, `count` - 1 in turn, `runs` times. After a failure an index is not run again.
fn interleave(
    runs: usize,
    count: usize,
    mut run: impl FnMut(usize) -> Result<Usage, Failure>,
) -> Vec<Result<Vec<Usage>, Failure>> {
    let mut results: Vec<Result<Vec<Usage>, Failure>> = (0..count).map(|_| Ok(Vec::new())).collect();
    for _ in 0..runs {
        for (i, result) in results.iter_mut().enumerate() {
            let Ok(usages) = result else { continue };
            match run(i) {
                Ok(usage) => usages.push(usage),
                Err(failure) => *result = Err(failure),
            }
        }
    }
    results
}

/// Writes a file in a separate process, because a child's peak memory includes that of its parent
/// at the time of the fork. Returns the number of nodes.
fn generate(shape: Shape, nodes: u64, dialect: Dialect, path: &Path) -> Result<u64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["generate", shape.name(), &nodes.to_string(), dialect.name(), "-o"])
        .arg(path)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("cannot generate {}", path.display());
    }
    let count = String::from_utf8_lossy(&output.stdout);
    count.trim().parse().with_context(|| format!("the generator counted `{count}` nodes"))
}
