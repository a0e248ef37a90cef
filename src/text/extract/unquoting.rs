//! Graphs inside the string literals of Python, JSON and C: `'
//!   graph(%x : Tensor):
//!     %1 …'` on one line, as `repr` and JSON write a text, or one literal per line, as in
//! notebooks and source files.

use super::ir_line::{classify, find_header};
use memchr::memmem;
use std::borrow::Cow;

/// The maximal nesting of literals: the `repr` of a graph in a JSON string is two deep.
const DEPTH: usize = 3;

/// A log without the quotes around its graphs, and for each line the line of the log that it comes
/// from, counted from 1.
pub(super) struct Unquoted<'a> {
    pub text: Cow<'a, [u8]>,
    numbers: Option<Vec<usize>>,
}

impl Unquoted<'_> {
    /// The line of the log that line `index`, counted from 0, comes from.
    pub(crate) fn number(&self, index: usize) -> usize {
        self.numbers.as_ref().map_or(index + 1, |numbers| numbers[index])
    }
}

/// Extracts graphs from literals.
pub(super) fn unquoted(log: &[u8]) -> Unquoted<'_> {
    if memmem::find(log, b"\\n").is_none() && !lines(log).any(|line| whole_literal(line).is_some()) {
        return Unquoted { text: Cow::Borrowed(log), numbers: None };
    }
    let (mut text, mut numbers) = (Vec::with_capacity(log.len()), Vec::new());
    for (index, line) in lines(log).enumerate() {
        let before = text.len();
        push(line, DEPTH, &mut text);
        numbers.extend(std::iter::repeat_n(index + 1, memchr::memchr_iter(b'\n', &text[before..]).count()));
    }
    // The last line has no line feed of its own.
    text.pop();
    Unquoted { text: Cow::Owned(text), numbers: Some(numbers) }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&b| b == b'\n')
}

/// Appends a line, or the lines of the literals in it.
fn push(line: &[u8], depth: usize, out: &mut Vec<u8>) {
    let inside = if depth == 0 { None } else { whole_literal(line).map(|content| vec![content]) };
    let inside = inside.or_else(|| if depth == 0 { None } else { inner_literals(line) });
    let Some(inside) = inside else {
        out.extend_from_slice(line);
        return out.push(b'\n');
    };
    for content in inside {
        let text = unescaped(content);
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        lines(text).for_each(|line| push(line, depth - 1, out));
    }
}

/// The content of a literal that is the whole line, `"  return (%2)
/// ",`, and contains a line of a graph.
fn whole_literal(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii_start();
    let start = line.iter().take(3).position(|b| matches!(b, b'"' | b'\''))?;
    if !line[..start].iter().all(|b| b"rbfuRBFU".contains(b)) {
        return None;
    }
    let (quote, content) = (line[start], &line[start + 1..]);
    let end = closing(content, quote)?;
    let tail = |b: &u8| b.is_ascii_whitespace() || b",)+;\\]".contains(b);
    let content = &content[..end];
    let one_line = content.strip_suffix(b"\\n").unwrap_or(content);
    let is_ir = classify(one_line).is_some() || find_header(one_line).is_some();
    (line[start + end + 2..].iter().all(tail) && memmem::find(one_line, b"\\n").is_none() && is_ir).then_some(content)
}

/// The contents of the literals in a line that hold whole graphs.
fn inner_literals(line: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = memmem::find(&line[from..], b"graph(").map(|at| from + at) {
        from = at + 1;
        let Some(open) = line[..at].iter().rposition(|b| matches!(b, b'"' | b'\'')) else { continue };
        let rest = &line[open + 1..];
        let content = &rest[..closing(rest, line[open]).unwrap_or(rest.len())];
        if memmem::find(content, b"\\n").is_some() {
            found.push(content);
            from = open + 1 + content.len();
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The offset of the next `quote` without a backslash before it.
fn closing(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            &b if b == quote => return Some(at),
            _ => at += 1,
        }
    }
}

/// The text that a literal denotes. Escapes unknown to Python, JSON and C stay.
fn unescaped(content: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(content.len()), 0);
    while at < content.len() {
        let simple = match (content[at], content.get(at + 1)) {
            (b'\\', Some(b'n')) => Some(b'\n'),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(&b @ (b'"' | b'\'' | b'\\' | b'/'))) => Some(b),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            at += 2;
        } else if let Some((letter, used)) = coded(&content[at..]) {
            out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            at += used;
        } else {
            out.push(content[at]);
            at += 1;
        }
    }
    out
}

/// The character of `\u00a0` or `\xa0`, and the length of the escape.
fn coded(text: &[u8]) -> Option<(char, usize)> {
    let digits = match text.get(..2)? {
        b"\\u" => 4,
        b"\\x" => 2,
        _ => return None,
    };
    let code = std::str::from_utf8(text.get(2..2 + digits)?).ok()?;
    Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, 2 + digits))
}
