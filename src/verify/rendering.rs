//! Findings drawn into the text of their graph.

use super::finding::{Finding, Report, Spot};
use crate::ir::Graph;
use crate::text::{Mark, Part, Severity, print_with_marks};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use std::ops::Range;

/// Texts of up to this many lines are shown in full.
const WHOLE: usize = 60;
/// The number of lines shown before and after one with a finding, in longer texts.
const CONTEXT: usize = 4;
/// The number of enclosing lines shown: the heads of the innermost blocks and of their nodes.
const ENCLOSING: usize = 8;
/// The number of findings drawn; the others are counted.
const DRAWN: usize = 100;
/// The longest line shown, in characters.
const WIDEST: usize = 240;

/// The position of a finding in the printed text of a graph, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// The position of each finding of a report in the text that [`text::print`](crate::text::print)
/// gives, in order. The columns of lines that are indented more than 80 blanks are those of
/// [`render`].
pub fn positions(graph: &Graph, report: &Report) -> Vec<Position> {
    if report.is_clean() {
        return Vec::new();
    }
    let page = Page::new(graph, report);
    let position = |span: &Range<usize>| {
        let line = page.line_of(span.start);
        Position { line: line + 1, column: page.column(line, span.start) + 1 }
    };
    page.spans.iter().map(position).collect()
}

/// The text of a graph with its findings drawn under their lines. Of a long text only these lines,
/// their neighbours and the lines that enclose them are shown.
pub fn render(graph: &Graph, report: &Report) -> String {
    let page = Page::new(graph, report);
    let drawn = page.drawn(report);
    let shown = page.shown(&drawn);
    let mut out = String::new();
    let mut next = 0;
    let mut elided = false;
    for line in 0..page.starts.len() {
        if !shown.contains(&line) {
            elided = true;
            continue;
        }
        if std::mem::take(&mut elided) {
            out.push_str("  …\n");
        }
        push_clipped(&mut out, &page.line(line));
        while let Some(&finding) = drawn.get(next).filter(|&&finding| page.line_of(page.spans[finding].start) == line) {
            page.draw(&mut out, line, &page.spans[finding], &report.findings[finding]);
            next += 1;
        }
    }
    if elided {
        out.push_str("  …\n");
    }
    summary(&mut out, report, drawn.len());
    out
}

fn push_clipped(out: &mut String, line: &str) {
    match line.char_indices().nth(WIDEST) {
        Some((end, _)) => out.extend([&line[..end], "…"]),
        None => out.push_str(line),
    }
    out.push('\n');
}

fn summary(out: &mut String, report: &Report, drawn: usize) {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let counts = [(report.errors().count(), "error"), (report.warnings().count(), "warning")];
    let counts: Vec<String> = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(n, what)).collect();
    if !counts.is_empty() {
        out.push_str(&counts.join(", "));
        if drawn < report.findings.len() {
            let _ = write!(out, "; the first {drawn} are shown");
        }
        out.push('\n');
    }
}

/// A printed graph and the positions of the findings in it.
struct Page {
    text: Vec<u8>,
    /// The offsets of the lines.
    starts: Vec<usize>,
    /// The bytes that each finding refers to.
    spans: Vec<Range<usize>>,
}

impl Page {
    fn new(graph: &Graph, report: &Report) -> Page {
        let node = |finding: &Finding| finding.at.spot.node(report.graph_of(graph, finding.at));
        let nodes: Vec<_> = report.findings.iter().map(|finding| (finding.at.section, node(finding))).collect();
        let wanted: FxHashSet<_> = nodes.iter().copied().collect();
        let (text, marks) = print_with_marks(graph, wanted);
        let part = |mark: Mark| ((mark.section, mark.node, mark.part), mark.span);
        let marks: FxHashMap<_, Range<usize>> = marks.into_iter().map(part).collect();
        let span = |(finding, &(section, node)): (&Finding, &(usize, _))| {
            let exact = marks.get(&(section, node, part_of(finding.at.spot)));
            // A node that has left the graph has no line: the first one is used for it.
            exact.or_else(|| marks.get(&(section, node, Part::Kind))).cloned().unwrap_or(0..1)
        };
        let spans = report.findings.iter().zip(&nodes).map(span).collect();
        let line_ends = memchr::memchr_iter(b'\n', &text).map(|end| end + 1);
        let starts = std::iter::once(0).chain(line_ends).filter(|&start| start < text.len()).collect();
        Page { text, starts, spans }
    }

    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at).saturating_sub(1)
    }

    fn bytes(&self, line: usize) -> &[u8] {
        let end = self.starts.get(line + 1).map_or(self.text.len(), |&next| next);
        let bytes = &self.text[self.starts[line]..end];
        bytes.strip_suffix(b"\n").unwrap_or(bytes)
    }

    fn line(&self, line: usize) -> String {
        String::from_utf8_lossy(self.bytes(line)).into_owned()
    }

    /// The number of characters before a byte of a line.
    fn column(&self, line: usize, at: usize) -> usize {
        String::from_utf8_lossy(&self.text[self.starts[line]..at]).chars().count()
    }

    /// The findings to draw in the order of the text; errors take precedence over warnings when
    /// there are too many.
    fn drawn(&self, report: &Report) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        if order.len() > DRAWN {
            order.sort_by_key(|&i| report.findings[i].severity != Severity::Error);
            order.truncate(DRAWN);
        }
        order.sort_by_key(|&i| self.spans[i].start);
        order
    }

    fn shown(&self, drawn: &[usize]) -> FxHashSet<usize> {
        let lines = self.starts.len();
        if lines <= WHOLE {
            return (0..lines).collect();
        }
        let mut shown = FxHashSet::default();
        for &finding in drawn {
            let line = self.line_of(self.spans[finding].start);
            shown.extend(line.saturating_sub(CONTEXT)..(line + CONTEXT + 1).min(lines));
            shown.extend(self.enclosing(line));
        }
        shown
    }

    /// The nearest lines above that are indented less, innermost first.
    fn enclosing(&self, line: usize) -> Vec<usize> {
        /// The number of lines looked at for each finding.
        const LOOKED_AT: usize = 2000;
        let mut found = Vec::new();
        let mut depth = self.depth(line);
        for above in (0..line).rev().take(LOOKED_AT) {
            if self.depth(above) < depth {
                depth = self.depth(above);
                found.push(above);
            }
            if found.len() == ENCLOSING || depth == 0 {
                break;
            }
        }
        found
    }

    /// A node without outputs begins with one blank more than its siblings.
    fn depth(&self, line: usize) -> usize {
        self.bytes(line).iter().take_while(|b| **b == b' ').count() / 2
    }

    /// `^~~ error: …`, with the note and the help on the lines below.
    fn draw(&self, out: &mut String, line: usize, span: &Range<usize>, finding: &Finding) {
        let column = self.column(line, span.start).min(WIDEST);
        let width = String::from_utf8_lossy(&self.text[span.clone()]).chars().count().clamp(1, WIDEST);
        let severity = if finding.severity == Severity::Error { "error" } else { "warning" };
        let _ = writeln!(out, "{:column$}^{:~<rest$} {severity}: {}", "", "", finding.message, rest = width - 1);
        let below = column + width + 1;
        let notes = [("note", &finding.note), ("help", &finding.help)];
        for (what, text) in notes.into_iter().filter_map(|(what, text)| Some((what, text.as_ref()?))) {
            let _ = writeln!(out, "{:below$}{what}: {text}", "");
        }
    }
}

fn part_of(spot: Spot) -> Part {
    match spot {
        Spot::Node(_) | Spot::Block(_) => Part::Kind,
        Spot::Operand(_, i) => Part::Operand(i),
        Spot::Output(_, i) => Part::Output(i),
    }
}
