//! `--report=FILE.html`: a self-contained page that shows what a pipeline did to a graph.

use crate::drawing::{escaped, svg};
use crate::fusion_report;
use jitopt_core::codegen::whole_graph;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Observer, PassRun, RunError, Session};
use jitopt_core::report::line_changes::LineChanges;
use jitopt_core::text::{PrintOptions, print};
use jitopt_passes::fuser::Tally;
use similar::{ChangeTag, DiffOp};
use std::fmt::Write;
use std::time::Duration;

/// Context lines around a change.
const AROUND: usize = 2;
/// Maximum size in bytes of graphs that are compared line by line; for larger ones only the number
/// of lines is shown.
const MOST_COMPARED: usize = 2 << 20;

/// Stylesheet and script of the page.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The meaning of the colours of the drawing, and how to move it.
const LEGEND: &str = "\
<p class=\"legend\"><span class=\"param\">parameter, result</span> <span class=\"node\">operator</span> \
<span class=\"group\">fusion group</span> <span class=\"blocks\">section, or operator with blocks</span>. Constants are \
left out. Wheel: zoom; drag: move; double click: all of it, or full size.</p>\n";

/// One executed pass.
struct Step {
    name: String,
    time: Duration,
    changed: bool,
    nodes: usize,
    /// The changes, as table rows.
    rows: String,
}

/// Records the steps of a pipeline.
#[derive(Default)]
pub struct Page {
    options: PrintOptions,
    before: String,
    nodes: usize,
    steps: Vec<Step>,
}

impl Observer for Page {
    fn before(&mut self, _: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        if self.steps.is_empty() {
            (self.before, self.nodes) = (self.text(graph), graph.all_nodes().count());
        }
        Ok(())
    }

    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        let mut rows = String::new();
        if run.changed {
            let now = self.text(graph);
            rows = compared(&self.before, &now);
            self.before = now;
        }
        // A graph may be edited and end up unchanged.
        let changed = !rows.is_empty();
        let nodes = graph.all_nodes().count();
        self.steps.push(Step { name: run.stage.to_string(), time: run.time, changed, nodes, rows });
        Ok(())
    }
}

impl Page {
    /// A page of graphs printed like this.
    pub fn new(options: PrintOptions) -> Page {
        Page { options, ..Page::default() }
    }

    fn text(&self, graph: &Graph) -> String {
        String::from_utf8_lossy(&print(graph, self.options)).into_owned()
    }

    /// The page.
    pub fn html(&self, name: &str, pipeline: &str, graph: &Graph, session: &Session) -> String {
        let (name, pipeline) = (escaped(name), escaped(pipeline));
        let nodes = graph.all_nodes().count();
        let summary = match self.steps.is_empty() {
            true => format!("{nodes} nodes; no pass ran."),
            false => format!("<code>{pipeline}</code> transformed {} nodes into {nodes}.", self.nodes),
        };
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title>\n<style>\n{STYLE}</style></head>\n\
             <body>\n<h1>{name}</h1>\n<p>{summary}</p>\n"
        );
        page += &self.timeline();
        page += &format!("<h2>Graph</h2>\n{LEGEND}<div class=\"drawing\">\n{}</div>\n", svg(graph));
        page += &apart(session);
        page += &self.changes();
        page += &kernels(graph);
        page += &counted(session);
        page + &format!("<script>\n{SCRIPT}</script>\n</body></html>\n")
    }

    /// One bar per pass, proportional to its time.
    fn timeline(&self) -> String {
        let longest = self.steps.iter().map(|step| step.time).max().unwrap_or_default().as_secs_f64();
        let mut text = "<h2>Passes</h2>\n<table class=\"timeline\">\n<tr><th>pass</th><th>ms</th><th></th><th>nodes after it</th></tr>\n".to_owned();
        for (i, step) in self.steps.iter().enumerate() {
            let (ms, share) = (step.time.as_secs_f64() * 1e3, step.time.as_secs_f64() / longest.max(1e-9));
            let name = escaped(&step.name);
            let name = if step.changed { format!("<a href=\"#pass{i}\">{name}</a>") } else { name };
            let class = if step.changed { "changed" } else { "idle" };
            let _ = writeln!(
                text,
                "<tr class=\"{class}\"><td>{name}</td><td>{ms:.3}</td><td><div class=\"bar\" style=\"width:{:.1}px\"></div></td><td>{}</td></tr>",
                share * 240.0,
                step.nodes
            );
        }
        text + "</table>\n"
    }

    fn changes(&self) -> String {
        let mut text = "<h2>Changes</h2>\n<p><button data-open=\"1\">expand all</button> <button data-open=\"\">collapse all</button></p>\n".to_owned();
        for (i, step) in self.steps.iter().enumerate().filter(|(_, step)| step.changed) {
            let _ = write!(
                text,
                "<details open id=\"pass{i}\"><summary>{}</summary>\n<table class=\"diff\">\n{}</table></details>\n",
                escaped(&step.name),
                step.rows
            );
        }
        if self.steps.iter().all(|step| !step.changed) {
            text += "<p>No pass changed the graph.</p>\n";
        }
        text
    }
}

/// A side-by-side diff of two texts, with changed words marked.
fn compared(old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    if old.len().max(new.len()) > MOST_COMPARED {
        let (old, new) = (old.lines().count(), new.lines().count());
        return format!("<tr><td>{old} lines</td><td>{new} lines</td></tr>\n");
    }
    let changes = LineChanges::new(old, new);
    let mut rows = String::new();
    for (i, group) in changes.groups(AROUND).iter().enumerate() {
        if i > 0 {
            rows += "<tr class=\"gap\"><td>⋮</td><td>⋮</td></tr>\n";
        }
        group.iter().for_each(|step| side_by_side(&mut rows, &changes, step));
    }
    rows
}

/// The rows of one change: deleted and inserted lines next to each other.
fn side_by_side(rows: &mut String, changes: &LineChanges<'_>, step: &DiffOp) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for changed in changes.lines(step) {
        let mut line = String::new();
        for (marked, text) in changed.parts {
            let text = escaped(text.trim_end_matches('\n'));
            line += &if marked && !text.is_empty() { format!("<mark>{text}</mark>") } else { text };
        }
        match changed.tag {
            ChangeTag::Equal => {
                left.push(line.clone());
                right.push(line);
            }
            ChangeTag::Delete => left.push(line),
            ChangeTag::Insert => right.push(line),
        }
    }
    let (gone, come) = match step {
        DiffOp::Equal { .. } => ("", ""),
        _ => (" class=\"gone\"", " class=\"come\""),
    };
    let (left, right) = (joined_constants(left), joined_constants(right));
    for i in 0..left.len().max(right.len()) {
        let cell = |lines: &[String], class: &str| match lines.get(i) {
            Some(line) => format!("<td{class}>{line}</td>"),
            None => "<td></td>".to_owned(),
        };
        let _ = writeln!(rows, "<tr>{}{}</tr>", cell(&left, gone), cell(&right, come));
    }
}

/// Runs of constants as one collapsed line each: a graph may begin with hundreds.
fn joined_constants(lines: Vec<String>) -> Vec<String> {
    const FEWEST: usize = 4;
    let is_constant = |line: &String| ["prim::Constant[", "prim::Constant("].iter().any(|kind| line.contains(kind));
    let mut joined = Vec::new();
    for run in lines.chunk_by(|a, b| is_constant(a) == is_constant(b)) {
        if run.len() < FEWEST || !is_constant(&run[0]) {
            joined.extend_from_slice(run);
            continue;
        }
        let (count, text) = (run.len(), run.join("<br>"));
        joined.push(format!("<details class=\"constants\"><summary>{count} constants</summary>{text}</details>"));
    }
    joined
}

/// Pairs that `fuse` left apart, with its reasons.
fn apart(session: &Session) -> String {
    let causes = fusion_report::causes(session.remarks.clone(), "producers-fused");
    let head = "<h2>What did not fuse, and why</h2>\n";
    if causes.is_empty() {
        let ran = session.stats.keys().any(|counter| counter.starts_with("fuse."));
        return if ran { format!("{head}<p>No pair of operators was refused.</p>\n") } else { String::new() };
    }
    let mut text = format!("{head}<table>\n");
    for (why, remarks) in &causes {
        let places: Vec<String> = fusion_report::places(remarks).iter().map(|line| escaped(line)).collect();
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
            remarks.len(),
            escaped(why),
            places.join("<br>")
        );
    }
    text + "</table>\n"
}

/// The kernels of fusion groups, and what no group took.
fn kernels(graph: &Graph) -> String {
    let (tally, unit) = (Tally::of(graph), whole_graph::unit(graph, None));
    let (inside, outside) = (tally.inside, tally.outside.len());
    let mut text = format!(
        "<h2>Kernels</h2>\n<p>Fusion groups: {}. Pointwise operators in them: {inside}, outside: {outside}.</p>\n",
        tally.groups.len()
    );
    for (group, why) in &unit.refused {
        let _ = writeln!(text, "<p>{} has no kernel: {}</p>", escaped(group), escaped(&why.to_string()));
    }
    if !unit.text.is_empty() {
        let _ = writeln!(text, "<details><summary>C</summary><pre>{}</pre></details>", escaped(&unit.text));
    }
    text
}

/// The counters of the passes.
fn counted(session: &Session) -> String {
    let mut rows: Vec<(&String, &u64)> = session.stats.iter().collect();
    rows.sort();
    let mut text = "<h2>Counters</h2>\n<table>\n".to_owned();
    for (name, n) in rows {
        let _ = writeln!(text, "<tr><td>{}</td><td>{n}</td></tr>", escaped(name));
    }
    text + "</table>\n"
}
