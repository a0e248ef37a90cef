//! Splits the text of a check into plain text, `{{expressions}}`, `[[DEFINITIONS:of]]` and
//! `[[uses]]`.

use crate::translate::translate;
use regex_lite::Regex;

/// One part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Literal text.
    Text(String),
    /// An expression, in the spelling of the `regex-lite` crate.
    Expression(String),
    /// Defines a name by the match of an expression.
    Define(String, String),
    /// The value of the name.
    Use(String),
}

/// An error in a pattern, at a byte offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadPattern {
    pub(crate) at: usize,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl BadPattern {
    fn new(at: usize, message: impl Into<String>) -> BadPattern {
        BadPattern { at, message: message.into(), help: None }
    }

    fn help(mut self, help: &str) -> BadPattern {
        self.help = Some(help.to_owned());
        self
    }
}

/// Splits a pattern.
pub(crate) fn cut(pattern: &str) -> Result<Vec<Piece>, BadPattern> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        let rest = &pattern[at..];
        let length = if rest.starts_with("{{") {
            expression(rest, at, &mut pieces)?
        } else if rest.starts_with("[[") {
            variable(rest, at, &mut pieces)?
        } else {
            let ends = [rest.find("{{"), rest.find("[[")];
            let end = ends.into_iter().flatten().min().unwrap_or(rest.len());
            pieces.push(Piece::Text(rest[..end].to_owned()));
            end
        };
        at += length;
    }
    Ok(pieces)
}

/// `{{…}}` at the start of `rest`; returns its length.
fn expression(rest: &str, at: usize, pieces: &mut Vec<Piece>) -> Result<usize, BadPattern> {
    let end = rest.find("}}").ok_or_else(|| BadPattern::new(at, "`{{` without `}}`"))?;
    pieces.push(Piece::Expression(checked(&rest[2..end], at + 2)?));
    Ok(end + 2)
}

const LITERAL_BRACKETS: &str = "to match two brackets write `{{\\[\\[}}`, or use `CHECK{LITERAL}:`";

/// `[[…]]` at the start of `rest`; returns its length.
fn variable(rest: &str, at: usize, pieces: &mut Vec<Piece>) -> Result<usize, BadPattern> {
    let inner = &rest[2..];
    if inner.starts_with('#') || inner.starts_with('@') {
        let what = if inner.starts_with('#') { "numeric substitution `[[#…]]`" } else { "`[[@LINE]]`" };
        return Err(BadPattern::new(at, format!("{what} is not supported")).help(LITERAL_BRACKETS));
    }
    let end = closing(inner, at + 2)?;
    let (name, definition) = match inner[..end].split_once(':') {
        Some((name, definition)) => (name, Some(definition)),
        None => (&inner[..end], None),
    };
    if !is_name(name) {
        return Err(BadPattern::new(at + 2, format!("`{name}` is not a variable name")).help(LITERAL_BRACKETS));
    }
    pieces.push(match definition {
        Some(text) => Piece::Define(name.to_owned(), checked(text, at + 2 + name.len() + 1)?),
        None => Piece::Use(name.to_owned()),
    });
    Ok(end + 4)
}

/// The position of the `]]` that is not part of a bracket expression.
fn closing(inner: &str, at: usize) -> Result<usize, BadPattern> {
    let mut depth = 0;
    let mut chars = inner.char_indices();
    while let Some((offset, c)) = chars.next() {
        match c {
            ']' if depth == 0 && inner[offset..].starts_with("]]") => return Ok(offset),
            ']' if depth == 0 => return Err(BadPattern::new(at + offset, "missing `]`").help(LITERAL_BRACKETS)),
            ']' => depth -= 1,
            '[' => depth += 1,
            '\\' => drop(chars.next()),
            _ => {}
        }
    }
    Err(BadPattern::new(at - 2, "`[[` without `]]`").help(LITERAL_BRACKETS))
}

fn is_name(name: &str) -> bool {
    let name = name.strip_prefix('$').unwrap_or(name);
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    word && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// The translated expression, if it is valid.
pub(crate) fn checked(expression: &str, at: usize) -> Result<String, BadPattern> {
    let translated = translate(expression);
    match Regex::new(&translated) {
        Ok(_) => Ok(translated),
        Err(error) => Err(BadPattern::new(at, format!("bad regular expression: {error}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Piece, cut};

    #[test]
    fn all_kinds_of_pieces() {
        let pieces = cut("a {{b+}}[[X:%[a-z]+]] = [[X]]").unwrap();
        let expected = [
            Piece::Text("a ".into()),
            Piece::Expression("b+".into()),
            Piece::Define("X".into(), "%[a-z]+".into()),
            Piece::Text(" = ".into()),
            Piece::Use("X".into()),
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn mistakes_have_a_place() {
        for (pattern, at, message) in [
            ("ab {{c", 3, "`{{` without `}}`"),
            ("ab [[X", 3, "`[[` without `]]`"),
            ("ab [[X:a]b]]", 8, "missing `]`"),
            ("ab [[#X]]", 3, "numeric substitution `[[#…]]` is not supported"),
            ("ab [[@LINE]]", 3, "`[[@LINE]]` is not supported"),
            ("ab [[1, 2]]", 5, "`1, 2` is not a variable name"),
        ] {
            let error = cut(pattern).unwrap_err();
            assert_eq!((error.at, error.message.as_str()), (at, message), "{pattern}");
        }
        let error = cut("ab {{c(d}}").unwrap_err();
        assert_eq!(error.at, 5, "{error:?}");
        assert!(error.message.contains("group without closing"), "{error:?}");
    }
}
