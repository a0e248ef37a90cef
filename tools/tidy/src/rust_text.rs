//! A minimal lexer for Rust: separates code from comments and literals, and finds functions.

use regex_lite::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// The code without comments and contents of literals, which are replaced by blanks; newlines and
/// offsets are kept.
pub fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + inert(bytes, at);
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The length in bytes of the comment or literal that starts here.
fn inert(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => block_comment(rest),
        b'"' => quoted(rest),
        b'r' if at == 0 || !is_word(text[at - 1]) || text[at - 1] == b'b' => raw_string(rest),
        b'\'' => character(rest),
        byte if !byte.is_ascii() => 1,
        _ => 0,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += 1 + usize::from(rest[at] == b'\\');
    }
    (at + 1).min(rest.len())
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let inside = &rest[2 + hashes..];
    inside.windows(close.len()).position(|w| w == close).map_or(rest.len(), |n| 2 + hashes + n + close.len())
}

/// A character literal; lifetimes are not literals.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => rest[3.min(rest.len())..].iter().position(|b| *b == b'\'').map_or(0, |n| n + 4),
        _ => rest
            .iter()
            .take(6)
            .skip(2)
            .position(|b| *b == b'\'')
            .filter(|n| *n == 0 || !rest[1].is_ascii())
            .map_or(0, |n| n + 3),
    }
}

/// The offset after the bracket that closes the one at `open`; the end of the text if there is
/// none.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The functions with bodies: name and byte range. `code` comes from [`code`].
pub fn functions(code: &str) -> Vec<(&str, Range<usize>)> {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| regex(r"\bfn\s+([a-z_A-Z0-9]+)"));
    let mut found = Vec::new();
    for head in HEAD.captures_iter(code) {
        let (Some(whole), Some(name)) = (head.get(0), head.get(1)) else { continue };
        // Skips the parameters, because an array type in them may contain a `;`.
        let params = code[whole.end()..].find('(').map_or(code.len(), |n| whole.end() + n);
        let behind = closing(code, params.min(code.len()));
        let Some(body) = code[behind..].find(['{', ';']).map(|n| behind + n) else { continue };
        if code.as_bytes()[body] == b'{' {
            found.push((name.as_str(), whole.start()..closing(code, body)));
        }
    }
    found
}

/// Compiles a constant regular expression.
pub(crate) fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a valid regular expression")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        let text = "a // b\nc /* d /* e */ f */ \"g\\\"h\" r#\"i\"j\"# 'k' '\\'' 'l: m b\"n\" 'é' o";
        assert_eq!(code(text).split_whitespace().collect::<Vec<_>>(), ["a", "c", "'l:", "m", "b", "o"]);
        assert_eq!(code(text).len(), text.len());
    }

    #[test]
    fn functions_end_with_their_body() {
        let text = "fn a(x: [u8; 2]) -> u8 { if x { 1 } }\ntrait T { fn b(); fn c<'a>(&'a self) {} }";
        let found: Vec<(&str, &str)> = functions(text).into_iter().map(|(name, range)| (name, &text[range])).collect();
        assert_eq!(found, [("a", "fn a(x: [u8; 2]) -> u8 { if x { 1 } }"), ("c", "fn c<'a>(&'a self) {}")]);
    }
}
