//! `jitopt lint`: reports known PyTorch miscompilations that affect a graph.

use crate::exit::{self, refuse};
use crate::several::{self, ShardArg};
use crate::{World, batch};
use clap::Args;
use jitopt_core::interpreter::Release;
use jitopt_core::ir::Graph;
use jitopt_core::lint::{Findings, LINTS, Lint, lint};
use jitopt_core::log::did_you_mean;
use jitopt_core::verify;
use jitopt_engine::{Error, panics};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  jitopt lint in.ir
  jitopt lint --torch=2.15 *.ir                      only miscompilations of this release
  jitopt lint --list                                 all lints, with sources and workarounds

Exit codes: 0 nothing found, 1 findings.";

/// `jitopt lint`
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LintArgs {
    /// The graphs; stdin if `-` or none
    files: Vec<PathBuf>,
    /// Only miscompilations of this PyTorch release, such as 1.3 or 2.15
    #[arg(long, value_name = "VERSION", require_equals = true)]
    torch: Option<Release>,
    /// Run only this lint; may be repeated
    #[arg(long, value_name = "LINT")]
    only: Vec<String>,
    /// Skip this lint; may be repeated
    #[arg(long, value_name = "LINT")]
    skip: Vec<String>,
    /// Print one line of JSON per finding
    #[arg(long)]
    json: bool,
    /// Number of files read at once
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    #[command(flatten)]
    shard: ShardArg,
    /// List the lints
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &LintArgs, world: &mut World<'_>) -> i32 {
    let files = args.shard.of(&args.files);
    if files.is_empty() && args.shard.divides() {
        return exit::YES;
    }
    if args.jobs <= 1 || args.files.len() <= 1 {
        let args = LintArgs { files, ..args.clone() };
        let result = panics::caught(|| lint_files(&args, world));
        return exit::ended(result, world);
    }
    several::each(&files, args.jobs, world, |file, world| {
        let alone = LintArgs { files: vec![file.to_owned()], ..args.clone() };
        exit::ended(panics::caught(|| lint_files(&alone, world)), world)
    })
}

fn lint_files(args: &LintArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let lints = chosen(args)?;
    if args.list {
        world.print(listed(&lints).as_bytes());
        return Ok(exit::YES);
    }
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let mut clean = true;
    for path in files {
        let program = batch::program(path, world)?;
        let graph = program.graph(args.torch, &mut world.workspace())?;
        let findings = lint(&graph, &lints);
        clean &= findings.lints.is_empty();
        let text = if args.json { json(path, &graph, &findings) } else { text(path, &graph, &findings) };
        world.print(text.as_bytes());
    }
    Ok(if clean { exit::YES } else { exit::NO })
}

/// The selected lints: the named ones, limited to those of a release, without the skipped ones.
fn chosen(args: &LintArgs) -> Result<Vec<&'static Lint>, Error> {
    let named = |names: &[String]| names.iter().map(|name| find(name)).collect::<Result<Vec<_>, Error>>();
    let (only, skipped) = (named(&args.only)?, named(&args.skip)?);
    let among = |lints: &[&Lint], lint: &Lint| lints.iter().any(|other| other.name == lint.name);
    let wanted = |lint: &&Lint| only.is_empty() || among(&only, lint);
    let hit = |lint: &&Lint| args.torch.is_none_or(|release| lint.hits(release));
    let kept = |lint: &&Lint| !among(&skipped, lint);
    let chosen: Vec<&Lint> = LINTS.iter().filter(wanted).filter(hit).filter(kept).collect();
    if chosen.is_empty() {
        return refuse("no lint is selected: --torch, --only and --skip exclude all lints");
    }
    Ok(chosen)
}

/// The lint of a name.
fn find(name: &str) -> Result<&'static Lint, Error> {
    let Some(lint) = Lint::named(name) else {
        let near = did_you_mean(name, LINTS.iter().map(|lint| lint.name));
        let near = near.map_or("`jitopt lint --list` lists them".to_owned(), |near| format!("did you mean `{near}`?"));
        return refuse(format_args!("there is no lint `{name}`; {near}"));
    };
    Ok(lint)
}

fn listed(lints: &[&Lint]) -> String {
    let row = |lint: &&Lint| {
        let (name, summary, span) = (lint.name, lint.summary, lint.span());
        format!(
            "{name}\n    {summary}\n    PyTorch {span}: {}\n    {}\n    workaround: {}\n",
            lint.culprit, lint.source, lint.workaround
        )
    };
    lints.iter().map(row).collect()
}

fn text(path: &Path, graph: &Graph, findings: &Findings) -> String {
    if findings.lints.is_empty() {
        return String::new();
    }
    format!("{}:\n{}", path.display(), verify::render(graph, &findings.report))
}

/// One line of JSON per finding.
fn json(path: &Path, graph: &Graph, findings: &Findings) -> String {
    let line = |(finding, lint): (&verify::Finding, &&Lint)| {
        let inside = findings.report.graph_of(graph, finding.at);
        let node = finding.at.spot.node(inside);
        let outputs: Vec<String> = inside.outputs(node).map(|value| inside.name(value).to_string()).collect();
        let object = serde_json::json!({
            "file": path.display().to_string(), "lint": lint.name, "message": finding.message, "kind": inside.kind(node).as_str(),
            "outputs": outputs, "source": finding.source, "releases": lint.span(), "culprit": lint.culprit,
            "known-from": lint.source, "workaround": lint.workaround,
        });
        format!("{object}\n")
    };
    findings.report.findings.iter().zip(&findings.lints).map(line).collect()
}
