//! `jitopt audit`: what the program in an archive would do to whoever runs it.

use crate::World;
use crate::exit::{self, refuse};
use crate::several::{self, ShardArg};
use clap::Args;
use jitopt_engine::audit::{Audit, audit};
use jitopt_engine::audit_report::as_sarif;
use jitopt_engine::{Error, panics};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  jitopt audit model.pt
  jitopt audit --json downloads/*.pt | jq -r 'select(.verdict == \"refused\") | .file'
  jitopt audit --sarif model.pt > audit.sarif
  jitopt audit model.pt --allow=torchvision::nms

Nothing of the file runs except methods that PyTorch would run while it loads the file (`__setstate__`): the
interpreter runs them, without files, raw memory and random numbers, within a million steps and 60 MiB. Exit codes:
0 every file is accepted, 1 one is refused.";

/// `jitopt audit`
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The archives: .pt, .ptl or .pt2
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one line of JSON per file
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Print a SARIF log of all files
    #[arg(long)]
    sarif: bool,
    /// Operator, such as torchvision::nms, or kind of finding, such as unknown-operator, that does
    /// not refuse a file; may be repeated
    #[arg(long, value_name = "NAME", require_equals = true)]
    allow: Vec<String>,
    /// Number of files read at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    #[command(flatten)]
    shard: ShardArg,
}

pub(crate) fn run(args: &AuditArgs, world: &mut World<'_>) -> i32 {
    let files = args.shard.of(&args.files);
    if args.sarif || args.files.len() == 1 {
        let args = AuditArgs { files, ..args.clone() };
        let result = panics::caught(|| audit_files(&args, world));
        return exit::ended(result, world);
    }
    several::each(&files, args.jobs, world, |file, world| {
        let alone = AuditArgs { files: vec![file.to_owned()], ..args.clone() };
        exit::ended(panics::caught(|| audit_files(&alone, world)), world)
    })
}

fn audit_files(args: &AuditArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let audits = args.files.iter().map(|file| audited(file, args, world)).collect::<Result<Vec<_>, Error>>()?;
    if args.sarif {
        world.print(format!("{}\n", as_sarif(&audits)).as_bytes());
    }
    for (name, audit) in audits.iter().filter(|_| !args.sarif) {
        let text = if args.json { format!("{}\n", audit.as_json(name)) } else { audit.as_text(name) };
        world.print(text.as_bytes());
    }
    Ok(if audits.iter().all(|(_, audit)| audit.is_accepted()) { exit::YES } else { exit::NO })
}

fn audited(file: &Path, args: &AuditArgs, world: &World<'_>) -> Result<(String, Audit), Error> {
    let name = file.display().to_string();
    let bytes = match std::fs::read(world.path(file)) {
        Ok(bytes) => bytes,
        Err(error) => return refuse(format_args!("cannot read `{name}`: {error}")),
    };
    let audit = audit(&name, &bytes, &args.allow)?;
    Ok((name, audit))
}
