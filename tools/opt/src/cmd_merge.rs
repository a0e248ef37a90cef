//! `jitopt merge`: adds up the JSON that many processes wrote.

use crate::World;
use crate::exit::{self, refuse};
use clap::Args;
use jitopt_engine::merged_results::Merged;
use jitopt_engine::{Error, panics};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  jitopt audit --json --shard=1/8 models/*.pt > 1.jsonl     on each of eight machines
  jitopt merge *.jsonl

Results are those of `audit`, `validate`, `run` and `lint` with `--json`.

Exit codes: 0 all results are good, 1 some are not.";

/// `jitopt merge`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MergeArgs {
    /// Files of results, one JSON object a line
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MergeArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| merged(args, world));
    exit::ended(result, world)
}

fn merged(args: &MergeArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let mut texts = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        match std::fs::read_to_string(world.path(path)) {
            Ok(text) => texts.push((name, text)),
            Err(error) => return refuse(format_args!("cannot read `{name}`: {error}")),
        }
    }
    let merged = Merged::of(&texts)?;
    let text = if args.json { format!("{}\n", merged.as_json()) } else { merged.as_text() };
    world.print(text.as_bytes());
    Ok(if merged.is_good() { exit::YES } else { exit::NO })
}
