//! Classification of single lines of a printed graph, without parsing the graph.

use memchr::memmem;

/// The latest offset of a graph's header in its line; anything longer is not a log prefix.
const LONGEST_PREFIX: usize = 512;

/// The kinds of line in a printed graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IrLine {
    /// `%x : Tensor,` inside the parameter list.
    Param,
    /// `%1 : int = prim::Constant[value=1]()`, or without outputs ` = prim::Print(%x)`.
    Node,
    /// `block0(%i : int):` or `-> (%c)`.
    Block,
    /// `return (%x)`, which ends a graph.
    Return,
    /// `with prim::FusionGroup_0 = graph(`.
    Section,
    /// `}`, which ended blocks and graphs before 1.1.
    Brace,
}

/// The kind of a line without its log prefix; `None` if it is not a line of a graph.
pub(super) fn classify(line: &[u8]) -> Option<IrLine> {
    let line = line.trim_ascii();
    match line.first()? {
        b'%' => classify_names(line),
        b'=' => is_head(line[1..].trim_ascii_start()).then_some(IrLine::Node),
        b'-' => is_list(line.strip_prefix(b"->")?).then_some(IrLine::Block),
        b'r' => is_list(line.strip_prefix(b"return")?).then_some(IrLine::Return),
        b'b' => is_block(line).then_some(IrLine::Block),
        b'w' => section_start(line).map(|_| IrLine::Section),
        b'}' => (line.len() == 1).then_some(IrLine::Brace),
        _ => None,
    }
}

/// A line that begins with a value: a node if ` = ` and an operator follow, else possibly a
/// parameter. Names with blanks, which are legal but never printed in practice, are not recognised:
/// prose has blanks too.
fn classify_names(line: &[u8]) -> Option<IrLine> {
    let name =
        line[1..].iter().position(|b| matches!(b, b' ' | b'\t' | b',' | b')' | b':' | b'=')).unwrap_or(line.len() - 1);
    let after = line[1 + name..].trim_ascii_start();
    let typed = matches!(after, [] | [b',' | b')', ..]) || after.starts_with(b":") && !after.starts_with(b"::");
    match (name, head_of(line)) {
        (0, _) => None,
        (_, Some(_)) => (typed || after.starts_with(b"=")).then_some(IrLine::Node),
        (_, None) => typed.then_some(IrLine::Param),
    }
}

/// The text after the `=` of a node. Types of named tuples with defaults contain the same
/// characters.
fn head_of(line: &[u8]) -> Option<&[u8]> {
    memchr::memchr_iter(b'=', line).map(|at| line[at + 1..].trim_ascii_start()).find(|head| is_head(head))
}

/// Whether the text is the operator of a node: `ns::name` or `^PythonFunction`.
fn is_head(text: &[u8]) -> bool {
    let word = text.iter().take_while(|b| is_word(**b) || matches!(b, b':' | b'.')).count();
    text.first() == Some(&b'^') || memmem::find(&text[..word], b"::").is_some_and(|at| at > 0)
}

/// Whether the text is an operand list, `(…)`, as after `return` and `->`.
fn is_list(text: &[u8]) -> bool {
    let inside = text.trim_ascii_start().strip_prefix(b"(").map(<[u8]>::trim_ascii_start);
    matches!(inside, Some([b'%' | b')', ..]))
}

/// The end of a graph that returns in the middle of this line: after `%y = aten::neg(%x) return
/// (%y)`.
pub(super) fn end_of_return(line: &[u8]) -> Option<usize> {
    let mut brackets = Brackets::default();
    for (at, &byte) in line.iter().enumerate() {
        let outside = brackets.depth() == 0 && !brackets.is_cut(0) && !brackets.in_comment;
        let before = at.checked_sub(1).map(|at| line[at]);
        let separate = before.is_none_or(|b| b == b')' || b == b':' || b.is_ascii_whitespace());
        if byte == b'r' && outside && separate && line[at..].strip_prefix(b"return").is_some_and(is_list) {
            return memchr::memchr(b')', &line[at..]).map(|end| at + end + 1);
        }
        brackets.feed(&line[at..=at]);
    }
    None
}

fn is_block(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"block") else {
        return false;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && rest[digits..].trim_ascii_start().starts_with(b"(")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The offset of `graph(` in a line `with KIND = graph(`.
fn section_start(line: &[u8]) -> Option<usize> {
    let kind = line.strip_prefix(b"with ")?;
    let length = kind.iter().position(|b| *b == b' ')?;
    kind[length..].starts_with(b" = graph(").then_some(5 + length + 3)
}

/// The section that a node refers to, if its operator ends in `_NUMBER`.
///
/// A user's operator may really have such a name (`my::op_0`); only kinds that PyTorch prints
/// sections for count.
pub(super) fn refers_to_section(node: &[u8]) -> bool {
    let Some(head) = head_of(node) else {
        return false;
    };
    let kind = &head[..head.iter().position(|b| matches!(b, b'(' | b'[')).unwrap_or(0)];
    let digits = kind.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let known = kind.starts_with(b"prim::") || memmem::find(kind, b"Group").is_some();
    digits > 0 && known && kind[..kind.len() - digits].ends_with(b"_")
}

/// The position of a graph header in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The first byte of `graph(`, or of the `with` before it.
    pub start: usize,
    /// The first byte of `graph(`.
    pub graph: usize,
}

impl Header {
    /// Whether it is `with … = graph(`, which belongs to the preceding graph.
    pub(crate) fn is_section(self) -> bool {
        self.start < self.graph
    }
}

/// Finds `graph(%…` or `graph():`, after any prefix.
pub(super) fn find_header(line: &[u8]) -> Option<Header> {
    let searched = &line[..line.len().min(LONGEST_PREFIX)];
    memmem::find_iter(searched, b"graph")
        .find(|&at| begins_graph(line, at))
        .map(|graph| Header { start: start_of_with(&line[..graph]).unwrap_or(graph), graph })
}

fn begins_graph(line: &[u8], at: usize) -> bool {
    let (before, after) = (&line[..at], line[at + 5..].trim_ascii_start());
    let Some(after) = after.strip_prefix(b"(").map(<[u8]>::trim_ascii_start) else { return false };
    let inside_word = before.last().is_some_and(|b| is_word(*b) || *b == b'.') || before.ends_with(b"::");
    let empty = after.starts_with(b"):") || after.starts_with(b") {");
    let python = before.ends_with(b"def ");
    !inside_word && !python && (after.starts_with(b"%") || empty)
}

/// The offset of `with` in text that ends in `with KIND = `.
fn start_of_with(before: &[u8]) -> Option<usize> {
    let kind = before.strip_suffix(b" = ")?;
    let blank = kind.iter().rposition(|b| *b == b' ')?;
    let at = blank.checked_sub(4)?;
    (&kind[at..blank] == b"with").then_some(at)
}

/// The bracket depth of a graph line, to detect the end of a parameter list and lines that a
/// terminal cut in two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brackets {
    depth: usize,
    in_string: bool,
    escaped: bool,
    in_comment: bool,
}

impl Brackets {
    /// Adds the next part of the same line.
    pub(crate) fn feed(&mut self, text: &[u8]) {
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if self.in_comment => return,
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'(' | b'[' => self.depth += 1,
                b')' | b']' => self.depth = self.depth.saturating_sub(1),
                b'#' => self.in_comment = at > 0 && text[at - 1] == b' ' && text.get(at + 1) == Some(&b' '),
                _ => {}
            }
        }
    }

    /// Continues with the next line of the same parameter list.
    pub(crate) fn next_line(&mut self) {
        *self = Brackets { depth: self.depth, ..Brackets::default() };
    }

    /// The number of open brackets.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether a line must be cut, given the number of brackets that may be open at its end.
    pub(crate) fn is_cut(&self, allowed: usize) -> bool {
        !self.in_comment && (self.depth > allowed || self.in_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_graph() {
        for (line, kind) in [
            ("      %x.1 : Float(2, 3, strides=[3, 1]),", Some(IrLine::Param)),
            ("%block1-1", Some(IrLine::Param)),
            ("%map_levels.2? : int[]?):", Some(IrLine::Param)),
            ("  %1 : int = prim::Constant[value=1]() # <string>:3:9", Some(IrLine::Node)),
            ("  %1, %2 = aten::max(%3)", Some(IrLine::Node)),
            ("  %c : NamedTuple(w : Tensor, n : int = 3) = prim::TupleConstruct(%x, %1)", Some(IrLine::Node)),
            ("      %c : NamedTuple(w : Tensor, n : int = 3)):", Some(IrLine::Param)),
            ("  %9 : Tensor = ^Fn(2.0)(%x)", Some(IrLine::Node)),
            ("   = prim::Print(%a.1, %b.1)", Some(IrLine::Node)),
            ("    block0():", Some(IrLine::Block)),
            ("      -> ()", Some(IrLine::Block)),
            ("  return (%x)", Some(IrLine::Return)),
            ("  return ();", Some(IrLine::Return)),
            ("with prim::fork_0 = graph(%x : Tensor):", Some(IrLine::Section)),
            ("}", Some(IrLine::Brace)),
            ("%matplotlib inline", None),
            ("%x = 3", None),
            ("%a bit of prose = aten::add", None),
            ("100% done", None),
            ("  return (a, b)", None),
            ("-> (see above)", None),
            ("block of text", None),
            ("with open(x) as graph(", None),
            ("Moved 32 to x.1", None),
            ("", None),
        ] {
            assert_eq!(classify(line.as_bytes()), kind, "{line}");
        }
    }

    #[test]
    fn headers() {
        for (line, found) in [
            ("graph(%x : Tensor):", Some((0, 0))),
            ("[DUMP f.cpp:020] graph():", Some((17, 17))),
            ("R\"IR(graph(%x) {", Some((5, 5))),
            ("E   with prim::fork_1 = graph(%x,", Some((4, 24))),
            ("def graph():", None),
            ("self.graph(%x", None),
            ("ns::graph(%x", None),
            ("f.log:12:graph(%x", Some((9, 9))),
            ("fallback_graph(%x : Tensor):", None),
            ("graph(x)", None),
            ("print(f.graph) graph(%x):", Some((15, 15))),
        ] {
            let header = find_header(line.as_bytes());
            assert_eq!(header.map(|h| (h.start, h.graph)), found, "{line}");
        }
    }

    #[test]
    fn references() {
        for (node, refers) in [
            ("%1 : Tensor = prim::FusionGroup_0(%x)", true),
            ("%1 : Tensor = prim::FusionGroup_12[device=0](%x)", true),
            (" = prim::fork_1()", true),
            ("%1 : Tensor = tensorexpr::Group_0(%x)", true),
            ("%1 : Tensor = my::op_0(%x)", false),
            ("%1 : str = prim::Constant[value=\"prim::fork_0(\"]()", false),
        ] {
            assert_eq!(refers_to_section(node.as_bytes()), refers, "{node}");
        }
    }
}
