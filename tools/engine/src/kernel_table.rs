//! The operator kinds of graphs, and which of them the interpreter can run.

use jitopt_core::interpreter::plan::{Action, Plan};
use jitopt_core::interpreter::{Environment, Reason};
use jitopt_core::ir::Graph;
use jitopt_core::symbol::prim;
use std::collections::BTreeMap;
use std::fmt;

/// The number of nodes and files of a kind, and whether it has a kernel.
#[derive(Default)]
struct Row {
    nodes: usize,
    files: usize,
    missing: bool,
}

/// The operator kinds of graphs, and which of them the interpreter can run; it displays as a table.
#[derive(Default)]
pub struct KernelTable {
    rows: BTreeMap<&'static str, Row>,
}

impl KernelTable {
    /// Adds the graph of a file, with the graphs in its nodes.
    pub fn add(&mut self, graph: &Graph) {
        add_file(graph, &mut self.rows);
    }
}

impl fmt::Display for KernelTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table(&self.rows))
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
