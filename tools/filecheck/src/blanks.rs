//! Runs of blanks become one, as LLVM does it, with a way back to the original columns.

/// A text with canonical blanks that remembers where its bytes came from.
pub(crate) struct Canonical<'a> {
    /// The text to match against.
    pub(crate) text: String,
    original: &'a str,
    origin: Option<Vec<usize>>,
}

impl<'a> Canonical<'a> {
    /// The text as it stands.
    pub(crate) fn verbatim(original: &'a str) -> Canonical<'a> {
        Canonical { text: original.to_owned(), original, origin: None }
    }

    /// One blank for each run of blanks and tabs (unless `strict`), and `\n` for `\r\n`.
    pub(crate) fn new(original: &'a str, strict: bool) -> Canonical<'a> {
        let bytes = original.as_bytes();
        let mut text = String::with_capacity(original.len());
        let mut origin = Vec::with_capacity(original.len() + 1);
        for (at, c) in original.char_indices() {
            let blank = matches!(c, ' ' | '\t') && !strict;
            let doubled = blank && at > 0 && matches!(bytes[at - 1], b' ' | b'\t');
            let dos = c == '\r' && bytes.get(at + 1) == Some(&b'\n');
            if doubled || dos {
                continue;
            }
            text.push(if blank { ' ' } else { c });
            origin.extend(at..at + c.len_utf8());
        }
        origin.push(original.len());
        Canonical { text, original, origin: Some(origin) }
    }

    /// Line and column, both from 1, of an offset into `text`.
    pub(crate) fn place(&self, offset: usize) -> (usize, usize) {
        let at = match &self.origin {
            Some(origin) => origin[offset],
            None => offset,
        };
        let before = &self.original[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    /// The lines as they were before anything was joined.
    pub(crate) fn lines(&self) -> Vec<&'a str> {
        self.original.lines().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Canonical;

    #[test]
    fn runs_of_blanks_are_one_and_columns_are_the_original_ones() {
        let canonical = Canonical::new("a \t b\r\n  c", false);
        assert_eq!(canonical.text, "a b\n c");
        assert_eq!(canonical.place(2), (1, 5));
        assert_eq!(canonical.place(5), (2, 3));
        assert_eq!(canonical.place(6), (2, 4));
    }

    #[test]
    fn strict_keeps_blanks_but_not_carriage_returns() {
        assert_eq!(Canonical::new("a  b\r\n", true).text, "a  b\n");
    }
}
