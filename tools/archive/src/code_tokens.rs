//! Tokens of the serialized code: the part of Python that PyTorch's printer writes.
//!
//! Bytes that two readers could take differently are refused: carriage returns, NUL, tabs, a byte
//! order mark. Nesting is bounded, because PyTorch's own parser recurses.

use crate::refusal::{Refusal, Result, refuse, shown};

/// Brackets, blocks and signs within each other.
const DEEPEST: usize = 100;
/// Tokens of a logical line; long lists of constants have some ten thousand.
const LONGEST: usize = 100_000;

/// A token: what it is, and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name or a keyword.
    Name(&'a str),
    /// A number without its sign.
    Number(&'a str),
    /// A string with its quotes.
    Text(&'a str),
    /// Punctuation.
    Mark(&'a str),
}

impl<'a> Token<'a> {
    /// The name, if it is one.
    pub fn name(self) -> Option<&'a str> {
        if let Token::Name(name) = self { Some(name) } else { None }
    }

    /// The text, as it is written.
    pub fn text(self) -> &'a str {
        match self {
            Token::Name(text) | Token::Number(text) | Token::Text(text) | Token::Mark(text) => text,
        }
    }

    /// Whether it is this mark.
    pub fn is(self, mark: &str) -> bool {
        self == Token::Mark(mark)
    }
}

/// A logical line: brackets join lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The number of its first line, from 1.
    pub number: usize,
    /// The number of blocks around it.
    pub level: usize,
    /// Its tokens.
    pub tokens: Vec<Token<'a>>,
}

impl<'a> Line<'a> {
    /// Token `at`, if there is one.
    pub fn get(&self, at: usize) -> Option<Token<'a>> {
        self.tokens.get(at).copied()
    }

    /// Whether the line has this mark at this place.
    pub fn has(&self, at: usize, mark: &str) -> bool {
        self.get(at).is_some_and(|token| token.is(mark))
    }
}

/// The logical lines of a file.
///
/// # Errors
/// Something that PyTorch does not print, or that parsers could take differently.
pub fn lines(bytes: &[u8]) -> Result<Vec<Line<'_>>> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return refuse("byte order mark in code");
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Refusal::new("code is not UTF-8"))?;
    for (byte, what) in [('\0', "NUL byte"), ('\r', "carriage return"), ('\t', "tab")] {
        if let Some(at) = text.find(byte) {
            return refuse(format!("{what} in code, at byte {at}"));
        }
    }
    let mut lexer = Lexer { text, at: 0, number: 1, columns: vec![0], depth: 0, opens: false };
    let mut lines = Vec::new();
    while let Some(line) = lexer.line().map_err(|refusal| refusal.at_line(lexer.number))? {
        lines.push(line);
    }
    Ok(lines)
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    number: usize,
    /// Columns of the open blocks.
    columns: Vec<usize>,
    depth: usize,
    /// Whether the line before opens a block.
    opens: bool,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next logical line; none at the end.
    fn line(&mut self) -> Result<Option<Line<'a>>> {
        let column = self.blank_lines();
        if self.rest().is_empty() {
            return Ok(None);
        }
        let level = self.level(column)?;
        let mut line = Line { number: self.number, level, tokens: Vec::new() };
        while let Some(token) = self.token()? {
            line.tokens.push(token);
            if line.tokens.len() > LONGEST {
                return refuse("too many nodes in one statement");
            }
        }
        check_signs(&line)?;
        self.opens = line.tokens.last().is_some_and(|token| token.is(":"));
        Ok(Some(line))
    }

    /// Skips blank lines and comments; the column of what follows.
    fn blank_lines(&mut self) -> usize {
        loop {
            let rest = self.rest();
            let column = rest.len() - rest.trim_start_matches(' ').len();
            let after = &rest[column..];
            let comment = if after.starts_with('#') { after.find('\n').unwrap_or(after.len()) } else { 0 };
            if !after[comment..].starts_with('\n') {
                self.at += column + comment;
                return column;
            }
            self.at += column + comment + 1;
            self.number += 1;
        }
    }

    fn level(&mut self, column: usize) -> Result<usize> {
        let before = self.columns.len();
        while self.columns.last().is_some_and(|open| *open > column) {
            self.columns.pop();
        }
        let known = self.columns.last() == Some(&column);
        if !known && self.columns.len() < before {
            return refuse("indentation matches no outer level");
        }
        if known == self.opens {
            return refuse(if known { "a block is missing" } else { "a block without a header" });
        }
        if !known {
            self.columns.push(column);
        }
        if self.columns.len() > DEEPEST {
            return refuse("blocks are nested too deep");
        }
        Ok(self.columns.len() - 1)
    }

    /// The next token of the logical line; none at its end.
    fn token(&mut self) -> Result<Option<Token<'a>>> {
        loop {
            let Some(first) = self.rest().chars().next() else { return self.end_of_text() };
            match first {
                ' ' => self.at += 1,
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                '\n' => {
                    self.at += 1;
                    self.number += 1;
                    if self.depth == 0 {
                        return Ok(None);
                    }
                }
                '"' | '\'' => return self.string(first).map(Some),
                '0'..='9' => return self.number().map(Some),
                _ if first.is_alphanumeric() || first == '_' => {
                    let end = |c: char| !(c.is_alphanumeric() || c == '_');
                    let name = self.take(self.rest().find(end).unwrap_or(self.rest().len()));
                    return Ok(Some(Token::Name(name)));
                }
                _ => return self.mark().map(Some),
            }
        }
    }

    fn end_of_text(&self) -> Result<Option<Token<'a>>> {
        if self.depth == 0 { Ok(None) } else { refuse("a bracket is not closed") }
    }

    fn take(&mut self, count: usize) -> &'a str {
        let taken = &self.rest()[..count];
        self.at += count;
        taken
    }

    fn string(&mut self, quote: char) -> Result<Token<'a>> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == quote => return Ok(Token::Text(self.take(at + 1))),
                _ => {}
            }
        }
        refuse("string is not closed")
    }

    /// `12`, `1.5e-05`, `2.j`: what begins with a digit.
    fn number(&mut self) -> Result<Token<'a>> {
        let rest = self.rest();
        let mut end = 0;
        for (at, c) in rest.char_indices() {
            let sign = matches!(c, '+' | '-') && matches!(rest.as_bytes()[at - 1], b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || c == '.' || sign) {
                break;
            }
            end = at + 1;
        }
        let word = self.take(end);
        let real = word.trim_end_matches('j');
        match real.parse::<f64>() {
            Ok(number) if number.is_infinite() => refuse(format!("float out of range: {}", shown(word))),
            Ok(_) => Ok(Token::Number(word)),
            Err(_) => refuse(format!("malformed number {}", shown(word))),
        }
    }

    fn mark(&mut self) -> Result<Token<'a>> {
        let rest = self.rest();
        if rest.starts_with("->") {
            return Ok(Token::Mark(self.take(2)));
        }
        if rest.starts_with(":=") {
            return refuse("unknown token `:=`");
        }
        match rest.as_bytes()[0] {
            b'(' | b'[' | b'{' => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return refuse("expressions are nested too deep");
                }
            }
            b')' | b']' | b'}' if self.depth == 0 => return refuse("a bracket is closed that is not open"),
            b')' | b']' | b'}' => self.depth -= 1,
            b':' | b',' | b'.' | b'=' | b'-' | b'+' | b'*' => {}
            _ => {
                let first: String = rest.chars().take(1).collect();
                return refuse(format!("unknown token {}", shown(&first)));
            }
        }
        Ok(Token::Mark(self.take(1)))
    }
}

/// Refuses long runs of signs, over which PyTorch's parser recurses.
fn check_signs(line: &Line<'_>) -> Result<()> {
    let mut run = 0;
    for token in &line.tokens {
        let sign = matches!(token, Token::Mark("-" | "+") | Token::Name("not"));
        run = if sign { run + 1 } else { 0 };
        if run > DEEPEST {
            return refuse("expressions are nested too deep");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logical_lines_have_levels_and_tokens() {
        let code = b"def f(x: Tensor,\n    y: int) -> Tensor:\n  return torch.add(x, -1.5e-05, alpha=y)\n";
        let lines = lines(code).expect("code");
        assert_eq!(lines.iter().map(|line| (line.number, line.level)).collect::<Vec<_>>(), [(1, 0), (3, 1)]);
        let text: Vec<&str> = lines[1].tokens.iter().map(|token| token.text()).collect();
        assert_eq!(text.join(" "), "return torch . add ( x , - 1.5e-05 , alpha = y )");
    }

    #[test]
    fn ambiguous_code_is_refused() {
        let reason = |code: &str| lines(code.as_bytes()).expect_err(code).to_string();
        assert_eq!(reason("\u{feff}a = 1\n"), "byte order mark in code");
        assert_eq!(reason("a = 1\r\n"), "carriage return in code, at byte 5");
        assert_eq!(reason("a = \"b\n"), "line 1: string is not closed");
        assert_eq!(reason("if a:\n    b = 1\n  c = 2\n"), "line 3: indentation matches no outer level");
        assert_eq!(reason("a = 1e999\n"), "line 1: float out of range: `1e999`");
        assert_eq!(reason("(a := 1)\n"), "line 1: unknown token `:=`");
        assert!(reason(&format!("a = {}b\n", "-".repeat(5000))).contains("too deep"));
        assert!(reason(&format!("a = {}b\n", "(".repeat(5000))).contains("too deep"));
    }
}
