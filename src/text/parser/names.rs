//! The ends of value names. PyTorch takes any text that is not all digits for a name, so `%x:y` and
//! `%a b` are names; people write `%x:Tensor` and `%x :Tensor`, where the type begins after the
//! colon.

use super::{Parser, Step, fault};
use crate::text::diagnostic::Diagnostic;
use crate::text::extents::{is_plain_name, type_extent};
use crate::types::spelling::{self, Seen};
use crate::types::{TypeKind, gaps};

impl<'a> Parser<'a> {
    /// A name in a definition: it ends before ` : `, `,`, ` =` or `)`. It may contain any other
    /// text.
    pub(super) fn defined_name(&mut self, end: u8) -> Step<&'a [u8]> {
        self.name_up_to(end, true)
    }

    /// A name in an operand list. `%x:int` is a value with a colon in its name if there is one.
    pub(super) fn used_name(&mut self) -> Step<&'a [u8]> {
        let start = self.cursor.at;
        let name = self.name_up_to(b')', true)?;
        if self.cursor.peek() != Some(b':') {
            return Ok(name);
        }
        let short = self.cursor.at;
        self.cursor.at = start;
        let long = self.name_up_to(b')', false)?;
        if self.frame().is_known(long) {
            return Ok(long);
        }
        self.cursor.at = short;
        Ok(name)
    }

    fn name_up_to(&mut self, end: u8, typed: bool) -> Step<&'a [u8]> {
        let sign = self.cursor.at - 1;
        // PyTorch's reader accepts blanks after the sign.
        self.cursor.blanks();
        let start = self.cursor.at;
        self.cursor.take_while(is_plain_name);
        while !self.name_ends_here(start, end, typed) {
            // Skip one character, whose last bytes may look like a blank.
            self.cursor.at += 1;
            self.cursor.take_while(|b| b & 0xc0 == 0x80);
        }
        self.name(sign, start)
    }

    fn name_ends_here(&self, start: usize, end: u8, typed: bool) -> bool {
        let rest = self.cursor.rest();
        let blanks = gaps::blanks(rest);
        let inside = self.cursor.at > start;
        let rest = &rest[blanks..];
        match rest.first() {
            None | Some(b'\n') => true,
            Some(b':') => {
                let gap = gaps::gap(&rest[1..]);
                gap > 0 || rest.len() == 1 || inside && typed && begins_type(&rest[1..], end, blanks > 0)
            }
            Some(b',') => {
                let after = &rest[1..];
                gaps::gap(after) > 0 || matches!(after.first(), None | Some(b'%' | b')'))
            }
            Some(b'=') => end == b'=',
            Some(b'#' | b'%') => inside && blanks > 0,
            Some(&b) => b == end,
        }
    }

    fn name(&mut self, sign: usize, start: usize) -> Step<&'a [u8]> {
        let name = gaps::trim_end(&self.cursor.text[start..self.cursor.at]);
        match name.last() {
            None => fault(sign..sign + 1, "value without a name", "expected a name or a number after `%`"),
            // Printed with a blank after it, the name would end before its last byte.
            Some(b':' | b',') => {
                fault(start..start + name.len(), "ambiguous end of this name", "the name ends in `:` or `,`")
            }
            _ => Ok(name),
        }
    }

    /// `%y Tensor = …` defines a value named `y Tensor`, which PyTorch could print; it is almost
    /// certainly a missing colon.
    pub(super) fn doubt_name(&mut self, at: usize, name: &[u8], typed: bool) {
        if typed || name.iter().all(|&b| is_plain_name(b)) {
            return;
        }
        let words = String::from_utf8_lossy(name);
        let last = words.rsplit([' ', '\u{a0}', '\t']).next().unwrap_or_default();
        if last.len() > 1 && last.len() < words.len() && spelling::parse_all(last.as_bytes()).is_ok() {
            let message = format!("`%{words}` has no type");
            let label = "is a `:` missing before the type?";
            self.report(Diagnostic::warning(at..at + 1 + name.len(), message, label));
        }
    }
}

/// Whether the text directly after a colon is a type that ends the definition. A single lower-case
/// word that is not a concrete type may be a type variable or, directly after the name, the rest of
/// the name.
fn begins_type(text: &[u8], end: u8, blank_before: bool) -> bool {
    let over = |at: usize| {
        let rest = &text[at + gaps::gap(&text[at..])..];
        rest.first().is_none_or(|&b| b == end || matches!(b, b',' | b'%'))
    };
    match spelling::parse(text, &mut Seen::default()) {
        Ok((ty, used)) => (blank_before || !matches!(ty.kind(), TypeKind::Var(_))) && over(used),
        // A misspelt type: taking it for a part of the name would hide the error.
        Err(_) => matches!(text.first(), Some(b'A'..=b'Z' | b'(')) && over(type_extent(text)),
    }
}
