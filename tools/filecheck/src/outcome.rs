//! The results of directives, and the report that explains failures.

use crate::blanks::Canonical;
use crate::check_file::{CheckFile, Directive};
use crate::needle::{Impossible, Needle, Variables};
use crate::problem::with_caret;
use std::fmt::{self, Write as _};
use std::ops::Range;

/// The result of a directive, in offsets of the canonical text.
#[derive(Debug)]
pub(crate) enum State {
    NotTried,
    Matched(Range<usize>),
    Absent,
    Forbidden(Range<usize>),
    Misplaced { found: Range<usize>, reason: &'static str, previous: usize },
    Missing(Search),
    Impossible(Impossible),
}

/// A failed search, with the data to look for near matches.
#[derive(Debug)]
pub(crate) struct Search {
    region: Range<usize>,
    /// A text similar to what was searched.
    sample: String,
    variables: Variables,
    /// The values of the variables that the directive uses.
    values: Vec<(String, String)>,
    /// Number of matches found of those that a COUNT requires.
    done: usize,
}

impl State {
    /// Nothing found in the region.
    pub(crate) fn missing(region: Range<usize>, needle: &Needle, variables: &Variables) -> State {
        let values = needle.inputs(variables).into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let (sample, variables) = (needle.sample(variables), variables.clone());
        State::Missing(Search { region, sample, variables, values, done: 0 })
    }

    /// Records that some of the matches that a COUNT requires were found.
    pub(crate) fn after(&mut self, matches: usize) {
        if let State::Missing(search) = self {
            search.done = matches;
        }
    }
}

/// The verdict on a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Matched at this line and column of the input.
    Matched {
        /// Line from 1.
        line: usize,
        /// Column from 1.
        column: usize,
    },
    /// A NOT directive that matched nowhere.
    Absent,
    /// Failed, with the reason.
    Failed(String),
    /// Not tried, because an earlier one failed.
    NotTried,
}

/// A directive and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The directive as written, from its prefix on.
    pub directive: String,
    /// Its line in the check file, from 1.
    pub line: usize,
    /// The verdict.
    pub verdict: Verdict,
}

/// The result of running a check file on an input. `Display` renders the report.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One row per directive, in the order of the check file.
    pub rows: Vec<Row>,
    passed: bool,
    report: String,
}

impl Outcome {
    /// Whether every directive passed.
    pub fn passed(&self) -> bool {
        self.passed
    }

    pub(crate) fn empty_input(checks: &CheckFile, input_name: &str) -> Outcome {
        let report =
            format!("{input_name}: error: the input is empty, so {} checks nothing (see --allow-empty)", checks.name);
        Outcome { rows: Vec::new(), passed: false, report }
    }

    pub(crate) fn new(checks: &CheckFile, input_name: &str, input: &Canonical<'_>, states: Vec<State>) -> Outcome {
        let explained =
            checks.directives.iter().zip(&states).map(|(directive, state)| Explained::new(directive, state, input));
        let explained: Vec<Explained> = explained.collect();
        let passed = explained.iter().all(|one| matches!(one.verdict, Verdict::Matched { .. } | Verdict::Absent));
        let row = |(directive, one): (&Directive, &Explained)| Row {
            directive: directive.spelling.clone(),
            line: directive.line,
            verdict: one.verdict.clone(),
        };
        let rows: Vec<Row> = checks.directives.iter().zip(&explained).map(row).collect();
        let report = if passed { String::new() } else { report(checks, input_name, input, &rows, &explained) };
        Outcome { rows, passed, report }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}

/// A verdict, the line of the input that shows the reason, and notes.
struct Explained {
    verdict: Verdict,
    focus: Option<(usize, usize)>,
    notes: Vec<String>,
}

impl Explained {
    fn plain(verdict: Verdict) -> Explained {
        Explained { verdict, focus: None, notes: Vec::new() }
    }

    fn failed(why: String, focus: Option<(usize, usize)>) -> Explained {
        Explained { focus, ..Explained::plain(Verdict::Failed(why)) }
    }

    fn new(directive: &Directive, state: &State, input: &Canonical<'_>) -> Explained {
        let at = |offset: usize| input.place(offset);
        match state {
            State::NotTried => Explained::plain(Verdict::NotTried),
            State::Absent => Explained::plain(Verdict::Absent),
            State::Matched(range) => {
                let (line, column) = at(range.start);
                Explained::plain(Verdict::Matched { line, column })
            }
            State::Forbidden(range) => {
                let place = at(range.start);
                Explained::failed(format!("forbidden, but found at {}", show(place)), Some(place))
            }
            State::Misplaced { found, reason, previous } => {
                let place = at(found.start);
                let mut explained = Explained::failed(format!("{reason}: found at {}", show(place)), Some(place));
                explained.notes.push(format!("the match before it ends at {}", show(at(*previous))));
                explained
            }
            State::Impossible(impossible) => Explained::failed(impossible_reason(impossible), None),
            State::Missing(search) => search.explain(directive, input),
        }
    }
}

fn show((line, column): (usize, usize)) -> String {
    format!("{line}:{column}")
}

fn impossible_reason(impossible: &Impossible) -> String {
    match impossible {
        Impossible::Undefined(names) => format!("no directive before it gives a value to {}", names.join(", ")),
        Impossible::Expression(error) => format!("bad regular expression: {}", error.lines().last().unwrap_or(error)),
    }
}

impl Search {
    /// Describes the searched region and the nearest match.
    fn explain(&self, directive: &Directive, input: &Canonical<'_>) -> Explained {
        let (from, to) = (input.place(self.region.start), input.place(self.region.end));
        let (mut why, focus) = self.nearest(directive, input);
        if directive.count > 1 {
            why = format!("found {} of {} times, then {why}", self.done, directive.count);
        }
        let mut explained = Explained::failed(why, Some(focus.unwrap_or(from)));
        explained.notes.push(format!("searched from {} to {}", show(from), show(to)));
        explained.notes.extend(self.values.iter().map(|(name, value)| format!("with {name} = `{value}`")));
        explained
    }

    /// Looks for the directive elsewhere in the input, and otherwise for the most similar line.
    fn nearest(&self, directive: &Directive, input: &Canonical<'_>) -> (String, Option<(usize, usize)>) {
        let find = |range: Range<usize>| match directive.needle.find(&input.text[range.clone()], &self.variables) {
            Ok(Some(found)) => Some(input.place(found.range.start + range.start)),
            _ => None,
        };
        if let Some(place) = find(0..self.region.start) {
            return (format!("not found; occurs at {}, before the current position", show(place)), Some(place));
        }
        if let Some(place) = find(self.region.end..input.text.len()) {
            return (format!("not found; occurs at {}, in a later section", show(place)), Some(place));
        }
        match nearest(input, self.region.clone(), &self.sample) {
            Some(place) => (format!("not found; nearest is line {}", place.0), Some(place)),
            None => ("not found".to_owned(), None),
        }
    }
}

/// Maximum number of lines compared: the report need not be perfect, but it must not take minutes.
const CANDIDATES: usize = 10_000;

/// The line of the region that shares the largest fraction of its letter pairs with the sample.
fn nearest(input: &Canonical<'_>, region: Range<usize>, sample: &str) -> Option<(usize, usize)> {
    let wanted = pairs(sample);
    let mut best: Option<(f64, usize)> = None;
    let mut at = region.start;
    for line in input.text[region].split_inclusive('\n').take(CANDIDATES) {
        let score = likeness(&wanted, &pairs(line));
        if score >= 0.4 && best.is_none_or(|(other, _)| score > other) {
            best = Some((score, at + line.len() - line.trim_start().len()));
        }
        at += line.len();
    }
    best.map(|(_, at)| input.place(at))
}

/// Adjacent character pairs, sorted.
fn pairs(text: &str) -> Vec<(char, char)> {
    let mut pairs: Vec<(char, char)> = text.trim().chars().zip(text.trim().chars().skip(1)).collect();
    pairs.sort_unstable();
    pairs
}

/// The fraction of `wanted` that is in `other`, minus a small penalty for the rest of `other`.
fn likeness(wanted: &[(char, char)], other: &[(char, char)]) -> f64 {
    if wanted.is_empty() {
        return 0.0;
    }
    let (mut shared, mut at) = (0, 0);
    for pair in wanted {
        while at < other.len() && other[at] < *pair {
            at += 1;
        }
        if other.get(at) == Some(pair) {
            shared += 1;
            at += 1;
        }
    }
    let excess = other.len().saturating_sub(shared);
    shared as f64 / wanted.len() as f64 - 0.1 * excess as f64 / (excess + wanted.len()) as f64
}

/// The failures with their positions, then the table.
fn report(
    checks: &CheckFile,
    input_name: &str,
    input: &Canonical<'_>,
    rows: &[Row],
    explained: &[Explained],
) -> String {
    let mut out = String::new();
    for (directive, one) in checks.directives.iter().zip(explained) {
        if let Verdict::Failed(why) = &one.verdict {
            failure(&mut out, checks, directive, why);
            context(&mut out, input_name, input, one);
        }
    }
    out.push_str(&table(&checks.name, input_name, rows));
    out
}

fn failure(out: &mut String, checks: &CheckFile, directive: &Directive, why: &str) {
    let (line, column) = (directive.line, directive.column);
    let _ = writeln!(out, "{}:{line}:{column}: error: {}: {why}", checks.name, directive.word());
    let _ = writeln!(out, "{}", with_caret(line, &directive.source, column));
}

/// The lines around a position in the input.
fn context(out: &mut String, input_name: &str, input: &Canonical<'_>, one: &Explained) {
    for note in &one.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    let Some((focus, column)) = one.focus else { return };
    let lines = input.lines();
    let _ = writeln!(out, "  --> {input_name}:{focus}:{column}");
    for number in focus.saturating_sub(3).max(1)..=(focus + 3).min(lines.len()) {
        let mark = if number == focus { '>' } else { ' ' };
        let _ = writeln!(out, "  {mark}{number:>5} | {}", lines[number - 1]);
        if number == focus {
            let _ = writeln!(out, "         | {}^", " ".repeat(column.saturating_sub(1)));
        }
    }
}

fn table(check_name: &str, input_name: &str, rows: &[Row]) -> String {
    let widest = rows.iter().map(|row| row.directive.chars().count()).max().unwrap_or(0).min(60);
    let mut out = format!("directives of {check_name} on {input_name}:\n");
    for row in rows {
        let (mark, result) = match &row.verdict {
            Verdict::Matched { line, column } => ("ok  ", format!("{line}:{column}")),
            Verdict::Absent => ("ok  ", "absent".to_owned()),
            Verdict::Failed(why) => ("FAIL", why.clone()),
            Verdict::NotTried => ("-   ", "not tried".to_owned()),
        };
        let _ = writeln!(out, "  {mark} {:>4}: {:<widest$}  {result}", row.line, row.directive);
    }
    out
}
