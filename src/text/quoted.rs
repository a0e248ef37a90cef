//! String literals with PyTorch's escapes.
//!
//! Bytes outside 32..=126 print as a backslash and three characters which PyTorch computes from the
//! *signed* char with truncating division: `chr(48 + c/64)`, `chr(48 + c%64/8)`, `chr(48 + c%8)`.
//! For ASCII control characters that is octal; for the bytes of UTF-8 it is not (`é` prints as
//! `\0)+\/.)`), and PyTorch's own reader cannot read it back. The mapping is injective, so this
//! reader can.

use crate::types::gaps;

/// An error in a literal: offset and message.
pub type Problem = (usize, &'static str);

/// Reads a literal that starts with a quote; returns its bytes and its length in the text.
pub fn parse(text: &[u8]) -> Result<(Vec<u8>, usize), Problem> {
    let quote = text[0];
    let mut out = Vec::new();
    let mut at = 1;
    loop {
        match text.get(at) {
            None | Some(b'\n') => return Err((0, "expected a closing quote on this line")),
            Some(&b) if b == quote => return Ok((out, at + 1)),
            Some(b'\\') => {
                let (byte, used) =
                    escape(&text[at + 1..]).ok_or((at, "invalid escape: PyTorch prints no such escape"))?;
                out.push(byte);
                at += 1 + used;
            }
            Some(&b) => {
                out.push(b);
                at += 1;
            }
        }
    }
}

const SIMPLE: &[(u8, u8)] = &[
    (b'\\', b'\\'),
    (b'\'', b'\''),
    (b'"', b'"'),
    (b'a', 7),
    (b'b', 8),
    (b'f', 12),
    (b'n', b'\n'),
    (b'r', b'\r'),
    (b't', b'\t'),
    (b'v', 11),
];

/// The text after a backslash: the byte and the number of characters consumed.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let first = *text.first()?;
    // The signed form uses the characters `)` to `0`, octal `0` to `7`; no simple escape is among
    // them.
    if let [a, b, c, ..] = *text
        && [a, b, c].iter().all(|d| (b')'..=b'7').contains(d))
    {
        let digit = |d: u8| i32::from(d) - 48;
        return Some(((64 * digit(a) + 8 * digit(b) + digit(c)).rem_euclid(256) as u8, 3));
    }
    SIMPLE.iter().find(|(name, _)| *name == first).map(|&(_, byte)| (byte, 1))
}

/// Appends a literal, quotes included.
pub fn print(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for &byte in bytes {
        match SIMPLE.iter().find(|(_, b)| *b == byte) {
            Some((name, _)) => out.extend([b'\\', *name]),
            None if (32..127).contains(&byte) => out.push(byte),
            None => {
                let c = i32::from(byte as i8);
                out.push(b'\\');
                out.extend([c / 64, c % 64 / 8, c % 8].map(|d| (48 + d) as u8));
            }
        }
    }
    out.push(b'"');
}

/// The escapes of 1.0.
const RAW: &[(u8, u8)] = &[(b'n', b'\n'), (b't', b'\t'), (b'v', 11)];

/// Reads a literal of 1.0, which escapes neither quotes nor backslashes: the closing quote is the
/// one before `]`, or before a comma and another attribute. `None` if there is no such quote.
pub(crate) fn parse_raw(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    let ends = |at: usize| {
        let rest = after_gap(&line[at + 1..]);
        let closed = rest.strip_prefix(b"]").map(after_gap);
        closed.is_some_and(|rest| rest.starts_with(b"(")) || rest.strip_prefix(b",").is_some_and(is_attribute)
    };
    let end = (1..line.len()).find(|&at| line[at] == b'"' && ends(at))?;
    let (mut out, mut at) = (Vec::new(), 1);
    while at < end {
        let escaped = RAW.iter().find(|(name, _)| line[at] == b'\\' && line[at + 1] == *name);
        out.push(escaped.map_or(line[at], |(_, byte)| *byte));
        at += if escaped.is_some() { 2 } else { 1 };
    }
    Some((out, end + 1))
}

/// Whether `name=` begins here.
fn is_attribute(text: &[u8]) -> bool {
    let text = after_gap(text);
    let name = text.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
    name > 0 && after_gap(&text[name..]).first() == Some(&b'=')
}

fn after_gap(text: &[u8]) -> &[u8] {
    &text[gaps::gap(text)..]
}

/// Appends a literal as 1.0 does, quotes included.
pub(crate) fn print_raw(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for &byte in bytes {
        match RAW.iter().find(|(_, b)| *b == byte) {
            Some((name, _)) => out.extend([b'\\', *name]),
            None => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Observed in 1.0.1.
    #[test]
    fn strings_of_1_0_escape_no_quotes() {
        for (text, printed) in [
            ("it's", r#""it's""#),
            ("say \"hi\"", r#""say "hi"""#),
            ("back\\slash", r#""back\slash""#),
            ("a\nb\tc", r#""a\nb\tc""#),
            ("é a]b", r#""é a]b""#),
            ("", r#""""#),
        ] {
            let mut out = Vec::new();
            print_raw(&mut out, text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), printed);
            out.extend(b"]()\n");
            assert_eq!(parse_raw(&out), Some((text.as_bytes().to_vec(), printed.len())));
        }
        assert_eq!(parse_raw(b"\"x\", y=\"z\"]()"), Some((b"x".to_vec(), 3)));
    }

    /// Observed in 1.3.1, 1.13 and 2.15 (format notes §1.5).
    #[test]
    fn what_pytorch_prints() {
        for (text, printed) in [("é", r#""\0)+\/.)""#), ("\u{1}\u{7f}", r#""\001\177""#), ("a\"b'\n", r#""a\"b\'\n""#)]
        {
            let mut out = Vec::new();
            print(&mut out, text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), printed);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            print(&mut out, &bytes);
            prop_assert!(out.is_ascii());
            prop_assert_eq!(parse(&out), Ok((bytes, out.len())));
        }
    }

    #[test]
    fn unclosed_and_odd_ones_are_refused() {
        assert!(parse(b"\"abc").is_err() && parse(b"\"abc\n\"").is_err());
        assert_eq!(parse(b"\"a\\q\"").map_err(|e| e.0), Err(2));
    }
}
