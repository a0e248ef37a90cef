//! The extents of names, kinds, types and brackets.

#[inline]
pub(super) fn is_plain_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')
}

#[inline]
pub(super) fn is_kind(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.')
}

/// The latest end of a type: a blank, a comma or a bracket that closes an outer one.
#[inline]
pub(super) fn type_extent(text: &[u8]) -> usize {
    let mut depth = 0usize;
    for (i, &b) in text.iter().enumerate() {
        match b {
            b'(' | b'[' | b'<' => depth += 1,
            b')' | b']' | b'>' if depth == 0 => return i,
            b')' | b']' | b'>' => depth -= 1,
            b',' | b' ' | b'=' | b'\r' | b'\t' | b'%' if depth == 0 => return i,
            b'\n' => return i,
            _ => {}
        }
    }
    text.len()
}

/// The index of the bracket that closes the first one, on the same line.
pub(super) fn closing(text: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\n' => return None,
            b'"' | b'\'' => at += super::quoted::parse(&text[at..]).ok()?.1 - 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}
