//! The observers that the driver attaches to the runner: printers, the verifier, timers.

use crate::settings::PRINT_TREE_DIR;
use jitopt_core::ir::Graph;
use jitopt_core::pass::{Observer, PassRun, RunError};
use jitopt_core::report::line_changes::LineChanges;
use jitopt_core::text::{PrintOptions, print};
use jitopt_core::verify;
use similar::ChangeTag;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Verifies the graph after every pass that changed it.
pub struct VerifyEach;

impl Observer for VerifyEach {
    fn goes_inside(&self) -> bool {
        true
    }

    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        if !run.changed {
            return Ok(());
        }
        let report = verify::verify(graph);
        match report.has_errors() {
            true => Err(RunError::Broken { pass: run.stage.pass.name, report: verify::render(graph, &report) }),
            false => Ok(()),
        }
    }
}

/// The graphs to print, and the lines to keep of them.
#[derive(Default)]
pub struct Watcher {
    /// Passes before which the graph is printed.
    pub before: Vec<&'static str>,
    /// Passes after which the graph is printed.
    pub after: Vec<&'static str>,
    /// Whether the graph is printed after every pass.
    pub after_all: bool,
    /// The form in which changes are printed, if they are.
    pub changed: Option<Changed>,
    /// The text that printed lines contain.
    pub filter: Option<String>,
    /// The options of printed graphs.
    pub options: PrintOptions,
    /// Whether changed words have ANSI colours.
    pub colour: bool,
    /// The printed output.
    pub out: Vec<u8>,
    /// The graph as it was printed last.
    pub last: Vec<u8>,
}

/// The form in which a change is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The whole graph.
    Full,
    /// A diff of lines.
    Diff,
    /// A diff of words.
    Word,
}

impl Watcher {
    /// Whether nothing is printed.
    pub fn is_idle(&self) -> bool {
        self.before.is_empty() && self.after.is_empty() && !self.after_all && self.changed.is_none()
    }

    fn title(&mut self, text: &str) {
        self.out.extend(format!("# {text}\n").as_bytes());
    }

    fn show(&mut self, text: &[u8]) {
        match &self.filter {
            None => self.out.extend(text),
            Some(wanted) => {
                let keep = |line: &&[u8]| memmem(line, wanted.as_bytes());
                text.split_inclusive(|&b| b == b'\n').filter(keep).for_each(|line| self.out.extend(line));
            }
        }
    }

    fn change(&mut self, how: Changed, name: &str, now: &[u8]) {
        let old = String::from_utf8_lossy(&self.last).into_owned();
        let new = String::from_utf8_lossy(now).into_owned();
        if old == new {
            return self.title(&format!("{name} changed nothing"));
        }
        self.title(&format!("{name} changed"));
        match how {
            Changed::Full => self.show(now),
            Changed::Diff => {
                let text = LineChanges::new(&old, &new).unified(2, "before", &format!("after {name}"));
                self.show(text.as_bytes());
            }
            Changed::Word => {
                let text = words(&old, &new, self.colour);
                self.show(text.as_bytes());
            }
        }
    }
}

fn memmem(line: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || line.windows(wanted.len()).any(|window| window == wanted)
}

/// Changed lines with the changed words marked: `[-old-]{+new+}`, or in colours.
fn words(old: &str, new: &str, colour: bool) -> String {
    let changes = LineChanges::new(old, new);
    let mut out = String::new();
    for group in changes.groups(1) {
        for line in group.iter().flat_map(|step| changes.lines(step)) {
            let (sign, open, close) = match (line.tag, colour) {
                (ChangeTag::Equal, _) => (' ', "", ""),
                (ChangeTag::Delete, false) => ('-', "[-", "-]"),
                (ChangeTag::Delete, true) => ('-', "\x1b[31m", "\x1b[0m"),
                (ChangeTag::Insert, false) => ('+', "{+", "+}"),
                (ChangeTag::Insert, true) => ('+', "\x1b[32m", "\x1b[0m"),
            };
            out.push(sign);
            for (is_marked, text) in line.parts {
                let text = text.trim_end_matches('\n');
                out.push_str(&if is_marked { format!("{open}{text}{close}") } else { text.to_owned() });
            }
            out.push('\n');
        }
        out.push_str("...\n");
    }
    out
}

impl Observer for Watcher {
    fn before(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        let name = run.stage.pass.name;
        if self.before.contains(&name) {
            self.title(&format!("IR before {}", run.stage));
            let text = print(graph, self.options);
            self.show(&text);
        }
        if self.changed.is_some() && (run.index == 0 || self.last.is_empty()) {
            self.last = print(graph, self.options);
        }
        Ok(())
    }

    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        let name = run.stage.pass.name;
        if self.after_all || self.after.contains(&name) {
            self.title(&format!("IR after {}", run.stage));
            let text = print(graph, self.options);
            self.show(&text);
        }
        if let Some(how) = self.changed {
            let now = if run.changed { print(graph, self.options) } else { self.last.clone() };
            self.change(how, &run.stage.to_string(), &now);
            self.last = now;
        }
        Ok(())
    }
}

/// Writes the graph after every pass that changed it: `DIR/FILE/003-cse.ir`, and
/// `DIR/FILE/000-input.ir`.
pub struct TreeWriter {
    folder: PathBuf,
    options: PrintOptions,
}

impl TreeWriter {
    /// The directory is named after the path of the file; later graphs of a file are numbered.
    pub fn new(dir: &Path, file: &str, number: usize, options: PrintOptions) -> TreeWriter {
        let name = if file == "<stdin>" { "stdin" } else { file.strip_suffix(".ir").unwrap_or(file) };
        let flat = name.trim_start_matches(['/', '.', '\\']).replace(['/', '\\', ':'], "_");
        let folder = dir.join(if number < 2 { flat } else { format!("{flat}.{number}") });
        TreeWriter { folder, options }
    }

    fn write(&self, name: &str, graph: &Graph) -> Result<(), RunError> {
        let path = self.folder.join(name);
        let written =
            std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&path, print(graph, self.options)));
        let message = |error| format!("{PRINT_TREE_DIR}: cannot write `{}`: {error}", path.display());
        written.map_err(|error| RunError::Unwritable(message(error)))
    }
}

impl Observer for TreeWriter {
    fn before(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        if run.index == 0 { self.write("000-input.ir", graph) } else { Ok(()) }
    }

    fn after(&mut self, run: &PassRun<'_>, graph: &Graph) -> Result<(), RunError> {
        let name = format!("{:03}-{}.ir", run.index + 1, run.stage.pass.name);
        if run.changed { self.write(&name, graph) } else { Ok(()) }
    }
}

/// The run times of passes.
#[derive(Default)]
pub struct Timer {
    /// Pass with options, time, whether it changed anything.
    pub rows: Vec<(String, Duration, bool)>,
}

impl Observer for Timer {
    fn goes_inside(&self) -> bool {
        true
    }

    fn after(&mut self, run: &PassRun<'_>, _: &Graph) -> Result<(), RunError> {
        self.rows.push((run.stage.to_string(), run.time, run.changed));
        Ok(())
    }
}

impl Timer {
    /// Renders a table, JSON, or a trace for `chrome://tracing`.
    pub fn render(&self, format: &str) -> String {
        match format {
            "json" => self.json(),
            "trace" => self.trace(),
            _ => self.table(),
        }
    }

    fn table(&self) -> String {
        let total: Duration = self.rows.iter().map(|row| row.1).sum();
        let share = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
        let row = |(pass, time, changed): &(String, Duration, bool)| {
            let changed = if *changed { "changed" } else { "" };
            format!("{:>12.3} ms {:>5.1} %  {pass:<40} {changed}", time.as_secs_f64() * 1e3, share(*time))
        };
        let rows: Vec<String> = self.rows.iter().map(|r| row(r).trim_end().to_owned()).collect();
        format!("{}\n{:>12.3} ms         total\n", rows.join("\n"), total.as_secs_f64() * 1e3)
    }

    fn json(&self) -> String {
        let row = |(pass, time, changed): &(String, Duration, bool)| serde_json::json!({"pass": pass, "seconds": time.as_secs_f64(), "changed": changed});
        serde_json::json!({"version": 1, "passes": self.rows.iter().map(row).collect::<Vec<_>>()}).to_string()
    }

    fn trace(&self) -> String {
        let mut start = Duration::ZERO;
        let mut events = Vec::new();
        for (pass, time, changed) in &self.rows {
            events.push(serde_json::json!({
                "name": pass, "ph": "X", "pid": 1, "tid": 1, "args": {"changed": changed},
                "ts": start.as_secs_f64() * 1e6, "dur": time.as_secs_f64() * 1e6,
            }));
            start += *time;
        }
        serde_json::json!({"traceEvents": events}).to_string()
    }
}
