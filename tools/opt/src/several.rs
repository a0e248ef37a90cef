//! A subcommand over several files: each as if it were given alone, printed in order, and a
//! summary.

use crate::progress::Progress;
use crate::{World, batch, exit};
use clap::Args;
use jitopt_core::ops::declared::Declared;
use jitopt_engine::archives::Choice;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Work that is divided between processes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShardArg {
    /// Take only every N-th file, beginning with the I-th: each of N processes takes its share
    #[arg(long, value_name = "I/N", require_equals = true)]
    shard: Option<Shard>,
}

/// `2/8`: the second of eight shares.
#[derive(Clone, Copy, Debug)]
struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("expected I/N with I from 1 to N, such as 2/8".to_owned()),
        }
    }
}

impl ShardArg {
    /// The files of this share, in order; all of them if there are no shares.
    pub(crate) fn of(&self, files: &[PathBuf]) -> Vec<PathBuf> {
        let is_ours = |at: usize| self.shard.is_none_or(|shard| at % shard.of == shard.number - 1);
        files.iter().enumerate().filter(|(at, _)| is_ours(*at)).map(|(_, file)| file.clone()).collect()
    }

    /// Whether work is divided.
    pub(crate) fn divides(&self) -> bool {
        self.shard.is_some()
    }
}

/// The output of the work on one file, and its exit code.
pub(crate) struct Done {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) code: i32,
}

impl Done {
    /// One line of JSON about a file: the verdict, and what the work printed.
    pub(crate) fn as_json(&self, command: &str, file: &Path, verdict: &str) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let mut object = json!({
            "command": command, "file": file.display().to_string(), "verdict": verdict, "exit_code": self.code,
            "message": text(&self.stderr),
        });
        // What is JSON itself has fields of its own.
        match serde_json::from_slice::<Value>(&self.stdout) {
            Ok(Value::Object(fields)) => fields.into_iter().for_each(|(name, value)| object[name] = value),
            _ => object["output"] = text(&self.stdout).into(),
        }
        object
    }
}

/// The parts of the outside world that workers need.
struct Outside {
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    colour: bool,
    chosen: Choice,
}

/// Calls `work` on every file, `jobs` at once. Returns the first exit code that is not 0.
pub(crate) fn each(
    files: &[PathBuf],
    jobs: usize,
    world: &mut World<'_>,
    work: impl Fn(&Path, &mut World<'_>) -> i32 + Sync,
) -> i32 {
    let outside = Outside::of(world);
    let (declared, progress) = (Declared::current(), Mutex::new(Progress::new(world)));
    let finished = AtomicUsize::new(0);
    let job = |file: &PathBuf| {
        let _entered = declared.enter();
        let done = alone(&outside, |world| work(file, world));
        let count = finished.fetch_add(1, Ordering::Relaxed) + 1;
        if let Ok(mut progress) = progress.lock() {
            progress.show(|| format!("{count} of {} files", files.len()));
        }
        done
    };
    let pool = (jobs > 1).then(|| batch::pool(jobs)).flatten();
    let done: Vec<Done> = match pool {
        Some(pool) => pool.install(|| files.par_iter().map(job).collect()),
        None => files.iter().map(job).collect(),
    };
    drop(progress);
    for (file, done) in files.iter().zip(&done) {
        world.say(&format!("== {}", file.display()));
        if !done.stderr.is_empty() {
            world.say(&String::from_utf8_lossy(&done.stderr));
        }
        world.print(&done.stdout);
    }
    world.say(&summary(&done));
    done.iter().map(|done| done.code).find(|code| *code != exit::YES).unwrap_or(exit::YES)
}

impl Outside {
    fn of(world: &World<'_>) -> Outside {
        Outside { env: world.env.clone(), cwd: world.cwd.clone(), colour: world.colour, chosen: world.chosen.clone() }
    }
}

/// Runs work whose output becomes part of another form.
pub(crate) fn captured(world: &World<'_>, work: impl FnOnce(&mut World<'_>) -> i32) -> Done {
    alone(&Outside { colour: false, ..Outside::of(world) }, work)
}

/// Runs work on streams of its own.
fn alone(outside: &Outside, work: impl FnOnce(&mut World<'_>) -> i32) -> Done {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut world = World {
        stdin: Box::new(std::io::empty()),
        stdout: &mut stdout,
        stderr: &mut stderr,
        env: outside.env.clone(),
        cwd: outside.cwd.clone(),
        colour: outside.colour,
        chosen: outside.chosen.clone(),
        failed_write: None,
    };
    let code = work(&mut world);
    drop(world);
    Done { stdout, stderr, code }
}

/// `3 files: 2 ended with exit code 0, 1 with 5`.
fn summary(done: &[Done]) -> String {
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    done.iter().for_each(|done| *codes.entry(done.code).or_default() += 1);
    let counts: Vec<String> = codes.iter().map(|(code, count)| format!("{count} with exit code {code}")).collect();
    match done {
        [] => "no file is in this share".to_owned(),
        [_] => format!("1 file ended: {}", counts.join(", ")),
        _ => format!("{} files ended: {}", done.len(), counts.join(", ")),
    }
}
