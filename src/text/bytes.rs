//! A cursor over the bytes of a file.

use crate::types::gaps;

/// Text and position. Positions are byte offsets into the whole file.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Skips `token` if the text continues with it.
    #[inline]
    pub(super) fn eat(&mut self, token: &[u8]) -> bool {
        let hit = self.rest().starts_with(token);
        if hit {
            self.at += token.len();
        }
        hit
    }

    /// Skips blanks of this line.
    #[inline]
    pub(super) fn blanks(&mut self) {
        self.at += gaps::blanks(self.rest());
    }

    /// Skips blanks, line ends and comments: a statement may continue on the next line between any
    /// two tokens.
    #[inline]
    pub(super) fn space(&mut self) {
        if matches!(self.peek(), Some(b'!'..=b'~')) && !matches!(self.peek(), Some(b'#' | b'/')) {
            return;
        }
        self.at += gaps::gap(self.rest());
    }

    /// Skips [`Cursor::space`] and then `token`; the position is unchanged if the next token is
    /// another one.
    pub(super) fn eat_after_space(&mut self, token: &[u8]) -> bool {
        let start = self.at;
        self.space();
        let hit = self.eat(token);
        if !hit {
            self.at = start;
        }
        hit
    }

    /// Skips blank lines, comment lines and lone closing braces: everything allowed between
    /// statements.
    pub(super) fn next_statement(&mut self) {
        self.space();
        while self.eat(b"}") {
            self.space();
        }
    }

    /// The offset of the end of the line, line end excluded.
    pub(super) fn line_end(&self) -> usize {
        memchr::memchr(b'\n', self.rest()).map_or(self.text.len(), |n| self.at + n)
    }

    /// Skips the rest of this line and its line end.
    pub(super) fn skip_line(&mut self) {
        self.at = (self.line_end() + 1).min(self.text.len());
    }

    /// Skips and returns the longest run of bytes for which `wanted` holds.
    #[inline]
    pub(super) fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.at < self.text.len() && wanted(self.text[self.at]) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }
}
