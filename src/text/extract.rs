//! Graphs out of whatever the user has: `jitopt extract LOG`.
//!
//! People keep graphs as terminal scrollback, continuous-integration logs, test reports, forum
//! posts. There every line has a prefix (`[DUMP guard_elimination.cpp:020] `, a time stamp,
//! pytest's `E   `, a line number, indentation), lines of other threads are interleaved, and the
//! end may be missing. The extractor knows none of these decorations one by one, except PyTorch's
//! own tag, which names the file, the dump of a module, which names the method, and string
//! literals. Instead, all text before `graph(` is the prefix; the following lines with the same
//! prefix, in which numbers may differ, that look like lines of a graph form the graph. The running
//! time is linear in the size of the log.

mod ir_line;
mod log_prefix;
mod module_dump;
mod open_graph;
mod unquoting;

#[cfg(test)]
mod extract_tests;

use ir_line::{Header, find_header};
use log_prefix::{Prefix, reads_like_title, title};
use module_dump::ModuleDump;
use open_graph::OpenGraph;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use unquoting::unquoted;

/// The number of foreign lines inside a graph after which it counts as cut off.
const PATIENCE: usize = 64;

/// The most graphs open at a time, when the outputs of several processes are interleaved: the ranks
/// of one machine.
const MOST_OPEN: usize = 16;

/// The number of last lines outside of graphs in which a title is searched.
const TITLE_LINES: usize = 4;

/// A graph found in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// The title printed before the graph, such as `After moveGuardsToDefs`; for a section without
    /// its graph, its kind, such as `prim::FusionGroup_0`.
    pub name: Option<String>,
    /// The source file that printed it, such as `guard_elimination.cpp`, if PyTorch's log names it.
    pub source_file: Option<String>,
    /// `DUMP`, `UPDATE` or `DEBUG`, if PyTorch's log names it.
    pub level: Option<String>,
    /// The line of the log that has the header, from 1.
    pub first_line: usize,
    /// The graph with its sections, as PyTorch printed it.
    pub text: String,
    /// False when the end, or a section that a node refers to, is missing.
    pub complete: bool,
    /// The index of the first graph with the same text.
    pub duplicate_of: Option<usize>,
}

impl Extracted {
    /// The name of the source file without its extension: the best available approximation of the
    /// name of a pass.
    pub fn stem(&self) -> Option<&str> {
        let file = self.source_file.as_deref()?;
        Some(file.rsplit_once('.').map_or(file, |(stem, _)| stem))
    }
}

/// Every graph in a log, in the order of their headers. Duplicates are marked, not left out, so
/// that a caller can count how often each graph was printed.
pub fn extract(log: &[u8]) -> Vec<Extracted> {
    let log = decoded(log);
    let log = unquoted(&log);
    let mut scanner = Scanner::default();
    for (index, raw) in lines(&log.text).enumerate() {
        scanner.line(log.number(index), raw);
    }
    scanner.finish()
}

/// The evidence that a text is a log and not a file of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// PyTorch's own log, `[DUMP file.cpp:020] graph(`.
    JitLog,
    /// The graph is in a string literal, as in JSON or Python.
    Quoted,
    /// Other text precedes `graph(` on its line.
    Prefixed,
    /// Other lines precede the first graph.
    Surrounded,
    /// UTF-16, which some shells write when output is redirected.
    Utf16,
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogKind::JitLog => "this looks like a PyTorch log with graphs in it, not like a graph",
            LogKind::Quoted => "this is text with graphs in string literals, such as JSON, not a graph",
            LogKind::Prefixed => "this looks like a log with graphs in it: every line has a prefix",
            LogKind::Surrounded => "this looks like a log with graphs in it: other text precedes the first graph",
            LogKind::Utf16 => "this is UTF-16 text with graphs in it",
        })?;
        f.write_str("; `jitopt extract` extracts the graphs")
    }
}

/// Whether a text is a log with graphs in it, which `extract` understands and the parser does not.
/// Comments before a graph do not make a log, and a faulty line inside a graph is for the parser to
/// explain.
pub fn looks_like_log(text: &[u8]) -> Option<LogKind> {
    let decoded = decoded(text);
    let mut surrounded = false;
    for raw in lines(&decoded) {
        let line = cleaned(raw);
        let Some(header) = find_header(&line) else {
            let text = line.trim_ascii();
            surrounded |= !(text.is_empty() || [&b"#"[..], b"//", b";"].iter().any(|c| text.starts_with(c)));
            continue;
        };
        let prefix = Prefix::new(&line[..header.start]);
        if prefix.bytes.trim_ascii_start().starts_with(b"#") {
            continue;
        }
        let utf16 = matches!(decoded, Cow::Owned(_));
        let decorated = !prefix.is_blank() || raw.contains(&ESCAPE);
        let kinds = [
            (utf16, LogKind::Utf16),
            (prefix.tag.is_some(), LogKind::JitLog),
            (matches!(prefix.bytes.trim_ascii_end().last(), Some(b'"' | b'\'')), LogKind::Quoted),
            (decorated, LogKind::Prefixed),
            (surrounded, LogKind::Surrounded),
        ];
        return kinds.into_iter().find(|(applies, _)| *applies).map(|(_, kind)| kind);
    }
    None
}

/// Reads a log line by line.
#[derive(Default)]
struct Scanner<'a> {
    open: Vec<OpenGraph>,
    done: Vec<Extracted>,
    /// The last lines outside of graphs, in order, with their numbers.
    outside: VecDeque<(usize, &'a [u8])>,
    /// Whether the previous line belongs to the last graph in `open`.
    in_last: bool,
    /// The prefix of the graph that ended most recently.
    last_prefix: Option<Prefix>,
    /// The module dump that the log is in.
    modules: ModuleDump,
}

impl<'a> Scanner<'a> {
    fn line(&mut self, number: usize, raw: &'a [u8]) {
        let line = cleaned(raw);
        if self.claimed(&line) {
            return;
        }
        self.close_where(OpenGraph::may_be_over);
        self.modules.line(&line);
        if let Some(header) = find_header(&line) {
            self.begin(number, &line, header);
        } else if !line.is_empty() && !self.joined(&line) {
            self.foreign(number, raw, &line);
        }
    }

    /// Appends the line to the open graph that it fits best, the most recent among equals, and
    /// moves that graph to the end.
    fn claimed(&mut self, line: &[u8]) -> bool {
        let claims = self.open.iter().enumerate().filter_map(|(at, graph)| Some((at, graph.claim(line)?)));
        let Some((at, claim)) = claims.rev().min_by_key(|(_, claim)| claim.cost) else {
            return false;
        };
        let mut graph = self.open.remove(at);
        graph.take(claim);
        self.close_where(OpenGraph::may_be_over);
        self.open.push(graph);
        self.in_last = true;
        true
    }

    /// Opens a graph; an open graph of the same writer must then have been cut off.
    fn begin(&mut self, number: usize, line: &[u8], header: Header) {
        let prefix = Prefix::new(&line[..header.start]);
        let title = self.modules.method().or_else(|| self.title_for(number, &prefix));
        self.close_where(|graph| graph.is_ended_by(&prefix));
        let mut graph = OpenGraph::new(number, line, header, title);
        let known = self.open.iter().map(OpenGraph::prefix).chain(&self.last_prefix);
        known.for_each(|prefix| graph.learn_prefix(prefix));
        if self.open.len() == MOST_OPEN {
            let oldest = self.open.remove(0);
            self.close(oldest);
        }
        self.open.push(graph);
        self.in_last = true;
    }

    /// Joins the line to the previous one, if a terminal cut that one in two.
    fn joined(&mut self, line: &[u8]) -> bool {
        let last = self.open.last_mut().filter(|graph| self.in_last && graph.accepts_rest(line));
        last.map(|graph| graph.join(line)).is_some()
    }

    fn foreign(&mut self, number: usize, raw: &'a [u8], line: &[u8]) {
        self.in_last = false;
        self.open.iter_mut().for_each(|graph| graph.foreign += 1);
        self.close_where(|graph| graph.foreign > PATIENCE);
        if !line.ends_with(b"GRAPH_EXPORT>") {
            self.outside.push_back((number, raw));
            let surplus = self.outside.len().saturating_sub(TITLE_LINES);
            self.outside.drain(..surplus);
        }
    }

    /// The title of a graph whose header is on line `number`: a recent line with the same prefix,
    /// or a directly preceding line that reads like a title.
    fn title_for(&self, number: usize, prefix: &Prefix) -> Option<String> {
        let length = prefix.tag.as_ref().map_or(prefix.bytes.len(), |tag| tag.span.end);
        let recent = self.outside.iter().rev().filter(|(at, _)| at + 2 * TITLE_LINES > number);
        if prefix.is_blank() {
            let (at, raw) = self.outside.back()?;
            let line = cleaned(raw);
            return (at + 2 >= number && reads_like_title(&line)).then(|| title(&line)).flatten();
        }
        recent
            .filter_map(|(_, raw)| {
                let line = cleaned(raw);
                let like = prefix.likeness(length, &line);
                let rest = (like.of_prefix == length).then(|| title(&line[like.of_line..])).flatten()?;
                Some((like.differs.count_ones(), rest))
            })
            .min_by_key(|(differs, _)| *differs)
            .map(|(_, title)| title)
    }

    fn close_where(&mut self, over: impl Fn(&OpenGraph) -> bool) {
        while let Some(at) = self.open.iter().position(&over) {
            let graph = self.open.remove(at);
            self.close(graph);
            self.in_last &= at < self.open.len();
        }
    }

    fn close(&mut self, graph: OpenGraph) {
        self.last_prefix = Some(graph.prefix().clone());
        self.done.extend(graph.finish());
    }

    fn finish(mut self) -> Vec<Extracted> {
        self.close_where(|_| true);
        self.done.sort_by_key(|graph| graph.first_line);
        mark_duplicates(&mut self.done);
        self.done
    }
}

fn mark_duplicates(graphs: &mut [Extracted]) {
    let mut first = FxHashMap::default();
    let firsts: Vec<usize> =
        graphs.iter().enumerate().map(|(at, graph)| *first.entry(graph.text.as_str()).or_insert(at)).collect();
    for (at, first) in firsts.into_iter().enumerate() {
        graphs[at].duplicate_of = (first != at).then_some(first);
    }
}

/// The lines of a text, without their line feeds.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memchr(b'\n', text);
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// The byte that begins an escape sequence for colours.
const ESCAPE: u8 = 0x1b;

/// A line without colours, trailing carriage return and blanks, and the tag that closes an export.
fn cleaned(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(ESCAPE, raw).is_none() {
        return Cow::Borrowed(without_end(raw));
    }
    let mut line = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        line.extend_from_slice(&rest[..at]);
        rest = &rest[at + escape_length(&rest[at..])..];
    }
    line.extend_from_slice(rest);
    let length = without_end(&line).len();
    line.truncate(length);
    Cow::Owned(line)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_end();
    let ends_graph = |line: &&[u8]| matches!(line.last(), Some(b')' | b';' | b'}'));
    line.strip_suffix(b"</GRAPH_EXPORT>").filter(ends_graph).unwrap_or(line)
}

/// The length of the escape at the start of `text` (ECMA-48): `ESC [ … letter`, `ESC ] … BEL`, or
/// two bytes.
fn escape_length(text: &[u8]) -> usize {
    let ends: fn(u8) -> bool = match text.get(1) {
        Some(b'[') => |b| (0x40..=0x7e).contains(&b),
        Some(b']') => |b| b == 0x07,
        _ => return text.len().min(2),
    };
    text[2..].iter().position(|b| ends(*b)).map_or(text.len(), |at| at + 3)
}

/// The text in UTF-8, converted if it begins with the byte order mark of UTF-16; a mark of UTF-8 is
/// dropped.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    let unit: fn([u8; 2]) -> u16 = match text {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        [0xef, 0xbb, 0xbf, rest @ ..] => return Cow::Borrowed(rest),
        _ => return Cow::Borrowed(text),
    };
    let units = text[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let chars = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
    Cow::Owned(chars.collect::<String>().into_bytes())
}

/// Bytes as text for people, invalid UTF-8 replaced.
fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
