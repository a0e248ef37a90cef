//! Measures whole models against PyTorch: from process start to the first result, in the steady
//! state, and peak memory.
//!
//! ```text
//! python tools/pytorch/write_models.py FOLDER
//! jitopt-bench models FOLDER --python=PATH
//! ```
//!
//! The models are the archives in the folder, with `NAME.inputs.safetensors` and
//! `NAME.expected.safetensors`, PyTorch's results, with which ours are compared first;
//! `models.json` has the tolerances. PyTorch runs each model as a module and as a frozen archive,
//! and other programs run it where `--ways` names them; see `tools/pytorch/bench_models.py`:
//!
//! ```text
//! pip install onnxruntime openvino torch_xla onnx
//! jitopt-bench models FOLDER --python=PATH --ways=frozen,compile,onnxruntime,openvino,xla
//! ```
//!
//! In each round each program in its order runs a model some times and reports the median, so that
//! a disturbance of the machine affects all; the table has the median of rounds, and the median of
//! their ratios to the fastest of PyTorch and of all others. A first result includes the start of
//! the process, and compiling from an empty cache. A cached one finds kernels and graph in the
//! cache; a column has what it takes beyond reading the archive into new memory and a run in the
//! steady state.

use crate::peer::{Peer, SCRIPTS, Way};
use crate::process::{self, Failure};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The program that times a model in PyTorch.
const DRIVER: &str =
    "import sys; sys.path.insert(0, sys.argv[1]); import bench_models; bench_models.main(sys.argv[2:])";
/// The limits of a process.
const LIMIT: Duration = Duration::from_secs(600);

/// A measurement.
pub struct Plan {
    pub folder: PathBuf,
    /// Names of models; all if there are none.
    pub names: Vec<String>,
    pub jitopt: PathBuf,
    pub python: Option<PathBuf>,
    /// How others run the models.
    pub ways: Vec<Way>,
    pub rounds: usize,
    /// Runs of a program in a round.
    pub runs: usize,
    /// Threads of each program.
    pub threads: usize,
}

/// One program on one model.
struct Row {
    /// None for ours.
    way: Option<Way>,
    /// Seconds and bytes until the first result, or why there are none.
    first: Result<(f64, u64), String>,
    /// Seconds until the result of a later process, and of reading its archive, for ours.
    cached: Option<(f64, f64)>,
    /// Seconds of each round.
    times: Vec<f64>,
}

/// Measures all models and prints a table. The flag is whether all have PyTorch's results.
pub fn measure(plan: &Plan) -> Result<(String, bool)> {
    let about = fs::read(plan.folder.join("models.json")).context("the folder has no `models.json`")?;
    let about: Value = serde_json::from_slice(&about).context("`models.json` is no JSON")?;
    let models = about["models"].as_object().context("`models.json` names no models")?;
    let scratch = std::env::temp_dir().join(format!("jitopt-bench-models-{}", std::process::id()));
    fs::create_dir_all(&scratch).context("there is no temporary folder")?;
    let mut text = String::from(
        "| model | program | first result, s | cached, ms | reading, ms | beyond reading and a run, ms | peak, MB \
         | steady, ms | over the fastest of PyTorch | of all | equal |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    let mut all_equal = true;
    for name in chosen(plan, models)? {
        let equal = is_equal(plan, name, &models[name]);
        all_equal &= equal.is_ok();
        let rows = rows(plan, name, &scratch)?;
        text += &table(name, &rows, &equal);
    }
    drop(fs::remove_dir_all(&scratch));
    let Plan { rounds, runs, threads, .. } = plan;
    text += &format!("\nMedians of {rounds} rounds of {runs} runs, interleaved, {threads} thread(s).\n");
    Ok((text, all_equal))
}

/// The names of the models, which the folder must have.
fn chosen<'a>(plan: &'a Plan, models: &'a Map<String, Value>) -> Result<Vec<&'a str>> {
    if let Some(missing) = plan.names.iter().find(|name| !models.contains_key(*name)) {
        bail!("the folder has no model `{missing}`");
    }
    let is_wanted = |name: &&String| plan.names.is_empty() || plan.names.contains(name);
    Ok(models.keys().filter(is_wanted).map(String::as_str).collect())
}

/// The first run of ours, from an empty cache of kernels if there is a folder for it.
fn ours(plan: &Plan, name: &str, more: &[&str], cache: Option<&Path>) -> Command {
    let mut command = Command::new(&plan.jitopt);
    command.arg(more[0]).arg(plan.folder.join(format!("{name}.pt")));
    let threads = format!("--threads={}", plan.threads);
    command.args(["--passes=@inference", "--backend=cpu", &threads]).args(&more[1..]);
    if let Some(cache) = cache {
        command.env("JITOPT_CACHE", cache);
    }
    command
}

/// Whether our results are PyTorch's within the tolerances of the model.
fn is_equal(plan: &Plan, name: &str, about: &Value) -> Result<(), String> {
    let expected = plan.folder.join(format!("{name}.expected.safetensors"));
    let mut command = ours(plan, name, &["run"], None);
    command.arg(format!("--expect={}", expected.display()));
    for tolerance in ["rtol", "atol"] {
        command.args(about[tolerance].as_f64().map(|value| format!("--{tolerance}={value}")));
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(errors.lines().find(|line| line.contains("error")).unwrap_or("it failed").to_owned()),
    }
}

/// Measures all programs on a model.
fn rows(plan: &Plan, name: &str, scratch: &Path) -> Result<Vec<Row>> {
    let cache = scratch.join(name);
    let first = first(ours(plan, name, &["run"], Some(&cache)), scratch);
    let cached = cached(plan, name, &cache, scratch);
    let mut rows = vec![Row { way: None, first, cached, times: Vec::new() }];
    let mut peers = Vec::new();
    for (&way, python) in plan.ways.iter().flat_map(|way| plan.python.iter().map(move |python| (way, python))) {
        let folder = plan.folder.display().to_string();
        let threads = format!("--threads={}", plan.threads);
        let arguments = [SCRIPTS, &folder, name, way.name(), &threads];
        let first = first_of(way, python, &arguments, scratch);
        peers.push(first.is_ok().then(|| Peer::start(python, DRIVER, &arguments)).flatten());
        rows.push(Row { way: Some(way), first, cached: None, times: Vec::new() });
    }
    for _ in 0..plan.rounds {
        rows[0].times.push(steady(plan, name)?);
        for (row, peer) in rows[1..].iter_mut().zip(&mut peers) {
            row.times.extend(peer.as_mut().map(|peer| peer.time(&plan.runs.to_string())).transpose()?);
        }
    }
    Ok(rows)
}

/// The first result of another program. Those that are not PyTorch read what is written before, and
/// compute the same.
fn first_of(way: Way, python: &Path, arguments: &[&str], scratch: &Path) -> Result<(f64, u64), String> {
    let driver = |more: &str| {
        let mut command = Command::new(python);
        command.args(["-c", DRIVER]).args(arguments).arg(more);
        command.env("TORCHINDUCTOR_CACHE_DIR", scratch.join(format!("{}-compile", arguments[2])));
        command
    };
    if !way.is_pytorch() {
        let output = driver("--prepare").stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let why = errors.lines().rfind(|line| !line.trim().is_empty());
            return Err(why.unwrap_or("it failed").replace('|', "/"));
        }
    }
    first(driver("--once"), scratch)
}

/// Seconds and peak memory of a process.
fn first(mut command: Command, scratch: &Path) -> Result<(f64, u64), String> {
    match process::measure(&mut command, Stdio::null(), scratch, LIMIT) {
        Ok(usage) => Ok((usage.wall_s, usage.peak_rss)),
        Err(Failure::TimedOut(limit)) => Err(format!("over {} s", limit.as_secs())),
        Err(Failure::Failed(why)) => Err(why),
    }
}

/// Seconds of a process whose kernels are in the cache, and of one that reads its archive: medians
/// of the runs of a round. Memory of this process would count as that of others, which `measure`
/// starts from it.
fn cached(plan: &Plan, name: &str, cache: &Path, scratch: &Path) -> Option<(f64, f64)> {
    let archive = plan.folder.join(format!("{name}.pt"));
    let size = fs::metadata(&archive).ok()?.len();
    let read = || {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", archive.display())).args(["of=/dev/null", &format!("bs={size}")]);
        Some(first(command, scratch).ok()?.0)
    };
    let start = || Some(first(ours(plan, name, &["run"], Some(cache)), scratch).ok()?.0);
    let (starts, reads) = (0..plan.runs.max(1)).filter_map(|_| Some((start()?, read()?))).unzip();
    Some((middle(starts)?, middle(reads)?))
}

/// Our median of a round. The baseline of the command is the same pipeline, so that nothing else
/// runs.
fn steady(plan: &Plan, name: &str) -> Result<f64> {
    let runs = format!("--runs={}", plan.runs);
    let mut command = ours(plan, name, &["bench", "--against=@inference", "--json", &runs], None);
    let output = command.stdin(Stdio::null()).output().context("jitopt cannot be started")?;
    let found: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| anyhow!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let measured = found.as_array().map_or(&found, |all| &all[0]);
    let times = measured["rows"].as_array().into_iter().flatten();
    let medians: Vec<f64> = times.filter_map(|row| row["time_s"]["median"].as_f64()).collect();
    medians.into_iter().reduce(f64::min).with_context(|| format!("{name}: no times in {found}"))
}

/// The median of the ratios of our times to the fastest of others in the same round.
fn ratio(rows: &[Row], is_taken: impl Fn(Way) -> bool) -> Option<f64> {
    let others = || rows.iter().filter(|row| row.way.is_some_and(&is_taken));
    let fastest = |round: usize| others().filter_map(|row| row.times.get(round)).copied().reduce(f64::min);
    let ours = rows[0].times.iter().enumerate();
    middle(ours.filter_map(|(round, time)| Some(time / fastest(round)?)).collect())
}

fn table(name: &str, rows: &[Row], equal: &Result<(), String>) -> String {
    let shown = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let mut text = String::new();
    for row in rows {
        let (first, peak) = match &row.first {
            Ok((seconds, bytes)) => (format!("{seconds:.2}"), format!("{:.0}", *bytes as f64 / 1e6)),
            Err(why) => (why.clone(), String::new()),
        };
        let steady = middle(row.times.clone());
        let start = start(row.cached, steady);
        let steady = steady.map_or(String::new(), |time| format!("{:.2}", time * 1e3));
        let last = match (row.way, equal) {
            (Some(_), _) => " |  | ".to_owned(),
            (None, equal) => {
                let equal = equal.as_ref().map_or_else(|why| format!("no: {why}"), |()| "yes".to_owned());
                format!("{} | {} | {equal}", shown(ratio(rows, Way::is_pytorch)), shown(ratio(rows, |_| true)))
            }
        };
        let program = row.way.map_or("jitopt", Way::name);
        text += &format!("| {name} | {program} | {first} | {start} | {peak} | {steady} | {last} |\n");
    }
    text
}

/// The columns of a cached start.
fn start(cached: Option<(f64, f64)>, steady: Option<f64>) -> String {
    let Some((seconds, reading)) = cached else { return " |  | ".to_owned() };
    let rest = steady.map_or(String::new(), |steady| format!("{:.1}", (seconds - reading - steady) * 1e3));
    format!("{:.1} | {:.1} | {rest}", seconds * 1e3, reading * 1e3)
}

fn middle(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_fastest_of_each_round() {
        let row = |way: Option<Way>, times: &[f64]| {
            let cached = way.is_none().then_some((0.025, 0.006));
            Row { way, first: Ok((1.5, 2_000_000)), cached, times: times.to_vec() }
        };
        let rows = [
            row(None, &[0.002, 0.006, 0.004]),
            row(Some(Way::Eager), &[0.004, 0.004, 0.008]),
            row(Some(Way::Frozen), &[0.001, 0.012, 0.016]),
            row(Some(Way::Xla), &[0.002, 0.002, 0.002]),
        ];
        let text = table("net", &rows, &Ok(()));
        assert!(
            text.starts_with("| net | jitopt | 1.50 | 25.0 | 6.0 | 15.0 | 2 | 4.00 | 1.50 | 2.00 | yes |\n"),
            "{text}"
        );
        assert!(text.contains("| net | frozen | 1.50 |  |  |  | 2 | 12.00 |  |  |  |\n"), "{text}");
        let text = table("net", &rows[..1], &Err("it differs".to_owned()));
        assert_eq!(text, "| net | jitopt | 1.50 | 25.0 | 6.0 | 15.0 | 2 | 4.00 |  |  | no: it differs |\n");
    }
}
