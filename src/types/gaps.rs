//! Layout between two tokens: blanks, line ends, comments.

/// The length of the blank at the start of `text`, in bytes; 0 if there is none. Web pages and word
/// processors produce other blanks than U+0020: no-break, thin, ideographic, zero width. The line
/// ends of Unicode other than U+000A count as blanks.
#[inline]
pub(crate) fn blank(text: &[u8]) -> usize {
    match text {
        [b' ' | b'\t' | b'\r' | 0x0b | 0x0c, ..] => 1,
        [0xc2..=0xff, ..] => wide_blank(text),
        _ => 0,
    }
}

fn wide_blank(text: &[u8]) -> usize {
    match text {
        // U+0085, U+00A0
        [0xc2, 0x85 | 0xa0, ..] => 2,
        // U+1680; U+2000 to U+200B, U+2028, U+2029, U+202F; U+205F, U+2060; U+3000; U+FEFF
        [0xe1, 0x9a, 0x80, ..]
        | [0xe2, 0x80, 0x80..=0x8b | 0xa8 | 0xa9 | 0xaf, ..]
        | [0xe2, 0x81, 0x9f | 0xa0, ..]
        | [0xe3, 0x80, 0x80, ..]
        | [0xef, 0xbb, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// The length of the blanks at the start of `text`, up to the end of the line.
#[inline]
pub(crate) fn blanks(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match blank(&text[at..]) {
            0 => return at,
            n => at += n,
        }
    }
}

/// The length of blanks, line ends and comments at the start of `text`. A comment is `#` or `//` up
/// to the end of its line.
#[inline]
pub(crate) fn gap(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += blanks(&text[at..]);
        match &text[at..] {
            [b'\n', ..] => at += 1,
            [b'#', ..] | [b'/', b'/', ..] => {
                at += memchr::memchr(b'\n', &text[at..]).unwrap_or(text.len() - at);
            }
            _ => return at,
        }
    }
}

/// `text` without blanks at its end.
pub(crate) fn trim_end(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_end();
        let wide = |n: usize| text.len() >= n && blank(&text[text.len() - n..]) == n;
        match (wide(2), wide(3)) {
            (true, _) => text = &text[..text.len() - 2],
            (_, true) => text = &text[..text.len() - 3],
            _ => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The characters with the property White_Space, according to the standard library, and the two
    /// invisible ones.
    #[test]
    fn all_blanks_of_unicode_are_known() {
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let expected = (c.is_whitespace() && c != '\n') || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}');
            let mut buffer = [0; 4];
            let text = c.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(blank(text), if expected { text.len() } else { 0 }, "{:x}", c as u32);
        }
    }

    #[test]
    fn gaps_end_at_tokens() {
        for (text, length) in
            [("", 0), ("x", 0), (" \u{a0}\t%", 4), ("# a\n  // b\r\n %", 13), ("# open", 6), ("/x", 0)]
        {
            assert_eq!(gap(text.as_bytes()), length, "{text:?}");
        }
        assert_eq!(trim_end("a\u{a0} \u{3000}\r".as_bytes()), b"a");
        assert_eq!(trim_end("\u{a0}".as_bytes()), b"");
    }
}
