//! The parser.
//!
//! The text is a list of statements, distinguished by their first token. Blanks, line ends and
//! comments may stand between any two tokens and have no meaning, except the comment after a node
//! on the same line: that is its location.
//!
//! | begins with | statement |
//! |---|---|
//! | `%` | node with outputs |
//! | `=`, `ns::name`, `^Name` | node without outputs |
//! | `block0(` | block of the preceding node |
//! | `->` | results of a block, and its end |
//! | `return` | results of the graph, and its end |
//! | `with kind_0 = graph(` | subgraph of a node of the preceding graph, see `Parser::section` |
//!
//! A bad statement costs one diagnostic and is skipped up to the end of its line, so that all
//! errors of a file are reported at once; for a file that cannot be parsed, `mentions` also
//! reports what the verifier would. Blocks and sections nest on a list of frames, never on the
//! stack.
//!
//! Other comments, on lines of their own and after heads and results, are not PyTorch's and are
//! dropped: they hold CHECK lines, which must not appear in the output. A note that begins with
//! `#!`, which `--print-mutations` adds after a location, is dropped too.
//!
//! A user's operator may really end in `_0`, so a numbered kind is a plain kind until a `with` line
//! of that name follows. `prim::FusionGroup_0` restarts in every nested graph: the innermost open
//! graph that awaits the name gets the section.

mod mentions;
mod names;
mod node_lines;

use super::bytes::Cursor;
use super::diagnostic::{Diagnostic, Severity};
use super::extents::{is_kind, type_extent};
use super::file_kinds;
use super::frame::{Frame, OpenBlock};
use super::literal::Evidence;
use super::printer::BACKWARD;
use crate::ir::{Attribute, Block, Graph, Layout, Node, Value};
use crate::log::did_you_mean;
use crate::symbol::{Symbol, attr};
use crate::types::release::Release;
use crate::types::spelling;
use crate::types::{MAX_DEPTH, Type, gaps};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// Options of the parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParseOptions {
    /// The release whose rules hold, regardless of the text; `None` takes the newest that prints
    /// such text.
    pub release: Option<Release>,
}

impl ParseOptions {
    /// Options for the rules of a release.
    pub fn of(release: Release) -> ParseOptions {
        ParseOptions { release: Some(release) }
    }
}

/// The number of errors after which parsing stops.
const MAX_ERRORS: usize = 20;

/// A parsed graph.
#[derive(Debug)]
pub struct Parsed {
    /// The graph.
    pub graph: Graph,
    /// The offset of its start in the file.
    pub start: usize,
    /// The offset of the next graph or of the end of the file.
    pub end: usize,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a file that holds one graph.
pub fn parse(text: &[u8], options: ParseOptions) -> Result<Parsed, Vec<Diagnostic>> {
    let parsed = parse_from(text, 0, options)?;
    if parsed.end < text.len() {
        let span = parsed.end..Cursor { text, at: parsed.end }.line_end();
        let more = if is_header(&text[parsed.end..]) {
            Diagnostic::error(span, "a second graph in this file", "expected the end of the file after the first graph")
                .with_help("read all graphs of a file with `--split-input-file`")
        } else {
            Diagnostic::error(
                span,
                "unexpected text after the end of the graph",
                "expected a section, `with prim::…_0 = graph(`",
            )
            .with_help("`jitopt extract` extracts graphs from logs")
        };
        return Err(vec![more]);
    }
    Ok(parsed)
}

/// Reads all graphs of a file.
pub fn parse_all_graphs(text: &[u8], options: ParseOptions) -> Result<Vec<Parsed>, Vec<Diagnostic>> {
    let mut all = Vec::new();
    let mut at = 0;
    loop {
        let parsed = parse_from(text, at, options)?;
        at = parsed.end;
        all.push(parsed);
        if at >= text.len() {
            return Ok(all);
        }
    }
}

fn parse_from(text: &[u8], at: usize, options: ParseOptions) -> Result<Parsed, Vec<Diagnostic>> {
    let at = if text[at..].starts_with(b"\xef\xbb\xbf") { at + 3 } else { at };
    let mut parser = Parser::new(text, at);
    let start = parser.file(at);
    if parser.failed() {
        parser.audit();
        return Err(parser.diagnostics);
    }
    let mut graph = parser.done.expect("a file without errors has a graph");
    parser.evidence.settle(&mut graph, options);
    Ok(Parsed { graph, start, end: parser.cursor.at, warnings: parser.diagnostics })
}

fn is_header(text: &[u8]) -> bool {
    let word = text.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    let gap = if text[..word] == *b"graph" { gaps::gap(&text[word..]) } else { 0 };
    word > 0 && text.get(word + gap) == Some(&b'(')
}

/// The error of a statement that cannot be parsed.
type Fault = Box<Diagnostic>;
type Step<T> = Result<T, Fault>;

fn fault<T>(span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Step<T> {
    Err(Box::new(Diagnostic::error(span, message, label)))
}

/// An operator kind, and whether its spelling may refer to a section.
#[derive(Clone, Copy)]
struct Kind {
    symbol: Symbol,
    /// Ends in `_0`: a potential reference to a section.
    numbered: bool,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    frames: Vec<Frame<'a>>,
    kinds: FxHashMap<&'a [u8], Kind>,
    types: FxHashMap<&'a [u8], Type>,
    evidence: Evidence,
    diagnostics: Vec<Diagnostic>,
    /// The first occurrence of each kind, and uses of values without a definition so far: see
    /// [`mentions`].
    mentions: mentions::Mentions,
    done: Option<Graph>,
    outputs: Vec<(&'a [u8], Option<Type>)>,
    operands: Vec<Value>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], at: usize) -> Parser<'a> {
        Parser {
            cursor: Cursor { text, at },
            frames: Vec::new(),
            kinds: FxHashMap::default(),
            types: FxHashMap::default(),
            evidence: Evidence::default(),
            diagnostics: Vec::new(),
            mentions: mentions::Mentions::default(),
            done: None,
            outputs: Vec::new(),
            operands: Vec::new(),
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    fn failed(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    fn gave_up(&self) -> bool {
        self.diagnostics.iter().filter(|d| d.severity == Severity::Error).count() >= MAX_ERRORS
    }

    /// Parses one graph with its sections; returns the offset of its start.
    fn file(&mut self, at: usize) -> usize {
        self.cursor.next_statement();
        let start = self.cursor.at;
        if self.cursor.peek().is_none() {
            let empty = Diagnostic::error(at.min(start)..start, "no graph in this file", "expected `graph(…):`");
            self.report(empty.with_help("`jitopt samples` prints graphs to try"));
            return start;
        }
        if let Err(diagnostic) = self.header(None) {
            self.report(*diagnostic);
            if self.frames.is_empty() {
                return start;
            }
            self.mentions.lost_definitions = true;
            self.skip_header();
        }
        self.body();
        while !self.gave_up() && self.section() {
            self.body();
        }
        while !self.frames.is_empty() {
            self.close_frame();
        }
        start
    }

    /// The error of a file that does not begin with a graph.
    fn no_graph(&self, start: usize) -> Step<()> {
        let bytes = &self.cursor.text[start..];
        let line = start..self.cursor.line_end().max(start);
        if let Some((message, help)) = file_kinds::of_no_graph(bytes) {
            return fault(start..start, message, help);
        }
        fault(line, "malformed graph header", "expected `graph(%x : Tensor, …):`")
    }

    // ---- graphs and sections

    /// `graph(%x : Tensor, %y : Tensor):`, starting at the word `graph`.
    fn header(&mut self, carrier: Option<(Node, Symbol)>) -> Step<()> {
        let start = self.cursor.at;
        let word = self.cursor.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
        self.cursor.space();
        if word.is_empty() || !self.cursor.eat(b"(") {
            return self.no_graph(start);
        }
        if word != b"graph" {
            let span = start..start + word.len();
            let text = format!("expected `graph` before `(`, found `{}`", String::from_utf8_lossy(word));
            self.report(Diagnostic::warning(span, text, "read as `graph`, as PyTorch reads it"));
        }
        self.push_frame(carrier, start);
        let mut layout = Layout { no_commas: true, ..Layout::default() };
        let commas = self.params()?;
        layout.braces = self.opening("graph")?;
        // A single param is no evidence; releases with braces print no commas.
        layout.no_commas = commas.map_or(layout.braces, |commas| !commas);
        self.evidence.braces |= layout.braces;
        self.frame().graph.layout = layout;
        Ok(())
    }

    /// Skips the header of a graph that could not be parsed, so that errors of its body are
    /// reported too.
    fn skip_header(&mut self) {
        loop {
            let line = &self.cursor.text[self.cursor.at..self.cursor.line_end()];
            let line = line.trim_ascii_end();
            let last = line.ends_with(b"):") || line.ends_with(b"{");
            self.cursor.skip_line();
            if last || self.cursor.peek().is_none() {
                return;
            }
        }
    }

    fn push_frame(&mut self, carrier: Option<(Node, Symbol)>, start: usize) {
        let mut graph = Graph::new();
        // A line of text is about 45 bytes; reserving one node per 64 bytes never reserves too
        // much.
        if self.frames.is_empty() {
            graph.reserve((self.cursor.text.len() - self.cursor.at) / 64);
        }
        let root = OpenBlock { block: graph.root(), last: None, start };
        self.frames.push(Frame {
            graph,
            blocks: vec![root],
            numbers: Vec::new(),
            sparse: FxHashMap::default(),
            references: FxHashMap::default(),
            early: Vec::new(),
            differentiated: Vec::new(),
            carrier,
        });
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        self.frames.last_mut().expect("a frame is open while a graph is read")
    }

    /// After the params: `:` or `{` or both. Returns whether there was a brace.
    fn opening(&mut self, what: &str) -> Step<bool> {
        let colon = self.cursor.eat_after_space(b":");
        let brace = self.cursor.eat_after_space(b"{");
        self.cursor.blanks();
        match (colon || brace) && self.at_statement_end() {
            true => Ok(brace),
            false => {
                let at = self.cursor.at;
                let expected =
                    if colon || brace { "expected a statement or the end of the line" } else { "expected `:`" };
                fault(at..at + 1, format!("{expected} after the header of the {what}"), "here")
            }
        }
    }

    fn at_line_start(&self) -> bool {
        let before = &self.cursor.text[..self.cursor.at];
        gaps::trim_end(before).len() < before.len() && {
            let line = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
            gaps::blanks(&before[line..]) == before.len() - line && line > 0
        }
    }

    fn at_line_end(&self) -> bool {
        matches!(self.cursor.peek(), None | Some(b'\n' | b'#')) || self.cursor.rest().starts_with(b"//")
    }

    /// Whether the line ends here or another statement begins.
    fn at_statement_end(&self) -> bool {
        if self.at_line_end() {
            return true;
        }
        let rest = self.cursor.rest();
        match rest[0] {
            b'%' | b'=' | b'}' | b'^' => true,
            b'-' => rest.starts_with(b"->"),
            _ => {
                let word = rest.iter().take_while(|b| is_kind(**b)).count();
                rest[..word].windows(2).any(|pair| pair == b"::")
                    || self.word_is(b"return")
                    || self.is_block_header()
                    || self.at_section()
                    || self.word_is(b"graph") && is_header(rest)
            }
        }
    }

    fn at_section(&self) -> bool {
        self.cursor.rest().strip_prefix(b"with").is_some_and(|rest| gaps::gap(rest) > 0)
    }

    /// `with prim::FusionGroup_0 = graph(`: the subgraph of a node of the preceding graph, or of a
    /// graph that encloses it. Names restart in every graph, so the innermost open graph that still
    /// awaits this name gets it.
    fn section(&mut self) -> bool {
        self.cursor.next_statement();
        if !self.at_section() {
            return false;
        }
        match self.section_header() {
            Ok(()) => true,
            Err(diagnostic) => {
                self.report(*diagnostic);
                self.mentions.lost_definitions = true;
                self.skip_section();
                !self.gave_up() && !self.frames.is_empty() && self.section_again()
            }
        }
    }

    fn section_again(&mut self) -> bool {
        self.cursor.next_statement();
        self.at_section() && self.section()
    }

    fn section_header(&mut self) -> Step<()> {
        let start = self.cursor.at;
        self.cursor.eat(b"with");
        self.cursor.space();
        let at = self.cursor.at;
        let name = self.cursor.take_while(|b| b.is_ascii_graphic() && b != b'=');
        let span = at..at + name.len();
        if !self.cursor.eat_after_space(b"=") {
            let end = self.cursor.line_end();
            return fault(
                start..end.max(start + 4),
                "malformed section header",
                "expected `with prim::…_0 = graph(…):`",
            );
        }
        self.cursor.space();
        if let Some(forward) = name.strip_suffix(BACKWARD.as_bytes()) {
            return self.backward_header(forward, span);
        }
        let Some(depth) = self.awaiting(name) else {
            let message = format!("no node refers to the section `{}`", String::from_utf8_lossy(name));
            return fault(span, message, "expected a node of this kind in a preceding graph");
        };
        while self.frames.len() > depth + 1 {
            self.close_frame();
        }
        let frame = self.frame();
        let awaiting = frame.references.get_mut(name).and_then(VecDeque::pop_front);
        let node = awaiting.expect("this frame awaits the section");
        if frame.graph.attribute(node, attr::F_REAL_OUTPUTS).is_some() {
            frame.differentiated.push((name, node));
        }
        let base = name.iter().rposition(|&b| b == b'_').map_or(name, |i| &name[..i]);
        frame.graph.set_kind(node, Symbol::new(&String::from_utf8_lossy(base)));
        if self.frames.len() > MAX_DEPTH {
            return fault(span, format!("sections nest deeper than {MAX_DEPTH} levels"), "the limit is exceeded here");
        }
        self.header(Some((node, attr::SUBGRAPH)))
    }

    /// `with prim::DifferentiableGraph_0.backward = graph(`: the backward graph of the most recent
    /// node of this name that has its section and the attributes of a differentiated node.
    fn backward_header(&mut self, name: &[u8], span: Range<usize>) -> Step<()> {
        let awaits = |frame: &Frame<'_>| frame.differentiated.iter().any(|(known, _)| *known == name);
        let Some(depth) = self.frames.iter().rposition(awaits) else {
            let message = format!("no node refers to the backward graph of `{}`", String::from_utf8_lossy(name));
            return fault(span, message, "expected a node with `f_real_outputs` in a preceding graph");
        };
        while self.frames.len() > depth + 1 {
            self.close_frame();
        }
        let waiting = &mut self.frame().differentiated;
        let at = waiting.iter().rposition(|(known, _)| *known == name).expect("this frame awaits the section");
        let (_, node) = waiting.remove(at);
        self.header(Some((node, attr::REVERSE_SUBGRAPH)))
    }

    /// The innermost frame that awaits a section of this name.
    fn awaiting(&self, name: &[u8]) -> Option<usize> {
        let awaits = |frame: &Frame<'_>| frame.references.get(name).is_some_and(|nodes| !nodes.is_empty());
        self.frames.iter().rposition(awaits)
    }

    fn skip_section(&mut self) {
        while self.cursor.peek().is_some() && !self.at_section() {
            self.cursor.skip_line();
            self.cursor.blanks();
        }
    }

    /// Attaches a finished graph to the node that owns it.
    fn close_frame(&mut self) {
        self.note_undefined();
        let mut frame = self.frames.pop().expect("a frame is open");
        frame.graph.shrink_to_fit();
        match (frame.carrier, self.frames.last_mut()) {
            (Some((node, name)), Some(outer)) => {
                outer.graph.set_attribute(node, name, Attribute::Graph(Box::new(frame.graph)));
            }
            _ => self.done = Some(frame.graph),
        }
    }

    // ---- statements

    /// Parses statements up to and including `return`.
    fn body(&mut self) {
        loop {
            self.cursor.next_statement();
            let start = self.cursor.at;
            let ends_graph = self.word_is(b"return");
            match self.statement() {
                Ok(false) => {}
                Ok(true) => return,
                Err(diagnostic) => {
                    self.report(*diagnostic);
                    self.define_unread_outputs();
                    if self.gave_up() || self.cursor.peek().is_none() {
                        return;
                    }
                    // The error may be after line ends inside brackets: continue after the line
                    // that has the error, or with that line if the error is its first token.
                    self.cursor.at = self.cursor.at.max(start);
                    if self.cursor.at == start || !self.at_line_start() {
                        self.cursor.skip_line();
                    }
                    if ends_graph {
                        return;
                    }
                }
            }
        }
    }

    /// Parses one statement; returns true if it ended the graph.
    fn statement(&mut self) -> Step<bool> {
        self.outputs.clear();
        match self.cursor.peek() {
            Some(b'%') => self.node_with_outputs()?,
            Some(b'=') => {
                self.cursor.at += 1;
                self.cursor.space();
                self.node()?;
            }
            Some(b'-') if self.cursor.rest().starts_with(b"->") => self.end_block()?,
            Some(b'r') if self.word_is(b"return") => return self.end_graph(),
            Some(b'b') if self.is_block_header() => self.block_header()?,
            None => return self.missing_return(),
            _ => self.other_statement()?,
        }
        Ok(false)
    }

    fn word_is(&self, word: &[u8]) -> bool {
        let rest = self.cursor.rest();
        rest.starts_with(word)
            && !rest.get(word.len()).is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'))
    }

    fn is_block_header(&self) -> bool {
        let Some(rest) = self.cursor.rest().strip_prefix(b"block") else { return false };
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let gap = gaps::gap(&rest[digits..]);
        rest[digits + gap..].starts_with(b"(")
    }

    /// The end of the file inside a graph. After another error it is not reported: the skipped text
    /// may have contained the end.
    fn missing_return(&mut self) -> Step<bool> {
        if self.failed() {
            return Ok(true);
        }
        let open = self.frame().blocks.len() - 1;
        let start = self.frame().blocks[open].start;
        let label = if open > 0 { "this block has no `-> (…)`" } else { "this graph has no `return (…)`" };
        fault(start..start + 5, "unexpected end of file inside a graph", label)
    }

    /// A node without `=`, which PyTorch's reader accepts, or an unknown statement.
    fn other_statement(&mut self) -> Step<()> {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let word = rest.iter().take_while(|b| is_kind(**b) || **b == b'^').count();
        if rest[..word].windows(2).any(|pair| pair == b"::") || rest.starts_with(b"^") {
            return self.node();
        }
        let end = self.cursor.line_end().max(start + 1).min(self.cursor.text.len());
        let unknown = Diagnostic::error(
            start..end,
            "unknown statement",
            "expected a node, `block0(…):`, `-> (…)` or `return (…)`",
        );
        let text = String::from_utf8_lossy(&rest[..word]).into_owned();
        Err(Box::new(match did_you_mean(&text, ["return", "block0", "with"]) {
            Some(close) => unknown.with_help(format!("did you mean `{close}`?")),
            None if is_header(rest) => unknown.with_help("the preceding graph has no `return (…)`"),
            None => unknown,
        }))
    }

    fn node_with_outputs(&mut self) -> Step<()> {
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.clear();
        let result = self.definitions(&mut outputs, b'=');
        self.outputs = outputs;
        if result.is_err() {
            self.mentions.lost_definitions = true;
        }
        result?;
        self.cursor.space();
        self.node()
    }

    /// `%a : T, %b` up to and including `end`. Returns whether commas separated them; `None` for a
    /// single definition.
    fn definitions(&mut self, into: &mut Vec<(&'a [u8], Option<Type>)>, end: u8) -> Step<Option<bool>> {
        let mut commas = None;
        loop {
            let at = self.cursor.at;
            if !self.cursor.eat(b"%") {
                let (message, label) = match end {
                    b'=' => ("expected another output after `,`", "expected `%name`"),
                    _ => ("expected a param", "expected `%name : type` or `)`"),
                };
                return fault(at..at + 1, message, label);
            }
            let name = self.defined_name(end)?;
            into.push((name, None));
            let ty = self.declared_type()?;
            self.doubt_name(at, name, ty.is_some());
            into.last_mut().expect("it was pushed").1 = ty;
            let over = self.cursor.at;
            self.cursor.space();
            match self.cursor.peek() {
                Some(b) if b == end => {
                    self.cursor.at += 1;
                    return Ok(commas);
                }
                Some(b',') => {
                    self.cursor.at += 1;
                    commas = Some(true);
                    self.cursor.space();
                }
                Some(b'%') if end == b')' => commas = Some(false),
                _ => {
                    let at = self.place_after(over);
                    let message = format!("expected `,` or `{}` after this value", end as char);
                    return fault(at..at + 1, message, "here");
                }
            }
        }
    }

    fn declared_type(&mut self) -> Step<Option<Type>> {
        if !self.cursor.eat_after_space(b":") {
            return Ok(None);
        }
        self.cursor.space();
        self.ty().map(Some)
    }

    /// A type. Files repeat few types many times: the text of each is looked up before it is
    /// parsed.
    fn ty(&mut self) -> Step<Type> {
        let start = self.cursor.at;
        let rest = self.cursor.rest();
        let end = type_extent(rest);
        // `int []`, `Float (2, 3)`: a type may continue after a blank.
        let continues = || matches!(rest[end + gaps::gap(&rest[end..])..].first(), Some(b'(' | b'[' | b'?'));
        if let Some(&ty) = self.types.get(&rest[..end])
            && !continues()
        {
            self.cursor.at += end;
            return Ok(ty);
        }
        match spelling::parse(rest, &mut self.evidence.types) {
            Ok((ty, used)) => {
                self.cursor.at += used;
                if used == end {
                    self.types.insert(&rest[..end], ty);
                }
                Ok(ty)
            }
            Err(error) => {
                let at = (start + error.at).min(self.cursor.text.len());
                self.cursor.at = at;
                let word =
                    self.cursor.text[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
                let end = at + word.count().max(1);
                fault(at..end, "invalid type", error.message)
            }
        }
    }

    // ---- blocks

    fn block_header(&mut self) -> Step<()> {
        let start = self.cursor.at;
        self.cursor.take_while(|b| b.is_ascii_alphanumeric());
        let span = start..self.cursor.at;
        self.cursor.space();
        self.cursor.eat(b"(");
        let depth = self.frame().blocks.len();
        let Some(owner) = self.frame().blocks[depth - 1].last else {
            return fault(span, "block without a node", "expected a node before the block, such as `prim::If`");
        };
        if depth > MAX_DEPTH {
            return fault(span, format!("blocks nest deeper than {MAX_DEPTH} levels"), "the limit is exceeded here");
        }
        let count = self.frame().graph.num_blocks(owner);
        if self.cursor.text[span.clone()] != *format!("block{count}").as_bytes() {
            let message = format!("expected `block{count}`, the next block of its node");
            self.report(Diagnostic::warning(span, message, format!("printed as `block{count}`")));
        }
        let block = self.frame().graph.add_block(owner);
        self.frame().blocks.push(OpenBlock { block, last: None, start });
        self.params()?;
        self.opening("block")?;
        Ok(())
    }

    /// Params up to `)`; the values are added to the innermost open block. Returns whether commas
    /// separated them.
    fn params(&mut self) -> Step<Option<bool>> {
        let mut params = std::mem::take(&mut self.outputs);
        params.clear();
        self.cursor.space();
        let result = if self.cursor.eat(b")") { Ok(None) } else { self.definitions(&mut params, b')') };
        let frame = self.frame();
        let block = frame.blocks.last().expect("the root block stays open until `return`").block;
        let node = frame.graph.param_node(block);
        for &(name, ty) in &params {
            frame.define(node, name, ty);
        }
        self.outputs = params;
        result
    }

    /// `-> (%a, %b)`
    fn end_block(&mut self) -> Step<()> {
        let start = self.cursor.at;
        self.cursor.at += 2;
        self.cursor.space();
        self.operands("results of the block")?;
        if self.frame().blocks.len() < 2 {
            return fault(start..start + 2, "`->` outside a block", "expected `return (…)`, which ends a graph");
        }
        let open = self.frame().blocks.pop().expect("a nested block is open");
        self.set_results(open.block);
        self.end_of_line()
    }

    /// `return (%a, %b)`
    fn end_graph(&mut self) -> Step<bool> {
        let start = self.cursor.at;
        self.cursor.at += b"return".len();
        self.cursor.space();
        let open = self.frame().blocks.len();
        if open > 1 {
            let message = "`return` inside a block";
            self.report(Diagnostic::error(start..start + 6, message, "expected `-> (…)` to end the block first"));
            self.frame().blocks.truncate(1);
        }
        self.operands("results of the graph")?;
        let root = self.frame().graph.root();
        self.set_results(root);
        if self.cursor.eat_after_space(b";") {
            self.frame().graph.layout.semicolon = true;
        }
        // The graph ends here regardless: searching for another `return` would blame the next
        // graph.
        if let Err(diagnostic) = self.end_of_line() {
            self.report(*diagnostic);
            self.cursor.skip_line();
        }
        self.cursor.next_statement();
        Ok(true)
    }

    fn set_results(&mut self, block: Block) {
        let frame = self.frames.last_mut().expect("a frame is open while a graph is read");
        let node = frame.graph.return_node(block);
        frame.graph.set_inputs(node, self.operands.iter().copied());
    }

    fn end_of_line(&mut self) -> Step<()> {
        self.cursor.blanks();
        if self.at_line_end() {
            self.cursor.skip_line();
            return Ok(());
        }
        if self.at_statement_end() {
            return Ok(());
        }
        let at = self.cursor.at;
        fault(
            at..self.cursor.line_end().max(at + 1),
            "unexpected text after the end of this statement",
            "expected the end of the line",
        )
    }
}
