//! A graph whose end has not been seen yet.

use super::ir_line::{Brackets, Header, IrLine, classify, end_of_return, refers_to_section};
use super::log_prefix::{Likeness, Prefix, find_tag, title};
use super::{Extracted, plain};

/// The most parts that a terminal may have cut one line into: an operator with hundreds of operands
/// at 80 columns.
const MOST_PARTS: usize = 200;

/// The cost of a line that shares only the start of the header's prefix, compared with the whole
/// prefix.
const COST_OF_PARTIAL: u32 = 100;

/// The indentation of `return` in every release of PyTorch.
const RETURN_INDENT: usize = 2;

/// The reading state of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Inside the parentheses of the header.
    Params,
    /// Among the nodes.
    Body,
    /// After `return`, where sections may follow.
    Returned,
}

/// A candidate for the next line of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'l> {
    kind: IrLine,
    /// The line without its prefix.
    rest: &'l [u8],
    /// The number of bytes that the line shares with the header's prefix.
    prefix_length: usize,
    differs: u64,
    /// The header's prefix counts without its leading prompt.
    without_prompt: bool,
    /// The badness of the fit; several graphs may be open at a time.
    pub cost: u32,
}

/// A graph under collection.
#[derive(Debug)]
pub(super) struct OpenGraph {
    first_line: usize,
    prefix: Prefix,
    /// The length of the part of `prefix` that later lines share, once one was seen; the rest is a
    /// title.
    prefix_length: Option<usize>,
    title: Option<String>,
    text: String,
    stage: Stage,
    brackets: Brackets,
    /// The number of parts of the current line so far.
    parts: usize,
    /// The header ended in `{`, so a `}` follows the return.
    braces: bool,
    return_indent: Option<usize>,
    /// The number of sections that nodes refer to, and of sections read.
    sections: (usize, usize),
    /// The text begins with `with`: the graph that it belongs to is lost.
    orphan: bool,
    /// Lines in the middle are certainly missing.
    torn: bool,
    /// The number of lines since the last one that belonged to any graph.
    pub foreign: usize,
}

impl OpenGraph {
    /// Opens a graph at the line with the header.
    pub(crate) fn new(first_line: usize, line: &[u8], header: Header, title_before: Option<String>) -> OpenGraph {
        let section = header.is_section().then(|| plain(&line[header.start + 5..header.graph - 3]));
        let mut graph = OpenGraph {
            first_line,
            prefix: Prefix::new(&line[..header.start]),
            prefix_length: None,
            title: section.or(title_before),
            text: String::new(),
            stage: Stage::Params,
            brackets: Brackets::default(),
            parts: 1,
            braces: false,
            return_indent: None,
            sections: (0, 0),
            orphan: header.is_section(),
            torn: false,
            foreign: 0,
        };
        graph.push_header(&line[header.graph..]);
        if graph.stage == Stage::Returned {
            // A whole graph on one line: there is no other line whose prefix could differ.
            graph.prefix_length = Some(graph.prefix.bytes.len());
        }
        graph
    }

    /// The prefix of the header, for comparison with that of the next graph.
    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Takes over the known facts about prefixes of this form.
    pub(crate) fn learn_prefix(&mut self, other: &Prefix) {
        self.prefix.learn_from(other);
    }

    /// Whether a header after `other` implies that this graph is over.
    pub(crate) fn is_ended_by(&self, other: &Prefix) -> bool {
        let whole = self.prefix.bytes.len();
        self.prefix.same_stream(self.prefix_length.unwrap_or(whole), other) || self.prefix.same_stream(whole, other)
    }

    /// Whether only a directly following section could still belong to it.
    pub(crate) fn may_be_over(&self) -> bool {
        self.stage == Stage::Returned && !self.braces && self.sections.0 <= self.sections.1
    }

    /// The claim of a line as the next one, with its badness; `None` if it does not fit.
    pub(crate) fn claim<'l>(&self, line: &'l [u8]) -> Option<Claim<'l>> {
        self.claim_after(&self.prefix, line).or_else(|| self.claim_without_prompt(line))
    }

    /// The claim of a graph whose header was printed after a waiting prompt. Without it the graph
    /// would be lost, and its lines would be given to another process that prints at the same time.
    fn claim_without_prompt<'l>(&self, line: &'l [u8]) -> Option<Claim<'l>> {
        let bare = if self.prefix_length.is_none() { self.prefix.without_prompt()? } else { return None };
        let claim = self.claim_after(&bare, line)?;
        (claim.prefix_length == bare.bytes.len()).then_some(Claim { without_prompt: true, ..claim })
    }

    fn claim_after<'l>(&self, prefix: &Prefix, line: &'l [u8]) -> Option<Claim<'l>> {
        let length = self.prefix_length.unwrap_or(prefix.bytes.len());
        let mut like = prefix.likeness(length, line);
        let partial = like.of_prefix < length;
        if prefix.bytes[..like.of_prefix].trim_ascii().is_empty() {
            // Shared indentation is weak evidence: the header may follow an opening quote, or its
            // own indentation may be lost.
            like = Likeness::default();
        }
        let after_tag = prefix.tag.as_ref().is_none_or(|tag| like.of_prefix >= tag.span.end);
        if partial && (self.prefix_length.is_some() || !after_tag) {
            return None;
        }
        let rest = &line[like.of_line..];
        let kind = classify(rest).filter(|kind| self.expects(*kind))?;
        let broken = (like.differs & !prefix.varies).count_ones();
        let cost = broken + if partial { COST_OF_PARTIAL } else { 0 };
        Some(Claim { kind, rest, prefix_length: like.of_prefix, differs: like.differs, without_prompt: false, cost })
    }

    fn expects(&self, kind: IrLine) -> bool {
        match (self.stage, kind) {
            (Stage::Returned, IrLine::Section) => !self.orphan || self.sections.0 > self.sections.1,
            (Stage::Returned, IrLine::Brace) => self.braces,
            (Stage::Returned, _) => false,
            (Stage::Params, _) => true,
            (Stage::Body, kind) => kind != IrLine::Param,
        }
    }

    /// Appends a claimed line.
    pub(crate) fn take(&mut self, claim: Claim) {
        if let Some(bare) = claim.without_prompt.then(|| self.prefix.without_prompt()).flatten() {
            self.prefix = bare;
        }
        self.prefix_length.get_or_insert(claim.prefix_length);
        self.prefix.varies |= claim.differs;
        self.foreign = 0;
        self.parts = 1;
        match claim.kind {
            IrLine::Section => self.take_section(claim.rest),
            IrLine::Param => self.push_header(claim.rest),
            IrLine::Return => self.take_return(claim.rest),
            IrLine::Brace => {
                self.braces &= self.stage != Stage::Returned;
                self.push(claim.rest);
            }
            IrLine::Node | IrLine::Block => self.take_body(claim),
        }
    }

    fn take_section(&mut self, line: &[u8]) {
        self.torn |= self.stage != Stage::Returned;
        self.sections.1 += 1;
        self.stage = Stage::Params;
        self.brackets = Brackets::default();
        self.push_header(line.trim_ascii_start());
    }

    fn take_body(&mut self, claim: Claim) {
        self.stage = Stage::Body;
        self.brackets = Brackets::default();
        self.brackets.feed(claim.rest);
        self.sections.0 += usize::from(claim.kind == IrLine::Node && refers_to_section(claim.rest));
        match end_of_return(claim.rest) {
            Some(end) => self.take_return_inside(claim.rest, end),
            None => self.push(claim.rest),
        }
    }

    /// Appends `return (…)`, without trailing text such as the quotes of the program it was pasted
    /// from.
    fn take_return(&mut self, line: &[u8]) {
        let end = memchr::memchr(b')', line).map_or(line.len(), |at| at + 1);
        let (list, trailing) = line.split_at(end);
        let ours = trailing.starts_with(b";") || trailing.starts_with(b" #");
        self.brackets = Brackets::default();
        self.brackets.feed(list);
        self.stage = Stage::Returned;
        self.return_indent.get_or_insert(line.len() - line.trim_ascii_start().len());
        self.push(if ours { line } else { list });
    }

    /// Appends a line in which the graph ends after other statements.
    fn take_return_inside(&mut self, line: &[u8], end: usize) {
        self.brackets = Brackets::default();
        self.stage = Stage::Returned;
        self.push(&line[..end]);
    }

    /// Appends a line of the header.
    fn push_header(&mut self, line: &[u8]) {
        self.brackets.next_line();
        if let Some(end) = end_of_return(line) {
            return self.take_return_inside(line, end);
        }
        self.push(line);
        self.feed_header(line);
    }

    fn feed_header(&mut self, part: &[u8]) {
        self.brackets.feed(part);
        if self.brackets.depth() == 0 {
            self.stage = Stage::Body;
            self.braces = part.trim_ascii_end().ends_with(b"{");
        }
    }

    fn push(&mut self, line: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(line));
        self.text.push('\n');
    }

    /// Whether the last line must be cut, so that `line`, which is not a line of a graph, may be
    /// its rest.
    pub(crate) fn accepts_rest(&self, line: &[u8]) -> bool {
        let allowed = usize::from(self.stage == Stage::Params);
        self.brackets.is_cut(allowed) && self.parts < MOST_PARTS && find_tag(line).is_none()
    }

    /// Joins the rest of a line that a terminal has cut.
    pub(crate) fn join(&mut self, part: &[u8]) {
        self.parts += 1;
        self.foreign = 0;
        self.text.pop();
        self.push(part);
        match self.stage {
            Stage::Params => self.feed_header(part),
            Stage::Body | Stage::Returned => self.brackets.feed(part),
        }
    }

    /// The collected graph; `None` for a lone header, which is more likely prose that mentions a
    /// graph.
    pub(crate) fn finish(self) -> Option<Extracted> {
        let length = self.prefix_length?;
        let complete = self.may_be_over() && !self.torn && !self.brackets.is_cut(0);
        let after_tag = self.prefix.tag.as_ref().map_or(0, |tag| tag.span.end);
        let header_indent = if self.prefix.is_blank() { self.prefix.bytes.len() } else { 0 };
        let on_header_line = title(&self.prefix.bytes[length.max(after_tag)..]);
        Some(Extracted {
            name: on_header_line.or(self.title),
            source_file: self.prefix.tag.as_ref().and_then(|tag| tag.file.clone()),
            level: self.prefix.tag.map(|tag| tag.level),
            first_line: self.first_line,
            text: reindented(self.text, self.return_indent.unwrap_or(RETURN_INDENT + header_indent)),
            complete,
            duplicate_of: None,
        })
    }
}

/// Shifts a text whose `return` is indented by `found` blanks to PyTorch's indentation.
fn reindented(text: String, found: usize) -> String {
    if found == RETURN_INDENT {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let header = line.starts_with("graph(") || line.starts_with("with ") || line.starts_with('}');
        let blanks = line.bytes().take_while(|b| *b == b' ').count();
        let wanted = if header { blanks } else { (blanks + RETURN_INDENT).saturating_sub(found) };
        out.extend(std::iter::repeat_n(' ', wanted));
        out.push_str(&line[blanks..]);
    }
    out
}
