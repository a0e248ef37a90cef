//! The table of checks per release, `testdata/releases/table.md`: of the graphs in the corpus's
//! directory `versions`.

use super::recorded::{numbers, release};
use jitopt_core::text::{ParseOptions, PrintOptions, parse, print};
use jitopt_core::verify::verify;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The checks on the graphs of a directory.
#[derive(Default)]
struct Row {
    graphs: usize,
    back: usize,
    verified: usize,
    equal: usize,
    compared: usize,
    incomparable: usize,
}

/// All directories.
#[derive(Default)]
pub struct ReleaseTable {
    rows: BTreeMap<String, Row>,
    passes: BTreeMap<&'static str, (usize, usize)>,
    differences: Vec<String>,
}

impl ReleaseTable {
    /// Whether a file belongs into the table.
    pub fn holds(path: &Path) -> bool {
        path.components().any(|part| part.as_os_str() == "versions")
    }

    fn row(&mut self, path: &Path) -> &mut Row {
        self.rows.entry(release(path).expect("a folder is called by a release")).or_default()
    }

    /// Reads, prints and verifies one graph.
    pub fn check(&mut self, path: &Path) {
        let text = std::fs::read(path).expect("a readable file");
        let parsed = parse(&text, ParseOptions::default()).ok();
        let back = parsed.as_ref().is_some_and(|parsed| print(&parsed.graph, PrintOptions::default()) == text);
        let verified = parsed.is_some_and(|parsed| !verify(&parsed.graph).has_errors());
        let row = self.row(path);
        row.graphs += 1;
        row.back += usize::from(back);
        row.verified += usize::from(verified);
    }

    /// Notes the result of a pass that was compared.
    pub fn compared(&mut self, path: &Path, pass: &'static str, equal: bool) {
        let row = self.row(path);
        row.compared += 1;
        row.equal += usize::from(equal);
        let all = self.passes.entry(pass).or_default();
        *all = (all.0 + usize::from(equal), all.1 + 1);
    }

    /// Notes one that cannot be.
    pub fn incomparable(&mut self, path: &Path) {
        self.row(path).incomparable += 1;
    }

    /// Notes why one differs.
    pub fn differs(&mut self, name: &str, reason: &str) {
        self.differences.push(format!("- `{name}`: {reason}\n"));
    }

    /// In Markdown.
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut rows: Vec<(&String, &Row)> = self.rows.iter().collect();
        rows.sort_by_key(|(name, _)| (name.starts_with("logs"), numbers(name), name.len()));
        for (name, row) in rows {
            let Row { graphs, back, verified, equal, compared, incomparable } = row;
            let passes = if *compared == 0 { String::new() } else { format!("{equal} of {compared}") };
            let left = if *incomparable == 0 { String::new() } else { incomparable.to_string() };
            let _ = writeln!(text, "| {name} | {graphs} | {back} | {verified} | {passes} | {left} |");
        }
        let (equal, all) = self.passes.values().fold((0, 0), |sum, pass| (sum.0 + pass.0, sum.1 + pass.1));
        let left: usize = self.rows.values().map(|row| row.incomparable).sum();
        let _ = writeln!(text, "\nResults of passes: {equal} of {all} are PyTorch's; {left} cannot be compared.\n");
        text += "| pass | the same |\n|---|---:|\n";
        for (pass, (equal, all)) in &self.passes {
            let _ = writeln!(text, "| `{pass}` | {equal} of {all} |");
        }
        text += "\nWhat differs, and why:\n\n";
        self.differences.iter().for_each(|line| text += line);
        text
    }
}

const HEAD: &str = "\
# Graphs of other releases

What PyTorch 1.0.1 to 2.9.1 printed: plain graphs, plans of executors (`-profiling`, `-legacy`),
graphs out of logs (`logs-`), and graphs before and after a pass of that release.
`JITOPT_CORPUS=FOLDER cargo test --test suite recorded_passes` computes this table and compares it
with this file, `JITOPT_BLESS=1` writes it. A graph counts as back when it is printed byte for byte
as it was read, and as verified when the verifier finds no error. A pass result is the same when
only names and legal order differ. `inline` cannot be compared where the graphs of the callees were
not recorded.

| folder | graphs | back | verified | pass results | not comparable |
|---|---:|---:|---:|---:|---:|
";
