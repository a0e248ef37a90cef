//! `jitopt run --coverage`: the operator kinds of graphs, and which of them the interpreter can
//! run.

use crate::arguments::RunArgs;
use crate::cmd_run::read_graph;
use crate::optimise::{Refusal, refuse};
use crate::{World, exit};
use jitopt_core::interpreter::plan::{Action, Plan};
use jitopt_core::interpreter::{Environment, Reason};
use jitopt_core::ir::Graph;
use jitopt_core::symbol::prim;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The number of nodes and files of a kind, and whether it has a kernel.
#[derive(Default)]
struct Row {
    nodes: usize,
    files: usize,
    missing: bool,
}

/// Reads all files and prints the table. Unreadable files are reported and decide the exit code.
pub(crate) fn run(args: &RunArgs, world: &mut World<'_>) -> Result<i32, Refusal> {
    refuse_others(args)?;
    let files = if args.files.is_empty() { vec![PathBuf::from("-")] } else { args.files.clone() };
    let (mut rows, mut code) = (BTreeMap::<&'static str, Row>::new(), exit::YES);
    for path in &files {
        match read_graph(args, path, world) {
            Ok(graph) => add_file(&graph, &mut rows),
            Err((failed, message)) => {
                world.say(&message);
                code = if code == exit::YES { failed } else { code };
            }
        }
    }
    world.print(table(&rows).as_bytes());
    Ok(code)
}

fn refuse_others(args: &RunArgs) -> Result<(), Refusal> {
    let (values, checks, semantics) = (&args.values, &args.checks, &args.semantics);
    let flags = [
        ("--inputs", values.inputs.is_some()),
        ("--args", values.args.is_some()),
        ("--outputs", values.outputs.is_some()),
        ("--seed", values.seed.is_some()),
        ("--shape", !values.shape.is_empty()),
        ("--bind", !values.bind.is_empty()),
        ("--bind-dir", values.bind_dir.is_some()),
        ("--fill-unknown", values.fill_unknown.is_some()),
        ("--replay", !values.replay.is_empty()),
        ("--expect", !checks.expect.is_empty()),
        ("--assert-finite", checks.assert_finite),
        ("--steps", checks.steps),
        ("--max-steps", checks.max_steps.is_some()),
        ("--timeout", checks.timeout.is_some()),
        ("--f64", semantics.f64),
        ("--callee", !semantics.callee.is_empty()),
        ("--passes", semantics.passes.is_some()),
        ("--profile", semantics.seen.profile.is_some()),
    ];
    match flags.iter().find(|(_, given)| *given) {
        Some((flag, _)) => refuse(format_args!("{flag}: --coverage runs nothing")),
        None => Ok(()),
    }
}

fn add_file(graph: &Graph, rows: &mut BTreeMap<&'static str, Row>) {
    let mut seen: BTreeMap<&'static str, (usize, bool)> = BTreeMap::new();
    let (mut graphs, env) = (vec![graph], Environment::default());
    while let Some(graph) = graphs.pop() {
        let plan = Plan::of(graph, &env);
        for node in graph.all_nodes().filter(|&node| !matches!(graph.kind(node), prim::PARAM | prim::RETURN)) {
            let refused = match &plan.row(node).action {
                Action::Refused(stop) => matches!(stop.reason, Reason::Unsupported(_)),
                _ => false,
            };
            let row = seen.entry(graph.kind(node).as_str()).or_default();
            (row.0, row.1) = (row.0 + 1, row.1 | refused);
            graphs.extend(graph.subgraph(node));
        }
    }
    for (kind, (nodes, missing)) in seen {
        let row = rows.entry(kind).or_default();
        (row.nodes, row.files, row.missing) = (row.nodes + nodes, row.files + 1, row.missing | missing);
    }
}

/// Missing kinds first, then by frequency.
fn table(rows: &BTreeMap<&'static str, Row>) -> String {
    let mut sorted: Vec<_> = rows.iter().collect();
    sorted.sort_by_key(|(kind, row)| (!row.missing, std::cmp::Reverse(row.nodes), **kind));
    let mut text = String::from("  nodes   files  kernel  kind\n");
    for (kind, row) in &sorted {
        let has = if row.missing { "no" } else { "yes" };
        text += &format!("{:>7} {:>7}  {has:<6}  {kind}\n", row.nodes, row.files);
    }
    let count = |missing: bool| sorted.iter().filter(move |(_, row)| row.missing == missing).map(|(_, row)| row.nodes);
    let (can, cannot) = (count(false).collect::<Vec<_>>(), count(true).collect::<Vec<_>>());
    let (nodes, more) = (can.iter().sum::<usize>(), cannot.iter().sum::<usize>());
    let kinds = can.len() + cannot.len();
    text + &format!("{} of {kinds} kinds and {nodes} of {} nodes have a kernel\n", can.len(), nodes + more)
}
