//! `jitopt diff`: the structural differences of two graphs.

use crate::arguments::DiffArgs;
use crate::exit::{self, refuse};
use crate::{World, batch};
use jitopt_core::ir::Graph;
use jitopt_core::pass::{self, Session};
use jitopt_core::report::line_changes::LineChanges;
use jitopt_core::report::{Change, compare};
use jitopt_core::text::ParseOptions;
use jitopt_engine::{Error, Kind, judging, load_callees, panics};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &DiffArgs, world: &mut World<'_>) -> i32 {
    let result = panics::caught(|| diff(args, world));
    exit::ended(result, world)
}

/// The two files, and whether Git is the caller: Git takes any exit code but 0 for a crash.
struct Sides {
    before: Option<PathBuf>,
    after: Option<PathBuf>,
    git: bool,
}

/// Git passes `PATH OLD-FILE OLD-HEX OLD-MODE NEW-FILE NEW-HEX NEW-MODE`, with two more for a
/// renamed file; a missing file is `/dev/null`.
fn sides(args: &DiffArgs) -> Result<Sides, Error> {
    let file = |i: usize| Some(args.files[i].clone()).filter(|path| path.as_os_str() != "/dev/null");
    match (args.files.len(), args.passes.is_some()) {
        (1, true) => Ok(Sides { before: file(0), after: None, git: false }),
        (1, false) => refuse("nothing to compare with: give a second graph or --passes"),
        (2, false) => Ok(Sides { before: file(0), after: file(1), git: false }),
        (7 | 9, false) => Ok(Sides { before: file(1), after: file(4), git: true }),
        (_, true) => refuse("--passes takes one graph, but several files are given"),
        (n, false) => refuse(format_args!(
            "{n} files are given; expected two graphs, or the seven arguments of a Git diff driver"
        )),
    }
}

fn diff(args: &DiffArgs, world: &mut World<'_>) -> Result<i32, Error> {
    let sides = sides(args)?;
    let (before, after) = match graphs(args, &sides, world) {
        // Git stops at the first file on which a diff driver fails.
        Err(error) if sides.git && error.kind == Kind::Unparsable => {
            return as_text(args, &sides, &error.message, world);
        }
        graphs => graphs?,
    };
    let changes = compare(&before, &after, !args.ignore_types);
    match args.json {
        true => {
            let all: Vec<_> = changes.iter().map(Change::json).collect();
            world.print(format!("{}\n", serde_json::Value::Array(all)).as_bytes());
        }
        false => world.print(text(&changes, &sides, args).as_bytes()),
    }
    Ok(if changes.is_empty() || sides.git { exit::YES } else { exit::NO })
}

fn graphs(args: &DiffArgs, sides: &Sides, world: &mut World<'_>) -> Result<(Graph, Graph), Error> {
    let before = read(args, sides.before.as_deref(), world)?;
    let after = match &args.passes {
        Some(passes) => transformed(args, passes, &before, world)?,
        None => read(args, sides.after.as_deref(), world)?,
    };
    Ok((before, after))
}

/// A textual diff, as Git would print it, if one of the files is not a graph.
fn as_text(args: &DiffArgs, sides: &Sides, why: &str, world: &mut World<'_>) -> Result<i32, Error> {
    let text = |path: &Option<PathBuf>| match path.as_ref().map(|path| std::fs::read(world.path(path))) {
        None => Ok(String::new()),
        Some(Ok(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Some(Err(error)) => refuse(error),
    };
    let (before, after) = (text(&sides.before)?, text(&sides.after)?);
    let (a, b) = names(args, sides);
    let shown = LineChanges::new(&before, &after).unified(3, &a, &b);
    let first = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
    world.print(format!("note: compared as text, because not both files are graphs: {first}\n{shown}").as_bytes());
    Ok(exit::YES)
}

fn read(args: &DiffArgs, path: Option<&Path>, world: &mut World<'_>) -> Result<Graph, Error> {
    match path {
        Some(path) => batch::program(path, world)?.graph(args.torch, &mut world.workspace()),
        None => Ok(Graph::new()),
    }
}

fn transformed(args: &DiffArgs, passes: &str, before: &Graph, world: &mut World<'_>) -> Result<Graph, Error> {
    let pipeline = judging::pipeline(passes, &mut world.workspace())?;
    let options = ParseOptions { release: args.torch };
    let callees = load_callees(&args.callee, true, options, &mut world.workspace())?;
    let mut session = Session { callees, ..Session::default() };
    let mut after = before.clone();
    let ran = pass::run(&mut after, &pipeline, &mut session, &mut []);
    ran.map_err(|error| Error::of_passes(&args.files[0], &error))?;
    Ok(after)
}

fn text(changes: &[Change], sides: &Sides, args: &DiffArgs) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let (before, after) = names(args, sides);
    let body: String = changes.iter().map(Change::to_string).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    changes.iter().for_each(|change| *counts.entry(change.kind()).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    format!("--- {before}\n+++ {after}\n{body}{}\n", counts.join(", "))
}

/// Display names of the two sides.
fn names(args: &DiffArgs, sides: &Sides) -> (String, String) {
    let shown =
        |path: &Option<PathBuf>| path.as_ref().map_or("/dev/null".to_owned(), |path| path.display().to_string());
    let after = args.passes.as_ref().map_or_else(|| shown(&sides.after), |passes| format!("after {passes}"));
    match sides.git {
        true => (format!("a/{}", args.files[0].display()), format!("b/{}", args.files[0].display())),
        false => (shown(&sides.before), after),
    }
}
